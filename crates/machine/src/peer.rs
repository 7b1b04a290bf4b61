//! Another process at the other end of a local socket: who it is, as the kernel says, and messages to and from it,
//! whose length and time are bounded whatever it does.

use std::fmt;
use std::fs;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sys;

/// The process that has connected, or that listens where this one has.
#[derive(Debug)]
pub struct Peer {
    stream: BufReader<UnixStream>,
    user: u32,
    /// None where it is in another system of process ids.
    process: Option<u32>,
    most_bytes: usize,
    within: Duration,
}

impl Peer {
    /// At the other end of `stream`. Its messages may have so many bytes, and take so long from their beginning to
    /// their end.
    ///
    /// # Errors
    ///
    /// When the kernel does not say who it is.
    pub fn of(stream: UnixStream, most_bytes: usize, within: Duration) -> io::Result<Self> {
        let (user, process) = sys::peer(&stream)?;
        stream.set_write_timeout(Some(within))?;
        Ok(Self {
            stream: BufReader::new(stream),
            user,
            process: u32::try_from(process).ok().filter(|id| *id > 0),
            most_bytes,
            within,
        })
    }

    /// Whoever listens at this path; else as [`of`](Self::of).
    ///
    /// # Errors
    ///
    /// When nobody does.
    pub fn at(path: &Path, most_bytes: usize, within: Duration) -> io::Result<Self> {
        let mut tries = 0..20;
        loop {
            match UnixStream::connect(path) {
                // A socket that has its path and does not listen yet (some microseconds on an idle machine) refuses
                // just as one does that was left behind.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused && tries.next().is_some() => {
                    thread::sleep(Duration::from_millis(20));
                }
                connected => return Self::of(connected?, most_bytes, within),
            }
        }
    }

    /// Whether its user is that of this process.
    #[must_use]
    pub fn is_of_this_user(&self) -> bool {
        self.user == geteuid().as_raw()
    }

    /// Whether it has said something that [`hear`](Self::hear) has not returned.
    #[must_use]
    pub fn has_said_more(&self) -> bool {
        !self.stream.buffer().is_empty()
    }

    /// Sends a message: a line of JSON. Blocks while it does not read.
    ///
    /// # Errors
    ///
    /// When it is gone or does not read in time.
    pub fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)
    }

    /// Its next message. Blocks while there is none, as long as a message may take.
    ///
    /// # Errors
    ///
    /// When it is gone (`UnexpectedEof`), or says what is no such message, or none that ends.
    pub fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let (begun, mut line) = (Instant::now(), Vec::new());
        while !line.ends_with(b"\n") {
            let left = self.within.saturating_sub(begun.elapsed());
            if left.is_zero() || line.len() > self.most_bytes {
                return Err(io::Error::other("its message has no end"));
            }
            self.stream.get_ref().set_read_timeout(Some(left))?;
            let there = self.stream.fill_buf()?;
            if there.is_empty() {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "it went away"));
            }
            let end = there
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(there.len(), |at| at + 1);
            line.extend_from_slice(&there[..end]);
            self.stream.consume(end);
        }
        Ok(serde_json::from_slice(&line)?)
    }

    /// Ends the connection, which it sees.
    pub fn leave(&self) {
        // It may be gone itself.
        let _ = self.stream.get_ref().shutdown(Shutdown::Both);
    }
}

/// Can be read when it says something, or has gone.
impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().as_fd()
    }
}

/// `process 12 (threadgauge) of user 1000`. What it calls itself is its own choice.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            None => write!(f, "a process that cannot be seen from here")?,
            Some(id) => {
                write!(f, "process {id}")?;
                if let Ok(name) = fs::read_to_string(format!("/proc/{id}/comm")) {
                    write!(f, " ({})", name.trim_end())?;
                }
            }
        }
        write!(f, " of user {}", self.user)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn two(within: Duration) -> (Peer, UnixStream) {
        let (one, other) = UnixStream::pair().unwrap();
        (Peer::of(one, 100, within).unwrap(), other)
    }

    #[test]
    fn a_process_is_its_own_peer() {
        let (mut peer, _other) = two(LONG);
        assert!(peer.is_of_this_user());
        let own = format!("process {} (", std::process::id());
        assert!(peer.to_string().starts_with(&own), "{peer}");
        (peer.user, peer.process) = (geteuid().as_raw() + 1, None);
        assert!(!peer.is_of_this_user());
        assert!(
            peer.to_string().starts_with("a process that cannot be seen"),
            "{peer}"
        );
    }

    #[test]
    fn nobody_is_at_a_socket_that_was_left_behind_nor_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("left");
        drop(UnixListener::bind(&path).unwrap());
        let refused = Peer::at(&path, 100, LONG).unwrap_err().kind();
        assert_eq!(refused, ErrorKind::ConnectionRefused);
        let missing = Peer::at(&folder.path().join("none"), 100, LONG);
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn messages_come_in_order_and_then_it_is_gone() {
        let (mut peer, mut other) = two(LONG);
        other.write_all(b"1\n2\n").unwrap();
        assert_eq!(peer.hear::<u32>().unwrap(), 1);
        assert!(peer.has_said_more());
        assert_eq!(peer.hear::<u32>().unwrap(), 2);
        assert!(!peer.has_said_more());
        drop(other);
        assert_eq!(peer.hear::<u32>().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_message_may_have_all_bytes_that_are_allowed_in_whatever_pieces_it_comes() {
        let (mut peer, mut other) = two(LONG);
        let comes = peer.stream.get_ref().try_clone().unwrap();
        let heard = thread::spawn(move || peer.hear::<String>());
        // A hundred bytes, and the end of the line by itself.
        let text = "x".repeat(98);
        write!(other, "\"{text}\"").unwrap();
        while rustix::io::ioctl_fionread(&comes).unwrap() > 0 {
            thread::yield_now();
        }
        other.write_all(b"\n").unwrap();
        assert_eq!(heard.join().unwrap().unwrap(), text);
    }

    #[test]
    fn a_message_has_an_end_in_bytes_and_in_time() {
        let (mut peer, mut other) = two(LONG);
        let endless = thread::spawn(move || while other.write_all(&[b' '; 64]).is_ok() {});
        assert_eq!(
            peer.hear::<u32>().unwrap_err().to_string(),
            "its message has no end"
        );
        peer.leave();
        endless.join().unwrap();
        // A byte now and then, for ever.
        let (mut peer, mut other) = two(Duration::from_millis(100));
        peer.most_bytes = usize::MAX;
        let slow = thread::spawn(move || {
            while other.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        });
        assert!(peer.hear::<u32>().is_err());
        peer.leave();
        slow.join().unwrap();
    }

    #[test]
    fn who_does_not_read_holds_nobody_up_for_ever() {
        let (mut peer, _other) = two(Duration::from_millis(50));
        let long = "x".repeat(1 << 20);
        assert!(peer.say(&long).is_err());
    }
}
