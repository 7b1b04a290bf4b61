//! The files of a results folder, each whole or not at all.

use std::any::Any;
use std::fmt;
use std::fs;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;

use threadgauge_results::{Results, files};

use crate::{ReportError, SampleRow, html, markdown, picture, picture_png, samples_csv, xlsx_buffer};

/// What [`write_all`] writes, in its order.
pub const FILES: [&str; 7] = [
    "results.json",
    "report.html",
    "results.xlsx",
    "samples.csv",
    "report.md",
    "report.svg",
    "report.png",
];

/// What [`write_all`] has written.
#[derive(Debug, Default)]
pub struct Written {
    /// Their paths.
    pub paths: Vec<PathBuf>,
    /// The others.
    pub missing: Vec<Missing>,
}

/// A file that could not be made, while the others could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: &'static str,
    /// Why, in words.
    pub why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, why } = self;
        write!(
            f,
            "{name} is missing: {why}; the other files hold the same figures"
        )
    }
}

/// Writes [`FILES`] into `dir`.
///
/// Each is [put in place](files::replace) whole: a full disk leaves neither half a file nor a destroyed one, and a link
/// in the place of one is replaced. What makes one may fail alone, as the workbook does where there may be no threads:
/// then it is missing, and what was there of that name is removed.
///
/// While it makes them no panic is reported in this process: one in here becomes a reason.
///
/// # Errors
/// Names the file that could not be written and what to do; files before it are in place.
pub fn write_all(results: &Results, samples: &[SampleRow<'_>], dir: &Path) -> Result<Written, ReportError> {
    type Make<'m> = &'m dyn Fn(&mut dyn Write) -> Result<(), ReportError>;
    let makers: [Make<'_>; FILES.len()] = [
        &|out| Ok(out.write_all(&serde_json::to_vec_pretty(results)?)?),
        &|out| Ok(out.write_all(html(results, samples).as_bytes())?),
        &|out| Ok(out.write_all(&workbook(results, samples)?)?),
        &|out| samples_csv(samples, out),
        &|out| Ok(out.write_all(markdown(results).as_bytes())?),
        &|out| Ok(out.write_all(picture(results).as_bytes())?),
        &|out| Ok(out.write_all(&picture_png(results)?)?),
    ];
    let mut written = Written::default();
    for (name, make) in FILES.into_iter().zip(makers) {
        let path = dir.join(name);
        let why = match quietly(|| files::replace(&path, make)) {
            Ok(Ok(())) => {
                written.paths.push(path);
                continue;
            }
            Ok(Err(ReportError::Io(source))) => return Err(ReportError::File { path, source }),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic,
        };
        // It would be of other results. That it is not there is as well.
        let _ = fs::remove_file(&path);
        written.missing.push(Missing { name, why });
    }
    Ok(written)
}

/// The workbook, where there may be threads for it: the writer would not say so, but panic.
fn workbook(results: &Results, samples: &[SampleRow<'_>]) -> Result<Vec<u8>, ReportError> {
    let thread = thread::Builder::new().spawn(|| ()).map_err(ReportError::Thread)?;
    // It does nothing.
    let _ = thread.join();
    xlsx_buffer(results, samples)
}

/// The words of a panic, if there is one.
fn quietly<T>(make: impl FnOnce() -> T) -> Result<T, String> {
    let reports = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let made = catch_unwind(AssertUnwindSafe(make));
    panic::set_hook(reports);
    made.map_err(|panic| said(&*panic).to_owned())
}

fn said(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(words), _) => words,
        (_, Some(words)) => words,
        _ => "it could not be made",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_reason_and_the_next_is_reported_again() {
        assert_eq!(quietly(|| 7), Ok(7));
        assert_eq!(
            quietly(|| panic!("no {}", "thread")),
            Err::<(), _>("no thread".to_owned())
        );
        assert_eq!(
            quietly(|| panic!("no thread")),
            Err::<(), _>("no thread".to_owned())
        );
    }
}
