//! What the others are measured against: bare threads, the ideal and the floor. None keeps the whole contract.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Call;
use crate::measure::Finisher;
use crate::work::{Outcome, Work, now_ns};

/// A thread is made for each object and joined, one at a time, by the C library alone.
pub fn pthreads(call: Call, finisher: &mut Finisher) {
    struct Job {
        work: Work,
        object: u64,
        outcome: Option<Outcome>,
    }
    extern "C" fn run(job: *mut c_void) -> *mut c_void {
        // SAFETY: `pthreads` passes a live job and does not touch it before it has joined this thread.
        let job = unsafe { &mut *job.cast::<Job>() };
        job.outcome = Some(job.work.run(job.object));
        ptr::null_mut()
    }
    for object in 0..call.objects {
        let mut job = Job {
            work: call.work,
            object,
            outcome: None,
        };
        let mut thread = MaybeUninit::uninit();
        // SAFETY: the attributes may be null, `run` has the right form, and `job` outlives the thread (joined below).
        let failed =
            unsafe { libc::pthread_create(thread.as_mut_ptr(), ptr::null(), run, (&raw mut job).cast()) };
        assert_eq!(failed, 0, "a thread can be made");
        // SAFETY: it was made above and is joined once.
        unsafe { libc::pthread_join(thread.assume_init(), ptr::null_mut()) };
        finisher.finish(job.outcome.expect("the thread has run"));
    }
}

/// The same by the standard library: at most k, joined in the order of their making.
pub fn std_threads(call: Call, finisher: &mut Finisher) {
    let mut running = std::collections::VecDeque::with_capacity(call.degree);
    for object in 0..call.objects {
        if running.len() == call.degree
            && let Some(first) = running.pop_front()
        {
            finisher.finish(join(first));
        }
        running.push_back(std::thread::spawn(move || call.work.run(object)));
    }
    for thread in running {
        finisher.finish(join(thread));
    }
}

fn join(thread: std::thread::JoinHandle<Outcome>) -> Outcome {
    thread.join().expect("no panic here")
}

/// The same work on k threads, each pinned to a CPU, with nothing between two objects: from the first start to the
/// last end. No results are handed over.
pub fn ideal(call: Call, finisher: &mut Finisher) {
    let degree = call.degree as u64;
    let start = Barrier::new(call.degree);
    let from_to = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..degree)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    pin(number as usize);
                    start.wait();
                    let from_ns = now_ns();
                    let share = call.objects / degree + u64::from(number < call.objects % degree);
                    (0..share).for_each(|object| {
                        black_box(call.work.run(object));
                    });
                    (from_ns, now_ns())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic here"))
            .collect::<Vec<_>>()
    });
    let from_ns = from_to.iter().map(|(from, _)| *from).min().unwrap_or(0);
    let to_ns = from_to.iter().map(|(_, to)| *to).max().unwrap_or(0);
    (0..call.objects).for_each(|value| finisher.finish(Outcome { value, ended_ns: 0 }));
    finisher.took(to_ns - from_ns);
}

/// To the CPU of that number, of those allowed, round and round.
fn pin(number: usize) {
    // SAFETY: a cpu_set_t is a plain array of bits, for which zero is a value.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the pointer is to a live set of that size.
    unsafe { libc::sched_getaffinity(0, size, &mut allowed) };
    // SAFETY: every number is below the size of the set.
    let cpus: Vec<usize> = (0..8 * size)
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) })
        .collect();
    let Some(cpu) = cpus.get(number % cpus.len().max(1)) else {
        return;
    };
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` came from a set of the same size; the pointer is to a live set of that size.
    unsafe {
        libc::CPU_SET(*cpu, &mut one);
        libc::sched_setaffinity(0, size, &one);
    }
}

/// The physical floor: objects claimed from a shared cursor, results through one-to-one rings, the caller at work
/// as well. No bells, permits, panics, early ends or times: who has nothing to do yields.
pub fn floor(call: Call, finisher: &mut Finisher) {
    let batch = if call.work.is_empty() { 64 } else { 1 };
    let cursor = AtomicU64::new(0);
    let rings: Vec<Ring> = (1..call.degree).map(|_| Ring::new()).collect();
    std::thread::scope(|scope| {
        for ring in &rings {
            let cursor = &cursor;
            scope.spawn(move || {
                loop {
                    // Relaxed: the number alone matters.
                    let first = cursor.fetch_add(batch, Ordering::Relaxed);
                    if first >= call.objects {
                        return;
                    }
                    for object in first..(first + batch).min(call.objects) {
                        ring.push(call.work.run(object));
                    }
                    ring.publish();
                }
            });
        }
        let mut left = call.objects;
        while left > 0 {
            let first = cursor.fetch_add(batch, Ordering::Relaxed);
            for object in first..(first + batch).min(call.objects) {
                finisher.finish(call.work.run(object));
                left -= 1;
            }
            let mut drained = 0;
            for ring in &rings {
                drained += ring.drain(finisher);
            }
            left -= drained;
            if first >= call.objects && drained == 0 {
                std::thread::yield_now();
            }
        }
    });
}

const ROOM: usize = 1024;

/// From one worker to the caller.
struct Ring {
    slots: Box<[UnsafeCell<Outcome>]>,
    /// Written and published by the worker, at once for a batch.
    written: Apart<UnsafeCell<usize>>,
    published: Apart<AtomicUsize>,
    read: Apart<AtomicUsize>,
}

#[repr(align(128))]
struct Apart<T>(T);

// SAFETY: one worker pushes, one caller drains; who owns a slot is decided by `published` and `read`.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Self {
        Self {
            slots: (0..ROOM)
                .map(|_| {
                    UnsafeCell::new(Outcome {
                        value: 0,
                        ended_ns: 0,
                    })
                })
                .collect(),
            written: Apart(UnsafeCell::new(0)),
            published: Apart(AtomicUsize::new(0)),
            read: Apart(AtomicUsize::new(0)),
        }
    }

    fn push(&self, outcome: Outcome) {
        // SAFETY: only the worker touches `written`.
        let written = unsafe { &mut *self.written.0.get() };
        // Acquire: the caller's reads of the slot are over.
        while *written - self.read.0.load(Ordering::Acquire) == ROOM {
            self.publish();
            std::thread::yield_now();
        }
        // SAFETY: fewer than ROOM lie there, so the slot is free until it is published.
        unsafe { *self.slots[*written % ROOM].get() = outcome };
        *written += 1;
    }

    fn publish(&self) {
        // SAFETY: only the worker touches `written`, and `publish` is the worker's.
        let written = unsafe { *self.written.0.get() };
        self.published.0.store(written, Ordering::Release);
    }

    fn drain(&self, finisher: &mut Finisher) -> u64 {
        let start = self.read.0.load(Ordering::Relaxed);
        let end = self.published.0.load(Ordering::Acquire);
        for at in start..end {
            // SAFETY: published above and not yet given back.
            finisher.finish(unsafe { *self.slots[at % ROOM].get() });
        }
        self.read.0.store(end, Ordering::Release);
        (end - start) as u64
    }
}
