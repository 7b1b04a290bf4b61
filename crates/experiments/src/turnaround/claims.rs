//! The claims of source 000 that computations decide, each as a statistic.

use threadgauge_lab::claim::on_all_cpus;
use threadgauge_lab::prelude::*;

use super::case::{Case, Extra, Order};
use super::grid::{BASES_MS, COUNTS, KINDS, LONG_MS, SHORT_MS, background};
use super::statistics::{
    ELAPSED, Pair, SHORT_CONCLUSIONS, TURNAROUND, changes, concurrent, cpu, descending_over_others, io,
    mean_ratio, measured, over_orders, pairs, ratio, serial, spread,
};

/// What decides each claim.
pub(super) fn claims(view: &View<'_>) -> Vec<Claim> {
    let two_systems = || not_testable("needs the results of two operating systems on the same machine");
    vec![
        ("cpu-concurrent-never-faster-on-one-cpu", never_faster(view)),
        (
            "short-cpu-concurrent-10pct-slower",
            short_mean(view, ELAPSED, |mean| mean),
        ),
        ("long-cpu-elapsed-converges", converges(view)),
        ("long-cpu-turnaround-gain-up-to-50pct", long_gain(view)),
        (
            "short-cpu-serial-better-turnaround",
            short_mean(view, TURNAROUND, |mean| mean),
        ),
        ("equal-lengths-serial-better-turnaround", equal_lengths(view)),
        ("mixed-lengths-concurrent-better-turnaround", mixed_lengths(view)),
        ("ascending-serial-beats-concurrent", ascending(view)),
        (
            "descending-is-worst-serial-order",
            in_all_orders(view, Quote::Smallest, serial, descending_over_others),
        ),
        (
            "concurrent-turnaround-ignores-order",
            in_all_orders(view, Quote::Largest, concurrent, spread),
        ),
        (
            "cpu-concurrent-faster-on-smp",
            on_all_cpus(view, |all| faster_on(view, all)),
        ),
        (
            "one-cpu-conclusions-fail-on-smp",
            on_all_cpus(view, |all| share_that_changes(view, all)),
        ),
        ("io-overhead-fixed-and-small", io_overhead(view)),
        ("long-io-serial-concurrent-difference-vanishes", long_io(view)),
        ("short-break-even-at-ten-threads", break_even(view)),
        ("short-work-gains-nothing-from-threads", short_gain(view)),
        (
            "short-work-has-large-create-overhead",
            short_mean(view, ELAPSED, Statistic::less_one),
        ),
        (
            "one-background-thread-for-cpu-work",
            on_all_cpus(view, |all| one_background(view, all)),
        ),
        ("long-finalizer-delays-run", finisher(view)),
        ("dependencies-hurt-only-concurrent", dependencies(view)),
        ("long-work-same-on-both-systems", two_systems()),
        ("short-concurrent-io-differs-between-systems", two_systems()),
    ]
}

/// What is missing at the source's longest base, and which profile has it.
fn needs_long(view: &View<'_>, what: &str) -> Test {
    not_measured(format!(
        "needs {what} at {LONG_MS} ms, which this run ({}) did not measure: --profile paper has them, and --only \
         base_ms={LONG_MS} picks them",
        view.profile.name()
    ))
}

/// A ratio of each pair, by name.
fn of_each(quote: Quote, pairs: &[Pair], statistic: impl Fn(Pair) -> Statistic) -> Test {
    each(quote, pairs.iter().map(|&pair| (pair.name(), statistic(pair))))
}

fn never_faster(view: &View<'_>) -> Test {
    let measured: Vec<Pair> = BASES_MS
        .iter()
        .flat_map(|&base_ms| pairs(view, |n| cpu(n, base_ms)))
        .collect();
    let all = COUNTS.len() * BASES_MS.len();
    of_each(Quote::Smallest, &measured, |pair| pair.ratio(ELAPSED)).of_a_part(
        measured.len() == all,
        format!(
            "it is about {all} cells, of which this run measured {}; --profile paper has them all",
            measured.len()
        ),
    )
}

/// A statistic of the mean ratio over the counts of the shortest CPU-bound computations.
fn short_mean(view: &View<'_>, metric: Metric, of_mean: fn(Statistic) -> Statistic) -> Test {
    const LEAST: usize = 3;
    let pairs = pairs(view, |n| cpu(n, SHORT_MS));
    if pairs.len() < LEAST {
        return not_measured(format!(
            "needs at least {LEAST} numbers of computations at {SHORT_MS} ms, serial and concurrent, on one CPU"
        ));
    }
    of_mean(mean_ratio(pairs, metric)).into()
}

fn converges(view: &View<'_>) -> Test {
    let long = pairs(view, |n| cpu(n, LONG_MS));
    if long.is_empty() {
        return needs_long(view, "CPU-bound computations, serial and concurrent,");
    }
    let short = long.iter().map(|pair| cpu(pair.serial.count, SHORT_MS));
    let difference = |pair: Pair| Statistic::function([pair.ratio(ELAPSED)], |v| (v[0] - 1.0).abs());
    let means = [mean_ratio(short, ELAPSED), mean_ratio(long.clone(), ELAPSED)];
    of_each(Quote::Largest, &long, difference).also(
        format!("the difference is smaller at {LONG_MS} ms than at {SHORT_MS} ms"),
        Range::at_least(0.0),
        Statistic::function(means, |v| (v[0] - 1.0).abs() - (v[1] - 1.0).abs()),
    )
}

fn long_gain(view: &View<'_>) -> Test {
    let pairs = pairs(view, |n| cpu(n, LONG_MS));
    if pairs.last().map(|pair| pair.serial.count) != COUNTS.last().copied() {
        return needs_long(view, "17 CPU-bound computations, serial and concurrent,");
    }
    let ratios = pairs.into_iter().map(|pair| pair.ratio(TURNAROUND));
    let most = |v: &[f64]| {
        v.iter()
            .map(|ratio| 1.0 - ratio)
            .fold(f64::NEG_INFINITY, f64::max)
    };
    Statistic::function(ratios, most).into()
}

fn equal_lengths(view: &View<'_>) -> Test {
    let pairs = pairs(view, |n| cpu(n, SHORT_MS).equal());
    of_each(Quote::Smallest, &pairs, |pair| pair.ratio(TURNAROUND))
}

fn mixed_lengths(view: &View<'_>) -> Test {
    let pairs = pairs(view, |n| cpu(n, SHORT_MS).ordered(Order::Shuffled));
    if pairs.last().map(|pair| pair.serial.count) != COUNTS.last().copied() {
        return not_measured(
            "needs computations that differ as much as 1 to 17 in an order by chance: --profile standard has them",
        );
    }
    mean_ratio(pairs, TURNAROUND).into()
}

fn ascending(view: &View<'_>) -> Test {
    let pairs = pairs(view, |n| cpu(n, SHORT_MS).ordered(Order::Ascending));
    of_each(Quote::Largest, &pairs, |pair| pair.gain(TURNAROUND)).also(
        "one after the other takes no longer in all than at once (2 %)",
        Range { min: 0.0, max: 1.02 },
        Statistic::inverse(mean_ratio(pairs, ELAPSED)),
    )
}

/// A statistic of the turnarounds in the three orders, at each count of which all were measured both ways. Two computations
/// are left out, since chance gives one of the two orders again.
fn in_all_orders(view: &View<'_>, quote: Quote, of: fn(Pair) -> Case, function: fn(&[f64]) -> f64) -> Test {
    let in_all = |pair: &Pair| {
        Order::ALL
            .into_iter()
            .all(|order| pair.ordered(order).measured(view))
    };
    let pairs = COUNTS[1..].iter().map(|&n| cpu(n, SHORT_MS)).filter(in_all);
    each(
        quote,
        pairs.map(|pair| (pair.name(), over_orders(pair, of, function))),
    )
}

fn faster_on(view: &View<'_>, all: u64) -> Test {
    let pairs = pairs(view, |n| cpu(n, LONG_MS).on(all));
    if pairs.is_empty() {
        return needs_long(view, "CPU-bound computations on all CPUs");
    }
    of_each(Quote::Largest, &pairs, |pair| pair.ratio(ELAPSED))
}

/// The share of the conclusions of which a round says one thing on one CPU and the other on all.
fn share_that_changes(view: &View<'_>, all: u64) -> Test {
    let changes = changes(view, all);
    if changes.len() < SHORT_CONCLUSIONS {
        return not_measured(format!(
            "needs {} CPU-bound computations of all lengths and orders on one CPU and on all: --profile standard has \
             them",
            super::grid::MIDDLE
        ));
    }
    let share = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    Statistic::function(changes.into_iter().map(|(_, change)| change), share).into()
}

/// What a concurrent run of sleepers takes beyond its longest, ns.
fn beyond_longest(count: u64, base_ms: u64) -> Statistic {
    let longest_ns = (count * base_ms) as f64 * 1e6;
    Statistic::function([ELAPSED.of(io(count, base_ms).concurrent)], move |v| {
        v[0] - longest_ns
    })
}

fn io_overhead(view: &View<'_>) -> Test {
    let both = |n: &u64| {
        [SHORT_MS, LONG_MS]
            .iter()
            .all(|&ms| measured(view, io(*n, ms).concurrent))
    };
    let counts: Vec<u64> = COUNTS.into_iter().filter(both).collect();
    if counts.is_empty() {
        return needs_long(view, "concurrent I/O-bound computations");
    }
    let share = |&n: &u64| {
        let longest_ns = (n * LONG_MS) as f64 * 1e6;
        let share = Statistic::function([beyond_longest(n, LONG_MS)], move |v| v[0] / longest_ns);
        (io(n, LONG_MS).name(), share)
    };
    let sum = |base_ms| {
        Statistic::function(counts.iter().map(|&n| beyond_longest(n, base_ms)), |v| {
            v.iter().sum()
        })
    };
    each(Quote::Largest, counts.iter().map(share)).also(
        format!("the cost at {LONG_MS} ms is between half and twice that at {SHORT_MS} ms"),
        Range { min: 0.5, max: 2.0 },
        sum(LONG_MS).over(sum(SHORT_MS)),
    )
}

fn long_io(view: &View<'_>) -> Test {
    let pairs = pairs(view, |n| io(n, LONG_MS));
    if pairs.is_empty() {
        return needs_long(view, "I/O-bound computations, serial and concurrent,");
    }
    of_each(Quote::Largest, &pairs, |pair| pair.gain(ELAPSED))
}

/// The smallest count at which the concurrent turnaround is the better one; what no count reaches is beyond the last.
fn break_even(view: &View<'_>) -> Test {
    const STEP: u64 = 3;
    let mut cells = Vec::new();
    for kind in KINDS {
        let name = kind.name();
        let pairs = pairs(view, |n| Pair::of(kind, n, SHORT_MS));
        let counts: Vec<u64> = pairs.iter().map(|pair| pair.serial.count).collect();
        let Some(&last) = counts.last() else {
            return not_measured(format!(
                "no number of {name} computations was measured both ways at {SHORT_MS} ms"
            ));
        };
        let whole = counts.len() == COUNTS.len();
        let first_better = move |v: &[f64]| {
            let better = counts.iter().zip(v).find(|(_, ratio)| **ratio < 1.0);
            better.map_or(last + STEP, |(&n, _)| n) as f64
        };
        let first = Statistic::function(pairs.into_iter().map(|pair| pair.ratio(TURNAROUND)), first_better);
        // Beyond what was measured is a number only where everything was.
        let beyond = |rounds: Vec<f64>| rounds.iter().any(|&n| n > last as f64);
        if !whole && view.rounds(&first).is_ok_and(beyond) {
            return not_measured(format!(
                "up to {last} {name} computations one after the other stays better; --profile standard has more"
            ));
        }
        cells.push((format!("kind={name}"), first));
    }
    each(Quote::Smallest, cells)
}

fn short_gain(view: &View<'_>) -> Test {
    let of_kind = |kind| pairs(view, |n| Pair::of(kind, n, SHORT_MS));
    let pairs: Vec<Pair> = KINDS.into_iter().flat_map(of_kind).collect();
    if pairs.is_empty() {
        return not_measured(format!("no cell at {SHORT_MS} ms was measured both ways"));
    }
    let complete = pairs.len() == KINDS.len() * COUNTS.len();
    let gains = pairs
        .into_iter()
        .flat_map(|pair| [ELAPSED, TURNAROUND].map(|metric| pair.gain(metric)));
    Test::from(Statistic::function(gains, |v| {
        v.iter().copied().fold(0.0, f64::max)
    }))
    .of_a_part(
        complete,
        "it is about 2 to 17 computations of both kinds; --profile standard has them".to_owned(),
    )
}

fn one_background(view: &View<'_>, all: u64) -> Test {
    let counts = COUNTS.into_iter().filter(|&n| measured(view, background(n, all)));
    let cells = counts.map(|n| {
        let pair = cpu(n, SHORT_MS).on(all);
        (pair.name(), ratio(ELAPSED, background(n, all), pair.concurrent))
    });
    each(Quote::Largest, cells)
}

/// The cases with `extra` that were measured, by number of CPUs and count.
fn with_extra(view: &View<'_>, extra: Extra) -> Vec<Case> {
    let cpus = [Some(1), view.all_cpus()].into_iter().flatten();
    let of = |cpus| COUNTS.map(|n| cpu(n, SHORT_MS).on(cpus).concurrent.extra(extra));
    cpus.flat_map(of).filter(|&case| measured(view, case)).collect()
}

fn short_name(case: Case) -> String {
    format!("count={},cpus={}", case.count, case.cpus)
}

fn finisher(view: &View<'_>) -> Test {
    let cells = with_extra(view, Extra::Finisher).into_iter().map(|case| {
        let finishing_ns = (case.count * case.base_ms) as f64 * 1e6;
        let longer = ELAPSED.of(case).less(ELAPSED.of(case.extra(Extra::None)));
        (
            short_name(case),
            Statistic::function([longer], move |v| v[0] / finishing_ns),
        )
    });
    each(Quote::Smallest, cells)
}

fn dependencies(view: &View<'_>) -> Test {
    let chained = with_extra(view, Extra::Chain);
    let over_plain = |case: Case| ratio(ELAPSED, case, case.extra(Extra::None));
    let unaffected = |case: &Case| {
        let serial = cpu(case.count, SHORT_MS).serial;
        Test::from(ELAPSED.of(serial.extra(Extra::Chain)).over(ELAPSED.of(serial)))
    };
    let on_one = chained.iter().find(|case| case.cpus == 1);
    let unaffected = on_one.map_or_else(|| not_measured("no chain was measured on one CPU"), unaffected);
    each(
        Quote::Smallest,
        chained.iter().map(|&case| (short_name(case), over_plain(case))),
    )
    .also(
        "one after the other takes the same with dependencies (2 %)",
        Range { min: 0.98, max: 1.02 },
        unaffected,
    )
}
