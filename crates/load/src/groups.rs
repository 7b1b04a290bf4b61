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
use crate::latency::Latency;
use crate::ledger::{Heard, Ledger};
use crate::proof::{BUSIEST, Flaw, LEAST_PACE};
use crate::record::Stretch;

/// Between two attempts to send what sockets did not take.
const CLOGGED: Duration = Duration::from_millis(1);
/// Connections that are made before they are greeted: fewer than any server lets wait.
const STEP: usize = 64;

/// Who is there, and what they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In all groups; a multiple of `group_size`.
    pub connections: usize,
    /// Members of a group.
    pub group_size: usize,
    /// Of a message, without what the protocol adds.
    pub payload_bytes: usize,
    /// A server that sends nothing for so long, although something is missing, has lost it.
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
    /// Deliveries received, each checked.
    pub deliveries: u64,
    /// From the first message until the last delivery.
    pub elapsed: Duration,
    /// CPU time of the driver, which is the calling thread.
    pub cpu: Duration,
    /// Of deliveries, from the intended start of their message; empty in a closed loop, which has none.
    pub latency: Latency,
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
    /// If a connection fails, a delivery is not the one that must come next, or one is missing.
    pub fn talk(&mut self, load: Load, span: Duration) -> Result<Tally, LoadError> {
        // Sleeping to the microsecond: the default slack of 50 µs would be in every latency.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let (start_ns, cpu_ns, delivered) = (monotonic_ns(), thread_cpu_ns(), self.ledger.delivered);
        let mut tally = Tally {
            messages: 0,
            deliveries: 0,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            latency: Latency::default(),
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
        Ok(tally)
    }

    fn closed(&mut self, outstanding: NonZeroUsize, end_ns: u64, tally: &mut Tally) -> Result<(), LoadError> {
        let members = 0..self.plan.connections;
        let mut speakers: Vec<usize> = members
            .flat_map(|member| std::iter::repeat_n(member, outstanding.get()))
            .collect();
        let mut now_ns = monotonic_ns();
        loop {
            for speaker in speakers.drain(..) {
                self.speak(speaker, now_ns, tally);
            }
            let limit = self.flush()?;
            if self.ledger.on_the_way == 0 {
                return Ok(());
            }
            self.listen(limit, |heard| {
                if heard.by_all {
                    speakers.push(heard.sender);
                }
            })?;
            now_ns = monotonic_ns();
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
                self.speak(dice.usize(..self.plan.connections), at_ns, tally);
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
            let latency = &mut tally.latency;
            self.listen(limit, |heard| {
                // One look at the clock a turn would call early what came while a turn went on; one a delivery is
                // cheap.
                let now_ns = monotonic_ns();
                latency.record(now_ns.saturating_sub(heard.intended_ns));
                delivered.reach(now_ns);
            })?;
        }
    }

    fn speak(&mut self, speaker: usize, intended_ns: u64, tally: &mut Tally) {
        if self.ledger.on_the_way == 0 {
            // Until now there was nothing to be heard.
            self.heard_ns = intended_ns;
        }
        self.ledger.sends(speaker, intended_ns, &mut self.payload);
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

    /// As [`turn`](Self::turn), and a long silence is an error where something is on its way.
    fn listen(&mut self, limit: Duration, hear: impl FnMut(Heard)) -> Result<(), LoadError> {
        if !self.turn(limit, &mut 0, hear)? {
            return Ok(());
        }
        match self.ledger.first_missing() {
            None => Ok(()),
            Some((connection, sender, number)) => Err(LoadError::Lost {
                silence: self.plan.patience,
                on_the_way: self.ledger.on_the_way,
                connection,
                sender,
                number,
            }),
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
                    Event::Delivery(payload) => hear(ledger.receives(connection, payload)?),
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
        Ok(Duration::from_nanos(now_ns - self.heard_ns) >= self.plan.patience)
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
                elapsed: Duration::from_secs(1),
                cpu: Duration::from_millis(cpu_ms),
                latency: Latency::default(),
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
}
