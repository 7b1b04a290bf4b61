//! What a published claim waits for that not every run has, and how many claims a machine decides by itself.
//!
//! Each claim says it in its column `waits_for` of `claims.csv`, and a test holds the experiments to it. Programs that
//! can be installed are no such thing.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::counted;

/// What a claim waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum WaitsFor {
    /// Nothing: a run on any machine decides it.
    #[default]
    Nothing,
    /// A machine with so many CPUs.
    Cpus(u32),
    /// A machine of which a core has two CPUs.
    Siblings,
    /// Runs of one machine with kernel preemption and without.
    Preemption,
    /// Runs of one machine with SMT on and off.
    Smt,
    /// Runs of one machine under two kernels.
    Kernel,
    /// Runs of one machine under two systems.
    System,
    /// A library that no longer exists: it is decided on one that was written again from its description.
    OldLibrary,
    /// A system that no longer exists: no run decides it.
    Extinct,
}

/// A word in the column that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is nothing to wait for; there are cpus:N, siblings, preemption, smt, kernel, system, old-library and extinct"
)]
pub struct UnknownWait(String);

impl WaitsFor {
    /// Those that are no number, by their words in the column.
    const NAMED: [(&'static str, Self); 8] = [
        ("", Self::Nothing),
        ("siblings", Self::Siblings),
        ("preemption", Self::Preemption),
        ("smt", Self::Smt),
        ("kernel", Self::Kernel),
        ("system", Self::System),
        ("old-library", Self::OldLibrary),
        ("extinct", Self::Extinct),
    ];

    /// Why a run that is of one state of a machine does not decide it; none where a run may.
    #[must_use]
    pub const fn lacks(self) -> Option<&'static str> {
        Some(match self {
            Self::Preemption => {
                "needs the same machine booted with and without kernel preemption: run by turns under each, three times at \
                 least, and give both folders of runs to `threadgauge claims`"
            }
            Self::Smt => {
                "needs the same machine with SMT on and off: run by turns with each, three times at least, and give both \
                 folders of runs to `threadgauge claims`"
            }
            Self::Kernel => {
                "needs two kernels: run by turns under each, three times at least, with the old thread library re-created, \
                 and give both folders of runs to `threadgauge claims`"
            }
            Self::System => {
                "needs two systems on the same machine: run by turns under each, three times at least, and give both \
                 folders of runs to `threadgauge claims`"
            }
            Self::Extinct => "needs a system that no longer exists",
            Self::Nothing | Self::Cpus(_) | Self::Siblings | Self::OldLibrary => return None,
        })
    }

    /// How a run on a machine that `offers` this decides a claim that waits so.
    #[must_use]
    pub fn decided(self, offers: Offers) -> Decided {
        match self {
            Self::Nothing => Decided::Here,
            Self::Cpus(least) if offers.cpus >= least => Decided::Here,
            Self::Siblings if offers.siblings => Decided::Here,
            Self::Cpus(_) | Self::Siblings => Decided::OtherMachine,
            Self::Preemption | Self::Smt | Self::Kernel | Self::System => Decided::TwoStates,
            Self::OldLibrary => Decided::Recreated,
            Self::Extinct => Decided::Never,
        }
    }

    /// What it is, in words.
    fn words(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Cpus(least) => counted(least as usize, "CPU"),
            Self::Siblings => "two CPUs of one core".to_owned(),
            Self::Preemption => "kernel preemption on and off".to_owned(),
            Self::Smt => "SMT on and off".to_owned(),
            Self::Kernel => "two kernels".to_owned(),
            Self::System => "two systems".to_owned(),
            Self::OldLibrary => "an old thread library".to_owned(),
            Self::Extinct => "a system that no longer exists".to_owned(),
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMED.iter().find(|(_, of)| of == self);
        match (self, named) {
            (Self::Cpus(least), _) => write!(f, "cpus:{least}"),
            (_, named) => f.write_str(named.map_or("", |(name, _)| name)),
        }
    }
}

impl FromStr for WaitsFor {
    type Err = UnknownWait;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::NAMED
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, of)| *of);
        let cpus = || text.strip_prefix("cpus:")?.parse().ok().map(Self::Cpus);
        named.or_else(cpus).ok_or_else(|| UnknownWait(text.to_owned()))
    }
}

impl TryFrom<String> for WaitsFor {
    type Error = UnknownWait;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<WaitsFor> for String {
    fn from(waits: WaitsFor) -> Self {
        waits.to_string()
    }
}

/// What a machine has of what claims wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers {
    /// How many CPUs may be used.
    pub cpus: u32,
    /// Whether two of them are of one core.
    pub siblings: bool,
}

/// By what a claim is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decided {
    /// A run on this machine.
    Here,
    /// A run on another machine.
    OtherMachine,
    /// Runs of two states of a machine.
    TwoStates,
    /// A run on something that was written again, since it no longer exists.
    Recreated,
    /// Nothing: it is about what no longer exists.
    Never,
}

/// How claims are decided on a machine, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decisions(BTreeMap<Decided, BTreeMap<WaitsFor, usize>>);

impl Decisions {
    /// Counts what claims wait for on a machine that `offers` this.
    pub fn of(claims: impl IntoIterator<Item = WaitsFor>, offers: Offers) -> Self {
        let mut counts: BTreeMap<_, BTreeMap<_, usize>> = BTreeMap::new();
        for waits in claims {
            *counts
                .entry(waits.decided(offers))
                .or_default()
                .entry(waits)
                .or_default() += 1;
        }
        Self(counts)
    }

    /// How many are decided so.
    #[must_use]
    pub fn count(&self, decided: Decided) -> usize {
        self.0.get(&decided).map_or(0, |of| of.values().sum())
    }

    /// How many need what, as words.
    fn by_need(&self, decided: Decided) -> String {
        let of = self.0.get(&decided).into_iter().flatten();
        let each: Vec<String> = of.map(|(waits, n)| format!("{} ({n})", waits.words())).collect();
        each.join(", ")
    }

    /// The counts as a sentence; `machine` is what the counts are of, as "this machine".
    #[must_use]
    pub fn says(&self, machine: &str) -> String {
        let all: usize = self.0.values().flat_map(BTreeMap::values).sum();
        let mut says = format!(
            "Of {} a run on {machine} decides {}",
            counted(all, "published claim"),
            self.count(Decided::Here)
        );
        let parts = [
            (Decided::OtherMachine, "decided on another machine"),
            (Decided::TwoStates, "decided by runs of one machine in two states"),
            (
                Decided::Recreated,
                "decided on a thread library that no longer exists and was written again",
            ),
            (Decided::Never, "never decided, since the system no longer exists"),
        ];
        for (decided, how) in parts {
            let n = self.count(decided);
            let by_need = match decided {
                Decided::Recreated | Decided::Never => String::new(),
                _ => format!(": {}", self.by_need(decided)),
            };
            if n > 0 {
                let are = if n == 1 { "is" } else { "are" };
                let _ = write!(says, "; {n} {are} {how}{by_need}");
            }
        }
        says + "."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;

    #[test]
    fn what_a_claim_waits_for_is_read_as_it_is_written_and_nothing_else_is() {
        for text in [
            "",
            "cpus:5",
            "siblings",
            "preemption",
            "smt",
            "kernel",
            "system",
            "old-library",
            "extinct",
        ] {
            assert_eq!(text.parse::<WaitsFor>().unwrap().to_string(), text);
        }
        for text in ["cpus", "cpus:", "cpus:many", "patience"] {
            let refused = text.parse::<WaitsFor>().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`{text}` is nothing")), "{refused}");
        }
    }

    #[test]
    fn a_machine_decides_what_it_offers_and_states_need_two_runs_on_any() {
        let small = Offers {
            cpus: 2,
            siblings: false,
        };
        let large = Offers {
            cpus: 5,
            siblings: true,
        };
        for (waits, [on_small, on_large]) in [
            (WaitsFor::Nothing, [Decided::Here; 2]),
            (WaitsFor::Cpus(2), [Decided::Here; 2]),
            (WaitsFor::Cpus(5), [Decided::OtherMachine, Decided::Here]),
            (WaitsFor::Siblings, [Decided::OtherMachine, Decided::Here]),
            (WaitsFor::Smt, [Decided::TwoStates; 2]),
            (WaitsFor::Kernel, [Decided::TwoStates; 2]),
            (WaitsFor::OldLibrary, [Decided::Recreated; 2]),
            (WaitsFor::Extinct, [Decided::Never; 2]),
        ] {
            assert_eq!(
                [small, large].map(|of| waits.decided(of)),
                [on_small, on_large],
                "{waits}"
            );
            // What a run may decide lacks nothing.
            let may = matches!(on_large, Decided::Here | Decided::Recreated);
            assert_eq!(waits.lacks().is_none(), may, "{waits}");
        }
    }

    #[test]
    fn each_claim_is_counted_once_and_the_words_say_how_many_need_what() {
        let says = |waits: &[WaitsFor], cpus| {
            let offers = Offers {
                cpus,
                siblings: false,
            };
            Decisions::of(waits.iter().copied(), offers).says("this machine")
        };
        assert_eq!(
            says(&[WaitsFor::Nothing], 1),
            "Of 1 published claim a run on this machine decides 1."
        );
        let of_all = claims().iter().map(|claim| claim.waits_for);
        insta::assert_snapshot!(says(&of_all.collect::<Vec<_>>(), 2));
    }
}
