//! The programs that hold the peers: building those that can be built here, and how to start them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Error, Result, bail, ensure};
use bench_rig::{guests, shell};
use serde_json::Value;

const SOURCES: &str = "benches/exec";
/// Virtual threads came with it.
const OLDEST_JAVA: u32 = 21;
/// Compilers agree on the burner to about this; further off, a language gets iterations of its own.
const SAME_RATE: f64 = 0.05;

/// A program of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// Ours and the Rust peers.
    Rust,
    /// The same program of another build: ours before a change.
    Before,
    /// Goroutines.
    Go,
    /// Platform and virtual threads.
    Java,
    /// Threads and processes.
    Python,
    /// oneTBB.
    Tbb,
    /// Taskflow.
    Taskflow,
}

/// What was built, and what was not.
pub struct Programs {
    commands: BTreeMap<Program, Vec<PathBuf>>,
    ns_per_iteration: BTreeMap<Program, f64>,
    /// What is not here and why.
    pub remarks: Vec<String>,
}

impl Programs {
    /// Builds those named. Only ours must be there, and that of `before`, if it is given.
    pub fn build(wanted: impl Iterator<Item = Program>, before: Option<&Path>) -> Result<Self> {
        let built = shell::target()?.join("bench-exec");
        fs::create_dir_all(&built).with_context(|| format!("cannot make {}", built.display()))?;
        let mut programs = Self {
            commands: BTreeMap::new(),
            ns_per_iteration: BTreeMap::new(),
            remarks: Vec::new(),
        };
        let mut wanted: Vec<Program> = wanted.collect();
        wanted.push(Program::Rust);
        wanted.sort_unstable();
        wanted.dedup();
        for program in wanted {
            eprintln!("building the peers in {program:?}");
            match program.build(&built, before) {
                Ok(command) => {
                    programs.commands.insert(program, command);
                    let rate = programs.calibrate(program)?;
                    programs.ns_per_iteration.insert(program, rate);
                }
                Err(error) if matches!(program, Program::Rust | Program::Before) => return Err(error),
                Err(error) => programs
                    .remarks
                    .push(format!("{program:?}: not installed ({error:#})")),
            }
        }
        Ok(programs)
    }

    /// Whether it was built.
    pub fn has(&self, program: Program) -> bool {
        self.commands.contains_key(&program)
    }

    /// Starts it.
    pub fn command(&self, program: Program) -> Result<Command> {
        let [first, rest @ ..] = &self.commands[&program][..] else {
            bail!("{program:?} has no command")
        };
        let mut command = shell::command_at(first);
        command.args(rest);
        Ok(command)
    }

    /// How often its burner goes round in `burn_ns`. The same for all whose burner is as fast as that in Rust.
    pub fn iterations(&self, program: Program, burn_ns: f64) -> u64 {
        let ours = self.ns_per_iteration[&Program::Rust];
        let theirs = self.ns_per_iteration[&program];
        let rate = if (theirs / ours - 1.0).abs() <= SAME_RATE {
            ours
        } else {
            theirs
        };
        (burn_ns / rate).round() as u64
    }

    /// The least of three, each itself the least of many.
    fn calibrate(&self, program: Program) -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            let line = shell::output(self.command(program)?.arg("calibrate"))?;
            let line: Value = serde_json::from_str(&line).context("calibrate printed no JSON")?;
            let rate = line["ns_per_iteration"]
                .as_f64()
                .context("calibrate named no ns_per_iteration")?;
            ensure!(rate > 0.0, "{program:?} burns in no time");
            least = least.min(rate);
        }
        Ok(least)
    }
}

impl Program {
    /// What starts it: a program and its first arguments.
    fn build(self, into: &Path, before: Option<&Path>) -> Result<Vec<PathBuf>> {
        match self {
            Self::Rust => {
                shell::run(
                    shell::cargo()
                        .args(["build", "--quiet", "--release", "--locked", "--manifest-path"])
                        .arg(format!("{SOURCES}/rust/Cargo.toml"))
                        .arg("--target-dir")
                        .arg(into),
                )?;
                Ok(vec![into.join("release/exec-peers")])
            }
            Self::Before => Ok(vec![
                before.context("no program of another build is given")?.to_owned(),
            ]),
            Self::Go => {
                installed("go")?;
                let program = into.join("go-peer");
                shell::quietly(
                    shell::command("go")
                        .args(["build", "-o"])
                        .arg(&program)
                        .arg(".")
                        .current_dir(format!("{SOURCES}/go")),
                )?;
                Ok(vec![program])
            }
            Self::Java => {
                let home = newest_java()?;
                let classes = into.join("java");
                shell::quietly(
                    shell::command_at(&home.join("bin/javac"))
                        .arg("-d")
                        .arg(&classes)
                        .arg(format!("{SOURCES}/java/Peer.java")),
                )?;
                Ok(vec![home.join("bin/java"), "-cp".into(), classes, "Peer".into()])
            }
            Self::Python => Ok(vec![
                installed("python3")?,
                format!("{SOURCES}/python/peer.py").into(),
            ]),
            Self::Tbb => cpp(into, "tbb", &["-ltbb"]).context("needs g++ and what Debian calls libtbb-dev"),
            Self::Taskflow => {
                let include = std::env::var("TASKFLOW_INCLUDE").unwrap_or_else(|_| "/usr/include".to_owned());
                cpp(into, "taskflow", &["-I", &include]).context(
                    "needs g++ and Taskflow's headers; TASKFLOW_INCLUDE names the folder above taskflow/",
                )
            }
        }
    }
}

fn installed(program: &str) -> Result<PathBuf> {
    shell::find(program).with_context(|| format!("there is no {program} on the path"))
}

fn cpp(into: &Path, name: &str, flags: &[&str]) -> Result<Vec<PathBuf>> {
    let program = into.join(name);
    let source = format!("{SOURCES}/cpp/{name}.cpp");
    let options = [&["-std=c++20", "-O2", "-pthread"], flags].concat();
    guests::compile("g++", &options, Path::new(&source), &program).map_err(Error::msg)?;
    Ok(vec![program])
}

/// The home of the newest Java development kit: `JAVA_HOME`, that of the path, or one in Debian's folder for them.
fn newest_java() -> Result<PathBuf> {
    let on_path = shell::find("javac").and_then(|javac| fs::canonicalize(javac).ok());
    let mut homes: Vec<PathBuf> = on_path
        .iter()
        .filter_map(|javac| javac.ancestors().nth(2))
        .map(Path::to_owned)
        .collect();
    homes.extend(std::env::var_os("JAVA_HOME").map(PathBuf::from));
    homes.extend(
        fs::read_dir("/usr/lib/jvm")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path()),
    );
    let newest = homes
        .into_iter()
        .filter_map(|home| {
            let said = shell::command_at(&home.join("bin/javac"))
                .arg("--version")
                .output()
                .ok()?;
            Some((java_version(&String::from_utf8_lossy(&said.stdout))?, home))
        })
        .max();
    match newest {
        Some((version, home)) if version >= OLDEST_JAVA => Ok(home),
        Some((version, _)) => {
            bail!("Java {OLDEST_JAVA} or newer is needed, and the newest here is {version}")
        }
        None => bail!("there is no javac on the path, in JAVA_HOME or under /usr/lib/jvm"),
    }
}

/// 25 from `javac 25.0.1`.
fn java_version(said: &str) -> Option<u32> {
    said.trim()
        .strip_prefix("javac ")?
        .split(['.', '-', '+'])
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_java_says_how_old_it_is() {
        assert_eq!(java_version("javac 25.0.1\n"), Some(25));
        assert_eq!(java_version("javac 26-ea"), Some(26));
        assert_eq!(java_version("command not found"), None);
    }

    #[test]
    fn burners_of_the_same_rate_go_round_as_often_and_others_as_long() {
        let programs = Programs {
            commands: BTreeMap::new(),
            ns_per_iteration: BTreeMap::from([
                (Program::Rust, 2.0),
                (Program::Go, 2.05),
                (Program::Python, 100.0),
            ]),
            remarks: Vec::new(),
        };
        assert_eq!(programs.iterations(Program::Rust, 1_000.0), 500);
        assert_eq!(programs.iterations(Program::Go, 1_000.0), 500);
        assert_eq!(programs.iterations(Program::Python, 1_000.0), 10);
    }
}
