//! Memory that is really there: mapped, and every page of it written.
//!
//! What a fork costs is the page tables it copies, so "a parent of 1 GiB" means pages that exist, small or
//! huge as asked for.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The smallest page of any machine Linux runs on; writing one byte in each reaches larger pages too.
const PAGE_BYTES: usize = 4096;
const MIB: usize = 1024 * 1024;

/// Whether the kernel may use huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// Never: base pages, as where transparent huge pages are off.
    No,
    /// Wherever it can.
    Yes,
}

/// Anonymous private memory, all pages written. Given back when dropped.
#[derive(Debug)]
pub struct Touched {
    base: NonNull<c_void>,
    bytes: usize,
}

impl Touched {
    /// Maps and writes `mib` MiB (at least 1).
    ///
    /// # Errors
    ///
    /// When it cannot be mapped. A kernel without transparent huge pages has nothing to refuse: see
    /// [`Touched::new`]'s caller, which looks at what it got.
    pub fn new(mib: usize, pages: HugePages) -> io::Result<Self> {
        let bytes = mib.max(1) * MIB;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }?;
        let memory = Self {
            base: NonNull::new(base).ok_or_else(|| io::Error::other("memory was mapped at 0"))?,
            bytes,
        };
        let advice = match pages {
            HugePages::No => Advice::LinuxNoHugepage,
            HugePages::Yes => Advice::LinuxHugepage,
        };
        // SAFETY: the advice is about our own mapping and changes no byte of it. Refused (EINVAL) only
        // where the kernel has no transparent huge pages, where there is nothing to advise.
        let _ = unsafe { madvise(base, bytes, advice) };
        // SAFETY: the mapping is ours and fresh: its zeroes are written nowhere else. A kernel before 5.14 refuses, and the
        // loop below does the work alone.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxPopulateWrite) };
        for offset in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: inside the mapping, writable, and nobody else knows it. Volatile, since nobody reads
            // it either and the write must happen.
            unsafe { base.cast::<u8>().add(offset).write_volatile(1) };
        }
        Ok(memory)
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, and no reference into it was ever given out.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_there() {
        let memory = Touched::new(24, HugePages::No).unwrap();
        // A byte a page, of which the lowest bit says whether it is there.
        let mut pages = vec![0_u8; memory.bytes / rustix::param::page_size()];
        // SAFETY: the mapping is whole, and `pages` has a byte for each of its pages.
        let told = unsafe { libc::mincore(memory.base.as_ptr(), memory.bytes, pages.as_mut_ptr()) };
        assert_eq!(told, 0);
        let there = pages.iter().filter(|page| **page & 1 == 1).count();
        assert_eq!((there, memory.bytes), (pages.len(), 24 * MIB));
    }
}
