//! The system calls that no safe library offers as an experiment needs them: one leaf a file.

pub mod clone;
pub mod counters;
pub mod crew;
pub mod disk;
pub mod fork;
pub mod gate;
pub mod memory;
pub mod pthread;
pub mod reap;
pub mod sigchld;
pub mod spawn;
pub mod threads;
