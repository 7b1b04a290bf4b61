//! `cargo xtask bench-groups`: group messaging by `threadgauge serve groups`, its peers, and a floor in C, side by
//! side.
//!
//! Every server is started, driven, and stopped in turn, on a port of its own each time. A part is a panel of
//! [`panels`], or a file: [`quiet`], [`churn`], [`nats_bench`]. What is compared is in [`contenders`], what one run is
//! in [`talk`]; what measurements of servers share is in [`crate::rig`].
//!
//! One driver for all, `crates/load`, on a CPU of its own. In a closed loop its speed decides how much one turn of the
//! server finds to do, so its share of its CPU is in the table. Under a fixed rate a run is invalid when less than 99 %
//! of the rate was reached, or the driver used over 85 % of its CPU. Redis and MQTT 3.1.1 deliver a message to its
//! sender too: that is work, and counts as a delivery. A message is outstanding until all its receivers have it.
//!
//! uWebSockets is compiled where a C++ compiler finds its headers, `libuSockets` and zlib; `CXXFLAGS` and `LDFLAGS` may
//! name source trees. In a clone with its submodules: `make -C uSockets && ln -s uSockets.a uSockets/libuSockets.a`,
//! then `CXXFLAGS="-I $PWD/src -I $PWD/uSockets/src" LDFLAGS="-L $PWD/uSockets"`. It sends up to 32 messages of a turn
//! at once; beyond, one by one, since the member that is being read holds its buffer: sixteen outstanding in rooms of
//! ten cost it a system call a delivery. The driver's frames have a mask of zeroes.
//!
//! How our designs compare with each other is what the experiment `multicast` measures. Here is what no experiment does
//! yet: peers, the floor, another build of ours, members that keep still or come and go, `nats bench`.

mod changed;
mod churn;
mod contenders;
mod nats_bench;
mod panels;
mod quiet;
mod talk;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::rig::{self, Site};
use contenders::Contenders;

/// How much to measure, of what, and where to put it.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    rig: rig::Options,
    /// Only these parts; all without it
    #[arg(long, value_name = "PART,…", value_delimiter = ',', conflicts_with = "before")]
    only: Vec<What>,
    /// Only these servers (nats-server, redis-server, mosquitto, uwebsockets, floor, floor-by-calls), and only these of
    /// ours, as the tables call them; all without it
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    servers: Vec<String>,
    /// `nats-server`; on the path without it
    #[arg(long, value_name = "PATH")]
    nats_server: Option<PathBuf>,
    /// The `nats` command; on the path without it
    #[arg(long, value_name = "PATH")]
    nats: Option<PathBuf>,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// One message outstanding for each of 100 to 10,000 connections
    Saturated,
    /// Sixteen outstanding
    Pipelined,
    /// Messages of 16 bytes and of 1 KiB
    Sizes,
    /// Subscriptions of which no two have the same name
    Names,
    /// Fixed deliveries a second, with their latency
    Rates,
    /// Whether half the connections change what a delivery costs: they must not
    Halved,
    /// Accepting, memory and CPU time of 10,000 connections on which nothing happens
    Quiet,
    /// Members that come, speak once and go, and subscriptions that change beside full load
    Churn,
    /// `nats bench`: one publisher to nine subscribers
    NatsBench,
}

/// Measures, prints the tables, writes the files.
pub fn run(options: &Options) -> Result<()> {
    // Before anything is built: who has mistyped something hears so at once.
    let (nats_server, nats) = (options.nats_server.as_deref(), options.nats.as_deref());
    let contenders = Contenders::find(nats_server, nats, &options.servers)?;
    if rig::ran_optimised(&options.rig)? {
        return Ok(());
    }
    let mut site = Site::new(&options.rig)?;
    if let Some(before) = &options.rig.before {
        return changed::measure(&options.rig, before, &contenders, &mut site);
    }
    contenders.build(&site.programs)?;
    let title = "Group messaging: ours, its peers and a floor in C";
    rig::measure_parts(
        "groups",
        title,
        &options.rig,
        &options.only,
        &mut site,
        |part, site| {
            let part = match part {
                What::Saturated => panels::saturated(site, &contenders),
                What::Pipelined => panels::pipelined(site, &contenders),
                What::Sizes => panels::sizes(site, &contenders),
                What::Names => panels::names(site, &contenders),
                What::Rates => panels::rates(site, &contenders),
                What::Halved => panels::halved(site, &contenders),
                What::Quiet => quiet::measure(site, &contenders),
                What::Churn => churn::measure(site, &contenders),
                What::NatsBench => nats_bench::measure(site, &contenders),
            };
            part.map(|mut part| {
                part.text.push_str(&contenders.skipped());
                part
            })
        },
    )
}
