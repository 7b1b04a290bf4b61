//! Where a call's threads come from: made for it, or lent by a [`ThreadPool`](crate::ThreadPool).

use std::io;
use std::thread::{Builder, Scope};

/// Gives threads for work that may borrow from what lives as long as `'scope`.
pub(crate) trait ThreadSource<'scope> {
    /// Whether [`start`](Self::start) has a chance now.
    fn any_free(&self) -> bool;

    /// Runs `work` on a thread of its own; `false`, with the work dropped, if none is free now.
    fn start(&'scope self, work: impl FnOnce() + Send + 'scope) -> io::Result<bool>;
}

/// Threads of the call's own.
impl<'scope> ThreadSource<'scope> for Scope<'scope, '_> {
    fn any_free(&self) -> bool {
        true
    }

    fn start(&'scope self, work: impl FnOnce() + Send + 'scope) -> io::Result<bool> {
        Builder::new().name("exec".into()).spawn_scoped(self, work)?;
        Ok(true)
    }
}
