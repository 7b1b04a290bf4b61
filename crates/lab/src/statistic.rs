//! Statistics as expressions over cells: one figure, a ratio, a difference, a function of several.
//!
//! A [`Statistic`] says which cells it needs and what is computed from them in each round. It also determines its
//! estimator and interval. It is evaluated on the samples of a run ([`View`](crate::view::View)), and on published or
//! hand-made figures ([`Statistic::of_cells`]). So the same expression is a claim's evidence, a chart's line, a table's
//! column and what a test checks.

use std::fmt;
use std::rc::Rc;

use threadgauge_results::{Finding, Params, units};
use threadgauge_stats::{Between, Estimate as Known, Estimator, crossing};

/// A named quantity with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name in results.
    pub name: &'static str,
    /// Its unit, e.g. `ns`.
    pub unit: &'static str,
}

/// A metric. Each is declared once, as a constant.
#[must_use]
pub const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

impl Metric {
    /// The metric in the one case that `case` picks. Parameters that are left out may have any value.
    #[must_use]
    pub fn of(self, case: impl Into<Params>) -> Statistic {
        let cell = Cell {
            experiment: None,
            pattern: case.into(),
            metric: self.name.to_owned(),
        };
        Statistic::new(vec![cell], |values| values[0], Estimator::Median)
    }
}

/// A metric of the one case that a pattern picks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The experiment whose case it is; `None` for the experiment that asks.
    pub experiment: Option<&'static str>,
    /// Parameters that pick exactly one case.
    pub pattern: Params,
    /// The metric's name.
    pub metric: String,
}

/// An expression over cells.
#[derive(Clone)]
pub struct Statistic {
    pub(crate) form: Form,
}

/// How the cells are combined.
#[derive(Clone)]
pub(crate) enum Form {
    /// By round.
    ByRound {
        cells: Vec<Cell>,
        formula: Formula,
        estimator: Estimator,
    },
    /// A ratio whose two sides were measured by different experiments, in different rounds.
    Unpaired {
        over: Box<Statistic>,
        under: Box<Statistic>,
    },
    /// The count from which on a ratio is below 1, chosen from the estimates over rounds.
    Crossing {
        points: Vec<(f64, Statistic)>,
        between: Between,
    },
}

pub(crate) type Formula = Rc<dyn Fn(&[f64]) -> f64>;

impl fmt::Debug for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Statistic").field(&self.cells()).finish()
    }
}

impl Statistic {
    fn new(cells: Vec<Cell>, formula: impl Fn(&[f64]) -> f64 + 'static, estimator: Estimator) -> Self {
        Self {
            form: Form::ByRound {
                cells,
                formula: Rc::new(formula),
                estimator,
            },
        }
    }

    /// A function of several statistics of the same rounds: its median over rounds is the estimate.
    ///
    /// # Panics
    ///
    /// When one of them has no value in a round: a ratio of figures of different experiments, or a crossing.
    #[must_use]
    pub fn function(
        parts: impl IntoIterator<Item = Self>,
        function: impl Fn(&[f64]) -> f64 + 'static,
    ) -> Self {
        Self::joined(parts, function, Estimator::Median)
    }

    fn joined(
        parts: impl IntoIterator<Item = Self>,
        function: impl Fn(&[f64]) -> f64 + 'static,
        estimator: Estimator,
    ) -> Self {
        let mut all = Vec::new();
        let mut formulas: Vec<(usize, Formula)> = Vec::new();
        for part in parts {
            let Form::ByRound { cells, formula, .. } = part.form else {
                panic!("only what has a value in each round can be combined");
            };
            formulas.push((cells.len(), formula));
            all.extend(cells);
        }
        let formula = move |values: &[f64]| {
            let mut rest = values;
            let parts: Vec<f64> = formulas
                .iter()
                .map(|(cells, formula)| {
                    let (own, others) = rest.split_at(*cells);
                    rest = others;
                    formula(own)
                })
                .collect();
            function(&parts)
        };
        Self::new(all, formula, estimator)
    }

    /// The count from which on a ratio is below 1, given the ratio at each of several counts, which rise.
    #[must_use]
    pub fn crossing(points: impl IntoIterator<Item = (f64, Self)>, between: Between) -> Self {
        let points = points.into_iter().collect();
        Self {
            form: Form::Crossing { points, between },
        }
    }

    /// This over `base`: a ratio by round. Between different experiments the rounds are not paired.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        if self.experiment() != base.experiment() {
            return Self {
                form: Form::Unpaired {
                    over: Box::new(self),
                    under: Box::new(base),
                },
            };
        }
        Self::joined([self, base], |v| v[0] / v[1], Estimator::RATIO)
    }

    /// This less `base`: a difference by round.
    #[must_use]
    pub fn less(self, base: Self) -> Self {
        Self::joined([self, base], |v| v[0] - v[1], Estimator::Difference)
    }

    /// The geometric mean of several ratios, which is a ratio again. Each is paired within its own experiment. Where
    /// these are several, rounds of the same number are taken together: they have nothing in common, so any other pairs
    /// of rounds would have the same distribution.
    #[must_use]
    pub fn geometric_mean(ratios: impl IntoIterator<Item = Self>) -> Self {
        let mean = |v: &[f64]| threadgauge_stats::geometric_mean(v).unwrap_or(f64::NAN);
        Self::joined(ratios, mean, Estimator::RATIO)
    }

    /// The reciprocal of a ratio, which is a ratio again.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self::joined([self], |v| 1.0 / v[0], Estimator::RATIO)
    }

    /// An overhead or a gain: a ratio less 1.
    #[must_use]
    pub fn less_one(self) -> Self {
        self.stretched(1.0, -1.0)
    }

    /// A saving: 1 less a ratio.
    #[must_use]
    pub fn saved(self) -> Self {
        self.stretched(-1.0, 1.0)
    }

    /// In another unit: times `factor`, which is greater than 0.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        self.stretched(factor, 0.0)
    }

    /// `factor` times this, plus `shift`.
    fn stretched(self, factor: f64, shift: f64) -> Self {
        let estimator = match self.estimator() {
            Estimator::Ratio { scale, shift: before } => Estimator::Ratio {
                scale: scale * factor,
                shift: before * factor + shift,
            },
            Estimator::Difference if shift == 0.0 => Estimator::Difference,
            Estimator::Median | Estimator::Difference => Estimator::Median,
        };
        // `-1.0` and not `* 1.0 - 1.0`: exact where a test feeds round figures.
        Self::joined([self], move |v| v[0] * factor + shift, estimator)
    }

    /// The same statistic, of the cells of another experiment than the one that asks.
    #[must_use]
    pub fn in_experiment(mut self, id: &'static str) -> Self {
        if let Form::ByRound { cells, .. } = &mut self.form {
            for cell in cells {
                cell.experiment = Some(id);
            }
        }
        self
    }

    /// The pattern that picks its first case.
    ///
    /// # Panics
    ///
    /// When it has no cell.
    #[must_use]
    pub fn pattern(&self) -> Params {
        self.cells()[0].pattern.clone()
    }

    /// Every cell it needs.
    #[must_use]
    pub fn cells(&self) -> Vec<&Cell> {
        match &self.form {
            Form::ByRound { cells, .. } => cells.iter().collect(),
            Form::Unpaired { over, under } => [over.cells(), under.cells()].concat(),
            Form::Crossing { points, .. } => points.iter().flat_map(|(_, ratio)| ratio.cells()).collect(),
        }
    }

    /// Its value where each cell has one figure, e.g. a published one; `None` where one has none.
    #[must_use]
    pub fn of_cells(&self, figure: impl Fn(&Cell) -> Option<f64> + Copy) -> Option<f64> {
        match &self.form {
            Form::ByRound { cells, formula, .. } => {
                let values: Vec<f64> = cells.iter().map(figure).collect::<Option<_>>()?;
                Some(formula(&values)).filter(|v| v.is_finite())
            }
            Form::Unpaired { over, under } => Some(over.of_cells(figure)? / under.of_cells(figure)?),
            Form::Crossing { points, between } => {
                let ratio = |(x, ratio): &(f64, Self)| Some((*x, Known::of_one(ratio.of_cells(figure)?)));
                let points: Vec<_> = points.iter().map(ratio).collect::<Option<_>>()?;
                Some(crossing(&points, *between).ok()?.estimate)
            }
        }
    }

    fn experiment(&self) -> Option<&'static str> {
        self.cells().first().and_then(|cell| cell.experiment)
    }

    pub(crate) fn estimator(&self) -> Estimator {
        match self.form {
            Form::ByRound { estimator, .. } => estimator,
            Form::Unpaired { .. } => Estimator::RATIO,
            Form::Crossing { .. } => Estimator::Median,
        }
    }
}

/// The estimate of a statistic over rounds: the figure to quote.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// In the statistic's unit.
    pub value: f64,
    /// Its interval, where there are as many rounds as its level needs.
    pub ci95: Option<[f64; 2]>,
}

impl Estimate {
    /// In another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            ci95: self.ci95.map(|ends| ends.map(|end| end * factor)),
        }
    }

    /// Of a share by which something changes, with its interval: `5.85 % more`, `12.4 [12.1, 12.8] % less`.
    #[must_use]
    pub fn change(self) -> String {
        if self.value >= 0.0 {
            return format!("{} more", self.show("share"));
        }
        let size = Self {
            value: -self.value,
            ci95: self.ci95.map(|[low, high]| [-high, -low]),
        };
        format!("{} less", size.show("share"))
    }

    /// A fact with this figure, in `unit`.
    #[must_use]
    pub fn fact(self, says: String, unit: &str) -> Finding {
        Finding::fact(says, Some(self.value), self.ci95, unit)
    }

    /// Without its interval, in the unit that suits it: `12.4 µs`.
    #[must_use]
    pub fn plain(self, unit: &str) -> String {
        units::with_unit(self.value, None, unit)
    }

    /// With its interval, in the unit that suits it: `12.4 [12.1, 12.8] µs`.
    #[must_use]
    pub fn show(self, unit: &str) -> String {
        units::with_unit(self.value, self.ci95, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Metric = metric("elapsed_ns", "ns");

    fn time(count: u64) -> Statistic {
        TIME.of(Params::new().with("count", count))
    }

    #[test]
    fn a_statistic_is_shown_by_its_cells() {
        let shown = format!("{:?}", time(7).over(time(8)));
        assert!(
            shown.starts_with("Statistic([") && shown.contains("elapsed_ns"),
            "{shown}"
        );
    }

    #[test]
    fn a_change_is_so_much_more_or_less() {
        let change = |value, ci95| Estimate { value, ci95 }.change();
        assert_eq!(change(0.0585, None), "5.85 % more");
        assert_eq!(change(-0.5, Some([-0.6, -0.4])), "50.0 [40.0, 60.0] % less");
        assert_eq!(change(0.01, Some([-0.02, 0.04])), "1.00 [−2.00, 4.00] % more");
    }

    /// The figure of a cell is its count times 10.
    fn tenfold(cell: &Cell) -> Option<f64> {
        cell.pattern.int("count").map(|n| n as f64 * 10.0)
    }

    #[test]
    fn an_expression_computes_what_it_says() {
        let overhead = |n| time(n).over(time(2)).less_one();
        assert_eq!(overhead(3).of_cells(tenfold), Some(0.5));
        assert_eq!(overhead(3).times(100.0).of_cells(tenfold), Some(50.0));
        assert_eq!(time(5).less(time(2)).of_cells(tenfold), Some(30.0));
        let largest = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let most = Statistic::function([2, 4, 3].map(overhead), largest);
        assert_eq!(most.of_cells(tenfold), Some(1.0));
        let mean = Statistic::geometric_mean([2, 8].map(|n| time(n).over(time(1))));
        assert!((mean.of_cells(tenfold).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(most.of_cells(|_| None), None);
    }

    #[test]
    fn a_crossing_is_where_a_ratio_goes_below_one() {
        let ratio = |n: u64| (n as f64, time(4).over(time(n)));
        let at = |between| Statistic::crossing([2, 3, 8].map(ratio), between).of_cells(tenfold);
        assert_eq!(at(Between::Next(5.0)), Some(8.0));
        assert!((at(Between::Interpolated).unwrap() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn it_knows_how_it_is_estimated() {
        let ratio = time(3).over(time(2));
        assert_eq!(ratio.estimator(), Estimator::RATIO);
        let percent = ratio.clone().less_one().times(100.0);
        let expected = Estimator::Ratio {
            scale: 100.0,
            shift: -100.0,
        };
        assert_eq!(percent.estimator(), expected);
        assert_eq!(
            time(3).less(time(2)).times(2.0).estimator(),
            Estimator::Difference
        );
        assert_eq!(time(3).times(1e-3).estimator(), Estimator::Median);
        assert_eq!(
            Statistic::function([ratio], |v| v[0]).estimator(),
            Estimator::Median
        );
    }

    #[test]
    fn a_reciprocal_a_saving_and_another_unit_stay_what_they_are_estimated_as() {
        let ratio = || time(1).over(time(3));
        let near = |found: Option<f64>, expected: f64| {
            assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} {expected}");
        };
        near(ratio().inverse().of_cells(tenfold), 3.0);
        assert_eq!(ratio().inverse().estimator(), Estimator::RATIO);
        near(ratio().saved().of_cells(tenfold), 2.0 / 3.0);
        let saved = Estimator::Ratio {
            scale: -1.0,
            shift: 1.0,
        };
        assert_eq!(ratio().saved().estimator(), saved);
        // In per cent.
        let percent = Estimator::Ratio {
            scale: -100.0,
            shift: 100.0,
        };
        assert_eq!(ratio().saved().times(100.0).estimator(), percent);
        let difference = || time(3).less(time(1));
        assert_eq!(difference().times(2.0).estimator(), Estimator::Difference);
        assert_eq!(difference().less_one().estimator(), Estimator::Median);
    }

    #[test]
    fn it_knows_its_cells_and_whose_they_are() {
        let ratio = time(1).over(time(3));
        assert_eq!(ratio.pattern(), time(1).cells()[0].pattern);
        assert_eq!(ratio.cells().len(), 2);
        assert_eq!(ratio.experiment(), None);
        let elsewhere = time(1).in_experiment("create");
        assert_eq!(elsewhere.experiment(), Some("create"));
        // Of different experiments: no round in common.
        let unpaired = time(6).over(time(3).in_experiment("create"));
        assert_eq!(unpaired.cells().len(), 2);
        assert!((unpaired.of_cells(tenfold).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(unpaired.estimator(), Estimator::RATIO);
    }

    #[test]
    fn an_estimate_in_another_unit_has_its_interval_there_too() {
        let estimate = Estimate {
            value: 2.0,
            ci95: Some([1.5, 2.5]),
        };
        let times = estimate.times(1_000.0);
        assert_eq!((times.value, times.ci95), (2_000.0, Some([1_500.0, 2_500.0])));
        let fact = estimate.fact("so it is".to_owned(), "ns");
        assert_eq!(
            (fact.measured, fact.ci95, fact.unit.as_str()),
            (Some(2.0), Some([1.5, 2.5]), "ns")
        );
        assert!(estimate.show("ns").contains("[1.5") && !estimate.plain("ns").contains('['));
        assert!(estimate.plain("ns").starts_with('2'));
    }
}
