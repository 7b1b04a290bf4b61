//! Several cells judged at once: do they together lie beyond an edge?
//!
//! Of twenty cells on an edge the worst lies beyond it by chance. Holm's adjustment keeps the error, but at 20 cells
//! it needs 10 rounds to find anything. The maximum over cells, compared with itself under flipped signs, needs 7,
//! and does not pay twice for cells that move together.
//!
//! Source: Westfall & Young, *Resampling-Based Multiple Testing* (1993), for the maximum; Romano, *JASA* 85 (1990),
//! for flipped signs of studentised means.

use std::collections::{BTreeMap, BTreeSet};

/// With fewer rounds no share of flips is small enough for one of three looks.
const FEWEST_ROUNDS: usize = 7;
/// Up to this many rounds all 2ⁿ flips are taken; above, [`DRAWN`] of them, from a fixed seed.
const ALL_UP_TO: usize = 14;
/// How many flips are taken of more than 2¹⁴, the one that changes nothing included.
const DRAWN: usize = 10_000;
const SEED: u64 = 2;
/// Below this mean skewness the noise has its tail on the inner side of the edge, and flipping it is no model of it.
const LEAST_SKEWNESS: f64 = -0.3;

/// The p value (one-sided, no unit) of "no cell lies beyond the edge".
///
/// Each cell is its distance beyond the edge by round, above 0 beyond it, on a scale on which its noise is about
/// symmetric. A cell whose mean is inside is moved to the edge. The statistic is the largest studentised mean; the p
/// value is the share of sign flips of whole rounds under which it is at least as large. So cells may depend on each
/// other in any way and differ in noise. Up to 14 rounds all flips are taken, above 10,000 of them, always the same.
///
/// `None` where this cannot be said: no cell, a cell of fewer than 7 rounds, a value that is not finite, or noise with
/// a tail on the inner side (mean skewness of the cells below −0.3), under which this test errs too often: then only
/// cells count whose every round lies farther beyond the edge than its rounds lie apart, and where there is none
/// [`holm`] remains.
///
/// ```
/// use std::collections::BTreeMap;
/// use threadgauge_stats::jointly_beyond;
///
/// let by_round = |values: [f64; 7]| -> BTreeMap<u32, f64> { (1..).zip(values).collect() };
/// let inside = by_round([-0.9, -1.1, -1.0, -0.8, -1.2, -1.0, -1.0]);
/// let beyond = by_round([0.9, 1.1, 1.0, 0.8, 1.2, 1.0, 1.0]);
/// assert_eq!(jointly_beyond(&[inside.clone(), beyond]), Some(1.0 / 128.0)); // only as it came
/// assert_eq!(jointly_beyond(&[inside]), Some(1.0));
/// ```
///
/// [`holm`]: crate::holm
#[must_use]
pub fn jointly_beyond(cells: &[BTreeMap<u32, f64>]) -> Option<f64> {
    let told =
        |cell: &BTreeMap<u32, f64>| cell.len() >= FEWEST_ROUNDS && cell.values().all(|v| v.is_finite());
    if cells.is_empty() || !cells.iter().all(told) {
        return None;
    }
    let skewness = cells.iter().map(skewness).sum::<f64>() / cells.len() as f64;
    let leaning = skewness < LEAST_SKEWNESS;
    if leaning && !cells.iter().any(stands_off) {
        return None;
    }
    let counts = |cell: &BTreeMap<u32, f64>| mean(cell) > 0.0 && (!leaning || stands_off(cell));
    let scaled: Vec<_> = cells.iter().map(at_least_at_the_edge).collect();
    let sums = cells.iter().zip(&scaled).filter(|(cell, _)| counts(cell));
    let largest = sums
        .map(|(_, scaled)| scaled.values().sum::<f64>())
        .max_by(f64::total_cmp);
    Some(largest.map_or(1.0, |largest| share_of_flips(&scaled, largest)))
}

/// Whether every round lies farther beyond the edge than the rounds lie apart: no tail that went unseen explains that.
fn stands_off(cell: &BTreeMap<u32, f64>) -> bool {
    let nearest = cell.values().copied().fold(f64::INFINITY, f64::min);
    let farthest = cell.values().copied().fold(f64::NEG_INFINITY, f64::max);
    nearest > farthest - nearest
}

fn mean(cell: &BTreeMap<u32, f64>) -> f64 {
    cell.values().sum::<f64>() / cell.len() as f64
}

/// The third moment over the standard deviation's cube; 0 where all values are one.
fn skewness(cell: &BTreeMap<u32, f64>) -> f64 {
    let (mean, n) = (mean(cell), cell.len() as f64);
    let moment = |power| cell.values().map(|v| (v - mean).powi(power)).sum::<f64>() / n;
    let spread = moment(2).powf(1.5);
    if spread > 0.0 { moment(3) / spread } else { 0.0 }
}

/// The cell, moved to the edge if it is inside, over the root of its sum of squares. No flip changes that sum, and with
/// it the sum of the values orders flips as Student's t does.
fn at_least_at_the_edge(cell: &BTreeMap<u32, f64>) -> BTreeMap<u32, f64> {
    let inside = mean(cell).min(0.0);
    let size = cell.values().map(|v| (v - inside).powi(2)).sum::<f64>().sqrt();
    let size = if size > 0.0 { size } else { 1.0 };
    let scaled = |(round, v): (&u32, &f64)| (*round, (v - inside) / size);
    cell.iter().map(scaled).collect()
}

/// Under which share of flips some cell's sum is at least `largest`.
fn share_of_flips(cells: &[BTreeMap<u32, f64>], largest: f64) -> f64 {
    let rounds: BTreeSet<u32> = cells.iter().flat_map(BTreeMap::keys).copied().collect();
    let by_round: Vec<Vec<f64>> = rounds
        .iter()
        .map(|round| {
            cells
                .iter()
                .map(|cell| cell.get(round).copied().unwrap_or(0.0))
                .collect()
        })
        .collect();
    let mut sums: Vec<f64> = cells.iter().map(|cell| cell.values().sum()).collect();
    let mut signs = vec![1.0; by_round.len()];
    let mut flip = |round: usize| {
        signs[round] = -signs[round];
        for (sum, value) in sums.iter_mut().zip(&by_round[round]) {
            *sum += 2.0 * signs[round] * value;
        }
        // Sums of roots are off by some ulps.
        sums.iter().any(|sum| *sum >= largest - 1e-9)
    };
    if by_round.len() <= ALL_UP_TO {
        // In Gray's order each flip differs from the one before in one round.
        let flips = 1_usize << by_round.len();
        let as_large = (1..flips).filter(|i| flip(i.trailing_zeros() as usize)).count();
        return (as_large + 1) as f64 / flips as f64;
    }
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut drawn = || {
        (0..by_round.len())
            .filter(|_| rng.bool())
            .fold(false, |_, round| flip(round))
    };
    let as_large = (1..DRAWN).filter(|_| drawn()).count();
    (as_large + 1) as f64 / DRAWN as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: &[f64]) -> BTreeMap<u32, f64> {
        (1..).zip(values.iter().copied()).collect()
    }

    const BEYOND: [f64; 7] = [0.9, 1.1, 1.0, 0.8, 1.2, 1.0, 1.0];

    #[test]
    fn many_cells_can_be_judged_by_seven_rounds() {
        let mut cells: Vec<_> = (0..24)
            .map(|i| cell(&BEYOND.map(|v| 0.1 * (v - 1.0) - f64::from(i))))
            .collect();
        cells.push(cell(&BEYOND));
        assert_eq!(jointly_beyond(&cells), Some(1.0 / 128.0));
    }

    #[test]
    fn a_cell_inside_lends_no_certainty_but_adds_its_noise() {
        let doubtful = cell(&[1.0, 1.9, 0.1, 1.4, -0.2, 0.9, 0.7]);
        let alone = jointly_beyond(std::slice::from_ref(&doubtful)).unwrap();
        let far_inside = [3.0, -2.0, 1.0, -1.0, 2.0, -3.0, 0.5].map(|v| v - 100.0);
        let both = jointly_beyond(&[doubtful, cell(&far_inside)]).unwrap();
        assert!(alone < both && both < 0.2, "{alone} {both}");
    }

    #[test]
    fn a_round_that_one_cell_lacks_is_flipped_in_the_others() {
        let mut lacking = cell(&[BEYOND, BEYOND].concat()[..8]);
        lacking.remove(&3);
        // Its third round may have either sign.
        let whole = cell(&[-1.0, 2.0, -4.0, 3.0, -1.0, 1.0, -1.0, 1.0]);
        assert_eq!(jointly_beyond(&[lacking, whole]), Some(2.0 / 256.0));
    }

    #[test]
    fn what_cannot_be_said_is_not_said() {
        assert_eq!(jointly_beyond(&[]), None);
        assert_eq!(jointly_beyond(&[cell(&BEYOND[..6])]), None);
        assert_eq!(jointly_beyond(&[cell(&[f64::NAN; 7])]), None);
        let leaning = [0.3, 0.31, 0.32, 0.3, 0.31, 0.33, -2.0];
        assert_eq!(jointly_beyond(&[cell(&leaning)]), None);
        assert!(jointly_beyond(&[cell(&leaning.map(|v| -v))]).is_some());
        assert_eq!(
            jointly_beyond(&[cell(&leaning.map(|v| v + 5.0))]),
            Some(1.0 / 128.0)
        );
    }

    #[test]
    fn constant_cells_are_certain_or_on_the_edge() {
        assert_eq!(jointly_beyond(&[cell(&[1.0; 7])]), Some(1.0 / 128.0));
        assert_eq!(jointly_beyond(&[cell(&[0.0; 7])]), Some(1.0));
    }

    #[test]
    fn of_many_rounds_a_sample_of_flips_says_the_same() {
        let mut rng = fastrand::Rng::with_seed(3);
        let values: Vec<f64> = (0..14).map(|_| rng.f64() - 0.4).collect();
        let all = jointly_beyond(&[cell(&values)]).unwrap();
        // A fifteenth round that is always 0 changes no sum.
        let drawn = jointly_beyond(&[cell(&[values, vec![0.0]].concat())]).unwrap();
        assert!((all - drawn).abs() < 0.01 && all > 0.01, "{all} {drawn}");
    }
}
