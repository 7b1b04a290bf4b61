//! From stored samples to the results document: summaries, comparisons, diagnostics and findings.
//!
//! Pure: it reads the store and the catalogue and computes. It never measures, and it knows nothing of
//! how a report looks.

use std::collections::BTreeSet;

use threadgauge_results::{
    CaseResult, ComparisonResult, Diagnostic, ExperimentResult, Finding, Lack, MetricSummary, Need, Params,
    Ranking, RankingEntry, Results, Run, SCHEMA, SOME_ROUNDS_FAILED, Status, Store, StoreError, StoredCase,
    StoredExperiment, StoredSample, Take, by_round, claim, decide, null_control, paired,
};
use threadgauge_stats::{
    Better, Estimate, Interval, Pairing, Summary, Terms, compare_with, diagnostics, null_band, paired_ratio,
    rank, summarise,
};

use crate::claim::Test;
use crate::experiment::{Answer, Catalogue, Pair};
use crate::schedule::stopping_rule;
use crate::site::Profile;
use crate::view::{Cases, View, ViewCase};

/// The level of a diagnostic's test.
const ALPHA: f64 = 0.05;
/// Above this share of disturbed samples the report leads with it (METHOD rule 10).
const TOO_NOISY: f64 = 0.25;

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
    let mut experiments = Vec::new();
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
        .map(|m| (m.stored.id.clone(), m.cases(alpha)))
        .collect();
    for of in &measured {
        let view = View {
            experiment: &of.stored.id,
            profile,
            alpha,
            cases: &cases,
        };
        experiments.push(of_experiment(catalogue, of, view));
    }
    let complete = experiments.iter().all(|e| e.stopped_because != "interrupted");
    if !complete {
        warnings.insert(
            0,
            "The run was interrupted: some rounds are missing. `threadgauge run --resume` goes on with it."
                .to_owned(),
        );
    }
    if record.handicap_percent > 0 {
        warnings.insert(
            0,
            format!(
                "Every timed section does {} % of extra work: a test of the harness, not a measurement.",
                record.handicap_percent
            ),
        );
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

fn noise_warning(id: &str, samples: &[StoredSample]) -> Option<String> {
    let tried = samples.iter().filter(|s| s.attempt == 0).count();
    let gated = samples.iter().filter(|s| s.gated && s.attempt == 0).count();
    (tried > 0 && gated as f64 > TOO_NOISY * tried as f64).then(|| {
        format!(
            "This machine is too noisy for {id}: {gated} of {tried} samples were disturbed by other programs or by \
             stolen CPU time. End what else is running and run it again; `threadgauge doctor` says what to look for."
        )
    })
}

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

    fn cases(&self, alpha: f64) -> Vec<ViewCase> {
        let samples: Vec<&StoredSample> = self.samples.iter().collect();
        let cases = self.stored.cases.iter();
        cases.map(|c| view_case(c, &samples, alpha)).collect()
    }
}

fn of_experiment(catalogue: Catalogue, measured: &Measured, view: View<'_>) -> ExperimentResult {
    let Measured { stored, rounds, .. } = measured;
    let (rounds, alpha) = (*rounds, view.alpha);
    let samples: Vec<&StoredSample> = measured.samples.iter().collect();
    let (method, question, sources, primary, answer) = match catalogue.get(&stored.id) {
        Some(e) => (
            e.about().method(),
            e.about().question.to_owned(),
            e.about().sources.iter().map(ToString::to_string).collect(),
            e.about().primary.iter().map(|m| m.name).collect(),
            e.read(&view),
        ),
        None => unknown(&stored.id),
    };
    let metric = primary.first().copied().unwrap_or_default();
    let null = null(stored, &samples, metric);
    let band = null
        .as_ref()
        .map_or(threadgauge_stats::SAME_BAND, |n| null_band(&n.estimate));
    ExperimentResult {
        id: stored.id.clone(),
        question,
        sources,
        answer: answer.answer.clone(),
        method,
        rounds,
        discarded: u32::try_from(samples.iter().filter(|s| s.attempt > 0).count()).unwrap_or(u32::MAX),
        stopped_because: stored
            .stopped_because
            .clone()
            .unwrap_or_else(|| "interrupted".to_owned()),
        primary_metrics: primary.iter().map(ToString::to_string).collect(),
        reference: stored.reference.clone(),
        comparisons: comparisons(&view, &answer.comparisons, metric, (band, alpha)),
        rankings: rankings(&view, &answer.rankings, metric),
        diagnostics: diagnose(&view, stored, &samples, metric, null.as_ref()),
        findings: findings(&view, &answer),
        figures: answer.figures,
        tables: answer.tables,
        cases: stored
            .cases
            .iter()
            .zip(view.own())
            .map(|(case, view)| case_result(case, view, &samples))
            .collect(),
    }
}

type Described = (
    threadgauge_results::Method,
    String,
    Vec<String>,
    Vec<&'static str>,
    Answer,
);

/// A store may hold an experiment that this version does not know; its figures are shown all the same.
fn unknown(id: &str) -> Described {
    let says = format!("This version does not know the experiment {id}; here are its figures alone.");
    let method = threadgauge_results::Method {
        how: says.clone(),
        control: String::new(),
        traps: Vec::new(),
        source: String::new(),
    };
    let answer = Answer {
        answer: says.clone(),
        ..Answer::default()
    };
    (method, says, Vec::new(), Vec::new(), answer)
}

/// The last round in which every case that can run was tried: an interrupted one is not paired.
fn last_full_round(stored: &StoredExperiment, samples: &[StoredSample]) -> u32 {
    let last = samples.iter().map(|s| s.round).max().unwrap_or(0);
    if stored.stopped_because.is_some() {
        return last;
    }
    let failing: BTreeSet<&str> = samples
        .iter()
        .filter(|s| s.sample.status != Status::Ok)
        .map(|s| s.case.as_str())
        .collect();
    let wanted = stored
        .cases
        .iter()
        .filter(|c| c.skip.is_none() && !failing.contains(c.id.as_str()))
        .count();
    let tried = |round| {
        let of_round = samples.iter().filter(|s| s.round == round && s.copy == 0);
        of_round
            .map(|s| s.case.as_str())
            .filter(|c| !failing.contains(c))
            .collect::<BTreeSet<_>>()
            .len()
    };
    (1..=last)
        .rev()
        .find(|&round| tried(round) >= wanted)
        .unwrap_or(0)
}

/// A case's figures: all rounds for its summaries, the undisturbed ones for whatever is paired.
fn view_case(case: &StoredCase, samples: &[&StoredSample], alpha: f64) -> ViewCase {
    let of_case: Vec<&StoredSample> = samples
        .iter()
        .copied()
        .filter(|s| s.case == case.id && s.copy == 0)
        .collect();
    let mut metrics: Vec<(&str, &str)> = Vec::new();
    for metric in of_case.iter().flat_map(|s| &s.sample.metrics) {
        if !metrics.iter().any(|(name, _)| *name == metric.name) {
            metrics.push((&metric.name, &metric.unit));
        }
    }
    let rounds = |metric: &str, take| by_round(of_case.iter().copied(), &case.id, 0, metric, take);
    let failure = of_case.iter().find(|s| s.sample.status != Status::Ok);
    let failure = failure.and_then(|s| s.sample.reason.clone());
    let failure = failure.map(|why| Lack::new(Need::Figures, why));
    ViewCase {
        params: case.params.clone(),
        lack: case.skip.clone().or(failure),
        values: metrics
            .iter()
            .map(|(name, _)| ((*name).to_owned(), rounds(name, Take::Undisturbed)))
            .collect(),
        summaries: metrics
            .iter()
            .filter_map(|(name, unit)| {
                let values: Vec<f64> = rounds(name, Take::All).into_values().collect();
                let summary = summarise(&values, alpha).ok()?;
                Some(((*name).to_owned(), metric_summary(unit, summary)))
            })
            .collect(),
    }
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
    let of_case: Vec<&&StoredSample> = samples
        .iter()
        .filter(|s| s.case == case.id && s.copy == 0)
        .collect();
    let status = if !view.summaries.is_empty() {
        Status::Ok
    } else if case.skip.is_some() || of_case.iter().any(|s| s.sample.status == Status::Skipped) {
        Status::Skipped
    } else {
        Status::Failed
    };
    // A disturbed sample that was repeated well says nothing about the figures; one that stayed so does.
    let repeated = |s: &StoredSample| {
        of_case
            .iter()
            .any(|o| o.round == s.round && o.attempt > s.attempt)
    };
    let kept: Vec<_> = of_case.iter().filter(|s| !repeated(s)).collect();
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
    let old = answer
        .claims
        .iter()
        .map(|c| (c.claim, Test::Given(c.evidence.clone())));
    let decided = old.chain(answer.tests.iter().cloned()).filter_map(|(id, test)| {
        let claim = claim(id)?;
        Some(decide(
            claim,
            &claim.unit,
            &test.evidence(view, claim),
            view.alpha,
        ))
    });
    decided.chain(answer.facts.iter().cloned()).collect()
}

/// The reference case against its second copy.
struct Null {
    estimate: Estimate,
    metric: String,
}

fn null(stored: &StoredExperiment, samples: &[&StoredSample], metric: &str) -> Option<Null> {
    let reference = stored.reference.as_ref()?;
    let estimate = null_control(samples.iter().copied(), reference, metric).ok()?;
    Some(Null {
        estimate,
        metric: metric.to_owned(),
    })
}

fn comparisons(
    view: &View<'_>,
    pairs: &[Pair],
    metric: &str,
    (delta, alpha): (f64, f64),
) -> Vec<ComparisonResult> {
    let terms = Terms {
        pairing: Pairing::Paired,
        better: Better::Lower,
        delta,
        alpha,
    };
    let find = |params: &Params| view.own().iter().find(|c| c.params.matches(params));
    let of_pair = |pair: &Pair| {
        let (a, b) = (find(&pair.a)?, find(&pair.b)?);
        let compared = a.values.get(metric).zip(b.values.get(metric)).and_then(|(x, y)| {
            let (x, y) = paired(x, y);
            compare_with(&x, &y, terms).ok()
        });
        let id = |case: &ViewCase| case.params.case_id(view.experiment);
        Some(ComparisonResult::new(&id(a), &id(b), metric, compared.as_ref()))
    };
    pairs.iter().filter_map(of_pair).collect()
}

fn rankings(view: &View<'_>, groups: &[(String, Vec<Params>)], metric: &str) -> Vec<Ranking> {
    groups
        .iter()
        .filter_map(|(title, wanted)| ranking(view, title, wanted, metric))
        .collect()
}

fn ranking(view: &View<'_>, title: &str, wanted: &[Params], metric: &str) -> Option<Ranking> {
    let cases: Vec<&ViewCase> = wanted
        .iter()
        .filter_map(|p| view.own().iter().find(|c| c.params.matches(p)))
        .filter(|c| c.values.contains_key(metric))
        .collect();
    let columns: Vec<_> = cases.iter().map(|c| &c.values[metric]).collect();
    let first = columns.first()?;
    let shared: Vec<u32> = first
        .keys()
        .filter(|round| columns.iter().all(|c| c.contains_key(round)))
        .copied()
        .collect();
    let groups: Vec<Vec<f64>> = columns
        .iter()
        .map(|c| shared.iter().map(|r| c[r]).collect())
        .collect();
    let ranked = rank(&groups, Better::Lower).ok()?;
    let best = ranked.first()?.index;
    let entries = ranked
        .iter()
        .filter_map(|entry| {
            let against = paired_ratio(&groups[best], &groups[entry.index], ALPHA).ok()?;
            Some(RankingEntry {
                case: cases[entry.index].params.case_id(view.experiment),
                letters: entry.letters.clone(),
                ratio: against.estimate,
                ci95: against.ci.as_ref().map(bounds),
            })
        })
        .collect();
    Some(Ranking {
        title: title.to_owned(),
        metric: metric.to_owned(),
        entries,
    })
}

/// Rule 9, always shown.
fn diagnose(
    view: &View<'_>,
    stored: &StoredExperiment,
    samples: &[&StoredSample],
    metric: &str,
    null: Option<&Null>,
) -> Vec<Diagnostic> {
    let reference = view
        .own()
        .iter()
        .find(|c| Some(c.params.case_id(view.experiment)) == stored.reference);
    let series: Vec<f64> = reference
        .and_then(|c| c.values.get(metric))
        .map(|rounds| rounds.values().copied().collect())
        .unwrap_or_default();
    let mut all = vec![
        null_diagnostic(null),
        drift(&series),
        autocorrelation(&series),
        modes(view, metric),
        outliers(view, metric),
        noise(samples),
    ];
    all.extend(overlap(samples));
    all
}

fn diagnostic(name: &str, warning: bool, says: String) -> Diagnostic {
    Diagnostic {
        name: name.to_owned(),
        says,
        warning,
    }
}

fn null_diagnostic(null: Option<&Null>) -> Diagnostic {
    let Some(Null { estimate, metric }) = null else {
        return diagnostic(
            "null-control",
            true,
            "The reference case has no second copy to compare with.".to_owned(),
        );
    };
    let Some(ci) = &estimate.ci else {
        let says = format!(
            "Too few rounds ({}) to compare the reference with its own copy.",
            estimate.n
        );
        return diagnostic("null-control", true, says);
    };
    let band = null_band(estimate) * 100.0;
    let honest = ci.low <= 1.0 && ci.high >= 1.0;
    let says = format!(
        "The reference case against its own second copy ({metric}): {:.3} [{:.3}, {:.3}], which {}. Differences \
         under {band:.1} % are not called faster or slower.",
        estimate.estimate,
        ci.low,
        ci.high,
        if honest {
            "includes 1, as it must"
        } else {
            "does not include 1: something disturbs the order"
        },
    );
    diagnostic("null-control", !honest, says)
}

fn drift(series: &[f64]) -> Diagnostic {
    if series.len() < 4 {
        return diagnostic(
            "drift",
            false,
            "Too few rounds to see a drift of the reference case.".to_owned(),
        );
    }
    let trend = diagnostics::mann_kendall(series);
    let drifts = trend.p < ALPHA;
    let says = format!(
        "The reference case {} over the rounds (Mann–Kendall τ = {:.2}, p = {:.2}).",
        if !drifts {
            "shows no drift"
        } else if trend.tau > 0.0 {
            "grew slower"
        } else {
            "grew faster"
        },
        trend.tau,
        trend.p
    );
    diagnostic("drift", drifts, says)
}

fn autocorrelation(series: &[f64]) -> Diagnostic {
    let Some(lag1) = diagnostics::lag1(series) else {
        let says = "Too few rounds to see whether one depends on the one before.".to_owned();
        return diagnostic("autocorrelation", false, says);
    };
    let warns = diagnostics::warns_of_autocorrelation(series);
    let says = format!(
        "Lag-1 autocorrelation of the reference case: {lag1:.2}; its {} rounds are worth {:.1} independent ones.",
        series.len(),
        diagnostics::effective_n(series.len(), lag1)
    );
    diagnostic("autocorrelation", warns, says)
}

fn modes(view: &View<'_>, metric: &str) -> Diagnostic {
    let several: Vec<String> = view
        .own()
        .iter()
        .filter_map(|case| {
            let values: Vec<f64> = case.values.get(metric)?.values().copied().collect();
            let modes = diagnostics::modes(&values);
            (modes.len() > 1).then(|| {
                let modes: Vec<String> = modes
                    .iter()
                    .map(|m| format!("{:.4e} ({:.0} %)", m.centre, m.share * 100.0))
                    .collect();
                format!("{}: {}", case.params, modes.join(" and "))
            })
        })
        .collect();
    let says = if several.is_empty() {
        format!("No case has more than one mode in {metric}.")
    } else {
        format!(
            "{} cases have several modes in {metric}; their median hides it. {}",
            several.len(),
            shortened(&several)
        )
    };
    diagnostic("modes", !several.is_empty(), says)
}

fn outliers(view: &View<'_>, metric: &str) -> Diagnostic {
    let with: Vec<String> = view
        .own()
        .iter()
        .filter_map(|case| {
            let values: Vec<f64> = case.values.get(metric)?.values().copied().collect();
            let outliers = diagnostics::outliers(&values).len();
            (outliers > 0).then(|| format!("{}: {outliers} of {}", case.params, values.len()))
        })
        .collect();
    let says = if with.is_empty() {
        format!("No outliers in {metric}.")
    } else {
        format!(
            "{} cases have outliers in {metric}; all are kept. {}",
            with.len(),
            shortened(&with)
        )
    };
    diagnostic("outliers", false, says)
}

fn shortened(lines: &[String]) -> String {
    const SHOWN: usize = 5;
    let more = lines.len().saturating_sub(SHOWN);
    let shown = lines[..lines.len().min(SHOWN)].join("; ");
    if more == 0 {
        format!("{shown}.")
    } else {
        format!("{shown}; and {more} more.")
    }
}

fn noise(samples: &[&StoredSample]) -> Diagnostic {
    let of_noise = |name: &str| {
        samples
            .iter()
            .filter_map(|s| s.sample.noise.get(name))
            .copied()
            .fold(0.0, f64::max)
    };
    let tried = samples.iter().filter(|s| s.attempt == 0).count();
    let gated = samples.iter().filter(|s| s.gated && s.attempt == 0).count();
    let repeats = samples.iter().filter(|s| s.attempt > 0).count();
    let says = format!(
        "{gated} of {tried} samples were disturbed (steal above 1 %, throttling, or foreign processes above 5 % of a CPU), \
         which led to {repeats} repeats. The most seen: {:.1} % steal, {:.2} CPUs of foreign load.",
        of_noise("steal_share") * 100.0,
        of_noise("foreign_cpus"),
    );
    diagnostic("noise", gated as f64 > TOO_NOISY * tried as f64, says)
}

fn overlap(samples: &[&StoredSample]) -> Option<Diagnostic> {
    let measured: Vec<_> = samples
        .iter()
        .filter(|s| s.sample.noise.contains_key("overlap"))
        .collect();
    let low: Vec<_> = measured
        .iter()
        .filter(|s| s.sample.tags.iter().any(|t| t == "low-overlap"))
        .collect();
    let cases: BTreeSet<&str> = low.iter().map(|s| s.case.as_str()).collect();
    (!measured.is_empty()).then(|| {
        let says = if low.is_empty() {
            "Where there were no more units than CPUs, all were on a CPU at least 95 % of the time."
                .to_owned()
        } else {
            let names: Vec<String> = cases.iter().map(ToString::to_string).collect();
            format!(
                "In {} of {} samples with no more units than CPUs, they did not all run 95 % of the time: {}",
                low.len(),
                measured.len(),
                shortened(&names)
            )
        };
        diagnostic("overlap", 4 * low.len() > measured.len(), says)
    })
}
