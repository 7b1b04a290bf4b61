//! Looks made by hand, for the tests of what is told of them.

use super::look::{Look, Seen, ThreadKey, ThreadLook};
use super::wait::WaitKind;

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// A thread that has been there for long, and has done so much since its start.
pub(super) fn thread(tid: i32, name: &str, ran_ns: u64, waited_ns: u64, slices: u64) -> ThreadLook {
    ThreadLook {
        key: ThreadKey {
            pid: 1,
            tid,
            start_ticks: 5,
        },
        name: name.to_owned(),
        ran_ns,
        waited_ns: Some(waited_ns),
        slices: Some(slices),
        age_ns: 1_000_000 * SECOND_NS,
        ..ThreadLook::default()
    }
}

/// A look after so many seconds.
pub(super) fn look(at_s: u64, threads: Vec<ThreadLook>) -> Look {
    Look {
        // Observing begins at some time.
        at_ns: (1_000 + at_s) * SECOND_NS,
        processes: 1,
        threads,
        ..Look::default()
    }
}

/// Seen so often ready to run, and waiting.
pub(super) fn seen(runnable: u32, waits: &[(WaitKind, u32)]) -> Seen {
    let mut seen = Seen {
        runnable,
        ..Seen::default()
    };
    for (kind, count) in waits {
        seen.waits[kind.index()] += count;
    }
    seen
}
