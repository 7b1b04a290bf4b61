//! Buffers that the kernel chooses from when something has come: so a connection that waits needs none. An unsafe leaf.
//!
//! Where the kernel can (Linux 6.12), it uses a buffer bit by bit: one receive begins where the one before has ended.
//! So as many receives as come at once find room, if they are small, and one that is large lies in one piece.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::Submitter;
use io_uring::types::{BufRingEntry, IOU_PBUF_RING_INC};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::connection::RECEIVE_BYTES;

/// Their number in the ring that all receives choose from.
pub(super) const GROUP: u16 = 0;
/// How many there are, a power of two, where each is used bit by bit.
const LARGE: u16 = 16;
/// The same where each is used for one receive.
const SMALL: u16 = 256;
/// Of all buffers together. Few: all of it can be full of what one client sent before it was told to wait.
const BYTES: usize = LARGE as usize * RECEIVE_BYTES;
/// The ring of entries comes first, and has a whole page.
const ENTRIES_BYTES: usize = 4096;
const _: () = assert!(SMALL as usize * size_of::<BufRingEntry>() <= ENTRIES_BYTES);

/// The buffers of one ring. They must outlive every receive that may fill one: [`super::Events`] sees to that.
#[derive(Debug)]
pub(super) struct Buffers {
    base: NonNull<u8>,
    /// By number.
    states: Box<[State]>,
    /// How many have been given to the kernel, modulo 2¹⁶.
    given: u16,
}

// SAFETY: it owns its mapping.
unsafe impl Send for Buffers {}

/// How far a buffer has been used since it was given to the kernel.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Bytes that the kernel has filled.
    filled: usize,
    /// Fillings that nobody has taken.
    untaken: usize,
    /// The kernel fills no more of it.
    is_done: bool,
}

/// What the kernel has filled. To be [taken](Buffers::take), or its buffer is never used again.
#[derive(Debug)]
#[must_use]
pub(crate) struct Filled {
    number: u16,
    start: usize,
    count: usize,
}

impl Buffers {
    /// All with the kernel, for receives on the ring of `submitter`.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn register(submitter: &Submitter<'_>) -> io::Result<Self> {
        Self::new(LARGE, IOU_PBUF_RING_INC as u16, submitter).or_else(|_| Self::register_old(submitter))
    }

    /// The same for a kernel that does not know to use them bit by bit.
    pub fn register_old(submitter: &Submitter<'_>) -> io::Result<Self> {
        Self::new(SMALL, 0, submitter)
    }

    fn new(count: u16, flags: u16, submitter: &Submitter<'_>) -> io::Result<Self> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            mmap_anonymous(
                null_mut(),
                ENTRIES_BYTES + BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let mut buffers = Self {
            base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            states: vec![State::default(); usize::from(count)].into_boxed_slice(),
            given: 0,
        };
        // SAFETY: the entries lie at a page's beginning, as many as said, and stay until `buffers` is dropped, which is
        // after the ring's last receive.
        unsafe { submitter.register_buf_ring_with_flags(base as u64, count, GROUP, flags) }?;
        for number in 0..count {
            buffers.give(number);
        }
        Ok(buffers)
    }

    /// As the kernel has answered: `count` bytes more are in a buffer, and others may follow (`more`). In the order of
    /// its answers: they do not say where in the buffer the bytes are.
    pub fn filled(&mut self, number: u16, count: usize, more: bool) -> Filled {
        let size = self.size();
        let state = &mut self.states[usize::from(number)];
        let start = state.filled;
        assert!(
            !state.is_done && count <= size - start,
            "a buffer that was given to it"
        );
        state.filled += count;
        state.untaken += 1;
        state.is_done = !more;
        Filled { number, start, count }
    }

    /// Copies what has come to the front of `into`, which has room for `RECEIVE_BYTES` at least, and gives the
    /// buffer back to the kernel if that is done with it. How much that was.
    #[expect(clippy::needless_pass_by_value, reason = "it is taken once")]
    pub fn take(&mut self, filled: Filled, into: &mut [u8]) -> usize {
        let Filled { number, start, count } = filled;
        // SAFETY: the bytes lie in the mapping, for `filled` has seen to it that they lie in their buffer; the kernel
        // has handed them over and does not write to them before the buffer is given back, which it is not before all
        // of its fillings are taken, this one too.
        let bytes = unsafe { std::slice::from_raw_parts(self.buffer(number).add(start), count) };
        into[..count].copy_from_slice(bytes);
        let state = &mut self.states[usize::from(number)];
        state.untaken -= 1;
        if state.is_done && state.untaken == 0 {
            self.give(number);
        }
        count
    }

    /// Of each.
    fn size(&self) -> usize {
        BYTES / self.states.len()
    }

    fn buffer(&self, number: u16) -> *const u8 {
        let offset = ENTRIES_BYTES + usize::from(number) * self.size();
        // SAFETY: within the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// To the kernel.
    fn give(&mut self, number: u16) {
        self.states[usize::from(number)] = State::default();
        let entries: *mut BufRingEntry = self.base.as_ptr().cast();
        let address = self.buffer(number) as u64;
        let index = usize::from(self.given) % self.states.len();
        // SAFETY: the index is below their number, and the kernel does not touch an entry before the tail has passed
        // it. No more than there are are ever given, so that the entry is not one that it may still use.
        let entry = unsafe { &mut *entries.add(index) };
        entry.set_addr(address);
        entry.set_len(self.size() as u32);
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
        // SAFETY: the mapping was made in `register` with this length, and nobody borrows from it. That it fails can
        // only mean that this is untrue.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), ENTRIES_BYTES + BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}
