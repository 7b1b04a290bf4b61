//! The listening socket, and accepting from it.

use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use crate::counters::Counters;
use crate::error::Error;

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    address: SocketAddr,
    backlog: i32,
}

/// Whether others listen on the port too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Own,
    Shared,
}

/// How long to wait before trying again after the system had no descriptor, memory, process or thread for a
/// connection, if none ends before.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

/// What came of accepting.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// A connection.
    Connection(OwnedFd),
    /// Nobody is there, or is there no more: try again when somebody is.
    Nobody,
    /// No descriptors or memory for it: the client waits in the backlog, and trying again at once would spin.
    Exhausted,
    /// [`Listener::close_for_all`] was called.
    Closed,
}

impl Listener {
    /// Listens on the first of the addresses that can be had; it blocks when nobody is there to accept.
    ///
    /// # Errors
    ///
    /// If none can.
    pub fn bind(address: impl ToSocketAddrs + Debug, backlog: i32) -> Result<Self, Error> {
        let cannot = |source| Error::Lookup {
            address: format!("{address:?}"),
            source,
        };
        let mut failure = cannot(io::Error::other("it stands for no address"));
        for address in address.to_socket_addrs().map_err(cannot)? {
            match Self::open(address, backlog, Port::Own) {
                Ok(listener) => return Ok(listener),
                Err(source) => failure = Error::Bind { address, source },
            }
        }
        Err(failure)
    }

    /// Another socket that listens on the same port: the kernel spreads connections over them.
    ///
    /// # Errors
    ///
    /// If it cannot be had.
    pub fn sibling(&self) -> Result<Self, Error> {
        sockopt::set_socket_reuseport(&self.socket, true).map_err(Error::io("sharing the port"))?;
        Self::open(self.address, self.backlog, Port::Shared).map_err(|source| Error::Bind {
            address: self.address,
            source,
        })
    }

    fn open(address: SocketAddr, backlog: i32, port: Port) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        // What is accepted inherits it: a design sends what it has at once, and waiting for more would only delay.
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, port == Port::Shared)?;
        net::bind(&socket, &address)?;
        net::listen(&socket, backlog)?;
        let socket = TcpListener::from(socket);
        let address = socket.local_addr()?;
        Ok(Self {
            socket: socket.into(),
            address,
            backlog,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts a connection, which blocks in its calls unless `flags` say otherwise.
    ///
    /// # Errors
    ///
    /// If the socket is not one that can be accepted from.
    pub fn accept(&self, flags: SocketFlags, counters: &Counters) -> Result<Accepted, Error> {
        counters.accepts.add(1);
        match net::accept_with(&self.socket, SocketFlags::CLOEXEC | flags) {
            Ok(connection) => {
                counters.accepted.add(1);
                Ok(Accepted::Connection(connection))
            }
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                counters.accept_errors.add(1);
                Ok(Accepted::Exhausted)
            }
            Err(Errno::INVAL) => Ok(Accepted::Closed),
            // The client was gone again, a signal came, or its network failed: accept(2) lists these as transient.
            Err(
                Errno::AGAIN
                | Errno::INTR
                | Errno::CONNABORTED
                | Errno::PROTO
                | Errno::PERM
                | Errno::NETDOWN
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::NONET
                | Errno::HOSTUNREACH
                | Errno::OPNOTSUPP
                | Errno::NETUNREACH,
            ) => Ok(Accepted::Nobody),
            Err(error) => Err(Error::io("accepting a connection")(error)),
        }
    }

    /// Whether accepting blocks when nobody is there: for all processes that share the socket.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Error> {
        rustix::io::ioctl_fionbio(&self.socket, nonblocking).map_err(Error::io("setting how accept waits"))
    }

    /// Stops listening in every process that shares the socket, and wakes all who wait in accept.
    pub fn close_for_all(&self) {
        // It can only fail if it does not listen any more.
        let _ = net::shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
