//! A workload in a user's words, and what must be known of it before anything can be said.
//!
//! Owns what contradicts itself, is absurd or is missing: each names the field, and shows an example. What is missing
//! and can be assumed is assumed, and said.

use serde::Serialize;
use threadgauge_results::units::{counted, with_unit};

use crate::quantity::{Bytes, Count, Rate, Share, Spread, time};

/// What a user says of a workload. Each field may be missing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Description {
    /// So many tasks, all there at the start.
    pub tasks: Option<Count>,
    /// Or so many a second, as they come.
    pub rate: Option<Rate>,
    /// Or so many clients that stay connected.
    pub connections: Option<Count>,
    /// Messages of each of them.
    pub messages: Option<Rate>,
    /// To how many others a message goes.
    pub fan_out: Option<Count>,
    /// CPU time of a task, s.
    pub cpu_s: Option<f64>,
    /// Time in which a task waits for others (disk, network, a database), s.
    pub wait_s: Option<f64>,
    /// By how much tasks differ.
    pub spread: Option<Spread>,
    /// Memory of a task while it is at work.
    pub memory: Option<Bytes>,
    /// The part of its CPU time in which a task holds a lock that others want.
    pub lock: Option<Share>,
    /// Threads that the task's own library starts for it.
    pub inner_threads: Option<Count>,
    /// So many at once do those allow for whom tasks wait.
    pub limit: Option<Count>,
    /// So many in a time do they allow.
    pub limit_rate: Option<Rate>,
    /// A task may crash or leak, and is not to harm the others.
    pub isolate: bool,
    /// A person waits meanwhile, before the same program.
    pub interactive: bool,
    /// When results are of use.
    pub useful: Option<Useful>,
    /// What is known of lengths beforehand.
    pub lengths: Option<Lengths>,
    /// Each task needs the result of the one before it.
    pub depend: bool,
    /// Stages that pass data on, one to the next.
    pub stages: Option<Count>,
    /// How much data a task is given or passes on.
    pub passes: Option<Bytes>,
    /// Units come and go with tasks, rather than being kept.
    pub come_and_go: bool,
    /// It may outgrow one machine.
    pub outgrow: bool,
    /// 99 of 100 tasks are to be done within this, s.
    pub goal_s: Option<f64>,
    /// In which language it is written.
    pub language: Option<Language>,
    /// How many at once the user has now.
    pub now: Option<Count>,
}

/// When results are of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Useful {
    /// Each as soon as it is there.
    Each,
    /// Only all together.
    Together,
}

/// What is known of the lengths of tasks before they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lengths {
    /// Which are longer than which.
    Known,
    /// Only between which bounds they are.
    Range,
    /// Nothing.
    Unknown,
}

/// A language, as far as it decides who may compute at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Language {
    C,
    Cpp,
    Rust,
    Go,
    Java,
    Python,
    Node,
    Ruby,
    Erlang,
    Other,
}

impl Language {
    /// Whether threads of one process compute one at a time.
    #[must_use]
    pub const fn computes_alone(self) -> bool {
        matches!(self, Self::Python | Self::Node | Self::Ruby)
    }

    /// What a process takes in which its runtime is, B: of Python one that was forked, of the others one that was
    /// started; none where it is a program without a runtime, or is not known. Source: `runs/2026-11-27-runtimes`.
    #[must_use]
    pub const fn process_bytes(self) -> Option<f64> {
        match self {
            Self::Python => Some(1_666_245.0),
            Self::Node => Some(16_824_320.0),
            Self::Java => Some(18_450_432.0),
            Self::Erlang => Some(20_994_048.0),
            Self::Go => Some(1_087_488.0),
            Self::C | Self::Cpp | Self::Rust | Self::Ruby | Self::Other => None,
        }
    }

    /// As its people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cpp => "C++",
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::Java => "Java",
            Self::Python => "Python",
            Self::Node => "Node",
            Self::Ruby => "Ruby",
            Self::Erlang => "Erlang",
            Self::Other => "another language",
        }
    }
}

/// How tasks come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coming {
    /// So many, all at the start.
    Batch(usize),
    /// So many a second, at random.
    Rate(f64),
}

/// Clients that stay connected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Connections {
    /// How many.
    pub count: usize,
    /// Messages of each, a second.
    pub messages: f64,
    /// To how many others each goes.
    pub fan_out: usize,
}

/// How far off CPU time and wait of a task may be, where they were observed and not told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Uncertain {
    /// The ends of the interval of its CPU time, as factors of that.
    pub cpu: [f64; 2],
    /// The same of its wait.
    pub wait: [f64; 2],
    /// The most that it may wait, s, where idle and blocked look alike.
    pub most_wait_s: Option<f64>,
}

impl Uncertain {
    /// Factors of CPU time and wait at all ends, each with each; none where nothing is uncertain.
    #[must_use]
    pub fn ends(&self) -> Vec<[f64; 2]> {
        let corners = self.cpu.map(|cpu| self.wait.map(|wait| [cpu, wait]));
        let mut ends: Vec<[f64; 2]> = Vec::new();
        for corner in corners.into_iter().flatten() {
            if corner != [1.0, 1.0] && !ends.contains(&corner) {
                ends.push(corner);
            }
        }
        ends
    }
}

/// A workload of which enough is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workload {
    /// How tasks come. With connections a task is a message with its deliveries.
    pub coming: Coming,
    /// Clients that stay, where there are.
    pub connections: Option<Connections>,
    /// CPU time of a task, s; of a message without its deliveries.
    pub cpu_s: f64,
    /// Waiting of a task, s.
    pub wait_s: f64,
    /// By how much tasks differ: standard deviation over the mean.
    pub spread: f64,
    /// Memory of a task, B.
    pub memory_bytes: f64,
    /// Part of the CPU time under a lock.
    pub lock: f64,
    /// Threads of a task.
    pub inner_threads: usize,
    /// How many may wait at once.
    pub limit: Option<usize>,
    /// How many waits a second may begin.
    pub limit_rate: Option<f64>,
    /// A task may not harm the others.
    pub isolate: bool,
    /// A person waits.
    pub interactive: bool,
    /// When results are of use.
    pub useful: Useful,
    /// What is known of lengths.
    pub lengths: Lengths,
    /// Each needs the one before it.
    pub depend: bool,
    /// Stages that pass data on.
    pub stages: usize,
    /// Data that a task is given, B.
    pub passes_bytes: f64,
    /// Units come and go with tasks.
    pub come_and_go: bool,
    /// It may outgrow one machine.
    pub outgrow: bool,
    /// The goal for 99 of 100, s.
    pub goal_s: Option<f64>,
    /// In which language.
    pub language: Language,
    /// How many at once there are now.
    pub now: Option<usize>,
    /// How far off CPU time and wait may be; none where they were told.
    pub uncertain: Option<Uncertain>,
    /// What was not said and is assumed, in words.
    pub assumed: Vec<String>,
}

/// What is wrong with a description: which field, why, and how it might read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It is needed and was not said.
    #[error("{field} is missing: {question} Say for example {example}")]
    Missing {
        /// The field.
        field: &'static str,
        /// What to ask the user.
        question: &'static str,
        /// How it is said.
        example: &'static str,
    },
    /// It cannot be so.
    #[error("{field}: {what}. Say for example {example}")]
    Absurd {
        /// The field.
        field: &'static str,
        /// Why.
        what: String,
        /// How it might read.
        example: &'static str,
    },
}

const fn missing(field: &'static str, question: &'static str, example: &'static str) -> Wrong {
    Wrong::Missing {
        field,
        question,
        example,
    }
}

fn absurd(field: &'static str, what: impl Into<String>, example: &'static str) -> Wrong {
    Wrong::Absurd {
        field,
        what: what.into(),
        example,
    }
}

/// Beyond, a task is a run of its own, and nothing here was made for it: 30 days.
const LONGEST_S: f64 = 30.0 * 86_400.0;
/// CPU time of a task that waits, where nobody said it: a request sent and its answer read and looked at.
const ASSUMED_CPU_S: f64 = 1e-3;
/// CPU time of a message but for its deliveries: read, looked at.
const MESSAGE_CPU_S: f64 = 20e-6;
/// A client says something so often, where nobody said it.
const ASSUMED_MESSAGES: f64 = 0.1;
/// And to so many others.
const ASSUMED_FAN_OUT: usize = 10;
/// One in ten years.
const SELDOM_PER_S: f64 = 1.0 / (10.0 * 365.25 * 86_400.0);
/// More stages are a mistake.
const MOST_STAGES: usize = 100;

impl Workload {
    /// What is described, once that makes sense.
    ///
    /// # Errors
    ///
    /// If something is missing that cannot be assumed, is absurd, or contradicts something else.
    pub fn of(said: &Description) -> Result<Self, Wrong> {
        check(said)?;
        let mut assumed = Vec::new();
        let connections = said.connections.map(|Count(count)| {
            let messages = said.messages.map(|rate| rate.per_second).unwrap_or_else(|| {
                assumed.push(format!(
                    "each client says something every {} s (--messages)",
                    1.0 / ASSUMED_MESSAGES
                ));
                ASSUMED_MESSAGES
            });
            let fan_out = said.fan_out.map(|Count(n)| n).unwrap_or_else(|| {
                let others = ASSUMED_FAN_OUT.min(count.saturating_sub(1)).max(1);
                assumed.push(format!(
                    "a message goes to {} (--fan-out)",
                    counted(others, "other")
                ));
                others
            });
            Connections {
                count,
                messages,
                fan_out,
            }
        });
        let coming = match (said.tasks, said.rate, connections) {
            (Some(Count(tasks)), ..) => Coming::Batch(tasks),
            (_, Some(rate), _) => Coming::Rate(rate.per_second),
            (.., Some(connections)) => Coming::Rate(connections.count as f64 * connections.messages),
            _ => {
                return Err(missing(
                    "--rate, --tasks or --connections",
                    "how many tasks are there, or how many come in a time, or how many clients stay connected?",
                    "--rate 1000/h, --tasks 500 or --connections 5000",
                ));
            }
        };
        let cpu_s = match (said.cpu_s, said.wait_s, connections) {
            (Some(cpu_s), ..) => cpu_s,
            (None, _, Some(_)) => {
                assumed.push("reading a message takes 20 µs of CPU time (--cpu)".to_owned());
                MESSAGE_CPU_S
            }
            (None, Some(_), None) => {
                assumed.push("a task takes 1 ms of CPU time beside its waiting (--cpu)".to_owned());
                ASSUMED_CPU_S
            }
            (None, None, None) => {
                return Err(missing(
                    "--cpu",
                    "how much CPU time does a task take, and for how long does it wait for others? `threadgauge observe` tells both of a program that runs.",
                    "--cpu 200ms --wait 30ms",
                ));
            }
        };
        if let Some(language) = said.language.filter(|_| said.memory.is_none())
            && let Some(bytes) = language.process_bytes()
        {
            assumed.push(format!(
                "a process of {} takes {} before it does anything, as measured elsewhere (--memory)",
                language.name(),
                with_unit(bytes, None, "B")
            ));
        }
        let wait_s = said.wait_s.unwrap_or(0.0);
        if said.wait_s.is_none() && connections.is_none() {
            assumed.push("tasks wait for nothing (--wait)".to_owned());
        }
        if said.spread.is_none() && connections.is_none() {
            let whom = if matches!(coming, Coming::Rate(_)) {
                "; they come at random"
            } else {
                ""
            };
            assumed.push(format!("all tasks are alike (--spread){whom}"));
        }
        Ok(Self {
            coming,
            connections,
            cpu_s,
            wait_s,
            spread: said.spread.unwrap_or_default().0,
            memory_bytes: said.memory.map_or(0.0, |Bytes(bytes)| bytes),
            lock: said.lock.map_or(0.0, |Share(share)| share),
            inner_threads: said.inner_threads.map_or(1, |Count(n)| n),
            limit: said.limit.map(|Count(n)| n),
            limit_rate: said.limit_rate.map(|rate| rate.per_second),
            isolate: said.isolate,
            interactive: said.interactive,
            useful: said.useful.unwrap_or(Useful::Together),
            lengths: said.lengths.unwrap_or(Lengths::Unknown),
            depend: said.depend,
            stages: said.stages.map_or(1, |Count(n)| n),
            passes_bytes: said.passes.map_or(0.0, |Bytes(bytes)| bytes),
            come_and_go: said.come_and_go,
            outgrow: said.outgrow,
            goal_s: said.goal_s,
            language: said.language.unwrap_or(Language::Other),
            now: said.now.map(|Count(n)| n),
            uncertain: None,
            assumed,
        })
    }

    /// This, if CPU time and wait of a task were known to be so many times as long.
    #[must_use]
    pub fn known(&self, cpu: f64, wait: f64) -> Self {
        Self {
            cpu_s: self.cpu_s * cpu,
            wait_s: self.wait_s * wait,
            uncertain: None,
            ..self.clone()
        }
    }

    /// Why `advise --measure` has no twin of it; none where it has.
    #[must_use]
    pub const fn lacks_twin(&self) -> Option<&'static str> {
        if self.connections.is_some() {
            return Some(
                "there is no twin of clients that stay connected; `threadgauge load` measures a server",
            );
        }
        if self.depend || self.limit.is_some() || self.limit_rate.is_some() {
            return Some(
                "the twin knows no dependence and no limit of others yet; leave --depend, --limit and --limit-rate away to \
                 measure the rest",
            );
        }
        None
    }

    /// What a task alone takes at least, s.
    #[must_use]
    pub fn alone_s(&self) -> f64 {
        self.cpu_s / self.inner_threads.max(1) as f64 + self.wait_s
    }

    /// Tasks a second, where they come by a rate.
    #[must_use]
    pub const fn rate(&self) -> Option<f64> {
        match self.coming {
            Coming::Rate(rate) => Some(rate),
            Coming::Batch(_) => None,
        }
    }
}

/// Refuses what contradicts itself or is absurd.
fn check(said: &Description) -> Result<(), Wrong> {
    let ways = [
        said.tasks.is_some(),
        said.rate.is_some(),
        said.connections.is_some(),
    ];
    if ways.iter().filter(|way| **way).count() > 1 {
        return Err(absurd(
            "--tasks, --rate and --connections",
            "these are three ways to say how tasks come, and contradict each other",
            "--tasks 500 alone, for a list that is there at the start; or --rate 1000/h alone, for what comes over time",
        ));
    }
    for (field, s, example) in [
        ("--cpu", said.cpu_s, "--cpu 200ms"),
        ("--wait", said.wait_s, "--wait 30ms"),
        ("--goal", said.goal_s, "--goal 500ms"),
    ] {
        match s {
            Some(s) if !s.is_finite() || s < 0.0 => {
                return Err(absurd(field, "a time is not below nothing", example));
            }
            Some(s) if s > LONGEST_S => {
                return Err(absurd(
                    field,
                    "a task of more than 30 days is none that this can advise on",
                    example,
                ));
            }
            _ => {}
        }
    }
    let inner_threads = said.inner_threads.map_or(1, |Count(n)| n);
    let alone_s = said.cpu_s.unwrap_or(0.0) / inner_threads as f64 + said.wait_s.unwrap_or(0.0);
    if let Some(goal_s) = said.goal_s.filter(|&goal_s| goal_s > 0.0 && goal_s < alone_s) {
        return Err(absurd(
            "--goal",
            format!(
                "a task alone takes {}, so that none is done within {}",
                time(alone_s),
                time(goal_s)
            ),
            "--goal 500ms",
        ));
    }
    if said.connections.is_some() {
        let of_tasks = [
            ("--interactive", said.interactive),
            ("--now", said.now.is_some()),
            ("--come-and-go", said.come_and_go),
            ("--stages", said.stages.is_some()),
            ("--passes", said.passes.is_some()),
        ];
        if let Some((field, _)) = of_tasks.into_iter().find(|(_, is_said)| *is_said) {
            return Err(absurd(
                field,
                "it is said of tasks, and of clients that stay connected it changes nothing",
                "--connections 5000 --messages 1/min --fan-out 20",
            ));
        }
    }
    if said.stages.is_some_and(|Count(n)| n > MOST_STAGES) {
        return Err(absurd(
            "--stages",
            format!("no task goes through more than {MOST_STAGES} that pass it on"),
            "--stages 3 --passes 64KiB",
        ));
    }
    if said.rate.is_some_and(|rate| rate.per_second < SELDOM_PER_S) {
        return Err(absurd(
            "--rate",
            "less than one in ten years needs no design",
            "--rate 1/d",
        ));
    }
    if said.goal_s == Some(0.0) {
        return Err(absurd("--goal", "nothing is done in no time", "--goal 500ms"));
    }
    let nothing = said.cpu_s == Some(0.0) && said.wait_s.unwrap_or(0.0) == 0.0;
    if nothing {
        return Err(absurd(
            "--cpu",
            "a task that neither computes nor waits needs no design",
            "--cpu 200ms",
        ));
    }
    if said.connections.is_none() {
        let needs = [
            ("--messages", said.messages.is_some()),
            ("--fan-out", said.fan_out.is_some()),
        ];
        if let Some((field, _)) = needs.into_iter().find(|(_, is_said)| *is_said) {
            return Err(absurd(
                field,
                "it is said of clients that stay connected, and there are none",
                "--connections 5000 --messages 1/min --fan-out 20",
            ));
        }
    }
    if let (Some(Count(count)), Some(Count(fan_out))) = (said.connections, said.fan_out)
        && fan_out > count
    {
        return Err(absurd(
            "--fan-out",
            "a message cannot go to more clients than there are",
            "--fan-out 20",
        ));
    }
    if said.goal_s.is_some() && said.tasks.is_some() {
        return Err(absurd(
            "--goal",
            "tasks that are all there at the start have no time of arrival to count from",
            "--rate 50/s --goal 500ms",
        ));
    }
    if said.tasks.is_none() && (said.useful.is_some() || said.depend) {
        let (field, example) = match said.useful {
            Some(_) => ("--useful", "--tasks 40 --useful each"),
            None => ("--depend", "--tasks 40 --depend"),
        };
        return Err(absurd(
            field,
            "it is said of tasks that are all there at the start",
            example,
        ));
    }
    if said.lock.is_some_and(|Share(share)| share > 0.0) && said.cpu_s == Some(0.0) {
        return Err(absurd(
            "--lock",
            "it is a part of the CPU time, and there is none",
            "--cpu 2ms --lock 10%",
        ));
    }
    let waits = said.wait_s.unwrap_or(0.0) > 0.0;
    for (field, is_said, example) in [
        ("--limit", said.limit.is_some(), "--wait 30ms --limit 20"),
        (
            "--limit-rate",
            said.limit_rate.is_some(),
            "--wait 30ms --limit-rate 100/s",
        ),
    ] {
        if is_said && !waits {
            return Err(absurd(
                field,
                "it bounds for whom tasks wait, and they wait for nobody",
                example,
            ));
        }
    }
    if said.inner_threads.is_some_and(|Count(n)| n > 10_000) {
        return Err(absurd(
            "--inner-threads",
            "no library starts so many threads for a task",
            "--inner-threads 8",
        ));
    }
    if said.lengths.is_some() && said.spread.is_none_or(|Spread(spread)| spread == 0.0) {
        return Err(absurd(
            "--lengths",
            "of tasks that are all alike there is nothing to know beforehand",
            "--spread 50% --lengths known",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: Description) -> Result<Workload, String> {
        Workload::of(&said).map_err(|wrong| wrong.to_string())
    }

    fn some(tasks: usize, cpu_s: f64) -> Description {
        Description {
            tasks: Some(Count(tasks)),
            cpu_s: Some(cpu_s),
            ..Description::default()
        }
    }

    #[test]
    fn what_is_missing_is_asked_for_or_assumed_and_said() {
        let nothing = of(Description::default()).unwrap_err();
        assert!(
            nothing.contains("--rate 1000/h") && nothing.contains("is missing"),
            "{nothing}"
        );
        let no_cost = of(Description {
            tasks: Some(Count(5)),
            ..Description::default()
        });
        assert!(no_cost.unwrap_err().contains("--cpu 200ms --wait 30ms"));
        let fetches = of(Description {
            tasks: Some(Count(500)),
            wait_s: Some(0.12),
            ..Description::default()
        });
        let fetches = fetches.unwrap();
        assert_eq!((fetches.cpu_s, fetches.wait_s), (0.001, 0.12));
        assert_eq!(fetches.assumed.len(), 2, "{:?}", fetches.assumed);
        let chat = of(Description {
            connections: Some(Count(5_000)),
            ..Description::default()
        });
        let chat = chat.unwrap();
        assert_eq!(chat.rate(), Some(500.0));
        assert_eq!(chat.assumed.len(), 3, "{:?}", chat.assumed);
    }

    #[test]
    fn what_contradicts_itself_or_is_absurd_names_the_field_and_an_example() {
        let both = Description {
            rate: Some(Rate { per_second: 1.0 }),
            ..some(5, 1.0)
        };
        let cases = [
            ("--rate", both),
            ("--cpu", some(5, -1.0)),
            ("--cpu", some(5, f64::NAN)),
            ("--cpu", some(5, 0.0)),
            ("--cpu", some(5, 1e9)),
            (
                "--messages",
                Description {
                    messages: Some(Rate { per_second: 1.0 }),
                    ..some(5, 1.0)
                },
            ),
            (
                "--fan-out",
                Description {
                    connections: Some(Count(3)),
                    fan_out: Some(Count(4)),
                    ..Description::default()
                },
            ),
            (
                "--goal",
                Description {
                    goal_s: Some(1.0),
                    ..some(5, 1.0)
                },
            ),
            (
                "--useful",
                Description {
                    tasks: None,
                    rate: Some(Rate { per_second: 1.0 }),
                    useful: Some(Useful::Each),
                    ..some(5, 1.0)
                },
            ),
            (
                "--limit",
                Description {
                    limit: Some(Count(3)),
                    ..some(5, 1.0)
                },
            ),
            (
                "--limit-rate",
                Description {
                    limit_rate: Some(Rate { per_second: 1.0 }),
                    ..some(5, 1.0)
                },
            ),
            (
                "--lock",
                Description {
                    lock: Some(Share(0.1)),
                    wait_s: Some(1.0),
                    ..some(5, 0.0)
                },
            ),
            (
                "--inner-threads",
                Description {
                    inner_threads: Some(Count(10_001)),
                    ..some(5, 1.0)
                },
            ),
            (
                "--goal",
                Description {
                    tasks: None,
                    rate: Some(Rate { per_second: 1.0 }),
                    wait_s: Some(0.02),
                    goal_s: Some(0.04),
                    ..some(5, 0.025)
                },
            ),
            (
                "--interactive",
                Description {
                    connections: Some(Count(3)),
                    interactive: true,
                    ..Description::default()
                },
            ),
            (
                "--rate",
                Description {
                    tasks: None,
                    rate: Some(Rate { per_second: 1e-9 }),
                    ..some(5, 1.0)
                },
            ),
            (
                "--stages",
                Description {
                    stages: Some(Count(101)),
                    ..some(5, 1.0)
                },
            ),
            (
                "--lengths",
                Description {
                    lengths: Some(Lengths::Known),
                    ..some(5, 1.0)
                },
            ),
        ];
        for (field, said) in cases {
            let says = of(said).unwrap_err();
            assert!(
                says.contains(field) && says.contains("Say for example --"),
                "{says}"
            );
        }
    }
}
