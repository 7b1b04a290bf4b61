//! The protocol `groups` as NATS users meet it: official clients, the `nats` command, `nats-server` beside it.
//!
//! Each case starts a server of its own and plays one scenario. Every scenario is also played to `nats-server` where
//! there is one, which shows that it asks for what NATS does. `cargo xtask clients` starts this.

mod answers;
mod crowd;
mod differential;
mod greeting;
#[path = "../../../crates/reactor/tests/common/groups_answers.rs"]
mod groups_answers;
mod lame_duck;
mod limits;
mod monitor;
mod nats_command;
mod python_client;
mod rust_client;
mod server;
mod tracing;
mod wire;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;

use crate::server::Program;

/// Plays scenarios of NATS clients to servers.
#[derive(Parser)]
struct Cli {
    /// The built command
    #[arg(long, value_name = "FILE")]
    threadgauge: Option<PathBuf>,
    /// The designs to serve on; `default` is the one that is taken where none is named
    #[arg(
        long,
        value_name = "DESIGN,…",
        value_delimiter = ',',
        requires = "threadgauge"
    )]
    designs: Vec<String>,
    /// Where `nats-server` is: everything is played to it too, and what it does is compared
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
    /// Where the command `nats` is; without it, its cases are left out
    #[arg(long, value_name = "FILE")]
    nats: Option<PathBuf>,
    /// A Python with the packages of python/requirements.txt; without it, its cases are left out
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// More of what is random, and ten times the connections
    #[arg(long)]
    deep: bool,
    /// Only cases whose names contain all of these
    words: Vec<String>,
}

/// Where a case is played.
pub struct Site {
    pub program: Program,
    /// More than in the tests of every change.
    pub deep: bool,
    /// To compare with.
    pub nats_server: Option<PathBuf>,
    nats: Option<PathBuf>,
    python: Option<PathBuf>,
}

impl Site {
    /// One of the programs in Python.
    ///
    /// # Panics
    ///
    /// If there is no Python: then there are no cases for it.
    pub fn python(&self, script: &str) -> Command {
        self.python_at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(script))
    }

    /// Python, with this as its first argument.
    ///
    /// # Panics
    ///
    /// As [`python`](Self::python).
    pub fn python_at(&self, first: &Path) -> Command {
        let mut command = Command::new(self.python.as_ref().expect("a case for Python"));
        command.arg(first);
        command
    }

    /// The command `nats`.
    ///
    /// # Panics
    ///
    /// If there is none: then there are no cases for it.
    pub fn nats(&self) -> Command {
        Command::new(self.nats.as_ref().expect("a case for the command"))
    }

    /// What can be played here.
    fn suites(&self) -> Vec<(&'static str, &'static [Case])> {
        let mut suites = vec![("async-nats", rust_client::CASES)];
        suites.extend(self.python.as_ref().map(|_| ("nats-py", python_client::CASES)));
        suites.push(("lame-duck", lame_duck::CASES));
        suites.extend(
            self.python
                .as_ref()
                .map(|_| ("lame-duck", lame_duck::PYTHON_CASES)),
        );
        suites.extend(self.nats.as_ref().map(|_| ("nats", nats_command::CASES)));
        suites.push(("answers", answers::CASES));
        suites.push(("greeting", greeting::CASES));
        suites.push(("tracing", tracing::CASES));
        suites.push(("limits", limits::CASES));
        suites.push(("crowd", crowd::CASES));
        if let (Program::Ours { .. }, Some(_)) = (&self.program, &self.python) {
            suites.push(("monitor", monitor::CASES));
        }
        if let (Program::Ours { .. }, Some(_)) = (&self.program, &self.nats_server) {
            suites.push(("differential", differential::CASES));
        }
        suites
    }
}

/// What is true, and how that is seen.
pub type Case = (&'static str, fn(&Site) -> Result<()>);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let cli = Cli::parse();
    let (mut passed, mut failed) = (0, Vec::new());
    for program in programs(&cli) {
        let site = Site {
            program,
            deep: cli.deep,
            nats_server: cli.nats_server.clone(),
            nats: cli.nats.clone(),
            python: cli.python.clone(),
        };
        for (suite, cases) in site.suites() {
            for (what, case) in cases {
                let name = format!("{}::{suite}::{what}", site.program.name());
                if !cli.words.iter().all(|word| name.contains(word)) {
                    continue;
                }
                let start = Instant::now();
                let outcome = case(&site);
                println!(
                    "test {name} ... {} ({} ms)",
                    if outcome.is_ok() { "ok" } else { "FAILED" },
                    start.elapsed().as_millis()
                );
                match outcome {
                    Ok(()) => passed += 1,
                    Err(error) => {
                        println!("  {error:#}");
                        failed.push(name);
                    }
                }
            }
        }
    }
    println!("{passed} passed; {} failed: {failed:#?}", failed.len());
    // Words that fit nothing are a mistake, not a success.
    ensure!(failed.is_empty() && passed > 0, "not all passed");
    Ok(())
}

/// `nats-server` first: where a scenario is wrong, it fails there.
fn programs(cli: &Cli) -> Vec<Program> {
    let mut programs = Vec::new();
    programs.extend(
        cli.nats_server
            .clone()
            .map(|nats_server| Program::Nats { nats_server }),
    );
    if let Some(threadgauge) = &cli.threadgauge {
        programs.extend(cli.designs.iter().map(|design| Program::Ours {
            threadgauge: threadgauge.clone(),
            design: design.clone(),
        }));
    }
    programs
}
