//! What a run records while it goes on, by second and in all.

use std::collections::BTreeMap;
use std::time::Duration;

use threadgauge_machine::clock::monotonic_ns;

use crate::arrivals::Ramp;
use crate::codec::CodecError;
use crate::faults::Faults;
use crate::latency::Latency;
use crate::standstill::{Asker, LEAST_NS, Outside, Pulse, Standstill, Used};

/// Why a request has no good answer, or a message no good delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server refuses connections.
    Refused,
    /// A connection cannot be made for another reason, such as no descriptor or port left.
    NoConnection,
    /// The server reset the connection.
    Reset,
    /// The server ended the connection without an answer.
    Closed,
    /// No answer came in time.
    Timeout,
    /// What came is not of the protocol.
    Garbage,
    /// Bytes came that nobody had asked for. One such fault of a connection is counted for each request that it cost,
    /// and once where it cost none.
    Unasked,
    /// The server wants more answers than it reads.
    Unread,
    /// The answer has other bytes than asked for.
    Changed,
    /// The answer says no: a status from 400 on.
    Status,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Refused,
        Self::NoConnection,
        Self::Reset,
        Self::Closed,
        Self::Timeout,
        Self::Garbage,
        Self::Unasked,
        Self::Unread,
        Self::Changed,
        Self::Status,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NoConnection => "no_connection",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Garbage => "garbage",
            Self::Unasked => "unasked",
            Self::Unread => "unread",
            Self::Changed => "changed",
            Self::Status => "status",
        }
    }

    /// What came and must not come, in words; `None` of what did not come.
    pub fn is_wrong(self) -> Option<&'static str> {
        match self {
            Self::Garbage => Some("what came is not of the protocol"),
            Self::Unasked => Some("bytes came that nobody asked for"),
            Self::Unread => Some("the server wants more answers than it reads"),
            Self::Changed => Some("answers have other bytes"),
            _ => None,
        }
    }

    /// Of a connection that was not made, or ended with this.
    pub(crate) fn of(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::ConnectionRefused => Self::Refused,
            std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe => Self::Reset,
            std::io::ErrorKind::TimedOut => Self::Timeout,
            std::io::ErrorKind::InvalidData => {
                let source = error
                    .get_ref()
                    .and_then(|source| source.downcast_ref::<CodecError>());
                source.map_or(Self::Garbage, CodecError::kind)
            }
            _ => Self::NoConnection,
        }
    }
}

/// Failures by kind.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    counts: [u64; Failure::ALL.len()],
    statuses: BTreeMap<u16, u64>,
    /// By kind, what the first one said, where there was more to say than the kind.
    said: BTreeMap<&'static str, String>,
}

impl Failures {
    /// Of this kind.
    pub fn of(&self, kind: Failure) -> u64 {
        self.counts[kind as usize]
    }

    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Those kinds that occurred.
    pub fn each(&self) -> impl Iterator<Item = (Failure, u64)> {
        Failure::ALL
            .into_iter()
            .map(|kind| (kind, self.of(kind)))
            .filter(|&(_, count)| count > 0)
    }

    /// How often each status from 400 on came.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        self.statuses.iter().map(|(&status, &count)| (status, count))
    }

    /// What the first of this kind said.
    pub fn said(&self, kind: Failure) -> Option<&str> {
        self.said.get(kind.name()).map(String::as_str)
    }

    /// Those of both.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        for (&status, &count) in &other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (&kind, text) in &other.said {
            self.said.entry(kind).or_insert_with(|| text.clone());
        }
    }

    pub(crate) fn count(&mut self, kind: Failure) {
        self.counts[kind as usize] += 1;
    }

    pub(crate) fn status(&mut self, status: u16) {
        self.count(Failure::Status);
        *self.statuses.entry(status).or_default() += 1;
    }

    /// Keeps what it says, if it is the first of its kind.
    pub(crate) fn quote(&mut self, kind: Failure, says: impl std::fmt::Display) {
        self.said.entry(kind.name()).or_insert_with(|| says.to_string());
    }
}

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Second {
    /// Since the beginning, counted from 0.
    pub at_s: u64,
    /// Requests or messages that went out.
    pub sent: u64,
    /// Good answers, or deliveries.
    pub answered: u64,
    /// Failures of all kinds.
    pub failed: u64,
    /// Connections that were made.
    pub connects: u64,
    /// Received.
    pub bytes_in: u64,
    /// To be sent.
    pub bytes_out: u64,
    /// On their way at its end.
    pub in_flight: u64,
    /// The median latency from the intended start, of those answered in this second, in ns; `None` of under 20.
    pub p50_ns: Option<u64>,
    /// As `p50_ns`, the 99th percentile; `None` of under 1,000.
    pub p99_ns: Option<u64>,
    /// As `p50_ns`, the longest; `None` where none was answered.
    pub most_ns: Option<u64>,
}

/// Who looks on while a run goes on.
pub trait Watch {
    /// A second is over, and these are the latencies of what was answered in it, from the intended start: those of
    /// several runs go together, which their percentiles do not.
    fn second(&mut self, _second: &Second, _latency: &Latency) {}

    /// Whether it is to go on. Asked some hundred times a second at least.
    fn goes_on(&mut self) -> bool {
        true
    }
}

/// Nobody looks on.
impl Watch for () {}

/// What a run measured. Latencies and rates are of what was to start while the load held; the series and the counts are
/// of all.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When it began: `CLOCK_MONOTONIC`, in nanoseconds, as all that was watched meanwhile.
    pub started_ns: u64,
    /// From the intended start to the answer. One that was given up counts with the time until then.
    pub response: Latency,
    /// Of these, the good answers.
    pub good: Latency,
    /// From the moment it was sent to the answer.
    pub service: Latency,
    /// How late the generator itself was: from the intended start until it was sent or, where no connection was free
    /// for it, until that was seen.
    pub lag: Latency,
    /// For how long the generator could not go on.
    pub stood: Standstill,
    /// Requests or messages sent.
    pub sent: u64,
    /// Good answers, or deliveries.
    pub answered: u64,
    /// Why the others have none.
    pub failures: Failures,
    /// Requests that found no free connection at their intended start. Those of which the generator itself came too
    /// late to know are not among them.
    pub waited: u64,
    /// Those that were to start and were never sent, or had no answer when the run gave up.
    pub unfinished: u64,
    /// Connections made.
    pub connects: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes to be sent.
    pub bytes_out: u64,
    /// By second, from the beginning to the last answer.
    pub series: Vec<Second>,
    /// From the beginning to the last answer.
    pub elapsed: Duration,
    /// CPU time of the generator meanwhile, all its threads.
    pub cpu: Duration,
    /// How many threads generated.
    pub threads: usize,
    /// The mean number on their way, as counted at every turn of the loop.
    pub in_flight: f64,
    /// The same by Little's law: the sum of all service times over the time.
    pub in_flight_by_law: f64,
    /// What was to be done while the load held.
    pub held: Held,
    /// Of groups, from a message's intended start until the last of its receivers has it.
    pub last: Option<Latency>,
    /// Of groups, deliveries that were not as they must be.
    pub faults: Option<Faults>,
    /// Whether a connection that failed ended it before its time.
    pub ended_early: bool,
    /// Whether it was told to end before its time.
    pub interrupted: bool,
    /// Whether the bound on requests ended it.
    pub bounded: bool,
}

/// What was to start while the load held, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// The rate asked for, a second; `None` in a closed loop.
    pub rate: Option<f64>,
    /// Requests or deliveries that were to start or come.
    pub intended: u64,
    /// Good answers or deliveries of them, however late.
    pub answered: u64,
    /// Of those intended, what was sent on schedule, before the load no longer held, whatever became of it.
    pub on_schedule: u64,
    /// Good answers or deliveries a second. In an open loop those of what was sent on schedule, by when it was to
    /// start; else those that came while the load held, by that time. `None` where fewer than two were to start or, in
    /// another loop, came: they have no time between them.
    pub achieved: Option<f64>,
}

impl Held {
    /// The share of what was to start that was sent on schedule, so whether the rate asked for was there. What became
    /// of it is told by answers and failures. `None` where nothing was to start.
    pub fn pace(&self) -> Option<f64> {
        (self.intended > 0).then(|| self.on_schedule as f64 / self.intended as f64)
    }
}

/// Until when what is to start in a span that ends then is sent on schedule: a wake-up that comes late is not a rate
/// that was not there.
pub(crate) fn on_schedule_until(end_ns: u64, hold: Duration) -> u64 {
    const MOST: Duration = Duration::from_millis(10);
    end_ns + (hold / 100).min(MOST).as_nanos() as u64
}

/// From the first of several moments to the last, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stretch(Option<[u64; 2]>);

impl Stretch {
    /// Moments come in order.
    pub(crate) fn reach(&mut self, now_ns: u64) {
        let first_ns = self.0.map_or(now_ns, |[first_ns, _]| first_ns);
        self.0 = Some([first_ns, now_ns]);
    }

    /// Its length.
    pub(crate) fn ns(self) -> u64 {
        self.0
            .map_or(0, |[first_ns, last_ns]| last_ns.saturating_sub(first_ns))
    }
}

/// Writes a record.
pub(crate) struct Recorder<'a> {
    pub record: Record,
    pub in_flight: u64,
    watch: &'a mut dyn Watch,
    start_ns: u64,
    /// CPU time of the calling thread at the beginning.
    cpu_ns: u64,
    /// What is measured was to start in here.
    held: std::ops::Range<u64>,
    on_schedule_until_ns: u64,
    /// How many starts were in there, and from the first to the last of them.
    starts: u64,
    intended: Stretch,
    /// Good answers to those of them that were sent on schedule.
    good_on_schedule: u64,
    /// Good answers that came in there, whenever their requests started.
    came: u64,
    /// Response times of what has no good answer.
    bad: Latency,
    pulse: Pulse,
    asker: Asker,
    outside: Outside,
    /// When it ended, and the CPU time until then.
    ended: Option<(u64, u64)>,
    /// Up to when `in_flight` is in the sum.
    summed_ns: u64,
    in_flight_ns: f64,
    service_ns: f64,
    second: Second,
    second_ends_ns: u64,
    latency: Latency,
}

const SECOND_NS: u64 = 1_000_000_000;

impl<'a> Recorder<'a> {
    /// Of a run of the calling thread that begins now.
    pub(crate) fn begin(ramp: Ramp, rate: Option<f64>, watch: &'a mut dyn Watch) -> Self {
        let (outside, asker) = (Outside::look(), Asker::new());
        let used = asker.ask();
        let mut recorder = Self::new(monotonic_ns(), used, ramp, rate, watch);
        (recorder.asker, recorder.outside) = (asker, outside);
        recorder
    }

    /// As [`begin`](Self::begin), by the caller's clock, and without a look at the kernel.
    pub(crate) fn new(
        start_ns: u64,
        used: Used,
        ramp: Ramp,
        rate: Option<f64>,
        watch: &'a mut dyn Watch,
    ) -> Self {
        let holds_ns = start_ns + ramp.up.as_nanos() as u64;
        let falls_ns = holds_ns + ramp.hold.as_nanos() as u64;
        let mut record = Record {
            threads: 1,
            ..Record::default()
        };
        record.held.rate = rate;
        Self {
            record,
            in_flight: 0,
            watch,
            start_ns,
            cpu_ns: used.cpu_ns,
            held: holds_ns..falls_ns,
            on_schedule_until_ns: on_schedule_until(falls_ns, ramp.hold),
            starts: 0,
            intended: Stretch::default(),
            good_on_schedule: 0,
            came: 0,
            bad: Latency::default(),
            pulse: Pulse::new(start_ns, used),
            asker: Asker::nobody(),
            outside: Outside::default(),
            ended: None,
            summed_ns: start_ns,
            in_flight_ns: 0.0,
            service_ns: 0.0,
            second: Second::default(),
            second_ends_ns: start_ns + SECOND_NS,
            latency: Latency::default(),
        }
    }

    /// When the run began.
    pub(crate) fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Another turn of the loop begins now.
    pub(crate) fn turns(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.pulse.turns(now_ns, || self.asker.ask());
    }

    /// The loop waited since then, at most for the limit that it asked for, until now.
    pub(crate) fn waited(&mut self, since_ns: u64, now_ns: u64, limit: Duration) {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.pulse.waited(now_ns.saturating_sub(since_ns), limit_ns);
    }

    /// It is so late now, and so many were on their way since the last time.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.in_flight_ns += self.in_flight as f64 * now_ns.saturating_sub(self.summed_ns) as f64;
        self.summed_ns = self.summed_ns.max(now_ns);
        while now_ns >= self.second_ends_ns {
            self.end_second();
        }
    }

    pub(crate) fn goes_on(&mut self) -> bool {
        self.watch.goes_on()
    }

    /// So many answers are to come of what was to start then and is sent then.
    pub(crate) fn sends(&mut self, [intended_ns, sent_ns]: [u64; 2], bytes: usize, answers: u64) {
        self.record.sent += 1;
        self.second.sent += 1;
        self.record.bytes_out += bytes as u64;
        self.second.bytes_out += bytes as u64;
        self.in_flight += answers;
        self.intends(intended_ns, answers);
        if self.is_on_schedule(intended_ns, sent_ns) {
            self.record.held.on_schedule += answers;
        }
    }

    fn is_on_schedule(&self, intended_ns: u64, sent_ns: u64) -> bool {
        self.held.contains(&intended_ns) && sent_ns <= self.on_schedule_until_ns
    }

    fn intends(&mut self, intended_ns: u64, answers: u64) {
        if self.held.contains(&intended_ns) {
            self.record.held.intended += answers;
            self.starts += 1;
            self.intended.reach(intended_ns);
        }
    }

    /// That something was to start then was seen now.
    pub(crate) fn lags(&mut self, intended_ns: u64, now_ns: u64) {
        if self.held.contains(&intended_ns) {
            self.record.lag.record(now_ns.saturating_sub(intended_ns));
        }
    }

    /// As [`lags`](Self::lags), and that no connection was free for it.
    pub(crate) fn finds_none_free(&mut self, intended_ns: u64, now_ns: u64) {
        self.lags(intended_ns, now_ns);
        // Whether one was free then, a generator that came later cannot know.
        self.record.waited += u64::from(now_ns.saturating_sub(intended_ns) < LEAST_NS);
    }

    /// Bytes of the server came.
    pub(crate) fn receives(&mut self, bytes: u64) {
        self.record.bytes_in += bytes;
        self.second.bytes_in += bytes;
    }

    pub(crate) fn connects(&mut self) {
        self.record.connects += 1;
        self.second.connects += 1;
    }

    /// So many good answers to what was to start then and was sent then.
    pub(crate) fn answers(&mut self, intended_ns: u64, sent_ns: u64, now_ns: u64, count: u64) {
        self.record.answered += count;
        self.second.answered += count;
        if self.held.contains(&now_ns) {
            self.came += count;
        }
        if self.held.contains(&intended_ns) {
            self.record.held.answered += count;
        }
        if self.is_on_schedule(intended_ns, sent_ns) {
            self.good_on_schedule += count;
        }
        self.took([intended_ns, sent_ns, now_ns], count, true);
    }

    /// One that is over without a good answer. With `took` its time counts, as that of an answer or as the least that
    /// one would have taken.
    pub(crate) fn fails(&mut self, intended_ns: u64, sent_ns: u64, now_ns: u64, kind: Failure) {
        self.second.failed += 1;
        match kind {
            // It was counted by its status.
            Failure::Status => {}
            _ => self.record.failures.count(kind),
        }
        match kind {
            Failure::Timeout | Failure::Changed | Failure::Status => {
                self.took([intended_ns, sent_ns, now_ns], 1, false);
            }
            _ => self.over(sent_ns, now_ns, 1),
        }
    }

    /// Something is wrong that no request stands for.
    pub(crate) fn faults(&mut self, kind: Failure) {
        self.second.failed += 1;
        self.record.failures.count(kind);
    }

    fn took(&mut self, [intended_ns, sent_ns, now_ns]: [u64; 3], count: u64, is_good: bool) {
        let response_ns = now_ns.saturating_sub(intended_ns);
        self.latency.record_many(response_ns, count);
        if self.held.contains(&intended_ns) {
            let of = if is_good {
                &mut self.record.good
            } else {
                &mut self.bad
            };
            of.record_many(response_ns, count);
            self.record
                .service
                .record_many(now_ns.saturating_sub(sent_ns), count);
        }
        self.over(sent_ns, now_ns, count);
    }

    fn over(&mut self, sent_ns: u64, now_ns: u64, count: u64) {
        // A run of groups may give up what one before it has sent.
        self.in_flight = self.in_flight.saturating_sub(count);
        self.service_ns += now_ns.saturating_sub(sent_ns) as f64 * count as f64;
    }

    /// It was to start then, and has none of its answers now that the run gives up. `sent_ns` where it was sent.
    pub(crate) fn gives_up(&mut self, intended_ns: u64, sent_ns: Option<u64>, now_ns: u64, answers: u64) {
        self.record.unfinished += answers;
        match sent_ns {
            Some(sent_ns) => self.over(sent_ns, now_ns, answers),
            None => self.intends(intended_ns, answers),
        }
        if self.held.contains(&intended_ns) {
            self.bad.record_many(now_ns.saturating_sub(intended_ns), answers);
        }
    }

    fn end_second(&mut self) {
        self.second.in_flight = self.in_flight;
        self.second.p50_ns = self.latency.ns(0.5);
        self.second.p99_ns = self.latency.ns(0.99);
        self.second.most_ns = self.latency.most_ns();
        self.watch.second(&self.second, &self.latency);
        self.latency.clear();
        let next = Second {
            at_s: self.second.at_s + 1,
            ..Second::default()
        };
        self.record.series.push(std::mem::replace(&mut self.second, next));
        self.second_ends_ns += SECOND_NS;
    }

    /// The last answer came now: what comes later is in no figure of time.
    pub(crate) fn ends(&mut self) {
        let (now_ns, used) = (monotonic_ns(), self.asker.ask());
        self.turns(now_ns);
        self.record.stood = self.pulse.stood();
        Outside::look().since(&self.outside, &mut self.record.stood);
        self.ended = Some((now_ns, used.cpu_ns));
    }

    /// What was recorded, of a run that has [ended](Self::ends) or ends now.
    pub(crate) fn finish(mut self) -> Record {
        if self.ended.is_none() {
            self.ends();
        }
        let (now_ns, cpu_ns) = self.ended.unwrap_or_default();
        self.end(now_ns, cpu_ns)
    }

    /// What was recorded until now, when the thread has used so much.
    pub(crate) fn end(mut self, now_ns: u64, cpu_ns: u64) -> Record {
        self.advance(now_ns);
        // What is left of a second, unless nothing happened in it.
        if self.second.sent + self.second.answered + self.second.failed > 0 {
            self.end_second();
        }
        let achieved = self.achieved(now_ns);
        let elapsed_ns = now_ns.saturating_sub(self.start_ns).max(1) as f64;
        let mut record = self.record;
        record.started_ns = self.start_ns;
        record.elapsed = Duration::from_nanos(elapsed_ns as u64);
        record.cpu = Duration::from_nanos(cpu_ns.saturating_sub(self.cpu_ns));
        record.in_flight = self.in_flight_ns / elapsed_ns;
        record.in_flight_by_law = self.service_ns / elapsed_ns;
        record.held.achieved = achieved;
        record.response = record.good.clone();
        record.response.merge(&self.bad);
        record
    }

    fn achieved(&self, now_ns: u64) -> Option<f64> {
        let (count, ns) = match self.record.held.rate {
            // So many starts have one distance fewer between them.
            Some(_) => {
                let distances = self.starts.saturating_sub(1) as f64 / self.starts.max(1) as f64;
                let count = self.good_on_schedule as f64 * distances;
                (count, self.intended.ns())
            }
            None if self.came < 2 => return None,
            None => (
                self.came as f64,
                self.held.end.min(now_ns).saturating_sub(self.held.start),
            ),
        };
        (ns > 0).then(|| count / (ns as f64 / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_from_the_first_to_the_last() {
        let mut stretch = Stretch::default();
        [10, 30, 50].into_iter().for_each(|ns| stretch.reach(ns));
        assert_eq!(stretch.ns(), 40);
    }

    #[test]
    fn what_was_to_start_while_the_load_held_is_measured_and_all_is_counted() {
        let ms = |ms: u64| ms * MS;
        let ramp = Ramp {
            up: Duration::from_millis(100),
            hold: Duration::from_millis(100),
            down: Duration::from_millis(100),
        };
        let mut watch = ();
        let mut recorder = Recorder::new(0, Used::default(), ramp, Some(20.0), &mut watch);
        for at_ms in [50, 100, 150, 199, 250] {
            recorder.advance(ms(at_ms));
            recorder.lags(ms(at_ms), ms(at_ms));
            recorder.sends([ms(at_ms); 2], 10, 1);
            recorder.advance(ms(at_ms + 20));
            recorder.answers(ms(at_ms), ms(at_ms), ms(at_ms + 20), 1);
        }
        let record = recorder.end(ms(300), ms(30));
        assert_eq!((record.sent, record.answered, record.bytes_out), (5, 5, 50));
        assert_eq!((record.held.intended, record.held.answered), (3, 3));
        assert_eq!((record.response.count(), record.lag.count()), (3, 3));
        assert_eq!(record.held.pace(), Some(1.0));
        assert!(
            (record.in_flight - 100.0 / 300.0).abs() < 1e-9,
            "{}",
            record.in_flight
        );
        assert!((record.in_flight_by_law - record.in_flight).abs() < 1e-9);
        assert_eq!(record.series.len(), 1);
    }

    #[test]
    fn of_answers_that_come_together_each_was_on_its_way() {
        let mut watch = ();
        let mut recorder = held_for_a_second(None, &mut watch);
        recorder.sends([0; 2], 1, 4);
        recorder.advance(20 * MS);
        recorder.answers(0, 0, 20 * MS, 4);
        let record = recorder.end(1_000 * MS, 0);
        for in_flight in [record.in_flight, record.in_flight_by_law] {
            assert!((in_flight - 4.0 * 0.02).abs() < 1e-9, "{in_flight}");
        }
    }

    #[test]
    fn what_was_given_up_counts_with_the_time_until_then() {
        let mut watch = ();
        let ramp = Ramp::hold(Duration::from_secs(1));
        let mut recorder = Recorder::new(0, Used::default(), ramp, Some(10.0), &mut watch);
        recorder.sends([0; 2], 1, 1);
        recorder.gives_up(0, Some(0), 500, 1);
        recorder.gives_up(100, None, 500, 1);
        let record = recorder.end(500, 0);
        assert_eq!(
            (record.unfinished, record.held.intended, record.held.answered),
            (2, 2, 0)
        );
        assert_eq!((record.response.count(), record.held.pace()), (2, Some(0.5)));
        assert_eq!((record.good.count(), record.held.achieved), (0, Some(0.0)));
    }

    #[test]
    fn each_second_has_its_own_figures() {
        struct Seen(Vec<[u64; 2]>);
        impl Watch for Seen {
            fn second(&mut self, second: &Second, latency: &Latency) {
                self.0.push([second.answered, latency.count()]);
            }
        }
        let mut seen = Seen(Vec::new());
        let ramp = Ramp::hold(Duration::from_secs(3));
        let mut recorder = Recorder::new(0, Used::default(), ramp, None, &mut seen);
        for (at_s, many) in [(0, 2), (1, 0), (2, 3)] {
            recorder.advance(at_s * SECOND_NS);
            for _ in 0..many {
                recorder.sends([at_s * SECOND_NS; 2], 1, 1);
                recorder.answers(at_s * SECOND_NS, at_s * SECOND_NS, at_s * SECOND_NS + 5, 1);
            }
        }
        let record = recorder.end(3 * SECOND_NS - 1, 0);
        let series: Vec<_> = record
            .series
            .iter()
            .map(|s| (s.at_s, s.answered, s.most_ns))
            .collect();
        assert_eq!(series, [(0, 2, Some(5)), (1, 0, None), (2, 3, Some(5))]);
        assert_eq!(seen.0, [[2, 2], [0, 0], [3, 3]]);
    }

    #[test]
    fn what_is_wrong_is_in_its_second_whether_a_request_stands_for_it_or_not() {
        let mut watch = ();
        let ramp = Ramp::hold(Duration::from_secs(2));
        let mut recorder = Recorder::new(0, Used::default(), ramp, None, &mut watch);
        recorder.faults(Failure::Unasked);
        recorder.faults(Failure::Unasked);
        recorder.sends([1; 2], 1, 1);
        recorder.fails(1, 1, 2, Failure::Closed);
        recorder.advance(SECOND_NS);
        recorder.faults(Failure::Unasked);
        let record = recorder.end(2 * SECOND_NS - 1, 0);
        let failed: Vec<u64> = record.series.iter().map(|second| second.failed).collect();
        assert_eq!(failed, [3, 1]);
        let kinds = [Failure::Unasked, Failure::Closed].map(|kind| record.failures.of(kind));
        assert_eq!(kinds, [3, 1]);
    }

    const MS: u64 = 1_000_000;

    /// A load that holds for a second.
    fn held_for_a_second(rate: Option<f64>, watch: &mut dyn Watch) -> Recorder<'_> {
        let ramp = Ramp::hold(Duration::from_secs(1));
        Recorder::new(0, Used::default(), ramp, rate, watch)
    }

    #[test]
    fn a_late_answer_lowers_no_rate_and_a_late_request_does() {
        for (sent_late_ms, answered_late_ms, pace, achieved) in [
            (0, 1, 1.0, 50.0),
            (0, 900, 1.0, 50.0),
            // A wake-up that comes late.
            (25, 900, 1.0, 50.0),
            // After the load held: those of the last 100 ms of it were sent then.
            (130, 900, 0.9, 45.0),
        ] {
            let mut watch = ();
            let mut recorder = held_for_a_second(Some(50.0), &mut watch);
            for at_ms in (0..1_000).step_by(20) {
                let sent_ns = (at_ms + sent_late_ms) * MS;
                recorder.sends([at_ms * MS, sent_ns], 1, 1);
                // Some late, some at once.
                let late_ms = answered_late_ms * (at_ms / 20 % 2);
                recorder.answers(at_ms * MS, sent_ns, sent_ns + late_ms * MS, 1);
            }
            let held = recorder.end(2_100 * MS, 0).held;
            assert_eq!((held.intended, held.answered), (50, 50));
            assert_eq!(held.pace(), Some(pace), "{sent_late_ms} ms");
            let found = held.achieved.unwrap();
            assert!((found - achieved).abs() < 1e-9, "{sent_late_ms} ms: {found}");
        }
    }

    #[test]
    fn bytes_are_added_up_in_the_run_and_in_each_second() {
        let mut watch = ();
        let mut recorder = held_for_a_second(None, &mut watch);
        recorder.sends([0; 2], 10, 1);
        recorder.sends([0; 2], 5, 1);
        recorder.receives(20);
        recorder.receives(3);
        recorder.advance(SECOND_NS);
        recorder.sends([SECOND_NS; 2], 1, 1);
        recorder.receives(1);
        let record = recorder.end(SECOND_NS + 1, 0);
        assert_eq!((record.bytes_out, record.bytes_in), (16, 24));
        let series: Vec<_> = record.series.iter().map(|s| (s.bytes_out, s.bytes_in)).collect();
        assert_eq!(series, [(15, 23), (1, 1)]);
    }

    #[test]
    fn what_comes_after_the_end_is_in_no_figure_of_time() {
        let mut watch = ();
        let begun_ns = monotonic_ns();
        let mut recorder = Recorder::begin(Ramp::hold(Duration::from_secs(1)), None, &mut watch);
        recorder.ends();
        let ended_ns = monotonic_ns();
        while monotonic_ns() < ended_ns + 50 * MS {
            std::hint::spin_loop();
        }
        let record = recorder.finish();
        assert!(
            record.elapsed <= Duration::from_nanos(ended_ns - begun_ns),
            "{record:?}"
        );
    }

    #[test]
    fn a_part_of_a_second_in_which_nothing_happened_is_none() {
        let seconds = |ends_ms: u64, answered_ms: u64| {
            let mut watch = ();
            let mut recorder = held_for_a_second(None, &mut watch);
            recorder.sends([0; 2], 1, 1);
            recorder.advance(answered_ms * MS);
            recorder.answers(0, 0, answered_ms * MS, 1);
            recorder.end(ends_ms * MS, 0).series.len()
        };
        assert_eq!(
            (seconds(900, 10), seconds(1_500, 10), seconds(1_500, 1_400)),
            (1, 1, 2)
        );
    }

    #[test]
    fn what_the_kernel_says_of_a_connection_is_a_kind_of_failure() {
        use std::io::{Error, ErrorKind};
        for (error, kind) in [
            (ErrorKind::ConnectionRefused.into(), Failure::Refused),
            (ErrorKind::ConnectionReset.into(), Failure::Reset),
            (ErrorKind::BrokenPipe.into(), Failure::Reset),
            (ErrorKind::TimedOut.into(), Failure::Timeout),
            (ErrorKind::AddrNotAvailable.into(), Failure::NoConnection),
            (ErrorKind::InvalidData.into(), Failure::Garbage),
            (
                Error::new(ErrorKind::InvalidData, CodecError::Unread(1)),
                Failure::Unread,
            ),
        ] {
            assert_eq!(Failure::of(&error), kind, "{error}");
        }
    }

    #[test]
    fn failures_are_counted_by_kind_and_status_and_some_say_that_what_came_is_wrong() {
        let mut failures = Failures::default();
        [503, 404, 503]
            .into_iter()
            .for_each(|status| failures.status(status));
        failures.count(Failure::Reset);
        failures.quote(Failure::Reset, "the first");
        failures.quote(Failure::Reset, "the second");
        assert_eq!(failures.statuses().collect::<Vec<_>>(), [(404, 1), (503, 2)]);
        let each: Vec<_> = failures.each().collect();
        assert_eq!(each, [(Failure::Reset, 1), (Failure::Status, 3)]);
        assert_eq!(
            (failures.total(), failures.said(Failure::Reset)),
            (4, Some("the first"))
        );
        let mut both = failures.clone();
        both.merge(&failures);
        assert_eq!((both.total(), both.of(Failure::Status)), (8, 6));
        assert_eq!(both.statuses().collect::<Vec<_>>(), [(404, 2), (503, 4)]);
        let wrong = Failure::ALL.into_iter().filter(|kind| kind.is_wrong().is_some());
        assert_eq!(
            wrong.collect::<Vec<_>>(),
            [
                Failure::Garbage,
                Failure::Unasked,
                Failure::Unread,
                Failure::Changed
            ]
        );
        let says: Vec<&str> = Failure::ALL.into_iter().filter_map(Failure::is_wrong).collect();
        assert!(says.iter().all(|says| says.len() > 10), "{says:?}");
    }

    #[test]
    fn one_answer_has_no_rate_and_two_have_one_distance() {
        let rates = |count: u64, rate: Option<f64>| {
            let mut watch = ();
            let mut recorder = held_for_a_second(rate, &mut watch);
            for i in 0..count {
                let at_ns = i * 250 * MS;
                recorder.sends([at_ns; 2], 1, 1);
                recorder.answers(at_ns, at_ns, at_ns + 100, 1);
            }
            recorder.end(4_000 * MS, 0).held.achieved
        };
        let nearly = |found: Option<f64>, rate: f64| found.is_some_and(|found| (found - rate).abs() < 1e-6);
        assert_eq!(
            (rates(1, Some(4.0)), rates(1, None), rates(0, None)),
            (None, None, None)
        );
        assert!(nearly(rates(2, Some(4.0)), 4.0) && nearly(rates(4, Some(4.0)), 4.0));
        assert!(nearly(rates(2, None), 2.0) && nearly(rates(4, None), 4.0));
    }

    #[test]
    fn the_rate_of_a_closed_loop_is_what_came_while_it_held() {
        let mut watch = ();
        let mut recorder = held_for_a_second(None, &mut watch);
        for i in 0..100 {
            recorder.sends([i * 10 * MS; 2], 1, 1);
            recorder.answers(i * 10 * MS, i * 10 * MS, i * 10 * MS + 5, 1);
        }
        // One that takes nine seconds is no reason to divide by ten.
        recorder.sends([0; 2], 1, 1);
        recorder.answers(0, 0, 9_000 * MS, 1);
        assert_eq!(recorder.end(9_000 * MS, 0).held.achieved, Some(100.0));

        // One that ends before its time has no more than its own.
        let mut watch = ();
        let mut recorder = held_for_a_second(None, &mut watch);
        recorder.sends([0; 2], 1, 2);
        recorder.answers(0, 0, 500 * MS, 2);
        assert_eq!(recorder.end(500 * MS, 0).held.achieved, Some(4.0));
    }

    #[test]
    fn what_fails_was_sent_at_the_rate_and_is_no_good_answer() {
        let mut watch = ();
        let mut recorder = held_for_a_second(Some(3.0), &mut watch);
        for at_ns in [0, 300 * MS, 600 * MS, 900 * MS] {
            recorder.sends([at_ns; 2], 1, 1);
        }
        recorder.answers(0, 0, 200 * MS, 1);
        recorder.fails(300 * MS, 300 * MS, 301 * MS, Failure::Status);
        recorder.fails(600 * MS, 600 * MS, 601 * MS, Failure::Closed);
        recorder.gives_up(900 * MS, Some(900 * MS), 1_500 * MS, 1);
        let record = recorder.end(1_500 * MS, 0);
        assert_eq!(record.held.pace(), Some(1.0), "all were sent");
        assert_eq!((record.held.answered, record.answered), (1, 1));
        // What ended without an answer is in no percentile.
        assert_eq!((record.good.count(), record.response.count()), (1, 3));
        let near = record.good.mean_ns().unwrap() / (200 * MS) as f64;
        assert!((near - 1.0).abs() < 1e-3, "{near}");
    }

    #[test]
    fn who_comes_late_does_not_know_whether_a_connection_was_free() {
        let mut watch = ();
        let mut recorder = held_for_a_second(Some(1_000.0), &mut watch);
        recorder.finds_none_free(10 * MS, 10 * MS + MS / 2);
        recorder.finds_none_free(15 * MS, 16 * MS);
        recorder.finds_none_free(20 * MS, 1_220 * MS);
        let record = recorder.end(1_220 * MS, 0);
        assert_eq!((record.waited, record.lag.count()), (1, 3));
        assert!(record.lag.most_ns().is_some_and(|most| most >= 1_200 * MS));
    }
}
