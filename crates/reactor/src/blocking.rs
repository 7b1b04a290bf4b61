//! One connection served to its end by the thread that called: what the designs without event loops have in common.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};

use crate::connection::{Connection, Turn};
use crate::counters::{CloseReason, Counters};
use crate::id::ConnectionId;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::protocol::{Effects, Protocol};
use crate::server::Serving;
use crate::stop::{Stop, poll_once};

/// The most bytes of one receive.
const RECEIVE_BYTES: usize = 64 * 1024;

/// Serves a connection until it ends. Blocks until then; the server's stop ends it, at the latest when the drain time
/// is over.
pub(crate) fn serve<P: Protocol>(
    serving: &Serving<P>,
    socket: OwnedFd,
    id: ConnectionId,
    counters: &Counters,
) {
    let mut effects = Effects::default();
    let mut outbox = Outbox::default();
    let full_at = outbox.full_at(serving.options.output_limit);
    let mut turn = Turn {
        output: outbox.buffer(),
        full_at,
        effects: &mut effects,
    };
    let connection = Connection::open(&*serving.protocol, id, &mut turn);
    let mut peer = Peer {
        options: &serving.options,
        stop: serving.stop(),
        socket,
        counters,
        connection,
        outbox,
        effects,
        input: vec![0; RECEIVE_BYTES],
        alarm: None,
        heard: Instant::now(),
        opened: Instant::now(),
        drain_until: None,
    };
    while !peer.is_over() {
        peer.turn();
    }
    peer.close();
}

/// A client, its connection and its times.
struct Peer<'a, S> {
    options: &'a Options,
    stop: &'a Stop,
    socket: OwnedFd,
    counters: &'a Counters,
    connection: Connection<S>,
    outbox: Outbox,
    effects: Effects,
    input: Vec<u8>,
    alarm: Option<Instant>,
    /// When something came last.
    heard: Instant,
    opened: Instant,
    /// Set once the server has stopped.
    drain_until: Option<Instant>,
}

impl<S: crate::protocol::Session> Peer<'_, S> {
    fn is_over(&self) -> bool {
        self.connection.ending().is_some_and(|reason| {
            reason.is_abrupt() || (self.outbox.is_empty() && self.connection.is_answered())
        })
    }

    /// Everything that can be done without waiting, and if that was nothing, a wait.
    fn turn(&mut self) {
        self.do_steps();
        let sent = self.send();
        let received = self.connection.wants_input() && self.receive();
        if !sent && !received && !self.is_over() {
            self.wait();
        }
    }

    fn call(&mut self, call: impl FnOnce(&mut Connection<S>, &mut Turn<'_>)) {
        let full_at = self.outbox.full_at(self.options.output_limit);
        let mut turn = Turn {
            output: self.outbox.buffer(),
            full_at,
            effects: &mut self.effects,
        };
        call(&mut self.connection, &mut turn);
        if let Some(alarm) = self.connection.take_alarm() {
            self.alarm = alarm.map(|after| Instant::now() + after);
        }
    }

    /// Steps that may block are done here: this thread has nobody else.
    fn do_steps(&mut self) {
        while let Some(step) = (!self.effects.jobs.is_empty()).then(|| self.effects.jobs.remove(0)) {
            let bytes = catch_unwind(AssertUnwindSafe(step)).ok();
            self.call(|connection, turn| connection.answered(bytes.as_deref(), turn));
        }
    }

    /// Sends what the client takes at once; whether that was anything.
    fn send(&mut self) -> bool {
        if self.outbox.is_empty() {
            return false;
        }
        self.counters.sends.add(1);
        match net::send(
            &self.socket,
            self.outbox.waiting(),
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ) {
            Ok(count) => {
                self.counters.bytes_out.add(count as u64);
                self.outbox.sent(count);
                if self.outbox.len() <= self.options.output_limit / 2 {
                    self.call(Connection::resume);
                }
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => {
                self.connection.end(CloseReason::Lost);
                true
            }
        }
    }

    /// Receives what is there; whether that was anything.
    fn receive(&mut self) -> bool {
        self.counters.receives.add(1);
        match net::recv(&self.socket, &mut *self.input, RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.call(Connection::ended),
            Ok((count, _)) => {
                self.counters.bytes_in.add(count as u64);
                self.heard = Instant::now();
                let input = std::mem::take(&mut self.input);
                self.call(|connection, turn| connection.received(&input[..count], turn));
                self.input = input;
            }
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Err(_) => self.connection.end(CloseReason::Lost),
        }
        true
    }

    /// Waits for the client, the stop, or the nearest of the times.
    fn wait(&mut self) {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, self.connection.wants_input());
        interest.set(PollFlags::OUT, !self.outbox.is_empty());
        let mut fds = vec![PollFd::new(&self.socket, interest)];
        if self.drain_until.is_none() {
            fds.push(PollFd::new(self.stop, PollFlags::IN));
        }
        let timeout = self.nearest().map(|(at, _)| {
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
            Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: i64::MAX,
                tv_nsec: 0,
            })
        });
        self.counters.waits.add(1);
        let ready = poll_once(&mut fds, timeout.as_ref());
        self.counters.wake_ups.add(1);
        let failed = ready.is_err()
            || fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
            || (fds[0].revents().contains(PollFlags::HUP) && !self.connection.wants_input());
        let stopped = fds.get(1).is_some_and(|stop| !stop.revents().is_empty());
        if failed {
            self.connection.end(CloseReason::Lost);
        }
        if stopped {
            self.drain_until = Some(Instant::now() + self.options.drain);
            self.call(Connection::stop);
        }
        if let Some((at, what)) = self.nearest()
            && at <= Instant::now()
        {
            match what {
                None => {
                    self.alarm = None;
                    self.call(Connection::alarm);
                }
                Some(reason) => self.connection.end(reason),
            }
        }
    }

    /// The next time at which something happens: the session's alarm, or the end for a reason.
    fn nearest(&self) -> Option<(Instant, Option<CloseReason>)> {
        let idle = self
            .options
            .idle
            .map(|limit| (self.heard + limit, Some(CloseReason::Idle)));
        let handshake = self
            .options
            .handshake
            .filter(|_| self.connection.is_new())
            .map(|limit| (self.opened + limit, Some(CloseReason::Handshake)));
        let drain = self.drain_until.map(|at| (at, Some(CloseReason::DrainTime)));
        [self.alarm.map(|at| (at, None)), idle, handshake, drain]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at)
    }

    fn close(mut self) {
        self.counters.messages.add(self.connection.messages());
        let reason = self.connection.close(&mut self.effects);
        self.counters.closed(reason);
        self.counters.other_calls.add(1);
    }
}
