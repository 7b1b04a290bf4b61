//! What `tracing` gets to know of a server's workers, with the feature of that name; without it this is nothing.

use std::fmt::Debug;

/// A child has died, or ended with an error, and is replaced.
pub(crate) fn worker_lost(slot: usize, how: impl Debug) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "threadgauge_reactor", slot, ?how, "a worker was lost");
    #[cfg(not(feature = "tracing"))]
    let _ = (slot, how);
}

/// A worker could not be made; it is tried again.
pub(crate) fn worker_not_made(why: impl Debug) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "threadgauge_reactor", ?why, "a worker could not be made");
    #[cfg(not(feature = "tracing"))]
    let _ = why;
}

/// A child ends with an error, which its parent cannot see.
pub(crate) fn worker_failed(slot: usize, why: impl Debug) {
    #[cfg(feature = "tracing")]
    tracing::error!(target: "threadgauge_reactor", slot, ?why, "a worker cannot go on");
    #[cfg(not(feature = "tracing"))]
    let _ = (slot, why);
}
