//! Clients against servers that send without end, or more than was asked for: a run ends when it says so, memory is
//! bounded, and each byte belongs to an answer or to a fault.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use threadgauge_load::codec::{Chat, Codec, Nats};
use threadgauge_load::exchange::{Bytes, Echo, Exchange, Http, HttpRequest, Numbered};
use threadgauge_load::{
    Failure, FaultKind, Groups, Load, LoadError, Pace, Plan, Ramp, Record, Requests, Watch,
};

use super::requests::{PATIENCE, SPAN, clients, head, open, server};

/// What this comes to, on a thread of its own: a run that does not end fails the test, and does not hang it.
fn ends<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    thread::spawn(move || done.send(run()));
    result
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| panic!("{what}: the run does not end"))
}

/// Sends `first`, then `more` over and over, until the client is gone.
fn flood(mut client: &TcpStream, first: &[u8], more: &[u8]) {
    let many = more.repeat((1 << 20) / more.len() + 1);
    let mut begun = client.write_all(first);
    while begun.is_ok() {
        begun = client.write_all(&many);
    }
}

/// A server that floods whoever has sent something.
fn floods(first: &'static [u8], more: &'static [u8]) -> SocketAddr {
    server(move |client, _| {
        if (&client).read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {
            flood(&client, first, more);
        }
    })
}

/// Goes on for so many looks.
struct Looks(u32);

impl Watch for Looks {
    fn goes_on(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// Both ends of a run: by its time, and by who wants it to end.
fn run_ends<E: Exchange + Send + 'static>(
    what: &str,
    exchange: impl Fn() -> E + Send + 'static,
    at: SocketAddr,
) -> [Result<Record, LoadError>; 2] {
    let plan = threadgauge_load::Clients {
        timeout: Duration::from_millis(100),
        ..clients(at, 2, 1)
    };
    ends(what, move || {
        let run = |hold: Duration, watch: &mut dyn Watch| {
            let mut requests = Requests::connect(exchange(), plan)?;
            requests.run(open(50.0), Ramp::hold(hold), u64::MAX, watch)
        };
        [run(SPAN, &mut ()), run(PATIENCE * 10, &mut Looks(20))]
    })
}

#[test]
fn what_a_server_sends_without_end_does_not_keep_a_run() {
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let http = || Http::new(&HttpRequest::get("here", "/"));
    let http_floods: [(&str, &[u8], &[u8]); 5] = [
        ("chunks", CHUNKED, b"1\r\nx\r\n"),
        (
            "trailer",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"A: b\r\n",
        ),
        ("interim answers", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ("body", b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        ("answers", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ];
    for (what, first, more) in http_floods {
        for record in run_ends(what, http, floods(first, more)) {
            let record = record.unwrap();
            assert!(
                record.failures.total() + record.unfinished > 0,
                "{what}: {record:?}"
            );
        }
    }
    // Whether it is one of the protocol, or a server of something else.
    let _ = run_ends("echo", || Echo::new(10), floods(b"", b"x"));
    let _ = run_ends(
        "bytes",
        || Bytes::kept(26),
        floods(b"", b"abcdefghijklmnopqrstuvwxyz"),
    );
    let _ = run_ends(
        "bytes, single",
        || Bytes::new(26),
        floods(b"", b"abcdefghijklmnopqrstuvwxyz"),
    );
    let _ = run_ends("numbered", || Numbered::new(0, 0, 1), floods(b"0 \n", b"0 \n"));
    // Before anybody has asked.
    let _ = run_ends("at once", http, server(|client, _| flood(&client, b"", b"x")));
}

/// A server of NATS' protocol that greets, and does this when a client has said something after that.
fn greets(then: impl Fn(&TcpStream, BufReader<TcpStream>) + Send + Sync + 'static) -> SocketAddr {
    server(move |client, _| {
        let mut input = BufReader::new(client.try_clone().unwrap());
        let mut line = String::new();
        while input.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && line != "PING\r\n" {
            line.clear();
        }
        let is_greeted = (&client).write_all(b"INFO {}\r\nPONG\r\n").is_ok();
        if is_greeted && input.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            then(&client, input);
        }
    })
}

/// A run of two groups against it, by its time and by who wants it to end.
fn groups_end(what: &str, codec: &'static dyn Codec, at: SocketAddr) -> [Record; 2] {
    let plan = Plan {
        connections: 4,
        group_size: 2,
        payload_bytes: 64.into(),
        patience: Duration::from_millis(200),
    };
    let load = Load::Closed {
        outstanding: NonZeroUsize::MIN,
    };
    ends(what, move || {
        let run = |hold: Duration, watch: &mut dyn Watch| {
            let mut groups = Groups::connect(at, codec, plan).unwrap();
            groups.run(load, hold, u64::MAX, watch).unwrap()
        };
        [run(SPAN, &mut ()), run(PATIENCE * 10, &mut Looks(5))]
    })
}

#[test]
fn what_a_server_of_groups_sends_without_end_does_not_keep_a_run() {
    for more in [&b"+OK\r\n"[..], b"MSG g0 1 1\r\nx\r\n"] {
        let what = String::from_utf8_lossy(more).into_owned();
        let records = groups_end(
            &what,
            &Nats::ALIKE,
            greets(move |client, _| flood(client, b"", more)),
        );
        for record in records {
            let lost = record.faults.as_ref().is_some_and(|faults| !faults.is_empty());
            assert!(lost || record.unfinished > 0, "{what}: {record:?}");
        }
    }
    let chat = server(|client, _| {
        let mut line = String::new();
        let _ = BufReader::new(&client).read_line(&mut line);
        let joined = line.replace("join", "joined");
        if (&client).write_all(joined.as_bytes()).is_ok() && (&client).read(&mut [0; 64]).is_ok() {
            flood(&client, b"", b"nobody sends this\n");
        }
    });
    groups_end("chat", &Chat, chat);
}

#[test]
fn a_server_that_wants_answers_without_end_is_a_fault_of_its_connection() {
    for reads in [false, true] {
        let at = greets(move |client, mut input| {
            if reads {
                thread::spawn(move || std::io::copy(&mut input, &mut std::io::sink()));
            }
            flood(client, b"", b"PING\r\n");
        });
        let [timed, told] = groups_end("pings", &Nats::ALIKE, at);
        assert!(timed.ended_early || reads, "{timed:?}");
        assert!(told.ended_early || told.interrupted, "{told:?}");
        if timed.ended_early {
            let kinds: Vec<_> = timed.failures.each().collect();
            assert_eq!(kinds, [(Failure::Unread, 1)], "{:?}", timed.failures);
            let said = timed.failures.said(Failure::Unread).unwrap();
            assert!(said.contains("wants more answers than it reads"), "{said}");
        }
    }
}

#[test]
fn what_is_no_whole_message_when_all_has_come_is_a_fault() {
    let at = server(|mut client, _| {
        let mut input = BufReader::new(client.try_clone().unwrap());
        let mut line = String::new();
        while input.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let said = match &line[..4] {
                "PING" => &b"INFO {}\r\nPONG\r\n"[..],
                // With its own message a member has the beginning of another.
                "PUB " => b"MSG g0 1 6",
                _ => b"",
            };
            if line.starts_with("PUB ") {
                let mut payload = [0; 66];
                input.read_exact(&mut payload).unwrap();
                let whole = [b"MSG g0 1 64\r\n", &payload[..], said].concat();
                let _ = client.write_all(&whole);
            } else {
                let _ = client.write_all(said);
            }
            line.clear();
        }
    });
    let (mut groups, load) = one_who_hears_herself(at);
    groups.listen_on(Duration::from_millis(1));
    let record = groups.run(load, PATIENCE, 1, &mut ()).unwrap();
    assert_eq!(
        (record.answered, record.failures.of(Failure::Unasked)),
        (1, 1),
        "{record:?}"
    );
}

/// A group of one, who says one thing after the other.
fn one_who_hears_herself(at: SocketAddr) -> (Groups, Load) {
    let plan = Plan {
        connections: 1,
        group_size: 1,
        payload_bytes: 64.into(),
        patience: PATIENCE,
    };
    let load = Load::Closed {
        outstanding: NonZeroUsize::MIN,
    };
    (Groups::connect(at, &Nats::ECHOING, plan).unwrap(), load)
}

/// Has the server go on when all has come, and ends some looks after that.
struct HearsOut {
    word: Sender<()>,
    went_on: Arc<AtomicBool>,
    looks: u32,
    left: u32,
}

impl Watch for HearsOut {
    fn goes_on(&mut self) -> bool {
        self.looks += 1;
        // The first looks are those until all has come.
        if self.looks == 5 {
            self.word.send(()).unwrap();
        }
        self.left -= u32::from(self.went_on.load(Ordering::SeqCst));
        self.left > 0
    }
}

#[test]
fn what_comes_when_all_has_come_is_heard_out() {
    let (word, may) = channel();
    let went_on = Arc::new(AtomicBool::new(false));
    let (may, goes_on) = (Mutex::new(may), Arc::clone(&went_on));
    let at = greets(move |mut client: &TcpStream, mut input| {
        let mut payload = [0; 64 + 2];
        input.read_exact(&mut payload).unwrap();
        let delivery = [b"MSG g0 1 64\r\n", &payload[..]].concat();
        client.write_all(&delivery).unwrap();
        if may.lock().unwrap().recv().is_ok() {
            client.write_all(&delivery).unwrap();
            goes_on.store(true, Ordering::SeqCst);
            let _ = input.read(&mut [0]);
        }
    });
    let (mut groups, load) = one_who_hears_herself(at);
    groups.listen_on(PATIENCE);
    let mut watch = HearsOut {
        word,
        went_on,
        looks: 0,
        left: 3,
    };
    let record = groups.run(load, PATIENCE, 1, &mut watch).unwrap();
    let faults = record.faults.as_ref().unwrap();
    assert_eq!(
        (record.answered, faults.count(FaultKind::Duplicated)),
        (1, 1),
        "{record:?}"
    );
}

#[test]
fn an_answer_to_a_greeting_that_nobody_sent_is_a_fault() {
    let at = greets(|client, _| flood(client, b"", b"PONG\r\n"));
    for record in groups_end("pongs", &Nats::ALIKE, at) {
        assert!(
            record.ended_early && record.failures.of(Failure::Unasked) == 1,
            "{record:?}"
        );
    }
}

/// What comes of a server that answers each request as `answer` has it, which reads it first.
fn asked<E: Exchange>(
    exchange: E,
    pace: Pace,
    answer: impl Fn(&mut BufReader<TcpStream>, &TcpStream) -> bool + Send + Sync + 'static,
) -> Record {
    let at = server(move |client, _| {
        let mut input = BufReader::new(client.try_clone().unwrap());
        while answer(&mut input, &client) {}
    });
    let mut requests = Requests::connect(exchange, clients(at, 2, 1)).unwrap();
    requests.run(pace, Ramp::hold(SPAN), u64::MAX, &mut ()).unwrap()
}

#[test]
fn what_comes_beyond_an_answer_is_counted_as_bytes_that_nobody_asked_for() {
    let http = |method: &str, close| {
        Http::new(&HttpRequest {
            method: method.to_owned(),
            close,
            ..HttpRequest::get("here", "/")
        })
    };
    let says = |answer: &'static [u8]| {
        move |input: &mut BufReader<TcpStream>, mut client: &TcpStream| {
            head(input) && client.write_all(answer).is_ok()
        }
    };
    for pace in [open(200.0), Pace::FAST] {
        let echoes_twice = asked(Echo::new(10), pace, |input, mut client| {
            let mut message = [0; 10];
            input.read_exact(&mut message).is_ok() && client.write_all(&message.repeat(2)).is_ok()
        });
        let longer = asked(Bytes::kept(26), pace, |input, mut client| {
            let mut line = String::new();
            input.read_line(&mut line).is_ok_and(|bytes| bytes > 0)
                && client.write_all(b"abcdefghijklmnopqrstuvwxyz+").is_ok()
        });
        let longer_and_over = asked(Bytes::new(26), pace, |input, mut client| {
            let mut line = String::new();
            let _ = input.read_line(&mut line);
            let _ = client.write_all(b"abcdefghijklmnopqrstuvwxyz+");
            false
        });
        let cases = [
            ("an echo twice", echoes_twice, 20),
            ("a longer answer", longer, 27),
            ("a longer answer, then the end", longer_and_over, 27),
            (
                "a longer body",
                asked(
                    http("GET", false),
                    pace,
                    says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhello"),
                ),
                43,
            ),
            (
                "a body after 204",
                asked(http("GET", false), pace, says(b"HTTP/1.1 204 N\r\n\r\nhello")),
                23,
            ),
            (
                "a body after 304",
                asked(http("GET", false), pace, says(b"HTTP/1.1 304 N\r\n\r\nhello")),
                23,
            ),
            (
                "a body after HEAD",
                asked(
                    http("HEAD", false),
                    pace,
                    says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
                ),
                43,
            ),
            (
                "more than the last answer",
                asked(
                    http("GET", true),
                    pace,
                    says(b"HTTP/1.1 204 N\r\nConnection: close\r\n\r\nhello"),
                ),
                42,
            ),
            (
                "more than the last answer, and no word that it is",
                asked(http("GET", true), pace, says(b"HTTP/1.1 204 N\r\n\r\nhello")),
                23,
            ),
        ];
        for (what, record, bytes) in cases {
            assert!(record.answered > 0, "{what}: {record:?}");
            assert!(
                record.failures.of(Failure::Unasked) > 0,
                "{what}: {:?}",
                record.failures
            );
            assert_eq!(record.bytes_in % bytes, 0, "{what}: each byte is counted");
            assert!(record.bytes_in >= record.answered * bytes, "{what}: {record:?}");
        }
    }
}

#[test]
fn an_answer_that_is_malformed_is_counted_with_its_line_and_the_run_goes_on() {
    let get = Http::new(&HttpRequest::get("here", "/"));
    let record = asked(get, open(200.0), |input, mut client| {
        head(input)
            && client
                .write_all(b"HTTP/1.1 200 OK\r\nBad Name: x\r\nContent-Length: 0\r\n\r\n")
                .is_ok()
    });
    assert!(record.failures.of(Failure::Garbage) > 1, "{:?}", record.failures);
    assert_eq!(
        record.failures.of(Failure::Garbage) + record.unfinished,
        record.sent
    );
    assert_eq!(
        record.failures.said(Failure::Garbage).unwrap(),
        "the server's answer has a wrong header name: \"Bad Name: x\""
    );
}
