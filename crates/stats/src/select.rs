//! Order statistics of sets that are too large to write down.
//!
//! The Walsh averages of 10,000 values are 50 million numbers, yet only three of them are wanted.
//! Sorted input makes counting those below a bound a walk of two pointers, so the k-th smallest is
//! found by bisecting over the bounds. The bounds are the floating-point numbers themselves, taken
//! in order, so at most 64 walks end at exactly the number that sorting would have given.

/// Maps a number to an integer of the same order (the IEEE 754 total order of finite numbers).
fn key(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits(); // + 0.0 turns -0.0 into 0.0
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The inverse of [`key`].
fn value(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

/// The `k`-th smallest (from 1) of a multiset within `[low, high]` of which `at_most(t)` says how
/// many members are `<= t`. Exact, as long as `at_most` is.
pub(crate) fn kth(low: f64, high: f64, k: usize, at_most: impl Fn(f64) -> usize) -> f64 {
    let (mut low, mut high) = (key(low), key(high));
    while low < high {
        let middle = low + (high - low) / 2;
        if at_most(value(middle)) >= k {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    value(low) + 0.0
}

/// A sorted copy. The values must be finite.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The median of sorted values: the middle one, or the mean of the middle two.
pub(crate) fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n % 2 == 1 {
        sorted[n / 2]
    } else {
        midpoint(sorted[n / 2 - 1], sorted[n / 2])
    }
}

/// Halfway between two numbers, without overflow.
pub(crate) fn midpoint(a: f64, b: f64) -> f64 {
    a.midpoint(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order_of_numbers() {
        let ascending = [
            f64::MIN,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            5e-324,
            1.0,
            1.5,
            f64::MAX,
        ];
        assert!(ascending.is_sorted_by_key(|v| key(*v)));
        for v in ascending {
            assert_eq!(value(key(v)), v);
        }
        assert_eq!(key(-0.0), key(0.0));
    }

    #[test]
    fn the_kth_is_what_sorting_gives() {
        let members = [-3.5, -3.5, 0.0, 1e-300, 2.0, 7.25, 7.25, 1e9];
        for k in 1..=members.len() {
            let found = kth(-3.5, 1e9, k, |t| members.iter().filter(|m| **m <= t).count());
            assert_eq!(found.to_bits(), members[k - 1].to_bits(), "k = {k}");
        }
    }

    #[test]
    fn the_middle_of_sorted_values_is_one_of_them_or_halfway_between_two() {
        assert_eq!(sorted(&[3.0, -1.0, 2.0, -1.0]), [-1.0, -1.0, 2.0, 3.0]);
        assert_eq!(middle(&[7.0]), 7.0);
        assert_eq!(middle(&[1.0, 2.0, 4.0, 8.0, 16.0]), 4.0);
        assert_eq!(middle(&[1.0, 2.0, 4.0, 8.0]), 3.0);
        assert_eq!(middle(&[f64::MAX; 2]), f64::MAX);
    }
}
