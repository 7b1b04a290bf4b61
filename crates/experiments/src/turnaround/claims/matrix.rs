//! The claims about the source's matrix: how much longer or better concurrent is, by number and length.

use threadgauge_results::{Condition, Evidence, Quote, Range};

use super::{AT_LEAST_0, cpu, each, io, needs_long, of_a_part, statistic};
use crate::turnaround::case::Kind;
use crate::turnaround::cells::{Measure, Pair, counts_of, mean_ratio};
use crate::turnaround::grid::{BASES_MS, COUNTS, LONG_MS, SHORT_MS};
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

pub(super) fn never_faster(view: &View<'_>) -> Evidence {
    let all = BASES_MS
        .iter()
        .flat_map(|&base_ms| COUNTS.map(|n| cpu(n, base_ms)));
    let measured: Vec<Pair> = all.filter(|pair| pair.measured(view)).collect();
    let cells = measured
        .iter()
        .map(|pair| (pair.name(), pair.ratio(view, Measure::Elapsed)));
    let missing = format!(
        "it is about {} cells, of which this run measured {}; --profile paper has them all",
        COUNTS.len() * BASES_MS.len(),
        measured.len()
    );
    of_a_part(
        "cpu-concurrent-never-faster-on-one-cpu",
        "ratio",
        each(Quote::Smallest, cells),
        measured.len() == COUNTS.len() * BASES_MS.len(),
        &missing,
    )
}

/// A statistic of the mean ratio over the counts of the shortest CPU-bound computations.
pub(super) fn short_mean(view: &View<'_>, measure: Measure, f: impl Fn(f64) -> f64) -> Evidence {
    const LEAST: usize = 3;
    let counts = counts_of(view, |n| cpu(n, SHORT_MS));
    if counts.len() < LEAST {
        return Evidence::Missing(format!(
            "needs at least {LEAST} numbers of computations at {SHORT_MS} ms, serial and concurrent, on one CPU"
        ));
    }
    let cells: Vec<Cell> = counts
        .iter()
        .flat_map(|&n| cpu(n, SHORT_MS).cells(measure))
        .collect();
    statistic(view.by_round(&cells, |v| f(mean_ratio(v))))
}

pub(super) fn converges(view: &View<'_>) -> Evidence {
    let counts = counts_of(view, |n| cpu(n, LONG_MS));
    if counts.is_empty() {
        return needs_long(view, "CPU-bound computations, serial and concurrent,");
    }
    let difference = |v: &[f64]| (v[1] / v[0] - 1.0).abs();
    let long = counts.iter().map(|&n| {
        let pair = cpu(n, LONG_MS);
        (
            pair.name(),
            view.by_round(&pair.cells(Measure::Elapsed), difference),
        )
    });
    let cells: Vec<Cell> = [SHORT_MS, LONG_MS]
        .iter()
        .flat_map(|&base_ms| {
            counts
                .iter()
                .flat_map(move |&n| cpu(n, base_ms).cells(Measure::Elapsed))
        })
        .collect();
    let shrinks = view.by_round(&cells, |v| {
        let (short, long) = v.split_at(v.len() / 2);
        (mean_ratio(short) - 1.0).abs() - (mean_ratio(long) - 1.0).abs()
    });
    Evidence::With {
        main: Box::new(each(Quote::Largest, long)),
        also: vec![Condition {
            says: format!("the difference is smaller at {LONG_MS} ms than at {SHORT_MS} ms"),
            range: AT_LEAST_0,
            evidence: statistic(shrinks),
        }],
    }
}

pub(super) fn long_gain(view: &View<'_>) -> Evidence {
    let counts = counts_of(view, |n| cpu(n, LONG_MS));
    if counts.last() != COUNTS.last() {
        return needs_long(view, "17 CPU-bound computations, serial and concurrent,");
    }
    let cells: Vec<Cell> = counts
        .iter()
        .flat_map(|&n| cpu(n, LONG_MS).cells(Measure::Turnaround))
        .collect();
    statistic(view.by_round(&cells, |v| {
        let gains = v.chunks_exact(2).map(|pair| 1.0 - pair[1] / pair[0]);
        gains.fold(f64::NEG_INFINITY, f64::max)
    }))
}

pub(super) fn faster_on_all(view: &View<'_>, all: u64) -> Evidence {
    let pair = |n| cpu(n, LONG_MS).on(all);
    let counts = counts_of(view, pair);
    if counts.is_empty() {
        return needs_long(view, "CPU-bound computations on all CPUs");
    }
    let cells = counts
        .iter()
        .map(|&n| (pair(n).name(), pair(n).ratio(view, Measure::Elapsed)));
    each(Quote::Largest, cells)
}

/// What a concurrent run of sleepers takes beyond its longest, ns.
fn beyond_longest(elapsed_ns: f64, count: u64, base_ms: u64) -> f64 {
    elapsed_ns - (count * base_ms) as f64 * 1e6
}

pub(super) fn io_overhead(view: &View<'_>) -> Evidence {
    let both = |n: &u64| {
        [SHORT_MS, LONG_MS]
            .iter()
            .all(|&ms| io(*n, ms).concurrent.measured(view))
    };
    let counts: Vec<u64> = COUNTS.into_iter().filter(both).collect();
    if counts.is_empty() {
        return needs_long(view, "concurrent I/O-bound computations");
    }
    let elapsed = |n, base_ms| io(n, base_ms).concurrent.of(Measure::Elapsed);
    let share = counts.iter().map(|&n| {
        let longest_ns = (n * LONG_MS) as f64 * 1e6;
        let rounds = view.by_round(&[elapsed(n, LONG_MS)], |v| {
            beyond_longest(v[0], n, LONG_MS) / longest_ns
        });
        (io(n, LONG_MS).name(), rounds)
    });
    let cells: Vec<Cell> = counts
        .iter()
        .flat_map(|&n| [elapsed(n, SHORT_MS), elapsed(n, LONG_MS)])
        .collect();
    let growth = view.by_round(&cells, |v| {
        let sum = |base_ms, column: usize| -> f64 {
            let each = counts.iter().zip(v.chunks_exact(2));
            each.map(|(&n, v)| beyond_longest(v[column], n, base_ms)).sum()
        };
        sum(LONG_MS, 1) / sum(SHORT_MS, 0)
    });
    Evidence::With {
        main: Box::new(each(Quote::Largest, share)),
        also: vec![Condition {
            says: format!("the cost at {LONG_MS} ms is between half and twice that at {SHORT_MS} ms"),
            range: Range { min: 0.5, max: 2.0 },
            evidence: statistic(growth),
        }],
    }
}

pub(super) fn long_io(view: &View<'_>) -> Evidence {
    let counts = counts_of(view, |n| io(n, LONG_MS));
    if counts.is_empty() {
        return needs_long(view, "I/O-bound computations, serial and concurrent,");
    }
    let cells = counts.iter().map(|&n| {
        let pair = io(n, LONG_MS);
        (
            pair.name(),
            view.by_round(&pair.cells(Measure::Elapsed), |v| v[0] / v[1]),
        )
    });
    each(Quote::Largest, cells)
}

/// The smallest count at which the concurrent turnaround is the better one; what no count reaches is beyond the last.
pub(super) fn break_even(view: &View<'_>) -> Evidence {
    const STEP: u64 = 3;
    let first = |kind: Kind| {
        let pair = |n| Pair::of(kind, n, SHORT_MS);
        let counts = counts_of(view, pair);
        let Some(&last) = counts.last() else {
            return (
                format!("kind={}", kind.name()),
                Err(format!(
                    "no number of {} computations was measured both ways at {SHORT_MS} ms",
                    kind.name()
                )),
            );
        };
        let cells: Vec<Cell> = counts
            .iter()
            .flat_map(|&n| pair(n).cells(Measure::Turnaround))
            .collect();
        let rounds = view.by_round(&cells, |v| {
            let better = counts.iter().zip(v.chunks_exact(2)).find(|(_, v)| v[1] < v[0]);
            better.map_or(last + STEP, |(&n, _)| n) as f64
        });
        // Beyond what was measured is a number only where everything was.
        let whole = counts.len() == COUNTS.len();
        let rounds = rounds.and_then(|rounds| {
            if whole || rounds.iter().all(|&n| n <= last as f64) {
                Ok(rounds)
            } else {
                Err(format!(
                    "up to {last} {} computations one after the other stays better; --profile standard has more",
                    kind.name()
                ))
            }
        });
        (format!("kind={}", kind.name()), rounds)
    };
    each(Quote::Smallest, [Kind::Cpu, Kind::Io].map(first))
}

pub(super) fn short_gain(view: &View<'_>) -> Evidence {
    let pairs = |kind| {
        let counts = counts_of(view, |n| Pair::of(kind, n, SHORT_MS));
        counts.into_iter().map(move |n| Pair::of(kind, n, SHORT_MS))
    };
    let measured: Vec<Pair> = [Kind::Cpu, Kind::Io].into_iter().flat_map(pairs).collect();
    let cells: Vec<Cell> = measured
        .iter()
        .flat_map(|pair| [Measure::Elapsed, Measure::Turnaround].map(|m| pair.cells(m)))
        .flatten()
        .collect();
    if cells.is_empty() {
        return Evidence::Missing(format!("no cell at {SHORT_MS} ms was measured both ways"));
    }
    let gains = view.by_round(&cells, |v| {
        v.chunks_exact(2)
            .map(|pair| pair[0] / pair[1])
            .fold(0.0, f64::max)
    });
    of_a_part(
        "short-work-gains-nothing-from-threads",
        "ratio",
        statistic(gains),
        measured.len() == 2 * COUNTS.len(),
        "it is about 2 to 17 computations of both kinds; --profile standard has them",
    )
}
