//! Numbers by name: a dot plot, with the names down the side and a lane for each series that has one.

use std::collections::BTreeMap;

use threadgauge_results::published::cited;
use threadgauge_results::{Figure, Point};

use super::axis::{Axis, category, in_lines, titled, width};
use super::lines::said;
use super::look::{Line, Look};
use super::svg::{Head, LINE, Picture, Size, Svg, escape, n, name_lines};

const LANE: f64 = 15.0;
const PADDING: f64 = 10.0;
/// Room for what the names are of.
const TOP: f64 = 26.0;
const BOTTOM: f64 = 52.0;
const RIGHT: f64 = 26.0;
/// Room for the mark of what a row is called after.
const MARK: f64 = 16.0;

/// Names have at most so many lines; what does not fit the last is cut.
const MOST_LINES: usize = 3;

/// Draws `front`: a row for every category, with a lane for each line that has a point in it.
pub(super) fn draw(figure: &Figure, value: &Axis, front: &[&Line<'_>], head: &Head, size: Size) -> Picture {
    let full = size.width();
    let series: Vec<&[&Point]> = front.iter().map(|line| line.points.as_slice()).collect();
    let rows = rows(figure, &series, size);
    let height: f64 = rows.iter().map(Row::height).sum();
    let widths = rows.iter().flat_map(|row| &row.name).map(|line| width(line));
    let marks = if rows.iter().any(|row| row.look.is_some()) {
        MARK
    } else {
        0.0
    };
    let left = widths.fold(60.0, f64::max) + 14.0 + marks;
    let span = full - left - RIGHT;
    let at = |v: f64| left + value.place(v) * span;

    let more = (name_lines(full, &titled(&figure.y)).len() - 1) as f64 * LINE;
    let tall = TOP + height + BOTTOM + more;
    let mut svg = Svg::open(head, full, tall);
    for (tick, label) in value.labels(span) {
        svg.line("g", (at(tick), TOP), (at(tick), TOP + height));
        if let Some(label) = label {
            svg.text(at(tick), TOP + height + 18.0, "middle", "k", &label);
        }
    }
    svg.text(0.0, 14.0, "start", "t", &figure.x.label);
    svg.name(left + span / 2.0, TOP + height + 43.0, full, &titled(&figure.y));
    let mut top = TOP;
    for row in &rows {
        svg.line("a f", (0.0, top), (left + span, top));
        svg.raw(&format!("<g><title>{}</title>", escape(&row.category)));
        let middle = top + row.height() / 2.0;
        let first = middle + 4.5 - (row.name.len() - 1) as f64 * LINE / 2.0;
        for (i, line) in row.name.iter().enumerate() {
            svg.text(left - 12.0 - marks, first + i as f64 * LINE, "end", "k", line);
        }
        svg.raw("</g>");
        if let Some(look) = row.look {
            svg.raw(&format!("<g class=\"{} row\">", look.class()));
            look.marker(&mut svg, (left - MARK, middle), 1.0);
            svg.raw("</g>");
        }
        for (lane, (line, point)) in row.lanes.iter().enumerate() {
            let y = middle + (lane as f64 - (row.lanes.len() - 1) as f64 / 2.0) * LANE;
            mark(&mut svg, front[*line], point, y, value, at);
        }
        top += row.height();
    }
    svg.line("a", (0.0, top), (left + span, top));
    Picture {
        svg: svg.close(),
        height: tall,
        is_named: vec![false; front.len()],
    }
}

/// A point with its interval.
fn mark(svg: &mut Svg, line: &Line<'_>, point: &Point, y: f64, value: &Axis, at: impl Fn(f64) -> f64) {
    svg.raw(&format!(
        "<g class=\"{}\"><title>{}, {}: {}</title>",
        line.look.class(),
        escape(&line.series.name),
        escape(&category(point)),
        escape(&said(point.y, point.ci95))
    ));
    if let Some([low, high]) = point.ci95 {
        let (from, to) = (n(at(low)), n(at(high)));
        svg.raw(&format!(
            "<path class=\"e\" d=\"M{from} {}{}H{to}{}\"/>",
            n(y - 4.0),
            if value.holds(low) { "v8m0-4" } else { "m0 4" },
            if value.holds(high) { "m0-4v8" } else { "" },
        ));
    }
    line.look.marker(svg, (at(point.y), y), 1.0);
    svg.raw("</g>");
}

/// A category: its name, and the points that stand beside it.
struct Row<'a> {
    category: String,
    /// As it is written, in lines.
    name: Vec<String>,
    /// How it looks where it is a series, where every row has a look of its own: a thread is blue wherever it is.
    look: Option<Look>,
    /// The place of each series that has a point here, and the point.
    lanes: Vec<(usize, &'a Point)>,
}

impl Row<'_> {
    fn height(&self) -> f64 {
        let lanes = self.lanes.len() as f64 * LANE;
        lanes.max(self.name.len() as f64 * LINE) + PADDING
    }
}

fn rows<'a>(figure: &Figure, series: &[&[&'a Point]], size: Size) -> Vec<Row<'a>> {
    let longest = if size == Size::Wide { 32 } else { 19 };
    let lanes = |key: i64| {
        let numbered = series.iter().enumerate();
        numbered.flat_map(move |(i, points)| {
            let here = points.iter().filter(move |point| point.x.round() as i64 == key);
            here.map(move |point| (i, *point))
        })
    };
    let row = |(key, category): (i64, String)| Row {
        name: in_lines(&cited(&category), longest, MOST_LINES),
        look: Look::of_row(&category),
        category,
        lanes: lanes(key).collect(),
    };
    let mut rows: Vec<Row<'_>> = names(figure).into_iter().map(row).collect();
    // A mark that one row alone has is taken for a figure, and one that two have says of none which it is.
    let looks: Vec<Option<Look>> = rows.iter().map(|row| row.look).collect();
    let is_own =
        |look: &Option<Look>| look.is_some() && looks.iter().filter(|other| *other == look).count() == 1;
    if !looks.iter().all(is_own) {
        rows.iter_mut().for_each(|row| row.look = None);
    }
    rows
}

/// All categories of the figure, also those another panel shows: panels stay comparable.
fn names(figure: &Figure) -> BTreeMap<i64, String> {
    let points = figure.series.iter().flat_map(|s| &s.points);
    points
        .filter(|p| p.x.is_finite())
        .map(|p| (p.x.round() as i64, category(p)))
        .collect()
}

#[cfg(test)]
mod tests {
    use threadgauge_results::{Axis as Named, Origin, Scale, Series};

    use super::*;

    #[test]
    fn a_row_has_a_lane_for_each_point_and_room_for_its_name() {
        let point = |x: f64, name: &str| Point {
            x,
            label: Some(name.to_owned()),
            y: 1.0,
            ci95: None,
        };
        let long = "wake and be answered, another CPU, 99 of 100";
        let series = |points: Vec<Point>| Series {
            name: String::new(),
            origin: Origin::Measured,
            points,
        };
        let axis = || Named {
            label: String::new(),
            scale: Scale::Category,
        };
        let figure = Figure {
            id: String::new(),
            title: String::new(),
            note: String::new(),
            x: axis(),
            y: axis(),
            series: vec![
                series(vec![point(0.0, "fork"), point(1.0, long)]),
                series(vec![point(0.0, "fork")]),
            ],
        };
        let of_series: Vec<Vec<&Point>> = figure.series.iter().map(|s| s.points.iter().collect()).collect();
        let of_series: Vec<&[&Point]> = of_series.iter().map(Vec::as_slice).collect();
        let rows = rows(&figure, &of_series, Size::Narrow);
        assert_eq!(rows.iter().map(|row| row.lanes.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(rows[1].name.join(" "), long);
        assert!(
            rows.iter().all(|row| row.look.is_none()),
            "one of two would be taken for a figure"
        );
        let figure = |names: [&'static str; 2]| Figure {
            series: vec![series(vec![point(0.0, names[0]), point(1.0, names[1])])],
            ..figure.clone()
        };
        let has_looks = |names| {
            let figure = figure(names);
            let points: Vec<&Point> = figure.series[0].points.iter().collect();
            super::rows(&figure, &[&points], Size::Wide)
                .iter()
                .map(|row| row.look.is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(has_looks(["fork", "pthread"]), [true; 2]);
        assert_eq!(has_looks(["fork", "pool"]), [true; 2]);
        assert_eq!(
            has_looks(["pthread", "thread"]),
            [false; 2],
            "two that look alike"
        );
        assert!(rows[1].height() >= 3.0 * LINE);
    }
}
