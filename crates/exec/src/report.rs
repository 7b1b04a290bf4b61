//! The end of a call: what its carriers leave, and the report that is made of it.

use std::io;
use std::panic::resume_unwind;
use std::time::Instant;

use crate::discard::discard;
use crate::outcome::{Ended, Report, Rest};
use crate::result_sink::ResultSink;
use crate::shared::{HaltReason, Shared, Source};

/// What is left of a call when it has run.
pub(crate) struct Ran<I: Iterator> {
    pub(crate) source: Source<I>,
    pub(crate) iterator: I,
    pub(crate) thread_shortage: Option<io::Error>,
}

impl<I: Iterator> Ran<I> {
    /// When all carriers are gone.
    pub(crate) fn of<W>(shared: Shared<'_, I, W>, thread_shortage: Option<io::Error>) -> Self {
        let (source, iterator) = shared.into_parts();
        Self {
            source,
            iterator,
            thread_shortage,
        }
    }
}

/// What became of it; goes on with a panic if there was one.
pub(crate) fn report<I: Iterator, R, F, B>(
    ran: Ran<I>,
    sink: ResultSink<I::Item, R, F, B>,
    epoch: Instant,
) -> Report<I, R, B> {
    let Ran {
        source,
        iterator,
        thread_shortage,
    } = ran;
    let Source {
        exhausted,
        returned,
        most_running,
        degree,
        halt,
        panic,
        ..
    } = source;
    if let Some(panic) = panic {
        discard((iterator, returned, sink));
        resume_unwind(panic);
    }
    let all_started = exhausted && returned.is_empty();
    let ended = match (sink.broken, halt) {
        (Some(with), _) => Ended::Broken(with),
        (None, Some(HaltReason::Failed)) => Ended::Failed,
        (None, Some(HaltReason::Deadline)) if !all_started => Ended::Deadline,
        (None, Some(HaltReason::Stopped)) if !all_started => Ended::Stopped,
        #[cfg(all(feature = "process", unix))]
        (None, Some(HaltReason::NoCarrier)) if !all_started => Ended::NoCarrier,
        (None, _) => Ended::All,
    };
    Report {
        ended,
        finished: sink.finished,
        rest: Rest::new(returned, (!exhausted).then_some(iterator)),
        unfinished: sink.unfinished,
        most_running,
        last_degree: degree,
        elapsed: epoch.elapsed(),
        shortage: thread_shortage,
    }
}
