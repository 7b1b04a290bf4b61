//! Latencies as a histogram of three digits, which keeps its tail.

use hdrhistogram::Histogram;

/// The longest that has a place of its own: a minute.
const MOST_NS: u64 = 60_000_000_000;
const DIGITS: u8 = 3;
/// A quantile *q* is quoted only with so many values beyond it.
const BEYOND: f64 = 10.0;

/// Many latencies, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    /// Longer than the longest that has a place.
    overflow: u64,
}

/// A quantile that may be quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// In nanoseconds, with three digits.
    Ns(u64),
    /// Over a minute: there is no more to be said.
    Overflow,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(MOST_NS, DIGITS);
        Self {
            histogram: histogram.expect("a minute and three digits are within its bounds"),
            overflow: 0,
        }
    }
}

impl Latency {
    /// Enters one.
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Enters as many that are the same.
    pub fn record_many(&mut self, ns: u64, count: u64) {
        if self.histogram.record_n(ns, count).is_err() {
            self.overflow += count;
        }
    }

    /// How many were entered.
    pub fn count(&self) -> u64 {
        self.histogram.len() + self.overflow
    }

    /// How many took over a minute.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The longest, in ns; `None` of none. Over a minute it is only known to be that.
    pub fn most_ns(&self) -> Option<u64> {
        match (self.overflow, self.histogram.len()) {
            (0, 0) => None,
            (0, _) => Some(self.histogram.max()),
            _ => Some(MOST_NS),
        }
    }

    /// The mean in ns; `None` of none. A minute stands for all that is over it, so that it is at least that.
    pub fn mean_ns(&self) -> Option<f64> {
        let count = self.count();
        let sum = self.histogram.mean() * self.histogram.len() as f64 + self.overflow as f64 * MOST_NS as f64;
        (count > 0).then(|| sum / count as f64)
    }

    /// As [`quantile`](Self::quantile), in ns: a minute stands for all that is over it.
    pub fn ns(&self, q: f64) -> Option<u64> {
        self.quantile(q).map(|quantile| match quantile {
            Quantile::Ns(ns) => ns,
            Quantile::Overflow => MOST_NS,
        })
    }

    /// Enters those of another.
    pub fn merge(&mut self, other: &Self) {
        // Of the same bounds, so nothing can be lost.
        let _ = self.histogram.add(&other.histogram);
        self.overflow += other.overflow;
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.overflow = 0;
    }

    /// How many lie in each of these spans: up to the first bound, up to the second and so on, and beyond the last.
    pub fn spans(&self, bounds_ns: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds_ns.len() + 1];
        for value in self.histogram.iter_recorded() {
            let at = bounds_ns.partition_point(|&bound_ns| bound_ns < value.value_iterated_to());
            counts[at] += value.count_at_value();
        }
        counts[bounds_ns.len()] += self.overflow;
        counts
    }

    /// The quantile `q`, from 0 to 1; `None` where fewer than ten values lie beyond it, since it would be chance.
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        let count = self.count() as f64;
        if !(0.0..1.0).contains(&q) || count * (1.0 - q) < BEYOND * (1.0 - 1e-9) {
            return None;
        }
        // The histogram knows nothing of what overflowed, which are the longest.
        let of_those_within = q * count / self.histogram.len() as f64;
        Some(if of_those_within > 1.0 {
            Quantile::Overflow
        } else {
            Quantile::Ns(self.histogram.value_at_quantile(of_those_within))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::default();
        values.into_iter().for_each(|ns| latency.record(ns));
        latency
    }

    fn is_near(quantile: Option<Quantile>, ns: u64) -> bool {
        matches!(quantile, Some(Quantile::Ns(found)) if found.abs_diff(ns) <= ns / 1000)
    }

    #[test]
    fn quantiles_have_three_digits() {
        let latency = of((1..=1000).map(|i| i * 1_000_000));
        assert!(is_near(latency.quantile(0.5), 500_000_000));
        assert!(is_near(latency.quantile(0.99), 990_000_000));
    }

    #[test]
    fn a_quantile_needs_ten_values_beyond_it() {
        let latency = of(1..=1000);
        assert!(latency.quantile(0.99).is_some());
        assert_eq!(latency.quantile(0.991), None);
        assert_eq!(of([]).quantile(0.5), None);
        assert_eq!(latency.quantile(1.0), None);
    }

    #[test]
    fn what_overflows_stays_in_the_tail() {
        let latency = of((0..100).map(|i| if i < 80 { 1_000 } else { 2 * MOST_NS }));
        assert_eq!((latency.count(), latency.overflow()), (100, 20));
        assert!(is_near(latency.quantile(0.7), 1_000));
        assert_eq!(latency.quantile(0.9), Some(Quantile::Overflow));
        assert!(latency.ns(0.7).is_some_and(|ns| ns.abs_diff(1_000) <= 1));
        assert_eq!((latency.ns(0.9), latency.ns(0.95)), (Some(MOST_NS), None));
    }

    #[test]
    fn of_two_together_nothing_is_lost() {
        let late = |count| of((0..100).map(move |i| if i < count { 2 * MOST_NS } else { 1_000 }));
        let mut both = late(2);
        both.merge(&late(3));
        assert_eq!((both.count(), both.overflow()), (200, 5));
    }

    #[test]
    fn spans_have_how_many_lie_up_to_each_bound_and_beyond() {
        let latency = of([5, 10, 11, 20, 20, 500, 2 * MOST_NS, 3 * MOST_NS]);
        assert_eq!(latency.spans(&[10, 20, 400]), [2, 3, 0, 3]);
        assert_eq!(latency.spans(&[]), [8]);
        assert_eq!(of([]).spans(&[10]), [0, 0]);
    }

    #[test]
    fn the_mean_of_none_is_none_and_what_overflows_is_in_it() {
        assert_eq!(of([]).mean_ns(), None);
        assert_eq!(of([1_000, 1_500]).mean_ns(), Some(1_250.0));
        assert_eq!(of([3 * MOST_NS]).mean_ns(), Some(MOST_NS as f64));
        let half = of([1_000, 3 * MOST_NS]).mean_ns().unwrap();
        assert!((half / (MOST_NS as f64 / 2.0) - 1.0).abs() < 1e-3, "{half}");
    }
}
