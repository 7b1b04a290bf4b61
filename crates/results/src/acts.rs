//! What is done with a unit: the parts of the table *Threads and processes on this machine*.

/// What a cost is called that people compare others with: a write to a pipe and a read of it, without a switch. No unit
/// does it, so it belongs to no [`Act`].
pub const TWO_SYSTEM_CALLS: &str = "two system calls: write, read";

/// Something that is done with a unit, and costs. A [`Cost`](crate::Cost) says in its first words which.
///
/// ```
/// use threadgauge_results::Act;
///
/// assert_eq!(Act::of("hand over 64 bytes, one CPU"), Some(Act::HandOver));
/// assert_eq!(Act::of("gain of a second CPU"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It is made, and ends.
    Make,
    /// The CPU goes from one to the next.
    Switch,
    /// One wakes another.
    Wake,
    /// One gives another something: data, a job.
    HandOver,
    /// It is there and idle.
    Keep,
    /// It fails, and work goes on without it.
    Lose,
}

impl Act {
    /// All of them, in the order of a unit's life.
    pub const ALL: [Self; 6] = [
        Self::Make,
        Self::Switch,
        Self::Wake,
        Self::HandOver,
        Self::Keep,
        Self::Lose,
    ];

    /// With these words begins what is paid for it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Make => "make",
            Self::Switch => "switch",
            Self::Wake => "wake",
            Self::HandOver => "hand over",
            Self::Keep => "keep",
            Self::Lose => "lose",
        }
    }

    /// The id of the experiment that asks for it before all others.
    #[must_use]
    pub const fn experiment(self) -> &'static str {
        match self {
            Self::Make => "create",
            Self::Switch => "ring",
            Self::Wake => "wake",
            Self::HandOver => "handover",
            Self::Keep => "footprint",
            Self::Lose => "crash",
        }
    }

    /// The act that `what` is paid for; none for what no unit does, e.g. `gain of a second CPU`.
    #[must_use]
    pub fn of(what: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| what.starts_with(act.words()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_paid_for_begins_with_its_act_which_one_experiment_asks_for() {
        for (what, experiment) in [
            ("make and end, one at a time", Some("create")),
            ("switch", Some("ring")),
            ("wake, other CPU", Some("wake")),
            ("hand over 64 bytes, one CPU", Some("handover")),
            ("keep idle", Some("footprint")),
            ("lose one of 8", Some("crash")),
            ("gain of a second CPU", None),
            ("a switch", None),
        ] {
            assert_eq!(Act::of(what).map(Act::experiment), experiment, "{what}");
        }
    }

    #[test]
    fn each_act_is_the_one_of_its_own_words() {
        for act in Act::ALL {
            assert_eq!(Act::of(act.words()), Some(act));
        }
    }
}
