//! A loop that does nothing, compiled without and with optimisation.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use threadgauge_lab::worker::{CaseError, Worker};
use threadgauge_machine::clock;

use crate::guests::{EMPTY_LOOP_OPTIMISED, EMPTY_LOOP_PLAIN, Guest};

const COUNT: &str = "20000000";

pub(super) fn plain(worker: &mut Worker) -> Result<f64, CaseError> {
    compiled(worker, &EMPTY_LOOP_PLAIN)
}

pub(super) fn optimised(worker: &mut Worker) -> Result<f64, CaseError> {
    compiled(worker, &EMPTY_LOOP_OPTIMISED)
}

fn compiled(worker: &mut Worker, guest: &Guest) -> Result<f64, CaseError> {
    let program = guest.load()?;
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let ran = Command::new(OsStr::from_bytes(program.path().to_bytes()))
        .arg(COUNT)
        .output()
        .map_err(not_started)?;
    let ran_ns = clock::monotonic_ns() - begun_ns;
    // A handicapped worker's extra work is in proportion to the program's whole run.
    let stretch = watch.stop().wall_ns as f64 / ran_ns.max(1) as f64;
    let said = String::from_utf8_lossy(&ran.stdout);
    let ns: f64 = said.trim().parse().map_err(|_| {
        CaseError::Failed(format!(
            "the compiled loop answered {said:?} and ended with {}",
            ran.status
        ))
    })?;
    // A loop that is gone takes no time the clock can see.
    Ok(ns.max(1.0) * stretch)
}

/// The kernel finds no file where the program is there and what loads its C library is not.
fn not_started(error: io::Error) -> CaseError {
    if error.kind() == io::ErrorKind::NotFound {
        let says =
            "the loop was compiled for the C library of another machine: build threadgauge on this one";
        return CaseError::Skipped(says.to_owned());
    }
    CaseError::failed("starting the compiled loop", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_c_library_that_is_not_there_is_no_failure() {
        let skipped = not_started(io::ErrorKind::NotFound.into());
        assert!(matches!(skipped, CaseError::Skipped(says) if says.contains("C library")));
        let failed = not_started(io::ErrorKind::PermissionDenied.into());
        assert!(
            matches!(failed, CaseError::Failed(says) if says.starts_with("starting the compiled loop: "))
        );
    }
}
