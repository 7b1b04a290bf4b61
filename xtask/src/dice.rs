//! The order of things in a round.

/// A seeded shuffle; xorshift64 is enough for an order.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same orders.
    pub fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed | 1 << 63)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Puts them into an order of its own.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = (self.next() % (i as u64 + 1)) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_loses_nothing_and_moves_something() {
        let mut items: Vec<u32> = (0..50).collect();
        Dice::new(7).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..50));
    }
}
