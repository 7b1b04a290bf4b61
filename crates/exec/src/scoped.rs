//! Scoped work on the threads of a pool: it borrows, and they outlive it. The one place where a lifetime is erased.
//!
//! [`scope`] is to a [`ThreadPool`] what [`std::thread::scope`] is to new threads, and rests on the same argument: the
//! scope does not end, not even by a panic, before every lease on it has. A lease ends when its work has been
//! run *and dropped*, or dropped without having been run; from then on its thread touches nothing that was lent but the
//! latch, which it owns a share of.
#![allow(unsafe_code)]

use std::any::Any;
use std::io;
use std::marker::PhantomData;
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::discard::{discard, keep_first};
use crate::thread_pool::{Job, PoolShared, ThreadPool};
use crate::thread_source::ThreadSource;

/// Counts the leases of a scope.
#[derive(Default)]
struct Latch {
    state: Mutex<Leases>,
    ended: Condvar,
}

#[derive(Default)]
struct Leases {
    running: usize,
    /// The first panic that a job let out.
    panic: Option<Box<dyn Any + Send>>,
}

/// One job's hold on its scope.
struct Lease(Arc<Latch>);

impl Lease {
    fn new(latch: &Arc<Latch>) -> Self {
        latch.state.lock().unwrap_or_else(PoisonError::into_inner).running += 1;
        Self(Arc::clone(latch))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running -= 1;
        if state.running == 0 {
            self.0.ended.notify_one();
        }
    }
}

/// The work of a job and its lease; dropped in this order.
struct ScopedJob<W> {
    work: W,
    lease: Lease,
}

impl<W: FnOnce()> ScopedJob<W> {
    fn run(self, shared: &PoolShared) {
        let Self { work, lease } = self;
        // The work, and with it all that it borrows, is gone when this returns.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            let later = {
                let mut state = lease.0.state.lock().unwrap_or_else(PoisonError::into_inner);
                keep_first(&mut state.panic, panic)
            };
            discard(later);
        }
        // First free, then gone: the next call finds this thread.
        shared.one_is_free();
        drop(lease);
    }
}

/// A scope in which a pool's threads may borrow.
pub(crate) struct Scope<'scope, 'env: 'scope> {
    /// None after a `fork`: its threads are in another process.
    pool: Option<&'env ThreadPool>,
    latch: Arc<Latch>,
    /// Invariant, as in the standard library: nobody may shorten or stretch it.
    scope: PhantomData<&'scope mut &'scope ()>,
}

impl<'scope> ThreadSource<'scope> for Scope<'scope, '_> {
    fn any_free(&self) -> bool {
        self.pool.is_some_and(ThreadPool::any_free)
    }

    fn start(&self, work: impl FnOnce() + Send + 'scope) -> io::Result<bool> {
        let Some(pool) = self.pool else {
            return Ok(false);
        };
        let scoped = ScopedJob {
            work,
            lease: Lease::new(&self.latch),
        };
        let job: Box<dyn FnOnce(&PoolShared) + Send + 'scope> =
            Box::new(move |shared: &PoolShared| scoped.run(shared));
        // SAFETY: only the lifetime changes. `scope` below returns, or lets a panic through, only when no lease is
        // left, and a lease is dropped after its work: whoever holds the job, running, queued or about to drop it,
        // holds it while everything that outlives `'scope` is still there. `'scope` is invariant and
        // chosen by `scope`, so that the work cannot borrow from the body's own frame. The box's memory itself, freed
        // after the lease, is nobody's loan.
        let job = unsafe { transmute::<Box<dyn FnOnce(&PoolShared) + Send + 'scope>, Job>(job) };
        pool.start(job)
    }
}

/// Runs `body` here, which may start work on the threads of `pool`; returns when the body and all that work have ended.
/// A panic of the body goes on, else the first of the work's.
pub(crate) fn scope<'env, T>(
    pool: &'env ThreadPool,
    body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
) -> T {
    let scope = Scope {
        pool: Some(pool).filter(|pool| pool.is_here()),
        latch: Arc::default(),
        scope: PhantomData,
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    let mut state = scope.latch.state.lock().unwrap_or_else(PoisonError::into_inner);
    while state.running > 0 {
        state = scope
            .latch
            .ended
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
    }
    let panic = state.panic.take();
    drop(state);
    match (outcome, panic) {
        (Err(panic), _) | (Ok(_), Some(panic)) => resume_unwind(panic),
        (Ok(value), None) => value,
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    fn pool(threads: usize) -> ThreadPool {
        ThreadPool::new(NonZeroUsize::new(threads).unwrap())
    }

    /// Raises its counter when dropped, so that it shows who still holds what was lent.
    struct Borrowed<'a>(&'a AtomicUsize);

    impl Drop for Borrowed<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn work_has_ended_and_is_dropped_when_the_scope_returns() {
        let pool = pool(3);
        for _ in 0..200 {
            let (dropped, mut started) = (AtomicUsize::new(0), 0);
            let mut text = vec![String::from("a"); 3];
            scope(&pool, |scope| {
                for text in &mut text {
                    let borrowed = Borrowed(&dropped);
                    let job = move || {
                        text.push('b');
                        drop(borrowed);
                    };
                    started += usize::from(scope.start(job).unwrap());
                }
            });
            // Those that found no thread were dropped as well.
            assert_eq!(dropped.load(SeqCst), 3);
            assert!(started >= 1);
            assert_eq!(text.iter().filter(|text| *text == "ab").count(), started);
        }
    }

    #[test]
    fn a_panic_of_the_body_waits_for_the_work() {
        let pool = pool(2);
        let dropped = AtomicUsize::new(0);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let late = vec![1, 2, 3];
            scope(&pool, |scope| {
                let (borrowed, late) = (Borrowed(&dropped), &late);
                let job = move || {
                    for _ in 0..100 {
                        std::thread::yield_now();
                    }
                    assert_eq!(late.iter().sum::<i32>(), 6);
                    drop(borrowed);
                };
                assert!(scope.start(job).unwrap());
                panic!("body");
            });
        }));
        assert_eq!(*unwound.unwrap_err().downcast::<&str>().unwrap(), "body");
        assert_eq!(dropped.load(SeqCst), 1);
    }

    #[test]
    fn a_panic_of_the_work_arrives_and_its_thread_stays() {
        let pool = pool(1);
        for _ in 0..2 {
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                scope(&pool, |scope| {
                    let started = scope.start(|| panic!("work")).unwrap();
                    assert!(started, "the thread of the last scope is free");
                });
            }));
            assert_eq!(*unwound.unwrap_err().downcast::<&str>().unwrap(), "work");
        }
        assert_eq!(pool.made(), 1);
    }
}
