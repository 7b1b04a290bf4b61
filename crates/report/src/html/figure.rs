//! A chart with its legend, its note, and every figure of it as a table.

use maud::{Markup, PreEscaped, html as markup};
use threadgauge_results::units::{self, Scale as Print};
use threadgauge_results::{ExperimentResult, Figure, Origin, Point, Scale};

use super::cases::{self, Head};
use super::text::{clean, section_id, slug};
use crate::{chart, words};

/// The figure of an experiment, or why there is nothing to see.
pub(super) fn figure(e: &ExperimentResult, f: &Figure) -> Markup {
    let id = format!("{}-f-{}", section_id(&e.id), slug(&f.id));
    drawn(f, &id, &why_empty(e))
}

/// A figure of the whole run, which has something to show.
pub(super) fn of_run(f: &Figure, id: &str) -> Markup {
    drawn(f, id, "nothing was measured.")
}

fn drawn(f: &Figure, id: &str, why_empty: &str) -> Markup {
    let drawing = chart::draw(f, id);
    let empty: Vec<&str> = f
        .series
        .iter()
        .filter(|s| s.points.is_empty())
        .map(|s| s.name.as_str())
        .collect();
    markup! {
        figure id=(id) {
            figcaption { b { (clean(&f.title)) ". " } (clean(&f.note)) }
            @if drawing.panels.is_empty() {
                p.nodata { "No data: " (clean(why_empty)) }
            }
            @for panel in &drawing.panels {
                div.plot.wide { (PreEscaped(&panel.wide)) }
                div.plot.narrow { (PreEscaped(&panel.narrow)) }
                (legend(f, panel))
            }
            @if !drawing.panels.is_empty() {
                @if !empty.is_empty() {
                    p.small { "No data: " (clean(&empty.join("; "))) "." }
                }
                @for same in &drawing.same { p.small { (clean(same)) } }
                @if drawing.cut > 0 {
                    p.small {
                        (drawing.cut) " " (words::plural(drawing.cut, "interval reaches", "intervals reach"))
                        " beyond this chart; the table has " (words::plural(drawing.cut, "it", "them")) "."
                    }
                }
                @if drawing.left_out > 0 {
                    p.small {
                        (drawing.left_out) " " (words::plural(drawing.left_out, "point", "points"))
                        " cannot stand on these axes; the table has " (words::plural(drawing.left_out, "it", "them")) "."
                    }
                }
            }
            @if f.series.iter().any(|s| !s.points.is_empty()) {
                details.data { summary { "The figures of this chart" } (data(f, id)) }
            }
        }
    }
}

fn legend(f: &Figure, panel: &chart::Panel) -> Markup {
    markup! {
        ul.legend {
            @for (i, swatch) in panel.shown.iter().zip(&panel.swatches) {
                @let series = &f.series[*i];
                li {
                    (PreEscaped(swatch)) " " (clean(&series.name))
                    @match series.origin {
                        Origin::Measured => {}
                        Origin::Published => { span.origin { " (published)" } }
                        Origin::Ideal => { span.origin { " (theory)" } }
                    }
                }
            }
        }
    }
}

fn why_empty(e: &ExperimentResult) -> String {
    let cases = words::case_counts(e);
    match words::reasons(e).first() {
        Some((reason, _)) => {
            format!("no case that belongs here has figures ({cases}). The most frequent reason: {reason}")
        }
        None => format!("this run has no case that belongs here ({cases})."),
    }
}

/// Rows are places on the horizontal axis, columns are series.
fn data(f: &Figure, id: &str) -> Markup {
    let mut places: Vec<(f64, String)> = Vec::new();
    for point in f.series.iter().flat_map(|s| &s.points) {
        if !places.iter().any(|(x, _)| x.total_cmp(&point.x).is_eq()) {
            places.push((point.x, place(f, point)));
        }
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut heads = vec![Head::words(&f.x.label)];
    heads.extend(f.series.iter().map(|s| Head::with_interval(&s.name)));
    let rows: Vec<Markup> = (places.iter())
        .map(|(x, name)| {
            markup! {
                tr {
                    th scope="row" class="p" { (clean(name)) }
                    @for s in &f.series { (cell(s.points.iter().find(|p| p.x.total_cmp(x).is_eq()))) }
                }
            }
        })
        .collect();
    let caption = markup! { (clean(&f.title)) ": " (clean(&f.y.label)) };
    cases::scrolling(
        &format!("{id}-data"),
        &format!("Figures: {}", f.title),
        &caption,
        &heads,
        &rows,
    )
}

fn place(f: &Figure, point: &Point) -> String {
    if f.x.scale == Scale::Category {
        chart::category(point)
    } else {
        units::tick(point.x)
    }
}

fn cell(point: Option<&Point>) -> Markup {
    match point {
        Some(p) => cases::figure_cells(&Print::of("count", p.y), p.y, p.ci95),
        None => cases::no_figure(),
    }
}
