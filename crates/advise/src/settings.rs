//! What advice is called in programs that people know: one table, each line with its source.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::design::{Design, Machine};
use crate::predict::Prediction;
use crate::workload::Workload;

/// A line of the table.
#[derive(Debug, Clone, Deserialize)]
struct Line {
    program: String,
    setting: String,
    value: Value,
    says: String,
    source: String,
}

/// Which figure of an advice a setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    /// Tasks at once.
    AtOnce,
    /// Whole CPUs that it can have.
    Cpus,
    /// Processes that share the tasks at once.
    Processes,
    /// Threads of each of them.
    Threads,
    /// Event loops.
    Loops,
    /// Those for whom tasks wait, at once.
    Limit,
    /// Clients of each event loop.
    Connections,
}

/// A setting of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The program.
    pub program: String,
    /// What is set.
    pub setting: String,
    /// To what.
    pub value: usize,
    /// What it is.
    pub says: String,
    /// Where its manual says so.
    pub source: String,
}

fn lines() -> &'static [Line] {
    static LINES: LazyLock<Vec<Line>> = LazyLock::new(|| {
        let mut reader = csv::Reader::from_reader(include_str!("settings.csv").as_bytes());
        // A line that cannot be read is found by a test.
        reader.deserialize().filter_map(Result::ok).collect()
    });
    &LINES
}

/// The programs of the table, each once.
#[must_use]
pub fn programs() -> Vec<&'static str> {
    let mut names: Vec<&str> = lines().iter().map(|line| line.program.as_str()).collect();
    names.dedup();
    names
}

/// What is set in a program for this advice; nothing for one that is not in the table.
#[must_use]
pub fn settings(program: &str, advised: &Prediction, workload: &Workload, machine: &Machine) -> Vec<Setting> {
    let cpus = (machine.effective().ceil() as usize).max(1);
    let most = workload.limit.unwrap_or(usize::MAX);
    let at_once = match advised.candidate.design {
        // One for each task: as many as there are, or may be.
        design if design.comes_and_goes() => cpus,
        _ => advised.candidate.at_once,
    };
    let processes = at_once.min(cpus);
    let loops = match advised.candidate.design {
        Design::Loops => at_once,
        _ => cpus.min(at_once.max(1)),
    };
    let clients = workload.connections.map_or(0, |connections| connections.count);
    let value = |value: Value| match value {
        Value::AtOnce => at_once,
        Value::Cpus => cpus,
        Value::Processes => processes,
        Value::Threads => at_once.div_ceil(processes.max(1)),
        Value::Loops => loops,
        Value::Limit => at_once.min(most),
        // One more for each client, towards a server behind it.
        Value::Connections => (2 * clients.div_ceil(loops.max(1))).max(512),
    };
    let of = |line: &Line| Setting {
        program: line.program.clone(),
        setting: line.setting.clone(),
        value: value(line.value),
        says: line.says.clone(),
        source: line.source.clone(),
    };
    lines()
        .iter()
        .filter(|line| line.program == program)
        .map(of)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read_and_has_a_source() {
        let written = include_str!("settings.csv").lines().count() - 1;
        assert_eq!(lines().len(), written);
        assert!(lines().iter().all(|line| line.source.starts_with("https://")));
        for program in [
            "gunicorn", "node", "python", "hikaricp", "nginx", "tokio", "go", "jvm", "make",
        ] {
            assert!(programs().contains(&program), "{program}");
        }
    }
}
