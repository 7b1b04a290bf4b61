//! Many threads at once, bare: `pthread_create` for all of them, something done while they are there,
//! `pthread_join` for all of them.
//!
//! `std::thread` is not used: it maps an alternate signal stack for every thread, which doubles the mappings of 8,192
//! threads and the time it takes to start them. Stacks are small and of one size. The C library's default follows
//! `ulimit -s`, so the same machine would give other figures in another shell; and 8,192 times 8 MiB are refused where
//! memory may not be overcommitted. The stacks are ours and are unmapped together, when all threads have ended. The C
//! library keeps 40 MiB of stacks and unmaps every other one as its thread ends, with a TLB flush on every CPU. At
//! 8,192 threads that takes longer than everything that is measured.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, from_ref, null_mut};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
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
    /// The caller drops `self`, and so joins the threads, before `body`'s borrow ends and before `stacks` are given
    /// back.
    fn create<F: Fn() + Sync>(&mut self, stacks: &Stacks, count: usize, body: &F) -> Result<(), Refused> {
        let mut attributes = Attributes::new().map_err(|error| Refused { created: 0, error })?;
        for created in 0..count {
            let stack = stacks.stack(created);
            stack
                .and_then(|stack| attributes.set_stack(stack))
                .map_err(|error| Refused { created, error })?;
            let mut thread = MaybeUninit::uninit();
            // SAFETY: `thread` can be written, the attributes are initialised, and `enter::<F>` gets the `&F` it
            // expects, which outlives the thread: `with_threads` joins it before it gives `body` back. So does the
            // stack, which no other thread has.
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

/// The stacks of all threads, each with a guard page below it. Given back when dropped.
struct Stacks {
    base: NonNull<c_void>,
    count: usize,
}

impl Stacks {
    /// Room for `count` stacks, of which no page is there yet.
    fn reserve(count: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let bytes = Self::stride() * count.max(1);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) }?;
        // A huge page of 2 MiB would be zeroed for a few kilobytes that are used. SAFETY: the advice is about our own
        // mapping and changes no byte of it; refused where there are no huge pages.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxNoHugepage) };
        let base = NonNull::new(base).ok_or_else(|| io::Error::other("stacks were mapped at 0"))?;
        Ok(Self { base, count })
    }

    fn stride() -> usize {
        page_size() + STACK_BYTES
    }

    /// The lowest byte of a stack, whose guard page is in force from now on.
    fn stack(&self, number: usize) -> io::Result<NonNull<c_void>> {
        assert!(number < self.count, "there are {} stacks", self.count);
        // SAFETY: `number` is below `count`, so this and the stack above it lie within the mapping.
        let guard = unsafe { self.base.byte_add(number * Self::stride()) };
        // SAFETY: a page of our own mapping, which nobody uses.
        unsafe { forbid(guard) }?;
        // SAFETY: as above.
        Ok(unsafe { guard.byte_add(page_size()) })
    }
}

/// Makes a guard page: the process that touches it ends. Where the kernel can (from 6.13 on, in memory that is not
/// locked), by a mark in the page table. Otherwise by its protection, which splits the mapping in two; with 8,192
/// stacks that takes a sixth of their whole time.
///
/// # Safety
///
/// The page is part of a mapping of the caller's, and is not used.
unsafe fn forbid(page: NonNull<c_void>) -> io::Result<()> {
    /// Of `linux/mman.h`.
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    // SAFETY: by the contract of this function nothing is in the page that could be missed.
    if unsafe { libc::madvise(page.as_ptr(), page_size(), MADV_GUARD_INSTALL) } != 0 {
        // SAFETY: as above.
        unsafe { mprotect(page.as_ptr(), page_size(), MprotectFlags::empty()) }?;
    }
    Ok(())
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
        // The last one first: it probably ends last, so that one wait is enough for all of them.
        while let Some(thread) = self.0.pop() {
            // SAFETY: the thread was created joinable and is joined here only, once. Joining a thread that exists
            // and is not this one does not fail, so the result tells nothing.
            unsafe { libc::pthread_join(thread, null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
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
    fn below_each_stack_lies_a_page_that_cannot_be_touched() {
        let stacks = Stacks::reserve(3).unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        // SAFETY: the kernel reads one byte, and refuses where that cannot be done.
        let can_be_read = |address| unsafe { libc::write(writer.as_raw_fd(), address, 1) } == 1;
        for number in 0..3 {
            let stack = stacks.stack(number).unwrap().as_ptr().cast_const();
            assert!(can_be_read(stack));
            assert!(can_be_read(stack.wrapping_byte_add(STACK_BYTES - 1)));
            assert!(!can_be_read(stack.wrapping_byte_sub(1)));
            assert!(!can_be_read(stack.wrapping_byte_sub(page_size())));
        }
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
