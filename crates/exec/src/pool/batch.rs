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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_grows_while_it_is_short_and_ends_at_the_first_long_object() {
        for (mode, ns) in [(Mode::Prompt, 4_000), (Mode::Throughput, 50_000)] {
            for (want, longest_ns, took_ns, next) in [
                (8, 0, ns / 2, 16),
                (8, 0, ns / 2 + 1, 8),
                (8, ns, 2 * ns, 8),
                (8, ns, 2 * ns + 1, 4),
                (1, ns, 2 * ns + 1, 1),
                (8, ns + 1, ns + 1, 1),
                (64, 0, 0, 100),
            ] {
                let mut batch = Batch::new(mode, 100);
                assert_eq!(batch.want, 1);
                batch.want = want;
                batch.adapt(longest_ns, took_ns);
                assert_eq!(
                    batch.want, next,
                    "{want} in {took_ns} of {ns} ns, one {longest_ns}"
                );
            }
        }
        assert_eq!(Batch::new(Mode::Prompt, 10_000).most, MAX_BATCH);
    }
}
