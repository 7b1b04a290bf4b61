//! Panics of what a protocol has given us to call or to drop: each ends a connection, and no more.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls it; `None` if it panicked. Who had a share in the state it may have left half changed does not use it again.
pub(crate) fn contain<R>(call: impl FnOnce() -> R) -> Option<R> {
    let panic = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => return Some(result),
        Err(panic) => panic,
    };
    // What was thrown can panic as it is dropped. What that throws is forgotten.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_none_also_if_what_was_thrown_panics() {
        struct Again;
        impl Drop for Again {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert_eq!(contain(|| 3), Some(3));
        assert_eq!(contain(|| panic!("once")), None::<()>);
        assert_eq!(contain(|| std::panic::panic_any(Again)), None::<()>);
    }
}
