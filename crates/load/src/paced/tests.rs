//! Clients that take their time, against servers of a few lines.

use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use super::*;
use crate::exchange::{Bytes, Echo};
use crate::testing::{PATIENCE, Until, serve};

fn clients(target: SocketAddr, connections: usize, timeout: Duration) -> Clients {
    Clients {
        target,
        connections: NonZeroUsize::new(connections).unwrap(),
        pipeline: NonZeroUsize::MIN,
        timeout,
        go_on: false,
    }
}

fn paced(target: SocketAddr, connections: usize, kind: ClientKind, timeout: Duration) -> Paced<Bytes> {
    Paced::new(Bytes::kept(1_000), kind, clients(target, connections, timeout), 1)
}

/// Until `enough`, with a bound.
fn run(paced: &mut Paced<Bytes>, enough: impl Fn() -> bool) -> Record {
    paced.run(Ramp::hold(PATIENCE), u64::MAX, &mut Until::new(enough))
}

/// A server that answers each line with a thousand bytes of the alphabet.
fn alphabet(mut stream: TcpStream) {
    let answer: Vec<u8> = (b'a'..=b'z').cycle().take(1_000).collect();
    let mut byte = [0];
    while stream.read_exact(&mut byte).is_ok() {
        if byte == *b"\n" && stream.write_all(&answer).is_err() {
            return;
        }
    }
}

#[test]
fn a_slow_reader_has_its_answers_piece_by_piece() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let at = serve(move |mut stream| {
        let answer: Vec<u8> = (b'a'..=b'z').cycle().take(1_000).collect();
        let mut line = [0; 10];
        // "1000 keep" and its end.
        while stream.read_exact(&mut line).is_ok() {
            assert_eq!(&line, b"1000 keep\n");
            counted.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    });
    let kind = ClientKind::SlowReader {
        bytes_per_second: 20_000.0,
        think: Duration::ZERO,
    };
    let record = run(&mut paced(at, 3, kind, PATIENCE), || {
        asked.load(Ordering::Relaxed) >= 12
    });
    assert!(
        record.answered >= 3 && record.failures.total() == 0,
        "{:?}",
        record.failures
    );
    // Of a thousand bytes at 20,000 a second a look takes 400 at most.
    let least = record.service.ns(0.5).or(record.service.most_ns()).unwrap();
    assert!(least >= 2 * READ_EVERY_NS, "{least}");
    assert_eq!(record.connects, 3);
}

#[test]
fn what_comes_to_a_slow_reader_beyond_its_answer_is_counted() {
    let reader = ClientKind::SlowReader {
        bytes_per_second: 100_000.0,
        think: Duration::from_millis(1),
    };
    let answers = |more: &'static [u8], later: bool| {
        move |mut stream: TcpStream| {
            let answer: Vec<u8> = (b'a'..=b'z').cycle().take(1_000).collect();
            let mut line = [0; 10];
            while stream.read_exact(&mut line).is_ok() {
                let whole = match later {
                    true => stream.write_all(&answer).and_then(|()| stream.write_all(more)),
                    false => stream.write_all(&[&answer, more].concat()),
                };
                if whole.is_err() {
                    return;
                }
            }
        }
    };
    for later in [false, true] {
        let at = serve(answers(b"a", later));
        let mut looks = 0;
        let mut until = Until::new(move || {
            looks += 1;
            looks > 40
        });
        let record = paced(at, 2, reader, PATIENCE).run(Ramp::hold(PATIENCE), u64::MAX, &mut until);
        assert!(record.failures.of(Failure::Unasked) > 0, "{:?}", record.failures);
        assert!(record.answered > 0, "{:?}", record.failures);
        let of_requests = record.answered + record.failures.total() + record.unfinished;
        assert!(record.sent <= of_requests, "{record:?}");
    }
    // What is there before anything was asked.
    let at = serve(|mut stream| stream.write_all(b"220 here\r\n").unwrap_or(()));
    let (mut paced, bound, mut watch) = (paced(at, 1, reader, PATIENCE), Bound::new(1), ());
    let mut recorder = Recorder::begin(Ramp::hold(PATIENCE), None, &mut watch);
    let start_ns = recorder.start_ns();
    look(&mut paced, start_ns, &bound, &mut recorder);
    let deadline = Instant::now() + PATIENCE;
    let stream = paced.clients[0].stream.as_ref().unwrap();
    while stream.peek(&mut [0; 20]).ok() != Some(10) {
        assert!(Instant::now() < deadline, "no greeting comes");
        thread::yield_now();
    }
    let looked = paced.look(0, start_ns + MS, &bound, &mut recorder);
    assert!(matches!(looked, Next::Over(Failure::Unasked, _)));
}

/// What one look at the only connection came to: when the next is, and how many bytes were read.
fn look(paced: &mut Paced<Bytes>, now_ns: u64, bound: &Bound, recorder: &mut Recorder<'_>) -> (u64, u64) {
    let before = recorder.record.bytes_in;
    let next_ns = match paced.look(0, now_ns, bound, recorder) {
        Next::At(at_ns) => at_ns - now_ns,
        Next::Over(kind, _) => panic!("{kind:?}"),
    };
    (next_ns, recorder.record.bytes_in - before)
}

/// A server that answers as [`alphabet`], each time that it may.
fn alphabet_at_a_word() -> (SocketAddr, Sender<()>) {
    let (may, word) = channel();
    let word = Arc::new(Mutex::new(word));
    let at = serve(move |mut stream| {
        let mut line = [0; "1000 keep\n".len()];
        while stream.read_exact(&mut line).is_ok() && word.lock().unwrap().recv().is_ok() {
            let answer: Vec<u8> = (b'a'..=b'z').cycle().take(1_000).collect();
            stream.write_all(&answer).unwrap();
        }
    });
    (at, may)
}

/// Looks at it, at one moment, until it has asked, and waits until the answer is there.
fn asks(paced: &mut Paced<Bytes>, now_ns: u64, bound: &Bound, recorder: &mut Recorder<'_>, may: &Sender<()>) {
    let deadline = Instant::now() + PATIENCE;
    while !paced.clients[0].is_made || paced.clients[0].sent == 0 {
        assert!(Instant::now() < deadline, "it does not ask");
        look(paced, now_ns, bound, recorder);
    }
    may.send(()).unwrap();
    let stream = paced.clients[0].stream.as_ref().unwrap();
    while stream.peek(&mut [0; 2_000]).ok() != Some(1_000) {
        assert!(Instant::now() < deadline, "no answer comes");
        thread::yield_now();
    }
}

const MS: u64 = 1_000_000;

#[test]
fn a_look_reads_what_the_rate_allows_and_the_next_request_is_after_a_thought() {
    let kind = ClientKind::SlowReader {
        bytes_per_second: 10_000.0,
        think: Duration::from_millis(50),
    };
    let (at, may) = alphabet_at_a_word();
    let (mut paced, bound, mut watch) = (paced(at, 1, kind, PATIENCE), Bound::new(2), ());
    let mut recorder = Recorder::begin(Ramp::hold(PATIENCE), None, &mut watch);
    let start_ns = recorder.start_ns();
    asks(&mut paced, start_ns, &bound, &mut recorder, &may);
    for nth in 1..5 {
        let looked = look(&mut paced, start_ns + nth * 20 * MS, &bound, &mut recorder);
        assert_eq!(looked, (20 * MS, 200), "a fiftieth of a second");
    }
    assert_eq!((recorder.record.answered, recorder.record.sent), (0, 1));
    let looked = look(&mut paced, start_ns + 100 * MS, &bound, &mut recorder);
    assert_eq!(looked, (50 * MS, 200), "after a thought");
    assert_eq!((recorder.record.answered, recorder.record.sent), (1, 2));
    // Its time is that until the last byte was read.
    let mean_ms = recorder.record.good.mean_ns().map(|ns| (ns / 1e6).round());
    assert_eq!(mean_ms, Some(100.0));
    // The second is the last that may be asked, and is read as the first.
    asks(&mut paced, start_ns + 150 * MS, &bound, &mut recorder, &may);
    for nth in 1..=5 {
        look(
            &mut paced,
            start_ns + (150 + nth * 20) * MS,
            &bound,
            &mut recorder,
        );
    }
    let record = &recorder.record;
    assert_eq!((record.answered, record.sent, record.failures.total()), (2, 2, 0));
    assert_eq!(paced.clients[0].number, 2);
}

#[test]
fn each_rate_is_kept() {
    for rate in [
        1.0,
        5.0,
        49.0,
        74.0,
        75.0,
        2_048.0,
        819_200.0,
        1e6,
        ClientKind::MOST_OF_A_SLOW_READER,
    ] {
        let (bytes, every_ns) = pace(rate);
        let kept = bytes as f64 * 1e9 / every_ns as f64;
        assert!((kept / rate - 1.0).abs() < 1e-6, "{rate}: {kept}");
        assert!(
            bytes == 1 || every_ns.abs_diff(READ_EVERY_NS) <= READ_EVERY_NS / 2,
            "{rate}: {every_ns}"
        );
    }
}

#[test]
fn the_slowest_reads_a_byte_at_a_time() {
    let kind = ClientKind::SlowReader {
        bytes_per_second: 5.0,
        think: Duration::ZERO,
    };
    let (at, may) = alphabet_at_a_word();
    let (mut paced, bound, mut watch) = (paced(at, 1, kind, PATIENCE), Bound::new(1), ());
    let mut recorder = Recorder::begin(Ramp::hold(PATIENCE), None, &mut watch);
    let start_ns = recorder.start_ns();
    asks(&mut paced, start_ns, &bound, &mut recorder, &may);
    let looked = look(&mut paced, start_ns + MS, &bound, &mut recorder);
    assert_eq!(looked, (200 * MS, 1));
}

#[test]
fn who_is_idle_is_looked_at_now_and_then() {
    let (at, _may) = alphabet_at_a_word();
    let (mut paced, bound, mut watch) = (paced(at, 1, ClientKind::Idle, PATIENCE), Bound::new(1), ());
    let mut recorder = Recorder::begin(Ramp::hold(PATIENCE), None, &mut watch);
    let start_ns = recorder.start_ns();
    let deadline = Instant::now() + PATIENCE;
    while !paced.clients.first().is_some_and(|client| client.is_made) {
        assert!(Instant::now() < deadline, "it does not connect");
        look(&mut paced, start_ns, &bound, &mut recorder);
    }
    for nth in 1..3 {
        let looked = look(&mut paced, start_ns + nth * LOOK_EVERY_NS, &bound, &mut recorder);
        assert_eq!(looked, (LOOK_EVERY_NS, 0));
    }
}

#[test]
fn what_says_nothing_is_held_and_made_anew_where_the_server_ends_it() {
    let at = serve(|stream| {
        let _ = (&stream).read(&mut [0; 16]);
    });
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let closing = serve(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let mut looks = 0;
    let held = paced(at, 5, ClientKind::Idle, PATIENCE).run(
        Ramp::hold(PATIENCE),
        u64::MAX,
        &mut Until::new(move || {
            looks += 1;
            looks > 20
        }),
    );
    assert_eq!(
        (held.connects, held.unfinished, held.answered),
        (5, 5, 0),
        "{:?}",
        held.failures
    );
    let ended = run(&mut paced(closing, 5, ClientKind::Idle, PATIENCE), || {
        made.load(Ordering::Relaxed) >= 10
    });
    assert!(ended.failures.of(Failure::Closed) >= 5, "{:?}", ended.failures);
}

/// A server that answers nothing: where it is, and how many bytes it has read.
fn reads_and_counts() -> (SocketAddr, Arc<AtomicUsize>) {
    let received = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&received);
    let at = serve(move |mut stream| {
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (at, received)
}

#[test]
fn a_slow_sender_never_sends_its_last_byte() {
    const BYTES: usize = "1000 keep".len();
    let (at, received) = reads_and_counts();
    let every = Duration::from_millis(1);
    let seen = Arc::clone(&received);
    let mut looks = 0;
    let mut until = Until::new(move || {
        // Some more than it takes: the next byte would have come with the next look.
        looks += usize::from(seen.load(Ordering::Relaxed) >= 2 * BYTES);
        looks > 20
    });
    let record = paced(at, 2, ClientKind::SlowSender { every }, PATIENCE).run(
        Ramp::hold(PATIENCE),
        u64::MAX,
        &mut until,
    );
    assert_eq!(received.load(Ordering::Relaxed), 2 * BYTES);
    assert_eq!(
        (record.unfinished, record.answered),
        (2, 0),
        "{:?}",
        record.failures
    );
}

/// Whoever has something to do without a pause is asked whether to go on all the same.
#[test]
fn who_is_always_due_hears_that_the_run_ends() {
    let at = serve(|stream| {
        // Takes nothing.
        thread::sleep(PATIENCE);
        drop(stream);
    });
    let (done, ended) = channel();
    thread::spawn(move || {
        let every = Duration::from_nanos(1);
        let kind = ClientKind::SlowSender { every };
        let mut paced = Paced::new(Echo::new(64 << 20), kind, clients(at, 1, PATIENCE), 1);
        let mut looks = 0;
        let mut until = Until::new(move || {
            looks += 1;
            looks > 20
        });
        let record = paced.run(Ramp::hold(10 * PATIENCE), u64::MAX, &mut until);
        let _ = done.send(record.interrupted);
    });
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(true), "the run does not end");
}

#[test]
fn what_is_on_its_way_when_all_were_asked_comes_to_its_end() {
    let reader = ClientKind::SlowReader {
        bytes_per_second: 20_000.0,
        think: Duration::ZERO,
    };
    let at = serve(alphabet);
    let record = paced(at, 3, reader, PATIENCE).run(Ramp::hold(PATIENCE), 5, &mut Until::new(|| false));
    assert_eq!(
        (record.sent, record.answered, record.unfinished),
        (5, 5, 0),
        "{:?}",
        record.failures
    );
    assert!(record.bounded && !record.interrupted);

    // What the server has not read when a connection ends is gone, so that it counts nothing here.
    let (at, _) = reads_and_counts();
    let every = Duration::from_millis(1);
    let sender = ClientKind::SlowSender { every };
    let mut senders = paced(at, 2, sender, PATIENCE);
    let record = senders.run(Ramp::hold(PATIENCE), 2, &mut Until::new(|| false));
    assert_eq!((record.sent, record.connects, record.unfinished), (2, 2, 2));
    assert!(record.bounded && !record.interrupted);
}

#[test]
fn garbage_is_ended_by_a_server_or_given_up() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let at = serve(move |mut stream| {
        let mut garbage = [0; 64];
        if stream.read_exact(&mut garbage).is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let kind = ClientKind::Garbage {
        bytes: 64,
        think: Duration::ZERO,
    };
    let record = run(&mut paced(at, 2, kind, PATIENCE), || {
        ended.load(Ordering::Relaxed) >= 6
    });
    assert!(record.failures.of(Failure::Closed) >= 2, "{:?}", record.failures);
    assert_eq!(record.failures.of(Failure::Timeout), 0);

    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let patient = serve(move |mut stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        while stream.read(&mut [0; 64]).is_ok_and(|received| received > 0) {}
    });
    let record = run(&mut paced(patient, 1, kind, Duration::from_millis(20)), || {
        begun.load(Ordering::Relaxed) >= 3
    });
    assert!(record.failures.of(Failure::Timeout) >= 1, "{:?}", record.failures);
}

#[test]
fn a_server_that_is_not_there_refuses_all_and_the_run_goes_on() {
    let at = serve(alphabet);
    // Nobody listens at this port any more.
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    for (target, is_there) in [(at, true), (gone, false)] {
        let mut looks = 0;
        let kind = ClientKind::SlowReader {
            bytes_per_second: 1e6,
            think: Duration::ZERO,
        };
        let record = paced(target, 2, kind, PATIENCE).run(
            Ramp::hold(PATIENCE),
            u64::MAX,
            &mut Until::new(move || {
                looks += 1;
                looks > 40
            }),
        );
        assert_eq!(
            record.failures.of(Failure::Refused) > 0,
            !is_there,
            "{:?}",
            record.failures
        );
        assert!(record.interrupted);
    }
}

#[test]
fn nobody_comes_again_at_once() {
    let gone = (Ipv4Addr::LOCALHOST, 9).into();
    let pause_ns = |kind| paced(gone, 1, kind, PATIENCE).pause_ns();
    let garbage = |think_ms| ClientKind::Garbage {
        think: Duration::from_millis(think_ms),
        bytes: 10,
    };
    let pauses = [ClientKind::Idle, garbage(0), garbage(300)].map(pause_ns);
    assert_eq!(pauses, [PAUSE_NS, MS, 300 * MS]);
}

#[test]
fn clients_begin_one_after_another() {
    assert_eq!(
        [0, 1, 3].map(|connection| first_look_ns(7, connection)),
        [7, 7 + APART_NS, 7 + 3 * APART_NS]
    );
}

#[test]
fn what_a_socket_does_not_take_waits_and_a_connection_that_fails_does_not() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let peer = listener.accept().unwrap().0;
    let mut client = Client::<()> {
        stream: Some(stream),
        is_made: true,
        request: vec![7; 64 << 20],
        ..Client::default()
    };
    let mut progress = 0;
    // Until the socket takes no more.
    loop {
        let sent = client.sent;
        progress += 1;
        client.send(usize::MAX, progress).unwrap();
        if client.sent == sent {
            break;
        }
    }
    assert!(client.sent > 0 && client.sent < client.request.len());
    assert_eq!(client.progress_ns, progress - 1, "nothing was sent at last");
    // It has unread bytes, and so resets.
    drop(peer);
    let deadline = Instant::now() + PATIENCE;
    while client.send(usize::MAX, 0).is_ok() {
        assert!(Instant::now() < deadline, "its end goes unseen");
    }
}
