//! Question: what does the laboratory itself cost? The control of all others: the effects they find must be large
//! compared with it.
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print.

use std::hint::black_box;

use threadgauge_lab::batch::{Batches, ClockCost, measure};
use threadgauge_lab::prelude::*;
use threadgauge_machine::clock;
use threadgauge_results::{Figure, units};
use threadgauge_stats::median;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "null",
    question: "What does the laboratory itself cost?",
    first_run: true,
    sources: &[],
    primary: &[NS],
    how: "start: from just before the worker is started to its case's first instruction. clock: reading \
          CLOCK_MONOTONIC, in batches. batch: one addition that a compiler may not remove, in batches, and beside it \
          an empty timed section. burn: the calibrated burner computing for 10 ms of CPU time. Batches last at least \
          10 ms, 1,000 steps of the clock and 2,000 calls of it; at least 3 are dropped as warm-up.",
    control: "This experiment is the control of the others.",
    traps: &[
        "A worker's start lies outside every timed section: it costs patience, not precision.",
        "The cost of the cheap operation includes the loop around it.",
    ],
    source: "No source measured its own harness; source 000 says that its loop was up to 20 % off.",
    calls: &[],
    plan,
    run,
    read,
};

/// The first figure of each case once more, under one name for all cases.
const NS: Metric = metric("ns", "ns");
const START: Metric = metric("worker_start_ns", "ns");
const CLOCK: Metric = metric("clock_ns", "ns");
const RESOLUTION: Metric = metric("clock_resolution_ns", "ns");
const OPERATION: Metric = metric("ns_per_operation", "ns");
const EMPTY_SECTION: Metric = metric("empty_section_ns", "ns");
const SHARE: Metric = metric("batch_overhead_share", "ratio");
const OPERATIONS: Metric = metric("operations_per_batch", "count");
const BURNER_ERROR: Metric = metric("burner_error", "ratio");

/// Time for batches in a quick sample: enough for ten that are kept, and their warm-up.
const BUDGET: Duration = Duration::from_millis(140);

/// The length of the burn whose error is measured.
const BURN: Duration = Duration::from_millis(10);

/// Burns in a sample.
const BURNS: usize = 3;

words! {
    enum What { Start = "start", Clock = "clock", Batch = "batch", Burn = "burn" }
}
point! {
    struct Case { what: What, cpus: u64 = 1.. }
}

/// What is measured, with what one sample takes, ms.
const CASES: [(What, u64); 4] = [
    (What::Start, 6),
    (What::Clock, 165),
    (What::Batch, 180),
    (What::Burn, 55),
];

/// A metric of a case, on however many CPUs.
fn figure(metric: Metric, what: What) -> Statistic {
    metric.of(Case { what, cpus: 1 }.any(&["cpus"]))
}

fn plan(site: &Site) -> Plan {
    let planned = |(what, ms)| PlannedCase::new(Case { what, cpus: 1 }, Duration::from_millis(ms));
    Plan {
        cases: CASES.map(planned).to_vec(),
        reference: figure(NS, What::Burn).pattern(),
        budget: Duration::from_millis(site.profile.pick(3_300, 20_000, 60_000)),
    }
}

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let first_instruction_ns = clock::monotonic_ns();
    match Case::read(case)?.what {
        What::Start => start(worker, first_instruction_ns),
        What::Clock => time_clock(worker),
        What::Batch => time_batch(worker),
        What::Burn => time_burn(worker),
    }
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    let quantities = quantities(view);
    Answer {
        answer: answer(&quantities[..3]),
        number: view.number(
            "until a worker's first instruction",
            &figure(START, What::Start),
            "ns",
        ),
        facts: quantities.iter().filter_map(fact).collect(),
        figures: chart(view).into_iter().collect(),
        tables: vec![table(
            "own-cost",
            "The harness's own cost",
            "Targets of this project; no source has such figures.",
            ["what", "median [95 % interval]", "at most"],
            quantities.iter().map(row).collect(),
        )],
        ..Answer::default()
    }
}

fn start(worker: &mut Worker, first_instruction_ns: u64) {
    let ns = first_instruction_ns.saturating_sub(worker.launched_ns()) as f64;
    worker.tag("cold");
    worker.record(NS, ns);
    worker.record(START, ns);
}

fn time_clock(worker: &mut Worker) {
    let cost = clock_cost();
    let batches = timed(worker, cost, || {
        black_box(clock::monotonic_ns());
    });
    let ns = batches.ns_per_operation();
    worker.record(NS, ns);
    worker.record(CLOCK, ns);
    worker.record(RESOLUTION, cost.resolution_ns as f64);
}

fn time_batch(worker: &mut Worker) {
    let mut sum = 0_u64;
    let batches = timed(worker, clock_cost(), || sum = black_box(sum.wrapping_add(1)));
    let empty_ns = empty_section_ns(worker);
    worker.record(NS, batches.ns_per_operation());
    worker.record(OPERATION, batches.ns_per_operation());
    worker.record(EMPTY_SECTION, empty_ns);
    worker.record(SHARE, empty_ns / batches.batch_ns());
    worker.record(OPERATIONS, batches.operations as f64);
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
    worker.record(NS, middle(&wall_ns));
    worker.record(BURNER_ERROR, middle(&errors));
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
    say_if_unsteady(worker, batches.steady);
    batches
}

fn say_if_unsteady(worker: &mut Worker, steady: bool) {
    if !steady {
        worker.tag("no-steady-state");
    }
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

/// A figure of the harness, and its upper bound.
struct Quantity {
    name: &'static str,
    estimate: Option<Estimate>,
    unit: &'static str,
    most: Option<f64>,
}

/// Those with a bound are the first three.
fn quantities(view: &View<'_>) -> [Quantity; 6] {
    use What::{Batch, Burn, Clock, Start};
    let quantity = |name, metric, what, (scale, unit), most| Quantity {
        name,
        estimate: view.estimate(&figure(metric, what).times(scale)),
        unit,
        most,
    };
    let (ns, ms, share) = ((1.0, "ns"), (1e-6, "ms"), (100.0, "%"));
    [
        quantity("Worker start to first instruction", START, Start, ms, Some(3.0)),
        quantity("Harness overhead per timed batch", SHARE, Batch, share, Some(0.1)),
        quantity("Error of a 10 ms burn", BURNER_ERROR, Burn, share, Some(1.0)),
        quantity("Reading the clock", CLOCK, Clock, ns, None),
        quantity("Smallest step of the clock", RESOLUTION, Clock, ns, None),
        quantity("One addition and its loop", OPERATION, Batch, ns, None),
    ]
}

fn answer(quantities: &[Quantity]) -> String {
    let part = |quantity: &Quantity| {
        let value = quantity.estimate?.plain(quantity.unit);
        Some(format!("{} {value}", quantity.name.to_lowercase()))
    };
    let parts: Vec<String> = quantities.iter().filter_map(part).collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("The harness costs, at the median: {}.", parts.join(", "))
}

fn fact(quantity: &Quantity) -> Option<Finding> {
    let (name, unit, estimate) = (quantity.name, quantity.unit, quantity.estimate?);
    let judged = quantity.most.map_or_else(String::new, |most| {
        let kept = if estimate.value <= most { "within" } else { "above" };
        format!(", {kept} the target of {}", bound(most, unit))
    });
    let says = format!("{name}: {}{judged}.", estimate.plain(unit));
    Some(estimate.fact(says, unit))
}

fn row(quantity: &Quantity) -> Vec<String> {
    let cells = [
        Some(quantity.name.to_owned()),
        quantity.estimate.map(|e| e.show(quantity.unit)),
        quantity.most.map(|most| bound(most, quantity.unit)),
    ];
    cells.map(Option::unwrap_or_default).to_vec()
}

fn bound(most: f64, unit: &str) -> String {
    units::Scale::bounds(unit, &[most])
}

fn chart(view: &View<'_>) -> Option<Figure> {
    let times = [
        ("worker start", START, What::Start),
        ("empty timed section", EMPTY_SECTION, What::Batch),
        ("clock reading", CLOCK, What::Clock),
        ("one addition", OPERATION, What::Batch),
    ];
    let points = times.map(|(name, metric, what)| (name, figure(metric, what)));
    Chart::new(view, "own-cost", "What the laboratory itself costs")
        .note(
            "Whatever an experiment finds must be large against these. A batch lasts at least 10,000,000 ns.",
        )
        .x(Scale::Category, "what")
        .y(Scale::Log, "time, ns")
        .line("this machine", points)
        .drawn()
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_lab::view::ViewCase;
    use threadgauge_lab::worker::Order;
    use threadgauge_results::{Sample, Status};

    use super::*;

    /// The sample of a worker that was launched a millisecond before.
    fn sample(what: &str) -> Sample {
        let params = Params::new().with("what", what).with("cpus", 1);
        let mut worker = Worker::new(&Order {
            experiment: "null".to_owned(),
            params: params.clone(),
            cpus: vec![0],
            handicap_percent: 0,
            launched_ns: clock::monotonic_ns() - 1_000_000,
            seed: 0,
            each: None,
            runtime: None,
        });
        let result = run(&params, &mut worker);
        worker.finish(result)
    }

    #[test]
    fn batches_that_never_agree_are_named() {
        for (steady, tags) in [(true, &[][..]), (false, &["no-steady-state"])] {
            let mut worker =
                testing::worker(&EXPERIMENT, &Params::new().with("what", "batch").with("cpus", 1));
            say_if_unsteady(&mut worker, steady);
            assert_eq!(worker.finish(Ok(())).tags, tags);
        }
    }

    #[test]
    fn every_case_has_the_primary_metric_and_its_own() {
        for (what, own) in [
            (What::Start, START),
            (What::Clock, RESOLUTION),
            (What::Batch, SHARE),
            (What::Burn, BURNER_ERROR),
        ] {
            let sample = sample(what.name());
            assert_eq!(sample.status, Status::Ok, "{sample:?}");
            let [primary, own] = [NS, own].map(|metric| sample.value(metric.name));
            assert!(primary > Some(0.0) && own.is_some(), "{sample:?}");
        }
        assert!(sample("start").value(NS.name) >= Some(1e6));
    }

    #[test]
    fn an_unknown_case_is_refused_in_words() {
        let sample = sample("nonsense");
        assert_eq!(sample.status, Status::Failed);
        assert_eq!(
            sample.reason.as_deref(),
            Some("the parameter what is nonsense; it must be one of start, clock, batch, burn")
        );
    }

    #[test]
    fn a_round_takes_under_half_a_second() {
        let plan = plan(&testing::site(Profile::Quick, 1));
        let round: Duration = plan.cases.iter().map(|c| c.estimate).sum();
        assert!(round <= Duration::from_millis(420), "{round:?}");
        assert!(round * 8 < plan.budget);
        let references = plan.cases.iter().filter(|c| c.params.matches(&plan.reference));
        assert_eq!(references.count(), 1);
    }

    fn view(cases: Vec<ViewCase>) -> View<'static> {
        testing::view("null", Profile::Quick, cases)
    }

    /// Seven rounds, 1 % apart.
    fn case(what: What, metric: Metric, median: f64) -> ViewCase {
        let rounds = (-3..=3).map(|per_cent| median * (1.0 + 0.01 * f64::from(per_cent)));
        testing::case(Case { what, cpus: 1 }, [(metric, rounds.collect())])
    }

    #[test]
    fn figures_are_judged_by_their_targets() {
        let view = view(vec![
            case(What::Start, START, 4.2e6),
            case(What::Batch, SHARE, 0.000_12),
        ]);
        let answer = read(&view);
        let says: Vec<&str> = answer.facts.iter().map(|fact| fact.says.as_str()).collect();
        assert_eq!(
            says,
            [
                "Worker start to first instruction: 4.20 ms, above the target of 3 ms.",
                "Harness overhead per timed batch: 0.0120 %, within the target of 0.1 %.",
            ]
        );
        assert_eq!(
            answer.answer,
            "The harness costs, at the median: worker start to first instruction 4.20 ms, harness overhead per timed \
             batch 0.0120 %."
        );
        assert_eq!(answer.figures[0].series[0].points.len(), 1);
        assert_eq!(answer.tables[0].rows[0][1..], ["4.20 [4.07, 4.33] ms", "3 ms"]);
    }

    #[test]
    fn without_figures_nothing_is_said() {
        let answer = read(&view(Vec::new()));
        assert!(answer.answer.is_empty());
        assert!(answer.facts.is_empty());
        assert!(answer.figures.is_empty());
        let mut rows = answer.tables[0].rows.iter();
        assert!(rows.all(|row| row[1].is_empty()));
    }
}
