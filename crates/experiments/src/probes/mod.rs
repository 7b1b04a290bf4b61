//! Question: several small ones that source 000 answers in passing. Do sleepers slow others? Does slicing matrix work
//! cost? Does reading the clock give up the CPU? Does a timer stop its thread? Does a compiler remove an empty loop?
//!
//! One file a probe; how each is measured is said in `EXPERIMENT`.

use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Lack};

use crate::guests::{EMPTY_LOOP_OPTIMISED, EMPTY_LOOP_PLAIN};

use self::clock_reading::{SWITCHES, VOLUNTARY};
use self::timer::ON_CPU;

mod clock_reading;
mod empty_loop;
mod matrix;
mod neighbours;
mod timer;

/// What all of them have.
const NS: Metric = metric("ns", "ns");

words! {
    enum What {
        Neighbours = "neighbours",
        Matrix = "matrix",
        Clock = "clock",
        Timer = "timer",
        EmptyLoop = "empty-loop",
    }
}

words! {
    enum How {
        Alone = "alone",
        Sleeping = "sleeping",
        Computing = "computing",
        Serial = "serial",
        Threads = "threads",
        Reading = "reading",
        TenMillionReadings = "ten-million-readings",
        Armed = "armed",
        Unarmed = "unarmed",
        Plain = "plain",
        Optimised = "optimised",
    }
}

point! {
    struct Case { what: What, how: How, cpus: u64 = 1..=1 }
}

/// A probe: its case, the time of a sample (ms), and the function that does it and returns how long it took (ns).
type Probe = (What, How, u64, fn(&mut Worker) -> Result<f64, CaseError>);

const PROBES: [Probe; 12] = [
    (What::Neighbours, How::Alone, 20, neighbours::alone),
    (What::Neighbours, How::Sleeping, 27, neighbours::sleeping),
    (What::Neighbours, How::Computing, 210, neighbours::computing),
    (What::Matrix, How::Serial, 45, matrix::serial),
    (What::Matrix, How::Threads, 45, matrix::threads),
    (What::Clock, How::Reading, 27, clock_reading::a_million),
    (
        What::Clock,
        How::TenMillionReadings,
        260,
        clock_reading::ten_million,
    ),
    (What::Clock, How::Computing, 36, clock_reading::computing),
    (What::Timer, How::Armed, 24, timer::armed),
    (What::Timer, How::Unarmed, 24, timer::unarmed),
    (What::EmptyLoop, How::Plain, 48, empty_loop::plain),
    (What::EmptyLoop, How::Optimised, 52, empty_loop::optimised),
];

const fn case(what: What, how: How) -> Case {
    Case { what, how, cpus: 1 }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "probes",
    question: "Do sleepers slow others, does slicing matrix work cost, does reading the clock give up the CPU, does a timer stop its \
         thread, does a compiler remove an empty loop?",
    first_run: true,
    sources: &["000"],
    primary: &[NS],
    how: "Each on one CPU, in a worker of its own, timed as `ns`. neighbours: 10 ms of fixed work alone, beside 16 threads \
                  that sleep 10 ms at a time, beside 16 that compute. matrix: four products of 192 × 192 matrices (0.8 MiB \
                  each), eight times over, one after the other and in four threads. clock: ten million readings in a row (one million in the \
                  quick profile, which has no time for ten), and the switches meanwhile for each million. timer: computing until a timer of 20 ms expires, and the share of that time on the CPU. \
                  empty-loop: a C program that counts to 20 million and does nothing else, compiled without and with \
                  optimisation by the C compiler of the machine that this laboratory was built on.",
    control: "alone, serial, computing for as long as the readings take, the same without a timer, and the plain \
                      compilation: the first or second case of each pair.",
    traps: &[
        "A switch that falls into the readings is not one that they caused: the control has as many, and only a voluntary one is \
                 the thread's own.",
        "What slicing costs depends on the caches and on how long a scheduler lets each run.",
    ],
    source: "Source 000 states all five for Windows NT and 95 without figures.",
    calls: &[],
    plan,
    run,
    read,
};

fn plan(site: &Site) -> Plan {
    let planned = |(what, how, takes_ms, _)| PlannedCase {
        skip: lack(what, how),
        ..PlannedCase::new(case(what, how), Duration::from_millis(takes_ms))
    };
    // The claim is about ten million readings, for which quick has no time.
    let other = site
        .profile
        .pick(How::TenMillionReadings, How::Reading, How::Reading);
    Plan {
        cases: PROBES
            .into_iter()
            .filter(|(_, how, ..)| *how != other)
            .map(planned)
            .collect(),
        reference: case(What::Neighbours, How::Alone).params(),
        budget: Duration::from_secs(site.profile.pick(5, 30, 60)),
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::read(params)?;
    let probe = PROBES
        .iter()
        .find(|(what, how, ..)| (case.what, case.how) == (*what, *how));
    let Some((.., probe)) = probe else {
        return Err(CaseError::Failed(format!("there is no probe {params}")));
    };
    let ns = probe(worker)?;
    worker.record(NS, ns);
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view.number(
            "fixed work beside 16 threads that mostly sleep ÷ alone: time, one CPU",
            &sleepers(),
            "ratio",
        ),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(),
        figures: chart(view).into_iter().collect(),
        ..Answer::default()
    }
}

/// What this build lacks for a probe.
fn lack(what: What, how: How) -> Option<Lack> {
    match (what, how) {
        (What::EmptyLoop, How::Plain) => EMPTY_LOOP_PLAIN.missing(),
        (What::EmptyLoop, _) => EMPTY_LOOP_OPTIMISED.missing(),
        _ => None,
    }
}

/// A probe's time over that of its control.
fn over(what: What, [how, control]: [How; 2]) -> Statistic {
    NS.of(case(what, how)).over(NS.of(case(what, control)))
}

fn sleepers() -> Statistic {
    over(What::Neighbours, [How::Sleeping, How::Alone])
}

fn computing() -> Statistic {
    over(What::Neighbours, [How::Computing, How::Alone])
}

fn sliced() -> Statistic {
    over(What::Matrix, [How::Threads, How::Serial])
}

fn removed() -> Statistic {
    over(What::EmptyLoop, [How::Optimised, How::Plain])
}

fn on_cpu() -> Statistic {
    ON_CPU.of(case(What::Timer, How::Armed))
}

/// The readings of this run.
fn readings(view: &View<'_>) -> Case {
    let ten_million = case(What::Clock, How::TenMillionReadings);
    match view.planned(ten_million).next() {
        Some(_) => ten_million,
        None => case(What::Clock, How::Reading),
    }
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let reading = |metric: Metric| metric.of(readings(view));
    vec![
        (
            "io-threads-do-not-slow-others",
            Test::from(sleepers().less_one()).also(
                "computing neighbours slow it down more",
                Range::at_least(1.0).of("ratio"),
                over(What::Neighbours, [How::Computing, How::Sleeping]),
            ),
        ),
        ("slicing-long-matrix-work-loses", sliced().into()),
        (
            "clock-reading-yields-cpu",
            // The scheduler preempts any thread, so some switches must be voluntary.
            Test::from(reading(SWITCHES)).also(
                "the thread itself gave up the CPU",
                Range::at_least(1.0).of("switches"),
                reading(VOLUNTARY),
            ),
        ),
        ("timer-thread-is-suspended", on_cpu().into()),
        ("empty-loop-removed-by-compiler", removed().into()),
    ]
}

fn comparisons() -> Vec<Pair> {
    let pair = |what, a, b| Pair {
        a: case(what, a).params(),
        b: case(what, b).params(),
    };
    vec![
        pair(What::Neighbours, How::Alone, How::Sleeping),
        pair(What::Neighbours, How::Alone, How::Computing),
        pair(What::Matrix, How::Serial, How::Threads),
        pair(What::EmptyLoop, How::Plain, How::Optimised),
    ]
}

/// All five in a sentence; the facts have a sentence each.
fn answer(view: &View<'_>) -> String {
    let figure = |statistic: Statistic, unit: &str| Some(view.estimate(&statistic)?.plain(unit));
    let neighbours = || {
        let [sleeping, computing] = [sleepers(), computing()].map(|of| figure(of, "ratio"));
        let (sleeping, computing) = (sleeping?, computing?);
        Some(format!(
            "work takes {sleeping} times as long beside 16 sleepers ({computing} beside 16 that compute)"
        ))
    };
    let parts = [
        neighbours(),
        figure(sliced(), "ratio")
            .map(|times| format!("matrix products in four threads {times} times as long as in turn")),
        figure(SWITCHES.of(readings(view)), "count")
            .map(|switches| format!("a million readings of the clock see {switches} context switches")),
        figure(on_cpu(), "share")
            .map(|share| format!("a timer leaves its thread the CPU for {share} of the time")),
        figure(removed(), "share")
            .map(|share| format!("an empty loop takes {share} of its time once optimised")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("On one CPU, {}.", parts.join("; "))
}

/// What slows work and what does not.
fn chart(view: &View<'_>) -> Option<Figure> {
    Chart::new(view, "slower", "What makes the same work take longer")
        .note("Beside others, it is the time of work that has the CPU to itself otherwise; in threads, that of one product after the other.")
        .x(Scale::Category, "the work")
        .y(Scale::Log, "time, times that of the work alone or in turn")
        .line(
            "on one CPU",
            [
                ("beside 16 threads that sleep", sleepers()),
                ("beside 16 that compute", computing()),
                ("matrices in four threads", sliced()),
            ],
        )
        .drawn()
}

/// One sentence a probe, each with its figure.
fn facts(view: &View<'_>) -> Vec<Finding> {
    let estimate = |statistic: Statistic| view.estimate(&statistic);
    let switches = |case: Case| estimate(SWITCHES.of(case));
    let neighbours = || {
        let sleeping = estimate(sleepers())?;
        let computing = estimate(computing())?;
        let says = format!(
            "Beside 16 threads that mostly sleep, fixed work on one CPU takes {} times as long as alone, and \
             beside 16 that compute {} times as long.",
            sleeping.plain("ratio"),
            computing.plain("ratio")
        );
        Some(sleeping.fact(says, "ratio"))
    };
    let matrix = || {
        let sliced = estimate(sliced())?;
        let says = format!(
            "Four matrix products in four threads on one CPU take {} times as long as one after the other.",
            sliced.plain("ratio")
        );
        Some(sliced.fact(says, "ratio"))
    };
    let clock = || {
        let (reading, computing) = (
            switches(readings(view))?,
            switches(case(What::Clock, How::Computing))?,
        );
        let says = format!(
            "There are {} context switches during a million readings of the clock, and {} while computing for as long.",
            reading.plain("count"),
            computing.plain("count")
        );
        Some(reading.fact(says, "switches"))
    };
    let timer = || {
        let share = estimate(on_cpu())?;
        let says = format!(
            "A thread that has armed a timer goes on computing: it is on the CPU for {} of the time until it expires.",
            share.plain("share")
        );
        Some(share.fact(says, "share"))
    };
    let empty_loop = || {
        let share = estimate(removed())?;
        let says = format!(
            "With optimisation, an empty loop of 20 million turns takes {} of its time without.",
            share.plain("share")
        );
        Some(share.fact(says, "share"))
    };
    [neighbours(), matrix(), clock(), timer(), empty_loop()]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::{Need, Status, Verdict};

    use super::*;

    #[test]
    fn every_probe_runs_and_has_a_time() {
        for (what, how, ..) in PROBES {
            let sample = testing::sample(&EXPERIMENT, &case(what, how).params());
            match sample.status {
                Status::Ok => assert!(sample.value(NS.name).unwrap() > 1.0, "{sample:?}"),
                // A machine without a compiler.
                _ => assert_eq!(
                    (what, sample.status),
                    (What::EmptyLoop, Status::Skipped),
                    "{sample:?}"
                ),
            }
        }
    }

    /// A run of seven rounds without noise, on a machine without a compiler.
    fn view(figures: &[(What, How, Metric, f64)]) -> View<'static> {
        let quick = PROBES
            .into_iter()
            .filter(|(_, how, ..)| *how != How::TenMillionReadings);
        let cases = quick.map(|(what, how, ..)| {
            if what == What::EmptyLoop {
                return testing::lacking(case(what, how), Lack::new(Need::Program, "no compiler"));
            }
            let own = figures.iter().filter(|(w, h, ..)| (*w, *h) == (what, how));
            testing::case(
                case(what, how),
                own.map(|(.., metric, value)| (*metric, vec![*value; 7])),
            )
        });
        testing::view("probes", Profile::Quick, cases.collect())
    }

    fn verdict(view: &View<'_>, id: &str) -> Verdict {
        let (_, test) = claims(view).into_iter().find(|(of, _)| *of == id).unwrap();
        testing::verdict(&test, id, view).unwrap()
    }

    #[test]
    fn a_machine_of_today() {
        let view = view(&[
            (What::Neighbours, How::Alone, NS, 10e6),
            (What::Neighbours, How::Sleeping, NS, 9.9e6),
            (What::Neighbours, How::Computing, NS, 170e6),
            (What::Matrix, How::Serial, NS, 20e6),
            (What::Matrix, How::Threads, NS, 20.2e6),
            (What::Clock, How::Reading, SWITCHES, 3.0),
            (What::Clock, How::Reading, VOLUNTARY, 0.0),
            (What::Clock, How::Computing, SWITCHES, 3.0),
            (What::Timer, How::Armed, ON_CPU, 0.99),
        ]);
        let expected = [
            ("io-threads-do-not-slow-others", Verdict::Holds),
            ("slicing-long-matrix-work-loses", Verdict::DoesNotHold),
            ("clock-reading-yields-cpu", Verdict::DoesNotHold),
            ("timer-thread-is-suspended", Verdict::DoesNotHold),
            ("empty-loop-removed-by-compiler", Verdict::NotTestable),
        ];
        for (id, expected) in expected {
            assert_eq!(verdict(&view, id), expected, "{id}");
        }
        assert_eq!(
            read(&view).answer,
            "On one CPU, work takes 0.99 times as long beside 16 sleepers (17.0 beside 16 that compute); matrix products in four \
             threads 1.01 times as long as in turn; a million readings of the clock see 3 context switches; a timer leaves its \
             thread the CPU for 99.0 % of the time."
        );
    }

    #[test]
    fn sleepers_that_slow_others_contradict() {
        let slow = view(&[
            (What::Neighbours, How::Alone, NS, 10e6),
            (What::Neighbours, How::Sleeping, NS, 12e6),
            (What::Neighbours, How::Computing, NS, 170e6),
        ]);
        let id = "io-threads-do-not-slow-others";
        assert_eq!(verdict(&slow, id), Verdict::DoesNotHold);
        assert_eq!(verdict(&view(&[]), id), Verdict::Inconclusive);
    }

    #[test]
    fn noise_alone_does_not_say_that_sleepers_slow_others() {
        let id = "io-threads-do-not-slow-others";
        let refuted = |sleeping: f64, computing: f64| {
            let truth = view(&[
                (What::Neighbours, How::Alone, NS, 10e6),
                (What::Neighbours, How::Sleeping, NS, sleeping),
                (What::Neighbours, How::Computing, NS, computing),
            ]);
            testing::times_said(Verdict::DoesNotHold, &EXPERIMENT, id, &truth, 400)
        };
        // No slower at all, and as much slower as the rule allows.
        for refuted in [refuted(10e6, 170e6), refuted(10.5e6, 170e6), refuted(10e6, 10e6)] {
            assert!(refuted <= 22, "{refuted} of 400");
        }
    }
}
