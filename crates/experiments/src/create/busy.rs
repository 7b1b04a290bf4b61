//! Competing units: as many as a case says, computing until they are ended.
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

use crate::create::grid::Unit;
use crate::sys::fork::fork;
use crate::sys::gate::Gate;
use crate::sys::reap::reap;

/// Steps between two looks at the clock, some 20 µs.
const STEPS: u32 = 10_000;

/// Threads or processes that compute. Ended when dropped.
#[derive(Default)]
pub struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// The CPU time of each thread so far, ns, as it last said.
    cpu_ns: Vec<Arc<AtomicU64>>,
    processes: Vec<Pid>,
}

impl Busy {
    /// Starts `count` of these units, and waits until all of them are computing.
    ///
    /// # Errors
    ///
    /// When one is refused.
    pub fn start(unit: Unit, count: u64) -> io::Result<Self> {
        let mut busy = Self::default();
        if count == 0 {
            return Ok(busy);
        }
        let here = Arc::new(Gate::opened()?);
        for _ in 0..count {
            match unit {
                Unit::Thread => busy.start_thread(Arc::clone(&here))?,
                Unit::Process => busy.start_process(&here)?,
            }
        }
        while u64::from(here.passed()) < count {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(busy)
    }

    fn start_thread(&mut self, here: Arc<Gate>) -> io::Result<()> {
        let (stop, own_ns) = (Arc::clone(&self.stop), Arc::<AtomicU64>::default());
        self.cpu_ns.push(Arc::clone(&own_ns));
        self.threads.push(std::thread::Builder::new().spawn(move || {
            here.pass();
            // Relaxed: the flag carries no data, and the figures need no order.
            while !stop.load(Ordering::Relaxed) {
                compute();
                own_ns.store(clock::thread_cpu_ns(), Ordering::Relaxed);
            }
        })?);
        Ok(())
    }

    fn start_process(&mut self, here: &Gate) -> io::Result<()> {
        self.processes.push(fork(|| {
            // Should the worker be ended, nobody else would end this loop.
            if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
                return 1;
            }
            here.pass();
            loop {
                compute();
            }
        })?);
        Ok(())
    }

    /// The CPU time that threads of this process have spent here so far, ns; that of processes counts
    /// when they are reaped, after the measurement.
    pub fn own_cpu_ns(&self) -> u64 {
        self.cpu_ns.iter().map(|ns| ns.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // All are told before the first is waited for: each needs the CPU once more to end, and those who compute on
        // would make it wait for their time slices.
        for &child in &self.processes {
            // Our own children: alive until killed here, and reaped by nobody else.
            let _ = kill_process(child, Signal::KILL);
        }
        for thread in self.threads.drain(..) {
            // They cannot panic, and the measurement is over.
            let _ = thread.join();
        }
        for child in self.processes.drain(..) {
            let _ = reap(child);
        }
    }
}

/// Computes for some 20 µs without touching memory.
fn compute() {
    let mut value = 1_u64;
    for step in 0..STEPS {
        let next = value
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(step.into());
        value = std::hint::black_box(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_threads_use_cpu_time_and_end() {
        let busy = Busy::start(Unit::Thread, 2).unwrap();
        while busy.own_cpu_ns() == 0 {
            std::thread::yield_now();
        }
        let stop = Arc::clone(&busy.stop);
        assert_eq!((busy.threads.len(), busy.processes.len()), (2, 0));
        drop(busy);
        assert_eq!(Arc::strong_count(&stop), 1, "a thread is still there");
    }

    #[test]
    fn busy_processes_are_killed_and_reaped() {
        let busy = Busy::start(Unit::Process, 2).unwrap();
        let children = busy.processes.clone();
        assert_eq!((busy.threads.len(), children.len()), (0, 2));
        drop(busy);
        for child in children {
            assert!(reap(child).is_err(), "a child is still there");
        }
    }
}
