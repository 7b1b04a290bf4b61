//! A call's own threads: made in a scope, and gone when it ends.
//!
//! [`std::thread::scope`] by itself waits until what its threads run has returned. What they keep in thread-local
//! variables is dropped after that, and its user would still be waiting for it. A thread that is *joined* is gone, so
//! here each is, however the body of the scope leaves.
//!
//! A thread that has ended and is not joined keeps its stack. So those that have ended are joined on the way: whenever
//! there are twice as many as were left the last time.

use std::any::Any;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::discard::{discard, keep_first};
use crate::thread_source::ThreadSource;

/// So many are not worth looking through.
const FEW: usize = 8;

/// Makes the threads of a call. Threads may have clones, and make others.
#[derive(Clone)]
pub(crate) struct OwnThreads<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    made: Arc<Mutex<Made<'scope>>>,
}

#[derive(Default)]
struct Made<'scope> {
    unjoined: Vec<ScopedJoinHandle<'scope, ()>>,
    /// How many there were after the last look for those that have ended.
    left: usize,
    /// The first panic that a thread let out.
    panic: Option<Box<dyn Any + Send>>,
}

/// Runs `body` here, which may make threads that borrow; returns when all of them are gone. A panic of the body goes
/// on, else the first of a thread's.
pub(crate) fn scope<'env, T>(body: impl for<'scope> FnOnce(&OwnThreads<'scope, 'env>) -> T) -> T {
    std::thread::scope(|scope| {
        let threads = OwnThreads {
            scope,
            made: Arc::default(),
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&threads)));
        match (outcome, threads.join_all()) {
            (Err(panic), _) | (Ok(_), Some(panic)) => resume_unwind(panic),
            (Ok(value), None) => value,
        }
    })
}

impl<'scope> OwnThreads<'scope, '_> {
    /// Runs `work` on a new thread of that name.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'scope) -> io::Result<()> {
        let thread = Builder::new().name(name.into()).spawn_scoped(self.scope, work);
        let (made, ended) = {
            let mut made = self.made();
            match thread {
                Ok(thread) => {
                    made.unjoined.push(thread);
                    (Ok(()), made.ended_if_many())
                }
                // Their stacks may be what the next one lacks.
                Err(error) => (Err(error), made.ended()),
            }
        };
        self.join(ended);
        made
    }

    fn made(&self) -> MutexGuard<'_, Made<'scope>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until none is left. Threads make others before they end, so then there will be none.
    fn join_all(&self) -> Option<Box<dyn Any + Send>> {
        loop {
            let threads = mem::take(&mut self.made().unjoined);
            if threads.is_empty() {
                return self.made().panic.take();
            }
            self.join(threads);
        }
    }

    /// Waits for them without the lock: what they drop at their end is foreign code.
    fn join(&self, threads: Vec<ScopedJoinHandle<'scope, ()>>) {
        for thread in threads {
            if let Err(panic) = thread.join() {
                let later = keep_first(&mut self.made().panic, panic);
                discard(later);
            }
        }
    }
}

impl<'scope> Made<'scope> {
    /// Those that have ended, if it is worth a look.
    fn ended_if_many(&mut self) -> Vec<ScopedJoinHandle<'scope, ()>> {
        if self.unjoined.len() < (2 * self.left).max(FEW) {
            return Vec::new();
        }
        self.ended()
    }

    fn ended(&mut self) -> Vec<ScopedJoinHandle<'scope, ()>> {
        let ended = self
            .unjoined
            .extract_if(.., |thread| thread.is_finished())
            .collect();
        self.left = self.unjoined.len();
        ended
    }
}

impl<'scope> ThreadSource<'scope> for OwnThreads<'scope, '_> {
    fn any_free(&self) -> bool {
        true
    }

    fn start(&self, work: impl FnOnce() + Send + 'scope) -> io::Result<bool> {
        self.spawn("exec", work).map(|()| true)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::shared::tests::until;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn they_are_looked_at_when_there_are_twice_as_many_as_were_left() {
        scope(|threads| {
            threads.made().left = FEW;
            for made in 1..2 * FEW {
                threads.spawn("short", || ()).unwrap();
                until(|| threads.made().unjoined.iter().all(ScopedJoinHandle::is_finished));
                assert_eq!(threads.made().unjoined.len(), made);
            }
            threads.spawn("one more", || ()).unwrap();
            assert!(threads.made().unjoined.len() < 2);
        });
    }

    #[test]
    fn those_that_have_ended_do_not_pile_up() {
        scope(|threads| {
            for _ in 0..200 {
                threads.spawn("short", || ()).unwrap();
                until(|| threads.made().unjoined.iter().all(ScopedJoinHandle::is_finished));
                assert!(threads.made().unjoined.len() < FEW);
            }
        });
    }

    #[test]
    fn what_threads_make_is_joined_as_well() {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        struct AtEnd;
        impl Drop for AtEnd {
            fn drop(&mut self) {
                ENDED.fetch_add(1, SeqCst);
            }
        }
        thread_local!(static AT_END: AtEnd = const { AtEnd });
        fn chain<'scope>(threads: &OwnThreads<'scope, '_>, left: usize) {
            AT_END.with(|_| ());
            if left > 0 {
                let more = threads.clone();
                threads.spawn("chain", move || chain(&more, left - 1)).unwrap();
            }
        }
        scope(|threads| {
            let more = threads.clone();
            threads.spawn("chain", move || chain(&more, 30)).unwrap();
        });
        assert_eq!(ENDED.load(SeqCst), 31);
    }

    #[test]
    fn a_panic_of_a_thread_arrives_and_the_bodys_comes_first() {
        let panics = |text: &'static str| move || std::panic::panic_any(text);
        let caught = catch_unwind(|| {
            scope(|threads| threads.spawn("panics", panics("thread")).unwrap());
        });
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "thread");
        let caught = catch_unwind(|| {
            scope(|threads| {
                threads.spawn("panics", panics("thread")).unwrap();
                panic!("body");
            });
        });
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "body");
    }
}
