//! A protocol that panics where no session is called, or in its last call: its connection ends, and the server goes on.

use std::net::SocketAddr;

use threadgauge_reactor::{BuiltIn, CloseReason, ConnectionId, Io, Protocol, Session};

use crate::client::Client;
use crate::{Case, Pair};

/// Those for a protocol that stands for all that share nothing, and for one that shares.
pub fn cases(protocol: BuiltIn) -> &'static [Case] {
    match protocol {
        BuiltIn::Echo | BuiltIn::Chat => CASES,
        _ => &[],
    }
}

const CASES: &[Case] = &[
    ("a_panic_of_open_ends_its_connection", |pair| {
        panics(pair, Place::Open);
    }),
    ("a_panic_of_max_frame_ends_its_connection", |pair| {
        panics(pair, Place::MaxFrame);
    }),
    ("a_panic_of_closed_ends_its_connection", |pair| {
        panics(pair, Place::Closed);
    }),
    ("a_panic_of_drop_ends_its_connection", |pair| {
        panics(pair, Place::Drop);
    }),
    ("a_panic_of_a_call_and_of_drop_ends_its_connection", |pair| {
        panics(pair, Place::OpenedAndDrop);
    }),
];

/// Where it panics, for every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Open,
    MaxFrame,
    Closed,
    Drop,
    OpenedAndDrop,
}

impl Place {
    const ALL: [Self; 5] = [
        Self::Open,
        Self::MaxFrame,
        Self::Closed,
        Self::Drop,
        Self::OpenedAndDrop,
    ];

    /// As a setting has it.
    fn name(self) -> String {
        format!("panics={self:?}")
    }

    /// The one that these settings have.
    pub fn among(settings: &[String]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|place| settings.contains(&place.name()))
    }
}

/// More than there may be at once, one after the other: whoever loses a slot or a loop for each serves no more.
fn panics(pair: Pair, place: Place) {
    const CLIENTS: u64 = 20;
    let server = pair.serve(&["max_connections=2", &place.name()]);
    for _ in 0..CLIENTS {
        let mut client = server.connect();
        if matches!(place, Place::Closed | Place::Drop) {
            exchange(pair.protocol, &mut client);
            client.end();
        }
        client.expect_end();
    }
    server.stop().expect("panicked", CLIENTS);
}

fn exchange(protocol: BuiltIn, client: &mut Client) {
    let (request, answer) = match protocol {
        BuiltIn::Chat => ("join x\n", "joined x\n"),
        _ => ("hello", "hello"),
    };
    client.send(request);
    client.expect(answer);
}

/// Another protocol that panics somewhere.
pub struct Panics<P> {
    inner: P,
    place: Place,
}

impl<P> Panics<P> {
    /// Without a word to the terminal.
    pub fn new(inner: P, place: Place) -> Self {
        std::panic::set_hook(Box::new(|_| {}));
        Self { inner, place }
    }
}

/// A session of it.
pub struct PanickingSession<S> {
    inner: S,
    place: Place,
}

impl<P: Protocol> Protocol for Panics<P> {
    type Session = PanickingSession<P::Session>;
    const SHARED: bool = P::SHARED;
    const MAX_FRAME: usize = P::MAX_FRAME;
    const LOCATED: bool = P::LOCATED;

    fn open(&self, id: ConnectionId) -> Self::Session {
        assert!(self.place != Place::Open, "as told");
        PanickingSession {
            inner: self.inner.open(id),
            place: self.place,
        }
    }

    fn max_frame(&self) -> usize {
        assert!(self.place != Place::MaxFrame, "as told");
        self.inner.max_frame()
    }

    fn listens(&self, address: SocketAddr) {
        self.inner.listens(address);
    }
}

impl<S: Session> Session for PanickingSession<S> {
    fn located(&mut self, client: SocketAddr) {
        self.inner.located(client);
    }

    fn opened(&mut self, io: &mut Io<'_>) {
        assert!(self.place != Place::OpenedAndDrop, "as told");
        self.inner.opened(io);
    }

    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        self.inner.received(input, io)
    }

    fn rested(&mut self, io: &mut Io<'_>) {
        self.inner.rested(io);
    }

    fn ended(&mut self, io: &mut Io<'_>) {
        self.inner.ended(io);
    }

    fn alarm(&mut self, io: &mut Io<'_>) {
        self.inner.alarm(io);
    }

    fn stopping(&mut self, io: &mut Io<'_>) {
        self.inner.stopping(io);
    }

    fn closed(&mut self, reason: CloseReason, io: &mut Io<'_>) {
        self.inner.closed(reason, io);
        assert!(self.place != Place::Closed, "as told");
    }
}

impl<S> Drop for PanickingSession<S> {
    fn drop(&mut self) {
        let drops = matches!(self.place, Place::Drop | Place::OpenedAndDrop);
        assert!(!drops, "as told");
    }
}
