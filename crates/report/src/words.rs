//! The words and signs for what was found, the same in every kind of report.
//!
//! No meaning is carried by colour alone: each verdict has a sign and a word.

use std::collections::BTreeMap;

use threadgauge_results::units::{Scale, counted};
use threadgauge_results::{
    Claim, ComparisonResult, ExperimentResult, Finding, Ranking, Results, Separated, Status, Verdict,
    false_alarms,
};

/// The sign of a verdict on a claim.
pub(crate) const fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "✓",
        Verdict::DoesNotHold => "✗",
        Verdict::Inconclusive => "?",
        Verdict::NotMeasured => "○",
        Verdict::NotTestable => "–",
    }
}

/// The word for a verdict on a claim.
pub(crate) const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::DoesNotHold => "does not hold",
        Verdict::Inconclusive => "inconclusive",
        Verdict::NotMeasured => "not measured",
        Verdict::NotTestable => "not testable",
    }
}

/// The order in which findings are told: what is settled, then what is not, then facts.
pub(crate) const VERDICTS: [Verdict; 5] = [
    Verdict::DoesNotHold,
    Verdict::Holds,
    Verdict::Inconclusive,
    Verdict::NotMeasured,
    Verdict::NotTestable,
];

/// Findings in the order they are told.
pub(crate) fn in_order(findings: &[Finding]) -> Vec<&Finding> {
    let place = |f: &&Finding| f.verdict.map_or(VERDICTS.len(), position);
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(place);
    sorted
}

fn position(verdict: Verdict) -> usize {
    VERDICTS
        .iter()
        .position(|v| *v == verdict)
        .unwrap_or(VERDICTS.len())
}

/// The verdicts on claims that are decided, what does not hold first: that is what surprises. A source's core claims
/// come before what it says besides.
pub(crate) fn decided(results: &Results) -> Vec<(&'static Claim, Verdict, &Finding)> {
    let findings = results.experiments.iter().flat_map(|e| &e.findings);
    let mut decided: Vec<_> = findings
        .filter_map(|f| {
            let verdict = f.verdict?;
            let is_decided = matches!(verdict, Verdict::Holds | Verdict::DoesNotHold);
            let claim = f.claim.as_deref().and_then(threadgauge_results::claim);
            claim.filter(|_| is_decided).map(|claim| (claim, verdict, f))
        })
        .collect();
    decided.sort_by_key(|(claim, verdict, _)| (position(*verdict), claim.tier != "core"));
    decided
}

/// Why a claim does not hold whose figure alone would not tell: a condition beside its rule is not met.
pub(crate) fn why<'f>(claim: &Claim, finding: &'f Finding) -> Option<&'f str> {
    let range = claim.range();
    let refutes = |[low, high]: [f64; 2]| high < range.min || low > range.max;
    let is_refuted = finding.verdict == Some(Verdict::DoesNotHold);
    let told = finding.ci95.is_some_and(refutes);
    finding.reason.as_deref().filter(|_| is_refuted && !told)
}

/// A finding in full: the claim in its own words, then what the figures say of it.
pub(crate) fn statement(f: &Finding) -> String {
    match f.claim.as_deref().and_then(threadgauge_results::claim) {
        Some(claim) => format!("{} {}", claim.claim, f.says),
        None => f.says.clone(),
    }
}

/// How many claims have which verdict, and how many findings are facts.
pub(crate) fn tally<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> ([usize; 5], usize) {
    let (mut counts, mut facts) = ([0; 5], 0);
    for finding in findings {
        match finding.verdict {
            Some(v) => counts[position(v)] += 1,
            None => facts += 1,
        }
    }
    (counts, facts)
}

/// The tally as a line of words: `5 claims hold, 2 do not hold, 1 is inconclusive`.
pub(crate) fn tally_line((counts, facts): ([usize; 5], usize)) -> String {
    let mut parts = Vec::new();
    for (verdict, n) in VERDICTS.into_iter().zip(counts) {
        if n > 0 {
            parts.push(format!("{} {n} {}", sign(verdict), plural_word(verdict, n)));
        }
    }
    if facts > 0 {
        parts.push(format!("{facts} {}", plural(facts, "fact", "facts")));
    }
    if parts.is_empty() {
        "no findings".to_owned()
    } else {
        parts.join(" · ")
    }
}

/// What so many claims do: `hold`, `do not hold`.
pub(crate) const fn plural_word(verdict: Verdict, n: usize) -> &'static str {
    match (verdict, n) {
        (Verdict::Holds, 1) => "claim holds",
        (Verdict::Holds, _) => "claims hold",
        (Verdict::DoesNotHold, 1) => "does not hold",
        (Verdict::DoesNotHold, _) => "do not hold",
        (Verdict::Inconclusive, _) => "inconclusive",
        (Verdict::NotMeasured, _) => "not measured in this run",
        (Verdict::NotTestable, _) => "not testable here",
    }
}

/// One word or the other.
pub(crate) const fn plural(n: usize, one: &'static str, many: &'static str) -> &'static str {
    if n == 1 { one } else { many }
}

/// How many comparisons are called faster or slower, beside how many chance alone would call.
pub(crate) fn by_chance(rows: &[ComparisonResult]) -> String {
    let called = rows
        .iter()
        .filter(|row| matches!(row.verdict.as_str(), "faster" | "slower"))
        .count();
    format!(
        "{called} of {} called faster or slower; if none differed, at most {:.1} would be expected by chance.",
        rows.len(),
        false_alarms(rows)
    )
}

/// What the letters of a ranking say, or why there are none.
pub(crate) fn about_letters(ranking: &Ranking) -> &'static str {
    match ranking.separated {
        Separated::ByPairs => {
            "Best median first; a ratio is of each round, and may order neighbours otherwise. Entries that share a letter cannot be told \
             apart."
        }
        Separated::Jointly => {
            "Best median first; a ratio is of each round, and may order neighbours otherwise. Entries that share a letter cannot be told \
             apart, all pairs judged at once: for each pair by itself there are too few rounds."
        }
        Separated::Not => {
            "Best median first; a ratio is of each round, and may order neighbours otherwise. There are too few rounds to tell entries \
             apart; what is known are the figures and, where there are any, their intervals."
        }
    }
}

/// The sign of a comparison's verdict.
pub(crate) fn comparison_sign(verdict: &str) -> &'static str {
    match verdict {
        "faster" => "▲",
        "slower" => "▼",
        "same" => "=",
        "small" => "≈",
        _ => "?",
    }
}

/// What a comparison says: its word, whether disturbed rounds count, and why nothing is known where it is so.
pub(crate) fn outcome(of: &ComparisonResult) -> String {
    let noise = if of.disturbed { IN_DISTURBED_ROUNDS } else { "" };
    let why = of
        .reason
        .as_ref()
        .map_or_else(String::new, |why| format!(": {why}"));
    format!("{}{noise}{why}", of.verdict)
}

/// Stands behind a figure in which disturbed rounds count.
const IN_DISTURBED_ROUNDS: &str = " in disturbed rounds";
const RE_CREATED: &str = ", re-created on this kernel";
const RE_CREATED_IN_DISTURBED_ROUNDS: &str = " in disturbed rounds, re-created on this kernel";

/// Our figure of a finding, with its interval.
pub(crate) fn measured(finding: &Finding) -> Option<String> {
    let value = finding.measured?;
    Some(Scale::of(&finding.unit, value).estimate(value, finding.ci95))
}

/// Where disturbed rounds count in a finding, or it was decided on a re-creation, so, behind its figure.
pub(crate) fn noise(finding: &Finding) -> &'static str {
    match (finding.disturbed, finding.recreated.is_some()) {
        (false, false) => "",
        (true, false) => IN_DISTURBED_ROUNDS,
        (false, true) => RE_CREATED,
        (true, true) => RE_CREATED_IN_DISTURBED_ROUNDS,
    }
}

/// The source's figure of a finding: as the source says it, else the number, in the unit of ours.
pub(crate) fn published(finding: &Finding) -> Option<String> {
    if let Some(text) = finding.published_text.as_deref().filter(|t| !t.is_empty()) {
        return Some(text.to_owned());
    }
    let value = finding.published?;
    Some(Scale::of(&finding.unit, finding.measured.unwrap_or(value)).quantity(value))
}

/// A status as a word.
pub(crate) const fn status(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
    }
}

/// Why an experiment stopped measuring: its key in `results.json`, in words.
#[must_use]
pub fn stopped(because: &str) -> String {
    match because {
        "rounds" => "all planned rounds were measured".to_owned(),
        "precision" => "the primary intervals were narrow enough".to_owned(),
        "decided" => "no claim was left that more rounds could decide".to_owned(),
        "time-budget" => "the time budget ended".to_owned(),
        "interrupted" => "it was interrupted".to_owned(),
        other => other.to_owned(),
    }
}

/// What became of the cases: `150 cases: 147 measured, 2 failed, 1 skipped`.
pub(crate) fn case_counts(experiment: &ExperimentResult) -> String {
    let of = |s| experiment.cases.iter().filter(|c| c.status == s).count();
    let (ok, failed, skipped) = (of(Status::Ok), of(Status::Failed), of(Status::Skipped));
    let n = experiment.cases.len();
    let mut text = counted(n, "case");
    if failed + skipped > 0 {
        text.push_str(&format!(": {ok} measured"));
        for (count, word) in [(failed, "failed"), (skipped, "skipped")] {
            if count > 0 {
                text.push_str(&format!(", {count} {word}"));
            }
        }
    }
    text
}

/// How many cases were skipped and why: the reason of most of them. None where none was.
pub(crate) fn skipped(experiment: &ExperimentResult) -> Option<String> {
    let cases = &experiment.cases;
    let skipped = || cases.iter().filter(|c| c.status == Status::Skipped);
    let with = |why: &Option<String>| skipped().filter(|c| c.reason == *why).count();
    // Of reasons that are equally frequent, the first case's.
    let most = skipped().rev().max_by_key(|c| with(&c.reason))?;
    let why = most.reason.as_deref().unwrap_or("no reason was stored");
    let others = if with(&most.reason) < skipped().count() {
        "; others for other reasons"
    } else {
        ""
    };
    Some(format!(
        "{}: {} of {} skipped: {}{others}.",
        experiment.id,
        skipped().count(),
        counted(cases.len(), "case"),
        why.trim_end_matches('.'),
    ))
}

/// The reasons why cases have no figures, the most frequent first, each once.
pub(crate) fn reasons(experiment: &ExperimentResult) -> Vec<(String, usize)> {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for case in experiment.cases.iter().filter(|c| c.status != Status::Ok) {
        *counted
            .entry(case.reason.as_deref().unwrap_or("no reason was stored"))
            .or_default() += 1;
    }
    let mut reasons: Vec<_> = counted.into_iter().map(|(r, n)| (r.to_owned(), n)).collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_figure_rests_on_is_told_behind_it() {
        let noise = |disturbed, recreated: Option<&str>| {
            noise(&Finding {
                disturbed,
                recreated: recreated.map(str::to_owned),
                ..Finding::fact(String::new(), None, None, "")
            })
        };
        assert_eq!(noise(false, None), "");
        assert_eq!(noise(true, None), " in disturbed rounds");
        assert_eq!(
            noise(false, Some("the old kernel")),
            ", re-created on this kernel"
        );
        assert!(noise(true, Some("it")).starts_with(" in disturbed rounds, re-created"));
    }

    #[test]
    fn a_reason_is_told_unless_the_interval_refutes_the_claim_by_itself() {
        let claims = threadgauge_results::claims();
        let claim = claims
            .iter()
            .find(|claim| claim.holds_min.is_some() && claim.holds_max.is_some())
            .unwrap();
        let range = claim.range();
        let why = |ci95, verdict| {
            let finding = Finding {
                verdict: Some(verdict),
                reason: Some("it never ended".to_owned()),
                ..Finding::fact(String::new(), None, Some(ci95), "")
            };
            why(claim, &finding).map(str::to_owned)
        };
        let reason = Some("it never ended".to_owned());
        let (below, above) = (range.min - 1.0, range.max + 1.0);
        for within in [[below, range.min], [range.max, above], [range.min, range.max]] {
            assert_eq!(why(within, Verdict::DoesNotHold), reason, "{within:?}");
            assert_eq!(why(within, Verdict::Holds), None);
        }
        for beyond in [[below - 1.0, below], [above, above + 1.0]] {
            assert_eq!(why(beyond, Verdict::DoesNotHold), None, "{beyond:?}");
        }
    }
}
