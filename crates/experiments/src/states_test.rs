use std::collections::BTreeMap;

use serde_json::{Value, json};
use threadgauge_lab::site::Profile;
use threadgauge_lab::testing;
use threadgauge_results::{
    CaseResult, Metric, Results, RunData, Sample, Status, StoredSample, Verdict, WaitsFor, claim,
};

use super::*;
use crate::CATALOGUE;

const fn needs_two_states(waits: WaitsFor) -> bool {
    matches!(
        waits,
        WaitsFor::Preemption | WaitsFor::Smt | WaitsFor::Kernel | WaitsFor::System
    )
}

fn params(quantity: &Quantity) -> Params {
    let mut params = Params::new();
    for (name, is) in quantity.has {
        params = match is {
            Is::Text(text) => params.with(name, *text),
            Is::Number(number) => params.with(name, *number),
        };
    }
    match quantity.library {
        Some(library) => params.with("library", library),
        None => params,
    }
}

/// Three runs of a machine in one state of what `waits` is about, at every other minute, in which everything takes
/// `factor` times 1 ms.
fn side(about: &About, waits: WaitsFor, is_second: bool, factor: f64) -> Repeated {
    let name = if is_second { "after" } else { "before" };
    let mut machine = json!({
        "kernel": "6.9.1", "preemption": "none (dynamic)", "smt": false, "cpus": 2, "cpu_model": "A processor",
        "hypervisor": null,
    });
    if is_second {
        let (fact, value): (_, Value) = match waits {
            WaitsFor::Preemption => ("preemption", "full (dynamic)".into()),
            WaitsFor::Smt => ("smt", true.into()),
            _ => ("kernel", "6.12.0".into()),
        };
        machine[fact] = value;
    }
    let run = |(n, between): (usize, f64)| {
        let text = include_str!("../../../runs/golden/computing/results.json");
        let mut results: Results = serde_json::from_str(text).unwrap();
        results.machine = machine.clone();
        results.run.started = format!("2026-01-01T00:{:02}:00Z", 2 * n + usize::from(is_second));
        results.experiments.truncate(1);
        let model = results.experiments.remove(0);
        let mut samples: BTreeMap<String, Vec<StoredSample>> = BTreeMap::new();
        for quantity in about.quantities {
            let params = params(quantity);
            let case = CaseResult {
                id: params.case_id(quantity.experiment),
                params,
                ..model.cases[0].clone()
            };
            let of = samples.entry(quantity.experiment.to_owned()).or_default();
            of.extend((1..=7).map(|round| StoredSample {
                experiment: quantity.experiment.to_owned(),
                case: case.id.clone(),
                round,
                copy: 0,
                nth_try: 0,
                attempt: 0,
                gated: false,
                started: String::new(),
                wall_ns: 1,
                sample: Sample {
                    metrics: vec![Metric {
                        name: quantity.metric.to_owned(),
                        unit: "ns".to_owned(),
                        value: 1e6 * factor * between,
                    }],
                    ..Sample::without_figures(Status::Ok, "")
                },
            }));
            match results
                .experiments
                .iter_mut()
                .find(|e| e.id == quantity.experiment)
            {
                Some(experiment) => experiment.cases.push(case),
                None => results.experiments.push(threadgauge_results::ExperimentResult {
                    id: quantity.experiment.to_owned(),
                    rounds: 7,
                    reference: None,
                    cases: vec![case],
                    ..model.clone()
                }),
            }
        }
        RunData {
            name: format!("{name}/{n}"),
            results,
            samples,
        }
    };
    Repeated {
        name: name.to_owned(),
        runs: [1.0, 1.001, 0.999].into_iter().enumerate().map(run).collect(),
    }
}

/// The finding on a claim, of sides whose second takes `factor` times as long as the first.
fn found(about: &About, factor: f64) -> ByStates {
    let waits = claim(about.claim).unwrap().waits_for;
    // The order in which sides are named says nothing.
    let sides = [side(about, waits, true, factor), side(about, waits, false, 1.0)];
    let mut found = decided_by_states(&sides).into_iter();
    found.find(|of| of.claim.id == about.claim).unwrap()
}

#[test]
fn each_claim_that_waits_for_two_states_is_decided_by_runs_of_both() {
    use Verdict::{DoesNotHold, Holds};
    // How many times as long things take with preemption, with SMT, under the newer kernel.
    const CASES: [(&str, f64, Verdict); 18] = [
        ("preemption-hardly-affects-threads", 1.0, Holds),
        ("preemption-hardly-affects-threads", 1.3, DoesNotHold),
        ("preemption-within-1pct-on-server", 1.0, Holds),
        ("preemption-within-1pct-on-server", 1.05, DoesNotHold),
        ("kernel-upgrade-no-gain", 1.0, Holds),
        ("kernel-upgrade-no-gain", 0.8, DoesNotHold),
        ("smt-no-effect-on-creation", 1.0, Holds),
        ("smt-no-effect-on-creation", 1.3, DoesNotHold),
        ("smt-no-effect-on-switching", 1.0, Holds),
        ("smt-no-effect-on-switching", 0.7, DoesNotHold),
        // Of messages: 5 % more.
        ("smt-5-to-6pct-on-server", 1.0 / 1.05, Holds),
        ("smt-5-to-6pct-on-server", 1.05, DoesNotHold),
        ("long-work-same-on-both-systems", 1.02, Holds),
        ("long-work-same-on-both-systems", 1.0 / 1.02, Holds),
        ("long-work-same-on-both-systems", 1.3, DoesNotHold),
        ("short-concurrent-io-differs-between-systems", 1.3, Holds),
        ("short-concurrent-io-differs-between-systems", 0.7, Holds),
        ("short-concurrent-io-differs-between-systems", 1.0, DoesNotHold),
    ];
    for (id, factor, verdict) in CASES {
        let about = ABOUT.iter().find(|about| about.claim == id).unwrap();
        let finding = found(about, factor).finding;
        assert_eq!(finding.verdict, Some(verdict), "{id} at {factor}: {finding:#?}");
        assert!(
            finding.measured.is_some() && finding.ci95.is_some(),
            "{finding:#?}"
        );
        let is_old = about.quantities[0].library.is_some();
        assert_eq!(finding.recreated.is_some(), is_old, "{id}");
    }
    let waiting: Vec<&str> = claims()
        .iter()
        .filter(|claim| needs_two_states(claim.waits_for))
        .map(|claim| claim.id.as_str())
        .collect();
    for id in &waiting {
        assert!(CASES.iter().any(|(of, ..)| of == id), "{id}");
    }
    assert_eq!(waiting.len(), ABOUT.len());
}

#[test]
fn what_was_found_says_by_which_runs_and_cases() {
    let about = &ABOUT[0];
    let by = found(about, 1.3).by.unwrap();
    assert_eq!(
        by,
        "3 runs of before and 3 of after: making and ending a thread in 1 case, a switch in 1 case"
    );
}

#[test]
fn of_several_sides_the_two_that_are_the_states_decide_and_else_it_is_said_what_they_lack() {
    let about = &ABOUT[0];
    let of = |sides: &[Repeated], id: &str| {
        let mut found = decided_by_states(sides).into_iter();
        found.find(|of| of.claim.id == id).unwrap().finding
    };
    let sides = [
        side(about, WaitsFor::Kernel, true, 2.0),
        side(about, WaitsFor::Preemption, false, 1.0),
        side(about, WaitsFor::Preemption, true, 1.0),
    ];
    assert_eq!(of(&sides, about.claim).verdict, Some(Verdict::Holds));
    let lacks = of(&sides, "smt-no-effect-on-creation");
    assert_eq!(lacks.verdict, Some(Verdict::NotTestable));
    let reason = lacks.reason.unwrap();
    let begin = "after and before do not differ in SMT: off in both; the claim needs the same machine with SMT on and off: ";
    assert!(reason.starts_with(begin), "{reason}");
    // Two kernels, and no figure of what the claim is about.
    let lacks = of(&sides[..2], "kernel-upgrade-no-gain");
    assert_eq!(lacks.verdict, Some(Verdict::NotMeasured), "{lacks:#?}");
    assert!(decided_by_states(&sides[..1]).is_empty());
}

#[test]
fn of_several_sides_the_reason_is_of_those_that_differ_in_the_state() {
    let about = &ABOUT[0];
    let reason = |sides: &[Repeated]| {
        let mut found = decided_by_states(sides).into_iter();
        let of_claim = found.find(|of| of.claim.id == about.claim).unwrap();
        of_claim.finding.reason.unwrap()
    };
    let kernel = side(about, WaitsFor::Kernel, true, 1.0);
    let [off, mut on] = [false, true].map(|is_on| side(about, WaitsFor::Preemption, is_on, 1.0));
    on.name = "preempted".to_owned();
    on.runs.truncate(2);
    let says = reason(&[kernel.clone(), off.clone(), on.clone()]);
    assert!(says.starts_with("preempted has 2 runs"), "{says}");
    // In the state and in the kernel, too: that is nearer than not in the state.
    let mut other = off;
    for run in &mut other.runs {
        run.results.machine["kernel"] = "6.12.0".into();
    }
    let says = reason(&[other, kernel, on]);
    let begin = "before and preempted differ in more than kernel preemption: kernel is";
    assert!(says.starts_with(begin), "{says}");
}

#[test]
fn what_more_runs_would_narrow_is_not_said_of_rounds() {
    let about = &ABOUT[0];
    let mut sides = [false, true].map(|is_second| side(about, WaitsFor::Preemption, is_second, 1.0));
    // Runs of a state lie further apart than the rule is wide.
    for samples in sides[1].runs[2].samples.values_mut().flatten() {
        samples.sample.metrics[0].value *= 1.2;
    }
    let mut found = decided_by_states(&sides).into_iter();
    let finding = found.find(|of| of.claim.id == about.claim).unwrap().finding;
    assert_eq!(finding.verdict, Some(Verdict::Inconclusive), "{finding:#?}");
    let reason = finding.reason.unwrap();
    assert!(
        reason.contains("more runs of each state would narrow it"),
        "{reason}"
    );
    assert!(!reason.contains("round"), "{reason}");
}

#[test]
fn each_quantity_is_measured_by_cases_of_its_experiment() {
    let mut site = testing::site(Profile::Paper, 4);
    site.runtimes = Vec::new();
    for quantity in ABOUT.iter().flat_map(|about| about.quantities) {
        let experiment = CATALOGUE.iter().find(|e| e.id == quantity.experiment).unwrap();
        let cases = (experiment.plan)(&site).cases;
        let meant = cases
            .iter()
            .filter(|case| quantity.is_meant(&case.params))
            .count();
        assert!(meant > 0, "{}: {}", quantity.experiment, quantity.says);
        assert!(meant < cases.len(), "{}: {}", quantity.experiment, quantity.says);
        let is_primary = experiment
            .primary
            .iter()
            .any(|metric| metric.name == quantity.metric);
        assert!(is_primary, "{}: {}", quantity.experiment, quantity.metric);
    }
}
