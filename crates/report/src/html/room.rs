//! How much of each experiment is open as the page opens, so that the whole stays short enough to scroll through.
//!
//! Heights are estimates in pixels at a width of 1400; a test in a browser holds the page to its bound.

use threadgauge_results::{ExperimentResult, Results};

use super::experiment::Opening;
use crate::chart;
use crate::costs::ByKind;

/// The whole page.
const PAGE: f64 = 14_300.0;
/// The first screen, with many claims decided, the machine and the foot.
const FIXED: f64 = 2_600.0;
/// A section's name, question, answer and folds.
const TEXT: f64 = 620.0;
/// A section's charts: with its text at most three screens.
const CHARTS: f64 = 2_100.0;
/// How many charts a section opens with at the most.
const MOST: usize = 2;
/// A section of one line.
const LINE: f64 = 100.0;

/// How each experiment opens.
pub(super) fn openings(results: &Results) -> Vec<Opening> {
    let units = ByKind::of(results)
        .chart()
        .map_or(0.0, |f| chart::height(&f) + 200.0);
    let mut left = PAGE - FIXED - units - LINE * results.experiments.len() as f64;
    let opening = |e: &ExperimentResult| {
        let (charts, height) = charts(e);
        let height = TEXT - LINE + height;
        if height > left {
            return Opening::Line;
        }
        left -= height;
        Opening::Charts(charts)
    };
    results.experiments.iter().map(opening).collect()
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
