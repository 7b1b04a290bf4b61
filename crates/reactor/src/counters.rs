//! What a server counts while it runs, and why connections ended.
//!
//! Each loop, thread or process counts in a block of its own, so that counting costs no contention; the blocks of a
//! server lie in memory shared with forked children and are added up when somebody asks.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::shared::{Shareable, Shared};

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The protocol closed it.
    Finished,
    /// The client sent no more, and had its answers.
    PeerEnded,
    /// The client reset it, or the network did.
    Lost,
    /// The client broke the protocol's rules.
    Refused,
    /// A message was longer than [`Protocol::MAX_FRAME`](crate::Protocol::MAX_FRAME).
    TooLong,
    /// No first message within the server's `handshake` time, or of a later one no whole head.
    Handshake,
    /// Nothing came for the server's `idle` time.
    Idle,
    /// The server was full when another came, and from nobody had nothing come for longer.
    MadeRoom,
    /// So much waited for the client that the server, which drops slow ones, had no room for more.
    Slow,
    /// The client took nothing of what waited for it for the server's `write_timeout`.
    WriteTimeout,
    /// The server stopped, and all was sent.
    Stopped,
    /// The server stopped, and its `drain` time passed first.
    DrainTime,
    /// The protocol panicked.
    Panicked,
}

impl CloseReason {
    /// All of them, in the order of the enumeration.
    pub const ALL: [Self; 13] = [
        Self::Finished,
        Self::PeerEnded,
        Self::Lost,
        Self::Refused,
        Self::TooLong,
        Self::Handshake,
        Self::Idle,
        Self::MadeRoom,
        Self::Slow,
        Self::WriteTimeout,
        Self::Stopped,
        Self::DrainTime,
        Self::Panicked,
    ];

    /// In words, as a summary shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::PeerEnded => "ended by client",
            Self::Lost => "lost",
            Self::Refused => "refused",
            Self::TooLong => "message too long",
            Self::Handshake => "no message in time",
            Self::Idle => "idle",
            Self::MadeRoom => "made room",
            Self::Slow => "too slow",
            Self::WriteTimeout => "took nothing in time",
            Self::Stopped => "server stopped",
            Self::DrainTime => "drain time over",
            Self::Panicked => "panicked",
        }
    }

    /// Whether what still waits for the client is dropped.
    pub fn is_abrupt(self) -> bool {
        matches!(
            self,
            Self::Lost | Self::MadeRoom | Self::Slow | Self::WriteTimeout | Self::DrainTime | Self::Panicked
        )
    }
}

macro_rules! counters {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// A block of counters with one writer.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub $name: Counter,)*
            closed: [Counter; CloseReason::ALL.len()],
        }

        /// What a server has counted: all its loops, threads and processes together.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$about])* pub $name: u64,)*
            closed: [u64; CloseReason::ALL.len()],
        }

        impl Totals {
            /// Each counter with its name, but for the reasons of closing.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            fn add(&mut self, block: &Counters) {
                $(self.$name += block.$name.get();)*
                for (total, counter) in self.closed.iter_mut().zip(&block.closed) {
                    *total += counter.get();
                }
            }
        }
    };
}

counters! {
    /// Connections accepted.
    accepted,
    /// Attempts to accept that failed for want of descriptors, memory or the like.
    accept_errors,
    /// Bytes received.
    bytes_in,
    /// Bytes sent.
    bytes_out,
    /// Messages that sessions used.
    messages,
    /// Messages from one connection put into the outbox of another.
    deliveries,
    /// Messages to connections that were gone.
    undeliverable,
    /// Times that a receiver with too much waiting began to hold up a sender, counted for each sender.
    held_up,
    /// Returns of a call that waits for events.
    wake_ups,
    /// Calls that wait for events or a lock.
    waits,
    /// Calls of accept.
    accepts,
    /// Calls that receive.
    receives,
    /// Calls that send.
    sends,
    /// All other system calls of the serving loops: registering, closing, creating, waking.
    other_calls,
    /// Threads or processes made for connections.
    units_created,
    /// Those of them that died, or ended with an error. With the feature `tracing`, an event says how.
    units_lost,
}

impl Totals {
    /// How many connections ended for this reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize]
    }

    /// How many connections ended.
    pub fn all_closed(&self) -> u64 {
        self.closed.iter().sum()
    }

    /// System calls of the serving loops, of any kind.
    pub fn system_calls(&self) -> u64 {
        self.waits + self.accepts + self.receives + self.sends + self.other_calls
    }
}

impl Counters {
    /// A connection ended.
    pub fn closed(&self, reason: CloseReason) {
        self.closed[reason as usize].add(1);
    }

    /// How many connections have ended here.
    pub fn all_closed(&self) -> u64 {
        self.closed.iter().map(Counter::get).sum()
    }
}

/// A count with one writer and any number of readers, who may see it a little late.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Counts on. Only the block's own thread may: there is one writer, so load and store suffice.
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed) + count, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

// SAFETY: counters are atomics without pointers, valid when all zero.
#[allow(unsafe_code)]
unsafe impl Shareable for Counters {}

/// The counters of a server in blocks, one for each writer: as many as it may ever need, of which memory is taken for
/// those alone that are used.
#[derive(Debug)]
pub(crate) struct CounterBlocks {
    blocks: Shared<Counters>,
    /// How many blocks, from the first on, anybody has asked for: nobody looks at the others, which would make them
    /// take memory.
    begun: Shared<Begun>,
}

/// It only grows. All accesses are relaxed: who adds up sees it a little late, as the counts themselves.
#[derive(Debug)]
struct Begun(AtomicUsize);

// SAFETY: an atomic without pointers, valid when zero.
#[allow(unsafe_code)]
unsafe impl Shareable for Begun {}

impl CounterBlocks {
    /// One block for each of `writers`.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn new(writers: usize) -> std::io::Result<Self> {
        Ok(Self {
            blocks: Shared::zeroed(writers)?,
            begun: Shared::zeroed(1)?,
        })
    }

    /// The block of one writer. Low numbers first: those below it count as used.
    pub fn block(&self, writer: usize) -> &Counters {
        let begun = &self.begun[0].0;
        if writer >= begun.load(Relaxed) {
            begun.fetch_max(writer + 1, Relaxed);
        }
        &self.blocks[writer]
    }

    fn used(&self) -> &[Counters] {
        &self.blocks[..self.begun[0].0.load(Relaxed)]
    }

    /// All blocks together.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for block in self.used() {
            totals.add(block);
        }
        totals
    }

    /// Each block that has counted anything.
    pub fn parts(&self) -> Vec<Totals> {
        let of = |block| {
            let mut totals = Totals::default();
            totals.add(block);
            totals
        };
        let parts = self.used().iter().map(of);
        parts.filter(|part| *part != Totals::default()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_added_up() {
        let counters = CounterBlocks::new(2).expect("memory");
        counters.block(0).accepted.add(2);
        counters.block(1).accepted.add(3);
        counters.block(1).closed(CloseReason::Idle);
        assert_eq!([0, 1].map(|block| counters.block(block).all_closed()), [0, 1]);
        let totals = counters.totals();
        assert_eq!(totals.accepted, 5);
        assert_eq!((totals.closed(CloseReason::Idle), totals.all_closed()), (1, 1));
        assert!(
            totals
                .each()
                .any(|(name, count)| (name, count) == ("accepted", 5))
        );
    }

    #[test]
    fn nobody_looks_at_blocks_that_were_not_asked_for() {
        let counters = CounterBlocks::new(1_000).expect("memory");
        assert!(counters.used().is_empty() && counters.parts().is_empty());
        counters.block(2).accepted.add(1);
        counters.block(0).accepted.add(1);
        assert_eq!(counters.used().len(), 3);
        assert_eq!((counters.totals().accepted, counters.parts().len()), (2, 2));
    }

    #[test]
    fn reasons_stand_in_the_order_of_the_enumeration() {
        for (i, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i, "{}", reason.name());
        }
    }
}
