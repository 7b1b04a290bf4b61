//! Advising: how many, and which design, for a workload that is told.
//!
//! What is advised is `crates/advise`'s. Here is what the user says, what is asked for where it is missing, and where
//! costs and the machine come from.

mod like;
mod measure;
mod missing;
pub mod options;

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::Serialize;
use serde_json::Value;
use threadgauge_advise::curve::chart;
use threadgauge_advise::predict::{Drawn, Effort, predict};
use threadgauge_advise::quantity::{Bytes, Count};
use threadgauge_advise::workload::Coming;
use threadgauge_advise::{Advice, Basis, Machine, Workload, Wrong, advise as arithmetic, text};
use threadgauge_machine::fingerprint;
use threadgauge_report::chart_svg;
use threadgauge_results::units;

use crate::commands::advise::measure::Measured;
use crate::commands::advise::options::{AdviseOptions, WorkloadOptions};
use crate::earlier;
use crate::output::{Done, Verdict, print_json, print_words, say, shown};

/// Advises, and prints it.
pub fn advise(options: &AdviseOptions) -> Done {
    let mut said = options.workload;
    if let Some(file) = &options.file {
        said = said.or(WorkloadOptions::read(file)?);
    }
    if let Some(pid) = options.like {
        said = said.or(like::like(pid, &said)?);
    }
    let workload = workload(said)?;
    let here = serde_json::to_value(fingerprint())?;
    let mut basis = match &options.from {
        Some(run) => Basis::read(run, None).context("--from")?,
        None => newest(&here),
    };
    if options.measure && options.from.is_none() {
        let (found, verdict) = missing::measured(&basis, options.rounds)?;
        if verdict != Verdict::Done {
            return Ok(verdict);
        }
        if let Some(found) = found {
            basis = found.completed_by(basis);
        }
    }
    let machine = machine(
        options,
        basis
            .machine
            .as_ref()
            .filter(|_| options.from.is_some())
            .unwrap_or(&here),
    )?;
    let advice = arithmetic(&workload, &machine, &basis, options.program.as_deref());
    if let Some(file) = &options.chart {
        draw(file, &advice, &basis)?;
    }
    let (measured, verdict) = match options.measure {
        true => measured(options, &advice, &machine, &basis)?,
        false => (None, Verdict::Done),
    };
    if options.json {
        print_json(&Said {
            advice: &advice,
            measured: measured.as_ref(),
        })?;
    } else {
        let measured = measured.as_ref().map(measure::text).unwrap_or_default();
        print_words(&(measured + &text(&advice)))?;
    }
    Ok(verdict)
}

/// Draws the advice among all numbers at once.
fn draw(file: &Path, advice: &Advice, basis: &Basis) -> Result<()> {
    let is_svg = file.extension().is_some_and(|of| of.eq_ignore_ascii_case("svg"));
    ensure!(
        is_svg,
        "--chart {}: the chart is SVG; give it such a name, as advice.svg",
        shown(file)
    );
    let chart = chart(advice, basis).context(
        "--chart: of clients that stay connected there is no number at once to draw; leave --chart away",
    )?;
    fs::write(
        file,
        chart_svg(&chart, &format!("threadgauge advise. {}.", advice.costs)),
    )
    .with_context(|| format!("cannot write {}", shown(file)))?;
    say(&format!("The chart is in {}", shown(file)));
    Ok(())
}

/// All that is said, as JSON.
#[derive(Serialize)]
struct Said<'a> {
    #[serde(flatten)]
    advice: &'a Advice,
    measured: Option<&'a Measured>,
}

/// What a twin of the workload does here.
fn measured(
    options: &AdviseOptions,
    advice: &Advice,
    machine: &Machine,
    basis: &Basis,
) -> Result<(Option<Measured>, Verdict)> {
    let here = machine_of(&serde_json::to_value(fingerprint())?, None)?;
    measure::check(&advice.workload, machine, &here)?;
    let asked = measure::Asked {
        rounds: options.rounds,
        out: options.out.clone(),
        degrees: options.degrees.clone(),
    };
    let predicted = |workload: &Workload, candidate| {
        let tasks = match workload.coming {
            Coming::Batch(tasks) => tasks,
            Coming::Rate(_) => measure::tasks(workload),
        };
        let drawn = Drawn::new(workload, Effort { tasks, seeds: 1 });
        let prediction = predict(candidate, workload, machine, &basis.costs, &drawn);
        let figure = match workload.coming {
            Coming::Batch(_) => prediction.elapsed_s?,
            Coming::Rate(_) => prediction.mean_s?,
        };
        Some([figure.low, figure.value, figure.high])
    };
    let (mut measured, verdict) = measure::measure(advice, machine, &asked, &predicted)?;
    if let Some(measured) = &mut measured {
        measured.set_against(advice.advised.as_ref().map(|advised| advised.says.as_str()));
    }
    Ok((measured, verdict))
}

/// The workload. What is missing is asked for, where somebody is there to answer.
fn workload(mut said: WorkloadOptions) -> Result<Workload> {
    loop {
        match Workload::of(&said.description()) {
            Ok(workload) => return Ok(workload),
            Err(Wrong::Missing {
                question, example, ..
            }) if is_answered() => {
                let words = ask(&format!("{question}\nFor example {example}: "))?;
                match WorkloadOptions::of_words(&words) {
                    Ok(more) => said = more.or(said),
                    Err(error) => say(&error.to_string()),
                }
            }
            Err(wrong) => return Err(wrong.into()),
        }
    }
}

fn is_answered() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The words of an answer.
fn ask(question: &str) -> Result<Vec<String>> {
    let _ = write!(io::stderr(), "{question}");
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    let words = shlex::split(&line).unwrap_or_default();
    ensure!(read > 0 && !words.is_empty(), "there was no answer");
    Ok(words)
}

/// Costs of the newest run of this machine as it is, and of what it lacks those of the run before; else the shipped
/// ones, with the reason.
fn newest(here: &Value) -> Basis {
    let mut refused = None;
    let mut newest: Option<Basis> = None;
    for folder in earlier::newest() {
        match Basis::read(&folder, Some(here)) {
            // What `load` and `observe` leave has none of them.
            Ok(basis) if basis.costs.has_measured() => {
                newest = Some(match newest {
                    Some(newer) => newer.completed_by(basis),
                    None => basis,
                });
            }
            Ok(_) => {}
            Err(error) => {
                refused.get_or_insert(error.to_string());
            }
        }
        if newest
            .as_ref()
            .is_some_and(|basis| basis.costs.lacking().is_empty())
        {
            break;
        }
    }
    if let Some(newest) = newest {
        return newest;
    }
    let measure = "`threadgauge` measures it in four minutes";
    let why = match refused {
        Some(why) => format!(
            "No run here tells what this machine costs ({measure}): {}",
            why.trim_end_matches('.')
        ),
        None => format!("No run of this machine is here ({measure})"),
    };
    Basis::shipped(&why)
}

/// The machine that it is for: what the user says, else that of this fingerprint.
fn machine(options: &AdviseOptions, fingerprint: &Value) -> Result<Machine> {
    let found = machine_of(fingerprint, options.cpu_count.map(|Count(cpus)| cpus as f64))?;
    if let Some(quota) = options.quota {
        ensure!(
            quota.is_finite() && quota > 0.0,
            "--quota {quota}: a quota is above nothing, as in --quota 1.5"
        );
        ensure!(
            quota <= found.cpus,
            "--quota {quota}: no more than {} can be used; say --cpu-count, or no --quota",
            units::counted(found.cpus as usize, "CPU")
        );
    }
    let memory_bytes = options
        .memory_limit
        .map(|Bytes(bytes)| bytes)
        .or(found.memory_bytes);
    ensure!(
        memory_bytes != Some(0.0),
        "--memory-limit 0: nothing fits; as in --memory-limit 2GiB"
    );
    Ok(Machine {
        quota: options.quota.or(found.quota),
        memory_bytes,
        ..found
    })
}

/// That of a fingerprint; another number of CPUs is another machine, of whose quota and memory nothing is known.
fn machine_of(fingerprint: &Value, other_cpus: Option<f64>) -> Result<Machine> {
    let number = |pointer: &str| fingerprint.pointer(pointer).and_then(Value::as_f64);
    if let Some(cpus) = other_cpus {
        return Ok(Machine {
            cpus,
            quota: None,
            memory_bytes: None,
        });
    }
    let allowed = || {
        let list = fingerprint.get("allowed_cpus").and_then(Value::as_str)?;
        let list: threadgauge_machine::CpuList = list.parse().ok()?;
        Some(list.len() as f64)
    };
    let cpus = allowed().or_else(|| number("/cpus"));
    let memory_kib = number("/cgroup/memory_limit_kib").or_else(|| number("/memory_total_kib"));
    Ok(Machine {
        cpus: cpus
            .ok_or_else(|| anyhow!("how many CPUs there are cannot be found out; say --cpu-count 8"))?,
        quota: number("/cgroup/quota_cpus"),
        memory_bytes: memory_kib.map(|kib| kib * 1024.0),
    })
}
