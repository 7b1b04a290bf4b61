//! Baselines: runs that were given a name, to compare later ones with.
//!
//! The names are in one file, `index.json`, of the folder where runs go that were not told. It is written anew beside
//! itself and then takes its place, while the folder is locked, so that of two runs that end at once neither loses its
//! name, and whoever reads sees one of both.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use threadgauge_lab::selection::nearest;
use threadgauge_results::STORE_FILE;

use crate::output::shown;

/// Where runs go that were not told, under the current folder.
pub const DEFAULT_OUT: &str = "threadgauge-results";
/// The file with the names.
const INDEX: &str = "index.json";
/// The version of its form.
const SCHEMA: u32 = 1;
/// Read no further: it may be somebody else's file.
const MOST_BYTES: u64 = 1 << 20;
/// What a name begins with where a folder has the same.
const PREFIX: &str = "baseline:";
/// The longest name.
const LONGEST: usize = 64;

/// What `index.json` holds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    schema: u32,
    /// By name.
    baselines: BTreeMap<String, Baseline>,
}

/// A run that has a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Baseline {
    /// Its results folder; from the index's own folder on, where it lies in it.
    folder: PathBuf,
    /// Its id, by which another run in the same folder is told from it.
    run: String,
}

/// Whether a run may be given this name.
///
/// # Errors
///
/// When it is no name, or a file or folder here is called so: then it would not be clear what is meant.
pub fn check(name: &str) -> Result<()> {
    if !is_name(name) {
        bail!(
            "--baseline {name}: a name has letters, digits, `-`, `_` and `.`, at most {LONGEST}, and begins with a letter or \
             digit"
        );
    }
    if Path::new(name).symlink_metadata().is_ok() {
        bail!(
            "--baseline {name}: `compare {name}` would mean the file or folder of that name which is here; choose another"
        );
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(is_part)
        && text.len() <= LONGEST
}

/// Gives run `run` in the results folder `dir` a name. Returns the folder that had it before. Blocks while another run
/// does the same.
///
/// # Errors
///
/// When the index cannot be read or written; then it is as it was.
pub fn keep(name: &str, dir: &Path, run: &str) -> Result<Option<PathBuf>> {
    keep_in(Path::new(DEFAULT_OUT), name, dir, run)
}

fn keep_in(at: &Path, name: &str, dir: &Path, run: &str) -> Result<Option<PathBuf>> {
    let failed = || {
        format!(
            "{} cannot be written, so no run is called {name}",
            shown(&at.join(INDEX))
        )
    };
    fs::create_dir_all(at).with_context(failed)?;
    // It is let go of where it is closed, however that comes.
    let lock = File::open(at).with_context(failed)?;
    lock.lock().with_context(failed)?;
    let mut index = read(at)?;
    let whole = |path: &Path| path.canonicalize().with_context(failed);
    let (home, dir) = (whole(at)?, whole(dir)?);
    let folder = dir.strip_prefix(&home).unwrap_or(&dir).to_owned();
    let kept = Baseline {
        folder,
        run: run.to_owned(),
    };
    let before = index.baselines.insert(name.to_owned(), kept.clone());
    let mut file = tempfile::NamedTempFile::new_in(at).with_context(failed)?;
    serde_json::to_writer_pretty(&mut file, &index).with_context(failed)?;
    writeln!(file).with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist(at.join(INDEX)).with_context(failed)?;
    Ok(before
        .filter(|before| *before != kept)
        .map(|of| at.join(of.folder)))
}

/// The names there are; none where nobody gave any.
fn read(at: &Path) -> Result<Index> {
    let path = at.join(INDEX);
    let mut text = String::new();
    match File::open(&path) {
        Ok(file) => file.take(MOST_BYTES).read_to_string(&mut text),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Index {
                schema: SCHEMA,
                ..Index::default()
            });
        }
        Err(e) => Err(e),
    }
    .with_context(|| {
        format!(
            "{}, which has the names of baselines, cannot be read",
            shown(&path)
        )
    })?;
    let index: Index = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is not what `run --baseline` writes; move it away and name the baselines again",
            shown(&path)
        )
    })?;
    if index.schema != SCHEMA {
        bail!(
            "{} is of schema {}, and this threadgauge knows {SCHEMA}: a newer one wrote it",
            shown(&path),
            index.schema
        );
    }
    Ok(index)
}

/// What an operand of a command means: what exists is that, else it is the name of a baseline, whose results folder
/// this is. What is neither is returned as it is, so that whoever reads it says what is wrong.
///
/// # Errors
///
/// When it is both, when the baseline is gone, or when there is none of that name.
pub fn resolve(operand: &Path) -> Result<PathBuf> {
    resolve_in(Path::new(DEFAULT_OUT), operand)
}

fn resolve_in(at: &Path, operand: &Path) -> Result<PathBuf> {
    let Some(text) = operand.to_str() else {
        return Ok(operand.to_owned());
    };
    let exists = operand.symlink_metadata().is_ok();
    if let Some(name) = text.strip_prefix(PREFIX).filter(|_| !exists) {
        return match read(at)?.baselines.remove(name) {
            Some(baseline) => folder_of(at, name, &baseline),
            None => bail!("{}", unknown(at, name)?),
        };
    }
    if !is_name(text) {
        return Ok(operand.to_owned());
    }
    // A folder is read although an index beside it is damaged.
    let named = match read(at) {
        Ok(index) => index.baselines.get(text).cloned(),
        Err(_) if exists => None,
        Err(e) => return Err(e),
    };
    match named {
        Some(_) if exists => bail!(
            "`{text}` is a baseline, and a file or folder here is called so, too: write ./{text} for that one, {PREFIX}{text} \
             for the baseline"
        ),
        Some(baseline) => folder_of(at, text, &baseline),
        None if exists => Ok(operand.to_owned()),
        None => bail!("there are no results in {text}, and {}", unknown(at, text)?),
    }
}

/// That no baseline is called so, in words.
fn unknown(at: &Path, name: &str) -> Result<String> {
    let known: Vec<String> = read(at)?.baselines.into_keys().collect();
    let there_are = match known.len() {
        0 => format!("none is named in {} yet", shown(&at.join(INDEX))),
        _ => format!("there are {}", known.join(", ")),
    };
    Ok(format!(
        "no baseline is called `{name}`{}; {there_are}. `threadgauge run --baseline NAME` names one",
        nearest(&known, name)
    ))
}

fn folder_of(at: &Path, name: &str, baseline: &Baseline) -> Result<PathBuf> {
    let dir = at.join(&baseline.folder);
    if dir.join(STORE_FILE).symlink_metadata().is_err() {
        bail!(
            "the baseline `{name}` was run {} in {}, which is gone: name another with `threadgauge run --baseline {name}`",
            baseline.run,
            shown(&dir)
        );
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of runs, and a run of this name in it.
    fn with_run(name: &str) -> (tempfile::TempDir, PathBuf) {
        let at = tempfile::tempdir().unwrap();
        let dir = run_in(at.path(), name);
        (at, dir)
    }

    fn run_in(at: &Path, name: &str) -> PathBuf {
        let dir = at.join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(STORE_FILE), "").unwrap();
        dir
    }

    fn refused(at: &Path, operand: &str) -> String {
        let error = resolve_in(at, Path::new(operand)).unwrap_err();
        format!("{error:#}")
    }

    #[test]
    fn a_name_means_the_run_that_got_it_last_wherever_that_lies() {
        let (at, first) = with_run("one");
        let (_elsewhere, second) = with_run("two");
        assert_eq!(keep_in(at.path(), "main", &first, "a").unwrap(), None);
        assert_eq!(
            resolve_in(at.path(), Path::new("main")).unwrap(),
            at.path().join("one")
        );
        // Again is no change.
        assert_eq!(keep_in(at.path(), "main", &first, "a").unwrap(), None);
        let before = keep_in(at.path(), "main", &second, "b").unwrap();
        assert_eq!(before, Some(at.path().join("one")));
        for operand in ["main", "baseline:main"] {
            let found = resolve_in(at.path(), Path::new(operand)).unwrap();
            assert_eq!(
                found.canonicalize().unwrap(),
                second.canonicalize().unwrap(),
                "{operand}"
            );
        }
        // The folder of runs may move with all that is in it.
        keep_in(at.path(), "main", &first, "a").unwrap();
        let index = fs::read_to_string(at.path().join(INDEX)).unwrap();
        assert!(index.contains("\"one\""), "{index}");
    }

    #[test]
    fn what_is_no_name_stays_what_it_is() {
        let (at, dir) = with_run("one");
        for operand in ["some/folder", "./main", "/nowhere"] {
            assert_eq!(
                resolve_in(at.path(), Path::new(operand)).unwrap(),
                Path::new(operand)
            );
        }
        assert_eq!(resolve_in(at.path(), &dir).unwrap(), dir);
    }

    #[test]
    fn what_is_a_folder_and_a_name_is_refused_with_both_ways_to_write_it() {
        let (at, dir) = with_run("one");
        // Every crate has this folder, and tests run beside it.
        keep_in(at.path(), "src", &dir, "a").unwrap();
        let says = refused(at.path(), "src");
        assert!(says.contains("./src") && says.contains("baseline:src"), "{says}");
        assert_eq!(
            resolve_in(at.path(), Path::new("./src")).unwrap(),
            Path::new("./src")
        );
        assert_eq!(
            resolve_in(at.path(), Path::new("baseline:src")).unwrap(),
            at.path().join("one")
        );
        let taken = check("src").unwrap_err().to_string();
        assert!(taken.contains("choose another"), "{taken}");
    }

    #[test]
    fn a_baseline_that_is_gone_or_was_never_there_is_said_to_be() {
        let (at, dir) = with_run("one");
        let says = refused(at.path(), "main");
        assert!(
            says.contains("there are no results in main") && says.contains("none is named"),
            "{says}"
        );
        keep_in(at.path(), "main", &dir, "4f2a").unwrap();
        let says = refused(at.path(), "mian");
        assert!(says.contains("did you mean `main`"), "{says}");
        fs::remove_dir_all(&dir).unwrap();
        for operand in ["main", "baseline:main"] {
            let says = refused(at.path(), operand);
            assert!(
                says.contains("was run 4f2a in") && says.contains("is gone"),
                "{says}"
            );
        }
    }

    #[test]
    fn an_index_that_is_none_or_newer_is_refused_and_left_as_it_is() {
        let (at, dir) = with_run("one");
        for (text, why) in [
            ("[]", "is not what"),
            ("{\"schema\":1", "is not what"),
            ("{\"schema\":2,\"baselines\":{}}", "schema 2"),
        ] {
            fs::write(at.path().join(INDEX), text).unwrap();
            assert!(refused(at.path(), "main").contains(why), "{text}");
            let kept = keep_in(at.path(), "main", &dir, "a").unwrap_err();
            assert!(format!("{kept:#}").contains(why), "{kept:#}");
            assert_eq!(fs::read_to_string(at.path().join(INDEX)).unwrap(), text);
            // A folder is one all the same.
            assert_eq!(resolve_in(at.path(), Path::new("src")).unwrap(), Path::new("src"));
        }
    }

    #[test]
    fn of_runs_that_end_at_once_none_loses_its_name() {
        let (at, dir) = with_run("one");
        let names: Vec<String> = (0..16).map(|i| format!("run-{i}")).collect();
        std::thread::scope(|scope| {
            for name in &names {
                scope.spawn(|| keep_in(at.path(), name, &dir, name).unwrap());
            }
        });
        for name in &names {
            assert_eq!(
                resolve_in(at.path(), Path::new(name)).unwrap(),
                at.path().join("one")
            );
        }
        let files = fs::read_dir(at.path()).unwrap();
        assert_eq!(files.count(), 2, "the run and the index, and nothing beside them");
    }

    #[test]
    fn a_name_is_a_word_that_no_shell_or_path_takes_for_something_else() {
        for name in ["main", "v1.2", "6.18_preempt", "a-b"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(LONGEST + 1);
        for name in [
            "",
            "-x",
            ".",
            "..",
            ".main",
            "a/b",
            "a b",
            "baseline:a",
            "ü",
            &long,
        ] {
            assert!(!is_name(name), "{name}");
            assert!(check(name).unwrap_err().to_string().contains("a name has"));
        }
    }
}
