//! What a run found: the data model, the store that keeps every sample, the published claims and
//! their verdicts, and the comparison of two runs.
//!
//! Data comes in as samples and goes out as a [`Results`] document. Nothing here measures or draws.
#![forbid(unsafe_code)]

mod acts;
mod claims;
mod compare;
mod disturbed;
mod each;
mod export;
pub mod files;
mod gate;
mod history;
mod lack;
mod model;
pub mod outside;
mod params;
pub mod published;
mod rounds;
mod runtime;
mod sample;
mod store;
mod times;
mod trust;
pub mod units;
mod verdict;
mod waits_for;

pub use acts::{Act, TWO_SYSTEM_CALLS};
pub use claims::{Claim, Condition, Curve, Evidence, Quote, Range, Rounds, Rule, claim, claims, claims_of};
pub use compare::{
    ALPHA, BetweenRuns, CaseRow, Column, Compared, Fact, Known, OfStates, Order, Placed, Quantity, Repeated,
    RunData, SideBySide, SideError, between_sides, check_sides, column_names, compare, compare_sides,
    differ_in_state, false_alarms, machine_differences, null_control, ratio_of_states, side_by_side,
    two_states, with_all_cpus,
};
pub use disturbed::Disturbed;
pub use each::{Alone, Each, ITEM};
pub use export::{EXPORT_ENDING, ExportError, export, import, import_from, is_export};
pub use gate::{Breach, Gate, Judged, Limit};
pub use history::{Change, Course, FEWEST_RUNS, History, HistoryPoint, HistoryRun, histories};
pub use lack::{Lack, Need};
pub use model::*;
pub use params::{OPTIONAL, Params, Value};
pub use rounds::{ByRound, RanBeside, Side, compare_by_round, disturbed_alike, paired};
pub use runtime::Runtime;
pub use sample::{Metric, STOPPED_S, Sample, StoredSample, THROTTLED_S, Take, by_round, disturbed};
pub use store::{LARGEST_SEED, Look, RunRecord, STORE_FILE, Store, StoreError, StoredCase, StoredExperiment};
pub use threadgauge_stats::Level;
pub use times::Times;
pub use verdict::{decide, rule};
pub use waits_for::{Decided, Decisions, Offers, UnknownWait, WaitsFor};
