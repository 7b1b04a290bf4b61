//! Draws a figure as SVG that takes its colours from the page.
//!
//! Drawn here by hand. `kuva` 0.6 was tried: over a range like ours it put ticks of a logarithmic axis at powers of
//! ten only (our counts are powers of two), let long category names overlap, cut the outermost label and the
//! foot of the legend, and its legend shows a line or a marker, not both; every chart gets the same clip id,
//! so a page can hold one. `plotters` was not tried: its colours are fixed RGB by type, so its charts could not
//! follow the page into the dark.
//!
//! Numbers against a number become lines ([`lines`]); numbers by name become a dot plot with the
//! names down the side, where they can be read ([`dots`]). Many series are spread over panels. A line has its name
//! where it ends ([`names`]), if there is room; what has none is in a legend, which is HTML, so that it wraps: see
//! [`swatch`]. Leaves out the data table beside it.

mod axis;
mod dots;
mod lines;
#[cfg(test)]
mod lint;
mod look;
mod mark;
mod meaning;
mod names;
mod quantity;
pub(crate) mod svg;

use std::borrow::Cow;

use threadgauge_results::{Figure, Point, Scale, Series, units};

pub(crate) use axis::{Axis, category};
use look::{FEWEST, Line, Look, swatch};
pub(crate) use mark::MARKS;
pub(crate) use names::called;
pub(crate) use quantity::Bounds;
pub(crate) use svg::Picture;
use svg::{Head, Size};

/// The most series that share a panel.
const CROWD: usize = 8;
/// How many of them share one when there are more.
const PANEL: usize = 6;

/// So many figures can be called nearly all alike.
const MANY: usize = 5;
/// The share in one tenth of an axis from which a logarithmic one serves better.
const CROWDED: f64 = 0.8;
/// The share from which a chart is empty but for that tenth.
const ALIKE: f64 = 0.9;

/// What a screen reader hears at the end of a chart's description, in a page.
pub(crate) const TABLE_BELOW: &str = " The table below the chart has every figure.";

/// What came of drawing a figure.
pub(crate) struct Drawing {
    /// Empty where there is nothing to draw.
    pub panels: Vec<Panel>,
    /// Points that cannot stand on their axis (not above zero on a logarithmic one, impossible for
    /// the quantity, as a negative time is, or not a number).
    pub left_out: usize,
    /// Intervals that reach beyond the axis, and are drawn without an end there.
    pub cut: usize,
    /// Which series lie on each other, and so look like one.
    pub same: Vec<String>,
    /// Why there is no chart, where its figures are so alike that it would be empty; a table shows them.
    pub alike: Option<String>,
}

/// A chart, drawn twice: scaling one picture down would leave its text unreadable on a phone.
pub(crate) struct Panel {
    /// For a page.
    pub wide: Picture,
    /// For a phone.
    pub narrow: Picture,
    /// The places in `figure.series` of what it shows.
    pub shown: Vec<usize>,
    /// How each of them looks, as SVG for a legend.
    pub swatches: Vec<String>,
}

/// Draws `figure`; `id` is unique in the page and prefixes the ids within.
pub(crate) fn draw(figure: &Figure, id: &str) -> Drawing {
    let figure = &*arranged(figure);
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
            same: Vec::new(),
            alike: None,
        };
    }
    if let Some(alike) = alike(figure) {
        return Drawing {
            panels: Vec::new(),
            left_out,
            cut: 0,
            same: Vec::new(),
            alike: Some(alike),
        };
    }
    let points = || lines.iter().flat_map(|(_, line)| &line.points);
    let y = value_axis(figure, points().copied());
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
            swatches: chunk.iter().map(|(i, _)| swatch(figure, *i)).collect(),
        }
    });
    Drawing {
        panels: panels.collect(),
        left_out,
        cut,
        same: if figure.x.scale == Scale::Category {
            Vec::new()
        } else {
            let mut same = same(&lines, &y);
            same.extend(in_one_another(&lines, &y));
            same
        },
        alike: None,
    }
}

/// The figure as it is drawn, so that little of it is empty: as rows of dots where there are fewer numbers across than
/// a line needs, and on a logarithmic axis, across or up, where few values would squeeze all others into a tenth of an
/// even one.
pub(crate) fn arranged(figure: &Figure) -> Cow<'_, Figure> {
    let mut figure = in_rows(figure);
    let places = across(&figure);
    let is_positive = places.first().is_some_and(|least| *least > 0.0);
    if figure.x.scale == Scale::Linear && is_positive && places.len() >= MANY {
        let axis = Axis::of(Scale::Linear, places.iter().copied(), Bounds::of(&figure.x.label));
        if fullest_tenth_of(&axis, places.into_iter()) >= CROWDED {
            figure.to_mut().x.scale = Scale::Log;
        }
    }
    let is_positive = |point: &Point| extent(point).all(|end| end > 0.0);
    let mut points = figure.series.iter().flat_map(|series| &series.points);
    // A share is read between nothing and all.
    let is_free = figure.y.scale == Scale::Linear && Bounds::of(&figure.y.label).whole().is_none();
    if is_free && points.all(is_positive) && fullest_tenth(&figure) >= CROWDED {
        figure.to_mut().y.scale = Scale::Log;
    }
    figure
}

/// Why a chart of the figure would be empty but for a tenth, if it would.
pub(crate) fn alike(figure: &Figure) -> Option<String> {
    let mut figures: Vec<f64> = (figure.series.iter().flat_map(|series| &series.points))
        .filter(|p| can_stand(figure, p))
        .map(|p| p.y)
        .collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.get(figures.len() / 2)?;
    (fullest_tenth(figure) >= ALIKE).then(|| {
        let same = figures.iter().filter(|y| *y == middle).count();
        let about = if same == figures.len() { "" } else { "nearly " };
        let value = units::tick(rounded(*middle));
        format!(
            "No chart: {about}all {} figures are {value} ({}).",
            figures.len(),
            figure.y.label
        )
    })
}

/// The share of the figures and the ends of their intervals that lie in that tenth of the value axis which has the
/// most; none of figures so few that any chart of them has more room than marks.
fn fullest_tenth(figure: &Figure) -> f64 {
    let points: Vec<&Point> = (figure.series.iter().flat_map(|series| &series.points))
        .filter(|p| can_stand(figure, p))
        .collect();
    if points.len() < MANY {
        return 0.0;
    }
    let axis = value_axis(figure, points.iter().copied());
    fullest_tenth_of(&axis, points.iter().flat_map(|point| extent(point)))
}

/// The share of the values that lie in that tenth of the axis which has the most.
fn fullest_tenth_of(axis: &Axis, values: impl Iterator<Item = f64>) -> f64 {
    let mut places: Vec<f64> = values.map(|value| axis.place(value)).collect();
    places.sort_by(f64::total_cmp);
    let within = |from: &f64| {
        places
            .iter()
            .filter(|place| (*from..=from + 0.1).contains(place))
            .count()
    };
    let most = places.iter().map(within).max().unwrap_or(0);
    most as f64 / places.len() as f64
}

/// Each number across as a name with a row of its own, where there are fewer than three.
fn in_rows(figure: &Figure) -> Cow<'_, Figure> {
    let places = across(figure);
    if figure.x.scale == Scale::Category || places.is_empty() || places.len() >= FEWEST {
        return Cow::Borrowed(figure);
    }
    let mut figure = figure.clone();
    let is_log = figure.x.scale == Scale::Log;
    figure.x.scale = Scale::Category;
    for point in figure.series.iter_mut().flat_map(|series| &mut series.points) {
        point.label = Some(category(point));
        let place = places.iter().position(|x| *x == point.x);
        // One that cannot stand on the axis it had cannot stand here.
        point.x = place.map_or(if is_log { f64::NAN } else { point.x }, |place| place as f64);
    }
    Cow::Owned(figure)
}

/// The numbers across, in order.
fn across(figure: &Figure) -> Vec<f64> {
    let points = figure.series.iter().flat_map(|series| &series.points);
    let mut places: Vec<f64> = points.filter(|p| can_stand(figure, p)).map(|p| p.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// Which lines are nowhere a pixel apart.
fn same(lines: &[(usize, Line<'_>)], y: &Axis) -> Vec<String> {
    let apart = |a: &Point, b: &Point| a.x != b.x || (y.place(a.y) - y.place(b.y)).abs() * lines::TALL > 1.0;
    let lies_on = |a: &Line<'_>, b: &Line<'_>| {
        let mut pairs = a.points.iter().zip(&b.points);
        a.points.len() == b.points.len() && !pairs.any(|(a, b)| apart(a, b))
    };
    let mut found = Vec::new();
    for (i, (_, a)) in lines.iter().enumerate() {
        for (_, b) in lines[i + 1..].iter().filter(|(_, b)| lies_on(a, b)) {
            found.push(format!(
                "“{}” and “{}” lie on each other.",
                a.series.name, b.series.name
            ));
        }
    }
    found
}

/// Where lines that go apart elsewhere meet so closely that their marks are drawn around one another.
fn in_one_another(lines: &[(usize, Line<'_>)], y: &Axis) -> Option<String> {
    let meet =
        |a: &Point, b: &Point| a.x == b.x && (y.place(a.y) - y.place(b.y)).abs() * lines::TALL < lines::NEAR;
    let mut pairs =
        (lines.iter().enumerate()).flat_map(|(i, (_, a))| lines[i + 1..].iter().map(move |(_, b)| (a, b)));
    let is_one = pairs.any(|(a, b)| {
        // Lines of theory have none.
        let are_marked = a.is_marked() && b.is_marked();
        let met = |point: &&&Point| b.points.iter().any(|other| meet(point, other));
        let met = a.points.iter().filter(met).count();
        are_marked && 0 < met && met < a.points.len()
    });
    is_one.then(|| "Marks around one another: these figures cannot be told apart here.".to_owned())
}

/// An axis that holds all figures, and their intervals unless one would squeeze all else into a corner: of an evenly
/// divided axis at most twice as far as the largest figure.
fn value_axis<'p>(figure: &Figure, points: impl Iterator<Item = &'p Point>) -> Axis {
    let scale = figure.y.scale;
    let points: Vec<&Point> = points.collect();
    let largest = points.iter().map(|point| point.y.abs()).fold(0.0, f64::max);
    let reach = if scale == Scale::Linear && largest > 0.0 {
        2.0 * largest
    } else {
        f64::INFINITY
    };
    let bounds = Bounds::of(&figure.y.label);
    let ends = points.iter().flat_map(|point| extent(point));
    let ends = ends.map(|end| bounds.clamp(end.clamp(-reach, reach)));
    Axis::of(scale, ends, bounds)
}

/// Whether a series of this figure is a line, and not dots: nothing is known between names, nor between two points.
pub(crate) fn is_line(figure: &Figure, series: &Series) -> bool {
    figure.x.scale != Scale::Category && series.points.len() >= FEWEST
}

/// The class that the page's style sheet gives the colour of the series at `index`.
pub(crate) fn class(figure: &Figure, index: usize) -> String {
    Look::of(figure, index).class()
}

/// The place of the mark of the series at `index` among all [`MARKS`].
pub(crate) fn mark(figure: &Figure, index: usize) -> usize {
    Look::of(figure, index).mark()
}

/// The ends of a point's interval, and the point.
fn extent(point: &Point) -> impl Iterator<Item = f64> {
    let [low, high] = point.ci95.unwrap_or([point.y; 2]);
    [low, point.y, high].into_iter()
}

fn can_stand(figure: &Figure, point: &Point) -> bool {
    let fits = |axis: &threadgauge_results::Axis, v: f64| {
        v.is_finite() && (axis.scale != Scale::Log || v > 0.0) && Bounds::of(&axis.label).hold(v)
    };
    fits(&figure.y, point.y) && fits(&figure.x, point.x)
}

fn head(figure: &Figure, id: &str, part: Option<(usize, usize)>, front: &[&Line<'_>]) -> Head {
    let part = part.map_or_else(String::new, |(n, of)| format!(", part {n} of {of}"));
    let says: Vec<String> = front.iter().map(|line| in_words(line)).collect();
    Head {
        id: id.to_owned(),
        title: format!("{}{part}", figure.title),
        description: format!(
            "{}{} by {}: {}.{TABLE_BELOW}",
            if figure.note.is_empty() {
                String::new()
            } else {
                format!("{} ", figure.note)
            },
            figure.y.label,
            figure.x.label,
            says.join("; ")
        ),
    }
}

/// A series in words: its figure, or its least and its largest and where they are.
fn in_words(line: &Line<'_>) -> String {
    let of = |point: &Point| format!("{} at {}", units::tick(rounded(point.y)), category(point));
    let by = |a: &&&Point, b: &&&Point| a.y.total_cmp(&b.y);
    let ends = (line.points.iter().min_by(by), line.points.iter().max_by(by));
    let says = match ends {
        (Some(least), Some(most)) if line.points.len() > 1 => format!("from {} to {}", of(least), of(most)),
        (Some(one), _) => of(one),
        _ => "nothing".to_owned(),
    };
    format!("{} {says}", line.series.name)
}

/// To three digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
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
        for (x, y) in [(f64::NAN, 4.0), (0.0, f64::INFINITY), (0.0, -1.0)] {
            let drawing = of(x, y);
            assert_eq!((drawing.left_out, drawing.panels.len()), (1, 1));
        }
        assert_eq!(of(0.0, 4.0).left_out, 0);
    }

    #[test]
    fn series_that_lie_on_each_other_are_named() {
        let points = [1.0, 2.0, 3.0].map(|x| (x, 4.0 * x, [4.0 * x; 2]));
        let mut figure = figure(Scale::Linear, &points);
        figure.series.push(figure.series[0].clone());
        figure.series[1].name = "there".to_owned();
        assert_eq!(draw(&figure, "f").same, ["“here” and “there” lie on each other."]);
        figure.series[1].points[1].y = 8.5;
        let same = draw(&figure, "f").same;
        assert!(
            same.len() == 1 && same[0].starts_with("Marks around one another"),
            "{same:?}"
        );
        for point in &mut figure.series[1].points {
            point.y += 4.0;
        }
        assert!(draw(&figure, "f").same.is_empty());
    }

    #[test]
    fn theory_of_too_few_points_for_a_line_is_marked() {
        let marks = |count: usize| {
            let points = [1.0, 2.0, 3.0, 4.0].map(|x| (x, x, [x; 2]));
            let mut figure = figure(Scale::Linear, &points);
            figure.series.push(figure.series[0].clone());
            figure.series[1].origin = Origin::Ideal;
            figure.series[1].points.truncate(count);
            draw(&figure, "f").panels[0]
                .wide
                .svg
                .matches("class=\"m i\"")
                .count()
        };
        assert_eq!([1, 2, 3, 4].map(marks), [1, 2, 0, 0]);
    }

    #[test]
    fn intervals_around_nothing_but_zero_are_whole() {
        let mut figure = figure(Scale::Linear, &[(0.0, 0.0, [-3.0, 3.0]), (1.0, 0.0, [-1.0, 1.0])]);
        assert_eq!(draw(&figure, "f").cut, 2, "a time is not below zero");
        figure.y.label = "gain, %".to_owned();
        assert_eq!(draw(&figure, "f").cut, 0);
    }

    #[test]
    fn a_few_large_values_do_not_squeeze_all_others_into_a_tenth_and_what_is_alike_is_no_chart() {
        let of = |values: &[f64]| {
            let points: Vec<_> = (0..)
                .zip(values)
                .map(|(x, y)| (f64::from(x), *y, [*y; 2]))
                .collect();
            figure(Scale::Linear, &points)
        };
        let outlier = of(&[1.0, 1.5, 2.0, 3.0, 90.0]);
        assert_eq!(arranged(&outlier).y.scale, Scale::Log);
        assert_eq!(
            arranged(&of(&[0.0, 1.5, 2.0, 3.0, 90.0])).y.scale,
            Scale::Linear,
            "zero has no logarithm"
        );
        assert_eq!(
            arranged(&of(&[10.0, 30.0, 50.0, 70.0, 90.0])).y.scale,
            Scale::Linear
        );
        assert_eq!(draw(&outlier, "f").alike, None);
        let drawing = draw(&of(&[4.0; 5]), "f");
        assert_eq!(
            drawing.alike.as_deref(),
            Some("No chart: all 5 figures are 4 ().")
        );
        assert!(drawing.panels.is_empty());
        let nearly = draw(&of(&[&[0.0; 9][..], &[7.0]].concat()), "f").alike;
        assert_eq!(
            nearly.as_deref(),
            Some("No chart: nearly all 10 figures are 0 ().")
        );
        assert_eq!(draw(&of(&[4.0; 4]), "f").alike, None);
    }

    #[test]
    fn a_few_large_numbers_across_do_not_squeeze_all_others_either() {
        let of = |across: &[f64]| {
            let points: Vec<_> = across.iter().map(|x| (*x, 3.0, [3.0; 2])).collect();
            arranged(&figure(Scale::Linear, &points)).x.scale
        };
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0, 100.0]), Scale::Log);
        assert_eq!(
            of(&[0.0, 2.0, 3.0, 4.0, 100.0]),
            Scale::Linear,
            "zero has no logarithm"
        );
        assert_eq!(of(&[1.0, 2.0, 4.0, 60.0, 100.0]), Scale::Linear);
        assert_eq!(of(&[1.0, 2.0, 3.0, 100.0]), Scale::Linear, "few");
    }

    #[test]
    fn an_interval_that_would_squeeze_all_figures_into_a_corner_is_cut_at_the_edge_and_counted() {
        for x in [Scale::Linear, Scale::Category] {
            let drawing = draw(
                &figure(x, &[(0.0, 4.0, [3.0, 5.0]), (1.0, 9.0, [8.0, 900.0])]),
                "f",
            );
            assert_eq!(drawing.cut, 1);
            let wide = &drawing.panels[0].wide.svg;
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
