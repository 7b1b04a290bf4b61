//! What a call hands to the finisher, and what it hands back.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// An object that was processed, as the finisher gets it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Done<O, R> {
    /// The object, as its processor left it.
    pub object: O,
    /// What the processor returned.
    pub result: R,
    /// The object's place among the objects as they came from the iterator, from 0.
    pub index: usize,
    /// The finishing order: how many objects of this call were finished before it.
    pub order: usize,
    /// When it was processed.
    pub times: Times,
}

impl<O, R> Done<O, R> {
    /// The same with another result, made of this one.
    pub fn map<T>(self, make: impl FnOnce(R) -> T) -> Done<O, T> {
        Done {
            object: self.object,
            result: make(self.result),
            index: self.index,
            order: self.order,
            times: self.times,
        }
    }
}

/// When an object was processed, counted from the start of the call.
///
/// Right to some nanoseconds; for processors shorter than 10 µs on [`Carrier::Pool`](crate::Carrier::Pool) they may
/// come from the CPU's counter between two readings of the clock, and are then right to 10 µs whatever that counter
/// does. Where the caller runs them one after the other by itself, a processor that follows 256 brief ones (1 µs with
/// all that lies between them) is shown to start when the one before it ended: if iterator or finisher took long just
/// then, as part of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub(crate) epoch: Instant,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
}

impl Times {
    /// From the start of the call to the start of the object's processor.
    #[must_use]
    pub fn queue_wait(&self) -> Duration {
        Duration::from_nanos(self.started_ns)
    }

    /// How long the processor ran, in elapsed time. Within a batch of very short processors it includes the few
    /// nanoseconds between one and the next.
    #[must_use]
    pub fn service(&self) -> Duration {
        Duration::from_nanos(self.ended_ns - self.started_ns)
    }

    /// From the start of the call to the end of the object's processor: queue wait and service.
    #[must_use]
    pub fn completion(&self) -> Duration {
        Duration::from_nanos(self.ended_ns)
    }

    /// Completion over service: 1 for an object that did not wait. Infinite if no service time was seen.
    #[must_use]
    pub fn turnaround(&self) -> f64 {
        self.ended_ns as f64 / (self.ended_ns - self.started_ns) as f64
    }

    /// The instant at which the processor ended. How long the finisher took to come is `elapsed()` of it.
    #[must_use]
    pub fn ended_at(&self) -> Instant {
        self.epoch + self.completion()
    }
}

/// What a finisher may return: nothing, or whether to go on.
///
/// Implemented for `()` and for [`ControlFlow`]; it is sealed.
pub trait Verdict: sealed::Sealed {
    /// What a finisher that breaks leaves with.
    type Break;
    #[doc(hidden)]
    fn flow(self) -> ControlFlow<Self::Break>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl<B> Sealed for std::ops::ControlFlow<B> {}
}

impl Verdict for () {
    type Break = Infallible;
    fn flow(self) -> ControlFlow<Infallible> {
        ControlFlow::Continue(())
    }
}

impl<B> Verdict for ControlFlow<B> {
    type Break = B;
    fn flow(self) -> Self {
        self
    }
}

/// Why a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended<B = Infallible> {
    /// Every object was processed and finished.
    All,
    /// The finisher broke off, with this.
    Broken(B),
    /// The stop token was set before every object was started.
    Stopped,
    /// The deadline passed before every object was started.
    Deadline,
    /// A processor returned an error and the rest was not started
    /// ([`OnError::StopAtFirst`](crate::OnError::StopAtFirst)).
    Failed,
    /// No helper process could be started, or none any more, before every object was started;
    /// [`Report::shortage`] says why. Threads are never missing altogether: there is the caller's own.
    NoCarrier,
}

/// What became of a call. Not to be passed over: a call that ended early has objects left.
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use std::num::NonZeroUsize;
/// # use threadgauge_exec::ConcurrentExecution;
/// ConcurrentExecution::new(NonZeroUsize::MIN).for_each(0..9, |n| *n, |_| ());
/// ```
#[derive(Debug)]
#[must_use = "a call that ended early has objects left: see `ended` and `rest`"]
#[non_exhaustive]
pub struct Report<I: Iterator, R, B = Infallible> {
    /// Why it ended.
    pub ended: Ended<B>,
    /// How many objects the finisher was called for. Where processors may fail those are the successes:
    /// the failures are in [`Tried::failed`].
    pub finished: usize,
    /// The objects that were never started, in their order: those already taken from the iterator, then the
    /// iterator itself.
    pub rest: Rest<I>,
    /// Objects that were processed after the finisher had broken off; it was not called for them.
    pub unfinished: Vec<Done<I::Item, R>>,
    /// The most objects that were ever in the hands of a carrier at once, counted from the claim to the carrier's
    /// next one. Never above the degree.
    pub most_running: usize,
    /// The degree when the call ended: the one given, the one that an [adaptive](crate::Degree) call had come to, or 1
    /// in a serial one.
    pub last_degree: usize,
    /// From the call to its return.
    pub elapsed: Duration,
    /// Why fewer threads, or helper processes, than wanted could be made, if so. The call goes on with those it
    /// has, and without threads on the caller's own.
    pub shortage: Option<io::Error>,
}

/// An object whose processor returned an error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failed<O, E> {
    /// The object, as its processor left it.
    pub object: O,
    /// What the processor returned.
    pub error: E,
    /// The object's place among the objects, from 0.
    pub index: usize,
    /// When it was processed.
    pub times: Times,
}

/// What became of a call whose processors may fail. Not to be passed over: it holds the errors.
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use std::num::NonZeroUsize;
/// # use threadgauge_exec::ConcurrentExecution;
/// ConcurrentExecution::new(NonZeroUsize::MIN).try_for_each(0..9, |n| Err::<(), _>(*n), |_| ());
/// ```
#[derive(Debug)]
#[must_use = "it holds the errors: see `ok` and `failed`"]
#[non_exhaustive]
pub struct Tried<I: Iterator, T, E, B = Infallible> {
    /// What became of the call.
    pub report: Report<I, Result<T, E>, B>,
    /// The objects whose processors returned an error, in the order in which they ended. With
    /// [`OnError::StopAtFirst`](crate::OnError::StopAtFirst) it may hold more than one: others may fail while they
    /// are being waited for.
    pub failed: Vec<Failed<I::Item, E>>,
}

impl<I: Iterator, T, E, B> Tried<I, T, E, B> {
    /// The report, if every object was processed and finished.
    ///
    /// # Errors
    ///
    /// The first of [`failed`](Self::failed), if any; else why the call ended early. What was not started goes with it:
    /// look at the report where that matters.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use threadgauge_exec::{ConcurrentExecution, Ended, Incomplete, StopToken};
    ///
    /// let token = StopToken::new();
    /// token.stop();
    /// let tried = ConcurrentExecution::new(NonZeroUsize::MIN)
    ///     .stop(&token)
    ///     .try_for_each(["1", "2"], |text| text.parse::<i32>(), |_| ());
    /// assert_eq!(tried.ok().unwrap_err(), Incomplete::Early(Ended::Stopped));
    /// ```
    // A name for it would hide what is in it.
    #[allow(clippy::type_complexity)]
    pub fn ok(mut self) -> Result<Report<I, Result<T, E>, B>, Incomplete<E, B>> {
        if !self.failed.is_empty() {
            return Err(Incomplete::Failed(self.failed.swap_remove(0).error));
        }
        match self.report.ended {
            Ended::All => Ok(self.report),
            early => Err(Incomplete::Early(early)),
        }
    }
}

/// Why not every object of a call was processed and finished. See [`Tried::ok`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incomplete<E, B = Infallible> {
    /// A processor returned this error, the first.
    Failed(E),
    /// The call ended early for this reason, which is never [`Ended::All`].
    Early(Ended<B>),
}

impl<E: fmt::Display, B> fmt::Display for Incomplete<E, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Self::Failed(error) => return error.fmt(f),
            Self::Early(Ended::Broken(_)) => "the finisher broke off",
            Self::Early(Ended::Stopped) => "its stop token was set",
            Self::Early(Ended::Deadline) => "its deadline passed",
            Self::Early(Ended::NoCarrier) => "no helper process could be started",
            Self::Early(Ended::All | Ended::Failed) => "a processor failed",
        };
        write!(f, "not every object was started: {why}")
    }
}

impl<E: Error, B: fmt::Debug> Error for Incomplete<E, B> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(error) => error.source(),
            Self::Early(_) => None,
        }
    }
}

/// For `tried.ok()?` where processors do input and output.
impl<B> From<Incomplete<io::Error, B>> for io::Error {
    fn from(why: Incomplete<io::Error, B>) -> Self {
        match why {
            Incomplete::Failed(error) => error,
            early @ Incomplete::Early(_) => Self::other(early.to_string()),
        }
    }
}

/// The objects that were never started: an iterator over them, in their order.
#[derive(Debug)]
pub struct Rest<I: Iterator> {
    taken: std::vec::IntoIter<(usize, I::Item)>,
    iterator: Option<I>,
}

impl<I: Iterator> Rest<I> {
    pub(crate) fn new(mut taken: Vec<(usize, I::Item)>, iterator: Option<I>) -> Self {
        taken.sort_unstable_by_key(|(index, _)| *index);
        Self {
            taken: taken.into_iter(),
            iterator,
        }
    }

    pub(crate) fn into_parts(self) -> (std::vec::IntoIter<(usize, I::Item)>, Option<I>) {
        (self.taken, self.iterator)
    }
}

impl<I: Iterator> Iterator for Rest<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        if let Some((_, object)) = self.taken.next() {
            return Some(object);
        }
        let object = self.iterator.as_mut()?.next();
        if object.is_none() {
            self.iterator = None;
        }
        object
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (low, high) = self.iterator.as_ref().map_or((0, Some(0)), Iterator::size_hint);
        let taken = self.taken.len();
        (low.saturating_add(taken), high.and_then(|h| h.checked_add(taken)))
    }
}

/// Something that a call noticed while it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The deadline has passed and this object's processor still runs. The call returns when it has ended: a
    /// thread cannot be ended while it borrows from the caller.
    Overrun {
        /// The object's place among the objects, from 0.
        index: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_an_object_follow_from_its_start_and_its_end() {
        let epoch = Instant::now();
        let times = Times {
            epoch,
            started_ns: 1_000,
            ended_ns: 4_000,
        };
        let micros = Duration::from_micros;
        assert_eq!(times.queue_wait(), micros(1));
        assert_eq!(times.service(), micros(3));
        assert_eq!(times.completion(), micros(4));
        assert_eq!(times.turnaround(), 4.0 / 3.0);
        assert_eq!(times.ended_at(), epoch + micros(4));
    }

    #[test]
    fn the_rest_is_what_was_taken_in_its_order_and_what_is_left_of_the_iterator() {
        let taken = vec![(2, 'c'), (0, 'a')];
        let mut rest = Rest::new(taken.clone(), Some("xyz".chars()));
        // Of three bytes as few as one character may be left.
        assert_eq!(rest.size_hint(), (3, Some(5)));
        assert_eq!(rest.by_ref().collect::<String>(), "acxyz");
        assert_eq!((rest.size_hint(), rest.next()), ((0, Some(0)), None));
        assert_eq!(
            Rest::new(taken.clone(), None::<std::str::Chars<'_>>).size_hint(),
            (2, Some(2))
        );
        assert_eq!(
            Rest::new(taken, Some(std::iter::repeat('z'))).size_hint(),
            (usize::MAX, None)
        );
    }
}
