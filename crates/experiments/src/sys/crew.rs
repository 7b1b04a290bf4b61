//! A crew of threads as a C program has it: all created with `pthread_create` and default attributes,
//! then all joined.
//!
//! `std::thread` is not used: it sets a stack size of its own, names things and counts references, none of
//! which the measured programs do.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{from_ref, null, null_mut};

/// Threads that run. Dropping it joins them all.
struct Crew(Vec<libc::pthread_t>);

/// Runs `body` in `count` threads at once; returns when all have ended. The stack is the default of the C
/// library, which takes it from the soft limit `stack`.
///
/// # Errors
///
/// When a thread could not be created: what `refused` makes of the number of those that were and of what
/// `pthread_create` returned. It is asked while those are still there; they have ended at the return.
///
/// # Aborts
///
/// When `body` panics: there is nobody to tell.
pub fn crew<F: Fn() + Sync, E>(
    count: usize,
    body: &F,
    refused: impl FnOnce(usize, io::Error) -> E,
) -> Result<(), E> {
    let mut crew = Crew(Vec::with_capacity(count));
    for created in 0..count {
        let mut thread = MaybeUninit::uninit();
        // SAFETY: `thread` is written before it is read, null attributes are the defaults, and `enter::<F>` gets the
        // `&F` it expects, which outlives the thread since `crew` is joined before `body`'s borrow ends.
        let error = unsafe {
            libc::pthread_create(
                thread.as_mut_ptr(),
                null(),
                enter::<F>,
                from_ref(body).cast_mut().cast(),
            )
        };
        if error != 0 {
            return Err(refused(created, io::Error::from_raw_os_error(error)));
        }
        // SAFETY: `pthread_create` returned 0, so it stored the thread's id.
        crew.0.push(unsafe { thread.assume_init() });
    }
    Ok(())
}

extern "C" fn enter<F: Fn() + Sync>(body: *mut c_void) -> *mut c_void {
    // SAFETY: `crew` passes a pointer to an `F` that outlives this thread; `F: Sync` allows sharing it.
    let body = unsafe { &*body.cast::<F>() };
    body();
    null_mut()
}

impl Drop for Crew {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // SAFETY: the thread was created joinable and is joined here only, once. Joining a thread that exists
            // and is not this one does not fail, so the result tells nothing.
            unsafe { libc::pthread_join(thread, null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn every_thread_runs_the_body_and_has_ended_at_the_return() {
        let runs = AtomicUsize::new(0);
        let body = || {
            runs.fetch_add(1, Relaxed);
        };
        crew(50, &body, |_, error| error).unwrap();
        assert_eq!(runs.load(Relaxed), 50);
        crew(0, &body, |_, error| error).unwrap();
        assert_eq!(runs.load(Relaxed), 50);
    }

    #[test]
    fn the_threads_are_there_together() {
        // Each waits for all others: would hang if one ended before the next began.
        let together = std::sync::Barrier::new(8);
        let body = || {
            together.wait();
        };
        crew(8, &body, |_, error| error).unwrap();
    }
}
