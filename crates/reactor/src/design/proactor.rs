//! Event loops over io_uring, one for each CPU: they hear of what was done instead of what can be done.

use crate::design::reactor_per_core::loops;
use crate::design::{About, AtOnce, Memory};
use crate::error::Error;
use crate::options::{Placement, Setting};
use crate::protocol::Protocol;
use crate::reactor::{Acceptors, Kernel, ReactorManager, crew};
use crate::server::Serving;

pub(super) const ABOUT: About = About {
    name: "proactor",
    summary: "a thread for each CPU (or as many as told) has the kernel receive and send for its own connections",
    source: "Schmidt, Proactor, 1997; io_uring",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[Setting::Workers],
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    // Asked of nobody: connections stay where they were accepted.
    let manager = ReactorManager::joined(loops(&serving.options), Placement::ByHandle);
    crew::serve(serving, manager, Acceptors::Each, Kernel::IoUring)
}
