//! The figures of this experiment's cases, by round: what claims, facts and drawings are made of.

use threadgauge_stats::{geometric_mean, summarise};

use super::case::{Case, Kind};
use super::grid::{BASES_MS, COUNTS};
use super::{ELAPSED, IDEAL_ELAPSED, IDEAL_TURNAROUND, TURNAROUND};
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

/// The level of every interval is 1 − ALPHA or better.
const ALPHA: f64 = 0.05;

/// A statistic over rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) median: f64,
    pub(super) ci95: Option<[f64; 2]>,
}

/// What of a run is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Elapsed,
    Turnaround,
}

impl Measure {
    pub(super) const fn metric(self) -> &'static str {
        match self {
            Self::Elapsed => ELAPSED,
            Self::Turnaround => TURNAROUND,
        }
    }

    pub(super) const fn ideal(self) -> &'static str {
        match self {
            Self::Elapsed => IDEAL_ELAPSED,
            Self::Turnaround => IDEAL_TURNAROUND,
        }
    }
}

impl Case {
    pub(super) fn cell(self, metric: &str) -> Cell {
        Cell {
            experiment: None,
            pattern: self.params(),
            metric: metric.to_owned(),
        }
    }

    pub(super) fn of(self, measure: Measure) -> Cell {
        self.cell(measure.metric())
    }

    /// Whether the run has figures of it.
    pub(super) fn measured(self, view: &View<'_>) -> bool {
        view.median(&self.cell(ELAPSED)).is_some()
    }
}

/// A serial case and its concurrent counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) serial: Case,
    pub(super) concurrent: Case,
}

impl Pair {
    /// Of the source's matrix.
    pub(super) const fn of(kind: Kind, count: u64, base_ms: u64) -> Self {
        Self {
            serial: Case::serial(kind, count, base_ms),
            concurrent: Case::concurrent(kind, count, base_ms),
        }
    }

    /// Both with one thing changed.
    pub(super) fn with(self, change: impl Fn(Case) -> Case) -> Self {
        Self {
            serial: change(self.serial),
            concurrent: change(self.concurrent),
        }
    }

    pub(super) fn on(self, cpus: u64) -> Self {
        self.with(|case| Case { cpus, ..case })
    }

    /// Serial first.
    pub(super) fn cells(self, measure: Measure) -> [Cell; 2] {
        [self.serial.of(measure), self.concurrent.of(measure)]
    }

    pub(super) fn measured(self, view: &View<'_>) -> bool {
        self.serial.measured(view) && self.concurrent.measured(view)
    }

    /// Concurrent over serial in each round.
    pub(super) fn ratio(self, view: &View<'_>, measure: Measure) -> Result<Vec<f64>, String> {
        view.by_round(&self.cells(measure), |v| v[1] / v[0])
    }

    pub(super) fn name(self) -> String {
        let Case {
            kind,
            count,
            base_ms,
            cpus,
            ..
        } = self.concurrent;
        format!("kind={},count={count},base_ms={base_ms},cpus={cpus}", kind.name())
    }
}

/// The counts of the matrix at which both cases of `pair` have figures.
pub(super) fn counts_of(view: &View<'_>, pair: impl Fn(u64) -> Pair) -> Vec<u64> {
    COUNTS.into_iter().filter(|&n| pair(n).measured(view)).collect()
}

/// The largest base at which at least two counts of `kind` are measured both ways: what "long" is in this run.
pub(super) fn longest_base(view: &View<'_>, kind: Kind) -> Option<u64> {
    let enough = |base_ms: &u64| counts_of(view, |n| Pair::of(kind, n, *base_ms)).len() >= 2;
    BASES_MS.into_iter().rev().find(enough)
}

/// All CPUs of the run, where it planned cases on more than one.
pub(super) fn all_cpus(view: &View<'_>) -> Option<u64> {
    let params = threadgauge_results::Params::new();
    let most = view.cases(&params).filter_map(|p| p.int("cpus")).max()?;
    (most > 1).then_some(most)
}

/// The geometric mean of the ratios of serial and concurrent figures that come in turns.
pub(super) fn mean_ratio(values: &[f64]) -> f64 {
    let ratios: Vec<f64> = values.chunks_exact(2).map(|pair| pair[1] / pair[0]).collect();
    geometric_mean(&ratios).unwrap_or(f64::NAN)
}

/// The median of `f` over rounds with its interval; `None` where a cell has no figures.
pub(super) fn figure(view: &View<'_>, cells: &[Cell], f: impl Fn(&[f64]) -> f64) -> Option<Figure> {
    let summary = summarise(&view.by_round(cells, f).ok()?, ALPHA).ok()?;
    Some(Figure {
        median: summary.median,
        ci95: summary.ci.map(|ci| [ci.low, ci.high]),
    })
}
