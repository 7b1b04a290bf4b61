//! `advise --measure`: a twin of the workload, run in the advised way, its neighbours, the user's own and those of
//! rules of thumb, by the same harness as every experiment. What is measured overrides what was predicted.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use threadgauge_advise::advice::Advice;
use threadgauge_advise::choose::AS_GOOD;
use threadgauge_advise::design::{Candidate, Design, Machine};
use threadgauge_advise::workload::{Coming, Workload};
use threadgauge_experiments::twin::{ELAPSED, MEAN, P99, TWIN, way};
use threadgauge_lab::selection::Selector;
use threadgauge_results::units::{capitalised, counted, with_unit};
use threadgauge_results::{MetricSummary, RunData};

use crate::cli::RunOptions;
use crate::commands::run::run_then;
use crate::output::{Verdict, say};

/// No run of a twin takes longer, s.
const LONGEST_S: f64 = 3.0;
/// So many tasks tell as much as more.
const MOST_TASKS: usize = 200;
/// For a quantile of 99 % as many are needed.
const FOR_P99: usize = 1_000;
/// So many ways at most.
const MOST_WAYS: usize = 8;

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
    /// The simplest that is as good as the best.
    pub best: Option<String>,
    /// Whether that is what was predicted.
    pub confirms: bool,
}

/// A way, measured and predicted: of a batch the time until all are done, else the mean of what a task takes; s.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The value of the parameter `way`.
    pub way: String,
    /// In plain words.
    pub says: String,
    /// Tasks at once.
    pub at_once: usize,
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
    ensure!(
        workload.connections.is_none(),
        "--measure: there is no twin of clients that stay connected; `threadgauge load` measures a server"
    );
    ensure!(
        !workload.depend && workload.limit.is_none() && workload.limit_rate.is_none(),
        "--measure: the twin knows no dependence and no limit of others yet; leave --depend, --limit and --limit-rate away \
         to measure the rest"
    );
    ensure!(
        machine.cpus == here.cpus && machine.quota == here.quota,
        "--measure measures this machine: leave --cpu-count, --quota and --from away"
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
    let candidates = candidates(advice, machine, &twin, asked);
    let ways: Vec<String> = candidates
        .iter()
        .filter_map(|candidate| way(*candidate))
        .collect();
    if ways.is_empty() {
        bail!("--measure: of {} there is no twin", advice.says);
    }
    say(&format!(
        "A twin of the workload: {}{}, in {}",
        counted(twin.tasks, "task"),
        match twin.scale {
            1.0 => String::new(),
            scale => format!(
                ", each of {} of its length so that no run takes more than 3 s",
                threadgauge_results::units::percent(scale)
            ),
        },
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
        measured = read(data, &twin, &candidates, predict);
        Ok(())
    })?;
    Ok((measured, verdict))
}

/// The advised way and its neighbours, one worker, the user's own and those of rules of thumb.
fn candidates(advice: &Advice, machine: &Machine, twin: &Twin, asked: &Asked) -> Vec<Candidate> {
    let advised = advice.advised.as_ref().map(|advised| advised.candidate);
    let pool = match advised.map(|advised| advised.design) {
        Some(Design::Processes) => Design::Processes,
        Some(Design::Async) => Design::Async,
        _ => Design::Threads,
    };
    let cpus = (machine.cpus.round() as usize).max(1);
    let mut all = vec![Candidate::new(Design::Serial, 1)];
    all.extend(advised);
    if asked.degrees.is_empty() {
        let at_once = advised.map_or(1, |advised| advised.at_once);
        let neighbours = [at_once.div_ceil(2), at_once.saturating_mul(2), cpus];
        all.extend(neighbours.iter().map(|&degree| Candidate::new(pool, degree)));
        let own = advice
            .workload
            .now
            .map(|now| Candidate::new(Design::Threads, now));
        all.extend(own);
        all.push(Candidate::new(Design::Threads, 2 * cpus + 1));
        let thumbs = advice.thumbs.iter().filter_map(|thumb| thumb.at_once);
        all.extend(thumbs.map(|degree| Candidate::new(Design::Threads, degree)));
    } else {
        all.extend(asked.degrees.iter().map(|&degree| Candidate::new(pool, degree)));
    }
    let fits = |candidate: &Candidate| way(*candidate).is_some() && candidate.at_once <= twin.tasks;
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in all.into_iter().filter(fits) {
        // A pool of one is one after the other.
        let serial = candidate.at_once == 1 && candidate.design != Design::Processes;
        let candidate = if serial {
            Candidate::new(Design::Serial, 1)
        } else {
            candidate
        };
        if !kept.contains(&candidate) {
            kept.push(candidate);
        }
    }
    kept.truncate(if asked.degrees.is_empty() {
        MOST_WAYS
    } else {
        usize::MAX
    });
    kept
}

fn read(
    data: &RunData,
    twin: &Twin,
    candidates: &[Candidate],
    predict: &dyn Fn(&Workload, Candidate) -> Option<[f64; 3]>,
) -> Option<Measured> {
    let of = data
        .results
        .experiments
        .iter()
        .find(|experiment| experiment.id == TWIN.id)?;
    let metric = match twin.workload.coming {
        Coming::Batch(_) => ELAPSED,
        Coming::Rate(_) => MEAN,
    };
    let row = |candidate: &Candidate| {
        let name = way(*candidate)?;
        let case = of.cases.iter().find(|case| {
            case.params
                .get("way")
                .is_some_and(|value| value.to_string() == name)
        })?;
        let summary = |name: &str| case.summaries.get(name);
        let figure: &MetricSummary = summary(metric.name)?;
        let predicted = predict(&twin.workload, *candidate);
        Some(Row {
            way: name,
            says: candidate.says(&twin.workload),
            at_once: candidate.at_once,
            measured_s: figure.median * 1e-9,
            measured_ci95_s: figure.ci95.map(|ends| ends.map(|ns| ns * 1e-9)),
            predicted_s: predicted.map(|[_, value, _]| value),
            predicted_90_s: predicted.map(|[low, _, high]| [low, high]),
            p99_s: summary(P99.name).map(|figure| figure.median * 1e-9),
        })
    };
    let ways: Vec<Row> = candidates.iter().filter_map(row).collect();
    let least = ways
        .iter()
        .map(|row| row.measured_s)
        .fold(f64::INFINITY, f64::min);
    let best = ways
        .iter()
        .filter(|row| row.measured_s <= least * (1.0 + AS_GOOD))
        .min_by_key(|row| row.at_once)?;
    Some(Measured {
        tasks: twin.tasks,
        scale: twin.scale,
        best: Some(best.says.clone()),
        confirms: true,
        ways,
    })
}

/// What was measured, for a person.
#[must_use]
pub fn text(measured: &Measured) -> String {
    let time =
        |s: f64, ends: Option<[f64; 2]>| with_unit(s * 1e9, ends.map(|ends| ends.map(|s| s * 1e9)), "ns");
    let mut text = match (&measured.best, measured.confirms) {
        (Some(best), true) => format!(
            "Measured:        {}. That is what was advised.\n",
            capitalised(best)
        ),
        (Some(best), false) => format!(
            "Measured:        {}. Take that: what is measured overrides the arithmetic.\n",
            capitalised(best)
        ),
        (None, _) => "Measured:        nothing that has figures.\n".to_owned(),
    };
    for row in &measured.ways {
        let predicted = match row.predicted_s {
            Some(s) => format!(
                "arithmetic says {} ({} of it measured)",
                time(s, row.predicted_90_s),
                threadgauge_results::units::percent(row.measured_s / s)
            ),
            None => "arithmetic says that it does not keep up".to_owned(),
        };
        text += &format!(
            "  - {}: {}; {predicted}\n",
            row.says,
            time(row.measured_s, row.measured_ci95_s)
        );
    }
    text
}

impl Measured {
    /// Sets it against what was advised.
    pub fn set_against(&mut self, advised: Option<&str>) {
        let says = |row: &&Row| Some(row.says.as_str()) == advised;
        let least = self
            .ways
            .iter()
            .map(|row| row.measured_s)
            .fold(f64::INFINITY, f64::min);
        let advised = self.ways.iter().find(says);
        self.confirms = advised.is_some_and(|row| row.measured_s <= least * (1.0 + AS_GOOD));
        if let Some(row) = advised.filter(|_| self.confirms) {
            self.best = Some(row.says.clone());
        }
    }
}
