//! `cargo xtask bench-servers`: `threadgauge serve` beside plain C programs of the same designs.
//!
//! A part is a file: [`bytes`], [`echo`]; [`changed`] compares two builds. What measurements of servers share is in
//! [`crate::rig`], the C programs in `guests/c/servers`: each does what its design needs and no more (no time-outs,
//! counters or drain).
//!
//! CPU time is the server's alone, all threads and processes. In `bytes` it is from start to end, children included,
//! with the cost of starting and ending beside it; in `echo` from the first message to the last, so connecting is left
//! out. Clients count every byte and compare every message. They have CPUs of their own where there are enough.
//!
//! Ratios are Hodges–Lehmann estimates of pairs with exact signed-rank intervals, which need six rounds. A limit is met
//! or missed when the whole interval says so, and open otherwise. System calls are counted by `strace` in two runs of
//! different length, not timed; their difference leaves out starting and connecting.
//!
//! How much one turn of a loop finds to do depends on the speed of the clients: compare figures of `echo` within a
//! table, not between machines.

mod bytes;
mod changed;
mod echo;
mod echo_driver;
mod published;
mod sockets;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::rig::{self, Site};

/// How much to measure, of what, and where to put it.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    rig: rig::Options,
    /// Only these parts; all without it
    #[arg(long, value_name = "PART,…", value_delimiter = ',', conflicts_with = "before")]
    only: Vec<What>,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Every design under Stevens' client, beside its C twin
    Bytes,
    /// CPU a message, over a single loop in C
    Echo,
}

/// Measures, prints the tables, writes the files.
pub fn run(options: &Options) -> Result<()> {
    if rig::ran_optimised(&options.rig)? {
        return Ok(());
    }
    let mut site = Site::new(&options.rig)?;
    if let Some(before) = &options.rig.before {
        return changed::measure(&options.rig, before, &mut site);
    }
    let title = "Servers beside plain C programs of the same designs";
    rig::measure_parts(
        "servers",
        title,
        &options.rig,
        &options.only,
        &mut site,
        |part, site| match part {
            What::Bytes => bytes::measure(site),
            What::Echo => echo::measure(site),
        },
    )
}
