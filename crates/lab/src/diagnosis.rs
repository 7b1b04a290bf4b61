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
        "The time budget ended it after {}: {looks} of {} were not taken, {} open, and {} not \
         repeated. A quieter machine, or --rounds {}, has the rest.",
        units::counted(rounds as usize, "round"),
        units::counted(rule.looks.len(), "look"),
        match open.len() {
            1 => "1 claim stays".to_owned(),
            claims => format!("{claims} claims stay"),
        },
        match not_repeated(samples) {
            1 => "1 disturbed sample was".to_owned(),
            disturbed => format!("{disturbed} disturbed samples were"),
        },
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
    let figure = |decimals: usize| {
        let [low, high] = [ci.low, ci.high].map(|end| format!("{end:.decimals$}"));
        let says_one = [&low, &high].iter().any(|end| end.parse() == Ok(1.0));
        (honest || !says_one).then(|| format!("{:.decimals$} [{low}, {high}]", null.estimate))
    };
    // An end that is not 1 must not be written as 1.
    let figure = match honest {
        true => units::with_unit(null.estimate, Some([ci.low, ci.high]), "ratio"),
        false => (2..8)
            .find_map(figure)
            .unwrap_or_else(|| format!("{}", null.estimate)),
    };
    let says = format!(
        "The reference case against its own second copy ({metric}): {figure}, which {verdict}{beyond}."
    );
    diagnostic("null-control", !honest, says)
}

fn drift(series: &[f64]) -> Diagnostic {
    if series.len() < 4 {
        let says = "Too few rounds to see a drift of the reference case.";
        return diagnostic("drift", false, says);
    }
    let trend = diagnostics::mann_kendall(series);
    if trend.tau.is_nan() {
        let says = "The reference case took the same in all rounds: no drift.";
        return diagnostic("drift", false, says);
    }
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
        1 => format!("1 case has {have} {}", shortened(cases)),
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
        "{} of {} were disturbed (steal above 1 %, throttling by a quota, time stopped, or foreign processes above 5 % \
         of a CPU){by_cause} which led to {repeated}.{given_up} The most seen: {} steal, {} of foreign load.",
        of.disturbed,
        units::counted(of.samples, "sample"),
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
            "In {} of {} with no more units than CPUs, they did not all run 95 % of the time: {}",
            low.len(),
            units::counted(measured.len(), "sample"),
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
    fn equal_rounds_are_no_drift_and_no_tau_without_a_value() {
        let equal = drift(&[7.0; 10]);
        assert!(
            equal.says.ends_with("took the same in all rounds: no drift."),
            "{}",
            equal.says
        );
        let slower: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!(
            drift(&slower)
                .says
                .contains("grew slower over the rounds (Mann–Kendall τ = 1.00")
        );
    }

    #[test]
    fn a_second_copy_that_was_always_disturbed_is_not_said_to_be_missing() {
        let says = |samples: &[StoredSample]| null_control("ns", None, samples).says;
        assert!(says(&[copy(0)]).contains("has no second copy"));
        assert!(says(&[copy(0), copy(1)]).contains("no undisturbed round in common"));
    }

    /// A try of this round that was disturbed or not.
    fn tried(round: u32, attempt: u32, gated: bool) -> StoredSample {
        StoredSample {
            round,
            attempt,
            gated,
            ..copy(0)
        }
    }

    #[test]
    fn what_stayed_disturbed_before_its_last_repetition_was_not_repeated() {
        assert_eq!(not_repeated(&[]), 0);
        // Undisturbed in the end, repeated to the end, and neither: the last attempt of each counts.
        let samples = [
            tried(1, 0, true),
            tried(1, 1, false),
            tried(2, 0, true),
            tried(2, REPEATS, true),
            tried(3, 0, true),
            tried(4, 0, true),
            tried(4, 1, true),
        ];
        assert_eq!(not_repeated(&samples), 2);
    }

    #[test]
    fn an_end_by_the_time_says_which_looks_lack_and_which_claims_stay_open() {
        let finding = |id: &str, verdict| Finding {
            claim: Some(id.to_owned()),
            verdict: Some(verdict),
            says: String::new(),
            published: None,
            published_text: None,
            measured: None,
            ci95: None,
            unit: String::new(),
            reason: None,
            disturbed: false,
            recreated: None,
        };
        let rule = StoppingRule::standard();
        let (first, last) = (rule.looks[0], rule.rounds());
        let told = |rounds, verdict| {
            let findings = [finding("one", Verdict::Holds), finding("other", verdict)];
            time_budget(rounds, &rule, &findings, &[tried(1, 0, true)])
        };
        let open = told(first, Verdict::Inconclusive);
        let of = rule.looks.len();
        let says = format!(
            "The time budget ended it after {first} rounds: {} of {of} looks were not taken, 1 claim stays open, and 1 disturbed \
             sample was not repeated. A quieter machine, or --rounds {last}, has the rest. Open: other.",
            of - 1
        );
        assert_eq!((open.says, open.warning), (says, true));
        let decided = told(last, Verdict::DoesNotHold);
        assert!(
            decided
                .says
                .contains(&format!(": 0 of {of} looks were not taken, 0 claims stay open"))
        );
        assert!(!decided.warning && decided.says.ends_with(" has the rest."));
    }

    #[test]
    fn a_reference_that_differs_from_its_copy_is_a_warning_and_beyond_the_band_says_more() {
        let told = |low, high| {
            let ci = Some(threadgauge_stats::Interval {
                low,
                high,
                level: 0.95,
            });
            let null = Estimate {
                estimate: f64::midpoint(low, high),
                ci,
                n: 7,
            };
            null_control("ns", Some(&null), &[])
        };
        let honest = told(0.99, 1.01);
        assert!(
            !honest.warning && honest.says.ends_with("which includes 1, as it must."),
            "{honest:?}"
        );
        let off = told(1.01, 1.02);
        assert!(
            off.warning && off.says.ends_with("something disturbs the order."),
            "{off:?}"
        );
        let beyond = told(1.04, 1.05);
        assert!(
            beyond.warning && beyond.says.contains("wholly beyond ± 3 %"),
            "{beyond:?}"
        );
        let few = null_control("ns", Some(&Estimate::of_one(1.0)), &[]);
        assert!(
            few.warning && few.says.starts_with("Too few rounds (1)"),
            "{few:?}"
        );
    }

    #[test]
    fn a_drift_has_its_direction_and_four_rounds() {
        let rising: Vec<f64> = (1..=9).map(f64::from).collect();
        let falling: Vec<f64> = rising.iter().map(|v| 10.0 - v).collect();
        let even = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0];
        for (series, warning, says) in [
            (&rising[..], true, "grew slower"),
            (&falling, true, "grew faster"),
            (&even, false, "shows no drift"),
            (&rising[..4], false, "shows no drift"),
            (&rising[..3], false, "Too few rounds"),
        ] {
            let told = drift(series);
            assert!(told.says.contains(says) && told.warning == warning, "{told:?}");
        }
    }

    #[test]
    fn cases_with_modes_or_outliers_are_counted_and_named() {
        const TIME: crate::statistic::Metric = crate::statistic::metric("elapsed_ns", "ns");
        let even = [9.7, 10.4, 10.1, 9.9, 10.0, 10.2, 9.8, 10.3];
        let two = [10.0, 10.1, 20.0, 10.2, 20.2, 20.1, 9.9, 20.1];
        let stray = [10.0, 10.1, 9.9, 30.0, 10.0, 10.2, 9.8, 10.0];
        let told = |series: &[[f64; 8]]| {
            let case = |(n, rounds): (usize, &[f64; 8])| {
                let params = threadgauge_results::Params::new().with("n", n as u64);
                crate::testing::case(params, [(TIME, rounds.to_vec())])
            };
            let cases = series.iter().enumerate().map(case).collect();
            let view = crate::testing::view("e", crate::site::Profile::Quick, cases);
            diagnose(&view, Some("e/n=0"), &[], TIME.name, None)
        };
        let named = |all: &[Diagnostic], name: &str| all.iter().find(|d| d.name == name).unwrap().clone();
        let none = told(&[even, even]);
        assert_eq!(none.len(), 6);
        assert_eq!(
            named(&none, "modes").says,
            "No case has more than one mode in elapsed_ns."
        );
        assert_eq!(named(&none, "outliers").says, "No outliers in elapsed_ns.");
        assert!(!named(&none, "modes").warning);
        let rising = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].map(|v| 100.0 + v);
        let some = told(&[rising, two, stray]);
        let modes = named(&some, "modes");
        assert!(
            modes.warning
                && modes
                    .says
                    .starts_with("1 case has several modes in elapsed_ns; their median hides it. n=1: "),
            "{modes:?}"
        );
        let outliers = named(&some, "outliers");
        let says = "1 case has outliers in elapsed_ns; all are kept. n=2: 1 of 8.";
        assert_eq!((outliers.says.as_str(), outliers.warning), (says, false));
        // The series is the reference's, and no other's.
        assert!(named(&some, "drift").says.contains("grew slower"));
        let many: Vec<String> = (0..7).map(|n| n.to_string()).collect();
        assert_eq!(shortened(&many), "0; 1; 2; 3; 4; and 2 more.");
        assert_eq!(shortened(&many[..5]), "0; 1; 2; 3; 4.");
    }

    #[test]
    fn noise_counts_repetitions_their_causes_and_the_most_seen() {
        let beside = |round, attempt, gated, foreign: f64| {
            let mut sample = tried(round, attempt, gated);
            sample.sample.noise.insert("foreign_cpus".to_owned(), foreign);
            sample
        };
        let quiet = noise(&[beside(1, 0, false, 0.0)]);
        assert!(!quiet.warning);
        assert!(
            quiet.says.starts_with("0 of 1 sample were disturbed"),
            "{quiet:?}"
        );
        assert!(
            quiet
                .says
                .contains("of a CPU), which led to 0 repeats. The most seen"),
            "{quiet:?}"
        );
        let loud = noise(&[
            beside(1, 0, true, 0.5),
            beside(1, 1, true, 0.25),
            beside(1, 2, false, 0.0),
            beside(2, 0, true, 0.1),
            beside(3, 0, true, 0.1),
            beside(3, 1, false, 0.0),
        ]);
        assert!(loud.warning);
        assert!(loud.says.starts_with("3 of 3 samples were disturbed"), "{loud:?}");
        let says = "of a CPU), 3 by other programs here, which led to 3 repeats, 2 of them undisturbed. 1 were not repeated";
        assert!(loud.says.contains(says), "{loud:?}");
        assert!(loud.says.contains(" steal, 0.5"), "{loud:?}");
    }

    #[test]
    fn units_that_did_not_run_together_are_a_warning_above_a_quarter_of_the_samples() {
        let beside = |low: bool| {
            let mut sample = copy(0);
            sample
                .sample
                .noise
                .insert("overlap".to_owned(), if low { 0.5 } else { 1.0 });
            sample.sample.tags.extend(low.then(|| "low-overlap".to_owned()));
            sample
        };
        let told = |low: usize, of: usize| {
            // One sample says nothing of it.
            let samples: Vec<_> = (0..of).map(|i| beside(i < low)).chain([copy(0)]).collect();
            overlap(&samples)
        };
        assert_eq!(told(0, 0), None);
        let all = told(0, 4).unwrap();
        assert!(
            !all.warning && all.says.starts_with("Where there were no more units"),
            "{all:?}"
        );
        let quarter = told(1, 4).unwrap();
        assert!(
            !quarter.warning && quarter.says.starts_with("In 1 of 4 samples"),
            "{quarter:?}"
        );
        assert!(quarter.says.ends_with(": e/a=1."), "{quarter:?}");
        assert!(told(2, 7).unwrap().warning && !told(2, 8).unwrap().warning);
    }
}
