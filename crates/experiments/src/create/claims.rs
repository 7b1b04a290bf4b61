//! What the samples say of each published claim about creation.

use threadgauge_results::Evidence;

use crate::create::cells::{CREATION, PRIMARY, all_cpus, base, ratio, ratio_between, ratios};
use crate::create::grid::BUSY;
use crate::create::way::Way;
use threadgauge_lab::experiment::ClaimEvidence;
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

/// The claims decided here, in the order of the sources.
pub const CLAIMS: &[&str] = &[
    "thread-create-costly-while-others-run",
    "process-create-destroy-over-10x-thread",
    "process-create-destroy-takes-0.18-ms",
    "nptl-create-destroy-6x-cheaper",
    "thread-create-faster-on-one-cpu",
    "preemption-hardly-affects-threads",
    "kernel-upgrade-no-gain",
    "smt-no-effect-on-creation",
    "threads-as-processes-less-efficient",
];

/// Evidence for each of [`CLAIMS`].
pub fn evidence(view: &View<'_>) -> Vec<ClaimEvidence> {
    CLAIMS
        .iter()
        .map(|claim| ClaimEvidence {
            claim,
            unit: if *claim == "process-create-destroy-takes-0.18-ms" {
                "ms"
            } else {
                "ratio"
            },
            evidence: of(claim, view),
        })
        .collect()
}

fn of(claim: &str, view: &View<'_>) -> Evidence {
    match claim {
        "thread-create-costly-while-others-run" => {
            let thread = base(Way::Pthread);
            ratio_or_missing(ratios(view, thread.busy(BUSY), thread, CREATION))
        }
        "process-create-destroy-over-10x-thread" => {
            match view.by_round(&[of_100_000(Way::Fork), of_100_000(Way::Pthread)], |v| {
                v[0] / v[1]
            }) {
                Ok(ratios) => Evidence::Ratio(ratios),
                Err(_) => Evidence::Missing(fewer_units(view)),
            }
        }
        "process-create-destroy-takes-0.18-ms" => {
            match view.by_round(&[of_100_000(Way::Fork)], |v| v[0] / 1e6) {
                Ok(ms) => Evidence::Statistic(ms),
                Err(_) => Evidence::Missing(fewer_units(view)),
            }
        }
        "thread-create-faster-on-one-cpu" => faster_on_one_cpu(view),
        "nptl-create-destroy-6x-cheaper" => not_testable(
            "needs LinuxThreads beside NPTL, and this system's C library has one thread library; clone-vm imitates \
             only its processes, not its manager thread",
        ),
        "preemption-hardly-affects-threads" => not_testable(
            "needs the same machine booted with and without kernel preemption: run once under each and compare the \
             two result folders",
        ),
        "kernel-upgrade-no-gain" => not_testable(
            "needs two kernels, and the old thread library: run once under each kernel and compare the two result \
             folders",
        ),
        "smt-no-effect-on-creation" => not_testable(
            "needs the same machine with SMT on and off: run once with each and compare the two result folders",
        ),
        "threads-as-processes-less-efficient" => Evidence::Missing(as_processes(view)),
        other => Evidence::Missing(format!("create has no cells for {other}")),
    }
}

/// The claims of source 003 are about 100,000 units, and a claim about one count is not decided from another.
fn of_100_000(way: Way) -> Cell {
    let cell = base(way).cell(PRIMARY);
    Cell {
        pattern: cell.pattern.with("count", 100_000),
        ..cell
    }
}

fn fewer_units(view: &View<'_>) -> String {
    let ours = ratio(view, base(Way::Fork), base(Way::Pthread)).map_or_else(
        |_| String::new(),
        |ratio| {
            format!(
                "; of the units of this run a process takes {} times a thread",
                ratio_between(ratio)
            )
        },
    );
    format!(
        "the claim is about 100,000 units, which --profile paper makes (alone: --only count=100000,method=fork,method=pthread){ours}"
    )
}

fn ratio_or_missing(ratios: Result<Vec<f64>, String>) -> Evidence {
    ratios.map_or_else(Evidence::Missing, Evidence::Ratio)
}

fn not_testable(reason: &str) -> Evidence {
    Evidence::NotTestable {
        reason: reason.to_owned(),
        measured: None,
    }
}

fn faster_on_one_cpu(view: &View<'_>) -> Evidence {
    let Some(all) = all_cpus(view) else {
        return Evidence::Missing("needs cases on several CPUs, which this run did not plan".to_owned());
    };
    let thread = base(Way::Pthread);
    match ratios(view, thread.cpus(all), thread, PRIMARY) {
        Ok(ratios) => Evidence::Ratio(ratios),
        Err(reason) if reason.contains("CPUs, this run has") => not_testable(&reason),
        Err(reason) => Evidence::Missing(reason),
    }
}

/// The claim is about creation and switching; this is its first half.
fn as_processes(view: &View<'_>) -> String {
    let half = match ratio(view, base(Way::CloneVm), base(Way::Pthread)) {
        Ok(ratio) => format!(
            "creation's half alone: a process in shared memory (clone-vm) takes {} times a thread",
            ratio_between(ratio)
        ),
        Err(reason) => reason,
    };
    format!("needs the experiment ring for switching; {half}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::cells::by_hand::{lacking, measured, view};
    use crate::create::way::Case;
    use threadgauge_results::{Finding, Verdict, claim, decide};

    fn decided(view: &View<'_>, wanted: &str) -> Finding {
        let evidence = evidence(view);
        let about = evidence.iter().find(|e| e.claim == wanted).unwrap();
        decide(claim(wanted).unwrap(), about.unit, &about.evidence, 0.05)
    }

    const NOISE: [f64; 7] = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995];

    fn run(way: Way, cpus: u64, ns: f64, busy: Option<f64>) -> Vec<threadgauge_lab::view::ViewCase> {
        run_of(200, way, cpus, ns, busy)
    }

    fn run_of(
        count: u64,
        way: Way,
        cpus: u64,
        ns: f64,
        busy: Option<f64>,
    ) -> Vec<threadgauge_lab::view::ViewCase> {
        let case = Case::base(way, count);
        let values = NOISE.map(|n| n * ns);
        let mut cases = vec![measured(&case, cpus, &[(PRIMARY, &values), (CREATION, &values)])];
        if let Some(ns) = busy {
            let values = NOISE.map(|n| n * ns);
            let case = Case { busy: BUSY, ..case };
            cases.push(measured(&case, cpus, &[(PRIMARY, &values), (CREATION, &values)]));
        }
        cases
    }

    #[test]
    fn every_claim_is_published_and_has_evidence_also_of_nothing() {
        let nothing = view(Vec::new());
        for about in evidence(&nothing) {
            let finding = decide(
                claim(about.claim).expect("a published claim"),
                about.unit,
                &about.evidence,
                0.05,
            );
            assert!(
                finding.reason.is_some_and(|r| r.len() > 20),
                "{} says too little",
                about.claim
            );
        }
    }

    #[test]
    fn a_process_of_twelve_threads_holds_and_one_of_five_does_not() {
        for (process_ns, verdict) in [(240_000.0, Verdict::Holds), (100_000.0, Verdict::DoesNotHold)] {
            let of = |count| {
                let mut cases = run_of(count, Way::Fork, 1, process_ns, None);
                cases.extend(run_of(count, Way::Pthread, 1, 20_000.0, None));
                decided(&view(cases), "process-create-destroy-over-10x-thread")
            };
            let few = of(200);
            assert_eq!(few.verdict, Some(Verdict::Inconclusive));
            assert!(few.reason.unwrap().contains("--profile paper"));
            let found = of(100_000);
            assert_eq!(found.verdict, Some(verdict));
            assert!((found.measured.unwrap() - process_ns / 20_000.0).abs() < 0.1);
        }
    }

    #[test]
    fn milliseconds_a_process() {
        let found = decided(
            &view(run_of(100_000, Way::Fork, 1, 112_000.0, None)),
            "process-create-destroy-takes-0.18-ms",
        );
        assert_eq!((found.verdict, found.unit.as_str()), (Some(Verdict::Holds), "ms"));
        assert!((found.measured.unwrap() - 0.112).abs() < 1e-3);
    }

    #[test]
    fn creation_beside_others_is_against_the_same_creation_alone() {
        for (busy_ns, verdict) in [(40_000.0, Verdict::Holds), (20_000.0, Verdict::DoesNotHold)] {
            let found = decided(
                &view(run(Way::Pthread, 1, 20_000.0, Some(busy_ns))),
                "thread-create-costly-while-others-run",
            );
            assert_eq!(found.verdict, Some(verdict));
        }
    }

    #[test]
    fn one_cpu_against_several_needs_several() {
        let claim = "thread-create-faster-on-one-cpu";
        let mut cases = run(Way::Pthread, 1, 20_000.0, None);
        cases.push(lacking(
            Case::base(Way::Pthread, 200).params(2),
            "needs 2 CPUs, this run has 1",
        ));
        assert_eq!(decided(&view(cases), claim).verdict, Some(Verdict::NotTestable));
        let mut cases = run(Way::Pthread, 1, 20_000.0, None);
        cases.extend(run(Way::Pthread, 2, 36_000.0, None));
        assert_eq!(decided(&view(cases), claim).verdict, Some(Verdict::Holds));
    }

    #[test]
    fn the_half_of_a_claim_is_given_but_does_not_decide_it() {
        let mut cases = run(Way::Pthread, 1, 20_000.0, None);
        cases.extend(run(Way::CloneVm, 1, 30_000.0, None));
        let found = decided(&view(cases), "threads-as-processes-less-efficient");
        assert_eq!(found.verdict, Some(Verdict::Inconclusive));
        assert!(found.reason.unwrap().contains("1.50"), "the ratio is given");
    }
}
