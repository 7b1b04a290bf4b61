//! What can go wrong when the machine is asked or the process is prepared.
//!
//! Reading the fingerprint never fails, so it has no error here: see [`crate::Fingerprint`].

use crate::cpulist::CpuList;
use crate::limits::{Bound, Resource};
use std::io;

/// A request to the machine that it refused, with what to try instead.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// None, or not all, of the CPUs asked for may be used by this process.
    #[error(
        "cannot run on CPU {asked}: this process may use {allowed}; choose among these, \
         or widen its affinity or cpuset"
    )]
    NoSuchCpu {
        /// What was asked for.
        asked: CpuList,
        /// What the process may use.
        allowed: CpuList,
    },
    /// The kernel refused to change the affinity although the CPUs look usable.
    #[error("cannot pin to CPU {asked}: {source}")]
    Pin {
        /// What was asked for.
        asked: CpuList,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A resource limit could not be set.
    #[error(
        "cannot set the limit {resource} to {wanted}: {source}; its hard limit is {hard}, raise it with {fix}"
    )]
    Limit {
        /// Which limit.
        resource: Resource,
        /// The value asked for.
        wanted: Bound,
        /// The highest value allowed without privilege.
        hard: Bound,
        /// The kernel's answer.
        source: io::Error,
        /// A command that would help.
        fix: String,
    },
    /// A file that a reading cannot do without is missing or cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A file that a reading cannot do without holds something else than expected.
    #[error("cannot understand {path}: {what}")]
    Malformed {
        /// The file.
        path: String,
        /// What was wrong with it.
        what: String,
    },
}
