//! Load for servers: many connections in one thread, each speaking by its own codec.
//!
//! **Owns** the client's side of a measurement: connections ([`Crowd`]), codecs ([`codec`]), what is said and who must hear
//! it ([`Ledger`]), when something is said ([`Load`], [`Arrivals`]), and how long it took ([`Latency`]). **Leaves out** the
//! server, what it used, intervals, tables.
//!
//! ```text
//!   Load ── when to speak ──▶ Groups ── Ledger: what, and who must hear it
//!                               │  Codec: bytes of a protocol ◀─▶ events
//!                             Crowd ── sockets: epoll in, one io_uring submission a turn out
//! ```
//!
//! Three promises hold throughout:
//!
//! - **every delivery is checked**: sender, number, every byte. Lost, doubled, reordered, changed or misled: the run fails
//!   and says which connection expected what of whom, and what came;
//! - **latency under a rate counts from the intended start**, never from when the driver got round to it;
//! - **a codec is the project's own**: no client library's batching is measured with the server.
//!
//! [`Crowd`] knows nothing of groups: a codec for requests and answers goes on top of it as [`Groups`] does.
#![deny(unsafe_code)]

mod arrivals;
pub mod codec;
mod crowd;
mod error;
mod groups;
mod latency;
mod ledger;
mod outlet;
mod payload;

pub use arrivals::{Arrivals, Schedule};
pub use codec::{Codec, CodecError, Event, Frame};
pub use crowd::Crowd;
pub use error::LoadError;
pub use groups::{Flaw, Groups, Load, Plan, Tally};
pub use latency::{Latency, Quantile};
pub use ledger::{Heard, Ledger, WrongDelivery};
pub use payload::{LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES};
