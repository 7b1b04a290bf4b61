//! Which candidates there are for a workload, and which of them is advised.
//!
//! Owns the goal (what is made small), what is ruled out, and the rule that of those that are as good the simplest is
//! taken: threads are a resource, to be used where they help.

use std::collections::BTreeMap;

use crate::costs::Costs;
use crate::design::{Candidate, Design, Machine, Model, Order};
use crate::predict::{Drawn, Effort, Figure, Prediction, predict};
use crate::workload::{Coming, Lengths, Useful, Workload};

/// Candidates whose goal differs by less are as good as each other: nobody notices it, and it is what the model may be
/// off.
pub const AS_GOOD: f64 = 0.05;
/// A message that comes sooner by less is no better: a network within a building takes as long, s.
const UNSEEN_S: f64 = 100e-6;
/// A whole list that is done sooner by less is no better, s: nobody waits for it.
const UNSEEN_OF_A_LIST_S: f64 = 1e-3;
/// More at once are not tried for a pool.
pub(crate) const MOST: usize = 4_096;
/// After so many larger numbers that are no better none is tried.
const ENOUGH: u32 = 4;

/// What is made small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// The time until all are done.
    Elapsed,
    /// The mean time until a result is there.
    Completion,
    /// The mean time from a task's arrival to its end.
    Response,
    /// That 99 of 100 are done in time.
    InTime,
}

impl Goal {
    /// That of a workload.
    #[must_use]
    pub const fn of(workload: &Workload) -> Self {
        match (workload.coming, workload.goal_s, workload.useful) {
            (Coming::Rate(_), Some(_), _) => Self::InTime,
            (Coming::Rate(_), None, _) => Self::Response,
            (Coming::Batch(_), _, Useful::Each) => Self::Completion,
            (Coming::Batch(_), _, Useful::Together) => Self::Elapsed,
        }
    }

    /// What it is for a candidate, s; endless where it does not keep up.
    #[must_use]
    pub fn value(self, prediction: &Prediction) -> f64 {
        self.figure(prediction)
            .map_or(f64::INFINITY, |figure| figure.value)
    }

    /// The same with its interval; none where it does not keep up.
    #[must_use]
    pub fn figure(self, prediction: &Prediction) -> Option<Figure> {
        let figure = match self {
            Self::Elapsed => prediction.elapsed_s,
            Self::Completion | Self::Response => prediction.mean_s,
            Self::InTime => prediction.p99_s,
        };
        figure.filter(|_| prediction.keeps_up)
    }

    /// What it is called in a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Elapsed => "time until all are done",
            Self::Completion => "mean time until a result is there",
            Self::Response => "mean time of a task",
            Self::InTime => "time that 99 of 100 tasks do not exceed",
        }
    }
}

/// All predictions, and which is advised.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub predictions: Vec<Prediction>,
    /// Index of the advised one. None where no candidate keeps up or fits.
    pub advised: Option<usize>,
}

impl Choice {
    pub fn advised(&self) -> Option<&Prediction> {
        self.advised.map(|index| &self.predictions[index])
    }
}

/// Whether a goal is as good as the best one.
pub(crate) fn is_as_good(value: f64, best: f64, workload: &Workload) -> bool {
    value <= best * (1.0 + AS_GOOD) || value - best < unseen_s(workload)
}

/// What comes sooner by less is no better, s.
#[must_use]
pub const fn unseen_s(workload: &Workload) -> f64 {
    match (workload.connections, workload.coming) {
        (Some(_), _) => UNSEEN_S,
        (None, Coming::Batch(_)) => UNSEEN_OF_A_LIST_S,
        (None, Coming::Rate(_)) => 0.0,
    }
}

/// Degrees worth trying: small ones, doubles with their halves between, and those that follow from the machine and the
/// workload.
pub(crate) fn degrees(workload: &Workload, machine: &Machine) -> Vec<usize> {
    let most = match workload.coming {
        Coming::Batch(tasks) => tasks.min(MOST),
        Coming::Rate(_) => MOST,
    };
    let doubles =
        std::iter::successors(Some(1_usize), |degree| Some(degree * 2)).take_while(|&degree| degree <= MOST);
    let between = doubles.clone().map(|degree| degree * 3 / 2);
    let cpus = (machine.cpus.ceil() as usize).max(1);
    let effective = (machine.effective().ceil() as usize).max(1);
    let special = [
        cpus,
        effective,
        effective + 1,
        2 * cpus + 1,
        goetz(workload, machine),
    ];
    let own = [workload.now, workload.limit, Some(most)];
    let mut degrees: Vec<usize> = doubles
        .chain(between)
        .chain(special)
        .chain(own.into_iter().flatten())
        .filter(|&degree| degree <= most)
        .collect();
    degrees.sort_unstable();
    degrees.dedup();
    degrees
}

/// Goetz, *Java Concurrency in Practice* (2006), 8.2: CPUs × (1 + wait / compute), at full use.
pub(crate) fn goetz(workload: &Workload, machine: &Machine) -> usize {
    let ratio = workload.wait_s / workload.cpu_s.max(1e-9);
    let threads = machine.cpus * (1.0 + ratio);
    (threads.round().max(1.0) as usize).min(1 << 20)
}

/// All that could be advised.
fn candidates(workload: &Workload, machine: &Machine) -> Vec<Candidate> {
    let cpus = (machine.effective().ceil() as usize).max(1);
    if workload.connections.is_some() {
        let loops = [1, cpus].map(|loops| Candidate::new(Design::Loops, loops));
        let each = [Design::ThreadEach, Design::ProcessEach].map(|design| Candidate::new(design, usize::MAX));
        let mut all = [&loops[..], &each].concat();
        all.dedup();
        return all;
    }
    let most = match workload.coming {
        Coming::Batch(tasks) => tasks,
        Coming::Rate(_) => usize::MAX,
    };
    let mut all = vec![Candidate::new(Design::Serial, 1)];
    if workload.interactive {
        all.push(Candidate::new(Design::Background, 1));
    }
    for degree in degrees(workload, machine) {
        let is_pool = degree > 1;
        if workload.wait_s > 0.0 && is_pool {
            all.push(Candidate::new(Design::Async, degree));
        }
        if is_pool {
            all.push(Candidate::new(Design::Threads, degree));
        }
        // One process beside the program is a pool, too: it keeps a crash away.
        all.push(Candidate::new(Design::Processes, degree));
        if workload.stages > 1 && degree >= workload.stages {
            all.push(Candidate::new(Design::Stages, degree));
        }
    }
    all.push(Candidate::new(Design::ThreadEach, most));
    all.push(Candidate::new(Design::ProcessEach, most));
    let ordered =
        workload.useful == Useful::Each && workload.lengths == Lengths::Known && workload.spread > 0.0;
    if ordered {
        let shortest = |candidate: &Candidate| Candidate {
            order: Order::Shortest,
            ..*candidate
        };
        let begun_in_order = |candidate: &&Candidate| !candidate.design.comes_and_goes();
        let sorted: Vec<Candidate> = all.iter().filter(begun_in_order).map(shortest).collect();
        all.extend(sorted);
    }
    all
}

/// Whether it may be advised at all, whatever it does.
#[must_use]
pub fn is_allowed(candidate: Candidate, workload: &Workload) -> bool {
    let design = candidate.design;
    let isolated = !workload.isolate || design.isolates();
    // The person would wait behind it.
    let answers = !workload.interactive || design != Design::Serial;
    let comes = !workload.come_and_go || design.comes_and_goes();
    let stays = workload.come_and_go || workload.connections.is_some() || !design.comes_and_goes();
    isolated && answers && comes && stays
}

/// The simplest has the least: what it is, how many at once, in which order.
fn simplicity(candidate: &Candidate, workload: &Workload) -> (u8, usize, Order) {
    // Where it may outgrow the machine, or threads compute in turn, processes are the simple way.
    let processes_first = workload.outgrow || workload.language.computes_alone();
    let (threads, processes) = if processes_first { (5, 4) } else { (4, 5) };
    let kind = match candidate.design {
        Design::Serial => 0,
        Design::Background => 1,
        Design::Loops => 2,
        Design::Async => 3,
        Design::Threads => threads,
        // Loosely coupled stages are processes for their own sake, where that costs nothing.
        Design::Stages if workload.lock == 0.0 => 2,
        Design::Stages => 6,
        Design::Processes => processes,
        Design::ThreadEach => 6,
        Design::ProcessEach => 7,
    };
    (kind, candidate.at_once, candidate.order)
}

/// Predicts all candidates and takes one.
pub(crate) fn choose(workload: &Workload, machine: &Machine, costs: &Costs, effort: Effort) -> Choice {
    let drawn = Drawn::new(workload, effort);
    let goal = Goal::of(workload);
    let mut predictions: Vec<Prediction> = Vec::new();
    // Of a design and an order: the best so far, and how many were no better since.
    let mut courses: BTreeMap<(Design, Order), (f64, u32)> = BTreeMap::new();
    for candidate in candidates(workload, machine) {
        let (best, idle) = courses
            .entry((candidate.design, candidate.order))
            .or_insert((f64::INFINITY, 0));
        let is_over = *idle >= ENOUGH && workload.now != Some(candidate.at_once);
        if is_over || !Model::new(candidate, workload, machine, costs).fits() {
            continue;
        }
        let prediction = predict(candidate, workload, machine, costs, &drawn);
        let value = goal.value(&prediction);
        *idle = if value < *best * 0.999 || best.is_infinite() {
            0
        } else {
            *idle + 1
        };
        *best = best.min(value);
        predictions.push(prediction);
    }
    let advised = advised(&predictions, workload);
    Choice { predictions, advised }
}

fn advised(predictions: &[Prediction], workload: &Workload) -> Option<usize> {
    let goal = Goal::of(workload);
    let allowed = predictions.iter().enumerate().filter(|(_, prediction)| {
        is_allowed(prediction.candidate, workload) && goal.value(prediction).is_finite()
    });
    let best = allowed
        .clone()
        .map(|(_, prediction)| goal.value(prediction))
        .fold(f64::INFINITY, f64::min);
    let in_time = |prediction: &Prediction| match (workload.goal_s, prediction.p99_s) {
        (Some(goal_s), Some(p99_s)) => p99_s.high <= goal_s,
        _ => false,
    };
    let some_in_time = allowed.clone().any(|(_, prediction)| in_time(prediction));
    let is_good = |prediction: &Prediction| match some_in_time {
        true => in_time(prediction),
        false => is_as_good(goal.value(prediction), best, workload),
    };
    allowed
        .filter(|(_, prediction)| is_good(prediction))
        .min_by_key(|(_, prediction)| simplicity(&prediction.candidate, workload))
        .map(|(index, _)| index)
}
