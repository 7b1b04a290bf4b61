//! What can be wrong with a server.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

use crate::setting::Setting;

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
    /// What stands for an address is none, or the name could not be looked up.
    #[error("cannot look up {address}: {source}")]
    Lookup {
        /// What was to be an address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}{}", advice(source))]
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
    #[error("{doing}: {source}{}", advice(source))]
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

/// What to try, where that is known.
fn advice(source: &io::Error) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::MFILE) => {
            "; raise the limit on open files (`ulimit -n`), or serve with fewer workers, readers or writers"
        }
        Some(Errno::NFILE) => "; the whole system has no more, see /proc/sys/fs/file-max",
        Some(Errno::AGAIN) => "; raise the limit on processes and threads (`ulimit -u`), or have fewer",
        Some(Errno::ADDRINUSE) => "; take another port, or 0 for a free one",
        Some(Errno::ADDRNOTAVAIL) => "; it is no address of this machine",
        Some(Errno::ACCESS) => "; ports below 1024 need a privilege",
        _ => "",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_can_mend_is_said_with_how() {
        for (errno, advice) in [
            (Errno::MFILE, "ulimit -n"),
            (Errno::AGAIN, "ulimit -u"),
            (Errno::ADDRINUSE, "another port"),
        ] {
            let error = Error::io("trying")(errno).to_string();
            assert!(error.starts_with("trying: ") && error.contains(advice), "{error}");
        }
        assert_eq!(
            Error::io("trying")(io::Error::other("no reason")).to_string(),
            "trying: no reason"
        );
    }
}
