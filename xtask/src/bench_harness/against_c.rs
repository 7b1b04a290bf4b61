//! What experiments do in the command itself, and what their programs in C do, beside a plain C program of the same
//! work.
//!
//! Owns the list of works and the limit: 10 % to either side. Ours is a worker, as `run` starts it.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Error, Result, ensure};
use fastrand::Rng;
use threadgauge_machine::allowed_cpus;

use crate::figures::{estimate, spread, within};
use crate::rounds::Rounds;
use crate::worker::Case;
use crate::{guests, shell};

const SOURCE: &str = "guests/c/plain.c";
const SEED: u64 = 0x5EED;
/// Ours over C must lie between these.
const LIMITS: [f64; 2] = [0.9, 1.1];

/// A work that both do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    says: &'static str,
    /// What ours is, and of so many the time.
    ours: (Case, u64),
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
                Case {
                    experiment: "oversubscription",
                    params: concat!(
                        "unit=",
                        $unit,
                        ",mode=",
                        $mode,
                        ",count=",
                        $count,
                        ",cpus=",
                        $cpus,
                        ",slice_us=1.6,work_s=0.0262144"
                    ),
                    metric: "elapsed_ns",
                },
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
                Case {
                    experiment: "create",
                    params: concat!(
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
                    metric: "ns_per_unit",
                },
                $count,
            ),
            plain: concat!($plain, " ", $count),
            cpus: 1,
            limited: $limited,
        }
    };
}

const fn probe(params: &'static str) -> Case {
    Case {
        experiment: "probes",
        params,
        metric: "ns",
    }
}

const WORKS: [Work; 13] = [
    Work {
        says: "a million readings of the clock",
        ours: (probe("what=clock,how=reading,cpus=1"), 1),
        plain: "clock 1000000",
        cpus: 1,
        limited: true,
    },
    Work {
        says: "matrix products",
        ours: (probe("what=matrix,how=serial,cpus=1"), 1),
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
    let plain = shell::target()?.join("plain");
    let options = ["-O3", "-Wall", "-Wextra", "-Werror", "-pthread"];
    guests::compile("cc", &options, &shell::root()?.join(SOURCE), &plain).map_err(Error::msg)?;
    let threadgauge = shell::build(shell::Profile::Release)?;
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
            let (case, of) = work.ours;
            Ok(case.run(&threadgauge, cpus)? * of as f64)
        } else {
            in_c(&plain, work, cpus)
        }
    });
    println!("| work | here, ms | C, ms | ratio | within 10 % |\n|---|---:|---:|---:|---|");
    let mut missed = Vec::new();
    for work in works {
        let of = |is_ours| measured.spread(Cell(work, is_ours));
        let ratio = measured.ratio(Cell(work, true), Cell(work, false));
        let met = within(ratio.as_ref(), LIMITS);
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

/// The work by the plain program, ns.
fn in_c(plain: &Path, work: &Work, cpus: &[usize]) -> Result<f64> {
    let said = shell::output(shell::pinned(plain, cpus).args(work.plain.split(' ')))?;
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
