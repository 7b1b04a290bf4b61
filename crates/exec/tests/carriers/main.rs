//! What every carrier promises, tested on every carrier; what helper processes promise beyond it; and what happens
//! when threads, helpers or memory run out.
//!
//! The processors are scripts ([`script`]), so that they mean the same in a thread, in another process and in a future.
//! The program re-executes itself, as helper and as the child in which limits are low; so its `main` is its own.
//! `cargo test --test carriers -- WORDS` runs the tests whose names contain one of the words.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod carrier;
mod common;
mod limits;
mod memory;
mod processes;
mod script;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use threadgauge_exec::process::{self, Registered};

const REGISTERED: &[&dyn Registered] = &[
    &carrier::PERFORM,
    &processes::DOUBLE,
    &processes::NESTED,
    &processes::UNREADABLE,
];

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

fn main() -> ExitCode {
    process::helper(REGISTERED);
    if let Some(code) = limits::child() {
        return code;
    }
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let mut failed = Vec::new();
    let mut passed = 0;
    for test in [
        common::tests(),
        processes::tests(),
        limits::tests(),
        memory::tests(),
    ]
    .into_iter()
    .flatten()
    {
        if !words.is_empty() && !words.iter().any(|word| test.name.contains(word)) {
            continue;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _watchdog = Watchdog::new(test.name.clone());
            (test.run)();
            assert_eq!(children(), Vec::<u32>::new(), "a child was left behind");
        }));
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {} ... {verdict}", test.name);
        match outcome {
            Ok(()) => passed += 1,
            Err(_) => failed.push(test.name),
        }
    }
    println!("{passed} passed; {} failed: {failed:?}", failed.len());
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The children of this process, zombies included.
fn children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .flat_map(|task| {
            let list = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            list.split_whitespace()
                .map(|id| id.parse().unwrap())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// How long anything may take before a test gives up.
const DEADLINE: Duration = Duration::from_secs(120);

#[track_caller]
fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {DEADLINE:?}");
        std::thread::yield_now();
    }
}

/// Ends the program when a test does not: whoever runs it sees which, and no child stays behind.
struct Watchdog {
    _test_ends: Sender<()>,
}

impl Watchdog {
    fn new(test: String) -> Self {
        let (test_ends, ended) = channel();
        std::thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || {
                if ended.recv_timeout(2 * DEADLINE) == Err(RecvTimeoutError::Timeout) {
                    println!("test {test} ... did not end within {:?}", 2 * DEADLINE);
                    std::process::exit(1);
                }
            })
            .unwrap();
        Self {
            _test_ends: test_ends,
        }
    }
}

/// Waits until the file is there, and reads it.
fn content_of(path: &Path) -> String {
    until(|| path.exists());
    std::fs::read_to_string(path).unwrap()
}

/// A runtime in a page.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        std::thread::park();
    }
}
