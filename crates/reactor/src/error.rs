//! What can be wrong with a server.

use std::io;
use std::net::SocketAddr;

use crate::options::Setting;

/// Why a server was not built, or ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing of its kind has this name.
    #[error("there is no {what} `{name}`; there are: {known}")]
    Unknown {
        /// Of what kind: a design, a protocol, ...
        what: &'static str,
        /// What was asked for.
        name: String,
        /// All names, with commas.
        known: String,
    },
    /// A setting that the design has no use for.
    #[error("the design `{design}` does not use {setting}; {uses}")]
    UnusedSetting {
        /// The design.
        design: &'static str,
        /// What was set.
        setting: Setting,
        /// What it uses, in words.
        uses: String,
    },
    /// A setting out of its range.
    #[error("{setting} cannot be {value}: {why}")]
    BadSetting {
        /// What was set.
        setting: Setting,
        /// To what.
        value: String,
        /// What would be right.
        why: &'static str,
    },
    /// The protocol's sessions reach each other, and the design keeps them apart.
    #[error(
        "the protocol {protocol} needs connections that reach each other, and the design `{design}` {apart}"
    )]
    SharedState {
        /// The protocol's type.
        protocol: &'static str,
        /// The design.
        design: &'static str,
        /// Why they cannot.
        apart: &'static str,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A design that forks was started in a process with several threads: a lock that another thread holds would be
    /// held for ever in the child.
    #[error(
        "the design `{design}` forks, which a process with {threads} threads cannot do safely: start it before other threads"
    )]
    Threads {
        /// The design.
        design: &'static str,
        /// How many threads there are.
        threads: usize,
    },
    /// The kernel refuses io_uring, which was asked for.
    #[error("the kernel refuses io_uring ({source}): {why}. Without it, {instead}")]
    NoIoUring {
        /// What it answered.
        source: io::Error,
        /// What that means.
        why: &'static str,
        /// What to do without.
        instead: &'static str,
    },
    /// A system call failed that the server cannot do without.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: what was being done when a system call failed.
    pub(crate) fn io<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io {
            doing,
            source: source.into(),
        }
    }
}

/// The one of `all` with this name.
pub(crate) fn find<T: Copy>(
    what: &'static str,
    name: &str,
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<T, Error> {
    let found = all.iter().copied().find(|&one| name_of(one) == name);
    found.ok_or_else(|| Error::Unknown {
        what,
        name: name.to_owned(),
        known: all.iter().copied().map(name_of).collect::<Vec<_>>().join(", "),
    })
}
