//! How long a set of computations takes by scheduling theory: the part of every figure that is arithmetic.
//!
//! Computations are phases of computing and waiting. They are started in order, at most `degree` at a time. Those that
//! compute share the CPUs equally (processor sharing, each on one CPU at most); those that wait use none. A degree of 1
//! is first come, first served. Nothing else costs anything.
//!
//! The completion times are exact: the simulation goes from event to event, and between two events nobody's rate
//! changes.

use std::collections::VecDeque;

/// A part of a computation, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    /// Needs this much CPU time, ns.
    Compute(f64),
    /// Needs this much time, ns, and no CPU.
    Wait(f64),
}

/// When each computation completes after the start, ns, where each is given by its phases.
pub(crate) fn completions(computations: &[Vec<Phase>], cpus: u64, degree: u64) -> Vec<f64> {
    let most = usize::try_from(degree).unwrap_or(usize::MAX);
    let mut completed = vec![0.0; computations.len()];
    let mut queue = computations.iter().cloned().map(VecDeque::from).enumerate();
    // Each with what is left of its phases; the first is under way.
    let mut active: Vec<(usize, VecDeque<Phase>)> = Vec::new();
    let mut now = 0.0;
    loop {
        active.extend(queue.by_ref().take(most - active.len()));
        // A computation without phases left leaves, and makes room.
        let before = active.len();
        for (index, _) in active.extract_if(.., |(_, phases)| phases.is_empty()) {
            completed[index] = now;
        }
        if active.len() < before {
            continue;
        }
        let computes = |phase: &Phase| matches!(phase, Phase::Compute(_));
        let computing = active.iter().filter(|(_, phases)| computes(&phases[0])).count();
        let share = (cpus as f64 / computing.max(1) as f64).min(1.0);
        let rate = |phase: &Phase| if computes(phase) { share } else { 1.0 };
        let until = active.iter().map(|(_, phases)| {
            let (Phase::Compute(left) | Phase::Wait(left)) = phases[0];
            left / rate(&phases[0])
        });
        let Some(step) = until.min_by(f64::total_cmp) else {
            return completed;
        };
        now += step;
        for (_, phases) in &mut active {
            let rate = rate(&phases[0]);
            let (Phase::Compute(left) | Phase::Wait(left)) = &mut phases[0];
            *left -= step * rate;
            // Rounding leaves a tiny remainder of a phase that ends together with another.
            if *left <= now * 1e-12 {
                phases.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn computing(lengths: &[f64]) -> Vec<Vec<Phase>> {
        lengths.iter().map(|&l| vec![Phase::Compute(l)]).collect()
    }

    fn descending(n: u32) -> Vec<f64> {
        (1..=n).rev().map(f64::from).collect()
    }

    fn turnaround(lengths: &[f64], cpus: u64, degree: u64) -> f64 {
        let completed = completions(&computing(lengths), cpus, degree);
        let each = completed.iter().zip(lengths).map(|(c, l)| c / l);
        each.sum::<f64>() / lengths.len() as f64
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
    }

    #[test]
    fn one_after_the_other_adds_up() {
        assert_eq!(completions(&computing(&[3.0, 2.0, 1.0]), 2, 1), [3.0, 5.0, 6.0]);
    }

    #[test]
    fn one_cpu_shared_by_three() {
        // Each gets a third until the shortest has had 1 (at 3), then a half until the next has had 2 (at 5).
        assert_eq!(completions(&computing(&[3.0, 2.0, 1.0]), 1, 25), [6.0, 5.0, 3.0]);
    }

    #[test]
    fn two_cpus_shared_by_three() {
        // Two thirds each until 1.5; then two CPUs for two, the shorter has 1 left (2.5), the longer 2 (3.5).
        let completed = completions(&computing(&[3.0, 2.0, 1.0]), 2, 25);
        assert!(
            completed.iter().zip([3.5, 2.5, 1.5]).all(|(a, b)| close(*a, b)),
            "{completed:?}"
        );
    }

    #[test]
    fn a_degree_of_two_lets_the_third_wait() {
        // 3 and 2 share until 4, when the second has had its 2 and the first 2; then 1 and 1 share for 2.
        let completed = completions(&computing(&[3.0, 2.0, 1.0]), 1, 2);
        assert!(
            completed.iter().zip([6.0, 4.0, 6.0]).all(|(a, b)| close(*a, b)),
            "{completed:?}"
        );
    }

    #[test]
    fn those_that_wait_do_not_share() {
        let waiting = |l| vec![Phase::Wait(l)];
        assert_eq!(
            completions(&[waiting(3.0), waiting(2.0), waiting(1.0)], 1, 25),
            [3.0, 2.0, 1.0]
        );
        // A computes 1 while B waits 1, then they change places; then A computes while B has gone.
        let a = vec![Phase::Compute(1.0), Phase::Wait(1.0), Phase::Compute(1.0)];
        let b = vec![Phase::Wait(1.0), Phase::Compute(1.0)];
        assert_eq!(completions(&[a, b], 1, 2), [3.0, 2.0]);
    }

    #[test]
    fn nothing_to_do_completes_at_once() {
        assert_eq!(completions(&[Vec::new(), Vec::new()], 1, 1), [0.0, 0.0]);
    }

    /// What ideal sharing gives for the source's counts with lengths n … 1, worked out apart from this program.
    #[test]
    fn the_sources_counts() {
        let expected = [
            (2, 2.0, 1.25, 1.75),
            (5, 5.85, 2.0, 4.0),
            (8, 10.48, 2.75, 6.25),
            (11, 15.62, 3.5, 8.5),
            (14, 21.14, 4.25, 10.75),
            (17, 26.96, 5.0, 13.0),
        ];
        for (n, worst, best, shared) in expected {
            let lengths = descending(n);
            let rising: Vec<f64> = lengths.iter().rev().copied().collect();
            assert!((turnaround(&lengths, 1, 1) - worst).abs() < 0.005, "{n}");
            assert!(close(turnaround(&rising, 1, 1), best), "{n}");
            assert!(close(turnaround(&lengths, 1, 25), shared), "{n}");
        }
    }

    #[test]
    fn equal_lengths_turn_around_worse_when_shared() {
        let equal = [1.0; 9];
        assert!(close(turnaround(&equal, 1, 1), 5.0) && close(turnaround(&equal, 1, 25), 9.0));
    }

    proptest! {
        /// No CPU is idle while there is work, and none does more than its share.
        #[test]
        fn work_is_conserved(
            lengths in proptest::collection::vec(0.001_f64..1e3, 1..20),
            cpus in 1_u64..5,
            degree in 1_u64..25,
        ) {
            let completed = completions(&computing(&lengths), cpus, degree);
            let work: f64 = lengths.iter().sum();
            let longest = lengths.iter().copied().fold(0.0, f64::max);
            let last = completed.iter().copied().fold(0.0, f64::max);
            let usable = cpus.min(degree) as f64;
            prop_assert!(last >= work / usable - 1e-6 && last >= longest - 1e-6);
            prop_assert!(last <= work / usable + longest + 1e-6);
            if usable < 2.0 {
                prop_assert!((last - work).abs() < 1e-6);
            }
            for (completed, length) in completed.iter().zip(&lengths) {
                prop_assert!(*completed >= length - 1e-6);
            }
        }

        /// With room for all on one CPU the order does not matter, and the closed form holds: sorted, the k-th
        /// completes when it and all shorter ones are done and each longer one has had as much.
        #[test]
        fn one_cpu_for_all_is_the_closed_form(lengths in proptest::collection::vec(0.001_f64..1e3, 1..20)) {
            let completed = completions(&computing(&lengths), 1, 25);
            for (completed, length) in completed.iter().zip(&lengths) {
                let expected: f64 = lengths.iter().map(|other| other.min(*length)).sum();
                prop_assert!((completed - expected).abs() < 1e-6, "{completed} {expected}");
            }
        }
    }
}
