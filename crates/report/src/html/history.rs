//! The page of many runs: what changed with which run, the runs, and each figure's course as a chart.

use maud::{Markup, html as markup};
use threadgauge_results::units::{self, Scale as Print};
use threadgauge_results::{Axis, Course, Figure, History, Origin, Point, Scale, Series};

use super::cases::{self, Head};
use super::figure;
use super::text::{clean, section_id, slug};
use crate::history::{EMULATED, called, moved, none_yet, tally, title};
use crate::words;

/// The histories as one self-contained page: no network, no script needed to read it. `folder` is where the runs are.
#[must_use]
pub fn history_html(histories: &[History], folder: &str) -> String {
    let body = markup! {
        header {
            h1 { "The course of " (clean(folder)) }
            p.lede { (histories.iter().map(title).collect::<Vec<_>>().join("; ")) "." }
        }
        @for (i, history) in histories.iter().enumerate() { (of_machine(history, i, histories.len() > 1)) }
    };
    let links = histories.iter().enumerate().flat_map(|(i, history)| {
        let own = experiments(history);
        let own = own.into_iter().map(move |id| (anchor(i, id), id.to_owned()));
        [(format!("runs-{i}"), "The runs".to_owned())]
            .into_iter()
            .chain(own)
    });
    super::page(
        &format!("threadgauge: the course of {folder}"),
        env!("CARGO_PKG_VERSION"),
        &links.collect::<Vec<_>>(),
        &body,
    )
}

fn anchor(machine: usize, experiment: &str) -> String {
    format!("m{machine}-{}", section_id(experiment))
}

/// The experiments of its figures, in their order.
fn experiments(history: &History) -> Vec<&str> {
    let mut ids: Vec<&str> = Vec::new();
    for course in &history.courses {
        let id = experiment(course);
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

fn experiment(course: &Course) -> &str {
    course.case.split('/').next().unwrap_or_default()
}

fn of_machine(history: &History, i: usize, is_one_of_several: bool) -> Markup {
    let short = history.runs.len() < 2;
    markup! {
        section id=(format!("runs-{i}")) aria-labelledby=(format!("runs-{i}-h")) {
            h2 id=(format!("runs-{i}-h")) { @if is_one_of_several { (clean(&title(history))) } @else { "What changed" } }
            @if history.emulated { p { b { (EMULATED) "." } } }
            @if short { p { (clean(&none_yet(history))) } }
            @else {
                (changes(history, i))
                p { (clean(&tally(history))) }
            }
            (runs(history, i))
        }
        @if !short {
            @for id in experiments(history) { (of_experiment(history, id, i)) }
        }
    }
}

/// What changed, by the run from which on it did.
fn changes(history: &History, i: usize) -> Markup {
    let rows: Vec<Markup> = history
        .by_run()
        .into_iter()
        .flat_map(|(run, changes)| {
            changes
                .into_iter()
                .map(move |(course, change)| (run, course, change))
        })
        .map(|(run, course, change)| {
            let place = history
                .courses
                .iter()
                .position(|of| of == course)
                .unwrap_or_default();
            markup! {
                tr {
                    th scope="row" class="p" { (words::comparison_sign(change.verdict)) " " (change.verdict) }
                    td { (clean(&moved(course, &change))) }
                    td { a href=(format!("#{}", figure_id(i, place))) { (clean(&course.case)) } }
                    td { (history.runs.get(run).map(called).unwrap_or_default()) }
                }
            }
        })
        .collect();
    let heads = ["change", "from … to …", "case", "from this run on"].map(Head::words);
    markup! {
        @if rows.is_empty() { p { "No figure is said to have changed." } }
        @else {
            (cases::scrolling(
                &format!("changes-{i}"),
                &format!("Table: what changed, {}", title(history)),
                &markup! { "What changed, and from which run on" },
                &heads,
                &rows,
            ))
        }
    }
}

/// The runs, by the numbers that the charts have.
fn runs(history: &History, i: usize) -> Markup {
    let heads = [
        "run",
        "when, and its folder",
        "program",
        "profile",
        "what differs from the one before",
    ];
    let rows: Vec<Markup> = history
        .runs
        .iter()
        .enumerate()
        .map(|(n, run)| {
            markup! {
                tr {
                    th scope="row" class="p" { (n + 1) }
                    td { (called(run)) }
                    td { (clean(&run.version)) }
                    td { (clean(&run.profile)) }
                    td { (clean(&run.differs.join("; "))) }
                }
            }
        })
        .collect();
    cases::scrolling(
        &format!("table-of-runs-{i}"),
        &format!("Table: the runs, {}", title(history)),
        &markup! { "The runs, the oldest first" },
        &heads.map(Head::words),
        &rows,
    )
}

fn figure_id(machine: usize, course: usize) -> String {
    format!("c-{machine}-{course}")
}

/// Figures that changed are seen at once, the others are folded: those that did not, and those of which too few runs
/// tell. A figure of one run has no course.
fn of_experiment(history: &History, id: &str, i: usize) -> Markup {
    let own = history.courses.iter().enumerate();
    let own = own.filter(|(_, course)| experiment(course) == id);
    let chart = |(place, course): (usize, &Course)| figure::of_run(&chart(course), &figure_id(i, place));
    let (changed, others): (Vec<_>, Vec<_>) = own.partition(|(_, course)| !course.changes.is_empty());
    let (steady, few): (Vec<_>, Vec<_>) =
        (others.into_iter()).partition(|(_, course)| course.is_long_enough());
    let (few, single): (Vec<_>, Vec<_>) = few.into_iter().partition(|(_, course)| course.points.len() > 1);
    let folded = [(steady, "without a change"), (few, "with too few runs to tell")];
    let anchor = anchor(i, id);
    markup! {
        section id=(anchor) aria-labelledby=(format!("{anchor}-h")) {
            h2 id=(format!("{anchor}-h")) { (clean(id)) }
            @for of in changed { (chart(of)) }
            @for (figures, which) in folded.iter().filter(|(figures, _)| !figures.is_empty()) {
                details.line {
                    summary { h3 { (units::counted(figures.len(), "figure")) " " (which) } }
                    @for &of in figures { (chart(of)) }
                }
            }
            @if !single.is_empty() {
                p { (units::counted(single.len(), "figure")) " of one run, of which there is no course." }
            }
        }
    }
}

/// A figure over the runs: a line a level, so that where one ends another begins.
pub(crate) fn chart(course: &Course) -> Figure {
    let scale = Print::of_column(&course.unit, course.points.iter().map(|point| point.median));
    let point = |of: &threadgauge_results::HistoryPoint| Point {
        x: (of.run + 1) as f64,
        label: None,
        y: of.median / scale.per,
        ci95: of.ci95.map(|ci| ci.map(|bound| bound / scale.per)),
    };
    let mut begins = vec![0];
    begins.extend(course.changes.iter().map(|change| change.run));
    let levels = begins.iter().enumerate().map(|(i, from)| {
        let to = begins.get(i + 1).copied().unwrap_or(usize::MAX);
        let own = course
            .points
            .iter()
            .filter(|point| (*from..to).contains(&point.run));
        Series {
            name: match (i, course.changes.is_empty()) {
                (_, true) => "this figure".to_owned(),
                (0, _) => format!("up to run {to}"),
                _ => format!("from run {} on", from + 1),
            },
            origin: Origin::Measured,
            points: own.map(point).collect(),
        }
    });
    let metric = units::metric_name(&course.metric);
    let unit = if scale.name.is_empty() {
        "times"
    } else {
        scale.name
    };
    Figure {
        id: slug(&course.case),
        title: clean(&course.case),
        note: course
            .changes
            .last()
            .map(|change| format!("From run {} on: {}.", change.run + 1, moved(course, change)))
            .unwrap_or_default(),
        x: Axis {
            label: "runs, the oldest first".to_owned(),
            scale: Scale::Linear,
        },
        y: Axis {
            label: format!("{metric}, {unit}"),
            scale: Scale::Linear,
        },
        series: levels.collect(),
    }
}
