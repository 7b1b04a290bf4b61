//! Question: does moving a long computation to a background thread keep the foreground responsive?
//!
//! **Method.** A foreground that is to act every 0.1 ms, 1,000 times, as a user interface acts on events. At its hundredth
//! action a computation of 60 ms is asked for: it does it on the spot (*inline*) or starts a thread for it (*background*).
//! Lateness is how long after its intended time an action begins. The figure is the 99th percentile of the lateness of all
//! actions, those that were held up included (open loop: a late one does not move the next).
//!
//! **Control.** *idle*: the same without any computation, which is the lateness of the timer itself.
//!
//! **Traps.** A sleep ends up to 50 µs late by the timer's slack, so no lateness is below that. On one CPU a background
//! thread competes with the foreground: the scheduler decides, and that is the question.
//!
//! **Sources 000 and 003** advise it, and measured nothing.

use std::thread;
use std::time::Duration;

use threadgauge_machine::{Burner, clock};
use threadgauge_results::{Axis, Evidence, Figure, Finding, Origin, Params, Point, Quote, Scale, Series};
use threadgauge_stats::{median, nearest_rank};

use threadgauge_lab::compat::{cell, params};
use threadgauge_lab::experiment::{About, Answer, ClaimEvidence, Experiment};
use threadgauge_lab::grid::{Plan, PlannedCase};
use threadgauge_lab::refusal::refused;
use threadgauge_lab::site::{Profile, Site};
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::statistic::metric;
use threadgauge_lab::view::View;
use threadgauge_lab::worker::{CaseError, Worker};

/// The experiment.
#[derive(Debug, Clone, Copy)]
pub struct Foreground;

const CLAIM: &str = "background-work-keeps-foreground-responsive";
/// Enough for a 99th percentile: ten beyond it.
const ACTIONS: usize = 1_000;
const PERIOD: Duration = Duration::from_micros(100);
/// The action that asks for the computation.
const ASKED_AT: usize = 100;
const COMPUTATION: Duration = Duration::from_millis(60);

const P99: &str = "p99_lateness_ns";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Idle,
    Inline,
    Background,
}

impl How {
    const ALL: [Self; 3] = [Self::Idle, Self::Inline, Self::Background];

    const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Inline => "inline",
            Self::Background => "background",
        }
    }
}

/// What it asks and how it measures.
const ABOUT: About = About {
    id: "foreground",
    question: "Does moving a long computation to a background thread keep the foreground responsive?",
    sources: &["000", "003"],
    primary: &[metric(P99, "ns")],
    how: "A foreground acts every 0.1 ms, 1,000 times; its hundredth action asks for a computation of 60 ms of CPU time, \
                  done on the spot (inline) or by a thread started for it (background). Lateness is an action's beginning \
                  after its intended time; an action that is held up does not move the next. `p99_lateness_ns` is the 99th \
                  percentile of all 1,000.",
    control: "How idle: no computation; the lateness of the timer itself.",
    traps: &[
        "A sleep ends up to 50 µs late by the timer's slack: no lateness is below that.",
        "Six actions of ten fall into the computation's time: what is late inline is most of them.",
    ],
    source: "Sources 000 and 003 advise a background thread for the sake of the foreground; neither measured it. The claim \
                     is worded for a heartbeat of 10 ms; one of 0.1 ms has its 1,000 actions in a tenth of a second.",
};

impl Experiment for Foreground {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn plan(&self, site: &Site) -> Plan {
        let all = (site.cpus.len() as u64).max(2);
        let (cases, budget_s) = match site.profile {
            Profile::Quick => (
                vec![(How::Inline, 1), (How::Background, 1), (How::Background, all)],
                5,
            ),
            Profile::Standard => (every_case(all), 30),
            Profile::Paper => (every_case(all), 60),
        };
        let planned = |(how, cpus): (How, u64)| {
            let params = Params::new().with("how", how.name()).with("cpus", cpus);
            let mut planned = PlannedCase::new(params, Duration::from_millis(112));
            if cpus > site.cpus.len() as u64 {
                planned.skip = Some(threadgauge_results::Lack::cpus(cpus, site.cpus.len() as u64));
            }
            planned
        };
        Plan {
            cases: cases.into_iter().map(planned).collect(),
            // The steadiest: in the background the 99th percentile is a matter of luck.
            reference: params("how=inline,cpus=1"),
            budget: Duration::from_secs(budget_s),
            twice_up_to: Duration::ZERO,
        }
    }

    fn run(&self, case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
        let how = How::ALL
            .into_iter()
            .find(|how| case.text("how") == Some(how.name()))
            .ok_or_else(|| {
                CaseError::Failed("the parameter how must be idle, inline or background".to_owned())
            })?;
        let steps = worker.burner().iterations(COMPUTATION);
        let watch = worker.stopwatch();
        let begun_ns = clock::monotonic_ns();
        let late_ns = act(how, steps)?;
        let taken_ns = clock::monotonic_ns() - begun_ns;
        // A handicapped worker is late in proportion.
        let stretch = watch.stop().wall_ns as f64 / taken_ns.max(1) as f64;
        let late_ns: Vec<f64> = late_ns.into_iter().map(|ns| ns * stretch).collect();
        worker.metric(P99, "ns", nearest_rank(&late_ns, 0.99).unwrap_or(f64::NAN));
        worker.metric("median_lateness_ns", "ns", median(&late_ns).unwrap_or(f64::NAN));
        worker.metric(
            "worst_lateness_ns",
            "ns",
            late_ns.iter().copied().fold(0.0, f64::max),
        );
        Ok(())
    }

    fn read(&self, view: &View<'_>) -> Answer {
        Answer {
            answer: answer(view),
            claims: vec![ClaimEvidence {
                claim: CLAIM,
                unit: "ratio",
                evidence: evidence(view),
            }],
            facts: facts(view),
            figures: vec![figure(view)],
            ..Answer::default()
        }
    }
}

fn every_case(all: u64) -> Vec<(How, u64)> {
    [1, all]
        .into_iter()
        .flat_map(|cpus| How::ALL.map(|how| (how, cpus)))
        .collect()
}

/// The foreground: how late each action began, ns.
fn act(how: How, steps: u64) -> Result<Vec<f64>, CaseError> {
    thread::scope(|scope| {
        let mut late_ns = Vec::with_capacity(ACTIONS);
        let begun_ns = clock::monotonic_ns() + PERIOD.as_nanos() as u64;
        for i in 0..ACTIONS {
            let intended_ns = begun_ns + i as u64 * PERIOD.as_nanos() as u64;
            let now_ns = clock::monotonic_ns();
            if now_ns < intended_ns {
                thread::sleep(Duration::from_nanos(intended_ns - now_ns));
            }
            late_ns.push(clock::monotonic_ns().saturating_sub(intended_ns) as f64);
            if i == ASKED_AT {
                match how {
                    How::Idle => {}
                    How::Inline => Burner::burn_units(steps),
                    How::Background => {
                        let thread = thread::Builder::new().name("background".to_owned());
                        thread
                            .spawn_scoped(scope, move || Burner::burn_units(steps))
                            .map_err(|e| refused("the background thread", &e))?;
                    }
                }
            }
        }
        Ok(late_ns)
    })
}

fn p99(how: How, cpus: u64) -> Cell {
    cell(&format!("how={},cpus={cpus}", how.name()), P99)
}

/// The CPU numbers of this run's cases, one first.
fn cpu_numbers(view: &View<'_>) -> Vec<u64> {
    let none = Params::new();
    let mut all: Vec<u64> = view.cases(&none).filter_map(|p| p.int("cpus")).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn evidence(view: &View<'_>) -> Evidence {
    let both = |&cpus: &u64| {
        let cells = [How::Inline, How::Background].map(|how| p99(how, cpus));
        let planned = cells.iter().all(|c| view.cases(&c.pattern).next().is_some());
        // What was skipped for want of CPUs is no part of the claim here.
        let wanted = cpus == 1 || cells.iter().all(|c| view.median(c).is_some());
        (planned && wanted).then(|| {
            let rounds = view.by_round(&cells, |v| v[0] / v[1])?;
            Ok((format!("cpus={cpus}"), rounds))
        })
    };
    let cells: Result<Vec<_>, String> = cpu_numbers(view).iter().filter_map(both).collect();
    match cells {
        Ok(cells) if cells.is_empty() => {
            Evidence::Missing("needs how=inline and how=background on the same CPUs".to_owned())
        }
        Ok(cells) => Evidence::Cells {
            quote: Quote::Smallest,
            cells,
        },
        Err(reason) => Evidence::Missing(reason),
    }
}

fn answer(view: &View<'_>) -> String {
    let late = |how, cpus| view.median(&p99(how, cpus)).map(|ns| ns / 1e6);
    let (Some(inline), Some(background)) = (late(How::Inline, 1), late(How::Background, 1)) else {
        return "The foreground was not measured both ways in this run.".to_owned();
    };
    let several = cpu_numbers(view)
        .into_iter()
        .filter(|&cpus| cpus > 1)
        .find_map(|cpus| {
            Some(format!(
                ", and {:.2} ms on {cpus} CPUs",
                late(How::Background, cpus)?
            ))
        })
        .unwrap_or_default();
    format!(
        "With a computation of 60 ms done inline, one action in a hundred comes more than {inline:.1} ms late; with a background \
         thread on the same CPU it is {background:.2} ms{several}."
    )
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |cpus: u64| {
        let summary = view.summary(&p99(How::Idle, cpus))?;
        let says = format!(
            "Without any computation one action in a hundred comes more than {:.0} µs late (cpus={cpus}): the timer itself.",
            summary.median / 1e3
        );
        Some(Finding::fact(says, Some(summary.median), summary.ci95, "ns"))
    };
    cpu_numbers(view).into_iter().filter_map(fact).collect()
}

fn figure(view: &View<'_>) -> Figure {
    let series = cpu_numbers(view).into_iter().map(|cpus| {
        let points = How::ALL.into_iter().enumerate().filter_map(|(i, how)| {
            let summary = view.summary(&p99(how, cpus))?;
            Some(Point {
                x: i as f64,
                label: Some(how.name().to_owned()),
                y: summary.median / 1e6,
                ci95: summary.ci95.map(|ends| ends.map(|end| end / 1e6)),
            })
        });
        Series {
            name: if cpus == 1 {
                "one CPU".to_owned()
            } else {
                format!("{cpus} CPUs")
            },
            origin: Origin::Measured,
            points: points.collect(),
        }
    });
    Figure {
        id: "lateness".to_owned(),
        title: "How late one action in a hundred comes, at least".to_owned(),
        note: "1,000 actions, one every 0.1 ms, during which 60 ms are computed.".to_owned(),
        x: Axis {
            label: "where the computation is done".to_owned(),
            scale: Scale::Category,
        },
        y: Axis {
            label: "lateness at the 99th percentile, ms".to_owned(),
            scale: Scale::Log,
        },
        series: series.filter(|s: &Series| !s.points.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use threadgauge_lab::view::ViewCase;

    #[test]
    fn an_inline_computation_delays_all_that_fall_into_it() {
        let steps = Burner::calibrate().iterations(Duration::from_millis(20));
        let late_ns = act(How::Inline, steps).unwrap();
        assert_eq!(late_ns.len(), ACTIONS);
        // The action after it was due 0.1 ms after its beginning; the computation took 20 ms, or the calibration erred.
        assert!(late_ns[ASKED_AT + 1] > 5e6, "{}", late_ns[ASKED_AT + 1]);
    }

    #[test]
    fn a_background_computation_ends_before_the_case_does() {
        let steps = Burner::calibrate().iterations(Duration::from_millis(5));
        let before_ns = clock::process_cpu_ns();
        act(How::Background, steps).unwrap();
        assert!(clock::process_cpu_ns() - before_ns > 2_000_000);
    }

    fn view(cells: &[(&str, f64)]) -> View<'static> {
        let case = |(pattern, ns): &(&str, f64)| ViewCase {
            all: BTreeMap::default(),
            params: params(pattern),
            lack: None,
            values: BTreeMap::from([(P99.to_owned(), (1..=7).map(|r| (r, *ns)).collect())]),
            summaries: BTreeMap::from([(
                P99.to_owned(),
                threadgauge_lab::analysis::metric_summary(
                    "ns",
                    threadgauge_stats::summarise(&[*ns; 7], 0.05).unwrap(),
                ),
            )]),
        };
        threadgauge_lab::testing::view("foreground", Profile::Quick, cells.iter().map(case).collect())
    }

    #[test]
    fn the_claim_compares_on_the_same_cpus() {
        let quick = view(&[
            ("how=inline,cpus=1", 60e6),
            ("how=background,cpus=1", 3e6),
            ("how=background,cpus=2", 1e5),
        ]);
        let Evidence::Cells { cells, .. } = evidence(&quick) else {
            panic!()
        };
        assert_eq!(cells, [("cpus=1".to_owned(), vec![20.0; 7])]);
        assert_eq!(
            answer(&quick),
            "With a computation of 60 ms done inline, one action in a hundred comes more than 60.0 ms late; with a background \
             thread on the same CPU it is 3.00 ms, and 0.10 ms on 2 CPUs."
        );
        assert!(matches!(evidence(&view(&[])), Evidence::Missing(_)));
    }
}
