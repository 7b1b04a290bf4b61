//! Several runs a side: what differs between runs is measured, and lies in the interval.
//!
//! The unit is a run: of each case it has one figure, however many rounds made it (METHOD rule 17). Runs are few: three
//! against three leave a rank test no 95 % interval, and a bootstrap of three values covers far too little. So the
//! interval is Welch's, of the logarithms: it assumes that figures of runs scatter about normally, lets the two sides
//! scatter unequally, and its degrees of freedom say how little so few runs know of that.
//!
//! Sources: B. L. Welch, *The generalization of "Student's" problem when several different population variances are
//! involved* (1947); T. Kalibera, R. Jones, *Rigorous benchmarking in reasonable time* (2013), for the unit.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::StatsError;
use crate::compare::{Better, Comparison};
use crate::error::{positive, rate};
use crate::interval::{Estimate, Interval};
use crate::level::FEWEST_CASES;
use crate::select::{middle, sorted};

/// Compares the runs of `b` with those of `a`, by one figure a run, at 95 %.
///
/// A side of one run does not say how its runs scatter: that of the other side is taken for both, so that the question
/// is whether the one lies where another run of that side could. Two sides of one run have no interval.
/// [`Comparison::n`] are the runs of both sides.
///
/// # Errors
///
/// A side without values, or a value that is not finite and above 0.
///
/// ```
/// use threadgauge_stats::{Better, Outcome, compare_runs};
///
/// let (before, after) = ([10.0, 10.2, 9.9], [12.0, 12.1, 11.9]);
/// assert_eq!(compare_runs(&before, &after, Better::Lower)?.outcome, Outcome::Slower);
/// // Of one run each nothing is known.
/// assert_eq!(compare_runs(&before[..1], &after[..1], Better::Lower)?.ci95, None);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn compare_runs(a: &[f64], b: &[f64], better: Better) -> Result<Comparison, StatsError> {
    let (a, b) = (Logs::of(a)?, Logs::of(b)?);
    let shift = b.mean - a.mean;
    let spread = Spread::of(&a, &b);
    Ok(about(shift, spread.as_ref(), a.n + b.n, better))
}

/// Compares by pairs of runs, each with its ratio of `b` to `a`, at 95 %. [`Comparison::n`] are the runs of both sides.
///
/// # Errors
///
/// No ratio, or one that is not finite and above 0.
///
/// ```
/// use threadgauge_stats::{Better, Outcome, compare_pairs_of_runs};
///
/// let compared = compare_pairs_of_runs(&[1.10, 1.11, 1.09], Better::Lower)?;
/// assert_eq!((compared.n, compared.outcome), (6, Outcome::Slower));
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn compare_pairs_of_runs(ratios: &[f64], better: Better) -> Result<Comparison, StatsError> {
    let logs = Logs::of(ratios)?;
    let spread = logs.variance.map(|variance| Spread {
        error: (variance / logs.n as f64).sqrt(),
        freedom: (logs.n - 1) as f64,
    });
    Ok(about(logs.mean, spread.as_ref(), 2 * logs.n, better))
}

/// The runs of `b` over those of `a`, by one figure a run, with the interval at this error rate; see [`compare_runs`].
///
/// # Errors
///
/// A side without values, a value that is not finite and above 0, or a rate outside (0, 1).
///
/// ```
/// # use threadgauge_stats::ratio_of_runs;
/// let ratio = ratio_of_runs(&[10.0, 10.2, 9.9], &[12.0, 12.1, 11.9], 0.025)?;
/// assert_eq!(ratio.ci.unwrap().level, 0.975);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn ratio_of_runs(a: &[f64], b: &[f64], alpha: f64) -> Result<Estimate, StatsError> {
    rate(alpha)?;
    let (a, b) = (Logs::of(a)?, Logs::of(b)?);
    let spread = Spread::of(&a, &b);
    let log_ratio = b.mean - a.mean;
    Ok(Estimate {
        estimate: log_ratio.exp(),
        ci: spread.map(|spread| spread.about(log_ratio, 1.0 - alpha)),
        n: a.n + b.n,
    })
}

/// How far runs of a side lie apart: the standard deviation of the logarithms of their figures (no unit), of both sides
/// together, each about its own mean. `None` where no side has two.
///
/// # Errors
///
/// A side without values, or a value that is not finite and above 0.
///
/// ```
/// # use threadgauge_stats::between_runs;
/// assert_eq!(between_runs(&[1.0], &[2.0])?, None);
/// let spread = between_runs(&[1.0, 1.02], &[2.0, 2.04])?.unwrap();
/// assert!((spread - 0.014).abs() < 0.001);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn between_runs(a: &[f64], b: &[f64]) -> Result<Option<f64>, StatsError> {
    let sides = [Logs::of(a)?, Logs::of(b)?];
    let squares = |side: &Logs| {
        side.variance
            .map_or(0.0, |variance| variance * (side.n - 1) as f64)
    };
    let freedom: usize = sides.iter().map(|side| side.n - 1).sum();
    let squares: f64 = sides.iter().map(squares).sum();
    Ok((freedom > 0).then(|| (squares / freedom as f64).sqrt()))
}

/// What all cases of a run have in common, by run: its level over that of all runs, no unit. `figures` has a case a row
/// and a run a column; a case counts by its distance from its own mean over the runs, and of all cases the median is
/// taken, so that a few that changed do not move it.
///
/// `None` where there are fewer than 10 cases: they tell nothing of a machine's level.
///
/// # Errors
///
/// A value that is not finite and above 0.
///
/// # Panics
///
/// Where a row has fewer columns than the first.
///
/// ```
/// # use threadgauge_stats::run_levels;
/// let cases: Vec<Vec<f64>> = (1..=12).map(|case| vec![f64::from(case), 1.21 * f64::from(case)]).collect();
/// let levels = run_levels(&cases)?.unwrap();
/// assert!((levels[1] / levels[0] - 1.21).abs() < 1e-9);
/// assert_eq!(run_levels(&cases[..9])?, None);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn run_levels(figures: &[Vec<f64>]) -> Result<Option<Vec<f64>>, StatsError> {
    if figures.len() < FEWEST_CASES {
        return Ok(None);
    }
    let mut distances = Vec::with_capacity(figures.len());
    for case in figures {
        let of_case = Logs::of(case)?;
        distances.push(case.iter().map(|v| v.ln() - of_case.mean).collect::<Vec<f64>>());
    }
    let level = |run: usize| {
        let of_run: Vec<f64> = distances.iter().map(|case| case[run]).collect();
        middle(&sorted(&of_run)).exp()
    };
    Ok(Some((0..figures[0].len()).map(level).collect()))
}

/// The logarithms of a side's figures.
struct Logs {
    n: usize,
    mean: f64,
    /// Of two and more.
    variance: Option<f64>,
}

impl Logs {
    fn of(values: &[f64]) -> Result<Self, StatsError> {
        positive(values)?;
        let n = values.len();
        let mean = values.iter().map(|v| v.ln()).sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v.ln() - mean).powi(2)).sum();
        Ok(Self {
            n,
            mean,
            variance: (n > 1).then(|| squares / (n - 1) as f64),
        })
    }
}

/// The standard error of a difference of two sides, and what is known of it.
struct Spread {
    error: f64,
    freedom: f64,
}

impl Spread {
    fn of(a: &Logs, b: &Logs) -> Option<Self> {
        let part = |side: &Logs| side.variance.map(|variance| variance / side.n as f64);
        let (error, freedom) = match (part(a), part(b)) {
            (None, None) => return None,
            // The one is taken for a further run of the many.
            (Some(many), None) => (many * (a.n + 1) as f64, (a.n - 1) as f64),
            (None, Some(many)) => (many * (b.n + 1) as f64, (b.n - 1) as f64),
            (Some(of_a), Some(of_b)) => {
                let sum = of_a + of_b;
                let of = |part: f64, n: usize| part.powi(2) / (n - 1) as f64;
                let welch = sum.powi(2) / (of(of_a, a.n) + of(of_b, b.n));
                // Where no run differs from another of its side.
                let most = (a.n + b.n - 2) as f64;
                (sum, if welch.is_finite() { welch } else { most })
            }
        };
        Some(Self {
            error: error.sqrt(),
            freedom,
        })
    }

    /// The interval of this level about a ratio.
    fn about(&self, log_ratio: f64, level: f64) -> Interval {
        let reach = quantile(self.freedom, f64::midpoint(1.0, level)) * self.error;
        Interval {
            low: (log_ratio - reach).exp(),
            high: (log_ratio + reach).exp(),
            level,
        }
    }
}

fn about(log_ratio: f64, spread: Option<&Spread>, n: usize, better: Better) -> Comparison {
    let interval = |level: f64| Some(spread?.about(log_ratio, level));
    Comparison::new(log_ratio.exp(), [0.95, 0.9].map(interval), n, better, 0.0)
}

/// Student's quantile above the middle, by bisection of the distribution: the library's own inverse is off by a few per
/// cent at two degrees of freedom.
fn quantile(freedom: f64, below: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, freedom).expect("there is a degree of freedom, or more");
    let (mut low, mut high) = (0.0, 1.0);
    while student.cdf(high) < below {
        high *= 2.0;
    }
    for _ in 0..60 {
        let tried = f64::midpoint(low, high);
        if student.cdf(tried) < below {
            low = tried;
        } else {
            high = tried;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compare::Outcome;

    fn reach(ci: Option<Interval>, ratio: f64) -> f64 {
        let ci = ci.expect("there is one");
        let (down, up) = ((ratio / ci.low).ln(), (ci.high / ratio).ln());
        assert!((down - up).abs() < 1e-9, "{ci:?} is not symmetric in logs");
        up
    }

    #[test]
    fn a_quantile_is_that_of_the_tables() {
        for (freedom, below, expected) in [
            (1.0, 0.975, 12.706),
            (2.0, 0.975, 4.303),
            (2.0, 0.8, 1.061),
            (4.0, 0.95, 2.132),
            (4.0, 0.975, 2.776),
            (30.0, 0.975, 2.042),
        ] {
            let found = quantile(freedom, below);
            assert!((found - expected).abs() < 6e-4, "{freedom} {below}: {found}");
        }
    }

    /// Figures whose logarithms are these.
    fn figures(logs: &[f64]) -> Vec<f64> {
        logs.iter().map(|log| log.exp()).collect()
    }

    #[test]
    fn equal_sides_have_the_interval_of_student_and_unequal_ones_that_of_welch() {
        // Variances of 0.01 and 0.01, three runs each: four degrees of freedom.
        let (a, b) = (figures(&[-0.1, 0.0, 0.1]), figures(&[0.1, 0.2, 0.3]));
        let equal = compare_runs(&a, &b, Better::Lower).unwrap();
        assert!((equal.ratio - 0.2_f64.exp()).abs() < 1e-9 && equal.n == 6);
        assert!((reach(equal.ci95, equal.ratio) - 2.7764 * 0.081_65).abs() < 1e-4);
        assert!((reach(equal.ci90, equal.ratio) - 2.1318 * 0.081_65).abs() < 1e-4);
        // Variances of 0.01 and 0.000_1: hardly more than the two degrees of the first.
        let still = figures(&[0.19, 0.2, 0.21]);
        let welch = compare_runs(&a, &still, Better::Lower).unwrap();
        let error = (0.010_1_f64 / 3.0).sqrt();
        let freedom = 2.0 * 0.010_1_f64.powi(2) / (0.01_f64.powi(2) + 0.000_1_f64.powi(2));
        assert!((reach(welch.ci95, welch.ratio) - quantile(freedom, 0.975) * error).abs() < 1e-9);
        assert!((2.0..2.1).contains(&freedom));
    }

    #[test]
    fn one_run_is_held_against_where_another_of_the_other_side_could_lie() {
        let many = figures(&[-0.1, 0.0, 0.1]);
        for (a, b) in [(&many[..], &[1.0][..]), (&[1.0], &many)] {
            let compared = compare_runs(a, b, Better::Lower).unwrap();
            let error = (0.01_f64 * (1.0 + 1.0 / 3.0)).sqrt();
            assert!(
                (reach(compared.ci95, 1.0) - 4.3027 * error).abs() < 1e-4,
                "{compared:?}"
            );
            assert_eq!(compared.n, 4);
        }
        assert_eq!(compare_runs(&[1.0], &[1.0], Better::Lower).unwrap().ci95, None);
    }

    #[test]
    fn runs_without_any_spread_have_an_interval_without_width() {
        let compared = compare_runs(&[1.0; 3], &[1.0; 3], Better::Lower).unwrap();
        assert_eq!(compared.outcome, Outcome::Same);
        assert_eq!(compared.ci95.map(|ci| ci.half_width()), Some(0.0));
    }

    #[test]
    fn fewer_than_six_runs_are_never_the_same() {
        let same = |n: usize, m: usize| {
            let compared = compare_runs(&vec![1.0; n], &vec![1.0; m], Better::Lower).unwrap();
            compared.outcome == Outcome::Same
        };
        assert!(same(3, 3) && same(5, 1) && !same(3, 2) && !same(4, 1));
    }

    #[test]
    fn pairs_of_runs_have_the_interval_of_student() {
        let ratios = figures(&[0.1, 0.2, 0.3]);
        let compared = compare_pairs_of_runs(&ratios, Better::Lower).unwrap();
        assert!((compared.ratio - 0.2_f64.exp()).abs() < 1e-9 && compared.n == 6);
        assert!((reach(compared.ci95, compared.ratio) - 4.3027 * (0.01_f64 / 3.0).sqrt()).abs() < 1e-4);
        assert_eq!(
            compare_pairs_of_runs(&ratios[..1], Better::Lower).unwrap().ci95,
            None
        );
        assert!(compare_pairs_of_runs(&[], Better::Lower).is_err());
    }

    #[test]
    fn the_spread_is_that_of_both_sides_each_about_its_own_mean() {
        let (a, b) = (figures(&[-0.1, 0.0, 0.1]), figures(&[5.0, 5.2]));
        // Squares of 0.02 and 0.02 over three degrees.
        let spread = between_runs(&a, &b).unwrap().unwrap();
        assert!((spread - (0.04_f64 / 3.0).sqrt()).abs() < 1e-9, "{spread}");
        assert!(between_runs(&a, &[0.0]).is_err());
    }

    #[test]
    fn a_level_is_of_all_cases_and_a_few_that_changed_do_not_move_it() {
        let cases: Vec<Vec<f64>> = (1..=12)
            .map(|case| {
                let own = f64::from(case);
                vec![own, 1.1 * own, if case > 9 { 5.0 * own } else { 1.2 * own }]
            })
            .collect();
        let levels = run_levels(&cases).unwrap().unwrap();
        assert!((levels[1] / levels[0] - 1.1).abs() < 1e-9, "{levels:?}");
        assert!((levels[2] / levels[0] - 1.2).abs() < 1e-9, "{levels:?}");
        assert!(run_levels(&vec![vec![1.0, -1.0]; 12]).is_err());
    }

    proptest! {
        #[test]
        fn swapping_the_sides_turns_the_ratio_and_its_interval_over(
            a in prop::collection::vec(1.0..9.0_f64, 1..6),
            b in prop::collection::vec(1.0..9.0_f64, 2..6),
        ) {
            let there = compare_runs(&a, &b, Better::Lower).unwrap();
            let back = compare_runs(&b, &a, Better::Lower).unwrap();
            prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
            let (there, back) = (there.ci95.unwrap(), back.ci95.unwrap());
            prop_assert!((there.low * back.high).ln().abs() < 1e-6);
            prop_assert!((there.high * back.low).ln().abs() < 1e-6);
        }
    }
}
