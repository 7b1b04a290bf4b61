//! The stored tries of an experiment, and what they mean for those still to come.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use threadgauge_results::{Status, StoredSample};

/// A case that failed this often, and never succeeded, is not tried again.
const FAILURES: usize = 2;

/// The stored tries of an experiment.
#[derive(Debug, Default)]
pub(super) struct History {
    /// In the order in which they were measured.
    pub tries: Vec<StoredSample>,
    /// The place in `tries` of each try's last attempt, by round, case, copy and number of the try.
    last: BTreeMap<(u32, String, u32, u32), usize>,
    failures: BTreeMap<String, usize>,
    successes: HashSet<String>,
    /// How long all of them took.
    pub spent: Duration,
}

impl History {
    pub fn new(tries: Vec<StoredSample>) -> Self {
        let mut history = Self::default();
        for tried in tries {
            history.add(tried);
        }
        history
    }

    pub fn add(&mut self, tried: StoredSample) {
        let key = (tried.round, tried.case.clone(), tried.copy, tried.nth_try);
        self.last.insert(key, self.tries.len());
        self.spent += Duration::from_nanos(tried.wall_ns);
        if tried.sample.status == Status::Ok {
            self.successes.insert(tried.case.clone());
        } else if !tried.gated {
            // One that failed while all was stopped is no failure of the case.
            *self.failures.entry(tried.case.clone()).or_default() += 1;
        }
        self.tries.push(tried);
    }

    /// The last attempt of a try.
    pub fn last(&self, round: u32, case: &str, copy: u32, nth_try: u32) -> Option<&StoredSample> {
        let key = (round, case.to_owned(), copy, nth_try);
        self.last.get(&key).map(|&place| &self.tries[place])
    }

    /// Whether any try of this round is stored.
    pub fn has_begun(&self, round: u32) -> bool {
        self.last.keys().any(|(begun, ..)| *begun == round)
    }

    /// Whether the case is not tried again.
    pub fn gave_up(&self, case: &str) -> bool {
        !self.successes.contains(case) && self.failures.get(case).is_some_and(|&n| n >= FAILURES)
    }
}
