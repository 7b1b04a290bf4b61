//! Two cases set against each other by round: which rounds count, and what disturbed ones can say (METHOD rules 5, 6
//! and 10). One rule for two cases of a run, and for one case of two runs that took turns.

use std::collections::BTreeMap;

use threadgauge_stats::{Better, Comparison, Outcome, StatsError, compare_paired};

use crate::{Params, Status, StoredSample, THROTTLED_S};

/// Cases whose mean foreign loads, or mean times lost to a quota, differ by more CPUs than this were not disturbed
/// alike.
const ALIKE_CPUS: f64 = 0.03;

/// What a case ran on and beside: what decides whether a disturbance can make a difference between two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RanBeside {
    /// How many CPUs it was pinned to, where it says.
    pub cpus: Option<u64>,
    /// CPUs' worth of foreign load beside it, on the mean.
    pub foreign_cpus: f64,
    /// CPUs' worth of time that a quota took from it, on the mean. A case that computes loses it, one that sleeps does
    /// not.
    pub throttled_cpus: f64,
}

impl RanBeside {
    /// Of a case with these parameters and samples; no load where no sample says.
    #[must_use]
    pub fn of<'a>(params: &Params, samples: impl IntoIterator<Item = &'a StoredSample>) -> Self {
        let samples: Vec<&StoredSample> = samples.into_iter().collect();
        let loads = samples.iter().filter_map(|s| s.sample.noise.get("foreign_cpus"));
        let throttled = samples.iter().filter(|s| s.sample.status == Status::Ok).map(|s| {
            let lost_s = s.sample.noise.get(THROTTLED_S).copied().unwrap_or(0.0);
            lost_s / (s.wall_ns as f64 / 1e9).max(f64::MIN_POSITIVE)
        });
        Self {
            cpus: params.int("cpus"),
            foreign_cpus: mean(&loads.copied().collect::<Vec<_>>()),
            throttled_cpus: mean(&throttled.collect::<Vec<_>>()),
        }
    }
}

/// 0 of none.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Whether what disturbed these cases can make no difference between them.
///
/// ```
/// # use threadgauge_results::{RanBeside, disturbed_alike};
/// let beside = |cpus, foreign_cpus, throttled_cpus| RanBeside { cpus: Some(cpus), foreign_cpus, throttled_cpus };
/// assert!(disturbed_alike(&[beside(1, 0.10, 0.0), beside(1, 0.12, 0.0)]));
/// assert!(!disturbed_alike(&[beside(1, 0.10, 0.0), beside(1, 0.14, 0.0)]));
/// assert!(!disturbed_alike(&[beside(1, 0.10, 0.0), beside(2, 0.10, 0.0)]));
/// assert!(!disturbed_alike(&[beside(1, 0.10, 0.5), beside(1, 0.10, 0.0)]));
/// ```
#[must_use]
pub fn disturbed_alike(cases: &[RanBeside]) -> bool {
    let are_near = |of: fn(&RanBeside) -> f64| {
        let loads = cases.iter().map(of);
        let spread = loads.clone().fold(f64::NEG_INFINITY, f64::max) - loads.fold(f64::INFINITY, f64::min);
        spread <= ALIKE_CPUS
    };
    let same_cpus = cases.windows(2).all(|two| two[0].cpus == two[1].cpus);
    same_cpus && are_near(|case| case.foreign_cpus) && are_near(|case| case.throttled_cpus)
}

/// The values of the rounds that both have, in order.
#[must_use]
pub fn paired(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>) -> (Vec<f64>, Vec<f64>) {
    a.iter()
        .filter_map(|(round, x)| Some((*x, *b.get(round)?)))
        .unzip()
}

/// A case's figures by round.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Of undisturbed rounds.
    pub undisturbed: &'a BTreeMap<u32, f64>,
    /// Of all rounds.
    pub all: &'a BTreeMap<u32, f64>,
    /// What it ran beside.
    pub ran_beside: RanBeside,
}

/// What a comparison by round says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByRound {
    /// The figures and the word.
    pub comparison: Comparison,
    /// Whether disturbed rounds count in it.
    pub disturbed: bool,
    /// Why disturbed rounds decide nothing, where that is so.
    pub why: Option<&'static str>,
}

/// Compares times, `b` with `a`: by their undisturbed pairs of rounds, where there are `fewest`; else by all pairs,
/// which never show that two are the same, and say something only of cases that were disturbed alike.
///
/// # Errors
///
/// No pair of rounds, or a value that is not finite and above 0.
pub fn compare_by_round(a: Side<'_>, b: Side<'_>, fewest: usize) -> Result<ByRound, StatsError> {
    let few = paired(a.undisturbed, b.undisturbed);
    let all = paired(a.all, b.all);
    let disturbed = few.0.len() < fewest && few.0.len() < all.0.len();
    let (x, y) = if disturbed { all } else { few };
    let mut comparison = compare_paired(&x, &y, Better::Lower)?;
    let alike = disturbed_alike(&[a.ran_beside, b.ran_beside]);
    // Load of other programs may hide a difference. Unequal on the two sides, it may also make one.
    let why = match comparison.outcome {
        _ if !disturbed => None,
        _ if !alike => Some("too few undisturbed rounds, and the two were not disturbed alike"),
        Outcome::Same => Some("disturbed rounds do not show that two are the same"),
        _ => None,
    };
    if why.is_some() {
        comparison.outcome = Outcome::Unknown { rounds_needed: None };
    }
    Ok(ByRound {
        comparison,
        disturbed,
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    /// Ten rounds of about this figure, of which so many were undisturbed, beside so much load.
    fn said(factor: f64, undisturbed: u32, foreign_cpus: [f64; 2]) -> (String, bool, bool) {
        let rounds = |of: f64| -> BTreeMap<u32, f64> {
            (1..=10)
                .map(|round| (round, of * (1.0 + 0.001 * f64::from(round % 3))))
                .collect()
        };
        let all = [rounds(100.0), rounds(100.0 * factor)];
        let few = all
            .clone()
            .map(|all| all.into_iter().take(undisturbed as usize).collect());
        let side = |i: usize| Side {
            undisturbed: &few[i],
            all: &all[i],
            ran_beside: RanBeside {
                cpus: Some(1),
                foreign_cpus: foreign_cpus[i],
                throttled_cpus: 0.0,
            },
        };
        let compared = compare_by_round(side(0), side(1), 6).unwrap();
        let word = compared.comparison.outcome.to_string();
        (word, compared.disturbed, compared.why.is_some())
    }

    #[test]
    fn undisturbed_pairs_decide_where_there_are_enough_and_else_all_of_cases_that_were_disturbed_alike() {
        let of = |word: &str, disturbed, why| (word.to_owned(), disturbed, why);
        // The load does not matter where it disturbed no round that counts.
        assert_eq!(said(1.2, 6, [0.0, 0.9]), of("slower", false, false));
        assert_eq!(said(1.0, 6, [0.0, 0.9]), of("same", false, false));
        assert_eq!(said(1.2, 5, [0.40, 0.42]), of("slower", true, false));
        assert_eq!(said(0.8, 0, [0.40, 0.42]), of("faster", true, false));
        assert_eq!(said(1.0, 5, [0.40, 0.42]), of("unknown", true, true));
        assert_eq!(said(1.2, 5, [0.40, 0.44]), of("unknown", true, true));
    }

    #[test]
    fn few_rounds_that_all_count_are_not_disturbed() {
        let few: BTreeMap<u32, f64> = (1..=4).map(|round| (round, 10.0)).collect();
        let side = Side {
            undisturbed: &few,
            all: &few,
            ran_beside: RanBeside {
                cpus: None,
                ..RanBeside::default()
            },
        };
        let compared = compare_by_round(side, side, 6).unwrap();
        assert!(!compared.disturbed && compared.comparison.n == 4, "{compared:?}");
        let none = BTreeMap::new();
        let empty = Side {
            undisturbed: &none,
            all: &none,
            ..side
        };
        assert!(compare_by_round(side, empty, 6).is_err());
    }

    #[test]
    fn what_a_case_ran_beside_is_the_mean_of_its_samples_and_what_a_quota_took_of_those_that_were_measured() {
        let sample = |status, wall_ns, noise: &[(&str, f64)]| StoredSample {
            experiment: "e".to_owned(),
            case: "e/cpus=2".to_owned(),
            round: 1,
            copy: 0,
            nth_try: 0,
            attempt: 0,
            gated: true,
            started: String::new(),
            wall_ns,
            sample: Sample {
                noise: noise
                    .iter()
                    .map(|(of, value)| ((*of).to_owned(), *value))
                    .collect(),
                ..Sample::without_figures(status, "")
            },
        };
        let samples = [
            sample(
                Status::Ok,
                4_000_000_000,
                &[("foreign_cpus", 0.3), (THROTTLED_S, 1.0)],
            ),
            sample(
                Status::Ok,
                500_000_000,
                &[("foreign_cpus", 0.7), (THROTTLED_S, 0.25)],
            ),
            sample(Status::Ok, 2_000_000_000, &[]),
            sample(
                Status::Failed,
                1_000_000_000,
                &[("foreign_cpus", 0.2), (THROTTLED_S, 1.0)],
            ),
        ];
        let of = RanBeside::of(&Params::new().with("cpus", 2_u64), &samples);
        // Of the three that were measured a quarter, a half and nothing.
        let expected = RanBeside {
            cpus: Some(2),
            foreign_cpus: 0.4,
            throttled_cpus: 0.25,
        };
        assert_eq!(of.cpus, expected.cpus);
        assert!((of.foreign_cpus - expected.foreign_cpus).abs() < 1e-12, "{of:?}");
        assert!(
            (of.throttled_cpus - expected.throttled_cpus).abs() < 1e-12,
            "{of:?}"
        );
        assert_eq!(RanBeside::of(&Params::new(), []), RanBeside::default());
    }
}
