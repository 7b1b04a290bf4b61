//! Parameters as `--only` and `--set` write them: a value that was read is shown as it can be read
//! again, and parameters match themselves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadgauge_results::{Params, Value};

fuzz_target!(|text: &str| {
    let mut params = Params::new();
    for (name, value) in text.split(',').filter_map(|part| part.split_once('=')) {
        let value = Value::parse(value);
        assert_eq!(Value::parse(&value.to_string()), value);
        params.set(name, value);
    }
    assert!(params.matches(&params));
    let written = serde_json::to_string(&params).expect("parameters can be written");
    assert_eq!(
        serde_json::from_str::<Params>(&written).expect("what was written can be read"),
        params
    );
});
