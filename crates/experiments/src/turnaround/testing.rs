//! Runs made by hand, for the tests of what is read off them.

use std::collections::BTreeMap;

use threadgauge_stats::summarise;

use super::case::{Case, Kind};
use super::grid::plan;
use threadgauge_lab::analysis::metric_summary;
use threadgauge_lab::site::{Profile, Site};
use threadgauge_lab::view::{View, ViewCase};

/// What a case's figures are made of.
pub(super) struct Made {
    pub(super) elapsed_ns: f64,
    pub(super) turnaround: f64,
}

/// A run of `rounds` rounds on `cpus` CPUs in which each case has what `f` makes of it, or nothing.
pub(super) fn run(
    profile: Profile,
    rounds: u32,
    cpus: usize,
    f: impl Fn(Case) -> Option<Made>,
) -> View<'static> {
    let site = Site {
        profile,
        cpus: threadgauge_machine::CpuList::new(0..cpus),
        free_memory_mib: 8_192,
    };
    let cases = plan(&site).cases.into_iter().map(|planned| {
        let case = Case::from_params(&planned.params).unwrap();
        let made = if planned.skip.is_none() { f(case) } else { None };
        view_case(case, planned.skip, rounds, made)
    });
    threadgauge_lab::testing::view("turnaround", profile, cases.collect())
}

fn view_case(
    case: Case,
    lack: Option<threadgauge_results::Lack>,
    rounds: u32,
    made: Option<Made>,
) -> ViewCase {
    let mut values: BTreeMap<String, BTreeMap<u32, f64>> = BTreeMap::new();
    if let Some(made) = made {
        let (ideal_ns, ideal_turnaround) = theory(case);
        let metrics = [
            (super::ELAPSED, made.elapsed_ns),
            (super::TURNAROUND, made.turnaround),
            (super::IDEAL_ELAPSED, ideal_ns),
            (super::IDEAL_TURNAROUND, ideal_turnaround),
            (super::FINISH_WAIT, 50_000.0),
            (super::BURNER_ERROR, 0.02),
        ];
        for (name, value) in metrics {
            values.insert(
                name.to_owned(),
                (1..=rounds).map(|round| (round, value)).collect(),
            );
        }
    }
    let summaries = values.iter().map(|(name, rounds)| {
        let rounds: Vec<f64> = rounds.values().copied().collect();
        (
            name.clone(),
            metric_summary("ns", summarise(&rounds, 0.05).unwrap()),
        )
    });
    ViewCase {
        params: case.params(),
        lack,
        summaries: summaries.collect(),
        values: values.clone(),
    }
}

/// Elapsed time and mean turnaround by theory.
pub(super) fn theory(case: Case) -> (f64, f64) {
    let lengths = case.given(1);
    let completed = case.ideal(&lengths);
    let elapsed_ns = completed.iter().copied().fold(0.0, f64::max);
    let turnarounds = completed
        .iter()
        .zip(&lengths)
        .map(|(c, l)| c / l.as_nanos() as f64);
    (elapsed_ns, turnarounds.sum::<f64>() / lengths.len() as f64)
}

/// A machine on which everything is as in theory, but for a price of `per_thread_ns` for each concurrent computation.
pub(super) fn as_in_theory(profile: Profile, rounds: u32, cpus: usize, per_thread_ns: f64) -> View<'static> {
    run(profile, rounds, cpus, |case| {
        let (mut elapsed_ns, turnaround) = theory(case);
        if case.extra == super::case::Extra::Finisher {
            elapsed_ns += (case.count * case.base_ms) as f64 * 1e6;
        }
        let price_ns = match case.mode() {
            "concurrent" => per_thread_ns * case.count as f64,
            _ => 0.0,
        };
        let late = if case.kind == Kind::Io {
            0.0
        } else {
            price_ns / elapsed_ns
        };
        Some(Made {
            elapsed_ns: elapsed_ns + price_ns,
            turnaround: turnaround * (1.0 + late),
        })
    })
}
