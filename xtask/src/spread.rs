//! A statistic over rounds, and how its figures are written.

use crate::pairs::median;

/// A statistic over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of these; `None` without any.
    pub fn of(values: Vec<f64>) -> Option<Self> {
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        Some(Self {
            median: median(values),
            least,
            most,
        })
    }

    /// The middle, and the ends in brackets, in units of which `one` makes one.
    pub fn show(self, one: f64) -> String {
        let Self { median, least, most } = self;
        format!(
            "{} ({} – {})",
            figure(median / one),
            figure(least / one),
            figure(most / one)
        )
    }
}

/// Three digits, and no more than the figure needs.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_stands_before_the_ends() {
        let spread = Spread::of(vec![3000.0, 1000.0, 2500.0]).unwrap();
        assert_eq!(spread.show(1000.0), "2.50 (1.00 – 3.00)");
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [0.004, 9.994, 9.996, 99.96, 12345.6].map(figure),
            ["0.00", "9.99", "10.0", "100", "12346"]
        );
    }
}
