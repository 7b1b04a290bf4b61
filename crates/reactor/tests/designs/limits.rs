//! Few descriptors, and threads where there must be none.

use crate::served::Served;
use crate::{ALL, FORKING, Test, on_each};

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
    server.serve_at_once(100);
    let summary = server.stop();
    assert_eq!((summary.count("accepted"), summary.count("closed")), (100, 100));
    assert!(
        summary.count("accepts") < 2_000 && summary.count("wake_ups") < 5_000,
        "it spun: {summary:?}"
    );
}

fn no_fork_with_threads(design: &str) {
    let said = Served::refused(design, &["threads=1"]);
    assert!(said.contains("2 threads"), "{said}");
}
