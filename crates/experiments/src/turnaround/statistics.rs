//! What is computed from the cases: serial against concurrent, measured against theory, one CPU against all.

use threadgauge_lab::prelude::*;
use threadgauge_results::claim;

use super::case::{Case, Kind, Lengths, Order};
use super::grid::{COUNTS, LONG_MS, MIDDLE, SHORT_MS};

/// From the start to the last one's finish.
pub(super) const ELAPSED: Metric = metric("elapsed_ns", "ns");
/// The mean over computations of finish / length.
pub(super) const TURNAROUND: Metric = metric("turnaround", "ratio");
/// What theory says of the elapsed time.
pub(super) const IDEAL_ELAPSED: Metric = metric("ideal_elapsed_ns", "ns");
/// What theory says of the mean turnaround.
pub(super) const IDEAL_TURNAROUND: Metric = metric("ideal_turnaround", "ratio");
/// The mean time from a processor's end to its finisher's.
pub(super) const FINISH_WAIT: Metric = metric("finish_wait_ns", "ns");
/// CPU time of the work over its length, less 1.
pub(super) const BURNER_ERROR: Metric = metric("burner_error", "ratio");

/// What theory says of `metric`.
pub(super) fn ideal(metric: Metric) -> Metric {
    if metric == ELAPSED {
        IDEAL_ELAPSED
    } else {
        IDEAL_TURNAROUND
    }
}

/// CPU-bound computations of the source's matrix.
pub(super) const fn cpu(count: u64, base_ms: u64) -> Pair {
    Pair::of(Kind::Cpu, count, base_ms)
}

/// Those that sleep.
pub(super) const fn io(count: u64, base_ms: u64) -> Pair {
    Pair::of(Kind::Io, count, base_ms)
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
        let serial = Case::serial(kind, count, base_ms);
        Self {
            serial,
            concurrent: serial.concurrent(),
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
        self.with(|case| case.cpus(cpus))
    }

    pub(super) fn ordered(self, order: Order) -> Self {
        self.with(|case| case.order(order))
    }

    pub(super) fn equal(self) -> Self {
        self.with(|case| case.lengths(Lengths::Equal))
    }

    /// Concurrent over serial.
    pub(super) fn ratio(self, metric: Metric) -> Statistic {
        ratio(metric, self.concurrent, self.serial)
    }

    /// Serial over concurrent: how many times better all at once is.
    pub(super) fn gain(self, metric: Metric) -> Statistic {
        ratio(metric, self.serial, self.concurrent)
    }

    pub(super) fn measured(self, view: &View<'_>) -> bool {
        [self.serial, self.concurrent]
            .into_iter()
            .all(|case| measured(view, case))
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

/// Whether the run has figures of a case.
pub(super) fn measured(view: &View<'_>, case: Case) -> bool {
    view.measured(&ELAPSED.of(case))
}

/// A metric of one case over that of another.
pub(super) fn ratio(metric: Metric, over: Case, under: Case) -> Statistic {
    metric.of(over).over(metric.of(under))
}

/// By how many per cent a case's elapsed time exceeds what theory says of it.
pub(super) fn over_theory(case: Case) -> Statistic {
    ELAPSED
        .of(case)
        .over(IDEAL_ELAPSED.of(case))
        .less_one()
        .times(100.0)
}

/// Concurrent over serial, geometric mean over pairs.
pub(super) fn mean_ratio(pairs: impl IntoIterator<Item = Pair>, metric: Metric) -> Statistic {
    Statistic::geometric_mean(pairs.into_iter().map(|pair| pair.ratio(metric)))
}

/// The pairs of the matrix, by count, of which both cases have figures.
pub(super) fn pairs(view: &View<'_>, pair: impl Fn(u64) -> Pair) -> Vec<Pair> {
    COUNTS
        .into_iter()
        .map(pair)
        .filter(|pair| pair.measured(view))
        .collect()
}

/// The largest over the smallest.
pub(super) fn spread(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    largest / smallest
}

/// The turnaround longest first over the worse of the other orders.
pub(super) fn descending_over_others(values: &[f64]) -> f64 {
    values[0] / values[1].max(values[2])
}

/// A function of the turnarounds in the three orders, descending first.
pub(super) fn over_orders(
    pair: Pair,
    of: fn(Pair) -> Case,
    function: impl Fn(&[f64]) -> f64 + 'static,
) -> Statistic {
    let turnaround = |order| TURNAROUND.of(of(pair.ordered(order)));
    Statistic::function(Order::ALL.map(turnaround), function)
}

pub(super) const fn serial(pair: Pair) -> Case {
    pair.serial
}

pub(super) const fn concurrent(pair: Pair) -> Case {
    pair.concurrent
}

/// A claim of the source about CPU-bound work on one CPU, as what a round says of it at the middle count on so many CPUs.
type Conclusion = (&'static str, fn(u64) -> Statistic);

fn short(cpus: u64) -> Pair {
    cpu(MIDDLE, SHORT_MS).on(cpus)
}

fn long(cpus: u64) -> Pair {
    cpu(MIDDLE, LONG_MS).on(cpus)
}

/// The last two need the longest base, and count where it was measured.
const CONCLUSIONS: [Conclusion; 11] = [
    ("cpu-concurrent-never-faster-on-one-cpu", |cpus| {
        short(cpus).ratio(ELAPSED)
    }),
    ("short-cpu-concurrent-10pct-slower", |cpus| {
        short(cpus).ratio(ELAPSED)
    }),
    ("short-work-has-large-create-overhead", |cpus| {
        short(cpus).ratio(ELAPSED).less_one()
    }),
    ("short-cpu-serial-better-turnaround", |cpus| {
        short(cpus).ratio(TURNAROUND)
    }),
    ("equal-lengths-serial-better-turnaround", |cpus| {
        short(cpus).equal().ratio(TURNAROUND)
    }),
    ("mixed-lengths-concurrent-better-turnaround", |cpus| {
        short(cpus).ordered(Order::Shuffled).ratio(TURNAROUND)
    }),
    ("ascending-serial-beats-concurrent", |cpus| {
        short(cpus).ordered(Order::Ascending).gain(TURNAROUND)
    }),
    ("descending-is-worst-serial-order", |cpus| {
        over_orders(short(cpus), serial, descending_over_others)
    }),
    ("concurrent-turnaround-ignores-order", |cpus| {
        over_orders(short(cpus), concurrent, spread)
    }),
    ("long-cpu-elapsed-converges", |cpus| {
        Statistic::function([long(cpus).ratio(ELAPSED).less_one()], |v| v[0].abs())
    }),
    ("long-cpu-turnaround-gain-up-to-50pct", |cpus| {
        long(cpus).ratio(TURNAROUND).saved()
    }),
];

/// Those that need no long computations.
pub(super) const SHORT_CONCLUSIONS: usize = 9;

/// The conclusions that a run can look at, each with 1 in a round that says one thing on one CPU and the other on all, else 0.
pub(super) fn changes(view: &View<'_>, all: u64) -> Vec<(&'static str, Statistic)> {
    let change = |&(id, on): &Conclusion| {
        let range = claim(id)?.range();
        let both = [on(1), on(all)];
        if !both.iter().all(|statistic| view.measured(statistic)) {
            return None;
        }
        let holds = move |value: &f64| (range.min..=range.max).contains(value);
        let changes = move |v: &[f64]| f64::from(u8::from(holds(&v[0]) != holds(&v[1])));
        Some((id, Statistic::function(both, changes)))
    };
    CONCLUSIONS.iter().filter_map(change).collect()
}
