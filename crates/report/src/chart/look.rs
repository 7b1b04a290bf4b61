//! A series as it is drawn, and how series are told apart: a colour, and, for those who see none, a marker and a dash.

use threadgauge_results::{Figure, Origin, Point, Scale, Series};

use super::svg::{Svg, n};

/// The colours the page defines, `--s1` to `--s8`.
const COLOURS: usize = 8;

const MEASURED_DASHES: [&str; 4] = ["", "10 4", "10 3 2 3", "16 4"];
const PUBLISHED_DASHES: [&str; 4] = ["2 4", "5 4", "6 3 1 3 1 3", "1 5"];

/// A series, those of its points that can stand on the axes, and how it looks.
pub(super) struct Line<'a> {
    pub series: &'a Series,
    pub points: Vec<&'a Point>,
    pub look: Look,
}

/// The look of one series. Measured ones have filled markers, published ones hollow, ideals none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    colour: usize,
    shape: usize,
    dash: &'static str,
    origin: Origin,
}

impl Look {
    /// The look of the series at `index`.
    pub fn of(figure: &Figure, index: usize) -> Self {
        let origin = figure.series[index].origin;
        let before = figure.series[..index]
            .iter()
            .filter(|s| s.origin == origin)
            .count();
        let dash = match origin {
            Origin::Measured => MEASURED_DASHES[before % 4],
            Origin::Published => PUBLISHED_DASHES[before % 4],
            Origin::Ideal => "1 3",
        };
        Self {
            colour: index % COLOURS + 1,
            shape: index % 8,
            dash,
            origin,
        }
    }

    /// The class that sets the colour.
    pub fn class(&self) -> String {
        if self.origin == Origin::Ideal {
            "s0".to_owned()
        } else {
            format!("s{}", self.colour)
        }
    }

    /// The attribute that sets the dash; empty for a whole line.
    pub fn dash(&self) -> String {
        if self.dash.is_empty() {
            String::new()
        } else {
            format!(" stroke-dasharray=\"{}\"", self.dash)
        }
    }

    /// Draws the marker.
    pub fn marker(&self, svg: &mut Svg, x: f64, y: f64) {
        let class = match self.origin {
            Origin::Measured => "m",
            Origin::Published => "m h",
            Origin::Ideal => return,
        };
        let d = match self.shape {
            0 => "a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
            1 => "v-3.6h7.2v7.2h-7.2z",
            2 => "m-.6 3.6l4.8-8.6 4.8 8.6z",
            3 => "l5-5.2 5 5.2-5 5.2z",
            4 => "m-.6-3.6l4.8 8.6 4.8-8.6z",
            5 => "v-1.6h2.8v-2.8h3.2v2.8h2.8v3.2h-2.8v2.8h-3.2v-2.8h-2.8z",
            6 => "l2.4-4.2h4.8l2.4 4.2-2.4 4.2h-4.8z",
            _ => "m0-4.4l4.4 2.6 4.4-2.6v8.8l-4.4-2.6-4.4 2.6z",
        };
        let start = [4.0, 3.6, 4.2, 5.0, 4.2, 4.4, 4.8, 4.4][self.shape];
        svg.raw(&format!(
            "<path class=\"{class}\" d=\"M{} {}{d}\"/>",
            n(x - start),
            n(y)
        ));
    }
}

/// The entry of the series at `index` in a legend: a bit of its line, with its marker.
pub(crate) fn swatch(figure: &Figure, index: usize) -> String {
    let look = Look::of(figure, index);
    let mut svg = Svg::new();
    svg.raw(&format!(
        "<svg class=\"swatch {}\" viewBox=\"0 0 40 14\" width=\"40\" height=\"14\" aria-hidden=\"true\">",
        look.class()
    ));
    if figure.x.scale == Scale::Category {
        svg.raw("<path class=\"e\" d=\"M6 3v8m0-4H34m0-4v8\"/>");
    } else {
        svg.raw(&format!("<path class=\"l\" d=\"M1 7H39\"{}/>", look.dash()));
    }
    look.marker(&mut svg, 20.0, 7.0);
    svg.raw("</svg>");
    svg.finish()
}
