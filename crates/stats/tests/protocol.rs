//! The protocol, tried on noise whose truth is known: what `docs/method.md` promises, it quotes
//! from here.
//!
//! Every simulation has a fixed seed. An interval that is exact must cover the truth as often as
//! its own level says, within one point; a comparison without a difference must not find one; one
//! with a difference must. Where rounds are not independent no interval is exact, and what is left
//! of it is a snapshot.

use std::fmt::Write as _;

use threadgauge_stats::diagnostics::warns_of_autocorrelation;
use threadgauge_stats::{
    BAND, Better, Interval, Level, Outcome, StoppingRule, bca, compare_paired, compare_runs,
    compare_unpaired, hodges_lehmann, paired_difference, paired_ratio, sign_interval, sign_test,
    signed_rank_p, unpaired_ratio,
};

/// Repetitions of a coverage: one standard error is then 0.2 points at 95 %.
const REPETITIONS: u32 = 10_000;

/// Noise of a known median.
#[derive(Clone, Copy)]
enum Noise {
    /// `exp(N(0, 0.3))`: a long right tail.
    Lognormal,
    /// Seven in ten about 100, three in ten about 120, each with a deviation of 1.
    Bimodal,
}

impl Noise {
    const ALL: [(&str, Self); 2] = [("lognormal", Self::Lognormal), ("bimodal", Self::Bimodal)];

    fn median(self) -> f64 {
        match self {
            Self::Lognormal => 1.0,
            Self::Bimodal => 100.565_949, // 100 plus the normal quantile of 0.5/0.7
        }
    }

    fn draw(self, rng: &mut fastrand::Rng) -> f64 {
        match self {
            Self::Lognormal => (0.3 * normal(rng)).exp(),
            Self::Bimodal => normal(rng) + if rng.f64() < 0.7 { 100.0 } else { 120.0 },
        }
    }

    fn series(self, n: usize, rng: &mut fastrand::Rng) -> Vec<f64> {
        (0..n).map(|_| self.draw(rng)).collect()
    }
}

/// A standard normal number (Box & Muller).
fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Measurements of 100 units with `noise`, a share.
fn measured(noise: f64, n: usize, rng: &mut fastrand::Rng) -> Vec<f64> {
    (0..n).map(|_| 100.0 * (noise * normal(rng)).exp()).collect()
}

/// Rounds that remember `rho` of the one before, with a median of 0.
fn remembering(rho: f64, n: usize, rng: &mut fastrand::Rng) -> Vec<f64> {
    let mut last = normal(rng);
    let step = (1.0 - rho * rho).sqrt();
    (0..n)
        .map(|_| {
            last = rho * last + step * normal(rng);
            last
        })
        .collect()
}

/// How often something is so, as a share.
fn share(repetitions: u32, mut so: impl FnMut() -> bool) -> f64 {
    let times = (0..repetitions).filter(|_| so()).count();
    times as f64 / f64::from(repetitions)
}

/// Runs an interval on both kinds of noise and three lengths, and holds its coverage to its level.
fn covers(seed: u64, interval: impl Fn(Noise, usize, &mut fastrand::Rng) -> (Interval, f64)) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for (name, noise) in Noise::ALL {
        for n in [7, 10, 20] {
            let mut level = f64::NAN;
            let found = share(REPETITIONS, || {
                let (ci, truth) = interval(noise, n, &mut rng);
                level = ci.level;
                ci.contains(truth)
            });
            assert!(
                (found - level).abs() <= 0.01,
                "{name}, n = {n}: level {level}, coverage {found}"
            );
        }
    }
}

#[test]
fn the_interval_of_a_median_covers_as_it_says() {
    covers(4, |noise, n, rng| {
        (
            sign_interval(&noise.series(n, rng), 0.05).expect("n >= 6"),
            noise.median(),
        )
    });
}

#[test]
fn the_interval_of_a_paired_ratio_covers_as_it_says() {
    covers(5, |noise, n, rng| {
        let (a, mut b) = (noise.series(n, rng), noise.series(n, rng));
        b.iter_mut().for_each(|v| *v *= 1.1);
        (
            paired_ratio(&a, &b, 0.05).expect("positive").ci.expect("n >= 6"),
            1.1,
        )
    });
}

#[test]
fn the_interval_of_an_unpaired_ratio_covers_as_it_says() {
    covers(6, |noise, n, rng| {
        let (a, mut b) = (noise.series(n, rng), noise.series(n, rng));
        b.iter_mut().for_each(|v| *v *= 1.1);
        (
            unpaired_ratio(&a, &b, 0.05)
                .expect("positive")
                .ci
                .expect("n >= 4"),
            1.1,
        )
    });
}

#[test]
fn the_interval_of_an_overhead_covers_as_it_says() {
    covers(11, |noise, n, rng| {
        let (mut with, without) = (noise.series(n, rng), noise.series(n, rng));
        with.iter_mut().for_each(|v| *v += 0.5);
        (
            paired_difference(&with, &without, 0.05)
                .expect("finite")
                .ci
                .expect("n >= 6"),
            0.5,
        )
    });
}

/// The bootstrap's level is nominal, not exact, so it is held to less: 3 points for the mean of
/// lognormal noise at the least n it accepts.
#[test]
fn the_bootstrap_covers_nearly_as_it_says() {
    let mut rng = fastrand::Rng::with_seed(20);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let truth = (0.5 * 0.3_f64 * 0.3).exp();
    let found = share(1_000, || {
        let values = Noise::Lognormal.series(20, &mut rng);
        let ci = bca(&values, mean, 0.05, 500, rng.u64(..))
            .expect("20 values")
            .ci
            .expect("always");
        ci.contains(truth)
    });
    assert!((found - 0.95).abs() <= 0.03, "{found}");
}

fn called(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Faster | Outcome::Slower)
}

/// Also where one side is three times as noisy as the other, or can only be disturbed upwards.
#[test]
fn a_a_comparisons_cry_wolf_in_at_most_five_per_cent() {
    let mut rng = fastrand::Rng::with_seed(6);
    let upwards = |noise: f64, n: usize, rng: &mut fastrand::Rng| -> Vec<f64> {
        (0..n)
            .map(|_| 100.0 * (noise * normal(rng).abs()).exp())
            .collect()
    };
    for noise in [0.015, 0.05, 0.2] {
        for n in [7, 20] {
            let mut wolves = [0; 4];
            for _ in 0..2_000 {
                let [a, b] = [(); 2].map(|()| measured(noise, n, &mut rng));
                let noisier = measured(3.0 * noise, n, &mut rng);
                let [up, upper] = [(); 2].map(|()| upwards(noise, n, &mut rng));
                let compared = [
                    compare_paired(&a, &b, Better::Lower),
                    compare_unpaired(&a, &b, Better::Lower),
                    compare_paired(&a, &noisier, Better::Lower),
                    compare_paired(&up, &upper, Better::Lower),
                ];
                for (wolves, compared) in wolves.iter_mut().zip(compared) {
                    *wolves += u32::from(called(compared.expect("positive").outcome));
                }
            }
            // 5 % and two standard errors of the simulation
            assert!(
                wolves.iter().all(|w| *w <= 120),
                "noise {noise}, n = {n}: {wolves:?} of 2000"
            );
        }
    }
}

/// Sixty cases of two runs behind each other: the machine is 6 % slower in the second, and each case departs from that
/// by a luck of its own.
#[test]
fn two_runs_apart_differ_by_level_and_luck_without_crying_wolf() {
    let mut rng = fastrand::Rng::with_seed(13);
    let (mut wolves, mut unadjusted, mut found, mut equal, mut changed) = (0, 0, 0, 0, 0);
    for luck in [0.0, 0.02, 0.05] {
        for _ in 0..40 {
            let cell = |case: usize, rng: &mut fastrand::Rng| {
                let noise = [0.01, 0.02, 0.05][case % 3];
                let factor = 1.06 * (luck * normal(rng)).exp() * if case < 12 { 1.3 } else { 1.0 };
                let second: Vec<f64> = measured(noise, 10, rng).iter().map(|v| factor * v).collect();
                compare_unpaired(&measured(noise, 10, rng), &second, Better::Lower).expect("positive")
            };
            let cells: Vec<_> = (0..60).map(|case| cell(case, &mut rng)).collect();
            let level = Level::of(&cells).expect("sixty cases");
            for (case, cell) in cells.iter().enumerate() {
                let outcome = level.departure(cell, Better::Lower).outcome;
                if case < 12 {
                    changed += 1;
                    found += u32::from(outcome == Outcome::Slower);
                } else {
                    equal += 1;
                    wolves += u32::from(called(outcome));
                    unadjusted += u32::from(called(cell.outcome));
                }
            }
        }
    }
    let share = |of: u32, all: u32| f64::from(of) / f64::from(all);
    assert!(share(wolves, equal) <= 0.05, "{wolves} of {equal}");
    assert!(share(found, changed) >= 0.80, "{found} of {changed}");
    assert!(
        share(unadjusted, equal) >= 0.25,
        "the trap is none: {unadjusted} of {equal}"
    );
}

/// The unit is a run, and runs of a side differ by more than their rounds show. A comparison of the rounds of one run
/// each is wrong most of the time; of several runs each the interval covers as it says, also where one side scatters
/// three times as much, and where a side has a single run that scatters as those of the other.
#[test]
fn what_differs_between_runs_is_in_the_interval_of_several() {
    let mut rng = fastrand::Rng::with_seed(21);
    let between = 0.04;
    for (a, b, unequal) in [
        (3, 3, 1.0),
        (2, 2, 1.0),
        (3, 5, 1.0),
        (5, 1, 1.0),
        (10, 10, 1.0),
        (3, 3, 3.0),
        (5, 3, 3.0),
    ] {
        let covered = share(REPETITIONS, || {
            let (a, b) = (
                measured(between, a, &mut rng),
                measured(unequal * between, b, &mut rng),
            );
            let compared = compare_runs(&a, &b, Better::Lower).expect("positive");
            compared.ci95.expect("more than one run").contains(1.0)
        });
        // 95 % less what Welch's approximation misses of so few.
        assert!(
            covered >= 0.935,
            "{a} and {b} runs, {unequal} times as much: {covered}"
        );
    }
    let trap = share(1_000, || {
        let mut run = || -> Vec<f64> {
            let level = (between * normal(&mut rng)).exp();
            measured(0.01, 7, &mut rng).iter().map(|v| level * v).collect()
        };
        called(
            compare_unpaired(&run(), &run(), Better::Lower)
                .expect("positive")
                .outcome,
        )
    });
    assert!(trap >= 0.4, "the trap is none: {trap}");
    let found = share(1_000, || {
        let (a, b) = (measured(0.02, 3, &mut rng), measured(0.02, 3, &mut rng));
        let b: Vec<f64> = b.iter().map(|v| 1.15 * v).collect();
        compare_runs(&a, &b, Better::Lower).expect("positive").outcome == Outcome::Slower
    });
    assert!(found >= 0.8, "{found}");
}

/// The table that `docs/ci.md` shows: how often a gate of `slower:5%` fails on a case, by how far runs of a side lie
/// apart, how many there are, and how much slower it became; and of how many nothing is known.
#[test]
fn what_a_gate_finds() {
    const CASES: u32 = 2_000;
    let mut rng = fastrand::Rng::with_seed(22);
    let per_cent = |share: f64| (100.0 * share).round();
    let mut table = String::from(
        "| runs of a side lie apart | runs a side | unchanged: fails | unchanged: unknown | 10 % more: found | 20 % more: found |\n\
         |---:|---:|---:|---:|---:|---:|\n",
    );
    for spread in [0.01, 0.02, 0.05] {
        for runs in [3, 5, 10] {
            let mut compared = |factor: f64| {
                let a = measured(spread, runs, &mut rng);
                let b: Vec<f64> = measured(spread, runs, &mut rng)
                    .iter()
                    .map(|v| factor * v)
                    .collect();
                compare_runs(&a, &b, Better::Lower).expect("positive")
            };
            let mut unknown = 0;
            let mut fails = |factor: f64| {
                share(CASES, || {
                    let compared = compared(factor);
                    if factor == 1.0 {
                        unknown += u32::from(matches!(compared.outcome, Outcome::Unknown { .. }));
                    }
                    compared.ci95.is_some_and(|ci| ci.low > 1.05)
                })
            };
            let [unchanged, some, much] = [1.0, 1.1, 1.2].map(&mut fails);
            assert!(unchanged <= 0.025, "{spread} {runs}: {unchanged}");
            let unknown = f64::from(unknown) / f64::from(CASES);
            writeln!(
                table,
                "| {} % | {runs} | {} % | {} % | {} % | {} % |",
                per_cent(spread),
                per_cent(unchanged),
                per_cent(unknown),
                per_cent(some),
                per_cent(much),
            )
            .expect("writing to a string");
        }
    }
    let shown = include_str!("../../../docs/ci.md");
    assert!(shown.contains(&table), "docs/ci.md is to have:\n{table}");
}

/// Without any band the error rate is that of the intervals alone, over all looks together: a claim whose truth lies at
/// the edge of its rule, looked at three times and frozen at the first look that decides it, errs as often as one
/// looked at once.
#[test]
fn several_looks_together_cry_wolf_in_five_per_cent() {
    let mut rng = fastrand::Rng::with_seed(7);
    for rule in [
        StoppingRule::quick(),
        StoppingRule::standard(),
        StoppingRule::paper(),
    ] {
        let alpha = rule.alpha_per_look();
        let most = rule.rounds() as usize;
        for p_value in [signed_rank_p, sign_test] {
            let found = share(REPETITIONS, || {
                let logs: Vec<f64> = (0..most).map(|_| normal(&mut rng)).collect();
                let mut looks = rule.looks.iter();
                looks.any(|n| p_value(&logs[..*n as usize], 0.0) <= alpha)
            });
            // 5 % and three standard errors of the simulation
            assert!(found <= 0.0566, "{:?}: {found}", rule.looks);
        }
    }
}

#[test]
fn five_per_cent_more_are_found_at_twenty_rounds() {
    let mut rng = fastrand::Rng::with_seed(8);
    for alpha in [0.05, StoppingRule::standard().alpha_per_look()] {
        let found = share(2_000, || {
            let [a, b] = [(); 2].map(|()| measured(0.015, 20, &mut rng));
            let slower: Vec<f64> = b.iter().map(|v| v * 1.05).collect();
            let ratio = paired_ratio(&a, &slower, alpha).expect("positive");
            ratio.ci.is_some_and(|ci| ci.low > 1.0 + BAND)
        });
        assert!(found >= 0.80, "alpha {alpha}: {found}");
    }
}

#[test]
fn equality_is_found_where_it_is_and_hardly_where_it_is_not() {
    let mut rng = fastrand::Rng::with_seed(9);
    let same = |factor: f64, rng: &mut fastrand::Rng| {
        share(1_000, || {
            let (a, b) = (measured(0.015, 20, rng), measured(0.015, 20, rng));
            let b: Vec<f64> = b.iter().map(|v| v * factor).collect();
            let compared = compare_paired(&a, &b, Better::Lower).expect("positive");
            matches!(compared.outcome, Outcome::Same | Outcome::Small)
        })
    };
    let (equal, on_the_bound) = (same(1.0, &mut rng), same(1.03, &mut rng));
    assert!(equal >= 0.95, "{equal}");
    assert!(on_the_bound <= 0.07, "{on_the_bound}"); // 5 % and three standard errors
}

/// "Rounds that would settle it": measured again with as many, most cases are settled.
#[test]
fn the_rounds_needed_do_settle_it() {
    let mut rng = fastrand::Rng::with_seed(10);
    let (mut asked, mut settled) = (0_u32, 0_u32);
    while asked < 200 {
        let (a, b) = (measured(0.05, 12, &mut rng), measured(0.05, 12, &mut rng));
        let b: Vec<f64> = b.iter().map(|v| v * 1.15).collect();
        let first = compare_paired(&a, &b, Better::Lower).expect("positive").outcome;
        let Outcome::Unknown {
            rounds_needed: Some(rounds),
        } = first
        else {
            continue;
        };
        let rounds = rounds.min(200) as usize;
        let (a, b) = (measured(0.05, rounds, &mut rng), measured(0.05, rounds, &mut rng));
        let b: Vec<f64> = b.iter().map(|v| v * 1.15).collect();
        let second = compare_paired(&a, &b, Better::Lower).expect("positive").outcome;
        asked += 1;
        settled += u32::from(!matches!(second, Outcome::Unknown { .. }));
    }
    assert!(settled * 2 >= asked, "{settled} of {asked}");
}

#[test]
fn rounds_that_remember_each_other_are_noticed() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut warned = |rho| {
        share(10_000, || {
            warns_of_autocorrelation(&remembering(rho, 40, &mut rng))
        })
    };
    let (independent, some, much) = (warned(0.0), warned(0.3), warned(0.6));
    assert!(some >= 0.80, "0.3: {some}");
    assert!(much >= 0.80, "0.6: {much}");
    assert!(independent <= 0.22, "false alarms: {independent}"); // 20 % is what its text admits
}

/// The table that `docs/method.md` quotes. Whole per cent, so that the last bit of a logarithm on
/// another machine does not change it.
#[test]
fn coverage_under_autocorrelation() {
    let mut rng = fastrand::Rng::with_seed(3);
    let per_cent = |share: f64| (100.0 * share).round();
    let mut table = String::from(
        "| correlation | rounds | warns | median: level | median: coverage | paired: level | paired: coverage |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for rho in [0.0, 0.3, 0.6] {
        for n in [7, 10, 20, 40] {
            let sign = sign_interval(&vec![0.0; n], 0.05).expect("n >= 6").level;
            let rank = hodges_lehmann(&vec![0.0; n], 0.05)
                .expect("finite")
                .ci
                .expect("n >= 6")
                .level;
            let (mut warns, mut by_sign) = (0_u32, 0_u32);
            let by_rank = share(REPETITIONS, || {
                let values = remembering(rho, n, &mut rng);
                warns += u32::from(warns_of_autocorrelation(&values));
                // an interval contains what its test does not reject, and the test is quicker
                by_sign += u32::from(sign_test(&values, 0.0) > 0.05);
                signed_rank_p(&values, 0.0) > 0.05
            });
            let of_all = |times: u32| per_cent(f64::from(times) / f64::from(REPETITIONS));
            writeln!(
                table,
                "| {rho:.1} | {n} | {} % | {:.1} % | {} % | {:.1} % | {} % |",
                of_all(warns),
                100.0 * sign,
                of_all(by_sign),
                100.0 * rank,
                per_cent(by_rank),
            )
            .expect("writing to a string");
        }
    }
    insta::assert_snapshot!(table);
}
