//! Which of the conclusions about one CPU change on all of them.
//!
//! Each is one of the source's claims about CPU-bound work, put as what a round's figures say of it at the middle count and
//! the shortest base: on one CPU and on all. Two more need the longest base, and count where it was measured.

use threadgauge_results::{Evidence, claim};

use super::case::{Case, Kind, Lengths, Order};
use super::cells::{Measure, Pair};
use super::claims::{ordered, spread};
use super::grid::{LONG_MS, MIDDLE, SHORT_MS};
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

/// A claim, the cells it needs on a number of CPUs, and its statistic.
struct Conclusion {
    claim: &'static str,
    cells: fn(u64) -> Vec<Cell>,
    statistic: fn(&[f64]) -> f64,
}

fn pair(base_ms: u64, cpus: u64) -> Pair {
    Pair::of(Kind::Cpu, MIDDLE, base_ms).on(cpus)
}

fn in_order(order: Order, cpus: u64) -> Pair {
    ordered(pair(SHORT_MS, cpus), order)
}

fn over(v: &[f64]) -> f64 {
    v[1] / v[0]
}

const CONCLUSIONS: [Conclusion; 11] = [
    Conclusion {
        claim: "cpu-concurrent-never-faster-on-one-cpu",
        cells: |cpus| pair(SHORT_MS, cpus).cells(Measure::Elapsed).to_vec(),
        statistic: over,
    },
    Conclusion {
        claim: "short-cpu-concurrent-10pct-slower",
        cells: |cpus| pair(SHORT_MS, cpus).cells(Measure::Elapsed).to_vec(),
        statistic: over,
    },
    Conclusion {
        claim: "short-work-has-large-create-overhead",
        cells: |cpus| pair(SHORT_MS, cpus).cells(Measure::Elapsed).to_vec(),
        statistic: |v| over(v) - 1.0,
    },
    Conclusion {
        claim: "short-cpu-serial-better-turnaround",
        cells: |cpus| pair(SHORT_MS, cpus).cells(Measure::Turnaround).to_vec(),
        statistic: over,
    },
    Conclusion {
        claim: "equal-lengths-serial-better-turnaround",
        cells: |cpus| {
            let equal = pair(SHORT_MS, cpus).with(|case| Case {
                lengths: Lengths::Equal,
                ..case
            });
            equal.cells(Measure::Turnaround).to_vec()
        },
        statistic: over,
    },
    Conclusion {
        claim: "mixed-lengths-concurrent-better-turnaround",
        cells: |cpus| {
            in_order(Order::Shuffled, cpus)
                .cells(Measure::Turnaround)
                .to_vec()
        },
        statistic: over,
    },
    Conclusion {
        claim: "ascending-serial-beats-concurrent",
        cells: |cpus| {
            in_order(Order::Ascending, cpus)
                .cells(Measure::Turnaround)
                .to_vec()
        },
        statistic: |v| v[0] / v[1],
    },
    Conclusion {
        claim: "descending-is-worst-serial-order",
        cells: |cpus| turnarounds(|order| in_order(order, cpus).serial),
        statistic: |v| v[0] / v[1].max(v[2]),
    },
    Conclusion {
        claim: "concurrent-turnaround-ignores-order",
        cells: |cpus| turnarounds(|order| in_order(order, cpus).concurrent),
        statistic: spread,
    },
    Conclusion {
        claim: "long-cpu-elapsed-converges",
        cells: |cpus| pair(LONG_MS, cpus).cells(Measure::Elapsed).to_vec(),
        statistic: |v| (over(v) - 1.0).abs(),
    },
    Conclusion {
        claim: "long-cpu-turnaround-gain-up-to-50pct",
        cells: |cpus| pair(LONG_MS, cpus).cells(Measure::Turnaround).to_vec(),
        statistic: |v| 1.0 - over(v),
    },
];

/// Turnarounds in the three orders, descending first.
fn turnarounds(of: impl Fn(Order) -> Case) -> Vec<Cell> {
    Order::ALL
        .iter()
        .map(|&order| of(order).of(Measure::Turnaround))
        .collect()
}

/// How many of the conclusions need no long computations.
const SHORT: usize = 9;

/// Those whose cells have figures.
fn measured(view: &View<'_>, all: u64) -> Vec<&'static Conclusion> {
    let has_all = |c: &&Conclusion| [1, all].iter().all(|&cpus| has_figures(view, &(c.cells)(cpus)));
    CONCLUSIONS.iter().filter(has_all).collect()
}

fn has_figures(view: &View<'_>, cells: &[Cell]) -> bool {
    cells.iter().all(|cell| view.median(cell).is_some())
}

/// The share of the conclusions of which a round says one thing on one CPU and the other on all.
pub(super) fn share_that_change(view: &View<'_>, all: u64) -> Evidence {
    let conclusions = measured(view, all);
    if conclusions.len() < SHORT {
        return Evidence::Missing(format!(
            "needs {MIDDLE} CPU-bound computations of all lengths and orders on one CPU and on all: --profile standard \
             has them"
        ));
    }
    let cells: Vec<Cell> = conclusions.iter().flat_map(|c| c.both(all)).collect();
    let share = view.by_round(&cells, |v| {
        let mut rest = v;
        let changed = conclusions.iter().filter(|c| {
            let (own, others) = rest.split_at(c.both(all).len());
            rest = others;
            c.changes(own)
        });
        changed.count() as f64 / conclusions.len() as f64
    });
    share.map_or_else(Evidence::Missing, Evidence::Statistic)
}

/// The conclusions that change in more than half of the rounds, by their claims.
pub(super) fn that_change(view: &View<'_>, all: u64) -> Vec<&'static str> {
    let usually = |c: &&&Conclusion| {
        let rounds = view.by_round(&c.both(all), |v| f64::from(u8::from(c.changes(v))));
        rounds.is_ok_and(|rounds| 2.0 * rounds.iter().sum::<f64>() > rounds.len() as f64)
    };
    measured(view, all)
        .iter()
        .filter(usually)
        .map(|c| c.claim)
        .collect()
}

impl Conclusion {
    /// Its cells on one CPU, then on all.
    fn both(&self, all: u64) -> Vec<Cell> {
        (self.cells)(1).into_iter().chain((self.cells)(all)).collect()
    }

    /// Whether the figures of [`both`](Self::both) say one thing on one CPU and the other on all.
    fn changes(&self, v: &[f64]) -> bool {
        let (one, all) = v.split_at(v.len() / 2);
        let holds = |v: &[f64]| {
            let value = (self.statistic)(v);
            claim(self.claim).is_some_and(|c| (c.range().min..=c.range().max).contains(&value))
        };
        holds(one) != holds(all)
    }
}
