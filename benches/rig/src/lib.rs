//! What the chores and the benchmarks beside other programs share: starting programs, compiling those of `guests`, and
//! how estimates with intervals are written.
//!
//! What is measured, and how, belongs to who measures: `xtask` and `benches/exec`.
#![forbid(unsafe_code)]
// It talks to the person who started a chore.
#![allow(clippy::print_stderr)]

#[cfg(feature = "figures")]
pub mod figures;
#[path = "../../../guests/compile.rs"]
pub mod guests;
pub mod shell;
