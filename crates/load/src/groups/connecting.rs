//! Connecting groups: some connections at a time, each greeted, until all are there or somebody ends it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use threadgauge_machine::clock::monotonic_ns;

use super::{CLOGGED, Groups, Plan};
use crate::client_pool::{ClientPool, LOOK, Told};
use crate::codec::{Answers, Codec, Event};
use crate::delivery_checker::DeliveryChecker;
use crate::error::LoadError;
use crate::faults::{FaultKind, MessageId};

/// Connections that are made before they are greeted: fewer than any server lets wait.
const STEP: usize = 64;

/// So many connections have a loopback address to themselves: fewer than it has ports, where nobody has changed that.
const OF_AN_ADDRESS: usize = 20_000;

/// How far greeting has come.
struct Greeted {
    /// Each of the first so many has been greeted.
    all_before: usize,
    /// Why the next one was not, where it is over.
    refusal: Option<LoadError>,
}

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
            answers: Answers::default(),
            heard_ns: monotonic_ns(),
            look_ns: 0,
            listens_on: Duration::ZERO,
        };
        let (mut refused, mut greeted) = (None, 0);
        while refused.is_none() && groups.pool.len() < plan.connections {
            let first = groups.pool.len();
            for connection in first..plan.connections.min(first + STEP) {
                let from = source(server, first_group * plan.group_size + connection);
                match groups.pool.connect_while(from, server, goes_on) {
                    Ok(true) => {}
                    Ok(false) => return Err(interrupted(connection)),
                    Err(error @ LoadError::Connect { .. }) => {
                        refused = Some(error);
                        break;
                    }
                    Err(other) => return Err(other),
                }
                let group = first_group + connection / plan.group_size;
                groups
                    .pool
                    .say(connection, |unsent| codec.greet(connection, group, unsent));
            }
            let Some(Greeted { all_before, refusal }) = groups.wait_until_greeted(first, goes_on)? else {
                return Err(interrupted(groups.pool.len()));
            };
            greeted = all_before;
            refused = refused.or(refusal);
        }
        if let Some(refusal) = refused {
            let made = greeted;
            let whole = made / plan.group_size * plan.group_size;
            let source = match refusal {
                LoadError::Connect { source, .. } => source,
                // Who greets nobody does not speak the protocol, or is full.
                refusal if made == 0 => return Err(refusal),
                refusal => io::Error::other(refusal),
            };
            if if_fewer == IfFewer::Fail || whole == 0 {
                return Err(LoadError::Connects {
                    target: server,
                    made,
                    wanted: plan.connections,
                    source,
                });
            }
            // The others take no part, whatever the server does with them.
            (whole..groups.pool.len()).for_each(|connection| groups.pool.end(connection));
            groups.plan.connections = whole;
            groups.checker = checker(whole);
        }
        Ok(groups)
    }

    /// Waits until the greetings from connection `first` on are answered, or until all before one that is refused are;
    /// `None` where `goes_on` ended it before. The server refuses by ending the connection, by a complaint, by bytes
    /// that are of no greeting, and by greeting nobody more for as long as the plan's patience.
    fn wait_until_greeted(
        &mut self,
        first: usize,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Greeted>, LoadError> {
        let protocol = self.codec.name();
        let unwelcome = |connection, source| LoadError::Unwelcome {
            connection,
            protocol,
            source,
        };
        let mut is_greeted = vec![false; self.pool.len()];
        is_greeted[..first].fill(true);
        let mut greeted = Greeted {
            all_before: self.pool.len(),
            refusal: None,
        };
        let mut refusals = Vec::new();
        let mut greeted_ns = monotonic_ns();
        while let Some(missing) = is_greeted[..greeted.all_before].iter().position(|is| !is) {
            if !goes_on() {
                return Ok(None);
            }
            let all = self.pool.flush_each(|connection, source| {
                refusals.push((connection, unwelcome(connection, Some(source))));
            })?;
            let limit = if all { self.plan.patience } else { CLOGGED };
            let (codec, checker, answers) = (self.codec, &mut self.checker, &mut self.answers);
            let mut is_progress = false;
            self.pool.turn(limit.min(LOOK), |connection, told| {
                let input = match told {
                    Told::Made => return Ok(0),
                    Told::Ended(source) => {
                        refusals.push((connection, unwelcome(connection, source)));
                        return Ok(0);
                    }
                    Told::Bytes(input) => input,
                };
                let mut used = 0;
                loop {
                    let frame = match codec.next(&input[used..]) {
                        Ok(Some(frame)) => frame,
                        Ok(None) => return Ok(used),
                        Err(source) => {
                            refusals.push((connection, LoadError::Codec { connection, source }));
                            return Ok(input.len());
                        }
                    };
                    used += frame.bytes;
                    match frame.event {
                        Event::Ready => {
                            is_progress |= !std::mem::replace(&mut is_greeted[connection], true);
                        }
                        Event::Wants(answer) => answers.want(connection, answer),
                        // In a protocol of lines, what is said in another is a message that nobody has sent.
                        Event::Delivery(payload) => drop(checker.receives(connection, payload)),
                        Event::Noise => {}
                    }
                }
            })?;
            self.answers.say(&mut self.pool, |connection, error| {
                refusals.push((connection, error));
            });
            for (connection, refusal) in refusals.drain(..) {
                self.pool.end(connection);
                if connection < greeted.all_before {
                    greeted = Greeted {
                        all_before: connection,
                        refusal: Some(refusal),
                    };
                }
            }
            let now_ns = monotonic_ns();
            if is_progress {
                greeted_ns = now_ns;
            }
            if Duration::from_nanos(now_ns - greeted_ns) >= self.plan.patience {
                let silent = is_greeted[..greeted.all_before].iter().filter(|is| !**is).count();
                let refusal = self.not_greeted(silent);
                greeted = Greeted {
                    all_before: missing.min(greeted.all_before),
                    refusal: Some(greeted.refusal.unwrap_or(refusal)),
                };
                break;
            }
        }
        Ok(Some(greeted))
    }

    /// So many had no answer.
    fn not_greeted(&mut self, connections: usize) -> LoadError {
        let faults = self.checker.take_faults();
        let said = match faults.first(FaultKind::Corrupted).map(|fault| &fault.message) {
            Some(MessageId::Unreadable(said)) => Some(said.clone()),
            _ => None,
        };
        LoadError::NotGreeted {
            connections,
            patience: self.plan.patience,
            protocol: self.codec.name(),
            said,
        }
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
    use std::net::TcpListener;

    use super::*;
    use crate::codec::Chat;

    #[test]
    fn who_drives_beside_others_has_addresses_as_if_all_were_one() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let plan = Plan {
            connections: 2,
            group_size: 2,
            payload_bytes: 64.into(),
            patience: CLOGGED,
        };
        let first_group = OF_AN_ADDRESS / plan.group_size;
        let at = listener.local_addr().unwrap();
        // Nobody greets.
        let ended = Groups::connect_beside(at, &Chat, plan, first_group).unwrap_err();
        assert!(
            matches!(ended, LoadError::NotGreeted { connections: 2, .. }),
            "{ended}"
        );
        for _ in 0..plan.connections {
            assert_eq!(listener.accept().unwrap().1.ip(), Ipv4Addr::new(127, 0, 0, 2));
        }
    }

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
