//! What else is worth knowing, the answer in one sentence, and the pairs to compare.

use threadgauge_results::Finding;

use super::case::{Carrier, Case, Degree, Extra, Kind, Lengths};
use super::cells::{Figure, Measure, Pair, all_cpus, counts_of, figure, longest_base, mean_ratio};
use super::conclusions;
use super::grid::{ADAPTED, MIDDLE, SHORT_MS, adapted};
use super::{BURNER_ERROR, FINISH_WAIT};
use threadgauge_lab::experiment::Pair as Compared;
use threadgauge_lab::view::View;

/// The answer to the question.
pub(super) fn answer(view: &View<'_>) -> String {
    let mut parts = Vec::new();
    for (kind, name) in [(Kind::Cpu, "CPU-bound"), (Kind::Io, "I/O-bound")] {
        let Some(base_ms) = longest_base(view, kind) else {
            continue;
        };
        let counts = counts_of(view, |n| Pair::of(kind, n, base_ms));
        let Some(&n) = counts.last() else { continue };
        let pair = Pair::of(kind, n, base_ms);
        let (Some(elapsed), Some(turnaround)) = (
            change(view, pair, Measure::Elapsed),
            change(view, pair, Measure::Turnaround),
        ) else {
            continue;
        };
        parts.push(format!(
            "{n} {name} computations of {base_ms} to {} ms, longest first, on one CPU: threads change the elapsed time by \
             {elapsed:+.1} % and the mean turnaround by {turnaround:+.0} %.",
            n * base_ms
        ));
    }
    if parts.is_empty() {
        return "The cells that would answer this have no figures in this run.".to_owned();
    }
    parts.join(" ")
}

/// By how many per cent concurrent differs from serial, at the median.
fn change(view: &View<'_>, pair: Pair, measure: Measure) -> Option<f64> {
    let ratio = figure(view, &pair.cells(measure), |v| v[1] / v[0])?;
    Some((ratio.median - 1.0) * 100.0)
}

/// Facts, each with its figure.
pub(super) fn facts(view: &View<'_>) -> Vec<Finding> {
    let mut facts = Vec::new();
    facts.extend(arithmetic(view));
    facts.extend(sharing(view));
    facts.extend(break_even_of_mixes(view));
    facts.extend(real_waiting(view, Kind::File, "reads past the cache"));
    facts.extend(real_waiting(
        view,
        Kind::Server,
        "requests to a server on the loopback network",
    ));
    facts.extend(carriers(view));
    facts.extend(degree_of_cpus(view));
    facts.extend(adaptive_degree(view));
    facts.extend(shortest_first(view));
    facts.extend(promptness(view));
    facts.extend(changed_conclusions(view));
    facts.extend(burner(view));
    facts
}

/// How much of the gain in turnaround is arithmetic.
fn arithmetic(view: &View<'_>) -> Option<Finding> {
    let base_ms = longest_base(view, Kind::Cpu)?;
    let n = *counts_of(view, |n| Pair::of(Kind::Cpu, n, base_ms)).last()?;
    let Pair { serial, concurrent } = Pair::of(Kind::Cpu, n, base_ms);
    let gain = |metric: &str| {
        figure(view, &[serial.cell(metric), concurrent.cell(metric)], |v| {
            1.0 - v[1] / v[0]
        })
    };
    let (ideal, measured) = (
        gain(Measure::Turnaround.ideal())?,
        gain(Measure::Turnaround.metric())?,
    );
    let says = format!(
        "Threads improve the mean turnaround of {n} CPU-bound computations, longest first, from {base_ms} ms on by {:.1} %{}; \
         by arithmetic alone, with threads that cost nothing, it would be {:.1} %.",
        measured.median * 100.0,
        within(measured, 0.01, 1),
        ideal.median * 100.0,
    );
    Some(fact(says, measured, "share"))
}

/// What sharing one CPU costs beyond the ideal.
fn sharing(view: &View<'_>) -> Option<Finding> {
    let counts = counts_of(view, |n| Pair::of(Kind::Cpu, n, SHORT_MS));
    let cells: Vec<_> = counts
        .iter()
        .flat_map(|&n| Pair::of(Kind::Cpu, n, SHORT_MS).cells(Measure::Elapsed))
        .collect();
    let over = figure(view, &cells, |v| mean_ratio(v) - 1.0)?;
    let cost = match over.ci95 {
        Some([low, high]) if low <= 0.0 && high >= 0.0 => "below resolution".to_owned(),
        _ => format!("{:+.2} %", over.median * 100.0),
    };
    let says = format!(
        "Making a thread for each of {} CPU-bound computations from {SHORT_MS} ms on and sharing one CPU among them costs, in \
         elapsed time over one after the other: {cost}{} (geometric mean over the numbers of computations).",
        words(&counts),
        within(over, 0.01, 2),
    );
    Some(fact(says, over, "share"))
}

/// From which share of waiting threads pay on one CPU.
fn break_even_of_mixes(view: &View<'_>) -> Option<Finding> {
    let kinds = std::iter::once(Kind::Io).chain(Kind::MIXES).chain([Kind::Cpu]);
    let of = |kind: Kind| {
        let ratio = figure(
            view,
            &Pair::of(kind, MIDDLE, SHORT_MS).cells(Measure::Elapsed),
            |v| v[1] / v[0],
        )?;
        Some((kind, ratio))
    };
    let measured: Vec<(Kind, Figure)> = kinds.filter_map(of).collect();
    if measured.len() < 4 {
        return None;
    }
    let list: Vec<String> = measured
        .iter()
        .map(|(kind, ratio)| format!("{} %: {:.2}", kind.computes_percent(), ratio.median))
        .collect();
    let half = measured
        .iter()
        .find(|(kind, _)| *kind == Kind::Mix50)
        .map(|(_, r)| *r)?;
    let says = format!(
        "{MIDDLE} computations that compute and sleep by turns, at once on one CPU, over one after the other (elapsed, by share \
         of computing): {}.",
        list.join(", ")
    );
    Some(fact(says, half, "ratio"))
}

fn real_waiting(view: &View<'_>, kind: Kind, what: &str) -> Option<Finding> {
    let pair = Pair::of(kind, MIDDLE, SHORT_MS);
    let times = figure(view, &pair.cells(Measure::Elapsed), |v| v[0] / v[1])?;
    let ideal = figure(
        view,
        &[
            pair.serial.cell(Measure::Elapsed.ideal()),
            pair.concurrent.cell(Measure::Elapsed.ideal()),
        ],
        |v| v[0] / v[1],
    )?;
    let says = format!(
        "{MIDDLE} computations that are {what} finish {:.2} times{} as fast at once as one after the other; {:.2} times if those \
         that wait disturb nobody.",
        times.median,
        within(times, 1.0, 2),
        ideal.median,
    );
    Some(fact(says, times, "ratio"))
}

/// What each carrier takes, against a thread made for each when its turn comes.
fn carriers(view: &View<'_>) -> Option<Finding> {
    let thread = Case::concurrent(Kind::Io, MIDDLE, SHORT_MS);
    let over = |carrier| {
        let other = Case { carrier, ..thread };
        figure(
            view,
            &[thread.of(Measure::Elapsed), other.of(Measure::Elapsed)],
            |v| v[1] / v[0],
        )
    };
    let (pool, up_front, process) = (
        over(Carrier::Pool)?,
        over(Carrier::UpFront)?,
        over(Carrier::Process)?,
    );
    let says = format!(
        "{MIDDLE} waiting computations take, of the elapsed time with a thread made for each when its turn comes: {:.3}{} with a \
         pool made for the call, {:.3} with threads made up front, the source's way, {:.3} with helper processes.",
        pool.median,
        within(pool, 1.0, 3),
        up_front.median,
        process.median,
    );
    Some(fact(says, pool, "ratio"))
}

/// As many threads as CPUs, against all at once.
fn degree_of_cpus(view: &View<'_>) -> Option<Finding> {
    let all = all_cpus(view)?;
    let crowd = Pair::of(Kind::Cpu, MIDDLE, SHORT_MS).on(all).concurrent;
    let bounded = Case {
        degree: Degree::AtMost(all),
        ..crowd
    };
    let of = |measure: Measure| figure(view, &[crowd.of(measure), bounded.of(measure)], |v| v[1] / v[0]);
    let (elapsed, turnaround) = (of(Measure::Elapsed)?, of(Measure::Turnaround)?);
    let says = format!(
        "With no more than {all} at a time on {all} CPUs, {MIDDLE} CPU-bound computations, longest first, take {:.3}{} of the \
         elapsed time of all at once, and turn around {:.2} times as slowly.",
        elapsed.median,
        within(elapsed, 1.0, 3),
        turnaround.median,
    );
    Some(fact(says, elapsed, "ratio"))
}

/// What the adaptive degree costs against the better of two fixed ones, for the kind where it costs most.
fn adaptive_degree(view: &View<'_>) -> Option<Finding> {
    let all = all_cpus(view)?;
    let over = |kind| {
        let cells = adapted(kind, all).map(|case| case.of(Measure::Elapsed));
        figure(view, &cells, |v| v[0] / v[1].min(v[2]))
    };
    let kinds: Vec<(Kind, Figure)> = ADAPTED
        .into_iter()
        .map(|kind| Some((kind, over(kind)?)))
        .collect::<Option<_>>()?;
    let &(worst, figure) = kinds.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let each = kinds
        .iter()
        .map(|(kind, figure)| format!("{:.2} ({})", figure.median, kind.name()))
        .collect::<Vec<_>>()
        .join(", ");
    let says = format!(
        "100 equal computations with the degree left to the executor take, of the elapsed time with the better of {all} and 25 at \
         a time on {all} CPUs: {each}; {} costs most{}.",
        worst.name(),
        within(figure, 1.0, 2),
    );
    Some(fact(says, figure, "ratio"))
}

/// What sorting is worth against what threads are worth.
fn shortest_first(view: &View<'_>) -> Option<Finding> {
    let worst = Pair::of(Kind::Cpu, MIDDLE, SHORT_MS);
    let (n, pair) = [17, MIDDLE, 5]
        .into_iter()
        .map(|n| (n, Pair::of(Kind::Cpu, n, SHORT_MS)))
        .find(|(_, pair)| super::claims::ordered(*pair, super::case::Order::Ascending).measured(view))
        .unwrap_or((MIDDLE, worst));
    let sorted = super::claims::ordered(pair, super::case::Order::Ascending).serial;
    let cells = [pair.serial, sorted, pair.concurrent].map(|case| case.of(Measure::Turnaround));
    let by_sorting = figure(view, &cells, |v| v[0] / v[1])?;
    let by_threads = figure(view, &cells, |v| v[0] / v[2])?;
    let says = format!(
        "Sorting {n} CPU-bound computations shortest first makes their mean turnaround {:.1} times{} better than longest first; \
         threads, which need not know the lengths, {:.1} times.",
        by_sorting.median,
        within(by_sorting, 1.0, 1),
        by_threads.median,
    );
    Some(fact(says, by_sorting, "ratio"))
}

/// How long a finished computation waits for its finisher.
fn promptness(view: &View<'_>) -> Option<Finding> {
    let of = |kind| {
        figure(
            view,
            &[Case::concurrent(kind, MIDDLE, SHORT_MS).cell(FINISH_WAIT)],
            |v| v[0],
        )
    };
    let (cpu, io) = (of(Kind::Cpu)?, of(Kind::Io)?);
    let says = format!(
        "A finisher comes {:.0} µs{} after its waiting computation has ended, and {:.0} µs after its CPU-bound one, with which it \
         shares the CPU (means over {MIDDLE}).",
        io.median / 1e3,
        within(io, 1e3, 0),
        cpu.median / 1e3,
    );
    Some(fact(says, io, "ns"))
}

fn changed_conclusions(view: &View<'_>) -> Option<Finding> {
    let all = all_cpus(view)?;
    let changed = conclusions::that_change(view, all);
    (!changed.is_empty()).then(|| {
        let says = format!(
            "Of the conclusions about one CPU these change on {all} CPUs ({MIDDLE} computations, judged by what most rounds say): \
             {}.",
            changed.join(", ")
        );
        Finding::fact(says, Some(changed.len() as f64), None, "conclusions")
    })
}

/// How far the work was from its length in CPU time.
fn burner(view: &View<'_>) -> Option<Finding> {
    let serial = Case::serial(Kind::Cpu, MIDDLE, SHORT_MS);
    let error = figure(view, &[serial.cell(BURNER_ERROR)], |v| v[0])?;
    let says = format!(
        "The computations' fixed amounts of work took {:+.1} %{} more CPU time than their lengths say (they are calibrated at \
         the CPU's fastest). Ratios do not care; measured over ideal does.",
        error.median * 100.0,
        within(error, 0.01, 1),
    );
    Some(fact(says, error, "share"))
}

/// Pairs that a reader asks about; those that were not measured are left out.
pub(super) fn comparisons() -> Vec<Compared> {
    let short = |kind| Pair::of(kind, MIDDLE, SHORT_MS);
    let mut pairs: Vec<Compared> = [Kind::Cpu, Kind::Io, Kind::Mix50, Kind::File, Kind::Server]
        .map(|kind| compared(short(kind).serial, short(kind).concurrent))
        .to_vec();
    let cpu = short(Kind::Cpu);
    let equal = cpu.with(|case| Case {
        lengths: Lengths::Equal,
        ..case
    });
    pairs.push(compared(equal.serial, equal.concurrent));
    for carrier in [Carrier::UpFront, Carrier::Pool, Carrier::Process] {
        for kind in [Kind::Cpu, Kind::Io] {
            let thread = short(kind).concurrent;
            pairs.push(compared(thread, Case { carrier, ..thread }));
        }
    }
    pairs.push(compared(
        cpu.concurrent,
        Case {
            extra: Extra::Finisher,
            ..cpu.concurrent
        },
    ));
    pairs
}

fn compared(a: Case, b: Case) -> Compared {
    Compared {
        a: a.params(),
        b: b.params(),
    }
}

fn words(counts: &[u64]) -> String {
    let list: Vec<String> = counts.iter().map(u64::to_string).collect();
    match list.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn within(figure: Figure, unit: f64, digits: usize) -> String {
    figure.ci95.map_or_else(String::new, |[low, high]| {
        format!(" [{:.digits$}, {:.digits$}]", low / unit, high / unit)
    })
}

fn fact(says: String, figure: Figure, unit: &str) -> Finding {
    Finding::fact(says, Some(figure.median), figure.ci95, unit)
}
