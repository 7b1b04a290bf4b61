//! The price of looking more than once.
//!
//! Who looks at four interim results at 5 % each is wrong in 12.6 % of the cases without a
//! difference. Pocock's remedy is one smaller error rate for every look, such that all looks
//! together keep 5 %. The rate follows from the walk that a sum of values takes: its density within
//! the bounds is carried from look to look by numerical integration, and what leaks out is the
//! error.
//!
//! Source: Pocock, *Biometrika* 64 (1977); Armitage, McPherson & Rowe, *JRSS A* 132 (1969) for the
//! recursion; Jennison & Turnbull, *Group Sequential Methods* (2000), table 2.1 for the constants.

use statrs::distribution::{ContinuousCDF, Normal};

/// The error rate that all looks together keep.
const TOTAL: f64 = 0.05;

/// Intervals of the Simpson grid at each look, an even number.
const GRID: usize = 64;

/// How often the range of critical values is halved: to less than 1e-7.
const HALVINGS: u32 = 26;

/// The critical values for 1 to 10 looks, as the integration below finds them (a test repeats it).
const CRITICAL: [f64; 10] = [
    1.959_964, 2.178_272, 2.289_478, 2.361_298, 2.413_176, 2.453_211, 2.485_489, 2.512_337, 2.535_195,
    2.555_013,
];

/// The error rate of each of `looks` equally spaced looks, two-sided, such that all together keep 5
/// % (no unit). 0.05 for one look, or none.
///
/// Looks spaced more closely towards the end, such as 10, 15 and 20 rounds, are more alike than
/// equally spaced ones, so that the same rate keeps the total below 5 %.
///
/// ```
/// use threadgauge_stats::pocock_alpha;
///
/// assert_eq!(pocock_alpha(1), 0.05);
/// assert!((pocock_alpha(3) - 0.0221).abs() < 5e-5);
/// assert!((pocock_alpha(4) - 0.0182).abs() < 5e-5);
/// ```
#[must_use]
pub fn pocock_alpha(looks: usize) -> f64 {
    match looks {
        0 | 1 => TOTAL,
        2..=10 => two_sided(CRITICAL[looks - 1]),
        _ => two_sided(critical(&equally_spaced(looks))),
    }
}

fn two_sided(z: f64) -> f64 {
    2.0 * Normal::standard().cdf(-z)
}

fn equally_spaced(looks: usize) -> Vec<f64> {
    (1..=looks).map(|k| k as f64).collect()
}

/// The critical value at which looks after `times` rounds together err at [`TOTAL`].
fn critical(times: &[f64]) -> f64 {
    let (mut low, mut high) = (1.9, 6.0);
    for _ in 0..HALVINGS {
        let tried = f64::midpoint(low, high);
        if error(tried, times) > TOTAL {
            low = tried;
        } else {
            high = tried;
        }
    }
    f64::midpoint(low, high)
}

/// The probability that a standard random walk is beyond `±z` standard deviations at any of the
/// `times`, which ascend.
fn error(z: f64, times: &[f64]) -> f64 {
    let normal = |x: f64, variance: f64| {
        (-0.5 * x * x / variance).exp() / (2.0 * std::f64::consts::PI * variance).sqrt()
    };
    let grid = |bound: f64| -> Vec<f64> {
        (0..=GRID)
            .map(|i| bound * (2.0 * i as f64 / GRID as f64 - 1.0))
            .collect()
    };
    let mut at = grid(z * times[0].sqrt());
    let mut density: Vec<f64> = at.iter().map(|s| normal(*s, times[0])).collect();
    for step in times.windows(2) {
        let weighted = weigh(&at, &density);
        let next = grid(z * step[1].sqrt());
        density = next
            .iter()
            .map(|s| {
                at.iter()
                    .zip(&weighted)
                    .map(|(u, w)| w * normal(s - u, step[1] - step[0]))
                    .sum()
            })
            .collect();
        at = next;
    }
    1.0 - weigh(&at, &density).iter().sum::<f64>()
}

/// The density times Simpson's weights.
fn weigh(at: &[f64], density: &[f64]) -> Vec<f64> {
    let third = (at[GRID] - at[0]) / GRID as f64 / 3.0;
    let weight = |i: usize| match i {
        0 | GRID => third,
        i if i % 2 == 1 => 4.0 * third,
        _ => 2.0 * third,
    };
    density.iter().enumerate().map(|(i, d)| d * weight(i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jennison & Turnbull (2000), table 2.1, `C_P(K, 0.05)`.
    #[test]
    fn the_constants_are_the_published_ones() {
        let published = [
            1.960, 2.178, 2.289, 2.361, 2.413, 2.453, 2.485, 2.512, 2.535, 2.555,
        ];
        for (ours, theirs) in CRITICAL.iter().zip(published) {
            assert!((ours - theirs).abs() < 6e-4, "{ours} and {theirs}");
        }
    }

    /// Pocock (1977), table 1: the nominal levels.
    #[test]
    fn the_rates_are_the_published_ones() {
        let published = [
            (1, 0.05),
            (2, 0.0294),
            (3, 0.0221),
            (4, 0.0182),
            (5, 0.0158),
            (10, 0.0106),
        ];
        for (looks, rate) in published {
            assert!((pocock_alpha(looks) - rate).abs() < 5e-5, "{looks} looks");
        }
        // Those of ten looks or fewer are not reckoned anew.
        assert_eq!(pocock_alpha(10), two_sided(CRITICAL[9]));
    }

    #[test]
    fn the_constants_are_what_integration_finds() {
        for looks in [1, 2, 3, 4, 7, 10] {
            let found = critical(&equally_spaced(looks));
            assert!(
                (found - CRITICAL[looks - 1]).abs() < 2e-5,
                "{looks} looks: {found:.6}"
            );
        }
    }

    /// Armitage, McPherson & Rowe (1969): repeated looks at 5 % each.
    #[test]
    fn uncorrected_looks_err_as_published() {
        for (looks, published) in [(1, 0.050), (2, 0.083), (3, 0.107), (4, 0.126), (5, 0.142)] {
            assert!(
                (error(1.959_964, &equally_spaced(looks)) - published).abs() < 6e-4,
                "{looks} looks"
            );
        }
    }

    #[test]
    fn the_looks_of_the_profiles_keep_five_per_cent() {
        let standard = error(CRITICAL[2], &[10.0, 15.0, 20.0]);
        assert!(standard < 0.05 && standard > 0.04, "{standard}");
        assert!((error(CRITICAL[3], &[10.0, 20.0, 30.0, 40.0]) - 0.05).abs() < 1e-5);
    }

    #[test]
    fn a_simulated_walk_leaks_what_the_integral_says() {
        let mut rng = fastrand::Rng::with_seed(1977);
        let walks = 20_000;
        let beyond = (0..walks).filter(|_| {
            let mut sum = 0.0;
            (1..=4_u8).any(|k| {
                // Irwin–Hall: twelve uniforms are close enough to a normal
                sum += (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
                sum.abs() > CRITICAL[3] * f64::from(k).sqrt()
            })
        });
        let share = beyond.count() as f64 / f64::from(walks);
        assert!((share - 0.05).abs() < 0.006, "{share}");
    }

    #[test]
    fn many_looks_cost_more_each() {
        assert!(pocock_alpha(11) < pocock_alpha(10) && pocock_alpha(11) > 0.05 / 11.0);
        assert_eq!(pocock_alpha(0), 0.05);
    }
}
