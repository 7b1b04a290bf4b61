//! A case of an experiment by itself, in a worker as `threadgauge run` starts it.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use threadgauge_results::Runtime;

use crate::shell;

/// Which figure of which case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    pub experiment: &'static str,
    /// All its parameters, as in its id: `NAME=VALUE,…`.
    pub params: &'static str,
    pub metric: &'static str,
}

impl Case {
    /// Runs it once on `cpus`, and gives the figure in its own unit. Blocks.
    ///
    /// # Errors
    ///
    /// With the worker's reason, where it has no such figure.
    pub fn run(&self, threadgauge: &Path, cpus: &[usize]) -> Result<f64> {
        self.run_by(threadgauge, cpus, None)
    }

    /// The same by a runtime's guest, where the case names one.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_by(&self, threadgauge: &Path, cpus: &[usize], runtime: Option<&Runtime>) -> Result<f64> {
        let pairs = self.params.split(',').filter_map(|pair| pair.split_once('='));
        let value = |text: &str| {
            text.parse::<u64>()
                .map_or_else(|_| json!(text), |number| json!(number))
        };
        let params: Map<String, Value> = pairs.map(|(name, text)| (name.to_owned(), value(text))).collect();
        let order = json!({
            "experiment": self.experiment,
            "params": params,
            "cpus": cpus,
            "handicap_percent": 0,
            "launched_ns": 0,
            "runtime": runtime,
        });
        let mut worker = shell::command_at(threadgauge);
        let mut worker = worker
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = worker.stdin.take().context("standard input is piped")?;
        input.write_all(order.to_string().as_bytes())?;
        drop(input);
        let answer = worker.wait_with_output()?;
        let sample: Value =
            serde_json::from_slice(&answer.stdout).context("the worker answered no sample")?;
        let metrics = sample["metrics"].as_array().into_iter().flatten();
        let found = metrics
            .filter(|m| m["name"] == self.metric)
            .find_map(|m| m["value"].as_f64());
        found.with_context(|| {
            let Self {
                experiment,
                params,
                metric,
            } = self;
            format!("{experiment}/{params} has no {metric}: {}", sample["reason"])
        })
    }
}
