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

/// The times of objects that one carrier runs without a pause: each starts when the one before it ended.
pub(super) struct Stretch {
    begun_ns: u64,
    /// When the last one ended.
    pub(super) at_ns: u64,
    pub(super) longest_ns: u64,
}

impl Stretch {
    #[inline]
    pub(super) fn begun(at_ns: u64) -> Self {
        Self {
            begun_ns: at_ns,
            at_ns,
            longest_ns: 0,
        }
    }

    /// One more has ended.
    #[inline]
    pub(super) fn goes_to(&mut self, ended_ns: u64) {
        self.longest_ns = self.longest_ns.max(ended_ns - self.at_ns);
        self.at_ns = ended_ns;
    }

    #[inline]
    pub(super) fn took_ns(&self) -> u64 {
        self.at_ns - self.begun_ns
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

    #[test]
    fn a_stretch_is_as_long_as_its_objects_together() {
        let mut stretch = Stretch::begun(1_000);
        assert_eq!(
            (stretch.at_ns, stretch.longest_ns, stretch.took_ns()),
            (1_000, 0, 0)
        );
        for (ended_ns, longest_ns, took_ns) in [(1_003, 3, 3), (1_010, 7, 10), (1_015, 7, 15)] {
            stretch.goes_to(ended_ns);
            let times = (stretch.at_ns, stretch.longest_ns, stretch.took_ns());
            assert_eq!(times, (ended_ns, longest_ns, took_ns));
        }
    }
}
