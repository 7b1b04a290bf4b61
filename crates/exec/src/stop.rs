//! The stop token: a flag that goes one way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that says: stop. It goes one way, costs a load to read, and may be shared with anyone.
///
/// Give it to a call with [`ConcurrentExecution::stop`](crate::ConcurrentExecution::stop): once it is set, the call
/// starts nothing more, finishes what is running and hands back the rest. The call does not set it.
///
/// A call sets another one when it ends early, for whatever reason, if it is given one with
/// [`announce_stop`](crate::ConcurrentExecution::announce_stop), so that processors which look at it can cut their work
/// short. Give each call one of its own; [`child`](Self::child) makes one that also hears its parent.
///
/// ```
/// use threadgauge_exec::StopToken;
///
/// let program = StopToken::new();
/// let call = program.child();
/// call.stop();
/// assert!(call.is_stopped() && !program.is_stopped());
/// assert!(!program.child().is_stopped());
/// program.stop();
/// assert!(program.child().is_stopped());
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopToken(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    stopped: AtomicBool,
    parent: Option<StopToken>,
    /// Set with it.
    told: Option<StopToken>,
}

impl StopToken {
    /// A token that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that is set by itself or by this one. Setting it does not set this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(Arc::new(Flag {
            stopped: AtomicBool::new(false),
            parent: Some(self.clone()),
            told: None,
        }))
    }

    /// The token of a call: hears one, and tells the other.
    pub(crate) fn of_a_call(parent: Option<&Self>, told: Option<&Self>) -> Self {
        Self(Arc::new(Flag {
            stopped: AtomicBool::new(false),
            parent: parent.cloned(),
            told: told.cloned(),
        }))
    }

    /// Sets it, for good. Never blocks. What was written before is seen by whoever sees it set.
    pub fn stop(&self) {
        // Release: pairs with the load in `is_stopped`.
        self.0.stopped.store(true, Ordering::Release);
        if let Some(told) = &self.0.told {
            told.stop();
        }
    }

    /// Whether it, or one it is a child of, has been set.
    #[inline]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let mut token = self;
        loop {
            // Acquire: pairs with the store in `stop`.
            if token.0.stopped.load(Ordering::Acquire) {
                return true;
            }
            match &token.0.parent {
                Some(parent) => token = parent,
                None => return false,
            }
        }
    }
}
