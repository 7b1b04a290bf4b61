//! What a user promises of a service, held against what a run measured.

use std::fmt;
use std::str::FromStr;

use crate::record::Record;
use crate::span::{Span, trim};

/// Conditions that all must hold, such as `p99<5ms,errors<1%`. Those on a latency are on good answers, and where none
/// is on errors there may be none: so what fails at once cannot make a server look fast.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Those conditions that this run does not meet, in words; `None` where it meets all. `failed` of its requests
    /// count as errors, which are all that [failed](Record::failed) but where clients wanted it so. A quantile of too
    /// few answers to be known is not met.
    pub fn broken(&self, record: &Record, failed: u64) -> Option<String> {
        let is_on_errors = |condition: &Condition| matches!(condition, Condition::Errors(_));
        let any = (failed > 0 && !self.0.iter().any(is_on_errors)).then(|| any_failed(record, failed));
        let broken = self
            .0
            .iter()
            .filter_map(|condition| condition.broken(record, failed));
        let all: Vec<String> = any.into_iter().chain(broken).collect();
        (!all.is_empty()).then(|| all.join("; "))
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

impl Record {
    /// Requests or deliveries without a good answer: those that failed and those that are unfinished.
    pub fn failed(&self) -> u64 {
        self.failures.total() + self.unfinished
    }
}

/// Said where nothing may fail.
fn any_failed(record: &Record, failed: u64) -> String {
    let kinds = record.failures.each().map(|(kind, count)| (kind.name(), count));
    let unfinished = (record.unfinished > 0).then_some(("unfinished", record.unfinished));
    let each: Vec<String> = kinds
        .chain(unfinished)
        .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
        .collect();
    let each = each.join(", ");
    let all = record.answered + record.failed();
    format!("{failed} of {all} failed ({each}), and without a condition as errors<1% none may")
}

impl Condition {
    fn broken(&self, record: &Record, failed: u64) -> Option<String> {
        let missed = |is: f64, unit: &str| format!("{self} does not hold: it is {is:.3} {unit}");
        match *self {
            Self::Quantile(q, under_ns) => match record.good.ns(q) {
                None => Some(format!(
                    "{self} cannot be told of {} good answers: it takes {:.0}",
                    record.good.count(),
                    least_answers(q)
                )),
                Some(ns) => (ns as f64 >= under_ns).then(|| missed(ns as f64 / 1e6, "ms")),
            },
            Self::Mean(under_ns) => match record.good.mean_ns() {
                None => Some(format!("{self} cannot be told of no good answer")),
                Some(mean_ns) => (mean_ns >= under_ns).then(|| missed(mean_ns / 1e6, "ms")),
            },
            Self::Errors(under) => {
                let share = failed as f64 / (failed + record.answered).max(1) as f64;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Failure;

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

    /// A run of a thousand good answers after 2 ms, and of some that failed.
    fn run(failed: u64) -> Record {
        let mut record = Record::default();
        (0..1000).for_each(|_| record.good.record(2_000_000));
        record.answered = 1000;
        (0..failed).for_each(|_| record.failures.count(Failure::Closed));
        record
    }

    fn broken(slo: &str, record: &Record) -> Option<String> {
        slo.parse::<Slo>().unwrap().broken(record, record.failed())
    }

    #[test]
    fn a_run_meets_a_condition_or_not_and_too_few_answers_meet_none() {
        let record = run(1);
        // A quantile is the upper end of its place in a histogram.
        for (slo, says) in [
            ("p99<3ms,mean<3ms,errors<1%", None),
            ("p99<2ms,errors<1%", Some("p99<2ms does not hold: it is 2.001 ms")),
            (
                "p99<3ms,mean<1ms,errors<1%",
                Some("mean<1ms does not hold: it is 2.000 ms"),
            ),
            // One of 1001.
            ("errors<0.05%", Some("errors<0.05% does not hold: it is 0.100 %")),
            (
                "p99.9<3ms,errors<1%",
                Some("p99.9<3ms cannot be told of 1000 good answers: it takes 10000"),
            ),
        ] {
            assert_eq!(broken(slo, &record).as_deref(), says);
        }
        assert_eq!(
            broken("mean<1s", &Record::default()).as_deref(),
            Some("mean<1s cannot be told of no good answer")
        );
    }

    #[test]
    fn how_many_answers_it_takes_is_told_by_the_rarest_quantile() {
        let least = |slo: &str| slo.parse::<Slo>().unwrap().least_answers();
        assert_eq!(
            ["p50<1s", "p99<1s,p50<1s", "p99.9<1s", "mean<1s", "errors<1%"].map(least),
            [20.0, 1_000.0, 10_000.0, 1.0, 1.0]
        );
    }

    #[test]
    fn what_fails_at_once_is_no_fast_answer_and_nothing_may_fail_unless_that_is_said() {
        let mut record = run(112);
        let says = "errors<10% does not hold: it is 10.072 %";
        assert_eq!(broken("errors<10%", &record).as_deref(), Some(says));
        record.unfinished = 3;
        // As many times as there are good ones.
        (0..10_000).for_each(|_| record.response.record(1_000));
        assert!(broken("p50<1ms,errors<50%", &record).is_some_and(|says| says.contains("it is 2.00")));
        assert_eq!(broken("p50<3ms,errors<50%", &record), None);
        let says =
            "115 of 1115 failed (112 closed, 3 unfinished), and without a condition as errors<1% none may";
        assert_eq!(broken("p50<3ms", &record).as_deref(), Some(says));
        assert_eq!(
            Slo::default().broken(&record, record.failed()).as_deref(),
            Some(says)
        );
        assert_eq!(Slo::default().broken(&run(0), 0), None);
        let both = broken("p50<1ms", &record).unwrap();
        assert!(
            both.starts_with(says) && both.contains("; p50<1ms does not hold"),
            "{both}"
        );
    }
}
