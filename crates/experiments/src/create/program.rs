//! The program that is started: carried inside the laboratory, run from memory.
//!
//! It lies in a file that exists in memory alone, so no disk and no path of the machine takes part, and
//! nothing is left behind. The kernel still does all that starting a program means.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use threadgauge_lab::worker::CaseError;
use threadgauge_results::{Lack, Need};

/// `guests/c/exit.c`, compiled; empty where that was not possible.
const ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/exit.elf"));
const WHY_MISSING: &str = env!("THREADGAUGE_EXIT_PROGRAM_MISSING");

/// Why no program can be started in this build, if so.
pub fn missing() -> Option<Lack> {
    let says = || format!("needs a static program that this build lacks: {WHY_MISSING}");
    ELF.is_empty().then(|| Lack::new(Need::Program, says()))
}

/// The program in memory.
#[derive(Debug)]
pub struct Program {
    path: CString,
    _file: OwnedFd,
}

impl Program {
    /// Puts it there.
    ///
    /// # Errors
    ///
    /// Skipped where this build has none or the system forbids running files in memory.
    pub fn new() -> Result<Self, CaseError> {
        if let Some(lack) = missing() {
            return Err(CaseError::Skipped(lack.says));
        }
        let file = executable_file().map_err(|e| {
            CaseError::Skipped(format!(
                "an executable file in memory is refused ({e}); the setting vm.memfd_noexec may forbid it"
            ))
        })?;
        let mut rest = ELF;
        while !rest.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, rest))
                .map_err(|e| CaseError::failed("writing the program into memory", e))?;
            rest = &rest[written..];
        }
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("a path without NUL");
        Ok(Self { path, _file: file })
    }

    /// Where it can be executed, by this process and those forked from it.
    pub fn path(&self) -> &CStr {
        &self.path
    }
}

fn executable_file() -> rustix::io::Result<OwnedFd> {
    match memfd_create(c"exit", MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
        // Kernels before 6.3 do not know the flag and need none.
        Err(Errno::INVAL) => memfd_create(c"exit", MemfdFlags::CLOEXEC),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::reap::{Ending, reap};
    use crate::sys::spawn::{fork_exec, posix_spawn};

    #[test]
    fn the_program_runs_from_memory_and_ends_with_0() {
        let program = Program::new().unwrap();
        for start in [posix_spawn, fork_exec] {
            let pid = start(program.path(), &[c"exit"]).unwrap();
            assert_eq!(reap(pid).unwrap(), Ending::Code(0));
        }
    }

    #[test]
    fn the_program_tells_a_descriptor_it_cannot_read() {
        let program = Program::new().unwrap();
        let pid = posix_spawn(program.path(), &[c"exit", c"999"]).unwrap();
        assert_eq!(reap(pid).unwrap(), Ending::Code(2));
    }
}
