//! How many processes and threads there are, and who accepts.

use crate::served::{Served, until};
use crate::{PRETHREADED, SHARING, Test, on_each, test};

pub fn tests() -> Vec<Test> {
    let mut tests = vec![
        test(
            "units::a_process_for_each_connection",
            a_process_for_each_connection,
        ),
        test(
            "units::a_thread_for_each_connection",
            a_thread_for_each_connection,
        ),
        test("units::a_socket_for_each_process", a_socket_for_each_process),
    ];
    tests.extend(on_each("units::fifteen_processes", SHARING, fifteen_processes));
    tests.extend(on_each(
        "units::grows_and_shrinks",
        SHARING,
        processes_grow_and_shrink,
    ));
    tests.extend(on_each("units::fifteen_threads", PRETHREADED, fifteen_threads));
    tests.extend(on_each(
        "units::grows_and_shrinks",
        PRETHREADED,
        threads_grow_and_shrink,
    ));
    tests
}

fn a_process_for_each_connection() {
    let server = Served::start("process-per-connection", "echo", &["most=5"]);
    assert_eq!((server.children().len(), server.threads()), (0, 1));
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    clients.iter_mut().take(5).for_each(|client| client.echo());
    assert_eq!(
        (server.children().len(), server.threads()),
        (5, 1),
        "a bound is a bound"
    );
    clients.drain(..3);
    clients.iter_mut().for_each(|client| client.echo());
    assert_eq!(server.children().len(), 5);
    drop(clients);
    until("every child has ended", || server.children().is_empty());
    let summary = server.stop();
    assert_eq!(
        (summary.count("accepted"), summary.count("units_created")),
        (8, 8)
    );
    assert_eq!((summary.count("ended by client"), summary.count("left")), (8, 0));
}

fn a_thread_for_each_connection() {
    let server = Served::start("thread-per-connection", "echo", &["most=5"]);
    assert_eq!((server.children().len(), server.threads()), (0, 1));
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    clients.iter_mut().take(5).for_each(|client| client.echo());
    assert_eq!(
        (server.children().len(), server.threads()),
        (0, 6),
        "a bound is a bound"
    );
    clients.drain(..3);
    clients.iter_mut().for_each(|client| client.echo());
    assert_eq!(server.threads(), 6);
    drop(clients);
    until("every thread has ended", || server.threads() == 1);
    let summary = server.stop();
    assert_eq!(
        (summary.count("accepted"), summary.count("units_created")),
        (8, 8)
    );
    assert_eq!(
        (summary.count("ended by client"), summary.count("threads")),
        (8, 1)
    );
}

fn fifteen_processes(design: &str) {
    let server = Served::start(design, "echo", &[]);
    until("all are there", || server.children().len() == 15);
    let mut clients: Vec<_> = (0..15).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.echo());
    assert_eq!((server.children().len(), server.threads()), (15, 1));
    drop(clients);
    let summary = server.stop();
    assert_eq!(
        (summary.count("accepted"), summary.count("units_created")),
        (15, 15)
    );
    assert_eq!((summary.count("closed"), summary.count("left")), (15, 0));
}

fn processes_grow_and_shrink(design: &str) {
    let server = Served::start(design, "echo", &["workers=1..4"]);
    until("the first is there", || server.children().len() == 1);
    let mut clients = Vec::new();
    for busy in 1..=4 {
        let mut client = server.client();
        client.echo();
        clients.push(client);
        until("one is idle while there may be more", || {
            server.children().len() == 4.min(busy + 1)
        });
    }
    let mut waiting = server.client();
    waiting.send("hello\n");
    drop(clients);
    assert_eq!(waiting.line(), "hello\n");
    drop(waiting);
    until("all but the first have ended", || server.children().len() == 1);
    server.client().echo();
    let summary = server.stop();
    assert_eq!((summary.count("accepted"), summary.count("left")), (6, 0));
}

/// Sixteen listening sockets on one port in the parent would be one too many; each child has its own.
fn a_socket_for_each_process() {
    let server = Served::start("preforked-reuseport", "echo", &["workers=4"]);
    until("all are there", || server.children().len() == 4);
    let sockets = |pid| server.listening_sockets(pid);
    until("each has its own alone", || {
        server
            .children()
            .into_iter()
            .all(|child| sockets(child).len() == 1)
    });
    let mut all: Vec<_> = server.children().into_iter().flat_map(sockets).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 4, "and no two the same");
    server.serve_at_once(40);
    let summary = server.stop();
    assert_eq!((summary.count("accepted"), summary.count("closed")), (40, 40));
    let refused = Served::refused("preforked-reuseport", &["workers=1..4"]);
    assert!(refused.contains("workers cannot be 1..4"), "{refused}");
}

fn fifteen_threads(design: &str) {
    let server = Served::start(design, "echo", &[]);
    until("all are there", || server.threads() == 16);
    let mut clients: Vec<_> = (0..15).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.echo());
    assert_eq!((server.children().len(), server.threads()), (0, 16));
    drop(clients);
    let summary = server.stop();
    assert_eq!(
        (summary.count("accepted"), summary.count("units_created")),
        (15, 15)
    );
    assert_eq!((summary.count("closed"), summary.count("threads")), (15, 1));
}

fn threads_grow_and_shrink(design: &str) {
    let server = Served::start(design, "echo", &["workers=1..4"]);
    until("the first is there", || server.threads() == 2);
    let mut clients = Vec::new();
    for busy in 1..=4 {
        let mut client = server.client();
        client.echo();
        clients.push(client);
        until("one is idle while there may be more", || {
            server.threads() == 1 + 4.min(busy + 1)
        });
    }
    let mut waiting = server.client();
    waiting.send("hello\n");
    drop(clients);
    assert_eq!(waiting.line(), "hello\n");
    drop(waiting);
    until("all but the first have ended", || server.threads() == 2);
    server.client().echo();
    let summary = server.stop();
    assert_eq!((summary.count("accepted"), summary.count("threads")), (6, 1));
}
