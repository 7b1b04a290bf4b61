//! Waits with a deadline: what is broken fails, and does not hang.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Waits until it is true.
#[track_caller]
pub fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {DEADLINE:?}");
        thread::yield_now();
    }
}

/// Runs a test that must end; one that does not is left behind.
#[track_caller]
pub fn ends(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel::<()>();
    let running = thread::spawn(move || {
        let _told_at_the_end = done;
        test();
    });
    assert!(
        matches!(ended.recv_timeout(DEADLINE), Err(RecvTimeoutError::Disconnected)),
        "it did not end within {DEADLINE:?}"
    );
    if let Err(panic) = running.join() {
        resume_unwind(panic);
    }
}

/// As [`std::sync::Barrier`].
pub struct Barrier {
    size: usize,
    come: Mutex<usize>,
    full: Condvar,
}

impl Barrier {
    pub fn new(size: usize) -> Self {
        Self {
            size,
            come: Mutex::new(0),
            full: Condvar::new(),
        }
    }

    /// Whether this was the last of those that met.
    pub fn wait(&self) -> bool {
        let mut come = self.come.lock().unwrap();
        *come += 1;
        if come.is_multiple_of(self.size) {
            self.full.notify_all();
            return true;
        }
        let meeting = *come / self.size;
        let (_come, waited) = self
            .full
            .wait_timeout_while(come, DEADLINE, |come| *come / self.size == meeting)
            .unwrap();
        assert!(!waited.timed_out(), "some of {} did not come", self.size);
        false
    }
}
