//! A series as it is drawn, and how series are told apart: a colour, and, for those who see none, a marker and a dash.

use threadgauge_results::{Figure, Origin, Point, Scale, Series};

use super::mark::{Colour, WIDEST, shape};
use super::meaning::{looks, of_row};
use super::svg::{Svg, n};

/// A line has so many points; fewer are dots, since nothing is known between two.
pub(super) const FEWEST: usize = 3;

/// A series, those of its points that can stand on the axes, and how it looks.
pub(super) struct Line<'a> {
    pub series: &'a Series,
    pub points: Vec<&'a Point>,
    pub look: Look,
}

impl Line<'_> {
    /// Whether its points have markers: theory has none where its line says all.
    pub const fn is_marked(&self) -> bool {
        !matches!(self.look.origin, Origin::Ideal) || self.points.len() < FEWEST
    }
}

/// The look of one series. Measured ones have filled markers, published ones hollow and a thinner line, and theory has
/// a dashed line alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    colour: Colour,
    shape: usize,
    origin: Origin,
}

impl Look {
    /// The look of the series at `index`.
    pub fn of(figure: &Figure, index: usize) -> Self {
        let origin = figure.series[index].origin;
        let (colour, shape) = looks(&figure.series)[index];
        Self {
            colour,
            shape,
            origin,
        }
    }

    /// The look of what a row of dots is called after, if that has one.
    pub fn of_row(name: &str) -> Option<Self> {
        of_row(name).map(|(colour, shape)| Self {
            colour,
            shape,
            origin: Origin::Measured,
        })
    }

    /// The class that sets the colour.
    pub fn class(&self) -> String {
        self.colour.class()
    }

    /// The place of its mark among all.
    pub const fn mark(&self) -> usize {
        self.shape
    }

    /// The attribute that sets the dash; empty for a whole line.
    pub const fn dash(&self) -> &'static str {
        match self.origin {
            Origin::Ideal => " stroke-dasharray=\"6 4\"",
            Origin::Measured | Origin::Published => "",
        }
    }

    /// What makes its line thinner; empty for one of ours.
    pub const fn thin(&self) -> &'static str {
        match self.origin {
            Origin::Published => " p",
            Origin::Measured | Origin::Ideal => "",
        }
    }

    /// Draws the marker around a place; around others, `scale` times as large as any alone.
    pub fn marker(&self, svg: &mut Svg, (x, y): (f64, f64), scale: f64) {
        let class = match self.origin {
            Origin::Measured => "m",
            Origin::Published => "m h",
            Origin::Ideal => "m i",
        };
        let (width, d) = match self.origin {
            Origin::Ideal => (9.0, "M-4.5 0h9M0-4.5v9"),
            Origin::Measured | Origin::Published => shape(self.shape),
        };
        // Around another it is that many times as wide as the widest, so that it is seen around each.
        let scale = if scale == 1.0 {
            String::new()
        } else {
            format!(" scale({})", n(scale * WIDEST / width))
        };
        svg.raw(&format!(
            "<path class=\"{class}\" transform=\"translate({} {}){scale}\" d=\"{d}\"/>",
            n(x),
            n(y)
        ));
    }
}

/// The entry of the series at `index` in a legend: a bit of its line, with its marker.
pub(super) fn swatch(figure: &Figure, index: usize) -> String {
    let look = Look::of(figure, index);
    let mut svg = Svg::new();
    svg.raw(&format!(
        "<svg class=\"swatch {}\" viewBox=\"0 0 40 14\" width=\"40\" height=\"14\" aria-hidden=\"true\">",
        look.class()
    ));
    let is_marked = if figure.x.scale == Scale::Category {
        svg.raw("<path class=\"e\" d=\"M6 3v8m0-4H34m0-4v8\"/>");
        true
    } else if figure.series[index].points.len() >= FEWEST {
        let (thin, dash) = (look.thin(), look.dash());
        svg.raw(&format!("<path class=\"l{thin}\" d=\"M1 7H39\"{dash}/>"));
        look.origin != Origin::Ideal
    } else {
        true
    };
    if is_marked {
        look.marker(&mut svg, (20.0, 7.0), 1.0);
    }
    svg.raw("</svg>");
    svg.finish()
}
