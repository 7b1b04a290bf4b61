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

/// Why a crew is not complete.
#[derive(Debug)]
pub struct Refused {
    /// Threads that had been created, and were joined.
    pub created: usize,
    /// What `pthread_create` returned.
    pub error: io::Error,
}

/// Threads that run. Dropping it joins them all.
struct Crew(Vec<libc::pthread_t>);

/// Runs `body` in `count` threads at once; returns when all have ended. The stack is the default of the C
/// library, which takes it from the soft limit `stack`.
///
/// # Errors
///
/// [`Refused`] when a thread could not be created; those that were have ended.
///
/// # Aborts
///
/// When `body` panics: there is nobody to tell.
pub fn crew<F: Fn() + Sync>(count: usize, body: &F) -> Result<(), Refused> {
    let mut crew = Crew(Vec::with_capacity(count));
    for created in 0..count {
        let mut thread = MaybeUninit::uninit();
        // SAFETY: `thread` is written before it is read, null attributes are the defaults, and `enter::<F>` gets the
        // `&F` it expects, which outlives the thread since `crew` is joined before `body`'s borrow ends.
        let refused = unsafe {
            libc::pthread_create(
                thread.as_mut_ptr(),
                null(),
                enter::<F>,
                from_ref(body).cast_mut().cast(),
            )
        };
        if refused != 0 {
            drop(crew);
            let error = io::Error::from_raw_os_error(refused);
            return Err(Refused { created, error });
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
        crew(50, &|| {
            runs.fetch_add(1, Relaxed);
        })
        .unwrap();
        assert_eq!(runs.load(Relaxed), 50);
        crew(0, &|| unreachable!("no thread was asked for")).unwrap();
    }

    #[test]
    fn the_threads_are_there_together() {
        // Each waits for all others: would hang if one ended before the next began.
        let together = std::sync::Barrier::new(8);
        crew(8, &|| {
            together.wait();
        })
        .unwrap();
    }
}
