//! One run of a case: the file, who reads it, the clock, and when each read was asked for and there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;
use threadgauge_lab::worker::Lap;
use threadgauge_machine::clock;

use super::case::{By, Case, ReadFrom};
use super::file::{checked, made};
use crate::sys::gate::Gate;
use crate::sys::map::{Map, PAGE};
use crate::sys::uring::{Event, Uring};

/// The most of a map that may be in memory where it is to come from the device.
const MOST_RESIDENT: f64 = 0.02;

/// When a read was asked for, and when it was there. `CLOCK_MONOTONIC`, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    asked_ns: u64,
    there_ns: u64,
}

/// What a run took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// From the start to the last read's end.
    pub(super) elapsed_ns: f64,
    /// From the start to a read's end, the mean.
    pub(super) turnaround_ns: f64,
    /// From asking for a read to its end, the mean.
    pub(super) read_ns: f64,
    /// Of this process.
    pub(super) cpu_ns: f64,
}

/// A run: from when on, until when, and the times of its reads.
struct Run {
    begun_ns: u64,
    end_ns: u64,
    lap: Lap,
    times: Vec<Times>,
}

impl Run {
    fn measured(&self) -> Measured {
        let reads = self.times.len().max(1) as f64;
        // A handicapped worker's extra work is in the lap and delays every read in proportion.
        let stretch = self.lap.wall_ns as f64 / (self.end_ns - self.begun_ns).max(1) as f64;
        let since = |ns: u64| (ns - self.begun_ns) as f64 * stretch;
        let sum = |of: fn(&Times) -> u64| self.times.iter().map(|times| since(of(times))).sum::<f64>();
        let there = self.times.iter().map(|times| since(times.there_ns));
        Measured {
            elapsed_ns: there.fold(0.0, f64::max),
            turnaround_ns: sum(|times| times.there_ns) / reads,
            read_ns: (sum(|times| times.there_ns) - sum(|times| times.asked_ns)) / reads,
            cpu_ns: self.lap.cpu_ns as f64,
        }
    }
}

/// Runs the case.
pub(super) fn measure(case: Case, worker: &Worker) -> Result<Measured, CaseError> {
    let file = made(case)?;
    let places = case.places();
    let run = match case.by {
        By::Threads => by_threads(case, &places, worker, |block, at| file.read_exact_at(block, at)),
        By::Map => {
            let map = map(case, &file)?;
            let copy = |block: &mut [u8], at: u64| {
                map.read(at as usize, block);
                Ok(())
            };
            by_threads(case, &places, worker, copy)
        }
        By::IoUring => by_io_uring(case, &places, worker, &file),
    };
    run.map(|run| run.measured())
}

/// The file's map, whose pages are where the case has them.
fn map(case: Case, file: &File) -> Result<Map, CaseError> {
    let failed = |error| CaseError::failed("mapping the file", error);
    let map = Map::of(file, case.file_mib as usize * 1024 * 1024).map_err(failed)?;
    let resident = map.resident().map_err(failed)?;
    if case.from == ReadFrom::Device && resident > MOST_RESIDENT {
        let says = format!(
            "the file system of {} keeps {:.0} % of the file in memory when told to forget it, so a map does not come from \
             the device",
            case.folder.path().display(),
            resident * 100.0
        );
        return Err(CaseError::Skipped(Lack::new(Need::System, says)));
    }
    Ok(map)
}

/// What fails while blocks are read.
fn failed(error: io::Error) -> CaseError {
    CaseError::failed("reading the file", error)
}

/// Reads by `k` threads that were made before and stand at a gate; the caller where `k` is 1. Each takes the next
/// place.
fn by_threads(
    case: Case,
    places: &[u64],
    worker: &Worker,
    read: impl Fn(&mut [u8], u64) -> io::Result<()> + Sync,
) -> Result<Run, CaseError> {
    // Relaxed: it only gives each place to one thread.
    let next = AtomicUsize::new(0);
    let reads = |block: &mut [u8]| {
        let mut times = Vec::with_capacity(places.len());
        while let Some(&at) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
            let asked_ns = clock::monotonic_ns();
            read(block, at)?;
            let there_ns = clock::monotonic_ns();
            checked(block, at)?;
            times.push(Times { asked_ns, there_ns });
        }
        io::Result::Ok(times)
    };
    if case.k == 1 {
        return with_block(case, |block| timed(worker, || reads(block).map_err(failed)));
    }
    let gate = Gate::closed().map_err(failed)?;
    let (came, arrivals) = mpsc::channel();
    let (went, results) = mpsc::channel();
    thread::scope(|scope| {
        for number in 1..=case.k {
            let (came, went, gate, reads) = (came.clone(), went.clone(), &gate, &reads);
            let made = thread::Builder::new().spawn_scoped(scope, move || {
                with_block(case, |block| {
                    // Nobody listens any more where a later thread was refused.
                    let _ = came.send(());
                    gate.pass();
                    let _ = went.send(reads(block));
                });
            });
            if let Err(error) = made {
                let refusal = refused(format_args!("thread {number} of {}", case.k), &error);
                next.store(places.len(), Ordering::Relaxed);
                gate.open();
                return Err(refusal);
            }
        }
        drop((came, went));
        let threads = case.k as usize;
        arrivals.iter().take(threads).for_each(drop);
        timed(worker, || {
            gate.open();
            let of_each: io::Result<Vec<_>> = results.iter().take(threads).collect();
            of_each.map(|times| times.concat()).map_err(failed)
        })
    })
}

/// Reads by this thread alone, with `k` in flight.
fn by_io_uring(case: Case, places: &[u64], worker: &Worker, file: &File) -> Result<Run, CaseError> {
    let mut ring =
        Uring::new(file, case.k as u32, case.block_bytes()).map_err(|error| no_io_uring(&error))?;
    let mut times = vec![Times::default(); places.len()];
    timed(worker, || {
        let told = |event: Event<'_>| match event {
            Event::Asked(number) => {
                times[number].asked_ns = clock::monotonic_ns();
                Ok(())
            }
            Event::Done(number, block) => {
                times[number].there_ns = clock::monotonic_ns();
                checked(block, places[number])
            }
        };
        ring.read(places, told).map_err(failed)?;
        Ok(times)
    })
}

/// What a case lacks where no ring can be made.
pub(super) fn no_io_uring(error: &io::Error) -> CaseError {
    let says = format!(
        "the kernel refuses io_uring ({error}); it may be switched off (/proc/sys/kernel/io_uring_disabled), or forbidden by the \
         seccomp filter of a container"
    );
    CaseError::Skipped(Lack::new(Need::System, says))
}

/// Times what gives the times of all reads.
fn timed(worker: &Worker, reads: impl FnOnce() -> Result<Vec<Times>, CaseError>) -> Result<Run, CaseError> {
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let times = reads();
    let end_ns = clock::monotonic_ns();
    let lap = watch.stop();
    Ok(Run {
        begun_ns,
        end_ns,
        lap,
        times: times?,
    })
}

/// Lends a block that is aligned as direct reads need it, and in memory.
fn with_block<T>(case: Case, f: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut room = vec![1; case.block_bytes() + PAGE];
    let start = room.as_ptr().align_offset(PAGE);
    f(&mut room[start..start + case.block_bytes()])
}
