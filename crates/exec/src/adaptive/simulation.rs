//! A machine on which objects are processed in simulated time.
//!
//! An object is a chain of steps: it computes (runnable ones share the CPUs alike), waits, or is served by a server
//! with some slots and a queue, which may slow down when many wait. Always objects enough: as many are at work as the
//! degree says.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::controller::Controller;

/// Nanoseconds.
pub(super) type Ns = f64;
pub(super) const MS: Ns = 1e6;

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Uniform in (0, 1].
    pub(super) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + 1e-18
    }

    pub(super) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Mean 1, many small and few large: CV 1.3.
    pub(super) fn heavy(&mut self) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        normal.exp() / 0.5_f64.exp()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Compute(Ns),
    Wait(Ns),
    Serve(Ns),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) cpus: usize,
    /// What each runnable thread beyond the CPUs takes off their speed.
    pub(super) crowding: f64,
    pub(super) slots: usize,
    /// By what share a request is slower for each one that waits, per slot.
    pub(super) thrashing: f64,
}

pub(super) const PLAIN: Machine = Machine {
    cpus: 2,
    crowding: 0.0,
    slots: usize::MAX,
    thrashing: 0.0,
};

pub(super) const fn slots(slots: usize, thrashing: f64) -> Machine {
    Machine {
        slots,
        thrashing,
        ..PLAIN
    }
}

pub(super) const fn cpus(cpus: usize) -> Machine {
    Machine { cpus, ..PLAIN }
}

pub(super) enum Degree<'c> {
    Fixed(usize),
    Found(&'c mut Controller),
}

impl Degree<'_> {
    fn now(&self) -> usize {
        match self {
            Self::Fixed(k) => *k,
            Self::Found(controller) => controller.degree(),
        }
    }
}

/// A time that orders events; never NaN.
#[derive(Clone, Copy)]
struct At(Ns);

impl PartialEq for At {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

struct Job {
    started: Ns,
    steps: std::vec::IntoIter<Step>,
    /// What the step in hand needs, for CPU accounting at its end.
    used: Ns,
}

struct World {
    machine: Machine,
    now: Ns,
    jobs: Vec<Option<Job>>,
    /// Compute: all runnable advance alike, so one clock (`progress`) serves all.
    progress: Ns,
    runnable: BinaryHeap<Reverse<(At, usize)>>,
    timers: BinaryHeap<Reverse<(At, usize)>>,
    queue: VecDeque<(usize, Ns)>,
    served: usize,
    serving: Vec<bool>,
}

impl World {
    fn speed(&self) -> f64 {
        let n = self.runnable.len() as f64;
        let cpus = self.machine.cpus as f64;
        let crowd = (n - cpus).max(0.0);
        (cpus / n).min(1.0) / (1.0 + self.machine.crowding * crowd)
    }

    /// Time of the next event, and whether it is a computation's.
    fn next(&self) -> Option<(Ns, bool)> {
        let timer = self.timers.peek().map(|Reverse((at, _))| at.0);
        let compute = self
            .runnable
            .peek()
            .map(|Reverse((at, _))| self.now + (at.0 - self.progress).max(0.0) / self.speed());
        match (timer, compute) {
            (None, None) => None,
            (Some(t), None) => Some((t, false)),
            (None, Some(c)) => Some((c, true)),
            (Some(t), Some(c)) => Some(if c <= t { (c, true) } else { (t, false) }),
        }
    }

    fn advance(&mut self, to: Ns) {
        let elapsed = to - self.now;
        if !self.runnable.is_empty() {
            self.progress += elapsed * self.speed();
        }
        self.now = to;
    }

    fn serve(&mut self) {
        while self.served < self.machine.slots {
            let Some((slot, needs)) = self.queue.pop_front() else {
                return;
            };
            self.served += 1;
            self.serving[slot] = true;
            let waiting = self.queue.len() as f64 / self.machine.slots as f64;
            let needs = needs * (1.0 + self.machine.thrashing * waiting);
            self.timers.push(Reverse((At(self.now + needs), slot)));
        }
    }

    /// The next step of a job, or its end: `false`.
    fn step(&mut self, slot: usize) -> bool {
        let job = self.jobs[slot].as_mut().expect("at work");
        match job.steps.next() {
            None => false,
            Some(Step::Compute(needs)) => {
                job.used += needs;
                self.runnable.push(Reverse((At(self.progress + needs), slot)));
                true
            }
            Some(Step::Wait(needs)) => {
                self.timers.push(Reverse((At(self.now + needs), slot)));
                true
            }
            Some(Step::Serve(needs)) => {
                self.queue.push_back((slot, needs));
                self.serve();
                true
            }
        }
    }
}

/// Runs all objects; returns the elapsed time, and the time between the completions of two of them.
pub(super) fn run(
    machine: Machine,
    objects: &mut dyn Iterator<Item = Vec<Step>>,
    mut degree: Degree<'_>,
    between: [usize; 2],
) -> (Ns, Ns) {
    let (mut done, mut at_times) = (0, [0.0; 2]);
    let mut world = World {
        machine,
        now: 0.0,
        jobs: Vec::new(),
        progress: 0.0,
        runnable: BinaryHeap::new(),
        timers: BinaryHeap::new(),
        queue: VecDeque::new(),
        served: 0,
        serving: Vec::new(),
    };
    let mut free = Vec::new();
    let mut running = 0;
    let mut finished_cpu = 0.0;
    loop {
        while running < degree.now() {
            let Some(steps) = objects.next() else { break };
            let slot = free.pop().unwrap_or_else(|| {
                world.jobs.push(None);
                world.serving.push(false);
                world.jobs.len() - 1
            });
            world.jobs[slot] = Some(Job {
                started: world.now,
                steps: steps.into_iter(),
                used: 0.0,
            });
            running += 1;
            assert!(world.step(slot), "an object has a step");
        }
        let Some((at, computes)) = world.next() else {
            return (world.now, at_times[1] - at_times[0]);
        };
        world.advance(at);
        let heap = if computes {
            &mut world.runnable
        } else {
            &mut world.timers
        };
        let Some(Reverse((_, slot))) = heap.pop() else {
            unreachable!("it has an event")
        };
        if std::mem::take(&mut world.serving[slot]) && !computes {
            world.served -= 1;
            world.serve();
        }
        if world.step(slot) {
            continue;
        }
        let job = world.jobs[slot].take().expect("at work");
        free.push(slot);
        running -= 1;
        done += 1;
        for (at, n) in at_times.iter_mut().zip(between) {
            if done == n {
                *at = world.now;
            }
        }
        finished_cpu += job.used;
        if let Degree::Found(controller) = &mut degree {
            controller.complete(job.started as u64, world.now as u64, finished_cpu as u64);
        }
    }
}
