//! `cargo xtask test`: everything that must pass before a change lands.
//!
//! Owns the order, cheapest first, and the words for the step that failed. What a step does is in
//! its own file, or is a cargo command.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::{browser, clients, deps, folders, licences, prose, shell, size};

/// One thing to pass.
struct Step {
    name: &'static str,
    /// How a person runs this step and no other.
    alone: &'static str,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step {
        name: "formatting",
        alone: "cargo fmt --all --check",
        run: || cargo("fmt --all --check"),
    },
    Step {
        name: "folder map",
        alone: "cargo xtask folders",
        run: folders::check,
    },
    Step {
        name: "lines of prose",
        alone: "cargo xtask prose",
        run: prose::check,
    },
    Step {
        name: "circles and lengths of files",
        alone: "cargo xtask size --check",
        run: size::check,
    },
    Step {
        name: "licences",
        alone: "cargo xtask licences",
        run: licences::check,
    },
    Step {
        name: "tools",
        alone: "cargo xtask deps",
        run: || deps::install(deps::Need::Tests),
    },
    Step {
        name: "lints",
        alone: "cargo clippy --workspace --all-features --all-targets --locked -- -D warnings",
        run: || cargo("clippy --workspace --all-features --all-targets --locked -- -D warnings"),
    },
    Step {
        name: "lints without features",
        alone: "cargo clippy -p threadgauge-exec -p threadgauge-reactor --all-targets --locked -- -D warnings",
        run: || {
            cargo("clippy -p threadgauge-exec -p threadgauge-reactor --all-targets --locked -- -D warnings")
        },
    },
    Step {
        name: "fuzz targets",
        alone: "CUSTOM_LIBFUZZER_PATH=/dev/null cargo check --manifest-path fuzz/Cargo.toml --locked",
        run: || {
            shell::run(
                shell::cargo()
                    .args(["check", "--manifest-path", "fuzz/Cargo.toml", "--locked"])
                    // Only checked, never linked: so the fuzzer's own C++ need not be compiled.
                    .env("CUSTOM_LIBFUZZER_PATH", "/dev/null")
                    .env("CARGO_TARGET_DIR", "target/fuzz-check"),
            )
        },
    },
    Step {
        name: "documentation",
        alone: "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --workspace --all-features --locked",
        run: || {
            shell::run(
                shell::cargo()
                    .args(["doc", "--no-deps", "--workspace", "--all-features", "--locked"])
                    .env("RUSTDOCFLAGS", "-D warnings"),
            )
        },
    },
    Step {
        name: "tests",
        alone: "cargo test --workspace --all-features --locked",
        run: || cargo("test --workspace --all-features --locked"),
    },
    Step {
        name: "lints of the clients",
        alone: "cargo clippy --manifest-path tests/clients/Cargo.toml --locked -- -D warnings",
        run: || {
            shell::run(
                shell::cargo()
                    .args(["clippy", "--manifest-path", clients::MANIFEST, "--locked"])
                    .args(["--", "-D", "warnings"])
                    .env("CARGO_TARGET_DIR", clients::TARGET),
            )
        },
    },
    Step {
        name: "clients",
        alone: "cargo xtask clients",
        run: || clients::run(&clients::Options::default()),
    },
    Step {
        name: "browser",
        alone: "cargo xtask browser",
        run: || browser::run(None, None),
    },
];

/// Runs every step, stopping at the first that fails.
pub fn run() -> Result<()> {
    let start = Instant::now();
    for (i, step) in STEPS.iter().enumerate() {
        eprintln!("== {}/{} {}", i + 1, STEPS.len(), step.name);
        let began = Instant::now();
        (step.run)()
            .inspect_err(|_| about_the_disk())
            .with_context(|| format!("step \"{}\" failed; run it alone with: {}", step.name, step.alone))?;
        eprintln!(
            "== {}/{} {}: passed in {:.1} s",
            i + 1,
            STEPS.len(),
            step.name,
            began.elapsed().as_secs_f64()
        );
    }
    eprintln!(
        "== all {} steps passed in {:.0} s",
        STEPS.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
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

fn cargo(arguments: &str) -> Result<()> {
    shell::run(shell::cargo().args(arguments.split(' ')))
}
