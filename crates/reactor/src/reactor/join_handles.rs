//! The threads of a pool that any of them may add to, joined at the end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;

/// Threads by number. Clones are the same.
#[derive(Debug)]
pub(crate) struct JoinHandles<'scope>(Arc<Mutex<Handles<'scope>>>);

type Handles<'scope> = Vec<Option<ScopedJoinHandle<'scope, ()>>>;

impl<'scope> JoinHandles<'scope> {
    /// No threads.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    fn handles(&self) -> MutexGuard<'_, Handles<'scope>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that has this number now. The one that had it before has given it back, and is joined.
    pub fn add(&self, number: usize, thread: ScopedJoinHandle<'scope, ()>) {
        let former = {
            let mut handles = self.handles();
            if handles.len() <= number {
                handles.resize_with(number + 1, || None);
            }
            handles[number].replace(thread)
        };
        former.map(join);
    }

    /// Blocks until all have ended, those too that are added meanwhile by one of them.
    pub fn join_all(&self) {
        loop {
            let next = self.handles().iter_mut().find_map(Option::take);
            match next {
                Some(thread) => join(thread),
                None => return,
            }
        }
    }
}

impl Clone for JoinHandles<'_> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

fn join(thread: ScopedJoinHandle<'_, ()>) {
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
