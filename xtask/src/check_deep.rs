//! `cargo xtask check-deep`: what takes too long for every change.
//!
//! Valgrind's memcheck over the tests of the unsafe leaves, an example under the tools of valgrind that users have,
//! loom's model checking of the lock-free parts, very many connections to the servers of the conformance suites, many
//! random traces on every design, NATS' clients on every design, changes of the code that a test must notice, then
//! every fuzz target for a while. All look for what the tests themselves cannot see.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::{clients, deps, mutants, shell};

/// A crate with unsafe leaves, and what the names of the tests that reach them contain and do not.
struct Leaves {
    package: &'static str,
    tests: &'static str,
    skip: &'static [&'static str],
}

impl Leaves {
    fn arguments(&self) -> Vec<&str> {
        let skipped = self.skip.iter().flat_map(|words| ["--skip", words]);
        [self.tests].into_iter().chain(skipped).collect()
    }
}

const LEAVES: &[Leaves] = &[
    // Its one leaf is tested through the modules that use it.
    Leaves {
        package: "threadgauge-machine",
        tests: "",
        skip: &[],
    },
    // The ring between two threads, and the scope on threads that stay. The simulations of the adaptive degree are
    // arithmetic, and take a quarter of an hour there.
    Leaves {
        package: "threadgauge-exec",
        tests: "",
        skip: &["adaptive::regret", "adaptive::servers"],
    },
    // The forks themselves are left out: valgrind knows no descriptors of processes. And a thread that waits in
    // `io_uring_enter` for another: valgrind 3.19 lets none run meanwhile.
    Leaves {
        package: "threadgauge-reactor",
        tests: "",
        skip: &["fork", "a_loop_over_io_uring_hears_of_tasks"],
    },
    Leaves {
        package: "threadgauge-experiments",
        tests: "sys::",
        skip: &[],
    },
];
/// A program of a user: threads, an adaptive degree and so the clocks, sockets.
const EXAMPLE: (&str, &str) = ("threadgauge-exec", "call_service");
/// What of valgrind users run their programs under; what it then says of them is for them to judge.
const TOOLS: &[&str] = &["memcheck", "helgrind", "massif"];
/// Crates with models for loom: tests named `loom…`, built with a flag of its own, so in a folder of their own.
const MODELLED: &[&str] = &["threadgauge-exec", "threadgauge-reactor"];
const LOOM_FLAGS: &str = "--cfg loom";
const LOOM_TARGET: &str = "target/loom";
/// The status by which valgrind says that it found something, so that a failed test is told from it.
const FOUND: &str = "99";

/// How deep.
#[derive(Args)]
pub struct Options {
    /// Seconds for each fuzz target
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    fuzz_seconds: u32,
    /// Only valgrind
    #[arg(long, group = "only")]
    valgrind_only: bool,
    /// Only loom's models
    #[arg(long, group = "only")]
    loom_only: bool,
    /// Only the servers with 10,000 connections
    #[arg(long, group = "only")]
    crowd_only: bool,
    /// Only the random traces that all designs play alike
    #[arg(long, group = "only")]
    traces_only: bool,
    /// Only the clients of NATS, on every design
    #[arg(long, group = "only")]
    clients_only: bool,
    /// Only the fuzz targets
    #[arg(long, group = "only")]
    fuzz_only: bool,
    /// Only whether a test notices where code is changed
    #[arg(long, group = "only")]
    mutants_only: bool,
    /// How many changes a crate are tried where code decides nothing
    #[arg(long, requires = "mutants_only", default_value_t = mutants::SAMPLE, value_name = "CHANGES")]
    sample: NonZeroUsize,
    /// In these crates, by the names of their folders; in all, where none is named
    #[arg(value_name = "CRATE", requires = "mutants_only")]
    crates: Vec<String>,
}

/// Runs all of them, or the one asked for.
pub fn run(options: &Options) -> Result<()> {
    let one = [
        options.valgrind_only,
        options.loom_only,
        options.crowd_only,
        options.traces_only,
        options.clients_only,
        options.fuzz_only,
        options.mutants_only,
    ];
    let all = !one.contains(&true);
    if all || options.valgrind_only {
        deps::install(deps::Need::Deep)?;
        memcheck()?;
        valgrinds_tools()?;
    }
    if all || options.loom_only {
        models()?;
    }
    if all || options.crowd_only {
        crowd()?;
    }
    if all || options.traces_only {
        traces()?;
    }
    if all || options.clients_only {
        eprintln!("== clients of NATS on every design");
        clients::deep()?;
    }
    if all || options.mutants_only {
        mutants::run(&options.crates, options.sample)?;
    }
    if all || options.fuzz_only {
        fuzz(options.fuzz_seconds)?;
    }
    Ok(())
}

/// Five times the connections of the normal tests, to every event-driven design.
fn crowd() -> Result<()> {
    eprintln!("== servers with 10,000 connections");
    shell::run(
        shell::cargo()
            .args([
                "test",
                "--quiet",
                "--locked",
                "--release",
                "--package",
                "threadgauge-reactor",
            ])
            .args(["--test", "conformance", "--", "very_many_clients"])
            .env("THREADGAUGE_CONNECTIONS", "10000"),
    )
    .context("the limit on descriptors must be above 10,100; see `ulimit -Hn`")
}

/// Twenty times the traces of the normal test, on every design, and others each time.
fn traces() -> Result<()> {
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)?
        .as_secs()
        .to_string();
    eprintln!("== 1,000 random traces on every design, with the seed {seed}");
    shell::run(
        shell::cargo()
            .args(["test", "--quiet", "--locked", "--package", "threadgauge-reactor"])
            .args(["--all-features", "--test", "equal"])
            .env("THREADGAUGE_TRACES", "1000")
            .env("THREADGAUGE_SEED", seed),
    )
}

fn models() -> Result<()> {
    for package in MODELLED {
        eprintln!("== loom: the models of {package}");
        let test = |arguments: &[&str]| {
            let mut command = shell::cargo();
            command
                .args([
                    "test",
                    "--quiet",
                    "--locked",
                    "--release",
                    "--lib",
                    "--package",
                    package,
                ])
                .args(["--", "loom"])
                .args(arguments)
                .env("CARGO_TARGET_DIR", LOOM_TARGET)
                .env("RUSTFLAGS", LOOM_FLAGS);
            command
        };
        let listed = shell::output(&mut test(&["--list", "--format=terse"]))?;
        ensure!(
            listed.lines().any(|line| line.ends_with(": test")),
            "{package} has no tests named loom…: nothing would be checked"
        );
        shell::run(&mut test(&[]))?;
    }
    Ok(())
}

fn memcheck() -> Result<()> {
    for leaves in LEAVES {
        let messages = shell::output(shell::cargo().args([
            "test",
            "--locked",
            "--no-run",
            "--lib",
            "--message-format=json",
            "--package",
            leaves.package,
        ]))?;
        let [binary] = &shell::executables(&messages)?[..] else {
            bail!("{} has not exactly one test binary", leaves.package);
        };
        let listed = shell::output(
            shell::command_at(binary)
                .args(leaves.arguments())
                .args(["--list", "--format=terse"]),
        )?;
        let tests = listed.lines().filter(|line| line.ends_with(": test")).count();
        ensure!(
            tests > 0,
            "{} has no tests named {}…: nothing would be checked",
            leaves.package,
            leaves.tests
        );
        eprintln!("== memcheck: {tests} tests of {}", leaves.package);
        shell::run(
            shell::command("valgrind")
                // Forked children leave without freeing what the test harness holds: that is no leak of ours.
                .args(["--quiet", "--tool=memcheck", "--leak-check=no"])
                .arg(format!("--error-exitcode={FOUND}"))
                .arg(binary)
                .args(leaves.arguments())
                .arg("--test-threads=1"),
        )
        .with_context(|| format!("status {FOUND} is valgrind's, any other a failed test's"))?;
    }
    Ok(())
}

/// A program that uses us must run under each: a crash there is ours, or a dependency's.
fn valgrinds_tools() -> Result<()> {
    let (package, example) = EXAMPLE;
    let messages = shell::output(
        shell::cargo()
            .args(["build", "--locked", "--message-format=json", "--package", package])
            .args(["--example", example]),
    )?;
    let [binary] = &shell::executables(&messages)?[..] else {
        bail!("{package} has not exactly one example {example}");
    };
    for tool in TOOLS {
        eprintln!("== {tool}: the example {example}");
        let mut command = shell::command("valgrind");
        command.args(["--quiet".to_owned(), format!("--tool={tool}")]);
        if *tool == "massif" {
            command.arg("--massif-out-file=/dev/null");
        }
        shell::run(command.arg(binary).arg("40"))?;
    }
    Ok(())
}

fn fuzz(seconds: u32) -> Result<()> {
    if shell::find("cargo-fuzz").is_none() {
        bail!(
            "the fuzz targets need cargo-fuzz and a nightly toolchain:\n  rustup toolchain install nightly\n  cargo install cargo-fuzz\nor skip them with --valgrind-only"
        );
    }
    for target in fuzz_targets(Path::new("fuzz/fuzz_targets"))? {
        eprintln!("== fuzz: {target} for {seconds} s");
        shell::run(
            // The cargo on the path, since the one that started us may be no rustup proxy and knows no `+nightly`.
            shell::command("cargo")
                .args(["+nightly", "fuzz", "run", &target, "--", "-rss_limit_mb=1024"])
                .arg(format!("-max_total_time={seconds}")),
        )
        .with_context(|| format!("the input that did it is in fuzz/artifacts/{target}; make a test of it"))?;
    }
    Ok(())
}

fn fuzz_targets(folder: &Path) -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            targets.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    targets.sort();
    Ok(targets)
}
