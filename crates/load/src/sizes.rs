//! How large messages are: all alike, of any size in a range, or of several sizes with weights.
//!
//! Which message has which size depends on its sender and number alone. So who receives it knows how large it must be,
//! and one that was cut short or has grown is found; and two runs send the same.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The most parts of a distribution.
const MOST_PARTS: usize = 8;
/// The largest weight of a part.
const MOST_WEIGHT: u32 = 1_000_000;

/// How large messages are, in bytes: `128`, `16..1024` (each size of the range as often), or several of these with
/// weights, as `128:90,16..1024:10`.
///
/// ```
/// use threadgauge_load::Sizes;
///
/// let sizes: Sizes = "128:90,1000..2000:10".parse().unwrap();
/// assert_eq!((sizes.least(), sizes.most(), sizes.mean()), (128, 2000, 265.2));
/// assert_eq!(Sizes::from(128).to_string(), "128");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    parts: [Part; MOST_PARTS],
    /// So many of them count.
    count: usize,
    /// The sum of all weights.
    weight: u32,
    least: usize,
    most: usize,
}

/// A size, or a range of sizes with both its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    from: u32,
    to: u32,
    weight: u32,
}

impl From<usize> for Sizes {
    /// All of so many bytes.
    ///
    /// # Panics
    ///
    /// If these are over 4 GiB.
    fn from(bytes: usize) -> Self {
        let bytes = u32::try_from(bytes).expect("a message is under 4 GiB");
        let part = Part {
            from: bytes,
            to: bytes,
            weight: 1,
        };
        Self::of_parts(&[part])
    }
}

impl Sizes {
    fn of_parts(given: &[Part]) -> Self {
        let mut parts = [given[0]; MOST_PARTS];
        parts[..given.len()].copy_from_slice(given);
        let least = given.iter().map(|part| part.from).min();
        let most = given.iter().map(|part| part.to).max();
        Self {
            parts,
            count: given.len(),
            weight: given.iter().map(|part| part.weight).sum(),
            least: least.unwrap_or(0) as usize,
            most: most.unwrap_or(0) as usize,
        }
    }

    fn parts(&self) -> &[Part] {
        &self.parts[..self.count]
    }

    /// The smallest.
    pub fn least(&self) -> usize {
        self.least
    }

    /// The largest.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self
            .parts()
            .iter()
            .map(|part| f64::from(part.weight) * (f64::from(part.from) + f64::from(part.to)) / 2.0)
            .sum();
        sum / f64::from(self.weight)
    }

    /// Of message `number` of a sender.
    pub(crate) fn of(&self, sender: usize, number: u64) -> usize {
        if self.least == self.most {
            return self.least;
        }
        let dice = mixed((sender as u64).rotate_left(40) ^ number);
        // Its upper half chooses the part, its lower half the size.
        let mut place = scaled(dice >> 32, self.weight.into());
        for part in self.parts() {
            match place.checked_sub(part.weight.into()) {
                None => {
                    let sizes = u64::from(part.to - part.from) + 1;
                    return (u64::from(part.from) + scaled(dice & u64::from(u32::MAX), sizes)) as usize;
                }
                Some(beyond) => place = beyond,
            }
        }
        self.most
    }
}

/// A number of 32 bits, on a scale of `0..of`.
fn scaled(bits: u64, of: u64) -> u64 {
    (bits * of) >> 32
}

/// Bits that look random, the same for the same value (the finisher of SplitMix64, after Steele, Lea and Flood, 2014).
fn mixed(value: u64) -> u64 {
    let mut bits = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.from)?;
        match self.from == self.to {
            true => Ok(()),
            false => write!(f, "..{}", self.to),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [part] = self.parts() {
            return part.fmt(f);
        }
        for (i, part) in self.parts().iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{part}:{}", part.weight)?;
        }
        Ok(())
    }
}

impl Serialize for Sizes {
    /// A number where all are alike, else the text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.least == self.most {
            true => serializer.serialize_u64(self.least as u64),
            false => serializer.collect_str(self),
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<Part> = text
            .split(',')
            .map(|part| part.trim().parse())
            .collect::<Result<_, _>>()?;
        match parts.len() {
            ..=MOST_PARTS => Ok(Self::of_parts(&parts)),
            many => Err(format!(
                "{many} sizes with weights are too many: {MOST_PARTS} at most"
            )),
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sizes, weight) = text
            .rsplit_once(':')
            .map_or((text, None), |(sizes, weight)| (sizes, Some(weight.trim())));
        let (from, to) = sizes.split_once("..").unwrap_or((sizes, sizes));
        let size = |digits: &str| {
            let size = digits.trim().parse().ok().filter(|&bytes: &u32| bytes > 0);
            size.ok_or_else(|| {
                format!(
                    "`{text}` is no size: it is a number of bytes above 0, as 128, 16..1024 or 128:90,1024:10"
                )
            })
        };
        let (from, to) = (size(from)?, size(to)?);
        if from > to {
            return Err(format!(
                "`{text}` is no range: the smaller size comes first, as in {to}..{from}"
            ));
        }
        let weight = match weight {
            None => 1,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|weight| (1..=MOST_WEIGHT).contains(weight))
                .ok_or_else(|| {
                    format!("`{text}`: `{digits}` is no weight: it is a whole number from 1 to 1,000,000")
                })?,
        };
        Ok(Self { from, to, weight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Sizes {
        text.parse().unwrap()
    }

    /// How often `is` holds of the sizes of ten thousand messages.
    fn often(sizes: &Sizes, is: impl Fn(usize) -> bool) -> usize {
        let messages = (0..100).flat_map(|sender| (1..=100).map(move |number| (sender, number)));
        messages
            .filter(|&(sender, number)| is(sizes.of(sender, number)))
            .count()
    }

    #[test]
    fn random_bits_are_those_of_the_published_generator() {
        // Its first three numbers from the seed 0.
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        assert_eq!(
            [0, step, step.wrapping_mul(2)].map(mixed),
            [
                0xe220_a839_7b1d_cdaf,
                0x6e78_9e6a_a1b9_65f4,
                0x06c4_5d18_8009_454f
            ]
        );
    }

    #[test]
    fn what_is_read_is_shown_again() {
        for text in [
            "128",
            "16..1024",
            "128:90,1024:10",
            "16..32:1,4096:3,5..6:1000000",
        ] {
            assert_eq!(sizes(text).to_string(), text);
        }
        assert_eq!(sizes(" 16 .. 32 : 2 , 64 ").to_string(), "16..32:2,64:1");
        assert_eq!(
            sizes("128:7"),
            Sizes {
                weight: 7,
                ..sizes("128:7")
            }
        );
        assert_eq!(sizes("128:7").to_string(), "128", "a weight among none is none");
    }

    #[test]
    fn a_range_has_each_of_its_sizes_as_often_and_both_its_ends() {
        let sizes = sizes("3..6");
        assert_eq!((sizes.least(), sizes.most(), sizes.mean()), (3, 6, 4.5));
        for size in 3..=6 {
            let often = often(&sizes, |of| of == size);
            assert!((2_300..2_700).contains(&often), "{size}: {often}");
        }
    }

    #[test]
    fn weights_are_kept() {
        let sizes = sizes("128:90,1000..2000:10");
        assert_eq!(sizes.mean(), 265.2);
        let small = often(&sizes, |of| of == 128);
        assert!((8_850..9_150).contains(&small), "{small}");
        assert_eq!(often(&sizes, |of| (1000..=2000).contains(&of)), 10_000 - small);
        assert_eq!(often(&Sizes::from(77), |of| of == 77), 10_000);
    }

    #[test]
    fn a_message_has_its_size_each_time() {
        let sizes = sizes("1..60000");
        assert!((0..100).all(|number| sizes.of(7, number) == sizes.of(7, number)));
        assert!(
            (0..100).any(|number| sizes.of(7, number) != sizes.of(8, number)),
            "senders differ"
        );
    }

    #[test]
    fn what_is_no_size_says_what_is() {
        for (text, part) in [
            ("", "`` is no size"),
            ("0", "`0` is no size"),
            ("0..7", "`0..7` is no size"),
            ("-3", "no size"),
            ("big", "`big` is no size"),
            ("128,", "`` is no size"),
            ("5000000000", "no size"),
            ("16..", "no size"),
            ("1024..16", "as in 16..1024"),
            ("128:0", "`0` is no weight"),
            ("128:0.5", "`0.5` is no weight"),
            ("128:", "`` is no weight"),
            ("1,2,3,4,5,6,7,8,9", "9 sizes"),
        ] {
            let error = text.parse::<Sizes>().unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
