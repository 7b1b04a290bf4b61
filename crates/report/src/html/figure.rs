//! A chart with its legend, its note, and every figure of it as a table.

use maud::{Markup, PreEscaped, html as markup};
use threadgauge_results::published::cited;
use threadgauge_results::units::{self, Scale as Print};
use threadgauge_results::{ExperimentResult, Figure, Point, Scale};

use super::cases::{self, Head};
use super::text::{clean, section_id, slug};
use crate::csv_file::figure_csv;
use crate::{chart, words};

/// The figure of an experiment, or why there is nothing to see.
pub(super) fn figure(e: &ExperimentResult, f: &Figure) -> Markup {
    let id = format!("{}-f-{}", section_id(&e.id), slug(&f.id));
    let before = e.figures.iter().take_while(|other| other.id != f.id);
    let name = match before.filter(|other| name(other) == name(f)).count() {
        0 => name(f),
        same => format!("{} ({})", name(f), same + 1),
    };
    drawn(f, &id, &name, &why_empty(e))
}

/// A figure of the whole run, which has something to show.
pub(super) fn of_run(f: &Figure, id: &str) -> Markup {
    drawn(f, id, &name(f), "nothing was measured.")
}

fn drawn(f: &Figure, id: &str, name: &str, why_empty: &str) -> Markup {
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
            @if let Some(alike) = &drawing.alike {
                p { (clean(alike)) }
            } @else if drawing.panels.is_empty() {
                p.nodata { "No data: " (clean(why_empty)) }
            }
            @for panel in &drawing.panels {
                @for (class, picture) in [("plot wide", &panel.wide), ("plot narrow", &panel.narrow)] {
                    div class=(class) {
                        (PreEscaped(cited(&picture.svg)))
                        (legend(f, panel, picture))
                    }
                }
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
                (links(f, id, name, !drawing.panels.is_empty()))
                details.data open[drawing.alike.is_some()] { summary { "The figures of this chart" } (data(f, id, name)) }
            }
        }
    }
}

/// A link to the chart itself, and its figures as a file that the page has in it: both work from disk and without a
/// script, which adds what saves it as a picture.
fn links(f: &Figure, id: &str, name: &str, is_drawn: bool) -> Markup {
    let name = clean(name);
    let link = if is_drawn {
        "Link to this chart"
    } else {
        "Link to these figures"
    };
    markup! {
        p.small.screen-only.files data-name=(name) {
            a href=(format!("#{id}")) aria-label=(format!("{link}: {name}")) { (link) }
            @if let Ok(csv) = figure_csv(f) {
                " · "
                a download=(format!("{id}.csv")) href=(data_uri("text/csv", &csv)) aria-label=(format!("Data as CSV: {name}")) {
                    "Data as CSV"
                }
            }
        }
    }
}

/// What a chart is called where it is one of many: several may have one title, and differ in what they show.
fn name(f: &Figure) -> String {
    format!("{}: {}", f.title, f.y.label)
}

/// Bytes as a link that holds them.
fn data_uri(kind: &str, bytes: &[u8]) -> String {
    let encoded = bytes.iter().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("data:{kind};charset=utf-8,{}", encoded.collect::<String>())
}

/// What of a picture has no name in it; where some have theirs, it says why the others have not.
fn legend(f: &Figure, panel: &chart::Panel, picture: &chart::Picture) -> Markup {
    let all = panel.shown.iter().zip(&panel.swatches).zip(&picture.is_named);
    let unnamed: Vec<_> = all
        .filter(|(_, is_named)| !**is_named)
        .map(|(series, _)| series)
        .collect();
    markup! {
        @if !unnamed.is_empty() {
            @if unnamed.len() < panel.shown.len() {
                p.small.lack { "Named here for lack of room in the chart:" }
            }
            ul.legend {
                @for (i, swatch) in unnamed { li { (PreEscaped(swatch)) " " span { (clean(&chart::called(&f.series[*i]))) } } }
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
fn data(f: &Figure, id: &str, name: &str) -> Markup {
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
        &format!("Figures: {name}"),
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

#[cfg(test)]
mod tests {
    use threadgauge_results::{Axis, Origin, Series};

    use super::*;

    #[test]
    fn a_chart_links_to_itself_and_to_its_figures_as_a_file() {
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
        };
        let point = |x: f64, ci95| Point {
            x,
            label: None,
            y: 2.5,
            ci95,
        };
        let figure = Figure {
            id: "f".to_owned(),
            title: "Title".to_owned(),
            note: String::new(),
            x: axis("threads"),
            y: axis("time, ms"),
            series: vec![Series {
                name: "=1+1".to_owned(),
                origin: Origin::Measured,
                points: vec![point(1.0, Some([2.0, 3.0])), point(2.0, None)],
            }],
        };
        let csv = String::from_utf8(figure_csv(&figure).unwrap()).unwrap();
        let rows = "'=1+1,measured,1,2.5,2,3\n'=1+1,measured,2,2.5,,\n";
        assert_eq!(
            csv,
            format!("series,of,threads,\"time, ms\",95 % from,95 % to\n{rows}")
        );
        let page = of_run(&figure, "e-x-f-f").into_string();
        for part in [
            "<figure id=\"e-x-f-f\"",
            "href=\"#e-x-f-f\"",
            "download=\"e-x-f-f.csv\"",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(
            page.contains("%3D1%2B1%2Cmeasured%2C1%2C2.5%2C2%2C3%0A"),
            "{page}"
        );
    }
}
