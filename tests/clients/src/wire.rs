//! The protocol by hand: what no client library would send, and exactly what comes back.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};

use crate::server::Server;

/// A connection that says what it is told to.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    /// What came and was not asked for yet.
    ahead: Vec<u8>,
}

impl Wire {
    /// Connected, greeted, and with a `CONNECT` of these options answered by a `PONG`.
    pub fn open(server: &Server, options: &str) -> Result<Self> {
        let mut wire = Self::greeted(server)?;
        wire.send(format!("CONNECT {options}\r\n").as_bytes())?;
        wire.settle()?;
        Ok(wire)
    }

    /// Connected, and no more.
    pub fn connected(server: &Server) -> Result<Self> {
        Ok(Self {
            stream: server.connect()?,
            ahead: Vec::new(),
        })
    }

    /// Connected, and with the greeting read.
    pub fn greeted(server: &Server) -> Result<Self> {
        let mut wire = Self::connected(server)?;
        let info = wire.until(b"\r\n")?;
        ensure!(
            info.starts_with(b"INFO {"),
            "the greeting is {:?}",
            String::from_utf8_lossy(&info)
        );
        Ok(wire)
    }

    /// The socket.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends, whatever it is.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("the server takes no more")
    }

    /// Sends a `PING` and gives back what comes before its `PONG`, but for what a server may ask at any time.
    pub fn settle(&mut self) -> Result<Vec<u8>> {
        self.send(b"PING\r\n")?;
        let mut came = self.until(b"PONG\r\n")?;
        came.truncate(came.len() - b"PONG\r\n".len());
        Ok(without_pings(&came))
    }

    /// What comes up to these bytes and with them.
    pub fn until(&mut self, end: &[u8]) -> Result<Vec<u8>> {
        loop {
            let found = self.ahead.windows(end.len()).position(|window| window == end);
            if let Some(start) = found {
                let rest = self.ahead.split_off(start + end.len());
                return Ok(std::mem::replace(&mut self.ahead, rest));
            }
            ensure!(
                self.read_more()? > 0,
                "closed after {:?}",
                String::from_utf8_lossy(&self.ahead)
            );
        }
    }

    /// What comes up to a frame like this, without it; and whether the server closed instead.
    pub fn frames_until(&mut self, is_last: impl Fn(&Frame) -> bool) -> Result<(Vec<Frame>, bool)> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next_frame()? {
            if is_last(&frame) {
                return Ok((frames, false));
            }
            frames.push(frame);
        }
        Ok((frames, true))
    }

    /// What comes next, none if the server has closed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some((frame, length)) = Frame::first(&self.ahead)? {
                self.ahead.drain(..length);
                return Ok(Some(frame));
            }
            if self.read_more()? == 0 {
                ensure!(self.ahead.is_empty(), "a frame is broken off: {:?}", self.ahead);
                return Ok(None);
            }
        }
    }

    /// The next line with its end, or what there is of it; none if the server has closed.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        while !self.ahead.contains(&b'\n') {
            if self.read_more()? == 0 {
                let rest = std::mem::take(&mut self.ahead);
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            }
        }
        let end = self.ahead.iter().position(|&byte| byte == b'\n');
        let rest = self.ahead.split_off(end.map_or(0, |end| end + 1));
        Ok(Some(std::mem::replace(&mut self.ahead, rest)))
    }

    /// What comes until the server closes.
    pub fn rest(&mut self) -> Result<Vec<u8>> {
        while self.read_more()? > 0 {}
        Ok(std::mem::take(&mut self.ahead))
    }

    /// A reset is an end too: the server has closed with some of our bytes unread.
    fn read_more(&mut self) -> Result<usize> {
        let mut buffer = [0; 64 << 10];
        let count = loop {
            match self.stream.read(&mut buffer) {
                Ok(count) => break count,
                // A child of this program has ended.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break 0,
                Err(error) => return Err(error).context("nothing comes from the server"),
            }
        };
        self.ahead.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

/// Whether the client is still there, `nats-server` asks after some seconds, and then now and again.
pub fn without_pings(came: &[u8]) -> Vec<u8> {
    let lines = came.split_inclusive(|&byte| byte == b'\n');
    lines
        .filter(|line| *line != b"PING\r\n")
        .flatten()
        .copied()
        .collect()
}

/// One thing that a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A `MSG` or `HMSG`: for which subscription, and all of it but that, as text.
    Message { sid: String, text: String },
    /// Any other line.
    Other(String),
}

impl Frame {
    /// Whether it is this line.
    pub fn is(&self, line: &str) -> bool {
        matches!(self, Self::Other(own) if own == line)
    }

    /// The first of these bytes, and its length, if it is there as a whole.
    fn first(bytes: &[u8]) -> Result<Option<(Self, usize)>> {
        let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") else {
            return Ok(None);
        };
        let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let words: Vec<&str> = line.split(' ').collect();
        let [kind @ ("MSG" | "HMSG"), subject, sid, rest @ ..] = &words[..] else {
            return Ok(Some((Self::Other(line.trim_end().to_owned()), end + 2)));
        };
        let size: usize = rest
            .last()
            .context("a size")?
            .parse()
            .context("a size is a number")?;
        let length = end + 2 + size + 2;
        let Some(body) = bytes.get(end + 2..length) else {
            return Ok(None);
        };
        ensure!(
            body.ends_with(b"\r\n"),
            "a message does not end where it says: {line}"
        );
        let body = String::from_utf8_lossy(body);
        let message = Self::Message {
            sid: (*sid).to_owned(),
            text: format!("{kind} {subject} {}\r\n{body}", rest.join(" ")),
        };
        Ok(Some((message, length)))
    }
}
