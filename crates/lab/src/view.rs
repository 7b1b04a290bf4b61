//! The samples of one experiment, by case and round: what an experiment reads its answer off.
//!
//! Owns finding cells and pairing rounds. Rounds that stayed disturbed are in the summaries and not in the
//! statistics; a round in which any of the wanted cells is missing is left out of that statistic.

use std::collections::BTreeMap;

use threadgauge_results::{MetricSummary, Params, Value};
use threadgauge_stats::paired_difference;

use crate::site::Profile;

/// The samples of one experiment.
#[derive(Debug)]
pub struct View<'a> {
    pub experiment: &'a str,
    pub profile: Profile,
    /// In plan order.
    pub cases: Vec<ViewCase>,
}

/// One case's figures.
#[derive(Debug)]
pub struct ViewCase {
    pub params: Params,
    pub reason: Option<String>,
    /// Metric name → undisturbed round → value.
    pub values: BTreeMap<String, BTreeMap<u32, f64>>,
    /// Metric name → summary of all rounds.
    pub summaries: BTreeMap<String, MetricSummary>,
}

/// A metric of the one case that a pattern such as `unit=thread,count=64` picks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Parameters that pick exactly one case.
    pub pattern: Params,
    /// The metric.
    pub metric: String,
}

/// The cell of `metric` in the case that `pattern` (`name=value,name=value`) picks.
#[must_use]
pub fn cell(pattern: &str, metric: &str) -> Cell {
    Cell {
        pattern: params(pattern),
        metric: metric.to_owned(),
    }
}

/// Reads `name=value,name=value`; parts without `=` are left out, since patterns are written by us.
#[must_use]
pub fn params(pattern: &str) -> Params {
    pattern
        .split(',')
        .filter_map(|part| part.split_once('='))
        .fold(Params::new(), |params, (name, value)| {
            params.with(name.trim(), Value::parse(value.trim()))
        })
}

impl View<'_> {
    /// How much was run.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// The parameters of every planned case that `pattern` picks, in plan order.
    pub fn cases(&self, pattern: &Params) -> impl Iterator<Item = &Params> {
        self.cases
            .iter()
            .map(|c| &c.params)
            .filter(move |p| p.matches(pattern))
    }

    /// One statistic a round: `f` of the values of `cells`, in every round that has them all.
    ///
    /// # Errors
    ///
    /// Says which cell is missing and why, when one has no figures at all.
    pub fn by_round(&self, cells: &[Cell], f: impl Fn(&[f64]) -> f64) -> Result<Vec<f64>, String> {
        let columns = cells
            .iter()
            .map(|c| self.rounds(c))
            .collect::<Result<Vec<_>, _>>()?;
        let Some(first) = columns.first() else {
            return Ok(Vec::new());
        };
        let rounds = first.keys().filter_map(|round| {
            let values: Option<Vec<f64>> = columns.iter().map(|c| c.get(round).copied()).collect();
            values.map(|v| f(&v))
        });
        let rounds: Vec<f64> = rounds.filter(|v| v.is_finite()).collect();
        if rounds.is_empty() {
            let says = "no round has undisturbed figures for all the cells this needs; a quieter machine would give them";
            return Err(says.to_owned());
        }
        Ok(rounds)
    }

    /// Whether the paired difference between two cells can be told from 0 (METHOD rule 11), by an interval of 95 %.
    #[must_use]
    pub fn resolved(&self, with: &Cell, without: &Cell) -> bool {
        let both = [with.clone(), without.clone()];
        let column = |i: usize| self.by_round(&both, |v| v[i]);
        let (Ok(with), Ok(without)) = (column(0), column(1)) else {
            return false;
        };
        paired_difference(&with, &without, 0.05).is_ok_and(|d| !d.below_resolution)
    }

    /// The summary of a cell, where it has figures.
    #[must_use]
    pub fn summary(&self, cell: &Cell) -> Option<&MetricSummary> {
        self.find(cell).ok()?.summaries.get(&cell.metric)
    }

    /// The median of a cell, where it has figures.
    #[must_use]
    pub fn median(&self, cell: &Cell) -> Option<f64> {
        Some(self.summary(cell)?.median)
    }

    fn find(&self, cell: &Cell) -> Result<&ViewCase, String> {
        let mut found = self.cases.iter().filter(|c| c.params.matches(&cell.pattern));
        let case = found.next().ok_or_else(|| {
            format!(
                "needs {}/{}, which this run did not plan (see the larger profiles, --only and --set)",
                self.experiment, cell.pattern
            )
        })?;
        if found.next().is_some() {
            return Err(format!(
                "{}/{} picks several cases of this run",
                self.experiment, cell.pattern
            ));
        }
        Ok(case)
    }

    fn rounds(&self, cell: &Cell) -> Result<&BTreeMap<u32, f64>, String> {
        let case = self.find(cell)?;
        case.values.get(&cell.metric).ok_or_else(|| {
            let why = case.reason.as_deref().unwrap_or("it has no figures");
            format!("needs {}/{}: {why}", self.experiment, case.params)
        })
    }
}
