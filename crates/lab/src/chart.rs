//! Charts and tables declared on statistics: ours, what was published, and what theory says, on the same axes.

use threadgauge_results::{Axis, Figure, Origin, Point, Scale, Series, Table};

use crate::statistic::{Estimate, Statistic};
use crate::view::View;

/// Where a point stands: a number, or a name on a category axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// On a linear or logarithmic axis.
    At(f64),
    /// On a category axis, in the order of the line's points.
    Named(String),
}

impl From<u64> for Place {
    fn from(x: u64) -> Self {
        Self::At(x as f64)
    }
}

impl From<f64> for Place {
    fn from(x: f64) -> Self {
        Self::At(x)
    }
}

impl From<&str> for Place {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for Place {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

/// Builds a chart. Lines without a point are left out.
#[derive(Debug)]
pub struct Chart<'v> {
    view: &'v View<'v>,
    figure: Figure,
    fewest: usize,
}

impl<'v> Chart<'v> {
    /// A chart whose axes are linear and have no labels yet. `id` is unique within the experiment.
    #[must_use]
    pub fn new(view: &'v View<'v>, id: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            view,
            figure: Figure {
                id: id.into(),
                title: title.into(),
                note: String::new(),
                x: axis(Scale::Linear, ""),
                y: axis(Scale::Linear, ""),
                series: Vec::new(),
            },
            fewest: 1,
        }
    }

    /// One sentence that says what the chart shows, with the source's own caveat.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.figure.note = note.into();
        self
    }

    /// The horizontal axis; its label has the unit.
    #[must_use]
    pub fn x(mut self, scale: Scale, label: impl Into<String>) -> Self {
        self.figure.x = axis(scale, label);
        self
    }

    /// The vertical axis; its label has the unit.
    #[must_use]
    pub fn y(mut self, scale: Scale, label: impl Into<String>) -> Self {
        self.figure.y = axis(scale, label);
        self
    }

    /// Leaves out lines with fewer points, from the next line on.
    #[must_use]
    pub const fn at_least(mut self, points: usize) -> Self {
        self.fewest = points;
        self
    }

    /// A measured line, with intervals. Points without figures are left out.
    #[must_use]
    pub fn line<P: Into<Place>, S: Into<Option<Statistic>>>(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (P, S)>,
    ) -> Self {
        let view = self.view;
        let read = |statistic: S| view.estimate(&statistic.into()?);
        let points = points.into_iter().map(|(place, s)| (place, read(s)));
        self.estimates(name, Origin::Measured, points)
    }

    /// What theory predicts for the same cells: their metric of an ideal run. It has no interval, since it is not
    /// measured.
    #[must_use]
    pub fn theory<P: Into<Place>, S: Into<Option<Statistic>>>(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (P, S)>,
    ) -> Self {
        let view = self.view;
        let read = |statistic: S| view.value(&statistic.into()?);
        let points = points.into_iter().map(|(place, s)| (place, read(s)));
        self.figures(name, Origin::Ideal, points)
    }

    /// Figures of a source, or of theory.
    #[must_use]
    pub fn figures<P: Into<Place>>(
        self,
        name: impl Into<String>,
        origin: Origin,
        points: impl IntoIterator<Item = (P, Option<f64>)>,
    ) -> Self {
        let plain = |value| Estimate { value, ci95: None };
        let points = points.into_iter().map(|(place, value)| (place, value.map(plain)));
        self.estimates(name, origin, points)
    }

    /// A line of estimates made elsewhere.
    #[must_use]
    pub fn estimates<P: Into<Place>>(
        mut self,
        name: impl Into<String>,
        origin: Origin,
        points: impl IntoIterator<Item = (P, Option<Estimate>)>,
    ) -> Self {
        let point = |(i, (place, estimate)): (usize, (P, Option<Estimate>))| {
            let Estimate { value: y, ci95 } = estimate?;
            let (x, label) = match place.into() {
                Place::At(x) => (x, None),
                Place::Named(name) => (i as f64, Some(name)),
            };
            Some(Point { x, label, y, ci95 })
        };
        let points: Vec<Point> = points.into_iter().enumerate().filter_map(point).collect();
        if points.len() >= self.fewest {
            self.figure.series.push(Series {
                name: name.into(),
                origin,
                points,
            });
        }
        self
    }

    /// The chart, if it has a measured line.
    #[must_use]
    pub fn drawn(self) -> Option<Figure> {
        let measured = |s: &Series| s.origin == Origin::Measured;
        self.figure.series.iter().any(measured).then_some(self.figure)
    }
}

fn axis(scale: Scale, label: impl Into<String>) -> Axis {
    Axis {
        label: label.into(),
        scale,
    }
}

/// A table in the layout of a source, ours beside theirs.
#[must_use]
pub fn table(
    id: impl Into<String>,
    title: impl Into<String>,
    note: impl Into<String>,
    columns: impl IntoIterator<Item = impl Into<String>>,
    rows: Vec<Vec<String>>,
) -> Table {
    Table {
        id: id.into(),
        title: title.into(),
        note: note.into(),
        columns: columns.into_iter().map(Into::into).collect(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Profile;
    use crate::statistic::{Metric, metric};
    use crate::testing;
    use threadgauge_results::Params;

    const TIME: Metric = metric("elapsed_ns", "ns");

    fn time(count: u64) -> Statistic {
        TIME.of(Params::new().with("count", count))
    }

    #[test]
    fn without_a_measured_line_nothing_is_drawn() {
        let view = testing::view("x", Profile::Quick, Vec::new());
        let published =
            Chart::new(&view, "id", "Title").figures("source", Origin::Published, [(1, Some(3.0))]);
        assert!(published.drawn().is_none());
    }

    #[test]
    fn a_line_keeps_the_places_of_what_was_measured() {
        let cases =
            [1, 4].map(|n: u64| testing::case(Params::new().with("count", n), [(TIME, vec![n as f64; 7])]));
        let view = testing::view("x", Profile::Quick, cases.to_vec());
        let chart = Chart::new(&view, "id", "Title")
            .x(Scale::Log, "threads")
            .line("ours", [1, 2, 4].map(|n| (n, time(n).times(10.0))))
            .line("by name", [("two", time(2)), ("four", time(4))])
            .line("nothing", [(2, time(2))])
            .figures("source", Origin::Published, [(1, Some(3.0)), (2, None)])
            .drawn()
            .unwrap();
        let points = |i: usize| {
            let series = &chart.series[i];
            let point = |p: &Point| (p.x, p.label.clone(), p.y, p.ci95.is_some());
            (
                series.name.as_str(),
                series.points.iter().map(point).collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            points(0),
            ("ours", vec![(1.0, None, 10.0, true), (4.0, None, 40.0, true)])
        );
        assert_eq!(
            points(1),
            ("by name", vec![(1.0, Some("four".to_owned()), 4.0, true)])
        );
        assert_eq!(points(2), ("source", vec![(1.0, None, 3.0, false)]));
        assert_eq!(chart.series.len(), 3);
        let empty = Chart::new(&view, "id", "Title").line("nothing", [(2, time(2))]);
        assert!(empty.drawn().is_none());
    }
}
