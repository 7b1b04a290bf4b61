//! One file an experiment.
pub mod null;
pub mod oversubscription;
