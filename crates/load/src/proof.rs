//! Whether a run measured the server, or the generator itself.
//!
//! The limits are those of the project's method: under a fixed rate at least 99 % of it must be sent on schedule, by a
//! generator that uses at most 85 % of its own CPUs and stands still for at most a hundredth of the time. What became
//! of what was sent is for [conditions](Slo) to judge: a server that fails makes no run invalid, unless nothing is
//! answered. To these comes Little's law: the mean number on their way is the rate times the mean time. Where a
//! generator's own books do not meet that, its times are wrong.

use std::time::Duration;

use crate::record::{Failure, Record};
use crate::slo::Slo;
use crate::standstill::Cause;

/// Of its own CPU time, the most that a driver may use where latencies are judged.
pub const BUSIEST: f64 = 0.85;
/// Of the rate asked for, the least that must be sent on schedule.
pub(crate) const LEAST_PACE: f64 = 0.99;
/// Of the time, the most for which a generator may stand still: what a 99th percentile does not reach.
pub const STILLEST: f64 = 0.01;
/// However short the time is, the most in all: one wait for a lock or a disk is not yet a standstill.
const SHORTEST: Duration = Duration::from_millis(10);
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
    #[error("under 99 % of the rate was sent on schedule")]
    Slow,
    /// The driver may have been what was waited for.
    #[error("the driver used over 85 % of its CPU")]
    Busy,
    /// The number on their way is not the rate times the time.
    #[error("the number on their way differs from rate times time by over 10 %: the times are wrong")]
    Law,
    /// The generator was stopped.
    #[error(
        "for over 1 % of the time the generator was stopped, as by SIGSTOP, a debugger or a frozen container"
    )]
    Stopped,
    /// The generator had no CPU.
    #[error("for over 1 % of the time the generator was ready and other programs had its CPU")]
    Starved,
    /// The generator's control group had no CPU time left.
    #[error("for over 1 % of the time the generator was stopped by the CPU quota of its control group")]
    Throttled,
    /// The hypervisor had the CPU.
    #[error("for over 1 % of the time the hypervisor had the generator's CPU")]
    Stolen,
    /// The machine was suspended.
    #[error("the machine was suspended meanwhile")]
    Suspended,
    /// A connection failed, without which the run could not go on.
    #[error("the server ended a connection, and so the run before its time")]
    Ended,
    /// There was no answer, good or not.
    #[error("nothing was answered")]
    Silent,
}

impl InvalidRun {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slow => "rate_not_reached",
            Self::Busy => "generator_busy",
            Self::Law => "littles_law",
            Self::Stopped => "generator_stopped",
            Self::Starved => "generator_starved",
            Self::Throttled => "generator_throttled",
            Self::Stolen => "generator_stolen",
            Self::Suspended => "suspended",
            Self::Ended => "ended_early",
            Self::Silent => "no_answer",
        }
    }

    /// Whether the generator could not go on, whatever the server did.
    pub const fn is_standstill(self) -> bool {
        matches!(
            self,
            Self::Stopped | Self::Starved | Self::Throttled | Self::Stolen | Self::Suspended
        )
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

    /// The share of the time for which the generator stood still.
    pub fn still_share(&self) -> f64 {
        let threads = self.threads.max(1) as f64;
        let stood = self.stood.total.as_secs_f64() / threads + self.stood.suspended.as_secs_f64();
        stood / (self.elapsed + self.stood.suspended).as_secs_f64().max(1e-9)
    }

    /// Why it stood still, where that was for too long.
    fn stood_still(&self) -> Option<InvalidRun> {
        if self.stood.whole() <= SHORTEST || self.still_share() <= STILLEST {
            return None;
        }
        Some(match self.stood.cause()? {
            Cause::Stopped => InvalidRun::Stopped,
            Cause::Starved => InvalidRun::Starved,
            Cause::Throttled => InvalidRun::Throttled,
            Cause::Stolen => InvalidRun::Stolen,
            Cause::Suspended => InvalidRun::Suspended,
        })
    }

    /// What is to be said beside its times, since they are not the server's alone, where it is not invalid for that.
    pub fn doubt(&self, slo: Option<&Slo>) -> Option<String> {
        let reasons = self.invalid_because(slo);
        if self.is_busy() && !reasons.contains(&InvalidRun::Busy) {
            return Some(busy_in_words());
        }
        let still = self.stood_still().filter(|still| !reasons.contains(still))?;
        Some(format!("{still}, so the times are not the server's alone"))
    }

    /// Why it is invalid, held against these conditions; empty where it is not. A closed loop takes what it can, so its
    /// rate does not make it so, and a generator without CPU only where a latency is judged.
    pub fn invalid_because(&self, slo: Option<&Slo>) -> Vec<InvalidRun> {
        // To a class that got none of the requests that all together may send, nobody owes an answer.
        let is_asked = self.sent > 0 || !self.bounded;
        let refused = [Failure::Status, Failure::Changed].map(|kind| self.failures.of(kind));
        if self.answered + refused.iter().sum::<u64>() == 0 && is_asked {
            return vec![InvalidRun::Silent];
        }
        let is_open = self.held.rate.is_some();
        let is_judged = is_open || slo.is_some_and(Slo::judges_latency);
        let still = self.stood_still();
        let still = still.filter(|still| is_judged || *still != InvalidRun::Starved);
        let more = self.in_flight.max(self.in_flight_by_law);
        let apart = (self.in_flight - self.in_flight_by_law).abs();
        let is_slow = is_open && self.held.pace().is_none_or(|pace| pace < LEAST_PACE);
        let breaks_law = more >= LEAST_IN_FLIGHT && apart > LAW * more && is_open;
        // What comes first explains the others.
        [
            self.ended_early.then_some(InvalidRun::Ended),
            still,
            is_slow.then_some(InvalidRun::Slow),
            (is_judged && self.is_busy()).then_some(InvalidRun::Busy),
            breaks_law.then_some(InvalidRun::Law),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Held;
    use crate::standstill::Standstill;

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
                on_schedule: answered,
                achieved: None,
            },
            ..Record::default()
        }
    }

    #[test]
    fn each_reason_has_its_name_and_some_are_a_standstill() {
        for (reason, name, is_standstill) in [
            (InvalidRun::Slow, "rate_not_reached", false),
            (InvalidRun::Busy, "generator_busy", false),
            (InvalidRun::Law, "littles_law", false),
            (InvalidRun::Stopped, "generator_stopped", true),
            (InvalidRun::Starved, "generator_starved", true),
            (InvalidRun::Throttled, "generator_throttled", true),
            (InvalidRun::Stolen, "generator_stolen", true),
            (InvalidRun::Suspended, "suspended", true),
            (InvalidRun::Ended, "ended_early", false),
            (InvalidRun::Silent, "no_answer", false),
        ] {
            assert_eq!((reason.name(), reason.is_standstill()), (name, is_standstill));
        }
    }

    #[test]
    fn threads_share_what_they_stood_still_and_a_suspended_machine_has_no_time() {
        let mut stood = record(None, 10, 0);
        stood.threads = 2;
        stood.stood.total = Duration::from_millis(300);
        assert_eq!(stood.still_share(), 0.15);
        // Of a second that passed and one that did not.
        stood.stood.suspended = Duration::from_secs(1);
        assert_eq!(stood.still_share(), 1.15 / 2.0);
        assert_eq!(record(None, 10, 0).still_share(), 0.0);
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
        let doubt = record(None, 10, 851).doubt(None);
        assert!(doubt.is_some_and(|doubt| doubt.starts_with("the generator used over 85 % of its CPU, so")));
        assert_eq!(record(None, 10, 850).doubt(None), None);
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
        bounded.failures.count(Failure::Closed);
        assert_eq!(bounded.invalid_because(None), [InvalidRun::Silent]);
        bounded.failures.status(503);
        assert_eq!(bounded.invalid_because(None), [], "an answer that refuses is one");
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

    #[test]
    fn a_generator_that_stood_still_is_named_with_the_cause() {
        let ms = Duration::from_millis;
        let stood = |stood: Standstill| Record {
            stood,
            ..record(Some(1000.0), 1000, 100)
        };
        let total = ms(20);
        let stopped = Standstill {
            total,
            ..Standstill::default()
        };
        for (stood_still, reason) in [
            (
                Standstill {
                    total: ms(10),
                    ..stopped
                },
                None,
            ),
            (stopped, Some(InvalidRun::Stopped)),
            (
                Standstill {
                    without_cpu: ms(10),
                    ..stopped
                },
                Some(InvalidRun::Starved),
            ),
            (
                Standstill {
                    without_cpu: ms(20),
                    throttled: ms(15),
                    ..stopped
                },
                Some(InvalidRun::Throttled),
            ),
            (
                Standstill {
                    stolen: ms(15),
                    ..stopped
                },
                Some(InvalidRun::Stolen),
            ),
            (
                Standstill {
                    stolen: ms(9),
                    without_cpu: ms(9),
                    ..stopped
                },
                Some(InvalidRun::Stopped),
            ),
            (
                Standstill {
                    suspended: ms(30),
                    ..stopped
                },
                Some(InvalidRun::Suspended),
            ),
        ] {
            let record = stood(stood_still);
            let reasons: Vec<_> = reason.into_iter().collect();
            assert_eq!(record.invalid_because(None), reasons, "{stood_still:?}");
            assert_eq!(record.doubt(None), None, "{stood_still:?}");
        }
        // What explains the rest comes first.
        let slow = Record {
            stood: stopped,
            ..record(Some(1000.0), 900, 0)
        };
        assert_eq!(
            slow.invalid_because(None),
            [InvalidRun::Stopped, InvalidRun::Slow]
        );
        // A closed loop takes what it can; what was stopped took nothing.
        let closed = |stood: Standstill| Record {
            stood,
            ..record(None, 10, 0)
        };
        assert_eq!(closed(stopped).invalid_because(None), [InvalidRun::Stopped]);
        let starved = closed(Standstill {
            without_cpu: ms(20),
            ..stopped
        });
        assert_eq!(starved.invalid_because(None), []);
        assert!(
            starved
                .doubt(None)
                .is_some_and(|doubt| doubt.contains("other programs had its CPU, so"))
        );
        let slo = "p50<1s".parse().unwrap();
        assert_eq!(starved.invalid_because(Some(&slo)), [InvalidRun::Starved]);
        let short = Record {
            elapsed: ms(300),
            ..stood(Standstill {
                total: ms(9),
                ..stopped
            })
        };
        assert_eq!(short.invalid_because(None), []);
        let two = Record {
            threads: 2,
            ..stood(Standstill { total, ..stopped })
        };
        assert_eq!(two.invalid_because(None), [], "each of two for half of it");
    }
}
