//! A discrete-event simulator of tasks that compute, wait and take turns: the one model behind every prediction.
//!
//! A task is a list of steps. Those that compute share the CPUs equally (processor sharing, a thread on one CPU at
//! most), those that wait use none, and a [`Pool`] lets so many in at a time: slots of workers, a lock, connections of
//! a database, a pool inside another. A quota stops all computing once its time of a period is used up, as the
//! kernel's does.
//!
//! It goes from event to event, and between two events nobody's rate changes; so nothing is approximated but the
//! model itself. Computing is kept in a heap by *virtual time*, the CPU time that one thread has had since the start:
//! an event costs the logarithm of the number of tasks, however many compute.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A step of a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Needs so much CPU time in all, spread over so many threads at once (1 or more).
    Compute {
        /// CPU time, s.
        cpu_s: f64,
        /// Threads at once.
        threads: f64,
    },
    /// Needs so much time, s, and no CPU.
    Wait(f64),
    /// Takes a place in the pool of this number, and waits for one where none is free.
    Take(usize),
    /// Gives it back.
    Give(usize),
}

impl Step {
    /// Computing in one thread, s.
    #[must_use]
    pub const fn compute(cpu_s: f64) -> Self {
        Self::Compute { cpu_s, threads: 1.0 }
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// When it arrives, s after the start; of a closed system the time its client thinks before it.
    pub arrives_s: f64,
    /// What it does, in order.
    pub steps: Vec<Step>,
    /// In a [`Pool`] that goes by rank the least goes first.
    pub rank: f64,
}

/// Places of which a task takes one for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// How many there are, 1 or more.
    pub places: usize,
    /// Who comes next where several wait.
    pub turn: Turn,
}

/// Who comes next where several wait for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Who came first.
    First,
    /// Who has the least rank.
    Rank,
}

impl Pool {
    /// So many places, first come, first served.
    #[must_use]
    pub const fn of(places: usize) -> Self {
        Self {
            places,
            turn: Turn::First,
        }
    }
}

/// CPU time that may be used in each period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quota {
    /// CPUs' worth of time.
    pub cpus: f64,
    /// The period, s; 0.1 where nobody set another.
    pub period_s: f64,
}

/// How tasks come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Each when it says.
    Open,
    /// So many clients, each of which sends its next task when the last is done and it has thought.
    Closed(usize),
}

/// What tasks run on.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// CPUs' worth of speed when all are busy, above 0.
    pub cpus: f64,
    /// What a control group allows.
    pub quota: Option<Quota>,
    /// Referred to by [`Step::Take`].
    pub pools: Vec<Pool>,
    /// The share of CPU time that switching takes where more threads compute than there are CPUs, 0 to 1.
    pub switching: f64,
    /// How tasks come.
    pub arrivals: Arrivals,
}

/// What became of a task, s after the start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Done {
    /// When it arrived.
    pub arrived_s: f64,
    /// When it was done.
    pub finished_s: f64,
}

impl Done {
    /// From its arrival until it was done, s.
    #[must_use]
    pub fn took_s(self) -> f64 {
        self.finished_s - self.arrived_s
    }
}

/// What came of all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// In the order in which tasks were given.
    pub done: Vec<Done>,
    /// When the last was done, s.
    pub end_s: f64,
    /// CPU time used, s.
    pub cpu_s: f64,
    /// Time in which a quota let nobody compute who wanted to, s.
    pub throttled_s: f64,
}

impl Outcome {
    /// The mean of the time that tasks took, s.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        self.done.iter().map(|done| done.took_s()).sum::<f64>() / self.done.len().max(1) as f64
    }

    /// So long at most took this share of the tasks, s: the smallest time that as many do not exceed.
    #[must_use]
    pub fn quantile_s(&self, share: f64) -> f64 {
        let mut took: Vec<f64> = self.done.iter().map(|done| done.took_s()).collect();
        took.sort_by(f64::total_cmp);
        let place = (share * took.len() as f64).ceil() as usize;
        took.get(place.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// Tasks a second, from the start to the end.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.done.len() as f64 / self.end_s.max(f64::MIN_POSITIVE)
    }
}

/// Runs all tasks to their end.
///
/// # Panics
///
/// If a step names a pool that there is not, or a task ends with a place that it never gives back to others who want
/// one: a defect of whoever wrote the steps.
#[must_use]
pub fn simulate(system: &System, tasks: &[Task]) -> Outcome {
    let mut run = Run::new(system, tasks);
    while run.step() {}
    assert_eq!(
        run.finished,
        tasks.len(),
        "a task waits for a place that nobody gives back"
    );
    run.outcome
}

/// A task that is due at a time, or by a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Due {
    at: f64,
    /// Who came first goes first among equals.
    number: u64,
    task: usize,
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.total_cmp(&other.at).then(self.number.cmp(&other.number))
    }
}

type Heap = BinaryHeap<Reverse<Due>>;

/// What a quota has left.
#[derive(Debug, Clone, Copy)]
struct Budget {
    quota: Quota,
    /// CPU time, s.
    left_s: f64,
    /// When there is all of it again, s.
    renewed_s: f64,
}

/// A pool with who waits for it.
#[derive(Debug)]
struct Places {
    free: usize,
    turn: Turn,
    queue: Heap,
}

struct Run<'a> {
    system: &'a System,
    tasks: &'a [Task],
    now_s: f64,
    /// CPU time that a thread has had which has computed from the start, s.
    virtual_s: f64,
    /// By virtual time.
    computing: Heap,
    /// By time: those that wait and those that have not come.
    waiting: Heap,
    places: Vec<Places>,
    /// Threads that compute.
    threads: f64,
    budget: Option<Budget>,
    /// The next step of each task.
    next: Vec<usize>,
    /// Of a closed system the next task that a client sends.
    unsent: usize,
    number: u64,
    finished: usize,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(system: &'a System, tasks: &'a [Task]) -> Self {
        let places = system.pools.iter().map(|pool| Places {
            free: pool.places,
            turn: pool.turn,
            queue: Heap::new(),
        });
        let mut run = Self {
            system,
            tasks,
            now_s: 0.0,
            virtual_s: 0.0,
            computing: Heap::new(),
            waiting: Heap::new(),
            places: places.collect(),
            threads: 0.0,
            budget: system.quota.map(|quota| Budget {
                quota,
                left_s: quota.cpus * quota.period_s,
                renewed_s: quota.period_s,
            }),
            next: vec![0; tasks.len()],
            unsent: 0,
            number: 0,
            finished: 0,
            outcome: Outcome {
                done: vec![Done::default(); tasks.len()],
                ..Outcome::default()
            },
        };
        let first = match system.arrivals {
            Arrivals::Open => tasks.len(),
            Arrivals::Closed(clients) => clients,
        };
        for _ in 0..first {
            run.send();
        }
        run
    }

    /// The next task comes, after the time that it says.
    fn send(&mut self) {
        if let Some(task) = self.tasks.get(self.unsent) {
            let at = self.now_s + task.arrives_s;
            self.outcome.done[self.unsent].arrived_s = at;
            let due = self.due(at, self.unsent);
            self.waiting.push(due);
            self.unsent += 1;
        }
    }

    fn due(&mut self, at: f64, task: usize) -> Reverse<Due> {
        self.number += 1;
        Reverse(Due {
            at,
            number: self.number,
            task,
        })
    }

    /// The CPU time that all computing threads use in a second, s.
    fn used(&self) -> f64 {
        match self.budget {
            Some(budget) if budget.left_s <= 0.0 => 0.0,
            _ => self.threads.min(self.system.cpus),
        }
    }

    /// What each thread has of that, less what switching takes.
    fn share(&self) -> f64 {
        let crowded = self.threads > self.system.cpus;
        let kept = if crowded { 1.0 - self.system.switching } else { 1.0 };
        self.used() / self.threads.max(1.0) * kept
    }

    /// Goes to the next event. False where there is none.
    fn step(&mut self) -> bool {
        let share = self.share();
        let computed = match self.computing.peek() {
            Some(Reverse(due)) if share > 0.0 => self.now_s + (due.at - self.virtual_s).max(0.0) / share,
            _ => f64::INFINITY,
        };
        let waited = self.waiting.peek().map_or(f64::INFINITY, |Reverse(due)| due.at);
        let of_quota = self.quota_event();
        let at = computed.min(waited).min(of_quota);
        if at == f64::INFINITY {
            return false;
        }
        self.pass(at, share);
        // Who is done just as the time is used up is done.
        if computed <= at {
            if let Some(Reverse(due)) = self.computing.pop() {
                // Rounding may leave it a little behind.
                self.virtual_s = self.virtual_s.max(due.at);
                if let Some(Step::Compute { threads, .. }) =
                    self.tasks[due.task].steps.get(self.next[due.task] - 1)
                {
                    self.threads -= threads;
                }
                self.go_on(due.task);
            }
        } else if of_quota <= at {
            self.renew();
        } else if let Some(Reverse(due)) = self.waiting.pop() {
            self.go_on(due.task);
        }
        true
    }

    /// When a quota's time is used up or there again, if that changes anything.
    fn quota_event(&self) -> f64 {
        let Some(budget) = self.budget.filter(|_| self.threads > 0.0) else {
            return f64::INFINITY;
        };
        let used = self.used();
        if used <= 0.0 {
            return budget.renewed_s;
        }
        budget.renewed_s.min(self.now_s + budget.left_s / used)
    }

    /// Time passes until then.
    fn pass(&mut self, until_s: f64, share: f64) {
        let length_s = (until_s - self.now_s).max(0.0);
        let used = self.used();
        let used_s = used * length_s;
        self.virtual_s += share * length_s;
        self.outcome.cpu_s += used_s;
        if let Some(budget) = &mut self.budget {
            if budget.left_s <= 0.0 && self.threads > 0.0 {
                self.outcome.throttled_s += length_s;
            }
            budget.left_s -= used_s;
            // What is left of rounding would be an event without end: late in a long time that is more.
            let rounding_s = self.threads.max(1.0) * until_s * 4.0 * f64::EPSILON;
            if budget.left_s < rounding_s.max(budget.quota.cpus * budget.quota.period_s * 1e-9) {
                // It is used up all the same, or who computes would never come to an end.
                if used > 0.0 {
                    self.virtual_s += share / used * budget.left_s.max(0.0);
                }
                budget.left_s = 0.0;
            }
        }
        self.now_s = until_s.max(self.now_s);
    }

    /// A new period, if it is time for one.
    fn renew(&mut self) {
        if let Some(budget) = &mut self.budget
            && self.now_s >= budget.renewed_s
        {
            budget.left_s = budget.quota.cpus * budget.quota.period_s;
            budget.renewed_s = self.now_s + budget.quota.period_s;
            self.skip_periods();
        }
    }

    /// At the beginning of a period: those in which nothing happens but that the quota is used up and there again, each
    /// as the one before, pass at once. A task of an hour has 36,000 of them.
    fn skip_periods(&mut self) {
        let (used, share) = (self.used(), self.share());
        let Some(budget) = self.budget.as_mut().filter(|_| used > 0.0) else {
            return;
        };
        let period_s = budget.quota.period_s;
        let computing_s = (budget.quota.cpus * period_s / used).min(period_s);
        let virtual_s = share * computing_s;
        let until = |at: Option<f64>, from: f64, of_period: f64| {
            at.map_or(f64::INFINITY, |at| (at - from) / of_period)
        };
        let due = |heap: &Heap| heap.peek().map(|Reverse(due)| due.at);
        let computed = until(due(&self.computing), self.virtual_s, virtual_s);
        let waited = until(due(&self.waiting), self.now_s, period_s);
        // One less: the last goes event by event.
        let periods = computed.min(waited).floor() - 1.0;
        if periods.is_finite() && periods >= 1.0 {
            self.now_s += periods * period_s;
            self.virtual_s += periods * virtual_s;
            self.outcome.cpu_s += periods * used * computing_s;
            self.outcome.throttled_s += periods * (period_s - computing_s);
            budget.renewed_s = self.now_s + period_s;
        }
    }

    /// The task does its steps until one takes time, and so do those that it lets on.
    fn go_on(&mut self, task: usize) {
        let mut ready = vec![task];
        while let Some(task) = ready.pop() {
            if self.do_steps(task, &mut ready) {
                self.end(task);
            }
        }
    }

    /// Does steps until one takes time; true when there are no more. Who is let on by it is `ready`.
    fn do_steps(&mut self, task: usize, ready: &mut Vec<usize>) -> bool {
        while let Some(step) = self.tasks[task].steps.get(self.next[task]) {
            match *step {
                Step::Take(pool) if self.places[pool].free == 0 => {
                    let rank = match self.places[pool].turn {
                        Turn::First => 0.0,
                        Turn::Rank => self.tasks[task].rank,
                    };
                    let due = self.due(rank, task);
                    self.places[pool].queue.push(due);
                    return false;
                }
                Step::Take(pool) => self.places[pool].free -= 1,
                Step::Give(pool) => match self.places[pool].queue.pop() {
                    Some(Reverse(due)) => {
                        self.next[due.task] += 1;
                        ready.push(due.task);
                    }
                    None => self.places[pool].free += 1,
                },
                Step::Wait(s) if s > 0.0 => {
                    self.next[task] += 1;
                    let due = self.due(self.now_s + s, task);
                    self.waiting.push(due);
                    return false;
                }
                Step::Compute { cpu_s, threads } if cpu_s > 0.0 => {
                    self.next[task] += 1;
                    self.begin(task, cpu_s, threads);
                    return false;
                }
                Step::Wait(_) | Step::Compute { .. } => {}
            }
            self.next[task] += 1;
        }
        true
    }

    fn begin(&mut self, task: usize, cpu_s: f64, threads: f64) {
        if self.threads == 0.0
            && let Some(budget) = &mut self.budget
            && self.now_s >= budget.renewed_s
        {
            // The kernel's timer rests while nobody computes, and a new period begins with the first who does.
            budget.left_s = budget.quota.cpus * budget.quota.period_s;
            budget.renewed_s = self.now_s + budget.quota.period_s;
        }
        self.threads += threads;
        let due = self.due(self.virtual_s + cpu_s / threads, task);
        self.computing.push(due);
    }

    fn end(&mut self, task: usize) {
        self.outcome.done[task].finished_s = self.now_s;
        self.outcome.end_s = self.now_s;
        self.finished += 1;
        if let Arrivals::Closed(_) = self.system.arrivals {
            self.send();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn system(cpus: f64, pools: &[usize]) -> System {
        System {
            cpus,
            quota: None,
            pools: pools.iter().map(|&places| Pool::of(places)).collect(),
            switching: 0.0,
            arrivals: Arrivals::Open,
        }
    }

    fn task(arrives_s: f64, steps: &[Step]) -> Task {
        Task {
            arrives_s,
            steps: steps.to_vec(),
            rank: 0.0,
        }
    }

    fn exponential(random: &mut fastrand::Rng, mean: f64) -> f64 {
        -mean * (1.0 - random.f64()).ln()
    }

    /// Tasks that come at random, `rate` a second, and do what `steps` says.
    fn poisson(rate: f64, count: usize, steps: impl Fn(&mut fastrand::Rng) -> Vec<Step>) -> Vec<Task> {
        let mut random = fastrand::Rng::with_seed(7);
        let mut now_s = 0.0;
        let each = |_| {
            now_s += exponential(&mut random, 1.0 / rate);
            task(now_s, &steps(&mut random))
        };
        (0..count).map(each).collect()
    }

    fn finished(system: &System, tasks: &[Task]) -> Vec<f64> {
        simulate(system, tasks)
            .done
            .iter()
            .map(|done| done.finished_s)
            .collect()
    }

    #[track_caller]
    fn near(found: f64, expected: f64, share: f64) {
        assert!(
            (found / expected - 1.0).abs() <= share,
            "{found} is not within {share} of {expected}"
        );
    }

    const MANY: usize = 400_000;

    /// The mean time in the system, where each task takes a worker and then its time on a CPU of its own.
    fn mean_with_workers(workers: usize, rate: f64, service: impl Fn(&mut fastrand::Rng) -> f64) -> f64 {
        let steps =
            |random: &mut fastrand::Rng| vec![Step::Take(0), Step::compute(service(random)), Step::Give(0)];
        simulate(&system(workers as f64, &[workers]), &poisson(rate, MANY, steps)).mean_s()
    }

    /// Kleinrock, *Queueing Systems* I (1975): 1 / (μ − λ).
    #[test]
    fn one_worker_with_random_tasks_is_m_m_1() {
        near(
            mean_with_workers(1, 0.5, |random| exponential(random, 1.0)),
            2.0,
            0.03,
        );
        near(
            mean_with_workers(1, 0.8, |random| exponential(random, 1.0)),
            5.0,
            0.06,
        );
    }

    /// Pollaczek and Khinchine: S + λ S² / 2 (1 − ρ).
    #[test]
    fn one_worker_with_equal_tasks_is_m_d_1() {
        near(mean_with_workers(1, 0.5, |_| 1.0), 1.5, 0.02);
        near(mean_with_workers(1, 0.8, |_| 1.0), 3.0, 0.04);
    }

    /// The same for lengths of any spread; here half are 0.5 and half are 1.5: S + λ E[S²] / 2 (1 − ρ).
    #[test]
    fn one_worker_with_tasks_of_two_lengths_is_m_g_1() {
        let two = |random: &mut fastrand::Rng| if random.bool() { 0.5 } else { 1.5 };
        near(mean_with_workers(1, 0.8, two), 1.0 + 0.8 * 1.25 / 0.4, 0.05);
    }

    /// Erlang's C: the chance that all of c are busy, over c μ − λ.
    #[test]
    fn several_workers_are_m_m_c() {
        for (workers, load) in [(2_usize, 0.75), (4, 0.9), (8, 0.5)] {
            let c = workers as f64;
            let offered = c * load;
            // a^k / k!, for 0 … c.
            let terms: Vec<f64> = (0..=workers)
                .scan(1.0, |term, k| {
                    *term *= if k == 0 { 1.0 } else { offered / k as f64 };
                    Some(*term)
                })
                .collect();
            let queued = terms[workers] / (1.0 - load);
            let waits = queued / (terms[..workers].iter().sum::<f64>() + queued);
            let expected = 1.0 + waits / (c - offered);
            near(
                mean_with_workers(workers, offered, |random| exponential(random, 1.0)),
                expected,
                0.05,
            );
        }
    }

    /// Tasks that share a CPU: the mean is 1 / (μ − λ) whatever the spread of lengths (Kleinrock 1967).
    #[test]
    fn sharing_a_cpu_does_not_mind_the_spread() {
        let of = |steps: fn(&mut fastrand::Rng) -> f64| {
            let tasks = poisson(0.7, MANY, |random| vec![Step::compute(steps(random))]);
            simulate(&system(1.0, &[]), &tasks).mean_s()
        };
        near(of(|_| 1.0), 1.0 / 0.3, 0.04);
        near(of(|random| exponential(random, 1.0)), 1.0 / 0.3, 0.05);
    }

    /// Little: who is inside on average is the rate by the time inside.
    #[test]
    fn who_waits_for_nothing_takes_its_own_time() {
        let tasks = poisson(3.0, 10_000, |_| vec![Step::Wait(2.0), Step::compute(0.001)]);
        near(simulate(&system(64.0, &[]), &tasks).mean_s(), 2.001, 1e-6);
    }

    /// The machine repairman: N clients that think for Z and then want one server for S, all exponential. By the
    /// recursion of mean value analysis (Reiser and Lavenberg 1980).
    #[test]
    fn a_closed_network_is_mean_value_analysis() {
        for (clients, think_s, share) in [(1, 4.0, 0.03), (5, 4.0, 0.03), (20, 10.0, 0.03), (50, 10.0, 0.01)]
        {
            let (mut length, mut throughput) = (0.0, 0.0);
            for n in 1..=clients {
                let response = 1.0 + length;
                throughput = f64::from(n) / (think_s + response);
                length = throughput * response;
            }
            let mut random = fastrand::Rng::with_seed(11);
            let tasks: Vec<Task> = (0..100_000)
                .map(|_| {
                    let think_s = exponential(&mut random, think_s);
                    let serve = Step::compute(exponential(&mut random, 1.0));
                    task(think_s, &[Step::Take(0), serve, Step::Give(0)])
                })
                .collect();
            let closed = System {
                arrivals: Arrivals::Closed(clients as usize),
                ..system(1.0, &[1])
            };
            near(simulate(&closed, &tasks).throughput(), throughput, share);
        }
    }

    /// Two pools one after the other, of a closed network with a server each: throughput N / (N + 1) for equal means
    /// (Jackson's networks; Gordon and Newell 1967).
    #[test]
    fn two_servers_in_a_circle_are_gordon_and_newell() {
        let mut random = fastrand::Rng::with_seed(3);
        let tasks: Vec<Task> = (0..100_000)
            .map(|_| {
                let [a, b] = [(); 2].map(|()| exponential(&mut random, 1.0));
                let steps = [
                    Step::Take(0),
                    Step::Wait(a),
                    Step::Give(0),
                    Step::Take(1),
                    Step::Wait(b),
                    Step::Give(1),
                ];
                task(0.0, &steps)
            })
            .collect();
        let closed = System {
            arrivals: Arrivals::Closed(4),
            ..system(1.0, &[1, 1])
        };
        near(simulate(&closed, &tasks).throughput(), 4.0 / 5.0, 0.02);
    }

    /// Source 000's own figures, worked out apart from this program: lengths n … 1, all on one CPU at once.
    #[test]
    fn sharing_among_the_sources_counts() {
        for (n, expected) in [(2, 1.75), (5, 4.0), (8, 6.25), (11, 8.5), (14, 10.75), (17, 13.0)] {
            let lengths = (1..=n).rev().map(f64::from);
            let tasks: Vec<Task> = lengths.map(|s| task(0.0, &[Step::compute(s)])).collect();
            let outcome = simulate(&system(1.0, &[]), &tasks);
            let slowdown = |(done, length): (&Done, f64)| done.took_s() / length;
            let all = outcome.done.iter().zip((1..=n).rev().map(f64::from));
            near(all.map(slowdown).sum::<f64>() / f64::from(n), expected, 1e-9);
        }
    }

    #[test]
    fn cpus_are_shared_and_a_thread_has_one_at_most() {
        let tasks = [3.0, 2.0, 1.0].map(|s| task(0.0, &[Step::compute(s)]));
        assert_eq!(finished(&system(1.0, &[]), &tasks), [6.0, 5.0, 3.0]);
        assert_eq!(finished(&system(8.0, &[]), &tasks), [3.0, 2.0, 1.0]);
        // A task with threads of its own has as many shares: 2 of 3 until 1.5, then both CPUs.
        let inner = Step::Compute {
            cpu_s: 2.0,
            threads: 2.0,
        };
        let tasks = [task(0.0, &[inner]), task(0.0, &[Step::compute(1.0)])];
        assert_eq!(finished(&system(2.0, &[]), &tasks), [1.5, 1.5]);
    }

    #[test]
    fn a_lock_lets_one_on_at_a_time_and_a_pool_inside_another_its_own_number() {
        let steps = [Step::Take(0), Step::compute(1.0), Step::Give(0)];
        assert_eq!(
            finished(&system(4.0, &[1]), &[task(0.0, &steps), task(0.0, &steps)]),
            [1.0, 2.0]
        );
        // Three workers, of which two at a time may ask the database.
        let steps = [
            Step::Take(0),
            Step::Take(1),
            Step::Wait(1.0),
            Step::Give(1),
            Step::Give(0),
        ];
        let tasks = [(); 4].map(|()| task(0.0, &steps));
        assert_eq!(finished(&system(4.0, &[3, 2]), &tasks), [1.0, 1.0, 2.0, 2.0]);
    }

    #[test]
    fn who_has_the_least_rank_goes_first_where_a_pool_says_so() {
        let ranked = |rank| Task {
            rank,
            ..task(0.0, &[Step::Take(0), Step::compute(rank), Step::Give(0)])
        };
        let mut system = system(1.0, &[1]);
        system.pools[0].turn = Turn::Rank;
        // The first found the place free.
        assert_eq!(
            finished(&system, &[ranked(3.0), ranked(2.0), ranked(1.0)]),
            [3.0, 6.0, 4.0]
        );
    }

    #[test]
    fn a_quota_stops_all_until_the_next_period() {
        let quota = Some(Quota {
            cpus: 0.5,
            period_s: 0.1,
        });
        let limited = System {
            quota,
            ..system(2.0, &[])
        };
        // Of 100 ms one CPU may be used for 50; the last 20 come in the second period.
        let one = simulate(&limited, &[task(0.0, &[Step::compute(0.07)])]);
        near(one.end_s, 0.12, 1e-9);
        near(one.throttled_s, 0.05, 1e-9);
        // Two use it up in 25 ms, and go on together.
        let two = simulate(&limited, &[0.03, 0.03].map(|s| task(0.0, &[Step::compute(s)])));
        near(two.end_s, 0.105, 1e-9);
        near(two.throttled_s, 0.075, 1e-9);
        near(two.cpu_s, 0.06, 1e-9);
        // Who comes after a rest has a whole period.
        let late = simulate(
            &limited,
            &[
                task(0.0, &[Step::compute(0.04)]),
                task(0.95, &[Step::compute(0.04)]),
            ],
        );
        near(late.done[1].took_s(), 0.04, 1e-9);
    }

    /// In the long run a quota of Q is Q CPUs.
    #[test]
    fn a_quota_is_as_many_cpus_in_the_long_run() {
        let quota = Some(Quota {
            cpus: 1.5,
            period_s: 0.1,
        });
        let tasks = vec![task(0.0, &[Step::compute(0.03)]); 1_000];
        let limited = System {
            quota,
            ..system(96.0, &[])
        };
        near(simulate(&limited, &tasks).end_s, 20.0, 0.01);
    }

    /// A task that wakes up all the time and does nothing lets no period pass without an event.
    #[test]
    fn periods_that_pass_at_once_are_as_those_that_pass_one_by_one() {
        for (cpus, quota, computes) in [(2.0, 0.5, 1), (2.0, 1.2, 3), (4.0, 3.0, 2), (1.0, 0.07, 2)] {
            let limited = System {
                quota: Some(Quota {
                    cpus: quota,
                    period_s: 0.1,
                }),
                ..system(cpus, &[])
            };
            let mut tasks: Vec<Task> = (0..computes)
                .map(|n| {
                    task(
                        0.3 * f64::from(n),
                        &[Step::compute(7.713 + f64::from(n)), Step::Wait(0.4)],
                    )
                })
                .collect();
            let at_once = simulate(&limited, &tasks);
            let wakes_up = vec![Step::Wait(0.03); 20_000];
            tasks.push(task(0.0, &wakes_up));
            let one_by_one = simulate(&limited, &tasks);
            for (a, b) in at_once.done.iter().zip(&one_by_one.done) {
                near(a.finished_s, b.finished_s, 1e-6);
            }
            let [some, all] = [&at_once, &one_by_one].map(|outcome| outcome.throttled_s);
            assert!((some - all).abs() < 1e-6, "{some} {all} of {quota}");
            near(at_once.cpu_s, one_by_one.cpu_s, 1e-6);
        }
        // One by one this would take a day.
        let years = System {
            quota: Some(Quota {
                cpus: 0.5,
                period_s: 0.1,
            }),
            ..system(2.0, &[])
        };
        let outcome = simulate(&years, &[task(0.0, &[Step::compute(1e10)])]);
        near(outcome.end_s, 2e10, 1e-6);
        // So late in time a millionth of a second is all that a number can tell.
        let late = [0.0, 1e9, 3e9].map(|at| task(at, &[Step::compute(1.234)]));
        near(simulate(&years, &late).done[2].took_s(), 2.434, 1e-6);
    }

    #[test]
    fn switching_takes_its_share_where_there_are_more_threads_than_cpus() {
        let crowded = System {
            switching: 0.2,
            ..system(1.0, &[])
        };
        near(
            simulate(&crowded, &[1.0].map(|s| task(0.0, &[Step::compute(s)]))).end_s,
            1.0,
            1e-9,
        );
        near(
            simulate(&crowded, &[1.0, 1.0].map(|s| task(0.0, &[Step::compute(s)]))).end_s,
            2.5,
            1e-9,
        );
    }

    #[test]
    #[should_panic(expected = "nobody gives back")]
    fn who_keeps_a_place_for_ever_is_a_defect() {
        let keeps = [Step::Take(0)];
        let _ = simulate(&system(1.0, &[1]), &[task(0.0, &keeps), task(0.0, &keeps)]);
    }

    #[test]
    fn nothing_to_do_is_done_at_once() {
        assert_eq!(
            finished(&system(1.0, &[]), &[task(0.0, &[]), task(1.0, &[])]),
            [0.0, 1.0]
        );
        assert_eq!(simulate(&system(1.0, &[]), &[]), Outcome::default());
    }

    #[test]
    fn a_quantile_is_a_time_that_was_taken() {
        let tasks: Vec<Task> = (1..=100)
            .map(|n| task(0.0, &[Step::Wait(f64::from(n))]))
            .collect();
        let outcome = simulate(&system(1.0, &[]), &tasks);
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|share| outcome.quantile_s(share)),
            [1.0, 50.0, 99.0, 100.0]
        );
    }

    proptest! {
        /// No CPU is idle while there is work for it, and nothing is done twice.
        #[test]
        fn work_is_conserved(
            lengths in proptest::collection::vec((0.0_f64..5.0, 0.001_f64..10.0), 1..40),
            cpus in 1_u32..5,
            workers in 1_usize..8,
        ) {
            let tasks: Vec<Task> = lengths
                .iter()
                .map(|&(at, s)| task(at, &[Step::Take(0), Step::compute(s), Step::Give(0)]))
                .collect();
            let outcome = simulate(&system(f64::from(cpus), &[workers]), &tasks);
            let work: f64 = lengths.iter().map(|(_, s)| s).sum();
            prop_assert!((outcome.cpu_s / work - 1.0).abs() < 1e-6);
            let most = f64::from(cpus).min(workers as f64);
            prop_assert!(outcome.end_s >= work / most - 1e-6);
            let longest = lengths.iter().map(|&(_, s)| s).fold(0.0, f64::max);
            prop_assert!(outcome.end_s <= 5.0 + work / most + longest + 1e-6);
            for (done, (_, s)) in outcome.done.iter().zip(&lengths) {
                prop_assert!(done.took_s() >= s - 1e-6);
            }
        }

        /// A quota never lets more be used than it says, a period's worth aside.
        #[test]
        fn a_quota_is_kept(
            lengths in proptest::collection::vec((0.0_f64..1.0, 0.001_f64..0.3), 1..40),
            quota in 0.1_f64..3.0,
        ) {
            let tasks: Vec<Task> = lengths.iter().map(|&(at, s)| task(at, &[Step::compute(s)])).collect();
            let limited = System {
                quota: Some(Quota { cpus: quota, period_s: 0.1 }),
                ..system(4.0, &[])
            };
            let outcome = simulate(&limited, &tasks);
            prop_assert!(outcome.cpu_s <= quota * (outcome.end_s + 0.1) + 1e-6);
            let work: f64 = lengths.iter().map(|(_, s)| s).sum();
            prop_assert!((outcome.cpu_s / work - 1.0).abs() < 1e-6);
        }
    }
}
