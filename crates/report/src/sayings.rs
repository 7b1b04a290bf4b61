//! The sayings a report begins with: at most five published claims that this run decided, the most surprising first;
//! and how the figure of a saying is told.
//!
//! The rule, for every kind of report. A saying is shown where its figure alone decides it. What does not hold comes
//! before what holds, then a source's core before what it says besides, the sources before this project's own targets,
//! then by surprise: how many times the nearer end of the figure's interval is beyond (or, of what holds, within) the
//! nearest bound of the rule. Of a source's experiment one comes before any second.

use std::collections::BTreeSet;

use threadgauge_results::published::named;
use threadgauge_results::units::{Scale, capitalised, counted, of_cpus};
use threadgauge_results::{Claim, ExperimentResult, Finding, Results, Verdict, rule};

use crate::words;

/// How many are shown.
const MOST: usize = 5;

/// A saying, tested here.
pub(crate) struct Saying<'a> {
    /// In a person's words, who said it, and its rule.
    pub claim: &'static Claim,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What was found.
    pub finding: &'a Finding,
}

/// From so many characters on a saying is told in a few words.
const LONG: usize = 75;

impl Saying<'_> {
    /// In a person's words; in fewer where those are long. All of them stand with the claim.
    pub fn words(&self) -> String {
        if self.claim.claim.chars().count() < LONG {
            self.claim.claim.clone()
        } else {
            format!("{}.", capitalised(&self.claim.short))
        }
    }
}

/// The figure that decides a saying, in the unit of the saying.
pub(crate) struct Told {
    /// The figure with its unit: `1.02 ×`, `61 %`.
    pub figure: String,
    /// Its interval in the same unit, in brackets; empty where there is none.
    pub interval: String,
    /// What it is of, or what is divided by what.
    pub of: String,
    /// What the rule asks for.
    pub rule: String,
}

/// What a report begins with: the sayings and, where there are fewer than there is room for, experiments with what they
/// answer.
pub(crate) struct Cards<'a> {
    pub sayings: Vec<Saying<'a>>,
    pub answers: Vec<&'a ExperimentResult>,
}

impl<'a> Cards<'a> {
    /// Those of a run.
    pub fn of(results: &'a Results) -> Self {
        let sayings = tested(results);
        let answered = results.experiments.iter().filter(|e| !e.answer.is_empty());
        let answers = answered.take(MOST - sayings.len()).collect();
        Self { sayings, answers }
    }

    /// What stands above them.
    pub fn title(&self) -> String {
        const COUNTED: [&str; MOST + 1] = [
            "",
            "One saying",
            "Two sayings",
            "Three sayings",
            "Four sayings",
            "Five sayings",
        ];
        match (COUNTED[self.sayings.len()], self.answers.len()) {
            ("", _) => "What this run answers".to_owned(),
            (sayings, 0) => format!("{sayings}, tested here"),
            (sayings, _) => format!("{sayings}, tested here, and what this run answers"),
        }
    }
}

/// Those of a run, five at most.
fn tested(results: &Results) -> Vec<Saying<'_>> {
    let mut sayings = all(results);
    sayings.truncate(MOST);
    sayings
}

/// All that a run decided by their figure alone, in the order of the [rule](self).
pub(crate) fn all(results: &Results) -> Vec<Saying<'_>> {
    let decided = words::decided(results).into_iter();
    let mut sayings: Vec<Saying<'_>> = decided
        .filter(|(claim, _, finding)| finding.measured.is_some() && words::why(claim, finding).is_none())
        .map(|(claim, verdict, finding)| Saying {
            claim,
            verdict,
            finding,
        })
        .collect();
    sayings.sort_by(|a, b| {
        let place = |of: &Saying<'_>| {
            let holds = of.verdict == Verdict::Holds;
            (holds, of.claim.tier != "core", of.claim.source == "own")
        };
        let further = surprise(b.claim, b.finding).total_cmp(&surprise(a.claim, a.finding));
        place(a).cmp(&place(b)).then(further)
    });
    let mut seen = BTreeSet::new();
    let (mut first, more): (Vec<_>, Vec<_>) =
        (sayings.into_iter()).partition(|of| seen.insert((&of.claim.source, &of.claim.decided_by)));
    first.extend(more);
    first
}

/// Who said it, and when.
pub(crate) fn who(claim: &Claim) -> String {
    named(&claim.source)
}

/// How far the figure is from the rule's nearest bound, as the logarithm of how many times. What is told in per cent is
/// counted with the whole: 60 % more is 1.6 times.
fn surprise(claim: &Claim, finding: &Finding) -> f64 {
    let Some(value) = finding.measured else { return 0.0 };
    let whole = if is_part(&claim.unit) { 1.0 } else { 0.0 };
    let [low, high] = finding.ci95.unwrap_or([value; 2]);
    let bounds = [claim.holds_min, claim.holds_max].into_iter().flatten();
    let times = |end: f64, bound: f64| {
        let [end, bound] = [end + whole, bound + whole].map(|v| v.max(1e-3));
        (end / bound).ln().abs()
    };
    let nearest = bounds.map(|bound| times(low, bound).min(times(high, bound)));
    nearest.reduce(f64::min).unwrap_or(0.0)
}

/// Whether a figure in this unit is a part of a whole, or what is more than a whole.
fn is_part(unit: &str) -> bool {
    Scale::of(unit, 1.0).name == "%"
}

/// Whether a ratio is told as per cent more or less, since the saying is.
fn is_said_in_percent(claim: &Claim) -> bool {
    let near_one = |bound: Option<f64>| bound.is_none_or(|bound| (0.5..=2.0).contains(&bound));
    claim.unit == "ratio"
        && claim.claim.contains(" %")
        && near_one(claim.holds_min)
        && near_one(claim.holds_max)
}

/// A number that stands for itself, with its unit, and its interval; empty where there is none.
pub(crate) fn in_unit(unit: &str, value: f64, ci95: Option<[f64; 2]>) -> (String, String) {
    let scale = Scale::of(unit, value);
    let number = scale.number_beside(value, ci95);
    let name = match (unit, scale.name) {
        ("ratio", _) => "×",
        // Numbers without a unit, which what they are of names already.
        ("Kendall tau" | "log-log slope", _) => "",
        (_, name) => name,
    };
    let interval = ci95.map_or_else(String::new, |ends| scale.interval(value, ends));
    // Of what is the same in every round there is nothing to bracket.
    let interval = if interval == format!("[{number}, {number}]") {
        String::new()
    } else {
        interval
    };
    (format!("{number} {name}").trim_end().to_owned(), interval)
}

/// What a claim's figure is of, and what its rule is said of; where each of several cells has to keep the rule, the one
/// that decided, and all of them.
fn of_what(claim: &Claim, finding: &Finding) -> (String, String) {
    let divided = claim.measures().replace(" / ", " ÷ ");
    let decided_by = || {
        // Where the claim is open, the figure may be another cell's.
        let is_refuted = finding.verdict == Some(Verdict::DoesNotHold);
        let (cell, _) = finding.reason.as_ref().filter(|_| is_refuted)?.split_once(": ")?;
        let (before, each) = divided.split_once(", each ")?;
        let settings: Option<Vec<(&str, &str)>> = cell.split(',').map(|part| part.split_once('=')).collect();
        let settings = settings.filter(|_| !each.contains('÷'))?;
        let settings: Vec<String> = settings.into_iter().filter_map(setting).collect();
        Some((
            format!("{before}: here {}", settings.join(", ")),
            format!(" at each {each}"),
        ))
    };
    decided_by().unwrap_or((divided, String::new()))
}

/// A setting of a cell in words; none of one that its saying has said.
fn setting((name, value): (&str, &str)) -> Option<String> {
    let so_many = |noun: &str| Some(counted(value.parse().ok()?, noun));
    Some(match name {
        "ring" => format!("{value} in the ring"),
        "kib" => format!("a working set of {value} KiB"),
        "base_ms" => format!("{value} ms"),
        "count" => so_many("computation")?,
        "prints" => so_many("line")?,
        "bytes" => so_many("byte")?,
        "cpus" => of_cpus(value.parse().ok()?),
        "connections" => so_many("connection")?,
        "design" | "method" | "means" | "order" | "kind" => value.to_owned(),
        _ => return None,
    })
}

/// The figure of a finding on `claim`, and its rule, in the unit of the saying; none without a figure.
pub(crate) fn told(claim: &Claim, finding: &Finding) -> Option<Told> {
    let value = finding.measured?;
    let (divided, of_all) = of_what(claim, finding);
    if is_said_in_percent(claim) {
        let more = |v: f64| v - 1.0;
        let scale = Scale::of("share", 1.0);
        // −6 % more is 6 % less.
        let is_less = more(value) < 0.0;
        let part = |v: f64| if is_less { 1.0 - v } else { v - 1.0 };
        let ci95 = finding
            .ci95
            .map(|[low, high]| if is_less { [high, low] } else { [low, high] }.map(part));
        let range = claim.range();
        let bound = |v: f64| Scale::bounds("share", &[(more(v) * 1e6).round() / 1e6]);
        let rule = match (range.min.is_finite(), range.max.is_finite()) {
            (true, true) => format!("{} to {} more", bound(range.min), bound(range.max)),
            (true, false) => format!("at least {} more", bound(range.min)),
            _ => format!("at most {} more", bound(range.max)),
        };
        return Some(Told {
            figure: format!(
                "{} % {}",
                scale.number_beside(part(value), ci95),
                if is_less { "less" } else { "more" }
            ),
            interval: ci95.map_or_else(String::new, |ends| scale.interval(part(value), ends)),
            // 25 % more, of these than of those.
            of: divided.replacen(" ÷ ", " than ", 1),
            rule: rule + &of_all,
        });
    }
    let unit = if finding.unit.is_empty() {
        &claim.unit
    } else {
        &finding.unit
    };
    let (figure, interval) = in_unit(unit, value, finding.ci95);
    Some(Told {
        figure,
        interval,
        of: divided,
        rule: rule(claim) + &of_all,
    })
}

impl Told {
    /// In a line: the figure and its interval.
    pub fn line(&self) -> String {
        format!("{} {}", self.figure, self.interval).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_results::claims;

    use super::*;

    fn said_of(is_meant: impl Fn(&Claim) -> bool, measured: f64, ci95: [f64; 2]) -> [String; 3] {
        let claim = claims().iter().find(|claim| is_meant(claim)).unwrap();
        let finding = Finding::fact(String::new(), Some(measured), Some(ci95), &claim.unit);
        let told = told(claim, &finding).unwrap();
        [told.figure, told.interval, told.of]
    }

    #[test]
    fn less_is_said_of_a_saying_in_percent_that_went_the_other_way() {
        const OF: &str =
            "elapsed time concurrent than serial, 10 ms CPU-bound on one CPU, geometric mean over n";
        let said = |measured, ci95| said_of(is_said_in_percent, measured, ci95);
        assert_eq!(said(1.25, [1.2, 1.31]), ["25.0 % more", "[20.0, 31.0]", OF]);
        assert_eq!(said(0.94, [0.9, 1.02]), ["6.00 % less", "[−2.00, 10.00]", OF]);
        assert_eq!(said(1.0, [0.9, 1.1])[0], "0.0 % more");
    }

    #[test]
    fn what_no_round_changes_has_no_brackets() {
        assert_eq!(
            in_unit("share", 1.0, Some([1.0; 2])),
            ("100 %".to_owned(), String::new())
        );
        assert_eq!(in_unit("share", 1.0, Some([0.5, 1.0])).1, "[50, 100]");
    }

    #[test]
    fn a_number_without_a_unit_is_named_once() {
        let tau = |claim: &Claim| claim.unit == "Kendall tau";
        assert_eq!(said_of(tau, 0.255, [0.09, 0.35])[0], "0.255");
    }
}
