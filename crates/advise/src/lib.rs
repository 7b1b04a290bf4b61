//! How many, and which design: a workload in a user's words, answered from what units cost on a machine.
//!
//! ```text
//! Description ─▶ Workload ─┐
//! a run ─▶ Basis (costs) ──┼─▶ candidates ─▶ simulator ─▶ predictions ─▶ Advice ─▶ text, JSON, settings, chart
//! Machine ─────────────────┘
//! ```
//!
//! [`simulator`] is the one model: tasks that compute share CPUs, wait, and take places in pools. [`design`] says what
//! each way to use processes, threads and event loops is in it and what it costs beside; [`choose`] takes the simplest
//! of those that are as good as the best. Nothing here measures, and nothing is read but a run ([`costs`]).
#![forbid(unsafe_code)]

pub mod advice;
pub mod choose;
pub mod costs;
pub mod curve;
pub mod design;
pub mod predict;
pub mod quantity;
pub mod rules;
pub mod settings;
pub mod simulator;
pub mod text;
pub mod workload;

pub use advice::{Advice, advise};
pub use costs::Basis;
pub use design::Machine;
pub use text::text;
pub use workload::{Description, Workload, Wrong};
