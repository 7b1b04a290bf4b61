//! A store is opened as if somebody else had made it, as somebody may have: folders of results are sent around.
//!
//! What SQLite would do for the file is forbidden first (views, triggers, functions in a schema), and its effort is
//! bounded. Then its tables must be those that we make, word by word. To read never writes beside the file: the
//! store of a run that has not ended has a log that only a writer may fold in, so a copy of both is read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::{FromSql, FromSqlResult, ValueRef};
use rusqlite::{Connection, OpenFlags};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::error::{StoreError, explain};
use super::tables::{STORE_FILE, TABLES};
use crate::outside::{clean, steers};

/// The most bytes of a value. The longest that we store, the machine's fingerprint, has a few thousand.
const MOST_BYTES: i32 = 4 << 20;
/// The most rows that are read at once: forty times those of a paper run.
pub(super) const MOST_ROWS: usize = 4_000_000;
/// How long a store may be read. One takes less than a second.
pub(super) const MOST_TIME: Duration = Duration::from_secs(120);
/// The most that is copied. The log of a run has four megabytes, a store some ten.
const MOST_COPIED: u64 = 1 << 30;
/// So many steps of SQLite lie between two looks at the clock: a millisecond, about.
const STEPS: i32 = 10_000;

/// Forbids what a file could make SQLite do beyond reading and writing plain tables, and bounds it.
pub(super) fn forbid(connection: &Connection) -> rusqlite::Result<()> {
    for (config, allowed) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    ] {
        connection.set_db_config(config, allowed)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MOST_BYTES)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.pragma_update(None, "cell_size_check", true)
}

/// Ends what takes longer than that from now on; none lifts it.
pub(super) fn bound(connection: &mut Connection, time: Option<Duration>) -> rusqlite::Result<()> {
    let begun = Instant::now();
    let over = time.map(|time| move || begun.elapsed() > time);
    connection.progress_handler(STEPS, over)
}

/// In what its tables are not those that a store of this version has, if so.
pub(super) fn foreign(connection: &Connection, version: i64) -> rusqlite::Result<Option<String>> {
    let mut wanted: Vec<String> = TABLES
        .split(';')
        .map(words)
        .filter(|table| !table.is_empty() && (version > 1 || !table.starts_with("CREATE TABLE look(")))
        .collect();
    if version == 1 {
        for table in &mut wanted {
            *table = table.replace(" try INTEGER NOT NULL,", "").replace(" try,", "");
        }
    }
    let mut statement = connection.prepare("SELECT type, name, sql FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
        // SQLite's own: what keys need, and what ANALYZE leaves.
        if name.starts_with("sqlite_") {
            continue;
        }
        let made: Option<String> = row.get(2)?;
        let place = wanted
            .iter()
            .position(|table| kind == "table" && made.as_deref().map(words).as_ref() == Some(table));
        match place {
            Some(place) => drop(wanted.swap_remove(place)),
            None => return Ok(Some(format!("it has a {} `{}`", clean(&kind), clean(&name)))),
        }
    }
    Ok((!wanted.is_empty()).then(|| "it lacks tables".to_owned()))
}

/// Of how it is laid out only the words count.
fn words(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The files that may stand beside a store: SQLite's logs, by what is behind its name.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// A store to be read: its connection, and where the copy lies, if it is one.
pub(super) fn open(path: &Path) -> Result<(Connection, Option<TempDir>), StoreError> {
    let failed = |error| explain(path, error);
    let logs = logs(path)?;
    let store = opened(path)?;
    if logs.is_empty() {
        refuse_without_log(path, store)?;
        let connection =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
        return Ok((connection, None));
    }
    let copy = copied(path, store, &logs).map_err(|why| StoreError::NotCopied {
        path: path.to_owned(),
        folder: std::env::temp_dir(),
        why,
    })?;
    // A run that has begun meanwhile has written to what was copied.
    opened(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = Connection::open_with_flags(copy.path().join(STORE_FILE), flags).map_err(failed)?;
    Ok((connection, Some(copy)))
}

/// The store of a run that is to go on. The folder may be another's, who put a name of the reader's own file there.
pub(super) fn open_to_go_on(path: &Path) -> Result<Connection, StoreError> {
    let logs = logs(path)?;
    for written in std::iter::once(path.to_owned()).chain(logs.iter().map(|log| beside(path, log))) {
        match fs::symlink_metadata(&written) {
            Ok(file) if file.is_symlink() || file.nlink() > 1 => return Err(StoreError::SecondName(written)),
            // What is gone by now is not written, and what cannot be looked at is not opened either.
            _ => {}
        }
    }
    refuse_without_log(path, opened(path)?)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    Connection::open_with_flags(path, flags).map_err(|error| explain(path, error))
}

/// The logs that are there.
fn logs(path: &Path) -> Result<Vec<&'static str>, StoreError> {
    let mut found = Vec::new();
    for log in LOGS {
        match fs::metadata(beside(path, log)) {
            Ok(what) if what.is_file() => found.push(log),
            // To open a pipe would wait for a writer.
            Ok(_) => {
                return Err(StoreError::Foreign {
                    path: path.to_owned(),
                    why: format!("{STORE_FILE}{log} is no file"),
                });
            }
            Err(_) => {}
        }
    }
    Ok(found)
}

fn beside(path: &Path, log: &str) -> PathBuf {
    path.with_file_name(format!("{STORE_FILE}{log}"))
}

/// Which files this process writes to.
static HELD: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

/// Which file a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    pub(super) fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self {
            device: file.dev(),
            number: file.ino(),
        })
    }

    /// Says that this process writes to it from now on.
    pub(super) fn hold(self) {
        held().push(self);
    }

    /// Says that it no longer does.
    pub(super) fn release(self) {
        held().retain(|other| *other != self);
    }
}

fn held() -> MutexGuard<'static, Vec<Identity>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that SQLite locks: those of who is about to write, and those of who reads.
const LOCKED: std::ops::Range<u64> = 0x4000_0000..0x4000_0200;

/// Opens the file, unless a run writes to it.
///
/// SQLite is not asked, since it would make a log to find out. A file that this process writes to is not even opened:
/// to close it would take the process's locks off it.
fn opened(path: &Path) -> Result<File, StoreError> {
    let in_use = || StoreError::InUse(path.to_owned());
    if Identity::of(path).is_some_and(|file| held().contains(&file)) {
        return Err(in_use());
    }
    let unreadable = |why: io::Error| StoreError::Unreadable {
        path: path.to_owned(),
        why,
    };
    let file = File::open(path).map_err(unreadable)?;
    let reads = Flock {
        start: LOCKED.start,
        length: LOCKED.end - LOCKED.start,
        ..FlockType::ReadLock.into()
    };
    match fcntl_getlk(&file, &reads) {
        Ok(None) => Ok(file),
        Ok(Some(_)) => Err(in_use()),
        Err(why) => Err(unreadable(why.into())),
    }
}

/// A store whose head says that it has a log, and that has none, was copied without it: at its end a run folds it in,
/// and so does a run that fails.
fn refuse_without_log(path: &Path, mut store: impl Read) -> Result<(), StoreError> {
    /// Where a head has its two versions, and what they are with a write-ahead log.
    const VERSIONS: std::ops::Range<usize> = 18..20;
    const WITH_LOG: [u8; 2] = [2, 2];
    let mut head = [0; 20];
    match store.read_exact(&mut head) {
        Ok(()) if head.starts_with(b"SQLite format 3\0") && head[VERSIONS] == WITH_LOG => {
            match beside(path, LOGS[0]).exists() {
                true => Ok(()),
                false => Err(StoreError::LogMissing(path.to_owned())),
            }
        }
        // What is shorter is no store, as will be said.
        Ok(()) => Ok(()),
        Err(short) if short.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Err(why) => Err(StoreError::Unreadable {
            path: path.to_owned(),
            why,
        }),
    }
}

/// The store with its logs in a folder of its own.
fn copied(path: &Path, store: File, logs: &[&str]) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("threadgauge-").tempdir()?;
    let to = folder.path().join(STORE_FILE);
    copy(store, &to, MOST_COPIED)?;
    for log in logs {
        copy(File::open(beside(path, log))?, &beside(&to, log), MOST_COPIED)?;
    }
    Ok(folder)
}

/// Makes a file of at most so many bytes.
fn copy(from: impl Read, to: &Path, most: u64) -> io::Result<()> {
    // One byte more than may be there says that there is more.
    let copied = io::copy(&mut from.take(most + 1), &mut File::create_new(to)?)?;
    match copied > most {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(()),
    }
}

/// A text of a store, [cleaned](clean).
pub(super) struct Word(pub(super) String);

impl FromSql for Word {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str().map(|text| Self(clean(text)))
    }
}

/// A value stored as JSON, with every text in it cleaned.
pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    // What has neither such a sign nor an encoded one is as it is.
    if !text.contains(|c| c == '\\' || steers(c)) {
        return serde_json::from_str(text);
    }
    serde_json::from_value(cleaned(serde_json::from_str(text)?))
}

fn cleaned(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(all) => all.into_iter().map(cleaned).collect(),
        Value::Object(all) => all
            .into_iter()
            .map(|(name, value)| (clean(&name), cleaned(value)))
            .collect(),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }

    #[test]
    fn what_is_longer_than_may_be_copied_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let copied = |name: &str, bytes: &[u8]| {
            let to = dir.path().join(name);
            copy(bytes, &to, 3).map(|()| fs::read(to).unwrap())
        };
        assert_eq!(copied("as long", b"abc").unwrap(), b"abc");
        let refused = copied("longer", b"abcd").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_head_that_cannot_be_read_is_said_and_a_short_one_left_to_others() {
        let path = Path::new("results.sqlite");
        assert!(matches!(refuse_without_log(path, &b"short"[..]), Ok(())));
        let refused = refuse_without_log(path, Broken).unwrap_err();
        assert!(matches!(refused, StoreError::Unreadable { .. }), "{refused:?}");
    }
}
