//! A CPU list as a user types it and as the kernel writes it: a list or an error, in little memory, and
//! what was read is written as it can be read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadgauge_machine::CpuList;

fuzz_target!(|text: &str| {
    let Ok(cpus) = text.parse::<CpuList>() else { return };
    let ascending: Vec<usize> = cpus.iter().collect();
    assert!(ascending.is_sorted_by(|a, b| a < b), "ascending, each once");
    assert_eq!(
        cpus.to_string()
            .parse::<CpuList>()
            .expect("what was written can be read"),
        cpus
    );
});
