//! What one loop has of one connection: its read half (with the session), its write half (with the outbox), or both.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use crate::closing::Lingering;
use crate::connection::Connection;
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::options::{Options, Overflow};
use crate::outbox::{Outbox, Spares};
use crate::protocol::Session;
use crate::read_times::ReadTimes;
use crate::throttle::Throttle;

/// What both halves of a connection share. The socket is closed when the last of them is gone.
#[derive(Debug)]
pub(crate) struct Link {
    pub socket: OwnedFd,
    /// The bytes that are under way to the client from the session on, kept while the halves are on two loops: what
    /// the reading loop cannot see in the outbox.
    pub waiting: AtomicUsize,
}

/// A connection on one loop. Small, so that who is sent something is found in a line or two of the cache: the session
/// and what belongs to it are apart.
#[derive(Debug)]
pub(crate) struct Peer<S> {
    pub id: ConnectionId,
    pub link: Arc<Link>,
    /// The loop of the read half.
    pub reader: usize,
    /// The loop of the write half.
    pub writer: usize,
    pub read: Option<Box<ReadHalf<S>>>,
    pub write: Option<WriteHalf>,
}

impl<S> Peer<S> {
    /// Whether what the session sends to its own client goes through another loop: of the loop where the write half is.
    pub fn is_split(&self) -> bool {
        self.read.is_none() || self.writer != self.reader
    }
}

/// Who holds a sender up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldUpBy {
    /// One who gets its messages, and has too much waiting.
    Receiver,
    /// A loop that has not caught up with what was said to it, and has to be waited for.
    Loop,
}

/// How a write half is to end; the later the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finish {
    /// When all is sent.
    Sent,
    /// At once.
    AtOnce,
}

/// The side that receives and runs the session. It decides when the connection ends, and ends last.
#[derive(Debug)]
pub(crate) struct ReadHalf<S> {
    pub connection: Connection<S>,
    /// There may be something to receive.
    pub readable: bool,
    /// The end was announced: receiving goes on until it is seen.
    pub end_announced: bool,
    /// It is in its loop's list of those to be read from without an event.
    pub queued: bool,
    /// It is in a list of those that have more to do.
    pub interrupted: bool,
    /// How many hold it up. Below zero for a moment if their tasks arrive in another order, while it moves.
    held_up: i32,
    /// How many of them are loops.
    held_up_by_loops: i32,
    /// When it has a turn although receivers hold it up.
    throttle: Throttle,
    /// A write has its [place](super::one_handler).
    pub is_replaced: bool,
    /// What the write half was asked to.
    pub finish: Option<Finish>,
    /// It has been on more loops than one, which know it.
    pub has_moved: bool,
    /// The group that the session has joined.
    pub group: Option<u64>,
    /// All is sent, the session is gone, and the client may still be sending.
    pub lingering: Option<Lingering>,
    /// On a loop over io_uring: what comes is handed over.
    pub receiving: bool,
    /// What has come and is not used yet: it is not wanted, or what others have said comes first.
    pub kept: Vec<u8>,
    /// Whether the client has ended.
    pub peer_end: PeerEnd,
    alarm: Option<Instant>,
    times: ReadTimes,
    /// When its timer goes off next, if that is set.
    timer: Option<Instant>,
}

/// How far the client's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerEnd {
    Open,
    /// It has come, and waits for what was kept or for what others have said.
    Came,
    /// The connection knows.
    Told,
}

/// What a time that has come asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Alarm,
    /// It has a turn, though it is held up.
    Turn,
    LingerOver,
    End(CloseReason),
}

impl<S: Session> ReadHalf<S> {
    /// The connection begins, and with it the server's times.
    pub fn new(connection: Connection<S>, now: Instant) -> Self {
        Self {
            connection,
            readable: false,
            end_announced: false,
            queued: false,
            interrupted: false,
            held_up: 0,
            held_up_by_loops: 0,
            throttle: Throttle::default(),
            is_replaced: false,
            finish: None,
            has_moved: false,
            group: None,
            lingering: None,
            receiving: false,
            kept: Vec::new(),
            peer_end: PeerEnd::Open,
            alarm: None,
            times: ReadTimes::new(now),
            timer: None,
        }
    }

    /// Whether there is something to use, or may be something to receive, and it is wanted.
    pub fn is_ready(&self) -> bool {
        let has_some = self.readable || !self.kept.is_empty() || self.peer_end == PeerEnd::Came;
        has_some && self.is_wanted()
    }

    /// Whether what comes can be used now.
    pub fn is_wanted(&self) -> bool {
        !self.is_held_up() && self.connection.wants_input()
    }

    /// Whether nothing is to be received from it, for somebody else's sake or for a write in its place.
    pub fn is_held_up(&self) -> bool {
        self.is_replaced || self.held_up > 0 && (self.throttle != Throttle::Over || self.held_up_by_loops > 0)
    }

    /// One more holds it up (`1`), or one less (`-1`).
    pub fn hold_up(&mut self, by: HeldUpBy, change: i32) {
        self.held_up += change;
        if by == HeldUpBy::Loop {
            self.held_up_by_loops += change;
        }
        if self.held_up <= self.held_up_by_loops {
            self.throttle.clear();
        }
    }

    /// Where receivers are dropped in the end, one who is held up by them waits no longer than [`throttle::LONGEST`],
    /// which begins now if it has not.
    ///
    /// [`throttle::LONGEST`]: crate::throttle::LONGEST
    pub fn begin_throttle(&mut self, now: Instant, options: &Options) {
        if options.overflow == Overflow::Drop && self.held_up > self.held_up_by_loops {
            self.throttle.begin(now);
        }
    }

    /// What it has sent is about to be used: whether that is the turn of one who is held up.
    #[inline]
    pub fn takes_turn(&mut self) -> bool {
        self.times.came();
        let takes = self.held_up > 0;
        if takes {
            self.throttle.clear();
        }
        takes
    }

    /// See [`ReadTimes::last_heard`].
    pub fn last_heard(&self) -> Instant {
        self.times.last_heard()
    }

    /// What has come was used as far as it could be. Whether its timer may have to be set for that.
    #[inline]
    pub fn used(&mut self, options: &Options, now: impl Fn() -> Instant) -> bool {
        self.times.used(&self.connection, options, now)
    }

    /// Keeps what has come behind what is kept, in memory of a spare that it goes back to when it is used.
    pub fn keep(&mut self, bytes: &[u8], spares: &mut Spares) {
        if self.kept.capacity() == 0 {
            self.kept = spares.take();
        }
        self.kept.extend_from_slice(bytes);
    }

    /// Whoever kept it from being read has changed, or there was no time to read from it: that time does not count.
    pub fn looked_at(&mut self, now: Instant) {
        if !self.is_refused() {
            self.times.listens(now);
        }
    }

    /// Whether nothing is received from it by the server's own will.
    fn is_refused(&self) -> bool {
        self.is_held_up() || self.connection.refuses_input()
    }

    pub fn set_alarm(&mut self, at: Option<Instant>) {
        self.alarm = at;
    }

    /// The nearest of its times, and what it is for.
    fn nearest(&self, options: &Options) -> Option<(Instant, Due)> {
        if let Some(lingering) = &self.lingering {
            return Some((lingering.until(), Due::LingerOver));
        }
        let nothing = self.times.nearest(options).filter(|_| !self.is_refused());
        let nothing = nothing.map(|(at, reason)| (at, Due::End(reason)));
        let alarm = self.alarm.map(|at| (at, Due::Alarm));
        let turn = self.throttle.until().map(|at| (at, Due::Turn));
        [alarm, turn, nothing]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at)
    }

    /// The time to set a timer for, unless one is known to be set that goes off no later.
    pub fn timer_to_set(&mut self, options: &Options) -> Option<Instant> {
        let (at, _) = self.nearest(options)?;
        if self.timer.is_some_and(|set| set <= at) {
            return None;
        }
        self.timer = Some(at);
        Some(at)
    }

    /// It leaves its loop: what that one has noted of it in its own lists and timers goes no further, and what it was
    /// told of the client does.
    pub fn leave(&mut self) {
        (self.queued, self.interrupted) = (false, false);
        self.timer = None;
        if self.throttle != Throttle::Over {
            self.throttle.clear();
        }
    }

    /// The timer has gone off, perhaps earlier than is wanted now. None is set any more.
    pub fn due(&mut self, now: Instant, options: &Options) -> Option<Due> {
        self.timer = None;
        let (_, due) = self.nearest(options).filter(|&(at, _)| at <= now)?;
        match due {
            Due::Alarm => self.alarm = None,
            Due::Turn => {
                self.throttle.ends(now);
                self.looked_at(now);
            }
            Due::End(_) | Due::LingerOver => {}
        }
        Some(due)
    }
}

/// The side that sends.
#[derive(Debug, Default)]
pub(crate) struct WriteHalf {
    pub outbox: Outbox,
    /// It is in its loop's list of those to be flushed at the end of the turn.
    pub dirty: bool,
    /// The socket took no more: it will be reported when it does.
    pub blocked: bool,
    /// Its loop watches the socket for it.
    pub watched: bool,
    /// When all is sent, it ends.
    pub finish: bool,
    /// A timer is set that goes off no later than the client is to be looked at.
    timed: bool,
    /// Senders that wait until half is taken: their loop and their name.
    pub waiters: Vec<(usize, ConnectionId)>,
}

impl WriteHalf {
    /// Whether there is something to send that the socket may take.
    pub fn can_send(&self) -> bool {
        !self.blocked && !self.outbox.is_empty()
    }

    /// The time to set a timer for, unless one is set: when to look whether the client has taken nothing for too long.
    pub fn timer_to_set(&mut self, options: &Options) -> Option<Instant> {
        let at = self.look_at(options)?;
        (!std::mem::replace(&mut self.timed, true)).then_some(at)
    }

    /// As [`ReadHalf::leave`].
    pub fn leave(&mut self) {
        (self.dirty, self.blocked, self.watched, self.timed) = (false, false, false, false);
    }

    /// The timer has gone off, perhaps earlier than is wanted now, and none is set any more. Whether the client has
    /// taken nothing for too long: see [`Outbox::is_overdue`].
    pub fn is_overdue(
        &mut self,
        now: Instant,
        options: &Options,
        unacknowledged: impl FnOnce() -> Option<usize>,
    ) -> bool {
        self.timed = false;
        self.blocked && self.outbox.is_overdue(now, options.write_timeout, unacknowledged)
    }

    /// When to look at the client, unless the socket takes more now.
    fn look_at(&self, options: &Options) -> Option<Instant> {
        self.outbox
            .look_at(options.write_timeout)
            .filter(|_| self.blocked)
    }

    /// It has got something. `true`: it must be put into the list of those to be flushed.
    pub fn must_flush(&mut self) -> bool {
        let must = !self.dirty && !self.blocked;
        self.dirty |= must;
        must
    }
}

/// The connections of one loop, by slot.
#[derive(Debug)]
pub(crate) struct Peers<S>(Vec<Option<Peer<S>>>);

impl<S> Default for Peers<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S> Peers<S> {
    /// Whoever is in the slot.
    #[inline]
    pub fn at(&mut self, slot: u32) -> Option<&mut Peer<S>> {
        self.0.get_mut(slot as usize)?.as_mut()
    }

    /// The same, to look at several.
    pub fn look_at(&self, slot: u32) -> Option<&Peer<S>> {
        self.0.get(slot as usize)?.as_ref()
    }

    /// This connection, if anything of it is here.
    pub fn get(&mut self, id: ConnectionId) -> Option<&mut Peer<S>> {
        self.at(id.slot()).filter(|peer| peer.id == id)
    }

    pub fn insert(&mut self, peer: Peer<S>) -> &mut Peer<S> {
        let slot = peer.id.slot() as usize;
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, || None);
        }
        self.0[slot].insert(peer)
    }

    pub fn remove(&mut self, slot: u32) -> Option<Peer<S>> {
        self.0.get_mut(slot as usize)?.take()
    }

    /// The number of slots that were ever in use here.
    pub fn slots(&self) -> u32 {
        self.0.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::echo::Echo;
    use crate::throttle::LONGEST;

    const MS: Duration = Duration::from_millis(1);

    /// Receivers that take nothing are dropped in the end; nobody is waited for but they.
    fn options() -> Options {
        Options {
            overflow: Overflow::Drop,
            idle: None,
            handshake: None,
            write_timeout: 100 * MS,
            ..Options::default()
        }
    }

    fn read_half(now: Instant) -> ReadHalf<Echo> {
        ReadHalf::new(Connection::of(&Echo), now)
    }

    #[test]
    fn who_is_held_up_by_receivers_has_turns_and_by_a_loop_none() {
        let (options, start) = (options(), Instant::now());
        let mut read = read_half(start);
        read.begin_throttle(start, &options);
        assert_eq!(read.timer_to_set(&options), None, "nobody holds it up");
        read.hold_up(HeldUpBy::Loop, 1);
        read.begin_throttle(start, &options);
        assert_eq!((read.is_held_up(), read.timer_to_set(&options)), (true, None));

        read.hold_up(HeldUpBy::Receiver, 1);
        read.begin_throttle(start, &options);
        let until = start + LONGEST;
        assert_eq!(read.timer_to_set(&options), Some(until));
        assert_eq!(read.due(until, &options), Some(Due::Turn));
        assert!(read.is_held_up(), "by the loop");
        read.hold_up(HeldUpBy::Loop, -1);
        assert!(!read.is_held_up() && read.is_wanted(), "it has its turn");
        assert!(read.takes_turn());
        assert!(read.is_held_up(), "that was it");

        read.begin_throttle(until, &options);
        assert_eq!(read.timer_to_set(&options), Some(until + LONGEST));
        read.hold_up(HeldUpBy::Receiver, -1);
        assert!(!read.is_held_up() && !read.takes_turn());
        assert_eq!(read.due(until + LONGEST, &options), None, "nobody holds it up");
    }

    #[test]
    fn a_timer_is_set_for_what_comes_before_the_one_that_is_set() {
        let (options, start) = (options(), Instant::now());
        let mut read = read_half(start);
        for (alarm, is_set) in [(5, true), (5, false), (7, false), (3, true)] {
            let at = start + alarm * MS;
            read.set_alarm(Some(at));
            assert_eq!(read.timer_to_set(&options), is_set.then_some(at), "{alarm}");
        }
        assert!(!read.used(&options, || start), "no head is waited for");
        assert_eq!(read.due(start + 2 * MS, &options), None, "too early");
        // So none is set any more.
        assert_eq!(read.timer_to_set(&options), Some(start + 3 * MS));
        assert_eq!(read.due(start + 3 * MS, &options), Some(Due::Alarm));
        assert_eq!(read.due(start + 9 * MS, &options), None, "it went off once");
        read.set_alarm(Some(start + 5 * MS));
        read.lingering = Some(Lingering::new(start));
        let over = Lingering::new(start).until();
        assert_eq!(read.timer_to_set(&options), Some(over), "no session is there");
        assert_eq!(read.due(over, &options), Some(Due::LingerOver));
    }

    #[test]
    fn a_client_is_looked_at_by_one_timer_while_its_socket_takes_no_more() {
        let (options, start) = (options(), Instant::now());
        let mut write = WriteHalf::default();
        write.outbox.buffer().extend_from_slice(b"unsent");
        write.outbox.offered(|| start);
        assert_eq!(write.timer_to_set(&options), None);
        assert!(write.can_send() && write.must_flush() && !write.must_flush());
        write.leave();
        write.blocked = true;
        assert!(!write.can_send() && !write.must_flush(), "the socket tells");
        let look_at = write.outbox.look_at(options.write_timeout);
        assert!(look_at.is_some_and(|at| at > start));
        assert_eq!(write.timer_to_set(&options), look_at);
        assert_eq!(write.timer_to_set(&options), None, "it is set");
        assert!(!write.is_overdue(look_at.unwrap(), &options, || Some(1)));
        assert!(write.timer_to_set(&options) > look_at, "none was set any more");
        let end = start + options.write_timeout;
        assert!(write.is_overdue(end, &options, || Some(1)));
        write.blocked = false;
        assert!(!write.is_overdue(end, &options, || Some(1)), "it takes more");
    }
}
