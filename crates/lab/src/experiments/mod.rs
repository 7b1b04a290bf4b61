//! One file an experiment.

pub mod create;
