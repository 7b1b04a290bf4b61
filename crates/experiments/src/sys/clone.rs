//! `clone` with shared memory: children that are processes of their own in their parent's memory.
//!
//! Two uses. With `CLONE_VFORK` the parent stands still until the child has ended: that is what the
//! `vfork` system call asks for, but on a stack of its own, as `posix_spawn` does it (the child of a bare
//! `vfork` runs on its parent's frames, which no Rust function may survive). Without it both run: the way
//! threads were made before NPTL, each with a process id of its own.
//!
//! Such a child shares its parent's thread-local data, so it may not allocate, use `errno` or panic.
//! It therefore runs nothing but [`unit()`] below.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::Pid;

use crate::sys::gate::Gate;
use crate::sys::reap::{Ending, reap};

/// Enough for [`unit()`] and the system call below it.
const STACK_BYTES: usize = 64 * 1024;

/// A stack for one child at a time.
#[derive(Debug)]
pub struct Stack {
    base: NonNull<c_void>,
}

impl Stack {
    /// Maps one; its pages come with their first use.
    ///
    /// # Errors
    ///
    /// When it cannot be mapped (`max_map_count`, memory).
    pub fn new() -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::STACK;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), STACK_BYTES, access, flags) }?;
        NonNull::new(base)
            .map(|base| Self { base })
            .ok_or_else(|| io::Error::other("a stack was mapped at 0"))
    }

    fn top(&self) -> *mut c_void {
        // SAFETY: one past the end of the mapping, which is `STACK_BYTES` long.
        unsafe { self.base.as_ptr().byte_add(STACK_BYTES) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`; a child that runs on it holds the `Stack` (see
        // `SharedChild`), so none does any more.
        let _ = unsafe { munmap(self.base.as_ptr(), STACK_BYTES) };
    }
}

/// All that a child does: passes the gate and ends with 0.
extern "C" fn unit(gate: *mut c_void) -> c_int {
    // SAFETY: `start` and `vfork` pass a gate that outlives the child, and memory is shared.
    let gate = unsafe { &*gate.cast::<Gate>() };
    gate.pass();
    0
}

/// Starts `unit` on `stack`.
///
/// # Safety
///
/// Stack and gate must live, and the stack be used by nobody else, until the child has ended.
unsafe fn clone(stack: &Stack, gate: &Gate, flags: c_int) -> io::Result<Pid> {
    let gate = std::ptr::from_ref(gate).cast_mut().cast();
    // SAFETY: `stack.top()` is the 16-byte-aligned end of a mapping of the child's own; `unit` gets the
    // gate it expects; that both live long enough is the caller's duty. The child returns from `unit`
    // into the C library's exit.
    match unsafe { libc::clone(unit, stack.top(), flags | libc::SIGCHLD, gate) } {
        -1 => Err(io::Error::last_os_error()),
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::other("clone returned no process id")),
    }
}

/// Starts a child in this process's memory and stands still until it has ended; it is still to be reaped.
///
/// The gate must be open: a closed one would never be opened.
///
/// # Errors
///
/// The kernel's refusal.
pub fn vfork(stack: &mut Stack, gate: &Gate) -> io::Result<Pid> {
    // SAFETY: with `CLONE_VFORK` this call returns after the child has ended; until then both are borrowed,
    // the stack exclusively.
    unsafe { clone(stack, gate, libc::CLONE_VM | libc::CLONE_VFORK) }
}

/// A running child in this process's memory. Dropped without [`SharedChild::reap`] it keeps its stack and
/// gate for ever.
#[derive(Debug)]
pub struct SharedChild {
    pid: Pid,
    stack: ManuallyDrop<Stack>,
    gate: ManuallyDrop<Arc<Gate>>,
}

impl SharedChild {
    /// Starts a child on `stack` that passes `gate` and ends.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn start(stack: Stack, gate: &Arc<Gate>) -> io::Result<Self> {
        // SAFETY: stack and gate move into the child's handle, which gives them up in `reap` alone.
        let pid = unsafe { clone(&stack, gate, libc::CLONE_VM) }?;
        Ok(Self {
            pid,
            stack: ManuallyDrop::new(stack),
            gate: ManuallyDrop::new(Arc::clone(gate)),
        })
    }

    /// Waits until it has ended and gives its stack back for another.
    ///
    /// # Errors
    ///
    /// When it cannot be waited for; its stack is then kept for ever.
    pub fn reap(self) -> io::Result<(Ending, Stack)> {
        let ending = reap(self.pid)?;
        drop(ManuallyDrop::into_inner(self.gate));
        Ok((ending, ManuallyDrop::into_inner(self.stack)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vforked_child_has_run_when_the_call_returns() {
        let gate = Gate::opened().unwrap();
        let mut stack = Stack::new().unwrap();
        for n in 1..=3 {
            let pid = vfork(&mut stack, &gate).unwrap();
            assert_eq!(reap(pid).unwrap(), Ending::Code(0));
            // Under valgrind, which forks instead, the gate's page is shared all the same.
            assert_eq!(gate.passed(), n);
        }
    }
}
