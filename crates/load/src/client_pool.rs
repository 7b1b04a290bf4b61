//! Many connections to one server, in one thread: bytes out, bytes in, and nothing of what they mean.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, socket_error};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, connect, recv, socket_with};
use threadgauge_machine::{Resource, raise_to_hard};

use crate::batch_sender::BatchSender;
use crate::codec::CodecError;
use crate::error::LoadError;

/// Events of one turn: a large batch is cheaper for both sides.
const BATCH: usize = 1024;
const BUFFER_BYTES: usize = 256 * 1024;
/// Reads of one connection in a turn: what more it has is for the next, after the others, the clock and who ends the
/// run had theirs.
const MOST_READS: usize = 4;
/// Bytes of all connections in a turn, which ends with the read that reaches them.
const MOST_TURN_BYTES: u64 = 1 << 20;
/// What a connection has received and nobody could use: more than any message of a protocol of ours.
const MOST_UNUSED_BYTES: usize = 1 << 20;
/// Answers that a server wants and does not read: thousands of them, where one at a time is usual.
const MOST_OWED_BYTES: usize = 64 * 1024;
/// Waits from here on need not be kept to the microsecond.
const COARSE_NS: i64 = 50_000_000;
/// While connections are made, the longest wait without a look at whether to go on.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// What a connection has to tell.
#[derive(Debug)]
pub enum Told<'a> {
    /// It is made, after [`ClientPool::begin`]. What was said until now goes out with the next flush.
    Made,
    /// What it has received and not used yet. How many bytes from the front are used is the answer.
    Bytes(&'a [u8]),
    /// It is over: the server has ended it, or this failed. Nothing more comes of it until it begins anew.
    Ended(Option<io::Error>),
}

/// Connections to a server, counted from 0. Dropped, they are reset, so that their ports are free at once.
///
/// Whatever a server sends, a turn comes to its end, and what is kept of it is bounded: bytes that nobody uses, and
/// answers that it wants and does not read ([`owe`](Self::owe)).
///
/// [`connect`](Self::connect), [`hear`](Self::hear) and [`flush`](Self::flush) take no failure: the first ends the run.
/// [`begin`](Self::begin), [`turn`](Self::turn) and [`flush_each`](Self::flush_each) do not wait, and tell what became
/// of each connection.
pub struct ClientPool {
    /// By connection; none where it is over.
    streams: Vec<Option<TcpStream>>,
    /// By connection, how often it began: an event of an earlier stream is not taken for one of the present.
    begun: Vec<u32>,
    /// By connection, whether it is still being made: nothing goes out yet.
    making: Vec<bool>,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    /// By connection: received, and not a whole message yet.
    unused: Vec<Vec<u8>>,
    /// By connection: to be sent.
    unsent: Vec<Vec<u8>>,
    /// Those that have something to be sent.
    speakers: Vec<usize>,
    /// By connection: of what is to be sent, how much are answers that the server wants. Too much rather than too
    /// little: it begins anew when all was sent.
    owed: Vec<usize>,
    /// Of events that a turn had no time for.
    left: Vec<epoll::Event>,
    /// Since it was last asked for.
    received_bytes: u64,
    sender: BatchSender,
}

impl ClientPool {
    /// No connection yet. Raises this process's limit on descriptors as far as it may.
    ///
    /// # Errors
    ///
    /// If the kernel has no epoll descriptor for it.
    pub fn new() -> Result<Self, LoadError> {
        // Too low a hard limit shows when a connection fails.
        let _ = raise_to_hard(Resource::OpenFiles);
        Ok(Self {
            streams: Vec::new(),
            begun: Vec::new(),
            making: Vec::new(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(|error| LoadError::Wait(error.into()))?,
            events: Vec::with_capacity(BATCH),
            buffer: vec![0; BUFFER_BYTES],
            unused: Vec::new(),
            unsent: Vec::new(),
            speakers: Vec::new(),
            owed: Vec::new(),
            left: Vec::new(),
            received_bytes: 0,
            sender: BatchSender::new(),
        })
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// One more connection; blocks until it is made.
    ///
    /// # Errors
    ///
    /// If the server refuses or descriptors run out.
    pub fn connect(&mut self, server: SocketAddr) -> Result<(), LoadError> {
        self.connect_from(None, server)
    }

    /// As [`connect`](Self::connect), from this address of the machine, which has ports of its own.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and if the address is not the machine's.
    pub fn connect_from(&mut self, from: Option<IpAddr>, server: SocketAddr) -> Result<(), LoadError> {
        let connection = self.streams.len();
        let made = match from {
            None => TcpStream::connect(server),
            Some(from) => connected_from(from, server),
        };
        let made = made.and_then(|stream| {
            stream.set_nodelay(true)?;
            epoll::add(&self.epoll, &stream, name(connection, 0), EDGES)?;
            Ok(stream)
        });
        let made = made.map_err(|source| LoadError::Connect { connection, source })?;
        self.place();
        self.streams[connection] = Some(made);
        Ok(())
    }

    /// As [`connect_from`](Self::connect_from), for as long as `goes_on` says so, which is asked first and then every
    /// 50 ms. Whether the connection was made.
    ///
    /// # Errors
    ///
    /// As [`connect_from`](Self::connect_from).
    pub fn connect_while(
        &mut self,
        from: Option<IpAddr>,
        server: SocketAddr,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, LoadError> {
        if !goes_on() {
            return Ok(false);
        }
        let connection = self.streams.len();
        let made = begin_from(from, server).and_then(|stream| {
            while !is_over(&stream)? {
                if !goes_on() {
                    return Ok(None);
                }
            }
            // What it ended with, if it was not made.
            socket_error(&stream)??;
            epoll::add(&self.epoll, &stream, name(connection, 0), EDGES)?;
            Ok(Some(stream))
        });
        let made = made.map_err(|source| LoadError::Connect { connection, source })?;
        let Some(stream) = made else {
            return Ok(false);
        };
        self.place();
        self.streams[connection] = Some(stream);
        Ok(true)
    }

    /// A place for one more connection, which is over. Its number is the answer.
    pub fn place(&mut self) -> usize {
        self.streams.push(None);
        self.begun.push(0);
        self.making.push(false);
        self.unused.push(Vec::new());
        self.unsent.push(Vec::new());
        self.owed.push(0);
        self.streams.len() - 1
    }

    /// Begins this connection, anew if there was one, and does not wait: [`turn`](Self::turn) tells when it is made or
    /// has failed. What was to be sent or used of an earlier one is forgotten.
    ///
    /// # Errors
    ///
    /// If the kernel says at once that it cannot be made, e.g. since descriptors or ports ran out.
    ///
    /// # Panics
    ///
    /// If there is no such place.
    pub fn begin(&mut self, connection: usize, server: SocketAddr) -> io::Result<()> {
        self.end(connection);
        let stream = begin_from(None, server)?;
        self.begun[connection] = self.begun[connection].wrapping_add(1);
        let name = name(connection, self.begun[connection]);
        epoll::add(&self.epoll, &stream, name, EDGES | epoll::EventFlags::OUT)?;
        self.streams[connection] = Some(stream);
        self.making[connection] = true;
        Ok(())
    }

    /// Ends this connection by a reset, if it is not over, and forgets what was to be sent or used of it.
    ///
    /// # Panics
    ///
    /// If there is no such place.
    pub fn end(&mut self, connection: usize) {
        if let Some(stream) = self.streams[connection].take() {
            reset(&stream);
        }
        self.making[connection] = false;
        self.unused[connection].clear();
        if !self.unsent[connection].is_empty() {
            self.unsent[connection].clear();
            self.speakers.retain(|&speaker| speaker != connection);
        }
    }

    /// Whether this connection is made, or being made.
    ///
    /// # Panics
    ///
    /// If there is no such place.
    pub fn is_begun(&self, connection: usize) -> bool {
        self.streams[connection].is_some()
    }

    /// Has `append` append what this connection is to send with the next [`flush`](Self::flush).
    ///
    /// # Panics
    ///
    /// If there is no such connection.
    pub fn say(&mut self, connection: usize, append: impl FnOnce(&mut Vec<u8>)) {
        let unsent = &mut self.unsent[connection];
        let was_silent = unsent.is_empty();
        append(unsent);
        // A speaker that stood there twice would send the same bytes twice.
        if was_silent && !unsent.is_empty() && !self.making[connection] {
            self.speakers.push(connection);
        }
    }

    /// Has this connection send what the server wants as its answer, so many times, with the next
    /// [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// If over 64 KiB of such answers wait, since the server does not read them: these are not added, and the caller is
    /// to end the connection or the run.
    ///
    /// # Panics
    ///
    /// If there is no such connection.
    pub fn owe(&mut self, connection: usize, answer: &[u8], times: usize) -> Result<(), CodecError> {
        let owed = &mut self.owed[connection];
        if self.unsent[connection].is_empty() {
            *owed = 0;
        }
        *owed = owed.saturating_add(answer.len().saturating_mul(times));
        if *owed > MOST_OWED_BYTES {
            return Err(CodecError::Unread(MOST_OWED_BYTES));
        }
        self.say(connection, |unsent| {
            (0..times).for_each(|_| unsent.extend_from_slice(answer));
        });
        Ok(())
    }

    /// How many bytes have come since this was last asked, used or not.
    pub fn take_received_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.received_bytes)
    }

    /// The beginning of what this connection has received and no turn has told of. Does not wait. Such bytes are of no
    /// use any more, so this is for a connection that is to be ended.
    ///
    /// # Panics
    ///
    /// If there is no such place.
    pub fn rest(&mut self, connection: usize) -> &[u8] {
        let read = |stream| recv(stream, &mut self.buffer[..], RecvFlags::DONTWAIT);
        // A failure is the end of what ends anyway.
        let received = self.streams[connection].as_ref().map_or(Ok((0, 0)), read);
        let received = received.map_or(0, |(received, _)| received);
        self.received_bytes += received as u64;
        &self.buffer[..received]
    }

    /// The connections of which something has come that is not used yet, each with that.
    pub fn unused(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let all = self.unused.iter().map(Vec::as_slice).enumerate();
        all.filter(|(_, unused)| !unused.is_empty())
    }

    /// Bytes that sockets have not taken yet.
    pub fn unsent_bytes(&self) -> usize {
        self.speakers
            .iter()
            .map(|&speaker| self.unsent[speaker].len())
            .sum()
    }

    /// Sends all that waits, as far as sockets take it without waiting: whether that was all. The rest stays.
    ///
    /// # Errors
    ///
    /// If a connection fails.
    pub fn flush(&mut self) -> Result<bool, LoadError> {
        let mut failure = None;
        let all = self.flush_each(|connection, source| failure = Some((connection, source)))?;
        match failure {
            None => Ok(all),
            Some((connection, source)) => Err(LoadError::Socket { connection, source }),
        }
    }

    /// As [`flush`](Self::flush), and tells `failed` of each connection that failed. What it was to send is gone, and
    /// the caller is to [`end`](Self::end) it.
    ///
    /// # Errors
    ///
    /// If sending as such fails.
    pub fn flush_each(&mut self, mut failed: impl FnMut(usize, io::Error)) -> Result<bool, LoadError> {
        if self.speakers.is_empty() {
            return Ok(true);
        }
        let mut parts = Vec::new();
        let streams = &self.streams;
        let stream = |connection: usize| streams[connection].as_ref().expect("who speaks is connected");
        self.sender
            .send(
                stream,
                &self.unsent,
                &self.speakers,
                |connection, sent| match sent {
                    Ok(sent) if sent == self.unsent[connection].len() => {}
                    Ok(sent) => parts.push((connection, sent)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => parts.push((connection, 0)),
                    Err(source) => failed(connection, source),
                },
            )
            .map_err(LoadError::Wait)?;
        let rest = |(connection, sent): (usize, usize)| (connection, self.unsent[connection].split_off(sent));
        let rests: Vec<(usize, Vec<u8>)> = parts.into_iter().map(rest).collect();
        for connection in self.speakers.drain(..) {
            self.unsent[connection].clear();
        }
        for (connection, rest) in rests {
            self.say(connection, |unsent| *unsent = rest);
        }
        Ok(self.speakers.is_empty())
    }

    /// Waits at most `limit` for bytes, and gives `take` what each connection has received and not used yet; `take`
    /// answers how many bytes from the front it has used. Returns how many connections had something; none, too, where
    /// a signal ended the waiting early.
    ///
    /// # Errors
    ///
    /// If a connection fails or was closed, or `take` does.
    pub fn hear(
        &mut self,
        limit: Duration,
        mut take: impl FnMut(usize, &[u8]) -> Result<usize, LoadError>,
    ) -> Result<usize, LoadError> {
        self.turn(limit, |connection, told| match told {
            Told::Bytes(bytes) => take(connection, bytes),
            Told::Made => Ok(0),
            Told::Ended(None) => Err(LoadError::Closed(connection)),
            Told::Ended(Some(source)) => Err(LoadError::Socket { connection, source }),
        })
    }

    /// Waits at most `limit`, and lets each connection tell what happened to it; only of [`Told::Bytes`] the answer of
    /// `hear` counts. Returns how many had something to tell; none, too, where a signal ended the waiting early.
    ///
    /// # Errors
    ///
    /// If waiting fails, or `hear` does.
    pub fn turn(
        &mut self,
        limit: Duration,
        mut hear: impl FnMut(usize, Told<'_>) -> Result<usize, LoadError>,
    ) -> Result<usize, LoadError> {
        let left = std::mem::take(&mut self.left);
        let limit = if left.is_empty() { limit } else { Duration::ZERO };
        self.wait(limit).map_err(|error| LoadError::Wait(error.into()))?;
        let (many, begun_bytes) = (left.len() + self.events.len(), self.received_bytes);
        let mut unread = Vec::new();
        for i in 0..many {
            // Those that waited for longer come first.
            let event = left
                .get(i)
                .copied()
                .unwrap_or_else(|| self.events[i - left.len()]);
            let (connection, begun) = named(event.data);
            if self.begun[connection] != begun {
                continue;
            }
            if self.received_bytes - begun_bytes >= MOST_TURN_BYTES {
                self.left.push(event);
                continue;
            }
            // What ends a connection comes as one event with its last bytes, where these were not looked at before.
            let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
            let flags = event.flags;
            let look = match self.made(connection, &mut hear)? {
                None => self.receive(connection, flags.intersects(ends), &mut hear)?,
                Some(failed) => Look::Over(Some(failed)),
            };
            match look {
                Look::All => {}
                // Nothing tells again of what is left in a socket.
                Look::Some => unread.push(event),
                Look::Over(error) => {
                    self.end(connection);
                    hear(connection, Told::Ended(error))?;
                }
            }
        }
        // Behind those that had no look yet.
        self.left.append(&mut unread);
        Ok(many)
    }

    /// Fills `events`; with none where nothing came in time, or a signal ended the waiting.
    fn wait(&mut self, limit: Duration) -> Result<(), Errno> {
        self.events.clear();
        let mut limit = Timespec::try_from(limit).map_err(|_| Errno::INVAL)?;
        // The call for many waits by milliseconds, rounded up: half of one would be in every latency of an open loop.
        // The one for few waits by nanoseconds, and the set is one descriptor for it. (epoll_pwait2 does both, and not
        // every kernel has it.)
        if limit.tv_sec == 0 && (1..COARSE_NS).contains(&limit.tv_nsec) {
            let mut set = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut set, Some(&limit)) {
                Ok(0) | Err(Errno::INTR) => return Ok(()),
                Ok(_) => limit.tv_nsec = 0,
                Err(error) => return Err(error),
            }
        }
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Of one that was being made: why it was not.
    fn made(
        &mut self,
        connection: usize,
        hear: &mut impl FnMut(usize, Told<'_>) -> Result<usize, LoadError>,
    ) -> Result<Option<io::Error>, LoadError> {
        if !self.making[connection] {
            return Ok(None);
        }
        let Some(stream) = &self.streams[connection] else {
            return Ok(None);
        };
        match socket_error(stream) {
            Ok(Ok(())) => {}
            Ok(Err(error)) | Err(error) => return Ok(Some(error.into())),
        }
        self.making[connection] = false;
        if !self.unsent[connection].is_empty() {
            self.speakers.push(connection);
        }
        hear(connection, Told::Made)?;
        Ok(None)
    }

    /// Until the socket is empty, since nothing tells of what is left there: of one that has ended, to the end. At most
    /// so often, however much there is.
    fn receive(
        &mut self,
        connection: usize,
        ended: bool,
        hear: &mut impl FnMut(usize, Told<'_>) -> Result<usize, LoadError>,
    ) -> Result<Look, LoadError> {
        let Some(stream) = &self.streams[connection] else {
            return Ok(Look::All);
        };
        for _ in 0..MOST_READS {
            let received = match recv(stream, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Ok(Look::Over(None)),
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => return Ok(Look::All),
                Err(Errno::INTR) => continue,
                Err(error) => return Ok(Look::Over(Some(error.into()))),
            };
            self.received_bytes += received as u64;
            let new = &self.buffer[..received];
            let unused = &mut self.unused[connection];
            if unused.is_empty() {
                let used = hear(connection, Told::Bytes(new))?;
                unused.extend_from_slice(&new[used..]);
            } else {
                unused.extend_from_slice(new);
                let used = hear(connection, Told::Bytes(unused))?;
                unused.drain(..used);
                if unused.len() > MOST_UNUSED_BYTES {
                    return Ok(Look::Over(Some(endless())));
                }
            }
            if received < self.buffer.len() && !ended {
                return Ok(Look::All);
            }
        }
        Ok(Look::Some)
    }
}

/// What a look at a connection came to.
enum Look {
    /// Its socket is empty.
    All,
    /// There may be more.
    Some,
    /// It has ended: by the server, or by this failure.
    Over(Option<io::Error>),
}

/// Of a connection whose bytes come to no message.
fn endless() -> io::Error {
    let says = format!("over {MOST_UNUSED_BYTES} bytes came that are no whole message");
    io::Error::new(io::ErrorKind::InvalidData, says)
}

/// A connection from one of several addresses of this machine.
fn connected_from(from: IpAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket_with(family(server), SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::new(from, 0))?;
    connect(&socket, &server)?;
    Ok(TcpStream::from(socket))
}

/// A connection that is being made, from one of several addresses of this machine if one is named.
fn begin_from(from: Option<IpAddr>, server: SocketAddr) -> io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = TcpStream::from(socket_with(family(server), SocketType::STREAM, flags, None)?);
    stream.set_nodelay(true)?;
    if let Some(from) = from {
        bind(&stream, &SocketAddr::new(from, 0))?;
    }
    match connect(&stream, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(stream),
        Err(error) => Err(error.into()),
    }
}

/// Whether a connection is not being made any more, since it is made or has failed. Waits a moment for that.
fn is_over(stream: &TcpStream) -> io::Result<bool> {
    let mut set = [PollFd::new(stream, PollFlags::OUT)];
    let limit = Timespec::try_from(LOOK).map_err(|_| Errno::INVAL)?;
    match poll(&mut set, Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn family(of: SocketAddr) -> AddressFamily {
    match of {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// By edges: a level would put each connection through the kernel's list once more.
const EDGES: epoll::EventFlags = epoll::EventFlags::IN
    .union(epoll::EventFlags::RDHUP)
    .union(epoll::EventFlags::ET);

/// What the kernel calls the stream of a connection that began so often.
fn name(connection: usize, begun: u32) -> epoll::EventData {
    epoll::EventData::new_u64((connection as u64) << 32 | u64::from(begun))
}

/// The connection, and how often it had begun.
fn named(data: epoll::EventData) -> (usize, u32) {
    let name = data.u64();
    ((name >> 32) as usize, name as u32)
}

/// Closing it resets it.
fn reset(stream: &TcpStream) {
    // Fails only on what is closed already.
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
}

impl std::fmt::Debug for ClientPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientPool of {} by {:?}", self.len(), self.sender)
    }
}

impl Drop for ClientPool {
    fn drop(&mut self) {
        self.streams.iter().flatten().for_each(reset);
    }
}

#[cfg(test)]
mod tests;
