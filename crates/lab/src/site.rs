//! Where and how much to run.
//!
//! Which CPUs there are, and which of them are of one core, it is told.

use std::time::Duration;

use threadgauge_machine::{CpuList, cores_first};
use threadgauge_results::{Each, Runtime};

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Three to four minutes for a first run: 7 to 14 rounds of the cells that the claims name.
    Quick,
    /// About an hour for everything: up to 20 rounds.
    Standard,
    /// As the sources did, and more rounds: hours.
    Paper,
}

impl Profile {
    /// All of them, the shortest first.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Standard, Self::Paper];

    /// The profile of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// The one of these three that belongs to the profile.
    pub fn pick<T>(self, quick: T, standard: T, paper: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Standard => standard,
            Self::Paper => paper,
        }
    }

    /// What the workers of a run may take in all. With what else a run does, standard takes at most an hour.
    #[must_use]
    pub fn most(self) -> Duration {
        self.pick(Duration::from_mins(7), Duration::from_mins(57), Duration::MAX)
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.pick("quick", "standard", "paper")
    }
}

/// Where and how much to run: everything a plan may depend on.
#[derive(Debug, Clone)]
pub struct Site {
    /// How much.
    pub profile: Profile,
    /// The CPUs that workers may be pinned to, in the order in which cases get them: of a case on two CPUs the first
    /// two.
    pub cpus: Vec<usize>,
    /// How many of them, from the first on, are of different cores.
    pub cores: usize,
    /// Memory that is free for a case, MiB.
    pub free_memory_mib: u64,
    /// Computations of the user's own.
    pub each: Option<Each>,
    /// The runtimes whose guests take part, beside C. None unless somebody asked for them.
    pub runtimes: Vec<Runtime>,
}

impl Site {
    /// These CPUs, [those of different cores first](cores_first). `siblings` are the CPUs of each core that has
    /// several.
    #[must_use]
    pub fn new(profile: Profile, cpus: &CpuList, siblings: &[CpuList], free_memory_mib: u64) -> Self {
        let (cpus, cores) = cores_first(cpus, siblings);
        Self {
            profile,
            cpus,
            cores,
            free_memory_mib,
            each: None,
            runtimes: Vec::new(),
        }
    }
}
