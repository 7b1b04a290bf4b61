//! `ConcurrentExecution`: what a user sets, and the calls on threads.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::degree::Degree;
use crate::discard::discard;
use crate::outcome::{Done, Report, Tried, Verdict, Warning};
use crate::progress::{Listener, Progress};
use crate::report::{Ran, report};
use crate::result_sink::ResultSink;
use crate::settings::{Carrier, Mode, OnError, Settings};
use crate::shared::{HaltReason, Shared};
use crate::stop::StopToken;
use crate::trace::Traced;
use crate::trying::{Sorter, Trying};
use crate::work::{ForAll, Raw, Work};
use crate::{large, pool, thread_per_object};

/// Runs objects, at most *k* at a time, and finishes each on the caller's own thread as soon as it is done.
///
/// It holds the settings only; threads are made for a call and are gone when it returns, unless they belong to a
/// [`ThreadPool`](crate::ThreadPool). A call may be made from many threads at once, and from within a processor: each
/// has permits of its own, and threads of its own or a caller that works, so nesting cannot deadlock (and multiplies
/// the degrees).
///
/// # The contract
///
/// - The **iterator** is asked for an object only when a carrier is free to run it; so it may be endless. Threads ask,
///   hence `Send`, one at a time. Several objects are taken at once only if they are short and the iterator's lower
///   size bound promises them, and while the caller works beside others, some for it.
/// - An iterator that **blocks** stops nothing else: results are finished as soon as they are done, the deadline is
///   kept, and what it waits for may be a finisher's doing, for every degree. What it brings after the end comes back.
///   (Objects that were taken together with the one that it blocks at may start up to 200 ms later.) Where the **caller
///   asks** it, nothing is finished meanwhile, and it must not wait for a finisher: in [`Mode::Throughput`] with a
///   degree above 1, with helper processes, and with futures. A caller that is the only carrier asks when all before is
///   finished. The call returns when the iterator has answered: like a processor, it cannot be ended.
/// - At no time do more than *k* **processors** run. They run on any thread. Objects are taken in their order; a
///   carrier may take several brief ones at once, and another begin with what comes after them meanwhile.
/// - The **finisher** runs on the caller's thread, one at a time, for each object exactly once, as soon as the
///   object is done, and needs neither `Send` nor `Sync`. A slow one holds the processors up: a worker with
///   results waiting (4, or as many as fit into 64 KiB while processors are short) waits for it.
/// - The call **returns** when the last object is finished. No thread is left behind, however it ends, and what they
///   kept in thread-local variables has been dropped; those of a [`ThreadPool`](crate::ThreadPool) stay, and have let
///   go of all that belongs to the call.
/// - **Large** objects and results (together above 16 KiB) lie in boxes on their way, so that they may be far larger
///   than a thread's stack bears many of.
/// - A call **ends early** when its token is set, its deadline passes, its finisher breaks, a processor fails under
///   [`OnError::StopAtFirst`], or something panics. Then nothing more starts, the end is
///   [announced](Self::announce_stop), running processors are waited for and, unless the finisher itself broke or
///   panicked, finished. What was never started comes back in [`Report::rest`].
/// - A **panic** in a processor or in the iterator ends the call early and then goes on in the caller; of several,
///   the first. A panic in the finisher goes on at once when the running processors have ended.
/// - A thread cannot be ended while it borrows from the caller. So a **processor that never returns** keeps
///   the call from returning, deadline or not; [`on_warning`](Self::on_warning) names its object.
///
/// ```
/// use std::num::NonZeroUsize;
/// use threadgauge_exec::ConcurrentExecution;
///
/// let texts = ["one two", "three", "four five six"];
/// let mut words = 0;
/// let four = NonZeroUsize::new(4).unwrap();
/// let report = ConcurrentExecution::new(four).for_each(
///     &texts,
///     |text| text.split(' ').count(),
///     |done| words += done.result,
/// );
/// assert_eq!((words, report.finished), (6, 3));
/// ```
///
/// # One processor for all, or one each
///
/// Where each object has a processor of its own, the objects are pairs, on every carrier that takes closures, with
/// errors or without:
///
/// ```
/// use std::num::NonZeroUsize;
/// use threadgauge_exec::ConcurrentExecution;
///
/// type Parse = fn(&mut &str) -> Result<u32, std::num::ParseIntError>;
/// let decimal: Parse = |text| text.parse();
/// let hexadecimal: Parse = |text| u32::from_str_radix(text, 16);
/// let mut sum = 0;
/// let tried = ConcurrentExecution::new(NonZeroUsize::MIN).try_for_each(
///     [("10", decimal), ("ff", hexadecimal), ("ff", decimal)],
///     |(text, parse)| parse(text),
///     |done| sum += done.result,
/// );
/// assert_eq!((sum, tried.failed[0].index), (265, 2));
/// ```
///
/// # What does not compile
///
/// A degree of zero does not exist:
///
/// ```compile_fail
/// threadgauge_exec::ConcurrentExecution::new(0);
/// ```
///
/// Objects go to other threads, so what may not does not compile; the finisher may use it:
///
/// ```compile_fail
/// # use std::num::NonZeroUsize;
/// # use threadgauge_exec::ConcurrentExecution;
/// let objects = vec![std::rc::Rc::new(1)];
/// ConcurrentExecution::new(NonZeroUsize::MIN).for_each(objects, |o| **o, |_| ());
/// ```
///
/// Results may borrow from the caller, but not from their object, which the finisher gets as well:
///
/// ```compile_fail
/// # use std::num::NonZeroUsize;
/// # use threadgauge_exec::ConcurrentExecution;
/// let objects = vec![String::new()];
/// ConcurrentExecution::new(NonZeroUsize::MIN).for_each(objects, |o| o.as_str(), |_| ());
/// ```
#[derive(Clone)]
pub struct ConcurrentExecution {
    settings: Settings,
}

impl fmt::Debug for ConcurrentExecution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.settings;
        f.debug_struct("ConcurrentExecution")
            .field("degree", &s.degree)
            .field("carrier", &s.carrier)
            .field("mode", &s.mode)
            .field("on_error", &s.on_error)
            .field("look_ahead", &s.look_ahead)
            .field("deadline", &s.deadline)
            .finish_non_exhaustive()
    }
}

impl ConcurrentExecution {
    /// At most `degree` processors at work, on a pool made for each call. A [`NonZeroUsize`], or a [`Degree`] that
    /// the call finds by itself.
    #[must_use]
    pub fn new(degree: impl Into<Degree>) -> Self {
        Self {
            settings: Settings::new(degree.into()),
        }
    }

    /// Who runs the processors. Default: [`Carrier::Pool`].
    #[must_use]
    pub fn carrier(mut self, carrier: impl Into<Carrier>) -> Self {
        self.settings.carrier = carrier.into();
        self
    }

    /// What the caller does while it waits. Default: [`Mode::Prompt`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings.mode = mode;
        self
    }

    /// What an error from a processor means. Default: [`OnError::StopAtFirst`].
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.settings.on_error = on_error;
        self
    }

    /// Finishes in the order of the objects rather than of completion. An object is started only when fewer than
    /// `look_ahead` before it are unfinished, so no more than that many results are ever held.
    ///
    /// ```
    /// # use std::num::NonZeroUsize;
    /// # use threadgauge_exec::ConcurrentExecution;
    /// let (two, ten) = (NonZeroUsize::new(2).unwrap(), NonZeroUsize::new(10).unwrap());
    /// let mut squares = Vec::new();
    /// ConcurrentExecution::new(two).in_order(ten).for_each(1..=5, |n| *n * *n, |done| squares.push(done.result));
    /// assert_eq!(squares, [1, 4, 9, 16, 25]);
    /// ```
    #[must_use]
    pub fn in_order(mut self, look_ahead: NonZeroUsize) -> Self {
        self.settings.look_ahead = Some(look_ahead);
        self
    }

    /// How long after its start a call starts its last object. At that time the end is
    /// [announced](Self::announce_stop), and the call returns when the running processors have.
    #[must_use]
    pub fn deadline(mut self, after: Duration) -> Self {
        self.settings.deadline = Some(after);
        self
    }

    /// Ends a call early when `token` is set. The call does not set it: what it stops early for another reason stops
    /// nobody else.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use threadgauge_exec::{ConcurrentExecution, Ended, StopToken};
    ///
    /// let token = StopToken::new();
    /// let report = ConcurrentExecution::new(NonZeroUsize::MIN).stop(&token).for_each(
    ///     0.., // without end
    ///     |n| if *n == 10 { token.stop() },
    ///     |_| (),
    /// );
    /// assert_eq!(report.ended, Ended::Stopped);
    /// ```
    #[must_use]
    pub fn stop(mut self, token: &StopToken) -> Self {
        self.settings.stop = Some(token.clone());
        self
    }

    /// Sets `token`, for good, when a call ends early for whatever reason: a token that was set, its deadline, a
    /// finisher that breaks, the first error, a panic. Processors that look at it can cut their work short.
    ///
    /// Give each call a token of its own. Where there is also one that [stops](Self::stop) the call, make it a
    /// [child](StopToken::child) of that: then nobody has to notice first.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use threadgauge_exec::{ConcurrentExecution, Ended, StopToken};
    ///
    /// let program = StopToken::new();
    /// let call = program.child();
    /// let tried = ConcurrentExecution::new(NonZeroUsize::MIN).stop(&program).announce_stop(&call).try_for_each(
    ///     0..100,
    ///     |n| if *n == 3 { Err("three") } else { Ok(()) },
    ///     |_| (),
    /// );
    /// assert_eq!(tried.report.ended, Ended::Failed);
    /// assert!(call.is_stopped() && !program.is_stopped());
    /// ```
    #[must_use]
    pub fn announce_stop(mut self, token: &StopToken) -> Self {
        self.settings.announce = Some(token.clone());
        self
    }

    /// Calls `warn` on the caller's thread for what the caller of a library should know while it happens.
    #[must_use]
    pub fn on_warning(mut self, warn: impl Fn(Warning) + Send + Sync + 'static) -> Self {
        self.settings.warn = Some(Arc::new(warn));
        self
    }

    /// Calls `tell` on the caller's thread when objects are finished: after the first, then after one that ended at
    /// least `every` later than the last one told of ([`Duration::ZERO`]: after each), and at the end of the call.
    /// While nothing is finished nothing is told. It holds the call up as the finisher does, and a panic in it is one
    /// in the finisher.
    ///
    /// A progress bar that only counts finished objects needs no more than a line in the finisher; this is for
    /// calls that may fail, for the total, and for not drawing a million times.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use std::time::Duration;
    /// use threadgauge_exec::ConcurrentExecution;
    ///
    /// ConcurrentExecution::new(NonZeroUsize::new(3).unwrap())
    ///     .on_progress(Duration::from_millis(100), |progress| {
    ///         assert_eq!(progress.total, Some(50));
    ///         eprint!("\r{} of 50", progress.finished);
    ///     })
    ///     .for_each(0..50, |n| *n, |_| ());
    /// ```
    #[must_use]
    pub fn on_progress(mut self, every: Duration, tell: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.settings.listener = Some(Listener::new(every, Arc::new(tell)));
        self
    }

    /// Runs `processor` on each object, concurrently, and `finisher` on each result, here. See the
    /// [contract](Self#the-contract). Blocks until the last object is finished.
    ///
    /// The finisher returns nothing, or a [`ControlFlow`] that may break.
    ///
    /// # Panics
    ///
    /// Goes on with a panic of the processor, the finisher or the iterator, when no thread of the call runs any more.
    pub fn for_each<I, R, P, F, V>(
        &self,
        objects: I,
        processor: P,
        mut finisher: F,
    ) -> Report<I::IntoIter, R, V::Break>
    where
        I: IntoIterator,
        I::IntoIter: Send,
        I::Item: Send,
        R: Send,
        P: Fn(&mut I::Item) -> R + Sync,
        F: FnMut(Done<I::Item, R>) -> V,
        V: Verdict,
    {
        self.concurrent(objects.into_iter(), &ForAll(processor), None, |done| {
            finisher(done).flow()
        })
    }

    /// As [`for_each`](Self::for_each), but one after the other, on the caller's thread: processor, finisher, next
    /// object. What concurrency is to be compared with. The carrier, the mode and the look-ahead mean nothing here, and
    /// nobody watches the clock while a processor runs: a deadline is seen after it, without a warning.
    ///
    /// # Panics
    ///
    /// Goes on with a panic of the processor, the finisher or the iterator.
    pub fn serial<I, R, P, F, V>(
        &self,
        objects: I,
        processor: P,
        mut finisher: F,
    ) -> Report<I::IntoIter, R, V::Break>
    where
        I: IntoIterator,
        P: Fn(&mut I::Item) -> R,
        F: FnMut(Done<I::Item, R>) -> V,
        V: Verdict,
    {
        self.one_by_one(
            objects.into_iter(),
            processor,
            |_| false,
            |done| finisher(done).flow(),
        )
    }

    /// As [`serial`](Self::serial), with a processor that may fail, and as
    /// [`try_for_each`](Self::try_for_each) otherwise.
    ///
    /// # Panics
    ///
    /// As [`serial`](Self::serial).
    pub fn try_serial<I, T, E, P, F, V>(
        &self,
        objects: I,
        processor: P,
        finisher: F,
    ) -> Tried<I::IntoIter, T, E, V::Break>
    where
        I: IntoIterator,
        P: Fn(&mut I::Item) -> Result<T, E>,
        F: FnMut(Done<I::Item, T>) -> V,
        V: Verdict,
    {
        let on_error = self.when_failing();
        let mut sorter = Sorter::new(finisher);
        let report = self.one_by_one(
            objects.into_iter(),
            processor,
            |output| on_error.halts(output),
            |done| sorter.finish(done),
        );
        sorter.tried(report)
    }

    /// As [`for_each`](Self::for_each), with a processor that may fail. The finisher is called for successes;
    /// the failures come back, and [`on_error`](Self::on_error) says whether the first ends the call.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use threadgauge_exec::{ConcurrentExecution, OnError};
    ///
    /// let mut sum = 0;
    /// let tried = ConcurrentExecution::new(NonZeroUsize::MIN).on_error(OnError::Collect).try_for_each(
    ///     ["1", "2", "x", "4"],
    ///     |text| text.parse::<i32>(),
    ///     |done| sum += done.result,
    /// );
    /// assert_eq!((sum, tried.failed[0].object, tried.failed[0].index), (7, "x", 2));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`for_each`](Self::for_each).
    pub fn try_for_each<I, T, E, P, F, V>(
        &self,
        objects: I,
        processor: P,
        finisher: F,
    ) -> Tried<I::IntoIter, T, E, V::Break>
    where
        I: IntoIterator,
        I::IntoIter: Send,
        I::Item: Send,
        T: Send,
        E: Send,
        P: Fn(&mut I::Item) -> Result<T, E> + Sync,
        F: FnMut(Done<I::Item, T>) -> V,
        V: Verdict,
    {
        let work = Trying(processor, self.when_failing());
        let mut sorter = Sorter::new(finisher);
        let report = self.concurrent(objects.into_iter(), &work, None, |done| sorter.finish(done));
        sorter.tried(report)
    }

    pub(crate) fn when_failing(&self) -> OnError {
        self.settings.on_error
    }

    pub(crate) fn settings_of_a_call(&self) -> Settings {
        self.settings.for_a_call()
    }

    /// Work in a span of its own, if anybody traces.
    pub(crate) fn traced<'w, W>(&self, work: &'w W) -> Traced<'w, W> {
        Traced::new(work, self.settings.degree)
    }

    /// A call on threads: those of the carrier, or so many made up front.
    pub(crate) fn concurrent<I, W, F, B>(
        &self,
        objects: I,
        work: &W,
        up_front: Option<usize>,
        mut finisher: F,
    ) -> Report<I, W::Output, B>
    where
        I: Iterator + Send,
        I::Item: Send,
        W: Work<I::Item>,
        F: FnMut(Done<I::Item, W::Output>) -> ControlFlow<B>,
    {
        if const { large::is_large::<I::Item, W::Output>() } {
            let finisher = |done| large::finish(&mut finisher, done);
            large::report(self.on_threads(large::Boxing(objects), &large::Boxed(work), up_front, finisher))
        } else {
            self.on_threads(objects, work, up_front, finisher)
        }
    }

    fn on_threads<I, W, F, B>(
        &self,
        objects: I,
        work: &W,
        up_front: Option<usize>,
        finisher: F,
    ) -> Report<I, W::Output, B>
    where
        I: Iterator + Send,
        I::Item: Send,
        W: Work<I::Item>,
        F: FnMut(Done<I::Item, W::Output>) -> ControlFlow<B>,
    {
        let work = self.traced(work);
        let _within = work.enter();
        self.call(objects, &work, finisher, |shared, settings, sink| {
            match (up_front, &settings.carrier) {
                (Some(threads), _) => thread_per_object::run(shared, settings, threads, sink),
                (None, Carrier::Pool) => pool::run(shared, settings, None, sink),
                (None, Carrier::Shared(threads)) => pool::run(shared, settings, Some(threads), sink),
                (None, Carrier::ThreadPerObject) => thread_per_object::run(shared, settings, 0, sink),
            }
        })
    }

    /// A call on the carriers that `run` brings.
    pub(crate) fn call<I, W, R, F, B>(
        &self,
        objects: I,
        work: &W,
        finisher: F,
        run: impl FnOnce(Shared<'_, I, W>, &Settings, &mut ResultSink<I::Item, R, F, B>) -> Ran<I>,
    ) -> Report<I, R, B>
    where
        I: Iterator,
        F: FnMut(Done<I::Item, R>) -> ControlFlow<B>,
    {
        let settings = self.settings_of_a_call();
        let epoch = Instant::now();
        let reporter = settings.reporter(objects.size_hint(), epoch);
        let shared = Shared::new(objects, work, &settings, epoch);
        let mut sink = ResultSink::new(finisher, epoch, settings.look_ahead.is_some(), reporter);
        let ran = run(shared, &settings, &mut sink);
        sink.flush();
        report(ran, sink, epoch)
    }

    fn one_by_one<I: Iterator, R, F, B>(
        &self,
        objects: I,
        processor: impl Fn(&mut I::Item) -> R,
        halts: impl Fn(&R) -> bool,
        mut finisher: F,
    ) -> Report<I, R, B>
    where
        F: FnMut(Done<I::Item, R>) -> ControlFlow<B>,
    {
        if const { large::is_large::<I::Item, R>() } {
            let processor = |object: &mut Box<I::Item>| Box::new(processor(object));
            let finisher = |done| large::finish(&mut finisher, done);
            large::report(self.on_this_thread(
                large::Boxing(objects),
                processor,
                |output| halts(output),
                finisher,
            ))
        } else {
            self.on_this_thread(objects, processor, halts, finisher)
        }
    }

    fn on_this_thread<I: Iterator, R, F, B>(
        &self,
        objects: I,
        processor: impl Fn(&mut I::Item) -> R,
        halts: impl Fn(&R) -> bool,
        finisher: F,
    ) -> Report<I, R, B>
    where
        F: FnMut(Done<I::Item, R>) -> ControlFlow<B>,
    {
        let mut settings = self.settings_of_a_call();
        settings.look_ahead = None;
        let epoch = Instant::now();
        let _within = Traced::new(&(), settings.degree).enter();
        let reporter = settings.reporter(objects.size_hint(), epoch);
        let shared = Shared::new(objects, &(), &settings, epoch);
        shared.source().degree = 1;
        let mut sink = ResultSink::new(finisher, epoch, false, reporter);
        if let Some(mut source) = shared.sole_carrier(&mut false) {
            while let Some((index, mut object)) = source.pull() {
                let started_ns = shared.now_ns();
                if shared.must_stop(started_ns) {
                    shared.give_back(std::iter::once((index, object)), started_ns);
                    break;
                }
                match catch_unwind(AssertUnwindSafe(|| processor(&mut object))) {
                    Ok(result) => {
                        let ended_ns = shared.now_ns();
                        if halts(&result) {
                            shared.halt(HaltReason::Failed);
                        }
                        sink.deliver(Raw {
                            index,
                            started_ns,
                            ended_ns,
                            object,
                            result,
                        });
                    }
                    Err(panic) => {
                        shared.panicked(panic);
                        discard(object);
                    }
                }
                if sink.broken.is_some() {
                    shared.halt(HaltReason::Broken);
                }
                if shared.stops() {
                    break;
                }
            }
        }
        sink.flush();
        report(Ran::of(shared, None), sink, epoch)
    }
}
