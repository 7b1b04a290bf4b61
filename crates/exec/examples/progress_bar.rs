//! A progress bar: drawn on the caller's thread, ten times a second, whatever the processors do.
//!
//! ```text
//! cargo run -p threadgauge-exec --example progress_bar [-- OBJECTS]
//! ```
#![allow(clippy::print_stdout)]

use std::num::NonZeroUsize;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use threadgauge_exec::ConcurrentExecution;

fn main() {
    let objects = std::env::args()
        .nth(1)
        .map_or(200_u64, |n| n.parse().expect("a number"));
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}").expect("a template");
    let bar = ProgressBar::new(objects).with_style(style);
    let drawn = bar.clone();
    let three = NonZeroUsize::new(3).expect("not zero");
    let mut primes = 0;
    let _ = ConcurrentExecution::new(three)
        .on_progress(Duration::from_millis(100), move |progress| {
            drawn.set_position(progress.finished as u64);
            if let Some(remaining) = progress.remaining() {
                drawn.set_message(format!("{:.0} s left", remaining.as_secs_f64()));
            }
        })
        .for_each(
            0..objects,
            |i| primes_of_thousand(*i),
            |done| primes += done.result,
        );
    bar.finish_and_clear();
    println!("{primes} primes below {}", objects * 1000);
}

/// How many primes there are from `thousand` × 1000 on, among 1,000 numbers.
fn primes_of_thousand(thousand: u64) -> usize {
    let prime = |n: &u64| *n > 1 && (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (thousand * 1000..(thousand + 1) * 1000).filter(prime).count()
}
