//! Keeps what was seen of a program in a results folder, with the page that shows its course.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use threadgauge_lab::statistic::Metric as Declared;
use threadgauge_machine::observe::{Amounts, Interval, VerdictKind, WaitKind};
use threadgauge_machine::{allowed_cpus, fingerprint};
use threadgauge_results::{Metric, Params, RunRecord, Sample, Status};

use crate::commands::load::keep::{Timed, measured, stored};
use crate::commands::observe::experiment::{
    ALL, CPUS, ENDS_MS, IN_FUTEX, IN_OTHERS, INTERVALS, MACHINE_CPUS, MEMORY, OBSERVE, OF, OWN, RAN, RUNNING,
    SLICES, TASK_CPU, TASKS, THREADS, THROTTLED, THROTTLED_PERIODS, VERDICTS, WAITS, WANTED, WANTED_BY,
};
use crate::commands::observe::options::ObserveOptions;
use crate::commands::observe::seen::{Ending, Seen};
use crate::commands::observe::show::busiest_groups;
use crate::folder;

/// Groups that are kept by name over the whole time.
const MOST_GROUPS: usize = 20;
/// And those of which each interval is kept.
const MOST_COURSES: usize = 5;
/// Intervals that are kept; of more every second one, third one and so on.
const MOST_INTERVALS: usize = 240;

/// Writes the store and every report from it: the path of the one to open.
///
/// # Errors
///
/// If the folder cannot be written.
pub fn keep(dir: &Path, options: &ObserveOptions, seen: &Seen) -> Result<PathBuf> {
    let record = RunRecord {
        id: format!("{:06x}", fastrand::u32(..1 << 24)),
        started: seen.started.clone(),
        profile: "quick".to_owned(),
        // Nothing is left to chance.
        seed: 0,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rounds: Some(1),
        cpus: allowed_cpus()?.iter().collect(),
        handicap_percent: 0,
        options: options.as_asked(),
        in_turns_with: None,
        each: None,
        runtimes: Vec::new(),
    };
    let kept = [(OBSERVE.id, whole(seen)), (INTERVALS.id, intervals(seen))];
    let because = match seen.ending {
        Ending::Interrupted => "interrupted",
        Ending::Over | Ending::ProcessEnded => "rounds",
    };
    stored(dir, &record, &serde_json::to_value(fingerprint())?, kept, because)?;
    folder::write(&folder::read(dir)?, dir)?;
    Ok(dir.join("report.html"))
}

fn sample(metrics: Vec<Metric>) -> Sample {
    Sample {
        status: Status::Ok,
        reason: None,
        tags: Vec::new(),
        metrics,
        noise: BTreeMap::new(),
    }
}

/// Shares of the time of threads.
fn shares(amounts: &Amounts, seconds: f64) -> Vec<Metric> {
    let mut metrics = vec![
        measured(RUNNING, amounts.share(amounts.ran_ns)),
        measured(WANTED, amounts.share(amounts.wanted_ns)),
        measured(SLICES, amounts.slices / seconds),
    ];
    let waits = WaitKind::ALL.into_iter().zip(WAITS);
    metrics.extend(waits.map(|(kind, metric)| measured(metric, amounts.share(amounts.of(kind)))));
    metrics
}

/// All threads and each group, over the whole time.
fn whole(seen: &Seen) -> Vec<Timed> {
    let course = &seen.course;
    let elapsed_ns = course.elapsed_ns();
    let seconds = elapsed_ns.max(1) as f64 / 1e9;
    let mut metrics = vec![measured(CPUS, course.cpus()), measured(OWN, course.own_share())];
    metrics.extend(course.machine_cpus().map(|cpus| measured(MACHINE_CPUS, cpus)));
    metrics.extend(
        course
            .last()
            .map(|look| measured(MEMORY, look.rss_kib as f64 * 1_024.0)),
    );
    let threads: usize = course.groups().iter().map(|group| group.threads).sum();
    metrics.push(measured(THREADS, threads as f64));
    metrics.extend(shares(course.amounts(), seconds));
    let throttled = course
        .quotas()
        .iter()
        .map(|quota| quota.throttled())
        .reduce(f64::max);
    metrics.extend(throttled.map(|share| measured(THROTTLED, share)));
    let holds: BTreeSet<VerdictKind> = seen.verdicts().iter().map(|verdict| verdict.kind).collect();
    let verdicts = VerdictKind::ALL.into_iter().zip(VERDICTS);
    metrics
        .extend(verdicts.map(|(kind, metric)| measured(metric, f64::from(u8::from(holds.contains(&kind))))));
    if let Some(Ok(cost)) = &seen.task {
        metrics.push(measured(TASK_CPU, cost.cpu.value_ns));
        metrics.push(measured(TASKS, cost.per_second));
    }
    let mut all = vec![(Params::new().with(OF, ALL), sample(metrics), elapsed_ns)];
    let names = names(seen);
    for (place, group) in busiest_groups(seen).into_iter().take(MOST_GROUPS) {
        let mut metrics = vec![
            measured(CPUS, course.per_ns(group.amounts.ran_ns)),
            measured(THREADS, group.most_threads as f64),
        ];
        metrics.extend(shares(&group.amounts, seconds));
        let params = Params::new().with(OF, &*names[place]);
        // Their time is that of all.
        all.push((params, sample(metrics), 0));
    }
    all
}

/// Each interval of all threads and of the busiest groups, as a sample of its own case.
fn intervals(seen: &Seen) -> Vec<Timed> {
    let course = &seen.course;
    let step = course.intervals().len().div_ceil(MOST_INTERVALS).max(1);
    let first_ns = course.intervals().first().map_or(0, |interval| interval.from_ns);
    let kept = course.intervals().iter().step_by(step);
    let names = names(seen);
    let groups: Vec<usize> = busiest_groups(seen)
        .into_iter()
        .take(MOST_COURSES)
        .map(|(place, _)| place)
        .collect();
    let mut all = Vec::new();
    // Two that end in one millisecond are one case.
    let mut known = BTreeSet::new();
    for interval in kept {
        let ends_ms = interval.to_ns.saturating_sub(first_ns) / 1_000_000;
        if !known.insert(ends_ms) {
            continue;
        }
        let params = |of: &str| Params::new().with(OF, of).with(ENDS_MS, ends_ms);
        let mut metrics = vec![
            measured(CPUS, interval.cpus()),
            measured(THREADS, interval.threads as f64),
            measured(MEMORY, interval.rss_kib as f64 * 1_024.0),
            measured(THROTTLED_PERIODS, interval.throttled_periods as f64),
        ];
        let machine = interval.machine_ns.map(|ns| each(interval, ns as f64));
        metrics.extend(machine.map(|cpus| measured(MACHINE_CPUS, cpus)));
        metrics.extend(states(interval, &interval.amounts));
        all.push((params(ALL), sample(metrics), 0));
        for (place, amounts) in interval
            .by_group
            .iter()
            .filter(|(place, _)| groups.contains(place))
        {
            all.push((params(&names[*place]), sample(states(interval, amounts)), 0));
        }
    }
    all
}

/// How many threads were in each state, on average.
fn states(interval: &Interval, amounts: &Amounts) -> Vec<Metric> {
    let futex_ns = amounts.of(WaitKind::Futex);
    let of: [(Declared, f64); 4] = [
        (RAN, amounts.ran_ns),
        (WANTED_BY, amounts.wanted_ns),
        (IN_FUTEX, futex_ns),
        (IN_OTHERS, (amounts.waited_ns() - futex_ns).max(0.0)),
    ];
    of.map(|(metric, ns)| measured(metric, each(interval, ns)))
        .to_vec()
}

/// An amount of time for each nanosecond of an interval.
fn each(interval: &Interval, amount_ns: f64) -> f64 {
    amount_ns / interval.length_ns().max(1) as f64
}

/// The names of groups as parameters: what separates these may be in a name, and no two may be alike.
fn names(seen: &Seen) -> Vec<String> {
    let mut known = BTreeSet::from([ALL.to_owned()]);
    let groups = seen.course.groups().iter().enumerate();
    let names = groups.map(|(place, group)| {
        let may_stay = |c: char| c.is_alphanumeric() || "-_.*:#+()".contains(c);
        let name: String = group
            .name
            .chars()
            .map(|c| if may_stay(c) { c } else { '_' })
            .collect();
        // A number would be read back as one, and so would none.
        let is_a_word = name.parse::<u64>().is_err() && !name.is_empty();
        let name = if is_a_word { name } else { format!("thread-{name}") };
        match known.insert(name.clone()) {
            true => name,
            false => {
                let other = format!("{name}.{place}");
                known.insert(other.clone());
                other
            }
        }
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;
    use threadgauge_machine::observe::{Capacity, Course, Look, ThreadKey, ThreadLook};

    use super::*;
    use crate::cli::{Cli, Command};

    /// Looks at threads of these names, a quarter of a second apart.
    fn seen(names: &[&str], looks: u64) -> Seen {
        let mut course = Course::default();
        for at in 0..looks {
            let thread = |(tid, name): (usize, &&str)| ThreadLook {
                key: ThreadKey {
                    pid: 1,
                    tid: tid as i32 + 1,
                    start_ticks: 1,
                },
                name: (*name).to_owned(),
                ran_ns: at * 100_000_000,
                waited_ns: Some(0),
                slices: Some(at),
                age_ns: u64::MAX,
                ..ThreadLook::default()
            };
            course.add(Look {
                at_ns: at * 250_000_000,
                processes: 1,
                threads: names.iter().enumerate().map(thread).collect(),
                ..Look::default()
            });
        }
        Seen {
            pid: 1,
            name: "main".to_owned(),
            command: None,
            started: "2026-11-27T00:00:00Z".to_owned(),
            interval: Duration::from_millis(250),
            course,
            capacity: Capacity {
                allowed: 2.0,
                quota: None,
            },
            memory_limit_kib: None,
            ending: Ending::Over,
            task: None,
            lacks: Vec::new(),
            own_process_cpu: Duration::ZERO,
            ended: None,
        }
    }

    #[test]
    fn names_of_groups_are_words_and_no_two_are_alike() {
        let of = names(&seen(&["a,b=c", "a_b=c", "all", "42", "GC Thread#1"], 1));
        assert_eq!(of, ["a_b_c", "a_b_c.1", "all.2", "thread-42", "GC_Thread#1"]);
    }

    #[test]
    fn of_a_long_course_so_many_intervals_are_kept_that_a_chart_can_show_them() {
        let kept = intervals(&seen(&["main"], 1_000));
        let of_all = kept
            .iter()
            .filter(|(params, ..)| params.text(OF) == Some(ALL))
            .count();
        assert!((100..=MOST_INTERVALS).contains(&of_all), "{of_all}");
        assert_eq!(kept.len(), 2 * of_all);
    }

    #[test]
    fn what_was_seen_is_kept_and_reads_back_as_a_report() {
        let dir = tempfile::tempdir().unwrap();
        let words = ["threadgauge", "observe", "1"];
        let Some(Command::Observe(options)) = Cli::parse_from(words).command else {
            panic!("{words:?}");
        };
        let report = keep(dir.path(), &options, &seen(&["main", "worker-1", "worker-2"], 20)).unwrap();
        let page = std::fs::read_to_string(report).unwrap();
        for part in [
            "Why is this program as fast as it is?",
            "worker-*",
            "What its threads did",
        ] {
            assert!(page.contains(part), "no {part}");
        }
        let data = folder::read(dir.path()).unwrap();
        let ids: Vec<&str> = data.results.experiments.iter().map(|of| &*of.id).collect();
        assert_eq!(ids, [OBSERVE.id, INTERVALS.id]);
    }
}
