//! What one worker measured: the unit of every analysis.
//!
//! A [`Sample`] is one run of one case; a [`StoredSample`] says which case, round, try and attempt it was. What the
//! tries of a round make is decided here, in [`by_round`], and nowhere else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use threadgauge_stats::geometric_mean;

use crate::{Disturbed, Status};

/// Seconds for which a CPU quota stopped a sample, added up over control groups and CPUs; not there where none did.
pub const THROTTLED_S: &str = "throttled_s";
/// Seconds for which a sample was stopped, at most: by a signal, with its control group, or with the machine; not there
/// where it was not.
pub const STOPPED_S: &str = "stopped_s";

/// What one run of one case measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Whether there are figures.
    pub status: Status,
    /// Why not, in words; `None` when `ok`.
    #[serde(default)]
    pub reason: Option<String>,
    /// `cold`, `no-steady-state`, `low-overlap`, ….
    #[serde(default)]
    pub tags: Vec<String>,
    /// The figures, in the experiment's order.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// What disturbed it: `steal_share`, `foreign_cpus`, [`THROTTLED_S`], [`STOPPED_S`], `voluntary_switches`,
    /// `overlap`, ….
    #[serde(default)]
    pub noise: BTreeMap<String, f64>,
}

impl Sample {
    /// A sample without figures.
    #[must_use]
    pub fn without_figures(status: Status, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: Some(reason.into()),
            tags: Vec::new(),
            metrics: Vec::new(),
            noise: BTreeMap::new(),
        }
    }

    /// The value of `metric`, where it was measured.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.metric(metric).map(|m| m.value)
    }

    fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|m| m.name == name)
    }
}

/// A named quantity with its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// What it is, e.g. `elapsed`.
    pub name: String,
    /// `ns`, `ratio`, `count`, ….
    pub unit: String,
    /// Always finite.
    pub value: f64,
}

/// A try of a sample and its place in the run.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSample {
    /// The id of the experiment.
    pub experiment: String,
    /// The id of the case.
    pub case: String,
    /// Counted from 1.
    pub round: u32,
    /// 0, or 1 for A′, the reference case's second copy.
    pub copy: u32,
    /// Which of the sample's tries, counted from 0: each is a fresh worker at another moment of the round.
    pub nth_try: u32,
    /// 0, or counted up where the noise rules had the try repeated.
    pub attempt: u32,
    /// Beyond the noise limits: a later attempt replaces it. Never deleted.
    pub gated: bool,
    /// RFC 3339, UTC.
    pub started: String,
    /// From starting its worker to its answer, ns.
    pub wall_ns: u64,
    /// What was measured.
    pub sample: Sample,
}

/// Which of a case's figures to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Every round, also one that was disturbed to the end: for a single figure.
    All,
    /// Rounds with an undisturbed try alone: a disturbed round is not paired with another (METHOD rule 10).
    Undisturbed,
}

/// The figures of one copy of a case: one value a round, whatever its number of tries.
///
/// Of a try its last undisturbed attempt counts, of a sample its undisturbed tries; where there are none, the disturbed
/// ones for [`Take::All`]. Of several tries a time is the geometric mean, which has no bias where one cell is noisier
/// than another; what may be zero or less, which is anything else, the arithmetic mean.
///
/// ```
/// # use std::collections::BTreeMap;
/// # use threadgauge_results::{Metric, Sample, Status, StoredSample, Take, by_round};
/// let tried = |nth_try, value| StoredSample {
///     experiment: "e".to_owned(), case: "e/a=1".to_owned(), round: 1, copy: 0, nth_try, attempt: 0,
///     gated: false, started: String::new(), wall_ns: 1,
///     sample: Sample {
///         status: Status::Ok, reason: None, tags: vec![], noise: BTreeMap::new(),
///         metrics: vec![Metric { name: "elapsed".to_owned(), unit: "ns".to_owned(), value }],
///     },
/// };
/// let rounds = by_round(&[tried(0, 2.0), tried(1, 8.0)], "e/a=1", 0, "elapsed", Take::Undisturbed);
/// assert_eq!(rounds, BTreeMap::from([(1, 4.0)]));
/// ```
#[must_use]
pub fn by_round<'a>(
    samples: impl IntoIterator<Item = &'a StoredSample>,
    case: &str,
    copy: u32,
    metric: &str,
    take: Take,
) -> BTreeMap<u32, f64> {
    let mut rounds: BTreeMap<u32, BTreeMap<u32, (bool, &Metric)>> = BTreeMap::new();
    for stored in samples.into_iter().filter(|s| s.case == case && s.copy == copy) {
        let Some(measured) = stored.sample.metric(metric) else {
            continue;
        };
        let tries = rounds.entry(stored.round).or_default();
        let was_undisturbed = tries.get(&stored.nth_try).is_some_and(|(gated, _)| !gated);
        // Attempts come in order.
        if !(stored.gated && was_undisturbed) {
            tries.insert(stored.nth_try, (stored.gated, measured));
        }
    }
    let of_round = |(round, tries): (u32, BTreeMap<u32, (bool, &Metric)>)| {
        let all_gated = tries.values().all(|(gated, _)| *gated);
        let counted = tries.values().filter(|(gated, _)| *gated == all_gated);
        let counted: Vec<&Metric> = counted.map(|(_, metric)| *metric).collect();
        (take == Take::All || !all_gated).then(|| (round, mean(&counted)))
    };
    rounds.into_iter().filter_map(of_round).collect()
}

fn mean(tries: &[&Metric]) -> f64 {
    let values: Vec<f64> = tries.iter().map(|m| m.value).collect();
    let is_time = tries.iter().all(|m| m.unit == "ns");
    match (&values[..], geometric_mean(&values)) {
        ([only], _) => *only,
        (_, Ok(mean)) if is_time => mean,
        (several, _) => several.iter().sum::<f64>() / several.len() as f64,
    }
}

/// How many of these samples were disturbed, by the limits above which the hypervisor's share of CPU time and other
/// programs' load disturb. A quota disturbs however little it took, and so does a stop.
#[must_use]
pub fn disturbed(samples: &[StoredSample], steal_limit: f64, foreign_limit_cpus: f64) -> Disturbed {
    let first: Vec<_> = samples.iter().filter(|s| s.attempt == 0).collect();
    let gated: Vec<_> = first.iter().filter(|s| s.gated).collect();
    let over =
        |s: &StoredSample, name: &str, limit: f64| s.sample.noise.get(name).is_some_and(|n| *n > limit);
    let by_hypervisor = |s: &StoredSample| over(s, "steal_share", steal_limit);
    let by_programs = |s: &StoredSample| over(s, "foreign_cpus", foreign_limit_cpus);
    let by_stops = |s: &StoredSample| over(s, STOPPED_S, 0.0);
    // Earlier versions did not store it: there it is the cause where no other is.
    let by_quota =
        |s: &StoredSample| over(s, THROTTLED_S, 0.0) || !(by_hypervisor(s) || by_programs(s) || by_stops(s));
    let count = |by: &dyn Fn(&StoredSample) -> bool| gated.iter().filter(|s| by(s)).count();
    Disturbed {
        samples: first.len(),
        disturbed: gated.len(),
        by_hypervisor: count(&by_hypervisor),
        by_programs: count(&by_programs),
        by_quota: count(&by_quota),
        by_stops: count(&by_stops),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A first attempt beside such noise.
    pub(crate) fn sample(gated: bool, noise: &[(&str, f64)]) -> StoredSample {
        StoredSample {
            experiment: "e".to_owned(),
            case: "e/a=1".to_owned(),
            round: 1,
            copy: 0,
            nth_try: 0,
            attempt: 0,
            gated,
            started: String::new(),
            wall_ns: 1,
            sample: Sample {
                reason: None,
                noise: noise
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), *value))
                    .collect(),
                ..Sample::without_figures(Status::Ok, "")
            },
        }
    }

    #[test]
    fn each_disturbed_sample_is_counted_with_each_of_its_causes() {
        let samples = [
            sample(false, &[("steal_share", 0.5)]),
            sample(true, &[("steal_share", 0.02), ("foreign_cpus", 0.01)]),
            sample(
                true,
                &[("steal_share", 0.02), ("foreign_cpus", 0.2), (THROTTLED_S, 0.001)],
            ),
            sample(true, &[("foreign_cpus", 0.0), (STOPPED_S, 4.0)]),
            // At a limit nothing is beyond it.
            sample(
                true,
                &[
                    ("steal_share", 0.01),
                    ("foreign_cpus", 0.05),
                    (THROTTLED_S, 0.002),
                    (STOPPED_S, 0.0),
                ],
            ),
            // Of an earlier version, which stored nothing of a quota.
            sample(true, &[("steal_share", 0.0), ("foreign_cpus", 0.04)]),
        ];
        let of = disturbed(&samples, 0.01, 0.05);
        assert_eq!((of.samples, of.disturbed), (6, 5));
        assert_eq!(
            (of.by_hypervisor, of.by_programs, of.by_quota, of.by_stops),
            (2, 1, 3, 1)
        );
    }
}
