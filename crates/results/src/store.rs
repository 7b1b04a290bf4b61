//! The store: one SQLite file a run, every sample durable as soon as it is measured.
//!
//! Owns the file `results.sqlite`, its schema and its lock. A run holds the lock from its first to its
//! last sample, so a second run on the same folder is refused; the kernel releases it however the run
//! ends. Opening never changes or replaces a file that is not ours, is damaged or is newer than we know, and
//! to read one never writes into its folder: [`guarded`] says how.

mod error;
mod guarded;
mod tables;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub use error::StoreError;
use error::explain;
use guarded::{Identity, Word};
pub use tables::STORE_FILE;
use tables::{APPLICATION_ID, TABLES, VERSION};

use crate::each::Each;
use crate::outside::clean;
use crate::{Lack, Metric, Need, Params, Runtime, Sample, Status, StoredSample};

/// How long another process may have the file for a moment.
const PATIENCE: Duration = Duration::from_millis(200);

/// The largest seed of a run. In `results.json` it is a number, and many readers of JSON count no further: to them a
/// larger one is another.
pub const LARGEST_SEED: u64 = (1 << 53) - 1;

/// How a run was started, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Unique.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// `quick`, `standard` or `paper`.
    pub profile: String,
    /// The seed of every shuffle.
    pub seed: u64,
    /// The version of the program.
    pub version: String,
    /// Rounds asked for, where the profile's looks were replaced.
    pub rounds: Option<u32>,
    /// The CPUs workers may be pinned to.
    pub cpus: Vec<usize>,
    /// Per cent of hidden extra work, 0 but in the harness's own test.
    pub handicap_percent: u32,
    /// Choices that change what is measured, as typed.
    pub options: Vec<String>,
    /// The id of the run with which it takes turns.
    #[serde(default)]
    pub in_turns_with: Option<String>,
    /// The computations of the user's own that it measures.
    #[serde(default)]
    pub each: Option<Each>,
    /// The runtimes whose guests take part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<Runtime>,
}

/// An experiment as planned, and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredExperiment {
    /// Its id.
    pub id: String,
    /// The id of the case that runs twice a round.
    pub reference: Option<String>,
    /// Why it stopped; `None` while it has not.
    pub stopped_because: Option<String>,
    /// In plan order.
    pub cases: Vec<StoredCase>,
}

/// A case as planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCase {
    /// `experiment/params`.
    pub id: String,
    /// Its point in the grid.
    pub params: Params,
    /// What one sample was expected to take, ms.
    pub estimate_ms: u32,
    /// Why it cannot run here, if so.
    pub skip: Option<Lack>,
}

/// A look at an experiment's claims between two rounds. What was decided at it stays decided, so it is kept what it was
/// based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// How many rounds were done.
    pub rounds: u32,
    /// How many tries were stored, of which those of these rounds count.
    pub tries: u32,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Which file has that path.
    identity: Option<Identity>,
    /// A run goes on in it.
    is_held: bool,
    /// Where a copy lies that is read in its place.
    _copy: Option<TempDir>,
}

/// However a run ends, one file is left of it, if that can still be.
impl Drop for Store {
    fn drop(&mut self) {
        if self.is_held {
            let _ = self.fold();
        }
        if let Some(file) = self.identity.filter(|_| self.is_held) {
            file.release();
        }
    }
}

impl Store {
    /// Makes the store of a new run in `dir`, which is made where it is missing, with its whole plan.
    ///
    /// # Errors
    ///
    /// When `dir` holds results already, cannot be written or its disk is full. Nothing is left in it then.
    pub fn create(
        dir: &Path,
        run: &RunRecord,
        machine: &serde_json::Value,
        plan: &[StoredExperiment],
    ) -> Result<Self, StoreError> {
        Self::create_at_most(dir, run, machine, plan, None)
    }

    fn create_at_most(
        dir: &Path,
        run: &RunRecord,
        machine: &serde_json::Value,
        plan: &[StoredExperiment],
        pages: Option<u32>,
    ) -> Result<Self, StoreError> {
        let path = dir.join(STORE_FILE);
        let not_made = |why| error::not_made(dir, &why);
        std::fs::create_dir_all(dir).map_err(not_made)?;
        // The file is claimed first, so that of two runs started together one is refused.
        match std::fs::File::create_new(&path) {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(StoreError::AlreadyThere(dir.to_owned()));
            }
            Err(e) => return Err(not_made(e)),
        }
        let made = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let made = made.map_err(|error| explain(&path, error));
        let filled = made.and_then(|made| {
            let mut store = Self::over(made, &path)?;
            store.hold()?;
            if let Some(pages) = pages {
                store.limit_pages(pages);
            }
            store.wrap(store.fill(run, machine, plan))?;
            Ok(store)
        });
        filled.map_err(|error| {
            // It is ours and holds nothing: left there, it would only stand in the way.
            let _ = std::fs::remove_file(&path);
            match error {
                StoreError::Full(_) => StoreError::NoRoom(dir.to_owned()),
                error => error,
            }
        })
    }

    /// Opens the store of an interrupted run, to go on.
    ///
    /// # Errors
    ///
    /// When there is none, another run holds it, or it is foreign, damaged, newer or older.
    pub fn resume(dir: &Path) -> Result<Self, StoreError> {
        let path = existing(dir)?;
        let mut store = Self::over(guarded::open_to_go_on(&path)?, &path)?;
        let found = store.check()?;
        if found < VERSION {
            return Err(StoreError::Older { path, found });
        }
        store.hold()?;
        Ok(store)
    }

    /// Opens a store to read it. Nothing in its folder is written or made.
    ///
    /// # Errors
    ///
    /// When there is none, a run is writing it, its log is missing, or it is foreign, damaged or newer.
    pub fn read(dir: &Path) -> Result<Self, StoreError> {
        Self::read_within(dir, guarded::MOST_TIME)
    }

    fn read_within(dir: &Path, time: Duration) -> Result<Self, StoreError> {
        let path = existing(dir)?;
        let (connection, copy) = guarded::open(&path)?;
        let mut store = Self::over(connection, &path)?;
        store._copy = copy;
        // Its own temporary files have their place in memory.
        store.wrap(store.connection.pragma_update(None, "temp_store", "MEMORY"))?;
        let bounded = guarded::bound(&mut store.connection, Some(time));
        store.wrap(bounded)?;
        store.check()?;
        Ok(store)
    }

    /// Makes one try durable: it survives whatever happens next.
    ///
    /// # Errors
    ///
    /// When the disk is full or fails; what was stored before is kept.
    pub fn add(&mut self, stored: &StoredSample) -> Result<(), StoreError> {
        let result = add(&mut self.connection, stored);
        self.wrap(result)
    }

    /// Stores why an experiment stopped; `None` opens it again.
    ///
    /// # Errors
    ///
    /// As [`Store::add`].
    pub fn set_stopped(&mut self, experiment: &str, because: Option<&str>) -> Result<(), StoreError> {
        let result = self.connection.execute(
            "UPDATE experiment SET stopped_because = ?2 WHERE id = ?1",
            params![experiment, because],
        );
        self.wrap(result).map(drop)
    }

    /// Stores how the run goes on, where that is otherwise than it was started.
    ///
    /// # Errors
    ///
    /// As [`Store::add`].
    pub fn set_run(&mut self, run: &RunRecord) -> Result<(), StoreError> {
        let result = self
            .connection
            .execute("UPDATE meta SET value = ?1 WHERE key = 'run'", [json(run)]);
        self.wrap(result).map(drop)
    }

    /// How the run was started.
    ///
    /// # Errors
    ///
    /// When the store is damaged.
    pub fn run(&self) -> Result<RunRecord, StoreError> {
        self.meta("run")
    }

    /// The fingerprint of the machine.
    ///
    /// # Errors
    ///
    /// When the store is damaged.
    pub fn machine(&self) -> Result<serde_json::Value, StoreError> {
        self.meta("machine")
    }

    /// The plan, in order.
    ///
    /// # Errors
    ///
    /// When the store is damaged.
    pub fn experiments(&self) -> Result<Vec<StoredExperiment>, StoreError> {
        let rows = self.query(
            "SELECT id, reference, stopped_because FROM experiment ORDER BY position",
            [],
            |row| {
                Ok(StoredExperiment {
                    id: word(row, 0)?,
                    reference: optional(row, 1)?,
                    stopped_because: optional(row, 2)?,
                    cases: Vec::new(),
                })
            },
        )?;
        rows.into_iter()
            .map(|experiment| {
                let cases = self.cases(&experiment.id)?;
                Ok(StoredExperiment { cases, ..experiment })
            })
            .collect()
    }

    /// The tries of an experiment in the order they were measured, gated ones included. A store of schema 1 has one a
    /// sample.
    ///
    /// # Errors
    ///
    /// When the store is damaged.
    pub fn samples(&self, experiment: &str) -> Result<Vec<StoredSample>, StoreError> {
        let nth_try = if self.has_looks()? { "s.try" } else { "0" };
        let rows = self.query(
            &format!(
                "SELECT s.id, s.case_id, s.round, s.copy, s.attempt, s.gated, s.status, s.reason, s.tags, s.noise,
                        s.started, s.wall_ns, {nth_try}
                 FROM sample s JOIN planned_case c ON c.id = s.case_id WHERE c.experiment = ?1 ORDER BY s.id"
            ),
            [experiment],
            |row| {
                let status = word(row, 6)?;
                let tags: String = row.get(8)?;
                let noise: String = row.get(9)?;
                let stored = StoredSample {
                    experiment: experiment.to_owned(),
                    case: word(row, 1)?,
                    round: row.get(2)?,
                    copy: row.get(3)?,
                    nth_try: row.get(12)?,
                    attempt: row.get(4)?,
                    gated: row.get(5)?,
                    started: word(row, 10)?,
                    wall_ns: row.get::<_, i64>(11)?.unsigned_abs(),
                    sample: Sample::without_figures(Status::Ok, ""),
                };
                Ok((row.get::<_, i64>(0)?, stored, status, optional(row, 7)?, tags, noise))
            },
        )?;
        let mut metrics = self.metrics(experiment)?.into_iter().peekable();
        let mut samples = Vec::with_capacity(rows.len());
        for (id, mut stored, status, reason, tags, noise) in rows {
            stored.sample = Sample {
                status: self.json(&format!("\"{status}\""))?,
                reason,
                tags: self.json(&tags)?,
                noise: self.json(&noise)?,
                metrics: std::iter::from_fn(|| metrics.next_if(|(sample, _)| *sample == id))
                    .map(|(_, metric)| metric)
                    .collect(),
            };
            samples.push(stored);
        }
        Ok(samples)
    }

    /// Stores that an experiment's claims are looked at now.
    ///
    /// # Errors
    ///
    /// As [`Store::add`].
    pub fn add_look(&mut self, experiment: &str, look: Look) -> Result<(), StoreError> {
        let result = self.connection.execute(
            "INSERT INTO look VALUES(?1, ?2, ?3)",
            params![experiment, look.rounds, look.tries],
        );
        self.wrap(result).map(drop)
    }

    /// The looks at an experiment so far, in order.
    ///
    /// # Errors
    ///
    /// When the store is damaged.
    pub fn looks(&self, experiment: &str) -> Result<Vec<Look>, StoreError> {
        if !self.has_looks()? {
            return Ok(Vec::new());
        }
        self.query(
            "SELECT rounds, tries FROM look WHERE experiment = ?1 ORDER BY rounds",
            [experiment],
            |row| {
                Ok(Look {
                    rounds: row.get(0)?,
                    tries: row.get(1)?,
                })
            },
        )
    }

    /// Whether it keeps looks and every try: one of schema 1 does not.
    ///
    /// # Errors
    ///
    /// When the store is damaged.
    pub fn has_looks(&self) -> Result<bool, StoreError> {
        Ok(self.wrap(self.pragma::<i64>("user_version"))? >= 2)
    }

    /// Folds the write-ahead log in, so that one file is left.
    ///
    /// # Errors
    ///
    /// When the disk is full, or the file has another path now; nothing is lost then, the log stays beside it.
    pub fn close(self) -> Result<(), StoreError> {
        self.fold()
    }

    fn fold(&self) -> Result<(), StoreError> {
        // SQLite removes the log by its path, where it may be another's by now.
        if Identity::of(&self.path) != self.identity {
            return Err(StoreError::Moved(self.path.clone()));
        }
        self.wrap(self.connection.pragma_update(None, "journal_mode", "DELETE"))
    }

    /// A store that is no file, of a run that is somewhere else: `path` is what it is called in an error.
    pub(crate) fn in_memory(
        path: &Path,
        run: &RunRecord,
        machine: &serde_json::Value,
        plan: &[StoredExperiment],
    ) -> Result<Self, StoreError> {
        let made = Connection::open_in_memory().map_err(|error| explain(path, error))?;
        let store = Self::over(made, path)?;
        store.wrap(store.fill(run, machine, plan))?;
        Ok(store)
    }

    /// Adds all tries and looks at once: they are somewhere else, so that each need not be durable.
    pub(crate) fn fill_with(
        &self,
        samples: &[StoredSample],
        looks: &[(String, Vec<Look>)],
    ) -> Result<(), StoreError> {
        let filled = || -> rusqlite::Result<()> {
            let whole = self.connection.unchecked_transaction()?;
            for stored in samples {
                insert(&whole, stored)?;
            }
            for (experiment, looks) in looks {
                for look in looks {
                    whole.execute(
                        "INSERT INTO look VALUES(?1, ?2, ?3)",
                        params![experiment, look.rounds, look.tries],
                    )?;
                }
            }
            whole.commit()
        };
        self.wrap(filled())
    }

    /// Lets the file grow no larger than it is, or than `pages`: what a full disk does.
    #[doc(hidden)]
    pub fn limit_pages(&self, pages: u32) {
        // SQLite raises a bound below the present size to that size, and answers with the bound.
        let _ = self
            .connection
            .pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, i64>(0));
    }

    fn over(connection: Connection, path: &Path) -> Result<Self, StoreError> {
        let store = Self {
            connection,
            path: path.to_owned(),
            identity: Identity::of(path),
            is_held: false,
            _copy: None,
        };
        store.wrap(guarded::forbid(&store.connection))?;
        store.wrap(store.connection.busy_timeout(PATIENCE))?;
        Ok(store)
    }

    /// Takes the lock and keeps it: exclusive mode before the first access to the write-ahead log.
    fn hold(&mut self) -> Result<(), StoreError> {
        self.is_held = true;
        if let Some(file) = self.identity {
            file.hold();
        }
        let held = self.connection.execute_batch(
            "PRAGMA locking_mode = EXCLUSIVE;
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             BEGIN EXCLUSIVE; COMMIT;",
        );
        self.wrap(held)
    }

    /// Its version, if it is ours, whole, and of one we know.
    fn check(&self) -> Result<i64, StoreError> {
        let application: i64 = self.wrap(self.pragma("application_id"))?;
        let version: i64 = self.wrap(self.pragma("user_version"))?;
        if application != APPLICATION_ID {
            return Err(StoreError::Foreign {
                path: self.path.clone(),
                why: format!("its application id is {application:#x}"),
            });
        }
        if version > VERSION {
            return Err(StoreError::Newer {
                path: self.path.clone(),
                found: version,
            });
        }
        if let Some(why) = self.wrap(guarded::foreign(&self.connection, version))? {
            return Err(StoreError::Foreign {
                path: self.path.clone(),
                why,
            });
        }
        let verdict: String = self.wrap(self.pragma("quick_check"))?;
        if verdict == "ok" {
            Ok(version)
        } else {
            Err(self.damaged(verdict))
        }
    }

    fn pragma<T: rusqlite::types::FromSql>(&self, name: &str) -> rusqlite::Result<T> {
        self.connection.pragma_query_value(None, name, |row| row.get(0))
    }

    fn fill(
        &self,
        run: &RunRecord,
        machine: &serde_json::Value,
        plan: &[StoredExperiment],
    ) -> rusqlite::Result<()> {
        let whole = self.connection.unchecked_transaction()?;
        whole.execute_batch(TABLES)?;
        whole.pragma_update(None, "application_id", APPLICATION_ID)?;
        whole.pragma_update(None, "user_version", VERSION)?;
        for (key, value) in [("run", json(run)), ("machine", json(machine))] {
            whole.execute("INSERT INTO meta VALUES(?1, ?2)", [key, &value])?;
        }
        for (position, experiment) in (0_i64..).zip(plan) {
            whole.execute(
                "INSERT INTO experiment VALUES(?1, ?2, ?3, ?4)",
                params![
                    experiment.id,
                    position,
                    experiment.reference,
                    experiment.stopped_because
                ],
            )?;
            for (position, case) in (0_i64..).zip(&experiment.cases) {
                whole.execute(
                    "INSERT INTO planned_case VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
                    params![
                        case.id,
                        experiment.id,
                        position,
                        json(&case.params),
                        case.estimate_ms,
                        case.skip.as_ref().map(json)
                    ],
                )?;
            }
        }
        whole.commit()
    }

    fn cases(&self, experiment: &str) -> Result<Vec<StoredCase>, StoreError> {
        let cpus = self.run()?.cpus.len() as u64;
        let rows = self.query(
            "SELECT id, params, estimate_ms, skip FROM planned_case WHERE experiment = ?1 ORDER BY position",
            [experiment],
            |row| Ok((word(row, 0)?, row.get::<_, String>(1)?, row.get(2)?, row.get(3)?)),
        )?;
        rows.into_iter()
            .map(|(id, params, estimate_ms, skip): (_, _, _, Option<String>)| {
                let params: Params = self.json(&params)?;
                // Older runs stored the sentence alone; what it is about follows from the case.
                let older = if params.int("cpus") > Some(cpus) {
                    Need::Cpus
                } else {
                    Need::Figures
                };
                let lack = |says: String| {
                    guarded::from_json(&says).unwrap_or_else(|_| Lack::new(older, clean(&says)))
                };
                Ok(StoredCase {
                    id,
                    params,
                    estimate_ms,
                    skip: skip.map(lack),
                })
            })
            .collect()
    }

    fn metrics(&self, experiment: &str) -> Result<Vec<(i64, Metric)>, StoreError> {
        self.query(
            "SELECT m.sample_id, m.name, m.unit, m.value
             FROM metric m JOIN sample s ON s.id = m.sample_id JOIN planned_case c ON c.id = s.case_id
             WHERE c.experiment = ?1 ORDER BY m.sample_id, m.position",
            [experiment],
            |row| {
                let metric = Metric {
                    name: word(row, 1)?,
                    unit: word(row, 2)?,
                    value: row.get(3)?,
                };
                Ok((row.get(0)?, metric))
            },
        )
    }

    fn meta<T: DeserializeOwned>(&self, key: &str) -> Result<T, StoreError> {
        let value: Option<String> = self.wrap(
            self.connection
                .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0))
                .optional(),
        )?;
        let value = value.ok_or_else(|| self.damaged(format!("no {key} in it")))?;
        self.json(&value)
    }

    /// The rows of a table, as far as there are no more than a store of ours may have.
    fn query<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        let mut statement = self.wrap(self.connection.prepare(sql))?;
        for row in self.wrap(statement.query_map(parameters, read))? {
            if rows.len() == guarded::MOST_ROWS {
                return Err(StoreError::Foreign {
                    path: self.path.clone(),
                    why: "it has more rows than any of ours".to_owned(),
                });
            }
            rows.push(self.wrap(row)?);
        }
        Ok(rows)
    }

    fn json<T: DeserializeOwned>(&self, text: &str) -> Result<T, StoreError> {
        guarded::from_json(text).map_err(|e| self.damaged(e.to_string()))
    }

    fn damaged(&self, why: String) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            why,
        }
    }

    fn wrap<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|e| explain(&self.path, e))
    }
}

fn existing(dir: &Path) -> Result<PathBuf, StoreError> {
    let path = dir.join(STORE_FILE);
    if path.is_file() {
        Ok(path)
    } else {
        Err(StoreError::NotThere(dir.to_owned()))
    }
}

fn add(connection: &mut Connection, stored: &StoredSample) -> rusqlite::Result<()> {
    let whole = connection.transaction()?;
    insert(&whole, stored)?;
    whole.commit()
}

/// A try, within a transaction.
fn insert(whole: &Connection, stored: &StoredSample) -> rusqlite::Result<()> {
    whole.execute(
        "INSERT INTO sample(case_id, round, copy, try, attempt, gated, status, reason, tags, noise, started, wall_ns)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            stored.case,
            stored.round,
            stored.copy,
            stored.nth_try,
            stored.attempt,
            stored.gated,
            json(&stored.sample.status).trim_matches('"'),
            stored.sample.reason,
            json(&stored.sample.tags),
            json(&stored.sample.noise),
            stored.started,
            i64::try_from(stored.wall_ns).unwrap_or(i64::MAX),
        ],
    )?;
    let id = whole.last_insert_rowid();
    for (position, metric) in (0_i64..).zip(&stored.sample.metrics) {
        whole.execute(
            "INSERT INTO metric VALUES(?1, ?2, ?3, ?4, ?5)",
            params![id, position, metric.name, metric.unit, metric.value],
        )?;
    }
    Ok(())
}

/// A text, as it may be shown.
fn word(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    row.get(column).map(|Word(text)| text)
}

/// A text, where there is one.
fn optional(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let text: Option<Word> = row.get(column)?;
    Ok(text.map(|Word(text)| text))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own types have string keys and finite numbers")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run() -> RunRecord {
        RunRecord {
            id: "a".to_owned(),
            started: "2026-01-01T00:00:00Z".to_owned(),
            profile: "quick".to_owned(),
            seed: 1,
            version: "0".to_owned(),
            rounds: None,
            cpus: Vec::new(),
            handicap_percent: 0,
            options: Vec::new(),
            in_turns_with: None,
            each: None,
            runtimes: Vec::new(),
        }
    }

    #[test]
    fn every_commit_waits_for_the_disk() {
        /// SQLite's number for `synchronous = FULL`. A power cut cannot be had in a test, so the setting is held.
        const FULL: i64 = 2;
        let dir = tempfile::tempdir().unwrap();
        let begun = Store::create(dir.path(), &run(), &serde_json::Value::Null, &[]).unwrap();
        assert_eq!(begun.pragma::<i64>("synchronous").unwrap(), FULL);
        begun.close().unwrap();
        let resumed = Store::resume(dir.path()).unwrap();
        assert_eq!(resumed.pragma::<i64>("synchronous").unwrap(), FULL);
    }

    #[test]
    fn a_disk_that_is_full_before_there_is_a_store_leaves_nothing_to_go_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let refused = Store::create_at_most(dir.path(), &run(), &serde_json::Value::Null, &[], Some(2));
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StoreError::NoRoom(_)), "{refused:?}");
        assert!(!refused.to_string().contains("--resume"), "{refused}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_store_that_cannot_be_made_says_why() {
        let outer = tempfile::tempdir().unwrap();
        // The folder's path has just room for itself, and none for a file in it.
        let mut dir = outer.path().to_owned();
        while dir.as_os_str().len() < 4_090 {
            let room = 4_090 - dir.as_os_str().len();
            dir.push("x".repeat(room.saturating_sub(1).clamp(1, 200)));
        }
        let refused = Store::create(&dir, &run(), &serde_json::Value::Null, &[]).unwrap_err();
        assert!(
            matches!(&refused, StoreError::ReadOnly { path, .. } if *path == dir),
            "{refused:?}"
        );
        let file = outer.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = Store::create(&file, &run(), &serde_json::Value::Null, &[]).unwrap_err();
        assert!(
            matches!(&refused, StoreError::ReadOnly { path, .. } if *path == file),
            "{refused:?}"
        );
        let full = error::not_made(&dir, &std::io::ErrorKind::StorageFull.into());
        assert!(matches!(full, StoreError::NoRoom(of) if of == dir));
    }

    #[test]
    fn what_a_case_lacked_in_an_older_run_follows_from_its_cpus() {
        let dir = tempfile::tempdir().unwrap();
        let planned = |cpus: u64| StoredCase {
            id: format!("e/cpus={cpus}"),
            params: Params::new().with("cpus", cpus),
            estimate_ms: 1,
            skip: None,
        };
        let plan = StoredExperiment {
            id: "e".to_owned(),
            reference: None,
            stopped_because: None,
            cases: [2, 3, 4].map(planned).to_vec(),
        };
        let run = RunRecord {
            cpus: vec![0, 1, 2],
            ..run()
        };
        let store = Store::create(dir.path(), &run, &serde_json::Value::Null, &[plan]).unwrap();
        let said = "UPDATE planned_case SET skip = 'it was not there'";
        store.connection.execute(said, []).unwrap();
        let cases = store.experiments().unwrap().remove(0).cases;
        let lacks: Vec<Lack> = cases.into_iter().filter_map(|case| case.skip).collect();
        let of = [Need::Figures, Need::Figures, Need::Cpus];
        assert_eq!(lacks, of.map(|of| Lack::new(of, "it was not there")));
    }

    #[test]
    fn what_takes_too_long_to_read_or_has_too_many_rows_is_none_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        Store::create(dir.path(), &run(), &serde_json::Value::Null, &[])
            .unwrap()
            .close()
            .unwrap();
        let mut store = Store::read_within(dir.path(), Duration::ZERO).unwrap();
        // One row, so that it is not their number that ends it.
        let long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000) SELECT sum(i) FROM n";
        let refused = store.query(long, [], |row| row.get::<_, i64>(0)).unwrap_err();
        assert!(matches!(refused, StoreError::Foreign { .. }), "{refused:?}");
        guarded::bound(&mut store.connection, None).unwrap();
        assert_eq!(
            store.query(long, [], |row| row.get::<_, i64>(0)).unwrap(),
            [500_000_500_000]
        );
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
        let read = store.query(endless, [], |row| row.get::<_, i64>(0));
        let refused = read.map(|rows| rows.len()).unwrap_err();
        assert!(refused.to_string().contains("more rows"), "{refused}");
    }
}
