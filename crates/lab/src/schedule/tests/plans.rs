//! What is stored of a plan and read back, and what it is expected to take.

use threadgauge_machine::CpuList;
use threadgauge_results::Need;

use super::*;
use crate::experiment::Catalogue;
use crate::site::Site;
use crate::turns::Common;

/// An experiment with a plan of its own, of one case.
static PLANNED: Experiment = Experiment {
    plan: |_| Plan {
        budget: 30 * SECOND,
        ..chosen(&FIRST, 1).plan
    },
    ..simulated("planned")
};

#[test]
fn a_stored_plan_is_read_back_with_its_cases_and_its_reference_case() {
    let mut planned = chosen(&PLANNED, 3);
    planned.plan.reference = Params::new().with("n", 1);
    let site = Site::new(Profile::Quick, &CpuList::new([0]), &[], 0);
    let again = Chosen::again(&PLANNED, &planned.record(), &site);
    assert_eq!(again.record(), planned.record());
    let params = |chosen: &Chosen| chosen.able().map(|case| case.params.clone()).collect::<Vec<_>>();
    assert_eq!(params(&again), params(&planned));
    assert_eq!(
        again.plan.budget,
        30 * SECOND,
        "what is not stored is of this version"
    );
}

#[test]
fn a_catalogue_has_the_cases_of_each_profile_the_shortest_first() {
    static ALL: [&Experiment; 1] = [&PLANNED];
    let site = crate::testing::site(Profile::Quick, 1);
    let catalogue = Catalogue {
        experiments: &ALL,
        tables: &[],
    };
    let planned = catalogue.planned(&site);
    let seen: Vec<_> = planned
        .iter()
        .map(|(id, profile, params)| (*id, *profile, params.int("n")))
        .collect();
    assert_eq!(seen, Profile::ALL.map(|profile| ("planned", profile, Some(0))));
}

#[test]
fn what_a_plan_is_expected_to_take() {
    let mut planned = chosen(&FIRST, 2);
    planned.plan.budget = 40 * SECOND;
    // Two cases and A′.
    assert_eq!(planned.round_estimate(), 6 * SECOND);
    // Seven rounds are more than the budget.
    assert_eq!(
        [3, 7, 8].map(|rounds| planned.expected(rounds)),
        [18, 42, 42].map(|s| s * SECOND)
    );
    assert_eq!(planned.longest_try(), 40 * SECOND);
    planned.plan.cases[1].estimate = 3 * SECOND;
    assert_eq!(planned.longest_try(), 60 * SECOND);
}

#[test]
fn of_two_states_the_cases_that_the_other_does_not_have_are_skipped() {
    let mut planned = chosen(&FIRST, 3);
    for (case, cpus) in planned.plan.cases.iter_mut().zip([1, 2, 4_u64]) {
        case.params = Params::new().with("cpus", cpus);
    }
    // The last is short.
    planned.plan.cases[2].estimate = Duration::from_millis(9);
    let measured = |of: &Chosen| of.cases_in_state(4).collect::<Vec<_>>();
    let [one, two, all] = ["first/cpus=1", "first/cpus=2", "first/cpus=all"];
    let with_tries = |of: &[(&str, u32)]| -> Vec<(String, u32)> {
        of.iter()
            .map(|(name, tries)| ((*name).to_owned(), *tries))
            .collect()
    };
    let common = |cases: &[(&str, u32)]| Common {
        cases: with_tries(cases).into_iter().collect(),
        references: BTreeSet::new(),
    };
    assert_eq!(measured(&planned), with_tries(&[(one, 1), (two, 1), (all, 2)]));
    assert_eq!(planned.keep(&common(&[(one, 1), (all, 2)]), 4), 1);
    assert_eq!(measured(&planned), with_tries(&[(one, 1), (all, 2)]));
    // It takes longer in the other state.
    assert_eq!(
        planned.keep(&common(&[(one, 1), (all, 1)]), 4),
        0,
        "what is skipped already is not counted"
    );
    assert_eq!(measured(&planned), with_tries(&[(one, 1), (all, 1)]));
    let skipped = planned
        .plan
        .cases
        .iter()
        .map(|case| case.skip.as_ref().map(|lack| lack.of));
    assert_eq!(skipped.collect::<Vec<_>>(), [None, Some(Need::Profile), None]);
}

#[test]
fn a_case_that_names_a_runtime_is_run_by_the_one_of_that_name() {
    let of = |name: &str| Runtime {
        name: name.to_owned(),
        kind: "java".to_owned(),
        version: "21".to_owned(),
        program: String::new(),
        command: Vec::new(),
        lack: None,
    };
    let runtimes = ["java", "java-25"].map(of);
    let case = Params::new().with("count", 1);
    assert_eq!(named(&runtimes, &case), None);
    assert_eq!(
        named(&runtimes, &case.clone().with("runtime", "java-25")),
        Some(of("java-25"))
    );
    assert_eq!(named(&runtimes, &case.with("runtime", "go")), None);
}

#[test]
fn what_is_told_before_a_run_rests_on_tries_rounds_and_time() {
    let rule = stopping_rule(Profile::Quick, None);
    let told = |chosen: &Chosen, took: &[Duration]| {
        let mut forecast = Forecast::new(
            std::slice::from_ref(chosen),
            Profile::Quick,
            &rule,
            Times::default(),
        );
        for took in took {
            forecast.add("first/n=0", 2 * SECOND, *took);
        }
        forecast.experiment_s(chosen)
    };
    // A case and A′ take 28 s before the first look, and 0.65 of as much after it.
    let mut one = chosen(&FIRST, 1);
    assert!((told(&one, &[]) - 46.2).abs() < 1e-9);
    // Seven rounds, where they take longer than the time,
    one.plan.budget = 28 * SECOND;
    assert!((told(&one, &[3 * SECOND]) - 42.0).abs() < 1e-9);
    // but no more than twice the time.
    assert!((told(&one, &[5 * SECOND]) - 56.0).abs() < 1e-9);
    // Each sample in two tries of 20 ms.
    let mut short = chosen(&FIRST, 1);
    short.plan.cases[0].estimate = SECOND / 50;
    assert!((told(&short, &[SECOND / 50]) - 0.56 * 1.65).abs() < 1e-9);
}

#[test]
fn an_earlier_run_tells_how_many_times_as_long_as_its_first_rounds_all_take() {
    let run = Run::new(Profile::Quick, 1);
    assert_eq!(run.go(|_, _| QUIET).stopped(), ("rounds", 14));
    let store = Store::read(run.dir.path()).unwrap();
    let mut earlier = Times::default();
    let (record, machine) = (store.run().unwrap(), store.machine().unwrap());
    assert!(earlier.learn(&store, &machine, &record, 7).unwrap());
    near(run.forecast(earlier).of(&run.chosen), 56 * SECOND);
}

#[test]
fn all_cases_of_a_round_draw_alike_and_each_round_and_try_otherwise() {
    let mut run = Run::rounds(3, 2);
    // So short that each sample has two tries.
    for case in &mut run.chosen[0].plan.cases {
        case.estimate = Duration::from_millis(20);
    }
    let mut seeds = Vec::new();
    let came = run.go(|_, order| {
        seeds.push(order.seed);
        QUIET
    });
    // Two cases and the copy, twice in each of three rounds.
    assert_eq!(came.samples.len(), 18);
    let mut of_try: BTreeMap<(u32, u32), BTreeSet<u64>> = BTreeMap::new();
    for (sample, seed) in came.samples.iter().zip(&seeds) {
        of_try
            .entry((sample.round, sample.nth_try))
            .or_default()
            .insert(*seed);
    }
    assert!(of_try.values().all(|seeds| seeds.len() == 1), "{of_try:?}");
    let all: BTreeSet<u64> = seeds.iter().copied().collect();
    assert_eq!((all.len(), of_try.len()), (6, 6));
    assert!(all.iter().all(|seed| *seed <= LARGEST_SEED));
}
