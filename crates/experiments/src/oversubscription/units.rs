//! A case, and running it once: units that start together, share the work, and wait for each other at the end.
//!
//! Two gates and a start barrier exclude starting and ending from the measured time. The *start gate* holds every unit
//! asleep until all exist. Behind it is the *start barrier*: each unit counts itself in and yields until the last has
//! come, so that all are awake and ready to run when the clock starts; waking 8,192 sleepers takes longer than the
//! work. At the *exit gate* each unit sleeps until the last has finished its share, so that no unit is taken down while
//! another works.
//!
//! Everything the units touch lies in memory that threads and forked children share alike, so both run the same
//! code. Nothing here allocates once the units run.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};
use std::thread::{sleep, yield_now};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, setpgid, waitpgid};
use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;
use threadgauge_machine::{Burner, clock, usage_self};

use super::case::{Case, Mode, Unit};
use crate::sys::counters::SharedCounters;
use crate::sys::fork::fork;
use crate::sys::gate::Gate;
use crate::sys::reap::reap;
use crate::sys::threads::with_threads;

/// How long a unit sleeps in [`Mode::Sleep`].
const SLEEP: Duration = Duration::from_millis(1);

/// From the moment the last unit reaches the start barrier until the last unit finishes its share.
///
/// Claims use this and not [`TOTAL`]. They are about switching, and at 8,192 units starting and ending takes a third of
/// a second.
pub(super) const ELAPSED: Metric = metric("elapsed_ns", "ns");
/// From before the first unit was created to after the last one was reaped.
pub(super) const TOTAL: Metric = metric("total_ns", "ns");
/// Creating all units.
pub(super) const START: Metric = metric("start_ns", "ns");
/// From the last finish until all units are reaped.
pub(super) const END: Metric = metric("end_ns", "ns");
/// CPU time of all units within [`ELAPSED`].
pub(super) const CPU: Metric = metric("cpu_ns", "ns");
/// Voluntary switches of all units within [`ELAPSED`]: a unit gave up the CPU to wait for something.
pub(super) const VOLUNTARY_SWITCHES: Metric = metric("voluntary_switches", "count");
/// Involuntary switches: the unit stayed ready to run. Yields are among them.
pub(super) const INVOLUNTARY_SWITCHES: Metric = metric("involuntary_switches", "count");
/// The number of pieces of work, over all units, after which the CPU is given up.
pub(super) const PIECES: Metric = metric("pieces", "count");
/// Both kinds of switches over the pieces.
pub(super) const SWITCHES_PER_SLICE: Metric = metric("switches_per_slice", "ratio");
/// The work between two moments at which the CPU is given up, alone on the CPU.
pub(super) const SLICE: Metric = metric("slice_ns", "ns");
/// Of a matched slice: what a switch between two yielding threads on one CPU adds to the yield of one alone.
pub(super) const MATCHED_ON: Metric = metric("matched_on_ns", "ns");

/// Runs the case once, with slices of so many steps of `step_ns` each, and leaves its figures.
pub(super) fn run(case: Case, slice: u64, step_ns: f64, worker: &mut Worker) -> Result<(), CaseError> {
    let shared = Shared::new(case, slice)?;
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let created_ns = match case.unit {
        Unit::Thread => run_threads(&shared)?,
        Unit::Process => run_processes(&shared)?,
    };
    let ended_ns = clock::monotonic_ns();
    let lap = watch.stop();
    shared.check()?;
    let finished_ns = shared.read(LAST_FINISH_NS);
    let between_ns = shared.between_ns() as f64;
    // For a handicapped worker the stopwatch adds work to the whole section; this part gets its share.
    let elapsed_ns = between_ns * (lap.wall_ns as f64 / (ended_ns - begun_ns).max(1) as f64);
    let cpu_ns = shared.read(CPU_NS) as f64;
    let (voluntary, involuntary) = (shared.read(VOLUNTARY) as f64, shared.read(INVOLUNTARY) as f64);
    let pieces = shared.pieces() as f64;
    worker.tag("cold");
    worker.record(ELAPSED, elapsed_ns);
    worker.record(TOTAL, lap.wall_ns as f64);
    worker.record(START, (created_ns - begun_ns) as f64);
    worker.record(END, (ended_ns - finished_ns) as f64);
    worker.record(CPU, cpu_ns);
    worker.record(VOLUNTARY_SWITCHES, voluntary);
    worker.record(INVOLUNTARY_SWITCHES, involuntary);
    worker.record(PIECES, pieces);
    worker.record(SWITCHES_PER_SLICE, (voluntary + involuntary) / pieces);
    worker.record(SLICE, shared.piece as f64 * step_ns);
    if case.count <= case.cpus && case.mode != Mode::Sleep {
        let overlap = (cpu_ns / (elapsed_ns * case.count as f64)).min(1.0);
        worker.noise("overlap", overlap);
        if overlap < 0.95 {
            worker.tag("low-overlap");
        }
    } else {
        // The mean number of units that had not finished.
        worker.noise("mean_alive", shared.read(ALIVE_NS) as f64 / between_ns);
    }
    Ok(())
}

/// What came of units in short.
pub(super) struct Ran {
    /// CPU time of all units.
    pub(super) cpu_ns: f64,
    pub(super) pieces: f64,
    /// Of both kinds, of all units.
    pub(super) switches: f64,
}

/// Runs the threads of a case whose slice is known, and records nothing.
pub(super) fn of_threads(case: Case) -> Result<Ran, CaseError> {
    let shared = Shared::new(case, case.slice_us.steps().unwrap_or(1))?;
    run_threads(&shared)?;
    shared.check()?;
    Ok(Ran {
        cpu_ns: shared.read(CPU_NS) as f64,
        pieces: shared.pieces() as f64,
        switches: (shared.read(VOLUNTARY) + shared.read(INVOLUNTARY)) as f64,
    })
}

/// What a step takes alone on the CPU, ns: the least of five runs, by the CPU clock.
pub(super) fn step_ns() -> f64 {
    const STEPS: u64 = 125_000;
    let run = |_| {
        let before = clock::process_cpu_ns();
        Burner::burn_units(STEPS);
        clock::process_cpu_ns() - before
    };
    (0..5).map(run).min().unwrap_or(0) as f64 / STEPS as f64
}

/// Creates the threads and waits for their end; returns when the last had been created.
fn run_threads(shared: &Shared) -> Result<u64, CaseError> {
    let body = || shared.unit();
    let count = usize::try_from(shared.case.count).unwrap_or(usize::MAX);
    with_threads(count, &body, |created| {
        let created_ns = clock::monotonic_ns();
        let outcome = created.map(|()| created_ns).map_err(|refusal| {
            shared.cell(CANCELLED).store(1, Relaxed);
            let which = format!("thread {} of {}", refusal.created + 1, shared.case.count);
            refused(which, &refusal.error)
        });
        shared.start.open();
        outcome
    })
}

/// Forks the processes and waits for their end; returns when the last had been created.
fn run_processes(shared: &Shared) -> Result<u64, CaseError> {
    let count = shared.case.count;
    let mut children = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for created in 0..count {
        let child = fork(|| {
            shared.unit();
            0
        });
        let which = || format!("process {} of {count}", created + 1);
        let grouped = child.map_err(|error| refused(which(), &error)).and_then(|pid| {
            children.push(pid);
            // A process group of their own, so that waiting for any child of it is waiting for a unit.
            setpgid(Some(pid), Some(children[0]))
                .map_err(|error| CaseError::failed("making a process group of them", error))
        });
        if let Err(failure) = grouped {
            end_all(&children);
            return Err(failure);
        }
    }
    let created_ns = clock::monotonic_ns();
    shared.start.open();
    // Wait for whichever ends first: if one was killed, the others wait at the exit gate for ever.
    let mut reaped = Vec::with_capacity(children.len());
    while reaped.len() < children.len() {
        let ended = retry_on_intr(|| waitpgid(children[0], WaitOptions::empty()))
            .map_err(|error| CaseError::failed("waiting for the processes", error))?;
        let Some((pid, status)) = ended else { continue };
        reaped.push(pid);
        if status.exit_status() != Some(0) {
            children.retain(|child| !reaped.contains(child));
            end_all(&children);
            return Err(CaseError::Failed(format!(
                "one of {count} processes was ended before it had done its share; look for what kills processes here, \
                 e.g. `dmesg | grep -i oom`"
            )));
        }
    }
    Ok(created_ns)
}

fn end_all(children: &[Pid]) {
    for &child in children {
        // It may have ended by itself.
        let _ = kill_process(child, Signal::KILL);
    }
    for &child in children {
        let _ = reap(child);
    }
}

// The cells that all units share. A cell that is written often while units run has a cache line of its own.
const CELLS: usize = 24;
/// Units that have reached the start barrier.
const READY: usize = 0;
/// When the last one did; 0 until then. It is also the flag that releases all of them.
const STARTED_NS: usize = 8;
/// Whether the units are to return without working.
const CANCELLED: usize = 9;
/// Units that have finished their share.
const FINISHED: usize = 16;
/// The latest finish.
const LAST_FINISH_NS: usize = 17;
/// The time from start to finish, summed over units.
const ALIVE_NS: usize = 18;
/// Steps done, summed over units.
const STEPS: usize = 19;
/// CPU time and switches between start and finish, summed over units. Each unit subtracts its reading at the start and
/// adds its reading at the finish.
const CPU_NS: usize = 20;
const VOLUNTARY: usize = 21;
const INVOLUNTARY: usize = 22;

/// What all units of a case share: the gates and the start barrier between them, and the sums.
struct Shared {
    case: Case,
    /// Steps between two moments at which a unit gives up the CPU.
    piece: u64,
    start: Gate,
    exit: Gate,
    cells: SharedCounters<CELLS>,
}

impl Shared {
    /// For a case whose slices have so many steps.
    fn new(case: Case, slice: u64) -> Result<Self, CaseError> {
        let failed = |e| CaseError::failed("mapping the memory that the units share", e);
        Ok(Self {
            case,
            piece: case.piece(slice),
            start: Gate::closed().map_err(failed)?,
            exit: Gate::closed().map_err(failed)?,
            cells: SharedCounters::new().map_err(failed)?,
        })
    }

    fn cell(&self, at: usize) -> &AtomicU64 {
        &self.cells[at]
    }

    fn read(&self, at: usize) -> u64 {
        self.cell(at).load(Relaxed)
    }

    /// From the start to the last finish; at least 1.
    fn between_ns(&self) -> u64 {
        (self.read(LAST_FINISH_NS) - self.read(STARTED_NS)).max(1)
    }

    /// Of all units.
    fn pieces(&self) -> u64 {
        self.case.count * self.case.share().div_ceil(self.piece)
    }

    /// What a unit does, from its creation to its end.
    fn unit(&self) {
        self.start.pass();
        if self.read(CANCELLED) != 0 {
            return;
        }
        self.pass_start_barrier();
        let steps = self.work();
        self.finish(steps);
        self.exit.pass();
    }

    /// Waits, ready to run, until the last unit has come.
    fn pass_start_barrier(&self) {
        // AcqRel: the start happens after everything the others did before the barrier.
        let last = self.cell(READY).fetch_add(1, AcqRel) + 1 == self.case.count;
        if last {
            // Release: pairs with the Acquire load below.
            self.cell(STARTED_NS).store(clock::monotonic_ns(), Release);
            // Read after the start, though that takes half a millisecond at 8,192 threads. After a reading before the
            // start the kernel often preempts this thread, and the others' yields at the barrier would count as part of
            // the work.
            if self.case.unit == Unit::Thread {
                self.account(AtomicU64::fetch_sub);
            }
        } else {
            while self.cell(STARTED_NS).load(Acquire) == 0 {
                yield_now();
            }
        }
        if self.case.unit == Unit::Process {
            self.account(AtomicU64::fetch_sub);
        }
    }

    /// Does this unit's share; returns the steps done.
    fn work(&self) -> u64 {
        let share = self.case.share();
        let mut left = share;
        while left > 0 {
            // The last piece is what is left.
            let steps = left.min(self.piece);
            Burner::burn_units(steps);
            left -= steps;
            match self.case.mode {
                Mode::Yield if yields(left) => yield_now(),
                Mode::Yield | Mode::Neither => {}
                Mode::Sleep => sleep(SLEEP),
            }
        }
        share
    }

    /// Records the unit's figures; the last unit opens the exit gate.
    fn finish(&self, steps: u64) {
        let now_ns = clock::monotonic_ns();
        let started_ns = self.read(STARTED_NS);
        self.cell(LAST_FINISH_NS).fetch_max(now_ns, Relaxed);
        self.cell(ALIVE_NS).fetch_add(now_ns - started_ns, Relaxed);
        self.cell(STEPS).fetch_add(steps, Relaxed);
        if self.case.unit == Unit::Process {
            self.account(AtomicU64::fetch_add);
        }
        // AcqRel: the last unit sees what the others recorded.
        let last = self.cell(FINISHED).fetch_add(1, AcqRel) + 1 == self.case.count;
        if last {
            if self.case.unit == Unit::Thread {
                self.account(AtomicU64::fetch_add);
            }
            self.exit.open();
        }
    }

    /// Subtracts the reading before the work from the sums, or adds the reading after it. The sums wrap around, so the
    /// order does not matter. One thread's reading covers all threads, so the unit that starts the clock and the last
    /// one to finish take it; a process can only read its own.
    fn account(&self, change: fn(&AtomicU64, u64, Ordering) -> u64) {
        let usage = usage_self();
        let cpu_ns = u64::try_from(usage.cpu().as_nanos()).unwrap_or(0);
        change(self.cell(CPU_NS), cpu_ns, Relaxed);
        change(self.cell(VOLUNTARY), usage.switches.voluntary, Relaxed);
        change(self.cell(INVOLUNTARY), usage.switches.involuntary, Relaxed);
    }

    /// Checks that all of the work was done exactly once.
    fn check(&self) -> Result<(), CaseError> {
        let (done, finished) = (self.read(STEPS), self.read(FINISHED));
        let wanted = self.case.share() * self.case.count;
        if (done, finished) == (wanted, self.case.count) {
            return Ok(());
        }
        Err(CaseError::Failed(format!(
            "{finished} of {} units did {done} of {wanted} steps; this is a defect of the laboratory",
            self.case.count
        )))
    }
}

/// Whether a unit yields that has so many steps left. Its end gives up the CPU anyway: with two slices each, one more
/// yield would mean half as many switches again.
const fn yields(left: u64) -> bool {
    left > 0
}

#[cfg(test)]
mod tests {
    use super::super::case::{Slice, Work};
    use super::*;
    use threadgauge_lab::worker::Order;
    use threadgauge_results::Sample;

    #[test]
    fn after_its_last_slice_a_unit_does_not_yield() {
        assert_eq!([2, 1, 0].map(yields), [true, true, false]);
    }

    /// A sample of the case. That every unit did its share and no more is checked on the way.
    fn measured(case: Case, handicap_percent: u32) -> Sample {
        let mut worker = Worker::new(&Order {
            experiment: "oversubscription".to_owned(),
            params: case.params(),
            cpus: vec![0],
            handicap_percent,
            launched_ns: 0,
            seed: 0,
            each: None,
            runtime: None,
        });
        run(case, case.slice_us.steps().unwrap(), step_ns(), &mut worker).unwrap();
        worker.finish(Ok(()))
    }

    fn figure(sample: &Sample, metric: Metric) -> f64 {
        sample.value(metric.name).unwrap()
    }

    fn case(unit: Unit, mode: Mode, count: u64) -> Case {
        Case {
            unit,
            mode,
            count,
            cpus: 1,
            slice_us: Slice::SHORT,
            work_s: Work::ms(1),
        }
    }

    #[test]
    fn every_kind_of_case_does_its_work() {
        for unit in Unit::ALL {
            for mode in Mode::ALL {
                for count in [1, 2, 32] {
                    let case = case(unit, mode, count);
                    let sample = measured(case, 0);
                    let (elapsed_ns, total_ns) = (figure(&sample, ELAPSED), figure(&sample, TOTAL));
                    assert!(elapsed_ns > 0.0 && elapsed_ns < total_ns, "{case:?}");
                    // Nothing is made within a nanosecond.
                    let start_ns = figure(&sample, START);
                    assert!(start_ns > 1.0 && start_ns < total_ns, "{case:?} {sample:?}");
                    let (noise, most) = match (count, mode) {
                        (1, Mode::Yield | Mode::Neither) => ("overlap", 1.0),
                        _ => ("mean_alive", count as f64),
                    };
                    let noise = sample.noise[noise];
                    assert!(noise <= most && noise > 0.0, "{case:?} {sample:?}");
                }
            }
        }
    }

    // These tests assert figures of processes only: a thread reads those of the whole process, in which other tests
    // run.

    #[test]
    fn sleeping_is_counted_as_waiting() {
        let waits = |mode| figure(&measured(case(Unit::Process, mode, 32), 0), VOLUNTARY_SWITCHES);
        // Eight sleeps each. Waiting for a page may add a switch. A unit that is preempted before it sleeps, and runs
        // again only after its time is over, does not sleep.
        let sleeping = waits(Mode::Sleep);
        assert!((128.0..=256.0 + 32.0).contains(&sleeping), "{sleeping}");
        let neither = waits(Mode::Neither);
        assert!(neither <= 32.0, "{neither}");
    }

    #[test]
    fn where_a_unit_was_refused_the_others_return_without_working() {
        let shared = Shared::new(case(Unit::Thread, Mode::Yield, 4), 1_250).unwrap();
        shared.cell(CANCELLED).store(1, Relaxed);
        assert!(run_threads(&shared).is_ok());
        assert_eq!(shared.read(FINISHED), 0);
        let says = shared.check().unwrap_err().to_string();
        assert!(says.contains("0 of 4 units"), "{says}");
    }

    #[test]
    fn hidden_work_shows_in_the_figure() {
        // Three times the time; and a single process cannot use more CPU time than wall time.
        let sample = measured(case(Unit::Process, Mode::Neither, 1), 200);
        let elapsed_ns = figure(&sample, ELAPSED);
        assert!(elapsed_ns > 2.9 * figure(&sample, CPU), "{sample:?}");
        assert!(figure(&sample, TOTAL) > elapsed_ns, "{sample:?}");
    }
}
