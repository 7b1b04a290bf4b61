//! What others do on this machine meanwhile: CPU time that is neither ours nor our children's.

use std::fs;

/// A reading of the clocks of CPU time, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// All CPUs, not idle.
    busy: u64,
    /// All CPUs, idle too.
    all: u64,
    /// This process and its ended children.
    ours: u64,
}

impl Reading {
    /// Now, or nothing where there is no such file system.
    pub fn take() -> Option<Self> {
        Self::parse(
            &fs::read_to_string("/proc/stat").ok()?,
            &fs::read_to_string("/proc/self/stat").ok()?,
        )
    }

    fn parse(system: &str, process: &str) -> Option<Self> {
        let fields = system.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = fields
            .split_whitespace()
            .map_while(|tick| tick.parse().ok())
            .collect();
        let [_, _, _, idle, waiting, _, _, steal, ..] = ticks[..] else {
            return None;
        };
        // Guests are counted in user time already.
        let all: u64 = ticks[..8].iter().sum();
        // After the name, which may hold anything but ends at the last bracket: state is field 3, utime 14 to cstime 17.
        let after = process.rsplit_once(')')?.1;
        let ours = after
            .split_whitespace()
            .skip(11)
            .take(4)
            .map_while(|tick| tick.parse::<u64>().ok())
            .sum();
        Some(Self {
            busy: all - idle - waiting - steal,
            all,
            ours,
        })
    }

    /// The share of all CPUs that others had since `earlier`.
    pub fn foreign_since(self, earlier: Self) -> f64 {
        let foreign = (self.busy - earlier.busy).saturating_sub(self.ours - earlier.ours);
        foreign as f64 / (self.all - earlier.all).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: &str = "7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 10 20 30 40 20 0 1 0 5";

    #[test]
    fn others_have_what_is_busy_and_not_ours() {
        let before = Reading::parse("cpu  100 0 50 800 10 0 5 3 0 0\ncpu0 1", PROCESS).unwrap();
        assert_eq!(
            before,
            Reading {
                busy: 155,
                all: 968,
                ours: 100
            }
        );
        let after = Reading {
            busy: 255,
            all: 1168,
            ours: 190,
        };
        assert!((after.foreign_since(before) - 0.05).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_read_is_no_reading() {
        assert_eq!(Reading::parse("intr 1", PROCESS), None);
        assert_eq!(Reading::parse("cpu  1 2 3", PROCESS), None);
    }
}
