//! What a task costs: CPU time, and time in which threads waited, for each task that was done.
//!
//! A task is whatever the user counts: a number of them in all, so many a second, a counter on a page, lines of a log.
//! The figure is a ratio of sums. Its interval is a bootstrap over blocks of looks that follow each other (`stats`):
//! what one look sees depends on the looks before it, and blocks keep that together.

use anyhow::Result;
use threadgauge_machine::observe::{Interval, WaitKind};
use threadgauge_stats::{StatsError, bca};

use crate::commands::observe::log::Log;
use crate::commands::observe::options::ObserveOptions;
use crate::commands::observe::page::Page;

/// Blocks of looks; fewer looks are as many blocks.
const MOST_BLOCKS: usize = 60;
/// Looks that are kept; of more, two that follow each other are made one.
const MOST_POINTS: usize = 3_600;
const ALPHA: f64 = 0.05;
/// METHOD, rule 5.
const RESAMPLES: usize = 10_000;
/// The same figures have the same interval.
const SEED: u64 = 1;

/// Who says how many tasks were done.
#[derive(Debug)]
pub enum Counter {
    /// So many in all.
    Number(f64),
    /// So many a second.
    Rate(f64),
    /// A counter on a page.
    Page(Page),
    /// Lines of a log.
    Log(Log),
}

impl Counter {
    /// The one that was asked for.
    ///
    /// # Errors
    ///
    /// If its page or its log cannot be read now: better before observing than after it.
    pub fn open(options: &ObserveOptions) -> Result<Option<Self>> {
        if let Some(at) = &options.counter {
            let page = Page::new(at)?;
            // What --command starts has no page yet.
            if options.command.is_none() {
                page.read()?;
            }
            return Ok(Some(Self::Page(page)));
        }
        if let Some(path) = &options.log {
            return Ok(Some(Self::Log(Log::open(path)?)));
        }
        let number = options.requests.map(|number| Self::Number(number as f64));
        Ok(number.or(options.rate.map(|rate| Self::Rate(rate.0))))
    }

    /// What it says now; of a number of tasks and of a rate what follows from the time that went by.
    fn read(&mut self) -> Result<Option<f64>> {
        match self {
            Self::Number(_) | Self::Rate(_) => Ok(None),
            Self::Page(page) => page.read().map(Some),
            Self::Log(log) => log.read().map(Some),
        }
    }
}

/// What was used between two looks, and how many tasks were done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Point {
    length_ns: f64,
    cpu_ns: f64,
    wanted_ns: f64,
    waits_ns: [f64; WaitKind::COUNT],
    /// `None` where it follows from the time.
    tasks: Option<f64>,
}

impl Point {
    fn add(&mut self, other: &Self) {
        self.length_ns += other.length_ns;
        self.cpu_ns += other.cpu_ns;
        self.wanted_ns += other.wanted_ns;
        for (sum, more) in self.waits_ns.iter_mut().zip(other.waits_ns) {
            *sum += more;
        }
        self.tasks = self.tasks.zip(other.tasks).map(|(a, b)| a + b);
    }
}

/// Tasks counted as a program is observed.
#[derive(Debug)]
pub struct Tasks {
    counter: Counter,
    /// What the counter said last.
    last: Option<f64>,
    /// Looks since the counter could be read last: their tasks are not known yet.
    pending: Point,
    points: Vec<Point>,
    /// Why the counter could not be read, the last time.
    failed: Option<String>,
    failures: usize,
}

impl Tasks {
    /// None counted yet.
    pub fn new(counter: Counter) -> Self {
        Self {
            counter,
            last: None,
            pending: Point::default(),
            points: Vec::new(),
            failed: None,
            failures: 0,
        }
    }

    /// Reads the counter for the first time, at the first look.
    pub fn begin(&mut self) {
        self.last = self.read().flatten();
    }

    /// Reads it at a look that ends this interval.
    pub fn add(&mut self, interval: &Interval) {
        let used = Point {
            length_ns: interval.length_ns() as f64,
            cpu_ns: interval.cpu_ns,
            wanted_ns: interval.amounts.wanted_ns,
            waits_ns: interval.amounts.waits_ns,
            tasks: None,
        };
        self.pending.add(&used);
        let tasks = match self.read() {
            // It could not be read: the tasks of this interval come with those of the next.
            None => return,
            Some(None) => None,
            Some(Some(now)) => {
                let since = self.last.replace(now).map(|before| since(before, now));
                if since.is_none() {
                    // Now it can be read for the first time. What was before is without tasks.
                    self.pending = Point::default();
                    return;
                }
                since
            }
        };
        let point = std::mem::take(&mut self.pending);
        self.points.push(Point { tasks, ..point });
        if self.points.len() > MOST_POINTS {
            self.points = blocks(&self.points, MOST_POINTS / 2);
        }
    }

    /// `None` where it could not be read, else what it says.
    fn read(&mut self) -> Option<Option<f64>> {
        match self.counter.read() {
            Ok(value) => Some(value),
            Err(error) => {
                self.failures += 1;
                self.failed = Some(format!("{error:#}"));
                None
            }
        }
    }

    /// What was not as it should be with the counter, in words.
    pub fn failed(&self) -> Option<String> {
        let failed = self.failed.as_ref()?;
        Some(match self.failures {
            1 => format!("the counter of tasks could not be read once: {failed}"),
            many => format!("the counter of tasks could not be read {many} times, the last time: {failed}"),
        })
    }

    /// What a task costs.
    ///
    /// # Errors
    ///
    /// Why that cannot be told, in words.
    pub fn cost(&self) -> Result<TaskCost, String> {
        let whole_ns: f64 = self.points.iter().map(|point| point.length_ns).sum();
        let done = |point: &Point| match (point.tasks, &self.counter) {
            (Some(tasks), _) => tasks,
            // As if they came evenly.
            (None, Counter::Number(number)) => number * point.length_ns / whole_ns,
            (None, Counter::Rate(rate)) => rate * point.length_ns / 1e9,
            (None, Counter::Page(_) | Counter::Log(_)) => 0.0,
        };
        let blocks: Vec<Block> = blocks(&self.points, MOST_BLOCKS)
            .into_iter()
            .map(|point| Block {
                tasks: done(&point),
                point,
            })
            .collect();
        let tasks: f64 = blocks.iter().map(|block| block.tasks).sum();
        if self.points.is_empty() {
            return Err(
                "a task's CPU time needs two looks at which the counter of tasks can be read".to_owned(),
            );
        }
        if tasks <= 0.0 {
            return Err("no task was done while it was observed, so none has a CPU time".to_owned());
        }
        let of = |amount: &dyn Fn(&Point) -> f64| ratio(&blocks, amount);
        let waits = WaitKind::ALL.into_iter().filter_map(|kind| {
            let figure = of(&|point| point.waits_ns[kind.index()]);
            (figure.value_ns > 0.0).then_some((kind, figure))
        });
        Ok(TaskCost {
            tasks,
            per_second: tasks / (whole_ns / 1e9),
            looks: self.points.len(),
            cpu: of(&|point| point.cpu_ns),
            wanted: of(&|point| point.wanted_ns),
            waits: waits.collect(),
            all_waits: of(&|point| point.waits_ns.iter().sum()),
            held_up: of(&|point| {
                let kinds = WaitKind::ALL.into_iter().filter(|kind| !kind.may_be_idle());
                kinds.map(|kind| point.waits_ns[kind.index()]).sum()
            }),
        })
    }
}

/// What a task costs, in threads' time.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskCost {
    /// How many were done.
    pub tasks: f64,
    /// The same, a second.
    pub per_second: f64,
    /// How many looks it is from.
    pub looks: usize,
    /// CPU time.
    pub cpu: Figure,
    /// Time in which a thread wanted a CPU.
    pub wanted: Figure,
    /// Time in which threads waited, by what for.
    pub waits: Vec<(WaitKind, Figure)>,
    /// All of them: the most that a task may have waited, if no thread was ever idle.
    pub all_waits: Figure,
    /// Those that no idle thread has: the least.
    pub held_up: Figure,
}

/// A time, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The ratio of the sums.
    pub value_ns: f64,
    /// Its interval of 95 %; `None` with too few looks.
    pub ci95_ns: Option<[f64; 2]>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    tasks: f64,
    point: Point,
}

/// How far a counter went. One that went back was begun anew.
fn since(before: f64, now: f64) -> f64 {
    if now >= before { now - before } else { now }
}

/// Points that follow each other put together, into so many blocks at most.
fn blocks(points: &[Point], most: usize) -> Vec<Point> {
    let together = points.len().div_ceil(most.max(1)).max(1);
    let sum = |points: &[Point]| {
        let mut sum = points[0];
        for point in &points[1..] {
            sum.add(point);
        }
        sum
    };
    points.chunks(together).map(sum).collect()
}

/// An amount for each task, over all blocks.
fn ratio(blocks: &[Block], amount: &dyn Fn(&Point) -> f64) -> Figure {
    let pairs: Vec<(f64, f64)> = blocks
        .iter()
        .map(|block| (amount(&block.point), block.tasks))
        .collect();
    // What is drawn again and again are the places of pairs.
    let places: Vec<f64> = (0..pairs.len()).map(|place| place as f64).collect();
    let of = |places: &[f64]| {
        let (mut amount, mut tasks) = (0.0, 0.0);
        for place in places {
            let (more, done) = pairs[*place as usize];
            amount += more;
            tasks += done;
        }
        amount / tasks
    };
    let value_ns = of(&places[..]);
    let interval: Result<_, StatsError> = bca(&places, of, ALPHA, RESAMPLES, SEED);
    // Too few looks, or tasks in so few of them that there may be none in a sample.
    let ci95_ns = interval
        .ok()
        .and_then(|estimate| estimate.ci)
        .map(|ci| [ci.low, ci.high]);
    Figure { value_ns, ci95_ns }
}

#[cfg(test)]
mod tests {
    use threadgauge_machine::observe::Amounts;

    use super::*;

    fn interval(at: u64, cpu_ns: f64, wanted_ns: f64, disk_ns: f64, poll_ns: f64) -> Interval {
        let mut amounts = Amounts {
            wanted_ns,
            ..Amounts::default()
        };
        amounts.waits_ns[WaitKind::Disk.index()] = disk_ns;
        amounts.waits_ns[WaitKind::Poll.index()] = poll_ns;
        Interval {
            from_ns: at * 1_000_000_000,
            to_ns: (at + 1) * 1_000_000_000,
            cpu_ns,
            amounts,
            ..Interval::default()
        }
    }

    /// Of a rate or a number: so many looks, in which twice the time is used each second time.
    fn counted(counter: Counter, looks: u64) -> Tasks {
        let mut tasks = Tasks::new(counter);
        tasks.begin();
        for at in 0..looks {
            let twice = if at.is_multiple_of(2) { 1.0 } else { 2.0 };
            tasks.add(&interval(at, twice * 1e8, twice * 1e7, twice * 1e6, 5e8));
        }
        tasks
    }

    #[test]
    fn a_task_costs_what_was_used_by_tasks_and_has_an_interval_from_twenty_looks_on() {
        let cost = counted(Counter::Rate(100.0), 40).cost().unwrap();
        assert!((cost.tasks - 4_000.0).abs() < 1e-6 && (cost.per_second - 100.0).abs() < 1e-9);
        assert!((cost.cpu.value_ns - 1.5e6).abs() < 1.0, "{cost:?}");
        assert!((cost.held_up.value_ns - 1.5e4).abs() < 1.0 && (cost.wanted.value_ns - 1.5e5).abs() < 1.0);
        assert!((cost.all_waits.value_ns - 1.5e4 - 5e6).abs() < 1.0);
        let kinds: Vec<WaitKind> = cost.waits.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [WaitKind::Poll, WaitKind::Disk]);
        let [low, high] = cost.cpu.ci95_ns.unwrap();
        assert!(
            low < 1.5e6 && 1.5e6 < high && low > 1.2e6 && high < 1.8e6,
            "{cost:?}"
        );
        // What is the same in each look has no spread.
        assert_eq!(
            counted(Counter::Rate(100.0), 19).cost().unwrap().cpu.ci95_ns,
            None
        );
        let number = counted(Counter::Number(4_000.0), 40).cost().unwrap();
        assert_eq!(number.cpu, cost.cpu);
    }

    #[test]
    fn without_tasks_or_looks_there_is_no_cost_and_it_is_said_why() {
        let none = counted(Counter::Rate(1.0), 0).cost().unwrap_err();
        assert!(none.contains("two looks"), "{none}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "").unwrap();
        let none = counted(Counter::Log(Log::open(&path).unwrap()), 3)
            .cost()
            .unwrap_err();
        assert!(none.contains("no task was done"), "{none}");
    }

    #[test]
    fn tasks_of_a_log_are_those_of_the_interval_in_which_their_lines_come() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "before\n").unwrap();
        let mut tasks = Tasks::new(Counter::Log(Log::open(&path).unwrap()));
        tasks.begin();
        std::fs::write(&path, "before\none\ntwo\n").unwrap();
        tasks.add(&interval(0, 6e6, 0.0, 0.0, 0.0));
        let cost = tasks.cost().unwrap();
        assert_eq!((cost.tasks, cost.cpu.value_ns, cost.looks), (2.0, 3e6, 1));
        assert_eq!(tasks.failed(), None);
    }

    #[test]
    fn a_counter_that_begins_anew_has_gone_as_far_as_it_says() {
        assert_eq!(
            [since(5.0, 7.0), since(7.0, 7.0), since(7.0, 2.0)],
            [2.0, 0.0, 2.0]
        );
    }

    #[test]
    fn points_are_put_together_without_a_loss() {
        let points: Vec<Point> = (0_u32..100)
            .map(|i| Point {
                cpu_ns: f64::from(i),
                tasks: Some(1.0),
                ..Point::default()
            })
            .collect();
        for most in [1, 7, 60, 100, 1_000] {
            let blocks = blocks(&points, most);
            assert!(blocks.len() <= most);
            let sum = |of: fn(&Point) -> f64| blocks.iter().map(of).sum::<f64>();
            assert_eq!(
                (sum(|p| p.cpu_ns), sum(|p| p.tasks.unwrap_or(0.0))),
                (4_950.0, 100.0)
            );
        }
        assert!(blocks(&[], 5).is_empty());
    }
}
