//! One file an experiment.

pub mod create;
pub mod print;
