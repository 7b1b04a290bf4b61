//! The report as Markdown.

use threadgauge_results::Results;

/// The report as Markdown, in the order of the page.
#[must_use]
pub fn markdown(_results: &Results) -> String {
    String::new()
}
