//! Question: how far apart are repeated calibrations of "computes for so many milliseconds", the source's way and ours?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print.

use std::hint::black_box;

use threadgauge_lab::prelude::*;
use threadgauge_lab::worker::{Lap, Stopwatch};
use threadgauge_machine::{Burner, clock};

/// How often each worker calibrates.
const REPEATS: usize = 20;
/// The source's passes of one calibration, and the number that each pass counts to.
const PASSES: u32 = 100;
const COUNTED: u64 = 100_000;
/// What is computed by each calibration.
const COMPUTED: Duration = Duration::from_millis(2);
/// The error that one of our own calibrations may have.
const TARGET: f64 = 0.01;

/// The time of one calibration.
const TAKEN: Metric = metric("calibration_ns", "ns");
/// The largest calibration of a worker over its smallest, less 1.
const SPREAD: Metric = metric("spread", "share");
/// The same by the thread's CPU clock, which stands still while others have the CPU.
const SPREAD_CPU: Metric = metric("spread_cpu", "share");
/// The source's way: the share of a worker's passes that took over 1.1 times its quickest.
const SLOW_PASSES: Metric = metric("slow_passes", "share");
/// The largest error of a computation in a worker.
const WORST: Metric = metric("worst_error", "share");
/// The calibrated rate: the median over a worker's calibrations.
const RATE: Metric = metric("ns_per_step", "ns");

words! {
    /// How it is calibrated.
    enum Method { Source = "source", Ours = "ours" }
}

point! {
    struct Case { way: Method, cpus: u64 = 1.. }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "calibration",
    question: "How far apart are repeated calibrations of \"computes for so many milliseconds\", the source's way and ours?",
    first_run: true,
    sources: &["000"],
    primary: &[TAKEN],
    how: "One worker calibrates 20 times and after each computes for 2 ms by it. Way source: the mean wall time of \
         100 passes of counting from 1 to 100,000. Way ours: the laboratory's burner, the minimum of 30 runs of 0.2 \
         ms by the thread's CPU clock, which looks at that clock on its way through a computation. `spread` is the \
         largest rate over the smallest, less 1, `spread_cpu` the same by the thread's CPU clock; `slow_passes` is the \
         share of the source's passes over 1.1 times the worker's quickest; `worst_error` the worst CPU time against 2 ms.",
    control: "The two ways in the same rounds.",
    traps: &[
        "The claim is about an unchanged environment. Whatever disturbs only adds to a spread: a small one refutes the claim, a large \
         one leaves it open. By the wall clock a busy hour alone spreads by 40 to 90 %, so the CPU clock decides.",
        "The CPU clock runs on while someone else has the core's other hardware thread. A loop that counts once a cycle then takes \
         twice as long, a chain of operations as ours hardly longer: many slow passes show it, our calibrations do not.",
        "A spread within one worker leaves out what differs between workers; the fact on rates between rounds has it.",
        "The source's loop is kept from being removed by an opaque use of its counter, which is its cost.",
    ],
    source: "Source 000 calibrates at the start of its program and says that repeats in an unchanged environment \
         differ by up to 20 %; on a 486/33 under Windows, whose timer was coarse.",
    calls: &[],
    plan,
    run,
    read,
};

fn plan(site: &Site) -> Plan {
    let case = |(way, ms)| PlannedCase::new(Case { way, cpus: 1 }, Duration::from_millis(ms));
    let way = Method::Source;
    Plan {
        cases: [(Method::Source, 95), (Method::Ours, 175)].map(case).to_vec(),
        reference: Case { way, cpus: 1 }.any(&["cpus"]),
        budget: Duration::from_secs(site.profile.pick(3, 30, 60)),
    }
}

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let method = Case::read(case)?.way;
    let (mut taken_ns, mut rates, mut rates_cpu, mut errors) = (0.0, Vec::new(), Vec::new(), Vec::new());
    let mut passes_ns = Vec::new();
    for _ in 0..REPEATS {
        let (taken, [rate, rate_cpu], error) = calibrate(method, worker.stopwatch(), &mut passes_ns);
        taken_ns += taken.wall_ns as f64;
        rates.push(rate);
        rates_cpu.push(rate_cpu);
        errors.push(error.abs());
    }
    worker.record(TAKEN, taken_ns / REPEATS as f64);
    for (metric, rates) in [(SPREAD, &rates), (SPREAD_CPU, &rates_cpu)] {
        worker.record(metric, largest(rates) / smallest(rates) - 1.0);
    }
    worker.record(WORST, largest(&errors));
    if method == Method::Source {
        let limit_ns = 1.1 * smallest(&passes_ns);
        let slow = passes_ns.iter().filter(|ns| **ns > limit_ns).count();
        worker.record(SLOW_PASSES, slow as f64 / passes_ns.len() as f64);
    }
    worker.record(RATE, threadgauge_stats::median(&rates).unwrap_or(f64::NAN));
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    let line = |metric| Method::ALL.map(|method| (method.in_words(), method.percent(metric)));
    let published = [(Method::Source.in_words(), Some(20.0))];
    let stated = "source 000: calibrations apart, at most";
    let title = "Repeated calibrations, and what is computed by them";
    let chart = Chart::new(view, "calibration", title)
        .note("The source states its 20 % in words, without runs.")
        .x(Scale::Category, "way")
        .y(Scale::Linear, "difference or error, %")
        .line("20 calibrations apart", line(SPREAD))
        .line("worst of 20 computations", line(WORST))
        .figures(stated, Origin::Published, published);
    Answer {
        answer: answer(view),
        number: view.number(
            "the largest rate of 20 calibrations the source's way ÷ the smallest, less 100 %",
            &Method::Source.percent(SPREAD),
            "%",
        ),
        claims: vec![("loop-calibration-differs-up-to-20pct", differs(view))],
        facts: facts(view),
        figures: chart.drawn().into_iter().collect(),
        ..Answer::default()
    }
}

impl Method {
    const fn in_words(self) -> &'static str {
        match self {
            Self::Source => "the source's way",
            Self::Ours => "ours",
        }
    }

    fn of(self, metric: Metric) -> Statistic {
        metric.of(Case { way: self, cpus: 1 })
    }

    fn percent(self, metric: Metric) -> Statistic {
        self.of(metric).times(100.0)
    }
}

/// The claim is about an unchanged environment. Whatever disturbs adds to the spread of a loop of fixed length. So a
/// small one refutes the claim, and a large one may be the environment's, of which our own calibrations see a part.
fn differs(view: &View<'_>) -> Test {
    let slow = view.estimate(&Method::Source.of(SLOW_PASSES));
    let slow = slow.map_or_else(|| "unknown".to_owned(), |slow| slow.show("share"));
    let open = "the claim is about an unchanged environment, and so large a spread comes from what slowed the CPU meanwhile";
    let open = format!("{open} (passes that took over 1.1 times the quickest: {slow})");
    Test::from(Method::Source.of(SPREAD_CPU)).of_a_part(false, open)
}

/// Calibrates once: what that took, the rates by the wall clock and by the CPU clock (ns per step), and the error of
/// computing by the first. Adds what each of the source's passes took by the wall clock: to read the CPU clock is a
/// call of the kernel, and takes a hundredth of a pass.
fn calibrate(method: Method, watch: Stopwatch, passes_ns: &mut Vec<f64>) -> (Lap, [f64; 2], f64) {
    match method {
        Method::Source => {
            let begun_ns = [clock::monotonic_ns(), clock::thread_cpu_ns()];
            passes_ns.extend((0..PASSES).map(|_| {
                let begun_ns = clock::monotonic_ns();
                count_to(COUNTED);
                (clock::monotonic_ns() - begun_ns) as f64
            }));
            let ended_ns = [clock::monotonic_ns(), clock::thread_cpu_ns()];
            let rates =
                [0, 1].map(|of| (ended_ns[of] - begun_ns[of]) as f64 / (f64::from(PASSES) * COUNTED as f64));
            let compute = |length| count_to(steps(length, rates[0]));
            (watch.stop(), rates, error_of(compute))
        }
        // The minimum comes from an undisturbed moment, so it is the CPU's best speed and not its average: a burner
        // that did not look at the clock meanwhile would take some per cent too long.
        Method::Ours => {
            let burner = Burner::calibrate();
            let compute = |length| {
                burner.burn(length);
            };
            (watch.stop(), [burner.ns_per_iteration(); 2], error_of(compute))
        }
    }
}

/// The steps of a computation so long, where one takes so many ns.
const fn steps(length: Duration, ns_per_step: f64) -> u64 {
    (length.as_nanos() as f64 / ns_per_step) as u64
}

/// The source's loop, kept from being removed.
fn count_to(last: u64) {
    let mut i = 1;
    while i <= last {
        i = black_box(i) + 1;
    }
}

/// The relative error of computing by a calibration, against this thread's CPU clock.
fn error_of(compute: impl Fn(Duration)) -> f64 {
    let before_ns = clock::thread_cpu_ns();
    compute(COMPUTED);
    (clock::thread_cpu_ns() - before_ns) as f64 / COMPUTED.as_nanos() as f64 - 1.0
}

fn answer(view: &View<'_>) -> String {
    let part = |method: Method| {
        let percent = |metric| Some(view.estimate(&method.percent(metric))?.plain("%"));
        let (name, spread, worst) = (method.in_words(), percent(SPREAD)?, percent(WORST)?);
        Some((format!("{spread} ({name})"), format!("{worst} ({name})")))
    };
    let (spreads, worst): (Vec<String>, Vec<String>) = Method::ALL.into_iter().filter_map(part).unzip();
    if spreads.is_empty() {
        return String::new();
    }
    format!(
        "Of 20 calibrations the quickest and the slowest differ by {}. A computation of 2 ms is off by up to {}.",
        spreads.join(" and "),
        worst.join(" and ")
    )
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let target = TARGET * 100.0;
    let error = view.estimate(&Method::Ours.percent(WORST)).map(|error| {
        let kept = if error.value <= target { "within" } else { "above" };
        let off = error.plain("%");
        let says = format!(
            "Of 20 computations of 2 ms by our calibration, the worst is off by {off}, {kept} the bound of {target} %."
        );
        error.fact(says, "%")
    });
    let between_workers = Method::ALL.into_iter().filter_map(|method| {
        // One worker alone has none to differ from.
        let rates = view
            .summary(method.of(RATE).cells()[0])
            .filter(|rates| rates.n > 1)?;
        let (n, name, apart) = (rates.n, method.in_words(), (rates.max / rates.min - 1.0) * 100.0);
        let apart = Estimate {
            value: apart,
            ci95: None,
        };
        let shown = apart.plain("%");
        let says = format!("The calibrated rates of {n} workers differ by up to {shown} ({name}).");
        Some(apart.fact(says, "%"))
    });
    error.into_iter().chain(between_workers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing::{self, sample};
    use threadgauge_results::{Evidence, Verdict, decide};

    #[test]
    fn slower_steps_are_fewer_of_the_same_length() {
        assert_eq!(steps(Duration::from_millis(10), 2.0), 5_000_000);
        assert_eq!(steps(Duration::from_millis(10), 0.25), 40_000_000);
    }

    #[test]
    fn both_ways_find_a_rate_and_compute_by_it() {
        for way in Method::ALL {
            let sample = testing::measured(&EXPERIMENT, &Case { way, cpus: 1 }.params());
            // A step of either loop, ns: some cycles, were they a thousand times slower than they are.
            let rate = sample.value(RATE.name).unwrap();
            assert!((0.01..1e6).contains(&rate), "{sample:?}");
            assert!(sample.value(SPREAD.name).unwrap() >= 0.0, "{sample:?}");
            let slow = sample.value(SLOW_PASSES.name);
            assert_eq!(
                slow.is_some_and(|share| (0.0..1.0).contains(&share)),
                way == Method::Source,
                "{sample:?}"
            );
        }
        let theirs = Params::new().with("way", "theirs").with("cpus", 1);
        assert_eq!(
            sample(&EXPERIMENT, &theirs).reason.as_deref(),
            Some("the parameter way is theirs; it must be one of source, ours")
        );
    }

    #[test]
    fn an_error_is_what_is_computed_too_much() {
        let burner = Burner::calibrate();
        let twice = error_of(|length| {
            burner.burn(2 * length);
        });
        assert!((0.9..1.3).contains(&twice), "{twice}");
    }

    fn view(source: f64, ours: f64) -> View<'static> {
        let case = |way, spread: f64| {
            let figures = [
                (SPREAD, spread),
                (SPREAD_CPU, spread),
                (WORST, spread / 2.0),
                (RATE, 1.0),
            ];
            testing::case(
                Case { way, cpus: 1 },
                figures.map(|(metric, value)| (metric, vec![value; 7])),
            )
        };
        let cases = vec![case(Method::Source, source), case(Method::Ours, ours)];
        testing::view("calibration", Profile::Quick, cases)
    }

    #[test]
    fn the_claim_is_about_the_sources_way_and_the_target_about_ours() {
        let view = view(0.12, 0.04);
        let answer = read(&view);
        let (id, test) = &answer.claims[0];
        let claim = threadgauge_results::claim(id).unwrap();
        let Evidence::Rounds(rounds) = test.evidence(&view, claim) else {
            panic!("{test:?}");
        };
        assert_eq!(rounds.values(), [0.12; 7]);
        let fact = &answer.facts[0].says;
        assert!(
            fact.contains("the worst is off by 2.00 %, above the bound of 1 %"),
            "{fact}"
        );
        let says = "the quickest and the slowest differ by 12.0 % (the source's way)";
        assert!(answer.answer.contains(says), "{}", answer.answer);
        let [apart, worst, published] = &answer.figures[0].series[..] else {
            panic!("{:?}", answer.figures[0].series)
        };
        let drawn = (apart.points[1].y, worst.points[1].y, published.points[0].y);
        assert!((drawn.0 - 4.0).abs() < 1e-9 && (drawn.1 - 2.0).abs() < 1e-9 && drawn.2 == 20.0);
    }

    fn decided(view: &View<'_>) -> (Option<Verdict>, String) {
        let answer = read(view);
        let (id, test) = &answer.claims[0];
        let claim = threadgauge_results::claim(id).unwrap();
        let finding = decide(claim, &claim.unit, &test.evidence(view, claim), testing::ALPHA);
        (finding.verdict, finding.reason.unwrap_or_default())
    }

    #[test]
    fn a_small_spread_refutes_the_claim_and_a_large_one_leaves_it_open() {
        assert_eq!(decided(&view(0.06, 0.01)).0, Some(Verdict::DoesNotHold));
        // What changes our own calibrations can only have added to the source's.
        assert_eq!(decided(&view(0.06, 0.36)).0, Some(Verdict::DoesNotHold));
        // Ours, minima of a chain, do not see what slows the source's loop.
        for ours in [0.01, 0.36] {
            let (verdict, reason) = decided(&view(0.7, ours));
            assert_eq!(verdict, Some(Verdict::Inconclusive), "{reason}");
            assert!(
                reason.contains(
                    "slowed the CPU meanwhile (passes that took over 1.1 times the quickest: unknown)"
                ),
                "a run from before passes were looked at: {reason}"
            );
        }
    }

    /// `spread_cpu` of the source's way in two committed runs, of which one had said that the claim holds.
    #[test]
    fn two_committed_runs_do_not_say_the_opposite_of_each_other() {
        let standard = [
            0.2147, 0.5431, 0.5991, 0.2187, 0.3388, 0.2398, 0.3270, 0.9641, 0.9593, 0.4500, 0.9586, 0.4280,
            0.9943, 0.0386, 0.3525,
        ];
        let quick = [0.1000, 0.1024, 0.1068, 0.0864, 0.1033, 0.1132, 0.1137];
        let of = |spread: &[f64]| {
            let figures = [
                (SPREAD_CPU, spread.to_vec()),
                (SLOW_PASSES, vec![0.12; spread.len()]),
            ];
            let case = Case {
                way: Method::Source,
                cpus: 1,
            };
            let case = testing::case(case, figures);
            decided(&testing::view("calibration", Profile::Quick, vec![case]))
        };
        assert_eq!(of(&quick).0, Some(Verdict::DoesNotHold));
        let (verdict, reason) = of(&standard);
        assert_eq!(verdict, Some(Verdict::Inconclusive), "{reason}");
        assert!(
            reason.contains("(passes that took over 1.1 times the quickest: 12.0 [12.0, 12.0] %)"),
            "{reason}"
        );
    }
}
