//! The grid of `stages`: where the stages run, under which load, and what is measured of it.

use threadgauge_lab::prelude::*;

use crate::guests::{Guest, guest};

/// `guests/c/servers/stages.c`.
pub(super) const STAGES: Guest = guest!("stages");

/// Wall time over the answers of all connections.
pub(super) const TIME: Metric = metric("ns_per_message", "ns");
pub(super) const RATE: Metric = metric("messages_per_s", "messages/s");
/// From when a message was due to its answer: the median, …
pub(super) const P50: Metric = metric("p50_delay_ns", "ns");
/// … and what 99 of 100 took at most.
pub(super) const P99: Metric = metric("p99_delay_ns", "ns");
/// CPU time of all processes of the server over the answers.
pub(super) const CPU: Metric = metric("server_cpu_ns_per_message", "ns");
/// How busy the client kept its CPU.
pub(super) const BUSY: Metric = metric("client_cpu_share", "share");
/// The longest time in which nobody had an answer.
pub(super) const SILENCE: Metric = metric("silence_ns", "ns");
/// Of the connections, those that the crash did not end.
pub(super) const SURVIVED: Metric = metric("connections_survive", "share");
/// Messages that were never answered.
pub(super) const LOST: Metric = metric("answers_lost", "answers");

/// Before what is measured, and that.
pub(super) const WARM: Duration = Duration::from_millis(20);
pub(super) const TIMED: Duration = Duration::from_millis(100);
/// From the beginning of the load until the crash, and how long the load lasts after it.
pub(super) const BEFORE: Duration = Duration::from_millis(50);
pub(super) const CRASHED: Duration = Duration::from_millis(100);
/// Without an answer for so long a message has lost it, where the server crashes.
pub(super) const TIMEOUT: Duration = Duration::from_millis(300);

words! {
    /// Where message I/O, decoding and logic run.
    pub(super) enum Arrangement {
        /// As threads of one process.
        Threads = "threads",
        /// I/O in a process, the others as threads of a second.
        Staged = "staged",
        /// Each in a process.
        Processes = "processes",
    }
}

words! {
    /// What the clients do.
    pub(super) enum Load {
        /// Each sends as soon as it has its answer.
        Saturated = "saturated",
        /// Half as many messages a second, at random times.
        Half = "half",
        /// As saturated, and one message crashes the logic.
        Crash = "crash",
    }
}

point! {
    /// A point of the grid.
    pub(super) struct Case {
        arrangement: Arrangement,
        load: Load,
        connections: u64 = 1..=10_000,
        message_bytes: u64 = 64..=4_096,
        server_cpus: u64 = 1..,
        cpus: u64 = 1..,
    }
}

impl Case {
    pub(super) const fn of(arrangement: Arrangement, load: Load, cpus: u64) -> Self {
        Self {
            arrangement,
            load,
            connections: 1_000,
            message_bytes: 128,
            server_cpus: 1,
            cpus,
        }
    }

    /// How many messages the server may have under way: a power of two above one for each connection.
    pub(super) const fn slots(self) -> u64 {
        (2 * self.connections + 8).next_power_of_two()
    }

    fn takes(self) -> Duration {
        let starts = Duration::from_millis(40) + Duration::from_micros(30) * self.connections as u32;
        starts
            + WARM
            + match self.load {
                Load::Saturated => TIMED,
                Load::Half => 2 * TIMED,
                Load::Crash => BEFORE + CRASHED + TIMEOUT,
            }
    }

    fn planned(self) -> PlannedCase {
        PlannedCase {
            skip: STAGES.missing(),
            takes: Some(|params| Some(Self::read(params).ok()?.takes())),
            ..PlannedCase::new(self, self.takes())
        }
    }
}

/// Every arrangement under every load, on so many CPUs.
fn all(cpus: u64) -> Vec<Case> {
    let of_each = |load| Arrangement::ALL.map(|arrangement| Case::of(arrangement, load, cpus));
    Load::ALL.into_iter().flat_map(of_each).collect()
}

pub(super) fn plan(site: &Site) -> Plan {
    // Of the server and its clients.
    let cpus = site.cpus.len().min(2) as u64;
    let base = all(cpus);
    let others = |change: fn(Case) -> Case| base.iter().map(move |&case| change(case));
    let cases: Vec<Case> = match site.profile {
        // What the source proposes beside the usual, and without what needs the longest.
        Profile::Quick => base
            .iter()
            .copied()
            .filter(|case| case.arrangement != Arrangement::Processes && case.load != Load::Half)
            .collect(),
        Profile::Standard => base,
        Profile::Paper => base
            .iter()
            .copied()
            // A CPU for each stage, and one for the clients.
            .chain(others(|case| case.server_cpus(3).cpus(4)))
            .chain(others(|case| case.connections(100)))
            .chain(others(|case| case.message_bytes(1_024)))
            .collect(),
    };
    Plan {
        reference: Case::of(Arrangement::Threads, Load::Saturated, cpus).params(),
        cases: cases.into_iter().map(Case::planned).collect(),
        budget: Duration::from_secs(site.profile.pick(10, 10, 600)),
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::*;

    fn planned(profile: Profile, cpus: usize) -> Vec<Case> {
        let cases = plan(&testing::site(profile, cpus)).cases;
        cases
            .iter()
            .map(|case| Case::read(&case.params).unwrap())
            .collect()
    }

    #[test]
    fn each_profile_has_what_the_smaller_one_has_and_standard_every_arrangement_under_every_load() {
        let [quick, standard, paper] =
            [Profile::Quick, Profile::Standard, Profile::Paper].map(|profile| planned(profile, 4));
        assert_eq!([quick.len(), standard.len(), paper.len()], [4, 9, 36]);
        assert!(quick.iter().all(|case| standard.contains(case)));
        assert!(standard.iter().all(|case| paper.contains(case)));
    }

    #[test]
    fn stages_at_the_same_time_lack_cpus_where_there_are_two() {
        let site = testing::site(Profile::Paper, 2);
        let mut plan = plan(&site);
        plan.fit(&site);
        let lacking = plan.cases.iter().filter(|case| case.skip.is_some());
        let lacking: Vec<&PlannedCase> = lacking.collect();
        assert_eq!(lacking.len(), 9);
        for case in lacking {
            assert_eq!(case.params.int("server_cpus"), Some(3));
            assert_eq!(case.skip.as_ref().map(|lack| lack.of), Some(Need::Cpus));
        }
    }

    #[test]
    fn values_that_no_server_can_have_are_refused_in_words() {
        let case = Case::of(Arrangement::Staged, Load::Half, 1);
        let refused = |case: Case| Case::read(&case.params()).unwrap_err().to_string();
        assert_eq!(
            refused(case.message_bytes(63)),
            "the parameter message_bytes is 63; it must be a number from 64 to 4096"
        );
        assert_eq!(
            refused(case.connections(0)),
            "the parameter connections is 0; it must be a number from 1 to 10000"
        );
        let params = case.params().with("arrangement", "stage");
        let error = Case::read(&params).unwrap_err().to_string();
        assert!(error.contains("threads, staged, processes"), "{error}");
    }

    #[test]
    fn a_server_has_a_slot_for_each_connection_and_what_is_in_hand() {
        for connections in [1, 1_000, 10_000] {
            let slots = Case::of(Arrangement::Staged, Load::Half, 1)
                .connections(connections)
                .slots();
            assert!(slots.is_power_of_two() && slots >= connections + 4 && slots <= 65_536);
        }
    }
}
