//! Runs made by hand, for the tests of what is read off them.

use threadgauge_lab::prelude::*;
use threadgauge_lab::testing::{self, site};

use super::EXPERIMENT;
use super::case::{Case, Extra, Kind, Mode};
use super::claims::{
    BURNER_ERROR, ELAPSED, FINISH_WAIT, FINISHED, IDEAL_ELAPSED, IDEAL_TURNAROUND, TURNAROUND,
};
use threadgauge_lab::schedule::Chosen;
use threadgauge_lab::selection::choose;

/// The values that a case's figures are made of.
pub(super) struct Made {
    pub(super) elapsed_ns: f64,
    pub(super) turnaround: f64,
}

/// A run of `rounds` rounds on `cpus` CPUs in which each case has what `f` makes of it, or nothing.
pub(super) fn run(
    profile: Profile,
    rounds: usize,
    cpus: usize,
    f: impl Fn(Case) -> Option<Made>,
) -> View<'static> {
    made(Chosen::all(&EXPERIMENT, &site(profile, cpus)), profile, rounds, f)
}

/// The same of what a user has set and picked, in the quick profile on two CPUs.
pub(super) fn run_of(
    set: &str,
    only: &str,
    rounds: usize,
    f: impl Fn(Case) -> Option<Made>,
) -> View<'static> {
    let [set, only] = [set, only].map(|text| text.parse().unwrap());
    let chosen = choose(&[&EXPERIMENT], &site(Profile::Quick, 2), &only, &set);
    made(chosen.unwrap().remove(0), Profile::Quick, rounds, f)
}

fn made(chosen: Chosen, profile: Profile, rounds: usize, f: impl Fn(Case) -> Option<Made>) -> View<'static> {
    let cases = chosen.plan.cases.into_iter().map(|planned| {
        let case = Case::checked(&planned.params).unwrap();
        if let Some(lack) = planned.skip {
            return testing::lacking(case, lack);
        }
        let Some(made) = f(case) else {
            return testing::case(case, []);
        };
        let (ideal_ns, ideal_turnaround) = theory(case);
        let mut finished_ns = case.ideal(&case.given(1));
        finished_ns.sort_by(f64::total_cmp);
        let figures = [
            (ELAPSED, made.elapsed_ns),
            (TURNAROUND, made.turnaround),
            (IDEAL_ELAPSED, ideal_ns),
            (IDEAL_TURNAROUND, ideal_turnaround),
            (FINISH_WAIT, 50_000.0),
            (BURNER_ERROR, 0.02),
        ];
        let figures = figures.into_iter().chain(FINISHED.into_iter().zip(finished_ns));
        testing::case(case, figures.map(|(metric, value)| (metric, vec![value; rounds])))
    });
    testing::view("turnaround", profile, cases.collect())
}

/// Elapsed time and mean turnaround by theory.
pub(super) fn theory(case: Case) -> (f64, f64) {
    let lengths = case.given(1);
    let completed = case.ideal(&lengths);
    let elapsed_ns = completed.iter().copied().fold(0.0, f64::max);
    let turnarounds = completed
        .iter()
        .zip(&lengths)
        .map(|(c, l)| c / l.as_nanos() as f64);
    (elapsed_ns, turnarounds.sum::<f64>() / lengths.len() as f64)
}

/// A machine that follows theory, except that each concurrent computation costs `per_thread_ns` more.
pub(super) fn as_in_theory(
    profile: Profile,
    rounds: usize,
    cpus: usize,
    per_thread_ns: f64,
) -> View<'static> {
    run(profile, rounds, cpus, |case| {
        let (mut elapsed_ns, turnaround) = theory(case);
        if case.extra == Extra::Finisher {
            elapsed_ns += (case.count * case.base_ms) as f64 * 1e6;
        }
        let price_ns = match case.mode {
            Mode::Concurrent => per_thread_ns * case.count as f64,
            Mode::Serial => 0.0,
        };
        let late = if case.kind == Kind::Io {
            0.0
        } else {
            price_ns / elapsed_ns
        };
        Some(Made {
            elapsed_ns: elapsed_ns + price_ns,
            turnaround: turnaround * (1.0 + late),
        })
    })
}
