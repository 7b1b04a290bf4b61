//! How the client's side of a protocol is written and read: one file a protocol, no client library.
//!
//! A codec has no state: what belongs to a connection (unused input, who is in which group) is kept outside. So it can
//! be cut at any byte, and a million connections share one.

mod chat;
mod mqtt;
mod nats;
mod resp;
mod websocket;

pub use chat::Chat;
pub use mqtt::Mqtt;
pub use nats::Nats;
pub use resp::Resp;
pub use websocket::WebSocket;

use crate::client_pool::ClientPool;
use crate::error::LoadError;
use crate::payload::MOST_PAYLOAD_BYTES;
use crate::record::Failure;

/// Publishing to a group and receiving from it, in one protocol.
pub trait Codec: std::fmt::Debug + Sync {
    /// Its name, as in reports.
    fn name(&self) -> &'static str;

    /// Whether the server also delivers a message to who sent it.
    fn echoes(&self) -> bool;

    /// Appends what connection `connection` says first: who it is, and that it will receive what is published to
    /// `group`. It ends with something that the server answers, which [`next`](Self::next) tells as [`Event::Ready`].
    fn greet(&self, connection: usize, group: usize, into: &mut Vec<u8>);

    /// Appends a message to `group`.
    fn publish(&self, group: usize, payload: &[u8], into: &mut Vec<u8>);

    /// The first whole message of the server in `input`; `None` where there is none yet.
    ///
    /// # Errors
    ///
    /// If these bytes are not of the protocol, or the server complains.
    fn next<'a>(&self, input: &'a [u8]) -> Result<Option<Frame<'a>>, CodecError>;

    /// Whether the bytes before a delivery's payload say how long it is, whatever it holds.
    ///
    /// The payload of such a delivery lies in the input.
    fn heads_say_lengths(&self) -> bool {
        true
    }
}

/// The messages of the server in what a connection has received, one after the other.
///
/// Deliveries to a group mostly have the same bytes around their payload. What begins and ends as the delivery before
/// is one of the same length, and is not parsed again, where [heads say lengths](Codec::heads_say_lengths).
#[derive(Debug)]
pub struct Frames<'a> {
    codec: &'static dyn Codec,
    input: &'a [u8],
    used: usize,
    /// Of the last delivery that the codec has parsed.
    framing: Option<Framing<'a>>,
}

/// What stands before and after the payload of a delivery, and how long that is.
#[derive(Clone, Copy, Debug)]
struct Framing<'a> {
    prefix: &'a [u8],
    payload_bytes: usize,
    suffix: &'a [u8],
}

impl<'a> Framing<'a> {
    /// The payload of the frame that `input` begins with, and the bytes of the frame, if this is its framing.
    fn split(self, input: &'a [u8]) -> Option<(&'a [u8], usize)> {
        let end = self.prefix.len() + self.payload_bytes;
        let is_it = input.starts_with(self.prefix) && input.get(end..)?.starts_with(self.suffix);
        is_it.then(|| (&input[self.prefix.len()..end], end + self.suffix.len()))
    }
}

impl<'a> Frames<'a> {
    /// None of these bytes is used yet.
    pub fn of(codec: &'static dyn Codec, input: &'a [u8]) -> Self {
        Self {
            codec,
            input,
            used: 0,
            framing: None,
        }
    }

    /// How many bytes the events so far took.
    pub fn used(&self) -> usize {
        self.used
    }

    /// What the next message says; `None` where there is no whole one.
    ///
    /// # Errors
    ///
    /// As [`Codec::next`].
    pub fn next_event(&mut self) -> Result<Option<Event<'a>>, CodecError> {
        let rest = &self.input[self.used..];
        if let Some((payload, bytes)) = self.framing.and_then(|framing| framing.split(rest)) {
            self.used += bytes;
            return Ok(Some(Event::Delivery(payload)));
        }
        let Some(frame) = self.codec.next(rest)? else {
            return Ok(None);
        };
        self.used += frame.bytes;
        if let Event::Delivery(payload) = frame.event
            && self.codec.heads_say_lengths()
        {
            let start = payload.as_ptr().addr() - rest.as_ptr().addr();
            self.framing = Some(Framing {
                prefix: &rest[..start],
                payload_bytes: payload.len(),
                suffix: &rest[start + payload.len()..frame.bytes],
            });
        }
        Ok(Some(frame.event))
    }
}

/// A whole message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// How many bytes of the input it takes. Never 0.
    pub bytes: usize,
    /// What it says.
    pub event: Event<'a>,
}

/// What a server says to a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The greeting is done: from now on everything that is published to the group comes here.
    Ready,
    /// A message to the group.
    Delivery(&'a [u8]),
    /// Wants this as its answer.
    Wants(&'static [u8]),
    /// Nothing that concerns anyone.
    Noise,
}

/// What servers want as their answers, by whom, until [`say`](Self::say): bounded by how many connections there are,
/// and not by how often they want it.
#[derive(Debug, Default)]
pub struct Answers(Vec<(usize, &'static [u8], usize)>);

impl Answers {
    /// The server wants this of a connection, as [`Event::Wants`] has it.
    pub fn want(&mut self, connection: usize, answer: &'static [u8]) {
        match self.0.last_mut() {
            // A server wants the same over and over, and what one connection says is read together.
            Some((of, same, times)) if (*of, *same) == (connection, answer) => *times += 1,
            _ => self.0.push((connection, answer, 1)),
        }
    }

    /// Has the connections send them with the next flush, and tells `unread` of each whose server does not read them:
    /// the caller is to end it.
    pub fn say(&mut self, pool: &mut ClientPool, mut unread: impl FnMut(usize, LoadError)) {
        for (connection, answer, times) in self.0.drain(..) {
            if let Err(source) = pool.owe(connection, answer, times) {
                unread(connection, LoadError::Codec { connection, source });
            }
        }
    }
}

/// What a server said that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// It speaks something else.
    #[error("the server does not speak {protocol}: it sent {bytes:?}")]
    Foreign {
        /// What was expected.
        protocol: &'static str,
        /// The beginning of what came.
        bytes: String,
    },
    /// It speaks the protocol, but for this.
    #[error("the server's answer has {what}: {line:?}")]
    Malformed {
        /// What it has.
        what: &'static str,
        /// The line, or its beginning.
        line: String,
    },
    /// It refuses, in its own words.
    #[error("the server says {0:?}")]
    Complaint(String),
    /// It answers without a question.
    #[error("the server sent {0:?}, which nobody asked for")]
    Unasked(String),
    /// It wants answers and does not read them.
    #[error("the server wants more answers than it reads: over {0} bytes of them wait")]
    Unread(usize),
}

impl CodecError {
    /// What it counts as.
    pub(crate) fn kind(&self) -> Failure {
        match self {
            Self::Foreign { .. } | Self::Malformed { .. } | Self::Complaint(_) => Failure::Garbage,
            Self::Unasked(_) => Failure::Unasked,
            Self::Unread(_) => Failure::Unread,
        }
    }

    pub(crate) fn foreign(protocol: &'static str, input: &[u8]) -> Self {
        let bytes = text(input);
        Self::Foreign { protocol, bytes }
    }

    /// With the first line of `input`.
    pub(crate) fn malformed(what: &'static str, input: &[u8]) -> Self {
        let end = memchr::memchr(b'\n', input).unwrap_or(input.len());
        let line = text(input[..end].trim_ascii_end());
        Self::Malformed { what, line }
    }

    /// Of the first bytes of all: whether they are of another protocol.
    pub(crate) fn is_of_another(&self) -> bool {
        !matches!(self, Self::Malformed { .. })
    }

    /// Of the first bytes of all: a server that speaks first speaks something else.
    pub(crate) fn of_first(self, protocol: &'static str) -> Self {
        match self {
            Self::Unasked(bytes) => Self::Foreign { protocol, bytes },
            other => other,
        }
    }

    /// Bytes that nobody asked for.
    pub(crate) fn unasked(input: &[u8]) -> Self {
        Self::Unasked(text(input))
    }

    pub(crate) fn complaint(line: &[u8]) -> Self {
        Self::Complaint(text(line))
    }
}

/// The beginning of it, for people.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned()
}

/// Of what comes before a message's bytes. Longer is not of the protocol.
const LONGEST_LINE_BYTES: usize = 64 * 1024;
/// More than any message of ours, headers included: a length beyond it is a mistake, not something to wait for.
const MOST_BYTES: usize = 4 * MOST_PAYLOAD_BYTES;

/// The first line without its end, and where the next begins. `Err` if there is none although there is so much.
fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, ()> {
    match memchr::memchr(b'\n', input) {
        Some(end) => {
            let line = &input[..end];
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1)))
        }
        None if input.len() > LONGEST_LINE_BYTES => Err(()),
        None => Ok(None),
    }
}

/// Writes a decimal number. Of each message, so not by `write!`.
fn put_number(number: usize, into: &mut Vec<u8>) {
    into.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A decimal number, and nothing else.
fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_usize, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| usize::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// What every codec is held to.
#[cfg(test)]
mod conformance {
    use proptest::prelude::*;

    use super::*;

    /// An event that outlives its input.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) enum Owned {
        Ready,
        Delivery(Vec<u8>),
        Wants(Vec<u8>),
        Noise,
    }

    impl From<Event<'_>> for Owned {
        fn from(event: Event<'_>) -> Self {
            match event {
                Event::Ready => Self::Ready,
                Event::Delivery(payload) => Self::Delivery(payload.to_vec()),
                Event::Wants(answer) => Self::Wants(answer.to_vec()),
                Event::Noise => Self::Noise,
            }
        }
    }

    /// All events of `pieces`, fed one after the other as a connection would, which are the same with and without a
    /// look at the one before.
    pub(super) fn events<'a>(
        codec: &'static dyn Codec,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<Owned>, CodecError> {
        let (mut held, mut events) = (Vec::new(), Vec::new());
        for piece in pieces {
            held.extend_from_slice(piece);
            let by_frames = by_frames(codec, &held);
            let by_codec = by_codec(codec, &held);
            assert_eq!(by_frames, by_codec);
            let (some, used) = by_codec?;
            events.extend(some);
            held.drain(..used);
        }
        Ok(events)
    }

    fn by_frames(codec: &'static dyn Codec, input: &[u8]) -> Result<(Vec<Owned>, usize), CodecError> {
        let (mut frames, mut events) = (Frames::of(codec, input), Vec::new());
        while let Some(event) = frames.next_event()? {
            events.push(event.into());
        }
        Ok((events, frames.used()))
    }

    fn by_codec(codec: &dyn Codec, input: &[u8]) -> Result<(Vec<Owned>, usize), CodecError> {
        let (mut used, mut events) = (0, Vec::new());
        while let Some(frame) = codec.next(&input[used..])? {
            assert!(frame.bytes > 0 && used + frame.bytes <= input.len());
            used += frame.bytes;
            events.push(frame.event.into());
        }
        Ok((events, used))
    }

    /// Cut at every place, and byte by byte, the bytes say the same as whole.
    pub(super) fn split_anywhere(codec: &'static dyn Codec, bytes: &[u8]) {
        let whole = events(codec, [bytes]);
        for cut in 0..=bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(events(codec, [a, b]), whole, "cut at {cut}");
        }
        assert_eq!(events(codec, bytes.chunks(1)), whole);
    }

    const CODECS: [&'static dyn Codec; 5] = [&Nats::ALIKE, &Resp, &Mqtt, &Chat, &WebSocket];

    #[test]
    fn each_has_its_name_and_says_whether_a_sender_hears_itself_and_lines_alone_say_no_lengths() {
        let told = CODECS.map(|codec| (codec.name(), codec.echoes(), codec.heads_say_lengths()));
        let expected = [
            ("NATS", false, true),
            ("RESP3", true, true),
            ("MQTT 3.1.1", true, true),
            ("chat", false, false),
            ("WebSocket", false, true),
        ];
        assert_eq!(told, expected);
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_events_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for codec in CODECS {
                let _ = events(codec, [&bytes[..]]);
            }
        }

        #[test]
        fn what_looks_like_a_protocol_says_the_same_however_it_is_cut(
            words in prop::collection::vec(prop::sample::select(vec![
                &b"MSG"[..], b" ", b"g1", b"1", b"5", b"\r\n", b"hello", b"PING", b"PONG", b"+OK", b"-ERR", b"INFO {}", b"HMSG",
                b">3", b"*3", b"$5", b"$-1", b":10", b"%2", b"message", b"_", b"\x20\x02\0\0", b"\x30\x07\0\x02g1", b"abc", b"\x90",
                b"\x82", b"\x05", b"\x7e\0", b"\x7f\0\0\0\0\0\0\0", b"\x89\0", b"\x88\x02\x03\xe8",
                b"HTTP/1.1 101 ", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", b"\r\n\r\n",
                // Whole deliveries, so that one often begins as the one before it.
                b"MSG g1 1 5\r\nhello\r\n", b"MSG g1 1 5\r\nworld\r\n", b"MSG g1 1 5\r\n", b"hello\n",
                b">3\r\n$7\r\nmessage\r\n$2\r\ng1\r\n$5\r\nhello\r\n", b">3\r\n$7\r\nmessage\r\n$2\r\ng1\r\n+hello\r\n",
                b">3\r\n+message\r\n_\r\n_\r\n", b"\x30\x09\0\x02g1hello", b"\x82\x05hello",
            ]), 0..12),
        ) {
            let bytes = words.concat();
            for codec in CODECS {
                let whole = events(codec, [&bytes[..]]);
                let single = events(codec, bytes.chunks(1));
                prop_assert_eq!(whole.is_ok(), single.is_ok());
                if whole.is_ok() {
                    prop_assert_eq!(whole, single);
                }
            }
        }
    }

    #[test]
    fn first_bytes_that_are_no_answer_are_of_another_protocol_unless_a_part_of_them_is_wrong() {
        for (error, is_of_another) in [
            (CodecError::foreign("chat", b"220"), true),
            (CodecError::complaint(b"no"), true),
            (CodecError::unasked(b"220"), true),
            (CodecError::malformed("no length", b"220\n"), false),
        ] {
            assert_eq!(error.is_of_another(), is_of_another, "{error}");
        }
        let first = CodecError::unasked(b"220").of_first("chat");
        assert_eq!(first, CodecError::foreign("chat", b"220"));
    }

    #[test]
    fn a_frame_as_the_one_before_is_split_without_its_codec() {
        let framing = Framing {
            prefix: b"MSG g1 1 5\r\n",
            payload_bytes: 5,
            suffix: b"\r\n",
        };
        let two = b"MSG g1 1 5\r\nhello\r\nMSG g1 1 5\r\nworld\r\n";
        assert_eq!(framing.split(two), Some((&b"hello"[..], 19)));
        assert_eq!(framing.split(&two[19..]), Some((&b"world"[..], 19)));
        for none in [
            &b""[..],
            b"MSG g1 1 5\r\nhell",
            b"MSG g1 1 5\r\nhello\r",
            b"MSG g2 1 5\r\nhello\r\n",
        ] {
            assert_eq!(framing.split(none), None);
        }
    }

    #[test]
    fn what_a_connection_wants_again_is_counted_and_not_kept() {
        let mut answers = Answers::default();
        for (connection, answer) in [
            (1, b"PONG"),
            (1, b"PONG"),
            (1, b"pong"),
            (2, b"pong"),
            (2, b"pong"),
            (1, b"pong"),
        ] {
            answers.want(connection, answer);
        }
        let kept: [(usize, &[u8], usize); 4] =
            [(1, b"PONG", 2), (1, b"pong", 1), (2, b"pong", 2), (1, b"pong", 1)];
        assert_eq!(answers.0, kept);
    }

    #[test]
    fn a_number_is_digits_that_fit() {
        assert_eq!(number(b"1024"), Some(1024));
        for none in [&b""[..], b"-1", b"1 ", b"99999999999999999999999"] {
            assert_eq!(number(none), None);
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let endless = vec![b'x'; LONGEST_LINE_BYTES + 1];
        assert!(Nats::ALIKE.next(&endless).is_err());
    }
}
