//! Making units and ending them, in each way: what the measuring loop sees of them.
//!
//! A batch is held, filled and reaped: with one at a time a batch is one unit that ends by itself; with
//! many, all wait at a gate (a program: at a pipe) until the batch is reaped.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::create::program::Program;
use crate::create::way::{Case, Way};
use crate::sys::clone::{SharedChild, Stack, vfork};
use crate::sys::fork::fork;
use crate::sys::gate::Gate;
use crate::sys::pthread::Thread;
use crate::sys::reap::{Ending, reap};
use crate::sys::sigchld::Reaper;
use crate::sys::spawn::{fork_exec, posix_spawn};
use threadgauge_lab::refusal::refused;
use threadgauge_lab::worker::CaseError;

/// One way of making units.
pub trait Units {
    /// Begins a batch whose units stay until it is reaped. Without it they end by themselves.
    ///
    /// # Errors
    ///
    /// When what holds them cannot be made.
    fn hold(&mut self) -> io::Result<()>;

    /// Makes one more.
    ///
    /// # Errors
    ///
    /// The system's refusal.
    fn create(&mut self) -> io::Result<()>;

    /// Lets the batch go, and waits until the last has ended. Each must have ended well.
    ///
    /// # Errors
    ///
    /// When one cannot be waited for, or ended otherwise than it must.
    fn reap(&mut self) -> io::Result<()>;

    /// Units that were made and not yet reaped, as far as known.
    fn unreaped(&self) -> u64;

    /// Creations that were refused and passed over; only the source's way does that.
    fn refused(&self) -> u64 {
        0
    }
}

/// The units of a case.
///
/// # Errors
///
/// When what they need cannot be had.
pub fn units(case: &Case) -> Result<Box<dyn Units>, CaseError> {
    let failed = |e: io::Error| CaseError::failed(format!("preparing units made by {}", case.way.name()), e);
    let room = usize::try_from(case.alive).unwrap_or(usize::MAX);
    Ok(match case.way {
        Way::Fork => Box::new(Forked {
            gate: (case.alive > 1).then(Gate::closed).transpose().map_err(failed)?,
            children: Vec::with_capacity(room),
        }),
        Way::ForkSigchld => Box::new(Signalled {
            reaper: Reaper::install().map_err(failed)?,
            created: 0,
            refused: 0,
        }),
        Way::Vfork => Box::new(Vforked {
            stack: Stack::new().map_err(failed)?,
            gate: Gate::opened().map_err(failed)?,
            child: None,
        }),
        Way::PosixSpawn => Box::new(Programs::new(posix_spawn, room)?),
        Way::ForkExec => Box::new(Programs::new(fork_exec, room)?),
        Way::CloneVm => Box::new(Cloned {
            gate: Arc::new(Gate::opened().map_err(failed)?),
            stacks: Vec::with_capacity(room),
            children: Vec::with_capacity(room),
        }),
        Way::Pthread => Box::new(Pthreads {
            gate: Arc::new(Gate::opened().map_err(failed)?),
            threads: Vec::with_capacity(room),
        }),
        Way::Std => Box::new(StdThreads {
            gate: Arc::new(Gate::opened().map_err(failed)?),
            threads: Vec::with_capacity(room),
        }),
        Way::Pool => Box::new(Pool::start(room)?),
    })
}

/// Waits for a child, which must have ended with 0.
fn end_well(child: Pid) -> io::Result<()> {
    well(reap(child)?)
}

fn well(ending: Ending) -> io::Result<()> {
    match ending {
        Ending::Code(0) => Ok(()),
        Ending::Code(127) => Err(io::Error::other("a child could not execute the program")),
        Ending::Code(code) => Err(io::Error::other(format!("a child ended with exit code {code}"))),
        Ending::Signal(signal) => Err(io::Error::other(format!("a child was ended by signal {signal}"))),
    }
}

/// Ends all of a batch, also after one of them failed; tells the first failure.
fn each<T>(batch: &mut Vec<T>, mut end: impl FnMut(T) -> io::Result<()>) -> io::Result<()> {
    let mut all = Ok(());
    for unit in batch.drain(..) {
        let ended = end(unit);
        all = all.and(ended);
    }
    all
}

struct Forked {
    /// Where there is one, children stay: touching it costs each of them a page fault.
    gate: Option<Gate>,
    children: Vec<Pid>,
}

impl Units for Forked {
    fn hold(&mut self) -> io::Result<()> {
        if let Some(gate) = &self.gate {
            gate.close();
        }
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        let gate = self.gate.as_ref();
        self.children.push(fork(|| {
            if let Some(gate) = gate {
                gate.pass();
            }
            0
        })?);
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        if let Some(gate) = &self.gate {
            gate.open();
        }
        each(&mut self.children, end_well)
    }

    fn unreaped(&self) -> u64 {
        self.children.len() as u64
    }
}

/// The source's way: nobody waits for a single child.
struct Signalled {
    reaper: Reaper,
    created: u64,
    refused: u64,
}

impl Units for Signalled {
    fn hold(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        match fork(|| 0) {
            Ok(_) => self.created += 1,
            Err(_) => self.refused += 1,
        }
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.reaper.wait_until(self.created);
        match self.reaper.unsuccessful() {
            0 => Ok(()),
            n => Err(io::Error::other(format!("{n} children did not end with 0"))),
        }
    }

    fn unreaped(&self) -> u64 {
        self.created - self.reaper.reaped()
    }

    fn refused(&self) -> u64 {
        self.refused
    }
}

struct Vforked {
    stack: Stack,
    gate: Gate,
    child: Option<Pid>,
}

impl Units for Vforked {
    fn hold(&mut self) -> io::Result<()> {
        Err(io::Error::other(
            "a vforked child holds up its parent: none can be kept alive",
        ))
    }

    fn create(&mut self) -> io::Result<()> {
        self.child = Some(vfork(&mut self.stack, &self.gate)?);
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.child.take().map_or(Ok(()), end_well)
    }

    fn unreaped(&self) -> u64 {
        u64::from(self.child.is_some())
    }
}

type Start = fn(&CStr, &[&CStr]) -> io::Result<Pid>;

struct Programs {
    start: Start,
    program: Program,
    /// The pipe that running programs read: they inherit its reading end, and the writing end is closed
    /// in them and then here.
    pipe: Option<(OwnedFd, OwnedFd, CString)>,
    children: Vec<Pid>,
}

impl Programs {
    fn new(start: Start, room: usize) -> Result<Self, CaseError> {
        Ok(Self {
            start,
            program: Program::new()?,
            pipe: None,
            children: Vec::with_capacity(room),
        })
    }
}

impl Units for Programs {
    fn hold(&mut self) -> io::Result<()> {
        let (reading, writing) = pipe_with(PipeFlags::empty())?;
        rustix::io::fcntl_setfd(&writing, rustix::io::FdFlags::CLOEXEC)?;
        let descriptor = CString::new(reading.as_raw_fd().to_string())?;
        self.pipe = Some((reading, writing, descriptor));
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        let path = self.program.path();
        let child = match &self.pipe {
            None => (self.start)(path, &[c"exit"]),
            Some((_, _, descriptor)) => (self.start)(path, &[c"exit", descriptor]),
        };
        self.children.push(child?);
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.pipe = None;
        each(&mut self.children, end_well)
    }

    fn unreaped(&self) -> u64 {
        self.children.len() as u64
    }
}

struct Cloned {
    gate: Arc<Gate>,
    /// Stacks for the next ones, kept as the C library keeps those of its threads.
    stacks: Vec<Stack>,
    children: Vec<SharedChild>,
}

impl Units for Cloned {
    fn hold(&mut self) -> io::Result<()> {
        self.gate.close();
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        let stack = self.stacks.pop().map_or_else(Stack::new, Ok)?;
        self.children.push(SharedChild::start(stack, &self.gate)?);
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.gate.open();
        let stacks = &mut self.stacks;
        each(&mut self.children, |child| {
            let (ending, stack) = child.reap()?;
            stacks.push(stack);
            well(ending)
        })
    }

    fn unreaped(&self) -> u64 {
        self.children.len() as u64
    }
}

struct Pthreads {
    gate: Arc<Gate>,
    threads: Vec<Thread>,
}

impl Units for Pthreads {
    fn hold(&mut self) -> io::Result<()> {
        self.gate.close();
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        self.threads.push(Thread::start(&self.gate)?);
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.gate.open();
        each(&mut self.threads, Thread::join)
    }

    fn unreaped(&self) -> u64 {
        self.threads.len() as u64
    }
}

struct StdThreads {
    gate: Arc<Gate>,
    threads: Vec<JoinHandle<()>>,
}

impl Units for StdThreads {
    fn hold(&mut self) -> io::Result<()> {
        self.gate.close();
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        let gate = Arc::clone(&self.gate);
        self.threads
            .push(std::thread::Builder::new().spawn(move || gate.pass())?);
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.gate.open();
        each(&mut self.threads, |thread| {
            thread.join().map_err(|_| io::Error::other("a thread panicked"))
        })
    }

    fn unreaped(&self) -> u64 {
        self.threads.len() as u64
    }
}

/// Threads that are there already and wait for a job: as many as jobs may run at once.
struct Pool {
    desk: Arc<Desk>,
    workers: Vec<JoinHandle<()>>,
}

/// Where jobs are handed over. One lock, two conditions: "there is work" and "all is done".
struct Desk {
    state: Mutex<Jobs>,
    work: Condvar,
    done: Condvar,
    /// The job itself: to pass.
    gate: Gate,
}

#[derive(Default)]
struct Jobs {
    /// Handed over, not yet taken.
    waiting: usize,
    /// Handed over, not yet finished.
    unfinished: usize,
    /// Workers that wait for a job.
    idle: usize,
    closing: bool,
}

impl Desk {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(condition: &Condvar, jobs: MutexGuard<'a, Jobs>) -> MutexGuard<'a, Jobs> {
        condition.wait(jobs).unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut jobs = self.jobs();
        loop {
            jobs.idle += 1;
            self.done.notify_one();
            while jobs.waiting == 0 && !jobs.closing {
                jobs = Self::wait(&self.work, jobs);
            }
            jobs.idle -= 1;
            if jobs.waiting == 0 {
                return;
            }
            jobs.waiting -= 1;
            drop(jobs);
            self.gate.pass();
            jobs = self.jobs();
            jobs.unfinished -= 1;
            if jobs.unfinished == 0 {
                self.done.notify_one();
            }
        }
    }
}

impl Pool {
    fn start(size: usize) -> Result<Self, CaseError> {
        let gate = Gate::opened().map_err(|e| CaseError::failed("mapping the gate of a pool", e))?;
        let desk = Arc::new(Desk {
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            gate,
        });
        let mut pool = Self {
            desk: Arc::clone(&desk),
            workers: Vec::with_capacity(size),
        };
        for number in 1..=size {
            let desk = Arc::clone(&desk);
            let worker = std::thread::Builder::new().spawn(move || desk.work());
            pool.workers
                .push(worker.map_err(|e| refused(format!("thread {number} of a pool of {size}"), &e))?);
        }
        let mut jobs = desk.jobs();
        while jobs.idle < size {
            jobs = Desk::wait(&desk.done, jobs);
        }
        drop(jobs);
        Ok(pool)
    }
}

impl Units for Pool {
    fn hold(&mut self) -> io::Result<()> {
        self.desk.gate.close();
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        let mut jobs = self.desk.jobs();
        jobs.waiting += 1;
        jobs.unfinished += 1;
        drop(jobs);
        self.desk.work.notify_one();
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.desk.gate.open();
        let mut jobs = self.desk.jobs();
        while jobs.unfinished > 0 {
            jobs = Desk::wait(&self.desk.done, jobs);
        }
        Ok(())
    }

    fn unreaped(&self) -> u64 {
        self.desk.jobs().unfinished as u64
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.desk.gate.open();
        self.desk.jobs().closing = true;
        self.desk.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has left its job unfinished, which `reap` would have waited for.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way but the signal handler's, which would take the children of other tests.
    fn ways() -> impl Iterator<Item = Way> {
        Way::ALL.into_iter().filter(|w| *w != Way::ForkSigchld)
    }

    #[test]
    fn one_at_a_time_every_unit_ends_and_is_reaped() {
        for way in ways() {
            let mut units = units(&Case::base(way, 5)).unwrap();
            for _ in 0..5 {
                units.create().unwrap();
                units.reap().unwrap();
                assert_eq!(units.unreaped(), 0, "{}", way.name());
            }
        }
    }

    #[test]
    fn a_batch_stays_until_it_is_reaped_and_another_can_follow() {
        for way in ways().filter(|w| w.can_hold()) {
            let case = Case {
                alive: 8,
                ..Case::base(way, 16)
            };
            let mut units = units(&case).unwrap();
            for _ in 0..2 {
                units.hold().unwrap();
                for _ in 0..8 {
                    units.create().unwrap();
                }
                assert_eq!(units.unreaped(), 8, "{}", way.name());
                units.reap().unwrap();
                assert_eq!(units.unreaped(), 0, "{}", way.name());
            }
        }
    }

    #[test]
    fn held_units_have_not_passed_before_they_are_let_go_and_have_afterwards() {
        let gate = Arc::new(Gate::opened().unwrap());
        let mut units = Cloned {
            gate: Arc::clone(&gate),
            stacks: Vec::new(),
            children: Vec::new(),
        };
        units.hold().unwrap();
        for _ in 0..6 {
            units.create().unwrap();
        }
        assert_eq!(gate.passed(), 0);
        units.reap().unwrap();
        assert_eq!(gate.passed(), 6);
        assert_eq!(units.stacks.len(), 6, "stacks are kept for the next");
    }

    #[test]
    fn a_child_that_ends_badly_is_told_and_the_others_are_reaped_all_the_same() {
        let mut units = Forked {
            gate: None,
            children: vec![fork(|| 0).unwrap(), fork(|| 3).unwrap(), fork(|| 0).unwrap()],
        };
        let error = units.reap().unwrap_err().to_string();
        assert_eq!(error, "a child ended with exit code 3");
        assert_eq!(units.unreaped(), 0);
    }

    #[test]
    fn a_pool_ends_its_threads_when_it_is_dropped() {
        let desk = {
            let mut pool = Pool::start(3).unwrap();
            pool.create().unwrap();
            pool.reap().unwrap();
            Arc::clone(&pool.desk)
        };
        assert_eq!(Arc::strong_count(&desk), 1);
        assert_eq!(desk.gate.passed(), 1);
    }
}
