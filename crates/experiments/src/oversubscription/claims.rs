//! The claims of source 001, each with its statistic by round.

use threadgauge_results::{Condition, Evidence, Quote, Range};

use super::figures::{Group, threads};
use super::grid::{COUNTS, Mode};
use super::statistic::{first_rise_leads, gain, mean_gain, overhead, rises};
use threadgauge_lab::experiment::ClaimEvidence;
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

/// Every claim that is decided here.
pub(super) const IDS: [&str; 12] = [
    "two-threads-optimal-on-two-cpus",
    "more-threads-cost-10pct-on-two-cpus",
    "up-to-32-threads-free-on-one-cpu",
    "jump-between-32-and-128-on-one-cpu",
    "growth-smooth-after-128-on-one-cpu",
    "yield-overhead-below-60pct-to-8192",
    "win9x-over-50pct-from-second-thread",
    "sleeping-threads-lose-less-than-yielding",
    "second-cpu-gain-below-twofold",
    "second-cpu-gain-about-85pct",
    "one-thread-gains-nothing-from-second-cpu",
    "second-cpu-gain-differs-elsewhere",
];

/// The mean gain that the source states.
const STATED_GAIN: f64 = 0.85;

/// The counts at which sleeping is compared with yielding, in every profile.
const SLEEPING: [u64; 2] = [64, 1024];

const ONE: Group = threads(Mode::Yield, 1);
const TWO: Group = threads(Mode::Yield, 2);

/// What the samples say of each claim.
pub(super) fn evidence(view: &View<'_>) -> Vec<ClaimEvidence> {
    let all = |claim: &'static str, unit, evidence| ClaimEvidence {
        claim,
        unit,
        evidence,
    };
    let one_cpu_only = only_one_cpu(view);
    let on_two = |evidence: Evidence| match &one_cpu_only {
        Some(reason) => Evidence::NotTestable {
            reason: reason.clone(),
            measured: None,
        },
        None => evidence,
    };
    IDS.map(|id| match id {
        "two-threads-optimal-on-two-cpus" => all(id, "ratio", on_two(two_threads(view))),
        "more-threads-cost-10pct-on-two-cpus" => all(
            id,
            "overhead",
            on_two(overheads(view, Quote::Smallest, TWO, &COUNTS[2..])),
        ),
        "up-to-32-threads-free-on-one-cpu" => all(
            id,
            "overhead",
            overheads(view, Quote::Largest, ONE, &COUNTS[1..=5]),
        ),
        "jump-between-32-and-128-on-one-cpu" => all(id, "overhead", jump(view)),
        "growth-smooth-after-128-on-one-cpu" => all(id, "overhead", smooth(view)),
        "yield-overhead-below-60pct-to-8192" => all(id, "overhead", bound(view)),
        "win9x-over-50pct-from-second-thread" => all(id, "overhead", windows_9x(view)),
        "sleeping-threads-lose-less-than-yielding" => {
            all(id, "ratio", sleeping(view, one_cpu_only.is_none()))
        }
        "second-cpu-gain-below-twofold" => all(id, "ratio", on_two(below_twofold(view))),
        "second-cpu-gain-about-85pct" => all(id, "gain", on_two(average_gain(view, |gain| gain))),
        "one-thread-gains-nothing-from-second-cpu" => all(id, "gain", on_two(one_thread(view))),
        _ => all(
            id,
            "gain",
            on_two(average_gain(view, |gain| (gain - STATED_GAIN).abs())),
        ),
    })
    .to_vec()
}

/// Why nothing can be said of two CPUs, where every such case was skipped for want of one.
fn only_one_cpu(view: &View<'_>) -> Option<String> {
    view.lacks_cpus(2).map(|lack| lack.says.clone())
}

/// One statistic for each of several names, or why one is missing.
fn each<const N: usize>(
    view: &View<'_>,
    quote: Quote,
    cells: impl Iterator<Item = (String, [Cell; N])>,
    f: impl Fn(&[f64]) -> f64,
) -> Evidence {
    let measured = cells.map(|(name, cells)| Ok((name, view.by_round(&cells, &f)?)));
    match measured.collect::<Result<Vec<_>, String>>() {
        Ok(cells) => Evidence::Cells { quote, cells },
        Err(reason) => Evidence::Missing(reason),
    }
}

fn statistic(view: &View<'_>, cells: &[Cell], f: impl Fn(&[f64]) -> f64) -> Evidence {
    match view.by_round(cells, f) {
        Ok(rounds) => Evidence::Statistic(rounds),
        Err(reason) => Evidence::Missing(reason),
    }
}

fn named(group: Group, count: u64) -> String {
    format!("count={count},cpus={}", group.cpus)
}

fn two_threads(view: &View<'_>) -> Evidence {
    let others = COUNTS.into_iter().filter(|&n| n != 2);
    let cells = others.map(|n| (named(TWO, n), [TWO.time(n), TWO.base()]));
    each(view, Quote::Smallest, cells, |t| t[0] / t[1])
}

fn overheads(view: &View<'_>, quote: Quote, group: Group, counts: &[u64]) -> Evidence {
    let cells = counts
        .iter()
        .map(|&n| (named(group, n), [group.time(n), group.base()]));
    each(view, quote, cells, |t| overhead(t[0], t[1]))
}

/// Run times at `counts` on one CPU, and last the base.
fn growth(counts: &[u64]) -> Vec<Cell> {
    counts.iter().map(|&n| ONE.time(n)).chain([ONE.base()]).collect()
}

fn jump(view: &View<'_>) -> Evidence {
    let cells = growth(&[32, 128, 512, 2048, 8192]);
    let split = |f: fn(&[f64], f64) -> f64| move |t: &[f64]| f(&t[..t.len() - 1], t[t.len() - 1]);
    Evidence::With {
        main: Box::new(statistic(
            view,
            &cells,
            split(|times, base| rises(times, base)[0]),
        )),
        also: vec![Condition {
            says: "the rise from 32 to 128 is the largest of the four equal steps to 8,192".to_owned(),
            range: Range {
                min: 0.0,
                max: f64::INFINITY,
            },
            evidence: statistic(view, &cells, split(first_rise_leads)),
        }],
    }
}

fn smooth(view: &View<'_>) -> Evidence {
    let doublings = COUNTS[7..].windows(2).map(|pair| {
        let name = format!("from {} to {}", pair[0], pair[1]);
        (name, [ONE.time(pair[0]), ONE.time(pair[1]), ONE.base()])
    });
    each(view, Quote::Largest, doublings, |t| rises(&t[..2], t[2])[0])
}

/// One thread on two CPUs is left out: it cannot use the second, and the source leaves that cell empty.
fn bound(view: &View<'_>) -> Evidence {
    let one = COUNTS[1..].iter().map(|&n| (ONE, n));
    let two = COUNTS[2..].iter().map(|&n| (TWO, n));
    let cells = one
        .chain(two)
        .map(|(group, n)| (named(group, n), [group.time(n), group.base()]));
    each(view, Quote::Largest, cells, |t| overhead(t[0], t[1]))
}

fn windows_9x(view: &View<'_>) -> Evidence {
    let here = super::figures::figure(view, &[ONE.time(2), ONE.base()], |t| overhead(t[0], t[1]));
    Evidence::NotTestable {
        reason: "needs Windows 9x or ME; the figure is this machine's".to_owned(),
        measured: here.map(|f| f.median),
    }
}

fn sleeping(view: &View<'_>, two_cpus: bool) -> Evidence {
    let cpus: &[u64] = if two_cpus { &[1, 2] } else { &[1] };
    let cells = cpus.iter().flat_map(|&cpus| {
        SLEEPING.map(|n| {
            let cell = |mode, n| threads(mode, cpus).of(n, "cpu_ns");
            // One thread that never gives up the CPU: the work and nothing else.
            let cells = [cell(Mode::Sleep, n), cell(Mode::Yield, n), cell(Mode::Neither, 1)];
            (format!("count={n},cpus={cpus}"), cells)
        })
    });
    each(view, Quote::Largest, cells, |t| {
        overhead(t[0], t[2]) / overhead(t[1], t[2])
    })
}

fn below_twofold(view: &View<'_>) -> Evidence {
    let cells = COUNTS.map(|n| (format!("count={n}"), [ONE.time(n), TWO.time(n)]));
    each(view, Quote::Largest, cells.into_iter(), |t| t[0] / t[1])
}

fn average_gain(view: &View<'_>, f: impl Fn(f64) -> f64) -> Evidence {
    let cells: Vec<Cell> = COUNTS[1..]
        .iter()
        .flat_map(|&n| [ONE.time(n), TWO.time(n)])
        .collect();
    statistic(view, &cells, |times| {
        let pairs: Vec<[f64; 2]> = times.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        f(mean_gain(&pairs))
    })
}

fn one_thread(view: &View<'_>) -> Evidence {
    statistic(view, &[ONE.time(1), TWO.time(1)], |t| gain(t[0], t[1]))
}

#[cfg(test)]
mod tests {
    use threadgauge_results::{Verdict, claim, claims, decide};

    use super::super::testing::{as_published, overheads_of, run};
    use super::*;

    fn verdict(view: &View<'_>, id: &str) -> (Verdict, Option<f64>, Option<String>) {
        let all = evidence(view);
        let of_claim = all.iter().find(|e| e.claim == id).unwrap();
        let finding = decide(claim(id).unwrap(), of_claim.unit, &of_claim.evidence, 0.05);
        (finding.verdict.unwrap(), finding.measured, finding.reason)
    }

    #[test]
    fn all_claims_of_the_source_are_decided_here() {
        let of_source: Vec<&str> = claims()
            .iter()
            .filter(|c| c.source == "001")
            .map(|c| c.id.as_str())
            .collect();
        assert_eq!(of_source, IDS);
        assert_eq!(
            evidence(&as_published(7))
                .iter()
                .map(|e| e.claim)
                .collect::<Vec<_>>(),
            IDS
        );
    }

    #[test]
    fn the_sources_own_times_satisfy_its_claims() {
        let view = as_published(7);
        for id in IDS {
            let (verdict, measured, _) = verdict(&view, id);
            let expected = match id {
                "win9x-over-50pct-from-second-thread" => Verdict::NotTestable,
                // It says that other machines differ; this is the source's own.
                "second-cpu-gain-differs-elsewhere" => Verdict::DoesNotHold,
                _ => Verdict::Holds,
            };
            assert_eq!(verdict, expected, "{id}: {measured:?}");
        }
        let (_, measured, _) = verdict(&view, "second-cpu-gain-about-85pct");
        assert!((measured.unwrap() - 0.845).abs() < 0.001, "{measured:?}");
    }

    #[test]
    fn a_machine_that_behaves_otherwise_contradicts_them() {
        // Every count above the base costs 80 % more on either number of CPUs. Seven rounds would not do: the bound is
        // about 25 cells at once.
        let view = overheads_of(12, |count, cpus| if count <= cpus { 0.0 } else { 0.8 });
        for id in [
            "up-to-32-threads-free-on-one-cpu",
            "jump-between-32-and-128-on-one-cpu",
            "yield-overhead-below-60pct-to-8192",
        ] {
            assert_eq!(verdict(&view, id).0, Verdict::DoesNotHold, "{id}");
        }
        assert_eq!(
            verdict(&view, "growth-smooth-after-128-on-one-cpu").0,
            Verdict::Holds
        );
        assert_eq!(verdict(&view, "more-threads-cost-10pct-on-two-cpus").1, Some(0.8));
    }

    #[test]
    fn the_jump_must_also_be_the_largest_step() {
        // 20 % more from 32 to 128, but 40 % more from 2,048 to 8,192.
        let view = overheads_of(7, |count, _| match count {
            0..=64 => 0.0,
            128..=4096 => 0.2,
            _ => 0.6,
        });
        let (verdict, measured, _) = verdict(&view, "jump-between-32-and-128-on-one-cpu");
        assert_eq!(verdict, Verdict::DoesNotHold);
        assert!((measured.unwrap() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn with_too_few_rounds_nothing_is_decided() {
        let view = as_published(3);
        for id in IDS {
            let verdict = verdict(&view, id).0;
            assert!(
                matches!(verdict, Verdict::Inconclusive | Verdict::NotTestable),
                "{id}: {verdict:?}"
            );
        }
    }

    #[test]
    fn on_one_cpu_claims_about_two_are_not_testable() {
        let view = run(7, 1, |_| None);
        let (verdict, _, reason) = verdict(&view, "two-threads-optimal-on-two-cpus");
        assert_eq!(verdict, Verdict::NotTestable);
        assert_eq!(reason.unwrap(), "needs 2 CPUs, this run has 1");
    }

    #[test]
    fn a_cell_that_failed_leaves_its_claims_open_and_says_which() {
        let view = threadgauge_lab::testing::changed(as_published(7), |cases| {
            let of_8192 = threadgauge_lab::compat::params(&ONE.pattern(8192));
            let failed = cases.iter_mut().find(|c| c.params.matches(&of_8192)).unwrap();
            failed.values.clear();
            failed.lack = Some(threadgauge_results::Lack::new(
                threadgauge_results::Need::Figures,
                "thread 501 of 8192 was refused",
            ));
        });
        let (open, _, reason) = verdict(&view, "growth-smooth-after-128-on-one-cpu");
        assert_eq!(open, Verdict::Inconclusive);
        assert!(reason.unwrap().contains("thread 501 of 8192"));
        assert_eq!(
            verdict(&view, "up-to-32-threads-free-on-one-cpu").0,
            Verdict::Holds
        );
    }
}
