//! The arithmetic of `threadgauge`: estimates, intervals, comparisons, stopping rules, diagnostics.
//!
//! **Owns** every number that is computed from samples, and the rules by which it becomes a word
//! ("faster", "same", "unknown"). **Leaves out** where samples come from and how numbers are shown:
//! there is no input or output, no clock and no global state here, and the same input gives the
//! same output on every machine.
//!
//! Four promises hold throughout:
//!
//! - **the unit of analysis is one invocation's value**: `n` counts worker processes, never batches;
//! - **an interval carries its exact level**: seven rounds give 98.4 %, and it says so
//!   ([`Interval::level`]);
//! - **ignorance is never equality**: too few values give `None` or
//!   [`Outcome::Unknown`], a value that is not a number gives a [`StatsError`];
//! - **nothing is deleted**: outliers are marked, ties count against the finding, not for it.
//!
//! | question | answer |
//! |---|---|
//! | what is one figure? | [`summarise`]: the median and its sign interval |
//! | how do two figures differ? | [`compare_paired`], [`compare_unpaired`], [`Level`] |
//! | … of several runs each? | [`compare_runs`], [`compare_pairs_of_runs`] |
//! | do several together lie beyond an edge? | [`jointly_beyond`] |
//! | in which order do several stand? | [`rank`], [`holm`] |
//! | how far do two orders agree? | [`kendall_tau`] |
//! | when is it enough? | [`StoppingRule`] |
//! | what is left once a cost is taken away? | [`paired_difference`] |
//! | may I believe it? | [`diagnostics`] |
//! | from where on is one ahead? | [`crossing`] |
//! | where in a series of runs did it change? | [`change_points`] |
//! | how does it grow? | [`slope`] |
//! | how does throughput scale with the number of units? | [`Scalability::fit`] |
//! | an interval for anything else | [`bca`], at 20 values or more |
//!
//! ```
//! use threadgauge_stats::{Better, Outcome, compare_paired, summarise};
//!
//! let thread_ns = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.5];
//! let process_ns = [151.0, 150.0, 149.5, 152.0, 151.5, 148.0, 150.5];
//!
//! let summary = summarise(&thread_ns, 0.05)?;
//! assert_eq!(summary.median, 100.0);
//! assert_eq!(summary.ci.unwrap().level, 0.984375); // exact for n = 7
//!
//! let change = compare_paired(&thread_ns, &process_ns, Better::Lower)?;
//! assert_eq!(change.outcome, Outcome::Slower);
//! # Ok::<(), threadgauge_stats::StatsError>(())
//! ```
#![forbid(unsafe_code)]

mod bootstrap;
mod change_points;
mod compare;
mod crossing;
pub mod diagnostics;
mod error;
mod estimator;
mod fit;
mod interval;
mod joint;
mod level;
mod mann_whitney;
mod overhead;
mod pocock;
mod ranking;
mod runs;
mod select;
mod signed_rank;
mod stopping;
mod summary;

pub use bootstrap::bca;
pub use change_points::{ChangePoint, FEWEST as FEWEST_FOR_CHANGES, change_points};
pub use compare::{BAND, Better, Comparison, Outcome, compare_paired, compare_unpaired, null_misleads};
pub use crossing::{Between, crossing};
pub use error::StatsError;
pub use estimator::Estimator;
pub use fit::{Scalability, slope};
pub use interval::{Estimate, Interval, sign_interval, sign_test};
pub use joint::jointly_beyond;
pub use level::Level;
pub use mann_whitney::unpaired_ratio;
pub use overhead::{Difference, paired_difference};
pub use pocock::pocock_alpha;
pub use ranking::{Order, Ranked, Separation, holm, kendall_tau, rank};
pub use runs::{between_runs, compare_pairs_of_runs, compare_runs, ratio_of_runs, run_levels};
pub use signed_rank::{hodges_lehmann, paired_ratio, signed_rank_p};
pub use stopping::StoppingRule;
pub use summary::{Summary, geometric_mean, largest, median, smallest, summarise};
