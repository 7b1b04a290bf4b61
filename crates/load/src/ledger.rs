//! Who has sent what, and who has received it: no delivery is lost, doubled, changed, misled or out of order.
//!
//! All members of all groups are in this program, so it is known of each message who has it. What arrives must be the
//! next message of a member of the same group, whole.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::payload::Payloads;

/// A delivery that is not the one that must come next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongDelivery {
    /// The bytes are of no message.
    #[error("connection {connection} received {bytes:?}, which nobody sends")]
    NoMessage {
        /// Who received it.
        connection: usize,
        /// Its beginning.
        bytes: String,
    },
    /// Of another group, of nobody, or its own where the server does not echo.
    #[error("connection {connection} received message {got} of connection {sender}, which was not for it")]
    NotForIt {
        /// Who received it.
        connection: usize,
        /// Whose it says it is.
        sender: usize,
        /// The number it has.
        got: u64,
    },
    /// Lost, doubled, out of order or never sent.
    #[error(
        "connection {connection} received message {got} of connection {sender} and expected {expected}, of {sent} sent"
    )]
    OutOfOrder {
        /// Who received it.
        connection: usize,
        /// Whose it is.
        sender: usize,
        /// The number that must come next.
        expected: u64,
        /// The number that came.
        got: u64,
        /// The number of the sender's last message.
        sent: u64,
    },
    /// The right message with other bytes.
    #[error("connection {connection} received message {got} of connection {sender} with changed bytes")]
    Changed {
        /// Who received it.
        connection: usize,
        /// Whose it is.
        sender: usize,
        /// The number it has.
        got: u64,
    },
}

/// Deliveries that were not as they must be, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Never came.
    pub lost: u64,
    /// Came once more.
    pub duplicated: u64,
    /// Came after a later one of the same sender.
    pub reordered: u64,
    /// Came to somebody whom it was not for.
    pub misdelivered: u64,
    /// Came with other bytes.
    pub corrupted: u64,
}

impl Faults {
    /// Each kind by its name.
    pub fn each(&self) -> [(&'static str, u64); 5] {
        [
            ("lost", self.lost),
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("misdelivered", self.misdelivered),
            ("corrupted", self.corrupted),
        ]
    }

    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.each().iter().map(|(_, count)| count).sum()
    }
}

/// A delivery as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Who sent it.
    pub sender: usize,
    /// When it was to be sent, as [`Ledger::sends`] was told.
    pub intended_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
    /// Whether this was its last delivery.
    pub by_all: bool,
}

/// Who has sent what, and who has received it.
#[derive(Debug)]
pub struct Ledger {
    group_size: usize,
    /// Deliveries of one message.
    copies: usize,
    payloads: Payloads,
    senders: Vec<Sender>,
    /// By receiver, then by the sender's place in the group: the number of the last message received.
    received: Vec<u64>,
    /// Deliveries made.
    pub delivered: u64,
    /// Deliveries to come.
    pub on_the_way: u64,
    /// By receiver and sender, numbers that were passed over: lost, or late.
    gaps: HashMap<(usize, usize), BTreeSet<u64>>,
    /// Deliveries of which nobody can say which message they are, so that this one is not lost as well.
    unreadable: u64,
    faults: Faults,
}

#[derive(Debug, Default)]
struct Sender {
    /// The number of the last message.
    sent: u64,
    /// Those that not all have, oldest first. They are numbered without a gap up to `sent`.
    open: VecDeque<Message>,
}

#[derive(Debug)]
struct Message {
    missing: usize,
    intended_ns: u64,
    sent_ns: u64,
}

impl Ledger {
    /// Nobody has sent anything. Connection *c* is in group *c* / `group_size`; with `echoes` the sender is to receive
    /// its own messages too.
    ///
    /// # Panics
    ///
    /// If the groups do not come out even, or nobody is to receive anything.
    pub fn new(connections: usize, group_size: usize, echoes: bool, payload_bytes: usize) -> Self {
        assert!(
            group_size > 0 && connections.is_multiple_of(group_size),
            "{connections} connections make no groups of {group_size}"
        );
        let copies = group_size - usize::from(!echoes);
        assert!(copies > 0, "a group of one without echo receives nothing");
        Self {
            group_size,
            copies,
            payloads: Payloads::of(payload_bytes),
            senders: (0..connections).map(|_| Sender::default()).collect(),
            received: vec![0; connections * group_size],
            delivered: 0,
            on_the_way: 0,
            gaps: HashMap::new(),
            unreadable: 0,
            faults: Faults::default(),
        }
    }

    /// Deliveries of one message.
    pub fn copies(&self) -> u64 {
        self.copies as u64
    }

    /// Writes the next message of `sender`, which is on its way from now on, over what `payload` holds.
    pub fn sends(&mut self, sender: usize, intended_ns: u64, sent_ns: u64, payload: &mut Vec<u8>) {
        let of = &mut self.senders[sender];
        of.sent += 1;
        of.open.push_back(Message {
            missing: self.copies,
            intended_ns,
            sent_ns,
        });
        self.on_the_way += self.copies as u64;
        self.payloads.write(sender, of.sent, payload);
    }

    /// `connection` has received this.
    ///
    /// # Errors
    ///
    /// If that is not what must come next from there; nothing is entered then.
    pub fn receives(&mut self, connection: usize, payload: &[u8]) -> Result<Heard, WrongDelivery> {
        let Some((sender, got)) = self.payloads.read(payload) else {
            let beginning = &payload[..payload.len().min(64)];
            let bytes = String::from_utf8_lossy(beginning).into_owned();
            return Err(WrongDelivery::NoMessage { connection, bytes });
        };
        let size = self.group_size;
        let echoes = self.copies == size;
        if sender >= self.senders.len()
            || sender / size != connection / size
            || (sender == connection && !echoes)
        {
            return Err(WrongDelivery::NotForIt {
                connection,
                sender,
                got,
            });
        }
        let last = &mut self.received[connection * size + sender % size];
        let of = &mut self.senders[sender];
        if got != *last + 1 || got > of.sent {
            return Err(WrongDelivery::OutOfOrder {
                connection,
                sender,
                expected: *last + 1,
                got,
                sent: of.sent,
            });
        }
        if !self.payloads.is_whole(payload, sender, got) {
            return Err(WrongDelivery::Changed {
                connection,
                sender,
                got,
            });
        }
        *last = got;
        Ok(self.enter(sender, got))
    }

    /// As [`receives`](Self::receives), and what is wrong is counted: `None` where it was no delivery that is still to
    /// come. One that comes late, or with other bytes, is entered.
    pub fn takes(&mut self, connection: usize, payload: &[u8]) -> Option<Heard> {
        let wrong = match self.receives(connection, payload) {
            Ok(heard) => return Some(heard),
            Err(wrong) => wrong,
        };
        let is_whole = |sender, got| self.payloads.is_whole(payload, sender, got);
        let cell = |sender| connection * self.group_size + sender % self.group_size;
        match wrong {
            WrongDelivery::NotForIt { sender, got, .. } if is_whole(sender, got) => {
                self.faults.misdelivered += 1;
                None
            }
            WrongDelivery::OutOfOrder {
                sender,
                expected,
                got,
                sent,
                ..
            } if got <= sent && is_whole(sender, got) => {
                if got > expected {
                    let gap = self.gaps.entry((connection, sender)).or_default();
                    gap.extend(expected..got);
                    self.received[cell(sender)] = got;
                    return Some(self.enter(sender, got));
                }
                let gap = self.gaps.get_mut(&(connection, sender));
                if !gap.is_some_and(|gap| gap.remove(&got)) {
                    self.faults.duplicated += 1;
                    return None;
                }
                self.faults.reordered += 1;
                Some(self.enter(sender, got))
            }
            WrongDelivery::Changed { sender, got, .. } => {
                self.faults.corrupted += 1;
                self.received[cell(sender)] = got;
                Some(self.enter(sender, got))
            }
            // Who sent it, or its number, are no longer what they were.
            WrongDelivery::NoMessage { .. }
            | WrongDelivery::NotForIt { .. }
            | WrongDelivery::OutOfOrder { .. } => {
                self.faults.corrupted += 1;
                self.unreadable += 1;
                None
            }
        }
    }

    /// What [`takes`](Self::takes) found, where nothing more comes: what is on its way is lost.
    pub fn faults(&self) -> Faults {
        Faults {
            lost: self.on_the_way.saturating_sub(self.unreadable),
            ..self.faults
        }
    }

    /// One of the deliveries of a message that is on its way.
    fn enter(&mut self, sender: usize, number: u64) -> Heard {
        let of = &mut self.senders[sender];
        // It is missing at this receiver, so it is open.
        let done = of.sent - of.open.len() as u64;
        let message = &mut of.open[(number - done - 1) as usize];
        message.missing -= 1;
        let heard = Heard {
            sender,
            intended_ns: message.intended_ns,
            sent_ns: message.sent_ns,
            by_all: message.missing == 0,
        };
        // Where all receive in order, an older message is done before a younger.
        while of.open.front().is_some_and(|message| message.missing == 0) {
            of.open.pop_front();
        }
        self.delivered += 1;
        self.on_the_way -= 1;
        heard
    }

    /// When each delivery that is on its way was to be sent.
    pub fn missing(&self) -> impl Iterator<Item = u64> {
        let open = self.senders.iter().flat_map(|of| &of.open);
        open.flat_map(|message| std::iter::repeat_n(message.intended_ns, message.missing))
    }

    /// A delivery that is on its way: the connection that waits, the sender, the number.
    pub fn first_missing(&self) -> Option<(usize, usize, u64)> {
        let size = self.group_size;
        let sender = self.senders.iter().position(|of| !of.open.is_empty())?;
        let next = self.senders[sender].sent - self.senders[sender].open.len() as u64 + 1;
        let first = sender - sender % size;
        (first..first + size)
            .filter(|&connection| connection != sender || self.copies == size)
            .find(|connection| self.received[connection * size + sender % size] < next)
            .map(|connection| (connection, sender, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(20, 10, false, 32)
    }

    fn sent(ledger: &mut Ledger, sender: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        ledger.sends(sender, 5, 6, &mut payload);
        payload
    }

    #[test]
    fn a_message_is_on_its_way_until_the_other_nine_have_it() {
        let mut ledger = ledger();
        let message = sent(&mut ledger, 13);
        assert_eq!(
            (ledger.on_the_way, ledger.first_missing()),
            (9, Some((10, 13, 1)))
        );
        for connection in (10..20).filter(|&connection| connection != 13) {
            let heard = ledger.receives(connection, &message).unwrap();
            assert_eq!((heard.sender, heard.intended_ns), (13, 5));
            assert_eq!(heard.by_all, connection == 19);
        }
        assert_eq!(
            (ledger.delivered, ledger.on_the_way, ledger.first_missing()),
            (9, 0, None)
        );
    }

    #[test]
    fn with_echo_the_tenth_delivery_is_the_senders() {
        let mut ledger = Ledger::new(10, 10, true, 32);
        let message = sent(&mut ledger, 0);
        let last = (0..10).map(|connection| ledger.receives(connection, &message).unwrap().by_all);
        assert_eq!(last.filter(|&by_all| by_all).count(), 1);
    }

    #[test]
    fn several_are_on_their_way_at_once() {
        let mut ledger = Ledger::new(2, 2, false, 16);
        let (first, second) = (sent(&mut ledger, 0), sent(&mut ledger, 0));
        assert!(ledger.receives(1, &first).unwrap().by_all);
        let third = sent(&mut ledger, 0);
        assert!(ledger.receives(1, &second).unwrap().by_all);
        assert!(ledger.receives(1, &third).unwrap().by_all);
        assert_eq!((ledger.delivered, ledger.on_the_way), (3, 0));
    }

    #[test]
    fn twice_lost_and_never_sent_name_what_was_expected() {
        let mut ledger = ledger();
        let first = sent(&mut ledger, 3);
        ledger.receives(4, &first).unwrap();
        let wrong = |connection, expected, got, sent| WrongDelivery::OutOfOrder {
            connection,
            sender: 3,
            expected,
            got,
            sent,
        };
        assert_eq!(ledger.receives(4, &first), Err(wrong(4, 2, 1, 1)), "twice");
        let second = sent(&mut ledger, 3);
        assert_eq!(ledger.receives(5, &second), Err(wrong(5, 1, 2, 2)), "lost");
        let mut never = Vec::new();
        ledger.payloads.write(3, 3, &mut never);
        ledger.receives(4, &second).unwrap();
        assert_eq!(ledger.receives(4, &never), Err(wrong(4, 3, 3, 2)), "never sent");
        assert_eq!(
            wrong(5, 1, 2, 2).to_string(),
            "connection 5 received message 2 of connection 3 and expected 1, of 2 sent"
        );
    }

    #[test]
    fn changed_and_in_the_wrong_place_is_found() {
        let mut ledger = ledger();
        let mut message = sent(&mut ledger, 3);
        let misled = |connection| {
            Err(WrongDelivery::NotForIt {
                connection,
                sender: 3,
                got: 1,
            })
        };
        assert_eq!(ledger.receives(14, &message), misled(14), "of another group");
        assert_eq!(ledger.receives(3, &message), misled(3), "its own");
        message[30] ^= 1;
        assert!(matches!(
            ledger.receives(4, &message),
            Err(WrongDelivery::Changed { .. })
        ));
        assert!(matches!(
            ledger.receives(4, b"hello"),
            Err(WrongDelivery::NoMessage { .. })
        ));
        assert_eq!(
            (ledger.delivered, ledger.on_the_way),
            (0, 9),
            "a wrong one is not entered"
        );
    }

    /// A sender's messages to the other member of a group of two, delivered as `deliver` has it.
    fn counted(deliver: impl Fn(&mut Ledger, &[Vec<u8>])) -> Faults {
        let mut ledger = Ledger::new(4, 2, false, 32);
        let messages: Vec<Vec<u8>> = (0..4).map(|_| sent(&mut ledger, 0)).collect();
        deliver(&mut ledger, &messages);
        ledger.faults()
    }

    #[test]
    fn each_fault_is_counted_by_its_own_name_and_by_no_other() {
        let right = |ledger: &mut Ledger, which: &[Vec<u8>]| {
            for message in which {
                let _ = ledger.takes(1, message);
            }
        };
        let none = Faults::default();
        assert_eq!(counted(right), none);
        let lost = counted(|ledger, all| right(ledger, &[&all[..1], &all[2..]].concat()));
        assert_eq!(lost, Faults { lost: 1, ..none });
        let last_lost = counted(|ledger, all| right(ledger, &all[..3]));
        assert_eq!(last_lost, Faults { lost: 1, ..none });
        let duplicated = counted(|ledger, all| right(ledger, &[all, &all[1..2]].concat()));
        assert_eq!(
            duplicated,
            Faults {
                duplicated: 1,
                ..none
            }
        );
        let swapped = counted(|ledger, all| {
            right(ledger, &[&all[..1], &all[2..3], &all[1..2], &all[3..]].concat());
        });
        assert_eq!(swapped, Faults { reordered: 1, ..none });
        let misled = counted(|ledger, all| {
            right(ledger, all);
            assert_eq!(ledger.takes(2, &all[0]), None);
            assert_eq!(ledger.takes(0, &all[0]), None, "its own");
        });
        assert_eq!(
            misled,
            Faults {
                misdelivered: 2,
                ..none
            }
        );
        // Every byte: the sender's digits, the number's, the filling.
        for byte in 0..32 {
            let corrupted = counted(|ledger, all| {
                let mut all = all.to_vec();
                all[1][byte] ^= 1;
                right(ledger, &all);
            });
            assert_eq!(corrupted, Faults { corrupted: 1, ..none }, "byte {byte}");
        }
    }

    #[test]
    fn after_a_loss_the_others_are_heard_by_all() {
        let mut ledger = Ledger::new(3, 3, false, 32);
        let messages: Vec<Vec<u8>> = (0..3).map(|_| sent(&mut ledger, 0)).collect();
        // The second never reaches one of the two.
        for (receiver, message) in [(1, 0), (1, 1), (1, 2), (2, 0)] {
            assert!(ledger.takes(receiver, &messages[message]).is_some());
        }
        let heard = ledger.takes(2, &messages[2]).unwrap();
        assert!(heard.by_all);
        assert_eq!((ledger.on_the_way, ledger.faults().lost), (1, 1));
    }
}
