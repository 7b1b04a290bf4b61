//! The stop: idle, in the middle of service, and with clients that do not end.

use crate::served::{Served, until};
use crate::{BLOCKING, Test, at_once, on_each};

pub fn tests() -> Vec<Test> {
    let mut tests = on_each("stopping::without_clients", BLOCKING, without_clients);
    tests.extend(on_each("stopping::silent_clients", BLOCKING, silent_clients));
    tests.extend(on_each("stopping::stuck_clients", BLOCKING, stuck_clients));
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
    let server = Served::start(design, "bytes", &["drain_ms=50"]);
    let client = server.client();
    let request = "16384 keep\n".repeat(10_000);
    client.socket().set_nonblocking(true).expect("not to wait");
    // Until neither side takes anything more.
    let sent = std::cell::Cell::new(0);
    until("the server is stuck", || {
        use std::io::Write;
        let before = sent.get();
        while let Ok(count) = client.socket().write(&request.as_bytes()[sent.get() % 11..]) {
            sent.set(sent.get() + count);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        sent.get() == before && before > 0
    });
    let summary = server.stop();
    assert_eq!((summary.of("drain time over"), summary.of("closed")), (1, 1));
    assert_eq!((summary.of("left"), summary.of("threads")), (0, 1));
}
