//! How much of each experiment is open as the page opens, so that the whole stays short enough to scroll through.
//!
//! Heights are estimates in pixels at a width of 1400; a test in a browser holds the page to its bound.

use threadgauge_results::{ExperimentResult, Results};

use super::experiment::Opening;
use crate::by_kind::ByKind;
use crate::chart;
use crate::lead::Lead;

/// The whole page.
const PAGE: f64 = 11_500.0;
/// The first screen, the folds of findings and costs, the machine and the foot.
const FIXED: f64 = 1_900.0;
/// A section's name, question, answer and folds.
const TEXT: f64 = 620.0;
/// A section's charts: with its text at most three screens.
const CHARTS: f64 = 2_100.0;
/// How many charts a section opens with at the most.
const MOST: usize = 2;
/// A row of the table of threads and processes; an aspect, of which two stand side by side, with what the source says;
/// a claim below it.
const ROW: f64 = 55.0;
const ASPECT: f64 = 60.0;
const CLAIM: f64 = 35.0;
/// A section of one line.
const LINE: f64 = 100.0;

/// How each experiment opens.
pub(super) fn openings(results: &Results) -> Vec<Opening> {
    let lead = Lead::of(results);
    let mut left = PAGE
        - FIXED
        - ByKind::of(results).map_or(0.0, |units| height(&units))
        - LINE * results.experiments.len() as f64;
    let opening = |e: &ExperimentResult| {
        let (charts, height) = charts(e);
        let height = TEXT - LINE + height;
        if height > left {
            return Opening::Line;
        }
        left -= height;
        match lead {
            Lead::CostsAndClaims => Opening::Charts(charts),
            Lead::Answers => Opening::Tables(charts),
        }
    };
    results.experiments.iter().map(opening).collect()
}

/// The section of threads and processes: its chart, a row of the table for each cost, a few lines for each claim.
fn height(units: &ByKind<'_>) -> f64 {
    let chart = units.chart().map_or(0.0, |figure| chart::height(&figure));
    let rows = units
        .parts
        .iter()
        .map(|part| part.split().0.len().max(1))
        .sum::<usize>();
    let claims = units.aspects.iter().map(|of| of.claims.len()).sum::<usize>();
    TEXT + chart + rows as f64 * ROW + units.aspects.len() as f64 * ASPECT + claims as f64 * CLAIM
}

/// How many charts fit, and their height.
fn charts(e: &ExperimentResult) -> (usize, f64) {
    let heights = e.figures.iter().take(MOST).map(chart::height);
    let mut sums = heights.scan(0.0, |sum, height| {
        *sum += height;
        Some(*sum)
    });
    let mut fitting = (0, 0.0);
    while let Some(sum) = sums.next().filter(|sum| *sum <= CHARTS) {
        fitting = (fitting.0 + 1, sum);
    }
    fitting
}
