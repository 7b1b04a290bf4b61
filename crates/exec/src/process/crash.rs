//! Why an object has no result: what can befall it in a helper, and on the way there and back.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Why there is no result for an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Crash {
    /// The processor panicked, with this message.
    #[error("the processor panicked: {0}")]
    Panicked(String),
    /// The processor ended its process with this status.
    #[error("the processor ended its process with status {0}")]
    Exited(i32),
    /// A signal ended the process, by its number: 6 after an abort, 9 when it was killed, 11 at a bad access.
    #[error("signal {0} ended the processor's process")]
    Signalled(i32),
    /// It ran for longer than the [time limit](super::Processes::time_limit) and was ended.
    #[error("the processor was ended at its time limit of {0:?}")]
    TimeLimit(Duration),
    /// It ran when the call's [deadline](crate::ConcurrentExecution::deadline) came and was ended.
    #[error("the processor was ended at the call's deadline")]
    Deadline,
    /// The encoded object is larger than the [largest frame](super::Processes::largest_frame); it was not processed.
    #[error("the object is {bytes} bytes, more than the largest frame of {largest}")]
    ObjectTooLarge {
        /// Its size, encoded.
        bytes: usize,
        /// What is allowed.
        largest: usize,
    },
    /// The encoded result is larger than the [largest frame](super::Processes::largest_frame).
    #[error("the result is {bytes} bytes, more than the largest frame of {largest}")]
    ResultTooLarge {
        /// Its size, encoded.
        bytes: usize,
        /// What is allowed.
        largest: usize,
    },
    /// The object could not be encoded, or not read again; it was not processed.
    #[error("the object cannot be sent: {0}")]
    Object(String),
    /// The result could not be encoded, or not read again.
    #[error("the result cannot be sent: {0}")]
    Result(String),
    /// The process ended, and nobody knows how: the program does not wait for its children (`SIGCHLD` is ignored).
    #[error("the processor's process is gone, its status unknown")]
    Vanished,
}

impl Crash {
    /// How a process ended.
    pub(super) fn from_status(status: Option<ExitStatus>) -> Self {
        match status.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => Self::Exited(code),
            Some((None, Some(signal))) => Self::Signalled(signal),
            _ => Self::Vanished,
        }
    }
}

/// Why an object of [`Processes::try_for_each`](super::Processes::try_for_each) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure<E> {
    /// The processor returned this.
    #[error("{0}")]
    Returned(E),
    /// There is no result.
    #[error(transparent)]
    Crashed(#[from] Crash),
}
