//! What tests of experiments share: cases run in this process, and figures made by hand.

use std::collections::BTreeMap;

use threadgauge_machine::CpuList;
use threadgauge_results::{Lack, MetricSummary, Params, RanBeside, Sample, Status, Verdict, claim, decide};
use threadgauge_stats::summarise;

use crate::claim::Test;
use crate::experiment::Experiment;
use crate::schedule::stopping_rule;
use crate::site::{Profile, Site};
use crate::statistic::{Metric, Statistic};
use crate::view::{Cases, View, ViewCase};
use crate::worker::{Order, Worker};

/// Intervals of hand-made figures have the level 1 − this.
pub const ALPHA: f64 = 0.05;

/// A site with `cpus` CPUs and 64 GiB of free memory.
#[must_use]
pub fn site(profile: Profile, cpus: usize) -> Site {
    Site::new(profile, &CpuList::new(0..cpus), &[], 64 * 1024)
}

/// The same with two CPUs a core.
///
/// # Panics
///
/// When `cpus` is odd.
#[must_use]
pub fn site_with_smt(profile: Profile, cpus: usize) -> Site {
    assert!(cpus.is_multiple_of(2), "each core has two");
    let siblings: Vec<CpuList> = (0..cpus / 2)
        .map(|core| CpuList::new([core, core + cpus / 2]))
        .collect();
    Site::new(profile, &CpuList::new(0..cpus), &siblings, 64 * 1024)
}

/// What cases draw by.
pub const SEED: u64 = 7;

/// A [`Worker`] for a case on CPU 0, in this process, which is not pinned.
#[must_use]
pub fn worker(experiment: &Experiment, params: &Params) -> Worker {
    Worker::new(&Order {
        experiment: experiment.id.to_owned(),
        params: params.clone(),
        cpus: vec![0],
        handicap_percent: 0,
        launched_ns: 0,
        seed: SEED,
        each: None,
        runtime: None,
    })
}

/// Runs a case once, in this process.
pub fn sample(experiment: &Experiment, params: &Params) -> Sample {
    let mut worker = worker(experiment, params);
    let result = (experiment.run)(params, &mut worker);
    worker.finish(result)
}

/// The same of a case that can be measured here.
///
/// # Panics
///
/// With the reason, when it was not.
#[must_use]
#[track_caller]
pub fn measured(experiment: &Experiment, params: &Params) -> Sample {
    let sample = sample(experiment, params);
    assert_eq!(sample.status, Status::Ok, "{params:?}: {:?}", sample.reason);
    sample
}

/// A case with these figures, round 1 first.
///
/// # Panics
///
/// When a figure is not a number.
#[must_use]
pub fn case(params: impl Into<Params>, figures: impl IntoIterator<Item = (Metric, Vec<f64>)>) -> ViewCase {
    let params = params.into();
    let mut made = ViewCase {
        ran_beside: RanBeside::of(&params, []),
        params,
        ..ViewCase::default()
    };
    for (metric, rounds) in figures {
        let summary = summarise(&rounds, ALPHA).expect("figures made by hand are numbers");
        made.summaries
            .insert(metric.name.to_owned(), MetricSummary::new(metric.unit, summary));
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
        planned: &[],
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

/// What is said of the claim `id` by `test`, in one look.
///
/// # Panics
///
/// When the claim is not published.
#[must_use]
pub fn verdict(test: &Test, id: &str, view: &View<'_>) -> Option<Verdict> {
    let claim = claim(id).expect("it is published");
    decide(claim, &claim.unit, &test.evidence(view, claim), ALPHA).verdict
}

/// In how many of `runs` simulated runs `wanted` is said of the claim `id`. In them every figure of `truth` has the
/// noise of an ordinary machine in every round: 5 %, and in one round of ten up to 30 % more. Counted twice, and the
/// larger number given: with the profile's looks, of which the first that decides stands, and with one look after the
/// fewest of these rounds.
///
/// # Panics
///
/// When `experiment` has no such claim, or `truth` no figures for it.
pub fn times_said(wanted: Verdict, experiment: &Experiment, id: &str, truth: &View<'_>, runs: u32) -> usize {
    let rule = stopping_rule(truth.profile, None);
    let published = claim(id).expect("it is published");
    let claims = (experiment.read)(truth).claims.into_iter();
    let mut found = claims.filter(|(of, _)| *of == id).map(|(_, test)| test);
    let test = found.next().expect("it has a test");
    let cells = test.statistics().into_iter().flat_map(Statistic::cells);
    let needed: Vec<&Params> = cells.filter_map(|cell| truth.case(cell)).collect();
    let mut cases = truth.own().to_vec();
    cases.retain(|case| needed.contains(&&case.params));
    assert!(!cases.is_empty(), "there are figures for it");

    let mut rng = fastrand::Rng::with_seed(14);
    let mut noise = || {
        let normal = (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
        let outlier = if rng.f64() < 0.1 { 0.3 * rng.f64() } else { 0.0 };
        (0.05 * normal).exp() * (1.0 + outlier)
    };
    let mut run = || {
        let mut cases = cases.clone();
        for rounds in cases.iter_mut().flat_map(|case| case.values.values_mut()) {
            let figure = rounds[&1];
            *rounds = (1..=rule.rounds())
                .map(|round| (round, figure * noise()))
                .collect();
        }
        let verdict = |rounds: &u32, alpha: f64| {
            let mut then = cases.clone();
            for case in &mut then {
                case.values
                    .values_mut()
                    .for_each(|of| of.retain(|round, _| round <= rounds));
                case.all.clone_from(&case.values);
            }
            let cases = Cases::from([(truth.experiment.to_owned(), then)]);
            let view = View {
                alpha,
                fewest: rule.looks[0] as usize,
                cases: &cases,
                ..*truth
            };
            let evidence = test.evidence(&view, published);
            decide(published, &published.unit, &evidence, view.alpha).verdict
        };
        let definite = |verdict: &Verdict| matches!(verdict, Verdict::Holds | Verdict::DoesNotHold);
        let looks = rule.looks.iter();
        let mut at_looks = looks.filter_map(|rounds| verdict(rounds, rule.alpha_per_look()));
        let once = verdict(&rule.looks[0], ALPHA);
        [at_looks.find(definite), once]
    };
    let said: Vec<_> = (0..runs).map(|_| run()).collect();
    let count = |way: usize| said.iter().filter(|said| said[way] == Some(wanted)).count();
    count(0).max(count(1))
}
