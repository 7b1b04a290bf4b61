//! Question: what does the laboratory itself cost?
//!
//! **Method.** Nothing is measured but the harness: how long a worker takes from being started to its case's first
//! instruction, what reading the clock costs, what starting and stopping a timed section adds to a batch, and by how
//! much a burn of 10 ms misses.
//!
//! **Control.** It is the control: whatever another experiment finds must be large against these.
//!
//! **Traps.** A worker's start is one event an invocation and depends on what the caches hold; it lies outside every
//! timed section. The cost of a cheap operation includes the loop around it.
//!
//! No source measured its own harness. One said that its loop was up to 20 % off (source 000).

use std::hint::black_box;
use std::time::Duration;

use threadgauge_machine::clock;
use threadgauge_results::{Axis, Figure, Finding, Origin, Params, Point, Scale, Series, Table};
use threadgauge_stats::median;

use threadgauge_lab::batch::{Batches, ClockCost, measure};
use threadgauge_lab::compat::{cell, params};
use threadgauge_lab::experiment::{About, Answer, Experiment};
use threadgauge_lab::grid::{Plan, PlannedCase};
use threadgauge_lab::site::{Profile, Site};
use threadgauge_lab::statistic::metric;
use threadgauge_lab::view::View;
use threadgauge_lab::worker::{CaseError, Worker};

/// What is measured, with what one sample takes, ms.
const CASES: [(&str, u64); 4] = [("start", 6), ("clock", 165), ("batch", 180), ("burn", 55)];

/// Spent on batches in a quick sample: what ten that count take, with their warm-up.
const BUDGET: Duration = Duration::from_millis(140);

/// The length of the burn whose error is measured.
const BURN: Duration = Duration::from_millis(10);

/// Burns a sample.
const BURNS: usize = 3;

/// The experiment.
#[derive(Debug)]
pub struct Null;

/// What it asks and how it measures.
const ABOUT: About = About {
    id: "null",
    question: "What does the laboratory itself cost?",
    sources: &[],
    primary: &[metric("ns", "ns")],
    how: "start: from just before the worker is started to its case's first instruction. clock: reading \
                  CLOCK_MONOTONIC, in batches. batch: one addition that a compiler may not remove, in batches, and beside \
                  it an empty timed section. burn: the calibrated burner computing for 10 ms of CPU time. Batches last at \
                  least 10 ms, 1,000 steps of the clock and 2,000 calls of it; at least 3 are dropped as warm-up.",
    control: "This experiment is the control of the others.",
    traps: &[
        "A worker's start lies outside every timed section: it costs patience, not precision.",
        "The cost of the cheap operation includes the loop around it.",
    ],
    source: "No source measured its own harness; source 000 says that its loop was up to 20 % off.",
};

impl Experiment for Null {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn plan(&self, site: &Site) -> Plan {
        let budget = match site.profile {
            Profile::Quick => Duration::from_millis(3_300),
            Profile::Standard => Duration::from_secs(20),
            Profile::Paper => Duration::from_secs(60),
        };
        let case = |(what, ms)| {
            let params = Params::new().with("what", what).with("cpus", 1);
            PlannedCase::new(params, Duration::from_millis(ms))
        };
        Plan {
            cases: CASES.map(case).to_vec(),
            reference: params("what=burn"),
            budget,
            twice_up_to: Duration::ZERO,
        }
    }

    fn run(&self, case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
        let first_instruction_ns = clock::monotonic_ns();
        match case.text("what") {
            Some("start") => start(worker, first_instruction_ns),
            Some("clock") => time_clock(worker),
            Some("batch") => time_batch(worker),
            Some("burn") => time_burn(worker),
            other => {
                return Err(CaseError::Failed(format!(
                    "the parameter what is {}; it must be start, clock, batch or burn",
                    other.unwrap_or("missing")
                )));
            }
        }
        Ok(())
    }

    fn read(&self, view: &View<'_>) -> Answer {
        Answer {
            answer: answer(view),
            facts: facts(view),
            figures: vec![figure(view)],
            tables: vec![table(view)],
            ..Answer::default()
        }
    }
}

fn start(worker: &mut Worker, first_instruction_ns: u64) {
    let ns = first_instruction_ns.saturating_sub(worker.launched_ns()) as f64;
    worker.tag("cold");
    worker.metric("ns", "ns", ns);
    worker.metric("worker_start_ns", "ns", ns);
}

fn time_clock(worker: &mut Worker) {
    let cost = clock_cost();
    let batches = timed(worker, cost, || {
        black_box(clock::monotonic_ns());
    });
    let ns = batches.ns_per_operation();
    worker.metric("ns", "ns", ns);
    worker.metric("clock_ns", "ns", ns);
    worker.metric("clock_resolution_ns", "ns", cost.resolution_ns as f64);
}

fn time_batch(worker: &mut Worker) {
    let mut sum = 0_u64;
    let batches = timed(worker, clock_cost(), || sum = black_box(sum.wrapping_add(1)));
    let empty_ns = empty_section_ns(worker);
    worker.metric("ns", "ns", batches.ns_per_operation());
    worker.metric("ns_per_operation", "ns", batches.ns_per_operation());
    worker.metric("empty_section_ns", "ns", empty_ns);
    worker.metric("batch_overhead_share", "ratio", empty_ns / batches.batch_ns());
    worker.metric("operations_per_batch", "count", batches.operations as f64);
}

fn time_burn(worker: &mut Worker) {
    let burner = *worker.burner();
    let mut wall_ns = Vec::with_capacity(BURNS);
    let mut errors = Vec::with_capacity(BURNS);
    for _ in 0..BURNS {
        let watch = worker.stopwatch();
        errors.push(burner.error(BURN).abs());
        wall_ns.push(watch.stop().wall_ns as f64);
    }
    worker.metric("ns", "ns", middle(&wall_ns));
    worker.metric("burner_error", "ratio", middle(&errors));
}

/// Batches of `operation`, each a timed section.
fn timed(worker: &mut Worker, cost: ClockCost, mut operation: impl FnMut()) -> Batches {
    let batches = measure(cost.shortest_batch(), BUDGET, |operations| {
        let watch = worker.stopwatch();
        for _ in 0..operations {
            operation();
        }
        watch.stop().wall_ns as f64
    });
    if !batches.steady {
        worker.tag("no-steady-state");
    }
    batches
}

/// What starting and stopping a timed section takes, ns: what the harness adds to each batch.
fn empty_section_ns(worker: &Worker) -> f64 {
    const SECTIONS: u32 = 200;
    const RUNS: usize = 11;
    let run = |_| {
        let begun_ns = clock::monotonic_ns();
        for _ in 0..SECTIONS {
            black_box(worker.stopwatch().stop());
        }
        (clock::monotonic_ns() - begun_ns) as f64 / f64::from(SECTIONS)
    };
    middle(&(0..RUNS).map(run).collect::<Vec<_>>())
}

fn clock_cost() -> ClockCost {
    let quality = clock::clock_quality();
    ClockCost {
        resolution_ns: quality.resolution_ns,
        call_ns: quality.call_cost_ns.ceil() as u64,
    }
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// A figure of the harness and what it is to stay under.
struct Target {
    what: &'static str,
    metric: &'static str,
    name: &'static str,
    /// From the stored unit to the one shown.
    scale: f64,
    unit: &'static str,
    most: Option<f64>,
}

const TARGETS: [Target; 6] = [
    Target {
        what: "start",
        metric: "worker_start_ns",
        name: "Worker start to first instruction",
        scale: 1e-6,
        unit: "ms",
        most: Some(3.0),
    },
    Target {
        what: "batch",
        metric: "batch_overhead_share",
        name: "Harness overhead per timed batch",
        scale: 100.0,
        unit: "%",
        most: Some(0.1),
    },
    Target {
        what: "burn",
        metric: "burner_error",
        name: "Error of a 10 ms burn",
        scale: 100.0,
        unit: "%",
        most: Some(1.0),
    },
    Target {
        what: "clock",
        metric: "clock_ns",
        name: "Reading the clock",
        scale: 1.0,
        unit: "ns",
        most: None,
    },
    Target {
        what: "clock",
        metric: "clock_resolution_ns",
        name: "Smallest step of the clock",
        scale: 1.0,
        unit: "ns",
        most: None,
    },
    Target {
        what: "batch",
        metric: "ns_per_operation",
        name: "One addition and its loop",
        scale: 1.0,
        unit: "ns",
        most: None,
    },
];

/// A [`Target`]'s median and interval in the unit shown.
fn shown(view: &View<'_>, target: &Target) -> Option<(f64, Option<[f64; 2]>)> {
    let summary = view.summary(&cell(&format!("what={}", target.what), target.metric))?;
    let ci95 = summary.ci95.map(|ends| ends.map(|end| end * target.scale));
    Some((summary.median * target.scale, ci95))
}

fn answer(view: &View<'_>) -> String {
    let parts: Vec<String> = TARGETS[..3]
        .iter()
        .filter_map(|target| Some((target, shown(view, target)?.0)))
        .map(|(target, value)| {
            format!(
                "{} {} {}",
                target.name.to_lowercase(),
                figures(value),
                target.unit
            )
        })
        .collect();
    if parts.is_empty() {
        return "The harness's own cost was not measured in this run.".to_owned();
    }
    format!("The harness costs, at the median: {}.", parts.join(", "))
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |target: &Target| {
        let (value, ci95) = shown(view, target)?;
        let judged = target.most.map_or_else(String::new, |most| {
            let kept = if value <= most { "within" } else { "above" };
            format!(", {kept} the target of {most} {}", target.unit)
        });
        Some(Finding {
            claim: None,
            verdict: None,
            says: format!("{}: {} {}{judged}.", target.name, figures(value), target.unit),
            published: None,
            published_text: None,
            measured: Some(value),
            ci95,
            unit: target.unit.to_owned(),
            reason: None,
        })
    };
    TARGETS.iter().filter_map(fact).collect()
}

/// Three figures, since these range from a thousandth to thousands.
fn figures(value: f64) -> String {
    let digits = 2 - value.abs().max(1e-4).log10().floor() as i32;
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
}

fn figure(view: &View<'_>) -> Figure {
    let times = [
        ("start", "worker_start_ns", "worker start"),
        ("batch", "empty_section_ns", "empty timed section"),
        ("clock", "clock_ns", "clock reading"),
        ("batch", "ns_per_operation", "one addition"),
    ];
    let points = times.iter().enumerate().filter_map(|(i, (what, metric, name))| {
        let summary = view.summary(&cell(&format!("what={what}"), metric))?;
        Some(Point {
            x: i as f64,
            label: Some((*name).to_owned()),
            y: summary.median,
            ci95: summary.ci95,
        })
    });
    Figure {
        id: "own-cost".to_owned(),
        title: "What the laboratory itself costs".to_owned(),
        note:
            "Whatever an experiment finds must be large against these. A batch lasts at least 10,000,000 ns."
                .to_owned(),
        x: Axis {
            label: "what".to_owned(),
            scale: Scale::Category,
        },
        y: Axis {
            label: "time, ns".to_owned(),
            scale: Scale::Log,
        },
        series: vec![Series {
            name: "this machine".to_owned(),
            origin: Origin::Measured,
            points: points.collect(),
        }],
    }
}

fn table(view: &View<'_>) -> Table {
    let row = |target: &Target| {
        let value = shown(view, target);
        vec![
            format!("{}, {}", target.name, target.unit),
            value.map_or_else(String::new, |(median, _)| figures(median)),
            value
                .and_then(|(_, ci95)| ci95)
                .map_or_else(String::new, |[low, high]| {
                    format!("{} … {}", figures(low), figures(high))
                }),
            target.most.map_or_else(String::new, |most| most.to_string()),
        ]
    };
    Table {
        id: "own-cost".to_owned(),
        title: "The harness's own cost".to_owned(),
        note: "Targets of this project; no source has such figures.".to_owned(),
        columns: ["what", "median", "95 % interval", "at most"]
            .map(str::to_owned)
            .to_vec(),
        rows: TARGETS.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use threadgauge_results::{MetricSummary, Sample, Status};

    use super::*;
    use threadgauge_lab::view::ViewCase;
    use threadgauge_lab::worker::Order;

    fn sample(what: &str) -> Sample {
        let case = Params::new().with("what", what).with("cpus", 1);
        let mut worker = Worker::new(&Order {
            experiment: "null".to_owned(),
            params: case.clone(),
            cpus: vec![0],
            handicap_percent: 0,
            launched_ns: clock::monotonic_ns() - 1_000_000,
        });
        let result = Null.run(&case, &mut worker);
        worker.finish(result)
    }

    #[test]
    fn every_case_has_the_primary_metric_and_its_own() {
        for (what, own) in [
            ("start", "worker_start_ns"),
            ("clock", "clock_resolution_ns"),
            ("batch", "batch_overhead_share"),
            ("burn", "burner_error"),
        ] {
            let sample = sample(what);
            assert_eq!(sample.status, Status::Ok, "{sample:?}");
            assert!(
                sample.value("ns").unwrap() > 0.0 && sample.value(own).is_some(),
                "{sample:?}"
            );
        }
        // Launched a millisecond before it began.
        assert!(sample("start").value("ns").unwrap() >= 1e6);
    }

    #[test]
    fn an_unknown_case_is_refused_in_words() {
        let sample = sample("nonsense");
        assert_eq!(sample.status, Status::Failed);
        assert_eq!(
            sample.reason.as_deref(),
            Some("the parameter what is nonsense; it must be start, clock, batch or burn")
        );
    }

    #[test]
    fn a_round_takes_under_half_a_second() {
        let site = Site {
            profile: Profile::Quick,
            cpus: threadgauge_machine::CpuList::new([0]),
            free_memory_mib: 1_000,
        };
        let plan = Null.plan(&site);
        let round: Duration = plan.cases.iter().map(|c| c.estimate).sum();
        assert!(round <= Duration::from_millis(420), "{round:?}");
        assert!(round * 8 < plan.budget);
        assert_eq!(
            plan.cases
                .iter()
                .filter(|c| c.params.matches(&plan.reference))
                .count(),
            1
        );
    }

    fn view(cases: &[(&str, &str, f64)]) -> View<'static> {
        let case = |(what, metric, median): &(&str, &str, f64)| ViewCase {
            all: BTreeMap::default(),
            params: params(&format!("what={what},cpus=1")),
            lack: None,
            values: BTreeMap::new(),
            summaries: BTreeMap::from([(
                (*metric).to_owned(),
                MetricSummary {
                    unit: "ns".to_owned(),
                    n: 7,
                    median: *median,
                    ci95: Some([median * 0.9, median * 1.1]),
                    ci_level: Some(0.984),
                    mean: *median,
                    trimmed_mean: Some(*median),
                    min: *median,
                    max: *median,
                    cv: Some(0.0),
                },
            )]),
        };
        threadgauge_lab::testing::view("null", Profile::Quick, cases.iter().map(case).collect())
    }

    #[test]
    fn figures_are_judged_by_their_targets() {
        let view = view(&[
            ("start", "worker_start_ns", 4.2e6),
            ("batch", "batch_overhead_share", 0.000_12),
        ]);
        let facts = facts(&view);
        assert_eq!(
            facts[0].says,
            "Worker start to first instruction: 4.20 ms, above the target of 3 ms."
        );
        assert_eq!(
            facts[1].says,
            "Harness overhead per timed batch: 0.0120 %, within the target of 0.1 %."
        );
        assert_eq!(facts.len(), 2);
        assert_eq!(
            answer(&view),
            "The harness costs, at the median: worker start to first instruction 4.20 ms, harness overhead per timed batch \
             0.0120 %."
        );
        assert_eq!(figure(&view).series[0].points.len(), 1);
    }

    #[test]
    fn without_figures_nothing_is_said() {
        let view = view(&[]);
        assert_eq!(
            answer(&view),
            "The harness's own cost was not measured in this run."
        );
        assert!(facts(&view).is_empty());
        assert!(table(&view).rows.iter().all(|row| row[1].is_empty()));
    }
}
