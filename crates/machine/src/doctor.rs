//! The doctor: what on this machine can spoil a measurement, how much, and how to fix it.
//!
//! Judges facts that others read. Read-only: how to fix it is a sentence for the user, never done by us.

mod capacity;
mod noise;
mod scheduling;
mod setting;

use crate::fingerprint::Fingerprint;
use crate::probe::{NoiseProbe, noise_probe};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How much a thing can spoil.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Worth knowing; figures stand.
    Note,
    /// Some figures will be wider or shifted.
    Warning,
    /// Figures taken now mean little.
    Serious,
}

/// One judgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What it is about, in a word or two.
    pub subject: String,
    /// How much it can spoil.
    pub severity: Severity,
    /// What was found and how much it matters.
    pub says: String,
    /// What would help, if anything does. Documents keep their first name of it.
    #[serde(rename = "mend")]
    pub fix: Option<String>,
}

/// The facts and the judgements on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doctor {
    /// What machine this is.
    pub fingerprint: Fingerprint,
    /// How noisy it is now.
    pub probe: NoiseProbe,
    /// The judgements, most serious first.
    pub advice: Vec<Advice>,
}

impl Doctor {
    /// Examines this machine, looking at its noise for `d` (5 s is a good length). Blocks for that long.
    pub fn visit(d: Duration) -> Doctor {
        let fingerprint = crate::fingerprint::fingerprint();
        let probe = noise_probe(d);
        let advice = examine(&fingerprint, &probe);
        Doctor {
            fingerprint,
            probe,
            advice,
        }
    }
}

impl Advice {
    fn new(subject: &str, severity: Severity, says: String, fix: Option<&str>) -> Advice {
        Advice {
            subject: subject.to_owned(),
            severity,
            says,
            fix: fix.map(str::to_owned),
        }
    }

    fn fine(subject: &str, says: impl Into<String>) -> Advice {
        Advice::new(subject, Severity::Fine, says.into(), None)
    }
}

/// Judges a machine. The judgements come most serious first, in a fixed order among equals; what is as it
/// should be is listed too, as [`Severity::Fine`].
pub fn examine(machine: &Fingerprint, probe: &NoiseProbe) -> Vec<Advice> {
    let mut advice = noise::judge(probe);
    advice.extend(scheduling::judge(machine));
    advice.extend(setting::judge(machine));
    advice.extend(capacity::judge(machine));
    advice.sort_by_key(|item| std::cmp::Reverse(item.severity));
    advice
}

/// The reason noted for a field that is `None`.
fn why_unknown<'a>(machine: &'a Fingerprint, field: &str) -> &'a str {
    machine
        .unknown
        .get(field)
        .map_or("it could not be read", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_serious_comes_first() {
        let probe = NoiseProbe {
            foreign_cpus: 1.5,
            steal_share: 0.02,
            cpus: 2,
            ..NoiseProbe::default()
        };
        let advice = examine(&Fingerprint::default(), &probe);
        assert!(advice.is_sorted_by_key(|item| std::cmp::Reverse(item.severity)));
        assert_eq!(
            (advice[0].subject.as_str(), advice[0].severity),
            ("other programs", Severity::Serious)
        );
    }

    #[test]
    fn a_machine_of_which_nothing_is_known_is_never_called_fine_for_it() {
        let unwatched = NoiseProbe {
            unknown: vec!["the CPUs".to_owned()],
            ..NoiseProbe::default()
        };
        let advice = examine(&Fingerprint::default(), &unwatched);
        assert!(
            advice.iter().all(|item| item.severity != Severity::Fine),
            "{advice:#?}"
        );
    }
}
