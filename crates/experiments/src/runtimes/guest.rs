//! A worker has the guest of its case's runtime do the work: what is the same whatever the work is.

use std::process::{Command, Stdio};
use std::time::Duration;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_machine::clock;
use threadgauge_results::Runtime;

use super::talk::{Talk, TalkError};
use super::{Kind, Name, Unit};
use crate::guests::{Figures, Found};

/// How long a guest may take of the deadline that its worker has: it is to say itself why there is no figure.
const OF_DEADLINE: f64 = 0.9;

/// The runtime that the worker was given.
///
/// # Errors
///
/// Failed where it was given none: its run was not begun with one.
pub fn given(params: &Params, worker: &Worker) -> Result<Runtime, CaseError> {
    worker.runtime().cloned().ok_or_else(|| {
        let name = params.text("runtime").unwrap_or_default();
        let says = format!("there is no guest for it: begin again with --runtime {name}");
        CaseError::Failed(says)
    })
}

/// The worker's runtime with its kind, and the unit of this name.
///
/// # Errors
///
/// Skipped where the runtime is lacking, or too old for the unit; failed where it has no such unit, or the worker no
/// runtime: its run was not begun with one.
pub fn begin(
    params: &Params,
    unit: Name,
    worker: &mut Worker,
) -> Result<(Runtime, &'static Kind, &'static Unit), CaseError> {
    let runtime = given(params, worker)?;
    let kind = Kind::named(&runtime.kind).ok_or_else(|| {
        let says = format!("this version has no guest in {}", runtime.kind);
        CaseError::Failed(says)
    })?;
    let of_kind = kind.unit(unit.name()).ok_or_else(|| {
        let units: Vec<&str> = kind.units.iter().map(|unit| unit.name).collect();
        let wanted = format!("one of {} of {}", units.join(", "), kind.name);
        refused(params, "unit", &wanted)
    })?;
    if let Some(lack) = of_kind.lack(&runtime) {
        return Err(CaseError::Skipped(lack));
    }
    worker.tag(&format!("version-{}", runtime.version));
    Ok((runtime, kind, of_kind))
}

/// Starts the guest with these arguments.
///
/// # Errors
///
/// [`TalkError::NotStarted`].
pub fn start(runtime: &Runtime, arguments: &[&dyn ToString], deadline: Duration) -> Result<Talk, TalkError> {
    start_with(runtime, Stdio::piped(), arguments, deadline)
}

/// The same with this as its standard input.
fn start_with(
    runtime: &Runtime,
    input: Stdio,
    arguments: &[&dyn ToString],
    deadline: Duration,
) -> Result<Talk, TalkError> {
    let mut command = command(runtime, arguments)?;
    Talk::begin_with(&mut command, input, deadline.mul_f64(OF_DEADLINE))
}

/// What starts the guest with these arguments.
///
/// # Errors
///
/// [`TalkError::Said`]: it has no program.
pub fn command(runtime: &Runtime, arguments: &[&dyn ToString]) -> Result<Command, TalkError> {
    let (program, first) = runtime.command.split_first().ok_or_else(|| {
        let says = format!("the guest of {} has no program", runtime.name);
        TalkError::Said(says)
    })?;
    let mut command = Command::new(program);
    command.args(first);
    command.args(arguments.iter().map(|argument| argument.to_string()));
    Ok(command)
}

/// Starts the guest and reads its one line of figures. Blocks until it has ended.
///
/// # Errors
///
/// Skipped where its program is gone; failed where it told that something went wrong, or did not answer as it is to.
pub fn ask<F: Figures>(
    runtime: &Runtime,
    worker: &Worker,
    arguments: &[&dyn ToString],
    deadline: Duration,
) -> Result<Found<F>, CaseError> {
    ask_with(runtime, worker, Stdio::piped(), arguments, deadline)
}

/// The same with this as its standard input.
///
/// # Errors
///
/// Those of [`ask`].
pub fn ask_with<F: Figures>(
    runtime: &Runtime,
    worker: &Worker,
    input: Stdio,
    arguments: &[&dyn ToString],
    deadline: Duration,
) -> Result<Found<F>, CaseError> {
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let asked = start_with(runtime, input, arguments, deadline).and_then(|mut talk| {
        let figures = talk.told("done")?;
        talk.end()?;
        Ok(figures)
    });
    let figures = asked.map_err(TalkError::of_case)?;
    let ran_ns = clock::monotonic_ns() - begun_ns;
    let stretch = watch.stop().wall_ns as f64 / ran_ns.max(1) as f64;
    Ok(Found {
        figures,
        ran_ns,
        stretch,
    })
}

/// What tests of experiments with guests share: shell scripts that stand for guests.
#[cfg(test)]
pub mod testing {
    use threadgauge_lab::worker::Order;
    use threadgauge_results::Sample;

    use super::*;

    /// A runtime of this kind whose guest is a shell script; its arguments are `$1` and on.
    pub fn script(kind: &str, version: &str, script: &str) -> Runtime {
        Runtime {
            name: kind.to_owned(),
            kind: kind.to_owned(),
            version: version.to_owned(),
            program: "/bin/sh".to_owned(),
            command: ["/bin/sh", "-c", script, "guest"].map(str::to_owned).to_vec(),
            lack: None,
        }
    }

    /// A case of an experiment, run once in this process by this runtime.
    pub fn sample(experiment: &Experiment, params: &Params, runtime: Option<Runtime>) -> Sample {
        let mut worker = Worker::new(&Order {
            experiment: experiment.id.to_owned(),
            params: params.clone(),
            cpus: vec![0],
            handicap_percent: 0,
            launched_ns: 0,
            seed: 0,
            each: None,
            runtime,
        });
        let result = (experiment.run)(params, &mut worker);
        worker.finish(result)
    }
}
