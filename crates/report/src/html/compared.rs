//! A page of several runs: two sides with what changed, or a column a run; the charts with a line a run.

use maud::{Markup, html as markup};
use threadgauge_results::units::{Scale as Print, counted, metric_name};
use threadgauge_results::{
    Axis, CaseRow, Column, Compared, ComparisonResult, Figure, Judged, Origin, Point, Results, Scale, Series,
    SideBySide,
};

use super::cases::{self, Head};
use super::figure;
use super::text::{clean, coded, section_id, slug};
use crate::columns::{self, ABOUT_ORDER};
use crate::compare::{known_line, pair, setting, with};
use crate::words;

/// The comparison of two sides as one self-contained page: what is known, what became of a check, the cases that differ
/// and the others, and the charts of a run of each side in one.
#[must_use]
pub fn comparison_html(compared: &Compared, runs: [&Results; 2], judged: Option<&Judged>) -> String {
    let names = [&compared.a_name, &compared.b_name];
    let title = format!("{} against {}", compared.b_name, compared.a_name);
    let groups = [
        ("differ", "Cases that differ", &["slower", "faster", "small"][..]),
        ("unknown", "Cases of which nothing is known", &["unknown"]),
        ("same", "Cases that are the same", &["same"]),
    ];
    let groups = groups.map(|(id, name, verdicts)| {
        let rows = verdicts.iter().flat_map(|verdict| with(&compared.rows, verdict));
        (id, name, rows.collect::<Vec<&ComparisonResult>>())
    });
    let groups: Vec<_> = groups.into_iter().filter(|(.., rows)| !rows.is_empty()).collect();
    let charts = charts(&names.map(String::as_str), &runs);
    let body = markup! {
        header { h1 { (clean(&title)) } p.answer { (clean(&known_line(compared))) } }
        @if let Some(judged) = judged {
            section #check aria-label="The check" {
                p { b { (judged) "." } }
                @if !judged.breaches.is_empty() {
                    ul { @for breach in &judged.breaches {
                        li { @if let Some(case) = &breach.case { (clean(case)) ": " } (clean(&breach.says)) }
                    } }
                }
            }
        }
        (warnings(&compared.warnings))
        p { (coded(&setting(compared))) }
        p { (clean(&words::by_chance(&compared.rows))) " A ratio above 1 is slower than before." }
        @for (id, name, rows) in &groups {
            section id=(id) aria-labelledby=(format!("{id}-h")) {
                h2 id=(format!("{id}-h")) { (name) }
                (comparisons(id, name, rows))
            }
        }
        @if let Some(charts) = &charts { (charts) }
    };
    let parts = groups.iter().map(|(id, name, _)| (*id, *name));
    page(&title, parts.chain(charts.map(|_| CHARTS)), &body)
}

/// Where charts are, and what the list of a page's parts calls them.
const CHARTS: (&str, &str) = ("charts", "Charts");

/// A page with a list of these parts of it.
fn page<'a>(title: &str, parts: impl Iterator<Item = (&'a str, &'a str)>, body: &Markup) -> String {
    let parts: Vec<(String, String)> = parts.map(|(id, name)| (id.to_owned(), name.to_owned())).collect();
    super::page(
        &format!("threadgauge: {title}"),
        env!("CARGO_PKG_VERSION"),
        &parts,
        body,
    )
}

/// Runs side by side as one self-contained page: who is ahead, what differs, what things cost, the charts with a line a
/// run, and every case with a column a run.
#[must_use]
pub fn columns_html(of: &SideBySide, runs: &[&Results]) -> String {
    let names: Vec<&str> = of.columns.iter().map(|column| column.name.as_str()).collect();
    let title = names.join(", ");
    let costs = columns::costs_of(runs);
    let heads = |first: &str| -> Vec<Head> {
        let names = names.iter().map(|name| Head::words(name));
        std::iter::once(Head::words(first)).chain(names).collect()
    };
    let line = |name: &str, cells: &[String]| {
        markup! { tr { th scope="row" { (clean(name)) } @for cell in cells { td { (clean(cell)) } } } }
    };
    let each = |says: fn(&Column) -> String| of.columns.iter().map(says).collect::<Vec<_>>();
    let mut about = vec![
        line("folder", &each(|column| column.of.clone())),
        line("runs", &each(|column| column.runs.to_string())),
    ];
    about.extend(of.differs.iter().map(|fact| line(&fact.name, &fact.values)));
    let charts = charts(&names, runs);
    let body = markup! {
        header { h1 { (clean(&title)) } p.answer { (clean(&columns::ahead_line(of))) } }
        (warnings(&of.warnings))
        (cases::scrolling("columns", "What the columns are", &markup! { "What differs between them" }, &heads(""), &about))
        @if !costs.is_empty() {
            section #costs-side aria-labelledby="costs-side-h" {
                h2 #costs-side-h { "What things cost" }
                @let rows: Vec<Markup> = costs.iter().map(|row| {
                    line(row.name, &row.costs.iter().map(|of| columns::cost(*of)).collect::<Vec<_>>())
                }).collect();
                (cases::scrolling("costs", "What things cost", &markup! { "With intervals" }, &heads(""), &rows))
            }
        }
        @if let Some(charts) = &charts { (charts) }
        section #cases aria-labelledby="cases-h" {
            h2 #cases-h { "Every case" }
            p { (ABOUT_ORDER) }
            @for experiment in experiments(&of.rows) {
                @let rows: Vec<Markup> = of.rows.iter().filter(|row| row.experiment == experiment).map(|row| {
                    let mut cells: Vec<String> = (0..names.len()).map(|column| columns::figure(row, column)).collect();
                    cells.push(columns::order(of, row));
                    line(&format!("{}, {}", row.case, metric_name(&row.metric)), &cells)
                }).collect();
                @let heads: Vec<Head> = heads("case").into_iter().chain([Head::words("order")]).collect();
                @let name = format!("Cases of {experiment}");
                (cases::folding(&format!("{}-cases", section_id(experiment)), &name, &markup! { (clean(&name)) }, &heads, rows))
            }
        }
    };
    let costs = (!costs.is_empty()).then_some(("costs-side", "What things cost"));
    let parts = costs.into_iter().chain(charts.map(|_| CHARTS));
    page(&title, parts.chain([("cases", "Every case")]), &body)
}

/// The ids of experiments in the order of their cases.
fn experiments(rows: &[CaseRow]) -> Vec<&str> {
    let mut ids: Vec<&str> = rows.iter().map(|row| row.experiment.as_str()).collect();
    ids.dedup();
    ids
}

fn warnings(warnings: &[String]) -> Markup {
    markup! {
        @if !warnings.is_empty() {
            section #warnings.warnings aria-label="Before you believe a figure" {
                h2 { "Before you believe a figure" }
                ul { @for warning in warnings { li { (coded(warning)) } } }
            }
        }
    }
}

fn comparisons(id: &str, name: &str, rows: &[&ComparisonResult]) -> Markup {
    let heads = [
        Head::words("case"),
        Head::words("metric"),
        Head::with_interval("ratio"),
        Head::words("verdict"),
    ];
    let rows = rows.iter().map(|row| {
        markup! {
            tr {
                th scope="row" { (clean(&pair(row))) }
                td { (clean(&metric_name(&row.metric))) }
                @match row.ratio {
                    Some(ratio) => { (cases::figure_cells(&Print::of("ratio", ratio), ratio, row.ci95)) }
                    None => { (cases::no_figure()) }
                }
                td.p {
                    span.sign aria-hidden="true" { (words::comparison_sign(&row.verdict)) } " " (clean(&words::outcome(row)))
                }
            }
        }
    });
    let caption = markup! { (counted(rows.len(), "case")) };
    cases::folding(&format!("{id}-table"), name, &caption, &heads, rows.collect())
}

/// Each chart that two runs or more have, with the lines of all; none where there is no such chart.
fn charts(names: &[&str], runs: &[&Results]) -> Option<Markup> {
    let figures: Vec<(String, Figure)> = merged(names, runs);
    let (id, name) = CHARTS;
    (!figures.is_empty()).then(|| {
        markup! {
            section id=(id) aria-labelledby=(format!("{id}-h")) {
                h2 id=(format!("{id}-h")) { (name) }
                @for (id, of) in &figures { (figure::of_run(of, id)) }
            }
        }
    })
}

/// The figures that two runs or more have, under ids of their own: measured series of each, what was published and what
/// theory says once.
fn merged(names: &[&str], runs: &[&Results]) -> Vec<(String, Figure)> {
    let mut out = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for run in runs {
        for experiment in &run.experiments {
            for of in &experiment.figures {
                let key = (experiment.id.as_str(), of.id.as_str());
                if seen.contains(&key) {
                    continue;
                }
                seen.push(key);
                let all: Vec<Option<&Figure>> = runs.iter().map(|run| find(run, key)).collect();
                if all.iter().flatten().count() > 1 {
                    let id = format!("{}-both-{}", section_id(key.0), slug(key.1));
                    let title = format!("{}: {}", experiment.id, of.title);
                    let together = together(names, &all, of, &title);
                    let charts = together.into_iter().enumerate();
                    out.extend(charts.map(|(i, figure)| (format!("{id}-{i}"), figure)));
                }
            }
        }
    }
    out
}

fn find<'a>(run: &'a Results, (experiment, figure): (&str, &str)) -> Option<&'a Figure> {
    let experiment = run.experiments.iter().find(|of| of.id == experiment)?;
    experiment.figures.iter().find(|of| of.id == figure)
}

/// A chart of several lines becomes one for each of them, with a line a run in it.
fn together(names: &[&str], all: &[Option<&Figure>], first: &Figure, title: &str) -> Vec<Figure> {
    let measured = |of: &Figure| -> Vec<String> {
        let own = of.series.iter().filter(|s| s.origin == Origin::Measured);
        own.map(|s| s.name.clone()).collect()
    };
    if all.iter().flatten().all(|of| measured(of).len() == 1) {
        return vec![Figure {
            title: title.to_owned(),
            ..of_lines(names, all, first, |_| true)
        }];
    }
    let mut lines: Vec<String> = Vec::new();
    for name in all.iter().flatten().flat_map(|of| measured(of)) {
        if !lines.contains(&name) {
            lines.push(name);
        }
    }
    let of_line = |line: &String| Figure {
        title: format!("{title}: {line}"),
        ..of_lines(names, all, first, |series| series.name == *line)
    };
    lines.iter().map(of_line).collect()
}

/// The measured lines that are chosen, called by their runs, and what is not of a run.
fn of_lines(
    names: &[&str],
    all: &[Option<&Figure>],
    first: &Figure,
    chosen: impl Fn(&Series) -> bool,
) -> Figure {
    let mut places: Vec<String> = Vec::new();
    let mut series: Vec<Series> = Vec::new();
    for (name, of) in names
        .iter()
        .zip(all)
        .filter_map(|(name, of)| Some((name, (*of)?)))
    {
        let own = of
            .series
            .iter()
            .filter(|s| s.origin == Origin::Measured && chosen(s));
        for own in own {
            series.push(Series {
                name: (*name).to_owned(),
                origin: Origin::Measured,
                points: own
                    .points
                    .iter()
                    .map(|point| placed(point, &first.x, &mut places))
                    .collect(),
            });
        }
    }
    for other in first.series.iter().filter(|s| s.origin != Origin::Measured) {
        series.push(Series {
            points: other
                .points
                .iter()
                .map(|point| placed(point, &first.x, &mut places))
                .collect(),
            ..other.clone()
        });
    }
    Figure {
        series,
        // It is of the one run.
        note: String::new(),
        ..first.clone()
    }
}

/// On an axis of names a place is that of its name: runs of other cases have others.
fn placed(point: &Point, axis: &Axis, places: &mut Vec<String>) -> Point {
    let (Scale::Category, Some(label)) = (axis.scale, &point.label) else {
        return point.clone();
    };
    let x = places.iter().position(|place| place == label).unwrap_or_else(|| {
        places.push(label.clone());
        places.len() - 1
    });
    Point {
        x: x as f64,
        ..point.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure_of(points: &[(&str, f64)], series: &[(&str, Origin)]) -> Figure {
        let point = |(i, (label, y)): (usize, &(&str, f64))| Point {
            x: i as f64,
            label: Some((*label).to_owned()),
            y: *y,
            ci95: None,
        };
        let series = series.iter().map(|(name, origin)| Series {
            name: (*name).to_owned(),
            origin: *origin,
            points: points.iter().enumerate().map(point).collect(),
        });
        let axis = |scale| Axis {
            label: "l".to_owned(),
            scale,
        };
        Figure {
            id: "f".to_owned(),
            title: "t".to_owned(),
            note: "of this run".to_owned(),
            x: axis(Scale::Category),
            y: axis(Scale::Linear),
            series: series.collect(),
        }
    }

    #[test]
    fn a_chart_has_a_line_a_run_and_what_was_published_once() {
        let own = ("this machine", Origin::Measured);
        let theirs = ("source", Origin::Published);
        let a = figure_of(&[("x", 1.0), ("y", 2.0)], &[own, theirs]);
        let b = figure_of(&[("y", 3.0), ("z", 4.0)], &[own, theirs]);
        let charts = together(&["A", "B"], &[Some(&a), Some(&b)], &a, "e: t");
        let [both] = &charts[..] else { panic!("{charts:?}") };
        let names: Vec<&str> = both.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["A", "B", "source"]);
        let places: Vec<f64> = both.series[1].points.iter().map(|point| point.x).collect();
        assert_eq!(places, [1.0, 2.0], "a name has one place");
        assert_eq!((both.note.as_str(), both.title.as_str()), ("", "e: t"));
        let two = figure_of(&[("x", 1.0)], &[("p", Origin::Measured), ("q", Origin::Measured)]);
        let charts = together(&["A", "B"], &[Some(&two), Some(&two)], &two, "e: t");
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(titles, ["e: t: p", "e: t: q"]);
        let names: Vec<&str> = charts[1].series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["A", "B"]);
    }
}
