//! An event loop for each CPU, each with a listening socket of its own, and nothing shared on the way of a message.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use crate::design::{About, AtOnce, Memory};
use crate::error::Error;
use crate::options::{Options, Placement, Setting};
use crate::protocol::Protocol;
use crate::reactor::{Acceptors, Kernel, ReactorManager, crew};
use crate::server::Serving;

pub(super) const ABOUT: About = About {
    name: "reactor-per-core",
    summary: "a thread for each CPU (or as many as told) accepts, reads and writes its own connections",
    source: "Seastar; nginx and SO_REUSEPORT",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[Setting::Workers, Setting::Placement, Setting::Sends],
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let loops = loops(&serving.options)?;
    let placement = match serving.options.placement {
        None => Placement::ByHandle, // asked of nobody: connections stay where they were accepted
        Some(placement @ (Placement::ByGroup | Placement::Adaptive)) => placement,
        Some(placement) => {
            return Err(Error::BadSetting {
                setting: Setting::Placement,
                value: placement.name().to_owned(),
                why: "the kernel places connections on this design; by-group and adaptive move them afterwards",
            });
        }
    };
    let manager = ReactorManager::joined(loops, placement);
    crew::serve(serving, manager, Acceptors::Each, Kernel::Epoll)
}

/// As many as told, else as there are CPUs.
pub(super) fn loops(options: &Options) -> Result<NonZeroUsize, Error> {
    match &options.workers {
        None => Ok(available_parallelism().unwrap_or(NonZeroUsize::MIN)),
        Some(workers) if workers.start() == workers.end() => {
            Ok(NonZeroUsize::new(*workers.end()).expect("checked when the server was built"))
        }
        Some(workers) => Err(Error::BadSetting {
            setting: Setting::Workers,
            value: format!("{}..{}", workers.start(), workers.end()),
            why: "this design has one number of loops from beginning to end",
        }),
    }
}
