//! `cargo xtask check-deep --mutants-only`: does any test notice where the code is changed?
//!
//! cargo-mutants changes one place at a time, and each change is judged by the tests of its own crate. Of the files
//! that decide a verdict or a sample every change must be noticed; of all others of a crate a sample is tried, of
//! which one in twenty may go unseen. Each crate says in its manifest, under `package.metadata.mutants`, which files
//! decide, which tests judge where some take minutes, and which packages' tests do beside its own. As many changes are
//! tried at once as there are CPUs, so that a crate takes an hour on two. A change that changes nothing is named in
//! `.cargo/mutants.toml`, with its reason. One that makes a test hang is noticed: each test binary is ended where it
//! takes much longer than without the change.

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{deps, shell};

/// How many changes of what decides nothing are tried, where no other number is asked for.
pub const SAMPLE: NonZeroUsize = NonZeroUsize::new(100).unwrap();
/// What share of them may go unseen.
const MAY_GO_UNSEEN: f64 = 0.05;
/// More of them at once disturb one another: each builds and tests on all CPUs.
const MOST_AT_ONCE: NonZeroUsize = NonZeroUsize::new(8).unwrap();
/// Where cargo-mutants keeps what it found.
const OUTPUT: &str = "target/mutants";

/// The crates with these names (all, where there are none), one after the other; of what decides nothing in each about
/// `sample` changes.
///
/// # Errors
///
/// A crate that is not there, or whose own tests fail; more changes unseen than may be.
pub fn run(names: &[String], sample: NonZeroUsize) -> Result<()> {
    deps::install(deps::Need::Deep)?;
    let mut faults = Vec::new();
    for (name, package) in crates(&shell::metadata()?, names)? {
        let deciding = |option: &str| -> Vec<String> {
            let files = words(&package, "deciding").into_iter();
            files
                .map(|file| format!("--{option}=crates/{name}/src/{file}"))
                .collect()
        };
        let mut check = |which: &str, options: &[String], may_go_unseen: f64| -> Result<()> {
            eprintln!("== {which} changes of {name}");
            let (unseen, of) = tried(&package, which, options)?;
            let says = format!("{unseen} of {of} {which} changes of {name} went unseen");
            eprintln!("{says}");
            faults.extend((unseen as f64 > may_go_unseen * of as f64).then_some(says));
            Ok(())
        };
        if !deciding("file").is_empty() {
            check("deciding", &deciding("file"), 0.0)?;
        }
        let mut others = deciding("exclude");
        let list = shell::output(mutants(&package).arg("--list").args(&others))?;
        let shards = list.lines().count().div_ceil(sample.get());
        if shards > 0 {
            others.push(format!("--shard=0/{shards}"));
            check("sampled", &others, MAY_GO_UNSEEN)?;
        }
    }
    ensure!(
        faults.is_empty(),
        "too many; they are named above and below {OUTPUT}:\n{}",
        faults.join("\n")
    );
    Ok(())
}

/// What tells cargo-mutants which tests judge, with that of the tests themselves at the end.
///
/// Each call of cargo has it, so that what is built is what is run. cargo-mutants' own option for packages is of no
/// use: it tries the code as it is by the crate's own tests alone.
fn judges(package: &Value) -> Vec<String> {
    let mut tests = words(package, "tests");
    if tests.is_empty() {
        // Examples in comments are left out: they show, and are compiled anew each time.
        tests.push("--tests".to_owned());
    }
    let separator = tests.iter().position(|word| word == "--");
    let of_tests = tests.split_off(separator.unwrap_or(tests.len()));
    let packages = words(package, "judges").into_iter();
    let of_cargo = packages.map(|judge| format!("--package={judge}")).chain(tests);
    let of_cargo = of_cargo.map(|word| format!("--cargo-arg={word}"));
    of_cargo.chain(["--".to_owned()]).chain(of_tests).collect()
}

/// The list with this key in what the manifest says.
fn words(package: &Value, key: &str) -> Vec<String> {
    let words = package["metadata"]["mutants"][key]
        .as_array()
        .into_iter()
        .flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The folders below `crates` with these names, and what cargo knows of each.
fn crates(metadata: &Value, names: &[String]) -> Result<Vec<(String, Value)>> {
    let of = |package: &Value| {
        let folder = package["manifest_path"].as_str()?.strip_suffix("/Cargo.toml")?;
        let (above, name) = folder.rsplit_once('/')?;
        (above.ends_with("/crates") && package["source"].is_null())
            .then(|| (name.to_owned(), package.clone()))
    };
    let mut all: Vec<_> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(of)
        .collect();
    for name in names {
        ensure!(
            all.iter().any(|(known, _)| known == name),
            "there is no crates/{name}"
        );
    }
    all.retain(|(name, _)| names.is_empty() || names.contains(name));
    Ok(all)
}

fn mutants(package: &Value) -> Command {
    let mut command = shell::cargo();
    command
        .args(["mutants", "--package"])
        .args(package["name"].as_str());
    command
}

/// Tries these changes and gives back how many went unseen, of how many that compile.
fn tried(package: &Value, which: &str, options: &[String]) -> Result<(u64, u64)> {
    let name = package["name"].as_str().unwrap_or_default();
    let output = format!("{OUTPUT}/{name}-{which}");
    let times = format!("{output}/times");
    // A binary is given three times what it took on the code as it is, which this run measures anew.
    if fs::exists(&times)? {
        fs::remove_dir_all(&times)?;
    }
    fs::create_dir_all(&times)?;
    let jobs = available_parallelism()?.min(MOST_AT_ONCE);
    let mut command = mutants(package);
    command
        .args(["--output", &output])
        .arg(format!("--jobs={jobs}"))
        // What is changed is compiled anew each time: the time to make it faster would be lost.
        .arg(format!(
            "--cargo-arg=--config=profile.dev.package.{name}.opt-level=0"
        ))
        .arg(format!("--cargo-arg=--config={}", runner(Path::new(&times))?))
        .args(options)
        .args(judges(package));
    // A change is to be compiled in a second or two; nobody debugs it.
    command
        .env("FAIL_FAST", "1")
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "none");
    let status = command.status().context("cannot start cargo-mutants")?;
    // Changes that were not noticed, or that ran too long, are results, too.
    ensure!(
        matches!(status.code(), Some(0 | 2 | 3)),
        "{} ended with {status}",
        shell::line(&command)
    );
    let said: Value = serde_json::from_str(&fs::read_to_string(format!(
        "{output}/mutants.out/outcomes.json"
    ))?)?;
    unseen(&said).context("cargo-mutants counts otherwise than it did")
}

/// What tells cargo to start test binaries by [`crate::within`].
fn runner(times: &Path) -> Result<String> {
    let (this, times) = (env::current_exe()?, times.canonicalize()?);
    let words = [&this, Path::new("within"), &times];
    let words = serde_json::to_string(&words)?;
    Ok(format!("target.'cfg(all())'.runner={words}"))
}

fn unseen(outcomes: &Value) -> Option<(u64, u64)> {
    let count = |what: &str| outcomes[what].as_u64();
    Some((
        count("missed")?,
        count("missed")? + count("caught")? + count("timeout")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_hangs_is_noticed_and_one_that_does_not_compile_is_none() {
        let said =
            serde_json::json!({"total_mutants": 20, "missed": 1, "caught": 12, "timeout": 3, "unviable": 4});
        assert_eq!(unseen(&said), Some((1, 16)));
        assert_eq!(unseen(&serde_json::json!({"missed": 1})), None);
    }

    #[test]
    fn tests_of_other_packages_are_built_with_the_crates_own() {
        let told = |says: Value| judges(&serde_json::json!({"metadata": {"mutants": says}}));
        assert_eq!(told(Value::Null), ["--cargo-arg=--tests", "--"]);
        assert_eq!(
            told(serde_json::json!({"judges": ["all"], "tests": ["--lib", "--", "--skip=slow"]})),
            [
                "--cargo-arg=--package=all",
                "--cargo-arg=--lib",
                "--",
                "--",
                "--skip=slow"
            ]
        );
    }

    #[test]
    fn every_file_that_decides_and_every_package_that_judges_is_there() {
        let workspace = shell::root().unwrap();
        let metadata = shell::metadata().unwrap();
        assert!(crates(&metadata, &["nonsense".to_owned()]).is_err());
        let crates = crates(&metadata, &[]).unwrap();
        let files: Vec<String> = crates
            .iter()
            .flat_map(|(name, package)| {
                let files = words(package, "deciding").into_iter();
                files.map(move |file| format!("crates/{name}/src/{file}"))
            })
            .collect();
        assert!(files.len() > 20, "{files:?}");
        for file in files {
            let path = workspace.join(file.trim_end_matches("/**"));
            assert!(path.exists(), "{file}");
        }
        let known: Vec<&str> = crates
            .iter()
            .filter_map(|(_, package)| package["name"].as_str())
            .collect();
        for judge in crates.iter().flat_map(|(_, package)| words(package, "judges")) {
            assert!(known.contains(&judge.as_str()), "{judge} is no crate");
        }
    }
}
