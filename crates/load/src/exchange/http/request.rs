//! A request of HTTP: what is asked for, whether it can be, and its bytes.

use std::io::Write as _;

use crate::sizes::Sizes;

/// Methods whose requests say the length of their content also where there is none (RFC 9110, section 8.6).
const WITH_CONTENT: [&str; 3] = ["POST", "PUT", "PATCH"];
/// Headers that frame a request: they follow from its body.
const FRAMING: [&str; 2] = ["Content-Length", "Transfer-Encoding"];

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// In capitals.
    pub method: String,
    /// The server's name and port, for the header `Host`.
    pub host: String,
    /// From the first `/`, with its query.
    pub path: String,
    /// Further headers, each `Name: value`. One that is sent by itself (`Host`, `Connection`) replaces that.
    pub headers: Vec<String>,
    /// Sent with its length, where there is any, or the method has content.
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
            if FRAMING.iter().any(|framing| framing.eq_ignore_ascii_case(name)) {
                return Err(format!(
                    "`{header}` cannot be given: {name} follows from the body, which --body sets"
                ));
            }
        }
        if self.given("Host").count() > 1 {
            return Err("the header Host is given twice, and a request has one".to_owned());
        }
        Ok(())
    }

    /// The headers of this name among those that are given.
    fn given(&self, name: &str) -> impl Iterator<Item = &String> {
        let is_it = move |header: &&String| {
            let given = header.split_once(':').map(|(name, _)| name);
            given.is_some_and(|given| given.eq_ignore_ascii_case(name))
        };
        self.headers.iter().filter(is_it)
    }

    /// All of it, or what comes before the length of a body that varies.
    pub(super) fn written(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing into memory cannot fail.
        let _ = write!(bytes, "{} {} HTTP/1.1\r\n", self.method, self.path);
        if self.given("Host").next().is_none() {
            let _ = write!(bytes, "Host: {}\r\n", self.host);
        }
        for header in &self.headers {
            let _ = write!(bytes, "{header}\r\n");
        }
        if self.close && self.given("Connection").next().is_none() {
            bytes.extend_from_slice(b"Connection: close\r\n");
        }
        if self.sizes.is_some() {
            return bytes;
        }
        if !self.body.is_empty() || WITH_CONTENT.contains(&self.method.as_str()) {
            let _ = write!(bytes, "Content-Length: {}\r\n", self.body.len());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
