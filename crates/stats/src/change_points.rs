//! Where a series changes its level: the change points of a figure over many runs.
//!
//! E-divisive with means, of Matteson and James, *A nonparametric approach for multiple change point analysis of
//! multivariate data* (2014), as Daly and others (*The use of change point detection to identify software performance
//! regressions in a continuous integration system*, 2020) and Hunter (Fleming and others, 2023) use it on benchmarks:
//! the best split of a part is that with the largest energy statistic between its two sides, and a permutation test
//! over all parts says whether it is one. It asks nothing of the noise but that it is exchangeable between changes.
//! The crate `edivisive` is of 2021 and has one version; others find changes by Bayesian models, which need a prior.
//!
//! A new level has at least [`LEAST`] values, so that one bad run is none.

/// The fewest values between two changes.
pub const LEAST: usize = 3;
/// With fewer values no split could be told from chance at 5 %: of seven there are 35 ways to choose three, and the
/// mirrored one is as extreme.
pub const FEWEST: usize = 8;
/// How many permutations a test takes.
const PERMUTATIONS: u32 = 999;

/// Where a level begins that differs from the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The place of the first value of the new level.
    pub at: usize,
    /// How often chance alone would split so well.
    pub p: f64,
}

/// The change points of `series`, by place, each with a chance below `alpha` that there is none. None in fewer than
/// [`FEWEST`] values.
///
/// ```
/// use threadgauge_stats::change_points;
///
/// let series = [1.00, 1.02, 0.99, 1.01, 1.00, 1.20, 1.21, 1.19, 1.22, 1.20];
/// let found = change_points(&series, 0.05, 1);
/// assert_eq!(found.len(), 1);
/// assert_eq!(found[0].at, 5);
/// ```
#[must_use]
pub fn change_points(series: &[f64], alpha: f64, seed: u64) -> Vec<ChangePoint> {
    if series.len() < FEWEST || series.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut found: Vec<ChangePoint> = Vec::new();
    loop {
        let parts = parts(series, &found);
        let Some(best) = best_of(&parts) else { break };
        let p = chance(&parts, best.gain, &mut rng);
        if p > alpha {
            break;
        }
        found.push(ChangePoint { at: best.at, p });
        found.sort_by_key(|change| change.at);
    }
    found
}

/// A part between two changes, and where it begins.
type Part<'a> = (usize, &'a [f64]);

fn parts<'a>(series: &'a [f64], changes: &[ChangePoint]) -> Vec<Part<'a>> {
    let begins: Vec<usize> = [0].into_iter().chain(changes.iter().map(|of| of.at)).collect();
    let ends = begins[1..].iter().copied().chain([series.len()]);
    let part = |(&from, to): (&usize, usize)| (from, &series[from..to]);
    begins.iter().zip(ends).map(part).collect()
}

/// A place where a part may be split, and how far its sides are apart.
#[derive(Debug, Clone, Copy)]
struct Split {
    at: usize,
    gain: f64,
}

fn best_of(parts: &[Part<'_>]) -> Option<Split> {
    let each = parts.iter().filter_map(|(from, values)| {
        let split = best(values)?;
        Some(Split {
            at: from + split.at,
            ..split
        })
    });
    each.max_by(|a, b| a.gain.total_cmp(&b.gain))
}

/// The best split of one part; none where it is too short for two. The statistic of Matteson and James for sides of n
/// and m values is mn/(m+n) times (2·mean distance between the sides − mean distance within each).
fn best(values: &[f64]) -> Option<Split> {
    let n = values.len();
    if n < 2 * LEAST {
        return None;
    }
    let apart = |i: usize, k: usize| (values[i] - values[k]).abs();
    let pairs = |count: usize| (count * count.saturating_sub(1)) as f64 / 2.0;
    // Sums of distances within the left side, within the right side, and between them, as the split moves on.
    let (mut left, mut between) = (0.0, 0.0);
    let mut right: f64 = (0..n).map(|i| (i + 1..n).map(|k| apart(i, k)).sum::<f64>()).sum();
    let mut best: Option<Split> = None;
    for at in 1..=n - LEAST {
        let moved = at - 1;
        let to_left: f64 = (0..moved).map(|i| apart(i, moved)).sum();
        let to_right: f64 = (at..n).map(|k| apart(moved, k)).sum();
        left += to_left;
        right -= to_right;
        between += to_right - to_left;
        if at < LEAST {
            continue;
        }
        let (a, b) = (at as f64, (n - at) as f64);
        let energy = 2.0 * between / (a * b) - left / pairs(at) - right / pairs(n - at);
        let gain = energy * a * b / (a + b);
        if best.is_none_or(|best| gain > best.gain) {
            best = Some(Split { at, gain });
        }
    }
    best
}

/// How often the best split of parts in any other order gains as much: within each part only, since the changes
/// between them are known.
fn chance(parts: &[Part<'_>], gain: f64, rng: &mut fastrand::Rng) -> f64 {
    let mut shuffled: Vec<(usize, Vec<f64>)> =
        parts.iter().map(|(from, part)| (*from, part.to_vec())).collect();
    let mut as_good = 0;
    for _ in 0..PERMUTATIONS {
        for (_, part) in &mut shuffled {
            rng.shuffle(part);
        }
        let of: Vec<Part<'_>> = shuffled
            .iter()
            .map(|(from, part)| (*from, part.as_slice()))
            .collect();
        // The same values in another order may sum to a little less.
        as_good += u32::from(best_of(&of).is_some_and(|best| best.gain >= gain * (1.0 - 1e-9)));
    }
    f64::from(as_good + 1) / f64::from(PERMUTATIONS + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEED: u64 = 35;

    /// So many values about a level, within 2 %.
    fn about(level: f64, n: usize, rng: &mut fastrand::Rng) -> Vec<f64> {
        (0..n).map(|_| level * (0.98 + 0.04 * rng.f64())).collect()
    }

    fn places(series: &[f64]) -> Vec<usize> {
        change_points(series, 0.05, SEED)
            .iter()
            .map(|change| change.at)
            .collect()
    }

    #[test]
    fn levels_that_go_up_and_down_again_change_where_they_do() {
        let mut rng = fastrand::Rng::with_seed(SEED);
        let levels = [(1.0, 10), (1.2, 8), (0.9, 12), (0.9, 5)];
        let series: Vec<f64> = levels
            .iter()
            .flat_map(|&(level, n)| about(level, n, &mut rng))
            .collect();
        assert_eq!(places(&series), [10, 18]);
        let found = change_points(&series, 0.05, SEED);
        assert!(found.iter().all(|change| change.p <= 0.05), "{found:?}");
    }

    #[test]
    fn a_new_level_shows_from_its_third_run_on_and_one_bad_run_is_none() {
        let level = |level: f64, n: usize| (0..n).map(move |i| level * [1.0, 1.01, 0.99][i % 3]);
        let before: Vec<f64> = level(1.0, 10).collect();
        for (new, expected) in [(1, vec![]), (2, vec![]), (3, vec![10]), (6, vec![10])] {
            let mut series = before.clone();
            series.extend(level(1.3, new));
            assert_eq!(places(&series), expected, "{new} runs of the new level");
        }
        let mut spike = before;
        spike[6] = 3.0;
        assert_eq!(places(&spike), [0; 0]);
    }

    #[test]
    fn few_values_equal_ones_and_no_numbers_have_none() {
        assert_eq!(places(&[]), [0; 0]);
        assert_eq!(places(&[1.0]), [0; 0]);
        assert_eq!(places(&[1.0; 40]), [0; 0]);
        let seven = [1.0, 1.01, 0.99, 1.0, 2.0, 2.01, 1.99];
        assert_eq!(places(&seven), [0; 0]);
        let eight = [1.0, 1.01, 0.99, 1.0, 2.0, 2.01, 1.99, 2.0];
        assert_eq!(places(&eight), [4]);
        let mut broken = [1.0; 12];
        broken[3] = f64::NAN;
        assert_eq!(places(&broken), [0; 0]);
    }

    #[test]
    fn noise_alone_has_a_change_point_in_at_most_one_series_of_twenty() {
        let mut rng = fastrand::Rng::with_seed(SEED);
        let alarms = (0..400).filter(|_| {
            // Of one run in ten the noise is ten times as large.
            let series: Vec<f64> = (0..16)
                .map(|_| (if rng.u8(..10) == 0 { 0.2 } else { 0.02 } * (rng.f64() - 0.5)).exp())
                .collect();
            !places(&series).is_empty()
        });
        // 5 % of 400, and two standard errors.
        let alarms = alarms.count();
        assert!(alarms <= 29, "{alarms} of 400");
        // A test that never rejects would pass that.
        assert!(alarms >= 5, "{alarms} of 400");
    }

    #[test]
    fn a_shift_by_5_percent_in_noise_of_2_percent_is_mostly_found_near_its_place() {
        let mut rng = fastrand::Rng::with_seed(SEED);
        let found = (0..100).filter(|_| {
            let bell = |rng: &mut fastrand::Rng| (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
            let series: Vec<f64> = (0..20)
                .map(|i| (if i < 12 { 0.0 } else { 0.05 }) + 0.02 * bell(&mut rng))
                .collect();
            places(&series).iter().any(|at| at.abs_diff(12) <= 1)
        });
        let found = found.count();
        assert!(found >= 80, "{found} of 100");
    }

    /// The statistic by its definition, with no sum carried on.
    fn by_definition(values: &[f64], at: usize) -> f64 {
        let mean = |a: &[f64], b: &[f64]| {
            let all = a.iter().flat_map(|x| b.iter().map(move |y| (x - y).abs()));
            all.sum::<f64>()
        };
        let (x, y) = values.split_at(at);
        let (n, m) = (x.len() as f64, y.len() as f64);
        let energy = 2.0 * mean(x, y) / (n * m) - mean(x, x) / (n * (n - 1.0)) - mean(y, y) / (m * (m - 1.0));
        energy * n * m / (n + m)
    }

    proptest! {
        #[test]
        fn the_best_split_is_that_of_the_definition(values in prop::collection::vec(-10.0..10.0_f64, 6..40)) {
            let split = best(&values).unwrap();
            let all: Vec<f64> = (LEAST..=values.len() - LEAST).map(|at| by_definition(&values, at)).collect();
            let most = all.iter().copied().fold(f64::MIN, f64::max);
            prop_assert!((split.gain - most).abs() <= 1e-9 * most.abs().max(1.0));
            prop_assert!((by_definition(&values, split.at) - most).abs() <= 1e-9 * most.abs().max(1.0));
        }

        #[test]
        fn changes_lie_apart_and_inside(values in prop::collection::vec(0.0..1.0_f64, 0..30), seed: u64) {
            let found = change_points(&values, 0.3, seed);
            let mut edges = vec![0];
            edges.extend(found.iter().map(|change| change.at));
            edges.push(values.len());
            prop_assert!(found.is_empty() || edges.windows(2).all(|pair| pair[1] - pair[0] >= LEAST));
            prop_assert_eq!(found, change_points(&values, 0.3, seed));
        }
    }
}
