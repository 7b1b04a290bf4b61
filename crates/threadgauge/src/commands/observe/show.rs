//! What was seen of a program: for a person, and for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use threadgauge_machine::Switches;
use threadgauge_machine::observe::{Amounts, Group, IoCounts, MOST_OWN_SHARE, ThreadKey, Tracked, WaitKind};
use threadgauge_results::outside::clean;
use threadgauge_results::units::{count, counted, of_cpus, percent, with_unit};

use crate::commands::observe::live::shares;
use crate::commands::observe::seen::{Ending, Seen};
use crate::commands::observe::table::aligned;
use crate::commands::observe::tasks::{Figure, TaskCost};

/// Groups and threads that a person is shown.
const MOST_ROWS: usize = 10;
/// Threads that a program is shown.
const MOST_THREADS: usize = 1_000;

/// For a person.
pub fn text(seen: &Seen) -> String {
    let course = &seen.course;
    let mut text = String::new();
    let mut row = |name: &str, says: String| {
        // Writing into memory cannot fail.
        let _ = writeln!(text, "{name:<14} {says}");
    };
    let last = course.last();
    row(
        "process",
        format!(
            "{} `{}`: {}, {}; {} in {:.1} s",
            seen.pid,
            clean(&seen.name),
            counted(last.map_or(0, |look| look.processes), "process"),
            counted(course.groups().iter().map(|group| group.threads).sum(), "thread"),
            counted(course.looks(), "look"),
            course.elapsed_ns() as f64 / 1e9
        ),
    );
    if let Some(ended) = how_it_ended(seen) {
        row("", ended);
    }
    let of_machine = course.machine_cpus().map_or_else(String::new, |all| {
        format!("; all programs of the machine {all:.2}")
    });
    row(
        "CPUs",
        format!("{:.2} of {}{of_machine}", course.cpus(), may_use(seen)),
    );
    row("its threads", shares(course.amounts()));
    row("switches", switches(seen));
    if let Some(look) = last {
        let of_kib = |kib: u64| bytes(kib as f64 * 1_024.0);
        // Read more rarely: of processes that have gone meanwhile it would be more.
        let pss_kib = look.pss_kib.filter(|kib| *kib <= look.rss_kib);
        let shared = pss_kib.map_or_else(String::new, |kib| {
            format!(", {} where what is shared is divided", of_kib(kib))
        });
        let most_kib = course.intervals().iter().map(|interval| interval.rss_kib).max();
        let most = most_kib
            .filter(|kib| *kib > look.rss_kib)
            .map_or_else(String::new, |kib| format!("; at most {} at a look", of_kib(kib)));
        row(
            "memory",
            format!("{} resident{shared}{most}", of_kib(look.rss_kib)),
        );
    }
    if let Some(io) = course.io() {
        row("I/O", io_in_words(&io, course.elapsed_ns()));
    }
    for quota in course.quotas() {
        let says = format!(
            "{:.2} CPUs of {}: used up in {} of {}",
            quota.cpus,
            clean(&quota.group),
            count(quota.throttled_periods as usize),
            counted(quota.periods as usize, "period")
        );
        row("quota", says);
    }
    match &seen.task {
        None => {}
        Some(Err(why)) => row("a task", format!("not known: {why}")),
        Some(Ok(cost)) => {
            for (name, says) in task_rows(cost) {
                row(name, says);
            }
        }
    }
    text += "\n";
    for verdict in seen.verdicts() {
        let _ = writeln!(
            text,
            "{}: {}",
            capital(verdict.kind.in_words()),
            clean(&verdict.says)
        );
        if let Some(doubt) = verdict.doubt {
            let _ = writeln!(text, "  What cannot be told: {doubt}");
        }
    }
    text += &table("By group of threads", &groups(seen));
    text += &table("The busiest threads", &threads(seen));
    text += "\n";
    let _ = writeln!(text, "Observing took {}.", own_cost(seen));
    for lack in &seen.lacks {
        let _ = writeln!(text, "Not known: {}", clean(lack));
    }
    text
}

/// Where it was not the time that was over.
fn how_it_ended(seen: &Seen) -> Option<String> {
    match (seen.ending, &seen.ended) {
        (_, Some(ended)) => Some(format!(
            "ended with {} after {:.2} s; CPU time to its end {:.2} s",
            ended.status,
            ended.took.as_secs_f64(),
            ended.cpu.as_secs_f64()
        )),
        (Ending::ProcessEnded, None) => {
            Some("has ended meanwhile: this is what was seen until the last look at it".to_owned())
        }
        (Ending::Interrupted, None) => Some("observing was interrupted".to_owned()),
        (Ending::Over, None) => None,
    }
}

/// How many CPUs it may use, in words.
fn may_use(seen: &Seen) -> String {
    let allowed = seen.capacity.allowed;
    match seen.capacity.quota {
        Some(quota) if quota < allowed => {
            format!("{quota:.2} that a quota grants (of {})", of_cpus(allowed as u64))
        }
        _ => format!("{allowed:.0}"),
    }
}

fn switches(seen: &Seen) -> String {
    let course = &seen.course;
    let by_kind = course.amounts().switches;
    let count = match course.has_slices() {
        true => course.amounts().slices,
        false => by_kind.unwrap_or_default().total() as f64,
    };
    let each_second = with_unit(count / (course.elapsed_ns().max(1) as f64 / 1e9), None, "count");
    let by_kind = match (by_kind, kinds(by_kind)) {
        (None, _) => ", not known by kind".to_owned(),
        (Some(_), None) => String::new(),
        (Some(_), Some([voluntary, involuntary])) => format!(
            ": {voluntary} voluntary (the thread waited), {involuntary} involuntary (its CPU was taken)"
        ),
    };
    format!("{each_second} a second{by_kind}")
}

/// Which share of switches is voluntary, and which involuntary; `None` where none are known.
fn kinds(switches: Option<Switches>) -> Option<[String; 2]> {
    let all = switches.filter(|all| all.total() > 0)?;
    let share = |of_kind: u64| percent(of_kind as f64 / all.total() as f64);
    Some([share(all.voluntary), share(all.involuntary)])
}

fn io_in_words(io: &IoCounts, elapsed_ns: u64) -> String {
    let seconds = elapsed_ns.max(1) as f64 / 1e9;
    let each_second = |count: u64| bytes(count as f64 / seconds);
    format!(
        "a second {} read in {} calls, {} written in {}; of disks {} read, {} written",
        each_second(io.read_bytes),
        with_unit(io.reads as f64 / seconds, None, "count"),
        each_second(io.written_bytes),
        with_unit(io.writes as f64 / seconds, None, "count"),
        each_second(io.disk_read_bytes),
        each_second(io.disk_written_bytes)
    )
}

/// What a task costs, in rows.
fn task_rows(cost: &TaskCost) -> Vec<(&'static str, String)> {
    let time = |figure: &Figure| with_unit(figure.value_ns, figure.ci95_ns, "ns");
    let mut rows = vec![
        (
            "tasks",
            format!(
                "{}, {} a second",
                with_unit(cost.tasks, None, "count"),
                with_unit(cost.per_second, None, "count")
            ),
        ),
        (
            "a task",
            format!(
                "CPU {}, waiting for a CPU {}",
                time(&cost.cpu),
                time(&cost.wanted)
            ),
        ),
    ];
    let waits = cost
        .waits
        .iter()
        .map(|(kind, figure)| format!("{} {}", kind.name(), time(figure)));
    let waits: Vec<String> = waits.collect();
    if !waits.is_empty() {
        rows.push(("threads waited", format!("for each task {}", waits.join(", "))));
    }
    rows.push((
        "it waited",
        format!(
            "{} at least (as no idle thread does), {} at most (if no thread was ever idle): which of its waits are \
             idleness /proc cannot tell",
            time(&cost.held_up),
            time(&cost.all_waits)
        ),
    ));
    if cost.cpu.ci95_ns.is_none() {
        rows.push((
            "",
            format!(
                "no interval: it needs 20 looks with tasks in most of them, and there were {}; say a longer --for or a \
                 shorter --interval",
                cost.looks
            ),
        ));
    }
    rows
}

/// The rows of a table, with its head first; of more rows than are shown the last says how many there are.
type Rows = (Vec<&'static str>, Vec<Vec<String>>, usize);

fn table(title: &str, (head, rows, more): &Rows) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}\n");
    for line in aligned(head, rows.clone()) {
        text += &line;
        text += "\n";
    }
    if *more > 0 {
        let _ = writeln!(text, "and {} more", count(*more));
    }
    text
}

const COLUMNS: [&str; 7] = [
    "running",
    "waiting for a CPU",
    "waiting most for",
    "",
    "given a CPU, a second",
    "voluntary",
    "involuntary",
];

fn cells(amounts: &Amounts, seen: &Seen) -> Vec<String> {
    let waits = amounts.longest_waits();
    let wait = |nth: usize| {
        waits.get(nth).map_or_else(String::new, |(kind, ns)| {
            format!("{} {}", kind.name(), percent(amounts.share(*ns)))
        })
    };
    let seconds = seen.course.elapsed_ns().max(1) as f64 / 1e9;
    let slices = match seen.course.has_slices() {
        true => with_unit(amounts.slices / seconds, None, "count"),
        false => "–".to_owned(),
    };
    let [voluntary, involuntary] = kinds(amounts.switches).unwrap_or_else(|| ["–", "–"].map(str::to_owned));
    vec![
        percent(amounts.share(amounts.ran_ns)),
        percent(amounts.share(amounts.wanted_ns)),
        wait(0),
        wait(1),
        slices,
        voluntary,
        involuntary,
    ]
}

/// The groups in which threads ran longest, first.
pub fn busiest_groups(seen: &Seen) -> Vec<(usize, &Group)> {
    let mut all: Vec<(usize, &Group)> = seen.course.groups().iter().enumerate().collect();
    all.sort_by(|a, b| b.1.amounts.ran_ns.total_cmp(&a.1.amounts.ran_ns));
    all
}

fn groups(seen: &Seen) -> Rows {
    let all = busiest_groups(seen);
    let rows = all.iter().take(MOST_ROWS).map(|(_, group)| {
        let mut row = vec![clean(&group.name), count(group.most_threads)];
        row.extend(cells(&group.amounts, seen));
        row
    });
    let head = [&["group", "threads"][..], &COLUMNS].concat();
    (head, rows.collect(), all.len().saturating_sub(MOST_ROWS))
}

fn threads(seen: &Seen) -> Rows {
    let all = busiest_threads(seen);
    let ran = all.iter().filter(|(_, thread)| !thread.never_ran());
    let rows = ran.take(MOST_ROWS).map(|(key, thread)| {
        let ended = if thread.has_ended { ", ended" } else { "" };
        let mut row = vec![format!("{}{ended}", clean(&thread.name)), key.tid.to_string()];
        row.extend(cells(&thread.amounts, seen));
        row
    });
    let head = [&["thread", "id"][..], &COLUMNS].concat();
    let rows: Vec<_> = rows.collect();
    let more = all.len() - rows.len();
    (head, rows, more)
}

fn busiest_threads(seen: &Seen) -> Vec<(&ThreadKey, &Tracked)> {
    let mut all: Vec<(&ThreadKey, &Tracked)> = seen.course.threads().collect();
    all.sort_by(|a, b| b.1.amounts.ran_ns.total_cmp(&a.1.amounts.ran_ns));
    all
}

fn own_cost(seen: &Seen) -> String {
    let share = seen.course.own_share();
    let limit = match share <= MOST_OWN_SHARE {
        true => format!("below the {} that it may", percent(MOST_OWN_SHARE)),
        false => format!(
            "more than the {} that it may: so many threads come and go, or looks are dear here",
            percent(MOST_OWN_SHARE)
        ),
    };
    format!("{} of a CPU ({limit})", percent(share))
}

fn bytes(value: f64) -> String {
    with_unit(value, None, "bytes")
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    let first = chars
        .next()
        .map(|c| c.to_uppercase().to_string())
        .unwrap_or_default();
    first + chars.as_str()
}

/// For programs.
pub fn json(seen: &Seen) -> Value {
    let course = &seen.course;
    let last = course.last();
    let group = |group: &Group| {
        let mut unit = with_switches(&group.amounts, course.elapsed_ns());
        unit.insert("name".to_owned(), json!(group.name));
        unit.insert("threads".to_owned(), json!(group.threads));
        unit.insert("most_threads".to_owned(), json!(group.most_threads));
        unit.insert("most_used".to_owned(), json!(group.most_used));
        Value::Object(unit)
    };
    let thread = |(key, thread): (&ThreadKey, &Tracked)| {
        let mut unit = with_switches(&thread.amounts, course.elapsed_ns());
        unit.insert("pid".to_owned(), json!(key.pid));
        unit.insert("tid".to_owned(), json!(key.tid));
        unit.insert("name".to_owned(), json!(thread.name));
        unit.insert("has_ended".to_owned(), json!(thread.has_ended));
        unit.insert("last_cpu".to_owned(), json!(thread.cpu));
        Value::Object(unit)
    };
    let first_ns = course.intervals().first().map_or(0, |interval| interval.from_ns);
    let since_s = |ns: u64| ns.saturating_sub(first_ns) as f64 / 1e9;
    let intervals = course.intervals().iter().map(|interval| {
        let mut unit = unit(&interval.amounts, interval.length_ns());
        for (name, value) in [
            ("from_s", json!(since_s(interval.from_ns))),
            ("to_s", json!(since_s(interval.to_ns))),
            ("cpus", json!(interval.cpus())),
            ("processes", json!(interval.processes)),
            ("threads", json!(interval.threads)),
            ("rss_bytes", json!(interval.rss_kib * 1_024)),
            ("throttled_periods", json!(interval.throttled_periods)),
        ] {
            unit.insert(name.to_owned(), value);
        }
        Value::Object(unit)
    });
    let threads = busiest_threads(seen);
    let thread_count = threads.len();
    let threads: Vec<Value> = threads.into_iter().take(MOST_THREADS).map(thread).collect();
    let quotas = course.quotas();
    let quotas = quotas.iter().map(|quota| {
        json!({
            "group": quota.group,
            "cpus": quota.cpus,
            "periods": quota.periods,
            "throttled_periods": quota.throttled_periods,
            "throttled_s": quota.throttled_ns as f64 / 1e9,
        })
    });
    let exit = seen.ended.map(|ended| {
        json!({
            "status": ended.status.to_string(),
            "code": ended.status.code(),
            "took_s": ended.took.as_secs_f64(),
            "cpu_s": ended.cpu.as_secs_f64(),
        })
    });
    let capacity = json!({
        "cpus": seen.capacity.cpus(),
        "allowed": seen.capacity.allowed,
        "quota": seen.capacity.quota,
    });
    let memory = last.map(|look| {
        json!({
            "rss_bytes": look.rss_kib * 1_024,
            "pss_bytes": look.pss_kib.map(|kib| kib * 1_024),
        })
    });
    let own = json!({
        "cpu_share": course.own_share(),
        "most_cpu_share": MOST_OWN_SHARE,
        "process_cpu_s": seen.own_process_cpu.as_secs_f64(),
    });
    let all = [
        ("schema", json!(1)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("started", json!(seen.started)),
        ("pid", json!(seen.pid)),
        ("name", json!(seen.name)),
        ("command", json!(seen.command)),
        ("elapsed_s", json!(course.elapsed_ns() as f64 / 1e9)),
        ("interval_s", json!(seen.interval.as_secs_f64())),
        ("looks", json!(course.looks())),
        ("ending", json!(seen.ending.name())),
        ("exit", json!(exit)),
        ("capacity", capacity),
        ("cpus", json!(course.cpus())),
        ("machine_cpus", json!(course.machine_cpus())),
        ("verdicts", json!(seen.verdicts())),
        (
            "all",
            Value::Object(with_switches(course.amounts(), course.elapsed_ns())),
        ),
        ("groups", course.groups().iter().map(group).collect()),
        ("thread_count", json!(thread_count)),
        ("threads", Value::Array(threads)),
        ("memory", json!(memory)),
        ("io", json!(course.io())),
        ("quotas", quotas.collect()),
        ("task", json!(seen.task.as_ref().map(task_json))),
        ("intervals", intervals.collect()),
        ("own", own),
        ("not_known", json!(seen.lacks)),
    ];
    all.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Where the time of threads went, as shares of it.
fn unit(amounts: &Amounts, elapsed_ns: u64) -> Map<String, Value> {
    let mut waits = Map::new();
    for kind in WaitKind::ALL {
        waits.insert(kind.name().to_owned(), json!(amounts.share(amounts.of(kind))));
    }
    let mut unit = Map::new();
    for (name, value) in [
        ("existed_s", json!(amounts.existed_ns / 1e9)),
        ("ran_s", json!(amounts.ran_ns / 1e9)),
        ("running", json!(amounts.share(amounts.ran_ns))),
        ("waiting_for_cpu", json!(amounts.share(amounts.wanted_ns))),
        ("waiting", json!(amounts.share(amounts.waited_ns()))),
        ("waits", Value::Object(waits)),
        (
            "given_cpu_per_s",
            json!(amounts.slices / (elapsed_ns.max(1) as f64 / 1e9)),
        ),
    ] {
        unit.insert(name.to_owned(), value);
    }
    unit
}

/// The same over the whole time, with switches, which are not read at each look.
fn with_switches(amounts: &Amounts, elapsed_ns: u64) -> Map<String, Value> {
    let mut unit = unit(amounts, elapsed_ns);
    let switches = amounts.switches;
    for (name, of_kind) in [
        ("voluntary_switches", switches.map(|all| all.voluntary)),
        ("involuntary_switches", switches.map(|all| all.involuntary)),
    ] {
        unit.insert(name.to_owned(), json!(of_kind));
    }
    unit
}

fn task_json(task: &Result<TaskCost, String>) -> Value {
    let figure = |figure: &Figure| json!({"ns": figure.value_ns, "ci95_ns": figure.ci95_ns});
    match task {
        Err(why) => json!({"not_known": why}),
        Ok(cost) => {
            let mut waits = Map::new();
            for (kind, of_kind) in &cost.waits {
                waits.insert(kind.name().to_owned(), figure(of_kind));
            }
            json!({
                "tasks": cost.tasks,
                "per_second": cost.per_second,
                "looks": cost.looks,
                "cpu": figure(&cost.cpu),
                "waiting_for_cpu": figure(&cost.wanted),
                "waits": Value::Object(waits),
                "waits_least": figure(&cost.held_up),
                "waits_most": figure(&cost.all_waits),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use threadgauge_machine::observe::{Capacity, Course, Look, QuotaCounts, Sampler, ThreadLook};

    use super::*;

    /// What is seen of a burner and a pool in five seconds.
    fn seen() -> Seen {
        let mut course = Course::default();
        for at in 0..=5_u64 {
            let thread = |tid: i32, name: &str, ran_ms: u64, slices: u64| ThreadLook {
                key: ThreadKey {
                    pid: 7,
                    tid,
                    start_ticks: 1,
                },
                name: name.to_owned(),
                ran_ns: at * ran_ms * 1_000_000,
                waited_ns: Some(0),
                slices: Some(at * slices),
                switches: Some(Switches {
                    voluntary: at * slices / 10,
                    involuntary: at * slices * 9 / 10,
                }),
                age_ns: u64::MAX,
                ..ThreadLook::default()
            };
            let pool = (8..12).map(|tid| thread(tid, &format!("worker-{tid}"), 0, 0));
            course.add(Look {
                at_ns: at * 1_000_000_000,
                processes: 1,
                threads: [thread(7, "main", 990, 10)].into_iter().chain(pool).collect(),
                rss_kib: 2_048,
                quotas: vec![QuotaCounts {
                    group: "/pod".to_owned(),
                    cpus: 1.5,
                    periods: at * 10,
                    throttled_periods: 0,
                    throttled_ns: 0,
                }],
                ..Look::default()
            });
        }
        Seen {
            pid: 7,
            name: "main".to_owned(),
            command: None,
            started: "2026-11-27T00:00:00Z".to_owned(),
            interval: Duration::from_secs(1),
            course,
            capacity: Capacity {
                allowed: 2.0,
                quota: Some(1.5),
            },
            memory_limit_kib: None,
            ending: Ending::Over,
            task: Some(Err("why".to_owned())),
            lacks: vec!["something".to_owned()],
            own_process_cpu: Duration::ZERO,
            ended: None,
        }
    }

    #[test]
    fn a_person_reads_the_figures_the_verdicts_and_what_is_not_known() {
        let said = text(&seen());
        for part in [
            "process        7 `main`: 1 process, 5 threads; 6 looks in 5.0 s\n",
            "CPUs           0.99 of 1.50 that a quota grants (of 2 CPUs)\n",
            "switches       10 a second: 10 % voluntary (the thread waited), 90 % involuntary (",
            "memory         2.00 MiB resident\n",
            "quota          1.50 CPUs of /pod: used up in 0 of 50 periods\n",
            "a task         not known: why\n",
            "\nCPU-bound: It kept 0.99 CPUs busy",
            "\nPool larger than ever used: None of 4 threads `worker-*` was given a CPU in 5 s.",
            "\n  What cannot be told: ",
            "\nBy group of threads\ngroup     threads  running",
            "given a CPU, a second  voluntary  involuntary\nmain ",
            "  10 %       90 %\nworker-* ",
            "  –          –\n\nThe busiest threads\n",
            "\nObserving took 0 % of a CPU (below the 1.0 % that it may).\nNot known: something\n",
        ] {
            assert!(said.contains(part), "no {part:?} in\n{said}");
        }
        assert!(!said.contains("has ended"), "{said}");
        let ended = Seen {
            ending: Ending::ProcessEnded,
            ..seen()
        };
        assert!(text(&ended).contains("has ended meanwhile"));
    }

    #[test]
    fn a_program_reads_the_same_figures() {
        let json = json(&seen());
        assert_eq!(json["capacity"]["cpus"], 1.5);
        assert!((json["cpus"].as_f64().unwrap() - 0.99).abs() < 1e-9);
        let kinds: Vec<&str> = json["verdicts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|verdict| verdict["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["cpu_bound", "one_thread", "pool_too_large"]);
        assert_eq!(json["groups"][1]["name"], "worker-*");
        assert_eq!(json["groups"][1]["waits"]["unknown"], 1.0);
        let names = ["voluntary_switches", "involuntary_switches"];
        let switches = |unit: &Value| names.map(|name| unit[name].as_u64());
        assert_eq!(switches(&json["groups"][0]), [Some(5), Some(45)]);
        assert_eq!(switches(&json["groups"][1]), [Some(0), Some(0)]);
        assert_eq!(switches(&json["all"]), switches(&json["threads"][0]));
        assert_eq!(
            (&json["thread_count"], &json["threads"][0]["tid"]),
            (&json!(5), &json!(7))
        );
        assert_eq!(json["intervals"].as_array().unwrap().len(), 5);
        assert_eq!((&json["ending"], &json["exit"]), (&json!("time"), &Value::Null));
        assert_eq!(json["task"]["not_known"], "why");
    }

    #[test]
    fn what_a_task_costs_is_told_with_its_interval_or_why_it_has_none() {
        let figure = |value_ns, ci95_ns| Figure { value_ns, ci95_ns };
        let cost = |ci| TaskCost {
            tasks: 4_000.0,
            per_second: 100.0,
            looks: 12,
            cpu: figure(1.5e6, ci),
            wanted: figure(2e5, None),
            waits: vec![(WaitKind::Poll, figure(5e6, None))],
            all_waits: figure(5e6, None),
            held_up: figure(0.0, None),
        };
        let says = |ci| {
            let rows = task_rows(&cost(ci));
            rows.into_iter()
                .map(|(name, says)| format!("{name}: {says}\n"))
                .collect::<String>()
        };
        let with = says(Some([1.4e6, 1.6e6]));
        assert!(
            with.contains("a task: CPU 1.50 [1.40, 1.60] ms, waiting for a CPU 200 µs\n"),
            "{with}"
        );
        assert!(
            with.contains("for each task poll 5.00 ms\n") && !with.contains("no interval"),
            "{with}"
        );
        assert!(says(None).contains("it needs 20 looks with tasks in most of them, and there were 12"));
    }

    #[test]
    fn this_process_can_be_shown() {
        let mut sampler = Sampler::new(std::process::id().cast_signed()).unwrap();
        let mut course = Course::default();
        course.add(sampler.look().unwrap());
        course.add(sampler.look().unwrap());
        let shown = Seen { course, ..seen() };
        assert!(text(&shown).contains("Too short to judge"));
        assert!(
            json(&shown)["threads"]
                .as_array()
                .is_some_and(|threads| !threads.is_empty())
        );
    }
}
