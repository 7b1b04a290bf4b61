//! Question: what memory does a thread or a process take that does nothing?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. A program in C (`guests/c/idle.c`)
//! makes the units and reads the memory.

use std::process::Stdio;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;

use threadgauge_machine::{Level, available_memory_mib, shared_levels};
use threadgauge_results::{Table, units};

use crate::create::{self, Unit};
use crate::guests::{Guest, figures, guest};
use crate::libraries::Library;
use crate::{ring, runtimes};

use self::parts::{MEMORY, PARTS};

pub(crate) mod by_runtime;
pub(crate) mod guests;
mod parts;

/// Makes the units, and reads the memory.
pub(crate) const IDLE: Guest = guest!("idle");
/// What a unit takes from the memory that is available on the machine: measured apart from the sum.
const AVAILABLE: Metric = metric("available_bytes_lost_per_unit", "B");

/// The count that the claims are about.
const CLAIMED: u64 = 1_000;
const COUNTS: [u64; 3] = [100, CLAIMED, 10_000];
/// The stack that a thread has by default, where nobody changed `ulimit -s`.
const DEFAULT_KIB: u64 = 8 * 1024;
const SMALL_KIB: u64 = 64;
/// What a unit is planned with: above what was seen on any machine.
const PLANNED_KIB: u64 = 192;

point! {
    struct Case {
        unit: Unit,
        /// The thread library, where it is not the C library's own.
        library: Option<Library>,
        stack_kib: u64 = 16..=1 << 20,
        count: u64 = 1..=1_000_000,
        cpus: u64 = 1..,
    }
}

const PROCESS: Case = Case {
    unit: Unit::Process,
    library: None,
    stack_kib: DEFAULT_KIB,
    count: CLAIMED,
    cpus: 1,
};
const THREAD: Case = PROCESS.unit(Unit::Thread);
const SMALL_THREAD: Case = THREAD.stack_kib(SMALL_KIB);
/// The kinds, as the charts and tables name them.
const KINDS: [(&str, Case); 3] = [
    ("process", PROCESS),
    ("thread", THREAD),
    ("thread, stack of 64 KiB", SMALL_THREAD),
];

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "footprint",
    question: "What memory does a thread or a process take that does nothing?",
    first_run: true,
    sources: &["003", "000"],
    primary: &[MEMORY],
    how: "A small C program makes units that wait on a futex: processes by fork, or threads with stacks of 8 MiB (the usual \
          default) or 64 KiB. Memory is read before the first and when all wait, and the growth is divided by their number. \
          `bytes_per_unit` is the sum of four parts: the units' own pages (the anonymous part of PSS in smaps_rollup of \
          every process), and from /proc/meminfo page tables, kernel stacks, and the kernel's other memory (unreclaimable \
          slab).",
    control: "What the machine lost of its available memory meanwhile (MemAvailable, and the free pages that each CPU keeps for \
              itself, which MemAvailable leaves out): it comes from other counters and should be the same as the sum.",
    traps: &[
        "A process by fork shares all pages that neither it nor its parent writes. This one is small and idle: a process that \
         does anything, or another program, takes more.",
        "The size of a stack is address space. Only the pages that were touched are memory, here two of a thread's 8 MiB.",
        "Where the kernel puts stacks into huge pages (transparent_hugepage=always before Linux 6.7), an idle thread may \
         take 2 MiB.",
        "The kernel frees the memory of ended units late and counts in steps of some pages. The program waits until nothing more \
         is freed. At 100 units the steps still show.",
        "What a unit takes of the kernel's other memory depends on the holes that earlier ones left in it.",
    ],
    source: "Source 003 says without figures that a process needs far more memory than a thread, and that it costs about 30 \
             threads; source 000 that a thread takes resources beyond time.",
    calls: &[],
    plan: |site| runtimes::beside(plan(site), site, guests::plan(site)),
    run: |params, worker| match params.get("runtime") {
        Some(_) => guests::run(params, worker),
        None => run(params, worker),
    },
    read: |view| {
        let mut answer = read(view);
        guests::read(view, &mut answer);
        answer
            .figures
            .extend(by_runtime::chart(view, [thread_memory(), process_memory()]));
        answer
    },
};

/// A case that can be.
fn possible(params: &Params) -> Result<Case, CaseError> {
    let case = Case::read(params)?;
    if case.unit == Unit::Process && case.stack_kib != DEFAULT_KIB {
        let wanted = format!("{DEFAULT_KIB} for processes, whose stacks grow as they are used");
        return Err(refused(params, "stack_kib", &wanted));
    }
    if case.unit == Unit::Process && case.library.is_some() {
        return Err(refused(params, "unit", "thread, where a thread library is named"));
    }
    Ok(case)
}

/// How many units may be made without taking from others what they need, and what bounds it.
pub(crate) fn room() -> (u64, String) {
    least(&shared_levels())
}

/// How many units surely leave half of the memory that is free here and, in a control group, granted to this process.
pub(crate) fn memory_room() -> u64 {
    in_half_of(available_memory_mib().unwrap_or(0))
}

/// How many units take half of so much memory at most.
const fn in_half_of(free_mib: u64) -> u64 {
    free_mib * 1024 / 2 / PLANNED_KIB
}

/// What so many units lack: `of_limit` fit the limits, of which `limit` leaves the least, and `of_memory` the memory.
fn too_many(count: u64, (of_limit, limit): (u64, String), of_memory: u64) -> Option<Lack> {
    let (need, most, of) = if of_memory < of_limit {
        (
            Need::Memory,
            of_memory,
            "half of the memory that is free".to_owned(),
        )
    } else {
        (Need::System, of_limit, format!("four fifths of the {limit}"))
    };
    let says = || format!("{count} units are too many: {most} fit {of}, and the rest is left to others");
    (count > most).then(|| Lack::new(need, says()))
}

/// Four fifths of each limit, less what is in use.
fn least(shared: &[Level]) -> (u64, String) {
    let room = |level: &Level| {
        let units = (level.limit / 5 * 4).saturating_sub(level.used);
        (units, format!("{} of {}", level.name, level.limit))
    };
    let unknown = || (0, "limits, which cannot be read here".to_owned());
    shared.iter().map(room).min().unwrap_or_else(unknown)
}

fn plan(site: &Site) -> Plan {
    let quick = vec![PROCESS, THREAD];
    let of_library = |library| THREAD.library(Some(library));
    let all = [
        &COUNTS
            .map(|count| KINDS.map(|(_, case)| case.count(count)))
            .concat()[..],
        &Library::ALL.map(of_library),
    ]
    .concat();
    let planned = |case: Case| {
        // No more than half of what is free is taken.
        let needed_mib = 2 * case.count * PLANNED_KIB / 1024;
        let too_much = needed_mib > site.free_memory_mib;
        let memory = || Lack::memory(needed_mib, site.free_memory_mib);
        PlannedCase {
            skip: program(case).missing().or_else(|| too_much.then(memory)),
            check: |params| possible(params).map(drop),
            ..PlannedCase::new(case, takes(case))
        }
    };
    Plan {
        cases: site
            .profile
            .pick(quick, all.clone(), all)
            .into_iter()
            .map(planned)
            .collect(),
        reference: THREAD.params(),
        budget: Duration::from_secs(site.profile.pick(12, 180, 600)),
    }
}

/// What makes its units.
fn program(case: Case) -> &'static Guest {
    case.library.map_or(&IDLE, Library::idle)
}

fn takes(case: Case) -> Duration {
    let unit_us = match case.unit {
        Unit::Process => 330,
        Unit::Thread => 80,
    };
    // Waiting until the memory of the first unit is freed.
    Duration::from_millis(70) + Duration::from_micros(case.count * unit_us)
}

figures! {
    /// What `guests/c/idle.c` answers.
    pub(crate) struct Idle {
        made,
        anonymous_before_kib,
        anonymous_kib,
        page_tables_before_kib,
        page_tables_kib,
        kernel_stacks_before_kib,
        kernel_stacks_kib,
        slab_before_kib,
        slab_kib,
        available_before_kib,
        available_kib,
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = possible(params)?;
    if let Some(lack) = too_many(case.count, room(), memory_room()) {
        return Err(CaseError::Skipped(lack));
    }
    let deadline = PlannedCase::new(case, takes(case)).deadline();
    let no_address_limit = 0;
    let unit = case.unit.name();
    let (stack_by, guard_kib) = ("attribute", 4);
    let arguments: [&dyn ToString; 6] = [
        &unit,
        &case.count,
        &stack_by,
        &case.stack_kib,
        &guard_kib,
        &no_address_limit,
    ];
    let idle: Idle = program(case)
        .ask(worker, Stdio::null(), &arguments, deadline, unit)?
        .figures;
    if idle.made < case.count {
        let says = "{} units take half of the memory that was free; a smaller --set count=N may fit";
        let says = says.replace("{}", &idle.made.to_string());
        return Err(CaseError::Skipped(Lack::new(Need::Memory, says)));
    }
    let grown = |before_kib: u64, kib: u64| (kib as f64 - before_kib as f64) * 1024.0 / case.count as f64;
    let parts = [
        grown(idle.anonymous_before_kib, idle.anonymous_kib),
        grown(idle.page_tables_before_kib, idle.page_tables_kib),
        grown(idle.kernel_stacks_before_kib, idle.kernel_stacks_kib),
        grown(idle.slab_before_kib, idle.slab_kib),
    ];
    worker.tag("cold");
    worker.record(MEMORY, parts.iter().sum());
    for ((_, metric), bytes) in PARTS.into_iter().zip(parts) {
        worker.record(metric, bytes);
    }
    worker.record(AVAILABLE, grown(idle.available_kib, idle.available_before_kib));
    Ok(())
}

fn memory(case: Case) -> Statistic {
    MEMORY.of(case)
}

/// The memory of one of 1,000 idle threads in C.
pub fn thread_memory() -> Statistic {
    memory(THREAD)
}

/// The same on a thread library.
pub fn thread_memory_on(library: Option<Library>) -> Statistic {
    memory(THREAD.library(library))
}

/// The same of processes.
pub fn process_memory() -> Statistic {
    memory(PROCESS)
}

/// A process over a thread.
fn process_over_thread() -> Statistic {
    memory(PROCESS).over(memory(THREAD))
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: sentence(view),
        number: view.number(
            "an idle process ÷ an idle thread: memory",
            &process_over_thread(),
            "ratio",
        ),
        claims: claims(view),
        facts: facts(view),
        comparisons: vec![
            Pair::of(&memory(THREAD), &memory(PROCESS)),
            Pair::of(&memory(THREAD), &memory(SMALL_THREAD)),
        ],
        figures: [parts_chart(view), count_chart(view)]
            .into_iter()
            .filter_map(Chart::drawn)
            .collect(),
        tables: vec![parts_table(view)],
        costs: costs(view),
        ..Answer::default()
    }
}

fn sentence(view: &View<'_>) -> String {
    let bytes = |case| Some(view.estimate(&memory(case))?.plain("B"));
    let (Some(process), Some(thread)) = (bytes(PROCESS), bytes(THREAD)) else {
        return String::new();
    };
    let times = view
        .estimate(&process_over_thread())
        .map(|times| times.plain("ratio"));
    let times = times.map_or_else(String::new, |times| format!(", {times} times as much"));
    let small = bytes(SMALL_THREAD).map_or_else(String::new, |small| {
        format!(" A stack of 64 KiB makes that {small}.")
    });
    format!("An idle process takes {process} of memory and an idle thread {thread}{times}.{small}")
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    vec![
        ("threads-are-not-free", memory(THREAD).times(1.0 / 1024.0).into()),
        ("process-memory-heavier-than-thread", process_over_thread().into()),
        ("process-costs-30-threads", cost(view)),
    ]
}

/// What a process costs over a thread, in the three meanings of the source's "cost".
fn costs_over_thread() -> [(&'static str, Statistic); 3] {
    [
        (
            "making and ending",
            create::process_over_thread().in_experiment(create::EXPERIMENT.id),
        ),
        (
            "switching",
            ring::process_over_thread().in_experiment(ring::EXPERIMENT.id),
        ),
        ("memory", process_over_thread()),
    ]
}

/// The geometric mean of the three.
fn cost_over_thread() -> Statistic {
    Statistic::geometric_mean(costs_over_thread().map(|(_, ratio)| ratio))
}

/// Two of the three are of other experiments, which a run may leave out.
fn cost(view: &View<'_>) -> Test {
    let [making, switching, _] = costs_over_thread();
    if [making, switching].iter().all(|(_, ratio)| view.measured(ratio)) {
        return cost_over_thread().into();
    }
    not_measured(
        "needs the costs of making and of switching as well: `threadgauge run create ring footprint` has them",
    )
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let share = |(name, part): (&'static str, Metric), case: Case| {
        let share = view.value(&part.of(case).over(memory(case)))?;
        Some(format!("{} {name}", units::percent(share)))
    };
    let made_of = |(kind, case): (&'static str, Case)| {
        let whole = view.estimate(&memory(case))?;
        let shares: Vec<String> = PARTS.into_iter().filter_map(|part| share(part, case)).collect();
        let says = format!(
            "The {} of an idle {kind} are {}.",
            whole.show("B"),
            shares.join(", ")
        );
        Some(whole.fact(says, "B"))
    };
    let control = |(kind, case): (&'static str, Case)| {
        let lost = view.estimate(&AVAILABLE.of(case).over(memory(case)))?;
        let says = format!(
            "The machine's available memory shrinks by {} times that sum for each idle {kind}: nothing of weight is left out.",
            lost.show("ratio")
        );
        Some(lost.fact(says, "ratio"))
    };
    let whole_cost = || {
        let whole = view.estimate(&cost_over_thread())?;
        let shown =
            |(of, ratio): (&str, Statistic)| Some(format!("{of} {}", view.estimate(&ratio)?.show("ratio")));
        let each: Vec<String> = costs_over_thread().into_iter().filter_map(shown).collect();
        let says = format!(
            "A process costs {} threads, as the geometric mean of three ratios: {}.",
            whole.show("ratio"),
            each.join(", ")
        );
        Some(whole.fact(says, "ratio"))
    };
    KINDS
        .into_iter()
        .filter_map(made_of)
        .chain(KINDS.into_iter().filter_map(control))
        .chain(whole_cost())
        .collect()
}

fn kib(metric: Metric, case: Case) -> Statistic {
    metric.of(case).times(1.0 / 1024.0)
}

fn parts_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(view, "parts", "What the memory of an idle unit is")
        .x(Scale::Category, "part")
        .y(Scale::Linear, "memory per unit, KiB")
        .note(format!(
            "{CLAIMED} units that wait. Pages of the program's file and the C library's are shared by all."
        ));
    let points = |case| {
        let whole = std::iter::once(("all", kib(MEMORY, case)));
        PARTS
            .into_iter()
            .map(move |(name, part)| (name, kib(part, case)))
            .chain(whole)
    };
    KINDS
        .into_iter()
        .fold(chart, |chart, (kind, case)| chart.line(kind, points(case)))
}

fn count_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(view, "count", "Memory of an idle unit among many")
        .x(Scale::Log, "units")
        .y(Scale::Log, "memory per unit, KiB")
        .note("The sum of the four parts. Under 1,000 units the steps show in which the kernel counts.")
        .at_least(2);
    let points = |case: Case| COUNTS.map(|count| (count, kib(MEMORY, case.count(count))));
    KINDS
        .into_iter()
        .fold(chart, |chart, (kind, case)| chart.line(kind, points(case)))
}

fn parts_table(view: &View<'_>) -> Table {
    let columns = PARTS
        .into_iter()
        .chain([("all", MEMORY), ("available memory lost", AVAILABLE)]);
    let row = |(kind, case): (&'static str, Case)| {
        let figures = columns
            .clone()
            .map(|(_, metric)| view.shown(&metric.of(case), "B"));
        std::iter::once(kind.to_owned()).chain(figures).collect()
    };
    table(
        "parts",
        "Memory of an idle unit",
        format!("Per unit, with {CLAIMED} of them."),
        std::iter::once("unit").chain(columns.clone().map(|(name, _)| name)),
        KINDS.map(row).to_vec(),
    )
}

fn costs(view: &View<'_>) -> Vec<Cost> {
    let keep = |kind: &str, how: &str, case: Case| view.cost(("keep, idle", kind), how, &memory(case), "B");
    let process = keep("process", "fork of a small C program, 1,000 of them", PROCESS);
    let thread = keep("thread", "stack of 8 MiB, 1,000 of them", THREAD);
    let listed = |name: &str, cost: Option<Cost>| Some(cost?.named(name));
    [
        listed("memory of an idle thread", thread),
        listed("memory of an idle process", process),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::statistic::Cell;
    use threadgauge_lab::testing;
    use threadgauge_results::{Need, Status, Verdict};

    use super::parts::PRIVATE;
    use super::*;

    #[test]
    fn every_kind_of_unit_has_pages_of_its_own() {
        for (kind, case) in KINDS {
            let sample = testing::measured(&EXPERIMENT, &case.count(70).params());
            let value = |metric: Metric| sample.value(metric.name).unwrap();
            // At least the page of the stack that it runs on.
            assert!(value(PRIVATE) >= 4096.0, "{kind}: {sample:?}");
            let parts: f64 = PARTS.into_iter().map(|(_, part)| value(part)).sum();
            assert!((value(MEMORY) - parts).abs() < 1.0, "{kind}: {sample:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, status, says) in [
            (
                PROCESS.stack_kib(64),
                Status::Failed,
                "stack_kib is 64; it must be 8192 for processes",
            ),
            (
                THREAD.stack_kib(8),
                Status::Failed,
                "stack_kib is 8; it must be a number from 16 to",
            ),
            (
                THREAD.count(1_000_000),
                Status::Skipped,
                "1000000 units are too many",
            ),
        ] {
            let sample = testing::sample(&EXPERIMENT, &case.params());
            let reason = sample.reason.unwrap();
            assert!(sample.status == status && reason.contains(says), "{reason}");
        }
    }

    #[test]
    fn the_room_is_four_fifths_of_the_shared_limit_that_leaves_the_least() {
        let level = |name: &str, used, limit| Level::new(name, [used, limit], "");
        let of = [level("threads-max", 700, 190_000), level("pid_max", 300, 1_000)];
        assert_eq!(least(&of), (500, "pid_max of 1000".to_owned()));
        assert_eq!(least(&[level("nproc", 99, 100)]).0, 0);
        assert_eq!(least(&[]).0, 0);
        assert!(room().0 > 0, "{:?}", shared_levels());
    }

    #[test]
    fn units_that_fit_the_limits_and_not_half_of_the_memory_are_too_many() {
        let room = |units| (units, "pid_max of 5000".to_owned());
        // 256 MiB, as a small container has: half of it, by the 192 KiB that a unit is planned with.
        let of_memory = in_half_of(256);
        assert_eq!(of_memory, 682);
        assert_eq!(too_many(682, room(4_000), of_memory), None);
        let lack = too_many(683, room(4_000), of_memory).unwrap();
        assert_eq!(lack.of, Need::Memory);
        assert_eq!(
            lack.says,
            "683 units are too many: 682 fit half of the memory that is free, and the rest is left to others"
        );
        let lack = too_many(683, room(400), of_memory).unwrap();
        assert_eq!(lack.of, Need::System);
        assert_eq!(
            lack.says,
            "683 units are too many: 400 fit four fifths of the pid_max of 5000, and the rest is left to others"
        );
    }

    #[test]
    fn more_than_half_of_the_free_memory_is_not_planned() {
        let site = Site {
            free_memory_mib: 3_000,
            ..testing::site(Profile::Paper, 2)
        };
        let lacks = plan(&site)
            .cases
            .into_iter()
            .filter_map(|case| Some((case.params.int("count"), case.skip?.of)));
        // A build without a C compiler, or without musl's, lacks a program in some cases or in all.
        let lacks: Vec<_> = lacks.filter(|(_, of)| *of != Need::Program).collect();
        if IDLE.missing().is_none() {
            assert_eq!(lacks, [(Some(10_000), Need::Memory); 3]);
        }
    }

    /// Seven rounds in which a thread takes so many KiB, of which half are its own pages.
    fn view(cells: &[(Case, f64)]) -> View<'static> {
        let case = |&(case, kib): &(Case, f64)| {
            let of = |kib: f64| vec![kib * 1024.0; 7];
            let figures = [
                (MEMORY, of(kib)),
                (PRIVATE, of(kib / 2.0)),
                (AVAILABLE, of(kib * 1.01)),
            ];
            testing::case(case, figures)
        };
        testing::view("footprint", Profile::Quick, cells.iter().map(case).collect())
    }

    fn verdict(view: &View<'_>, id: &str) -> Option<Verdict> {
        let (_, test) = claims(view).into_iter().find(|(of, _)| *of == id).unwrap();
        testing::verdict(&test, id, view)
    }

    #[test]
    fn the_claims_are_about_a_thousand_units() {
        let measured = view(&[(PROCESS, 117.0), (THREAD, 35.0)]);
        assert_eq!(verdict(&measured, "threads-are-not-free"), Some(Verdict::Holds));
        assert_eq!(
            verdict(&measured, "process-memory-heavier-than-thread"),
            Some(Verdict::Holds)
        );
        let light = view(&[(PROCESS, 60.0), (THREAD, 35.0)]);
        assert_eq!(
            verdict(&light, "process-memory-heavier-than-thread"),
            Some(Verdict::DoesNotHold)
        );
        let few = view(&[(PROCESS.count(100), 117.0), (THREAD.count(100), 35.0)]);
        assert_eq!(verdict(&few, "threads-are-not-free"), Some(Verdict::NotMeasured));
    }

    #[test]
    fn what_a_process_costs_is_of_three_experiments() {
        let id = "process-costs-30-threads";
        let alone = view(&[(PROCESS, 117.0), (THREAD, 35.0)]);
        assert_eq!(verdict(&alone, id), Some(Verdict::NotMeasured));
        let cells = |ratio: Statistic, figures: &[f64]| {
            let case = |(cell, figure): (&Cell, &f64)| {
                let name = cell.metric.clone().leak();
                testing::case(cell.pattern.clone(), [(metric(name, "ns"), vec![*figure; 7])])
            };
            ratio
                .cells()
                .into_iter()
                .zip(figures)
                .map(case)
                .collect::<Vec<_>>()
        };
        let mut cases = alone.cases.clone();
        cases.insert(
            "create".to_owned(),
            cells(create::process_over_thread(), &[8.0, 1.0]),
        );
        // A switch is a hop less what the token itself costs.
        cases.insert(
            "ring".to_owned(),
            cells(ring::process_over_thread(), &[3.0, 1.0, 3.0, 1.0]),
        );
        let whole = View {
            cases: &cases,
            ..alone
        };
        // The cube root of 8 by 1 by 117/35.
        let says = "A process costs 2.99 [2.99, 2.99] threads, as the geometric mean of three ratios: making and ending 8.00 \
                    [8.00, 8.00], switching 1.00 [1.00, 1.00], memory 3.34 [3.34, 3.34].";
        assert_eq!(facts(&whole).last().unwrap().says, says);
        assert_eq!(verdict(&whole, id), Some(Verdict::DoesNotHold));
    }

    #[test]
    fn the_answer_has_the_numbers_there_are() {
        let measured = view(&[(PROCESS, 117.0), (THREAD, 35.0)]);
        let says = "An idle process takes 117 KiB of memory and an idle thread 35.0 KiB, 3.34 times as much.";
        assert_eq!(sentence(&measured), says);
        let of_process = &facts(&measured)[0].says;
        assert_eq!(
            of_process,
            "The 117 [117, 117] KiB of an idle process are 50 % its own pages."
        );
        assert!(
            facts(&measured)[2]
                .says
                .contains("shrinks by 1.01 [1.01, 1.01] times that sum")
        );
        assert_eq!(costs(&measured).len(), 2);
        assert!(sentence(&view(&[])).is_empty());
        assert!(facts(&view(&[])).is_empty() && costs(&view(&[])).is_empty());
    }
}
