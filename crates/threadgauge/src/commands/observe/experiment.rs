//! What a report reads off a stored course: an experiment like the others, but that `observe` measures it and not
//! `run`.
//!
//! A case is all threads of the program, or a group of them. Of each there is one for each interval as well, in an
//! experiment of its own, so that a second of one course is compared with the same second of another.

use threadgauge_lab::prelude::*;
use threadgauge_machine::observe::{VerdictKind, WaitKind};
use threadgauge_results::units::percent;
use threadgauge_results::{Figure, Table};

/// What was observed, over the whole time.
pub const OBSERVE: Experiment = Experiment {
    id: "observe",
    question: "Why is this program as fast as it is?",
    first_run: false,
    sources: &[],
    primary: &[CPUS],
    how: "The kernel's counts of each thread (/proc: stat, schedstat) are read at looks, and between them the \
          system calls in which threads wait are seen. Shares are of the time for which threads existed.",
    control: "What observing took of a CPU is measured beside it.",
    traps: &[
        "A thread with nothing to do and one that is held up wait in the same system calls: /proc cannot tell them \
         apart.",
        "What began and ended between two looks is in the CPU time alone.",
    ],
    source: "No source: a program that the user named.",
    calls: &[],
    plan: nothing_planned,
    run: measured_by_observe,
    read,
};

/// The same from look to look.
pub const INTERVALS: Experiment = Experiment {
    id: "observe-by-interval",
    question: "How did it go on from look to look?",
    primary: &[],
    control: "None: an interval is a part of what was observed.",
    read: read_intervals,
    ..OBSERVE
};

/// How many CPUs it kept busy.
pub const CPUS: Metric = metric("cpus", "count");
/// How many CPUs all programs of the machine kept busy.
pub const MACHINE_CPUS: Metric = metric("machine_cpus", "count");
/// Threads at the end, of a group the most that there were.
pub const THREADS: Metric = metric("threads", "count");
/// The share of the time of threads that they ran.
pub const RUNNING: Metric = metric("running_share", "share");
/// That they were ready and had no CPU.
pub const WANTED: Metric = metric("waiting_for_cpu_share", "share");
/// How often threads were given a CPU, a second.
pub const SLICES: Metric = metric("given_cpu_per_second", "count");
/// Resident memory.
pub const MEMORY: Metric = metric("resident_bytes", "bytes");
/// The share of a CPU that observing took.
pub const OWN: Metric = metric("observer_cpu_share", "share");
/// The share of the periods of a quota in which it was used up.
pub const THROTTLED: Metric = metric("throttled_share", "share");
/// CPU time of a task.
pub const TASK_CPU: Metric = metric("cpu_ns_per_task", "ns");
/// Tasks a second.
pub const TASKS: Metric = metric("tasks_per_second", "count");

/// The share of the time of threads that they waited, by what for.
pub const WAITS: [Metric; WaitKind::COUNT] = [
    metric("futex_share", "share"),
    metric("poll_share", "share"),
    metric("read_share", "share"),
    metric("write_share", "share"),
    metric("accept_share", "share"),
    metric("sleep_share", "share"),
    metric("child_share", "share"),
    metric("disk_share", "share"),
    metric("stopped_share", "share"),
    metric("other_share", "share"),
    metric("unknown_share", "share"),
];

/// Of all threads: 1 where this verdict holds, else 0.
pub const VERDICTS: [Metric; VerdictKind::ALL.len()] = [
    metric("too_short", "count"),
    metric("throttled", "count"),
    metric("oversubscribed", "count"),
    metric("cpus_taken", "count"),
    metric("cpu_bound", "count"),
    metric("one_thread", "count"),
    metric("lock_bound", "count"),
    metric("pool_too_large", "count"),
    metric("waiting", "count"),
    metric("idle", "count"),
];

/// Of an interval: threads that ran, on average.
pub const RAN: Metric = metric("ran", "count");
/// Of an interval: threads that were ready and had no CPU, on average.
pub const WANTED_BY: Metric = metric("wanted_cpu", "count");
/// Of an interval: threads that waited in futex, on average.
pub const IN_FUTEX: Metric = metric("in_futex", "count");
/// Of an interval: threads that waited for anything else, on average.
pub const IN_OTHERS: Metric = metric("in_other_waits", "count");
/// Of an interval: periods that a quota had used up.
pub const THROTTLED_PERIODS: Metric = metric("throttled_periods", "count");

/// The parameter that tells whose threads they are.
pub const OF: &str = "of";
/// Those of all groups.
pub const ALL: &str = "all";
/// The parameter that tells when an interval ended, in milliseconds from the first look.
pub const ENDS_MS: &str = "ends_ms";

fn nothing_planned(_: &Site) -> Plan {
    Plan {
        cases: Vec::new(),
        reference: Params::new(),
        budget: Duration::ZERO,
    }
}

fn measured_by_observe(_: &Params, _: &mut Worker) -> Result<(), CaseError> {
    let says = "a program is observed by `threadgauge observe`, not by `run`";
    Err(CaseError::Failed(says.to_owned()))
}

/// All threads.
fn all() -> Params {
    Params::new().with(OF, ALL)
}

fn read(view: &View<'_>) -> Answer {
    let groups: Vec<&Params> = view
        .planned(Params::new())
        .filter(|case| case.text(OF) != Some(ALL))
        .collect();
    Answer {
        answer: answer(view),
        number: view.number("CPUs that the program kept busy", &CPUS.of(all()), CPUS.unit),
        figures: by_group(view, &groups).into_iter().collect(),
        tables: vec![where_time_went(view, &groups), whole(view)],
        ..Answer::default()
    }
}

/// The verdicts in a sentence.
fn answer(view: &View<'_>) -> String {
    let value = |metric: Metric| view.value(&metric.of(all()));
    let holds = VerdictKind::ALL.into_iter().zip(VERDICTS);
    let holds = holds.filter(|(_, metric)| value(*metric).is_some_and(|holds| holds > 0.0));
    let named: Vec<&str> = holds.map(|(kind, _)| kind.in_words()).collect();
    let verdicts = match named.is_empty() {
        true => "no rule says what limits it".to_owned(),
        false => named.join("; "),
    };
    let (Some(cpus), Some(running), Some(wanted)) = (value(CPUS), value(RUNNING), value(WANTED)) else {
        return String::new();
    };
    format!(
        "It kept {cpus:.2} CPUs busy: {verdicts}. Its threads ran for {} of their time and waited for a CPU for {}.",
        percent(running),
        percent(wanted)
    )
}

fn where_time_went(view: &View<'_>, groups: &[&Params]) -> Table {
    let all = all();
    let cases = std::iter::once(&all).chain(groups.iter().copied());
    let row = |case: &Params| -> Vec<String> {
        let shown = |metric: Metric| view.shown(&metric.of(case.clone()), metric.unit);
        let waits = WaitKind::ALL.into_iter().zip(WAITS).filter_map(|(kind, metric)| {
            let share = view.value(&metric.of(case.clone()))?;
            (share >= 0.005).then_some((kind, share))
        });
        let mut waits: Vec<(WaitKind, f64)> = waits.collect();
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        let waits = waits
            .iter()
            .map(|(kind, share)| format!("{} {}", kind.name(), percent(*share)));
        vec![
            case.text(OF).unwrap_or_default().to_owned(),
            shown(THREADS),
            shown(RUNNING),
            shown(WANTED),
            waits.collect::<Vec<_>>().join(", "),
            shown(SLICES),
        ]
    };
    table(
        "threads",
        "Where the time of threads went",
        "Shares of the time for which the threads existed. Threads of one name are one group, digits at its end \
         left out.",
        [
            "threads of",
            "how many",
            "running",
            "waiting for a CPU",
            "waiting",
            "given a CPU, a second",
        ],
        cases.map(row).collect(),
    )
}

fn whole(view: &View<'_>) -> Table {
    let of = [
        ("CPUs it kept busy", CPUS),
        ("CPUs that all programs kept busy", MACHINE_CPUS),
        ("resident memory at the end", MEMORY),
        ("periods of a quota that were used up", THROTTLED),
        ("tasks a second", TASKS),
        ("CPU time of a task", TASK_CPU),
        ("share of a CPU that observing took", OWN),
    ];
    let rows = of.into_iter().filter_map(|(name, metric)| {
        let shown = view.shown(&metric.of(all()), metric.unit);
        (!shown.is_empty()).then(|| vec![name.to_owned(), shown])
    });
    table(
        "program",
        "The whole program",
        "",
        ["what", "how much"],
        rows.collect(),
    )
}

fn by_group(view: &View<'_>, groups: &[&Params]) -> Option<Figure> {
    let line = |metric: Metric| -> Vec<(String, Statistic)> {
        let of = |case: &&Params| {
            let name = case.text(OF)?.to_owned();
            Some((name, metric.of((*case).clone()).times(100.0)))
        };
        groups.iter().filter_map(of).collect()
    };
    Chart::new(
        view,
        "groups",
        "Running and waiting for a CPU, by group of threads",
    )
    .x(Scale::Category, "threads of")
    .y(Scale::Linear, "% of their time")
    .at_least(2)
    .line("running", line(RUNNING))
    .line("waiting for a CPU", line(WANTED))
    .drawn()
}

/// A name and what was seen of it, interval by interval.
type Course<'v> = (String, Vec<(f64, &'v Params)>);

fn read_intervals(view: &View<'_>) -> Answer {
    let mut courses: Vec<Course<'_>> = Vec::new();
    for case in view.planned(Params::new()) {
        let (Some(of), Some(ends_ms)) = (case.text(OF), case.int(ENDS_MS)) else {
            continue;
        };
        let point = (ends_ms as f64 / 1e3, case);
        match courses.iter_mut().find(|(name, _)| name == of) {
            Some((_, points)) => points.push(point),
            None => courses.push((of.to_owned(), vec![point])),
        }
    }
    let (of_all, of_groups): (Vec<Course<'_>>, Vec<Course<'_>>) =
        courses.into_iter().partition(|(name, _)| name == ALL);
    let draw = |id: &str, title: &str, label: &str, courses: &[Course<'_>], lines: &[(&str, Metric, f64)]| {
        by_time(view, (id, title, label), courses, lines)
    };
    let seen = [
        ("running", RAN, 1.0),
        ("waiting for a CPU", WANTED_BY, 1.0),
        ("waiting in futex", IN_FUTEX, 1.0),
        ("waiting for something else", IN_OTHERS, 1.0),
    ];
    let cpus = [
        ("the program", CPUS, 1.0),
        ("all of the machine", MACHINE_CPUS, 1.0),
    ];
    let was_throttled = of_all.iter().flat_map(|(_, points)| points).any(|(_, case)| {
        let periods = view.value(&THROTTLED_PERIODS.of((*case).clone()));
        periods.is_some_and(|periods| periods > 0.0)
    });
    let throttled = was_throttled.then(|| {
        let line = [("used up", THROTTLED_PERIODS, 1.0)];
        draw(
            "throttled",
            "Periods that a quota had used up",
            "periods",
            &of_all,
            &line,
        )
    });
    let figures = [
        draw("cpus", "CPUs that were busy", "CPUs", &of_all, &cpus),
        draw("states", "What its threads did", "threads", &of_all, &seen),
        draw(
            "groups-cpus",
            "CPUs by group of threads",
            "CPUs",
            &of_groups,
            &[("", RAN, 1.0)],
        ),
        throttled.flatten(),
        draw(
            "memory",
            "Resident memory",
            "MiB",
            &of_all,
            &[("resident", MEMORY, 1.0 / 1_048_576.0)],
        ),
        draw(
            "number",
            "Threads",
            "threads",
            &of_all,
            &[("threads", THREADS, 1.0)],
        ),
    ];
    let figures: Vec<Figure> = figures.into_iter().flatten().collect();
    Answer {
        answer: match figures.is_empty() {
            true => "There were not two intervals.".to_owned(),
            false => "The course from look to look; see the charts.".to_owned(),
        },
        figures,
        ..Answer::default()
    }
}

/// Lines over the time; with several courses a line each, which has its name.
fn by_time(
    view: &View<'_>,
    (id, title, label): (&str, &str, &str),
    courses: &[Course<'_>],
    lines: &[(&str, Metric, f64)],
) -> Option<Figure> {
    let mut chart = Chart::new(view, id, title)
        .x(Scale::Linear, "time since the first look, s")
        .y(Scale::Linear, label)
        .at_least(2);
    for (name, points) in courses {
        for (what, metric, factor) in lines {
            let line = points
                .iter()
                .map(|(x, case)| (*x, metric.of((*case).clone()).times(*factor)));
            let named: &str = if what.is_empty() { name } else { what };
            chart = chart.line(named, line.collect::<Vec<_>>());
        }
    }
    chart.drawn()
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::*;

    #[test]
    fn metrics_of_kinds_and_verdicts_have_their_names() {
        for (kind, metric) in WaitKind::ALL.into_iter().zip(WAITS) {
            assert_eq!(metric.name, format!("{}_share", kind.name()));
        }
        for (kind, metric) in VerdictKind::ALL.into_iter().zip(VERDICTS) {
            assert_eq!(metric.name, kind.name());
        }
    }

    #[test]
    fn the_answer_names_the_verdicts_and_the_table_has_a_row_a_group() {
        let figures = |running: f64| {
            vec![
                (CPUS, vec![1.5]),
                (RUNNING, vec![running]),
                (WANTED, vec![0.25]),
                (WAITS[0], vec![0.15]),
                (VERDICTS[2], vec![1.0]),
                (VERDICTS[4], vec![0.0]),
            ]
        };
        let case = |of: &str, running| testing::case(Params::new().with(OF, of), figures(running));
        let cases = vec![case(ALL, 0.6), case("worker-*", 0.7), case("main", 0.1)];
        let answer = read(&testing::view(OBSERVE.id, Profile::Quick, cases));
        assert_eq!(
            answer.answer,
            "It kept 1.50 CPUs busy: oversubscribed. Its threads ran for 60 % of their time and waited for a CPU \
             for 25 %."
        );
        let rows = &answer.tables[0].rows;
        assert_eq!(rows.len(), 3);
        assert_eq!((&*rows[1][0], &*rows[1][4]), ("worker-*", "futex 15 %"));
        let [groups] = &answer.figures[..] else {
            panic!("{:?}", answer.figures)
        };
        assert_eq!(groups.series.len(), 2);
    }

    #[test]
    fn the_course_is_drawn_by_state_and_by_group() {
        let case = |of: &str, at: u64| {
            let params = Params::new().with(OF, of).with(ENDS_MS, 1_000 * at);
            testing::case(params, [(RAN, vec![at as f64]), (CPUS, vec![at as f64])])
        };
        let cases = [1, 2].map(|at| [case(ALL, at), case("main", at)]).concat();
        let answer = read_intervals(&testing::view(INTERVALS.id, Profile::Quick, cases));
        let ids: Vec<&str> = answer.figures.iter().map(|figure| &*figure.id).collect();
        assert_eq!(ids, ["cpus", "states", "groups-cpus"]);
        let line = &answer.figures[2].series[0];
        assert_eq!(line.name, "main");
        assert_eq!(
            line.points.iter().map(|point| point.x).collect::<Vec<_>>(),
            [1.0, 2.0]
        );
    }
}
