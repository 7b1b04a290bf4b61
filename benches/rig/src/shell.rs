//! Starting other programs, and finding where things are.
//!
//! Every child runs without standard input: a chore never asks, so it never hangs in a pipeline.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The folder that holds the workspace.
///
/// # Errors
///
/// If this crate was moved.
pub fn root() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map(Path::to_owned)
        .context("this crate lies two folders below the workspace")
}

/// The cargo that started us, or the one on the path.
pub fn cargo() -> Command {
    command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// A program on the path, without standard input.
pub fn command(program: &str) -> Command {
    command_at(Path::new(program))
}

/// The program at `path`, without standard input.
pub fn command_at(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.stdin(Stdio::null());
    command
}

/// `program`, which may use these CPUs alone.
pub fn pinned(program: &Path, cpus: &[usize]) -> Command {
    let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let mut command = command("taskset");
    command.args(["-c", &list.join(",")]).arg(program);
    command
}

/// Where cargo puts what it builds.
///
/// # Errors
///
/// If the folder that this process is in cannot be told.
pub fn target() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(std::path::absolute(target)?)
}

/// Runs to the end, with output going where ours goes. Blocks until then, as all that run something here.
///
/// # Errors
///
/// If it cannot be started, or does not end with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", line(command)))?;
    ensure!(status.success(), "{} ended with {status}", line(command));
    Ok(())
}

/// As [`run`], several times with longer and longer pauses where it fails: what a server somewhere has refused once it
/// may give later.
///
/// # Errors
///
/// As [`run`], of the last try.
pub fn run_patiently(command: &mut Command) -> Result<()> {
    const TRIES: u32 = 5;
    for tries in 1..TRIES {
        let Err(error) = run(command) else {
            return Ok(());
        };
        eprintln!("{error:#}; trying again in {} s ({tries} of {TRIES})", 10 * tries);
        thread::sleep(Duration::from_secs(u64::from(10 * tries)));
    }
    run(command)
}

/// As [`run`], with what it says left out.
///
/// # Errors
///
/// As [`run`].
pub fn quietly(command: &mut Command) -> Result<()> {
    run(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Runs to the end and gives back standard output; standard error goes where ours goes.
///
/// # Errors
///
/// As [`run`], and if it printed something else than UTF-8.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", line(command)))?;
    ensure!(
        output.status.success(),
        "{} ended with {}",
        line(command),
        output.status
    );
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed something else than UTF-8", line(command)))
}

/// The command as a person would type it.
pub fn line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// Where `program` is found on the path.
pub fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// The program that a person has named.
///
/// # Errors
///
/// If it is no file.
pub fn given(program: &Path) -> Result<PathBuf> {
    ensure!(program.is_file(), "there is no program at {}", program.display());
    Ok(std::path::absolute(program)?)
}

/// What cargo knows of the workspace and everything it depends on.
///
/// # Errors
///
/// If cargo does not know, e.g. since the lock file is not up to date.
pub fn metadata() -> Result<Value> {
    let text = output(cargo().args(["metadata", "--format-version", "1", "--locked"]))?;
    serde_json::from_str(&text).context("cargo metadata is not JSON")
}

/// The package of the command, and its program.
const COMMAND: &str = "threadgauge";

/// How a build is optimised.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// What the tests build anyway.
    Debug,
    /// What users run, and the only one that may be timed.
    Release,
}

/// Builds the command `threadgauge` and gives back the path of its program. Blocks.
///
/// # Errors
///
/// If it does not compile.
pub fn build(profile: Profile) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--message-format=json"]);
    build.args(["--bin", COMMAND]);
    build.args(match profile {
        // With a test, features are those of the tests' build: else each dependency would be compiled once more.
        Profile::Debug => &["--workspace", "--all-features", "--test", "command"][..],
        Profile::Release => &["--package", COMMAND, "--release"],
    });
    let built = executables(&output(&mut build)?)?;
    let program = built
        .into_iter()
        .find(|path| path.file_name() == Some(COMMAND.as_ref()));
    program.with_context(|| format!("cargo built no program {COMMAND}"))
}

/// The programs that cargo's JSON messages name.
///
/// # Errors
///
/// If a line begins as JSON and is none.
pub fn executables(messages: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for message in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value =
            serde_json::from_str(message).context("cargo printed a message that is not JSON")?;
        found.extend(message["executable"].as_str().map(PathBuf::from));
    }
    Ok(found)
}

/// A line that the next one writes over; on a terminal only.
pub fn progress(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
    }
}
