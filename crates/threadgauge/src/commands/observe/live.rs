//! What a person sees while a program is observed: on a terminal a table of its groups of threads that changes,
//! elsewhere a line a look.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use threadgauge_machine::observe::{Amounts, Course, Interval};
use threadgauge_results::outside::clean;
use threadgauge_results::units::{counted, percent, with_unit};

use crate::commands::observe::table::aligned;
use crate::output::{in_a_line, may_draw, room, say};

/// Groups in the table.
const MOST_GROUPS: usize = 12;
/// Kinds of waits that are named in a line.
const MOST_WAITS: usize = 3;

/// Shows a course as it goes on.
pub struct Live {
    bar: Option<ProgressBar>,
}

impl Live {
    pub fn new() -> Self {
        let bar = may_draw().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar }
    }

    /// Shows what came of the last interval.
    pub fn show(&self, course: &Course) {
        let Some(interval) = course.intervals().last() else {
            return;
        };
        let line = line(course, interval);
        let Some(bar) = &self.bar else {
            say(&line);
            return;
        };
        let width = room();
        let mut lines = vec![line];
        lines.extend(groups(course, interval));
        let lines: Vec<String> = lines.iter().map(|line| in_a_line(line, width)).collect();
        bar.set_message(lines.join("\n"));
    }

    /// Says something beside it.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// An interval in a line.
fn line(course: &Course, interval: &Interval) -> String {
    format!(
        "{:>4.0} s · {:.2} CPUs · {} · {}",
        course.elapsed_ns() as f64 / 1e9,
        interval.cpus(),
        counted(interval.threads, "thread"),
        shares(&interval.amounts)
    )
}

/// Where time went, in a few words: `running 12 %, waiting for a CPU 1.0 %, futex 80 %`.
pub fn shares(amounts: &Amounts) -> String {
    let mut parts = vec![
        format!("running {}", percent(amounts.share(amounts.ran_ns))),
        format!("waiting for a CPU {}", percent(amounts.share(amounts.wanted_ns))),
    ];
    let waits = amounts.longest_waits().into_iter().take(MOST_WAITS);
    parts.extend(waits.map(|(kind, ns)| format!("{} {}", kind.name(), percent(amounts.share(ns)))));
    parts.join(", ")
}

/// The groups that ran most, a row each, below a head.
fn groups(course: &Course, interval: &Interval) -> Vec<String> {
    let mut all: Vec<(usize, &Amounts)> = interval.by_group.iter().map(|(place, of)| (*place, of)).collect();
    all.sort_by(|a, b| b.1.ran_ns.total_cmp(&a.1.ran_ns));
    let rows = all.iter().take(MOST_GROUPS).map(|(place, amounts)| {
        let group = &course.groups()[*place];
        let longest = amounts.longest_waits();
        let waits = longest.first().map_or_else(String::new, |(kind, ns)| {
            format!("{} {}", kind.name(), percent(amounts.share(*ns)))
        });
        vec![
            clean(&group.name),
            group.threads.to_string(),
            percent(amounts.share(amounts.ran_ns)),
            percent(amounts.share(amounts.wanted_ns)),
            waits,
        ]
    });
    let mut lines = aligned(
        &["threads", "", "running", "waiting for a CPU", "waiting most for"],
        rows.collect(),
    );
    if all.len() > MOST_GROUPS {
        lines.push(format!(
            "and {} that ran less",
            counted(all.len() - MOST_GROUPS, "group")
        ));
    }
    if let Some(memory) = course.last().map(|look| look.rss_kib as f64 * 1_024.0) {
        lines.push(format!("{} resident", with_unit(memory, None, "bytes")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use threadgauge_machine::observe::{Look, ThreadKey, ThreadLook};

    use super::*;

    /// Two looks at a thread that runs for a quarter of the time, and at one that does nothing.
    fn course() -> Course {
        let mut course = Course::default();
        for at in 0..=1_u64 {
            let thread = |tid: i32, name: &str, ran_ns| ThreadLook {
                key: ThreadKey {
                    pid: 1,
                    tid,
                    start_ticks: 1,
                },
                name: name.to_owned(),
                ran_ns,
                waited_ns: Some(0),
                slices: Some(at),
                age_ns: u64::MAX,
                ..ThreadLook::default()
            };
            course.add(Look {
                at_ns: at * 1_000_000_000,
                processes: 1,
                threads: vec![thread(1, "main", at * 250_000_000), thread(2, "worker-1", 0)],
                rss_kib: 2_048,
                ..Look::default()
            });
        }
        course
    }

    #[test]
    fn an_interval_is_a_line_with_shares_of_the_time_of_all_threads() {
        let course = course();
        let says = line(&course, &course.intervals()[0]);
        assert_eq!(
            says,
            "   1 s · 0.25 CPUs · 2 threads · running 12 %, waiting for a CPU 0 %, unknown 88 %"
        );
    }

    #[test]
    fn the_table_has_a_row_a_group_the_busiest_first() {
        let course = course();
        let lines = groups(&course, &course.intervals()[0]);
        let begins = ["threads ", "main ", "worker-1 ", "2.00 MiB resident"];
        assert_eq!(lines.len(), begins.len());
        for (line, begin) in lines.iter().zip(begins) {
            assert!(line.starts_with(begin), "{lines:#?}");
        }
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    }
}
