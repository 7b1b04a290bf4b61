//! The front as a picture: how far over the ideal, and how long a finisher waits. Both axes are logarithmic, and down
//! and to the left is better.
//!
//! Drawn by hand, as the charts of the report are, but for one figure and a file of its own: its colours follow the
//! reader's scheme by themselves. A label stands beside its dot where there is room, or a little off with a line.

use std::fmt::Write as _;

use super::peers::Role;
use super::table::Point;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 620.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 52.0;
/// Of the text, and about how wide its letters are.
const TEXT: f64 = 12.0;
const LETTER: f64 = 7.2;
/// What the default mode is held to.
const MOST_OVER: f64 = 0.12;
const MOST_WAIT_US: f64 = 10.0;

/// From one end of an axis to the other.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// What lies outside is drawn at the edge.
    fn at(&self, value: f64) -> f64 {
        let share = (value.clamp(self.least, self.most) / self.least).ln() / (self.most / self.least).ln();
        self.from + share * (self.to - self.from)
    }

    /// 1, 2 and 5 of each power of ten.
    fn ticks(&self) -> Vec<f64> {
        let (mut ticks, mut power) = (Vec::new(), 10_f64.powf(self.least.log10().floor()));
        while power <= self.most {
            ticks.extend(
                [power, 2.0 * power, 5.0 * power]
                    .into_iter()
                    .filter(|t| (self.least..=self.most).contains(t)),
            );
            power *= 10.0;
        }
        ticks
    }
}

#[derive(Clone, Copy)]
struct Rect {
    x: f64,
    y: f64,
    w: f64,
    h: f64,
}

impl Rect {
    fn meets(&self, other: &Rect) -> bool {
        self.x < other.x + other.w
            && other.x < self.x + self.w
            && self.y < other.y + other.h
            && other.y < self.y + self.h
    }

    fn inside(&self) -> bool {
        self.x >= LEFT
            && self.x + self.w <= WIDTH - 4.0
            && self.y >= TOP
            && self.y + self.h <= HEIGHT - BOTTOM
    }
}

/// The picture.
pub fn svg(points: &[Point]) -> String {
    let x = Axis {
        least: 0.01,
        most: 10.0,
        from: LEFT,
        to: WIDTH - RIGHT,
    };
    let y = Axis {
        least: 0.05,
        most: 20_000.0,
        from: HEIGHT - BOTTOM,
        to: TOP,
    };
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"system-ui, sans-serif\" font-size=\"{TEXT}\" role=\"img\">
<title>Over the ideal and the finisher's wait, processors of 10 µs, k = 2</title>
<style>
svg {{ --paper: #fff; --ink: #1b1b1b; --faint: #d8d8d8; --ours: #b3261e; --peer: #2456a6; --floor: #666; --goal: #2e7d3222 }}
@media (prefers-color-scheme: dark) {{ svg {{ --paper: #16181c; --ink: #e8e8e8; --faint: #3a3d42; --ours: #ff8a80; --peer: #8ab4f8; --floor: #aaa; --goal: #66bb6a33 }} }}
text {{ fill: var(--ink) }} .ours {{ fill: var(--ours); font-weight: 600 }} .peer {{ fill: var(--peer) }} .floor {{ fill: var(--floor) }}
line {{ stroke: var(--faint) }} .leader {{ stroke: var(--floor) }}
</style>
<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"var(--paper)\"/>
<text x=\"{LEFT}\" y=\"20\" font-weight=\"600\">Processors of 10 µs, k = 2: efficient is left, prompt is down</text>
<text x=\"{LEFT}\" y=\"37\">shaded: at most 12 % over the ideal with a median wait of at most 10 µs</text>
"
    );
    let goal = (x.at(MOST_OVER), y.at(MOST_WAIT_US));
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"var(--goal)\"/>",
        goal.1,
        goal.0 - LEFT,
        y.from - goal.1
    );
    for tick in x.ticks() {
        let at = x.at(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} %</text>",
            y.from,
            y.from + 17.0,
            (tick * 100.0).round()
        );
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        let label = if tick.log10().fract().abs() < 1e-9 {
            format!("{tick} µs")
        } else {
            String::new()
        };
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            x.to,
            LEFT - 6.0,
            at + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">over the ideal (at the left edge: 1 % or less)</text>",
        f64::midpoint(x.from, x.to),
        HEIGHT - 12.0
    );
    let _ = writeln!(
        svg,
        "<text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">the finisher waits, median</text>",
        f64::midpoint(y.from, y.to)
    );
    let dots: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (x.at(point.over.max(x.least)), y.at(point.wait_us)))
        .collect();
    for ((point, dot), label) in points.iter().zip(&dots).zip(labels(points, &dots)) {
        let class = match point.role {
            Role::Ours => "ours",
            Role::Peer => "peer",
            Role::Floor => "floor",
        };
        let middle = label.x + label.w / 2.0;
        let (edge_x, edge_y) = (
            dot.0.clamp(label.x, label.x + label.w),
            dot.1.clamp(label.y, label.y + label.h),
        );
        if (edge_x - dot.0).hypot(edge_y - dot.1) > 12.0 {
            let _ = writeln!(
                svg,
                "<line class=\"leader\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{edge_x:.1}\" y2=\"{edge_y:.1}\"/>",
                dot.0, dot.1
            );
        }
        let _ = writeln!(
            svg,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{}\"><title>{}: {:.1} % over the ideal, {:.1} µs</title></circle><text class=\"{class}\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            dot.0,
            dot.1,
            if point.role == Role::Ours { 6 } else { 4 },
            point.name,
            point.over * 100.0,
            point.wait_us,
            label.y + TEXT - 2.0,
            point.name
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where each name stands: the nearest place that meets no dot and no other name. Ours choose first.
fn labels(points: &[Point], dots: &[(f64, f64)]) -> Vec<Rect> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|i| points[*i].role != Role::Ours);
    let mut taken: Vec<Rect> = dots
        .iter()
        .map(|(x, y)| Rect {
            x: x - 5.0,
            y: y - 5.0,
            w: 10.0,
            h: 10.0,
        })
        .collect();
    let mut placed = vec![
        Rect {
            x: 0.0,
            y: 0.0,
            w: 0.0,
            h: 0.0
        };
        points.len()
    ];
    for i in order {
        let (x, y) = dots[i];
        let (w, h) = (points[i].name.len() as f64 * LETTER, TEXT + 2.0);
        let beside = |gap: f64, dy: f64| {
            [
                Rect {
                    x: x + gap,
                    y: y - h / 2.0 + dy,
                    w,
                    h,
                },
                Rect {
                    x: x - gap - w,
                    y: y - h / 2.0 + dy,
                    w,
                    h,
                },
                Rect {
                    x: x - w / 2.0,
                    y: y - h / 2.0 + dy,
                    w,
                    h,
                },
            ]
        };
        let candidates = (0..60).flat_map(|step| {
            let away = f64::from(step) * 7.0;
            beside(9.0, away).into_iter().chain(beside(9.0, -away))
        });
        let free = candidates
            .clone()
            .find(|rect| rect.inside() && !taken.iter().any(|other| other.meets(rect)));
        let rect = free
            .or_else(|| candidates.into_iter().next())
            .unwrap_or(placed[i]);
        taken.push(rect);
        placed[i] = rect;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &'static str, role: Role, over: f64, wait_us: f64) -> Point {
        Point {
            name,
            role,
            over,
            wait_us,
        }
    }

    #[test]
    fn no_name_stands_on_another_or_outside() {
        let names = [
            "crossbeam-1024",
            "kanal-1024",
            "std-1024",
            "rayon-1024",
            "ours-prompt",
            "go-errgroup",
        ];
        let points: Vec<Point> = names
            .iter()
            .map(|name| point(name, Role::Peer, 0.05, 1800.0))
            .collect();
        let placed = labels(&points, &vec![(300.0, 150.0); points.len()]);
        for (i, rect) in placed.iter().enumerate() {
            assert!(rect.inside(), "{}", names[i]);
            assert!(!placed[..i].iter().any(|other| other.meets(rect)), "{}", names[i]);
        }
    }

    #[test]
    fn every_point_is_drawn_also_below_the_ideal() {
        let svg = svg(&[
            point("ours", Role::Ours, -0.02, 0.0),
            point("far", Role::Peer, 99.0, 1e9),
        ]);
        assert!(svg.contains(">ours</text>") && svg.contains(">far</text>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg.matches("<circle").count(), 2);
    }
}
