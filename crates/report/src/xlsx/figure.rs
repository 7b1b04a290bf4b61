//! A figure: a native chart, and below it its data as one table.

use rust_xlsxwriter::{
    Chart, ChartErrorBars, ChartErrorBarsType, ChartFormat, ChartLegendPosition, ChartLine,
    ChartLineDashType, ChartMarker, ChartMarkerType, ChartRange, ChartSolidFill, ChartType, Color, XlsxError,
};
use threadgauge_results::units::Scale as Print;
use threadgauge_results::{Axis, Figure, Origin, Point, Scale};

use super::page::{Cell, Look, Number, Page, said};
use crate::chart::{Bounds, MARKS, alike, arranged, category, class, is_line, mark};

/// How large a chart is, pixels, and the rows it covers.
const CHART: [u32; 2] = [900, 440];
const CHART_ROWS: u32 = 22;
/// The page's, whose light colours the charts here have, too.
const STYLE: &str = include_str!("../html/colours.css");
/// For each mark of the page the nearest that a workbook has.
const MARKERS: [ChartMarkerType; MARKS] = [
    ChartMarkerType::Circle,
    ChartMarkerType::Square,
    ChartMarkerType::Triangle,
    ChartMarkerType::Diamond,
    ChartMarkerType::LongDash,
    ChartMarkerType::PlusSign,
    ChartMarkerType::ShortDash,
    ChartMarkerType::Star,
    ChartMarkerType::X,
    ChartMarkerType::ShortDash,
    ChartMarkerType::Star,
];

/// Draws a figure on the sheet called `name`, by the page's rules, with its data below; returns the last row used.
pub(super) fn draw(page: &mut Page<'_>, name: &str, figure: &Figure, top: u32) -> Result<u32, XlsxError> {
    let figure = &*arranged(figure);
    page.across(top, Look::Bold, &figure.title);
    page.across(top + 1, Look::Plain, &figure.note);
    if figure.series.iter().all(|series| series.points.is_empty()) {
        page.across(
            top + 2,
            Look::Plain,
            "No data: no case that belongs here has figures.",
        );
        return Ok(top + 2);
    }
    let by_name = figure.x.scale == Scale::Category;
    let mut chart = Chart::new(if by_name {
        ChartType::Line
    } else {
        ChartType::Scatter
    });
    let no_chart = alike(figure);
    let mut row = top + 3 + if no_chart.is_none() { CHART_ROWS } else { 0 };
    page.heads(
        row,
        &[
            "series",
            &figure.x.label,
            &figure.y.label,
            "interval: so much below",
            "interval: so much above",
        ],
    )?;
    let places = if by_name { names(figure) } else { Vec::new() };
    for (i, series) in figure.series.iter().enumerate() {
        // On a category axis every series has a row for every name, so that they line up.
        let lines: Vec<(Cell, Option<&Point>)> = if by_name {
            let at = |place| (series.points.iter()).find(|p| p.x.is_finite() && p.x.round() as i64 == place);
            let line = |(place, name): &(i64, String)| (Cell::Text(name.clone()), at(*place));
            places.iter().map(line).collect()
        } else {
            let points = series.points.iter();
            points.map(|p| (plain(Some(p.x)), Some(p))).collect()
        };
        let first = row + 1;
        for (place, point) in &lines {
            row += 1;
            page.text(row, 0, &series.name)?;
            page.cell(row, 1, place)?;
            let Some(p) = point else { continue };
            page.cell(row, 2, &plain(Some(p.y)))?;
            page.cell(row, 3, &plain(p.ci95.map(|[low, _]| p.y - low)))?;
            page.cell(row, 4, &plain(p.ci95.map(|[_, high]| high - p.y)))?;
        }
        if !series.points.is_empty() {
            add(&mut chart, name, figure, i, first, row);
        }
    }
    if let Some(why) = no_chart {
        page.across(top + 2, Look::Plain, &why);
        return Ok(row);
    }
    chart.title().set_name(label(&figure.title).as_str());
    axis(
        chart.x_axis(),
        &figure.x,
        figure.series.iter().flat_map(|s| s.points.iter().map(|p| p.x)),
    );
    axis(
        chart.y_axis(),
        &figure.y,
        figure.series.iter().flat_map(|s| s.points.iter().map(|p| p.y)),
    );
    chart.legend().set_position(ChartLegendPosition::Bottom);
    let [width, height] = CHART;
    chart
        .set_width(width)
        .set_height(height)
        .set_alt_text(said(&figure.note).chars().take(255).collect::<String>());
    page.chart(top + 2, &chart)?;
    Ok(row)
}

/// A number whose unit is in the head: to three digits, and whole where it is whole.
fn plain(value: Option<f64>) -> Cell {
    Cell::from(Number::of(&Print::of("count", 1.0), value))
}

/// The colour that the page gives a class, in the light.
fn colour(class: &str) -> Color {
    let said = STYLE.split_once(&format!("--{class}: #"));
    let hex = said.and_then(|(_, rest)| rest.get(..6));
    let rgb = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
    rgb.map_or(Color::Black, Color::RGB)
}

/// Half of a colour, half white.
fn pale(colour: Color) -> Color {
    match colour {
        Color::RGB(rgb) => Color::RGB((rgb >> 1 & 0x7f_7f7f) + 0x7f_7f7f),
        other => other,
    }
}

/// Text that is not taken for a formula.
fn label(text: &str) -> String {
    said(text.trim_start_matches(['=', ' ']))
}

/// The names on a category axis, in order.
fn names(figure: &Figure) -> Vec<(i64, String)> {
    let points = figure
        .series
        .iter()
        .flat_map(|s| &s.points)
        .filter(|p| p.x.is_finite());
    let mut names: Vec<(i64, String)> = points.map(|p| (p.x.round() as i64, category(p))).collect();
    names.sort();
    names.dedup_by_key(|(place, _)| *place);
    names
}

fn add(chart: &mut Chart, sheet: &str, figure: &Figure, index: usize, first: u32, last: u32) {
    let series = &figure.series[index];
    let colour = colour(&class(figure, index));
    let dash = match series.origin {
        Origin::Measured => ChartLineDashType::Solid,
        Origin::Published => ChartLineDashType::Dash,
        Origin::Ideal => ChartLineDashType::RoundDot,
    };
    let mut line = ChartLine::new();
    line.set_color(colour).set_width(1.5).set_dash_type(dash);
    let is_line = is_line(figure, series);
    line.set_hidden(!is_line);
    // Published ones are pale and not hollow: LibreOffice draws no border of a mark.
    let mut fill = ChartFormat::new();
    fill.set_border(ChartLine::new().set_color(colour));
    let ground = match series.origin {
        Origin::Measured => colour,
        _ => pale(colour),
    };
    fill.set_solid_fill(ChartSolidFill::new().set_color(ground));
    let mut marker = ChartMarker::new();
    match series.origin {
        Origin::Ideal if is_line => marker.set_none(),
        _ => marker
            .set_type(MARKERS[mark(figure, index)])
            .set_size(7)
            .set_format(&mut fill),
    };
    let drawn = chart
        .add_series()
        .set_name((sheet, first, 0))
        .set_categories((sheet, first, 1, last, 1))
        .set_values((sheet, first, 2, last, 2))
        .set_format(ChartFormat::new().set_line(&line))
        .set_marker(&marker);
    if series.points.iter().any(|p| p.ci95.is_some()) {
        let above = ChartRange::new_from_range(sheet, first, 4, last, 4);
        let below = ChartRange::new_from_range(sheet, first, 3, last, 3);
        let mut bars = ChartErrorBars::new();
        bars.set_type(ChartErrorBarsType::Custom(above, below));
        drawn.set_y_error_bars(&bars);
    }
}

fn axis(drawn: &mut rust_xlsxwriter::ChartAxis, axis: &Axis, values: impl Iterator<Item = f64>) {
    drawn.set_name(label(&axis.label).as_str());
    if axis.scale != Scale::Log {
        // A share is read between nothing and all.
        let bounds = values
            .filter(|v| v.is_finite())
            .fold(Bounds::of(&axis.label), Bounds::with);
        if let Some((least, most)) = bounds.whole() {
            drawn.set_min(least).set_max(most);
        }
        return;
    }
    let values: Vec<f64> = values.filter(|v| v.is_finite() && *v > 0.0).collect();
    let by_two = values.iter().all(|v| v.log2().fract() == 0.0);
    let base: u16 = if by_two { 2 } else { 10 };
    drawn.set_log_base(base);
    // A logarithmic axis that starts at 1 hides everything below it.
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    if low.is_finite() {
        let floor = f64::from(base).powf(low.log(f64::from(base)).floor());
        drawn
            .set_min(floor)
            .set_crossing(rust_xlsxwriter::ChartAxisCrossing::Min);
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_results::Series;

    use super::*;

    #[test]
    fn a_meaning_has_the_colour_and_the_mark_that_it_has_on_the_page() {
        let axis = || Axis {
            label: String::new(),
            scale: Scale::Linear,
        };
        let series = |name: &str| Series {
            name: name.to_owned(),
            origin: Origin::Measured,
            points: Vec::new(),
        };
        let figure = Figure {
            id: String::new(),
            title: String::new(),
            x: axis(),
            y: axis(),
            series: ["process", "thread"].map(series).to_vec(),
            note: String::new(),
        };
        let colours = [0, 1].map(|i| colour(&class(&figure, i)));
        assert_eq!(colours, [Color::RGB(0xc2470d), Color::RGB(0x0b5fa5)]);
        assert_eq!(pale(colours[0]), Color::RGB(0xe0a285));
        let marks = [0, 1].map(|i| MARKERS[mark(&figure, i)]);
        assert!(matches!(
            marks,
            [ChartMarkerType::Square, ChartMarkerType::Circle]
        ));
    }
}
