//! One file an experiment.

pub mod create;
pub mod null;
pub mod oversubscription;
pub mod print;
pub mod turnaround;
