//! Two runs compared: what changed, by how much, how sure.

use threadgauge_results::ComparisonResult;

use crate::Style;

/// Two runs, compared case by case.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareReport {
    /// What to call the first run, e.g. its folder.
    pub a_name: String,
    /// What to call the second.
    pub b_name: String,
    /// Other machine, other kernel, other version: why the figures may not be comparable.
    pub warnings: Vec<String>,
    /// One row a case and metric; `ratio` is second over first.
    pub rows: Vec<ComparisonResult>,
}

/// How many rows have which verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The second run is faster.
    pub faster: usize,
    /// The second run is slower.
    pub slower: usize,
    /// Equal within 3 %.
    pub same: usize,
    /// Different, but by less than what counts.
    pub small: usize,
    /// Undecided, or a verdict this version does not know.
    pub unknown: usize,
}

impl CompareReport {
    /// Rows by verdict.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// The comparison for a terminal: warnings, then the rows that differ, then counts.
#[must_use]
pub fn comparison_text(_report: &CompareReport, _style: &Style) -> String {
    String::new()
}

/// The comparison as Markdown: every row.
#[must_use]
pub fn comparison_markdown(_report: &CompareReport) -> String {
    String::new()
}

/// The comparison as JSON: `a`, `b`, `warnings`, `counts`, `rows`.
#[must_use]
pub fn comparison_json(_report: &CompareReport) -> String {
    String::new()
}
