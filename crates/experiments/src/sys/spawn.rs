//! Starting another program: `posix_spawn`, and `fork` with `execve`.
//!
//! Both run the program at `path` with `arguments` and an empty environment, so that they differ in
//! nothing but the way.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::io;
use std::ptr::{null, null_mut};

use rustix::process::Pid;

use crate::sys::fork::fork;

/// The exit code of a child that could not become the program, as in a shell.
pub const NOT_STARTED: u8 = 127;

/// The most arguments, the program's name included.
const MOST_ARGUMENTS: usize = 3;

/// Arguments as the kernel wants them: pointers, then null. No allocation, since a child may hold it.
fn pointers(arguments: &[&CStr]) -> [*const c_char; MOST_ARGUMENTS + 1] {
    assert!(
        arguments.len() <= MOST_ARGUMENTS,
        "our programs take no more arguments"
    );
    let mut pointers = [null(); MOST_ARGUMENTS + 1];
    for (pointer, argument) in pointers.iter_mut().zip(arguments) {
        *pointer = argument.as_ptr();
    }
    pointers
}

/// Starts the program with `posix_spawn`. Returns once it has been executed.
///
/// # Errors
///
/// The kernel's refusal of the child or of the program.
pub fn posix_spawn(path: &CStr, arguments: &[&CStr]) -> io::Result<Pid> {
    let argv = pointers(arguments);
    let environment = [null_mut::<c_char>()];
    let mut pid = 0;
    // SAFETY: `path` and every argument are C strings, both lists end in null, and all live through the
    // call, which keeps none of them; no actions and no attributes are passed.
    let refused = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            path.as_ptr(),
            null(),
            null(),
            argv.as_ptr().cast(),
            environment.as_ptr(),
        )
    };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused));
    }
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("posix_spawn returned no process id"))
}

/// Starts the program with `fork` and `execve`. Returns as soon as the child exists: a program that cannot
/// be executed shows as exit code [`NOT_STARTED`].
///
/// # Errors
///
/// The kernel's refusal of the child.
pub fn fork_exec(path: &CStr, arguments: &[&CStr]) -> io::Result<Pid> {
    let argv = pointers(arguments);
    let environment = [null::<c_char>()];
    fork(|| {
        // SAFETY: as in `posix_spawn`; it returns only when it failed, and then changed nothing.
        unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
        NOT_STARTED
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::reap::{Ending, reap};

    #[test]
    fn both_ways_run_the_program_with_its_arguments() {
        for start in [posix_spawn, fork_exec] {
            let pid = start(c"/bin/sh", &[c"sh", c"-c", c"exit 9"]).unwrap();
            assert_eq!(reap(pid).unwrap(), Ending::Code(9));
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        // POSIX leaves it to the system how; valgrind, which forks where the C library would not, has the child tell.
        if let Ok(pid) = posix_spawn(c"/no/such/program", &[c"x"]) {
            assert_eq!(reap(pid).unwrap(), Ending::Code(NOT_STARTED.into()));
        }
        let pid = fork_exec(c"/no/such/program", &[c"x"]).unwrap();
        assert_eq!(reap(pid).unwrap(), Ending::Code(NOT_STARTED.into()));
    }
}
