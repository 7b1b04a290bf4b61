//! The claims of source 000 that computations decide, and the statistics behind claims, facts and charts: serial
//! against concurrent, measured against theory, one CPU against all.

use threadgauge_lab::prelude::*;
use threadgauge_results::{Verdict, claim, decide};
use threadgauge_stats::Between;

use super::case::{Case, Extra, Kind, Lengths, Order};
use super::grid::{BASES_MS, COUNTS, KINDS, LONG_MS, MIDDLE, SHORT_MS, background};

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
/// When so many had been finished, one first, for as many as the source had at most.
pub(super) const FINISHED: [Metric; 17] = {
    const fn so_many(name: &'static str) -> Metric {
        metric(name, "ns")
    }
    [
        so_many("finished_01"),
        so_many("finished_02"),
        so_many("finished_03"),
        so_many("finished_04"),
        so_many("finished_05"),
        so_many("finished_06"),
        so_many("finished_07"),
        so_many("finished_08"),
        so_many("finished_09"),
        so_many("finished_10"),
        so_many("finished_11"),
        so_many("finished_12"),
        so_many("finished_13"),
        so_many("finished_14"),
        so_many("finished_15"),
        so_many("finished_16"),
        so_many("finished_17"),
    ]
};
/// CPU time of the work over its length, less 1.
pub(super) const BURNER_ERROR: Metric = metric("burner_error", "ratio");

/// The largest of the source's numbers of computations.
const MOST: u64 = COUNTS[5];

/// What a metric is called in a title and in an id, the label of its axis, and the factor of its values there.
pub(super) fn drawn(metric: Metric) -> (&'static str, &'static str, &'static str, f64) {
    if metric == ELAPSED {
        ("elapsed time", "elapsed", "elapsed time, ms", 1e-6)
    } else {
        ("turnaround", "turnaround", "turnaround ÷ own length, mean", 1.0)
    }
}

/// What theory says of `metric`.
pub(super) fn ideal(metric: Metric) -> Metric {
    if metric == ELAPSED {
        IDEAL_ELAPSED
    } else {
        IDEAL_TURNAROUND
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
        let serial = Case::serial(kind, count, base_ms);
        Self {
            serial,
            concurrent: serial.concurrent(),
        }
    }

    /// Both with one thing changed.
    fn with(self, change: impl Fn(Case) -> Case) -> Self {
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

    fn name(self) -> String {
        let case = self
            .serial
            .any(&["mode", "carrier", "degree", "lengths", "order", "extra"]);
        case.to_string()
    }
}

/// CPU-bound computations of the source's matrix.
pub(super) const fn cpu(count: u64, base_ms: u64) -> Pair {
    Pair::of(Kind::Cpu, count, base_ms)
}

/// The source's numbers of computations of a kind and base.
fn counts(kind: Kind, base_ms: u64) -> [Pair; 6] {
    COUNTS.map(|n| Pair::of(kind, n, base_ms))
}

/// Those pairs of which the run has both cases.
pub(super) fn pairs(view: &View<'_>, kind: Kind, base_ms: u64) -> Vec<Pair> {
    let mut pairs = counts(kind, base_ms).to_vec();
    pairs.retain(|pair| view.measured(&elapsed(*pair)));
    pairs
}

/// The source's matrix of a kind, as far as the run has it.
pub(super) fn matrix(view: &View<'_>, kind: Kind) -> Vec<Pair> {
    let of_base = |base_ms| pairs(view, kind, base_ms);
    BASES_MS.into_iter().flat_map(of_base).collect()
}

/// A metric of one case over that of another.
pub(super) fn ratio(metric: Metric, over: Case, under: Case) -> Statistic {
    metric.of(over).over(metric.of(under))
}

/// By how many per cent a case's elapsed time exceeds what theory says of it.
pub(super) fn over_theory(case: Case) -> Statistic {
    let theory = IDEAL_ELAPSED.of(case);
    ELAPSED.of(case).over(theory).less_one().times(100.0)
}

fn elapsed(pair: Pair) -> Statistic {
    pair.ratio(ELAPSED)
}

fn turnaround(pair: Pair) -> Statistic {
    pair.ratio(TURNAROUND)
}

fn overhead(pair: Pair) -> Statistic {
    elapsed(pair).less_one()
}

fn saved_turnaround(pair: Pair) -> Statistic {
    turnaround(pair).saved()
}

fn turnaround_equal(pair: Pair) -> Statistic {
    turnaround(pair.equal())
}

fn turnaround_by_chance(pair: Pair) -> Statistic {
    turnaround(pair.ordered(Order::Shuffled))
}

fn gain_ascending(pair: Pair) -> Statistic {
    pair.ordered(Order::Ascending).gain(TURNAROUND)
}

/// The serial turnaround longest first over that of each other order, by the order's name.
fn descending_over_others(pair: Pair) -> Vec<(String, Statistic)> {
    let [descending, others @ ..] = Order::ALL;
    let over = |order: Order| {
        let of = |order| pair.serial.order(order);
        (
            order.name().to_owned(),
            ratio(TURNAROUND, of(descending), of(order)),
        )
    };
    others.map(over).to_vec()
}

/// The concurrent turnaround of each order over that of each later one, by their names.
fn order_over_order(pair: Pair) -> Vec<(String, Statistic)> {
    let [a, b, c] = Order::ALL;
    let over = |(one, other): (Order, Order)| {
        let of = |order| pair.concurrent.order(order);
        (
            format!("{} over {}", one.name(), other.name()),
            ratio(TURNAROUND, of(one), of(other)),
        )
    };
    [(a, b), (a, c), (b, c)].map(over).to_vec()
}

/// The geometric mean over pairs.
pub(super) fn mean_ratio(pairs: impl IntoIterator<Item = Pair>, metric: Metric) -> Statistic {
    Statistic::geometric_mean(pairs.into_iter().map(|pair| pair.ratio(metric)))
}

/// A claim about CPU-bound work on one CPU, the base length it is about, and its statistic at one count and number of
/// CPUs.
type Conclusion = (&'static str, u64, fn(Pair) -> Statistic);

/// Those decided by one statistic. The last two are about long computations, and count where they were measured.
const CONCLUSIONS: [Conclusion; 9] = [
    ("cpu-concurrent-never-faster-on-one-cpu", SHORT_MS, elapsed),
    ("short-cpu-concurrent-10pct-slower", SHORT_MS, elapsed),
    ("short-work-has-large-create-overhead", SHORT_MS, overhead),
    ("short-cpu-serial-better-turnaround", SHORT_MS, turnaround),
    (
        "equal-lengths-serial-better-turnaround",
        SHORT_MS,
        turnaround_equal,
    ),
    (
        "mixed-lengths-concurrent-better-turnaround",
        SHORT_MS,
        turnaround_by_chance,
    ),
    ("ascending-serial-beats-concurrent", SHORT_MS, gain_ascending),
    ("long-cpu-elapsed-converges", LONG_MS, overhead),
    ("long-cpu-turnaround-gain-up-to-50pct", LONG_MS, saved_turnaround),
];
/// How many of all conclusions are about short computations.
const SHORT: usize = 9;

/// What decides each conclusion on so many CPUs, at the middle count.
fn conclusions(cpus: u64) -> Vec<(&'static str, Test)> {
    let one = |(id, base_ms, of): Conclusion| (id, of(cpu(MIDDLE, base_ms).on(cpus)).into());
    let short = cpu(MIDDLE, SHORT_MS).on(cpus);
    let orders = [
        (
            "descending-is-worst-serial-order",
            each(Quote::Smallest, descending_over_others(short)),
        ),
        (
            "concurrent-turnaround-ignores-order",
            each(Quote::Largest, order_over_order(short)),
        ),
    ];
    CONCLUSIONS.into_iter().map(one).chain(orders).collect()
}

/// The conclusions that a run can check and that hold on one CPU, each with its verdict on all; `None` where it cannot
/// check all those about short computations. Both at the middle count: of the other counts, over which most claims
/// about one CPU are, all CPUs have no cells of equal lengths and of every order.
pub(super) fn held_on_one(view: &View<'_>, all: u64) -> Option<Vec<(&'static str, Verdict)>> {
    let is_measured = |test: &Test| test.statistics().into_iter().all(|s| view.measured(s));
    let both = conclusions(1).into_iter().zip(conclusions(all));
    let measured: Vec<_> = both
        .filter(|((_, on_one), (_, on_all))| is_measured(on_one) && is_measured(on_all))
        .collect();
    if measured.len() < SHORT {
        return None;
    }
    let verdict = |id, test: &Test| {
        let claim = claim(id)?;
        decide(claim, &claim.unit, &test.evidence(view, claim), view.alpha).verdict
    };
    let held = measured.iter().filter_map(|((id, on_one), (_, on_all))| {
        let holds = verdict(id, on_one) == Some(Verdict::Holds);
        Some((*id, verdict(id, on_all).filter(|_| holds)?))
    });
    Some(held.collect())
}

/// Whether disturbed rounds count for any conclusion.
pub(super) fn disturbed(view: &View<'_>, all: u64) -> bool {
    let both = conclusions(1).into_iter().chain(conclusions(all));
    let mut evidence = both.filter_map(|(id, test)| Some(test.evidence(view, claim(id)?)));
    evidence.any(|evidence| evidence.is_disturbed())
}

/// What decides each claim.
pub(super) fn claims(view: &View<'_>) -> Vec<Claim> {
    let short = counts(Kind::Cpu, SHORT_MS);
    // Shuffling two computations gives one of the other two orders.
    let three_orders = &short[1..];
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
        (
            "equal-lengths-serial-better-turnaround",
            each_pair(view, Quote::Smallest, &short, turnaround_equal),
        ),
        ("mixed-lengths-concurrent-better-turnaround", mixed_lengths(view)),
        ("ascending-serial-beats-concurrent", ascending(view)),
        (
            "descending-is-worst-serial-order",
            each_of_orders(view, Quote::Smallest, three_orders, descending_over_others),
        ),
        (
            "concurrent-turnaround-ignores-order",
            each_of_orders(view, Quote::Largest, three_orders, order_over_order),
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
        waiting("long-work-same-on-both-systems"),
        waiting("short-concurrent-io-differs-between-systems"),
    ]
}

/// What is missing at the source's longest base, and which profile has it.
fn needs_long(view: &View<'_>, what: &str) -> Test {
    not_measured(format!(
        "needs {what} at {LONG_MS} ms, which this run ({}) did not measure; `threadgauge run turnaround --profile paper \
         --only base_ms={LONG_MS}` does",
        view.profile.name()
    ))
}

/// A statistic of each pair of which the run has it, by name.
fn each_pair(view: &View<'_>, quote: Quote, pairs: &[Pair], of: impl Fn(Pair) -> Statistic) -> Test {
    let cells = pairs.iter().map(|pair| (pair.name(), of(*pair)));
    each(quote, cells.filter(|(_, statistic)| view.measured(statistic)))
}

/// Several statistics of each pair, as far as the run has them.
fn each_of_orders(
    view: &View<'_>,
    quote: Quote,
    pairs: &[Pair],
    of: impl Fn(Pair) -> Vec<(String, Statistic)>,
) -> Test {
    let named = |pair: &Pair| {
        let name = pair.name();
        let cells = of(*pair).into_iter();
        cells.map(move |(order, statistic)| (format!("{name}, {order}"), statistic))
    };
    let cells = pairs.iter().flat_map(named);
    each(quote, cells.filter(|(_, statistic)| view.measured(statistic)))
}

fn never_faster(view: &View<'_>) -> Test {
    let measured = matrix(view, Kind::Cpu);
    let all = COUNTS.len() * BASES_MS.len();
    each_pair(view, Quote::Smallest, &measured, elapsed).of_a_part(
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
    let pairs = pairs(view, Kind::Cpu, SHORT_MS);
    if pairs.len() < LEAST {
        return not_measured(format!(
            "needs at least {LEAST} numbers of computations at {SHORT_MS} ms, serial and concurrent, on one CPU; \
             `threadgauge run turnaround --profile standard` has them"
        ));
    }
    of_mean(mean_ratio(pairs, metric)).into()
}

fn converges(view: &View<'_>) -> Test {
    let long = pairs(view, Kind::Cpu, LONG_MS);
    if long.is_empty() {
        return needs_long(view, "CPU-bound computations, serial and concurrent,");
    }
    let short = long.iter().map(|pair| cpu(pair.serial.count, SHORT_MS));
    let means = [mean_ratio(short, ELAPSED), mean_ratio(long.clone(), ELAPSED)];
    each_pair(view, Quote::Largest, &long, overhead).also(
        format!("the difference is smaller at {LONG_MS} ms than at {SHORT_MS} ms"),
        Range::at_least(0.0).of("difference"),
        Statistic::function(means, |v| (v[0] - 1.0).abs() - (v[1] - 1.0).abs()),
    )
}

fn long_gain(view: &View<'_>) -> Test {
    if !view.measured(&turnaround(cpu(MOST, LONG_MS))) {
        return needs_long(view, "17 CPU-bound computations, serial and concurrent,");
    }
    // By theory the gain grows with the number of computations. The largest of noisy gains would be too large.
    let gains = pairs(view, Kind::Cpu, LONG_MS);
    Test::from(saved_turnaround(cpu(MOST, LONG_MS))).also(
        "no number of computations gains more than 60 %",
        Range::at_most(0.6).of("gain"),
        each_pair(view, Quote::Largest, &gains, saved_turnaround),
    )
}

fn mixed_lengths(view: &View<'_>) -> Test {
    if !view.measured(&turnaround_by_chance(cpu(MOST, SHORT_MS))) {
        return not_measured(
            "needs computations that differ as much as 1 to 17 in an order by chance; `threadgauge run turnaround \
             --profile standard` has them",
        );
    }
    let ratios = counts(Kind::Cpu, SHORT_MS).map(turnaround_by_chance);
    Statistic::geometric_mean(ratios.into_iter().filter(|ratio| view.measured(ratio))).into()
}

fn ascending(view: &View<'_>) -> Test {
    let short = counts(Kind::Cpu, SHORT_MS);
    let elapsed = short.map(|pair| elapsed(pair.ordered(Order::Ascending)));
    let measured = elapsed.into_iter().filter(|ratio| view.measured(ratio));
    each_pair(view, Quote::Largest, &short, gain_ascending).also(
        "one after the other takes no longer in all than at once (2 %)",
        Range { min: 0.0, max: 1.02 }.of("ratio"),
        Statistic::geometric_mean(measured).inverse(),
    )
}

fn faster_on(view: &View<'_>, all: u64) -> Test {
    let pairs = counts(Kind::Cpu, LONG_MS).map(|pair| pair.on(all));
    if !pairs.iter().any(|pair| view.measured(&elapsed(*pair))) {
        return needs_long(view, "CPU-bound computations on all CPUs");
    }
    each_pair(view, Quote::Largest, &pairs, elapsed)
}

/// Of the conclusions that hold on one CPU the share reversed on all: from those definitely reversed to those with the
/// open ones.
fn share_that_changes(view: &View<'_>, all: u64) -> Test {
    let Some(held) = held_on_one(view, all) else {
        return not_measured(format!(
            "needs {MIDDLE} CPU-bound computations of all lengths and orders on one CPU and on all; `threadgauge run \
             turnaround --profile standard` has them"
        ));
    };
    if disturbed(view, all) {
        let says = "some of the conclusions are from disturbed rounds, and claims across numbers of CPUs are not decided from such";
        return Lack::new(Need::Figures, says).into();
    }
    if held.is_empty() {
        let says = "no conclusion about one CPU holds on one CPU in this run, so that none can be reversed";
        return Lack::new(Need::Figures, says).into();
    }
    let share = |of: fn(Verdict) -> bool| {
        let those = held.iter().filter(|(_, verdict)| of(*verdict));
        those.count() as f64 / held.len() as f64
    };
    let reversed = share(|verdict| verdict == Verdict::DoesNotHold);
    Test::Given(Estimate {
        value: reversed,
        ci95: Some([reversed, share(|verdict| verdict != Verdict::Holds)]),
    })
}

/// The base times the count, ns: what the longest computation takes, and what all finishers take together.
fn longest_ns(case: Case) -> f64 {
    (case.count * case.base_ms) as f64 * 1e6
}

/// What a concurrent run takes beyond its longest computation, ns.
fn beyond_longest(pair: &Pair) -> Statistic {
    let longest_ns = longest_ns(pair.serial);
    Statistic::function([ELAPSED.of(pair.concurrent)], move |v| v[0] - longest_ns)
}

fn io_overhead(view: &View<'_>) -> Test {
    let [short, long] = [SHORT_MS, LONG_MS].map(|base_ms| counts(Kind::Io, base_ms));
    let both = short.into_iter().zip(long);
    let measured = |pair: &Pair| view.measured(&ELAPSED.of(pair.concurrent));
    let (short, long): (Vec<Pair>, Vec<Pair>) = both.filter(|(a, b)| measured(a) && measured(b)).unzip();
    if long.is_empty() {
        return needs_long(view, "concurrent I/O-bound computations");
    }
    let share = |pair: &Pair| {
        let longest_ns = longest_ns(pair.serial);
        let share = Statistic::function([beyond_longest(pair)], move |v| v[0] / longest_ns);
        (pair.name(), share)
    };
    let sum = |pairs: &[Pair]| Statistic::function(pairs.iter().map(beyond_longest), |v| v.iter().sum());
    each(Quote::Largest, long.iter().map(share)).also(
        format!("the cost at {LONG_MS} ms is between half and twice that at {SHORT_MS} ms"),
        Range { min: 0.5, max: 2.0 }.of("ratio"),
        sum(&long).over(sum(&short)),
    )
}

fn long_io(view: &View<'_>) -> Test {
    let pairs = pairs(view, Kind::Io, LONG_MS);
    if pairs.is_empty() {
        return needs_long(view, "I/O-bound computations, serial and concurrent,");
    }
    each_pair(view, Quote::Largest, &pairs, |pair| pair.gain(ELAPSED))
}

/// The smallest count from which on the concurrent turnaround is better. Where there is none, it is beyond the largest
/// count.
fn break_even(view: &View<'_>) -> Test {
    const STEP: f64 = 3.0;
    let [cpu, io] = KINDS.map(|kind| {
        let mut measured = pairs(view, kind, SHORT_MS);
        if measured.is_empty() {
            measured = counts(kind, SHORT_MS).to_vec();
        }
        let ratio = |pair: &Pair| (pair.serial.count as f64, turnaround(*pair));
        let from = Statistic::crossing(measured.iter().map(ratio), Between::Next(STEP));
        Test::from(from).of_a_part(
            measured.len() == COUNTS.len(),
            "it is about 2 to 17 computations; --profile standard has them",
        )
    });
    let says = "CPU-bound computations turn around better concurrently from 8 to 11 of them on";
    io.also(says, Range { min: 8.0, max: 11.0 }.of("computations"), cpu)
}

fn short_gain(view: &View<'_>) -> Test {
    let of_kind = |kind| pairs(view, kind, SHORT_MS);
    let pairs: Vec<Pair> = KINDS.into_iter().flat_map(of_kind).collect();
    if pairs.is_empty() {
        return not_measured(format!(
            "no cell at {SHORT_MS} ms was measured both ways; `threadgauge run turnaround` has them"
        ));
    }
    let complete = pairs.len() == KINDS.len() * COUNTS.len();
    let both = |pair: Pair| {
        [ELAPSED, TURNAROUND].map(|metric| (format!("{}, {}", pair.name(), metric.name), pair.gain(metric)))
    };
    let gains = pairs.into_iter().flat_map(both);
    each(Quote::Largest, gains).of_a_part(
        complete,
        "it is about 2 to 17 computations of both kinds; --profile standard has them",
    )
}

fn one_background(view: &View<'_>, all: u64) -> Test {
    let pairs = counts(Kind::Cpu, SHORT_MS).map(|pair| pair.on(all));
    let background = |pair: &Pair| background(pair.serial.count, all);
    let measured = pairs
        .iter()
        .filter(|pair| view.measured(&ELAPSED.of(background(pair))));
    let cells = measured.map(|pair| (pair.name(), ratio(ELAPSED, background(pair), pair.concurrent)));
    each(Quote::Largest, cells)
}

/// A statistic of each case with `extra` that was measured, by number of CPUs and count.
fn with_extra(view: &View<'_>, extra: Extra, of: impl Fn(Case) -> Statistic) -> Test {
    let cpus = [Some(1), view.all_cpus()].into_iter().flatten();
    let cases = cpus.flat_map(|cpus| COUNTS.map(|n| cpu(n, SHORT_MS).on(cpus).concurrent.extra(extra)));
    let measured = cases.filter(|&case| view.measured(&ELAPSED.of(case)));
    let name = |case: Case| format!("count={},cpus={}", case.count, case.cpus);
    each(Quote::Smallest, measured.map(|case| (name(case), of(case))))
}

fn finisher(view: &View<'_>) -> Test {
    with_extra(view, Extra::Finisher, |case| {
        let finishing_ns = longest_ns(case);
        let longer = ELAPSED.of(case).less(ELAPSED.of(case.extra(Extra::None)));
        Statistic::function([longer], move |v| v[0] / finishing_ns)
    })
}

fn dependencies(view: &View<'_>) -> Test {
    let over_plain = |case: Case| ratio(ELAPSED, case, case.extra(Extra::None));
    let chain = |case: Case| case.extra(Extra::Chain);
    let measured = |pair: &&Pair| view.measured(&ELAPSED.of(chain(pair.concurrent)));
    let short = counts(Kind::Cpu, SHORT_MS);
    let unaffected = short.iter().find(measured).map_or_else(
        || not_measured("no chain was measured on one CPU; `threadgauge run turnaround` has them"),
        |pair| over_plain(chain(pair.serial)).into(),
    );
    with_extra(view, Extra::Chain, over_plain).also(
        "one after the other takes the same with dependencies (2 %)",
        Range { min: 0.98, max: 1.02 }.of("ratio"),
        unaffected,
    )
}
