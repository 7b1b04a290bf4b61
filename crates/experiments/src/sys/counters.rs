//! Counters in memory that a process shares with the children it forks.
//!
//! Owns one anonymous shared mapping. Forked children see the same memory, so what they add the
//! parent reads; no file, no name, gone with the last process that has it.
#![allow(unsafe_code)]

use std::io;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// `N` counters, all 0 at first, shared with every child forked later.
#[derive(Debug)]
pub struct SharedCounters<const N: usize> {
    mapping: NonNull<[AtomicU64; N]>,
}

impl<const N: usize> SharedCounters<N> {
    /// Maps them.
    ///
    /// # Errors
    ///
    /// The kernel's, when there is no memory or no mapping left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a null hint lets the kernel choose a free range, so no memory that is in use is replaced.
        let mapping = unsafe {
            mmap_anonymous(
                null_mut(),
                Self::BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        }?;
        let mapping = NonNull::new(mapping.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { mapping })
    }

    /// At least one byte, since an empty mapping is refused.
    const BYTES: usize = if N == 0 { 1 } else { size_of::<[AtomicU64; N]>() };
}

impl<const N: usize> Deref for SharedCounters<N> {
    type Target = [AtomicU64; N];

    fn deref(&self) -> &[AtomicU64; N] {
        // SAFETY: the mapping is page-aligned, as long as the array, lives as long as `self`, and holds zeroes or
        // what atomic operations left, each of which is a valid `AtomicU64`; other processes only touch it so too.
        unsafe { self.mapping.as_ref() }
    }
}

impl<const N: usize> Drop for SharedCounters<N> {
    fn drop(&mut self) {
        // SAFETY: the range is the one mapped in `new`, and no reference to it outlives `self`.
        // The result is of no use: unmapping one's own whole mapping does not fail.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), Self::BYTES) };
    }
}

// SAFETY: the mapping belongs to no thread, and it is only reached through atomics.
unsafe impl<const N: usize> Send for SharedCounters<N> {}
// SAFETY: as above: shared references give atomics only.
unsafe impl<const N: usize> Sync for SharedCounters<N> {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::sys::fork::fork;
    use crate::sys::reap::{Ending, reap};

    #[test]
    fn what_a_child_adds_the_parent_reads() {
        let counters = SharedCounters::<2>::new().unwrap();
        counters[0].store(40, Relaxed);
        let child = fork(|| {
            counters[0].fetch_add(2, Relaxed);
            0
        })
        .unwrap();
        assert_eq!(reap(child).unwrap(), Ending::Code(0));
        assert_eq!((counters[0].load(Relaxed), counters[1].load(Relaxed)), (42, 0));
    }
}
