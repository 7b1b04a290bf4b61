//! Makes the results document from stored samples: summaries, comparisons, rankings and findings.
//!
//! It reads the store and computes. It never measures, and it does not know how a report looks. Diagnostics of the
//! measurement itself are in `diagnosis`.

use std::collections::{BTreeMap, BTreeSet};

use threadgauge_machine::{CpuList, Fingerprint};
use threadgauge_results::{
    ALPHA, CaseResult, ComparisonResult, Disturbed, Evidence, ExperimentResult, Finding, Look, Method,
    MetricSummary, Need, Params, RanBeside, Ranking, RankingEntry, Results, Run, SCHEMA, SOME_ROUNDS_FAILED,
    Side, Status, Store, StoreError, StoredCase, StoredExperiment, StoredSample, Take, Trust, Verdict,
    by_round, claim, compare_by_round, decide, disturbed_alike, null_control,
};
use threadgauge_stats::{Better, StoppingRule, Summary, null_misleads, paired_ratio, rank, summarise};

use crate::claim::Test;
use crate::diagnosis::{diagnose, disturbed, time_budget};
use crate::experiment::{Answer, Catalogue, Experiment, Pair};
use crate::schedule::rule_of;
use crate::site::{Profile, Site};
use crate::statistic::Statistic;
use crate::view::{Cases, Planned, View, ViewCase};
use crate::whole::Whole;
use crate::worker::lack;

mod instead;
#[cfg(test)]
mod tests;

/// The results document of a stored run.
///
/// # Errors
///
/// When the store is damaged.
pub fn analyse(catalogue: Catalogue, store: &Store) -> Result<Results, StoreError> {
    let record = store.run()?;
    let profile = Profile::named(&record.profile).unwrap_or(Profile::Quick);
    let machine = store.machine()?;
    // Of a version that wrote it down otherwise nothing is known here; the document has it as it is stored.
    let known: Fingerprint = serde_json::from_value(machine.clone()).unwrap_or_default();
    let siblings = known.topology.smt_siblings.as_deref().unwrap_or_default();
    let site = Site::new(profile, &CpuList::new(record.cpus.iter().copied()), siblings, 0);
    let planned = catalogue.planned(&site);
    let rule = rule_of(store)?;
    let stored = store.experiments()?.into_iter();
    let measured = stored.map(|stored| Measured::new(store, stored, &rule));
    let measured: Vec<Measured> = measured.collect::<Result<_, _>>()?;
    let of_all = measured.iter().map(|of| (of.stored.id.clone(), of.cases(None)));
    let cases: Cases = of_all.collect();
    let views = measured.iter().map(|of| of.view(profile, &planned, &cases));
    let views: Vec<View<'_>> = views.collect();
    let results = measured.iter().zip(&views);
    let results = results.map(|(of, view)| of.result(catalogue, view, &rule));
    let mut experiments: Vec<ExperimentResult> = results.collect();
    experiments.sort_by_key(|of| catalogue.place(&of.id));
    let whole = Whole {
        views,
        other: View {
            experiment: "",
            profile,
            alpha: rule.alpha_per_look(),
            fewest: fewest(&rule),
            cases: &cases,
            planned: &planned,
        },
        site: &site,
        machine: &known,
    };
    let tables = catalogue.tables.iter().filter_map(|table| table(&whole));
    let noise = experiments.iter().map(|e| (e.id.as_str(), e.disturbed));
    let mut warnings: Vec<String> = Disturbed::warning(noise).into_iter().collect();
    let complete = experiments.iter().all(|e| e.stopped_because != INTERRUPTED);
    if !complete {
        let says = match record.options.first() {
            Some(typed) if typed.starts_with("load ") => {
                "The load was interrupted; what is here is until then."
            }
            _ => {
                "The run was interrupted: some rounds are missing. `threadgauge run --resume DIR` goes on with it."
            }
        };
        warnings.insert(0, says.to_owned());
    }
    if record.handicap_percent > 0 {
        let says = format!(
            "Every timed section does {} % of extra work: a test of the harness, not a measurement.",
            record.handicap_percent
        );
        warnings.insert(0, says);
    }
    let mut results = Results {
        schema: SCHEMA,
        run: Run {
            rounds: experiments.iter().map(|e| e.rounds).max().unwrap_or(0),
            id: record.id,
            started: record.started,
            profile: record.profile,
            seed: record.seed,
            version: record.version,
            complete,
            measured_s: measured.iter().map(|of| of.wall_ns).sum::<u64>() as f64 / 1e9,
            options: record.options,
            in_turns_with: record.in_turns_with,
        },
        tables: tables.collect(),
        machine,
        warnings,
        trust: Trust::default(),
        experiments,
        catalogue: catalogue.iter().map(|e| e.id.to_owned()).collect(),
    };
    results.trust = Trust::of(&results);
    Ok(results)
}

/// The cases of an experiment that continue after its last look: those of claims that are not yet decided and, if the
/// profile asks for precision, those whose primary metric has too wide an interval. Without a look those of all claims:
/// none is decided yet, and no figure says which cases are precise enough.
///
/// # Errors
///
/// When the store is damaged.
pub fn going_on(
    catalogue: Catalogue,
    store: &Store,
    experiment: &str,
) -> Result<BTreeSet<String>, StoreError> {
    let stored = store.experiments()?.into_iter().find(|e| e.id == experiment);
    let (Some(stored), Some(known)) = (stored, catalogue.get(experiment)) else {
        return Ok(BTreeSet::new());
    };
    let profile = Profile::named(&store.run()?.profile).unwrap_or(Profile::Quick);
    let rule = rule_of(store)?;
    let measured = Measured::new(store, stored, &rule)?;
    let decided = measured.decided(known, profile);
    let cases = measured.at(measured.looks.last().copied());
    let view = measured.view(profile, &[], &cases);
    let open = (known.read)(&view)
        .claims
        .into_iter()
        .filter(|(id, _)| !decided.contains_key(id));
    let mut going_on = BTreeSet::new();
    for (_, test) in open.filter(|(id, test)| could_be_decided(&view, id, test)) {
        let statistics = test.statistics().into_iter().flat_map(Statistic::cells);
        let cases = statistics.filter_map(|cell| view.case(cell));
        going_on.extend(cases.map(|params| params.case_id(experiment)));
    }
    // Before a look no figure says what goes on.
    if !measured.looks.is_empty() {
        let is_wide = |case: &&ViewCase| known.primary.iter().any(|of| is_wide(case, of.name, &rule));
        let wide = view.own().iter().filter(is_wide);
        going_on.extend(wide.map(|case| case.params.case_id(experiment)));
    }
    Ok(going_on)
}

/// Whether more rounds could decide a claim. They cannot if it lacks something else than figures, such as a CPU.
fn could_be_decided(view: &View<'_>, id: &str, test: &Test) -> bool {
    let evidence = claim(id).map(|claim| test.evidence(view, claim));
    match evidence {
        Some(Evidence::Lacking { lack, .. }) => lack.of == Need::Figures,
        evidence => evidence.is_some(),
    }
}

/// Whether the interval of a case's metric is wider than the stopping rule allows.
fn is_wide(case: &ViewCase, metric: &str, rule: &StoppingRule) -> bool {
    let by_round = case.values.get(metric).into_iter().flat_map(BTreeMap::values);
    let values: Vec<f64> = by_round.copied().collect();
    let width = |summary: Summary| summary.ci?.relative_half_width(summary.median);
    let width = summarise(&values, rule.alpha_per_look()).ok().and_then(width);
    rule.epsilon > 0.0 && !values.is_empty() && width.is_none_or(|width| width > rule.epsilon)
}

/// The rounds that the first look needs.
fn fewest(rule: &StoppingRule) -> usize {
    rule.looks.first().map_or(1, |rounds| *rounds as usize)
}

/// An interval of level 95 % needs so many rounds.
const FEWEST_FOR_AN_INTERVAL: u32 = 6;

/// The reason given for the end of an experiment that did not finish.
const INTERRUPTED: &str = "interrupted";

/// A stored experiment, with the samples of its complete rounds.
struct Measured {
    stored: StoredExperiment,
    samples: Vec<StoredSample>,
    looks: Vec<Look>,
    rounds: u32,
    /// All looks share the error probability (METHOD rule 7). Where the time allowed no second look, none was taken
    /// before the end, and that one has all of it.
    rule: StoppingRule,
    /// How long the workers took, those of incomplete rounds too.
    wall_ns: u64,
}

impl Measured {
    fn new(store: &Store, stored: StoredExperiment, rule: &StoppingRule) -> Result<Self, StoreError> {
        let mut samples = store.samples(&stored.id)?;
        let wall_ns = samples.iter().map(|s| s.wall_ns).sum();
        let rounds = last_full_round(&stored, &samples);
        samples.retain(|s| s.round <= rounds.max(1));
        let looks = store.looks(&stored.id)?;
        let looked_once = store.has_looks()? && looks.is_empty() && stored.stopped_because.is_some();
        let once = StoppingRule::custom(rule.rounds().min(FEWEST_FOR_AN_INTERVAL));
        Ok(Self {
            rule: if looked_once { once } else { rule.clone() },
            stored,
            samples,
            looks,
            rounds,
            wall_ns,
        })
    }

    fn view<'a>(&'a self, profile: Profile, planned: &'a [Planned], cases: &'a Cases) -> View<'a> {
        View {
            experiment: &self.stored.id,
            profile,
            planned,
            alpha: self.rule.alpha_per_look(),
            fewest: fewest(&self.rule),
            cases,
        }
    }

    /// The samples of a case, without its second copy; but where that fails first, the case has no others.
    fn samples_of<'s>(case: &StoredCase, samples: &'s [StoredSample]) -> Vec<&'s StoredSample> {
        samples
            .iter()
            .filter(|s| s.case == case.id && (s.copy == 0 || s.sample.status != Status::Ok))
            .collect()
    }

    /// Its cases with their figures, now or at a look.
    fn cases(&self, look: Option<Look>) -> Vec<ViewCase> {
        let of_case = |case: &StoredCase| {
            let until = look.map_or(self.samples.len(), |look| look.tries as usize);
            let mut samples = Self::samples_of(case, &self.samples[..until.min(self.samples.len())]);
            samples.retain(|s| look.is_none_or(|look| s.round <= look.rounds));
            view_case(case, &samples, self.rule.alpha_per_look())
        };
        self.stored.cases.iter().map(of_case).collect()
    }

    /// The figures now or at a look. They are of this experiment alone, since others may not have run by then.
    fn at(&self, look: Option<Look>) -> Cases {
        Cases::from([(self.stored.id.clone(), self.cases(look))])
    }

    /// The claims that a look decided. Later rounds do not change these verdicts.
    fn decided(&self, experiment: &Experiment, profile: Profile) -> BTreeMap<&'static str, Finding> {
        let mut decided = BTreeMap::new();
        for look in &self.looks {
            let cases = self.at(Some(*look));
            let view = self.view(profile, &[], &cases);
            for (id, test) in (experiment.read)(&view).claims {
                let finding = finding(&view, id, &test);
                let is_definite =
                    |f: &Finding| matches!(f.verdict, Some(Verdict::Holds | Verdict::DoesNotHold));
                if let Some(mut finding) = finding.filter(is_definite) {
                    if look.rounds < self.rounds {
                        finding.says +=
                            &format!(" Decided after {} rounds: this figure is of those.", look.rounds);
                    }
                    decided.entry(id).or_insert(finding);
                }
            }
        }
        decided
    }

    fn result(&self, catalogue: Catalogue, view: &View<'_>, rule: &StoppingRule) -> ExperimentResult {
        let (stored, samples) = (&self.stored, &self.samples);
        let mut decided = BTreeMap::new();
        let mut answer = Answer::default();
        let mut method = Method::default();
        let (question, sources, primary) = if let Some(experiment) = catalogue.get(&stored.id) {
            answer = (experiment.read)(view);
            if answer.answer.is_empty() {
                let (says, figure) = instead::of(view, experiment.primary.first().copied());
                answer.answer = says;
                answer.figures.extend(figure);
            }
            decided = self.decided(experiment, view.profile);
            method = experiment.method();
            (
                experiment.question.to_owned(),
                experiment.sources,
                experiment.primary,
            )
        } else {
            // A store may hold an experiment that this version does not know. Its figures are shown without an answer.
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
        let findings = findings(view, &answer, decided);
        let mut diagnostics = diagnose(view, reference, samples, metric, null.as_ref());
        if stored.stopped_because.as_deref() == Some("time-budget") {
            diagnostics.push(time_budget(self.rounds, rule, &findings, samples));
        }
        ExperimentResult {
            id: stored.id.clone(),
            question,
            sources: sources.iter().map(ToString::to_string).collect(),
            answer: [answer.answer.as_str(), &answer.advice]
                .join(" ")
                .trim()
                .to_owned(),
            advice: answer.advice,
            number: answer.number,
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
            diagnostics,
            findings,
            cases: cases
                .map(|(case, view)| case_result(case, view, &Self::samples_of(case, &self.samples)))
                .collect(),
            primary_metrics: primary,
            figures: answer.figures,
            tables: answer.tables,
            costs: answer.costs,
            disturbed: disturbed(samples),
        }
    }
}

/// The last round in which every case that can run was tried. A later, interrupted round cannot be paired.
fn last_full_round(stored: &StoredExperiment, samples: &[StoredSample]) -> u32 {
    let last = samples.iter().map(|s| s.round).max().unwrap_or(0);
    if stored.stopped_because.is_some() {
        return last;
    }
    let failed = samples
        .iter()
        .filter(|s| s.sample.status != Status::Ok && !s.gated);
    let failing: BTreeSet<&str> = failed.map(|s| s.case.as_str()).collect();
    let tried = |round: u32| -> BTreeSet<&str> {
        let of_round = samples.iter().filter(|s| s.round == round && s.copy == 0);
        of_round.map(|s| s.case.as_str()).collect()
    };
    // After a look fewer cases may continue, so the cases wanted are those of the round before.
    let wanted = if last > 1 {
        tried(last - 1)
    } else {
        let able = stored.cases.iter().filter(|c| c.skip.is_none());
        able.map(|c| c.id.as_str()).collect()
    };
    let of_last = tried(last);
    let is_full = wanted
        .iter()
        .all(|id| failing.contains(id) || of_last.contains(id));
    last - u32::from(!is_full && last > 0)
}

/// A case's figures. Summaries use all rounds; whatever is paired uses the undisturbed ones.
fn view_case(case: &StoredCase, samples: &[&StoredSample], alpha: f64) -> ViewCase {
    let failed = |s: &&&StoredSample| s.sample.status != Status::Ok;
    // One that failed while all was stopped was taken again; it counts only where there is no other.
    let failure = samples.iter().filter(failed).find(|s| !s.gated);
    let failure = failure.or_else(|| samples.first().filter(|_| samples.iter().all(|s| failed(&s))));
    let mut view = ViewCase {
        ran_beside: RanBeside::of(&case.params, samples.iter().copied()),
        params: case.params.clone(),
        lack: case.skip.clone().or_else(|| lack(&failure?.sample)),
        tags: tags(samples),
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
                .insert(metric.name.clone(), MetricSummary::new(&metric.unit, summary));
        }
        view.values.insert(metric.name.clone(), rounds(Take::Undisturbed));
        view.all.insert(metric.name.clone(), all);
    }
    view
}

/// The tags that at least half of these have.
fn tags(samples: &[&StoredSample]) -> BTreeSet<String> {
    // The tags of an attempt that was repeated do not describe the figures; those of the last attempt do.
    let repeated = |s: &StoredSample| {
        samples
            .iter()
            .any(|o| (o.round, o.nth_try) == (s.round, s.nth_try) && o.attempt > s.attempt)
    };
    let kept: Vec<_> = samples.iter().filter(|s| !repeated(s)).collect();
    let mut tags: BTreeSet<String> = kept.iter().flat_map(|s| s.sample.tags.iter().cloned()).collect();
    let with = |tag: &String| kept.iter().filter(|s| s.sample.tags.contains(tag)).count();
    tags.retain(|tag| 2 * with(tag) >= kept.len());
    tags
}

fn case_result(case: &StoredCase, view: &ViewCase, samples: &[&StoredSample]) -> CaseResult {
    let status = if !view.summaries.is_empty() {
        Status::Ok
    } else if case.skip.is_some() || samples.iter().any(|s| s.sample.status == Status::Skipped) {
        Status::Skipped
    } else {
        Status::Failed
    };
    let mut tags = view.tags.clone();
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

/// The findings on claims, as a look decided them where one did, then the facts.
fn findings(view: &View<'_>, answer: &Answer, mut decided: BTreeMap<&str, Finding>) -> Vec<Finding> {
    let claims = answer.claims.iter();
    let claims = claims.filter_map(|(id, test)| decided.remove(id).or_else(|| finding(view, id, test)));
    claims.chain(answer.facts.iter().cloned()).collect()
}

fn finding(view: &View<'_>, id: &str, test: &Test) -> Option<Finding> {
    let claim = claim(id)?;
    let evidence = test.evidence(view, claim);
    Some(decide(claim, &claim.unit, &evidence, view.alpha))
}

/// The first case that matches `params`.
fn picked<'v>(view: &View<'v>, params: &Params) -> Option<&'v ViewCase> {
    view.own().iter().find(|c| c.params.matches(params))
}

/// The comparisons that the experiment asks for. All are unknown if `misled`: the null control lies outside the band.
fn comparisons<'v>(view: &View<'v>, pairs: &[Pair], metric: &str, misled: bool) -> Vec<ComparisonResult> {
    let of_pair = |pair: &Pair| {
        let (a, b) = (picked(view, &pair.a)?, picked(view, &pair.b)?);
        let side = |case: &'v ViewCase| {
            Some(Side {
                undisturbed: case.values.get(metric)?,
                all: case.all.get(metric)?,
                ran_beside: case.ran_beside,
            })
        };
        let sides = side(a).zip(side(b));
        let compared = sides.and_then(|(a, b)| compare_by_round(a, b, view.fewest).ok());
        let [a, b] = [a, b].map(|case| case.params.case_id(view.experiment));
        let compared = ComparisonResult::new(&a, &b, metric, compared.as_ref());
        Some(if misled { compared.misled() } else { compared })
    };
    pairs.iter().filter_map(of_pair).collect()
}

/// By the undisturbed rounds, where there are as many as the first look needs; else by all, if the cases were disturbed
/// alike.
fn ranking(view: &View<'_>, (title, wanted): &(String, Vec<Params>), metric: &str) -> Option<Ranking> {
    let measured = |p| picked(view, p).filter(|case| case.all.contains_key(metric));
    let cases: Vec<&ViewCase> = wanted.iter().filter_map(measured).collect();
    cases.first()?;
    let shared = |columns: Vec<&BTreeMap<u32, f64>>| -> Vec<Vec<f64>> {
        let in_all = |round: &&u32| columns.iter().all(|c| c.contains_key(round));
        let rounds: Vec<u32> = columns[0].keys().filter(in_all).copied().collect();
        let values = |c: &&BTreeMap<u32, f64>| rounds.iter().map(|round| c[round]).collect();
        columns.iter().map(values).collect()
    };
    let mut groups = shared(cases.iter().map(|case| &case.values[metric]).collect());
    let all = shared(cases.iter().map(|case| &case.all[metric]).collect());
    let mut title = title.clone();
    if groups[0].len() < all[0].len().min(view.fewest) {
        let beside: Vec<RanBeside> = cases.iter().map(|case| case.ran_beside).collect();
        groups = disturbed_alike(&beside).then_some(all)?;
        title += ", disturbed rounds included";
    }
    let order = rank(&groups, Better::Lower).ok()?;
    let best = order.cases.first()?.index;
    let entries = order.cases.iter().filter_map(|entry| {
        let against = paired_ratio(&groups[best], &groups[entry.index], ALPHA).ok()?;
        Some(RankingEntry {
            case: cases[entry.index].params.case_id(view.experiment),
            letters: entry.letters.clone(),
            ratio: against.estimate,
            ci95: against.ci.map(|ci| [ci.low, ci.high]),
        })
    });
    Some(Ranking {
        title,
        metric: metric.to_owned(),
        separated: order.separation.into(),
        entries: entries.collect(),
    })
}
