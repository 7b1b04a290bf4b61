//! `cargo xtask pairs`: the harness's self test on this machine, by pairs of runs.
//!
//! Two runs of the same program on the same machine must be called the same (does it cry wolf?), and
//! with a hidden handicap in one they must be called slower (does it see anything?). The two take turns,
//! try by try, so that a drift of the machine does not pass for a difference. With `--apart` they run one after the
//! other: how far does the machine's level move, and what is left when it is taken off?

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use threadgauge_stats::median;

use crate::shell;

/// The largest median share of cases that may be called faster or slower where nothing changed.
const FALSE_ALARMS: f64 = 0.05;
/// The least median share of affected cases that must be called slower under a handicap.
const FOUND: f64 = 0.80;

/// How many, and of what.
#[derive(Args)]
pub struct Options {
    /// How many pairs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Hide this much extra work, in per cent, in one run of each pair
    #[arg(long, default_value_t = 0, value_name = "PERCENT")]
    handicap: u32,
    /// How much each run measures
    #[arg(long, default_value = "quick", value_parser = ["quick", "standard", "paper"])]
    profile: String,
    /// Rounds of each run. A quick run takes 7 to 14, which find 15 % in two cases of three
    #[arg(long, default_value_t = 15, value_name = "N", value_parser = clap::value_parser!(u32).range(6..))]
    rounds: u32,
    /// One run after the other rather than in turns. A handicap is in all cases, so only turns can show it
    #[arg(long, conflicts_with = "handicap")]
    apart: bool,
    /// Run only these experiments; all without it
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Where the runs go; a new folder under target/pairs without it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the pairs, prints a table, fails beyond the limits.
pub fn run(options: &Options) -> Result<()> {
    let threadgauge = shell::build(shell::Profile::Release)?;
    let out = match &options.out {
        Some(out) => out.clone(),
        None => default_out()?,
    };
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;

    println!(
        "| pair | cases | faster | slower | same | small | unknown | all cases together | luck of a case |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut counts = Vec::new();
    for pair in 1..=options.pairs {
        let (a, b) = (out.join(format!("{pair}a")), out.join(format!("{pair}b")));
        let turns = (!options.apart).then(|| out.join(format!("{pair}.turns")));
        let start =
            |folder: &Path, handicap| start(&threadgauge, folder, turns.as_deref(), options, handicap);
        if options.apart {
            ended([(&a, start(&a, 0)?)])?;
            ended([(&b, start(&b, 0)?)])?;
        } else {
            ended([(&a, start(&a, 0)?), (&b, start(&b, options.handicap)?)])?;
        }
        let comparison = shell::output(
            shell::command_at(&threadgauge)
                .arg("compare")
                .arg(&a)
                .arg(&b)
                .arg("--json"),
        )?;
        let comparison = serde_json::from_str(&comparison).context("compare --json printed no JSON")?;
        let count = Counts::of(&comparison)?;
        println!("| {pair} | {} | {} |", count.cells(), level(&comparison));
        counts.push(count);
    }
    eprintln!("the runs are kept in {}", out.display());
    judge(&counts, options.handicap)
}

/// What the two runs have in common, and how much a case's luck adds: only of runs that took no turns.
fn level(comparison: &Value) -> String {
    let of = |name: &str| comparison["level"][name].as_f64();
    let text = |value: Option<f64>, text: fn(f64) -> String| value.map_or_else(|| "–".to_owned(), text);
    let ratio = text(of("ratio"), |ratio| format!("{ratio:.3}"));
    let spread = text(of("spread"), |spread| format!("{:.1} %", 100.0 * spread));
    format!("{ratio} | {spread}")
}

fn judge(counts: &[Counts], handicap: u32) -> Result<()> {
    let median_share = |part: fn(&Counts) -> usize| {
        let shares: Vec<f64> = counts.iter().map(|c| part(c) as f64 / c.cases() as f64).collect();
        median(&shares).expect("there is a pair, and each has a case")
    };
    println!();
    println!(
        "- unknown, median share: {:.1} %",
        100.0 * median_share(|c| c.unknown)
    );
    if handicap == 0 {
        let share = median_share(|c| c.faster + c.slower);
        println!("- called faster or slower, median share: {:.1} %", 100.0 * share);
        ensure!(
            share <= FALSE_ALARMS,
            "nothing changed, and over {:.0} % were called faster or slower",
            100.0 * FALSE_ALARMS
        );
    } else {
        let share = median_share(|c| c.slower);
        println!(
            "- called slower with {handicap} % more work, median share: {:.1} %",
            100.0 * share
        );
        ensure!(
            share >= FOUND,
            "{handicap} % more work was found in under {:.0} % of the cases",
            100.0 * FOUND
        );
    }
    Ok(())
}

fn default_out() -> Result<PathBuf> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock stands before 1970")?;
    Ok(PathBuf::from("target/pairs").join(now.as_secs().to_string()))
}

/// Starts one of the two runs. What it says goes into a file beside its folder.
fn start(
    threadgauge: &Path,
    out: &Path,
    turns: Option<&Path>,
    options: &Options,
    handicap: u32,
) -> Result<Started> {
    let log = log(out);
    let mut run = shell::command_at(threadgauge);
    run.arg("run")
        .args(&options.experiments)
        .args(["--profile", &options.profile, "--handicap", &handicap.to_string()])
        .args(["--rounds", &options.rounds.to_string()])
        .args(
            turns
                .map(|path| [Path::new("--turns"), path])
                .into_iter()
                .flatten(),
        )
        .arg("--out")
        .arg(out)
        .stdout(Stdio::null())
        .stderr(File::create(&log).with_context(|| format!("cannot write {}", log.display()))?);
    let started = run.spawn();
    Ok(Started(started.with_context(|| {
        format!("cannot start {}", shell::line(&run))
    })?))
}

fn log(out: &Path) -> PathBuf {
    out.with_extension("log")
}

/// A run, which ends with whoever started it: by itself it would wait for the other.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until all have ended well, or one has not.
fn ended<const N: usize>(mut runs: [(&PathBuf, Started); N]) -> Result<()> {
    loop {
        let mut ended = 0;
        for (out, run) in &mut runs {
            let Some(status) = run.0.try_wait()? else {
                continue;
            };
            ensure!(
                status.success(),
                "a run ended with {status}; {} says why",
                log(out).display()
            );
            ended += 1;
        }
        if ended == runs.len() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(500));
    }
}

/// How the cases of one pair were called.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    faster: usize,
    slower: usize,
    same: usize,
    small: usize,
    unknown: usize,
}

/// Whether the case has figures in both runs and does timed work: starting a worker is timed from outside, so nothing
/// can be hidden in it.
fn is_affected(row: &Value) -> bool {
    let starts_a_worker = row["b"]
        .as_str()
        .is_some_and(|id| id.starts_with("null/what=start"));
    !row["ratio"].is_null() && !starts_a_worker
}

impl Counts {
    /// Counts the rows of `threadgauge compare --json`.
    fn of(comparison: &Value) -> Result<Self> {
        let rows = comparison["rows"]
            .as_array()
            .context("compare --json has no rows")?;
        let mut counts = Self::default();
        for row in rows.iter().filter(|row| is_affected(row)) {
            match row["verdict"].as_str() {
                Some("faster") => counts.faster += 1,
                Some("slower") => counts.slower += 1,
                Some("same") => counts.same += 1,
                Some("small") => counts.small += 1,
                Some("unknown") => counts.unknown += 1,
                other => bail!("a row of compare --json has the verdict {other:?}"),
            }
        }
        ensure!(counts.cases() > 0, "the two runs have no case in common");
        Ok(counts)
    }

    const fn cases(&self) -> usize {
        self.faster + self.slower + self.same + self.small + self.unknown
    }

    fn cells(&self) -> String {
        [
            self.cases(),
            self.faster,
            self.slower,
            self.same,
            self.small,
            self.unknown,
        ]
        .map(|n| n.to_string())
        .join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pair(changed: usize, unknown: usize, same: usize) -> Counts {
        Counts {
            slower: changed,
            unknown,
            same,
            ..Counts::default()
        }
    }

    #[test]
    fn rows_are_counted_by_verdict() {
        let comparison = json!({"rows": [
            {"b": "print/a", "ratio": 1.0, "verdict": "same"},
            {"b": "print/b", "ratio": 1.2, "verdict": "slower"},
            {"b": "print/c", "ratio": 1.0, "verdict": "same"},
            {"b": "print/d", "ratio": null, "verdict": "unknown"},
            {"b": "null/what=start,cpus=1", "ratio": 1.0, "verdict": "same"},
        ]});
        assert_eq!(Counts::of(&comparison).unwrap(), pair(1, 0, 2));
    }

    #[test]
    fn a_verdict_it_does_not_know_is_an_error() {
        assert!(
            Counts::of(&json!({"rows": [{"b": "print/a", "ratio": 1.0, "verdict": "quicker"}]})).is_err()
        );
        assert!(Counts::of(&json!({"rows": []})).is_err());
        assert!(Counts::of(&json!({})).is_err());
    }

    #[test]
    fn the_level_of_runs_apart_is_shown_and_turns_have_none() {
        let apart = json!({"level": {"ratio": 1.0412, "spread": 0.0213, "cases": 60}});
        assert_eq!(level(&apart), "1.041 | 2.1 %");
        assert_eq!(level(&json!({"level": null})), "– | –");
    }

    #[test]
    fn one_bad_pair_in_three_is_forgiven_and_two_are_not() {
        assert!(judge(&[pair(9, 0, 11), pair(1, 0, 19), pair(0, 0, 20)], 0).is_ok());
        assert!(judge(&[pair(9, 0, 11), pair(2, 0, 18), pair(0, 0, 20)], 0).is_err());
    }

    #[test]
    fn a_handicap_must_be_found() {
        assert!(judge(&[pair(16, 4, 0)], 15).is_ok());
        assert!(judge(&[pair(15, 5, 0)], 15).is_err());
    }
}
