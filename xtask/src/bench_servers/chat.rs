//! `chat` in rooms of ten: what splitting reading and writing between reactors brings, on one CPU and on two.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use anyhow::{Result, ensure};

use super::chat_driver::Rooms;
use super::chat_hall::{LINE_BYTES, ROOM};
use crate::rig::activity::Activity;
use crate::rig::designs::named;
use crate::rig::figures::{NOTHING, estimate, spread};
use crate::rig::profile::{Calls, Profile};
use crate::rig::programs::Whose;
use crate::rig::rounds::Rounds;
use crate::rig::server::{Cpus, Server};
use crate::rig::{Part, Site};

/// The source's designs; each is compared with the first.
const DESIGNS: [&str; 3] = ["reactor", "split-reactor", "reactor-pool"];
const CONNECTIONS: [usize; 2] = [100, 1000];
const DELIVERIES: u64 = 1_000_000;
/// Of two traced runs.
const TRACED_DELIVERIES: [u64; 2] = [20_000, 100_000];
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
    let deliveries = site.share_of(DELIVERIES);
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
    let measured = Rounds::measure("chat", groups.clone(), rounds, &mut site.dice, |run| {
        let cpus = &places[&run.cpus];
        ensure!(cpus.server.len() == run.cpus, "there are not so many CPUs");
        let server = Server::start(server(run), cpus)?;
        let mut rooms = Rooms::fill(server.port, run.connections)?;
        let before = Activity::of(server.pid())?;
        let made = rooms.talk(deliveries)?;
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
        Calls::count(
            &server(run),
            &places[&run.cpus],
            TRACED_DELIVERIES,
            |port, deliveries| Rooms::fill(port, run.connections)?.talk(deliveries),
        )
    });

    let mut text = format!(
        "## `chat`: deliveries for each CPU second of the server

Rooms of {ROOM}, lines of {LINE_BYTES} bytes, each member's next line once the other {} have its last; {deliveries} deliveries or a few \
more, each compared with what must come next. In thousands: median (least – most) over rounds; ratio to `{}`, Hodges–Lehmann [95 % interval]. \
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
