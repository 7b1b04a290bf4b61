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
    pub(super) pulled: Option<Pulled<O>>,
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
    pub(crate) queued: Vec<usize>,
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

    /// Whether somebody may be about to bring objects: nobody does where nobody is at work.
    pub(super) fn may_get_more(&self) -> bool {
        self.pulling || self.running > 0
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

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    type Numbers = Range<usize>;

    /// Of degree 2 and without a bound; `buffered` and, in the ring of a puller that is done, `pulled` are there.
    fn source(buffered: Numbers, pulled: Numbers) -> Source<Numbers> {
        let mut source = Source::new(2, usize::MAX);
        source.next = buffered.end.max(pulled.end);
        source.buffer.extend(buffered.map(|i| (i, i)));
        if !pulled.is_empty() {
            let ring = Claimed::default().ring();
            for i in pulled {
                // SAFETY: nobody else has the ring.
                #[allow(unsafe_code)]
                let pushed = unsafe { ring.push_unawaited((i, i)) };
                assert!(pushed.is_ok());
            }
            source.pulled = Some(ring);
        }
        source
    }

    fn numbers(objects: impl IntoIterator<Item = (usize, usize)>) -> Vec<usize> {
        objects.into_iter().map(|(index, _)| index).collect()
    }

    #[test]
    fn a_ring_has_room_for_twice_what_is_claimed_at_once() {
        assert_eq!(Claimed::<u8>::default().ring().capacity(), 512);
        // 64 KiB hold 15 of them.
        assert_eq!(Claimed::<[u8; 4 << 10]>::default().ring().capacity(), 16);
    }

    #[test]
    fn it_is_over_at_a_halt_or_when_none_is_left() {
        for (halt, exhausted, there, over) in [
            (None, false, 0, false),
            (None, false, 1, false),
            (None, true, 0, true),
            (None, true, 1, false),
            (Some(HaltReason::Stopped), false, 1, true),
        ] {
            let mut source = source(0..there, 0..0);
            (source.halt, source.exhausted) = (halt, exhausted);
            assert_eq!(source.over(), over, "{halt:?} {exhausted} {there}");
        }
    }

    #[test]
    fn the_first_reason_of_a_halt_stays_and_all_are_told() {
        let (mut source, token) = (source(0..0, 0..0), StopToken::new());
        source.halt(HaltReason::Failed, &token);
        assert!(token.is_stopped());
        source.halt(HaltReason::Stopped, &token);
        assert_eq!(source.halt, Some(HaltReason::Failed));
    }

    #[test]
    fn workers_wait_until_it_is_their_turn() {
        let mut source = source(0..0, 0..0);
        for who in [Who::Worker(2), Who::Caller, Who::Worker(0), Who::Helping] {
            source.park(who);
        }
        source.queued = vec![1, 3];
        // Whoever waits for the puller first; whose number is too high stays.
        source.allowed = 2;
        let in_line = [(); 3].map(|()| source.next_in_line());
        assert_eq!(in_line, [Some(1), Some(0), None]);
        assert_eq!(source.everybody(), [2, 3]);
        assert!(source.everybody().is_empty());
    }

    #[test]
    fn a_permit_is_refused_to_who_is_to_stand_down_and_beyond_the_degree() {
        use Who::{Caller, Helping, Worker};
        for (running, allowed, degree, refused) in [
            (0, 1, 1, &[Worker(1), Worker(2)][..]),
            (1, 1, 3, &[Worker(1), Worker(2)]),
            // One that is to stand down is at work: the permit is for a worker that is not.
            (2, 1, 3, &[Worker(1), Worker(2), Caller, Helping]),
            (2, 9, 2, &[Worker(0), Worker(1), Worker(2), Caller, Helping]),
            (1, 9, 2, &[]),
        ] {
            let mut source = source(0..0, 0..0);
            (source.running, source.allowed, source.degree) = (running, allowed, degree);
            for who in [Worker(0), Worker(1), Worker(2), Caller, Helping] {
                let expected = refused.contains(&who);
                assert_eq!(
                    source.refuses(who),
                    expected,
                    "{who:?}: {running} {allowed} {degree}"
                );
            }
        }
    }

    #[test]
    fn a_claim_brings_something_if_it_is_there_or_may_be_pulled() {
        for (pulling, exhausted, horizon, may) in [
            (false, false, 6, true),
            (false, false, 5, false),
            (true, false, 6, false),
            (false, true, 6, false),
        ] {
            for there in [0, 5] {
                let mut source = source(5 - there..5, 0..0);
                (source.pulling, source.exhausted, source.horizon) = (pulling, exhausted, horizon);
                assert_eq!(source.may_be_pulled(), may);
                assert_eq!(source.is_claimable(), may || there > 0);
                source.running = source.degree - 1;
                assert_eq!(source.is_claimable(), may || there > 0);
                source.running = source.degree;
                assert!(!source.is_claimable());
                source.running = 0;
                source.halt = Some(HaltReason::Stopped);
                assert!(!source.is_claimable());
            }
        }
    }

    #[test]
    fn who_pulls_or_is_at_work_may_bring_more() {
        for (pulling, running, may) in [
            (false, 0, false),
            (true, 0, true),
            (false, 1, true),
            (false, 2, true),
        ] {
            let mut source = source(0..0, 0..0);
            (source.pulling, source.running) = (pulling, running);
            assert_eq!(source.may_get_more(), may, "{pulling} {running}");
        }
    }

    #[test]
    fn what_was_pulled_counts_when_the_puller_is_done() {
        let mut source = source(0..2, 2..5);
        assert_eq!(source.there(), 5);
        source.pulling = true;
        assert_eq!(source.there(), 2);
        source.buffer_pulled();
        assert_eq!((source.there(), numbers(source.buffer)), (5, vec![0, 1, 2, 3, 4]));
    }

    /// Takes so many, with so many to be left for the caller: what was taken, and what is in the buffer then.
    fn taken(mut source: Source<Numbers>, who: Who, want: usize, ahead: usize) -> (Vec<usize>, Vec<usize>) {
        source.ahead = ahead;
        let mut into = Vec::new();
        source.take(who, want, &mut into);
        assert_eq!((source.running, source.most_running), (1, 1));
        (numbers(into), numbers(source.buffer))
    }

    #[test]
    fn a_worker_takes_the_oldest_and_leaves_some_for_the_caller() {
        let worker = Who::Worker(0);
        for (who, there, want, takes) in [
            (worker, 10, 4, 4),
            (worker, 5, 4, 2),
            (worker, 2, 4, 1),
            (Who::Caller, 5, 5, 5),
            (Who::Helping, 5, 4, 4),
        ] {
            let expected = ((0..takes).collect(), (takes..there).collect());
            assert_eq!(
                taken(source(0..there, 0..0), who, want, 3),
                expected,
                "{who:?} of {there}"
            );
        }
    }

    #[test]
    fn who_has_pulled_takes_its_own_after_what_is_old() {
        let worker = Who::Worker(0);
        let all_but = |taken: &[usize], of: Numbers| of.filter(|i| !taken.contains(i)).collect();
        // Three of the buffer are for the caller.
        let own = vec![1_500, 1_501, 1_505, 1_506, 1_507];
        let expected = (own.clone(), all_but(&own, 1_500..1_512));
        assert_eq!(taken(source(1_500..1_505, 1_505..1_512), worker, 5, 3), expected);
        // What is in the buffer and in the ring counts, less what is for the caller.
        assert_eq!(
            taken(source(0..2, 2..5), worker, 4, 2),
            (vec![2, 3, 4], vec![0, 1])
        );
        // What lies there for too long is taken by anyone.
        for (next, takes) in [(2_047, [2_045, 2_046]), (2_048, [0, 1])] {
            let (taken, _) = taken(source(0..3, next - 2..next), worker, 3, 3);
            assert_eq!(taken, takes);
        }
    }

    #[test]
    fn while_somebody_pulls_its_ring_is_left_alone() {
        let mut source = source(0..2, 2..5);
        source.pulling = true;
        let mut into = Vec::new();
        source.take(Who::Helping, 4, &mut into);
        assert_eq!(
            (numbers(into), source.pulled.map(|ring| ring.len())),
            (vec![0, 1], Some(3))
        );
    }
}
