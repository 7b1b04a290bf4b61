//! Whether a run measured the server, or the generator itself.
//!
//! The limits are those of the project's method: under a fixed rate at least 99 % of it must be reached, by a generator
//! that uses at most 85 % of its own CPUs. To these comes Little's law: the mean number on their way is the rate times
//! the mean time. Where a generator's own books do not meet that, its times are wrong.

use crate::record::Record;
use crate::slo::Slo;

/// Of its own CPU time, the most that a driver may use where latencies are judged.
pub const BUSIEST: f64 = 0.85;
/// Of the rate asked for, the least that must be reached.
pub(crate) const LEAST_PACE: f64 = 0.99;
/// How far the two counts of Little's law may differ, of the larger.
const LAW: f64 = 0.1;
/// Fewer on their way than this are too few to compare: the turns of the loop are in both counts.
const LEAST_IN_FLIGHT: f64 = 1.0;

/// Said beside the times of a run that is not invalid although its generator used more.
pub fn busy_in_words() -> String {
    let most = 100.0 * BUSIEST;
    format!("the generator used over {most:.0} % of its CPU, so the times are not the server's alone")
}

/// Why a run is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRun {
    /// The rate asked for was not there.
    #[error("under 99 % of the rate was reached")]
    Slow,
    /// The driver may have been what was waited for.
    #[error("the driver used over 85 % of its CPU")]
    Busy,
    /// The number on their way is not the rate times the time.
    #[error("the number on their way differs from rate times time by over 10 %: the times are wrong")]
    Law,
    /// A connection failed, without which the run could not go on.
    #[error("the server ended a connection, and so the run before its time")]
    Ended,
    /// There was no good answer.
    #[error("nothing was answered well")]
    Silent,
}

impl InvalidRun {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slow => "rate_not_reached",
            Self::Busy => "generator_busy",
            Self::Law => "littles_law",
            Self::Ended => "ended_early",
            Self::Silent => "no_answer",
        }
    }
}

impl Record {
    /// The share of its CPUs that the generator used: of as many as it has threads.
    pub fn cpu_share(&self) -> f64 {
        let of = self.elapsed.as_secs_f64() * self.threads.max(1) as f64;
        self.cpu.as_secs_f64() / of.max(1e-9)
    }

    /// Whether the generator may have been what was waited for, so that the times are not the server's alone.
    pub fn is_busy(&self) -> bool {
        self.cpu_share() > BUSIEST
    }

    /// Why it is invalid, held against these conditions; empty where it is not. A closed loop takes what it can, so its
    /// rate does not make it so, and the generator's CPU only where a latency is judged.
    pub fn invalid_because(&self, slo: Option<&Slo>) -> Vec<InvalidRun> {
        // To a class that got none of the requests that all together may send, nobody owes an answer.
        let is_asked = self.sent > 0 || !self.bounded;
        if self.answered == 0 && is_asked {
            return vec![InvalidRun::Silent];
        }
        let is_open = self.held.rate.is_some();
        let is_judged = is_open || slo.is_some_and(Slo::judges_latency);
        let more = self.in_flight.max(self.in_flight_by_law);
        let apart = (self.in_flight - self.in_flight_by_law).abs();
        [
            (self.ended_early, InvalidRun::Ended),
            (is_open && self.held.pace() < LEAST_PACE, InvalidRun::Slow),
            (is_judged && self.is_busy(), InvalidRun::Busy),
            (
                more >= LEAST_IN_FLIGHT && apart > LAW * more && is_open,
                InvalidRun::Law,
            ),
        ]
        .into_iter()
        .filter_map(|(is_so, reason)| is_so.then_some(reason))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::Held;

    fn record(rate: Option<f64>, answered: u64, cpu_ms: u64) -> Record {
        Record {
            answered,
            elapsed: Duration::from_secs(1),
            cpu: Duration::from_millis(cpu_ms),
            threads: 1,
            in_flight: 10.0,
            in_flight_by_law: 9.5,
            held: Held {
                rate,
                intended: 1000,
                answered,
                intended_ns: 1,
                answered_ns: 1,
            },
            ..Record::default()
        }
    }

    #[test]
    fn a_server_that_falls_behind_or_a_generator_without_time_is_a_flaw() {
        let open = Some(1000.0);
        assert_eq!(record(open, 990, 850).invalid_because(None), []);
        assert_eq!(record(open, 989, 850).invalid_because(None), [InvalidRun::Slow]);
        assert_eq!(record(open, 1000, 851).invalid_because(None), [InvalidRun::Busy]);
        assert_eq!(
            record(None, 10, 1000).invalid_because(None),
            [],
            "a closed loop takes what it can"
        );
        let judged = |slo: &str| record(None, 10, 851).invalid_because(Some(&slo.parse().unwrap()));
        assert_eq!(judged("errors<1%"), []);
        assert_eq!(judged("errors<1%,p99<5ms"), [InvalidRun::Busy]);
        assert_eq!(judged("mean<5ms"), [InvalidRun::Busy]);
        assert_eq!(record(None, 0, 0).invalid_because(None), [InvalidRun::Silent]);
        let mut bounded = Record {
            bounded: true,
            ..record(None, 0, 0)
        };
        assert_eq!(bounded.invalid_because(None), [], "it got no request");
        bounded.sent = 1;
        assert_eq!(bounded.invalid_because(None), [InvalidRun::Silent]);
        let two = Record {
            threads: 2,
            ..record(open, 1000, 1_700)
        };
        assert_eq!(two.invalid_because(None), []);
    }

    #[test]
    fn books_that_do_not_meet_littles_law_are_a_flaw() {
        let wrong = Record {
            in_flight_by_law: 8.0,
            ..record(Some(1000.0), 1000, 0)
        };
        assert_eq!(wrong.invalid_because(None), [InvalidRun::Law]);
        let few = Record {
            in_flight: 0.5,
            in_flight_by_law: 0.1,
            ..record(Some(1000.0), 1000, 0)
        };
        assert_eq!(few.invalid_because(None), []);
    }
}
