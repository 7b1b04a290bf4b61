//! Times the statistics of 10,000 samples, as a report needs them: 500 cases of 20 rounds, each
//! summarised, compared with the first and diagnosed. Prints the nanoseconds of each repetition.
//!
//! `cargo xtask bench-harness` builds it in release and reads what it prints.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use threadgauge_stats::{Better, StatsError, compare_paired, diagnostics, summarise};

const CASES: usize = 500;
const ROUNDS: usize = 20;
const REPETITIONS: usize = 15;

fn main() -> Result<(), StatsError> {
    let cases = samples();
    for _ in 0..REPETITIONS {
        let start = Instant::now();
        for case in &cases {
            black_box(summarise(black_box(case), 0.05)?);
            black_box(compare_paired(&cases[0], case, Better::Lower)?);
            black_box(diagnostics::lag1(case));
            black_box(diagnostics::mann_kendall(case));
        }
        println!("{}", start.elapsed().as_nanos());
    }
    Ok(())
}

/// Times around 1 ms with noise of a few per cent, the same in every run.
fn samples() -> Vec<Vec<f64>> {
    let mut state: u64 = 1;
    let mut noise = || {
        // A linear congruence is random enough for values that are only sorted and added.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..CASES)
        .map(|_| (0..ROUNDS).map(|_| 1e6 * (1.0 + 0.05 * noise())).collect())
        .collect()
}
