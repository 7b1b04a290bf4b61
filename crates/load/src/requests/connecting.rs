//! Making the connections of requests: some at once, until all are there or somebody ends it.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use threadgauge_machine::clock::monotonic_ns;

use super::{Client, Clients, Requests};
use crate::client_pool::{ClientPool, LOOK, Told};
use crate::codec::CodecError;
use crate::error::LoadError;
use crate::exchange::Exchange;

/// Connections that are being made at once: fewer than any server lets wait.
const STEP: usize = 64;

impl<E: Exchange> Requests<E> {
    /// Makes the connections; one alone where each request has its own. Blocks meanwhile.
    ///
    /// # Errors
    ///
    /// If not all can be made, or with `go_on` none, or the server speaks before it is asked.
    pub fn connect(exchange: E, plan: Clients) -> Result<Self, LoadError> {
        Self::connect_while(exchange, plan, &mut || true)
    }

    /// As [`connect`](Self::connect), for as long as `goes_on` says so. It is asked at least every 64 connections, and
    /// every 50 ms.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and with [`LoadError::Interrupted`] where it does not go on.
    pub fn connect_while(
        exchange: E,
        plan: Clients,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LoadError> {
        let connections = plan.connections.get();
        let mut pool = ClientPool::new()?;
        (0..connections).for_each(|_| {
            pool.place();
        });
        let wanted = if exchange.is_single() { 1 } else { connections };
        let target = plan.target;
        let protocol = exchange.name();
        let Connected {
            connections: made,
            end,
        } = make(&mut pool, target, wanted, plan.timeout, protocol, goes_on)?;
        let members: Vec<u32> = match end {
            End::All => (0..connections as u32).collect(),
            End::Told => {
                return Err(LoadError::Interrupted {
                    target,
                    made: made.len(),
                    wanted,
                });
            }
            End::Failed(_) if plan.go_on && !made.is_empty() => made,
            End::Failed(source) => {
                return Err(LoadError::Connects {
                    target,
                    made: made.len(),
                    wanted,
                    source,
                });
            }
        };
        Ok(Self {
            exchange,
            pool,
            clients: (0..connections).map(|_| Client::default()).collect(),
            members,
            plan,
            answered_once: false,
            listens_on: Duration::ZERO,
            freed: Vec::new(),
            broken: Vec::new(),
        })
    }
}

/// The connections that were made, and how making them ended.
struct Connected {
    connections: Vec<u32>,
    end: End,
}

enum End {
    /// All are made.
    All,
    /// It was told to end.
    Told,
    /// What the first of those said that were not made.
    Failed(io::Error),
}

/// Makes the first `wanted` places of `pool`, some at a time, for as long as `goes_on` says so.
fn make(
    pool: &mut ClientPool,
    target: SocketAddr,
    wanted: usize,
    patience: Duration,
    protocol: &'static str,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Connected, LoadError> {
    let (mut made, mut failure, mut next) = (Vec::new(), None, 0);
    let mut pending = BTreeSet::new();
    let mut progress_ns = monotonic_ns();
    loop {
        if !goes_on() {
            return Ok(Connected {
                connections: made,
                end: End::Told,
            });
        }
        while next < wanted && pending.len() < STEP && failure.is_none() {
            match pool.begin(next, target) {
                Ok(()) => drop(pending.insert(next)),
                Err(error) => failure = Some(error),
            }
            next += 1;
        }
        if pending.is_empty() {
            made.sort_unstable();
            return Ok(Connected {
                connections: made,
                end: failure.map_or(End::All, End::Failed),
            });
        }
        pool.turn(LOOK, |connection, told| {
            match told {
                Told::Made => {
                    pending.remove(&connection);
                    made.push(connection as u32);
                    progress_ns = monotonic_ns();
                }
                // A greeting is not of a protocol of requests.
                Told::Bytes(input) => {
                    let source = CodecError::foreign(protocol, input);
                    return Err(LoadError::Codec { connection, source });
                }
                Told::Ended(error) if pending.remove(&connection) => {
                    failure = failure.take().or(error);
                }
                // It was made, and will be made anew when it is needed.
                Told::Ended(_) => {}
            }
            Ok(0)
        })?;
        if Duration::from_nanos(monotonic_ns() - progress_ns) > patience {
            pending.iter().for_each(|&connection| pool.end(connection));
            pending.clear();
            failure = failure.or_else(|| Some(io::ErrorKind::TimedOut.into()));
        }
    }
}
