//! May the figures be believed? Nothing here changes a figure; it says what to doubt.
//!
//! | doubt | answer |
//! |---|---|
//! | each round resembles the one before | [`lag1`], [`effective_n`], [`warns_of_autocorrelation`] |
//! | the machine drifts | [`mann_kendall`] |
//! | there are two figures, not one | [`modes`] |
//! | one round was different | [`outliers`] |

mod autocorrelation;
mod modes;
mod outliers;
mod trend;

pub use autocorrelation::{effective_n, lag1, lag1_p, warns_of_autocorrelation};
pub use modes::{Mode, modes};
pub use outliers::outliers;
pub use trend::{Trend, mann_kendall};
