//! One million readings of the clock or ten, and the context switches meanwhile.

use std::hint::black_box;

use threadgauge_machine::{Burner, Switches, clock, usage_thread};

use threadgauge_lab::prelude::*;
use threadgauge_lab::worker::Lap;

/// Context switches in a million readings.
pub(super) const SWITCHES: Metric = metric("switches", "switches");
/// Those of them in which the thread gave up the CPU itself, in a million readings.
pub(super) const VOLUNTARY: Metric = metric("voluntary", "switches");

const MILLION: u64 = 1_000_000;
/// About what a million readings take, for the control.
const AS_LONG: Duration = Duration::from_millis(25);

pub(super) fn a_million(worker: &mut Worker) -> Result<f64, CaseError> {
    reading(worker, 1)
}

pub(super) fn ten_million(worker: &mut Worker) -> Result<f64, CaseError> {
    reading(worker, 10)
}

fn reading(worker: &mut Worker, millions: u64) -> Result<f64, CaseError> {
    let readings = millions * MILLION;
    let (lap, switches) = watched(worker, || {
        for _ in 0..readings {
            black_box(clock::monotonic_ns());
        }
    });
    for (metric, switches) in [(SWITCHES, switches.total()), (VOLUNTARY, switches.voluntary)] {
        worker.record(metric, switches as f64 / millions as f64);
    }
    worker.metric("ns_per_reading", "ns", lap.wall_ns as f64 / readings as f64);
    Ok(lap.wall_ns as f64)
}

pub(super) fn computing(worker: &mut Worker) -> Result<f64, CaseError> {
    let steps = worker.burner().iterations(AS_LONG);
    let (lap, switches) = watched(worker, || Burner::burn_units(steps));
    worker.record(SWITCHES, switches.total() as f64);
    Ok(lap.wall_ns as f64)
}

fn watched(worker: &Worker, f: impl FnOnce()) -> (Lap, Switches) {
    let before = usage_thread().switches;
    let watch = worker.stopwatch();
    f();
    let lap = watch.stop();
    (lap, usage_thread().switches - before)
}
