//! `pthread_create` and `pthread_join`, bare: what the source measured, with default attributes (the
//! stack is as large as the soft limit, usually 8 MiB) and nothing that a library adds.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use crate::sys::gate::Gate;

/// A running thread. Dropped without [`Thread::join`] it keeps its gate and its stack for ever.
#[derive(Debug)]
pub struct Thread {
    id: libc::pthread_t,
    gate: ManuallyDrop<Arc<Gate>>,
}

/// All that a thread does: passes the gate.
extern "C" fn unit(gate: *mut c_void) -> *mut c_void {
    // SAFETY: `start` passes a gate that its handle keeps until the thread is joined.
    let gate = unsafe { &*gate.cast::<Gate>() };
    gate.pass();
    null_mut()
}

impl Thread {
    /// Starts a thread that passes `gate` and ends.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: a limit on threads or mappings was reached.
    pub fn start(gate: &Arc<Gate>) -> io::Result<Self> {
        let mut id = MaybeUninit::uninit();
        // SAFETY: `id` can be written, null asks for default attributes, `unit` gets the gate it expects,
        // and the handle keeps that gate until the thread is joined.
        let refused = unsafe {
            libc::pthread_create(id.as_mut_ptr(), null(), unit, Arc::as_ptr(gate).cast_mut().cast())
        };
        if refused != 0 {
            return Err(io::Error::from_raw_os_error(refused));
        }
        Ok(Self {
            // SAFETY: a call that succeeded has written the id.
            id: unsafe { id.assume_init() },
            gate: ManuallyDrop::new(Arc::clone(gate)),
        })
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    ///
    /// When it cannot be waited for; its gate is then kept for ever.
    pub fn join(self) -> io::Result<()> {
        // SAFETY: `id` is a thread that was started joinable, and `self` is given up: it is joined once.
        match unsafe { libc::pthread_join(self.id, null_mut()) } {
            0 => {
                drop(ManuallyDrop::into_inner(self.gate));
                Ok(())
            }
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_passed_when_they_are_joined() {
        let gate = Arc::new(Gate::closed().unwrap());
        let threads: Vec<_> = (0..8).map(|_| Thread::start(&gate).unwrap()).collect();
        assert_eq!(gate.passed(), 0);
        gate.open();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(gate.passed(), 8);
        assert_eq!(Arc::strong_count(&gate), 1);
    }
}
