//! Clients that take their time: slow to read, idle, slow to send, and those that send what is no request.
//!
//! Each connection is looked at when something of it is due, some times a second, and not when something came: a slow
//! reader that is woken by what it does not read would not be slow. So this is a loop of its own beside
//! [`Requests`](crate::Requests), which keeps the same books.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use threadgauge_machine::clock::monotonic_ns;

use crate::arrivals::Ramp;
use crate::codec::CodecError;
use crate::exchange::{Exchange, Worth};
use crate::record::{Failure, Record, Recorder, Watch};
use crate::requests::{Bound, Clients};

/// Between two looks at a connection that reads.
const READ_EVERY_NS: u64 = 20_000_000;
/// Between two looks at a connection of which nothing is expected.
const LOOK_EVERY_NS: u64 = 200_000_000;
/// After a connection that failed, until the next is tried.
const PAUSE_NS: u64 = 100_000_000;
/// Looks at connections between two at whether to go on: where they take longer than until the next is due, there is
/// always one.
const LOOKS_AT_ONCE: usize = 1024;
/// Between the first connections, so that they do not all come at once.
const APART_NS: u64 = 200_000;
/// The longest sleep without a look at whether to go on.
const NAP: Duration = Duration::from_millis(50);
/// What the kernel keeps at least of what a slow reader has not read: little, so that the server notices.
const SLOW_BUFFER_BYTES: usize = 4 * 1024;
const BUFFER_BYTES: usize = 16 * 1024;

/// How a client takes its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClientKind {
    /// It asks, and reads the answer at this rate.
    SlowReader {
        /// Bytes a second: at most [`MOST_OF_A_SLOW_READER`](Self::MOST_OF_A_SLOW_READER).
        bytes_per_second: f64,
        /// From an answer to the next request.
        think: Duration,
    },
    /// It connects and says nothing. A connection that the server ends is made anew.
    Idle,
    /// It sends its request one byte at a time and never the last one, as the attack *slow loris* does.
    SlowSender {
        /// Between two bytes.
        every: Duration,
    },
    /// It sends bytes that are of no protocol and waits until the server ends the connection, at most for the timeout.
    Garbage {
        /// How many bytes.
        bytes: usize,
        /// From one such connection to the next.
        think: Duration,
    },
}

impl ClientKind {
    /// The most that a slow reader can read a second, in bytes: the kernel keeps no more for it meanwhile.
    pub const MOST_OF_A_SLOW_READER: f64 = 1e7;
}

/// Clients that take their time, of one kind.
#[derive(Debug)]
pub struct Paced<E: Exchange> {
    exchange: E,
    kind: ClientKind,
    plan: Clients,
    clients: Vec<Client<E::Reading>>,
    dice: fastrand::Rng,
}

#[derive(Debug, Default)]
struct Client<R> {
    stream: Option<TcpStream>,
    is_made: bool,
    reading: R,
    /// Received and not used yet.
    unused: Vec<u8>,
    /// Of the request: all of it, and how much of that went out.
    request: Vec<u8>,
    sent: usize,
    number: u64,
    /// When what is on its way was begun.
    begun_ns: Option<u64>,
    /// When something last went forward.
    progress_ns: u64,
}

/// What is to be done with a connection after a look at it.
enum Next {
    /// Look again then.
    At(u64),
    /// It is over, for this reason; a new one begins then.
    Over(Failure, u64),
}

impl<E: Exchange> Paced<E> {
    /// Nobody is connected yet: that is part of the run. The same seed gives the same garbage.
    pub fn new(exchange: E, kind: ClientKind, plan: Clients, seed: u64) -> Self {
        Self {
            exchange,
            kind,
            plan,
            clients: (0..plan.connections.get()).map(|_| Client::default()).collect(),
            dice: fastrand::Rng::with_seed(seed),
        }
    }

    /// Goes on until the ramp is over, or `most` requests were begun and what is on its way has ended or, of what never
    /// does so by itself, was sent. Blocks meanwhile.
    ///
    /// In the record, what is `unfinished` is what the server held to the end, and failures say how it ended others:
    /// that a slow sender or garbage is [`Failure::Closed`] speaks for the server.
    pub fn run(&mut self, ramp: Ramp, most: u64, watch: &mut dyn Watch) -> Record {
        self.run_within(ramp, &Bound::new(most), watch)
    }

    /// As [`run`](Self::run), with a bound that others may take from, too.
    pub(crate) fn run_within(&mut self, ramp: Ramp, bound: &Bound, watch: &mut dyn Watch) -> Record {
        let mut recorder = Recorder::begin(ramp, None, watch);
        let start_ns = recorder.start_ns();
        let end_ns = start_ns + ramp.total().as_nanos() as u64;
        let mut due: BinaryHeap<Reverse<(u64, usize)>> = (0..self.clients.len())
            .map(|connection| Reverse((first_look_ns(start_ns, connection), connection)))
            .collect();
        loop {
            let mut now_ns = monotonic_ns();
            recorder.turns(now_ns);
            for _ in 0..LOOKS_AT_ONCE {
                let Some(&Reverse((at_ns, connection))) = due.peek() else {
                    break;
                };
                if at_ns > now_ns || now_ns >= end_ns {
                    break;
                }
                due.pop();
                let at_ns = match self.look(connection, now_ns, bound, &mut recorder) {
                    Next::At(at_ns) => at_ns,
                    Next::Over(kind, at_ns) => {
                        self.end(connection, kind, now_ns, &mut recorder);
                        at_ns
                    }
                };
                due.push(Reverse((at_ns.max(now_ns + 1), connection)));
                now_ns = monotonic_ns();
            }
            if now_ns >= end_ns {
                break;
            }
            if bound.is_spent() {
                recorder.record.bounded = true;
                if self.clients.iter().all(|client| self.is_at_rest(client)) {
                    break;
                }
            }
            if !recorder.goes_on() {
                recorder.record.interrupted = true;
                break;
            }
            let next_ns = due
                .peek()
                .map_or(end_ns, |Reverse((at_ns, _))| *at_ns)
                .min(end_ns);
            let nap = Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(NAP);
            std::thread::sleep(nap);
            recorder.waited(now_ns, monotonic_ns(), nap);
        }
        let now_ns = monotonic_ns();
        recorder.advance(now_ns);
        for client in &mut self.clients {
            if let Some(begun_ns) = client.begun_ns.take() {
                match self.exchange.is_changed(&client.reading) {
                    true => recorder.fails(begun_ns, begun_ns, now_ns, Failure::Changed),
                    false => recorder.gives_up(begun_ns, Some(begun_ns), now_ns, 1),
                }
            }
            client.reset();
        }
        recorder.finish()
    }

    fn look(&mut self, connection: usize, now_ns: u64, bound: &Bound, recorder: &mut Recorder<'_>) -> Next {
        if self.clients[connection].stream.is_none() {
            return match bound.take() {
                true => self.begin(connection, now_ns, recorder),
                // Nothing new begins.
                false => Next::At(now_ns + LOOK_EVERY_NS),
            };
        }
        let timeout_ns = self.plan.timeout.as_nanos() as u64;
        let client = &mut self.clients[connection];
        if !client.is_made {
            let stream = client.stream.as_ref().expect("it was begun");
            // Where it was refused, reading says so.
            if stream.peer_addr().is_ok() {
                client.is_made = true;
                client.progress_ns = now_ns;
                recorder.connects();
            }
        }
        match self.forward(connection, now_ns, bound, recorder) {
            Ok(next) => {
                let client = &self.clients[connection];
                let is_late = now_ns.saturating_sub(client.progress_ns) > timeout_ns;
                match is_late && client.begun_ns.is_some() && (self.waits_for_an_end() || !client.is_made) {
                    true => Next::Over(Failure::Timeout, now_ns + self.pause_ns()),
                    false => next,
                }
            }
            Err(error) => {
                let kind = match error.kind() {
                    io::ErrorKind::UnexpectedEof => Failure::Closed,
                    _ => Failure::of(&error),
                };
                if kind != Failure::Closed {
                    recorder.record.failures.quote(kind, error);
                }
                Next::Over(kind, now_ns + self.pause_ns())
            }
        }
    }

    /// Sends and reads what is due.
    fn forward(
        &mut self,
        connection: usize,
        now_ns: u64,
        bound: &Bound,
        recorder: &mut Recorder<'_>,
    ) -> io::Result<Next> {
        match self.kind {
            ClientKind::SlowReader {
                bytes_per_second,
                think,
            } => {
                let client = &mut self.clients[connection];
                client.hears_nothing(recorder)?;
                client.send(usize::MAX, now_ns)?;
                self.read_slowly(
                    connection,
                    now_ns,
                    [bytes_per_second, think.as_secs_f64()],
                    bound,
                    recorder,
                )
            }
            ClientKind::Idle => {
                self.clients[connection].swallow(now_ns, recorder)?;
                Ok(Next::At(now_ns + LOOK_EVERY_NS))
            }
            ClientKind::SlowSender { every } => {
                let client = &mut self.clients[connection];
                client.swallow(now_ns, recorder)?;
                // The last byte would make it a request.
                let more = client.request.len().saturating_sub(1) > client.sent;
                client.send(usize::from(more), now_ns)?;
                let every_ns = every.as_nanos() as u64;
                Ok(Next::At(
                    now_ns
                        + if more {
                            every_ns
                        } else {
                            LOOK_EVERY_NS.max(every_ns)
                        },
                ))
            }
            ClientKind::Garbage { .. } => {
                let client = &mut self.clients[connection];
                client.send(usize::MAX, now_ns)?;
                client.swallow(client.progress_ns, recorder)?;
                Ok(Next::At(now_ns + READ_EVERY_NS))
            }
        }
    }

    /// As much of the answer as the rate allows for one look.
    fn read_slowly(
        &mut self,
        connection: usize,
        now_ns: u64,
        [bytes_per_second, think_s]: [f64; 2],
        bound: &Bound,
        recorder: &mut Recorder<'_>,
    ) -> io::Result<Next> {
        let (most, every_ns) = pace(bytes_per_second);
        let Self {
            exchange, clients, ..
        } = self;
        let client = &mut clients[connection];
        let mut buffer = vec![0; most];
        let ended = match receive(client.stream.as_mut(), &mut buffer)? {
            Received::Bytes(received) => {
                client.unused.extend_from_slice(&buffer[..received]);
                client.progress_ns = now_ns;
                recorder.receives(received as u64);
                false
            }
            Received::Nothing => return Ok(Next::At(now_ns + every_ns)),
            Received::End => true,
        };
        let mut answer = None;
        while answer.is_none() && !client.unused.is_empty() {
            let read = exchange
                .read(connection, client.number, &mut client.reading, &client.unused)
                .map_err(wrong)?;
            client.unused.drain(..read.bytes);
            answer = read.answer;
            if read.bytes == 0 {
                break;
            }
        }
        if ended {
            answer = answer.or_else(|| exchange.ended(&mut client.reading));
        }
        let Some(answer) = answer else {
            return match ended {
                true => Err(io::ErrorKind::UnexpectedEof.into()),
                false => Ok(Next::At(now_ns + every_ns)),
            };
        };
        if let Some(begun_ns) = client.begun_ns.take() {
            match answer.worth {
                Worth::Good => recorder.answers(begun_ns, begun_ns, now_ns, 1),
                Worth::Refusal(status) => {
                    recorder.record.failures.status(status);
                    recorder.fails(begun_ns, begun_ns, now_ns, Failure::Status);
                }
                Worth::Changed => recorder.fails(begun_ns, begun_ns, now_ns, Failure::Changed),
            }
        }
        if !client.unused.is_empty() {
            return Err(wrong(CodecError::unasked(&client.unused)));
        }
        let at_ns = now_ns + (think_s * 1e9) as u64;
        if ended || answer.last {
            client.reset();
        } else {
            client.number += 1;
            if bound.take() {
                client.ask(exchange, connection, at_ns, recorder);
            }
        }
        Ok(Next::At(at_ns.max(now_ns + every_ns)))
    }

    /// A connection begins. Does not wait until it is made.
    fn begin(&mut self, connection: usize, now_ns: u64, recorder: &mut Recorder<'_>) -> Next {
        let buffer_bytes = match self.kind {
            // Twice what it reads: what comes meanwhile has room.
            ClientKind::SlowReader { bytes_per_second, .. } => {
                Some(SLOW_BUFFER_BYTES.max(2 * pace(bytes_per_second).0))
            }
            _ => None,
        };
        let begun = begin(self.plan.target, buffer_bytes);
        let Self {
            exchange,
            clients,
            dice,
            kind,
            ..
        } = self;
        let client = &mut clients[connection];
        client.reset();
        client.progress_ns = now_ns;
        match kind {
            ClientKind::Idle => client.expect(Vec::new(), now_ns, recorder),
            ClientKind::Garbage { bytes, .. } => {
                let garbage = (0..*bytes).map(|_| dice.u8(..)).collect();
                client.expect(garbage, now_ns, recorder);
            }
            ClientKind::SlowReader { .. } | ClientKind::SlowSender { .. } => {
                client.ask(exchange, connection, now_ns, recorder);
            }
        }
        match begun {
            Ok(stream) => {
                client.stream = Some(stream);
                Next::At(now_ns + 1_000_000)
            }
            Err(error) => {
                let kind = Failure::of(&error);
                recorder.record.failures.quote(kind, error);
                Next::Over(kind, now_ns + self.pause_ns())
            }
        }
    }

    fn end(&mut self, connection: usize, kind: Failure, now_ns: u64, recorder: &mut Recorder<'_>) {
        let client = &mut self.clients[connection];
        match client.begun_ns.take() {
            Some(begun_ns) => {
                let kind = match self.exchange.is_changed(&client.reading) {
                    true => Failure::Changed,
                    false => kind,
                };
                recorder.fails(begun_ns, begun_ns, now_ns, kind);
            }
            None if kind == Failure::Unasked => recorder.faults(kind),
            None => {}
        }
        client.reset();
    }

    /// Whether a client waits for an answer, or for the end of its connection.
    fn waits_for_an_end(&self) -> bool {
        !matches!(self.kind, ClientKind::Idle | ClientKind::SlowSender { .. })
    }

    /// Whether nothing of it is to come: one that waits for nothing is connected, and has sent all that it sends.
    fn is_at_rest(&self, client: &Client<E::Reading>) -> bool {
        let has_sent = client.is_made && client.request.len() <= client.sent + 1;
        client.begun_ns.is_none() || (has_sent && !self.waits_for_an_end())
    }

    /// From a connection that is over to the next.
    fn pause_ns(&self) -> u64 {
        match self.kind {
            ClientKind::Garbage { think, .. } => (think.as_nanos() as u64).max(1_000_000),
            _ => PAUSE_NS,
        }
    }
}

/// They begin one after another.
fn first_look_ns(start_ns: u64, connection: usize) -> u64 {
    start_ns + connection as u64 * APART_NS
}

impl<R: Default> Client<R> {
    /// Its next request, which counts from now.
    fn ask<E: Exchange<Reading = R>>(
        &mut self,
        exchange: &mut E,
        connection: usize,
        at_ns: u64,
        recorder: &mut Recorder<'_>,
    ) {
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        exchange.request(connection, self.number, &mut request);
        self.expect(request, at_ns, recorder);
    }

    fn expect(&mut self, request: Vec<u8>, at_ns: u64, recorder: &mut Recorder<'_>) {
        self.request = request;
        self.sent = 0;
        self.begun_ns = Some(at_ns);
        self.progress_ns = at_ns;
        recorder.sends([at_ns; 2], self.request.len(), 1);
    }

    /// Sends at most so many bytes of the request, as far as the socket takes them.
    fn send(&mut self, most: usize, now_ns: u64) -> io::Result<()> {
        let rest = &self.request[self.sent..];
        let rest = &rest[..rest.len().min(most)];
        let Some(stream) = self.stream.as_mut().filter(|_| !rest.is_empty() && self.is_made) else {
            return Ok(());
        };
        match stream.write(rest) {
            Ok(sent) => {
                self.sent += sent;
                self.progress_ns = now_ns;
                Ok(())
            }
            Err(error) if is_for_later(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Before anything of a request went out, nothing is to come.
    fn hears_nothing(&mut self, recorder: &mut Recorder<'_>) -> io::Result<()> {
        if self.sent > 0 {
            return Ok(());
        }
        let mut buffer = [0; BUFFER_BYTES];
        match receive(self.stream.as_mut(), &mut buffer)? {
            Received::Bytes(received) => {
                recorder.receives(received as u64);
                Err(wrong(CodecError::unasked(&buffer[..received])))
            }
            Received::Nothing => Ok(()),
            Received::End => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reads what has come and does not look at it: to who wants no answer.
    fn swallow(&mut self, now_ns: u64, recorder: &mut Recorder<'_>) -> io::Result<()> {
        let mut buffer = [0; BUFFER_BYTES];
        match receive(self.stream.as_mut(), &mut buffer)? {
            Received::Bytes(received) => {
                self.progress_ns = now_ns;
                recorder.receives(received as u64);
                Ok(())
            }
            Received::Nothing => Ok(()),
            Received::End => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The connection is over.
    fn reset(&mut self) {
        if let Some(stream) = self.stream.take() {
            // So that its port is free at once. Fails only on what is closed already.
            let _ = set_socket_linger(&stream, Some(Duration::ZERO));
        }
        self.is_made = false;
        self.reading = R::default();
        self.unused.clear();
        self.request.clear();
        self.sent = 0;
    }
}

enum Received {
    Bytes(usize),
    Nothing,
    End,
}

fn receive(stream: Option<&mut TcpStream>, buffer: &mut [u8]) -> io::Result<Received> {
    let Some(stream) = stream else {
        return Ok(Received::Nothing);
    };
    match stream.read(buffer) {
        Ok(0) => Ok(Received::End),
        Ok(received) => Ok(Received::Bytes(received)),
        Err(error) if is_for_later(&error) => Ok(Received::Nothing),
        Err(error) => Err(error),
    }
}

/// What came is not what was to come.
fn wrong(error: CodecError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::NotConnected
    )
}

/// How much a slow reader takes at once at this rate, whole bytes, and how long it takes for them, about
/// [`READ_EVERY_NS`].
fn pace(bytes_per_second: f64) -> (usize, u64) {
    let most = (bytes_per_second * READ_EVERY_NS as f64 / 1e9).round().max(1.0);
    (most as usize, (most / bytes_per_second * 1e9).round() as u64)
}

/// A connection that is being made.
fn begin(target: SocketAddr, buffer_bytes: Option<usize>) -> io::Result<TcpStream> {
    let family = match target {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(bytes) = buffer_bytes {
        set_socket_recv_buffer_size(&socket, bytes)?;
    }
    match rustix::net::connect(&socket, &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
