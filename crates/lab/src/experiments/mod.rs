//! One file an experiment.
