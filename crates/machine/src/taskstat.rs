//! What the kernel counts of one process or thread: `stat`, `schedstat`, `status` and `io` of its folder in `/proc`.
//!
//! Pure parsers of texts. Who reads these files again and again is `observe/`; one look at a whole program, by a crate
//! that knows more of their fields, is `activity.rs`.

use crate::usage::Switches;
use serde::{Deserialize, Serialize};

/// The part of a `stat` file that tells how a process or thread gets on. Ticks are usually 10 ms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskStat {
    /// Its name, at most 15 bytes, as it is: any character may be in it.
    pub name: String,
    /// `R` it runs or could, `S` it waits, `D` it waits and cannot be interrupted, `T` it is stopped, `Z` it has ended.
    pub state: char,
    /// The process that started it, or that took it over.
    pub parent: i32,
    /// CPU time in user space. Of a process that of all its threads, ended ones too.
    pub user_ticks: u64,
    /// CPU time in the kernel, likewise.
    pub system_ticks: u64,
    /// CPU time of children that ended and were waited for, and of theirs.
    pub children_ticks: u64,
    /// Threads of its process.
    pub threads: u64,
    /// When it began, since the machine was started. With its number it is one process or thread and no other.
    pub start_ticks: u64,
    /// Resident memory, in pages.
    pub rss_pages: u64,
    /// The CPU it was on last; `None` where the kernel is too old to tell.
    pub cpu: Option<usize>,
}

impl TaskStat {
    /// CPU time of its own, ticks.
    pub fn own_ticks(&self) -> u64 {
        self.user_ticks.saturating_add(self.system_ticks)
    }
}

/// Fields behind the name of which something is read here.
const FIELDS: usize = 37;

/// A `stat` file of a process or thread; `None` where it is cut off or none.
///
/// ```
/// use threadgauge_machine::parse_task_stat;
///
/// let text = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 11 5 3 1 20 0 4 0 900 0 25 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0";
/// let stat = parse_task_stat(text).unwrap();
/// assert_eq!((&*stat.name, stat.state, stat.own_ticks(), stat.threads, stat.cpu), ("a) b", 'S', 16, 4, Some(1)));
/// ```
pub fn parse_task_stat(text: &str) -> Option<TaskStat> {
    // The name may hold blanks and parentheses of its own: its end is the last one.
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = [""; FIELDS];
    for (field, word) in fields.iter_mut().zip(after.split_ascii_whitespace()) {
        *field = word;
    }
    let number = |at: usize| fields[at].parse::<u64>().ok();
    // The kernel writes these with a sign, and once let them become negative.
    let signed = |at: usize| Some(fields[at].parse::<i64>().ok()?.max(0).unsigned_abs());
    Some(TaskStat {
        name: name.to_owned(),
        state: fields[0].chars().next()?,
        parent: fields[1].parse().ok()?,
        user_ticks: number(11)?,
        system_ticks: number(12)?,
        children_ticks: signed(13)?.saturating_add(signed(14)?),
        threads: signed(17)?,
        start_ticks: number(19)?,
        rss_pages: signed(21)?,
        cpu: fields[36].parse().ok(),
    })
}

/// What the scheduler counts of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SchedStat {
    /// Time on a CPU. Of a thread that runs now, up to the last tick of the clock.
    pub ran_ns: u64,
    /// Time for which it was ready to run and had no CPU, without the wait that goes on now.
    pub waited_ns: u64,
    /// How often it was given a CPU.
    pub slices: u64,
}

/// A `schedstat` file of a thread; `None` where it is none.
pub fn parse_schedstat(text: &str) -> Option<SchedStat> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    Some(SchedStat {
        ran_ns: numbers.next()??,
        waited_ns: numbers.next()??,
        slices: numbers.next()??,
    })
}

/// The context switches in a `status` file of a thread.
pub fn parse_switches(status: &str) -> Option<Switches> {
    Some(Switches {
        voluntary: value_of(status, "voluntary_ctxt_switches:")?,
        involuntary: value_of(status, "nonvoluntary_ctxt_switches:")?,
    })
}

/// Whether a `status` file is of a process in a container: it has another number there.
pub(crate) fn is_in_a_container(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_ascii_whitespace().count() > 1)
}

/// What a process read and wrote since its start, with children that ended and were waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IoCounts {
    /// Bytes that it was given by calls that read, also from sockets and from memory.
    pub read_bytes: u64,
    /// Bytes that it gave to calls that write.
    pub written_bytes: u64,
    /// Such calls that read.
    pub reads: u64,
    /// Such calls that write.
    pub writes: u64,
    /// Bytes that were fetched from a disk for it.
    pub disk_read_bytes: u64,
    /// Bytes that it has made go to a disk, sooner or later.
    pub disk_written_bytes: u64,
}

impl IoCounts {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What was counted since `earlier`; never below zero.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            read_bytes: of(self.read_bytes, other.read_bytes),
            written_bytes: of(self.written_bytes, other.written_bytes),
            reads: of(self.reads, other.reads),
            writes: of(self.writes, other.writes),
            disk_read_bytes: of(self.disk_read_bytes, other.disk_read_bytes),
            disk_written_bytes: of(self.disk_written_bytes, other.disk_written_bytes),
        }
    }
}

/// An `io` file of a process.
pub fn parse_io(text: &str) -> Option<IoCounts> {
    Some(IoCounts {
        read_bytes: value_of(text, "rchar:")?,
        written_bytes: value_of(text, "wchar:")?,
        reads: value_of(text, "syscr:")?,
        writes: value_of(text, "syscw:")?,
        disk_read_bytes: value_of(text, "read_bytes:")?,
        disk_written_bytes: value_of(text, "write_bytes:")?,
    })
}

/// The number behind this, at the begin of a line.
fn value_of(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stat_text(name: &str, state: char, numbers: [u64; 6]) -> String {
        let [user, system, of_children, threads, start, rss] = numbers;
        format!(
            "42 ({name}) {state} 7 42 42 0 -1 4194304 9 0 0 0 {user} {system} {of_children} 0 20 0 {threads} 0 {start} \
             1024 {rss} 18446744073709551615 1 1 1 1 1 0 0 0 0 0 0 0 17 3 0 0 0 0 0\n"
        )
    }

    #[test]
    fn each_field_is_in_its_place() {
        let stat = parse_task_stat(&stat_text("worker 1", 'D', [1, 2, 3, 4, 5, 6])).unwrap();
        let expected = TaskStat {
            name: "worker 1".to_owned(),
            state: 'D',
            parent: 7,
            user_ticks: 1,
            system_ticks: 2,
            children_ticks: 3,
            threads: 4,
            start_ticks: 5,
            rss_pages: 6,
            cpu: Some(3),
        };
        assert_eq!(stat, expected);
    }

    #[test]
    fn a_negative_count_is_none_and_an_old_kernel_tells_no_cpu() {
        let text = "1 (x) S 0 0 0 0 -1 0 0 0 0 0 1 1 -5 2 20 0 1 0 3 0 -1";
        let stat = parse_task_stat(text).unwrap();
        assert_eq!((stat.children_ticks, stat.rss_pages, stat.cpu), (2, 0, None));
        assert_eq!(parse_task_stat("1 (x) S 0 0 0 0 -1 0 0 0 0 0 1"), None, "cut off");
    }

    #[test]
    fn what_the_scheduler_counts_is_three_numbers() {
        let stat = parse_schedstat("811454 17 1\n").unwrap();
        assert_eq!((stat.ran_ns, stat.waited_ns, stat.slices), (811_454, 17, 1));
        assert_eq!(parse_schedstat("1 2\n"), None);
        assert_eq!(parse_schedstat("1 2 x\n"), None);
    }

    #[test]
    fn switches_and_numbers_in_a_container_are_lines_of_a_status() {
        let status =
            "Name:\tx\nNSpid:\t30767\t12\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n";
        let switches = parse_switches(status).unwrap();
        assert_eq!((switches.voluntary, switches.involuntary), (5, 7));
        assert!(is_in_a_container(status));
        assert!(!is_in_a_container("NSpid:\t30767\n") && !is_in_a_container(""));
        assert_eq!(parse_switches("voluntary_ctxt_switches:\t5\n"), None);
    }

    #[test]
    fn bytes_of_calls_and_of_disks_are_told_apart() {
        let text = "rchar: 10\nwchar: 20\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\n\
                    cancelled_write_bytes: 0\n";
        let io = parse_io(text).unwrap();
        assert_eq!(
            (io.read_bytes, io.disk_read_bytes, io.disk_written_bytes),
            (10, 4_096, 8_192)
        );
        assert_eq!((io.written_bytes, io.reads, io.writes), (20, 3, 4));
        assert_eq!(io.plus(io).since(io), io);
        assert_eq!(IoCounts::default().since(io), IoCounts::default());
        assert_eq!(parse_io("rchar: 10\n"), None);
    }

    proptest! {
        #[test]
        fn whatever_the_name_is_it_and_the_numbers_are_read(
            name in "[a-z() \\PC]{0,15}",
            numbers in prop::array::uniform6(0_u64..1 << 50),
        ) {
            let stat = parse_task_stat(&stat_text(&name, 'S', numbers)).unwrap();
            prop_assert_eq!(stat.name, name);
            let cpu = [stat.user_ticks, stat.system_ticks, stat.children_ticks];
            let rest = [stat.threads, stat.start_ticks, stat.rss_pages];
            prop_assert_eq!([&cpu[..], &rest[..]].concat(), numbers.to_vec());
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9a-zA-Z:() \\-\n\t\\PC]{0,200}") {
            let _ = (parse_task_stat(&text), parse_schedstat(&text), parse_switches(&text), parse_io(&text));
            let _ = is_in_a_container(&text);
        }
    }
}
