//! Traces: what clients do, at random from a seed. Each can be read in a message, and comes again from its seed.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use threadgauge_reactor::{BuiltIn, Overflow};

/// What one server is given, and the clients that it has.
#[derive(Debug)]
pub struct Round {
    pub protocol: BuiltIn,
    /// As `tests/common/settings.rs` reads them.
    pub settings: Vec<String>,
    pub traces: Vec<Trace>,
}

/// The clients of one trace.
#[derive(Clone, Debug)]
pub enum Trace {
    /// One client, which is answered.
    Talk(Talk),
    /// Some in a room of their own, who hear each other.
    Room(Room),
}

impl Trace {
    /// How many clients it has.
    pub fn clients(&self) -> usize {
        match self {
            Self::Talk(_) => 1,
            Self::Room(room) => room.members.len(),
        }
    }

    /// Whether its client waits for the stop of the server.
    pub fn waits_for_stop(&self) -> bool {
        matches!(self, Self::Talk(talk) if talk.end == End::Stop)
    }
}

/// What a client says, how it reads, and how it ends.
#[derive(Clone, Debug)]
pub struct Talk {
    /// Whole requests that leave the connection open: answered while all clients of the round are connected.
    pub opening: Vec<Piece>,
    /// What is said after that.
    pub last: Vec<Piece>,
    pub end: End,
    /// What is said though the connection ends.
    pub tail: Option<Tail>,
    pub reader: Reader,
}

/// What is sent by one call, and how long its sender waits after it.
#[derive(Clone)]
pub struct Piece {
    pub bytes: Vec<u8>,
    pub pause: Duration,
}

/// How a client ends, or is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its session ends the connection, by what was said last.
    Session,
    /// It sends no more, and reads on.
    HalfClose,
    /// It has read its answers, and resets.
    Reset,
    /// It says nothing any more, and is idle.
    Idle,
    /// It begins a request, and sends a byte of it now and then.
    Dribble,
    /// It reads nothing any more.
    Deaf,
    /// It reads a little all the time, longer than one may read nothing; then the rest, and sends no more.
    Slow,
    /// The server stops.
    Stop,
}

/// Bytes behind what has ended the connection.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    pub count: usize,
    /// When they are sent.
    pub after: After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// With what was said last.
    TheLast,
    /// So long after it.
    Pause(Duration),
    /// When the client has read the end.
    TheEnd,
}

/// How a client reads.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// The receive buffer that it asks for.
    pub buffer: Option<usize>,
    /// The most bytes of one read, and the time between two.
    pub piece: usize,
    pub pause: Duration,
    /// Before the first read of the last answers.
    pub first: Duration,
}

/// Members of a room: what each says, and how it reads. They leave when all have heard all.
#[derive(Clone, Debug)]
pub struct Room {
    pub members: Vec<(Vec<Piece>, Reader)>,
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 60;
        let start = String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(SHOWN)]);
        write!(f, "{} bytes {start:?}, then {:?}", self.bytes.len(), self.pause)
    }
}

/// All of them together.
pub fn joined(pieces: &[Piece]) -> Vec<u8> {
    pieces
        .iter()
        .flat_map(|piece| piece.bytes.iter().copied())
        .collect()
}

/// What the clients of a round are there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    /// Any way to end but those below.
    Any,
    /// Being idle, or dribbling.
    Idle,
    /// Taking nothing, or little.
    Deaf,
    /// Hearing each other.
    Rooms,
}

/// The themes of rounds, in turns. Their number is odd beside that of the protocols, so that all meet.
const THEMES: [Theme; 5] = [Theme::Any, Theme::Rooms, Theme::Any, Theme::Idle, Theme::Deaf];
/// Those that answer, in the order of the rounds that have a choice.
const ASKED: [BuiltIn; 4] = [BuiltIn::Http, BuiltIn::Bytes, BuiltIn::Numbered, BuiltIn::Echo];

/// How much a client is asked for that takes none of it, in bytes: more than sockets and limit hold together.
const MUCH: usize = 6 << 20;

/// How long one may take nothing of what waits for it, where some do.
pub const WRITE_TIME: Duration = Duration::from_millis(1_500);

impl Round {
    /// The round of this number that belongs to the seed, with so many traces; without `shared`, of protocols whose
    /// clients do not hear each other.
    pub fn new(seed: u64, number: usize, traces: usize, shared: bool) -> Self {
        // So that neighbours have nothing in common.
        let mut rng = Rng::with_seed(
            seed.wrapping_add(number as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
        let theme = match THEMES[number % THEMES.len()] {
            Theme::Rooms if !shared => Theme::Any,
            theme => theme,
        };
        let protocol = match theme {
            Theme::Rooms => BuiltIn::Chat,
            // The first two rounds of that theme are of the first two protocols.
            Theme::Any => ASKED[(number / 2) % ASKED.len()],
            Theme::Idle | Theme::Deaf => ASKED[rng.usize(..ASKED.len())],
        };
        let overflow = match rng.bool() || theme == Theme::Rooms {
            true => Overflow::Drop,
            false => Overflow::Wait,
        };
        let limit = match theme {
            Theme::Rooms => 1_000,
            Theme::Deaf => 65_536,
            _ => pick(&mut rng, &[1_000, 16_384, 65_536, 1 << 20]),
        };
        let mut settings = vec![
            format!("output_limit={limit}"),
            format!("overflow={}", overflow.name()),
            "drain_ms=290000".to_owned(),
        ];
        match theme {
            // Who has asked for nothing is in its first head.
            Theme::Idle => settings.extend(["idle_ms=2500", "handshake_ms=1500"].map(str::to_owned)),
            Theme::Deaf => settings.push(format!("write_timeout_ms={}", WRITE_TIME.as_millis())),
            Theme::Any | Theme::Rooms => {}
        }
        let traces = (0..traces).map(|_| match theme {
            Theme::Rooms => Trace::Room(room(&mut rng)),
            _ => Trace::Talk(talk(&mut rng, protocol, theme)),
        });
        Self {
            protocol,
            settings,
            traces: traces.collect(),
        }
    }
}

impl Round {
    /// Whether it has clients that are to be idle by their own will alone.
    pub fn has_idle_clients(&self) -> bool {
        self.has_clients_that(End::Idle) || self.has_clients_that(End::Dribble)
    }

    /// Whether it has clients that wait until a time of the server has passed.
    pub fn waits_for_times(&self) -> bool {
        [End::Idle, End::Dribble, End::Deaf, End::Slow]
            .map(|end| self.has_clients_that(end))
            .contains(&true)
    }

    fn has_clients_that(&self, end: End) -> bool {
        let does = |trace: &Trace| matches!(trace, Trace::Talk(talk) if talk.end == end);
        self.traces.iter().any(does)
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn talk(rng: &mut Rng, protocol: BuiltIn, theme: Theme) -> Talk {
    let end = match theme {
        Theme::Idle => pick(rng, &[End::Idle, End::Dribble]),
        Theme::Deaf => pick(rng, &[End::Deaf, End::Slow, End::Session, End::HalfClose]),
        _ => pick(
            rng,
            &[
                End::Session,
                End::Session,
                End::Session,
                End::HalfClose,
                End::Reset,
                End::Stop,
            ],
        ),
    };
    let end = match (end, protocol) {
        // It never ends by itself.
        (End::Session, BuiltIn::Echo) => End::HalfClose,
        // Each byte is a request.
        (End::Dribble, BuiltIn::Echo) => End::Idle,
        (end, _) => end,
    };
    let opening = requests(rng, protocol, 8);
    let mut last = requests(rng, protocol, 6);
    match end {
        End::Session => last.extend(last_request(rng, protocol)),
        // All is said at once, before it could be called idle.
        End::Idle | End::Dribble => last = Vec::new(),
        // A request that is never whole.
        End::HalfClose if rng.bool() => last.extend(part(protocol)),
        End::Deaf | End::Slow => {
            last = match protocol {
                BuiltIn::Echo => vec![b'e'; MUCH],
                _ => request(protocol, 16_000).repeat(MUCH / 16_000),
            };
        }
        _ => {}
    }
    let tail = match end {
        End::Session if rng.u8(..4) > 0 => Some(Tail {
            count: match rng.u8(..10) {
                0..2 => rng.usize(1..100),
                2..5 => rng.usize(1_000..100_000),
                // More than one receive brings.
                5..9 => rng.usize(100_000..1 << 20),
                _ => rng.usize(1 << 20..4 << 20),
            },
            after: match rng.u8(..6) {
                0..3 => After::TheLast,
                3..5 => After::Pause(Duration::from_millis(100)),
                _ => After::TheEnd,
            },
        }),
        End::Idle if rng.bool() => Some(Tail {
            count: rng.usize(1..2_000),
            after: After::TheEnd,
        }),
        _ => None,
    };
    // Who is to be idle for its own will alone makes no pauses.
    let pauses = !matches!(end, End::Idle | End::Dribble | End::Deaf | End::Slow);
    Talk {
        opening: cut(rng, &opening, pauses),
        last: match end {
            End::Dribble => dribble(protocol),
            _ => cut(rng, &last, pauses),
        },
        end,
        tail,
        reader: match end {
            // Less than makes the server's socket take more in time.
            End::Slow => Reader {
                buffer: Some(65_536),
                piece: 4_096,
                pause: Duration::from_millis(15),
                first: Duration::ZERO,
            },
            _ => reader(rng, pauses),
        },
    }
}

fn reader(rng: &mut Rng, may_be_late: bool) -> Reader {
    let first = match rng.u8(..10) {
        0..6 => 0,
        6..9 => 100,
        _ => 1_300,
    };
    Reader {
        buffer: pick(rng, &[None, Some(2_048), Some(2_048), Some(16_384), Some(65_536)]),
        piece: pick(rng, &[500, 2_000, 65_536]),
        pause: Duration::from_micros(pick(rng, &[0, 0, 500, 2_000])),
        first: Duration::from_millis(if may_be_late { first } else { 0 }),
    }
}

/// Up to so many whole requests that leave the connection open.
fn requests(rng: &mut Rng, protocol: BuiltIn, most: usize) -> Vec<u8> {
    (0..rng.usize(..=most))
        .flat_map(|_| {
            let bytes = match rng.u8(..3) {
                0 => rng.usize(1..100),
                1 => rng.usize(100..3_000),
                _ => rng.usize(3_000..=16_000),
            };
            request(protocol, bytes)
        })
        .collect()
}

/// One that is answered with about so many bytes.
fn request(protocol: BuiltIn, bytes: usize) -> Vec<u8> {
    match protocol {
        BuiltIn::Http => format!("GET /{bytes} HTTP/1.1\r\nHost: x\r\n\r\n"),
        BuiltIn::Bytes => format!("{bytes} keep\n"),
        // A tenth of them block for a moment.
        BuiltIn::Numbered => format!("{bytes} {} {:0bytes$}\n", u8::from(bytes.is_multiple_of(10)), 0),
        BuiltIn::Echo => format!("{bytes:0bytes$}"),
        _ => unreachable!("nobody answers"),
    }
    .into_bytes()
}

/// One after which the session ends the connection.
fn last_request(rng: &mut Rng, protocol: BuiltIn) -> Vec<u8> {
    let bytes = rng.usize(1..=16_384);
    match protocol {
        BuiltIn::Http => match rng.u8(..5) {
            0 | 1 => format!("GET /{bytes} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            2 => format!("GET /{bytes} HTTP/1.0\r\n\r\n"),
            3 => format!("POST /{bytes} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"),
            _ => "no request\r\n\r\n".to_owned(),
        },
        BuiltIn::Bytes => match rng.u8(..5) {
            0 => "no number\n".to_owned(),
            1 | 2 => "1".repeat(100),
            _ => format!("{bytes}\n"),
        },
        BuiltIn::Numbered => match rng.bool() {
            true => "no request\n".to_owned(),
            false => "1".repeat(20_000),
        },
        _ => unreachable!("it never ends by itself"),
    }
    .into_bytes()
}

/// The beginning of a request.
fn part(protocol: BuiltIn) -> &'static [u8] {
    match protocol {
        BuiltIn::Http => b"GET /7 HT",
        _ => b"1",
    }
}

/// A request that is never whole, a byte at a time: longer than its time.
fn dribble(protocol: BuiltIn) -> Vec<Piece> {
    let request: &[u8] = match protocol {
        BuiltIn::Http => b"GET /7 HTTP/1.1\r\nHost: x\r\nX-Slow: the rest of it never comes",
        _ => &[b'1'; 60],
    };
    let pieces = request.iter().map(|&byte| Piece {
        bytes: vec![byte],
        pause: Duration::from_millis(250),
    });
    pieces.collect()
}

/// Cut at a few places.
fn cut(rng: &mut Rng, bytes: &[u8], pauses: bool) -> Vec<Piece> {
    let mut cuts: Vec<usize> = (0..rng.usize(..4)).map(|_| rng.usize(..=bytes.len())).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    let pieces = cuts.windows(2).map(|cut| Piece {
        bytes: bytes[cut[0]..cut[1]].to_vec(),
        pause: Duration::from_millis(if pauses { rng.u64(..4) } else { 0 }),
    });
    pieces.collect()
}

/// Each line begins with who says it.
fn room(rng: &mut Rng) -> Room {
    let members = (0..rng.usize(2..=3)).map(|member| {
        // In bursts as large as sockets hold for those who read slowly.
        let lines = (0..rng.usize(..40)).flat_map(|number| {
            let width = rng.usize(1..1_500);
            format!("{member} {number} {:0width$}\n", 0).into_bytes()
        });
        let lines: Vec<u8> = lines.collect();
        (cut(rng, &lines, true), reader(rng, true))
    });
    Room {
        members: members.collect(),
    }
}
