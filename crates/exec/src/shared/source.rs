//! What the lock guards: the objects that are there, the permits, and who waits for either. What a claim decides is
//! decided here, on plain data; locking, asking the iterator and waking are left to [`shared`](super).

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::ring::{Ring, ring_capacity};
use crate::stop::StopToken;

/// Why a call starts nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HaltReason {
    Stopped,
    Deadline,
    Failed,
    Broken,
    Panicked,
    /// No helper process is left, nor can one be started.
    #[cfg(all(feature = "process", unix))]
    NoCarrier,
}

/// How far objects in the buffer may fall behind those that are pulled.
const LAG: usize = 8 * MAX_BATCH;
/// What is claimed at once, at most.
pub(crate) const MAX_BATCH: usize = 256;

/// What is claimed at once of these objects, at most.
pub(super) fn most_claimed<O>() -> usize {
    ring_capacity::<(usize, O)>().min(MAX_BATCH)
}

/// Who claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A carrier that asks the iterator, and waits by itself.
    Caller,
    /// The caller at work beside workers: it takes what they have pulled, since it must not be held up.
    Helping,
    /// A worker, by its number: it stands down when its number is not below `allowed`.
    Worker(usize),
}

/// A ring for what one carrier pulls.
type Pulled<O> = Arc<Ring<(usize, O)>>;

/// The objects that a carrier has claimed.
pub(crate) struct Claimed<O> {
    /// To be run.
    pub(crate) objects: Vec<(usize, O)>,
    /// Made when it first pulls more than one.
    pulled: Option<Pulled<O>>,
}

impl<O> Default for Claimed<O> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            pulled: None,
        }
    }
}

impl<O> Claimed<O> {
    /// Room for what a worker wants, and as much for the caller.
    pub(super) fn ring(&mut self) -> Pulled<O> {
        let made = || Arc::new(Ring::new(2 * most_claimed::<O>()));
        Arc::clone(self.pulled.get_or_insert_with(made))
    }
}

/// What the lock guards.
pub(crate) struct Source<I: Iterator> {
    /// The iterator said that there are no more.
    pub(crate) exhausted: bool,
    /// The index of the next object to be pulled.
    pub(super) next: usize,
    /// Objects taken but not started, given back at a halt.
    pub(crate) returned: Vec<(usize, I::Item)>,
    pub(crate) running: usize,
    pub(crate) most_running: usize,
    /// So many carriers may hold a permit now; changed by the caller alone, never above the call's bound.
    pub(crate) degree: usize,
    /// Workers with a lower number may claim.
    pub(crate) allowed: usize,
    /// Objects with a lower index may be pulled.
    pub(crate) horizon: usize,
    pub(crate) halt: Option<HaltReason>,
    pub(crate) panic: Option<Box<dyn Any + Send>>,
    /// Workers for which there is nothing to claim, by number; asleep until they are recalled.
    pub(crate) parked: Vec<usize>,
    /// Objects that were pulled and not claimed.
    pub(super) buffer: VecDeque<(usize, I::Item)>,
    /// Somebody asks the iterator.
    pub(crate) pulling: bool,
    /// The ring of a puller of more than one, until it has taken its share. It alone pushes; who has the lock may take.
    pub(super) pulled: Option<Pulled<I::Item>>,
    /// How often somebody has begun to.
    pub(super) pulls: u64,
    /// So many pulls to come are of one object, as the iterator has been seen to block.
    pub(super) single: u32,
    pub(super) reliefs: u32,
    /// Objects that a pull leaves in the buffer for the caller.
    pub(crate) ahead: usize,
    /// Workers that wait for the puller, by number; and whether the caller does.
    pub(super) queued: Vec<usize>,
    pub(super) awaited: bool,
}

impl<I: Iterator> Source<I> {
    /// Nothing pulled, nobody at work. At most `degree` at once, and `horizon` objects ahead of the finisher.
    pub(super) fn new(degree: usize, horizon: usize) -> Self {
        Self {
            exhausted: false,
            next: 0,
            returned: Vec::new(),
            running: 0,
            most_running: 0,
            degree,
            allowed: usize::MAX,
            horizon,
            halt: None,
            panic: None,
            parked: Vec::new(),
            buffer: VecDeque::new(),
            pulling: false,
            pulled: None,
            pulls: 0,
            single: 0,
            reliefs: 0,
            ahead: 0,
            queued: Vec::new(),
            awaited: false,
        }
    }

    pub(crate) fn over(&self) -> bool {
        self.halt.is_some() || self.exhausted && self.there() == 0
    }

    /// The first reason stays.
    pub(crate) fn halt(&mut self, why: HaltReason, token: &StopToken) {
        self.halt.get_or_insert(why);
        token.stop();
    }

    /// Everybody who waits to be called.
    pub(crate) fn everybody(&mut self) -> Vec<usize> {
        let mut all = std::mem::take(&mut self.parked);
        all.append(&mut self.queued);
        all
    }

    /// The worker, by its number, whose turn it is when there is a permit; it no longer waits.
    pub(super) fn next_in_line(&mut self) -> Option<usize> {
        let allowed = self.allowed;
        [&mut self.queued, &mut self.parked]
            .into_iter()
            .find_map(|waiting| {
                let place = waiting.iter().rposition(|number| *number < allowed)?;
                Some(waiting.swap_remove(place))
            })
    }

    pub(super) fn refuses(&self, who: Who) -> bool {
        let beyond = matches!(who, Who::Worker(number) if number >= self.allowed);
        // Until those that are to stand down have done so; else the caller might take the permit of one that is not.
        let early = !matches!(who, Who::Worker(_)) && self.running > self.allowed;
        beyond || early || self.running >= self.degree
    }

    pub(super) fn may_be_pulled(&self) -> bool {
        !self.pulling && !self.exhausted && self.next < self.horizon
    }

    /// How many objects may be claimed: what a puller has in its ring counts when it is done.
    pub(super) fn there(&self) -> usize {
        let pulled = self.pulled.as_ref().filter(|_| !self.pulling);
        self.buffer.len() + pulled.map_or(0, |ring| ring.len())
    }

    /// Whether a claim would bring an object, or ask for one.
    pub(super) fn is_claimable(&self) -> bool {
        let something = self.there() > 0 || self.may_be_pulled();
        something && self.running < self.degree && !self.over()
    }

    /// Moves what a puller has by now into the buffer.
    pub(super) fn buffer_pulled(&mut self) {
        if let Some(ring) = &self.pulled {
            // SAFETY: under the lock, so one at a time.
            #[allow(unsafe_code)]
            unsafe {
                ring.drain(usize::MAX, |object| self.buffer.push_back(object))
            };
        }
    }

    /// Takes some of what is there, and a permit.
    pub(super) fn take(&mut self, who: Who, want: usize, into: &mut Vec<(usize, I::Item)>) {
        let own = if self.pulling { None } else { self.pulled.take() };
        let most = match who {
            Who::Worker(_) => {
                let there = self.buffer.len() + own.as_ref().map_or(0, |ring| ring.len());
                there.saturating_sub(self.ahead).clamp(1, want)
            }
            Who::Caller | Who::Helping => want,
        };
        let oldest = self.buffer.front().map_or(self.next, |(index, _)| *index);
        let older = if own.is_some() && self.next - oldest < LAG {
            // The caller's: what this carrier has pulled is on its CPU already.
            self.buffer.len().saturating_sub(self.ahead)
        } else {
            self.buffer.len()
        };
        into.extend(self.buffer.drain(..older.min(most)));
        if let Some(ring) = own {
            // SAFETY: under the lock, so one at a time.
            #[allow(unsafe_code)]
            unsafe {
                ring.drain_into(most - into.len(), into);
                ring.drain(usize::MAX, |object| self.buffer.push_back(object));
            };
        }
        self.running += 1;
        self.most_running = self.most_running.max(self.running);
    }

    pub(super) fn park(&mut self, who: Who) {
        if let Who::Worker(number) = who {
            self.parked.push(number);
        }
    }
}
