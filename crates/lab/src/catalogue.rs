//! The experiments there are, in the order they run and are reported.

use crate::experiment::Experiment;

/// Every experiment.
#[must_use]
pub fn catalogue() -> &'static [&'static dyn Experiment] {
    &[]
}

/// The experiment with this id.
#[must_use]
pub fn experiment(id: &str) -> Option<&'static dyn Experiment> {
    catalogue().iter().copied().find(|e| e.id() == id)
}
