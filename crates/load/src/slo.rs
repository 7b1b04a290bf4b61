//! What a user promises of a service, held against what a run measured.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::record::Record;

/// Conditions that all must hold, such as `p99<5ms,errors<1%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo(Vec<Condition>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Condition {
    /// This quantile of the response time lies under so many nanoseconds.
    Quantile(f64, f64),
    /// So does the mean.
    Mean(f64),
    /// The share of requests without a good answer lies under this.
    Errors(f64),
}

impl Slo {
    /// The first condition that this run does not meet, in words; `None` where it meets all. A quantile of too few
    /// answers to be known is not met.
    pub fn broken(&self, record: &Record) -> Option<String> {
        self.0.iter().find_map(|condition| condition.broken(record))
    }

    /// Whether one of the conditions is on a latency.
    pub fn judges_latency(&self) -> bool {
        let is_latency = |condition: &Condition| !matches!(condition, Condition::Errors(_));
        self.0.iter().any(is_latency)
    }

    /// How many answers it takes to tell whether it holds.
    pub fn least_answers(&self) -> f64 {
        let takes = |condition: &Condition| match condition {
            Condition::Quantile(q, _) => least_answers(*q),
            Condition::Mean(_) | Condition::Errors(_) => 1.0,
        };
        self.0.iter().map(takes).fold(1.0, f64::max)
    }
}

impl Condition {
    fn broken(&self, record: &Record) -> Option<String> {
        let missed = |is: f64, unit: &str| format!("{self} does not hold: it is {is:.3} {unit}");
        match *self {
            Self::Quantile(q, under_ns) => match record.response.ns(q) {
                None => Some(format!(
                    "{self} cannot be told of {} answers: it takes {:.0}",
                    record.response.count(),
                    least_answers(q)
                )),
                Some(ns) => (ns as f64 >= under_ns).then(|| missed(ns as f64 / 1e6, "ms")),
            },
            Self::Mean(under_ns) => {
                let mean_ns = record.response.mean_ns();
                (mean_ns >= under_ns || record.response.count() == 0).then(|| missed(mean_ns / 1e6, "ms"))
            }
            Self::Errors(under) => {
                let bad = record.failures.total() + record.unfinished;
                let share = bad as f64 / ((bad + record.answered).max(1)) as f64;
                (share >= under).then(|| missed(100.0 * share, "%"))
            }
        }
    }
}

/// Of a quantile: ten beyond it.
fn least_answers(q: f64) -> f64 {
    (10.0 / (1.0 - q)).round()
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantile(q, ns) => write!(f, "p{}<{}", trim(100.0 * q), Span::of_ns(*ns)),
            Self::Mean(ns) => write!(f, "mean<{}", Span::of_ns(*ns)),
            Self::Errors(share) => write!(f, "errors<{}%", trim(100.0 * share)),
        }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(Condition::to_string).collect();
        f.write_str(&all.join(","))
    }
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(|part| part.trim().parse())
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no condition, as p99<5ms, mean<2ms or errors<1% are");
        let (what, under) = text.split_once('<').ok_or_else(wrong)?;
        let ns = || Ok(under.trim().parse::<Span>()?.0.as_nanos() as f64);
        let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
        match what.trim() {
            "mean" => ns().map(Self::Mean),
            "errors" => {
                let percent = under
                    .trim()
                    .strip_suffix('%')
                    .and_then(|digits| number(digits.trim()));
                let share = percent.ok_or_else(wrong)? / 100.0;
                (share > 0.0 && share <= 1.0)
                    .then_some(Self::Errors(share))
                    .ok_or_else(wrong)
            }
            quantile => {
                let percent = quantile.strip_prefix('p').and_then(number).ok_or_else(wrong)?;
                if !(0.0..100.0).contains(&percent) {
                    return Err(wrong());
                }
                ns().map(|ns| Self::Quantile(percent / 100.0, ns))
            }
        }
    }
}

/// A length of time as a person types it: `500us`, `5ms`, `10s`, `2m` or `1h`; a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

const UNITS: [(&str, f64); 7] = [
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("m", 60.0),
    ("h", 3600.0),
];

impl Span {
    fn of_ns(ns: f64) -> Self {
        Self(Duration::from_nanos(ns as u64))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no length of time up to a day, as 500us, 5ms, 10s, 2m or 1h are");
        let unit_at = text
            .find(|c: char| c.is_alphabetic() || c == 'µ')
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(unit_at);
        let per = match unit {
            "" => 1.0,
            unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
        };
        let seconds = digits.trim().parse::<f64>().map_err(|_| wrong())? * per;
        (0.0..=86_400.0)
            .contains(&seconds)
            .then(|| Self(Duration::from_secs_f64(seconds)))
            .ok_or_else(wrong)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match seconds {
            s if s >= 1.0 || s == 0.0 => write!(f, "{}s", trim(s)),
            s if s >= 1e-3 => write!(f, "{}ms", trim(1e3 * s)),
            s => write!(f, "{}us", trim(1e6 * s)),
        }
    }
}

/// No more digits than it needs, up to six.
fn trim(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_shown() {
        for text in ["p99<5ms", "p99.9<250us,errors<1%", "mean<2s", "p50<1.5ms"] {
            assert_eq!(text.parse::<Slo>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "p99",
            "p100<5ms",
            "p99<5",
            "q<1ms",
            "errors<2",
            "errors<0%",
            "p99<-1ms",
            "p-1<1s",
        ] {
            let read = wrong.parse::<Slo>();
            // A bare number is seconds.
            assert!(read.is_err() || wrong == "p99<5", "{wrong}: {read:?}");
        }
    }

    #[test]
    fn a_span_has_a_unit() {
        let read = |text: &str| text.parse::<Span>().map(|span| span.0);
        assert_eq!(read("1500us"), Ok(Duration::from_micros(1500)));
        assert_eq!(read("0"), Ok(Duration::ZERO));
        assert_eq!(read("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "5x", "-1s", "nan", "25h", "1e99s"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_run_meets_a_condition_or_not_and_too_few_answers_meet_none() {
        let mut record = Record::default();
        (0..1000).for_each(|_| record.response.record(2_000_000));
        record.answered = 999;
        record.unfinished = 1;
        let broken = |slo: &str| slo.parse::<Slo>().unwrap().broken(&record);
        assert_eq!(broken("p99<3ms,mean<3ms,errors<1%"), None);
        assert!(broken("p99<2ms").is_some_and(|says| says.contains("it is 2.00")));
        assert!(broken("p99<3ms,mean<1ms").is_some_and(|says| says.starts_with("mean<1ms")));
        assert!(broken("errors<0.05%").is_some_and(|says| says.contains("0.100 %")));
        assert!(broken("p99.9<3ms").is_some_and(|says| says.contains("it takes 10000")));
    }
}
