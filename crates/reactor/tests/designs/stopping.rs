//! The stop: idle, in the middle of service, and with clients that do not end.

use std::io::Write;
use std::thread;
use std::time::Duration;

use threadgauge_reactor::Design;

use crate::served::Served;
use crate::{BLOCKING, FORKING, Test, at_once, on_each};

pub fn tests() -> Vec<Test> {
    let mut tests = on_each("stopping::without_clients", BLOCKING, without_clients);
    tests.extend(on_each("stopping::silent_clients", BLOCKING, silent_clients));
    tests.extend(on_each("stopping::stuck_clients", BLOCKING, stuck_clients));
    let all: Vec<_> = Design::ALL.iter().map(|design| design.name()).collect();
    tests.extend(on_each("stopping::refused_to_accept", &all, refused_to_accept));
    tests.extend(on_each("stopping::refused_threads", &all, refused_threads));
    tests
}

fn without_clients(design: &str) {
    let server = Served::start(design, "echo", &[]);
    let descriptors = Served::start("iterative", "echo", &[]).stop().of("descriptors");
    let summary = server.stop();
    assert_eq!((summary.of("accepted"), summary.of("left")), (0, 0));
    assert_eq!(
        (summary.of("threads"), summary.of("descriptors")),
        (1, descriptors)
    );
}

/// Nobody can be accepted, for a reason that no list has: that ends no server, and none spins.
fn refused_to_accept(design: &str) {
    let server = Served::start(design, "echo", &["accept=refused"]);
    let _client = server.client();
    thread::sleep(Duration::from_millis(300));
    let summary = server.stop();
    assert_eq!((summary.of("accepted"), summary.of("left")), (0, 0));
    let errors = summary.of("accept_errors");
    assert!((1..50_000).contains(&errors), "{summary:?}");
}

/// No thread can be made: a server does without, waits for one, or says so and ends. In each case it heeds the stop.
fn refused_threads(design: &str) {
    let ended = Served::start(design, "echo", &["threads=refused"]).end();
    let needs_none = design == "leader-followers" || FORKING.contains(&design);
    assert!(ended.success() || !needs_none, "{ended}");
}

/// Clients that wait and say nothing are ended at once.
fn silent_clients(design: &str) {
    let server = Served::start(design, "echo", &["drain_ms=3600000"]);
    let count = at_once(design, 4);
    let mut clients: Vec<_> = (0..count).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.echo());
    server.tell_to_stop();
    assert!(clients.iter_mut().all(|client| client.has_ended()));
    let summary = server.stop();
    assert_eq!(
        (summary.of("server stopped"), summary.of("closed")),
        (count, count)
    );
    assert_eq!((summary.of("left"), summary.of("threads")), (0, 1));
}

/// A client that takes nothing holds the server up no longer than the drain time.
fn stuck_clients(design: &str) {
    let server = Served::start(design, "bytes", &["drain_ms=50", "output_limit=16777216"]);
    let mut client = server.client();
    client.take_little();
    // One receive of this brings requests for more than may wait, and that is more than sockets hold.
    let requests = "16384 keep\n".repeat(4_000);
    client.send(&requests);
    // What one receive leads to is sent together: once the first of it is here, all of it waits.
    client.peek();
    // So the server receives nothing more.
    client.socket().set_nonblocking(true).expect("not to wait");
    while client.socket().write(requests.as_bytes()).is_ok() {}
    let summary = server.stop();
    assert_eq!((summary.of("drain time over"), summary.of("closed")), (1, 1));
    assert_eq!((summary.of("left"), summary.of("threads")), (0, 1));
}
