//! The claims of source 001, each judged on the matched slice.
//!
//! The cell of two yielding threads on one CPU is no evidence: its slice was chosen for what the source published of
//! it. Nor is a cell in which threads have few slices, so larger counts need more work: quick has it for 128 threads,
//! standard for 512, paper for all. A claim about more than a run has can be refuted there, not confirmed.

use threadgauge_lab::prelude::*;

use super::case::Case;
use super::statistics::{COUNTS, ONE, TWO};

/// The mean gain that the source states.
const STATED_GAIN: f64 = 0.85;

/// The counts of the source but that of two threads, which is matched on one CPU.
fn not_two() -> Vec<u64> {
    COUNTS.into_iter().filter(|&n| n != 2).collect()
}

/// A statistic at each of these counts, and the names of the cells.
fn at(group: Case, counts: &[u64], of: fn(Case, u64) -> Statistic) -> Vec<(String, Statistic)> {
    let named = |&n: &u64| (format!("count={n},cpus={}", group.cpus), of(group, n));
    counts.iter().map(named).collect()
}

/// The test over those of `counts` that the run has of all `groups`. It can confirm only where those are all.
fn over(view: &View<'_>, groups: &[Case], counts: &[u64], test: impl FnOnce(&[u64]) -> Test) -> Test {
    let judged: Vec<Vec<u64>> = groups.iter().map(|group| group.judged(view)).collect();
    let has = |n: &&u64| judged.iter().all(|of| of.contains(n));
    let seen: Vec<u64> = counts.iter().filter(has).copied().collect();
    match lacking_a_cpu(view) {
        Some(lack) if seen.is_empty() && groups.contains(&TWO) => return lack,
        _ if seen.is_empty() => return not_measured(lacking(counts, &seen)),
        _ => {}
    }
    test(&seen).of_a_part(seen.len() == counts.len(), lacking(counts, &seen))
}

/// Where there is one CPU, the cells of two say what they lack.
fn lacking_a_cpu(view: &View<'_>) -> Option<Test> {
    view.lacks_cpus(2).map(|lack| lack.clone().into())
}

/// What a run lacks, and which profile has it.
fn lacking(counts: &[u64], seen: &[u64]) -> String {
    let without: Vec<u64> = counts.iter().filter(|n| !seen.contains(n)).copied().collect();
    let last = without.last().copied().unwrap_or(0);
    let profile = match last {
        0..=128 => "quick",
        129..=512 => "standard",
        _ => "paper",
    };
    let threads = match without.first() {
        Some(first) if *first < last => format!("{first} to {last}"),
        _ => last.to_string(),
    };
    let fewest = if last < 1_024 {
        "at least ten"
    } else {
        "some twenty"
    };
    format!(
        "needs {threads} threads with {fewest} matched slices each, which this run does not have; \
         `threadgauge run oversubscription --profile {profile}` has them, where the slice is long with a larger `--set work_s`"
    )
}

/// Over a statistic of the mean gain of a second CPU; without all counts that of those there are, to quote.
fn of_mean_gain(
    view: &View<'_>,
    of: impl Fn(Statistic) -> Statistic,
    test: impl FnOnce(Statistic) -> Test,
) -> Test {
    if let Some(lack) = lacking_a_cpu(view) {
        return lack;
    }
    let counts = &COUNTS[2..];
    let judged = [ONE, TWO].map(|group| group.judged(view));
    let has = |n: &&u64| judged.iter().all(|of| of.contains(n));
    let seen: Vec<u64> = counts.iter().filter(has).copied().collect();
    if seen.len() == counts.len() {
        return test(of(ONE.mean_gain(counts)));
    }
    Test::Lacking {
        lack: Lack::new(Need::Profile, lacking(counts, &seen)),
        figure: (!seen.is_empty()).then(|| of(ONE.mean_gain(&seen))),
    }
}

/// The claims of source 001.
pub(super) fn claims(view: &View<'_>) -> Vec<Claim> {
    let two_best = over(view, &[TWO], &not_two(), |counts| {
        each(Quote::Smallest, at(TWO, counts, Case::slowdown))
    });
    let more_cost = over(view, &[TWO], &COUNTS[2..], |counts| {
        each(Quote::Smallest, at(TWO, counts, Case::overhead))
    });
    let few_free = over(view, &[ONE], &COUNTS[2..=5], |counts| {
        each(Quote::Largest, at(ONE, counts, Case::overhead))
    });
    let needs = "needs Windows 9x or ME; the figure is this machine's, whose slice was chosen for 1 %";
    let windows_9x = Test::Lacking {
        lack: Lack::new(Need::System, needs),
        figure: Some(ONE.overhead(2)),
    };
    // Where there is one CPU, the claim is about that.
    let groups = if view.lacks_cpus(2).is_some() { 1 } else { 2 };
    let sleeping = |group| at(group, &[64, 512], Case::sleep_over_yield);
    let sleeping = [ONE, TWO].into_iter().take(groups).flat_map(sleeping);
    let sleeping = each(Quote::Largest, sleeping);
    let twofold = over(view, &[ONE, TWO], &not_two(), |counts| {
        let speedup = |&n: &u64| (format!("count={n}"), TWO.speedup(n));
        each(Quote::Largest, counts.iter().map(speedup))
    });
    let less_stated = |gain: Statistic| Statistic::function([gain], |gain| gain[0] - STATED_GAIN);
    let differs = of_mean_gain(view, less_stated, |differs| {
        Test::from(differs).outside(Range {
            min: -0.05,
            max: 0.05,
        })
    });
    let about_85 = of_mean_gain(view, |gain| gain, Test::from);
    let alone = lacking_a_cpu(view).unwrap_or_else(|| ONE.gain(1).into());
    vec![
        ("two-threads-optimal-on-two-cpus", two_best),
        ("more-threads-cost-10pct-on-two-cpus", more_cost),
        ("up-to-32-threads-free-on-one-cpu", few_free),
        ("jump-between-32-and-128-on-one-cpu", jump(view)),
        ("growth-smooth-after-128-on-one-cpu", smooth(view)),
        ("yield-overhead-below-60pct-to-8192", bounded(view)),
        ("win9x-over-50pct-from-second-thread", windows_9x),
        ("sleeping-threads-lose-less-than-yielding", sleeping),
        ("second-cpu-gain-below-twofold", twofold),
        ("second-cpu-gain-about-85pct", about_85),
        ("one-thread-gains-nothing-from-second-cpu", alone),
        ("second-cpu-gain-differs-elsewhere", differs),
    ]
}

/// The rise from 32 to 128 threads, which must also be the largest of the equal steps.
fn jump(view: &View<'_>) -> Test {
    let jump = || ONE.rise(32, 128);
    let lead = |&n: &u64| (format!("over {n} to {}", 4 * n), jump().less(ONE.rise(n, 4 * n)));
    over(view, &[ONE], &[128, 512, 2048, 8192], |counts| {
        let steps: Vec<u64> = counts
            .iter()
            .copied()
            .filter(|n| counts.contains(&(4 * n)))
            .collect();
        let main = Test::from(jump());
        if steps.is_empty() {
            return main;
        }
        main.also(
            "the rise from 32 to 128 is the largest of the four equal steps to 8,192",
            Range::at_least(0.0).of("overhead"),
            each(Quote::Smallest, steps.iter().map(lead)),
        )
    })
}

/// Each rise over one doubling from 128 threads on.
fn smooth(view: &View<'_>) -> Test {
    let doubling = |&n: &u64| (format!("from {n} to {}", 2 * n), ONE.rise(n, 2 * n));
    let seen = ONE.judged(view);
    let all = &COUNTS[7..13];
    let steps: Vec<u64> = all
        .iter()
        .copied()
        .filter(|n| seen.contains(n) && seen.contains(&(2 * n)))
        .collect();
    let missing = lacking(&COUNTS[8..], &seen);
    if steps.is_empty() {
        return not_measured(missing);
    }
    each(Quote::Largest, steps.iter().map(doubling)).of_a_part(steps.len() == all.len(), missing)
}

/// One thread on two CPUs is left out: it cannot use the second, and the source leaves that cell empty.
fn bounded(view: &View<'_>) -> Test {
    over(view, &[ONE, TWO], &COUNTS[2..], |counts| {
        let all = [ONE, TWO].map(|group| at(group, counts, Case::overhead));
        each(Quote::Largest, all.concat())
    })
}
