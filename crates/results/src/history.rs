//! Many runs in the order of time: each figure's course, and where it changed.
//!
//! A figure is the median of a case's first primary metric, as in a comparison; the unit of analysis is a run. Runs of
//! different machines have histories of their own; a kernel or a setting that changed is said beside the run from which
//! on it was so, since that is what people look for.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use threadgauge_stats::{BAND, FEWEST_FOR_CHANGES, change_points, median};

use crate::compare::is_emulated;
use crate::{ALPHA, Results, machine_differences};

/// Seeds the permutations, so that one history always says the same.
const SEED: u64 = 2014;

/// The runs of one machine, the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// CPU, how many, and hypervisor: what makes it one machine.
    pub machine: String,
    /// Whether the processor is a program, whose times are not a machine's.
    pub emulated: bool,
    /// The oldest first.
    pub runs: Vec<HistoryRun>,
    /// One a case that any of them measured, in the order of the newest run that has it.
    pub courses: Vec<Course>,
}

/// A run of a history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryRun {
    /// How the reader knows it: its folder.
    pub name: String,
    /// Its id.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// Of the program.
    pub version: String,
    /// `quick`, `standard` or `paper`.
    pub profile: String,
    /// Whether every planned round was measured.
    pub complete: bool,
    /// What differs from the run before: version, kernel, settings.
    pub differs: Vec<String>,
}

/// A figure over the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Course {
    /// Of which case.
    pub case: String,
    /// Of which metric.
    pub metric: String,
    /// The metric's unit.
    pub unit: String,
    /// One a run that has the figure.
    pub points: Vec<HistoryPoint>,
    /// Where its level changed; none where there are fewer than [`FEWEST_RUNS`] points.
    pub changes: Vec<Change>,
}

/// Of fewer figures it says nothing that most of them moved together.
const FEWEST_TOGETHER: usize = 4;

/// With fewer runs no change can be told from chance.
pub const FEWEST_RUNS: usize = FEWEST_FOR_CHANGES;

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HistoryPoint {
    /// The place of the run in the history.
    pub run: usize,
    /// The figure.
    pub median: f64,
    /// Its interval within the run.
    pub ci95: Option<[f64; 2]>,
}

/// A new level of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The place of the first run of the new level.
    pub run: usize,
    /// The median of the level before.
    pub before: f64,
    /// That of the new one.
    pub after: f64,
    /// The new one over the one before.
    pub ratio: f64,
    /// How often chance alone would split the course so well.
    pub p: f64,
    /// `slower`, `faster` or, within 3 %, `small`.
    pub verdict: &'static str,
}

impl Course {
    /// Whether changes were looked for.
    #[must_use]
    pub fn is_long_enough(&self) -> bool {
        self.points.len() >= FEWEST_RUNS
    }

    /// The level that it has now.
    #[must_use]
    pub fn now(&self) -> Option<f64> {
        let level = self.changes.last().map(|change| change.after);
        let medians: Vec<f64> = self.points.iter().map(|point| point.median).collect();
        level.or_else(|| median(&medians).ok())
    }
}

impl History {
    /// Of how many figures changes were looked for.
    #[must_use]
    pub fn judged(&self) -> usize {
        self.courses
            .iter()
            .filter(|course| course.is_long_enough())
            .count()
    }

    /// How many of those have a change point where nothing changed, by chance alone, at most.
    #[must_use]
    pub fn by_chance(&self) -> f64 {
        self.judged() as f64 * ALPHA
    }

    /// The runs from which on more than half of the judged figures moved the same way by more than 3 %, each with how
    /// many did: the machine's level moves all figures, and a change to one thing seldom does. None of a few figures.
    #[must_use]
    pub fn together(&self) -> Vec<(usize, usize)> {
        let judged = self.judged();
        if judged < FEWEST_TOGETHER {
            return Vec::new();
        }
        let most = |changes: &[(&Course, Change)]| {
            let of = |verdict: &str| changes.iter().filter(|(_, of)| of.verdict == verdict).count();
            of("slower").max(of("faster"))
        };
        let by_run = self.by_run().into_iter();
        let moved = by_run.map(|(run, changes)| (run, most(&changes)));
        moved.filter(|(_, moved)| 2 * moved > judged).collect()
    }

    /// What changed from which run on, by run, with the place of the figure; the largest change first.
    #[must_use]
    pub fn by_run(&self) -> BTreeMap<usize, Vec<(&Course, Change)>> {
        let mut by_run: BTreeMap<usize, Vec<(&Course, Change)>> = BTreeMap::new();
        for course in &self.courses {
            for change in &course.changes {
                by_run.entry(change.run).or_default().push((course, *change));
            }
        }
        for changes in by_run.values_mut() {
            let size = |change: &Change| change.ratio.ln().abs();
            changes.sort_by(|(_, a), (_, b)| size(b).total_cmp(&size(a)));
        }
        by_run
    }
}

/// The histories in these runs, each with its name: one a machine, that with most runs first. A run that is there twice
/// counts once.
#[must_use]
pub fn histories(runs: impl IntoIterator<Item = (String, Results)>) -> Vec<History> {
    let mut by_machine: BTreeMap<String, Vec<(String, Results)>> = BTreeMap::new();
    for (name, results) in runs {
        let of = by_machine.entry(machine(&results.machine)).or_default();
        if !of.iter().any(|(_, known)| known.run.id == results.run.id) {
            of.push((name, results));
        }
    }
    let mut all: Vec<History> = by_machine.into_iter().map(history).collect();
    all.sort_by_key(|history| std::cmp::Reverse(history.runs.len()));
    all
}

/// What makes two runs those of one machine.
fn machine(fingerprint: &Value) -> String {
    let text = |name: &str| fingerprint[name].as_str().map(str::to_owned);
    let cpus = fingerprint["cpus"]
        .as_u64()
        .map(|n| crate::units::counted(usize::try_from(n).unwrap_or(usize::MAX), "CPU"));
    let parts = [text("cpu_model"), cpus, text("hypervisor")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn history((machine, mut runs): (String, Vec<(String, Results)>)) -> History {
    runs.sort_by(|(_, a), (_, b)| a.run.started.cmp(&b.run.started));
    let before = [None].into_iter().chain(runs.iter().map(Some));
    let of_run = |((name, results), before): (&(String, Results), Option<&(String, Results)>)| HistoryRun {
        name: name.clone(),
        id: results.run.id.clone(),
        started: results.run.started.clone(),
        version: results.run.version.clone(),
        profile: results.run.profile.clone(),
        complete: results.run.complete,
        differs: before.map_or_else(Vec::new, |(_, before)| differences(before, results)),
    };
    History {
        machine,
        emulated: runs.iter().any(|(_, results)| is_emulated(&results.machine)),
        courses: courses(&runs),
        runs: runs.iter().zip(before).map(of_run).collect(),
    }
}

/// What differs from one run to the next, in words.
fn differences(before: &Results, now: &Results) -> Vec<String> {
    let mut differences = Vec::new();
    if before.run.version != now.run.version {
        differences.push(format!(
            "threadgauge is {} and was {}",
            now.run.version, before.run.version
        ));
    }
    // They speak of A and B.
    let of_machine = machine_differences(&before.machine, &now.machine).into_iter();
    differences.extend(of_machine.map(|says| {
        match says.split_once(" is ") {
            Some((fact, values)) => match values
                .strip_suffix(" in B")
                .and_then(|v| v.split_once(" in A and "))
            {
                Some((old, new)) => format!("{fact} is {new} and was {old}"),
                None => says,
            },
            None => says,
        }
    }));
    differences
}

fn courses(runs: &[(String, Results)]) -> Vec<Course> {
    let mut courses: Vec<Course> = Vec::new();
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    // The newest first, so that its order is that of all.
    for (run, (_, results)) in runs.iter().enumerate().rev() {
        for experiment in &results.experiments {
            let Some(metric) = experiment.primary_metrics.first() else {
                continue;
            };
            for case in &experiment.cases {
                let Some(of) = case.summaries.get(metric).filter(|of| of.median.is_finite()) else {
                    continue;
                };
                let point = HistoryPoint {
                    run,
                    median: of.median,
                    ci95: of.ci95,
                };
                let place = *places.entry((&case.id, metric)).or_insert(courses.len());
                if place == courses.len() {
                    courses.push(Course {
                        case: case.id.clone(),
                        metric: metric.clone(),
                        unit: of.unit.clone(),
                        points: Vec::new(),
                        changes: Vec::new(),
                    });
                }
                courses[place].points.push(point);
            }
        }
    }
    for course in &mut courses {
        course.points.reverse();
        course.changes = changes(&course.points);
    }
    courses
}

/// Where a course changes its level: by its logarithms, as comparisons do, where all are positive.
fn changes(points: &[HistoryPoint]) -> Vec<Change> {
    let medians: Vec<f64> = points.iter().map(|point| point.median).collect();
    if medians.iter().any(|value| *value <= 0.0) {
        return Vec::new();
    }
    let logarithms: Vec<f64> = medians.iter().map(|value| value.ln()).collect();
    let found = change_points(&logarithms, ALPHA, SEED);
    let mut edges = vec![0];
    edges.extend(found.iter().map(|of| of.at));
    edges.push(medians.len());
    let level = |from: usize, to: usize| median(&medians[from..to]).unwrap_or(f64::NAN);
    let change = |(i, of): (usize, &threadgauge_stats::ChangePoint)| {
        let (before, after) = (level(edges[i], of.at), level(of.at, edges[i + 2]));
        let ratio = after / before;
        Change {
            run: points[of.at].run,
            before,
            after,
            ratio,
            p: of.p,
            verdict: match ratio {
                slower if slower > 1.0 + BAND => "slower",
                faster if faster < 1.0 - BAND => "faster",
                _ => "small",
            },
        }
    };
    found.iter().enumerate().map(change).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A run of one day, of a case that took so long.
    fn run(day: u32, ns: f64) -> (String, Results) {
        let summary = json!({
            "unit": "ns", "n": 7, "median": ns, "ci95": [ns * 0.99, ns * 1.01], "ci_level": 0.984, "mean": ns,
            "trimmed_mean": ns, "min": ns, "max": ns, "cv": 0.0
        });
        let case = json!({
            "id": "create/unit=thread", "params": {"unit": "thread"}, "status": "ok", "reason": null, "tags": [],
            "summaries": {"ns": summary}
        });
        let experiment = json!({
            "id": "create", "question": "", "sources": [], "answer": "", "rounds": 7, "discarded": 0,
            "method": {"how": "", "control": "", "traps": [], "source": ""},
            "stopped_because": "rounds", "primary_metrics": ["ns"], "reference": null, "comparisons": [],
            "rankings": [], "diagnostics": [], "findings": [], "figures": [], "tables": [], "cases": [case]
        });
        let run = json!({
            "id": format!("id-{day}"), "started": format!("2026-11-{day:02}T10:00:00Z"), "profile": "quick", "seed": 1,
            "version": "0.1.0", "rounds": 7, "complete": true, "measured_s": 1.0, "options": []
        });
        let results = json!({
            "schema": 1, "run": run, "warnings": [], "experiments": [experiment],
            "machine": {"cpu_model": "A CPU", "cpus": 2, "hypervisor": "kvm", "kernel": "6.1"}
        });
        (format!("runs/{day}"), serde_json::from_value(results).unwrap())
    }

    /// Twelve days, of which the last five took a fifth longer; the latest first.
    fn slower_from_the_eighth() -> Vec<(String, Results)> {
        let ns = |day: u32| (1.0 + f64::from(day % 3) * 0.01) * if day < 8 { 100.0 } else { 120.0 };
        (1..=12).rev().map(|day| run(day, ns(day))).collect()
    }

    #[test]
    fn runs_are_in_the_order_of_time_and_a_figure_changes_where_it_did() {
        let [history] = &histories(slower_from_the_eighth())[..] else {
            panic!("one machine");
        };
        assert_eq!(history.machine, "A CPU, 2 CPUs, kvm");
        let names: Vec<&str> = history.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!((names[0], names[11]), ("runs/1", "runs/12"));
        let [course] = &history.courses[..] else {
            panic!("one figure");
        };
        let runs: Vec<usize> = course.points.iter().map(|point| point.run).collect();
        assert_eq!(runs, (0..12).collect::<Vec<_>>());
        let [change] = course.changes[..] else {
            panic!("{:?}", course.changes);
        };
        assert_eq!((change.run, change.verdict), (7, "slower"));
        assert!((change.ratio - 1.2).abs() < 0.02, "{change:?}");
        assert!((course.now().unwrap() - 121.2).abs() < 2.0);
        assert_eq!(history.by_run().keys().copied().collect::<Vec<_>>(), [7]);
        assert_eq!((history.judged(), history.by_chance()), (1, 0.05));
    }

    #[test]
    fn where_most_figures_move_the_same_way_they_move_together() {
        let with = |moved: &[f64]| {
            let mut history = histories(slower_from_the_eighth()).remove(0);
            let steady = Course {
                changes: Vec::new(),
                ..history.courses[0].clone()
            };
            let of = |ratio: &f64| {
                let mut course = history.courses[0].clone();
                course.changes[0].verdict = if *ratio > 1.0 { "slower" } else { "faster" };
                course
            };
            let mut courses: Vec<Course> = moved.iter().map(of).collect();
            courses.resize(5, steady);
            history.courses = courses;
            history.together()
        };
        assert_eq!(with(&[1.2, 1.2, 1.2]), [(7, 3)]);
        assert_eq!(with(&[0.8, 1.2, 0.8, 0.8]), [(7, 3)]);
        assert!(with(&[1.2, 1.2]).is_empty(), "that is not most of five");
        assert!(with(&[1.2, 1.2, 0.8, 0.8]).is_empty(), "not the same way");
        let one = &histories(slower_from_the_eighth())[0];
        assert!(one.together().is_empty(), "one figure is no majority");
    }

    #[test]
    fn a_history_of_an_emulated_processor_says_so() {
        let mut runs = slower_from_the_eighth();
        assert!(!histories(runs.clone())[0].emulated);
        for (_, results) in &mut runs {
            results.machine["hypervisor"] = json!("qemu-tcg");
        }
        assert!(histories(runs)[0].emulated);
    }

    #[test]
    fn a_course_has_its_gaps_and_one_that_is_short_has_no_changes() {
        let mut runs = slower_from_the_eighth();
        for (_, results) in &mut runs[2..8] {
            results.experiments[0].cases[0].summaries.clear();
        }
        let history = histories(runs).remove(0);
        let course = &history.courses[0];
        let of: Vec<usize> = course.points.iter().map(|point| point.run).collect();
        assert_eq!(of, [0, 1, 2, 3, 10, 11]);
        assert!(!course.is_long_enough() && course.changes.is_empty());
        assert_eq!(history.judged(), 0);
    }

    #[test]
    fn what_differs_from_the_run_before_is_said_and_another_machine_has_its_own_history() {
        let mut runs = slower_from_the_eighth();
        // The latest is the first.
        for (_, results) in &mut runs[..5] {
            results.machine["kernel"] = json!("6.18");
        }
        runs[0].1.run.version = "0.2.0".to_owned();
        runs[11].1.machine["cpu_model"] = json!("Another");
        let all = histories(runs);
        let machines: Vec<(&str, usize)> = all
            .iter()
            .map(|history| (history.machine.as_str(), history.runs.len()))
            .collect();
        assert_eq!(
            machines,
            [("A CPU, 2 CPUs, kvm", 11), ("Another, 2 CPUs, kvm", 1)]
        );
        let differs: Vec<&[String]> = all[0].runs.iter().map(|run| &run.differs[..]).collect();
        assert!(differs[0].is_empty());
        assert_eq!(differs[6], ["kernel is \"6.18\" and was \"6.1\""]);
        assert_eq!(differs[10], ["threadgauge is 0.2.0 and was 0.1.0"]);
    }

    #[test]
    fn a_run_that_is_there_twice_counts_once() {
        let mut runs = slower_from_the_eighth();
        runs.push(run(3, 100.0));
        assert_eq!(histories(runs)[0].runs.len(), 12);
        assert!(histories([]).is_empty());
    }

    #[test]
    fn what_is_not_above_zero_has_a_course_and_no_changes() {
        let mut runs = slower_from_the_eighth();
        let summaries = &mut runs[3].1.experiments[0].cases[0].summaries;
        summaries.get_mut("ns").unwrap().median = 0.0;
        let history = histories(runs).remove(0);
        assert_eq!(history.courses[0].points.len(), 12);
        assert!(history.courses[0].changes.is_empty());
    }
}
