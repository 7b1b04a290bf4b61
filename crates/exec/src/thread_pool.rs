//! The persistent pool: threads that stay between calls and are shared by them.
//!
//! Owns the threads and who of them is free. What they may borrow is [`scoped`](crate::scoped)'s; what they do for
//! a call is the [`pool`](crate::pool)'s.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Threads that stay between calls: for many short calls, or to bound what several callers do at once.
///
/// Give it to a [`ConcurrentExecution`](crate::ConcurrentExecution) as its [carrier](crate::Carrier::Shared). All that
/// a call may borrow otherwise it may borrow here too: a call returns only when no thread of the pool touches
/// anything of it.
///
/// - A thread is made when a call wants one, none is free and fewer exist than the pool may have. It stays until the
///   pool is dropped, which waits for it. Threads without work sleep.
/// - A call **borrows** up to its degree of threads, keeps each until it has nothing more to start, and takes
///   more when it wakes and some have become free. It does not wait for them: if it finds **none**, its caller runs the
///   processors, whatever the [mode](crate::Mode). So a call from within a processor, or from many threads at once,
///   cannot deadlock, and no more than the pool's threads and the callers are ever at work. But a processor
///   that waits for *another object's* needs a pool with threads enough for all calls.
/// - Objects see what others left in thread-local variables.
/// - **After `fork`** a child has the pool but none of its threads. A call that it makes there works alone: its caller
///   runs the processors, as where no thread is free. [`made`](Self::made) is 0, and dropping the pool does nothing. A
///   call that was under way goes on in the parent alone. The child may make a pool of its own.
///
/// Clones are the same pool; the last to be dropped ends the threads.
///
/// ```
/// use std::num::NonZeroUsize;
/// use threadgauge_exec::{ConcurrentExecution, ThreadPool};
///
/// let four = NonZeroUsize::new(4).unwrap();
/// let pool = ThreadPool::new(four);
/// let execution = ConcurrentExecution::new(four).carrier(&pool);
/// for text in ["a b", "c d e"] {
///     let mut letters = String::new();
///     execution.for_each(text.split(' '), |word| word.to_uppercase(), |done| letters += &done.result);
///     assert_eq!(letters.len(), text.split(' ').count());
/// }
/// ```
#[derive(Clone)]
pub struct ThreadPool {
    owner: Arc<Owner>,
}

/// What all handles share. The last is never dropped by a thread of the pool: such a thread runs foreign code only
/// within a call, whose caller holds a handle until the thread has left the call.
struct Owner {
    shared: Arc<PoolShared>,
    most: usize,
    /// The process that made the pool, and has its threads.
    process: u32,
}

impl Owner {
    /// Whether the pool's threads are here: not in a child of a `fork`, where even its lock may be held for ever.
    ///
    /// A system call, so once a call. A handler of `pthread_atfork` would cost nothing, but is not called by a bare
    /// `clone`.
    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

/// What a thread of a pool runs.
pub(crate) type Job = Box<dyn FnOnce(&PoolShared) + Send + 'static>;

/// What the threads share with the handles.
#[derive(Default)]
pub(crate) struct PoolShared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// Work for threads that are idle; never more than those.
    jobs: VecDeque<Job>,
    /// Threads that sleep, or will look for a job without being woken.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closing: bool,
}

impl State {
    /// Threads without work, and without work on its way to them.
    fn free(&self) -> usize {
        self.idle - self.jobs.len()
    }
}

impl PoolShared {
    /// The lock. No foreign code runs under it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread, from its first job to the end of the pool.
    fn serve(&self, first: Job) {
        first(self);
        while let Some(job) = self.next() {
            job(self);
        }
    }

    /// Said by a job at its end: its thread may be given the next.
    pub(crate) fn one_is_free(&self) {
        self.state().idle += 1;
    }

    /// Sleeps until there is a job; none when the pool ends.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.idle -= 1;
                return Some(job);
            }
            if state.closing {
                return None;
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl ThreadPool {
    /// A pool of at most `threads` threads. It makes none yet.
    #[must_use]
    pub fn new(threads: NonZeroUsize) -> Self {
        Self {
            owner: Arc::new(Owner {
                shared: Arc::default(),
                most: threads.get(),
                process: std::process::id(),
            }),
        }
    }

    /// How many threads it has made so far, in this process.
    #[must_use]
    pub fn made(&self) -> usize {
        if self.is_here() {
            self.owner.shared.state().threads.len()
        } else {
            0
        }
    }

    /// Whether its threads are here. Where they are not, nothing else of it may be asked.
    pub(crate) fn is_here(&self) -> bool {
        self.owner.is_here()
    }

    pub(crate) fn any_free(&self) -> bool {
        let state = self.owner.shared.state();
        state.free() > 0 || state.threads.len() < self.owner.most
    }

    /// Gives the job to a thread, a new one if need be; `false`, with the job dropped, if there may be no more.
    pub(crate) fn start(&self, job: Job) -> io::Result<bool> {
        let mut state = self.owner.shared.state();
        if state.free() > 0 {
            state.jobs.push_back(job);
            drop(state);
            self.owner.shared.news.notify_one();
            return Ok(true);
        }
        if state.threads.len() >= self.owner.most {
            // A drop is foreign code.
            drop(state);
            drop(job);
            return Ok(false);
        }
        let shared = Arc::clone(&self.owner.shared);
        let thread = Builder::new()
            .name("exec-pool".into())
            .spawn(move || shared.serve(job))?;
        state.threads.push(thread);
        Ok(true)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.is_here() {
            // What it shares with its threads stays, as they have shares of it: neither the lock nor a handle of a
            // thread that does not exist is touched.
            return;
        }
        let threads = {
            let mut state = self.shared.state();
            state.closing = true;
            std::mem::take(&mut state.threads)
        };
        self.shared.news.notify_all();
        for thread in threads {
            // Jobs let no panic out.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("most", &self.owner.most)
            .field("made", &self.made())
            .finish_non_exhaustive()
    }
}

/// Whether both are the same pool.
impl PartialEq for ThreadPool {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.owner, &other.owner)
    }
}

impl Eq for ThreadPool {}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::shared::tests::until;

    /// Starts a job that runs until the sender is dropped; none if there is no thread for it.
    fn start(pool: &ThreadPool) -> Option<Sender<()>> {
        let (release, released) = channel();
        let (tell, started) = channel();
        let job = Box::new(move |shared: &PoolShared| {
            tell.send(()).unwrap();
            let _ = released.recv();
            shared.one_is_free();
        });
        pool.start(job).unwrap().then(|| {
            started.recv().unwrap();
            release
        })
    }

    #[test]
    fn a_job_goes_to_a_thread_that_is_free_or_to_a_new_one_up_to_the_most() {
        let pool = ThreadPool::new(NonZeroUsize::new(2).unwrap());
        let free = || pool.owner.shared.state().free();
        let first = start(&pool);
        assert_eq!((first.is_some(), pool.made(), pool.any_free()), (true, 1, true));
        let _second = start(&pool);
        for _ in 0..2 {
            assert_eq!((free(), pool.made(), pool.any_free()), (0, 2, false));
            assert!(start(&pool).is_none());
        }
        drop(first);
        until(|| free() == 1);
        assert!(pool.any_free());
        let third = start(&pool);
        assert_eq!((third.is_some(), free(), pool.any_free()), (true, 0, false));
        drop(third);
        until(|| free() == 1);
        assert_eq!(format!("{pool:?}"), "ThreadPool { most: 2, made: 2, .. }");
    }
}
