//! What the carriers of one call share: the objects and the permits, which lie in [`source`] under a lock.
//!
//! A carrier claims objects and the permit to run them in one step, so "at most *k*" is decided in one place, under
//! a lock, and holds by construction: `running` counts the carriers that hold claimed objects, and a claim that
//! would exceed the degree is refused. A carrier gives its permit back at its next claim.
//!
//! **The iterator is asked outside the lock**, since it may block. One carrier at a time does so, the *puller*: it sets
//! `pulling` under the lock, keeps a permit meanwhile, and puts what it gets into a ring of its own, whose memory stays
//! with its CPU. When it is done it takes its share; what is left, for the caller, goes into the *buffer*, from which
//! all claim, oldest first. Who finds nothing there and somebody pulling spins a while, then takes what lies in the
//! puller's ring, and where that is empty waits *queued*; the puller wakes one of them when it is done, and that one
//! the next. A puller that takes long over more than one object is *relieved* (`pool::caller`): what it has pulled goes
//! into the buffer, and its permit to another carrier, which runs that.
//!
//! Lock order: no lock is held while foreign code runs. (The iterator lies in a mutex, as the safe way to reach it from
//! the one thread that `pulling` names: it is free whenever it is locked.) Sleepers are notified after the lock is
//! released.

mod source;
#[cfg(test)]
pub(crate) mod tests;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::adaptive::CpuTime;
use crate::clock::Clock;
use crate::discard::{discard, keep_first};
use crate::flag::Flag;
use crate::notify::Notify;
use crate::progress::Listener;
use crate::ring::CachePadded;
use crate::settings::Settings;
use crate::stop::StopToken;
use source::most_claimed;
pub(crate) use source::{Claimed, HaltReason, MAX_BATCH, Source, Who};

/// How often a carrier looks whether the puller is done before it waits: under the cost of a wake-up.
const SPINS: u32 = 100;
/// After the first relief so many pulls are of one object; after each further one of twice as many.
const SINGLE: u32 = 256;

/// What a claim brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Objects, and the permit to run them.
    Got,
    /// Nothing now: all permits are out, or the objects are too far ahead.
    Wait,
    /// Nothing now: somebody else is to bring objects.
    Busy,
    /// Nothing any more.
    Over,
}

/// What the carriers of one call share.
pub(crate) struct Shared<'c, I: Iterator, W> {
    source: CachePadded<Mutex<Source<I>>>,
    /// Reached by who has set `pulling`, and before and after the call.
    iterator: CachePadded<Mutex<I>>,
    /// `pulling`, for whoever looks without the lock when it may be worth it to come back.
    busy: CachePadded<AtomicBool>,
    pub(crate) work: &'c W,
    /// Who wants to know how far it is.
    listener: Option<&'c Listener>,
    /// What the carriers have used of the CPUs, where the degree depends on it.
    pub(crate) cpu: CpuTime,
    pub(crate) token: &'c StopToken,
    pub(crate) epoch: Instant,
    pub(crate) deadline_ns: u64,
    /// Where the caller sleeps.
    pub(crate) caller: Notify,
    /// The caller is to wake for something other than a result.
    pub(crate) wake_pending: Flag,
    /// The caller has been told to look after the puller. Set by that, put down by the caller while nobody pulls.
    watched: AtomicBool,
    /// The puller has lost its permit, and is to ask no more. Changed under the lock.
    relieved: AtomicBool,
    /// A worker looks for objects: a caller that works alone is to leave the iterator to it. Changed under the lock.
    called: AtomicBool,
}

impl<'c, I: Iterator, W> Shared<'c, I, W> {
    pub(crate) fn new(iterator: I, work: &'c W, settings: &'c Settings, epoch: Instant) -> Self {
        let caller = Notify::new();
        caller.attach();
        Self {
            source: CachePadded(Mutex::new(Source::new(
                settings.degree.most(),
                settings.look_ahead.map_or(usize::MAX, |n| n.get()),
            ))),
            iterator: CachePadded(Mutex::new(iterator)),
            busy: CachePadded(AtomicBool::new(false)),
            work,
            listener: settings.listener.as_ref(),
            cpu: CpuTime::new(settings.degree),
            token: &settings.token,
            epoch,
            deadline_ns: settings
                .deadline
                .map_or(u64::MAX, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
            caller,
            wake_pending: Flag::default(),
            watched: AtomicBool::new(false),
            relieved: AtomicBool::new(false),
            called: AtomicBool::new(false),
        }
    }

    /// The lock. No foreign code runs under it.
    pub(crate) fn source(&self) -> MutexGuard<'_, Source<I>> {
        self.source.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The iterator; for the puller, or while nobody else is there.
    fn iterator(&self) -> MutexGuard<'_, I> {
        self.iterator.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many objects there may still be, as the iterator says. While nobody pulls.
    pub(crate) fn at_most(&self) -> usize {
        self.iterator().size_hint().1.unwrap_or(usize::MAX)
    }

    /// What is left of it when all carriers are gone, and the iterator.
    pub(crate) fn into_parts(self) -> (Source<I>, I) {
        let mut source = self.source.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        source.returned.extend(source.buffer.drain(..));
        (
            source,
            self.iterator
                .0
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Nanoseconds since the start of the call.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// The same, for one thread that asks often.
    pub(crate) fn clock(&self) -> Clock {
        Clock::new(self.epoch)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.deadline_ns != u64::MAX).then(|| self.epoch + std::time::Duration::from_nanos(self.deadline_ns))
    }

    /// Whether nothing more may start, at the given time.
    #[inline]
    pub(crate) fn must_stop(&self, now_ns: u64) -> bool {
        self.token.is_stopped() || now_ns >= self.deadline_ns
    }

    /// Whether nothing more may start; the call knows why.
    pub(crate) fn stops(&self) -> bool {
        let mut source = self.source();
        self.look_whether_to_stop(&mut source);
        source.halt.is_some()
    }

    /// Wakes the caller for something other than a result.
    pub(crate) fn wake_caller(&self) {
        self.wake_pending.raise();
        self.caller.notify();
    }

    /// Claims up to `want` objects from the buffer, after asking the iterator for what is missing there: for more than
    /// one only as far as it promises that it has them, and only for a share of what is left. Blocks as long as the
    /// iterator does.
    ///
    /// `held` says whether this carrier holds a permit; it is brought up to date. `wake` is called with the number of
    /// a worker whose turn it is next.
    pub(crate) fn claim(
        &self,
        who: Who,
        held: &mut bool,
        want: usize,
        claimed: &mut Claimed<I::Item>,
        wake: impl FnOnce(usize),
    ) -> Claim {
        let mut source = self.source();
        if std::mem::take(held) {
            source.running -= 1;
        }
        if who == Who::Helping {
            // Twice what it takes, as far as there is room: it may come back before the next pull.
            source.ahead = (2 * want).min(most_claimed::<I::Item>()).max(want);
        }
        let (mut spins, mut pulled, mut refused) = (0, false, false);
        let claim = loop {
            self.look_whether_to_stop(&mut source);
            if source.over() {
                break Claim::Over;
            }
            if source.refuses(who) {
                source.park(who);
                refused = true;
                break Claim::Wait;
            }
            let there = source.there();
            let missing = there == 0 || !pulled && there < want + source.ahead;
            if missing && who != Who::Helping && source.may_be_pulled() {
                source = self.pull(source, want, there, claimed);
                pulled = true;
                continue;
            }
            if there > 0 {
                source.take(who, want, &mut claimed.objects);
                *held = true;
                break Claim::Got;
            }
            if source.next >= source.horizon && !source.pulling {
                source.park(who);
                break Claim::Wait;
            }
            if spins < SPINS && source.may_get_more() {
                if who != Who::Helping {
                    // Relaxed, here and below: changed under the lock, and looked at again.
                    self.called.store(true, Ordering::Relaxed);
                }
                drop(source);
                // Relaxed: a hint; the truth is under the lock.
                while spins < SPINS && self.busy.0.load(Ordering::Relaxed) {
                    spins += 1;
                    std::hint::spin_loop();
                }
                spins += 1;
                source = self.source();
                if spins >= SPINS {
                    source.buffer_pulled();
                }
                continue;
            }
            match who {
                Who::Worker(number) => source.queued.push(number),
                Who::Caller => source.awaited = true,
                // It does not wait.
                Who::Helping => {}
            }
            break Claim::Busy;
        };
        if spins > 0 && who != Who::Helping {
            self.called.store(false, Ordering::Relaxed);
        }
        if pulled && claim != Claim::Got {
            source.buffer_pulled();
            source.pulled = None;
        }
        let next = if refused && source.running < source.degree {
            // The permit that it had is for who waits for one.
            source.next_in_line()
        } else if source.is_claimable() {
            source.queued.pop()
        } else {
            None
        };
        let wakes_caller = !source.pulling && std::mem::take(&mut source.awaited) && who != Who::Caller;
        drop(source);
        if wakes_caller {
            self.wake_caller();
        }
        if let Some(number) = next {
            wake(number);
        }
        claim
    }

    fn look_whether_to_stop(&self, source: &mut Source<I>) {
        if source.over() {
            return;
        }
        if self.token.is_stopped() {
            source.halt(HaltReason::Stopped, self.token);
        } else if self.deadline_ns != u64::MAX && self.now_ns() >= self.deadline_ns {
            source.halt(HaltReason::Deadline, self.token);
        }
    }

    /// Asks the iterator, without the lock, for so many that the buffer, in which some are, has `want` and what it is
    /// to have for the caller.
    fn pull<'s>(
        &'s self,
        mut source: MutexGuard<'s, Source<I>>,
        want: usize,
        there: usize,
        claimed: &mut Claimed<I::Item>,
    ) -> MutexGuard<'s, Source<I>> {
        let room = source.horizon - source.next;
        let (mut next, ahead, degree) = (source.next, source.ahead, source.degree);
        let several = source.single == 0 && want + ahead > 1;
        source.single = source.single.saturating_sub(1);
        let ring = several.then(|| claimed.ring());
        self.set_pulling(&mut source, true);
        source.pulled.clone_from(&ring);
        source.pulls += 1;
        source.running += 1;
        drop(source);
        let mut single = None;
        let mut iterator = self.iterator();
        let pulled = catch_unwind(AssertUnwindSafe(|| {
            let missing = if several {
                let share = (iterator.size_hint().0 / degree / 2).max(1);
                (want.min(share) + ahead.min(share))
                    .saturating_sub(there)
                    .min(room)
            } else {
                1
            };
            // Relaxed: it was put down, if it was, before `pulling` was set, and the lock was between.
            let may_wait = there + missing > 1;
            if may_wait && !self.watched.load(Ordering::Relaxed) {
                self.watched.store(true, Ordering::Relaxed);
                self.wake_caller();
            }
            for _ in 0..missing {
                let Some(object) = iterator.next() else {
                    return true;
                };
                // First: as soon as it is in the ring, others may finish it.
                self.tell_the_listener(next + 1);
                match &ring {
                    None => single = Some((next, object)),
                    Some(ring) => {
                        // SAFETY: the ring is this carrier's.
                        #[allow(unsafe_code)]
                        let pushed = unsafe { ring.push_unawaited((next, object)) };
                        assert!(pushed.is_ok(), "the ring holds what two may want");
                    }
                }
                next += 1;
                // Relaxed: seen before it asks again, or after it has been held up once more.
                if self.relieved.load(Ordering::Relaxed) {
                    break;
                }
            }
            false
        }));
        drop(iterator);
        let exhausted = match pulled {
            Ok(exhausted) => exhausted,
            Err(panic) => {
                self.panicked(panic);
                false
            }
        };
        let mut source = self.source();
        self.set_pulling(&mut source, false);
        source.next = next;
        source.exhausted = exhausted;
        source.buffer.extend(single);
        // Relaxed, here and in `relieve`: under the lock.
        if !self.relieved.swap(false, Ordering::Relaxed) {
            source.running -= 1;
        }
        source
    }

    fn set_pulling(&self, source: &mut Source<I>, pulling: bool) {
        source.pulling = pulling;
        self.busy.0.store(pulling, Ordering::Relaxed);
    }

    fn tell_the_listener(&self, started: usize) {
        if let Some(listener) = self.listener {
            // Relaxed: a figure to look at.
            listener.started.store(started, Ordering::Relaxed);
        }
    }

    /// Looks after the puller, for a caller that has seen `before` the last time. If it has been at it since then, with
    /// objects in the buffer, its permit is free, and the number of a worker that waits is returned, if there is one.
    pub(crate) fn relieve(&self, before: &mut Option<u64>) -> Option<Option<usize>> {
        let mut source = self.source();
        if !source.pulling {
            // The next pull of several says so anew.
            self.watched.store(false, Ordering::Relaxed);
        }
        source.buffer_pulled();
        if !source.pulling || source.buffer.is_empty() {
            *before = None;
            return None;
        }
        let again = before.replace(source.pulls) == Some(source.pulls);
        if !again || self.relieved.swap(true, Ordering::Relaxed) {
            return None;
        }
        source.running -= 1;
        source.single = SINGLE << source.reliefs.min(20);
        source.reliefs += 1;
        Some(source.next_in_line())
    }

    /// For a carrier that claims no more: its permit, if it holds one, is free, and so is what it kept from others.
    /// Whose turn it is now: the workers that wait, by number, as far as there are permits.
    pub(crate) fn stand_down(&self, held: bool) -> Vec<usize> {
        let mut source = self.source();
        source.running -= usize::from(held);
        let free = source.degree.saturating_sub(source.running);
        std::iter::from_fn(|| source.next_in_line()).take(free).collect()
    }

    /// Whether a claim would bring an object, or ask for one.
    pub(crate) fn is_claimable(&self) -> bool {
        self.source().is_claimable()
    }

    /// Whether the caller is to look after the puller.
    pub(crate) fn is_watched(&self) -> bool {
        // Relaxed: the caller is woken where it is set.
        self.watched.load(Ordering::Relaxed)
    }

    /// The iterator for a caller that is the only carrier, if nothing is at work, nor pulled; with a permit, until it
    /// is dropped.
    pub(crate) fn sole_carrier(&self, held: &mut bool) -> Option<SoleCarrier<'_, 'c, I, W>> {
        let mut source = self.source();
        if std::mem::take(held) {
            source.running -= 1;
        }
        self.look_whether_to_stop(&mut source);
        let called = self.called.load(Ordering::Relaxed);
        if called || source.over() || source.running > 0 || source.there() > 0 || !source.may_be_pulled() {
            return None;
        }
        self.set_pulling(&mut source, true);
        source.running = 1;
        Some(SoleCarrier {
            first: source.next,
            next: source.next,
            exhausted: false,
            iterator: Some(self.iterator()),
            shared: self,
        })
    }

    /// Gives back what was claimed and not started.
    pub(crate) fn give_back(&self, objects: impl Iterator<Item = (usize, I::Item)>, now_ns: u64) {
        let mut source = self.source();
        let why = if now_ns >= self.deadline_ns {
            HaltReason::Deadline
        } else {
            HaltReason::Stopped
        };
        source.halt(why, self.token);
        source.returned.extend(objects);
    }

    /// The first panic goes on in the caller in the end.
    pub(crate) fn panicked(&self, panic: Box<dyn Any + Send>) {
        let mut source = self.source();
        source.halt(HaltReason::Panicked, self.token);
        let later = keep_first(&mut source.panic, panic);
        drop(source);
        discard(later);
    }

    pub(crate) fn halt(&self, why: HaltReason) {
        self.source().halt(why, self.token);
    }
}

/// The iterator in the hands of a caller that is the only carrier: one object at a time, with nothing unfinished while
/// it is asked. So it costs no lock an object, and nobody is held up by an iterator that blocks.
pub(crate) struct SoleCarrier<'s, 'c, I: Iterator, W> {
    shared: &'s Shared<'c, I, W>,
    /// None when it is dropped.
    iterator: Option<MutexGuard<'s, I>>,
    first: usize,
    next: usize,
    exhausted: bool,
}

impl<I: Iterator, W> SoleCarrier<'_, '_, I, W> {
    /// The next object; none if there is none any more, a worker wants it, or something has happened.
    pub(crate) fn pull(&mut self) -> Option<(usize, I::Item)> {
        if self.shared.called.load(Ordering::Relaxed) {
            return None;
        }
        let iterator = self.iterator.as_mut().filter(|_| !self.exhausted)?;
        match catch_unwind(AssertUnwindSafe(|| iterator.next())) {
            Ok(Some(object)) => {
                let index = self.next;
                self.next += 1;
                self.shared.tell_the_listener(self.next);
                return Some((index, object));
            }
            Ok(None) => {}
            Err(panic) => self.shared.panicked(panic),
        }
        self.exhausted = true;
        None
    }
}

impl<I: Iterator, W> Drop for SoleCarrier<'_, '_, I, W> {
    fn drop(&mut self) {
        self.iterator = None;
        let mut source = self.shared.source();
        self.shared.set_pulling(&mut source, false);
        source.exhausted = self.exhausted;
        source.running -= 1;
        source.next = self.next;
        if self.next > self.first {
            source.most_running = source.most_running.max(1);
        }
    }
}
