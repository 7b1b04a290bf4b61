//! Stores that somebody else has made, and those of runs that have not ended.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use threadgauge_results::outside::steers;
use threadgauge_results::{
    Metric, Params, RunRecord, STORE_FILE, Sample, Status, Store, StoreError, StoredCase, StoredExperiment,
    StoredSample,
};

const CASE: &str = "create/count=1";

fn create(dir: &Path) -> Store {
    let record = RunRecord {
        id: "3f9a1c".to_owned(),
        started: "2026-11-21T09:12:44Z".to_owned(),
        profile: "quick".to_owned(),
        seed: 1,
        version: "0.1.0".to_owned(),
        rounds: None,
        cpus: vec![0],
        handicap_percent: 0,
        options: Vec::new(),
        in_turns_with: None,
        each: None,
        runtimes: Vec::new(),
    };
    let case = StoredCase {
        id: CASE.to_owned(),
        params: Params::new().with("count", 1),
        estimate_ms: 1,
        skip: None,
    };
    let plan = [StoredExperiment {
        id: "create".to_owned(),
        reference: None,
        stopped_because: None,
        cases: vec![case],
    }];
    Store::create(dir, &record, &serde_json::json!({"cpu": "x"}), &plan).unwrap()
}

fn sample(round: u32) -> StoredSample {
    StoredSample {
        experiment: "create".to_owned(),
        case: CASE.to_owned(),
        round,
        copy: 0,
        nth_try: 0,
        attempt: 0,
        gated: false,
        started: "2026-11-21T09:12:44Z".to_owned(),
        wall_ns: 1,
        sample: Sample {
            metrics: vec![Metric {
                name: "elapsed_ns".to_owned(),
                unit: "ns".to_owned(),
                value: 1.0,
            }],
            ..Sample::without_figures(Status::Ok, "")
        },
    }
}

/// A finished store of two samples, and what somebody does to it.
fn changed(by: &str) -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    for round in 1..=2 {
        store.add(&sample(round)).unwrap();
    }
    store.close().unwrap();
    let path = dir.path().join(STORE_FILE);
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch(by).unwrap();
    drop(theirs);
    let bytes = fs::read(path).unwrap();
    (dir, bytes)
}

/// What it says within a minute: one that never ends says nothing.
fn in_time<T: Send + 'static>(asked: impl FnOnce() -> T + Send + 'static) -> T {
    let (says, said) = channel();
    thread::spawn(move || says.send(asked()));
    said.recv_timeout(Duration::from_secs(60)).expect("it ends")
}

#[test]
fn only_our_tables_are_read_and_nothing_that_a_file_would_have_run() {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let hostile = [
        format!(
            "ALTER TABLE sample RENAME TO s;
             CREATE VIEW sample AS {endless} SELECT i AS id, '{CASE}' AS case_id, i AS round, 0 AS copy, 0 AS try,
               0 AS attempt, 0 AS gated, 'ok' AS status, NULL AS reason, '[]' AS tags, '{{}}' AS noise,
               '' AS started, 0 AS wall_ns FROM n"
        ),
        format!("DROP TABLE look; CREATE VIEW look AS {endless} SELECT 'create' AS experiment, i AS rounds, i AS tries FROM n"),
        "CREATE TRIGGER t AFTER INSERT ON sample BEGIN DELETE FROM metric; END".to_owned(),
        format!("CREATE VIEW more AS {endless} SELECT i FROM n"),
        "CREATE INDEX i ON sample(abs(round))".to_owned(),
        "ALTER TABLE sample ADD COLUMN late INTEGER AS (round + 1)".to_owned(),
        "CREATE TABLE mine(a)".to_owned(),
        "CREATE VIRTUAL TABLE words USING fts5(a)".to_owned(),
        "DROP TABLE metric".to_owned(),
    ];
    for by in hostile {
        let (dir, bytes) = changed(&by);
        let of = dir.path().to_owned();
        let (read, resumed) = in_time(move || (Store::read(&of).map(drop), Store::resume(&of).map(drop)));
        for refused in [read, resumed] {
            let Err(error @ StoreError::Foreign { .. }) = refused else {
                panic!("{by}: {refused:?}");
            };
            assert!(error.to_string().contains("is not a store of ours"), "{error}");
        }
        assert_eq!(fs::read(dir.path().join(STORE_FILE)).unwrap(), bytes, "{by}");
    }
    // What leaves the tables as they are is a user's own affair.
    let (dir, _) = changed("ANALYZE; VACUUM");
    assert_eq!(
        Store::read(dir.path()).unwrap().samples("create").unwrap().len(),
        2
    );
}

#[test]
fn a_value_that_is_too_long_is_refused() {
    let (dir, _) = changed("UPDATE sample SET reason = replace(hex(zeroblob(5000000)), '0', 'x')");
    let of = dir.path().to_owned();
    let refused = in_time(move || Store::read(&of).and_then(|store| store.samples("create")));
    assert!(matches!(refused, Err(StoreError::Foreign { .. })), "{refused:?}");
}

#[test]
fn what_others_wrote_is_clean_when_it_is_read() {
    let (dir, _) = changed(
        "UPDATE sample SET reason = 'a' || char(27, 93, 48, 59, 7) || char(10) || '::error::b', tags = '[\"\\u001b[2Jx\\n\"]';
         UPDATE meta SET value = json_set(value, '$.version', char(27) || 'c', '$.options', json_array(char(10)));
         UPDATE metric SET unit = char(155) || '31m'",
    );
    let store = Store::read(dir.path()).unwrap();
    let samples = store.samples("create").unwrap();
    assert_eq!(samples[0].sample.reason.as_deref(), Some("a]0; ::error::b"));
    assert_eq!(samples[0].sample.tags, ["[2Jx "]);
    let run = store.run().unwrap();
    assert_eq!((run.version.as_str(), run.options), ("c", vec![" ".to_owned()]));
    assert!(!format!("{samples:?} {:?}", store.machine()).contains(steers));
}

/// The folder as a run leaves it that is killed: nobody holds it.
fn killed(to: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    store.add(&sample(1)).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn content(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let mut content: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .collect();
    content.sort();
    content
}

#[test]
fn the_store_of_a_run_that_has_not_ended_is_read_without_a_write() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path());
    let before = content(dir.path());
    assert_eq!(before.len(), 2, "a store and its log");
    let samples = || Store::read(dir.path()).unwrap().samples("create").unwrap().len();
    assert_eq!(samples(), 1);
    // As it is on a disk that is read-only, or another's; root may write there all the same.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(samples(), 1);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(content(dir.path()), before);
}

#[test]
fn a_store_copied_without_its_log_says_what_lacks() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path());
    fs::remove_file(dir.path().join(format!("{STORE_FILE}-wal"))).unwrap();
    for refused in [Store::read(dir.path()), Store::resume(dir.path())] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StoreError::LogMissing(_)), "{refused:?}");
        assert!(refused.to_string().contains("results.sqlite-wal"), "{refused}");
    }
}

#[test]
fn a_finished_run_is_one_file_and_so_is_one_that_failed() {
    for closes in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = create(dir.path());
        store.add(&sample(1)).unwrap();
        match closes {
            true => store.close().unwrap(),
            false => drop(store),
        }
        let names: Vec<_> = content(dir.path()).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [STORE_FILE], "closed: {closes}");
        let copy = tempfile::tempdir().unwrap();
        fs::copy(dir.path().join(STORE_FILE), copy.path().join(STORE_FILE)).unwrap();
        assert_eq!(
            Store::read(copy.path()).unwrap().samples("create").unwrap().len(),
            1
        );
    }
}

/// To open a pipe would wait for its writer, and what a link of that name leads to may have no end.
#[test]
fn a_log_that_is_no_file_is_refused() {
    for log in ["-wal", "-journal"] {
        for is_pipe in [true, false] {
            let (dir, _) = changed("");
            let beside = dir.path().join(format!("{STORE_FILE}{log}"));
            match is_pipe {
                true => rustix::fs::mkfifoat(rustix::fs::CWD, &beside, rustix::fs::Mode::RUSR).unwrap(),
                false => symlink("/dev/zero", &beside).unwrap(),
            }
            let of = dir.path().to_owned();
            let refused = in_time(move || Store::read(&of).map(drop));
            assert!(matches!(refused, Err(StoreError::Foreign { .. })), "{refused:?}");
        }
    }
}

/// Another's folder could have any file of the reader overwritten, who goes on in it.
#[test]
fn a_run_goes_on_in_no_file_that_has_another_name() {
    for file in [
        STORE_FILE.to_owned(),
        format!("{STORE_FILE}-wal"),
        format!("{STORE_FILE}-journal"),
    ] {
        for is_link in [true, false] {
            let ((dir, _), elsewhere) = (changed(""), tempfile::tempdir().unwrap());
            let (path, own) = (dir.path().join(&file), elsewhere.path().join("own"));
            match file == STORE_FILE {
                true => fs::rename(&path, &own).unwrap(),
                false => fs::write(&own, "mine").unwrap(),
            }
            match is_link {
                true => symlink(&own, &path).unwrap(),
                false => fs::hard_link(&own, &path).unwrap(),
            }
            let before = fs::read(&own).unwrap();
            let refused = Store::resume(dir.path()).map(drop);
            assert!(
                matches!(refused, Err(StoreError::SecondName(_))),
                "{file}: {refused:?}"
            );
            assert_eq!(fs::read(&own).unwrap(), before, "{file}");
        }
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "the other process says so to this one")]
fn the_store_that_another_process_writes_is_in_use() {
    // In the other process, which is this program again.
    const HOLDS: &str = "THREADGAUGE_TEST_HOLDS";
    if let Some(dir) = std::env::var_os(HOLDS) {
        let _held = Store::resume(Path::new(&dir)).unwrap();
        println!("held");
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a name? with % and #");
    fs::create_dir(&path).unwrap();
    killed(&path);
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "guarded::the_store_that_another_process_writes_is_in_use",
            "--nocapture",
        ])
        .env(HOLDS, &path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = std::io::BufReader::new(other.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(said);
    assert!(lines.any(|line| line.unwrap().ends_with("held")));
    let refused = Store::read(&path).map(drop);
    drop(other.stdin.take());
    lines.for_each(drop);
    other.wait().unwrap();
    assert!(matches!(refused, Err(StoreError::InUse(_))), "{refused:?}");
    assert_eq!(Store::read(&path).unwrap().samples("create").unwrap().len(), 1);
}

#[test]
fn a_folder_that_is_renamed_meanwhile_is_said_to_be() {
    let parent = tempfile::tempdir().unwrap();
    let (before, after) = (parent.path().join("before"), parent.path().join("after"));
    let mut store = create(&before);
    store.add(&sample(1)).unwrap();
    fs::rename(&before, &after).unwrap();
    store.add(&sample(2)).unwrap();
    let refused = store.close().unwrap_err();
    assert!(matches!(refused, StoreError::Moved(_)), "{refused:?}");
    assert!(refused.to_string().contains("moved"), "{refused}");
    assert!(!before.exists());
    assert_eq!(Store::read(&after).unwrap().samples("create").unwrap().len(), 2);
    let resumed = Store::resume(&after).unwrap();
    assert_eq!(resumed.samples("create").unwrap().len(), 2);
}

#[test]
fn a_store_that_may_not_be_read_is_not_said_to_be_unwritable() {
    let (dir, _) = changed("");
    let path = dir.path().join(STORE_FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let refused = without_privileges(|| Store::read(dir.path()).err());
    assert!(
        matches!(refused, Some(StoreError::Unreadable { .. })),
        "{refused:?}"
    );
}

/// What it comes to without the rights of the superuser, which a thread can lay down for itself alone.
fn without_privileges<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let acts = scope.spawn(|| {
            let none = CapabilitySet::empty();
            let none = CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            };
            set_capabilities(None, none).unwrap();
            act()
        });
        acts.join().unwrap()
    })
}
