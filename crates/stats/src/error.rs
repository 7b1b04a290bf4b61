//! What can be wrong with the values handed in. The world's failures only: our own are asserted.

use thiserror::Error;

/// Why a statistic has no answer. Every message names the place and what to try.
///
/// ```
/// use threadgauge_stats::{StatsError, median};
///
/// assert_eq!(median(&[]), Err(StatsError::Empty));
/// assert!(matches!(median(&[1.0, f64::NAN]), Err(StatsError::NotFinite { index: 1, .. })));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[non_exhaustive]
pub enum StatsError {
    /// No value at all.
    #[error("no values: was every sample of this case gated or failed?")]
    Empty,
    /// A value is NaN or infinite. It is refused, since a comparison with NaN would pass silently.
    #[error("value {index} is {value}, not a finite number: drop the sample and count it as failed")]
    NotFinite {
        /// Position of the first such value, from 0.
        index: usize,
        /// The value itself.
        value: f64,
    },
    /// A ratio, a logarithm or a geometric mean needs values above zero.
    #[error("value {index} is {value}, but a ratio needs values above 0: compare differences instead")]
    NotPositive {
        /// Position of the first such value, from 0.
        index: usize,
        /// The value itself.
        value: f64,
    },
    /// Values paired by round must be equally many.
    #[error("{a} values cannot be paired with {b}: drop the rounds that lack either, or compare unpaired")]
    LengthMismatch {
        /// How many on the first side.
        a: usize,
        /// How many on the second side.
        b: usize,
    },
    /// The method is not valid with so few values.
    #[error("{n} values, but this method needs at least {needed}: measure more rounds")]
    TooFew {
        /// How many there are.
        n: usize,
        /// How many it takes.
        needed: usize,
    },
    /// An error rate outside (0, 1).
    #[error("alpha is {alpha}, but an error rate lies between 0 and 1: 0.05 asks for a 95 % interval")]
    BadAlpha {
        /// The rate that was asked for.
        alpha: f64,
    },
    /// A line needs at least two different `x`.
    #[error("every x is {x}: a slope needs two different ones")]
    NoSpread {
        /// The one `x` there is.
        x: f64,
    },
}

/// Refuses an empty slice and anything not finite.
pub(crate) fn finite(values: &[f64]) -> Result<(), StatsError> {
    if values.is_empty() {
        return Err(StatsError::Empty);
    }
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(StatsError::NotFinite {
            index,
            value: values[index],
        }),
        None => Ok(()),
    }
}

/// Refuses what [`finite`] refuses, zeros and negative values.
pub(crate) fn positive(values: &[f64]) -> Result<(), StatsError> {
    finite(values)?;
    match values.iter().position(|v| *v <= 0.0) {
        Some(index) => Err(StatsError::NotPositive {
            index,
            value: values[index],
        }),
        None => Ok(()),
    }
}

/// Refuses an error rate outside (0, 1), NaN included.
pub(crate) fn rate(alpha: f64) -> Result<(), StatsError> {
    if alpha > 0.0 && alpha < 1.0 {
        Ok(())
    } else {
        Err(StatsError::BadAlpha { alpha })
    }
}

/// Refuses sides of different length.
pub(crate) fn paired(a: &[f64], b: &[f64]) -> Result<(), StatsError> {
    if a.len() == b.len() {
        Ok(())
    } else {
        Err(StatsError::LengthMismatch {
            a: a.len(),
            b: b.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_where_and_what_to_try() {
        insta::assert_snapshot!(
            StatsError::NotPositive { index: 3, value: -0.5 },
            @"value 3 is -0.5, but a ratio needs values above 0: compare differences instead"
        );
        insta::assert_snapshot!(
            StatsError::LengthMismatch { a: 7, b: 6 },
            @"7 values cannot be paired with 6: drop the rounds that lack either, or compare unpaired"
        );
    }

    #[test]
    fn nan_infinity_and_zero_are_refused_where_they_must_be() {
        assert!(matches!(
            finite(&[1.0, f64::NAN]),
            Err(StatsError::NotFinite { index: 1, .. })
        ));
        assert!(matches!(
            finite(&[f64::NEG_INFINITY]),
            Err(StatsError::NotFinite { index: 0, .. })
        ));
        assert_eq!(
            positive(&[1.0, 0.0]),
            Err(StatsError::NotPositive { index: 1, value: 0.0 })
        );
        assert!(rate(f64::NAN).is_err() && rate(0.0).is_err() && rate(1.0).is_err());
        assert!(rate(-0.1).is_err() && rate(0.5).is_ok() && rate(1.5).is_err());
        assert_eq!(paired(&[1.0], &[2.0]), Ok(()));
        assert_eq!(
            paired(&[1.0], &[]),
            Err(StatsError::LengthMismatch { a: 1, b: 0 })
        );
    }
}
