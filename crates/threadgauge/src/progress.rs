//! What a person sees while it measures: what is running, what is left, and an ETA.
//!
//! Drawn between workers only, never by a timer, so that showing it disturbs no sample. On a terminal
//! it is one bar; elsewhere, and where two runs share the terminal, a line whenever a round begins. An experiment that
//! ends says so.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use threadgauge_lab::schedule::{Observer, Progress};
use threadgauge_report::stopped;
use threadgauge_results::Store;
use threadgauge_results::outside::clean;

use crate::output::{in_a_line, may_colour, may_draw, room, say};

/// Columns of the bar.
const BAR: usize = 20;

/// Shows a run.
pub struct Shown {
    bar: Option<ProgressBar>,
    experiment: String,
    round: u32,
    /// What was said of how long it takes.
    said: Option<Duration>,
}

impl Shown {
    /// Of a run that was said to take so long.
    pub fn new(said: Option<Duration>) -> Self {
        let bar = may_draw().then(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            let colour = if may_colour() { ".cyan" } else { "" };
            let template = format!("{{bar:{BAR}{colour}}} {{wide_msg}}");
            bar.set_style(
                ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        Self {
            bar,
            experiment: String::new(),
            round: 0,
            said,
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
        let is_first_round =
            self.experiment.is_empty() || self.experiment == progress.experiment && progress.round == 1;
        if !is_first_round
            && progress.done == 0
            && let Some(otherwise) = corrected(self.said, progress.whole)
        {
            self.said = Some(progress.whole);
            self.line(&otherwise);
        }
        let left = format!("{} left", about(progress.left));
        let begins = self.experiment != progress.experiment || self.round != progress.round;
        self.experiment = progress.experiment.to_owned();
        self.round = progress.round;
        let Some(bar) = &self.bar else {
            if begins {
                self.line(&format!(
                    "{}: round {} of {}, {left}",
                    clean(progress.experiment),
                    progress.round,
                    progress.rounds
                ));
            }
            return;
        };
        let done = progress.whole.saturating_sub(progress.left).as_secs_f64();
        bar.set_position((done / progress.whole.as_secs_f64().max(1e-9) * 1000.0) as u64);
        let says = clean(&format!(
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
        ));
        bar.set_message(in_a_line(&says, room().saturating_sub(BAR + 1)));
    }

    /// What it answers is said once, with all else at the end of the run.
    fn experiment_ends(&mut self, id: &str, because: &str, _: &Store) {
        self.line(&format!("{id}: {}", stopped(because)));
    }

    fn left_alone(&mut self) {
        self.line("The run to take turns with has gone, or says nothing any more; this one goes on alone");
    }
}

/// What to say where a run takes another time than was said, by more than a fifth and more than a person would notice.
fn corrected(said: Option<Duration>, whole: Duration) -> Option<String> {
    const UNNOTICED: Duration = Duration::from_secs(5);
    let said = said?;
    let is_off = said.abs_diff(whole) > UNNOTICED.max(said / 5);
    is_off.then(|| format!("By the rounds so far it takes {} in all", about(whole)))
}

/// About how long something takes: `about 1:01 min`, `less than a second`.
pub fn about(duration: Duration) -> String {
    match duration.as_secs() {
        0 => "less than a second".to_owned(),
        _ => format!("about {}", minutes(duration)),
    }
}

/// A duration as a person says it.
fn minutes(duration: Duration) -> String {
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
        let said = [0, 999, 1_000].map(|ms| about(Duration::from_millis(ms)));
        assert_eq!(said, ["less than a second", "less than a second", "about 1 s"]);
    }

    /// What a run of 3:20 minutes has said of its time when one of its cases begins.
    fn begins(shown: &mut Shown, experiment: &str, round: u32, done: usize) -> Option<u64> {
        shown.case_begins(&Progress {
            experiment,
            case: "create/n=1",
            round,
            rounds: 2,
            done,
            total: 4,
            left: Duration::from_secs(150),
            whole: Duration::from_secs(200),
        });
        shown.said.map(|said| said.as_secs())
    }

    #[test]
    fn the_time_is_corrected_where_a_round_begins_and_a_bar_stands_where_the_run_is() {
        for bar in [None, Some(ProgressBar::hidden())] {
            let mut shown = Shown {
                bar,
                experiment: String::new(),
                round: 0,
                said: Some(Duration::from_secs(100)),
            };
            // The first round of all knows no more than what was said.
            assert_eq!(begins(&mut shown, "create", 1, 0), Some(100));
            assert_eq!(
                begins(&mut shown, "create", 2, 1),
                Some(100),
                "the round has begun"
            );
            if let Some(bar) = &shown.bar {
                assert_eq!(bar.position(), 250, "a quarter of a thousand");
                let says = "about 2:30 min left · create · round 2/2 · 2/4 · n=1";
                assert_eq!(bar.message(), says);
            }
            assert_eq!(begins(&mut shown, "create", 2, 0), Some(200));
            shown.said = Some(Duration::from_secs(100));
            assert_eq!(
                begins(&mut shown, "switch", 1, 0),
                Some(200),
                "the next experiment"
            );
        }
    }

    #[test]
    fn what_was_said_of_the_time_is_corrected_where_it_is_off_by_more_than_a_fifth() {
        let of = |said, whole| corrected(Some(Duration::from_secs(said)), Duration::from_secs(whole));
        assert_eq!(of(100, 119), None);
        assert_eq!(of(100, 81), None);
        let says = "By the rounds so far it takes about 2:05 min in all";
        assert_eq!(of(100, 125).as_deref(), Some(says));
        assert!(of(100, 70).is_some());
        assert_eq!(of(1, 6), None);
        assert_eq!(corrected(None, Duration::from_secs(9)), None);
    }
}
