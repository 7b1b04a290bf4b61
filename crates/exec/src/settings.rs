//! The settings of a call: who runs its processors, what the caller does meanwhile, and when it ends.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::degree::Degree;
use crate::outcome::Warning;
use crate::progress::{Listener, Reporter};
use crate::stop::StopToken;
use crate::thread_pool::ThreadPool;
use crate::trace;

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

/// What [`try_for_each`](crate::ConcurrentExecution::try_for_each) does when a processor returns an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Nothing more starts, the end is [announced](crate::ConcurrentExecution::announce_stop), those that run are
    /// waited for and finished.
    #[default]
    StopAtFirst,
    /// The error is kept and the rest goes on.
    Collect,
}

impl OnError {
    /// Whether this output ends the call.
    #[inline]
    pub(crate) fn halts<T, E>(self, output: &Result<T, E>) -> bool {
        output.is_err() && self == Self::StopAtFirst
    }
}

type Warn = Arc<dyn Fn(Warning) + Send + Sync>;

/// All that can be set.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) degree: Degree,
    pub(crate) carrier: Carrier,
    pub(crate) mode: Mode,
    pub(crate) on_error: OnError,
    pub(crate) look_ahead: Option<NonZeroUsize>,
    pub(crate) deadline: Option<Duration>,
    /// The call's own: it hears the first of these and tells the second.
    pub(crate) token: StopToken,
    pub(crate) stop: Option<StopToken>,
    pub(crate) announce: Option<StopToken>,
    pub(crate) warn: Option<Warn>,
    pub(crate) listener: Option<Listener>,
}

impl Settings {
    /// The defaults.
    pub(crate) fn new(degree: Degree) -> Self {
        Self {
            degree,
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
        }
    }

    /// The same for a call, which has a token and a listener of its own.
    pub(crate) fn for_a_call(&self) -> Self {
        let mut settings = self.clone();
        settings.token = StopToken::of_a_call(settings.stop.as_ref(), settings.announce.as_ref());
        settings.listener = settings.listener.as_ref().map(Listener::for_a_call);
        settings
    }

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
