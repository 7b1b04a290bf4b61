//! What `tracing` gets to know of a server's connections and workers, with the feature of that name; without it this
//! is nothing.

use std::fmt::Debug;

pub(crate) use connection::Span;

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

/// The span of a connection, from its first call into the session to its close: `id`, `peer` and `design`, and once it
/// is closed `reason`, `messages`, `bytes_in` (received) and `bytes_out` (what its own session has sent to its client).
/// The session is called within it.
#[cfg(feature = "tracing")]
mod connection {
    use std::os::fd::AsFd;

    use tracing::field::{Empty, display};

    use crate::counters::CloseReason;
    use crate::id::ConnectionId;
    use crate::listen::client_of;

    #[derive(Debug)]
    pub(crate) struct Span {
        span: tracing::Span,
        bytes_in: usize,
        bytes_out: usize,
    }

    impl Span {
        /// Asks the kernel for the client's address if anybody wants to know it.
        pub fn new(design: &'static str, id: ConnectionId, socket: impl AsFd) -> Self {
            let span = tracing::info_span!(
                target: "threadgauge_reactor",
                "connection",
                ?id,
                design,
                peer = Empty,
                reason = Empty,
                messages = Empty,
                bytes_in = Empty,
                bytes_out = Empty,
            );
            if !span.is_disabled()
                && let Some(peer) = client_of(socket)
            {
                span.record("peer", display(peer));
            }
            Self {
                span,
                bytes_in: 0,
                bytes_out: 0,
            }
        }

        /// Of a connection without a socket.
        pub fn none() -> Self {
            Self {
                span: tracing::Span::none(),
                bytes_in: 0,
                bytes_out: 0,
            }
        }

        /// What happens until the guard is dropped happens in it.
        pub fn enter(&self) -> impl Drop {
            self.span.enter()
        }

        pub fn received(&mut self, bytes: usize) {
            self.bytes_in += bytes;
        }

        pub fn sent(&mut self, bytes: usize) {
            self.bytes_out += bytes;
        }

        pub fn closed(&self, reason: CloseReason, messages: u64) {
            self.span
                .record("reason", reason.name())
                .record("messages", messages)
                .record("bytes_in", self.bytes_in)
                .record("bytes_out", self.bytes_out);
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod connection {
    use std::os::fd::AsFd;

    use crate::counters::CloseReason;
    use crate::id::ConnectionId;

    #[derive(Debug)]
    pub(crate) struct Span;

    /// Of nothing.
    pub(crate) struct Guard;

    impl Span {
        pub fn new(_: &'static str, _: ConnectionId, _: impl AsFd) -> Self {
            Self
        }

        pub fn none() -> Self {
            Self
        }

        pub fn enter(&self) -> Guard {
            Guard
        }

        pub fn received(&mut self, _: usize) {}

        pub fn sent(&mut self, _: usize) {}

        pub fn closed(&self, _: CloseReason, _: u64) {}
    }
}
