//! The project's own chores, as one command: `cargo xtask`.
//!
//! Each chore is a file of its own; this one is their table of contents. Nothing here is part of the
//! product: a chore may call the built `threadgauge`, never the other way round.
#![forbid(unsafe_code)]
// A chore talks to the person who started it; there is no library below that would need silence.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use bench_rig::shell;
#[cfg(feature = "measuring")]
use bench_rig::{figures, guests};
use clap::{CommandFactory, Parser, Subcommand};

#[cfg(feature = "measuring")]
mod bench_harness;
mod browser;
mod check_deep;
mod clients;
mod counted;
#[cfg(feature = "measuring")]
mod cross_check;
mod deps;
mod folders;
mod golden;
mod licences;
mod machines;
mod made;
mod man;
mod mutants;
#[cfg(feature = "measuring")]
mod pairs;
mod prose;
#[cfg(feature = "measuring")]
mod rounds;
mod runs;
mod size;
mod spdx;
mod test;
#[cfg(feature = "measuring")]
mod validate_advice;
mod within;
#[cfg(feature = "measuring")]
mod worker;

#[cfg(not(feature = "measuring"))]
mod passed_on;
#[cfg(not(feature = "measuring"))]
use passed_on::{self as bench_harness, self as cross_check, self as pairs, self as validate_advice};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Option<Chore>,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that must pass before a change lands, cheapest first
    Test,
    /// Install what the tests need beyond Rust and a C compiler
    Deps {
        /// Also what `check-deep` needs (valgrind, cargo-mutants)
        #[arg(long)]
        deep: bool,
    },
    /// Does the folder map in ARCHITECTURE.md match the tree?
    Folders,
    /// May every dependency be shipped under its licence?
    Licences,
    /// Is any line of a comment or of Markdown too long to read?
    Prose,
    /// The report of the newest run under runs/, or of a tiny one, in a headless Chromium
    Browser {
        /// Test this page instead of making one
        #[arg(long, value_name = "FILE")]
        page: Option<PathBuf>,
        /// Keep pictures of it, in every width and colour scheme, in this folder
        #[arg(long, value_name = "DIR")]
        pictures: Option<PathBuf>,
    },
    /// The protocol `groups` with the clients that NATS users have
    Clients(clients::Options),
    /// Write the man page and the shell completions into a folder
    Man {
        /// Made if it is missing
        #[arg(value_name = "DIR", default_value = "target/man")]
        dir: PathBuf,
    },
    /// The longer checks: valgrind on the unsafe leaves, loom on the lock-free parts, many traces, changed code, every
    /// fuzz target
    CheckDeep(check_deep::Options),
    /// Measure threadgauge itself against the limits it promises
    BenchHarness(bench_harness::Options),
    /// Figures of threadgauge beside those of perf, hackbench, lmbench, stress-ng and runtimes' own benchmarks, in
    /// interleaved runs
    CrossCheck(cross_check::Options),
    /// Write anew what the stored runs, the plans, `explain` and `list` say, and list what moved
    Golden,
    /// Lines of code by crate and experiment, and files that import each other in a circle
    Size(size::Options),
    /// Pairs of runs, compared: does the harness cry wolf, and does it see a real handicap?
    Pairs(pairs::Options),
    /// Runs in virtual machines whose kernel is started in other ways, by turns
    Machines(machines::Options),
    /// Workloads predicted by `advise` and then measured: hours, on a quiet machine; it goes on where it was ended
    ValidateAdvice(validate_advice::Options),
    /// A test binary, ended where it takes much longer than it did before
    #[command(hide = true)]
    Within(within::Options),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            error
                .chain()
                .skip(1)
                .for_each(|cause| eprintln!("because: {cause}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let Some(chore) = Cli::parse().chore else {
        Cli::command().print_help()?;
        return Ok(());
    };
    if !matches!(chore, Chore::Within(_)) {
        std::env::set_current_dir(shell::root()?)?;
    }
    match chore {
        Chore::Test => test::run(),
        Chore::Deps { deep } => deps::install(if deep { deps::Need::Deep } else { deps::Need::Tests }),
        Chore::Folders => folders::check(),
        Chore::Licences => licences::check(),
        Chore::Prose => prose::check(),
        Chore::Browser { page, pictures } => browser::run(page.as_deref(), pictures.as_deref()),
        Chore::Clients(options) => clients::run(&options),
        Chore::Man { dir } => man::write(&dir),
        Chore::CheckDeep(options) => check_deep::run(&options),
        Chore::BenchHarness(options) => bench_harness::run(&options),
        Chore::CrossCheck(options) => cross_check::run(&options),
        Chore::Golden => golden::write(),
        Chore::Size(options) => size::run(&options),
        Chore::Pairs(options) => pairs::run(&options),
        Chore::Machines(options) => machines::run(&options),
        Chore::ValidateAdvice(options) => validate_advice::run(&options),
        Chore::Within(options) => within::run(&options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        <Cli as CommandFactory>::command().debug_assert();
    }
}
