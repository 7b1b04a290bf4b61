//! How many samples were disturbed, by what, and what to say of it.

use serde::{Deserialize, Serialize};

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
        let causes = [
            (all.by_hypervisor, "by the hypervisor, which nothing here changes"),
            (
                all.by_programs,
                "by other programs on this machine: end them and run it again (`threadgauge doctor`)",
            ),
        ];
        let causes = causes.into_iter().filter(|(n, _)| *n > 0);
        let causes: Vec<String> = causes.map(|(n, cause)| format!(", {n} {cause}")).collect();
        Some(format!(
            "Too noisy: {} of {} samples of {} were disturbed{}.",
            all.disturbed,
            all.samples,
            ids.join(", "),
            causes.concat()
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
        };
        let warning = |of| Disturbed::warning([("quiet", Disturbed::default()), ("create", of)]);
        let stolen = warning(of(40, 0)).unwrap();
        assert!(
            stolen.starts_with("Too noisy: 40 of 100 samples of create were disturbed, 40 by the hypervisor")
        );
        assert!(stolen.ends_with("which nothing here changes."), "{stolen}");
        let shared = warning(of(30, 15)).unwrap();
        assert!(
            shared.contains("30 by the hypervisor")
                && shared.contains("15 by other programs on this machine")
        );
        assert!(shared.contains("end them and run it again"), "{shared}");
        let throttled = warning(of(0, 0)).unwrap();
        assert!(
            throttled.ends_with("samples of create were disturbed."),
            "{throttled}"
        );
        let few = Disturbed {
            disturbed: 20,
            ..of(20, 0)
        };
        assert_eq!(warning(few), None);
    }
}
