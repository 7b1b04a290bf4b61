//! What a worker answers on its standard output: whatever it is, it is a sample or an error, and a
//! sample that was read is written back as the same sample.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadgauge_results::Sample;

fuzz_target!(|answer: &[u8]| {
    let Ok(sample) = serde_json::from_slice::<Sample>(answer) else {
        return;
    };
    let written = serde_json::to_vec(&sample).expect("a sample can be written");
    assert_eq!(
        serde_json::from_slice::<Sample>(&written).expect("what was written can be read"),
        sample
    );
});
