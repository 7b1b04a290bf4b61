//! Why a run ends before its time.

use std::io;
use std::time::Duration;

use crate::codec::CodecError;
use crate::groups::Tally;

/// A run that failed. What it had measured until then is not to be believed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A connection was not made.
    #[error("cannot make connection {connection}: {source}; see `ulimit -Hn` if there are too many")]
    Connect {
        /// Counted from 0.
        connection: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A connection failed.
    #[error("connection {connection} failed: {source}")]
    Socket {
        /// Counted from 0.
        connection: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The server closed a connection.
    #[error("the server closed connection {0}")]
    Closed(usize),
    /// The server says something that its protocol does not have, or complains.
    #[error("connection {connection}: {source}")]
    Codec {
        /// Counted from 0.
        connection: usize,
        /// What it says.
        source: CodecError,
    },
    /// Deliveries were not as they must be.
    #[error("beside {} deliveries as they must be: {}", .0.deliveries, .0.faults)]
    Faulty(Box<Tally>),
    /// A connection was not greeted.
    #[error("the server did not answer the greeting of {0} connections within {1:?}")]
    NotGreeted(usize, Duration),
    /// Waiting itself failed.
    #[error("cannot wait for connections: {0}")]
    Wait(io::Error),
}
