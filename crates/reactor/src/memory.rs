//! Memory that goes back to the system. An unsafe leaf.
//!
//! What is freed malloc keeps for whoever asks next, where it lies between pieces that are in use. After many clients
//! that read nothing have left that is much, and nobody may ask for as much again.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// So much may have been left before malloc is asked.
const MUCH: usize = 8 * 1024 * 1024;

/// What clients have left unread since malloc was asked last, in bytes.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// A client has gone and left so many bytes, which are about to be freed. Once that is much malloc gives back what lies
/// free: it looks at all that it has, which takes a fraction of the time that it took to fill it.
#[cold]
pub(crate) fn left_unread(bytes: usize) {
    // Relaxed: it is a number that says nothing of other memory.
    if LEFT.fetch_add(bytes, Relaxed) + bytes >= MUCH {
        LEFT.store(0, Relaxed);
        trim();
    }
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: any thread may call it at any time, and it gives back only memory that nobody uses.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other C libraries give memory back by rules of their own.
#[cfg(not(target_env = "gnu"))]
fn trim() {}
