//! An event loop for each CPU, each with a listening socket of its own, and nothing shared on the way of a message.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use crate::design::{About, AtOnce, Memory, made_of::count};
use crate::error::Error;
use crate::options::{Options, Placement};
use crate::protocol::Protocol;
use crate::reactor::{Acceptors, Kernel, ReactorManager, loops};
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "reactor-per-core",
    summary: "a thread for each CPU (or as many as told) accepts, reads and writes its own connections",
    source: "Seastar; nginx and SO_REUSEPORT",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[Setting::Workers, Setting::Placement, Setting::Sends],
    made_of,
    check,
};

/// Whether it can serve with these.
pub(super) fn check(options: &Options) -> Result<(), Error> {
    options.one_number_of_workers("this design has one number of loops from beginning to end")?;
    match options.placement {
        None | Some(Placement::ByGroup | Placement::Adaptive) => Ok(()),
        Some(placement) => Err(Error::BadSetting {
            setting: Setting::Placement,
            value: placement.name().to_owned(),
            why: "the kernel places connections on this design; by-group and adaptive move them afterwards",
        }),
    }
}

/// So many loops.
pub(super) fn made_of(options: &Options) -> Option<String> {
    Some(count(loops(options).get(), "loop"))
}

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    // By handle is asked of nobody: connections stay where they were accepted.
    let placement = serving.options.placement.unwrap_or(Placement::ByHandle);
    let manager = ReactorManager::joined(loops(&serving.options), placement);
    loops::serve(serving, manager, Acceptors::Each, Kernel::Epoll)
}

/// As many as told, else as there are CPUs.
pub(super) fn loops(options: &Options) -> NonZeroUsize {
    let told = options
        .workers
        .as_ref()
        .and_then(|workers| NonZeroUsize::new(*workers.end()));
    told.or_else(|| available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN)
}
