//! Why a run ends before its time.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;

use crate::codec::CodecError;
use crate::groups::Tally;
use crate::record::Failure;

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
    /// Not all connections were made.
    #[error("{}: {source}{}", connects(*.target, *.made, *.wanted), advice(.source))]
    Connects {
        /// The server.
        target: SocketAddr,
        /// How many were made, and greeted by the server.
        made: usize,
        /// How many were wanted.
        wanted: usize,
        /// What came of the first of the others: the kernel's answer, or what the server did.
        source: io::Error,
    },
    /// It was told to end while connections were made.
    #[error("interrupted while connections to {target} were made: {made} of {wanted} were")]
    Interrupted {
        /// The server.
        target: SocketAddr,
        /// How many were made.
        made: usize,
        /// How many were wanted.
        wanted: usize,
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
    /// The server ended a connection before it greeted it.
    #[error(
        "the server ended connection {connection} before all were greeted{}; does it speak {protocol}?",
        because(.source)
    )]
    Unwelcome {
        /// Counted from 0.
        connection: usize,
        /// What it was greeted in.
        protocol: &'static str,
        /// The kernel's answer, where it was not ended in order.
        source: Option<io::Error>,
    },
    /// Connections were not greeted.
    #[error(
        "the server did not answer the greeting of {connections} connections within {patience:?}{}; does it speak \
         {protocol}?",
        but_sent(.said)
    )]
    NotGreeted {
        /// How many.
        connections: usize,
        /// For so long.
        patience: Duration,
        /// What they were greeted in.
        protocol: &'static str,
        /// The beginning of what came instead.
        said: Option<String>,
    },
    /// A thread of a client was not made.
    #[error("cannot make a thread for a client: {0}")]
    Thread(io::Error),
    /// Waiting itself failed.
    #[error("cannot wait for connections: {0}")]
    Wait(io::Error),
}

impl LoadError {
    /// What it counts as.
    pub(crate) fn kind(&self) -> Failure {
        match self {
            Self::Connect { source, .. } | Self::Connects { source, .. } | Self::Socket { source, .. } => {
                Failure::of(source)
            }
            Self::Unwelcome {
                source: Some(source), ..
            } => Failure::of(source),
            Self::Closed(_) | Self::Unwelcome { .. } => Failure::Closed,
            Self::Codec { source, .. } => source.kind(),
            Self::Faulty(_) => Failure::Changed,
            Self::NotGreeted { .. } => Failure::Timeout,
            Self::Wait(_) | Self::Thread(_) | Self::Interrupted { .. } => Failure::NoConnection,
        }
    }
}

fn connects(target: SocketAddr, made: usize, wanted: usize) -> String {
    match made {
        0 => format!("no connection to {target} was made"),
        _ => format!("only {made} of {wanted} connections to {target} were made"),
    }
}

fn because(source: &Option<io::Error>) -> String {
    source
        .as_ref()
        .map_or_else(String::new, |source| format!(" ({source})"))
}

fn but_sent(said: &Option<String>) -> String {
    said.as_ref()
        .map_or_else(String::new, |said| format!(", but sent {said:?}"))
}

/// What to do about it.
fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::CONNREFUSED) => "; is the server started, and does it listen there?",
        Some(Errno::MFILE | Errno::NFILE) => {
            "; raise the limit on open files (`ulimit -Hn`) or connect fewer"
        }
        Some(Errno::ADDRNOTAVAIL) => "; no local port is left (net.ipv4.ip_local_port_range): connect fewer",
        None if source.kind() == io::ErrorKind::TimedOut => {
            "; the server does not accept: raise its backlog, or give it more time"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_did_is_said_where_it_is_known() {
        let unwelcome = |source| LoadError::Unwelcome {
            connection: 3,
            protocol: "NATS",
            source,
        };
        let not_greeted = |said| LoadError::NotGreeted {
            connections: 3,
            patience: Duration::from_secs(2),
            protocol: "NATS",
            said,
        };
        let ended = "the server ended connection 3 before all were greeted";
        let silent = "the server did not answer the greeting of 3 connections within 2s";
        for (error, says) in [
            (unwelcome(None), format!("{ended}; does it speak NATS?")),
            (
                unwelcome(Some(io::Error::other("reset"))),
                format!("{ended} (reset); does it speak NATS?"),
            ),
            (not_greeted(None), format!("{silent}; does it speak NATS?")),
            (
                not_greeted(Some("220 mail".to_owned())),
                format!("{silent}, but sent \"220 mail\"; does it speak NATS?"),
            ),
        ] {
            assert_eq!(error.to_string(), says);
        }
    }

    #[test]
    fn advice_is_of_what_went_wrong() {
        for (errno, says) in [
            (Errno::CONNREFUSED, "is the server started"),
            (Errno::MFILE, "raise the limit on open files"),
            (Errno::NFILE, "raise the limit on open files"),
            (Errno::ADDRNOTAVAIL, "no local port is left"),
        ] {
            let advice = advice(&errno.into());
            assert!(advice.contains(says), "{advice}");
        }
        let timed_out = advice(&io::ErrorKind::TimedOut.into());
        assert!(timed_out.ends_with("or give it more time"), "{timed_out}");
        assert_eq!(advice(&io::Error::other("something")), "");
        assert_eq!(advice(&Errno::PIPE.into()), "");
    }
}
