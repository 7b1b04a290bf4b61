//! The claims about how lengths differ and in which order they come.

use threadgauge_results::{Condition, Evidence, Quote, Range};

use super::{cpu, each, ratio, statistic};
use crate::turnaround::case::{Case, Lengths, Order};
use crate::turnaround::cells::{Measure, Pair, counts_of, mean_ratio};
use crate::turnaround::grid::{COUNTS, SHORT_MS};
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

fn equal(pair: Pair) -> Pair {
    pair.with(|case| Case {
        lengths: Lengths::Equal,
        ..case
    })
}

pub(in super::super) fn ordered(pair: Pair, order: Order) -> Pair {
    pair.with(|case| Case { order, ..case })
}

pub(super) fn equal_lengths(view: &View<'_>) -> Evidence {
    let counts = counts_of(view, |n| equal(cpu(n, SHORT_MS)));
    let cells = counts.iter().map(|&n| {
        let pair = equal(cpu(n, SHORT_MS));
        (pair.name(), pair.ratio(view, Measure::Turnaround))
    });
    each(Quote::Smallest, cells)
}

pub(super) fn mixed_lengths(view: &View<'_>) -> Evidence {
    let shuffled = |n| ordered(cpu(n, SHORT_MS), Order::Shuffled);
    let counts = counts_of(view, shuffled);
    if counts.last() != COUNTS.last() {
        return Evidence::Missing(
            "needs computations that differ as much as 1 to 17 in an order by chance: --profile standard has them"
                .to_owned(),
        );
    }
    let cells: Vec<Cell> = counts
        .iter()
        .flat_map(|&n| shuffled(n).cells(Measure::Turnaround))
        .collect();
    statistic(view.by_round(&cells, mean_ratio))
}

pub(super) fn ascending(view: &View<'_>) -> Evidence {
    let pair = |n| ordered(cpu(n, SHORT_MS), Order::Ascending);
    let counts = counts_of(view, pair);
    let inverse = |n, measure| view.by_round(&pair(n).cells(measure), |v| v[0] / v[1]);
    let named = |measure| counts.iter().map(move |&n| (pair(n).name(), inverse(n, measure)));
    let elapsed: Vec<Cell> = counts
        .iter()
        .flat_map(|&n| pair(n).cells(Measure::Elapsed))
        .collect();
    Evidence::With {
        main: Box::new(each(Quote::Largest, named(Measure::Turnaround))),
        also: vec![Condition {
            says: "one after the other takes no longer in all than at once (2 %)".to_owned(),
            range: Range { min: 0.0, max: 1.02 },
            evidence: ratio(view.by_round(&elapsed, |v| 1.0 / mean_ratio(v))),
        }],
    }
}

/// Counts at which all three orders were measured both ways; two computations are left out, since chance gives one of the
/// two orders again.
fn ordered_counts(view: &View<'_>) -> Vec<u64> {
    let all = |n: u64| {
        Order::ALL
            .iter()
            .all(|&order| ordered(cpu(n, SHORT_MS), order).measured(view))
    };
    COUNTS.into_iter().filter(|&n| n > 2 && all(n)).collect()
}

/// A statistic of the turnarounds in the three orders, descending first, at each count.
fn over_orders(
    view: &View<'_>,
    quote: Quote,
    of: impl Fn(Pair) -> Case,
    f: impl Fn(&[f64]) -> f64,
) -> Evidence {
    let counts = ordered_counts(view);
    let cells = counts.iter().map(|&n| {
        let cells: Vec<Cell> = Order::ALL
            .iter()
            .map(|&order| of(ordered(cpu(n, SHORT_MS), order)).of(Measure::Turnaround))
            .collect();
        (cpu(n, SHORT_MS).name(), view.by_round(&cells, &f))
    });
    each(quote, cells)
}

pub(super) fn descending(view: &View<'_>) -> Evidence {
    over_orders(
        view,
        Quote::Smallest,
        |pair| pair.serial,
        |v| v[0] / v[1..].iter().copied().fold(0.0, f64::max),
    )
}

pub(super) fn any_order(view: &View<'_>) -> Evidence {
    over_orders(view, Quote::Largest, |pair| pair.concurrent, spread)
}

/// The largest over the smallest.
pub(in super::super) fn spread(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    largest / smallest
}
