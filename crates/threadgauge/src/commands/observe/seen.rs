//! All that was seen of a program, as the text, the JSON and the results folder show it.

use std::time::Duration;

use threadgauge_machine::observe::{Capacity, Course, Verdict, judge};

use crate::commands::observe::started::Ended;
use crate::commands::observe::tasks::TaskCost;

/// What was seen, and how it came to its end.
#[derive(Debug)]
pub struct Seen {
    /// The process.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// The command that was started, as typed.
    pub command: Option<String>,
    /// When observing began, RFC 3339.
    pub started: String,
    /// From look to look, as asked for.
    pub interval: Duration,
    /// All looks.
    pub course: Course,
    /// What the program may use.
    pub capacity: Capacity,
    /// The least limit on its memory by control groups, KiB.
    pub memory_limit_kib: Option<u64>,
    /// Why observing ended.
    pub ending: Ending,
    /// What a task costs, where tasks were counted; or why that is not known.
    pub task: Option<Result<TaskCost, String>>,
    /// What is not known, and why.
    pub lacks: Vec<String>,
    /// CPU time of all of this process, while it observed: with what it has shown.
    pub own_process_cpu: Duration,
    /// The command has ended.
    pub ended: Option<Ended>,
}

/// Why observing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The time was over.
    Over,
    /// The process has ended.
    ProcessEnded,
    /// Somebody wanted it to.
    Interrupted,
}

impl Ending {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Over => "time",
            Self::ProcessEnded => "process_ended",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Seen {
    /// Why it is as fast as it is.
    pub fn verdicts(&self) -> Vec<Verdict> {
        judge(&self.course, self.capacity)
    }
}
