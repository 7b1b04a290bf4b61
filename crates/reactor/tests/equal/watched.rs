//! A protocol that says what its sessions have seen: the same on a server and in a rehearsal.

use std::net::SocketAddr;
use std::sync::Arc;

use threadgauge_reactor::{CloseReason, ConnectionId, Io, Protocol, Session};

/// A protocol, watched.
pub struct Watched<P> {
    protocol: P,
    say: Say,
}

/// Is told what a session has seen when that is over.
pub type Say = Arc<dyn Fn(&Seen) + Send + Sync>;

impl<P> Watched<P> {
    pub fn new(protocol: P, say: impl Fn(&Seen) + Send + Sync + 'static) -> Self {
        Self {
            protocol,
            say: Arc::new(say),
        }
    }
}

/// What a session has seen. What it may never see, such as bytes after the client's end, is a panic, and so the reason
/// of its own end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// By which its client is known.
    pub port: u16,
    /// Bytes used.
    pub used: u64,
    pub messages: u64,
    /// It was told that the client sends no more.
    pub ended: bool,
    /// It was told that the server stops.
    pub stopping: bool,
    /// `None`: it was gone without a word.
    pub reason: Option<CloseReason>,
}

/// The session of a watched protocol.
pub struct WatchedSession<S> {
    session: S,
    seen: Seen,
    /// Bytes were used, and it was not told that this was all for now.
    busy: bool,
    say: Say,
}

impl<P: Protocol> Protocol for Watched<P> {
    type Session = WatchedSession<P::Session>;
    const SHARED: bool = P::SHARED;
    const MAX_FRAME: usize = P::MAX_FRAME;
    const LOCATED: bool = true;

    fn open(&self, id: ConnectionId) -> Self::Session {
        WatchedSession {
            session: self.protocol.open(id),
            seen: Seen::default(),
            busy: false,
            say: Arc::clone(&self.say),
        }
    }

    fn max_frame(&self) -> usize {
        self.protocol.max_frame()
    }

    fn listens(&self, address: SocketAddr) {
        self.protocol.listens(address);
    }
}

impl<S: Session> Session for WatchedSession<S> {
    fn located(&mut self, client: SocketAddr) {
        self.seen.port = client.port();
        self.session.located(client);
    }

    fn opened(&mut self, io: &mut Io<'_>) {
        self.session.opened(io);
    }

    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        assert!(!self.seen.ended, "bytes after the end");
        assert!(!input.is_empty(), "nothing was received");
        let used = self.session.received(input, io);
        self.seen.used += used as u64;
        self.seen.messages += u64::from(used > 0);
        self.busy |= used > 0;
        used
    }

    fn awaits_head(&self, input: &[u8]) -> bool {
        self.session.awaits_head(input)
    }

    fn resumed(&mut self, io: &mut Io<'_>) {
        self.session.resumed(io);
    }

    fn rested(&mut self, io: &mut Io<'_>) {
        assert!(self.busy, "it rested before");
        self.busy = false;
        self.session.rested(io);
    }

    fn ended(&mut self, io: &mut Io<'_>) {
        assert!(!self.seen.ended && !self.busy, "ended twice or amid bytes");
        self.seen.ended = true;
        self.session.ended(io);
    }

    fn alarm(&mut self, io: &mut Io<'_>) {
        self.session.alarm(io);
    }

    fn stopping(&mut self, io: &mut Io<'_>) {
        assert!(!self.seen.stopping, "stopped twice");
        self.seen.stopping = true;
        self.session.stopping(io);
    }

    fn closed(&mut self, reason: CloseReason, io: &mut Io<'_>) {
        assert!(self.seen.reason.is_none(), "closed twice");
        self.seen.reason = Some(reason);
        self.session.closed(reason, io);
    }
}

impl<S> Drop for WatchedSession<S> {
    fn drop(&mut self) {
        (self.say)(&self.seen);
    }
}

const NOBODY_SAID: &str = "gone without a word";

impl Seen {
    /// In a line.
    pub fn to_line(self) -> String {
        let reason = self.reason.map_or(NOBODY_SAID, CloseReason::name);
        let Self {
            port,
            used,
            messages,
            ended,
            stopping,
            ..
        } = self;
        format!("{port} {used} {messages} {ended} {stopping} {reason}")
    }

    /// What [`to_line`](Self::to_line) has said.
    ///
    /// # Panics
    ///
    /// If it is anything else.
    pub fn from_line(line: &str) -> Self {
        let words: Vec<&str> = line.splitn(6, ' ').collect();
        let [port, used, messages, ended, stopping, reason] = words[..] else {
            panic!("{line:?} is not what a session has seen");
        };
        let number = |word: &str| word.parse().expect("a number");
        Self {
            port: port.parse().expect("a port"),
            used: number(used),
            messages: number(messages),
            ended: ended == "true",
            stopping: stopping == "true",
            reason: CloseReason::ALL.into_iter().find(|known| known.name() == reason),
        }
    }
}
