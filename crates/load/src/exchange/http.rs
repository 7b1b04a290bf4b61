//! HTTP/1.1, keep-alive and pipelined: one request over and over, but for the size of its body; answers are read by
//! their framing alone.
//!
//! What a body says is not looked at, and no body is kept: its length comes from `Content-Length`, from chunks or from
//! the end of the connection (RFC 9112, section 6.3).

mod head;
mod request;

use std::io::Write as _;

use head::{Body, Head};
pub use request::HttpRequest;

use super::{Answer, Exchange, Read};
use crate::codec::CodecError;
use crate::sizes::Sizes;

const NAME: &str = "HTTP/1.1";
/// The size of a chunk, or a line of the trailer.
const MOST_LINE_BYTES: usize = 8 * 1024;

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
    Chunk {
        head: Head,
        missing: u64,
    },
    /// The line end behind a chunk.
    ChunkEnd(Head),
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
        let Some((length, head)) = Head::read(input, self.bodiless)? else {
            return Ok(None);
        };
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

/// The line at the front without its end, and the length with it. `Err` if there is none although there is so much.
fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, CodecError> {
    match memchr::memchr(b'\n', input) {
        Some(end) if end <= MOST_LINE_BYTES => Ok(Some((
            input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]),
            end + 1,
        ))),
        None if input.len() <= MOST_LINE_BYTES => Ok(None),
        _ => Err(CodecError::malformed("a line of over 8 KiB", input)),
    }
}

/// The size of a chunk, and nothing that does not fit; what follows a semicolon is an extension.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    let digits = std::str::from_utf8(digits).ok()?;
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    // Zeros before it count for nothing; with more digits a chunk is longer than anything.
    match digits.trim_start_matches('0') {
        "" => Some(0),
        digits if digits.len() > 15 => None,
        digits => u64::from_str_radix(digits, 16).ok(),
    }
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
                        101 => {
                            let what = "another protocol that nobody asked for";
                            return Err(CodecError::malformed(what, rest));
                        }
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
                    let wrong = || CodecError::malformed("a wrong chunk size", line);
                    place.0 = match chunk_size(line).ok_or_else(wrong)? {
                        0 => State::Trailer(head),
                        missing => State::Chunk { head, missing },
                    };
                    None
                }
                State::Chunk { head, missing } => {
                    let bytes = missing.min(rest.len() as u64);
                    used += bytes as usize;
                    place.0 = match missing - bytes {
                        0 => State::ChunkEnd(head),
                        missing => State::Chunk { head, missing },
                    };
                    None
                }
                State::ChunkEnd(head) => {
                    used += match rest {
                        [b'\r', b'\n', ..] => 2,
                        [b'\n', ..] => 1,
                        [] | [b'\r'] => break,
                        _ => return Err(CodecError::malformed("a chunk longer than its size", rest)),
                    };
                    place.0 = State::ChunkSize(head);
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
    use super::head::MOST_HEAD_BYTES;
    use super::*;
    use crate::exchange::Worth;

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
    fn what_framing_does_not_need_is_accepted() {
        let many = |headers: usize| {
            let more: String = (0..headers).map(|i| format!("X-{i}: y\r\n")).collect();
            format!("HTTP/1.1 200 OK\r\n{more}Content-Length: 5\r\n\r\nhello")
        };
        let zeros = "0".repeat(40);
        for said in [
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\nX: y\r\n\r\nhello".to_owned(),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip,\r\n chunked,\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                .to_owned(),
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 05\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
            format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{zeros}5\r\nhello\r\n{zeros}\r\n\r\n"
            ),
            many(100),
        ] {
            assert_eq!(
                split_anywhere(&mut http(), said.as_bytes()),
                [Answer::GOOD],
                "{said}"
            );
        }
        let thousands = many(5_000);
        assert!(thousands.len() < MOST_HEAD_BYTES);
        assert_eq!(
            answers(&mut http(), [thousands.as_bytes()]).unwrap(),
            [Answer::GOOD]
        );
        assert_eq!(
            answers(&mut http(), thousands.as_bytes().chunks(999)).unwrap(),
            [Answer::GOOD]
        );
    }

    #[test]
    fn another_protocol_is_named() {
        for bytes in [
            &b"+OK\r\n"[..],
            b"INFO {}\r\n",
            b"HTTP/2 200\r\n\r\n",
            b"\x16\x03",
        ] {
            let text = String::from_utf8_lossy(bytes);
            let refused = answers(&mut http(), [bytes]);
            assert!(
                matches!(refused, Err(CodecError::Foreign { .. })),
                "{text:?}: {refused:?}"
            );
        }
    }

    #[test]
    fn what_is_wrong_with_an_answer_is_named_with_its_line() {
        const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunked = |more: &str| format!("{CHUNKED}{more}");
        for (said, what, line) in [
            (
                "HTTP/1.1 200 OK\r\nA: b\r\nBad Name: x\r\nContent-Length: 0\r\n\r\n".to_owned(),
                "a wrong header name",
                "Bad Name: x",
            ),
            (
                "HTTP/1.1 200 OK\r\nA: b\r\nB: \u{1}\r\nC: d\r\n\r\n".to_owned(),
                "a control character in a header",
                "B: \u{1}",
            ),
            (
                "HTTP/1.1 2x0 OK\r\nA: b\r\n\r\n".to_owned(),
                "a wrong status",
                "HTTP/1.1 2x0 OK",
            ),
            (
                "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
                "another protocol that nobody asked for",
                "HTTP/1.1 101 Switching Protocols",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n".to_owned(),
                "a second length",
                "Content-Length: 6",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n".to_owned(),
                "a wrong length",
                "Content-Length: +5",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n".to_owned(),
                "a wrong length",
                "Content-Length: 99999999999999999999",
            ),
            (chunked("x\r\n"), "a wrong chunk size", "x"),
            (
                chunked("ffffffffffffffff\r\n"),
                "a wrong chunk size",
                "ffffffffffffffff",
            ),
            (chunked("5\r\nhello!\r\n"), "a chunk longer than its size", "!"),
        ] {
            let refused = answers(&mut http(), [said.as_bytes()]);
            let named = CodecError::malformed(what, line.as_bytes());
            assert_eq!(refused, Err(named), "{said:?}");
            assert!(
                answers(&mut http(), said.as_bytes().chunks(1)).is_err(),
                "{said:?}"
            );
        }
        let endless = [b"HTTP/1.1 200 OK\r\nX: ", &vec![b'x'; MOST_HEAD_BYTES][..]].concat();
        let error = answers(&mut http(), [&endless[..]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the server's answer has a head of over 64 KiB: \"HTTP/1.1 200 OK\""
        );
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

    fn written(request: &HttpRequest) -> String {
        let mut said = Vec::new();
        Http::new(request).request(0, 0, &mut said);
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn a_header_that_is_given_replaces_ours() {
        let request = HttpRequest {
            headers: vec![
                "Accept: */*".to_owned(),
                "host: there".to_owned(),
                "CONNECTION: Close".to_owned(),
            ],
            close: true,
            ..HttpRequest::get("here:80", "/")
        };
        assert_eq!(
            written(&request),
            "GET / HTTP/1.1\r\nAccept: */*\r\nhost: there\r\nCONNECTION: Close\r\n\r\n"
        );
    }

    #[test]
    fn a_method_with_content_says_that_there_is_none() {
        for (method, says) in [("POST", true), ("PUT", true), ("GET", false), ("DELETE", false)] {
            let request = HttpRequest {
                method: method.to_owned(),
                ..HttpRequest::get("here", "/")
            };
            let length = if says { "Content-Length: 0\r\n" } else { "" };
            assert_eq!(
                written(&request),
                format!("{method} / HTTP/1.1\r\nHost: here\r\n{length}\r\n")
            );
        }
    }

    #[test]
    fn what_the_body_says_cannot_be_given() {
        for header in [
            "Content-Length: 5",
            "content-length:5",
            "Transfer-Encoding: chunked",
        ] {
            let request = HttpRequest {
                headers: vec![header.to_owned()],
                ..HttpRequest::get("here", "/")
            };
            let refused = request.check().unwrap_err();
            assert!(
                refused.contains(header) && refused.contains("--body"),
                "{refused}"
            );
        }
        let mut hosts = HttpRequest {
            headers: vec!["Host: a".to_owned()],
            ..HttpRequest::get("here", "/")
        };
        assert_eq!(hosts.check(), Ok(()));
        hosts.headers.push("HOST: b".to_owned());
        assert!(hosts.check().unwrap_err().contains("twice"));
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
                "5\r\nhello\r\n", "005\r\nhello\r\n", " folded\r\n", "0\r\n\r\n", "hello", "A;x\r\n", "ff", ":", " ",
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
