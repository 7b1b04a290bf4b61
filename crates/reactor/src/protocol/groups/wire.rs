//! What clients send: one operation at a time, read where it lies.
//!
//! An operation is a line, and for one that publishes, as many bytes behind it as the line says. Nothing is believed of
//! a client but what has come: a line ends within a limit, and a length beyond the limit is refused before its bytes.

use super::connect_json;
use crate::protocol::line::{self, first_line};

/// How much a client may say at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of an operation's arguments, up to the end of the line. As many blanks may stand before them.
    pub control_line: usize,
    /// Bytes of a message, with its headers.
    pub payload: usize,
}

/// The longest name, and the end of the line.
const AROUND_ARGUMENTS: usize = "CONNECT".len() + "\r\n".len();
/// A number has no more digits.
const MOST_DIGITS: usize = 9;

impl Limits {
    /// For what was held to limits before.
    pub const NONE: Self = Self {
        control_line: usize::MAX / 4,
        payload: usize::MAX / 4,
    };

    /// The most bytes of an operation.
    pub fn frame(self) -> usize {
        self.line() + self.payload + "\r\n".len()
    }

    /// The most bytes of a line.
    fn line(self) -> usize {
        2 * self.control_line + AROUND_ARGUMENTS
    }
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation<'a> {
    /// With its options, which are JSON.
    Connect(&'a [u8]),
    Publish(Publish<'a>),
    Subscribe {
        subject: &'a [u8],
        queue: Option<&'a [u8]>,
        sid: &'a [u8],
    },
    Unsubscribe {
        sid: &'a [u8],
        /// After so many messages; at once if none.
        after: Option<u64>,
    },
    Ping,
    Pong,
    /// What servers say to clients, and what nobody minds.
    Idle,
}

/// A message. Numbers are kept as they were written, to be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Publish<'a> {
    pub subject: &'a [u8],
    /// Empty if there is none.
    pub reply: &'a [u8],
    pub headers: Option<Headers<'a>>,
    /// The length of headers and payload.
    pub size: &'a [u8],
    /// Headers, payload, and the end of the line behind them.
    pub body: &'a [u8],
    /// `size`, the end of the line and `body`, where they lie together as they are passed on.
    pub as_sent: Option<&'a [u8]>,
}

impl Publish<'_> {
    /// Of headers and payload.
    pub fn bytes(&self) -> usize {
        self.body.len() - "\r\n".len()
    }

    /// As it can be read again.
    pub fn written(&self) -> Vec<u8> {
        let (name, headers): (&[u8], _) = match self.headers {
            None => (b"PUB ", &b""[..]),
            Some(headers) => (b"HPUB ", headers.written),
        };
        let blank: &[u8] = b" ";
        let pieces = [
            name,
            self.subject,
            blank,
            self.reply,
            blank,
            headers,
            blank,
            self.size,
            b"\r\n",
            self.body,
        ];
        pieces.concat()
    }
}

/// How many of a message's first bytes are headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Headers<'a> {
    pub written: &'a [u8],
    pub bytes: usize,
}

/// What is wrong with what a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Operation,
    Arguments,
    ControlLine,
    Payload,
}

/// The operations by their names, the frequent ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Pub,
    HPub,
    Sub,
    Unsub,
    Ping,
    Pong,
    Connect,
    Info,
    Ok,
    Err,
}

const NAMES: [(&[u8], Name); 10] = [
    (b"PUB", Name::Pub),
    (b"HPUB", Name::HPub),
    (b"SUB", Name::Sub),
    (b"UNSUB", Name::Unsub),
    (b"PING", Name::Ping),
    (b"PONG", Name::Pong),
    (b"CONNECT", Name::Connect),
    (b"INFO", Name::Info),
    (b"+OK", Name::Ok),
    (b"-ERR", Name::Err),
];

/// The first operation of `input` and its length; `None` while it is not whole.
///
/// # Errors
///
/// As soon as it cannot become an operation any more.
pub(super) fn parse(input: &[u8], limits: Limits) -> Result<Option<(Operation<'_>, usize)>, Wrong> {
    if let Some((publish, length)) = plain_publish(input, limits) {
        return Ok(Some((Operation::Publish(publish), length)));
    }
    parse_any(input, limits)
}

/// What is sent most, as it is sent mostly: a whole `PUB subject bytes`, one blank between words. `None` for anything
/// else, wrong or not.
#[inline]
fn plain_publish(input: &[u8], limits: Limits) -> Option<(Publish<'_>, usize)> {
    let arguments = input.strip_prefix(b"PUB ")?;
    // Most subjects are shorter than it would take to set up a faster search.
    let blank = arguments.iter().position(|&byte| byte <= b' ')?;
    let subject = &arguments[..blank];
    let as_sent = arguments[blank..].strip_prefix(b" ").filter(|_| blank > 0)?;
    let (mut bytes, mut digits) = (0, 0);
    while let Some(digit @ b'0'..=b'9') = as_sent.get(digits) {
        if digits == MOST_DIGITS {
            return None;
        }
        bytes = 10 * bytes + usize::from(digit - b'0');
        digits += 1;
    }
    let (size, behind) = as_sent.split_at(digits);
    let body = behind.strip_prefix(b"\r\n")?.get(..bytes + 2)?;
    let is_right = body.ends_with(b"\r\n") && digits > 0;
    if !is_right || bytes > limits.payload || blank + 1 + digits > limits.control_line {
        return None;
    }
    let length = digits + 2 + body.len();
    let publish = Publish {
        subject,
        reply: b"",
        headers: None,
        size,
        body,
        as_sent: Some(&as_sent[..length]),
    };
    Some((publish, b"PUB ".len() + blank + 1 + length))
}

fn parse_any(input: &[u8], limits: Limits) -> Result<Option<(Operation<'_>, usize)>, Wrong> {
    let Some((name, name_bytes)) = name(input)? else {
        return Ok(None);
    };
    let Some((arguments, line_bytes)) = arguments(input, name_bytes, limits)? else {
        return Ok(None);
    };
    let operation = match name {
        Name::Pub | Name::HPub => {
            let with_headers = name == Name::HPub;
            let publish = publish(arguments, with_headers, &input[line_bytes..], limits)?;
            let length = publish.map_or(0, |publish| line_bytes + publish.body.len());
            return Ok(publish.map(|publish| (Operation::Publish(publish), length)));
        }
        Name::Sub => subscribe(arguments)?,
        Name::Unsub => unsubscribe(arguments)?,
        Name::Connect => Operation::Connect(arguments),
        Name::Ping => Operation::Ping,
        Name::Pong => Operation::Pong,
        Name::Info if !connect_json::is_object(arguments) => return Err(Wrong::Arguments),
        Name::Info | Name::Ok => Operation::Idle,
        Name::Err => return Err(Wrong::Operation),
    };
    Ok(Some((operation, line_bytes)))
}

/// The operation's name and the name's length; `None` while it is not whole.
fn name(input: &[u8]) -> Result<Option<(Name, usize)>, Wrong> {
    for (text, name) in NAMES {
        let known = input.len().min(text.len());
        if !input[..known].eq_ignore_ascii_case(&text[..known]) {
            continue;
        }
        let Some(&next) = input.get(text.len()) else {
            return Ok(None);
        };
        // What follows these is not looked at, or begins with no letter.
        let stands_alone = matches!(
            name,
            Name::Ping | Name::Pong | Name::Ok | Name::Connect | Name::Info
        );
        return match stands_alone || is_blank(next) {
            true => Ok(Some((name, text.len()))),
            false => Err(Wrong::Operation),
        };
    }
    Err(Wrong::Operation)
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// What stands in a line behind the name and blanks, and the length of the line; `None` while it is not whole.
fn arguments(input: &[u8], name_bytes: usize, limits: Limits) -> Result<Option<(&[u8], usize)>, Wrong> {
    let behind = &input[name_bytes..];
    let blanks = behind.iter().take_while(|&&byte| is_blank(byte)).count();
    let come = &behind[blanks..];
    // No more than it takes to see that it is too long.
    let come = &come[..come.len().min(limits.control_line + "\r\n".len())];
    let (arguments, line_bytes) = match first_line(come) {
        Some((arguments, bytes)) => (arguments, Some(name_bytes + blanks + bytes)),
        None => (come.strip_suffix(b"\r").unwrap_or(come), None),
    };
    match arguments.len().max(blanks) > limits.control_line {
        true => Err(Wrong::ControlLine),
        false => Ok(line_bytes.map(|bytes| (arguments.trim_ascii_end(), bytes))),
    }
}

/// `N` arguments at most, and how many there are.
fn split<const N: usize>(arguments: &[u8]) -> Result<([&[u8]; N], usize), Wrong> {
    let mut list = [&b""[..]; N];
    let mut count = 0;
    for argument in arguments.split(|&byte| is_blank(byte)) {
        if argument.is_empty() {
            continue;
        }
        *list.get_mut(count).ok_or(Wrong::Arguments)? = argument;
        count += 1;
    }
    Ok((list, count))
}

/// `subject [reply] [header-bytes] bytes`, and what is behind the line as far as it has come.
fn publish<'a>(
    arguments: &'a [u8],
    with_headers: bool,
    behind: &'a [u8],
    limits: Limits,
) -> Result<Option<Publish<'a>>, Wrong> {
    let (list, count) = split::<4>(arguments)?;
    let numbers = 1 + usize::from(with_headers);
    let reply = match count.checked_sub(numbers) {
        Some(1) => &b""[..],
        Some(2) => list[1],
        _ => return Err(Wrong::Arguments),
    };
    let size = list[count - 1];
    let bytes = number(size).ok_or(Wrong::Arguments)?;
    let headers = match with_headers {
        true => Some(Headers {
            written: list[count - 2],
            bytes: number(list[count - 2]).ok_or(Wrong::Arguments)?,
        }),
        false => None,
    };
    if headers.is_some_and(|headers| headers.bytes > bytes) {
        return Err(Wrong::Arguments);
    }
    if bytes > limits.payload {
        return Err(Wrong::Payload);
    }
    let end = &behind[bytes.min(behind.len())..];
    if !end.starts_with(b"\r\n") {
        return match b"\r\n".starts_with(end) {
            true => Ok(None),
            false => Err(Wrong::Operation),
        };
    }
    Ok(Some(Publish {
        subject: list[0],
        reply,
        headers,
        size,
        body: &behind[..bytes + 2],
        as_sent: None,
    }))
}

/// Of a message that is refused for its length, what it says of itself: its subject, its headers as far as they have
/// come, and how long it is.
pub(super) fn refused_for_length(input: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let (Name::HPub, name_bytes) = name(input).ok()?? else {
        return None;
    };
    let (line, line_bytes) = first_line(input)?;
    let (list, count) = split::<4>(line.get(name_bytes..)?.trim_ascii()).ok()?;
    let [headers, bytes] = [count.checked_sub(2)?, count - 1].map(|place| number(list[place]));
    let come = &input[line_bytes..];
    let headers = &come[..headers?.min(come.len())];
    Some((list[0], headers, bytes?))
}

/// A number as the NATS server reads it: with more digits it is none.
fn number(digits: &[u8]) -> Option<usize> {
    let number = line::number(digits).filter(|_| digits.len() <= MOST_DIGITS);
    number.and_then(|number| usize::try_from(number).ok())
}

/// `subject [queue] sid`.
fn subscribe(arguments: &[u8]) -> Result<Operation<'_>, Wrong> {
    let (list, count) = split::<3>(arguments)?;
    let (queue, sid) = match count {
        2 => (None, list[1]),
        3 => (Some(list[1]), list[2]),
        _ => return Err(Wrong::Arguments),
    };
    Ok(Operation::Subscribe {
        subject: list[0],
        queue,
        sid,
    })
}

/// `sid [after]`.
fn unsubscribe(arguments: &[u8]) -> Result<Operation<'_>, Wrong> {
    let (list, count) = split::<2>(arguments)?;
    if count == 0 {
        return Err(Wrong::Arguments);
    }
    Ok(Operation::Unsubscribe {
        sid: list[0],
        after: number(list[1])
            .map(|after| after as u64)
            .filter(|&after| after > 0),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        control_line: 64,
        payload: 100,
    };

    /// Parses it whole, and sees that no part of it is taken for something else.
    fn parsed(input: &[u8]) -> Result<Option<(Operation<'_>, usize)>, Wrong> {
        let whole = parse(input, LIMITS);
        let without_shortcut = parse_any(input, LIMITS);
        assert_eq!(whole.map(plainly), without_shortcut.map(plainly), "{input:?}");
        let length = whole.map_or(0, |parsed| parsed.map_or(input.len() + 1, |(_, length)| length));
        for end in 1..input.len() {
            match parse(&input[..end], LIMITS) {
                Ok(None) => assert!(whole.is_err() || end < length, "{end} of {input:?}"),
                part => assert_eq!(part, whole, "{end} of {input:?}"),
            }
        }
        whole.map(plainly)
    }

    /// Without what the shortcut adds, which is seen to be right.
    fn plainly(parsed: Option<(Operation<'_>, usize)>) -> Option<(Operation<'_>, usize)> {
        let Some((Operation::Publish(publish), length)) = parsed else {
            return parsed;
        };
        if let Some(as_sent) = publish.as_sent {
            assert_eq!(as_sent, [publish.size, b"\r\n", publish.body].concat());
        }
        let publish = Publish {
            as_sent: None,
            ..publish
        };
        Some((Operation::Publish(publish), length))
    }

    fn operation(input: &str) -> Operation<'_> {
        let (operation, length) = parsed(input.as_bytes()).expect("right").expect("whole");
        assert_eq!(length, input.len(), "{input}");
        operation
    }

    fn publish<'a>(subject: &'a str, reply: &'a str, size: &'a str, body: &'a str) -> Publish<'a> {
        Publish {
            subject: subject.as_bytes(),
            reply: reply.as_bytes(),
            headers: None,
            size: size.as_bytes(),
            body: body.as_bytes(),
            as_sent: None,
        }
    }

    #[test]
    fn what_is_published_mostly_is_read_by_a_shortcut_and_nothing_else_is() {
        let (read, length) = plain_publish(b"PUB a.b 2\r\nhi\r\nPING\r\n", LIMITS).expect("whole");
        assert_eq!((read.as_sent, length), (Some(&b"2\r\nhi\r\n"[..]), 15));
        assert_eq!(
            (read.subject, read.size, read.body),
            (&b"a.b"[..], &b"2"[..], &b"hi\r\n"[..])
        );
        for other in [
            "PUB  2\r\nhi\r\n",
            "PUB a 2\r\nhi\r",
            "PUB a 2\r\nhi!\r\n",
            "PUB a r 2\r\nhi\r\n",
            "PUB a  2\r\nhi\r\n",
            "PUB a \r\n\r\n",
            "pub a 2\r\nhi\r\n",
        ] {
            assert_eq!(plain_publish(other.as_bytes(), LIMITS), None, "{other:?}");
        }
    }

    #[test]
    fn operations_are_read_in_any_case_and_with_any_blanks() {
        for text in ["PUB a 2\r\nhi\r\n", "pub  a \t2 \nhi\r\n", "pUb\ta 2\r\nhi\r\n"] {
            assert_eq!(
                operation(text),
                Operation::Publish(publish("a", "", "2", "hi\r\n"))
            );
        }
        let with_reply = publish("a.b", "r", "0", "\r\n");
        assert_eq!(operation("PUB a.b r 0\r\n\r\n"), Operation::Publish(with_reply));
        let headers = Headers {
            written: b"5",
            bytes: 5,
        };
        let with_headers = Publish {
            headers: Some(headers),
            ..publish("a", "r", "7", "h: 1\nhi\r\n")
        };
        assert_eq!(
            operation("HPUB a r 5 7\r\nh: 1\nhi\r\n"),
            Operation::Publish(with_headers)
        );
        assert_eq!(
            operation("SUB a.* 9\r\n"),
            Operation::Subscribe {
                subject: b"a.*",
                queue: None,
                sid: b"9"
            }
        );
        assert_eq!(
            operation("sub > workers x1\n"),
            Operation::Subscribe {
                subject: b">",
                queue: Some(b"workers"),
                sid: b"x1"
            }
        );
        for (text, after) in [
            ("UNSUB 9\r\n", None),
            ("UNSUB 9 5\r\n", Some(5)),
            ("UNSUB 9 0\r\n", None),
            ("UNSUB 9 x\r\n", None),
            ("UNSUB 9 999999999\r\n", Some(999_999_999)),
            ("UNSUB 9 0000000005\r\n", None),
            ("UNSUB 9 99999999999999999999\r\n", None),
        ] {
            assert_eq!(operation(text), Operation::Unsubscribe { sid: b"9", after });
        }
        assert_eq!(
            operation("CONNECT {\"a\": 1}\r\n"),
            Operation::Connect(b"{\"a\": 1}")
        );
        for (text, expected) in [
            ("PING\r\n", Operation::Ping),
            ("ping \n", Operation::Ping),
            ("PONG\r\n", Operation::Pong),
            ("+OK\r\n", Operation::Idle),
            ("INFO {}\r\n", Operation::Idle),
            ("info{\"a\":1} \r\n", Operation::Idle),
            ("INFO null\n", Operation::Idle),
            ("CONNECT{}\r\n", Operation::Connect(b"{}")),
            ("CONNECT\r\n", Operation::Connect(b"")),
        ] {
            assert_eq!(operation(text), expected);
        }
    }

    #[test]
    fn what_is_no_operation_is_refused_with_its_first_wrong_byte() {
        for (text, at) in [
            ("GET / HTTP/1.1\r\n", 1),
            ("PX", 2),
            ("PUBX a 1\r\n", 4),
            ("SUB\r\n", 4),
            ("\r\n", 1),
            ("-ERR 'x'\r\n", 10),
            ("PUB a 2\r\nhiX", 12),
            ("PUB a 2\r\nhi\rX", 13),
        ] {
            assert_eq!(parsed(text.as_bytes()), Err(Wrong::Operation), "{text}");
            assert_eq!(parse(&text.as_bytes()[..at - 1], LIMITS), Ok(None), "{text}");
        }
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for text in [
            "PUB a\r\n",
            "PUB a b c 1\r\n",
            "PUB a -1\r\n",
            "PUB a 1x\r\n",
            "HPUB a 1\r\n",
            "HPUB a 3 2\r\n",
            "HPUB a x 2\r\n",
            "PUB a 0000000001\r\n",
            "PUB a 4294967296\r\n",
            "PUB a 99999999999999\r\n",
            "HPUB a 1 99999999999999999999999\r\n",
            "HPUB a 200 101\r\n",
            "SUB a\r\n",
            "SUB a b c d\r\n",
            "INFO\r\n",
            "INFO x\r\n",
            "INFO []\r\n",
            "UNSUB \r\n",
            "UNSUB 1 2 3\r\n",
        ] {
            assert_eq!(parsed(text.as_bytes()), Err(Wrong::Arguments), "{text}");
        }
    }

    #[test]
    fn what_is_sent_most_has_a_shortcut() {
        let is_short = |text: &str| plain_publish(text.as_bytes(), LIMITS).is_some();
        assert!(is_short("PUB a.b 2\r\nhi\r\nPING\r\n"));
        for text in [
            "PUB a 2\r\nhi\r",
            "pub a 2\r\nhi\r\n",
            "PUB a r 2\r\nhi\r\n",
            "PUB a 2\nhi\r\n",
        ] {
            assert!(!is_short(text), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn the_shortcut_changes_nothing(
            text in "PUB( |\t|\x0c)?([a-c.*\x0c\t ]{0,3}|\u{e4})( |  )?[0-9]{0,11}[ \t]?\r?\r?\n[a-d\r]{0,4}(\r\n)?[A-Z]{0,2}",
        ) {
            let _ = parsed(text.as_bytes());
        }
    }

    #[test]
    fn a_message_that_is_too_long_has_said_what_it_is() {
        for (text, expected) in [
            ("HPUB a 5 200\r\nh: 1\nmore", Some(("a", "h: 1\n", 200))),
            ("HPUB a.b re 5 200\r\nh:", Some(("a.b", "h:", 200))),
            ("HPUB a 999999999 999999999\r\nh", Some(("a", "h", 999_999_999))),
            ("HPUB a 9999999999 200\r\nh", None),
            ("HPUB a 5 200", None),
            ("HPUB 200\r\n", None),
            ("PUB a 200\r\nh", None),
        ] {
            let found = refused_for_length(text.as_bytes());
            let expected =
                expected.map(|(subject, headers, bytes)| (subject.as_bytes(), headers.as_bytes(), bytes));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn limits_hold_before_the_bytes_have_come() {
        for text in ["PUB a 101\r\n", "PUB a 999999999\r\n", "HPUB a 1 101\r\n"] {
            assert_eq!(parsed(text.as_bytes()), Err(Wrong::Payload), "{text}");
        }
        let (blanks, name) = (
            " ".repeat(LIMITS.control_line),
            "x".repeat(LIMITS.control_line - 2),
        );
        for fits in [
            format!("SUB {name} 1\r\n"),
            format!("SUB {name} 1\n"),
            format!("SUB{blanks}{name} 1\r\n"),
        ] {
            assert!(matches!(parsed(fits.as_bytes()), Ok(Some(_))), "{fits}");
            assert!(fits.len() <= LIMITS.line());
        }
        for too_long in [
            format!("SUB x{name} 1\r\n"),
            format!("SUB x{name} 1"),
            format!("SUB {name} 1 \r\n"),
            format!("SUB{blanks} "),
            format!("SUB{blanks} a 1\r\n"),
        ] {
            assert_eq!(parsed(too_long.as_bytes()), Err(Wrong::ControlLine), "{too_long}");
        }
        assert_eq!(LIMITS.frame(), 2 * 64 + 9 + 100 + 2);
    }

    #[test]
    fn a_message_is_written_as_it_was_read() {
        for text in [
            "PUB a 2\r\nhi\r\n",
            "PUB a re 0\r\n\r\n",
            "HPUB a re 05 7\r\nh: 1\nhi\r\n",
            "HPUB a 5 5\r\nh: 1\n\r\n",
        ] {
            let Operation::Publish(publish) = operation(text) else {
                panic!("{text}");
            };
            let written = publish.written();
            let read = parse(&written, Limits::NONE).map(plainly);
            assert_eq!(read, Ok(Some((Operation::Publish(publish), written.len()))));
        }
    }
}
