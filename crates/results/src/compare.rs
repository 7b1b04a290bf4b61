//! Runs compared: two, two sides of several, or more side by side.

mod columns;
mod compared;
#[cfg(test)]
mod made;
mod setting;
mod several;
mod states;
mod two;

pub use columns::{CaseRow, Column, Fact, Placed, Quantity, SideBySide, column_names, side_by_side};
pub use compared::{BetweenRuns, Compared, Known, Order, Repeated, RunData, SideError};
pub use setting::machine_differences;
pub use several::compare_sides;
pub use states::{OfStates, ratio_of_states, two_states};
pub use two::{ALPHA, compare, false_alarms, null_control};
