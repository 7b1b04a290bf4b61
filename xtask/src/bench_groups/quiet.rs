//! `quiet`: what very many connections cost a server on which nothing happens: accepting them, keeping them, waiting.

use std::fmt::{self, Write as _};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use threadgauge_load::Crowd;

use super::contenders::{Contenders, Who, stop};
use super::talk::{Demand, GROUP, Level, Names, address, connect};
use crate::rig::activity::Activity;
use crate::rig::figures::{NOTHING, at_most, estimate, spread, spread_of};
use crate::rig::memory::pss_kib;
use crate::rig::rounds::Rounds;
use crate::rig::{Part, Site};
use threadgauge_lab::server::Server;

const CONNECTIONS: usize = 10_000;
/// After the last byte, for the server to come to rest.
const REST: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(1);
/// Connections that are made before the server is looked at again: fewer than any lets wait.
const STEP: usize = 64;
/// The most of a loop's CPU time that accepting may take.
const ACCEPTING: f64 = 1.5;
/// The most KiB of its own that a connection may take.
const MEMORY_KIB: f64 = 3.0;
const US: f64 = 1e3;

/// A server, or a loop in C that only accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Run {
    Of(Who),
    /// `guests/c/servers/accept_floor.c`.
    Loop(Words),
}

/// What each client is told first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Words {
    Silent,
    /// As core NATS does.
    Info,
}

impl Run {
    /// The loop that says as much.
    fn floor(self) -> Self {
        match self {
            Self::Of(who) if who.speaks_nats() => Self::Loop(Words::Info),
            Self::Of(_) => Self::Loop(Words::Silent),
            Self::Loop(_) => self,
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(who) => write!(f, "{who}"),
            Self::Loop(Words::Silent) => f.write_str("accept loop in C"),
            Self::Loop(Words::Info) => f.write_str("accept loop in C that says INFO"),
        }
    }
}

/// Of one server's life.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    /// CPU time for each connection that was accepted, and sent its first words where the protocol has some.
    accept_ns: f64,
    /// Each connection's share of what the server has of memory, once it subscribed; of a loop, not a number.
    kib: f64,
    /// CPU time while nothing happened.
    idle_ns: u64,
}

impl From<Quiet> for Value {
    fn from(quiet: Quiet) -> Self {
        json!({"accept_cpu_ns": quiet.accept_ns, "kib_a_connection": quiet.kib, "idle_cpu_ns": quiet.idle_ns})
    }
}

/// The measurement and its table.
pub fn measure(site: &mut Site, contenders: &Contenders) -> Result<Part> {
    let connections = site.share_of(CONNECTIONS as u64) as usize;
    let connections = connections - connections % GROUP;
    let servers = contenders.against_peers().into_iter().map(Run::Of);
    let loops = [Words::Silent, Words::Info].map(Run::Loop);
    let runs: Vec<Run> = loops.into_iter().chain(servers).collect();
    let cpus = site.server_on(1);
    let programs = &site.programs;
    let measured = Rounds::measure("quiet", vec![runs.clone()], site.rounds, &mut site.rng, |run| {
        let start = || match run {
            Run::Of(who) => contenders.start(who, programs, &cpus),
            Run::Loop(words) => {
                let words = match words {
                    Words::Silent => "silent",
                    Words::Info => "info",
                };
                Ok(Server::start(programs.guest("accept_floor", &[words]), &cpus)?)
            }
        };
        let end = |server| match run {
            Run::Of(who) => stop(who, server),
            Run::Loop(_) => Ok(server.end().map(|_| ())?),
        };
        // Accepting alone, in one life; members of groups that keep still in another.
        let server = start()?;
        let accept_ns = accepting(&server, connections)?;
        end(server)?;
        let Run::Of(who) = run else {
            return Ok(Quiet {
                accept_ns,
                kib: f64::NAN,
                idle_ns: 0,
            });
        };
        let server = start()?;
        let before_kib = pss_kib(server.pid())?;
        let level = Level {
            connections,
            payload_bytes: 16,
            demand: Demand::Outstanding(1),
            names: Names::Alike,
        };
        let groups = connect(server.port(), who, level)?;
        sleep(REST);
        let kib = (pss_kib(server.pid())? - before_kib) / connections as f64;
        let before = Activity::of(server.pid())?;
        sleep(WATCHED);
        let idle_ns = Activity::of(server.pid())?.since(before).cpu_ns;
        drop(groups);
        end(server)?;
        Ok(Quiet {
            accept_ns,
            kib,
            idle_ns,
        })
    });
    let accepting = measured.map(|quiet| quiet.accept_ns);
    let of = |run: Run, figure: fn(Quiet) -> f64| {
        let rounds = measured.of(run).iter().flatten();
        spread_of(rounds.map(|&quiet| figure(quiet)))
    };
    let mut text = format!(
        "## {connections} connections on which nothing happens

CPU time to accept each, with what the server says to it unasked, over that of a loop around `accept` in C that says as much; what \
each adds to the server's memory (PSS, its own and not the kernel's) once it is a member of a group; the CPU time of the server in {} s in which nothing happens. \
Median (least – most) over rounds; ratio Hodges–Lehmann [95 % interval].

| server | accepting, CPU µs | over the loop | ≤ {ACCEPTING} | KiB a connection | ≤ {MEMORY_KIB} | CPU µs when idle |
|---|---:|---:|---|---:|---|---:|
",
        WATCHED.as_secs()
    );
    for run in runs {
        let floor = run == run.floor();
        let is_ours = matches!(run, Run::Of(who) if who.is_ours());
        let ratio = accepting.ratio(run, run.floor()).filter(|_| !floor);
        let kib = of(run, |quiet| quiet.kib).filter(|_| !floor);
        let _ = writeln!(
            text,
            "| {run} | {} | {} | {} | {} | {} | {} |",
            spread(accepting.spread(run), US),
            estimate(ratio.as_ref()),
            if is_ours {
                at_most(ratio.as_ref(), ACCEPTING)
            } else {
                NOTHING
            },
            spread(kib, 1.0),
            match kib.filter(|_| is_ours).map(|kib| kib.median <= MEMORY_KIB) {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => NOTHING,
            },
            spread(of(run, |quiet| quiet.idle_ns as f64).filter(|_| !floor), US),
        );
    }
    Ok(Part {
        text: text + &measured.missing(),
        values: measured.json(),
    })
}

/// CPU nanoseconds of the server for each of so many connections.
fn accepting(server: &Server, connections: usize) -> Result<f64> {
    let mut crowd = Crowd::new()?;
    let before = (server.descriptors()?, Activity::of(server.pid())?);
    let deadline = Instant::now() + PATIENCE;
    while crowd.len() < connections {
        for _ in 0..STEP.min(connections - crowd.len()) {
            crowd.connect(address(server.port()))?;
        }
        // So that none waits longer than the kernel lets it.
        while server.descriptors()? < before.0 + crowd.len() {
            ensure!(
                Instant::now() < deadline,
                "only {} of {} were accepted",
                server.descriptors()? - before.0,
                crowd.len()
            );
            sleep(LOOK);
        }
    }
    // What it says to the last may be on its way yet.
    sleep(LOOK * 50);
    let meanwhile = Activity::of(server.pid())?.since(before.1);
    Ok(meanwhile.cpu_ns as f64 / connections as f64)
}
