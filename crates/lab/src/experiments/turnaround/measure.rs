//! Running one case once: the computations, the clock, and what is written down for each of them.

use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use threadgauge_exec::{Carrier as ExecCarrier, ConcurrentExecution, Done, Mode};
use threadgauge_machine::{Burner, Switches, clock, switches_self};

use super::case::{Carrier, Case, Extra, Kind, as_usize};
use crate::refusal::refused;
use crate::worker::{CaseError, Lap, Worker};

/// A computation as it is given to its processor.
#[derive(Debug, Clone, Copy)]
struct Computation {
    length: Duration,
    /// What `length` of CPU time is in steps.
    steps: u64,
}

/// What was written down about a computation. Times in ns since the start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Record {
    /// What it was to take.
    pub(super) length_ns: f64,
    /// When its processor began.
    pub(super) started_ns: f64,
    /// When its processor had ended.
    pub(super) ended_ns: f64,
    /// When it was finished: what the source, too, calls its end.
    pub(super) finished_ns: f64,
    /// CPU time of its processor.
    pub(super) cpu_ns: f64,
}

/// One run of a case.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) lap: Lap,
    /// In the order in which they were given.
    pub(super) records: Vec<Record>,
    pub(super) switches: Switches,
    pub(super) most_running: usize,
    /// When each would have completed by theory alone.
    pub(super) ideal_ns: Vec<f64>,
    /// The calibrated rate, ns of CPU time a step.
    pub(super) ns_per_step: f64,
}

/// Whose turn it is, where each computation needs the one before it.
#[derive(Debug, Default)]
struct Chain {
    next: Mutex<usize>,
    moved: Condvar,
}

impl Chain {
    /// Waits until all before `index` have ended. They were started before it, so it cannot wait for ever.
    fn wait_for(&self, index: usize) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        while *next < index {
            next = self.moved.wait(next).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.moved.notify_all();
    }
}

/// Runs the case; `seed` decides a shuffled order.
pub(super) fn measure(case: Case, seed: u64, worker: &mut Worker) -> Result<Measured, CaseError> {
    let burner = *worker.burner();
    let lengths = case.given(seed);
    let computations: Vec<(usize, Computation)> = lengths
        .iter()
        .map(|&length| Computation {
            length,
            steps: burner.iterations(length),
        })
        .enumerate()
        .collect();
    let mut records: Vec<Record> = lengths
        .iter()
        .map(|length| Record {
            length_ns: length.as_nanos() as f64,
            ..Record::default()
        })
        .collect();

    let chain = (case.extra == Extra::Chain).then(Chain::default);
    let finisher_steps = match case.extra {
        Extra::Finisher => burner.iterations(Duration::from_millis(case.base_ms)),
        Extra::None | Extra::Chain => 0,
    };
    let processor = |(index, computation): &mut (usize, Computation)| {
        if let Some(chain) = &chain {
            chain.wait_for(*index);
        }
        let cpu_ns = compute(case.kind, *computation);
        if let Some(chain) = &chain {
            chain.end();
        }
        cpu_ns
    };

    let execution = ConcurrentExecution::new(degree(case)).mode(Mode::FreeCaller);
    let before = switches_self();
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let finisher = |done: Done<(usize, Computation), u64>| {
        Burner::burn_units(finisher_steps);
        let record = &mut records[done.index];
        record.started_ns = done.times.queue_wait().as_nanos() as f64;
        record.ended_ns = done.times.completion().as_nanos() as f64;
        record.finished_ns = (clock::monotonic_ns() - begun_ns) as f64;
        record.cpu_ns = done.result as f64;
    };
    let report = match case.carrier {
        Carrier::Caller => execution.serial(computations, processor, finisher),
        Carrier::Thread => {
            execution
                .carrier(ExecCarrier::ThreadPerObject)
                .for_each(computations, processor, finisher)
        }
        Carrier::Pool => execution
            .carrier(ExecCarrier::Pool)
            .for_each(computations, processor, finisher),
    };
    let end_ns = clock::monotonic_ns();
    let lap = watch.stop();
    let switches = switches_self() - before;

    if let Some(error) = &report.thread_shortage {
        return Err(refused("a thread for a computation", error));
    }
    if report.finished != lengths.len() {
        return Err(CaseError::Failed(format!(
            "{} of {} computations were finished; this is a defect of the executor",
            report.finished,
            lengths.len()
        )));
    }
    // A handicapped worker's extra work lies in the lap: it delays everyone in proportion.
    let stretch = lap.wall_ns as f64 / (end_ns - begun_ns).max(1) as f64;
    for record in &mut records {
        record.started_ns *= stretch;
        record.ended_ns *= stretch;
        record.finished_ns *= stretch;
    }
    Ok(Measured {
        lap,
        records,
        switches,
        most_running: report.most_running,
        ideal_ns: case.ideal(&lengths),
        ns_per_step: burner.ns_per_iteration(),
    })
}

fn degree(case: Case) -> NonZeroUsize {
    NonZeroUsize::new(as_usize(case.degree)).unwrap_or(NonZeroUsize::MIN)
}

/// Does what the computation is, and returns the CPU time it took, ns.
fn compute(kind: Kind, computation: Computation) -> u64 {
    let before_ns = clock::thread_cpu_ns();
    match kind {
        // A fixed number of steps: being interrupted makes it late, never shorter.
        Kind::Cpu => Burner::burn_units(computation.steps),
        Kind::Io => thread::sleep(computation.length),
    }
    clock::thread_cpu_ns() - before_ns
}
