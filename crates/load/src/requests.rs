//! Requests and answers on many connections: an open loop, a closed one, or as fast as possible.
//!
//! One thread and one loop: what is due is written, all that waits goes out in one submission, all that came is read.
//! Nothing is allocated for a request.

mod connecting;
mod source;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::set_current_timer_slack;
use threadgauge_machine::clock::monotonic_ns;

use crate::arrivals::{Arrivals, Ramp};
use crate::client_pool::{ClientPool, Told};
use crate::codec::CodecError;
use crate::error::LoadError;
use crate::exchange::{Answer, Exchange, Worth};
use crate::record::{Failure, Record, Recorder, Watch};
use source::{Due, Freed, Source};

/// The longest wait without a look at whether to go on.
const LOOK: Duration = Duration::from_millis(100);
/// Between two attempts to send what sockets did not take.
const CLOGGED: Duration = Duration::from_millis(1);
/// Requests between two looks at what came and at whether to go on: where connections fail as fast as they are tried,
/// the next is due at once.
const MOST_AT_ONCE: usize = 16 * 1024;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clients {
    /// The server.
    pub target: SocketAddr,
    /// How many connections.
    pub connections: NonZeroUsize,
    /// Requests of one connection that may wait for their answers. One where a server ends a connection after each.
    pub pipeline: NonZeroUsize,
    /// A request without an answer for so long has failed, and its connection is made anew.
    pub timeout: Duration,
    /// Whether to go on with fewer connections where not all can be made.
    pub go_on: bool,
}

/// How many requests may still be sent: by one run, or by several that share it.
#[derive(Debug)]
pub(crate) struct Bound(AtomicU64);

impl Bound {
    pub(crate) fn new(most: u64) -> Self {
        Self(AtomicU64::new(most))
    }

    /// Takes one of them: whether there was one.
    pub(crate) fn take(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        // Nothing is handed over with it: the number alone counts.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }

    /// Whether none is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// When requests start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At a fixed rate, whatever becomes of those before.
    Open {
        /// Requests a second.
        per_second: f64,
        /// How they follow each other.
        arrivals: Arrivals,
        /// Of the arrivals.
        seed: u64,
    },
    /// Each connection asks again after an answer, once it has thought; as fast as possible without a thought.
    Closed {
        /// The mean time from an answer to the next request.
        think: Duration,
        /// Whether all thoughts are equally long.
        arrivals: Arrivals,
        /// Of the thoughts.
        seed: u64,
    },
}

impl Pace {
    /// As fast as possible.
    pub const FAST: Self = Self::Closed {
        think: Duration::ZERO,
        arrivals: Arrivals::Uniform,
        seed: 0,
    };

    /// Requests a second that are to start, if that is fixed.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Open { per_second, .. } => Some(*per_second),
            Self::Closed { .. } => None,
        }
    }
}

/// Connections that ask and are answered.
#[derive(Debug)]
pub struct Requests<E: Exchange> {
    exchange: E,
    pool: ClientPool,
    clients: Vec<Client<E::Reading>>,
    /// Those that take part: all, or those that could be made.
    members: Vec<u32>,
    plan: Clients,
    answered_once: bool,
    /// How long to listen after the last answer.
    listens_on: Duration,
    /// Whose state has changed during a turn: they may ask again.
    freed: Vec<(u32, u64, Freed)>,
    /// Whose connection is to be ended after a turn.
    broken: Vec<u32>,
}

/// One connection.
#[derive(Debug, Default)]
struct Client<R> {
    reading: R,
    waiting: VecDeque<Waiting>,
    /// Requests written, and the number of the next answer: of this client, over all its connections.
    said: u64,
    answered: u64,
    /// To be ended after this turn: what else it says belongs to what is wrong with it.
    is_broken: bool,
    /// The server ends it after the last answer. It is kept until the server does, or a request needs its place: what
    /// comes meanwhile nobody asked for.
    is_last: bool,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u64,
    intended_ns: u64,
    sent_ns: u64,
}

impl<E: Exchange> Requests<E> {
    /// How many connections take part.
    pub fn connections(&self) -> usize {
        self.members.len()
    }

    /// Asks until the load has fallen to nothing or `most` requests were sent, then waits for what is on its way, at
    /// most for the timeout. Blocks meanwhile. May be called again.
    ///
    /// # Errors
    ///
    /// If waiting fails, or the server does not speak the protocol at all. Whatever else goes wrong is counted.
    ///
    /// # Panics
    ///
    /// If the rate is not above 0.
    pub fn run(
        &mut self,
        pace: Pace,
        ramp: Ramp,
        most: u64,
        watch: &mut dyn Watch,
    ) -> Result<Record, LoadError> {
        self.run_within(pace, ramp, &Bound::new(most), watch)
    }

    /// As [`run`](Self::run), with a bound that others may take from, too.
    pub(crate) fn run_within(
        &mut self,
        pace: Pace,
        ramp: Ramp,
        bound: &Bound,
        watch: &mut dyn Watch,
    ) -> Result<Record, LoadError> {
        // Sleeping to the microsecond: the default slack of 50 µs would be in every latency.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut recorder = Recorder::begin(ramp, pace.rate(), watch);
        let start_ns = recorder.start_ns();
        let mut source = Source::new(pace, ramp, start_ns, &self.members, self.plan.pipeline.get());
        let ends_ns = start_ns + ramp.total().as_nanos() as u64 + self.plan.timeout.as_nanos() as u64;
        let scan_ns = (self.plan.timeout.as_nanos() as u64 / 20).clamp(1_000_000, 500_000_000);
        let mut next_scan_ns = start_ns + scan_ns;
        loop {
            let mut now_ns = monotonic_ns();
            recorder.turns(now_ns);
            for _ in 0..MOST_AT_ONCE {
                let Some(due) = source.next(now_ns).filter(|_| bound.take()) else {
                    break;
                };
                self.ask(due, now_ns, &mut recorder);
                self.pass_on(&mut source);
                now_ns = monotonic_ns();
            }
            if bound.is_spent() && !recorder.record.bounded {
                recorder.record.bounded = true;
                source.stop();
            }
            // All that came until now was read, and the connections that it freed are taken.
            source.none_free(now_ns, |intended_ns| {
                recorder.finds_none_free(intended_ns, now_ns);
            });
            if !recorder.goes_on() {
                recorder.record.interrupted = true;
                break;
            }
            if (source.is_done() && recorder.in_flight == 0) || now_ns >= ends_ns {
                break;
            }
            let limit = self.flush(&mut recorder)?;
            let from_ns = monotonic_ns();
            let limit = source.due_ns(from_ns).map_or(limit, |due_ns| {
                limit.min(Duration::from_nanos(due_ns.saturating_sub(from_ns)))
            });
            let woke_ns = self.turn(limit, &mut recorder)?;
            recorder.waited(from_ns, woke_ns, limit);
            let now_ns = monotonic_ns();
            if now_ns >= next_scan_ns {
                self.give_up_late(now_ns, &mut recorder);
                next_scan_ns = now_ns + scan_ns;
            }
            self.end_broken(&mut recorder);
            self.pass_on(&mut source);
        }
        recorder.ends();
        self.leave(&mut source, &mut recorder);
        self.hear_out(&mut recorder)?;
        Ok(recorder.finish())
    }

    /// Has each run listen for so long after its last answer, for bytes that nobody asked for; what has come by then is
    /// seen in any case. This time is in no figure.
    pub fn listen_on(&mut self, span: Duration) {
        self.listens_on = span;
    }

    /// Counts what has come and nobody waits for.
    fn hear_out(&mut self, recorder: &mut Recorder<'_>) -> Result<(), LoadError> {
        let begun_ns = monotonic_ns();
        loop {
            let passed = Duration::from_nanos(monotonic_ns() - begun_ns);
            let left = self.listens_on.saturating_sub(passed);
            self.turn(left.min(LOOK), recorder)?;
            self.end_broken(recorder);
            self.freed.clear();
            if left.is_zero() || recorder.record.interrupted || !recorder.goes_on() {
                return Ok(());
            }
        }
    }

    /// Writes a request, and begins its connection where there is none.
    fn ask(&mut self, due: Due, now_ns: u64, recorder: &mut Recorder<'_>) {
        let connection = due.connection as usize;
        if due.is_new {
            recorder.lags(due.intended_ns, now_ns);
        }
        let client = &mut self.clients[connection];
        let exchange = &mut self.exchange;
        let is_begun = self.pool.is_begun(connection);
        let begun = match is_begun && !client.is_last {
            true => Ok(()),
            false => {
                if is_begun && let rest @ [_, ..] = self.pool.rest(connection) {
                    recorder
                        .record
                        .failures
                        .quote(Failure::Unasked, CodecError::unasked(rest));
                    recorder.faults(Failure::Unasked);
                }
                // Those that the last connection did not answer are not answered any more.
                client.answered = client.said;
                client.reading = E::Reading::default();
                client.is_last = false;
                self.pool.begin(connection, self.plan.target)
            }
        };
        let number = client.said;
        let mut bytes = 0;
        if begun.is_ok() {
            self.pool.say(connection, |unsent| {
                let before = unsent.len();
                exchange.request(connection, number, unsent);
                bytes = unsent.len() - before;
            });
        }
        recorder.sends([due.intended_ns, now_ns], bytes, 1);
        match begun {
            Ok(()) => {
                client.said += 1;
                client.waiting.push_back(Waiting {
                    number,
                    intended_ns: due.intended_ns,
                    sent_ns: now_ns,
                });
            }
            Err(error) => {
                let kind = Failure::of(&error);
                recorder.record.failures.quote(kind, error);
                recorder.fails(due.intended_ns, now_ns, now_ns, kind);
                self.freed.push((due.connection, now_ns, Freed::Failed));
            }
        }
    }

    /// Sends what waits, and tells how long to wait for an answer.
    fn flush(&mut self, recorder: &mut Recorder<'_>) -> Result<Duration, LoadError> {
        let (broken, clients) = (&mut self.broken, &mut self.clients);
        let all = self.pool.flush_each(|connection, error| {
            let kind = Failure::of(&error);
            recorder.record.failures.quote(kind, error);
            clients[connection].is_broken = true;
            broken.push(connection as u32);
        })?;
        Ok(if all { LOOK } else { CLOGGED })
    }

    /// Waits at most so long, and reads what came: when the waiting was over.
    fn turn(&mut self, limit: Duration, recorder: &mut Recorder<'_>) -> Result<u64, LoadError> {
        let Self {
            pool,
            exchange,
            clients,
            freed,
            broken,
            answered_once,
            ..
        } = self;
        let mut woke_ns = None;
        let turn = pool.turn(limit, |connection, told| {
            if woke_ns.is_none() {
                recorder.advance(*woke_ns.insert(monotonic_ns()));
            }
            let client = &mut clients[connection];
            match told {
                Told::Made => {
                    recorder.connects();
                    Ok(0)
                }
                Told::Bytes(input) => {
                    let now_ns = monotonic_ns();
                    let read = client.read(connection, exchange, input, |waiting, answer| {
                        *answered_once = true;
                        freed.push((connection as u32, now_ns, Freed::Answered));
                        conclude(recorder, waiting, answer, now_ns);
                    });
                    match read {
                        Ok(used) => {
                            if client.is_broken && broken.last() != Some(&(connection as u32)) {
                                broken.push(connection as u32);
                            }
                            Ok(used)
                        }
                        Err(source) if !*answered_once && source.is_of_another() => Err(LoadError::Codec {
                            connection,
                            source: source.of_first(exchange.name()),
                        }),
                        Err(source) => {
                            let kind = source.kind();
                            recorder.record.failures.quote(kind, source);
                            if client.waiting.is_empty() {
                                recorder.faults(kind);
                            }
                            client.fail(connection, now_ns, kind, exchange, recorder, freed);
                            client.is_broken = true;
                            broken.push(connection as u32);
                            Ok(input.len())
                        }
                    }
                }
                Told::Ended(error) => {
                    let now_ns = monotonic_ns();
                    if let Some(answer) = exchange.ended(&mut client.reading)
                        && let Some(waiting) = client.waiting.pop_front()
                    {
                        *answered_once = true;
                        freed.push((connection as u32, now_ns, Freed::Answered));
                        conclude(recorder, waiting, answer, now_ns);
                    }
                    let kind = error.as_ref().map_or(Failure::Closed, Failure::of);
                    if let Some(error) = error.filter(|_| !client.waiting.is_empty()) {
                        recorder.record.failures.quote(kind, error);
                    }
                    client.fail(connection, now_ns, kind, exchange, recorder, freed);
                    Ok(0)
                }
            }
        });
        recorder.receives(pool.take_received_bytes());
        turn?;
        Ok(woke_ns.unwrap_or_else(monotonic_ns))
    }

    /// Those that wait for longer than the timeout have failed.
    fn give_up_late(&mut self, now_ns: u64, recorder: &mut Recorder<'_>) {
        let oldest_ns = now_ns.saturating_sub(self.plan.timeout.as_nanos() as u64);
        for &connection in &self.members {
            let client = &mut self.clients[connection as usize];
            if client
                .waiting
                .front()
                .is_some_and(|waiting| waiting.sent_ns < oldest_ns)
            {
                client.fail(
                    connection as usize,
                    now_ns,
                    Failure::Timeout,
                    &self.exchange,
                    recorder,
                    &mut self.freed,
                );
                client.is_broken = true;
                self.broken.push(connection);
            }
        }
    }

    /// Ends connections that are of no use any more: the next request begins them anew.
    fn end_broken(&mut self, recorder: &mut Recorder<'_>) {
        for connection in self.broken.drain(..) {
            let client = &mut self.clients[connection as usize];
            client.fail(
                connection as usize,
                monotonic_ns(),
                Failure::Closed,
                &self.exchange,
                recorder,
                &mut self.freed,
            );
            client.is_broken = false;
            self.pool.end(connection as usize);
        }
    }

    /// Tells who asks next of those that may ask again.
    fn pass_on(&mut self, source: &mut Source) {
        for (connection, now_ns, how) in self.freed.drain(..) {
            source.freed(connection, now_ns, how);
        }
    }

    /// The run is over: what has no answer is given up, and its connections are ended.
    fn leave(&mut self, source: &mut Source, recorder: &mut Recorder<'_>) {
        let now_ns = monotonic_ns();
        recorder.advance(now_ns);
        for &connection in &self.members {
            let client = &mut self.clients[connection as usize];
            if client.waiting.is_empty() {
                continue;
            }
            if self.exchange.is_changed(&client.reading)
                && let Some(Waiting {
                    intended_ns, sent_ns, ..
                }) = client.waiting.pop_front()
            {
                recorder.fails(intended_ns, sent_ns, now_ns, Failure::Changed);
            }
            for waiting in client.waiting.drain(..) {
                recorder.gives_up(waiting.intended_ns, Some(waiting.sent_ns), now_ns, 1);
            }
            self.pool.end(connection as usize);
        }
        if !recorder.record.interrupted {
            source.never_sent(now_ns, |intended_ns| {
                recorder.gives_up(intended_ns, None, now_ns, 1);
            });
        }
        self.freed.clear();
        self.broken.clear();
    }
}

impl<R: Default> Client<R> {
    /// Reads all whole answers in `input`: how many bytes were used.
    fn read<E: Exchange<Reading = R>>(
        &mut self,
        connection: usize,
        exchange: &mut E,
        input: &[u8],
        mut answered: impl FnMut(Waiting, Answer),
    ) -> Result<usize, CodecError> {
        let mut used = 0;
        while used < input.len() {
            if self.is_broken {
                return Ok(input.len());
            }
            if self.is_last || self.waiting.is_empty() {
                return Err(CodecError::unasked(&input[used..]));
            }
            let read = exchange.read(connection, self.answered, &mut self.reading, &input[used..])?;
            used += read.bytes;
            match read.answer {
                Some(answer) => {
                    let place = match answer.number {
                        None => Some(0),
                        Some(number) => self.waiting.iter().position(|waiting| waiting.number == number),
                    };
                    let Some(waiting) = place.and_then(|place| self.waiting.remove(place)) else {
                        return Err(CodecError::unasked(&input[used - read.bytes..]));
                    };
                    self.answered += 1;
                    self.is_last = answer.last && self.waiting.is_empty();
                    // Those that wait behind the last answer have none.
                    self.is_broken = answer.last && !self.is_last;
                    answered(waiting, answer);
                }
                None if read.bytes == 0 => break,
                None => {}
            }
        }
        Ok(used)
    }

    /// All that wait have failed; the first by its bytes, where those that came are other ones already.
    fn fail<E: Exchange<Reading = R>>(
        &mut self,
        connection: usize,
        now_ns: u64,
        kind: Failure,
        exchange: &E,
        recorder: &mut Recorder<'_>,
        freed: &mut Vec<(u32, u64, Freed)>,
    ) {
        let mut first = exchange.is_changed(&self.reading).then_some(Failure::Changed);
        for waiting in self.waiting.drain(..) {
            let kind = first.take().unwrap_or(kind);
            recorder.fails(waiting.intended_ns, waiting.sent_ns, now_ns, kind);
            freed.push((connection as u32, now_ns, Freed::Failed));
        }
    }
}

/// An answer has come.
fn conclude(recorder: &mut Recorder<'_>, waiting: Waiting, answer: Answer, now_ns: u64) {
    let Waiting {
        intended_ns, sent_ns, ..
    } = waiting;
    match answer.worth {
        Worth::Good => recorder.answers(intended_ns, sent_ns, now_ns, 1),
        Worth::Refusal(status) => {
            recorder.record.failures.status(status);
            recorder.fails(intended_ns, sent_ns, now_ns, Failure::Status);
        }
        Worth::Changed => recorder.fails(intended_ns, sent_ns, now_ns, Failure::Changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Bytes, Numbered, Read};

    /// One that has sent so many requests.
    fn asked<R: Default>(requests: u64) -> Client<R> {
        let waiting = |number| Waiting {
            number,
            intended_ns: 0,
            sent_ns: 0,
        };
        Client {
            waiting: (0..requests).map(waiting).collect(),
            said: requests,
            ..Client::default()
        }
    }

    /// How many bytes it uses, and the numbers of the requests that they answer.
    fn read<E: Exchange>(
        client: &mut Client<E::Reading>,
        exchange: &mut E,
        input: &[u8],
    ) -> (Result<usize, CodecError>, Vec<u64>) {
        let mut answered = Vec::new();
        let used = client.read(3, exchange, input, |waiting, _| answered.push(waiting.number));
        (used, answered)
    }

    /// Whose answers have two bytes, of which it reads one at a time; `#` is none.
    #[derive(Debug)]
    struct Pairs;

    impl Exchange for Pairs {
        type Reading = bool;

        fn name(&self) -> &'static str {
            "pairs"
        }

        fn is_single(&self) -> bool {
            false
        }

        fn request(&mut self, _: usize, _: u64, _: &mut Vec<u8>) {}

        fn read(&mut self, _: usize, _: u64, is_half: &mut bool, input: &[u8]) -> Result<Read, CodecError> {
            if input[0] == b'#' {
                return Ok(Read::default());
            }
            let answer = is_half.then_some(Answer::GOOD);
            *is_half = !*is_half;
            Ok(Read { bytes: 1, answer })
        }

        fn ended(&mut self, _: &mut bool) -> Option<Answer> {
            None
        }
    }

    #[test]
    fn what_was_used_of_an_answer_is_followed_by_the_next_call() {
        let mut client = asked(3);
        assert_eq!(
            read(&mut client, &mut Pairs, b"ababa#b"),
            (Ok(5), vec![0, 1]),
            "until it needs more"
        );
        assert_eq!(read(&mut client, &mut Pairs, b"b"), (Ok(1), vec![2]));
    }

    #[test]
    fn of_a_bound_each_takes_one_until_none_is_left() {
        let bound = Bound::new(2);
        let taken = [(); 3].map(|()| (bound.is_spent(), bound.take()));
        assert_eq!(taken, [(false, true), (false, true), (true, false)]);
        assert!(bound.is_spent());
    }

    #[test]
    fn an_answer_is_that_of_the_request_with_its_number() {
        let (mut client, mut numbered) = (asked(3), Numbered::new(0, 1, 1));
        let whole = read(&mut client, &mut numbered, b"2 \n0 \n1");
        assert_eq!(whole, (Ok(6), vec![2, 0]));
        let again = read(&mut client, &mut numbered, b"0 \n");
        assert_eq!(again, (Err(CodecError::unasked(b"0 \n")), vec![]));
        assert_eq!(read(&mut client, &mut numbered, b"1 \n"), (Ok(3), vec![1]));
        assert_eq!(
            read(&mut client, &mut numbered, b"3 \n4 \n"),
            (Err(CodecError::unasked(b"3 \n4 \n")), vec![])
        );
    }

    #[test]
    fn behind_a_last_answer_nothing_is_to_come_and_who_waits_has_none() {
        let mut single = Bytes::new(2);
        let mut client = asked(1);
        assert_eq!(read(&mut client, &mut single, b"ab"), (Ok(2), vec![0]));
        assert_eq!((client.is_last, client.is_broken), (true, false));
        let more = read(&mut client, &mut single, b"ab");
        assert_eq!(more, (Err(CodecError::unasked(b"ab")), vec![]));

        let mut client = asked(2);
        assert_eq!(read(&mut client, &mut single, b"abab"), (Ok(4), vec![0]));
        assert_eq!(
            (client.is_last, client.is_broken, client.waiting.len()),
            (false, true, 1)
        );

        let mut client = asked(2);
        assert_eq!(read(&mut client, &mut Bytes::kept(2), b"aba"), (Ok(3), vec![0]));
        assert_eq!(
            (client.is_last, client.is_broken, client.answered),
            (false, false, 1)
        );
    }
}
