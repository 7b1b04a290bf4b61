//! The figures of this experiment's cells, by round: what claims, facts and drawings are made of.

use threadgauge_stats::summarise;

use super::grid::{Mode, Unit};
use threadgauge_lab::compat::cell;
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

/// The level of every interval is 1 − ALPHA or better.
const ALPHA: f64 = 0.05;

/// A group of cases that differ in their count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) unit: Unit,
    pub(super) mode: Mode,
    pub(super) cpus: u64,
}

pub(super) const fn threads(mode: Mode, cpus: u64) -> Group {
    Group {
        unit: Unit::Thread,
        mode,
        cpus,
    }
}

pub(super) const fn processes(mode: Mode, cpus: u64) -> Group {
    Group {
        unit: Unit::Process,
        mode,
        cpus,
    }
}

impl Group {
    /// The case with `count` units, whatever work it was given.
    pub(super) fn pattern(self, count: u64) -> String {
        let (unit, mode) = (self.unit.name(), self.mode.name());
        format!("unit={unit},mode={mode},count={count},cpus={}", self.cpus)
    }

    /// A metric of the case with `count` units.
    pub(super) fn of(self, count: u64, metric: &str) -> Cell {
        cell(&self.pattern(count), metric)
    }

    /// The run time of the case with `count` units.
    pub(super) fn time(self, count: u64) -> Cell {
        self.of(count, "elapsed_ns")
    }

    /// The case that overheads are relative to: as many units as CPUs.
    pub(super) fn base(self) -> Cell {
        self.time(self.cpus)
    }
}

/// A statistic over rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) median: f64,
    pub(super) ci95: Option<[f64; 2]>,
}

/// The median of `f` over rounds with its interval; `None` where a cell has no figures.
pub(super) fn figure(view: &View<'_>, cells: &[Cell], f: impl Fn(&[f64]) -> f64) -> Option<Figure> {
    let summary = summarise(&view.by_round(cells, f).ok()?, ALPHA).ok()?;
    Some(Figure {
        median: summary.median,
        ci95: summary.ci.map(|ci| [ci.low, ci.high]),
    })
}
