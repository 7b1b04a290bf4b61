//! Question: is a described workload done as soon as arithmetic says, in which way to use processes and threads?
//!
//! A twin of a user's workload: tasks that burn, wait, hold a lock and take memory as they were told, drawn by the same
//! seed as those of `crates/advise`, so that prediction and measurement are of the same tasks. `threadgauge advise
//! --measure` starts it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};
use threadgauge_advise::costs::Costs;
use threadgauge_advise::design::{Candidate, Design};
use threadgauge_advise::predict::{Drawn, Effort, predict};
use threadgauge_advise::workload::{Coming, Workload};
use threadgauge_advise::{Description, Machine};
use threadgauge_exec::process::{Crash, Processor};
use threadgauge_exec::{ConcurrentExecution, Done, Mode};
use threadgauge_lab::point::{Parameter, Value};
use threadgauge_lab::prelude::*;
use threadgauge_machine::{Burner, clock, usage_children, usage_self};
use threadgauge_results::{Figure, Table};

/// What it asks, how it measures, and the functions that do.
pub const TWIN: Experiment = Experiment {
    id: "twin",
    question: "Is a described workload done as soon as arithmetic says, and in which way soonest?",
    first_run: false,
    sources: &[],
    primary: &[ELAPSED, MEAN],
    how: "Tasks are drawn by a seed: each burns CPU time with the calibrated burner, half of it before and half after it \
          waits (a sleep), holds one lock for its part of the burning, and writes to each page of its memory. They are all \
          there at the start, or come at random moments. A way is who does them, and how many at once: `serial` the \
          worker's own thread, `threads` a pool that is there before the clock starts, `thread-each` a thread made for \
          each, `async` one thread that begins another task while some wait, `processes` helper processes. `elapsed_ns` \
          runs until the last is done, `mean_ns` is from a task's arrival until it is done, at the mean, and `p99_ns` what \
          99 of 100 do not exceed, where there are a thousand. `cpu_ns` is the CPU time of all.",
    control: "The prediction of the same tasks (predicted_…), with the costs that are shipped with the program and without a \
              quota. What `advise` prints rests on this machine's own costs, and on its quota.",
    traps: &[
        "A sleep is not a database: those for whom real tasks wait get slower when more ask at once. It ends without the \
         slack of 50 µs that the kernel adds to sleeps, since it adds none to what comes from a network.",
        "Tasks that share caches or memory bandwidth slow each other down; these do not.",
    ],
    source: "Source 000 compared ways to do computations of given lengths; these are lengths that a user told.",
    calls: &["threadgauge advise --tasks 40 --cpu 20ms --wait 20ms --measure"],
    plan,
    run,
    read,
};

/// From the start until the last is done.
pub const ELAPSED: Metric = metric("elapsed_ns", "ns");
/// From arrival until a task is done, at the mean.
pub const MEAN: Metric = metric("mean_ns", "ns");
/// Of the same what 99 of 100 do not exceed.
pub const P99: Metric = metric("p99_ns", "ns");
const CPU: Metric = metric("cpu_ns", "ns");
const PREDICTED_ELAPSED: Metric = metric("predicted_elapsed_ns", "ns");
const PREDICTED_MEAN: Metric = metric("predicted_mean_ns", "ns");

/// A quantile of 99 % is quoted from so many on.
const FOR_P99: usize = 1_000;

/// A way to do tasks: who, and how many at once. As a parameter `threads-8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    design: Design,
    at_once: u64,
}

const DESIGNS: [(Design, &str); 5] = [
    (Design::Serial, "serial"),
    (Design::Threads, "threads"),
    (Design::ThreadEach, "thread-each"),
    (Design::Async, "async"),
    (Design::Processes, "processes"),
];

/// A candidate of `advise` as the value of the parameter `way`, where the twin has it. The background thread is
/// measured as one after the other.
#[must_use]
pub fn way(candidate: Candidate) -> Option<String> {
    let design = match candidate.design {
        Design::Background => Design::Serial,
        design => design,
    };
    let (_, name) = DESIGNS.iter().find(|(of, _)| *of == design)?;
    let at_once = match design {
        Design::ThreadEach => 1,
        _ => candidate.at_once,
    };
    Some(format!("{name}-{at_once}"))
}

impl Parameter for Way {
    fn value(&self) -> Value {
        let name = DESIGNS
            .iter()
            .find(|(design, _)| *design == self.design)
            .map_or("", |(_, name)| name);
        Value::Text(format!("{name}-{}", self.at_once))
    }

    fn read(value: &Value) -> Option<Self> {
        let Value::Text(text) = value else { return None };
        let (name, at_once) = text.rsplit_once('-')?;
        let (design, _) = DESIGNS.iter().find(|(_, of)| *of == name)?;
        let at_once = at_once
            .parse()
            .ok()
            .filter(|at_once| (1..=10_000).contains(at_once))?;
        let fits = *design != Design::Serial || at_once == 1;
        fits.then_some(Self {
            design: *design,
            at_once,
        })
    }

    fn wanted() -> String {
        "serial-1, or threads, async, processes or thread-each with a number, as threads-8".to_owned()
    }
}

point! {
    /// A workload and one way to do it.
    struct Case {
        way: Way,
        tasks: u64 = 1..=20_000,
        cpu_us: u64 = 0..=600_000_000,
        wait_us: u64 = 0..=600_000_000,
        spread_percent: u64 = 0..=1_000,
        lock_permille: u64 = 0..=1_000,
        inner_threads: u64 = 1..=1_000,
        memory_kib: u64 = 0..=16_777_216,
        per_1000_s: u64 = 0..=1_000_000_000,
        cpus: u64 = 1..,
    }
}

impl Case {
    /// What is planned where nothing is set.
    const fn usual(way: Way, cpus: u64) -> Self {
        Self {
            way,
            tasks: 20,
            cpu_us: 2_000,
            wait_us: 8_000,
            spread_percent: 0,
            lock_permille: 0,
            inner_threads: 1,
            memory_kib: 0,
            per_1000_s: 0,
            cpus,
        }
    }

    /// The workload that `advise` would be told.
    fn workload(self) -> Result<Workload, CaseError> {
        let said = Description {
            tasks: Some(threadgauge_advise::quantity::Count(self.tasks as usize)),
            cpu_s: Some(self.cpu_us as f64 * 1e-6),
            wait_s: Some(self.wait_us as f64 * 1e-6),
            spread: Some(threadgauge_advise::quantity::Spread(
                self.spread_percent as f64 / 100.0,
            )),
            inner_threads: Some(threadgauge_advise::quantity::Count(self.inner_threads as usize)),
            ..Description::default()
        };
        let workload = Workload::of(&said).map_err(|wrong| CaseError::Failed(wrong.to_string()))?;
        Ok(Workload {
            lock: self.lock_permille as f64 / 1_000.0,
            memory_bytes: self.memory_kib as f64 * 1_024.0,
            coming: match self.per_1000_s {
                0 => workload.coming,
                rate => Coming::Rate(rate as f64 / 1_000.0),
            },
            ..workload
        })
    }

    fn candidate(self) -> Candidate {
        let at_once = match self.way.design {
            Design::ThreadEach => self.tasks,
            _ => self.way.at_once,
        };
        Candidate::new(self.way.design, at_once as usize)
    }

    fn drawn(self, workload: &Workload) -> Drawn {
        let effort = Effort {
            tasks: self.tasks as usize,
            seeds: 1,
        };
        Drawn::new(workload, effort)
    }

    /// Elapsed and mean time as predicted, s. One that does not keep up has none.
    fn predicted(self) -> Option<(f64, f64)> {
        let workload = self.workload().ok()?;
        let machine = Machine {
            cpus: self.cpus as f64,
            quota: None,
            memory_bytes: None,
        };
        let drawn = self.drawn(&workload);
        let of = predict(self.candidate(), &workload, &machine, &Costs::shipped(), &drawn);
        let last = drawn.first().last().map_or(0.0, |task| task.arrives_s);
        let mean_s = of.mean_s?.value;
        Some((
            of.elapsed_s.map_or(last + mean_s, |elapsed| elapsed.value),
            mean_s,
        ))
    }
}

fn plan(site: &Site) -> Plan {
    let cpus = site.cpus.len() as u64;
    let way = |design, at_once| Way { design, at_once };
    let ways = [
        way(Design::Serial, 1),
        way(Design::Threads, 2),
        way(Design::Threads, 8),
        way(Design::Async, 8),
    ];
    let planned = |way| {
        let case = Case::usual(way, cpus);
        PlannedCase {
            takes: Some(|params| Case::read(params).ok().map(takes)),
            ..PlannedCase::new(case, takes(case))
        }
    };
    Plan {
        cases: ways.into_iter().map(planned).collect(),
        reference: Params::new(),
        // Whoever has a workload of their own is told how long it takes, and decides.
        budget: Duration::from_secs(24 * 60 * 60),
    }
}

/// What a sample takes; as with the work in a row where nothing is predicted.
fn takes(case: Case) -> Duration {
    let in_a_row = (case.tasks * (case.cpu_us + case.wait_us)) as f64 * 1e-6;
    let elapsed_s = case.predicted().map_or(in_a_row, |(elapsed_s, _)| elapsed_s);
    Duration::from_millis(30) + Duration::from_secs_f64(elapsed_s.min(86_400.0))
}

/// What a task does, in steps of the burner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    arrives: Duration,
    /// Before it waits, under the lock, and after it has waited.
    burns: [u64; 3],
    waits: Duration,
    memory_bytes: usize,
    threads: u64,
}

impl Work {
    fn of(case: Case, worker: &mut Worker) -> Result<Vec<Self>, CaseError> {
        let burner = *worker.burner();
        let workload = case.workload()?;
        let lock = workload.lock;
        let steps = |s: f64| burner.iterations(Duration::from_secs_f64(s));
        let of = |task: &threadgauge_advise::predict::DrawnTask| {
            let half_s = task.cpu_s * (1.0 - lock) / 2.0;
            Self {
                arrives: Duration::from_secs_f64(task.arrives_s),
                burns: [half_s, task.cpu_s * lock, half_s].map(steps),
                waits: Duration::from_secs_f64(task.wait_s),
                memory_bytes: workload.memory_bytes as usize,
                threads: case.inner_threads,
            }
        };
        Ok(case.drawn(&workload).first().iter().map(of).collect())
    }

    fn begin(&self, lock: &Mutex<()>) -> Vec<u8> {
        let mut memory = vec![0_u8; self.memory_bytes];
        memory.iter_mut().step_by(4_096).for_each(|byte| *byte = 1);
        self.burn(self.burns[0]);
        if self.burns[1] > 0 {
            let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
            Burner::burn_units(self.burns[1]);
        }
        memory
    }

    fn end(&self) {
        self.burn(self.burns[2]);
    }

    /// All of it, by one thread.
    fn whole(&self, lock: &Mutex<()>) {
        let memory = self.begin(lock);
        if !self.waits.is_zero() {
            thread::sleep(self.waits);
        }
        self.end();
        drop(memory);
    }

    /// Burns, with threads of its own where it is told to.
    fn burn(&self, steps: u64) {
        if self.threads <= 1 || steps == 0 {
            return Burner::burn_units(steps);
        }
        thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(|| Burner::burn_units(steps / self.threads));
            }
            Burner::burn_units(steps / self.threads);
        });
    }
}

/// A task in a helper process, which shares no lock with others.
pub(crate) static IN_A_HELPER: Processor<Work, ()> =
    Processor::new("twin task", |work| work.whole(&Mutex::new(())));

/// When tasks are done, since the start.
struct Clock {
    begun_ns: u64,
}

impl Clock {
    fn start() -> Self {
        Self {
            begun_ns: clock::monotonic_ns(),
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(clock::monotonic_ns() - self.begun_ns)
    }

    fn wait_until(&self, then: Duration) {
        let left = then.saturating_sub(self.now());
        if !left.is_zero() {
            thread::sleep(left);
        }
    }
}

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::read(case)?;
    end_sleeps_in_time();
    let work = Work::of(case, worker)?;
    let most = case.way.at_once as usize;
    let used_ns = || (usage_self().cpu() + usage_children().cpu()).as_nanos() as f64;
    let before_ns = used_ns();
    let (done, elapsed_ns) = match case.way.design {
        Design::Threads => in_a_pool(&work, most, worker),
        Design::Processes => in_processes(&work, most, worker)?,
        design => {
            let watch = worker.stopwatch();
            let done = match design {
                Design::ThreadEach => in_a_thread_each(&work)?,
                Design::Async => asynchronously(&work, most),
                _ => one_after_the_other(&work),
            };
            (done, watch.stop().wall_ns)
        }
    };
    let mut took_ns: Vec<f64> = done
        .iter()
        .zip(&work)
        .map(|(done, work)| done.saturating_sub(work.arrives).as_nanos() as f64)
        .collect();
    took_ns.sort_by(f64::total_cmp);
    worker.record(ELAPSED, elapsed_ns as f64);
    worker.record(MEAN, took_ns.iter().sum::<f64>() / took_ns.len() as f64);
    if took_ns.len() >= FOR_P99 {
        worker.record(P99, took_ns[(took_ns.len() * 99).div_ceil(100) - 1]);
    }
    worker.record(CPU, used_ns() - before_ns);
    if let Some((elapsed_s, mean_s)) = case.predicted() {
        worker.record(PREDICTED_ELAPSED, elapsed_s * 1e9);
        worker.record(PREDICTED_MEAN, mean_s * 1e9);
    }
    Ok(())
}

/// What stands for an answer from a network comes when it is due: the kernel lets sleeps end by 50 µs too late unless
/// it is told. Threads and processes made from here on have it from this one.
fn end_sleeps_in_time() {
    // A kernel that knows no slack has none to take away.
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

fn one_after_the_other(work: &[Work]) -> Vec<Duration> {
    let clock = Clock::start();
    let lock = Mutex::new(());
    let one = |work: &Work| {
        clock.wait_until(work.arrives);
        work.whole(&lock);
        clock.now()
    };
    work.iter().map(one).collect()
}

/// In threads that are there before the clock starts, and are then woken one by one, as by whoever has tasks for them:
/// a barrier would let all of them go through one lock first. Each takes the next task and waits until that comes: a
/// thread that gave tasks out would want a CPU itself, and have tasks come late when all are busy.
fn in_a_pool(work: &[Work], most: usize, worker: &Worker) -> (Vec<Duration>, u64) {
    let lock = Mutex::new(());
    let next = AtomicUsize::new(0);
    let done = Mutex::new(vec![Duration::ZERO; work.len()]);
    let all_there = Barrier::new(most + 1);
    let begun: OnceLock<Clock> = OnceLock::new();
    let serve = || {
        all_there.wait();
        let clock = loop {
            match begun.get() {
                Some(clock) => break clock,
                None => thread::park(),
            }
        };
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            let Some(work) = work.get(task) else { return };
            clock.wait_until(work.arrives);
            work.whole(&lock);
            done.lock().unwrap_or_else(PoisonError::into_inner)[task] = clock.now();
        }
    };
    let elapsed_ns = thread::scope(|scope| {
        let threads: Vec<_> = (0..most).map(|_| scope.spawn(serve)).collect();
        all_there.wait();
        let watch = worker.stopwatch();
        begun.get_or_init(Clock::start);
        threads.iter().for_each(|thread| thread.thread().unpark());
        for thread in threads {
            // One that panicked is seen by the scope.
            let _ = thread.join();
        }
        watch.stop().wall_ns
    });
    (
        done.into_inner().unwrap_or_else(PoisonError::into_inner),
        elapsed_ns,
    )
}

/// In a thread made for each when it comes.
fn in_a_thread_each(work: &[Work]) -> Result<Vec<Duration>, CaseError> {
    let lock = Mutex::new(());
    let clock = Clock::start();
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(work.len());
        for task in work {
            clock.wait_until(task.arrives);
            let (lock, clock) = (&lock, &clock);
            let thread = thread::Builder::new().spawn_scoped(scope, move || {
                task.whole(lock);
                clock.now()
            });
            threads.push(
                thread.map_err(|error| threadgauge_lab::refusal::refused("a thread for a task", &error))?,
            );
        }
        Ok(threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default())
            .collect())
    })
}

/// By one thread, which begins another task while at most so many wait.
fn asynchronously(work: &[Work], most: usize) -> Vec<Duration> {
    let lock = Mutex::new(());
    let clock = Clock::start();
    let mut done = vec![Duration::ZERO; work.len()];
    let mut next = 0;
    let mut waiting: BinaryHeap<Reverse<(Duration, usize)>> = BinaryHeap::new();
    let mut memory: Vec<Vec<u8>> = vec![Vec::new(); work.len()];
    while next < work.len() || !waiting.is_empty() {
        let now = clock.now();
        let over = waiting.peek().map(|Reverse((at, _))| *at);
        let comes = work
            .get(next)
            .filter(|_| waiting.len() < most)
            .map(|task| task.arrives);
        if over.is_some_and(|at| at <= now) {
            if let Some(Reverse((_, task))) = waiting.pop() {
                work[task].end();
                memory[task] = Vec::new();
                done[task] = clock.now();
            }
        } else if comes.is_some_and(|at| at <= now) {
            memory[next] = work[next].begin(&lock);
            waiting.push(Reverse((clock.now() + work[next].waits, next)));
            next += 1;
        } else if let Some(at) = [over, comes].into_iter().flatten().min() {
            clock.wait_until(at);
        }
    }
    done
}

/// In helper processes, which are there before the first task.
fn in_processes(work: &[Work], most: usize, worker: &Worker) -> Result<(Vec<Duration>, u64), CaseError> {
    if work
        .iter()
        .any(|work| !work.arrives.is_zero() || work.burns[1] > 0)
    {
        return Err(CaseError::Failed(
            "the twin has processes only for tasks that are all there at the start and share no lock: measure threads"
                .to_owned(),
        ));
    }
    let mut done = vec![Duration::ZERO; work.len()];
    let mut failure = None;
    let execution =
        ConcurrentExecution::new(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN)).mode(Mode::FreeCaller);
    let watch = worker.stopwatch();
    let finisher = |of: Done<_, Result<(), Crash>>| {
        done[of.index] = of.times.completion();
        if let Err(crash) = of.result {
            failure.get_or_insert(crash.to_string());
        }
    };
    let report = execution
        .processes()
        .for_each(work.to_vec(), &IN_A_HELPER, finisher);
    let elapsed_ns = watch.stop().wall_ns;
    if let Some(error) = &report.shortage {
        return Err(threadgauge_lab::refusal::refused("a process for tasks", error));
    }
    match failure {
        Some(why) => Err(CaseError::Failed(why)),
        None => Ok((done, elapsed_ns)),
    }
}

fn read(view: &View<'_>) -> Answer {
    let cases = cases(view);
    Answer {
        answer: answer(view, &cases),
        figures: chart(view, &cases).into_iter().collect(),
        tables: table_of(view, &cases).into_iter().collect(),
        ..Answer::default()
    }
}

/// Those that have figures, in plan order.
fn cases(view: &View<'_>) -> Vec<Case> {
    let cases = view
        .planned(Params::new())
        .filter_map(|params| Case::read(params).ok());
    cases
        .filter(|&case| view.measured(&goal(case).of(case)))
        .collect()
}

/// What is made small: of tasks that come over time what one takes.
const fn goal(case: Case) -> Metric {
    if case.per_1000_s == 0 { ELAPSED } else { MEAN }
}

const fn predicted_goal(case: Case) -> Metric {
    if case.per_1000_s == 0 {
        PREDICTED_ELAPSED
    } else {
        PREDICTED_MEAN
    }
}

fn answer(view: &View<'_>, cases: &[Case]) -> String {
    let value = |case: &Case| view.value(&goal(*case).of(*case)).unwrap_or(f64::MAX);
    let Some(best) = cases.iter().min_by(|a, b| value(a).total_cmp(&value(b))) else {
        return "Without figures nothing can be said.".to_owned();
    };
    let shown = view
        .estimate(&goal(*best).of(*best))
        .map_or_else(String::new, |of| of.plain("ns"));
    let off = view.shown(
        &goal(*best).of(*best).over(predicted_goal(*best).of(*best)),
        "ratio",
    );
    format!(
        "The least time has {}: {shown}, {off} of what arithmetic says.",
        best.way.value()
    )
}

fn chart(view: &View<'_>, cases: &[Case]) -> Option<Figure> {
    let of = |design: Design, metric: fn(Case) -> Metric| {
        let of_design = cases.iter().filter(move |case| case.way.design == design);
        of_design.map(move |&case| (case.way.at_once, metric(case).of(case).times(1e-9)))
    };
    let mut chart = Chart::new(view, "twin", "Measured and predicted, by how many at once")
        .note(
            "Tasks that come over time: the mean from arrival to end; else the time until all are done. Predicted: by the costs \
             that are shipped, and without a quota.",
        )
        .x(Scale::Log, "at once")
        .y(Scale::Linear, "s");
    for (design, name) in DESIGNS {
        chart = chart
            .line(name, of(design, goal))
            .theory(format!("{name}, predicted"), of(design, predicted_goal));
    }
    chart.drawn()
}

fn table_of(view: &View<'_>, cases: &[Case]) -> Option<Table> {
    cases.first()?;
    let row = |case: &Case| {
        let text = |metric: Metric| {
            view.estimate(&metric.of(*case))
                .map_or_else(String::new, |of| of.plain("ns"))
        };
        let ratio = view.shown(
            &goal(*case).of(*case).over(predicted_goal(*case).of(*case)),
            "ratio",
        );
        vec![
            case.way.value().to_string(),
            text(ELAPSED),
            text(MEAN),
            text(predicted_goal(*case)),
            ratio,
            text(CPU),
        ]
    };
    Some(table(
        "twin",
        "A twin of the workload",
        "Medians over rounds.",
        [
            "way",
            "all done",
            "a task takes",
            "predicted",
            "measured ÷ predicted",
            "CPU time",
        ],
        cases.iter().map(row).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    fn case(design: Design, at_once: u64) -> Case {
        Case {
            tasks: 6,
            cpu_us: 500,
            wait_us: 2_000,
            ..Case::usual(Way { design, at_once }, 1)
        }
    }

    fn sample(case: Case) -> threadgauge_results::Sample {
        let mut worker = testing::worker(&TWIN, &case.params());
        let result = run(&case.params(), &mut worker);
        worker.finish(result)
    }

    #[test]
    fn a_way_is_read_back_and_nothing_else_is_one() {
        for (design, _) in DESIGNS {
            let way = Way { design, at_once: 1 };
            assert_eq!(Way::read(&way.value()), Some(way));
        }
        for wrong in ["serial-2", "threads-0", "threads", "fibres-3", "threads-x"] {
            assert_eq!(Way::read(&Value::from(wrong)), None, "{wrong}");
        }
        assert_eq!(way(Candidate::new(Design::Async, 7)).as_deref(), Some("async-7"));
        assert_eq!(way(Candidate::new(Design::Loops, 7)), None);
    }

    #[test]
    fn every_way_does_all_tasks_with_their_cpu_time_and_their_waits() {
        for (design, at_once) in [
            (Design::Serial, 1),
            (Design::Threads, 3),
            (Design::ThreadEach, 1),
            (Design::Async, 3),
        ] {
            for per_1000_s in [0, 200_000] {
                let case = Case {
                    per_1000_s,
                    lock_permille: 100,
                    memory_kib: 64,
                    ..case(design, at_once)
                };
                let sample = sample(case);
                assert_eq!(sample.status, Status::Ok, "{:?}", sample.reason);
                let of = |metric: Metric| sample.value(metric.name).unwrap();
                assert!(of(MEAN) >= 2e6 && of(ELAPSED) >= 2e6, "{design:?}: {sample:?}");
                // A crowded machine computes more slowly, not less.
                assert!(of(CPU) >= 6.0 * 0.4e6, "{design:?}: {sample:?}");
                assert!(of(PREDICTED_MEAN) >= 2e6);
            }
        }
    }

    #[test]
    fn processes_are_for_tasks_that_are_there_and_share_nothing() {
        let over_time = Case {
            per_1000_s: 1_000_000,
            ..case(Design::Processes, 2)
        };
        let refused = sample(over_time);
        assert_eq!(refused.status, Status::Failed);
        assert!(refused.reason.unwrap().contains("measure threads"));
    }

    #[test]
    fn one_after_the_other_is_predicted_as_the_sum() {
        let (elapsed_s, mean_s) = case(Design::Serial, 1).predicted().unwrap();
        assert!(
            // Six waits that differ by 3 %.
            (elapsed_s / 0.015 - 1.0).abs() < 0.03 && (mean_s / 0.00875 - 1.0).abs() < 0.03,
            "{elapsed_s} {mean_s}"
        );
    }
}
