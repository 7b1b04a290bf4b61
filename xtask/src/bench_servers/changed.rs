//! Every design of this build beside that of another, in `bytes` and in `echo`.

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;

use super::{bytes, echo};
use crate::rig::change::{self, Driven, of_a_turn};
use crate::rig::designs::{DESIGNS, Design, named};
use crate::rig::programs::Whose;
use crate::rig::{self, Site};
use threadgauge_lab::server::Server;

/// Of a server in a round of `bytes`, and the client's processes.
const CLIENTS: u64 = 2_000;
const PROCESSES: u64 = 5;
/// In `echo`.
const CONNECTIONS: usize = 64;
const MESSAGES: u64 = 100_000;

/// What the builds are compared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Changed {
    Bytes,
    Echo,
}

/// Measures both, prints the tables, writes the files.
pub fn measure(options: &rig::Options, before: &Path, site: &mut Site) -> Result<()> {
    let title = "Servers: every design before and now";
    rig::measure_parts(
        "servers-change",
        title,
        options,
        &[],
        site,
        |part, site| match part {
            Changed::Bytes => of_bytes(site, before),
            Changed::Echo => of_echo(site, before),
        },
    )
}

fn names(which: impl Fn(&Design) -> bool) -> Vec<&'static str> {
    DESIGNS
        .iter()
        .filter(|design| which(design))
        .map(|design| design.name)
        .collect()
}

fn of_bytes(site: &mut Site, before: &Path) -> Result<rig::Part> {
    let clients = of_a_turn(site.share_of(CLIENTS)).max(PROCESSES);
    let cpus = site.everywhere();
    let unit = "one of Stevens' clients, start and end of the server included";
    change::measure(
        site,
        before,
        "bytes",
        unit,
        &names(|_| true),
        |programs, design| {
            let server = Server::start(programs.server(Whose::Ours, named(design), "bytes"), &cpus)?;
            let programs = programs.clone();
            Ok(Box::new(Bytes {
                server,
                programs,
                clients,
                served: 0,
            }))
        },
    )
}

/// A server of `bytes`.
struct Bytes {
    server: Server,
    programs: rig::programs::Programs,
    /// Of a turn.
    clients: u64,
    served: u64,
}

impl Driven for Bytes {
    fn turn(&mut self) -> Result<()> {
        bytes::client(
            &self.programs,
            self.server.port(),
            PROCESSES,
            self.clients / PROCESSES,
        )?;
        self.served += self.clients / PROCESSES * PROCESSES;
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<f64> {
        Ok(self.server.end()?.as_nanos() as f64 / self.served as f64)
    }
}

fn of_echo(site: &mut Site, before: &Path) -> Result<rig::Part> {
    let messages = of_a_turn(site.share_of(MESSAGES));
    let cpus = site.server_on(1);
    let unit = format!("a message, over {CONNECTIONS} connections, on one CPU");
    change::measure(
        site,
        before,
        "echo",
        &unit,
        &names(|design| design.many),
        |programs, design| {
            let server = programs.server(Whose::Ours, named(design), "echo");
            let served = echo::Served::start(server, CONNECTIONS, &cpus)?;
            Ok(Box::new(Echo { served, messages }))
        },
    )
}

/// A server of `echo`.
struct Echo {
    served: echo::Served,
    /// Of a turn.
    messages: u64,
}

impl Driven for Echo {
    fn turn(&mut self) -> Result<()> {
        self.served.exchange(self.messages)
    }

    fn end(self: Box<Self>) -> Result<f64> {
        self.served.end()
    }
}
