//! The experiments there are, in the order they run and are reported, and those still to come.

use crate::calibration::Calibration;
use crate::create::Create;
use crate::foreground::Foreground;
use crate::null::Null;
use crate::oversubscription::Oversubscription;
use crate::print::Print;
use crate::probes::Probes;
use crate::turnaround::Turnaround;
use threadgauge_lab::experiment::Catalogue;

/// Every experiment.
pub const CATALOGUE: Catalogue = Catalogue(&[
    &Null,
    &Create,
    &Oversubscription,
    &Print,
    &Turnaround,
    &Calibration,
    &Foreground,
    &Probes,
]);

/// Experiments still to come, and the claims they will decide.
const PLANNED: &[(&str, &[&str])] = &[
    (
        "server-designs",
        &[
            "async-io-rivals-io-threads",
            "iterative-server-cheapest",
            "fork-per-client-dearest",
            "fork-per-client-20x-prefork",
            "thread-per-client-cheaper-than-fork-per-client",
            "pools-bring-no-efficiency",
            "prethreading-not-cheaper-than-thread-per-client",
            "accept-contention-wakes-many",
            "mutex-accept-cheaper-than-file-lock",
            "descriptor-passing-dearest-prefork",
            "prethread-mutex-cheaper-than-main-accept",
            "uniform-load-does-not-predict-mixed-load",
        ],
    ),
    (
        "sharing",
        &[
            "heavy-synchronisation-loses",
            "unsynchronised-shared-data-goes-wrong",
        ],
    ),
    (
        "footprint",
        &[
            "threads-are-not-free",
            "process-costs-30-threads",
            "process-memory-heavier-than-thread",
        ],
    ),
    (
        "multicast",
        &[
            "single-thread-gains-nothing-from-cpus",
            "one-reactor-allows-one-operation-per-connection",
            "split-reactors-gain-10pct-on-two-cpus",
            "equal-reactor-split-leaves-cpus-idle",
            "ratio-sized-pool-fills-all-cpus",
            "pool-equal-on-one-cpu",
            "pool-doubles-on-two-cpus",
            "pool-quadruples-on-four-cpus",
            "unoptimised-server-does-not-scale",
        ],
    ),
    ("pipelining", &["pipelining-beats-request-response"]),
    (
        "ring",
        &[
            "thread-switch-cheaper-than-process-switch",
            "process-switch-faster-than-thread-switch",
            "switch-cost-steep-on-one-cpu-gentle-on-smp",
            "libraries-switch-alike",
            "smt-no-effect-on-switching",
        ],
    ),
    (
        "limits",
        &[
            "processes-scale-further-than-threads",
            "stack-size-caps-thread-count",
            "smaller-stack-allows-1000-threads",
            "exceeding-thread-limit-segfaults",
            "small-stack-overflows-sooner",
        ],
    ),
    (
        "crash",
        &["crashing-thread-kills-process", "crashing-process-spares-others"],
    ),
    ("handover", &["thread-sharing-faster-than-ipc"]),
    ("placement", &["threads-on-distinct-cpus"]),
    (
        "compute",
        &[
            "threads-best-for-heavy-computation",
            "process-cpu-use-lower",
            "smt-is-not-a-second-cpu",
        ],
    ),
    (
        "runtimes",
        &[
            "java-print-slower-than-c",
            "java-threads-run-without-stack-trouble",
            "java-8-mib-stack-stops-silently",
            "java-thread-create-slower-than-c",
        ],
    ),
    (
        "chat",
        &[
            "preemption-within-1pct-on-server",
            "smt-5-to-6pct-on-server",
            "nptl-server-gain-over-65pct-on-smp",
            "nptl-server-gain-10pct-on-one-cpu",
        ],
    ),
    (
        "identity",
        &["threads-share-process-id", "old-library-threads-are-processes"],
    ),
];

/// The experiment that decides a claim, and whether it is in the catalogue (true) or still to come.
#[must_use]
pub fn decided_by(claim: &str) -> Option<(&'static str, bool)> {
    let here = CATALOGUE.iter().map(|e| (e.id(), e.claims(), true));
    let to_come = PLANNED.iter().map(|(id, claims)| (*id, *claims, false));
    here.chain(to_come)
        .find(|(_, claims, _)| claims.contains(&claim))
        .map(|(id, _, in_catalogue)| (id, in_catalogue))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use threadgauge_machine::CpuList;

    use super::*;
    use threadgauge_lab::schedule::{Chosen, expected_rounds, stopping_rule};
    use threadgauge_lab::site::{Profile, Site};

    /// The experiments of the sources' processes and threads, as they are: units made, sharing and printing.
    const CORE: [&str; 4] = ["null", "create", "oversubscription", "print"];
    /// Small single-purpose checks.
    const SMALL: [&str; 3] = ["calibration", "foreground", "probes"];

    /// What the experiments are expected to take, s, by name.
    fn expected(site: &Site) -> Vec<(&'static str, f64)> {
        let rounds = expected_rounds(&stopping_rule(site.profile, None));
        let takes = |experiment: &'static dyn threadgauge_lab::experiment::Experiment| {
            let plan = experiment.plan(site);
            let chosen = Chosen { experiment, plan };
            (experiment.id(), chosen.expected(rounds).as_secs_f64())
        };
        CATALOGUE.iter().map(takes).collect()
    }

    #[test]
    fn each_part_of_the_quick_and_standard_profiles_keeps_to_its_time_on_any_machine() {
        let machines = [1, 2, 4, 64, 256]
            .into_iter()
            .flat_map(|cpus| [500, 64_000].map(|free_memory_mib| (cpus, free_memory_mib)));
        for (cpus, free_memory_mib) in machines {
            for (profile, core_s, turnaround_s, small_s) in [
                (Profile::Quick, 120.0, 30.0, 10.0),
                (Profile::Standard, 900.0, 600.0, 90.0),
            ] {
                let expected = expected(&Site {
                    profile,
                    cpus: CpuList::new(0..cpus),
                    free_memory_mib,
                });
                let sum = |ids: &[&str]| -> f64 {
                    let of = expected.iter().filter(|(id, _)| ids.contains(id));
                    of.map(|(_, seconds)| seconds).sum()
                };
                let says = format!("{} on {cpus} CPUs: {expected:?}", profile.name());
                assert!(sum(&CORE) > 10.0 && sum(&CORE) <= core_s, "{says}");
                let turnaround = sum(&["turnaround"]);
                assert!(turnaround > 10.0 && turnaround <= turnaround_s, "{says}");
                assert!(sum(&SMALL) > 1.0 && sum(&SMALL) <= small_s, "{says}");
                let parts = CORE.len() + SMALL.len() + 1;
                assert_eq!(expected.len(), parts, "an experiment belongs to no part: {says}");
            }
        }
    }

    #[test]
    fn every_claim_has_one_experiment_and_every_experiment_decides_known_claims() {
        let mut experiments: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, claims) in CATALOGUE
            .iter()
            .map(|e| (e.id(), e.claims()))
            .chain(PLANNED.iter().copied())
        {
            for claim in claims {
                experiments.entry(claim).or_default().push(id);
            }
        }
        for claim in threadgauge_results::claims() {
            let of_claim = experiments.remove(claim.id.as_str()).unwrap_or_default();
            assert_eq!(of_claim.len(), 1, "{} is decided by {of_claim:?}", claim.id);
        }
        assert!(experiments.is_empty(), "unknown claims: {experiments:?}");
    }
}
