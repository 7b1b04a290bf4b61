//! Runs compared: two, two sides of several, or more side by side.

mod all_cpus;
mod columns;
mod compared;
mod cpus;
mod emulated;
#[cfg(test)]
mod made;
mod setting;
mod several;
mod states;
mod two;

pub use all_cpus::with_all_cpus;
pub use columns::{
    CaseRow, Column, Fact, Placed, Quantity, SideBySide, between_sides, column_names, side_by_side,
};
pub use compared::{BetweenRuns, Compared, Known, Order, Repeated, RunData, SideError};
pub(crate) use emulated::is_emulated;
pub use setting::machine_differences;
pub use several::{check_sides, compare_sides};
pub use states::{OfStates, differ_in_state, ratio_of_states, two_states};
pub use two::{ALPHA, compare, false_alarms, null_control};
