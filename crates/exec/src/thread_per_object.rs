//! A thread for each object, made when its turn comes or before any runs.
//!
//! One thread at a time *dispatches*: it claims objects as long as there are permits, and makes a thread for each, or
//! releases one that was made up front. A thread that has ended its object leaves the result, gives its permit back,
//! notifies the caller, and dispatches, unless somebody does or too many results wait for the finisher. So the caller
//! is never held up by the iterator, and an object does not wait for the caller to wake. Where nobody is there to
//! dispatch (at first, or when the caller has raised the degree or the horizon, or made up for what waited), the caller
//! makes a thread that does nothing else.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, mem};

use crate::adaptive::Governor;
use crate::discard::discard;
use crate::outcome::{Done, Warning};
use crate::own_threads::{self, OwnThreads};
use crate::report::Ran;
use crate::result_sink::ResultSink;
use crate::settings::Settings;
use crate::shared::{Claim, Claimed, HaltReason, Shared, Who};
use crate::work::{Raw, Work};

/// The name of an object's thread.
const OBJECT: &str = "exec-object";

/// An object for a thread that is being made, and would be lost with it.
type Given<O> = Arc<Mutex<Option<(usize, O)>>>;

/// A thread that was made up front: it sleeps until it gets its object, and ends if the other end goes.
type Suspended<O> = Sender<Given<O>>;

/// What the threads and the caller tell each other.
struct State<O, R> {
    ended: Vec<Raw<O, R>>,
    /// Results that are not finished: these, and those that the caller is at.
    unfinished: usize,
    /// Indices of the objects that have a thread.
    at_work: Vec<usize>,
    /// Objects for which no thread could be made.
    stranded: Vec<(usize, O)>,
    suspended: VecDeque<Suspended<O>>,
    /// Somebody dispatches.
    dispatching: bool,
    shortage: Option<io::Error>,
}

struct Threads<'c, I: Iterator, W: Work<I::Item>> {
    shared: Shared<'c, I, W>,
    state: Mutex<State<I::Item, W::Output>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<I, W> Threads<'_, I, W>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
{
    fn state(&self) -> MutexGuard<'_, State<I::Item, W::Output>> {
        locked(&self.state)
    }

    /// The thread of one object.
    fn thread<'scope>(&'scope self, own: &OwnThreads<'scope, '_>, given: &Given<I::Item>) {
        let given = locked(given).take();
        if let Some((index, object)) = given {
            self.run(index, object);
            if !mem::replace(&mut self.state().dispatching, true) {
                self.dispatch(own);
            }
        }
    }

    /// Runs an object, and gives its permit back.
    fn run(&self, index: usize, mut object: I::Item) {
        let shared = &self.shared;
        let mut meter = shared.cpu.meter();
        let started_ns = shared.now_ns();
        let mut ended = None;
        // It may have taken long to make this thread.
        if shared.must_stop(started_ns) {
            shared.give_back(std::iter::once((index, object)), started_ns);
        } else {
            let output = catch_unwind(AssertUnwindSafe(|| shared.work.run(&mut object)));
            let ended_ns = shared.now_ns();
            meter.read();
            match output {
                Ok(result) => {
                    if shared.work.halts(&result) {
                        shared.halt(HaltReason::Failed);
                    }
                    ended = Some(Raw {
                        index,
                        started_ns,
                        ended_ns,
                        object,
                        result,
                    });
                }
                Err(panic) => {
                    shared.panicked(panic);
                    discard(object);
                }
            }
        }
        {
            let mut state = self.state();
            state.at_work.retain(|other| *other != index);
            state.unfinished += usize::from(ended.is_some());
            state.ended.extend(ended);
        }
        shared.source().running -= 1;
        shared.wake_caller();
    }

    /// A thread that was made where nobody dispatched: it does so, and runs the last object that may be started itself.
    fn dispatcher<'scope>(&'scope self, own: &OwnThreads<'scope, '_>) {
        while let Some((index, object)) = self.claim_next() {
            if !self.may_start() {
                self.state().at_work.push(index);
                self.state().dispatching = false;
                self.run(index, object);
                if mem::replace(&mut self.state().dispatching, true) {
                    return;
                }
                break;
            } else if !self.start(own, index, object) {
                break;
            }
        }
        self.dispatch(own);
    }

    /// Starts as many objects as may be at work. `dispatching` has been set.
    fn dispatch<'scope>(&'scope self, own: &OwnThreads<'scope, '_>) {
        loop {
            while let Some((index, object)) = self.claim_next() {
                if !self.start(own, index, object) {
                    break;
                }
            }
            let stranded = {
                let mut state = self.state();
                state.dispatching = false;
                !state.stranded.is_empty()
            };
            // What has become possible meanwhile was left to this thread.
            if stranded || !self.may_start() || mem::replace(&mut self.state().dispatching, true) {
                break;
            }
        }
        // It may have been the last.
        self.shared.wake_caller();
    }

    /// Whether there may be an object to start, and not too much waits for the finisher.
    fn may_start(&self) -> bool {
        let degree = self.shared.source().degree;
        self.state().unfinished <= degree && self.shared.is_claimable()
    }

    /// Claims the next object, if there is one now.
    fn claim_next(&self) -> Option<(usize, I::Item)> {
        if !self.may_start() {
            return None;
        }
        let mut claimed = Claimed::default();
        // The permit is the thread's, which gives it back itself.
        match self
            .shared
            .claim(Who::Caller, &mut false, 1, &mut claimed, |_| ())
        {
            Claim::Got => claimed.objects.pop(),
            Claim::Wait | Claim::Busy | Claim::Over => None,
        }
    }

    /// Starts a thread for an object; `false` if there is none to be had.
    fn start<'scope>(&'scope self, own: &OwnThreads<'scope, '_>, index: usize, object: I::Item) -> bool {
        let given = Arc::new(Mutex::new(Some((index, object))));
        let suspended = {
            let mut state = self.state();
            state.at_work.push(index);
            state.suspended.pop_front()
        };
        if suspended.is_some_and(|thread| thread.send(Arc::clone(&given)).is_ok()) {
            return true;
        }
        let (theirs, more) = (Arc::clone(&given), own.clone());
        let made = own.spawn(OBJECT, move || self.thread(&more, &theirs));
        let Err(error) = made else { return true };
        let object = locked(&given).take();
        let mut state = self.state();
        state.shortage.get_or_insert(error);
        state.stranded.extend(object);
        false
    }

    /// Makes a thread that dispatches, if nobody does and there is something to start.
    fn ensure_dispatcher<'scope>(&'scope self, own: &OwnThreads<'scope, '_>) {
        if !self.may_start() {
            return;
        }
        {
            let mut state = self.state();
            if state.dispatching {
                return;
            }
            if state.shortage.is_none() {
                state.dispatching = true;
                drop(state);
                let more = own.clone();
                let made = own.spawn("exec-source", move || self.dispatcher(&more));
                let Err(error) = made else { return };
                let mut state = self.state();
                state.dispatching = false;
                state.shortage.get_or_insert(error);
            }
        }
        // Threads are short: those at work go on, and where there are none, the caller does.
        if self.shared.source().running == 0
            && let Some((index, object)) = self.claim_next()
        {
            self.start(own, index, object);
        }
    }
}

/// Threads that were not released end, and when the finisher panics, those that run are told.
struct Leaving<'t, 'c, I: Iterator, W: Work<I::Item>>(&'t Threads<'c, I, W>);

impl<I: Iterator, W: Work<I::Item>> Drop for Leaving<'_, '_, I, W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.shared.halt(HaltReason::Panicked);
        }
        let suspended = mem::take(&mut locked(&self.0.state).suspended);
        drop(suspended);
    }
}

/// Makes a thread for an object that is to come.
fn suspended<'scope, I, W>(
    own: &OwnThreads<'scope, '_>,
    threads: &'scope Threads<'_, I, W>,
) -> io::Result<Suspended<I::Item>>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
{
    let (release, released) = channel::<Given<I::Item>>();
    let more = own.clone();
    own.spawn(OBJECT, move || {
        if let Ok(given) = released.recv() {
            threads.thread(&more, &given);
        }
    })?;
    Ok(release)
}

/// Runs a call; with so many threads made up front.
pub(crate) fn run<I, W, F, B>(
    shared: Shared<'_, I, W>,
    settings: &Settings,
    up_front: usize,
    sink: &mut ResultSink<I::Item, W::Output, F, B>,
) -> Ran<I>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
    F: FnMut(Done<I::Item, W::Output>) -> ControlFlow<B>,
{
    let mut governor = Governor::new(settings.degree, true);
    shared.source().degree = governor.degree();
    let threads = Threads {
        shared,
        state: Mutex::new(State {
            ended: Vec::new(),
            unfinished: 0,
            at_work: Vec::new(),
            stranded: Vec::new(),
            suspended: VecDeque::new(),
            dispatching: false,
            shortage: None,
        }),
    };
    own_threads::scope(|own| {
        let threads = &threads;
        let shared = &threads.shared;
        let _leaving = Leaving(threads);
        for _ in 0..up_front {
            if shared.must_stop(shared.now_ns()) {
                break;
            }
            match suspended(own, threads) {
                Ok(thread) => threads.state().suspended.push_back(thread),
                Err(error) => {
                    threads.state().shortage = Some(error);
                    break;
                }
            }
        }
        let mut ended = Vec::new();
        let mut warned = false;
        loop {
            let (stranded, dispatching) = {
                let mut state = threads.state();
                mem::swap(&mut ended, &mut state.ended);
                (state.stranded.pop(), state.dispatching)
            };
            for raw in ended.drain(..) {
                governor.observe(raw.started_ns, raw.ended_ns, &shared.cpu);
                sink.deliver(raw);
                threads.state().unfinished -= 1;
                if sink.broken.is_some() {
                    shared.halt(HaltReason::Broken);
                }
            }
            {
                let mut source = shared.source();
                source.degree = governor.degree();
                if let (true, Some(look_ahead)) = (sink.in_order(), settings.look_ahead) {
                    source.horizon = sink.next.saturating_add(look_ahead.get());
                }
            }
            if let Some((index, object)) = stranded {
                threads.run(index, object);
                continue;
            }
            let is_over = || {
                let source = shared.source();
                source.over() && source.running == 0
            };
            if !dispatching && is_over() && threads.state().ended.is_empty() {
                return;
            }
            threads.ensure_dispatcher(own);
            let until = if warned { None } else { shared.deadline() };
            if !shared.caller.wait(|| shared.wake_pending.take(), until) {
                warned = true;
                shared.halt(HaltReason::Deadline);
                let at_work = threads.state().at_work.clone();
                for index in at_work {
                    settings.warn(Warning::Overrun { index });
                }
            }
        }
    });
    let shortage = threads.state().shortage.take();
    Ran::of(threads.shared, shortage)
}
