//! An exported run from anywhere: it is read as a store or is an error; one that was read is written and read again.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use threadgauge_results::{Store, export, import_from};

/// Every metric that any of its tries has.
fn metrics(store: &Store, experiment: &str) -> Vec<String> {
    let samples = store.samples(experiment).unwrap_or_default();
    let mut names: Vec<String> = samples
        .iter()
        .flat_map(|s| &s.sample.metrics)
        .map(|m| m.name.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

fuzz_target!(|packed: &[u8]| {
    let path = Path::new("fuzzed");
    let Ok(store) = import_from(packed, path) else {
        return;
    };
    // What is no number of ours, or no text, shows where it is read.
    let Ok(written) = export(&store, |id| metrics(&store, id)) else {
        return;
    };
    let again = import_from(&written[..], path).expect("what was written can be read");
    for experiment in again.experiments().expect("a plan") {
        let count = |of: &Store| of.samples(&experiment.id).map(|all| all.len()).ok();
        assert_eq!(count(&store), count(&again));
    }
});
