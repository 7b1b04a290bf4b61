//! What a design is given to serve with, and reads throughout.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use crate::counters::CounterBlocks;
use crate::id::ConnectionId;
use crate::listen::Listener;
use crate::options::Options;
use crate::stop::Stop;
use crate::trace::Span;
use crate::waiting::Waiting;

/// What a design is given to serve with.
#[derive(Debug)]
pub(crate) struct Serving<P> {
    /// The design's name.
    pub design: &'static str,
    pub protocol: Arc<P>,
    pub listener: Listener,
    pub options: Options,
    /// A block of counters for each worker, thread or connection slot that a design can have, and two more.
    pub counters: Arc<CounterBlocks>,
    /// A design says there how it can be asked, if connections are in one address space.
    pub waiting: Waiting,
    /// Set before the design sees it.
    pub stop: Option<Stop>,
}

impl<P> Serving<P> {
    /// The span of a new connection.
    pub fn span(&self, id: ConnectionId, socket: impl AsFd) -> Span {
        Span::new(self.design, id, socket)
    }

    /// How long connections may go on, now that the server stops.
    pub fn drain(&self) -> Duration {
        self.stop().drain().unwrap_or(self.options.drain)
    }

    /// Readable when the server shall stop.
    pub fn stop(&self) -> &Stop {
        self.stop.as_ref().expect("set by `run` before a design sees it")
    }
}
