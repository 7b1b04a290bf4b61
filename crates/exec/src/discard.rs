//! Dropping what belongs to the user where a panic must not be let out.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops `value`. A panic of its `Drop` ends here: the panic hook has told of it, and there is one before it that
/// goes on. What that panic carries is leaked, as dropping it could panic in turn.
pub(crate) fn discard<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        forget(panic);
    }
}

/// Keeps the first panic. A later one comes back: what it carries is foreign, to be discarded without any lock.
pub(crate) fn keep_first(
    kept: &mut Option<Box<dyn Any + Send>>,
    panic: Box<dyn Any + Send>,
) -> Option<Box<dyn Any + Send>> {
    if kept.is_some() {
        return Some(panic);
    }
    *kept = Some(panic);
    None
}
