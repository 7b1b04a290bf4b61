//! Groups: every message of a member goes to the others of its group, in a closed or an open loop.

mod connecting;
mod scribes;

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use rustix::thread::set_current_timer_slack;
use threadgauge_machine::clock::{monotonic_ns, thread_cpu_ns};

use crate::arrivals::{Arrivals, Ramp, Schedule};
use crate::client_pool::ClientPool;
use crate::codec::{Answers, Codec, CodecError, Event, Frames};
use crate::delivery_checker::{DeliveryChecker, GivenUp, Heard, Times};
use crate::error::LoadError;
use crate::faults::Faults;
use crate::latency::Latency;
use crate::proof::{BUSIEST, InvalidRun, LEAST_PACE};
use crate::record::{Failure, Record, Recorder, Watch};
use crate::sizes::Sizes;
use crate::speakers::{Bounds, Speakers, Think};

use scribes::{Counting, Keeping, Scribe, Timing};

pub use connecting::IfFewer;

/// Between two attempts to send what sockets did not take.
const CLOGGED: Duration = Duration::from_millis(1);
/// The longest wait without a look at whether to go on.
const LOOK: Duration = Duration::from_millis(100);
/// In an open loop, messages that are sent between two looks at what came and at whether to go on: a rate beyond what
/// the driver can do has more of them due each time.
const AT_ONCE: usize = 1024;
/// In an open loop, messages that are given up between two such looks.
const GIVEN_UP_AT_ONCE: usize = 64 * AT_ONCE;
/// In an open loop, no more is written while so much waits for sockets to take it: it would wait here for longer than
/// the plan's patience, and not at the server.
const MOST_UNSENT_BYTES: usize = 8 << 20;

/// Who is there, and what they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In all groups; a multiple of `group_size`.
    pub connections: usize,
    /// Members of a group.
    pub group_size: usize,
    /// Of messages, without what the protocol adds.
    pub payload_bytes: Sizes,
    /// What does not come within this time of being sent is lost. A server that sends nothing at all for so long,
    /// although something is missing, ends the run.
    pub patience: Duration,
}

/// When members send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Each has so many messages on their way, and sends the next when all who are to receive the oldest have it.
    Closed {
        /// Messages on their way for each member.
        outstanding: NonZeroUsize,
    },
    /// As [`Closed`](Self::Closed), with a thought between that moment and the next message.
    Thinking {
        /// Messages on their way, or thought of, for each member.
        outstanding: NonZeroUsize,
        /// The mean time from when all have a message to the next.
        think: Duration,
        /// Whether all thoughts are equally long.
        arrivals: Arrivals,
        /// Of the thoughts.
        seed: u64,
    },
    /// As [`Closed`](Self::Closed), until each has sent so many: the span does not count.
    Counted {
        /// Messages of each member.
        messages: u64,
        /// Messages on their way for each member.
        outstanding: NonZeroUsize,
    },
    /// At a fixed rate, whatever becomes of those before; each by a member chosen at random.
    Open {
        /// Deliveries a second, of all together.
        deliveries_per_second: f64,
        /// How messages follow each other.
        arrivals: Arrivals,
        /// Of the arrivals and of who sends.
        seed: u64,
    },
}

/// What a span of talking came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Messages sent.
    pub messages: u64,
    /// Deliveries received, each checked and as it must be.
    pub deliveries: u64,
    /// Those that were not.
    pub faults: Faults,
    /// From the first message until the last delivery.
    pub elapsed: Duration,
    /// CPU time of the driver, which is the calling thread.
    pub cpu: Duration,
    /// Of deliveries, from the intended start of their message; empty in a closed loop, which has none.
    pub latency: Latency,
    /// Of deliveries, from when their message was sent: without the time that it waited for the driver. Empty in a
    /// closed loop.
    pub service: Latency,
    /// Of messages, from their intended start until the last of their group has them.
    pub last: Latency,
    /// How late messages were sent, after their intended start; empty in a closed loop.
    pub lateness: Latency,
    /// The share of deliveries that were to come whose messages were sent on schedule. `None` in a closed loop.
    pub pace: Option<f64>,
}

impl Tally {
    /// Deliveries a second.
    pub fn rate(&self) -> f64 {
        self.deliveries as f64 / self.elapsed.as_secs_f64()
    }

    /// The share of its CPU that the driver used.
    pub fn driver_share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.elapsed.as_secs_f64()
    }

    /// Why a run under a fixed rate is invalid, if it is. A closed loop never is.
    pub fn invalid(&self) -> Option<InvalidRun> {
        let pace = self.pace?;
        if pace < LEAST_PACE {
            return Some(InvalidRun::Slow);
        }
        (self.driver_share() > BUSIEST).then_some(InvalidRun::Busy)
    }
}

/// Groups that are connected, each member to receive what its group is sent.
#[derive(Debug)]
pub struct Groups {
    codec: &'static dyn Codec,
    pool: ClientPool,
    checker: DeliveryChecker,
    plan: Plan,
    /// The number that the first group has at the server.
    first_group: usize,
    payload: Vec<u8>,
    answers: Answers,
    /// When something came last, or was first to come.
    heard_ns: u64,
    /// When to look next for messages that are overdue.
    look_ns: u64,
    /// How long to listen after the last delivery.
    listens_on: Duration,
}

/// How a span of talking ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// All was said.
    All,
    /// It was told to end, or the server went silent.
    Early,
}

impl Groups {
    /// Deliveries of one message.
    pub fn copies(&self) -> u64 {
        self.checker.copies()
    }

    /// How many connections take part.
    pub fn connections(&self) -> usize {
        self.plan.connections
    }

    /// Talks for `span`, then waits until all that is on its way has arrived. Blocks meanwhile. May be called again.
    ///
    /// In a closed loop without thoughts each speaks at least once, however short the span.
    ///
    /// # Errors
    ///
    /// If a connection fails, and at its end with [`LoadError::Faulty`] if a delivery was not as it must be.
    pub fn talk(&mut self, load: Load, span: Duration) -> Result<Tally, LoadError> {
        let (start_ns, cpu_ns, delivered) = (monotonic_ns(), thread_cpu_ns(), self.checker.delivered);
        let mut tally = Tally::default();
        match load {
            Load::Closed { .. } | Load::Thinking { .. } | Load::Counted { .. } => {
                self.speak_all(
                    load,
                    start_ns,
                    Ramp::hold(span),
                    u64::MAX,
                    &mut Counting(&mut tally),
                )?;
            }
            Load::Open { .. } => {
                let mut timing = Timing::new(&mut tally, start_ns, span);
                let ended = self.speak_all(load, start_ns, Ramp::hold(span), u64::MAX, &mut timing)?;
                let pace = timing.pace();
                tally.pace = match ended {
                    Ended::All => pace,
                    // With what did not come it is not at the pace asked for.
                    Ended::Early => Some(0.0),
                };
            }
        }
        tally.deliveries = self.checker.delivered - delivered;
        tally.elapsed = Duration::from_nanos(monotonic_ns() - start_ns);
        tally.cpu = Duration::from_nanos(thread_cpu_ns() - cpu_ns);
        tally.faults = self.checker.take_faults();
        if tally.faults.is_empty() {
            Ok(tally)
        } else {
            Err(LoadError::Faulty(Box::new(tally)))
        }
    }

    /// As [`talk`](Self::talk), with all that a [`Record`] has, whatever was wrong with deliveries: its
    /// [`faults`](Record::faults) say so. No more than `most` messages are sent. What the record calls answers are
    /// deliveries. A connection that fails ends the run, which keeps what it has measured.
    ///
    /// # Errors
    ///
    /// If waiting fails.
    pub fn run(
        &mut self,
        load: Load,
        span: Duration,
        most: u64,
        watch: &mut dyn Watch,
    ) -> Result<Record, LoadError> {
        self.run_ramped(load, Ramp::hold(span), most, watch)
    }

    /// As [`run`](Self::run), with a rate that rises, holds and falls; in a closed loop members come one after another
    /// and go so. Latencies and rates are of what was to start while it held, those until the last receiver of all.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_ramped(
        &mut self,
        load: Load,
        ramp: Ramp,
        most: u64,
        watch: &mut dyn Watch,
    ) -> Result<Record, LoadError> {
        let delivered = self.checker.delivered;
        let rate = match load {
            Load::Open {
                deliveries_per_second,
                ..
            } => Some(deliveries_per_second),
            Load::Closed { .. } | Load::Thinking { .. } | Load::Counted { .. } => None,
        };
        let mut recorder = Recorder::begin(ramp, rate, watch);
        let start_ns = recorder.start_ns();
        recorder.record.connects = self.plan.connections as u64;
        recorder.record.last = Some(Latency::default());
        let mut keeping = Keeping::new(&mut recorder, most);
        let ended = self.speak_all(load, start_ns, ramp, most, &mut keeping);
        keeping.ends();
        let ended = ended.and_then(|ended| match ended {
            Ended::All => self.hear_out(&mut keeping).map(|()| ended),
            Ended::Early => Ok(ended),
        });
        // What is still on its way took until now at least.
        let now_ns = monotonic_ns();
        for (times, missing) in self.checker.on_their_way() {
            keeping.loses(times, now_ns, missing);
        }
        match ended {
            // All has come: what is no whole message is none that anybody waits for.
            Ok(Ended::All) if !self.listens_on.is_zero() => {
                for (_, bytes) in self.pool.unused() {
                    let failures = &mut recorder.record.failures;
                    failures.quote(Failure::Unasked, CodecError::unasked(bytes));
                    recorder.faults(Failure::Unasked);
                }
            }
            Ok(_) => {}
            Err(error @ LoadError::Wait(_)) => return Err(error),
            Err(error) => {
                let kind = error.kind();
                recorder.record.failures.count(kind);
                recorder.record.failures.quote(kind, error);
                recorder.record.ended_early = true;
            }
        }
        recorder.record.faults = Some(self.checker.take_faults());
        // Without those that came with other bytes.
        recorder.record.answered = self.checker.delivered - delivered;
        Ok(recorder.finish())
    }

    /// Has each [`run`](Self::run) listen for so long after its last delivery, for what is not to come any more. This
    /// time is in no figure.
    pub fn listen_on(&mut self, span: Duration) {
        self.listens_on = span;
    }

    /// Everything has come; what comes now is checked, too.
    fn hear_out(&mut self, scribe: &mut impl Scribe) -> Result<(), LoadError> {
        let begun_ns = monotonic_ns();
        loop {
            let now_ns = monotonic_ns();
            let left = self
                .listens_on
                .saturating_sub(Duration::from_nanos(now_ns - begun_ns));
            if left.is_zero() || !scribe.goes_on(now_ns, 0) {
                return Ok(());
            }
            self.listen(left, scribe, |_| {})?;
        }
    }

    /// Speaks as the load has it, and tells the scribe of all that is said and heard.
    fn speak_all(
        &mut self,
        load: Load,
        start_ns: u64,
        ramp: Ramp,
        most: u64,
        scribe: &mut impl Scribe,
    ) -> Result<Ended, LoadError> {
        // Sleeping to the microsecond: the default slack of 50 µs would be in every latency.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        self.heard_ns = start_ns;
        // Greetings are not part of what is said.
        self.pool.take_received_bytes();
        let timed = Bounds {
            ramp: Some(ramp),
            most,
            of_each: u64::MAX,
        };
        match load {
            Load::Closed { outstanding } => self.closed(outstanding, Think::NONE, timed, scribe),
            Load::Thinking {
                outstanding,
                think,
                arrivals,
                seed,
            } => {
                let think = Think {
                    mean: think,
                    arrivals,
                    seed,
                };
                self.closed(outstanding, think, timed, scribe)
            }
            Load::Counted {
                messages,
                outstanding,
            } => {
                let bounds = Bounds {
                    ramp: None,
                    most,
                    of_each: messages,
                };
                self.closed(outstanding, Think::NONE, bounds, scribe)
            }
            Load::Open {
                deliveries_per_second,
                arrivals,
                seed,
            } => {
                let per_second = deliveries_per_second / self.checker.copies() as f64;
                let starts = Schedule::ramped(arrivals, per_second, ramp, seed).map(|at_ns| start_ns + at_ns);
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let ends_ns = start_ns + (ramp.total() + self.plan.patience).as_nanos() as u64;
                self.open(starts.take(most), ends_ns, seed, scribe)
            }
        }
    }

    fn closed(
        &mut self,
        outstanding: NonZeroUsize,
        think: Think,
        bounds: Bounds,
        scribe: &mut impl Scribe,
    ) -> Result<Ended, LoadError> {
        let members = 0..self.plan.connections;
        let mut now_ns = monotonic_ns();
        let mut speakers = Speakers::new(members, outstanding, think, bounds, now_ns);
        let mut freed: Vec<usize> = Vec::new();
        loop {
            speakers.speak(now_ns, |speaker, at_ns| {
                self.speak(speaker, [at_ns, now_ns], scribe);
            });
            let limit = self.flush()?;
            if self.checker.on_the_way == 0 && speakers.is_done() {
                return Ok(Ended::All);
            }
            if !scribe.goes_on(now_ns, self.checker.on_the_way) {
                return Ok(Ended::Early);
            }
            let limit = speakers.pause(now_ns).map_or(limit, |pause| limit.min(pause));
            let is_silent = self.listen(limit, scribe, |heard| {
                if heard.by_all {
                    freed.push(heard.sender);
                }
            })?;
            now_ns = monotonic_ns();
            self.give_up(is_silent, now_ns, scribe, |sender| freed.push(sender));
            if is_silent {
                return Ok(Ended::Early);
            }
            freed
                .drain(..)
                .for_each(|speaker| speakers.freed(speaker, now_ns));
        }
    }

    /// What could not be sent by `ends_ns` is given up.
    fn open(
        &mut self,
        starts: impl Iterator<Item = u64>,
        ends_ns: u64,
        seed: u64,
        scribe: &mut impl Scribe,
    ) -> Result<Ended, LoadError> {
        let mut dice = fastrand::Rng::with_seed(!seed);
        let mut starts = starts.peekable();
        let (mut at_once, mut ended) = (AT_ONCE, Ended::All);
        loop {
            let now_ns = monotonic_ns();
            let gives_up = now_ns >= ends_ns;
            let mut said_bytes = 0;
            for _ in 0..if gives_up { GIVEN_UP_AT_ONCE } else { at_once } {
                let Some(at_ns) = starts.next_if(|&at_ns| at_ns <= now_ns) else {
                    break;
                };
                if gives_up {
                    ended = Ended::Early;
                    scribe.gives_up(at_ns, now_ns, self.checker.copies());
                } else {
                    said_bytes += self.speak(dice.usize(..self.plan.connections), [at_ns, now_ns], scribe);
                }
                if said_bytes >= MOST_UNSENT_BYTES {
                    break;
                }
            }
            if !scribe.goes_on(now_ns, self.checker.on_the_way) {
                return Ok(Ended::Early);
            }
            let limit = self.flush()?;
            at_once = match self.pool.unsent_bytes() {
                ..MOST_UNSENT_BYTES => AT_ONCE,
                _ => 0,
            };
            let limit = match starts.peek() {
                None if self.checker.on_the_way == 0 => return Ok(ended),
                None => limit,
                Some(_) if at_once == 0 && !gives_up => limit,
                Some(at_ns) => limit.min(Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()))),
            };
            let is_silent = self.listen(limit, scribe, |_| {})?;
            self.give_up(is_silent, monotonic_ns(), scribe, |_| {});
            if is_silent && starts.peek().is_some() {
                return Ok(Ended::Early);
            }
        }
    }

    /// How many bytes it takes.
    fn speak(&mut self, speaker: usize, [intended_ns, sent_ns]: [u64; 2], scribe: &mut impl Scribe) -> usize {
        if self.checker.on_the_way == 0 {
            // Until now there was nothing to be heard.
            self.heard_ns = sent_ns;
        }
        let times = Times { intended_ns, sent_ns };
        self.checker.sends(speaker, times, &mut self.payload);
        let group = self.first_group + speaker / self.plan.group_size;
        let (codec, payload) = (self.codec, &self.payload);
        let mut bytes = 0;
        self.pool.say(speaker, |unsent| {
            let before = unsent.len();
            codec.publish(group, payload, unsent);
            bytes = unsent.len() - before;
        });
        scribe.speaks(times, bytes, self.checker.copies());
        bytes
    }

    /// Sends what waits, and tells how long to wait for an answer.
    fn flush(&mut self) -> Result<Duration, LoadError> {
        Ok(if self.pool.flush()? {
            self.plan.patience
        } else {
            CLOGGED
        })
    }

    /// Waits at most `limit`, checks what came and tells of every delivery, and when the read that brought it returned.
    /// Whether nothing has come for as long as the plan's patience although something is on its way.
    fn listen(
        &mut self,
        limit: Duration,
        scribe: &mut impl Scribe,
        mut hear: impl FnMut(Heard),
    ) -> Result<bool, LoadError> {
        let (limit, from_ns, mut woke_ns) = (limit.min(LOOK), monotonic_ns(), None);
        let (codec, checker, answers) = (self.codec, &mut self.checker, &mut self.answers);
        let heard = self.pool.hear(limit, |connection, input| {
            let (mut frames, mut read_ns) = (Frames::of(codec, input), None);
            let lost = |source| LoadError::Codec { connection, source };
            while let Some(event) = frames.next_event().map_err(lost)? {
                match event {
                    Event::Delivery(payload) => {
                        if let Some(heard) = checker.receives(connection, payload) {
                            let at_ns = *read_ns.get_or_insert_with(monotonic_ns);
                            woke_ns.get_or_insert(at_ns);
                            scribe.hears(heard, at_ns);
                            hear(heard);
                        }
                    }
                    // All were greeted before.
                    Event::Ready => {
                        return Err(lost(CodecError::Unasked("an answer to a greeting".to_owned())));
                    }
                    Event::Wants(answer) => answers.want(connection, answer),
                    Event::Noise => {}
                }
            }
            Ok(frames.used())
        });
        scribe.receives(self.pool.take_received_bytes());
        let heard = heard?;
        let mut unread = None;
        self.answers
            .say(&mut self.pool, |_, error| unread = unread.take().or(Some(error)));
        if let Some(error) = unread {
            return Err(error);
        }
        // By the clock, since waiting may end early.
        let now_ns = monotonic_ns();
        scribe.waited(from_ns, woke_ns.unwrap_or(now_ns), limit);
        if heard > 0 {
            self.heard_ns = now_ns;
        }
        let is_silent = Duration::from_nanos(now_ns.saturating_sub(self.heard_ns)) >= self.plan.patience;
        Ok(is_silent && self.checker.on_the_way > 0)
    }

    /// Counts as lost what is overdue, or all that is on its way where nothing comes any more. `freed` is told the
    /// sender of each message that nobody waits for any more.
    fn give_up(
        &mut self,
        is_silent: bool,
        now_ns: u64,
        scribe: &mut impl Scribe,
        mut freed: impl FnMut(usize),
    ) {
        let patience_ns = self.plan.patience.as_nanos() as u64;
        let tell = |of: GivenUp| {
            if of.lost > 0 {
                scribe.loses(of.times, now_ns, of.lost);
            }
            freed(of.sender);
        };
        if is_silent {
            self.checker.give_up(u64::MAX, tell);
        } else if now_ns >= self.look_ns {
            self.look_ns = now_ns + patience_ns / 4;
            self.checker.give_up(now_ns.saturating_sub(patience_ns), tell);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;
    use crate::codec::Chat;
    use crate::testing::PATIENCE;

    #[test]
    fn rates_and_shares_are_of_the_time_that_it_took() {
        let tally = Tally {
            deliveries: 300,
            elapsed: Duration::from_secs(4),
            cpu: Duration::from_secs(3),
            ..Tally::default()
        };
        assert_eq!((tally.rate(), tally.driver_share()), (75.0, 0.75));
    }

    #[test]
    fn whoever_has_just_said_something_is_not_silent_though_more_is_missing() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let greeter = thread::spawn(move || {
            [(); 2].map(|()| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(b"joined 0\n").unwrap();
                BufReader::new(stream)
            })
        });
        let plan = Plan {
            connections: 2,
            group_size: 2,
            payload_bytes: 64.into(),
            patience: PATIENCE,
        };
        let mut groups = Groups::connect(at, &Chat, plan).unwrap();
        let [mut speaker, mut hearer] = greeter.join().unwrap();
        let mut tally = Tally::default();
        let mut scribe = Counting(&mut tally);
        for _ in 0..2 {
            groups.speak(0, [monotonic_ns(); 2], &mut scribe);
        }
        groups.flush().unwrap();
        let [mut greeting, mut message] = [(); 2].map(|()| String::new());
        speaker.read_line(&mut greeting).unwrap();
        speaker.read_line(&mut message).unwrap();
        hearer.get_mut().write_all(message.as_bytes()).unwrap();
        // No time passes between what came and the look at whether it is long ago.
        groups.plan.patience = Duration::from_nanos(1);
        let (mut heard, mut is_silent) = (0, false);
        while heard == 0 {
            is_silent = groups.listen(LOOK, &mut scribe, |_| heard += 1).unwrap();
        }
        assert!(!is_silent);
        assert!(groups.listen(LOOK, &mut scribe, |_| heard += 1).unwrap());
        assert_eq!(heard, 1, "the other was not passed on");
    }

    #[test]
    fn a_server_that_falls_behind_or_a_driver_without_time_is_a_flaw() {
        let reason = |pace, cpu_ms| {
            let tally = Tally {
                elapsed: Duration::from_secs(1),
                cpu: Duration::from_millis(cpu_ms),
                pace,
                ..Tally::default()
            };
            tally.invalid()
        };
        assert_eq!(reason(Some(0.99), 850), None);
        assert_eq!(reason(Some(0.989), 850), Some(InvalidRun::Slow));
        assert_eq!(reason(Some(0.99), 851), Some(InvalidRun::Busy));
        assert_eq!(reason(None, 1_000), None, "a closed loop takes what it can");
    }
}
