//! Everything an experiment's file needs: `use threadgauge_lab::prelude::*`.

pub use std::time::Duration;

pub use threadgauge_results::{Cost, Finding, KeyNumber, Lack, Need, Origin, Params, Quote, Range, Scale};
pub use threadgauge_stats::{largest, smallest};

pub use crate::chart::{Chart, table};
pub use crate::claim::{Claim, Test, each, not_measured, not_testable, on_all_cpus, waiting};
pub use crate::experiment::{Answer, Experiment, Pair};
pub use crate::grid::{Plan, PlannedCase};
pub use crate::point::Point;
pub use crate::site::{Profile, Site};
pub use crate::statistic::{Estimate, Metric, Statistic, metric};
pub use crate::view::View;
pub use crate::worker::{CaseError, Worker};
pub use crate::{point, words};
