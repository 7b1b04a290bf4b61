//! The experiments there are, in the order they run and are reported, and those still to come.

use crate::calibration::Calibration;
use crate::create::Create;
use crate::foreground::Foreground;
use crate::null::Null;
use crate::oversubscription::Oversubscription;
use crate::print::Print;
use crate::probes::Probes;
use crate::turnaround::Turnaround;
use threadgauge_lab::experiment::Catalogue;

/// Every experiment.
pub const CATALOGUE: Catalogue = Catalogue(&[
    &Null,
    &Create,
    &Oversubscription,
    &Print,
    &Turnaround,
    &Calibration,
    &Foreground,
    &Probes,
]);

/// The experiment that decides a claim, and whether it is in the catalogue (true) or still to come.
#[must_use]
pub fn decided_by(claim: &str) -> Option<(&'static str, bool)> {
    let id = threadgauge_results::claim(claim)?.decided_by.as_str();
    Some((id, CATALOGUE.get(id).is_some()))
}

#[cfg(test)]
mod tests {
    use threadgauge_machine::CpuList;
    use threadgauge_results::claims_of;

    use super::*;
    use threadgauge_lab::schedule::{Chosen, expected_rounds, stopping_rule};
    use threadgauge_lab::site::{Profile, Site};

    /// The experiments of the sources' processes and threads, as they are: units made, sharing and printing.
    const CORE: [&str; 4] = ["null", "create", "oversubscription", "print"];
    /// Small single-purpose checks.
    const SMALL: [&str; 3] = ["calibration", "foreground", "probes"];

    /// What the experiments are expected to take, s, by name.
    fn expected(site: &Site) -> Vec<(&'static str, f64)> {
        let rounds = expected_rounds(&stopping_rule(site.profile, None));
        let takes = |experiment: &'static dyn threadgauge_lab::experiment::Experiment| {
            let chosen = Chosen::all(experiment, site);
            (experiment.id(), chosen.expected(rounds).as_secs_f64())
        };
        CATALOGUE.iter().map(takes).collect()
    }

    #[test]
    fn each_part_of_the_quick_and_standard_profiles_keeps_to_its_time_on_any_machine() {
        let machines = [1, 2, 4, 64, 256]
            .into_iter()
            .flat_map(|cpus| [500, 64_000].map(|free_memory_mib| (cpus, free_memory_mib)));
        for (cpus, free_memory_mib) in machines {
            for (profile, core_s, turnaround_s, small_s) in [
                (Profile::Quick, 120.0, 30.0, 10.0),
                (Profile::Standard, 900.0, 600.0, 90.0),
            ] {
                let expected = expected(&Site {
                    profile,
                    cpus: CpuList::new(0..cpus),
                    free_memory_mib,
                });
                let sum = |ids: &[&str]| -> f64 {
                    let of = expected.iter().filter(|(id, _)| ids.contains(id));
                    of.map(|(_, seconds)| seconds).sum()
                };
                let says = format!("{} on {cpus} CPUs: {expected:?}", profile.name());
                assert!(sum(&CORE) > 10.0 && sum(&CORE) <= core_s, "{says}");
                let turnaround = sum(&["turnaround"]);
                assert!(turnaround > 10.0 && turnaround <= turnaround_s, "{says}");
                assert!(sum(&SMALL) > 1.0 && sum(&SMALL) <= small_s, "{says}");
                let parts = CORE.len() + SMALL.len() + 1;
                assert_eq!(expected.len(), parts, "an experiment belongs to no part: {says}");
            }
        }
    }

    #[test]
    fn every_experiment_answers_the_claims_that_the_table_gives_it_and_no_others() {
        for experiment in CATALOGUE.iter() {
            let view = threadgauge_lab::testing::view(experiment.id(), Profile::Quick, Vec::new());
            let answer = experiment.read(&view);
            let mut answered: Vec<&str> = answer.tests.iter().map(|(id, _)| *id).collect();
            let mut given: Vec<&str> = claims_of(experiment.id()).map(|c| c.id.as_str()).collect();
            answered.sort_unstable();
            given.sort_unstable();
            assert_eq!(answered, given, "{}", experiment.id());
        }
    }

    #[test]
    fn the_readme_lists_the_experiments_of_the_catalogue_with_their_questions() {
        let readme = include_str!("../../../README.md");
        let table = readme
            .split("| id | question |\n|---|---|\n")
            .nth(1)
            .expect("README has the table");
        let listed: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
        let row = |e: &'static dyn threadgauge_lab::experiment::Experiment| {
            format!("| `{}` | {} |", e.id(), e.about().question)
        };
        assert_eq!(listed, CATALOGUE.iter().map(row).collect::<Vec<_>>());
    }
}
