//! What a call costs over the same work on bare threads: ours and the floor in turn, medians over the rounds.
//!
//! ```text
//! cargo run --release -p threadgauge-exec --example overhead [-- ROUNDS [OBJECTS]]
//! ```
//!
//! Empty processors: nanoseconds an object, for the whole call. Burns of 10 µs: share over the ideal, which is the
//! same burns on k bare threads in the same round, and how long the finisher came after its processor ended.
//! Traps: other work on the machine spoils every figure; a burn is calibrated once, at the start.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, Instant};

use threadgauge_exec::{Carrier, ConcurrentExecution, Mode};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse().expect("a number"));
    let rounds = arguments.next().unwrap_or(7);
    let objects = arguments.next().unwrap_or(1_000_000);
    empty(rounds, objects);
    burns(rounds, objects / 100);
    threads(rounds, objects / 1000);
}

fn at_most(degree: usize) -> ConcurrentExecution {
    ConcurrentExecution::new(NonZeroUsize::new(degree).expect("not zero"))
}

const MODES: [Mode; 3] = [Mode::Prompt, Mode::FreeCaller, Mode::Throughput];

fn empty(rounds: usize, objects: usize) {
    println!("empty processors, ns an object");
    for degree in [2, 8] {
        let mut ours = [const { Vec::new() }; MODES.len()];
        for _ in 0..rounds {
            for (samples, mode) in ours.iter_mut().zip(MODES) {
                let mut sum = 0;
                let start = Instant::now();
                let _ = at_most(degree).mode(mode).for_each(
                    0..objects,
                    |i| black_box(*i),
                    |done| sum += done.result,
                );
                samples.push(start.elapsed().as_nanos() as f64 / objects as f64);
                assert_eq!(sum, objects * (objects - 1) / 2);
            }
        }
        for (samples, mode) in ours.iter_mut().zip(MODES) {
            println!("  k={degree} {mode:?}: {:.1}", median(samples));
        }
    }
}

fn burns(rounds: usize, objects: usize) {
    let turns = calibrate(Duration::from_micros(10));
    println!("burns of 10 µs, k=2: over ideal; the finisher waits: median, 99th percentile, most");
    let mut over = [const { Vec::new() }; MODES.len()];
    let mut waits = [const { Vec::new() }; MODES.len()];
    for _ in 0..rounds {
        let ideal = {
            let start = Instant::now();
            thread::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| (0..objects / 2).for_each(|_| burn(turns)));
                }
            });
            start.elapsed()
        };
        for ((over, waits), mode) in over.iter_mut().zip(&mut waits).zip(MODES) {
            let start = Instant::now();
            let _ = at_most(2).mode(mode).for_each(
                0..objects,
                |_| burn(turns),
                |done| {
                    waits.push(done.times.ended_at().elapsed().as_nanos() as f64 / 1000.0);
                },
            );
            over.push((start.elapsed().as_secs_f64() / ideal.as_secs_f64() - 1.0) * 100.0);
        }
    }
    for ((over, waits), mode) in over.iter_mut().zip(&mut waits).zip(MODES) {
        let middle = median(waits);
        let (late, last) = (waits[waits.len() * 99 / 100], waits[waits.len() - 1]);
        println!(
            "  {mode:?}: {:+.1} %; {middle:.1} µs, {late:.0} µs, {last:.0} µs",
            median(over)
        );
    }
}

fn threads(rounds: usize, objects: usize) {
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        for i in 0..objects {
            thread::spawn(move || black_box(i)).join().expect("no panic");
        }
        bare.push(start.elapsed().as_nanos() as f64 / objects as f64);
        let start = Instant::now();
        let _ = at_most(1)
            .carrier(Carrier::ThreadPerObject)
            .for_each(0..objects, |i| black_box(*i), |_| ());
        ours.push(start.elapsed().as_nanos() as f64 / objects as f64);
    }
    let (bare, ours) = (median(&mut bare), median(&mut ours));
    println!(
        "a thread for each object, k=1, ns: bare {bare:.0}, ours {ours:.0} ({:.2} times)",
        ours / bare
    );
}

fn burn(turns: u64) {
    let mut x = 1_u64;
    for i in 0..turns {
        x = black_box(x.wrapping_mul(31) ^ i);
    }
    black_box(x);
}

/// The turns that take this long: the least of several looks, as other work only adds.
fn calibrate(time: Duration) -> u64 {
    let turns = 1_000_000;
    let least = (0..9).map(|_| {
        let start = Instant::now();
        burn(turns);
        start.elapsed()
    });
    let least = least.min().expect("nine");
    (turns as f64 * time.as_secs_f64() / least.as_secs_f64()) as u64
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
