//! Bounded concurrent execution: at most *k* objects at work, each finished on the caller's own thread as soon as it
//! is done.
//!
//! # The problem
//!
//! There are many independent objects to process (files, pages, children, points of a grid), each takes long or waits,
//! and with every result something has to be done that touches local state: add to a total, fill a table, draw a
//! progress bar, write a line. One after the other is slow. All at once is too many. So one builds a pool and a
//! channel, puts the state behind a lock or at the end of the channel, and then gets to know what is not in the
//! first draft: the bound that counts the wrong thing, the panic that leaves a thread and a caller waiting
//! forever, the results that pile up because nobody takes them, the error after which everything goes on.
//!
//! # The type
//!
//! [`ConcurrentExecution`] is the loop that one wanted to write. The *processor* runs on other threads, never more
//! than *k* at a time; the *finisher* runs here, one at a time, so it may use whatever the caller may:
//!
//! ```
//! use std::num::NonZeroUsize;
//! use threadgauge_exec::ConcurrentExecution;
//!
//! # fn call_the_service(n: &mut u32) -> String { n.to_string() }
//! let four = NonZeroUsize::new(4).unwrap();
//! let mut answers = Vec::new(); // no Arc, no Mutex, no channel
//! let report = ConcurrentExecution::new(four).for_each(
//!     1..=100,
//!     |n| call_the_service(n),            // at most four at once
//!     |done| {
//!         answers.push(done.result);      // here, as soon as each is done
//!         let percent = answers.len();    // and so a progress bar is one line
//! #       let _ = percent;
//!     },
//! );
//! assert_eq!((report.finished, answers.len()), (100, 100));
//! ```
//!
//! Objects come from any iterator and are taken from it only when there is somebody to run them. Objects, results,
//! processor and finisher may borrow from the caller. What happens when something stops early, fails or panics is a
//! [written contract](ConcurrentExecution#the-contract).
//!
//! # How many at once
//!
//! A number, or [`Degree::adaptive`], which looks for the number that brings the most objects a second while it
//! runs: a few for work that computes, many for work that waits, no more than the server bears for work that queues.
//!
//! ```
//! use threadgauge_exec::{ConcurrentExecution, Degree};
//!
//! let mut lengths = 0;
//! let report = ConcurrentExecution::new(Degree::adaptive(..))
//!     .for_each(["a", "bb", "ccc"], |text| text.len(), |done| lengths += done.result);
//! assert_eq!(lengths, 6);
//! println!("{} at once in the end, never more than {}", report.last_degree, report.most_running);
//! ```
//!
//! # Cancel, and go on later
//!
//! ```
//! use std::num::NonZeroUsize;
//! use std::ops::ControlFlow;
//! use threadgauge_exec::{ConcurrentExecution, Ended, StopToken};
//!
//! let two = NonZeroUsize::new(2).unwrap();
//! let token = StopToken::new();
//! let report = ConcurrentExecution::new(two).announce_stop(&token).for_each(
//!     0..1_000,
//!     |n| {
//!         // A long processor looks now and then whether it is still wanted.
//!         if token.is_stopped() { 0 } else { *n }
//!     },
//!     |done| if done.result == 10 { ControlFlow::Break("found") } else { ControlFlow::Continue(()) },
//! );
//! assert_eq!(report.ended, Ended::Broken("found"));
//! // Nothing is lost: finished here, or processed too late, or never started.
//! assert_eq!(report.finished + report.unfinished.len() + report.rest.count(), 1_000);
//! ```
//!
//! # Who runs where
//!
//! | carrier | made by | for |
//! |---|---|---|
//! | [`Carrier::Pool`]: threads made for the call | default | nearly everything |
//! | [`ThreadPool`]: threads that stay between calls | `.carrier(&pool)` | many short calls; one bound over several callers |
//! | [`Carrier::ThreadPerObject`] | `.carrier(…)` | processors that must not share a thread |
//! | [`UpFront`]: a thread for each object, all made before any runs | `.up_front()` | making threads while others work is dear |
//! | `process::Processes`: helper processes (feature `process`) | `.processes()` | processors that crash, leak or do not return |
//! | futures, polled here or spawned (feature `async`) | `.for_each_async(…)`, `.for_each_spawned(…)` | thousands that wait |
//!
//! What a carrier cannot do does not compile:
//!
//! | | objects, results and processor may borrow | an endless iterator | ends a processor that does not return |
//! |---|---|---|---|
//! | pools, `ThreadPerObject` | yes | yes | no |
//! | `UpFront` | yes | no: their number must be known | no |
//! | helper processes | no: serialised, and a registered function | yes | **yes** |
//! | futures polled by the caller | yes, and need no `Send` | yes | if it waits: drop the call |
//! | futures spawned | no: `'static` and `Send` | yes | if it waits: drop the call |
//!
//! | [`Mode`], of a pool | the caller | a result waits at most for |
//! |---|---|---|
//! | `Prompt` | helps while processors are shorter than a wake-up | one such short processor, or a wake-up |
//! | `FreeCaller` | only finishes | a wake-up; a scheduler's slice where short processors fill all CPUs |
//! | `Throughput` | is one of the *k* | one processor, however long, or 50 µs of short ones |
//!
//! # What one sees of it
//!
//! Each [`Done`] has its [`Times`]: queue wait, service, completion, turnaround. The [`Report`] says how many were at
//! work at most, how long it took and why it ended. [`on_progress`](ConcurrentExecution::on_progress) tells how far it
//! is while it runs. With the cargo feature `tracing` each call is a span and each finished object an event in it,
//! both with the target `threadgauge_exec`; for futures there are the events alone, in the caller's own span.
//!
//! # Programs to start from
//!
//! In the folder `examples`, each without an `Arc`, a `Mutex` or a channel of its own: `word_count` and `parse_files`
//! (files, with the first error or all), `call_service` (a slow service, adaptive), `children` (a child process an
//! object), `progress_bar`, `cancel` (Ctrl-C and a deadline). `overhead` and `adaptive` measure.
//!
//! # What it is not
//!
//! It does not split one object's work (that is rayon's), is no runtime for futures, and does not end threads: nobody
//! can, while they borrow. Unless a [`ThreadPool`] is given, a call makes its threads and ends them, about 35 µs each.

mod adaptive;
mod clock;
mod degree;
mod discard;
mod execution;
mod flag;
#[cfg(feature = "async")]
mod futures;
mod large;
mod notify;
mod order;
mod outcome;
mod own_threads;
mod pool;
#[cfg(all(feature = "process", unix))]
pub mod process;
mod progress;
mod report;
mod result_sink;
mod ring;
mod scoped;
mod settings;
mod shared;
#[cfg(feature = "async")]
mod spawned;
mod stop;
mod sync;
mod thread_per_object;
mod thread_pool;
mod thread_source;
mod trace;
mod trying;
mod up_front;
mod work;

pub use degree::Degree;
pub use execution::ConcurrentExecution;
pub use order::{longest_first, shortest_first, shuffled};
pub use outcome::{Done, Ended, Failed, Incomplete, Report, Rest, Times, Tried, Verdict, Warning};
pub use progress::Progress;
pub use settings::{Carrier, Mode, OnError};
#[cfg(feature = "async")]
pub use spawned::Task;
pub use stop::StopToken;
pub use thread_pool::ThreadPool;
pub use up_front::UpFront;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
