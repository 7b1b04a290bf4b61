//! What is drawn: ratios and shares, so that the source's curves can stand beside ours.

use threadgauge_results::{Axis, Figure, Origin, Point as Dot, Scale, Series as Line};

use super::TORN;
use super::answer::DECIDING;
use super::grid::{Series, TWO_CPU_PRINTS, UNITS};
use super::published;
use super::reading::{Way, count, ratio_of};
use super::setting::{Sink, Unit};
use super::statistics::{Statistic, against_255, process_over_thread, two_cpu_gain};
use threadgauge_lab::view::View;

/// All figures that have something to show.
pub(super) fn all(view: &View<'_>) -> Vec<Figure> {
    let figures = [
        ratio_by_prints(view),
        time_by_units(view),
        two_cpus(view),
        torn_lines(view),
    ];
    figures.into_iter().filter(|f| !f.series.is_empty()).collect()
}

fn ratio_by_prints(view: &View<'_>) -> Figure {
    let points = Series::Prints.points();
    let ways = [Sink::Pipe, Sink::Null, Sink::Pty, Sink::File].map(Way::lines);
    let ours = ways.iter().map(|way| {
        let dots = points.iter().filter_map(|point| {
            let rounds = way.rounds(view, &process_over_thread(*point)).ok()?;
            Some(ratio_of(&rounds)?.at(point.prints as f64))
        });
        line(format!("into {}", way.says()), Origin::Measured, dots.collect())
    });
    let theirs = points.iter().filter_map(|point| {
        let [process, thread] = published::pair(point)?;
        Some(dot(point.prints as f64, process / thread))
    });
    let theirs = line("source 003, on a console", Origin::Published, theirs.collect());
    Figure {
        id: "ratio-by-prints".to_owned(),
        title: "Time of 255 processes over time of 255 threads, one CPU".to_owned(),
        note: "Above 1 threads finish first, below 1 processes. Claims are decided on the pipe. The source measured the \
               same 255 units of 1,000 lines twice, 19 % (processes) and 32 % (threads) apart: more than the distance of its \
               curve from 1 at 1,000 lines."
            .to_owned(),
        x: axis("lines per unit", Scale::Log),
        y: axis("processes / threads, elapsed time", Scale::Log),
        series: drawn(ours.chain([theirs])),
    }
}

fn time_by_units(view: &View<'_>) -> Figure {
    let ours = Unit::ALL.iter().map(|unit| {
        let dots = UNITS.iter().filter_map(|units| {
            let rounds = DECIDING.rounds(view, &against_255(*unit, *units)).ok()?;
            Some(ratio_of(&rounds)?.at(*units as f64))
        });
        line(unit.name(), Origin::Measured, dots.collect())
    });
    let theirs = Unit::ALL.iter().map(|unit| {
        let dots = UNITS.iter().filter_map(|units| {
            let value = of_published(&against_255(*unit, *units))?;
            Some(dot(*units as f64, value))
        });
        line(
            format!("source 003, {}", unit.name()),
            Origin::Published,
            dots.collect(),
        )
    });
    let linear = UNITS
        .map(|units| dot(units as f64, units as f64 / 255.0))
        .to_vec();
    let linear = line("linear", Origin::Ideal, linear);
    Figure {
        id: "time-by-units".to_owned(),
        title: "Time of 1,000 lines a unit, over that of 255 units".to_owned(),
        note: "On the straight line a unit costs the same however many there are. The source ran threads from 350 units on \
               with stacks of 1 MiB, since the default failed (its reason, a bound of 384, does not explain that); \
               whether it did for 100 and 255 is not said."
            .to_owned(),
        x: axis("units", Scale::Linear),
        y: axis("elapsed time, 255 units = 1", Scale::Linear),
        series: drawn(ours.chain(theirs).chain([linear])),
    }
}

fn two_cpus(view: &View<'_>) -> Figure {
    let ours = Unit::ALL.iter().map(|unit| {
        let dots = TWO_CPU_PRINTS.iter().filter_map(|prints| {
            let rounds = DECIDING.rounds(view, &two_cpu_gain(*unit, *prints)).ok()?;
            Some(ratio_of(&rounds)?.at(*prints as f64))
        });
        line(unit.name(), Origin::Measured, dots.collect())
    });
    let theirs = Unit::ALL.iter().map(|unit| {
        let dots = TWO_CPU_PRINTS.iter().filter_map(|prints| {
            let value = of_published(&two_cpu_gain(*unit, *prints))?;
            Some(dot(*prints as f64, value))
        });
        line(
            format!("source 003, {}", unit.name()),
            Origin::Published,
            dots.collect(),
        )
    });
    Figure {
        id: "two-cpus".to_owned(),
        title: "What a second CPU gains: time on one over time on two, 255 units".to_owned(),
        note: "2 is a whole second CPU, 1 is nothing, below 1 it costs. The source's \"twice as fast for little work\" \
               rests on 10 lines alone: at 100 lines its two cores were slower than one."
            .to_owned(),
        x: axis("lines per unit", Scale::Log),
        y: axis("one CPU / two CPUs, elapsed time", Scale::Linear),
        series: drawn(ours.chain(theirs)),
    }
}

fn torn_lines(view: &View<'_>) -> Figure {
    let columns: Vec<_> = Series::Prints
        .points()
        .into_iter()
        .flat_map(|point| Unit::ALL.iter().map(move |unit| (*unit, point)))
        .filter(|wanted| {
            view.summary(&Way::blocks(Sink::Pipe).cell(*wanted, TORN))
                .is_some()
        })
        .collect();
    let series = [Sink::Pipe, Sink::File, Sink::Pty]
        .map(Way::blocks)
        .into_iter()
        .map(|way| {
            let dots = columns.iter().enumerate().filter_map(|(x, wanted)| {
                let summary = view.summary(&way.cell(*wanted, TORN))?;
                let (unit, point) = wanted;
                let per_thousand = 1_000.0 / (point.units * point.prints) as f64;
                Some(Dot {
                    x: x as f64,
                    label: Some(format!("{}, {} lines", unit.name(), count(point.prints))),
                    y: summary.median * per_thousand,
                    ci95: summary.ci95.map(|ci| ci.map(|end| end * per_thousand)),
                })
            });
            line(format!("into {}", way.says()), Origin::Measured, dots.collect())
        });
    Figure {
        id: "torn-lines".to_owned(),
        title: "Lines torn when 255 units print in blocks of 4,096 bytes".to_owned(),
        note: "Every process has a buffer of its own, and what follows its block in the pipe is another's; threads share \
               one buffer. A unit that prints less than a block writes once and tears nothing. The source does not count \
               torn lines."
            .to_owned(),
        x: axis("unit and lines per unit", Scale::Category),
        y: axis("torn lines per 1,000", Scale::Linear),
        series: drawn(series),
    }
}

/// A statistic of the published means.
fn of_published(statistic: &Statistic) -> Option<f64> {
    let times = statistic
        .cells
        .iter()
        .map(|(unit, point)| published::seconds(*unit, point));
    let times: Vec<f64> = times.collect::<Option<_>>()?;
    Some(statistic.of(&times))
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

fn line(name: impl Into<String>, origin: Origin, points: Vec<Dot>) -> Line {
    Line {
        name: name.into(),
        origin,
        points,
    }
}

const fn dot(x: f64, y: f64) -> Dot {
    Dot {
        x,
        label: None,
        y,
        ci95: None,
    }
}

/// Without the lines that have no point.
fn drawn(series: impl Iterator<Item = Line>) -> Vec<Line> {
    series.filter(|line| !line.points.is_empty()).collect()
}
