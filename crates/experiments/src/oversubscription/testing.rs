//! Runs made by hand, for the tests of what is read off them.

use std::collections::BTreeMap;

use threadgauge_lab::analysis::metric_summary;
use threadgauge_results::published::context_switches;
use threadgauge_results::{MetricSummary, Params};
use threadgauge_stats::summarise;

use super::grid::{Case, Mode, Unit, plan};
use threadgauge_lab::site::{Profile, Site};
use threadgauge_lab::view::{View, ViewCase};

/// A quick run of `rounds` rounds on `cpus` CPUs: for each case its run time (ms) and switches, or nothing.
pub(super) fn run(rounds: u32, cpus: usize, f: impl Fn(Case) -> Option<(f64, f64)>) -> View<'static> {
    let site = Site {
        profile: Profile::Quick,
        cpus: threadgauge_machine::CpuList::new(0..cpus),
        free_memory_mib: 8_192,
    };
    let cases = plan(&site).cases.into_iter().map(|planned| {
        let case = Case::from_params(&planned.params).unwrap();
        match planned.skip {
            None => view_case(planned.params, rounds, f(case)),
            Some(skip) => ViewCase {
                lack: Some(skip),
                ..view_case(planned.params, rounds, None)
            },
        }
    });
    threadgauge_lab::testing::view("oversubscription", Profile::Quick, cases.collect())
}

fn view_case(params: Params, rounds: u32, figures: Option<(f64, f64)>) -> ViewCase {
    let mut values: BTreeMap<String, BTreeMap<u32, f64>> = BTreeMap::new();
    if let Some((ms, switches)) = figures {
        let count = params.int("count").unwrap() as f64;
        let metrics = [
            ("elapsed_ns", ms * 1e6),
            ("total_ns", ms * 1e6 + count * 50e3),
            ("start_ns", count * 20e3),
            ("end_ns", count * 30e3),
            (
                "cpu_ns",
                ms * 1e6 * params.int("cpus").unwrap().min(count as u64) as f64,
            ),
            ("voluntary_switches", 0.0),
            ("involuntary_switches", switches),
            ("switches_per_slice", switches / 16_384.0),
        ];
        for (name, value) in metrics {
            values.insert(
                name.to_owned(),
                (1..=rounds).map(|round| (round, value)).collect(),
            );
        }
    }
    let summaries = values
        .iter()
        .map(|(name, rounds)| {
            let rounds: Vec<f64> = rounds.values().copied().collect();
            (name.clone(), summary(&rounds))
        })
        .collect();
    ViewCase {
        params,
        lack: None,
        values,
        summaries,
    }
}

fn summary(values: &[f64]) -> MetricSummary {
    metric_summary("ns", summarise(values, 0.05).unwrap())
}

/// A machine with the source's averaged times. Sleeping costs a tenth of what yielding does.
pub(super) fn as_published(rounds: u32) -> View<'static> {
    run(rounds, 2, |case| {
        let time = |count| {
            let mut rows = context_switches()
                .iter()
                .filter(|r| r.published_table == "averaged");
            let row = rows.find(|r| r.threads == count && r.cpus == case.cpus);
            row.map(|r| r.elapsed_ms).unwrap()
        };
        let alone = time(1);
        let ms = match (case.unit, case.mode) {
            (Unit::Process, _) | (_, Mode::Yield) => time(case.count),
            (_, Mode::Neither) if case.count == 1 => alone * 0.95,
            (_, Mode::Neither) => alone * 0.95 / case.cpus as f64,
            (_, Mode::Sleep) => alone * 0.955 / case.cpus as f64,
        };
        let switches = if case.mode == Mode::Yield && case.count > case.cpus {
            16_384.0
        } else {
            0.0
        };
        Some((ms, switches))
    })
}

/// A machine on which yielding threads have this overhead, and two CPUs twice the speed of one.
pub(super) fn overheads_of(rounds: u32, overhead: impl Fn(u64, u64) -> f64) -> View<'static> {
    run(rounds, 2, |case| {
        let busy = case.cpus.min(case.count) as f64;
        let over = if case.mode == Mode::Yield {
            overhead(case.count, case.cpus)
        } else {
            0.0
        };
        Some((100.0 / busy * (1.0 + over), 0.0))
    })
}
