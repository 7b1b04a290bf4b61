//! Each runtime that this machine has, in each experiment that it takes part in, by its smallest case.
#![allow(clippy::print_stderr)]

use threadgauge_experiments::runtimes::prepare::{Asked, Prepared, prepare};
use threadgauge_experiments::runtimes::{Does, KINDS, units};
use threadgauge_experiments::{create, footprint, limits, past_the_limit, print, ring, turnaround};
use threadgauge_lab::experiment::Experiment;
use threadgauge_lab::worker::{Order, Worker};
use threadgauge_results::{Params, Runtime, Sample, Status};

mod places;

fn sample(experiment: &Experiment, params: &Params, runtime: &Runtime) -> Sample {
    let mut worker = Worker::new(&Order {
        experiment: experiment.id.to_owned(),
        params: params.clone(),
        cpus: vec![0],
        handicap_percent: 0,
        launched_ns: 0,
        seed: 0,
        each: None,
        runtime: Some(runtime.clone()),
    });
    let result = (experiment.run)(params, &mut worker);
    worker.finish(result)
}

/// The smallest cases of the experiment that has this case.
fn cases(does: Does, runtime: &str, unit: &str) -> Vec<(&'static Experiment, Params)> {
    let of = || Params::new().with("runtime", runtime).with("unit", unit);
    let pool = |kind: &str| {
        of().with("kind", kind)
            .with("degree", 2)
            .with("count", 3)
            .with("length_ms", 2)
            .with("cpus", 1)
    };
    match does {
        Does::Create => vec![(&create::EXPERIMENT, of().with("count", 20).with("cpus", 1))],
        Does::Ring => vec![(&ring::EXPERIMENT, of().with("ring", 3).with("cpus", 1))],
        Does::Idle => vec![(&footprint::EXPERIMENT, of().with("count", 4).with("cpus", 1))],
        Does::Most => vec![(&limits::EXPERIMENT, of().with("count", 5).with("cpus", 1))],
        Does::Print => {
            let few = of().with("units", 3).with("prints", 4).with("payload_bytes", 11);
            let into = |sink: &str| few.clone().with("sink", sink).with("cpus", 1);
            ["pipe", "console-and-log"]
                .map(|sink| (&print::EXPERIMENT, into(sink)))
                .to_vec()
        }
        Does::Stacks if unit == "platform" => {
            let trial = |trial: &str, prints: u64, stack_kib: u64, address_mib: u64| {
                let of = of().with("trial", trial).with("count", 30).with("prints", prints);
                let of = of.with("stack_kib", stack_kib).with("address_mib", address_mib);
                (&limits::EXPERIMENT, of.with("cpus", 1))
            };
            vec![trial("printing", 5, 0, 0), trial("stacks", 0, 8192, 3072)]
        }
        Does::Stacks => Vec::new(),
        Does::Past => {
            let few = of().with("room", 4).with("count", 8);
            vec![(
                &past_the_limit::EXPERIMENT,
                few.with("limit", "kernel").with("cpus", 1),
            )]
        }
        Does::Pool => ["cpu", "io"]
            .map(|kind| (&turnaround::EXPERIMENT, pool(kind)))
            .to_vec(),
    }
}

#[test]
fn each_runtime_that_is_here_takes_part_in_each_experiment_and_says_what_it_cannot_do() {
    let prepared = prepare(&[Asked::All], &places::with_newer_java()).unwrap();
    for runtime in &prepared.runtimes {
        if let Some(lack) = &runtime.lack {
            // What is found and does not build is a defect of its guest.
            let reasons = [
                "not found",
                "needs",
                "neither beside",
                "offline",
                "no matching package",
            ];
            assert!(reasons.iter().any(|reason| lack.says.contains(reason)), "{lack}");
            eprintln!("skipped: {lack}");
        }
    }
    says_what_it_cannot_do(&prepared);
    let mut ran = 0;
    let of = |does| units(&prepared.runtimes, does).map(move |of| (does, of));
    for (does, (runtime, unit, lack)) in Does::ALL.into_iter().flat_map(of) {
        if lack.is_some() {
            continue;
        }
        for (experiment, params) in cases(does, &runtime.name, unit.name) {
            let sample = sample(experiment, &params, runtime);
            let which = format!(
                "{}/{params} with {} {}",
                experiment.id, runtime.kind, runtime.version
            );
            if does == Does::Past {
                goes_past(&which, &sample, unit.in_runtime);
                ran += 1;
                continue;
            }
            assert_eq!(sample.status, Status::Ok, "{which}: {:?}", sample.reason);
            let primary = experiment.primary[0].name;
            let value = sample
                .value(primary)
                .unwrap_or_else(|| panic!("{which}: {sample:?}"));
            // What so few idle units add may be less than the machine's noise.
            assert!(value > 0.0 || experiment.id == "footprint", "{which}: {value}");
            ran += 1;
        }
    }
    // Python and a browser's driver, Node, are what other tests need as well.
    assert!(ran >= 6, "of {} kinds none is here", KINDS.len());
}

/// Of eight units that a system has room for four of, those that need a thread are not all there, and the others are.
fn goes_past(which: &str, sample: &Sample, in_runtime: bool) {
    if sample.status == Status::Skipped {
        // A superuser who may start no program as another user, or not limit it.
        let reason = sample.reason.as_deref().unwrap_or_default();
        assert!(
            reason.contains("user") || reason.contains("limit"),
            "{which}: {reason}"
        );
        return;
    }
    assert_eq!(sample.status, Status::Ok, "{which}: {:?}", sample.reason);
    let is = |end: &str| sample.value(end) == Some(1.0);
    let says = sample.tags.iter().any(|tag| tag.starts_with("says: "));
    if !in_runtime {
        assert!(
            is("is_told") || is("ends_the_program") || is("hangs"),
            "{which}: {sample:?}"
        );
        assert!(says || is("hangs"), "{which}: {sample:?}");
    } else if is("goes_on") {
        assert_eq!(sample.value("begun"), Some(8.0), "{which}: {sample:?}");
        assert_eq!(sample.value("works_on"), Some(1.0), "{which}: {sample:?}");
    }
}

/// What a guest cannot do it says.
fn says_what_it_cannot_do(prepared: &Prepared) {
    for runtime in prepared.runtimes.iter().filter(|runtime| runtime.lack.is_none()) {
        let (program, first) = runtime.command.split_first().unwrap();
        for (arguments, says) in [
            (["create", "fibre", "10"], "fibre"),
            (["nonsense", units_of(runtime), "10"], "nonsense"),
        ] {
            let mut command = std::process::Command::new(program);
            let output = command.args(first).args(arguments).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(
                said.starts_with("error ") && said.contains(says),
                "{}: {said:?}",
                runtime.name
            );
            assert_eq!(said.lines().count(), 1, "{}: {said:?}", runtime.name);
            assert_eq!(output.status.code(), Some(1), "{}", runtime.name);
        }
    }
}

/// The first unit of a runtime.
fn units_of(runtime: &Runtime) -> &'static str {
    let kind = KINDS.into_iter().find(|kind| kind.name == runtime.kind).unwrap();
    kind.units[0].name
}
