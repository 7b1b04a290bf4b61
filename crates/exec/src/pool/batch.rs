//! How many objects a carrier claims at once: as many short ones as make up a stretch of time.

use crate::settings::Mode;
use crate::shared::MAX_BATCH;

/// What a batch is meant to take.
const BATCH_NS: u64 = 4_000;
/// The same where a result may wait: then the lines that carry claims and results change CPUs less often.
const LONG_BATCH_NS: u64 = 50_000;

/// How many objects to claim at once.
pub(super) struct Batch {
    pub(super) want: usize,
    most: usize,
    pub(super) ns: u64,
}

impl Batch {
    /// For a carrier at which so many results may wait.
    pub(super) fn new(mode: Mode, waiting: usize) -> Self {
        Self {
            want: 1,
            most: waiting.min(MAX_BATCH),
            ns: if mode == Mode::Throughput {
                LONG_BATCH_NS
            } else {
                BATCH_NS
            },
        }
    }

    pub(super) fn adapt(&mut self, longest_ns: u64, took_ns: u64) {
        self.want = if longest_ns > self.ns {
            1
        } else if took_ns <= self.ns / 2 {
            (self.want * 2).min(self.most)
        } else if took_ns > self.ns * 2 {
            (self.want / 2).max(1)
        } else {
            self.want
        };
    }
}
