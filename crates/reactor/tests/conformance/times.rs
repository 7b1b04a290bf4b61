//! Clients that do not take what they get: how long they are waited for, and what does not count as being idle.

use std::io::ErrorKind;
use std::thread::sleep;
use std::time::{Duration, Instant};

use threadgauge_reactor::BuiltIn;

use crate::client::{Client, pattern};
use crate::http;
use crate::server::Running;
use crate::{Case, Pair};

/// Those for this protocol.
pub fn cases(protocol: BuiltIn) -> &'static [Case] {
    match protocol {
        BuiltIn::Null => &[],
        BuiltIn::Chat => MEMBERS,
        BuiltIn::Http => READERS,
        _ => ASKERS,
    }
}

/// Where a client is answered.
const ASKERS: &[Case] = &[
    (
        "who_asks_and_takes_nothing_in_the_write_time_is_closed",
        asks_and_takes_nothing,
    ),
    ("who_is_not_read_from_is_not_idle", not_read_from),
];

/// The same, and where answers are large.
const READERS: &[Case] = &[
    ASKERS[0],
    ASKERS[1],
    (
        "who_reads_slowly_without_a_pause_is_waited_for",
        asks_and_reads_slowly,
    ),
];

/// Where clients hear each other.
const MEMBERS: &[Case] = &[
    (
        "a_member_that_takes_nothing_in_the_write_time_is_closed",
        hears_and_takes_nothing,
    ),
    ("who_is_held_up_by_others_is_not_idle", held_up),
    (
        "a_member_that_reads_slowly_without_a_pause_is_waited_for",
        hears_and_reads_slowly,
    ),
];

/// So little that it is soon more than may wait.
const LITTLE: &str = "output_limit=65536";

/// How long a client that reads slowly may take nothing, on a machine with a CPU for it.
const WRITE_TIME: Duration = Duration::from_millis(400);

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Requests whose answers are more than sockets and limit can hold together, and how long a request and an answer are.
fn requests(protocol: BuiltIn) -> (Vec<u8>, usize, usize) {
    const MUCH: usize = 12_000_000;
    let (request, answer) = match protocol {
        BuiltIn::Echo => (pattern(1_000), 1_000),
        BuiltIn::Bytes => (b"16384 keep\n".to_vec(), 16_384),
        BuiltIn::Http => (http::request(16_384).into_bytes(), http::answer(16_384).len()),
        BuiltIn::Numbered => (format!("1 0 {:0990}\n", 0).into_bytes(), 993),
        BuiltIn::Groups => (b"PING\r\n".to_vec(), 6),
        BuiltIn::Null | BuiltIn::Chat => unreachable!("they answer nothing"),
    };
    (request.repeat(MUCH / answer), request.len(), answer)
}

/// Sends as much of these bytes as goes, until it is all of it or `done` says so after a pause in which nothing went.
fn send_on(client: &mut Client, bytes: &[u8], mut done: impl FnMut() -> bool) -> usize {
    let mut sent = 0;
    while sent < bytes.len() {
        match client.try_send_at_once(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if done() {
                    break;
                }
                sleep(Duration::from_millis(1));
            }
            // It was closed; by the end of the server's own deadline at the latest.
            Err(_) => break,
        }
    }
    sent
}

/// It asks on, however long it has not been answered, and is closed all the same.
fn asks_and_takes_nothing(pair: Pair) {
    let server = pair.serve(&[LITTLE, "write_timeout_ms=50"]);
    let mut client = server.connect();
    client.take_little();
    // It asks again until it is closed.
    let (requests, ..) = requests(pair.protocol);
    while send_on(&mut client, &requests, || false) == requests.len() {}
    client.expect_no_server();
    let counted = server.stop();
    counted.expect("took nothing in time", 1);
    assert!(counted.of("wake_ups") < 50_000, "it spins: {counted:?}");
}

/// It gets all its answers, though it took none for ten times the idle time.
fn not_read_from(pair: Pair) {
    where_there_is_a_cpu(Duration::from_millis(50), |limit| {
        let server = pair.serve(&[LITTLE, &idle_time(limit)]);
        let began = Instant::now();
        let mut client = server.connect();
        client.take_little();
        let (requests, request, answer) = requests(pair.protocol);
        let mut full = None;
        let mut quiet = || full.get_or_insert_with(Instant::now).elapsed() > 10 * limit;
        let sent = send_on(&mut client, &requests, &mut quiet);
        while !quiet() {
            sleep(Duration::from_millis(1));
        }
        if full.is_some_and(|full| full - began > limit / 2) {
            return false;
        }
        let listened_to = Instant::now();
        let mut left = sent / request * answer;
        if pair.protocol == BuiltIn::Groups {
            client.expect_info();
        }
        while left > 0 {
            let came = client.read(left.min(65_536)).len();
            if came == 0 {
                let silent = listened_to.elapsed();
                assert!(silent > limit / 2, "it was ended {left} bytes before the end");
                return false;
            }
            left -= came;
        }
        drop(client);
        let counted = server.stop();
        assert!(counted.of("wake_ups") < 50_000, "it spins: {counted:?}");
        true
    });
}

/// Its kernel acknowledges in steps, and the server's socket takes more in much longer ones, longer than the write
/// time: it is no client that takes nothing.
fn asks_and_reads_slowly(pair: Pair) {
    const PAGES: usize = 800;
    where_there_is_a_cpu(WRITE_TIME, |limit| {
        let server = pair.serve(&[&write_time(limit)]);
        let mut client = server.connect();
        client.take_little();
        client.send(http::request(16_384).repeat(PAGES));
        let all = read_slowly(&mut client, PAGES * http::answer(16_384).len(), limit);
        drop(client);
        server.stop();
        all
    });
}

/// The same of what others say.
fn hears_and_reads_slowly(pair: Pair) {
    const LINES: usize = 13_000;
    where_there_is_a_cpu(WRITE_TIME, |limit| {
        let server = pair.serve(&[LITTLE, &write_time(limit)]);
        let [mut slow, mut speaker] = [(); 2].map(|()| join(&server));
        slow.take_little();
        let lines = format!("{:0999}\n", 0).repeat(LINES);
        let all = std::thread::scope(|scope| {
            scope.spawn(|| speaker.send(&lines));
            let all = read_slowly(&mut slow, lines.len(), limit);
            drop(slow);
            all
        });
        server.stop();
        all
    });
}

fn write_time(limit: Duration) -> String {
    format!("write_timeout_ms={}", limit.as_millis())
}

fn idle_time(limit: Duration) -> String {
    format!("idle_ms={}", limit.as_millis())
}

/// Tries with longer and longer times, from `first` on, until this program has got a CPU often enough to do what it is
/// to do in that time: until `try_with` says so.
fn where_there_is_a_cpu(first: Duration, try_with: impl Fn(Duration) -> bool) {
    let mut limit = first;
    while !try_with(limit) {
        limit *= 2;
        assert!(limit < PATIENCE, "there was no CPU to read with");
    }
}

/// Reads a little all the time for three times as long as one may take nothing, and then the rest. Whether that went: a
/// connection that is ended before is a fault, unless this program has made a pause.
fn read_slowly(client: &mut Client, bytes: usize, limit: Duration) -> bool {
    const PIECE: usize = 4_096;
    /// In each write time: less than makes the server's socket take more.
    const READ: usize = 400_000;
    let (mut left, mut read) = (bytes, 0);
    let (began, mut last, mut pause) = (Instant::now(), Instant::now(), Duration::ZERO);
    while left > 0 {
        let is_slow = began.elapsed() < 3 * limit;
        let due = (began.elapsed().as_secs_f64() / limit.as_secs_f64() * READ as f64) as usize;
        if is_slow && read >= due {
            sleep(Duration::from_millis(1));
            continue;
        }
        let came = client.read(left.min(if is_slow { PIECE } else { 65_536 })).len();
        pause = pause.max(std::mem::replace(&mut last, Instant::now()).elapsed());
        (read, left) = (read + came, left - came);
        if came == 0 {
            assert!(pause > limit / 8, "it was ended {left} bytes before the end");
            return false;
        }
    }
    true
}

fn join(server: &Running) -> Client {
    let mut client = server.connect();
    client.send("join x\n");
    client.expect("joined x\n");
    client
}

/// The others wait for it as long as that, and then hear on.
fn hears_and_takes_nothing(pair: Pair) {
    let server = pair.serve(&[LITTLE, "write_timeout_ms=50"]);
    let stuck = join(&server);
    stuck.take_little();
    let [mut speaker, mut hearer] = [(); 2].map(|()| join(&server));
    let lines = format!("{:0999}\n", 0).repeat(50);
    for _ in 0..400 {
        speaker.send(&lines);
        hearer.expect(&lines);
    }
    stuck.expect_no_server();
    server.held_little(400 * lines.len());
    server.stop().expect("took nothing in time", 1);
}

/// Who hears says something now and then, so that it is not idle itself.
fn held_up(pair: Pair) {
    where_there_is_a_cpu(Duration::from_millis(1_000), |limit| {
        let server = pair.serve(&[LITTLE, &idle_time(limit)]);
        let (mut silent, mut last) = (Duration::ZERO, Instant::now());
        let mut slow = join(&server);
        slow.take_little();
        let mut speaker = join(&server);
        let mut speak_up = |slow: &mut Client| {
            let _ = slow.try_send(b"still here\n");
            silent = silent.max(std::mem::replace(&mut last, Instant::now()).elapsed());
            silent
        };
        let line = format!("{:0999}\n", 0).into_bytes();
        let mut held_up = None;
        let said = send_on(&mut speaker, &line.repeat(20_000), || {
            sleep(Duration::from_millis(10));
            speak_up(&mut slow);
            held_up.get_or_insert_with(Instant::now).elapsed() > 2 * limit
        });
        let listened_to = Instant::now();
        let mut left = said / line.len() * line.len();
        while left > 0 {
            let silent = speak_up(&mut slow);
            let came = slow.read(left.min(65_536)).len();
            if came == 0 {
                assert!(silent > limit / 2, "it was ended {left} bytes before the end");
                return false;
            }
            left -= came;
        }
        // The rest of a line, and another.
        let begun = said % line.len();
        let whole = if begun > 0 { &line[..] } else { &[] };
        let _ = speaker.try_send(&[&whole[begun..], b"and this\n"].concat());
        let rest = [whole, b"and this\n"].concat();
        let is_all = slow.read_up_to(rest.len()) == rest;
        assert!(is_all || listened_to.elapsed() > limit / 2, "nobody goes on");
        server.stop();
        is_all
    });
}
