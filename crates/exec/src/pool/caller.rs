//! The caller's side of a call: it makes workers, finishes what lies in their rings, works when that is cheaper, and
//! otherwise sleeps. Its states are named in the head of [`pool`](super).

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

use super::batch::{Batch, Stretch};
use super::policy::{Policy, SMALL_NS, STREAK, Starts};
use super::worker::{NO_OBJECT, Pool, SharedSlot, WorkerSlot};
use crate::adaptive::{Governor, Meter};
use crate::clock::Clock;
use crate::degree::cpus;
use crate::discard::discard;
use crate::flag::Flag;
use crate::notify::Notify;
use crate::outcome::{Done, Warning};
use crate::result_sink::ResultSink;
use crate::ring::Ring;
use crate::settings::{Mode, Settings};
use crate::shared::{Claim, Claimed, HaltReason, Who};
use crate::thread_source::ThreadSource;
use crate::work::{Raw, Work};

/// How often the caller looks after a worker that pulls several objects, at first and at last; held up over two looks,
/// it is relieved.
const STALL: Duration = Duration::from_millis(10);
const LONGEST_STALL: Duration = Duration::from_millis(100);
/// How long the caller works without its workers when they bring it nothing, at first and at last; and how often they
/// have to feed it before the first is enough again.
const SOLO_NS: u64 = 1_000_000;
const LONGEST_SOLO_NS: u64 = 64_000_000;
const FED_WELL: u32 = 64;
/// It works without them, too, where so many objects in a row take less than this each, with their readings of the
/// clock.
const LONE_COUNT: usize = 64;
const LONE_NS: u64 = 30;
/// For how long it runs one object after the other as the only carrier before it looks for other news.
const ALONE_NS: u64 = 50_000;

/// The caller's side of a call.
pub(super) struct Caller<'p, 'c, 'd, I: Iterator, W: Work<I::Item>, F, B> {
    pool: &'p Pool<'c, I, W>,
    settings: &'p Settings,
    /// More workers than there are objects are of no use.
    at_most: usize,
    governor: Governor,
    sink: &'d mut ResultSink<I::Item, W::Output, F, B>,
    slots: Vec<SharedSlot<I::Item, W::Output>>,
    /// Why no more workers can be made, if so.
    shortage: Option<io::Error>,
    policy: Policy,
    /// There are no workers, though there should be: the caller is the only carrier.
    alone: bool,
    /// Since when the caller listens, if it does.
    listening: Option<Instant>,
    /// How many workers have last been told that they may claim.
    told: usize,
    /// The caller holds a permit.
    held: bool,
    /// It has been a carrier: whoever found no permit then, or the iterator taken, still waits.
    carried: bool,
    /// The workers pull for the caller, too.
    helped: bool,
    meter: Meter<'p>,
    batch: Batch,
    claimed: Claimed<I::Item>,
    results: Vec<Raw<I::Item, W::Output>>,
    clock: Clock,
    /// Of objects that it runs as the only carrier.
    starts: Starts,
    warned: bool,
    /// Since when there has been nothing for it to work on.
    starving_ns: Option<u64>,
    /// Until when it works without workers, and for how long the next time.
    solo_until_ns: u64,
    solo_ns: u64,
    /// How often it has got objects from workers since.
    fed: u32,
    /// Workers beyond the degree, in place of those that were relieved.
    relief: usize,
    /// The pull that it saw the last time it looked, and when it looks again.
    seen: Option<u64>,
    stall: Duration,
}

impl<'p, 'c, 'd, I, W, F, B> Caller<'p, 'c, 'd, I, W, F, B>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
    F: FnMut(Done<I::Item, W::Output>) -> ControlFlow<B>,
{
    pub(super) fn new(
        pool: &'p Pool<'c, I, W>,
        settings: &'p Settings,
        governor: Governor,
        sink: &'d mut ResultSink<I::Item, W::Output, F, B>,
    ) -> Self {
        let policy = Policy::new(settings);
        Self {
            pool,
            settings,
            // One at least, to find that there are none.
            at_most: pool.shared.at_most().max(1),
            meter: pool.shared.cpu.meter(),
            governor,
            sink,
            slots: Vec::new(),
            shortage: None,
            alone: false,
            listening: (policy.mode == Mode::Prompt).then(Instant::now),
            policy,
            told: usize::MAX,
            held: false,
            carried: false,
            helped: false,
            batch: Batch::new(settings.mode, W::WAITING),
            claimed: Claimed::default(),
            results: Vec::new(),
            clock: pool.shared.clock(),
            starts: Starts::new(),
            warned: false,
            starving_ns: None,
            solo_until_ns: 0,
            solo_ns: SOLO_NS,
            fed: 0,
            relief: 0,
            seen: None,
            stall: STALL,
        }
    }

    /// Until the last object is finished. Returns why there are fewer threads than wanted, if so.
    pub(super) fn drive<'scope, H: ThreadSource<'scope>>(mut self, threads: &H) -> Option<io::Error>
    where
        'p: 'scope,
    {
        while self.turn(threads) {}
        self.shortage
    }

    /// Does what there is to do, or sleeps until there is something. `false` once all is finished.
    fn turn<'scope, H: ThreadSource<'scope>>(&mut self, threads: &H) -> bool
    where
        'p: 'scope,
    {
        self.tell();
        if self.listens() {
            return true;
        }
        // All carriers first: a processor may wait for another's.
        if self.add_missing(threads) {
            self.drain();
            return true;
        }
        let drained = self.drain();
        if self.works(drained) || drained > 0 || self.workers() != self.told {
            return true;
        }
        if self.all_have_ended() {
            // What they left before they ended.
            self.drain();
            return false;
        }
        if self.sleep() {
            self.look_after_the_puller();
        }
        true
    }

    /// Waits a moment for what all its workers bring, as long as it is to listen. `false` if it is not.
    fn listens(&mut self) -> bool {
        let Some(since) = self.listening else { return false };
        if self.slots.len() < self.told.min(self.at_most) || self.pool.shared.source().over() {
            return false;
        }
        let until = self.policy.trial(since);
        if Instant::now() >= until {
            self.listening = None;
        } else if self.drain() == 0 {
            self.listen(Some(until));
        }
        true
    }

    /// How many workers there are to be.
    fn wanted(&self) -> usize {
        if self.alone {
            // To find whether there is a thread by now.
            1
        } else {
            self.workers().min(self.at_most).saturating_add(self.relief)
        }
    }

    /// Makes a worker where one is missing. Whether it has made one.
    fn add_missing<'scope, H: ThreadSource<'scope>>(&mut self, threads: &H) -> bool
    where
        'p: 'scope,
    {
        if self.slots.len() >= self.wanted() || self.pool.shared.source().over() {
            return false;
        }
        let mut made = false;
        if self.shortage.is_none() && threads.any_free() {
            match self.add_worker(threads) {
                Ok(added) => made = added,
                Err(error) => {
                    self.shortage = Some(error);
                    self.listening = None;
                }
            }
        }
        self.stand_in(self.slots.is_empty());
        made
    }

    /// The caller's part of the work, if it has one now: it need not sleep then. `drained`: how much the workers have
    /// just brought.
    fn works(&mut self, drained: usize) -> bool {
        if !self.policy.working {
            // Without a thread for who is to relieve the puller, what lies in the buffer is the caller's.
            let relieves = self.relief > 0 && self.slots.len() < self.wanted();
            if relieves && self.claim(Who::Helping) == Claim::Got {
                self.work();
                return true;
            }
            return false;
        }
        if (self.alone || self.told == 0) && self.work_alone() {
            return true;
        }
        let who = if self.policy.mode == Mode::Throughput {
            Who::Caller
        } else {
            Who::Helping
        };
        let claim = self.claim(who);
        if claim != Claim::Busy {
            self.starving_ns = None;
        }
        match claim {
            Claim::Got => {
                self.fed += 1;
                if self.fed == FED_WELL {
                    self.solo_ns = SOLO_NS;
                }
                self.work();
                true
            }
            Claim::Busy if who == Who::Helping => {
                // Until a worker comes.
                if self.work_alone() {
                    self.starving_ns = None;
                } else if drained == 0 {
                    self.starve();
                }
                true
            }
            Claim::Over | Claim::Wait | Claim::Busy => false,
        }
    }

    /// Whether nothing is left to claim, and nobody at work. Once nothing is, all workers are called to their end.
    fn all_have_ended(&self) -> bool {
        let pool = self.pool;
        let (over, idle) = {
            let source = pool.shared.source();
            (source.over(), source.running == 0 && !source.pulling)
        };
        if over {
            pool.recall();
        }
        over && idle
    }

    fn claim(&mut self, who: Who) -> Claim {
        let pool = self.pool;
        let wake = |next| pool.wake(next);
        self.helped |= who == Who::Helping;
        self.carried = true;
        pool.shared
            .claim(who, &mut self.held, self.batch.want, &mut self.claimed, wake)
    }

    /// The workers bring nothing to work on: for as long as a wake-up costs it looks again. Then they are not on a CPU,
    /// or held up in the source: for a while it works without them.
    fn starve(&mut self) {
        let now_ns = self.clock.now_ns();
        if now_ns - *self.starving_ns.get_or_insert(now_ns) <= SMALL_NS {
            return;
        }
        self.starving_ns = None;
        self.solo_until_ns = now_ns + self.solo_ns;
        self.solo_ns = (self.solo_ns * 2).min(LONGEST_SOLO_NS);
        self.fed = 0;
    }

    /// Somebody else runs what lies in the buffer while its puller is held up: a worker that waits, or one more, or
    /// where there is none to be had, the caller.
    fn look_after_the_puller(&mut self) {
        let pool = self.pool;
        match pool.shared.relieve(&mut self.seen) {
            None => self.stall = (self.stall * 2).min(LONGEST_STALL),
            Some(Some(waiting)) => pool.wake(waiting),
            Some(None) => self.relief += 1,
        }
    }

    /// The caller becomes the only carrier, or no longer is.
    fn stand_in(&mut self, alone: bool) {
        if self.alone == alone {
            return;
        }
        self.alone = alone;
        self.policy = Policy::new(self.settings);
        if alone {
            self.policy.working = true;
            self.policy.mode = Mode::Throughput;
        }
    }

    /// Makes one more worker; `false` if there is no thread for it now.
    fn add_worker<'scope, H: ThreadSource<'scope>>(&mut self, threads: &H) -> io::Result<bool>
    where
        'p: 'scope,
    {
        let pool = self.pool;
        let number = self.slots.len();
        let slot = Arc::new(WorkerSlot {
            ring: Ring::new(W::WAITING),
            worker: Notify::new(),
            recalled: Flag::default(),
            current: AtomicUsize::new(NO_OBJECT),
        });
        pool.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&slot));
        let theirs = Arc::clone(&slot);
        let started = threads.start(move || pool.worker(number, &theirs));
        if let Ok(true) = started {
            self.slots.push(slot);
        } else {
            pool.slots.lock().unwrap_or_else(PoisonError::into_inner).pop();
        }
        started
    }

    /// How many workers may claim now.
    fn workers(&self) -> usize {
        let degree = self.governor.degree();
        match self.policy.mode {
            Mode::Prompt if self.policy.working && self.solo_until_ns > 0 => 0,
            Mode::Prompt if self.policy.working => degree.min(cpus()) - 1,
            Mode::Prompt if self.listening.is_some() => degree.min(cpus()).max(2) - 1,
            _ if self.policy.working => degree - 1,
            _ => degree,
        }
    }

    /// Tells the workers how many of them may claim, and starts or ends the time to listen.
    fn tell(&mut self) {
        let pool = self.pool;
        if self.policy.working {
            self.listening = None;
            if self.solo_until_ns != 0 && self.clock.now_ns() >= self.solo_until_ns {
                self.solo_until_ns = 0;
            }
        } else if mem::take(&mut self.helped) {
            pool.shared.source().ahead = 0;
        }
        if !self.policy.working && mem::take(&mut self.carried) {
            let held = mem::take(&mut self.held);
            pool.wake_all(pool.shared.stand_down(held));
            if held && self.policy.mode == Mode::Prompt {
                self.listening = Some(Instant::now());
            }
        }
        let workers = self.workers();
        let all = workers == self.governor.degree();
        // A worker may have widened after long ones that did not stop the caller.
        let narrow_again = !all && self.policy.streak >= STREAK && !pool.narrowed.load(Ordering::Relaxed);
        if workers == self.told && !narrow_again {
            return;
        }
        let before = mem::replace(&mut self.told, workers);
        if !all {
            pool.shared.source().allowed = workers;
            pool.narrowed.store(true, Ordering::Relaxed);
            if workers > before {
                pool.recall();
            }
        } else if pool.narrowed.load(Ordering::Relaxed) {
            pool.widen();
        }
    }

    /// Finishes every result that lies in a ring. Returns how many.
    fn drain(&mut self) -> usize {
        let Self {
            pool,
            sink,
            slots,
            policy,
            governor,
            ..
        } = self;
        let before = governor.degree();
        let mut drained = 0;
        for slot in slots.iter() {
            // SAFETY: only the caller drains, and `deliver` reaches no ring.
            #[allow(unsafe_code)]
            let n = unsafe {
                slot.ring.drain(usize::MAX, |raw| {
                    policy.observe(raw.ended_ns - raw.started_ns);
                    governor.observe(raw.started_ns, raw.ended_ns, &pool.shared.cpu);
                    sink.deliver(raw);
                    if sink.broken.is_some() {
                        pool.shared.token.stop();
                    }
                })
            };
            if n > 0 {
                drained += n;
                slot.worker.notify();
            }
        }
        let now = governor.degree();
        if now != before {
            pool.set_degree(now);
        }
        if drained > 0 {
            self.after_delivery();
        }
        drained
    }

    /// The finisher may have broken off, or made room for objects further on.
    fn after_delivery(&mut self) {
        let pool = self.pool;
        if self.sink.broken.is_some() {
            pool.shared.halt(HaltReason::Broken);
        }
        if let (true, Some(look_ahead)) = (self.sink.in_order(), self.settings.look_ahead) {
            pool.shared.source().horizon = self.sink.next.saturating_add(look_ahead.get());
            pool.recall();
        }
    }

    /// As the only carrier: pulls, runs and finishes one object after the other, for a while. `false` if others are at
    /// work.
    ///
    /// A reading of the clock costs more than all else here. So after brief objects it is read at their ends alone, and
    /// one starts when the one before it ended.
    fn work_alone(&mut self) -> bool {
        let pool = self.pool;
        let shared = &pool.shared;
        let Some(mut source) = shared.sole_carrier(&mut self.held) else {
            return false;
        };
        self.carried = true;
        // Whoever was at work before has left its results.
        self.drain();
        let before = self.sink.finished;
        let begun_ns = self.clock.now_ns();
        let (mut ended_ns, mut took_ns) = (begun_ns, 0);
        while self.policy.working && took_ns < ALONE_NS {
            if shared.must_stop(ended_ns) {
                break;
            }
            let Some((index, object)) = source.pull() else {
                break;
            };
            let started_ns = if self.starts.next_is_read(shared.deadline().is_some()) {
                self.clock.now_ns()
            } else {
                ended_ns
            };
            if shared.must_stop(started_ns) {
                shared.give_back(std::iter::once((index, object)), started_ns);
                break;
            }
            let before_ns = mem::replace(&mut ended_ns, self.run(index, object, started_ns, Self::deliver));
            self.starts.observe(before_ns, ended_ns);
            took_ns = ended_ns - begun_ns;
            if self.sink.broken.is_some() {
                break;
            }
        }
        drop(source);
        self.after_delivery();
        self.go_alone_if_brief(self.sink.finished - before, took_ns);
        true
    }

    /// Where so many took so little, sharing them costs as much as it brings: for a while the caller works without its
    /// workers.
    fn go_alone_if_brief(&mut self, count: usize, took_ns: u64) {
        if count >= LONE_COUNT && took_ns < LONE_NS * count as u64 {
            self.solo_until_ns = self.clock.now_ns() + SOLO_NS;
        }
    }

    /// Runs one object; its result goes to `then`. When it ended.
    #[inline]
    fn run(
        &mut self,
        index: usize,
        mut object: I::Item,
        started_ns: u64,
        then: impl FnOnce(&mut Self, Raw<I::Item, W::Output>),
    ) -> u64 {
        let pool = self.pool;
        let shared = &pool.shared;
        let output = catch_unwind(AssertUnwindSafe(|| shared.work.run(&mut object)));
        let ended_ns = self.clock.now_ns();
        self.policy.observe(ended_ns - started_ns);
        self.meter.tick(ended_ns);
        let before = self.governor.degree();
        self.governor.observe(started_ns, ended_ns, &shared.cpu);
        if self.governor.degree() != before {
            pool.set_degree(self.governor.degree());
        }
        match output {
            Ok(result) => {
                if shared.work.halts(&result) {
                    shared.halt(HaltReason::Failed);
                }
                let raw = Raw {
                    index,
                    started_ns,
                    ended_ns,
                    object,
                    result,
                };
                then(self, raw);
            }
            Err(panic) => {
                shared.panicked(panic);
                discard(object);
            }
        }
        ended_ns
    }

    /// Finishes one of the caller's own results.
    #[inline]
    fn deliver(&mut self, raw: Raw<I::Item, W::Output>) {
        self.sink.deliver(raw);
        if self.sink.broken.is_some() {
            self.pool.shared.token.stop();
        }
    }

    /// Runs the claimed objects. After each stretch of a batch's time their results are finished, and the others'.
    fn work(&mut self) {
        let pool = self.pool;
        let shared = &pool.shared;
        let mut objects = mem::take(&mut self.claimed.objects);
        let count = objects.len();
        let mut left = objects.drain(..);
        let mut next = left.next();
        let (mut longest_ns, mut took_ns) = (0, 0);
        while next.is_some() {
            let mut stretch = Stretch::begun(self.clock.now_ns());
            while let Some((index, object)) = next.take() {
                let started_ns = stretch.at_ns;
                if shared.must_stop(started_ns) {
                    shared.give_back(std::iter::once((index, object)).chain(left.by_ref()), started_ns);
                    break;
                }
                stretch.goes_to(self.run(index, object, started_ns, |caller, raw| caller.results.push(raw)));
                next = left.next();
                if stretch.took_ns() >= self.batch.ns {
                    break;
                }
            }
            longest_ns = longest_ns.max(stretch.longest_ns);
            took_ns += stretch.took_ns();
            let mut results = mem::take(&mut self.results);
            results.drain(..).for_each(|raw| self.deliver(raw));
            self.results = results;
            self.after_delivery();
            self.drain();
        }
        drop(left);
        self.claimed.objects = objects;
        self.batch.adapt(longest_ns, took_ns);
        self.go_alone_if_brief(count, took_ns);
    }

    /// Sleeps until a result or other news comes, or until then: `false` if nothing has come.
    fn listen(&self, until: Option<Instant>) -> bool {
        let pool = self.pool;
        let news = || pool.shared.wake_pending.take() || self.slots.iter().any(|slot| slot.ring.len() > 0);
        pool.shared.caller.wait(news, until)
    }

    /// Until a result or other news comes; at the deadline, names whoever still runs. Whether it is time to look after
    /// who pulls.
    fn sleep(&mut self) -> bool {
        if self.listen(self.wakes_at(Instant::now())) {
            return false;
        }
        let late = self.deadline().is_some_and(|deadline| Instant::now() >= deadline);
        if late {
            self.name_who_is_late();
        }
        !late
    }

    /// The deadline, until it has passed.
    fn deadline(&self) -> Option<Instant> {
        let deadline = self.pool.shared.deadline();
        deadline.filter(|_| !self.warned)
    }

    /// When it is to wake that falls asleep now, whatever comes.
    fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let look = self.pool.shared.is_watched().then(|| now + self.stall);
        self.deadline().into_iter().chain(look).min()
    }

    fn name_who_is_late(&mut self) {
        self.warned = true;
        self.pool.shared.halt(HaltReason::Deadline);
        // SeqCst: pairs with the fence in `Pool::set_current`.
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            let index = slot.current.load(Ordering::Relaxed);
            if index != NO_OBJECT {
                self.settings.warn(Warning::Overrun { index });
            }
        }
    }
}
