//! HTTP/1.1, keep-alive and pipelined: one request over and over, but for the size of its body; answers are read by
//! their framing alone.
//!
//! What a body says is not looked at, and no body is kept: its length comes from `Content-Length`, from chunks or from
//! the end of the connection (RFC 9112, section 6.3).

use std::io::Write as _;

use super::{Answer, Exchange, Read, Worth};
use crate::codec::CodecError;
use crate::sizes::Sizes;

const NAME: &str = "HTTP/1.1";
/// A head beyond these is no answer of a server that means well.
const MOST_HEADERS: usize = 100;
const MOST_HEAD_BYTES: usize = 64 * 1024;
/// The size of a chunk, or a line of the trailer.
const MOST_LINE_BYTES: usize = 8 * 1024;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// In capitals.
    pub method: String,
    /// The server's name and port, for the header `Host`.
    pub host: String,
    /// From the first `/`, with its query.
    pub path: String,
    /// Further headers, each `Name: value`.
    pub headers: Vec<String>,
    /// Sent with its length, where there is any.
    pub body: Vec<u8>,
    /// In place of `body`: bodies of these sizes, of nothing but the letter x.
    pub sizes: Option<Sizes>,
    /// Whether each request has a connection of its own.
    pub close: bool,
}

impl HttpRequest {
    /// A `GET` of this path by connections that stay open.
    pub fn get(host: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            method: "GET".to_owned(),
            host: host.into(),
            path: path.into(),
            headers: Vec::new(),
            body: Vec::new(),
            sizes: None,
            close: false,
        }
    }

    /// What is wrong with it, in words: a word with a space or a line end would be another request.
    ///
    /// # Errors
    ///
    /// Those words.
    pub fn check(&self) -> Result<(), String> {
        let word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !word(&self.method) || !self.method.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Err(format!("`{}` is no method, as GET or POST are", self.method));
        }
        if !word(&self.path) || !self.path.starts_with('/') {
            return Err(format!(
                "`{}` is no path: it begins with / and has no space",
                self.path
            ));
        }
        for header in &self.headers {
            let name = header.split_once(':').map_or("", |(name, _)| name);
            let printable = header
                .bytes()
                .all(|byte| byte == b'\t' || (b' '..0x7f).contains(&byte));
            if !word(name) || !printable {
                return Err(format!("`{header}` is no header, as `Accept: text/html` is"));
            }
        }
        Ok(())
    }

    /// All of it, or what comes before the length of a body that varies.
    fn written(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing into memory cannot fail.
        let _ = write!(
            bytes,
            "{} {} HTTP/1.1\r\nHost: {}\r\n",
            self.method, self.path, self.host
        );
        for header in &self.headers {
            let _ = write!(bytes, "{header}\r\n");
        }
        if self.close {
            bytes.extend_from_slice(b"Connection: close\r\n");
        }
        if self.sizes.is_some() {
            return bytes;
        }
        if !self.body.is_empty() {
            let _ = write!(bytes, "Content-Length: {}\r\n", self.body.len());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Asks the same each time.
#[derive(Debug)]
pub struct Http {
    request: Vec<u8>,
    sizes: Option<Sizes>,
    /// Whether an answer has no body, whatever its head says.
    bodiless: bool,
    close: bool,
    /// The last head and what it said: servers repeat theirs, but for the date, which changes once a second.
    last: Option<(Vec<u8>, Head)>,
}

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body: Body,
    last: bool,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Bytes(u64),
    Chunks,
    UntilTheEnd,
}

/// Where in an answer the next byte is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(State);

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Head,
    Body {
        head: Head,
        missing: u64,
    },
    UntilTheEnd(Head),
    ChunkSize(Head),
    /// With the line end behind it.
    Chunk {
        head: Head,
        missing: u64,
    },
    Trailer(Head),
}

impl Http {
    /// This request, over and over.
    ///
    /// # Panics
    ///
    /// If it does not pass its own [`check`](HttpRequest::check).
    pub fn new(request: &HttpRequest) -> Self {
        if let Err(wrong) = request.check() {
            panic!("{wrong}");
        }
        Self {
            request: request.written(),
            sizes: request.sizes,
            bodiless: request.method == "HEAD",
            close: request.close,
            last: None,
        }
    }

    /// The head at the front of `input`, and its length.
    fn head(&mut self, input: &[u8]) -> Result<Option<(usize, Head)>, CodecError> {
        if let Some((bytes, head)) = &self.last
            && input.starts_with(bytes)
        {
            return Ok(Some((bytes.len(), *head)));
        }
        let foreign = || CodecError::foreign(NAME, input);
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(input).map_err(|_| foreign())? {
            httparse::Status::Complete(length) if length <= MOST_HEAD_BYTES => length,
            httparse::Status::Partial if input.len() <= MOST_HEAD_BYTES => return Ok(None),
            _ => return Err(foreign()),
        };
        let head = Head::of(&response, self.bodiless).ok_or_else(foreign)?;
        let (bytes, said) = self.last.get_or_insert_with(|| (Vec::new(), head));
        bytes.clear();
        bytes.extend_from_slice(&input[..length]);
        *said = head;
        Ok(Some((length, head)))
    }

    /// From the head's end on.
    fn after(head: Head) -> State {
        match head.body {
            Body::Bytes(missing) => State::Body { head, missing },
            Body::Chunks => State::ChunkSize(head),
            Body::UntilTheEnd => State::UntilTheEnd(head),
        }
    }
}

impl Head {
    /// `None` where its length cannot be told.
    fn of(response: &httparse::Response<'_, '_>, bodiless: bool) -> Option<Self> {
        let status = response.code?;
        let mut last = response.version == Some(0);
        let (mut length, mut coded) = (None, None);
        for header in response.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                let value = std::str::from_utf8(header.value).ok()?.trim();
                let value = value.bytes().all(|byte| byte.is_ascii_digit()).then_some(value)?;
                let value: u64 = value.parse().ok()?;
                // Two that differ are how answers are smuggled.
                if length.is_some_and(|before| before != value) {
                    return None;
                }
                length = Some(value);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                coded = Some(words(header.value).last()?.eq_ignore_ascii_case(b"chunked"));
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
        Some(Self {
            status,
            body,
            last: last || body == Body::UntilTheEnd,
        })
    }

    fn answer(self) -> Answer {
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

/// The words of a list with commas.
fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// The line at the front without its end, and the length with it. `Err` if there is none although there is so much.
fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, CodecError> {
    match memchr::memchr(b'\n', input) {
        Some(end) if end <= MOST_LINE_BYTES => Ok(Some((
            input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]),
            end + 1,
        ))),
        None if input.len() <= MOST_LINE_BYTES => Ok(None),
        _ => Err(CodecError::foreign(NAME, input)),
    }
}

/// The size of a chunk, and nothing that does not fit; what follows a semicolon is an extension.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

impl Exchange for Http {
    type Reading = Place;

    fn name(&self) -> &'static str {
        "http"
    }

    fn is_single(&self) -> bool {
        self.close
    }

    fn request(&mut self, connection: usize, number: u64, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.request);
        if let Some(sizes) = self.sizes {
            let bytes = sizes.of(connection, number);
            // Writing into memory cannot fail.
            let _ = write!(into, "Content-Length: {bytes}\r\n\r\n");
            into.resize(into.len() + bytes, b'x');
        }
    }

    fn read(&mut self, _: usize, _: u64, place: &mut Place, input: &[u8]) -> Result<Read, CodecError> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let whole = match place.0 {
                State::Head => {
                    let Some((length, head)) = self.head(rest)? else {
                        break;
                    };
                    used += length;
                    match head.status {
                        // It says another protocol comes, which nobody asked for.
                        101 => return Err(CodecError::foreign(NAME, input)),
                        // An answer before the answer.
                        100..200 => continue,
                        _ => place.0 = Self::after(head),
                    }
                    (head.body == Body::Bytes(0)).then_some(head)
                }
                State::Body { head, missing } => {
                    let bytes = missing.min(rest.len() as u64);
                    used += bytes as usize;
                    let missing = missing - bytes;
                    place.0 = State::Body { head, missing };
                    (missing == 0).then_some(head)
                }
                State::UntilTheEnd(_) => {
                    used = input.len();
                    None
                }
                State::ChunkSize(head) => {
                    let Some((line, length)) = line(rest)? else {
                        break;
                    };
                    used += length;
                    let size = chunk_size(line).ok_or_else(|| CodecError::foreign(NAME, rest))?;
                    place.0 = match size {
                        0 => State::Trailer(head),
                        _ => State::Chunk {
                            head,
                            missing: size + 2,
                        },
                    };
                    None
                }
                State::Chunk { head, missing } => {
                    let bytes = missing.min(rest.len() as u64);
                    used += bytes as usize;
                    place.0 = match missing - bytes {
                        0 => State::ChunkSize(head),
                        missing => State::Chunk { head, missing },
                    };
                    None
                }
                State::Trailer(head) => {
                    let Some((line, length)) = line(rest)? else {
                        break;
                    };
                    used += length;
                    line.is_empty().then_some(head)
                }
            };
            if let Some(head) = whole {
                place.0 = State::Head;
                let answer = head.answer();
                // A connection for each request has one answer, whatever the server says of it.
                let last = answer.last || self.close;
                return Ok(Read {
                    bytes: used,
                    answer: Some(Answer { last, ..answer }),
                });
            }
            if used == input.len() {
                break;
            }
        }
        Ok(Read {
            bytes: used,
            answer: None,
        })
    }

    fn ended(&mut self, place: &mut Place) -> Option<Answer> {
        match std::mem::take(place).0 {
            State::UntilTheEnd(head) => Some(head.answer()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::conformance::{answers, split_anywhere};
    use super::*;

    fn http() -> Http {
        Http::new(&HttpRequest::get("here", "/"))
    }

    fn refusal(status: u16, last: bool) -> Answer {
        Answer {
            worth: Worth::Refusal(status),
            last,
            ..Answer::GOOD
        }
    }

    #[test]
    fn answers_end_where_their_framing_says_however_they_are_cut() {
        let session = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
            HTTP/1.1 204 No Content\r\n\r\n\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length:3\r\n\r\nno\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n\
            HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n\
            HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n";
        let [good, last] = [false, true].map(|last| Answer { last, ..Answer::GOOD });
        assert_eq!(
            split_anywhere(&mut http(), session),
            [good, good, refusal(404, false), good, good, refusal(503, true)]
        );
        let until_the_end = b"HTTP/1.1 200 OK\r\n\r\nhello";
        assert_eq!(split_anywhere(&mut http(), until_the_end), [last]);
        let old = b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx\
            HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx";
        assert_eq!(split_anywhere(&mut http(), old), [last, good]);
        let mut head = Http::new(&HttpRequest {
            method: "HEAD".to_owned(),
            ..HttpRequest::get("here", "/")
        });
        let bodiless = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(split_anywhere(&mut head, &bodiless.repeat(2)), [good, good]);
    }

    #[test]
    fn an_answer_that_stops_half_way_is_none() {
        for bytes in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"[..],
            b"HTTP/1.1 200 OK\r\nContent-Len",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
        ] {
            assert_eq!(answers(&mut http(), [bytes]).unwrap(), []);
        }
    }

    #[test]
    fn what_has_no_framing_is_refused() {
        for bytes in [
            &b"+OK\r\n"[..],
            b"INFO {}\r\n",
            b"HTTP/2 200\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            let text = String::from_utf8_lossy(bytes);
            let refused = answers(&mut http(), [bytes]);
            assert!(
                matches!(refused, Err(CodecError::Foreign { .. })),
                "{text:?}: {refused:?}"
            );
        }
        let endless = [b"HTTP/1.1 200 OK\r\nX: ", &vec![b'x'; MOST_HEAD_BYTES][..]].concat();
        assert!(answers(&mut http(), [&endless[..]]).is_err());
    }

    #[test]
    fn a_head_is_known_again_only_whole() {
        let mut http = http();
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
        let longer = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nxxxxxxxxxxxx";
        let all = [&bytes[..], longer, bytes, bytes].concat();
        assert_eq!(answers(&mut http, [&all[..]]).unwrap(), [Answer::GOOD; 4]);
    }

    #[test]
    fn what_it_writes_is_a_request() {
        let request = HttpRequest {
            method: "POST".to_owned(),
            headers: vec!["Accept: */*".to_owned()],
            body: b"body".to_vec(),
            close: true,
            ..HttpRequest::get("here:80", "/a?b")
        };
        let mut said = Vec::new();
        Http::new(&request).request(0, 0, &mut said);
        let text = String::from_utf8(said).unwrap();
        assert_eq!(
            text,
            "POST /a?b HTTP/1.1\r\nHost: here:80\r\nAccept: */*\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody"
        );
    }

    #[test]
    fn bodies_of_several_sizes_have_their_length_before_them() {
        let mut http = Http::new(&HttpRequest {
            method: "POST".to_owned(),
            sizes: Some("9..12".parse().unwrap()),
            ..HttpRequest::get("here", "/")
        });
        let mut lengths = std::collections::BTreeSet::new();
        for number in 0..100 {
            let mut said = Vec::new();
            http.request(0, number, &mut said);
            let text = String::from_utf8(said).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let length = head.strip_prefix("POST / HTTP/1.1\r\nHost: here\r\nContent-Length: ");
            assert_eq!(length.unwrap(), body.len().to_string());
            lengths.insert(body.len());
        }
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [9, 10, 11, 12]);
    }

    #[test]
    fn what_would_be_another_request_is_refused() {
        let get = || HttpRequest::get("here", "/");
        let refused = |request: HttpRequest| request.check().unwrap_err();
        assert!(
            refused(HttpRequest {
                method: "get".to_owned(),
                ..get()
            })
            .contains("no method")
        );
        assert!(refused(HttpRequest::get("here", "x")).contains("no path"));
        assert!(refused(HttpRequest::get("here", "/ HTTP/1.1\r\nX: y")).contains("no path"));
        for header in ["Accept", ": x", "A: b\r\nC: d"] {
            let headers = vec![header.to_owned()];
            assert!(
                refused(HttpRequest { headers, ..get() }).contains("no header"),
                "{header:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_looks_like_http_says_the_same_however_it_is_cut(
            words in prop::collection::vec(prop::sample::select(vec![
                "HTTP/1.1 200 OK", "HTTP/1.1 404 X", "HTTP/1.0 200 OK", "HTTP/1.1 100 C", "HTTP/1.1 204 N", "\r\n", "\n",
                "\r\n\r\n", "Content-Length: 5", "content-length: 0", "Transfer-Encoding: chunked", "Connection: close",
                "5\r\nhello\r\n", "0\r\n\r\n", "hello", "A;x\r\n", "ff", ":", " ",
            ]), 0..16),
        ) {
            let bytes = words.concat();
            let whole = answers(&mut http(), [bytes.as_bytes()]);
            let single = answers(&mut http(), bytes.as_bytes().chunks(1));
            prop_assert_eq!(whole.is_ok(), single.is_ok());
            if whole.is_ok() {
                prop_assert_eq!(whole, single);
            }
        }

        #[test]
        fn any_bytes_end_in_answers_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = answers(&mut http(), [&bytes[..]]);
        }
    }
}
