//! The answer, the facts, the pairs to compare, the source's charts with what theory says beside, and its matrix as tables.

use threadgauge_lab::experiment::Pair as Compared;
use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Table};

use super::case::{Carrier, Case, DEGREE, Degree, Extra, Kind, Lengths, Order};
use super::claims::claims;
use super::grid::{ADAPTED, BASES_MS, COUNTS, KINDS, MIDDLE, SHORT_MS, adapted, background};
use super::statistics::{
    BURNER_ERROR, ELAPSED, FINISH_WAIT, Pair, TURNAROUND, changes, cpu, ideal, io, mean_ratio, over_theory,
    pairs, ratio,
};

/// Everything that is read off a run.
pub(super) fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        tests: claims(view),
        facts: facts(view),
        comparisons: comparisons(),
        figures: charts(view),
        tables: KINDS.into_iter().filter_map(|kind| matrix(view, kind)).collect(),
        ..Answer::default()
    }
}

/// How sentences and charts name the source's kinds.
const fn bound(kind: Kind) -> &'static str {
    match kind {
        Kind::Io => "I/O-bound",
        _ => "CPU-bound",
    }
}

/// The longest pair of `kind` in this run: the largest base at which at least two counts are measured both ways, and the
/// largest of these.
fn longest(view: &View<'_>, kind: Kind) -> Option<Pair> {
    let at = |&base_ms: &u64| pairs(view, |n| Pair::of(kind, n, base_ms));
    let largest = |pairs: Vec<Pair>| pairs.get(1..)?.last().copied();
    BASES_MS.iter().rev().map(at).find_map(largest)
}

fn answer(view: &View<'_>) -> String {
    let part = |kind| {
        let pair = longest(view, kind)?;
        let change = |metric| view.value(&pair.ratio(metric).less_one().times(100.0));
        let (elapsed, turnaround) = (change(ELAPSED)?, change(TURNAROUND)?);
        let Case { count, base_ms, .. } = pair.serial;
        Some(format!(
            "{count} {} computations of {base_ms} to {} ms, longest first, on one CPU: threads change the elapsed time \
             by {elapsed:+.1} % and the mean turnaround by {turnaround:+.0} %.",
            bound(kind),
            count * base_ms
        ))
    };
    let parts: Vec<String> = KINDS.into_iter().filter_map(part).collect();
    if parts.is_empty() {
        return "The cells that would answer this have no figures in this run.".to_owned();
    }
    parts.join(" ")
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    [
        arithmetic(view),
        sharing(view),
        mixes_fact(view),
        real_waiting(view, Kind::File, "reads past the cache"),
        real_waiting(view, Kind::Server, "requests to a server on the loopback network"),
        carriers(view),
        degree_of_cpus(view),
        adaptive_degree(view),
        shortest_first(view),
        promptness(view),
        changed_conclusions(view),
        burner(view),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How much of the gain in turnaround is arithmetic.
fn arithmetic(view: &View<'_>) -> Option<Finding> {
    let pair = longest(view, Kind::Cpu)?;
    let gain = |metric| pair.ratio(metric).saved();
    let measured = view.estimate(&gain(TURNAROUND))?;
    let by_theory = view.value(&gain(ideal(TURNAROUND)))?;
    let says = format!(
        "Threads improve the mean turnaround of {} CPU-bound computations, longest first, from {} ms on by {:.1} %{}; \
         by arithmetic alone, with threads that cost nothing, it would be {:.1} %.",
        pair.serial.count,
        pair.serial.base_ms,
        measured.value * 100.0,
        measured.within(0.01, 1),
        by_theory * 100.0,
    );
    Some(measured.fact(says, "share"))
}

/// What sharing one CPU costs beyond the ideal.
fn sharing(view: &View<'_>) -> Option<Finding> {
    let pairs = pairs(view, |n| cpu(n, SHORT_MS));
    let counts: Vec<String> = pairs.iter().map(|pair| pair.serial.count.to_string()).collect();
    let over = view.estimate(&mean_ratio(pairs, ELAPSED).less_one())?;
    let cost = match over.ci95 {
        Some([low, high]) if low <= 0.0 && high >= 0.0 => "below resolution".to_owned(),
        _ => format!("{:+.2} %", over.value * 100.0),
    };
    let counts = match counts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => counts.concat(),
    };
    let says = format!(
        "Making a thread for each of {counts} CPU-bound computations from {SHORT_MS} ms on and sharing one CPU among them \
         costs, in elapsed time over one after the other: {cost}{} (geometric mean over the numbers of computations).",
        over.within(0.01, 2),
    );
    Some(over.fact(says, "share"))
}

/// The kinds by their share of computing, the least first.
fn by_share_of_computing() -> impl Iterator<Item = Kind> {
    std::iter::once(Kind::Io).chain(Kind::MIXES).chain([Kind::Cpu])
}

/// From which share of waiting threads pay on one CPU.
fn mixes_fact(view: &View<'_>) -> Option<Finding> {
    let of = |kind| view.estimate(&Pair::of(kind, MIDDLE, SHORT_MS).ratio(ELAPSED));
    let measured = by_share_of_computing().filter_map(|kind| Some((kind, of(kind)?)));
    let list: Vec<String> = measured
        .map(|(kind, ratio)| format!("{} %: {:.2}", kind.computes_percent(), ratio.value))
        .collect();
    let half = of(Kind::Mix50).filter(|_| list.len() >= 4)?;
    let says = format!(
        "{MIDDLE} computations that compute and sleep by turns, at once on one CPU, over one after the other (elapsed, by \
         share of computing): {}.",
        list.join(", ")
    );
    Some(half.fact(says, "ratio"))
}

fn real_waiting(view: &View<'_>, kind: Kind, what: &str) -> Option<Finding> {
    let pair = Pair::of(kind, MIDDLE, SHORT_MS);
    let times = view.estimate(&pair.gain(ELAPSED))?;
    let by_theory = view.value(&pair.gain(ideal(ELAPSED)))?;
    let says = format!(
        "{MIDDLE} computations that are {what} finish {:.2} times{} as fast at once as one after the other; {:.2} times \
         if those that wait disturb nobody.",
        times.value,
        times.within(1.0, 2),
        by_theory,
    );
    Some(times.fact(says, "ratio"))
}

/// What each carrier takes, against a thread made for each when its turn comes.
fn carriers(view: &View<'_>) -> Option<Finding> {
    let thread = io(MIDDLE, SHORT_MS).concurrent;
    let over = |carrier| view.estimate(&ratio(ELAPSED, thread.carrier(carrier), thread));
    let (pool, up_front, process) = (
        over(Carrier::Pool)?,
        over(Carrier::UpFront)?,
        over(Carrier::Process)?,
    );
    let says = format!(
        "{MIDDLE} waiting computations take, of the elapsed time with a thread made for each when its turn comes: \
         {:.3}{} with a pool made for the call, {:.3} with threads made up front, the source's way, {:.3} with helper \
         processes.",
        pool.value,
        pool.within(1.0, 3),
        up_front.value,
        process.value,
    );
    Some(pool.fact(says, "ratio"))
}

/// As many threads as CPUs, against all at once.
fn degree_of_cpus(view: &View<'_>) -> Option<Finding> {
    let all = view.all_cpus()?;
    let unbounded = cpu(MIDDLE, SHORT_MS).on(all).concurrent;
    let of = |metric| view.estimate(&ratio(metric, unbounded.degree(Degree::AtMost(all)), unbounded));
    let (elapsed, turnaround) = (of(ELAPSED)?, of(TURNAROUND)?);
    let says = format!(
        "With no more than {all} at a time on {all} CPUs, {MIDDLE} CPU-bound computations, longest first, take {:.3}{} of \
         the elapsed time of all at once, and turn around {:.2} times as slowly.",
        elapsed.value,
        elapsed.within(1.0, 3),
        turnaround.value,
    );
    Some(elapsed.fact(says, "ratio"))
}

/// What the adaptive degree costs against the better of two fixed ones, for the kind where it costs most.
fn adaptive_degree(view: &View<'_>) -> Option<Finding> {
    let all = view.all_cpus()?;
    let over = |kind| {
        let times = adapted(kind, all).map(|case| ELAPSED.of(case));
        view.estimate(&Statistic::function(times, |v| v[0] / v[1].min(v[2])))
    };
    let kinds: Vec<(Kind, Estimate)> = ADAPTED
        .into_iter()
        .map(|kind| Some((kind, over(kind)?)))
        .collect::<Option<_>>()?;
    let &(worst, most) = kinds.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    let list: Vec<String> = kinds
        .iter()
        .map(|(kind, over)| format!("{:.2} ({})", over.value, kind.name()))
        .collect();
    let says = format!(
        "100 equal computations with the degree left to the executor take, of the elapsed time with the better of {all} \
         and 25 at a time on {all} CPUs: {}; {} costs most{}.",
        list.join(", "),
        worst.name(),
        most.within(1.0, 2),
    );
    Some(most.fact(says, "ratio"))
}

/// What sorting is worth against what threads are worth.
fn shortest_first(view: &View<'_>) -> Option<Finding> {
    let sorted = |pair: Pair| pair.ordered(Order::Ascending);
    let pair = [17, MIDDLE, 5]
        .into_iter()
        .map(|n| cpu(n, SHORT_MS))
        .find(|pair| sorted(*pair).measured(view))
        .unwrap_or(cpu(MIDDLE, SHORT_MS));
    let cases = [pair.serial, sorted(pair).serial, pair.concurrent].map(|case| TURNAROUND.of(case));
    let better = |than: usize| Statistic::function(cases.clone(), move |v| v[0] / v[than]);
    let (by_sorting, by_threads) = (view.estimate(&better(1))?, view.value(&better(2))?);
    let says = format!(
        "Sorting {} CPU-bound computations shortest first makes their mean turnaround {:.1} times{} better than longest \
         first; threads, which need not know the lengths, {:.1} times.",
        pair.serial.count,
        by_sorting.value,
        by_sorting.within(1.0, 1),
        by_threads,
    );
    Some(by_sorting.fact(says, "ratio"))
}

/// How long a finished computation waits for its finisher.
fn promptness(view: &View<'_>) -> Option<Finding> {
    let of = |pair: Pair| view.estimate(&FINISH_WAIT.of(pair.concurrent));
    let (cpu, io) = (of(cpu(MIDDLE, SHORT_MS))?, of(io(MIDDLE, SHORT_MS))?);
    let says = format!(
        "A finisher comes {:.0} µs{} after its waiting computation has ended, and {:.0} µs after its CPU-bound one, with \
         which it shares the CPU (means over {MIDDLE}).",
        io.value / 1e3,
        io.within(1e3, 0),
        cpu.value / 1e3,
    );
    Some(io.fact(says, "ns"))
}

/// The conclusions that change in more than half of the rounds, by their claims.
fn changed_conclusions(view: &View<'_>) -> Option<Finding> {
    let all = view.all_cpus()?;
    let usually = |(id, change): (&'static str, Statistic)| {
        let rounds = view.rounds(&change).ok()?;
        (2.0 * rounds.iter().sum::<f64>() > rounds.len() as f64).then_some(id)
    };
    let changed: Vec<&str> = changes(view, all).into_iter().filter_map(usually).collect();
    (!changed.is_empty()).then(|| {
        let says = format!(
            "Of the conclusions about one CPU these change on {all} CPUs ({MIDDLE} computations, judged by what most rounds \
             say): {}.",
            changed.join(", ")
        );
        Finding::fact(says, Some(changed.len() as f64), None, "conclusions")
    })
}

/// How far the work was from its length in CPU time.
fn burner(view: &View<'_>) -> Option<Finding> {
    let error = view.estimate(&BURNER_ERROR.of(cpu(MIDDLE, SHORT_MS).serial))?;
    let says = format!(
        "The computations' fixed amounts of work took {:+.1} %{} more CPU time than their lengths say (they are calibrated \
         at the CPU's fastest). Ratios do not care; measured over ideal does.",
        error.value * 100.0,
        error.within(0.01, 1),
    );
    Some(error.fact(says, "share"))
}

/// Pairs that a reader asks about; those that were not measured are left out.
fn comparisons() -> Vec<Compared> {
    let short = |kind| Pair::of(kind, MIDDLE, SHORT_MS);
    let compared = |a: Case, b: Case| Compared {
        a: a.params(),
        b: b.params(),
    };
    let both = |pair: Pair| compared(pair.serial, pair.concurrent);
    let kinds = [Kind::Cpu, Kind::Io, Kind::Mix50, Kind::File, Kind::Server];
    let mut pairs: Vec<Compared> = kinds.map(|kind| both(short(kind))).to_vec();
    pairs.push(both(short(Kind::Cpu).equal()));
    for carrier in [Carrier::UpFront, Carrier::Pool, Carrier::Process] {
        for kind in KINDS {
            let thread = short(kind).concurrent;
            pairs.push(compared(thread, thread.carrier(carrier)));
        }
    }
    let thread = short(Kind::Cpu).concurrent;
    pairs.push(compared(thread, thread.extra(Extra::Finisher)));
    pairs
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let mut charts = Vec::new();
    for kind in KINDS {
        let long = longest(view, kind)
            .map(|pair| pair.serial.base_ms)
            .filter(|&ms| ms > SHORT_MS);
        for base_ms in [Some(SHORT_MS), long].into_iter().flatten() {
            charts.extend([ELAPSED, TURNAROUND].map(|metric| source_chart(view, kind, base_ms, metric)));
        }
    }
    charts.extend([over_ideal(view), by_length(view), mixes(view), methods(view)]);
    charts.into_iter().flatten().collect()
}

/// As the source draws it: over the number of computations, serial and concurrent, for one base length.
fn source_chart(view: &View<'_>, kind: Kind, base_ms: u64, metric: Metric) -> Option<Figure> {
    let (name, id, label, scale) = if metric == ELAPSED {
        ("elapsed time", "elapsed", "elapsed time, ms", 1e-6)
    } else {
        ("turnaround", "turnaround", "mean turnaround", 1.0)
    };
    let kind_id = if kind == Kind::Io { "io" } else { "cpu" };
    let of = |metric: Metric, case: fn(Pair) -> Case| {
        COUNTS.map(|n| (n, metric.of(case(Pair::of(kind, n, base_ms))).times(scale)))
    };
    Chart::new(
        view,
        format!("{id}-{kind_id}-{base_ms}"),
        format!("{} computations of {base_ms} ms and its multiples: {name}", bound(kind)),
    )
    .note(format!(
        "Lengths from {base_ms} ms to {base_ms} ms × the number of computations, longest first, on one CPU, a thread for \
         each. Theory: first come, first served, and sharing the CPU equally, both at no cost. The source's charts have \
         the same axes; their figures are not in its text."
    ))
    .x(Scale::Linear, "computations")
    .y(Scale::Linear, label)
    .line("serial", of(metric, |pair| pair.serial))
    .line("concurrent", of(metric, |pair| pair.concurrent))
    .theory("serial at no cost", of(ideal(metric), |pair| pair.serial))
    .theory("concurrent at no cost", of(ideal(metric), |pair| pair.concurrent))
    .drawn()
}

/// Measured over theory: what is not arithmetic.
fn over_ideal(view: &View<'_>) -> Option<Figure> {
    let mut chart = Chart::new(
        view,
        "over-ideal",
        format!("Elapsed time beyond what theory says, from {SHORT_MS} ms on"),
    )
    .note(
        "Zero is work that is done as scheduling theory has it, at no cost. What serial and concurrent have in common is \
         the machine's (work calibrated at its fastest); what concurrent has beyond serial is the price of threads.",
    )
    .x(Scale::Linear, "computations")
    .y(Scale::Linear, "elapsed time over theory, %");
    for kind in KINDS {
        let of = |n| Pair::of(kind, n, SHORT_MS);
        chart = chart
            .line(
                format!("{}, serial", bound(kind)),
                COUNTS.map(|n| (n, over_theory(of(n).serial))),
            )
            .line(
                format!("{}, concurrent", bound(kind)),
                COUNTS.map(|n| (n, over_theory(of(n).concurrent))),
            );
    }
    chart.drawn()
}

/// The same over the base length, for the middle count.
fn by_length(view: &View<'_>) -> Option<Figure> {
    let title = "Elapsed time of concurrent computations beyond what theory says, by base length";
    let mut chart = Chart::new(view, "over-ideal-by-length", title)
        .note(
            "A constant cost becomes a smaller share of longer work: the source says so of I/O-bound computations.",
        )
        .x(Scale::Log, "base length, ms")
        .y(Scale::Linear, "elapsed time over theory, %")
        // One length alone shows nothing of lengths.
        .at_least(2);
    for kind in KINDS {
        for n in [2, MIDDLE] {
            let of = |base_ms| over_theory(Pair::of(kind, n, base_ms).concurrent);
            chart = chart.line(
                format!("{}, {n} at once", bound(kind)),
                BASES_MS.map(|ms| (ms, of(ms))),
            );
        }
    }
    chart.drawn()
}

/// What threads are worth by how much is computed and how much waited.
fn mixes(view: &View<'_>) -> Option<Figure> {
    let of = |metric: Metric| {
        by_share_of_computing().map(move |kind| {
            let pair = Pair::of(kind, MIDDLE, SHORT_MS);
            (kind.computes_percent(), pair.gain(metric))
        })
    };
    Chart::new(
        view,
        "mixes",
        format!("How many times better {MIDDLE} computations do at once, by how much they compute"),
    )
    .note(
        "One after the other over at once, on one CPU, longest first; computing and sleeping by turns of 5 ms together. \
         Theory shares the CPU equally, so that all compute and sleep in step; a scheduler that lets short bursts end \
         does better, and is above it.",
    )
    .x(Scale::Linear, "share of computing, %")
    .y(Scale::Linear, "serial / concurrent")
    // Both ends alone are two points of the source's charts.
    .at_least(3)
    .line("elapsed", of(ELAPSED))
    .line("turnaround", of(TURNAROUND))
    .theory("elapsed at no cost", of(ideal(ELAPSED)))
    .theory("turnaround at no cost", of(ideal(TURNAROUND)))
    .drawn()
}

/// The methods to run the same CPU-bound work.
fn methods(view: &View<'_>) -> Option<Figure> {
    let title = format!(
        "{MIDDLE} CPU-bound computations run in other ways: elapsed time beyond what theory says of each"
    );
    let mut chart = Chart::new(view, "ways", title)
        .note(
            "A thread for each, longest first, at most 25 at once, where nothing else is said (dependent: each needs the \
             one before). Each way against its own theory, in which finishing takes no time: so the last one shows the \
             work of its finishers.",
        )
        .x(Scale::Category, "way")
        .y(Scale::Linear, "elapsed time over theory, %")
        .at_least(4);
    let all = view.all_cpus();
    for cpus in std::iter::once(1).chain(all) {
        let pair = cpu(MIDDLE, SHORT_MS).on(cpus);
        let Pair { serial, concurrent } = pair;
        let ascending = pair.ordered(Order::Ascending);
        let at_most = |degree| concurrent.degree(Degree::AtMost(degree));
        let methods = [
            ("serial", serial),
            ("ascending, serial", ascending.serial),
            ("concurrent", concurrent),
            ("ascending", ascending.concurrent),
            ("equal lengths", concurrent.lengths(Lengths::Equal)),
            ("random lengths", concurrent.lengths(Lengths::Random)),
            ("degree 4", at_most(4)),
            ("degree = CPUs", at_most(all.unwrap_or(2))),
            ("made up front", concurrent.carrier(Carrier::UpFront)),
            ("pool of 25", concurrent.carrier(Carrier::Pool).degree(DEGREE)),
            ("pool of 1", background(MIDDLE, cpus)),
            ("helper processes", concurrent.carrier(Carrier::Process)),
            ("dependent", concurrent.extra(Extra::Chain)),
            ("finishers of 10 ms", concurrent.extra(Extra::Finisher)),
        ];
        let name = if cpus == 1 {
            "one CPU".to_owned()
        } else {
            format!("{cpus} CPUs")
        };
        chart = chart.line(name, methods.map(|(method, case)| (method, over_theory(case))));
    }
    chart.drawn()
}

/// The source's matrix of one kind.
fn matrix(view: &View<'_>, kind: Kind) -> Option<Table> {
    let text = |statistic: Statistic, digits: usize| {
        view.value(&statistic)
            .map_or_else(String::new, |v| format!("{v:.digits$}"))
    };
    let row = |pair: Pair| {
        let elapsed = |case| text(ELAPSED.of(case).times(1e-6), 1);
        let turnaround = |metric: Metric, case| text(metric.of(case), 2);
        let Pair { serial, concurrent } = pair;
        vec![
            serial.base_ms.to_string(),
            serial.count.to_string(),
            elapsed(serial),
            elapsed(concurrent),
            text(pair.ratio(ELAPSED), 3),
            turnaround(TURNAROUND, serial),
            turnaround(ideal(TURNAROUND), serial),
            turnaround(TURNAROUND, concurrent),
            turnaround(ideal(TURNAROUND), concurrent),
        ]
    };
    let pairs = BASES_MS
        .iter()
        .flat_map(|&base_ms| pairs(view, |n| Pair::of(kind, n, base_ms)));
    let rows: Vec<_> = pairs.map(row).collect();
    (!rows.is_empty()).then(|| {
        table(
            format!("matrix-{}", kind.name()),
            format!("The source's matrix, {} computations on one CPU", bound(kind)),
            "Medians over rounds. The source gives these cells as charts, whose figures are not in its text; theory is \
             first come, first served, and equal sharing.",
            [
                "base, ms",
                "computations",
                "serial, ms",
                "concurrent, ms",
                "concurrent / serial",
                "turnaround, serial",
                "serial at no cost",
                "turnaround, concurrent",
                "concurrent at no cost",
            ],
            rows,
        )
    })
}
