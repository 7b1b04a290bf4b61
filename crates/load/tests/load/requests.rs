//! Requests and answers against servers of a few lines: what is right is counted, and what goes wrong by its kind.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use threadgauge_load::exchange::{Bytes, Echo, Exchange, Http, HttpRequest};
use threadgauge_load::{
    Arrivals, Clients, Failure, InvalidRun, LoadError, Pace, Ramp, Record, Requests, Second, Watch,
};

use super::{accepts_nobody, goes_on_until};

/// With a server that is slow, not silent.
pub const PATIENCE: Duration = Duration::from_secs(120);
pub const SPAN: Duration = Duration::from_millis(300);
const NO_BOUND: u64 = u64::MAX;

/// A server that does this with each connection, which it counts from 0.
pub fn server(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for (nth, client) in listener.incoming().map_while(Result::ok).enumerate() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(client, nth));
        }
    });
    at
}

/// Sends back what comes, as `change` has it.
fn echo(mut client: &TcpStream, mut change: impl FnMut(&mut [u8])) {
    let mut buffer = [0; 4096];
    while let Ok(bytes) = client.read(&mut buffer) {
        change(&mut buffer[..bytes]);
        if bytes == 0 || client.write_all(&buffer[..bytes]).is_err() {
            return;
        }
    }
}

/// Reads one head of HTTP; whether there was one.
pub fn head(input: &mut impl std::io::BufRead) -> bool {
    let mut lines = 0;
    loop {
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) if line == "\r\n" => return lines > 0,
            Ok(_) => lines += 1,
        }
    }
}

pub fn clients(target: SocketAddr, connections: usize, pipeline: usize) -> Clients {
    Clients {
        target,
        connections: NonZeroUsize::new(connections).unwrap(),
        pipeline: NonZeroUsize::new(pipeline).unwrap(),
        timeout: PATIENCE,
        go_on: false,
    }
}

pub fn open(per_second: f64) -> Pace {
    Pace::Open {
        per_second,
        arrivals: Arrivals::Uniform,
        seed: 1,
    }
}

fn run(exchange: impl Exchange, clients: Clients, pace: Pace) -> Record {
    let mut requests = Requests::connect(exchange, clients).unwrap();
    requests.run(pace, Ramp::hold(SPAN), NO_BOUND, &mut ()).unwrap()
}

/// What must be true of every run.
fn adds_up(record: &Record) {
    let failed = record.failures.total();
    assert_eq!(
        record.sent,
        record.answered + failed + (record.unfinished - never_sent(record))
    );
    let sum = |of: fn(&Second) -> u64| record.series.iter().map(of).sum::<u64>();
    assert_eq!(sum(|second| second.sent), record.sent);
    assert_eq!(sum(|second| second.answered), record.answered);
    assert_eq!(sum(|second| second.bytes_in), record.bytes_in);
    assert_eq!(sum(|second| second.connects), record.connects);
}

/// Of an open loop, what was to start and had no connection for it.
fn never_sent(record: &Record) -> u64 {
    (record.answered + record.failures.total() + record.unfinished) - record.sent
}

#[test]
fn in_an_open_loop_all_that_was_to_start_is_answered() {
    let at = server(|client, _| echo(&client, |_| {}));
    let record = run(Echo::new(100), clients(at, 8, 1), open(1_000.0));
    // The last falls on the end.
    assert!((299..=300).contains(&record.sent), "{}", record.sent);
    assert_eq!(
        (record.answered, record.failures.total(), record.unfinished),
        (record.sent, 0, 0)
    );
    assert_eq!(record.held.intended, record.sent);
    assert_eq!(
        (record.response.count(), record.lag.count()),
        (record.sent, record.sent)
    );
    assert_eq!(
        (record.bytes_in, record.bytes_out),
        (100 * record.sent, 100 * record.sent)
    );
    adds_up(&record);
}

#[test]
fn a_server_that_answers_late_is_given_the_rate_at_which_it_was_asked() {
    const HOLD: Duration = Duration::from_millis(500);
    let asked = AtomicUsize::new(0);
    let at = server(move |mut client, _| {
        let mut message = [0; 10];
        while client.read_exact(&mut message).is_ok() {
            // Any time up to twice as long as the load holds.
            let late = HOLD * 2 * (asked.fetch_add(1, Ordering::Relaxed) as u32 * 37 % 100) / 100;
            thread::sleep(late);
            if client.write_all(&message).is_err() {
                return;
            }
        }
    });
    let mut requests = Requests::connect(Echo::new(10), clients(at, 60, 1)).unwrap();
    let record = requests
        .run(open(100.0), Ramp::hold(HOLD), NO_BOUND, &mut ())
        .unwrap();
    assert_eq!((record.answered, record.failed()), (record.sent, 0));
    // By when the answers came it would be a third. A machine that is busy may send some late.
    let pace = record.held.pace().unwrap();
    assert!(pace > 0.6, "{pace}");
    let achieved = record.held.achieved.unwrap();
    assert!((achieved / (100.0 * pace) - 1.0).abs() < 0.05, "{achieved}");
    assert_eq!(record.waited, 0);
    adds_up(&record);
}

#[test]
fn who_finds_no_connection_free_has_waited_and_lags_no_more_for_it() {
    let at = server(|mut client, _| {
        let mut message = [0; 10];
        while client.read_exact(&mut message).is_ok() {
            thread::sleep(SPAN / 4);
            if client.write_all(&message).is_err() {
                return;
            }
        }
    });
    let record = run(Echo::new(10), clients(at, 2, 1), open(100.0));
    // Two at a time, four times as long as a span is between them.
    assert!(
        record.held.pace().is_some_and(|pace| pace < 0.9),
        "{:?}",
        record.held
    );
    assert_eq!(record.answered, record.sent);
    assert!(
        record.waited > 0 && record.waited <= record.sent,
        "{}",
        record.waited
    );
    assert_eq!(record.lag.count(), record.sent, "each was seen once");
    assert!(record.invalid_because(None).contains(&InvalidRun::Slow));
}

#[test]
fn a_closed_loop_thinks_and_a_fast_one_does_not() {
    let at = server(|client, _| echo(&client, |_| {}));
    let thinking = Pace::Closed {
        think: Duration::from_millis(50),
        arrivals: Arrivals::Uniform,
        seed: 1,
    };
    let record = run(Echo::new(10), clients(at, 4, 1), thinking);
    // A first thought of up to 50 ms, then at most one request in 50 ms of each.
    assert!((4..=4 * 7).contains(&record.sent), "{}", record.sent);
    assert_eq!(record.answered, record.sent);
    adds_up(&record);
    let fast = run(Echo::new(10), clients(at, 4, 16), Pace::FAST);
    assert!(fast.sent >= 4 * 16, "{}", fast.sent);
    assert_eq!((fast.answered, fast.unfinished), (fast.sent, 0));
    assert_eq!((fast.bytes_out, fast.bytes_in), (10 * fast.sent, 10 * fast.sent));
    // But for what a machine that is busy does to it.
    let mut reasons = fast.invalid_because(None);
    reasons.retain(|reason| !reason.is_standstill());
    assert_eq!(reasons, []);
    adds_up(&fast);
}

#[test]
fn http_is_kept_alive_and_pipelined() {
    let connects = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connects);
    let at = server(move |client, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        let mut input = BufReader::new(client.try_clone().unwrap());
        for nth in 0.. {
            if !head(&mut input) {
                return;
            }
            let answer: &[u8] = match nth % 3 {
                0 => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                1 => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            };
            if (&client).write_all(answer).is_err() {
                return;
            }
        }
    });
    let get = HttpRequest::get("here", "/");
    let record = run(Http::new(&get), clients(at, 2, 9), Pace::FAST);
    assert_eq!(connects.load(Ordering::Relaxed), 2);
    let refused = record.failures.of(Failure::Status);
    assert_eq!(record.sent, record.answered + refused);
    assert!(refused > 0 && record.answered > refused);
    assert_eq!(record.failures.statuses().collect::<Vec<_>>(), [(404, refused)]);
    adds_up(&record);
}

#[test]
fn a_request_may_have_a_connection_of_its_own() {
    let at = server(|client, _| {
        let mut line = String::new();
        let _ = BufReader::new(&client).read_line(&mut line);
        let bytes: usize = line.trim().parse().unwrap();
        let answer: Vec<u8> = (b'a'..=b'z').cycle().take(bytes).collect();
        let _ = (&client).write_all(&answer);
    });
    let record = run(Bytes::new(4_000), clients(at, 4, 1), open(200.0));
    assert_eq!(
        (record.answered, record.failures.total()),
        (record.sent, 0),
        "{:?}",
        record.failures
    );
    assert_eq!(record.bytes_in, 4_000 * record.sent);
    // One was made beforehand.
    assert!(record.connects + 1 >= record.sent);
    let http = server(|client, _| {
        head(&mut BufReader::new(&client));
        // Without a length: the end is the end.
        let _ = (&client).write_all(b"HTTP/1.1 200 OK\r\n\r\nhello");
    });
    let get = HttpRequest {
        close: true,
        ..HttpRequest::get("here", "/")
    };
    let record = run(Http::new(&get), clients(http, 4, 1), open(200.0));
    assert_eq!(
        (record.answered, record.failures.total()),
        (record.sent, 0),
        "{:?}",
        record.failures
    );
}

#[test]
fn a_server_that_says_it_closes_is_asked_no_more_on_that_connection() {
    // It waits for the client to close first, and answers nothing more.
    let at = server(|client, _| {
        let mut input = BufReader::new(client.try_clone().unwrap());
        if head(&mut input) {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = (&client).write_all(answer);
            let _ = input.read_to_end(&mut Vec::new());
        }
    });
    let get = HttpRequest::get("here", "/");
    let clients = Clients {
        timeout: Duration::from_secs(5),
        ..clients(at, 2, 1)
    };
    let record = run(Http::new(&get), clients, open(100.0));
    assert_eq!(
        (record.answered, record.failures.total()),
        (record.sent, 0),
        "{:?}",
        record.failures
    );
    assert!(record.connects + 2 >= record.sent);
}

#[test]
fn a_changed_byte_is_found() {
    let at = server(|client, _| {
        let mut seen = 0;
        echo(&client, |bytes| {
            // The third message of each connection.
            if (20..30).contains(&seen) {
                bytes[0] ^= 1;
            }
            seen += bytes.len();
        });
    });
    let record = run(Echo::new(10), clients(at, 2, 1), open(200.0));
    assert_eq!(record.failures.of(Failure::Changed), 2, "{:?}", record.failures);
    adds_up(&record);
}

#[test]
fn other_bytes_are_changed_although_too_few_come() {
    let halves = |goes_on: bool| {
        server(move |client, _| {
            let mut message = [0; 10];
            if (&client).read_exact(&mut message).is_ok() {
                let _ = (&client).write_all(&message.map(|byte| !byte)[..5]);
                if goes_on {
                    let _ = (&client).read_to_end(&mut Vec::new());
                }
            }
        })
    };
    // Who goes on is waited for until the timeout, within which half has come although no CPU is free.
    for (goes_on, timeout) in [(true, Duration::from_secs(3)), (false, PATIENCE)] {
        let clients = Clients {
            timeout,
            ..clients(halves(goes_on), 2, 1)
        };
        let record = run(Echo::new(10), clients, Pace::FAST);
        assert!(record.failures.of(Failure::Changed) > 0, "{:?}", record.failures);
        assert_eq!(record.failures.of(Failure::Timeout), 0, "{:?}", record.failures);
        adds_up(&record);
    }
}

#[test]
fn nobody_listening_is_said() {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let refused = Requests::connect(Echo::new(1), clients(nobody, 3, 1)).unwrap_err();
    assert!(matches!(
        refused,
        LoadError::Connects {
            made: 0,
            wanted: 3,
            ..
        }
    ));
    assert!(refused.to_string().contains("is the server started"), "{refused}");
}

#[test]
fn while_connections_are_made_it_looks_at_whether_to_go_on() {
    // That accepts no more than a few, and one that has all.
    for (backlog, most_asked) in [(1, 20), (1_000, 3)] {
        let listener = accepts_nobody(backlog);
        let mut goes_on = goes_on_until(most_asked);
        let plan = clients(listener.local_addr().unwrap(), 1_000, 1);
        let ended = Requests::connect_while(Echo::new(1), plan, &mut goes_on).unwrap_err();
        let LoadError::Interrupted { made, wanted, .. } = ended else {
            panic!("{ended}");
        };
        assert!(made <= 64 * most_asked && made < wanted, "{made} of {wanted}");
    }
}

#[test]
fn a_server_that_does_not_accept_is_given_up_after_the_timeout() {
    let of = |listener: &TcpListener| Clients {
        timeout: Duration::from_millis(300),
        ..clients(listener.local_addr().unwrap(), 20, 1)
    };
    let listener = accepts_nobody(1);
    // Asked every 50 ms: it would go on for a minute.
    let mut asked = 0;
    let ended = Requests::connect_while(Echo::new(1), of(&listener), &mut || {
        asked += 1;
        asked < 1_200
    });
    let LoadError::Connects {
        made, wanted, source, ..
    } = ended.unwrap_err()
    else {
        panic!("it does not end by itself");
    };
    assert_eq!(source.kind(), std::io::ErrorKind::TimedOut);
    assert!(made < wanted && wanted == 20, "{made} of {wanted}");
    // Who goes on with fewer has those that were made.
    let listener = accepts_nobody(1);
    let plan = Clients {
        go_on: true,
        ..of(&listener)
    };
    let fewer = Requests::connect(Echo::new(1), plan).unwrap();
    assert!((1..wanted).contains(&fewer.connections()));
}

#[test]
fn what_nobody_asked_for_is_heard_for_as_long_as_a_run_is_to_listen() {
    let has_sent = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&has_sent);
    let at = server(move |mut client, _| {
        let mut message = [0; 10];
        while client.read_exact(&mut message).is_ok() {
            client.write_all(&message).unwrap();
            thread::sleep(SPAN);
            client.write_all(b"more").unwrap();
            sent.fetch_add(1, Ordering::SeqCst);
        }
    });
    /// Two looks longer than until all of it was sent.
    struct Looks {
        has_sent: Arc<AtomicUsize>,
        left: u32,
    }
    impl Watch for Looks {
        fn goes_on(&mut self) -> bool {
            if self.has_sent.load(Ordering::SeqCst) == 3 {
                self.left = self.left.saturating_sub(1);
            }
            self.left > 0
        }
    }
    let mut requests = Requests::connect(Echo::new(10), clients(at, 3, 1)).unwrap();
    assert_eq!(requests.connections(), 3);
    requests.listen_on(PATIENCE);
    let mut looks = Looks { has_sent, left: 3 };
    let record = requests
        .run(open(10_000.0), Ramp::hold(PATIENCE), 3, &mut looks)
        .unwrap();
    assert_eq!(record.answered, 3);
    assert_eq!(record.failures.of(Failure::Unasked), 3, "{:?}", record.failures);
    // It ends by itself, after a look or two.
    let quiet = server(|client, _| echo(&client, |_| {}));
    let mut requests = Requests::connect(Echo::new(10), clients(quiet, 1, 1)).unwrap();
    requests.listen_on(Duration::from_millis(1));
    let mut looks = Looks {
        has_sent: Arc::new(AtomicUsize::new(3)),
        left: 400,
    };
    let record = requests
        .run(open(10_000.0), Ramp::hold(PATIENCE), 1, &mut looks)
        .unwrap();
    assert_eq!(record.answered, 1);
    assert!(looks.left > 0, "it listens on");
}

#[test]
fn a_server_that_resets_closes_or_half_closes_is_counted_and_tried_again() {
    // Resets what has unread bytes.
    let resets = server(|client, nth| match nth {
        0..2 => drop((&client).read(&mut [0])),
        _ => echo(&client, |_| {}),
    });
    let half_closes = server(|client, nth| match nth {
        0..2 => {
            let _ = (&client).read(&mut [0; 64]);
            let _ = client.shutdown(Shutdown::Write);
            // Goes on reading.
            let _ = (&client).read_to_end(&mut Vec::new());
        }
        _ => echo(&client, |_| {}),
    });
    for (at, kinds) in [
        (resets, [Failure::Reset, Failure::Closed]),
        (half_closes, [Failure::Closed, Failure::Closed]),
    ] {
        let record = run(Echo::new(50), clients(at, 2, 1), open(200.0));
        let failed = record.failures.total();
        assert!((1..=2).contains(&failed), "{:?}", record.failures);
        assert!(
            record.failures.each().all(|(kind, _)| kinds.contains(&kind)),
            "{:?}",
            record.failures
        );
        assert_eq!(record.answered, record.sent - failed);
        assert_eq!(record.connects, failed, "made anew");
        assert_eq!(
            record.failures.said(Failure::Reset).is_some(),
            record.failures.of(Failure::Reset) > 0,
            "what the kernel says of it is quoted"
        );
        adds_up(&record);
    }
}

#[test]
fn a_server_that_hangs_costs_the_timeout_and_the_run_is_invalid() {
    let hangs = server(|client, _| drop((&client).read_to_end(&mut Vec::new())));
    let clients = Clients {
        timeout: Duration::from_millis(100),
        ..clients(hangs, 4, 1)
    };
    let record = run(Echo::new(10), clients, open(100.0));
    assert!(record.failures.of(Failure::Timeout) > 0);
    assert_eq!(record.answered, 0);
    assert_eq!(record.invalid_because(None), [InvalidRun::Silent]);
    // All that were to start, among them those that never had a connection, are in the percentiles.
    assert_eq!(
        record.response.count(),
        record.failures.of(Failure::Timeout) + record.unfinished
    );
    assert_eq!(record.response.count(), record.held.intended);
    assert!(
        (29..=30).contains(&record.held.intended),
        "{}",
        record.held.intended
    );
    adds_up(&record);
}

#[test]
fn another_protocol_ends_the_run_at_once_and_garbage_later_is_counted() {
    let greets = server(|client, _| {
        let _ = (&client).write_all(b"220 mail.example ESMTP\r\n");
        let _ = (&client).read_to_end(&mut Vec::new());
    });
    let get = HttpRequest::get("here", "/");
    let mut requests = Requests::connect(Http::new(&get), clients(greets, 2, 1)).unwrap();
    let foreign = requests
        .run(open(100.0), Ramp::hold(SPAN), NO_BOUND, &mut ())
        .unwrap_err();
    assert!(foreign.to_string().contains("220 mail.example"), "{foreign}");
    let later = server(|client, nth| {
        let mut input = BufReader::new(client.try_clone().unwrap());
        while head(&mut input) {
            let answer: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            let answer = if nth == 0 { answer } else { b"garbage\r\n\r\n" };
            if (&client).write_all(answer).is_err() {
                return;
            }
        }
    });
    // In turns, so the good one answers first.
    let record = run(Http::new(&get), clients(later, 1, 1), open(100.0));
    assert_eq!(record.failures.total(), 0);
    let unasked = server(|client, _| {
        let mut input = BufReader::new(client.try_clone().unwrap());
        while head(&mut input) {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            if (&client).write_all(&answer.repeat(2)).is_err() {
                return;
            }
        }
    });
    let record = run(Http::new(&get), clients(unasked, 1, 1), open(100.0));
    assert!(record.answered > 0);
    // The request after it may be lost with the connection.
    assert!(
        record.connects > 0,
        "each answer that nobody asked for costs the connection"
    );
}

#[test]
fn a_run_ends_by_its_bound_or_when_it_is_told_to() {
    struct Once(u32);
    impl Watch for Once {
        fn goes_on(&mut self) -> bool {
            self.0 += 1;
            self.0 < 20
        }
    }
    let at = server(|client, _| echo(&client, |_| {}));
    for pace in [open(1_000.0), Pace::FAST] {
        let mut requests = Requests::connect(Echo::new(10), clients(at, 2, 1)).unwrap();
        let hold = Ramp::hold(PATIENCE);
        let bounded = requests.run(pace, hold, 25, &mut ()).unwrap();
        assert_eq!((bounded.sent, bounded.answered, bounded.bounded), (25, 25, true));
        let told = requests.run(pace, hold, NO_BOUND, &mut Once(0)).unwrap();
        assert!(told.interrupted && !told.bounded);
        // The same connections go on.
        let again = requests.run(pace, hold, 5, &mut ()).unwrap();
        assert_eq!((again.answered, again.failures.total()), (5, 0));
    }
}

#[test]
fn a_load_rises_and_falls_and_only_what_held_is_measured() {
    let at = server(|client, _| echo(&client, |_| {}));
    let ramp = Ramp {
        up: SPAN,
        hold: SPAN,
        down: SPAN,
    };
    for pace in [open(500.0), Pace::FAST] {
        let mut requests = Requests::connect(Echo::new(10), clients(at, 4, 1)).unwrap();
        let record = requests.run(pace, ramp, NO_BOUND, &mut ()).unwrap();
        assert!(record.held.intended < record.sent);
        assert_eq!(record.response.count(), record.held.intended);
        assert_eq!(record.answered, record.sent);
        if pace.rate().is_some() {
            assert!(
                (149..=151).contains(&record.held.intended),
                "{}",
                record.held.intended
            );
            assert!((298..=300).contains(&record.sent), "{}", record.sent);
        }
        adds_up(&record);
    }
}
