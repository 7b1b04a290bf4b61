//! Question: how many threads and processes can be alive at once, what ends it, and what happens past it?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. Programs in C make the units
//! (`guests/c/idle.c`) and go past the limits (`guests/c/limits.c`).

use std::process::Stdio;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::published::dated;
use threadgauge_results::{Table, claim, units};

use crate::create::Unit;
use crate::footprint::{IDLE, Idle, memory_room, room};
use crate::guests::{Found, Guest, figures, guest};

/// Goes past the limits.
pub(crate) const LIMITS: Guest = guest!("limits");
/// The most units that were alive together.
const ALIVE: Metric = metric("alive", "units");
/// Whether a guard ended it: then the system would have allowed more.
const CENSORED: Metric = metric("censored", "count");
/// Calls of a function until the stack is used up.
const DEPTH: Metric = metric("depth", "calls");
/// Of the programs that do not look whether a thread was made, the shares that SIGSEGV ends, that another signal does,
/// that wait for ever, and that end well.
const SEGFAULTS: Metric = metric("ended_by_sigsegv", "share");
const SIGNALS: Metric = metric("ended_by_another_signal", "share");
const HUNG: Metric = metric("waits_for_ever", "share");
const LIVED: Metric = metric("ended_well", "share");
/// All ends, in the words of tables and charts.
const ENDS: [(&str, Metric); 4] = [
    ("ended by SIGSEGV", SEGFAULTS),
    ("by another signal", SIGNALS),
    ("waits for ever", HUNG),
    ("ends well", LIVED),
];

/// The address space of a process of source 003, MiB, and a thread's stack there.
const ADDRESS_003_MIB: u64 = 3 * 1024;
const STACK_003_KIB: u64 = 8 * 1024;
/// The bound that the source computes: one through the other.
const BOUND_003: u64 = ADDRESS_003_MIB * 1024 / STACK_003_KIB;
/// The stacks with which the source's 1,000 threads ran.
const SMALL_003_KIB: u64 = 1024;
const STACKS_KIB: [u64; 4] = [64, 256, SMALL_003_KIB, STACK_003_KIB];
/// The counts at which the source's program crashed. The first is below the bound.
const CRASHED_003: [u64; 4] = [350, 500, 800, CLAIMED];
/// What the source's claims ask for.
const CLAIMED: u64 = 1_000;
/// Local data of a call.
const LOCAL_BYTES: u64 = 256;
/// How many programs go past a limit in a sample: one for each of the patterns of `guests/c/limits.c`.
const TRIALS: u64 = 6;

words! {
    /// What is tried.
    enum Trial {
        /// As many units as there can be, up to `count`.
        Most = "most",
        /// `count` threads by a program that does not look whether they were made.
        Unchecked = "unchecked",
        /// A thread that calls itself until its stack is used up.
        Recursion = "recursion",
    }
}

words! {
    /// What ended the making of units: a guard, or a limit as the system calls it.
    enum End {
        Count = "the number asked for",
        Others = "the guard for limits that others share",
        HalfOfMemory = "the guard for memory",
        AddressSpace = "address space (RLIMIT_AS)",
        Data = "data (RLIMIT_DATA)",
        Promised = "CommitLimit",
        GroupMemory = "memory.max of the control group",
        GroupMemoryV1 = "memory.limit_in_bytes of the control group",
        MaxMapCount = "max_map_count",
        Nproc = "nproc",
        ThreadsMax = "threads-max",
        PidMax = "pid_max",
        PidsMax = "pids.max of the control group",
        Memory = "memory",
    }
}

impl End {
    /// The limit that was reached. Where none was, memory was short.
    fn of(limit: Option<&str>) -> Self {
        let named = |end: &Self| limit.is_some_and(|limit| limit.starts_with(end.name()));
        Self::ALL.into_iter().find(named).unwrap_or(Self::Memory)
    }

    /// Whether it was no limit of the system.
    const fn is_guard(self) -> bool {
        matches!(self, Self::Count | Self::Others | Self::HalfOfMemory)
    }

    /// 1 where this ended it; otherwise there is none.
    const fn metric(self) -> Metric {
        metric(self.name(), "ends")
    }
}

point! {
    struct Case {
        trial: Trial,
        unit: Unit,
        stack_kib: u64 = 16..=1 << 20,
        /// 0 for no limit.
        address_mib: u64 = 0..=1 << 20,
        /// At most.
        count: u64 = 1..=1_000_000,
        cpus: u64 = 1..,
    }
}

/// Threads with the stacks and in the address space of source 003.
const THREADS: Case = Case {
    trial: Trial::Most,
    unit: Unit::Thread,
    stack_kib: STACK_003_KIB,
    address_mib: ADDRESS_003_MIB,
    count: CLAIMED,
    cpus: 1,
};
const PROCESSES: Case = THREADS.unit(Unit::Process);
const UNCHECKED: Case = THREADS.trial(Trial::Unchecked);
const RECURSION: Case = THREADS.trial(Trial::Recursion).address_mib(0).count(1);

impl Case {
    /// How many of its threads the address space has room for.
    const fn fitting(self) -> u64 {
        let most = match self.address_mib {
            0 => u64::MAX,
            mib => mib * 1024 / self.stack_kib,
        };
        if most < self.count { most } else { self.count }
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "limits",
    question: "How many threads and processes can be alive at once, what ends it, and what happens past it?",
    first_run: false,
    sources: &["003"],
    primary: &[ALIVE],
    how: "most: a small C program makes idle threads or processes until the system refuses one, with the 3 GiB of address space \
          of the source's processes (RLIMIT_AS) and without, and the limits in use are read while all are alive. unchecked: six \
          programs start so many threads and join them without looking whether they were made, as the source's does from a local \
          array that nobody has initialised. Each fills that with something else: zeros, ones, small numbers, addresses of its stack, \
          of its heap, or at random. `ended_by_sigsegv` of them are ended by SIGSEGV; `ended_by_another_signal`, `waits_for_ever` (its \
          only thread sleeps, so that nobody can wake it) and `ended_well` are the others. recursion: a thread calls a function with 256 bytes of local data until its stack is used up.",
    control: "Processes beside threads: each has an address space of its own, so its limit should not matter to them.",
    traps: &[
        "This machine is shared: no case makes more than `count` units, takes more than four fifths of a limit that others \
         share, or half of the free memory. A number that such a guard ended is *censored*: the system allows at least so many. \
         A ratio of two censored numbers says nothing.",
        "A limit on units counts as the end when fewer than 32 of it are left, one on memory (RLIMIT_AS, RLIMIT_DATA, \
         CommitLimit, a control group's) when it has no room for another unit. Where nothing does, memory was short.",
        "What joining a thread that was never made does is up to the C library and to what the handle happens to hold. Each pattern \
         counts alike; what a stack holds in truth depends on what ran before.",
        "The kernel's log gets a line for each program that SIGSEGV ends. No core file is written.",
    ],
    source: "Source 003 ran 255 threads and crashed with 350, 500, 800 and 1,000, says that 3 GiB of address space have room for \
             384 stacks of 8 MiB, and ran 1,000 with stacks of 1 MiB. Its program was of 32 bits; here the same address space is \
             a limit on a process of 64 bits. It set the stack by ulimit -s, here pthread_attr_setstacksize does.",
    calls: &[],
    plan,
    run,
    read,
};

fn possible(params: &Params) -> Result<Case, CaseError> {
    let case = Case::read(params)?;
    if case.trial != Trial::Most && case.unit == Unit::Process {
        let wanted = format!("thread, where trial is {}", case.trial.name());
        return Err(refused(params, "unit", &wanted));
    }
    Ok(case)
}

fn plan(site: &Site) -> Plan {
    let count = site.profile.pick(CLAIMED, 4_000, 30_000);
    let most = [
        THREADS,
        THREADS.stack_kib(SMALL_003_KIB),
        PROCESSES,
        THREADS.address_mib(0),
        PROCESSES.address_mib(0),
    ];
    let others =
        STACKS_KIB.map(|kib| [ADDRESS_003_MIB, 0].map(|mib| THREADS.stack_kib(kib).address_mib(mib)));
    let others = others.concat().into_iter().filter(|case| !most.contains(case));
    let quick = site.profile == Profile::Quick;
    let unchecked = CRASHED_003
        .into_iter()
        .filter(|&count| !quick || count > BOUND_003);
    let recursion = STACKS_KIB
        .into_iter()
        .filter(|&kib| !quick || kib >= SMALL_003_KIB);
    let cases = most
        .into_iter()
        .chain(others.filter(|_| !quick))
        .map(|case| case.count(count));
    let cases = cases.chain(unchecked.map(|count| UNCHECKED.count(count)));
    let cases = cases.chain(recursion.map(|kib| RECURSION.stack_kib(kib)));
    let planned = |case: Case| PlannedCase {
        skip: IDLE.missing().or_else(|| LIMITS.missing()),
        check: |params| possible(params).map(drop),
        ..PlannedCase::new(case, takes(case))
    };
    Plan {
        cases: cases.map(planned).collect(),
        reference: RECURSION.params(),
        budget: Duration::from_secs(site.profile.pick(22, 240, 900)),
    }
}

fn takes(case: Case) -> Duration {
    let threads = case.fitting();
    let us = match (case.trial, case.unit) {
        (Trial::Most, Unit::Process) => 70_000 + case.count * 330,
        (Trial::Most, Unit::Thread) => 70_000 + threads * 80,
        (Trial::Unchecked, _) => TRIALS * (threads * 60 + 3_000),
        (Trial::Recursion, _) => 3_000,
    };
    Duration::from_micros(10_000 + us)
}

figures! {
    /// What `guests/c/limits.c` answers.
    struct Past {
        trials,
        ended_well,
        segfaults,
        signals,
        hung,
        made,
        depth,
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = possible(params)?;
    worker.tag("cold");
    match case.trial {
        Trial::Most => {
            let (alive, end) = most(case, worker)?;
            worker.record(ALIVE, alive as f64);
            worker.record(CENSORED, f64::from(u8::from(end.is_guard())));
            worker.record(end.metric(), 1.0);
        }
        Trial::Unchecked => {
            let past = within_limit(case, past(case, TRIALS, worker)?)?;
            let ended = [past.segfaults, past.signals, past.hung, past.ended_well];
            for ((_, share), programs) in ENDS.into_iter().zip(ended) {
                worker.record(share, programs as f64 / past.trials as f64);
            }
            worker.noise("threads_made", past.made as f64);
        }
        Trial::Recursion => {
            let past = past(case, 1, worker)?;
            if past.segfaults != 1 {
                return Err(CaseError::Failed(
                    "the recursion did not end by SIGSEGV".to_owned(),
                ));
            }
            worker.record(DEPTH, past.depth as f64);
        }
    }
    Ok(())
}

/// As many as may be tried without taking from others, and what ends it where the system does not: of so many there is
/// room in the limits that others share, and in half of the memory.
const fn guarded(count: u64, of_limits: u64, of_memory: u64) -> (u64, End) {
    if of_memory < count && of_memory < of_limits {
        (of_memory, End::HalfOfMemory)
    } else if of_limits < count {
        (of_limits, End::Others)
    } else {
        (count, End::Count)
    }
}

/// How many can be alive, and what ended it.
fn most(case: Case, worker: &Worker) -> Result<(u64, End), CaseError> {
    let (count, guard) = guarded(case.count, room().0, memory_room());
    if count == 0 {
        let says = format!("{} leaves room for no unit", guard.name());
        let need = match guard {
            End::HalfOfMemory => Need::Memory,
            _ => Need::System,
        };
        return Err(CaseError::Skipped(Lack::new(need, says)));
    }
    let unit = case.unit.name();
    let arguments: [&dyn ToString; 4] = [&unit, &count, &case.stack_kib, &case.address_mib];
    let found: Result<Found<Idle>, _> = IDLE.ask(worker, Stdio::null(), &arguments, deadline(case), unit);
    match found {
        Ok(Found { figures, .. }) if figures.made < count => Ok((figures.made, End::HalfOfMemory)),
        Ok(Found { figures, .. }) => Ok((figures.made, guard)),
        Err(CaseError::Refused { made, limit, .. }) => Ok((made, End::of(limit.as_deref()))),
        Err(error) => Err(error),
    }
}

fn past(case: Case, trials: u64, worker: &Worker) -> Result<Past, CaseError> {
    let trial = case.trial.name();
    let arguments: [&dyn ToString; 5] = [&trial, &case.count, &case.stack_kib, &case.address_mib, &trials];
    Ok(LIMITS
        .ask(worker, Stdio::null(), &arguments, deadline(case), trial)?
        .figures)
}

/// What the programs came to, where the limit on their address space held.
fn within_limit(case: Case, past: Past) -> Result<Past, CaseError> {
    let most = case.fitting() * past.trials;
    if past.made <= most {
        return Ok(past);
    }
    let says = format!(
        "{} programs made {} threads, and their address space has room for {most}: the limit on it (RLIMIT_AS) does not hold",
        past.trials, past.made
    );
    Err(CaseError::Failed(says))
}

fn deadline(case: Case) -> Duration {
    PlannedCase::new(case, takes(case)).deadline()
}

/// As many as a run asked for, which differs by profile.
fn pattern(case: Case) -> Params {
    case.any(&["count"])
}

fn alive(case: Case) -> Statistic {
    ALIVE.of(pattern(case))
}

/// Whether a guard ended it in this run, so that the number is a lower bound.
fn is_censored(view: &View<'_>, case: Case) -> bool {
    view.value(&CENSORED.of(pattern(case)))
        .is_some_and(|censored| censored > 0.0)
}

/// What ended it in most rounds.
fn end(view: &View<'_>, case: Case) -> Option<End> {
    let ended = |end: &End| view.value(&end.metric().of(pattern(case))) == Some(1.0);
    End::ALL.into_iter().find(ended)
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: sentence(view),
        claims: claims(view),
        facts: facts(view),
        figures: [alive_chart(view), past_chart(view), depth_chart(view)]
            .into_iter()
            .filter_map(Chart::drawn)
            .collect(),
        tables: vec![alive_table(view), past_table(view)],
        ..Answer::default()
    }
}

/// A number of units; a lower bound where a guard ended it.
fn number(view: &View<'_>, case: Case) -> Option<String> {
    let alive = units::with_unit(view.value(&alive(case))?, None, "count");
    Some(if is_censored(view, case) {
        format!("at least {alive}")
    } else {
        alive
    })
}

fn sentence(view: &View<'_>) -> String {
    let (threads, processes) = (number(view, THREADS), number(view, PROCESSES));
    let (Some(threads), Some(processes)) = (threads, processes) else {
        return "How many units can be alive in 3 GiB of address space was not measured in this run."
            .to_owned();
    };
    let ended = end(view, THREADS).map_or_else(String::new, |end| format!(", where {} ends it", end.name()));
    let free = number(view, THREADS.address_mib(0));
    let free = free.map_or_else(String::new, |free| format!("; without that limit {free} threads"));
    format!(
        "In 3 GiB of address space {threads} threads with stacks of 8 MiB can be alive{ended}, and {processes} \
         processes{free}."
    )
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let per = |case, count: u64| alive(case).times(1.0 / count as f64);
    let few = THREADS.stack_kib(SMALL_003_KIB);
    let past = CRASHED_003
        .into_iter()
        .filter(|&count| count > BOUND_003)
        .map(|count| (format!("{count} threads"), SEGFAULTS.of(UNCHECKED.count(count))));
    let depth = |kib| DEPTH.of(RECURSION.stack_kib(kib));
    vec![
        ("processes-scale-further-than-threads", further(view)),
        (
            "stack-size-caps-thread-count",
            unless_guarded(view, THREADS, per(THREADS, BOUND_003), f64::INFINITY),
        ),
        (
            "smaller-stack-allows-1000-threads",
            unless_guarded(view, few, per(few, CLAIMED), 1.0),
        ),
        ("exceeding-thread-limit-segfaults", each(Quote::Smallest, past)),
        (
            "small-stack-overflows-sooner",
            depth(SMALL_003_KIB).over(depth(STACK_003_KIB)).into(),
        ),
    ]
}

/// A number that a guard ended is no bound of the system. Where it is `enough`, as a share of what is claimed, it tells
/// all the same.
fn unless_guarded(view: &View<'_>, case: Case, share: Statistic, enough: f64) -> Test {
    if !is_censored(view, case) || view.value(&share).is_some_and(|share| share >= enough) {
        return share.into();
    }
    not_measured(match end(view, case) {
        Some(guard @ (End::HalfOfMemory | End::Others)) => {
            format!("{} ended the number of threads", guard.name())
        }
        _ => "a guard ended the number of threads; `threadgauge run limits --profile standard` asks for more"
            .to_owned(),
    })
}

/// Threads over processes, in the source's address space and in that of this machine.
fn further(view: &View<'_>) -> Test {
    let most = claim("processes-scale-further-than-threads").map_or(1.0, |claim| claim.range().max);
    let spaces = [
        ("3 GiB of address space", ADDRESS_003_MIB),
        ("no limit on address space", 0),
    ];
    let ratio = |mib| {
        let cells =
            [THREADS, PROCESSES].map(|case| [ALIVE, CENSORED].map(|m| m.of(pattern(case.address_mib(mib)))));
        Statistic::function(cells.concat(), move |v| {
            known_ratio([v[0], v[2]], [v[1] > 0.0, v[3] > 0.0], most)
        })
    };
    let known = spaces.map(|(name, mib)| (name.to_owned(), ratio(mib)));
    let (known, open): (Vec<_>, Vec<_>) = known
        .into_iter()
        .partition(|(_, ratio)| view.rounds(ratio).is_ok());
    let open: Vec<String> = open.into_iter().map(|(name, _)| name).collect();
    let missing = format!("with {} the guard ended both numbers", open.join(" and with "));
    each(Quote::Largest, known).of_a_part(open.is_empty(), missing)
}

/// Threads over processes, where it can be said on which side of `most` it lies although a guard ended one number.
/// Otherwise it is not a number.
fn known_ratio([threads, processes]: [f64; 2], censored: [bool; 2], most: f64) -> f64 {
    let ratio = threads / processes;
    let is_known = match censored {
        [false, false] => true,
        // There may be more processes: the ratio is at most this.
        [false, true] => ratio <= most,
        // There may be more threads: it is at least this.
        [true, false] => ratio > most,
        [true, true] => false,
    };
    if is_known { ratio } else { f64::NAN }
}

/// Every case of this run that makes as many as there can be, in the order of the plan.
fn planned(view: &View<'_>) -> Vec<Case> {
    let of_most = view.planned(Params::new().with("trial", Trial::Most.name()));
    of_most.filter_map(|params| Case::read(params).ok()).collect()
}

/// A unit, its stack and its address space, in words.
fn words_of(case: Case) -> String {
    let unit = match case.unit {
        Unit::Thread => format!("Threads, stack of {} KiB", case.stack_kib),
        Unit::Process => "Processes".to_owned(),
    };
    let space = match case.address_mib {
        0 => "no limit on address space".to_owned(),
        mib => format!("{} GiB of address space", mib / 1024),
    };
    format!("{unit}, {space}")
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let ended = planned(view).into_iter().filter_map(|case| {
        let alive = view.estimate(&alive(case))?;
        let says = format!(
            "{}: {} alive, then {} ended it.",
            words_of(case),
            number(view, case)?,
            end(view, case).map_or("several things", End::name)
        );
        Some(alive.fact(says, "units"))
    });
    let crashed = CRASHED_003.into_iter().filter_map(|count| {
        let share = view.estimate(&SEGFAULTS.of(UNCHECKED.count(count)))?;
        let others = [SIGNALS, HUNG, LIVED].map(|end| view.estimate(&end.of(UNCHECKED.count(count))));
        let others = others.map(|share| share.map_or_else(String::new, |share| share.plain("share")));
        let says = format!(
            "A program that starts {count} threads in 3 GiB of address space and does not look whether they were made is ended by \
             SIGSEGV in {} of its runs, by another signal in {}, waits for ever in {} and ends well in {}.",
            share.plain("share"),
            others[0],
            others[1],
            others[2],
        );
        Some(share.fact(says, "share"))
    });
    let deep = STACKS_KIB.into_iter().filter_map(|kib| {
        let depth = view.estimate(&DEPTH.of(RECURSION.stack_kib(kib)))?;
        let says = format!(
            "A stack of {kib} KiB has room for {} calls with 256 bytes of local data.",
            depth.plain("count")
        );
        Some(depth.fact(says, "calls"))
    });
    ended.chain(crashed).chain(deep).collect()
}

fn alive_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(view, "alive", "The most units alive")
        .x(Scale::Log, "stack of a thread, KiB")
        .y(Scale::Log, "units alive")
        .note("At least: a guard ended it, and the system would allow more. The stack of a process grows as it is used.");
    let lines = [Unit::Thread, Unit::Process]
        .map(|unit| [ADDRESS_003_MIB, 0].map(|mib| THREADS.unit(unit).address_mib(mib)));
    let of_space = |case: Case| {
        if case.address_mib == 0 {
            "no limit"
        } else {
            "3 GiB"
        }
    };
    let chart = lines.concat().into_iter().fold(chart, |chart, line| {
        let name = |kind: &str| format!("{}, {}{kind}", line.unit.name(), of_space(line));
        let points = |censored: bool| {
            let cases = STACKS_KIB.map(|kib| line.stack_kib(kib));
            let cases = cases
                .into_iter()
                .filter(move |case| is_censored(view, *case) == censored);
            cases
                .map(|case| (case.stack_kib, alive(case)))
                .collect::<Vec<_>>()
        };
        chart
            .line(name(""), points(false))
            .line(name(", at least"), points(true))
    });
    let bound = STACKS_KIB.map(|kib| (kib, Some((ADDRESS_003_MIB * 1024 / kib) as f64)));
    chart.figures("3 GiB through the stack", Origin::Ideal, bound)
}

/// What is past the limit in the source's address space.
const PAST: &str = "3 GiB of address space, stacks of 8 MiB: room for 384 at most.";

fn past_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(
        view,
        "unchecked",
        "What becomes of programs that do not look whether a thread was made",
    )
    .x(Scale::Linear, "threads asked for")
    .y(Scale::Linear, "% of the programs")
    .note(format!(
        "{PAST} The source's program crashed at each of these. Each program's array of handles holds something else."
    ));
    let ended = |end: Metric| CRASHED_003.map(|count| (count, end.of(UNCHECKED.count(count)).times(100.0)));
    let chart = ENDS
        .into_iter()
        .fold(chart, |chart, (name, end)| chart.line(name, ended(end)));
    chart.figures(
        format!("{}: crashed", dated("003")),
        Origin::Published,
        CRASHED_003.map(|count| (count, Some(100.0))),
    )
}

fn depth_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let depth = |kib: u64| DEPTH.of(RECURSION.stack_kib(kib));
    let room = |kib: u64| Some((kib * 1024 / LOCAL_BYTES) as f64);
    Chart::new(view, "depth", "Calls until the stack is used up")
        .x(Scale::Log, "stack, KiB")
        .y(Scale::Log, "calls")
        .note("A call keeps more than its local data: registers, and what the compiler aligns.")
        .line("this machine", STACKS_KIB.map(|kib| (kib, depth(kib))))
        .figures(
            "stack through local data",
            Origin::Ideal,
            STACKS_KIB.map(|kib| (kib, room(kib))),
        )
}

fn alive_table(view: &View<'_>) -> Table {
    let published = |case: Case| match (case.unit, case.stack_kib, case.address_mib) {
        (Unit::Thread, STACK_003_KIB, ADDRESS_003_MIB) => "fewer than 384; 255 worked, 350 crashed",
        (Unit::Thread, SMALL_003_KIB, ADDRESS_003_MIB) => "1000 worked",
        (Unit::Process, _, ADDRESS_003_MIB) => "1000 worked",
        _ => "",
    };
    let row = |case: Case| {
        let end = end(view, case).map_or("", End::name);
        Some(vec![
            words_of(case),
            number(view, case)?,
            end.to_owned(),
            published(case).to_owned(),
        ])
    };
    table(
        "alive",
        "The most units alive, and what ended it",
        "Published: source 003, 32 bits, Linux 2.6.9.",
        ["units", "alive", "ended by", "published"],
        planned(view).into_iter().filter_map(row).collect(),
    )
}

fn past_table(view: &View<'_>) -> Table {
    let row = |count: u64| {
        let shares = ENDS.map(|(_, end)| view.shown(&end.of(UNCHECKED.count(count)), "share"));
        let shares = shares.into_iter().chain(["crashed".to_owned()]);
        std::iter::once(count.to_string()).chain(shares).collect()
    };
    let ends = ENDS.map(|(name, _)| name);
    table(
        "unchecked",
        "Threads started and joined without looking whether they were made",
        PAST,
        [["threads asked for"].as_slice(), &ends, &["published"]].concat(),
        CRASHED_003.map(row).to_vec(),
    )
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_lab::view::ViewCase;
    use threadgauge_results::{Sample, Status, Verdict};

    use super::*;

    fn sample(case: Case) -> Sample {
        let sample = testing::sample(&EXPERIMENT, &case.params());
        assert_eq!(sample.status, Status::Ok, "{case:?}: {:?}", sample.reason);
        sample
    }

    fn ended(sample: &Sample) -> Vec<End> {
        let ended = |end: &End| sample.value(end.metric().name) == Some(1.0);
        End::ALL.into_iter().filter(ended).collect()
    }

    #[test]
    fn an_address_space_ends_threads_and_not_processes() {
        let threads = sample(THREADS.address_mib(300));
        // 300 MiB hold 37 stacks of 8 MiB and little else.
        let alive = threads.value(ALIVE.name).unwrap();
        assert!((20.0..=37.0).contains(&alive), "{threads:?}");
        assert_eq!(ended(&threads), [End::AddressSpace]);
        assert_eq!(threads.value(CENSORED.name), Some(0.0));
        for case in [
            PROCESSES.count(40).address_mib(300),
            THREADS.count(40).address_mib(0),
        ] {
            let all = sample(case);
            assert_eq!(
                (all.value(ALIVE.name), all.value(CENSORED.name)),
                (Some(40.0), Some(1.0))
            );
            assert_eq!(ended(&all), [End::Count]);
        }
    }

    #[test]
    fn a_limit_is_known_by_its_name_and_without_one_memory_was_short() {
        for (limit, end) in [
            (
                "pids.max of the control group /sys/fs/cgroup/pids/jobs",
                End::PidsMax,
            ),
            (
                "memory.max of the control group /sys/fs/cgroup/jobs",
                End::GroupMemory,
            ),
            (
                "memory.limit_in_bytes of the control group /x",
                End::GroupMemoryV1,
            ),
            ("data (RLIMIT_DATA)", End::Data),
            ("CommitLimit", End::Promised),
        ] {
            assert_eq!(End::of(Some(limit)), end);
        }
        assert_eq!(End::of(None), End::Memory);
    }

    #[test]
    fn the_guard_ends_what_would_take_from_others() {
        assert_eq!(guarded(1_000, 999, 5_000), (999, End::Others));
        assert_eq!(guarded(1_000, 1_000, 1_000), (1_000, End::Count));
        // As in a control group of 256 MiB.
        assert_eq!(guarded(1_000, 5_000, 682), (682, End::HalfOfMemory));
        assert_eq!(guarded(1_000, 400, 682), (400, End::Others));
        assert_eq!(guarded(500, 5_000, 682), (500, End::Count));
    }

    #[test]
    fn programs_that_fail_past_a_limit_leave_no_core_file() {
        let shallow = sample(RECURSION.stack_kib(64)).value(DEPTH.name).unwrap();
        let deep = sample(RECURSION).value(DEPTH.name).unwrap();
        assert!(
            shallow > 100.0 && deep > 10.0 * shallow,
            "{shallow} and {deep} calls"
        );
        let well = sample(UNCHECKED.count(20));
        assert_eq!(
            ENDS.map(|(_, end)| well.value(end.name)),
            [0.0, 0.0, 0.0, 1.0].map(Some)
        );
        assert_eq!(well.noise["threads_made"], (20 * TRIALS) as f64);
        // 300 MiB hold 37 stacks of 8 MiB and little else. What joining the others does is up to the C library.
        let past = sample(UNCHECKED.count(40).address_mib(300));
        let made = past.noise["threads_made"] / TRIALS as f64;
        assert!((20.0..=37.0).contains(&made), "{past:?}");
        let of_all: f64 = ENDS.iter().filter_map(|(_, end)| past.value(end.name)).sum();
        assert!((of_all - 1.0).abs() < 1e-9, "{past:?}");
        // What lies at a handle of ones is no memory.
        assert!(
            past.value(SEGFAULTS.name) >= Some(1.0 / TRIALS as f64),
            "{past:?}"
        );
        assert_eq!(crate::guests::core_files(), [""; 0]);
    }

    #[test]
    fn threads_past_the_limit_on_address_space_are_a_failure() {
        let past = |made| Past {
            trials: TRIALS,
            ended_well: TRIALS,
            segfaults: 0,
            signals: 0,
            hung: 0,
            made,
            depth: 0,
        };
        let says = |case: Case, made| {
            within_limit(case, past(made))
                .err()
                .map(|error| error.to_string())
        };
        let case = UNCHECKED.count(CLAIMED);
        assert_eq!(says(case, BOUND_003 * TRIALS), None);
        // As without a limit.
        let error = says(case, CLAIMED * TRIALS).unwrap();
        assert!(
            error.starts_with("6 programs made 6000 threads, and their address space has room for 2304"),
            "{error}"
        );
        let few = UNCHECKED.count(20);
        assert_eq!(says(few, 20 * TRIALS), None);
        assert!(says(few, 20 * TRIALS + 1).is_some());
        assert_eq!(says(case.address_mib(0), CLAIMED * TRIALS), None);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let sample = testing::sample(&EXPERIMENT, &RECURSION.unit(Unit::Process).params());
        let reason = sample.reason.unwrap();
        assert!(
            reason.contains("unit is process; it must be thread, where trial is recursion"),
            "{reason}"
        );
    }

    #[test]
    fn a_ratio_is_known_only_on_the_side_to_which_a_guard_leaves_room() {
        let known = |counts, censored| {
            let ratio = known_ratio(counts, censored, 0.95);
            (!ratio.is_nan()).then_some(ratio)
        };
        assert_eq!(known([300.0, 1_000.0], [false, false]), Some(0.3));
        assert_eq!(known([300.0, 1_000.0], [false, true]), Some(0.3));
        assert_eq!(known([1_000.0, 1_000.0], [false, true]), None);
        assert_eq!(known([300.0, 1_000.0], [true, false]), None);
        assert_eq!(known([2_000.0, 1_000.0], [true, false]), Some(2.0));
        assert_eq!(known([300.0, 1_000.0], [true, true]), None);
    }

    /// A case whose units were so many in seven rounds, until `end`.
    fn cell(case: Case, alive: f64, end: End) -> ViewCase {
        let of = |value: f64| vec![value; 7];
        let censored = f64::from(u8::from(end.is_guard()));
        testing::case(
            case,
            [
                (ALIVE, of(alive)),
                (CENSORED, of(censored)),
                (end.metric(), of(1.0)),
            ],
        )
    }

    fn view(cases: impl IntoIterator<Item = ViewCase>) -> View<'static> {
        testing::view("limits", Profile::Quick, cases.into_iter().collect())
    }

    fn verdict(view: &View<'_>, id: &str) -> Option<Verdict> {
        let (_, test) = claims(view).into_iter().find(|(of, _)| *of == id).unwrap();
        testing::verdict(&test, id, view)
    }

    #[test]
    fn what_the_guard_ended_decides_no_more_than_it_can() {
        let id = "processes-scale-further-than-threads";
        let in_3_gib = [
            cell(THREADS, 383.0, End::AddressSpace),
            cell(PROCESSES, 1_000.0, End::Count),
        ];
        let free = |threads, end, processes, other_end| {
            let [of_threads, of_processes] = [THREADS, PROCESSES].map(|case| case.address_mib(0));
            [
                cell(of_threads, threads, end),
                cell(of_processes, processes, other_end),
            ]
        };
        let both_guarded = free(1_000.0, End::Count, 1_000.0, End::Count);
        let fewer_threads = free(300.0, End::MaxMapCount, 1_000.0, End::Count);
        let more_threads = free(1_000.0, End::Count, 300.0, End::Nproc);
        for (other, expected) in [
            (both_guarded, Verdict::Inconclusive),
            (fewer_threads, Verdict::Holds),
            (more_threads, Verdict::DoesNotHold),
        ] {
            let view = view(in_3_gib.clone().into_iter().chain(other));
            assert_eq!(verdict(&view, id), Some(expected));
        }
    }

    #[test]
    fn the_claims_about_stacks_are_decided_from_the_sources_address_space() {
        let (bound, small) = (
            "stack-size-caps-thread-count",
            "smaller-stack-allows-1000-threads",
        );
        let few = THREADS.stack_kib(SMALL_003_KIB);
        let source = view([
            cell(THREADS, 383.0, End::AddressSpace),
            cell(few, 1_000.0, End::Count),
        ]);
        assert_eq!(verdict(&source, bound), Some(Verdict::Holds));
        assert_eq!(verdict(&source, small), Some(Verdict::Holds));
        let guarded = view([
            cell(THREADS, 383.0, End::HalfOfMemory),
            cell(few, 500.0, End::AddressSpace),
        ]);
        assert_eq!(verdict(&guarded, bound), Some(Verdict::NotMeasured));
        assert_eq!(verdict(&guarded, small), Some(Verdict::DoesNotHold));
        let in_little_memory = view([cell(few, 626.0, End::HalfOfMemory)]);
        assert_eq!(verdict(&in_little_memory, small), Some(Verdict::NotMeasured));
    }

    #[test]
    fn the_answer_says_what_ended_it_and_what_is_a_lower_bound() {
        let view = view([
            cell(THREADS, 383.0, End::AddressSpace),
            cell(PROCESSES, 1_000.0, End::Count),
            cell(THREADS.address_mib(0), 1_000.0, End::Count),
        ]);
        assert_eq!(
            sentence(&view),
            "In 3 GiB of address space 383 threads with stacks of 8 MiB can be alive, where address space (RLIMIT_AS) ends \
             it, and at least 1000 processes; without that limit at least 1000 threads."
        );
        assert_eq!(
            facts(&view)[0].says,
            "Threads, stack of 8192 KiB, 3 GiB of address space: 383 alive, then address space (RLIMIT_AS) ended it."
        );
    }

    #[test]
    fn what_lies_past_a_limit_is_drawn_beside_the_source_and_theory() {
        let shares = [0.2, 0.0, 0.3, 0.5];
        let ends = || {
            ENDS.into_iter()
                .zip(shares)
                .map(|((_, end), share)| (end, vec![share; 7]))
        };
        let past = CRASHED_003.map(|n| testing::case(UNCHECKED.count(n), ends()));
        let deep =
            STACKS_KIB.map(|kib| testing::case(RECURSION.stack_kib(kib), [(DEPTH, vec![kib as f64; 7])]));
        let figures = read(&view(past.into_iter().chain(deep))).figures;
        let drawn: Vec<_> = figures
            .iter()
            .map(|figure| {
                let ends = figure
                    .series
                    .iter()
                    .map(|line| (line.points.len(), line.points[3].y));
                (figure.id.as_str(), ends.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(
            drawn,
            [
                (
                    "unchecked",
                    vec![(4, 20.0), (4, 0.0), (4, 30.0), (4, 50.0), (4, 100.0)]
                ),
                ("depth", vec![(4, 8192.0), (4, 32_768.0)])
            ]
        );
    }
}
