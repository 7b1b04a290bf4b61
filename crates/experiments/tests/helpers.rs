//! A case whose computations are in helper processes. The program re-executes itself as helper, so its `main` is its
//! own.
#![allow(clippy::print_stdout)]

use threadgauge_experiments::{helper, turnaround};
use threadgauge_lab::testing;
use threadgauge_results::Params;

fn main() {
    helper();
    computations_in_helper_processes_are_measured();
    println!("test computations_in_helper_processes_are_measured ... ok");
}

fn computations_in_helper_processes_are_measured() {
    let case = Params::new()
        .with("kind", "cpu")
        .with("mode", "concurrent")
        .with("carrier", "process")
        .with("degree", 2)
        .with("lengths", "equal")
        .with("order", "descending")
        .with("extra", "none")
        .with("count", 3)
        .with("base_ms", 2)
        .with("cpus", 1);
    let sample = testing::measured(&turnaround::EXPERIMENT, &case);
    let figure = |name: &str| sample.value(name).unwrap_or_else(|| panic!("{name}: {sample:?}"));
    assert!(
        figure("computed_ns") > 0.0 && figure("turnaround_03") > 0.0,
        "{sample:?}"
    );
    assert!((1.0..=2.0).contains(&figure("most_running")), "{sample:?}");
}
