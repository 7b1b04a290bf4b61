//! A list of CPUs as the kernel and `taskset` write it: `0,2-3`.
//!
//! Owns parsing, printing and choosing from such a list. Which CPUs exist or may be used is
//! `affinity.rs` and `topology.rs`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The highest CPU number accepted. Linux itself stops at 8,192 CPUs; a larger number is a typing error,
/// and `0-4000000000` must not exhaust the memory.
const HIGHEST: usize = 65_535;

/// CPU numbers, ascending, each once.
///
/// ```
/// use threadgauge_machine::CpuList;
/// let cpus: CpuList = "0,2-3".parse()?;
/// assert_eq!(cpus.iter().collect::<Vec<_>>(), [0, 2, 3]);
/// assert_eq!(cpus.to_string(), "0,2-3");
/// # Ok::<(), threadgauge_machine::CpuListError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(Vec<usize>);

/// Why a text is no CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// Nothing between two commas, or an empty text.
    #[error("the CPU list {0:?} has an empty entry; write it like 0,2-3")]
    Empty(String),
    /// An entry that is no number.
    #[error("{entry:?} in the CPU list {list:?} is not a CPU number; write it like 0,2-3")]
    NotANumber {
        /// The entry.
        entry: String,
        /// The whole list.
        list: String,
    },
    /// A range whose end lies before its start.
    #[error("the range {entry:?} in the CPU list {list:?} runs backwards; write {end}-{start}")]
    Backwards {
        /// The entry.
        entry: String,
        /// The whole list.
        list: String,
        /// Its first number.
        start: usize,
        /// Its second number.
        end: usize,
    },
    /// A number that no Linux has.
    #[error("CPU {cpu} in the CPU list {list:?} is beyond the highest number possible, {HIGHEST}")]
    TooLarge {
        /// The number.
        cpu: usize,
        /// The whole list.
        list: String,
    },
}

impl CpuList {
    /// A list of these CPUs, sorted, each once.
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> CpuList {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuList(cpus)
    }

    /// The CPU numbers, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// How many CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for a list without CPUs (which no text can express).
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `cpu` is in the list.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// The `n` lowest CPUs; all of them if there are fewer.
    pub fn first(&self, n: usize) -> CpuList {
        CpuList(self.0.iter().copied().take(n).collect())
    }

    /// The CPUs in both lists.
    pub fn intersection(&self, other: &CpuList) -> CpuList {
        CpuList(self.iter().filter(|&cpu| other.contains(cpu)).collect())
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    /// Parses `0,2-3`. White space around entries is allowed, overlapping ranges too.
    fn from_str(list: &str) -> Result<CpuList, CpuListError> {
        let mut ranges = Vec::new();
        for entry in list.split(',') {
            let entry = entry.trim();
            if entry.is_empty() {
                return Err(CpuListError::Empty(list.to_owned()));
            }
            let number = |text: &str| {
                let text = text.trim();
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                let value = if digits { text.parse::<usize>().ok() } else { None };
                match value {
                    Some(cpu) if cpu > HIGHEST => Err(CpuListError::TooLarge {
                        cpu,
                        list: list.to_owned(),
                    }),
                    Some(cpu) => Ok(cpu),
                    None => Err(CpuListError::NotANumber {
                        entry: entry.to_owned(),
                        list: list.to_owned(),
                    }),
                }
            };
            match entry.split_once('-') {
                None => {
                    let cpu = number(entry)?;
                    ranges.push((cpu, cpu));
                }
                Some((start, end)) => {
                    let (start, end) = (number(start)?, number(end)?);
                    if end < start {
                        let (entry, list) = (entry.to_owned(), list.to_owned());
                        return Err(CpuListError::Backwards {
                            entry,
                            list,
                            start,
                            end,
                        });
                    }
                    ranges.push((start, end));
                }
            }
        }
        // Merged before they are written out: a text may repeat a wide range many times.
        ranges.sort_unstable();
        let mut cpus: Vec<usize> = Vec::new();
        for (start, end) in ranges {
            let from = cpus.last().map_or(start, |last| start.max(last + 1));
            cpus.extend(from..=end);
        }
        Ok(CpuList(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let mut separator = "";
        for run in self.0.chunk_by(|a, b| a + 1 == *b) {
            let (start, end) = (run[0], run[run.len() - 1]);
            if start == end {
                write!(f, "{separator}{start}")?;
            } else {
                write!(f, "{separator}{start}-{end}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuList {
    type Error = CpuListError;

    fn try_from(list: String) -> Result<CpuList, CpuListError> {
        if list == "none" {
            Ok(CpuList::default())
        } else {
            list.parse()
        }
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> String {
        list.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overlapping_and_unsorted_entries_become_one_ascending_list() {
        assert_eq!("3,1-2, 2 - 4,0".parse(), Ok(CpuList::new(0..=4)));
    }

    #[test]
    fn a_wide_range_repeated_a_thousand_times_costs_no_more_than_once() {
        let text = ["0-65535"; 1_000].join(",");
        assert_eq!(text.parse::<CpuList>().map(|cpus| cpus.len()), Ok(65_536));
    }

    #[test]
    fn first_takes_the_lowest_and_never_more_than_there_are() {
        let cpus: CpuList = "8,2,5".parse().unwrap();
        assert_eq!(cpus.first(2).to_string(), "2,5");
        assert_eq!(cpus.first(9), cpus);
        assert_eq!([2, 3, 8].map(|cpu| cpus.contains(cpu)), [true, false, true]);
    }

    #[test]
    fn each_kind_of_nonsense_says_what_is_wrong_and_how_to_write_it() {
        let says = |text: &str| text.parse::<CpuList>().unwrap_err().to_string();
        assert!(says("").contains("empty entry"));
        assert!(says("0,,1").contains("0,2-3"));
        assert!(says("0,x").contains("\"x\""));
        assert!(says("+1").contains("not a CPU number"));
        assert!(says("-1").contains("not a CPU number"));
        assert!(says("1-2-3").contains("not a CPU number"));
        assert!(says("3-1").contains("write 1-3"));
        assert!(says("0-4000000000").contains("4000000000"));
        assert!(says("99999999999999999999999").contains("not a CPU number"));
    }

    #[test]
    fn a_list_without_cpus_survives_serialisation() {
        let none = serde_json::to_string(&CpuList::default()).unwrap();
        assert_eq!(
            serde_json::from_str::<CpuList>(&none).unwrap(),
            CpuList::default()
        );
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(cpus in proptest::collection::vec(0..=HIGHEST, 1..40)) {
            let list = CpuList::new(cpus);
            prop_assert_eq!(list.to_string().parse(), Ok(list));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9, \\-+x\\PC]{0,40}") {
            let _ = text.parse::<CpuList>();
        }
    }
}
