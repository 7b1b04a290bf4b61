//! Reading the answer off the samples: from which depth on asynchronous reads are sooner there, and what to do.
//!
//! What is read are the cells of the run, not those of a profile: values that the user has set are answered alike.

use threadgauge_lab::prelude::*;
use threadgauge_results::units::of_cpus;
use threadgauge_results::{Figure, Table};

use super::case::{By, CLAIMED, CPU, Case, ELAPSED, Folder, ONE, RATE, READ, ReadFrom, TURNAROUND};
use crate::server_designs;

/// Nearer than this to each other, two times are alike (METHOD rule 6).
const ALIKE: f64 = 0.03;
/// A way that takes at most so many times as long as the fastest is taken where it needs less CPU time.
const NEAR: f64 = 1.1;

pub(super) fn read(view: &View<'_>) -> Answer {
    let kinds = kinds(view);
    Answer {
        answer: answer(view, &kinds),
        advice: advice(view, &kinds),
        number: kinds.iter().find_map(|&kind| {
            let case = kind.by(By::IoUring).k(deepest(view, kind)?);
            let of = format!(
                "{} ÷ {}: time, {}",
                way(case),
                way(case.by(By::Threads)),
                name(kind)
            );
            view.number(of, &over_threads(case, ELAPSED), "ratio")
        }),
        claims: vec![("async-io-rivals-io-threads", rivals(view))],
        facts: facts(view, &kinds),
        comparisons: comparisons(view, &kinds),
        figures: charts(view, &kinds),
        tables: vec![figures_table(view, &kinds)],
        ..Answer::default()
    }
}

/// What reads can be besides who does them and how many at a time: the case of one read after the other.
fn kinds(view: &View<'_>) -> Vec<Case> {
    let mut kinds: Vec<Case> = Vec::new();
    for case in planned(view) {
        let kind = case.by(By::Threads).k(1);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn planned(view: &View<'_>) -> impl Iterator<Item = Case> {
    let cases = view.planned(Params::new());
    cases.filter_map(|params| Case::read(params).ok())
}

/// The depths of a kind, which rise.
fn depths(view: &View<'_>, kind: Case) -> Vec<u64> {
    let mut depths: Vec<u64> = planned(view)
        .filter(|case| case.by(By::Threads).k(1) == kind)
        .map(|case| case.k)
        .collect();
    depths.sort_unstable();
    depths.dedup();
    depths
}

/// A metric of one case over that of as many threads with pread.
fn over_threads(case: Case, metric: Metric) -> Statistic {
    metric.of(case).over(metric.of(case.by(By::Threads)))
}

/// On files, and on sockets where this run has them.
fn rivals(view: &View<'_>) -> Test {
    let file = CLAIMED.map(|k| {
        let case = ONE.by(By::IoUring).k(k);
        (format!("files, k={k}"), over_threads(case, ELAPSED).inverse())
    });
    let sockets = server_designs::loop_over_threads().in_experiment(server_designs::EXPERIMENT.id);
    let has_both = view.measured(&sockets);
    let sockets = has_both.then(|| ("sockets".to_owned(), sockets));
    each(Quote::Smallest, file.into_iter().chain(sockets)).of_a_part(
        has_both,
        "it is about files and sockets, and this run has no sockets; `threadgauge run file-io server-designs` has both",
    )
}

/// A kind in words; what a profile does not vary is named where it was set.
fn name(kind: Case) -> String {
    let reads = match kind.reads == kind.usual_reads() {
        true => String::new(),
        false => format!("{} reads of ", kind.reads),
    };
    let from = match kind.from {
        ReadFrom::Device => "the device",
        ReadFrom::Cache => "the page cache",
    };
    let file = match kind.file_mib == ONE.file_mib {
        true => String::new(),
        false => format!(" (of {} MiB)", kind.file_mib),
    };
    let folder = match kind.folder {
        Folder::TEMPORARY => String::new(),
        folder => format!(" in {}", folder.path().display()),
    };
    let cpus = of_cpus(kind.cpus);
    format!(
        "{reads}{} KiB from {from}{file}{folder} on {cpus}",
        kind.block_kib
    )
}

/// How a case reads, in words.
fn way(case: Case) -> String {
    match (case.by, case.k) {
        (By::Threads, 1) => "one read after the other (pread)".to_owned(),
        (By::Threads, k) => format!("{k} threads with pread"),
        (By::IoUring, 1) => "one thread with io_uring and one read in flight".to_owned(),
        (By::IoUring, k) => format!("one thread with io_uring and {k} reads in flight"),
        (By::Map, 1) => "one thread over a memory map".to_owned(),
        (By::Map, k) => format!("{k} threads over a memory map"),
    }
}

/// Whether a ratio of times is below 1, clearly; `None` without an interval.
fn is_less(view: &View<'_>, ratio: &Statistic) -> Option<bool> {
    let [_, high] = view.estimate(ratio)?.ci95?;
    Some(high < 1.0 - ALIKE)
}

/// From which depth on asynchronous reads of a kind take less time than as many threads, in words.
fn beaten_from(view: &View<'_>, kind: Case) -> Option<String> {
    let beats: Vec<(u64, bool)> = depths(view, kind)
        .into_iter()
        .filter_map(|k| {
            Some((
                k,
                is_less(view, &over_threads(kind.by(By::IoUring).k(k), ELAPSED))?,
            ))
        })
        .collect();
    let (most, _) = beats.last()?;
    let from = beats.iter().rev().take_while(|(_, beats)| *beats).last();
    Some(match from {
        Some((k, _)) if k == most => format!("at k={k}"),
        Some((k, _)) => format!("from k={k} on"),
        None => format!("at no k up to {most}"),
    })
}

/// What to do: of the ways that surely take hardly longer than the fastest, the one with the least CPU time.
fn best(view: &View<'_>, kind: Case) -> Option<Case> {
    let cases: Vec<(Case, f64)> = planned(view)
        .filter(|case| case.by(By::Threads).k(1) == kind)
        .filter_map(|case| Some((case, view.value(&ELAPSED.of(case))?)))
        .collect();
    let (fastest, _) = *cases.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let is_near = |&case: &Case| {
        let over = view.estimate(&ELAPSED.of(case).over(ELAPSED.of(fastest)));
        case == fastest || over.and_then(|of| of.ci95).is_some_and(|[_, high]| high <= NEAR)
    };
    let cpu = |case: Case| view.value(&CPU.of(case)).unwrap_or(f64::INFINITY);
    let able = cases.into_iter().map(|(case, _)| case).filter(is_near);
    able.min_by(|a, b| cpu(*a).total_cmp(&cpu(*b)))
}

/// `A for X, Y; B for Z`: what each kind has, those alike together.
fn grouped(of: impl Iterator<Item = (String, Case)>) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (says, kind) in of {
        match groups.iter_mut().find(|(other, _)| *other == says) {
            Some((_, names)) => names.push(name(kind)),
            None => groups.push((says, vec![name(kind)])),
        }
    }
    let group = |(says, names): (String, Vec<String>)| match names.split_last() {
        Some((last, [])) => format!("{says} for {last}"),
        Some((last, others)) => format!("{says} for {} and {last}", others.join(", ")),
        None => says,
    };
    groups.into_iter().map(group).collect::<Vec<_>>().join("; ")
}

/// Says `of` each kind, those alike together.
fn each_kind(view: &View<'_>, kinds: &[Case], of: fn(&View<'_>, Case) -> Option<String>) -> String {
    grouped(kinds.iter().filter_map(|&kind| Some((of(view, kind)?, kind))))
}

fn answer(view: &View<'_>, kinds: &[Case]) -> String {
    let is_measured = |case: Case| view.measured(&ELAPSED.of(case));
    if !planned(view).any(is_measured) {
        return String::new();
    }
    match each_kind(view, kinds, beaten_from) {
        none if none.is_empty() => {
            "With 6 rounds or more of both it is said from which k on one thread with io_uring takes less time than k threads.".to_owned()
        }
        from => format!("One thread with io_uring and k reads in flight beats k threads with pread, by time: {from}."),
    }
}

fn advice(view: &View<'_>, kinds: &[Case]) -> String {
    match each_kind(view, kinds, |view, kind| best(view, kind).map(way)) {
        none if none.is_empty() => none,
        take => {
            format!(
                "Take the way with the least CPU time of those at most 10 % slower than the fastest: {take}."
            )
        }
    }
}

/// The most reads at once that both threads and io_uring have made.
fn deepest(view: &View<'_>, kind: Case) -> Option<u64> {
    depths(view, kind).into_iter().rfind(|&k| {
        let both = [By::Threads, By::IoUring].map(|by| ELAPSED.of(kind.by(by).k(k)));
        both.iter().all(|of| view.measured(of))
    })
}

fn facts(view: &View<'_>, kinds: &[Case]) -> Vec<Finding> {
    let of_kind = |&kind: &Case| {
        let rival = deepest(view, kind).and_then(|k| {
            let case = kind.by(By::IoUring).k(k);
            let [time, turnaround, cpu] =
                [ELAPSED, TURNAROUND, CPU].map(|metric| view.estimate(&over_threads(case, metric)));
            let says = format!(
                "{}: {} takes {} times as long as {}, {} times until a result is there at the mean, and {} times the CPU time.",
                name(kind),
                way(case),
                time?.show("ratio"),
                way(case.by(By::Threads)),
                turnaround?.plain("ratio"),
                cpu?.plain("ratio")
            );
            Some(time?.fact(says, "ratio"))
        });
        let best = best(view, kind).filter(|&best| best != kind);
        let gain = best.and_then(|best| {
            let gain = view.estimate(&ELAPSED.of(kind).over(ELAPSED.of(best)))?;
            let says = format!(
                "{}: {} is {} times as fast as one read after the other, and a read takes {} of CPU time instead of {}.",
                name(kind),
                way(best),
                gain.show("ratio"),
                view.estimate(&CPU.of(best))?.plain("ns"),
                view.estimate(&CPU.of(kind))?.plain("ns")
            );
            Some(gain.fact(says, "ratio"))
        });
        [rival, gain]
    };
    kinds.iter().flat_map(of_kind).flatten().collect()
}

fn comparisons(view: &View<'_>, kinds: &[Case]) -> Vec<Pair> {
    let of_kind = |&kind: &Case| {
        let depths = depths(view, kind).into_iter();
        depths.flat_map(move |k| [By::IoUring, By::Map].map(|by| (kind.k(k), kind.by(by).k(k))))
    };
    let pairs = kinds.iter().flat_map(of_kind);
    let is_planned = |case: Case| view.planned(case).next().is_some();
    pairs
        .filter(|(a, b)| is_planned(*a) && is_planned(*b))
        .map(|(a, b)| Pair::of(&ELAPSED.of(a), &ELAPSED.of(b)))
        .collect()
}

/// What `k` is on an axis.
const AXIS: &str = "k: threads, or reads in flight";

fn charts(view: &View<'_>, kinds: &[Case]) -> Vec<Figure> {
    let rival = |id: &str, title: &str, y: &str, metric: Metric| {
        let chart = Chart::new(view, id, title)
            .x(Scale::Log, AXIS)
            .y(Scale::Log, y)
            .note("Below 1 asynchronous reads by one thread are better than as many threads with pread.")
            .at_least(2);
        let lines = kinds.iter().fold(chart, |chart, &kind| {
            let of = |k| over_threads(kind.by(By::IoUring).k(k), metric);
            chart.line(name(kind), depths(view, kind).into_iter().map(|k| (k, of(k))))
        });
        lines.drawn()
    };
    let of_kind = |(number, &kind): (usize, &Case)| {
        let chart = Chart::new(
            view,
            format!("elapsed-{number}"),
            format!("Elapsed time: {}", name(kind)),
        )
        .x(Scale::Log, AXIS)
        .y(Scale::Log, "elapsed time, ms")
        .note(format!(
            "{} reads, at the same places in the same order.",
            kind.reads
        ))
        .at_least(2);
        let lines = [
            (By::Threads, "threads with pread"),
            (By::IoUring, "one thread with io_uring"),
            (By::Map, "threads over a memory map"),
        ];
        let lines = lines.into_iter().fold(chart, |chart, (by, line)| {
            let of = |k| ELAPSED.of(kind.by(by).k(k)).times(1e-6);
            chart.line(line, depths(view, kind).into_iter().map(|k| (k, of(k))))
        });
        lines.drawn()
    };
    let rivals = [
        rival(
            "over-threads",
            "The time of io_uring on one thread over that of as many threads",
            "elapsed time, times that of threads",
            ELAPSED,
        ),
        rival(
            "cpu-over-threads",
            "The CPU time of io_uring on one thread over that of as many threads",
            "CPU time, times that of threads",
            CPU,
        ),
    ];
    let each = kinds.iter().enumerate().map(of_kind);
    rivals.into_iter().chain(each).flatten().collect()
}

fn figures_table(view: &View<'_>, kinds: &[Case]) -> Table {
    let mut rows = Vec::new();
    for &kind in kinds {
        for k in depths(view, kind) {
            for by in By::ALL {
                let case = kind.by(by).k(k);
                let figures =
                    [ELAPSED, TURNAROUND, READ, CPU, RATE].map(|of| view.shown(&of.of(case), of.unit));
                if figures.iter().any(|figure| !figure.is_empty()) {
                    rows.push([name(kind), way(case)].into_iter().chain(figures).collect());
                }
            }
        }
    }
    table(
        "figures",
        "The same reads by each",
        "Turnaround is the mean time from the start until a read's result is there, a read's own the mean from asking for it.",
        [
            "reads",
            "by",
            "elapsed",
            "turnaround",
            "a read's own",
            "CPU time, a read",
            "reads a second",
        ],
        rows,
    )
}
