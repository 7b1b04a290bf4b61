//! From values to places: the range of an axis, its ticks, and which of their labels fit.

use threadgauge_results::{Point, Scale, units};

use super::quantity::Bounds;

/// The most ticks that an axis has at its own values; with more it has even ones.
const OWN: usize = 16;
/// The longest label of such a tick, in characters.
const LONGEST: usize = 6;

/// A numeric axis from 0 (its start) to 1 (its end).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    log: bool,
    low: f64,
    high: f64,
    /// In order.
    pub ticks: Vec<f64>,
    /// Whether the ticks are at the values themselves, and so not even.
    is_own: bool,
}

impl Axis {
    /// An axis that holds all `values`, with its ticks at them where they are few and short to write.
    pub fn at(scale: Scale, values: impl Iterator<Item = f64>, bounds: Bounds) -> Self {
        let mut values: Vec<f64> = values.collect();
        let mut axis = Self::of(scale, values.iter().copied(), bounds);
        values.retain(|value| axis.holds(*value));
        values.sort_by(f64::total_cmp);
        values.dedup();
        let is_short = |value: &f64| {
            let label = units::tick(*value);
            let digits: String = label.replace('−', "-").split_whitespace().collect();
            label.chars().count() <= LONGEST && digits.parse() == Ok(*value)
        };
        if (1..=OWN).contains(&values.len()) && values.iter().all(is_short) {
            (axis.ticks, axis.is_own) = (values, true);
        }
        axis
    }

    /// An axis that holds all `values` and does not leave `bounds` further than they do; those that cannot stand on
    /// it are not asked.
    pub fn of(scale: Scale, values: impl Iterator<Item = f64>, bounds: Bounds) -> Self {
        let log = scale == Scale::Log;
        let values: Vec<f64> = values.filter(|v| v.is_finite() && (!log || *v > 0.0)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return Self {
                log: false,
                low: 0.0,
                high: 1.0,
                ticks: vec![0.0, 1.0],
                is_own: false,
            };
        }
        let bounds = bounds.with(low).with(high);
        if log {
            Self::logarithmic(&values, low, high, bounds)
        } else {
            Self::linear(low, high, bounds)
        }
    }

    fn linear(low: f64, high: f64, bounds: Bounds) -> Self {
        // Zero belongs to the picture unless it would squeeze the figures into a corner.
        let (mut from, mut to) = (low, high);
        if low > 0.0 && low < 0.6 * high {
            from = 0.0;
        }
        if from == to {
            let room = if from == 0.0 { 1.0 } else { from.abs() * 0.1 };
            (from, to) = bounds.whole().unwrap_or((from - room, to + room));
        }
        let pad = (to - from) * 0.04;
        let (from, to) = (
            if from == 0.0 { from } else { from - pad },
            if to == 0.0 { to } else { to + pad },
        );
        let (from, to) = (bounds.clamp(from), bounds.clamp(to));
        let step = nice((to - from) / 6.0);
        let first = (from / step - 1e-9).ceil();
        let ticks = (0..50)
            .map(|i| (first + f64::from(i)) * step)
            .take_while(|t| *t <= to + step * 1e-9);
        Self {
            log: false,
            low: from,
            high: to,
            ticks: ticks.collect(),
            is_own: false,
        }
    }

    fn logarithmic(values: &[f64], low: f64, high: f64, bounds: Bounds) -> Self {
        let (a, b) = (low.log10(), high.log10());
        let pad = ((b - a) * 0.04).max(0.02);
        let (a, b) = (a - pad, bounds.clamp(10f64.powf(b + pad)).log10());
        let is_power_of_two = |v: &f64| *v >= 1.0 && (v.log2() - v.log2().round()).abs() < 1e-9;
        let within = |t: &f64| (a..=b).contains(&t.log10());
        let decades = (a.floor() as i32)..=(b.ceil() as i32);
        let by = |parts: &[f64]| -> Vec<f64> {
            let all = decades
                .clone()
                .flat_map(|d| parts.iter().map(move |p| p * 10f64.powi(d)));
            all.filter(within).collect()
        };
        let ticks = if high >= 8.0 * low && values.iter().all(is_power_of_two) {
            (0..63).map(|e| 2f64.powi(e)).filter(within).collect()
        } else if b - a > 3.2 {
            by(&[1.0])
        } else if b - a > 0.7 {
            match by(&[1.0, 2.0, 5.0]) {
                few if few.len() < 3 => by(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]),
                ticks => ticks,
            }
        } else {
            let step = nice((high - low).max(high * 0.1) / 4.0);
            let first = (10f64.powf(a) / step).ceil();
            (0..20)
                .map(|i| (first + f64::from(i)) * step)
                .filter(within)
                .collect()
        };
        Self {
            log: true,
            low: 10f64.powf(a),
            high: 10f64.powf(b),
            ticks,
            is_own: false,
        }
    }

    /// Where `value` stands, 0 to 1; the ends for what lies beyond.
    pub fn place(&self, value: f64) -> f64 {
        let at = if !self.log {
            (value - self.low) / (self.high - self.low)
        } else if value <= 0.0 {
            0.0
        } else {
            (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        };
        at.clamp(0.0, 1.0)
    }

    /// Whether `value` is within the axis, so that it stands at its place and not at an end.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Ticks with their labels where `length` units have room for them, without where they have not.
    pub fn labels(&self, length: f64) -> Vec<(f64, Option<String>)> {
        let labels: Vec<(f64, String)> = self.ticks.iter().map(|t| (*t, units::tick(*t))).collect();
        if self.is_own {
            return self.uneven(labels, length);
        }
        let fits = |every: usize| {
            let shown: Vec<_> = labels.iter().step_by(every).collect();
            shown.windows(2).all(|w| {
                let gap = (self.place(w[1].0) - self.place(w[0].0)) * length;
                gap >= (width(&w[0].1) + width(&w[1].1)) / 2.0 + 10.0
            })
        };
        let every = (1..).find(|n| fits(*n)).unwrap_or(1);
        let is_decade = |t: f64| (t.log10() - t.log10().round()).abs() < 1e-9;
        let decades = self.ticks.iter().filter(|t| is_decade(**t)).count();
        // Of 1, 2, 5, 10, 20, … the powers of ten are the ones to keep. Of powers of two only 1 is one.
        let by_decade = self.log && every > 1 && (2..self.ticks.len()).contains(&decades);
        let shown = |i: usize, t: f64| {
            if by_decade {
                is_decade(t)
            } else {
                i.is_multiple_of(every)
            }
        };
        let numbered = labels.into_iter().enumerate();
        numbered
            .map(|(i, (t, text))| (t, shown(i, t).then_some(text)))
            .collect()
    }

    /// The first and the last label, and of those between, from the first on, the ones that touch none.
    fn uneven(&self, labels: Vec<(f64, String)>, length: f64) -> Vec<(f64, Option<String>)> {
        let ends = |(value, text): &(f64, String)| {
            let (at, half) = (self.place(*value) * length, width(text) / 2.0);
            (at - half, at + half)
        };
        const APART: f64 = 6.0;
        let last = labels.len() - 1;
        let (to, mut from) = (ends(&labels[last]).0 - APART, f64::NEG_INFINITY);
        let shown: Vec<bool> = (labels.iter().enumerate())
            .map(|(i, label)| {
                let (left, right) = ends(label);
                let fits = i == last || (left >= from && right <= to);
                if fits {
                    from = right + APART;
                }
                fits
            })
            .collect();
        let labels = labels.into_iter().zip(shown);
        labels
            .map(|((value, text), shown)| (value, shown.then_some(text)))
            .collect()
    }
}

/// About the narrowest that text of 13 units' height is: what is wider than this cannot be said to fit.
#[cfg(test)]
pub(super) const NARROW: f64 = 6.5;

/// A generous guess at the width of a label of 13 units' height; fonts differ.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 8.0
}

/// A name that fits beside the chart, in so many lines; a word that is too long for one is broken after its hyphens,
/// and what does not fit the last is cut.
pub(super) fn in_lines(name: &str, longest: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in name.split_whitespace() {
        let is_long = word.chars().count() > longest;
        let parts = word.split_inclusive(if is_long { '-' } else { ' ' });
        for (i, part) in parts.enumerate() {
            let at = lines.len() - 1;
            let space = if i > 0 || lines[at].is_empty() { "" } else { " " };
            let together = lines[at].chars().count() + space.len() + part.chars().count();
            if lines[at].is_empty() || together <= longest || lines.len() == most {
                lines[at] = format!("{}{space}{part}", lines[at]);
            } else {
                lines.push(part.to_owned());
            }
        }
    }
    for line in &mut lines {
        if line.chars().count() > longest {
            let kept: String = line.chars().take(longest - 1).collect();
            *line = format!("{}…", kept.trim_end());
        }
    }
    lines
}

/// The next of 1, 2, 5 × 10ⁿ.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let mantissa = step / power;
    let mantissa = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|m| mantissa <= m * 1.000_001)
        .unwrap_or(10.0);
    mantissa * power
}

/// What stands at an axis: its label, and that it is logarithmic, which few ticks do not show.
pub(super) fn titled(axis: &threadgauge_results::Axis) -> String {
    match axis.scale {
        Scale::Log => format!("{}, log", axis.label),
        Scale::Linear | Scale::Category => axis.label.clone(),
    }
}

/// The name of a category on the horizontal axis.
pub(crate) fn category(point: &Point) -> String {
    point.label.clone().unwrap_or_else(|| units::tick(point.x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_wrapped_where_there_is_room_and_else_cut() {
        let name = "give a job to a waiting one, 2 CPUs";
        assert_eq!(in_lines(name, 19, 3), ["give a job to a", "waiting one, 2 CPUs"]);
        assert_eq!(in_lines(name, 19, 1), ["give a job to a wa…"]);
        assert_eq!(in_lines("fork", 19, 1), ["fork"]);
        assert_eq!(in_lines("abcd efgh", 9, 3), ["abcd efgh"]);
        assert_eq!(in_lines("abcd efgh", 8, 3), ["abcd", "efgh"]);
        let design = "half-sync-half-async";
        assert_eq!(in_lines(design, 19, 3), ["half-sync-half-", "async"]);
        assert_eq!(in_lines(design, 20, 3), [design]);
    }

    #[test]
    fn a_single_value_stands_within_its_axis() {
        for scale in [Scale::Linear, Scale::Log] {
            let axis = Axis::of(scale, [5.0].into_iter(), Bounds::NONE);
            assert!(axis.holds(5.0) && !axis.holds(1.0), "{axis:?}");
        }
    }

    #[test]
    fn powers_of_two_have_their_own_ticks() {
        let axis = Axis::of(Scale::Log, (0..14).map(|e| 2f64.powi(e)), Bounds::NONE);
        assert_eq!(axis.ticks.len(), 14);
        assert_eq!(axis.labels(640.0).last().unwrap().1.as_deref(), Some("8192"));
    }

    #[test]
    fn less_than_a_decade_has_more_than_two_ticks() {
        let axis = Axis::of(Scale::Log, [0.86, 4.6].into_iter(), Bounds::NONE);
        assert_eq!(axis.ticks, [1.0, 1.5, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_few_powers_of_two_have_even_ticks() {
        let axis = Axis::of(Scale::Log, [16.0, 32.0, 64.0].into_iter(), Bounds::NONE);
        assert_eq!(axis.ticks, [20.0, 40.0, 60.0]);
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        let axis = Axis::of(Scale::Log, (0..14).map(|e| 2f64.powi(e)), Bounds::NONE);
        let shown: Vec<_> = axis.labels(300.0).into_iter().filter_map(|(_, l)| l).collect();
        assert!(shown.len() < 14 && shown.len() > 3, "{shown:?}");
    }

    #[test]
    fn many_powers_of_ten_are_thinned_where_they_have_no_room() {
        let axis = Axis::of(Scale::Log, [1.0, 1e7].into_iter(), Bounds::NONE);
        let shown = |length| {
            axis.labels(length)
                .into_iter()
                .filter(|(_, l)| l.is_some())
                .count()
        };
        assert!(
            shown(600.0) > shown(160.0) && shown(160.0) >= 2,
            "{}",
            shown(160.0)
        );
    }

    #[test]
    fn a_linear_axis_starts_at_zero_when_that_costs_little() {
        let axis = Axis::of(Scale::Linear, [3.0, 57.0].into_iter(), Bounds::NONE);
        assert_eq!(axis.ticks, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(axis.place(0.0), 0.0);
        assert!(Axis::of(Scale::Linear, [95.0, 105.0].into_iter(), Bounds::NONE).ticks[0] > 0.0);
    }

    #[test]
    fn every_value_stands_on_its_axis_whatever_it_is() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [
                vec![],
                vec![0.0],
                vec![5.0],
                vec![-1.0, 1.0],
                vec![f64::NAN],
                vec![1e-9, 1e12],
            ] {
                let axis = Axis::of(scale, values.iter().copied(), Bounds::NONE);
                assert!(!axis.ticks.is_empty(), "{scale:?} {values:?}");
                for v in values.into_iter().filter(|v| v.is_finite()) {
                    assert!((0.0..=1.0).contains(&axis.place(v)), "{scale:?} {v}");
                }
            }
        }
    }
}
