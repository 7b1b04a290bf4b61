//! Several cells judged at once: do they together lie beyond an edge, and which pairs of cases differ?
//!
//! Of twenty cells on an edge the worst lies beyond it by chance. Holm's adjustment keeps the error, but at 20 cells
//! it needs 10 rounds to find anything. The maximum over cells, compared with itself under flipped signs, needs 7,
//! and does not pay twice for cells that move together. The same goes for the pairs of a ranking.
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
    over_its_size(cell, mean(cell).min(0.0))
}

/// The cell less `origin`, over the root of its sum of squares.
fn over_its_size(cell: &BTreeMap<u32, f64>, origin: f64) -> BTreeMap<u32, f64> {
    let size = cell.values().map(|v| (v - origin).powi(2)).sum::<f64>().sqrt();
    let size = if size > 0.0 { size } else { 1.0 };
    let scaled = |(round, v): (&u32, &f64)| (*round, (v - origin) / size);
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
    // Sums of roots are off by some ulps.
    let is_as_large = |sums: &[f64]| sums.iter().any(|sum| *sum >= largest - ULPS);
    let flips = under_flips(&by_round, is_as_large);
    let as_large = flips.iter().filter(|as_large| **as_large).count();
    as_large as f64 / flips.len() as f64
}

/// Sums that are equal differ by less than this.
const ULPS: f64 = 1e-9;

/// What `seen` says of the sums over rounds, under each flip of the signs of whole rounds, the one that flips nothing
/// first. `by_round` has the values of each round.
fn under_flips<T>(by_round: &[Vec<f64>], seen: impl Fn(&[f64]) -> T) -> Vec<T> {
    let mut sums = vec![0.0; by_round.first().map_or(0, Vec::len)];
    for (sum, value) in by_round.iter().flat_map(|round| round.iter().enumerate()) {
        sums[sum] += value;
    }
    let mut all = vec![seen(&sums)];
    let mut signs = vec![1.0; by_round.len()];
    let mut flip = |sums: &mut [f64], round: usize| {
        signs[round] = -signs[round];
        for (sum, value) in sums.iter_mut().zip(&by_round[round]) {
            *sum += signs[round] * 2.0 * value;
        }
    };
    if by_round.len() <= ALL_UP_TO {
        // In Gray's order each flip differs from the one before in one round.
        for i in 1..1_usize << by_round.len() {
            flip(&mut sums, i.trailing_zeros() as usize);
            all.push(seen(&sums));
        }
        return all;
    }
    let mut rng = fastrand::Rng::with_seed(SEED);
    for _ in 1..DRAWN {
        (0..by_round.len())
            .filter(|_| rng.bool())
            .for_each(|round| flip(&mut sums, round));
        all.push(seen(&sums));
    }
    all
}

/// Which pairs of cases differ (METHOD rule 8), all pairs at once, by the logarithms of each case's rounds: the pairs'
/// indices, the smaller first. The chance of a single false one among them is `alpha`.
///
/// The statistic of a pair is its studentised mean difference, to either side; that of all the largest, compared with
/// itself under sign flips of whole rounds. Pairs that are found are taken out and the others judged again (step-down),
/// until none is found. Where the noisier of two cases leans to its slow side, so that differences are no more
/// symmetric than their cases (mean skewness over pairs above 0.3), only pairs count whose every round lies farther
/// from 0 than their rounds lie apart.
///
/// `None` with fewer than 7 rounds: no flip of so few is rare enough for one of several looks, and with 6 it errs where
/// noise leans.
///
/// Source: Romano & Wolf, *JASA* 100 (2005), for the steps.
pub(crate) fn jointly_apart(cases: &[Vec<f64>], alpha: f64) -> Option<Vec<(usize, usize)>> {
    let rounds = cases.first().map_or(0, Vec::len);
    let told = |case: &Vec<f64>| case.len() == rounds && case.iter().all(|v| v.is_finite());
    if rounds < FEWEST_ROUNDS || !cases.iter().all(told) {
        return None;
    }
    let pairs = (0..cases.len()).flat_map(|i| (i + 1..cases.len()).map(move |j| (i, j)));
    let difference = |(i, j): (usize, usize)| -> BTreeMap<u32, f64> {
        let both = cases[i].iter().zip(&cases[j]);
        (1..).zip(both.map(|(a, b)| b - a)).collect()
    };
    let mut open: Vec<((usize, usize), BTreeMap<u32, f64>)> =
        pairs.map(|pair| (pair, difference(pair))).collect();
    let spread = |case: usize| {
        let by_round: BTreeMap<u32, f64> = (1..).zip(cases[case].iter().copied()).collect();
        let middle = mean(&by_round);
        by_round.values().map(|v| (v - middle).powi(2)).sum::<f64>()
    };
    let towards_noisier = |((i, j), of): &((usize, usize), _)| {
        let skewness = skewness(of);
        if spread(*j) > spread(*i) {
            skewness
        } else {
            -skewness
        }
    };
    let leaning = open.iter().map(towards_noisier).sum::<f64>() > -LEAST_SKEWNESS * open.len() as f64;
    let counts = |of: &BTreeMap<u32, f64>| !leaning || stands_off(of) || stands_off(&turned(of));
    let mut apart = Vec::new();
    loop {
        let scaled: Vec<BTreeMap<u32, f64>> = open.iter().map(|(_, of)| over_its_size(of, 0.0)).collect();
        let by_round: Vec<Vec<f64>> = (1..=rounds as u32)
            .map(|round| scaled.iter().map(|of| of[&round]).collect())
            .collect();
        let largest = |sums: &[f64]| sums.iter().fold(0.0_f64, |largest, sum| largest.max(sum.abs()));
        let mut largest = under_flips(&by_round, largest);
        largest.sort_unstable_by(f64::total_cmp);
        let is_found = |of: &BTreeMap<u32, f64>| {
            let size = of.values().sum::<f64>().abs();
            let below = largest.partition_point(|of_all| *of_all < size - ULPS);
            (largest.len() - below) as f64 <= alpha * largest.len() as f64
        };
        let found: Vec<bool> = scaled.iter().map(is_found).collect();
        let mut found = found.into_iter();
        let (new, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(|_| found.next() == Some(true));
        let none_new = new.is_empty();
        apart.extend(new.into_iter().filter(|(_, of)| counts(of)).map(|(pair, _)| pair));
        if none_new || rest.is_empty() {
            return Some(apart);
        }
        open = rest;
    }
}

/// To the other side.
fn turned(cell: &BTreeMap<u32, f64>) -> BTreeMap<u32, f64> {
    cell.iter().map(|(round, v)| (*round, -v)).collect()
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

    fn cases(middles: &[f64], noise: [f64; 7]) -> Vec<Vec<f64>> {
        let case = |(i, middle): (usize, &f64)| (0..7).map(|round| middle + noise[(round + i) % 7]).collect();
        middles.iter().enumerate().map(case).collect()
    }

    #[test]
    fn of_many_pairs_those_that_are_clear_are_found_by_seven_rounds() {
        let noise = [0.01, -0.02, 0.0, 0.015, -0.01, 0.02, -0.015];
        let mut found = jointly_apart(&cases(&[0.0, 0.0, 0.0, 2.0, 2.0], noise), 0.05).unwrap();
        let clear: Vec<_> = (0..3).flat_map(|i| (3..5).map(move |j| (i, j))).collect();
        found.sort_unstable();
        assert_eq!(found, clear);
        let six = cases(&[0.0, 0.0, 2.0], noise)
            .iter()
            .map(|case| case[..6].to_vec())
            .collect::<Vec<_>>();
        assert_eq!(jointly_apart(&six, 0.05), None);
    }

    #[test]
    fn where_noise_leans_only_pairs_that_stand_off_are_told_apart() {
        // The second is disturbed upwards in two of seven rounds, by more than it lies above the first.
        let quiet = [0.0, 0.001, -0.001, 0.0005, -0.0005, 0.0, 0.001];
        let noisy = [0.06, 0.05, 0.4, 0.055, 0.06, 0.3, 0.05];
        assert_eq!(
            jointly_apart(&[quiet.to_vec(), noisy.to_vec()], 0.05),
            Some(vec![])
        );
        let far = noisy.map(|v| v + 0.5);
        assert_eq!(
            jointly_apart(&[quiet.to_vec(), far.to_vec()], 0.05),
            Some(vec![(0, 1)])
        );
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

    #[test]
    fn a_cell_has_its_skewness_and_its_size() {
        // Around 1: squares of 3, cubes of 6, on the mean.
        let leaning = cell(&[0.0, 0.0, 0.0, 4.0]);
        assert!((skewness(&leaning) - 6.0 / 27.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(skewness(&cell(&[2.0; 7])), 0.0);
        assert_eq!(over_its_size(&cell(&[1.0, 5.0, 5.0]), 2.0), {
            let size = 19.0_f64.sqrt();
            cell(&[-1.0 / size, 3.0 / size, 3.0 / size])
        });
        assert_eq!(over_its_size(&cell(&[2.0; 3]), 2.0), cell(&[0.0; 3]));
        assert_eq!(turned(&cell(&[1.0, -2.0])), cell(&[-1.0, 2.0]));
        assert!(stands_off(&cell(&[1.01, 2.0])) && !stands_off(&cell(&[1.0, 2.0])));
    }

    #[test]
    fn what_is_not_beyond_on_the_mean_shows_nothing() {
        assert_eq!(jointly_beyond(&[cell(&BEYOND.map(|v| v - 2.0))]), Some(1.0));
        let none = [1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.0];
        assert_eq!(jointly_beyond(&[cell(&none)]), Some(1.0));
        assert_eq!(
            jointly_beyond(&[cell(&none), cell(&BEYOND.map(|v| v - 2.0))]),
            Some(1.0)
        );
    }

    #[test]
    fn cells_lean_by_their_mean_skewness() {
        // A skewness of -0.19 each.
        let leaning = [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 4.2];
        assert!(jointly_beyond(&[cell(&leaning), cell(&leaning)]).is_some());
        // One of -2 and one of 0.
        let far = [0.3, 0.31, 0.32, 0.3, 0.31, 0.33, -2.0];
        let even = [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0];
        assert_eq!(jointly_beyond(&[cell(&far), cell(&even)]), None);
    }

    /// Around 0, or the other way round, with the second case `difference` above the first.
    fn two(difference: [f64; 7], turn: bool) -> Option<Vec<(usize, usize)>> {
        let pair = [vec![0.0; 7], difference.to_vec()];
        let [a, b] = if turn {
            [pair[1].clone(), pair[0].clone()]
        } else {
            pair
        };
        jointly_apart(&[a, b], 0.05)
    }

    #[test]
    fn pairs_that_do_not_stand_off_are_told_apart_where_noise_does_not_lean_to_the_slow_side() {
        let even = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5];
        // A skewness of 0.8 and of -0.8.
        let slow = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0];
        let quick = slow.map(|v| 1.1 - v);
        for turn in [false, true] {
            assert_eq!(two(even, turn), Some(vec![(0, 1)]), "{turn}");
            assert_eq!(two(slow, turn), Some(vec![]), "{turn}");
            assert_eq!(two(quick, turn), Some(vec![(0, 1)]), "{turn}");
        }
        // Neither is the noisier: the difference leans, and to which side it does says nothing.
        let [a, b] =
            [[1, 6, 6, 3, 8, 0, 4], [6, 11, 8, 11, 9, 13, 5]].map(|case| case.map(f64::from).to_vec());
        assert_eq!(jointly_apart(&[a, b], 0.05), Some(vec![(0, 1)]));
    }

    #[test]
    fn pairs_lean_by_their_mean_skewness() {
        // Of three pairs one leans by 1, as much as the others do not.
        let noise = [0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.7];
        let leaning = noise.map(|v| v + 0.2).to_vec();
        let even = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5].map(|v| 5.0 + v).to_vec();
        let found = jointly_apart(&[vec![0.0; 7], leaning, even], 0.05).unwrap();
        assert_eq!(found, [(0, 1), (0, 2), (1, 2)]);
    }

    #[test]
    fn the_flip_that_changes_nothing_is_one_of_all() {
        // Of 128 flips two have the largest sum: a share of a 64th.
        let far = [vec![0.0; 7], BEYOND.to_vec()];
        assert_eq!(jointly_apart(&far, 1.0 / 64.0), Some(vec![(0, 1)]));
        assert_eq!(jointly_apart(&far, 0.99 / 64.0), Some(vec![]));
    }

    #[test]
    fn cases_of_other_lengths_or_without_numbers_are_not_judged() {
        let far = BEYOND.to_vec();
        assert_eq!(jointly_apart(&[far.clone(), far[..6].to_vec()], 0.05), None);
        let none = [&far[..6], &[f64::NAN]].concat();
        assert_eq!(jointly_apart(&[far, none], 0.05), None);
    }
}
