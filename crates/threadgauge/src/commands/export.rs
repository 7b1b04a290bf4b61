//! A run as one file.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use threadgauge_results::{EXPORT_ENDING, Store, export as exported, is_export, units};

use crate::baselines;
use crate::cli::ExportOptions;
use crate::folder;
use crate::output::{Done, Verdict, print, say, shown};

/// Writes what a comparison and a history need of a run into one file, and prints its path.
pub fn export(options: &ExportOptions) -> Done {
    let dir = baselines::resolve(&options.dir)?;
    if is_export(&dir) {
        bail!("{} is such a file already", shown(&dir));
    }
    let store = Store::read(&dir)?;
    let data = folder::from_store(&dir, &store)?;
    let primary: BTreeMap<String, Vec<String>> = data
        .results
        .experiments
        .into_iter()
        .map(|e| (e.id, e.primary_metrics))
        .collect();
    let bytes = exported(&store, |id| primary.get(id).cloned().unwrap_or_default())?;
    let path = match &options.out {
        Some(path) => path.clone(),
        None => beside(&dir)?,
    };
    if fs::symlink_metadata(&path).is_ok() {
        bail!("{} is there already; choose another --out", shown(&path));
    }
    let failed = || format!("{} cannot be written", shown(&path));
    let mut file = fs::File::create_new(&path).with_context(failed)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_all())
        .with_context(failed)?;
    say(&format!(
        "{}: `compare` and `history` read it as they do a folder",
        units::with_unit(bytes.len() as f64, None, "bytes")
    ));
    print(&shown(&path))?;
    Ok(Verdict::Done)
}

/// In the current folder, by the name of the run's.
fn beside(dir: &std::path::Path) -> Result<PathBuf> {
    let whole = dir
        .canonicalize()
        .with_context(|| format!("{} cannot be read", shown(dir)))?;
    let name = whole
        .file_name()
        .map_or_else(|| "run".into(), |name| name.to_string_lossy());
    Ok(PathBuf::from(format!("{name}{EXPORT_ENDING}")))
}
