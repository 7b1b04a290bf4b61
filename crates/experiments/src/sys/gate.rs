//! A gate that processes and threads wait at until it is opened for all of them at once.
//!
//! "A thousand units alive" means that each is created, stays, and goes only when told. Pipes would do
//! for threads, but a forked child inherits the writing end and keeps its siblings waiting; a futex in a
//! page that all share needs no descriptor and counts who came.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::futex;

const CLOSED: u32 = 0;
const OPEN: u32 = 1;

/// What lies in the shared page.
#[derive(Debug)]
#[repr(C)]
struct Page {
    /// [`CLOSED`] or [`OPEN`]; the futex.
    state: AtomicU32,
    /// How many passed.
    passed: AtomicU32,
}

/// A gate in a page of its own, shared with every child forked later.
#[derive(Debug)]
pub struct Gate {
    page: NonNull<Page>,
}

// SAFETY: the page holds atomics alone and lives until the gate is dropped; no thread owns it.
unsafe impl Send for Gate {}
// SAFETY: as above; every access goes through an atomic.
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
                size_of::<Page>(),
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }?;
        let page = NonNull::new(page.cast()).ok_or_else(|| io::Error::other("a page was mapped at 0"))?;
        Ok(Self { page })
    }

    /// An open gate: whoever comes passes and is counted.
    ///
    /// # Errors
    ///
    /// When no page can be mapped.
    pub fn opened() -> io::Result<Self> {
        let gate = Self::closed()?;
        gate.open();
        Ok(gate)
    }

    fn page(&self) -> &Page {
        // SAFETY: the mapping is page-aligned, at least as large as `Page`, zeroed (a valid `Page`), and
        // lives as long as `self`.
        unsafe { self.page.as_ref() }
    }

    /// Lets everyone pass, those who wait and those who come later.
    pub fn open(&self) {
        // Release: pairs with the Acquire load in `pass`.
        self.page().state.store(OPEN, Ordering::Release);
        // Nobody waiting is no error, and the kernel knows no other for an address that is mapped.
        let _ = futex::wake(&self.page().state, futex::Flags::empty(), i32::MAX as u32);
    }

    /// Makes those who come later wait. Meant for when everyone has passed.
    pub fn close(&self) {
        self.page().state.store(CLOSED, Ordering::Release);
    }

    /// Waits until the gate is open, and is counted. Allocates nothing and touches no thread-local data,
    /// so a child that shares its parent's memory may call it.
    pub fn pass(&self) {
        let page = self.page();
        // Acquire: pairs with the Release store in `open`.
        while page.state.load(Ordering::Acquire) == CLOSED {
            // Opened meanwhile, or interrupted by a signal: look again.
            let _ = futex::wait(&page.state, futex::Flags::empty(), CLOSED, None);
        }
        page.passed.fetch_add(1, Ordering::Relaxed);
    }

    /// How many passed so far. Exact once they have been waited for.
    pub fn passed(&self) -> u32 {
        self.page().passed.load(Ordering::Relaxed)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `closed`, and nobody can hold a reference to it any more.
        // A failure would leave a page behind, which nothing can be done about here.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), size_of::<Page>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_open_gate_lets_everyone_pass_and_counts_them() {
        let gate = Gate::opened().unwrap();
        gate.pass();
        gate.pass();
        assert_eq!(gate.passed(), 2);
    }

    #[test]
    fn nobody_passes_a_closed_gate_until_it_is_opened() {
        let gate = Gate::closed().unwrap();
        let (came, arrivals) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (gate, came) = (&gate, came.clone());
                scope.spawn(move || {
                    came.send(()).unwrap();
                    gate.pass();
                });
            }
            assert_eq!(arrivals.iter().take(4).count(), 4);
            assert_eq!(gate.passed(), 0);
            gate.open();
        });
        assert_eq!(gate.passed(), 4);
    }
}
