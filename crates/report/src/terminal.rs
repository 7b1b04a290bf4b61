//! What a terminal shows.

use threadgauge_results::{ExperimentResult, Results};

/// How wide the terminal is and whether it shows colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns; anything below 20 is taken as 20.
    pub width: usize,
    /// Whether to write ANSI sequences.
    pub colour: bool,
}

impl Default for Style {
    /// 80 columns without colour: what a pipe gets.
    fn default() -> Self {
        Self {
            width: 80,
            colour: false,
        }
    }
}

/// One claim, as `threadgauge claims` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRow {
    /// The claim's id.
    pub id: String,
    /// The document that makes it, e.g. `003`.
    pub source: String,
    /// In its words.
    pub claim: String,
    /// A verdict as in `results.json` (`holds`, …), or `planned`, or `not run`.
    pub state: String,
    /// Our figure, as text.
    pub measured: Option<String>,
    /// The source's figure, as text.
    pub published: Option<String>,
    /// Why it is inconclusive, not testable or not run.
    pub reason: Option<String>,
}

/// One experiment: question, answer, table of cases, findings.
#[must_use]
pub fn terminal(_experiment: &ExperimentResult, _style: &Style) -> String {
    String::new()
}

/// The whole run in a screen: warnings first, then the findings in plain words.
#[must_use]
pub fn terminal_summary(_results: &Results, _style: &Style) -> String {
    String::new()
}

/// Every claim and what this machine says of it.
#[must_use]
pub fn claims_table(_rows: &[ClaimRow], _style: &Style) -> String {
    String::new()
}
