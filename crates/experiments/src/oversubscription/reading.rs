//! What is read off a run besides the claims: the answer, facts, costs and comparisons.

use threadgauge_lab::prelude::*;
use threadgauge_results::published::dated;

use super::case::{Case, Mode, Slice};
use super::curve;
use super::matched;
use super::statistics::{CONTROLS, COUNTS, ONE, TWO, main_slice, slices, threads};
use super::units::{CPU, ELAPSED, END, MATCHED_ON, SLICE, START, SWITCHES_PER_SLICE, TOTAL};

/// The answer to the question.
pub(super) fn answer(view: &View<'_>) -> String {
    let mut parts: Vec<String> = slices(view)
        .into_iter()
        .take(4)
        .filter_map(|slice| overheads(view, slice))
        .collect();
    let cost = view.estimate(&ONE.short().per_switch(ELAPSED, 64));
    let cost = cost.filter(|_| view.resolved(&ONE.short().added(ELAPSED, 64)));
    parts.extend(cost.map(|cost| format!("A switch among 64 of them costs {}.", cost.plain("ns"))));
    parts.extend(curve::answer(view));
    let gained = |(counts, gain): (String, Estimate)| {
        format!(
            "A second CPU adds {} on average with {counts} threads{}.",
            gain.plain("share"),
            with_slice(main_slice(view))
        )
    };
    parts.extend(mean_gain(view).map(gained));
    if parts.is_empty() {
        return String::new();
    }
    parts.join(" ")
}

/// A slice behind what was measured with it.
fn with_slice(slice: Slice) -> String {
    match slice {
        Slice::Matched => ", matched slice".to_owned(),
        Slice::Us(us) => format!(", slices of {us} µs"),
    }
}

/// What the most threads of the first slice cost.
pub(super) fn number(view: &View<'_>) -> Option<KeyNumber> {
    let slice = *slices(view).first()?;
    let group = ONE.slice_us(slice);
    let most = group.counts(view).into_iter().max()?;
    let of = format!(
        "{most} threads that keep giving up the CPU ÷ one thread: time for the same work, less 100 %, one CPU{}",
        with_slice(slice)
    );
    view.number(of, &group.overhead(most), "overhead")
}

/// What yielding costs on one CPU with this slice: at the counts that most runs have, else at any.
fn overheads(view: &View<'_>, slice: Slice) -> Option<String> {
    let group = ONE.slice_us(slice);
    let overhead = |n: u64| {
        let overhead = view.estimate(&group.overhead(n))?;
        Some(format!("{} with {n}", overhead.plain("share")))
    };
    // Two threads at the matched slice are no news.
    let counts = if slice == Slice::Matched {
        [4, 32, 128, 1024, 8192]
    } else {
        [2, 32, 128, 1024, 8192]
    };
    let mut says: Vec<String> = counts.into_iter().filter_map(overhead).collect();
    if says.is_empty() {
        says = COUNTS[1..].iter().copied().filter_map(overhead).collect();
    }
    let length = match slice {
        Slice::Matched => format!(
            "{} of work (the matched slice: two cost 1 %, as in the source)",
            Length::of(view)?.median.plain("ns")
        ),
        Slice::Us(_) => format!("{slice} of work"),
    };
    (!says.is_empty()).then(|| {
        format!(
            "On one CPU, threads that yield after every {length} take longer than one thread: by {}.",
            says.join(", ")
        )
    })
}

/// The mean gain of a second CPU over those of the counts from 4 on that a run has, and their range.
fn mean_gain(view: &View<'_>) -> Option<(String, Estimate)> {
    let group = ONE.slice_us(main_slice(view));
    let both = [group.counts(view), group.cpus(2).counts(view)];
    let counts: Vec<u64> = COUNTS[2..]
        .iter()
        .copied()
        .filter(|n| both.iter().all(|of| of.contains(n)))
        .collect();
    let (first, last) = (counts.first()?, counts.last()?);
    Some((
        format!("{first} to {last}"),
        view.estimate(&group.mean_gain(&counts))?,
    ))
}

/// The matched slices of a run's cases.
struct Length {
    median: Estimate,
    range: [f64; 2],
    cells: usize,
    switch: Estimate,
}

impl Length {
    fn of(view: &View<'_>) -> Option<Self> {
        let matched = Params::new()
            .with("mode", Mode::Yield.name())
            .with("slice_us", "matched");
        let figures = |metric: Metric| -> Vec<f64> {
            let cases = view.planned(matched.clone());
            let mut figures: Vec<f64> = cases
                .filter_map(|case| view.value(&metric.of(case.clone())))
                .collect();
            figures.sort_by(f64::total_cmp);
            figures
        };
        let (lengths, switches) = (figures(SLICE), figures(MATCHED_ON));
        let median = |of: &[f64]| {
            let value = *of.get(of.len() / 2)?;
            Some(Estimate { value, ci95: None })
        };
        Some(Self {
            median: median(&lengths)?,
            range: [smallest(&lengths), largest(&lengths)],
            cells: lengths.len(),
            switch: median(&switches)?,
        })
    }
}

/// Which slice was matched, why, and whether two threads cost with it what they were to cost.
fn matched_slice(view: &View<'_>) -> Option<Finding> {
    let Length {
        median,
        range,
        cells,
        switch,
    } = Length::of(view)?;
    let [least, most] = range.map(|value| Estimate { value, ci95: None }.plain("ns"));
    let confirmed = view.estimate(&ONE.overhead(2)).map_or_else(String::new, |cost| {
        let off = cost.value - matched::PUBLISHED;
        let confirmed = if off.abs() <= matched::PUBLISHED {
            "Confirmed"
        } else {
            "Not confirmed"
        };
        format!(
            " {confirmed}: two threads cost {}. That cell is no evidence of any claim.",
            cost.show("share")
        )
    });
    let says = format!(
        "The matched slice was {} (median of {cells} cells, whose medians go from {least} to {most}): a hundred times \
         the {} that a switch between two yielding threads on one CPU adds, so that two cost 1 %, as the source \
         published.{confirmed}",
        median.plain("ns"),
        switch.plain("ns"),
    );
    Some(median.fact(says, "ns"))
}

/// The count from which on units that never give up the CPU take `more` (of 1) longer than one; twice the largest where
/// none does. From the last that does not: noise at a small count is not taken for a cost.
pub(super) fn first_dear(more: f64) -> Statistic {
    let overheads = CONTROLS.iter().map(|n| ONE.short().control().overhead(*n));
    Statistic::function(overheads, move |v| {
        let last = CONTROLS.iter().zip(v).rfind(|(_, overhead)| **overhead <= more);
        last.map_or(1, |(n, _)| 2 * n) as f64
    })
}

/// What a switch costs, from what amount of work on it does not matter, what a second CPU brings, and how many threads
/// one CPU bears.
pub(super) fn costs(view: &View<'_>) -> Vec<Cost> {
    let one = ONE.short();
    let switch = |group: Case, n| {
        let (what, cost) = (format!("switch, {n} yielding"), group.per_switch(ELAPSED, n));
        let cost = view.cost((&what, group.unit.name()), "on one CPU", &cost, "ns");
        cost.filter(|_| view.resolved(&group.added(ELAPSED, n)))
    };
    let gain = mean_gain(view).map(|(counts, Estimate { value, ci95 })| {
        let how = format!("{counts} yielding{}", with_slice(main_slice(view)));
        Cost::new(("gain of a second CPU", "thread"), &how, (value, ci95), "share")
    });
    let dear = ("number from which work takes 10 % longer", "thread");
    let dear = view.cost(dear, "on one CPU", &first_dear(0.1), "threads");
    let dear = dear.filter(|cost| CONTROLS.contains(&(cost.value as u64)));
    let published = format!("85 % ({})", dated("001"));
    let listed = [
        switch(one, 64).map(|cost| cost.named("switch to another thread")),
        gain.map(|cost| {
            cost.named("gain of a second CPU on average")
                .published(0.85, published)
        }),
        dear.map(|cost| cost.named("computing threads until work takes 10 % longer")),
    ];
    let processes = one.processes();
    let others = [(one, 1024), (one, 8192), (processes, 64), (processes, 1024)];
    let others = others.map(|(group, n)| switch(group, n));
    listed
        .into_iter()
        .flatten()
        .chain(curve::costs(view))
        .chain(others.into_iter().flatten())
        .collect()
}

/// Facts, each with its figure.
pub(super) fn facts(view: &View<'_>) -> Vec<Finding> {
    let one = ONE.short();
    let mut facts = Vec::new();
    facts.push(matched_slice(view));
    facts.extend([2, 64, 1024, 8192].map(|n| switching(view, one, "threads", n)));
    facts.extend([64, 1024].map(|n| switching(view, one.processes(), "processes", n)));
    facts.extend([really_switched, best_count, starting_and_ending, a_sleep].map(|fact| fact(view)));
    facts.into_iter().flatten().chain(curve::facts(view)).collect()
}

fn switching(view: &View<'_>, group: Case, units: &str, n: u64) -> Option<Finding> {
    let cost = view.estimate(&group.per_switch(ELAPSED, n))?;
    if !view.resolved(&group.added(ELAPSED, n)) {
        let says = format!("The cost of a switch among {n} yielding {units} on one CPU is below resolution.");
        return Some(Finding::fact(says, None, None, "ns"));
    }
    let says = format!(
        "A switch among {n} yielding {units} on one CPU costs {} (the time that yields add, divided by the \
         switches that they add).",
        cost.show("ns")
    );
    Some(cost.fact(says, "ns"))
}

/// The one of these counts that has the smallest figure.
fn least(view: &View<'_>, counts: &[u64], of: impl Fn(u64) -> Statistic) -> Option<(u64, Estimate)> {
    let measured = counts.iter().filter_map(|&n| Some((n, view.estimate(&of(n))?)));
    measured.min_by(|a, b| a.1.value.total_cmp(&b.1.value))
}

fn really_switched(view: &View<'_>) -> Option<Finding> {
    let (count, least) = least(view, &COUNTS[1..], |n| ONE.short().of(SWITCHES_PER_SLICE, n))?;
    let verdict = if least.value >= 0.9 {
        "Yields did switch"
    } else {
        "The scheduler ignored yields"
    };
    let alone = view.estimate(&TWO.short().of(SWITCHES_PER_SLICE, 2));
    let alone = alone.map_or_else(String::new, |alone| {
        let why = if alone.value < 0.1 {
            "each has a CPU to itself, so the base of all overheads on two CPUs has almost no switches"
        } else {
            "they shared a CPU, so the base of all overheads on two CPUs is not what it should be; look for other \
             programs"
        };
        let times = alone.plain("ratio");
        format!(" Two threads on two CPUs switched {times} times per slice: {why}.")
    });
    let says = format!(
        "{verdict}: on one CPU there are at least {} switches per slice from 2 threads on (least with {count}).{alone}",
        least.plain("ratio")
    );
    Some(least.fact(says, "switches per slice"))
}

/// The source says that two threads are best on two CPUs.
fn best_count(view: &View<'_>) -> Option<Finding> {
    let (best, time) = least(view, &COUNTS, |n| TWO.slice_us(main_slice(view)).time(n))?;
    let says = format!(
        "On two CPUs, {best} {} finished first of all measured counts ({}), in {}.",
        if best == 1 { "thread" } else { "threads" },
        main_slice(view),
        time.show("ns")
    );
    Some(time.fact(says, "ns"))
}

fn starting_and_ending(view: &View<'_>) -> Option<Finding> {
    let count = 8192;
    let of = |metrics: [Metric; 2]| metrics.map(|metric| ONE.short().control().of(metric, count));
    let each = Statistic::function(of([START, END]), move |v| (v[0] + v[1]) / count as f64);
    let each = view.estimate(&each)?;
    let besides = Statistic::function(of([ELAPSED, TOTAL]), |v| 1.0 - v[0] / v[1]);
    let share = view.estimate(&besides)?.plain("share");
    let says = format!(
        "Starting and ending {count} threads that are alive together takes {} per thread on one CPU. With the wait at \
         the start barrier this is {share} of the whole time; `total_ns` includes it, `elapsed_ns` does not.",
        each.show("ns"),
    );
    Some(each.fact(says, "ns"))
}

/// A sleep costs more than a yield; sleeping programs lose less because they do it less often.
fn a_sleep(view: &View<'_>) -> Option<Finding> {
    let count = 64;
    let cost = |mode| view.estimate(&threads(mode, 1).short().per_switch(CPU, count));
    let (sleep, turn) = (cost(Mode::Sleep)?, cost(Mode::Yield)?);
    for (mode, what) in [(Mode::Sleep, "sleep of 1 ms"), (Mode::Yield, "yield")] {
        if !view.resolved(&threads(mode, 1).short().added(CPU, count)) {
            let says = format!("The CPU time that a {what} costs among {count} threads is below resolution.");
            return Some(Finding::fact(says, None, None, "ns"));
        }
    }
    let lesson =
        ". Sleeping threads lose less because they switch less often, not because a sleep is cheaper";
    let lesson = if sleep.value > turn.value { lesson } else { "" };
    let says = format!(
        "Among {count} threads on one CPU, a sleep of 1 ms costs {} of CPU time, and a yield {}{lesson}.",
        sleep.show("ns"),
        turn.plain("ns")
    );
    Some(sleep.fact(says, "ns"))
}

/// Pairs that a reader asks about.
pub(super) fn comparisons() -> Vec<Pair> {
    let mut pairs = Vec::new();
    let [one, two] = [ONE, TWO].map(Case::short);
    for (group, count) in [(one, 64), (one, 1024), (two, 64), (two, 1024)] {
        let (threads, processes) = (group.time(count), group.processes().time(count));
        pairs.push(Pair::of(&group.control().time(count), &threads));
        pairs.push(Pair::of(&threads, &processes));
    }
    pairs.push(Pair::of(&one.time(32), &one.time(128)));
    pairs
}
