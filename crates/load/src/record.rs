//! What a run records while it goes on, by second and in all.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::arrivals::Ramp;
use crate::codec::CodecError;
use crate::faults::Faults;
use crate::latency::Latency;

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
    fn second(&mut self, second: &Second, latency: &Latency) {
        let _ = (second, latency);
    }

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
    /// From the moment it was sent to the answer.
    pub service: Latency,
    /// How late the generator itself was: from the intended start, or from when a connection was free for it, until it
    /// was sent.
    pub lag: Latency,
    /// Requests or messages sent.
    pub sent: u64,
    /// Good answers, or deliveries.
    pub answered: u64,
    /// Why the others have none.
    pub failures: Failures,
    /// Requests that found no free connection at their intended start.
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
    /// Good answers or deliveries of them.
    pub answered: u64,
    /// From the first intended start to the last, in ns.
    pub intended_ns: u64,
    /// From the first answer to the last, in ns.
    pub answered_ns: u64,
}

impl Held {
    /// Good answers or deliveries a second.
    pub fn achieved(&self) -> f64 {
        self.answered as f64 / (self.answered_ns.max(1) as f64 / 1e9)
    }

    /// The achieved rate over the intended one: how many were answered of those intended, and how fast they came over
    /// how fast they were to come.
    pub fn pace(&self) -> f64 {
        if self.intended == 0 {
            return 0.0;
        }
        let answered = self.answered as f64 / self.intended as f64;
        answered * (self.intended_ns.max(1) as f64 / self.answered_ns.max(1) as f64).min(1.0)
    }
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

    /// Its length. Never nought, so that a single message keeps its pace.
    pub(crate) fn ns(self) -> f64 {
        self.0.map_or(1.0, |[first_ns, last_ns]| {
            last_ns.saturating_sub(first_ns).max(1) as f64
        })
    }
}

/// Writes a record.
pub(crate) struct Recorder<'a> {
    pub record: Record,
    pub in_flight: u64,
    watch: &'a mut dyn Watch,
    start_ns: u64,
    /// What is measured was to start in here.
    held: std::ops::Range<u64>,
    intended: Stretch,
    answered: Stretch,
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
    pub(crate) fn new(start_ns: u64, ramp: Ramp, rate: Option<f64>, watch: &'a mut dyn Watch) -> Self {
        let holds_ns = start_ns + ramp.up.as_nanos() as u64;
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
            held: holds_ns..holds_ns + ramp.hold.as_nanos() as u64,
            intended: Stretch::default(),
            answered: Stretch::default(),
            summed_ns: start_ns,
            in_flight_ns: 0.0,
            service_ns: 0.0,
            second: Second::default(),
            second_ends_ns: start_ns + SECOND_NS,
            latency: Latency::default(),
        }
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

    /// So many answers are to come of what is sent now and was to start then; it lagged so long.
    pub(crate) fn sends(&mut self, intended_ns: u64, lag_ns: u64, bytes: usize, answers: u64) {
        self.record.sent += 1;
        self.second.sent += 1;
        self.record.bytes_out += bytes as u64;
        self.second.bytes_out += bytes as u64;
        self.in_flight += answers;
        if self.held.contains(&intended_ns) {
            self.record.lag.record(lag_ns);
            self.record.held.intended += answers;
            self.intended.reach(intended_ns);
        }
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
        if self.held.contains(&intended_ns) {
            self.record.held.answered += count;
            self.answered.reach(now_ns);
        }
        self.took(intended_ns, sent_ns, now_ns, count);
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
                self.took(intended_ns, sent_ns, now_ns, 1);
            }
            _ => self.over(sent_ns, now_ns, 1),
        }
    }

    /// Something is wrong that no request stands for.
    pub(crate) fn faults(&mut self, kind: Failure) {
        self.second.failed += 1;
        self.record.failures.count(kind);
    }

    fn took(&mut self, intended_ns: u64, sent_ns: u64, now_ns: u64, count: u64) {
        let response_ns = now_ns.saturating_sub(intended_ns);
        self.latency.record_many(response_ns, count);
        if self.held.contains(&intended_ns) {
            self.record.response.record_many(response_ns, count);
            let service_ns = now_ns.saturating_sub(sent_ns);
            self.record.service.record_many(service_ns, count);
        }
        self.over(sent_ns, now_ns, count);
    }

    fn over(&mut self, sent_ns: u64, now_ns: u64, count: u64) {
        self.in_flight -= count;
        self.service_ns += now_ns.saturating_sub(sent_ns) as f64 * count as f64;
    }

    /// It was to start then, and has none of its answers now that the run gives up. `sent_ns` where it was sent.
    pub(crate) fn gives_up(&mut self, intended_ns: u64, sent_ns: Option<u64>, now_ns: u64, answers: u64) {
        self.record.unfinished += answers;
        let is_held = self.held.contains(&intended_ns);
        match sent_ns {
            Some(sent_ns) => self.over(sent_ns, now_ns, answers),
            None if is_held => self.record.held.intended += answers,
            None => {}
        }
        if is_held {
            let took_ns = now_ns.saturating_sub(intended_ns);
            self.record.response.record_many(took_ns, answers);
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

    /// The last answer came now. `cpu_ns` was used since the beginning.
    pub(crate) fn finish(mut self, now_ns: u64, cpu_ns: u64) -> Record {
        self.advance(now_ns);
        // What is left of a second, unless nothing happened in it.
        if self.second.sent + self.second.answered + self.second.failed > 0 {
            self.end_second();
        }
        let elapsed_ns = now_ns.saturating_sub(self.start_ns).max(1) as f64;
        let mut record = self.record;
        record.started_ns = self.start_ns;
        record.elapsed = Duration::from_nanos(elapsed_ns as u64);
        record.cpu = Duration::from_nanos(cpu_ns);
        record.in_flight = self.in_flight_ns / elapsed_ns;
        record.in_flight_by_law = self.service_ns / elapsed_ns;
        record.held.intended_ns = self.intended.ns() as u64;
        record.held.answered_ns = self.answered.ns() as u64;
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_from_the_first_to_the_last() {
        let mut stretch = Stretch::default();
        [10, 30, 50].into_iter().for_each(|ns| stretch.reach(ns));
        assert_eq!(stretch.ns(), 40.0);
    }

    #[test]
    fn what_was_to_start_while_the_load_held_is_measured_and_all_is_counted() {
        let ms = |ms: u64| ms * 1_000_000;
        let ramp = Ramp {
            up: Duration::from_millis(100),
            hold: Duration::from_millis(100),
            down: Duration::from_millis(100),
        };
        let mut watch = ();
        let mut recorder = Recorder::new(0, ramp, Some(20.0), &mut watch);
        for at_ms in [50, 100, 150, 199, 250] {
            recorder.advance(ms(at_ms));
            recorder.sends(ms(at_ms), 7, 10, 1);
            recorder.advance(ms(at_ms + 20));
            recorder.answers(ms(at_ms), ms(at_ms), ms(at_ms + 20), 1);
        }
        let record = recorder.finish(ms(300), ms(30));
        assert_eq!((record.sent, record.answered, record.bytes_out), (5, 5, 50));
        assert_eq!((record.held.intended, record.held.answered), (3, 3));
        assert_eq!((record.response.count(), record.lag.count()), (3, 3));
        assert_eq!(record.held.pace(), 1.0);
        assert!(
            (record.in_flight - 100.0 / 300.0).abs() < 1e-9,
            "{}",
            record.in_flight
        );
        assert!((record.in_flight_by_law - record.in_flight).abs() < 1e-9);
        assert_eq!(record.series.len(), 1);
    }

    #[test]
    fn what_was_given_up_counts_with_the_time_until_then() {
        let mut watch = ();
        let ramp = Ramp::hold(Duration::from_secs(1));
        let mut recorder = Recorder::new(0, ramp, Some(10.0), &mut watch);
        recorder.sends(0, 0, 1, 1);
        recorder.gives_up(0, Some(0), 500, 1);
        recorder.gives_up(100, None, 500, 1);
        let record = recorder.finish(500, 0);
        assert_eq!(
            (record.unfinished, record.held.intended, record.held.answered),
            (2, 2, 0)
        );
        assert_eq!((record.response.count(), record.held.pace()), (2, 0.0));
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
        let mut recorder = Recorder::new(0, ramp, None, &mut seen);
        for (at_s, many) in [(0, 2), (1, 0), (2, 3)] {
            recorder.advance(at_s * SECOND_NS);
            for _ in 0..many {
                recorder.sends(at_s * SECOND_NS, 0, 1, 1);
                recorder.answers(at_s * SECOND_NS, at_s * SECOND_NS, at_s * SECOND_NS + 5, 1);
            }
        }
        let record = recorder.finish(3 * SECOND_NS - 1, 0);
        let series: Vec<_> = record
            .series
            .iter()
            .map(|s| (s.at_s, s.answered, s.most_ns))
            .collect();
        assert_eq!(series, [(0, 2, Some(5)), (1, 0, None), (2, 3, Some(5))]);
        assert_eq!(seen.0, [[2, 2], [0, 0], [3, 3]]);
    }
}
