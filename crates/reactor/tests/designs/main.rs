//! Each design is that design: how many processes and threads there are, who accepts, what happens when they die, and
//! when the server stops. That they all serve alike, also where descriptors or memory are few, is tested elsewhere.
//!
//! Each server runs in a process of its own, which is this program again; so its `main` is its own.
//! `cargo test --test designs -- WORDS` runs the tests whose names contain one of the words.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../common/mod.rs"]
mod common;
mod dying;
mod idle;
mod loops;
mod seccomp;
mod served;
mod stopping;
mod units;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Those without event loops.
const BLOCKING: &[&str] = &[
    "iterative",
    "process-per-connection",
    "preforked-accept",
    "preforked-file-lock",
    "preforked-mutex",
    "preforked-descriptor",
    "preforked-reuseport",
    "thread-per-connection",
    "prethreaded-mutex",
    "prethreaded-acceptor",
];
const FORKING: &[&str] = &[
    "process-per-connection",
    "preforked-accept",
    "preforked-file-lock",
    "preforked-mutex",
    "preforked-descriptor",
    "preforked-reuseport",
];
const PREFORKED: &[&str] = &[
    "preforked-accept",
    "preforked-file-lock",
    "preforked-mutex",
    "preforked-descriptor",
    "preforked-reuseport",
];

/// The preforked ones whose children share what they accept from: an idle one serves the next client.
const SHARING: &[&str] = &[
    "preforked-accept",
    "preforked-file-lock",
    "preforked-mutex",
    "preforked-descriptor",
];

const PRETHREADED: &[&str] = &["prethreaded-mutex", "prethreaded-acceptor"];

/// As many as given, or 1 where a second client may have to wait for the end of the first.
fn at_once(design: &str, count: u64) -> u64 {
    match design {
        "iterative" | "preforked-reuseport" => 1,
        _ => count,
    }
}

struct Test {
    name: String,
    run: Box<dyn Fn()>,
}

fn test(name: impl Into<String>, run: impl Fn() + 'static) -> Test {
    Test {
        name: name.into(),
        run: Box::new(run),
    }
}

/// A test for each of some designs.
fn on_each(name: &str, designs: &[&'static str], run: fn(&str)) -> Vec<Test> {
    designs
        .iter()
        .map(|&design| test(format!("{name}_on_{design}"), move || run(design)))
        .collect()
}

fn main() -> ExitCode {
    if let Some(code) = served::serve() {
        return code;
    }
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let (mut passed, mut failed) = (0, Vec::new());
    let tests = [
        units::tests(),
        dying::tests(),
        loops::tests(),
        idle::tests(),
        stopping::tests(),
    ];
    for test in tests.into_iter().flatten() {
        if !words.is_empty() && !words.iter().any(|word| test.name.contains(word)) {
            continue;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            (test.run)();
            let left = common::proc::children(std::process::id());
            assert!(left.is_empty(), "processes were left: {left:?}");
        }));
        println!(
            "test {} ... {}",
            test.name,
            if outcome.is_ok() { "ok" } else { "FAILED" }
        );
        match outcome {
            Ok(()) => passed += 1,
            Err(_) => failed.push(test.name),
        }
    }
    println!("{passed} passed; {} failed: {failed:?}", failed.len());
    // Words that fit nothing are a mistake, not a success.
    match failed.is_empty() && passed > 0 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
