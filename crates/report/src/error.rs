//! What can go wrong when a report is written, said so that the reader knows what to do.

use std::io;
use std::path::PathBuf;

/// A report that could not be written. Files that were there before are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The file could not be created, written or put in place.
    #[error("cannot write {}: {source}; {}", path.display(), advice(source))]
    File {
        /// The file that was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What was given to write to refused.
    #[error("cannot write: {0}; {advice}", advice = advice(.0))]
    Io(#[from] io::Error),
    /// The workbook's writer makes threads, and there may be no more.
    #[error(
        "there may be no more threads ({0}); see the limit nproc (`ulimit -u`) and the control group's pids.max"
    )]
    Thread(io::Error),
    /// The workbook could not be built.
    #[error("the workbook cannot be built ({0}), please report this")]
    Workbook(#[from] rust_xlsxwriter::XlsxError),
    /// The picture could not be turned into pixels.
    #[error("the picture cannot be drawn ({0}), please report this")]
    Picture(String),
    /// The document could not be written as JSON.
    #[error("the results cannot be written as JSON ({0}), please report this")]
    Json(#[from] serde_json::Error),
}

impl From<csv::Error> for ReportError {
    fn from(error: csv::Error) -> Self {
        Self::Io(error.into())
    }
}

/// What to try when the system refuses a file.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space and write the report again with `threadgauge report`: \
             every sample is still in results.sqlite"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "make the folder writable, or name another with --out"
        }
        io::ErrorKind::NotFound => "create the folder first",
        _ => "check the folder, then write the report again with `threadgauge report`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_of_what_went_wrong() {
        for (kind, says) in [
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::QuotaExceeded, "free some space"),
            (io::ErrorKind::PermissionDenied, "make the folder writable"),
            (io::ErrorKind::ReadOnlyFilesystem, "make the folder writable"),
            (io::ErrorKind::NotFound, "create the folder first"),
            (io::ErrorKind::Other, "check the folder"),
        ] {
            let advice = advice(&kind.into());
            assert!(advice.starts_with(says), "{kind}: {advice}");
        }
    }
}
