//! `cargo xtask check-deep --mutants-only`: does any test notice where the code is changed?
//!
//! cargo-mutants changes one place at a time, and each change is judged by the tests of its own crate. Of the files
//! that decide a verdict or a sample every change must be noticed; of all others of a crate a sample is tried, of
//! which one in twenty may go unseen. Each crate says in its manifest, under `package.metadata.mutants`, which files
//! decide, which tests judge where some take minutes, and which packages' tests do. A change that changes nothing is
//! named in `.cargo/mutants.toml`, with its reason. One that makes a test hang is noticed.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{deps, shell};

/// How many changes of what decides nothing are tried.
const SAMPLE: usize = 100;
/// What share of them may go unseen.
const MAY_GO_UNSEEN: f64 = 0.05;
/// Where cargo-mutants keeps what it found.
const OUTPUT: &str = "target/mutants";

/// The crates with these names (all, where there are none), one after the other.
///
/// # Errors
///
/// A crate that is not there, or whose own tests fail; more changes unseen than may be.
pub fn run(names: &[String]) -> Result<()> {
    deps::install(deps::Need::Deep)?;
    let mut faults = Vec::new();
    for (name, package) in crates(&shell::metadata()?, names)? {
        let tests = Some(words(&package, "tests")).filter(|tests| !tests.is_empty());
        // Examples in comments are left out everywhere: they show, and are compiled anew each time.
        let tests = tests.unwrap_or_else(|| vec!["--tests".to_owned()]);
        let judges = words(&package, "judges").into_iter();
        let judges: Vec<String> = judges.map(|judge| format!("--test-package={judge}")).collect();
        let deciding = |option: &str| -> Vec<String> {
            let files = words(&package, "deciding").into_iter();
            files
                .map(|file| format!("--{option}=crates/{name}/src/{file}"))
                .collect()
        };
        let mut check = |which: &str, options: &[String], may_go_unseen: f64| -> Result<()> {
            eprintln!("== {which} changes of {name}");
            let options = [options, &judges].concat();
            let (unseen, of) = tried(&package, which, &options, &tests)?;
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
        let shards = list.lines().count().div_ceil(SAMPLE);
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
fn tried(package: &Value, which: &str, options: &[String], tests: &[String]) -> Result<(u64, u64)> {
    let output = format!(
        "{OUTPUT}/{}-{which}",
        package["name"].as_str().unwrap_or_default()
    );
    fs::create_dir_all(&output)?;
    let mut command = mutants(package);
    command
        .args(["--output", &output])
        .args(options)
        .arg("--")
        .args(tests);
    // A change is to be compiled in a second or two; nobody debugs it.
    command
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
