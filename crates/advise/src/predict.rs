//! What a candidate does to a workload: elapsed time, throughput, time of a task, CPU and memory, each with an
//! interval.
//!
//! Tasks are drawn by seed, the same for all candidates, so that two of them differ by what they do and not by what
//! they were given. An interval spans the seeds, widened by what the costs leave open, by [`MODEL`] and by how long
//! tasks wait for each other; and both ends of CPU time and wait, where these are uncertain.

use serde::Serialize;

use crate::costs::Costs;
use crate::design::{Candidate, Machine, Model, Order, PERIOD_S, work_s};
use crate::simulator::{Arrivals, Outcome, System, Task, simulate};
use crate::workload::{Coming, Uncertain, Workload};

/// By so much the model is off beside what the costs leave open; by validation, see `cargo xtask validate-advice`.
pub const MODEL: f64 = 0.05;
/// Of the time that tasks which come over time wait for each other, so much may be more or less: how long hangs on when
/// the scheduler changes between those who compute. Fitted to four workloads of the validation of seed 34.
const QUEUE: f64 = 0.5;
/// Under a quota so much more: whether what is last in a period ends in it or in the next hangs on how much of the
/// period was left at the start. Fitted to the four workloads of seed 35 that were trusted and had one.
const UNDER_A_QUOTA: f64 = 0.1;
/// Who is busier than that has a queue that grows, or nearly.
pub const BUSIEST: f64 = 0.95;

/// No wait lasts exactly as long as another. Were they alike, who is ready first at the same moment would decide by how
/// much computing and waiting overlap: two tasks at once of as much of each take turns, or wait for each other.
const LEAST_SPREAD_OF_WAITS: f64 = 0.03;

/// A figure with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// The likely one.
    pub value: f64,
    /// 9 of 10 measured ones are above it and below `high`.
    pub low: f64,
    /// See `low`. Endless (null in JSON) where it may not keep up.
    pub high: f64,
}

impl Figure {
    fn of(mut values: Vec<f64>, uncertain: f64) -> Self {
        values.sort_by(f64::total_cmp);
        let (least, most) = (values.first().copied(), values.last().copied());
        Self {
            value: values.get(values.len() / 2).copied().unwrap_or(0.0),
            low: least.unwrap_or(0.0) / (1.0 + uncertain),
            high: most.unwrap_or(0.0) * (1.0 + uncertain),
        }
    }

    /// In a unit of which so many are one of its own.
    pub(crate) const fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    /// Wide enough for the same at an end of what is uncertain; endless without one, since it does not keep up there.
    fn spanning(self, end: Option<Self>) -> Self {
        Self {
            low: end.map_or(self.low, |end| self.low.min(end.low)),
            high: end.map_or(f64::INFINITY, |end| self.high.max(end.high)),
            ..self
        }
    }
}

/// What a candidate does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The candidate.
    pub candidate: Candidate,
    /// In plain words.
    pub says: String,
    /// The part of what it could do that is asked of it; of a batch none.
    pub busy: Option<f64>,
    /// Whether it keeps up with what comes.
    pub keeps_up: bool,
    /// Whether its memory is there.
    pub fits: bool,
    /// From the start until the last is done, s; of a batch.
    pub elapsed_s: Option<Figure>,
    /// Tasks a second.
    pub throughput: Figure,
    /// From its arrival (of a batch the start) until a task is done, at the mean, s; none where it does not keep up.
    pub mean_s: Option<Figure>,
    /// The same, which 99 of 100 do not exceed.
    pub p99_s: Option<Figure>,
    /// CPU time of a task with what the design adds, s.
    pub cpu_s: Figure,
    /// Of that, what the design adds, as a share of the work.
    pub overhead: f64,
    /// Memory of units and tasks at work, B.
    pub memory_bytes: Figure,
    /// Time in which a quota stops those who want to compute, as a share of all.
    pub throttled: f64,
    /// Of the time of a task that comes over time the part in which it waits for others, to have a CPU or a worker; 0
    /// of a list.
    pub queueing: f64,
}

impl Prediction {
    /// With intervals that span those at an end of what is uncertain.
    fn spanning(self, end: &Self) -> Self {
        let both = |own: Option<Figure>, other: Option<Figure>| own.map(|own| own.spanning(other));
        Self {
            elapsed_s: both(self.elapsed_s, end.elapsed_s),
            throughput: self.throughput.spanning(Some(end.throughput)),
            mean_s: both(self.mean_s, end.mean_s),
            p99_s: both(self.p99_s, end.p99_s),
            cpu_s: self.cpu_s.spanning(Some(end.cpu_s)),
            memory_bytes: self.memory_bytes.spanning(Some(end.memory_bytes)),
            ..self
        }
    }
}

/// How much is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Tasks, of a longer list and of what comes over time.
    pub tasks: usize,
    /// How often they are drawn anew.
    pub seeds: u64,
}

/// For choosing.
pub(crate) const SEARCH: Effort = Effort {
    tasks: 1_200,
    seeds: 1,
};
/// For what is shown: quantile 0.99 needs a thousand.
pub(crate) const SHOW: Effort = Effort {
    tasks: 2_000,
    seeds: 5,
};
/// For what would change the answer.
pub(crate) const GLANCE: Effort = Effort { tasks: 300, seeds: 1 };

/// A task as it was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawnTask {
    /// When it comes, s after the start.
    pub arrives_s: f64,
    /// CPU time of its work, s.
    pub cpu_s: f64,
    /// For how long it waits, s.
    pub wait_s: f64,
}

/// Tasks drawn once, for all candidates.
#[derive(Debug, Clone)]
pub struct Drawn {
    seeds: Vec<Vec<DrawnTask>>,
    /// Tasks of a longer list that are not simulated.
    left: f64,
}

impl Drawn {
    /// Tasks of a workload, the same for the same effort.
    #[must_use]
    pub fn new(workload: &Workload, effort: Effort) -> Self {
        let (count, left) = match workload.coming {
            Coming::Batch(tasks) => {
                let count = tasks.min(effort.tasks);
                (count, (tasks - count) as f64)
            }
            Coming::Rate(_) => (effort.tasks, 0.0),
        };
        let work_s = work_s(workload);
        let seed = |seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut now_s = 0.0;
            let task = |_| {
                if let Coming::Rate(rate) = workload.coming {
                    now_s += -(1.0 - random.f64()).ln() / rate;
                }
                DrawnTask {
                    arrives_s: now_s,
                    cpu_s: work_s * lognormal(&mut random, workload.spread),
                    wait_s: workload.wait_s
                        * lognormal(&mut random, workload.spread.max(LEAST_SPREAD_OF_WAITS)),
                }
            };
            (0..count).map(task).collect()
        };
        Self {
            seeds: (1..=effort.seeds).map(seed).collect(),
            left,
        }
    }

    /// The same tasks, were CPU time and wait so many times as long.
    fn scaled(&self, cpu: f64, wait: f64) -> Self {
        let scaled = |task: &DrawnTask| DrawnTask {
            cpu_s: task.cpu_s * cpu,
            wait_s: task.wait_s * wait,
            ..*task
        };
        let seeds = self.seeds.iter();
        Self {
            seeds: seeds.map(|tasks| tasks.iter().map(scaled).collect()).collect(),
            left: self.left,
        }
    }

    /// Those of the first seed.
    #[must_use]
    pub fn first(&self) -> &[DrawnTask] {
        self.seeds.first().map_or(&[], |tasks| tasks)
    }
}

/// A factor with mean 1 and this standard deviation.
fn lognormal(random: &mut fastrand::Rng, spread: f64) -> f64 {
    // Box and Muller (1958). Drawn in any case, so that a spread does not change who comes when.
    let (a, b) = (1.0 - random.f64(), random.f64());
    if spread <= 0.0 {
        return 1.0;
    }
    let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
    let variance = spread.mul_add(spread, 1.0).ln();
    variance.sqrt().mul_add(normal, -variance / 2.0).exp()
}

/// What the candidate does to tasks that were drawn. Where CPU time and wait are uncertain the same tasks are taken at
/// both ends, too.
#[must_use]
pub fn predict(
    candidate: Candidate,
    workload: &Workload,
    machine: &Machine,
    costs: &Costs,
    drawn: &Drawn,
) -> Prediction {
    let likely = predict_known(candidate, workload, machine, costs, drawn);
    let ends = workload.uncertain.iter().flat_map(Uncertain::ends);
    ends.fold(likely, |prediction, [cpu, wait]| {
        let (end, drawn) = (workload.known(cpu, wait), drawn.scaled(cpu, wait));
        prediction.spanning(&predict_known(candidate, &end, machine, costs, &drawn))
    })
}

/// The same where CPU time and wait are what the workload says.
fn predict_known(
    candidate: Candidate,
    workload: &Workload,
    machine: &Machine,
    costs: &Costs,
    drawn: &Drawn,
) -> Prediction {
    let model = Model::new(candidate, workload, machine, costs);
    let work_s = work_s(workload).max(1e-12);
    let [least_s, likely_s, most_s] = model.overhead_s;
    let service_s = work_s + likely_s + workload.wait_s;
    let of_costs = (most_s - least_s) / 2.0 / service_s;
    let is_under_a_quota = machine.quota.is_some_and(|quota| quota < machine.cpus);
    let of_quota = if is_under_a_quota { UNDER_A_QUOTA } else { 0.0 };
    let uncertain = MODEL.hypot(of_costs).hypot(of_quota);
    let capacity = model.capacity();
    let busy = workload.rate().map(|rate| rate / capacity);
    let keeps_up = busy.is_none_or(|busy| busy < BUSIEST);
    let memory = model.memory_bytes;
    let cpu = |end_s: f64| work_s + end_s;
    let mut prediction = Prediction {
        candidate,
        says: candidate.says(workload),
        busy,
        keeps_up,
        fits: model.fits(),
        elapsed_s: None,
        throughput: Figure {
            value: capacity,
            low: capacity / (1.0 + uncertain),
            high: capacity * (1.0 + uncertain),
        },
        mean_s: None,
        p99_s: None,
        cpu_s: Figure {
            value: cpu(likely_s),
            low: cpu(least_s),
            high: cpu(most_s),
        },
        overhead: likely_s / work_s,
        memory_bytes: Figure {
            value: memory,
            low: memory / 1.2,
            high: memory * 1.2,
        },
        throttled: 0.0,
        queueing: 0.0,
    };
    if !keeps_up {
        return prediction;
    }
    let outcomes: Vec<Outcome> = drawn
        .seeds
        .iter()
        .map(|tasks| simulate(&model.system, &tasks_of(&model, tasks)))
        .collect();
    let figure_within =
        |uncertain, of: &dyn Fn(&Outcome) -> f64| Figure::of(outcomes.iter().map(of).collect(), uncertain);
    let figure = |of: &dyn Fn(&Outcome) -> f64| figure_within(uncertain, of);
    if let Coming::Batch(_) = workload.coming {
        // Of a list that is longer than what is simulated the rest goes on as in the middle of that.
        let rest_s = |outcome: &Outcome| drawn.left / pace(outcome, candidate.at_once).unwrap_or(capacity);
        prediction.elapsed_s = Some(figure(&|outcome| outcome.end_s + rest_s(outcome)));
        prediction.mean_s = Some(figure(&|outcome| outcome.mean_s() + rest_s(outcome) / 2.0));
        prediction.p99_s = Some(figure(&|outcome| {
            outcome.quantile_s(0.99) + 0.99 * rest_s(outcome)
        }));
        let tasks = drawn.first().len() as f64 + drawn.left;
        prediction.throughput = figure(&|outcome| tasks / (outcome.end_s + rest_s(outcome)));
    } else {
        let mean_s = outcomes.first().map_or(0.0, Outcome::mean_s);
        prediction.queueing = (1.0 - alone_s(&model, drawn) / mean_s).max(0.0);
        let uncertain = uncertain.hypot(QUEUE * prediction.queueing);
        prediction.mean_s = Some(figure_within(uncertain, &|outcome| outcome.mean_s()));
        prediction.p99_s = Some(figure_within(uncertain, &|outcome| outcome.quantile_s(0.99)));
    }
    prediction.throttled =
        figure(&|outcome| outcome.throttled_s / outcome.end_s.max(f64::MIN_POSITIVE)).value;
    prediction
}

/// What a task takes that never meets another, at the mean, s: each of the first seed by itself, a period of a quota or
/// more after the last.
fn alone_s(model: &Model<'_>, drawn: &Drawn) -> f64 {
    let system = System {
        arrivals: Arrivals::Closed(1),
        ..model.system.clone()
    };
    let apart = |task: &DrawnTask| DrawnTask {
        arrives_s: PERIOD_S + task.arrives_s % PERIOD_S,
        ..*task
    };
    let tasks: Vec<DrawnTask> = drawn.first().iter().map(apart).collect();
    simulate(&system, &tasks_of(model, &tasks)).mean_s()
}

/// Tasks a second in the middle of a list: between a quarter and three quarters of it, in whole rounds of as many as
/// are at once, since tasks that are alike end together. None where so many are at once that it has no middle.
fn pace(outcome: &Outcome, at_once: usize) -> Option<f64> {
    let mut finished: Vec<f64> = outcome.done.iter().map(|done| done.finished_s).collect();
    finished.sort_by(f64::total_cmp);
    let first = (finished.len() / 4).next_multiple_of(at_once);
    let last = finished.len() * 3 / 4 / at_once * at_once;
    let takes_s = finished.get(last.checked_sub(1)?)? - finished.get(first.checked_sub(1)?)?;
    (first < last && takes_s > 0.0).then(|| (last - first) as f64 / takes_s)
}

fn tasks_of(model: &Model<'_>, drawn: &[DrawnTask]) -> Vec<Task> {
    let order = model.candidate.order;
    let rank = |length_s: f64| match order {
        Order::Given => 0.0,
        Order::Shortest => length_s,
        Order::Longest => -length_s,
    };
    let task = |drawn: &DrawnTask| Task {
        arrives_s: drawn.arrives_s,
        steps: model.steps(drawn.cpu_s, drawn.wait_s),
        rank: rank(drawn.cpu_s + drawn.wait_s),
    };
    let mut tasks: Vec<Task> = drawn.iter().map(task).collect();
    if order != Order::Given {
        // All are there at once, and who is first finds a place free whatever its rank.
        tasks.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Design;
    use crate::quantity::Count;
    use crate::workload::Description;

    const ONE_CPU: Machine = Machine {
        cpus: 1.0,
        quota: None,
        memory_bytes: None,
    };

    fn workload(tasks: usize, spread: f64) -> Workload {
        let said = Description {
            tasks: Some(Count(tasks)),
            cpu_s: Some(0.01),
            wait_s: Some(0.03),
            ..Description::default()
        };
        let workload = Workload::of(&said).unwrap();
        Workload { spread, ..workload }
    }

    fn elapsed_s(tasks: usize, candidate: Candidate, simulated: usize) -> f64 {
        let machine = Machine {
            cpus: 2.0,
            quota: None,
            memory_bytes: None,
        };
        let workload = workload(tasks, 0.0);
        let drawn = Drawn::new(
            &workload,
            Effort {
                tasks: simulated,
                seeds: 1,
            },
        );
        let prediction = predict(candidate, &workload, &machine, &Costs::shipped(), &drawn);
        prediction.elapsed_s.unwrap().value
    }

    #[test]
    fn a_long_list_is_as_if_all_of_it_were_simulated() {
        for (design, at_once) in [
            (Design::Serial, 1),
            (Design::Threads, 4),
            (Design::Threads, 64),
            (Design::Async, 8),
            (Design::ThreadEach, 2_000),
        ] {
            let candidate = Candidate::new(design, at_once);
            let [part, whole] = [600, 2_000].map(|simulated| elapsed_s(2_000, candidate, simulated));
            assert!(
                (part / whole - 1.0).abs() < 0.05,
                "{design:?} {at_once}: {part} {whole}"
            );
        }
    }

    #[test]
    fn an_interval_spans_both_ends_of_what_is_uncertain_and_is_endless_where_it_may_not_keep_up() {
        let told = Workload {
            coming: Coming::Rate(70.0),
            ..workload(1, 0.5)
        };
        let does = |workload: &Workload| {
            let drawn = Drawn::new(workload, SEARCH);
            let threads = Candidate::new(Design::Threads, 8);
            predict(threads, workload, &ONE_CPU, &Costs::shipped(), &drawn)
        };
        let uncertain = |cpu| Workload {
            uncertain: Some(Uncertain {
                cpu,
                wait: [0.9, 1.1],
                most_wait_s: None,
            }),
            ..told.clone()
        };
        let [surely, perhaps] = [&told, &uncertain([0.8, 1.2])].map(does);
        let [least, most] = [[0.8, 0.9], [1.2, 1.1]].map(|[cpu, wait]| does(&told.known(cpu, wait)));
        let of = |prediction: &Prediction| prediction.mean_s.unwrap();
        assert_eq!(of(&perhaps).value, of(&surely).value);
        // Near the end of what it can do, a fifth more of CPU time is much more of time.
        assert!(of(&perhaps).high > 1.4 * of(&surely).high, "{perhaps:?}");
        let [low, high] = [of(&least).low, of(&most).high];
        assert!((of(&perhaps).low / low - 1.0).abs() < 1e-6, "{perhaps:?}");
        assert!((of(&perhaps).high / high - 1.0).abs() < 1e-6, "{perhaps:?}");
        assert!((perhaps.cpu_s.high / most.cpu_s.high - 1.0).abs() < 1e-9);
        let overloaded = does(&uncertain([0.8, 1.5]));
        assert!(
            overloaded.keeps_up && of(&overloaded).high == f64::INFINITY,
            "{overloaded:?}"
        );
    }

    #[test]
    fn how_long_tasks_wait_for_each_other_is_less_certain_than_what_they_do() {
        let with_rate = |rate| Workload {
            coming: Coming::Rate(rate),
            ..workload(1, 0.0)
        };
        let does = |workload: &Workload| {
            let drawn = Drawn::new(workload, SEARCH);
            let threads = Candidate::new(Design::Threads, 8);
            predict(threads, workload, &ONE_CPU, &Costs::shipped(), &drawn)
        };
        let width = |of: &Prediction| of.mean_s.unwrap().high / of.mean_s.unwrap().value - 1.0;
        let [seldom, often] = [0.1, 80.0].map(|rate| does(&with_rate(rate)));
        assert!(
            seldom.queueing < 0.01 && width(&seldom) < 1.1 * MODEL,
            "{seldom:?}"
        );
        // Those for whom it waits let one pass a second: it takes long, and meets nobody.
        let gated = Workload {
            limit_rate: Some(1.0),
            ..with_rate(0.01)
        };
        assert!(does(&gated).queueing < 0.05, "{:?}", does(&gated));
        // Half of what a task takes is waiting for the one CPU, nearly.
        assert!((0.35..0.65).contains(&often.queueing), "{often:?}");
        assert!(width(&often) > 0.9 * QUEUE * often.queueing, "{often:?}");
    }

    #[test]
    fn lengths_have_the_mean_and_the_spread_that_were_told() {
        for spread in [0.0, 0.3, 1.0] {
            let effort = Effort {
                tasks: 100_000,
                seeds: 1,
            };
            let drawn = Drawn::new(&workload(100_000, spread), effort);
            let cpu: Vec<f64> = drawn.first().iter().map(|task| task.cpu_s).collect();
            let mean = cpu.iter().sum::<f64>() / cpu.len() as f64;
            let variance = cpu.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / cpu.len() as f64;
            assert!((mean / 0.01 - 1.0).abs() < 0.02, "{mean}");
            assert!(
                (variance.sqrt() / mean - spread).abs() < 0.05,
                "{spread}: {variance}"
            );
        }
    }

    #[test]
    fn what_comes_over_time_comes_as_often_as_was_told() {
        let said = Workload {
            coming: Coming::Rate(50.0),
            ..workload(1, 0.0)
        };
        let effort = Effort {
            tasks: 10_000,
            seeds: 2,
        };
        let drawn = Drawn::new(&said, effort);
        let last = drawn.first().last().unwrap().arrives_s;
        assert!((10_000.0 / last / 50.0 - 1.0).abs() < 0.05, "{last}");
    }
}
