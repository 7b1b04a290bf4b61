//! Numbers against a number: lines with markers and intervals.

use threadgauge_results::{Figure, units};

use super::axis::{Axis, width};
use super::look::{FEWEST, Line};
use super::quantity::Bounds;
use super::svg::{Head, LINE, Size, Svg, escape, n, name_lines};

const BOTTOM: f64 = 54.0;
const RIGHT: f64 = 26.0;
/// The height of a wide picture.
pub(super) const TALL: f64 = 400.0;

/// Draws `front` over a faint `back`.
pub(super) fn draw(
    figure: &Figure,
    y: &Axis,
    front: &[&Line<'_>],
    back: &[&Line<'_>],
    head: &Head,
    size: Size,
) -> String {
    let (full, tall) = (size.width(), if size == Size::Wide { TALL } else { 330.0 });
    let everyone = || front.iter().chain(back);
    let x = Axis::at(
        figure.x.scale,
        everyone().flat_map(|l| l.points.iter().map(|p| p.x)),
        Bounds::of(&figure.x.label),
    );
    let names = name_lines(full, &figure.y.label);
    let above = 15.0 + names.len() as f64 * LINE;
    let height = tall - above - BOTTOM;
    let y_labels = y.labels(height * 2.0);
    let widest = y_labels
        .iter()
        .filter_map(|(_, l)| l.as_deref())
        .map(width)
        .fold(0.0, f64::max);
    let left = widest + 18.0;
    let span = full - left - RIGHT;
    let at = |px: f64, py: f64| (left + x.place(px) * span, above + (1.0 - y.place(py)) * height);

    let mut svg = Svg::open(head, full, tall);
    for (i, name) in names.iter().enumerate() {
        svg.text(0.0, 14.0 + i as f64 * LINE, "start", "t", name);
    }
    svg.name(left + span / 2.0, tall - 8.0, full, &figure.x.label);
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
    for (line, sizes) in front.iter().zip(sizes(&places)) {
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
            }
            svg.raw("</g>");
        }
        svg.raw("</g>");
    }
    svg.close()
}

/// How large each marker is drawn: where those of several lines are at one place they lie around each other, the
/// first the largest, so that each can be seen where it belongs.
fn sizes(places: &[Vec<(f64, f64)>]) -> Vec<Vec<f64>> {
    /// Markers nearer to each other than this lie on each other.
    const NEAR: f64 = 6.0;
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
