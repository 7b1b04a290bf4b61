//! One event loop for everything, which waits to read from a connection and to write to it at once.

use std::num::NonZeroUsize;

use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::options::Placement;
use crate::protocol::Protocol;
use crate::reactor::{Acceptors, Kernel, ReactorManager, loops};
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "reactor",
    summary: "one thread waits for all connections, and reads and writes whichever is ready",
    source: "Schmidt, Reactor, 1995",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[Setting::Sends, Setting::WhenFull],
    made_of: made_of::no_choice,
    check: any_settings,
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let manager = ReactorManager::joined(NonZeroUsize::MIN, Placement::ByHandle);
    loops::serve(serving, manager, Acceptors::First, Kernel::Epoll)
}
