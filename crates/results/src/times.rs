//! What tries and experiments took, by stored runs: from that it is told how long the next one takes.

use std::collections::BTreeMap;

use crate::{RunRecord, Store, StoreError, machine_differences};

/// Beside its worker a try takes this long, s: to start and to store it, and to read the machine's counters.
const BESIDE_S: f64 = 0.002;
/// Tries that the plan estimates at less than this together tell little of others, s.
const FEW_S: f64 = 2.0;

/// What tries took, by case, and what experiments took besides their first rounds.
#[derive(Debug, Clone, Default)]
pub struct Times {
    tries: BTreeMap<String, Tries>,
    /// All of an experiment over its tries before the first look, of each run.
    beyond: BTreeMap<String, Vec<f64>>,
    /// What was estimated for all tries, and what they took, s.
    estimated: f64,
    spent: f64,
}

/// The tries of a case.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    seconds: f64,
    count: u32,
    /// Of this run, not of an earlier one.
    are_own: bool,
}

impl Times {
    /// Adds a try of this run, for which the plan estimated so much. Those of earlier runs no longer count for its
    /// case.
    pub fn add(&mut self, case: &str, estimate_s: f64, seconds: f64) {
        let of = self.tries.entry(case.to_owned()).or_default();
        if !of.are_own {
            *of = Tries {
                are_own: true,
                ..Tries::default()
            };
        }
        self.note(case, estimate_s, seconds);
    }

    fn note(&mut self, case: &str, estimate_s: f64, seconds: f64) {
        let of = self.tries.entry(case.to_owned()).or_default();
        of.seconds += seconds;
        of.count += 1;
        self.estimated += estimate_s;
        self.spent += seconds;
    }

    /// What a try of this case takes, s: on the mean, where it is known; else the estimate at the pace of what is
    /// known.
    #[must_use]
    pub fn of_try(&self, case: &str, estimate_s: f64) -> f64 {
        let pace = (self.spent + FEW_S) / (self.estimated + FEW_S);
        let known = self.tries.get(case).map(|of| of.seconds / f64::from(of.count));
        known.unwrap_or(estimate_s * pace)
    }

    /// How many times as long as its rounds before the first look an experiment takes, with repeats and later rounds:
    /// the median of its runs.
    #[must_use]
    pub fn beyond(&self, experiment: &str) -> Option<f64> {
        threadgauge_stats::median(self.beyond.get(experiment)?).ok()
    }

    /// Adds the tries of a stored run, if it ran on this machine in this setting, of the same version, profile and
    /// number of rounds as `like`; `first` is after how many rounds it first looked. Returns whether it was such a run.
    ///
    /// # Errors
    ///
    /// When the store is damaged.
    pub fn learn(
        &mut self,
        store: &Store,
        machine: &serde_json::Value,
        like: &RunRecord,
        first: u32,
    ) -> Result<bool, StoreError> {
        let run = store.run()?;
        let setting = |run: &RunRecord| {
            let RunRecord {
                profile,
                version,
                rounds,
                cpus,
                handicap_percent,
                ..
            } = run.clone();
            (profile, version, rounds, cpus, handicap_percent)
        };
        if setting(&run) != setting(like) || !machine_differences(&store.machine()?, machine).is_empty() {
            return Ok(false);
        }
        for experiment in store.experiments()? {
            let (mut all, mut before_look) = (0.0, 0.0);
            let estimates = experiment.cases.iter();
            let estimates: BTreeMap<&str, f64> = estimates
                .map(|case| (case.id.as_str(), f64::from(case.estimate_ms) / 1e3))
                .collect();
            for tried in store.samples(&experiment.id)? {
                let seconds = tried.wall_ns as f64 / 1e9 + BESIDE_S;
                let estimate_s = estimates.get(tried.case.as_str()).copied();
                self.note(&tried.case, estimate_s.unwrap_or(seconds), seconds);
                all += seconds;
                if tried.attempt == 0 && tried.round <= first {
                    before_look += seconds;
                }
            }
            if experiment.stopped_because.is_some() && before_look > 0.0 {
                let of = self.beyond.entry(experiment.id).or_default();
                of.push(all / before_look);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sample::tests::sample;
    use crate::store::tests::run;
    use crate::{Params, StoredCase, StoredExperiment, StoredSample};

    #[test]
    fn a_try_takes_what_its_case_took_else_its_estimate_at_the_pace_of_all() {
        let mut times = Times::default();
        assert_eq!(times.of_try("a", 3.0), 3.0);
        times.add("a", 1.0, 5.0);
        times.add("a", 1.0, 3.0);
        assert_eq!(times.of_try("a", 9.0), 4.0);
        // 8 s for an estimated 2 s, both beside the 2 s that tell little.
        assert_eq!(times.of_try("b", 4.0), 10.0);
        assert_eq!(times.beyond("e"), None);
    }

    /// A run whose experiment has one case, estimated at 1 s, with tries of 2 s, each by its round and attempt.
    fn stored(tries: &[(u32, u32)], stopped_because: Option<&str>) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let planned = StoredExperiment {
            id: "e".to_owned(),
            reference: None,
            stopped_because: None,
            cases: vec![StoredCase {
                id: "e/a=1".to_owned(),
                params: Params::new().with("a", 1),
                estimate_ms: 1_000,
                skip: None,
            }],
        };
        let mut store = Store::create(dir.path(), &run(), &json!({"cpus": 2}), &[planned]).unwrap();
        for &(round, attempt) in tries {
            let tried = StoredSample {
                round,
                attempt,
                wall_ns: 1_998_000_000,
                ..sample(false, &[])
            };
            store.add(&tried).unwrap();
        }
        store.set_stopped("e", stopped_because).unwrap();
        (dir, store)
    }

    #[test]
    fn an_earlier_run_says_what_its_tries_took_and_what_came_after_the_first_look() {
        let mut times = Times::default();
        let machine = json!({"cpus": 2});
        let (_dir, whole) = stored(&[(1, 0), (1, 1), (2, 0), (3, 0)], Some("precision"));
        let mut learn = |store: &Store| times.learn(store, &machine, &run(), 2).unwrap();
        assert!(learn(&whole));
        // Neither that has an experiment without an end, nor that has one without tries.
        assert!(learn(&stored(&[(1, 0)], None).1));
        assert!(learn(&stored(&[], Some("skipped")).1));
        assert_eq!(times.beyond("e"), Some(2.0));
        assert!((times.of_try("e/a=1", 9.0) - 2.0).abs() < 1e-9);
        // 10 s for an estimated 5 s, both beside the 2 s that tell little.
        assert!((times.of_try("e/a=2", 7.0) - 12.0).abs() < 1e-9);
        // A try of this run counts more than all of earlier ones.
        times.add("e/a=1", 1.0, 5.0);
        assert_eq!(times.of_try("e/a=1", 9.0), 5.0);
    }

    #[test]
    fn a_run_elsewhere_or_in_another_setting_says_nothing() {
        let (_dir, store) = stored(&[(1, 0)], Some("precision"));
        let mut times = Times::default();
        let paper = RunRecord {
            profile: "paper".to_owned(),
            ..run()
        };
        assert!(!times.learn(&store, &json!({"cpus": 2}), &paper, 2).unwrap());
        assert!(!times.learn(&store, &json!({"cpus": 3}), &run(), 2).unwrap());
        assert_eq!((times.of_try("e/a=1", 9.0), times.beyond("e")), (9.0, None));
    }
}
