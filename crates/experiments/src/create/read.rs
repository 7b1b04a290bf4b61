//! Reads the answer off the samples: the sentence, claims, facts, what is compared and ranked, charts and the table.

use threadgauge_lab::prelude::*;
use threadgauge_results::published::{create_runs, dated};
use threadgauge_results::{Figure, Table, units};
use threadgauge_stats::summarise;

use crate::create::grid::Method::{
    self, CloneVm, Fork, ForkExec, ForkSigchld, ForkSigchldWait, Pool, PosixSpawn, Pthread, Std,
};
use crate::create::grid::{ALIVE, BUSY, Case, FROM_PARENTS, PARENT_MIB, PARENTS, Program};
use crate::create::guests::java_over_c;
use crate::create::measure::{
    ALONE_CREATION, ALONE_PER_UNIT, CREATED, CREATION, DONE, FAILED, MOST_UNREAPED, PER_UNIT, REAPED,
};
use crate::libraries::{Library, NOT_SHOWN};
use crate::ring::shared_process_over_thread;

/// How many units a run of source 003 made.
const COUNT_003: u64 = 100_000;
const FORK: Case = base(Fork);
const THREAD: Case = base(Pthread);

/// Everything that is read off.
pub fn answer(view: &View<'_>) -> Answer {
    Answer {
        answer: sentence(view),
        number: view
            .number(
                "a process by fork ÷ a thread: made and ended, one CPU",
                &times(FORK, THREAD),
                "ratio",
            )
            .or_else(|| view.number("a thread: made and ended, one CPU", &time(THREAD), "ns")),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(view),
        rankings: rankings(view),
        figures: charts(view),
        tables: vec![table_003(view)],
        costs: costs(view),
        ..Answer::default()
    }
}

/// The base case of a method. A run has one count for each case, so this one stands for any count.
const fn base(method: Method) -> Case {
    Case::base(method, 1)
}

fn pattern(case: Case) -> Params {
    case.any(&["unit", "count"])
}

/// The time of a unit.
fn time(case: Case) -> Statistic {
    PER_UNIT.of(pattern(case))
}

/// The same for charts, µs.
fn microseconds(case: Case) -> Statistic {
    time(case).times(1e-3)
}

fn times(of: Case, to: Case) -> Statistic {
    time(of).over(time(to))
}

/// What making and joining a thread takes, one at a time on so many CPUs, ns: source 004's `lat_thread`.
pub fn thread_on(cpus: u64) -> Statistic {
    time(THREAD.cpus(cpus))
}

/// The same of a thread of this library; of none: of the machine's.
pub fn thread_of(library: Option<Library>, cpus: u64) -> Statistic {
    time(THREAD.library(library).cpus(cpus))
}

/// What a process by fork takes, one at a time on one CPU, ns.
pub fn process_on_one() -> Statistic {
    time(FORK)
}

/// A process by fork over a thread, one at a time.
pub fn process_over_thread() -> Statistic {
    times(FORK, THREAD)
}

/// A metric beside busy threads over the same alone, for as many units.
fn beside(busy: Case, metric: Metric, alone: Metric) -> Statistic {
    metric.of(pattern(busy)).over(alone.of(pattern(busy)))
}

/// Threads of another library, on so many CPUs.
const fn on_library(library: Library, cpus: u64) -> Case {
    THREAD.library(Some(library)).cpus(cpus)
}

/// The method in this command's own process.
const fn in_command(method: Method) -> Case {
    base(method).program(Program::Threadgauge)
}

/// The case as this run planned it.
fn planned(view: &View<'_>, case: Case) -> Option<Params> {
    view.planned(pattern(case)).next().cloned()
}

/// One CPU, and all where there are several, in words.
fn cpu_counts(view: &View<'_>) -> impl Iterator<Item = (u64, String)> {
    let all = view.all_cpus().map(|all| (all, format!("{all} CPUs")));
    std::iter::once((1, "one CPU".to_owned())).chain(all)
}

fn ns(value: f64) -> String {
    units::with_unit(value, None, "ns")
}

fn ratio(value: f64) -> String {
    units::with_unit(value, None, "ratio")
}

/// A case over another, as text.
fn ratio_of(view: &View<'_>, of: Case, to: Case) -> Option<String> {
    Some(view.estimate(&times(of, to))?.show("ratio"))
}

fn sentence(view: &View<'_>) -> String {
    let value = |case| view.value(&time(case));
    let says = |what: &str, case| Some(format!("{what} takes {}", ns(value(case)?)));
    let process = says("on one CPU, making and ending a process by fork", FORK);
    let first = match (value(FORK), value(THREAD)) {
        (Some(process_ns), Some(thread_ns)) => {
            let threads = view.value(&times(FORK, THREAD)).unwrap_or(process_ns / thread_ns);
            let thread = format!(
                "a thread {}: the process takes {} times as long (the median of the rounds)",
                ns(thread_ns),
                ratio(threads)
            );
            process.map(|process| format!("{process} and {thread}"))
        }
        (Some(_), None) => says("on one CPU, a process by fork", FORK),
        _ => says("on one CPU, a thread", THREAD),
    };
    let large = FORK.parent(PARENTS[0]);
    let parts = [
        first,
        says("handing a job to a waiting thread", base(Pool)),
        says("a fork from a parent of 100 MiB", large),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return "No case of this run says what making a process or a thread costs.".to_owned();
    }
    let mut sentence = parts.join("; ") + ".";
    sentence[..1].make_ascii_uppercase();
    sentence
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let of_100_000 = |case| PER_UNIT.of(pattern(case).with("count", COUNT_003));
    let while_busy = beside(THREAD.busy(BUSY), CREATION, ALONE_CREATION);
    let process = || of_100_000(base(ForkSigchldWait));
    let process_to_thread = process().over(of_100_000(THREAD));
    let process_ms = process().times(1e-6);
    vec![
        ("thread-create-costly-while-others-run", while_busy.into()),
        (
            "process-create-destroy-over-10x-thread",
            as_many(view, process_to_thread),
        ),
        ("process-create-destroy-takes-0.18-ms", as_many(view, process_ms)),
        (
            "nptl-create-destroy-6x-cheaper",
            Test::from(times(on_library(Library::LinuxThreads, 1), THREAD)).recreated(NOT_SHOWN),
        ),
        (
            "thread-create-faster-on-one-cpu",
            on_all_cpus(view, |all| times(THREAD.cpus(all), THREAD).into()),
        ),
        waiting("preemption-hardly-affects-threads"),
        waiting("kernel-upgrade-no-gain"),
        waiting("smt-no-effect-on-creation"),
        ("threads-as-processes-less-efficient", as_processes(view)),
        ("java-thread-create-slower-than-c", java_over_c(view)),
    ]
}

/// The claims of source 003 are about 100,000 units, and a claim about one count is not decided from another.
fn as_many(view: &View<'_>, of_100_000: Statistic) -> Test {
    if view.rounds(&of_100_000).is_ok() {
        return of_100_000.into();
    }
    let mut reason =
        "the claim is about 100,000 units, which `threadgauge run create --profile paper --only \
                      count=100000,method=fork-sigchld-wait,method=pthread` makes as the source's program"
            .to_owned();
    if let Some(ours) = ratio_of(view, FORK, THREAD) {
        reason += &format!("; of the units of this run a process takes {ours} times a thread");
    }
    not_measured(reason)
}

/// The claim is about creation, which is measured here, and about switching, which `ring` measures.
fn as_processes(view: &View<'_>) -> Test {
    let creating = times(base(CloneVm), THREAD);
    let switching = shared_process_over_thread().in_experiment("ring");
    if !view.measured(&switching) {
        return not_measured(
            "needs the experiment ring as well, for switching: `threadgauge run create ring` has both",
        );
    }
    let both = [("creation", creating), ("switching", switching)];
    each(Quote::Smallest, both.map(|(name, of)| (name.to_owned(), of)))
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let count = |metric: Metric, case| {
        let count = view.value(&metric.of(pattern(case)));
        count.map_or_else(|| "?".to_owned(), |n| units::with_unit(n, None, "count"))
    };
    let made = planned(view, FORK)
        .and_then(|fork| fork.int("count"))
        .unwrap_or_default();
    let stands = if made == COUNT_003 {
        "as many as source 003 made"
    } else {
        "source 003 made 100,000, as the profile paper does; the time is per unit, each made and ended before the next"
    };
    let by_handler = base(ForkSigchld);
    let [created, failed, reaped] = [CREATED, FAILED, REAPED].map(|metric| count(metric, by_handler));
    let unreaped = count(MOST_UNREAPED, by_handler);
    let busy = THREAD.busy(BUSY);
    let done = count(DONE, busy);
    // One case over another, and what to say of that, with {} where the ratio stands.
    let fact_of = |times: Statistic, says: &str| {
        let times = view.estimate(&times)?;
        Some(times.fact(says.replace("{}", &times.show("ratio")), "ratio"))
    };
    let of_ratio = |of, to, says: &str| fact_of(times(of, to), says);
    let ratios = [
        of_ratio(
            FORK,
            THREAD,
            &format!(
                "A process takes {{}} times as long as a thread, measured over {made} of each, one at a time ({stands})."
            ),
        ),
        of_ratio(
            by_handler,
            FORK,
            &format!(
                "Reaping in a SIGCHLD handler, as source 003 did, takes {{}} times as long as waiting for each child. In the \
                 median round {created} were created, {failed} failed, {reaped} were reaped, and up to {unreaped} were \
                 unreaped at once: the source's threads existed one at a time, its processes did not."
            ),
        ),
        of_ratio(
            base(ForkSigchldWait),
            FORK,
            "The program of source 003, whose handler waits until no child is left, takes {} times as long for a process as \
             waiting for each child.",
        ),
        of_ratio(
            base(CloneVm),
            THREAD,
            "A process that shares memory (clone-vm), as a thread did before NPTL, takes {} times as long as a thread. The old \
             library's manager thread is not included.",
        ),
        // The claim about creation beside busy threads is about the creating call, not about the wait for the new
        // thread.
        fact_of(
            beside(busy, PER_UNIT, ALONE_PER_UNIT),
            &format!(
                "With {BUSY} computing threads on the same CPU, making and joining a thread takes {{}} times as long as alone: \
                 the new thread waits for its turn. {done} were made within the time limit of the case, and as many alone."
            ),
        ),
        of_ratio(
            in_command(Fork),
            FORK,
            "A process by fork takes {} times as long from this command as from a small program in C: this command is larger.",
        ),
        of_ratio(
            in_command(Std),
            THREAD,
            "A thread of Rust's standard library, from this command, takes {} times as long as one by pthread_create from a \
             small program in C.",
        ),
        of_ratio(
            on_library(Library::LinuxThreads, 1),
            THREAD,
            "A thread of LinuxThreads, the library before NPTL, re-created on this kernel, takes {} times as long as one of \
             this machine's C library: each is asked for from a manager process, which makes and reaps it.",
        ),
        of_ratio(
            on_library(Library::Musl, 1),
            THREAD,
            "A thread of the C library musl takes {} times as long as one of this machine's C library.",
        ),
        of_ratio(
            base(ForkExec),
            base(PosixSpawn),
            "From an empty parent, starting a static program by fork and exec takes {} times as long as by posix_spawn.",
        ),
    ];
    let from_parents = FROM_PARENTS.map(|method| PARENTS.map(|parent| from_parent(view, method, parent)));
    let alive = [Fork, CloneVm, Pthread].map(|method| {
        let (most, name) = (ALIVE[1], method.name());
        let says = format!(
            "With {most} kept alive together, a unit by {name} takes {{}} times as long as one at a time."
        );
        of_ratio(base(method).alive(most), base(method), &says)
    });
    let mut facts = Vec::from(ratios);
    facts.extend(from_parents.into_iter().flatten());
    facts.push(fork_per_mib(view));
    facts.extend(alive);
    facts.into_iter().flatten().collect()
}

/// The effect of a parent's memory on a method.
fn from_parent(view: &View<'_>, method: Method, parent: (u64, bool)) -> Option<Finding> {
    let case = base(method).parent(parent);
    let (ours, times) = (view.estimate(&time(case))?, ratio_of(view, case, base(method))?);
    let says = format!(
        "{} from a parent with {} MiB in {} pages takes {}, {times} times as long as from an empty parent.",
        method.name(),
        parent.0,
        if parent.1 { "huge" } else { "small" },
        ours.show("ns")
    );
    Some(ours.fact(says, "ns"))
}

/// How much longer a fork takes for each MiB of small pages, from the largest parent.
fn fork_per_mib(view: &View<'_>) -> Option<Finding> {
    let mib = PARENT_MIB[1];
    let longer = time(FORK.parent((mib, false))).less(time(FORK));
    let per_mib = longer.times(1.0 / mib as f64);
    let ours = view.estimate(&per_mib)?;
    if !view.resolved(&per_mib) {
        let says =
            format!("The time that each of {mib} MiB in small pages adds to a fork is below resolution.");
        return Some(Finding::fact(says, None, None, "ns"));
    }
    let says = format!(
        "Each MiB in small pages lengthens a fork by {}: the kernel copies the parent's page tables.",
        ours.show("ns")
    );
    Some(ours.fact(says, "ns"))
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let mut pairs: Vec<(Case, Case)> = Method::IN_C.map(|method| (THREAD, base(method))).into();
    pairs.retain(|(thread, other)| thread != other);
    pairs.push((FORK, base(ForkSigchld)));
    pairs.push((base(PosixSpawn), base(ForkExec)));
    pairs.extend([(FORK, in_command(Fork)), (THREAD, in_command(Std))]);
    for base in Method::IN_C.map(base) {
        let mut changed: Vec<Case> = view.all_cpus().map(|all| base.cpus(all)).into_iter().collect();
        changed.extend(ALIVE.map(|alive| base.alive(alive)));
        changed.extend(PARENTS.map(|parent| base.parent(parent)));
        pairs.extend(changed.into_iter().map(|case| (base, case)));
    }
    let pair = |(a, b)| {
        Some(Pair {
            a: planned(view, a)?,
            b: planned(view, b)?,
        })
    };
    pairs.into_iter().filter_map(pair).collect()
}

fn rankings(view: &View<'_>) -> Vec<(String, Vec<Params>)> {
    let mut rankings = Vec::new();
    for (cpus, on) in cpu_counts(view) {
        let cases = Method::IN_C.map(|method| planned(view, base(method).cpus(cpus)));
        let cases: Vec<Params> = cases.into_iter().flatten().collect();
        if cases.len() > 1 {
            rankings.push((format!("Making and ending one unit at a time, on {on}"), cases));
        }
    }
    rankings
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let charts = [ratio_chart, time_chart, alive_chart, busy_chart, parent_chart];
    charts
        .into_iter()
        .filter_map(|chart| chart(view).drawn())
        .collect()
}

/// A point for each method, a line for each number of CPUs.
fn by_method<'v>(view: &'v View<'v>, chart: Chart<'v>, read: impl Fn(Case) -> Option<Estimate>) -> Chart<'v> {
    let chart = chart.x(Scale::Category, "way");
    cpu_counts(view).fold(chart, |chart, (cpus, name)| {
        let points = Method::IN_C.map(|method| (method.name(), read(base(method).cpus(cpus))));
        chart.estimates(name, Origin::Measured, points)
    })
}

fn ratio_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(view, "ways-ratio", "Making and ending a unit, against a thread")
        .y(Scale::Log, "time per unit, pthread = 1")
        .note(
            "A thread made and joined (pthread) is 1, on the same CPUs. The source's processes were reaped in a signal \
             handler and its threads joined one by one, so its figure stands at fork-sigchld.",
        );
    let [process_s, thread_s, _] = runs_003().map(|runs| mean(&runs));
    let published = |method| match method {
        ForkSigchld => Some(process_s / thread_s),
        Pthread => Some(1.0),
        _ => None,
    };
    let published = Method::IN_C.map(|method| (method.name(), published(method)));
    let against_thread = |case: Case| match case.method {
        // The reference of the ratios, where it was measured.
        Pthread => view.estimate(&time(case)).map(|_| Estimate {
            value: 1.0,
            ci95: None,
        }),
        _ => view.estimate(&times(case, THREAD.cpus(case.cpus))),
    };
    by_method(view, chart, against_thread).figures("source 003, one core", Origin::Published, published)
}

fn time_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(view, "ways", "Making and ending a unit")
        .y(Scale::Log, "time per unit, µs")
        .note(
            "One at a time, from an empty parent. What source 003 measured in these units is in the table: it ran on \
             another machine.",
        );
    by_method(view, chart, |case| view.estimate(&microseconds(case)))
}

fn alive_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(view, "alive", "Units kept alive together")
        .x(Scale::Log, "units alive")
        .y(Scale::Log, "time per unit, µs")
        .note(
            "All of a batch are made, wait, are let go and reaped; on one CPU. With one at a time a unit ends by itself.",
        )
        .at_least(2);
    Method::IN_C.into_iter().fold(chart, |chart, method| {
        let case = |alive| (alive, microseconds(base(method).alive(alive)));
        chart.line(method.name(), [1, ALIVE[0], ALIVE[1]].map(case))
    })
}

fn busy_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let mut cases = Method::IN_C.map(|method| base(method).busy(BUSY)).to_vec();
    cases.retain(|case| planned(view, *case).is_some());
    let line = |creation: Metric| {
        let cases = cases.iter();
        cases.map(move |&case| (case.method.name(), creation.of(pattern(case)).times(1e-3)))
    };
    Chart::new(view, "beside", "A single creation while others compute")
        .x(Scale::Category, "way")
        .y(Scale::Log, "time of a creation, µs")
        .note(
            "The creating call alone, at the median; on one CPU. Beside threads compute threads of the same process, \
             beside processes processes. As many are made alone as beside others, by the same process.",
        )
        .line("nobody beside", line(ALONE_CREATION))
        .line(format!("{BUSY} computing beside"), line(CREATION))
}

fn parent_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let mut chart = Chart::new(view, "parent-memory", "What the parent's memory costs")
        .x(Scale::Linear, "memory of the parent, MiB")
        .y(Scale::Log, "time per unit, µs")
        .note(
            "Memory that the parent has written, beyond its own few MiB; on one CPU. Only fork copies page tables, and \
             huge pages need few.",
        )
        .at_least(2);
    for base in FROM_PARENTS.map(base) {
        for (pages, huge) in [("small", false), ("huge", true)] {
            let of = PARENT_MIB.map(|mib| (mib, microseconds(base.parent((mib, huge)))));
            let points = std::iter::once((0, microseconds(base))).chain(of);
            chart = chart.line(format!("{}, {pages} pages", base.method.name()), points);
        }
    }
    chart
}

/// What making, ending and waking a unit costs, and starting a program.
fn costs(view: &View<'_>) -> Vec<Cost> {
    const ENDS: &str = "make and end";
    const WAKES: &str = "hand over a job";
    let of = |what: &str, how: &str, case: Case| {
        let kind = match case.method {
            CloneVm => "process in shared memory",
            _ => case.unit.name(),
        };
        view.cost((what, kind), how, &time(case), "ns")
    };
    let [process_s, thread_s, _] = runs_003().map(|runs| mean(&runs));
    let listed = |name: &str, cost: Option<Cost>| Some(cost?.named(name));
    let beside = |runs_s: f64, cost: Option<Cost>| {
        let each = runs_s / COUNT_003 as f64 * 1e9;
        Some(cost?.published(each, format!("{} ({})", ns(each), dated("003"))))
    };
    let (large, waits) = (FORK.parent(PARENTS[0]), "to a thread that waits");
    let thread = beside(thread_s, of(ENDS, "pthread, joined", THREAD));
    let process = beside(process_s, of(ENDS, "fork, waited for", FORK));
    // It costs what a process does, and the list has ten places.
    let program = of("make and end, a new program", "posix_spawn", base(PosixSpawn));
    let from_large = of("make and end, parent of 100 MiB", "fork, waited for", large);
    let mut costs = vec![
        listed("make and end a thread", thread),
        listed("make and end a process", process),
        of(ENDS, "clone-vm, waited for", base(CloneVm)),
        program,
        listed("fork from a process of 100 MiB", from_large),
        of(WAKES, waits, base(Pool)),
    ];
    let mut of_each = |what: &str, changed: &dyn Fn(Case) -> Case| {
        costs.extend([Fork, CloneVm, Pthread].map(|method| of(what, method.name(), changed(base(method)))));
    };
    for alive in ALIVE {
        of_each(&format!("make and end, {alive} alive"), &|case| case.alive(alive));
    }
    if let Some(all) = view.all_cpus() {
        of_each(&format!("{ENDS}, {all} CPUs"), &|case| case.cpus(all));
        costs.push(of(&format!("{WAKES}, {all} CPUs"), waits, base(Pool).cpus(all)));
    }
    costs.into_iter().flatten().collect()
}

/// Source 003's runs of [`COUNT_003`] units on one core, s: processes and threads in C, threads in Java.
fn runs_003() -> [Vec<f64>; 3] {
    [("c", "process"), ("c", "thread"), ("java", "thread")].map(|(language, kind)| {
        let mut runs: Vec<_> = create_runs().iter().collect();
        runs.retain(|run| run.language == language && run.kind == kind);
        runs.into_iter().map(|run| run.elapsed_s).collect()
    })
}

/// The mean without the largest and the smallest run, as the source takes it; of a single run, that run.
fn mean(runs: &[f64]) -> f64 {
    trimmed_mean(runs).unwrap_or(runs[0])
}

fn trimmed_mean(runs: &[f64]) -> Option<f64> {
    summarise(runs, 0.05).ok()?.trimmed_mean
}

/// Source 003's five runs and their trimmed mean, ours beside it, and what a unit takes.
fn table_003(view: &View<'_>) -> Table {
    const OURS: [Method; 4] = [ForkSigchldWait, ForkSigchld, Fork, Pthread];
    // Five runs or rounds, then three figures over all of them.
    let column = |runs: &[f64], write: fn(f64) -> String, of_all: [Option<String>; 3]| {
        let five = (0..5).map(|run| runs.get(run).copied().map(write));
        five.chain(of_all)
            .map(Option::unwrap_or_default)
            .collect::<Vec<_>>()
    };
    let run = |run| format!("run {}", units::published(run));
    let of_all = ["trimmed mean", "per unit", "against a thread"].map(|head| Some(head.to_owned()));
    let mut columns = vec![column(&[1.0, 2.0, 3.0, 4.0, 5.0], run, of_all)];
    let runs = runs_003();
    columns.extend(runs.each_ref().map(|of| {
        let (per_unit, against) = (mean(of) / COUNT_003 as f64 * 1e9, mean(of) / mean(&runs[1]));
        let trimmed = trimmed_mean(of).map(units::published);
        let of_all = [trimmed, Some(ns(per_unit)), Some(ratio(against))];
        column(of, units::published, of_all)
    }));
    columns.extend(OURS.map(base).map(|case| {
        let rounds = view.rounds(&time(case)).unwrap_or_default();
        let all_rounds = view.summary(time(case).cells()[0]);
        let trimmed = all_rounds.and_then(|all| all.trimmed_mean).map(ns);
        let per_unit = view.estimate(&time(case)).map(|ours| ours.show("ns"));
        column(&rounds, ns, [trimmed, per_unit, ratio_of(view, case, THREAD)])
    }));
    // The reference itself.
    for thread in [2, 7] {
        columns[thread][7] = "1".to_owned();
    }
    let row = |i: usize| columns.iter().map(|column| column[i].clone()).collect();
    let count = planned(view, THREAD).and_then(|thread| thread.int("count"));
    let count = count.map_or_else(|| "not measured".to_owned(), |n| format!("{n} of a kind"));
    let theirs = [
        "row",
        "published: processes, s",
        "published: threads, s",
        "published: Java threads, s",
    ];
    let ours = OURS.map(|method| format!("{} here", method.name()));
    table(
        "source-003",
        "Creating and ending 100,000 units (source 003), and one unit here",
        format!(
            "Source 003: a Xeon at 2 GHz with one core on, kernel 2.6.9, NPTL; whole runs. Here, on one CPU, time per unit, \
             {count} in a run; the first five rounds, then all. The source states 0.18 ms for a process, which its own runs \
             do not give; its processes are reaped in a signal handler that waits until none is left (fork-sigchld-wait here), its \
             threads joined one by one."
        ),
        theirs.map(str::to_owned).into_iter().chain(ours),
        (0..8).map(row).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::statistic::Cell;
    use threadgauge_lab::testing;
    use threadgauge_lab::view::ViewCase;
    use threadgauge_results::{Lack, Need, Verdict, claim, decide};

    const NOISE: [f64; 7] = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995];

    fn view(cases: impl Into<Vec<ViewCase>>) -> View<'static> {
        testing::view("create", Profile::Quick, cases.into())
    }

    /// Seven rounds about `ns`, for the time of a unit and of a single creation alike.
    fn cell(case: Case, ns: f64) -> ViewCase {
        let rounds = NOISE.map(|n| n * ns).to_vec();
        testing::case(case, [(PER_UNIT, rounds.clone()), (CREATION, rounds)])
    }

    /// These rounds of a unit.
    fn rounds(case: Case, ns: &[f64]) -> ViewCase {
        testing::case(case, [(PER_UNIT, ns.to_vec())])
    }

    fn of(method: Method) -> Case {
        Case::base(method, 200)
    }

    fn decided(view: &View<'_>, wanted: &str) -> Finding {
        let claims = claims(view);
        let (_, test) = claims.iter().find(|(id, _)| *id == wanted).unwrap();
        let claim = claim(wanted).expect("a published claim");
        decide(claim, &claim.unit, &test.evidence(view, claim), testing::ALPHA)
    }

    #[test]
    fn every_claim_has_a_verdict_with_its_reason_also_of_nothing() {
        let nothing = view([]);
        for (id, _) in claims(&nothing) {
            let reason = decided(&nothing, id).reason;
            assert!(reason.is_some_and(|r| r.len() > 20), "{id} says too little");
        }
    }

    #[test]
    fn a_process_of_twelve_threads_holds_and_one_of_five_does_not() {
        for (process_ns, verdict) in [(240_000.0, Verdict::Holds), (100_000.0, Verdict::DoesNotHold)] {
            let of = |count| {
                let process = cell(
                    Case::base(if count == COUNT_003 { ForkSigchldWait } else { Fork }, count),
                    process_ns,
                );
                let thread = cell(Case::base(Pthread, count), 20_000.0);
                decided(&view([process, thread]), "process-create-destroy-over-10x-thread")
            };
            let few = of(200);
            assert_eq!(few.verdict, Some(Verdict::NotMeasured));
            let reason = few.reason.unwrap();
            let ours = format!(
                "a process takes {} times a thread",
                if process_ns > 2e5 {
                    "12.0 [12.0, 12.0]"
                } else {
                    "5.00 [5.00, 5.00]"
                }
            );
            assert!(
                reason.contains("--profile paper") && reason.contains(&ours),
                "{reason}"
            );
            let found = of(100_000);
            assert_eq!(found.verdict, Some(verdict));
            assert!((found.measured.unwrap() - process_ns / 20_000.0).abs() < 0.1);
        }
    }

    #[test]
    fn milliseconds_a_process() {
        let process = cell(Case::base(ForkSigchldWait, 100_000), 112_000.0);
        let found = decided(&view([process]), "process-create-destroy-takes-0.18-ms");
        assert_eq!((found.verdict, found.unit.as_str()), (Some(Verdict::Holds), "ms"));
        assert!((found.measured.unwrap() - 0.112).abs() < 1e-3);
    }

    /// Seven rounds of creations beside others, and of as many alone.
    fn beside_others(busy_ns: f64, alone_ns: f64) -> ViewCase {
        let rounds = |ns| NOISE.map(|n| n * ns).to_vec();
        let figures = [(CREATION, rounds(busy_ns)), (ALONE_CREATION, rounds(alone_ns))];
        testing::case(of(Pthread).busy(BUSY), figures)
    }

    #[test]
    fn creation_beside_others_is_against_the_same_creation_alone() {
        for (busy_ns, verdict) in [(40_000.0, Verdict::Holds), (20_000.0, Verdict::DoesNotHold)] {
            let view = view([beside_others(busy_ns, 20_000.0)]);
            let found = decided(&view, "thread-create-costly-while-others-run");
            assert_eq!(found.verdict, Some(verdict));
        }
    }

    #[test]
    fn one_cpu_against_several_needs_several() {
        let claim = "thread-create-faster-on-one-cpu";
        let (one, two) = (of(Pthread), of(Pthread).cpus(2));
        let lacking = testing::lacking(two, Lack::cpus(2, 1));
        let verdict = |several| decided(&view([cell(one, 20_000.0), several]), claim).verdict;
        assert_eq!(verdict(lacking), Some(Verdict::NotTestable));
        assert_eq!(verdict(cell(two, 36_000.0)), Some(Verdict::Holds));
    }

    /// Beside it, a run of `ring` in which a switch between processes that share memory takes so many of one between
    /// threads.
    fn beside_ring(view: View<'static>, times: f64) -> View<'static> {
        let hops = [1000.0 + 2000.0 * times, 1000.0, 3000.0, 1000.0];
        let switching = shared_process_over_thread();
        let hop = |(cell, ns): (&Cell, f64)| {
            let rounds = NOISE.map(|n| n * ns).to_vec();
            testing::case(cell.pattern.clone(), [(metric("ns_per_hop", "ns"), rounds)])
        };
        let mut cases = view.cases.clone();
        let cells = switching.cells().into_iter().zip(hops);
        cases.insert("ring".to_owned(), cells.map(hop).collect());
        View {
            cases: Box::leak(Box::new(cases)),
            ..view
        }
    }

    #[test]
    fn the_old_library_is_judged_as_it_was_recreated() {
        let claim = "nptl-create-destroy-6x-cheaper";
        let machines = || cell(of(Pthread), 20_000.0);
        let with = |old_ns| {
            let old = cell(on_library(Library::LinuxThreads, 1).count(200), old_ns);
            decided(&view([machines(), old]), claim)
        };
        let found = with(130_000.0);
        assert_eq!(found.verdict, Some(Verdict::Holds));
        assert_eq!(found.recreated.as_deref(), Some(NOT_SHOWN));
        assert_eq!(with(60_000.0).verdict, Some(Verdict::DoesNotHold));
        let open = decided(&view([machines()]), claim);
        assert_eq!((open.verdict, open.recreated), (Some(Verdict::NotMeasured), None));
    }

    #[test]
    fn threads_as_processes_are_judged_by_creation_and_by_switching() {
        let claim = "threads-as-processes-less-efficient";
        let created = |ns| view([cell(of(Pthread), 20_000.0), cell(of(CloneVm), ns)]);
        let half = decided(&created(30_000.0), claim);
        assert_eq!(half.verdict, Some(Verdict::NotMeasured));
        for (creation_ns, switching, verdict) in [
            (30_000.0, 1.5, Verdict::Holds),
            (30_000.0, 0.9, Verdict::DoesNotHold),
            (15_000.0, 1.5, Verdict::DoesNotHold),
        ] {
            let both = beside_ring(created(creation_ns), switching);
            assert_eq!(
                decided(&both, claim).verdict,
                Some(verdict),
                "{creation_ns} {switching}"
            );
        }
    }

    #[test]
    fn a_missing_cell_is_named_with_its_reason() {
        let lack = Lack::new(Need::Figures, "the limit nproc is 5");
        let missing = testing::lacking(of(Pthread), lack);
        let view = view([cell(of(CloneVm), 30_000.0), missing]);
        let test = Test::from(times(base(CloneVm), THREAD));
        let claim = claim("threads-as-processes-less-efficient").expect("a published claim");
        let found = decide(claim, &claim.unit, &test.evidence(&view, claim), testing::ALPHA);
        let reason = found.reason.unwrap();
        assert!(
            reason.contains("method=pthread") && reason.contains("the limit nproc is 5"),
            "{reason}"
        );
    }

    #[test]
    fn a_case_is_found_whatever_its_count() {
        let ns = |count| view([cell(Case::base(Fork, count).alive(64), 5.0)]);
        for count in [200, 100_000] {
            assert_eq!(ns(count).value(&time(FORK.alive(64))), Some(5.0));
            assert_eq!(ns(count).value(&time(FORK)), None);
            assert_eq!(ns(count).value(&time(FORK.alive(64).cpus(2))), None);
        }
    }

    #[test]
    fn an_interval_is_written_as_its_estimate() {
        let estimate = Estimate {
            value: 2_000.0,
            ci95: Some([1_500.0, 2_500.0]),
        };
        assert_eq!(estimate.show("ns"), "2.00 [1.50, 2.50] µs");
        assert_eq!(estimate.times(1e-3).show("ratio"), "2.00 [1.50, 2.50]");
    }

    #[test]
    fn the_answer_has_the_numbers_there_are() {
        let slowly = |case, ns: f64| {
            let drift: Vec<f64> = (0..7).map(|i| ns * (1.0 + 0.001 * f64::from(i))).collect();
            rounds(case, &drift)
        };
        let pool = slowly(of(Pool), 5_000.0);
        let full = view([
            slowly(of(Fork), 112_000.0),
            slowly(of(Pthread), 20_000.0),
            pool.clone(),
            slowly(of(Fork).parent((100, false)), 3_200_000.0),
        ]);
        assert_eq!(
            sentence(&full),
            "On one CPU, making and ending a process by fork takes 112 µs and a thread 20.1 µs: the process takes 5.60 \
             times as long (the median of the rounds); handing a job to a waiting thread takes 5.01 µs; a fork from a \
             parent of 100 MiB takes 3.21 ms."
        );
        assert_eq!(
            sentence(&view([pool])),
            "Handing a job to a waiting thread takes 5.01 µs."
        );
        assert!(sentence(&view([])).starts_with("No case of this run"));
    }

    #[test]
    fn nothing_measured_gives_no_fact_no_chart_and_no_panic() {
        let lack = || Lack::new(Need::Figures, "not here");
        for view in [
            view([]),
            view(Method::IN_C.map(|m| testing::lacking(of(m), lack()))),
        ] {
            let answer = answer(&view);
            assert!(answer.facts.is_empty() && answer.figures.is_empty());
        }
    }

    #[test]
    fn the_memory_of_the_parent_is_priced_by_the_mib() {
        let large = of(Fork).parent((1024, false));
        let priced = |ns: &[f64]| view([rounds(of(Fork), &[100_000.0; 7]), rounds(large, ns)]);
        let facts = facts(&priced(&[100_000.0 + 1024.0 * 30_000.0; 7]));
        let [grown, per_mib] = &facts[..] else {
            panic!("{facts:?}")
        };
        let says = "fork from a parent with 1024 MiB in small pages takes 30.8 [30.8, 30.8] ms";
        assert!(grown.says.starts_with(says), "{grown:?}");
        assert!((per_mib.measured.unwrap() - 30_000.0).abs() < 1e-6);
        let same = priced(&[1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.0].map(|ns| 100_000.0 + ns));
        let fact = fork_per_mib(&same).unwrap();
        assert!(
            fact.says.contains("below resolution") && fact.measured.is_none(),
            "{fact:?}"
        );
    }

    #[test]
    fn only_planned_cases_are_compared_and_ranked() {
        let (process, thread) = (of(Fork), of(Pthread));
        let view = view([process, thread, thread.cpus(4)].map(|case| cell(case, 20_000.0)));
        let pairs = comparisons(&view);
        assert_eq!(pairs.len(), 2);
        assert_eq!(pairs[0].b.text("method"), Some("fork"));
        assert_eq!(pairs[1].b.int("cpus"), Some(4));
        assert_eq!(rankings(&view).len(), 1, "one case is no ranking");
    }

    fn line(view: &View<'_>, id: &str, name: &str) -> Vec<(f64, f64, bool)> {
        let figure = charts(view).into_iter().find(|f| f.id == id).expect(id);
        let series = figure.series.into_iter().find(|s| s.name == name).expect(name);
        series
            .points
            .iter()
            .map(|p| (p.x, p.y, p.ci95.is_some()))
            .collect()
    }

    #[test]
    fn the_ratio_chart_has_the_published_ratio_beside_ours() {
        let of = |method, ns| rounds(of(method), &[ns; 7]);
        let view = view([of(ForkSigchld, 110_000.0), of(Pthread, 20_000.0)]);
        let near = |points: &[(f64, f64, bool)], expected: &[(f64, f64, bool)]| {
            let pairs = points.iter().zip(expected);
            let same = |(p, e): (&(f64, f64, bool), &(f64, f64, bool))| {
                p.0 == e.0 && (p.1 - e.1).abs() < 1e-3 && p.2 == e.2
            };
            assert!(
                points.len() == expected.len() && pairs.clone().all(same),
                "{points:?}"
            );
        };
        let (sigchld, thread) = (1.0, 6.0);
        near(
            &line(&view, "ways-ratio", "one CPU"),
            &[(sigchld, 5.5, true), (thread, 1.0, false)],
        );
        let theirs = line(&view, "ways-ratio", "source 003, one core");
        near(&theirs, &[(sigchld, 13.139, false), (thread, 1.0, false)]);
        near(
            &line(&view, "ways", "one CPU"),
            &[(sigchld, 110.0, true), (thread, 20.0, true)],
        );
    }

    #[test]
    fn the_parents_memory_makes_a_line_from_nothing_to_the_largest() {
        let cases = [0, 100, 1024].map(|mib| {
            let case = Case::base(Fork, 20).parent((mib, false));
            rounds(case, &[1e5 + 3e4 * mib as f64; 7])
        });
        let view = view(cases);
        let fork = line(&view, "parent-memory", "fork, small pages");
        assert_eq!(fork.iter().map(|p| p.0).collect::<Vec<_>>(), [0.0, 100.0, 1024.0]);
        assert!(fork.is_sorted_by(|a, b| a.1 < b.1) && fork.iter().all(|p| p.2));
        let lines = charts(&view).last().map(|figure| figure.series.len());
        assert_eq!(lines, Some(1), "a lone point makes no line");
    }

    #[test]
    fn creation_beside_others_stands_next_to_as_many_alone() {
        // The base case makes more units, so its time must not reach this chart.
        let view = view([cell(of(Pthread), 9_000.0), beside_others(15_000.0, 10_000.0)]);
        assert_eq!(line(&view, "beside", "nobody beside"), [(0.0, 10.0, true)]);
        assert_eq!(line(&view, "beside", "16 computing beside"), [(0.0, 15.0, true)]);
    }

    #[test]
    fn figures_of_a_run_that_made_all_units_itself_are_not_taken_for_those_of_the_program_in_c() {
        let by_itself = |method| {
            let params = of(method).any(&["program"]);
            testing::case(params, [(PER_UNIT, vec![1e5; 7]), (CREATION, vec![1e5; 7])])
        };
        let view = view([by_itself(Fork), by_itself(Pthread)]);
        assert_eq!(view.value(&times(FORK, THREAD)), None);
        assert!(facts(&view).is_empty());
    }

    #[test]
    fn the_printed_means_follow_from_the_runs() {
        let [process_s, thread_s, java_s] = runs_003().map(|runs| mean(&runs));
        assert_eq!(runs_003().map(|runs| runs.len()), [5, 5, 1]);
        assert!(create_runs().iter().all(|r| r.units == COUNT_003));
        assert!((process_s - 8.684).abs() < 5e-4, "printed as 8.684 s");
        assert!((thread_s - 0.661).abs() < 5e-4, "printed as 0.661 s");
        assert_eq!(java_s, 12.286);
    }

    #[test]
    fn the_table_is_whole_with_and_without_ours() {
        let fork = rounds(of(Fork), &[100_000.0, 110_000.0, 150_000.0]);
        let thread = rounds(of(Pthread), &[20_000.0; 3]);
        for view in [view([]), view([fork, thread])] {
            let table = table_003(&view);
            assert_eq!(table.rows.len(), 8);
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            assert_eq!(table.rows[0][1..4], ["8.774", "0.663", "12.286"]);
            assert_eq!(table.rows[1][1..4], ["8.78", "0.66", ""]);
            assert_eq!(table.rows[5][..4], ["trimmed mean", "8.6843", "0.661", ""]);
            assert_eq!(table.rows[6][1..4], ["86.8 µs", "6.61 µs", "123 µs"]);
            assert_eq!(table.rows[7][1..4], ["13.1", "1", "18.6"]);
        }
    }

    #[test]
    fn our_rounds_stand_in_the_rows_of_the_runs() {
        let fork = rounds(of(Fork), &[100_000.0, 110_000.0, 150_000.0]);
        let column = |view: &View<'_>| {
            table_003(view)
                .rows
                .iter()
                .map(|row| row[6].clone())
                .collect::<Vec<_>>()
        };
        let alone = column(&view([fork.clone()]));
        assert_eq!(
            alone,
            ["100 µs", "110 µs", "150 µs", "", "", "110 µs", "110 µs", ""]
        );
        let thread = rounds(of(Pthread), &[20_000.0, 22_000.0, 30_000.0]);
        assert_eq!(column(&view([fork, thread]))[7], "5.00");
    }
}
