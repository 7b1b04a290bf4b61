//! The system calls that no safe library offers as an experiment needs them: one leaf a file.

pub mod counters;
pub mod disk;
pub mod fork;
pub mod gate;
pub mod map;
pub mod reap;
pub mod threads;
pub mod uring;
