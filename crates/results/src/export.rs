//! A run in one small file, to commit or to keep as an artifact: what a comparison and a history need of it.
//!
//! Gzip over JSON, so that `zcat` and any program read it. It has the run, the machine, the whole plan, and every try
//! with its primary metrics and with what disturbed it; it has no other metrics, so that claims and reports need the
//! folder. It is read back as a store in memory: whoever reads it meets what a folder has.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Lack, Look, Metric, Params, RunRecord, STOPPED_S, Sample, Status, Store, StoreError, StoredCase,
    StoredExperiment, StoredSample, THROTTLED_S,
};

/// How the name of such a file ends.
pub const EXPORT_ENDING: &str = ".run.json.gz";

/// The version of the form.
const SCHEMA: u32 = 1;
/// What every gzip file begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// No run has more, unpacked: a paper run has some ten megabytes.
const MOST_BYTES: u64 = 256 << 20;
/// What disturbed a try, in the order of its row.
const NOISE: [&str; 4] = ["steal_share", "foreign_cpus", THROTTLED_S, STOPPED_S];
/// Noise is kept to so many parts of one: it is set against limits of a hundredth.
const NOISE_PARTS: f64 = 1e6;

/// Why an exported run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file itself.
    #[error("{} cannot be read: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// It is something else, or broken.
    #[error("{} is not what `threadgauge export` writes ({why})", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It was written by a later version.
    #[error("{} has form {found} and this version reads {SCHEMA}; use the threadgauge that wrote it, or a later one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its form.
        found: u32,
    },
    /// Its tries do not fit its plan.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The document.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    threadgauge_export: u32,
    run: RunRecord,
    machine: Value,
    experiments: Vec<Part>,
}

/// The form alone, by which a later version is told from a broken file.
#[derive(Deserialize)]
struct Form {
    threadgauge_export: u32,
}

/// An experiment.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    id: String,
    reference: Option<String>,
    stopped_because: Option<String>,
    /// Parameters, expected time in ms, and what it lacks.
    cases: Vec<(Params, u32, Option<Lack>)>,
    /// Rounds and tries.
    looks: Vec<(u32, u32)>,
    /// Name and unit of each primary metric.
    metrics: Vec<(String, String)>,
    tries: Vec<Row>,
}

/// A try: the place of its case, round, copy, try, attempt, whether it was disturbed, its time in µs, a value for each
/// metric and for each of [`NOISE`], and what few have.
type Row = (
    usize,
    u32,
    u32,
    u32,
    u32,
    u8,
    u64,
    Vec<Option<f64>>,
    [Option<f64>; 4],
    Rest,
);

/// What few tries have.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Rest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

/// Writes a run as one file's bytes; `primary` names the metrics of an experiment that are kept.
///
/// # Errors
///
/// When the store is damaged.
///
/// # Panics
///
/// Never: what a store holds can be written as JSON, and memory takes any bytes.
pub fn export(store: &Store, primary: impl Fn(&str) -> Vec<String>) -> Result<Vec<u8>, StoreError> {
    let part = |experiment: StoredExperiment| -> Result<Part, StoreError> {
        let samples = store.samples(&experiment.id)?;
        let looks = store.looks(&experiment.id)?;
        Ok(part(experiment, &looks, &samples, &primary))
    };
    let document = Document {
        threadgauge_export: SCHEMA,
        run: store.run()?,
        machine: store.machine()?,
        experiments: store
            .experiments()?
            .into_iter()
            .map(part)
            .collect::<Result<_, _>>()?,
    };
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let written = serde_json::to_vec(&document).expect("our own types have string keys and finite numbers");
    packed
        .write_all(&written)
        .and_then(|()| packed.finish())
        .map(Ok)
        .expect("memory takes any bytes")
}

fn part(
    experiment: StoredExperiment,
    looks: &[Look],
    samples: &[StoredSample],
    primary: impl Fn(&str) -> Vec<String>,
) -> Part {
    let unit = |name: &String| {
        let mut of = samples.iter().flat_map(|s| &s.sample.metrics);
        of.find(|m| m.name == *name).map(|m| m.unit.clone())
    };
    let kept = primary(&experiment.id);
    let metrics: Vec<(String, String)> = kept
        .into_iter()
        .filter_map(|name| unit(&name).map(|unit| (name, unit)))
        .collect();
    let row = |stored: &StoredSample| -> Option<Row> {
        let sample = &stored.sample;
        let values = metrics.iter().map(|(name, _)| sample.value(name));
        let noise = NOISE.map(|name| Some((sample.noise.get(name)? * NOISE_PARTS).round() / NOISE_PARTS));
        Some((
            experiment.cases.iter().position(|case| case.id == stored.case)?,
            stored.round,
            stored.copy,
            stored.nth_try,
            stored.attempt,
            u8::from(stored.gated),
            stored.wall_ns / 1_000,
            values.collect(),
            noise,
            Rest {
                status: (sample.status != Status::Ok).then_some(sample.status),
                reason: sample.reason.clone(),
                tags: sample.tags.clone(),
            },
        ))
    };
    Part {
        tries: samples.iter().filter_map(row).collect(),
        metrics,
        looks: looks.iter().map(|look| (look.rounds, look.tries)).collect(),
        cases: experiment
            .cases
            .into_iter()
            .map(|case| (case.params, case.estimate_ms, case.skip))
            .collect(),
        id: experiment.id,
        reference: experiment.reference,
        stopped_because: experiment.stopped_because,
    }
}

/// Whether a path is a file that may be an exported run: one that begins as gzip does.
#[must_use]
pub fn is_export(path: &Path) -> bool {
    let begins = || -> io::Result<[u8; 2]> {
        let mut two = [0; 2];
        File::open(path)?.read_exact(&mut two)?;
        Ok(two)
    };
    path.is_file() && begins().is_ok_and(|two| two == GZIP)
}

/// Reads an exported run back, as a store in memory.
///
/// # Errors
///
/// When it cannot be read, is something else, broken or newer.
pub fn import(path: &Path) -> Result<Store, ExportError> {
    let unreadable = |why| ExportError::Unreadable {
        path: path.to_owned(),
        why,
    };
    let file = File::open(path).map_err(unreadable)?;
    import_from(file, path)
}

/// The same of bytes, which are called `path` in an error.
///
/// # Errors
///
/// As [`import`].
pub fn import_from(packed: impl Read, path: &Path) -> Result<Store, ExportError> {
    let foreign = |why: String| ExportError::Foreign {
        path: path.to_owned(),
        why,
    };
    let mut text = Vec::new();
    let read = GzDecoder::new(packed).take(MOST_BYTES).read_to_end(&mut text);
    read.map_err(|e| foreign(e.to_string()))?;
    if text.len() as u64 == MOST_BYTES {
        return Err(foreign("it is larger than any run".to_owned()));
    }
    let form: Form = serde_json::from_slice(&text).map_err(|e| foreign(e.to_string()))?;
    if form.threadgauge_export != SCHEMA {
        return Err(ExportError::Newer {
            path: path.to_owned(),
            found: form.threadgauge_export,
        });
    }
    let document: Document = serde_json::from_slice(&text).map_err(|e| foreign(e.to_string()))?;
    let mut plan = Vec::new();
    let (mut looks, mut samples) = (Vec::new(), Vec::new());
    for part in document.experiments {
        let own = part.looks.iter().map(|&(rounds, tries)| Look { rounds, tries });
        looks.push((part.id.clone(), own.collect()));
        let case = |(params, estimate_ms, skip): &(Params, u32, Option<Lack>)| StoredCase {
            id: params.case_id(&part.id),
            params: params.clone(),
            estimate_ms: *estimate_ms,
            skip: skip.clone(),
        };
        let experiment = StoredExperiment {
            id: part.id.clone(),
            reference: part.reference.clone(),
            stopped_because: part.stopped_because.clone(),
            cases: part.cases.iter().map(case).collect(),
        };
        for row in &part.tries {
            let tried = sample(row, &part, &experiment, &document.run.started);
            samples.push(tried.ok_or_else(|| foreign(format!("a try of {} is of no case", part.id)))?);
        }
        plan.push(experiment);
    }
    let store = Store::in_memory(path, &document.run, &document.machine, &plan)?;
    store.fill_with(&samples, &looks)?;
    Ok(store)
}

/// A row as it is stored; none where its case is none.
fn sample(row: &Row, part: &Part, experiment: &StoredExperiment, started: &str) -> Option<StoredSample> {
    let (case, round, copy, nth_try, attempt, gated, wall_us, values, noise, rest) = row;
    let metric = |((name, unit), value): (&(String, String), &Option<f64>)| {
        value.map(|value| Metric {
            name: name.clone(),
            unit: unit.clone(),
            value,
        })
    };
    let noise = NOISE.into_iter().zip(noise);
    Some(StoredSample {
        experiment: experiment.id.clone(),
        case: experiment.cases.get(*case)?.id.clone(),
        round: *round,
        copy: *copy,
        nth_try: *nth_try,
        attempt: *attempt,
        gated: *gated != 0,
        started: started.to_owned(),
        wall_ns: wall_us.saturating_mul(1_000),
        sample: Sample {
            status: rest.status.unwrap_or(Status::Ok),
            reason: rest.reason.clone(),
            tags: rest.tags.clone(),
            metrics: part.metrics.iter().zip(values).filter_map(metric).collect(),
            noise: noise
                .filter_map(|(name, value)| Some((name.to_owned(), (*value)?)))
                .collect(),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::tests::run;
    use crate::{Need, Take, by_round};

    fn packed(document: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(document).unwrap();
        packed.finish().unwrap()
    }

    fn unpacked(packed: &[u8]) -> String {
        let mut text = String::new();
        GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        text
    }

    fn read(packed: &[u8]) -> Result<Store, ExportError> {
        import_from(packed, Path::new("kept"))
    }

    /// Seven rounds of two cases, of which one is skipped; one try was disturbed and one failed.
    fn store(dir: &Path) -> Store {
        let case = |unit: &str, skip| StoredCase {
            id: format!("create/unit={unit}"),
            params: Params::new().with("unit", unit),
            estimate_ms: 12,
            skip,
        };
        let plan = StoredExperiment {
            id: "create".to_owned(),
            reference: Some("create/unit=thread".to_owned()),
            stopped_because: Some("rounds".to_owned()),
            cases: vec![
                case("thread", None),
                case("fibre", Some(Lack::new(Need::Program, "there is none"))),
            ],
        };
        let machine = serde_json::json!({"cpu_model": "A CPU"});
        let mut store = Store::create(dir, &run(), &machine, &[plan]).unwrap();
        for (round, copy) in (1..=7).flat_map(|round| [(round, 0), (round, 1)]) {
            let metric = |name: &str, value| Metric {
                name: name.to_owned(),
                unit: "ns".to_owned(),
                value,
            };
            let mut sample = Sample {
                status: Status::Ok,
                reason: None,
                tags: vec!["cold".to_owned()],
                metrics: vec![metric("ns", 1e3 / 3.0 + f64::from(round)), metric("other", 1.0)],
                noise: BTreeMap::from([
                    ("foreign_cpus".to_owned(), 0.123_456_789),
                    ("overlap".to_owned(), 1.0),
                ]),
            };
            if (round, copy) == (7, 1) {
                sample = Sample::without_figures(Status::Failed, "it fell over");
            }
            let stored = StoredSample {
                experiment: "create".to_owned(),
                case: "create/unit=thread".to_owned(),
                round,
                copy,
                nth_try: 0,
                attempt: 0,
                gated: (round, copy) == (3, 0),
                started: "2026-01-01T00:00:01Z".to_owned(),
                wall_ns: 1_234_567,
                sample,
            };
            store.add(&stored).unwrap();
        }
        store.add_look("create", Look { rounds: 7, tries: 14 }).unwrap();
        store
    }

    fn exported() -> (Store, Vec<u8>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir.path().join("r"));
        let packed = export(&store, |_| vec!["ns".to_owned(), "absent".to_owned()]).unwrap();
        (store, packed, dir)
    }

    #[test]
    fn what_is_read_back_is_the_run_with_its_primary_metrics_alone() {
        let (store, packed, _dir) = exported();
        let again = read(&packed).unwrap();
        assert_eq!(again.run().unwrap(), store.run().unwrap());
        assert_eq!(again.machine().unwrap(), store.machine().unwrap());
        assert_eq!(again.experiments().unwrap(), store.experiments().unwrap());
        assert_eq!(again.looks("create").unwrap(), store.looks("create").unwrap());
        let of = |store: &Store| store.samples("create").unwrap();
        let (before, after) = (of(&store), of(&again));
        assert_eq!(before.len(), after.len());
        for copy in [0, 1] {
            for take in [Take::All, Take::Undisturbed] {
                let values = |all| by_round(all, "create/unit=thread", copy, "ns", take);
                assert_eq!(values(&before), values(&after));
            }
        }
        let mut expected = before[0].clone();
        expected.started = "2026-01-01T00:00:00Z".to_owned();
        expected.wall_ns = 1_234_000;
        expected.sample.metrics.truncate(1);
        expected.sample.noise = BTreeMap::from([("foreign_cpus".to_owned(), 0.123_457)]);
        assert_eq!(after[0], expected);
        let failed = &after.last().unwrap().sample;
        assert_eq!(
            (failed.status, failed.reason.as_deref()),
            (Status::Failed, Some("it fell over"))
        );
        // Once more it is the same, byte by byte.
        assert_eq!(export(&again, |_| vec!["ns".to_owned()]).unwrap(), packed);
    }

    #[test]
    fn what_is_none_is_broken_or_newer_is_refused_in_words() {
        let (_store, good, _dir) = exported();
        let text = unpacked(&good);
        let changed = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}: {text}");
            packed(text.replacen(from, to, 1).as_bytes())
        };
        for (bytes, why) in [
            (b"plain".to_vec(), "is not what"),
            (packed(b"[]"), "is not what"),
            (packed(b"{}"), "threadgauge_export"),
            (good[..good.len() - 9].to_vec(), "is not what"),
            (
                changed("\"threadgauge_export\":1", "\"threadgauge_export\":2"),
                "has form 2 and this version reads 1",
            ),
            (
                changed("\"tries\":[[0,", "\"tries\":[[7,"),
                "a try of create is of no case",
            ),
            // The same try twice.
            (changed("[0,1,1,", "[0,1,0,"), "kept: UNIQUE"),
        ] {
            let refused = read(&bytes).map(drop).unwrap_err().to_string();
            assert!(
                refused.starts_with("kept") && refused.contains(why),
                "{why}: {refused}"
            );
        }
    }

    #[test]
    fn an_exported_run_is_told_from_a_folder_and_other_files() {
        let (_store, good, dir) = exported();
        let at = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        assert!(is_export(&at("kept", &good)));
        assert!(!is_export(&at("text", b"text")));
        assert!(!is_export(&at("empty", b"")));
        assert!(!is_export(dir.path()));
        assert!(!is_export(&dir.path().join("nowhere")));
        let nowhere = import(&dir.path().join("nowhere")).map(drop).unwrap_err();
        assert!(
            nowhere.to_string().contains("nowhere cannot be read"),
            "{nowhere}"
        );
    }
}
