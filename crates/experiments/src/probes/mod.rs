//! Question: several small ones that source 000 answers by the way: do sleepers slow others, does slicing matrix work cost, does
//! reading the clock give up the CPU, does a timer stop its thread, does a compiler remove an empty loop?
//!
//! One file a probe; each says what it does and what it is compared with.

use std::time::Duration;

use threadgauge_results::{Condition, Evidence, Finding, Params, Range};

use threadgauge_lab::compat::{cell, params};
use threadgauge_lab::experiment::{About, Answer, ClaimEvidence, Experiment, Pair};
use threadgauge_lab::grid::{Plan, PlannedCase};
use threadgauge_lab::site::{Profile, Site};
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::statistic::metric;
use threadgauge_lab::view::View;
use threadgauge_lab::worker::{CaseError, Worker};

mod clock_reading;
mod empty_loop;
mod matrix;
mod neighbours;
mod timer;

/// The experiment.
#[derive(Debug, Clone, Copy)]
pub struct Probes;

/// The metric that all of them have.
const NS: &str = "ns";

/// A probe's case: what, how, what a sample takes (ms), and what does it.
struct Case {
    what: &'static str,
    how: &'static str,
    takes_ms: u64,
    run: fn(&mut Worker) -> Result<(), CaseError>,
}

const CASES: [Case; 11] = [
    case("neighbours", "alone", 20, neighbours::alone),
    case("neighbours", "sleeping", 27, neighbours::sleeping),
    case("neighbours", "computing", 210, neighbours::computing),
    case("matrix", "serial", 45, matrix::serial),
    case("matrix", "threads", 45, matrix::threads),
    case("clock", "reading", 27, clock_reading::reading),
    case("clock", "computing", 36, clock_reading::computing),
    case("timer", "armed", 24, timer::armed),
    case("timer", "unarmed", 24, timer::unarmed),
    case("empty-loop", "plain", 48, empty_loop::plain),
    case("empty-loop", "optimised", 52, empty_loop::optimised),
];

const fn case(
    what: &'static str,
    how: &'static str,
    takes_ms: u64,
    run: fn(&mut Worker) -> Result<(), CaseError>,
) -> Case {
    Case {
        what,
        how,
        takes_ms,
        run,
    }
}

impl Case {
    fn params(&self) -> Params {
        Params::new()
            .with("what", self.what)
            .with("how", self.how)
            .with("cpus", 1)
    }
}

const CLAIMS: &[&str] = &[
    "io-threads-do-not-slow-others",
    "slicing-long-matrix-work-loses",
    "clock-reading-yields-cpu",
    "timer-thread-is-suspended",
    "empty-loop-removed-by-compiler",
];

/// What it asks and how it measures.
const ABOUT: About = About {
    id: "probes",
    question: "Do sleepers slow others, does slicing matrix work cost, does reading the clock give up the CPU, does a timer stop its \
         thread, does a compiler remove an empty loop?",
    sources: &["000"],
    primary: &[metric(NS, "ns")],
    how: "Each on one CPU, in a worker of its own, timed as `ns`. neighbours: 10 ms of fixed work alone, beside 16 threads \
                  that sleep 10 ms at a time, beside 16 that compute. matrix: four products of 192 × 192 matrices (0.8 MiB \
                  each), eight times over, one after the other and in four threads. clock: a million readings in a row (the claim's note has ten \
                  million, which the quick profile has no time for; its figure is for a million), and the switches meanwhile. timer: computing until a timer of 20 ms expires, and the share of that time on the CPU. \
                  empty-loop: a C program that counts to 20 million and does nothing else, compiled in the worker by the \
                  machine's C compiler without and with optimisation.",
    control: "alone, serial, computing for as long as the readings take, the same without a timer, and the plain \
                      compilation: the first or second case of each pair.",
    traps: &[
        "A switch that falls into the readings is not one that they caused: the control has as many, and only a voluntary one is \
                 the thread's own.",
        "What slicing costs depends on the caches and on how long a scheduler lets each run.",
    ],
    source: "Source 000 states all five for Windows NT and 95 without figures.",
};

impl Experiment for Probes {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn plan(&self, site: &Site) -> Plan {
        let budget = match site.profile {
            Profile::Quick => 6,
            Profile::Standard => 30,
            Profile::Paper => 60,
        };
        let planned = |case: &Case| PlannedCase::new(case.params(), Duration::from_millis(case.takes_ms));
        Plan {
            cases: CASES.iter().map(planned).collect(),
            reference: params("what=neighbours,how=alone"),
            budget: Duration::from_secs(budget),
            twice_up_to: Duration::ZERO,
        }
    }

    fn run(&self, case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
        let found = CASES
            .iter()
            .find(|c| case.text("what") == Some(c.what) && case.text("how") == Some(c.how));
        match found {
            Some(found) => (found.run)(worker),
            None => Err(CaseError::Failed(format!("there is no probe {case}"))),
        }
    }

    fn read(&self, view: &View<'_>) -> Answer {
        let facts = facts(view);
        Answer {
            answer: answer(&facts),
            claims: evidence(view),
            facts,
            comparisons: comparisons(),
            ..Answer::default()
        }
    }
}

fn of(what: &str, how: &str, metric: &str) -> Cell {
    cell(&format!("what={what},how={how},cpus=1"), metric)
}

/// A probe's time over that of its control, in each round.
fn ratio(view: &View<'_>, what: &str, [how, control]: [&str; 2]) -> Result<Vec<f64>, String> {
    view.by_round(&[of(what, how, NS), of(what, control, NS)], |v| v[0] / v[1])
}

fn evidence(view: &View<'_>) -> Vec<ClaimEvidence> {
    let statistic =
        |rounds: Result<Vec<f64>, String>| rounds.map_or_else(Evidence::Missing, Evidence::Statistic);
    let of_claim = |claim: &'static str| {
        let (unit, evidence) = match claim {
            "io-threads-do-not-slow-others" => ("slowdown", sleepers(view)),
            "slicing-long-matrix-work-loses" => (
                "ratio",
                ratio(view, "matrix", ["threads", "serial"]).map_or_else(Evidence::Missing, Evidence::Ratio),
            ),
            "clock-reading-yields-cpu" => ("switches", gives_up(view)),
            "timer-thread-is-suspended" => (
                "share",
                statistic(view.by_round(&[of("timer", "armed", timer::ON_CPU)], |v| v[0])),
            ),
            _ => ("ratio", removed(view)),
        };
        ClaimEvidence {
            claim,
            unit,
            evidence,
        }
    };
    CLAIMS.iter().copied().map(of_claim).collect()
}

/// What sleepers cost the others, less than nothing counting as nothing, and that computing neighbours cost more.
fn sleepers(view: &View<'_>) -> Evidence {
    let slowdown = ratio(view, "neighbours", ["sleeping", "alone"]);
    let cells = ["computing", "sleeping"].map(|how| of("neighbours", how, NS));
    let more = view.by_round(&cells, |v| v[0] / v[1]);
    match (slowdown, more) {
        (Ok(slowdown), Ok(more)) => Evidence::With {
            main: Box::new(Evidence::Statistic(
                slowdown.iter().map(|r| (r - 1.0).max(0.0)).collect(),
            )),
            also: vec![Condition {
                says: "computing neighbours slow it down more".to_owned(),
                range: Range {
                    min: 1.0,
                    max: f64::INFINITY,
                },
                evidence: Evidence::Ratio(more),
            }],
        },
        (Err(reason), _) | (_, Err(reason)) => Evidence::Missing(reason),
    }
}

/// Switches, of which some must be the thread's own doing: a scheduler that takes the CPU away does so from everybody.
fn gives_up(view: &View<'_>) -> Evidence {
    let rounds = |metric| match view.by_round(&[of("clock", "reading", metric)], |v| v[0]) {
        Ok(rounds) => Evidence::Statistic(rounds),
        Err(reason) => Evidence::Missing(reason),
    };
    Evidence::With {
        main: Box::new(rounds(clock_reading::SWITCHES)),
        also: vec![Condition {
            says: "the thread itself gave up the CPU".to_owned(),
            range: Range {
                min: 1.0,
                max: f64::INFINITY,
            },
            evidence: rounds(clock_reading::VOLUNTARY),
        }],
    }
}

fn removed(view: &View<'_>) -> Evidence {
    match ratio(view, "empty-loop", ["optimised", "plain"]) {
        Ok(rounds) => Evidence::Statistic(rounds),
        Err(reason) if reason.contains(empty_loop::NO_COMPILER) => Evidence::NotTestable {
            reason,
            measured: None,
        },
        Err(reason) => Evidence::Missing(reason),
    }
}

fn comparisons() -> Vec<Pair> {
    let pair = |what: &str, a: &str, b: &str| Pair {
        a: of(what, a, NS).pattern,
        b: of(what, b, NS).pattern,
    };
    vec![
        pair("neighbours", "alone", "sleeping"),
        pair("neighbours", "alone", "computing"),
        pair("matrix", "serial", "threads"),
        pair("empty-loop", "plain", "optimised"),
    ]
}

/// One sentence a probe, each with its figure.
fn facts(view: &View<'_>) -> Vec<Finding> {
    let median = |rounds: Result<Vec<f64>, String>| threadgauge_stats::median(&rounds.ok()?).ok();
    let one = |what, how, metric| median(view.by_round(&[of(what, how, metric)], |v| v[0]));
    let mut facts = Vec::new();
    let mut add =
        |says: String, value: f64, unit: &str| facts.push(Finding::fact(says, Some(value), None, unit));
    if let (Some(sleeping), Some(computing)) = (
        median(ratio(view, "neighbours", ["sleeping", "alone"])),
        median(ratio(view, "neighbours", ["computing", "alone"])),
    ) {
        let says = format!(
            "Beside 16 threads that mostly sleep, fixed work on one CPU takes {sleeping:.3} times as long as alone, beside 16 that \
             compute {computing:.1} times."
        );
        add(says, sleeping, "ratio");
    }
    if let Some(sliced) = median(ratio(view, "matrix", ["threads", "serial"])) {
        let says = format!(
            "Four matrix products in four threads on one CPU take {sliced:.3} times as long as one after the other."
        );
        add(says, sliced, "ratio");
    }
    if let (Some(reading), Some(computing)) = (
        one("clock", "reading", clock_reading::SWITCHES),
        one("clock", "computing", clock_reading::SWITCHES),
    ) {
        let says = format!(
            "A million readings of the clock see {reading:.0} context switches, computing for as long {computing:.0}."
        );
        add(says, reading, "switches");
    }
    if let Some(on_cpu) = one("timer", "armed", timer::ON_CPU) {
        let says = format!(
            "A thread that has armed a timer goes on computing: it is on the CPU for {:.1} % of the time until it expires.",
            on_cpu * 100.0
        );
        add(says, on_cpu * 100.0, "%");
    }
    if let Some(left) = median(ratio(view, "empty-loop", ["optimised", "plain"])) {
        let says = format!(
            "Optimised, an empty loop of 20 million takes {:.4} % of its time without optimisation.",
            left * 100.0
        );
        add(says, left * 100.0, "%");
    }
    facts
}

fn answer(facts: &[Finding]) -> String {
    if facts.is_empty() {
        return "No probe has figures in this run.".to_owned();
    }
    let sentences: Vec<&str> = facts.iter().map(|f| f.says.as_str()).collect();
    sentences.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use threadgauge_results::{Status, Verdict, claim, decide};
    use threadgauge_stats::summarise;

    use super::*;
    use threadgauge_lab::analysis::metric_summary;
    use threadgauge_lab::view::ViewCase;
    use threadgauge_lab::worker::Order;

    #[test]
    fn every_probe_runs_and_has_a_time() {
        for case in &CASES {
            let mut worker = Worker::new(&Order {
                experiment: "probes".to_owned(),
                params: case.params(),
                cpus: vec![0],
                handicap_percent: 0,
                launched_ns: 0,
            });
            let result = Probes.run(&case.params(), &mut worker);
            let sample = worker.finish(result);
            match sample.status {
                Status::Ok => assert!(sample.value(NS).unwrap() > 0.0, "{sample:?}"),
                _ => assert!(
                    sample
                        .reason
                        .as_deref()
                        .unwrap_or_default()
                        .contains(empty_loop::NO_COMPILER),
                    "{sample:?}"
                ),
            }
        }
    }

    fn view(figures: &[(&str, &str, &str, f64)]) -> View<'static> {
        let of_case = |case: &Case| {
            let own = figures
                .iter()
                .filter(|(what, how, ..)| (*what, *how) == (case.what, case.how));
            let values: BTreeMap<String, BTreeMap<u32, f64>> = own
                .map(|(_, _, metric, value)| ((*metric).to_owned(), (1..=7).map(|r| (r, *value)).collect()))
                .collect();
            let summaries = values.iter().map(|(name, rounds)| {
                let rounds: Vec<f64> = rounds.values().copied().collect();
                (
                    name.clone(),
                    metric_summary("ns", summarise(&rounds, 0.05).unwrap()),
                )
            });
            ViewCase {
                params: case.params(),
                lack: (case.what == "empty-loop").then(|| {
                    threadgauge_results::Lack::new(
                        threadgauge_results::Need::Program,
                        empty_loop::NO_COMPILER,
                    )
                }),
                summaries: summaries.collect(),
                values: values.clone(),
            }
        };
        threadgauge_lab::testing::view("probes", Profile::Quick, CASES.iter().map(of_case).collect())
    }

    fn verdict(view: &View<'_>, id: &str) -> Verdict {
        let all = evidence(view);
        let of_claim = all.iter().find(|e| e.claim == id).unwrap();
        let finding = decide(claim(id).unwrap(), of_claim.unit, &of_claim.evidence, 0.05);
        finding.verdict.unwrap()
    }

    #[test]
    fn a_machine_of_today() {
        let view = view(&[
            ("neighbours", "alone", NS, 10e6),
            ("neighbours", "sleeping", NS, 9.9e6),
            ("neighbours", "computing", NS, 170e6),
            ("matrix", "serial", NS, 20e6),
            ("matrix", "threads", NS, 20.2e6),
            ("clock", "reading", clock_reading::SWITCHES, 3.0),
            ("clock", "reading", clock_reading::VOLUNTARY, 0.0),
            ("clock", "computing", clock_reading::SWITCHES, 3.0),
            ("timer", "armed", timer::ON_CPU, 0.99),
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
            answer(&facts(&view)),
            "Beside 16 threads that mostly sleep, fixed work on one CPU takes 0.990 times as long as alone, beside 16 that \
             compute 17.0 times. Four matrix products in four threads on one CPU take 1.010 times as long as one after the \
             other. A million readings of the clock see 3 context switches, computing for as long 3. A thread that has armed a \
             timer goes on computing: it is on the CPU for 99.0 % of the time until it expires."
        );
    }

    #[test]
    fn sleepers_that_slow_others_contradict() {
        let slow = |computing| {
            view(&[
                ("neighbours", "alone", NS, 10e6),
                ("neighbours", "sleeping", NS, 12e6),
                ("neighbours", "computing", NS, computing),
            ])
        };
        assert_eq!(
            verdict(&slow(170e6), "io-threads-do-not-slow-others"),
            Verdict::DoesNotHold
        );
        assert_eq!(
            verdict(&view(&[]), "io-threads-do-not-slow-others"),
            Verdict::Inconclusive
        );
    }
}
