//! The colours and the marks that a series can have.

/// The marks there are, all told apart at the size of a letter.
pub(super) const CIRCLE: usize = 0;
pub(super) const SQUARE: usize = 1;
pub(super) const UP: usize = 2;
pub(super) const DIAMOND: usize = 3;
pub(super) const DOWN: usize = 4;
pub(super) const PLUS: usize = 5;
pub(super) const RIGHT: usize = 6;
pub(super) const RIBBON: usize = 7;
pub(super) const CROSS: usize = 8;
pub(super) const HOURGLASS: usize = 9;
pub(super) const STAR: usize = 10;
/// How many.
pub(crate) const MARKS: usize = 11;
/// How many steps the ramp of ordered things has.
pub(super) const STEPS: usize = 6;

/// A colour of the page, by what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    /// Theory of nothing that is drawn.
    Grey,
    /// One of eight that are not ordered, from 1: `--s1` to `--s8` of the page.
    Hue(usize),
    /// A step of the ramp from the least, 0, to the most: `--s9` to `--s14`.
    Step(usize),
}

impl Colour {
    /// The class that sets it.
    pub fn class(self) -> String {
        let place = match self {
            Self::Grey => 0,
            Self::Hue(hue) => hue,
            Self::Step(step) => 9 + step,
        };
        format!("s{place}")
    }
}

/// How wide the widest mark is.
pub(super) const WIDEST: f64 = 10.2;

/// A mark: how wide it is, and its outline around its place.
pub(super) const fn shape(mark: usize) -> (f64, &'static str) {
    match mark {
        CIRCLE => (8.0, "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"),
        SQUARE => (7.2, "M-3.6 0v-3.6h7.2v7.2h-7.2z"),
        UP => (9.6, "M-4.8 3.6l4.8-8.6 4.8 8.6z"),
        DIAMOND => (10.0, "M-5 0l5-5.2 5 5.2-5 5.2z"),
        DOWN => (9.6, "M-4.8-3.6l4.8 8.6 4.8-8.6z"),
        PLUS => (
            8.8,
            "M-4.4 0v-1.6h2.8v-2.8h3.2v2.8h2.8v3.2h-2.8v2.8h-3.2v-2.8h-2.8z",
        ),
        RIGHT => (8.4, "M-3.6-4.8l8.4 4.8-8.4 4.8z"),
        RIBBON => (8.8, "M-4.4-4.4l4.4 2.6 4.4-2.6v8.8l-4.4-2.6-4.4 2.6z"),
        CROSS => (
            9.0,
            "M-4.5-2.7l1.8-1.8 2.7 2.7 2.7-2.7 1.8 1.8-2.7 2.7 2.7 2.7-1.8 1.8-2.7-2.7-2.7 2.7-1.8-1.8 2.7-2.7z",
        ),
        HOURGLASS => (8.4, "M-4.2-4.6h8.4l-8.4 9.2h8.4z"),
        _ => (
            WIDEST,
            "M0.0 -5.1L1.4 -1.6L5.1 -1.4L2.2 1.0L3.2 4.7L0.0 2.6L-3.2 4.7L-2.2 1.0L-5.1 -1.4L-1.4 -1.6z",
        ),
    }
}

#[cfg(test)]
mod tests {
    /// How bright a colour of six digits is, as WCAG has it.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let c = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if c <= 0.040_45 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    }

    #[test]
    fn every_colour_stands_out_from_the_page_and_each_step_of_the_ramp_from_the_one_before() {
        let css = concat!(
            include_str!("../html/colours.css"),
            include_str!("../html/page.css")
        );
        let themes: Vec<&str> = css
            .split(":root {")
            .skip(1)
            .map(|rest| rest.split('}').next().unwrap())
            .collect();
        assert_eq!(themes.len(), 3, "by day, by night, on paper");
        for theme in themes {
            let of = |name: &str| {
                let value = theme.split(&format!("--{name}: #")).nth(1).unwrap();
                let digits: String = value.chars().take_while(char::is_ascii_hexdigit).collect();
                let long = if digits.len() == 3 {
                    digits.chars().flat_map(|c| [c, c]).collect()
                } else {
                    digits
                };
                luminance(&long)
            };
            let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
            let paper = of("paper");
            for i in 0..15 {
                let ratio = contrast(of(&format!("s{i}")), paper);
                assert!(ratio >= 3.0, "s{i} stands out by {ratio:.2}: {theme}");
            }
            // From step to step further from the paper: who sees no colours sees the order.
            let ramp: Vec<f64> = (9..15).map(|i| contrast(of(&format!("s{i}")), paper)).collect();
            assert!(
                ramp.windows(2).all(|pair| pair[1] > 1.12 * pair[0]),
                "{ramp:.2?}: {theme}"
            );
        }
    }
}
