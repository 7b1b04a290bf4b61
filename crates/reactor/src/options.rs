//! What can be set on a server, and its defaults.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, find};
use crate::ring;
use crate::setting::Setting;

/// Which reactors a connection gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// By its handle, modulo the number of reactors: the rule of JAWS, a framework for web servers.
    #[default]
    ByHandle,
    /// The one with the fewest connections.
    LeastLoaded,
    /// Where the connections are that it talks to: it starts as with [`LeastLoaded`](Self::LeastLoaded) and moves
    /// once it has joined a group.
    ByGroup,
    /// By handle at first; then connections move from busy reactors to idle ones, and reactors change between reading
    /// and writing, by the CPU time that each uses.
    Adaptive,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ByHandle, Self::LeastLoaded, Self::ByGroup, Self::Adaptive];

    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ByHandle => "by-handle",
            Self::LeastLoaded => "least-loaded",
            Self::ByGroup => "by-group",
            Self::Adaptive => "adaptive",
        }
    }
}

/// By its name.
impl FromStr for Placement {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        find("placement", name, &Self::ALL, Self::name)
    }
}

/// How an event loop sends what a turn has produced for its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sends {
    /// A system call for each client.
    #[default]
    Call,
    /// All in one submission to io_uring: a system call for all clients.
    IoUring,
}

impl Sends {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Call, Self::IoUring];

    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::IoUring => "io_uring",
        }
    }

    /// Whether the kernel allows it, which it does not with io_uring where that is switched off, as in most containers.
    ///
    /// # Errors
    ///
    /// [`Error::NoIoUring`], with why.
    pub fn check(self) -> Result<(), Error> {
        match self {
            Self::Call => Ok(()),
            Self::IoUring => ring::probe("send by system calls (`call`), which differs in speed alone"),
        }
    }
}

/// By its name.
impl FromStr for Sends {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        find("way to send", name, &Self::ALL, Self::name)
    }
}

/// What happens when a client does not take what is sent to it and the limit of
/// [`Server::output_limit`](crate::Server::output_limit) is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// Nothing more is read from those who make the output, its own client or others, until it has taken half. What
    /// they have sent already still comes on top of the limit: a receive of each, and 2 MiB on its way to each thread
    /// that writes.
    #[default]
    Wait,
    /// Its connection is closed as [`Slow`](crate::CloseReason::Slow), if that is so still after it was offered all
    /// that waits. A client that only has to take the answers to its own requests is waited for.
    ///
    /// Before that, those who send to a client for which three quarters of the limit wait are held up: nothing is read
    /// from them until it has taken half of the limit, for ten milliseconds at most; then one receive of 64 KiB, and so
    /// on. So one who takes as much as that from each of its senders, 6 MiB a second, is never dropped and sets their
    /// pace; one who takes less, or nothing, is once its senders have used up the last quarter. The quarter should have
    /// room for that from each sender, and for the 2 MiB on its way to each thread that writes.
    Drop,
}

impl Overflow {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Wait, Self::Drop];

    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Drop => "drop",
        }
    }
}

/// By its name.
impl FromStr for Overflow {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        find("way to handle overflow", name, &Self::ALL, Self::name)
    }
}

/// What happens to who comes when there are as many connections as there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// It waits to be accepted until one has ended.
    #[default]
    Wait,
    /// The connection from which nothing has come for longest is closed as [`MadeRoom`](crate::CloseReason::MadeRoom),
    /// with all that waits for it: so those who connect and say nothing keep nobody out.
    OldestGoes,
}

impl WhenFull {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Wait, Self::OldestGoes];

    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::OldestGoes => "oldest-goes",
        }
    }
}

/// By its name.
impl FromStr for WhenFull {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        find("way to be full", name, &Self::ALL, Self::name)
    }
}

/// What can be set on a server.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub workers: Option<RangeInclusive<usize>>,
    pub readers: Option<usize>,
    pub writers: Option<usize>,
    pub placement: Option<Placement>,
    pub sends: Option<Sends>,
    /// The most connections at once.
    pub max_connections: usize,
    pub when_full: Option<WhenFull>,
    /// Connections that the kernel keeps ready to be accepted.
    pub backlog: i32,
    /// The bytes that may wait for one client.
    pub output_limit: usize,
    pub overflow: Overflow,
    /// How long nothing may come from a client that is read from.
    pub idle: Option<Duration>,
    /// How long the head of a message may take.
    pub handshake: Option<Duration>,
    /// How long a client may take nothing of what waits for it: see [`Outbox`](crate::outbox::Outbox).
    pub write_timeout: Duration,
    /// How long connections may go on after the stop.
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: None,
            readers: None,
            writers: None,
            placement: None,
            sends: None,
            max_connections: 16_384,
            when_full: None,
            backlog: 4_096,
            output_limit: 1 << 20,
            overflow: Overflow::Wait,
            idle: None,
            handshake: None,
            write_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(5),
        }
    }
}

impl Options {
    /// A client for which more bytes than that wait holds up those who send to it.
    pub fn holds_up_above(&self) -> usize {
        match self.overflow {
            Overflow::Wait => self.output_limit,
            Overflow::Drop => self.output_limit - self.output_limit / 4,
        }
    }

    /// Whether it matters when something came last from a client.
    pub fn wants_heard(&self) -> bool {
        self.idle.is_some() || self.oldest_goes()
    }

    /// Whether the connection goes from which nothing has come for longest, once there are too many.
    pub fn oldest_goes(&self) -> bool {
        self.when_full == Some(WhenFull::OldestGoes)
    }

    /// Whether a client for which so many bytes wait, once it was offered them, is dropped.
    pub fn drops(&self, waiting: usize) -> bool {
        self.overflow == Overflow::Drop && waiting > self.output_limit
    }

    /// The settings that were given.
    pub fn given(&self) -> impl Iterator<Item = Setting> {
        [
            self.workers.as_ref().map(|_| Setting::Workers),
            self.readers.map(|_| Setting::Readers),
            self.writers.map(|_| Setting::Writers),
            self.placement.map(|_| Setting::Placement),
            self.sends.map(|_| Setting::Sends),
            self.when_full.map(|_| Setting::WhenFull),
        ]
        .into_iter()
        .flatten()
    }

    /// # Errors
    ///
    /// If workers are a range: why that cannot be.
    pub fn one_number_of_workers(&self, why: &'static str) -> Result<(), Error> {
        match &self.workers {
            Some(workers) if workers.start() != workers.end() => Err(Error::BadSetting {
                setting: Setting::Workers,
                value: as_typed(workers),
                why,
            }),
            _ => Ok(()),
        }
    }
}

/// A number or a range, as the command line has it.
pub(crate) fn as_typed(range: &RangeInclusive<usize>) -> String {
    match (range.start(), range.end()) {
        (one, other) if one == other => one.to_string(),
        (least, most) => format!("{least}..{most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_called_by_its_name() {
        assert_eq!(Sends::ALL.map(Sends::name), ["call", "io_uring"]);
        assert_eq!(Overflow::ALL.map(Overflow::name), ["wait", "drop"]);
        assert_eq!(WhenFull::ALL.map(WhenFull::name), ["wait", "oldest-goes"]);
        assert_eq!(
            Placement::ALL.map(Placement::name),
            ["by-handle", "least-loaded", "by-group", "adaptive"]
        );
        assert_eq!("by-group".parse::<Placement>().unwrap(), Placement::ByGroup);
        assert_eq!("io_uring".parse::<Sends>().unwrap(), Sends::IoUring);
        assert_eq!("drop".parse::<Overflow>().unwrap(), Overflow::Drop);
        assert!("xyzzy".parse::<Sends>().is_err() && "".parse::<Overflow>().is_err());
    }
}
