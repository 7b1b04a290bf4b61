//! Servers of group messages that are compared: ours, what a user would take instead, and a floor in C. How each is
//! started, spoken to and ended.

use std::fs::File;
use std::process::Command;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Listens, Server, free_port};
use threadgauge_load::codec::{Codec, Mqtt, Nats, Resp, WebSocket};

use super::{GROUPS_FLOOR, file_in_memory, path_of, program, version_of, without_program};

words! {
    /// A server.
    pub enum Who {
        /// `threadgauge serve groups`, with the design that it chooses by itself.
        Ours = "threadgauge",
        /// Core NATS.
        NatsServer = "nats-server",
        /// Its channels, by RESP.
        Redis = "redis-server",
        /// MQTT 3.1.1.
        Mosquitto = "mosquitto",
        /// `guests/cpp/uws_groups.cpp`, which a user compiles.
        UWebSockets = "uws_groups",
        /// `guests/c/servers/groups_floor.c`: all sends of a turn in one submission, and nothing else.
        Floor = "floor",
    }
}

/// Somebody else's.
pub const PEERS: [Who; 4] = [Who::NatsServer, Who::Redis, Who::Mosquitto, Who::UWebSockets];

/// A server that listens. Dropped, it is ended.
#[derive(Debug)]
pub struct Contender {
    who: Who,
    /// Itself.
    pub server: Server,
    /// What it reads while it runs.
    settings: Option<File>,
}

impl Who {
    /// What it speaks.
    #[must_use]
    pub fn codec(self) -> &'static dyn Codec {
        match self {
            Self::Ours | Self::NatsServer | Self::Floor => &Nats::ALIKE,
            Self::Redis => &Resp,
            Self::Mosquitto => &Mqtt,
            Self::UWebSockets => &WebSocket,
        }
    }

    /// Whether what it speaks is NATS.
    #[must_use]
    pub const fn speaks_nats(self) -> bool {
        matches!(self, Self::Ours | Self::NatsServer | Self::Floor)
    }

    /// Refuses one that speaks another protocol.
    ///
    /// # Errors
    ///
    /// Who it must be.
    pub fn must_speak_nats(self, params: &Params) -> Result<(), CaseError> {
        if self.speaks_nats() {
            return Ok(());
        }
        Err(refused(params, "who", "threadgauge, nats-server or floor"))
    }

    /// What this machine, or this build, lacks for it.
    #[must_use]
    pub fn missing(self) -> Option<Lack> {
        match self {
            Self::Ours => None,
            Self::Floor => GROUPS_FLOOR.missing(),
            _ => without_program(self.name()),
        }
    }

    /// A case that it serves, which cannot run where it is missing. `check` refuses what the case cannot be.
    #[must_use]
    pub fn planned(
        self,
        case: impl Point,
        takes: Duration,
        check: fn(&Params) -> Result<(), CaseError>,
    ) -> PlannedCase {
        PlannedCase {
            skip: self.missing(),
            check,
            ..PlannedCase::new(case, takes)
        }
    }

    /// That of somebody else's, as `nats-server/2.15.2`, where it tells one.
    #[must_use]
    pub fn version(self) -> Option<String> {
        let (argument, before) = match self {
            Self::NatsServer => ("--version", ": v"),
            Self::Redis => ("--version", "v="),
            Self::Mosquitto => ("-h", "version "),
            Self::Ours | Self::Floor | Self::UWebSockets => return None,
        };
        version_of(self.name(), argument, before)
    }

    /// Starts it for so many connections, and comes back when it listens.
    ///
    /// # Errors
    ///
    /// Skipped where it is not on the path; else as [`Server::start_that`].
    pub fn start(self, connections: u64, cpus: &Cpus) -> Result<Contender, CaseError> {
        let (server, settings) = self.listening(connections, cpus)?;
        Ok(Contender {
            who: self,
            server,
            settings,
        })
    }

    fn listening(self, connections: u64, cpus: &Cpus) -> Result<(Server, Option<File>), CaseError> {
        let most = (connections + 64).to_string();
        let mut command = Command::new(program(self.name()).unwrap_or_else(|| self.name().into()));
        let listens = match self {
            Self::Ours => return Ok((Server::ours(["groups", "--max-connections", &most], cpus)?, None)),
            Self::Floor => return Ok((GROUPS_FLOOR.serve(&[&"uring", &0], cpus)?, None)),
            Self::UWebSockets => {
                let any_port = "0";
                command.arg(any_port);
                Listens::OURS
            }
            Self::NatsServer => {
                command.args(["--addr", "127.0.0.1", "--port", "-1"]);
                Listens::Says("Listening for client connections on 127.0.0.1:")
            }
            Self::Redis => {
                let port = free_port()?;
                command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
                command.args(["--save", "", "--appendonly", "no", "--maxclients", &most]);
                Listens::At(port)
            }
            Self::Mosquitto => {
                let port = free_port()?;
                let text = format!(
                    "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type error\nuser root\n"
                );
                let settings = file_in_memory(text.as_bytes())?;
                command.args(["-c", &path_of(&settings)]);
                return Ok((
                    Server::start_that(Listens::At(port), command, cpus)?,
                    Some(settings),
                ));
            }
        };
        Ok((Server::start_that(listens, command, cpus)?, None))
    }
}

impl Contender {
    /// Ends it, and tags the sample with its version. How somebody else's ends is its own affair.
    ///
    /// # Errors
    ///
    /// If ours or the floor does not end, or not well.
    pub fn end(self, worker: &mut Worker) -> Result<(), CaseError> {
        if let Some(version) = self.who.version() {
            worker.tag(&version);
        }
        if PEERS.contains(&self.who) {
            drop(self.server);
        } else {
            self.server.end()?;
        }
        drop(self.settings);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;
    use crate::servers::groups::{Demand, Drivers, GROUP, GroupClients};

    fn connected(server: &Server, payload_bytes: u64, cpus: &Cpus) -> Drivers {
        let clients = GroupClients {
            server: server.address(),
            codec: &Nats::DIFFERENT,
            group: GROUP,
            connections: 20,
            payload_bytes,
        };
        Drivers::connect(clients, cpus).unwrap()
    }

    #[test]
    fn who_is_here_tells_its_version() {
        for who in PEERS.into_iter().filter(|who| who.missing().is_none()) {
            let version = who.version();
            let number = version.as_deref().and_then(|version| version.split_once('/'));
            let told = number.is_some_and(|(name, number)| {
                name == who.name() && number.starts_with(|first: char| first.is_ascii_digit())
            });
            assert!(told != (who == Who::UWebSockets), "{who:?}: {version:?}");
        }
    }

    /// Both its ways of sending, driven by clients that check each delivery: it loses nothing and ends well.
    #[test]
    fn the_floor_delivers_everything_in_order() {
        let cpus = Cpus::divided(1).unwrap();
        for sends in ["uring", "calls"] {
            for (payload_bytes, outstanding) in [(16, 1), (1024, 16), (16_000, 40)] {
                let server = GROUPS_FLOOR.serve(&[&sends, &0], &cpus).unwrap();
                let drivers = connected(&server, payload_bytes, &cpus);
                let span = Duration::from_millis(50);
                let talked = drivers.talk(Demand::Outstanding(outstanding), span).unwrap();
                assert!(talked.deliveries > 0, "{sends}, {payload_bytes} B");
                drop(drivers);
                server.end().unwrap();
            }
        }
    }

    /// A floor that one client leaves in the middle, or that hears something else, still serves the others.
    #[test]
    fn the_floor_outlives_its_clients() {
        let cpus = Cpus::divided(1).unwrap();
        let floor = Who::Floor.start(20, &cpus).unwrap();
        let drivers = connected(&floor.server, 128, &cpus);
        for words in [
            "SUB g0 7\r\nPUB g0 5\r\nhel",
            "GET / HTTP/1.1\r\n\r\n",
            "PUB g0 99999999\r\n",
        ] {
            let mut stranger = TcpStream::connect(floor.server.address()).unwrap();
            stranger.write_all(words.as_bytes()).unwrap();
            if !words.starts_with("SUB") {
                let mut said = String::new();
                // INFO, and then the end.
                stranger.read_to_string(&mut said).unwrap();
                assert!(said.starts_with("INFO "), "{said:?}");
            }
        }
        let talked = drivers.talk(Demand::Outstanding(1), Duration::from_millis(50));
        assert!(talked.unwrap().deliveries > 0);
        drop(drivers);
        floor.server.end().unwrap();
    }
}
