//! Connecting groups: some connections at a time, each greeted, until all are there or somebody ends it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use threadgauge_machine::clock::monotonic_ns;

use super::{Groups, Plan};
use crate::client_pool::{ClientPool, LOOK};
use crate::codec::Codec;
use crate::delivery_checker::DeliveryChecker;
use crate::error::LoadError;
use crate::faults::{FaultKind, MessageId};

/// Connections that are made before they are greeted: fewer than any server lets wait.
const STEP: usize = 64;

/// So many connections have a loopback address to themselves: fewer than it has ports, where nobody has changed that.
const OF_AN_ADDRESS: usize = 20_000;

/// What to do where not all groups can connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfFewer {
    /// It fails.
    Fail,
    /// It goes on with those that can, where it is one at least.
    GoOn,
}

impl Groups {
    /// Connects all, and comes back when the server has answered every greeting. Blocks meanwhile.
    ///
    /// # Errors
    ///
    /// If a connection fails, or a greeting is not answered.
    ///
    /// # Panics
    ///
    /// If the plan is none: groups do not come out even, or messages are smaller or larger than can be.
    pub fn connect(server: SocketAddr, codec: &'static dyn Codec, plan: Plan) -> Result<Self, LoadError> {
        Self::connect_beside(server, codec, plan, 0)
    }

    /// As [`connect`](Self::connect), beside others that drive the same server from threads of their own: groups are
    /// counted from `first_group` on, so that no two drivers have the same.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_beside(
        server: SocketAddr,
        codec: &'static dyn Codec,
        plan: Plan,
        first_group: usize,
    ) -> Result<Self, LoadError> {
        Self::connect_all(server, codec, plan, first_group, IfFewer::Fail, &mut || true)
    }

    /// As [`connect`](Self::connect), for as long as `goes_on` says so. It is asked before each connection, and every
    /// 50 ms at least.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and with [`LoadError::Interrupted`] where it does not go on.
    ///
    /// # Panics
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_while(
        server: SocketAddr,
        codec: &'static dyn Codec,
        plan: Plan,
        if_fewer: IfFewer,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LoadError> {
        Self::connect_all(server, codec, plan, 0, if_fewer, goes_on)
    }

    fn connect_all(
        server: SocketAddr,
        codec: &'static dyn Codec,
        plan: Plan,
        first_group: usize,
        if_fewer: IfFewer,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LoadError> {
        let checker = |connections| {
            let echoes = codec.echoes();
            DeliveryChecker::new(connections, plan.group_size, echoes, plan.payload_bytes)
        };
        let interrupted = |made| LoadError::Interrupted {
            target: server,
            made,
            wanted: plan.connections,
        };
        let mut groups = Self {
            codec,
            pool: ClientPool::new()?,
            checker: checker(plan.connections),
            plan,
            first_group,
            payload: Vec::new(),
            answers: Vec::new(),
            heard_ns: monotonic_ns(),
            look_ns: 0,
        };
        let mut refused = None;
        while refused.is_none() && groups.pool.len() < plan.connections {
            let first = groups.pool.len();
            for connection in first..plan.connections.min(first + STEP) {
                let from = source(server, first_group * plan.group_size + connection);
                match groups.pool.connect_while(from, server, goes_on) {
                    Ok(true) => {}
                    Ok(false) => return Err(interrupted(connection)),
                    Err(LoadError::Connect { source, .. }) => {
                        refused = Some(source);
                        break;
                    }
                    Err(other) => return Err(other),
                }
                let group = first_group + connection / plan.group_size;
                groups
                    .pool
                    .say(connection, |unsent| codec.greet(connection, group, unsent));
            }
            let made = groups.pool.len();
            if !groups.wait_until_greeted(made - first, goes_on)? {
                return Err(interrupted(made));
            }
        }
        if let Some(source) = refused {
            let made = groups.pool.len();
            let whole = made / plan.group_size * plan.group_size;
            if if_fewer == IfFewer::Fail || whole == 0 {
                return Err(LoadError::Connects {
                    target: server,
                    made,
                    wanted: plan.connections,
                    source,
                });
            }
            // Those of a group that is not whole hear nothing, since nobody speaks in it.
            groups.plan.connections = whole;
            groups.checker = checker(whole);
        }
        Ok(groups)
    }

    /// Waits until so many greetings are answered: whether they were, before `goes_on` ended it.
    fn wait_until_greeted(
        &mut self,
        mut missing: usize,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, LoadError> {
        let protocol = self.codec.name();
        let unwelcome = |error| match error {
            LoadError::Socket { connection, source } => LoadError::Unwelcome {
                connection,
                protocol,
                source: Some(source),
            },
            LoadError::Closed(connection) => LoadError::Unwelcome {
                connection,
                protocol,
                source: None,
            },
            other => other,
        };
        while missing > 0 {
            if !goes_on() {
                return Ok(false);
            }
            let limit = self.flush().map_err(unwelcome)?.min(LOOK);
            let mut ready = 0;
            if self
                .turn(limit, &mut ready, &mut 0, |_, _| {})
                .map_err(unwelcome)?
            {
                // In a protocol of lines, what is said in another is a message that nobody has sent.
                let faults = self.checker.take_faults();
                let said = match faults.first(FaultKind::Corrupted).map(|fault| &fault.message) {
                    Some(MessageId::Unreadable(said)) => Some(said.clone()),
                    _ => None,
                };
                return Err(LoadError::NotGreeted {
                    connections: missing,
                    patience: self.plan.patience,
                    protocol,
                    said,
                });
            }
            missing = missing.saturating_sub(ready);
        }
        Ok(true)
    }
}

/// Where a connection comes from: to a server on the loopback address from another such address for every so many,
/// since one has no more ports.
fn source(server: SocketAddr, connection: usize) -> Option<IpAddr> {
    let SocketAddr::V4(server) = server else {
        return None;
    };
    let address = u8::try_from(connection / OF_AN_ADDRESS).ok().filter(|&n| n > 0)?;
    let last = address.checked_add(1).filter(|_| server.ip().is_loopback())?;
    Some(Ipv4Addr::new(127, 0, 0, last).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_to_the_loopback_address_come_from_several() {
        let from = |server: &str, connection| {
            let from = source(server.parse().unwrap(), connection);
            from.map(|from| from.to_string())
        };
        assert_eq!(from("127.0.0.1:4222", 19_999), None);
        assert_eq!(from("127.0.0.1:4222", 20_000).unwrap(), "127.0.0.2");
        assert_eq!(from("127.0.0.1:4222", 49_999).unwrap(), "127.0.0.3");
        assert_eq!(from("10.0.0.1:4222", 50_000), None);
        assert_eq!(from("[::1]:4222", 50_000), None);
    }
}
