//! Why a store cannot be used, in words that a user can act on.

use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};

use super::tables::{STORE_FILE, VERSION};

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is none.
    #[error("no results in {}: there is no {STORE_FILE} there", .0.display())]
    NotThere(PathBuf),
    /// There is one where a new one was to be made.
    #[error("{} already holds results; go on with --resume, or choose another --out", .0.display())]
    AlreadyThere(PathBuf),
    /// It is something else.
    #[error("{} is not a store of ours ({why}); it was left as it is", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        why: String,
    },
    /// It is ours and broken.
    #[error(
        "{} is damaged ({why}); it was left as it is. `sqlite3 FILE .recover` may save its samples",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        why: String,
    },
    /// It was written by a later version.
    #[error(
        "{} has schema {found} and this version reads up to {VERSION}; use the threadgauge that wrote it, or a later one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
    },
    /// It was written by an earlier version, and is to be gone on with.
    #[error(
        "{} has schema {found}, which this version reads and does not go on with (its samples are the least of several \
         tries); begin a new run, or use the threadgauge that wrote it",
        path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
    },
    /// Another run writes to it.
    #[error("{} is in use by another run; wait for it to end, or choose another folder", .0.display())]
    InUse(PathBuf),
    /// No space is left.
    #[error("the disk of {} is full; what was stored before is kept. Free some space and go on with --resume", .0.display())]
    Full(PathBuf),
    /// No space is left, and nothing was stored yet.
    #[error(
        "the disk of {} is full, and nothing was stored; free some space and begin again, or choose another folder with --out",
        .0.display()
    )]
    NoRoom(PathBuf),
    /// Its file has another name now, or none.
    #[error(
        "{} was moved or removed while the run went on; what was stored until then is where it is now: go on there with \
         --resume",
        .0.display()
    )]
    Moved(PathBuf),
    /// Its last samples are in another file, which is not beside it.
    #[error(
        "{path} is of a run that was not ended, and its last samples are in {path}-wal, which is not there: copy both \
         files (if it is lost, `sqlite3 {path} 'PRAGMA journal_mode=DELETE'` makes a store of what is left)",
        path = .0.display()
    )]
    LogMissing(PathBuf),
    /// To go on would write to a file that has another name, too.
    #[error(
        "{} is a link or has another name, and what that names would be written; go on in a copy of the folder (`cp -rL`)",
        .0.display()
    )]
    SecondName(PathBuf),
    /// It is of a run that was not ended, which is read from a copy, and there is no place for that.
    #[error(
        "{} is of a run that was not ended, and is read from a copy, which cannot be made in {}: {why}; TMPDIR may name \
         another folder",
        path.display(),
        folder.display()
    )]
    NotCopied {
        /// The file.
        path: PathBuf,
        /// Where the copy was to be.
        folder: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// It may not be read.
    #[error("{} cannot be read: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// It may not be written.
    #[error("{} cannot be written ({why}); choose a folder you may write to with --out", path.display())]
    ReadOnly {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// Anything else SQLite refuses.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

/// Why there can be no store in this folder.
pub(super) fn not_made(dir: &Path, why: &std::io::Error) -> StoreError {
    match why.kind() {
        std::io::ErrorKind::StorageFull => StoreError::NoRoom(dir.to_owned()),
        _ => StoreError::ReadOnly {
            path: dir.to_owned(),
            why: why.to_string(),
        },
    }
}

/// What SQLite's refusal means to the user.
pub(super) fn explain(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    if let rusqlite::Error::SqliteFailure(failure, _) = &error
        && failure.extended_code == ffi::SQLITE_READONLY_DBMOVED
    {
        return StoreError::Moved(path);
    }
    let foreign = |path, why: &str| StoreError::Foreign {
        path,
        why: why.to_owned(),
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse(path),
        Some(ErrorCode::DiskFull) => StoreError::Full(path),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreError::ReadOnly {
                path,
                why: error.to_string(),
            }
        }
        Some(ErrorCode::NotADatabase) => foreign(path, "not an SQLite file"),
        Some(ErrorCode::TooBig) => foreign(path, "a value in it is longer than any that we store"),
        Some(ErrorCode::OperationInterrupted) => {
            foreign(path, "it takes longer to read than any that we store")
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged {
            path,
            why: error.to_string(),
        },
        _ => StoreError::Sqlite { path, source: error },
    }
}
