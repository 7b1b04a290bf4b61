//! What is drawn: the ways beside what source 003 published, how many are alive, who computes beside, and
//! what the parent holds.

use threadgauge_results::{Axis, Figure, Origin, Point, Scale, Series};

use crate::create::cells::{CREATION, Figured, PRIMARY, Pick, all_cpus, base, figure, ratio};
use crate::create::grid::{ALIVE, BUSY, PARENT_MIB};
use crate::create::published::Published;
use crate::create::way::Way;
use threadgauge_lab::view::View;

/// Every figure that has something to show.
pub fn all(view: &View<'_>) -> Vec<Figure> {
    let figures = [ratios(view), times(view), alive(view), beside(view), parent(view)];
    figures
        .into_iter()
        .filter(|f| f.series.iter().any(|s| s.origin == Origin::Measured))
        .collect()
}

const MICROSECONDS: f64 = 1e-3;

fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

fn point(x: f64, label: Option<&str>, figure: Figured) -> Point {
    Point {
        x,
        label: label.map(str::to_owned),
        y: figure.value,
        ci95: figure.ci95,
    }
}

/// A line of ours; `None` where it has no points.
fn measured(name: String, points: Vec<Point>) -> Option<Series> {
    (!points.is_empty()).then_some(Series {
        name,
        origin: Origin::Measured,
        points,
    })
}

/// The place of a way on a category axis.
fn place(way: Way) -> f64 {
    Way::ALL.iter().position(|w| *w == way).unwrap_or_default() as f64
}

fn by_way(name: String, value: impl Fn(Way) -> Option<Figured>) -> Option<Series> {
    let points = Way::ALL
        .into_iter()
        .filter_map(|way| Some(point(place(way), Some(way.name()), value(way)?)))
        .collect();
    measured(name, points)
}

fn ratios(view: &View<'_>) -> Figure {
    let on = |cpus| {
        move |way: Way| {
            let thread = base(Way::Pthread).cpus(cpus);
            if way == Way::Pthread {
                // The yardstick itself, where there is one.
                return figure(view, thread, PRIMARY).map(|_| Figured {
                    value: 1.0,
                    ci95: None,
                });
            }
            ratio(view, base(way).cpus(cpus), thread).ok()
        }
    };
    let mut series: Vec<Series> = by_way("one CPU".to_owned(), on(1)).into_iter().collect();
    if let Some(all) = all_cpus(view) {
        series.extend(by_way(format!("{all} CPUs"), on(all)));
    }
    let published = Published::source_003();
    series.push(Series {
        name: "source 003, one core".to_owned(),
        origin: Origin::Published,
        points: [
            (Way::ForkSigchld, published.process_s / published.thread_s),
            (Way::Pthread, 1.0),
        ]
        .map(|(way, y)| point(place(way), Some(way.name()), Figured { value: y, ci95: None }))
        .into(),
    });
    Figure {
        id: "ways-ratio".to_owned(),
        title: "Making and ending a unit, against a thread".to_owned(),
        note: "A thread made and joined (pthread) is 1, on the same CPUs. The source's processes were reaped in a signal \
               handler and its threads joined one by one, so its figure stands at fork-sigchld."
            .to_owned(),
        x: axis("way", Scale::Category),
        y: axis("time per unit, pthread = 1", Scale::Log),
        series,
    }
}

fn times(view: &View<'_>) -> Figure {
    let on = |cpus| move |way: Way| Some(figure(view, base(way).cpus(cpus), PRIMARY)?.times(MICROSECONDS));
    let mut series: Vec<Series> = by_way("one CPU".to_owned(), on(1)).into_iter().collect();
    if let Some(all) = all_cpus(view) {
        series.extend(by_way(format!("{all} CPUs"), on(all)));
    }
    Figure {
        id: "ways".to_owned(),
        title: "Making and ending a unit".to_owned(),
        note: "One at a time, from an empty parent. What source 003 measured in these units is in the table: it ran on \
               another machine."
            .to_owned(),
        x: axis("way", Scale::Category),
        y: axis("time per unit, µs", Scale::Log),
        series,
    }
}

fn alive(view: &View<'_>) -> Figure {
    let series = Way::ALL.into_iter().filter_map(|way| {
        let counts = std::iter::once(1).chain(ALIVE);
        let points: Vec<Point> = counts
            .filter_map(|n| {
                let figure = figure(view, base(way).alive(n), PRIMARY)?;
                Some(point(n as f64, None, figure.times(MICROSECONDS)))
            })
            .collect();
        measured(way.name().to_owned(), points).filter(|s| s.points.len() > 1)
    });
    Figure {
        id: "alive".to_owned(),
        title: "Units kept alive together".to_owned(),
        note: "All of a batch are made, wait, are let go and reaped; on one CPU. With one at a time a unit ends by itself."
            .to_owned(),
        x: axis("units alive", Scale::Log),
        y: axis("time per unit, µs", Scale::Log),
        series: series.collect(),
    }
}

fn beside(view: &View<'_>) -> Figure {
    let ways = || {
        Way::ALL
            .into_iter()
            .filter(|way| base(*way).busy(BUSY).planned(view).is_some())
    };
    let line = |name: String, pick: fn(Pick) -> Pick| {
        let points = ways().enumerate().filter_map(|(i, way)| {
            let figure = figure(view, pick(base(way)), CREATION)?;
            Some(point(i as f64, Some(way.name()), figure.times(MICROSECONDS)))
        });
        measured(name, points.collect())
    };
    Figure {
        id: "beside".to_owned(),
        title: "A single creation while others compute".to_owned(),
        note: "The creating call alone, at the median; on one CPU. Beside threads compute threads of the same process, \
               beside processes processes."
            .to_owned(),
        x: axis("way", Scale::Category),
        y: axis("time of a creation, µs", Scale::Log),
        series: [
            line("nobody beside".to_owned(), |pick| pick),
            line(format!("{BUSY} computing beside"), |pick| pick.busy(BUSY)),
        ]
        .into_iter()
        .flatten()
        .collect(),
    }
}

fn parent(view: &View<'_>) -> Figure {
    let mut series = Vec::new();
    for way in [Way::Fork, Way::Vfork, Way::PosixSpawn, Way::Pthread] {
        for huge_pages in [false, true] {
            let sizes = PARENT_MIB.map(|mib| (mib, base(way).parent(mib, huge_pages)));
            let points: Vec<Point> = std::iter::once((0, base(way)))
                .chain(sizes)
                .filter_map(|(mib, pick)| {
                    let figure = figure(view, pick, PRIMARY)?;
                    Some(point(mib as f64, None, figure.times(MICROSECONDS)))
                })
                .collect();
            let pages = if huge_pages { "huge pages" } else { "small pages" };
            let line = measured(format!("{}, {pages}", way.name()), points);
            series.extend(line.filter(|s| s.points.len() > 1));
        }
    }
    Figure {
        id: "parent-memory".to_owned(),
        title: "What the parent's memory costs".to_owned(),
        note: "Memory that the parent has written, beyond its own few MiB; on one CPU. Only fork copies page tables, and \
               huge pages need few."
            .to_owned(),
        x: axis("memory of the parent, MiB", Scale::Linear),
        y: axis("time per unit, µs", Scale::Log),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::cells::by_hand::{measured as cell, view};
    use crate::create::way::Case;

    fn line<'a>(figures: &'a [Figure], id: &str, name: &str) -> &'a Series {
        let figure = figures.iter().find(|f| f.id == id).expect(id);
        figure.series.iter().find(|s| s.name == name).expect(name)
    }

    #[test]
    fn the_ratio_chart_has_the_published_ratio_beside_ours() {
        let view = view(vec![
            cell(
                &Case::base(Way::ForkSigchld, 200),
                1,
                &[(PRIMARY, &[110_000.0; 7])],
            ),
            cell(&Case::base(Way::Pthread, 200), 1, &[(PRIMARY, &[20_000.0; 7])]),
        ]);
        let figures = all(&view);
        let ours = line(&figures, "ways-ratio", "one CPU");
        let theirs = line(&figures, "ways-ratio", "source 003, one core");
        let at = |s: &Series| {
            let point = s
                .points
                .iter()
                .find(|p| p.label.as_deref() == Some("fork-sigchld"));
            point.map(|p| (p.x, p.y)).unwrap()
        };
        assert_eq!(at(ours).0, at(theirs).0);
        assert!((at(ours).1 - 5.5).abs() < 1e-9);
        assert!((at(theirs).1 - 13.139).abs() < 1e-3);
        assert!((line(&figures, "ways", "one CPU").points[0].y - 110.0).abs() < 1e-9);
    }

    #[test]
    fn the_parents_memory_makes_a_line_from_nothing_to_the_largest() {
        let sizes = [0, 100, 1024];
        let cases = sizes.map(|parent_mib| {
            let case = Case {
                parent_mib,
                ..Case::base(Way::Fork, 20)
            };
            cell(&case, 1, &[(PRIMARY, &[1e5 + 3e4 * parent_mib as f64; 7])])
        });
        let figures = all(&view(cases.into_iter().collect()));
        let fork = line(&figures, "parent-memory", "fork, small pages");
        assert_eq!(
            fork.points.iter().map(|p| p.x).collect::<Vec<_>>(),
            [0.0, 100.0, 1024.0]
        );
        assert!(fork.points.is_sorted_by(|a, b| a.y < b.y));
        assert!(fork.points.iter().all(|p| p.ci95.is_some()));
        assert_eq!(
            figures
                .iter()
                .find(|f| f.id == "parent-memory")
                .unwrap()
                .series
                .len(),
            1
        );
    }

    #[test]
    fn creation_beside_others_stands_next_to_creation_alone() {
        let alone = Case::base(Way::Pthread, 200);
        let busy = Case { busy: BUSY, ..alone };
        let figures = all(&view(vec![
            cell(&Case::base(Way::Fork, 200), 1, &[(CREATION, &[70_000.0])]),
            cell(&alone, 1, &[(CREATION, &[10_000.0])]),
            cell(&busy, 1, &[(CREATION, &[15_000.0])]),
        ]));
        let (alone, beside) = (
            line(&figures, "beside", "nobody beside"),
            line(&figures, "beside", "16 computing beside"),
        );
        assert_eq!((alone.points.len(), beside.points.len()), (1, 1));
        assert_eq!((alone.points[0].x, alone.points[0].y), (0.0, 10.0));
        assert_eq!((beside.points[0].x, beside.points[0].y), (0.0, 15.0));
    }

    #[test]
    fn nothing_measured_draws_nothing() {
        assert!(all(&view(Vec::new())).is_empty());
    }
}
