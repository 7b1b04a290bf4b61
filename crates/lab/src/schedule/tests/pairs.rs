//! Two runs that take turns, each on a simulated machine of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use super::*;
use crate::turns::{Greeting, Met, PROTOCOL};

fn greeting(run: &Run) -> Greeting {
    Greeting {
        protocol: PROTOCOL,
        id: String::new(),
        seed: Some(run.seed),
        proposed: 0,
        profile: (run.profile.name().to_owned(), run.rounds),
        plan: run.chosen.iter().flat_map(Chosen::measured).collect(),
        references: None,
    }
}

fn meet(at: &Path, greeting: &Greeting) -> Met {
    let (_user, here) = UnixStream::pair().unwrap();
    let mut interrupts = Interrupts::new(here).unwrap();
    Turns::meet(at, greeting, 600 * SECOND, &mut interrupts).unwrap()
}

/// A run that meets another one there.
fn go(run: &Run, at: &Path, fate: &mut dyn FnMut(usize, &Order) -> Fate) -> Came {
    let met = meet(at, &greeting(run));
    run.go_in(met.turns, &mut SimulatedMachine::new(fate))
}

#[test]
fn both_have_the_rounds_that_one_has_time_for_and_what_the_other_uses_is_not_foreign() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("turns");
    // A round takes four seconds of one and eight of the other, and eleven rounds of the first have time.
    let go = |takes: Duration| {
        let mut run = Run::new(Profile::Standard, 1);
        run.chosen[0].plan.budget = 44 * SECOND;
        go(&run, &at, &mut |_, _| Fate { takes, ..QUIET })
    };
    let both = thread::scope(|scope| {
        let slow = scope.spawn(|| go(4 * SECOND));
        [go(2 * SECOND), slow.join().unwrap()]
    });
    for came in both {
        assert_eq!(came.stopped(), ("time-budget", 11));
        assert_eq!(came.samples.len(), 2 * 11);
    }
}

#[test]
fn never_do_both_measure_whatever_each_repeats() {
    for (profile, rounds) in [(Profile::Quick, Some(40)), (Profile::Standard, None)] {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("turns");
        let busy = AtomicBool::new(false);
        let go = |disturbed: u64| {
            let mut run = Run::new(profile, 2);
            run.rounds = rounds;
            let mut noise = fastrand::Rng::with_seed(disturbed);
            go(&run, &at, &mut |_, _| {
                assert!(!busy.swap(true, SeqCst), "the other run is measuring");
                // So long that the other one would begin within it.
                thread::sleep(Duration::from_millis(1));
                assert!(busy.swap(false, SeqCst));
                let steal = if noise.u8(..4) == 0 { 0.5 } else { 0.0 };
                Fate { steal, ..QUIET }
            })
        };
        let both = thread::scope(|scope| {
            let second = scope.spawn(|| go(2));
            [go(1), second.join().unwrap()]
        });
        for came in both {
            assert!(came.samples.iter().any(|s| s.attempt > 0), "some are repeated");
        }
    }
}

/// The reference case of each has all CPUs of its state, as in `placement`.
#[test]
fn two_states_measure_what_both_have_and_that_twice_which_is_the_reference_case_of_both() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("turns");
    let kept = |cpus: &[u64]| {
        let mut run = Run::rounds(1, cpus.len() as u64);
        let said = greeting(&run);
        let chosen = &mut run.chosen[0];
        for (case, &cpus) in chosen.plan.cases.iter_mut().zip(cpus) {
            case.params = Params::new().with("cpus", cpus);
        }
        let all = *cpus.last().unwrap();
        chosen.plan.reference = Params::new().with("cpus", all);
        let said = Greeting {
            plan: chosen.cases_in_state(all).collect(),
            references: Some(chosen.reference_in_state(all).into_iter().collect()),
            ..said
        };
        chosen.keep(&meet(&at, &said).common.unwrap(), all);
        let cases: Vec<String> = chosen.cases_in_state(all).map(|(case, _)| case).collect();
        (cases, chosen.reference_in_state(all).unwrap())
    };
    let of = |cases: &[&str], reference: &str| {
        let cases: Vec<String> = cases.iter().map(|case| (*case).to_owned()).collect();
        (cases, reference.to_owned())
    };
    let [one, two, all] = ["first/cpus=1", "first/cpus=2", "first/cpus=all"];
    for (a, b, both) in [
        // Of one CPU nobody says that it is all, so that one of the reference cases is left out.
        (&[1][..], &[1, 2, 4][..], of(&[one], one)),
        (&[1, 2][..], &[1, 2, 4][..], of(&[one, all], all)),
        (&[1, 2, 8][..], &[1, 2, 4][..], of(&[one, two, all], all)),
    ] {
        let kept = thread::scope(|scope| {
            let other = scope.spawn(|| kept(b));
            [kept(a), other.join().unwrap()]
        });
        assert_eq!(kept, [both.clone(), both], "{a:?} {b:?}");
    }
}
