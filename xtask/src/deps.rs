//! `cargo xtask deps`: what the tests need beyond Rust and a C compiler.
//!
//! Debian packages by apt-get and one npm package, each only where it is missing. Where this cannot
//! install, it says exactly what to install; it never changes anything else on the machine.

use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use crate::shell;

/// Where the browser test lives.
pub const BROWSER_TESTS: &str = "tests/browser";

/// What a chore is going to use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// `cargo xtask test`: a browser and what drives it; Python, for one of the clients.
    Tests,
    /// `cargo xtask check-deep` as well: valgrind.
    Deep,
}

/// A program and the Debian packages it comes from.
struct Tool {
    /// Any of these will do.
    programs: &'static [&'static str],
    packages: &'static str,
    need: Need,
}

const TOOLS: &[Tool] = &[
    Tool {
        programs: &["chromium", "chromium-browser", "google-chrome"],
        // A bare machine has no font at all, and a page without letters overflows nothing.
        packages: "chromium fonts-dejavu-core",
        need: Need::Tests,
    },
    Tool {
        programs: &["node"],
        packages: "nodejs",
        need: Need::Tests,
    },
    Tool {
        programs: &["npm"],
        packages: "npm",
        need: Need::Tests,
    },
    Tool {
        programs: &["python3"],
        packages: "python3 python3-venv",
        need: Need::Tests,
    },
    Tool {
        programs: &["valgrind"],
        packages: "valgrind",
        need: Need::Deep,
    },
];

/// Installs what is missing.
pub fn install(need: Need) -> Result<()> {
    let missing: Vec<&str> = TOOLS
        .iter()
        .filter(|tool| tool.need == Need::Tests || need == Need::Deep)
        .filter(|tool| tool.programs.iter().all(|program| shell::find(program).is_none()))
        .flat_map(|tool| tool.packages.split(' '))
        .collect();
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    if node_modules_are_stale() {
        eprintln!("installing the browser tests' packages with npm");
        shell::run(
            shell::command("npm")
                .args(["ci", "--no-audit", "--no-fund"])
                .current_dir(BROWSER_TESTS),
        )?;
    }
    Ok(())
}

/// The browser to test with.
pub fn chromium() -> Result<std::path::PathBuf> {
    TOOLS[0].programs.iter().find_map(|program| shell::find(program)).context(
        "no Chromium on the path; install Debian's package \"chromium\" (or run `cargo xtask deps` as root)",
    )
}

fn install_packages(packages: &[&str]) -> Result<()> {
    let wanted = packages.join(" ");
    let by_hand = format!(
        "the tests need what Debian calls: {wanted}\ninstall it and start again, on Debian: sudo apt-get install {wanted}"
    );
    if shell::find("apt-get").is_none() {
        bail!("there is no apt-get here, and {by_hand}");
    }
    if shell::output(shell::command("id").arg("-u"))?.trim() != "0" {
        bail!("only root can install packages, and {by_hand}");
    }
    eprintln!("installing with apt-get: {wanted}");
    apt_get(&["update"])?;
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(packages);
    apt_get(&install).context(by_hand)
}

/// Another installation may hold apt's locks for a while (`update` knows no waiting of its own), and
/// a mirror may fail once.
fn apt_get(arguments: &[&str]) -> Result<()> {
    const TRIES: u32 = 5;
    let mut tries = 1;
    loop {
        let outcome = shell::run(
            shell::command("apt-get")
                .args(["-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"])
                .args(arguments)
                .env("DEBIAN_FRONTEND", "noninteractive")
                // Standard output is for results; apt's progress is not one.
                .stdout(std::io::stderr()),
        );
        match outcome {
            Err(error) if tries < TRIES => {
                eprintln!("{error:#}; trying again in {} s ({tries} of {TRIES})", 10 * tries);
                thread::sleep(Duration::from_secs(u64::from(10 * tries)));
                tries += 1;
            }
            outcome => return outcome,
        }
    }
}

/// npm leaves a copy of the lock in `node_modules` when it is done: missing or older means again.
fn node_modules_are_stale() -> bool {
    let modified = |file: &str| -> Option<SystemTime> {
        Path::new(BROWSER_TESTS)
            .join(file)
            .metadata()
            .ok()?
            .modified()
            .ok()
    };
    match (
        modified("node_modules/.package-lock.json"),
        modified("package-lock.json"),
    ) {
        (Some(installed), Some(wanted)) => installed < wanted,
        _ => true,
    }
}
