//! The adaptive degree against fixed ones on real threads: work that computes, waits, queues, and mixes of these.
//!
//! ```text
//! cargo run --release -p threadgauge-exec --example adaptive [-- ROUNDS [OBJECTS [PART_OF_A_NAME]]]
//! ```
//!
//! Without arguments 7 rounds of 500 objects, about eight minutes.
//!
//! Every round runs the adaptive degree and each fixed one once, in turn, on the same objects; the table shows medians
//! over the rounds. *Over the best* is the median over the rounds of the adaptive elapsed time over that of the fixed
//! degree whose median is least.
//! Traps: other work on the machine spoils every figure; a burn is calibrated once, at the start; a sleep of a
//! millisecond lasts some 60 µs longer.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use threadgauge_exec::{ConcurrentExecution, Degree};

const FIXED: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| {
        arguments
            .next()
            .map_or(otherwise, |a| a.parse().expect("a number"))
    };
    let (rounds, objects) = (number(7), number(500));
    let part = arguments.next().unwrap_or_default();
    let turns = calibrate(Duration::from_millis(1));
    let burn = |ms: f64| burn((turns as f64 * ms) as u64);
    let wait = |ms: f64| sleep(Duration::from_secs_f64(ms / 1000.0));
    let (four, sixteen, thrashing) = (Server::new(4), Server::new(16), Server::new(16));
    println!("{objects} objects, {rounds} rounds\n");
    println!(
        "| work | best fixed degree | ms | adaptive, ms | over the best, % | its last degree | most running |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let works: [(&str, &(dyn Fn(usize) + Sync)); 11] = [
        ("burn 1 ms", &|_| burn(1.0)),
        ("burn 0.1 to 2 ms", &|i| burn(0.1 + uniform(i) * 1.9)),
        ("sleep 1 ms", &|_| wait(1.0)),
        ("sleep 1 to 9 ms", &|i| wait(1.0 + 8.0 * uniform(i))),
        ("server of 4, 2 ms", &|_| four.serve(|_| wait(2.0))),
        ("server of 16, 1 to 5 ms", &|i| {
            sixteen.serve(|_| wait(1.0 + 4.0 * uniform(i)));
        }),
        ("server of 16, 2.5 to 7.5 ms, thrashing badly", &|i| {
            thrashing.serve(|waiting| wait((2.5 + 5.0 * uniform(i)) * (1.0 + waiting as f64 / 8.0)));
        }),
        ("burn 1 ms, sleep 1 ms", &|_| {
            burn(1.0);
            wait(1.0);
        }),
        ("burn 0.2 ms, sleep 2 ms", &|_| {
            burn(0.2);
            wait(2.0);
        }),
        ("burn 2 ms, sleep 0.5 ms", &|_| {
            burn(2.0);
            wait(0.5);
        }),
        ("one in ten sleeps 10 ms, others burn 0.5 ms", &|i| {
            if i % 10 == 0 { wait(10.0) } else { burn(0.5) }
        }),
    ];
    for (name, work) in works.iter().filter(|w| w.0.contains(&part)) {
        compare(name, work, rounds, objects);
    }
}

fn compare(name: &str, work: &(dyn Fn(usize) + Sync), rounds: usize, objects: usize) {
    let mut fixed = FIXED.map(|_| Vec::new());
    let (mut ours, mut last, mut running) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        for turn in 0..=FIXED.len() {
            // The adaptive one takes every place in the order.
            let place = (turn + round) % (FIXED.len() + 1);
            if let Some(degree) = FIXED.get(place) {
                let degree = NonZeroUsize::new(*degree).expect("not zero");
                fixed[place].push(run(degree.into(), work, objects).0);
            } else {
                let (elapsed, degree, most) = run(Degree::adaptive(..), work, objects);
                ours.push(elapsed);
                last.push(degree as f64);
                running.push(most as f64);
            }
        }
    }
    let medians: Vec<f64> = fixed.iter().map(|samples| median(samples.clone())).collect();
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let best = medians
        .iter()
        .position(|m| *m <= least * 1.01)
        .expect("one is the least");
    let winner = medians
        .iter()
        .position(|m| *m <= least)
        .expect("one is the least");
    let over = ours
        .iter()
        .zip(&fixed[winner])
        .map(|(a, b)| a / b - 1.0)
        .collect();
    println!(
        "| {name} | {} | {:.1} | {:.1} | {:.1} | {} | {} |",
        FIXED[best],
        least,
        median(ours),
        median(over) * 100.0,
        median(last),
        median(running),
    );
}

/// Milliseconds, the last degree and the most running.
fn run(degree: Degree, work: &(dyn Fn(usize) + Sync), objects: usize) -> (f64, usize, usize) {
    let report = ConcurrentExecution::new(degree).for_each(0..objects, |i| work(*i), |_| ());
    (
        report.elapsed.as_secs_f64() * 1000.0,
        report.last_degree,
        report.most_running,
    )
}

/// Serves so many at once; others wait.
struct Server {
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    free: usize,
    waiting: usize,
}

impl Server {
    fn new(slots: usize) -> Self {
        Self {
            state: Mutex::new(State {
                free: slots,
                waiting: 0,
            }),
            freed: Condvar::new(),
        }
    }

    /// `service` is told how many wait when it begins.
    fn serve(&self, service: impl FnOnce(usize)) {
        let mut state = self.state.lock().expect("no panic");
        state.waiting += 1;
        state = self
            .freed
            .wait_while(state, |state| state.free == 0)
            .expect("no panic");
        state.free -= 1;
        state.waiting -= 1;
        let waiting = state.waiting;
        drop(state);
        service(waiting);
        self.state.lock().expect("no panic").free += 1;
        self.freed.notify_one();
    }
}

/// From the object's number, the same in every run: in [0, 1).
fn uniform(i: usize) -> f64 {
    let mut z = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (z >> 11) as f64 / (1_u64 << 53) as f64
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

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
