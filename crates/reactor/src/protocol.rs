//! What a server says: state machines without I/O.
//!
//! A protocol is written once, as bytes in and bytes out, and runs on every design. It knows no socket, no thread, no
//! process and no clock: what it wants done, or wants to know, it asks of its [`Io`]. So it is tested without a
//! network, fuzzed, and compared on designs as different as a process per connection and a pool of reactors.
//!
//! ```
//! use threadgauge_reactor::{ConnectionId, Io, Protocol, Session};
//!
//! /// Answers every line with the same line in capitals.
//! struct Shout;
//!
//! impl Protocol for Shout {
//!     type Session = Shout;
//!     fn open(&self, _: ConnectionId) -> Shout {
//!         Shout
//!     }
//! }
//!
//! impl Session for Shout {
//!     fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
//!         let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
//!             return 0; // not a whole line yet: these bytes come again, with more behind them
//!         };
//!         io.send(&input[..=end].to_ascii_uppercase());
//!         end + 1
//!     }
//! }
//! ```

pub mod bytes;
pub mod chat;
pub mod echo;
pub mod groups;
pub mod http;
mod line;
pub mod null;
pub mod numbered;

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use crate::clock::Clock;
use crate::contain::contain;
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::multicast::{Multicast, Number};

pub use line::first_line;

/// A protocol: what the connections of one server have in common.
pub trait Protocol: Send + Sync + 'static {
    /// The state machine of one connection.
    type Session: Session;

    /// Whether its sessions share memory or send to each other. Designs in separate address spaces, and those that
    /// serve one connection after the other, refuse such a protocol.
    const SHARED: bool = false;

    /// The most bytes of one message. [`Session::received`] is shown no more, and where it still has no whole message
    /// and more have come, the connection is closed as [`TooLong`](crate::CloseReason::TooLong).
    const MAX_FRAME: usize = 64 * 1024;

    /// Whether sessions are told where their clients are ([`Session::located`]), which costs a system call each.
    const LOCATED: bool = false;

    /// A client has connected.
    fn open(&self, id: ConnectionId) -> Self::Session;

    /// [`MAX_FRAME`](Self::MAX_FRAME), where a setting of the protocol decides. Asked once a connection.
    fn max_frame(&self) -> usize {
        Self::MAX_FRAME
    }

    /// The server has this address from now on. Before any client connects.
    fn listens(&self, address: SocketAddr) {
        let _ = address;
    }
}

/// One connection's side of a protocol. Its methods are called one after the other, never at once, on whichever
/// thread the design has for it. None of them may block: what blocks goes to [`Io::offload`].
pub trait Session: Send + 'static {
    /// Where the client is: said before anything else, if [`Protocol::LOCATED`] asks for it and it can be known.
    fn located(&mut self, client: SocketAddr) {
        let _ = client;
    }

    /// The connection begins. A greeting goes here.
    fn opened(&mut self, io: &mut Io<'_>) {
        let _ = io;
    }

    /// Bytes have come. Uses **at most one message** of `input`, from its front, and returns its length; it is called
    /// again at once with the rest, unless the client must first take what is waiting for it. With 0 it waits for
    /// more, and sees the same bytes again then. `input` is never empty.
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize;

    /// Whether `input`, of which [`received`](Self::received) has used nothing, is a part of a head: of what a client
    /// has to send within the [`Server::handshake`](crate::Server::handshake) time. By default all of a message is.
    /// Where one can be long, that is only so much of it as says how long.
    fn awaits_head(&self, input: &[u8]) -> bool {
        let _ = input;
        true
    }

    /// Nothing more of what has come is used now: all of it is, or the rest is no whole message, or must wait. Called
    /// once after [`received`](Self::received) was, perhaps many times, and before anything else is: the place to send
    /// what was collected meanwhile.
    fn rested(&mut self, io: &mut Io<'_>) {
        let _ = io;
    }

    /// It has asked to be called [again](Io::again), and others had their turn meanwhile: it goes on with what it has
    /// begun.
    fn resumed(&mut self, io: &mut Io<'_>) {
        let _ = io;
    }

    /// The client sends nothing more (what it sent is used, or will never be whole). It may still read: what is sent
    /// here reaches it. By default the connection is closed once all is sent and every offloaded step has answered.
    fn ended(&mut self, io: &mut Io<'_>) {
        io.close();
    }

    /// The time asked for with [`Io::set_alarm`] has passed.
    fn alarm(&mut self, io: &mut Io<'_>) {
        let _ = io;
    }

    /// The server is stopping: nobody new is accepted. By default as [`Session::ended`]. A session that does not close
    /// here goes on until it does, or the server's drain time is over; but where a thread or process blocks for each
    /// client, only those of [shared](Protocol::SHARED) protocols still hear from it.
    fn stopping(&mut self, io: &mut Io<'_>) {
        io.close();
    }

    /// The connection is gone, for this reason: all is sent, unless the end is abrupt, and the client has not read the
    /// end yet. Sending to others is still possible; the own client hears nothing. Only [`resumed`](Self::resumed) is
    /// called after this, and that only if it is asked for. After a panic neither is.
    fn closed(&mut self, reason: CloseReason, io: &mut Io<'_>) {
        let _ = (reason, io);
    }
}

/// A step that may block: its bytes are sent to the client that it was made for.
pub type Job = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// What a session can ask for while it is called.
#[derive(Debug)]
pub struct Io<'a> {
    pub(crate) id: ConnectionId,
    pub(crate) output: &'a mut Vec<u8>,
    pub(crate) asked: &'a mut Asked,
    pub(crate) effects: &'a mut Effects,
    pub(crate) clock: &'a mut Clock,
}

impl Io<'_> {
    /// The own connection.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The time: on an event loop one for all that is done in one of its turns, so that asking costs next to nothing.
    pub fn now(&mut self) -> Instant {
        self.clock.now()
    }

    /// The time of day, to tell others: it may be set back. Read as seldom as [`now`](Self::now).
    pub fn time_of_day(&mut self) -> SystemTime {
        self.clock.time_of_day()
    }

    /// Sends to the own client, after all that was sent to it before.
    pub fn send(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// The end of what is waiting for the own client, to write into without a copy. Whatever is there already must
    /// stay.
    pub fn output(&mut self) -> &mut Vec<u8> {
        self.output
    }

    /// Sends to another connection, or to the own one. Bytes of one call stay together, and what one session sends to
    /// another arrives in the order sent. A connection that is gone gets nothing, which is counted.
    pub fn send_to(&mut self, to: ConnectionId, bytes: &[u8]) {
        self.send_to_all([to], bytes);
    }

    /// [`send_to`](Self::send_to) for each of `receivers`, keeping the bytes once.
    pub fn send_to_all(&mut self, receivers: impl IntoIterator<Item = ConnectionId>, bytes: &[u8]) {
        let composed = self.compose(&[bytes], &[]);
        self.post_to_all(composed, receivers);
    }

    /// Keeps a message of which each receiver gets `head`, something of its own, and `tail`. Each is given in pieces
    /// to be joined. Nobody gets it before [`post`](Self::post).
    pub fn compose(&mut self, head: &[&[u8]], tail: &[&[u8]]) -> Composed {
        Composed(self.effects.messages.compose(head, tail))
    }

    /// Puts another message, given in pieces, behind one that was composed and that nobody was sent: receivers get
    /// both, and each counts.
    ///
    /// # Panics
    ///
    /// If another was composed or sent since, or [`rested`](Session::rested) was called.
    #[inline]
    pub fn extend(&mut self, composed: Composed, message: &[&[u8]]) {
        self.effects.messages.extend(composed.0, message);
    }

    /// Sends a message that was composed since the session [rested](Session::rested), as [`send_to`](Self::send_to)
    /// does, with `own` in its middle.
    ///
    /// # Panics
    ///
    /// If it was composed before; or another message is sent.
    #[inline]
    pub fn post(&mut self, composed: Composed, to: ConnectionId, own: &[u8]) {
        if to == self.id {
            // In order with what is sent by `send`.
            let parts = self.effects.messages.parts_of(composed.0, own);
            parts.append_to(self.output);
            self.effects.work += parts.messages as usize;
        } else {
            self.effects.messages.send(composed.0, to, own);
        }
    }

    /// [`post`](Self::post) for each of `receivers`, with nothing of its own.
    ///
    /// # Panics
    ///
    /// As [`post`](Self::post).
    #[inline]
    pub fn post_to_all(&mut self, composed: Composed, receivers: impl IntoIterator<Item = ConnectionId>) {
        let (own, mut to_own) = (self.id, 0);
        let others = receivers.into_iter().filter(|&to| {
            to_own += usize::from(to == own);
            to != own
        });
        self.effects.messages.send_to_all(composed.0, others);
        for _ in 0..to_own {
            self.post(composed, own, b"");
        }
    }

    /// Has [`Session::alarm`] called once, `after` from now (to about 1 ms), instead of any alarm set before; `None`
    /// for no alarm.
    pub fn set_alarm(&mut self, after: Option<Duration>) {
        self.asked.alarm = Some(after);
    }

    /// Says that this connection talks mostly to others who say the same `group`: a design that can
    /// ([`Placement::ByGroup`](crate::Placement::ByGroup)) brings them together on one reactor. What is delivered
    /// stays the same.
    pub fn join(&mut self, group: u64) {
        self.asked.group = Some(group);
    }

    /// Hands a step that may block to the design, and sends its bytes to the own client once it is done. A design with
    /// workers for it goes on with other messages meanwhile, of this client too, so that answers may come in any
    /// order; the others do the step at once, and everyone whom they serve on that thread waits.
    ///
    /// A panic in the step closes the connection as [`Panicked`](crate::CloseReason::Panicked).
    pub fn offload(&mut self, step: impl FnOnce() -> Vec<u8> + Send + 'static) {
        self.effects.jobs.push(Box::new(step));
    }

    /// How many deliveries more the call may make before others should have their turn, who wait for it on most
    /// designs: a few thousand in all, with the [work](Self::worked) that took as long as some. Between two messages
    /// the design sees to that. A session that can do more than this for one message asks here, does as much, and the
    /// rest when it is called [again](Self::again).
    pub fn room(&self) -> usize {
        self.effects.room()
    }

    /// The call has done work that took about as long as so many deliveries.
    pub fn worked(&mut self, deliveries: usize) {
        self.effects.work = self.effects.work.saturating_add(deliveries);
    }

    /// Has [`Session::resumed`] called in a later turn, and no input used before. A connection that ends waits for
    /// that, as it does for offloaded steps; one that is lost does not, and then the call comes after
    /// [`closed`](Session::closed).
    ///
    /// What a turn is, the design says: an event loop serves all its other clients in between, and a pool of threads
    /// all for whom it has no other thread. Where each client has a thread of its own, nobody waits for it, and the
    /// call comes next.
    pub fn again(&mut self) {
        self.asked.again = true;
    }

    /// Closes the connection when all that was sent is on its way to the client and every offloaded step has answered.
    /// No more input is used. What the client sends meanwhile and after that costs it nothing: it gets all, and then
    /// the end.
    pub fn close(&mut self) {
        self.asked.end = self.asked.end.max(End::Close);
    }

    /// Closes as [`close`](Self::close), and counts it as [`Refused`](crate::CloseReason::Refused): the client broke
    /// the rules, and what was sent last may tell it how.
    pub fn refuse(&mut self) {
        self.asked.end = self.asked.end.max(End::Refuse);
    }
}

/// How a session wants its connection to end; the later the stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// Not at all.
    #[default]
    Open,
    Close,
    Refuse,
}

/// What a session has asked for its own connection.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub end: End,
    /// An alarm set (`Some(Some(after))`), taken back (`Some(None)`), or neither.
    pub alarm: Option<Option<Duration>>,
    /// With whom it wants to be.
    pub group: Option<u64>,
    /// To be called again.
    pub again: bool,
}

/// A message of which each receiver gets something of its own: see [`Io::compose`].
#[derive(Clone, Copy, Debug)]
pub struct Composed(Number);

/// What sessions have asked for beyond their own connections: kept for reuse, so that a message costs no allocation.
#[derive(Default)]
pub(crate) struct Effects {
    /// Messages to other connections.
    pub messages: Multicast<ConnectionId>,
    /// Steps that may block, of the session called last.
    pub jobs: Vec<Job>,
    /// What the session called last has done beside sending to others, in deliveries.
    pub work: usize,
}

/// What is kept for reuse, in bytes.
const KEPT_BYTES: usize = 256 * 1024;
/// As many messages are many.
const MOST_MESSAGES: usize = 4 * 1024;

impl Effects {
    /// Whether nothing is to be delivered and then forgotten.
    pub fn no_messages(&self) -> bool {
        self.messages.is_empty()
    }

    /// A session is about to be called, perhaps many times.
    pub fn begin(&mut self) {
        self.work = 0;
    }

    /// Whether so much is done that it is delivered, and others have their turn, before a session says more: a few
    /// bytes to many are many bytes.
    pub fn are_many(&self) -> bool {
        self.messages.bytes() >= KEPT_BYTES || self.room() == 0
    }

    /// How many deliveries more are not many.
    pub fn room(&self) -> usize {
        MOST_MESSAGES.saturating_sub(self.messages.len().saturating_add(self.work))
    }

    /// Forgets the steps, which nobody is going to do.
    pub fn forget_jobs(&mut self) {
        for job in self.jobs.drain(..) {
            contain(|| drop(job));
        }
    }

    /// Gives back what is kept for reuse: there are no messages.
    pub fn shrink(&mut self) {
        self.messages.clear(0);
    }

    /// Forgets the messages, once they are delivered.
    pub fn clear_messages(&mut self) {
        self.messages.clear(KEPT_BYTES);
    }
}

impl std::fmt::Debug for Effects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effects")
            .field("messages", &self.messages)
            .field("jobs", &self.jobs.len())
            .finish()
    }
}
