//! The matched slice: the work between two yields at which two threads on one CPU cost what source 001 published.
//!
//! The source does not say how much its threads did between two yields; its run times do. Two yielding threads on one
//! CPU took 1 % longer than one, so what a second one adds to a yield was a hundredth of the slice. A worker measures
//! that in a few short runs, before the case, and makes the slice a hundred times as long.

use threadgauge_lab::prelude::*;
use threadgauge_machine::{CpuList, allowed_cpus, pin_thread};

use super::case::{Case, Mode, Slice, Unit, Work};
use super::units::of_threads;

/// What two yielding threads on one CPU cost in the source, of 1.
pub(super) const PUBLISHED: f64 = 0.01;

/// Runs of one thread and of two. The least of each counts: everything else only adds to them.
const RUNS: usize = 5;

/// The least that a switch is taken for: what cannot be told from nothing would be a slice without an end.
const LEAST_NS: f64 = 100.0;

/// One of them.
const ALONE: Case = Case {
    unit: Unit::Thread,
    mode: Mode::Yield,
    count: 1,
    cpus: 1,
    slice_us: Slice::SHORT,
    work_s: Work::ms(2),
};

/// Steps of the slice, given what a switch adds and what a step takes, ns.
pub(super) fn slice(switch_ns: f64, step_ns: f64) -> u64 {
    ((switch_ns / PUBLISHED / step_ns) as u64).max(1)
}

/// What a switch between two yielding threads on one CPU adds to the yield of one alone, ns. Blocks for some 30 ms, on
/// the first of the CPUs that the caller may use.
///
/// # Errors
///
/// [`CaseError::Skipped`] where the scheduler ignores yields.
pub(super) fn switch_ns() -> Result<f64, CaseError> {
    let failed = |what: &'static str| move |error| CaseError::failed(what, error);
    let allowed = allowed_cpus().map_err(|error| CaseError::failed("asking which CPUs there are", error))?;
    let first = CpuList::new(allowed.iter().take(1));
    pin_thread(&first).map_err(failed("going to one CPU to measure a switch"))?;
    let both = |_| Ok([time_of(ALONE)?, time_of(ALONE.count(2))?]);
    let measured: Result<Vec<[f64; 2]>, CaseError> = (0..RUNS).map(both).collect();
    pin_thread(&allowed).map_err(failed("going back to all CPUs"))?;
    let measured = measured?;
    let least = |which: usize| smallest(&measured.iter().map(|times| times[which]).collect::<Vec<_>>());
    Ok((least(1) - least(0)).max(LEAST_NS))
}

/// CPU time per slice, ns: on one CPU that is the run time without what other programs take of it.
fn time_of(case: Case) -> Result<f64, CaseError> {
    let ran = of_threads(case)?;
    if case.count > 1 && ran.switches < 0.5 * ran.pieces {
        let says =
            "the scheduler ignores yields, so there is no slice at which two yielding threads cost 1 %";
        return Err(CaseError::Skipped(Lack::new(Need::System, says)));
    }
    Ok(ran.cpu_ns / ran.pieces)
}

#[cfg(test)]
mod tests {
    use super::super::EXPERIMENT;
    use super::super::units::{MATCHED_ON, SLICE};
    use super::*;
    use threadgauge_lab::testing;

    #[test]
    fn the_slice_is_a_hundred_times_what_a_switch_adds() {
        let steps = slice(800.0, 1.28);
        assert!((steps as f64 * 1.28 - 80_000.0).abs() < 2.0, "{steps}");
        assert_eq!(slice(0.0, 1.28), 1);
    }

    // Other tests run in this process and add to what is measured, so no length is asserted.
    #[test]
    fn a_matched_sample_says_its_slice_and_leaves_the_cpus_as_they_were() {
        let before = allowed_cpus().unwrap();
        for (mode, matched) in [(Mode::Yield, true), (Mode::Neither, false), (Mode::Sleep, false)] {
            let case = ALONE.mode(mode).count(2).slice_us(Slice::Matched);
            let sample = testing::sample(&EXPERIMENT, &case.params());
            let switch_ns = sample.value(MATCHED_ON.name);
            assert_eq!(switch_ns.is_some(), matched, "{sample:?}");
            let slice_ns = sample.value(SLICE.name).unwrap();
            assert!(switch_ns.is_none_or(|switch_ns| switch_ns >= LEAST_NS && slice_ns <= 101.0 * switch_ns));
        }
        assert_eq!(allowed_cpus().unwrap(), before);
    }
}
