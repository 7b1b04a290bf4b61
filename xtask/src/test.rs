//! `cargo xtask test`: everything that must pass before a change lands.
//!
//! Owns the order, cheapest first, and the words for the step that failed. What a step does is in
//! its own file, or is a cargo command.

use std::fs::File;
use std::io::{self, Seek};
use std::process::Command;
use std::thread::{self, available_parallelism};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell;

/// One thing to pass.
struct Step {
    name: &'static str,
    /// How a person runs this step and no other: variables, and then `cargo`.
    alone: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        name: "formatting",
        alone: "cargo fmt --all --check",
    },
    Step {
        name: "folder map",
        alone: "cargo xtask folders",
    },
    Step {
        name: "lines of prose",
        alone: "cargo xtask prose",
    },
    Step {
        name: "circles and lengths of files",
        alone: "cargo xtask size --check",
    },
    Step {
        name: "licences",
        alone: "cargo xtask licences",
    },
    Step {
        name: "tools",
        alone: "cargo xtask deps",
    },
    Step {
        name: "lints",
        alone: "cargo clippy --workspace --all-features --all-targets --locked -- -D warnings",
    },
    Step {
        name: "lints without features",
        alone: "cargo clippy -p threadgauge-exec -p threadgauge-reactor --locked -- -D warnings",
    },
    Step {
        name: "fuzz targets",
        // Only checked, never linked: so the fuzzer's own C++ need not be compiled.
        alone: "CUSTOM_LIBFUZZER_PATH=/dev/null cargo check --manifest-path fuzz/Cargo.toml --locked",
    },
    Step {
        name: "documentation",
        alone: "RUSTDOCFLAGS=-Dwarnings cargo doc --no-deps --workspace --all-features --locked",
    },
    Step {
        name: "build of the tests",
        alone: "cargo test --workspace --all-features --locked --no-run",
    },
    PROGRAMS,
];

/// The longest step, which waits for a good part of its time: all that is not [`BESIDE`].
const PROGRAMS: Step = Step {
    name: "tests of programs",
    alone: "cargo test --workspace --all-features --locked --test '[!de]*'",
};

/// Passed beside it, one after the other. What they have to say they say once all have ended.
const BESIDE: &[Step] = &[
    Step {
        name: "tests of units",
        alone: "cargo test --workspace --all-features --locked --lib --bins --examples",
    },
    Step {
        name: "browser",
        alone: "cargo xtask browser",
    },
    Step {
        name: "clients",
        alone: "cargo xtask clients",
    },
    Step {
        name: "tests in the documentation",
        alone: "cargo test --workspace --all-features --locked --doc",
    },
    // Some of the programs, by their names' first letters, so that both sides end at about the same time.
    Step {
        name: "tests of other programs",
        alone: "cargo test --workspace --all-features --locked --test '[de]*'",
    },
];

/// Runs every step, stopping at the first that fails.
pub fn run() -> Result<()> {
    let start = Instant::now();
    for (i, step) in STEPS.iter().enumerate() {
        let place = format!("{}/{}", i + 1, STEPS.len());
        if step.alone == PROGRAMS.alone {
            passes_beside(&place)?;
        } else {
            step.passes(&place, shell::run)?;
        }
    }
    eprintln!(
        "== all {} steps passed in {:.0} s",
        STEPS.len() + BESIDE.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// [`PROGRAMS`], with twice as many at once as there are CPUs, and all of [`BESIDE`] meanwhile.
fn passes_beside(place: &str) -> Result<()> {
    let mut said = tempfile::tempfile().context("cannot make a temporary file")?;
    let (passed, beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let said = |command: &mut Command| shell::run(both_into(command, &said)?);
            BESIDE.iter().try_for_each(|step| step.passes("beside", said))
        });
        let passed = PROGRAMS.passes(place, |command| {
            let at_once = 2 * available_parallelism().map_or(1, usize::from);
            shell::run(command.env("RUST_TEST_THREADS", at_once.to_string()))
        });
        (passed, beside.join().expect("no step panics"))
    });
    said.rewind().context("cannot read what was said beside")?;
    io::copy(&mut said, &mut io::stderr()).context("cannot write what was said beside")?;
    if let (Err(_), Err(other)) = (&passed, &beside) {
        eprintln!("== beside: {other:#}");
    }
    passed.and(beside)
}

/// Both outputs of a command into a file, each behind what is there.
fn both_into<'a>(command: &'a mut Command, file: &File) -> Result<&'a mut Command> {
    Ok(command.stdout(file.try_clone()?).stderr(file.try_clone()?))
}

impl Step {
    /// Runs it by `run`, and says when it begins and when it has passed.
    fn passes(&self, place: &str, run: impl FnOnce(&mut Command) -> Result<()>) -> Result<()> {
        eprintln!("== {place} {}", self.name);
        let began = Instant::now();
        self.command()
            .and_then(|mut command| run(&mut command))
            .inspect_err(|_| about_the_disk())
            .with_context(|| format!("step \"{}\" failed; run it alone with: {}", self.name, self.alone))?;
        let took = began.elapsed().as_secs_f64();
        eprintln!("== {place} {}: passed in {took:.1} s", self.name);
        Ok(())
    }

    /// What a person would type. What another workspace builds goes where ours does: much is the same.
    fn command(&self) -> Result<Command> {
        let mut words = self.alone.split(' ').peekable();
        let variables = std::iter::from_fn(|| words.next_if(|word| *word != "cargo")?.split_once('='));
        let variables: Vec<(&str, &str)> = variables.collect();
        words.next();
        let mut command = match words.next_if_eq(&"xtask") {
            // This very program: `cargo run` would first see whether it is up to date.
            Some(_) => shell::command_at(&std::env::current_exe()?),
            None => shell::cargo(),
        };
        command
            .args(words.map(|word| word.trim_matches('\'')))
            .envs(variables);
        if self.alone.contains("--manifest-path") {
            command.env("CARGO_TARGET_DIR", shell::target()?);
        }
        Ok(command)
    }
}

/// Says that the disk is nearly full, where it is: a linker that finds no room ends by a signal and names no cause.
fn about_the_disk() {
    const ENOUGH_BYTES: u64 = 1 << 30;
    let Ok(disk) = rustix::fs::statvfs(".") else {
        return;
    };
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free_bytes < ENOUGH_BYTES {
        eprintln!(
            "xtask: {} MiB are free on this disk, which may be why; `cargo clean` gives back what builds take",
            free_bytes >> 20
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_what_a_person_would_type() {
        for step in STEPS.iter().chain(BESIDE) {
            let command = step.command().unwrap();
            let typed: Vec<&str> = step.alone.split(' ').collect();
            let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
            let last = typed.last().unwrap().trim_matches('\'');
            assert!(typed.contains(&"cargo"), "{}", step.alone);
            assert_eq!(words.last(), Some(&last), "{}", step.alone);
        }
        let documentation = STEPS.iter().find(|step| step.name == "documentation").unwrap();
        let command = documentation.command().unwrap();
        let flags = command.get_envs().find(|(name, _)| *name == "RUSTDOCFLAGS");
        assert_eq!(flags.unwrap().1.unwrap(), "-Dwarnings");
        assert_eq!(command.get_args().next().unwrap(), "doc");
    }

    #[test]
    fn every_kind_of_test_is_in_one_step() {
        let all = STEPS.iter().chain(BESIDE);
        let targets: Vec<&str> = all
            .filter_map(|step| {
                step.alone
                    .strip_prefix("cargo test --workspace --all-features --locked ")
            })
            .collect();
        assert_eq!(
            targets,
            [
                "--no-run",
                "--test '[!de]*'",
                "--lib --bins --examples",
                "--doc",
                "--test '[de]*'"
            ]
        );
    }
}
