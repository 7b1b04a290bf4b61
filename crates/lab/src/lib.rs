//! The laboratory: experiments, the isolated workers that run their cases, the schedule that orders
//! them, and the analysis that reads findings off the stored samples.

pub mod analysis;
pub mod batch;
pub mod chart;
pub mod claim;
mod diagnosis;
pub mod experiment;
pub mod grid;
pub mod launch;
pub mod point;
pub mod prelude;
pub mod refusal;
pub mod schedule;
pub mod selection;
pub mod serve;
pub mod server;
pub mod site;
pub mod statistic;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod turns;
pub mod view;
pub mod whole;
pub mod worker;
