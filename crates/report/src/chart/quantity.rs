//! What a quantity can be at all, by the label of its axis: a share is between nothing and all, a time is not negative.

/// Quantities that are a difference, and so can be below zero.
const SIGNED: [&str; 3] = ["overhead, %", "gain, %", "elapsed time over theory, %"];

/// Quantities that are a part of a whole, and that whole.
const PARTS: [(&str, f64); 8] = [
    ("share of looks", 1.0),
    ("share of the time that a CPU was not idle", 1.0),
    ("share of the CPUs that units can use", 1.0),
    ("share of computing, %", 100.0),
    ("newcomers answered, %", 100.0),
    ("connections that survive, %", 100.0),
    ("trials in which all others finished, %", 100.0),
    ("% of the programs", 100.0),
];

/// The least and the most that a quantity can be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    least: f64,
    most: f64,
}

impl Bounds {
    /// Anything.
    #[cfg(test)]
    pub const NONE: Self = Self {
        least: f64::NEG_INFINITY,
        most: f64::INFINITY,
    };

    /// Those of the quantity that an axis is labelled with.
    pub fn of(label: &str) -> Self {
        let part = PARTS.iter().find(|(name, _)| *name == label);
        let is_signed = SIGNED.contains(&label);
        Self {
            least: if is_signed { f64::NEG_INFINITY } else { 0.0 },
            most: part.map_or(f64::INFINITY, |(_, whole)| *whole),
        }
    }

    /// As far as `value` too.
    pub const fn with(self, value: f64) -> Self {
        Self {
            least: self.least.min(value),
            most: self.most.max(value),
        }
    }

    /// The nearest that is possible.
    pub const fn clamp(self, value: f64) -> f64 {
        value.clamp(self.least, self.most)
    }

    /// From nothing to all, of a part of a whole.
    pub fn whole(self) -> Option<(f64, f64)> {
        let ends = [self.least, self.most];
        ends.iter().all(|end| end.is_finite()).then_some(ends.into())
    }

    /// Whether `value` is possible.
    pub fn hold(self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_between_nothing_and_all_and_a_time_is_not_negative() {
        let share = Bounds::of("share of looks");
        assert_eq!((share.clamp(-0.1), share.clamp(1.2)), (0.0, 1.0));
        assert_eq!(Bounds::of("newcomers answered, %").clamp(120.0), 100.0);
        let time = Bounds::of("time, ms");
        assert_eq!((time.clamp(-1.0), time.clamp(1e9)), (0.0, 1e9));
        assert_eq!(Bounds::of("gain, %").clamp(-3.0), -3.0);
    }

    #[test]
    fn bounds_reach_as_far_as_they_are_told() {
        assert_eq!(Bounds::of("time, ms").with(-2.0).clamp(-3.0), -2.0);
    }
}
