//! The degree: how many processors may be at work at once.

use std::num::NonZeroUsize;
use std::ops::{Bound, RangeBounds};
use std::sync::OnceLock;

/// The most processors at work at once: a number, or one that the call finds by itself.
///
/// ```
/// use std::num::NonZeroUsize;
/// use threadgauge_exec::{ConcurrentExecution, Degree};
///
/// let four = NonZeroUsize::new(4).unwrap();
/// ConcurrentExecution::new(four).for_each(0..9, |_| (), |_| ());
/// let report = ConcurrentExecution::new(Degree::adaptive(four..=four)).for_each(0..9, |_| (), |_| ());
/// assert_eq!(report.last_degree, 4);
/// ```
///
/// # Adaptive
///
/// For work of which one does not know, or that is not the same everywhere, whether it computes, waits, or overloads a
/// server. The call begins with as many as there are CPUs (two at least), and then looks for the lowest degree
/// within a few percent of the most objects a second: by growing while that pays, later by trying the neighbours of
/// the best now and then; and anew when the throughput changes. A rise after which clearly fewer objects end is taken
/// back at once, and not made again for long. How much CPU time the processors use tells it how
/// much room there is (threads on Linux and Android; elsewhere, and with helper processes and futures, it goes by the
/// throughput alone).
///
/// Expect it within 5 % of the best fixed degree in steady state, and within 10 % over 500 objects of a millisecond or
/// more where the best is 16 or less and a degree too high does little harm. It learns by looking, and a look costs.
/// **Give a number, or a bound, where you know one**, above all in these cases:
///
/// - *Hundreds may wait at once.* A few hundred objects are done before it has come so far, in two to six times the
///   least time: give the number.
/// - *A server breaks down beyond some load* (a lock, a database, a disk that seeks). Each look beyond costs what was
///   started by then. Where a request is half as slow again with as many waiting as are served, typically 5 to 20 % of
///   500 objects; where it is three times as slow, 10 to 25 %; by bad luck two or three times. Give the load as the
///   upper bound. On a machine of many CPUs the bound counts the more, as the call begins with as many.
/// - *Few objects.* It needs some ten rounds to find the degree; with fewer than a hundred objects it has hardly begun.
/// - *Service times that vary very much*, or come in step with each other: it may take long to see what is better.
///
/// A processor that waits for *another object's* processor or finisher needs a fixed degree, or a lower bound that is
/// high enough.
///
/// It lowers the degree by starting nothing until enough have ended, so for a moment more may run than the present
/// degree; never more than the upper bound. Threads are made when they are first wanted and sleep while the degree is
/// below their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Degree {
    /// This many.
    Fixed(NonZeroUsize),
    /// What brings the most objects a second, within bounds. Made by [`Degree::adaptive`], which puts them in order:
    ///
    /// ```compile_fail,E0639
    /// # use std::num::NonZeroUsize;
    /// # use threadgauge_exec::Degree;
    /// Degree::Adaptive { least: NonZeroUsize::new(5).unwrap(), most: NonZeroUsize::new(2).unwrap() };
    /// ```
    #[non_exhaustive]
    Adaptive {
        /// Never fewer.
        least: NonZeroUsize,
        /// Never more, and then this many threads.
        most: NonZeroUsize,
    },
}

impl Degree {
    /// Adaptive within `bounds`. Where one is missing: 1, and 256 or four times the CPUs, whichever is more. If the
    /// lower is above the upper, the upper counts for both.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use threadgauge_exec::Degree;
    ///
    /// let sixty = NonZeroUsize::new(60).unwrap();
    /// let Degree::Adaptive { least, most, .. } = Degree::adaptive(..=sixty) else { panic!() };
    /// assert_eq!((least.get(), most), (1, sixty));
    /// Degree::adaptive(..);
    /// ```
    #[must_use]
    pub fn adaptive(bounds: impl RangeBounds<NonZeroUsize>) -> Self {
        let least = match bounds.start_bound() {
            Bound::Included(least) => *least,
            Bound::Excluded(below) => below.saturating_add(1),
            Bound::Unbounded => NonZeroUsize::MIN,
        };
        let most = match bounds.end_bound() {
            Bound::Included(most) => *most,
            Bound::Excluded(above) => NonZeroUsize::new(above.get() - 1).unwrap_or(NonZeroUsize::MIN),
            Bound::Unbounded => {
                least.max(NonZeroUsize::MIN.saturating_add(cpus().saturating_mul(4).max(256) - 1))
            }
        };
        Self::Adaptive {
            least: least.min(most),
            most,
        }
    }

    /// No call has ever more processors at work than this.
    pub(crate) fn most(self) -> usize {
        match self {
            Self::Fixed(degree) => degree.get(),
            Self::Adaptive { most, .. } => most.get(),
        }
    }
}

impl From<NonZeroUsize> for Degree {
    fn from(degree: NonZeroUsize) -> Self {
        Self::Fixed(degree)
    }
}

/// CPUs that this process may use; read once, it costs a hundred microseconds.
pub(crate) fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    use super::*;

    #[test]
    fn an_adaptive_degree_keeps_within_its_bounds() {
        let of = |number| NonZeroUsize::new(number).unwrap();
        let most = 256.max(4 * cpus());
        for (lower, upper, least, most) in [
            (Included(of(3)), Included(of(60)), 3, 60),
            (Excluded(of(3)), Excluded(of(60)), 4, 59),
            (Unbounded, Unbounded, 1, most),
            (Included(of(most + 7)), Unbounded, most + 7, most + 7),
            (Included(of(9)), Included(of(4)), 4, 4),
            (Unbounded, Excluded(of(1)), 1, 1),
        ] {
            let degree = Degree::adaptive((lower, upper));
            let expected = Degree::Adaptive {
                least: of(least),
                most: of(most),
            };
            assert_eq!(degree, expected, "{lower:?} {upper:?}");
            assert_eq!(degree.most(), most);
        }
        assert_eq!(Degree::Fixed(of(7)).most(), 7);
    }
}
