//! The answer, the facts, the pairs to compare, the source's charts beside theory, and its matrix as tables.

use threadgauge_lab::experiment::Pair as Compared;
use threadgauge_lab::prelude::*;
use threadgauge_results::units::of_cpus;
use threadgauge_results::{Figure, Table, Verdict};

use super::case::{Carrier, Case, Degree, Extra, Kind, Lengths, Order};
use super::claims::{
    BURNER_ERROR, ELAPSED, FINISH_WAIT, FINISHED, Pair, TURNAROUND, claims, cpu, disturbed, drawn,
    held_on_one, ideal, matrix, mean_ratio, over_theory, pairs, ratio,
};
use super::grid::{ADAPTED, BASES_MS, COUNTS, KINDS, MIDDLE, OTHER_CARRIERS, SHORT_MS, adapted, background};
use super::own;

/// Everything that is read off a run.
pub(super) fn read(view: &View<'_>) -> Answer {
    let ours = (key_number(view), charts(view));
    // The first picture shows what the number is of.
    let (number, figures) = match ours {
        (None, charts) => (own::number(view), [own::charts(view), charts].concat()),
        (number, charts) => (number, [charts, own::charts(view)].concat()),
    };
    Answer {
        answer: answer(view),
        number,
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(),
        figures,
        tables: KINDS
            .into_iter()
            .map(|kind| matrix_table(view, kind))
            .chain([own::table_of(view)])
            .flatten()
            .collect(),
        ..Answer::default()
    }
}

/// The pair of `kind` at which other factors are varied.
const fn middle(kind: Kind) -> Pair {
    Pair::of(kind, MIDDLE, SHORT_MS)
}

/// The longest pair of `kind` in this run: the largest base at which at least two counts are measured both ways, and
/// the largest of these.
fn longest(view: &View<'_>, kind: Kind) -> Option<Pair> {
    let at = |&base_ms: &u64| pairs(view, kind, base_ms);
    let largest = |pairs: Vec<Pair>| pairs.get(1..)?.last().copied();
    BASES_MS.iter().rev().map(at).find_map(largest)
}

fn key_number(view: &View<'_>) -> Option<KeyNumber> {
    KINDS.into_iter().find_map(|kind| {
        let pair = longest(view, kind)?;
        let (count, kind) = (pair.serial.count, kind.bound());
        let of = format!("{count} {kind} computations, in threads ÷ one after the other: mean turnaround, less 100 %, one CPU");
        view.number(of, &pair.ratio(TURNAROUND).less_one(), "difference")
    })
}

fn answer(view: &View<'_>) -> String {
    let part = |kind| {
        let pair = longest(view, kind)?;
        let change = |metric| Some(view.estimate(&pair.ratio(metric).less_one())?.change());
        let (elapsed, turnaround) = (change(ELAPSED)?, change(TURNAROUND)?);
        let Case { count, base_ms, .. } = pair.serial;
        Some(format!(
            "{count} {} computations of {base_ms} to {} ms, longest first, on one CPU: with threads the elapsed time is \
             {elapsed}, and the mean turnaround {turnaround}.",
            kind.bound(),
            count * base_ms
        ))
    };
    let parts: Vec<String> = KINDS
        .into_iter()
        .filter_map(part)
        .chain(own::answer(view))
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    parts.join(" ")
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let facts = [
        arithmetic(view),
        sharing(view),
        mixes_fact(view),
        real_waiting(view),
        carriers(view),
        degree_of_cpus(view),
        adaptive_degree(view),
        shortest_first(view),
        promptness(view),
        changed_conclusions(view),
        burner(view),
    ];
    facts.into_iter().flatten().collect()
}

/// The figures of statistics, where all have one.
fn estimates<const N: usize>(view: &View<'_>, of: &[Statistic; N]) -> Option<[Estimate; N]> {
    let estimates: Vec<Estimate> = of.iter().map_while(|of| view.estimate(of)).collect();
    estimates.try_into().ok()
}

/// How much of the gain in turnaround is arithmetic.
fn arithmetic(view: &View<'_>) -> Option<Finding> {
    let pair = longest(view, Kind::Cpu)?;
    let Case { count, base_ms, .. } = pair.serial;
    let gains = [TURNAROUND, ideal(TURNAROUND)].map(|metric| pair.ratio(metric).saved());
    let [measured, by_theory] = estimates(view, &gains)?;
    let says = format!(
        "On one CPU, threads improve the mean turnaround of {count} CPU-bound computations of {base_ms} to {} ms, longest \
         first, by {}. Threads that cost nothing would improve it by {}, by arithmetic alone.",
        count * base_ms,
        measured.show("share"),
        by_theory.plain("share"),
    );
    Some(measured.fact(says, "share"))
}

/// What sharing one CPU costs beyond the ideal.
fn sharing(view: &View<'_>) -> Option<Finding> {
    let pairs = pairs(view, Kind::Cpu, SHORT_MS);
    let counts: Vec<String> = pairs.iter().map(|pair| pair.serial.count.to_string()).collect();
    let over = mean_ratio(pairs, ELAPSED).less_one();
    let cost = view.estimate(&over)?;
    let shown = if view.resolved(&over) {
        cost.show("share")
    } else {
        "a time that is below resolution".to_owned()
    };
    let counts = match counts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => counts.concat(),
    };
    let says = format!(
        "On one CPU, a thread for each of {counts} CPU-bound computations, the shortest of {SHORT_MS} ms, adds {shown} to \
         the elapsed time of one after the other (geometric mean over the numbers of computations)."
    );
    Some(cost.fact(says, "share"))
}

/// The kinds by their share of computing, the least first.
fn by_share_of_computing() -> impl Iterator<Item = Kind> {
    std::iter::once(Kind::Io).chain(Kind::MIXES).chain([Kind::Cpu])
}

/// From which share of waiting threads pay on one CPU.
fn mixes_fact(view: &View<'_>) -> Option<Finding> {
    let of = |kind| view.estimate(&middle(kind).ratio(ELAPSED));
    let text = |kind: Kind| {
        Some(format!(
            "{} %: {}",
            kind.computes_percent(),
            of(kind)?.plain("ratio")
        ))
    };
    let list: Vec<String> = by_share_of_computing().filter_map(text).collect();
    let half = of(Kind::Mix50).filter(|_| list.len() >= 4)?;
    let says = format!(
        "Elapsed time of {MIDDLE} computations that compute and sleep in turn, all at once on one CPU, over one after the \
         other, by share of computing: {}.",
        list.join(", ")
    );
    Some(half.fact(says, "ratio"))
}

/// Waiting for somebody who works meanwhile. Waiting for a device is `file-io`'s.
fn real_waiting(view: &View<'_>) -> Option<Finding> {
    let gains = [ELAPSED, ideal(ELAPSED)].map(|metric| middle(Kind::Server).gain(metric));
    let [times, by_theory] = estimates(view, &gains)?;
    let says = format!(
        "{MIDDLE} computations that are requests to a server on the loopback network finish {} times as fast at once as one \
         after the other. It would be {} times if those that wait did not disturb the others.",
        times.show("ratio"),
        by_theory.plain("ratio"),
    );
    Some(times.fact(says, "ratio"))
}

/// What each other carrier takes, against the source's.
fn carriers(view: &View<'_>) -> Option<Finding> {
    let up_front = middle(Kind::Io).concurrent;
    let over = OTHER_CARRIERS.map(|carrier| ratio(ELAPSED, up_front.carrier(carrier), up_front));
    let [thread, pool, process] = estimates(view, &over)?;
    let says = format!(
        "Elapsed time of {MIDDLE} waiting computations, over that with all threads made up front as in the source: {} with \
         a pool made for the call, {} with a thread made for each when its turn comes, {} with helper processes.",
        pool.show("ratio"),
        thread.plain("ratio"),
        process.plain("ratio"),
    );
    Some(pool.fact(says, "ratio"))
}

/// As many threads as CPUs, against all at once.
fn degree_of_cpus(view: &View<'_>) -> Option<Finding> {
    let all = view.all_cpus()?;
    let unbounded = middle(Kind::Cpu).on(all).concurrent;
    let bounded = unbounded.degree(Degree::AtMost(all));
    let over = [ELAPSED, TURNAROUND].map(|metric| ratio(metric, bounded, unbounded));
    let [elapsed, turnaround] = estimates(view, &over)?;
    let says = format!(
        "With at most {all} at a time on {all} CPUs, {MIDDLE} CPU-bound computations, longest first, take {} times as long \
         as all at once, and their mean turnaround is {} times as large.",
        elapsed.show("ratio"),
        turnaround.plain("ratio"),
    );
    Some(elapsed.fact(says, "ratio"))
}

/// What the adaptive degree costs against the better of two fixed ones, for the kind where it costs most.
fn adaptive_degree(view: &View<'_>) -> Option<Finding> {
    let all = view.all_cpus()?;
    let over = ADAPTED.map(|kind| {
        let times = adapted(kind, all).map(|case| ELAPSED.of(case));
        Statistic::function(times, |v| v[0] / v[1].min(v[2]))
    });
    let kinds = ADAPTED.into_iter().zip(estimates(view, &over)?);
    let (worst, most) = kinds.clone().max_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    let list: Vec<String> = kinds
        .map(|(kind, over)| format!("{} ({})", over.show("ratio"), kind.name()))
        .collect();
    let says = format!(
        "Elapsed time of 100 equal computations on {all} CPUs with the adaptive degree, over that with the better of {all} \
         and 25 at a time: {}; it costs most for {}.",
        list.join(", "),
        worst.name(),
    );
    Some(most.fact(says, "ratio"))
}

/// What sorting gains against what threads gain, for the largest count that was sorted.
fn shortest_first(view: &View<'_>) -> Option<Finding> {
    let by = |n| {
        let pair = cpu(n, SHORT_MS);
        let cases = [
            pair.serial,
            pair.ordered(Order::Ascending).serial,
            pair.concurrent,
        ];
        let turnarounds = cases.map(|case| TURNAROUND.of(case));
        let better = |than: usize| Statistic::function(turnarounds.clone(), move |v| v[0] / v[than]);
        Some((n, estimates(view, &[better(1), better(2)])?))
    };
    let (count, [by_sorting, by_threads]) = [17, MIDDLE, 5].into_iter().find_map(by)?;
    let says = format!(
        "Running {count} CPU-bound computations shortest first rather than longest first makes their mean turnaround {} \
         times better. Threads, which need not know the lengths, make it {} times better.",
        by_sorting.show("ratio"),
        by_threads.plain("ratio"),
    );
    Some(by_sorting.fact(says, "ratio"))
}

/// How long a finished computation waits for its finisher.
fn promptness(view: &View<'_>) -> Option<Finding> {
    let waits = [Kind::Io, Kind::Cpu].map(|kind| FINISH_WAIT.of(middle(kind).concurrent));
    let [io, cpu] = estimates(view, &waits)?;
    let says = format!(
        "A finisher is done {} after the end of its I/O-bound computation, and {} after the end of its CPU-bound one, where \
         it shares the CPU with the other computations (means over {MIDDLE}).",
        io.show("ns"),
        cpu.plain("ns"),
    );
    Some(io.fact(says, "ns"))
}

/// What becomes on all CPUs of the conclusions that hold on one.
fn changed_conclusions(view: &View<'_>) -> Option<Finding> {
    let all = view.all_cpus()?;
    let held = held_on_one(view, all).filter(|held| !held.is_empty() && !disturbed(view, all))?;
    let those = |of: fn(Verdict) -> bool| -> Vec<&str> {
        let those = held.iter().filter(|(_, verdict)| of(*verdict));
        those.map(|(id, _)| *id).collect()
    };
    let reversed = those(|verdict| verdict == Verdict::DoesNotHold);
    let open = those(|verdict| !matches!(verdict, Verdict::DoesNotHold | Verdict::Holds));
    let named = |ids: &[&str]| {
        if ids.is_empty() {
            "none".to_owned()
        } else {
            ids.join(", ")
        }
    };
    let says = format!(
        "Of {} conclusions that hold on one CPU ({MIDDLE} computations) these are reversed on {all} CPUs: {}; open: {}.",
        held.len(),
        named(&reversed),
        named(&open)
    );
    Some(Finding::fact(
        says,
        Some(reversed.len() as f64),
        None,
        "conclusions",
    ))
}

/// How far the work was from its length in CPU time.
fn burner(view: &View<'_>) -> Option<Finding> {
    let error = view.estimate(&BURNER_ERROR.of(middle(Kind::Cpu).serial))?;
    let says = format!(
        "The computations took {} CPU time than their lengths, since their work is calibrated at the CPU's highest \
         speed. This cancels in ratios of measured times, but not in measured over ideal.",
        error.change(),
    );
    Some(error.fact(says, "share"))
}

/// Pairs that a reader asks about; those that were not measured are left out.
fn comparisons() -> Vec<Compared> {
    let kinds = [Kind::Cpu, Kind::Io, Kind::Mix50, Kind::Server];
    let cpu = middle(Kind::Cpu);
    let both_ways = kinds.map(middle).into_iter().chain([cpu.equal()]);
    let mut pairs: Vec<(Case, Case)> = both_ways.map(|pair| (pair.serial, pair.concurrent)).collect();
    for carrier in OTHER_CARRIERS {
        let up_front = KINDS.map(|kind| middle(kind).concurrent);
        pairs.extend(up_front.map(|up_front| (up_front, up_front.carrier(carrier))));
    }
    pairs.push((cpu.concurrent, cpu.concurrent.extra(Extra::Finisher)));
    let compared = |(a, b): (Case, Case)| Compared {
        a: a.params(),
        b: b.params(),
    };
    pairs.into_iter().map(compared).collect()
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let mut charts = Vec::new();
    for kind in KINDS {
        // Runs of before the source's executor had threads made in their turn.
        let drawn = |&base_ms: &u64| {
            [Carrier::UpFront, Carrier::Thread].into_iter().any(|carrier| {
                let at_once = |n| ELAPSED.of(Pair::of(kind, n, base_ms).concurrent.carrier(carrier));
                COUNTS.map(at_once).iter().filter(|of| view.measured(of)).count() > 1
            })
        };
        let long = BASES_MS[1..].iter().copied().rfind(drawn);
        for base_ms in [Some(SHORT_MS), long].into_iter().flatten() {
            charts.extend([TURNAROUND, ELAPSED].map(|metric| source_chart(view, kind, base_ms, metric)));
        }
    }
    charts.extend(KINDS.map(|kind| by_carrier(view, kind)));
    charts.extend([
        supermarket(view),
        over_ideal(view),
        by_length(view),
        mixes(view),
        methods(view),
    ]);
    charts.into_iter().flatten().collect()
}

/// As the source draws it: over the number of computations, serial and concurrent, for one base length.
fn source_chart(view: &View<'_>, kind: Kind, base_ms: u64, metric: Metric) -> Option<Figure> {
    let (name, id, label, scale) = drawn(metric);
    let kind_id = if kind == Kind::Io { "io" } else { "cpu" };
    let of = |metric: Metric, case: fn(Pair) -> Case| {
        COUNTS.map(|n| (n, metric.of(case(Pair::of(kind, n, base_ms))).times(scale)))
    };
    Chart::new(
        view,
        format!("{id}-{kind_id}-{base_ms}"),
        format!("{} computations of {base_ms} ms and its multiples: {name}", kind.bound()),
    )
    .note(format!(
        "Lengths from {base_ms} ms to {base_ms} ms × the number of computations, longest first, on one CPU, a thread for \
         each, made up front. Theory: first come, first served, and sharing the CPU equally, both at no cost. The source's charts have \
         the same axes; their figures are not in its text."
    ))
    .x(Scale::Linear, "computations")
    .y(Scale::Linear, label)
    .line("serial", of(metric, |pair| pair.serial))
    .line("concurrent", of(metric, |pair| pair.concurrent))
    .line(
        "a thread in its turn",
        of(metric, |pair| pair.concurrent.carrier(Carrier::Thread)),
    )
    .theory("serial at no cost", of(ideal(metric), |pair| pair.serial))
    .theory("concurrent at no cost", of(ideal(metric), |pair| pair.concurrent))
    .drawn()
}

/// The other carriers beside the source's.
fn by_carrier(view: &View<'_>, kind: Kind) -> Option<Figure> {
    let of = |carrier| {
        let case = move |n| Pair::of(kind, n, SHORT_MS).concurrent.carrier(carrier);
        COUNTS.map(|n| (n, over_theory(case(n))))
    };
    let is_there = |carrier| view.measured(&over_theory(middle(kind).concurrent.carrier(carrier)));
    if !OTHER_CARRIERS.into_iter().any(is_there) {
        return None;
    }
    let id = format!("carriers-{}", kind.name());
    let title = format!("{} computations all at once: who runs them", kind.bound());
    let chart = Chart::new(view, id, title)
        .note(
            "Made up front is the source's executor, on which its claims are judged. A thread in its turn is made when \
             fewer than 25 are at work; a pool and helper processes are made for the call.",
        )
        .x(Scale::Linear, "computations")
        .y(Scale::Linear, "elapsed time over theory, %")
        .at_least(4)
        .line("threads made up front", of(Carrier::UpFront));
    let chart = OTHER_CARRIERS.into_iter().fold(chart, |chart, carrier| {
        let name = match carrier {
            Carrier::Thread => "a thread in its turn",
            Carrier::Pool => "pool",
            _ => "helper processes",
        };
        chart.line(name, of(carrier))
    });
    chart.drawn()
}

/// The source's picture for its readers: the same customers, one after the other and all at once, in three orders.
fn supermarket(view: &View<'_>) -> Option<Figure> {
    let at = |n: u64, order| Pair::of(Kind::Cpu, n, SHORT_MS).ordered(order);
    let orders = [
        (Order::Descending, "the longest first"),
        (Order::Ascending, "the shortest first"),
        (Order::Shuffled, "by chance"),
    ];
    let is_there = |&n: &u64| {
        let cases = orders
            .map(|(order, _)| at(n, order))
            .map(|pair| [pair.serial, pair.concurrent]);
        cases
            .as_flattened()
            .iter()
            .all(|&case| view.measured(&FINISHED[0].of(case)))
    };
    // So many customers that one can follow them.
    let n = COUNTS.into_iter().filter(|&n| n <= MIDDLE).rfind(is_there)?;
    let mut chart = Chart::new(
        view,
        "supermarket",
        format!("The supermarket: when {n} customers leave, by who is served first"),
    )
    .note(format!(
        "Each has a trolley of another size, which takes {SHORT_MS} to {} ms. One after the other they stand in one queue; \
         all at once each has a counter, and the one cashier (the CPU) goes from counter to counter.",
        n * SHORT_MS
    ))
    .x(Scale::Linear, "customers who have left")
    .y(Scale::Linear, "time, ms");
    for (way, case) in [
        ("one queue", (|pair| pair.serial) as fn(Pair) -> Case),
        ("a counter for each", |pair| pair.concurrent),
    ] {
        for (order, name) in orders {
            let left = (1..=n).zip(FINISHED);
            let points = left.map(|(k, metric)| (k, metric.of(case(at(n, order))).times(1e-6)));
            chart = chart.line(format!("{way}, {name}"), points);
        }
    }
    chart.drawn()
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
        let of = |case: fn(Pair) -> Case| COUNTS.map(|n| (n, over_theory(case(Pair::of(kind, n, SHORT_MS)))));
        chart = chart
            .line(format!("{}, serial", kind.bound()), of(|pair| pair.serial))
            .line(
                format!("{}, concurrent", kind.bound()),
                of(|pair| pair.concurrent),
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
                format!("{}, {n} at once", kind.bound()),
                BASES_MS.map(|ms| (ms, of(ms))),
            );
        }
    }
    chart.drawn()
}

/// What threads gain, by the share of computing.
fn mixes(view: &View<'_>) -> Option<Figure> {
    let of = |metric: Metric| {
        by_share_of_computing().map(move |kind| (kind.computes_percent(), middle(kind).gain(metric)))
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
            "A thread for each, made up front, longest first, at most 25 at once, where nothing else is said (dependent: \
             each needs the one before). Each way against its own theory, in which finishing takes no time: so the last one shows the \
             work of its finishers.",
        )
        .x(Scale::Category, "way")
        .y(Scale::Linear, "elapsed time over theory, %")
        .at_least(4);
    let all = view.all_cpus();
    for cpus in std::iter::once(1).chain(all) {
        let pair = middle(Kind::Cpu).on(cpus);
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
            ("made in turn", concurrent.carrier(Carrier::Thread)),
            ("pool of 25", concurrent.carrier(Carrier::Pool)),
            ("pool of 1", background(MIDDLE, cpus)),
            ("helper processes", concurrent.carrier(Carrier::Process)),
            ("dependent", concurrent.extra(Extra::Chain)),
            ("finishers of 10 ms", concurrent.extra(Extra::Finisher)),
        ];
        chart = chart.line(
            of_cpus(cpus),
            methods.map(|(method, case)| (method, over_theory(case))),
        );
    }
    chart.drawn()
}

/// A column of the matrix: its name, its unit, and what it says of a pair.
type Column = (&'static str, &'static str, fn(Pair) -> Statistic);

/// The source's matrix of one kind.
fn matrix_table(view: &View<'_>, kind: Kind) -> Option<Table> {
    let pairs = matrix(view, kind);
    let columns: [Column; 7] = [
        ("serial", "ns", |pair| ELAPSED.of(pair.serial)),
        ("concurrent", "ns", |pair| ELAPSED.of(pair.concurrent)),
        ("concurrent / serial", "ratio", |pair| pair.ratio(ELAPSED)),
        ("turnaround ÷ own length, serial", "ratio", |pair| {
            TURNAROUND.of(pair.serial)
        }),
        ("the same by theory", "ratio", |pair| {
            ideal(TURNAROUND).of(pair.serial)
        }),
        ("turnaround ÷ own length, concurrent", "ratio", |pair| {
            TURNAROUND.of(pair.concurrent)
        }),
        ("the same, by theory", "ratio", |pair| {
            ideal(TURNAROUND).of(pair.concurrent)
        }),
    ];
    let row = |pair: &Pair| {
        let text = |(_, unit, of): Column| {
            let value = view.estimate(&of(*pair));
            value.map_or_else(String::new, |value| value.plain(unit))
        };
        let Case { count, base_ms, .. } = pair.serial;
        let point = [base_ms.to_string(), count.to_string()];
        point.into_iter().chain(columns.map(text)).collect()
    };
    let names = ["base, ms", "computations"];
    (!pairs.is_empty()).then(|| {
        table(
            format!("matrix-{}", kind.name()),
            format!("The source's matrix, {} computations on one CPU", kind.bound()),
            "Medians over rounds; a ratio is that of each round, and so not the quotient of two medians. Turnaround is the \
             time until a result is there, here over the length of its own computation, and the mean of all. The source \
             gives these cells as charts, whose figures are not in its text; theory is first come, first served, and \
             equal sharing, at no cost.",
            names.into_iter().chain(columns.map(|(name, ..)| name)),
            pairs.iter().map(row).collect(),
        )
    })
}
