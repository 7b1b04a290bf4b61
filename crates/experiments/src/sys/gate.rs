//! A gate that processes and threads wait at until it is opened for all of them at once.
//!
//! "A thousand units alive" means that each is created, stays, and goes only when told. Pipes would do
//! for threads, but a forked child inherits the writing end and keeps its siblings waiting; a futex in a
//! page that all share needs no descriptor.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::futex;

const CLOSED: u32 = 0;
const OPEN: u32 = 1;

/// A gate in a page of its own, shared with every child forked later.
#[derive(Debug)]
pub struct Gate {
    /// [`CLOSED`] or [`OPEN`]; the futex.
    state: NonNull<AtomicU32>,
}

// SAFETY: the page holds an atomic alone and lives until the gate is dropped; no thread owns it.
unsafe impl Send for Gate {}
// SAFETY: as above; every access goes through it.
unsafe impl Sync for Gate {}

impl Gate {
    /// A closed gate.
    ///
    /// # Errors
    ///
    /// When no page can be mapped.
    pub fn closed() -> io::Result<Self> {
        let flags = MapFlags::SHARED;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing of ours.
        let page = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                size_of::<AtomicU32>(),
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }?;
        let state = NonNull::new(page.cast()).ok_or_else(|| io::Error::other("a page was mapped at 0"))?;
        Ok(Self { state })
    }

    fn state(&self) -> &AtomicU32 {
        // SAFETY: the mapping is page-aligned, larger than an `AtomicU32`, zeroed (a valid one), and lives as long as
        // `self`.
        unsafe { self.state.as_ref() }
    }

    /// Lets everyone pass, those who wait and those who come later.
    pub fn open(&self) {
        // Release: pairs with the Acquire load in `pass`.
        self.state().store(OPEN, Ordering::Release);
        // Nobody waiting is no error, and the kernel knows no other for an address that is mapped.
        let _ = futex::wake(self.state(), futex::Flags::empty(), i32::MAX as u32);
    }

    /// Waits until the gate is open.
    pub fn pass(&self) {
        // Acquire: pairs with the Release store in `open`.
        while self.state().load(Ordering::Acquire) == CLOSED {
            // Opened meanwhile, or interrupted by a signal: look again.
            let _ = futex::wait(self.state(), futex::Flags::empty(), CLOSED, None);
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `closed`, and nobody can hold a reference to it any more.
        // A failure would leave a page behind, which nothing can be done about here.
        let _ = unsafe { munmap(self.state.as_ptr().cast(), size_of::<AtomicU32>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn nobody_passes_a_closed_gate_until_it_is_opened_and_then_everyone() {
        let gate = Gate::closed().unwrap();
        let (came, arrivals) = mpsc::channel();
        let (went, departures) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (gate, came, went) = (&gate, came.clone(), went.clone());
                scope.spawn(move || {
                    came.send(()).unwrap();
                    gate.pass();
                    went.send(()).unwrap();
                });
            }
            assert_eq!(arrivals.iter().take(4).count(), 4);
            assert!(departures.try_recv().is_err());
            gate.open();
            assert_eq!(departures.iter().take(4).count(), 4);
        });
        gate.pass();
    }

    #[test]
    fn a_gate_that_is_gone_leaves_no_page_behind() {
        let pages = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().filter(|line| line.contains("/dev/zero")).count()
        };
        let before = pages();
        drop((0..1_000).map(|_| Gate::closed().unwrap()).collect::<Vec<_>>());
        // Other tests have some meanwhile.
        assert!(pages() < before + 500);
    }
}
