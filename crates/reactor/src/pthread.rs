//! Threads that cost no more than the system's own. An unsafe leaf.
//!
//! `std::thread` gives every thread a place for its result, and a stack on which to report that its own has overflowed:
//! five system calls beside the two that make and end it, which is a fifth of what a short connection costs. A thread
//! that serves one connection needs neither; should its stack overflow, the process ends without saying so.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// The size of a thread's stack, as `std` has it. glibc keeps the stacks of ended threads up to 40 MiB.
const STACK_BYTES: usize = 2 << 20;

/// Threads that work on what they share with their maker. At most one in a slot.
pub(crate) struct Threads<'a, T> {
    shared: &'a T,
    work: fn(&T, usize),
    attributes: libc::pthread_attr_t,
    /// As long as the highest slot used.
    running: Vec<Option<libc::pthread_t>>,
}

/// What a thread is given.
struct Argument<'a, T> {
    shared: &'a T,
    work: fn(&T, usize),
    slot: usize,
}

/// Calls `main` with threads that each do `work` on `shared`, and waits for those that are left.
pub(crate) fn scope<T: Sync, R>(
    shared: &T,
    work: fn(&T, usize),
    main: impl FnOnce(&mut Threads<'_, T>) -> R,
) -> R {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the first call initialises what the second changes. On Linux the first cannot fail, and the second only
    // for a size below 16 KiB.
    let attributes = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        attributes.assume_init()
    };
    // It stays here, where it is dropped whatever `main` does: so no thread outlives `shared`.
    let mut threads = Threads {
        shared,
        work,
        attributes,
        running: Vec::new(),
    };
    main(&mut threads)
}

impl<T: Sync> Threads<'_, T> {
    /// Makes the thread of a slot that has none. A panic ends it alone.
    ///
    /// # Errors
    ///
    /// If there is no thread or memory for it.
    ///
    /// # Panics
    ///
    /// If the slot has one.
    pub fn make(&mut self, slot: usize) -> io::Result<()> {
        if self.running.len() <= slot {
            self.running.resize(slot + 1, None);
        }
        assert!(
            self.running[slot].is_none(),
            "the thread of slot {slot} was not joined"
        );
        let argument = Box::into_raw(Box::new(Argument {
            shared: self.shared,
            work: self.work,
            slot,
        }));
        let mut thread = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised. The argument is the thread's from here on; what it borrows lives
        // until the thread is joined, at the latest when `self` is dropped, and may be used by several threads at
        // once, for `T` is `Sync`.
        let error = unsafe {
            libc::pthread_create(
                thread.as_mut_ptr(),
                &raw const self.attributes,
                begin::<T>,
                argument.cast(),
            )
        };
        if error != 0 {
            // SAFETY: there is no thread that has it.
            drop(unsafe { Box::from_raw(argument) });
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: it was written, since the call succeeded.
        self.running[slot] = Some(unsafe { thread.assume_init() });
        Ok(())
    }

    /// Waits until the thread of a slot has ended, if there is one. The kernel may count it for a moment more.
    pub fn join(&mut self, slot: usize) {
        if let Some(thread) = self.running.get_mut(slot).and_then(Option::take) {
            // SAFETY: it is joined once, for it was taken out. It cannot fail: nobody else joins or detaches it, and
            // it does not join itself.
            unsafe { libc::pthread_join(thread, null_mut()) };
        }
    }

    /// Joins the thread of a slot if it has ended already; whether there is none now.
    pub fn join_if_ended(&mut self, slot: usize) -> bool {
        let Some(Some(thread)) = self.running.get(slot).copied() else {
            return true;
        };
        // SAFETY: it is joined once: if this succeeds it is taken out.
        let ended = unsafe { libc::pthread_tryjoin_np(thread, null_mut()) } == 0;
        if ended {
            self.running[slot] = None;
        }
        ended
    }
}

impl<T> Drop for Threads<'_, T> {
    fn drop(&mut self) {
        for thread in self.running.iter_mut().filter_map(Option::take) {
            // SAFETY: as in `join`.
            unsafe { libc::pthread_join(thread, null_mut()) };
        }
        // SAFETY: they were initialised, and are not used again.
        unsafe { libc::pthread_attr_destroy(&raw mut self.attributes) };
    }
}

extern "C" fn begin<T: Sync>(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `make` gave it to this thread alone.
    let argument = *unsafe { Box::from_raw(argument.cast::<Argument<'_, T>>()) };
    // What it shares is used by others after a panic only as its own locks and atomics allow.
    let Argument { shared, work, slot } = argument;
    let _ = catch_unwind(AssertUnwindSafe(|| work(shared, slot)));
    null_mut()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::{Duration, Instant};

    use super::*;

    fn count(sum: &AtomicUsize, slot: usize) {
        assert!(slot != 3, "a panic ends one thread");
        sum.fetch_add(slot, SeqCst);
    }

    #[test]
    fn each_works_and_none_is_left() {
        let sum = AtomicUsize::new(0);
        scope(&sum, count, |threads| {
            for slot in 0..5 {
                threads.make(slot).expect("a thread");
            }
            threads.join(1);
            threads.make(1).expect("again");
            let deadline = Instant::now() + Duration::from_secs(120);
            while !threads.join_if_ended(2) {
                assert!(Instant::now() < deadline, "it does not end");
                std::thread::yield_now();
            }
            threads.join(2);
        });
        assert_eq!(sum.into_inner(), 1 + 1 + 2 + 4);
    }
}
