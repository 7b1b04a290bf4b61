//! A thread for each object, all made before any runs.

use std::ops::ControlFlow;

use crate::execution::ConcurrentExecution;
use crate::outcome::{Done, Report, Tried, Verdict};
use crate::trying::{Sorter, Trying};
use crate::work::{ForAll, Work};

/// A thread for each object, all of them made, suspended, before any runs; each is released when its object's turn
/// comes.
///
/// Threads are not made while others work, which is dear where each takes a CPU from one that works. In exchange,
/// memory grows with the number of objects, and this number must be known: the iterator is an
/// [`ExactSizeIterator`]. It is still asked for an object only when its turn comes.
///
/// Made by [`ConcurrentExecution::up_front`]; the [contract](ConcurrentExecution#the-contract) and all settings hold,
/// but the carrier and the mode mean nothing: the caller is always free. If a thread cannot be made,
/// [`Report::shortage`] says why, no more are tried up front, and each object without one gets its own
/// when its turn comes, as with [`Carrier::ThreadPerObject`](crate::Carrier::ThreadPerObject); if that fails too, the
/// caller runs it.
///
/// ```
/// use std::num::NonZeroUsize;
/// use threadgauge_exec::ConcurrentExecution;
///
/// let four = NonZeroUsize::new(4).unwrap();
/// let mut sum = 0;
/// ConcurrentExecution::new(four).up_front().for_each(0..10, |n| *n * *n, |done| sum += done.result);
/// assert_eq!(sum, 285);
/// ```
///
/// What has no end has no number of threads:
///
/// ```compile_fail,E0277
/// # use std::num::NonZeroUsize;
/// # use threadgauge_exec::ConcurrentExecution;
/// ConcurrentExecution::new(NonZeroUsize::MIN).up_front().for_each(0.., |n: &mut i32| *n, |_| ());
/// ```
#[derive(Clone, Debug)]
pub struct UpFront {
    execution: ConcurrentExecution,
}

impl ConcurrentExecution {
    /// All threads made, one for each object, before any runs; see [`UpFront`].
    #[must_use]
    pub fn up_front(self) -> UpFront {
        UpFront { execution: self }
    }
}

impl UpFront {
    /// As [`ConcurrentExecution::for_each`].
    ///
    /// # Panics
    ///
    /// As there.
    pub fn for_each<I, R, P, F, V>(
        &self,
        objects: I,
        processor: P,
        mut finisher: F,
    ) -> Report<I::IntoIter, R, V::Break>
    where
        I: IntoIterator,
        I::IntoIter: ExactSizeIterator + Send,
        I::Item: Send,
        R: Send,
        P: Fn(&mut I::Item) -> R + Sync,
        F: FnMut(Done<I::Item, R>) -> V,
        V: Verdict,
    {
        self.run(objects.into_iter(), &ForAll(processor), |done| {
            finisher(done).flow()
        })
    }

    /// As [`ConcurrentExecution::try_for_each`].
    ///
    /// # Panics
    ///
    /// As there.
    pub fn try_for_each<I, T, E, P, F, V>(
        &self,
        objects: I,
        processor: P,
        finisher: F,
    ) -> Tried<I::IntoIter, T, E, V::Break>
    where
        I: IntoIterator,
        I::IntoIter: ExactSizeIterator + Send,
        I::Item: Send,
        T: Send,
        E: Send,
        P: Fn(&mut I::Item) -> Result<T, E> + Sync,
        F: FnMut(Done<I::Item, T>) -> V,
        V: Verdict,
    {
        let work = Trying(processor, self.execution.when_failing());
        let mut sorter = Sorter::new(finisher);
        let report = self.run(objects.into_iter(), &work, |done| sorter.finish(done));
        sorter.tried(report)
    }

    fn run<I, W, F, B>(&self, objects: I, work: &W, finisher: F) -> Report<I, W::Output, B>
    where
        I: ExactSizeIterator + Send,
        I::Item: Send,
        W: Work<I::Item>,
        F: FnMut(Done<I::Item, W::Output>) -> ControlFlow<B>,
    {
        let threads = objects.len();
        self.execution.concurrent(objects, work, Some(threads), finisher)
    }
}
