//! The small C programs that experiments start: compiled once, by `build.rs`, carried inside the laboratory and run from memory.
//!
//! A program lies in a file that exists in memory alone, so no disk and no path of the machine takes part, and
//! nothing is left behind. The kernel still does all that starting a program means.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use threadgauge_lab::worker::CaseError;
use threadgauge_results::{Lack, Need};

/// A program as it was compiled.
#[derive(Debug)]
pub struct Guest {
    name: &'static str,
    /// Empty where it could not be compiled.
    elf: &'static [u8],
    why_missing: &'static str,
}

macro_rules! guest {
    ($name:literal) => {
        Guest {
            name: $name,
            elf: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            why_missing: env!(concat!("THREADGAUGE_WITHOUT_", $name)),
        }
    };
}

/// `guests/c/exit.c`.
pub const EXIT: Guest = guest!("exit");
/// `guests/c/empty_loop.c` without optimisation.
pub const EMPTY_LOOP_PLAIN: Guest = guest!("empty_loop_plain");
/// The same with optimisation.
pub const EMPTY_LOOP_OPTIMISED: Guest = guest!("empty_loop_optimised");

impl Guest {
    /// Why it cannot be started in this build, if so.
    pub fn missing(&self) -> Option<Lack> {
        let says = || {
            format!(
                "needs the program {}, which this build lacks: {}",
                self.name, self.why_missing
            )
        };
        self.elf.is_empty().then(|| Lack::new(Need::Program, says()))
    }

    /// Puts it into memory.
    ///
    /// # Errors
    ///
    /// Skipped where this build has none or the system forbids running files in memory.
    pub fn load(&self) -> Result<Program, CaseError> {
        if let Some(lack) = self.missing() {
            return Err(CaseError::Skipped(lack.says));
        }
        let file = executable_file().map_err(|e| {
            CaseError::Skipped(format!(
                "an executable file in memory is refused ({e}); the setting vm.memfd_noexec may forbid it"
            ))
        })?;
        let mut rest = self.elf;
        while !rest.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, rest))
                .map_err(|e| CaseError::failed("writing the program into memory", e))?;
            rest = &rest[written..];
        }
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("a path without NUL");
        Ok(Program { path, _file: file })
    }
}

/// The program in memory.
#[derive(Debug)]
pub struct Program {
    path: CString,
    _file: OwnedFd,
}

impl Program {
    /// Where it can be executed, by this process and those forked from it.
    pub fn path(&self) -> &CStr {
        &self.path
    }
}

fn executable_file() -> rustix::io::Result<OwnedFd> {
    match memfd_create(c"guest", MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
        // Kernels before 6.3 do not know the flag and need none.
        Err(Errno::INVAL) => memfd_create(c"guest", MemfdFlags::CLOEXEC),
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
        let program = EXIT.load().unwrap();
        for start in [posix_spawn, fork_exec] {
            let pid = start(program.path(), &[c"exit"]).unwrap();
            assert_eq!(reap(pid).unwrap(), Ending::Code(0));
        }
    }

    #[test]
    fn the_program_tells_a_descriptor_it_cannot_read() {
        let program = EXIT.load().unwrap();
        let pid = posix_spawn(program.path(), &[c"exit", c"999"]).unwrap();
        assert_eq!(reap(pid).unwrap(), Ending::Code(2));
    }

    #[test]
    fn a_program_that_could_not_be_compiled_is_a_lack_with_the_compilers_reason() {
        let guest = Guest {
            name: "exit",
            elf: &[],
            why_missing: "the compiler cc cannot be started: not found",
        };
        let lack = guest.missing().unwrap();
        assert_eq!(lack.of, Need::Program);
        let says =
            "needs the program exit, which this build lacks: the compiler cc cannot be started: not found";
        assert_eq!(lack.says, says);
        assert!(matches!(guest.load(), Err(CaseError::Skipped(reason)) if reason == says));
    }
}
