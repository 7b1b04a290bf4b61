//! The concurrency designs: what each is, and the one list of them.
//!
//! A design is a module here with `ABOUT` and `run`, and one line in the list below; nothing else knows designs by
//! their names. It drives every connection
//! through [`Connection`](crate::connection::Connection), so all designs agree in what a protocol sees.

#[cfg(test)]
mod busy_test;
mod half_sync_half_async;
mod iterative;
mod leader_followers;
mod made_of;
mod one_handler_reactor;
mod preforked;
mod preforked_accept;
mod preforked_descriptor;
mod preforked_file_lock;
mod preforked_mutex;
mod preforked_reuseport;
mod prethreaded;
mod prethreaded_acceptor;
mod prethreaded_mutex;
mod proactor;
mod process_per_connection;
mod processes;
mod reactor;
mod reactor_per_core;
mod reactor_pool;
mod split_reactor;
mod thread_per_connection;
mod threads;

use std::str::FromStr;

use crate::error::{Error, find};
use crate::options::Options;
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::setting::Setting;

/// What a design is.
#[derive(Debug)]
pub struct About {
    /// As the command line and results call it.
    pub name: &'static str,
    /// In one sentence.
    pub summary: &'static str,
    /// Where it was described.
    pub source: &'static str,
    /// Whether its connections can reach each other.
    pub memory: Memory,
    /// How many connections it serves at once.
    pub at_once: AtOnce,
    /// The settings it uses; any other is refused.
    pub settings: &'static [Setting],
    /// How many units it serves with, in words, the defaults included; none where there is no choice.
    pub(crate) made_of: fn(&Options) -> Option<String>,
    /// Whether it can serve here, and with these, each of which it uses; the error says why not.
    pub(crate) check: fn(&Options) -> Result<(), Error>,
}

/// Whether connections can reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// All connections are in one address space.
    Shared,
    /// Connections are in several.
    Separate,
}

/// How many connections a design serves at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// One after the other.
    One,
    /// As many as it has workers.
    Workers,
    /// As many as the server's `max_connections`.
    Many,
}

/// For a design that can serve with any values of the settings that it uses.
fn any_settings(_: &Options) -> Result<(), Error> {
    Ok(())
}

macro_rules! designs {
    ($($(#[$about:meta])* $name:ident => $module:ident,)*) => {
        /// A way to use processes, threads and event loops for the connections of a server. The default, one
        /// event loop, is among the cheapest for each message wherever it was measured, and every kernel allows it.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Design {
            $($(#[$about])* $name,)*
        }

        impl Design {
            /// All of them, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What it is.
            pub fn about(self) -> &'static About {
                match self {
                    $(Self::$name => &$module::ABOUT,)*
                }
            }

            /// Serves until the stop is set and all is drained.
            pub(crate) fn run<P: Protocol>(self, serving: &Serving<P>) -> Result<(), Error> {
                match self {
                    $(Self::$name => $module::run(serving),)*
                }
            }
        }
    };
}

designs! {
    /// One connection after the other, by one thread.
    Iterative => iterative,
    /// A process for each connection.
    ProcessPerConnection => process_per_connection,
    /// Children made beforehand, all of which accept.
    PreforkedAccept => preforked_accept,
    /// Children made beforehand; a lock on a file decides who accepts.
    PreforkedFileLock => preforked_file_lock,
    /// Children made beforehand; a lock in shared memory decides who accepts.
    PreforkedMutex => preforked_mutex,
    /// Children made beforehand; the parent accepts and passes descriptors.
    PreforkedDescriptor => preforked_descriptor,
    /// Children made beforehand, with a listening socket each.
    PreforkedReuseport => preforked_reuseport,
    /// A thread for each connection.
    ThreadPerConnection => thread_per_connection,
    /// Threads made beforehand; a lock decides who accepts.
    PrethreadedMutex => prethreaded_mutex,
    /// Threads made beforehand; the main thread accepts and hands over.
    PrethreadedAcceptor => prethreaded_acceptor,
    /// One event loop for all connections.
    #[default]
    Reactor => reactor,
    /// One event loop, which waits to read from a connection or to write to it.
    OneHandlerReactor => one_handler_reactor,
    /// One event loop that reads, one that writes.
    SplitReactor => split_reactor,
    /// Several event loops that read, several that write.
    ReactorPool => reactor_pool,
    /// An event loop for each CPU, with nothing shared.
    ReactorPerCore => reactor_per_core,
    /// An event loop over io_uring for each CPU.
    Proactor => proactor,
    /// Threads take turns at waiting for events.
    LeaderFollowers => leader_followers,
    /// One event loop does the I/O, a pool of threads the work.
    HalfSyncHalfAsync => half_sync_half_async,
}

impl Design {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// Whether sessions that reach each other run on it, and if not, why.
    ///
    /// # Errors
    ///
    /// Why they cannot, as the end of a sentence that began with the design.
    pub fn accepts_shared(self) -> Result<(), &'static str> {
        match self.about() {
            About {
                memory: Memory::Separate,
                ..
            } => Err("keeps them in separate address spaces"),
            About {
                at_once: AtOnce::One, ..
            } => Err("serves one connection after the other"),
            _ => Ok(()),
        }
    }

    /// Whether it uses a setting.
    pub fn uses(self, setting: Setting) -> bool {
        self.about().settings.contains(&setting)
    }
}

/// By its name.
impl FromStr for Design {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        find("design", name, Self::ALL, Self::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_has_a_name_of_its_own() {
        for (i, &design) in Design::ALL.iter().enumerate() {
            assert_eq!(design.name().parse::<Design>().expect("found"), design);
            assert!(Design::ALL[..i].iter().all(|other| other.name() != design.name()));
        }
    }

    #[test]
    fn sessions_that_reach_each_other_need_one_memory_and_more_than_one_at_once() {
        for (design, accepts) in [
            (Design::Reactor, Ok(())),
            (Design::ThreadPerConnection, Ok(())),
            (Design::Iterative, Err("serves one connection after the other")),
            (
                Design::ProcessPerConnection,
                Err("keeps them in separate address spaces"),
            ),
            (
                Design::PreforkedMutex,
                Err("keeps them in separate address spaces"),
            ),
        ] {
            assert_eq!(design.accepts_shared(), accepts, "{}", design.name());
        }
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let error = "iteratve".parse::<Design>().expect_err("unknown").to_string();
        assert!(
            error.contains("`iteratve`") && error.contains("iterative"),
            "{error}"
        );
    }
}
