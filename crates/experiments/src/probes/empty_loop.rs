//! A loop that does nothing, compiled without and with optimisation.

use std::time::Duration;

use threadgauge_lab::worker::{CaseError, Worker};

use crate::guests::{EMPTY_LOOP_OPTIMISED, EMPTY_LOOP_PLAIN, Guest, ask};

const COUNT: u64 = 20_000_000;
const DEADLINE: Duration = Duration::from_secs(20);

pub(super) fn plain(worker: &mut Worker) -> Result<f64, CaseError> {
    compiled(worker, &EMPTY_LOOP_PLAIN)
}

pub(super) fn optimised(worker: &mut Worker) -> Result<f64, CaseError> {
    compiled(worker, &EMPTY_LOOP_OPTIMISED)
}

fn compiled(worker: &Worker, guest: &Guest) -> Result<f64, CaseError> {
    let program = guest.load()?;
    let found = ask(worker, program.command(), &[&COUNT], DEADLINE, ["ns"], "loop")?;
    // A loop that is gone takes no time the clock can see.
    Ok((found.values[0] as f64).max(1.0) * found.stretch)
}
