//! The head of an answer: its status, and how long the body behind it is.
//!
//! Only what framing needs is asked of it. Headers may be folded and as many as fit into a bound on all bytes; what is
//! not of the protocol is named with its line.

use httparse::{EMPTY_HEADER, Error, Header, ParserConfig, Response, Status};

use super::NAME;
use crate::codec::CodecError;
use crate::exchange::{Answer, Worth};

/// A head beyond this is no answer of a server that means well.
pub(super) const MOST_HEAD_BYTES: usize = 64 * 1024;
/// Headers that have room without memory of their own.
const USUAL_HEADERS: usize = 100;
/// Of the shortest header: a name of one letter, a colon, a line end.
const LEAST_HEADER_BYTES: usize = 3;

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) body: Body,
    last: bool,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Bytes(u64),
    Chunks,
    UntilTheEnd,
}

impl Head {
    /// The head at the front of `input`, and its length; `None` where it is not whole.
    pub(super) fn read(input: &[u8], bodiless: bool) -> Result<Option<(usize, Self)>, CodecError> {
        let of = |response: &Response<'_, '_>| Self::of(response, bodiless);
        match parse(input, of) {
            Ok(Status::Complete((length, head))) if length <= MOST_HEAD_BYTES => Ok(Some((length, head?))),
            Ok(Status::Partial) if input.len() <= MOST_HEAD_BYTES => Ok(None),
            Ok(_) => Err(CodecError::malformed("a head of over 64 KiB", input)),
            Err(_) if !input.starts_with(b"HTTP/1.") => Err(CodecError::foreign(NAME, input)),
            Err(error) => Err(CodecError::malformed(in_words(error), bad_line(input))),
        }
    }

    fn of(response: &Response<'_, '_>, bodiless: bool) -> Result<Self, CodecError> {
        let status = response.code.unwrap_or_default();
        let mut last = response.version == Some(0);
        let (mut length, mut coded) = (None, None);
        for header in response.headers.iter() {
            let wrong = |what| {
                let line = [header.name.as_bytes(), b": ", header.value].concat();
                CodecError::malformed(what, &line)
            };
            if header.name.eq_ignore_ascii_case("content-length") {
                // The same several times is one.
                for word in header.value.split(|&byte| byte == b',') {
                    let value = number(word.trim_ascii()).ok_or_else(|| wrong("a wrong length"))?;
                    // Two that differ are how answers are smuggled.
                    if length.is_some_and(|before| before != value) {
                        return Err(wrong("a second length"));
                    }
                    length = Some(value);
                }
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if let Some(word) = words(header.value).last() {
                    coded = Some(word.eq_ignore_ascii_case(b"chunked"));
                }
            } else if header.name.eq_ignore_ascii_case("connection") {
                for word in words(header.value) {
                    last |= word.eq_ignore_ascii_case(b"close");
                    last &= !word.eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
        let body = match (coded, length) {
            _ if bodiless || status < 200 || status == 204 || status == 304 => Body::Bytes(0),
            (Some(true), _) => Body::Chunks,
            (None, Some(length)) => Body::Bytes(length),
            (Some(false), _) | (None, None) => Body::UntilTheEnd,
        };
        Ok(Self {
            status,
            body,
            last: last || body == Body::UntilTheEnd,
        })
    }

    pub(super) fn answer(self) -> Answer {
        Answer {
            worth: match self.status {
                ..400 => Worth::Good,
                status => Worth::Refusal(status),
            },
            last: self.last,
            ..Answer::GOOD
        }
    }
}

/// Parses the head at the front of `input`: its length, and what `of` makes of it, where it is whole.
fn parse<T>(input: &[u8], of: impl Fn(&Response<'_, '_>) -> T) -> Result<Status<(usize, T)>, Error> {
    let mut usual = [EMPTY_HEADER; USUAL_HEADERS];
    match parse_into(input, &mut usual, &of) {
        Err(Error::TooManyHeaders) => {
            let most = input.len().min(MOST_HEAD_BYTES) / LEAST_HEADER_BYTES;
            match parse_into(input, &mut vec![EMPTY_HEADER; most], &of) {
                // They are of a head with more bytes than it may have.
                Err(Error::TooManyHeaders) => Ok(Status::Partial),
                parsed => parsed,
            }
        }
        parsed => parsed,
    }
}

fn parse_into<'b, T>(
    input: &'b [u8],
    headers: &mut [Header<'b>],
    of: impl Fn(&Response<'_, '_>) -> T,
) -> Result<Status<(usize, T)>, Error> {
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    let mut response = Response::new(headers);
    Ok(match config.parse_response(&mut response, input)? {
        Status::Complete(length) => Status::Complete((length, of(&response))),
        Status::Partial => Status::Partial,
    })
}

/// What is wrong with a head.
fn in_words(error: Error) -> &'static str {
    match error {
        Error::HeaderName => "a wrong header name",
        Error::HeaderValue => "a control character in a header",
        Error::NewLine => "a wrong line end",
        Error::Status => "a wrong status",
        Error::Version => "a wrong version",
        Error::Token | Error::TooManyHeaders => "a wrong line",
    }
}

/// From the line on with which a head becomes none.
fn bad_line(input: &[u8]) -> &[u8] {
    let ends = memchr::memchr_iter(b'\n', input).map(|at| at + 1);
    let ends: Vec<usize> = ends.chain([input.len()]).collect();
    // What is wrong with a beginning is wrong with all that is longer.
    let good = ends.partition_point(|&end| parse(&input[..end], |_| ()).is_ok());
    let start = good.checked_sub(1).map_or(0, |before| ends[before]);
    &input[start..]
}

/// Digits that fit, and nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    let is_it = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_it)?.parse().ok()
}

/// The words of a list with commas; empty ones are none.
fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    words.filter(|word| !word.is_empty())
}
