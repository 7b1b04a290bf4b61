//! `--only` and `--set` as a user types them: a selector or an error, and what was read is written as
//! it can be read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadgauge_lab::selection::Selector;

fuzz_target!(|text: &str| {
    let Ok(selector) = text.parse::<Selector>() else {
        return;
    };
    let written = selector.to_string();
    assert_eq!(
        written.parse::<Selector>().expect("what was written can be read"),
        selector
    );
});
