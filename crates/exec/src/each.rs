//! A thread for each object, made when its turn comes or before any runs.
//!
//! The caller claims an object, puts it into a free slot and makes the thread for it, or releases the one that was made
//! for it up front; ended ones are looked for
//! before each new one is started, so that no finisher is late because slots had to be filled first. A thread takes its
//! object from the slot, runs it, leaves the result there, names the slot in the list of ended ones and rings.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::{io, mem};

use crate::adaptive::Governor;
use crate::desk::Desk;
use crate::execution::Settings;
use crate::outcome::{Done, Warning};
use crate::pool::Ran;
use crate::shared::{Claim, Halt, Raw, Shared, Who, Work};

enum Slot<O, R> {
    Free,
    Given(usize, O),
    Running(usize),
    Ended(Raw<O, R>),
}

/// A slot, shared by the caller and the thread at work in it.
type SharedSlot<O, R> = Arc<Mutex<Slot<O, R>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Threads<'c, I: Iterator, W: Work<I::Item>> {
    shared: Shared<'c, I, W>,
    /// Numbers of slots whose thread has ended its object.
    ended: Mutex<Vec<usize>>,
}

impl<I, W> Threads<'_, I, W>
where
    I: Iterator,
    W: Work<I::Item>,
{
    /// The thread of one object.
    fn run(&self, number: usize, slot: &Mutex<Slot<I::Item, W::Output>>) {
        let given = mem::replace(&mut *locked(slot), Slot::Free);
        let Slot::Given(index, mut object) = given else {
            return;
        };
        *locked(slot) = Slot::Running(index);
        let mut meter = self.shared.cpu.meter();
        let started_ns = self.shared.now_ns();
        let output = catch_unwind(AssertUnwindSafe(|| self.shared.work.run(&mut object)));
        let ended_ns = self.shared.now_ns();
        meter.read();
        match output {
            Ok(result) => {
                if self.shared.work.halts(&result) {
                    self.shared.halt(Halt::Failed);
                }
                *locked(slot) = Slot::Ended(Raw {
                    index,
                    started_ns,
                    ended_ns,
                    object,
                    result,
                });
            }
            Err(panic) => {
                self.shared.panicked(panic);
                *locked(slot) = Slot::Free;
            }
        }
        self.shared.source().running -= 1;
        // Under a lock, so the bell's owner sees it when it looks again.
        locked(&self.ended).push(number);
        self.shared.caller.ring();
    }
}

/// When the finisher panics, those that run are told.
struct Leaving<'t, 'c, I: Iterator, W: Work<I::Item>>(&'t Threads<'c, I, W>);

impl<I: Iterator, W: Work<I::Item>> Drop for Leaving<'_, '_, I, W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.shared.halt(Halt::Panicked);
        }
    }
}

/// A thread that was made up front: it sleeps until it gets its slot, and ends if the other end goes.
type Suspended<O, R> = Sender<(usize, SharedSlot<O, R>)>;

/// Makes a thread for an object that is to come.
fn suspended<'scope, I, W>(
    scope: &'scope Scope<'scope, '_>,
    threads: &'scope Threads<'_, I, W>,
) -> io::Result<Suspended<I::Item, W::Output>>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
{
    let (release, released) = channel::<(usize, SharedSlot<I::Item, W::Output>)>();
    Builder::new()
        .name("exec-object".into())
        .spawn_scoped(scope, move || {
            if let Ok((number, slot)) = released.recv() {
                threads.run(number, &slot);
            }
        })?;
    Ok(release)
}

/// Runs a call; with so many threads made up front.
pub(crate) fn run<I, W, F, B>(
    shared: Shared<'_, I, W>,
    settings: &Settings,
    up_front: usize,
    desk: &mut Desk<I::Item, W::Output, F, B>,
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
        ended: Mutex::new(Vec::new()),
    };
    let thread_shortage = std::thread::scope(|scope| {
        let threads = &threads;
        let shared = &threads.shared;
        let _leaving = Leaving(threads);
        let mut shortage: Option<io::Error> = None;
        let mut slots: Vec<SharedSlot<I::Item, W::Output>> = Vec::new();
        let mut free = Vec::new();
        let mut ended = Vec::new();
        let mut objects = Vec::new();
        let mut warned = false;
        let mut at_work = 0_usize;
        let mut stock = VecDeque::new();
        while stock.len() < up_front && shortage.is_none() && !shared.must_stop(shared.now_ns()) {
            match suspended(scope, threads) {
                Ok(thread) => stock.push_back(thread),
                Err(error) => shortage = Some(error),
            }
        }
        loop {
            mem::swap(&mut ended, &mut *locked(&threads.ended));
            for number in ended.drain(..) {
                at_work -= 1;
                let slot = mem::replace(&mut *locked(&slots[number]), Slot::Free);
                free.push(number);
                if let Slot::Ended(raw) = slot {
                    governor.observe(raw.started_ns, raw.ended_ns, &shared.cpu);
                    desk.deliver(raw);
                }
            }
            shared.source().degree = governor.degree();
            if desk.broken.is_some() {
                shared.halt(Halt::Broken);
            }
            if let (true, Some(look_ahead)) = (desk.in_order(), settings.look_ahead) {
                shared.source().horizon = desk.next.saturating_add(look_ahead.get());
            }
            // The thread gives the permit back itself.
            let claim = shared.claim(Who::Caller, &mut false, 1, &mut objects);
            if claim == Claim::Got
                && let Some((index, object)) = objects.pop()
            {
                let number = free.pop().unwrap_or_else(|| {
                    slots.push(Arc::new(Mutex::new(Slot::Free)));
                    slots.len() - 1
                });
                let slot = Arc::clone(&slots[number]);
                *locked(&slot) = Slot::Given(index, object);
                at_work += 1;
                if let Some(thread) = stock.pop_front()
                    && thread.send((number, Arc::clone(&slot))).is_ok()
                {
                    continue;
                }
                let theirs = Arc::clone(&slot);
                let spawned = Builder::new()
                    .name("exec-object".into())
                    .spawn_scoped(scope, move || threads.run(number, &theirs));
                if let Err(error) = spawned {
                    shortage.get_or_insert(error);
                    threads.run(number, &slot);
                }
                continue;
            }
            if at_work == 0 && claim == Claim::Over {
                return shortage;
            }
            let until = if warned { None } else { shared.deadline() };
            if !shared.caller.wait(|| !locked(&threads.ended).is_empty(), until) {
                warned = true;
                shared.halt(Halt::Deadline);
                for slot in &slots {
                    let index = match &*locked(slot) {
                        Slot::Given(index, _) | Slot::Running(index) => *index,
                        Slot::Free | Slot::Ended(_) => continue,
                    };
                    settings.warn(Warning::Overrun { index });
                }
            }
        }
    });
    Ran {
        source: threads.shared.into_source(),
        thread_shortage,
    }
}
