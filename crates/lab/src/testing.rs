//! What tests of experiments share: cases run in this process, and figures made by hand.

use std::collections::BTreeMap;

use threadgauge_machine::CpuList;
use threadgauge_results::{Lack, Params, Sample};
use threadgauge_stats::summarise;

use crate::analysis::metric_summary;
use crate::experiment::Experiment;
use crate::site::{Profile, Site};
use crate::statistic::Metric;
use crate::view::{Cases, View, ViewCase};
use crate::worker::{Order, Worker};

/// Intervals of hand-made figures have the level 1 − this.
pub const ALPHA: f64 = 0.05;

/// A site with `cpus` CPUs and 64 GiB of free memory.
#[must_use]
pub fn site(profile: Profile, cpus: usize) -> Site {
    Site {
        profile,
        cpus: CpuList::new(0..cpus),
        free_memory_mib: 64 * 1024,
    }
}

/// A [`Worker`] for a case on CPU 0, in this process, which is not pinned.
#[must_use]
pub fn worker(experiment: &Experiment, params: &Params) -> Worker {
    Worker::new(&Order {
        experiment: experiment.id.to_owned(),
        params: params.clone(),
        cpus: vec![0],
        handicap_percent: 0,
        launched_ns: 0,
    })
}

/// Runs a case once, in this process.
pub fn sample(experiment: &Experiment, params: &Params) -> Sample {
    let mut worker = worker(experiment, params);
    let result = (experiment.run)(params, &mut worker);
    worker.finish(result)
}

/// A case with these figures, round 1 first.
///
/// # Panics
///
/// When a figure is not a number.
#[must_use]
pub fn case(params: impl Into<Params>, figures: impl IntoIterator<Item = (Metric, Vec<f64>)>) -> ViewCase {
    let mut made = ViewCase {
        params: params.into(),
        ..ViewCase::default()
    };
    for (metric, rounds) in figures {
        let summary = summarise(&rounds, ALPHA).expect("figures made by hand are numbers");
        made.summaries
            .insert(metric.name.to_owned(), metric_summary(metric.unit, summary));
        let rounds: BTreeMap<u32, f64> = (1..).zip(rounds).collect();
        made.values.insert(metric.name.to_owned(), rounds.clone());
        made.all.insert(metric.name.to_owned(), rounds);
    }
    made
}

/// A case without figures.
#[must_use]
pub fn lacking(params: impl Into<Params>, lack: Lack) -> ViewCase {
    ViewCase {
        lack: Some(lack),
        ..case(params, [])
    }
}

/// What `experiment` sees of a run with these cases. Their memory is never freed.
#[must_use]
pub fn view(experiment: &'static str, profile: Profile, cases: Vec<ViewCase>) -> View<'static> {
    let cases = Cases::from([(experiment.to_owned(), cases)]);
    View {
        experiment,
        profile,
        alpha: ALPHA,
        fewest: 1,
        cases: Box::leak(Box::new(cases)),
    }
}

/// The same with its cases changed.
#[must_use]
pub fn changed(view: View<'static>, change: impl FnOnce(&mut Vec<ViewCase>)) -> View<'static> {
    let mut cases = view.own().to_vec();
    change(&mut cases);
    self::view(view.experiment, view.profile, cases)
}
