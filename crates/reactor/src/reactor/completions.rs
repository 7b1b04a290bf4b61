//! The kernel's side of a loop over io_uring: how requests are named, and what their answers mean.
//!
//! What such a loop asks for differs from epoll in two ways. A watch is reported once, and must be asked for again.
//! And bytes come by themselves: a connection says once that it receives, and from then on what comes is handed over.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::interest::Token;
use crate::ring::{Answer, Events, Filled, Watch};

/// The name of the descriptor that wakes the loop: no kind of request has it.
const WAKE: u64 = 0;
// Kinds of requests: the uppermost byte of their name. Then come three of a generation, and four of a token.
const READ: u64 = 1;
const WRITE: u64 = 2;
const RECEIVE: u64 = 3;

fn name(kind: u64, generation: u32, token: Token) -> u64 {
    kind << 56 | u64::from(generation) << 32 | u64::from(token.number())
}

/// The requests of one loop.
#[derive(Debug)]
pub(super) struct Completions {
    events: Events,
    /// Who waits to write.
    writers: HashSet<Token>,
    /// The loop's.
    wake_fd: Arc<OwnedFd>,
}

/// What has come about.
#[derive(Debug)]
pub(super) enum Completion {
    /// A task was posted.
    Woken,
    Readable(Token),
    Writable(Token),
    Arrived(Token, Arrival),
}

/// What has come for a connection.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// That of the connection: another may have its token by now.
    pub generation: u32,
    /// Bytes, or nothing at the end.
    pub result: Result<Option<Filled>, Errno>,
    /// It goes on receiving.
    pub goes_on: bool,
}

impl Completions {
    /// With the descriptor that wakes the loop.
    pub fn new(wake_fd: Arc<OwnedFd>) -> io::Result<Self> {
        let mut completions = Self {
            events: Events::new()?,
            writers: HashSet::new(),
            wake_fd,
        };
        completions.watch_wake_fd();
        Ok(completions)
    }

    fn watch_wake_fd(&mut self) {
        self.events.watch(&self.wake_fd, Watch::ReadAgain, WAKE);
    }

    pub fn watch_read(&mut self, handle: impl AsFd, reader: Token) {
        self.events.watch(handle, Watch::Read, name(READ, 0, reader));
    }

    pub fn watch_write(&mut self, handle: impl AsFd, writer: Token) {
        if self.writers.insert(writer) {
            self.events.watch(handle, Watch::Write, name(WRITE, 0, writer));
        }
    }

    /// Takes back whatever was asked for.
    pub fn forget(&mut self, handle: impl AsFd) {
        self.events.cancel_all(handle);
    }

    /// Hands over what comes, until the end or a failure.
    pub fn receive(&mut self, socket: impl AsFd, token: Token, generation: u32) {
        self.events.receive(socket, name(RECEIVE, generation, token));
    }

    /// Receives no more: what has come already is handed over, and then a last arrival without bytes.
    pub fn stop_receiving(&mut self, token: Token, generation: u32) {
        self.events.cancel(name(RECEIVE, generation, token));
    }

    /// A connection is about to be closed. Whether that took a system call.
    pub fn before_close(&mut self, token: Token, generation: u32, is_receiving: bool) -> bool {
        let called = self.events.before_close();
        if is_receiving {
            self.stop_receiving(token, generation);
        }
        if self.writers.remove(&token) {
            self.events.cancel(name(WRITE, 0, token));
        }
        called
    }

    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.events.wait(limit)
    }

    /// The next thing that has come about.
    pub fn next(&mut self) -> Option<Completion> {
        loop {
            let Answer {
                name,
                result,
                goes_on,
            } = self.events.next()?;
            let token = Token::new(name as u32);
            match name >> 56 {
                READ if result.is_ok() => return Some(Completion::Readable(token)),
                WRITE if result.is_ok() => {
                    self.writers.remove(&token);
                    return Some(Completion::Writable(token));
                }
                // Cancelled.
                READ | WRITE => {}
                RECEIVE => {
                    let arrival = Arrival {
                        generation: (name >> 32) as u32 & 0xff_ffff,
                        result,
                        goes_on,
                    };
                    return Some(Completion::Arrived(token, arrival));
                }
                _ => {
                    if !goes_on {
                        // The kernel had no room for its answer. What was notified meanwhile is reported at once.
                        self.watch_wake_fd();
                    }
                    return Some(Completion::Woken);
                }
            }
        }
    }

    /// See [`Events::take`].
    pub fn take(&mut self, filled: Filled, into: &mut [u8]) -> usize {
        self.events.take(filled, into)
    }
}
