//! Question: is a computation done sooner by threads than by processes?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `guests/c/compute.c` does it.

use std::process::Stdio;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Table};

use crate::channels::{NO_SIBLINGS, Placement, Unit, cores_with_siblings};
use crate::guests::{Found, Guest, figures, guest};

/// Computes.
const COMPUTE: Guest = guest!("compute");
/// From before the first unit is made until the last has ended.
const ELAPSED: Metric = metric("elapsed_ns", "ns");
/// The share of that time, of all CPUs that the units can use, in which they computed.
const UTILISATION: Metric = metric("utilisation", "share");
/// CPU time of making, computing and ending.
const CPU: Metric = metric("cpu_ns", "ns");
/// How many cores have two of the CPUs of this case.
const SIBLINGS: Metric = metric("cores_with_siblings", "count");

words! {
    /// What is computed.
    enum Work {
        /// In registers alone.
        Integer = "integer",
        /// From matrices that were there before the units.
        Matrix = "matrix",
    }
}

point! {
    /// A point of the grid.
    struct Case {
        unit: Unit,
        work: Work,
        units: u64 = 1..=4096,
        /// Thousand steps of each unit.
        ksteps: u64 = 1..=100_000_000,
        placement: Placement,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "compute",
    question: "Is a computation done sooner by several threads than by as many processes, and what of the CPUs is used?",
    first_run: false,
    sources: &["003", "004"],
    primary: &[ELAPSED],
    how: "A small C program makes `units` threads (pthread_create) or processes (fork), each computes `ksteps` thousand steps of \
          about a nanosecond, and all are waited for; `elapsed_ns` is all of that. integer: a step is a multiplication and an \
          addition in registers. matrix: rows of the product of two matrices that were there before, four of these to a \
          step. `utilisation` is the CPU time of the computing alone over the elapsed time of as many CPUs as units can use. \
          The scheduler places the units on the CPUs of the case.",
    control: "The same program does the same work on both sides, and every unit's result must be the first one's.",
    traps: &[
        "Units that compute for tens of milliseconds and share nothing differ in being made and ended alone: a hundredth of \
         their time or less. The shorter they are, the more of it.",
        "A process begins with copies of page tables and without a filled TLB: what it touches first costs page faults.",
        "What processes must pay for handing over their results is not in it: `handover` has that.",
        "CPU time of computing that waits for memory counts as used.",
    ],
    source: "Source 003 says in words that threads are the better choice for heavy computation, and that processes use the CPU \
             less well; source 004 that two virtual CPUs of one core are not two CPUs. Neither measured it so. The \
             work is ours.",
    calls: &[],
    plan,
    run,
    read,
};

/// A heavy computation, tens of milliseconds for each unit, and shorter ones.
const HEAVY: u64 = 40_000;
const KSTEPS: [u64; 4] = [100, 1_000, 10_000, HEAVY];
const BOTH: [Unit; 2] = [Unit::Thread, Unit::Process];

/// Two threads on one CPU.
const THREADS: Case = Case {
    unit: Unit::Thread,
    work: Work::Integer,
    units: 2,
    ksteps: HEAVY,
    placement: Placement::Same,
    cpus: 1,
};

impl Case {
    /// A unit for each CPU.
    const fn on_all(self, cpus: u64) -> Self {
        self.units(cpus).placement(Placement::Free).cpus(cpus)
    }

    fn time(self) -> Statistic {
        ELAPSED.of(self)
    }

    /// Reads parameters, which `--set` may have changed.
    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        if case.unit == Unit::Coroutine {
            return Err(refused(
                params,
                "unit",
                "one that the kernel runs: thread, process or shared-process",
            ));
        }
        case.placement.check(params).map(|()| case)
    }

    fn planned(self) -> PlannedCase {
        PlannedCase {
            skip: COMPUTE.missing(),
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, self.takes())
        }
    }

    /// As many CPUs as its units can use.
    fn used_cpus(self) -> u64 {
        self.units.min(match self.placement {
            Placement::Same => 1,
            Placement::Across | Placement::Sibling => 2,
            Placement::Free => self.cpus,
        })
    }

    /// On a virtual machine with two CPUs.
    fn takes(self) -> Duration {
        let each_us = match self.unit {
            Unit::Process => 170,
            _ => 40,
        };
        // A step of 1.1 ns.
        let computing_us = self.ksteps * 11 / 10 * self.units.div_ceil(self.used_cpus());
        Duration::from_micros(10_000 + self.units * each_us + computing_us)
    }
}

/// What the claims about threads and processes compare, in threads.
fn claimed(cpus: u64) -> [Case; 4] {
    let of = |work| [THREADS.work(work), THREADS.work(work).on_all(cpus)];
    let [integer, matrix] = Work::ALL.map(of);
    [integer[0], integer[1], matrix[0], matrix[1]]
}

/// Two threads on two cores, and on one.
fn cores_and_siblings(cpus: u64) -> [Case; 2] {
    [
        THREADS.placement(Placement::Across).cpus(2),
        THREADS.placement(Placement::Sibling).cpus(cpus),
    ]
}

/// Up to twice as many units as CPUs, and four at least.
fn counts(cpus: u64) -> Vec<u64> {
    let most = (2 * cpus).clamp(4, 512);
    (0..).map(|power| 1 << power).take_while(|n| *n <= most).collect()
}

fn plan(site: &Site) -> Plan {
    let all_cpus = (site.cpus.len() as u64).max(2);
    let mut cases = Vec::new();
    for unit in BOTH {
        cases.extend(claimed(all_cpus).map(|case| case.unit(unit)));
    }
    cases.extend(cores_and_siblings(all_cpus));
    if site.profile != Profile::Quick {
        for unit in BOTH.into_iter().chain([Unit::SharedProcess]) {
            for work in Work::ALL {
                let on_all = THREADS.unit(unit).work(work).on_all(all_cpus);
                cases.extend(KSTEPS.map(|ksteps| on_all.ksteps(ksteps)));
                let counted = counts(all_cpus)
                    .into_iter()
                    .map(|n| on_all.units(n).ksteps(KSTEPS[2]));
                cases.extend(counted);
            }
        }
    }
    let mut once: Vec<Case> = Vec::new();
    for case in cases {
        if !once.contains(&case) {
            once.push(case);
        }
    }
    Plan {
        cases: once.into_iter().map(Case::planned).collect(),
        reference: THREADS.params(),
        budget: Duration::from_secs(site.profile.pick(24, 240, 1800)),
    }
}

figures! {
    /// What `guests/c/compute.c` answers.
    struct Computed {
        wall_ns,
        computing_ns,
        cpu_ns,
        result,
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let found: Found<Computed> = COMPUTE.ask(
        worker,
        Stdio::null(),
        &[
            &case.unit.name(),
            &case.work.name(),
            &case.units,
            &case.ksteps,
            &case.placement.pinned()?,
        ],
        PlannedCase::new(case, case.takes()).deadline(),
        case.unit.made_by(),
    )?;
    let computed = found.figures;
    if computed.result == 0 {
        return Err(CaseError::Failed("the program in C computed nothing".to_owned()));
    }
    let elapsed_ns = computed.wall_ns as f64 * found.stretch;
    let utilisation = computed.computing_ns as f64 / (elapsed_ns * case.used_cpus() as f64);
    worker.tag("cold");
    worker.record(ELAPSED, elapsed_ns);
    worker.record(UTILISATION, utilisation);
    worker.record(CPU, computed.cpu_ns as f64);
    if case.placement == Placement::Free {
        worker.record(SIBLINGS, cores_with_siblings()?.len() as f64);
    }
    if case.units <= case.used_cpus() {
        worker.noise("overlap", utilisation.min(1.0));
        if utilisation < 0.95 {
            worker.tag("low-overlap");
        }
    }
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view.number(
            "processes ÷ threads: time for the same computation, on all CPUs",
            &over_threads(THREADS.on_all(view.all_cpus().unwrap_or(1)), Unit::Process),
            "ratio",
        ),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: vec![sides(view)],
        ..Answer::default()
    }
}

/// What a kind of unit takes of the time of threads.
fn over_threads(threads: Case, unit: Unit) -> Statistic {
    threads.unit(unit).time().over(threads.time())
}

/// The utilisation of threads over that of processes.
fn better_used(threads: Case) -> Statistic {
    let of = |unit| UTILISATION.of(threads.unit(unit));
    of(Unit::Thread).over(of(Unit::Process))
}

/// A case's place and work, in words.
fn words_of(case: Case) -> String {
    format!(
        "work={},units={},cpus={}",
        case.work.name(),
        case.units,
        case.cpus
    )
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let cells = |cpus: u64, of: fn(Case) -> Statistic, least_cpus: u64| {
        let cases = claimed(cpus)
            .into_iter()
            .filter(move |case| case.cpus >= least_cpus);
        each(Quote::Smallest, cases.map(|case| (words_of(case), of(case))))
    };
    let sooner = |case| over_threads(case, Unit::Process);
    // One CPU is used as well or as badly as several.
    let used = match view.all_cpus().filter(|&all| view.lacks_cpus(all).is_none()) {
        Some(all) => cells(all, better_used, 1),
        None => {
            let on_one = claimed(2).into_iter().filter(|case| case.cpus == 1);
            each(
                Quote::Smallest,
                on_one.map(|case| (words_of(case), better_used(case))),
            )
        }
    };
    vec![
        (
            "threads-best-for-heavy-computation",
            on_all_cpus(view, |all| cells(all, sooner, 2)),
        ),
        ("process-cpu-use-lower", used),
        ("smt-is-not-a-second-cpu", on_all_cpus(view, |all| smt(view, all))),
    ]
}

/// What two threads do on one core over what they do on two, where a core has two CPUs.
fn smt(view: &View<'_>, all: u64) -> Test {
    let [cores, siblings] = cores_and_siblings(all);
    if view.value(&SIBLINGS.of(THREADS.on_all(all))) == Some(0.0) {
        return not_testable(NO_SIBLINGS);
    }
    cores.time().over(siblings.time()).into()
}

fn answer(view: &View<'_>) -> String {
    let all = view.all_cpus().unwrap_or(1);
    let on = |case: Case| {
        let times = view.estimate(&over_threads(case, Unit::Process))?;
        let used = |unit| Some(view.estimate(&UTILISATION.of(case.unit(unit)))?.plain("share"));
        let cpus = if case.cpus == 1 { "CPU" } else { "CPUs" };
        Some(format!(
            "on {} {cpus} {} processes take {} times as long as threads and use {} of the CPU for computing against {}",
            case.cpus,
            case.units,
            times.plain("ratio"),
            used(Unit::Process)?,
            used(Unit::Thread)?
        ))
    };
    let parts: Vec<String> = [THREADS.on_all(all), THREADS]
        .into_iter()
        .filter_map(on)
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    let differs = |case: Case| view.resolved(&over_threads(case, Unit::Process).less_one());
    let conclusion = match [THREADS.on_all(all), THREADS].into_iter().any(differs) {
        true => "",
        false => " These rounds show no difference: choose between them on other grounds.",
    };
    format!("For the same computation, {}.{conclusion}", parts.join("; "))
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |of: Statistic, says: String| {
        let figure = view.estimate(&of)?;
        Some(figure.fact(says.replace("{}", &figure.show("ratio")), "ratio"))
    };
    let all = view.all_cpus().unwrap_or(1);
    let of_work = |work: Work| {
        let heavy = THREADS.work(work).on_all(all);
        let name = work.name();
        [
            fact(
                over_threads(heavy, Unit::Process),
                format!(
                    "A heavy computation ({name}) on {all} CPUs takes processes {{}} times as long as threads."
                ),
            ),
            fact(
                over_threads(heavy.ksteps(KSTEPS[0]), Unit::Process),
                format!(
                    "One of {} thousand steps a unit ({name}) takes processes {{}} times as long as threads.",
                    KSTEPS[0]
                ),
            ),
            fact(
                THREADS.work(work).time().over(heavy.units(2).time()),
                format!("Two threads ({name}) take {{}} times as long on one CPU as on {all}."),
            ),
        ]
    };
    Work::ALL.map(of_work).into_iter().flatten().flatten().collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let planned = view.planned(Params::new().with("unit", Unit::Thread.name()));
    let threads = planned.filter_map(|params| Case::read(params).ok());
    let pairs =
        threads.flat_map(|case| [Unit::Process, Unit::SharedProcess].map(|unit| (case, case.unit(unit))));
    let both = pairs.filter(|(_, other)| view.planned(*other).next().is_some());
    both.map(|(case, other)| Pair::of(&case.time(), &other.time()))
        .collect()
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let all = view.all_cpus().unwrap_or(1);
    let lengths = Work::ALL.into_iter().fold(
        Chart::new(
            view,
            "lengths",
            format!("What processes take of the time of threads, on {all} CPUs"),
        )
        .x(Scale::Log, "thousand steps of each unit")
        .y(Scale::Log, "elapsed time, times that of threads")
        .note("A unit for each CPU, made, run and ended. A thousand steps are about a microsecond.")
        .at_least(2),
        |chart, work| {
            let of = |unit, ksteps| over_threads(THREADS.work(work).on_all(all).ksteps(ksteps), unit);
            let line = |unit| KSTEPS.map(|ksteps| (ksteps, of(unit, ksteps)));
            chart
                .line(format!("processes, {}", work.name()), line(Unit::Process))
                .line(
                    format!("processes in shared memory, {}", work.name()),
                    line(Unit::SharedProcess),
                )
        },
    );
    let used = Work::ALL.into_iter().fold(
        Chart::new(
            view,
            "utilisation",
            format!("How much of {all} CPUs is used for computing"),
        )
        .x(Scale::Log, "units")
        .y(Scale::Linear, "share of the CPUs that units can use")
        .note(format!("{} million steps a unit.", KSTEPS[2] / 1000))
        .at_least(2),
        |chart, work| {
            BOTH.into_iter().fold(chart, |chart, unit| {
                let case = THREADS.unit(unit).work(work).on_all(all).ksteps(KSTEPS[2]);
                let points = counts(all)
                    .into_iter()
                    .map(|n| (n, UTILISATION.of(case.units(n))));
                chart.line(format!("{}, {}", unit.name(), work.name()), points)
            })
        },
    );
    [lengths, used].into_iter().filter_map(Chart::drawn).collect()
}

/// Threads and processes side by side, in the cells of the claims.
fn sides(view: &View<'_>) -> Table {
    let row = |threads: Case| {
        let shown = |metric: Metric, unit: Unit| view.shown(&metric.of(threads.unit(unit)), metric.unit);
        let mut row = vec![
            threads.work.name().to_owned(),
            threads.units.to_string(),
            threads.cpus.to_string(),
        ];
        row.extend(
            [ELAPSED, UTILISATION]
                .iter()
                .flat_map(|metric| BOTH.map(|unit| shown(*metric, unit))),
        );
        view.measured(&threads.time()).then_some(row)
    };
    table(
        "sides",
        "The same computation by threads and by processes",
        format!("{HEAVY} thousand steps of each unit, with making and ending it."),
        [
            "work",
            "units",
            "CPUs",
            "threads",
            "processes",
            "CPU used, threads",
            "CPU used, processes",
        ],
        claimed(view.all_cpus().unwrap_or(1))
            .into_iter()
            .filter_map(row)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_results::Verdict;

    #[test]
    fn every_kind_of_unit_computes_the_same() {
        for work in Work::ALL {
            for unit in [Unit::Thread, Unit::Process, Unit::SharedProcess] {
                for case in [THREADS.units(3).placement(Placement::Free), THREADS] {
                    let case = case.unit(unit).work(work).ksteps(200);
                    let sample = testing::measured(&EXPERIMENT, &case.params());
                    let value = |metric: Metric| sample.value(metric.name).unwrap();
                    assert!(value(ELAPSED) > 0.0 && value(UTILISATION) > 0.0, "{sample:?}");
                    // The time of computing is a part of the CPU time, which is counted in microseconds for processes.
                    let computing_ns = value(UTILISATION) * value(ELAPSED) * case.used_cpus() as f64;
                    assert!(computing_ns <= value(CPU) + 1e5, "{sample:?}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                THREADS.unit(Unit::Coroutine),
                "unit is coroutine; it must be one that the kernel runs",
            ),
            (
                THREADS.cpus(2),
                "cpus is 2; it must be 1, where placement is same",
            ),
            (THREADS.ksteps(0), "ksteps is 0; it must be a number from 1"),
        ] {
            let error = Case::possible(&case.params()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    /// The quick profile on two CPUs: what a process takes of a thread's time, and how many cores have siblings.
    fn run_of(process: impl Fn(Case) -> f64, siblings: f64) -> View<'static> {
        let cases = plan(&testing::site(Profile::Quick, 2))
            .cases
            .into_iter()
            .map(|planned| {
                let case = Case::possible(&planned.params).unwrap();
                let rounds = |value: f64| {
                    (0..7)
                        .map(|i| value * (1.0 + f64::from(i) / 1e4))
                        .collect::<Vec<_>>()
                };
                let times = match (case.unit, case.placement) {
                    (Unit::Process, _) => process(case),
                    // On one core two threads take longer.
                    (_, Placement::Sibling) => 1.6,
                    _ => 1.0,
                };
                let figures = [
                    (ELAPSED, rounds(4e7 * times)),
                    (UTILISATION, rounds(0.9 / times)),
                    (SIBLINGS, vec![siblings; 7]),
                ];
                testing::case(planned.params, figures)
            });
        testing::view("compute", Profile::Quick, cases.collect())
    }

    fn verdict(view: &View<'_>, id: &str) -> Verdict {
        let claims = claims(view);
        let (_, test) = claims.iter().find(|(of, _)| *of == id).unwrap();
        testing::verdict(test, id, view).unwrap()
    }

    const SOONER: &str = "threads-best-for-heavy-computation";
    const USED: &str = "process-cpu-use-lower";
    const SMT: &str = "smt-is-not-a-second-cpu";

    #[test]
    fn the_claims_are_about_every_work_and_place() {
        let dear = run_of(|_| 1.2, 0.0);
        assert_eq!([SOONER, USED].map(|id| verdict(&dear, id)), [Verdict::Holds; 2]);
        let alike = run_of(|_| 1.01, 0.0);
        assert_eq!(
            [SOONER, USED].map(|id| verdict(&alike, id)),
            [Verdict::DoesNotHold; 2]
        );
        let matrices_alone = run_of(|case| if case.work == Work::Matrix { 1.2 } else { 1.0 }, 0.0);
        assert_eq!(verdict(&matrices_alone, SOONER), Verdict::DoesNotHold);
        // The first claim is about several CPUs, the second about one as well.
        let several_alone = run_of(|case| if case.cpus == 2 { 1.2 } else { 1.0 }, 0.0);
        assert_eq!(verdict(&several_alone, SOONER), Verdict::Holds);
        assert_eq!(verdict(&several_alone, USED), Verdict::DoesNotHold);
    }

    #[test]
    fn on_one_cpu_what_needs_two_is_not_testable() {
        let view = testing::changed(run_of(|_| 1.2, 1.0), |cases| {
            for case in cases.iter_mut().filter(|c| c.params.int("cpus") == Some(2)) {
                *case = testing::lacking(case.params.clone(), Lack::cpus(2, 1));
            }
        });
        assert_eq!(
            [SOONER, SMT].map(|id| verdict(&view, id)),
            [Verdict::NotTestable; 2]
        );
        assert_eq!(verdict(&view, USED), Verdict::Holds);
    }

    #[test]
    fn a_core_of_two_cpus_is_wanted_for_what_is_said_of_one() {
        assert_eq!(verdict(&run_of(|_| 1.0, 0.0), SMT), Verdict::NotTestable);
        assert_eq!(verdict(&run_of(|_| 1.0, 1.0), SMT), Verdict::Holds);
    }

    #[test]
    fn what_is_read_off_has_its_figures() {
        let view = run_of(|_| 1.5, 0.0);
        assert_eq!(
            answer(&view),
            "For the same computation, on 2 CPUs 2 processes take 1.50 times as long as threads and use 60.0 % of the CPU for \
             computing against 90.0 %; on 1 CPU 2 processes take 1.50 times as long as threads and use 60.0 % of the CPU for \
             computing against 90.0 %."
        );
        assert_eq!((facts(&view).len(), sides(&view).rows.len()), (4, 4));
        let nothing = testing::view("compute", Profile::Quick, Vec::new());
        assert!(answer(&nothing).is_empty());
        assert!(charts(&nothing).is_empty() && facts(&nothing).is_empty());
    }
}
