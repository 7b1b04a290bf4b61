//! What one worker measured: the unit of every analysis.
//!
//! A [`Sample`] is one run of one case; a [`StoredSample`] says which case, round, try and attempt it was. What the
//! tries of a round make is decided here, in [`by_round`], and nowhere else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use threadgauge_stats::geometric_mean;

use crate::{Disturbed, Status};

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
    /// What disturbed it: `steal_share`, `foreign_cpus`, `voluntary_switches`, `overlap`, ….
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
/// programs' load disturb.
#[must_use]
pub fn disturbed(samples: &[StoredSample], steal_limit: f64, foreign_limit_cpus: f64) -> Disturbed {
    let first: Vec<_> = samples.iter().filter(|s| s.attempt == 0).collect();
    let gated: Vec<_> = first.iter().filter(|s| s.gated).collect();
    let over = |name: &str, limit: f64| {
        let seen = gated.iter().filter_map(|s| s.sample.noise.get(name));
        seen.filter(|seen| **seen > limit).count()
    };
    Disturbed {
        samples: first.len(),
        disturbed: gated.len(),
        by_hypervisor: over("steal_share", steal_limit),
        by_programs: over("foreign_cpus", foreign_limit_cpus),
    }
}
