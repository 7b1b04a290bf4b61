//! How long a client is waited for that has to say something: to begin, and to finish a head that it has begun.

use std::time::Instant;

use crate::connection::Connection;
use crate::counters::CloseReason;
use crate::options::Options;
use crate::protocol::Session;

/// Since when what is waited for has not come. Time in which the server listens to the client does count alone: whoever
/// did not let it [says](Self::listens) when it does again.
#[derive(Debug)]
pub(crate) struct ReadTimes {
    /// When what had come last was used, or the server began to listen.
    heard: Instant,
    /// Something has come, and is being used: how long that takes is not the client's doing.
    came: bool,
    /// Since when a head is waited for: the first of all, or one that has begun.
    head: Option<Instant>,
    /// How many messages had been used then.
    messages: u64,
}

impl ReadTimes {
    /// The connection begins, and with it the first head is waited for.
    pub fn new(now: Instant) -> Self {
        Self {
            heard: now,
            came: false,
            head: Some(now),
            messages: 0,
        }
    }

    /// Something has come, and the session is about to use it.
    #[inline]
    pub fn came(&mut self) {
        self.came = true;
    }

    /// When that was used last, or the connection began; only where somebody [wants to know](Options::wants_heard).
    pub fn last_heard(&self) -> Instant {
        self.heard
    }

    /// What has come was used as far as it could be. Whether a head is waited for from now on.
    #[inline]
    pub fn used<S: Session>(
        &mut self,
        connection: &Connection<S>,
        options: &Options,
        now: impl Fn() -> Instant,
    ) -> bool {
        if std::mem::take(&mut self.came) && options.wants_heard() {
            self.heard = now();
        }
        if options.handshake.is_none() {
            return false;
        }
        let messages = connection.messages();
        let is_same = std::mem::replace(&mut self.messages, messages) == messages;
        if !connection.awaits_head() {
            self.head = None;
        } else if self.head.is_none() || !is_same {
            self.head = Some(now());
            return true;
        }
        false
    }

    /// The server listens to the client again, or had no time to.
    pub fn listens(&mut self, now: Instant) {
        self.heard = now;
        self.head = self.head.map(|_| now);
    }

    /// When the server, which listens, has waited for long enough, and for what.
    pub fn nearest(&self, options: &Options) -> Option<(Instant, CloseReason)> {
        let idle = options.idle.map(|limit| (self.heard + limit, CloseReason::Idle));
        let head = options.handshake.zip(self.head);
        let head = head.map(|(limit, since)| (since + limit, CloseReason::Handshake));
        idle.into_iter().chain(head).min_by_key(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;
    use crate::connection::Turn;
    use crate::id::ConnectionId;
    use crate::protocol::Effects;
    use crate::protocol::bytes::Bytes;
    use crate::trace::Span;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_head_has_its_time_from_its_first_byte_on_and_the_first_from_the_beginning() {
        let options = Options {
            handshake: Some(LIMIT),
            idle: Some(3 * LIMIT),
            ..Options::default()
        };
        let (mut output, mut effects, mut clock) = (Vec::new(), Effects::default(), Clock::default());
        let mut turn = Turn {
            output: &mut output,
            full_at: usize::MAX,
            effects: &mut effects,
            clock: &mut clock,
        };
        let id = ConnectionId::new(0, 0, 0);
        let mut connection = Connection::open(&Bytes, id, Span::none(), None, &mut turn);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut times = ReadTimes::new(start);
        let idle_from = |seconds| Some((at(seconds) + 3 * LIMIT, CloseReason::Idle));
        let head_from = |seconds| Some((at(seconds) + LIMIT, CloseReason::Handshake));
        assert_eq!(times.nearest(&options), head_from(0));
        // When what comes, and what is waited for then.
        for (second, bytes, expected) in [
            (1, "1 ke", head_from(0)),
            (2, "e", head_from(0)),
            (3, "p\n", idle_from(3)),
            (4, "1 keep\n", idle_from(4)),
            (5, "1", head_from(5)),
            (6, " ", head_from(5)),
            (7, "keep\n1", head_from(7)),
            (8, " keep\n1 keep\n1 keep\n", idle_from(8)),
            (9, "1 ", head_from(9)),
        ] {
            times.came();
            assert_eq!(times.last_heard(), at(second - 1), "it is not used yet");
            connection.received(bytes.as_bytes(), &mut turn);
            times.used(&connection, &options, || at(second));
            assert_eq!(times.nearest(&options), expected, "{bytes:?}");
        }
        times.listens(at(20));
        assert_eq!(
            times.nearest(&options),
            head_from(20),
            "the server did not listen"
        );
        connection.received(b"keep\n", &mut turn);
        times.used(&connection, &options, || at(21));
        assert_eq!(times.last_heard(), at(20), "nothing has come");
        times.listens(at(22));
        assert_eq!(times.nearest(&options), idle_from(22));
        assert_eq!(times.nearest(&Options::default()), None);
    }
}
