//! What the carriers of one call share: the objects and the permits, under one lock.
//!
//! A carrier claims objects and the permit to run them in one step, so "at most *k*" is decided in one place, under
//! a lock, and holds by construction: `running` counts the carriers that hold claimed objects, and a claim that
//! would exceed the degree is refused. A carrier gives its permit back at its next claim.
//!
//! Lock order: this lock is the only one held while foreign code runs, and that code is the iterator's. Bells are
//! rung after it is released.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::adaptive::CpuTime;
use crate::bell::Bell;
use crate::execution::Settings;
use crate::progress::Listener;
use crate::stop::StopToken;
use crate::watch::Watch;

/// How an object is processed. One for all, or its own, with errors or without: all look the same from here.
pub(crate) trait Work<O>: Sync {
    type Output: Send;
    fn run(&self, object: &mut O) -> Self::Output;
    /// Whether this output ends the call.
    fn halts(&self, output: &Self::Output) -> bool;
}

/// An object on its way from its carrier to the caller.
pub(crate) struct Raw<O, R> {
    pub(crate) index: usize,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) object: O,
    pub(crate) result: R,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    Stopped,
    Deadline,
    Failed,
    Broken,
    Panicked,
    /// No helper process is left, nor can one be started.
    #[cfg(all(feature = "process", unix))]
    NoCarrier,
}

/// What a claim brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Objects, and the permit to run them.
    Got,
    /// Nothing now.
    Wait,
    /// Nothing any more.
    Over,
}

/// Who claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Caller,
    /// A worker, by its number: it stands down when its number is not below `allowed`.
    Worker(usize),
}

pub(crate) struct Source<I: Iterator> {
    /// The objects not yet taken. Dropped by the caller, never here: a drop is foreign code.
    pub(crate) iterator: I,
    /// It said that there are no more.
    pub(crate) exhausted: bool,
    next: usize,
    /// Objects taken but not started, given back at a halt.
    pub(crate) returned: Vec<(usize, I::Item)>,
    pub(crate) running: usize,
    pub(crate) most_running: usize,
    /// So many carriers may hold a permit now; changed by the caller alone, never above the call's bound.
    pub(crate) degree: usize,
    /// Workers with a lower number may claim.
    pub(crate) allowed: usize,
    /// Objects with a lower index may be claimed.
    pub(crate) horizon: usize,
    pub(crate) halt: Option<Halt>,
    pub(crate) panic: Option<Box<dyn Any + Send>>,
    /// Workers that stand down and wait to be called back, by number.
    pub(crate) benched: Vec<usize>,
}

impl<I: Iterator> Source<I> {
    pub(crate) fn over(&self) -> bool {
        self.exhausted || self.halt.is_some()
    }

    /// The first reason stays.
    pub(crate) fn halt(&mut self, why: Halt, token: &StopToken) {
        self.halt.get_or_insert(why);
        token.stop();
    }
}

pub(crate) struct Shared<'c, I: Iterator, W> {
    source: Mutex<Source<I>>,
    pub(crate) work: &'c W,
    /// Who wants to know how far it is.
    listener: Option<&'c Listener>,
    /// What the carriers have used of the CPUs, where the degree depends on it.
    pub(crate) cpu: CpuTime,
    pub(crate) token: &'c StopToken,
    pub(crate) epoch: Instant,
    pub(crate) deadline_ns: u64,
    /// The caller sleeps here.
    pub(crate) caller: Bell,
}

impl<'c, I: Iterator, W> Shared<'c, I, W> {
    pub(crate) fn new(iterator: I, work: &'c W, settings: &'c Settings, epoch: Instant) -> Self {
        let caller = Bell::new();
        caller.attach();
        Self {
            source: Mutex::new(Source {
                iterator,
                exhausted: false,
                next: 0,
                returned: Vec::new(),
                running: 0,
                most_running: 0,
                degree: settings.degree.most(),
                allowed: usize::MAX,
                horizon: settings.look_ahead.map_or(usize::MAX, |n| n.get()),
                halt: None,
                panic: None,
                benched: Vec::new(),
            }),
            work,
            listener: settings.listener.as_ref(),
            cpu: CpuTime::new(settings.degree),
            token: &settings.token,
            epoch,
            deadline_ns: settings
                .deadline
                .map_or(u64::MAX, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
            caller,
        }
    }

    /// The lock. Foreign code under it is caught, so it is never poisoned while its content is in doubt.
    pub(crate) fn source(&self) -> MutexGuard<'_, Source<I>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_source(self) -> Source<I> {
        self.source.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the start of the call.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// The same, for one thread that asks often.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(self.epoch)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.deadline_ns != u64::MAX).then(|| self.epoch + std::time::Duration::from_nanos(self.deadline_ns))
    }

    /// Whether nothing more may start, at the given time.
    #[inline]
    pub(crate) fn must_stop(&self, now_ns: u64) -> bool {
        self.token.is_stopped() || now_ns >= self.deadline_ns
    }

    /// Claims up to `want` objects. More than one only as far as the iterator promises that it has them, so that
    /// nobody waits in `next` with objects in hand, and only its share of what is left.
    ///
    /// `held` says whether this carrier holds a permit; it is brought up to date.
    pub(crate) fn claim(
        &self,
        who: Who,
        held: &mut bool,
        want: usize,
        into: &mut Vec<(usize, I::Item)>,
    ) -> Claim {
        let now_ns = if self.deadline_ns == u64::MAX {
            0
        } else {
            self.now_ns()
        };
        let mut guard = self.source();
        let source = &mut *guard;
        if std::mem::take(held) {
            source.running -= 1;
        }
        if !source.over() {
            if self.token.is_stopped() {
                source.halt(Halt::Stopped, self.token);
            } else if now_ns >= self.deadline_ns {
                source.halt(Halt::Deadline, self.token);
            }
        }
        if source.over() {
            return Claim::Over;
        }
        let iterator = &mut source.iterator;
        let beyond = matches!(who, Who::Worker(number) if number >= source.allowed);
        // Until those that are to stand down have done so; else the caller might take the permit of one that is not.
        let early = who == Who::Caller && source.running > source.allowed;
        if beyond || early || source.running >= source.degree || source.next >= source.horizon {
            if let Who::Worker(number) = who {
                source.benched.push(number);
            }
            return Claim::Wait;
        }
        let want = if want > 1 {
            let share = iterator.size_hint().0 / (2 * source.degree);
            want.min(share).min(source.horizon - source.next).max(1)
        } else {
            1
        };
        let pulled = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..want {
                match iterator.next() {
                    Some(object) => into.push((source.next, object)),
                    None => return true,
                }
                source.next += 1;
            }
            false
        }));
        match pulled {
            Ok(true) => source.exhausted = true,
            Ok(false) => {}
            Err(panic) => {
                source.panic.get_or_insert(panic);
                source.halt(Halt::Panicked, self.token);
            }
        }
        if into.is_empty() {
            return Claim::Over;
        }
        if let Some(listener) = self.listener {
            // Relaxed: a figure to look at.
            listener.started.store(source.next, Ordering::Relaxed);
        }
        *held = true;
        source.running += 1;
        source.most_running = source.most_running.max(source.running);
        Claim::Got
    }

    /// Gives back what was claimed and not started.
    pub(crate) fn give_back(&self, objects: impl Iterator<Item = (usize, I::Item)>, now_ns: u64) {
        let mut source = self.source();
        let why = if now_ns >= self.deadline_ns {
            Halt::Deadline
        } else {
            Halt::Stopped
        };
        source.halt(why, self.token);
        source.returned.extend(objects);
    }

    pub(crate) fn panicked(&self, panic: Box<dyn Any + Send>) {
        let mut source = self.source();
        source.panic.get_or_insert(panic);
        source.halt(Halt::Panicked, self.token);
    }

    pub(crate) fn halt(&self, why: Halt) {
        self.source().halt(why, self.token);
    }
}
