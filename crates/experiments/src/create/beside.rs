//! Others that compute beside: as many as a case says, until they are ended.
//!
//! Beside threads, threads of the same process, as the claim has it. Beside processes, processes: a worker
//! that forks must be single-threaded when it does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use threadgauge_machine::clock;

use crate::create::way::{Case, Way};
use crate::sys::fork::fork;
use crate::sys::gate::Gate;
use crate::sys::reap::reap;

/// Steps between two looks at the clock, some 20 µs.
const STEPS: u32 = 10_000;

/// Those who compute. Ended when dropped.
#[derive(Default)]
pub struct Beside {
    threads: Option<Threads>,
    processes: Option<Processes>,
}

impl Beside {
    /// Starts those the case wants, and waits until all of them are computing.
    ///
    /// # Errors
    ///
    /// When one is refused.
    pub fn start(case: &Case) -> io::Result<Self> {
        let mut beside = Self::default();
        if case.busy == 0 {
            return Ok(beside);
        }
        let here = Arc::new(Gate::opened()?);
        if case.way.unit() == Way::Pthread.unit() {
            beside.threads = Some(Threads::start(case.busy, &here)?);
        } else {
            beside.processes = Some(Processes::start(case.busy, &here)?);
        }
        while u64::from(here.passed()) < case.busy {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(beside)
    }

    /// The CPU time that threads of this process have spent beside so far, ns; that of processes counts
    /// when they are reaped, after the measurement.
    pub fn own_cpu_ns(&self) -> u64 {
        self.threads.as_ref().map_or(0, Threads::cpu_ns)
    }
}

/// Threads that compute until dropped.
pub struct Threads {
    stop: Arc<AtomicBool>,
    /// The CPU time of each so far, ns, as it last said.
    cpu_ns: Arc<Vec<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(count: u64, here: &Arc<Gate>) -> io::Result<Self> {
        let mut beside = Self {
            stop: Arc::default(),
            cpu_ns: Arc::new((0..count).map(|_| AtomicU64::new(0)).collect()),
            threads: Vec::new(),
        };
        for i in 0..beside.cpu_ns.len() {
            let (stop, cpu_ns) = (Arc::clone(&beside.stop), Arc::clone(&beside.cpu_ns));
            let here = Arc::clone(here);
            beside.threads.push(std::thread::Builder::new().spawn(move || {
                here.pass();
                // Relaxed: the flag carries no data, and the figures need no order.
                while !stop.load(Ordering::Relaxed) {
                    compute();
                    cpu_ns[i].store(clock::thread_cpu_ns(), Ordering::Relaxed);
                }
            })?);
        }
        Ok(beside)
    }

    fn cpu_ns(&self) -> u64 {
        self.cpu_ns.iter().map(|ns| ns.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // They cannot panic, and the measurement is over.
            let _ = thread.join();
        }
    }
}

/// Children that compute until dropped.
#[derive(Default)]
pub struct Processes(Vec<Pid>);

impl Processes {
    fn start(count: u64, here: &Gate) -> io::Result<Self> {
        let mut beside = Self::default();
        for _ in 0..count {
            beside.0.push(fork(|| {
                // Should the worker be ended, nobody else would end this loop.
                if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
                    return 1;
                }
                here.pass();
                loop {
                    compute();
                }
            })?);
        }
        Ok(beside)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // All are told before the first is waited for: each needs the CPU once more to end, and those who compute on
        // would make it wait for their time slices.
        for &child in &self.0 {
            // Our own children: alive until killed here, and reaped by nobody else.
            let _ = kill_process(child, Signal::KILL);
        }
        for child in self.0.drain(..) {
            let _ = reap(child);
        }
    }
}

/// Computes for some 20 µs without touching memory.
fn compute() {
    let mut value = 1_u64;
    for step in 0..STEPS {
        value = std::hint::black_box(
            value
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(step.into()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_beside_use_cpu_time_and_end() {
        let case = Case {
            busy: 2,
            ..Case::base(Way::Pthread, 1)
        };
        let beside = Beside::start(&case).unwrap();
        while beside.own_cpu_ns() == 0 {
            std::thread::yield_now();
        }
        let threads = beside.threads.as_ref().expect("beside threads compute threads");
        let cpu_ns = Arc::clone(&threads.cpu_ns);
        drop(beside);
        assert_eq!(Arc::strong_count(&cpu_ns), 1, "a thread is still there");
    }

    #[test]
    fn processes_beside_are_killed_and_reaped() {
        let case = Case {
            busy: 2,
            ..Case::base(Way::Fork, 1)
        };
        let beside = Beside::start(&case).unwrap();
        let processes = beside
            .processes
            .as_ref()
            .expect("beside processes compute processes");
        let children = processes.0.clone();
        assert_eq!(children.len(), 2);
        drop(beside);
        for child in children {
            assert!(reap(child).is_err(), "a child is still there");
        }
    }
}
