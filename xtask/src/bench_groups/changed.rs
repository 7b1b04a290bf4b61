//! Every design of this build beside that of another, with one message outstanding for each connection.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use threadgauge_load::Groups;

use super::contenders::{Contenders, Who};
use super::talk::{Demand, Level, Names, connect, load};
use crate::rig::activity::Activity;
use crate::rig::change::{self, Driven, of_a_turn};
use crate::rig::{self, Site};
use threadgauge_lab::server::Server;

/// How long a server of a round is driven.
const SPAN_MS: u64 = 1_000;
/// As the first panel has it.
const LEVEL: Level = Level {
    connections: 100,
    payload_bytes: 128,
    demand: Demand::Outstanding(1),
    names: Names::Alike,
};

/// What the builds are compared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Changed {
    Saturated,
}

/// Measures them, prints the table, writes the files.
pub fn measure(
    options: &rig::Options,
    before: &Path,
    contenders: &Contenders,
    site: &mut Site,
) -> Result<()> {
    let title = "Group messaging: every design before and now";
    rig::measure_parts(
        "groups-change",
        title,
        options,
        &[],
        site,
        |part, site| match part {
            Changed::Saturated => saturated(site, before, contenders),
        },
    )
}

fn saturated(site: &mut Site, before: &Path, contenders: &Contenders) -> Result<rig::Part> {
    let span = Duration::from_millis(of_a_turn(site.share_of(SPAN_MS)));
    let cpus = site.server_on(1);
    let designs = contenders.labels_of_ours();
    let unit = format!(
        "a delivery of {} bytes, {} connections in groups of ten, on one CPU",
        LEVEL.payload_bytes, LEVEL.connections
    );
    change::measure(site, before, "saturated", &unit, &designs, |programs, label| {
        let who = Who::Ours(label);
        let server = contenders.start(who, programs, &cpus)?;
        let groups = connect(server.port(), who, LEVEL)?;
        Ok(Box::new(Talking {
            server,
            groups,
            span,
            cpu_ns: 0,
            deliveries: 0,
        }))
    })
}

/// A server with its groups.
struct Talking {
    server: Server,
    groups: Groups,
    /// Of a turn.
    span: Duration,
    cpu_ns: u64,
    deliveries: u64,
}

impl Driven for Talking {
    fn turn(&mut self) -> Result<()> {
        let before = Activity::of(self.server.pid())?;
        let tally = self.groups.talk(load(LEVEL.demand)?, self.span)?;
        self.cpu_ns += Activity::of(self.server.pid())?.since(before).cpu_ns;
        self.deliveries += tally.deliveries;
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<f64> {
        drop(self.groups);
        self.server.end()?;
        Ok(self.cpu_ns as f64 / self.deliveries as f64)
    }
}
