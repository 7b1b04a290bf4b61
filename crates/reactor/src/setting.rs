//! The settings that depend on the design, by name: designs say which they use, and errors which are not.

use std::fmt;

/// A setting that some designs use and others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    /// How many processes or threads serve: [`Server::workers`](crate::Server::workers).
    Workers,
    /// How many reactors read: [`Server::readers`](crate::Server::readers).
    Readers,
    /// How many reactors write: [`Server::writers`](crate::Server::writers).
    Writers,
    /// How connections are given to reactors: [`Server::placement`](crate::Server::placement).
    Placement,
    /// How outputs are sent: [`Server::sends`](crate::Server::sends).
    Sends,
    /// What happens when there are too many connections: [`Server::when_full`](crate::Server::when_full).
    WhenFull,
}

/// As the command line calls it.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workers => "workers",
            Self::Readers => "readers",
            Self::Writers => "writers",
            Self::Placement => "placement",
            Self::Sends => "sends",
            Self::WhenFull => "when-full",
        })
    }
}
