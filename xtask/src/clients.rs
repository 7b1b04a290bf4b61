//! `cargo xtask clients`: the protocol `groups` as NATS clients and NATS users meet it.
//!
//! Builds the server and `tests/clients`, makes a Python with the official client in it, and starts the program there
//! on some designs. `nats-server` and the command `nats` take part where they are installed, or where Go can build them
//! and was asked to.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::{deps, made, shell};

/// A workspace of its own.
const MANIFEST: &str = "tests/clients/Cargo.toml";
/// Where its Python and what Go builds are.
const MADE: &str = "target/clients";
const REQUIREMENTS: &str = "tests/clients/python/requirements.txt";
/// Go's list of the two programs and their exact versions.
const GO_TOOLS: &str = "tests/clients/go";
/// What is served on where no design is named.
const DEFAULT: &str = "default";
/// One loop for all, and a thread for each: nothing in common but the protocol.
const NORMALLY: &[&str] = &[DEFAULT, "thread-per-connection"];

/// What is played to what.
#[derive(Args, Default)]
pub struct Options {
    /// On every design that serves the protocol, not on two
    #[arg(long)]
    all_designs: bool,
    /// On these designs
    #[arg(long, value_name = "DESIGN,…", value_delimiter = ',')]
    designs: Vec<String>,
    /// More random sessions, and ten times the connections
    #[arg(long)]
    deep: bool,
    /// Build `nats-server` and `nats` with Go, where they are not installed
    #[arg(long)]
    build_peers: bool,
    /// Only cases whose names contain all of these
    words: Vec<String>,
}

/// The lints, then every design, beside the programs that NATS itself has: for `check-deep`.
pub fn deep() -> Result<()> {
    // Here and not for every change: a hundred crates are checked once more than they are built.
    shell::run(
        shell::cargo()
            .args(["clippy", "--locked", "--manifest-path", MANIFEST])
            .args(["--", "-D", "warnings"])
            .env("CARGO_TARGET_DIR", shell::target()?),
    )?;
    run(&Options {
        all_designs: true,
        deep: true,
        build_peers: true,
        ..Options::default()
    })
}

/// Builds, and plays.
pub fn run(options: &Options) -> Result<()> {
    let server = shell::build(shell::Profile::Debug)?;
    let mut build = shell::cargo();
    build
        .args(["build", "--quiet", "--locked", "--message-format=json"])
        .args(["--manifest-path", MANIFEST])
        .env("CARGO_TARGET_DIR", shell::target()?);
    let Some(program) = shell::executables(&shell::output(&mut build)?)?.pop() else {
        bail!("{MANIFEST} built no program");
    };
    let designs = match (&options.designs[..], options.all_designs) {
        ([], false) => NORMALLY.iter().map(|&design| design.to_owned()).collect(),
        ([], true) => all_designs(&server)?,
        (some, _) => some.to_vec(),
    };
    let mut play = shell::command_at(&program);
    play.arg("--threadgauge").arg(&server);
    play.args(["--designs", &designs.join(",")]);
    if options.deep {
        play.arg("--deep");
    }
    play.arg("--python").arg(python()?);
    if options.build_peers {
        build_peers();
    }
    for peer in ["nats-server", "nats"] {
        match find(peer) {
            Some(path) => {
                play.arg(format!("--{peer}")).arg(path);
            }
            None => eprintln!("skipped: what needs `{peer}`, which is not on the path (see --build-peers)"),
        }
    }
    shell::run(play.args(&options.words))
}

/// Those whose connections can reach each other.
fn all_designs(server: &Path) -> Result<Vec<String>> {
    let list = shell::output(shell::command_at(server).args(["serve", "--list", "--json"]))?;
    let list: Value = serde_json::from_str(&list).context("the list of designs is not JSON")?;
    let designs = list["designs"].as_array().context("the list has designs")?;
    let serves_groups = |design: &&Value| {
        let protocols = design["serves"].as_array();
        protocols.is_some_and(|protocols| protocols.contains(&Value::from("groups")))
    };
    let names = designs.iter().filter(serves_groups);
    let names = names.filter_map(|design| design["name"].as_str());
    Ok([DEFAULT].into_iter().chain(names).map(str::to_owned).collect())
}

/// A Python with the packages of [`REQUIREMENTS`].
fn python() -> Result<PathBuf> {
    deps::install(deps::Need::Tests)?;
    made::venv(
        Path::new("python3"),
        Path::new(REQUIREMENTS),
        &Path::new(MADE).join("venv"),
    )
}

fn go_bin() -> PathBuf {
    Path::new(MADE).join("go/bin")
}

/// On the path, or built here before.
fn find(peer: &str) -> Option<PathBuf> {
    let built = go_bin().join(peer);
    shell::find(peer).or_else(|| built.is_file().then_some(built))
}

/// What Go cannot build here is left out and said, as everything that is not installed.
fn build_peers() {
    if ["nats-server", "nats"].iter().all(|peer| find(peer).is_some()) {
        return;
    }
    if shell::find("go").is_none() {
        eprintln!("Go is not on the path: nothing is built with it");
        return;
    }
    eprintln!("building nats-server and nats with Go, once");
    let mut install = shell::command("go");
    install.args(["install", "tool"]).current_dir(GO_TOOLS);
    if let Err(error) = in_own_folder(&mut install).and_then(shell::run) {
        eprintln!("{error:#}");
    }
}

fn in_own_folder(install: &mut Command) -> Result<&mut Command> {
    let folder = go_bin();
    std::fs::create_dir_all(&folder)?;
    Ok(install.env("GOBIN", std::fs::canonicalize(folder)?))
}
