//! Event loops over io_uring, one for each CPU: they hear of what was done instead of what can be done.

use crate::design::{About, AtOnce, Memory, reactor_per_core};
use crate::error::Error;
use crate::options::{Options, Placement};
use crate::protocol::Protocol;
use crate::reactor::{Acceptors, Kernel, ReactorManager, loops};
use crate::ring;
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "proactor",
    summary: "a thread for each CPU (or as many as told) has the kernel receive and send for its own connections",
    source: "Schmidt, Proactor, 1997; io_uring",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[Setting::Workers],
    made_of: reactor_per_core::made_of,
    check,
};

/// Whether it can serve with these, and the kernel lets it.
fn check(options: &Options) -> Result<(), Error> {
    reactor_per_core::check(options)?;
    ring::probe("serve on the design `reactor-per-core`, which is the same over epoll")
}

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    // Asked of nobody: connections stay where they were accepted.
    let manager = ReactorManager::joined(reactor_per_core::loops(&serving.options), Placement::ByHandle);
    loops::serve(serving, manager, Acceptors::Each, Kernel::IoUring)
}
