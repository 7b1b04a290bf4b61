//! Many runs: each figure's course, and where it changed, for a terminal and as JSON.
//!
//! The changes are in the history already; this words them. That nothing was looked for is never printed as that
//! nothing changed.

use std::fmt::Write as _;

use serde_json::json;
use threadgauge_results::units::{self, Scale, counted};
use threadgauge_results::{Change, Course, FEWEST_RUNS, History, HistoryRun};

use crate::Style;
use crate::terminal::text::{Ink, clean, paint, painted, paragraph};
use crate::words;

/// What a course's values look like in a line, from the least to the most.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// A run without the figure.
const GAP: char = '·';
/// More runs than this are not drawn in a line; the latest are.
const MOST_BARS: usize = 40;
/// Of a course that hardly moves the bars hardly do: they stand for at least this share of it.
const LEAST_RANGE: f64 = 0.1;

/// The histories for a terminal: what changed with which run, then each figure's course.
#[must_use]
pub fn history_text(histories: &[History], style: &Style) -> String {
    let each: Vec<String> = histories.iter().map(|history| text(history, style)).collect();
    each.join("\n")
}

fn text(history: &History, style: &Style) -> String {
    let mut out = painted(style, Ink::Bold, &title(history), "");
    if history.emulated {
        out.push_str(&painted(style, Ink::Doubt, EMULATED, "! "));
    }
    let Some(latest) = history.runs.last().filter(|_| history.runs.len() > 1) else {
        out.push_str(&paragraph(&none_yet(history), style.width, ""));
        return out;
    };
    for (run, changes) in history.by_run() {
        let Some(run) = history.runs.get(run) else {
            continue;
        };
        let differs = match &run.differs[..] {
            [] => String::new(),
            some => format!(" ({})", some.join("; ")),
        };
        let _ = writeln!(out);
        out.push_str(&paragraph(
            &format!("From {} on{differs}:", called(run)),
            style.width,
            "",
        ));
        for (course, change) in changes {
            let ink = match change.verdict {
                "slower" => Ink::Bad,
                "faster" => Ink::Good,
                _ => Ink::Faint,
            };
            let verdict = format!(
                "  {} {:<7}",
                words::comparison_sign(change.verdict),
                change.verdict
            );
            let what = paragraph(
                &format!("{}, {}", moved(course, &change), clean(&course.case)),
                style.width,
                &" ".repeat(verdict.chars().count() + 1),
            );
            let _ = write!(out, "{} {}", paint(style, ink, &verdict), what.trim_start());
        }
    }
    let _ = writeln!(out);
    out.push_str(&paragraph(&tally(history), style.width, ""));
    for courses in history.courses.chunk_by(|a, b| experiment(a) == experiment(b)) {
        let of = experiment(&courses[0]);
        let metric = units::metric_name(&clean(&courses[0].metric));
        let head = format!("{} ({metric})", clean(of));
        let _ = writeln!(out, "\n{}", paint(style, Ink::Bold, &head));
        // Who looks for one figure among hundreds takes another form.
        let (changed, others): (Vec<&Course>, Vec<&Course>) =
            courses.iter().partition(|course| !course.changes.is_empty());
        let shown = SHOWN.saturating_sub(changed.len()).min(others.len());
        let left_out = others.len() - shown;
        for course in changed.into_iter().chain(others.into_iter().take(shown)) {
            out.push_str(&paragraph(
                &format!("{} {}", now(course), of_experiment(course, of)),
                style.width,
                &format!("  {} ", bars(course, history.runs.len())),
            ));
        }
        if left_out > 0 {
            let says = format!(
                "and {} without a change; --format html and json have all",
                counted(left_out, "figure")
            );
            out.push_str(&paragraph(&says, style.width, "  "));
        }
    }
    let _ = writeln!(out);
    out.push_str(&paragraph(
        &format!("The latest run is {}.", called(latest)),
        style.width,
        "",
    ));
    out
}

/// Of an experiment, at most so many courses are lines of the text, and all that changed.
const SHOWN: usize = 12;

/// Stands above all that is said of such runs.
pub(crate) const EMULATED: &str = "The processor is emulated: its times are those of the program that emulates it, and not a \
    machine's";

fn experiment(course: &Course) -> &str {
    course.case.split('/').next().unwrap_or_default()
}

/// A case without the name of its experiment.
fn of_experiment(course: &Course, experiment: &str) -> String {
    let of = course.case.strip_prefix(experiment).unwrap_or(&course.case);
    clean(of.trim_start_matches('/'))
}

pub(crate) fn title(history: &History) -> String {
    format!(
        "{} on {}",
        counted(history.runs.len(), "run"),
        match history.machine.as_str() {
            "" => "a machine that is not known",
            machine => machine,
        }
    )
}

/// That one run is no history.
pub(crate) fn none_yet(history: &History) -> String {
    let runs: Vec<String> = history.runs.iter().map(called).collect();
    format!(
        "One run is no history: {}. A history begins with the next one.",
        runs.join(", ")
    )
}

/// A run, by its time and its folder.
pub(crate) fn called(run: &HistoryRun) -> String {
    let day = run.started.get(..16).unwrap_or(&run.started).replace('T', " ");
    let whole = if run.complete { "" } else { ", not complete" };
    clean(&format!("{day} UTC, {}{whole}", run.name))
}

/// How a figure went from one level to the next.
pub(crate) fn moved(course: &Course, change: &Change) -> String {
    let scale = Scale::of_column(&course.unit, [change.before, change.after]);
    format!(
        "{} → {}, {} times",
        scale.quantity(change.before),
        scale.quantity(change.after),
        Scale::of("ratio", change.ratio).number(change.ratio)
    )
}

/// The figure's present level.
fn now(course: &Course) -> String {
    course.now().map_or_else(String::new, |level| {
        Scale::of(&course.unit, level).quantity(level)
    })
}

/// How many figures changed, how many did not, and of how many nothing is known.
pub(crate) fn tally(history: &History) -> String {
    let changed = history
        .courses
        .iter()
        .filter(|course| !course.changes.is_empty())
        .count();
    let (judged, all) = (history.judged(), history.courses.len());
    let mut says = format!("{}: ", counted(all, "figure"));
    if judged == 0 {
        let _ = write!(
            says,
            "of none it is known whether it changed, since that takes {FEWEST_RUNS} runs with the figure."
        );
        return says;
    }
    let _ = write!(
        says,
        "{changed} changed, {} did not by more than chance would",
        judged - changed
    );
    if judged < all {
        let _ = write!(
            says,
            ", and {} {} too few runs to tell, which takes {FEWEST_RUNS}",
            all - judged,
            words::plural(all - judged, "has", "have")
        );
    }
    let by_chance = match history.by_chance() {
        few if few < 1.0 => "fewer than one".to_owned(),
        some => format!("about {some:.0}"),
    };
    let _ = write!(
        says,
        ". Where nothing changed, {by_chance} would be said to have."
    );
    if changed > 0 {
        says.push_str(" Machine or change: not known from one course.");
    }
    for (run, moved) in history.together() {
        let from = history.runs.get(run).map(called).unwrap_or_default();
        let _ = write!(
            says,
            " From {from} on {moved} of {judged} moved the same way together, as the machine's level moves them."
        );
    }
    says
}

/// The course in a line, a character a run.
fn bars(course: &Course, runs: usize) -> String {
    let medians = course.points.iter().map(|point| point.median);
    let (low, high) = medians
        .clone()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    let middle = f64::midpoint(low, high);
    let range = (high - low).max(middle.abs() * LEAST_RANGE);
    let bar = |run: usize| {
        let point = course.points.iter().find(|point| point.run == run);
        point.map_or(GAP, |point| {
            if range == 0.0 {
                return BARS[0];
            }
            let share = (point.median - middle) / range + 0.5;
            let place = (share * BARS.len() as f64).floor().max(0.0) as usize;
            BARS[place.min(BARS.len() - 1)]
        })
    };
    (runs.saturating_sub(MOST_BARS)..runs).map(bar).collect()
}

/// The histories as JSON: `schema`, and of each machine `machine`, whether it is `emulated`, `runs`, `courses` with
/// their points and changes, how many figures were `judged` and how many changes there would be `by_chance`.
#[must_use]
pub fn history_json(histories: &[History]) -> String {
    let of = |history: &History| {
        json!({
            "machine": history.machine, "emulated": history.emulated, "runs": history.runs,
            "courses": history.courses,
            "judged": history.judged(), "by_chance": history.by_chance(),
        })
    };
    let histories: Vec<_> = histories.iter().map(of).collect();
    let document = json!({"schema": 1, "fewest_runs": FEWEST_RUNS, "histories": histories});
    format!("{document:#}")
}

#[cfg(test)]
mod tests {
    use threadgauge_results::HistoryPoint;

    use super::*;

    fn run(n: usize) -> HistoryRun {
        HistoryRun {
            name: format!("2026-11-{n:02}-4f2a"),
            id: format!("{n}"),
            started: format!("2026-11-{n:02}T10:00:00Z"),
            version: "0.1.0".to_owned(),
            profile: "quick".to_owned(),
            complete: n != 3,
            differs: if n == 7 {
                vec!["kernel is \"6.18\" and was \"6.1\"".to_owned()]
            } else {
                Vec::new()
            },
        }
    }

    fn course(case: &str, medians: &[(usize, f64)], changes: Vec<Change>) -> Course {
        let point = |&(run, median): &(usize, f64)| HistoryPoint {
            run,
            median,
            ci95: None,
        };
        Course {
            case: case.to_owned(),
            metric: "ns_per_unit".to_owned(),
            unit: "ns".to_owned(),
            points: medians.iter().map(point).collect(),
            changes,
        }
    }

    fn change(ratio: f64, verdict: &'static str) -> Change {
        Change {
            run: 6,
            before: 12_000.0,
            after: 12_000.0 * ratio,
            ratio,
            p: 0.003,
            verdict,
        }
    }

    fn history() -> History {
        let level = |ratio: f64| -> Vec<(usize, f64)> {
            (0..10)
                .map(|run| (run, 12_000.0 * if run < 6 { 1.0 } else { ratio }))
                .collect()
        };
        History {
            machine: "A CPU, 2 CPUs, kvm".to_owned(),
            emulated: false,
            runs: (1..=10).map(run).collect(),
            courses: vec![
                course(
                    "create/unit=thread,count=200",
                    &level(1.25),
                    vec![change(1.25, "slower")],
                ),
                course("create/unit=process,count=200", &level(1.0), Vec::new()),
                course("ring/unit=thread", &level(0.8), vec![change(0.8, "faster")]),
                course("ring/unit=process", &[(0, 900.0), (9, 905.0)], Vec::new()),
            ],
        }
    }

    #[test]
    fn what_changed_stands_first_and_each_course_is_a_line() {
        let style = Style {
            width: 80,
            colour: false,
        };
        insta::assert_snapshot!(history_text(&[history()], &style));
    }

    #[test]
    fn of_many_figures_those_that_changed_are_lines_and_the_rest_is_counted() {
        let mut history = history();
        let changed = history.courses.remove(0);
        let flat = history.courses[0].clone();
        let many = (0..40).map(|n| Course {
            case: format!("create/unit=process,count={n}"),
            ..flat.clone()
        });
        history.courses = many.chain([changed]).collect();
        let text = history_text(&[history], &Style::default());
        let lines = text.lines().filter(|line| line.contains("unit=process")).count();
        assert_eq!(lines, SHOWN - 1, "{text}");
        assert!(
            text.contains("and 29 figures without a change; --format html and json have all"),
            "{text}"
        );
        assert_eq!(text.matches("unit=thread,count=200").count(), 2, "{text}");
    }

    #[test]
    fn what_was_not_looked_for_is_not_said_to_be_the_same() {
        let mut history = history();
        for course in &mut history.courses {
            course.points.truncate(5);
            course.changes.clear();
        }
        assert_eq!(
            tally(&history),
            "4 figures: of none it is known whether it changed, since that takes 8 runs with the figure."
        );
    }

    #[test]
    fn where_most_figures_moved_together_it_is_said_in_every_form() {
        let mut history = history();
        let moved = history.courses[0].clone();
        history.courses = vec![moved; 4];
        let says = "4 figures: 4 changed, 0 did not by more than chance would. Where nothing changed, fewer than one would be \
                    said to have. Machine or change: not known from one course. From 2026-11-07 10:00 UTC, 2026-11-07-4f2a \
                    on 4 of 4 moved the same way together, as the machine's level moves them.";
        assert_eq!(tally(&history), says);
        let page = crate::history_html(&[history], "runs");
        assert!(page.contains("4 of 4 moved the same way together"), "{page}");
    }

    #[test]
    fn an_emulated_processor_is_said_above_its_course_in_every_form() {
        let mut history = history();
        let named = "The processor is emulated";
        assert!(!history_text(&[history.clone()], &Style::default()).contains(named));
        history.emulated = true;
        let shown = history_text(&[history.clone()], &Style::default());
        assert!(
            shown.starts_with("10 runs on A CPU, 2 CPUs, kvm\n! The processor is emulated: "),
            "{shown}"
        );
        assert!(history_json(&[history.clone()]).contains("\"emulated\": true"));
        assert!(crate::history_html(&[history], "runs").contains(named));
    }

    #[test]
    fn one_run_is_no_history_in_any_form() {
        let mut history = history();
        history.runs.truncate(1);
        let shown = history_text(&[history.clone()], &Style::default());
        assert!(shown.contains("One run is no history"), "{shown}");
        assert!(!shown.contains('▁'), "{shown}");
        let page = crate::history_html(&[history], "runs");
        assert!(page.contains("One run is no history") && !page.contains("<svg"));
    }

    #[test]
    fn a_page_has_a_chart_a_figure_and_a_link_to_each_that_changed() {
        let page = crate::history_html(&[history()], "runs");
        assert_eq!(page.matches("<figure id=").count(), 4);
        for at in ["c-0-0", "c-0-2"] {
            assert!(page.contains(&format!("href=\"#{at}\"")) && page.contains(&format!("id=\"{at}\"")));
        }
        assert!(page.contains("kernel is"), "what differs stands beside the run");
        assert!(
            page.contains("class=\"whole\"") && page.contains("main:not(.whole)"),
            "all of it is printed"
        );
        assert!(
            page.contains("1 figure without a change") && page.contains("1 figure with too few runs to tell")
        );
    }

    #[test]
    fn a_figure_of_one_run_has_no_chart_and_is_counted() {
        let mut history = history();
        for course in &mut history.courses {
            course.points.truncate(1);
            course.changes.clear();
        }
        let page = crate::history_html(&[history], "runs");
        assert!(page.contains("of one run, of which there is no course") && !page.contains("<figure id="));
        assert!(!page.contains("without a change"));
    }

    #[test]
    fn a_course_that_hardly_moves_has_bars_that_hardly_do() {
        let of = |medians: &[(usize, f64)]| bars(&course("a/b=1", medians, Vec::new()), 3);
        assert_eq!(of(&[(0, 100.0), (1, 100.5), (2, 100.2)]), "▄▅▄");
        assert_eq!(of(&[(0, 100.0), (2, 200.0)]), "▁·█");
        assert_eq!(of(&[(0, 0.0), (1, 0.0), (2, 0.0)]), "▁▁▁");
        let many: Vec<(usize, f64)> = (0..100).map(|run| (run, 1.0)).collect();
        assert_eq!(
            bars(&course("a/b=1", &many, Vec::new()), 100).chars().count(),
            MOST_BARS
        );
    }
}
