//! A picture in SVG: its head, its width, and the string it is written into, with escaping and short numbers.

use threadgauge_results::outside::steers;
use threadgauge_results::published::cited;

use super::axis::{in_lines, width};

/// A drawn chart.
pub(crate) struct Picture {
    /// As SVG.
    pub svg: String,
    /// In units of which [`Size::width`] is its width.
    pub height: f64,
    /// Whether each of the shown series has its name in it; what has none needs a legend.
    pub is_named: Vec<bool>,
}

/// What a screen reader hears of the picture.
pub(crate) struct Head {
    pub id: String,
    pub title: String,
    pub description: String,
}

/// The width of a picture, in units of which its text is 13 high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Size {
    Wide,
    Narrow,
}

impl Size {
    pub const fn width(self) -> f64 {
        match self {
            Self::Wide => 760.0,
            Self::Narrow => 400.0,
        }
    }
}

/// From one line of a text to the next.
pub(super) const LINE: f64 = 15.0;

/// The name of an axis in lines that a picture `full` wide has room for.
pub(super) fn name_lines(full: f64, text: &str) -> Vec<String> {
    in_lines(&cited(text), (full / width("x")) as usize, 3)
}

/// SVG under construction.
pub(crate) struct Svg(String);

impl Svg {
    pub const fn new() -> Self {
        Self(String::new())
    }

    /// A whole picture, opened, with what a screen reader needs.
    pub fn open(head: &Head, width: f64, height: f64) -> Self {
        let (id, title, description) = (&head.id, escape(&head.title), escape(&head.description));
        Self(format!(
            "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
             <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>",
            n(width),
            n(height)
        ))
    }

    /// Appends markup as it is.
    pub fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// Text at a place; `anchor` is `start`, `middle` or `end`.
    pub fn text(&mut self, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
        self.raw(&format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
            n(x),
            n(y),
            escape(text)
        ));
    }

    /// The name of an axis around a place, in as many lines as it needs to be within the picture.
    pub fn name(&mut self, center: f64, y: f64, full: f64, text: &str) {
        for (i, line) in name_lines(full, text).iter().enumerate() {
            let half = width(line) / 2.0;
            let x = center.min(full - half).max(half);
            self.text(x, y + i as f64 * LINE, "middle", "t", line);
        }
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.raw(&format!(
            "<path class=\"{class}\" d=\"M{} {}L{} {}\"/>",
            n(x1),
            n(y1),
            n(x2),
            n(y2)
        ));
    }

    /// Closes the picture.
    pub fn close(mut self) -> String {
        self.raw("</svg>");
        self.0
    }

    /// What was written.
    pub fn finish(self) -> String {
        self.0
    }
}

/// A coordinate, to a tenth.
pub(crate) fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0")
        .map_or_else(|| text.clone(), str::to_owned)
}

/// Text that cannot be taken for markup, with sources by their names.
pub(crate) fn escape(text: &str) -> String {
    let text = cited(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if steers(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
