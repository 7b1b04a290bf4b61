//! Orders in which objects are started, for when all are known beforehand.

/// The objects by rising cost; equal ones keep their order. The mean completion time is least in this order.
///
/// Takes all objects first: memory grows with their number, and so it is for each function here.
///
/// ```
/// use threadgauge_exec::shortest_first;
///
/// let files = [("b", 300), ("a", 20), ("c", 7)];
/// assert!(shortest_first(files, |f| f.1).map(|f| f.0).eq(["c", "a", "b"]));
/// ```
pub fn shortest_first<I: IntoIterator, C: Ord>(
    objects: I,
    cost: impl FnMut(&I::Item) -> C,
) -> std::vec::IntoIter<I::Item> {
    let mut objects: Vec<_> = objects.into_iter().collect();
    objects.sort_by_cached_key(cost);
    objects.into_iter()
}

/// The objects by falling cost; equal ones keep their order. The elapsed time of all is near its least in this
/// order (Graham 1969: at most 4/3 of it).
pub fn longest_first<I: IntoIterator, C: Ord>(
    objects: I,
    mut cost: impl FnMut(&I::Item) -> C,
) -> std::vec::IntoIter<I::Item> {
    shortest_first(objects, |object| std::cmp::Reverse(cost(object)))
}

/// The objects in an order drawn from `seed`: the same seed and number of objects, the same order.
pub fn shuffled<I: IntoIterator>(objects: I, seed: u64) -> std::vec::IntoIter<I::Item> {
    let mut objects: Vec<_> = objects.into_iter().collect();
    let mut state = seed;
    // Fisher and Yates, backwards.
    for last in (1..objects.len()).rev() {
        // A product's high word: uniform but for a part in 2^64 / n.
        let draw = (u128::from(split_mix(&mut state)) * (last as u128 + 1)) >> 64;
        objects.swap(last, draw as usize);
    }
    objects.into_iter()
}

/// SplitMix64 (Steele, Lea, Flood 2014): enough for a shuffle, and not worth a dependency.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_numbers() {
        let mut state = 1_234_567;
        // Of Vigna's reference program.
        for number in [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ] {
            assert_eq!(split_mix(&mut state), number);
        }
    }

    #[test]
    fn each_order_is_drawn_as_often() {
        let mut orders = std::collections::BTreeMap::new();
        for seed in 0..6_000 {
            *orders
                .entry(shuffled(0..3, seed).collect::<Vec<_>>())
                .or_insert(0) += 1;
        }
        assert_eq!(orders.len(), 6);
        assert!(
            orders.values().all(|times| (900..1_100).contains(times)),
            "{orders:?}"
        );
        // Computed by another program: an order of a seed stays what it is.
        assert!(shuffled(0..10, 42).eq([8, 3, 6, 5, 4, 0, 9, 2, 1, 7]));
    }
}
