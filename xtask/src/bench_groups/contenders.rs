//! The servers that are compared: how each is found, started, spoken to and stopped.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use threadgauge_load::codec::{Codec, Mqtt, Nats, Resp, WebSocket};

use super::talk::Names;
use crate::rig::programs::{Programs, finds_uwebsockets};
use crate::shell;
use threadgauge_lab::server::{Cpus, Listens, Server};

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// `threadgauge serve groups` on a design of [`OURS`].
    Ours(&'static str),
    NatsServer,
    Redis,
    Mosquitto,
    /// `guests/cpp/uws_groups.cpp`.
    UWebSockets,
    /// `guests/c/servers/groups_floor.c`, all sends of a turn in one io_uring submission.
    Floor,
    /// The same with a system call for each send.
    FloorByCalls,
}

/// Ours: what the tables call it, and what it is started with beyond the address.
const OURS: &[(&str, &[&str])] = &[
    ("reactor", &["--design", "reactor"]),
    (
        "reactor-io-uring",
        &["--design", "reactor", "--sends", "io_uring"],
    ),
    ("proactor", &["--design", "proactor"]),
    ("split-reactor", &["--design", "split-reactor"]),
    (
        "reactor-pool-1-1",
        &["--design", "reactor-pool", "--readers", "1", "--writers", "1"],
    ),
    (
        "reactor-pool-1-3",
        &["--design", "reactor-pool", "--readers", "1", "--writers", "3"],
    ),
    (
        "reactor-pool-3-1",
        &["--design", "reactor-pool", "--readers", "3", "--writers", "1"],
    ),
    ("reactor-per-core", &["--design", "reactor-per-core"]),
    (
        "reactor-per-core-io-uring",
        &["--design", "reactor-per-core", "--sends", "io_uring"],
    ),
    ("leader-followers", &["--design", "leader-followers"]),
    ("half-sync-half-async", &["--design", "half-sync-half-async"]),
    ("thread-per-connection", &["--design", "thread-per-connection"]),
];

/// Of ours, those that are compared with peers; all are compared with those of another build.
const AGAINST_PEERS: &[&str] = &["reactor", "reactor-io-uring", "proactor"];
const OTHERS: [Who; 6] = [
    Who::NatsServer,
    Who::Redis,
    Who::Mosquitto,
    Who::UWebSockets,
    Who::Floor,
    Who::FloorByCalls,
];

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours(label) => label,
            Self::NatsServer => "nats-server",
            Self::Redis => "redis-server",
            Self::Mosquitto => "mosquitto",
            Self::UWebSockets => "uwebsockets",
            Self::Floor => "floor",
            Self::FloorByCalls => "floor-by-calls",
        })
    }
}

impl Who {
    /// Whether it is `threadgauge`.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Whether it is somebody else's product.
    pub const fn is_peer(self) -> bool {
        matches!(
            self,
            Self::NatsServer | Self::Redis | Self::Mosquitto | Self::UWebSockets
        )
    }

    /// Whether what it speaks has names for subscriptions.
    pub const fn speaks_nats(self) -> bool {
        !matches!(self, Self::Redis | Self::Mosquitto | Self::UWebSockets)
    }

    /// What it speaks.
    pub fn codec(self, names: Names) -> &'static dyn Codec {
        match (self, names) {
            (Self::Redis, _) => &Resp,
            (Self::Mosquitto, _) => &Mqtt,
            (Self::UWebSockets, _) => &WebSocket,
            (_, Names::Alike) => &Nats::ALIKE,
            (_, Names::Different) => &Nats::DIFFERENT,
        }
    }
}

/// The servers that are there.
#[derive(Debug)]
pub struct Contenders {
    nats_server: Option<PathBuf>,
    /// NATS' command, which drives `nats bench`.
    pub nats: Option<PathBuf>,
    redis: Option<PathBuf>,
    mosquitto: Option<PathBuf>,
    /// Whether what it is compiled from is there.
    uwebsockets: bool,
    /// Names as [`Who`] writes them; all where there is none.
    wanted: Vec<String>,
}

impl Contenders {
    /// Looks for them on the path, where none is given.
    ///
    /// # Errors
    ///
    /// If one that is given is not there, or one that is wanted has a name that no server has.
    pub fn find(nats_server: Option<&Path>, nats: Option<&Path>, wanted: &[String]) -> Result<Self> {
        for name in wanted {
            let known = all_of_ours().chain(OTHERS).any(|who| who.to_string() == *name);
            let names: Vec<String> = all_of_ours().chain(OTHERS).map(|who| who.to_string()).collect();
            ensure!(
                known,
                "there is no server {name:?}; there are {}",
                names.join(", ")
            );
        }
        Ok(Self {
            nats_server: shell::given_or_found(nats_server, "nats-server")?,
            nats: shell::given_or_found(nats, "nats")?,
            redis: shell::find("redis-server"),
            // Debian has it where only root's path leads.
            mosquitto: shell::find("mosquitto")
                .or_else(|| Some("/usr/sbin/mosquitto".into()).filter(is_there)),
            uwebsockets: finds_uwebsockets(),
            wanted: wanted.to_vec(),
        })
    }

    /// Ours that are compared with peers, then all others that are there and wanted.
    pub fn against_peers(&self) -> Vec<Who> {
        let ours = AGAINST_PEERS.iter().map(|label| Who::Ours(label));
        self.of(ours.chain(OTHERS))
    }

    /// What the tables call those of ours that are wanted.
    pub fn labels_of_ours(&self) -> Vec<&'static str> {
        let wanted = |label: &&str| self.wanted.is_empty() || self.wanted.iter().any(|name| name == label);
        OURS.iter().map(|&(label, _)| label).filter(wanted).collect()
    }

    fn of(&self, all: impl Iterator<Item = Who>) -> Vec<Who> {
        all.filter(|&who| self.wants(who) && self.has(who)).collect()
    }

    fn wants(&self, who: Who) -> bool {
        self.wanted.is_empty() || self.wanted.contains(&who.to_string())
    }

    fn has(&self, who: Who) -> bool {
        match who {
            Who::NatsServer => self.nats_server.is_some(),
            Who::Redis => self.redis.is_some(),
            Who::Mosquitto => self.mosquitto.is_some(),
            Who::UWebSockets => self.uwebsockets,
            Who::Ours(_) | Who::Floor | Who::FloorByCalls => true,
        }
    }

    /// A paragraph on those that are wanted and not here; empty where all are.
    pub fn skipped(&self) -> String {
        let missing: Vec<String> = OTHERS
            .into_iter()
            .filter(|&who| self.wants(who) && !self.has(who))
            .map(|who| who.to_string())
            .collect();
        match missing.is_empty() {
            true => String::new(),
            false => format!("\nNot installed here, so not measured: {}.\n", missing.join(", ")),
        }
    }

    /// Compiles what is to be compared, is here, and is no program yet.
    ///
    /// # Errors
    ///
    /// If it does not compile.
    pub fn build(&self, programs: &Programs) -> Result<()> {
        match self.against_peers().contains(&Who::UWebSockets) {
            true => programs.build_uwebsockets(),
            false => Ok(()),
        }
    }

    /// How it is started, and how one knows that it listens.
    ///
    /// # Errors
    ///
    /// If there is no free port, or no place for a file that it wants.
    pub fn command(&self, who: Who, programs: &Programs) -> Result<(Command, Listens)> {
        let at = |program: &Option<PathBuf>| -> Result<Command> {
            let program = program
                .as_deref()
                .with_context(|| format!("{who} is not installed"))?;
            Ok(shell::command_at(program))
        };
        Ok(match who {
            Who::Ours(label) => {
                let mut command = programs.threadgauge();
                command
                    .args(["serve", "groups", "--listen", "127.0.0.1:0"])
                    .args(ours(label));
                (command, Listens::OURS)
            }
            Who::UWebSockets => (programs.guest("uws_groups", &[]), Listens::OURS),
            Who::Floor => (programs.guest("groups_floor", &["uring"]), Listens::OURS),
            Who::FloorByCalls => (programs.guest("groups_floor", &["calls"]), Listens::OURS),
            Who::NatsServer => {
                let mut command = at(&self.nats_server)?;
                command.args(["--addr", "127.0.0.1", "--port", "-1"]);
                (
                    command,
                    Listens::Says("Listening for client connections on 127.0.0.1:"),
                )
            }
            Who::Redis => {
                let (listens, port) = free_port()?;
                let mut command = at(&self.redis)?;
                command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
                command.args(["--save", "", "--appendonly", "no", "--maxclients", "15000"]);
                command.arg("--dir").arg(programs.folder());
                (command, listens)
            }
            Who::Mosquitto => {
                let (listens, port) = free_port()?;
                let settings = programs.folder().join("mosquitto.conf");
                // It gives up root for a user that may not be there.
                let text = format!(
                    "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type error\nuser root\n"
                );
                fs::write(&settings, text).with_context(|| format!("cannot write {}", settings.display()))?;
                let mut command = at(&self.mosquitto)?;
                command.arg("-c").arg(settings);
                (command, listens)
            }
        })
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// If it ends before it listens, or is not there.
    pub fn start(&self, who: Who, programs: &Programs, cpus: &Cpus) -> Result<Server> {
        let (command, listens) = self.command(who, programs)?;
        Ok(Server::start_that(listens, command, cpus)?)
    }
}

/// Stops it. Ours must end well; how a peer ends is its own affair.
pub fn stop(who: Who, server: Server) -> Result<()> {
    if who.is_peer() {
        drop(server);
        return Ok(());
    }
    server.end()?;
    Ok(())
}

fn is_there(program: &PathBuf) -> bool {
    Path::new(program).is_file()
}

fn all_of_ours() -> impl Iterator<Item = Who> {
    OURS.iter().map(|&(label, _)| Who::Ours(label))
}

fn ours(label: &str) -> &'static [&'static str] {
    let found = OURS.iter().find(|(name, _)| *name == label);
    found.expect("a label of the list above").1
}

fn free_port() -> Result<(Listens, u16)> {
    let port = threadgauge_lab::server::free_port()?;
    Ok((Listens::At(port), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_with_peers_is_of_ours() {
        for label in AGAINST_PEERS {
            assert!(!ours(label).is_empty());
        }
    }

    #[test]
    fn only_what_is_wanted_and_there_is_compared() {
        let contenders = Contenders {
            nats_server: None,
            nats: None,
            redis: Some("/redis".into()),
            mosquitto: None,
            uwebsockets: false,
            wanted: ["reactor", "nats-server", "redis-server"]
                .map(str::to_owned)
                .to_vec(),
        };
        assert_eq!(contenders.against_peers(), [Who::Ours("reactor"), Who::Redis]);
        assert_eq!(contenders.labels_of_ours(), ["reactor"]);
        assert_eq!(
            contenders.skipped(),
            "\nNot installed here, so not measured: nats-server.\n"
        );
    }

    #[test]
    fn what_is_given_and_not_there_is_named_before_anything_is_measured() {
        let refused = |nats_server: Option<&str>, nats: Option<&str>, wanted: &[String]| {
            let found = Contenders::find(nats_server.map(Path::new), nats.map(Path::new), wanted);
            found.expect_err("it is not there").to_string()
        };
        let nowhere = Some("/nowhere/at-all");
        for error in [refused(nowhere, None, &[]), refused(None, nowhere, &[])] {
            assert_eq!(error, "there is no program at /nowhere/at-all");
        }
        let error = refused(None, None, &["actor".to_owned()]);
        assert!(error.contains("\"actor\"; there are reactor, "), "{error}");
    }
}
