//! A future handed to a runtime, and the end of it that stays: one result, one way, without knowing the runtime.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::discard::discard;

/// What [`for_each_spawned`](crate::ConcurrentExecution::for_each_spawned) gives to its spawner: a future that must be
/// polled to its end by somebody else.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// A one-shot channel between the task and who waits for it.
struct Oneshot<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    outcome: Outcome<T>,
    /// Of who waits.
    awaiting: Option<Waker>,
    /// Of the task, to hear that nobody waits any more.
    task: Option<Waker>,
}

enum Outcome<T> {
    None,
    Done(T),
    Panicked(Box<dyn Any + Send>),
    /// The task was dropped before its end.
    Dropped,
    /// Nobody waits.
    Unwanted,
}

impl<T> Oneshot<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task's last word.
    fn end(&self, outcome: Outcome<T>) {
        let awaiting = {
            let mut state = self.state();
            if matches!(state.outcome, Outcome::Unwanted) {
                // Dropped with the guard gone: a drop is foreign code.
                drop(state);
                drop(outcome);
                return;
            }
            state.outcome = outcome;
            state.awaiting.take()
        };
        if let Some(awaiting) = awaiting {
            awaiting.wake();
        }
    }
}

/// The task: runs the future where the runtime likes.
struct Running<N: Future> {
    /// None when it has ended.
    future: Option<Pin<Box<N>>>,
    oneshot: Arc<Oneshot<N::Output>>,
}

impl<N: Future> Future for Running<N> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let running = &mut *self;
        {
            // A waker is foreign code, too: it is made and dropped without the lock.
            let mut waker = Some(cx.waker().clone());
            let mut state = running.oneshot.state();
            if matches!(state.outcome, Outcome::Unwanted) {
                drop(state);
                running.future = None;
                return Poll::Ready(());
            }
            std::mem::swap(&mut state.task, &mut waker);
            drop(state);
        }
        let Some(future) = &mut running.future else {
            return Poll::Ready(());
        };
        let outcome = match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Outcome::Done(output),
            Err(panic) => Outcome::Panicked(panic),
        };
        discard(running.future.take());
        running.oneshot.end(outcome);
        Poll::Ready(())
    }
}

impl<N: Future> Drop for Running<N> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            discard(future);
            self.oneshot.end(Outcome::Dropped);
        }
    }
}

/// What stays: ends with the task's output, or with its panic.
pub(crate) struct Awaiting<T>(Arc<Oneshot<T>>);

impl<T> Future for Awaiting<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut waker = Some(cx.waker().clone());
        let outcome = {
            let mut state = self.0.state();
            if let Outcome::None = state.outcome {
                std::mem::swap(&mut state.awaiting, &mut waker);
                drop(state);
                return Poll::Pending;
            }
            std::mem::replace(&mut state.outcome, Outcome::None)
        };
        match outcome {
            Outcome::Done(output) => Poll::Ready(output),
            Outcome::Panicked(panic) => resume_unwind(panic),
            _ => panic!("a spawned task was dropped before it had ended: has its runtime been shut down?"),
        }
    }
}

impl<T> Drop for Awaiting<T> {
    fn drop(&mut self) {
        let (outcome, task) = {
            let mut state = self.0.state();
            let outcome = std::mem::replace(&mut state.outcome, Outcome::Unwanted);
            (outcome, state.task.take())
        };
        drop(outcome);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Hands `future` to a runtime.
pub(crate) fn start<N>(spawn: &mut impl FnMut(Task), future: N) -> Awaiting<N::Output>
where
    N: Future + Send + 'static,
    N::Output: Send + 'static,
{
    let oneshot = Arc::new(Oneshot {
        state: Mutex::new(State {
            outcome: Outcome::None,
            awaiting: None,
            task: None,
        }),
    });
    let awaiting = Awaiting(Arc::clone(&oneshot));
    spawn(Box::pin(Running {
        future: Some(Box::pin(future)),
        oneshot,
    }));
    awaiting
}
