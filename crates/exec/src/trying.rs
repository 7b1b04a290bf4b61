//! Processors that may fail: which failure ends the call, and where the failures go.

use std::ops::ControlFlow;

use crate::outcome::{Done, Failed, Report, Tried, Verdict};
use crate::settings::OnError;
use crate::work::Work;

/// One processor for all, which may fail.
pub(crate) struct Trying<P>(pub(crate) P, pub(crate) OnError);

impl<O, T: Send, E: Send, P: Fn(&mut O) -> Result<T, E> + Sync> Work<O> for Trying<P> {
    type Output = Result<T, E>;
    #[inline]
    fn run(&self, object: &mut O) -> Result<T, E> {
        (self.0)(object)
    }
    #[inline]
    fn halts(&self, output: &Result<T, E>) -> bool {
        self.1.halts(output)
    }
}

/// A finisher for successes, with the failures beside it.
pub(crate) struct Sorter<F, O, E> {
    finisher: F,
    finished: usize,
    failed: Vec<Failed<O, E>>,
}

impl<F, O, E> Sorter<F, O, E> {
    pub(crate) fn new(finisher: F) -> Self {
        Self {
            finisher,
            finished: 0,
            failed: Vec::new(),
        }
    }

    /// Calls the finisher for a success, counted among successes; keeps a failure.
    #[inline]
    pub(crate) fn finish<T, V: Verdict>(&mut self, done: Done<O, Result<T, E>>) -> ControlFlow<V::Break>
    where
        F: FnMut(Done<O, T>) -> V,
    {
        let Done {
            object,
            result,
            index,
            times,
            ..
        } = done;
        match result {
            Ok(result) => {
                let order = self.finished;
                self.finished += 1;
                (self.finisher)(Done {
                    object,
                    result,
                    index,
                    order,
                    times,
                })
                .flow()
            }
            Err(error) => {
                self.failed.push(Failed {
                    object,
                    error,
                    index,
                    times,
                });
                ControlFlow::Continue(())
            }
        }
    }

    /// The end of the call.
    pub(crate) fn tried<I, T, B>(self, mut report: Report<I, Result<T, E>, B>) -> Tried<I, T, E, B>
    where
        I: Iterator<Item = O>,
    {
        report.finished = self.finished;
        Tried {
            report,
            failed: self.failed,
        }
    }
}
