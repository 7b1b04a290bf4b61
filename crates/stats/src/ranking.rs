//! Several comparisons at once.
//!
//! Of twenty comparisons without any difference one is "significant" at 5 %. Holm's adjustment
//! keeps the chance of a single false one among them all at 5 %, and a ranking says what it could
//! not separate: such cases share a letter. With few rounds and many pairs that adjustment finds
//! nothing, however far cases lie apart: then all pairs are judged together, or there are no letters.

use crate::StatsError;
use crate::compare::Better;
use crate::error::positive;
use crate::fit::Agreement;
use crate::joint::jointly_apart;
use crate::select::{middle, sorted};
use crate::signed_rank::{log_ratios, signed_rank_p};

/// The chance of one false separation in a ranking.
const FAMILY: f64 = 0.05;

/// How far two orders of the same things agree: Kendall's tau-b of their values, place by place. 1 where every pair
/// stands alike in both, -1 where none does, no unit. Takes n log n time.
///
/// `None` where there are not equally many, fewer than two, or one that is not finite, and where all of one side are
/// equal, so that there is no order.
///
/// Source: Kendall, *Rank Correlation Methods* (1975).
///
/// ```
/// use threadgauge_stats::kendall_tau;
///
/// assert_eq!(kendall_tau(&[1.0, 2.0, 3.0], &[10.0, 20.0, 15.0]), Some(1.0 / 3.0)); // one pair of three changes
/// assert_eq!(kendall_tau(&[1.0, 1.0], &[1.0, 2.0]), None);
/// ```
#[must_use]
pub fn kendall_tau(a: &[f64], b: &[f64]) -> Option<f64> {
    let is_finite = a.iter().chain(b).all(|value| value.is_finite());
    if a.len() != b.len() || !is_finite {
        return None;
    }
    let Agreement {
        pairs,
        tied_a,
        tied_b,
        score,
    } = Agreement::of(a, b);
    let ordered = ((pairs - tied_a) as f64 * (pairs - tied_b) as f64).sqrt();
    (ordered > 0.0).then(|| score as f64 / ordered)
}

/// Adjusts p values for being several, in their original order (no unit).
///
/// An adjusted value of at most alpha is a finding, and the chance of one false finding among all
/// is alpha at most, however the comparisons depend on each other. NaN stays NaN, below no
/// threshold, and still counts as a comparison.
///
/// Source: Holm, *Scandinavian Journal of Statistics* 6 (1979).
///
/// ```
/// use threadgauge_stats::holm;
///
/// assert_eq!(holm(&[0.01, 0.5, 0.02]), [0.03, 0.5, 0.04]);
/// ```
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|i| !p[*i].is_nan()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![f64::NAN; p.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[index]).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

/// Cases in order, and by what they were told apart.
///
/// ```
/// use threadgauge_stats::{Better, Separation, rank};
///
/// let order = rank(&[vec![3.0], vec![2.0]], Better::Lower)?;
/// assert_eq!(order.cases[0].index, 1); // the better one
/// assert_eq!(order.separation, Separation::Nothing); // one round separates nothing
/// assert_eq!(order.cases[0].letters, "");
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Best first.
    pub cases: Vec<Ranked>,
    /// What the letters rest on.
    pub separation: Separation,
}

/// A case's place in a ranking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    /// Position of the case in the input, from 0.
    pub index: usize,
    /// Its letters. Two cases that share one could not be separated; "a" goes to the best. None where nothing could be.
    pub letters: String,
}

/// How cases were told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separation {
    /// Each pair by a test of its own, adjusted for all.
    Pairs,
    /// All pairs together: there are too few rounds to adjust each.
    Joint,
    /// By nothing: there are too few rounds. What is left are the intervals.
    Nothing,
}

/// Ranks cases whose values are paired by position, best median first (METHOD rule 8).
///
/// Every two cases are compared by the exact signed-rank test of their log ratios, all p values are
/// adjusted by [`holm`], and cases not separable at 5 % share a letter. Separating `k` cases so takes
/// rounds: with n rounds the least p value is `2/2^n`, and it must stay below 5 % times
/// `2/(k·(k-1))`. Seven rounds can separate 3 cases at most, ten rounds 7, twenty rounds 229. With
/// fewer, from seven rounds on, all pairs are judged together: the largest studentised mean of their
/// log ratios under flips of whole rounds, in steps. With fewer than seven nothing is separated, and
/// there are no letters.
///
/// Source: Piepho, *Journal of Computational and Graphical Statistics* 13 (2004), for the letters.
///
/// # Errors
///
/// A case without values, cases of different length, or a value that is not finite and above 0.
///
/// ```
/// use threadgauge_stats::{Better, rank};
///
/// let base = [10.0, 10.3, 9.9, 10.1, 10.2, 9.8, 10.0, 10.1, 9.9, 10.2];
/// let slow = base.map(|v| v * 1.5).to_vec();
/// let twin = base.iter().rev().copied().collect();
/// let order = rank(&[slow, base.to_vec(), twin], Better::Lower)?;
/// let letters: Vec<_> = order.cases.iter().map(|r| (r.index, r.letters.as_str())).collect();
/// assert_eq!(letters, [(1, "a"), (2, "a"), (0, "b")]);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn rank(groups: &[Vec<f64>], better: Better) -> Result<Order, StatsError> {
    let mut order = Vec::with_capacity(groups.len());
    for (index, group) in groups.iter().enumerate() {
        positive(group)?;
        order.push((index, middle(&sorted(group))));
    }
    order.sort_by(|(_, a), (_, b)| match better {
        Better::Lower => a.total_cmp(b),
        Better::Higher => b.total_cmp(a),
    });
    let order: Vec<usize> = order.into_iter().map(|(index, _)| index).collect();
    let ordered: Vec<&[f64]> = order.iter().map(|index| &groups[*index][..]).collect();
    let (separation, separable) = separated(&ordered)?;
    let letters = match separation {
        Separation::Nothing => vec![String::new(); groups.len()],
        _ => letters(groups.len(), &separable),
    };
    let cases = order.into_iter().zip(letters);
    Ok(Order {
        cases: cases.map(|(index, letters)| Ranked { index, letters }).collect(),
        separation,
    })
}

/// The pairs that can be told apart, the better one first, and by what.
fn separated(ordered: &[&[f64]]) -> Result<(Separation, Vec<(usize, usize)>), StatsError> {
    let places = ordered.len();
    let pairs: Vec<(usize, usize)> = (0..places)
        .flat_map(|first| (first + 1..places).map(move |second| (first, second)))
        .collect();
    let p: Result<Vec<f64>, StatsError> = pairs
        .iter()
        .map(|(first, second)| {
            Ok(signed_rank_p(
                &log_ratios(ordered[*first], ordered[*second])?,
                0.0,
            ))
        })
        .collect();
    let p = p?;
    let rounds = ordered.first().map_or(0, |rounds| rounds.len());
    let least_p = 2.0 * 0.5_f64.powf(rounds as f64);
    if least_p * pairs.len() as f64 <= FAMILY {
        let adjusted = pairs.into_iter().zip(holm(&p));
        let apart = adjusted.filter(|(_, p)| *p <= FAMILY).map(|(pair, _)| pair);
        return Ok((Separation::Pairs, apart.collect()));
    }
    let logs = |of: &&[f64]| of.iter().map(|v| v.ln()).collect();
    let jointly = jointly_apart(&ordered.iter().map(logs).collect::<Vec<_>>(), FAMILY);
    Ok(jointly.map_or((Separation::Nothing, Vec::new()), |apart| {
        (Separation::Joint, apart)
    }))
}

/// The compact letter display: the letters of each of `k` places, such that two places share one
/// exactly when they are not a separable pair. Insert and absorb, after Piepho.
fn letters(k: usize, separable: &[(usize, usize)]) -> Vec<String> {
    // A column is a set of places that share a letter, and at first all share one.
    let mut columns = vec![vec![true; k]];
    for &(i, j) in separable {
        let split = |column: &Vec<bool>| {
            [i, j].map(|without| {
                let mut column = column.clone();
                column[without] = false;
                column
            })
        };
        columns = absorb(columns.iter().flat_map(split).collect());
    }
    columns.sort_by(|a, b| b.cmp(a)); // the column of the best place first
    (0..k)
        .map(|place| {
            (0..columns.len())
                .filter(|c| columns[*c][place])
                .map(letter)
                .collect()
        })
        .collect()
}

/// Drops every column that another one contains.
fn absorb(columns: Vec<Vec<bool>>) -> Vec<Vec<bool>> {
    let within = |a: &[bool], b: &[bool]| a.iter().zip(b).all(|(a, b)| a <= b);
    let mut kept: Vec<Vec<bool>> = Vec::with_capacity(columns.len());
    for column in columns {
        if !kept.iter().any(|k| within(&column, k)) {
            kept.retain(|k| !within(k, &column));
            kept.push(column);
        }
    }
    kept
}

/// a to z, then a1 to z1 and so on.
fn letter(column: usize) -> String {
    let letter = char::from(b'a' + (column % 26) as u8);
    if column < 26 {
        letter.to_string()
    } else {
        format!("{letter}{}", column / 26)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_orders_agree_as_far_as_their_pairs_do() {
        let five = [1.0, 2.0, 3.0, 4.0, 5.0];
        let backwards = [5.0, 4.0, 3.0, 2.0, 1.0];
        assert_eq!(kendall_tau(&five, &five), Some(1.0));
        assert_eq!(kendall_tau(&five, &backwards), Some(-1.0));
        // Of ten pairs two change.
        assert_eq!(kendall_tau(&five, &[2.0, 1.0, 3.0, 5.0, 4.0]), Some(0.6));
        assert_eq!(kendall_tau(&backwards, &[2.0, 1.0, 3.0, 5.0, 4.0]), Some(-0.6));
    }

    #[test]
    fn ties_count_for_neither_side_and_without_an_order_there_is_no_tau() {
        // Of six pairs one is equal in b; the other five stand alike.
        let (four, tied) = ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 3.0]);
        for tau in [kendall_tau(&four, &tied), kendall_tau(&tied, &four)] {
            assert!((tau.unwrap() - 5.0 / 30.0_f64.sqrt()).abs() < 1e-12, "{tau:?}");
        }
        assert_eq!(kendall_tau(&[1.0, 2.0], &[3.0, 4.0]), Some(1.0));
        for (a, b) in [
            (&[1.0, 2.0][..], &[3.0, 3.0][..]),
            (&[1.0], &[2.0]),
            (&[], &[]),
            (&[1.0, 2.0], &[1.0, 2.0, 3.0]),
            (&[1.0, f64::NAN], &[1.0, 2.0]),
        ] {
            assert_eq!(kendall_tau(a, b), None, "{a:?} {b:?}");
        }
    }

    /// The example of Holm's procedure in most textbooks.
    #[test]
    fn holm_is_the_published_procedure() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (ours, theirs) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((ours - theirs).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn a_p_value_that_is_none_stays_none_and_still_counts() {
        let adjusted = holm(&[f64::NAN, 0.02]);
        assert!(adjusted[0].is_nan() && adjusted[1] == 0.04);
    }

    #[test]
    fn overlapping_neighbours_share_letters_in_a_chain() {
        // 0 and 2 differ, 1 differs from neither
        assert_eq!(letters(3, &[(0, 2)]), ["a", "ab", "b"]);
        assert_eq!(letters(3, &[(0, 1), (0, 2), (1, 2)]), ["a", "b", "c"]);
        assert_eq!(letters(2, &[]), ["a", "a"]);
        // No letter says only what another says.
        assert_eq!(letters(4, &[(0, 2), (0, 3), (1, 3)]), ["a", "ab", "bc", "c"]);
        assert_eq!(
            letters(4, &[(0, 2), (1, 2), (0, 3), (1, 3)]),
            ["a", "a", "b", "b"]
        );
        assert_eq!(letters(0, &[]), Vec::<String>::new());
        assert_eq!((letter(25), letter(26)), ("z".into(), "a1".into()));
    }

    #[test]
    fn the_best_comes_first_in_either_direction() {
        let groups = [vec![1.0; 8], vec![3.0; 8], vec![2.0; 8]];
        let indices = |better| {
            rank(&groups, better)
                .expect("positive")
                .cases
                .iter()
                .map(|r| r.index)
                .collect::<Vec<_>>()
        };
        assert_eq!(indices(Better::Lower), [0, 2, 1]);
        assert_eq!(indices(Better::Higher), [1, 2, 0]);
    }

    /// Cases that take so many times as long as the first, in so many rounds that each differ by some per cent.
    fn times(factors: &[f64], rounds: usize) -> Vec<Vec<f64>> {
        let mut rng = fastrand::Rng::with_seed(8);
        let mut noise = || 1.0 + 0.02 * (rng.f64() + rng.f64() + rng.f64() - 1.5);
        let mut case = |factor: &f64| (0..rounds).map(|_| factor * noise()).collect();
        factors.iter().map(&mut case).collect()
    }

    /// By [`rank`]'s own words: with so many rounds so many cases, and no more.
    #[test]
    fn pairs_have_tests_of_their_own_as_long_as_rounds_suffice() {
        let separation = |cases, rounds| {
            let groups = times(&vec![1.0; cases], rounds);
            rank(&groups, Better::Lower).unwrap().separation
        };
        for (rounds, cases) in [(7, 3), (8, 4), (10, 7), (12, 14)] {
            assert_eq!(separation(cases, rounds), Separation::Pairs, "{rounds} rounds");
            assert_eq!(
                separation(cases + 1, rounds),
                Separation::Joint,
                "{rounds} rounds"
            );
        }
        assert_eq!(separation(4, 6), Separation::Nothing);
    }

    fn letters_of(order: &Order) -> Vec<&str> {
        order.cases.iter().map(|case| case.letters.as_str()).collect()
    }

    #[test]
    fn cases_forty_times_apart_share_no_letter_however_few_rounds_there_are() {
        let factors = [1.0, 1.0, 1.01, 3.0, 3.01, 12.0, 41.7, 41.8];
        for rounds in 2..16 {
            let order = rank(&times(&factors, rounds), Better::Lower).unwrap();
            let letters = letters_of(&order);
            if rounds < 7 {
                assert_eq!(
                    (order.separation, letters),
                    (Separation::Nothing, vec![""; 8]),
                    "{rounds} rounds"
                );
                continue;
            }
            let by = if rounds < 11 {
                Separation::Joint
            } else {
                Separation::Pairs
            };
            assert_eq!(order.separation, by, "{rounds} rounds");
            for (far, near) in [(6, 0), (7, 2), (5, 0), (6, 5), (3, 0), (4, 2)] {
                let shared = letters[far].chars().any(|letter| letters[near].contains(letter));
                assert!(!shared, "{rounds} rounds: {letters:?}");
            }
            assert!(
                letters[0].contains('a') && letters[1].contains('a'),
                "{rounds} rounds: {letters:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_ranked_is_refused() {
        assert_eq!(rank(&[], Better::Lower).map(|order| order.cases), Ok(vec![]));
        assert!(rank(&[vec![]], Better::Lower).is_err());
        assert!(rank(&[vec![1.0], vec![1.0, 2.0]], Better::Lower).is_err());
        assert!(rank(&[vec![1.0], vec![f64::NAN]], Better::Lower).is_err());
    }

    proptest! {
        #[test]
        fn a_letter_is_shared_exactly_by_those_not_separable(
            k in 1_usize..7,
            chosen in prop::collection::vec(any::<bool>(), 21),
        ) {
            let all: Vec<_> = (0..k).flat_map(|i| (i + 1..k).map(move |j| (i, j))).collect();
            let separable: Vec<_> = all.iter().zip(&chosen).filter(|(_, c)| **c).map(|(p, _)| *p).collect();
            let letters = letters(k, &separable);
            for pair in all {
                let shared = letters[pair.0].chars().any(|l| letters[pair.1].contains(l));
                prop_assert_eq!(shared, !separable.contains(&pair));
            }
        }

        #[test]
        fn adjustment_raises_and_keeps_the_order(p in prop::collection::vec(0.0..1.0_f64, 1..20)) {
            let adjusted = holm(&p);
            for i in 0..p.len() {
                prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
