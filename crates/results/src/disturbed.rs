//! How many samples were disturbed, by what, and what to say of it.

use serde::{Deserialize, Serialize};

use crate::units::{count, counted};

/// Above this share of disturbed samples the report leads with it (METHOD rule 10).
const MUCH: f64 = 0.25;

/// How many samples of an experiment were disturbed at their first attempt. One may have been so by several things.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbed {
    /// All that were taken.
    pub samples: usize,
    /// Those disturbed by anything.
    pub disturbed: usize,
    /// Those during which the hypervisor gave CPU time to other machines.
    pub by_hypervisor: usize,
    /// Those during which other programs computed on this machine.
    pub by_programs: usize,
    /// Those during which a CPU quota of a control group stopped the case.
    #[serde(default)]
    pub by_quota: usize,
    /// Those during which somebody stopped the command or the case (SIGSTOP, a frozen group), or the whole machine.
    #[serde(default)]
    pub by_stops: usize,
}

/// What disturbs samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Hypervisor,
    Programs,
    Quota,
    Stops,
}

impl Cause {
    /// Behind a number of samples.
    const fn by(self) -> &'static str {
        match self {
            Self::Hypervisor => "by the hypervisor",
            Self::Programs => "by other programs here",
            Self::Quota => "by a CPU quota",
            Self::Stops => "by being stopped",
        }
    }

    /// What to do about it, behind that. It says something only where the user can do something.
    const fn advice(self) -> &'static str {
        match self {
            Self::Hypervisor => ", which nothing here changes",
            Self::Programs => ": end them and run it again (`threadgauge doctor`)",
            Self::Quota => {
                " of their control group or of one above it: raise it (cpu.max, docker --cpus, Kubernetes limits.cpu), or measure \
                 without"
            }
            Self::Stops => " for a while (SIGSTOP, a frozen container, a machine that slept)",
        }
    }
}

impl Disturbed {
    /// Of several experiments together.
    #[must_use]
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, of| Self {
            samples: sum.samples + of.samples,
            disturbed: sum.disturbed + of.disturbed,
            by_hypervisor: sum.by_hypervisor + of.by_hypervisor,
            by_programs: sum.by_programs + of.by_programs,
            by_quota: sum.by_quota + of.by_quota,
            by_stops: sum.by_stops + of.by_stops,
        })
    }

    /// What share of the samples was disturbed; 0 where there are none.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.disturbed as f64 / (self.samples as f64).max(1.0)
    }

    /// Whether so many were disturbed that the reader must know first.
    #[must_use]
    pub fn is_much(&self) -> bool {
        self.share() > MUCH
    }

    /// The same of those that a quota alone did not disturb: what is measured under a quota is to be of that quota.
    #[must_use]
    pub fn is_much_beside_a_quota(&self) -> bool {
        let by_others = self.disturbed.saturating_sub(self.by_quota);
        Self {
            disturbed: by_others,
            ..*self
        }
        .is_much()
    }

    /// How many by which cause, where there are any.
    fn causes(&self) -> impl Iterator<Item = (usize, Cause)> {
        let all = [
            (self.by_hypervisor, Cause::Hypervisor),
            (self.by_programs, Cause::Programs),
            (self.by_quota, Cause::Quota),
            (self.by_stops, Cause::Stops),
        ];
        all.into_iter().filter(|(n, _)| *n > 0)
    }

    /// How many by which cause, in words: `40 by the hypervisor and 17 by a CPU quota`. Empty where none is known.
    #[must_use]
    pub fn by_cause(&self) -> String {
        let parts: Vec<String> = self
            .causes()
            .map(|(n, cause)| format!("{} {}", count(n), cause.by()))
            .collect();
        match &parts[..] {
            [several @ .., last] if !several.is_empty() => format!("{} and {last}", several.join(", ")),
            _ => parts.concat(),
        }
    }

    /// The warning, where too many samples of experiments were disturbed. It says what to do only where the user can do
    /// something.
    #[must_use]
    pub fn warning<'a>(experiments: impl IntoIterator<Item = (&'a str, Self)>) -> Option<String> {
        let is_noisy = |(_, of): &(&str, Self)| of.is_much();
        let (ids, of): (Vec<&str>, Vec<Self>) = experiments.into_iter().filter(is_noisy).unzip();
        if ids.is_empty() {
            return None;
        }
        let all = Self::sum(of);
        let causes = all
            .causes()
            .map(|(n, cause)| format!(", {} {}{}", count(n), cause.by(), cause.advice()));
        Some(format!(
            "Too noisy: {} of {} of {} were disturbed{}.",
            count(all.disturbed),
            counted(all.samples, "sample"),
            ids.join(", "),
            causes.collect::<String>()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_tells_the_hypervisor_from_programs_and_says_what_to_do_only_where_something_helps() {
        let of = |by_hypervisor, by_programs| Disturbed {
            samples: 100,
            disturbed: 40,
            by_hypervisor,
            by_programs,
            ..Disturbed::default()
        };
        let warning = |of| Disturbed::warning([("quiet", Disturbed::default()), ("create", of)]);
        assert_eq!(of(40, 0).by_cause(), "40 by the hypervisor");
        let stolen = warning(of(40, 0)).unwrap();
        assert!(
            stolen.starts_with("Too noisy: 40 of 100 samples of create were disturbed, 40 by the hypervisor")
        );
        assert!(stolen.ends_with("which nothing here changes."), "{stolen}");
        let shared = warning(of(30, 15)).unwrap();
        assert!(
            shared.contains("30 by the hypervisor") && shared.contains("15 by other programs here"),
            "{shared}"
        );
        assert!(shared.contains("end them and run it again"), "{shared}");
        let unknown = warning(of(0, 0)).unwrap();
        assert!(
            unknown.ends_with("samples of create were disturbed."),
            "{unknown}"
        );
        let few = Disturbed {
            disturbed: 25,
            ..of(25, 0)
        };
        assert_eq!(warning(few), None);
    }

    #[test]
    fn what_a_quota_disturbs_is_left_out_where_it_is_asked_for() {
        let of = |disturbed, by_quota| Disturbed {
            samples: 100,
            disturbed,
            by_quota,
            ..Disturbed::default()
        };
        assert!(of(26, 0).is_much_beside_a_quota() && of(60, 34).is_much_beside_a_quota());
        assert!(!of(25, 0).is_much_beside_a_quota() && !of(60, 35).is_much_beside_a_quota());
        assert!(of(60, 60).is_much() && !of(60, 60).is_much_beside_a_quota());
    }

    #[test]
    fn a_quota_and_stopped_time_are_causes_of_their_own() {
        let of = Disturbed {
            samples: 100,
            disturbed: 40,
            by_quota: 38,
            by_stops: 2,
            ..Disturbed::default()
        };
        let says = Disturbed::warning([("create", of)]).unwrap();
        assert!(
            says.contains("38 by a CPU quota of their control group or of one above it: raise it (cpu.max")
                && says.contains("2 by being stopped for a while")
                && !says.contains("other programs"),
            "{says}"
        );
        assert_eq!(of.by_cause(), "38 by a CPU quota and 2 by being stopped");
        let all = Disturbed {
            by_hypervisor: 1_000,
            by_programs: 3,
            ..of
        };
        assert_eq!(
            all.by_cause(),
            format!(
                "{} by the hypervisor, 3 by other programs here, 38 by a CPU quota and 2 by being stopped",
                count(1_000)
            )
        );
        assert_eq!(Disturbed::sum([of, all]).by_quota, 76);
        // As documents of versions that did not tell them.
        let old = r#"{"samples": 9, "disturbed": 3, "by_hypervisor": 2, "by_programs": 1}"#;
        assert_eq!(serde_json::from_str::<Disturbed>(old).unwrap().by_quota, 0);
    }
}
