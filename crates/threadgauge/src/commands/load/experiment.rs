//! What a report reads off a stored load: an experiment like the others, but that `load` measures it and not `run`.
//!
//! A case is so many connections at one pace, a round one run of it. Of each case there is one for each second as well,
//! in an experiment of its own, so that a second of one run is compared with the same second of another and never
//! taken for a round.

use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Value};

/// The loads of a folder.
pub const LOAD: Experiment = Experiment {
    id: "load",
    question: "How does this server answer under this load?",
    first_run: false,
    sources: &[],
    primary: &[RESPONSE_P99, RESPONSE_P50],
    how: "Clients of one protocol connect to a server that is there already and send requests at a pace. In an open \
          loop a latency counts from the intended start; a quantile has at least ten values beyond it.",
    control: "The generator itself: how late it was, the share of its CPU that it used, and Little's law. A run beyond \
              their limits is tagged with the reason and is invalid.",
    traps: &[
        "In a closed loop, and as fast as possible, less is asked while the server is slow: percentiles hide that.",
        "Generator and server share this machine, unless they were given CPUs of their own.",
    ],
    source: "No source: a server that the user named.",
    plan: nothing_planned,
    run: measured_by_load,
    read,
};

/// The same loads by second.
pub const SECONDS: Experiment = Experiment {
    id: "load-by-second",
    question: "How did the load go on from second to second?",
    primary: &[],
    control: "None: a second is part of a run, and no run of its own.",
    read: read_seconds,
    ..LOAD
};

/// Good answers, or deliveries, a second.
pub const ACHIEVED: Metric = metric("achieved_per_second", "count");
/// Quantiles of the time from the intended start.
pub const RESPONSE_P50: Metric = metric("response_p50_ns", "ns");
/// As above.
pub const RESPONSE_P99: Metric = metric("response_p99_ns", "ns");
/// The share of its CPU that the generator used.
pub const OWN_CPU: Metric = metric("generator_cpu_share", "ratio");
/// Of one second: good answers.
pub const ANSWERED: Metric = metric("answered", "count");
/// Of one second: failures.
pub const FAILED: Metric = metric("failed", "count");
/// Of one second: the median time from the intended start.
pub const SECOND_P50: Metric = metric("p50_ns", "ns");
/// Of one second: the 99th percentile.
pub const SECOND_P99: Metric = metric("p99_ns", "ns");

/// The parameter that tells the class of mixed clients.
pub const CLASS: &str = "class";

/// The parameter that tells the second.
pub const SECOND: &str = "second";

fn nothing_planned(_: &Site) -> Plan {
    Plan {
        cases: Vec::new(),
        reference: Params::new(),
        budget: Duration::ZERO,
    }
}

fn measured_by_load(_: &Params, _: &mut Worker) -> Result<(), CaseError> {
    let says = "a load is measured by `threadgauge load`, not by `run`";
    Err(CaseError::Failed(says.to_owned()))
}

fn read(view: &View<'_>) -> Answer {
    let cases: Vec<&Params> = view.planned(Params::new()).collect();
    let says = |case: &Params| {
        format!(
            "{}: {} a second, median {}, 99 % {}",
            name(case),
            view.shown(&ACHIEVED.of(case.clone()), "count"),
            view.shown(&RESPONSE_P50.of(case.clone()), "ns"),
            view.shown(&RESPONSE_P99.of(case.clone()), "ns"),
        )
    };
    let row = |case: &&Params| {
        vec![
            name(case),
            view.shown(&ACHIEVED.of((*case).clone()), "count"),
            view.shown(&RESPONSE_P50.of((*case).clone()), "ns"),
            view.shown(&RESPONSE_P99.of((*case).clone()), "ns"),
            view.shown(&OWN_CPU.of((*case).clone()), "ratio"),
        ]
    };
    let columns = [
        "load",
        "achieved a second",
        "median",
        "99th percentile",
        "generator's CPU",
    ];
    Answer {
        answer: cases.first().map_or_else(String::new, |case| match cases.len() {
            1 => format!("{}.", says(case)),
            many => format!("{many} loads; the first: {}.", says(case)),
        }),
        figures: [
            by_load(view, "rate", &cases),
            by_load(view, "connections", &cases),
            by_class(view, &cases),
        ]
        .into_iter()
        .flatten()
        .collect(),
        tables: vec![table(
            "loads",
            "What came of each load",
            "",
            columns,
            cases.iter().map(row).collect(),
        )],
        ..Answer::default()
    }
}

/// Latencies by what varies, where it does.
fn by_load(view: &View<'_>, varies: &str, cases: &[&Params]) -> Option<Figure> {
    // How many of the clients are of a class is no load of its own.
    let number = |case: &Params| match case.get(varies).filter(|_| case.get(CLASS).is_none())? {
        Value::Int(number) => Some(*number as f64),
        Value::Text(text) => text.parse().ok(),
    };
    let mut at: Vec<(f64, &Params)> = cases
        .iter()
        .filter_map(|case| Some((number(case)?, *case)))
        .collect();
    at.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    at.dedup_by_key(|(x, _)| *x);
    if at.len() < 2 {
        return None;
    }
    let line = |metric: Metric| -> Vec<(f64, Statistic)> {
        at.iter()
            .map(|(x, case)| (*x, metric.of((*case).clone())))
            .collect()
    };
    Chart::new(view, format!("by-{varies}"), format!("Response time by {varies}"))
        .x(Scale::Log, varies)
        .y(Scale::Log, "time, ns")
        .line("median", line(RESPONSE_P50))
        .line("99th percentile", line(RESPONSE_P99))
        .drawn()
}

/// Latencies by class of mixed clients.
fn by_class(view: &View<'_>, cases: &[&Params]) -> Option<Figure> {
    let line = |metric: Metric| -> Vec<(String, Statistic)> {
        let of = |case: &&Params| Some((case.get(CLASS)?.to_string(), metric.of((*case).clone())));
        cases.iter().filter_map(of).collect()
    };
    Chart::new(view, "by-class", "Response time by class")
        .x(Scale::Category, "class")
        .y(Scale::Log, "time, ns")
        .note("Classes that want no answers have none.")
        .line("median", line(RESPONSE_P50))
        .line("99th percentile", line(RESPONSE_P99))
        .drawn()
}

fn read_seconds(view: &View<'_>) -> Answer {
    let mut loads: Vec<(String, Vec<(f64, &Params)>)> = Vec::new();
    for case in view.planned(Params::new()) {
        let Some(second) = case.int(SECOND) else {
            continue;
        };
        let of = name(case);
        let point = (second as f64, case);
        match loads.iter_mut().find(|(load, _)| *load == of) {
            Some((_, points)) => points.push(point),
            None => loads.push((of, vec![point])),
        }
    }
    let draw = |id: &str, title: &str, label: &str, metrics: &[(&str, Metric)]| {
        let mut chart = Chart::new(view, id, title)
            .x(Scale::Linear, "second of the run")
            .y(Scale::Linear, label);
        for (load, points) in &loads {
            for (what, metric) in metrics {
                let line = points.iter().map(|(x, case)| (*x, metric.of((*case).clone())));
                let named = if loads.len() == 1 {
                    (*what).to_owned()
                } else {
                    format!("{what}, {load}")
                };
                chart = chart.line(named, line.collect::<Vec<_>>());
            }
        }
        chart.drawn()
    };
    let rates = [("answered", ANSWERED), ("failed", FAILED)];
    let times = [("median", SECOND_P50), ("99th percentile", SECOND_P99)];
    Answer {
        answer: format!("{} loads by second; see the charts.", loads.len()),
        figures: [
            draw("rate", "What came in each second", "a second", &rates),
            draw("time", "Response time in each second", "time, ns", &times),
        ]
        .into_iter()
        .flatten()
        .collect(),
        ..Answer::default()
    }
}

/// A load in words: its parameters, without the second.
fn name(case: &Params) -> String {
    let words: Vec<String> = case
        .iter()
        .filter(|(name, _)| *name != SECOND)
        .map(|(name, value)| match name {
            "protocol" | "loop" => value.to_string(),
            _ => format!("{name} {value}"),
        })
        .collect();
    words.join(", ")
}
