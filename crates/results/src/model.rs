//! The results document: everything a report may say, in the shape of `results.json` (schema 1).
//!
//! Owns the contract with whoever reads our results. It is plain data: computing it is the
//! laboratory's work, drawing it the report's. Fields may be added, never removed or renamed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use threadgauge_stats::{Separation, Summary};

use crate::{Act, Disturbed, Params};

/// The version of this contract.
pub const SCHEMA: u32 = 1;

/// One run, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// How the run was started.
    pub run: Run,
    /// The fingerprint of the machine; what could not be read is null, with its reason under `unknown`.
    pub machine: serde_json::Value,
    /// What the reader must know before believing any figure (a noisy machine, an interrupted run).
    pub warnings: Vec<String>,
    /// Whether it can be trusted: [`Trust::of`] this document.
    #[serde(default)]
    pub trust: Trust,
    /// The experiments in catalogue order.
    pub experiments: Vec<ExperimentResult>,
    /// Tables over several experiments, in the layout of a source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// The ids of all experiments that this version has, run or not. It is no part of the stored document, which says
    /// what was run and does not change when an experiment is added.
    #[serde(skip)]
    pub catalogue: Vec<String>,
}

impl Results {
    /// How many cases failed, in some rounds or in all.
    #[must_use]
    pub fn failed_cases(&self) -> usize {
        let cases = self.experiments.iter().flat_map(|e| &e.cases);
        let failed = |c: &&CaseResult| {
            c.status == Status::Failed || c.tags.iter().any(|tag| tag == SOME_ROUNDS_FAILED)
        };
        cases.filter(failed).count()
    }
}

/// How a run was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Unique, and the end of the default folder's name.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// `quick`, `standard` or `paper`.
    pub profile: String,
    /// The seed of every shuffle.
    pub seed: u64,
    /// The version of the program.
    pub version: String,
    /// The most rounds any experiment finished.
    pub rounds: u32,
    /// Whether every planned round was measured (or a stopping rule ended it).
    pub complete: bool,
    /// Seconds spent measuring, all sessions of the run together.
    pub measured_s: f64,
    /// The command line's choices that change what is measured: `--only`, `--set`, `--cpus`, `--rounds`.
    pub options: Vec<String>,
    /// The id of the run with which it took turns, try by try; null for a run by itself.
    #[serde(default)]
    pub in_turns_with: Option<String>,
}

/// How far a run can be trusted, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Trust {
    /// How far.
    pub answer: Trusted,
    /// Why, in a sentence.
    pub says: String,
}

/// How far a run can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trusted {
    /// Controls agree, every planned round is there, nothing failed, no experiment is too noisy, and nothing is warned
    /// of.
    Yes,
    /// Some of it is in doubt; the sentence says what.
    #[default]
    InPart,
    /// There are controls and none of them agrees (one of too few rounds does not). That samples were disturbed is no
    /// reason by itself: what is decided from them is decided by a rule of its own.
    No,
}

impl Trusted {
    /// In a few words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Yes => "Yes",
            Self::InPart => "In part",
            Self::No => "No",
        }
    }
}

/// What one experiment found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    /// The catalogue's name for it.
    pub id: String,
    /// The question it answers.
    pub question: String,
    /// The sources it re-tests, e.g. `"003"`.
    pub sources: Vec<String>,
    /// The answer, from these samples: its first sentence is the answer in short.
    pub answer: String,
    /// The last sentences of the answer, where they say what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// The one number that stands for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<KeyNumber>,
    /// How it measures, and why to believe it.
    pub method: Method,
    /// Rounds finished.
    pub rounds: u32,
    /// Samples discarded and repeated, by the rules set beforehand.
    pub discarded: u32,
    /// `rounds`, `precision`, `time-budget` or `interrupted`.
    pub stopped_because: String,
    /// The metrics whose precision decides when to stop, the first being what comparisons use.
    pub primary_metrics: Vec<String>,
    /// The id of the case that is run twice a round.
    pub reference: Option<String>,
    /// Every planned case, also those that could not run.
    pub cases: Vec<CaseResult>,
    /// Pairs of cases, compared by round.
    pub comparisons: Vec<ComparisonResult>,
    /// Cases in order, with letters for what cannot be told apart.
    pub rankings: Vec<Ranking>,
    /// What the protocol says of its own figures.
    pub diagnostics: Vec<Diagnostic>,
    /// Answers: the verdicts on claims, then facts.
    pub findings: Vec<Finding>,
    /// What to draw.
    pub figures: Vec<Figure>,
    /// Tables in the layout of the source, ours beside theirs.
    pub tables: Vec<Table>,
    /// What things cost here, by this experiment.
    #[serde(default)]
    pub costs: Vec<Cost>,
    /// How many samples were disturbed, and by what.
    #[serde(default)]
    pub disturbed: Disturbed,
}

/// The number that stands for an experiment's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyNumber {
    /// What it is of; of a ratio what is divided by what, e.g. `a process ÷ a thread: made and ended, one CPU`.
    pub of: String,
    /// The number.
    pub value: f64,
    /// Its interval.
    pub ci95: Option<[f64; 2]>,
    /// Of both, e.g. `ratio`.
    pub unit: String,
}

/// What something costs here: a row of the report's list *what things cost here*, of its table *Threads and processes
/// on this machine*, or of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// What is paid for, e.g. `make and end`: costs of the same thing share a row of the table. Its first words say
    /// which [`Act`] it belongs to.
    pub what: String,
    /// The kind of unit that it is paid for, a column of the table: `thread`, `process`, ….
    pub kind: String,
    /// Its name in the list, e.g. `make and end a thread`; null where only the table has it.
    pub name: Option<String>,
    /// How it was measured, in a few words.
    pub how: String,
    /// The figure.
    pub value: f64,
    /// Its interval.
    pub ci95: Option<[f64; 2]>,
    /// Of the figure and its interval, e.g. `ns`.
    pub unit: String,
    /// What a source published, with its machine and date, in words: another machine's figure, shown and not compared.
    pub published: Option<String>,
    /// The same as a figure in `unit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_value: Option<f64>,
}

impl Cost {
    /// Of what is paid for and its kind of unit, and how it was measured: a figure with its interval, in `unit`. It has
    /// no name.
    #[must_use]
    pub fn new(
        (what, kind): (&str, &str),
        how: &str,
        (value, ci95): (f64, Option<[f64; 2]>),
        unit: &str,
    ) -> Self {
        Self {
            what: what.to_owned(),
            kind: kind.to_owned(),
            name: None,
            how: how.to_owned(),
            value,
            ci95,
            unit: unit.to_owned(),
            published: None,
            published_value: None,
        }
    }

    /// What is done with the unit that this is the cost of.
    #[must_use]
    pub fn act(&self) -> Option<Act> {
        Act::of(&self.what)
    }

    /// The same, in the list under this name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..self
        }
    }

    /// The same, with what a source published: the figure in the same unit, and in words with its machine and date.
    #[must_use]
    pub fn published(self, value: f64, says: impl Into<String>) -> Self {
        Self {
            published: Some(says.into()),
            published_value: Some(value),
            ..self
        }
    }
}

/// How an experiment measures, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Method {
    /// What is done and timed.
    pub how: String,
    /// What is run beside it to tell the effect from everything else.
    pub control: String,
    /// What can mislead the reader.
    pub traps: Vec<String>,
    /// What the source did, and where this differs.
    pub source: String,
}

/// One case over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// `experiment/params`.
    pub id: String,
    /// Its point in the grid.
    pub params: Params,
    /// Whether it has figures.
    pub status: Status,
    /// Why not, in words; null when `ok`.
    pub reason: Option<String>,
    /// `cold`, `no-steady-state`, `noisy`, `low-overlap`, ….
    pub tags: Vec<String>,
    /// By metric name; empty where nothing was measured.
    pub summaries: BTreeMap<String, MetricSummary>,
}

/// The tag of a case that has figures from some rounds and failed in others.
pub const SOME_ROUNDS_FAILED: &str = "some-rounds-failed";

/// Whether a case, or one sample of it, has figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Measured.
    Ok,
    /// It was tried and could not run.
    Failed,
    /// It was not tried, because it cannot run here.
    Skipped,
}

/// A metric of a case over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// `ns`, `ratio`, `switches`, ….
    pub unit: String,
    /// Rounds with a value.
    pub n: usize,
    /// The figure to quote.
    pub median: f64,
    /// The exact interval of the median; null below 6 rounds, or 7 at the level that several looks leave.
    pub ci95: Option<[f64; 2]>,
    /// The exact level of `ci95`, e.g. 0.984 for 7 rounds.
    pub ci_level: Option<f64>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Mean without the largest and the smallest, as source 003 does; null below 3 rounds.
    pub trimmed_mean: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Standard deviation over mean; null below 2 rounds or at a mean of 0.
    pub cv: Option<f64>,
}

impl MetricSummary {
    /// A summary in the document's words.
    #[must_use]
    pub fn new(unit: &str, summary: Summary) -> Self {
        Self {
            unit: unit.to_owned(),
            n: summary.n,
            median: summary.median,
            ci95: summary.ci.map(|ci| [ci.low, ci.high]),
            ci_level: summary.ci.map(|ci| ci.level),
            mean: summary.mean,
            trimmed_mean: summary.trimmed_mean,
            min: summary.min,
            max: summary.max,
            cv: summary.cv,
        }
    }
}

/// Two cases of one run, paired by round; or one case of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonResult {
    /// The id of the first case.
    pub a: String,
    /// The id of the second.
    pub b: String,
    /// What is compared.
    pub metric: String,
    /// `b / a`; null where one has no figures.
    pub ratio: Option<f64>,
    /// Interval of the ratio.
    pub ci95: Option<[f64; 2]>,
    /// `faster`, `slower`, `same`, `small` or `unknown`; what `b` is against `a`.
    pub verdict: String,
    /// The rounds that would settle an `unknown`.
    pub rounds_needed: Option<u64>,
    /// Why it is `unknown`, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether disturbed rounds count, since too few others are left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
}

/// Cases in order, best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// What is ranked.
    pub title: String,
    /// By which metric.
    pub metric: String,
    /// What its letters rest on.
    #[serde(default)]
    pub separated: Separated,
    /// Best first.
    pub entries: Vec<RankingEntry>,
}

/// How the entries of a ranking were told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Separated {
    /// Each pair by a test of its own, adjusted for all.
    #[default]
    ByPairs,
    /// All pairs together, since there are too few rounds to adjust each.
    Jointly,
    /// Not at all, for want of rounds: there are no letters, and the intervals are what is known.
    Not,
}

impl From<Separation> for Separated {
    fn from(separation: Separation) -> Self {
        match separation {
            Separation::Pairs => Self::ByPairs,
            Separation::Joint => Self::Jointly,
            Separation::Nothing => Self::Not,
        }
    }
}

/// One line of a ranking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankingEntry {
    /// The case.
    pub case: String,
    /// Entries that share a letter cannot be told apart. Empty where nothing can.
    pub letters: String,
    /// Against the best.
    pub ratio: f64,
    /// Its interval.
    pub ci95: Option<[f64; 2]>,
}

/// What the protocol says of its own figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// `null-control`, `drift`, `autocorrelation`, `modes`, `outliers`, `noise`, `overlap`.
    pub name: String,
    /// In words, with the numbers.
    pub says: String,
    /// Whether the reader should worry.
    pub warning: bool,
}

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval satisfies the rule.
    Holds,
    /// None of it does.
    DoesNotHold,
    /// It was measured and is neither; the reason says what would settle it.
    Inconclusive,
    /// This run has no cells for it; the reason names the command that has.
    NotMeasured,
    /// What it needs is not here; the reason says what.
    NotTestable,
}

impl Verdict {
    /// As `results.json` spells it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does-not-hold",
            Self::Inconclusive => "inconclusive",
            Self::NotMeasured => "not-measured",
            Self::NotTestable => "not-testable",
        }
    }
}

/// An answer: a claim's verdict, or a fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The id of the claim; null for a fact.
    pub claim: Option<String>,
    /// Null for a fact.
    pub verdict: Option<Verdict>,
    /// In plain words, with the numbers.
    pub says: String,
    /// What the source published, as a number where it gave one.
    pub published: Option<f64>,
    /// The same, as the source says it.
    pub published_text: Option<String>,
    /// Ours.
    pub measured: Option<f64>,
    /// Its interval.
    pub ci95: Option<[f64; 2]>,
    /// Of `published`, `measured` and `ci95`.
    pub unit: String,
    /// Why it is inconclusive, not measured or not testable.
    pub reason: Option<String>,
    /// Disturbed rounds count in it, since too few were free of other load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
    /// Where it was decided on something that no longer exists and was written again from its description: what that
    /// cannot show. A verdict on it is of a kind of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recreated: Option<String>,
}

impl Finding {
    /// A fact: an answer that no claim asked for.
    #[must_use]
    pub fn fact(says: String, measured: Option<f64>, ci95: Option<[f64; 2]>, unit: &str) -> Self {
        Self {
            claim: None,
            verdict: None,
            says,
            published: None,
            published_text: None,
            measured,
            ci95,
            unit: unit.to_owned(),
            reason: None,
            disturbed: false,
            recreated: None,
        }
    }
}

/// A chart, as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Unique within the experiment; also the anchor in the page.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// One sentence that says what to see, and the source's own caveat where its figures do not add up.
    pub note: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Lines with intervals, ours and published.
    pub series: Vec<Series>,
}

/// An axis of a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// With the unit, e.g. `threads`, `time per unit, µs`.
    pub label: String,
    /// How values are placed.
    pub scale: Scale,
}

/// How an axis places values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By logarithm; values are positive.
    Log,
    /// By name: [`Point::x`] counts from 0 and [`Point::label`] names it.
    Category,
}

/// A line of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The legend's text.
    pub name: String,
    /// Whether it is ours or the source's.
    pub origin: Origin,
    /// In order of `x`.
    pub points: Vec<Point>,
}

/// Whose figures these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Measured in this run.
    Measured,
    /// From a source.
    Published,
    /// From theory.
    Ideal,
}

/// A point of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where on the horizontal axis.
    pub x: f64,
    /// The name on a category axis.
    pub label: Option<String>,
    /// The figure.
    pub y: f64,
    /// Its interval.
    pub ci95: Option<[f64; 2]>,
}

/// The [id](Table::id) of the table of what a unit costs by runtime, and of the chart of the same.
pub const BY_RUNTIME: &str = "by-runtime";

/// A table in the layout of a source, ours beside theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Unique within the experiment, or the run.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Caveats, e.g. where a published mean does not follow from its own runs.
    pub note: String,
    /// Column heads, with units.
    pub columns: Vec<String>,
    /// Cells as text; empty where there is nothing.
    pub rows: Vec<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_is_said_to_be_told_apart_as_it_was() {
        use Separation::{Joint, Nothing, Pairs};
        let said = [Pairs, Joint, Nothing].map(Separated::from);
        assert_eq!(said, [Separated::ByPairs, Separated::Jointly, Separated::Not]);
    }

    #[test]
    fn a_verdict_is_spelt_as_in_the_document() {
        for (verdict, key) in [
            (Verdict::Holds, "holds"),
            (Verdict::DoesNotHold, "does-not-hold"),
            (Verdict::Inconclusive, "inconclusive"),
            (Verdict::NotMeasured, "not-measured"),
            (Verdict::NotTestable, "not-testable"),
        ] {
            assert_eq!(verdict.key(), key);
            assert_eq!(serde_json::to_value(verdict).unwrap(), key);
        }
        let words = [Trusted::Yes, Trusted::InPart, Trusted::No].map(Trusted::word);
        assert_eq!(words, ["Yes", "In part", "No"]);
    }

    #[test]
    fn a_cost_has_the_name_and_the_published_figure_that_it_is_given() {
        let cost = Cost::new(("switch", "thread"), "two in turn", (1.5, None), "us");
        assert_eq!(cost.act(), Some(Act::Switch));
        assert_eq!((cost.name.as_deref(), cost.published_value), (None, None));
        let cost = cost.named("pthread").published(2.0, "2 µs, 1999");
        assert_eq!(cost.name.as_deref(), Some("pthread"));
        assert_eq!(cost.published_value, Some(2.0));
        assert_eq!(cost.published.as_deref(), Some("2 µs, 1999"));
    }
}
