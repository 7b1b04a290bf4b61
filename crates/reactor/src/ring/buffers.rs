//! Buffers that the kernel chooses from when something has come: so a connection that waits needs none. An unsafe leaf.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Their number in the ring that all receives choose from.
pub(super) const GROUP: u16 = 0;
/// A power of two.
const COUNT: u16 = 256;
/// Small and many: all of them can be full of what one client sent before it was told to wait.
const BYTES: usize = 4096;
/// The ring of entries comes first, and is a whole page.
const ENTRIES_BYTES: usize = COUNT as usize * size_of::<BufRingEntry>();

/// The buffers of one ring. They must outlive every receive that may fill one: [`super::Events`] sees to that.
#[derive(Debug)]
pub(super) struct Buffers {
    base: NonNull<u8>,
    /// How many have been given to the kernel, modulo 2¹⁶.
    given: u16,
}

// SAFETY: it owns its mapping.
unsafe impl Send for Buffers {}

/// A buffer that the kernel has filled. To be [taken](Buffers::take), or it is never used again.
#[derive(Debug)]
#[must_use]
pub(crate) struct Filled {
    number: u16,
    count: usize,
}

impl Filled {
    /// As the kernel has answered.
    pub(super) fn new(number: u16, count: usize) -> Self {
        assert!(number < COUNT && count <= BYTES, "a buffer that was given to it");
        Self { number, count }
    }
}

impl Buffers {
    /// All with the kernel, for receives on the ring of `submitter`.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn register(submitter: &Submitter<'_>) -> io::Result<Self> {
        let all = ENTRIES_BYTES + usize::from(COUNT) * BYTES;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            mmap_anonymous(
                null_mut(),
                all,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffers = Self { base, given: 0 };
        // SAFETY: the entries lie at a page's beginning, as many as said, and stay until `self` is dropped, which is
        // after the ring's last receive.
        unsafe {
            submitter.register_buf_ring_with_flags(base.as_ptr() as u64, COUNT, GROUP, 0)?;
        }
        for number in 0..COUNT {
            buffers.give(number);
        }
        Ok(buffers)
    }

    /// Copies what is in the buffer to the front of `into`, which is as large as a buffer at least, and gives the
    /// buffer back to the kernel. How much that was.
    #[expect(clippy::needless_pass_by_value, reason = "a buffer is taken once")]
    pub fn take(&mut self, filled: Filled, into: &mut [u8]) -> usize {
        let Filled { number, count } = filled;
        // SAFETY: the buffer lies in the mapping, for its number is below `COUNT`; the kernel has handed it over and
        // does not write to it before it is given back below.
        let bytes = unsafe { std::slice::from_raw_parts(self.buffer(number), count) };
        into[..count].copy_from_slice(bytes);
        self.give(number);
        count
    }

    fn buffer(&self, number: u16) -> *const u8 {
        let offset = ENTRIES_BYTES + usize::from(number) * BYTES;
        // SAFETY: within the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// To the kernel.
    fn give(&mut self, number: u16) {
        let entries: *mut BufRingEntry = self.base.as_ptr().cast();
        let address = self.buffer(number) as u64;
        // SAFETY: the index is below `COUNT`, and the kernel does not read an entry before the tail has passed it. No
        // more than `COUNT` are ever given, so that the entry is not one that it may still read.
        let entry = unsafe { &mut *entries.add(usize::from(self.given % COUNT)) };
        entry.set_addr(address);
        entry.set_len(BYTES as u32);
        entry.set_bid(number);
        self.given = self.given.wrapping_add(1);
        // SAFETY: the tail is a part of the first entry that `set_…` do not touch, aligned, and valid as long as the
        // mapping.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        // Release: pairs with the kernel's load of the tail before it reads the entries.
        tail.store(self.given, Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let all = ENTRIES_BYTES + usize::from(COUNT) * BYTES;
        // SAFETY: the mapping was made in `register` with this length, and nobody borrows from it. That it fails can
        // only mean that this is untrue.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), all) };
        debug_assert!(unmapped.is_ok());
    }
}
