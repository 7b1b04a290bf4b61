//! What experiments do in the command itself, and what their programs in C do, beside a plain C program of the same
//! work.
//!
//! Owns the list of works and the limit: 10 % to either side. Ours is a worker, as `run` starts it.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Error, Result, ensure};
use fastrand::Rng;
use serde_json::{Value, json};
use threadgauge_machine::allowed_cpus;

use crate::rig::figures::{at_least, at_most, estimate, spread};
use crate::rig::rounds::Rounds;
use crate::{guests, shell};

const SOURCE: &str = "guests/c/plain.c";
const SEED: u64 = 0x5EED;
/// Ours over C must lie between these.
const LIMITS: [f64; 2] = [0.9, 1.1];

/// A work that both do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    says: &'static str,
    /// Experiment, case and metric of ours; the metric is the time of so many.
    ours: (&'static str, &'static str, &'static str, u64),
    /// The C program's arguments.
    plain: &'static str,
    cpus: usize,
    /// Whether the limit is for it: not where the command's own size is what is asked for.
    limited: bool,
}

/// Work of the units of `oversubscription`.
macro_rules! shared {
    ($says:literal, $unit:literal, $count:literal, $mode:literal, $yields:literal, $cpus:literal) => {
        Work {
            says: $says,
            ours: (
                "oversubscription",
                concat!(
                    "unit=",
                    $unit,
                    ",mode=",
                    $mode,
                    ",count=",
                    $count,
                    ",cpus=",
                    $cpus,
                    ",slices=16384"
                ),
                "elapsed_ns",
                1,
            ),
            plain: concat!($unit, " ", $count, " 16384 1250 ", $yields),
            cpus: $cpus,
            limited: true,
        }
    };
}

/// Units of `create`.
macro_rules! made {
    ($says:literal, $unit:literal, $method:literal, $program:literal, $count:literal, $plain:literal, $limited:literal) => {
        Work {
            says: $says,
            ours: (
                "create",
                concat!(
                    "unit=",
                    $unit,
                    ",method=",
                    $method,
                    ",program=",
                    $program,
                    ",count=",
                    $count,
                    ",alive=1,busy=0,parent_mib=0,huge_pages=no,cpus=1"
                ),
                "ns_per_unit",
                $count,
            ),
            plain: concat!($plain, " ", $count),
            cpus: 1,
            limited: $limited,
        }
    };
}

const WORKS: [Work; 13] = [
    Work {
        says: "a million readings of the clock",
        ours: ("probes", "what=clock,how=reading,cpus=1", "ns", 1),
        plain: "clock 1000000",
        cpus: 1,
        limited: true,
    },
    Work {
        says: "matrix products",
        ours: ("probes", "what=matrix,how=serial,cpus=1", "ns", 1),
        plain: "matrix 192 4 8",
        cpus: 1,
        limited: true,
    },
    shared!("the burner, one thread", "thread", 1, "neither", 0, 1),
    shared!("one thread that yields", "thread", 1, "yield", 1, 1),
    shared!("64 threads that yield", "thread", 64, "yield", 1, 1),
    shared!("1,024 threads that yield", "thread", 1024, "yield", 1, 1),
    shared!("64 processes that yield", "process", 64, "yield", 1, 1),
    shared!("64 threads on two CPUs that yield", "thread", 64, "yield", 1, 2),
    shared!("64 threads that do not", "thread", 64, "neither", 0, 1),
    made!(
        "a process by fork, of create's program in C",
        "process",
        "fork",
        "c",
        1000,
        "fork",
        true
    ),
    made!(
        "a thread, of create's program in C",
        "thread",
        "pthread",
        "c",
        2000,
        "create",
        true
    ),
    made!(
        "a process by fork, of this command",
        "process",
        "fork",
        "threadgauge",
        1000,
        "fork",
        false
    ),
    made!(
        "a thread, of this command (std)",
        "thread",
        "std",
        "threadgauge",
        2000,
        "create",
        false
    ),
];

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell(&'static Work, bool);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.0.says, if self.1 { "ours" } else { "C" })
    }
}

/// Measures all, prints the table, and fails where a limit is missed.
pub fn run(rounds: usize) -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let plain = std::path::absolute(target)?.join("plain");
    let options = ["-O3", "-Wall", "-Wextra", "-Werror", "-pthread"];
    guests::compile("cc", &options, &shell::root()?.join(SOURCE), &plain).map_err(Error::msg)?;
    let threadgauge = shell::build("threadgauge", shell::Profile::Release)?;
    let cpus: Vec<usize> = allowed_cpus()?.iter().collect();
    let works = WORKS.iter().filter(|work| work.cpus <= cpus.len());
    let groups = works
        .clone()
        .map(|work| vec![Cell(work, true), Cell(work, false)])
        .collect();
    let mut rng = Rng::with_seed(SEED);
    let measured = Rounds::measure("against C", groups, rounds, &mut rng, |Cell(work, is_ours)| {
        let cpus = &cpus[..work.cpus];
        if is_ours {
            ours(&threadgauge, work, cpus)
        } else {
            in_c(&plain, work, cpus)
        }
    });
    println!("| work | here, ms | C, ms | ratio | within 10 % |\n|---|---:|---:|---:|---|");
    let mut missed = Vec::new();
    for work in works {
        let of = |is_ours| measured.spread(Cell(work, is_ours));
        let ratio = measured.ratio(Cell(work, true), Cell(work, false));
        let ends = [
            at_least(ratio.as_ref(), LIMITS[0]),
            at_most(ratio.as_ref(), LIMITS[1]),
        ];
        // Of both ends the one that is farther from "yes".
        let met = ends.into_iter().find(|met| *met == "**no**");
        let met = met
            .or_else(|| ends.into_iter().find(|met| *met != "yes"))
            .unwrap_or("yes");
        if work.limited && met == "**no**" {
            missed.push(work.says);
        }
        println!(
            "| {} | {} | {} | {} | {} |",
            work.says,
            spread(of(true), 1e6),
            spread(of(false), 1e6),
            estimate(ratio.as_ref()),
            if work.limited { met } else { "no limit" }
        );
    }
    print!("{}", measured.missing());
    ensure!(
        missed.is_empty(),
        "off a plain C program by more than 10 %: {}",
        missed.join(", ")
    );
    Ok(())
}

/// The work by a worker of this command, ns.
fn ours(threadgauge: &Path, work: &Work, cpus: &[usize]) -> Result<f64> {
    let (experiment, case, metric, of) = work.ours;
    let pairs = case.split(',').filter_map(|pair| pair.split_once('='));
    let value = |text: &str| {
        text.parse::<u64>()
            .map_or_else(|_| json!(text), |number| json!(number))
    };
    let params: serde_json::Map<String, Value> =
        pairs.map(|(name, text)| (name.to_owned(), value(text))).collect();
    let order = json!({"experiment": experiment, "params": params, "cpus": cpus, "handicap_percent": 0, "launched_ns": 0});
    let mut worker = shell::command_at(threadgauge);
    let mut worker = worker
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = worker.stdin.take().context("standard input is piped")?;
    input.write_all(order.to_string().as_bytes())?;
    drop(input);
    let answer = worker.wait_with_output()?;
    let sample: Value = serde_json::from_slice(&answer.stdout).context("the worker answered no sample")?;
    let metrics = sample["metrics"].as_array().into_iter().flatten();
    let found = metrics
        .filter(|m| m["name"] == metric)
        .find_map(|m| m["value"].as_f64());
    let ns = found.with_context(|| format!("{experiment}/{case} has no {metric}: {}", sample["reason"]))?;
    Ok(ns * of as f64)
}

/// The same by the plain program, ns.
fn in_c(plain: &Path, work: &Work, cpus: &[usize]) -> Result<f64> {
    let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let said = shell::output(
        Command::new("taskset")
            .args(["-c", &list.join(",")])
            .arg(plain)
            .args(work.plain.split(' ')),
    )?;
    said.trim()
        .parse()
        .with_context(|| format!("the plain program said {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_program_does_every_work_and_says_what_it_does_not_know() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        let source = shell::root().unwrap().join(SOURCE);
        guests::compile(
            "cc",
            &["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"],
            &source,
            &plain,
        )
        .unwrap();
        let cpus: Vec<usize> = allowed_cpus().unwrap().iter().collect();
        for work in WORKS.iter().filter(|work| work.cpus <= cpus.len()) {
            assert!(
                in_c(&plain, work, &cpus[..work.cpus]).unwrap() > 0.0,
                "{}",
                work.says
            );
        }
        let unknown = Work {
            plain: "sleep 5",
            ..WORKS[0]
        };
        assert!(in_c(&plain, &unknown, &cpus[..1]).is_err());
    }
}
