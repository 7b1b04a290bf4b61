//! What a person sees while the load goes on: two lines that change on a terminal, a line a second elsewhere.
//!
//! A thread of its own draws, so that a slow terminal never holds the generator up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use threadgauge_load::{Latency, Second, ServerWatch, Watch};
use threadgauge_results::units::{count, with_unit};

use crate::output::{in_a_line, may_draw, room, say};

/// Looks on for a person, and ends the run when it is told to.
pub struct Live {
    stop: Arc<AtomicBool>,
    seconds: Option<Sender<Second>>,
    drawn: Option<JoinHandle<()>>,
}

impl Live {
    /// Of a run that takes about so long, at a server that may be watched.
    pub fn new(stop: Arc<AtomicBool>, takes: Duration, watch: Option<Arc<ServerWatch>>) -> Self {
        let (seconds, come) = channel();
        let drawn = std::thread::Builder::new()
            .name("view".to_owned())
            .spawn(move || draw(&come, takes, watch.as_deref()))
            .ok();
        Self {
            stop,
            seconds: Some(seconds),
            drawn,
        }
    }
}

impl Watch for Live {
    fn second(&mut self, second: &Second, _: &Latency) {
        if let Some(seconds) = &self.seconds {
            // Nobody draws any more: there is nothing to show it to.
            let _ = seconds.send(second.clone());
        }
    }

    fn goes_on(&mut self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.seconds = None;
        if let Some(drawn) = self.drawn.take() {
            let _ = drawn.join();
        }
    }
}

fn draw(come: &Receiver<Second>, takes: Duration, watch: Option<&ServerWatch>) {
    let bar = may_draw().then(|| {
        let bar = ProgressBar::with_draw_target(Some(takes.as_secs().max(1)), ProgressDrawTarget::stderr());
        // Both lines fit into 80 columns, where few requests are on their way.
        let style = ProgressStyle::with_template("{bar:8} {prefix}\n{wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    });
    for second in come {
        let (counted, timed) = (counts(&second), times(&second) + &of_server(watch));
        match &bar {
            Some(bar) => {
                bar.set_position(second.at_s + 1);
                bar.set_prefix(in_a_line(&counted, room().saturating_sub(9)));
                bar.set_message(in_a_line(&timed, room()));
            }
            None => say(&format!("{counted} · {timed}")),
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

/// What the server used in its last second.
fn of_server(watch: Option<&ServerWatch>) -> String {
    let server = watch
        .and_then(ServerWatch::latest)
        .and_then(|second| second.server);
    server.map_or_else(String::new, |server| {
        format!(" · server {:.2} CPUs", server.cpus_used)
    })
}

/// What a second came to.
fn counts(second: &Second) -> String {
    format!(
        "{:>4} s · {} sent · {} answered · {} failed · {} on their way",
        second.at_s + 1,
        count(second.sent as usize),
        count(second.answered as usize),
        count(second.failed as usize),
        count(second.in_flight as usize),
    )
}

/// How long answers took in it.
fn times(second: &Second) -> String {
    let time = |ns: Option<u64>| ns.map_or("–".to_owned(), |ns| with_unit(ns as f64, None, "ns"));
    format!(
        "median {} · 99 % {} · longest {}",
        time(second.p50_ns),
        time(second.p99_ns),
        time(second.most_ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_counts_and_times() {
        let second = Second {
            at_s: 2,
            sent: 1000,
            answered: 990,
            failed: 10,
            p50_ns: Some(120_000),
            p99_ns: None,
            most_ns: Some(2_000_000),
            in_flight: 3,
            ..Second::default()
        };
        assert_eq!(
            counts(&second),
            "   3 s · 1000 sent · 990 answered · 10 failed · 3 on their way"
        );
        assert!(times(&second).contains("99 % –"), "{}", times(&second));
    }

    #[test]
    fn on_a_terminal_both_lines_fit_into_80_columns() {
        let many = Second {
            at_s: 3_599,
            sent: 123_456,
            answered: 123_456,
            in_flight: 100,
            p50_ns: Some(123_456_789),
            p99_ns: Some(123_456_789),
            most_ns: Some(12_345_678_901),
            ..Second::default()
        };
        let bar = 8 + 1;
        assert!(bar + counts(&many).chars().count() <= 80, "{}", counts(&many));
        let timed = times(&many) + " · server 12.34 CPUs";
        assert!(timed.chars().count() <= 80, "{timed}");
    }
}
