//! `cargo run --release -p bench-exec`: `threadgauge-exec` beside other ways of bounded concurrent execution.
//!
//! Owns the order of things: build what can be built, run every cell once a round in an order shuffled anew, each run
//! a process of its own, and write down what came. What is compared is in [`peers`], on what in [`workload`]; the
//! summary is in [`table`]. The programs are in the folders beside this one, by language.
//!
//! All peers keep one contract: at most *k* processors at work, each result finished on the caller's thread, never more
//! objects out than the peer's name says. The ideal is the same burns on *k* pinned threads; it runs beside each burn,
//! since a virtual CPU changes its speed within seconds. A burn is a fixed number of multiplications in one chain, the
//! same in every compiled language; Python's is calibrated for itself. Of the cells that decide most (10 µs, a thread
//! an object) a round keeps the quicker of two runs: other programs only add time.
//!
//! Seven rounds take four minutes on two CPUs. On one CPU the figures mean something else.
#![forbid(unsafe_code)]
// It talks to the person who started it; there is no library below that would need silence.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod peers;
mod programs;
mod table;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bench_rig::shell::{self, progress};
use clap::Parser;
use serde_json::Value;
use threadgauge_machine::{Reading, noise_between};

use peers::{IDEAL, PEERS, Peer, Role};
use programs::Programs;
use workload::Workload;

/// Compare threadgauge-exec with other ways of bounded concurrent execution, in interleaved runs
#[derive(Parser)]
#[command(name = "bench-exec")]
struct Options {
    /// Rounds; each runs every cell once
    #[arg(long, default_value_t = 7, value_name = "N")]
    rounds: usize,
    /// Three rounds of a tenth of the objects: to see that everything runs, not to be believed
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Only peers whose name contains one of these
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Also this `exec-peers`, built from another commit (`benches/exec/rust`), in the same rounds
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Where exec.md and exec.json (every run) go
    #[arg(long, value_name = "DIR", default_value = "target/bench-exec")]
    out: PathBuf,
}

/// What one run said of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    elapsed_ns: f64,
    cpu_ns: f64,
    peak_rss_kib: f64,
    /// Median, 99th percentile, maximum; of workloads that are not empty.
    wait_ns: Option<[f64; 3]>,
    /// What the ideal took beside it, in ns an object; of burns.
    ideal_ns: Option<f64>,
}

/// Samples by round; a round in which the run failed has none.
type Cell = Vec<Option<Sample>>;

/// Everything measured: by workload and peer.
#[derive(Default)]
struct Measured {
    rounds: usize,
    cells: BTreeMap<(&'static str, &'static str), Cell>,
    objects: BTreeMap<(&'static str, &'static str), u64>,
    /// Peak memory in KiB at some empty objects and at ten times as many.
    memory: BTreeMap<&'static str, [f64; 2]>,
    /// By round: the share of all CPUs that others had.
    foreign: Vec<f64>,
    /// Programs that are not here, and why; runs that failed.
    remarks: Vec<String>,
}

/// Measures, prints the tables, writes the files.
fn main() -> Result<()> {
    let options = Options::parse();
    std::env::set_current_dir(shell::root()?)?;
    let (rounds, share) = if options.quick {
        (3, 10)
    } else {
        (options.rounds, 1)
    };
    ensure!(rounds > 0, "no round measures nothing: use --rounds 7");
    let chosen: Vec<&Peer> = PEERS
        .iter()
        .filter(|peer| peer.role != Role::Before || options.before.is_some())
        .filter(|peer| is_chosen(peer, &options.only))
        .collect();
    ensure!(
        !chosen.is_empty(),
        "no peer's name contains any of {:?}; there are: {}",
        options.only,
        PEERS.iter().map(|peer| peer.name).collect::<Vec<_>>().join(", ")
    );
    let before = options.before.as_deref().map(shell::given).transpose()?;
    let programs = Programs::build(chosen.iter().map(|peer| peer.program), before.as_deref())?;
    let mut measured = Measured {
        rounds,
        remarks: programs.remarks.clone(),
        ..Measured::default()
    };
    let chosen: Vec<&Peer> = chosen
        .into_iter()
        .filter(|peer| programs.has(peer.program))
        .collect();

    let cells: Vec<(&Workload, &Peer)> = workload::ALL
        .iter()
        .flat_map(|workload| chosen.iter().map(move |peer| (workload, *peer)))
        .filter(|(workload, peer)| peer.runs(workload))
        .collect();
    let mut rng = fastrand::Rng::with_seed(0x5EED);
    for round in 0..rounds {
        let mut order = cells.clone();
        rng.shuffle(&mut order);
        let before = Reading::take();
        for (i, (workload, peer)) in order.into_iter().enumerate() {
            progress(&format!(
                "round {} of {rounds}: {} of {}",
                round + 1,
                i + 1,
                cells.len()
            ));
            let objects = (peer.objects(workload) / share).max(workload.degree);
            let sample = measured.sample(&programs, peer, workload, objects);
            let key = (workload.id, peer.name);
            measured.objects.insert(key, objects);
            measured.cells.entry(key).or_default().push(sample);
        }
        if let (Ok(before), Ok(after)) = (before, Reading::take()) {
            measured
                .foreign
                .push(noise_between(&before, &after, None).foreign_cpus);
        }
    }
    for peer in &chosen {
        if !peer.runs(&workload::EMPTY_2) {
            continue;
        }
        progress(&format!("memory of {}", peer.name));
        let few = (peer.objects(&workload::EMPTY_2) / share / 4).max(workload::EMPTY_2.degree);
        let kib = |objects| {
            measured_once(&programs, peer, &workload::EMPTY_2, objects).map(|sample| sample.peak_rss_kib)
        };
        if let (Ok(few), Ok(many)) = (kib(few), kib(10 * few)) {
            measured.memory.insert(peer.name, [few, many]);
        }
    }
    progress("");

    let text = table::markdown(&measured, &chosen);
    fs::create_dir_all(&options.out).with_context(|| format!("cannot make {}", options.out.display()))?;
    let write = |name: &str, content: &str| {
        let file = options.out.join(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    };
    write("exec.md", &text)?;
    write("exec.json", &measured.json())?;
    println!("{text}");
    eprintln!("written: exec.md and exec.json in {}", options.out.display());
    Ok(())
}

fn is_chosen(peer: &Peer, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|word| peer.name.contains(word.as_str()))
}

impl Measured {
    /// What a round has of a cell: of its tries the one that took least, and the least of the ideals that ran beside
    /// them. A failure becomes a remark.
    fn sample(
        &mut self,
        programs: &Programs,
        peer: &Peer,
        workload: &Workload,
        objects: u64,
    ) -> Option<Sample> {
        let mut least: Option<Sample> = None;
        let mut ideal_ns: Option<f64> = None;
        for _ in 0..workload.tries {
            let tried = measured_once(programs, peer, workload, objects).and_then(|sample| {
                if workload.burn_ns > 0.0 {
                    let objects = IDEAL.objects(workload);
                    let ideal = measured_once(programs, &IDEAL, workload, objects)?;
                    let ns = ideal.elapsed_ns / objects as f64;
                    ideal_ns = Some(ideal_ns.map_or(ns, |least| least.min(ns)));
                }
                Ok(sample)
            });
            match tried {
                Ok(sample) if least.is_some_and(|least| least.elapsed_ns <= sample.elapsed_ns) => {}
                Ok(sample) => least = Some(sample),
                Err(error) => self
                    .remarks
                    .push(format!("{} on {}: {error:#}", peer.name, workload.name)),
            }
        }
        least.map(|sample| Sample { ideal_ns, ..sample })
    }

    fn json(&self) -> String {
        let runs: Vec<Value> = self
            .cells
            .iter()
            .map(|(key, samples)| {
                let samples: Vec<Value> = samples.iter().map(|sample| sample.map_or(Value::Null, Sample::json)).collect();
                serde_json::json!({"workload": key.0, "peer": key.1, "objects": self.objects[key], "samples": samples})
            })
            .collect();
        let document = serde_json::json!({
            "rounds": self.rounds, "foreign_cpu_share": self.foreign, "runs": runs, "memory_kib": self.memory, "remarks": self.remarks
        });
        format!("{document:#}\n")
    }
}

fn measured_once(programs: &Programs, peer: &Peer, workload: &Workload, objects: u64) -> Result<Sample> {
    let mut command = programs.command(peer.program)?;
    command.args([
        peer.asked_for,
        &workload.degree.to_string(),
        &objects.to_string(),
        &programs.iterations(peer.program, workload.burn_ns).to_string(),
        &workload.sleep_us.to_string(),
    ]);
    Sample::parse(&shell::output(&mut command)?)
}

impl Sample {
    fn parse(line: &str) -> Result<Self> {
        let line: Value = serde_json::from_str(line).with_context(|| format!("the peer printed {line:?}"))?;
        let figure = |name: &str| {
            line[name]
                .as_f64()
                .with_context(|| format!("the peer's answer has no {name}"))
        };
        let wait_ns = match line.get("wait_p50_ns") {
            Some(_) => Some([
                figure("wait_p50_ns")?,
                figure("wait_p99_ns")?,
                figure("wait_max_ns")?,
            ]),
            None => None,
        };
        Ok(Self {
            elapsed_ns: figure("elapsed_ns")?,
            cpu_ns: figure("cpu_ns")?,
            peak_rss_kib: figure("peak_rss_kib")?,
            wait_ns,
            ideal_ns: None,
        })
    }

    fn json(self) -> Value {
        serde_json::json!({
            "elapsed_ns": self.elapsed_ns, "cpu_ns": self.cpu_ns, "peak_rss_kib": self.peak_rss_kib, "wait_ns": self.wait_ns, "ideal_ns": self.ideal_ns
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_with_and_without_waits() {
        let empty = Sample::parse(r#"{"elapsed_ns": 10, "cpu_ns": 20, "peak_rss_kib": 30}"#).unwrap();
        assert_eq!((empty.elapsed_ns, empty.wait_ns), (10.0, None));
        let burn = r#"{"elapsed_ns": 1, "cpu_ns": 2, "peak_rss_kib": 3, "wait_p50_ns": 4, "wait_p99_ns": 5, "wait_max_ns": 6}"#;
        assert_eq!(Sample::parse(burn).unwrap().wait_ns, Some([4.0, 5.0, 6.0]));
        assert!(Sample::parse("{}").is_err() && Sample::parse("no").is_err());
    }

    #[test]
    fn peers_are_chosen_by_part_of_their_name() {
        let chosen = |word: &str| -> Vec<&str> {
            PEERS
                .iter()
                .filter(|peer| is_chosen(peer, &[word.to_owned()]))
                .map(|peer| peer.name)
                .collect()
        };
        assert_eq!(chosen("kanal"), ["kanal-k", "kanal-1024"]);
    }
}
