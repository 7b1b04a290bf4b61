//! What keeps a case, or a claim, from having figures: typed, with a sentence for the reader.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Verdict;

/// What is missing, and what to say of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lack {
    /// What is missing. Decisions are made on this alone.
    pub of: Need,
    /// The same in a sentence, for people. No decision depends on its words.
    pub says: String,
}

/// What a case or a claim may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// More CPUs.
    Cpus,
    /// More free memory.
    Memory,
    /// A program that is not installed or could not be made.
    Program,
    /// Another operating system, kernel, library or setting.
    System,
    /// Cells that another profile or selection measures.
    Profile,
    /// Figures: its cases failed, were disturbed or have too few rounds.
    Figures,
}

impl Need {
    /// Whether this machine could never have it, however long it measured.
    #[must_use]
    pub const fn is_beyond_this_machine(self) -> bool {
        matches!(self.verdict(), Verdict::NotTestable)
    }

    /// The verdict on a claim that lacks it: what was tried and gave no figures is open, all else was never measured.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Cpus | Self::Program | Self::System => Verdict::NotTestable,
            Self::Memory | Self::Profile => Verdict::NotMeasured,
            Self::Figures => Verdict::Inconclusive,
        }
    }
}

impl Lack {
    /// A lack of `of`, in the words of `says`.
    #[must_use]
    pub fn new(of: Need, says: impl Into<String>) -> Self {
        Self {
            of,
            says: says.into(),
        }
    }

    /// Fewer CPUs than needed.
    #[must_use]
    pub fn cpus(needed: u64, here: u64) -> Self {
        Self::new(Need::Cpus, format!("needs {needed} CPUs, this run has {here}"))
    }

    /// Less free memory than needed, MiB.
    #[must_use]
    pub fn memory(needed_mib: u64, free_mib: u64) -> Self {
        let says = format!("needs {needed_mib} MiB of free memory, {free_mib} are free");
        Self::new(Need::Memory, says)
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_machine_has_not_is_beyond_it() {
        for (need, verdict, is_beyond) in [
            (Need::Cpus, Verdict::NotTestable, true),
            (Need::Program, Verdict::NotTestable, true),
            (Need::System, Verdict::NotTestable, true),
            (Need::Memory, Verdict::NotMeasured, false),
            (Need::Profile, Verdict::NotMeasured, false),
            (Need::Figures, Verdict::Inconclusive, false),
        ] {
            assert_eq!(
                (need.verdict(), need.is_beyond_this_machine()),
                (verdict, is_beyond)
            );
        }
    }

    #[test]
    fn a_lack_is_shown_by_its_sentence() {
        let [cpus, memory] = [Lack::cpus(4, 2), Lack::memory(512, 100)];
        assert_eq!((cpus.of, memory.of), (Need::Cpus, Need::Memory));
        assert_eq!(cpus.to_string(), "needs 4 CPUs, this run has 2");
        assert_eq!(memory.to_string(), "needs 512 MiB of free memory, 100 are free");
    }
}
