//! Draws a figure as SVG that takes its colours from the page.
//!
//! Drawn here by hand. `kuva` 0.6 was tried: over a range like ours it put ticks of a logarithmic axis at powers of
//! ten only (our counts are powers of two), let long category names overlap, cut the outermost label and the
//! foot of the legend, and its legend shows a line or a marker, not both; every chart gets the same clip id,
//! so a page can hold one. `plotters` was not tried: its colours are fixed RGB by type, so its charts could not
//! follow the page into the dark.
//!
//! Numbers against a number become lines ([`lines`]); numbers by name become a dot plot with the
//! names down the side, where they can be read ([`dots`]). Many series are spread over panels. Legends
//! are HTML, so that they wrap: see [`swatch`]. Leaves out the data table beside it.

mod axis;
mod dots;
mod lines;
mod look;
pub(crate) mod svg;

use threadgauge_results::{Figure, Point, Scale};

pub(crate) use look::swatch;

pub(crate) use axis::{Axis, category};
use look::{Line, Look};
use svg::{Head, Size};

/// The most series that share a panel.
const CROWD: usize = 8;
/// How many of them share one when there are more.
const PANEL: usize = 6;

/// What came of drawing a figure.
pub(crate) struct Drawing {
    /// Empty where there is nothing to draw.
    pub panels: Vec<Panel>,
    /// Points that cannot stand on their axis (not above zero on a logarithmic one, or not a number).
    pub left_out: usize,
    /// Intervals that reach beyond the axis, and are drawn without an end there.
    pub cut: usize,
}

/// A chart, drawn twice: scaling one picture down would leave its text unreadable on a phone.
pub(crate) struct Panel {
    /// SVG for a page.
    pub wide: String,
    /// SVG for a phone.
    pub narrow: String,
    /// The places in `figure.series` of what it shows.
    pub shown: Vec<usize>,
}

/// Draws `figure`; `id` is unique in the page and prefixes the ids within.
pub(crate) fn draw(figure: &Figure, id: &str) -> Drawing {
    let all: usize = figure.series.iter().map(|s| s.points.len()).sum();
    let lines: Vec<(usize, Line<'_>)> = (figure.series.iter().enumerate())
        .map(|(i, series)| {
            let points = series.points.iter().filter(|p| can_stand(figure, p)).collect();
            (
                i,
                Line {
                    series,
                    points,
                    look: Look::of(figure, i),
                },
            )
        })
        .filter(|(_, line)| !line.points.is_empty())
        .collect();
    let drawn: usize = lines.iter().map(|(_, l)| l.points.len()).sum();
    let left_out = all - drawn;
    if lines.is_empty() {
        return Drawing {
            panels: Vec::new(),
            left_out,
            cut: 0,
        };
    }
    let points = || lines.iter().flat_map(|(_, line)| &line.points);
    let y = value_axis(figure.y.scale, points().copied());
    let is_cut = |point: &&&Point| {
        point
            .ci95
            .is_some_and(|ends| !ends.iter().all(|end| y.holds(*end)))
    };
    let cut = points().filter(is_cut).count();
    let count = if lines.len() > CROWD {
        lines.len().div_ceil(PANEL)
    } else {
        1
    };
    let share = lines.len().div_ceil(count);
    let panels = lines.chunks(share).enumerate().map(|(n, chunk)| {
        let front: Vec<&Line<'_>> = chunk.iter().map(|(_, l)| l).collect();
        let back: Vec<&Line<'_>> = lines
            .iter()
            .map(|(_, l)| l)
            .filter(|l| !front.iter().any(|f| std::ptr::eq(*f, *l)))
            .collect();
        let part = (count > 1).then_some((n + 1, count));
        let id = part.map_or_else(|| id.to_owned(), |(n, _)| format!("{id}-{n}"));
        let svg = |size, id: &str| {
            let head = head(figure, id, part, &front);
            if figure.x.scale == Scale::Category {
                dots::draw(figure, &y, &front, &head, size)
            } else {
                lines::draw(figure, &y, &front, &back, &head, size)
            }
        };
        Panel {
            wide: svg(Size::Wide, &id),
            narrow: svg(Size::Narrow, &format!("{id}-narrow")),
            shown: chunk.iter().map(|(i, _)| *i).collect(),
        }
    });
    Drawing {
        panels: panels.collect(),
        left_out,
        cut,
    }
}

/// An axis that holds all figures, and their intervals unless one would squeeze all else into a corner: of an evenly
/// divided axis at most twice as far as the largest figure.
fn value_axis<'p>(scale: Scale, points: impl Iterator<Item = &'p Point>) -> Axis {
    let points: Vec<&Point> = points.collect();
    let largest = points.iter().map(|point| point.y.abs()).fold(0.0, f64::max);
    let reach = if scale == Scale::Linear && largest > 0.0 {
        2.0 * largest
    } else {
        f64::INFINITY
    };
    let ends = points.iter().flat_map(|point| extent(point));
    Axis::of(scale, ends.map(|end| end.clamp(-reach, reach)))
}

/// About how tall a figure is on a page 1400 pixels wide, with its legend and note.
pub(crate) fn height(figure: &Figure) -> f64 {
    /// How much a picture is enlarged there.
    const ENLARGED: f64 = 1.21;
    const BESIDE: f64 = 190.0;
    let series: Vec<Vec<&Point>> = (figure.series.iter())
        .filter(|s| !s.points.is_empty())
        .map(|s| s.points.iter().collect())
        .collect();
    let lines = series.len();
    if lines == 0 {
        return BESIDE;
    }
    let panels = if lines > CROWD { lines.div_ceil(PANEL) } else { 1 };
    let share = lines.div_ceil(panels);
    let series: Vec<&[&Point]> = series.iter().map(Vec::as_slice).collect();
    let panel = |shown: &[&[&Point]]| {
        if figure.x.scale == Scale::Category {
            dots::height(figure, shown)
        } else {
            lines::TALL
        }
    };
    series
        .chunks(share)
        .map(|shown| panel(shown) * ENLARGED + BESIDE)
        .sum()
}

/// The ends of a point's interval, and the point.
fn extent(point: &Point) -> impl Iterator<Item = f64> {
    let [low, high] = point.ci95.unwrap_or([point.y; 2]);
    [low, point.y, high].into_iter()
}

fn can_stand(figure: &Figure, point: &Point) -> bool {
    let fits = |scale, v: f64| v.is_finite() && (scale != Scale::Log || v > 0.0);
    fits(figure.y.scale, point.y) && fits(figure.x.scale, point.x)
}

fn head(figure: &Figure, id: &str, part: Option<(usize, usize)>, front: &[&Line<'_>]) -> Head {
    let part = part.map_or_else(String::new, |(n, of)| format!(", part {n} of {of}"));
    let names: Vec<&str> = front.iter().map(|l| l.series.name.as_str()).collect();
    Head {
        id: id.to_owned(),
        title: format!("{}{part}", figure.title),
        description: format!(
            "{} by {}: {}. The table below the chart has every figure.",
            figure.y.label,
            figure.x.label,
            names.join("; ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_results::{Axis as Named, Origin, Series};

    use super::*;

    fn figure(x: Scale, points: &[(f64, f64, [f64; 2])]) -> Figure {
        let axis = |scale| Named {
            label: String::new(),
            scale,
        };
        let point = |&(x, y, ends): &(f64, f64, [f64; 2])| Point {
            x,
            label: None,
            y,
            ci95: Some(ends),
        };
        Figure {
            id: "f".to_owned(),
            title: String::new(),
            note: String::new(),
            x: axis(x),
            y: axis(Scale::Linear),
            series: vec![Series {
                name: "here".to_owned(),
                origin: Origin::Measured,
                points: points.iter().map(point).collect(),
            }],
        }
    }

    #[test]
    fn a_point_that_cannot_stand_is_left_out_and_counted() {
        let ends = [4.0, 4.0];
        let of = |x: f64, y: f64| {
            draw(
                &figure(Scale::Linear, &[(x, y, ends), (1.0, 4.0, ends), (2.0, 4.0, ends)]),
                "f",
            )
        };
        for (x, y) in [(f64::NAN, 4.0), (0.0, f64::INFINITY)] {
            let drawing = of(x, y);
            assert_eq!((drawing.left_out, drawing.panels.len()), (1, 1));
        }
        assert_eq!(of(0.0, 4.0).left_out, 0);
    }

    #[test]
    fn intervals_around_nothing_but_zero_are_whole() {
        let drawing = draw(
            &figure(Scale::Linear, &[(0.0, 0.0, [-3.0, 3.0]), (1.0, 0.0, [-1.0, 1.0])]),
            "f",
        );
        assert_eq!(drawing.cut, 0);
    }

    #[test]
    fn a_figure_is_as_tall_on_a_page_as_its_pictures() {
        let points = [(0.0, 4.0, [3.0, 5.0]), (1.0, 9.0, [8.0, 9.0])];
        let lines = figure(Scale::Linear, &points);
        assert_eq!(height(&lines), 400.0 * 1.21 + 190.0);
        // Two names of a line, each with a lane.
        let names = figure(Scale::Category, &points);
        assert_eq!(height(&names), (8.0 + 2.0 * 25.0 + 52.0) * 1.21 + 190.0);
        let nothing = figure(Scale::Linear, &[]);
        assert_eq!(height(&nothing), 190.0);
        // Nine lines are in two panels.
        let mut crowd = figure(Scale::Linear, &points);
        crowd.series = vec![crowd.series[0].clone(); 9];
        assert_eq!(height(&crowd), 2.0 * height(&lines));
    }

    #[test]
    fn an_interval_that_would_squeeze_all_figures_into_a_corner_is_cut_at_the_edge_and_counted() {
        for x in [Scale::Linear, Scale::Category] {
            let drawing = draw(
                &figure(x, &[(0.0, 4.0, [3.0, 5.0]), (1.0, 9.0, [8.0, 900.0])]),
                "f",
            );
            assert_eq!(drawing.cut, 1);
            let wide = &drawing.panels[0].wide;
            assert!(!wide.contains(">500<") && wide.contains(">10<"), "{wide}");
            assert_eq!(
                draw(
                    &figure(x, &[(0.0, 4.0, [3.0, 5.0]), (1.0, 9.0, [8.0, 12.0])]),
                    "f"
                )
                .cut,
                0
            );
        }
    }
}
