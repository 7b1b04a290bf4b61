//! One file an experiment.
pub mod oversubscription;
