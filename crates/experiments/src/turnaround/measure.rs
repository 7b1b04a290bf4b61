//! Running one case once: the computations, the clock, and the record of each computation.

use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use threadgauge_exec::process::Crash;
use threadgauge_exec::{
    Carrier as ExecCarrier, ConcurrentExecution, Degree as ExecDegree, Done, Mode, Report, Times,
};
use threadgauge_machine::{Burner, Switches, clock, usage_children, usage_self};

use super::case::{Carrier, Case, Degree, Extra, as_usize};
use super::work::{Computation, IN_A_HELPER, Means};
use threadgauge_lab::refusal::refused;
use threadgauge_lab::worker::{CaseError, Worker};

/// The record of a computation. Times in ns since the start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Record {
    /// The length it was given.
    pub(super) length_ns: f64,
    /// When its processor began.
    pub(super) started_ns: f64,
    /// When its processor had ended.
    pub(super) ended_ns: f64,
    /// When it was finished: what the source, too, calls its end.
    pub(super) finished_ns: f64,
    /// CPU time of its processor.
    pub(super) cpu_ns: f64,
    /// When it would have completed by theory alone.
    pub(super) ideal_ns: f64,
}

/// One run of a case.
#[derive(Debug)]
pub(super) struct Measured {
    /// From before the call to its return.
    pub(super) elapsed_ns: f64,
    /// In the order in which they were given.
    pub(super) records: Vec<Record>,
    /// CPU time of the worker and of helpers that it has waited for.
    pub(super) cpu_ns: f64,
    pub(super) switches: Switches,
    pub(super) most_running: usize,
}

/// How many have ended, where each computation needs the one before it.
#[derive(Debug, Default)]
struct Chain {
    next: Mutex<usize>,
    moved: Condvar,
}

impl Chain {
    /// Waits until all before `index` have ended. They were started before it, so it cannot wait for ever.
    fn wait_for(&self, index: usize) {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.moved.wait_while(next, |next| *next < index));
    }

    fn end(&self) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.moved.notify_all();
    }
}

/// Runs the case; `seed` decides a shuffled order.
pub(super) fn measure(case: Case, seed: u64, worker: &mut Worker) -> Result<Measured, CaseError> {
    let burner = *worker.burner();
    let means = Means::of(case.kind, burner)?;
    let lengths = case.given(seed);
    let computations: Vec<(usize, Computation)> = lengths
        .iter()
        .map(|&length| means.computation(length))
        .enumerate()
        .collect();
    let record = |(length, ideal_ns): (&Duration, f64)| Record {
        length_ns: length.as_nanos() as f64,
        ideal_ns,
        ..Record::default()
    };
    let mut records: Vec<Record> = lengths.iter().zip(case.ideal(&lengths)).map(record).collect();
    let mut refusal: Option<String> = None;

    let chain = (case.extra == Extra::Chain).then(Chain::default);
    let finisher_steps = match case.extra {
        Extra::Finisher => burner.iterations(Duration::from_millis(case.base_ms)),
        Extra::None | Extra::Chain => 0,
    };
    let processor = |(index, computation): &mut (usize, Computation)| {
        if let Some(chain) = &chain {
            chain.wait_for(*index);
        }
        let cpu_ns = means.run(computation);
        if let Some(chain) = &chain {
            chain.end();
        }
        cpu_ns
    };

    let carrier = match case.carrier {
        Carrier::Thread => ExecCarrier::ThreadPerObject,
        _ => ExecCarrier::Pool,
    };
    let execution = ConcurrentExecution::new(degree(case.degree))
        .mode(Mode::FreeCaller)
        .carrier(carrier);
    let before = used();
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let mut finish = |index: usize, times: Times, result: Result<u64, String>| {
        Burner::burn_units(finisher_steps);
        let finished_ns = (clock::monotonic_ns() - begun_ns) as f64;
        match result {
            Ok(cpu_ns) => {
                records[index] = Record {
                    started_ns: times.queue_wait().as_nanos() as f64,
                    ended_ns: times.completion().as_nanos() as f64,
                    finished_ns,
                    cpu_ns: cpu_ns as f64,
                    ..records[index]
                };
            }
            Err(reason) => refusal = Some(reason),
        }
    };
    let finisher = |done: Done<_, Result<u64, String>>| finish(done.index, done.times, done.result);
    let (finished, most_running, shortage) = match case.carrier {
        Carrier::Caller => outcome(execution.serial(computations, processor, finisher)),
        Carrier::Thread | Carrier::Pool => outcome(execution.for_each(computations, processor, finisher)),
        Carrier::UpFront => outcome(execution.up_front().for_each(computations, processor, finisher)),
        Carrier::Process => {
            let finisher = |done: Done<_, Result<Result<u64, String>, Crash>>| {
                let result = done.result.unwrap_or_else(|crash| Err(crash.to_string()));
                finish(done.index, done.times, result);
            };
            outcome(
                execution
                    .processes()
                    .for_each(computations, &IN_A_HELPER, finisher),
            )
        }
    };
    let end_ns = clock::monotonic_ns();
    let lap = watch.stop();
    let after = used();

    if let Some(error) = &shortage {
        return Err(refused("a carrier for a computation", error));
    }
    if let Some(reason) = refusal {
        return Err(CaseError::Failed(reason));
    }
    if finished != lengths.len() {
        return Err(CaseError::Failed(format!(
            "{finished} of {} computations were finished; this is a defect of the executor",
            lengths.len()
        )));
    }
    // A handicapped worker's extra work is in the lap and delays every computation in proportion.
    let elapsed_ns = lap.wall_ns as f64;
    let stretch = elapsed_ns / (end_ns - begun_ns).max(1) as f64;
    for record in &mut records {
        record.started_ns *= stretch;
        record.ended_ns *= stretch;
        record.finished_ns *= stretch;
    }
    Ok(Measured {
        elapsed_ns,
        records,
        cpu_ns: after.0 - before.0,
        switches: after.1 - before.1,
        most_running,
    })
}

fn degree(degree: Degree) -> ExecDegree {
    let most = NonZeroUsize::new(as_usize(degree.most())).unwrap_or(NonZeroUsize::MIN);
    match degree {
        Degree::AtMost(_) => most.into(),
        Degree::Adaptive => ExecDegree::adaptive(..=most),
    }
}

/// What is checked of a call: how many were finished, the most at once, and why a carrier was missing.
fn outcome<I: Iterator, R>(report: Report<I, R>) -> (usize, usize, Option<std::io::Error>) {
    (report.finished, report.most_running, report.shortage)
}

/// CPU time, ns, and switches of this process, its threads and the children that it has waited for.
fn used() -> (f64, Switches) {
    let (own, children) = (usage_self(), usage_children());
    let cpu_ns = (own.cpu() + children.cpu()).as_nanos() as f64;
    (cpu_ns, own.switches + children.switches)
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::point::Point as _;
    use threadgauge_lab::testing;

    use super::super::EXPERIMENT;
    use super::super::case::Kind;
    use super::*;

    #[test]
    fn cpu_time_is_what_was_used_meanwhile() {
        let case = Case::serial(Kind::Cpu, 1, 5);
        let mut worker = testing::worker(&EXPERIMENT, &case.params());
        let before_ns = used().0;
        let measured = measure(case, 1, &mut worker).unwrap();
        let measured_ns = measured.cpu_ns;
        let computed_ns: f64 = measured.records.iter().map(|record| record.cpu_ns).sum();
        let all_ns = used().0 - before_ns;
        assert!(
            computed_ns > 0.0 && computed_ns <= measured_ns && measured_ns <= all_ns,
            "{computed_ns} of {measured_ns} of {all_ns}"
        );
    }
}
