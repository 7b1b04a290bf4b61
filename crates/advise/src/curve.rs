//! How good each kind of pool is over the number at once, as a chart: where the advised number lies, and what more and
//! fewer would cost.

use std::cell::Cell;

use threadgauge_results::units::{Scale as Unit, capitalised};
use threadgauge_results::{Axis, Figure, Origin, Point, Scale, Series};

use crate::advice::Advice;
use crate::choose::{Goal, degrees};
use crate::costs::Basis;
use crate::design::{Candidate, Design, Model, Order};
use crate::predict::{Drawn, Prediction, SHOW, predict};

/// A curve goes on to twice the largest number that somebody would take, and to this one at least.
const LEAST: usize = 8;

/// What was advised, with `basis`, among all numbers at once. None where there is no number to choose: clients that
/// stay connected.
#[must_use]
pub fn chart(advice: &Advice, basis: &Basis) -> Option<Figure> {
    let (workload, machine) = (&advice.workload, &advice.machine);
    if workload.connections.is_some() {
        return None;
    }
    let advised = advice.advised.as_ref();
    let drawn = Drawn::new(workload, SHOW);
    let candidate = |design, at_once| Candidate {
        order: advised.map_or(Order::Given, |advised| advised.candidate.order),
        ..Candidate::new(design, at_once)
    };
    let (is_slow, is_large) = (Cell::new(false), Cell::new(false));
    let does = |candidate: Candidate| {
        let fits = Model::new(candidate, workload, machine, &basis.costs).fits();
        is_large.set(is_large.get() || !fits);
        let prediction = fits.then(|| predict(candidate, workload, machine, &basis.costs, &drawn))?;
        is_slow.set(is_slow.get() || !prediction.keeps_up);
        point(advice.goal, &prediction)
    };
    let most = most(advice);
    let numbers = degrees(workload, machine);
    let numbers = || numbers.iter().copied().filter(|&at_once| at_once <= most);
    let serial = does(candidate(Design::Serial, 1));
    let pool = |design: Design, name: &str| {
        // A pool of one thread is one after the other.
        let first = match design {
            Design::Processes => does(candidate(design, 1)),
            _ => serial.clone(),
        };
        let more = numbers().filter(|&at_once| at_once > 1);
        let points = first
            .into_iter()
            .chain(more.filter_map(|at_once| does(candidate(design, at_once))));
        series(name, points.collect())
    };
    let mut all = vec![
        pool(Design::Threads, "threads"),
        pool(Design::Processes, "processes"),
    ];
    if workload.wait_s > 0.0 {
        all.push(pool(Design::Async, "one asynchronous thread"));
    }
    let marked = |name: String, prediction: &Prediction| {
        let point = point(advice.goal, prediction).filter(|point| point.x <= most as f64)?;
        Some(series(&name, vec![Point { ci95: None, ..point }]))
    };
    all.extend(advised.and_then(|advised| marked(format!("advised: {}", advised.says), advised)));
    let now = advice
        .others
        .iter()
        .find(|other| other.fits && workload.now == Some(other.candidate.at_once));
    all.extend(now.and_then(|now| marked(format!("now: {}", now.says), now)));
    all.retain(|series| !series.points.is_empty());
    let unit = Unit::of_column(
        "ns",
        all.iter().flat_map(|series| series.points.iter().map(|p| p.y)),
    );
    for point in all.iter_mut().flat_map(|series| &mut series.points) {
        point.y /= unit.per;
        point.ci95 = point.ci95.map(|ends| ends.map(|end| end / unit.per));
    }
    Some(Figure {
        id: "at-once".to_owned(),
        title: format!("{}, by the number at once", capitalised(advice.goal.words())),
        note: format!(
            "{} {} Arithmetic from what units cost; a bar is for nine measured values of ten.{}{}",
            advice.matters.says,
            advice.says,
            if is_slow.get() {
                " What does not keep up is left out."
            } else {
                ""
            },
            if is_large.get() {
                " What does not fit into memory is left out."
            } else {
                ""
            }
        ),
        x: Axis {
            label: "tasks at once".to_owned(),
            scale: Scale::Log,
        },
        y: Axis {
            label: format!("{}, {}", advice.goal.words(), unit.name),
            scale: Scale::Log,
        },
        series: all,
    })
}

/// The largest number of a curve.
fn most(advice: &Advice) -> usize {
    let advised = advice.advised.iter().map(|advised| advised.candidate.at_once);
    let thumbs = advice.thumbs.iter().filter_map(|thumb| thumb.at_once);
    let taken = advised.chain(thumbs).chain(advice.workload.now);
    // One for each task is no number.
    let largest = taken.filter(|&at_once| at_once < usize::MAX).max();
    largest.unwrap_or(1).saturating_mul(2).max(LEAST)
}

/// Its goal, ns.
fn point(goal: Goal, prediction: &Prediction) -> Option<Point> {
    let figure = goal.figure(prediction)?;
    Some(Point {
        x: prediction.candidate.at_once as f64,
        label: None,
        y: figure.value * 1e9,
        ci95: Some([figure.low * 1e9, figure.high * 1e9]),
    })
}

fn series(name: &str, points: Vec<Point>) -> Series {
    Series {
        name: name.to_owned(),
        origin: Origin::Ideal,
        points,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Machine;
    use crate::workload::{Description, Workload};
    use crate::{advise, quantity};

    fn drawn(description: &Description) -> Option<Figure> {
        drawn_within(description, None)
    }

    fn drawn_within(description: &Description, memory_bytes: Option<f64>) -> Option<Figure> {
        let machine = Machine {
            cpus: 2.0,
            quota: None,
            memory_bytes,
        };
        let basis = Basis::shipped("none");
        let workload = Workload::of(description).unwrap();
        chart(&advise(&workload, &machine, &basis, None), &basis)
    }

    fn waiting() -> Description {
        Description {
            tasks: Some(quantity::Count(200)),
            cpu_s: Some(0.001),
            wait_s: Some(0.019),
            now: Some(quantity::Count(4)),
            ..Description::default()
        }
    }

    #[test]
    fn each_kind_has_a_curve_that_falls_to_the_advised_number() {
        let figure = drawn(&waiting()).unwrap();
        let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names[..3], ["threads", "processes", "one asynchronous thread"]);
        assert!(
            names[3].starts_with("advised: ") && names[4] == "now: 4 threads",
            "{names:?}"
        );
        assert!(figure.y.label.ends_with(", ms"), "{}", figure.y.label);
        let at = |series: &Series, x: f64| series.points.iter().find(|p| p.x == x).map(|p| p.y);
        for series in &figure.series[..3] {
            let one = at(series, 1.0).unwrap();
            assert!((one / 4_000.0 - 1.0).abs() < 0.05, "{}: {one}", series.name);
            assert!(at(series, 4.0).unwrap() < one / 3.0, "{}", series.name);
        }
        let advised = &figure.series[3].points[0];
        let least = figure.series[..3]
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point.y)
            .fold(f64::INFINITY, f64::min);
        assert!(advised.y <= least * 1.06, "{advised:?} {least}");
        // Beyond the advised number, too, or it would not be seen that more are no better.
        let widest = figure.series[0].points.last().unwrap().x;
        assert!(widest >= 2.0 * advised.x || widest == 200.0, "{widest}");
    }

    #[test]
    fn what_does_not_keep_up_or_fit_is_left_out_and_that_is_said() {
        let comes = Description {
            rate: Some("90/s".parse().unwrap()),
            cpu_s: Some(0.01),
            wait_s: Some(0.02),
            memory: Some("1GiB".parse().unwrap()),
            now: Some(quantity::Count(40)),
            ..Description::default()
        };
        let figure = drawn(&comes).unwrap();
        assert!(
            figure.note.contains("does not keep up is left out"),
            "{}",
            figure.note
        );
        assert!(
            !figure.note.contains("fit into memory"),
            "as much as there is: {}",
            figure.note
        );
        assert!(
            figure
                .series
                .iter()
                .all(|series| series.points.iter().all(|point| point.x > 1.0))
        );
        let apart = Description {
            isolate: true,
            ..comes
        };
        let figure = drawn_within(&apart, Some(8.0 * 1_073_741_824.0)).unwrap();
        assert!(
            figure.note.contains("does not fit into memory is left out"),
            "{}",
            figure.note
        );
        assert!(figure.series.iter().all(|series| !series.name.starts_with("now")));
    }

    #[test]
    fn what_only_computes_has_no_asynchronous_thread_and_clients_have_no_number() {
        let computes = Description {
            wait_s: None,
            now: None,
            ..waiting()
        };
        let figure = drawn(&computes).unwrap();
        assert!(
            figure
                .series
                .iter()
                .all(|series| !series.name.contains("asynchronous"))
        );
        let clients = Description {
            connections: Some(quantity::Count(100)),
            messages: Some("6/min".parse().unwrap()),
            ..Description::default()
        };
        assert_eq!(drawn(&clients), None);
    }
}
