//! Inside the worker: what a case may use, and the answer that goes back.
//!
//! A worker is a fresh process that runs one case once. It reads an [`Order`] as JSON on standard
//! input, pins itself, runs the case and writes a [`Sample`] as JSON on standard output. How it is
//! started, watched and ended from outside is [`launch`](crate::launch)'s business.

use serde::{Deserialize, Serialize};
use threadgauge_machine::{Burner, Switches, clock, usage_children, usage_self};
use threadgauge_results::{Each, Lack, Metric, Need, Params, Runtime, Sample, Status};

use crate::statistic;

/// What the command asks of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The id of the experiment.
    pub experiment: String,
    /// The case.
    pub params: Params,
    /// The CPUs to be pinned to.
    pub cpus: Vec<usize>,
    /// Per cent of extra work hidden in every timed section: the harness's positive control, else 0.
    pub handicap_percent: u32,
    /// `CLOCK_MONOTONIC` just before the worker was started, ns.
    pub launched_ns: u64,
    /// For what the case draws at random.
    #[serde(default)]
    pub seed: u64,
    /// Computations of the user's own, where the case is about them.
    pub each: Option<Each>,
    /// The runtime whose guest runs the case, where it names one.
    #[serde(default)]
    pub runtime: Option<Runtime>,
}

/// Why a case has no figures.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// It ran and failed: what went wrong, where, and what to do.
    #[error("{0}")]
    Failed(String),
    /// The system refused it a unit.
    #[error("{says}")]
    Refused {
        /// What was refused, and how to have it.
        says: String,
        /// How many units there were.
        made: u64,
        /// The limit that was reached; `None` where none was, as when memory is short.
        limit: Option<String>,
    },
    /// It cannot run on this machine, which lacks something.
    #[error("{0}")]
    Skipped(Lack),
}

impl CaseError {
    /// A failure that says what was being done.
    pub fn failed(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{what}: {error}"))
    }
}

/// What begins the tag of a sample that was skipped. Then comes the name of what is lacking.
const LACKS: &str = "lacks-";

/// What a case may use, and where it records its figures.
#[derive(Debug)]
pub struct Worker {
    handicap_percent: u32,
    launched_ns: u64,
    seed: u64,
    switches: Switches,
    burner: Option<Burner>,
    each: Option<Each>,
    runtime: Option<Runtime>,
    /// The sample, should the case succeed.
    sample: Sample,
}

impl Worker {
    /// A worker for one order. It does not pin: the worker's process does that before its case runs.
    #[must_use]
    pub fn new(order: &Order) -> Self {
        Self {
            handicap_percent: order.handicap_percent,
            launched_ns: order.launched_ns,
            seed: order.seed,
            switches: switches(),
            burner: None,
            each: order.each.clone(),
            runtime: order.runtime.clone(),
            sample: Sample {
                reason: None,
                ..Sample::without_figures(Status::Ok, "")
            },
        }
    }

    /// The sample of a case that ended with `result`.
    #[must_use]
    pub fn finish(mut self, result: Result<(), CaseError>) -> Sample {
        match result {
            Ok(()) => {
                let since = switches() - self.switches;
                self.noise("voluntary_switches", since.voluntary as f64);
                self.noise("involuntary_switches", since.involuntary as f64);
                self.sample
            }
            Err(CaseError::Skipped(lack)) => Sample {
                tags: vec![tag(lack.of)],
                ..Sample::without_figures(Status::Skipped, lack.says)
            },
            Err(failed) => Sample::without_figures(Status::Failed, failed.to_string()),
        }
    }

    /// `CLOCK_MONOTONIC` just before this process was started, ns.
    #[must_use]
    pub const fn launched_ns(&self) -> u64 {
        self.launched_ns
    }

    /// Computations of the user's own, where the case is about them.
    #[must_use]
    pub const fn each(&self) -> Option<&Each> {
        self.each.as_ref()
    }

    /// The runtime whose guest runs the case, where it names one.
    #[must_use]
    pub const fn runtime(&self) -> Option<&Runtime> {
        self.runtime.as_ref()
    }

    /// The calibrated burner, calibrated at first use (takes some milliseconds: ask before the clock runs).
    pub fn burner(&mut self) -> &Burner {
        self.burner.get_or_insert_with(Burner::calibrate)
    }

    /// For what the case draws at random, below 2^53. All cases of a round have the same, so that what is compared by
    /// round differs in nothing but what it is about; each round and each of its tries has another one.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Starts a timed section.
    #[must_use]
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch {
            handicap_percent: self.handicap_percent,
            cpu_ns: clock::process_cpu_ns(),
            wall_ns: clock::monotonic_ns(),
        }
    }

    /// Records a figure, which is finite; each metric once.
    pub fn record(&mut self, metric: statistic::Metric, value: f64) {
        self.metric(metric.name, metric.unit, value);
    }

    /// Records a figure. `name` is unique within the case and `value` finite.
    pub fn metric(&mut self, name: &str, unit: &str, value: f64) {
        self.sample.metrics.push(Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            value,
        });
    }

    /// Marks the sample, e.g. `cold` or `no-steady-state`.
    pub fn tag(&mut self, tag: &str) {
        if !self.sample.tags.iter().any(|t| t == tag) {
            self.sample.tags.push(tag.to_owned());
        }
    }

    /// Stores how disturbed the sample was, e.g. the share of time in which all units ran together.
    pub fn noise(&mut self, name: &str, value: f64) {
        self.sample.noise.insert(name.to_owned(), value);
    }
}

/// The tag of a sample that was skipped for want of this. What reads it back is [`lack`].
fn tag(of: Need) -> String {
    format!("{LACKS}{}", serde_json::json!(of).as_str().unwrap_or_default())
}

/// Why a sample has no figures: what the machine lacks, by its tag, or figures.
pub(crate) fn lack(sample: &Sample) -> Option<Lack> {
    let named = |tag: &String| serde_json::from_value(tag.strip_prefix(LACKS)?.into()).ok();
    let of = sample.tags.iter().find_map(named).unwrap_or(Need::Figures);
    Some(Lack::new(of, sample.reason.as_ref()?))
}

/// The switches of this process and the children it has waited for.
fn switches() -> Switches {
    usage_self().switches + usage_children().switches
}

/// A timed section that has begun.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    handicap_percent: u32,
    cpu_ns: u64,
    wall_ns: u64,
}

/// What a timed section took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lap {
    /// Wall time, ns.
    pub wall_ns: u64,
    /// CPU time of this process (all its threads, not its children), ns.
    pub cpu_ns: u64,
}

impl Stopwatch {
    /// Ends the section. A handicapped worker first does its extra work, inside the timed section.
    #[must_use]
    pub fn stop(self) -> Lap {
        // Another look at the clock would be a part of what others measure.
        match self.handicap_percent {
            0 => {}
            percent => {
                let wall_ns = clock::monotonic_ns();
                let until_ns = wall_ns + extra_ns(wall_ns - self.wall_ns, percent);
                while clock::monotonic_ns() < until_ns {
                    std::hint::spin_loop();
                }
            }
        }
        Lap {
            wall_ns: clock::monotonic_ns() - self.wall_ns,
            cpu_ns: clock::process_cpu_ns() - self.cpu_ns,
        }
    }
}

/// So many per cent of what a section took.
fn extra_ns(took_ns: u64, percent: u32) -> u64 {
    took_ns * u64::from(percent) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(handicap_percent: u32) -> Order {
        Order {
            experiment: "toy".to_owned(),
            params: Params::new(),
            cpus: Vec::new(),
            handicap_percent,
            launched_ns: 7,
            seed: 0,
            each: None,
            runtime: None,
        }
    }

    fn worker(handicap_percent: u32) -> Worker {
        Worker::new(&order(handicap_percent))
    }

    #[test]
    fn it_knows_when_it_was_launched_and_what_the_user_has_computed() {
        assert_eq!((worker(0).launched_ns(), worker(0).each()), (7, None));
        let each = Some(Each {
            command: vec!["gzip".to_owned()],
            items: vec!["a".to_owned()],
            alone: Vec::new(),
        });
        let order = Order {
            each: each.clone(),
            ..order(0)
        };
        assert_eq!(Worker::new(&order).each(), each.as_ref());
    }

    #[test]
    fn extra_work_is_a_share_of_what_the_section_took() {
        assert_eq!(extra_ns(1_000, 15), 150);
        assert_eq!(extra_ns(300, 250), 750);
    }

    #[test]
    fn a_section_takes_what_its_clocks_say_and_with_a_handicap_the_extra_work_besides() {
        for handicap_percent in [0, 900] {
            let worker = worker(handicap_percent);
            let outer = [clock::monotonic_ns(), clock::process_cpu_ns()];
            let stopwatch = worker.stopwatch();
            let inner = [clock::monotonic_ns(), clock::process_cpu_ns()];
            // Some work: by its own clock, which may not jump.
            while clock::process_cpu_ns() - inner[1] < 3_000_000 {
                std::hint::spin_loop();
            }
            let inner = [
                clock::monotonic_ns() - inner[0],
                clock::process_cpu_ns() - inner[1],
            ];
            let lap = stopwatch.stop();
            let outer = [
                clock::monotonic_ns() - outer[0],
                clock::process_cpu_ns() - outer[1],
            ];
            let least_ns = inner[0] + extra_ns(inner[0], handicap_percent);
            assert!(
                (least_ns..=outer[0]).contains(&lap.wall_ns),
                "{lap:?} {inner:?} {outer:?}"
            );
            assert!(
                (inner[1]..=outer[1]).contains(&lap.cpu_ns),
                "{lap:?} {inner:?} {outer:?}"
            );
        }
    }

    #[test]
    fn what_a_case_records_is_in_its_sample() {
        let mut waits = std::process::Command::new("sleep");
        assert!(waits.arg("0.02").status().unwrap().success());
        let before = usage_self().switches + usage_children().switches;
        let mut worker = worker(0);
        worker.record(statistic::metric("elapsed_ns", "ns"), 5.0);
        worker.metric("share", "ratio", 0.5);
        worker.tag("cold");
        worker.tag("low-overlap");
        worker.tag("cold");
        worker.noise("overlap", 0.9);
        // A switch of its own accord.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let sample = worker.finish(Ok(()));
        assert_eq!((sample.status, sample.reason.as_ref()), (Status::Ok, None));
        assert_eq!(sample.tags, ["cold", "low-overlap"]);
        let of = |name: &str| sample.metrics.iter().find(|m| m.name == name).unwrap();
        assert_eq!(
            (of("elapsed_ns").unit.as_str(), of("elapsed_ns").value),
            ("ns", 5.0)
        );
        assert_eq!((of("share").unit.as_str(), of("share").value), ("ratio", 0.5));
        assert_eq!(sample.noise["overlap"], 0.9);
        let since = switches() - before;
        assert!(switches().voluntary > before.voluntary, "this thread has slept");
        assert!((1.0..=since.voluntary as f64).contains(&sample.noise["voluntary_switches"]));
        assert!((0.0..=since.involuntary as f64).contains(&sample.noise["involuntary_switches"]));
    }

    #[test]
    fn what_a_case_lacks_is_named_by_a_tag_that_is_read_back() {
        let finished = |error| worker(0).finish(Err(error));
        for need in [
            Need::Cpus,
            Need::Program,
            Need::System,
            Need::Memory,
            Need::Profile,
            Need::Figures,
        ] {
            let lacking = Lack::new(need, "it is not here");
            let sample = finished(CaseError::Skipped(lacking.clone()));
            assert_eq!(sample.status, Status::Skipped);
            assert_eq!(lack(&sample), Some(lacking));
        }
        let failed = finished(CaseError::failed("making a thread", "refused"));
        assert_eq!(failed.status, Status::Failed);
        assert_eq!(
            lack(&failed),
            Some(Lack::new(Need::Figures, "making a thread: refused"))
        );
        assert_eq!(lack(&worker(0).finish(Ok(()))), None);
    }
}
