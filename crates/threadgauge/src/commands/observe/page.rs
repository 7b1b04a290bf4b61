//! A counter on a Prometheus page: where it is, reading the page, and finding the counter in it.
//!
//! One plain HTTP request a look. Of the text format that counters are shown in, what names a series and its value is
//! understood (<https://prometheus.io/docs/instrumenting/exposition_formats/>); the rest is skipped.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::commands::load::target::Target;

/// How long a page may take. Looks wait for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// A page is no longer than this.
const MOST_BYTES: usize = 32 << 20;
/// Lines of the head of an answer.
const MOST_HEADERS: usize = 64;

/// Names with their values.
type Labels = Vec<(String, String)>;

/// Where a counter is: `http://HOST:PORT/PATH#METRIC`, with labels where only some of its series count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterAt {
    /// The page.
    pub url: String,
    /// The name of the metric.
    pub metric: String,
    /// Labels that a series must have to count.
    pub labels: Labels,
}

impl FromStr for CounterAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` names no counter: it is the URL of a page, # and the name of a metric there, as in \
                 http://localhost:9090/metrics#http_requests_total"
            )
        };
        let (url, series) = text.split_once('#').ok_or_else(wrong)?;
        if url.is_empty() {
            return Err(wrong());
        }
        let (metric, labels, rest) = named(series.trim()).ok_or_else(wrong)?;
        if !rest.trim().is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            url: url.to_owned(),
            metric: metric.to_owned(),
            labels,
        })
    }
}

impl fmt::Display for CounterAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.url, self.metric)?;
        for (i, (name, value)) in self.labels.iter().enumerate() {
            let before = if i == 0 { "{" } else { "," };
            write!(f, "{before}{name}={value:?}")?;
        }
        match self.labels.is_empty() {
            true => Ok(()),
            false => write!(f, "}}"),
        }
    }
}

impl CounterAt {
    /// The sum of its series on a page of this text; `None` where there are none.
    fn on(&self, page: &str) -> Option<f64> {
        let values = page.lines().filter_map(|line| {
            let (metric, labels, rest) = named(line.trim())?;
            let counts = metric == self.metric && self.labels.iter().all(|label| labels.contains(label));
            let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
            (counts && value.is_finite()).then_some(value)
        });
        values.reduce(|sum, value| sum + value)
    }
}

/// The name at the begin of a line, its labels, and what follows; `None` of a comment or what is no series.
fn named(line: &str) -> Option<(&str, Labels, &str)> {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c: char| !is_of_a_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Vec::new(), rest),
    };
    Some((name, labels, rest))
}

/// The labels up to the brace that closes them, and what follows.
fn labels(mut text: &str) -> Option<(Labels, &str)> {
    let mut all = Vec::new();
    loop {
        text = text.trim_start_matches([' ', '\t', ',']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((all, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = quoted(rest.trim_start().strip_prefix('"')?)?;
        all.push((name.trim().to_owned(), value));
        text = rest;
    }
}

/// A value up to the quotation mark that ends it, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// A counter on a page that is read again and again.
#[derive(Debug)]
pub struct Page {
    at: CounterAt,
    target: Target,
}

impl Page {
    /// Finds out where the page is. May ask the system's name service.
    ///
    /// # Errors
    ///
    /// If the URL is none, or its host is not known.
    pub fn new(at: &CounterAt) -> Result<Self> {
        // A page is read, and nothing is loaded by that: whoever has it may be anywhere.
        let target = Target::read(&at.url, true).with_context(|| format!("--counter {at}"))?;
        Ok(Self {
            at: at.clone(),
            target,
        })
    }

    /// What the counter says now. Blocks for two seconds at most; where its host has several addresses, until one of
    /// them has answered, for three at each.
    ///
    /// # Errors
    ///
    /// If there is no such page, or no such counter on it.
    pub fn read(&self) -> Result<f64> {
        let page = self
            .get()
            .with_context(|| format!("{} cannot be read", self.at.url))?;
        let value = self.at.on(&page);
        value.with_context(|| {
            let Self { at, .. } = self;
            match at.labels.is_empty() {
                true => format!("there is no metric {} on {}", at.metric, at.url),
                false => format!("there is no metric {} with these labels on {}", at.metric, at.url),
            }
        })
    }

    fn get(&self) -> Result<String> {
        // `localhost` has two addresses, and a server is often at one of them alone.
        self.target.reach()?;
        let deadline = Instant::now() + PATIENCE;
        let mut stream = TcpStream::connect_timeout(&self.target.address(), PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // Version 1.0: its answers come whole, with their end at the end of the connection.
        let request = format!(
            "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: threadgauge\r\nAccept: text/plain\r\nConnection: close\r\n\r\n",
            self.target.path, self.target.host
        );
        stream.write_all(request.as_bytes())?;
        let mut bytes = Vec::new();
        let mut part = vec![0; 64 << 10];
        loop {
            if let Some(page) = answered(&bytes, false)? {
                return Ok(page);
            }
            ensure!(bytes.len() <= MOST_BYTES, "it is longer than {MOST_BYTES} bytes");
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "it did not come within {} s", PATIENCE.as_secs());
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut part) {
                Ok(0) => break,
                Ok(length) => bytes.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error.into()),
            }
        }
        answered(&bytes, true)?.context("the connection ended before the answer did")
    }
}

/// The body of an answer, once it is whole: it has its length or, where it says none, the connection has ended.
fn answered(bytes: &[u8], has_ended: bool) -> Result<Option<String>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(begin) = head.parse(bytes).context("it is no answer of HTTP")? else {
        return Ok(None);
    };
    let code = head.code.unwrap_or(0);
    if code != 200 {
        bail!("the answer has status {code}");
    }
    let value = |name: &str| {
        let header = head
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name));
        header.map(|header| String::from_utf8_lossy(header.value).trim().to_owned())
    };
    for coding in ["transfer-encoding", "content-encoding"] {
        if let Some(coded) = value(coding).filter(|coded| coded != "identity") {
            bail!("the answer is coded ({coding}: {coded}), though that was not asked for");
        }
    }
    let length = value("content-length").and_then(|length| length.parse::<usize>().ok());
    let body = &bytes[begin..];
    let is_whole = length.map_or(has_ended, |length| body.len() >= length);
    let body = &body[..length.unwrap_or(body.len()).min(body.len())];
    Ok(is_whole.then(|| String::from_utf8_lossy(body).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = "\
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000
http_requests_total{method=\"post\",code=\"400\"}    3 1395066363000
http_requests_total_other 99
msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot find file:\\n\\\"FILE.TXT\\\"\"} 1.458255915e9
plain 12.47
bad NaN
worse{a=\"open 5
";

    fn at(text: &str) -> CounterAt {
        text.parse().unwrap()
    }

    #[test]
    fn the_series_of_a_metric_are_added_up_or_those_with_these_labels() {
        let of = |series: &str| at(&format!("http://h/metrics#{series}")).on(PAGE);
        assert_eq!(of("http_requests_total"), Some(1030.0));
        assert_eq!(of("http_requests_total{code=\"200\"}"), Some(1027.0));
        assert_eq!(of("http_requests_total{code=\"200\",method=\"get\"}"), None);
        assert_eq!(of("plain"), Some(12.47));
        assert_eq!(of("msdos_file_access_time_seconds"), Some(1.458_255_915e9));
        let path = "msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\"}";
        assert_eq!(of(path), Some(1.458_255_915e9));
        for none in ["bad", "worse", "http_requests", "HELP"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn where_a_counter_is_reads_back_and_what_names_none_is_refused() {
        for text in ["http://h:9090/metrics#a_total", "http://h/m#a{b=\"c\",d=\"e\"}"] {
            assert_eq!(at(text).to_string(), text);
        }
        for none in [
            "",
            "http://h/metrics",
            "http://h/metrics#",
            "#a",
            "http://h/m#a{b=c}",
            "http://h/m#a b",
        ] {
            assert!(none.parse::<CounterAt>().is_err(), "{none:?}");
        }
    }

    #[test]
    fn an_answer_is_whole_by_its_length_or_by_its_end() {
        let with = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(answered(with.as_bytes(), false).unwrap().as_deref(), Some("abc"));
        assert_eq!(answered(&with.as_bytes()[..with.len() - 1], true).unwrap(), None);
        let without = "HTTP/1.1 200 OK\r\n\r\nabc";
        assert_eq!(answered(without.as_bytes(), false).unwrap(), None);
        assert_eq!(
            answered(without.as_bytes(), true).unwrap().as_deref(),
            Some("abc")
        );
        assert_eq!(answered(b"HTTP/1.1 200", true).unwrap(), None);
        for (bad, says) in [
            ("HTTP/1.1 404 Not Found\r\n\r\n", "status 404"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "chunked"),
            ("SSH-2.0-OpenSSH\r\n", "no answer of HTTP"),
        ] {
            let error = answered(bad.as_bytes(), true).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_page_is_read_and_one_that_is_none_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let serves = thread::spawn(move || {
            for _ in 0..2 {
                let (mut client, _) = listener.accept().unwrap();
                let mut asked = [0; 1024];
                let length = client.read(&mut asked).unwrap();
                assert!(asked[..length].starts_with(b"GET /metrics HTTP/1.0\r\n"));
                let answer = format!("HTTP/1.0 200 OK\r\n\r\n{PAGE}");
                client.write_all(answer.as_bytes()).unwrap();
            }
        });
        let read = |metric: &str| Page::new(&at(&format!("{url}#{metric}"))).unwrap().read();
        assert_eq!(read("plain").unwrap(), 12.47);
        let error = read("nothing").unwrap_err().to_string();
        assert!(
            error.starts_with("there is no metric nothing on http://"),
            "{error}"
        );
        serves.join().unwrap();
        let error = format!("{:#}", read("plain").unwrap_err());
        assert!(error.contains("/metrics cannot be read: "), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[a-z0-9_{}=,\"\\\\ #\n\\PC]{0,80}") {
            let _ = text.parse::<CounterAt>();
            let _ = at("http://h/m#a").on(&text);
            let _ = answered(text.as_bytes(), true);
        }

        #[test]
        fn what_is_written_is_read(value in "[ -~]{0,12}", number in 0_u32..1_000_000) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            let page = format!("a{{x=\"{escaped}\",y=\"1\"}} {number}\n");
            let counter = CounterAt {
                url: String::new(),
                metric: "a".to_owned(),
                labels: vec![("x".to_owned(), value)],
            };
            prop_assert_eq!(counter.on(&page), Some(f64::from(number)));
        }
    }
}
