//! Children and parents that are killed.

use rustix::process::Signal;

use crate::served::{Served, is_alive, kill, until};
use crate::{FORKING, PREFORKED, Test, at_once, on_each};

pub fn tests() -> Vec<Test> {
    let mut tests = on_each(
        "dying::a_killed_child_is_replaced",
        PREFORKED,
        a_killed_child_is_replaced,
    );
    tests.extend(on_each(
        "dying::no_faster_than_they_die",
        &["preforked-accept"],
        no_faster_than_they_die,
    ));
    tests.extend(on_each("dying::killed_in_service", FORKING, killed_in_service));
    tests.extend(on_each(
        "dying::a_killed_parent",
        FORKING,
        a_killed_parent_leaves_nobody,
    ));
    tests
}

/// Each child of a server is killed once: whoever holds a lock, accepts or waits is among them.
fn a_killed_child_is_replaced(design: &str) {
    let server = Served::start(design, "echo", &["workers=3"]);
    until("all are there", || server.children().len() == 3);
    for child in server.children() {
        kill(child, Signal::KILL);
        until("there are three again", || {
            !is_alive(child) && server.children().len() == 3
        });
        server.serve_at_once(3);
    }
    let summary = server.stop();
    assert_eq!((summary.of("accepted"), summary.of("units_created")), (9, 6));
    assert_eq!(summary.of("units_lost"), 3);
    assert_eq!((summary.of("lost"), summary.of("left")), (0, 0));
}

/// Whoever kills every child as soon as it comes up has the parent make them ever more slowly; and service goes on.
fn no_faster_than_they_die(design: &str) {
    let server = Served::start(design, "echo", &["workers=1"]);
    for _ in 0..8 {
        until("there is one", || !server.children().is_empty());
        for child in server.children() {
            kill(child, Signal::KILL);
            until("it is dead", || !is_alive(child));
        }
    }
    server.serve_at_once(2);
    let summary = server.stop();
    assert_eq!((summary.of("units_lost"), summary.of("units_created")), (8, 9));
    assert_eq!((summary.of("accepted"), summary.of("left")), (2, 0));
}

fn killed_in_service(design: &str) {
    let server = Served::start(design, "echo", &[]);
    let count = at_once(design, 3);
    let mut clients: Vec<_> = (0..count).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.echo());
    let children = server.children();
    for &child in &children {
        kill(child, Signal::KILL);
    }
    until("they are dead", || !children.iter().any(|&child| is_alive(child)));
    assert!(clients.iter_mut().all(|client| client.has_ended()));
    server.client().echo();
    let summary = server.stop();
    assert_eq!((summary.of("accepted"), summary.of("lost")), (count + 1, count));
    assert_eq!((summary.of("closed"), summary.of("left")), (count + 1, 0));
}

fn a_killed_parent_leaves_nobody(design: &str) {
    let mut server = Served::start(design, "echo", &[]);
    let mut client = server.client();
    client.echo();
    let children = server.children();
    assert!(!children.is_empty());
    server.kill();
    until("its children are dead", || {
        !children.iter().any(|&child| is_alive(child))
    });
    assert!(client.has_ended());
}
