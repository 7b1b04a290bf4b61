//! io_uring: what the crate uses of it, and what it says where the kernel refuses it.
//!
//! Linux 6.0 or newer. A ring is made by any thread, so that what it needs is there before a server accepts, and then
//! belongs to the one that first uses it.

mod buffers;
mod events;
mod joint_sends;

use std::io;

use io_uring::IoUring;
use rustix::io::Errno;

use crate::error::Error;

pub(crate) use buffers::Filled;
#[cfg(test)]
pub(crate) use events::ANSWERS;
pub(crate) use events::{Answer, Events, Watch};
pub(crate) use joint_sends::JointSends;

/// When the kernel does what a request leaves to be done later.
#[derive(Clone, Copy, Debug)]
enum Later {
    /// At any system call of the thread.
    AnyCall,
    /// When the thread waits for answers: no more than twenty at a time, so that what a turn produces would be sent in
    /// smaller parts (docs/adr/0007-io-uring.md). For requests that leave nothing to be done.
    Wait,
}

/// A ring with room for so many requests at once and so many answers. The thread that enables it is the one that
/// uses it.
fn ring(requests: u32, answers: u32, later: Later) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    match later {
        Later::AnyCall => builder.setup_coop_taskrun(),
        Later::Wait => builder.setup_defer_taskrun(),
    };
    builder
        // A request that cannot be made does not hold up those behind it.
        .setup_submit_all()
        .setup_single_issuer()
        .setup_r_disabled()
        .setup_cqsize(answers)
        .build(requests)
}

/// Whether the kernel allows io_uring. `instead`: what to do without, as the end of a sentence.
///
/// # Errors
///
/// That it refuses, in words.
pub(crate) fn probe(instead: &'static str) -> Result<(), Error> {
    ring(1, 2, Later::Wait)
        .map(drop)
        .map_err(|source| Error::NoIoUring {
            why: why(&source),
            source,
            instead,
        })
}

/// What a failure to make a ring means.
fn why(refusal: &io::Error) -> &'static str {
    match Errno::from_io_error(refusal) {
        Some(Errno::NOSYS) => "it was built without it",
        Some(Errno::PERM | Errno::ACCESS) => {
            "it is switched off (see /proc/sys/kernel/io_uring_disabled), or a seccomp filter forbids it, as those of containers do"
        }
        Some(Errno::INVAL) => "it is older than Linux 6.0",
        Some(Errno::MFILE | Errno::NFILE) => "there are no descriptors left",
        _ => "there may be no memory left, or no more may be locked (see `ulimit -l`)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_why_and_what_to_do_without() {
        for (errno, expected) in [
            (Errno::PERM, "io_uring_disabled"),
            (Errno::NOSYS, "built without"),
            (Errno::INVAL, "6.0"),
            (Errno::MFILE, "no descriptors left"),
            (Errno::NFILE, "no descriptors left"),
            (Errno::NOMEM, "ulimit -l"),
        ] {
            let source = io::Error::from(errno);
            let error = Error::NoIoUring {
                why: why(&source),
                source,
                instead: "use another",
            };
            let said = error.to_string();
            assert!(said.contains(expected), "{said}");
            assert!(said.ends_with(". Without it, use another"), "{said}");
        }
    }
}
