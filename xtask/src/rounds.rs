//! Values by cell and round: measured in an order shuffled anew each round, compared within rounds.

use std::collections::BTreeMap;
use std::fmt::Display;

use anyhow::Result;
use fastrand::Rng;
use threadgauge_stats::{Estimate, paired_ratio};

use crate::figures::{Spread, spread_of};
use crate::shell::progress;

/// The error rate of every interval.
const ALPHA: f64 = 0.05;

/// What is measured once a round.
pub trait Cell: Copy + Ord + Display {}
impl<C: Copy + Ord + Display> Cell for C {}

/// What each round has of each cell; a round in which it failed has nothing.
#[derive(Debug)]
pub struct Rounds<C> {
    values: BTreeMap<C, Vec<Option<f64>>>,
    /// By reason: what failed, and in how many rounds.
    failures: BTreeMap<String, BTreeMap<C, usize>>,
    rounds: usize,
}

impl<C: Cell> Rounds<C> {
    /// Measures every cell once a round. Groups are shuffled, and so are the cells of a group, which stay together:
    /// they are what will be compared.
    pub fn measure(
        name: &str,
        mut groups: Vec<Vec<C>>,
        rounds: usize,
        rng: &mut Rng,
        mut measure: impl FnMut(C) -> Result<f64>,
    ) -> Self {
        let mut measured = Self {
            values: BTreeMap::new(),
            failures: BTreeMap::new(),
            rounds,
        };
        for round in 1..=rounds {
            rng.shuffle(&mut groups);
            for group in &mut groups {
                rng.shuffle(group);
                for &cell in &*group {
                    progress(&format!("{name}: round {round} of {rounds}: {cell}"));
                    measured.enter(cell, measure(cell));
                }
            }
        }
        progress("");
        measured
    }

    fn enter(&mut self, cell: C, result: Result<f64>) {
        let value = result
            .map_err(|error| {
                let cells = self.failures.entry(format!("{error:#}")).or_default();
                *cells.entry(cell).or_default() += 1;
            })
            .ok();
        self.values.entry(cell).or_default().push(value);
    }

    /// By round.
    fn of(&self, cell: C) -> &[Option<f64>] {
        self.values.get(&cell).map_or(&[], Vec::as_slice)
    }

    /// A paragraph on what could not be measured, with the reasons; empty where all was.
    pub fn missing(&self) -> String {
        let failed = |(cell, &times): (&C, &usize)| match times == self.rounds {
            true => cell.to_string(),
            false => format!("{cell} (in {times} of {} rounds)", self.rounds),
        };
        let list: String = self
            .failures
            .iter()
            .map(|(reason, cells)| {
                let cells: Vec<String> = cells.iter().map(failed).collect();
                format!("- {reason}: {}\n", cells.join("; "))
            })
            .collect();
        match list.is_empty() {
            true => list,
            false => format!("\nNot measured:\n\n{list}"),
        }
    }

    /// Of all rounds that have it.
    pub fn spread(&self, cell: C) -> Option<Spread> {
        spread_of(self.of(cell).iter().copied().flatten())
    }

    /// The values of the rounds that have both.
    fn pairs(&self, a: C, b: C) -> (Vec<f64>, Vec<f64>) {
        let both = self.of(a).iter().zip(self.of(b));
        both.filter_map(|(a, b)| Some(((*a)?, (*b)?))).unzip()
    }

    /// `a` over `b`, paired by round; nothing where no round has both.
    pub fn ratio(&self, a: C, b: C) -> Option<Estimate> {
        let (a, b) = self.pairs(a, b);
        // Where a value is nought, or there is none, there is no ratio either.
        paired_ratio(&b, &a, ALPHA).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    /// `b` always takes twice as long as `a`, on a machine that grows slower; `c` fails in its second round.
    fn measured() -> Rounds<&'static str> {
        let mut calls = BTreeMap::new();
        Rounds::measure(
            "test",
            vec![vec!["a", "b"], vec!["c"]],
            7,
            &mut Rng::with_seed(1),
            |cell| {
                let call = calls.entry(cell).or_insert(0);
                *call += 1;
                let slowness = f64::from(*call);
                match cell {
                    "c" if *call == 2 => bail!("no port"),
                    "b" => Ok(2.0 * slowness),
                    _ => Ok(slowness),
                }
            },
        )
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let measured = measured();
        let ratio = measured.ratio("b", "a").unwrap();
        let ci = ratio.ci.unwrap();
        assert!((ratio.estimate - 2.0).abs() < 1e-12 && (ci.high - ci.low).abs() < 1e-12);
        assert_eq!(measured.spread("a").unwrap().median, 4.0);
    }

    #[test]
    fn a_round_that_failed_is_left_out_of_pairs_and_said() {
        let measured = measured();
        let ratio = measured.ratio("c", "a").unwrap();
        assert_eq!((ratio.n, ratio.estimate), (6, 1.0));
        assert_eq!(
            measured.missing(),
            "\nNot measured:\n\n- no port: c (in 1 of 7 rounds)\n"
        );
        assert_eq!(measured.values["c"][1], None);
    }

    #[test]
    fn a_cell_that_was_not_measured_has_no_figures() {
        let measured = measured();
        assert_eq!((measured.ratio("a", "d"), measured.spread("d")), (None, None));
    }
}
