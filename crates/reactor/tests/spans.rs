//! What a `tracing` subscriber hears of connections: a span each, in which its session is called.

use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use threadgauge_reactor::{ConnectionId, Design, Io, Protocol, Server, Session, Stop};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// All that was heard, by span.
static HEARD: LazyLock<Mutex<HashMap<u64, Heard>>> = LazyLock::new(Mutex::default);

#[derive(Clone, Debug, Default)]
struct Heard {
    fields: HashMap<String, String>,
    entered: usize,
    closed: bool,
}

impl Visit for Heard {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// Writes down what it hears of connections.
struct Capture(AtomicU64);

fn heard<R>(of: impl FnOnce(&mut HashMap<u64, Heard>) -> R) -> R {
    of(&mut HEARD.lock().unwrap_or_else(PoisonError::into_inner))
}

fn note(span: &Id, write: impl FnOnce(&mut Heard)) {
    heard(|spans| write(spans.get_mut(&span.into_u64()).expect("made before")));
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "threadgauge_reactor" && metadata.name() == "connection"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.fetch_add(1, SeqCst);
        let mut new = Heard::default();
        attributes.record(&mut new);
        heard(|spans| spans.insert(id, new));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        note(span, |heard| values.record(heard));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        note(span, |heard| heard.entered += 1);
    }

    fn exit(&self, _: &Id) {}

    fn try_close(&self, span: Id) -> bool {
        note(&span, |heard| heard.closed = true);
        true
    }
}

/// Answers each byte with two, and `!` with a refusal.
struct Twice;

impl Protocol for Twice {
    type Session = Self;

    fn open(&self, _: ConnectionId) -> Self {
        Self
    }
}

impl Session for Twice {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        match input[0] {
            b'!' => io.refuse(),
            byte => io.send(&[byte, byte]),
        }
        1
    }
}

/// Designs that serve with threads or loops: those that fork tell their own subscriber, in another process.
const DESIGNS: [Design; 12] = [
    Design::Iterative,
    Design::ThreadPerConnection,
    Design::PrethreadedMutex,
    Design::PrethreadedAcceptor,
    Design::Reactor,
    Design::OneHandlerReactor,
    Design::SplitReactor,
    Design::ReactorPool,
    Design::ReactorPerCore,
    Design::Proactor,
    Design::LeaderFollowers,
    Design::HalfSyncHalfAsync,
];

#[test]
fn each_connection_has_a_span() {
    tracing::subscriber::set_global_default(Capture(AtomicU64::new(1))).expect("the first");
    for design in DESIGNS {
        heard(HashMap::clear);
        let peers = serve(design);
        let spans: Vec<Heard> = heard(|spans| spans.values().cloned().collect());
        assert_eq!(spans.len(), 2, "{design:?}: {spans:?}");
        for (peer, [reason, messages, bytes_in, bytes_out]) in peers.into_iter().zip([
            ["\"ended by client\"", "3", "3", "6"],
            ["\"refused\"", "2", "2", "2"],
        ]) {
            let span = spans
                .iter()
                .find(|span| span.fields["peer"] == peer)
                .unwrap_or_else(|| panic!("{design:?}: nobody heard of {peer}: {spans:?}"));
            let expected = [
                ("reason", reason),
                ("messages", messages),
                ("bytes_in", bytes_in),
                ("bytes_out", bytes_out),
                ("design", &format!("{:?}", design.name())),
            ];
            for (field, value) in expected {
                assert_eq!(span.fields[field], value, "{design:?}: {field} of {span:?}");
            }
            assert!(
                span.fields.contains_key("id") && span.closed,
                "{design:?}: {span:?}"
            );
            assert!(
                span.entered >= 3,
                "opened, received, closed: {design:?}: {span:?}"
            );
        }
    }
}

/// Two clients, one after the other: one ends by itself, one is refused. Their addresses.
fn serve(design: Design) -> [String; 2] {
    let stop = Stop::new().expect("a pipe");
    let bound = Server::new(Twice)
        .design(design)
        .bind("127.0.0.1:0")
        .expect("a port");
    let address = bound.local_addr();
    thread::scope(|scope| {
        let running = scope.spawn(|| bound.run(&stop).expect("served"));
        let peers = [("abc", "aabbcc"), ("x!", "xx")].map(|(says, hears)| {
            let mut client = TcpStream::connect(address).expect("connects");
            client.write_all(says.as_bytes()).expect("sent");
            client.shutdown(Shutdown::Write).expect("half closed");
            let mut answer = String::new();
            client.read_to_string(&mut answer).expect("an answer");
            assert_eq!(answer, hears);
            client.local_addr().expect("connected").to_string()
        });
        stop.stop();
        running.join().expect("it does not panic");
        peers
    })
}
