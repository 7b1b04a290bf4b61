//! Every carrier behind one shape.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use threadgauge_exec::process::Processor;
use threadgauge_exec::{Carrier, ConcurrentExecution, Done, Ended, Mode, Report, Task, ThreadPool, Tried};

use crate::script::{Object, Output, perform, perform_async};

pub static PERFORM: Processor<Object, Result<Output, String>> =
    Processor::new("perform", |object| perform(&object));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Pool(Mode),
    ThreadPerObject,
    UpFront,
    Shared,
    SharedOfOne,
    Processes,
    Async,
    Spawned,
}

pub const ALL: &[Kind] = &[
    Kind::Pool(Mode::Prompt),
    Kind::Pool(Mode::FreeCaller),
    Kind::Pool(Mode::Throughput),
    Kind::ThreadPerObject,
    Kind::UpFront,
    Kind::Shared,
    Kind::SharedOfOne,
    Kind::Processes,
    Kind::Async,
    Kind::Spawned,
];

pub fn at_most(degree: usize) -> ConcurrentExecution {
    ConcurrentExecution::new(NonZeroUsize::new(degree).unwrap())
}

/// What an object's processor brought; a crash in words.
pub type Result1 = Result<Output, String>;

pub type Objects = Box<dyn ExactSizeIterator<Item = Object> + Send>;

/// A report without its types.
#[derive(Debug)]
pub struct Outcome {
    pub ended: Ended<()>,
    pub finished: usize,
    pub unfinished: Vec<usize>,
    pub rest: Vec<usize>,
    pub most_running: usize,
    pub shortage: Option<std::io::Error>,
    pub failed: Vec<(usize, String)>,
}

fn outcome<I: Iterator<Item = Object>, R>(report: Report<I, R, ()>) -> Outcome {
    Outcome {
        ended: report.ended,
        finished: report.finished,
        unfinished: report.unfinished.iter().map(|done| done.object.id).collect(),
        rest: report.rest.map(|object| object.id).collect(),
        most_running: report.most_running,
        shortage: report.shortage,
        failed: Vec::new(),
    }
}

fn tried<I: Iterator<Item = Object>, T, E: ToString>(tried: Tried<I, T, E, ()>) -> Outcome {
    Outcome {
        failed: tried
            .failed
            .iter()
            .map(|failed| (failed.object.id, failed.error.to_string()))
            .collect(),
        ..outcome(tried.report)
    }
}

/// The least that may be called a runtime.
fn on_a_thread(task: Task) {
    std::thread::spawn(|| crate::block_on(task));
}

async fn spawned(object: Object) -> (Object, Result1) {
    let result = perform_async(&object).await;
    (object, result)
}

impl Kind {
    fn settings(self, execution: ConcurrentExecution) -> ConcurrentExecution {
        let pool = |threads| ThreadPool::new(NonZeroUsize::new(threads).unwrap());
        match self {
            Self::Pool(mode) => execution.mode(mode),
            Self::ThreadPerObject => execution.carrier(Carrier::ThreadPerObject),
            Self::Shared => execution.carrier(&pool(8)).mode(Mode::FreeCaller),
            Self::SharedOfOne => execution.carrier(&pool(1)),
            Self::UpFront | Self::Processes | Self::Async | Self::Spawned => execution,
        }
    }

    /// Whether *k* objects can wait for each other, and for a finisher.
    pub fn keeps_the_caller_free(self) -> bool {
        !matches!(self, Self::Pool(Mode::Throughput) | Self::SharedOfOne)
    }

    pub fn for_each(
        self,
        execution: ConcurrentExecution,
        objects: impl IntoIterator<IntoIter: ExactSizeIterator<Item = Object> + Send + 'static>,
        mut finisher: impl FnMut(Done<Object, Result1>) -> ControlFlow<()>,
    ) -> Outcome {
        let objects: Objects = Box::new(objects.into_iter());
        let execution = self.settings(execution);
        match self {
            Self::UpFront => outcome(execution.up_front().for_each(objects, |o| perform(o), finisher)),
            Self::Processes => outcome(execution.processes().for_each(objects, &PERFORM, |done| {
                finisher(done.map(|result| result.unwrap_or_else(|crash| Err(crash.to_string()))))
            })),
            Self::Async => outcome(crate::block_on(execution.for_each_async(
                objects,
                async |o| perform_async(o).await,
                finisher,
            ))),
            Self::Spawned => outcome(crate::block_on(execution.for_each_spawned(
                on_a_thread,
                objects,
                spawned,
                finisher,
            ))),
            _ => outcome(execution.for_each(objects, |o| perform(o), finisher)),
        }
    }

    pub fn try_for_each(
        self,
        execution: ConcurrentExecution,
        objects: impl IntoIterator<IntoIter: ExactSizeIterator<Item = Object> + Send + 'static>,
        finisher: impl FnMut(Done<Object, Output>) -> ControlFlow<()>,
    ) -> Outcome {
        let objects: Objects = Box::new(objects.into_iter());
        let execution = self.settings(execution);
        match self {
            Self::UpFront => tried(
                execution
                    .up_front()
                    .try_for_each(objects, |o| perform(o), finisher),
            ),
            Self::Processes => tried(execution.processes().try_for_each(objects, &PERFORM, finisher)),
            Self::Async => tried(crate::block_on(execution.try_for_each_async(
                objects,
                async |o| perform_async(o).await,
                finisher,
            ))),
            Self::Spawned => tried(crate::block_on(execution.try_for_each_spawned(
                on_a_thread,
                objects,
                spawned,
                finisher,
            ))),
            _ => tried(execution.try_for_each(objects, |o| perform(o), finisher)),
        }
    }
}
