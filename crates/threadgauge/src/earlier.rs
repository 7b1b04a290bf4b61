//! What earlier runs on this machine took: those in the folders beside a run's own, and where runs go by default.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use threadgauge_results::{RunRecord, STORE_FILE, Store, Times};

use crate::baselines::DEFAULT_OUT;

/// So many of the latest are read; older ones tell less of the machine as it is now.
const READ: usize = 8;

/// What runs like `run` took, which goes to `dir` and looks first after so many rounds. Runs that cannot be read, of
/// other users, or that may still go on, tell nothing.
pub fn times(dir: &Path, run: &RunRecord, machine: &serde_json::Value, first: u32) -> Times {
    let beside = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folders = BTreeSet::from([beside.unwrap_or(Path::new(".")), Path::new(DEFAULT_OUT)]);
    let mut stores: Vec<(SystemTime, PathBuf)> = folders.into_iter().flat_map(stores_in).collect();
    stores.sort();
    let mut times = Times::default();
    for (_, dir) in stores.into_iter().rev().filter(|(_, of)| of != dir).take(READ) {
        // One that is damaged is no reason not to measure.
        if let Ok(store) = Store::read(&dir) {
            let _ = times.learn(&store, machine, run, first);
        }
    }
    times
}

/// The newest results folders of this user that ended, the newest first: those where runs go, and in the current
/// folder.
pub fn newest() -> Vec<PathBuf> {
    let folders = [Path::new("."), Path::new(DEFAULT_OUT)];
    let mut stores: Vec<(SystemTime, PathBuf)> = folders.into_iter().flat_map(stores_in).collect();
    stores.sort();
    stores.into_iter().rev().take(READ).map(|(_, dir)| dir).collect()
}

/// The results folders of this user in a folder, and when each was written last.
fn stores_in(folder: &Path) -> Vec<(SystemTime, PathBuf)> {
    let own = rustix::process::getuid().as_raw();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let written = entries.filter_map(|entry| {
        let dir = entry.path();
        let store = fs::symlink_metadata(dir.join(STORE_FILE)).ok()?;
        let is_done = store.is_file() && !dir.join(format!("{STORE_FILE}-wal")).exists();
        (is_done && store.uid() == own).then_some(())?;
        Some((store.modified().ok()?, dir))
    });
    written.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use threadgauge_results::{Params, Sample, Status, StoredCase, StoredExperiment, StoredSample};

    use super::*;

    fn record() -> RunRecord {
        RunRecord {
            id: "abc123".to_owned(),
            started: "2026-01-01T00:00:00Z".to_owned(),
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
        }
    }

    /// A run whose only try took so long, in a folder of this name.
    fn run(above: &Path, name: &str, record: &RunRecord, cpus: u32, wall_s: u64) {
        let case = StoredCase {
            id: "null/a=1".to_owned(),
            params: Params::new().with("a", 1),
            estimate_ms: 10,
            skip: None,
        };
        let plan = StoredExperiment {
            id: "null".to_owned(),
            reference: None,
            stopped_because: Some("rounds".to_owned()),
            cases: vec![case],
        };
        let mut store = Store::create(&above.join(name), record, &json!({"cpus": cpus}), &[plan]).unwrap();
        let tried = StoredSample {
            experiment: "null".to_owned(),
            case: "null/a=1".to_owned(),
            round: 1,
            copy: 0,
            nth_try: 0,
            attempt: 0,
            gated: false,
            started: "2026-01-01T00:00:01Z".to_owned(),
            wall_ns: wall_s * 1_000_000_000,
            sample: Sample::without_figures(Status::Ok, ""),
        };
        store.add(&tried).unwrap();
        store.close().unwrap();
    }

    #[test]
    fn what_runs_beside_it_took_is_known_where_they_are_alike_and_can_be_read() {
        let above = tempfile::tempdir().unwrap();
        let above = above.path();
        let took =
            |of: &RunRecord| times(&above.join("new"), of, &json!({"cpus": 2}), 7).of_try("null/a=1", 0.01);
        assert_eq!(took(&record()), 0.01);
        run(above, "first", &record(), 2, 4);
        run(above, "second", &record(), 2, 6);
        let standard = RunRecord {
            profile: "standard".to_owned(),
            ..record()
        };
        run(above, "another profile", &standard, 2, 100);
        run(above, "another machine", &record(), 4, 100);
        run(above, "may go on", &record(), 2, 100);
        fs::write(above.join("may go on").join(format!("{STORE_FILE}-wal")), "").unwrap();
        fs::create_dir(above.join("damaged")).unwrap();
        fs::write(above.join("damaged").join(STORE_FILE), "no store").unwrap();
        fs::create_dir(above.join("elsewhere")).unwrap();
        let link = above.join("elsewhere").join(STORE_FILE);
        std::os::unix::fs::symlink(above.join("another machine").join(STORE_FILE), link).unwrap();
        let mean = took(&record());
        assert!((mean - 5.0).abs() < 0.01, "{mean}");
        assert!(took(&standard) > 99.0);
    }
}
