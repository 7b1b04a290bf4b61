//! The thread libraries beside that of the machine's C library: programs in C that are built on them.
//!
//! `linuxthreads` is the library that Linux had before NPTL, written again from its published description
//! (`guests/c/linuxthreads`). It runs on today's kernel, so a verdict on it is one on a re-creation.

use threadgauge_lab::words;

use crate::guests::{Guest, guest};

words! {
    /// What a program in C is built on, where it is not the C library of the machine.
    pub enum Library {
        /// The thread library before NPTL, re-created.
        LinuxThreads = "linuxthreads",
        /// The C library musl, with its own threads.
        Musl = "musl",
    }
}

/// What figures of the re-created library cannot show, to follow "which cannot show".
pub const NOT_SHOWN: &str = "the scheduler and the kernel of its time";

const UNITS: [Guest; 2] = [guest!("units_linuxthreads"), guest!("units_musl")];
const RING: [Guest; 2] = [guest!("ring_linuxthreads"), guest!("ring_musl")];
const IDS: [Guest; 2] = [guest!("ids_linuxthreads"), guest!("ids_musl")];
const IDLE: [Guest; 2] = [guest!("idle_linuxthreads"), guest!("idle_musl")];
const PRINT: [Guest; 2] = [guest!("print_linuxthreads"), guest!("print_musl")];
const CRASH: [Guest; 2] = [guest!("crash_linuxthreads"), guest!("crash_musl")];
const CHAT_THREADS: [Guest; 2] = [guest!("chat_threads_linuxthreads"), guest!("chat_threads_musl")];

impl Library {
    const fn of(self, programs: &'static [Guest; 2]) -> &'static Guest {
        match self {
            Self::LinuxThreads => &programs[0],
            Self::Musl => &programs[1],
        }
    }

    /// `guests/c/units.c` on it.
    pub const fn units(self) -> &'static Guest {
        self.of(&UNITS)
    }

    /// `guests/c/ring.c` on it.
    pub const fn ring(self) -> &'static Guest {
        self.of(&RING)
    }

    /// `guests/c/ids.c` on it.
    pub const fn ids(self) -> &'static Guest {
        self.of(&IDS)
    }

    /// `guests/c/idle.c` on it.
    pub const fn idle(self) -> &'static Guest {
        self.of(&IDLE)
    }

    /// `guests/c/print.c` on it.
    pub const fn print(self) -> &'static Guest {
        self.of(&PRINT)
    }

    /// `guests/c/crash.c` on it.
    pub const fn crash(self) -> &'static Guest {
        self.of(&CRASH)
    }

    /// `guests/c/servers/chat_threads.c` on it.
    pub const fn chat_threads(self) -> &'static Guest {
        self.of(&CHAT_THREADS)
    }

    /// What follows a thread in words.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::LinuxThreads => "LinuxThreads, re-created on this kernel",
            Self::Musl => "musl",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_has_its_own_build_of_each_program_or_the_compilers_reason() {
        for library in Library::ALL {
            for (name, program) in [
                ("units", library.units()),
                ("ring", library.ring()),
                ("ids", library.ids()),
                ("idle", library.idle()),
                ("print", library.print()),
                ("crash", library.crash()),
                ("chat_threads", library.chat_threads()),
            ] {
                assert_eq!(program.name, format!("{name}_{}", library.name()));
                assert_eq!(
                    program.elf.is_empty(),
                    !program.why_missing.is_empty(),
                    "{program:?}"
                );
            }
        }
    }
}
