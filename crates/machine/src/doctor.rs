//! The doctor: what on this machine can spoil a measurement, how much, and the mend.
//!
//! Judges facts that others read. Read-only: a mend is a sentence for the user, never done by us.

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
    /// What would help, if anything does.
    pub mend: Option<String>,
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

/// Judges a machine. The judgements come most serious first, in a fixed order among equals.
pub fn examine(_machine: &Fingerprint, _probe: &NoiseProbe) -> Vec<Advice> {
    Vec::new()
}
