//! Memory that a process shares with the children it forks. An unsafe leaf.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::{io, slice};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What may lie in memory shared between processes.
///
/// # Safety
///
/// All bytes zero must be a value of the type, it must be changed by atomic operations alone, hold no pointers and
/// need no drop.
pub(crate) unsafe trait Shareable: Sync + 'static {}

/// A slice that forked children share with their parent. It begins as zeros.
#[derive(Debug)]
pub(crate) struct Shared<T: Shareable> {
    first: NonNull<T>,
    count: usize,
}

// SAFETY: it owns its mapping, and gives out shared references to values that are `Sync`.
unsafe impl<T: Shareable> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for Shared<T> {}

impl<T: Shareable> Shared<T> {
    /// `count` values of zeros, at least one.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn zeroed(count: usize) -> io::Result<Self> {
        let count = count.max(1);
        let bytes = count
            .checked_mul(size_of::<T>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours. Pages are
        // aligned for any `T` here, which the assertion holds to.
        let address = unsafe {
            mmap_anonymous(
                null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        }?;
        const { assert!(align_of::<T>() <= 4096) };
        let first = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { first, count })
    }
}

impl<T: Shareable> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `count` values, zeros are values of `T`, and it lives as long as `self`.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl<T: Shareable> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `zeroed` with this length, and nobody borrows it any more. That it fails
        // can only mean that this is untrue.
        let unmapped = unsafe { munmap(self.first.as_ptr().cast(), self.count * size_of::<T>()) };
        debug_assert!(unmapped.is_ok());
    }
}
