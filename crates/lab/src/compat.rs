//! The older way to read a view, until every experiment is written in statistics.

use threadgauge_results::{Params, Value};
use threadgauge_stats::paired_difference;

use crate::statistic::Cell;
use crate::view::View;

/// The cell of `metric` in the case that `pattern` (`name=value,name=value`) picks.
#[must_use]
pub fn cell(pattern: &str, metric: &str) -> Cell {
    Cell {
        experiment: None,
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
    /// As before.
    #[must_use]
    pub const fn profile(&self) -> crate::site::Profile {
        self.profile
    }

    /// As before.
    pub fn cases(&self, pattern: &Params) -> impl Iterator<Item = &Params> {
        self.planned(pattern.clone())
    }

    /// As before.
    ///
    /// # Errors
    ///
    /// As before.
    pub fn by_round(&self, cells: &[Cell], f: impl Fn(&[f64]) -> f64) -> Result<Vec<f64>, String> {
        let columns = cells
            .iter()
            .map(|c| self.column(c, threadgauge_results::Take::Undisturbed))
            .collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|lack| lack.says)?;
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

    /// As before.
    #[must_use]
    pub fn resolved_cells(&self, with: &Cell, without: &Cell) -> bool {
        let both = [with.clone(), without.clone()];
        let column = |i: usize| self.by_round(&both, |v| v[i]);
        let (Ok(with), Ok(without)) = (column(0), column(1)) else {
            return false;
        };
        paired_difference(&with, &without, 0.05).is_ok_and(|d| !d.below_resolution)
    }

    /// As before.
    #[must_use]
    pub fn median(&self, cell: &Cell) -> Option<f64> {
        Some(self.summary(cell)?.median)
    }
}
