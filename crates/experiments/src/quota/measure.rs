//! One case run once: a pool of threads in a control group of its own, and how long its tasks took.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;
use threadgauge_load::{Arrivals, Latency, Schedule};
use threadgauge_machine::{Burner, QUOTA_PERIOD, QuotaError, UnderQuota, clock};

use super::case::{Case, Limit, Load, MEAN, P50, P90, P99, PER_TASK, THROTTLED};

/// Where others have the CPUs, a full load goes on for so many times its span.
const MOST_SPANS: u64 = 4;
/// How to have what a machine lacks.
const HOW_TO: &str = "run it as root where control groups are writable, or as `systemd-run --user --scope -p Delegate=yes \
                      threadgauge run quota`";

pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let pool = Pool {
        tasks: Tasks::of(case, worker.seed()),
        // Calibrated at the machine's speed, and not at the quota's.
        steps: worker.burner().iterations(case.task()),
        next: AtomicUsize::new(0),
        start: Start::default(),
    };
    let mut under = None;
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let done = pool.run(case.threads, || {
        if case.limit == Limit::Quota {
            under = Some(UnderQuota::enter(case.quota_cpus()).map_err(|why| lacking(&why))?);
        }
        Ok(())
    })?;
    let counts = under.as_ref().and_then(UnderQuota::counts);
    if let Some(under) = under {
        let left = |why| CaseError::failed("the control group is still there (the next run removes it)", why);
        under.leave().map_err(left)?;
    }
    let taken_ns = clock::monotonic_ns() - begun_ns;
    // A handicapped worker's tasks take longer in proportion.
    let stretch = watch.stop().wall_ns as f64 / taken_ns.max(1) as f64;
    record(worker, &done, stretch)?;
    if let Some(counts) = counts.filter(|counts| counts.periods > 0) {
        worker.record(THROTTLED, counts.throttled_periods as f64 / counts.periods as f64);
    }
    Ok(())
}

fn lacking(why: &QuotaError) -> CaseError {
    let says = format!("needs a control group of its own with a CPU quota ({why}); {HOW_TO}");
    CaseError::Skipped(Lack::new(Need::System, says))
}

fn record(worker: &mut Worker, done: &Done, stretch: f64) -> Result<(), CaseError> {
    let mut latency = Latency::default();
    done.latencies_ns.iter().for_each(|ns| latency.record(*ns));
    let nothing = || CaseError::Failed("no task was done in the time for it; give more `tasks`".to_owned());
    worker.record(MEAN, latency.mean_ns().ok_or_else(nothing)? * stretch);
    for (metric, quantile) in [(P50, 0.5), (P90, 0.9), (P99, 0.99)] {
        if let Some(ns) = latency.ns(quantile) {
            worker.record(metric, ns as f64 * stretch);
        }
    }
    if done.in_time == 0 {
        return Err(nothing());
    }
    worker.record(PER_TASK, done.span_ns as f64 / done.in_time as f64 * stretch);
    Ok(())
}

/// What there is to do.
#[derive(Debug)]
enum Tasks {
    /// Another one for whoever asks.
    Always(Until),
    /// One at each of these times, in ns since the start.
    Due { at_ns: Vec<u64> },
}

impl Tasks {
    /// Those of a case; `seed` decides when they are due.
    fn of(case: Case, seed: u64) -> Self {
        match case.load {
            Load::Full => Self::Always(Until::of(case)),
            Load::Half => {
                let per_second = case.busy_cpus() / case.task().as_secs_f64();
                let due = Schedule::new(Arrivals::Poisson, per_second, seed);
                Self::Due {
                    at_ns: due.take(case.tasks as usize).collect(),
                }
            }
        }
    }
}

/// When there is nothing more to do at full load: at the end of a period.
#[derive(Debug)]
struct Until {
    tasks: u64,
    most_ns: u64,
    now: Mutex<UntilNow>,
}

#[derive(Debug)]
struct UntilNow {
    begun: u64,
    /// Since the start.
    end_ns: u64,
    is_over: bool,
}

impl Until {
    fn of(case: Case) -> Self {
        let span_ns = case.span().as_nanos() as u64;
        Self {
            tasks: case.tasks,
            most_ns: MOST_SPANS * span_ns,
            now: Mutex::new(UntilNow {
                begun: 0,
                end_ns: span_ns,
                is_over: false,
            }),
        }
    }

    fn now(&self) -> MutexGuard<'_, UntilNow> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody who asks at this time since the start has another task.
    fn has_another(&self, at_ns: u64) -> bool {
        let mut now = self.now();
        while at_ns >= now.end_ns && !now.is_over {
            // Others had the CPUs: some periods more, so that there are tasks enough for a percentile.
            now.is_over = now.begun >= self.tasks || now.end_ns >= self.most_ns;
            if !now.is_over {
                now.end_ns += QUOTA_PERIOD.as_nanos() as u64;
            }
        }
        now.begun += u64::from(!now.is_over);
        !now.is_over
    }
}

/// A pool and what its threads share.
#[derive(Debug)]
struct Pool {
    tasks: Tasks,
    /// Of the burner, for a task.
    steps: u64,
    /// The task that nobody has taken yet, where each has its time.
    next: AtomicUsize,
    start: Start,
}

/// What a pool did, or one thread of it.
#[derive(Debug, Default)]
struct Done {
    latencies_ns: Vec<u64>,
    /// When each ended, since the start.
    ended_ns: Vec<u64>,
    /// For how long it is counted what was done.
    span_ns: u64,
    /// Tasks that had ended by then.
    in_time: usize,
}

impl Pool {
    /// Makes the threads, has `prepare` move them to where they are to run, and lets them begin. Blocks until all is
    /// done.
    fn run(&self, threads: u64, prepare: impl FnOnce() -> Result<(), CaseError>) -> Result<Done, CaseError> {
        thread::scope(|scope| {
            let mut pool = Vec::new();
            let mut ready = Ok(());
            for number in 1..=threads {
                match thread::Builder::new().spawn_scoped(scope, || self.work()) {
                    Ok(thread) => pool.push(thread),
                    Err(why) => {
                        ready = Err(refused(format_args!("thread {number} of the pool"), &why));
                        break;
                    }
                }
            }
            let ready = ready.and_then(|()| prepare());
            self.start.say(match ready {
                Ok(()) => Go::At(clock::monotonic_ns()),
                Err(_) => Go::Home,
            });
            let mut done = Done::default();
            for thread in pool {
                // A thread that panics has no result; the panic itself is told by the scope.
                let of_thread = thread.join().unwrap_or_default();
                done.latencies_ns.extend(of_thread.latencies_ns);
                done.ended_ns.extend(of_thread.ended_ns);
            }
            done.span_ns = match &self.tasks {
                Tasks::Always(until) => until.now().end_ns,
                Tasks::Due { .. } => done.ended_ns.iter().copied().max().unwrap_or(0),
            };
            // A task that the end of the last period stops is the next period's.
            done.in_time = done.ended_ns.iter().filter(|ns| **ns <= done.span_ns).count();
            ready.map(|()| done)
        })
    }

    /// What one thread does.
    fn work(&self) -> Done {
        let mut done = Done::default();
        let Go::At(begun_ns) = self.start.hear() else {
            return done;
        };
        let since_start_ns = || clock::monotonic_ns().saturating_sub(begun_ns);
        let mut does = |since_ns: u64| {
            Burner::burn_units(self.steps);
            let ended_ns = since_start_ns();
            done.latencies_ns.push(ended_ns.saturating_sub(since_ns));
            done.ended_ns.push(ended_ns);
        };
        match &self.tasks {
            Tasks::Always(until) => loop {
                let taken_ns = since_start_ns();
                if !until.has_another(taken_ns) {
                    return done;
                }
                does(taken_ns);
            },
            Tasks::Due { at_ns } => loop {
                // Each is taken once; nothing else is told by the number.
                let Some(&due_ns) = at_ns.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                    return done;
                };
                thread::sleep(Duration::from_nanos(due_ns.saturating_sub(since_start_ns())));
                does(due_ns);
            },
        }
    }
}

/// What the threads of a pool wait for.
#[derive(Clone, Copy, Debug)]
enum Go {
    /// To begin, at this time.
    At(u64),
    /// To end without having done anything.
    Home,
}

#[derive(Debug, Default)]
struct Start {
    said: Mutex<Option<Go>>,
    told: Condvar,
}

impl Start {
    fn say(&self, go: Go) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(go);
        self.told.notify_all();
    }

    fn hear(&self) -> Go {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *said {
                Some(go) => return go,
                None => said = self.told.wait(said).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::EXPERIMENT;
    use super::super::case::{FULL, HALF};
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    /// A pool of a case whose tasks are short.
    fn pool(case: Case) -> Pool {
        Pool {
            tasks: Tasks::of(case, 7),
            steps: Burner::calibrate().iterations(case.task()),
            next: AtomicUsize::new(0),
            start: Start::default(),
        }
    }

    #[test]
    fn at_half_load_each_task_is_done_once_and_waits_from_when_it_was_due() {
        let pool = pool(HALF.task_us(50).tasks(200).threads(3));
        let done = pool.run(3, || Ok(())).unwrap();
        assert_eq!((done.latencies_ns.len(), done.in_time), (200, 200));
        let Tasks::Due { at_ns } = &pool.tasks else {
            panic!()
        };
        assert!(
            done.span_ns >= *at_ns.last().unwrap(),
            "the last was not begun before it was due"
        );
    }

    #[test]
    fn at_full_load_what_ends_in_time_is_counted_and_all_has_a_latency() {
        let case = FULL.task_us(1_000).tasks(1).threads(2);
        let done = pool(case).run(2, || Ok(())).unwrap();
        assert_eq!(done.span_ns, 500_000_000);
        assert!(done.in_time > 0);
        let late = done.latencies_ns.len() - done.in_time;
        assert!(late <= 2, "each thread has one task at the end at most: {late}");
    }

    #[test]
    fn a_full_load_ends_with_a_period_once_there_were_tasks_enough_and_goes_on_for_four_spans_at_most() {
        // Five periods.
        let case = FULL.task_us(1_000).tasks(3);
        let period_ns = QUOTA_PERIOD.as_nanos() as u64;
        let until = Until::of(case);
        let has = |ms: u64| until.has_another(ms * 1_000_000);
        assert!(has(0) && has(499), "two of three");
        assert!(has(730), "one more, and some periods for it");
        assert_eq!(until.now().end_ns, 8 * period_ns);
        assert!(has(799) && !has(800) && !has(0), "it stays over");
        assert_eq!(until.now().end_ns, 8 * period_ns);
        let late = Until::of(case);
        assert!(!late.has_another(20 * period_ns) && late.has_another(20 * period_ns) == late.has_another(0));
        assert!(Until::of(case).has_another(20 * period_ns - 1));
    }

    #[test]
    fn where_nothing_can_be_prepared_nothing_is_done() {
        let why = pool(FULL).run(4, || Err(CaseError::Failed("no group".to_owned())));
        assert_eq!(why.unwrap_err().to_string(), "no group");
    }

    #[test]
    fn tasks_are_due_at_half_of_what_the_quota_grants() {
        let case = HALF.tasks(20_000);
        let Tasks::Due { at_ns } = Tasks::of(case, 3) else {
            panic!()
        };
        let wanted = case.task().as_secs_f64() * 20_000.0 / (*at_ns.last().unwrap() as f64 / 1e9);
        assert!((wanted / 0.25 - 1.0).abs() < 0.05, "{wanted} CPUs");
    }

    #[test]
    fn a_percentile_is_recorded_where_ten_tasks_lie_beyond_it() {
        let recorded = |tasks: u64| {
            let done = Done {
                latencies_ns: (1..=tasks).map(|ms| ms * 1_000_000).collect(),
                ended_ns: Vec::new(),
                span_ns: 1_000_000_000,
                in_time: tasks as usize,
            };
            let mut worker = testing::worker(&EXPERIMENT, &FULL.params());
            record(&mut worker, &done, 2.0).unwrap();
            let sample = worker.finish(Ok(()));
            [P50, P90, P99].map(|metric| sample.value(metric.name).is_some())
        };
        assert_eq!(recorded(19), [false, false, false]);
        assert_eq!(recorded(100), [true, true, false]);
        assert_eq!(recorded(1_000), [true, true, true]);
    }

    #[test]
    fn a_handicap_stretches_latencies_and_the_time_of_a_task() {
        let done = Done {
            latencies_ns: vec![1_000_000; 4],
            ended_ns: Vec::new(),
            span_ns: 8_000_000,
            in_time: 4,
        };
        let mut worker = testing::worker(&EXPERIMENT, &FULL.params());
        record(&mut worker, &done, 1.5).unwrap();
        let sample = worker.finish(Ok(()));
        let near = |metric: Metric, ns: f64| (sample.value(metric.name).unwrap() / ns - 1.0).abs() < 2e-3;
        assert!(near(MEAN, 1.5e6) && near(PER_TASK, 3e6), "{sample:?}");
        let none = record(
            &mut testing::worker(&EXPERIMENT, &FULL.params()),
            &Done::default(),
            1.0,
        );
        assert!(none.unwrap_err().to_string().starts_with("no task was done"));
    }

    #[test]
    fn what_a_machine_lacks_is_said_with_how_to_have_it() {
        let why = QuotaError::NoPlace("there is none".to_owned());
        let CaseError::Skipped(lack) = lacking(&why) else {
            panic!()
        };
        assert_eq!(lack.of, Need::System);
        assert_eq!(
            lack.says,
            format!("needs a control group of its own with a CPU quota (there is none); {HOW_TO}")
        );
    }

    /// The one test that moves this process, all of its threads: two at once would be in each other's way.
    #[test]
    fn under_a_quota_that_is_used_up_the_pool_is_stopped_and_without_one_not() {
        let case = FULL.quota_percent(25).threads(2).task_us(1_000).tasks(1);
        let sample = testing::sample(&EXPERIMENT, &case.params());
        if sample.status == Status::Skipped {
            assert!(sample.reason.unwrap().contains("needs a control group"));
            return;
        }
        assert_eq!(sample.status, Status::Ok, "{:?}", sample.reason);
        assert!(sample.value(THROTTLED.name).unwrap() > 0.0);
        // Of five periods a quarter of one CPU, and a tenth of a period that may have been begun.
        let most = 0.25 * 500.0 + 35.0;
        assert!(500e6 / sample.value(PER_TASK.name).unwrap() <= most, "{sample:?}");
        let free = testing::measured(&EXPERIMENT, &case.limit(Limit::None).params());
        assert_eq!(free.value(THROTTLED.name), None);
    }
}
