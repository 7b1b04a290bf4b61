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
//!
//! Requests are read as RFC 9112 and RFC 9110 have them. What is not, or is more than a request for a page, is refused,
//! and the connection ends: 400 malformed, or with a body; 405, 501 another method, or a transfer coding that is not
//! known; 414, 431 more than 8 KiB, or more than 64 headers; 421 by another scheme than HTTP's; 505 another version
//! than HTTP/1.

#[cfg(test)]
#[path = "../../tests/common/http_requests.rs"]
mod http_requests;
mod request;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::catalogue::About;
use crate::id::ConnectionId;
use crate::protocol::bytes::answer;
use crate::protocol::line::{first_line, number};
use crate::protocol::{Io, Protocol, Session};
use request::Read;

pub(crate) const ABOUT: About = About {
    name: "http",
    summary: "HTTP/1.1: GET /NUMBER up to 16,384 is a page of that many bytes; kept open and pipelined",
};

/// The most bytes of a request, of which nothing but the first line and a few headers is of use.
const MOST_BYTES: usize = 8 * 1024;

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
        let mut as_1_1 = Vec::new();
        let read = match request::read(input) {
            Read::Later(minor) => {
                as_1_1.extend_from_slice(input);
                as_1_1[minor] = b'1';
                request::read(&as_1_1)
            }
            read => read,
        };
        let status = match read {
            Read::Part if input.len() < MOST_BYTES => return 0,
            Read::Part => match (request::blank(input), first_line(input)) {
                (0, None) => Status::UriTooLong,
                (0, Some(_)) => Status::TooLarge,
                // They are no part of the request.
                (blank, _) => return blank,
            },
            Read::Refused(status) => status,
            Read::Later(_) => Status::BadRequest,
            Read::Whole(asked, length) => {
                let request = Request {
                    path: &asked.target.path(),
                    query: Query(asked.target.query),
                    host: asked.target.host,
                    accept: asked.accept,
                };
                let page = (self.0.0)(request);
                let how = How {
                    head_only: asked.head_only,
                    is_kept: asked.is_kept,
                    says_kept: asked.is_kept && asked.is_old,
                };
                page.write(how, io);
                if !how.is_kept {
                    io.close();
                }
                return length;
            }
        };
        // What comes behind a request that was not understood is not understood either.
        let how = How {
            head_only: request::is_head(input),
            is_kept: false,
            says_kept: false,
        };
        let says = Answer::text(status.reason().as_bytes());
        says.status(status).no_store().not_sniffed().write(how, io);
        io.refuse();
        input.len()
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Up to the question mark. Of all ways to write it the one in which no character is percent-encoded that need not
    /// be (RFC 3986, section 6.2.2): `/%35` comes as `/5`.
    pub path: &'a str,
    /// What is behind it.
    pub query: Query<'a>,
    /// The host that it is for, without the port, as the client wrote it; empty if it does not say. An address of IPv6
    /// is in brackets.
    pub host: &'a str,
    /// The kinds of pages that it likes, as the first `Accept` lists them (RFC 9110, section 12.5.1); empty if it does
    /// not say.
    pub accept: &'a str,
}

/// What is behind the question mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a>(pub &'a str);

impl<'a> Query<'a> {
    /// The value of the first parameter of this name, as a form writes both: percent-encoded, with `+` for a blank.
    /// Empty if it has none.
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        let mut all = form_urlencoded::parse(self.0.as_bytes());
        all.find_map(|(key, value)| (key == name).then_some(value))
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
    /// 421: the request is for another server.
    Misdirected,
    /// 431: of the headers.
    TooLarge,
    /// 501: the method is not known, or the way in which a body is sent.
    NotImplemented,
    /// 503.
    Unavailable,
    /// 505.
    VersionNotSupported,
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
            Self::Misdirected => "421 Misdirected Request",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::NotImplemented => "501 Not Implemented",
            Self::Unavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
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
    may_be_sniffed: bool,
    body: Cow<'static, [u8]>,
}

impl Answer {
    /// A page of this kind, as `Content-Type` has it. Its status is 200, and it may be stored.
    pub fn new(kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self {
            status: Status::Ok,
            kind,
            may_be_stored: true,
            may_be_sniffed: true,
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

    /// Nobody may take it for another kind than it says (`X-Content-Type-Options: nosniff`), whatever is in it.
    #[must_use]
    pub fn not_sniffed(self) -> Self {
        Self {
            may_be_sniffed: false,
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
        if !self.may_be_sniffed {
            put(b"X-Content-Type-Options: nosniff\r\n");
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

    use super::http_requests::{requests, summary};
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
        for none in ["/0", "/16385", "/x", "/-1", "/5/", "//5", "/%2F5"] {
            assert_eq!(status(none).0, "404", "{none}");
        }
    }

    #[test]
    fn the_table_of_requests_holds_in_one_piece_and_in_many() {
        let mut wrong = Vec::new();
        for (request, expected) in requests() {
            for at_once in [request.len(), 1.max(request.len() / 512)] {
                let mut server = Rehearsal::new(Http::default());
                let client = server.connect();
                for piece in request.as_bytes().chunks(at_once) {
                    server.receive(client, piece);
                }
                let said = summary(&server.take_output(client));
                let reason = match said.rsplit(", ").next() {
                    Some(last) if !last.contains("close") => None,
                    Some(last) if last.starts_with("200") => Some(CloseReason::Finished),
                    _ => Some(CloseReason::Refused),
                };
                if said != expected || server.closed(client) != reason {
                    let start: String = request.chars().take(100).collect();
                    let closed = server.closed(client);
                    wrong.push(format!(
                        "{start:?}, {at_once} at once: {said}, not {expected}; {closed:?}"
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
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
            let unsafe_to_keep = "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
            assert!(head.contains(unsafe_to_keep), "{head}");
        }
    }

    #[test]
    fn pages_are_told_what_is_asked_for() {
        let pages = Http::new(|request| {
            let Request {
                path,
                query,
                host,
                accept,
            } = request;
            let page = format!(
                "{host} {path} {:?} {:?} {:?} {accept}.",
                query.get("subs"),
                query.get("limit"),
                query.get("id")
            );
            Answer::new("text/x", page.into_bytes())
                .status(Status::Unavailable)
                .no_store()
                .not_sniffed()
        });
        let mut server = Rehearsal::new(pages);
        let client = server.connect();
        server.receive(
            client,
            b"GET /%63onnz?%73ubs=a%20b+c&limit=&cid=7 HTTP/1.1\r\nHost: [::1]:8222\r\nACCEPT: a/b;q=0, c/*\r\nAccept: d/e\r\n\r\n\
              GET http://x:80/a%2fb%20c HTTP/1.1\r\nHost: y\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        );
        let output = String::from_utf8(server.take_output(client)).expect("text");
        assert!(
            output.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
            "{output}"
        );
        assert!(
            output.contains(
                "\r\nContent-Type: text/x\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            ),
            "{output}"
        );
        for page in [
            "[::1] /connz Some(\"a b c\") Some(\"\") None a/b;q=0, c/*.HTTP",
            "x /a%2Fb%20c None None None .HTTP",
            " / None None None .",
        ] {
            assert!(output.contains(&format!("\r\n\r\n{page}")), "{output}");
        }
    }

    proptest! {
        #[test]
        fn bytes_split_anywhere_give_the_same(
            input in "((\r?\n)*(GET|HEAD|PUT) (http://x)?/(%35|[0-9]){0,5} HTTP/1\\.[0123]\r\n(Host: x\r\n)?(Connection: (close|keep-alive)\r\n)?\r\n){0,4}\
                      [GET/1HP. :\r\n]{0,40}",
            cuts in prop::collection::vec(0usize..300, 0..8),
        ) {
            split_anywhere(Http::default, b"", input.as_bytes(), &cuts);
        }
    }
}
