//! The laboratory: experiments, the isolated workers that run their cases, the schedule that orders
//! them, and the analysis that reads findings off the stored samples.

pub mod analysis;
pub mod batch;
pub mod catalogue;
pub mod experiment;
pub mod experiments;
pub mod launch;
pub mod schedule;
pub mod selection;
pub mod turns;
pub mod view;
pub mod worker;

mod refusal;
mod sys;
