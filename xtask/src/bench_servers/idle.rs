//! `idle`: what a server does with a thousand connections on which nothing happens. It must be nothing.

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::echo_driver::exchange;
use super::sockets::connect;
use crate::rig::activity::Activity;
use crate::rig::designs::{DESIGNS, named};
use crate::rig::figures::NOTHING;
use crate::rig::programs::Whose;
use crate::rig::rounds::Rounds;
use crate::rig::{Part, Site};
use threadgauge_lab::server::Server;

const CONNECTIONS: usize = 1000;
/// After the last message, for the server to come to rest.
const REST: Duration = Duration::from_millis(500);
const WATCHED: Duration = Duration::from_secs(2);
/// Nothing is compared here, so there is no need for more.
const MOST_ROUNDS: usize = 3;

/// The measurement and its table.
pub fn measure(site: &mut Site) -> Result<Part> {
    let cpus = site.everywhere();
    let designs: Vec<&str> = DESIGNS
        .iter()
        .filter(|design| design.many)
        .map(|design| design.name)
        .collect();
    let groups = designs.iter().map(|&design| vec![design]).collect();
    let (rounds, programs) = (site.rounds.min(MOST_ROUNDS), &site.programs);
    let measured = Rounds::measure("idle", groups, rounds, &mut site.rng, |design| {
        let server = Server::start(programs.server(Whose::Ours, named(design), "echo"), &cpus)?;
        let streams = connect(server.port(), CONNECTIONS)?;
        // An answer on each shows that each was accepted.
        exchange(&streams, CONNECTIONS as u64)?;
        sleep(REST);
        let before = Activity::of(server.pid())?;
        sleep(WATCHED);
        let meanwhile = Activity::of(server.pid())?.since(before);
        drop(streams);
        server.end()?;
        Ok(meanwhile)
    });
    let mut text = format!(
        "## `idle`: {CONNECTIONS} connections on which nothing happens

Context switches and CPU time of all of a server's threads and processes in {} s; the most of {rounds} rounds. Both must be 0.

| design | threads | context switches | CPU µs | nothing |
|---|---:|---:|---:|---|
",
        WATCHED.as_secs()
    );
    for design in designs {
        let rounds = measured.of(design).iter().flatten();
        let most = rounds.copied().reduce(Activity::most);
        let _ = match most {
            Some(most) => writeln!(
                text,
                "| {design} | {} | {} | {:.1} | {} |",
                most.threads,
                most.switches,
                most.cpu_ns as f64 / 1e3,
                if most.switches + most.cpu_ns == 0 {
                    "yes"
                } else {
                    "**no**"
                }
            ),
            None => writeln!(
                text,
                "| {design} | {NOTHING} | {NOTHING} | {NOTHING} | {NOTHING} |"
            ),
        };
    }
    Ok(Part {
        text: text + &measured.missing(),
        values: measured.json(),
    })
}
