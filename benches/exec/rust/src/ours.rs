//! `threadgauge-exec`, in each mode.

use std::num::NonZeroUsize;

use threadgauge_exec::{Carrier, ConcurrentExecution, Ended, Mode};

use crate::Call;
use crate::measure::Finisher;

fn with(call: Call) -> ConcurrentExecution {
    ConcurrentExecution::new(NonZeroUsize::new(call.degree).expect("a degree above 0"))
}

fn run(execution: &ConcurrentExecution, call: Call, finisher: &mut Finisher) {
    let report = execution.for_each(
        0..call.objects,
        |object| call.work.run(*object),
        |done| finisher.finish(done.result),
    );
    assert_eq!(report.ended, Ended::All);
}

/// The default.
pub fn prompt(call: Call, finisher: &mut Finisher) {
    run(&with(call), call, finisher);
}

/// The caller is a carrier.
pub fn throughput(call: Call, finisher: &mut Finisher) {
    run(&with(call).mode(Mode::Throughput), call, finisher);
}

/// The caller only finishes.
pub fn free_caller(call: Call, finisher: &mut Finisher) {
    run(&with(call).mode(Mode::FreeCaller), call, finisher);
}

/// A thread for each object.
pub fn thread_per_object(call: Call, finisher: &mut Finisher) {
    run(&with(call).carrier(Carrier::ThreadPerObject), call, finisher);
}
