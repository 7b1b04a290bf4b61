//! How a connection that has ended is closed: decided here alone, for every design, so that the client gets to read
//! what it was sent, and the kernel keeps nothing for one who reads no more.
//!
//! A socket that is closed while the client still sends answers it with a reset, for which the client's kernel drops
//! what the client has not read (RFC 9112, section 9.6). So, once all is with the kernel:
//!
//! 1. the session hears that its connection is gone, and that is counted;
//! 2. writing is shut down: behind what it was sent the client reads the end;
//! 3. the socket *lingers*: what comes is thrown away, until the client ends too, or for a [limited](Lingering) time;
//! 4. it is closed.
//!
//! It does not linger if the client has ended before, if the end is [abrupt](CloseReason::is_abrupt), or while the
//! server stops: then what has come until now is thrown away, and nobody is waited for. Who still sends after that is
//! answered with a reset.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::Buffer;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, shutdown, sockopt};

use crate::connection::Connection;
use crate::counters::{CloseReason, Counters};
use crate::protocol::Session;

/// How long a socket lingers at most. This and [`SILENCE`] are what nginx has by default.
const LINGER: Duration = Duration::from_secs(30);
/// How long it lingers while nothing comes.
const SILENCE: Duration = Duration::from_secs(5);
/// The most that is thrown away meanwhile, of a client that would never end: more than uploads that are refused have.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The most sockets of one worker that linger at a time.
const MOST_SOCKETS: usize = 32;

/// The most that is thrown away while the server stops, in receives of so many bytes.
const MOST_RECEIVES: usize = 64;
const RECEIVE_BYTES: usize = 16 * 1024;

/// A socket that lingers: how far that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lingering {
    over: Instant,
    silent_until: Instant,
    bytes_left: usize,
}

/// What a receive brought to a socket that lingers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discarded {
    /// Something, and perhaps there is more.
    Some,
    /// Nothing until now.
    Nothing,
    /// The client has ended, or is waited for no longer.
    Over,
}

impl Lingering {
    /// From now on.
    pub fn new(now: Instant) -> Self {
        Self {
            over: now + LINGER,
            silent_until: now + SILENCE,
            bytes_left: MOST_BYTES,
        }
    }

    /// When it is over unless something comes.
    pub fn until(&self) -> Instant {
        self.over.min(self.silent_until)
    }

    /// So many bytes have come, and are thrown away. Whether it goes on.
    pub fn came(&mut self, bytes: usize, now: Instant) -> bool {
        self.silent_until = now + SILENCE;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.bytes_left > 0 && now < self.over
    }

    /// Receives once, into `room`, which is not empty, what is thrown away. Does not wait for it.
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        room: impl Buffer<u8>,
        counters: &Counters,
        now: Instant,
    ) -> Discarded {
        counters.receives.add(1);
        let received = recv(socket, room, RecvFlags::DONTWAIT);
        self.received(received.map(|(_, count)| count), counters, now)
    }

    /// As [`receive`](Self::receive), and waits for it, but not longer than the socket lingers.
    pub fn wait(&mut self, socket: impl AsFd, room: impl Buffer<u8>, counters: &Counters) -> Discarded {
        let left = self.until().saturating_duration_since(Instant::now());
        counters.other_calls.add(1);
        // None would be for ever. It can only fail for what is no socket.
        let left = Some(left.max(Duration::from_millis(1)));
        let _ = sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, left);
        counters.receives.add(1);
        let received = recv(socket, room, RecvFlags::empty());
        self.received(received.map(|(_, count)| count), counters, Instant::now())
    }

    fn received(&mut self, received: Result<usize, Errno>, counters: &Counters, now: Instant) -> Discarded {
        match received {
            Ok(count @ 1..) => {
                counters.bytes_in.add(count as u64);
                match self.came(count, now) {
                    true => Discarded::Some,
                    false => Discarded::Over,
                }
            }
            Err(Errno::INTR) => Discarded::Some,
            Err(Errno::AGAIN) if now < self.until() => Discarded::Nothing,
            Ok(_) | Err(_) => Discarded::Over,
        }
    }
}

/// Sockets that linger while their worker serves others.
#[derive(Debug, Default)]
pub(crate) struct LingeringSockets(VecDeque<(OwnedFd, Lingering)>);

impl LingeringSockets {
    /// One more.
    pub fn push(&mut self, socket: OwnedFd, lingering: Lingering) {
        self.0.push_back((socket, lingering));
    }

    /// Whether so many linger that nobody else is served before one of them is done.
    pub fn are_many(&self) -> bool {
        self.0.len() >= MOST_SOCKETS
    }

    /// To wait for all of them.
    pub fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0
            .iter()
            .map(|(socket, _)| PollFd::new(socket, PollFlags::IN))
    }

    /// When the first of them is over unless something comes.
    pub fn until(&self) -> Option<Instant> {
        self.0.iter().map(|(_, lingering)| lingering.until()).min()
    }

    /// Receives once from so many of them, those first that were not received from for longest.
    pub fn receive(&mut self, most: usize, room: &mut [u8], counters: &Counters, now: Instant) {
        for _ in 0..most.min(self.0.len()) {
            let Some((socket, mut lingering)) = self.0.pop_front() else {
                return;
            };
            if lingering.receive(&socket, &mut *room, counters, now) != Discarded::Over {
                self.0.push_back((socket, lingering));
            }
        }
    }

    /// Closes all of them, since the server stops.
    pub fn close(&mut self, counters: &Counters) {
        for (socket, _) in self.0.drain(..) {
            discard(socket, counters);
        }
    }
}

/// The flags to send by. Behind what `is_last` the end follows at once, so that the kernel can send both as one
/// segment, which costs less than a segment for each on either side.
#[inline]
pub(crate) fn send_flags(is_last: bool) -> SendFlags {
    match is_last {
        true => SendFlags::NOSIGNAL | SendFlags::MORE,
        false => SendFlags::NOSIGNAL,
    }
}

/// The end of a connection whose session was told, and which has sent all unless that is abrupt: how its socket
/// lingers; `None` if it is to be closed now.
pub(crate) fn linger<S: Session>(
    connection: &Connection<S>,
    socket: impl AsFd,
    counters: &Counters,
    now: Instant,
) -> Option<Lingering> {
    let reason = connection.ending()?;
    // The socket is of no use any more, or is about to be reset.
    let is_lost = matches!(reason, CloseReason::Lost | CloseReason::WriteTimeout);
    if is_lost || !connection.may_be_sending() {
        return None;
    }
    if !reason.is_abrupt() {
        counters.other_calls.add(1);
        // It fails if the client is gone already.
        shutdown(&socket, Shutdown::Write).ok()?;
        if !connection.is_stopped() {
            return Some(Lingering::new(now));
        }
    }
    discard(socket, counters);
    None
}

/// Throws away what has come. Does not wait for more.
// Not inlined: its buffer would be in the frame of every conversation, and a forked child pays a fault for each page of
// that.
#[inline(never)]
pub(crate) fn discard(socket: impl AsFd, counters: &Counters) {
    let mut room = [0; RECEIVE_BYTES];
    for _ in 0..MOST_RECEIVES {
        counters.receives.add(1);
        match recv(&socket, &mut room, RecvFlags::DONTWAIT) {
            Ok((count @ 1.., _)) => counters.bytes_in.add(count as u64),
            _ => return,
        }
    }
}

/// Whether nothing has come that was not received: asked before a client is called idle, since a busy server may have
/// had no time to look.
pub(crate) fn is_silent(socket: impl AsFd, counters: &Counters) -> bool {
    counters.receives.add(1);
    let peeked = recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(peeked, Err(Errno::AGAIN))
}

/// The socket is about to be closed for this reason. Of a client that takes nothing the kernel would keep what it has
/// taken to send, for minutes; so that is dropped too, with a reset.
pub(crate) fn prepare(socket: impl AsFd, reason: CloseReason, counters: &Counters) {
    if matches!(reason, CloseReason::WriteTimeout | CloseReason::MadeRoom) {
        counters.other_calls.add(1);
        // It can only fail for what is no socket.
        let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::clock::Clock;
    use crate::connection::Turn;
    use crate::protocol::Effects;
    use crate::protocol::echo::Echo;

    #[test]
    fn who_goes_on_sending_is_waited_for_until_the_time_is_over() {
        let start = Instant::now();
        let mut lingering = Lingering::new(start);
        assert_eq!(lingering.until(), start + SILENCE);
        let mut now = start;
        while now + SILENCE / 2 < start + LINGER {
            now += SILENCE / 2;
            assert!(lingering.came(1, now), "{:?}", now - start);
            assert_eq!(lingering.until(), (now + SILENCE).min(start + LINGER));
        }
        assert!(!lingering.came(1, start + LINGER));
    }

    #[test]
    fn who_sends_much_is_waited_for_up_to_a_number_of_bytes() {
        let now = Instant::now();
        let mut lingering = Lingering::new(now);
        assert!(lingering.came(MOST_BYTES - 1, now));
        assert!(!lingering.came(1, now));
    }

    #[test]
    fn what_comes_is_thrown_away_until_the_client_ends_or_is_silent() {
        let (socket, mut client) = UnixStream::pair().expect("a pair");
        let (start, counters) = (Instant::now(), Counters::default());
        let mut lingering = Lingering::new(start);
        let mut receive = |now| lingering.receive(&socket, &mut [0; 4][..], &counters, now);
        assert_eq!(receive(start), Discarded::Nothing);
        client.write_all(b"hello").expect("sent");
        assert_eq!(receive(start), Discarded::Some);
        assert_eq!(receive(start + SILENCE - Duration::from_secs(1)), Discarded::Some);
        let later = start + SILENCE + Duration::from_secs(1);
        assert_eq!(receive(later), Discarded::Nothing, "it has said something since");
        assert_eq!(receive(start + 2 * SILENCE), Discarded::Over, "it was silent");
        drop(client);
        assert_eq!(receive(start), Discarded::Over, "it has ended");
        assert_eq!(counters.bytes_in.get(), 5);
    }

    #[test]
    fn a_wait_ends_with_the_client_and_with_its_time() {
        let (socket, client) = UnixStream::pair().expect("a pair");
        let counters = Counters::default();
        let wait = |mut lingering: Lingering| lingering.wait(&socket, &mut [0; 4][..], &counters);
        let long_ago = Instant::now().checked_sub(SILENCE);
        let silent = Lingering::new(long_ago.expect("the clock began before"));
        assert_eq!(wait(silent), Discarded::Over);
        (&client).write_all(b"hello").expect("sent");
        let lingering = Lingering::new(Instant::now());
        assert_eq!(wait(lingering), Discarded::Some);
        drop(client);
        assert_eq!(wait(lingering), Discarded::Some, "the rest");
        assert_eq!(wait(lingering), Discarded::Over, "it has ended");
    }

    #[test]
    fn a_socket_lingers_while_the_client_may_send_and_nobody_stops() {
        /// What has become of the connection, whether it lingers, and whether its client reads the end.
        type Case = (fn(&mut Connection<Echo>, &mut Turn<'_>), bool, bool);
        let cases: [Case; 6] = [
            (|connection, _| connection.end(CloseReason::Finished), true, true),
            (|connection, turn| connection.ended(turn), false, false),
            (|connection, _| connection.end(CloseReason::Lost), false, false),
            (
                |connection, _| connection.end(CloseReason::WriteTimeout),
                false,
                false,
            ),
            (|connection, turn| connection.stop(turn), false, true),
            (|_, _| {}, false, false),
        ];
        for (place, (happens, lingers, is_shut)) in cases.into_iter().enumerate() {
            let (socket, mut client) = UnixStream::pair().expect("a pair");
            client.set_nonblocking(true).expect("a socket");
            let (now, counters) = (Instant::now(), Counters::default());
            let mut connection = Connection::of(&Echo);
            let mut turn = Turn {
                output: &mut Vec::new(),
                full_at: usize::MAX,
                effects: &mut Effects::default(),
                clock: &mut Clock::default(),
            };
            happens(&mut connection, &mut turn);
            let lingering = linger(&connection, &socket, &counters, now);
            let expected = lingers.then(|| Lingering::new(now));
            assert_eq!(lingering, expected, "{place}");
            let is_at_end = client.read(&mut [0]).is_ok_and(|count| count == 0);
            assert_eq!(is_at_end, is_shut, "{place}");
        }
    }

    #[test]
    fn sockets_that_linger_take_turns() {
        let (start, counters) = (Instant::now(), Counters::default());
        let mut sockets = LingeringSockets::default();
        let mut clients: Vec<UnixStream> = (0..MOST_SOCKETS)
            .map(|_| {
                let (socket, client) = UnixStream::pair().expect("a pair");
                sockets.push(socket.into(), Lingering::new(start));
                client
            })
            .collect();
        assert!(sockets.are_many());
        assert_eq!(sockets.until(), Some(start + SILENCE));
        clients.truncate(1);
        // The first is silent, and the others have ended.
        for left in [MOST_SOCKETS - 1, MOST_SOCKETS - 3] {
            sockets.receive(2, &mut [0; 4], &counters, start);
            assert_eq!(sockets.polled().count(), left);
        }
        sockets.receive(MOST_SOCKETS, &mut [0; 4], &counters, start + SILENCE);
        assert_eq!((sockets.polled().count(), sockets.until()), (0, None));
    }
}
