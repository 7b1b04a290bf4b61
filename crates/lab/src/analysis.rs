//! From stored samples to the results document: summaries, comparisons, rankings and findings.
//!
//! Pure: it reads the store and computes. It never measures, and it knows nothing of how a report looks. What the protocol says of
//! its own figures is in `diagnosis`.

use std::collections::BTreeSet;

use threadgauge_results::{
    ALPHA, CaseResult, ComparisonResult, ExperimentResult, Finding, Lack, Method, MetricSummary, Need,
    Params, Ranking, RankingEntry, Results, Run, SCHEMA, SOME_ROUNDS_FAILED, Status, Store, StoreError,
    StoredCase, StoredExperiment, StoredSample, Take, by_round, claim, decide, null_control, paired,
};
use threadgauge_stats::{
    Better, Interval, Summary, compare_paired, null_misleads, paired_ratio, rank, summarise,
};

use crate::diagnosis::{diagnose, noise_warning};
use crate::experiment::{Answer, Catalogue, Pair};
use crate::schedule::stopping_rule;
use crate::site::Profile;
use crate::view::{Cases, View, ViewCase};

/// Everything the store says.
///
/// # Errors
///
/// When the store is damaged.
pub fn analyse(catalogue: Catalogue, store: &Store) -> Result<Results, StoreError> {
    let record = store.run()?;
    let profile = Profile::named(&record.profile).unwrap_or(Profile::Quick);
    // Looking several times costs certainty: each look has its share (METHOD rule 7).
    let alpha = stopping_rule(profile, record.rounds).alpha_per_look();
    let mut warnings = Vec::new();
    let mut measured_ns = 0;
    let mut measured = Vec::new();
    for stored in store.experiments()? {
        let samples = store.samples(&stored.id)?;
        measured_ns += samples.iter().map(|s| s.wall_ns).sum::<u64>();
        warnings.extend(noise_warning(&stored.id, &samples));
        measured.push(Measured::new(stored, samples));
    }
    let cases: Cases = measured
        .iter()
        .map(|of| (of.stored.id.clone(), of.cases(alpha)))
        .collect();
    let result = |of: &Measured| {
        let view = View {
            experiment: &of.stored.id,
            profile,
            alpha,
            cases: &cases,
        };
        of.result(catalogue, &view)
    };
    let experiments: Vec<ExperimentResult> = measured.iter().map(result).collect();
    let complete = experiments.iter().all(|e| e.stopped_because != INTERRUPTED);
    if !complete {
        let says =
            "The run was interrupted: some rounds are missing. `threadgauge run --resume` goes on with it.";
        warnings.insert(0, says.to_owned());
    }
    if record.handicap_percent > 0 {
        let says = format!(
            "Every timed section does {} % of extra work: a test of the harness, not a measurement.",
            record.handicap_percent
        );
        warnings.insert(0, says);
    }
    Ok(Results {
        schema: SCHEMA,
        run: Run {
            rounds: experiments.iter().map(|e| e.rounds).max().unwrap_or(0),
            id: record.id,
            started: record.started,
            profile: record.profile,
            seed: record.seed,
            version: record.version,
            complete,
            measured_s: measured_ns as f64 / 1e9,
            options: record.options,
            in_turns_with: record.in_turns_with,
        },
        machine: store.machine()?,
        warnings,
        experiments,
    })
}

/// Why an experiment stopped that did not come to its end.
const INTERRUPTED: &str = "interrupted";

/// An experiment as planned, with the samples of its full rounds.
struct Measured {
    stored: StoredExperiment,
    samples: Vec<StoredSample>,
    rounds: u32,
}

impl Measured {
    fn new(stored: StoredExperiment, mut samples: Vec<StoredSample>) -> Self {
        let rounds = last_full_round(&stored, &samples);
        samples.retain(|s| s.round <= rounds.max(1));
        Self {
            stored,
            samples,
            rounds,
        }
    }

    /// The samples of a case, its second copy left out.
    fn samples_of(&self, case: &StoredCase) -> Vec<&StoredSample> {
        self.samples
            .iter()
            .filter(|s| s.case == case.id && s.copy == 0)
            .collect()
    }

    fn cases(&self, alpha: f64) -> Vec<ViewCase> {
        let cases = self.stored.cases.iter();
        cases
            .map(|case| view_case(case, &self.samples_of(case), alpha))
            .collect()
    }

    fn result(&self, catalogue: Catalogue, view: &View<'_>) -> ExperimentResult {
        let (stored, samples) = (&self.stored, &self.samples);
        let mut answer = Answer::default();
        let mut method = Method::default();
        let (question, sources, primary) = if let Some(experiment) = catalogue.get(&stored.id) {
            answer = (experiment.read)(view);
            method = experiment.method();
            (
                experiment.question.to_owned(),
                experiment.sources,
                experiment.primary,
            )
        } else {
            // A store may hold an experiment that this version does not know; its figures are shown all the same.
            let id = &stored.id;
            let unknown =
                format!("This version does not know the experiment {id}; here are its figures alone.");
            answer.answer.clone_from(&unknown);
            method.how.clone_from(&unknown);
            (unknown, &[][..], &[][..])
        };
        let primary: Vec<String> = primary.iter().map(|m| m.name.to_owned()).collect();
        let metric = primary.first().map_or("", String::as_str);
        let reference = stored.reference.as_deref();
        let null = reference.and_then(|case| null_control(samples, case, metric).ok());
        let misled = null.as_ref().is_some_and(null_misleads);
        let cases = stored.cases.iter().zip(view.own());
        ExperimentResult {
            id: stored.id.clone(),
            question,
            sources: sources.iter().map(ToString::to_string).collect(),
            answer: answer.answer.clone(),
            method,
            rounds: self.rounds,
            discarded: u32::try_from(samples.iter().filter(|s| s.attempt > 0).count()).unwrap_or(u32::MAX),
            stopped_because: stored
                .stopped_because
                .clone()
                .unwrap_or_else(|| INTERRUPTED.to_owned()),
            reference: stored.reference.clone(),
            comparisons: comparisons(view, &answer.comparisons, metric, misled),
            rankings: answer
                .rankings
                .iter()
                .filter_map(|of| ranking(view, of, metric))
                .collect(),
            diagnostics: diagnose(view, reference, samples, metric, null.as_ref()),
            findings: findings(view, &answer),
            cases: cases
                .map(|(case, view)| case_result(case, view, &self.samples_of(case)))
                .collect(),
            primary_metrics: primary,
            figures: answer.figures,
            tables: answer.tables,
        }
    }
}

/// The last round in which every case that can run was tried: an interrupted one is not paired.
fn last_full_round(stored: &StoredExperiment, samples: &[StoredSample]) -> u32 {
    let last = samples.iter().map(|s| s.round).max().unwrap_or(0);
    if stored.stopped_because.is_some() {
        return last;
    }
    let failed = samples.iter().filter(|s| s.sample.status != Status::Ok);
    let failing: BTreeSet<&str> = failed.map(|s| s.case.as_str()).collect();
    let wanted = stored
        .cases
        .iter()
        .filter(|c| c.skip.is_none())
        .map(|c| c.id.as_str());
    let wanted: Vec<&str> = wanted.filter(|id| !failing.contains(id)).collect();
    let full = |round: &u32| {
        let of_round = samples.iter().filter(|s| s.round == *round && s.copy == 0);
        let tried: BTreeSet<&str> = of_round.map(|s| s.case.as_str()).collect();
        wanted.iter().all(|id| tried.contains(id))
    };
    (1..=last).rev().find(full).unwrap_or(0)
}

/// A case's figures: all rounds for its summaries, the undisturbed ones for whatever is paired.
fn view_case(case: &StoredCase, samples: &[&StoredSample], alpha: f64) -> ViewCase {
    let failure = samples.iter().find(|s| s.sample.status != Status::Ok);
    let failure = failure.and_then(|s| s.sample.reason.clone());
    let mut view = ViewCase {
        params: case.params.clone(),
        lack: case
            .skip
            .clone()
            .or(failure.map(|why| Lack::new(Need::Figures, why))),
        ..ViewCase::default()
    };
    for metric in samples.iter().flat_map(|s| &s.sample.metrics) {
        if view.values.contains_key(&metric.name) {
            continue;
        }
        let rounds = |take| by_round(samples.iter().copied(), &case.id, 0, &metric.name, take);
        let all = rounds(Take::All);
        let figures: Vec<f64> = all.values().copied().collect();
        if let Ok(summary) = summarise(&figures, alpha) {
            view.summaries
                .insert(metric.name.clone(), metric_summary(&metric.unit, summary));
        }
        view.values.insert(metric.name.clone(), rounds(Take::Undisturbed));
        view.all.insert(metric.name.clone(), all);
    }
    view
}

/// A summary in the document's words.
#[must_use]
pub fn metric_summary(unit: &str, summary: Summary) -> MetricSummary {
    MetricSummary {
        unit: unit.to_owned(),
        n: summary.n,
        median: summary.median,
        ci95: summary.ci.as_ref().map(bounds),
        ci_level: summary.ci.map(|ci| ci.level),
        mean: summary.mean,
        trimmed_mean: summary.trimmed_mean,
        min: summary.min,
        max: summary.max,
        cv: summary.cv,
    }
}

const fn bounds(ci: &Interval) -> [f64; 2] {
    [ci.low, ci.high]
}

fn case_result(case: &StoredCase, view: &ViewCase, samples: &[&StoredSample]) -> CaseResult {
    let status = if !view.summaries.is_empty() {
        Status::Ok
    } else if case.skip.is_some() || samples.iter().any(|s| s.sample.status == Status::Skipped) {
        Status::Skipped
    } else {
        Status::Failed
    };
    // A disturbed sample that was repeated well says nothing about the figures; one that stayed so does.
    let repeated = |s: &StoredSample| {
        samples
            .iter()
            .any(|o| o.round == s.round && o.attempt > s.attempt)
    };
    let kept: Vec<_> = samples.iter().filter(|s| !repeated(s)).collect();
    let mut tags: BTreeSet<String> = kept.iter().flat_map(|s| s.sample.tags.iter().cloned()).collect();
    // What is so of a few samples is not so of the case.
    let with = |tag: &String| kept.iter().filter(|s| s.sample.tags.contains(tag)).count();
    tags.retain(|tag| 2 * with(tag) >= kept.len());
    let mut reason = view.lack.as_ref().map(|lack| lack.says.clone());
    if status == Status::Ok && reason.is_some() {
        tags.insert(SOME_ROUNDS_FAILED.to_owned());
    } else if status == Status::Failed && reason.is_none() {
        reason = Some("the run ended before it was measured".to_owned());
    }
    CaseResult {
        id: case.id.clone(),
        params: case.params.clone(),
        status,
        reason,
        tags: tags.into_iter().collect(),
        summaries: view.summaries.clone(),
    }
}

fn findings(view: &View<'_>, answer: &Answer) -> Vec<Finding> {
    let decided = answer.claims.iter().filter_map(|(id, test)| {
        let claim = claim(id)?;
        let evidence = test.evidence(view, claim);
        Some(decide(claim, &claim.unit, &evidence, view.alpha))
    });
    decided.chain(answer.facts.iter().cloned()).collect()
}

/// The first case that `params` pick.
fn picked<'v>(view: &View<'v>, params: &Params) -> Option<&'v ViewCase> {
    view.own().iter().find(|c| c.params.matches(params))
}

/// One look each; `misled` where the null control lies beyond the band.
fn comparisons(view: &View<'_>, pairs: &[Pair], metric: &str, misled: bool) -> Vec<ComparisonResult> {
    let of_pair = |pair: &Pair| {
        let (a, b) = (picked(view, &pair.a)?, picked(view, &pair.b)?);
        let compared = a.values.get(metric).zip(b.values.get(metric)).and_then(|(x, y)| {
            let (x, y) = paired(x, y);
            compare_paired(&x, &y, Better::Lower).ok()
        });
        let [a, b] = [a, b].map(|case| case.params.case_id(view.experiment));
        let compared = ComparisonResult::new(&a, &b, metric, compared.as_ref());
        Some(if misled { compared.unknown() } else { compared })
    };
    pairs.iter().filter_map(of_pair).collect()
}

fn ranking(view: &View<'_>, (title, wanted): &(String, Vec<Params>), metric: &str) -> Option<Ranking> {
    let measured = |p| picked(view, p).and_then(|case| Some((case, case.values.get(metric)?)));
    let (cases, columns): (Vec<_>, Vec<_>) = wanted.iter().filter_map(measured).unzip();
    let in_all = |round: &&u32| columns.iter().all(|c| c.contains_key(round));
    let shared: Vec<u32> = columns.first()?.keys().filter(in_all).copied().collect();
    let groups: Vec<Vec<f64>> = columns
        .iter()
        .map(|c| shared.iter().map(|r| c[r]).collect())
        .collect();
    let ranked = rank(&groups, Better::Lower).ok()?;
    let best = ranked.first()?.index;
    let entries = ranked.iter().filter_map(|entry| {
        let against = paired_ratio(&groups[best], &groups[entry.index], ALPHA).ok()?;
        Some(RankingEntry {
            case: cases[entry.index].params.case_id(view.experiment),
            letters: entry.letters.clone(),
            ratio: against.estimate,
            ci95: against.ci.as_ref().map(bounds),
        })
    });
    Some(Ranking {
        title: title.clone(),
        metric: metric.to_owned(),
        entries: entries.collect(),
    })
}
