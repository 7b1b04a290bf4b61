//! Designs: who does tasks, how many at once and in which order; and what each is as a system of the simulator.
//!
//! Owns what a task costs beyond its own work in each design, who may compute at once, and what memory that takes. It
//! knows no workload that is best for anything.

use serde::Serialize;
use threadgauge_results::units::counted;

use crate::costs::{Costs, Price};
use crate::simulator::{Arrivals, Pool, Quota, Step, System, Turn};
use crate::workload::{Coming, Workload};

/// Where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Machine {
    /// CPUs that it may run on.
    pub cpus: f64,
    /// CPUs' worth of time that a quota allows.
    pub quota: Option<f64>,
    /// Memory that it may have, B.
    pub memory_bytes: Option<f64>,
}

impl Machine {
    /// CPUs' worth of time that it can have in the long run.
    #[must_use]
    pub fn effective(&self) -> f64 {
        self.quota.map_or(self.cpus, |quota| quota.min(self.cpus))
    }
}

/// A way to use processes, threads and event loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// One task after the other, by the thread that there is.
    Serial,
    /// One task after the other, by one thread beside that of the person.
    Background,
    /// One thread that has many tasks under way and waits for all of them at once.
    Async,
    /// So many threads of that kind, each with its part of the clients.
    Loops,
    /// A pool of threads.
    Threads,
    /// A thread for each task or client, made for it.
    ThreadEach,
    /// A pool of processes.
    Processes,
    /// A process for each stage, with a pool of threads inside.
    Stages,
    /// A process for each task or client, made for it.
    ProcessEach,
}

impl Design {
    /// Whether a task that crashes takes no other with it, those of its own process aside.
    #[must_use]
    pub const fn isolates(self) -> bool {
        matches!(self, Self::Processes | Self::ProcessEach)
    }

    /// Whether its units are processes, which can also be on other machines.
    #[must_use]
    pub const fn has_processes(self) -> bool {
        matches!(self, Self::Processes | Self::ProcessEach | Self::Stages)
    }

    /// Whether a unit is made for each task.
    #[must_use]
    pub const fn comes_and_goes(self) -> bool {
        matches!(self, Self::ThreadEach | Self::ProcessEach)
    }

    /// Whether one thread computes for all tasks.
    const fn computes_in_turn(self) -> bool {
        matches!(self, Self::Async | Self::Loops)
    }
}

/// In which order tasks that are there are begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As given.
    Given,
    /// The shortest first.
    Shortest,
    /// The longest first: the worst case.
    Longest,
}

/// A design, how many tasks at once, and their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Candidate {
    /// The design.
    pub design: Design,
    /// Tasks at once; of [`Design::Loops`] threads. Of a unit for each task the most there can be.
    pub at_once: usize,
    /// Their order.
    pub order: Order,
}

impl Candidate {
    /// In the order given.
    #[must_use]
    pub const fn new(design: Design, at_once: usize) -> Self {
        Self {
            design,
            at_once,
            order: Order::Given,
        }
    }

    /// In plain words.
    #[must_use]
    pub fn says(&self, workload: &Workload) -> String {
        let whom = match workload.connections {
            Some(_) => "client",
            None => "task",
        };
        let at_once = self.at_once;
        let words = match self.design {
            Design::Serial => "one after the other".to_owned(),
            Design::Background => "one background thread".to_owned(),
            Design::Async if at_once == usize::MAX => "one asynchronous thread".to_owned(),
            Design::Async => format!("one asynchronous thread, {at_once} tasks at once"),
            Design::Loops if at_once == 1 => "one event loop".to_owned(),
            Design::Loops => format!("{at_once} event loops"),
            Design::Threads => counted(at_once, "thread"),
            Design::ThreadEach => format!("a thread for each {whom}"),
            Design::Processes => counted(at_once, "process"),
            Design::Stages => format!(
                "{}, one a stage, {at_once} tasks at once",
                counted(workload.stages, "process")
            ),
            Design::ProcessEach => format!("a process for each {whom}"),
        };
        match self.order {
            Order::Given => words,
            Order::Shortest => format!("{words}, the shortest first"),
            Order::Longest => format!("{words}, the longest first"),
        }
    }
}

/// Sending a message to one client: the system call that does it, s.
pub(crate) const DELIVERY_CPU_S: f64 = 6e-6;
/// Memory of a client that stays connected, whoever serves it, B.
const CONNECTION_BYTES: f64 = 3_072.0;
/// A period of the kernel's quotas, s.
pub(crate) const PERIOD_S: f64 = 0.1;
/// For so long a thread keeps a CPU that others want, s: the usual slice of Linux.
const SLICE_S: f64 = 3e-3;
/// Of memory so much may be used before a machine gets into trouble.
pub(crate) const USABLE_MEMORY: f64 = 0.8;

/// A candidate as a system, for one workload on one machine.
#[derive(Debug, Clone)]
pub(crate) struct Model<'a> {
    pub candidate: Candidate,
    workload: &'a Workload,
    /// What a task costs beyond its work: CPU time, s; and by how much that is uncertain.
    pub overhead_s: [f64; 3],
    pub system: System,
    /// Of the pools: slots, the lock, those for whom tasks wait, the gate that bounds how often, the loops.
    loops: Option<usize>,
    pub memory_bytes: f64,
    /// CPUs that its threads can use at once.
    usable_cpus: f64,
    memory_limit: Option<f64>,
}

const SLOTS: usize = 0;
const LOCK: usize = 1;
const LIMIT: usize = 2;
const GATE: usize = 3;
const LOOPS: usize = 4;

impl<'a> Model<'a> {
    pub fn new(candidate: Candidate, workload: &'a Workload, machine: &Machine, costs: &Costs) -> Self {
        let Candidate {
            design,
            at_once,
            order,
        } = candidate;
        let alone = workload.language.computes_alone() && !design.has_processes();
        let speed = costs.speed(machine.cpus);
        let loops = design.computes_in_turn().then_some(match design {
            Design::Loops if !alone => at_once,
            _ => 1,
        });
        let usable_cpus = match (alone, loops) {
            (true, _) => speed.min(1.0),
            (false, Some(loops)) => speed.min(loops as f64),
            (false, None) => speed,
        };
        let slots = match design {
            Design::Serial | Design::Background => 1,
            Design::Loops => usize::MAX,
            _ if workload.depend => 1,
            _ => at_once,
        };
        let turn = if order == Order::Given {
            Turn::First
        } else {
            Turn::Rank
        };
        let one = Pool::of(1);
        let pools = vec![
            Pool { places: slots, turn },
            one,
            Pool::of(workload.limit.unwrap_or(usize::MAX)),
            one,
            Pool::of(loops.unwrap_or(usize::MAX)),
        ];
        Self {
            candidate,
            workload,
            overhead_s: overhead(design, workload, costs),
            system: System {
                cpus: usable_cpus,
                quota: machine.quota.map(|cpus| Quota {
                    cpus,
                    period_s: PERIOD_S,
                }),
                pools,
                switching: (costs.thread_switch.value / SLICE_S).min(0.9),
                arrivals: Arrivals::Open,
            },
            loops,
            memory_bytes: memory(candidate, workload, costs),
            usable_cpus,
            memory_limit: machine.memory_bytes,
        }
    }

    /// Work of a task and what it costs in this design: CPU time, s.
    pub fn cpu_s(&self) -> f64 {
        self.work_s() + self.overhead_s[1]
    }

    /// Work of a task: CPU time, s.
    pub fn work_s(&self) -> f64 {
        work_s(self.workload)
    }

    /// The steps of a task of these lengths, s.
    pub fn steps(&self, cpu_s: f64, wait_s: f64) -> Vec<Step> {
        let threads = self.workload.inner_threads as f64;
        let lock_s = cpu_s * self.workload.lock;
        let half_s = (cpu_s - lock_s) / 2.0;
        let compute = |cpu_s: f64| Step::Compute { cpu_s, threads };
        let mut steps = vec![Step::Take(SLOTS)];
        let begin = [Step::compute(self.overhead_s[1]), compute(half_s)];
        let locked = [Step::Take(LOCK), Step::compute(lock_s), Step::Give(LOCK)];
        let mut first = begin.to_vec();
        // Without a lock its steps would be events for nothing.
        if lock_s > 0.0 {
            first.extend(locked);
        }
        if wait_s > 0.0 {
            self.in_turn(&mut steps, &first);
            steps.extend(self.waits(wait_s));
            self.in_turn(&mut steps, &[compute(half_s)]);
        } else {
            first.push(compute(half_s));
            self.in_turn(&mut steps, &first);
        }
        steps.push(Step::Give(SLOTS));
        steps
    }

    /// Computing, by one of the loops where there are any.
    fn in_turn(&self, steps: &mut Vec<Step>, some: &[Step]) {
        steps.extend(self.loops.map(|_| Step::Take(LOOPS)));
        steps.extend_from_slice(some);
        steps.extend(self.loops.map(|_| Step::Give(LOOPS)));
    }

    fn waits(&self, wait_s: f64) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(rate) = self.workload.limit_rate {
            steps.extend([Step::Take(GATE), Step::Wait(1.0 / rate), Step::Give(GATE)]);
        }
        match self.workload.limit {
            Some(_) => steps.extend([Step::Take(LIMIT), Step::Wait(wait_s), Step::Give(LIMIT)]),
            None => steps.push(Step::Wait(wait_s)),
        }
        steps
    }

    /// Tasks a second that it can do at most, whatever they wait for.
    pub fn capacity(&self) -> f64 {
        let Workload {
            wait_s,
            lock,
            inner_threads,
            limit,
            limit_rate,
            ..
        } = self.workload;
        let cpu_s = self.cpu_s().max(1e-12);
        let cpus = self
            .system
            .quota
            .map_or(self.usable_cpus, |quota| quota.cpus.min(self.usable_cpus));
        let alone_s = cpu_s / (*inner_threads as f64).min(self.usable_cpus.max(1.0)) + wait_s;
        let slots = self.system.pools[SLOTS].places as f64;
        let of_lock = if *lock > 0.0 {
            1.0 / (self.work_s() * lock)
        } else {
            f64::INFINITY
        };
        let of_limit = match limit {
            Some(limit) if *wait_s > 0.0 => *limit as f64 / wait_s,
            _ => f64::INFINITY,
        };
        [
            cpus / cpu_s,
            slots / alone_s,
            of_lock,
            of_limit,
            limit_rate.unwrap_or(f64::INFINITY),
        ]
        .into_iter()
        .fold(f64::INFINITY, f64::min)
    }

    /// Whether its memory is there.
    pub fn fits(&self) -> bool {
        self.memory_limit
            .is_none_or(|limit| self.memory_bytes <= USABLE_MEMORY * limit)
    }
}

/// Work of a task on average: CPU time, s; with connections of a message and its deliveries.
pub(crate) fn work_s(workload: &Workload) -> f64 {
    let deliveries = workload.connections.map_or(0, |connections| connections.fan_out);
    workload.cpu_s + deliveries as f64 * DELIVERY_CPU_S
}

/// CPU time of a task beyond its work, s: least, likely, most.
fn overhead(design: Design, workload: &Workload, costs: &Costs) -> [f64; 3] {
    let waits = if workload.wait_s > 0.0 { 1.0 } else { 0.0 };
    let between = (workload.stages - 1) as f64;
    let pages = workload.passes_bytes / 4096.0;
    let add = |parts: &[(Price, f64)]| -> [f64; 3] {
        let sum = |end: fn(&Price) -> f64| parts.iter().map(|(price, times)| end(price) * times).sum();
        [
            sum(|price| price.low),
            sum(|price| price.value),
            sum(|price| price.high),
        ]
    };
    // A message wakes who writes to each of its receivers.
    if let Some(connections) = workload.connections {
        let fan_out = connections.fan_out as f64;
        return match design {
            Design::ThreadEach => add(&[(costs.thread_job, fan_out + 1.0)]),
            Design::ProcessEach => add(&[(costs.thread_job, fan_out + 1.0), (costs.process_note, fan_out)]),
            _ => add(&[(costs.two_calls, 1.0)]),
        };
    }
    let switches = 2.0 * waits;
    match design {
        Design::Serial => [0.0; 3],
        Design::Background => add(&[(costs.thread_job, 1.0)]),
        Design::Async | Design::Loops => {
            add(&[(costs.task_switch, 2.0 + between), (costs.two_calls, switches)])
        }
        Design::Threads => add(&[
            (costs.thread_job, 1.0),
            (costs.thread_switch, switches),
            (costs.thread_note, between),
        ]),
        Design::ThreadEach => add(&[
            (costs.thread_make, 1.0),
            (costs.thread_switch, switches),
            (costs.thread_note, between),
        ]),
        Design::Processes => add(&[
            (costs.process_note, 2.0),
            (costs.process_page, pages),
            (costs.process_switch, switches),
            (costs.thread_note, between),
        ]),
        Design::Stages => add(&[
            (costs.thread_job, 1.0),
            (costs.process_note, between),
            (costs.process_page, pages * between),
            (costs.process_switch, switches),
        ]),
        Design::ProcessEach => add(&[
            (costs.process_make, 1.0),
            (costs.process_note, 1.0),
            (costs.process_page, pages),
            (costs.process_switch, switches),
        ]),
    }
}

/// Memory of all that are at work at once, B.
fn memory(candidate: Candidate, workload: &Workload, costs: &Costs) -> f64 {
    let Candidate { design, at_once, .. } = candidate;
    let clients = workload.connections.map(|connections| connections.count as f64);
    let most = match (workload.coming, clients) {
        (_, Some(clients)) => clients,
        (Coming::Batch(tasks), None) => tasks as f64,
        // As many as are inside at once, by Little's law, and as many again.
        (Coming::Rate(rate), None) => (2.0 * rate * (workload.cpu_s + workload.wait_s)).max(1.0).ceil(),
    };
    let units = (at_once as f64).min(most);
    // Who says what a task needs says it with the runtime.
    let runtime_bytes = match workload.memory_bytes {
        0.0 => workload.language.process_bytes().unwrap_or(0.0),
        _ => 0.0,
    };
    let process_bytes = costs.process_bytes.value.max(runtime_bytes);
    let (unit, units) = match design {
        Design::Serial => (0.0, 0.0),
        Design::Background => (costs.thread_bytes.value, 1.0),
        Design::Async => (costs.thread_bytes.value, 1.0),
        Design::Loops => (costs.thread_bytes.value, at_once as f64),
        Design::Threads => (costs.thread_bytes.value, at_once as f64),
        Design::ThreadEach => (costs.thread_bytes.value, units),
        Design::Processes => (process_bytes, at_once as f64),
        Design::Stages => (process_bytes, workload.stages as f64),
        Design::ProcessEach => (process_bytes, units),
    };
    let tasks = match (design, workload.coming, clients) {
        (Design::Serial | Design::Background, ..) => 1.0,
        // Each keeps what it once needed.
        (Design::Processes | Design::Loops, ..) => at_once as f64,
        // Of clients that stay connected few say something at once.
        (_, Coming::Rate(rate), Some(_)) => (2.0 * rate * work_s(workload)).max(1.0).ceil(),
        _ => (at_once as f64).min(most),
    };
    unit * units + tasks * workload.memory_bytes + clients.unwrap_or(0.0) * CONNECTION_BYTES
}
