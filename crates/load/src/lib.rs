//! Load for servers: many connections in one thread, each speaking by its own codec.
//!
//! **Owns** the client's side of a measurement: connections ([`ClientPool`]), codecs ([`codec`]), what is said and who
//! must hear it ([`DeliveryChecker`]), when something is said ([`Load`], [`Arrivals`]), how long it took ([`Latency`]),
//! whether the machine has room for it ([`preflight()`]), and what the server did meanwhile ([`ServerWatch`]).
//! **Leaves out** the server's life, intervals, tables.
//!
//! ```text
//!   Load ── when to speak ──▶ Groups ── DeliveryChecker: what, and who must hear it
//!                               │  Codec: bytes of a protocol ◀─▶ events
//!                           ClientPool ── sockets: epoll in, one io_uring submission a turn out
//! ```
//!
//! A hundred rooms of ten at a server of NATS' protocol, each member with one message on its way, for three seconds:
//!
//! ```no_run
//! use std::num::NonZeroUsize;
//! use std::time::Duration;
//! use threadgauge_load::{Groups, Load, Plan, codec::Nats};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plan = Plan {
//!     connections: 1_000,
//!     group_size: 10,
//!     payload_bytes: 128.into(),
//!     patience: Duration::from_secs(20),
//! };
//! let mut groups = Groups::connect("127.0.0.1:4222".parse()?, &Nats::ALIKE, plan)?;
//! let load = Load::Closed { outstanding: NonZeroUsize::MIN };
//! let tally = groups.talk(load, Duration::from_secs(3))?; // an error if one delivery was not as it must be
//! println!("{:.0} deliveries a second", tally.rate());
//! # Ok(())
//! # }
//! ```
//!
//! Three promises hold throughout:
//!
//! - **every delivery is checked**: sender, number, every byte. Lost, duplicated, reordered, misdelivered and
//!   corrupted ones are counted apart ([`Faults`]), with where the first of each was, and one alone makes the run fail
//!   at its end;
//! - **latency under a rate counts from the intended start**, never from when the driver got round to it;
//! - **a codec is the project's own**: no client library's batching is measured with the server.
//!
//! [`ClientPool`] knows nothing of groups: a codec for requests and answers goes on top of it as [`Groups`] does.
#![deny(unsafe_code)]

mod arrivals;
mod batch_sender;
mod client_pool;
pub mod codec;
mod delivery_checker;
mod error;
pub mod exchange;
mod faults;
mod groups;
mod latency;
mod link;
mod mix;
mod paced;
mod payload;
mod preflight;
mod proof;
mod record;
mod requests;
mod search;
mod server_watch;
mod sizes;
mod slo;
mod span;
mod speakers;
mod standstill;
#[cfg(test)]
mod testing;
mod users;

pub use arrivals::{Arrivals, Ramp, Schedule};
pub use client_pool::{ClientPool, Told};
pub use codec::{Answers, Codec, CodecError, Event, Frame, Frames};
pub use delivery_checker::{DeliveryChecker, GivenUp, Heard, Times};
pub use error::LoadError;
pub use exchange::Exchange;
pub use faults::{Fault, FaultKind, Faults, MessageId};
pub use groups::{Groups, IfFewer, Load, Plan, Tally};
pub use latency::{Latency, Quantile};
pub use link::{BitRate, BitRateError, Link, LinkError};
pub use mix::{Behaviour, Class, ClassRecord, Observer, run_mixed, shares};
pub use paced::{ClientKind, Paced};
pub use payload::{LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES};
pub use preflight::{Needs, preflight};
pub use proof::{BUSIEST, InvalidRun, STILLEST, busy_in_words};
pub use record::{Failure, Failures, Held, Record, Second, Watch};
pub use requests::{Clients, Pace, Requests};
pub use search::Search;
pub use server_watch::{CpuSecond, ServerSecond, ServerWatch, ThreadSecond, Watched, WatchedSecond};
pub use sizes::Sizes;
pub use slo::Slo;
pub use span::Span;
pub use standstill::{Cause, Standstill};
pub use users::{AfterSending, Talked, Users};
