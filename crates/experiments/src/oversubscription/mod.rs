//! Question: what does it cost when many threads or processes share the CPUs and keep giving them up, and what does
//! a second CPU bring?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print; `units` runs a case. Here are the
//! cases and what is read off their figures. Each statistic is one function, which claims, facts, charts and tables
//! share. The source's lines are the same functions, applied to its run times.

use threadgauge_lab::prelude::*;

use self::case::{Case, Mode, Unit, Work};
use self::statistics::{CONTROLS, COUNTS, ONE, SHORT_WORK, threads};
use self::units::{ELAPSED, MATCHED_ON};

mod case;
mod claims;
mod curve;
mod drawn;
mod matched;
mod reading;
mod statistics;
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
    how: "A fixed amount of work (`work_s`: all units' together on one CPU) is shared equally by `count` threads or \
         processes. After each slice of it (`slice_us`) a unit yields (mode yield), goes on (neither) or sleeps for 1 ms \
         (sleep: the same work in 256 longer pieces, or one a unit, so that sleeping one after the other stays under \
         0.5 s). Both are numbers of dependent integer steps at a nominal 781.25 a microsecond, so that every case and \
         round does the same work; `slice_ns` is what a slice took here. Claims are judged on the *matched* slice, at \
         which two yielding threads on one CPU cost 1 %, as in the source: each sample first measures what a switch \
         between two adds to a yield (five short runs of one thread and of two on one CPU, the least of each) and works \
         a hundred times as long between two yields (`matched_on_ns`). `elapsed_ns` runs from the moment at which all \
         units stand ready to run to the last one's finish; `start_ns` and `end_ns` are creating and ending them, \
         `total_ns` is all of it. Claims use `elapsed_ns`, since they are about switching. Measured cold, once an \
         invocation.",
    control: "Mode neither: the same units and shares without giving up the CPU, at every count of the shortest slice and \
         beside every cell of *what yielding costs, by the work between two switches*. The price of a switch is the \
         paired difference over the switches that really happened (getrusage). The matched slice is confirmed by the \
         cell of two yielding threads on one CPU, which is then evidence of no claim.",
    traps: &[
        "Overheads hang on the slice: a switch costs what it costs, and the overhead is that over the work between two. \
         At 1.6 µs it is most of the time, at 1 ms nothing that can be measured.",
        "The base is one yielding unit on one CPU and two on two CPUs, as in the source: a yield that finds nobody \
         else (a third of 1.6 µs here) is in the base and not in the overhead.",
        "A scheduler may ignore a yield: see switches_per_slice. Two units on two CPUs never switch; their yields \
         return at once.",
        "What each unit costs once weighs more the less work is shared. Claims count only cells in which each thread \
         has ten slices or more, and from 1,024 threads on some twenty, as the source's had at 8,192: quick has them for \
         128 threads, standard for 512, paper for all, with ten seconds of work. Compare runs with the same `work_s` only.",
        "Where a claim is about more threads than a run has, the run can refute it and not confirm it.",
        "With other programs running, units that should have two CPUs share one for a while: see the tag \
         low-overlap.",
        "Stacks are 64 KiB. With the usual 8 MiB, starting and ending take a fifth longer, and switching among a \
         thousand threads too: each stack then needs page tables of its own. All stacks are one mapping, so that \
         start_ns and end_ns hold little of mapping them.",
    ],
    source: "Source 001: N threads on Windows NT 4, 2000, XP and 98 call Sleep(0); program, work between two calls, \
         repeats and what its times include are not given, and a run took about ten seconds. Its 1 % with two \
         threads on one CPU says how long its slice was: a hundred times what a switch added. It measured threads that \
         yield; the controls, processes, sleeping units, counted switches and other slices are ours. We compare \
         overheads and gains, not milliseconds.",
    calls: &[
        "threadgauge run oversubscription --set slice_us=50,500 --set work_s=2 --only unit=thread,cpus=1,count=1,2,32",
        "threadgauge run oversubscription --set slice_us=10,20,40,80 --set work_s=0.5 --only count=2,32,cpus=1",
        "threadgauge run oversubscription --set slice_us=matched --set work_s=5 --only unit=thread,mode=yield,count=1,2,32,128",
    ],
    plan,
    run,
    read,
};

/// Those that quick and standard have of the shortest slice: for facts, costs and comparisons.
const SOME: [u64; 7] = [1, 2, 32, 64, 128, 1024, 8192];

fn plan(site: &Site) -> Plan {
    let mut cases = at_the_matched_slice(site);
    cases.extend(at_the_shortest_slice(site.profile));
    cases.extend(curve::cases(site.profile));
    Plan {
        cases: cases.into_iter().map(planned).collect(),
        reference: ONE.short().control().pattern(1),
        budget: Duration::from_millis(site.profile.pick(55_000, 320_000, 14_400_000)),
    }
}

/// The cells of the claims: as many threads as each have enough slices of the work.
fn at_the_matched_slice(site: &Site) -> Vec<Case> {
    let (most, work_ms) = site.profile.pick((128, 150), (512, 550), (8_192, 10_000));
    let work = Work::ms(work_ms);
    let counts = || COUNTS.into_iter().filter(|&n| n <= most);
    let of = |cpus: u64, count: u64| ONE.work_s(work).cpus(cpus).count(count);
    let mut cases: Vec<Case> = [1, 2]
        .into_iter()
        .flat_map(|cpus| counts().map(move |n| of(cpus, n)))
        .collect();
    let sleeping = |cpus| [64, 512].map(|n| of(cpus, n).mode(Mode::Sleep));
    if site.profile != Profile::Quick {
        cases.extend([1, 2].into_iter().flat_map(sleeping));
    }
    let many = site.profile.pick(&[128][..], &[128], &COUNTS[2..]);
    for cpus in further_cpus(site.cpus.len() as u64) {
        cases.extend(many.iter().map(|&n| of(cpus, n)));
    }
    cases
}

/// What comes after two CPUs, to all there are: twice as many each time.
fn further_cpus(all: u64) -> Vec<u64> {
    let doubling = std::iter::successors(Some(4), |cpus| Some(cpus * 2));
    let mut further: Vec<u64> = doubling.take_while(|cpus| *cpus < all).collect();
    further.extend((all > 2).then_some(all));
    further
}

/// The cells of what a switch costs.
fn at_the_shortest_slice(profile: Profile) -> Vec<Case> {
    let some = |quick: &'static [u64], standard: &'static [u64]| profile.pick(quick, standard, &COUNTS[..]);
    let processes = profile.pick(&[][..], &[1, 64, 1024], &[1, 2, 4, 16, 64, 256, 1024]);
    let sleeping = profile.pick(
        [&[64][..], &[][..]],
        [&[1, 64][..]; 2],
        [&[1, 2, 16, 64, 256, 1024, 4096][..]; 2],
    );
    let sleeping_processes = profile.pick(&[][..], &[], &[64, 1024]);
    let groups = [
        (
            Unit::Thread,
            Mode::Yield,
            [some(&SOME, &SOME), some(&[1, 2, 64, 1024], &SOME[..6])],
        ),
        (
            Unit::Thread,
            Mode::Neither,
            [some(CONTROLS, &COUNTS), some(&[64, 1024], &SOME[..6])],
        ),
        (Unit::Thread, Mode::Sleep, sleeping),
        (Unit::Process, Mode::Yield, [processes; 2]),
        (Unit::Process, Mode::Neither, [processes; 2]),
        (Unit::Process, Mode::Sleep, [sleeping_processes; 2]),
    ];
    let mut cases = Vec::new();
    for (unit, mode, counts) in groups {
        for (counts, cpus) in counts.into_iter().zip(1..) {
            let group = threads(mode, cpus).unit(unit).short().work_s(SHORT_WORK);
            cases.extend(counts.iter().map(|&count| group.count(count)));
        }
    }
    cases
}

fn planned(case: Case) -> PlannedCase {
    PlannedCase {
        check: |params| Case::to_run(params).map(drop),
        takes: Some(|params| Case::to_run(params).ok().map(Case::estimate)),
        ..PlannedCase::new(case, case.estimate())
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::to_run(params)?;
    let step_ns = units::step_ns();
    let slice = match (case.slice_us.steps(), case.mode) {
        (Some(steps), _) => steps,
        (None, Mode::Yield) => {
            let switch_ns = matched::switch_ns()?;
            worker.record(MATCHED_ON, switch_ns);
            matched::slice(switch_ns, step_ns)
        }
        // They give up the CPU elsewhere, or not at all.
        (None, Mode::Neither | Mode::Sleep) => case.share(),
    };
    units::run(case, slice, step_ns, worker)
}

fn read(view: &View<'_>) -> Answer {
    let cases = statistics::of_today(view);
    let today = &View {
        cases: &cases,
        ..*view
    };
    let mut comparisons = reading::comparisons();
    if statistics::is_old(view) {
        for Pair { a, b } in &mut comparisons {
            [a, b].into_iter().for_each(statistics::as_of_old);
        }
    }
    Answer {
        answer: reading::answer(today),
        number: reading::number(today),
        claims: claims::claims(today),
        facts: reading::facts(today),
        comparisons,
        figures: drawn::charts(today),
        tables: vec![drawn::first_table(today), drawn::second_table(today)],
        costs: reading::costs(today),
        ..Answer::default()
    }
}
