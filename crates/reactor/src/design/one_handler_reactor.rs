//! One event loop for everything, on which a handle has one handler: JAWS before its optimisations.
//!
//! The source says that a handle has at most one handler, so that a read or a write is pending and never both. It does
//! not say what becomes of a message for a client that waits to be read. Here it [takes the place of the
//! read](crate::reactor::one_handler), which is our reading.

use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::protocol::Protocol;
use crate::reactor::{Acceptors, Kernel, ReactorManager, loops};
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "one-handler-reactor",
    summary: "one thread waits to read from a connection or to write to it, never for both at once",
    source: "JAWS before its optimisations (JAWS-B)",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[Setting::WhenFull],
    made_of: made_of::no_choice,
    check: any_settings,
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    loops::serve(
        serving,
        ReactorManager::of_one_handler(),
        Acceptors::First,
        Kernel::Epoll,
    )
}
