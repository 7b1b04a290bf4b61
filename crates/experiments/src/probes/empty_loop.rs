//! A loop that does nothing, compiled without and with optimisation.

use std::process::Stdio;
use std::time::Duration;

use threadgauge_lab::worker::{CaseError, Worker};

use crate::guests::{EMPTY_LOOP_OPTIMISED, EMPTY_LOOP_PLAIN, Found, Guest, figures};

const COUNT: u64 = 20_000_000;
const DEADLINE: Duration = Duration::from_secs(20);

pub(super) fn plain(worker: &mut Worker) -> Result<f64, CaseError> {
    compiled(worker, &EMPTY_LOOP_PLAIN)
}

pub(super) fn optimised(worker: &mut Worker) -> Result<f64, CaseError> {
    compiled(worker, &EMPTY_LOOP_OPTIMISED)
}

figures! {
    /// What `guests/c/empty_loop.c` answers.
    struct Looped { ns }
}

fn compiled(worker: &Worker, guest: &Guest) -> Result<f64, CaseError> {
    let found: Found<Looped> = guest.ask(worker, Stdio::null(), &[&COUNT], DEADLINE, "loop")?;
    // A loop that is gone takes no time the clock can see.
    Ok((found.figures.ns as f64).max(1.0) * found.stretch)
}
