//! Fixed work alone, beside threads that mostly sleep, and beside threads that compute.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use threadgauge_machine::Burner;

use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;

const NEIGHBOURS: usize = 16;
const WORK: Duration = Duration::from_millis(10);
/// How long a sleeper sleeps at a time.
const NAP: Duration = Duration::from_millis(10);
/// After how many steps a computing neighbour checks whether the case is over.
const STEPS: u64 = 20_000;

pub(super) fn alone(worker: &mut Worker) -> Result<f64, CaseError> {
    beside(worker, 0, || ())
}

pub(super) fn sleeping(worker: &mut Worker) -> Result<f64, CaseError> {
    beside(worker, NEIGHBOURS, || thread::sleep(NAP))
}

pub(super) fn computing(worker: &mut Worker) -> Result<f64, CaseError> {
    beside(worker, NEIGHBOURS, || Burner::burn_units(STEPS))
}

/// Times the work while `count` neighbours do `pastime` over and over.
fn beside(worker: &mut Worker, count: usize, pastime: impl Fn() + Sync) -> Result<f64, CaseError> {
    let steps = worker.burner().iterations(WORK);
    let over = AtomicBool::new(false);
    let (here, all_here) = mpsc::channel();
    let lap = thread::scope(|scope| {
        // Neighbours end when this is dropped, however the case ends.
        let _over = Over(&over);
        for i in 0..count {
            let (here, over, pastime) = (here.clone(), &over, &pastime);
            let neighbour = move || {
                // Nobody receives this when the case has failed meanwhile.
                let _ = here.send(());
                // Pairs with the store in `Over`. The flag publishes no other data.
                while !over.load(Ordering::Relaxed) {
                    pastime();
                }
            };
            thread::Builder::new()
                .spawn_scoped(scope, neighbour)
                .map_err(|e| refused(format!("neighbour {} of {count}", i + 1), &e))?;
        }
        all_here.iter().take(count).for_each(drop);
        let watch = worker.stopwatch();
        Burner::burn_units(steps);
        Ok(watch.stop())
    })?;
    Ok(lap.wall_ns as f64)
}

/// Tells the neighbours to end, when dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
