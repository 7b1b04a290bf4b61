//! The grid of `past-the-limit`: which design lacks what, beside how many clients, and what is measured of it.

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;

use crate::servers::Design;

/// From the moment on in which the newcomers have left, until a new client has its answer.
pub(super) const RECOVERY: Metric = metric("recovery_ns", "ns");
/// Whether that was within the patience.
pub(super) const RECOVERS: Metric = metric("recovers", "share");
/// Of what those asked who were there before, what was never answered.
pub(super) const LOST: Metric = metric("lost_share", "share");
/// … and what was answered later than `LATE` after it was due.
pub(super) const LATE_SHARE: Metric = metric("late_share", "share");
/// The longest of their answers.
pub(super) const LONGEST: Metric = metric("longest_answer_ns", "ns");
/// Of the newcomers, those with an answer, …
pub(super) const ANSWERED: Metric = metric("newcomers_answered", "share");
/// … those whose connection the server ended or refused, …
pub(super) const REFUSED: Metric = metric("newcomers_refused", "share");
/// … and those who have heard nothing.
pub(super) const WAITING: Metric = metric("newcomers_waiting", "share");
/// Whether the server still runs when all is over.
pub(super) const RUNS_ON: Metric = metric("runs_on", "share");
/// How it ended, by itself or when it was asked: its exit code, or 128 and the signal.
pub(super) const EXIT: Metric = metric("exit_code", "");

words! {
    /// What there is only little of.
    pub(super) enum Lacking {
        /// Nothing: the control.
        Nothing = "nothing",
        /// Descriptors of each process.
        Descriptors = "descriptors",
        /// Threads and processes of the server's user.
        Units = "units",
    }
}

point! {
    /// A point of the grid.
    pub(super) struct Case {
        design: Design,
        lacking: Lacking,
        /// Of what is lacking, what is left when the newcomers come.
        room: u64 = 1..=1_000,
        newcomers: u64 = 1..=2_000,
        /// Those who are served before.
        connections: u64 = 1..=1_000,
        server_cpus: u64 = 1..,
        cpus: u64 = 1..,
    }
}

/// The control, a design that makes no units under load, and one that does.
const QUICK: [(Design, Lacking); 3] = [
    (Design::Reactor, Lacking::Nothing),
    (Design::Reactor, Lacking::Descriptors),
    (Design::ThreadPerConnection, Lacking::Units),
];
/// One design of each kind.
const STANDARD: [(Design, Lacking); 5] = [
    QUICK[0],
    QUICK[1],
    QUICK[2],
    (Design::ProcessPerConnection, Lacking::Units),
    (Design::Proactor, Lacking::Descriptors),
];

/// What one sample takes, with its server and its worker.
const TAKES: Duration = Duration::from_millis(250);

impl Case {
    pub(super) const fn of(design: Design, lacking: Lacking, cpus: u64) -> Self {
        Self {
            design,
            lacking,
            room: 4,
            newcomers: 24,
            connections: 8,
            server_cpus: 1,
            cpus,
        }
    }

    /// Reads parameters, which `--set` may have changed.
    pub(super) fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        if case.connections >= case.design.at_once() {
            let wanted = "less than the design serves at once, so that there is room for one more";
            return Err(refused(params, "connections", wanted));
        }
        Ok(case)
    }

    fn planned(self) -> PlannedCase {
        PlannedCase {
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, TAKES)
        }
    }

    /// Of the newcomers, the share that no limit would keep from an answer.
    pub(super) fn servable(self) -> f64 {
        let room = self.design.at_once() - self.connections;
        (room as f64 / self.newcomers as f64).min(1.0)
    }
}

pub(super) fn plan(site: &Site) -> Plan {
    // Of the server and its clients.
    let cpus = site.cpus.len().min(2) as u64;
    let of = |&(design, lacking): &(Design, Lacking)| Case::of(design, lacking, cpus);
    let cases: Vec<Case> = match site.profile {
        Profile::Quick => QUICK.iter().map(of).collect(),
        Profile::Standard => STANDARD.iter().map(of).collect(),
        Profile::Paper => {
            let all = Lacking::ALL.into_iter();
            let all = all.flat_map(|lacking| Design::ALL.map(|design| Case::of(design, lacking, cpus)));
            all.filter(|case| Case::possible(&case.params()).is_ok())
                .collect()
        }
    };
    Plan {
        cases: cases.into_iter().map(Case::planned).collect(),
        reference: of(&QUICK[0]).params(),
        budget: Duration::from_secs(site.profile.pick(10, 10, 900)),
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::*;

    #[test]
    fn paper_tries_every_design_that_has_newcomers_with_everything_and_without_each() {
        let cases = plan(&testing::site(Profile::Paper, 2)).cases;
        let cases: Vec<Case> = cases
            .iter()
            .map(|case| Case::read(&case.params).unwrap())
            .collect();
        assert_eq!(cases.len(), 3 * (Design::ALL.len() - 2));
        let left_out = [Design::Iterative, Design::PreforkedReuseport];
        assert!(cases.iter().all(|case| !left_out.contains(&case.design)));
        for profile in [Profile::Quick, Profile::Standard] {
            let smaller = plan(&testing::site(profile, 2)).cases;
            let is_there = |planned: &PlannedCase| cases.contains(&Case::read(&planned.params).unwrap());
            assert!(smaller.iter().all(is_there), "{}", profile.name());
        }
    }

    #[test]
    fn a_server_that_has_no_room_for_one_more_is_refused_in_words() {
        let case = Case::of(Design::PreforkedAccept, Lacking::Descriptors, 1);
        assert!(Case::possible(&case.connections(14).params()).is_ok());
        let error = Case::possible(&case.connections(15).params()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the parameter connections is 15; it must be less than the design serves at once, so that there is room for one more"
        );
        assert!(Case::possible(&case.design(Design::Iterative).params()).is_err());
    }

    #[test]
    fn a_pool_serves_as_many_newcomers_as_it_has_units_left() {
        let case = Case::of(Design::PreforkedAccept, Lacking::Nothing, 1);
        assert!((case.servable() - 7.0 / 24.0).abs() < 1e-12);
        assert!((case.newcomers(3).servable() - 1.0).abs() < 1e-12);
        assert!((case.design(Design::Reactor).servable() - 1.0).abs() < 1e-12);
    }
}
