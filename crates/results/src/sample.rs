//! What one worker measured: the unit of every analysis.
//!
//! A [`Sample`] is one run of one case; a [`StoredSample`] says which case, round and attempt it was.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Status;

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
        self.metrics.iter().find(|m| m.name == metric).map(|m| m.value)
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

/// A sample and its place in the run.
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
    /// 0, or counted up where the noise rules had it repeated.
    pub attempt: u32,
    /// Beyond the noise limits: a later attempt replaces it; a last attempt that is gated leaves its round unpaired.
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
    /// The last attempt of every round, also where it was disturbed to the end: for a single figure.
    All,
    /// Undisturbed attempts alone: a disturbed round is not paired with another (METHOD rule 10).
    Undisturbed,
}

/// The figures of one copy of a case, round by round.
#[must_use]
pub fn by_round<'a>(
    samples: impl IntoIterator<Item = &'a StoredSample>,
    case: &str,
    copy: u32,
    metric: &str,
    take: Take,
) -> BTreeMap<u32, f64> {
    // Attempts come in order, so a later one replaces an earlier one of its round.
    samples
        .into_iter()
        .filter(|s| s.case == case && s.copy == copy && (take == Take::All || !s.gated))
        .filter_map(|s| Some((s.round, s.sample.value(metric)?)))
        .collect()
}
