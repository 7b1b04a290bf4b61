//! Helper processes as carriers: a crash costs one object, and a processor that does not return can be ended.
//!
//! Owns what the caller sees. `frame` is what goes over the channel, `helper` the far end of it, `child` the near
//! one, `crash` what can go wrong, and `helper_pool` the call itself.

mod child;
mod crash;
mod frame;
mod helper;
mod helper_pool;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::execution::ConcurrentExecution;
use crate::outcome::{Done, Report, Tried, Verdict};
use crate::trying::Sorter;
use child::Program;
pub use crash::{Crash, Failure};
pub use helper::{Processor, Registered, helper};

/// Objects and results up to this size, encoded, unless [`Processes::largest_frame`] says otherwise: 64 MiB.
const LARGEST_FRAME: usize = 64 << 20;

/// Runs processors in helper processes: this program, started again.
///
/// Made by [`ConcurrentExecution::processes`]. The [contract](ConcurrentExecution#the-contract) holds, and beyond it:
///
/// - The **processor** is a function with a name, a [`Processor`], that the program has passed to [`helper`](fn@helper)
///   first thing in `main`. It gets the object by value, read from its encoded form (serde, postcard), and so
///   does the caller with the result. What is not serialisable does not compile, nor does a closure that borrows.
///   Objects need no `Send`; the finisher gets the caller's own, as it was.
/// - At most *k* **helpers** are alive, each for object after object. They are started by running the program's file
///   anew, never by a bare fork, and only while there are objects for them.
/// - What ends a helper (a signal, an exit, an abort, a panic) is its **object's error**, a [`Crash`]; the helper is
///   replaced and the rest goes on.
/// - A processor that does not return is **ended**: at its [time limit](Self::time_limit), and at the call's
///   [deadline](ConcurrentExecution::deadline). Both are looked at between two finishers, so a slow finisher delays
///   them.
/// - A helper that **cannot be started** lowers their number by one; [`Report::shortage`] says why. If none is
///   left, the call ends with [`Ended::NoCarrier`](crate::Ended::NoCarrier), and what was never started comes back.
/// - **No helper is left behind**, alive or as a zombie, however the call ends; on Linux also if the caller is killed.
///   What a processor starts of its own is its own affair.
/// - Helpers are in **process groups of their own**: a Ctrl-C at the terminal is the caller's, whose stop token lets
///   them end in peace.
/// - Helpers have the caller's standard output and error, which the channel does not use, and an empty standard input.
/// - The [stop token](ConcurrentExecution::stop) is not seen in helpers, and the carrier and the mode mean nothing.
///
/// ```rust,standalone_crate
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
/// use threadgauge_exec::ConcurrentExecution;
/// use threadgauge_exec::process::{self, Crash, Processor};
///
/// static DIVIDE: Processor<u32, u32> = Processor::new("divide", |n| {
///     if n == 3 { std::process::abort() } // worse than a panic
///     60 / n
/// });
///
/// fn main() {
///     process::helper(&[&DIVIDE]); // first thing: in a helper, it does not return
///
///     let two = NonZeroUsize::new(2).unwrap();
///     let (mut sum, mut lost) = (0, Vec::new());
///     ConcurrentExecution::new(two).processes().time_limit(Duration::from_secs(60)).for_each(
///         0..5,
///         &DIVIDE,
///         |done| match done.result {
///             Ok(quotient) => sum += quotient,
///             Err(crash) => lost.push((done.object, crash)),
///         },
///     );
///     lost.sort_by_key(|(object, _)| *object);
///     assert_eq!(sum, 60 + 30 + 15);
///     assert_eq!(lost[0], (0, Crash::Panicked("attempt to divide by zero".into())));
///     assert_eq!(lost[1], (3, Crash::Signalled(6)));
/// }
/// ```
///
/// A processor that borrows cannot go to another process:
///
/// ```compile_fail,E0308
/// # use threadgauge_exec::process::Processor;
/// let offset = 3;
/// let add: Processor<u32, u32> = Processor::new("add", |n| n + offset);
/// ```
///
/// Nor can an object that has no encoded form, so none that brings a processor of its own; the registered function may
/// choose by what the object says:
///
/// ```compile_fail,E0277
/// # use std::num::NonZeroUsize;
/// # use threadgauge_exec::{ConcurrentExecution, process::Processor};
/// static ASK: Processor<std::thread::ThreadId, ()> = Processor::new("ask", |_| ());
/// ConcurrentExecution::new(NonZeroUsize::MIN)
///     .processes()
///     .for_each([std::thread::current().id()], &ASK, |_| ());
/// ```
#[derive(Clone, Debug)]
pub struct Processes {
    execution: ConcurrentExecution,
    time_limit: Option<Duration>,
    largest_frame: usize,
    program: Option<PathBuf>,
}

impl ConcurrentExecution {
    /// Helper processes instead of threads; see [`Processes`].
    #[must_use]
    pub fn processes(self) -> Processes {
        Processes {
            execution: self,
            time_limit: None,
            largest_frame: LARGEST_FRAME,
            program: None,
        }
    }
}

impl Processes {
    /// How long one object may take, from when it is handed to a helper. Default: as long as it likes.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// How large an object or a result may be, encoded, in bytes. It bounds the memory that a helper gone mad can make
    /// the caller use. Default: 64 MiB.
    #[must_use]
    pub fn largest_frame(mut self, bytes: NonZeroUsize) -> Self {
        self.largest_frame = bytes.get();
        self
    }

    /// The program to start as helper. Default: this one, on Linux also if its file has been replaced or deleted since
    /// it was started. It must have the same
    /// processors, with the same types.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// As [`ConcurrentExecution::for_each`]; the finisher gets a [`Crash`] where there is no result.
    ///
    /// # Panics
    ///
    /// As there; the running processors are ended. And in a process that was started as a helper whose `main` did not
    /// call [`helper`](fn@helper).
    pub fn for_each<I, R, F, V>(
        &self,
        objects: I,
        processor: &Processor<I::Item, R>,
        mut finisher: F,
    ) -> Report<I::IntoIter, Result<R, Crash>, V::Break>
    where
        I: IntoIterator,
        I::Item: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
        F: FnMut(Done<I::Item, Result<R, Crash>>) -> V,
        V: Verdict,
    {
        let program = self.program_for(processor.name());
        self.execution.call(
            objects.into_iter(),
            &(),
            |done| finisher(done).flow(),
            |shared, settings, sink| {
                helper_pool::run(&program, shared, settings, sink, |output| output, |_| false)
            },
        )
    }

    /// As [`ConcurrentExecution::try_for_each`]; a crash is a failure like an error that the processor returned.
    ///
    /// # Panics
    ///
    /// As [`for_each`](Self::for_each).
    pub fn try_for_each<I, T, E, F, V>(
        &self,
        objects: I,
        processor: &Processor<I::Item, Result<T, E>>,
        finisher: F,
    ) -> Tried<I::IntoIter, T, Failure<E>, V::Break>
    where
        I: IntoIterator,
        I::Item: Serialize + DeserializeOwned,
        T: Serialize + DeserializeOwned,
        E: Serialize + DeserializeOwned,
        F: FnMut(Done<I::Item, T>) -> V,
        V: Verdict,
    {
        let program = self.program_for(processor.name());
        let on_error = self.execution.when_failing();
        let mut sorter = Sorter::new(finisher);
        let flat = |output: Result<Result<T, E>, Crash>| match output {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(Failure::Returned(error)),
            Err(crash) => Err(Failure::Crashed(crash)),
        };
        let report = self.execution.call(
            objects.into_iter(),
            &(),
            |done| sorter.finish(done),
            |shared, settings, sink| {
                helper_pool::run(&program, shared, settings, sink, flat, |output| {
                    on_error.halts(output)
                })
            },
        );
        sorter.tried(report)
    }

    fn program_for(&self, processor: &'static str) -> Program {
        helper::refuse_if_unserved();
        Program {
            path: self.program.clone(),
            processor,
            largest: self.largest_frame,
            time_limit: self.time_limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_64_mib_and_an_object_any_time_unless_one_says_otherwise() {
        let processes = ConcurrentExecution::new(NonZeroUsize::MIN).processes();
        assert_eq!(processes.largest_frame, 67_108_864);
        assert_eq!(processes.time_limit, None);
    }
}
