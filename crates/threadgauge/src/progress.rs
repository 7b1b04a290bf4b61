//! What a person sees while it measures: what is running, what is left, and an ETA.
//!
//! Drawn between workers only, never by a timer, so that showing it disturbs no sample. On a terminal
//! it is one bar; elsewhere a line whenever a round begins. An experiment that ends says its answer.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use threadgauge_experiments::CATALOGUE;
use threadgauge_lab::analysis::analyse;
use threadgauge_lab::schedule::{Observer, Progress};
use threadgauge_report::short_answer;
use threadgauge_results::Store;
use threadgauge_results::outside::clean;

use crate::output::{may_colour, may_draw, say};

/// Shows a run.
pub struct Shown {
    bar: Option<ProgressBar>,
    experiment: String,
    round: u32,
}

impl Shown {
    pub fn new() -> Self {
        let bar = may_draw().then(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            let colour = if may_colour() { ".cyan" } else { "" };
            let template = format!("{{bar:20{colour}}} {{wide_msg}}");
            bar.set_style(
                ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        Self {
            bar,
            experiment: String::new(),
            round: 0,
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Shown {
    fn case_begins(&mut self, progress: &Progress<'_>) {
        let left = left(progress.left);
        let Some(bar) = &self.bar else {
            if self.experiment != progress.experiment || self.round != progress.round {
                self.line(&format!(
                    "{}: round {} of {}, {left}",
                    clean(progress.experiment),
                    progress.round,
                    progress.rounds
                ));
            }
            self.experiment = progress.experiment.to_owned();
            self.round = progress.round;
            return;
        };
        bar.set_position((progress.share * 1000.0) as u64);
        bar.set_message(clean(&format!(
            "{left} · {} · round {}/{} · {}/{} · {}",
            progress.experiment,
            progress.round,
            progress.rounds,
            progress.done + 1,
            progress.total,
            progress
                .case
                .split_once('/')
                .map_or(progress.case, |(_, params)| params),
        )));
    }

    fn experiment_ends(&mut self, id: &str, because: &str, store: &Store) {
        let results = analyse(CATALOGUE, store).ok();
        let ended = results.and_then(|results| results.experiments.into_iter().find(|e| e.id == id));
        let answer = ended
            .map(|e| short_answer(&e))
            .filter(|answer| !answer.is_empty());
        let answer = answer.unwrap_or_else(|| format!("done ({because})"));
        self.line(&format!("{id}: {answer}"));
    }

    fn left_alone(&mut self) {
        self.line("The run to take turns with has gone; this one goes on alone");
    }
}

/// How long a run goes on, by its estimate: an experiment may exceed its time until it has the fewest rounds.
fn left(left: Duration) -> String {
    if left < Duration::from_secs(1) {
        return "longer than expected".to_owned();
    }
    format!("about {} left", minutes(left))
}

/// A duration as a person says it.
pub fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_said_in_the_unit_that_fits() {
        let said = [9, 61, 7260].map(|s| minutes(Duration::from_secs(s)));
        assert_eq!(said, ["9 s", "1:01 min", "2 h 01 min"]);
    }

    #[test]
    fn when_the_expected_time_is_over_it_says_so() {
        let said = [61_000, 1_000, 999, 0].map(|ms| left(Duration::from_millis(ms)));
        let over = "longer than expected";
        assert_eq!(said, ["about 1:01 min left", "about 1 s left", over, over]);
    }
}
