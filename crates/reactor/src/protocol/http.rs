//! HTTP/1.1 for pages: `GET` and `HEAD`, kept open and pipelined. Which pages there are it is told.
//!
//! ```
//! use threadgauge_reactor::protocol::http::{Answer, Http, Status};
//! use threadgauge_reactor::testing::Rehearsal;
//!
//! let hello = Http::new(|request| match request.path {
//!     "/hello" => Answer::text(b"Hello.\n"),
//!     _ => Answer::text(b"There is /hello alone.\n").status(Status::NotFound),
//! });
//! let mut server = Rehearsal::new(hello);
//! let client = server.connect();
//! server.receive(client, b"GET /hello HTTP/1.1\r\nHost: here\r\n\r\n");
//! assert!(server.take_output(client).starts_with(b"HTTP/1.1 200 OK\r\n"));
//! ```
//!
//! By default there is a page for each number, as the protocol [`bytes`](super::bytes) has answers: `/NUMBER` has that
//! many bytes, up to 16,384.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::catalogue::About;
use crate::id::ConnectionId;
use crate::protocol::bytes::answer;
use crate::protocol::line::{first_line, number};
use crate::protocol::{Io, Protocol, Session};

pub(crate) const ABOUT: About = About {
    name: "http",
    summary: "HTTP/1.1: GET /NUMBER up to 16,384 is a page of that many bytes; kept open and pipelined",
};

/// The most bytes of a request, of which nothing but the first line and a few headers is of use.
const MOST_BYTES: usize = 8 * 1024;
/// The most headers of a request.
const MOST_HEADERS: usize = 64;

/// Makes the page at a path.
type Pages = dyn Fn(Request<'_>) -> Answer + Send + Sync;

/// Answers requests with pages.
#[derive(Clone)]
pub struct Http(Arc<Pages>);

impl Http {
    /// With what makes them. It is called on the threads of the design and may not block.
    pub fn new(pages: impl Fn(Request<'_>) -> Answer + Send + Sync + 'static) -> Self {
        Self(Arc::new(pages))
    }
}

/// `/NUMBER` is a page of that many bytes.
impl Default for Http {
    fn default() -> Self {
        Self::new(|request| {
            let digits = request.path.strip_prefix('/');
            let page = digits.and_then(|digits| answer(number(digits.as_bytes())?));
            match page {
                Some(page) => Answer::text(page),
                None if digits == Some("") => Answer::text(ABOUT_PAGES),
                None => Answer::text(ABOUT_PAGES).status(Status::NotFound),
            }
        })
    }
}

const ABOUT_PAGES: &[u8] = b"/NUMBER is a page of that many bytes, from 1 to 16384.\n";

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

impl Protocol for Http {
    type Session = HttpSession;
    const MAX_FRAME: usize = MOST_BYTES;

    fn open(&self, _: ConnectionId) -> HttpSession {
        HttpSession(self.clone())
    }
}

/// One client's side of it.
#[derive(Debug)]
pub struct HttpSession(Http);

impl Session for HttpSession {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        let refused = match read(input) {
            Read::Part if input.len() < MOST_BYTES => return 0,
            Read::Part if has_a_line(input) => Refused::of(Status::TooLarge),
            Read::Part => Refused::of(Status::UriTooLong),
            Read::Refused(refused) => refused,
            Read::Whole(request, how, length) => {
                (self.0.0)(request).write(how, io);
                if !how.is_kept {
                    io.close();
                }
                return length;
            }
        };
        // What comes behind a request that was not understood is not understood either.
        let Refused { status, how } = refused;
        let says = Answer::text(status.reason().as_bytes());
        says.status(status).no_store().write(how, io);
        io.refuse();
        input.len()
    }
}

/// Whether the first line is whole.
fn has_a_line(input: &[u8]) -> bool {
    first_line(input.trim_ascii_start()).is_some()
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// As it is written, up to the question mark.
    pub path: &'a str,
    /// What is behind it.
    pub query: Query<'a>,
}

/// What is behind the question mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What is at the front of the input.
enum Read<'a> {
    Part,
    Refused(Refused),
    /// With its length.
    Whole(Request<'a>, How, usize),
}

struct Refused {
    status: Status,
    how: How,
}

impl Refused {
    const fn of(status: Status) -> Self {
        Self {
            status,
            how: How::LAST,
        }
    }
}

/// How an answer is written.
#[derive(Clone, Copy)]
struct How {
    /// Without its page.
    head_only: bool,
    /// The connection is used again.
    is_kept: bool,
    /// It must say that it is: HTTP/1.0 closes by itself.
    says_kept: bool,
}

impl How {
    const LAST: Self = Self {
        head_only: false,
        is_kept: false,
        says_kept: false,
    };
}

/// Methods that this server knows and does not allow; others it does not know.
const NOT_ALLOWED: [&str; 7] = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];

fn read(input: &[u8]) -> Read<'_> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let length = match parsed.parse_with_uninit_headers(input, &mut headers) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Read::Part,
        Err(httparse::Error::TooManyHeaders) => return Read::Refused(Refused::of(Status::TooLarge)),
        Err(_) => return Read::Refused(Refused::of(Status::BadRequest)),
    };
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Read::Refused(Refused::of(Status::BadRequest));
    };
    let head_only = method == "HEAD";
    let refused = |status| {
        let how = How {
            head_only,
            ..How::LAST
        };
        Read::Refused(Refused { status, how })
    };
    if NOT_ALLOWED.contains(&method) {
        return refused(Status::MethodNotAllowed);
    }
    if method != "GET" && !head_only {
        return refused(Status::NotImplemented);
    }
    let is_old = minor == 0;
    let (mut hosts, mut wants_close, mut wants_keep) = (0, false, false);
    for header in parsed.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let value = header.value.trim_ascii();
        if is("host") {
            hosts += 1;
        } else if is("connection") {
            for wish in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                wants_close |= wish.eq_ignore_ascii_case(b"close");
                wants_keep |= wish.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if is("transfer-encoding") || is("content-length") && value != b"0" {
            // A request for a page has no body; with one, it would not be clear where the next request begins.
            return refused(Status::BadRequest);
        }
    }
    // RFC 9112, section 3.2.
    if hosts > 1 || hosts == 0 && !is_old {
        return refused(Status::BadRequest);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = Request {
        path: without_host(path),
        query: Query(query),
    };
    let is_kept = !wants_close && (wants_keep || !is_old);
    let how = How {
        head_only,
        is_kept,
        says_kept: is_kept && is_old,
    };
    Read::Whole(request, how, length)
}

/// The path of a target that names the server, too, as a request to a proxy does (RFC 9112, section 3.2.2).
fn without_host(target: &str) -> &str {
    const SCHEME: &str = "http://";
    match target.get(..SCHEME.len()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(SCHEME) => {
            let rest = &target[SCHEME.len()..];
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    }
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 200.
    Ok,
    /// 400.
    BadRequest,
    /// 404.
    NotFound,
    /// 405.
    MethodNotAllowed,
    /// 414.
    UriTooLong,
    /// 431: of the headers.
    TooLarge,
    /// 501: the method is not known.
    NotImplemented,
    /// 503.
    Unavailable,
}

impl Status {
    /// With its code.
    const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::UriTooLong => "414 URI Too Long",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::NotImplemented => "501 Not Implemented",
            Self::Unavailable => "503 Service Unavailable",
        }
    }

    fn reason(self) -> &'static str {
        &self.line()[4..]
    }
}

/// A page, or why there is none.
#[derive(Debug)]
pub struct Answer {
    status: Status,
    kind: &'static str,
    may_be_stored: bool,
    body: Cow<'static, [u8]>,
}

impl Answer {
    /// A page of this kind, as `Content-Type` has it. Its status is 200, and it may be stored.
    pub fn new(kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self {
            status: Status::Ok,
            kind,
            may_be_stored: true,
            body: body.into(),
        }
    }

    /// Plain text.
    pub fn text(body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self::new("text/plain; charset=utf-8", body)
    }

    /// Sets the status.
    #[must_use]
    pub fn status(self, status: Status) -> Self {
        Self { status, ..self }
    }

    /// Nobody may store it (`Cache-Control: no-store`): it is another one each time.
    #[must_use]
    pub fn no_store(self) -> Self {
        Self {
            may_be_stored: false,
            ..self
        }
    }

    fn write(&self, how: How, io: &mut Io<'_>) {
        let date = date(io.time_of_day());
        let output = io.output();
        let mut put = |bytes: &[u8]| output.extend_from_slice(bytes);
        put(b"HTTP/1.1 ");
        put(self.status.line().as_bytes());
        put(b"\r\nDate: ");
        put(&date);
        put(b"\r\nContent-Type: ");
        put(self.kind.as_bytes());
        put(b"\r\n");
        if !self.may_be_stored {
            put(b"Cache-Control: no-store\r\n");
        }
        if self.status == Status::MethodNotAllowed {
            put(b"Allow: GET, HEAD\r\n");
        }
        match (how.is_kept, how.says_kept) {
            (true, false) => {}
            (true, true) => put(b"Connection: keep-alive\r\n"),
            (false, _) => put(b"Connection: close\r\n"),
        }
        // Writing into memory cannot fail.
        let _ = write!(output, "Content-Length: {}\r\n\r\n", self.body.len());
        if !how.head_only {
            output.extend_from_slice(&self.body);
        }
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
type Date = [u8; 29];

/// The date as HTTP writes it. It is the same for a second, in which a thread writes it once.
fn date(day: SystemTime) -> Date {
    thread_local! {
        static LAST: Cell<(u64, Date)> = const { Cell::new((u64::MAX, [0; 29])) };
    }
    let second = day.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (of, date) = LAST.get();
    if of == second {
        return date;
    }
    let mut date = [b' '; 29];
    // It has exactly so many bytes.
    let _ = write!(
        &mut date[..],
        "{}",
        httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(second))
    );
    LAST.set((second, date));
    date
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::CloseReason;
    use crate::testing::{Rehearsal, split_anywhere};

    /// All that is answered to `input`, and why the connection is closed, if it is.
    fn answered(input: &str) -> (String, Option<CloseReason>) {
        let mut server = Rehearsal::new(Http::default());
        let client = server.connect();
        server.receive(client, input.as_bytes());
        let output = String::from_utf8(server.take_output(client)).expect("text");
        (output, server.closed(client))
    }

    #[test]
    fn a_page_has_the_headers_that_it_needs() {
        let (output, closed) = answered("GET /5 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(
            output,
            "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: 5\r\n\r\nabcde"
        );
        assert_eq!(closed, None);
    }

    #[test]
    fn the_date_is_of_the_second() {
        let of = |seconds: u64| date(UNIX_EPOCH + Duration::from_millis(1_000 * seconds + 999));
        assert_eq!(&of(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&of(784_111_778), b"Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(
            &date(UNIX_EPOCH - Duration::from_secs(1)),
            b"Thu, 01 Jan 1970 00:00:00 GMT"
        );
    }

    #[test]
    fn there_is_a_page_for_each_number_up_to_the_most() {
        let status = |path: &str| {
            let (output, _) = answered(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
            let (head, body) = output.split_once("\r\n\r\n").expect("a head");
            (head[9..12].to_owned(), body.len())
        };
        assert_eq!(status("/1"), ("200".to_owned(), 1));
        assert_eq!(status("/16384?x=y"), ("200".to_owned(), 16_384));
        assert_eq!(status("/").0, "200");
        for none in ["/0", "/16385", "/x", "/-1", "/5/", "5", "*"] {
            assert_eq!(status(none).0, "404", "{none}");
        }
    }

    /// What is answered to one request that is alone or the first, by its status; and whether more are listened to.
    #[test]
    fn only_whole_requests_for_pages_are_answered() {
        let (finished, refused) = (Some(CloseReason::Finished), Some(CloseReason::Refused));
        let many = format!("GET /1 HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
        let path = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "1".repeat(MOST_BYTES));
        let long = format!("GET /1 HTTP/1.1\r\nHost: {}\r\n\r\n", "x".repeat(MOST_BYTES));
        for (input, status, closed) in [
            ("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n", "200", None),
            (
                "GET /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
                "200",
                None,
            ),
            ("GET /1 HTTP/1.0\r\n\r\n", "200", finished),
            ("GET /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "200", None),
            ("GET http://x/1?y HTTP/1.1\r\nHost: x\r\n\r\n", "200", None),
            ("GET HTTP://x HTTP/1.1\r\nHost: x\r\n\r\n", "200", None),
            (
                "GET /1 HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n",
                "200",
                finished,
            ),
            ("BREW /1 HTTP/1.1\r\nHost: x\r\n\r\n", "501", refused),
            (
                "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
                "405",
                refused,
            ),
            (&path, "414", refused),
            (
                "GET /1 HTTP/1.1\r\nHost: x\r\nConnection: x, Close\r\n\r\n",
                "200",
                finished,
            ),
            ("GET /1 HTTP/1.1\r\nHost: x\r\n", "", None),
            ("GET /1 HTTP/1.1\r\n\r\n", "400", refused),
            ("GET /1 HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400", refused),
            ("POST /1 HTTP/1.1\r\nHost: x\r\n\r\n", "405", refused),
            (
                "GET /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
                "400",
                refused,
            ),
            (
                "GET /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                "400",
                refused,
            ),
            ("GET /1 HTTP/2.0\r\n\r\n", "400", refused),
            ("\u{1}\u{2}", "400", refused),
            (&many, "431", refused),
            (&long, "431", refused),
        ] {
            let (output, reason) = answered(input);
            assert_eq!(output.get(9..12).unwrap_or_default(), status, "{input:?}");
            assert_eq!(reason, closed, "{input:?}");
            let says_so = output.contains("Connection: close\r\n");
            assert_eq!(says_so, closed.is_some(), "{input:?}: {output:?}");
        }
    }

    #[test]
    fn the_head_alone_says_how_long_the_page_is() {
        let (output, _) =
            answered("HEAD /77 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let (head, next) = output.split_once("\r\n\r\n").expect("a head");
        assert!(head.ends_with("Content-Length: 77"), "{head}");
        assert!(next.starts_with("HTTP/1.1 200 OK\r\n"), "{next}");
        assert!(
            next.contains("\r\nConnection: keep-alive\r\n") && next.ends_with("\r\n\r\nab"),
            "{next}"
        );
    }

    #[test]
    fn a_refusal_has_a_reason_but_for_a_head_and_nobody_stores_it() {
        for (method, says) in [("GET", "Bad Request"), ("HEAD", "")] {
            let (output, _) = answered(&format!("{method} /1 HTTP/1.1\r\n\r\n"));
            let (head, body) = output.split_once("\r\n\r\n").expect("a head");
            assert_eq!(body, says, "{method}");
            assert!(head.contains("\r\nCache-Control: no-store\r\n"), "{head}");
        }
    }

    #[test]
    fn pages_are_told_what_is_asked_for() {
        let pages = Http::new(|Request { path, query }| {
            let page = format!(
                "{path} {:?} {:?} {:?}",
                query.get("subs"),
                query.get("limit"),
                query.get("id")
            );
            Answer::new("text/x", page.into_bytes())
                .status(Status::Unavailable)
                .no_store()
        });
        let mut server = Rehearsal::new(pages);
        let client = server.connect();
        server.receive(
            client,
            b"GET /connz?subs=1&limit=&cid=7 HTTP/1.1\r\nHost: x\r\n\r\n",
        );
        let output = String::from_utf8(server.take_output(client)).expect("text");
        assert!(
            output.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
            "{output}"
        );
        assert!(
            output.contains("\r\nContent-Type: text/x\r\nCache-Control: no-store\r\n"),
            "{output}"
        );
        assert!(
            output.ends_with("\r\n\r\n/connz Some(\"1\") Some(\"\") None"),
            "{output}"
        );
    }

    proptest! {
        #[test]
        fn bytes_split_anywhere_give_the_same(
            input in "((GET|HEAD|PUT) /[0-9]{0,5} HTTP/1\\.[01]\r\n(Host: x\r\n)?(Connection: (close|keep-alive)\r\n)?\r\n){0,4}\
                      [GET/1HP. :\r\n]{0,40}",
            cuts in prop::collection::vec(0usize..300, 0..8),
        ) {
            split_anywhere(Http::default, b"", input.as_bytes(), &cuts);
        }
    }
}
