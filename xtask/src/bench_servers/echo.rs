//! `echo`: what a message costs each design that serves many connections, over a single loop in C.
//!
//! A virtual machine's CPU changes its speed by a tenth within seconds, which is more than what is to be told. So the
//! servers of a round stand side by side and have their messages in many short turns: each turn goes through all of
//! them, in one order and then in the reverse, so that what changes slower than two turns falls on all alike.

use std::fmt::{self, Write as _};
use std::net::TcpStream;
use std::process::Command;

use anyhow::Result;

use super::echo_driver::{MESSAGE_BYTES, exchange};
use super::sockets::connect;
use crate::rig::activity::Activity;
use crate::rig::designs::{DESIGNS, named};
use crate::rig::figures::{at_most, estimate, spread};
use crate::rig::profile::{Calls, Profile};
use crate::rig::programs::Whose;
use crate::rig::rounds::Rounds;
use crate::rig::{Part, Site};
use threadgauge_lab::server::{Cpus, Server};

const CONNECTIONS: [usize; 2] = [64, 1000];
const MESSAGES: u64 = 300_000;
/// In which a round has its messages; an even number.
const TURNS: u64 = 30;
/// Of two traced runs.
const TRACED_MESSAGES: [u64; 2] = [2_000, 12_000];
/// The most of the floor's CPU time that the best design may use.
const LIMIT: f64 = 1.05;
const US: f64 = 1e3;

/// A server of a design, or the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    connections: usize,
    /// None of the floor.
    design: Option<&'static str>,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.design.unwrap_or("C floor");
        write!(f, "echo, {} connections, {name}", self.connections)
    }
}

/// A server with its connections, which has its messages in turns.
pub(super) struct Served {
    server: Server,
    streams: Vec<TcpStream>,
    messages: u64,
    cpu_ns: u64,
}

impl Served {
    pub(super) fn start(server: Command, connections: usize, cpus: &Cpus) -> Result<Self> {
        let server = Server::start(server, cpus)?;
        let streams = connect(server.port(), connections)?;
        // An answer on each shows that each was accepted: what a connection costs is not what a message costs.
        exchange(&streams, connections as u64)?;
        Ok(Self {
            server,
            streams,
            messages: 0,
            cpu_ns: 0,
        })
    }

    pub(super) fn exchange(&mut self, messages: u64) -> Result<()> {
        let before = Activity::of(self.server.pid())?;
        exchange(&self.streams, messages)?;
        self.cpu_ns += Activity::of(self.server.pid())?.since(before).cpu_ns;
        self.messages += messages;
        Ok(())
    }

    /// CPU time a message, in ns.
    pub(super) fn end(self) -> Result<f64> {
        drop(self.streams);
        self.server.end()?;
        Ok(self.cpu_ns as f64 / self.messages as f64)
    }
}

/// The measurement and its tables.
pub fn measure(site: &mut Site) -> Result<Part> {
    let messages = site.share_of(MESSAGES);
    let cpus = site.server_on(1);
    let designs: Vec<Option<&str>> = std::iter::once(None)
        .chain(
            DESIGNS
                .iter()
                .filter(|design| design.many)
                .map(|design| Some(design.name)),
        )
        .collect();
    let runs = |connections| -> Vec<Run> {
        let run = |&design: &Option<&'static str>| Run { connections, design };
        designs.iter().map(run).collect()
    };
    let (rounds, programs) = (site.rounds, &site.programs);
    let server = |run: Run| match run.design {
        Some(design) => programs.server(Whose::Ours, named(design), "echo"),
        None => programs.guest("echo_floor", &[]),
    };
    let groups = CONNECTIONS.map(runs).to_vec();
    let measured = Rounds::measure_together("echo", groups, rounds, &mut site.rng, |group, announce| {
        let mut runs: Vec<Result<Served>> = Vec::new();
        for &run in group {
            announce(&run);
            runs.push(Served::start(server(run), run.connections, &cpus));
        }
        for turn in 0..TURNS {
            announce(&format!("turn {} of {TURNS}", turn + 1));
            let mut order: Vec<_> = runs.iter_mut().collect();
            if turn % 2 == 1 {
                order.reverse();
            }
            for run in order {
                if let Ok(served) = run
                    && let Err(error) = served.exchange(messages / TURNS)
                {
                    *run = Err(error);
                }
            }
        }
        runs.into_iter().map(|run| run.and_then(Served::end)).collect()
    });
    let served = runs(CONNECTIONS[0])
        .into_iter()
        .filter(|&run| measured.spread(run).is_some());
    let profile = Profile::measure(served, |run| {
        Calls::count(&server(run), &cpus, TRACED_MESSAGES, |port, messages| {
            exchange(&connect(port, run.connections)?, messages)?;
            Ok(messages)
        })
    });

    let mut text = format!(
        "## `echo`: CPU a message, over the floor

{MESSAGE_BYTES} bytes a message, one on its way on each connection, {messages} messages in {TURNS} turns, each compared. CPU is that of all of a server's threads and processes from the first message to \
the last, without what connections cost. Server on CPU {}, clients on {}. \
The floor is `guests/c/servers/echo_floor.c`. The limit is the best design's; system calls are of {} connections, \
traced in runs that were not timed.\n",
        cpus.server, cpus.clients, CONNECTIONS[0]
    );
    for connections in CONNECTIONS {
        let floor = Run {
            connections,
            design: None,
        };
        let _ = write!(
            text,
            "\n### {connections} connections\n\n| design | CPU µs a message | over the floor | ≤ {LIMIT} | system calls a message |\n|---|---:|---:|---|---|\n"
        );
        for run in runs(connections) {
            let ratio = run.design.and_then(|_| measured.ratio(run, floor));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                run.design.unwrap_or("*C floor*"),
                spread(measured.spread(run), US),
                estimate(ratio.as_ref()),
                at_most(ratio.as_ref(), LIMIT),
                profile.show(run)
            );
        }
    }
    Ok(Part {
        text: text + &measured.missing() + &profile.missing(),
        values: measured.json(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::programs::tests::c_programs;
    use threadgauge_lab::server::Cpus;
    use threadgauge_machine::allowed_cpus;

    #[test]
    fn the_floor_echoes_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let everywhere = allowed_cpus().unwrap();
        let cpus = Cpus {
            server: everywhere.clone(),
            clients: everywhere,
        };
        let server = Server::start(
            c_programs(folder.path(), &["echo_floor"]).guest("echo_floor", &[]),
            &cpus,
        )
        .unwrap();
        exchange(&connect(server.port(), 7).unwrap(), 50).unwrap();
        server.end().unwrap();
    }
}
