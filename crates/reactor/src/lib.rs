//! Any protocol on any concurrency design.
#![doc = include_str!("../README.md")]

mod back_off;
mod blocking;
mod catalogue;
mod closing;
mod connection;
mod contain;
mod counters;
mod design;
mod error;
mod fork;
mod id;
mod listen;
mod lock;
mod multicast;
mod options;
mod outbox;
mod outbox_table;
mod pool;
pub mod protocol;
mod pthread;
pub mod reactor;
mod ring;
mod rooms;
mod server;
mod shared;
mod shutdown;
mod stop;
mod sync;
pub mod testing;
mod throttle;
mod trace;
mod waiting;
mod wake_fd;

pub use catalogue::{BuiltIn, Visitor};
pub use counters::{CloseReason, Totals};
pub use design::{About, AtOnce, Design, Memory};
pub use error::Error;
pub use id::ConnectionId;
pub use options::{Overflow, Placement, Sends, Setting};
pub use protocol::{Composed, Io, Job, Protocol, Session};
pub use rooms::{Member, Rooms};
pub use server::{Bound, Meter, Server};
pub use stop::Stop;
pub use waiting::Waiting;
