//! Question: what does it cost when many threads or processes share the CPUs and keep giving them up, and what does
//! a second CPU bring?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print; `units` runs a case. Here are the
//! cases and what is read off their figures. Each statistic is one function, which claims, facts, charts and tables
//! share. The source's lines are the same functions, applied to its run times.

use threadgauge_lab::prelude::*;
use threadgauge_results::published::{ContextSwitch, context_switches, dated};
use threadgauge_results::units::published;
use threadgauge_results::{Figure, Lack, Need, Table};

use self::units::{
    CPU, Case, ELAPSED, END, INVOLUNTARY_SWITCHES, Mode, START, SWITCHES_PER_SLICE, TOTAL, Unit,
    VOLUNTARY_SWITCHES,
};

#[cfg(test)]
mod tests;
mod units;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "oversubscription",
    question: "What does it cost when up to 8,192 threads or processes share the CPUs and keep giving them up, and \
         what does a second CPU bring?",
    first_run: true,
    sources: &["001"],
    primary: &[ELAPSED],
    how: "A fixed amount of work (`slices` slices of 1,250 dependent integer steps, about 1.6 µs each) is shared \
         equally by `count` threads or processes; after each slice a unit yields (mode yield), goes on (neither) or \
         sleeps for 1 ms (sleep: the same work in 256 longer pieces, or one a unit, so that sleeping one after the \
         other stays under 0.5 s). `elapsed_ns` runs from the moment at which all units stand ready to run to the \
         last one's finish; `start_ns` and `end_ns` are creating and ending them, `total_ns` is all of it. Claims \
         use `elapsed_ns`, since they are about switching. Measured cold, once an invocation.",
    control: "Mode neither at every count: the same units and shares without giving up the CPU. The price of a \
         switch is the paired difference over the switches that really happened (getrusage).",
    traps: &[
        "The base is one yielding unit on one CPU and two on two CPUs, as in the source: a yield that finds nobody \
         else (a third of a slice here) is in the base and not in the overhead.",
        "A scheduler may ignore a yield: see switches_per_slice. Two units on two CPUs never switch; their yields \
         return at once.",
        "What each unit costs once weighs more the less work is shared: at 8,192 units each has two slices. Compare \
         runs with the same `slices` only.",
        "With other programs running, units that should have two CPUs share one for a while: see the tag \
         low-overlap.",
        "Stacks are 64 KiB. With the usual 8 MiB, starting and ending take a fifth longer, and switching among a \
         thousand threads too: each stack then needs page tables of its own. All stacks are one mapping, so that \
         start_ns and end_ns hold little of mapping them.",
    ],
    source: "Source 001: N threads on Windows NT 4, 2000, XP and 98 call Sleep(0); program, work per run, repeats \
         and what its times include are not given (N-28), and a run took about ten seconds. It measured threads that \
         yield; the controls, processes, sleeping units and counted switches are ours. We compare overheads and \
         gains, not milliseconds.",
    calls: &[],
    plan,
    run,
    read,
};

/// The counts of the source's table.
const COUNTS: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Those at which every profile has the group that never gives up the CPU, on one CPU.
const CONTROLS: &[u64] = COUNTS.split_at(12).0;

/// How many slices of work all units share, unless `--set slices=…` says otherwise.
///
/// 8,192 units then have two each. Every case of every profile does the same work, since a unit's one-time costs weigh
/// more where the work is less: an overhead at 8,192 units means nothing without the amount of work.
const SLICES: u64 = 16_384;

/// The source's threads on one CPU: the first of the group of cases that differ in their count.
const ONE: Case = Case {
    unit: Unit::Thread,
    mode: Mode::Yield,
    count: 1,
    cpus: 1,
    slices: SLICES,
};
/// The same on two.
const TWO: Case = Case { cpus: 2, ..ONE };

/// The mean gain that the source states.
const STATED_GAIN: f64 = 0.85;

/// The source's configurations in the order of its table: name, system, CPUs.
const CONFIGURATIONS: [(&str, &str, u64); 5] = [
    ("NT 4 Server", "Windows NT 4 Server", 2),
    ("2000", "Windows 2000 Professional", 2),
    ("2000", "Windows 2000 Professional", 1),
    ("XP", "Windows XP Professional", 1),
    ("98 SE", "Windows 98 SE", 1),
];

/// How the system's name begins in the rows of the source's second table, which averages two systems.
const AVERAGED: &str = "mean of ";

fn plan(site: &Site) -> Plan {
    let some =
        |quick: &'static [u64], standard: &'static [u64]| site.profile.pick(quick, standard, &COUNTS[..]);
    // In quick the time goes to the cells of claims: processes, and controls of more threads, took a third of it.
    let controls = [some(CONTROLS, &COUNTS), some(&COUNTS[..11], &COUNTS)];
    let processes = some(&[], &[1, 2, 4, 16, 64, 256, 1024]);
    let sleeping = some(&[64, 1024], &[1, 2, 16, 64, 256, 1024, 4096]);
    let sleeping_processes = some(&[], &[64, 1024]);
    let groups = [
        (Unit::Thread, Mode::Yield, [&COUNTS[..], &COUNTS[..]]),
        (Unit::Thread, Mode::Neither, controls),
        (Unit::Thread, Mode::Sleep, [sleeping; 2]),
        (Unit::Process, Mode::Yield, [processes; 2]),
        (Unit::Process, Mode::Neither, [processes; 2]),
        (Unit::Process, Mode::Sleep, [sleeping_processes; 2]),
    ];
    let mut cases = Vec::new();
    for (unit, mode, counts) in groups {
        for (counts, cpus) in counts.into_iter().zip(1..) {
            let base = Case {
                unit,
                ..threads(mode, cpus)
            };
            cases.extend(counts.iter().map(|&count| planned(Case { count, ..base })));
        }
    }
    Plan {
        cases,
        reference: ONE.control().time(1).pattern(),
        budget: Duration::from_millis(site.profile.pick(55_000, 320_000, 7_200_000)),
    }
}

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    units::run(Case::to_run(case)?, worker)
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(),
        figures: charts(view),
        tables: vec![first_table(view), second_table(view)],
        costs: costs(view),
        ..Answer::default()
    }
}

/// A case with the time of a sample on a quiet virtual machine with two CPUs, including the start of the worker.
fn planned(case: Case) -> PlannedCase {
    const WORKER_US: u64 = 5_000;
    let two = case.cpus > 1 && case.count > 1;
    // The more units there are, the colder are a unit's stack and kernel data when it runs again.
    let slice_ns = match case.mode {
        Mode::Neither | Mode::Sleep => 1_650 + case.count / 3,
        Mode::Yield if case.count <= case.cpus => 2_200,
        Mode::Yield => 3_150 + case.count.min(1_024) * 3,
    };
    // Two CPUs share the work well, but not the switching of a thousand units.
    let share_percent = match case.mode {
        _ if !two => 100,
        Mode::Yield if case.count >= 1_024 => 85,
        Mode::Yield if case.count > 2 => 65,
        _ => 55,
    };
    let sleeps = u64::from(case.mode == Mode::Sleep) * case.pieces_per_unit();
    let start_and_end_us = match case.unit {
        Unit::Thread => 26 + case.count / 400,
        Unit::Process if two => 175,
        Unit::Process => 210,
    };
    let work_us = case.slices * slice_ns / 1_000 * share_percent / 100;
    let all_us = WORKER_US + work_us + sleeps * 1_100 + case.count * start_and_end_us;
    PlannedCase::new(case, Duration::from_micros(all_us))
}

const fn threads(mode: Mode, cpus: u64) -> Case {
    Case { mode, cpus, ..ONE }
}

const fn yielding_processes(cpus: u64) -> Case {
    let unit = Unit::Process;
    Case { unit, cpus, ..ONE }
}

/// The statistics of a group of cases: of its case with `count` units, whatever the amount of work.
impl Case {
    /// The group that never gives up the CPU.
    const fn control(self) -> Self {
        let mode = Mode::Neither;
        Self { mode, ..self }
    }

    fn of(self, metric: Metric, count: u64) -> Statistic {
        metric.of(Self { count, ..self }.any(&["slices"]))
    }

    fn time(self, count: u64) -> Statistic {
        self.of(ELAPSED, count)
    }

    /// Run time over the run time of as many units as CPUs.
    fn slowdown(self, count: u64) -> Statistic {
        self.time(count).over(self.time(self.cpus))
    }

    fn overhead(self, count: u64) -> Statistic {
        self.slowdown(count).less_one()
    }

    /// None for fewer units than CPUs, as in the source.
    fn overhead_percent(self, count: u64) -> Option<Statistic> {
        (count >= self.cpus).then(|| self.overhead(count).times(100.0))
    }

    /// What giving up the CPU adds to a metric.
    fn added(self, metric: Metric, count: u64) -> Statistic {
        self.of(metric, count).less(self.control().of(metric, count))
    }

    /// The same per additional switch.
    fn per_switch(self, metric: Metric, count: u64) -> Statistic {
        let parts = [metric, VOLUNTARY_SWITCHES, INVOLUNTARY_SWITCHES];
        Statistic::function(parts.map(|part| self.added(part, count)), |added| {
            let switches = Some(added[1] + added[2]).filter(|more| *more >= 1.0);
            switches.map_or(f64::NAN, |more| added[0] / more)
        })
    }

    /// The overhead in CPU time of threads that sleep over that of those that yield, the base of both being as many
    /// yielding threads as CPUs.
    fn sleep_over_yield(self, count: u64) -> Statistic {
        let base = threads(Mode::Yield, self.cpus).of(CPU, self.cpus);
        let over_work = |mode| threads(mode, self.cpus).of(CPU, count).over(base.clone());
        // No ratio of two times: either may be 0 or less.
        let over_yield = |over_work: &[f64]| (over_work[0] - 1.0) / (over_work[1] - 1.0);
        Statistic::function([Mode::Sleep, Mode::Yield].map(over_work), over_yield)
    }
}

/// Time of threads on one CPU over that on two.
fn speedup(mode: Mode, count: u64) -> Statistic {
    let on = |cpus| threads(mode, cpus).time(count);
    on(1).over(on(2))
}

/// The gain from a second CPU: 1 for twice the speed.
fn gain(mode: Mode, count: u64) -> Statistic {
    speedup(mode, count).less_one()
}

/// From two yielding threads on.
fn mean_gain() -> Statistic {
    let gains = COUNTS[1..].iter().map(|&n| gain(Mode::Yield, n));
    Statistic::function(gains, |gains| gains.iter().sum::<f64>() / gains.len() as f64)
}

/// By how much the overhead on one CPU rises from one count to another.
fn rise(from: u64, to: u64) -> Statistic {
    ONE.overhead(to).less(ONE.overhead(from))
}

/// A statistic at each of these counts, and the names of the cells.
fn at(group: Case, counts: &[u64], of: fn(Case, u64) -> Statistic) -> Vec<(String, Statistic)> {
    let named = |&n: &u64| (format!("count={n},cpus={}", group.cpus), of(group, n));
    counts.iter().map(named).collect()
}

/// The claims of source 001.
fn claims(view: &View<'_>) -> Vec<Claim> {
    let not_two: Vec<u64> = COUNTS.into_iter().filter(|&n| n != 2).collect();
    let two_best = each(Quote::Smallest, at(TWO, &not_two, Case::slowdown));
    let more_cost = each(Quote::Smallest, at(TWO, &COUNTS[2..], Case::overhead));
    let few_free = each(Quote::Largest, at(ONE, &COUNTS[1..=5], Case::overhead));
    let jump = || rise(32, 128);
    let lead = |n: u64| (format!("over {n} to {}", 4 * n), jump().less(rise(n, 4 * n)));
    let jump = Test::from(jump()).also(
        "the rise from 32 to 128 is the largest of the four equal steps to 8,192",
        Range::at_least(0.0).of("overhead"),
        each(Quote::Smallest, [128, 512, 2048].map(lead)),
    );
    let doubling = |&n: &u64| (format!("from {n} to {}", 2 * n), rise(n, 2 * n));
    let smooth = each(Quote::Largest, COUNTS[7..13].iter().map(doubling));
    // One thread on two CPUs is left out: it cannot use the second, and the source leaves that cell empty.
    let all = [(ONE, &COUNTS[1..]), (TWO, &COUNTS[2..])];
    let all = all.map(|(group, counts)| at(group, counts, Case::overhead));
    let bounded = each(Quote::Largest, all.concat());
    let needs = "needs Windows 9x or ME; the figure is this machine's";
    let windows_9x = Test::Lacking {
        lack: Lack::new(Need::System, needs),
        figure: Some(ONE.overhead(2)),
    };
    // Where there is one CPU, the claim is about that.
    let groups = if view.lacks_cpus(2).is_some() { 1 } else { 2 };
    let sleeping = |group| at(group, &[64, 1024], Case::sleep_over_yield);
    let sleeping = [ONE, TWO].into_iter().take(groups).flat_map(sleeping);
    let sleeping = each(Quote::Largest, sleeping);
    let speedups = COUNTS.map(|n| (format!("count={n}"), speedup(Mode::Yield, n)));
    let alone = gain(Mode::Yield, 1);
    let differs = Statistic::function([mean_gain()], |gain| gain[0] - STATED_GAIN);
    let differs = Test::from(differs).outside(Range {
        min: -0.05,
        max: 0.05,
    });
    vec![
        ("two-threads-optimal-on-two-cpus", two_best),
        ("more-threads-cost-10pct-on-two-cpus", more_cost),
        ("up-to-32-threads-free-on-one-cpu", few_free),
        ("jump-between-32-and-128-on-one-cpu", jump),
        ("growth-smooth-after-128-on-one-cpu", smooth),
        ("yield-overhead-below-60pct-to-8192", bounded),
        ("win9x-over-50pct-from-second-thread", windows_9x),
        ("sleeping-threads-lose-less-than-yielding", sleeping),
        ("second-cpu-gain-below-twofold", each(Quote::Largest, speedups)),
        ("second-cpu-gain-about-85pct", mean_gain().into()),
        ("one-thread-gains-nothing-from-second-cpu", alone.into()),
        ("second-cpu-gain-differs-elsewhere", differs),
    ]
}

/// The answer to the question.
fn answer(view: &View<'_>) -> String {
    let overhead = |n| {
        Some(format!(
            "{} with {n}",
            view.estimate(&ONE.overhead(n))?.plain("share")
        ))
    };
    let overheads: Vec<String> = [2, 64, 1024, 8192].into_iter().filter_map(overhead).collect();
    let mut parts = Vec::new();
    if !overheads.is_empty() {
        parts.push(format!(
            "On one CPU, threads that yield after every slice take longer than one thread: by {}.",
            overheads.join(", ")
        ));
    }
    let cost = view.estimate(&ONE.per_switch(ELAPSED, 64));
    let cost = cost.filter(|_| view.resolved(&ONE.added(ELAPSED, 64)));
    parts.extend(cost.map(|cost| format!("A switch among 64 of them costs {}.", cost.plain("ns"))));
    let gain = view.estimate(&mean_gain()).map(|gain| gain.plain("share"));
    let gained = |gain| format!("A second CPU adds {gain} on average from 2 to 8,192 threads.");
    parts.extend(gain.map(gained));
    if parts.is_empty() {
        return "The cells that would answer this have no figures in this run.".to_owned();
    }
    parts.join(" ")
}

/// The count from which on units that never give up the CPU take `more` (of 1) longer than one; twice the largest where
/// none does. From the last that does not: noise at a small count is not taken for a cost.
fn first_dear(more: f64) -> Statistic {
    let overheads = CONTROLS.iter().map(|n| ONE.control().overhead(*n));
    Statistic::function(overheads, move |v| {
        let last = CONTROLS.iter().zip(v).rfind(|(_, overhead)| **overhead <= more);
        last.map_or(1, |(n, _)| 2 * n) as f64
    })
}

/// What a switch costs, what a second CPU brings, and how many threads one CPU bears.
fn costs(view: &View<'_>) -> Vec<Cost> {
    let switch = |group: Case, n| {
        let (what, cost) = (format!("switch, {n} yielding"), group.per_switch(ELAPSED, n));
        let cost = view.cost((&what, group.unit.name()), "on one CPU", &cost, "ns");
        cost.filter(|_| view.resolved(&group.added(ELAPSED, n)))
    };
    let gain = ("gain of a second CPU", "thread");
    let gain = view.cost(gain, "2 to 8,192 yielding", &mean_gain(), "share");
    let dear = ("number from which work takes 10 % longer", "thread");
    let dear = view.cost(dear, "on one CPU", &first_dear(0.1), "threads");
    let dear = dear.filter(|cost| CONTROLS.contains(&(cost.value as u64)));
    let published = format!("85 % ({})", dated("001"));
    let listed = [
        switch(ONE, 64).map(|cost| cost.named("switch to another thread")),
        gain.map(|cost| cost.named("gain of a second CPU").published(0.85, published)),
        dear.map(|cost| cost.named("computing threads until work takes 10 % longer")),
    ];
    let processes = yielding_processes(1);
    let others = [(ONE, 1024), (ONE, 8192), (processes, 64), (processes, 1024)];
    let others = others.map(|(group, n)| switch(group, n));
    listed.into_iter().chain(others).flatten().collect()
}

/// Facts, each with its figure.
fn facts(view: &View<'_>) -> Vec<Finding> {
    let mut facts = Vec::new();
    facts.extend([2, 64, 1024, 8192].map(|n| switching(view, ONE, "threads", n)));
    facts.extend([64, 1024].map(|n| switching(view, yielding_processes(1), "processes", n)));
    facts.extend([really_switched, best_count, starting_and_ending, a_sleep].map(|fact| fact(view)));
    facts.into_iter().flatten().collect()
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
    let (count, least) = least(view, &COUNTS[1..], |n| ONE.of(SWITCHES_PER_SLICE, n))?;
    let verdict = if least.value >= 0.9 {
        "Yields did switch"
    } else {
        "The scheduler ignored yields"
    };
    let alone = view.estimate(&TWO.of(SWITCHES_PER_SLICE, 2));
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
    let (best, time) = least(view, &COUNTS, |n| TWO.time(n))?;
    let says = format!(
        "On two CPUs, {best} {} finished first of all measured counts, in {}.",
        if best == 1 { "thread" } else { "threads" },
        time.show("ns")
    );
    Some(time.fact(says, "ns"))
}

fn starting_and_ending(view: &View<'_>) -> Option<Finding> {
    let count = 8192;
    let of = |metrics: [Metric; 2]| metrics.map(|metric| ONE.control().of(metric, count));
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
    let cost = |mode| view.estimate(&threads(mode, 1).per_switch(CPU, count));
    let (sleep, turn) = (cost(Mode::Sleep)?, cost(Mode::Yield)?);
    for (mode, what) in [(Mode::Sleep, "sleep of 1 ms"), (Mode::Yield, "yield")] {
        if !view.resolved(&threads(mode, 1).added(CPU, count)) {
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
fn comparisons() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (group, count) in [(ONE, 64), (ONE, 1024), (TWO, 64), (TWO, 1024)] {
        let (threads, processes) = (group.time(count), yielding_processes(group.cpus).time(count));
        pairs.push(Pair::of(&group.control().time(count), &threads));
        pairs.push(Pair::of(&threads, &processes));
    }
    pairs.push(Pair::of(&ONE.time(32), &ONE.time(128)));
    pairs
}

/// A row of the source's tables: of the first for a system, of the second for [`AVERAGED`].
fn source_row(os: &str, cpus: u64, count: u64) -> Option<&'static ContextSwitch> {
    let mut rows = context_switches().iter();
    rows.find(|row| row.os.starts_with(os) && row.cpus == cpus && row.threads == count)
}

/// The value of a statistic of run times in the source. Its times have more digits than its printed percentages.
fn of_source(os: &str, statistic: &Statistic) -> Option<f64> {
    statistic.of_cells(|cell| {
        let (cpus, count) = (cell.pattern.int("cpus")?, cell.pattern.int("count")?);
        Some(source_row(os, cpus, count)?.elapsed_ms)
    })
}

const fn cpus_in_words(cpus: u64) -> &'static str {
    if cpus == 1 { "one CPU" } else { "two CPUs" }
}

/// A line for the threads of each of these modes, on one CPU and on two.
fn by_mode<'v>(mut chart: Chart<'v>, modes: &[Mode], of: fn(Case, u64) -> Option<Statistic>) -> Chart<'v> {
    for &mode in modes {
        for group in [threads(mode, 1), threads(mode, 2)] {
            let name = format!("{}, {}", mode.name(), cpus_in_words(group.cpus));
            chart = chart.line(name, COUNTS.map(|n| (n, of(group, n))));
        }
    }
    chart
}

/// The overheads of one of the source's configurations.
fn source_overheads<'v>(chart: Chart<'v>, &(name, os, cpus): &(&str, &str, u64)) -> Chart<'v> {
    let overhead = |n| of_source(os, &threads(Mode::Yield, cpus).overhead_percent(n)?);
    let name = format!("source, {name}, {}", cpus_in_words(cpus));
    chart.figures(name, Origin::Published, COUNTS.map(|n| (n, overhead(n))))
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let chart = |id, title, y: &str, note| {
        let chart = Chart::new(view, id, title).note(note);
        chart.x(Scale::Log, "threads").y(Scale::Linear, y)
    };
    let overheads = chart(
        "overhead",
        "What sharing a fixed amount of work among more threads costs",
        "overhead, %",
        "Over one yielding thread on one CPU and two on two, as in the source; the controls that do not yield over \
         themselves. The source's times probably include starting and ending its threads, in runs of ten seconds; \
         ours do not. Repeated values in the source suggest a coarse timer (N-27).",
    );
    let overheads = by_mode(overheads, &[Mode::Yield, Mode::Neither], Case::overhead_percent);
    let overheads = CONFIGURATIONS[..4].iter().fold(overheads, source_overheads);
    let windows_98 = chart(
        "overhead-windows-98",
        "The same on one CPU, beside Windows 98",
        "overhead, %",
        "The source sets Windows 98 apart: its loss passes 50 % with the second thread. It was measured to 1,024 \
         threads.",
    )
    .line("yield, one CPU", COUNTS.map(|n| (n, ONE.overhead_percent(n))));
    let windows_98 = source_overheads(windows_98, &CONFIGURATIONS[4]);
    let gain = |mode| COUNTS.map(|n| (n, gain(mode, n).times(100.0)));
    let source_gain = |os| gain(Mode::Yield).map(|(n, gain)| (n, of_source(os, &gain)));
    let gains = chart(
        "gain",
        "What a second CPU brings",
        "gain, %",
        "Time on one CPU over time on two, less 1. The source's averages mix systems, NT 4 and 2000 against 2000 and \
         XP; its Windows 2000 alone is drawn beside (N-26). Above 100 % is possible here for yielding threads: two \
         on two CPUs do not switch at all.",
    )
    .line("yield", gain(Mode::Yield))
    .line("neither", gain(Mode::Neither))
    .figures("source, averaged", Origin::Published, source_gain(AVERAGED))
    .figures("source, Windows 2000 alone", Origin::Published, source_gain("Windows 2000"))
    .figures("twice the speed", Origin::Ideal, COUNTS.map(|n| (n, Some(100.0))));
    let sleeping = chart(
        "sleeping",
        "CPU time for the same work: yielding, sleeping for 1 ms, neither",
        "",
        "Sleeping threads work in 256 pieces, or one each; yielding ones in as many as there are slices. The source \
         says that real programs, which sleep, lose less, and has no figures for it.",
    )
    .y(Scale::Log, "CPU time, ms");
    let cpu_ms = |group: Case, n| Some(group.of(CPU, n).times(1e-6));
    let sleeping = by_mode(sleeping, &[Mode::Sleep, Mode::Yield, Mode::Neither], cpu_ms);
    let switches = |group: Case| COUNTS.map(|n| (n, group.of(SWITCHES_PER_SLICE, n)));
    let switches = chart(
        "switches",
        "Switches that really happened, per slice",
        "switches per slice",
        "1 where every yield switched, 0 where the scheduler let the unit go on. Without yields each unit is switched \
         once, at its end.",
    )
    .x(Scale::Log, "threads or processes")
    .line("threads that yield, one CPU", switches(ONE))
    .line("threads that yield, two CPUs", switches(TWO))
    .line("processes that yield, one CPU", switches(yielding_processes(1)))
    .line("processes that yield, two CPUs", switches(yielding_processes(2)))
    .line("threads that do not, one CPU", switches(ONE.control()));
    let charts = [overheads, windows_98, gains, sleeping, switches];
    charts.map(Chart::whole).to_vec()
}

/// A figure of the source; empty where it has none.
fn of_the_source(figure: Option<f64>) -> String {
    figure.map_or_else(String::new, published)
}

fn time(view: &View<'_>, group: Case, count: u64) -> String {
    view.shown(&group.time(count), "ns")
}

fn first_table(view: &View<'_>) -> Table {
    let mut columns = vec!["threads".to_owned()];
    let theirs = CONFIGURATIONS.map(|(name, _, cpus)| format!("{name}, {}: ms", cpus_in_words(cpus)));
    let ours = [2, 1].map(|cpus| format!("here, {}", cpus_in_words(cpus)));
    for name in theirs.into_iter().chain(ours) {
        columns.extend([name, "overhead, %".to_owned()]);
    }
    let row = |count: u64| {
        let mut row = vec![count.to_string()];
        for (_, os, cpus) in CONFIGURATIONS {
            let source = source_row(os, cpus, count);
            row.push(of_the_source(source.map(|r| r.elapsed_ms)));
            row.push(of_the_source(source.and_then(|r| r.overhead_pct)));
        }
        for group in [TWO, ONE] {
            let overhead = group.overhead_percent(count);
            let overhead = overhead.map_or_else(String::new, |overhead| view.shown(&overhead, ""));
            row.extend([time(view, group, count), overhead]);
        }
        row
    };
    table(
        "per-configuration",
        "The source's first table: run time and overhead of threads that yield",
        "The work per run is the machine's own: compare overheads, not milliseconds (N-28). No overhead is given for \
         one thread on two CPUs.",
        columns,
        COUNTS.map(row).to_vec(),
    )
}

fn second_table(view: &View<'_>) -> Table {
    let columns = [
        "threads",
        "source, two CPUs: ms",
        "gain, %",
        "source, one CPU: ms",
        "here, two CPUs",
        "gain, %",
        "here, one CPU",
    ];
    let row = |count: u64| {
        let [one, two] = [1, 2].map(|cpus| source_row(AVERAGED, cpus, count));
        vec![
            count.to_string(),
            of_the_source(two.map(|r| r.elapsed_ms)),
            of_the_source(two.and_then(|r| r.gain_over_1_cpu_pct)),
            of_the_source(one.map(|r| r.elapsed_ms)),
            time(view, TWO, count),
            view.shown(&gain(Mode::Yield, count).times(100.0), ""),
            time(view, ONE, count),
        ]
    };
    table(
        "averaged",
        "The source's second table: what a second CPU brings",
        "The source averages NT 4 and 2000 on two CPUs, and 2000 and XP on one: different systems (N-26). Its mean \
         gain is 84.5 % without the first row and 78.3 % with it (N-25).",
        columns,
        COUNTS.map(row).to_vec(),
    )
}
