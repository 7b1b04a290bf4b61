//! Whether a comparison passes a check: what may not be exceeded, and what was.
//!
//! A check that cannot be made is not passed: a comparison in which nothing is known fails, unless it was said that as
//! much may be unknown.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::units::{counted, percent};
use crate::{Compared, ComparisonResult};

/// One thing that may not be exceeded.
///
/// ```
/// use threadgauge_results::Limit;
///
/// assert_eq!("slower:5%".parse(), Ok(Limit::Slower { ratio: 1.05 }));
/// assert_eq!("unknown:20%".parse(), Ok(Limit::Unknown { share: 0.2 }));
/// assert!("faster:5%".parse::<Limit>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// The whole interval of no case lies above this ratio.
    Slower {
        /// 1.05 for 5 %.
        ratio: f64,
    },
    /// Of no larger share of the cases nothing is known.
    Unknown {
        /// 0.2 for 20 %.
        share: f64,
    },
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("`{text}` is neither slower:N% nor unknown:N%, as in slower:5% and unknown:20%");
        let (of, percent) = text.split_once(':').ok_or_else(wrong)?;
        let percent: f64 = percent
            .strip_suffix('%')
            .and_then(|number| number.parse().ok())
            .ok_or_else(wrong)?;
        if !percent.is_finite() || percent < 0.0 {
            return Err(wrong());
        }
        match of {
            "slower" => Ok(Self::Slower {
                ratio: 1.0 + percent / 100.0,
            }),
            "unknown" if percent <= 100.0 => Ok(Self::Unknown {
                share: percent / 100.0,
            }),
            _ => Err(wrong()),
        }
    }
}

/// All that may not be exceeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    /// The least that is allowed.
    slower: Option<f64>,
    unknown: Option<f64>,
}

/// What a comparison exceeded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breach {
    /// The id of the case; null of all together.
    pub case: Option<String>,
    /// In words.
    pub says: String,
}

/// What became of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// Whether nothing was exceeded.
    pub passed: bool,
    /// What was, by case first.
    pub breaches: Vec<Breach>,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.breaches.len() {
            0 => f.write_str("The check passed"),
            n => write!(f, "The check failed for {}", counted(n, "reason")),
        }
    }
}

impl Gate {
    /// Of several limits all count; `None` without any.
    #[must_use]
    pub fn of(limits: &[Limit]) -> Option<Self> {
        let least = |of: fn(&Limit) -> Option<f64>| limits.iter().filter_map(of).min_by(f64::total_cmp);
        (!limits.is_empty()).then(|| Self {
            slower: least(|limit| match limit {
                Limit::Slower { ratio } => Some(*ratio),
                Limit::Unknown { .. } => None,
            }),
            unknown: least(|limit| match limit {
                Limit::Unknown { share } => Some(*share),
                Limit::Slower { .. } => None,
            }),
        })
    }

    /// Whether the whole interval of a case lies above what is allowed.
    #[must_use]
    pub fn is_beyond(&self, row: &ComparisonResult) -> bool {
        let above = |ratio: f64| row.ci95.is_some_and(|[low, _]| low > ratio);
        self.slower.is_some_and(above)
    }

    /// Whether a comparison passes.
    #[must_use]
    pub fn judge(&self, compared: &Compared) -> Judged {
        let lost = compared.lost.iter().map(|case| Breach {
            case: Some(case.clone()),
            says: "B has no figures of a case that A has".to_owned(),
        });
        let slower = compared
            .rows
            .iter()
            .filter(|row| self.is_beyond(row))
            .map(|row| Breach {
                case: Some(row.b.clone()),
                says: format!(
                    "slower than --fail-on allows ({:.3})",
                    row.ratio.unwrap_or(f64::NAN)
                ),
            });
        let of_all = |says| Breach { case: None, says };
        // What all cases share may be the machine's level, but a check that cannot be made is not passed.
        let level = compared.level.map(|level| level.ratio);
        let level = level.filter(|ratio| self.slower.is_some_and(|allowed| *ratio > allowed));
        let level = level.map(|ratio| {
            of_all(format!(
                "all cases together are slower than --fail-on allows ({ratio:.3}): level or change is unknown; let the \
                 runs take turns (--turns), or alternate several a side"
            ))
        });
        let breaches: Vec<Breach> = lost
            .chain(slower)
            .chain(level)
            .chain(self.ignorance(compared).map(of_all))
            .collect();
        Judged {
            passed: breaches.is_empty(),
            breaches,
        }
    }

    /// What is not known, where that is too much.
    fn ignorance(&self, compared: &Compared) -> Option<String> {
        let known = compared.known();
        let cases = counted(known.cases(), "case");
        match self.unknown {
            Some(allowed) => (known.unknown_share() > allowed).then(|| {
                format!(
                    "nothing is known of {} of {cases}, {}, and --fail-on allows {}",
                    known.unknown,
                    percent(known.unknown_share()),
                    percent(allowed)
                )
            }),
            None => (known.unknown == known.cases()).then(|| {
                format!(
                    "nothing is known of any of {cases}, which is no check; --fail-on unknown:100% lets it pass"
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_stats::Level;

    use super::*;

    fn row(case: &str, verdict: &str, ci95: Option<[f64; 2]>) -> ComparisonResult {
        ComparisonResult {
            a: case.to_owned(),
            b: case.to_owned(),
            metric: "ns".to_owned(),
            ratio: ci95.map(|[low, high]| f64::midpoint(low, high)),
            ci95,
            verdict: verdict.to_owned(),
            rounds_needed: None,
            reason: None,
            disturbed: false,
        }
    }

    fn compared(rows: Vec<ComparisonResult>) -> Compared {
        Compared {
            a_name: "a".to_owned(),
            b_name: "b".to_owned(),
            warnings: Vec::new(),
            paired: true,
            level: None,
            between: None,
            lost: Vec::new(),
            rows,
        }
    }

    fn says(limits: &[&str], of: &Compared) -> Vec<String> {
        let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
        let judged = Gate::of(&limits).unwrap().judge(of);
        assert_eq!(judged.passed, judged.breaches.is_empty());
        let breaches = judged.breaches.into_iter();
        breaches
            .map(|breach| format!("{} {}", breach.case.unwrap_or_default(), breach.says))
            .collect()
    }

    #[test]
    fn limits_are_read_and_whatever_is_none_is_refused() {
        for wrong in [
            "slower",
            "slower:5",
            "slower:%",
            "slower:-1%",
            "slower:inf%",
            "unknown:101%",
            "same:3%",
            "",
        ] {
            let why = wrong.parse::<Limit>().unwrap_err();
            assert!(why.contains("neither slower:N% nor unknown:N%"), "{why}");
        }
        assert_eq!(Gate::of(&[]), None);
    }

    #[test]
    fn a_case_fails_where_its_whole_interval_is_beyond_the_stricter_limit() {
        let of = compared(vec![
            row("fast", "same", Some([0.99, 1.01])),
            row("slow", "slower", Some([1.06, 1.10])),
            row("perhaps", "unknown", Some([1.01, 1.20])),
        ]);
        assert_eq!(
            says(&["slower:5%"], &of),
            ["slow slower than --fail-on allows (1.080)"]
        );
        assert_eq!(says(&["slower:5%", "slower:7%"], &of).len(), 1);
        assert_eq!(says(&["slower:7%"], &of), [""; 0]);
        // What is unknown may still be known to be slower than nothing.
        assert_eq!(says(&["slower:0%"], &of).len(), 2);
    }

    #[test]
    fn a_check_that_knew_nothing_fails_unless_told_otherwise() {
        let nothing = compared(vec![
            row("a", "unknown", None),
            row("b", "unknown", Some([0.9, 1.1])),
        ]);
        let failed = says(&["slower:5%"], &nothing);
        assert!(
            failed[0].contains("nothing is known of any of 2 cases"),
            "{failed:?}"
        );
        assert_eq!(says(&["slower:5%", "unknown:100%"], &nothing), [""; 0]);
        let half = compared(vec![
            row("a", "unknown", None),
            row("b", "same", Some([0.99, 1.01])),
        ]);
        assert_eq!(says(&["slower:5%"], &half), [""; 0]);
        assert_eq!(says(&["unknown:50%"], &half), [""; 0]);
        assert_eq!(
            says(&["unknown:40%"], &half),
            [" nothing is known of 1 of 2 cases, 50 %, and --fail-on allows 40 %"]
        );
        assert!(!says(&["unknown:99%"], &compared(Vec::new())).is_empty());
    }

    #[test]
    fn lost_cases_and_a_level_fail_too() {
        let of = Compared {
            lost: vec!["gone".to_owned()],
            level: Some(Level {
                ratio: 1.06,
                spread: 0.01,
                cases: 12,
            }),
            ..compared(vec![row("a", "same", Some([0.99, 1.01]))])
        };
        let failed = says(&["slower:5%"], &of);
        assert_eq!(failed[0], "gone B has no figures of a case that A has");
        assert!(failed[1].contains("all cases together are slower than --fail-on allows (1.060)"));
        assert_eq!(failed.len(), 2);
        assert_eq!(says(&["slower:7%"], &of).len(), 1);
        let judged = Gate::of(&["slower:5%".parse().unwrap()]).unwrap().judge(&of);
        assert_eq!(judged.to_string(), "The check failed for 2 reasons");
    }
}
