//! How many processes and threads there are, and who accepts.

use crate::common::counted::Counted;
use crate::served::{Served, sockets, until, waits_in};
use crate::{FORKING, PREFORKED, PRETHREADED, SHARING, Test, on_each, test};

pub fn tests() -> Vec<Test> {
    let each = ["process-per-connection", "thread-per-connection"];
    let mut tests = on_each("units::one_for_each_connection", &each, one_for_each_connection);
    let pools = [SHARING, PRETHREADED].concat();
    tests.extend(on_each("units::fifteen", &pools, fifteen));
    tests.extend(on_each("units::grows_and_shrinks", &pools, grows_and_shrinks));
    let accepting = [PREFORKED, PRETHREADED].concat();
    tests.extend(on_each(
        "units::who_waits_for_what",
        &accepting,
        who_waits_for_what,
    ));
    tests.extend(on_each(
        "units::no_fork_with_threads",
        FORKING,
        no_fork_with_threads,
    ));
    tests.push(test(
        "units::a_socket_for_each_process",
        a_socket_for_each_process,
    ));
    tests.push(test(
        "units::nobody_has_a_sibling's_channel",
        nobody_has_a_siblings,
    ));
    tests
}

/// What a design has for its connections.
#[derive(Clone, Copy)]
enum Unit {
    Process,
    Thread,
}

impl Unit {
    fn of(design: &str) -> Self {
        match PRETHREADED.contains(&design) || design == "thread-per-connection" {
            true => Self::Thread,
            false => Self::Process,
        }
    }

    /// How many a server has beside its first process and thread.
    fn count(self, server: &Served) -> usize {
        let (processes, threads) = (server.children().len(), server.threads() - 1);
        let (own, other) = match self {
            Self::Process => (processes, threads),
            Self::Thread => (threads, processes),
        };
        assert_eq!(other, 0, "units of another kind");
        own
    }
}

fn expect_none_left(summary: &Counted) {
    assert_eq!((summary.of("left"), summary.of("threads")), (0, 1));
}

fn one_for_each_connection(design: &str) {
    let server = Served::start(design, "echo", &["max_connections=5"]);
    let units = || Unit::of(design).count(&server);
    assert_eq!(units(), 0);
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    clients.iter_mut().take(5).for_each(|client| client.echo());
    assert_eq!(units(), 5, "a bound is a bound");
    clients.drain(..3);
    clients.iter_mut().for_each(|client| client.echo());
    // The kernel still counts a thread for a moment after it was joined.
    until("those that have ended are gone", || units() == 5);
    drop(clients);
    until("every one has ended", || units() == 0);
    let summary = server.stop();
    assert_eq!((summary.of("accepted"), summary.of("units_created")), (8, 8));
    assert_eq!((summary.of("ended by client"), summary.of("units_lost")), (8, 0));
    expect_none_left(&summary);
}

fn fifteen(design: &str) {
    let server = Served::start(design, "echo", &[]);
    let units = || Unit::of(design).count(&server);
    until("all are there", || units() == 15);
    let mut clients: Vec<_> = (0..15).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.echo());
    assert_eq!(units(), 15);
    drop(clients);
    let summary = server.stop();
    assert_eq!((summary.of("accepted"), summary.of("units_created")), (15, 15));
    assert_eq!(summary.of("closed"), 15);
    expect_none_left(&summary);
}

fn grows_and_shrinks(design: &str) {
    let server = Served::start(design, "echo", &["workers=1..4"]);
    let units = || Unit::of(design).count(&server);
    until("the first is there", || units() == 1);
    let mut clients = Vec::new();
    for busy in 1..=4 {
        let mut client = server.client();
        client.echo();
        clients.push(client);
        until("one is idle while there may be more", || {
            units() == 4.min(busy + 1)
        });
    }
    let mut waiting = server.client();
    waiting.send("hello\n");
    drop(clients);
    assert_eq!(waiting.line(), "hello\n");
    drop(waiting);
    until("all but the first have ended", || units() == 1);
    server.client().echo();
    let summary = server.stop();
    assert_eq!(summary.of("accepted"), 6);
    expect_none_left(&summary);
}

/// The system calls in which the units of an idle server wait tell who accepts, and what decides it.
fn who_waits_for_what(design: &str) {
    use libc::{SYS_accept4, SYS_fcntl, SYS_futex, SYS_recvmsg};

    let expected = match design {
        "preforked-accept" | "preforked-reuseport" => [SYS_accept4; 4],
        "preforked-file-lock" => [SYS_fcntl, SYS_fcntl, SYS_fcntl, SYS_accept4],
        "preforked-mutex" | "prethreaded-mutex" => [SYS_futex, SYS_futex, SYS_futex, SYS_accept4],
        "preforked-descriptor" => [SYS_recvmsg; 4],
        "prethreaded-acceptor" => [SYS_futex; 4],
        other => panic!("who waits for what on {other}?"),
    };
    let server = Served::start(design, "echo", &["workers=4"]);
    let mut sorted = expected.map(Some);
    sorted.sort_unstable();
    until("each waits as its design has it", || {
        let units = match Unit::of(design) {
            Unit::Process => server.children(),
            Unit::Thread => server.other_threads(),
        };
        let mut seen: Vec<_> = units.into_iter().map(waits_in).collect();
        seen.sort_unstable();
        seen == sorted
    });
    server.serve_at_once(8);
    let summary = server.stop();
    assert_eq!((summary.of("accepted"), summary.of("closed")), (8, 8));
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
    assert_eq!((summary.of("accepted"), summary.of("closed")), (40, 40));
}

/// A child has inherited the parent's ends of its siblings' channels, and the listener. While it had them open, its
/// siblings would not hear of the parent's end.
fn nobody_has_a_siblings() {
    let server = Served::start("preforked-descriptor", "echo", &["workers=4"]);
    until("all wait", || {
        let children = server.children();
        let waiting = |&child: &u32| waits_in(child) == Some(libc::SYS_recvmsg);
        children.len() == 4 && children.iter().all(waiting)
    });
    // Whoever runs the tests may have given all of them some.
    let given = sockets(std::process::id());
    for child in server.children() {
        let mut sockets = sockets(child);
        sockets.retain(|socket| !given.contains(socket));
        assert_eq!(sockets.len(), 1, "its end of its own channel");
    }
    server.stop();
}

/// A design that forks is not served by a process that has threads.
fn no_fork_with_threads(design: &str) {
    let said = Served::refused(design, &["threads=1"]);
    assert!(said.contains("2 threads"), "{said}");
}
