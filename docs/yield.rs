//! Question: what does giving up the CPU cost when nobody else wants it?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print.

use std::hint::black_box;

use threadgauge_lab::prelude::*;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "yield",
    question: "What does giving up the CPU cost when nobody else wants it?",
    first_run: false,
    sources: &["001"],
    primary: &[CALL],
    how: "A loop of sched_yield on one CPU, timed whole and divided by the number of calls.",
    control: "The same loop without the call.",
    traps: &["With another unit on the CPU a yield switches, and costs more."],
    source: "Source 001 yields among many threads and never measures a yield alone.",
    calls: &[],
    plan,
    run,
    read,
};

/// The time of one turn of the loop.
const CALL: Metric = metric("ns_per_call", "ns");

words! {
    enum Body { Empty = "empty", Yield = "yield" }
}

point! {
    struct Case { body: Body, calls: u64 = 1.., cpus: u64 = 1.. }
}

/// Of however many calls.
fn time(body: Body) -> Statistic {
    let case = Case {
        body,
        calls: 1,
        cpus: 1,
    };
    CALL.of(case.any(&["calls"]))
}

fn plan(site: &Site) -> Plan {
    let calls = site.profile.pick(100_000, 100_000, 1_000_000);
    let case = |body| Case { body, calls, cpus: 1 };
    // A call takes at most about a microsecond.
    let takes = Duration::from_millis(5) + Duration::from_micros(calls);
    Plan {
        cases: Body::ALL.map(|body| PlannedCase::new(case(body), takes)).to_vec(),
        reference: case(Body::Empty).params(),
        budget: Duration::from_secs(30),
    }
}

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::read(case)?;
    let stopwatch = worker.stopwatch();
    match case.body {
        Body::Yield => (0..case.calls).for_each(|_| std::thread::yield_now()),
        Body::Empty => (0..case.calls).for_each(|i| {
            black_box(i);
        }),
    }
    let lap = stopwatch.stop();
    worker.record(CALL, lap.wall_ns as f64 / case.calls as f64);
    worker.tag("cold");
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    let net = time(Body::Yield).less(time(Body::Empty));
    let number = view.number("a yield with nobody to yield to", &net, "ns");
    let net = view.estimate(&net).filter(|_| view.resolved(&net));
    let says = net.map_or("What a lone yield costs is below resolution.".to_owned(), |net| {
        format!("A yield that finds nobody waiting costs {}.", net.show("ns"))
    });
    let bodies = Body::ALL.map(|body| (body.name(), time(body)));
    let rows = bodies
        .clone()
        .map(|(name, time)| vec![name.to_owned(), view.shown(&time, "ns")]);
    Answer {
        answer: says.clone(),
        number: net.and(number),
        claims: vec![(
            "lone-yield-under-a-microsecond",
            time(Body::Yield).times(1e-3).into(),
        )],
        facts: net.map(|net| net.fact(says, "ns")).into_iter().collect(),
        comparisons: vec![Pair::of(&time(Body::Empty), &time(Body::Yield))],
        figures: Chart::new(view, "call", "One turn of the loop")
            .x(Scale::Category, "body of the loop")
            .y(Scale::Log, "time, ns")
            .line("this machine", bodies.clone())
            .drawn()
            .into_iter()
            .collect(),
        tables: vec![table(
            "call",
            "One turn of the loop",
            "",
            ["body", "time"],
            rows.to_vec(),
        )],
        ..Answer::default()
    }
}
