//! The claims of source 000 that computations decide, each with its statistic by round.

use threadgauge_results::{Evidence, Quote, Range, Verdict, claim, decide};

use self::extras::{background, dependencies, finalizer};
use self::matrix::{
    break_even, converges, faster_on_all, io_overhead, long_gain, long_io, never_faster, short_gain,
    short_mean,
};
use self::orders::{any_order, ascending, descending, equal_lengths, mixed_lengths};
use super::case::Kind;
use super::cells::{Measure, Pair, all_cpus};
use super::conclusions;
use super::grid::LONG_MS;
use threadgauge_lab::experiment::ClaimEvidence;
use threadgauge_lab::view::View;

mod extras;
mod matrix;
mod orders;
#[cfg(test)]
mod tests;

pub(super) use self::orders::{ordered, spread};

/// Every claim that is decided here.
pub(super) const IDS: [&str; 22] = [
    "cpu-concurrent-never-faster-on-one-cpu",
    "short-cpu-concurrent-10pct-slower",
    "long-cpu-elapsed-converges",
    "long-cpu-turnaround-gain-up-to-50pct",
    "short-cpu-serial-better-turnaround",
    "equal-lengths-serial-better-turnaround",
    "mixed-lengths-concurrent-better-turnaround",
    "ascending-serial-beats-concurrent",
    "descending-is-worst-serial-order",
    "concurrent-turnaround-ignores-order",
    "cpu-concurrent-faster-on-smp",
    "one-cpu-conclusions-fail-on-smp",
    "io-overhead-fixed-and-small",
    "long-io-serial-concurrent-difference-vanishes",
    "short-break-even-at-ten-threads",
    "short-work-gains-nothing-from-threads",
    "short-work-has-large-create-overhead",
    "one-background-thread-for-cpu-work",
    "long-finalizer-delays-run",
    "dependencies-hurt-only-concurrent",
    "long-work-same-on-both-systems",
    "short-concurrent-io-differs-between-systems",
];

/// What the samples say of each claim.
pub(super) fn evidence(view: &View<'_>) -> Vec<ClaimEvidence> {
    let of = |claim: &'static str| {
        let (unit, evidence) = one(view, claim);
        ClaimEvidence {
            claim,
            unit,
            evidence,
        }
    };
    IDS.map(of).to_vec()
}

fn one(view: &View<'_>, id: &str) -> (&'static str, Evidence) {
    match id {
        "cpu-concurrent-never-faster-on-one-cpu" => ("ratio", never_faster(view)),
        "short-cpu-concurrent-10pct-slower" => ("ratio", short_mean(view, Measure::Elapsed, |r| r)),
        "long-cpu-elapsed-converges" => ("difference", converges(view)),
        "long-cpu-turnaround-gain-up-to-50pct" => ("gain", long_gain(view)),
        "short-cpu-serial-better-turnaround" => ("ratio", short_mean(view, Measure::Turnaround, |r| r)),
        "equal-lengths-serial-better-turnaround" => ("ratio", equal_lengths(view)),
        "mixed-lengths-concurrent-better-turnaround" => ("ratio", mixed_lengths(view)),
        "ascending-serial-beats-concurrent" => ("ratio", ascending(view)),
        "descending-is-worst-serial-order" => ("ratio", descending(view)),
        "concurrent-turnaround-ignores-order" => ("ratio", any_order(view)),
        "cpu-concurrent-faster-on-smp" => ("ratio", on_all(view, faster_on_all)),
        "one-cpu-conclusions-fail-on-smp" => ("share", on_all(view, conclusions::share_that_change)),
        "io-overhead-fixed-and-small" => ("overhead", io_overhead(view)),
        "long-io-serial-concurrent-difference-vanishes" => ("ratio", long_io(view)),
        "short-break-even-at-ten-threads" => ("computations", break_even(view)),
        "short-work-gains-nothing-from-threads" => ("ratio", short_gain(view)),
        "short-work-has-large-create-overhead" => {
            ("overhead", short_mean(view, Measure::Elapsed, |r| r - 1.0))
        }
        "one-background-thread-for-cpu-work" => ("ratio", on_all(view, background)),
        "long-finalizer-delays-run" => ("share", finalizer(view)),
        "dependencies-hurt-only-concurrent" => ("ratio", dependencies(view)),
        _ => (
            "ratio",
            Evidence::NotTestable {
                reason: "needs the results of two operating systems on the same machine".to_owned(),
                measured: None,
            },
        ),
    }
}

const AT_LEAST_0: Range = Range {
    min: 0.0,
    max: f64::INFINITY,
};

const fn cpu(count: u64, base_ms: u64) -> Pair {
    Pair::of(Kind::Cpu, count, base_ms)
}

const fn io(count: u64, base_ms: u64) -> Pair {
    Pair::of(Kind::Io, count, base_ms)
}

fn statistic(rounds: Result<Vec<f64>, String>) -> Evidence {
    rounds.map_or_else(Evidence::Missing, Evidence::Statistic)
}

fn ratio(rounds: Result<Vec<f64>, String>) -> Evidence {
    rounds.map_or_else(Evidence::Missing, Evidence::Ratio)
}

/// One statistic for each of several names, or why one is missing.
fn each(quote: Quote, cells: impl IntoIterator<Item = (String, Result<Vec<f64>, String>)>) -> Evidence {
    let cells = cells.into_iter().map(|(name, rounds)| Ok((name, rounds?)));
    match cells.collect::<Result<Vec<_>, String>>() {
        Ok(cells) if cells.is_empty() => {
            Evidence::Missing("no cell that this needs was measured; --profile standard has them".to_owned())
        }
        Ok(cells) => Evidence::Cells { quote, cells },
        Err(reason) => Evidence::Missing(reason),
    }
}

/// What is missing at the source's longest base, and which profile has it.
fn needs_long(view: &View<'_>, what: &str) -> Evidence {
    Evidence::Missing(format!(
        "needs {what} at {LONG_MS} ms, which this run ({}) did not measure: --profile paper has them, and --only \
         base_ms={LONG_MS} picks them",
        view.profile().name()
    ))
}

/// Evidence about a part of what the claim is about: it can refute it, and not confirm it.
fn of_a_part(id: &str, unit: &str, evidence: Evidence, complete: bool, missing: &str) -> Evidence {
    if complete || matches!(evidence, Evidence::Missing(_)) {
        return evidence;
    }
    let finding = claim(id).map(|claim| decide(claim, unit, &evidence, 0.05));
    match finding {
        Some(finding) if finding.verdict == Some(Verdict::DoesNotHold) => evidence,
        Some(finding) => {
            let so_far = finding
                .measured
                .map_or_else(String::new, |m| format!("; so far {m:.3}"));
            Evidence::Missing(format!("{missing}{so_far}"))
        }
        None => evidence,
    }
}

/// What needs several CPUs, where there are some.
fn on_all(view: &View<'_>, f: impl Fn(&View<'_>, u64) -> Evidence) -> Evidence {
    let Some(all) = all_cpus(view) else {
        return Evidence::Missing("this run planned no case on several CPUs".to_owned());
    };
    match view.lacks_cpus(all).map(|lack| lack.says.clone()) {
        Some(reason) => Evidence::NotTestable {
            reason,
            measured: None,
        },
        None => f(view, all),
    }
}
