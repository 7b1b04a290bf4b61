//! Figures and tables: the source's charts, with what theory says beside; and what of each figure is not arithmetic.

use threadgauge_results::{Axis, Figure as Chart, Origin, Point, Scale, Series, Table};

use super::case::{Carrier, Case, DEGREE, Degree, Extra, Kind, Lengths, Order};
use super::cells::{Figure, Measure, Pair, all_cpus, counts_of, figure, longest_base};
use super::claims::ordered;
use super::grid::{BASES_MS, COUNTS, MIDDLE, SHORT_MS};
use threadgauge_lab::view::View;

/// What to draw.
pub(super) fn figures(view: &View<'_>) -> Vec<Chart> {
    let mut charts = Vec::new();
    for kind in [Kind::Cpu, Kind::Io] {
        let long = longest_base(view, kind).filter(|&base_ms| base_ms > SHORT_MS);
        for base_ms in [Some(SHORT_MS), long].into_iter().flatten() {
            charts.extend(
                [Measure::Elapsed, Measure::Turnaround].map(|m| source_chart(view, kind, base_ms, m)),
            );
        }
    }
    charts.push(over_ideal(view));
    charts.push(by_length(view));
    charts.push(mixes(view));
    charts.push(ways(view));
    charts.retain(|chart| chart.series.iter().any(|s| s.origin == Origin::Measured));
    charts
}

/// As the source draws it: over the number of computations, serial and concurrent, for one base length.
fn source_chart(view: &View<'_>, kind: Kind, base_ms: u64, measure: Measure) -> Chart {
    let (kind_name, kind_id) = match kind {
        Kind::Io => ("I/O-bound", "io"),
        _ => ("CPU-bound", "cpu"),
    };
    let (measure_name, measure_id, scale) = match measure {
        Measure::Elapsed => ("elapsed time", "elapsed", 1e-6),
        Measure::Turnaround => ("turnaround", "turnaround", 1.0),
    };
    let label = match measure {
        Measure::Elapsed => "elapsed time, ms",
        Measure::Turnaround => "mean turnaround",
    };
    let pair = |n| Pair::of(kind, n, base_ms);
    let of = |case: Case, metric: &str| scaled(figure(view, &[case.cell(metric)], |v| v[0]), scale);
    let series = vec![
        line("serial", Origin::Measured, &COUNTS, |n| {
            of(pair(n).serial, measure.metric())
        }),
        line("concurrent", Origin::Measured, &COUNTS, |n| {
            of(pair(n).concurrent, measure.metric())
        }),
        line("serial at no cost", Origin::Ideal, &COUNTS, |n| {
            of(pair(n).serial, measure.ideal())
        }),
        line("concurrent at no cost", Origin::Ideal, &COUNTS, |n| {
            of(pair(n).concurrent, measure.ideal())
        }),
    ];
    Chart {
        id: format!("{measure_id}-{kind_id}-{base_ms}"),
        title: format!("{kind_name} computations of {base_ms} ms and its multiples: {measure_name}"),
        note: format!(
            "Lengths from {base_ms} ms to {base_ms} ms × the number of computations, longest first, on one CPU, a thread for \
             each. Theory: first come, first served, and sharing the CPU equally, both at no cost. The source's charts have the same \
             axes; their figures are not in its text."
        ),
        x: axis("computations", Scale::Linear),
        y: axis(label, Scale::Linear),
        series: drawn(series),
    }
}

/// Measured over theory: what is not arithmetic.
fn over_ideal(view: &View<'_>) -> Chart {
    let mut series = Vec::new();
    for (kind, kind_name) in [(Kind::Cpu, "CPU-bound"), (Kind::Io, "I/O-bound")] {
        for (name, of) in [
            ("serial", (|pair| pair.serial) as fn(Pair) -> Case),
            ("concurrent", |pair| pair.concurrent),
        ] {
            series.push(line(
                &format!("{kind_name}, {name}"),
                Origin::Measured,
                &COUNTS,
                |n| overhead(view, of(Pair::of(kind, n, SHORT_MS)), Measure::Elapsed),
            ));
        }
    }
    Chart {
        id: "over-ideal".to_owned(),
        title: format!("Elapsed time beyond what theory says, from {SHORT_MS} ms on"),
        note: "Zero is work that is done as scheduling theory has it, at no cost. What serial and concurrent have in common is \
               the machine's (work calibrated at its fastest); what concurrent has beyond serial is the price of threads."
            .to_owned(),
        x: axis("computations", Scale::Linear),
        y: axis("elapsed time over theory, %", Scale::Linear),
        series: drawn(series),
    }
}

/// The same over the base length, for the middle count.
fn by_length(view: &View<'_>) -> Chart {
    let mut series = Vec::new();
    for (kind, kind_name) in [(Kind::Cpu, "CPU-bound"), (Kind::Io, "I/O-bound")] {
        for n in [2, MIDDLE] {
            series.push(line(
                &format!("{kind_name}, {n} at once"),
                Origin::Measured,
                &BASES_MS,
                |base_ms| overhead(view, Pair::of(kind, n, base_ms).concurrent, Measure::Elapsed),
            ));
        }
    }
    Chart {
        id: "over-ideal-by-length".to_owned(),
        title: "Elapsed time of concurrent computations beyond what theory says, by base length".to_owned(),
        note: "A constant cost becomes a smaller share of longer work: the source says so of I/O-bound computations.".to_owned(),
        x: axis("base length, ms", Scale::Log),
        y: axis("elapsed time over theory, %", Scale::Linear),
        // One length alone shows nothing of lengths.
        series: series.into_iter().filter(|s| s.points.len() > 1).collect(),
    }
}

/// What threads are worth by how much is computed and how much waited.
fn mixes(view: &View<'_>) -> Chart {
    let kinds = || std::iter::once(Kind::Io).chain(Kind::MIXES).chain([Kind::Cpu]);
    let ratio = |pair: Pair, [a, b]: [&str; 2]| {
        figure(view, &[pair.serial.cell(a), pair.concurrent.cell(b)], |v| {
            v[0] / v[1]
        })
    };
    let of = |name: &str, origin, metric: &str, cpus| Series {
        name: name.to_owned(),
        origin,
        points: kinds()
            .filter_map(|kind| {
                let pair = Pair::of(kind, MIDDLE, SHORT_MS).on(cpus);
                let drawn = point(kind.computes_percent() as f64, ratio(pair, [metric; 2])?);
                Some(Point {
                    ci95: drawn.ci95.filter(|_| origin == Origin::Measured),
                    ..drawn
                })
            })
            .collect(),
    };
    let series = vec![
        of("elapsed", Origin::Measured, Measure::Elapsed.metric(), 1),
        of("turnaround", Origin::Measured, Measure::Turnaround.metric(), 1),
        of("elapsed at no cost", Origin::Ideal, Measure::Elapsed.ideal(), 1),
        of(
            "turnaround at no cost",
            Origin::Ideal,
            Measure::Turnaround.ideal(),
            1,
        ),
    ];
    // Both ends alone are two points of the source's charts.
    let series = if series[0].points.len() > 2 {
        drawn(series)
    } else {
        Vec::new()
    };
    Chart {
        id: "mixes".to_owned(),
        title: format!("How many times better {MIDDLE} computations do at once, by how much they compute"),
        note: "One after the other over at once, on one CPU, longest first; computing and sleeping by turns of 5 ms together. \
               Theory shares the CPU equally, so that all compute and sleep in step; a scheduler that lets short bursts end does \
               better, and is above it.".to_owned(),
        x: axis("share of computing, %", Scale::Linear),
        y: axis("serial / concurrent", Scale::Linear),
        series,
    }
}

/// The ways to run the same CPU-bound work.
fn ways(view: &View<'_>) -> Chart {
    let mut series = Vec::new();
    for cpus in std::iter::once(1).chain(all_cpus(view)) {
        let pair = Pair::of(Kind::Cpu, MIDDLE, SHORT_MS).on(cpus);
        let concurrent = pair.concurrent;
        let at_most = |degree| Case {
            degree: Degree::AtMost(degree),
            ..concurrent
        };
        let pool = |degree| Case {
            carrier: Carrier::Pool,
            ..at_most(degree)
        };
        let by = |carrier| Case {
            carrier,
            ..concurrent
        };
        let extra = |extra| Case { extra, ..concurrent };
        let lengths = |lengths| Case {
            lengths,
            ..concurrent
        };
        let all = all_cpus(view).unwrap_or(2);
        let ways = [
            ("serial", pair.serial),
            ("ascending, serial", ordered(pair, Order::Ascending).serial),
            ("concurrent", concurrent),
            ("ascending", ordered(pair, Order::Ascending).concurrent),
            ("equal lengths", lengths(Lengths::Equal)),
            ("random lengths", lengths(Lengths::Random)),
            ("degree 4", at_most(4)),
            ("degree = CPUs", at_most(all)),
            ("made up front", by(Carrier::UpFront)),
            ("pool of 25", pool(DEGREE.most())),
            ("pool of 1", pool(1)),
            ("helper processes", by(Carrier::Process)),
            ("dependent", extra(Extra::Chain)),
            ("finishers of 10 ms", extra(Extra::Finisher)),
        ];
        let points = ways.into_iter().enumerate().filter_map(|(i, (name, case))| {
            let figure = overhead(view, case, Measure::Elapsed)?;
            Some(Point {
                label: Some(name.to_owned()),
                ..point(i as f64, figure)
            })
        });
        let name = if cpus == 1 {
            "one CPU".to_owned()
        } else {
            format!("{cpus} CPUs")
        };
        series.push(Series {
            name,
            origin: Origin::Measured,
            points: points.collect(),
        });
    }
    if series.first().is_none_or(|s| s.points.len() < 4) {
        series.clear();
    }
    Chart {
        id: "ways".to_owned(),
        title: format!("{MIDDLE} CPU-bound computations run in other ways: elapsed time beyond what theory says of each"),
        note: "A thread for each, longest first, at most 25 at once, where nothing else is said (dependent: each needs the one before). Each way against its own \
               theory, in which finishing takes no time: so the last one shows the work of its finishers."
            .to_owned(),
        x: axis("way", Scale::Category),
        y: axis("elapsed time over theory, %", Scale::Linear),
        series: drawn(series),
    }
}

/// The source's matrix as tables, one a kind.
pub(super) fn tables(view: &View<'_>) -> Vec<Table> {
    [(Kind::Cpu, "CPU-bound"), (Kind::Io, "I/O-bound")]
        .into_iter()
        .filter_map(|(kind, name)| matrix(view, kind, name))
        .collect()
}

fn matrix(view: &View<'_>, kind: Kind, name: &str) -> Option<Table> {
    let mut rows = Vec::new();
    for base_ms in BASES_MS {
        for n in counts_of(view, |n| Pair::of(kind, n, base_ms)) {
            let pair = Pair::of(kind, n, base_ms);
            let one = |case: Case, metric: &str, unit: f64, digits: usize| {
                let value = view.median(&case.cell(metric));
                value.map_or_else(String::new, |v| format!("{:.digits$}", v / unit))
            };
            let elapsed = |case| one(case, Measure::Elapsed.metric(), 1e6, 1);
            let turnaround = |case| one(case, Measure::Turnaround.metric(), 1.0, 2);
            let theory = |case| one(case, Measure::Turnaround.ideal(), 1.0, 2);
            let ratio = figure(view, &pair.cells(Measure::Elapsed), |v| v[1] / v[0]);
            rows.push(vec![
                base_ms.to_string(),
                n.to_string(),
                elapsed(pair.serial),
                elapsed(pair.concurrent),
                ratio.map_or_else(String::new, |r| format!("{:.3}", r.median)),
                turnaround(pair.serial),
                theory(pair.serial),
                turnaround(pair.concurrent),
                theory(pair.concurrent),
            ]);
        }
    }
    (!rows.is_empty()).then(|| Table {
        id: format!("matrix-{}", kind.name()),
        title: format!("The source's matrix, {name} computations on one CPU"),
        note: "Medians over rounds. The source gives these cells as charts, whose figures are not in its text; theory is first \
               come, first served, and equal sharing."
            .to_owned(),
        columns: [
            "base, ms",
            "computations",
            "serial, ms",
            "concurrent, ms",
            "concurrent / serial",
            "turnaround, serial",
            "serial at no cost",
            "turnaround, concurrent",
            "concurrent at no cost",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows,
    })
}

/// By how many per cent a case exceeds its own theory.
fn overhead(view: &View<'_>, case: Case, measure: Measure) -> Option<Figure> {
    let cells = [case.of(measure), case.cell(measure.ideal())];
    figure(view, &cells, |v| (v[0] / v[1] - 1.0) * 100.0)
}

fn scaled(figure: Option<Figure>, factor: f64) -> Option<Figure> {
    figure.map(|f| Figure {
        median: f.median * factor,
        ci95: f.ci95.map(|ends| ends.map(|end| end * factor)),
    })
}

fn line(name: &str, origin: Origin, xs: &[u64], figure: impl Fn(u64) -> Option<Figure>) -> Series {
    let point = |&x: &u64| {
        let figure = figure(x)?;
        Some(Point {
            // Theory varies with a chance order alone, and is not a measurement of it.
            ci95: figure.ci95.filter(|_| origin == Origin::Measured),
            ..point(x as f64, figure)
        })
    };
    Series {
        name: name.to_owned(),
        origin,
        points: xs.iter().filter_map(point).collect(),
    }
}

fn point(x: f64, figure: Figure) -> Point {
    Point {
        x,
        label: None,
        y: figure.median,
        ci95: figure.ci95,
    }
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

fn drawn(series: Vec<Series>) -> Vec<Series> {
    series.into_iter().filter(|s| !s.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::as_in_theory;
    use super::*;
    use threadgauge_lab::site::Profile;

    fn chart(charts: &[Chart], id: &str) -> Chart {
        charts
            .iter()
            .find(|c| c.id == id)
            .unwrap_or_else(|| panic!("no chart {id}"))
            .clone()
    }

    #[test]
    fn the_sources_eight_charts_and_ours_are_drawn_from_the_paper_profile() {
        let charts = figures(&as_in_theory(Profile::Paper, 7, 2, 0.0));
        for kind in ["cpu", "io"] {
            for base in [10, 2430] {
                for measure in ["elapsed", "turnaround"] {
                    let chart = chart(&charts, &format!("{measure}-{kind}-{base}"));
                    assert_eq!(chart.series.len(), 4);
                    assert!(chart.series.iter().all(|s| s.points.len() == 6));
                }
            }
        }
        let longest = &chart(&charts, "elapsed-cpu-2430").series[0].points[5];
        assert_eq!((longest.x, longest.y), (17.0, 153.0 * 2430.0));
        for id in ["over-ideal", "over-ideal-by-length", "mixes", "ways"] {
            chart(&charts, id);
        }
    }

    #[test]
    fn at_no_cost_nothing_is_over_theory() {
        let charts = figures(&as_in_theory(Profile::Standard, 7, 2, 0.0));
        let over = chart(&charts, "over-ideal");
        assert!(
            over.series
                .iter()
                .flat_map(|s| &s.points)
                .all(|p| p.y.abs() < 1e-9)
        );
        // Half of the computing computed at once on one CPU: the sleeping overlaps, theory says how much.
        let mixes = chart(&charts, "mixes");
        assert_eq!(mixes.series[0].points.len(), 7);
        assert_eq!(mixes.series[0].points[6].y, 1.0);
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let charts = figures(&as_in_theory(Profile::Quick, 7, 1, 0.0));
        assert!(
            charts.iter().all(|c| c.id != "mixes" && c.id != "ways"),
            "too few cells"
        );
        assert!(
            charts
                .iter()
                .all(|c| c.series.iter().all(|s| !s.points.is_empty()))
        );
        assert!(figures(&super::super::testing::run(Profile::Quick, 7, 1, |_| None)).is_empty());
    }

    #[test]
    fn the_table_is_the_sources_matrix() {
        let tables = tables(&as_in_theory(Profile::Paper, 7, 1, 0.0));
        assert_eq!((tables.len(), tables[0].rows.len()), (2, 36));
        let last = tables[0].rows.last().unwrap();
        assert_eq!(last[..4], ["2430", "17", "371790.0", "371790.0"]);
        assert_eq!(last[4..], ["1.000", "26.96", "26.96", "13.00", "13.00"]);
    }
}
