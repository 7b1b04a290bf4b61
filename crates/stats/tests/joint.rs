//! Cells judged at once, tried on noise whose truth is known: how often are they said to lie beyond an edge on which
//! all of them lie?
//!
//! `docs/method.md` quotes the table from here, in whole per cent, so that the last bit of a logarithm on another
//! machine does not change it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use threadgauge_stats::{Better, Separation, holm, jointly_beyond, rank, signed_rank_p};

/// The error of one edge: half of what the intervals have.
const ERROR: f64 = 0.025;
/// What the joint test may err by in any noise, of an error of 5 % at both edges.
const MOST: f64 = 0.055;
/// What may be left where it gives way to Holm: the signed-rank test is not exact there either.
const MOST_OF_HOLM: f64 = 0.11;

/// Noise of cells in a round, whose Hodges–Lehmann centre is 0.
#[derive(Clone, Copy)]
enum Noise {
    Normal,
    /// Every tenth value is ten times as far off.
    Outliers,
    /// From the quietest cell to the noisiest it grows tenfold.
    Unequal,
    /// Half of the variance is common to all cells, as a common denominator's is.
    Common,
    /// A ratio of two times that can only be disturbed upwards, alike.
    OneSided,
    /// The same, the denominator's noise twice or four times the numerator's; the tail is on the inner side.
    Denominator(f64),
    /// The numerator's the larger.
    Numerator(f64),
}

const NOISES: [(&str, Noise); 9] = [
    ("normal", Noise::Normal),
    ("with outliers", Noise::Outliers),
    ("unequal, 1 to 10", Noise::Unequal),
    ("correlated, 0.5", Noise::Common),
    ("ratio, both sides one-sided", Noise::OneSided),
    ("… the denominator's twice", Noise::Denominator(2.0)),
    ("… four times", Noise::Denominator(4.0)),
    ("… the numerator's twice", Noise::Numerator(2.0)),
    ("… four times", Noise::Numerator(4.0)),
];

fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

fn one_sided(rng: &mut fastrand::Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

impl Noise {
    fn draw(self, cell: usize, cells: usize, common: f64, rng: &mut fastrand::Rng) -> f64 {
        match self {
            Self::Normal => normal(rng),
            Self::Outliers if rng.f64() < 0.1 => 10.0 * normal(rng),
            Self::Outliers => normal(rng),
            Self::Unequal => normal(rng) * 10_f64.powf(cell as f64 / (cells - 1) as f64),
            Self::Common => (normal(rng) + common) * 0.5_f64.sqrt(),
            Self::OneSided => one_sided(rng) - one_sided(rng),
            Self::Denominator(times) => one_sided(rng) - times * one_sided(rng),
            Self::Numerator(times) => times * one_sided(rng) - one_sided(rng),
        }
    }

    /// The median of the mean of two.
    fn centre(self) -> f64 {
        let mut rng = fastrand::Rng::with_seed(1);
        let skewed = matches!(self, Self::Denominator(_) | Self::Numerator(_));
        let mut means: Vec<f64> = (0..if skewed { 100_001 } else { 0 })
            .map(|_| 0.5 * (self.draw(0, 2, 0.0, &mut rng) + self.draw(0, 2, 0.0, &mut rng)))
            .collect();
        means.sort_unstable_by(f64::total_cmp);
        means.get(means.len() / 2).copied().unwrap_or(0.0)
    }
}

/// What decides on one edge: the joint test, and Holm where it says nothing.
fn beyond(cells: &[BTreeMap<u32, f64>]) -> bool {
    jointly_beyond(cells).map_or_else(|| by_holm(cells), |p| p <= ERROR)
}

fn by_holm(cells: &[BTreeMap<u32, f64>]) -> bool {
    let p = |cell: &BTreeMap<u32, f64>| {
        let values: Vec<f64> = cell.values().copied().collect();
        let above = values.iter().sum::<f64>() > 0.0;
        if above { signed_rank_p(&values, 0.0) } else { 1.0 }
    };
    let p: Vec<f64> = cells.iter().map(p).collect();
    holm(&p).iter().any(|p| *p <= 2.0 * ERROR)
}

fn draw(
    noise: Noise,
    centre: f64,
    cells: usize,
    rounds: u32,
    rng: &mut fastrand::Rng,
) -> Vec<BTreeMap<u32, f64>> {
    let mut drawn = vec![BTreeMap::new(); cells];
    for round in 1..=rounds {
        let common = normal(rng);
        for (i, cell) in drawn.iter_mut().enumerate() {
            cell.insert(round, noise.draw(i, cells, common, rng) - centre);
        }
    }
    drawn
}

#[test]
fn cells_on_the_edge_are_said_to_be_beyond_it_as_often_as_allowed() {
    let mut rng = fastrand::Rng::with_seed(12);
    let mut table =
        String::from("| noise | cells | 7 rounds | 10 rounds | 14 rounds |\n|---|---:|---:|---:|---:|\n");
    for (name, noise) in NOISES {
        let centre = noise.centre();
        for cells in [4, 24] {
            let _ = write!(table, "| {name} | {cells} |");
            for (rounds, repetitions) in [(7, 2_000), (10, 1_000), (14, 150)] {
                let found = (0..repetitions)
                    .filter(|_| beyond(&draw(noise, centre, cells, rounds, &mut rng)))
                    .count();
                let share = f64::from(u32::try_from(found).expect("few")) / f64::from(repetitions);
                let _ = write!(table, " {:.0} % |", 100.0 * share);
                // Three standard errors of the simulation.
                let most = match noise {
                    Noise::Denominator(times) if times > 2.0 => MOST_OF_HOLM,
                    _ => MOST,
                };
                let error = 3.0 * (most * (1.0 - most) / f64::from(repetitions)).sqrt();
                assert!(
                    share <= most + error,
                    "{name}, {cells} cells, {rounds} rounds: {share}"
                );
            }
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
}

/// Of cases that do not differ, in noise that may be unequal and one-sided.
#[test]
fn a_ranking_of_equal_cases_separates_any_as_often_as_allowed() {
    const RUNS: usize = 600;
    const CASES: usize = 10;
    /// 5 %, and what so few runs may be off by.
    const ALLOWED: f64 = 0.065;
    let mut rng = fastrand::Rng::with_seed(12);
    for rounds in [7, 10] {
        for (name, noise, grows) in [
            ("normal", Noise::Normal, 1.0_f64),
            ("with outliers", Noise::Outliers, 1.0),
            ("unequal, 1 to 10", Noise::Normal, 10.0),
            ("one-sided", Noise::OneSided, 1.0),
            ("one-sided, unequal, 1 to 8", Noise::Numerator(0.0), 8.0),
        ] {
            let mut case = |i: usize| -> Vec<f64> {
                let scale = 0.02 * grows.powf(i as f64 / (CASES - 1) as f64);
                let value = |rng: &mut fastrand::Rng| match noise {
                    // The median is 1 whatever the scale.
                    Noise::Numerator(_) => one_sided(rng) - std::f64::consts::LN_2,
                    noise => noise.draw(0, 2, 0.0, rng),
                };
                (0..rounds).map(|_| (scale * value(&mut rng)).exp()).collect()
            };
            let mut wrong = 0;
            for _ in 0..RUNS {
                let groups: Vec<Vec<f64>> = (0..CASES).map(&mut case).collect();
                let order = rank(&groups, Better::Lower).expect("positive");
                assert_eq!(order.separation, Separation::Joint);
                wrong += u32::from(order.cases.iter().any(|case| case.letters != "a"));
            }
            let share = f64::from(wrong) / RUNS as f64;
            assert!(share <= ALLOWED, "{name}, {rounds} rounds: {share}");
        }
    }
}
