//! What the schedule decides at the edge of a limit, and what it says is left.

use std::path::Path;

use super::*;

/// A disturbed worker of a tenth of a second.
const THROTTLED: Fate = Fate {
    takes: Duration::from_millis(100),
    throttled: Duration::from_nanos(1),
    ..QUIET
};

/// What was told before each worker of a round: how many of it were done, and what was left.
fn left(came: &Came, round: u32) -> Vec<(usize, Duration)> {
    let told = came.heard.progress.iter().filter(|told| told.0 == round);
    told.map(|&(_, done, left, _)| (done, left)).collect()
}

#[test]
fn a_stored_run_has_the_looks_of_its_profile_and_schema() {
    let looks = |run: &str| {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs");
        // SQLite may write beside it.
        let here = tempfile::tempdir().unwrap();
        let file = threadgauge_results::STORE_FILE;
        std::fs::copy(runs.join(run).join(file), here.path().join(file)).unwrap();
        rule_of(&Store::read(here.path()).unwrap()).unwrap().looks
    };
    assert_eq!(looks("2026-11-23-quick"), [7, 10, 14]);
    // Of schema 1; and with the rounds that were asked for.
    assert_eq!(looks("2026-11-21-turnaround-standard"), [10, 15, 20]);
    assert_eq!(looks("golden/undisturbed"), [6]);
}

#[test]
fn a_worker_beside_just_as_much_load_as_may_be_is_not_disturbed() {
    let most = Noise {
        steal_share: STEAL_LIMIT,
        foreign_cpus: FOREIGN_LIMIT_CPUS,
        ..Noise::default()
    };
    assert!(!disturbed(&most));
}

#[test]
fn a_seed_has_the_same_orders_in_every_version() {
    let order = |seed, round| {
        let chosen = chosen(&FIRST, 5);
        let of = shuffled(&chosen, seed, round);
        let places = of
            .iter()
            .map(|slot| (slot.case.params.int("n").unwrap(), slot.copy));
        places.collect::<Vec<_>>()
    };
    assert_eq!(order(1, 1), [(2, 0), (3, 0), (0, 1), (4, 0), (0, 0), (1, 0)]);
    // No bit of a seed is lost beside those of the round and of the experiment.
    assert_eq!(
        order(u64::MAX, 1),
        [(0, 1), (3, 0), (1, 0), (0, 0), (4, 0), (2, 0)]
    );
}

#[test]
fn every_experiment_has_a_round_even_where_those_before_took_the_time_of_all() {
    let mut run = Run::new(Profile::Quick, 1);
    run.chosen.push(chosen(&SECOND_ONE, 1));
    run.chosen.iter_mut().for_each(|c| c.plan.budget = 28 * SECOND);
    // Of twice 56 s one round of the first takes 200.
    let came = run.go(|_, _| Fate {
        takes: 100 * SECOND,
        ..QUIET
    });
    let taken: Vec<(&str, u32)> = came
        .samples
        .iter()
        .map(|s| (&s.experiment[..], s.round))
        .collect();
    assert_eq!(taken, [("first", 1), ("first", 1), ("second", 1), ("second", 1)]);
}

#[test]
fn a_round_of_several_tries_is_begun_where_all_of_them_have_time() {
    // Eight rounds of a case and A′, each in two tries of 20 ms, take 640 ms, and one more 80.
    for (budget_ms, rounds) in [(640, 8), (719, 8), (720, 9)] {
        let mut run = Run::new(Profile::Standard, 1);
        run.chosen[0].plan.budget = Duration::from_millis(budget_ms);
        let takes = Duration::from_millis(20);
        run.chosen[0].plan.cases[0].estimate = takes;
        let came = run.go(|_, _| Fate { takes, ..QUIET });
        assert_eq!(came.stopped(), ("time-budget", rounds), "{budget_ms} ms");
    }
}

#[test]
fn cases_without_an_estimate_end_with_the_time_as_well() {
    let mut run = Run::new(Profile::Standard, 1);
    run.chosen[0].plan.budget = 30 * SECOND;
    run.chosen[0].plan.cases[0].estimate = Duration::ZERO;
    let came = run.go(|_, _| Fate {
        takes: SECOND,
        ..QUIET
    });
    assert_eq!(came.stopped(), ("time-budget", 8));
}

#[test]
fn what_is_left_of_the_first_rounds_is_more_than_their_estimate_where_tries_were_repeated() {
    let came = Run::rounds(2, 1).go(|worker, _| match worker {
        0 => Fate {
            takes: QUIET.takes,
            ..THROTTLED
        },
        _ => QUIET,
    });
    assert_eq!(left(&came, 1), [(0, 8 * SECOND), (1, 6 * SECOND)]);
    // The repeat comes before the second round; of the four tries expected, three were taken.
    assert_eq!(attempts(&came)[2], (1, false));
    assert_eq!(left(&came, 2), [(0, 4 * SECOND), (1, 2 * SECOND)]);
}

#[test]
fn after_the_first_look_all_rounds_are_left_or_what_they_have_time_for() {
    let after = |budget_s| {
        let mut run = Run::new(Profile::Quick, 1);
        run.chosen[0].plan.budget = budget_s * SECOND;
        left(&run.go(|_, _| QUIET), 8)
    };
    // Seven more rounds of four seconds.
    assert_eq!(after(1_000), [(0, 28 * SECOND), (1, 26 * SECOND)]);
    // Of 40 s the first seven took 28.
    assert_eq!(after(40), [(0, 12 * SECOND), (1, 10 * SECOND)]);
}

#[test]
fn a_try_whose_round_a_look_has_used_is_not_repeated_where_the_run_goes_on() {
    let run = Run::new(Profile::Quick, 1);
    // Loaded throughout: after the first tries nothing is repeated.
    let mut loaded = |_: usize, _: &Order| Fate {
        foreign: 0.5,
        ..QUIET
    };
    let mut machine = SimulatedMachine::new(&mut loaded);
    machine.stop_during = Some(22);
    let first = run.go_on(&mut machine);
    assert_eq!(first.looks.len(), 1);
    let of_look = first.samples.iter().filter(|s| s.round == 7);
    assert!(of_look.clone().count() == 2 && of_look.clone().all(|s| s.gated && s.attempt == 0));
    let second = run.go(|_, _| QUIET);
    assert_eq!(second.samples.iter().filter(|s| s.round == 7).count(), 2);
}

#[test]
fn a_run_that_became_faster_has_all_rounds_and_its_only_look_after_the_last_repeat() {
    // Until half of the rounds to a second look there would be 34 s. Later rounds take no time to speak of.
    let run = || {
        let mut run = Run::new(Profile::Quick, 1);
        run.chosen[0].plan.budget = 33 * SECOND;
        run
    };
    let fate = |worker: usize, _: &Order| match worker {
        ..14 => QUIET,
        27 => THROTTLED,
        _ => Fate {
            throttled: Duration::ZERO,
            ..THROTTLED
        },
    };
    let came = run().go(fate);
    assert_eq!((came.stopped(), came.looks.len()), (("rounds", 14), 0));
    assert_eq!(attempts(&came)[27..], [(0, true), (1, false)]);
    // Without a repeat it ends as well.
    let quiet = run().go(|worker, order| Fate {
        throttled: Duration::ZERO,
        ..fate(worker, order)
    });
    assert_eq!((quiet.stopped(), quiet.samples.len()), (("rounds", 14), 28));
}

#[test]
fn a_user_who_stops_it_after_a_round_is_not_kept_waiting() {
    // Neither by a look after which no case goes on,
    let mut run = Run::new(Profile::Quick, 1);
    run.goes_on = |_, _| false;
    // nor by the wait for a repeat.
    let repeats = Run::rounds(7, 1);
    for (run, last) in [(run, QUIET), (repeats, THROTTLED)] {
        let mut fate = |worker: usize, _: &Order| if worker == 13 { last } else { QUIET };
        let mut machine = SimulatedMachine::new(&mut fate);
        machine.stop_during = Some(13);
        let came = run.go_on(&mut machine);
        assert_eq!((came.ending, came.looks.len()), (Ending::Interrupted, 0));
        let came = run.go(|_, _| QUIET);
        assert_eq!((came.ending, came.looks.len()), (Ending::Complete, 1));
        let repeated = usize::from(last.throttled > Duration::ZERO);
        assert_eq!(came.samples.len(), 14 + repeated);
    }
}
