//! What a request asks for, and what is wrong with it (RFC 9112 and RFC 9110), before anybody is asked for a page.
//!
//! What is malformed is judged first, and is 400 whatever the method is: the request line, the target, `Host`, and the
//! fields that say whether a body follows. Only then is looked at what this server does not do: an authority or a
//! transfer coding that it does not know, a method, a body.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;

use fluent_uri::Uri;
use fluent_uri::pct_enc::encoder::{Path, Query, RegName};
use fluent_uri::pct_enc::{DecodedChunk, EStr};

use super::Status;
use crate::protocol::line::first_line;

/// The most headers of a request.
const MOST_HEADERS: usize = 64;
/// Methods that this server knows and does not allow; others it does not know.
const NOT_ALLOWED: [&str; 7] = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];

/// What is at the front of the input.
pub(super) enum Read<'a> {
    /// Not yet a whole request.
    Part,
    /// No request for a page.
    Refused(Status),
    /// A request of a later HTTP/1, of which this is the place of the minor version's digit: it is answered as HTTP/1.1
    /// (RFC 9110, section 2.5).
    Later(usize),
    /// A request for a page, and its length.
    Whole(Asked<'a>, usize),
}

/// A request for a page.
pub(super) struct Asked<'a> {
    pub target: Target<'a>,
    /// The first `Accept`; empty if there is none.
    pub accept: &'a str,
    /// `HEAD`.
    pub head_only: bool,
    /// The connection is used again.
    pub is_kept: bool,
    /// By HTTP/1.0.
    pub is_old: bool,
}

/// What a request is for.
pub(super) struct Target<'a> {
    /// The host, without its port: in a target that names it, else in `Host`; empty where neither says.
    pub host: &'a str,
    path: &'a EStr<Path>,
    pub query: &'a str,
}

/// Reads a request, which may be behind blank lines (RFC 9112, section 2.2).
pub(super) fn read(input: &[u8]) -> Read<'_> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let length = match parsed.parse_with_uninit_headers(input, &mut headers) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Read::Part,
        Err(httparse::Error::TooManyHeaders) => return Read::Refused(Status::TooLarge),
        Err(httparse::Error::Version) => return other_version(input),
        Err(_) => return Read::Refused(Status::BadRequest),
    };
    match asked(&parsed) {
        Ok(asked) => Read::Whole(asked, length),
        Err(status) => Read::Refused(status),
    }
}

/// How many bytes of blank lines are at the front of the input.
pub(super) fn blank(input: &[u8]) -> usize {
    let mut rest = input;
    while let Some(next) = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")) {
        rest = next;
    }
    input.len() - rest.len()
}

/// Whether the method is, or would be, `HEAD`: nothing that answers it has a body.
pub(super) fn is_head(input: &[u8]) -> bool {
    input[blank(input)..].starts_with(b"HEAD ")
}

/// Of a request line without HTTP/1.0 or 1.1 at its end.
fn other_version(input: &[u8]) -> Read<'_> {
    let start = blank(input);
    let Some((line, _)) = first_line(&input[start..]) else {
        return Read::Part;
    };
    let mut words = line.split(|&byte| byte == b' ').skip(2);
    let version = words.next().and_then(|version| version.strip_prefix(b"HTTP/"));
    match (version, words.next()) {
        (Some(&[b'1', b'.', b'2'..=b'9']), None) => Read::Later(start + line.len() - 1),
        (Some(&[major, b'.', minor]), None)
            if major != b'1' && major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Read::Refused(Status::VersionNotSupported)
        }
        _ => Read::Refused(Status::BadRequest),
    }
}

fn asked<'a>(parsed: &httparse::Request<'_, 'a>) -> Result<Asked<'a>, Status> {
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(Status::BadRequest);
    };
    let is_old = minor == 0;
    let fields = Fields::read(parsed.headers).ok_or(Status::BadRequest)?;
    let host = match fields.host {
        Some(host) => host,
        // RFC 9112, section 3.2.
        None if is_old => "",
        None => return Err(Status::BadRequest),
    };
    let form = Form::read(method, target).ok_or(Status::BadRequest)?;
    let body = fields.body(is_old).ok_or(Status::BadRequest)?;
    // All is well-formed from here on.
    if matches!(form, Form::Elsewhere) {
        return Err(Status::Misdirected);
    }
    if body == Body::Unknown {
        return Err(Status::NotImplemented);
    }
    let mut target = match (method, form) {
        ("GET" | "HEAD", Form::Page(target)) => target,
        _ if NOT_ALLOWED.contains(&method) => return Err(Status::MethodNotAllowed),
        _ => return Err(Status::NotImplemented),
    };
    if target.host.is_empty() {
        target.host = host;
    }
    if body == Body::Some {
        // It means nothing for a page, and may hide a second request (RFC 9110, section 9.3.1).
        return Err(Status::BadRequest);
    }
    Ok(Asked {
        target,
        accept: fields.accept.unwrap_or_default(),
        head_only: method == "HEAD",
        is_kept: !fields.wants_close && (fields.wants_keep || !is_old),
        is_old,
    })
}

/// What the target of a request is (RFC 9112, section 3.2).
enum Form<'a> {
    /// A page here.
    Page(Target<'a>),
    /// No page: the whole server, or another to connect to.
    NoPage,
    /// Something by a scheme that is not HTTP's.
    Elsewhere,
}

impl<'a> Form<'a> {
    /// `None` where no request of this method can have such a target.
    fn read(method: &str, target: &'a str) -> Option<Self> {
        if method == "CONNECT" {
            let (host, port) = host_and_port(target)?;
            return (!host.is_empty() && !port?.is_empty()).then_some(Self::NoPage);
        }
        if target == "*" {
            return (method == "OPTIONS").then_some(Self::NoPage);
        }
        if target.starts_with('/') {
            return Some(Self::Page(Target::read("", target)?));
        }
        const SCHEME: &str = "http://";
        match target.split_at_checked(SCHEME.len()) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => {
                let end = rest.find(['/', '?']).unwrap_or(rest.len());
                let (host, _) = host_and_port(&rest[..end])?;
                (!host.is_empty()).then_some(())?;
                Some(Self::Page(Target::read(host, &rest[end..])?))
            }
            _ => {
                let other = Uri::parse(target).ok()?;
                let is_http = other.scheme().as_str().eq_ignore_ascii_case("http");
                (!other.has_fragment() && !is_http).then_some(Self::Elsewhere)
            }
        }
    }
}

impl<'a> Target<'a> {
    /// A path and a query. The path may be empty where a host stands before it.
    fn read(host: &'a str, rest: &'a str) -> Option<Self> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        EStr::<Query>::new(query)?;
        Some(Self {
            host,
            path: EStr::new(if path.is_empty() { "/" } else { path })?,
            query,
        })
    }

    /// The path with nothing percent-encoded that need not be (RFC 3986, section 6.2.2): `/%35` is `/5`, and `/%2f` is
    /// `/%2F`, which is not `//`.
    pub fn path(&self) -> Cow<'a, str> {
        if !self.path.as_str().contains('%') {
            return Cow::Borrowed(self.path.as_str());
        }
        let mut path = String::with_capacity(self.path.len());
        for chunk in self.path.decode() {
            match chunk {
                DecodedChunk::Unencoded(text) => path.push_str(text),
                DecodedChunk::PctDecoded(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                    path.push(byte.into());
                }
                DecodedChunk::PctDecoded(byte) => path.push_str(EStr::<Path>::encode_byte(byte).as_str()),
            }
        }
        Cow::Owned(path)
    }
}

/// A host, which may be empty, and the port behind it. `None` where it is neither a name nor an address, or more than
/// both: a user's name is no part of it.
fn host_and_port(text: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
        _ => (text, None),
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match address {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => EStr::<RegName>::new(host).is_some(),
    };
    is_host.then_some((host, port))
}

/// Whether a body follows a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    Some,
    /// In a coding that this server does not know.
    Unknown,
}

/// What the fields say that matter here.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a str>,
    accept: Option<&'a str>,
    wants_close: bool,
    wants_keep: bool,
    /// The digits of the length from the first that is not 0.
    length: Option<&'a [u8]>,
    codings: Option<Codings>,
}

/// The transfer codings until now.
#[derive(Clone, Copy, Default)]
struct Codings {
    /// The last of them is `chunked`.
    is_chunked: bool,
    /// Another is among them.
    has_other: bool,
}

impl<'a> Fields<'a> {
    /// `None` where one of them is malformed, or two contradict each other.
    fn read(headers: &[httparse::Header<'a>]) -> Option<Self> {
        let mut fields = Self::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("host") {
                let (host, port) = host_and_port(str::from_utf8(header.value.trim_ascii()).ok()?)?;
                if fields.host.replace(host).is_some() || host.is_empty() && port.is_some() {
                    return None;
                }
            } else if is("accept") {
                // It only says what is liked best: what cannot be read says nothing.
                fields.accept = fields.accept.or(str::from_utf8(header.value).ok());
            } else if is("connection") {
                for wish in members(header.value) {
                    fields.wants_close |= wish.eq_ignore_ascii_case(b"close");
                    fields.wants_keep |= wish.eq_ignore_ascii_case(b"keep-alive");
                }
            } else if is("content-length") {
                // One that is said again, as the same number, is one (RFC 9110, section 8.6).
                for digits in members(header.value) {
                    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                        return None;
                    }
                    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
                    let length = &digits[zeros..];
                    if fields.length.replace(length).is_some_and(|other| other != length) {
                        return None;
                    }
                }
            } else if is("transfer-encoding") {
                let codings = fields.codings.get_or_insert_default();
                for coding in members(header.value).filter(|coding| !coding.is_empty()) {
                    // Nothing follows it, itself neither (RFC 9112, section 6.1).
                    if codings.is_chunked {
                        return None;
                    }
                    codings.is_chunked = coding.eq_ignore_ascii_case(b"chunked");
                    codings.has_other |= !codings.is_chunked;
                }
            }
        }
        Some(fields)
    }

    /// RFC 9112, section 6.3; `None` where one server could find another end of the request than the next does.
    fn body(&self, is_old: bool) -> Option<Body> {
        match (self.codings, self.length) {
            (None, None | Some([])) => Some(Body::None),
            (None, Some(_)) => Some(Body::Some),
            (Some(codings), None) if codings.is_chunked && !is_old => match codings.has_other {
                true => Some(Body::Unknown),
                false => Some(Body::Some),
            },
            _ => None,
        }
    }
}

/// The members of a list.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}
