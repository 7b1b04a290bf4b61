//! HTTP/1.1 for pages: a request at a time, `GET` and `HEAD` alone, bounded. Which pages there are it does not know.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde_json::Value;
use threadgauge_reactor::{ConnectionId, Io, Protocol, Session};

/// The most bytes of a request, of which nothing but the first line and a few headers is of use.
const MOST_BYTES: usize = 8 * 1024;
/// The most headers of a request.
const MOST_HEADERS: usize = 64;

/// Makes the page at a path.
type Pages = dyn Fn(&str, Query<'_>) -> Answer + Send + Sync;

/// Answers requests with pages.
pub struct Http(Arc<Pages>);

impl Http {
    /// With what makes them.
    pub fn new(pages: impl Fn(&str, Query<'_>) -> Answer + Send + Sync + 'static) -> Self {
        Self(Arc::new(pages))
    }
}

impl Protocol for Http {
    type Session = Asking;
    const MAX_FRAME: usize = MOST_BYTES;

    fn open(&self, _: ConnectionId) -> Asking {
        Asking(Arc::clone(&self.0))
    }
}

/// One who asks.
pub struct Asking(Arc<Pages>);

impl Session for Asking {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        match read(input) {
            Read::Part if input.len() < MOST_BYTES => 0,
            Read::Part => refuse(input, Status::TooLarge, io),
            Read::Wrong(status) => refuse(input, status, io),
            Read::Whole(request) => {
                let answer = (self.0)(request.path, request.query);
                answer.write(request.head_only, request.last, io.output());
                if request.last {
                    io.close();
                }
                request.length
            }
        }
    }
}

/// What comes behind a request that was not understood is not understood either.
fn refuse(input: &[u8], status: Status, io: &mut Io<'_>) -> usize {
    Answer::text(status, status.reason()).write(false, true, io.output());
    io.refuse();
    input.len()
}

/// What is at the front of the input.
enum Read<'a> {
    Part,
    Wrong(Status),
    Whole(Request<'a>),
}

struct Request<'a> {
    path: &'a str,
    query: Query<'a>,
    /// The answer is wanted without its page.
    head_only: bool,
    /// The connection is not used again.
    last: bool,
    length: usize,
}

fn read(input: &[u8]) -> Read<'_> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(input) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Read::Part,
        Err(httparse::Error::TooManyHeaders) => return Read::Wrong(Status::TooLarge),
        Err(_) => return Read::Wrong(Status::BadRequest),
    };
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Read::Wrong(Status::BadRequest);
    };
    let mut last = minor == 0;
    for header in request.headers.iter() {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("connection") {
            let mut wishes = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            last |= wishes.any(|wish| wish.eq_ignore_ascii_case(b"close"));
        }
        // A request for a page has no body; with one, it would not be clear where the next request begins.
        let has_body = header.name.eq_ignore_ascii_case("transfer-encoding")
            || header.name.eq_ignore_ascii_case("content-length") && value != b"0";
        if has_body {
            return Read::Wrong(Status::BadRequest);
        }
    }
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Read::Wrong(Status::MethodNotAllowed),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Read::Whole(Request {
        path,
        query: Query(query),
        head_only,
        last,
        length,
    })
}

/// What is behind the question mark.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a>(pub &'a str);

impl<'a> Query<'a> {
    /// The value of the first parameter of this name, as it is written; empty if it has none.
    pub fn get(self, name: &str) -> Option<&'a str> {
        self.0.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then_some(value)
        })
    }
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    TooLarge,
    Unavailable,
}

impl Status {
    fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::TooLarge => 431,
            Self::Unavailable => 503,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::BadRequest => "Bad Request",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::TooLarge => "Request Header Fields Too Large",
            Self::Unavailable => "Service Unavailable",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code(), self.reason())
    }
}

/// A page, or why there is none.
#[derive(Debug)]
pub struct Answer {
    status: Status,
    kind: &'static str,
    body: String,
}

impl Answer {
    /// Plain text.
    pub fn text(status: Status, body: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: body.to_owned(),
        }
    }

    /// A page for people.
    pub fn html(body: &str) -> Self {
        Self {
            status: Status::Ok,
            kind: "text/html; charset=utf-8",
            body: body.to_owned(),
        }
    }

    /// A page for programs.
    pub fn json(status: Status, body: &Value) -> Self {
        Self {
            status,
            kind: "application/json",
            body: format!("{body:#}"),
        }
    }

    /// Prometheus' text format.
    pub fn metrics(body: String) -> Self {
        Self {
            status: Status::Ok,
            kind: "text/plain; version=0.0.4; charset=utf-8",
            body,
        }
    }

    fn write(&self, head_only: bool, last: bool, output: &mut Vec<u8>) {
        let mut head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        if self.status == Status::MethodNotAllowed {
            head += "Allow: GET, HEAD\r\n";
        }
        if last {
            head += "Connection: close\r\n";
        }
        let _ = write!(head, "\r\n");
        output.extend_from_slice(head.as_bytes());
        if !head_only {
            output.extend_from_slice(self.body.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(input: &[u8]) -> Option<Status> {
        match read(input) {
            Read::Part => None,
            Read::Wrong(status) => Some(status),
            Read::Whole(_) => Some(Status::Ok),
        }
    }

    #[test]
    fn only_whole_requests_for_pages_are_answered() {
        for (input, expected) in [
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", Some(Status::Ok)),
            ("HEAD / HTTP/1.0\r\n\r\n", Some(Status::Ok)),
            ("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", Some(Status::Ok)),
            ("GET / HTTP/1.1\r\nHost: x\r\n", None),
            ("", None),
            ("POST / HTTP/1.1\r\n\r\n", Some(Status::MethodNotAllowed)),
            (
                "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
                Some(Status::BadRequest),
            ),
            (
                "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                Some(Status::BadRequest),
            ),
            ("GET / HTTP/2.0\r\n\r\n", Some(Status::BadRequest)),
            ("\u{1}\u{2}", Some(Status::BadRequest)),
        ] {
            assert_eq!(status(input.as_bytes()), expected, "{input:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
        assert_eq!(status(many.as_bytes()), Some(Status::TooLarge));
    }

    #[test]
    fn a_request_says_which_page_and_whether_more_come() {
        let whole = |input: &'static str| match read(input.as_bytes()) {
            Read::Whole(request) => request,
            _ => panic!("{input:?} is whole"),
        };
        let request = whole("GET /connz?subs=1&limit=&cid=7 HTTP/1.1\r\n\r\nGET");
        assert_eq!(
            (request.path, request.last, request.head_only),
            ("/connz", false, false)
        );
        assert_eq!(
            request.length,
            "GET /connz?subs=1&limit=&cid=7 HTTP/1.1\r\n\r\n".len()
        );
        assert_eq!(request.query.get("subs"), Some("1"));
        assert_eq!(request.query.get("limit"), Some(""));
        assert_eq!(request.query.get("cid"), Some("7"));
        assert_eq!(request.query.get("id"), None);
        assert!(whole("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n").last);
        assert!(whole("HEAD / HTTP/1.0\r\n\r\n").last);
    }
}
