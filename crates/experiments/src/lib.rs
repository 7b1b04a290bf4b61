//! The experiments of the laboratory, one file each, and their catalogue.
//!
//! What an experiment is, and everything that experiments have in common, is said in `threadgauge-lab`.

pub mod calibration;
pub mod create;
pub mod foreground;
pub mod null;
pub mod oversubscription;
pub mod print;
pub mod probes;
pub mod turnaround;

mod catalogue;
mod sys;

pub use catalogue::{CATALOGUE, decided_by};

/// In a process that a case started as its helper: does the helper's work and does not return. In any other: returns at
/// once. To be called first thing in `main` of a program that serves as worker.
pub fn helper() {
    threadgauge_exec::process::helper(&[&turnaround::IN_A_HELPER]);
}

/// The worked example of CONTRIBUTING.md.
#[cfg(test)]
#[path = "../../../docs/yield.rs"]
mod r#yield;

#[cfg(test)]
mod tests {
    use threadgauge_machine::CpuList;

    use crate::r#yield::Yield;
    use threadgauge_lab::experiment::Experiment;
    use threadgauge_lab::site::{Profile, Site};
    use threadgauge_lab::worker::{Order, Worker};

    #[test]
    fn the_worked_example_is_the_one_in_contributing_and_measures() {
        let shown = include_str!("../../../CONTRIBUTING.md");
        assert!(
            shown.contains(include_str!("../../../docs/yield.rs")),
            "CONTRIBUTING.md shows another text than docs/yield.rs"
        );
        let plan = Yield.plan(&Site {
            profile: Profile::Quick,
            cpus: CpuList::new([0]),
            free_memory_mib: 1_000,
        });
        for case in plan.cases {
            let mut worker = Worker::new(&Order {
                experiment: Yield.id().to_owned(),
                params: case.params.clone(),
                cpus: vec![0],
                handicap_percent: 0,
                launched_ns: 0,
            });
            let result = Yield.run(&case.params, &mut worker);
            let sample = worker.finish(result);
            assert!(
                sample.value("ns_per_call").is_some_and(|ns| ns > 0.0),
                "{sample:?}"
            );
        }
    }
}
