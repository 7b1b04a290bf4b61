//! Question: how many threads and processes can be alive at once, what ends it, and what happens past it?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. Programs in C make the units
//! (`guests/c/idle.c`) and go past the limits (`guests/c/limits.c`). `case` says what is tried, `read` reads the
//! answer off the samples.

use std::process::Stdio;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;

use crate::create::Unit;
use crate::footprint::{Idle, memory_room, room};
use crate::guests::{Found, figures};
use crate::runtimes;

use self::case::{
    ADDRESS_003_MIB, ALIVE, BOUND_003, Build, CENSORED, CLAIMED, COUNTS_003, CRASHED_003, Case, DEPTH, ENDS,
    End, GROWING, GROWN, GUARD_KIB, PROCESSES, RECURSION, SMALL_003_KIB, STACK_003_KIB, STACKS_KIB, StackBy,
    THREADS, TRIALS, Trial, UNCHECKED, of_32_bits,
};

mod case;
mod guests;
mod java;
mod read;

#[cfg(test)]
pub(crate) use case::LIMITS;

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
          only thread sleeps, so that nobody can wake it) and `ended_well` are the others. recursion: a thread calls a function with 256 bytes of local data until its stack is used up. growing: a thread \
          of 64 KiB is to make `count` such calls; below its stack lies a guard area of `guard_kib`, a handler of SIGSEGV on a stack of its own \
          gets it out of there, and it is begun anew on a stack of twice the size at another address, until one is large enough. \
          Stacks have `stack_kib` by attribute, or by `ulimit -s` before the program starts (`stack_by`), and a guard area beside it. `build=32-bit` is the same program \
          built for 32 bits (gcc -m32), with the 3 GiB of address space that a kernel of 32 bits gives it; in `32-bit-legacy` mappings begin \
          at a third of it, as older kernels had it, so that 2 GiB are left for stacks.",
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
             384 stacks of 8 MiB, and ran 1,000 with stacks of 1 MiB. Its program was of 32 bits; claims are judged \
             on a process of 64 bits with that limit on its address space, and the program of 32 bits stands beside it. It set \
             the stack by ulimit -s; claims have it by pthread_attr_setstacksize. The way past a full stack it describes and did \
             not try: a guard area, and a larger stack at another address.",
    calls: &[
        "threadgauge run limits --set build=32-bit --set address_mib=0 --set stack_by=ulimit --set stack_kib=8192,1024 --only trial=most,unit=thread",
        "threadgauge run limits --set count=350,384,500 --set guard_kib=4,1024 --only trial=unchecked",
        "threadgauge run limits --set count=1000,20000,100000 --only trial=growing",
    ],
    plan: |site| {
        let guests = [guests::plan(site), java::plan(site)].concat();
        runtimes::beside(plan(site), site, guests)
    },
    run: |params, worker| match (params.get("runtime"), params.get("trial")) {
        (Some(_), Some(_)) => java::run(params, worker),
        (Some(_), None) => guests::run(params, worker),
        (None, _) => run(params, worker),
    },
    read: |view| {
        let mut answer = read::read(view);
        guests::read(view, &mut answer);
        java::read(view, &mut answer);
        answer
    },
};

fn possible(params: &Params) -> Result<Case, CaseError> {
    let case = Case::read(params)?;
    if case.trial != Trial::Most && case.unit == Unit::Process {
        let wanted = format!("thread, where trial is {}", case.trial.name());
        return Err(refused(params, "unit", &wanted));
    }
    if case.build.is_of_32_bits() && case.address_mib != 0 {
        let wanted = format!(
            "0, where build is {}: its address space has 3 GiB",
            case.build.name()
        );
        return Err(refused(params, "address_mib", &wanted));
    }
    if case.trial == Trial::Growing && case.stack_by == StackBy::Ulimit {
        let wanted = "attribute, where trial is growing: its stacks are its own";
        return Err(refused(params, "stack_by", wanted));
    }
    if case.trial == Trial::Growing && case.guard_kib < GUARD_KIB {
        let wanted =
            "at least 4, where trial is growing: without a guard area nobody sees that the stack is full";
        return Err(refused(params, "guard_kib", wanted));
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
    let cases = cases.chain([GROWING]);
    let by_ulimit = [STACK_003_KIB, SMALL_003_KIB].map(|kib| THREADS.stack_kib(kib));
    let builds = |case: Case| [Build::Bits32, Build::Bits32Legacy].map(|build| of_32_bits(case).build(build));
    let as_the_source = by_ulimit.map(|case| case.stack_by(StackBy::Ulimit)).into_iter();
    let as_the_source = as_the_source.chain(by_ulimit.into_iter().flat_map(builds));
    let unchecked = COUNTS_003.map(|count| UNCHECKED.count(count));
    let as_the_source = as_the_source.chain(unchecked.into_iter().flat_map(builds));
    let cases = cases.chain(as_the_source.filter(|_| !quick));
    let planned = |case: Case| PlannedCase {
        skip: {
            let (idle, limits) = case.build.programs();
            idle.missing().or_else(|| limits.missing())
        },
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
        (Trial::Recursion | Trial::Growing, _) => 3_000,
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
        grown,
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
        Trial::Growing => {
            let past = past(case, 1, worker)?;
            if past.ended_well != 1 || past.depth != case.count {
                let says = format!("of {} calls it came to {}", case.count, past.depth);
                return Err(CaseError::Failed(says));
            }
            worker.record(DEPTH, past.depth as f64);
            worker.record(GROWN, past.grown as f64);
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
    let stack_by = case.stack_by.name();
    let arguments: [&dyn ToString; 6] = [
        &unit,
        &count,
        &stack_by,
        &case.stack_kib,
        &case.guard_kib,
        &case.address_mib,
    ];
    let (idle, _) = case.build.programs();
    let found: Result<Found<Idle>, _> = idle.ask(worker, Stdio::null(), &arguments, deadline(case), unit);
    match found {
        Ok(Found { figures, .. }) if figures.made < count => Ok((figures.made, End::HalfOfMemory)),
        Ok(Found { figures, .. }) => Ok((figures.made, guard)),
        Err(CaseError::Refused { made, limit, .. }) => Ok((made, End::of(limit.as_deref(), case.build))),
        Err(error) => Err(error),
    }
}

fn past(case: Case, trials: u64, worker: &Worker) -> Result<Past, CaseError> {
    let (trial, stack_by) = (case.trial.name(), case.stack_by.name());
    let arguments: [&dyn ToString; 7] = [
        &trial,
        &case.count,
        &stack_by,
        &case.stack_kib,
        &case.guard_kib,
        &case.address_mib,
        &trials,
    ];
    let (_, limits) = case.build.programs();
    Ok(limits
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

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::{Sample, Status};

    use super::case::{CALLS, IDLE_32, LIVED, SEGFAULTS};
    use super::*;

    fn sample(case: Case) -> Sample {
        testing::measured(&EXPERIMENT, &case.params())
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
            assert_eq!(End::of(Some(limit), Build::Bits32), end);
        }
        assert_eq!(End::of(None, Build::Bits64), End::Memory);
        assert_eq!(End::of(None, Build::Bits32), End::Bits32);
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
            grown: 0,
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
    fn a_stack_by_ulimit_or_with_a_guard_takes_its_room() {
        // 300 MiB hold 37 stacks of 8 MiB, 18 with a guard of 8 MiB each, and 300 of 1 MiB.
        let few = THREADS.address_mib(300).count(200);
        for (case, least, most) in [
            (few.stack_by(StackBy::Ulimit), 20.0, 37.0),
            (few.guard_kib(8 * 1024), 10.0, 18.0),
            (
                few.stack_by(StackBy::Ulimit).stack_kib(SMALL_003_KIB),
                200.0,
                200.0,
            ),
        ] {
            let alive = sample(case).value(ALIVE.name).unwrap();
            assert!((least..=most).contains(&alive), "{case:?}: {alive}");
        }
        let deep = sample(RECURSION.stack_by(StackBy::Ulimit).stack_kib(1024));
        let shallow = sample(RECURSION.stack_by(StackBy::Ulimit).stack_kib(256));
        assert!(deep.value(DEPTH.name) > shallow.value(DEPTH.name).map(|calls| 3.0 * calls));
    }

    #[test]
    fn a_program_of_32_bits_has_3_gib_or_says_what_the_build_lacks() {
        let case = of_32_bits(THREADS);
        if let Some(lack) = IDLE_32.missing() {
            assert_eq!(lack.of, Need::Program);
            assert!(lack.says.contains("idle_32"), "{}", lack.says);
            let sample = testing::sample(&EXPERIMENT, &case.params());
            assert_eq!(sample.status, Status::Skipped, "{sample:?}");
            return;
        }
        let most = sample(case);
        let alive = most.value(ALIVE.name).unwrap();
        assert!((200.0..=BOUND_003 as f64).contains(&alive), "{most:?}");
        assert_eq!(ended(&most), [End::Bits32]);
        // 255 ran in the source, and 350 crashed.
        let legacy = sample(case.build(Build::Bits32Legacy)).value(ALIVE.name).unwrap();
        assert!((200.0..=256.0).contains(&legacy), "{legacy}");
        assert_eq!(
            sample(case.stack_kib(SMALL_003_KIB)).value(ALIVE.name),
            Some(1_000.0)
        );
        let past = sample(of_32_bits(UNCHECKED.count(CLAIMED)));
        assert!(past.value(LIVED.name) < Some(1.0), "{past:?}");
    }

    #[test]
    fn a_thread_gets_past_a_full_stack_on_larger_ones() {
        let sample = sample(GROWING);
        assert_eq!(sample.value(DEPTH.name), Some(CALLS as f64));
        // 20,000 calls of 256 bytes and more need 8 MiB, which is 64 KiB doubled seven times.
        assert_eq!(sample.value(GROWN.name), Some(7.0));
        let shallow = testing::sample(&EXPERIMENT, &GROWING.count(10).params());
        assert_eq!(shallow.value(GROWN.name), Some(0.0));
        assert_eq!(crate::guests::core_files(), [""; 0]);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                of_32_bits(THREADS).address_mib(3072),
                "address_mib is 3072; it must be 0, where build is 32-bit",
            ),
            (
                GROWING.stack_by(StackBy::Ulimit),
                "stack_by is ulimit; it must be attribute, where trial is growing",
            ),
            (
                GROWING.guard_kib(0),
                "guard_kib is 0; it must be at least 4, where trial is growing",
            ),
        ] {
            let reason = testing::sample(&EXPERIMENT, &case.params()).reason.unwrap();
            assert!(reason.contains(says), "{reason}");
        }
        let sample = testing::sample(&EXPERIMENT, &RECURSION.unit(Unit::Process).params());
        let reason = sample.reason.unwrap();
        assert!(
            reason.contains("unit is process; it must be thread, where trial is recursion"),
            "{reason}"
        );
    }
}
