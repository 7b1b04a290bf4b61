//! One event loop that reads and one that writes: the first optimisation of JAWS.

use std::num::NonZeroUsize;

use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::options::Placement;
use crate::protocol::Protocol;
use crate::reactor::{Acceptors, Kernel, ReactorManager, loops};
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "split-reactor",
    summary: "one thread accepts and reads, another writes",
    source: "JAWS, first optimisation: a read reactor and a write reactor",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[Setting::Sends],
    made_of: made_of::no_choice,
    check: any_settings,
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let manager = ReactorManager::split(NonZeroUsize::MIN, NonZeroUsize::MIN, Placement::ByHandle);
    loops::serve(serving, manager, Acceptors::First, Kernel::Epoll)
}
