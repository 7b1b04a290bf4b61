//! The duration of single creations, kept so that keeping them costs nothing.
//!
//! A hundred thousand figures would be 200 pages of the parent's memory, which every fork would copy: the
//! record would lengthen what it records. So at most a page of them is kept, evenly spread over the run.

/// How many are kept at most: one page of 4 bytes each.
const KEPT: u64 = 1024;

/// Durations of creations, every k-th of them.
#[derive(Debug, Default)]
pub struct Latencies {
    ns: Vec<u32>,
    every: u64,
    seen: u64,
}

impl Latencies {
    /// Room for a spread over `count`, its memory there from the start.
    pub fn of(count: u64) -> Self {
        let mut ns = vec![u32::MAX; count.min(KEPT) as usize];
        ns.clear();
        Self {
            ns,
            every: count.div_ceil(KEPT).max(1),
            seen: 0,
        }
    }

    /// Takes one more; beyond 4.2 s it counts as 4.2 s.
    pub fn push(&mut self, ns: u64) {
        if self.seen.is_multiple_of(self.every) && self.ns.len() < self.ns.capacity() {
            self.ns.push(u32::try_from(ns).unwrap_or(u32::MAX));
        }
        self.seen += 1;
    }

    /// The median of those kept, ns.
    pub fn median(&self) -> Option<f64> {
        let values: Vec<f64> = self.ns.iter().map(|ns| f64::from(*ns)).collect();
        threadgauge_stats::median(&values).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_all_kept() {
        let mut latencies = Latencies::of(5);
        for ns in [50, 10, 40, 20, 30] {
            latencies.push(ns);
        }
        assert_eq!(latencies.median(), Some(30.0));
    }

    #[test]
    fn of_many_a_page_is_kept_that_spreads_over_all() {
        let mut latencies = Latencies::of(100_000);
        for ns in 0..100_000 {
            latencies.push(ns);
        }
        assert!((latencies.ns.len() as u64) <= KEPT && latencies.ns.len() > 900);
        let median = latencies.median().unwrap();
        assert!((49_000.0..51_000.0).contains(&median), "{median}");
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(Latencies::of(5).median(), None);
    }
}
