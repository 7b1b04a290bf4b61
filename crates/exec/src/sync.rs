//! What the lock-free leaves stand on: the standard library, or loom's model of it under `cfg(loom)`.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Where one thread parks: the standard library's park and unpark, with its token.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct Parker(std::sync::OnceLock<std::thread::Thread>);

#[cfg(not(loom))]
impl Parker {
    /// Names the thread that parks here. Once, by that thread, before it does.
    pub(crate) fn attach(&self) {
        let _ = self.0.set(std::thread::current());
    }

    /// Until unparked, or for the time given, or without cause.
    pub(crate) fn park(&self, at_most: Option<std::time::Duration>) {
        match at_most {
            None => std::thread::park(),
            Some(time) => std::thread::park_timeout(time),
        }
    }

    pub(crate) fn unpark(&self) {
        if let Some(owner) = self.0.get() {
            owner.unpark();
        }
    }
}

/// What is compiled for loom alone.
#[cfg(loom)]
mod model {
    /// The same token from a lock and a condition. It has no clock.
    #[derive(Debug, Default)]
    pub(crate) struct Parker {
        token: loom::sync::Mutex<bool>,
        given: loom::sync::Condvar,
    }

    impl Parker {
        pub(crate) fn attach(&self) {}

        pub(crate) fn park(&self, _: Option<std::time::Duration>) {
            let mut token = self.token.lock().unwrap();
            while !*token {
                token = self.given.wait(token).unwrap();
            }
            *token = false;
        }

        pub(crate) fn unpark(&self) {
            *self.token.lock().unwrap() = true;
            self.given.notify_one();
        }
    }
}

#[cfg(loom)]
pub(crate) use model::Parker;

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
        // An exchange here too: loom does not know that a store comes after the exchange it follows.
        cell.swap(value, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::shared::tests::until;

    #[test]
    #[cfg(target_os = "linux")]
    fn who_parks_sleeps_until_it_is_unparked() {
        let parker = Parker::default();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|threads| {
            let owner = threads.spawn(|| {
                parker.attach();
                tell.send(std::fs::read_link("/proc/thread-self").unwrap())
                    .unwrap();
                parker.park(None);
            });
            let stat = std::path::Path::new("/proc")
                .join(told.recv().unwrap())
                .join("stat");
            // Its name in brackets, and its state.
            let sleeps = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
            until(|| sleeps() || owner.is_finished());
            assert!(!owner.is_finished());
            parker.unpark();
        });
    }
}
