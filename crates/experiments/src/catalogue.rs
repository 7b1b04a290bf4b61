//! The experiments there are, in the order they run and are reported, and those still to come.

use threadgauge_lab::experiment::Catalogue;

/// Every experiment.
pub const CATALOGUE: Catalogue = Catalogue(&[
    &crate::null::EXPERIMENT,
    &crate::create::EXPERIMENT,
    &crate::oversubscription::EXPERIMENT,
    &crate::print::EXPERIMENT,
    &crate::turnaround::EXPERIMENT,
    &crate::calibration::EXPERIMENT,
    &crate::foreground::EXPERIMENT,
    &crate::probes::EXPERIMENT,
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

    /// The large experiments: those of the sources' processes and threads, and `turnaround`. All others are small checks.
    const LARGE: [&[&str]; 2] = [&["null", "create", "oversubscription", "print"], &["turnaround"]];

    /// What the experiments are expected to take, s, by name.
    fn expected(site: &Site) -> Vec<(&'static str, f64)> {
        let rounds = expected_rounds(&stopping_rule(site.profile, None));
        let takes = |experiment: &'static threadgauge_lab::experiment::Experiment| {
            let chosen = Chosen::all(experiment, site);
            (experiment.id, chosen.expected(rounds).as_secs_f64())
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
                let sum = |part: &[&str]| -> f64 {
                    let of = expected.iter().filter(|(id, _)| part.contains(id));
                    of.map(|(_, seconds)| seconds).sum()
                };
                let all: Vec<&str> = expected.iter().map(|(id, _)| *id).collect();
                let [core, turnaround] = LARGE.map(sum);
                let small = sum(&all) - core - turnaround;
                let says = format!("{} on {cpus} CPUs, expected s: {expected:?}", profile.name());
                assert!(
                    core > 10.0 && core <= core_s,
                    "{core} s for the sources', of {core_s}: {says}"
                );
                assert!(
                    turnaround > 10.0 && turnaround <= turnaround_s,
                    "{turnaround} s for turnaround, of {turnaround_s}: {says}"
                );
                assert!(
                    small > 1.0 && small <= small_s,
                    "{small} s for the small ones, of {small_s}: {says}"
                );
            }
        }
    }

    #[test]
    fn every_experiment_answers_the_claims_that_the_table_gives_it_and_no_others() {
        for experiment in CATALOGUE.iter() {
            let view = threadgauge_lab::testing::view(experiment.id, Profile::Quick, Vec::new());
            let answer = (experiment.read)(&view);
            let mut answered: Vec<&str> = answer.claims.iter().map(|(id, _)| *id).collect();
            let mut given: Vec<&str> = claims_of(experiment.id).map(|c| c.id.as_str()).collect();
            answered.sort_unstable();
            given.sort_unstable();
            assert_eq!(
                answered, given,
                "`{}` reads the claims on the left; those on the right name it in the column `decided_by` of claims.csv",
                experiment.id
            );
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
        let row =
            |e: &'static threadgauge_lab::experiment::Experiment| format!("| `{}` | {} |", e.id, e.question);
        let rows: Vec<String> = CATALOGUE.iter().map(row).collect();
        assert_eq!(
            listed,
            rows,
            "the table in README.md must be:\n{}",
            rows.join("\n")
        );
    }
}
