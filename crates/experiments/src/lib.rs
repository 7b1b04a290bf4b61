//! The experiments of the laboratory, one file each, and their catalogue.
//!
//! `threadgauge-lab` defines what an experiment is and everything that experiments share.

pub mod by_runtime;
pub mod calibration;
pub mod chat;
pub mod compute;
pub mod connections;
pub mod contention;
pub mod crash;
pub mod create;
pub mod each;
pub mod file_io;
pub mod footprint;
pub mod foreground;
pub mod handover;
pub mod http;
pub mod identity;
pub mod limits;
pub mod mixed_clients;
pub mod multicast;
pub mod null;
pub mod oversubscription;
pub mod past_the_limit;
pub mod peers;
pub mod pipelining;
pub mod placement;
pub mod print;
pub mod probes;
pub mod quota;
pub mod ring;
pub mod runtimes;
pub mod server_designs;
pub mod servers;
pub mod source_004;
pub mod stages;
pub mod states;
pub mod subscriptions;
pub mod turnaround;
pub mod twin;
pub mod wake;

mod catalogue;
mod channels;
mod conditions;
pub mod gate;
mod guests;
mod ideal;
mod libraries;
mod sys;

pub use catalogue::{CATALOGUE, decided_by, runnable};

/// In a helper process that a case started, does the helper's work and does not return. In any other process, returns
/// at once. The `main` of a program that serves as worker calls this first.
pub fn helper() {
    threadgauge_exec::process::helper(&[&turnaround::IN_A_HELPER, &twin::IN_A_HELPER]);
}

/// The worked example of CONTRIBUTING.md.
#[cfg(test)]
#[path = "../../../docs/yield.rs"]
mod r#yield;

/// The other one: a runtime.
#[cfg(test)]
mod example_of_a_runtime {
    use crate::runtimes::{Does, Kind, Unit};

    include!("../../../docs/shell.rs");

    pub const KIND: &Kind = &SHELL;
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::site::Profile;
    use threadgauge_lab::testing;
    use threadgauge_results::{Verdict, decide};

    use crate::r#yield::EXPERIMENT;

    #[test]
    fn the_example_of_a_runtime_is_the_one_in_contributing_and_measures() {
        let shown = include_str!("../../../CONTRIBUTING.md");
        for example in [
            include_str!("../../../docs/shell.rs"),
            include_str!("../../../docs/guest.sh"),
        ] {
            assert!(shown.contains(example), "CONTRIBUTING.md shows another text");
        }
        let prepared = crate::runtimes::prepare::prepared_alone(crate::example_of_a_runtime::KIND);
        let params = threadgauge_results::Params::new()
            .with("runtime", "shell")
            .with("unit", "process")
            .with("count", 20)
            .with("cpus", 1);
        let runtime = prepared.runtimes[0].clone();
        assert_eq!(runtime.lack, None);
        let create = &crate::create::EXPERIMENT;
        let sample = crate::runtimes::guest::testing::sample(create, &params, Some(runtime));
        assert!(
            sample.value("ns_per_unit").is_some_and(|ns| ns > 0.0),
            "{sample:?}"
        );
    }

    /// The row that the worked example's claim would have in `claims.csv`.
    const ROW: &str = "lone-yield-under-a-microsecond,own,,core,stated,A yield that finds nobody waiting takes less than a \
                       microsecond.,a lone yield takes under 1 µs,time,yield,time of a call,0,1,,,,,no_figure,,,,yield,µs";

    #[test]
    fn the_worked_example_is_the_one_in_contributing_and_measures() {
        let shown = include_str!("../../../CONTRIBUTING.md");
        let example = include_str!("../../../docs/yield.rs");
        assert!(
            shown.contains(example),
            "CONTRIBUTING.md shows another text than docs/yield.rs"
        );
        assert!(example.lines().count() <= 120, "it is to be read in one sitting");

        let plan = (EXPERIMENT.plan)(&testing::site(Profile::Quick, 1));
        let measured = plan.cases.iter().map(|case| {
            let sample = testing::sample(&EXPERIMENT, &case.params);
            let ns = sample.value("ns_per_call").expect("it was measured");
            let rounds = (0..7).map(|round| ns + f64::from(round) / 100.0).collect();
            testing::case(case.params.clone(), [(EXPERIMENT.primary[0], rounds)])
        });
        let view = testing::view("yield", Profile::Quick, measured.collect());
        let answer = (EXPERIMENT.read)(&view);
        let [(id, test)] = &answer.claims[..] else {
            panic!("{:?}", answer.claims)
        };
        let header = include_str!("../../results/published/claims.csv")
            .lines()
            .next()
            .unwrap();
        let table = format!("{header}\n{ROW}\n");
        let row: threadgauge_results::Claim = csv::Reader::from_reader(table.as_bytes())
            .deserialize()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(row.id, *id);
        let verdict = decide(&row, &row.unit, &test.evidence(&view, &row), testing::ALPHA).verdict;
        assert!(
            matches!(verdict, Some(Verdict::Holds | Verdict::DoesNotHold)),
            "{verdict:?}"
        );
        assert_eq!(
            (
                answer.figures.len(),
                answer.tables[0].rows.len(),
                answer.facts.len()
            ),
            (1, 2, 1)
        );
    }
}
