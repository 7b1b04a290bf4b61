//! One file an experiment.

pub mod print;
