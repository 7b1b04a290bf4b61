//! What a report reads off a stored load: an experiment like the others, but that `load` measures it and not `run`.
//!
//! A case is so many connections at one pace, a round one run of it. Of each case there is one for each second as well,
//! in an experiment of its own, so that a second of one run is compared with the same second of another and never
//! taken for a round.

use threadgauge_lab::prelude::*;
use threadgauge_load::{BUSIEST, Failure, FaultKind, InvalidRun, busy_in_words};
use threadgauge_results::units::counted;
use threadgauge_results::{Figure, Table, Value};

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
    calls: &[],
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
/// Of groups: quantiles of the time from the intended start until the last has the message.
pub const LAST_P50: Metric = metric("last_p50_ns", "ns");
/// As above.
pub const LAST_P99: Metric = metric("last_p99_ns", "ns");
/// The share of its CPU that the generator used.
pub const OWN_CPU: Metric = metric("generator_cpu_share", "ratio");
/// Of a run: failures of all kinds.
pub const FAILED_IN_ALL: Metric = metric("failed_in_all", "count");
/// Of a run: 1 where it is invalid, else 0.
pub const INVALID: Metric = metric("invalid", "count");
/// Why a run that has figures may be invalid.
pub const INVALID_RUNS: [InvalidRun; 9] = [
    InvalidRun::Ended,
    InvalidRun::Stopped,
    InvalidRun::Starved,
    InvalidRun::Throttled,
    InvalidRun::Stolen,
    InvalidRun::Suspended,
    InvalidRun::Slow,
    InvalidRun::Busy,
    InvalidRun::Law,
];

/// Of a run: 1 where it is invalid for this reason, else 0.
pub const fn reason(reason: InvalidRun) -> Metric {
    metric(reason.name(), "count")
}

/// Of one second, if the load went on for all of it: good answers.
pub const ANSWERED: Metric = metric("answered", "count");
/// Of one second: failures.
pub const FAILED: Metric = metric("failed", "count");
/// Of one second: the median time from the intended start.
pub const SECOND_P50: Metric = metric("p50_ns", "ns");
/// Of one second: the 99th percentile.
pub const SECOND_P99: Metric = metric("p99_ns", "ns");

/// Of a run, and of one second: how many CPUs the server kept busy.
pub const SERVER_CPUS: Metric = metric("server_cpus", "count");
/// Of a run, and of one second: the share of a CPU that the busiest of the server's threads used.
pub const BUSIEST_THREAD: Metric = metric("busiest_thread_cpus", "count");
/// Of one second: how many CPUs of the machine were busy.
pub const MACHINE_CPUS: Metric = metric("machine_cpus", "count");
/// Of a run: the server's memory at its end.
pub const SERVER_MEMORY: Metric = metric("server_memory_bytes", "bytes");
/// Of a run: context switches of the server's threads a second.
pub const SERVER_SWITCHES: Metric = metric("server_switches_per_second", "count");
/// Of a run: the server's threads at its end.
pub const SERVER_THREADS: Metric = metric("server_threads", "count");
/// Of a run: the server's descriptors at its end.
pub const SERVER_DESCRIPTORS: Metric = metric("server_descriptors", "count");
/// Of a run: TCP sockets of the server's network namespace at its end, of all programs there.
pub const SERVER_SOCKETS: Metric = metric("server_tcp_sockets", "count");
/// Of a run: bytes a second over the interfaces of that namespace.
pub const SERVER_RECEIVED: Metric = metric("server_received_per_second", "bytes");
/// As `SERVER_RECEIVED`, the other way.
pub const SERVER_SENT: Metric = metric("server_sent_per_second", "bytes");

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
    let is_group = cases.iter().any(|case| is_group(case));
    let by_connections = by_load(view, "connections", "connections", &cases);
    // Where each connection has its rate, both vary together.
    let times = |figure: &Figure| -> Vec<f64> {
        let points = figure.series.iter().flat_map(|line| &line.points);
        points.map(|point| point.y).collect()
    };
    let by_rate = by_load(view, "rate", "rate, a second", &cases)
        .filter(|by_rate| by_connections.as_ref().map(times) != Some(times(by_rate)));
    Answer {
        answer: answer(view, &cases),
        number: cases.first().and_then(|&first| {
            let [_, p99] = self::times(first);
            let of = format!("99 of 100 are answered within: {}", name(first));
            view.number(of, &p99.of(first.clone()), p99.unit)
        }),
        figures: [by_rate, by_connections, by_class(view, &cases)]
            .into_iter()
            .flatten()
            .collect(),
        tables: [Some(loads(view, &cases, is_group)), servers(view, &cases)]
            .into_iter()
            .flatten()
            .collect(),
        ..Answer::default()
    }
}

/// What each load came to.
fn loads(view: &View<'_>, cases: &[&Params], is_group: bool) -> Table {
    table(
        "loads",
        "What came of each load",
        match (cases.iter().any(|case| case.get(CLASS).is_some()), is_group) {
            (true, _) => "What was seen of the server stands with the first class.",
            (_, true) => {
                "Messages asked, deliveries answered; times until the last of a group has the message."
            }
            _ => "",
        },
        [
            "load",
            "asked",
            "answered a second",
            "median",
            "99th percentile",
            "errors",
            "valid",
            "server's CPUs",
            "its memory",
            "generator's CPU",
        ],
        cases.iter().map(|case| row(view, case)).collect(),
    )
}

/// What the server used meanwhile, where it was watched.
fn servers(view: &View<'_>, cases: &[&Params]) -> Option<Table> {
    let watched = cases
        .iter()
        .filter(|case| view.measured(&SERVER_CPUS.of((**case).clone())));
    let figures = [
        SERVER_CPUS,
        BUSIEST_THREAD,
        SERVER_THREADS,
        SERVER_SWITCHES,
        SERVER_MEMORY,
        SERVER_DESCRIPTORS,
        SERVER_SOCKETS,
        SERVER_RECEIVED,
        SERVER_SENT,
    ];
    let row = |case: &&Params| -> Vec<String> {
        let figures = figures.map(|metric| shown(view, metric, case));
        [name(case)].into_iter().chain(figures).collect()
    };
    let rows: Vec<_> = watched.map(row).collect();
    (!rows.is_empty()).then(|| {
        table(
            "server",
            "What the server used",
            "Means over each load; threads, memory, descriptors and sockets at its end. Sockets and bytes are of the server's \
             network namespace, with those of all other programs there.",
            [
                "load",
                "CPUs",
                "busiest thread's CPU",
                "threads",
                "switches a second",
                "memory",
                "descriptors",
                "TCP sockets",
                "received a second",
                "sent a second",
            ],
            rows,
        )
    })
}

/// The figure of a load as text; empty where there is none.
fn shown(view: &View<'_>, metric: Metric, case: &Params) -> String {
    view.shown(&metric.of(case.clone()), metric.unit)
}

/// What one load came to.
fn row(view: &View<'_>, case: &Params) -> Vec<String> {
    let of = |metric: Metric| shown(view, metric, case);
    let [median, p99] = times(case);
    let asked = match case.get("rate").filter(|_| case.get(CLASS).is_none()) {
        Some(rate) => format!("{rate} a second"),
        None => case
            .int("connections")
            .map_or_else(String::new, |many| counted(many as usize, "connection")),
    };
    vec![
        name(case),
        asked,
        of(ACHIEVED),
        of(median),
        of(p99),
        errors(view, case),
        Validity::of(view, case).in_words(),
        of(SERVER_CPUS),
        of(SERVER_MEMORY),
        of(OWN_CPU),
    ]
}

/// What a load says in a sentence, or several the first of them.
fn answer(view: &View<'_>, cases: &[&Params]) -> String {
    let Some(first) = cases.first() else {
        return String::new();
    };
    let to_the_last = if is_group(first) { " to the last" } else { "" };
    let [median, p99] = times(first);
    let figures = [
        ("", ACHIEVED, " a second"),
        ("median ", median, to_the_last),
        ("99 % ", p99, ""),
    ];
    let figures = figures.into_iter().filter_map(|(before, metric, after)| {
        let shown = shown(view, metric, first);
        (!shown.is_empty()).then(|| format!("{before}{shown}{after}"))
    });
    let figures: Vec<String> = figures.collect();
    let says = match figures.is_empty() {
        true => format!("{}: {NOTHING_ANSWERED}", name(first)),
        false => format!("{}: {}", name(first), figures.join(", ")),
    };
    let doubt = Validity::of_all(view, cases).doubt();
    match cases.len() {
        1 => format!("{says}.{doubt}"),
        many if first.get(CLASS).is_some() => format!("{many} classes; the first: {says}.{doubt}"),
        many => format!("{many} loads; the first: {says}.{doubt}"),
    }
}

/// Whether what one says goes to others, so that a message is there when the last has it.
fn is_group(case: &Params) -> bool {
    let protocol = case.get("protocol").map(ToString::to_string);
    protocol.is_some_and(|name| ["groups", "chat"].contains(&name.as_str()))
}

/// The median and the 99th percentile by which a load is judged.
fn times(case: &Params) -> [Metric; 2] {
    match is_group(case) {
        true => [LAST_P50, LAST_P99],
        false => [RESPONSE_P50, RESPONSE_P99],
    }
}

/// What went wrong, by kind: how often or, of several runs, in how many.
fn errors(view: &View<'_>, case: &Params) -> String {
    let rounds = |metric: Metric| view.rounds(&metric.of(case.clone())).unwrap_or_default();
    let runs = rounds(FAILED_IN_ALL).len();
    if runs == 0 {
        return String::new();
    }
    let failures = Failure::ALL.map(Failure::name).into_iter();
    let faults = FaultKind::ALL.map(FaultKind::name).into_iter();
    let found = failures.chain(faults).filter_map(|kind| {
        let of_kind = metric(kind, "count");
        let with = rounds(of_kind).iter().filter(|count| **count > 0.0).count();
        let kind = kind.replace('_', " ");
        match with {
            0 => None,
            _ if runs == 1 => Some(format!("{} {kind}", shown(view, of_kind, case))),
            _ => Some(format!("{kind} in {with} of {runs} runs")),
        }
    });
    let found: Vec<String> = found.collect();
    match found.is_empty() {
        true => "none".to_owned(),
        false => found.join(", "),
    }
}

/// Said of a run without a good answer, which has no figures.
const NOTHING_ANSWERED: &str = "nothing was answered well";

/// How many runs are valid, by round, since a median would not tell one of several.
#[derive(Debug, Default)]
struct Validity {
    runs: usize,
    invalid: usize,
    /// Runs that are not invalid for it, although the generator was busy.
    busy: usize,
    /// Loads of which no run was answered.
    silent: usize,
    because: Vec<InvalidRun>,
}

impl Validity {
    fn of(view: &View<'_>, case: &Params) -> Self {
        let rounds = |metric: Metric| view.rounds(&metric.of(case.clone())).unwrap_or_default();
        let marked = |rounds: &[f64]| rounds.iter().filter(|is_so| **is_so > 0.0).count();
        let of = rounds(INVALID);
        let busy = rounds(OWN_CPU).iter().filter(|share| **share > BUSIEST).count();
        let occurs = |why: &InvalidRun| marked(&rounds(reason(*why))) > 0;
        Self {
            runs: of.len(),
            invalid: marked(&of),
            busy: busy - marked(&rounds(reason(InvalidRun::Busy))),
            silent: usize::from(of.is_empty()),
            because: INVALID_RUNS.into_iter().filter(occurs).collect(),
        }
    }

    fn of_all(view: &View<'_>, cases: &[&Params]) -> Self {
        let mut all = Self::default();
        for case in cases {
            let of = Self::of(view, case);
            all.runs += of.runs;
            all.invalid += of.invalid;
            all.busy += of.busy;
            all.silent += of.silent;
            all.because.extend(of.because);
        }
        all.because = INVALID_RUNS
            .into_iter()
            .filter(|why| all.because.contains(why))
            .collect();
        all
    }

    fn because(&self) -> String {
        let all: Vec<String> = self.because.iter().map(InvalidRun::to_string).collect();
        all.join("; ")
    }

    /// Of one load.
    fn in_words(&self) -> String {
        match (self.invalid, self.runs) {
            (_, 0) => format!("no: {NOTHING_ANSWERED}"),
            (0, _) if self.busy > 0 => format!("yes; {}", busy_in_words()),
            (0, _) => "yes".to_owned(),
            (_, 1) => format!("no: {}", self.because()),
            (invalid, runs) => format!("{invalid} of {runs} runs are invalid: {}", self.because()),
        }
    }

    /// What speaks against them, as a sentence behind another; empty where nothing does.
    fn doubt(&self) -> String {
        let invalid = match (self.invalid, self.runs) {
            (0, _) => String::new(),
            (_, 1) => format!(" The run is invalid: {}.", self.because()),
            (invalid, runs) => format!(" {invalid} of {runs} runs are invalid: {}.", self.because()),
        };
        let silent = match (self.silent, self.runs) {
            // One alone says so itself.
            (0, _) | (1, 0) => String::new(),
            (1, _) => format!(" Of one load {NOTHING_ANSWERED}."),
            (silent, _) => format!(" Of {silent} loads {NOTHING_ANSWERED}."),
        };
        let busy = match (self.busy, self.runs) {
            (0, _) => String::new(),
            (_, 1) => format!(" But {}.", busy_in_words()),
            (busy, runs) => format!(" In {busy} of {runs} runs {}.", busy_in_words()),
        };
        invalid + &busy + &silent
    }
}

/// In milliseconds, as charts have it.
fn ms(metric: Metric, case: &Params) -> Statistic {
    metric.of(case.clone()).times(1e-6)
}

/// Latencies by what varies, where it does.
fn by_load(view: &View<'_>, varies: &str, label: &str, cases: &[&Params]) -> Option<Figure> {
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
        at.iter().map(|(x, case)| (*x, ms(metric, case))).collect()
    };
    Chart::new(view, format!("by-{varies}"), format!("Response time by {varies}"))
        .x(Scale::Log, label)
        .y(Scale::Log, "time, ms")
        .line("median", line(RESPONSE_P50))
        .line("99th percentile", line(RESPONSE_P99))
        .drawn()
}

/// Latencies by class of mixed clients.
fn by_class(view: &View<'_>, cases: &[&Params]) -> Option<Figure> {
    let line = |metric: Metric| -> Vec<(String, Statistic)> {
        let of = |case: &&Params| Some((case.get(CLASS)?.to_string(), ms(metric, case)));
        cases.iter().filter_map(of).collect()
    };
    Chart::new(view, "by-class", "Response time by class")
        .x(Scale::Category, "class")
        .y(Scale::Log, "time, ms")
        .note("Classes that want no answers have none.")
        .line("median", line(RESPONSE_P50))
        .line("99th percentile", line(RESPONSE_P99))
        .drawn()
}

/// The seconds of a load, under its name among others.
type Load<'v> = (String, Vec<(f64, &'v Params)>);

fn read_seconds(view: &View<'_>) -> Answer {
    let cases: Vec<&Params> = view.planned(Params::new()).collect();
    let mut loads: Vec<Load<'_>> = Vec::new();
    for &case in &cases {
        let Some(second) = case.int(SECOND) else {
            continue;
        };
        let of = name_among(case, &cases);
        let point = (second as f64, case);
        match loads.iter_mut().find(|(load, _)| *load == of) {
            Some((_, points)) => points.push(point),
            None => loads.push((of, vec![point])),
        }
    }
    let draw = |id: &str, title: &str, label: &str, lines: &[(&str, Metric, f64)]| {
        by_second(view, &loads, (id, title, label), lines)
    };
    let (p50, p99) = (
        ("median", SECOND_P50, 1e-6),
        ("99th percentile", SECOND_P99, 1e-6),
    );
    let times = match loads.len() {
        1 => vec![draw(
            "time",
            "Response time in each second",
            "time, ms",
            &[p50, p99],
        )],
        _ => vec![
            draw(
                "median",
                "Median response time in each second",
                "time, ms",
                &[p50],
            ),
            draw(
                "p99",
                "99th percentile of the response time in each second",
                "time, ms",
                &[p99],
            ),
        ],
    };
    let failures = cases.iter().any(|case| {
        view.value(&FAILED.of((*case).clone()))
            .is_some_and(|failed| failed > 0.0)
    });
    let failed = failures.then(|| {
        draw(
            "failed",
            "What failed in each second",
            "failures",
            &[("failed", FAILED, 1.0)],
        )
    });
    let answered = draw(
        "rate",
        "What came in each second",
        "answers a second",
        &[("answered", ANSWERED, 1.0)],
    );
    let busy = [
        ("server", SERVER_CPUS, 1.0),
        ("its busiest thread", BUSIEST_THREAD, 1.0),
        ("all of the machine", MACHINE_CPUS, 1.0),
    ];
    let busy = match loads.len() {
        1 => &busy[..],
        _ => &busy[..1],
    };
    let server = draw("cpus", "What the server used in each second", "CPUs", busy);
    let figures: Vec<Figure> = together(view, &loads)
        .into_iter()
        .chain([answered])
        .chain(failed)
        .chain(times)
        .chain([server])
        .flatten()
        .collect();
    Answer {
        answer: match (figures.len(), loads.len()) {
            (0, _) => "The load did not last for two seconds.".to_owned(),
            (_, 1) => "One load by second; see the charts.".to_owned(),
            (_, many) => format!("{many} loads by second; see the charts."),
        },
        figures,
        ..Answer::default()
    }
}

/// The clients' view and the server's on one axis, a chart of each load: each line by its largest second. None
/// where the server was not watched, and where there are more than five loads.
fn together(view: &View<'_>, loads: &[Load<'_>]) -> Vec<Option<Figure>> {
    const MOST: usize = 5;
    let lines = [
        ("clients: answers a second", ANSWERED),
        ("clients: 99th percentile of the response time", SECOND_P99),
        ("server: CPUs", SERVER_CPUS),
    ];
    let of_load = |(i, load): (usize, &Load<'_>)| {
        let largest = |metric: Metric| {
            let of = |(_, case): &(f64, &Params)| view.value(&metric.of((*case).clone()));
            load.1.iter().filter_map(of).fold(0.0, f64::max)
        };
        let [answered, p99, server] = lines.map(|(what, metric)| (what, metric, 100.0 / largest(metric)));
        let title = match loads.len() {
            1 => "Clients and server in each second".to_owned(),
            _ => format!("Clients and server in each second: {}", load.0),
        };
        let head = (&*format!("together-{i}"), &*title, "% of its largest second");
        let is_whole = [answered, p99, server].iter().all(|line| line.2.is_finite());
        let figure = by_second(view, std::slice::from_ref(load), head, &[answered, p99, server]);
        figure.filter(|_| is_whole)
    };
    match loads.len() {
        0..=MOST => loads.iter().enumerate().map(of_load).collect(),
        _ => Vec::new(),
    }
}

/// Lines by second, of all loads: each metric times its factor. None where no load has two seconds.
fn by_second(
    view: &View<'_>,
    loads: &[Load<'_>],
    (id, title, label): (&str, &str, &str),
    lines: &[(&str, Metric, f64)],
) -> Option<Figure> {
    let mut chart = Chart::new(view, id, title)
        .x(Scale::Linear, "second of the run")
        .y(Scale::Linear, label)
        .at_least(2);
    for (load, points) in loads {
        for (what, metric, factor) in lines {
            // A second ends a second after it begins, and its figures are known then.
            let line = points
                .iter()
                .map(|(x, case)| (x + 1.0, metric.of((*case).clone()).times(*factor)));
            let named = match loads.len() {
                1 => *what,
                _ => load,
            };
            chart = chart.line(named, line.collect::<Vec<_>>());
        }
    }
    chart.drawn()
}

/// A load in words: its parameters, without the second.
fn name(case: &Params) -> String {
    in_words(case.iter())
}

/// A load in few words: by what tells it from others, or in full where there is none.
fn name_among(case: &Params, all: &[&Params]) -> String {
    if let Some(class) = case.get(CLASS) {
        return class.to_string();
    }
    let differs = |(name, value): &(&str, &Value)| all.iter().any(|other| other.get(name) != Some(value));
    match in_words(case.iter().filter(differs)) {
        none if none.is_empty() => name(case),
        words => words,
    }
}

fn in_words<'a>(parameters: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let words: Vec<String> = parameters
        .filter(|(name, _)| *name != SECOND)
        .map(|(name, value)| match name {
            "protocol" | "loop" => value.to_string(),
            _ => format!("{name} {value}").replace('_', " "),
        })
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::*;

    fn ids(figures: &[Figure]) -> Vec<&str> {
        figures.iter().map(|figure| figure.id.as_str()).collect()
    }

    #[test]
    fn how_many_runs_are_valid_is_said_with_why_the_others_are_not() {
        let because = vec![InvalidRun::Busy];
        let why = InvalidRun::Busy.to_string();
        let of = |runs, invalid, busy| Validity {
            runs,
            invalid,
            busy,
            silent: 0,
            because: if invalid > 0 { because.clone() } else { Vec::new() },
        };
        for (validity, says) in [
            (of(0, 0, 0), format!("no: {NOTHING_ANSWERED}")),
            (of(3, 0, 0), "yes".to_owned()),
            (of(3, 0, 1), format!("yes; {}", busy_in_words())),
            (of(1, 1, 0), format!("no: {why}")),
            (of(3, 2, 0), format!("2 of 3 runs are invalid: {why}")),
        ] {
            assert_eq!(validity.in_words(), says);
        }
    }

    #[test]
    fn runs_that_a_busy_generator_spoils_and_those_that_it_does_not_are_counted_apart() {
        let load = Params::new().with("rate", 5u64);
        let rounds = [
            (INVALID, vec![1.0, 0.0, 0.0, 1.0]),
            (reason(InvalidRun::Busy), vec![1.0, 0.0, 0.0, 0.0]),
            (reason(InvalidRun::Stolen), vec![0.0, 0.0, 0.0, 1.0]),
            (OWN_CPU, vec![0.9, 0.95, BUSIEST, 0.86]),
        ];
        let cases = vec![testing::case(load.clone(), rounds)];
        let of = Validity::of(&testing::view(LOAD.id, Profile::Quick, cases), &load);
        assert_eq!((of.runs, of.invalid, of.busy, of.silent), (4, 2, 2, 0));
        assert_eq!(of.because, [InvalidRun::Stolen, InvalidRun::Busy]);
    }

    #[test]
    fn a_load_is_named_in_words_and_what_failed_is_said_by_number_or_in_how_many_runs() {
        let load = Params::new().with("protocol", "http").with("loop", "open");
        let load = load.with("connections", 20u64).with("own_echo", "yes");
        assert_eq!(name(&load), "http, open, connections 20, own echo yes");
        let other = load.clone().with("rate", 5u64);
        assert_eq!(name_among(&load, &[&load, &load]), name(&load), "alone");
        assert_eq!(name_among(&other, &[&load, &other]), "rate 5");
        let of = |kinds: &[(Failure, &[f64])]| {
            let all = kinds.iter().map(|(_, runs)| runs.to_vec());
            let all = all.reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect());
            let kinds = kinds
                .iter()
                .map(|(kind, runs)| (metric(kind.name(), "count"), runs.to_vec()));
            let figures = kinds.chain(all.map(|all| (FAILED_IN_ALL, all)));
            let cases = vec![testing::case(load.clone(), figures)];
            errors(&testing::view(LOAD.id, Profile::Quick, cases), &load)
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[(Failure::Timeout, &[0.0])]), "none");
        let one = of(&[(Failure::Timeout, &[7.0]), (Failure::NoConnection, &[1.0])]);
        assert_eq!(one, "1 no connection, 7 timeout");
        let three = of(&[(Failure::Timeout, &[7.0, 0.0, 1.0]), (Failure::Status, &[0.0; 3])]);
        assert_eq!(three, "timeout in 2 of 3 runs");
    }

    #[test]
    fn a_rate_of_each_connection_is_drawn_once_and_a_rate_of_all_by_rate() {
        let of = |cases: [(u64, &str); 2]| {
            let case = |(connections, rate): (u64, &str)| {
                let params = Params::new().with("connections", connections);
                let figures =
                    [RESPONSE_P50, RESPONSE_P99].map(|metric| (metric, vec![connections as f64; 7]));
                testing::case(params.with("rate", rate), figures)
            };
            read(&testing::view(LOAD.id, Profile::Quick, cases.map(case).to_vec())).figures
        };
        assert_eq!(ids(&of([(20, "100"), (40, "200")])), ["by-connections"]);
        assert_eq!(ids(&of([(20, "100"), (20, "200")])), ["by-rate"]);
    }

    #[test]
    fn clients_and_a_watched_server_stand_in_one_chart() {
        let of = |watched: bool| {
            let second = |second: u64| {
                let figure = |metric, value: u64| (metric, vec![value as f64; 7]);
                let mut figures = vec![figure(ANSWERED, 100 * second), figure(SECOND_P99, 1 << 22)];
                if watched {
                    figures.push(figure(SERVER_CPUS, second));
                }
                testing::case(Params::new().with("rate", 1u64).with(SECOND, second), figures)
            };
            let cases = [1, 2].map(second).to_vec();
            read_seconds(&testing::view(SECONDS.id, Profile::Quick, cases)).figures
        };
        let watched = of(true);
        let lines: Vec<Vec<f64>> = (watched[0].series.iter())
            .map(|line| line.points.iter().map(|point| point.y).collect())
            .collect();
        assert_eq!(watched[0].id, "together-0");
        assert_eq!(watched[0].title, "Clients and server in each second");
        assert_eq!(lines, [[50.0, 100.0], [100.0, 100.0], [50.0, 100.0]]);
        let ends = watched[0].series[0].points.iter().map(|point| point.x);
        assert_eq!(ends.collect::<Vec<_>>(), [2.0, 3.0]);
        assert!(!ids(&of(false)).iter().any(|id| id.starts_with("together")));
    }

    #[test]
    fn each_load_has_a_row_of_what_was_asked_and_what_came() {
        let load = |connections: u64| Params::new().with("connections", connections);
        let figures = [
            (ACHIEVED, 500.0),
            (RESPONSE_P50, 1e6),
            (RESPONSE_P99, 2e6),
            (FAILED_IN_ALL, 0.0),
            (INVALID, 0.0),
            (OWN_CPU, 0.1),
        ];
        let figures = figures.map(|(metric, value)| (metric, vec![value]));
        let cases = vec![
            testing::case(load(10).with("rate", 500u64), figures.clone()),
            testing::case(load(20), figures),
        ];
        let answer = read(&testing::view(LOAD.id, Profile::Quick, cases));
        let rows = &answer.tables[0].rows;
        let came = ["500", "1.00 ms", "2.00 ms", "none", "yes", "", "", "0.10"];
        assert_eq!(rows[0][1..], [&["500 a second"], &came[..]].concat());
        assert_eq!(rows[1][1..], [&["20 connections"], &came[..]].concat());
    }

    #[test]
    fn failures_are_drawn_where_there_were_some() {
        let of = |failed: f64| {
            let second = |second: u64| {
                let params = Params::new().with("rate", 1u64).with(SECOND, second);
                testing::case(params, [(ANSWERED, vec![100.0]), (FAILED, vec![failed])])
            };
            let cases = [0, 1].map(second).to_vec();
            read_seconds(&testing::view(SECONDS.id, Profile::Quick, cases)).figures
        };
        assert_eq!(ids(&of(0.0)), ["rate"]);
        assert_eq!(ids(&of(1.0)), ["rate", "failed"]);
    }
}
