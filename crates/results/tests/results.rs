//! The store against everything that can happen to a file, and two runs against each other.

#[path = "results/guarded.rs"]
mod guarded;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use threadgauge_results::{
    Look, Metric, Params, RunRecord, STORE_FILE, Sample, Status, Store, StoreError, StoredCase,
    StoredExperiment, StoredSample, Take, by_round, paired,
};
use threadgauge_stats::paired_ratio;

fn record() -> RunRecord {
    RunRecord {
        id: "abc123".to_owned(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        profile: "quick".to_owned(),
        seed: 1,
        version: "0.1.0".to_owned(),
        rounds: Some(7),
        cpus: vec![0, 1],
        handicap_percent: 0,
        options: Vec::new(),
        in_turns_with: None,
        each: None,
        runtimes: Vec::new(),
    }
}

fn plan() -> Vec<StoredExperiment> {
    let case = |count: u64| StoredCase {
        id: format!("create/count={count}"),
        params: Params::new().with("count", count),
        estimate_ms: 10,
        skip: None,
    };
    vec![StoredExperiment {
        id: "create".to_owned(),
        reference: Some("create/count=1".to_owned()),
        stopped_because: None,
        cases: vec![case(1), case(2)],
    }]
}

fn sample(case: &str, round: u32, value: f64) -> StoredSample {
    StoredSample {
        experiment: "create".to_owned(),
        case: case.to_owned(),
        round,
        copy: 0,
        nth_try: 0,
        attempt: 0,
        gated: false,
        started: "2026-01-01T00:00:01Z".to_owned(),
        wall_ns: 5,
        sample: Sample {
            status: Status::Ok,
            reason: None,
            tags: vec!["cold".to_owned()],
            metrics: vec![Metric {
                name: "ns_per_unit".to_owned(),
                unit: "ns".to_owned(),
                value,
            }],
            noise: BTreeMap::from([("steal_share".to_owned(), 0.0)]),
        },
    }
}

fn create(dir: &Path) -> Store {
    Store::create(dir, &record(), &serde_json::json!({"cpus": 2}), &plan()).unwrap()
}

#[test]
fn what_was_stored_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    let failed = StoredSample {
        sample: Sample::without_figures(Status::Failed, "the limit nproc is 500"),
        ..sample("create/count=2", 1, 0.0)
    };
    let samples = [
        sample("create/count=1", 1, 1.5),
        failed,
        sample("create/count=1", 2, 2.5),
    ];
    for sample in &samples {
        store.add(sample).unwrap();
    }
    store.set_stopped("create", Some("rounds")).unwrap();
    store.close().unwrap();

    let store = Store::read(dir.path()).unwrap();
    assert_eq!(store.run().unwrap(), record());
    assert_eq!(store.machine().unwrap()["cpus"], 2);
    assert_eq!(store.samples("create").unwrap(), samples);
    let experiments = store.experiments().unwrap();
    assert_eq!(experiments[0].stopped_because.as_deref(), Some("rounds"));
    assert_eq!(experiments[0].cases, plan()[0].cases);
}

#[test]
fn every_try_is_stored_beside_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    let tries = [(0, 0, 2.5), (1, 0, 9.0), (1, 1, 1.5)].map(|(nth_try, attempt, value)| StoredSample {
        nth_try,
        attempt,
        ..sample("create/count=1", 1, value)
    });
    for tried in &tries {
        store.add(tried).unwrap();
    }
    assert_eq!(store.samples("create").unwrap(), tries);
}

#[test]
fn looks_are_kept_in_order_and_none_is_taken_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    let looks = [(7, 14), (10, 18)].map(|(rounds, tries)| Look { rounds, tries });
    for look in looks {
        store.add_look("create", look).unwrap();
    }
    assert!(store.add_look("create", Look { rounds: 7, tries: 99 }).is_err());
    assert_eq!(store.looks("create").unwrap(), looks);
    assert_eq!(store.looks("print").unwrap(), []);
}

#[test]
fn a_store_of_schema_1_opens_as_one_try_a_sample_and_is_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path()).close().unwrap();
    let old = rusqlite::Connection::open(dir.path().join(STORE_FILE)).unwrap();
    old.execute_batch(
        "DROP TABLE sample; DROP TABLE look;
         CREATE TABLE sample(
           id INTEGER PRIMARY KEY, case_id TEXT NOT NULL REFERENCES planned_case(id), round INTEGER NOT NULL,
           copy INTEGER NOT NULL, attempt INTEGER NOT NULL, gated INTEGER NOT NULL, status TEXT NOT NULL,
           reason TEXT, tags TEXT NOT NULL, noise TEXT NOT NULL, started TEXT NOT NULL, wall_ns INTEGER NOT NULL,
           UNIQUE(case_id, round, copy, attempt)) STRICT;
         INSERT INTO sample VALUES(1, 'create/count=1', 1, 0, 0, 0, 'ok', NULL, '[\"cold\"]',
           '{\"steal_share\": 0.0}', '2026-01-01T00:00:01Z', 5);
         INSERT INTO metric VALUES(1, 0, 'ns_per_unit', 'ns', 1.5);
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(old);
    let store = Store::read(dir.path()).unwrap();
    assert_eq!(
        store.samples("create").unwrap(),
        [sample("create/count=1", 1, 1.5)]
    );
    assert_eq!(store.looks("create").unwrap(), []);
    drop(store);
    let refused = Store::resume(dir.path()).unwrap_err();
    assert!(
        matches!(refused, StoreError::Older { found: 1, .. }),
        "{refused:?}"
    );
}

/// Values of one round of a case, in the order measured: try, attempt, gated, value.
fn of_one_round(unit: &str, tries: &[(u32, u32, bool, f64)], take: Take) -> Option<f64> {
    let tries = tries.iter().map(|&(nth_try, attempt, gated, value)| {
        let mut tried = sample("create/count=1", 1, value);
        tried.sample.metrics[0].unit = unit.to_owned();
        StoredSample {
            nth_try,
            attempt,
            gated,
            ..tried
        }
    });
    let tries: Vec<StoredSample> = tries.collect();
    by_round(&tries, "create/count=1", 0, "ns_per_unit", take).remove(&1)
}

#[test]
fn several_tries_of_a_time_are_their_geometric_mean_and_of_anything_else_the_arithmetic() {
    let tries = [(0, 0, false, 2.0), (1, 0, false, 8.0)];
    assert_eq!(of_one_round("ns", &tries, Take::Undisturbed), Some(4.0));
    assert_eq!(of_one_round("ratio", &tries, Take::Undisturbed), Some(5.0));
}

#[test]
fn the_undisturbed_tries_count_and_where_there_are_none_all_do() {
    let repeated = [(0, 0, true, 9.0), (1, 0, false, 8.0), (0, 1, false, 2.0)];
    let one_left = [(0, 0, true, 9.0), (1, 0, false, 8.0), (0, 1, true, 7.0)];
    let none_left = [(0, 0, true, 9.0), (1, 0, true, 8.0), (0, 1, true, 2.0)];
    for (tries, undisturbed, all) in [
        (&repeated, Some(4.0), 4.0),
        (&one_left, Some(8.0), 8.0),
        (&none_left, None, 4.0),
    ] {
        assert_eq!(of_one_round("ns", tries, Take::Undisturbed), undisturbed);
        assert_eq!(of_one_round("ns", tries, Take::All), Some(all));
    }
}

/// Runs of seven rounds of two cells with equal truth, which differ in the number of tries and in noise: the geometric
/// mean of their ratios, and the share in which the whole 95 % interval lies beyond 1 ± 3 %.
fn runs_of_equals(
    tries: [u32; 2],
    noise: [f64; 2],
    choose: impl Fn(&[StoredSample], &str) -> BTreeMap<u32, f64>,
) -> (f64, f64) {
    const RUNS: u32 = 2_000;
    const CELLS: [&str; 2] = ["create/count=1", "create/count=2"];
    let mut rng = fastrand::Rng::with_seed(14);
    let mut normal = || (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
    let (mut logs, mut alarms) = (0.0, 0);
    for _ in 0..RUNS {
        let [a, b] = [0, 1].map(|cell| {
            let all = (1..=7).flat_map(|round| (0..tries[cell]).map(move |nth_try| (round, nth_try)));
            let tried = all.map(|(round, nth_try)| StoredSample {
                nth_try,
                ..sample(CELLS[cell], round, 100.0 * (noise[cell] * normal()).exp())
            });
            choose(&tried.collect::<Vec<_>>(), CELLS[cell])
        });
        let (a, b) = paired(&a, &b);
        let ratio = paired_ratio(&a, &b, 0.05).unwrap();
        let ci = ratio.ci.unwrap();
        logs += ratio.estimate.ln();
        alarms += u32::from(ci.low > 1.03 || ci.high < 0.97);
    }
    (
        (logs / f64::from(RUNS)).exp(),
        f64::from(alarms) / f64::from(RUNS),
    )
}

/// As it was once: the least of the tries.
fn least(tries: &[StoredSample], _: &str) -> BTreeMap<u32, f64> {
    let mut rounds = BTreeMap::new();
    for tried in tries {
        let value = tried.sample.value("ns_per_unit").unwrap();
        let least: &mut f64 = rounds.entry(tried.round).or_insert(value);
        *least = least.min(value);
    }
    rounds
}

fn mean_of_logs(tries: &[StoredSample], case: &str) -> BTreeMap<u32, f64> {
    by_round(tries, case, 0, "ns_per_unit", Take::Undisturbed)
}

#[test]
fn neither_unequal_noise_nor_unequal_tries_make_a_difference_where_there_is_none() {
    for (tries, noise) in [
        ([2, 2], [0.02, 0.10]),
        ([1, 1], [0.02, 0.10]),
        ([12, 1], [0.05, 0.05]),
    ] {
        let (ratio, alarms) = runs_of_equals(tries, noise, mean_of_logs);
        let says = format!("{tries:?} tries, noise {noise:?}: ratio {ratio:.3}, {alarms:.3} of alarms");
        assert!((ratio - 1.0).abs() < 0.005 && alarms < 0.01, "{says}");
    }
}

#[test]
fn the_least_of_several_tries_would_make_one() {
    let (ratio, alarms) = runs_of_equals([12, 1], [0.05, 0.05], least);
    assert!(
        (1.075..1.085).contains(&ratio) && (0.465..0.475).contains(&alarms),
        "ratio {ratio:.3}, {alarms:.3} of alarms"
    );
    let (ratio, alarms) = runs_of_equals([2, 2], [0.02, 0.10], least);
    assert!(
        (0.955..0.965).contains(&ratio) && (0.055..0.065).contains(&alarms),
        "also where both have as many: {ratio:.3}, {alarms:.3} of alarms"
    );
}

#[test]
fn a_closed_store_is_one_file() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path()).close().unwrap();
    let files: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(files, [STORE_FILE]);
}

#[test]
fn a_store_that_was_never_closed_keeps_every_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    store.add(&sample("create/count=1", 1, 1.5)).unwrap();
    // As after `kill -9`: the files as they are now, with nobody holding them.
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    assert_eq!(
        Store::read(copy.path()).unwrap().samples("create").unwrap().len(),
        1
    );
    let mut again = Store::resume(copy.path()).unwrap();
    again.add(&sample("create/count=1", 2, 1.5)).unwrap();
    assert_eq!(again.samples("create").unwrap().len(), 2);
}

#[test]
fn a_second_run_on_the_same_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = create(dir.path());
    assert!(matches!(
        Store::create(dir.path(), &record(), &serde_json::Value::Null, &plan()),
        Err(StoreError::AlreadyThere(_))
    ));
    assert!(matches!(Store::resume(dir.path()), Err(StoreError::InUse(_))));
    assert!(matches!(Store::read(dir.path()), Err(StoreError::InUse(_))));
    first.add(&sample("create/count=1", 1, 1.0)).unwrap();
    drop(first);
    assert_eq!(
        Store::resume(dir.path())
            .unwrap()
            .samples("create")
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn the_same_sample_is_not_stored_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    store.add(&sample("create/count=1", 1, 1.0)).unwrap();
    assert!(store.add(&sample("create/count=1", 1, 2.0)).is_err());
    assert_eq!(
        store.samples("create").unwrap()[0].sample.value("ns_per_unit"),
        Some(1.0)
    );
}

#[test]
fn files_that_are_not_ours_are_left_alone() {
    let cases: [(&str, Vec<u8>); 3] = [
        (
            "rubbish",
            b"this is not a database, and longer than a header of SQLite is, so that it is read".repeat(20),
        ),
        ("empty", Vec::new()),
        ("another program's", {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x");
            let other = rusqlite::Connection::open(&path).unwrap();
            other
                .execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)")
                .unwrap();
            drop(other);
            fs::read(path).unwrap()
        }),
    ];
    for (name, bytes) in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(STORE_FILE);
        fs::write(&path, &bytes).unwrap();
        for result in [Store::read(dir.path()), Store::resume(dir.path())] {
            assert!(
                matches!(result, Err(StoreError::Foreign { .. })),
                "{name}: {result:?}"
            );
        }
        assert!(matches!(
            Store::create(dir.path(), &record(), &serde_json::Value::Null, &plan()),
            Err(StoreError::AlreadyThere(_))
        ));
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name} was changed");
    }
}

#[test]
fn a_truncated_store_is_called_damaged_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    for round in 1..400 {
        store.add(&sample("create/count=1", round, 1.0)).unwrap();
    }
    store.close().unwrap();
    let path = dir.path().join(STORE_FILE);
    let bytes = fs::read(&path).unwrap();
    let half = &bytes[..bytes.len() / 2];
    fs::write(&path, half).unwrap();
    for result in [Store::read(dir.path()), Store::resume(dir.path())] {
        assert!(matches!(result, Err(StoreError::Damaged { .. })), "{result:?}");
    }
    assert_eq!(fs::read(&path).unwrap(), half);
}

#[test]
fn a_newer_schema_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path()).close().unwrap();
    let path = dir.path().join(STORE_FILE);
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 9).unwrap();
    drop(newer);
    let refused = Store::read(dir.path()).unwrap_err();
    assert!(
        matches!(refused, StoreError::Newer { found: 9, .. }),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("schema 9"));
}

#[test]
fn a_folder_without_results_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Store::read(dir.path()).unwrap_err();
    assert!(matches!(refused, StoreError::NotThere(_)));
    assert!(refused.to_string().contains("no results in"));
}

#[test]
fn a_place_that_cannot_be_written_says_so() {
    let refused = Store::create(
        Path::new("/proc/nowhere"),
        &record(),
        &serde_json::Value::Null,
        &plan(),
    );
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
}

#[test]
fn a_full_disk_is_said_and_what_was_stored_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    store.add(&sample("create/count=1", 1, 1.0)).unwrap();
    drop(store);
    // SQLite's own bound on the file's pages fails just as the file system's does.
    let path = dir.path().join(STORE_FILE);
    let mut store = Store::resume(dir.path()).unwrap();
    store.limit_pages(1);
    let refused = (2..2000).find_map(|round| store.add(&sample("create/count=1", round, 1.0)).err());
    assert!(matches!(refused, Some(StoreError::Full(_))), "{refused:?}");
    assert!(refused.unwrap().to_string().contains("--resume"));
    let kept = store.samples("create").unwrap();
    assert!(!kept.is_empty());
    drop(store);
    assert_eq!(
        Store::resume(dir.path()).unwrap().samples("create").unwrap(),
        kept
    );
    assert!(path.exists());
}
