//! One file an experiment.

pub mod calibration;
pub mod create;
pub mod foreground;
pub mod null;
pub mod oversubscription;
pub mod print;
pub mod probes;
pub mod turnaround;
