//! Where a call's threads come from: [made for it](crate::own_threads), or lent by a
//! [`ThreadPool`](crate::ThreadPool).

use std::io;

/// Gives threads for work that may borrow from what lives as long as `'scope`.
pub(crate) trait ThreadSource<'scope> {
    /// Whether [`start`](Self::start) has a chance now.
    fn any_free(&self) -> bool;

    /// Runs `work` on a thread of its own; `false`, with the work dropped, if none is free now.
    fn start(&self, work: impl FnOnce() + Send + 'scope) -> io::Result<bool>;
}
