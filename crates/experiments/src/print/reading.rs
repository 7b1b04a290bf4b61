//! Looking up cells of a run: a statistic by round, its estimate, and numbers as text.

use threadgauge_results::{Params, Point as Dot};
use threadgauge_stats::{paired_ratio, sign_interval};

use super::ELAPSED;
use super::grid::{Point, Series};
use super::setting::{Buffering, Sink, Unit};
use super::statistics::{Statistic, Wanted};
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

/// What is printed into, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub sink: Sink,
    pub buffering: Buffering,
}

impl Way {
    /// A write a line.
    pub(super) const fn lines(sink: Sink) -> Self {
        Self {
            sink,
            buffering: Buffering::Line,
        }
    }

    /// 4,096 bytes a write.
    pub(super) const fn blocks(sink: Sink) -> Self {
        Self {
            sink,
            buffering: Buffering::Block,
        }
    }

    /// In words.
    pub(super) const fn says(self) -> &'static str {
        match (self.sink, self.buffering) {
            (Sink::Null, Buffering::Line) => "/dev/null",
            (Sink::Pipe, Buffering::Line) => "a pipe",
            (Sink::File, Buffering::Line) => "a file",
            (Sink::Pty, Buffering::Line) => "a pseudo-terminal",
            (Sink::Null, Buffering::Block) => "/dev/null in blocks",
            (Sink::Pipe, Buffering::Block) => "a pipe in blocks",
            (Sink::File, Buffering::Block) => "a file in blocks",
            (Sink::Pty, Buffering::Block) => "a pseudo-terminal in blocks",
        }
    }

    /// The parameters of a case.
    pub(super) fn case(self, (unit, point): Wanted) -> Params {
        point.case(unit, self.sink, self.buffering).params(point.cpus)
    }

    /// A metric of a case.
    pub(super) fn cell(self, wanted: Wanted, metric: &str) -> Cell {
        Cell {
            experiment: None,
            pattern: self.case(wanted),
            metric: metric.to_owned(),
        }
    }

    /// A statistic of elapsed times, by round.
    pub(super) fn rounds(self, view: &View<'_>, statistic: &Statistic) -> Result<Vec<f64>, String> {
        let cells: Vec<Cell> = statistic.cells.iter().map(|w| self.cell(*w, ELAPSED)).collect();
        view.by_round(&cells, |times| statistic.of(times))
    }

    /// The counts of lines at which 255 units of 11 characters were measured with both kinds on one CPU.
    pub(super) fn row(self, view: &View<'_>) -> Vec<Point> {
        let has = |unit, point| view.summary(&self.cell((unit, point), ELAPSED)).is_some();
        let points = Series::Prints.points().into_iter();
        points
            .filter(|p| has(Unit::Process, *p) && has(Unit::Thread, *p))
            .collect()
    }
}

/// A figure and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figured {
    pub value: f64,
    pub ci95: Option<[f64; 2]>,
}

/// A ratio of two cells by round (METHOD rule 5).
pub(super) fn ratio_of(rounds: &[f64]) -> Option<Figured> {
    let ones = vec![1.0; rounds.len()];
    let estimate = paired_ratio(&ones, rounds, 0.05).ok()?;
    Some(Figured {
        value: estimate.estimate,
        ci95: estimate.ci.map(|ci| [ci.low, ci.high]),
    })
}

/// Any other statistic by round (METHOD rule 4).
pub(super) fn median_of(rounds: &[f64]) -> Option<Figured> {
    Some(Figured {
        value: threadgauge_stats::median(rounds).ok()?,
        ci95: sign_interval(rounds, 0.05).map(|ci| [ci.low, ci.high]),
    })
}

impl Figured {
    /// As a point of a chart.
    pub(super) const fn at(self, x: f64) -> Dot {
        Dot {
            x,
            label: None,
            y: self.value,
            ci95: self.ci95,
        }
    }
}

/// `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_counts_are_grouped() {
        assert_eq!(
            [5, 500, 1_000, 255_000, 1_234_567].map(count),
            ["5", "500", "1,000", "255,000", "1,234,567"]
        );
    }

    #[test]
    fn a_ratio_has_an_interval_from_six_rounds_on() {
        let rounds = [1.9, 2.0, 2.1, 2.0, 1.95, 2.05];
        let figured = ratio_of(&rounds).unwrap();
        assert!((figured.value - 2.0).abs() < 0.01);
        let [low, high] = figured.ci95.unwrap();
        assert!(low < 2.0 && high > 2.0);
        assert_eq!(ratio_of(&rounds[..3]).unwrap().ci95, None);
        assert_eq!(ratio_of(&[]), None);
    }
}
