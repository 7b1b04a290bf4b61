//! How estimates with intervals are written, and when a limit is met.

use threadgauge_results::units::Scale;
use threadgauge_stats::{Estimate, Interval, Summary, summarise};

/// A statistic over the rounds.
pub type Spread = Summary;

/// Of these; `None` without any.
pub fn spread_of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let values: Vec<f64> = values.into_iter().collect();
    summarise(&values, 0.05).ok()
}

/// Three digits, and no more than the figure needs.
pub fn number(value: f64) -> String {
    Scale::of("ratio", value).number(value)
}

/// The median, and the ends in brackets, in units of which `one` makes one.
pub fn show(of: &Spread, one: f64) -> String {
    let [median, least, most] = [of.median, of.min, of.max].map(|v| number(v / one));
    format!("{median} ({least} – {most})")
}

/// In the place of what was not measured.
pub const NOTHING: &str = "–";

/// A spread in units of which `one` makes one.
pub fn spread(of: Option<Spread>, one: f64) -> String {
    of.map_or_else(|| NOTHING.to_owned(), |spread| show(&spread, one))
}

/// The middle of a spread alone.
pub fn middle(of: Option<Spread>, one: f64) -> String {
    of.map_or_else(|| NOTHING.to_owned(), |spread| number(spread.median / one))
}

/// An estimate and its interval, which takes six rounds.
pub fn estimate(of: Option<&Estimate>) -> String {
    of.map_or_else(|| NOTHING.to_owned(), |of| with_interval(of.estimate, of.ci))
}

fn with_interval(estimate: f64, interval: Option<Interval>) -> String {
    match interval {
        Some(ci) => format!("{} [{}, {}]", number(estimate), number(ci.low), number(ci.high)),
        None => format!("{} [no interval]", number(estimate)),
    }
}

/// Whether a ratio is at most `limit`: told by the whole interval, and open where that spans the limit.
pub fn at_most(of: Option<&Estimate>, limit: f64) -> &'static str {
    match of.map(|of| of.ci) {
        None => NOTHING,
        Some(None) => "too few rounds",
        Some(Some(ci)) if ci.high <= limit => "yes",
        Some(Some(ci)) if ci.low > limit => "**no**",
        Some(Some(_)) => "open",
    }
}

/// As [`at_most`], of a ratio that must be at least `limit`.
pub fn at_least(of: Option<&Estimate>, limit: f64) -> &'static str {
    match of.map(|of| of.ci) {
        None => NOTHING,
        Some(None) => "too few rounds",
        Some(Some(ci)) if ci.low >= limit => "yes",
        Some(Some(ci)) if ci.high < limit => "**no**",
        Some(Some(_)) => "open",
    }
}

/// Whether a ratio lies between `limits`: of its two ends the answer that is farther from yes.
pub fn within(of: Option<&Estimate>, [least, most]: [f64; 2]) -> &'static str {
    let ends = [at_least(of, least), at_most(of, most)];
    let said = |is: fn(&str) -> bool| ends.into_iter().find(|met| is(met));
    said(|met| met == "**no**")
        .or_else(|| said(|met| met != "yes"))
        .unwrap_or("yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, estimate: f64, high: f64) -> Estimate {
        Estimate {
            estimate,
            ci: Some(Interval {
                low,
                high,
                level: 0.95,
            }),
            n: 7,
        }
    }

    #[test]
    fn a_limit_is_met_or_missed_by_the_whole_interval() {
        let met = |low, high| at_most(Some(&ratio(low, 1.1, high)), 1.15);
        assert_eq!(met(1.0, 1.15), "yes");
        assert_eq!(met(1.1, 1.2), "open");
        assert_eq!(met(1.16, 1.2), "**no**");
        let least = |low, high| at_least(Some(&ratio(low, 4.0, high)), 3.5);
        assert_eq!(
            [least(3.5, 4.0), least(3.0, 4.0), least(3.0, 3.4)],
            ["yes", "open", "**no**"]
        );
        assert_eq!(at_most(None, 1.15), "–");
        let between = |low, high| within(Some(&ratio(low, 1.0, high)), [0.9, 1.1]);
        assert_eq!(
            [between(0.9, 1.1), between(0.8, 1.1), between(0.8, 1.2)],
            ["yes", "open", "open"]
        );
        assert_eq!([between(0.7, 0.8), between(1.2, 1.3)], ["**no**"; 2]);
        let three_rounds = Estimate {
            ci: None,
            ..ratio(0.0, 1.0, 0.0)
        };
        assert_eq!(at_most(Some(&three_rounds), 1.15), "too few rounds");
    }

    #[test]
    fn estimates_stand_before_their_intervals() {
        assert_eq!(estimate(Some(&ratio(1.0, 1.25, 1.5))), "1.25 [1.00, 1.50]");
    }
}
