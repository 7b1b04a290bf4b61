//! The listening sockets, and accepting from them.

use std::fmt::Debug;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use std::{io, iter};

use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use crate::counters::Counters;
use crate::error::Error;
use crate::fork;

/// Sockets that listen: one, or one for each family of addresses where a name stands for both.
#[derive(Debug)]
pub(crate) struct Listener {
    first: Socket,
    second: Option<Second>,
    backlog: i32,
}

/// A socket that listens.
#[derive(Debug)]
struct Socket {
    socket: OwnedFd,
    address: SocketAddr,
}

/// What a second socket needs. Both never block: who waits does so for `either`.
#[derive(Debug)]
struct Second {
    socket: Socket,
    /// An epoll descriptor, readable when somebody is at either.
    either: OwnedFd,
    /// Whether accepting waits. Relaxed: it is set before anybody accepts.
    waits: AtomicBool,
    /// Which of them is asked first, so that nobody waits for long at the other. Relaxed: it is only a hint.
    second_first: AtomicBool,
}

/// Whether others listen on the port too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Own,
    Shared,
}

/// How long to wait before trying again after the system had no descriptor, memory, process or thread for a
/// connection, if none ends before. Who accepts for itself alone (a preforked child, a prethreaded thread) does not
/// hear of the others' ends, and waits so long.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

/// How often a free port is looked for that is free in both families.
const MOST_TRIES: usize = 16;

/// What came of accepting.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// A connection.
    Connection(OwnedFd),
    /// Nobody is there, or is there no more: try again when somebody is.
    Nobody,
    /// No descriptors or memory for it, or it failed otherwise: the client waits in the backlog, and trying again at
    /// once would spin.
    Exhausted,
    /// [`Listener::close_for_all`] was called.
    Closed,
}

impl Listener {
    /// Listens on the first of the addresses of each family that can be had; it blocks when nobody is there to accept.
    ///
    /// # Errors
    ///
    /// If none can, or one of a family that this machine has.
    pub fn bind(address: impl ToSocketAddrs + Debug, backlog: i32) -> Result<Self, Error> {
        let addresses = address
            .to_socket_addrs()
            .and_then(|addresses| {
                let addresses: Vec<_> = addresses.collect();
                match addresses.is_empty() {
                    true => Err(io::Error::other("it stands for no address")),
                    false => Ok(addresses),
                }
            })
            .map_err(|source| Error::Lookup {
                address: format!("{address:?}"),
                source,
            })?;
        let mut tries = 0;
        loop {
            match Self::bind_all(&addresses, backlog, Port::Own) {
                // A free port of one family need not be free in the other.
                Err(Error::Bind { address, source })
                    if tries < MOST_TRIES
                        && addresses.iter().all(|address| address.port() == 0)
                        && address.port() != 0
                        && source.kind() == io::ErrorKind::AddrInUse =>
                {
                    tries += 1;
                }
                bound => return bound,
            }
        }
    }

    /// `addresses` has one at least.
    fn bind_all(addresses: &[SocketAddr], backlog: i32, port: Port) -> Result<Self, Error> {
        let is_of_first = |address: &SocketAddr| address.is_ipv4() == addresses[0].is_ipv4();
        let (of_first, mut others): (Vec<_>, Vec<_>) = addresses.iter().partition(|it| is_of_first(it));
        let first = Socket::open_any(&of_first, backlog, port);
        if let Ok(Some(first)) = &first {
            for other in others.iter_mut().filter(|other| other.port() == 0) {
                other.set_port(first.address.port());
            }
        }
        let (first, second) = match (first, Socket::open_any(&others, backlog, port)) {
            (Err(Error::Bind { source, .. }), Ok(Some(other))) if is_absent(&source) => (Some(other), None),
            (Ok(first), Err(Error::Bind { source, .. })) if is_absent(&source) => (first, None),
            (first, second) => (first?, second?),
        };
        let first = first.expect("of the first family there is an address");
        let second = second.map(|second| Second::beside(&first, second)).transpose()?;
        Ok(Self {
            first,
            second,
            backlog,
        })
    }

    /// Others that listen on the same port: the kernel spreads connections over them.
    ///
    /// # Errors
    ///
    /// If they cannot be had.
    pub fn sibling(&self) -> Result<Self, Error> {
        for socket in self.sockets() {
            sockopt::set_socket_reuseport(&socket.socket, true).map_err(Error::io("sharing the port"))?;
        }
        let addresses: Vec<_> = self.addresses().collect();
        Self::bind_all(&addresses, self.backlog, Port::Shared)
    }

    fn sockets(&self) -> impl Iterator<Item = &Socket> {
        let second = self.second.as_ref().map(|second| &second.socket);
        iter::once(&self.first).chain(second)
    }

    /// Where it listens.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets().map(|socket| socket.address)
    }

    /// The first of them.
    pub fn address(&self) -> SocketAddr {
        self.first.address
    }

    /// Accepts a connection, which blocks in its calls unless `flags` say otherwise.
    ///
    /// # Errors
    ///
    /// If the socket is not one that can be accepted from.
    pub fn accept(&self, flags: SocketFlags, counters: &Counters) -> Result<Accepted, Error> {
        let Some(second) = &self.second else {
            return self.first.accept(flags, counters);
        };
        loop {
            let mut order = [&self.first, &second.socket];
            if second.second_first.fetch_not(Relaxed) {
                order.reverse();
            }
            for socket in order {
                let accepted = socket.accept(flags, counters);
                if !matches!(accepted, Ok(Accepted::Nobody)) {
                    return accepted;
                }
            }
            if !second.waits.load(Relaxed) {
                return Ok(Accepted::Nobody);
            }
            counters.waits.add(1);
            let waited = poll(&mut [PollFd::new(&second.either, PollFlags::IN)], None);
            counters.wake_ups.add(1);
            match waited {
                Ok(_) => {}
                Err(Errno::INTR) => return Ok(Accepted::Nobody),
                Err(error) => return Err(Error::io("waiting for a connection")(error)),
            }
        }
    }

    /// Whether accepting blocks when nobody is there: for all processes that share the socket.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Error> {
        if let Some(second) = &self.second {
            second.waits.store(!nonblocking, Relaxed);
            return Ok(());
        }
        self.first.set_nonblocking(nonblocking)
    }

    /// Stops listening in every process that shares the socket, and wakes all who wait in accept.
    pub fn close_for_all(&self) {
        for socket in self.sockets() {
            // It can only fail if it does not listen any more.
            let _ = net::shutdown(&socket.socket, Shutdown::Both);
        }
    }

    /// In a child that will never accept: closes what it inherited.
    pub fn close_for_good(&self) {
        for socket in self.sockets() {
            fork::close_for_good(socket.socket.as_fd());
        }
        if let Some(second) = &self.second {
            fork::close_for_good(second.either.as_fd());
        }
    }
}

impl Socket {
    /// On the first of the addresses that can be had; `None` if there are none.
    fn open_any(addresses: &[SocketAddr], backlog: i32, port: Port) -> Result<Option<Self>, Error> {
        let mut failure = Ok(None);
        for &address in addresses {
            match Self::open(address, backlog, port) {
                Ok(socket) => return Ok(Some(socket)),
                Err(source) => failure = Err(Error::Bind { address, source }),
            }
        }
        failure
    }

    /// An address that stands for all addresses stands for those of both families, where the machine has both.
    fn open(address: SocketAddr, backlog: i32, port: Port) -> io::Result<Self> {
        if address.ip().is_unspecified() {
            let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
            match Self::listen(both, backlog, port) {
                Ok(mut socket) => {
                    socket.address.set_ip(address.ip());
                    return Ok(socket);
                }
                Err(error) if address.is_ipv4() && is_absent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Self::listen(address, backlog, port)
    }

    fn listen(address: SocketAddr, backlog: i32, port: Port) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
        }
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
        })
    }

    fn accept(&self, flags: SocketFlags, counters: &Counters) -> Result<Accepted, Error> {
        counters.accepts.add(1);
        match net::accept_with(&self.socket, SocketFlags::CLOEXEC | flags) {
            Ok(connection) => {
                counters.accepted.add(1);
                Ok(Accepted::Connection(connection))
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
            // Our own mistakes, which no other try fixes.
            Err(error @ (Errno::BADF | Errno::NOTSOCK | Errno::FAULT)) => {
                Err(Error::io("accepting a connection")(error))
            }
            // No descriptors or memory; or what no list has, as of a network or a security module to come.
            Err(_) => {
                counters.accept_errors.add(1);
                Ok(Accepted::Exhausted)
            }
        }
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Error> {
        rustix::io::ioctl_fionbio(&self.socket, nonblocking).map_err(Error::io("setting how accept waits"))
    }
}

impl Second {
    fn beside(first: &Socket, second: Socket) -> Result<Self, Error> {
        let cannot = || Error::io("waiting for connections at two addresses");
        let either = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(cannot())?;
        for socket in [first, &second] {
            socket.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(0);
            epoll::add(&either, &socket.socket, data, epoll::EventFlags::IN).map_err(cannot())?;
        }
        Ok(Self {
            socket: second,
            either,
            waits: AtomicBool::new(true),
            second_first: AtomicBool::new(false),
        })
    }
}

/// Whether the machine has no such address, or none of its family.
fn is_absent(error: &io::Error) -> bool {
    let absent = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT];
    Errno::from_io_error(error).is_some_and(|errno| absent.contains(&errno))
}

/// Where the client of a connection is, if that can be known. One that has come by IPv4 has an address of that.
pub(crate) fn client_of(socket: impl AsFd) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(net::getpeername(socket).ok().flatten()?).ok()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

/// Readable when somebody is there.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.second {
            Some(second) => second.either.as_fd(),
            None => self.first.socket.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn accepts(listener: &Listener, counters: &Counters) -> OwnedFd {
        match listener.accept(SocketFlags::empty(), counters) {
            Ok(Accepted::Connection(socket)) => socket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_for_all_is_one_of_both_families_and_clients_have_their_own() {
        for all in ["0.0.0.0:0", "[::]:0"] {
            let (listener, counters) = (Listener::bind(all, 8).expect("a port"), Counters::default());
            let at = listener.address();
            assert_eq!(
                at.ip().to_string(),
                all.trim_end_matches(":0").trim_matches(['[', ']'])
            );
            for client in ["127.0.0.1", "::1"] {
                let client: std::net::IpAddr = client.parse().expect("an address");
                let stream = TcpStream::connect((client, at.port())).expect("connects");
                let socket = accepts(&listener, &counters);
                assert_eq!(client_of(&socket), stream.local_addr().ok());
                assert_eq!(client_of(&socket).map(|at| at.ip()), Some(client));
            }
            let sibling = listener.sibling().expect("the same port");
            assert_eq!(sibling.address(), at);
        }
    }

    #[test]
    fn a_name_for_both_families_is_listened_on_at_both() {
        let localhost: [SocketAddr; 2] = ["[::1]:0", "127.0.0.1:0"].map(|it| it.parse().expect("an address"));
        let (listener, counters) = (
            Listener::bind(&localhost[..], 8).expect("a port"),
            Counters::default(),
        );
        let at: Vec<_> = listener.addresses().collect();
        assert_eq!([at[0].ip(), at[1].ip()], localhost.map(|it| it.ip()));
        assert_eq!(at[0].port(), at[1].port());
        std::thread::scope(|scope| {
            // It waits for whoever comes, at either.
            let accepting = scope.spawn(|| {
                (0..8)
                    .map(|_| client_of(accepts(&listener, &counters)))
                    .collect::<Vec<_>>()
            });
            let clients: Vec<_> = (0..8)
                .map(|turn| TcpStream::connect(at[turn % 2]).expect("connects"))
                .collect();
            let mut came = accepting.join().expect("accepted");
            let mut expected: Vec<_> = clients.iter().map(|it| it.local_addr().ok()).collect();
            came.sort();
            expected.sort();
            assert_eq!(came, expected);
        });
        listener.set_nonblocking(true).expect("set");
        let nobody = listener.accept(SocketFlags::empty(), &counters);
        assert!(matches!(nobody, Ok(Accepted::Nobody)), "{nobody:?}");
        listener.close_for_all();
        let closed = listener.accept(SocketFlags::empty(), &counters);
        assert!(matches!(closed, Ok(Accepted::Closed)), "{closed:?}");
    }

    #[test]
    fn a_family_that_cannot_be_had_is_an_error_unless_the_machine_lacks_it() {
        let first = Listener::bind("127.0.0.1:0", 8).expect("a port");
        let taken = first.address();
        let both = [SocketAddr::new(Ipv6Addr::LOCALHOST.into(), taken.port()), taken];
        let error = Listener::bind(&both[..], 8).expect_err("in use").to_string();
        assert!(error.contains(&taken.to_string()), "{error}");
        // For documentation: nobody has it.
        let absent: SocketAddr = "[2001:db8::1]:0".parse().expect("an address");
        let free: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        for both in [[absent, free], [free, absent]] {
            let listener = Listener::bind(&both[..], 8).expect("one of them");
            assert_eq!(listener.addresses().collect::<Vec<_>>(), [listener.address()]);
            assert_eq!(listener.address().ip(), free.ip());
        }
        assert!(Listener::bind(absent, 8).is_err());
    }
}
