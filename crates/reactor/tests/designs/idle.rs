//! Event-driven designs with many connections that say nothing: no thread wakes.

use std::thread;
use std::time::Duration;

use crate::served::Served;
use crate::{Test, test};

const DESIGNS: [(&str, &[&str]); 11] = [
    ("reactor", &[]),
    ("one-handler-reactor", &[]),
    ("split-reactor", &[]),
    ("reactor-pool", &[]),
    ("reactor-per-core", &[]),
    ("proactor", &[]),
    ("leader-followers", &[]),
    ("half-sync-half-async", &[]),
    ("reactor", &["sends=io_uring"]),
    ("split-reactor", &["sends=io_uring"]),
    ("reactor-per-core", &["sends=io_uring"]),
];

pub fn tests() -> Vec<Test> {
    let tests = DESIGNS.into_iter().map(|(design, settings)| {
        let way = [&[design], settings].concat().join("+");
        let name = format!("idle::two_thousand_wake_nobody_on_{way}");
        test(name, move || two_thousand_wake_nobody(design, settings))
    });
    tests.collect()
}

fn two_thousand_wake_nobody(design: &str, settings: &[&str]) {
    let server = Served::start(design, "echo", settings);
    let mut clients: Vec<_> = (0..2_000).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.send("all of us\n"));
    for client in &mut clients {
        assert_eq!(client.line(), "all of us\n");
    }
    let asleep = server.fall_asleep();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(server.asleep(), Some(asleep), "somebody has been awake");
    server.tell_to_stop();
    assert!(clients.iter_mut().all(|client| client.has_ended()));
    assert_eq!(server.stop().of("server stopped"), 2_000);
}
