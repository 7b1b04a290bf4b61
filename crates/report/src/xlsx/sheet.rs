//! An experiment's sheet: the cases as a table that filters and sorts, then each figure's data with its chart.
//!
//! The table stands at the top left, so that its heads can be frozen and filtered; figures follow below.

use rust_xlsxwriter::{
    Chart, ChartErrorBars, ChartErrorBarsType, ChartFormat, ChartLegendPosition, ChartLine,
    ChartLineDashType, ChartMarker, ChartMarkerType, ChartRange, ChartSolidFill, ChartType, Color, Format,
    Worksheet, XlsxError,
};
use threadgauge_results::{Axis, ExperimentResult, Figure, Origin, Point, Scale, Value, units};

use super::cells::{clip, head, number, text};
use crate::cases::Cases;
use crate::chart::category;
use crate::words;

/// Rows a chart covers.
const CHART_ROWS: u32 = 22;
const COLOURS: [u32; 8] = [
    0x0b5fa5, 0xc2470d, 0x00735a, 0x8b3f8f, 0x8a6a00, 0x2a86b5, 0xb0124a, 0x4f5b2b,
];
const MARKERS: [ChartMarkerType; 8] = [
    ChartMarkerType::Circle,
    ChartMarkerType::Square,
    ChartMarkerType::Triangle,
    ChartMarkerType::Diamond,
    ChartMarkerType::X,
    ChartMarkerType::PlusSign,
    ChartMarkerType::Star,
    ChartMarkerType::LongDash,
];

/// Fills the sheet called `name`.
pub(super) fn write(sheet: &mut Worksheet, name: &str, e: &ExperimentResult) -> Result<(), XlsxError> {
    let below = cases(sheet, e)?;
    let bold = Format::new().set_bold();
    let mut row = below + 2;
    sheet.write_with_format(row, 0, clip(&e.question), &bold)?;
    text(sheet, row + 1, 0, &e.answer)?;
    row += 3;
    for figure in &e.figures {
        row = draw(sheet, name, figure, row)? + 2;
    }
    Ok(())
}

/// Writes the table of cases and returns its last row.
fn cases(sheet: &mut Worksheet, e: &ExperimentResult) -> Result<u32, XlsxError> {
    let columns = Cases::of(e);
    // In a spreadsheet nothing is said once: every parameter is a column to filter by.
    let params: Vec<&str> = columns
        .params
        .iter()
        .copied()
        .chain(columns.shared.iter().map(|(name, _)| *name))
        .collect();
    let mut heads: Vec<String> = params.iter().map(|p| (*p).to_owned()).collect();
    heads.push("status".to_owned());
    for m in &columns.metrics {
        let name = units::metric_name(m.name);
        let unit = if m.unit.is_empty() {
            String::new()
        } else {
            format!(", {}", m.unit)
        };
        heads.push(format!("{name}: median{unit}"));
        for part in ["low", "high", "mean", "trimmed mean", "min", "max"] {
            heads.push(format!("{name}: {part}{unit}"));
        }
        heads.push(format!("{name}: CV"));
        heads.push(format!("{name}: rounds"));
    }
    heads.extend(["reason".to_owned(), "tags".to_owned(), "id".to_owned()]);
    head(sheet, 0, &heads)?;
    // Three lines: not every spreadsheet program makes room for wrapped text by itself.
    sheet.set_row_height(0, 46)?;
    for (column, _) in (0u16..).zip(&heads) {
        sheet.set_column_width(column, 13)?;
    }
    let mut row = 0;
    for case in &e.cases {
        row += 1;
        let mut column = 0;
        for param in &params {
            match case.params.get(param) {
                Some(Value::Int(n)) => number(sheet, row, column, Some(*n as f64))?,
                Some(Value::Text(word)) => text(sheet, row, column, word)?,
                None => {}
            }
            column += 1;
        }
        text(sheet, row, column, words::status(case.status))?;
        column += 1;
        for m in &columns.metrics {
            if let Some(s) = m.of(case) {
                let (low, high) = (s.ci95.map(|c| c[0]), s.ci95.map(|c| c[1]));
                let rounds = Some(s.n as f64);
                let figures = [
                    Some(s.median),
                    low,
                    high,
                    Some(s.mean),
                    s.trimmed_mean,
                    Some(s.min),
                    Some(s.max),
                    s.cv,
                    rounds,
                ];
                for (at, value) in (column..).zip(figures) {
                    number(sheet, row, at, value)?;
                }
            }
            column += 9;
        }
        text(sheet, row, column, case.reason.as_deref().unwrap_or_default())?;
        text(sheet, row, column + 1, &case.tags.join(" "))?;
        text(sheet, row, column + 2, &case.id)?;
    }
    let last = u16::try_from(heads.len().saturating_sub(1)).unwrap_or(u16::MAX);
    sheet.autofilter(0, 0, row.max(1), last)?;
    Ok(row)
}

/// Writes a figure's data and draws it beside; returns the last row used.
fn draw(sheet: &mut Worksheet, name: &str, figure: &Figure, top: u32) -> Result<u32, XlsxError> {
    let bold = Format::new().set_bold();
    sheet.write_with_format(top, 0, clip(&figure.title), &bold)?;
    text(sheet, top + 1, 0, &figure.note)?;
    let by_name = figure.x.scale == Scale::Category;
    let mut chart = Chart::new(if by_name {
        ChartType::Line
    } else {
        ChartType::Scatter
    });
    let heads = [figure.x.label.as_str(), "", "below", "above"];
    let mut row = top + 3;
    for (i, series) in figure.series.iter().enumerate() {
        for (column, head) in (0u16..).zip(heads) {
            let head = if column == 1 { &series.name } else { head };
            sheet.write_with_format(row, column, clip(head), &bold)?;
        }
        let places = if by_name { names(figure) } else { Vec::new() };
        let first = row + 1;
        // On a category axis every series has a row for every name, so that they line up.
        let lines: Vec<(Place<'_>, Option<&Point>)> = if by_name {
            let at = |place| series.points.iter().find(|p| p.x.round() as i64 == place);
            places
                .iter()
                .map(|(place, name)| (Place::Name(name), at(*place)))
                .collect()
        } else {
            series
                .points
                .iter()
                .map(|p| (Place::Number(p.x), Some(p)))
                .collect()
        };
        for (place, point) in &lines {
            row += 1;
            match place {
                Place::Name(name) => text(sheet, row, 0, name)?,
                Place::Number(x) => number(sheet, row, 0, Some(*x))?,
            }
            let Some(p) = point else { continue };
            number(sheet, row, 1, Some(p.y))?;
            number(sheet, row, 2, p.ci95.map(|[low, _]| p.y - low))?;
            number(sheet, row, 3, p.ci95.map(|[_, high]| high - p.y))?;
        }
        if !series.points.is_empty() {
            add(&mut chart, name, figure, i, first, row);
        }
        row += 2;
    }
    if figure.series.iter().all(|series| series.points.is_empty()) {
        text(
            sheet,
            top + 2,
            0,
            "No data: no case that belongs here has figures.",
        )?;
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
    chart
        .set_width(900)
        .set_height(440)
        .set_alt_text(clip(&figure.note).chars().take(255).collect::<String>());
    sheet.insert_chart(top + 3, 5, &chart)?;
    Ok(row.max(top + 3 + CHART_ROWS))
}

/// Where a point stands.
enum Place<'a> {
    Name(&'a str),
    Number(f64),
}

/// Text that is not taken for a formula.
fn label(text: &str) -> String {
    clip(text.trim_start_matches(['=', ' ']))
}

/// The names on a category axis, in order.
fn names(figure: &Figure) -> Vec<(i64, String)> {
    let points = figure.series.iter().flat_map(|s| &s.points);
    let mut names: Vec<(i64, String)> = points.map(|p| (p.x.round() as i64, category(p))).collect();
    names.sort();
    names.dedup_by_key(|(place, _)| *place);
    names
}

fn add(chart: &mut Chart, sheet: &str, figure: &Figure, index: usize, first: u32, last: u32) {
    let series = &figure.series[index];
    let colour = Color::RGB(COLOURS[index % COLOURS.len()]);
    let dash = match series.origin {
        Origin::Measured => ChartLineDashType::Solid,
        Origin::Published => ChartLineDashType::Dash,
        Origin::Ideal => ChartLineDashType::RoundDot,
    };
    let mut line = ChartLine::new();
    line.set_color(colour).set_width(1.5).set_dash_type(dash);
    if figure.x.scale == Scale::Category {
        line.set_hidden(true);
    }
    let mut fill = ChartFormat::new();
    fill.set_border(ChartLine::new().set_color(colour));
    match series.origin {
        Origin::Measured => fill.set_solid_fill(ChartSolidFill::new().set_color(colour)),
        _ => fill.set_solid_fill(ChartSolidFill::new().set_color(Color::White)),
    };
    let mut marker = ChartMarker::new();
    match series.origin {
        Origin::Ideal => marker.set_none(),
        _ => marker
            .set_type(MARKERS[index % MARKERS.len()])
            .set_size(7)
            .set_format(&mut fill),
    };
    let drawn = chart
        .add_series()
        .set_name((sheet, first - 1, 1))
        .set_categories((sheet, first, 0, last, 0))
        .set_values((sheet, first, 1, last, 1))
        .set_format(ChartFormat::new().set_line(&line))
        .set_marker(&marker);
    if series.points.iter().any(|p| p.ci95.is_some()) {
        let above = ChartRange::new_from_range(sheet, first, 3, last, 3);
        let below = ChartRange::new_from_range(sheet, first, 2, last, 2);
        let mut bars = ChartErrorBars::new();
        bars.set_type(ChartErrorBarsType::Custom(above, below));
        drawn.set_y_error_bars(&bars);
    }
}

fn axis(drawn: &mut rust_xlsxwriter::ChartAxis, axis: &Axis, values: impl Iterator<Item = f64>) {
    drawn.set_name(label(&axis.label).as_str());
    if axis.scale != Scale::Log {
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
