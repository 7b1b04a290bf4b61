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
use threadgauge_advise::choose::Goal;
use threadgauge_advise::curve::chart;
use threadgauge_advise::predict::{Drawn, Effort, predict};
use threadgauge_advise::quantity::{Bytes, Count};
use threadgauge_advise::workload::Coming;
use threadgauge_advise::{Advice, Basis, Machine, Workload, Wrong, advise as arithmetic, text};
use threadgauge_machine::fingerprint;
use threadgauge_report::chart_svg;
use threadgauge_results::units;

use crate::commands::advise::like::Observed;
use crate::commands::advise::measure::Measured;
use crate::commands::advise::options::{AdviseOptions, MachineOptions, Question, WorkloadOptions};
use crate::earlier;
use crate::output::{Done, Verdict, print_json, print_words, say, shown};

/// Advises, and prints it.
pub fn advise(options: &AdviseOptions) -> Done {
    let (question, observed, observing) = question(options)?;
    if observing != Verdict::Done && observed.is_none() {
        return Ok(observing);
    }
    // Who has interrupted observing does not wait for a twin.
    let measures = options.measure && observing == Verdict::Done;
    let mut workload = workload(question.workload)?;
    if let Some(Observed { task, .. }) = &observed {
        workload.uncertain = Some(task.uncertain);
        workload.assumed.extend_from_slice(&task.assumed);
    }
    let here = serde_json::to_value(fingerprint())?;
    let mut basis = match &options.from {
        Some(run) => Basis::read(run, None).context("--from")?,
        None => newest(&here),
    };
    if measures && options.from.is_none() {
        let (found, verdict) = missing::measured(&basis, options.rounds)?;
        if verdict != Verdict::Done {
            return Ok(verdict);
        }
        if let Some(found) = found {
            basis = found.completed_by(basis);
        }
    }
    let of_run = basis.machine.as_ref().filter(|_| options.from.is_some());
    // Who names another machine asks for that.
    let process = observed.filter(|_| of_run.is_none() && question.machine.cpu_count.is_none());
    if let Some(process) = &process {
        workload.assumed.extend(process.may_use(&question.machine));
    }
    let machine = machine(&question.machine, || match &process {
        Some(process) => Ok(machine_for(process, &here)),
        None => machine_of(of_run.unwrap_or(&here)),
    })?;
    let advice = arithmetic(&workload, &machine, &basis, question.program.as_deref());
    if let Some(file) = &options.chart {
        draw(file, &advice, &basis)?;
    }
    let (measured, verdict) = match measures {
        true => measured(options, &advice, &machine, &basis)?,
        false => (None, observing),
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

/// What is asked: on the command line, in a file, and by a process that is observed; and how observing it ended.
fn question(options: &AdviseOptions) -> Result<(Question, Option<Observed>, Verdict)> {
    let mut question = options.question.clone();
    if let Some(file) = &options.file {
        question = question.or(Question::read(file)?);
    }
    let Some(pid) = options.like else {
        return Ok((question, None, Verdict::Done));
    };
    let (observed, verdict) = like::like(pid, &question.workload)?;
    if let Some(Observed { task, .. }) = &observed {
        question.workload = question.workload.or(task.workload);
    }
    Ok((question, observed, verdict))
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
    let here = machine_of(&serde_json::to_value(fingerprint())?)?;
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
        // The twin is sure of its own tasks.
        let known = workload.known(1.0, 1.0);
        let prediction = predict(candidate, &known, machine, &basis.costs, &drawn);
        let figure = match Goal::of(workload) {
            Goal::Elapsed => prediction.elapsed_s?,
            Goal::Completion | Goal::Response => prediction.mean_s?,
            Goal::InTime => prediction.p99_s?,
        };
        Some([figure.low, figure.value, figure.high])
    };
    let (mut measured, verdict) = measure::measure(advice, machine, &asked, &predicted)?;
    if let Some(measured) = &mut measured {
        measured.set_against(advice.advised.as_ref().map(|advised| advised.says.as_str()));
    }
    Ok((measured, verdict))
}

/// The workload. What is missing is asked for where somebody is there to answer, until there is an answer of use.
fn workload(mut said: WorkloadOptions) -> Result<Workload> {
    loop {
        match Workload::of(&said.description()) {
            Ok(workload) => return Ok(workload),
            Err(Wrong::Missing {
                field,
                question,
                example,
            }) if is_answered() => {
                let words = ask(&format!("{question}\nFor example {example}: "))?;
                match with_answer(said, field, &words) {
                    Ok(more) => said = more,
                    Err(why) => say(&format!("{why:#}")),
                }
            }
            Err(wrong) => return Err(wrong.into()),
        }
    }
}

/// What is said, with an answer to the question for `field`.
///
/// # Errors
///
/// If the answer cannot be read, is absurd, or contradicts what was said before.
fn with_answer(said: WorkloadOptions, field: &str, words: &[String]) -> Result<WorkloadOptions> {
    let more = WorkloadOptions::of_answer(field, words)?.or(said);
    match Workload::of(&more.description()) {
        Err(wrong @ Wrong::Absurd { .. }) => Err(wrong.into()),
        Ok(_) | Err(Wrong::Missing { .. }) => Ok(more),
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
            Ok(basis) if basis.is_disturbed => {
                refused.get_or_insert("what was measured here was disturbed by other programs".to_owned());
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

/// Linux runs on no more CPUs: the most that its `NR_CPUS` can be.
const MOST_CPUS: usize = 8_192;
/// The kernel grants no smaller quota: 1 ms of each 100 ms.
const LEAST_QUOTA: f64 = 0.01;

/// The machine that it is for: what the user says, else what is found. Another number of CPUs is another machine, of
/// whose quota and memory nothing is known.
fn machine(said: &MachineOptions, found: impl FnOnce() -> Result<Machine>) -> Result<Machine> {
    let found = match said.cpu_count {
        None => found()?,
        Some(Count(cpus)) => {
            ensure!(
                cpus <= MOST_CPUS,
                "--cpu-count {cpus}: Linux runs on {} at most; say for example --cpu-count 96",
                units::counted(MOST_CPUS, "CPU")
            );
            Machine {
                cpus: cpus as f64,
                quota: None,
                memory_bytes: None,
            }
        }
    };
    if let Some(quota) = said.quota {
        ensure!(
            quota >= LEAST_QUOTA,
            "--quota {quota}: the kernel grants no less than {LEAST_QUOTA}, 1 ms of each 100 ms; say for example \
             --quota 1.5"
        );
        ensure!(
            quota <= found.cpus,
            "--quota {quota}: no more than {} can be used; say --cpu-count, or no --quota",
            units::counted(found.cpus as usize, "CPU")
        );
    }
    let memory_bytes = said.memory_limit.map(|Bytes(bytes)| bytes);
    let memory_bytes = memory_bytes.or(found.memory_bytes);
    ensure!(
        memory_bytes != Some(0.0),
        "--memory-limit 0: nothing fits; as in --memory-limit 2GiB"
    );
    Ok(Machine {
        quota: said.quota.or(found.quota),
        memory_bytes,
        ..found
    })
}

/// This one, of which `here` is the fingerprint, as a process may use it.
fn machine_for(process: &Observed, here: &Value) -> Machine {
    Machine {
        cpus: process.capacity.allowed,
        quota: process.capacity.quota,
        memory_bytes: memory_bytes(process.memory_limit_kib.map(|kib| kib as f64), here),
    }
}

/// That of a fingerprint.
fn machine_of(fingerprint: &Value) -> Result<Machine> {
    let number = |pointer: &str| fingerprint.pointer(pointer).and_then(Value::as_f64);
    let allowed = || {
        let list = fingerprint.get("allowed_cpus").and_then(Value::as_str)?;
        let list: threadgauge_machine::CpuList = list.parse().ok()?;
        Some(list.len() as f64)
    };
    let cpus = allowed().or_else(|| number("/cpus"));
    Ok(Machine {
        cpus: cpus
            .ok_or_else(|| anyhow!("how many CPUs there are cannot be found out; say --cpu-count 8"))?,
        quota: number("/cgroup/quota_cpus"),
        memory_bytes: memory_bytes(number("/cgroup/memory_limit_kib"), fingerprint),
    })
}

/// The memory that may be used: by the limit, else all that the machine of this fingerprint has.
fn memory_bytes(limit_kib: Option<f64>, fingerprint: &Value) -> Option<f64> {
    let total_kib = || fingerprint.get("memory_total_kib").and_then(Value::as_f64);
    limit_kib.or_else(total_kib).map(|kib| kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use threadgauge_advise::quantity::Rate;

    use super::*;

    /// What is said after an answer to what is missing first.
    fn answered(said: WorkloadOptions, answer: &str) -> Result<WorkloadOptions> {
        let words: Vec<String> = answer.split(' ').map(str::to_owned).collect();
        match Workload::of(&said.description()) {
            Err(Wrong::Missing { field, .. }) => with_answer(said, field, &words),
            other => panic!("nothing is missing: {other:?}"),
        }
    }

    #[test]
    fn values_alone_answer_the_question_that_is_asked() {
        let nothing = WorkloadOptions::default();
        let by_rate = answered(nothing, "1000/h").unwrap();
        assert_eq!(by_rate.rate, "1000/h".parse::<Rate>().ok());
        let tasks = answered(nothing, "500").unwrap();
        assert_eq!(tasks.tasks, Some(Count(500)));
        let both = answered(tasks, "200ms 30ms").unwrap().description();
        assert_eq!((both.cpu_s, both.wait_s), (Some(0.2), Some(0.03)));
        let by_name = answered(tasks, "--cpu 200ms --wait 30ms").unwrap();
        assert_eq!(by_name.description(), both);
    }

    #[test]
    fn an_answer_that_is_wrong_or_contradicts_says_why() {
        let nothing = WorkloadOptions::default();
        let refused = |said, answer| format!("{:#}", answered(said, answer).unwrap_err());
        assert!(refused(nothing, "many").contains("--tasks"));
        assert!(refused(nothing, "500 5/s").contains("contradict"));
        let tasks = answered(nothing, "500").unwrap();
        assert!(refused(tasks, "200").contains("`200` of what?"));
        assert!(refused(tasks, "0").contains("neither computes nor waits"));
        assert!(refused(tasks, "1ms --fan-out 3").contains("--fan-out"));
    }

    #[test]
    fn a_machine_that_the_kernel_cannot_have_is_refused() {
        let here = json!({"cpus": 4});
        let of = |quota, cpu_count: Option<usize>| {
            let said = MachineOptions {
                quota,
                cpu_count: cpu_count.map(Count),
                ..MachineOptions::default()
            };
            machine(&said, || machine_of(&here)).map_err(|error| error.to_string())
        };
        assert_eq!(of(Some(0.01), None).unwrap().quota, Some(0.01));
        assert_eq!(of(None, Some(8_192)).unwrap().cpus, 8_192.0);
        for quota in [0.0, -1.0, 0.009, f64::NAN] {
            let refused = of(Some(quota), None).unwrap_err();
            assert!(refused.contains("no less than 0.01"), "{refused}");
        }
        assert!(of(Some(f64::INFINITY), None).unwrap_err().contains("4 CPUs"));
        assert!(of(None, Some(8_193)).unwrap_err().contains("8192 CPUs at most"));
    }

    #[test]
    fn a_limit_on_memory_is_what_may_be_used_else_all_of_the_machine() {
        let mut here = json!({"cpus": 4, "memory_total_kib": 8});
        let of = |here: &Value| machine_of(here).unwrap().memory_bytes;
        assert_eq!(of(&json!({"cpus": 4})), None);
        assert_eq!(of(&here), Some(8_192.0));
        here["cgroup"] = json!({"memory_limit_kib": 2});
        assert_eq!(of(&here), Some(2_048.0));
        // That of another process is its own.
        assert_eq!(memory_bytes(Some(1.0), &here), Some(1_024.0));
        assert_eq!(memory_bytes(None, &here), Some(8_192.0));
    }

    #[test]
    fn who_names_cpus_or_a_quota_asks_for_another_machine_than_the_one_found() {
        let found = Machine {
            cpus: 4.0,
            quota: Some(1.5),
            memory_bytes: Some(1e9),
        };
        let of = |cpu_count: Option<usize>, quota| {
            let said = MachineOptions {
                cpu_count: cpu_count.map(Count),
                quota,
                memory_limit: None,
            };
            machine(&said, || Ok(found)).unwrap()
        };
        assert_eq!(of(None, None), found);
        let by_quota = Machine {
            quota: Some(3.0),
            ..found
        };
        assert_eq!(of(None, Some(3.0)), by_quota);
        let other = Machine {
            cpus: 8.0,
            quota: None,
            memory_bytes: None,
        };
        assert_eq!(of(Some(8), None), other);
    }
}
