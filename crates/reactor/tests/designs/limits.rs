//! Few descriptors, and threads where there must be none.

use std::process::Command;

use crate::served::Served;
use crate::{Test, on_each};

const FORKING: &[&str] = &["process-per-connection", "preforked-accept"];
const ALL: &[&str] = &[
    "iterative",
    "process-per-connection",
    "preforked-accept",
    "thread-per-connection",
];

pub fn tests() -> Vec<Test> {
    let mut tests = on_each("limits::few_descriptors", ALL, few_descriptors);
    tests.extend(on_each(
        "limits::no_fork_with_threads",
        FORKING,
        no_fork_with_threads,
    ));
    tests
}

/// A hundred clients at once under a limit of 64 descriptors: all are served in the end.
fn few_descriptors(design: &str) {
    let server = Served::start(design, "echo", &["nofile=64"]);
    let clients: Vec<_> = (0..100)
        .map(|_| {
            let mut client = server.client();
            client.send("hello\n");
            client
        })
        .collect();
    for mut client in clients {
        assert_eq!(client.line(), "hello\n");
    }
    let summary = server.stop();
    assert_eq!((summary.count("accepted"), summary.count("closed")), (100, 100));
    assert!(
        summary.count("accepts") < 2_000 && summary.count("wake_ups") < 5_000,
        "it spun: {summary:?}"
    );
}

fn no_fork_with_threads(design: &str) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--serve", design, "echo", "threads=1"])
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("2 threads"), "{said}");
}
