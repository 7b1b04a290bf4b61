//! `advise --measure`: a twin of the workload, run in the advised way, its neighbours, the user's own and those of
//! rules of thumb, by the same harness as every experiment. What is measured overrides what was predicted.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use threadgauge_advise::advice::Advice;
use threadgauge_advise::choose::{AS_GOOD, Goal, is_allowed, unseen_s};
use threadgauge_advise::design::{Candidate, Design, Machine, Order};
use threadgauge_advise::workload::{Coming, Workload};
use threadgauge_experiments::twin::{ELAPSED, MEAN, P99, TWIN, way};
use threadgauge_lab::selection::Selector;
use threadgauge_results::units::{capitalised, count, counted, percent, with_unit};
use threadgauge_results::{MetricSummary, RunData};

use crate::cli::RunOptions;
use crate::commands::run::run_then;
use crate::output::{Verdict, say};

/// No run of a twin takes longer, s.
const LONGEST_S: f64 = 3.0;
/// No task of a twin is shorter, s: what units cost would be all of it.
const SHORTEST_S: f64 = 100e-6;
/// So many tasks tell as much as more.
const MOST_TASKS: usize = 200;
/// For a quantile of 99 % as many are needed.
const FOR_P99: usize = 1_000;
/// So many ways at most.
const MOST_WAYS: usize = 9;

/// What is measured, and how often.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Rounds.
    pub rounds: u32,
    /// The results folder.
    pub out: Option<PathBuf>,
    /// These numbers at once in place of the usual ways.
    pub degrees: Vec<usize>,
}

/// A twin, as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Tasks of a run.
    pub tasks: usize,
    /// By so much their lengths were made shorter.
    pub scale: f64,
    /// A row for each way.
    pub ways: Vec<Row>,
    /// The fewest at once that are as good as the best, of those that the workload allows.
    pub best: Option<String>,
    /// Whether that is what was predicted.
    pub confirms: bool,
    /// Why what was advised was not measured; none where it was.
    pub unmeasured: Option<String>,
    /// The goal for 99 of 100, as much shorter as the tasks, s.
    #[serde(skip)]
    goal_s: Option<f64>,
    /// By so much a way may be longer than the best and be as good, as much shorter, s.
    #[serde(skip)]
    unseen_s: f64,
}

/// A way, measured and predicted by what the workload's goal is: the time until all are done, the mean of what a task
/// takes, or what 99 of 100 do not exceed; s.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The value of the parameter `way`.
    pub way: String,
    /// In plain words.
    pub says: String,
    /// Tasks at once; in the twin of a longer list fewer in proportion.
    pub at_once: usize,
    /// Whether the workload allows it: isolation, a person who waits.
    pub is_allowed: bool,
    /// The median of rounds.
    pub measured_s: f64,
    /// Its interval.
    pub measured_ci95_s: Option<[f64; 2]>,
    /// What arithmetic says of the same tasks; none where it does not keep up.
    pub predicted_s: Option<f64>,
    /// Its interval, for 9 of 10.
    pub predicted_90_s: Option<[f64; 2]>,
    /// 99 of 100 did not exceed this.
    pub p99_s: Option<f64>,
}

/// A workload made short enough to be measured.
#[derive(Debug, Clone, PartialEq)]
struct Twin {
    workload: Workload,
    tasks: usize,
    scale: f64,
}

/// So many tasks has a twin.
pub fn tasks(workload: &Workload) -> usize {
    match workload.coming {
        Coming::Batch(tasks) => tasks.min(MOST_TASKS),
        Coming::Rate(_) if workload.goal_s.is_some() => FOR_P99,
        Coming::Rate(_) => MOST_TASKS,
    }
}

impl Twin {
    fn of(workload: &Workload) -> Self {
        let tasks = tasks(workload);
        let one_s = workload.cpu_s + workload.wait_s;
        let span_s = match workload.coming {
            Coming::Batch(_) => tasks as f64 * one_s,
            Coming::Rate(rate) => tasks as f64 / rate + one_s,
        };
        let scale = (LONGEST_S / span_s).min(1.0);
        let coming = match workload.coming {
            Coming::Batch(_) => Coming::Batch(tasks),
            Coming::Rate(rate) => Coming::Rate(rate / scale),
        };
        let workload = Workload {
            coming,
            // As the twin has them: whole microseconds.
            cpu_s: micros(workload.cpu_s * scale) as f64 * 1e-6,
            wait_s: micros(workload.wait_s * scale) as f64 * 1e-6,
            ..workload.clone()
        };
        Self {
            workload,
            tasks,
            scale,
        }
    }

    /// In which it differs from the workload, for a person.
    fn says(&self, workload: &Workload) -> String {
        let fewer = match workload.coming {
            Coming::Batch(all) if all > self.tasks => {
                format!(" in place of {}, with fewer at once in proportion", count(all))
            }
            _ => String::new(),
        };
        let shorter = match self.scale {
            1.0 => String::new(),
            scale => format!(
                ", each {} times shorter so that no run takes more than 3 s",
                with_unit(1.0 / scale, None, "ratio")
            ),
        };
        format!(
            "A twin of the workload: {}{fewer}{shorter}",
            counted(self.tasks, "task")
        )
    }

    /// The parameters of the twin's cases.
    fn set(&self, ways: &[String]) -> Result<Selector> {
        let of = &self.workload;
        let rate = match of.coming {
            Coming::Batch(_) => 0,
            Coming::Rate(rate) => (rate * 1_000.0).round() as u64,
        };
        let text = format!(
            "way={},tasks={},cpu_us={},wait_us={},spread_percent={},lock_permille={},inner_threads={},memory_kib={},\
             per_1000_s={rate}",
            ways.join(","),
            self.tasks,
            micros(of.cpu_s),
            micros(of.wait_s),
            (of.spread * 100.0).round() as u64,
            (of.lock * 1_000.0).round() as u64,
            of.inner_threads,
            (of.memory_bytes / 1_024.0).round() as u64,
        );
        text.parse().context("the twin's parameters")
    }
}

fn micros(s: f64) -> u64 {
    (s * 1e6).round() as u64
}

/// Refuses what a twin cannot be.
pub fn check(workload: &Workload, machine: &Machine, here: &Machine) -> Result<()> {
    if let Some(why) = workload.lacks_twin() {
        bail!("--measure: {why}");
    }
    let twin = Twin::of(workload).workload;
    ensure!(
        twin.cpu_s + twin.wait_s >= SHORTEST_S,
        "--measure: tasks come so seldom that {} of them in 3 s would be shorter than 0.1 ms each; none of them meets another, \
         so there is nothing to measure but one task alone: leave --measure away",
        tasks(workload)
    );
    ensure!(
        machine.cpus == here.cpus && machine.quota == here.quota,
        "--measure measures this machine: leave --cpu-count, --quota and --from away, and take --like of a process that may \
         use all of it"
    );
    Ok(())
}

/// Measures. `None` if somebody ended it before there was a figure.
pub fn measure(
    advice: &Advice,
    machine: &Machine,
    asked: &Asked,
    predict: &dyn Fn(&Workload, Candidate) -> Option<[f64; 3]>,
) -> Result<(Option<Measured>, Verdict)> {
    let twin = Twin::of(&advice.workload);
    let tried = tried(advice, machine, &twin, asked);
    let ways: Vec<String> = tried.iter().map(|tried| tried.way.clone()).collect();
    say(&format!(
        "{}, in {}",
        twin.says(&advice.workload),
        counted(ways.len(), "variant")
    ));
    let options = RunOptions {
        experiments: vec![TWIN.id.to_owned()],
        set: vec![twin.set(&ways)?],
        rounds: Some(asked.rounds),
        out: asked.out.clone(),
        ..RunOptions::default()
    };
    let mut measured = None;
    let verdict = run_then(&options, |data| {
        measured = read(data, &twin, &tried, predict);
        Ok(())
    })?;
    Ok((measured, verdict))
}

/// A way as the user would have it, and its twin.
struct Tried {
    candidate: Candidate,
    /// In plain words.
    says: String,
    twin: Candidate,
    /// The twin's, as a parameter.
    way: String,
}

impl Tried {
    /// None where the twin has no such way.
    fn of(candidate: Candidate, workload: &Workload, machine: &Machine, twin: &Twin) -> Option<Self> {
        let is_list = matches!(workload.coming, Coming::Batch(_));
        let has_it = candidate.order == Order::Given
            && match candidate.design {
                Design::Threads | Design::ThreadEach => !workload.language.computes_alone(),
                Design::Processes => is_list && workload.lock == 0.0,
                _ => true,
            };
        if !has_it {
            return None;
        }
        let cpus = machine.cpus.ceil() as usize;
        let at_once = match workload.coming {
            _ if candidate.design.comes_and_goes() => twin.tasks,
            // The same share of a list that was made shorter, but no fewer than keep the CPUs busy.
            Coming::Batch(all) if all > twin.tasks => {
                let share = candidate.at_once as f64 * twin.tasks as f64 / all as f64;
                (share.ceil() as usize).max(candidate.at_once.min(2 * cpus + 1))
            }
            _ => candidate.at_once,
        };
        let design = match candidate.design {
            // A pool of one is one after the other.
            Design::Threads | Design::Async | Design::Background if at_once == 1 => Design::Serial,
            design => design,
        };
        let twin = Candidate {
            design,
            at_once: at_once.min(twin.tasks),
            order: Order::Given,
        };
        Some(Self {
            candidate,
            says: candidate.says(workload),
            twin,
            way: way(twin)?,
        })
    }
}

/// The advised way and its neighbours, one worker, the user's own and those of rules of thumb; each twin once.
fn tried(advice: &Advice, machine: &Machine, twin: &Twin, asked: &Asked) -> Vec<Tried> {
    let workload = &advice.workload;
    let advised = advice.advised.as_ref().map(|advised| advised.candidate);
    let pool = match advised.map(|advised| advised.design) {
        Some(design) if design.has_processes() => Design::Processes,
        Some(Design::Async) => Design::Async,
        _ if workload.language.computes_alone() => Design::Processes,
        _ => Design::Threads,
    };
    // What rules of thumb say is said of threads or of processes.
    let kind = match pool {
        Design::Processes => Design::Processes,
        _ => Design::Threads,
    };
    let cpus = (machine.cpus.round() as usize).max(1);
    let most = match workload.coming {
        Coming::Batch(all) => all,
        Coming::Rate(_) => twin.tasks,
    };
    let mut all: Vec<Candidate> = advised.into_iter().collect();
    all.push(Candidate::new(Design::Serial, 1));
    if asked.degrees.is_empty() {
        let at_once = advised.map_or(1, |advised| advised.at_once);
        let neighbours = [at_once.div_ceil(2), at_once.saturating_mul(2), cpus];
        all.extend(neighbours.iter().map(|&degree| Candidate::new(pool, degree)));
        let thumbs = advice.thumbs.iter().filter_map(|thumb| thumb.at_once);
        let others = workload.now.into_iter().chain([2 * cpus + 1]).chain(thumbs);
        all.extend(others.map(|degree| Candidate::new(kind, degree)));
        all.extend((kind == Design::Threads).then(|| Candidate::new(Design::ThreadEach, most)));
    } else {
        all.extend(asked.degrees.iter().map(|&degree| Candidate::new(pool, degree)));
    }
    let sensible = |of: &Candidate| of.at_once <= most || of.design.comes_and_goes() || Some(*of) == advised;
    let mut kept: Vec<Tried> = Vec::new();
    for candidate in all.into_iter().filter(sensible) {
        let tried = Tried::of(candidate, workload, machine, twin);
        kept.extend(tried.filter(|tried| kept.iter().all(|other| other.way != tried.way)));
    }
    if asked.degrees.is_empty() {
        kept.truncate(MOST_WAYS);
    }
    kept
}

fn read(
    data: &RunData,
    twin: &Twin,
    tried: &[Tried],
    predict: &dyn Fn(&Workload, Candidate) -> Option<[f64; 3]>,
) -> Option<Measured> {
    let of = data
        .results
        .experiments
        .iter()
        .find(|experiment| experiment.id == TWIN.id)?;
    let metric = match Goal::of(&twin.workload) {
        Goal::Elapsed => ELAPSED,
        Goal::Completion | Goal::Response => MEAN,
        Goal::InTime => P99,
    };
    let row = |tried: &Tried| {
        let case = of.cases.iter().find(|case| {
            case.params
                .get("way")
                .is_some_and(|value| value.to_string() == tried.way)
        })?;
        let summary = |name: &str| case.summaries.get(name);
        let figure: &MetricSummary = summary(metric.name)?;
        let predicted = predict(&twin.workload, tried.twin);
        Some(Row {
            way: tried.way.clone(),
            says: tried.says.clone(),
            at_once: tried.candidate.at_once,
            is_allowed: is_allowed(tried.candidate, &twin.workload),
            measured_s: figure.median * 1e-9,
            measured_ci95_s: figure.ci95.map(|ends| ends.map(|ns| ns * 1e-9)),
            predicted_s: predicted.map(|[_, value, _]| value),
            predicted_90_s: predicted.map(|[low, _, high]| [low, high]),
            p99_s: summary(P99.name).map(|figure| figure.median * 1e-9),
        })
    };
    let ways: Vec<Row> = tried.iter().filter_map(row).collect();
    if ways.is_empty() {
        return None;
    }
    Some(Measured {
        tasks: twin.tasks,
        scale: twin.scale,
        best: None,
        confirms: false,
        unmeasured: None,
        goal_s: twin.workload.goal_s.map(|goal_s| goal_s * twin.scale),
        unseen_s: unseen_s(&twin.workload) * twin.scale,
        ways,
    })
}

/// What was measured, for a person.
#[must_use]
pub fn text(measured: &Measured) -> String {
    let time =
        |s: f64, ends: Option<[f64; 2]>| with_unit(s * 1e9, ends.map(|ends| ends.map(|s| s * 1e9)), "ns");
    let mut text = match (&measured.best, &measured.unmeasured) {
        (_, Some(why)) => format!("Measured:        not what is advised, which stays: {why}.\n"),
        (Some(best), None) if measured.confirms => format!(
            "Measured:        {}. That is what was advised.\n",
            capitalised(best)
        ),
        (Some(best), None) => format!(
            "Measured:        {}. Take that: what is measured overrides the arithmetic.\n",
            capitalised(best)
        ),
        (None, None) => "Measured:        nothing that the workload allows.\n".to_owned(),
    };
    for row in &measured.ways {
        let predicted = match row.predicted_s {
            Some(s) => format!(
                "arithmetic says {} ({} of it measured)",
                time(s, row.predicted_90_s),
                percent(row.measured_s / s)
            ),
            None => "arithmetic says that it does not keep up".to_owned(),
        };
        let allowed = if row.is_allowed {
            ""
        } else {
            " (not what you asked for)"
        };
        text += &format!(
            "  - {}{allowed}: {}; {predicted}\n",
            row.says,
            time(row.measured_s, row.measured_ci95_s)
        );
    }
    text
}

impl Measured {
    /// Sets it against what was advised: none where nothing keeps up.
    pub fn set_against(&mut self, advised: Option<&str>) {
        let allowed = || self.ways.iter().filter(|row| row.is_allowed);
        let least = allowed().map(|row| row.measured_s).fold(f64::INFINITY, f64::min);
        let in_time = |row: &Row| self.goal_s.is_some_and(|goal_s| row.measured_s <= goal_s);
        let some_in_time = allowed().any(in_time);
        let is_as_good =
            |row: &Row| row.measured_s <= least * (1.0 + AS_GOOD) || row.measured_s - least < self.unseen_s;
        let is_good = |row: &&Row| match some_in_time {
            true => in_time(row),
            false => is_as_good(row),
        };
        let best = allowed().filter(is_good).min_by_key(|row| row.at_once);
        let own = advised.and_then(|says| self.ways.iter().find(|row| row.says == says));
        let confirmed = own.filter(is_good);
        let unmeasured = advised.filter(|_| own.is_none()).map(|says| {
            format!(
                "the twin has no way like {says} for such tasks. Its threads compute at once, whatever the language; its \
                 processes take a list that is there at the start and shares no lock; it knows no stages and no order but \
                 the one given"
            )
        });
        let best = confirmed.or(best).map(|row| row.says.clone());
        self.confirms = confirmed.is_some();
        self.best = best;
        self.unmeasured = unmeasured;
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_advise::quantity::{Bytes, Count, Rate, Share};
    use threadgauge_advise::workload::Language;
    use threadgauge_advise::{Basis, Description, advise};

    use super::*;

    const HERE: Machine = Machine {
        cpus: 2.0,
        quota: None,
        memory_bytes: Some(8e9),
    };

    fn workload(said: Description) -> Workload {
        Workload::of(&said).unwrap()
    }

    fn fetches() -> Description {
        Description {
            tasks: Some(Count(500)),
            wait_s: Some(0.12),
            ..Description::default()
        }
    }

    fn ways(workload: &Workload) -> (Option<String>, Vec<(usize, String)>) {
        let advice = advise(workload, &HERE, &Basis::shipped("none"), None);
        let asked = Asked {
            rounds: 6,
            out: None,
            degrees: Vec::new(),
        };
        let tried = tried(&advice, &HERE, &Twin::of(workload), &asked);
        let all = tried
            .into_iter()
            .map(|tried| (tried.candidate.at_once, tried.way));
        (advice.advised.map(|advised| advised.says), all.collect())
    }

    #[test]
    fn a_longer_list_has_as_many_fewer_at_once_in_its_twin() {
        let (_, ways) = ways(&workload(fetches()));
        assert_eq!(ways[0], (500, "threads-200".to_owned()), "{ways:?}");
        assert!(ways.contains(&(250, "threads-100".to_owned())), "{ways:?}");
        // Fewer would not keep the CPUs busy.
        assert!(ways.contains(&(5, "threads-5".to_owned())), "{ways:?}");
        assert!(ways.contains(&(500, "thread-each-1".to_owned())), "{ways:?}");
    }

    #[test]
    fn what_would_take_a_day_is_made_shorter_and_that_is_said() {
        let day = workload(Description {
            tasks: Some(Count(1_000)),
            cpu_s: Some(60.0),
            wait_s: Some(30.0),
            ..Description::default()
        });
        let twin = Twin::of(&day);
        let takes_s = twin.tasks as f64 * (twin.workload.cpu_s + twin.workload.wait_s);
        assert!((takes_s / LONGEST_S - 1.0).abs() < 0.01, "{takes_s} s");
        assert_eq!(
            twin.says(&day),
            "A twin of the workload: 200 tasks in place of 1000, with fewer at once in proportion, each 6000 times shorter \
             so that no run takes more than 3 s"
        );
    }

    #[test]
    fn threads_that_compute_in_turn_have_no_twin_and_what_is_isolated_is_processes() {
        let python = workload(Description {
            language: Some(Language::Python),
            ..fetches()
        });
        let (_, of_python) = ways(&python);
        assert!(
            of_python.iter().all(|(_, way)| !way.contains("thread")),
            "{of_python:?}"
        );
        let isolated = workload(Description {
            isolate: true,
            memory: Some(Bytes(1e6)),
            ..fetches()
        });
        let (_, of_isolated) = ways(&isolated);
        let others = of_isolated.iter().filter(|(_, way)| way != "serial-1");
        assert!(others.clone().count() > 2, "{of_isolated:?}");
        assert!(
            others.clone().all(|(_, way)| way.starts_with("processes")),
            "{of_isolated:?}"
        );
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_the_reason() {
        let refused = |said: Description| check(&workload(said), &HERE, &HERE).unwrap_err().to_string();
        let seldom = Description {
            rate: Some(Rate {
                per_second: 1.0 / 86_400.0,
            }),
            cpu_s: Some(0.2),
            ..Description::default()
        };
        assert!(refused(seldom).contains("so seldom"));
        let limited = Description {
            limit: Some(Count(5)),
            lock: Some(Share(0.2)),
            ..fetches()
        };
        assert!(refused(limited).contains("no limit of others"));
        assert!(check(&workload(fetches()), &HERE, &HERE).is_ok());
    }

    #[test]
    fn what_was_not_measured_is_not_overridden_and_what_is_not_allowed_is_not_best() {
        let row = |says: &str, at_once, measured_s, is_allowed| Row {
            way: says.to_owned(),
            says: says.to_owned(),
            at_once,
            is_allowed,
            measured_s,
            measured_ci95_s: None,
            predicted_s: None,
            predicted_90_s: None,
            p99_s: None,
        };
        let mut measured = Measured {
            tasks: 20,
            scale: 1.0,
            best: None,
            confirms: false,
            unmeasured: None,
            goal_s: None,
            unseen_s: 0.0,
            ways: vec![
                row("one after the other", 1, 1.0, false),
                row("2 processes", 2, 2.0, true),
                row("4 processes", 4, 1.98, true),
            ],
        };
        measured.set_against(Some("4 processes"));
        assert!(measured.confirms && measured.best.as_deref() == Some("4 processes"));
        measured.set_against(Some("8 processes"));
        assert!(!measured.confirms && measured.unmeasured.is_some());
        assert!(text(&measured).contains("which stays"), "{}", text(&measured));
        measured.set_against(None);
        assert_eq!(measured.best.as_deref(), Some("2 processes"));
        assert!(text(&measured).contains("Take that"), "{}", text(&measured));
        // Whoever meets the goal need not be the fastest.
        measured.ways[1].measured_s = 3.0;
        measured.goal_s = Some(3.5);
        measured.set_against(Some("2 processes"));
        assert!(measured.confirms, "{measured:?}");
        measured.goal_s = None;
        measured.unseen_s = 2.0;
        measured.set_against(Some("2 processes"));
        assert!(measured.confirms, "{measured:?}");
    }
}
