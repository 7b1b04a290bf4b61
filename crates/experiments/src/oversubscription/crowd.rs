//! The measuring: units that line up, share the work, and wait for each other at the end.
//!
//! Three gates keep starting and ending out of the figure. The *start gate* holds every unit asleep until all
//! exist. Behind it they *line up*: each counts itself in and yields until the last has come, so that all are
//! awake and ready to run when the clock starts; waking 8,192 sleepers takes longer than the work. At the *exit*
//! each unit sleeps until the last has finished its share, so that no unit is taken down while another works.
//!
//! Everything the units touch lies in memory that threads and forked children share alike, so both run the same
//! code. Nothing here allocates once the units run.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread::{sleep, yield_now};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, setpgid, waitpgid};
use threadgauge_machine::{Burner, clock, usage_self};

use super::grid::{Case, Mode, Unit};
use crate::sys::counters::SharedCounters;
use crate::sys::fork::fork;
use crate::sys::gate::Gate;
use crate::sys::reap::reap;
use crate::sys::threads::with_threads;
use threadgauge_lab::refusal::refused;
use threadgauge_lab::worker::{CaseError, Worker};

/// Steps of the burner in a slice: a number and not a time, so that every case and round does the same work. About
/// 1.6 µs here.
pub(super) const STEPS_PER_SLICE: u64 = 1_250;

/// How long a unit sleeps in [`Mode::Sleep`].
const SLEEP: Duration = Duration::from_millis(1);

/// What one run of a case gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// From the last unit's lining up to the last unit's finishing its share.
    pub(super) elapsed_ns: f64,
    /// From before the first unit was created to after the last one was reaped.
    pub(super) total_ns: f64,
    /// Creating all units.
    pub(super) start_ns: f64,
    /// From the last finish until all units are reaped.
    pub(super) end_ns: f64,
    /// CPU time of all units within `elapsed_ns`.
    pub(super) cpu_ns: f64,
    /// Switches of all units within `elapsed_ns`: those that gave the CPU up to wait for something.
    pub(super) voluntary: u64,
    /// Those that stayed ready to run; yields are among them.
    pub(super) involuntary: u64,
    /// The mean number of units that had not finished.
    pub(super) alive: f64,
}

/// Runs the case once.
pub(super) fn measure(case: Case, worker: &Worker) -> Result<Measured, CaseError> {
    let yard = Yard::new(case)?;
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let created_ns = match case.unit {
        Unit::Thread => run_threads(&yard)?,
        Unit::Process => run_processes(&yard)?,
    };
    let ended_ns = clock::monotonic_ns();
    let lap = watch.stop();
    yard.check()?;
    // The stopwatch may have hidden extra work in the whole section: the parts get their share of it.
    let stretch = lap.wall_ns as f64 / (ended_ns - begun_ns).max(1) as f64;
    let started_ns = yard.cell(STARTED_NS).load(Relaxed);
    let finished_ns = yard.cell(LAST_FINISH_NS).load(Relaxed);
    let elapsed_ns = (finished_ns - started_ns).max(1) as f64;
    Ok(Measured {
        elapsed_ns: elapsed_ns * stretch,
        total_ns: lap.wall_ns as f64,
        start_ns: (created_ns - begun_ns) as f64,
        end_ns: (ended_ns - finished_ns) as f64,
        cpu_ns: yard.cell(CPU_NS).load(Relaxed) as f64,
        voluntary: yard.cell(VOLUNTARY).load(Relaxed),
        involuntary: yard.cell(INVOLUNTARY).load(Relaxed),
        alive: yard.cell(ALIVE_NS).load(Relaxed) as f64 / elapsed_ns,
    })
}

/// The length of one slice alone on the CPU, ns: the shortest of a few runs, by the CPU clock.
pub(super) fn slice_ns() -> f64 {
    const RUNS: usize = 5;
    const SLICES: u64 = 100;
    let run = |_| {
        let before = clock::process_cpu_ns();
        Burner::burn_units(SLICES * STEPS_PER_SLICE);
        clock::process_cpu_ns() - before
    };
    let shortest = (0..RUNS).map(run).min().unwrap_or(0);
    shortest as f64 / SLICES as f64
}

/// Creates the threads and waits for their end; returns when the last had been created.
fn run_threads(yard: &Yard) -> Result<u64, CaseError> {
    let body = || yard.unit();
    let count = usize::try_from(yard.case.count).unwrap_or(usize::MAX);
    with_threads(count, &body, |created| {
        let created_ns = clock::monotonic_ns();
        let outcome = created.map(|()| created_ns).map_err(|refusal| {
            yard.cell(CANCELLED).store(1, Relaxed);
            let which = format!("thread {} of {}", refusal.created + 1, yard.case.count);
            refused(which, &refusal.error)
        });
        yard.start.open();
        outcome
    })
}

/// Forks the processes and waits for their end; returns when the last had been created.
fn run_processes(yard: &Yard) -> Result<u64, CaseError> {
    let mut children = Vec::with_capacity(usize::try_from(yard.case.count).unwrap_or(0));
    for created in 0..yard.case.count {
        let child = fork(|| {
            yard.unit();
            0
        });
        match child {
            Ok(pid) => {
                children.push(pid);
                // A group of their own, so that waiting for any of them is waiting for one of them.
                if let Err(error) = setpgid(Some(pid), Some(children[0])) {
                    end_all(&children);
                    return Err(CaseError::failed("making a process group of them", error));
                }
            }
            Err(error) => {
                let failure = refused(format!("process {} of {}", created + 1, yard.case.count), &error);
                end_all(&children);
                return Err(failure);
            }
        }
    }
    let created_ns = clock::monotonic_ns();
    yard.start.open();
    // Whoever ends first is waited for first: if one was killed, the others wait for it at the exit for ever.
    let mut reaped = Vec::with_capacity(children.len());
    while reaped.len() < children.len() {
        let (pid, fate) = match waitpgid(children[0], WaitOptions::empty()) {
            Ok(Some((pid, status))) => (pid, status.exit_status()),
            Ok(None) | Err(Errno::INTR) => continue,
            Err(error) => return Err(CaseError::failed("waiting for the processes", error)),
        };
        reaped.push(pid);
        if fate != Some(0) {
            children.retain(|child| !reaped.contains(child));
            end_all(&children);
            return Err(CaseError::Failed(format!(
                "one of {} processes was ended before it had done its share; look for what kills processes here, \
                 e.g. `dmesg | grep -i oom`",
                yard.case.count
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

// The cells that all units share. What is written often while units run has a cache line of its own.
const CELLS: usize = 24;
/// Units that have lined up.
const READY: usize = 0;
/// When the last had; 0 until then. The flag that lets all go.
const STARTED_NS: usize = 8;
/// Whether the units are to go home without working.
const CANCELLED: usize = 9;
/// Units that have finished their share.
const FINISHED: usize = 16;
/// The latest finish.
const LAST_FINISH_NS: usize = 17;
/// The time from start to finish, summed over units.
const ALIVE_NS: usize = 18;
/// Steps done, summed over units.
const STEPS: usize = 19;
/// CPU time and switches in between, summed over units: each subtracts what it had and adds what it has.
const CPU_NS: usize = 20;
const VOLUNTARY: usize = 21;
const INVOLUNTARY: usize = 22;

/// Where the units meet.
struct Yard {
    case: Case,
    start: Gate,
    exit: Gate,
    cells: SharedCounters<CELLS>,
}

/// Which sign a reading enters the sums with.
#[derive(Clone, Copy)]
enum Reading {
    Before,
    After,
}

impl Yard {
    fn new(case: Case) -> Result<Self, CaseError> {
        let failed = |e| CaseError::failed("mapping the memory that the units share", e);
        Ok(Self {
            case,
            start: Gate::closed().map_err(failed)?,
            exit: Gate::closed().map_err(failed)?,
            cells: SharedCounters::new().map_err(failed)?,
        })
    }

    fn cell(&self, at: usize) -> &AtomicU64 {
        &self.cells[at]
    }

    /// A unit's life.
    fn unit(&self) {
        self.start.pass();
        if self.cell(CANCELLED).load(Relaxed) != 0 {
            return;
        }
        self.line_up();
        let steps = self.work();
        self.finish(steps);
        self.exit.pass();
    }

    /// Waits, ready to run, for the last to come.
    fn line_up(&self) {
        // AcqRel: the last one's start comes after everything the others did before.
        let last = self.cell(READY).fetch_add(1, AcqRel) + 1 == self.case.count;
        if last {
            // Release: pairs with the Acquire load below.
            self.cell(STARTED_NS).store(clock::monotonic_ns(), Release);
            // Read after the start, though it takes half a millisecond at 8,192 threads: read before, the kernel
            // often takes the CPU away behind it, and the others' yields in line are counted as their work's.
            if self.case.unit == Unit::Thread {
                self.account(Reading::Before);
            }
        } else {
            while self.cell(STARTED_NS).load(Acquire) == 0 {
                yield_now();
            }
        }
        if self.case.unit == Unit::Process {
            self.account(Reading::Before);
        }
    }

    /// Does this unit's share; returns the steps done.
    fn work(&self) -> u64 {
        let pieces = self.case.pieces_per_unit();
        let steps = self.case.slices / self.case.count / pieces * STEPS_PER_SLICE;
        for piece in 1..=pieces {
            Burner::burn_units(steps);
            match self.case.mode {
                // Its end gives the CPU up by itself: with two slices each, a yield more would be half as many again.
                Mode::Yield if piece < pieces => yield_now(),
                Mode::Yield | Mode::Neither => {}
                Mode::Sleep => sleep(SLEEP),
            }
        }
        steps * pieces
    }

    /// Leaves the figures; the last one lets all go home.
    fn finish(&self, steps: u64) {
        let now_ns = clock::monotonic_ns();
        let started_ns = self.cell(STARTED_NS).load(Relaxed);
        self.cell(LAST_FINISH_NS).fetch_max(now_ns, Relaxed);
        self.cell(ALIVE_NS).fetch_add(now_ns - started_ns, Relaxed);
        self.cell(STEPS).fetch_add(steps, Relaxed);
        if self.case.unit == Unit::Process {
            self.account(Reading::After);
        }
        // AcqRel: whoever is last has seen what the others left.
        let last = self.cell(FINISHED).fetch_add(1, AcqRel) + 1 == self.case.count;
        if last {
            if self.case.unit == Unit::Thread {
                self.account(Reading::After);
            }
            self.exit.open();
        }
    }

    /// Adds up what was used. For threads one reading covers all of them, so the first and the last unit take it;
    /// a process can only read its own.
    fn account(&self, reading: Reading) {
        let usage = usage_self();
        let figures = [
            (CPU_NS, u64::try_from(usage.cpu().as_nanos()).unwrap_or(0)),
            (VOLUNTARY, usage.switches.voluntary),
            (INVOLUNTARY, usage.switches.involuntary),
        ];
        for (at, value) in figures {
            // Both wrap around, so that the sum is right whatever the order.
            match reading {
                Reading::Before => self.cell(at).fetch_sub(value, Relaxed),
                Reading::After => self.cell(at).fetch_add(value, Relaxed),
            };
        }
    }

    /// Whether the work was done: all of it, once.
    fn check(&self) -> Result<(), CaseError> {
        let (done, finished) = (self.cell(STEPS).load(Relaxed), self.cell(FINISHED).load(Relaxed));
        let wanted = self.case.slices * STEPS_PER_SLICE;
        if (done, finished) == (wanted, self.case.count) {
            return Ok(());
        }
        Err(CaseError::Failed(format!(
            "{finished} of {} units did {done} of {wanted} steps; this is a defect of the laboratory",
            self.case.count
        )))
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_results::Params;

    use super::*;
    use threadgauge_lab::worker::Order;

    fn worker(handicap_percent: u32) -> Worker {
        Worker::new(&Order {
            experiment: "oversubscription".to_owned(),
            params: Params::new(),
            cpus: vec![0],
            handicap_percent,
            launched_ns: 0,
        })
    }

    fn case(unit: Unit, mode: Mode, count: u64) -> Case {
        Case {
            unit,
            mode,
            count,
            cpus: 1,
            slices: 256,
        }
    }

    /// `measure` itself checks that every unit did its share and no more.
    #[test]
    fn every_kind_of_case_does_its_work() {
        for unit in [Unit::Thread, Unit::Process] {
            for mode in [Mode::Yield, Mode::Neither, Mode::Sleep] {
                for count in [1, 2, 32] {
                    let case = case(unit, mode, count);
                    let measured = measure(case, &worker(0)).unwrap();
                    assert!(
                        measured.elapsed_ns > 0.0 && measured.elapsed_ns < measured.total_ns,
                        "{case:?}"
                    );
                    assert!(
                        measured.alive <= count as f64 && measured.alive > 0.0,
                        "{case:?} {measured:?}"
                    );
                }
            }
        }
    }

    // Figures are asserted of processes alone: a thread's are those of the whole process, and other tests run in it.

    #[test]
    fn sleeping_is_counted_as_waiting() {
        let measured = measure(case(Unit::Process, Mode::Sleep, 32), &worker(0)).unwrap();
        // Eight sleeps each; a page that must be waited for may come on top. Who loses the CPU while it lies down, and comes
        // back when its time is over, has not slept.
        assert!((128..=256 + 32).contains(&measured.voluntary), "{measured:?}");
        let measured = measure(case(Unit::Process, Mode::Neither, 32), &worker(0)).unwrap();
        assert!(measured.voluntary <= 32, "{measured:?}");
    }

    #[test]
    fn a_unit_that_cannot_be_had_is_told_and_the_others_go_home() {
        let yard = Yard::new(case(Unit::Thread, Mode::Yield, 4)).unwrap();
        yard.cell(CANCELLED).store(1, Relaxed);
        let created = run_threads(&yard).map(|_| ());
        assert!(created.is_ok());
        assert_eq!(yard.cell(FINISHED).load(Relaxed), 0);
        let says = yard.check().unwrap_err().to_string();
        assert!(says.contains("0 of 4 units"), "{says}");
    }

    #[test]
    fn hidden_work_shows_in_the_figure() {
        // Three times the time, and a single process cannot use more CPU time than time passes.
        let measured = measure(case(Unit::Process, Mode::Neither, 1), &worker(200)).unwrap();
        assert!(measured.elapsed_ns > 2.9 * measured.cpu_ns, "{measured:?}");
        assert!(measured.total_ns > measured.elapsed_ns, "{measured:?}");
    }
}
