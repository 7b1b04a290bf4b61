//! A results folder: its name, and everything in it read back.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use threadgauge_experiments::runnable;
use threadgauge_lab::analysis::analyse;
use threadgauge_lab::experiment::{Catalogue, Experiment};
use threadgauge_report::{FILES, SampleRow, write_all};
use threadgauge_results::units::counted;
use threadgauge_results::{
    EXPORT_ENDING, Params, Results, RunData, STORE_FILE, Store, StoredSample, import, is_export,
};

use crate::baselines::{self, DEFAULT_OUT};
use crate::commands::load::experiment::{LOAD, SECONDS};
use crate::commands::observe::experiment::{INTERVALS, OBSERVE};
use crate::output::{say, shown};

/// Where a run goes that was not told: `threadgauge-results/<date>-<id>` under the current folder.
pub fn default_out(started: &str, id: &str) -> PathBuf {
    let date = started.split('T').next().unwrap_or(started);
    PathBuf::from(DEFAULT_OUT).join(format!("{date}-{id}"))
}

/// A folder without a store may hold somebody's own files of our names: they are not replaced.
pub fn refuse_foreign_files(dir: &Path) -> Result<()> {
    if dir.join(STORE_FILE).exists() {
        return Ok(());
    }
    // A link that leads nowhere is somebody's, too.
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    if let Some(file) = FILES.iter().map(|name| dir.join(name)).find(is_there) {
        bail!(
            "{} is there already and would be replaced; choose another --out",
            file.display()
        );
    }
    Ok(())
}

/// The experiments that a folder may hold: those of `run`, and what `load` and `observe` leave.
fn readable() -> Catalogue {
    static ALL: LazyLock<Vec<&'static Experiment>> = LazyLock::new(|| {
        let others = [&LOAD, &SECONDS, &OBSERVE, &INTERVALS];
        runnable().iter().chain(others).collect()
    });
    Catalogue {
        experiments: &ALL,
        ..runnable()
    }
}

/// Reads a results folder back, that of a baseline, or an exported run.
pub fn read(operand: &Path) -> Result<RunData> {
    let dir = &baselines::resolve(operand)?;
    if is_export(dir) {
        return from_store(dir, &import(dir)?);
    }
    let store = Store::read(dir)?;
    from_store(dir, &store)
}

/// The same of a run that has all its figures: an exported one has those of comparisons alone.
pub fn read_whole(operand: &Path) -> Result<RunData> {
    if is_export(operand) {
        bail!(
            "{} is an exported run, which `compare` and `history` read; claims and reports need its results folder",
            shown(operand)
        );
    }
    read(operand)
}

/// The runs that a folder means: itself, or what is in it, each results folder and each exported run, by name. How many
/// folders beside those are none is said.
///
/// # Errors
///
/// When it is neither a run nor a folder that can be read.
pub fn runs_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    // What cannot be looked at may be one: whoever reads it says what is wrong.
    let is_run = |path: &Path| {
        is_export(path)
            || path.to_string_lossy().ends_with(EXPORT_ENDING)
            || path.join(STORE_FILE).symlink_metadata().map_or_else(
                |e| !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
                |_| true,
            )
    };
    if is_run(dir) {
        return Ok(vec![dir.to_owned()]);
    }
    let paths = dir.read_dir()?.map(|entry| entry.map(|entry| entry.path()));
    let paths: Vec<PathBuf> = paths.collect::<io::Result<_>>()?;
    let (mut runs, others): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| is_run(path));
    runs.sort();
    if let Some(says) = without_run(dir, &others).filter(|_| !runs.is_empty()) {
        say(&says);
    }
    Ok(runs)
}

/// How many of these, of what is in a folder, are folders without a store, in words; those that a dot hides are
/// nobody's runs.
fn without_run(dir: &Path, others: &[PathBuf]) -> Option<String> {
    let is_hidden = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with('.')
    };
    let folders = others.iter().filter(|path| path.is_dir() && !is_hidden(path));
    let folders = folders.count();
    let are_none = match folders {
        1 => "which is no results folder",
        _ => "which are no results folders",
    };
    (folders > 0).then(|| {
        format!(
            "Left out: {} in {}, {are_none} (no {STORE_FILE} in it)",
            counted(folders, "folder"),
            shown(dir)
        )
    })
}

/// Everything an open store says.
pub fn from_store(dir: &Path, store: &Store) -> Result<RunData> {
    let results = analyse(readable(), store)?;
    let samples = results
        .experiments
        .iter()
        .map(|e| Ok((e.id.clone(), store.samples(&e.id)?)))
        .collect::<Result<BTreeMap<_, _>>>()?;
    Ok(RunData {
        name: dir.display().to_string(),
        results,
        samples,
    })
}

/// Writes every report of `data` into `dir`, and says which could not be made.
pub fn write(data: &RunData, dir: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    let params: BTreeMap<&str, &Params> = cases(&data.results).collect();
    let none = Params::new();
    let rows: Vec<SampleRow<'_>> = data
        .samples
        .values()
        .flatten()
        .flat_map(|s| rows(s, params.get(s.case.as_str()).copied().unwrap_or(&none)))
        .collect();
    let written = write_all(&data.results, &rows, dir)?;
    for missing in &written.missing {
        say(&missing.to_string());
    }
    Ok(written.paths)
}

fn cases(results: &Results) -> impl Iterator<Item = (&str, &Params)> {
    results
        .experiments
        .iter()
        .flat_map(|e| &e.cases)
        .map(|c| (c.id.as_str(), &c.params))
}

/// A row a metric; one without a value where there is none.
fn rows<'a>(stored: &'a StoredSample, params: &'a Params) -> Vec<SampleRow<'a>> {
    let row = |metric, unit, value| SampleRow {
        experiment: &stored.experiment,
        case: &stored.case,
        params,
        round: stored.round,
        copy: stored.copy,
        nth_try: stored.nth_try,
        attempt: stored.attempt,
        status: stored.sample.status,
        reason: stored.sample.reason.as_deref(),
        tags: &stored.sample.tags,
        metric,
        unit,
        value,
    };
    if stored.sample.metrics.is_empty() {
        return vec![row("", "", None)];
    }
    let metrics = stored.sample.metrics.iter();
    metrics.map(|m| row(&m.name, &m.unit, Some(m.value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_beside_runs_that_hold_none_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["1", "2", "3", ".hidden"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::write(at("1").join(STORE_FILE), "").unwrap();
        std::fs::write(at("notes.md"), "").unwrap();
        assert_eq!(runs_in(dir.path()).unwrap(), [at("1")]);
        let others = ["2", "3", ".hidden", "notes.md"].map(at);
        let says = without_run(dir.path(), &others).unwrap();
        assert!(
            says.starts_with("Left out: 2 folders in ") && says.contains(", which are no results folders ("),
            "{says}"
        );
        let one = without_run(dir.path(), &others[1..]).unwrap();
        assert!(
            one.starts_with("Left out: 1 folder in ") && one.contains(", which is no results folder ("),
            "{one}"
        );
        assert_eq!(without_run(dir.path(), &others[2..]), None);
    }
}
