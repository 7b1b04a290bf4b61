//! Messages between connections that threads of their own serve.
//!
//! Each connection has an entry with what waits for its client, under a lock. A sender appends to the outboxes of all
//! receivers, and then sends from those that were empty, on the receivers' sockets and without waiting: so in the usual
//! case nobody has to be woken. What a client does not take at once stays in its outbox, and the thread that serves it
//! is woken by its `WakeFd` to wait for the client. Bytes leave an outbox in the order in which they came, and under
//! its lock.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::counters::Counters;
use crate::id::ConnectionId;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::protocol::Effects;
use crate::unacknowledged::unacknowledged;
use crate::wake_fd::WakeFd;

/// The outboxes of a server's connections, by slot.
#[derive(Debug)]
pub(crate) struct OutboxTable {
    entries: Box<[Mutex<Option<Entry>>]>,
    options: Options,
}

/// What waits for the client of an open connection.
#[derive(Debug)]
struct Entry {
    id: ConnectionId,
    socket: Arc<OwnedFd>,
    outbox: Outbox,
    /// Its socket took less than it was offered last.
    is_full: bool,
    /// Wakes the thread that serves it.
    wake_fd: Arc<WakeFd>,
    /// The client has too much waiting, and the server drops such.
    slow: bool,
    /// Wake the threads that read no more until this client has taken half.
    held_up: Vec<Arc<WakeFd>>,
}

/// The state of an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutboxState {
    /// Bytes.
    pub bytes: usize,
    /// When to look at the client, if it was offered them and does not take them.
    pub look_at: Option<Instant>,
    /// The connection shall be closed as too slow.
    pub slow: bool,
}

impl OutboxTable {
    /// For so many connections at once.
    pub fn new(slots: usize, options: &Options) -> Self {
        Self {
            entries: (0..slots).map(|_| Mutex::default()).collect(),
            options: options.clone(),
        }
    }

    /// A connection can be sent to from now on, by the thread that `wake_fd` wakes and by others.
    pub fn open(&self, id: ConnectionId, socket: Arc<OwnedFd>, wake_fd: Arc<WakeFd>) {
        *self.lock(id) = Some(Entry {
            id,
            socket,
            outbox: Outbox::default(),
            is_full: false,
            wake_fd,
            slow: false,
            held_up: Vec::new(),
        });
    }

    /// It cannot be sent to any more, unless something is waiting and shall be `sent_first`: whether that is so.
    pub fn close(&self, id: ConnectionId, sent_first: bool) -> bool {
        let mut place = self.lock(id);
        if sent_first && place.as_ref().is_some_and(|entry| !entry.outbox.is_empty()) {
            return false;
        }
        if let Some(mut entry) = place.take() {
            entry.release();
        }
        true
    }

    /// What waits for a connection's client.
    pub fn waiting(&self, id: ConnectionId) -> OutboxState {
        self.lock(id)
            .as_ref()
            .map_or_else(OutboxState::default, |entry| OutboxState {
                bytes: entry.outbox.len(),
                look_at: entry.outbox.look_at(self.options.write_timeout),
                slow: entry.slow,
            })
    }

    /// Whether a connection's client has taken nothing for too long: see [`Outbox::is_overdue`].
    pub fn is_overdue(&self, id: ConnectionId, now: Instant, counters: &Counters) -> bool {
        self.lock(id).as_mut().is_some_and(|entry| {
            let left = || unacknowledged(&entry.socket, counters);
            entry.outbox.is_overdue(now, self.options.write_timeout, left)
        })
    }

    /// The bytes that wait for each client for which any do.
    pub fn all_waiting(&self) -> Vec<(ConnectionId, usize)> {
        let waiting = self.entries.iter().filter_map(|place| {
            let place = place.lock().unwrap_or_else(PoisonError::into_inner);
            place.as_ref().map(|entry| (entry.id, entry.outbox.len()))
        });
        waiting.filter(|&(_, bytes)| bytes > 0).collect()
    }

    /// The connection's own output.
    pub fn append(&self, id: ConnectionId, bytes: &[u8]) {
        if let Some(entry) = &mut *self.lock(id) {
            entry.outbox.buffer().extend_from_slice(bytes);
        }
    }

    /// Sends what the connection's client takes at once. Whether that was anything.
    ///
    /// # Errors
    ///
    /// If the client is gone.
    pub fn send(&self, id: ConnectionId, counters: &Counters) -> Result<bool, Errno> {
        match &mut *self.lock(id) {
            Some(entry) => entry.send(self.options.output_limit, counters),
            None => Ok(false),
        }
    }

    /// Delivers the messages of `effects`, and leaves none. Adds to `held_up_by` the receivers that have too much
    /// waiting for them to read more from the sender, whom `wake_fd` will wake. `to_send` is empty before and after.
    pub fn deliver(
        &self,
        effects: &mut Effects,
        wake_fd: &Arc<WakeFd>,
        held_up_by: &mut Vec<ConnectionId>,
        to_send: &mut Vec<ConnectionId>,
        counters: &Counters,
    ) {
        let (limit, holds_up_above) = (self.options.output_limit, self.options.holds_up_above());
        for (receivers, _, parts) in effects.messages.iter() {
            for &to in receivers {
                let mut place = self.lock(to);
                let Some(entry) = place.as_mut().filter(|entry| entry.id == to && !entry.slow) else {
                    counters.undeliverable.add(parts.messages.into());
                    continue;
                };
                if entry.outbox.is_empty() && parts.len() > 0 {
                    to_send.push(to);
                }
                parts.append_to(entry.outbox.buffer());
                counters.deliveries.add(parts.messages.into());
                if entry.outbox.len() <= holds_up_above {
                    continue;
                }
                // It is offered what waits before it holds anybody up, and once more before it is dropped. If that
                // fails, the thread that serves it finds that out.
                if !entry.is_full || self.options.drops(entry.outbox.len()) {
                    let _ = entry.send(limit, counters);
                }
                let waiting = entry.outbox.len();
                if self.options.drops(waiting) {
                    entry.slow = true;
                    counters.other_calls.add(1);
                    entry.wake_fd.notify();
                } else if waiting > holds_up_above && !held_up_by.contains(&to) {
                    held_up_by.push(to);
                    entry.held_up.push(Arc::clone(wake_fd));
                    counters.held_up.add(1);
                }
            }
        }
        effects.clear_messages();
        for to in to_send.drain(..) {
            let mut place = self.lock(to);
            let Some(entry) = place.as_mut().filter(|entry| entry.id == to) else {
                continue;
            };
            // If it fails, the thread that serves it finds that out.
            let _ = entry.send(limit, counters);
            if !entry.outbox.is_empty() {
                counters.other_calls.add(1);
                entry.wake_fd.notify();
            }
        }
    }

    /// Forgets of these receivers those that hold up nobody any more. Of the others, `wake_fd` is notified again: each
    /// is woken once, and another may have been quicker to fill the outbox.
    pub fn forget_free(&self, held_up_by: &mut Vec<ConnectionId>, wake_fd: &Arc<WakeFd>) {
        held_up_by.retain(|&id| {
            let mut place = self.lock(id);
            let full = place
                .as_mut()
                .filter(|entry| entry.id == id && entry.outbox.len() > self.options.output_limit / 2);
            let Some(entry) = full else {
                return false;
            };
            if !entry.held_up.iter().any(|other| Arc::ptr_eq(other, wake_fd)) {
                entry.held_up.push(Arc::clone(wake_fd));
            }
            true
        });
    }

    /// Wakes the threads of all connections.
    pub fn wake_all(&self) {
        for place in &self.entries {
            if let Some(entry) = &*place.lock().unwrap_or_else(PoisonError::into_inner) {
                entry.wake_fd.notify();
            }
        }
    }

    /// Nobody sends to this connection until what this gives back is dropped.
    #[cfg(test)]
    pub fn hold(&self, id: ConnectionId) -> impl Sized + '_ {
        self.lock(id)
    }

    /// No entry is locked while another is, nor while a session is called.
    fn lock(&self, id: ConnectionId) -> MutexGuard<'_, Option<Entry>> {
        self.entries[id.slot() as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// As [`OutboxTable::send`].
    fn send(&mut self, limit: usize, counters: &Counters) -> Result<bool, Errno> {
        if self.outbox.is_empty() {
            return Ok(false);
        }
        counters.sends.add(1);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = send(&self.socket, self.outbox.waiting(), flags);
        if let Ok(count) = sent {
            self.outbox.sent(count);
        }
        self.outbox.offered(Instant::now);
        self.is_full = !self.outbox.is_empty();
        match sent {
            Ok(count) => {
                counters.bytes_out.add(count as u64);
                self.outbox.shrink();
                if self.outbox.len() <= limit / 2 {
                    self.release();
                }
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Nobody is held up by it any more.
    fn release(&mut self) {
        for wake_fd in self.held_up.drain(..) {
            wake_fd.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec};

    use super::*;
    use crate::Overflow;
    use crate::clock::Clock;
    use crate::protocol::{Asked, Io};
    use crate::stop::poll_once;

    /// A connection and its client.
    fn connect(table: &OutboxTable, slot: u32) -> (ConnectionId, Arc<WakeFd>, UnixStream) {
        let (ours, client) = UnixStream::pair().expect("a pair");
        let (id, wake_fd) = (
            ConnectionId::new(0, 0, slot),
            Arc::new(WakeFd::new().expect("a wake_fd")),
        );
        table.open(id, Arc::new(ours.into()), Arc::clone(&wake_fd));
        (id, wake_fd, client)
    }

    fn is_notified(wake_fd: &WakeFd) -> bool {
        let mut fds = [PollFd::new(wake_fd, PollFlags::IN)];
        poll_once(&mut fds, Some(&Timespec::default())).expect("it can be asked") > 0
    }

    fn table(overflow: Overflow) -> OutboxTable {
        let options = Options {
            output_limit: 1_000,
            overflow,
            ..Options::default()
        };
        OutboxTable::new(5, &options)
    }

    /// What the session `from` sends to `to`.
    fn message(from: ConnectionId, to: ConnectionId, bytes: &[u8]) -> Effects {
        let mut effects = Effects::default();
        let mut io = Io {
            id: from,
            output: &mut Vec::new(),
            asked: &mut Asked::default(),
            effects: &mut effects,
            clock: &mut Clock::default(),
        };
        io.send_to(to, bytes);
        effects
    }

    #[test]
    fn each_senders_messages_arrive_whole_and_in_order_also_if_the_client_is_slow() {
        const MESSAGES: u32 = 5_000;
        let table = table(Overflow::Wait);
        let (to, wake_fd, mut client) = connect(&table, 0);
        let (table, wake_fd) = (&table, &wake_fd);
        std::thread::scope(|scope| {
            let senders: Vec<_> = (1..4)
                .map(|slot| {
                    scope.spawn(move || {
                        let (from, own, _client) = connect(table, slot);
                        let counters = Counters::default();
                        let mut held_up_by = Vec::new();
                        for number in 0..MESSAGES {
                            let mut effects = message(from, to, format!("{slot} {number}\n").as_bytes());
                            table.deliver(&mut effects, &own, &mut held_up_by, &mut Vec::new(), &counters);
                            while !held_up_by.is_empty() {
                                own.wait();
                                own.clear();
                                table.forget_free(&mut held_up_by, &own);
                            }
                        }
                        assert_eq!(counters.deliveries.get(), u64::from(MESSAGES));
                    })
                })
                .collect();
            // The thread that serves the receiver: it waits to be notified, then for its client.
            scope.spawn(move || {
                let counters = Counters::default();
                let deadline = Instant::now() + Duration::from_secs(120);
                while !senders.iter().all(|sender| sender.is_finished()) || table.waiting(to).bytes > 0 {
                    assert!(Instant::now() < deadline, "not all were sent");
                    table.send(to, &counters).expect("the client is there");
                    std::thread::yield_now();
                }
                assert!(table.close(to, true));
                let _ = wake_fd;
            });
            let mut text = String::new();
            client.read_to_string(&mut text).expect("all");
            let mut next = [0; 4];
            for line in text.lines() {
                let (slot, number) = line.split_once(' ').expect("whole");
                let next = &mut next[slot.parse::<usize>().expect("a slot")];
                assert_eq!(number.parse::<u32>().expect("a number"), *next);
                *next += 1;
            }
            assert_eq!(next, [0, MESSAGES, MESSAGES, MESSAGES]);
        });
    }

    #[test]
    fn who_takes_too_little_is_slow_where_that_is_asked_for() {
        let table = table(Overflow::Drop);
        let (to, _wake_fd, client) = connect(&table, 0);
        let (from, own, _other) = connect(&table, 1);
        let (counters, mut held_up_by) = (Counters::default(), Vec::new());
        let mut deliver = || {
            table.deliver(
                &mut message(from, to, &[b'x'; 500]),
                &own,
                &mut held_up_by,
                &mut Vec::new(),
                &counters,
            );
        };
        let mut sent = 0;
        while !table.waiting(to).slow {
            deliver();
            sent += 1;
        }
        deliver();
        assert_eq!(
            (counters.deliveries.get(), counters.undeliverable.get()),
            (sent, 1)
        );
        assert!((1_001..=1_500).contains(&table.waiting(to).bytes));
        assert_eq!((&held_up_by[..], counters.held_up.get()), (&[to][..], 1));
        table.forget_free(&mut held_up_by, &own);
        assert_eq!(held_up_by, [to], "it is still there");
        assert!(!table.close(to, true), "something waits");
        assert!(table.close(to, false));
        own.wait();
        table.forget_free(&mut held_up_by, &own);
        assert!(held_up_by.is_empty(), "it is gone");
        client.shutdown(Shutdown::Both).expect("ended");
    }

    #[test]
    fn who_takes_all_at_once_is_neither_slow_nor_holds_anybody_up() {
        let table = table(Overflow::Drop);
        let (to, _wake_fd, mut client) = connect(&table, 0);
        let (from, own, _other) = connect(&table, 1);
        let (counters, mut held_up_by) = (Counters::default(), Vec::new());
        // A burst: all that one receive of the sender has brought.
        let mut effects = message(from, to, &[b'x'; 500]);
        let mut io = Io {
            id: from,
            output: &mut Vec::new(),
            asked: &mut Asked::default(),
            effects: &mut effects,
            clock: &mut Clock::default(),
        };
        (1..100).for_each(|_| io.send_to(to, &[b'x'; 500]));
        table.deliver(&mut effects, &own, &mut held_up_by, &mut Vec::new(), &counters);
        assert_eq!(table.waiting(to), OutboxState::default());
        assert_eq!((held_up_by, counters.deliveries.get()), (vec![], 100));
        client.read_exact(&mut [0; 50_000]).expect("all");
    }

    #[test]
    fn who_is_held_up_is_woken_when_half_of_the_limit_is_left() {
        const LIMIT: usize = 1 << 20;
        let options = Options {
            output_limit: LIMIT,
            overflow: Overflow::Wait,
            ..Options::default()
        };
        let table = OutboxTable::new(2, &options);
        let (to, _wake_fd, mut client) = connect(&table, 0);
        let (from, own, _other) = connect(&table, 1);
        let (counters, mut held_up_by) = (Counters::default(), Vec::new());
        let mut effects = message(from, to, &vec![b'x'; 3 * LIMIT]);
        table.deliver(&mut effects, &own, &mut held_up_by, &mut Vec::new(), &counters);
        assert_eq!(held_up_by, [to], "no socket holds so much");
        let mut left = table.waiting(to).bytes;
        while left > LIMIT / 2 {
            assert!(!is_notified(&own), "{left} bytes are left");
            client.read_exact(&mut [0; 4096]).expect("more");
            table.send(to, &counters).expect("the client is there");
            left = table.waiting(to).bytes;
        }
        assert!(is_notified(&own));
        table.forget_free(&mut held_up_by, &own);
        assert!(held_up_by.is_empty());
    }

    #[test]
    fn a_connection_that_is_gone_gets_nothing_nor_does_the_next_in_its_slot() {
        let table = table(Overflow::Wait);
        let (gone, ..) = connect(&table, 0);
        let (from, own, _client) = connect(&table, 1);
        assert!(table.close(gone, true));
        table.open(
            ConnectionId::new(0, 1, 0),
            Arc::new(UnixStream::pair().expect("a pair").0.into()),
            Arc::clone(&own),
        );
        let counters = Counters::default();
        table.deliver(
            &mut message(from, gone, b"x"),
            &own,
            &mut Vec::new(),
            &mut Vec::new(),
            &counters,
        );
        assert_eq!((counters.deliveries.get(), counters.undeliverable.get()), (0, 1));
    }
}
