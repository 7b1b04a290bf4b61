//! Numbers against a number: lines with markers and intervals.

use threadgauge_results::{Figure, Point, units};

use super::axis::{Axis, titled, width};
use super::look::{FEWEST, Line};
use super::names::{self, Name, Taken};
use super::quantity::Bounds;
use super::svg::{Head, LINE, Picture, Size, Svg, escape, n, name_lines};

const BOTTOM: f64 = 54.0;
const RIGHT: f64 = 26.0;
/// How far a mark of size 1 reaches.
const HALF: f64 = 6.0;
/// Markers nearer to each other than this lie on each other.
pub(super) const NEAR: f64 = 6.0;
/// The height of a wide picture.
pub(super) const TALL: f64 = 400.0;

/// Draws `front` over a faint `back`, each with its name at its end where there is room; says which have theirs.
pub(super) fn draw(
    figure: &Figure,
    y: &Axis,
    front: &[&Line<'_>],
    back: &[&Line<'_>],
    head: &Head,
    size: Size,
) -> Picture {
    let (full, tall) = (size.width(), if size == Size::Wide { TALL } else { 330.0 });
    let everyone = || front.iter().chain(back);
    let x = Axis::at(
        figure.x.scale,
        everyone().flat_map(|l| l.points.iter().map(|p| p.x)),
        Bounds::of(&figure.x.label),
    );
    let titles = name_lines(full, &titled(&figure.y));
    let above = 15.0 + titles.len() as f64 * LINE;
    let height = tall - above - BOTTOM;
    let y_labels = y.labels(height * 2.0);
    let widest = y_labels
        .iter()
        .filter_map(|(_, l)| l.as_deref())
        .map(width)
        .fold(0.0, f64::max);
    let left = widest + 18.0;
    let up = |py: f64| above + (1.0 - y.place(py)) * height;
    let last = everyone()
        .flat_map(|line| &line.points)
        .map(|point| point.x)
        .fold(f64::NEG_INFINITY, f64::max);
    let ends = Ends::of(front, last, size, up, [above - LINE / 2.0, above + height]);
    let right = names::room(ends.beside.iter().map(|(i, _)| &ends.lines[*i]), ends.gap).max(RIGHT);
    let span = full - left - right;
    let at = |px: f64, py: f64| (left + x.place(px) * span, up(py));

    let mut svg = Svg::open(head, full, tall);
    for (i, name) in titles.iter().enumerate() {
        svg.text(0.0, 14.0 + i as f64 * LINE, "start", "t", name);
    }
    svg.name(left + span / 2.0, tall - 8.0, full, &titled(&figure.x));
    for (tick, label) in y_labels {
        let place = above + (1.0 - y.place(tick)) * height;
        let zero = tick == 0.0 && y.place(0.0) > 0.0;
        svg.line(if zero { "a" } else { "g" }, (left, place), (left + span, place));
        if let Some(label) = label {
            svg.text(left - 10.0, place + 4.5, "end", "k", &label);
        }
    }
    for (tick, label) in x.labels(span) {
        let place = left + x.place(tick) * span;
        svg.line("a", (place, above + height), (place, above + height + 5.0));
        if let Some(label) = label {
            svg.text(place, above + height + 20.0, "middle", "k", &label);
        }
    }
    svg.line("a", (left, above + height), (left + span, above + height));
    for line in back {
        path(&mut svg, line, "l b", at);
    }
    let places: Vec<Vec<(f64, f64)>> = front
        .iter()
        .map(|line| {
            let marked = line.points.iter().filter(|_| line.is_marked());
            marked.map(|point| at(point.x, point.y)).collect()
        })
        .collect();
    let mut taken = Taken::default();
    for (line, sizes) in front.iter().zip(sizes(&places)) {
        if line.points.len() >= FEWEST {
            taken.line(
                &line
                    .points
                    .iter()
                    .map(|point| at(point.x, point.y))
                    .collect::<Vec<_>>(),
            );
        }
        svg.raw(&format!("<g class=\"{}\">", line.look.class()));
        path(&mut svg, line, "l", at);
        for (i, point) in line.points.iter().enumerate() {
            let (px, py) = at(point.x, point.y);
            let text = units::tick(point.x);
            svg.raw(&format!(
                "<g><title>{}: {} at {}</title>",
                escape(&line.series.name),
                escape(&said(point.y, point.ci95)),
                escape(&text)
            ));
            if let Some(ends) = point.ci95 {
                let end = |value: f64| if y.holds(value) { "h8m-4 0" } else { "m4 0" };
                let [bottom, top] = ends.map(|value| at(point.x, value).1);
                taken.area([px - 4.0, top, px + 4.0, bottom]);
                svg.raw(&format!(
                    "<path class=\"e\" d=\"M{x0} {t}{}V{b}{}\"/>",
                    end(ends[1]),
                    if y.holds(ends[0]) { "m-4 0h8" } else { "" },
                    x0 = n(px - 4.0),
                    t = n(top),
                    b = n(bottom)
                ));
            }
            if let Some(size) = sizes.get(i) {
                line.look.marker(&mut svg, (px, py), *size);
                let half = HALF * size;
                taken.area([px - half, py - half, px + half, py + half]);
            }
            svg.raw("</g>");
        }
        svg.raw("</g>");
    }
    let end = |i: usize| at(ends.points[i].x, ends.points[i].y);
    let mut names: Vec<(usize, Name)> = (ends.beside.iter())
        .map(|(i, middle)| (*i, Name::beside(&ends.lines[*i], end(*i), ends.gap, *middle)))
        .collect();
    let room = [above, left + span + RIGHT / 2.0, above + height];
    for i in ends.inner.iter().copied() {
        names.extend(taken.name(&ends.lines[i], end(i), room).map(|name| (i, name)));
    }
    let mut is_named = vec![false; front.len()];
    for (i, name) in names {
        name.draw(&mut svg, &front[i].look.class());
        is_named[i] = true;
    }
    Picture {
        svg: svg.close(),
        height: tall,
        is_named,
    }
}

/// Where lines end, and what of their names can be told before it is known how wide the chart is.
struct Ends<'a> {
    /// The last point of each line.
    points: Vec<&'a Point>,
    /// The name of each in lines; empty where it would be cut.
    lines: Vec<Vec<String>>,
    /// Those that reach the last place and whose names have room beside it, with the middles of these.
    beside: Vec<(usize, f64)>,
    /// How far beside: past the largest mark there.
    gap: f64,
    /// Those that end before, and whose names must find room within the chart.
    inner: Vec<usize>,
}

impl<'a> Ends<'a> {
    fn of(front: &[&Line<'a>], last: f64, size: Size, up: impl Fn(f64) -> f64, bounds: [f64; 2]) -> Self {
        let end = |line: &&Line<'a>| line.points.iter().copied().max_by(|a, b| a.x.total_cmp(&b.x));
        let points: Vec<&Point> = front.iter().filter_map(end).collect();
        let short = |line: &&Line<'_>| names::in_short(line.series, size).unwrap_or_default();
        let lines: Vec<Vec<String>> = front.iter().map(short).collect();
        let (outer, inner): (Vec<usize>, Vec<usize>) = (0..points.len())
            .filter(|i| !lines[*i].is_empty())
            .partition(|i| points[*i].x >= last);
        let wanted: Vec<(f64, usize)> = outer
            .iter()
            .map(|i| (up(points[*i].y), lines[*i].len()))
            .collect();
        let middles = names::spread(&wanted, bounds);
        let beside = outer
            .into_iter()
            .zip(middles)
            .filter_map(|(i, middle)| Some((i, middle?)));
        let mark = |(i, line): (usize, &&Line<'_>)| {
            let is_there = line.is_marked() && points[i].x >= last;
            is_there.then(|| (0.0, up(points[i].y))).into_iter().collect()
        };
        let marks: Vec<Vec<(f64, f64)>> = front.iter().enumerate().map(mark).collect();
        let largest = sizes(&marks).into_iter().flatten().fold(0.0, f64::max);
        Self {
            beside: beside.collect(),
            points,
            lines,
            gap: names::GAP.max(HALF * largest + 3.0),
            inner,
        }
    }
}

/// How large each marker is drawn: where those of several lines are at one place they lie around each other, the
/// first the largest, so that each can be seen where it belongs.
fn sizes(places: &[Vec<(f64, f64)>]) -> Vec<Vec<f64>> {
    /// How much larger the next around them is.
    const STEP: f64 = 0.6;
    let near = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() < NEAR && (a.1 - b.1).abs() < NEAR;
    let size = |line: usize, place: (f64, f64)| {
        let later = places[line + 1..].iter();
        1.0 + STEP
            * later
                .filter(|other| other.iter().any(|at| near(*at, place)))
                .count() as f64
    };
    let of_line = |(line, at): (usize, &Vec<(f64, f64)>)| at.iter().map(|place| size(line, *place)).collect();
    places.iter().enumerate().map(of_line).collect()
}

/// A figure of a chart in words; its unit is in the axis.
pub(super) fn said(y: f64, ci95: Option<[f64; 2]>) -> String {
    units::Scale::of("count", y).estimate_number(y, ci95)
}

fn path(svg: &mut Svg, line: &Line<'_>, class: &str, at: impl Fn(f64, f64) -> (f64, f64)) {
    if line.points.len() < FEWEST {
        return;
    }
    let class = format!("{class}{}", line.look.thin());
    let mut d = String::new();
    for (i, point) in line.points.iter().enumerate() {
        let (x, y) = at(point.x, point.y);
        d.push_str(&format!("{}{} {}", if i == 0 { "M" } else { "L" }, n(x), n(y)));
    }
    svg.raw(&format!(
        "<path class=\"{class}\" d=\"{d}\"{}/>",
        line.look.dash()
    ));
}

#[cfg(test)]
mod tests {
    use super::sizes;

    #[test]
    fn markers_at_one_place_lie_around_each_other_where_they_belong() {
        let places = [
            vec![(100.0, 50.0), (200.0, 50.0)],
            vec![(100.0, 50.0)],
            vec![(100.0, 51.0), (200.0, 90.0)],
            // Six apart is beside: across, and along.
            vec![(206.0, 50.0), (100.0, 57.0)],
            vec![(200.0, 56.0)],
        ];
        let expected = [
            vec![2.2, 1.0],
            vec![1.6],
            vec![1.0, 1.0],
            vec![1.0, 1.0],
            vec![1.0],
        ];
        assert_eq!(sizes(&places), expected);
    }
}
