//! `cargo xtask bench-harness`: threadgauge measured against the limits it promises.
//!
//! Owns the limits and the table. Worker start and batch overhead are what the experiment `null`
//! measures; sizes and times are taken here, of the release build.

mod against_c;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use threadgauge_stats::{largest, median, smallest};

use crate::{runs, shell};

/// Repetitions of what is measured here; `null` runs as many rounds.
const REPETITIONS: usize = 9;

/// What `null` calls the two figures that have a limit.
const WORKER_START: &str = "worker_start_ns";
const BATCH_OVERHEAD: &str = "batch_overhead_share";

/// What to measure, and from what.
#[derive(Args)]
pub struct Options {
    /// The results folder of a standard run, to time its report; the newest under runs/ without it
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Also time a clean release build, once (minutes)
    #[arg(long)]
    build: bool,
    /// Instead: the work that experiments do in the command itself beside a plain C program, interleaved
    #[arg(long, conflicts_with_all = ["results", "build"])]
    against_c: bool,
    /// Rounds of that
    #[arg(long, default_value_t = 20, value_name = "N", requires = "against_c")]
    rounds: usize,
}

/// Measures, prints the table, and fails where a limit is not met.
pub fn run(options: &Options) -> Result<()> {
    if options.against_c {
        return against_c::run(options.rounds);
    }
    let standard = match &options.results {
        Some(folder) => folder.clone(),
        None => runs::newest("standard")?.context(
            "there is no standard run with its store under runs/; make one and name it:\n  cargo run --release -- run --profile standard --out target/standard\n  cargo xtask bench-harness --results target/standard",
        )?,
    };
    let mut rows = Vec::new();
    if options.build {
        rows.push(clean_build()?);
    }
    let threadgauge = shell::build(shell::Profile::Release)?;
    rows.push(Row::of(
        "release binary",
        MB,
        15.0,
        &[fs::metadata(&threadgauge)?.len() as f64],
    ));
    rows.extend(null(&threadgauge)?);
    rows.push(Row::of("statistics of 10,000 samples", MS, 50.0, &statistics()?));
    rows.extend(report(&threadgauge, &standard)?);

    println!("| target | limit | measured: median (least – most, n) | met |");
    println!("|---|---|---|---|");
    for row in &rows {
        println!("{row}");
    }
    let missed: Vec<&str> = rows
        .iter()
        .filter(|row| !row.met())
        .map(|row| row.target)
        .collect();
    ensure!(missed.is_empty(), "beyond the limit: {}", missed.join(", "));
    Ok(())
}

/// How a figure is shown: its unit's name, and how much of what was measured makes one of it.
#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    one: f64,
}

/// From bytes.
const MB: Unit = Unit { name: "MB", one: 1e6 };
/// From nanoseconds.
const MS: Unit = Unit { name: "ms", one: 1e6 };
/// From nanoseconds.
const S: Unit = Unit { name: "s", one: 1e9 };
/// From a share of 1.
const PERCENT: Unit = Unit { name: "%", one: 0.01 };

/// A promise and how it was kept.
struct Row {
    target: &'static str,
    unit: Unit,
    limit: f64,
    median: f64,
    least: f64,
    most: f64,
    n: usize,
}

impl Row {
    /// From values in what `unit` is made from; `limit` is in `unit`.
    fn of(target: &'static str, unit: Unit, limit: f64, values: &[f64]) -> Self {
        let values: Vec<f64> = values.iter().map(|value| value / unit.one).collect();
        Self {
            target,
            unit,
            limit,
            least: smallest(&values),
            most: largest(&values),
            n: values.len(),
            // Of nothing it is no number, which no limit is kept by.
            median: median(&values).unwrap_or(f64::NAN),
        }
    }

    /// A figure that is not a number is never within the limit.
    fn met(&self) -> bool {
        self.median <= self.limit
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            target,
            unit,
            limit,
            median,
            least,
            most,
            n,
        } = self;
        let met = if self.met() { "yes" } else { "**no**" };
        let name = unit.name;
        write!(
            f,
            "| {target} | ≤ {limit} {name} | {median:.3} {name} ({least:.3} – {most:.3}, {n}) | {met} |"
        )
    }
}

fn clean_build() -> Result<Row> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut build = shell::cargo();
    build
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "threadgauge",
        ])
        .env("CARGO_TARGET_DIR", folder.path());
    let start = Instant::now();
    shell::run(&mut build)?;
    Ok(Row::of(
        "clean release build",
        S,
        240.0,
        &[start.elapsed().as_nanos() as f64],
    ))
}

/// What `null` says of the harness; the slowest of its cases counts.
fn null(threadgauge: &Path) -> Result<[Row; 2]> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let json = shell::output(
        shell::command_at(threadgauge)
            .args([
                "run",
                "null",
                "--json",
                "--rounds",
                &REPETITIONS.to_string(),
                "--out",
            ])
            .arg(folder.path().join("null")),
    )?;
    let results: Value = serde_json::from_str(&json).context("run --json printed no JSON")?;
    Ok([
        worst(
            &results,
            WORKER_START,
            "worker start to the case's first instruction",
            MS,
            3.0,
        )?,
        worst(&results, BATCH_OVERHEAD, "overhead per timed batch", PERCENT, 0.1)?,
    ])
}

fn worst(results: &Value, metric: &str, target: &'static str, unit: Unit, limit: f64) -> Result<Row> {
    let cases = results["experiments"][0]["cases"]
        .as_array()
        .context("the results have no cases")?;
    let mut rows = Vec::new();
    for summary in cases.iter().filter_map(|case| case["summaries"].get(metric)) {
        let figure = |name: &str| {
            summary[name]
                .as_f64()
                .with_context(|| format!("{metric} has no {name}"))
                .map(|v| v / unit.one)
        };
        rows.push(Row {
            target,
            unit,
            limit,
            median: figure("median")?,
            least: figure("min")?,
            most: figure("max")?,
            n: summary["n"]
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(0),
        });
    }
    rows.into_iter()
        .max_by(|a, b| a.median.total_cmp(&b.median))
        .with_context(|| format!("no case of null has the metric {metric}"))
}

fn statistics() -> Result<Vec<f64>> {
    let printed = shell::output(shell::cargo().args([
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "xtask",
        "--features",
        "measuring",
        "--example",
        "statistics",
    ]))?;
    printed
        .lines()
        .map(|line| {
            line.parse()
                .with_context(|| format!("the statistics example printed {line:?}"))
        })
        .collect()
}

/// Writes the report of `standard` again, in a copy, and looks at the page.
fn report(threadgauge: &Path, standard: &Path) -> Result<[Row; 2]> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let store = standard.join("results.sqlite");
    fs::copy(&store, folder.path().join("results.sqlite"))
        .with_context(|| format!("cannot copy {}", store.display()))?;
    let mut times = Vec::new();
    for _ in 0..REPETITIONS {
        let start = Instant::now();
        shell::run(
            shell::command_at(threadgauge)
                .arg("report")
                .arg(folder.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    let page = folder.path().join("report.html");
    let size = fs::metadata(&page)
        .with_context(|| format!("there is no {}", page.display()))?
        .len();
    Ok([
        Row::of("reports of a standard run, all files", S, 1.0, &times),
        Row::of("report.html of a standard run", MB, 3.0, &[size as f64]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_says_whether_the_median_keeps_the_limit() {
        let row = Row::of("start", MS, 3.0, &[2e6, 9e6, 1e6]);
        assert_eq!(
            row.to_string(),
            "| start | ≤ 3 ms | 2.000 ms (1.000 – 9.000, 3) | yes |"
        );
        assert!(!Row::of("start", MS, 3.0, &[4e6]).met());
        assert!(
            !Row::of("start", MS, 3.0, &[]).met(),
            "nothing measured is nothing kept"
        );
    }

    #[test]
    fn the_slowest_case_counts() {
        let case = |median: f64| json!({"summaries": {"worker_start": {"n": 9, "median": median, "min": 1e6, "max": 5e6}}});
        let results = json!({"experiments": [{"cases": [case(2e6), case(4e6), {"summaries": {}}]}]});
        let row = worst(&results, "worker_start", "start", MS, 3.0).unwrap();
        assert!((row.median - 4.0).abs() < 1e-9 && !row.met());
        assert!(worst(&results, "elapsed", "start", MS, 3.0).is_err());
    }
}
