//! A message on its way to those who get it: in turns, where they are many.

use std::sync::atomic::Ordering::Relaxed;

use super::broker::{Broker, Subscription, Taken};
use super::message_trace::{self, Trace};
use super::route::Reached;
use super::wire::Publish;
use crate::id::ConnectionId;
use crate::protocol::{Composed, Io};

/// Copying so many bytes takes as long as a delivery without.
const COPIED_IN_A_DELIVERY: usize = 4 * 1024;
/// Writing down where a message went takes as long as so many deliveries.
const TRACED: usize = 8;

/// How far a message has come.
#[derive(Debug)]
pub(super) struct Sending {
    /// Whom it goes to.
    reached: Reached<Subscription>,
    /// How many of those that are known were looked at.
    next: usize,
    fate: Fate,
}

/// What becomes of it.
#[derive(Debug)]
struct Fate {
    /// Its sender, who does not want it back.
    not_to: Option<ConnectionId>,
    /// Nobody gets it: it is there for its trace.
    is_only_traced: bool,
    /// Where it goes, if somebody hears that.
    trace: Option<Trace>,
    /// Somebody got it, or would have.
    is_delivered: bool,
}

/// What was sent to all.
pub(super) struct Sent {
    pub reached: Reached<Subscription>,
    pub trace: Option<Trace>,
    pub is_delivered: bool,
}

impl Sending {
    /// To those who are reached, but not to this one.
    pub fn new(reached: Reached<Subscription>, not_to: Option<ConnectionId>) -> Self {
        let fate = Fate {
            not_to,
            is_only_traced: false,
            trace: None,
            is_delivered: false,
        };
        Self {
            reached,
            next: 0,
            fate,
        }
    }

    /// The same, with a trace if somebody hears that; perhaps it is there for nothing else.
    pub fn traced(self, trace: Option<Trace>, is_only_traced: bool) -> Self {
        let fate = Fate {
            trace,
            is_only_traced,
            ..self.fate
        };
        Self { fate, ..self }
    }

    /// Sends it to all who are subscribed, and to one of each queue, whom `choose` chooses of so many: as far as there
    /// is room for. Whether all have it.
    pub fn go_on(
        &mut self,
        message: &Publish<'_>,
        broker: &Broker,
        mut choose: impl FnMut(usize) -> usize,
        io: &mut Io<'_>,
    ) -> bool {
        let Self { reached, next, fate } = self;
        let mut copies = Copies::of(message);
        loop {
            let (plain, queues) = reached.known();
            while *next < plain.len() + queues.len() {
                let room = io.room();
                if room == 0 {
                    return false;
                }
                if let Some(queue) = next.checked_sub(plain.len()) {
                    let queue = &queues[queue];
                    let (before, first) = queue.split_at(choose(queue.len()));
                    // The first who can.
                    for to in first.iter().chain(before) {
                        if fate.deliver(to, &mut copies, broker, io) {
                            break;
                        }
                    }
                    *next += 1;
                } else {
                    // One is enough of a message that nobody gets or hears of.
                    let most = if fate.is_unheard() {
                        1
                    } else {
                        room / copies.work()
                    };
                    let until = plain.len().min(*next + most.max(1));
                    for to in &plain[*next..until] {
                        fate.deliver(to, &mut copies, broker, io);
                    }
                    *next = until;
                }
                if fate.is_unheard() && fate.is_delivered {
                    return true;
                }
            }
            match reached {
                Reached::All(_) => return true,
                Reached::Some(search) => {
                    let (all, work) = broker.index.search_on(search);
                    io.worked(work);
                    if let Some(all) = all {
                        *reached = Reached::All(all);
                    }
                }
            }
        }
    }

    /// Once all have it.
    pub fn sent(self) -> Sent {
        Sent {
            reached: self.reached,
            trace: self.fate.trace,
            is_delivered: self.fate.is_delivered,
        }
    }
}

impl Fate {
    /// Whether nobody gets it, nor hears where it goes: all that counts is whether anybody is there.
    fn is_unheard(&self) -> bool {
        self.is_only_traced && self.trace.is_none()
    }

    /// Whether this subscription gets it, or would if it were not a trace alone.
    #[inline]
    fn deliver(
        &mut self,
        to: &Subscription,
        copies: &mut Copies<'_>,
        broker: &Broker,
        io: &mut Io<'_>,
    ) -> bool {
        if self.not_to == Some(to.id) {
            io.worked(1);
            self.note(to, Some(message_trace::NO_ECHO), io);
            return false;
        }
        if self.is_only_traced {
            io.worked(1);
            self.note(to, None, io);
            self.is_delivered = true;
            return true;
        }
        let stripped = copies.stripped_for(to);
        match to.take(copies.bytes - stripped) {
            Taken::No => {
                io.worked(1 + broker.over(to));
                self.note(to, Some(message_trace::OVER), io);
                return false;
            }
            Taken::Yes => {}
            Taken::Last => io.worked(broker.over(to)),
        }
        self.note(to, None, io);
        copies.post(to, stripped, io);
        self.is_delivered = true;
        true
    }

    /// Puts down that it went there, or why not.
    #[inline]
    fn note(&mut self, to: &Subscription, error: Option<&'static str>, io: &mut Io<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.add(to, error);
            io.worked(TRACED);
        }
    }
}

/// A message as it is passed on in one turn.
struct Copies<'a> {
    message: &'a Publish<'a>,
    /// Of headers and payload.
    bytes: usize,
    with_headers: Option<Composed>,
    without_headers: Option<Composed>,
}

impl<'a> Copies<'a> {
    fn of(message: &'a Publish<'a>) -> Self {
        Self {
            message,
            bytes: message.bytes(),
            with_headers: None,
            without_headers: None,
        }
    }

    /// How long it takes to pass on one, in deliveries of little.
    fn work(&self) -> usize {
        1 + self.bytes / COPIED_IN_A_DELIVERY
    }

    /// How many of its first bytes a subscription does not get.
    #[inline]
    fn stripped_for(&self, to: &Subscription) -> usize {
        match self.message.headers {
            Some(headers) if !to.client.headers.load(Relaxed) => headers.bytes,
            _ => 0,
        }
    }

    /// Passes it on, without so many of its first bytes.
    #[inline]
    fn post(&mut self, to: &Subscription, stripped: usize, io: &mut Io<'_>) {
        let known = match stripped {
            0 => &mut self.with_headers,
            _ => &mut self.without_headers,
        };
        let composed = *known.get_or_insert_with(|| compose(self.message, stripped, io));
        io.post(composed, to.id, &to.sid);
        io.worked(self.bytes / COPIED_IN_A_DELIVERY);
    }
}

fn compose(message: &Publish<'_>, stripped: usize, io: &mut Io<'_>) -> Composed {
    let blank_before_reply: &[u8] = if message.reply.is_empty() { b"" } else { b" " };
    let body = &message.body[stripped..];
    match message.headers {
        Some(headers) if stripped == 0 => io.compose(
            &[b"HMSG ", message.subject, b" "],
            &[
                blank_before_reply,
                message.reply,
                b" ",
                headers.written,
                b" ",
                message.size,
                b"\r\n",
                body,
            ],
        ),
        headers => {
            let without = headers.map(|_| (body.len() - 2).to_string());
            let size = without.as_ref().map_or(message.size, String::as_bytes);
            io.compose(
                &[b"MSG ", message.subject, b" "],
                &[blank_before_reply, message.reply, b" ", size, b"\r\n", body],
            )
        }
    }
}

#[cfg(test)]
#[path = "sending_test.rs"]
mod tests;
