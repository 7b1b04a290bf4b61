//! The pool for one call: who runs where, when to wake, and whether the caller works too.
//!
//! A **worker** claims objects, runs them and puts each result into the ring of its **lane**; the caller empties
//! the rings. Waking a sleeper on another CPU costs 20 µs where handing over an item costs 10 ns, so everything here
//! is about not waking. A worker is in one of these states:
//!
//! - *running*: it holds a permit, taken together with its objects;
//! - *full*: its ring has no room; it sleeps until the caller has made some (so a finisher that blocks is
//!   back-pressure, not memory);
//! - *benched*: there is nothing for it to claim now: its number is not `allowed`, all permits are out, or the
//!   objects are too far ahead of the finisher. It sleeps until it is recalled.
//!
//! The caller is *idle* (asleep until a bell rings), *finishing*, *listening* (idle, with workers on all CPUs but
//! one, to see how short the work is), or *working*: it holds one of the *k* permits and runs processors itself
//! between two looks at the rings. Working saves the wake-up for each result, but while the caller runs a processor, results of others wait. So it works only after a streak of service times that are
//! small against a wake-up ([`SMALL_NS`]) and stops at a long one, unless enough short ones ([`PARDON`]) outweigh it; each time
//! that it had to stop it asks for a longer streak. While it works in the default mode there are as many workers
//! beside it as leave it a CPU, the rest is benched: more could only take CPUs from those. A worker that sees long
//! service times recalls the others by itself.
//!
//! Batches: a claim costs a lock, so short objects are claimed together, as many as make up [`BATCH_NS`]
//! ([`LONG_BATCH_NS`] in the throughput mode); the count doubles only while every object is short and falls to one at the
//! first that is not. Results leave one by one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

use std::ops::ControlFlow;

use crate::adaptive::{Governor, Meter};
use crate::bell::Bell;
use crate::degree::cpus;
use crate::desk::Desk;
use crate::execution::{Mode, Settings};
use crate::hands::Hands;
use crate::lent;
use crate::outcome::{Done, Warning};
use crate::ring::Ring;
use crate::shared::{Claim, Halt, Raw, Shared, Source, Who, Work};
use crate::thread_pool::ThreadPool;
use crate::watch::Watch;

/// A service time up to this is small: what waking a thread on another CPU costs.
const SMALL_NS: u64 = 20_000;
/// What a batch is meant to take.
const BATCH_NS: u64 = 4_000;
/// The same where a result may wait: then the lines that carry claims and results change CPUs less often.
const LONG_BATCH_NS: u64 = 50_000;
const MAX_BATCH: usize = 256;
/// Results of long processors that may wait for the finisher, for each worker.
const FEW_RESULTS: usize = 4;
/// The same for short ones, if they are small.
const MOST_RESULTS: usize = 1024;
/// By how many the short service times must outweigh the long ones (each counts [`SETBACK`]) before the caller works.
const STREAK: u32 = 8;
/// How long the caller listens with one CPU to itself before it lets workers have that CPU as well: once all CPUs are
/// busy, a caller that is woken may have to wait a scheduler's slice (milliseconds) to see how short the work is. So it
/// does at first, and whenever it has stopped working.
const TRIAL: Duration = Duration::from_micros(200);
/// The same, once it has seen short ones.
const PROMISING_TRIAL: Duration = Duration::from_millis(1);
const LONGEST_STREAK: u32 = 1 << 12;
/// What a long one takes off the streak of short ones: waking the caller itself makes some seem long.
const SETBACK: u32 = 8;
/// So many short ones outweigh a long one: it does not stop the caller.
const PARDON: u32 = 64;
/// More short ones than this do not count: three long ones are pardoned in a row, a fourth is not. And after so many
/// the caller's streak need not be longer than at first.
const FORGIVEN: u32 = 3 * PARDON;
/// A worker whose ring is full looks this often before it sleeps: under the cost of a wake-up.
const LOOKS: u32 = 200;
const NO_OBJECT: usize = usize::MAX;

struct Lane<O, R> {
    /// Worker to caller.
    ring: Ring<Raw<O, R>>,
    /// The worker sleeps here, full or benched.
    bell: Bell,
    recalled: AtomicBool,
    /// The index of the object at work, for the warning at a deadline.
    current: AtomicUsize,
}

/// A lane, shared by the caller and its worker.
type SharedLane<O, R> = Arc<Lane<O, R>>;

struct Pool<'c, I: Iterator, W: Work<I::Item>> {
    shared: Shared<'c, I, W>,
    mode: Mode,
    lanes: Mutex<Vec<SharedLane<I::Item, W::Output>>>,
    /// The caller works and workers are benched for it.
    narrowed: AtomicBool,
    /// News for the caller other than a result.
    nudged: AtomicBool,
    /// The caller is gone: results have nowhere to go.
    abandoned: AtomicBool,
}

pub(crate) struct Ran<I: Iterator> {
    pub(crate) source: Source<I>,
    pub(crate) thread_shortage: Option<io::Error>,
}

/// Runs a call, on threads made for it or on those of a pool.
pub(crate) fn run<I, W, F, B>(
    shared: Shared<'_, I, W>,
    settings: &Settings,
    threads: Option<&ThreadPool>,
    desk: &mut Desk<I::Item, W::Output, F, B>,
) -> Ran<I>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
    F: FnMut(Done<I::Item, W::Output>) -> ControlFlow<B>,
{
    let governor = Governor::new(settings.degree, true);
    shared.source().degree = governor.degree();
    let pool = Pool {
        shared,
        mode: settings.mode,
        lanes: Mutex::new(Vec::new()),
        narrowed: AtomicBool::new(false),
        nudged: AtomicBool::new(false),
        abandoned: AtomicBool::new(false),
    };
    let thread_shortage = match threads {
        None => std::thread::scope(|scope| {
            let _leaving = Leaving(&pool);
            Caller::new(&pool, settings, governor, desk).drive(scope)
        }),
        Some(threads) => lent::scope(threads, |scope| {
            let _leaving = Leaving(&pool);
            Caller::new(&pool, settings, governor, desk).drive(scope)
        }),
    };
    Ran {
        source: pool.shared.into_source(),
        thread_shortage,
    }
}

/// However the caller leaves, no worker stays behind, asleep.
struct Leaving<'p, 'c, I: Iterator, W: Work<I::Item>>(&'p Pool<'c, I, W>);

impl<I: Iterator, W: Work<I::Item>> Drop for Leaving<'_, '_, I, W> {
    fn drop(&mut self) {
        let pool = self.0;
        if std::thread::panicking() {
            pool.shared.halt(Halt::Panicked);
        }
        // SeqCst: `Bell::wait` looks at it again after it said that it sleeps.
        pool.abandoned.swap(true, Ordering::SeqCst);
        for lane in pool.lanes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            lane.bell.ring();
        }
    }
}

impl<I, W> Pool<'_, I, W>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
{
    fn worker(&self, number: usize, lane: &Lane<I::Item, W::Output>) {
        lane.bell.attach();
        let shared = &self.shared;
        let mut held = false;
        let mut batch = Batch::new::<Raw<I::Item, W::Output>>(self.mode);
        // Whether a long one is the second in short time; one alone is taken for the scheduler's doing.
        let mut suspicion = 0_u32;
        let mut objects = Vec::new();
        let mut watch = shared.watch();
        let mut meter = shared.cpu.meter();
        loop {
            match shared.claim(Who::Worker(number), &mut held, batch.want, &mut objects) {
                Claim::Got => {}
                Claim::Wait => {
                    self.nudge();
                    lane.bell.wait(
                        || {
                            lane.recalled.swap(false, Ordering::SeqCst)
                                || self.abandoned.load(Ordering::SeqCst)
                        },
                        None,
                    );
                    continue;
                }
                Claim::Over => {
                    self.nudge();
                    return;
                }
            }
            let begun_ns = watch.now_ns();
            let mut started_ns = begun_ns;
            let mut longest_ns = 0;
            let count = objects.len() as u32;
            let mut left = objects.drain(..);
            while let Some((index, mut object)) = left.next() {
                if shared.must_stop(started_ns) {
                    shared.give_back(std::iter::once((index, object)).chain(left.by_ref()), started_ns);
                    break;
                }
                lane.current.store(index, Ordering::Relaxed);
                let output = catch_unwind(AssertUnwindSafe(|| shared.work.run(&mut object)));
                lane.current.store(NO_OBJECT, Ordering::Relaxed);
                let ended_ns = watch.now_ns();
                meter.tick(ended_ns);
                longest_ns = longest_ns.max(ended_ns - started_ns);
                match output {
                    Ok(result) => {
                        if shared.work.halts(&result) {
                            shared.halt(Halt::Failed);
                        }
                        let limit = if longest_ns > SMALL_NS {
                            FEW_RESULTS
                        } else {
                            usize::MAX
                        };
                        self.hand_over(
                            lane,
                            limit,
                            Raw {
                                index,
                                started_ns,
                                ended_ns,
                                object,
                                result,
                            },
                        );
                    }
                    Err(panic) => shared.panicked(panic),
                }
                started_ns = ended_ns;
            }
            drop(left);
            batch.adapt(longest_ns, started_ns - begun_ns);
            if longest_ns <= SMALL_NS {
                suspicion = suspicion.saturating_sub(count);
                continue;
            }
            // Relaxed: a hint; the truth is under the lock.
            if suspicion > 0 && self.narrowed.load(Ordering::Relaxed) {
                self.widen();
            }
            suspicion = PARDON;
        }
    }

    #[inline]
    fn hand_over(&self, lane: &Lane<I::Item, W::Output>, limit: usize, result: Raw<I::Item, W::Output>) {
        let limit = limit.min(lane.ring.capacity());
        let mut result = result;
        let mut looks = 0;
        // SAFETY: a lane belongs to one worker, which runs this.
        #[allow(unsafe_code)]
        while let Err(back) = unsafe { lane.ring.push(result, limit) } {
            result = back;
            if self.abandoned.load(Ordering::SeqCst) {
                return;
            }
            if looks < LOOKS && limit > FEW_RESULTS {
                looks += 1;
                std::hint::spin_loop();
                continue;
            }
            let room = || lane.ring.len() <= limit / 2 || self.abandoned.load(Ordering::SeqCst);
            lane.bell.wait(room, None);
        }
        self.shared.caller.ring();
    }

    /// Tells the caller that something other than a result has happened.
    fn nudge(&self) {
        // SeqCst: `Bell::wait` looks at it again after it said that it sleeps.
        self.nudged.swap(true, Ordering::SeqCst);
        self.shared.caller.ring();
    }

    /// Lets every worker claim again.
    fn widen(&self) {
        self.narrowed.store(false, Ordering::Relaxed);
        self.shared.source().allowed = usize::MAX;
        self.recall();
    }

    /// Recalls whoever is benched; who still has nothing to claim goes back there.
    fn recall(&self) {
        let benched = mem::take(&mut self.shared.source().benched);
        self.wake(benched);
    }

    /// Another degree from now on. What runs beyond it ends in peace.
    fn set_degree(&self, degree: usize) {
        let recalled = {
            let mut source = self.shared.source();
            let more = degree.saturating_sub(source.degree);
            source.degree = degree;
            // While workers are benched for the caller's sake any of them may have to stay there.
            let some = if source.allowed == usize::MAX {
                more
            } else {
                usize::MAX
            };
            let left = source.benched.len().saturating_sub(some);
            source.benched.split_off(left)
        };
        self.wake(recalled);
    }

    fn wake(&self, benched: Vec<usize>) {
        if benched.is_empty() {
            return;
        }
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        for number in benched {
            let lane = &lanes[number];
            // SeqCst: `Bell::wait` looks at it again after it said that it sleeps.
            lane.recalled.swap(true, Ordering::SeqCst);
            lane.bell.ring();
        }
    }
}

/// How many objects to claim at once.
struct Batch {
    want: usize,
    most: usize,
    ns: u64,
}

impl Batch {
    fn new<R>(mode: Mode) -> Self {
        Self {
            want: 1,
            most: ring_capacity::<R>().min(MAX_BATCH),
            ns: if mode == Mode::Throughput {
                LONG_BATCH_NS
            } else {
                BATCH_NS
            },
        }
    }

    fn adapt(&mut self, longest_ns: u64, took_ns: u64) {
        self.want = if longest_ns > self.ns {
            1
        } else if took_ns <= self.ns / 2 {
            (self.want * 2).min(self.most)
        } else if took_ns > self.ns * 2 {
            (self.want / 2).max(1)
        } else {
            self.want
        };
    }
}

/// A ring of 64 KiB, as far as that is between 4 and 1,024 results.
fn ring_capacity<T>() -> usize {
    let fit = (64 << 10) / size_of::<T>().max(1);
    1 << fit.clamp(FEW_RESULTS, MOST_RESULTS).ilog2()
}

/// Whether the caller works.
struct Policy {
    mode: Mode,
    working: bool,
    streak: u32,
    needed: u32,
    /// Short ones since it works, less what long ones took off.
    since: u32,
}

impl Policy {
    fn new(settings: &Settings) -> Self {
        // A caller at work could not set the token at the deadline.
        let mode = if settings.deadline.is_some() {
            Mode::FreeCaller
        } else {
            settings.mode
        };
        Self {
            mode,
            working: mode == Mode::Throughput,
            streak: 0,
            needed: STREAK,
            since: 0,
        }
    }

    #[inline]
    fn observe(&mut self, service_ns: u64) {
        if self.mode != Mode::Prompt {
            return;
        }
        if service_ns <= SMALL_NS {
            self.streak = self.streak.saturating_add(1);
            self.since = (self.since + 1).min(FORGIVEN);
            self.streak = self.streak.min(self.needed);
            if self.streak == self.needed && !self.working {
                self.working = true;
                self.since = 0;
            }
            if self.since == FORGIVEN {
                self.needed = STREAK;
            }
        } else {
            self.streak = self.streak.saturating_sub(SETBACK);
            if !self.working {
                return;
            }
            if self.since >= PARDON {
                // Rare ones are the scheduler's: leaving and coming back would cost more wake-ups than it saves.
                self.since -= PARDON;
            } else {
                self.working = false;
                self.streak = 0;
                self.needed = (self.needed * 2).min(LONGEST_STREAK);
            }
        }
    }

    /// When the time to listen ends that began then.
    fn trial(&self, since: Instant) -> Instant {
        since + if self.streak > 0 { PROMISING_TRIAL } else { TRIAL }
    }
}

/// The caller's side.
struct Caller<'p, 'c, 'd, I: Iterator, W: Work<I::Item>, F, B> {
    pool: &'p Pool<'c, I, W>,
    settings: &'p Settings,
    governor: Governor,
    desk: &'d mut Desk<I::Item, W::Output, F, B>,
    lanes: Vec<SharedLane<I::Item, W::Output>>,
    policy: Policy,
    /// There are no workers, though there should be: the caller is the only carrier.
    alone: bool,
    /// Since when the caller listens, if it does.
    listening: Option<Instant>,
    /// How many workers have last been told that they may claim.
    told: usize,
    /// The caller holds a permit.
    held: bool,
    meter: Meter<'p>,
    batch: Batch,
    objects: Vec<(usize, I::Item)>,
    results: Vec<Raw<I::Item, W::Output>>,
    watch: Watch,
    warned: bool,
}

impl<'p, 'c, 'd, I, W, F, B> Caller<'p, 'c, 'd, I, W, F, B>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
    F: FnMut(Done<I::Item, W::Output>) -> ControlFlow<B>,
{
    fn new(
        pool: &'p Pool<'c, I, W>,
        settings: &'p Settings,
        governor: Governor,
        desk: &'d mut Desk<I::Item, W::Output, F, B>,
    ) -> Self {
        let policy = Policy::new(settings);
        Self {
            pool,
            settings,
            meter: pool.shared.cpu.meter(),
            governor,
            desk,
            lanes: Vec::new(),
            alone: false,
            listening: (policy.mode == Mode::Prompt).then(Instant::now),
            policy,
            told: usize::MAX,
            held: false,
            batch: Batch::new::<Raw<I::Item, W::Output>>(settings.mode),
            objects: Vec::new(),
            results: Vec::new(),
            watch: pool.shared.watch(),
            warned: false,
        }
    }

    /// Until the last object is finished. Returns why there are fewer threads than wanted, if so.
    fn drive<'scope, H: Hands<'scope>>(mut self, hands: &'scope H) -> Option<io::Error>
    where
        'p: 'scope,
    {
        let pool = self.pool;
        let shared = &pool.shared;
        // One at least, to find that there are none.
        let at_most = shared
            .source()
            .iterator
            .size_hint()
            .1
            .map_or(usize::MAX, |n| n.max(1));
        let mut shortage = None;
        let mut over = false;
        loop {
            self.tell();
            if let Some(since) = self.listening
                && self.lanes.len() >= self.told.min(at_most)
                && !shared.source().over()
            {
                let until = self.policy.trial(since);
                if Instant::now() >= until {
                    self.listening = None;
                } else if self.drain() == 0 {
                    self.listen(Some(until));
                }
                continue;
            }
            let wanted = if self.alone {
                1
            } else {
                self.workers().min(at_most)
            };
            let mut made = false;
            if self.lanes.len() < wanted && !over {
                over = shared.source().over();
                if !over && shortage.is_none() && hands.any_free() {
                    match self.hire(hands) {
                        Ok(hired) => made = hired,
                        Err(error) => {
                            shortage = Some(error);
                            self.listening = None;
                        }
                    }
                }
                if made {
                    self.stand_in(false);
                } else if self.lanes.is_empty() && !over {
                    self.stand_in(true);
                }
            }
            let drained = self.drain();
            // All carriers first: a processor may wait for another's.
            if self.policy.working && !made {
                match shared.claim(Who::Caller, &mut self.held, self.batch.want, &mut self.objects) {
                    Claim::Got => {
                        self.work();
                        continue;
                    }
                    Claim::Over => over = true,
                    Claim::Wait => {}
                }
            }
            if made || drained > 0 || self.workers() != self.told {
                continue;
            }
            let running = {
                let source = shared.source();
                over = source.over();
                source.running
            };
            if over {
                pool.recall();
                if running == 0 {
                    if self.drain() > 0 {
                        continue;
                    }
                    return shortage;
                }
            }
            self.sleep();
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
    fn hire<'scope, H: Hands<'scope>>(&mut self, hands: &'scope H) -> io::Result<bool>
    where
        'p: 'scope,
    {
        let pool = self.pool;
        let number = self.lanes.len();
        let lane = Arc::new(Lane {
            ring: Ring::new(ring_capacity::<Raw<I::Item, W::Output>>()),
            bell: Bell::new(),
            recalled: AtomicBool::new(false),
            current: AtomicUsize::new(NO_OBJECT),
        });
        pool.lanes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&lane));
        let theirs = Arc::clone(&lane);
        let started = hands.start(move || pool.worker(number, &theirs));
        if let Ok(true) = started {
            self.lanes.push(lane);
        } else {
            pool.lanes.lock().unwrap_or_else(PoisonError::into_inner).pop();
        }
        started
    }

    /// How many workers may claim now.
    fn workers(&self) -> usize {
        let degree = self.governor.degree();
        match self.policy.mode {
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
        } else if mem::take(&mut self.held) {
            pool.shared.source().running -= 1;
            if self.policy.mode == Mode::Prompt {
                self.listening = Some(Instant::now());
            }
        }
        let workers = self.workers();
        let all = workers == self.governor.degree();
        // A worker may have widened after long ones that the caller pardoned.
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
            desk,
            lanes,
            policy,
            governor,
            ..
        } = self;
        let before = governor.degree();
        let mut drained = 0;
        for lane in lanes.iter() {
            // SAFETY: only the caller drains, and `deliver` reaches no ring.
            #[allow(unsafe_code)]
            let n = unsafe {
                lane.ring.drain(|raw| {
                    policy.observe(raw.ended_ns - raw.started_ns);
                    governor.observe(raw.started_ns, raw.ended_ns, &pool.shared.cpu);
                    desk.deliver(raw);
                    if desk.broken.is_some() {
                        pool.shared.token.stop();
                    }
                })
            };
            if n > 0 {
                drained += n;
                lane.bell.ring();
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
        if self.desk.broken.is_some() {
            pool.shared.halt(Halt::Broken);
        }
        if let (true, Some(look_ahead)) = (self.desk.in_order(), self.settings.look_ahead) {
            pool.shared.source().horizon = self.desk.next.saturating_add(look_ahead.get());
            pool.recall();
        }
    }

    /// Runs the claimed objects. After each stretch of a batch's time their results are finished, and the others'.
    fn work(&mut self) {
        let pool = self.pool;
        let shared = &pool.shared;
        let mut objects = mem::take(&mut self.objects);
        let mut left = objects.drain(..);
        let mut next = left.next();
        let (mut longest_ns, mut took_ns) = (0, 0);
        while next.is_some() {
            let begun_ns = self.watch.now_ns();
            let mut started_ns = begun_ns;
            while let Some((index, mut object)) = next.take() {
                if shared.must_stop(started_ns) {
                    shared.give_back(std::iter::once((index, object)).chain(left.by_ref()), started_ns);
                    break;
                }
                let output = catch_unwind(AssertUnwindSafe(|| shared.work.run(&mut object)));
                let ended_ns = self.watch.now_ns();
                self.policy.observe(ended_ns - started_ns);
                self.meter.tick(ended_ns);
                let before = self.governor.degree();
                self.governor.observe(started_ns, ended_ns, &shared.cpu);
                if self.governor.degree() != before {
                    pool.set_degree(self.governor.degree());
                }
                longest_ns = longest_ns.max(ended_ns - started_ns);
                match output {
                    Ok(result) => {
                        if shared.work.halts(&result) {
                            shared.halt(Halt::Failed);
                        }
                        self.results.push(Raw {
                            index,
                            started_ns,
                            ended_ns,
                            object,
                            result,
                        });
                    }
                    Err(panic) => shared.panicked(panic),
                }
                started_ns = ended_ns;
                next = left.next();
                if started_ns - begun_ns >= self.batch.ns {
                    break;
                }
            }
            took_ns += started_ns - begun_ns;
            for raw in self.results.drain(..) {
                self.desk.deliver(raw);
                if self.desk.broken.is_some() {
                    shared.token.stop();
                }
            }
            self.after_delivery();
            self.drain();
        }
        drop(left);
        self.objects = objects;
        self.batch.adapt(longest_ns, took_ns);
    }

    /// Sleeps until a result or other news comes, or until then: `false` if nothing has come.
    fn listen(&self, until: Option<Instant>) -> bool {
        let pool = self.pool;
        let news =
            || pool.nudged.swap(false, Ordering::SeqCst) || self.lanes.iter().any(|lane| lane.ring.len() > 0);
        pool.shared.caller.wait(news, until)
    }

    /// Until a result or other news comes; at the deadline, names whoever still runs.
    fn sleep(&mut self) {
        let pool = self.pool;
        let shared = &pool.shared;
        let lanes = &self.lanes;
        let news =
            || pool.nudged.swap(false, Ordering::SeqCst) || lanes.iter().any(|lane| lane.ring.len() > 0);
        let until = if self.warned { None } else { shared.deadline() };
        if shared.caller.wait(news, until) {
            return;
        }
        self.warned = true;
        shared.halt(Halt::Deadline);
        for lane in &self.lanes {
            let index = lane.current.load(Ordering::Relaxed);
            if index != NO_OBJECT {
                self.settings.warn(Warning::Overrun { index });
            }
        }
    }
}
