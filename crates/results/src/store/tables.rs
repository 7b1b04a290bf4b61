//! What a store is: its name, its marks and its tables.

/// The name of the file inside a results folder.
pub const STORE_FILE: &str = "results.sqlite";

/// "thrg": tells our files from other SQLite files.
pub(super) const APPLICATION_ID: i64 = 0x7468_7267;
/// 1: one try a sample, and no looks.
pub(super) const VERSION: i64 = 2;

pub(super) const TABLES: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE experiment(
  id TEXT PRIMARY KEY, position INTEGER NOT NULL, reference TEXT, stopped_because TEXT) STRICT;
CREATE TABLE planned_case(
  id TEXT PRIMARY KEY, experiment TEXT NOT NULL REFERENCES experiment(id), position INTEGER NOT NULL,
  params TEXT NOT NULL, estimate_ms INTEGER NOT NULL, skip TEXT) STRICT;
CREATE TABLE sample(
  id INTEGER PRIMARY KEY, case_id TEXT NOT NULL REFERENCES planned_case(id), round INTEGER NOT NULL,
  copy INTEGER NOT NULL, try INTEGER NOT NULL, attempt INTEGER NOT NULL, gated INTEGER NOT NULL, status TEXT NOT NULL,
  reason TEXT, tags TEXT NOT NULL, noise TEXT NOT NULL, started TEXT NOT NULL, wall_ns INTEGER NOT NULL,
  UNIQUE(case_id, round, copy, try, attempt)) STRICT;
CREATE TABLE look(
  experiment TEXT NOT NULL REFERENCES experiment(id), rounds INTEGER NOT NULL, tries INTEGER NOT NULL,
  PRIMARY KEY(experiment, rounds)) STRICT, WITHOUT ROWID;
CREATE TABLE metric(
  sample_id INTEGER NOT NULL REFERENCES sample(id), position INTEGER NOT NULL, name TEXT NOT NULL,
  unit TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY(sample_id, position)) STRICT, WITHOUT ROWID;
";
