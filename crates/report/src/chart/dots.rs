//! Numbers by name: a dot plot, with the names down the side and a lane for each series.

use std::collections::BTreeMap;

use threadgauge_results::Figure;

use super::axis::{Axis, category, width};
use super::lines::said;
use super::look::Line;
use super::svg::{Head, Size, Svg, escape, n};

const LANE: f64 = 15.0;
/// From one line of a name to the next.
const TEXT: f64 = 15.0;
const PADDING: f64 = 10.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 52.0;
const RIGHT: f64 = 26.0;

/// Draws `front`, a lane each within the band of every category.
pub(super) fn draw(figure: &Figure, value: &Axis, front: &[&Line<'_>], head: &Head, size: Size) -> String {
    let full = size.width();
    let longest = if size == Size::Wide { 32 } else { 19 };
    let names = names(figure);
    let band = band(front.len());
    let height = names.len() as f64 * band;
    let lines = ((band / TEXT) as usize).max(1);
    let written: BTreeMap<i64, Vec<String>> = names
        .iter()
        .map(|(key, name)| (*key, in_lines(name, longest, lines)))
        .collect();
    let widths = written.values().flatten().map(|line| width(line));
    let left = widths.fold(60.0, f64::max) + 14.0;
    let span = full - left - RIGHT;
    let at = |v: f64| left + value.place(v) * span;

    let mut svg = Svg::open(head, full, TOP + height + BOTTOM);
    for (tick, label) in value.labels(span) {
        svg.line("g", (at(tick), TOP), (at(tick), TOP + height));
        if let Some(label) = label {
            svg.text(at(tick), TOP + height + 18.0, "middle", "k", &label);
        }
    }
    svg.text(
        left + span / 2.0,
        TOP + height + 43.0,
        "middle",
        "t",
        &figure.y.label,
    );
    let rows: BTreeMap<i64, f64> = names
        .keys()
        .enumerate()
        .map(|(i, k)| (*k, TOP + i as f64 * band))
        .collect();
    for (key, name) in &names {
        let top = rows[key];
        svg.line("a f", (0.0, top), (left + span, top));
        svg.raw(&format!("<g><title>{}</title>", escape(name)));
        let first = top + band / 2.0 + 4.5 - (written[key].len() - 1) as f64 * TEXT / 2.0;
        for (i, line) in written[key].iter().enumerate() {
            svg.text(left - 12.0, first + i as f64 * TEXT, "end", "k", line);
        }
        svg.raw("</g>");
    }
    svg.line("a", (0.0, TOP + height), (left + span, TOP + height));
    for (lane, line) in front.iter().enumerate() {
        svg.raw(&format!("<g class=\"{}\">", line.look.class()));
        for point in &line.points {
            let Some(top) = rows.get(&(point.x.round() as i64)) else {
                continue;
            };
            let y = top + PADDING / 2.0 + (lane as f64 + 0.5) * LANE;
            svg.raw(&format!(
                "<g><title>{}, {}: {}</title>",
                escape(&line.series.name),
                escape(&category(point)),
                escape(&said(point.y, point.ci95))
            ));
            if let Some([low, high]) = point.ci95 {
                let (from, to) = (n(at(low)), n(at(high)));
                svg.raw(&format!(
                    "<path class=\"e\" d=\"M{from} {}v8m0-4H{to}m0-4v8\"/>",
                    n(y - 4.0)
                ));
            }
            line.look.marker(&mut svg, at(point.y), y);
            svg.raw("</g>");
        }
        svg.raw("</g>");
    }
    svg.close()
}

/// How tall a picture of so many lines is.
pub(super) fn height(figure: &Figure, lines: usize) -> f64 {
    TOP + names(figure).len() as f64 * band(lines) + BOTTOM
}

/// All categories of the figure, also those another panel shows: panels stay comparable.
fn names(figure: &Figure) -> BTreeMap<i64, String> {
    let points = figure.series.iter().flat_map(|s| &s.points);
    points
        .filter(|p| p.x.is_finite())
        .map(|p| (p.x.round() as i64, category(p)))
        .collect()
}

fn band(lines: usize) -> f64 {
    lines as f64 * LANE + PADDING
}

/// A name that fits beside the chart, in so many lines; what does not fit the last is cut.
fn in_lines(name: &str, longest: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in name.split_whitespace() {
        let at = lines.len() - 1;
        let fits = lines[at].is_empty() || lines[at].chars().count() + 1 + word.chars().count() <= longest;
        if fits || lines.len() == most {
            let space = if lines[at].is_empty() { "" } else { " " };
            lines[at] = format!("{}{space}{word}", lines[at]);
        } else {
            lines.push(word.to_owned());
        }
    }
    for line in &mut lines {
        if line.chars().count() > longest {
            let kept: String = line.chars().take(longest - 1).collect();
            *line = format!("{}…", kept.trim_end());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::in_lines;

    #[test]
    fn a_long_name_is_wrapped_where_there_is_room_and_else_cut() {
        let name = "give a job to a waiting one, 2 CPUs";
        assert_eq!(in_lines(name, 19, 3), ["give a job to a", "waiting one, 2 CPUs"]);
        assert_eq!(in_lines(name, 19, 1), ["give a job to a wa…"]);
        assert_eq!(in_lines("fork", 19, 1), ["fork"]);
    }
}
