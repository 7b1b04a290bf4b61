//! The pool for one call: who runs where, when to wake, and whether the caller works too.
//!
//! A **worker** claims objects, runs them and puts each result into the ring of its **slot**; the caller empties
//! the rings. Waking a sleeper on another CPU costs 20 µs where handing over an item costs 10 ns, so everything here
//! is about not waking. A worker is in one of these states:
//!
//! - *running*: it holds a permit, taken together with its objects;
//! - *full*: its ring has no room; it sleeps until the caller has made some (so a finisher that blocks is
//!   back-pressure, not memory);
//! - *parked*: there is nothing for it to claim now: its number is not `allowed`, all permits are out, or the
//!   objects are too far ahead of the finisher. It sleeps until it is recalled; a permit that it had goes to one of
//!   those that wait for one, as does the caller's when it stops working.
//!
//! The caller is *idle* (asleep until it is notified), *finishing*, *listening* (idle, with workers on all CPUs but
//! one, to see how short the work is), or *working*: it holds one of the *k* permits and runs processors itself
//! between two looks at the rings. Working saves the wake-up for each result, but while the caller runs a processor,
//! results of others wait. So it works only after a streak of service times that are small against a wake-up
//! ([`policy::SMALL_NS`]) and stops at a long one, unless enough short ones ([`policy::SHORT_PER_LONG`]) outweigh it;
//! each time that it had to stop it asks for a streak twice as long, up to what short ones count at most
//! ([`policy::MOST_CREDIT`]); after so many it asks for the first again. While it works in the default mode there are
//! as many workers beside it as leave it a CPU, the rest is parked: more could only take CPUs from those. A worker
//! that sees long service times recalls the others by itself.
//!
//! A worker whose turn it is at the iterator may be held up there. The caller is not: while it works beside others it
//! takes what they have pulled, and it asks the iterator itself only where nobody else is at work, one object after the
//! other, each finished before the next is asked for; or as one of the carriers of the throughput mode. So it works
//! alone until its first worker has come, for a while where the workers bring it nothing, and where objects are so
//! brief that sharing them costs as much as they take. A worker held up with objects in the buffer that nobody runs is
//! relieved after [`STALL`](caller::STALL): another gets its permit, one more thread if there is none.
//!
//! Batches: a claim costs a lock, so short objects are claimed together, as many as make up 4 µs
//! (50 µs in the throughput mode); the count doubles only while every object is short and falls to one at the
//! first that is not. Results leave one by one.

mod batch;
mod caller;
mod policy;
#[cfg(test)]
mod tests;
mod worker;

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use crate::adaptive::Governor;
use crate::flag::Flag;
use crate::outcome::Done;
use crate::own_threads;
use crate::report::Ran;
use crate::result_sink::ResultSink;
use crate::scoped;
use crate::settings::Settings;
use crate::shared::{HaltReason, Shared};
use crate::thread_pool::ThreadPool;
use crate::work::Work;
use caller::Caller;
use worker::Pool;

/// Runs a call, on threads made for it or on those of a pool.
pub(crate) fn run<I, W, F, B>(
    shared: Shared<'_, I, W>,
    settings: &Settings,
    threads: Option<&ThreadPool>,
    sink: &mut ResultSink<I::Item, W::Output, F, B>,
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
        slots: Mutex::new(Vec::new()),
        narrowed: AtomicBool::new(false),
        abandoned: Flag::default(),
    };
    let thread_shortage = match threads {
        None => own_threads::scope(|threads| {
            let _leaving = Leaving(&pool);
            Caller::new(&pool, settings, governor, sink).drive(threads)
        }),
        Some(threads) => scoped::scope(threads, |scope| {
            let _leaving = Leaving(&pool);
            Caller::new(&pool, settings, governor, sink).drive(scope)
        }),
    };
    Ran::of(pool.shared, thread_shortage)
}

/// However the caller leaves, no worker stays behind, asleep.
struct Leaving<'p, 'c, I: Iterator, W: Work<I::Item>>(&'p Pool<'c, I, W>);

impl<I: Iterator, W: Work<I::Item>> Drop for Leaving<'_, '_, I, W> {
    fn drop(&mut self) {
        let pool = self.0;
        if std::thread::panicking() {
            pool.shared.halt(HaltReason::Panicked);
        }
        pool.abandoned.raise();
        for slot in pool.slots.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            slot.worker.notify();
        }
    }
}
