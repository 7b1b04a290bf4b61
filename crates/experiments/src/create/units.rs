//! Making units and ending them, by each method: what the measuring loop sees of them.
//!
//! A batch is held, filled and reaped: with one at a time a batch is one unit that ends by itself; with
//! many, all wait at a gate (a program: at a pipe) until the batch is reaped.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;

use crate::create::grid::{Case, Method};
use crate::guests::EXIT;
use crate::sys::clone::{SharedChild, Stack, vfork};
use crate::sys::fork::fork;
use crate::sys::gate::Gate;
use crate::sys::pthread::Thread;
use crate::sys::reap::{Ending, reap};
use crate::sys::sigchld::Reaper;
use crate::sys::spawn::{NOT_STARTED, fork_exec, posix_spawn};

/// Units made by one method.
pub trait Units {
    /// Begins a batch whose units stay until it is reaped. Without it they end by themselves.
    ///
    /// # Errors
    ///
    /// When what holds them cannot be made, or they cannot be held.
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

    /// Creations that were refused and passed over; only where a signal handler reaps.
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
    let failed =
        |e: io::Error| CaseError::failed(format!("preparing units made by {}", case.method.name()), e);
    let room = usize::try_from(case.alive).unwrap_or(usize::MAX);
    let gate = || Gate::opened().map(Arc::new).map_err(failed);
    Ok(match case.method {
        // Where no gate is needed there is none: touching it costs each child a page fault.
        Method::Fork => forked((case.alive > 1).then(gate).transpose()?, room),
        Method::ForkSigchld => Box::new(Signalled {
            reaper: Reaper::install().map_err(failed)?,
            created: 0,
            refused: 0,
        }),
        Method::Vfork => {
            let (mut stack, gate) = (Stack::new().map_err(failed)?, gate()?);
            let start = move || vfork(&mut stack, &gate);
            Batch::of(Hold::Never, room, start, end_well)
        }
        Method::PosixSpawn => programs(posix_spawn, room)?,
        Method::ForkExec => programs(fork_exec, room)?,
        Method::CloneVm => cloned(gate()?, Rc::new(RefCell::new(Vec::with_capacity(room))), room),
        Method::Pthread => {
            let gate = gate()?;
            let held_at = Hold::Gate(Arc::clone(&gate));
            let start = move || Thread::start(&gate);
            Batch::of(held_at, room, start, Thread::join)
        }
        Method::Std => {
            let gate = gate()?;
            let held_at = Hold::Gate(Arc::clone(&gate));
            let start = move || {
                let gate = Arc::clone(&gate);
                std::thread::Builder::new().spawn(move || gate.pass())
            };
            let panicked = |_| io::Error::other("a thread panicked");
            let end = move |thread: JoinHandle<()>| thread.join().map_err(panicked);
            Batch::of(held_at, room, start, end)
        }
        Method::Pool => Box::new(Pool::start(room)?),
    })
}

/// Where the units of a batch wait while they are held.
enum Hold {
    /// Nowhere: each ends by itself.
    Never,
    /// At a gate.
    Gate(Arc<Gate>),
    /// Reading from a pipe, while there is one.
    Pipe(Rc<RefCell<Option<Pipe>>>),
}

/// Running programs inherit its reading end, whose number they are told; the writing end is closed in them and then here.
type Pipe = (OwnedFd, OwnedFd, CString);

/// Units of which each is made by `start` and ended by `end`.
struct Batch<T, S, E> {
    held_at: Hold,
    units: Vec<T>,
    start: S,
    end: E,
}

impl<T, S, E> Batch<T, S, E>
where
    T: 'static,
    S: FnMut() -> io::Result<T> + 'static,
    E: FnMut(T) -> io::Result<()> + 'static,
{
    fn of(held_at: Hold, room: usize, start: S, end: E) -> Box<dyn Units> {
        Box::new(Self {
            held_at,
            units: Vec::with_capacity(room),
            start,
            end,
        })
    }
}

impl<T, S, E> Units for Batch<T, S, E>
where
    S: FnMut() -> io::Result<T>,
    E: FnMut(T) -> io::Result<()>,
{
    fn hold(&mut self) -> io::Result<()> {
        match &self.held_at {
            Hold::Never => return Err(io::Error::other("such units cannot be kept alive")),
            Hold::Gate(gate) => gate.close(),
            Hold::Pipe(pipe) => {
                let (reading, writing) = pipe_with(PipeFlags::empty())?;
                rustix::io::fcntl_setfd(&writing, rustix::io::FdFlags::CLOEXEC)?;
                let descriptor = CString::new(reading.as_raw_fd().to_string())?;
                *pipe.borrow_mut() = Some((reading, writing, descriptor));
            }
        }
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        self.units.push((self.start)()?);
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        match &self.held_at {
            Hold::Never => {}
            Hold::Gate(gate) => gate.open(),
            Hold::Pipe(pipe) => *pipe.borrow_mut() = None,
        }
        // All of them, also after one has failed; the first failure is told.
        let ended = self.units.drain(..).map(&mut self.end);
        ended.fold(Ok(()), io::Result::and)
    }

    fn unreaped(&self) -> u64 {
        self.units.len() as u64
    }
}

/// Children of `fork`.
fn forked(gate: Option<Arc<Gate>>, room: usize) -> Box<dyn Units> {
    let held_at = gate.clone().map_or(Hold::Never, Hold::Gate);
    let start = move || {
        fork(|| {
            if let Some(gate) = &gate {
                gate.pass();
            }
            0
        })
    };
    Batch::of(held_at, room, start, end_well)
}

/// Children in this process's memory. Their stacks are kept for the next ones, as the C library keeps those of its
/// threads.
fn cloned(gate: Arc<Gate>, stacks: Rc<RefCell<Vec<Stack>>>, room: usize) -> Box<dyn Units> {
    let (held_at, kept) = (Hold::Gate(Arc::clone(&gate)), Rc::clone(&stacks));
    let start = move || {
        let stack = kept.borrow_mut().pop().map_or_else(Stack::new, Ok)?;
        SharedChild::start(stack, &gate)
    };
    let end = move |child: SharedChild| {
        let (ending, stack) = child.reap()?;
        stacks.borrow_mut().push(stack);
        well(ending)
    };
    Batch::of(held_at, room, start, end)
}

/// Children that are another program, started by `start` with a path and arguments.
fn programs(start: fn(&CStr, &[&CStr]) -> io::Result<Pid>, room: usize) -> Result<Box<dyn Units>, CaseError> {
    let program = EXIT.load()?;
    let pipe = Rc::<RefCell<Option<Pipe>>>::default();
    let held_at = Hold::Pipe(Rc::clone(&pipe));
    let start = move || match &*pipe.borrow() {
        None => start(program.path(), &[c"exit"]),
        Some((_, _, descriptor)) => start(program.path(), &[c"exit", descriptor]),
    };
    Ok(Batch::of(held_at, room, start, end_well))
}

/// Waits for a child, which must have ended with 0.
fn end_well(child: Pid) -> io::Result<()> {
    well(reap(child)?)
}

fn well(ending: Ending) -> io::Result<()> {
    const NO_PROGRAM: i32 = NOT_STARTED as i32;
    Err(io::Error::other(match ending {
        Ending::Code(0) => return Ok(()),
        Ending::Code(NO_PROGRAM) => "a child could not execute the program".to_owned(),
        Ending::Code(code) => format!("a child ended with exit code {code}"),
        Ending::Signal(signal) => format!("a child was ended by signal {signal}"),
    }))
}

/// Children that a signal handler reaps, as source 003's: nobody waits for a single one.
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

/// Threads that are there already and wait for a job: as many as jobs may run at once.
struct Pool {
    queue: Arc<Queue>,
    workers: Vec<JoinHandle<()>>,
}

/// A queue of jobs that are all the same, so that their number is enough. One lock, two conditions: "there is work" and
/// "all is done".
struct Queue {
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

impl Queue {
    /// No panic happens under the lock, and its data would be whole all the same.
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `condition` is told and the jobs are no longer so.
    fn wait<'a>(
        condition: &Condvar,
        jobs: MutexGuard<'a, Jobs>,
        so: fn(&mut Jobs) -> bool,
    ) -> MutexGuard<'a, Jobs> {
        condition
            .wait_while(jobs, so)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut jobs = self.jobs();
        loop {
            jobs.idle += 1;
            self.done.notify_one();
            jobs = Self::wait(&self.work, jobs, |jobs| jobs.waiting == 0 && !jobs.closing);
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
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            gate,
        });
        let mut pool = Self {
            queue: Arc::clone(&queue),
            workers: Vec::with_capacity(size),
        };
        for number in 1..=size {
            let queue = Arc::clone(&queue);
            let worker = std::thread::Builder::new().spawn(move || queue.work());
            pool.workers
                .push(worker.map_err(|e| refused(format!("thread {number} of a pool of {size}"), &e))?);
        }
        let starting = queue.done.wait_while(queue.jobs(), |jobs| jobs.idle < size);
        drop(starting.unwrap_or_else(PoisonError::into_inner));
        Ok(pool)
    }
}

impl Units for Pool {
    fn hold(&mut self) -> io::Result<()> {
        self.queue.gate.close();
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        let mut jobs = self.queue.jobs();
        jobs.waiting += 1;
        jobs.unfinished += 1;
        drop(jobs);
        self.queue.work.notify_one();
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.queue.gate.open();
        drop(Queue::wait(&self.queue.done, self.queue.jobs(), |jobs| {
            jobs.unfinished > 0
        }));
        Ok(())
    }

    fn unreaped(&self) -> u64 {
        self.queue.jobs().unfinished as u64
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.gate.open();
        self.queue.jobs().closing = true;
        self.queue.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has left its job unfinished, which `reap` would have waited for.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every method but the signal handler's, which would take the children of other tests.
    fn methods() -> impl Iterator<Item = Method> {
        Method::ALL.into_iter().filter(|m| *m != Method::ForkSigchld)
    }

    #[test]
    fn one_at_a_time_every_unit_ends_and_is_reaped() {
        for method in methods() {
            let mut units = units(&Case::base(method, 5)).unwrap();
            for _ in 0..5 {
                units.create().unwrap();
                units.reap().unwrap();
                assert_eq!(units.unreaped(), 0, "{}", method.name());
            }
        }
    }

    #[test]
    fn a_batch_stays_until_it_is_reaped_and_another_can_follow() {
        for method in methods().filter(|m| m.can_hold()) {
            let mut units = units(&Case::base(method, 16).alive(8)).unwrap();
            for _ in 0..2 {
                units.hold().unwrap();
                for _ in 0..8 {
                    units.create().unwrap();
                }
                assert_eq!(units.unreaped(), 8, "{}", method.name());
                units.reap().unwrap();
                assert_eq!(units.unreaped(), 0, "{}", method.name());
            }
        }
    }

    #[test]
    fn held_units_have_not_passed_before_they_are_let_go_and_have_afterwards() {
        let (gate, stacks) = (Arc::new(Gate::opened().unwrap()), Rc::default());
        let mut units = cloned(Arc::clone(&gate), Rc::clone(&stacks), 6);
        units.hold().unwrap();
        for _ in 0..6 {
            units.create().unwrap();
        }
        assert_eq!(gate.passed(), 0);
        units.reap().unwrap();
        assert_eq!(gate.passed(), 6);
        assert_eq!(stacks.borrow().len(), 6, "stacks are kept for the next");
    }

    #[test]
    fn units_that_cannot_be_held_say_so() {
        let error = units(&Case::base(Method::Vfork, 5)).unwrap().hold().unwrap_err();
        assert!(error.to_string().contains("cannot be kept alive"), "{error}");
    }

    #[test]
    fn a_child_that_ends_badly_is_told_and_the_others_are_reaped_all_the_same() {
        let mut codes = [0, 3, 0].into_iter();
        let start = move || {
            let code = codes.next().unwrap_or_default();
            fork(|| code)
        };
        let mut units = Batch::of(Hold::Never, 3, start, end_well);
        for _ in 0..3 {
            units.create().unwrap();
        }
        let error = units.reap().unwrap_err().to_string();
        assert_eq!(error, "a child ended with exit code 3");
        assert_eq!(units.unreaped(), 0);
    }

    #[test]
    fn a_pool_ends_its_threads_when_it_is_dropped() {
        let queue = {
            let mut pool = Pool::start(3).unwrap();
            pool.create().unwrap();
            pool.reap().unwrap();
            Arc::clone(&pool.queue)
        };
        assert_eq!(Arc::strong_count(&queue), 1);
        assert_eq!(queue.gate.passed(), 1);
    }
}
