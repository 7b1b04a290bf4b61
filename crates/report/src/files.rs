//! The files of a results folder, each whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use threadgauge_results::Results;

use crate::{ReportError, SampleRow, html, markdown, picture, samples_csv, xlsx_buffer};

/// Writes `results.json`, `report.html`, `results.xlsx`, `samples.csv`, `report.md` and `report.svg` into `dir`
/// and returns their paths.
///
/// Each is written under another name in the same folder and then renamed, so that a full disk
/// leaves neither half a file nor a destroyed one.
///
/// # Errors
/// Names the file that could not be written and what to do; files before it are in place.
pub fn write_all(
    results: &Results,
    samples: &[SampleRow<'_>],
    dir: &Path,
) -> Result<Vec<PathBuf>, ReportError> {
    let json = serde_json::to_vec_pretty(results)?;
    let workbook = xlsx_buffer(results)?;
    let bytes = |content: Vec<u8>| move |out: &mut dyn Write| Ok(out.write_all(&content)?);
    Ok(vec![
        replace(dir, "results.json", bytes(json))?,
        replace(dir, "report.html", bytes(html(results, samples).into_bytes()))?,
        replace(dir, "results.xlsx", bytes(workbook))?,
        replace(dir, "samples.csv", |out| samples_csv(samples, out))?,
        replace(dir, "report.md", bytes(markdown(results).into_bytes()))?,
        replace(dir, "report.svg", bytes(picture(results).into_bytes()))?,
    ])
}

/// Puts a file in place in one step: the old one stays until the new one is whole and on the disk.
fn replace(
    dir: &Path,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<PathBuf, ReportError> {
    let path = dir.join(name);
    // The process id keeps two commands on one folder out of each other's half-written files.
    let beside = dir.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = write_whole(&beside, write).and_then(|()| Ok(fs::rename(&beside, &path)?));
    match written {
        Ok(()) => Ok(path),
        Err(error) => {
            // It may never have come to be; the first error is the one to tell.
            let _ = fs::remove_file(&beside);
            Err(error.of(path))
        }
    }
}

fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let mut out = BufWriter::new(File::create(path)?);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(())
}
