//! `ConcurrentExecution`: the settings of a call, and the calls.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::degree::Degree;
use crate::discard::discard;
use crate::outcome::{Done, Ended, Report, Rest, Tried, Verdict, Warning};
use crate::pool::Ran;
use crate::progress::{Listener, Progress, Reporter};
use crate::result_sink::ResultSink;
use crate::shared::{Halt, Raw, Shared, Source, Work};
use crate::stop::StopToken;
use crate::thread_pool::ThreadPool;
use crate::trace::{self, Traced};
use crate::trying::{Sorter, Trying};
use crate::up_front::UpFront;
use crate::{pool, thread_per_object};

/// Who runs the processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carrier {
    /// As many threads as the degree, made for the call, each taking object after object.
    #[default]
    Pool,
    /// The same on threads that stay between calls, as far as some are free; see [`ThreadPool`].
    Shared(ThreadPool),
    /// A thread for each object, made when its turn comes and ended with it. Dear (35 µs and more each), but no
    /// object sees what another left in its thread.
    ThreadPerObject,
}

impl From<&ThreadPool> for Carrier {
    fn from(pool: &ThreadPool) -> Self {
        Self::Shared(pool.clone())
    }
}

/// What the caller does while it waits for results. For [`Carrier::Pool`] and [`Carrier::Shared`]; with a thread for
/// each object the caller is always free, and in a call with a deadline it is too: somebody has to watch the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The caller runs processors itself while the service times it sees are small against the cost of waking a
    /// thread (20 µs): after some eight short ones it begins (a long one takes eight off); at a long one it stops,
    /// and then asks for twice as many. So a result waits for its finisher no longer than the processor that the
    /// caller is at, and that one is short.
    /// The exception: long ones that are outweighed by 64 short ones each, up to three in a row, are taken for the
    /// scheduler's doing and do not stop it; so where the work turns from short to long, a result may wait for
    /// four long ones.
    /// To see how short the work is, at first and whenever it has stopped working, the caller listens for 200 µs, and
    /// for a millisecond if it looks short, before it lets more workers run than leave it a CPU.
    ///
    /// While the caller works there may be fewer processors at work than the degree allows, so one that waits for
    /// *another object's* processor or finisher needs [`FreeCaller`](Self::FreeCaller).
    #[default]
    Prompt,
    /// The caller runs no processor: it finishes results and sleeps. Each result is finished as soon as the caller is
    /// on a CPU, and may cost a wake-up. With as many short processors at work as there are CPUs that may take a
    /// scheduler's slice (milliseconds): leave it a CPU by a lower degree.
    FreeCaller,
    /// The caller is one of the carriers from the first object to the last. Cheapest; but a result may wait for as
    /// long as one processor takes, or 50 µs of short ones, or as the iterator blocks; and neither a processor nor the
    /// iterator must wait for another object's processor or finisher: a worker whose results nobody takes waits for the
    /// caller.
    Throughput,
}

/// What [`try_for_each`](ConcurrentExecution::try_for_each) does when a processor returns an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Nothing more starts, the end is [announced](ConcurrentExecution::announce_stop), those that run are waited for
    /// and finished.
    #[default]
    StopAtFirst,
    /// The error is kept and the rest goes on.
    Collect,
}

type Warn = Arc<dyn Fn(Warning) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) degree: Degree,
    carrier: Carrier,
    pub(crate) mode: Mode,
    on_error: OnError,
    pub(crate) look_ahead: Option<NonZeroUsize>,
    pub(crate) deadline: Option<Duration>,
    /// The call's own: it hears the first of these and tells the second.
    pub(crate) token: StopToken,
    stop: Option<StopToken>,
    announce: Option<StopToken>,
    warn: Option<Warn>,
    pub(crate) listener: Option<Listener>,
}

impl Settings {
    pub(crate) fn warn(&self, warning: Warning) {
        let Warning::Overrun { index } = warning;
        trace::overrun(index);
        if let Some(warn) = &self.warn {
            warn(warning);
        }
    }

    pub(crate) fn reporter(&self, size_hint: (usize, Option<usize>), epoch: Instant) -> Option<Reporter> {
        self.listener
            .as_ref()
            .map(|listener| Reporter::new(listener, size_hint, epoch))
    }
}

/// Runs objects, at most *k* at a time, and finishes each on the caller's own thread as soon as it is done.
///
/// It holds the settings only; threads are made for a call and are gone when it returns, unless they belong to a
/// [`ThreadPool`]. A call may be made from many threads at once, and from within a processor: each has permits of its
/// own, and threads of its own or a caller that works, so nesting cannot deadlock (and multiplies the degrees).
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
/// - At no time do more than *k* **processors** run. They run on any thread, in any order, started in
///   the order of the objects.
/// - The **finisher** runs on the caller's thread, one at a time, for each object exactly once, as soon as the
///   object is done, and needs neither `Send` nor `Sync`. A slow one holds the processors up: a worker with
///   results waiting (4, or as many as fit into 64 KiB while processors are short) waits for it.
/// - The call **returns** when the last object is finished. No thread is left behind, however it ends; those of a
///   [`ThreadPool`] have let go of all that belongs to the call.
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

/// One processor for all.
pub(crate) struct ForAll<P>(pub(crate) P);

impl<O, R: Send, P: Fn(&mut O) -> R + Sync> Work<O> for ForAll<P> {
    type Output = R;
    #[inline]
    fn run(&self, object: &mut O) -> R {
        (self.0)(object)
    }
    #[inline]
    fn halts(&self, _: &R) -> bool {
        false
    }
}

impl ConcurrentExecution {
    /// At most `degree` processors at work, on a pool made for each call. A [`NonZeroUsize`], or a [`Degree`] that
    /// the call finds by itself.
    #[must_use]
    pub fn new(degree: impl Into<Degree>) -> Self {
        Self {
            settings: Settings {
                degree: degree.into(),
                carrier: Carrier::default(),
                mode: Mode::default(),
                on_error: OnError::default(),
                look_ahead: None,
                deadline: None,
                token: StopToken::new(),
                stop: None,
                announce: None,
                warn: None,
                listener: None,
            },
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
        self.concurrent(objects.into_iter(), &ForAll(processor), |done| {
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
        let report = self.concurrent(objects.into_iter(), &work, |done| sorter.finish(done));
        sorter.tried(report)
    }

    /// All threads made, one for each object, before any runs; see [`UpFront`].
    #[must_use]
    pub fn up_front(self) -> UpFront {
        UpFront::new(self)
    }

    /// Helper processes instead of threads; see [`Processes`](crate::process::Processes).
    #[cfg(all(feature = "process", unix))]
    #[must_use]
    pub fn processes(self) -> crate::process::Processes {
        crate::process::Processes::new(self)
    }

    pub(crate) fn when_failing(&self) -> OnError {
        self.settings.on_error
    }

    /// Each call has a token of its own.
    pub(crate) fn settings_of_a_call(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.token = StopToken::of_a_call(settings.stop.as_ref(), settings.announce.as_ref());
        settings.listener = settings.listener.as_ref().map(Listener::for_a_call);
        settings
    }

    /// Work in a span of its own, if anybody traces.
    pub(crate) fn traced<'w, W>(&self, work: &'w W) -> Traced<'w, W> {
        Traced::new(work, &self.settings)
    }

    fn concurrent<I, W, F, B>(&self, objects: I, work: &W, finisher: F) -> Report<I, W::Output, B>
    where
        I: Iterator + Send,
        I::Item: Send,
        W: Work<I::Item>,
        F: FnMut(Done<I::Item, W::Output>) -> ControlFlow<B>,
    {
        let work = self.traced(work);
        let _within = work.enter();
        self.call(
            objects,
            &work,
            finisher,
            |shared, settings, sink| match &settings.carrier {
                Carrier::Pool => pool::run(shared, settings, None, sink),
                Carrier::Shared(threads) => pool::run(shared, settings, Some(threads), sink),
                Carrier::ThreadPerObject => thread_per_object::run(shared, settings, 0, sink),
            },
        )
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
        finisher: F,
    ) -> Report<I, R, B>
    where
        F: FnMut(Done<I::Item, R>) -> ControlFlow<B>,
    {
        let mut settings = self.settings_of_a_call();
        settings.look_ahead = None;
        let epoch = Instant::now();
        let _within = Traced::new(&(), &settings).enter();
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
                            shared.halt(Halt::Failed);
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
                    shared.halt(Halt::Broken);
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
        (None, Some(Halt::Failed)) => Ended::Failed,
        (None, Some(Halt::Deadline)) if !all_started => Ended::Deadline,
        (None, Some(Halt::Stopped)) if !all_started => Ended::Stopped,
        #[cfg(all(feature = "process", unix))]
        (None, Some(Halt::NoCarrier)) if !all_started => Ended::NoCarrier,
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
