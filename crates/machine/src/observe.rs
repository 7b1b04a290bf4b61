//! A live program observed: a process and all below it, its threads, what they run, want a CPU and wait for, and why it
//! is as fast as it is.
//!
//! ```text
//! Sampler ──▶ Look (one moment) ──▶ Course (threads, groups, all; over the time) ──▶ judge: verdicts in words
//! ```
//!
//! [`Sampler`] reads `/proc` and control groups, without special rights, and never attaches to, stops or changes what
//! it looks at. [`Course`] and [`judge`] are arithmetic and rules on what it has read. A single look at a program and
//! what it holds is [`Activity`](crate::Activity).
//!
//! It leaves out: CPU time by task, whose intervals are statistics; and how anything is shown.
//!
//! ```
//! use std::time::Duration;
//! use threadgauge_machine::observe::{Course, Sampler};
//!
//! let mut sampler = Sampler::new(std::process::id().cast_signed())?;
//! let mut course = Course::default();
//! course.add(sampler.look()?);
//! std::thread::sleep(Duration::from_millis(10));
//! course.add(sampler.look()?);
//! assert!(course.cpus() >= 0.0 && course.threads().count() >= 1);
//! # Ok::<(), threadgauge_machine::observe::ObserveError>(())
//! ```

mod course;
mod files;
mod look;
mod pace;
mod sampler;
#[cfg(test)]
mod testing;
mod verdict;
mod wait;

pub use course::{Amounts, Course, Group, Interval, QuotaSpan, Tracked, folded};
pub use look::{Look, ObserveError, Seen, ThreadKey, ThreadLook};
pub use pace::MOST_OWN_SHARE;
pub use sampler::Sampler;
pub use verdict::{Capacity, Verdict, VerdictKind, judge};
pub use wait::WaitKind;

pub use crate::cgroup::QuotaCounts;
pub use crate::taskstat::IoCounts;
