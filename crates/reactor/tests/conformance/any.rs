//! What is true of every protocol that answers: many clients at once, limits, times and the stop.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use threadgauge_reactor::BuiltIn;

use crate::client::Client;
use crate::dates::undated;
use crate::http;
use crate::server::{LONG_DRAIN, Running};
use crate::{Case, Pair};

/// Those for a protocol that answers.
pub fn cases(protocol: BuiltIn) -> &'static [Case] {
    match protocol {
        BuiltIn::Null => &[],
        _ => CASES,
    }
}

const CASES: &[Case] = &[
    ("very_many_clients_at_once_are_all_answered", very_many),
    ("no_more_than_the_most_are_accepted", the_most),
    (
        "a_limit_of_64_descriptors_only_makes_clients_wait",
        few_descriptors,
    ),
    ("a_memory_limit_ends_no_server", little_memory),
    ("who_sends_nothing_for_the_idle_time_is_closed", idle),
    ("who_has_no_first_message_in_time_is_closed", handshake),
    ("a_stop_under_load_ends_all", stop_under_load),
    ("a_stop_at_once_ends_it", stop_at_once),
    (
        "a_stop_waits_for_no_client_that_does_not_close",
        stop_without_clients,
    ),
];

/// The `turn`-th exchange of a client: what it sends and what comes back.
pub fn exchange(protocol: BuiltIn, turn: usize) -> (String, String) {
    match protocol {
        BuiltIn::Echo => (format!("turn {turn}"), format!("turn {turn}")),
        BuiltIn::Bytes => ("5 keep\n".to_owned(), "abcde".to_owned()),
        BuiltIn::Http => (http::request(5), http::answer(5)),
        BuiltIn::Numbered => (format!("{turn} 0 x\n"), format!("{turn} x\n")),
        BuiltIn::Chat if turn == 0 => ("join hall\n".to_owned(), "joined hall\n".to_owned()),
        // Nobody answers it, and nobody else is in the room to hear it.
        BuiltIn::Chat => (String::new(), String::new()),
        BuiltIn::Groups => ("PING\r\n".to_owned(), "PONG\r\n".to_owned()),
        BuiltIn::Null => unreachable!("it has no cases here"),
    }
}

/// What the server says first, if it does.
fn greeting(pair: Pair, client: &mut Client) {
    if pair.protocol == BuiltIn::Groups {
        client.expect_info();
    }
}

fn ask(pair: Pair, client: &mut Client, turn: usize) {
    if turn == 0 {
        greeting(pair, client);
    }
    let (request, answer) = exchange(pair.protocol, turn);
    client.send(request);
    client.expect(answer);
}

/// Asks first, and reads later: connections at once.
fn crowd(pair: Pair, server: &Running, count: usize) -> Vec<Client> {
    (0..count)
        .map(|_| {
            let mut client = server.connect();
            client.send(exchange(pair.protocol, 0).0);
            client
        })
        .collect()
}

fn hear(pair: Pair, client: &mut Client) {
    greeting(pair, client);
    client.expect(exchange(pair.protocol, 0).1);
}

/// 2,000 on event-driven designs, or as many as `THREADGAUGE_CONNECTIONS` says.
fn very_many(pair: Pair) {
    let most = std::env::var("THREADGAUGE_CONNECTIONS").ok();
    let most = most.map_or(2_000, |most| most.parse().expect("a number of connections"));
    let count = if pair.is_event_driven() {
        most
    } else {
        pair.at_once(100)
    };
    let server = pair.serve(&[]);
    let mut clients = crowd(pair, &server, count);
    for client in &mut clients {
        hear(pair, client);
    }
    for turn in 1..3 {
        for client in &mut clients {
            ask(pair, client, turn);
        }
    }
    drop(clients);
    server.stop().expect("accepted", count as u64);
}

fn the_most(pair: Pair) {
    let server = pair.serve(&["max_connections=2"]);
    let mut served = crowd(pair, &server, pair.at_once(2));
    for client in &mut served {
        hear(pair, client);
    }
    let mut waiting = crowd(pair, &server, 1);
    // So that the server has had the time to take a third.
    for turn in 1..20 {
        match &mut served[..] {
            [speaker, hearer] if pair.protocol == BuiltIn::Chat => {
                speaker.send("a line\n");
                hearer.expect("a line\n");
            }
            served => served.iter_mut().for_each(|client| ask(pair, client, turn)),
        }
    }
    if served.len() == 2 {
        assert!(!waiting[0].has_something(), "a third was served");
    }
    drop(served);
    hear(pair, &mut waiting[0]);
    server.stop();
}

fn few_descriptors(pair: Pair) {
    let began = Instant::now();
    let server = pair.serve(&["descriptors=64"]);
    // Those that are served leave, which makes room for the next. Which those are, only the design knows, and the
    // kernel where there are several listening sockets.
    let mut clients = crowd(pair, &server, 150);
    while !clients.is_empty() {
        match clients.iter().position(Client::has_something) {
            Some(served) => hear(pair, &mut clients.remove(served)),
            None => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    }
    let counted = server.stop();
    assert_eq!(counted.of("accepted"), 150);
    // Each worker tries again ten times a second; whoever spins, a hundred thousand times.
    let again = 1_000 * began.elapsed().as_secs();
    assert!(
        counted.of("accepts") < 3_000 + again && counted.of("wake_ups") < 5_000 + again,
        "it spins: {counted:?}"
    );
}

fn little_memory(pair: Pair) {
    // Enough for a few dozen threads with their stacks, and not for all.
    let server = pair.serve(&["more_memory=80000000"]);
    let crowd = crowd(pair, &server, 100);
    let mut next = server.connect();
    drop(crowd);
    ask(pair, &mut next, 0);
    server.stop();
}

fn idle(pair: Pair) {
    let server = pair.serve(&["idle_ms=20"]);
    let mut client = server.connect();
    expect_no_more_than_a_greeting(pair, &mut client);
    server.stop().expect("idle", 1);
}

fn handshake(pair: Pair) {
    let server = pair.serve(&["handshake_ms=20"]);
    let mut client = server.connect();
    if pair.protocol != BuiltIn::Echo {
        // Part of one is none; to echo any byte is a message.
        client.send(&exchange(pair.protocol, 0).0[..1]);
    }
    expect_no_more_than_a_greeting(pair, &mut client);
    server.stop().expect("no message in time", 1);
}

/// Whether it comes before the end is not sure: who has to send it may not have had a CPU since.
fn expect_no_more_than_a_greeting(pair: Pair, client: &mut Client) {
    let said = client.rest();
    let is_greeting =
        pair.protocol == BuiltIn::Groups && said.starts_with(b"INFO {") && said.ends_with(b"} \r\n");
    assert!(
        said.is_empty() || is_greeting,
        "{:?}",
        String::from_utf8_lossy(&said)
    );
}

fn stop_under_load(pair: Pair) {
    let server = pair.serve(&[LONG_DRAIN]);
    // Connected before the load: who comes after the stop is refused.
    let clients: Vec<Client> = (0..pair.at_once(6)).map(|_| server.connect()).collect();
    let count = clients.len();
    let (begun, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let mut load = Vec::new();
        for mut client in clients {
            let (begun, answered) = (&begun, &answered);
            load.push(scope.spawn(move || {
                greeting(pair, &mut client);
                begun.fetch_add(1, Relaxed);
                for turn in 0.. {
                    let (request, answer) = exchange(pair.protocol, turn % 2_000);
                    if request.is_empty() {
                        client.expect_end();
                        break;
                    }
                    if !matches!(client.try_send(request.as_bytes()), Ok(sent) if sent == request.len()) {
                        break;
                    }
                    let mut came = Vec::new();
                    while came.len() < answer.len() {
                        let more = client.read(answer.len() - came.len());
                        if more.is_empty() {
                            break;
                        }
                        came.extend(more);
                    }
                    undated(&mut came);
                    assert!(answer.as_bytes().starts_with(&came), "other than {answer:?}");
                    if came.len() < answer.len() {
                        break;
                    }
                    answered.fetch_add(1, Relaxed);
                }
                answered.fetch_add(1_000, Relaxed);
            }));
        }
        // Under load is when many have been answered.
        let enough = if pair.protocol == BuiltIn::Chat {
            count
        } else {
            200
        };
        let goes_on = || !load.iter().all(ScopedJoinHandle::is_finished);
        while goes_on() && (begun.load(Relaxed) < count || answered.load(Relaxed) < enough) {
            std::thread::yield_now();
        }
        server.tell_to_stop();
    });
    let counted = server.end();
    assert_eq!(
        counted.of("drain time over") + counted.of("panicked"),
        0,
        "{counted:?}"
    );
}

/// It hears the end, and goes on sending.
fn stop_without_clients(pair: Pair) {
    let server = pair.serve(&[LONG_DRAIN]);
    let mut client = server.connect();
    ask(pair, &mut client, 0);
    server.tell_to_stop();
    client.rest();
    sends_on(&mut client);
    server.end();
}

/// The same of one whose connection had ended before, and lingers.
pub fn stop_while_it_lingers(pair: Pair) {
    let server = pair.serve(&[LONG_DRAIN]);
    let mut client = server.connect();
    client.send("no request\n");
    client.rest();
    client.send_apart(b"x");
    server.tell_to_stop();
    server.until_refused();
    sends_on(&mut client);
    server.end();
}

/// A client sends as long as that goes, a byte each hundredth of a second: few of them go.
fn sends_on(client: &mut Client) {
    const FEW: usize = 50;
    let mut sent = 0;
    while client.try_send(b"x").is_ok() {
        sent += 1;
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(sent < FEW, "{sent} bytes went after the end");
}

fn stop_at_once(pair: Pair) {
    let server = pair.serve(&[]);
    server.stop().expect("accepted", 0);
}
