//! Any protocol on any concurrency design.
#![doc = include_str!("../README.md")]

mod blocking;
mod connection;
mod counters;
mod design;
mod error;
mod id;
mod listen;
mod options;
mod outbox;
pub mod protocol;
pub mod reactor;
mod server;
mod shared;
mod stop;
mod sync;

pub use counters::{CloseReason, Totals};
pub use design::{About, AtOnce, Design, Memory};
pub use error::Error;
pub use id::ConnectionId;
pub use options::{Overflow, Placement, Setting};
pub use protocol::{Io, Job, Protocol, Session};
pub use server::{Bound, Meter, Server};
pub use stop::Stop;
