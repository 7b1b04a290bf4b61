//! What the lock-free leaves stand on: the standard library, or loom's model of it under `cfg(loom)`.

#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread::{Thread, current, park, park_timeout},
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    thread::{Thread, current, park},
};

/// loom has no clock: a timed park is a park there.
#[cfg(loom)]
pub(crate) fn park_timeout(_: std::time::Duration) {
    park();
}

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

/// The standard cell behind loom's interface.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Stores `value` and orders the store before every later `SeqCst` load of this thread (the first half of
/// Dekker's handshake). An exchange does both in one instruction, at a fifth of the price of a fence; loom knows
/// the total order of fences only, so the model uses one.
#[inline]
pub(crate) fn publish(cell: &AtomicUsize, value: usize) {
    #[cfg(not(loom))]
    cell.swap(value, Ordering::SeqCst);
    #[cfg(loom)]
    {
        cell.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

/// As [`publish`], for a flag.
#[inline]
pub(crate) fn publish_flag(cell: &AtomicBool, value: bool) {
    #[cfg(not(loom))]
    cell.swap(value, Ordering::SeqCst);
    #[cfg(loom)]
    {
        cell.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}
