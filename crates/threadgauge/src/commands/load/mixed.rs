//! Mixed clients: a workload's classes at one server at once, and what each came to.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use serde_json::Value;
use threadgauge_load::exchange::{Bytes, Echo, Http, HttpRequest};
use threadgauge_load::{
    Behaviour, Class, ClassRecord, Clients, Failure, Latency, LoadError, MOST_PAYLOAD_BYTES, Observer,
    Second, Watch as _, run_mixed,
};
use threadgauge_results::units::{count, counted, percent, with_unit};

use crate::commands::load::commands::{self, Limit, Monitors};
use crate::commands::load::drive;
use crate::commands::load::live::Live;
use crate::commands::load::options::{LoadOptions, Speaks};
use crate::commands::load::server;
use crate::commands::load::show::{Done, per_second};
use crate::commands::load::target::Target;
use crate::commands::load::workload::{Workload, kind};
use crate::output::say;

/// What commands said stands under these names, by when they ran.
const SAID: [&str; 3] = ["before_said", "monitor_said", "after_said"];

/// Runs of mixed clients that are over.
#[derive(Debug)]
pub struct Mixed {
    /// What each class came to, in each round.
    pub runs: Vec<Done>,
    /// The workload with all that it left out, and what its commands said in each round, for programs.
    pub workload: Value,
}

/// Reads the workload, and refuses what does not go with the protocol: asked before anything connects.
pub fn read(file: &Path, options: &LoadOptions) -> Result<Workload> {
    let workload = Workload::read(file)?;
    let protocol = options.protocol;
    ensure!(
        !protocol.is_group(),
        "--workload goes with http, bytes and echo, not with {}: in groups all must do the same, since all wait for all",
        protocol.name()
    );
    let connections = options.connections.get();
    let classes = workload.classes.len();
    ensure!(
        connections >= classes,
        "{} for {classes} classes: every class has one at least; say --connections {classes}",
        counted(connections, "connection")
    );
    let most = match protocol {
        Speaks::Bytes => Bytes::MOST,
        Speaks::Echo => MOST_PAYLOAD_BYTES,
        _ => usize::MAX,
    };
    for class in &workload.classes {
        if let Behaviour::Large { bytes, .. } = class.behaviour {
            ensure!(
                bytes.most() <= most,
                "[class.{}], `bytes`: {bytes} are too many for {}, which has {most} at most",
                class.name,
                protocol.name()
            );
        }
    }
    Ok(workload)
}

/// Which of several rounds it is, to stand behind something.
pub fn of_rounds(round: u32, rounds: u32) -> String {
    match rounds {
        1 => String::new(),
        _ => format!(", round {round} of {rounds}"),
    }
}

fn run_classes(
    classes: &[Class],
    options: &LoadOptions,
    target: &Target,
    seed: u64,
    look: &Look<'_>,
) -> Result<Vec<ClassRecord>, LoadError> {
    let plan = Clients {
        target: target.address(),
        connections: options.connections,
        pipeline: std::num::NonZeroUsize::MIN,
        timeout: options.timeout.0,
        go_on: options.go_on,
    };
    let bytes = |class: &Class| match class.behaviour {
        Behaviour::Large { bytes, .. } => bytes,
        _ => drive::payload(options),
    };
    let (hold, most) = (options.duration.0, options.requests);
    match options.protocol {
        Speaks::Http => {
            let exchange = |class: &Class| Http::new(&request(options, target, class));
            run_mixed(classes, plan, hold, most, seed, exchange, look)
        }
        Speaks::Bytes => {
            let exchange = |class: &Class| Bytes::kept(bytes(class));
            run_mixed(classes, plan, hold, most, seed, exchange, look)
        }
        _ => {
            let exchange = |class: &Class| Echo::new(bytes(class));
            run_mixed(classes, plan, hold, most, seed, exchange, look)
        }
    }
}

/// Of a large one the body has its bytes, so it is a POST unless another method was named.
fn request(options: &LoadOptions, target: &Target, class: &Class) -> HttpRequest {
    let mut request = drive::request(options, target);
    if let Behaviour::Large { bytes, .. } = class.behaviour {
        request.sizes = Some(bytes);
        if request.method == "GET" {
            request.method = "POST".to_owned();
        }
    }
    request
}

/// Shows the seconds of all classes as those of one run.
struct Look<'a> {
    stop: &'a AtomicBool,
    shown: Mutex<(Sums, Live)>,
}

impl Observer for Look<'_> {
    fn second(&self, class: &Class, second: &Second, latency: &Latency) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let (sums, live) = &mut *shown;
        if let Some((second, latency)) = sums.add(class, second, latency) {
            live.second(&second, &latency);
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Seconds that not all classes have told yet.
#[derive(Debug)]
struct Sums {
    pending: Vec<Sum>,
    classes: usize,
}

/// One second of those classes that have told of it.
#[derive(Debug, Default)]
struct Sum {
    second: Second,
    /// Of the classes that want answers: how long others wait is their own choice.
    latency: Latency,
    told: usize,
}

impl Sums {
    /// Adds the second of a class: that of all classes together, where it was the last that lacked.
    fn add(&mut self, class: &Class, second: &Second, latency: &Latency) -> Option<(Second, Latency)> {
        let at_s = second.at_s;
        let known = self.pending.iter().position(|sum| sum.second.at_s == at_s);
        let place = known.unwrap_or_else(|| {
            let mut sum = Sum::default();
            sum.second.at_s = at_s;
            self.pending.push(sum);
            self.pending.len() - 1
        });
        let sum = &mut self.pending[place];
        sum.told += 1;
        add(&mut sum.second, second);
        if class.behaviour.wants_answers() {
            sum.latency.merge(latency);
        }
        if sum.told < self.classes {
            return None;
        }
        let Sum {
            mut second, latency, ..
        } = self.pending.swap_remove(place);
        second.p50_ns = latency.ns(0.5);
        second.p99_ns = latency.ns(0.99);
        second.most_ns = latency.most_ns();
        Some((second, latency))
    }
}

/// Counts add up; times are those of all latencies together.
fn add(sum: &mut Second, second: &Second) {
    sum.sent += second.sent;
    sum.answered += second.answered;
    sum.failed += second.failed;
    sum.connects += second.connects;
    sum.bytes_in += second.bytes_in;
    sum.bytes_out += second.bytes_out;
    sum.in_flight += second.in_flight;
}

impl Mixed {
    /// Of a workload that was not run yet.
    pub fn of(workload: &Workload) -> Self {
        let mut all = workload.json();
        SAID.iter().for_each(|of| all[of] = Value::Array(Vec::new()));
        Self {
            runs: Vec::new(),
            workload: all,
        }
    }

    /// Runs the workload's commands and classes once more, in this round and with this seed. Blocks meanwhile. What was
    /// measured and said is there although something fails after that.
    ///
    /// # Errors
    ///
    /// If a command fails, or the classes cannot connect.
    pub fn run(
        &mut self,
        workload: &Workload,
        options: &LoadOptions,
        target: &Target,
        (round, seed): (u32, u64),
        live: Live,
        stop: &AtomicBool,
    ) -> Result<()> {
        let [mut before, mut after] = [Vec::new(), Vec::new()];
        let limit = |stop| Limit {
            time: workload.command_timeout,
            stop,
        };
        let prepared = commands::run(&workload.before, limit(stop), &mut before);
        self.said(0, round, before);
        let run = prepared
            .and_then(|()| match stop.load(Ordering::Relaxed) {
                true => Ok(()),
                false => target.reach(),
            })
            .and_then(|()| Monitors::start(&workload.monitor))
            .and_then(|monitors| {
                let sums = Sums {
                    pending: Vec::new(),
                    classes: workload.classes.len(),
                };
                let look = Look {
                    stop,
                    shown: Mutex::new((sums, live)),
                };
                let records = run_classes(&workload.classes, options, target, seed, &look);
                drop(look);
                self.said(1, round, monitors.stop());
                match records {
                    // The numbers in it are those of one class.
                    Err(LoadError::Interrupted { .. }) => {
                        say("interrupted while connections were made");
                        Ok(Vec::new())
                    }
                    records => Ok(records?),
                }
            });
        // Also where one of these or the load failed or was stopped: what was set up is to be taken down.
        let is_stopped = stop.load(Ordering::Relaxed);
        let unstopped = AtomicBool::new(false);
        let stop = if is_stopped { &unstopped } else { stop };
        let cleaned = commands::run(&workload.after, limit(stop), &mut after);
        self.said(2, round, after);
        let done = |of: ClassRecord| Done {
            wanted: of.connections,
            rate: None,
            connections: of.connections,
            round,
            is_group: false,
            record: of.record,
            slo: options.slo.clone(),
            server: None,
            class: Some(of.class),
        };
        match run {
            Err(error) => {
                // Of two failures the first is the error.
                if let Err(error) = cleaned {
                    say(&format!("{error:#}"));
                }
                return Err(error);
            }
            Ok(records) => self.runs.extend(records.into_iter().map(done)),
        }
        cleaned
    }

    /// Keeps what the commands of this place in `SAID` said in a round.
    fn said(&mut self, place: usize, round: u32, said: Vec<Value>) {
        if let Some(all) = self.workload[SAID[place]].as_array_mut() {
            for mut one in said {
                one["round"] = round.into();
                all.push(one);
            }
        }
    }

    /// Whether the server did what it must for every class.
    pub fn passes(&self) -> bool {
        self.runs.iter().all(Done::passes)
    }

    /// For a person: of each round a line for each class, and what was seen of the server.
    pub fn text(&self, rounds: u32) -> String {
        let line = |done: &Done| Some(text(done.class.as_ref()?, done) + "\n");
        let round = |of: &[Done]| -> String {
            let head = match (of, rounds) {
                ([], _) | (_, 1) => String::new(),
                ([first, ..], _) => format!("round {} of {rounds}\n", first.round),
            };
            let of_server = of.iter().find_map(|done| done.server.as_ref());
            let rows = of_server.into_iter().flat_map(server::rows);
            let rows = rows.map(|(name, says)| format!("{name:<14} {says}\n"));
            std::iter::once(head)
                .chain(of.iter().filter_map(line))
                .chain(rows)
                .collect()
        };
        let all: Vec<String> = self.runs.chunk_by(|a, b| a.round == b.round).map(round).collect();
        all.join("\n")
    }
}

fn text(class: &Class, done: &Done) -> String {
    let record = &done.record;
    let many = |number: u64| count(number as usize);
    let mut parts = Vec::new();
    if class.behaviour.wants_answers() {
        parts.push(format!("{} answered", many(record.answered)));
        parts.extend(record.held.achieved.map(per_second));
        for (q, name) in [(0.5, "p50"), (0.99, "p99")] {
            if let Some(ns) = record.service.ns(q) {
                parts.push(format!("{name} {}", with_unit(ns as f64, None, "ns")));
            }
        }
    } else {
        parts.push(format!(
            "{} begun, {} held to the end",
            many(record.sent),
            many(record.unfinished)
        ));
    }
    parts.extend(record.failures.each().map(|(failure, number)| {
        let by = match failure {
            Failure::Closed | Failure::Reset => " by the server",
            _ => "",
        };
        format!("{} {}{by}", many(number), failure.name().replace('_', " "))
    }));
    parts.push(format!("generator {} of its CPU", percent(record.cpu_share())));
    parts.extend(done.doubt());
    if record.interrupted {
        parts.push("interrupted".to_owned());
    }
    if record.bounded {
        parts.push("ended by --requests".to_owned());
    }
    if let Some(objection) = done.objection() {
        parts.push(objection);
    }
    format!(
        "{:<14} {} ({}): {}",
        class.name,
        count(done.connections),
        kind(&class.behaviour),
        parts.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(behaviour: Behaviour) -> Class {
        Class {
            name: "one".to_owned(),
            weight: 1.0,
            behaviour,
        }
    }

    /// A second in which so many were answered, each after so long.
    fn told(at_s: u64, many: u64, took_ns: u64) -> (Second, Latency) {
        let mut latency = Latency::default();
        (0..many).for_each(|_| latency.record(took_ns));
        let second = Second {
            at_s,
            answered: many,
            p50_ns: Some(took_ns),
            ..Second::default()
        };
        (second, latency)
    }

    #[test]
    fn one_of_several_rounds_is_named() {
        assert_eq!(of_rounds(1, 1), "");
        assert_eq!(of_rounds(2, 3), ", round 2 of 3");
    }

    #[test]
    fn counts_of_two_classes_add_up() {
        let second = |times: u64| Second {
            sent: 7 * times,
            answered: 6 * times,
            failed: 5 * times,
            connects: 4 * times,
            bytes_in: 3 * times,
            bytes_out: 2 * times,
            in_flight: times,
            ..Second::default()
        };
        let mut sum = second(1);
        add(&mut sum, &second(10));
        assert_eq!(sum, second(11));
    }

    #[test]
    fn a_second_of_all_classes_has_the_percentiles_of_those_that_want_answers() {
        let fast = class(Behaviour::Fast {
            think: std::time::Duration::ZERO,
        });
        let idle = class(Behaviour::Idle);
        let mut sums = Sums {
            pending: Vec::new(),
            classes: 3,
        };
        let mut add = |class: &Class, (second, latency): (Second, Latency)| {
            let whole = sums.add(class, &second, &latency);
            whole.map(|(second, _)| second)
        };
        // Of two seconds at once, each whole when all have told of it.
        assert_eq!(add(&fast, told(0, 900, 1_000)), None);
        assert_eq!(add(&fast, told(1, 5, 1_000)), None);
        assert_eq!(add(&idle, told(0, 0, 0)), None);
        let first = add(&fast, told(0, 300, 500_000)).unwrap();
        assert_eq!((first.at_s, first.answered), (0, 1_200));
        let near = |ns: Option<u64>, wanted: u64| ns.unwrap().abs_diff(wanted) <= wanted / 500;
        assert!(near(first.p50_ns, 1_000), "{first:?}");
        assert!(
            near(first.p99_ns, 500_000) && near(first.most_ns, 500_000),
            "{first:?}"
        );
        assert_eq!(add(&fast, told(1, 5, 1_000)), None);
        // An hour of a client that wants no answer is not what anybody waited for.
        let second = add(&idle, told(1, 100, 3_600_000_000_000)).unwrap();
        assert_eq!(
            (second.answered, second.p50_ns),
            (110, None),
            "ten answers are too few"
        );
        assert!(near(second.most_ns, 1_000), "{second:?}");
    }
}
