//! Who has sent what, and who has received it: no delivery is lost, duplicated, reordered, misdelivered or corrupted
//! without being counted.
//!
//! All members of all groups are in this program, so it is known of each message who has it. What arrives should be the
//! next message of a member of the same group, whole. Where a later one arrives, those before it are awaited still:
//! what comes then was reordered, what does not come before it is given up is lost.

use std::collections::{HashMap, VecDeque};

use crate::faults::{Fault, FaultKind, Faults, MessageId};
use crate::payload::{Payloads, Written};
use crate::sizes::Sizes;

/// A delivery that was still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Who sent it.
    pub sender: usize,
    /// When it was to be sent and when it was sent.
    pub times: Times,
    /// Whether nobody waits for this message any more.
    pub by_all: bool,
}

/// Of a message, in nanoseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When it was to be sent: by the schedule, or when it was.
    pub intended_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
}

/// Who has sent what, and who has received it.
#[derive(Debug)]
pub struct DeliveryChecker {
    group_size: usize,
    /// Deliveries of one message.
    copies: usize,
    payloads: Payloads,
    senders: Vec<Sender>,
    /// By receiver, then by the sender's place in the group: the largest number received or given up.
    received: Vec<u64>,
    /// Smaller ones that were not received in their turn, by place in `received` and number. Empty but for faults.
    holes: HashMap<(usize, u64), Hole>,
    /// By receiver: what it received that was so changed that nobody knows which message it was. Each stands for one
    /// that is missing there. Empty but for faults.
    unreadable: HashMap<usize, u64>,
    faults: Faults,
    /// Deliveries made, each whole and once to a connection that it was for.
    pub delivered: u64,
    /// Deliveries to come.
    pub on_the_way: u64,
}

/// What became of a message that was not received in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    Awaited,
    GivenUp,
}

#[derive(Debug, Default)]
struct Sender {
    /// The number of the last message.
    sent: u64,
    /// From the oldest that somebody waits for to the last. They are numbered without a gap up to `sent`.
    open: VecDeque<Open>,
}

/// Kept small: every receiver looks at each of them.
#[derive(Debug)]
struct Open {
    times: Times,
    sent: Written,
    missing: u32,
}

impl Sender {
    /// The number of the oldest message that somebody waits for, where there is one.
    fn oldest(&self) -> u64 {
        self.sent - self.open.len() as u64 + 1
    }

    /// One delivery of a message that is open comes no more: its times, and whether it was the last.
    fn settle(&mut self, number: u64) -> (Times, bool) {
        let place = (number - self.oldest()) as usize;
        let message = &mut self.open[place];
        message.missing -= 1;
        let (times, by_all) = (message.times, message.missing == 0);
        while by_all && self.open.front().is_some_and(|oldest| oldest.missing == 0) {
            self.open.pop_front();
        }
        (times, by_all)
    }
}

/// A message that nobody waits for any more, though not all have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Who sent it.
    pub sender: usize,
    /// When.
    pub times: Times,
    /// To how many it never came, without those to whom something came that nobody could read.
    pub lost: u64,
}

impl DeliveryChecker {
    /// Nobody has sent anything. Connection *c* is in group *c* / `group_size`; with `echoes` the sender is to receive
    /// its own messages too.
    ///
    /// # Panics
    ///
    /// If the groups do not come out even, nobody is to receive anything, or messages are smaller or larger than can
    /// be.
    pub fn new(connections: usize, group_size: usize, echoes: bool, sizes: impl Into<Sizes>) -> Self {
        assert!(
            group_size > 0 && connections.is_multiple_of(group_size),
            "{connections} connections make no groups of {group_size}"
        );
        let copies = group_size - usize::from(!echoes);
        assert!(copies > 0, "a group of one without echo receives nothing");
        Self {
            group_size,
            copies,
            payloads: Payloads::of(sizes.into()),
            senders: (0..connections).map(|_| Sender::default()).collect(),
            received: vec![0; connections * group_size],
            holes: HashMap::new(),
            unreadable: HashMap::new(),
            faults: Faults::default(),
            delivered: 0,
            on_the_way: 0,
        }
    }

    /// Deliveries of one message.
    pub fn copies(&self) -> u64 {
        self.copies as u64
    }

    /// Writes the next message of `sender`, which is on its way from now on, over what `payload` holds.
    pub fn sends(&mut self, sender: usize, times: Times, payload: &mut Vec<u8>) {
        let of = &mut self.senders[sender];
        of.sent += 1;
        let sent = self.payloads.write(sender, of.sent, payload);
        of.open.push_back(Open {
            times,
            sent,
            missing: self.copies as u32,
        });
        self.on_the_way += self.copies as u64;
    }

    /// `connection` has received this. What is wrong with it is entered under [`faults`](Self::take_faults). `None` of
    /// what was not to come, or not any more.
    pub fn receives(&mut self, connection: usize, payload: &[u8]) -> Option<Heard> {
        let Some((sender, place)) = self.comes_next(connection, payload) else {
            return self.receives_otherwise(connection, payload);
        };
        self.received[place] += 1;
        Some(self.deliver(sender, self.received[place], true))
    }

    /// Whether this is the next message that `connection` is to receive of its sender, whole: the sender, and the place
    /// in `received`. Compares with what was sent and reads no more of it than the sender.
    fn comes_next(&self, connection: usize, payload: &[u8]) -> Option<(usize, usize)> {
        let first = connection - connection % self.group_size;
        let sender = Payloads::sender(payload)?;
        let member = sender
            .checked_sub(first)
            .filter(|&member| member < self.group_size)?;
        if sender == connection && self.copies < self.group_size {
            return None;
        }
        let place = connection * self.group_size + member;
        let (of, number) = (&self.senders[sender], self.received[place] + 1);
        let open = of.open.get(number.checked_sub(of.oldest())? as usize)?;
        let is_it = open.sent.begins(payload) && self.payloads.is_whole(payload, sender, number);
        is_it.then_some((sender, place))
    }

    /// As [`receives`](Self::receives), of what is not whole or does not come in its turn.
    fn receives_otherwise(&mut self, connection: usize, payload: &[u8]) -> Option<Heard> {
        let Some((sender, number)) = self.payloads.read(payload) else {
            self.receives_unreadable(connection, payload);
            return None;
        };
        let whole = self.payloads.is_whole(payload, sender, number);
        let mut fault = |kind| {
            // What has other bytes may be wrong in any other way for that reason.
            let kind = if whole { kind } else { FaultKind::Corrupted };
            let message = MessageId::Known { sender, number };
            self.faults.record(Fault {
                kind,
                connection,
                message,
            });
        };
        let size = self.group_size;
        let is_for_it =
            sender / size == connection / size && (sender != connection || self.copies == self.group_size);
        if !is_for_it || number > self.senders[sender].sent {
            fault(FaultKind::Misdelivered);
            return None;
        }
        let place = connection * size + sender % size;
        let last = &mut self.received[place];
        if number > *last {
            if !whole {
                fault(FaultKind::Corrupted);
            }
            let skipped = *last + 1..number;
            self.holes
                .extend(skipped.map(|earlier| ((place, earlier), Hole::Awaited)));
            *last = number;
        } else {
            match self.holes.remove(&(place, number)) {
                Some(Hole::Awaited) => fault(FaultKind::Reordered),
                // Counted as lost already.
                Some(Hole::GivenUp) => return None,
                None => {
                    fault(FaultKind::Duplicated);
                    return None;
                }
            }
        }
        Some(self.deliver(sender, number, whole))
    }

    /// One that was still to come has come, `whole` or not.
    fn deliver(&mut self, sender: usize, number: u64, whole: bool) -> Heard {
        self.delivered += u64::from(whole);
        self.on_the_way -= 1;
        let (times, by_all) = self.senders[sender].settle(number);
        Heard {
            sender,
            times,
            by_all,
        }
    }

    fn receives_unreadable(&mut self, connection: usize, payload: &[u8]) {
        let beginning = &payload[..payload.len().min(64)];
        self.faults.record(Fault {
            kind: FaultKind::Corrupted,
            connection,
            message: MessageId::Unreadable(String::from_utf8_lossy(beginning).into_owned()),
        });
        *self.unreadable.entry(connection).or_default() += 1;
    }

    /// What has not come, of each message that somebody waits for: when it was sent, and to how many it has not come.
    pub fn on_their_way(&self) -> impl Iterator<Item = (Times, u64)> + '_ {
        let open = self.senders.iter().flat_map(|sender| &sender.open);
        let waited_for = open.filter(|message| message.missing > 0);
        waited_for.map(|message| (message.times, u64::from(message.missing)))
    }

    /// Counts as lost what was sent before `sent_before_ns` and has not come, and tells `freed` of each message that
    /// nobody waits for any more.
    ///
    /// Looks at every sender, so call it now and then and not with every delivery.
    pub fn give_up(&mut self, sent_before_ns: u64, mut freed: impl FnMut(GivenUp)) {
        for sender in 0..self.senders.len() {
            loop {
                let of = &self.senders[sender];
                // The others come after it, and were sent after it.
                let is_overdue = |message: &Open| message.times.sent_ns < sent_before_ns;
                if !of.open.front().is_some_and(is_overdue) {
                    break;
                }
                let given_up = self.give_up_oldest_of(sender);
                freed(given_up);
            }
        }
    }

    /// A message is open: somebody waits for it.
    fn give_up_oldest_of(&mut self, sender: usize) -> GivenUp {
        let size = self.group_size;
        let number = self.senders[sender].oldest();
        let times = self.senders[sender].open[0].times;
        let mut lost = 0;
        let first = sender - sender % size;
        for connection in first..first + size {
            let place = connection * size + sender % size;
            let last = &mut self.received[place];
            if connection == sender && self.copies < size {
                continue;
            }
            if number > *last {
                *last = number;
            } else if self.holes.get(&(place, number)) != Some(&Hole::Awaited) {
                continue;
            }
            self.holes.insert((place, number), Hole::GivenUp);
            self.on_the_way -= 1;
            self.senders[sender].settle(number);
            match self.unreadable.get_mut(&connection).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None => {
                    lost += 1;
                    self.faults.record(Fault {
                        kind: FaultKind::Lost,
                        connection,
                        message: MessageId::Known { sender, number },
                    });
                }
            }
        }
        GivenUp { sender, times, lost }
    }

    /// What was wrong since it was asked last.
    pub fn take_faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AT: Times = Times {
        intended_ns: 5,
        sent_ns: 6,
    };

    fn checker() -> DeliveryChecker {
        DeliveryChecker::new(20, 10, false, 32)
    }

    fn sent(checker: &mut DeliveryChecker, sender: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        checker.sends(sender, AT, &mut payload);
        payload
    }

    /// How many of each kind, in the order of [`FaultKind::ALL`].
    fn counts(faults: &Faults) -> [u64; 5] {
        FaultKind::ALL.map(|kind| faults.count(kind))
    }

    fn others(sender: usize) -> impl Iterator<Item = usize> {
        let first = sender / 10 * 10;
        (first..first + 10).filter(move |&connection| connection != sender)
    }

    #[test]
    fn a_message_is_on_its_way_until_the_other_nine_have_it() {
        let mut checker = checker();
        let message = sent(&mut checker, 13);
        assert_eq!((checker.copies(), checker.on_the_way), (9, 9));
        for connection in others(13) {
            let heard = checker.receives(connection, &message).unwrap();
            assert_eq!((heard.sender, heard.times), (13, AT));
            assert_eq!(heard.by_all, connection == 19);
        }
        assert_eq!((checker.delivered, checker.on_the_way), (9, 0));
        checker.give_up(u64::MAX, |_| panic!("nothing is open"));
        assert!(checker.take_faults().is_empty());
    }

    #[test]
    fn with_echo_the_tenth_delivery_is_the_senders() {
        let mut checker = DeliveryChecker::new(10, 10, true, 32);
        let message = sent(&mut checker, 0);
        let last = (0..10).map(|connection| checker.receives(connection, &message).unwrap().by_all);
        assert_eq!(last.filter(|&by_all| by_all).count(), 1);
        sent(&mut checker, 0);
        checker.give_up(u64::MAX, |_| {});
        assert_eq!(
            (counts(&checker.take_faults()), checker.on_the_way),
            ([10, 0, 0, 0, 0], 0)
        );
    }

    #[test]
    fn several_are_on_their_way_at_once() {
        let mut checker = DeliveryChecker::new(2, 2, false, 16);
        let (first, second) = (sent(&mut checker, 0), sent(&mut checker, 0));
        assert!(checker.receives(1, &first).unwrap().by_all);
        let third = sent(&mut checker, 0);
        assert!(checker.receives(1, &second).unwrap().by_all);
        assert!(checker.receives(1, &third).unwrap().by_all);
        assert_eq!((checker.delivered, checker.on_the_way), (3, 0));
        assert!(checker.take_faults().is_empty());
    }

    #[test]
    fn what_comes_again_is_duplicated_and_nothing_else() {
        let mut checker = checker();
        let message = sent(&mut checker, 3);
        assert!(checker.receives(4, &message).is_some());
        assert_eq!(checker.receives(4, &message), None);
        assert_eq!((checker.delivered, checker.on_the_way), (1, 8));
        assert_eq!(counts(&checker.take_faults()), [0, 1, 0, 0, 0]);
        assert!(checker.take_faults().is_empty(), "they were taken");
    }

    #[test]
    fn what_comes_after_a_later_one_is_reordered_and_has_its_delivery() {
        let mut checker = DeliveryChecker::new(2, 2, false, 16);
        let [first, second, third] = [0; 3].map(|sender| sent(&mut checker, sender));
        assert!(checker.receives(1, &third).unwrap().by_all);
        assert!(checker.receives(1, &first).unwrap().by_all);
        assert!(checker.receives(1, &second).unwrap().by_all);
        assert_eq!((checker.delivered, checker.on_the_way), (3, 0));
        assert_eq!(counts(&checker.take_faults()), [0, 0, 2, 0, 0]);
        assert_eq!(checker.receives(1, &second), None);
        assert_eq!(counts(&checker.take_faults()), [0, 1, 0, 0, 0], "it came before");
    }

    #[test]
    fn what_does_not_come_is_lost_once_it_is_given_up_and_its_sender_goes_on() {
        let mut checker = checker();
        let (first, second) = (sent(&mut checker, 3), sent(&mut checker, 3));
        for connection in others(3) {
            if connection != 5 {
                checker.receives(connection, &first).unwrap();
            }
            let heard = checker.receives(connection, &second).unwrap();
            assert_eq!(heard.by_all, connection == 9);
        }
        assert_eq!(checker.on_the_way, 1);
        assert_eq!(checker.on_their_way().collect::<Vec<_>>(), [(AT, 1)]);
        checker.give_up(AT.sent_ns, |_| panic!("it was not sent before"));
        let mut freed = Vec::new();
        checker.give_up(AT.sent_ns + 1, |of| freed.push(of));
        let given_up = GivenUp {
            sender: 3,
            times: AT,
            lost: 1,
        };
        assert_eq!((freed, checker.on_the_way), (vec![given_up], 0));
        assert_eq!(checker.on_their_way().count(), 0);
        let faults = checker.take_faults();
        assert_eq!(counts(&faults), [1, 0, 0, 0, 0]);
        assert_eq!(
            faults.to_string(),
            "1 lost (connection 5 never received message 1 of connection 3)"
        );
        assert_eq!(checker.receives(5, &first), None);
        assert!(checker.take_faults().is_empty(), "it is counted once");
        let third = sent(&mut checker, 3);
        assert!(others(3).all(|connection| checker.receives(connection, &third).is_some()));
        assert!(checker.take_faults().is_empty());
    }

    #[test]
    fn what_nobody_receives_is_lost_by_all() {
        let mut checker = checker();
        sent(&mut checker, 3);
        sent(&mut checker, 3);
        let mut freed = Vec::new();
        checker.give_up(u64::MAX, |of| freed.push(of.sender));
        assert_eq!((freed, checker.on_the_way), (vec![3, 3], 0));
        assert_eq!(counts(&checker.take_faults()), [18, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_for_others_or_was_never_sent_is_misdelivered() {
        let mut checker = checker();
        let message = sent(&mut checker, 3);
        assert_eq!(checker.receives(14, &message), None, "of another group");
        assert_eq!(checker.receives(3, &message), None, "its own");
        let mut never = Vec::new();
        checker.payloads.write(3, 2, &mut never);
        assert_eq!(checker.receives(4, &never), None, "never sent");
        checker.payloads.write(99, 1, &mut never);
        assert_eq!(checker.receives(4, &never), None, "of nobody");
        assert_eq!((checker.delivered, checker.on_the_way), (0, 9));
        assert_eq!(counts(&checker.take_faults()), [0, 0, 0, 4, 0]);
    }

    #[test]
    fn a_changed_byte_is_corruption_wherever_it_is_and_not_also_a_loss() {
        for byte in 0..32 {
            let mut checker = checker();
            let message = sent(&mut checker, 3);
            let mut changed = message.clone();
            changed[byte] ^= 1;
            for connection in others(3) {
                let bytes = if connection == 7 { &changed } else { &message };
                checker.receives(connection, bytes);
            }
            assert_eq!(checker.delivered, 8);
            checker.give_up(u64::MAX, |_| {});
            assert_eq!(checker.on_the_way, 0);
            assert_eq!(counts(&checker.take_faults()), [0, 0, 0, 0, 1], "byte {byte}");
        }
    }

    #[test]
    fn bytes_that_are_no_message_are_quoted() {
        let mut checker = checker();
        checker.receives(4, b"hello");
        assert_eq!(
            checker.take_faults().to_string(),
            "1 corrupted (connection 4 received \"hello\", which nobody sends)"
        );
    }

    /// What a server does with a delivery.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Act {
        Deliver,
        Fault(FaultKind),
    }

    proptest! {
        /// Each fault is counted once and under its own kind, whatever else is wrong before and after it.
        #[test]
        fn however_faults_are_mixed_each_is_counted_as_what_it_is(
            acts in prop::collection::vec(
                prop_oneof![
                    6 => Just(Act::Deliver),
                    1 => prop::sample::select(FaultKind::ALL.to_vec()).prop_map(Act::Fault),
                ],
                1..60,
            ),
            byte in 0..32_usize,
        ) {
            let mut checker = DeliveryChecker::new(4, 2, false, 32);
            let (mut expected, mut held) = ([0; 5], None::<Vec<u8>>);
            for act in &acts {
                let message = sent(&mut checker, 0);
                let mut count = |kind: FaultKind| expected[kind as usize] += 1;
                match *act {
                    Act::Deliver => {
                        checker.receives(1, &message);
                        if let Some(late) = held.take() {
                            count(FaultKind::Reordered);
                            checker.receives(1, &late);
                        }
                    }
                    Act::Fault(FaultKind::Lost) => count(FaultKind::Lost),
                    Act::Fault(FaultKind::Reordered) if held.is_none() => held = Some(message),
                    Act::Fault(kind) => {
                        let copies: &[usize] = match kind {
                            FaultKind::Duplicated => &[1, 1],
                            FaultKind::Misdelivered => &[3, 1],
                            _ => &[1],
                        };
                        let mut message = message;
                        if kind == FaultKind::Corrupted {
                            message[byte] ^= 1;
                        }
                        if kind != FaultKind::Reordered {
                            count(kind);
                        }
                        for &connection in copies {
                            checker.receives(connection, &message);
                        }
                    }
                }
            }
            // Nothing came after it, so that it is merely late.
            if let Some(late) = held {
                let in_turn = checker.faults.clone();
                checker.receives(1, &late);
                expected[FaultKind::Reordered as usize] += u64::from(checker.faults != in_turn);
            }
            checker.give_up(u64::MAX, |_| {});
            prop_assert_eq!(checker.on_the_way, 0);
            prop_assert_eq!(counts(&checker.take_faults()), expected);
        }
    }
}
