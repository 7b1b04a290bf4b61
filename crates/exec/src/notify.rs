//! An event count for one sleeper: anyone may notify, only its owner sleeps.
//!
//! To notify costs a load while the owner is awake, and a wake-up (6 µs and more for the notifier when the owner's CPU
//! has halted) only when it sleeps. No notification is lost: the owner says that it sleeps and *then* looks once more,
//! the notifier publishes its news and *then* looks whether the owner sleeps. One of them sees the other.
//!
//! What must never exist: a condition for which an owner waits, changed by anything but a sequentially
//! consistent exchange (`sync::publish`) or under a lock released before the notification.

use std::time::Instant;

use crate::sync::{AtomicBool, Ordering, Parker, publish_flag};

#[derive(Debug)]
pub(crate) struct Notify {
    /// Set by the owner before its last look; taken back by the one notifier that wakes it.
    asleep: AtomicBool,
    owner: Parker,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
            owner: Parker::default(),
        }
    }

    /// Names the thread that sleeps here. Once, by that thread, before it waits.
    pub(crate) fn attach(&self) {
        self.owner.attach();
    }

    /// Wakes the owner if it sleeps. The caller has published its news with a `SeqCst` exchange or under a lock.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // AcqRel: pairs with the owner's loads of `asleep`; only the one that takes the flag pays for a wake-up.
        if self.asleep.swap(false, Ordering::AcqRel) {
            self.owner.unpark();
        }
    }

    /// Whether the owner sleeps, or is about to.
    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// Sleeps until `ready` says so, or until the instant given: `false` if that came first.
    pub(crate) fn wait(&self, mut ready: impl FnMut() -> bool, until: Option<Instant>) -> bool {
        loop {
            if ready() {
                return true;
            }
            publish_flag(&self.asleep, true);
            if ready() {
                self.asleep.store(false, Ordering::Release);
                return true;
            }
            // A park may end without cause, so the flag decides. Code of others on this thread cannot swallow the
            // token: none runs between the flag and the park.
            while self.asleep.load(Ordering::Acquire) {
                match until {
                    None => self.owner.park(None),
                    Some(until) => {
                        let left = until.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            self.asleep.store(false, Ordering::Release);
                            return ready();
                        }
                        self.owner.park(Some(left));
                    }
                }
            }
        }
    }
}
