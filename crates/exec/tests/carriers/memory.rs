//! Memory does not grow with the number of objects, on every carrier that pulls them when their turn comes.
//!
//! The allocator counts what is alive; the peak of a call over many objects is held against that over few. What a
//! helper process uses is its own, and it gets one object after the other.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use threadgauge_exec::OnError;

use crate::carrier::{ALL, Kind, at_most};
use crate::script::{Step, object};
use crate::{Test, test};

static ALIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is the system allocator's; the counters hold no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let alive = ALIVE.fetch_add(layout.size(), SeqCst) + layout.size();
        PEAK.fetch_max(alive, SeqCst);
        // SAFETY: what the caller promised is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALIVE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: what the caller promised is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FEW: usize = 500;
const MANY: usize = 20_000;
/// Bytes of an object's result: all of them would be four megabytes.
const RESULT: usize = 200;
/// What full rings and the buffers of helpers may take that were not full on the other run.
const ROOM: usize = 1 << 20;

pub fn tests() -> Vec<Test> {
    // A thread for each object made up front is O(N) by nature, and its type says so.
    ALL.iter()
        .filter(|kind| **kind != Kind::UpFront)
        .map(|&kind| {
            test(
                format!("{kind:?}::memory_does_not_grow_with_the_number_of_objects"),
                move || memory_does_not_grow_with_the_number_of_objects(kind),
            )
        })
        .collect()
}

fn memory_does_not_grow_with_the_number_of_objects(kind: Kind) {
    // The first call makes what stays.
    peak(kind, FEW);
    let (few, many) = (peak(kind, FEW), peak(kind, MANY));
    println!("{few} bytes for {FEW} objects, {many} for {MANY}");
    assert!(
        many <= few + ROOM,
        "{few} bytes for {FEW} objects, {many} for {MANY}"
    );
}

/// Bytes that a call over so many objects had alive at most.
fn peak(kind: Kind, objects: usize) -> usize {
    let before = ALIVE.load(SeqCst);
    PEAK.store(before, SeqCst);
    let mut bytes = 0;
    let outcome = kind.try_for_each(
        at_most(4).on_error(OnError::Collect),
        (0..objects).map(|id| object(id, [Step::Grow(RESULT)])),
        |done| {
            bytes += done.result.bytes.len();
            ControlFlow::Continue(())
        },
    );
    assert_eq!((outcome.finished, bytes), (objects, objects * RESULT));
    PEAK.load(SeqCst) - before
}
