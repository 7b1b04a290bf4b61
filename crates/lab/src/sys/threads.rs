//! Many threads at once, bare: `pthread_create` for all of them, something done while they are there,
//! `pthread_join` for all of them.
//!
//! `std::thread` is not used: it maps an alternate signal stack for every thread, which doubles the mappings of
//! 8,192 threads and the time it takes to start them. Stacks are small and of one size: the C library's default
//! follows `ulimit -s`, so the same machine would give other figures in another shell, and 8,192 times 8 MiB are
//! refused where memory may not be overcommitted. They are ours and go at once, when all threads have ended: the C library
//! keeps 40 MiB of stacks and unmaps every other one as its thread ends, each time telling every CPU, which at 8,192
//! threads takes longer than all that is measured.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, from_ref, null_mut};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;

/// Bytes of each stack, with a guard page below. Whole pages, whatever the machine's page size.
const STACK_BYTES: usize = 64 * 1024;

/// Why there are fewer threads than wanted.
#[derive(Debug)]
pub struct Refused {
    /// How many were created.
    pub created: usize,
    /// What `pthread_create` returned.
    pub error: io::Error,
}

/// Threads that run. Dropping it joins them all.
struct Threads(Vec<libc::pthread_t>);

/// Creates `count` threads that run `body`, calls `meanwhile` when all are there (or when one was refused),
/// and returns its value when all have ended.
///
/// `body` has a stack of 64 KiB, and a guard page that ends the process when that is not enough.
///
/// Blocks until every thread has ended, so `meanwhile` must let them go, also after a refusal.
///
/// # Aborts
///
/// When `body` panics: there is nobody to tell.
pub fn with_threads<F: Fn() + Sync, R>(
    count: usize,
    body: &F,
    meanwhile: impl FnOnce(Result<(), Refused>) -> R,
) -> R {
    let mut threads = Threads(Vec::with_capacity(count));
    let stacks = match Stacks::reserve(count) {
        Ok(stacks) => stacks,
        Err(error) => return meanwhile(Err(Refused { created: 0, error })),
    };
    let created = threads.create(&stacks, count, body);
    let value = meanwhile(created);
    drop(threads);
    drop(stacks);
    value
}

impl Threads {
    /// The caller drops `self`, and so joins the threads, before `body`'s borrow ends and before `stacks` are given back.
    fn create<F: Fn() + Sync>(&mut self, stacks: &Stacks, count: usize, body: &F) -> Result<(), Refused> {
        let mut attributes = Attributes::new().map_err(|error| Refused { created: 0, error })?;
        for created in 0..count {
            let stack = stacks.stack(created);
            stack
                .and_then(|stack| attributes.set_stack(stack))
                .map_err(|error| Refused { created, error })?;
            let mut thread = MaybeUninit::uninit();
            // SAFETY: `thread` can be written, the attributes are initialised, and `enter::<F>` gets the `&F` it
            // expects, which outlives the thread: `with_threads` joins it before it gives `body` back. So does the stack,
            // which no other thread has.
            let refused = unsafe {
                libc::pthread_create(
                    thread.as_mut_ptr(),
                    &raw const attributes.0,
                    enter::<F>,
                    from_ref(body).cast_mut().cast(),
                )
            };
            if refused != 0 {
                let error = io::Error::from_raw_os_error(refused);
                return Err(Refused { created, error });
            }
            // SAFETY: `pthread_create` returned 0, so it has stored the thread's id.
            self.0.push(unsafe { thread.assume_init() });
        }
        Ok(())
    }
}

/// What a thread is created with.
struct Attributes(libc::pthread_attr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: `raw` can be written.
        match unsafe { libc::pthread_attr_init(raw.as_mut_ptr()) } {
            // SAFETY: it returned 0, so it has initialised them.
            0 => Ok(Self(unsafe { raw.assume_init() })),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// The next thread runs on `STACK_BYTES` from `stack` up.
    fn set_stack(&mut self, stack: NonNull<c_void>) -> io::Result<()> {
        // SAFETY: they are initialised, and ours alone; the stack is only noted here.
        match unsafe { libc::pthread_attr_setstack(&raw mut self.0, stack.as_ptr(), STACK_BYTES) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: they were initialised in `new`, and no thread needs them once it is created.
        unsafe { libc::pthread_attr_destroy(&raw mut self.0) };
    }
}

/// Addresses for the stacks of all threads, each with a guard page below it. Given back when dropped.
struct Stacks {
    base: NonNull<c_void>,
    count: usize,
}

impl Stacks {
    /// Room for `count` stacks that nobody can touch yet.
    fn reserve(count: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let bytes = Self::stride() * count.max(1);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), flags) }?;
        let base = NonNull::new(base).ok_or_else(|| io::Error::other("stacks were mapped at 0"))?;
        Ok(Self { base, count })
    }

    fn stride() -> usize {
        page_size() + STACK_BYTES
    }

    /// The lowest byte of a stack that can be used from now on.
    fn stack(&self, number: usize) -> io::Result<NonNull<c_void>> {
        assert!(number < self.count, "there are {} stacks", self.count);
        // SAFETY: `number` is below `count`, so this lies within the mapping.
        let stack = unsafe { self.base.byte_add(number * Self::stride() + page_size()) };
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: whole pages of our own mapping, which nobody knows yet. The guard page below stays as it is.
        unsafe { mprotect(stack.as_ptr(), STACK_BYTES, access) }?;
        Ok(stack)
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `reserve`, and `with_threads` has joined every thread that ran on it.
        let _ = unsafe { munmap(self.base.as_ptr(), Self::stride() * self.count.max(1)) };
    }
}

extern "C" fn enter<F: Fn() + Sync>(body: *mut c_void) -> *mut c_void {
    // SAFETY: `create` passes a pointer to an `F` that outlives this thread; `F: Sync` allows sharing it.
    let body = unsafe { &*body.cast::<F>() };
    body();
    null_mut()
}

impl Drop for Threads {
    fn drop(&mut self) {
        // The last one first: it probably ends last, so that waiting for it once is waiting for all of them.
        while let Some(thread) = self.0.pop() {
            // SAFETY: the thread was created joinable and is joined here only, once. Joining a thread that exists
            // and is not this one does not fail, so the result tells nothing.
            unsafe { libc::pthread_join(thread, null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::sys::gate::Gate;

    #[test]
    fn all_threads_are_there_before_the_first_is_let_go() {
        let gate = Gate::closed().unwrap();
        let ended = AtomicUsize::new(0);
        let body = || {
            gate.pass();
            ended.fetch_add(1, Relaxed);
        };
        let before = with_threads(40, &body, |created| {
            created.unwrap();
            let before = ended.load(Relaxed);
            gate.open();
            before
        });
        assert_eq!((before, ended.load(Relaxed)), (0, 40));
    }

    #[test]
    fn what_the_threads_borrow_is_given_back() {
        let shared = Arc::new(());
        let body = || {
            let _held = Arc::clone(&shared);
        };
        with_threads(5, &body, |created| created.unwrap());
        with_threads(0, &body, |created| created.unwrap());
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
