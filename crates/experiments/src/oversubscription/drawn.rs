//! Charts and tables: this machine's beside the source's.

use std::collections::BTreeSet;

use threadgauge_lab::prelude::*;
use threadgauge_results::published::{ContextSwitch, context_switches};
use threadgauge_results::units::published;
use threadgauge_results::{Figure, Table};

use super::case::{Case, Mode, Slice};
use super::curve;
use super::statistics::{COUNTS, ONE, TWO, main_slice, slices, threads};
use super::units::{CPU, SWITCHES_PER_SLICE};

/// The source's configurations in the order of its table: name, system, CPUs.
pub(super) const CONFIGURATIONS: [(&str, &str, u64); 5] = [
    ("NT 4 Server", "Windows NT 4 Server", 2),
    ("2000", "Windows 2000 Professional", 2),
    ("2000", "Windows 2000 Professional", 1),
    ("XP", "Windows XP Professional", 1),
    ("98 SE", "Windows 98 SE", 1),
];

/// How the system's name begins in the rows of the source's second table, which averages two systems.
pub(super) const AVERAGED: &str = "mean of ";

/// A row of the source's tables: of the first for a system, of the second for [`AVERAGED`].
pub(super) fn source_row(os: &str, cpus: u64, count: u64) -> Option<&'static ContextSwitch> {
    let mut rows = context_switches().iter();
    rows.find(|row| row.os.starts_with(os) && row.cpus == cpus && row.threads == count)
}

/// The value of a statistic of run times in the source. Its times have more digits than its printed percentages.
pub(super) fn of_source(os: &str, statistic: &Statistic) -> Option<f64> {
    statistic.of_cells(|cell| {
        let (cpus, count) = (cell.pattern.int("cpus")?, cell.pattern.int("count")?);
        Some(source_row(os, cpus, count)?.elapsed_ms)
    })
}

pub(super) const fn cpus_in_words(cpus: u64) -> &'static str {
    if cpus == 1 { "one CPU" } else { "two CPUs" }
}

/// A line for each of these groups on so many CPUs.
fn by_group<'v>(
    chart: Chart<'v>,
    groups: &[(Case, String)],
    cpus: &[u64],
    of: fn(Case, u64) -> Option<Statistic>,
) -> Chart<'v> {
    let lines = groups
        .iter()
        .flat_map(|group| cpus.iter().map(move |cpus| (group, *cpus)));
    lines.fold(chart, |chart, ((group, name), cpus)| {
        let name = format!("{name}, {}", cpus_in_words(cpus));
        chart.line(name, COUNTS.map(|n| (n, of(group.cpus(cpus), n))))
    })
}

/// The yielding threads of each slice that a run has at several counts, by name.
fn yielding(view: &View<'_>) -> Vec<(Case, String)> {
    let groups = slices(view)
        .into_iter()
        .map(|slice| (ONE.slice_us(slice), format!("yield, {slice}")));
    // Those of a curve have three.
    let several = groups.filter(|(group, _)| group.counts(view).len() > 3);
    several.take(5).collect()
}

/// The units that never give up the CPU: of the shortest slice, where the run has it.
fn control(view: &View<'_>) -> Case {
    let short = slices(view).contains(&Slice::SHORT);
    ONE.slice_us(if short { Slice::SHORT } else { main_slice(view) })
        .control()
}

/// The overheads of one of the source's configurations.
fn source_overheads<'v>(chart: Chart<'v>, &(name, os, cpus): &(&str, &str, u64)) -> Chart<'v> {
    let overhead = |n| of_source(os, &threads(Mode::Yield, cpus).overhead_percent(n)?);
    let name = format!("source, {name}, {}", cpus_in_words(cpus));
    chart.figures(name, Origin::Published, COUNTS.map(|n| (n, overhead(n))))
}

pub(super) fn charts(view: &View<'_>) -> Vec<Figure> {
    let slice = main_slice(view);
    let main = ONE.slice_us(slice);
    let chart = |id, title, y: &str, note| {
        let chart = Chart::new(view, id, title).note(note);
        chart.x(Scale::Log, "threads").y(Scale::Linear, y)
    };
    let slowdowns = Chart::new(
        view,
        "slowdown",
        "How much longer the same work takes with more threads",
    )
    .note(format!(
        "Threads that yield do so after a slice ({slice}); the others never yield and only compute. 1 is one thread on one \
         CPU, and two on two."
    ))
    .x(Scale::Log, "threads")
    .y(Scale::Log, "time, times that of as many threads as CPUs");
    let both = [(main, "yield".to_owned()), (control(view), "no yield".to_owned())];
    let slowdowns = by_group(slowdowns, &both, &[1, 2], |group, n| {
        (n >= group.cpus).then(|| group.slowdown(n))
    });
    let mut groups = yielding(view);
    groups.push((control(view), "no yield".to_owned()));
    let beside_source = |id, title, note, cpus| {
        let ours = by_group(
            chart(id, title, "overhead, %", note),
            &groups,
            &[cpus],
            Case::overhead_percent,
        );
        let theirs = CONFIGURATIONS[..4].iter().filter(|theirs| theirs.2 == cpus);
        theirs.fold(ours, source_overheads)
    };
    let overheads = beside_source(
        "overhead",
        "The same on one CPU, beside what the source measured",
        "Over one yielding thread, as in the source; the controls that do not yield over themselves. The source's times \
         probably include starting and ending its threads, in runs of ten seconds; ours do not. Repeated values in the \
         source suggest a coarse timer. With the matched slice two threads on one CPU cost what they did in the source: \
         that point is no evidence.",
        1,
    );
    let overheads_of_two = beside_source(
        "overhead-two-cpus",
        "The same on two CPUs, beside what the source measured",
        "Over two yielding threads, as in the source; the controls that do not yield over themselves.",
        2,
    );
    let windows_98 = chart(
        "overhead-windows-98",
        "The same on one CPU, beside Windows 98",
        "overhead, %",
        "The source sets Windows 98 apart: its loss passes 50 % with the second thread. It was measured to 1,024 \
         threads.",
    )
    .line(format!("yield, {slice}, one CPU"), COUNTS.map(|n| (n, main.overhead_percent(n))));
    let windows_98 = source_overheads(windows_98, &CONFIGURATIONS[4]);
    let gain = |group: Case| COUNTS.map(|n| (n, group.gain(n).times(100.0)));
    let source_gain = |os| gain(ONE).map(|(n, gain)| (n, of_source(os, &gain)));
    let gains = chart(
        "gain",
        "What a second CPU brings",
        "gain, %",
        "Time on one CPU over time on two, less 1. The source's averages mix systems, NT 4 and 2000 against 2000 and \
         XP; its Windows 2000 alone is drawn beside. Above 100 % is possible here for yielding threads: two \
         on two CPUs do not switch at all.",
    );
    let gains = yielding(view)
        .into_iter()
        .fold(gains, |chart, (group, name)| chart.line(name, gain(group)));
    let gains = gains
        .line("no yield", gain(control(view)))
        .figures("source, averaged", Origin::Published, source_gain(AVERAGED))
        .figures(
            "source, Windows 2000 alone",
            Origin::Published,
            source_gain("Windows 2000"),
        )
        .figures("twice the speed", Origin::Ideal, COUNTS.map(|n| (n, Some(100.0))));
    let sleeping = chart(
        "sleeping",
        "CPU time for the same work: yielding, sleeping for 1 ms, neither",
        "",
        "Sleeping threads work in 256 pieces, or one each; yielding ones in as many as there are slices. The source \
         says that real programs, which sleep, lose less, and has no figures for it.",
    )
    .y(Scale::Log, "CPU time, ms");
    let cpu_ms = |group: Case, n| Some(group.of(CPU, n).times(1e-6));
    let control = control(view);
    let modes =
        [Mode::Sleep, Mode::Yield, Mode::Neither].map(|mode| (control.mode(mode), mode.name().to_owned()));
    let sleeping = by_group(sleeping, &modes, &[1, 2], cpu_ms);
    let switches = |group: Case| COUNTS.map(|n| (n, group.of(SWITCHES_PER_SLICE, n)));
    let yields = control.mode(Mode::Yield);
    let switches = chart(
        "switches",
        "Switches that really happened, per slice",
        "switches per slice",
        "1 where every yield switched, 0 where the scheduler let the unit go on. Without yields each unit is switched \
         once, at its end.",
    )
    .x(Scale::Log, "threads or processes")
    .line("threads that yield, one CPU", switches(yields))
    .line("threads that yield, two CPUs", switches(yields.cpus(2)))
    .line("processes that yield, one CPU", switches(yields.processes()))
    .line("processes that yield, two CPUs", switches(yields.processes().cpus(2)))
    .line("threads that do not, one CPU", switches(control));
    let charts = [
        slowdowns,
        overheads,
        overheads_of_two,
        windows_98,
        gains,
        sleeping,
        switches,
    ]
    .map(Chart::drawn);
    let more = [curve::figure(view), by_cpus(view)];
    charts.into_iter().chain(more).flatten().collect()
}

/// What each further CPU brings, where there are more than two.
fn by_cpus(view: &View<'_>) -> Option<Figure> {
    let group = ONE.slice_us(main_slice(view));
    let cases = view
        .planned(Params::new())
        .filter_map(|params| Case::read(params).ok());
    let of_group = cases.filter(|case| *case == group.cpus(case.cpus).count(case.count).work_s(case.work_s));
    let on: BTreeSet<(u64, u64)> = of_group.map(|case| (case.count, case.cpus)).collect();
    let numbers: BTreeSet<u64> = on.iter().map(|(_, cpus)| *cpus).collect();
    let counts: BTreeSet<u64> = on
        .iter()
        .filter(|(_, cpus)| *cpus > 2)
        .map(|(count, _)| *count)
        .collect();
    let chart = Chart::new(view, "cpus", "What each further CPU brings, by threads")
        .note("Time on one CPU over time on several, of threads that yield. What the source says of 85 % is about the second.")
        .x(Scale::Log, "CPUs")
        .y(Scale::Log, "times as fast as one CPU");
    let chart = counts.into_iter().fold(chart, |chart, n| {
        let speedup = |&cpus: &u64| (cpus, group.cpus(cpus).speedup(n));
        chart.line(format!("{n} threads"), numbers.iter().map(speedup))
    });
    let ideal = numbers.iter().map(|&cpus| (cpus, Some(cpus as f64)));
    chart
        .figures("as many times as CPUs", Origin::Ideal, ideal)
        .drawn()
}

/// A figure of the source; empty where it has none.
fn of_the_source(figure: Option<f64>) -> String {
    figure.map_or_else(String::new, published)
}

fn time(view: &View<'_>, group: Case, count: u64) -> String {
    view.shown(&group.time(count), "ns")
}

pub(super) fn first_table(view: &View<'_>) -> Table {
    let mut columns = vec!["threads".to_owned()];
    let theirs = CONFIGURATIONS.map(|(name, _, cpus)| format!("{name}, {}: ms", cpus_in_words(cpus)));
    let slice = main_slice(view);
    let ours = [2, 1].map(|cpus| format!("here, {}, {slice}", cpus_in_words(cpus)));
    for name in theirs.into_iter().chain(ours) {
        columns.extend([name, "overhead, %".to_owned()]);
    }
    let row = |count: u64| {
        let mut row = vec![count.to_string()];
        for (_, os, cpus) in CONFIGURATIONS {
            let source = source_row(os, cpus, count);
            row.push(of_the_source(source.map(|r| r.elapsed_ms)));
            row.push(of_the_source(source.and_then(|r| r.overhead_pct)));
        }
        for group in [TWO, ONE].map(|group| group.slice_us(slice)) {
            let overhead = group.overhead_percent(count);
            let overhead = overhead.map_or_else(String::new, |overhead| view.shown(&overhead, ""));
            row.extend([time(view, group, count), overhead]);
        }
        row
    };
    table(
        "per-configuration",
        "The source's first table: run time and overhead of threads that yield",
        "The work per run is the machine's own: compare overheads, not milliseconds. No overhead is given for \
         one thread on two CPUs.",
        columns,
        COUNTS.map(row).to_vec(),
    )
}

pub(super) fn second_table(view: &View<'_>) -> Table {
    let slice = main_slice(view);
    let main = ONE.slice_us(slice);
    let columns = [
        "threads".to_owned(),
        "source, two CPUs: ms".to_owned(),
        "gain, %".to_owned(),
        "source, one CPU: ms".to_owned(),
        format!("here, two CPUs, {slice}"),
        "gain, %".to_owned(),
        format!("here, one CPU, {slice}"),
    ];
    let row = |count: u64| {
        let [one, two] = [1, 2].map(|cpus| source_row(AVERAGED, cpus, count));
        vec![
            count.to_string(),
            of_the_source(two.map(|r| r.elapsed_ms)),
            of_the_source(two.and_then(|r| r.gain_over_1_cpu_pct)),
            of_the_source(one.map(|r| r.elapsed_ms)),
            time(view, main.cpus(2), count),
            view.shown(&main.gain(count).times(100.0), ""),
            time(view, main, count),
        ]
    };
    table(
        "averaged",
        "The source's second table: what a second CPU brings",
        "The source averages NT 4 and 2000 on two CPUs, and 2000 and XP on one: different systems. Its mean \
         gain is 84.5 % without the first row and 78.3 % with it.",
        columns,
        COUNTS.map(row).to_vec(),
    )
}
