//! What a worker process does from its order to its answer.

use std::io::{self, Read, Write};

use threadgauge_machine::{CpuList, pin_self};
use threadgauge_results::Sample;

use crate::experiment::Catalogue;
use crate::worker::{CaseError, Order, Worker};

/// Runs the order on `input` and writes the sample to `output`: all that a worker process does.
///
/// # Errors
///
/// When the order cannot be read or the answer not written; a case that fails is an answer.
pub fn serve(catalogue: Catalogue, input: impl Read, mut output: impl Write) -> Result<(), String> {
    // A command that is killed takes its worker along. One killed before this line leaves an empty order.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|e| format!("the parent's death cannot be heard of: {e}"))?;
    let order = io::read_to_string(input).map_err(|e| format!("the order cannot be read: {e}"))?;
    let order: Order = serde_json::from_str(&order).map_err(|e| {
        format!("the order is not one ({e}); a worker is started by `threadgauge run`, not by hand")
    })?;
    let sample = obey(catalogue, &order);
    let answer = serde_json::to_vec(&sample).map_err(|e| format!("the sample is not JSON: {e}"))?;
    output
        .write_all(&answer)
        .and_then(|()| output.flush())
        .map_err(|e| format!("the sample cannot be written: {e}"))
}

fn obey(catalogue: Catalogue, order: &Order) -> Sample {
    let mut worker = Worker::new(order);
    let result = pin_self(&CpuList::new(order.cpus.iter().copied()))
        .map_err(|e| CaseError::failed("pinning the worker", e))
        .and_then(|()| {
            let id = &order.experiment;
            let unknown = || CaseError::Failed(format!("there is no experiment {id} in this version"));
            let experiment = catalogue.get(id).ok_or_else(unknown)?;
            (experiment.run)(&order.params, &mut worker)
        });
    worker.finish(result)
}
