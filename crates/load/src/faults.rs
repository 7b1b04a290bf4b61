//! What is wrong with deliveries: each kind counted apart, with the first of each.

use std::fmt;

/// What can be wrong with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// It did not come within the patience of the run. What comes later still is not counted again.
    Lost,
    /// It came once more.
    Duplicated,
    /// It came after a later message of its sender.
    Reordered,
    /// It came to a connection that was not to receive it, or nobody has sent it.
    Misdelivered,
    /// It has other bytes than were sent.
    Corrupted,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Lost,
        Self::Duplicated,
        Self::Reordered,
        Self::Misdelivered,
        Self::Corrupted,
    ];

    /// Its word, as in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Duplicated => "duplicated",
            Self::Reordered => "reordered",
            Self::Misdelivered => "misdelivered",
            Self::Corrupted => "corrupted",
        }
    }
}

/// A delivery that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong with it.
    pub kind: FaultKind,
    /// Who received it, or should have.
    pub connection: usize,
    /// Which it is.
    pub message: MessageId,
}

/// Which message it was, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageId {
    /// So far readable.
    Known {
        /// Who sent it.
        sender: usize,
        /// Its number, from 1 for each sender.
        number: u64,
    },
    /// The beginning of what came.
    Unreadable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = self.connection;
        match &self.message {
            MessageId::Known { sender, number } => {
                let what = match self.kind {
                    FaultKind::Lost => "never received",
                    FaultKind::Duplicated => "received once more",
                    FaultKind::Reordered => "received too late",
                    FaultKind::Misdelivered => "should not have received",
                    FaultKind::Corrupted => "received with changed bytes",
                };
                write!(
                    f,
                    "connection {connection} {what} message {number} of connection {sender}"
                )
            }
            MessageId::Unreadable(bytes) => {
                write!(
                    f,
                    "connection {connection} received {bytes:?}, which nobody sends"
                )
            }
        }
    }
}

/// How many deliveries were not as they must be, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    counts: [u64; FaultKind::ALL.len()],
    /// Of each kind the first that was seen.
    first: [Option<Fault>; FaultKind::ALL.len()],
}

impl Faults {
    /// Enters one.
    pub fn record(&mut self, fault: Fault) {
        let kind = fault.kind as usize;
        self.counts[kind] += 1;
        self.first[kind].get_or_insert(fault);
    }

    /// Those of both.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        for (first, also) in self.first.iter_mut().zip(&other.first) {
            *first = first.take().or_else(|| also.clone());
        }
    }

    /// How many of this kind.
    pub fn count(&self, kind: FaultKind) -> u64 {
        self.counts[kind as usize]
    }

    /// The first of this kind that was seen.
    pub fn first(&self, kind: FaultKind) -> Option<&Fault> {
        self.first[kind as usize].as_ref()
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.counts == [0; FaultKind::ALL.len()]
    }
}

impl fmt::Display for Faults {
    /// `2 lost (the first: …), 1 corrupted (…)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = FaultKind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind, self.first(kind)?)));
        for (i, (kind, first)) in seen.enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let which = if self.count(kind) > 1 { "the first: " } else { "" };
            write!(f, "{comma}{} {} ({which}{first})", self.count(kind), kind.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: FaultKind, number: u64) -> Fault {
        Fault {
            kind,
            connection: 4,
            message: MessageId::Known { sender: 3, number },
        }
    }

    #[test]
    fn of_both_the_first_is_that_of_the_one_that_has_it() {
        let mut both = Faults::default();
        both.record(fault(FaultKind::Lost, 1));
        let mut other = Faults::default();
        other.record(fault(FaultKind::Lost, 2));
        other.record(fault(FaultKind::Corrupted, 3));
        both.merge(&other);
        let told =
            [FaultKind::Lost, FaultKind::Corrupted].map(|kind| (both.count(kind), both.first(kind).cloned()));
        let (lost, corrupted) = (fault(FaultKind::Lost, 1), fault(FaultKind::Corrupted, 3));
        assert_eq!(told, [(2, Some(lost)), (1, Some(corrupted))]);
    }

    #[test]
    fn each_kind_is_counted_apart_and_its_first_is_kept() {
        let mut faults = Faults::default();
        assert!(faults.is_empty());
        for (i, kind) in FaultKind::ALL.into_iter().enumerate() {
            (0..=i).for_each(|n| faults.record(fault(kind, 10 + n as u64)));
        }
        for (i, kind) in FaultKind::ALL.into_iter().enumerate() {
            assert_eq!(faults.count(kind), i as u64 + 1);
            assert_eq!(faults.first(kind), Some(&fault(kind, 10)));
        }
        assert!(!faults.is_empty());
    }

    #[test]
    fn they_are_told_in_words_with_where_the_first_was() {
        let mut faults = Faults::default();
        faults.record(fault(FaultKind::Lost, 7));
        faults.record(fault(FaultKind::Lost, 8));
        faults.record(Fault {
            kind: FaultKind::Corrupted,
            connection: 5,
            message: MessageId::Unreadable("hel".to_owned()),
        });
        assert_eq!(
            faults.to_string(),
            "2 lost (the first: connection 4 never received message 7 of connection 3), \
             1 corrupted (connection 5 received \"hel\", which nobody sends)"
        );
    }
}
