//! Finding whom a message goes to, in pieces where they are many: in between others have their turn, and may change who
//! is subscribed.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::tree::{Stopped, Tree};

/// As many subscriptions are found in one piece: more than most servers have clients, in a few milliseconds.
pub(super) const PIECE: usize = 64 * 1024;
/// Coming to a node of the tree takes as long as finding so many.
const NODE: usize = 16;
/// Finding so many takes as long as one delivery.
const FOUND_IN_A_DELIVERY: usize = 2;

/// Subscriptions to the same, each by a number of its own.
#[derive(Debug)]
pub(super) struct Place<S> {
    pub plain: BTreeMap<u64, Arc<S>>,
    pub queues: BTreeMap<Box<[u8]>, BTreeMap<u64, Arc<S>>>,
}

/// A search on its way. Who is subscribed all the while is found, and nobody twice.
#[derive(Debug)]
pub(super) struct Search<S> {
    pub subject: Box<[u8]>,
    /// How often subscriptions had changed when it began.
    pub began: u64,
    /// Those who are found until now and get the message, all of them.
    pub plain: Vec<Arc<S>>,
    /// Once it is over: one of each gets it.
    pub queues: Vec<Vec<Arc<S>>>,
    /// A queue is the same wherever it was subscribed from.
    gathered: BTreeMap<Box<[u8]>, Vec<Arc<S>>>,
    /// Where the last piece has stopped, unless it is over.
    stopped: Option<Stopped>,
    /// What it has found last there.
    last: Option<Last>,
}

/// A subscription in a place.
#[derive(Debug)]
struct Last {
    queue: Option<Box<[u8]>>,
    number: u64,
}

impl<S> Search<S> {
    /// One that has found nothing yet.
    pub fn new(subject: &[u8], began: u64) -> Self {
        Self {
            subject: subject.into(),
            began,
            plain: Vec::new(),
            queues: Vec::new(),
            gathered: BTreeMap::new(),
            stopped: None,
            last: None,
        }
    }

    /// Finds one piece more, of so many subscriptions. What that took, in deliveries.
    pub fn go_on(&mut self, places: &Tree<Place<S>>, most: usize) -> usize {
        let (from, mut left) = (self.stopped.take(), most);
        let walk = places.walk(&self.subject, from.as_ref(), |place, again| {
            let before = self.last.take().filter(|_| again);
            // One at which it has stopped was counted.
            left = left.saturating_sub(if again { 0 } else { NODE });
            if left == 0 {
                return ControlFlow::Break(());
            }
            let found = place.into_iter().flat_map(|place| place.behind(before.as_ref()));
            for (queue, number, subscription) in found {
                let subscription = Arc::clone(subscription);
                match queue {
                    None => self.plain.push(subscription),
                    Some(name) => match self.gathered.get_mut(name) {
                        Some(members) => members.push(subscription),
                        None => drop(self.gathered.insert(name.into(), vec![subscription])),
                    },
                }
                left -= 1;
                if left == 0 {
                    let queue = queue.map(Into::into);
                    self.last = Some(Last { queue, number });
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        match walk {
            ControlFlow::Break(stopped) => self.stopped = Some(stopped),
            ControlFlow::Continue(()) => {
                self.queues = std::mem::take(&mut self.gathered).into_values().collect();
            }
        }
        (most - left) / FOUND_IN_A_DELIVERY
    }

    /// Whether all are found.
    pub fn is_over(&self) -> bool {
        self.stopped.is_none()
    }
}

impl<S> Default for Place<S> {
    fn default() -> Self {
        Self {
            plain: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }
}

impl<S> Place<S> {
    /// Its subscriptions behind one of them, in order: their queues, if any, and their numbers.
    fn behind<'a>(
        &'a self,
        last: Option<&'a Last>,
    ) -> impl Iterator<Item = (Option<&'a [u8]>, u64, &'a Arc<S>)> {
        let queue = last.and_then(|last| last.queue.as_deref());
        let number = last.map_or(Unbounded, |last| Excluded(last.number));
        let plain = queue.is_none().then(|| self.plain.range((number, Unbounded)));
        let plain = plain
            .into_iter()
            .flatten()
            .map(|(&number, it)| (None, number, it));
        let queues = self
            .queues
            .range::<[u8], _>((queue.map_or(Unbounded, Included), Unbounded));
        plain.chain(queues.flat_map(move |(name, members)| {
            let behind = match queue == Some(name) {
                true => number,
                false => Unbounded,
            };
            let members = members.range((behind, Unbounded));
            members.map(|(&number, it)| (Some(&**name), number, it))
        }))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.queues.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tree::tests::fits;
    use super::*;

    /// A subject, and a queue or none.
    type Wanted = (String, Option<u8>);
    /// A subscription: its queue and its number.
    type Own = (Option<u8>, u64);

    /// Numbers from here on come and go.
    const CHANGES: u64 = 1_000;

    /// Subscribes to it, or ends that.
    fn change(places: &mut Tree<Place<Own>>, (subject, queue): &Wanted, number: u64) {
        places.change(subject.as_bytes(), |place| {
            let there = place.get_or_insert_default();
            let members = match queue {
                None => &mut there.plain,
                Some(queue) => there.queues.entry([*queue].into()).or_default(),
            };
            if members.remove(&number).is_none() {
                members.insert(number, Arc::new((*queue, number)));
            }
            there.queues.retain(|_, members| !members.is_empty());
            if there.is_empty() {
                *place = None;
            }
        });
    }

    fn wanted() -> impl Strategy<Value = Wanted> {
        ("([a*]\\.){0,2}[a*>]", prop::option::of(0u8..3))
    }

    proptest! {
        #[test]
        fn whoever_is_subscribed_all_the_while_is_found_and_nobody_twice(
            stay in prop::collection::vec(wanted(), 0..40),
            come_and_go in prop::collection::vec(wanted(), 1..20),
            subject in "(a\\.){0,2}a",
            most in 1usize..40,
        ) {
            let mut places = Tree::default();
            for (wanted, number) in stay.iter().zip(0..) {
                change(&mut places, wanted, number);
            }
            let mut changes = come_and_go.iter().zip(CHANGES..).cycle().take(400);
            let mut found: BTreeMap<Option<u8>, Vec<u64>> = BTreeMap::new();
            let mut search = Search::new(subject.as_bytes(), 0);
            while {
                let before = search.plain.len();
                search.go_on(&places, most);
                prop_assert!(search.plain.len() - before <= most);
                prop_assert!(search.is_over() || search.queues.is_empty(), "they are known at the end");
                !search.is_over()
            } {
                for (wanted, number) in changes.by_ref().take(3) {
                    change(&mut places, wanted, number);
                }
            }
            for own in &search.plain {
                prop_assert_eq!(own.0, None);
                found.entry(None).or_default().push(own.1);
            }
            for queue in &search.queues {
                let name = queue[0].0;
                prop_assert!(name.is_some() && queue.iter().all(|own| own.0 == name));
                let numbers = queue.iter().map(|own| own.1).collect();
                prop_assert_eq!(found.insert(name, numbers), None, "a queue is one");
            }
            for name in [None, Some(0), Some(1), Some(2)] {
                let mut numbers = found.remove(&name).unwrap_or_default();
                numbers.sort_unstable();
                let count = numbers.len();
                numbers.dedup();
                prop_assert_eq!(numbers.len(), count, "nobody twice");
                numbers.retain(|&number| number < CHANGES);
                let expected = stay.iter().zip(0..).filter(|((pattern, queue), _)| *queue == name && fits(&subject, pattern));
                let expected: Vec<u64> = expected.map(|(_, number)| number).collect();
                prop_assert_eq!(numbers, expected);
            }
        }
    }
}
