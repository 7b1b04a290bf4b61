//! A machine that drifts: the Mann–Kendall test.
//!
//! Every later round is compared with every earlier one; as many rises as falls means no drift. No
//! line is assumed, so warming up, throttling and a slow leak are all found.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::fit::Agreement;

/// Up to this many values without ties the p value is exact; otherwise normal, corrected for ties
/// and continuity.
const EXACT_UP_TO: usize = 60;

/// A drift over the rounds.
///
/// ```
/// use threadgauge_stats::diagnostics::{Trend, mann_kendall};
///
/// let Trend { tau, p } = mann_kendall(&[10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6]);
/// assert!(tau == 1.0 && p < 0.001);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Kendall's tau-b of the values over the rounds: 1 for ever rising, -1 for ever falling, no
    /// unit. NaN when there are no two different values.
    pub tau: f64,
    /// The two-sided p value of "no drift". 1 when nothing can be known; NaN when a value is not
    /// finite.
    pub p: f64,
}

/// Tests values in the order of their rounds for a drift (METHOD rule 9). Takes n log n time.
///
/// Source: Mann, *Econometrica* 13 (1945); Kendall, *Rank Correlation Methods* (1975).
///
/// ```
/// use threadgauge_stats::diagnostics::mann_kendall;
///
/// assert!(mann_kendall(&[3.0, 1.0, 4.0, 1.5, 5.0, 2.0, 3.5]).p > 0.2); // no drift
/// assert!(mann_kendall(&[1.0, 2.0]).p == 1.0); // nothing known
/// ```
#[must_use]
pub fn mann_kendall(values: &[f64]) -> Trend {
    if values.iter().any(|v| !v.is_finite()) {
        return Trend {
            tau: f64::NAN,
            p: f64::NAN,
        };
    }
    let n = values.len();
    let rounds: Vec<f64> = (0..n).map(|i| i as f64).collect();
    let agreement = Agreement::of(&rounds, values);
    let (pairs, untied) = (
        agreement.pairs as f64,
        (agreement.pairs - agreement.tied_b) as f64,
    );
    let tau = agreement.score as f64 / (pairs * untied).sqrt();
    let p = if agreement.tied_b == 0 && n <= EXACT_UP_TO {
        exact_p(n, (agreement.pairs - agreement.score.abs()) as usize / 2)
    } else {
        normal_p(values, agreement.score)
    };
    Trend { tau, p }
}

/// Twice the probability of at most `exchanges` pairs in the rarer order, among all orders of n.
fn exact_p(n: usize, exchanges: usize) -> f64 {
    // Inserting the i-th value passes 0 to i-1 of those before it, each equally likely.
    let mut mass = vec![0.0; exchanges + 1];
    mass[0] = 1.0;
    for i in 2..=n {
        let mut window = 0.0;
        let before = mass.clone();
        for (passed, m) in mass.iter_mut().enumerate() {
            window += before[passed];
            if passed >= i {
                window -= before[passed - i];
            }
            *m = window / i as f64;
        }
    }
    (2.0 * mass.iter().sum::<f64>()).min(1.0)
}

fn normal_p(values: &[f64], score: i64) -> f64 {
    let spread = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let sorted = crate::select::sorted(values);
    let ties: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|run| spread(run.len() as f64))
        .sum();
    let variance = (spread(values.len() as f64) - ties) / 18.0;
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (score.unsigned_abs() as f64 - 1.0).max(0.0) / variance.sqrt();
    (2.0 * Normal::standard().cdf(-z)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kaarsemaker & van Wijngaarden's table of S: P(S >= s), one-sided.
    #[test]
    fn exact_tails_are_the_published_ones() {
        for (n, score, tail) in [
            (4, 6, 0.042),
            (5, 8, 0.042),
            (6, 11, 0.028),
            (7, 13, 0.035),
            (8, 16, 0.031),
            (10, 21, 0.036),
        ] {
            let exchanges = (n * (n - 1) / 2 - score) / 2;
            assert!(
                (exact_p(n, exchanges) / 2.0 - tail).abs() < 6e-4,
                "n = {n}: {}",
                exact_p(n, exchanges) / 2.0
            );
        }
    }

    #[test]
    fn few_values_without_ties_have_an_exact_p_value() {
        // Of the 24 orders of four values one has no pair in the other order, and three have one.
        for (values, tau, p) in [
            ([1.0, 2.0, 3.0, 4.0], 1.0, 2.0 / 24.0),
            ([1.0, 2.0, 4.0, 3.0], 4.0 / 6.0, 8.0 / 24.0),
            ([4.0, 2.0, 3.0, 1.0], -4.0 / 6.0, 8.0 / 24.0),
        ] {
            let trend = mann_kendall(&values);
            assert!(
                (trend.tau - tau).abs() < 1e-12 && (trend.p - p).abs() < 1e-12,
                "{trend:?}"
            );
        }
        let none = mann_kendall(&[1.0, 2.0]);
        assert_eq!((none.tau, none.p), (1.0, 1.0));
    }

    #[test]
    fn ties_and_many_values_have_a_normal_p_value() {
        // S is 5 with a variance of (4·3·13 - 2·1·9)/18, and less by 1 for continuity.
        let tied = mann_kendall(&[1.0, 1.0, 2.0, 3.0]);
        assert!((tied.tau - 5.0 / 30.0_f64.sqrt()).abs() < 1e-12, "{tied:?}");
        assert!((tied.p - 0.148_561_775).abs() < 1e-9, "{tied:?}");
        let p = |n: u8| {
            let values: Vec<f64> = (0..n).map(|i| f64::from((u32::from(i) * 37) % 61)).collect();
            let rounds: Vec<f64> = (0..n).map(f64::from).collect();
            let Agreement { pairs, score, .. } = Agreement::of(&rounds, &values);
            let exact = exact_p(n.into(), (pairs - score.abs()) as usize / 2);
            (mann_kendall(&values).p, exact, normal_p(&values, score))
        };
        let ((sixty, exact, _), (more, _, normal)) = (p(60), p(61));
        assert_eq!((sixty, more), (exact, normal));
    }

    #[test]
    fn exact_and_normal_meet() {
        let values: Vec<f64> = (0..60).map(|i| f64::from((i * 37) % 61)).collect();
        let trend = mann_kendall(&values);
        let rounds: Vec<f64> = (0..60).map(f64::from).collect();
        let normal = normal_p(&values, Agreement::of(&rounds, &values).score);
        assert!((trend.p - normal).abs() < 0.005, "{} and {normal}", trend.p);
    }

    #[test]
    fn constant_values_have_no_drift_and_no_tau() {
        let trend = mann_kendall(&[2.0; 9]);
        assert!(trend.tau.is_nan() && trend.p == 1.0);
        assert!(mann_kendall(&[1.0, f64::NAN, 3.0]).p.is_nan());
        for few in [&[][..], &[1.0]] {
            let trend = mann_kendall(few);
            assert!(trend.tau.is_nan() && trend.p == 1.0, "{few:?}");
        }
    }

    #[test]
    fn turning_time_round_turns_the_drift() {
        let values = [1.0, 3.0, 2.0, 4.0, 6.0, 5.0, 7.0];
        let mut turned = values;
        turned.reverse();
        let (there, back) = (mann_kendall(&values), mann_kendall(&turned));
        assert_eq!((there.tau, there.p), (-back.tau, back.p));
    }
}
