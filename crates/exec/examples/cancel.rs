//! Stops early: at Ctrl-C, or at a deadline; keeps what is finished and says what is not.
//!
//! ```text
//! cargo run -p threadgauge-exec --example cancel [-- SECONDS]
//! ```
//!
//! The stop token ends the call: nothing more starts. A long processor looks at it now and then, and gives up half-way.
#![allow(clippy::print_stdout)]

use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use threadgauge_exec::{ConcurrentExecution, Ended, StopToken};

fn main() -> std::io::Result<()> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(5.0, |s| s.parse().expect("a number"));
    let program = StopToken::new();
    let stop = program.clone();
    let mut signals = Signals::new([SIGINT])?;
    thread::spawn(move || {
        for _ in signals.forever() {
            stop.stop();
        }
    });
    println!("working; Ctrl-C stops it");

    let four = NonZeroUsize::new(4).expect("not zero");
    // The deadline, too, cuts the work short.
    let call = program.child();
    let (mut whole, mut cut_short) = (0, 0);
    let report = ConcurrentExecution::new(four)
        .stop(&program)
        .announce_stop(&call)
        .deadline(Duration::from_secs_f64(seconds))
        .for_each(
            0..1_000_000,
            |_| long_work(&call),
            |done| if done.result { whole += 1 } else { cut_short += 1 },
        );
    let why = match report.ended {
        Ended::Stopped => "stopped",
        Ended::Deadline => "out of time",
        _ => "done",
    };
    println!(
        "{why}: {whole} finished, {cut_short} cut short, {} not started",
        report.rest.count()
    );
    Ok(())
}

/// Whether it came to its end.
fn long_work(token: &StopToken) -> bool {
    for _ in 0..50 {
        if token.is_stopped() {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}
