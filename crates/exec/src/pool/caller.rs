//! The caller's side of a call: it makes workers, finishes what lies in their rings, works when that is cheaper, and
//! otherwise sleeps. Its states are named in the head of [`pool`](super).

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use std::{io, mem};

use super::batch::Batch;
use super::policy::{Policy, STREAK};
use super::{Lane, NO_OBJECT, Pool, SharedLane, ring_capacity};
use crate::adaptive::{Governor, Meter};
use crate::bell::Bell;
use crate::degree::cpus;
use crate::desk::Desk;
use crate::execution::{Mode, Settings};
use crate::flag::Flag;
use crate::hands::Hands;
use crate::outcome::{Done, Warning};
use crate::ring::Ring;
use crate::shared::{Claim, Halt, Raw, Who, Work};
use crate::watch::Watch;

/// The caller's side of a call.
pub(super) struct Caller<'p, 'c, 'd, I: Iterator, W: Work<I::Item>, F, B> {
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
    pub(super) fn new(
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
    pub(super) fn drive<'scope, H: Hands<'scope>>(mut self, hands: &'scope H) -> Option<io::Error>
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
            recalled: Flag::default(),
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
        let news = || pool.nudged.take() || self.lanes.iter().any(|lane| lane.ring.len() > 0);
        pool.shared.caller.wait(news, until)
    }

    /// Until a result or other news comes; at the deadline, names whoever still runs.
    fn sleep(&mut self) {
        let pool = self.pool;
        let shared = &pool.shared;
        let lanes = &self.lanes;
        let news = || pool.nudged.take() || lanes.iter().any(|lane| lane.ring.len() > 0);
        let until = if self.warned { None } else { shared.deadline() };
        if shared.caller.wait(news, until) {
            return;
        }
        self.warned = true;
        shared.halt(Halt::Deadline);
        // SeqCst: pairs with the fence in `Pool::names`.
        fence(Ordering::SeqCst);
        for lane in &self.lanes {
            let index = lane.current.load(Ordering::Relaxed);
            if index != NO_OBJECT {
                self.settings.warn(Warning::Overrun { index });
            }
        }
    }
}
