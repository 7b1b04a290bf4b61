//! Picking cells of this experiment's grid, and figures with their intervals read off them.

use threadgauge_results::Params;
use threadgauge_stats::{median, paired_ratio, sign_interval};

use crate::create::way::Way;
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

/// The metric that comparisons use.
pub const PRIMARY: &str = "ns_per_unit";
/// The median duration of a creation.
pub const CREATION: &str = "create_ns_median";

const ALPHA: f64 = 0.05;

/// Which case of a way is meant, without its count: a run has one count for each.
#[derive(Debug, Clone, Copy)]
pub struct Pick {
    way: Way,
    alive: u64,
    busy: u64,
    parent_mib: u64,
    huge_pages: bool,
    cpus: u64,
}

/// The base: one at a time, nobody beside, an empty parent, one CPU.
pub const fn base(way: Way) -> Pick {
    Pick {
        way,
        alive: 1,
        busy: 0,
        parent_mib: 0,
        huge_pages: false,
        cpus: 1,
    }
}

impl Pick {
    /// With so many alive.
    pub const fn alive(self, alive: u64) -> Self {
        Self { alive, ..self }
    }

    /// With so many computing beside.
    pub const fn busy(self, busy: u64) -> Self {
        Self { busy, ..self }
    }

    /// With a parent of this size and page kind.
    pub const fn parent(self, parent_mib: u64, huge_pages: bool) -> Self {
        Self {
            parent_mib,
            huge_pages,
            ..self
        }
    }

    /// On so many CPUs.
    pub const fn cpus(self, cpus: u64) -> Self {
        Self { cpus, ..self }
    }

    /// The parameters that pick the case.
    pub fn pattern(&self) -> Params {
        Params::new()
            .with("method", self.way.name())
            .with("alive", self.alive)
            .with("busy", self.busy)
            .with("parent_mib", self.parent_mib)
            .with("huge_pages", if self.huge_pages { "yes" } else { "no" })
            .with("cpus", self.cpus)
    }

    /// The cell of `metric`.
    pub fn cell(&self, metric: &str) -> Cell {
        Cell {
            experiment: None,
            pattern: self.pattern(),
            metric: metric.to_owned(),
        }
    }

    /// The case's full parameters, where the run planned it.
    pub fn planned(&self, view: &View<'_>) -> Option<Params> {
        view.cases(&self.pattern()).next().cloned()
    }
}

/// The CPUs of the cases "on all", where the run planned any.
pub fn all_cpus(view: &View<'_>) -> Option<u64> {
    let most = view.cases(&Params::new()).filter_map(|p| p.int("cpus")).max()?;
    (most > 1).then_some(most)
}

/// A figure with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figured {
    /// The figure.
    pub value: f64,
    /// Its interval, from 6 rounds on.
    pub ci95: Option<[f64; 2]>,
}

impl Figured {
    /// In another unit.
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            ci95: self.ci95.map(|ends| ends.map(|end| end * factor)),
        }
    }
}

/// A cell's median.
pub fn figure(view: &View<'_>, pick: Pick, metric: &str) -> Option<Figured> {
    let summary = view.summary(&pick.cell(metric))?;
    Some(Figured {
        value: summary.median,
        ci95: summary.ci95,
    })
}

/// `of / to` by round.
///
/// # Errors
///
/// Says which cell is missing.
pub fn ratios(view: &View<'_>, of: Pick, to: Pick, metric: &str) -> Result<Vec<f64>, String> {
    view.by_round(&[of.cell(metric), to.cell(metric)], |v| v[0] / v[1])
}

/// `of / to` on the primary metric.
///
/// # Errors
///
/// Says which cell is missing.
pub fn ratio(view: &View<'_>, of: Pick, to: Pick) -> Result<Figured, String> {
    let rounds = ratios(view, of, to, PRIMARY)?;
    let ones = vec![1.0; rounds.len()];
    let estimate = paired_ratio(&ones, &rounds, ALPHA).map_err(|e| e.to_string())?;
    Ok(Figured {
        value: estimate.estimate,
        ci95: estimate.ci.map(|ci| [ci.low, ci.high]),
    })
}

/// The median of one statistic a round.
pub fn statistic(rounds: &[f64]) -> Option<Figured> {
    Some(Figured {
        value: median(rounds).ok()?,
        ci95: sign_interval(rounds, ALPHA).map(|ci| [ci.low, ci.high]),
    })
}

/// A duration in words: three digits and the unit that suits it.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// A duration with its interval.
pub fn time_between(figure: Figured) -> String {
    figure.ci95.map_or_else(
        || time(figure.value),
        |[low, high]| format!("{} [{}, {}]", time(figure.value), time(low), time(high)),
    )
}

/// A ratio with its interval.
pub fn ratio_between(figure: Figured) -> String {
    figure.ci95.map_or_else(
        || digits(figure.value),
        |[low, high]| format!("{} [{}, {}]", digits(figure.value), digits(low), digits(high)),
    )
}

/// Three digits that count.
pub fn digits(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.places$}")
}

/// Views made by hand, for the tests of what is read off them.
#[cfg(test)]
pub mod by_hand {
    use std::collections::BTreeMap;

    use threadgauge_lab::analysis::metric_summary;
    use threadgauge_results::{MetricSummary, Params};
    use threadgauge_stats::summarise;

    use crate::create::way::Case;
    use threadgauge_lab::site::Profile;
    use threadgauge_lab::view::{View, ViewCase};

    /// A case with the values of `metrics` in rounds 1, 2, ….
    pub fn measured(case: &Case, cpus: u64, metrics: &[(&str, &[f64])]) -> ViewCase {
        let rounds = |values: &[f64]| -> BTreeMap<u32, f64> { (1..).zip(values.iter().copied()).collect() };
        ViewCase {
            params: case.params(cpus),
            lack: None,
            values: metrics
                .iter()
                .map(|(name, v)| ((*name).to_owned(), rounds(v)))
                .collect(),
            summaries: metrics
                .iter()
                .map(|(name, v)| ((*name).to_owned(), summary(v)))
                .collect(),
        }
    }

    /// A case that could not run.
    pub fn lacking(params: Params, reason: &str) -> ViewCase {
        ViewCase {
            params,
            lack: Some(threadgauge_results::Lack::new(
                threadgauge_results::Need::Figures,
                reason,
            )),
            values: BTreeMap::new(),
            summaries: BTreeMap::new(),
        }
    }

    /// All cases of a quick run.
    pub fn view(cases: Vec<ViewCase>) -> View<'static> {
        threadgauge_lab::testing::view("create", Profile::Quick, cases)
    }

    fn summary(values: &[f64]) -> MetricSummary {
        metric_summary("ns", summarise(values, 0.05).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::by_hand::{lacking, measured, view};
    use super::*;
    use crate::create::way::Case;

    #[test]
    fn a_pick_finds_its_case_whatever_the_count() {
        for count in [200, 100_000] {
            let case = Case::base(Way::Fork, count);
            assert!(case.params(1).matches(&base(Way::Fork).pattern()));
            assert!(!case.params(2).matches(&base(Way::Fork).pattern()));
            let held = Case { alive: 64, ..case };
            assert!(held.params(1).matches(&base(Way::Fork).alive(64).pattern()));
            assert!(!held.params(1).matches(&base(Way::Fork).pattern()));
        }
    }

    #[test]
    fn a_ratio_is_by_round_and_has_an_interval_from_six_on() {
        let thread = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0];
        let process = thread.map(|v| 5.0 * v);
        let run = |n: usize| {
            view(vec![
                measured(&Case::base(Way::Fork, 200), 1, &[(PRIMARY, &process[..n])]),
                measured(&Case::base(Way::Pthread, 200), 1, &[(PRIMARY, &thread[..n])]),
            ])
        };
        let six = ratio(&run(6), base(Way::Fork), base(Way::Pthread)).unwrap();
        assert!((six.value - 5.0).abs() < 1e-9 && six.ci95.is_some());
        let five = ratio(&run(5), base(Way::Fork), base(Way::Pthread)).unwrap();
        assert_eq!(five.ci95, None);
    }

    #[test]
    fn a_missing_cell_is_named_with_its_reason() {
        let view = view(vec![
            measured(&Case::base(Way::Fork, 200), 1, &[(PRIMARY, &[1.0])]),
            lacking(Case::base(Way::Pthread, 200).params(1), "the limit nproc is 5"),
        ]);
        let error = ratio(&view, base(Way::Fork), base(Way::Pthread)).unwrap_err();
        assert!(
            error.contains("method=pthread") && error.contains("the limit nproc is 5"),
            "{error}"
        );
        assert_eq!(all_cpus(&view), None);
    }

    #[test]
    fn durations_are_written_with_the_unit_that_suits_them() {
        assert_eq!(time(345.6), "346 ns");
        assert_eq!(time(21_340.0), "21.3 µs");
        assert_eq!(time(32_300_000.0), "32.3 ms");
        let figure = Figured {
            value: 2_000.0,
            ci95: Some([1_500.0, 2_500.0]),
        };
        assert_eq!(time_between(figure), "2.00 µs [1.50 µs, 2.50 µs]");
        assert_eq!(ratio_between(figure.times(1e-3)), "2.00 [1.50, 2.50]");
    }
}
