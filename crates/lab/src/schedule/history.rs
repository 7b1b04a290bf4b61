//! What the store already holds of an experiment, and what that means for what is still to be run.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use threadgauge_results::{Status, StoredSample};

/// A case that failed this often, and never ran, is not tried again.
const FAILURES: usize = 2;

/// What the store already holds of an experiment.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The last attempt of each sample, by round, case and copy.
    last: BTreeMap<(u32, String, u32), StoredSample>,
    failures: BTreeMap<String, usize>,
    successes: HashSet<String>,
    pub spent: Duration,
    /// Case → metric → values of undisturbed rounds, first copy.
    pub values: BTreeMap<String, BTreeMap<String, BTreeMap<u32, f64>>>,
}

impl History {
    pub fn new(samples: &[StoredSample]) -> Self {
        let mut history = Self::default();
        for sample in samples {
            history.add(sample);
        }
        history
    }

    /// Takes note of a sample, or of what it is after another try.
    pub fn add(&mut self, stored: &StoredSample) {
        let key = (stored.round, stored.case.clone(), stored.copy);
        let before = self.last.insert(key, stored.clone());
        let counted_ns = before
            .filter(|before| before.attempt == stored.attempt)
            .map_or(0, |before| before.wall_ns);
        self.spent += Duration::from_nanos(stored.wall_ns.saturating_sub(counted_ns));
        match stored.sample.status {
            Status::Ok => {
                self.successes.insert(stored.case.clone());
                if stored.copy == 0 && !stored.gated {
                    let metrics = self.values.entry(stored.case.clone()).or_default();
                    for metric in &stored.sample.metrics {
                        let rounds = metrics.entry(metric.name.clone()).or_default();
                        rounds.insert(stored.round, metric.value);
                    }
                }
            }
            Status::Failed | Status::Skipped => {
                *self.failures.entry(stored.case.clone()).or_default() += 1;
                // A try before it may have been well; the sample is not.
                if stored.copy == 0
                    && let Some(metrics) = self.values.get_mut(&stored.case)
                {
                    for rounds in metrics.values_mut() {
                        rounds.remove(&stored.round);
                    }
                }
            }
        }
    }

    pub fn last(&self, round: u32, case: &str, copy: u32) -> Option<&StoredSample> {
        self.last.get(&(round, case.to_owned(), copy))
    }

    pub fn has_begun(&self, round: u32) -> bool {
        self.last.keys().any(|(begun, ..)| *begun == round)
    }

    pub fn gave_up(&self, case: &str) -> bool {
        !self.successes.contains(case) && self.failures.get(case).is_some_and(|&n| n >= FAILURES)
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_results::Sample;

    use super::super::tries::tests::{of, tried};
    use super::super::tries::{least_of, tries_of};
    use super::*;

    #[test]
    fn a_sample_that_grows_is_one_sample_and_its_time_counts_once() {
        let (one, two) = (tried(12.0, false), of(&[(12.0, false), (10.0, false)]));
        let mut history = History::default();
        history.add(&one);
        history.add(&two);
        assert_eq!(history.spent, Duration::from_nanos(10));
        assert_eq!(history.values["e/a=1"]["ns"], BTreeMap::from([(1, 10.0)]));
        assert_eq!(history.last(1, "e/a=1", 0).map(tries_of), Some(2.0));
    }

    #[test]
    fn a_sample_that_fails_in_the_end_has_no_value() {
        let failed = StoredSample {
            sample: Sample::without_figures(Status::Failed, "refused".to_owned()),
            ..tried(0.0, false)
        };
        let mut history = History::default();
        history.add(&tried(10.0, false));
        history.add(&least_of(tried(10.0, false), failed, "ns"));
        assert_eq!(history.values["e/a=1"]["ns"], BTreeMap::new());
    }
}
