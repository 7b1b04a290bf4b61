//! Figures and tables: ours and the source's, in the source's own measures.

use threadgauge_results::published::{ContextSwitch, context_switches};
use threadgauge_results::{Axis, Figure as Chart, Origin, Point, Scale, Series, Table};

use super::facts::gain_at;
use super::figures::{Figure, Group, figure, processes, threads};
use super::grid::{COUNTS, Mode, Unit};
use super::statistic::{gain, overhead};
use threadgauge_lab::view::View;

/// The source's configurations in the order of its table: name, system, CPUs.
const CONFIGURATIONS: [(&str, &str, u64); 5] = [
    ("NT 4 Server", "Windows NT 4 Server", 2),
    ("2000", "Windows 2000 Professional", 2),
    ("2000", "Windows 2000 Professional", 1),
    ("XP", "Windows XP Professional", 1),
    ("98 SE", "Windows 98 SE", 1),
];

/// What to draw.
pub(super) fn figures(view: &View<'_>) -> Vec<Chart> {
    vec![
        overheads(view),
        windows_98(view),
        gains(view),
        sleeping(view),
        switches(view),
    ]
}

/// The source's two tables with our columns beside.
pub(super) fn tables(view: &View<'_>) -> Vec<Table> {
    vec![first_table(view), second_table(view)]
}

fn overheads(view: &View<'_>) -> Chart {
    let mut series = Vec::new();
    for mode in [Mode::Yield, Mode::Neither] {
        for cpus in [1, 2] {
            let group = threads(mode, cpus);
            series.push(measured(
                &format!("{}, {}", mode.name(), cpus_in_words(cpus)),
                |n| overhead_at(view, group, n),
            ));
        }
    }
    series.extend(
        CONFIGURATIONS[..4]
            .iter()
            .map(|&(name, os, cpus)| published_overheads(name, os, cpus)),
    );
    Chart {
        id: "overhead".to_owned(),
        title: "What sharing a fixed amount of work among more threads costs".to_owned(),
        note: "Over one yielding thread on one CPU and two on two, as in the source; the controls that do not yield over \
               themselves. The source's times probably include starting and ending its threads, in runs of ten seconds; \
               ours do not. Repeated values in the source suggest a coarse timer (N-27)."
            .to_owned(),
        x: axis("threads", Scale::Log),
        y: axis("overhead, %", Scale::Linear),
        series: drawn(series),
    }
}

fn windows_98(view: &View<'_>) -> Chart {
    let one = threads(Mode::Yield, 1);
    let (name, os, cpus) = CONFIGURATIONS[4];
    Chart {
        id: "overhead-windows-98".to_owned(),
        title: "The same on one CPU, beside Windows 98".to_owned(),
        note: "The source sets Windows 98 apart: its loss passes 50 % with the second thread. It was measured to 1,024 \
               threads."
            .to_owned(),
        x: axis("threads", Scale::Log),
        y: axis("overhead, %", Scale::Linear),
        series: drawn(vec![
            measured("yield, one CPU", |n| overhead_at(view, one, n)),
            published_overheads(name, os, cpus),
        ]),
    }
}

fn gains(view: &View<'_>) -> Chart {
    let averaged = |count| {
        let time = |cpus| averaged(count, cpus).map(|row| row.elapsed_ms);
        Some(point(count, gain(time(1)?, time(2)?) * 100.0))
    };
    let alone = |count| {
        let time = |cpus| published("Windows 2000 Professional", cpus, count).map(|row| row.elapsed_ms);
        Some(point(count, gain(time(1)?, time(2)?) * 100.0))
    };
    let series = vec![
        measured("yield", |n| percent(gain_at(view, Mode::Yield, n))),
        measured("neither", |n| percent(gain_at(view, Mode::Neither, n))),
        line("source, averaged", Origin::Published, averaged),
        line("source, Windows 2000 alone", Origin::Published, alone),
        line("twice the speed", Origin::Ideal, |n| Some(point(n, 100.0))),
    ];
    Chart {
        id: "gain".to_owned(),
        title: "What a second CPU brings".to_owned(),
        note: "Time on one CPU over time on two, less 1. The source's averages mix systems, NT 4 and 2000 against 2000 and XP; \
               its Windows 2000 alone is drawn beside (N-26). Above 100 % is possible here for yielding threads: two on two \
               CPUs do not switch at all."
            .to_owned(),
        x: axis("threads", Scale::Log),
        y: axis("gain, %", Scale::Linear),
        series: drawn(series),
    }
}

fn sleeping(view: &View<'_>) -> Chart {
    let mut series = Vec::new();
    for mode in [Mode::Sleep, Mode::Yield, Mode::Neither] {
        for cpus in [1, 2] {
            let group = threads(mode, cpus);
            series.push(measured(
                &format!("{}, {}", mode.name(), cpus_in_words(cpus)),
                |n| scaled(figure(view, &[group.of(n, "cpu_ns")], |v| v[0]), 1e-6),
            ));
        }
    }
    Chart {
        id: "sleeping".to_owned(),
        title: "CPU time for the same work: yielding, sleeping for 1 ms, neither".to_owned(),
        note: "Sleeping threads work in 256 pieces, or one each; yielding ones in as many as there are slices. The source says \
               that real programs, which sleep, lose less, and has no figures for it."
            .to_owned(),
        x: axis("threads", Scale::Log),
        y: axis("CPU time, ms", Scale::Log),
        series: drawn(series),
    }
}

fn switches(view: &View<'_>) -> Chart {
    let of = |group: Group| move |n| figure(view, &[group.of(n, "switches_per_slice")], |v| v[0]);
    let series = vec![
        measured("threads that yield, one CPU", of(threads(Mode::Yield, 1))),
        measured("threads that yield, two CPUs", of(threads(Mode::Yield, 2))),
        measured("processes that yield, one CPU", of(processes(Mode::Yield, 1))),
        measured("processes that yield, two CPUs", of(processes(Mode::Yield, 2))),
        measured("threads that do not, one CPU", of(threads(Mode::Neither, 1))),
    ];
    Chart {
        id: "switches".to_owned(),
        title: "Switches that really happened, per slice".to_owned(),
        note: "1 where every yield switched, 0 where the scheduler let the unit go on. Without yields each unit is switched \
               once, at its end."
            .to_owned(),
        x: axis("threads or processes", Scale::Log),
        y: axis("switches per slice", Scale::Linear),
        series: drawn(series),
    }
}

fn first_table(view: &View<'_>) -> Table {
    let mut columns = vec!["threads".to_owned()];
    for (name, _, cpus) in CONFIGURATIONS {
        let cpus = cpus_in_words(cpus);
        columns.push(format!("{name}, {cpus}: ms"));
        columns.push("overhead, %".to_owned());
    }
    for cpus in ["two CPUs", "one CPU"] {
        columns.push(format!("here, {cpus}: ms"));
        columns.push("overhead, %".to_owned());
    }
    let row = |count: u64| {
        let mut row = vec![count.to_string()];
        for (_, os, cpus) in CONFIGURATIONS {
            let cell = published(os, cpus, count);
            row.push(cell.map_or_else(String::new, |c| format!("{:.0}", c.elapsed_ms)));
            let over = cell.and_then(|c| c.overhead_pct);
            row.push(over.map_or_else(String::new, |p| format!("{p:.0}")));
        }
        for cpus in [2, 1] {
            let group = threads(Mode::Yield, cpus);
            row.push(in_ms(view, group, count));
            row.push(
                overhead_at(view, group, count).map_or_else(String::new, |f| format!("{:.1}", f.median)),
            );
        }
        row
    };
    Table {
        id: "per-configuration".to_owned(),
        title: "The source's first table: run time and overhead of threads that yield".to_owned(),
        note: "The work per run is the machine's own: compare overheads, not milliseconds (N-28). No overhead is given for one \
               thread on two CPUs."
            .to_owned(),
        columns,
        rows: COUNTS.map(row).to_vec(),
    }
}

fn second_table(view: &View<'_>) -> Table {
    let columns = [
        "threads",
        "source, two CPUs: ms",
        "gain, %",
        "source, one CPU: ms",
        "here, two CPUs: ms",
        "gain, %",
        "here, one CPU: ms",
    ];
    let row = |count: u64| {
        let (two, one) = (averaged(count, 2), averaged(count, 1));
        let ms =
            |row: Option<&ContextSwitch>| row.map_or_else(String::new, |r| format!("{:.0}", r.elapsed_ms));
        let gain = two.and_then(|r| r.gain_over_1_cpu_pct);
        let ours = percent(gain_at(view, Mode::Yield, count));
        vec![
            count.to_string(),
            ms(two),
            gain.map_or_else(String::new, |g| format!("{g:.0}")),
            ms(one),
            in_ms(view, threads(Mode::Yield, 2), count),
            ours.map_or_else(String::new, |f| format!("{:.1}", f.median)),
            in_ms(view, threads(Mode::Yield, 1), count),
        ]
    };
    Table {
        id: "averaged".to_owned(),
        title: "The source's second table: what a second CPU brings".to_owned(),
        note: "The source averages NT 4 and 2000 on two CPUs, and 2000 and XP on one: different systems (N-26). Its mean gain is \
               84.5 % without the first row and 78.3 % with it (N-25)."
            .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: COUNTS.map(row).to_vec(),
    }
}

/// Overhead in per cent; none for fewer threads than CPUs, as in the source.
fn overhead_at(view: &View<'_>, group: Group, count: u64) -> Option<Figure> {
    debug_assert_eq!(group.unit, Unit::Thread);
    if count < group.cpus {
        return None;
    }
    percent(figure(view, &[group.time(count), group.base()], |t| {
        overhead(t[0], t[1])
    }))
}

fn in_ms(view: &View<'_>, group: Group, count: u64) -> String {
    let time = figure(view, &[group.time(count)], |t| t[0]);
    time.map_or_else(String::new, |f| format!("{:.1}", f.median / 1e6))
}

fn published(os: &str, cpus: u64, count: u64) -> Option<&'static ContextSwitch> {
    context_switches().iter().find(|r| {
        r.published_table == "per_configuration" && r.os == os && r.cpus == cpus && r.threads == count
    })
}

fn averaged(count: u64, cpus: u64) -> Option<&'static ContextSwitch> {
    context_switches()
        .iter()
        .find(|r| r.published_table == "averaged" && r.cpus == cpus && r.threads == count)
}

/// From the run times, which have more digits than the printed per cent.
fn published_overheads(name: &str, os: &str, cpus: u64) -> Series {
    let name = format!("source, {name}, {}", cpus_in_words(cpus));
    line(&name, Origin::Published, |count| {
        let base = published(os, cpus, cpus)?.elapsed_ms;
        let time = published(os, cpus, count)?.elapsed_ms;
        (count >= cpus).then(|| point(count, overhead(time, base) * 100.0))
    })
}

fn measured(name: &str, f: impl Fn(u64) -> Option<Figure>) -> Series {
    line(name, Origin::Measured, |count| {
        f(count).map(|figure| Point {
            ci95: figure.ci95,
            ..point(count, figure.median)
        })
    })
}

fn line(name: &str, origin: Origin, f: impl Fn(u64) -> Option<Point>) -> Series {
    Series {
        name: name.to_owned(),
        origin,
        points: COUNTS.into_iter().filter_map(f).collect(),
    }
}

fn point(count: u64, y: f64) -> Point {
    Point {
        x: count as f64,
        label: None,
        y,
        ci95: None,
    }
}

/// Lines that have points.
fn drawn(mut series: Vec<Series>) -> Vec<Series> {
    series.retain(|s| !s.points.is_empty());
    series
}

fn percent(figure: Option<Figure>) -> Option<Figure> {
    scaled(figure, 100.0)
}

fn scaled(figure: Option<Figure>, factor: f64) -> Option<Figure> {
    figure.map(|f| Figure {
        median: f.median * factor,
        ci95: f.ci95.map(|ends| ends.map(|end| end * factor)),
    })
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

fn cpus_in_words(cpus: u64) -> &'static str {
    if cpus == 1 { "one CPU" } else { "two CPUs" }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{as_published, run};
    use super::*;

    fn series<'a>(charts: &'a [Chart], id: &str, name: &str) -> &'a Series {
        let chart = charts.iter().find(|c| c.id == id).unwrap();
        chart.series.iter().find(|s| s.name == name).unwrap()
    }

    #[test]
    fn ours_lies_on_the_sources_curve_when_it_has_the_sources_times() {
        let charts = figures(&as_published(7));
        let ours = series(&charts, "gain", "yield");
        let theirs = series(&charts, "gain", "source, averaged");
        assert_eq!((ours.points.len(), theirs.points.len()), (14, 14));
        for (a, b) in ours.points.iter().zip(&theirs.points) {
            assert!((a.y - b.y).abs() < 1e-9);
            assert_eq!(a.ci95, Some([a.y, a.y]));
        }
    }

    #[test]
    fn the_drawn_overheads_are_the_printed_ones() {
        let charts = figures(&as_published(7));
        for (name, os, cpus) in CONFIGURATIONS {
            let id = if os.ends_with("98 SE") {
                "overhead-windows-98"
            } else {
                "overhead"
            };
            let line = series(&charts, id, &format!("source, {name}, {}", cpus_in_words(cpus)));
            for p in &line.points {
                let printed = published(os, cpus, p.x as u64).unwrap().overhead_pct.unwrap();
                assert!((p.y - printed).abs() <= 0.51, "{os} {p:?} {printed}");
            }
        }
    }

    #[test]
    fn the_tables_hold_the_sources_rows_and_ours() {
        let tables = tables(&as_published(7));
        let row = |table: &Table, count: &str| table.rows.iter().find(|r| r[0] == count).unwrap().clone();
        for table in &tables {
            assert_eq!(table.rows.len(), 14);
            assert!(
                table.rows.iter().all(|r| r.len() == table.columns.len()),
                "{}",
                table.id
            );
        }
        let first = row(&tables[0], "1");
        assert_eq!(first[1..5], ["10703", "", "10563", ""].map(str::to_owned));
        assert_eq!(row(&tables[0], "8192")[9..11], ["", ""].map(str::to_owned));
        let second = row(&tables[1], "2");
        assert_eq!(
            second,
            ["2", "5399", "96", "10581", "5399.0", "96.0", "10581.0"].map(str::to_owned)
        );
    }

    #[test]
    fn without_our_figures_the_sources_remain() {
        let view = run(7, 1, |_| None);
        let charts = figures(&view);
        assert!(
            charts
                .iter()
                .flat_map(|c| &c.series)
                .all(|s| s.origin != Origin::Measured)
        );
        assert_eq!(
            charts.iter().find(|c| c.id == "overhead").unwrap().series.len(),
            4
        );
        assert!(tables(&view)[1].rows.iter().all(|r| r[4].is_empty()));
    }

    #[test]
    fn every_figure_of_a_full_run_has_ours_and_points_in_order() {
        for chart in figures(&as_published(7)) {
            assert!(
                chart.series.iter().any(|s| s.origin == Origin::Measured),
                "{}",
                chart.id
            );
            for s in &chart.series {
                assert!(
                    s.points.windows(2).all(|p| p[0].x < p[1].x),
                    "{} {}",
                    chart.id,
                    s.name
                );
            }
        }
    }
}
