//! Question: what does sharing data cost, by how many and how much of the time?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `guests/c/contention.c` does it.

use std::process::Stdio;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::units::of_cpus;
use threadgauge_results::{Figure, Table, units};
use threadgauge_stats::Scalability;

use crate::channels::{Placement, Unit};
use crate::guests::{Guest, figures, guest};

/// Changes the number.
const CONTENTION: Guest = guest!("contention");
/// Time over operations, of all units together.
const OPERATION: Metric = metric("ns_per_operation", "ns");
/// CPU time of all units over operations: what waiting by spinning uses as well.
const CPU: Metric = metric("cpu_ns_per_operation", "ns");
/// The share of changes that are missing in the end.
const LOST: Metric = metric("lost_share", "share");
/// The share of trials in which a change is missing.
const WITH_LOSSES: Metric = metric("trials_with_losses_share", "share");

words! {
    /// What is measured.
    enum Task {
        /// Operations a second.
        Rate = "rate",
        /// Whether changes are lost.
        Trials = "trials",
    }
}

words! {
    /// What keeps the number whole.
    enum By {
        Mutex = "mutex",
        Spin = "spin",
        Rwlock = "rwlock",
        Atomic = "atomic",
        /// Each unit has a number of its own.
        Sharded = "sharded",
        /// Nothing.
        Plain = "plain",
    }
}

impl By {
    const fn is_lock(self) -> bool {
        matches!(self, Self::Mutex | Self::Spin | Self::Rwlock)
    }
}

point! {
    /// A point of the grid.
    struct Case {
        task: Task,
        unit: Unit,
        by: By,
        units: u64 = 1..=1024,
        /// Of computation, to an operation.
        steps: u64 = 0..=10_000_000,
        /// Of the steps, under the lock.
        inside_percent: u64 = 0..=100,
        /// Of the operations.
        reads_percent: u64 = 0..=90,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "contention",
    question: "What does sharing data cost, by how many threads and for how much of their time, and what goes wrong without care?",
    first_run: false,
    sources: &["000", "003"],
    primary: &[OPERATION],
    how: "rate: threads of a small C program, pinned to the CPUs one after the other, repeat an operation: they compute `steps` \
          steps (a multiplication and an addition each, about a nanosecond) and add 1 to a number that all share. It is kept \
          whole by a mutex, a spin lock, a reader-writer lock, an atomic instruction, or by one number for each thread \
          (sharded); plain does nothing for it. `inside_percent` of the steps are done under the lock, and `reads_percent` of \
          the operations only read. After 5 ms those of 50 ms are counted. trials: two threads, or two processes, add 1 \
          to a number a million times, plainly, 20 times a sample. The universal scalability law is fitted to the \
          throughputs of each round, and its parameters are the medians over rounds.",
    control: "sharded: the same work with nothing shared. What its throughput lacks is for want of CPUs. In the end the number \
              must be that of the changes, except by plain: each sample checks it.",
    traps: &[
        "With more threads than CPUs, throughput stops growing for want of CPUs, and the law calls that contention. Compare \
         its parameters with those of sharded.",
        "Whoever holds a spin lock may lose the CPU, and the others then spin until it has one again: their CPU time \
         shows it, and with more threads than CPUs their throughput.",
        "A mutex without fairness is quick because a thread takes it again before those that wait have woken.",
        "Plain additions are lost on several CPUs and seldom on one. A compiler may turn a loop of them into one, which \
         hides that: here each is a read and a write.",
        "Reading the sum of shards costs as much as there are shards.",
    ],
    source: "Source 000 says that a split which needs little, simple synchronisation beats one that needs much; source 003 that \
             data changed by two threads without care go wrong and those of processes do not. Neither measured it. The rates, \
             counts and trials are those of the claims' rules.",
    calls: &[],
    plan,
    run,
    read,
};

const WARM: Duration = Duration::from_millis(5);
const TIMED: Duration = Duration::from_millis(50);
/// As the claim about lost updates has them.
const TRIALS: u64 = 20;
const INCREMENTS: u64 = 1_000_000;

/// Steps between two locks: every one, and up to the thousand of the claim.
const STEPS: [u64; 4] = [1, 10, 100, RARELY];
const OFTEN: u64 = 1;
const RARELY: u64 = 1_000;
/// Of an operation by means that are set against each other.
const SHORT: u64 = STEPS[2];
const INSIDE_PERCENT: [u64; 4] = [0, 10, 50, 100];
const READS_PERCENT: u64 = 90;

/// Two threads that lock a mutex every thousand steps, on one CPU.
const MUTEX: Case = Case {
    task: Task::Rate,
    unit: Unit::Thread,
    by: By::Mutex,
    units: 2,
    steps: RARELY,
    inside_percent: 0,
    reads_percent: 0,
    cpus: 1,
};
const THREADS: Case = MUTEX.task(Task::Trials).by(By::Plain).steps(INCREMENTS).cpus(2);
const PROCESSES: Case = THREADS.unit(Unit::Process);

impl Case {
    fn time(self) -> Statistic {
        OPERATION.of(self)
    }

    /// Million operations a second.
    fn throughput(self) -> Statistic {
        Statistic::function([self.time()], |v| 1e3 / v[0])
    }

    /// Reads parameters, which `--set` may have changed.
    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        let wants = |name, wanted: &str| Err(refused(params, name, wanted));
        let rate = case.task == Task::Rate;
        if case.unit != Unit::Thread && (rate || case.unit != Unit::Process) {
            return wants("unit", "thread; or process, where task is trials");
        }
        if !rate && case.by != By::Plain {
            return wants("by", "plain, where task is trials");
        }
        if case.inside_percent > 0 && !case.by.is_lock() {
            return wants("inside_percent", "0, where by is no lock");
        }
        if case.reads_percent > 0 && !rate {
            return wants("reads_percent", "0, where task is trials");
        }
        if case.reads_percent % 10 != 0 {
            return wants("reads_percent", "a multiple of 10");
        }
        Ok(case)
    }

    fn planned(self) -> PlannedCase {
        PlannedCase {
            skip: CONTENTION.missing(),
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, self.takes())
        }
    }

    /// On a virtual machine with two CPUs.
    fn takes(self) -> Duration {
        let units = Duration::from_micros(12_000 + 60 * self.units);
        match (self.task, self.unit) {
            (Task::Rate, _) => units + WARM + TIMED * 9 / 8,
            // The line of the cache goes to and fro.
            (Task::Trials, Unit::Thread) => units + Duration::from_millis(8 * TRIALS),
            (Task::Trials, _) => units + Duration::from_millis(3 * TRIALS),
        }
    }
}

/// Numbers of units up to twice as many as CPUs, and eight at least.
fn counts(cpus: u64) -> Vec<u64> {
    let most = (2 * cpus).clamp(8, 64);
    (0..).map(|power| 1 << power).take_while(|n| *n <= most).collect()
}

/// What the curves over the number of units are of, on all CPUs.
fn lines(cpus: u64) -> Vec<Case> {
    let line = MUTEX.cpus(cpus);
    let mut lines = Vec::from(By::ALL.map(|by| line.by(by).steps(SHORT)));
    for by in [By::Mutex, By::Spin] {
        lines.extend(INSIDE_PERCENT.map(|percent| line.by(by).inside_percent(percent)));
    }
    lines.extend(readers(line));
    lines
}

/// The same under a lock that lets readers in together, and under one that does not.
fn readers(line: Case) -> [Case; 2] {
    let line = line.inside_percent(50).reads_percent(READS_PERCENT);
    [line, line.by(By::Rwlock)]
}

fn plan(site: &Site) -> Plan {
    let all_cpus = (site.cpus.len() as u64).max(2);
    let often_and_rarely = [1, 2].map(|cpus| [OFTEN, RARELY].map(|steps| MUTEX.cpus(cpus).steps(steps)));
    let mut cases = [often_and_rarely.as_flattened(), &[THREADS, PROCESSES]].concat();
    if site.profile != Profile::Quick {
        let by = [By::Mutex, By::Spin, By::Atomic, By::Sharded];
        let by_steps = by.map(|by| STEPS.map(|steps| MUTEX.by(by).steps(steps).cpus(2)));
        cases.extend(by_steps.as_flattened());
        for line in lines(all_cpus) {
            cases.extend(counts(all_cpus).into_iter().map(|units| line.units(units)));
        }
    }
    let mut once = Vec::new();
    for case in cases {
        if !once.contains(&case) {
            once.push(case);
        }
    }
    Plan {
        cases: once.into_iter().map(Case::planned).collect(),
        reference: MUTEX.params(),
        budget: Duration::from_secs(site.profile.pick(15, 240, 1800)),
    }
}

figures! {
    /// What `guests/c/contention.c` answers to rate.
    struct Rate {
        wall_ns,
        cpu_ns,
        operations,
        writes,
        lost,
    }
}

figures! {
    /// And to trials.
    struct Tried {
        trials,
        with_losses,
        updates,
        lost,
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    // All CPUs of this worker, whatever their number.
    let pinned = Placement::Across.pinned()?;
    let (warm_ns, last) = match case.task {
        Task::Rate => (WARM.as_nanos(), TIMED.as_nanos()),
        Task::Trials => (0, u128::from(TRIALS)),
    };
    let arguments: [&dyn ToString; 10] = [
        &case.task.name(),
        &case.unit.name(),
        &case.by.name(),
        &case.units,
        &case.steps,
        &(case.steps * case.inside_percent / 100),
        &(case.reads_percent / 10),
        &pinned,
        &warm_ns,
        &last,
    ];
    let deadline = PlannedCase::new(case, case.takes()).deadline();
    let unit = case.unit.made_by();
    match case.task {
        Task::Rate => {
            let found = CONTENTION.ask::<Rate>(worker, Stdio::null(), &arguments, deadline, unit)?;
            let rate = found.figures;
            let each = |ns: u64| ns as f64 * found.stretch / rate.operations as f64;
            worker.record(OPERATION, each(rate.wall_ns));
            worker.record(CPU, each(rate.cpu_ns));
            worker.record(LOST, rate.lost as f64 / rate.writes as f64);
        }
        Task::Trials => {
            let tried = CONTENTION.ask::<Tried>(worker, Stdio::null(), &arguments, deadline, unit)?;
            let tried = tried.figures;
            worker.record(WITH_LOSSES, tried.with_losses as f64 / tried.trials as f64);
            worker.record(LOST, tried.lost as f64 / tried.updates as f64);
        }
    }
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: numbers_of_cpus(view).last().and_then(|cpus| {
            let of = "work of two threads that lock after each step ÷ of two that lock after a thousand";
            view.number(
                format!("{of}, on {}", of_cpus(cpus)),
                &often_over_rarely(cpus),
                "share",
            )
        }),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: vec![laws(view), means(view)],
        ..Answer::default()
    }
}

/// The work a second of two threads that lock at every step, over that of two which lock every thousand.
fn often_over_rarely(cpus: u64) -> Statistic {
    let of = |steps| MUTEX.cpus(cpus).steps(steps).time();
    of(RARELY).over(of(OFTEN)).times(OFTEN as f64 / RARELY as f64)
}

/// One CPU, and two where there are two.
fn numbers_of_cpus(view: &View<'_>) -> impl Iterator<Item = u64> {
    let two = view.lacks_cpus(2).is_none().then_some(2);
    [1].into_iter().chain(two)
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let heavy = numbers_of_cpus(view).map(|cpus| (format!("cpus={cpus}"), often_over_rarely(cpus)));
    let wrong = Test::from(WITH_LOSSES.of(THREADS)).also(
        "no trial of two processes loses any",
        Range { min: 0.0, max: 0.0 }.of("share"),
        WITH_LOSSES.of(PROCESSES),
    );
    vec![
        ("heavy-synchronisation-loses", each(Quote::Largest, heavy)),
        ("unsynchronised-shared-data-goes-wrong", wrong),
    ]
}

fn answer(view: &View<'_>) -> String {
    let mut parts = Vec::new();
    let shares: Vec<String> = numbers_of_cpus(view)
        .filter_map(|cpus| {
            let share = view.estimate(&often_over_rarely(cpus))?;
            let on = if cpus == 1 { "one CPU" } else { "two CPUs" };
            Some(format!("{} on {on}", share.plain("share")))
        })
        .collect();
    if !shares.is_empty() {
        parts.push(format!(
            "Two threads that lock a mutex after each step do {} of the work of two that lock it after a thousand",
            shares.join(" and ")
        ));
    }
    let with_losses = |case| Some(view.estimate(&WITH_LOSSES.of(case))?.plain("share"));
    if let (Some(threads), Some(processes)) = (with_losses(THREADS), with_losses(PROCESSES)) {
        parts.push(format!(
            "plain additions are lost in {threads} of the trials of two threads and in {processes} of those of two processes"
        ));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!("{}.", parts.join("; "))
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |of: Statistic, unit: &str, says: String| {
        let figure = view.estimate(&of)?;
        Some(figure.fact(says.replace("{}", &figure.show(unit)), unit))
    };
    let mut facts = vec![fact(
        LOST.of(THREADS),
        "share",
        "Of a million plain additions by each of two threads on two CPUs, {} are lost.".to_owned(),
    )];
    let most = view.all_cpus().unwrap_or(1);
    let line = MUTEX.cpus(most).steps(SHORT).units(2);
    for by in [By::Mutex, By::Spin, By::Rwlock, By::Atomic] {
        facts.push(fact(
            line.by(by).time().over(line.by(By::Sharded).time()),
            "ratio",
            format!(
                "Two threads on {most} CPUs that add to one number every {SHORT} steps, by {}, take {{}} times as long as \
                 with a number each.",
                by.name()
            ),
        ));
    }
    let [alone, together] = readers(line.steps(RARELY));
    facts.push(fact(
        together.time().over(alone.time()),
        "ratio",
        format!(
            "Where {READS_PERCENT} % of the operations only read, for half of their steps, a reader-writer lock takes {{}} times \
             as long as a mutex between two threads."
        ),
    ));
    facts.into_iter().flatten().collect()
}

/// The numbers of units that a line was planned with, which rise.
fn units_of(view: &View<'_>, line: Case) -> Vec<u64> {
    let mut units: Vec<u64> = view
        .planned(line.any(&["units"]))
        .filter_map(|params| params.int("units"))
        .collect();
    units.sort_unstable();
    units
}

/// A parameter of the universal scalability law that fits a line.
fn law(view: &View<'_>, line: Case, parameter: fn(Scalability) -> f64) -> Statistic {
    let units = units_of(view, line);
    let times: Vec<Statistic> = units.iter().map(|&n| line.units(n).time()).collect();
    let units: Vec<f64> = units.into_iter().map(|n| n as f64).collect();
    Statistic::function(times, move |ns| {
        let throughput: Vec<f64> = ns.iter().map(|ns| 1e9 / ns).collect();
        Scalability::fit(&units, &throughput).map_or(f64::NAN, parameter)
    })
}

/// The law of the parameters' estimates, for a throughput of 1 alone.
fn law_of(view: &View<'_>, line: Case) -> Option<Scalability> {
    Some(Scalability {
        alone: 1.0,
        contention: view.value(&law(view, line, |law| law.contention))?,
        coherency: view.value(&law(view, line, |law| law.coherency))?,
    })
}

/// What the charts' and tables' lines are over, in the run's own number of CPUs.
fn lines_of(view: &View<'_>) -> Vec<Case> {
    view.all_cpus().map(lines).unwrap_or_default()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for line in lines_of(view) {
        let alone = line.units(1);
        pairs.extend([2, 8].map(|units| (alone, line.units(units))));
        if line.by != By::Sharded && line.steps == SHORT {
            pairs.push((line.by(By::Sharded), line));
        }
    }
    let is_planned = |case: Case| view.planned(case).next().is_some();
    pairs.retain(|(a, b)| is_planned(*a) && is_planned(*b));
    let pair = |(a, b): (Case, Case)| Pair::of(&a.time(), &b.time());
    pairs.into_iter().map(pair).collect()
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let cpus = view.all_cpus().unwrap_or(1);
    let over_units = |line: Case| units_of(view, line).into_iter().map(move |n| (n, line.units(n)));
    let of_threads =
        |id: &str, title: String| Chart::new(view, id, title).x(Scale::Log, "threads").at_least(2);
    let all = MUTEX.cpus(cpus);
    let means = By::ALL.into_iter().fold(
        of_threads(
            "means",
            format!("Adding to a number that all share, on {cpus} CPUs"),
        )
        .y(Scale::Log, "million operations a second")
        .note(format!(
            "{SHORT} steps of computation to an operation. plain loses additions."
        )),
        |chart, by| {
            let points = over_units(all.by(by).steps(SHORT));
            chart.line(by.name(), points.map(|(n, case)| (n, case.throughput())))
        },
    );
    let scaling = INSIDE_PERCENT.into_iter().fold(
        of_threads("law", format!("How throughput scales under a mutex, on {cpus} CPUs"))
            .y(Scale::Linear, "throughput, times that of one thread")
            .note(format!(
                "By the share of an operation of {RARELY} steps that is under the lock; the universal scalability law that fits \
                 best, for nothing and for all."
            )),
        |chart, percent| {
            let line = all.inside_percent(percent);
            let times = over_units(line).map(|(n, case)| (n, line.units(1).time().over(case.time())));
            // The laws of all shares would not be told apart.
            let is_outer = [INSIDE_PERCENT[0], INSIDE_PERCENT[3]].contains(&percent);
            let law = law_of(view, line).filter(|_| is_outer);
            let fitted = over_units(line).map(|(n, _)| (n, law.map(|law| law.at(n as f64))));
            chart
                .line(format!("{percent} % inside"), times)
                .figures(format!("{percent} %, law"), Origin::Ideal, fitted.collect::<Vec<_>>())
        },
    );
    let steps = [By::Mutex, By::Spin, By::Atomic, By::Sharded].into_iter().fold(
        Chart::new(
            view,
            "steps",
            "What a step takes of two threads on two CPUs, by how often they add to a number",
        )
        .x(Scale::Log, "steps of computation between two additions")
        .y(Scale::Log, "time of a step, ns")
        .at_least(2),
        |chart, by| {
            let of = |steps| MUTEX.by(by).steps(steps).cpus(2).time().times(1.0 / steps as f64);
            chart.line(by.name(), STEPS.map(|steps| (steps, of(steps))))
        },
    );
    let reading = readers(all).into_iter().fold(
        of_threads(
            "readers",
            format!("When {READS_PERCENT} % of the operations only read, on {cpus} CPUs"),
        )
        .y(Scale::Linear, "million operations a second")
        .note(format!("Half of {RARELY} steps are under the lock.")),
        |chart, line| {
            let points = over_units(line).map(|(n, case)| (n, case.throughput()));
            chart.line(line.by.name(), points)
        },
    );
    [steps, means, scaling, reading]
        .into_iter()
        .filter_map(Chart::drawn)
        .collect()
}

/// The parameters of the law, for each line of the charts.
fn laws(view: &View<'_>) -> Table {
    let shown = |parameter: &Statistic| match view.estimate(parameter) {
        Some(figure) if view.resolved(parameter) => figure.show("ratio"),
        Some(_) => "below resolution".to_owned(),
        None => String::new(),
    };
    let row = |line: Case| {
        let contention = law(view, line, |law| law.contention);
        let coherency = law(view, line, |law| law.coherency);
        view.estimate(&contention)?;
        let peak = law_of(view, line).and_then(Scalability::peak);
        let peak = peak.filter(|_| view.resolved(&coherency));
        Some(vec![
            line.by.name().to_owned(),
            line.steps.to_string(),
            format!("{} %", line.inside_percent),
            format!("{} %", line.reads_percent),
            shown(&contention),
            shown(&coherency),
            peak.map_or_else(String::new, |peak| units::with_unit(peak, None, "count")),
        ])
    };
    table(
        "law",
        "The universal scalability law of each",
        "throughput(n) = n / (1 + contention (n − 1) + coherency n (n − 1)), times that of one thread. With more threads \
         than CPUs, the lack of CPUs is contention too: sharded has that alone.",
        [
            "by",
            "steps",
            "inside",
            "reads",
            "contention",
            "coherency",
            "most throughput at",
        ],
        lines_of(view).into_iter().filter_map(row).collect(),
    )
}

/// Time, CPU time and losses of two threads by each means.
fn means(view: &View<'_>) -> Table {
    let line = MUTEX.cpus(view.all_cpus().unwrap_or(1)).steps(SHORT);
    let row = |by: By| {
        let case = line.by(by);
        let figures = [(OPERATION, "ns"), (CPU, "ns"), (LOST, "share")];
        let figures = figures.map(|(metric, unit)| view.shown(&metric.of(case), unit));
        let mut row = vec![by.name().to_owned()];
        row.extend(figures);
        view.measured(&case.time()).then_some(row)
    };
    table(
        "means",
        "Two threads that add to one number",
        format!("Every {SHORT} steps, on all CPUs. CPU time has the waiting of those that spin."),
        ["by", "time of an operation", "CPU time", "changes lost"],
        By::ALL.into_iter().filter_map(row).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    use threadgauge_lab::testing;
    use threadgauge_machine::allowed_cpus;
    use threadgauge_results::{Sample, Verdict};

    fn sample(case: Case) -> Sample {
        testing::measured(&EXPERIMENT, &case.params())
    }

    #[test]
    fn the_number_is_whole_by_every_means_but_plain() {
        for by in By::ALL {
            let inside = if by.is_lock() { 50 } else { 0 };
            let case = MUTEX.by(by).units(3).steps(20).inside_percent(inside);
            for case in [case.cpus(2), case.reads_percent(READS_PERCENT)] {
                let sample = sample(case);
                assert!(sample.value(OPERATION.name).unwrap() > 0.0, "{sample:?}");
                // The program fails where a number is not whole that must be.
                let lost = sample.value(LOST.name).unwrap();
                assert!(
                    (0.0..1.0).contains(&lost) && (by == By::Plain || lost == 0.0),
                    "{sample:?}"
                );
            }
        }
    }

    #[test]
    fn processes_lose_nothing_and_threads_on_several_cpus_do() {
        let lost = |case| {
            let sample = sample(case);
            [WITH_LOSSES, LOST].map(|metric| sample.value(metric.name).unwrap())
        };
        assert_eq!(lost(PROCESSES), [0.0, 0.0]);
        // On one CPU only where one loses the CPU between reading and writing.
        if allowed_cpus().unwrap().len() == 1 {
            return;
        }
        // A busy machine may run one after the other in all trials of a sample.
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut threads = lost(THREADS);
        while threads == [0.0, 0.0] {
            assert!(Instant::now() < deadline, "nothing was ever lost");
            threads = lost(THREADS);
        }
        assert!(threads.iter().all(|share| *share > 0.0), "{threads:?}");
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                MUTEX.unit(Unit::Process),
                "unit is process; it must be thread; or process, where",
            ),
            (
                THREADS.unit(Unit::Coroutine),
                "unit is coroutine; it must be thread",
            ),
            (THREADS.by(By::Atomic), "by is atomic; it must be plain"),
            (
                MUTEX.by(By::Atomic).inside_percent(10),
                "inside_percent is 10; it must be 0, where by is no lock",
            ),
            (
                MUTEX.reads_percent(15),
                "reads_percent is 15; it must be a multiple of 10",
            ),
            (THREADS.reads_percent(10), "reads_percent is 10; it must be 0"),
            (MUTEX.units(0), "units is 0; it must be a number from 1 to 1024"),
        ] {
            let error = Case::possible(&case.params()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    /// The standard profile on two CPUs, where an operation takes so long, and threads lose in this share of trials.
    fn run_of(ns: impl Fn(Case) -> f64, [threads, processes]: [f64; 2]) -> View<'static> {
        let cases = plan(&testing::site(Profile::Standard, 2))
            .cases
            .into_iter()
            .map(|planned| {
                let case = Case::possible(&planned.params).unwrap();
                let rounds = |value: f64| (0..7).map(|i| value * (1.0 + f64::from(i) / 1e4)).collect();
                let share = if case.unit == Unit::Thread {
                    threads
                } else {
                    processes
                };
                let figures = match case.task {
                    Task::Rate => [(OPERATION, rounds(ns(case))), (LOST, rounds(0.0))],
                    Task::Trials => [(WITH_LOSSES, vec![share; 7]), (LOST, vec![share / 2.0; 7])],
                };
                testing::case(planned.params, figures)
            });
        testing::view("contention", Profile::Standard, cases.collect())
    }

    fn verdict(view: &View<'_>, id: &str) -> Verdict {
        let claims = claims(view);
        let (_, test) = claims.iter().find(|(of, _)| *of == id).unwrap();
        testing::verdict(test, id, view).unwrap()
    }

    const HEAVY: &str = "heavy-synchronisation-loses";
    const WRONG: &str = "unsynchronised-shared-data-goes-wrong";

    #[test]
    fn the_work_of_locking_often_is_set_against_that_of_locking_rarely() {
        // 50 ns for the lock.
        let dear = |case: Case| case.steps as f64 + 50.0;
        assert_eq!(verdict(&run_of(dear, [1.0, 0.0]), HEAVY), Verdict::Holds);
        let free = |case: Case| case.steps as f64;
        assert_eq!(verdict(&run_of(free, [1.0, 0.0]), HEAVY), Verdict::DoesNotHold);
        // It must hold on two CPUs as well.
        let free_on_two = |case: Case| if case.cpus == 2 { free(case) } else { dear(case) };
        assert_eq!(
            verdict(&run_of(free_on_two, [1.0, 0.0]), HEAVY),
            Verdict::DoesNotHold
        );
    }

    #[test]
    fn threads_must_lose_in_half_of_the_trials_and_processes_in_none() {
        let of = |shares| verdict(&run_of(|case| case.steps as f64, shares), WRONG);
        assert_eq!(of([1.0, 0.0]), Verdict::Holds);
        assert_eq!(of([0.3, 0.0]), Verdict::DoesNotHold);
        assert_eq!(of([1.0, 0.05]), Verdict::DoesNotHold);
    }

    #[test]
    fn on_one_cpu_what_needs_two_is_not_testable() {
        let view = testing::changed(run_of(|case| case.steps as f64 + 50.0, [1.0, 0.0]), |cases| {
            for case in cases.iter_mut().filter(|c| c.params.int("cpus") == Some(2)) {
                *case = testing::lacking(case.params.clone(), Lack::cpus(2, 1));
            }
        });
        assert_eq!(
            verdict(&view, HEAVY),
            Verdict::Holds,
            "it is about one CPU where there is one"
        );
        assert_eq!(verdict(&view, WRONG), Verdict::NotTestable);
    }

    #[test]
    fn the_law_of_a_line_is_fitted_to_its_throughputs_and_0_is_below_resolution() {
        // A fifth goes one at a time; nothing more.
        let view = run_of(
            |case| 100.0 * (1.0 + 0.2 * (case.units as f64 - 1.0)) / case.units as f64,
            [1.0, 0.0],
        );
        let line = MUTEX.cpus(2).steps(SHORT);
        assert_eq!(units_of(&view, line), [1, 2, 4, 8]);
        let law = law_of(&view, line).unwrap();
        assert!(
            (law.contention - 0.2).abs() < 1e-9 && law.coherency.abs() < 1e-9,
            "{law:?}"
        );
        let first = &laws(&view).rows[0];
        assert!(first[0] == "mutex" && first[4].contains("0.2"), "{first:?}");
        assert_eq!(
            first[6], "",
            "without coherency more threads are never fewer operations"
        );
    }

    #[test]
    fn what_is_read_off_has_its_figures() {
        let view = run_of(|case| case.steps as f64 + 50.0, [1.0, 0.0]);
        assert_eq!(
            answer(&view),
            "Two threads that lock a mutex after each step do 2.06 % on one CPU and 2.06 % on two CPUs of the work of two that \
             lock it after a thousand; plain additions are lost in 100 % of the trials of two threads and in 0 % of those of \
             two processes."
        );
        assert_eq!(
            (facts(&view).len(), charts(&view).len(), means(&view).rows.len()),
            (6, 4, 6)
        );
        let nothing = testing::view("contention", Profile::Quick, Vec::new());
        assert!(answer(&nothing).is_empty());
        assert!(charts(&nothing).is_empty() && facts(&nothing).is_empty());
    }
}
