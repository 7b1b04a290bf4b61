//! What the kernel counts about CPU time: `/proc/stat` and `/proc/pressure/cpu`.
//!
//! Pure parsers. Two readings are compared in `noise.rs`, taken in `meter.rs`.

use serde::{Deserialize, Serialize};

/// Where the time of one CPU went since boot, in clock ticks (usually 10 ms).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuTimes {
    /// The CPU's number.
    pub cpu: usize,
    /// Programs, guests included.
    pub user: u64,
    /// Programs of low priority.
    pub nice: u64,
    /// The kernel on behalf of programs, and its own threads.
    pub system: u64,
    /// Nothing to do.
    pub idle: u64,
    /// Nothing to do but wait for a disk.
    pub iowait: u64,
    /// Interrupts.
    pub irq: u64,
    /// What interrupts left to do.
    pub softirq: u64,
    /// Taken by the hypervisor while there was something to do.
    pub steal: u64,
}

impl CpuTimes {
    /// Ticks used by processes and kernel threads. Interrupts are left out: a sample causes most of
    /// them itself, and they belong to no process.
    pub fn busy(&self) -> u64 {
        [self.nice, self.system]
            .iter()
            .fold(self.user, |sum, part| sum.saturating_add(*part))
    }

    /// All ticks, stolen ones included.
    pub fn total(&self) -> u64 {
        [self.idle, self.iowait, self.irq, self.softirq, self.steal]
            .iter()
            .fold(self.busy(), |sum, part| sum.saturating_add(*part))
    }

    /// What was counted since `earlier`, never below zero: the kernel lets some counters step back.
    pub fn since(&self, earlier: &CpuTimes) -> CpuTimes {
        CpuTimes {
            cpu: self.cpu,
            user: self.user.saturating_sub(earlier.user),
            nice: self.nice.saturating_sub(earlier.nice),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            iowait: self.iowait.saturating_sub(earlier.iowait),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }
}

/// The lines `cpu0 …`, `cpu1 …` of a `/proc/stat` text, in their order; other lines are skipped, and so
/// are lines that do not parse. Columns that an old kernel lacks are zero, ones that a new one adds ignored.
pub fn parse_proc_stat(text: &str) -> Vec<CpuTimes> {
    // The lines of CPUs come first; `intr`, which follows them, may be many kilobytes.
    text.lines()
        .take_while(|line| line.starts_with("cpu"))
        .filter_map(parse_cpu_line)
        .collect()
}

/// Threads and processes created since the machine was started, by the line `processes` of a `/proc/stat` text.
pub fn parse_created(text: &str) -> Option<u64> {
    let count = text.lines().find_map(|line| line.strip_prefix("processes "))?;
    count.trim().parse().ok()
}

fn parse_cpu_line(line: &str) -> Option<CpuTimes> {
    let mut words = line.split_ascii_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let mut columns = [0_u64; 8];
    let mut found = 0;
    for (column, word) in columns.iter_mut().zip(words) {
        *column = word.parse().ok()?;
        found += 1;
    }
    // Every kernel has at least user, nice, system and idle.
    if found < 4 {
        return None;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = columns;
    Some(CpuTimes {
        cpu,
        user,
        nice,
        system,
        idle,
        iowait,
        irq,
        softirq,
        steal,
    })
}

/// The total of the line `some` of a pressure file: microseconds in which at least one unit waited.
pub fn parse_pressure_some_us(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("total="))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "cpu  30 3 12 180 1 0 2 5 0 0\ncpu0 10 1 5 100 1 0 2 3 0 0\n\
                        cpu2 20 2 7 80 0 0 0 2 0 0\nintr 99 0 0\nctxt 5\n";

    #[test]
    fn each_cpu_is_read_and_the_sum_line_is_not() {
        let cpus = parse_proc_stat(TEXT);
        assert_eq!(cpus.len(), 2);
        assert_eq!((cpus[1].cpu, cpus[1].busy(), cpus[1].total()), (2, 29, 111));
    }

    #[test]
    fn the_number_of_created_threads_is_read_where_there_is_one() {
        assert_eq!(parse_created(TEXT), None);
        assert_eq!(
            parse_created(&format!("{TEXT}processes 7012\nprocs_running 2\n")),
            Some(7012)
        );
        assert_eq!(parse_created("processes many\n"), None);
    }

    #[test]
    fn an_old_kernel_has_fewer_columns_and_a_cut_line_is_skipped() {
        assert_eq!(parse_proc_stat("cpu0 1 2 3 4\n")[0].total(), 10);
        assert_eq!(parse_proc_stat("cpu0 1 2 3\ncpux 1 2 3 4\ncpu1 1 2 3 -4\n"), []);
    }

    #[test]
    fn counters_that_step_back_count_as_nothing() {
        let cpu = CpuTimes {
            iowait: 5,
            user: 9,
            ..CpuTimes::default()
        };
        let earlier = CpuTimes {
            iowait: 7,
            user: 4,
            ..CpuTimes::default()
        };
        assert_eq!(
            cpu.since(&earlier),
            CpuTimes {
                user: 5,
                ..CpuTimes::default()
            }
        );
    }

    #[test]
    fn pressure_takes_some_and_not_full() {
        let text = "some avg10=0.18 avg60=1.94 avg300=7.35 total=123615135\nfull avg10=0.00 total=7\n";
        assert_eq!(parse_pressure_some_us(text), Some(123_615_135));
        assert_eq!(parse_pressure_some_us("full total=7"), None);
        assert_eq!(parse_pressure_some_us("some total=x"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(columns in proptest::collection::vec(0_u64..1 << 40, 4..10)) {
            let words: Vec<String> = columns.iter().map(u64::to_string).collect();
            let cpus = parse_proc_stat(&format!("cpu 1 1 1 1\ncpu3 {}\n", words.join(" ")));
            prop_assert_eq!(cpus.len(), 1);
            prop_assert_eq!(cpus[0].total(), columns.iter().take(8).sum::<u64>());
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "(cpu[0-9 \\PC]{0,40}\n){0,4}") {
            for cpu in parse_proc_stat(&text) {
                let _ = (cpu.busy(), cpu.total());
            }
            let _ = parse_pressure_some_us(&text);
        }
    }
}
