//! `chat` in rooms of ten: what splitting reading and writing between reactors brings, on one CPU and on two.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Result, ensure};
use threadgauge_load::codec::Chat;
use threadgauge_load::{Groups, Load, Plan};

use crate::rig::activity::Activity;
use crate::rig::designs::named;
use crate::rig::figures::{NOTHING, estimate, spread};
use crate::rig::profile::{Calls, Profile};
use crate::rig::programs::Whose;
use crate::rig::rounds::Rounds;
use crate::rig::{Part, Site};
use threadgauge_lab::server::{Cpus, Server};

/// The source's designs; each is compared with the first.
const DESIGNS: [&str; 3] = ["reactor", "split-reactor", "reactor-pool"];
const CONNECTIONS: [usize; 2] = [100, 1000];
/// Members of a room.
const ROOM: usize = 10;
/// Of a line, its end included.
const LINE_BYTES: usize = 128;
/// How long everyone talks.
const SPAN_MS: u64 = 1_000;
/// Of two traced runs.
const TRACED_MS: [u64; 2] = [50, 400];
const PATIENCE: Duration = Duration::from_secs(20);
const THOUSAND: f64 = 1e3;

/// A server of a design on so many CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    connections: usize,
    cpus: usize,
    design: &'static str,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            connections,
            cpus,
            design,
        } = self;
        let plural = if *cpus == 1 { "" } else { "s" };
        write!(f, "chat, {connections} connections, {cpus} CPU{plural}, {design}")
    }
}

/// The measurement and its table.
pub fn measure(site: &mut Site) -> Result<Part> {
    let span_ms = site.share_of(SPAN_MS);
    let places: BTreeMap<usize, Cpus> = [1, 2].map(|cpus| (cpus, site.server_on(cpus))).into();
    let groups: Vec<Vec<Run>> = CONNECTIONS
        .into_iter()
        .flat_map(|connections| {
            [1, 2].map(|cpus| {
                let run = |design| Run {
                    connections,
                    cpus,
                    design,
                };
                DESIGNS.map(run).to_vec()
            })
        })
        .collect();
    let (rounds, programs) = (site.rounds, &site.programs);
    let server = |run: Run| programs.server(Whose::Ours, named(run.design), "chat");
    let measured = Rounds::measure("chat", groups.clone(), rounds, &mut site.rng, |run| {
        let cpus = &places[&run.cpus];
        ensure!(cpus.server.len() == run.cpus, "there are not so many CPUs");
        let server = Server::start(server(run), cpus)?;
        let mut rooms = fill(server.port(), run.connections)?;
        let before = Activity::of(server.pid())?;
        let made = talk(&mut rooms, span_ms)?;
        let meanwhile = Activity::of(server.pid())?.since(before);
        drop(rooms);
        server.end()?;
        Ok(made as f64 / (meanwhile.cpu_ns as f64 / 1e9))
    });
    let served = groups
        .iter()
        .flatten()
        .copied()
        .filter(|&run| measured.spread(run).is_some());
    let profile = Profile::measure(served, |run| {
        Calls::count(&server(run), &places[&run.cpus], TRACED_MS, |port, span_ms| {
            talk(&mut fill(port, run.connections)?, span_ms)
        })
    });

    let mut text = format!(
        "## `chat`: deliveries for each CPU second of the server

Rooms of {ROOM}, lines of {LINE_BYTES} bytes, each member's next line once the other {} have its last; {span_ms} ms, each delivery compared \
with what must come next. In thousands: median (least – most) over rounds; ratio to `{}`, Hodges–Lehmann [95 % interval]. \
CPU is that of all of a server's threads while \
everyone talks; system calls are of traced runs that were not timed.

| connections | server's CPUs | clients' CPUs | design | thousand deliveries a CPU second | over {} | system calls a delivery |
|---:|---:|---:|---|---:|---:|---|
",
        ROOM - 1,
        DESIGNS[0],
        DESIGNS[0],
    );
    for &run in groups.iter().flatten() {
        let first = Run {
            design: DESIGNS[0],
            ..run
        };
        let ratio = measured.ratio(run, first).filter(|_| run != first);
        let enough = Some(&places[&run.cpus]).filter(|place| place.server.len() == run.cpus);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            run.connections,
            enough.map_or_else(|| NOTHING.to_owned(), |place| place.server.to_string()),
            enough.map_or_else(|| NOTHING.to_owned(), |place| place.clients.to_string()),
            run.design,
            spread(measured.spread(run), THOUSAND),
            estimate(ratio.as_ref()),
            profile.show(run)
        );
    }
    Ok(Part {
        text: text + &measured.missing() + &profile.missing(),
        values: measured.json(),
    })
}

/// Rooms that are full: everyone has joined and was told so.
fn fill(port: u16, connections: usize) -> Result<Groups> {
    let plan = Plan {
        connections,
        group_size: ROOM,
        payload_bytes: LINE_BYTES - 1,
        patience: PATIENCE,
    };
    Ok(Groups::connect((Ipv4Addr::LOCALHOST, port).into(), &Chat, plan)?)
}

/// Everyone talks for so long, and until nothing is on its way: how many deliveries there were.
fn talk(rooms: &mut Groups, span_ms: u64) -> Result<u64> {
    let load = Load::Closed {
        outstanding: NonZeroUsize::MIN,
    };
    Ok(rooms.talk(load, Duration::from_millis(span_ms))?.deliveries)
}
