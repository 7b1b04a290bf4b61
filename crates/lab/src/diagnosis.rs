//! Diagnostics of an experiment's figures (METHOD rule 9). They are always shown; nothing is deleted.

use std::collections::{BTreeMap, BTreeSet};

use threadgauge_results::{Diagnostic, Disturbed, Finding, StoredSample, Verdict, units};
use threadgauge_stats::{Estimate, StoppingRule, diagnostics, null_misleads};

use crate::schedule::{FOREIGN_LIMIT_CPUS, REPEATS, STEAL_LIMIT};
use crate::view::{View, ViewCase};

/// The level of a diagnostic's test.
const ALPHA: f64 = 0.05;

/// Every diagnostic of an experiment: `null` is the reference case against its second copy, both by `metric`.
pub(crate) fn diagnose(
    view: &View<'_>,
    reference: Option<&str>,
    samples: &[StoredSample],
    metric: &str,
    null: Option<&Estimate>,
) -> Vec<Diagnostic> {
    let is_reference = |c: &&ViewCase| Some(c.params.case_id(view.experiment).as_str()) == reference;
    let series = view
        .own()
        .iter()
        .find(is_reference)
        .map(|c| values(c, metric))
        .unwrap_or_default();
    let mut all = vec![
        null_control(metric, null, samples),
        drift(&series),
        autocorrelation(&series),
        modes(view, metric),
        outliers(view, metric),
        noise(samples),
    ];
    all.extend(overlap(samples));
    all
}

/// Disturbed tries that were not repeated as often as they might have been: for want of time, or since the load was the
/// machine's state.
fn not_repeated(samples: &[StoredSample]) -> usize {
    let mut last = BTreeMap::new();
    for s in samples {
        last.insert((s.round, &s.case, s.copy, s.nth_try), s);
    }
    last.values().filter(|s| s.gated && s.attempt < REPEATS).count()
}

/// What it cost that the time ended before the last look.
pub(crate) fn time_budget(
    rounds: u32,
    rule: &StoppingRule,
    findings: &[Finding],
    samples: &[StoredSample],
) -> Diagnostic {
    let looks = rule.looks.iter().filter(|look| **look > rounds).count();
    let is_open = |f: &&Finding| f.verdict == Some(Verdict::Inconclusive);
    let open = findings.iter().filter(is_open).filter_map(|f| f.claim.clone());
    let open: Vec<String> = open.collect();
    let mut says = format!(
        "The time budget ended it after {rounds} rounds: {looks} of {} looks were not taken, {} claims stay open, and {} \
         disturbed samples were not repeated. A quieter machine, or --rounds {}, has the rest.",
        rule.looks.len(),
        open.len(),
        not_repeated(samples),
        rule.rounds(),
    );
    if !open.is_empty() {
        says += &format!(" Open: {}", shortened(&open));
    }
    diagnostic("time-budget", !open.is_empty(), says)
}

/// How many samples were disturbed, and by what.
pub(crate) fn disturbed(samples: &[StoredSample]) -> Disturbed {
    threadgauge_results::disturbed(samples, STEAL_LIMIT, FOREIGN_LIMIT_CPUS)
}

/// The undisturbed values of a case, by round.
fn values(case: &ViewCase, metric: &str) -> Vec<f64> {
    let rounds = case.values.get(metric);
    rounds
        .map(|rounds| rounds.values().copied().collect())
        .unwrap_or_default()
}

fn diagnostic(name: &str, warning: bool, says: impl Into<String>) -> Diagnostic {
    Diagnostic {
        name: name.to_owned(),
        says: says.into(),
        warning,
    }
}

fn null_control(metric: &str, null: Option<&Estimate>, samples: &[StoredSample]) -> Diagnostic {
    let Some(null) = null else {
        let says = if samples.iter().any(|s| s.copy == 1) {
            "The reference case and its second copy have no undisturbed round in common."
        } else {
            "The reference case has no second copy to compare with."
        };
        return diagnostic("null-control", true, says);
    };
    let Some(ci) = &null.ci else {
        let n = null.n;
        let says = format!("Too few rounds ({n}) to compare the reference with its own copy.");
        return diagnostic("null-control", true, says);
    };
    let honest = ci.contains(1.0);
    let verdict = if honest {
        "includes 1, as it must"
    } else {
        "does not include 1: something disturbs the order"
    };
    let beyond = if null_misleads(null) {
        ". It lies wholly beyond ± 3 %, so every comparison of this experiment is unknown"
    } else {
        ""
    };
    let says = format!(
        "The reference case against its own second copy ({metric}): {}, which {verdict}{beyond}.",
        units::with_unit(null.estimate, Some([ci.low, ci.high]), "ratio"),
    );
    diagnostic("null-control", !honest, says)
}

fn drift(series: &[f64]) -> Diagnostic {
    if series.len() < 4 {
        let says = "Too few rounds to see a drift of the reference case.";
        return diagnostic("drift", false, says);
    }
    let trend = diagnostics::mann_kendall(series);
    let drifts = trend.p < ALPHA;
    let verdict = match (drifts, trend.tau > 0.0) {
        (false, _) => "shows no drift",
        (true, true) => "grew slower",
        (true, false) => "grew faster",
    };
    let says = format!(
        "The reference case {verdict} over the rounds (Mann–Kendall τ = {:.2}, p = {:.2}).",
        trend.tau, trend.p
    );
    diagnostic("drift", drifts, says)
}

fn autocorrelation(series: &[f64]) -> Diagnostic {
    let Some(lag1) = diagnostics::lag1(series) else {
        let says = "Too few rounds to see whether one depends on the one before.";
        return diagnostic("autocorrelation", false, says);
    };
    let says = format!(
        "Lag-1 autocorrelation of the reference case: {lag1:.2}; its {} rounds are worth {:.1} independent ones.",
        series.len(),
        diagnostics::effective_n(series.len(), lag1)
    );
    let warning = diagnostics::warns_of_autocorrelation(series);
    diagnostic("autocorrelation", warning, says)
}

/// What `of` says of the cases of which it says something, each behind its parameters.
fn cases_with(view: &View<'_>, metric: &str, of: impl Fn(&[f64]) -> Option<String>) -> Vec<String> {
    let says = |case: &ViewCase| Some(format!("{}: {}", case.params, of(&values(case, metric))?));
    view.own().iter().filter_map(says).collect()
}

fn modes(view: &View<'_>, metric: &str) -> Diagnostic {
    let summaries = view.own().iter().find_map(|case| case.summaries.get(metric));
    let unit = summaries.map_or("", |summary| summary.unit.as_str());
    let several = cases_with(view, metric, |values| {
        let modes = diagnostics::modes(values);
        let mode = |m: &diagnostics::Mode| {
            let centre = units::with_unit(m.centre, None, unit);
            format!("{centre} ({})", units::percent(m.share))
        };
        (modes.len() > 1).then(|| modes.iter().map(mode).collect::<Vec<_>>().join(" and "))
    });
    let none = format!("No case has more than one mode in {metric}.");
    let have = format!("several modes in {metric}; their median hides it.");
    let says = counted(&several, none, &have);
    diagnostic("modes", !several.is_empty(), says)
}

fn outliers(view: &View<'_>, metric: &str) -> Diagnostic {
    let with = cases_with(view, metric, |values| {
        let outliers = diagnostics::outliers(values).len();
        (outliers > 0).then(|| format!("{outliers} of {}", values.len()))
    });
    let none = format!("No outliers in {metric}.");
    let have = format!("outliers in {metric}; all are kept.");
    let says = counted(&with, none, &have);
    diagnostic("outliers", false, says)
}

/// How many cases have something, and the first of them; `none` where there are none.
fn counted(cases: &[String], none: String, have: &str) -> String {
    match cases.len() {
        0 => none,
        count => format!("{count} cases have {have} {}", shortened(cases)),
    }
}

fn shortened(lines: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = lines[..lines.len().min(SHOWN)].join("; ");
    match lines.len().saturating_sub(SHOWN) {
        0 => format!("{shown}."),
        more => format!("{shown}; and {more} more."),
    }
}

fn noise(samples: &[StoredSample]) -> Diagnostic {
    let most = |name: &str| {
        let seen = samples.iter().filter_map(|s| s.sample.noise.get(name));
        seen.copied().fold(0.0, f64::max)
    };
    let of = disturbed(samples);
    let repeats = samples.iter().filter(|s| s.attempt > 0);
    let undisturbed = repeats.clone().filter(|s| !s.gated).count();
    let repeated = match repeats.count() {
        0 => "0 repeats".to_owned(),
        some => format!("{some} repeats, {undisturbed} of them undisturbed"),
    };
    let by_cause = match of.by_cause() {
        none if none.is_empty() => ",".to_owned(),
        some => format!(", {some},"),
    };
    let given_up = match not_repeated(samples) {
        0 => String::new(),
        some => format!(
            " {some} were not repeated as often as they might have been: half of the last twenty were disturbed, which is the \
             machine's state, or the time was needed for the rounds."
        ),
    };
    let says = format!(
        "{} of {} samples were disturbed (steal above 1 %, throttling by a quota, time stopped, or foreign processes above 5 % \
         of a CPU){by_cause} which led to {repeated}.{given_up} The most seen: {} steal, {} of foreign load.",
        of.disturbed,
        of.samples,
        units::percent(most("steal_share")),
        units::with_unit(most("foreign_cpus"), None, "CPUs"),
    );
    diagnostic("noise", of.is_much(), says)
}

fn overlap(samples: &[StoredSample]) -> Option<Diagnostic> {
    let measured: Vec<_> = samples
        .iter()
        .filter(|s| s.sample.noise.contains_key("overlap"))
        .collect();
    let is_low = |s: &&&StoredSample| s.sample.tags.iter().any(|t| t == "low-overlap");
    let low: Vec<&str> = measured.iter().filter(is_low).map(|s| s.case.as_str()).collect();
    let says = if low.is_empty() {
        "Where there were no more units than CPUs, all were on a CPU at least 95 % of the time.".to_owned()
    } else {
        let cases: BTreeSet<&str> = low.iter().copied().collect();
        let names: Vec<String> = cases.into_iter().map(str::to_owned).collect();
        format!(
            "In {} of {} samples with no more units than CPUs, they did not all run 95 % of the time: {}",
            low.len(),
            measured.len(),
            shortened(&names)
        )
    };
    (!measured.is_empty()).then(|| diagnostic("overlap", 4 * low.len() > measured.len(), says))
}

#[cfg(test)]
mod tests {
    use threadgauge_results::{Sample, Status};

    use super::*;

    /// The reference case's first copy or its second.
    fn copy(copy: u32) -> StoredSample {
        StoredSample {
            experiment: "e".to_owned(),
            case: "e/a=1".to_owned(),
            round: 1,
            copy,
            attempt: 0,
            nth_try: 0,
            gated: true,
            started: "2026-01-01T00:00:00Z".to_owned(),
            wall_ns: 1,
            sample: Sample::without_figures(Status::Ok, String::new()),
        }
    }

    #[test]
    fn a_second_copy_that_was_always_disturbed_is_not_said_to_be_missing() {
        let says = |samples: &[StoredSample]| null_control("ns", None, samples).says;
        assert!(says(&[copy(0)]).contains("has no second copy"));
        assert!(says(&[copy(0), copy(1)]).contains("no undisturbed round in common"));
    }
}
