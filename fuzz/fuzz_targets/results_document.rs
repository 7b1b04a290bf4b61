//! A `results.json` from anywhere: it is a results document or an error, and a document that was read
//! is written back as the same document.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadgauge_results::Results;

fuzz_target!(|document: &[u8]| {
    let Ok(results) = serde_json::from_slice::<Results>(document) else {
        return;
    };
    let written = serde_json::to_vec(&results).expect("a document can be written");
    assert_eq!(
        serde_json::from_slice::<Results>(&written).expect("what was written can be read"),
        results
    );
});
