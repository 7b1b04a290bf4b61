//! Groups: every message of a member goes to the others of its group, in a closed or an open loop.

use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use rustix::thread::set_current_timer_slack;
use threadgauge_machine::clock::{monotonic_ns, thread_cpu_ns};

use crate::arrivals::{Arrivals, Schedule};
use crate::codec::{Codec, Event};
use crate::crowd::Crowd;
use crate::error::LoadError;
use crate::faults::Faults;
use crate::latency::Latency;
use crate::ledger::{Heard, Ledger, Times};

/// Between two attempts to send what sockets did not take.
const CLOGGED: Duration = Duration::from_millis(1);
/// Connections that are made before they are greeted: fewer than any server lets wait.
const STEP: usize = 64;
/// Of its own CPU time, the most that a driver under a fixed rate may use.
const BUSIEST: f64 = 0.85;
/// Of the rate asked for, the least that must be reached.
const LEAST_PACE: f64 = 0.99;

/// Who is there, and what they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In all groups; a multiple of `group_size`.
    pub connections: usize,
    /// Members of a group.
    pub group_size: usize,
    /// Of a message, without what the protocol adds.
    pub payload_bytes: usize,
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
#[derive(Clone, Debug)]
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
    /// How fast deliveries came over how fast they were to come, each from the first to the last: under 1 where the
    /// server fell behind. `None` in a closed loop.
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
    pub fn flaw(&self) -> Option<Flaw> {
        let pace = self.pace?;
        if pace < LEAST_PACE {
            return Some(Flaw::Slow);
        }
        (self.driver_share() > BUSIEST).then_some(Flaw::Busy)
    }
}

/// Why latencies under a fixed rate are not to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The rate asked for was not there.
    #[error("under 99 % of the rate was reached")]
    Slow,
    /// The driver may have been what was waited for.
    #[error("the driver used over 85 % of its CPU")]
    Busy,
}

/// From the first of several moments to the last, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch(Option<[u64; 2]>);

impl Stretch {
    /// Moments come in order.
    fn reach(&mut self, now_ns: u64) {
        let first_ns = self.0.map_or(now_ns, |[first_ns, _]| first_ns);
        self.0 = Some([first_ns, now_ns]);
    }

    /// Its length. Never nought, so that a single message keeps its pace.
    fn ns(self) -> f64 {
        self.0
            .map_or(1.0, |[first_ns, last_ns]| (last_ns - first_ns).max(1) as f64)
    }
}

/// Groups that are connected, each member to receive what its group is sent.
#[derive(Debug)]
pub struct Groups {
    codec: &'static dyn Codec,
    crowd: Crowd,
    ledger: Ledger,
    plan: Plan,
    payload: Vec<u8>,
    /// What servers wanted as answers, by whom.
    answers: Vec<(usize, &'static [u8])>,
    /// When something came last, or was first to come.
    heard_ns: u64,
    /// When to look next for messages that are overdue.
    look_ns: u64,
}

impl Groups {
    /// Connects all, and comes back when the server has answered every greeting. Blocks meanwhile.
    ///
    /// # Errors
    ///
    /// If a connection fails, or a greeting is not answered.
    ///
    /// # Panics
    ///
    /// If the plan is none: groups do not come out even, or messages are smaller or larger than can be.
    pub fn connect(server: SocketAddr, codec: &'static dyn Codec, plan: Plan) -> Result<Self, LoadError> {
        let ledger = Ledger::new(
            plan.connections,
            plan.group_size,
            codec.echoes(),
            plan.payload_bytes,
        );
        let mut groups = Self {
            codec,
            crowd: Crowd::new()?,
            ledger,
            plan,
            payload: Vec::new(),
            answers: Vec::new(),
            heard_ns: monotonic_ns(),
            look_ns: 0,
        };
        while groups.crowd.len() < plan.connections {
            let first = groups.crowd.len();
            let last = plan.connections.min(first + STEP);
            for connection in first..last {
                groups.crowd.connect(server)?;
                let group = connection / plan.group_size;
                groups
                    .crowd
                    .say(connection, |unsent| codec.greet(connection, group, unsent));
            }
            groups.wait_until_greeted(last - first)?;
        }
        Ok(groups)
    }

    fn wait_until_greeted(&mut self, mut missing: usize) -> Result<(), LoadError> {
        while missing > 0 {
            let limit = self.flush()?;
            let mut ready = 0;
            if self.turn(limit, &mut ready, |_| {})? {
                return Err(LoadError::NotGreeted(missing, self.plan.patience));
            }
            missing = missing.saturating_sub(ready);
        }
        Ok(())
    }

    /// Talks for `span`, then waits until all that is on its way has arrived. Blocks meanwhile. May be called again.
    ///
    /// In a closed loop each speaks at least once, however short the span.
    ///
    /// # Errors
    ///
    /// If a connection fails, and at its end with [`LoadError::Faulty`] if a delivery was not as it must be.
    pub fn talk(&mut self, load: Load, span: Duration) -> Result<Tally, LoadError> {
        // Sleeping to the microsecond: the default slack of 50 µs would be in every latency.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let (start_ns, cpu_ns, delivered) = (monotonic_ns(), thread_cpu_ns(), self.ledger.delivered);
        let mut tally = Tally {
            messages: 0,
            deliveries: 0,
            faults: Faults::default(),
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            latency: Latency::default(),
            service: Latency::default(),
            last: Latency::default(),
            lateness: Latency::default(),
            pace: None,
        };
        self.heard_ns = start_ns;
        let end_ns = start_ns + span.as_nanos() as u64;
        match load {
            Load::Closed { outstanding } => self.closed(outstanding, end_ns, &mut tally)?,
            Load::Open {
                deliveries_per_second,
                arrivals,
                seed,
            } => {
                let copies = self.plan.group_size - usize::from(!self.codec.echoes());
                let schedule = Schedule::new(arrivals, deliveries_per_second / copies as f64, seed);
                let starts = schedule.map(|at_ns| start_ns + at_ns);
                self.open(starts.take_while(|&at_ns| at_ns < end_ns), seed, &mut tally)?;
            }
        }
        tally.deliveries = self.ledger.delivered - delivered;
        tally.elapsed = Duration::from_nanos(monotonic_ns() - start_ns);
        tally.cpu = Duration::from_nanos(thread_cpu_ns() - cpu_ns);
        tally.faults = self.ledger.take_faults();
        if tally.faults.is_empty() {
            Ok(tally)
        } else {
            Err(LoadError::Faulty(Box::new(tally)))
        }
    }

    fn closed(&mut self, outstanding: NonZeroUsize, end_ns: u64, tally: &mut Tally) -> Result<(), LoadError> {
        let members = 0..self.plan.connections;
        let mut speakers: Vec<usize> = members
            .flat_map(|member| std::iter::repeat_n(member, outstanding.get()))
            .collect();
        let mut now_ns = monotonic_ns();
        loop {
            for speaker in speakers.drain(..) {
                self.speak(speaker, [now_ns; 2], tally);
            }
            let limit = self.flush()?;
            if self.ledger.on_the_way == 0 {
                return Ok(());
            }
            let last = &mut tally.last;
            let is_silent = self.listen(limit, |heard| {
                if heard.by_all {
                    speakers.push(heard.sender);
                    last.record(monotonic_ns().saturating_sub(heard.times.intended_ns));
                }
            })?;
            now_ns = monotonic_ns();
            self.give_up(is_silent, now_ns, |sender| speakers.push(sender));
            if is_silent {
                return Ok(());
            }
            if now_ns >= end_ns {
                speakers.clear();
            }
        }
    }

    fn open(
        &mut self,
        starts: impl Iterator<Item = u64>,
        seed: u64,
        tally: &mut Tally,
    ) -> Result<(), LoadError> {
        let mut dice = fastrand::Rng::with_seed(!seed);
        let mut starts = starts.peekable();
        let (mut intended, mut delivered) = (Stretch::default(), Stretch::default());
        loop {
            let now_ns = monotonic_ns();
            while let Some(at_ns) = starts.next_if(|&at_ns| at_ns <= now_ns) {
                self.speak(dice.usize(..self.plan.connections), [at_ns, now_ns], tally);
                tally.lateness.record(now_ns - at_ns);
                intended.reach(at_ns);
            }
            let limit = self.flush()?;
            let limit = match starts.peek() {
                None if self.ledger.on_the_way == 0 => {
                    tally.pace = Some(intended.ns() / delivered.ns());
                    return Ok(());
                }
                None => limit,
                Some(at_ns) => limit.min(Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()))),
            };
            let Tally {
                latency,
                service,
                last,
                ..
            } = &mut *tally;
            let is_silent = self.listen(limit, |heard| {
                // One look at the clock a turn would call early what came while a turn went on; one a delivery is
                // cheap.
                let now_ns = monotonic_ns();
                let took_ns = now_ns.saturating_sub(heard.times.intended_ns);
                latency.record(took_ns);
                service.record(now_ns.saturating_sub(heard.times.sent_ns));
                if heard.by_all {
                    last.record(took_ns);
                }
                delivered.reach(now_ns);
            })?;
            self.give_up(is_silent, monotonic_ns(), |_| {});
            if is_silent && starts.peek().is_some() {
                // With what did not come it is not at the pace asked for.
                tally.pace = Some(0.0);
                return Ok(());
            }
        }
    }

    fn speak(&mut self, speaker: usize, [intended_ns, sent_ns]: [u64; 2], tally: &mut Tally) {
        if self.ledger.on_the_way == 0 {
            // Until now there was nothing to be heard.
            self.heard_ns = sent_ns;
        }
        let times = Times { intended_ns, sent_ns };
        self.ledger.sends(speaker, times, &mut self.payload);
        let (codec, group, payload) = (self.codec, speaker / self.plan.group_size, &self.payload);
        self.crowd
            .say(speaker, |unsent| codec.publish(group, payload, unsent));
        tally.messages += 1;
    }

    /// Sends what waits, and tells how long to wait for an answer.
    fn flush(&mut self) -> Result<Duration, LoadError> {
        Ok(if self.crowd.flush()? {
            self.plan.patience
        } else {
            CLOGGED
        })
    }

    /// As [`turn`](Self::turn), where silence counts only while something is on its way.
    fn listen(&mut self, limit: Duration, hear: impl FnMut(Heard)) -> Result<bool, LoadError> {
        Ok(self.turn(limit, &mut 0, hear)? && self.ledger.on_the_way > 0)
    }

    /// Counts as lost what is overdue, or all that is on its way where nothing comes any more. `freed` is told the
    /// sender of each message that nobody waits for any more.
    fn give_up(&mut self, is_silent: bool, now_ns: u64, freed: impl FnMut(usize)) {
        let patience_ns = self.plan.patience.as_nanos() as u64;
        if is_silent {
            self.ledger.give_up(u64::MAX, freed);
        } else if now_ns >= self.look_ns {
            self.look_ns = now_ns + patience_ns / 4;
            self.ledger.give_up(now_ns.saturating_sub(patience_ns), freed);
        }
    }

    /// Waits at most `limit`, checks what came and tells `hear` of every delivery; counts greetings that were answered
    /// in `ready`. Whether nothing has come for as long as the plan's patience.
    fn turn(
        &mut self,
        limit: Duration,
        ready: &mut usize,
        mut hear: impl FnMut(Heard),
    ) -> Result<bool, LoadError> {
        let (codec, ledger, answers) = (self.codec, &mut self.ledger, &mut self.answers);
        let heard = self.crowd.hear(limit, |connection, input| {
            let mut used = 0;
            loop {
                let next = codec.next(&input[used..]);
                let Some(frame) = next.map_err(|source| LoadError::Codec { connection, source })? else {
                    return Ok(used);
                };
                used += frame.bytes;
                match frame.event {
                    Event::Delivery(payload) => {
                        if let Some(heard) = ledger.receives(connection, payload) {
                            hear(heard);
                        }
                    }
                    Event::Ready => *ready += 1,
                    Event::Wants(answer) => answers.push((connection, answer)),
                    Event::Noise => {}
                }
            }
        })?;
        for (connection, answer) in self.answers.drain(..) {
            self.crowd
                .say(connection, |unsent| unsent.extend_from_slice(answer));
        }
        // By the clock, since waiting may end early.
        let now_ns = monotonic_ns();
        if heard > 0 {
            self.heard_ns = now_ns;
        }
        Ok(Duration::from_nanos(now_ns.saturating_sub(self.heard_ns)) >= self.plan.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_falls_behind_or_a_driver_without_time_is_a_flaw() {
        let flaw = |pace, cpu_ms| {
            let tally = Tally {
                messages: 1,
                deliveries: 9,
                faults: Faults::default(),
                elapsed: Duration::from_secs(1),
                cpu: Duration::from_millis(cpu_ms),
                latency: Latency::default(),
                service: Latency::default(),
                last: Latency::default(),
                lateness: Latency::default(),
                pace,
            };
            tally.flaw()
        };
        assert_eq!(flaw(Some(0.99), 850), None);
        assert_eq!(flaw(Some(0.989), 850), Some(Flaw::Slow));
        assert_eq!(flaw(Some(0.99), 851), Some(Flaw::Busy));
        assert_eq!(flaw(None, 1_000), None, "a closed loop takes what it can");
    }

    #[test]
    fn a_stretch_is_from_the_first_to_the_last() {
        let mut stretch = Stretch::default();
        [10, 30, 50].into_iter().for_each(|ns| stretch.reach(ns));
        assert_eq!(stretch.ns(), 40.0);
    }
}
