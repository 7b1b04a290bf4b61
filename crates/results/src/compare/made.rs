//! Runs made by hand, for the tests of comparisons.

use std::collections::BTreeMap;

use crate::{CaseResult, Metric, Params, Results, RunData, Sample, Status, StoredSample};

/// Seven rounds of each of these cases `e/n=…` at about its number of ns; the first is the reference, and its copy
/// takes `copy` times as long.
pub(super) fn timed(name: &str, of: &[(u64, f64)], copy: f64) -> RunData {
    let text = include_str!("../../../../runs/golden/computing/results.json");
    let mut results: Results = serde_json::from_str(text).unwrap();
    results.warnings.clear();
    results.experiments.truncate(1);
    let experiment = &mut results.experiments[0];
    experiment.id = "e".to_owned();
    experiment.rounds = 7;
    experiment.reference = Some(format!("e/n={}", of[0].0));
    let case = experiment.cases[0].clone();
    let case = |&(n, _): &(u64, f64)| CaseResult {
        id: format!("e/n={n}"),
        params: Params::new().with("n", n),
        ..case.clone()
    };
    experiment.cases = of.iter().map(case).collect();
    let mut samples = Vec::new();
    // The last round was not finished: its figures say otherwise.
    for round in 1..=8 {
        let jitter = if round == 8 {
            9.0
        } else {
            1.0 + 0.001 * f64::from(round)
        };
        let copied = (of[0].0, 1, of[0].1 * copy);
        let own = of.iter().map(|&(n, ns)| (n, 0, ns));
        samples.extend(own.chain([copied]).map(|(n, copy, ns)| StoredSample {
            experiment: "e".to_owned(),
            case: format!("e/n={n}"),
            round,
            copy,
            nth_try: 0,
            attempt: 0,
            gated: false,
            started: String::new(),
            wall_ns: 1,
            sample: Sample {
                metrics: vec![Metric {
                    name: "elapsed_ns".to_owned(),
                    unit: "ns".to_owned(),
                    value: ns * jitter,
                }],
                ..Sample::without_figures(Status::Ok, "")
            },
        }));
    }
    RunData {
        name: name.to_owned(),
        results,
        samples: BTreeMap::from([("e".to_owned(), samples)]),
    }
}

/// Twelve cases, each so many times as long as its number says.
pub(super) fn twelve(factor: impl Fn(u64) -> f64) -> Vec<(u64, f64)> {
    (1..=12).map(|n| (n, 100.0 * n as f64 * factor(n))).collect()
}

/// The same run on so many CPUs, its cases with these parameters.
pub(super) fn on_cpus(mut run: RunData, cpus: u64, of_cases: impl IntoIterator<Item = Params>) -> RunData {
    run.results.machine["cpus"] = cpus.into();
    run.results.machine["allowed_cpus"] = format!("0-{}", cpus - 1).into();
    let experiment = &mut run.results.experiments[0];
    for (case, params) in experiment.cases.iter_mut().zip(of_cases) {
        let before = std::mem::replace(&mut case.id, params.case_id("e"));
        let samples = run.samples.get_mut("e").into_iter().flatten();
        let ids = samples.map(|sample| &mut sample.case);
        for id in ids.chain(&mut experiment.reference) {
            if *id == before {
                id.clone_from(&case.id);
            }
        }
        case.params = params;
    }
    run
}

pub(super) fn in_turns(mut a: RunData, mut b: RunData) -> (RunData, RunData) {
    (a.results.run.id, b.results.run.id) = ("1".to_owned(), "2".to_owned());
    a.results.run.in_turns_with = Some("2".to_owned());
    b.results.run.in_turns_with = Some("1".to_owned());
    (a, b)
}
