//! The experiments there are, in the order they run and are reported, and those still to come.

use std::sync::LazyLock;

use threadgauge_lab::experiment::{Catalogue, Experiment};

/// Every experiment.
pub const CATALOGUE: Catalogue = Catalogue {
    experiments: EXPERIMENTS,
    tables: &[
        crate::by_runtime::table,
        crate::source_004::table,
        crate::source_004::libraries,
    ],
};

const EXPERIMENTS: &[&Experiment] = &[
    &crate::create::EXPERIMENT,
    &crate::ring::EXPERIMENT,
    &crate::wake::EXPERIMENT,
    &crate::handover::EXPERIMENT,
    &crate::contention::EXPERIMENT,
    &crate::compute::EXPERIMENT,
    &crate::placement::EXPERIMENT,
    &crate::footprint::EXPERIMENT,
    &crate::limits::EXPERIMENT,
    &crate::crash::EXPERIMENT,
    &crate::identity::EXPERIMENT,
    &crate::oversubscription::EXPERIMENT,
    &crate::print::EXPERIMENT,
    &crate::turnaround::EXPERIMENT,
    &crate::calibration::EXPERIMENT,
    &crate::foreground::EXPERIMENT,
    &crate::probes::EXPERIMENT,
    &crate::multicast::EXPERIMENT,
    &crate::server_designs::EXPERIMENT,
    &crate::file_io::EXPERIMENT,
    &crate::peers::EXPERIMENT,
    &crate::http::EXPERIMENT,
    &crate::connections::EXPERIMENT,
    &crate::subscriptions::EXPERIMENT,
    &crate::chat::EXPERIMENT,
    &crate::pipelining::EXPERIMENT,
    &crate::mixed_clients::EXPERIMENT,
    &crate::past_the_limit::EXPERIMENT,
    &crate::stages::EXPERIMENT,
    &crate::quota::EXPERIMENT,
    // The control of the others comes when these have told what they found.
    &crate::null::EXPERIMENT,
];

/// Every experiment, and those about a user's own: computations, and the twin of a workload. They run only where these
/// are given.
#[must_use]
pub fn runnable() -> Catalogue {
    static ALL: LazyLock<Vec<&'static Experiment>> = LazyLock::new(|| {
        CATALOGUE
            .iter()
            .chain([&crate::each::EACH, &crate::twin::TWIN])
            .collect()
    });
    Catalogue {
        experiments: &ALL,
        ..CATALOGUE
    }
}

/// The experiment that decides a claim, and whether it is in the catalogue (true) or still to come.
#[must_use]
pub fn decided_by(claim: &str) -> Option<(&'static str, bool)> {
    let id = threadgauge_results::claim(claim)?.decided_by.as_str();
    Some((id, CATALOGUE.get(id).is_some()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use threadgauge_lab::claim::Test;
    use threadgauge_lab::grid::{Plan, PlannedCase};
    use threadgauge_lab::testing;
    use threadgauge_lab::view::View;
    use threadgauge_machine::CpuList;
    use threadgauge_results::{
        Act, Claim, Decisions, Lack, MetricSummary, Need, Offers, Runtime, Verdict, WaitsFor, claim, claims,
        claims_of, decide,
    };
    use threadgauge_stats::summarise;

    use super::*;
    use crate::runtimes::{KINDS, Kind};
    use threadgauge_lab::schedule::{Chosen, expected_rounds, stopping_rule};
    use threadgauge_lab::site::{Profile, Site};

    /// The small checks, which share their time.
    const SMALL: [&str; 3] = ["calibration", "foreground", "probes"];
    /// The large experiments with which the laboratory began: those of the sources' processes and threads, and
    /// `turnaround`.
    const LARGE: [&[&str]; 2] = [&["null", "create", "oversubscription", "print"], &["turnaround"]];

    /// What the experiments are expected to take, s, by name.
    fn expected(site: &Site) -> Vec<(&'static str, f64)> {
        let rounds = expected_rounds(&stopping_rule(site.profile, None));
        let takes = |experiment: &'static Experiment| {
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
            for (profile, core_s, turnaround_s, small_s, each_other_s, all_s) in [
                (Profile::Quick, 120.0, 30.0, 10.0, 25.0, 420.0),
                // A machine that has all other servers of `peers` and `http` takes the longest.
                (Profile::Standard, 900.0, 600.0, 90.0, 440.0, 3750.0),
            ] {
                let cpus = CpuList::new(0..cpus);
                let expected = expected(&Site::new(profile, &cpus, &[], free_memory_mib));
                let sum = |part: &[&str]| -> f64 {
                    let of = expected.iter().filter(|(id, _)| part.contains(id));
                    of.map(|(_, seconds)| seconds).sum()
                };
                let [core, turnaround] = LARGE.map(sum);
                let small = sum(&SMALL);
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
                let known = |id: &&str| SMALL.contains(id) || LARGE.concat().contains(id);
                for (id, seconds) in expected.iter().filter(|(id, _)| !known(id)) {
                    assert!(
                        *seconds <= each_other_s,
                        "{id} alone takes {seconds} s of {each_other_s}: {says}"
                    );
                }
                let whole: f64 = expected.iter().map(|(_, seconds)| seconds).sum();
                assert!(whole <= all_s, "{whole} s for all, of {all_s}: {says}");
            }
        }
    }

    #[test]
    fn a_first_run_has_four_minutes_and_what_runs_by_name_25_seconds_each() {
        let site = testing::site(Profile::Quick, 2);
        let budget = |e: &'static Experiment| (e.plan)(&site).budget.as_secs_f64();
        let first: f64 = CATALOGUE.iter().filter(|e| e.first_run).map(budget).sum();
        // Some of it is for starting, looking and the report.
        assert!(first <= 225.0, "{first} s");
        for e in CATALOGUE.iter().filter(|e| !e.first_run) {
            assert!(budget(e) <= 25.0, "{} has {} s", e.id, budget(e));
        }
    }

    #[test]
    fn every_experiment_plans_each_case_once_and_none_that_it_refuses() {
        for experiment in CATALOGUE.iter() {
            for (profile, cpus) in [Profile::Quick, Profile::Standard, Profile::Paper]
                .into_iter()
                .flat_map(|profile| [1, 2, 4].map(|cpus| (profile, cpus)))
            {
                let Plan { cases, reference, .. } = (experiment.plan)(&testing::site(profile, cpus));
                let ids: BTreeSet<String> = cases.iter().map(|c| c.params.to_string()).collect();
                let which = format!("`{}` in {} on {cpus} CPUs", experiment.id, profile.name());
                assert_eq!(ids.len(), cases.len(), "{which} plans a case twice");
                let refused = cases.iter().find_map(|c| (c.check)(&c.params).err());
                assert!(refused.is_none(), "{which} plans what it refuses: {refused:?}");
                let has_reference = cases.iter().any(|c| c.params.matches(&reference));
                assert!(has_reference, "{which} does not plan its reference {reference}");
                let lacks = |c: &&PlannedCase| c.skip.as_ref().is_some_and(|lack| lack.of != Need::Program);
                let skipped = cases.iter().find(lacks);
                assert!(cpus < 4 || skipped.is_none(), "{which}: {skipped:?}");
            }
        }
    }

    #[test]
    fn every_experiment_answers_the_claims_that_the_table_gives_it_and_no_others() {
        for experiment in CATALOGUE.iter() {
            let view = testing::view(experiment.id, Profile::Quick, Vec::new());
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

    /// What decides each claim where each case of `profile` is planned and none has figures yet.
    fn unmeasured(profile: Profile) -> Vec<(&'static str, Verdict, String)> {
        let site = testing::site(profile, 2);
        let planned = CATALOGUE.planned(&site);
        let of = |experiment: &'static Experiment| {
            let failed = || Lack::new(Need::Figures, "it failed");
            let cases = (experiment.plan)(&site).cases;
            let cases = cases
                .into_iter()
                .map(|case| testing::lacking(case.params, failed()));
            let view = View {
                planned: &planned,
                ..testing::view(experiment.id, profile, cases.collect())
            };
            let decided = (experiment.read)(&view).claims.into_iter().map(|(id, test)| {
                let claim = claim(id).expect("a published claim");
                let finding = decide(claim, &claim.unit, &test.evidence(&view, claim), testing::ALPHA);
                let verdict = finding.verdict.expect("a claim has a verdict");
                (id, verdict, finding.reason.unwrap_or_default())
            });
            decided.collect::<Vec<_>>()
        };
        CATALOGUE.iter().flat_map(of).collect()
    }

    #[test]
    fn what_a_profile_does_not_measure_comes_with_the_command_that_does() {
        for profile in [Profile::Quick, Profile::Standard, Profile::Paper] {
            for (id, verdict, reason) in unmeasured(profile) {
                let names_it = reason.contains("`threadgauge run ") || reason.contains("still to come");
                assert!(verdict != Verdict::NotMeasured || names_it, "{id}: {reason}");
                let unplanned = reason.contains("which this run did not plan");
                assert!(
                    profile != Profile::Paper || !unplanned,
                    "paper is said to have all: {reason}"
                );
            }
        }
    }

    /// An experiment's cases on a site, each with figures for these metrics, unless the machine lacks what it needs.
    fn measured(experiment: &'static Experiment, site: &Site, metrics: &BTreeSet<String>) -> View<'static> {
        let figures = |params| {
            let mut case = testing::case(params, []);
            for metric in metrics {
                let rounds: BTreeMap<u32, f64> = (1..=7).map(|round| (round, 1.0)).collect();
                let summary = summarise(&[1.0; 7], testing::ALPHA).expect("ones have a summary");
                case.summaries
                    .insert(metric.clone(), MetricSummary::new("", summary));
                case.values.insert(metric.clone(), rounds.clone());
                case.all.insert(metric.clone(), rounds);
            }
            case
        };
        let cases = Chosen::all(experiment, site).plan.cases.into_iter();
        // Programs that are not here may be elsewhere.
        let cases = cases.map(|case| match case.skip {
            Some(lack) if lack.of != Need::Program => testing::lacking(case.params, lack),
            _ => figures(case.params),
        });
        testing::view(experiment.id, site.profile, cases.collect())
    }

    /// The claims of an experiment that a run measures, whatever it finds.
    fn measured_claims(experiment: &'static Experiment, site: &Site) -> BTreeSet<&'static str> {
        let mut metrics: BTreeSet<String> = experiment.primary.iter().map(|m| m.name.to_owned()).collect();
        // Some claims name the rest of their metrics only where there are figures.
        loop {
            let view = measured(experiment, site, &metrics);
            let claims = (experiment.read)(&view).claims;
            let cells = claims.iter().flat_map(|(_, test)| test.statistics());
            let cells = cells.flat_map(|statistic| statistic.cells());
            let own = cells.filter(|cell| cell.experiment.is_none_or(|id| id == experiment.id));
            let known = metrics.len();
            metrics.extend(own.map(|cell| cell.metric.clone()));
            if metrics.len() > known {
                continue;
            }
            let is_measured = |(id, test): (&'static str, Test)| {
                let claim = claim(id).expect("a published claim");
                let verdict =
                    decide(claim, &claim.unit, &test.evidence(&view, claim), testing::ALPHA).verdict;
                (!matches!(verdict, Some(Verdict::NotMeasured | Verdict::NotTestable))).then_some(id)
            };
            return claims.into_iter().filter_map(is_measured).collect();
        }
    }

    /// The least number of CPUs, of these, from which on a run of some profile measures a claim, with every runtime.
    fn least_cpus() -> BTreeMap<&'static str, u32> {
        let mut least = BTreeMap::new();
        for cpus in [1_u32, 2, 3, 4, 5, 16] {
            for (profile, experiment) in Profile::ALL
                .into_iter()
                .flat_map(|profile| CATALOGUE.iter().map(move |experiment| (profile, experiment)))
            {
                let mut site = testing::site(profile, cpus as usize);
                site.runtimes = every_runtime();
                for id in measured_claims(experiment, &site) {
                    least.entry(id).or_insert(cpus);
                }
            }
        }
        least
    }

    fn every_runtime() -> Vec<Runtime> {
        let of = |kind: &&Kind| Runtime {
            name: kind.name.to_owned(),
            kind: kind.name.to_owned(),
            version: "99".to_owned(),
            program: String::new(),
            command: Vec::new(),
            lack: None,
        };
        KINDS.iter().map(of).collect()
    }

    /// Whose evidence made-up figures of one experiment do not have: two need cells of `ring` beside those of `create`,
    /// and one needs to know what ended a trial. Stored runs decide or judge each.
    const NOT_MADE_UP: [&str; 3] = [
        "process-costs-30-threads",
        "processes-scale-further-than-threads",
        "threads-as-processes-less-efficient",
    ];

    #[test]
    fn each_claim_waits_for_what_its_experiment_asks_of_a_machine() {
        let least = least_cpus();
        let wrong = claims().iter().filter_map(|claim| {
            let asks = match (least.get(claim.id.as_str()), claim.waits_for) {
                (None, waits) if waits.lacks().is_some() => waits,
                (Some(_), waits @ (WaitsFor::OldLibrary | WaitsFor::Siblings)) => waits,
                (Some(1), _) => WaitsFor::Nothing,
                (None, _) if NOT_MADE_UP.contains(&claim.id.as_str()) => WaitsFor::Nothing,
                (Some(cpus), _) => WaitsFor::Cpus(*cpus),
                (None, _) => return Some(format!("{}: no run measures it", claim.id)),
            };
            (asks != claim.waits_for).then(|| format!("{}: {asks}, not {}", claim.id, claim.waits_for))
        });
        let wrong: Vec<String> = wrong.collect();
        assert!(
            wrong.is_empty(),
            "in the column `waits_for` of claims.csv:\n{}",
            wrong.join("\n")
        );
    }

    #[test]
    fn what_is_decided_on_a_re_creation_waits_for_the_old_library() {
        let site = testing::site(Profile::Paper, 16);
        let of = |experiment: &'static Experiment| {
            let view = measured(experiment, &site, &BTreeSet::new());
            let tests = (experiment.read)(&view).claims.into_iter();
            let recreated = tests.filter(|(_, test)| matches!(test, Test::Recreated { .. }));
            recreated.map(|(id, _)| id).collect::<Vec<_>>()
        };
        let recreated: BTreeSet<&str> = CATALOGUE.iter().flat_map(of).collect();
        let waiting = claims()
            .iter()
            .filter(|claim| claim.waits_for == WaitsFor::OldLibrary);
        assert_eq!(recreated, waiting.map(|claim| claim.id.as_str()).collect());
    }

    #[test]
    fn what_to_know_before_quoting_is_told_to_a_reader() {
        for claim in claims().iter().filter(|claim| !claim.note.is_empty()) {
            let begins = claim.note.starts_with(char::is_uppercase);
            assert!(
                begins && claim.note.ends_with('.'),
                "{}: {}",
                claim.id,
                claim.note
            );
        }
    }

    #[test]
    fn the_list_of_claims_that_quick_measures_is_the_committed_one() {
        let committed = include_str!("../../../docs/quick-claims.md");
        let of = |experiment: &'static Experiment| {
            let [one, two] =
                [1, 2].map(|cpus| measured_claims(experiment, &testing::site(Profile::Quick, cpus)));
            let all = claims_of(experiment.id).filter(|claim| one.union(&two).any(|id| *id == claim.id));
            let yes = |of: &BTreeSet<&str>, id: &str| if of.contains(id) { "yes" } else { "no" };
            let first = if experiment.first_run { ", first run" } else { "" };
            let row = |claim: &Claim| {
                let id = claim.id.as_str();
                format!(
                    "| `{id}` | `{}`{first} | {} | {} |",
                    experiment.id,
                    yes(&one, id),
                    yes(&two, id)
                )
            };
            all.map(row).collect::<Vec<_>>()
        };
        let rows: Vec<String> = CATALOGUE.iter().flat_map(of).collect();
        let count = |parts: [&str; 2]| {
            rows.iter()
                .filter(|row| parts.iter().all(|part| row.contains(part)))
                .count()
        };
        let text = committed.split_whitespace().collect::<Vec<_>>().join(" ");
        for says in [
            format!("of {} on two CPUs or more", count(["", "yes |"])),
            format!("the {} with *yes* in the third column", count(["", "| yes | "])),
            format!(
                "no others: {} on two CPUs or more, {} on one.",
                count(["first run", "yes |"]),
                count(["first run", "| yes | "])
            ),
        ] {
            assert!(text.contains(&says), "docs/quick-claims.md must say: {says}");
        }
        let listed: Vec<&str> = committed.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(
            listed,
            rows,
            "a claim may leave docs/quick-claims.md only with its conditions (docs/verdicts.md); the rows now:\n{}",
            rows.join("\n")
        );
    }

    #[test]
    fn what_is_done_with_a_unit_is_measured_by_an_experiment_of_the_catalogue() {
        for act in Act::ALL {
            assert!(CATALOGUE.get(act.experiment()).is_some(), "{act:?}");
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
        let row = |e: &'static Experiment| format!("| `{}` | {} |", e.id, e.question);
        let two = Offers {
            cpus: 2,
            siblings: false,
        };
        let decisions = Decisions::of(claims().iter().map(|claim| claim.waits_for), two);
        let says = decisions.says("a machine with two CPUs");
        let words = readme.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&says), "README must say: {says}");
        let rows: Vec<String> = CATALOGUE.iter().map(row).collect();
        assert_eq!(
            listed,
            rows,
            "the table in README.md must be:\n{}",
            rows.join("\n")
        );
    }
}
