//! What a running program has done until now: a process and all below it, as `/proc` tells it to another program.
//!
//! Taken twice, it gives CPU time by thread, context switches and bytes of a span; see [`Activity::of`] for what one
//! look costs. What a process used itself is in `usage.rs`, what the machine did in `meter.rs`. Who listens at an
//! address is in `listener.rs`.

use crate::children::{below, parents};
use crate::clock::monotonic_ns;
use crate::source::{Fact, Source};
use crate::usage::Switches;
use procfs::ProcError;
use procfs::process::{Process, Stat, Task};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// Processes and threads that are looked at one by one. Ten thousand would take longer to look at than they may.
const MOST_UNITS: usize = 256;

/// Why a process cannot be looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivityError {
    /// It has ended, or never was.
    #[error("there is no process {0} (any more)")]
    Gone(i32),
    /// It is there, and this user may not look.
    #[error("process {0} may not be looked at by this user: run as its user, or as root")]
    NotPermitted(i32),
    /// Something else.
    #[error("process {0} cannot be looked at: {1}")]
    Unreadable(i32, String),
}

impl ActivityError {
    fn of(pid: i32, error: ProcError) -> Self {
        match error {
            // ESRCH comes of a process that ends while it is looked at.
            ProcError::NotFound(_) => Self::Gone(pid),
            ProcError::Io(error, _) if error.raw_os_error() == Some(libc::ESRCH) => Self::Gone(pid),
            ProcError::PermissionDenied(_) => Self::NotPermitted(pid),
            other => Self::Unreadable(pid, other.to_string()),
        }
    }
}

/// What a process and all below it have done since their start, and what they hold now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Activity {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: u64,
    /// How many processes there are.
    pub processes: usize,
    /// How many threads there are, in all processes.
    pub thread_count: u64,
    /// CPU time of all, and of the children that they waited for. In ticks of (usually) 10 ms.
    pub cpu: Duration,
    /// Each thread, by process and thread id. Empty where there are over 256.
    pub threads: Vec<ThreadActivity>,
    /// Resident memory of all, in KiB. What processes share counts with each of them.
    pub rss_kib: u64,
    /// Proportional memory of all, in KiB: what processes share is divided by those who share it.
    pub pss_kib: Option<u64>,
    /// Open descriptors of all.
    pub descriptors: Option<u64>,
    /// TCP of the network namespace that the process is in, of all programs there.
    pub tcp: Option<TcpSockets>,
    /// Bytes received and sent by the interfaces of that namespace, of all programs there. Loopback has each byte
    /// twice, once as received and once as sent.
    pub network: Option<Traffic>,
    /// What could not be read, and why.
    pub lacks: Vec<String>,
}

/// What a thread has done since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadActivity {
    /// Its process.
    pub pid: i32,
    /// Itself.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Time on a CPU.
    pub cpu: Duration,
    /// Time in which it was ready and had no CPU; `None` where the kernel does not count it.
    pub waited: Option<Duration>,
    /// Its context switches.
    pub switches: Switches,
}

/// The TCP sockets of a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpSockets {
    /// Those in use, without the ones that wait for their time to be over.
    pub in_use: u64,
    /// Ended ones that keep their port for a while.
    pub time_wait: u64,
    /// Memory of what waits in them, on the whole machine, in KiB.
    pub memory_kib: u64,
}

/// Bytes that went over interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Received.
    pub received_bytes: u64,
    /// Sent.
    pub sent_bytes: u64,
}

impl Activity {
    /// Looks at the process and all below it. Takes well under a millisecond for a few threads, and some milliseconds
    /// where there are hundreds or the process has much memory.
    ///
    /// # Errors
    ///
    /// If the process has ended or may not be looked at. What else cannot be read is in `lacks`.
    pub fn of(pid: i32) -> Result<Self, ActivityError> {
        let root = Process::new(pid).map_err(|error| ActivityError::of(pid, error))?;
        let stat = root.stat().map_err(|error| ActivityError::of(pid, error))?;
        // A zombie has done all it will, and its parent knows.
        if stat.state == 'Z' {
            return Err(ActivityError::Gone(pid));
        }
        let mut all = Self {
            pss_kib: Some(0),
            descriptors: Some(0),
            ..Self::default()
        };
        all.add(&root, &stat);
        for child in below(pid, &parents(), &HashSet::new()) {
            // One that has just ended is in its parent's time.
            if let Ok(child) = Process::new(child)
                && let Ok(stat) = child.stat()
            {
                all.add(&child, &stat);
            }
        }
        all.at_ns = monotonic_ns();
        all.leave_out_too_many();
        all.tcp = or_lack(tcp_sockets(&Source::new(Path::new("/")), pid), &mut all.lacks);
        all.network = or_lack(traffic(&root), &mut all.lacks);
        Ok(all)
    }

    /// Counts a process and its threads. Whether they may be looked at one by one: there are not too many so far.
    fn count(&mut self, stat: &Stat) -> bool {
        self.processes += 1;
        self.thread_count += u64::try_from(stat.num_threads).unwrap_or(1);
        let of_children = stat.cutime.max(0).unsigned_abs() + stat.cstime.max(0).unsigned_abs();
        self.cpu += own_cpu(stat) + ticks_of(of_children);
        self.rss_kib += kib_of(stat.rss);
        self.processes <= MOST_UNITS && self.thread_count <= MOST_UNITS as u64
    }

    /// Threads, where they are more than are looked at one by one.
    fn leave_out_too_many(&mut self) {
        if self.thread_count > MOST_UNITS as u64 {
            self.threads.clear();
            self.lacks.push(format!(
                "there are {} threads: their CPU time and switches are not read one by one",
                self.thread_count
            ));
        }
    }

    fn add(&mut self, process: &Process, stat: &Stat) {
        if !self.count(stat) {
            self.pss_kib = None;
            self.descriptors = None;
            return;
        }
        let pid = process.pid();
        let pss =
            pss_kib(process).map_err(|error| format!("memory in parts: {}", ActivityError::of(pid, error)));
        let pss = or_lack(pss, &mut self.lacks);
        self.pss_kib = self.pss_kib.zip(pss).map(|(sum, pss)| sum + pss);
        let open = process
            .fd_count()
            .map_err(|error| format!("open descriptors: {}", ActivityError::of(pid, error)));
        let open = or_lack(open, &mut self.lacks);
        self.descriptors = self.descriptors.zip(open).map(|(sum, open)| sum + open as u64);
        let tasks = process.tasks().into_iter().flatten();
        // One that ends while it is looked at is left out.
        self.threads
            .extend(tasks.filter_map(|task| ThreadActivity::of(&task.ok()?)));
    }
}

impl ThreadActivity {
    fn of(task: &Task) -> Option<Self> {
        let status = task.status().ok()?;
        let switches = Switches {
            voluntary: status.voluntary_ctxt_switches?,
            involuntary: status.nonvoluntary_ctxt_switches?,
        };
        // Nanoseconds where the kernel has them, else ticks.
        let (cpu, waited) = match task.schedstat() {
            Ok(stat) => (
                Duration::from_nanos(stat.sum_exec_runtime),
                Some(Duration::from_nanos(stat.run_delay)),
            ),
            Err(_) => (own_cpu(&task.stat().ok()?), None),
        };
        Some(Self {
            pid: task.pid,
            tid: task.tid,
            name: status.name,
            cpu,
            waited,
            switches,
        })
    }
}

fn or_lack<T>(fact: Fact<T>, lacks: &mut Vec<String>) -> Option<T> {
    fact.map_err(|lack| lacks.push(lack)).ok()
}

/// CPU time of a process or thread itself.
fn own_cpu(stat: &Stat) -> Duration {
    ticks_of(stat.utime + stat.stime)
}

fn kib_of(pages: u64) -> u64 {
    pages * rustix::param::page_size() as u64 / 1024
}

fn ticks_of(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The proportional memory of a process; `None` where it may not be read.
pub(crate) fn pss_kib_of(pid: i32) -> Option<u64> {
    pss_kib(&Process::new(pid).ok()?).ok()
}

fn pss_kib(process: &Process) -> Result<u64, ProcError> {
    let rollup = process.smaps_rollup()?;
    let of_map = |map: &procfs::process::MemoryMap| map.extension.map.get("Pss").copied();
    Ok(rollup.memory_map_rollup.iter().filter_map(of_map).sum::<u64>() / 1024)
}

fn tcp_sockets(source: &Source, pid: i32) -> Fact<TcpSockets> {
    let path = format!("/proc/{pid}/net/sockstat");
    let text = source.text(&path)?;
    parse_tcp_sockets(&text).ok_or_else(|| format!("{path} has no line of TCP that can be understood"))
}

/// The line `TCP:` of a `sockstat` text, which has names and numbers in turn.
fn parse_tcp_sockets(text: &str) -> Option<TcpSockets> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let value = |name: &str| {
        let pair = words.chunks_exact(2).find(|pair| pair[0] == name)?;
        pair[1].parse::<u64>().ok()
    };
    Some(TcpSockets {
        in_use: value("inuse")?,
        time_wait: value("tw")?,
        memory_kib: kib_of(value("mem")?),
    })
}

fn traffic(process: &Process) -> Fact<Traffic> {
    let interfaces = process
        .dev_status()
        .map_err(|error| format!("network: {}", ActivityError::of(process.pid(), error)))?;
    Ok(interfaces
        .values()
        .fold(Traffic::default(), |sum, interface| Traffic {
            received_bytes: sum.received_bytes + interface.recv_bytes,
            sent_bytes: sum.sent_bytes + interface.sent_bytes,
        }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(120);

    fn own() -> Activity {
        Activity::of(std::process::id().cast_signed()).unwrap()
    }

    #[test]
    fn a_thread_that_computes_is_named_with_its_time() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::Builder::new().name("computes".to_owned());
        let busy = busy
            .spawn(move || while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {})
            .unwrap();
        let used = || {
            let all = own();
            let thread = all.threads.into_iter().find(|thread| thread.name == "computes");
            thread.map_or(Duration::ZERO, |thread| thread.cpu)
        };
        let deadline = Instant::now() + PATIENCE;
        while used() < Duration::from_millis(50) {
            assert!(Instant::now() < deadline, "it has no CPU time");
            std::thread::yield_now();
        }
        drop(stop);
        busy.join().unwrap();
    }

    #[test]
    fn memory_descriptors_and_bytes_are_those_of_the_process() {
        let before = own();
        assert!(
            before.rss_kib > 100
                && before
                    .pss_kib
                    .is_some_and(|pss| pss > 100 && pss <= before.rss_kib)
        );
        let files: Vec<_> = (0..50)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        // Other tests of this process open and close some meanwhile.
        let deadline = Instant::now() + PATIENCE;
        while own().descriptors.unwrap() < 50 {
            assert!(Instant::now() < deadline, "fifty open files are not counted");
        }
        drop(files);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(&[0; 10_000]).unwrap();
        let after = own();
        let [before, now] = [&before, &after].map(|activity| activity.network.unwrap());
        assert!(now.sent_bytes >= before.sent_bytes + 10_000 && now.received_bytes > before.received_bytes);
        assert!(after.tcp.unwrap().in_use >= 3 && after.at_ns > 0);
    }

    #[test]
    fn what_is_below_it_is_counted_and_stays_counted_when_it_has_ended() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read line";
        let mut shell = Command::new("sh")
            .args(["-c", &format!("sh -c '{script}'; echo over; read line")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = shell.id().cast_signed();
        let mut said = std::io::BufReader::new(shell.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        let alive = Activity::of(pid).unwrap();
        assert_eq!(
            (alive.processes, alive.thread_count, alive.threads.len()),
            (2, 2, 2)
        );
        let mut input = shell.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        let after = Activity::of(pid).unwrap();
        assert_eq!(after.processes, 1);
        assert!(after.cpu >= alive.cpu, "{after:?} after {alive:?}");
        drop(input);
        // Ended and not waited for: gone all the same.
        let deadline = Instant::now() + PATIENCE;
        while Activity::of(pid) != Err(ActivityError::Gone(pid)) {
            assert!(Instant::now() < deadline, "it has ended");
            std::thread::yield_now();
        }
        shell.wait().unwrap();
        assert_eq!(Activity::of(pid), Err(ActivityError::Gone(pid)));
    }

    #[test]
    fn a_process_that_ends_while_it_is_looked_at_is_gone() {
        let of = |errno| {
            let error = std::io::Error::from_raw_os_error(errno);
            ActivityError::of(7, ProcError::Io(error, None))
        };
        assert_eq!(of(libc::ESRCH), ActivityError::Gone(7));
        assert!(matches!(of(libc::EIO), ActivityError::Unreadable(7, _)));
    }

    /// A process of so many threads, which used ticks in user space, in the kernel, and in the same of its children.
    fn stat(num_threads: usize, [user, system, of_children, in_kernel]: [u64; 4]) -> Stat {
        let text = format!(
            "7 (name) S 1 7 7 0 -1 0 0 0 0 0 {user} {system} {of_children} {in_kernel} 20 0 {num_threads} 0 5 0 1024 \
             0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
        );
        procfs::FromRead::from_read(text.as_bytes()).unwrap()
    }

    #[test]
    fn ticks_and_pages_of_a_process_are_added_up() {
        let second = rustix::param::clock_ticks_per_second();
        let mut all = Activity::default();
        for _ in 0..2 {
            assert!(all.count(&stat(3, [second, 2 * second, 4 * second, 8 * second])));
        }
        assert_eq!((all.processes, all.thread_count), (2, 6));
        assert_eq!(all.cpu, Duration::from_secs(2 * 15));
        assert_eq!(all.rss_kib, 2 * 1024 * rustix::param::page_size() as u64 / 1024);
        assert_eq!(
            own_cpu(&stat(1, [second, 2 * second, 0, 0])),
            Duration::from_secs(3)
        );
    }

    #[test]
    fn up_to_256_processes_and_threads_are_looked_at_one_by_one() {
        let looked_at = |processes, threads| {
            let mut all = Activity::default();
            (0..processes).map(|_| all.count(&stat(threads, [0; 4]))).last()
        };
        assert_eq!(
            [256, 257].map(|threads| looked_at(1, threads)),
            [Some(true), Some(false)]
        );
        assert_eq!(
            [256, 257].map(|processes| looked_at(processes, 0)),
            [Some(true), Some(false)]
        );
        let left = |thread_count| {
            let mut all = Activity {
                thread_count,
                threads: vec![ThreadActivity::default()],
                ..Activity::default()
            };
            all.leave_out_too_many();
            (all.threads.len(), all.lacks.len())
        };
        assert_eq!([256, 257].map(left), [(1, 0), (0, 1)]);
    }

    #[test]
    fn a_line_of_sockets_is_read_by_its_names() {
        let text = "sockets: used 9\nTCP: inuse 5 orphan 0 tw 7 alloc 6 mem 2\nUDP: inuse 1 mem 0\n";
        let sockets = parse_tcp_sockets(text).unwrap();
        assert_eq!((sockets.in_use, sockets.time_wait), (5, 7));
        assert_eq!(sockets.memory_kib, 2 * rustix::param::page_size() as u64 / 1024);
        assert_eq!(parse_tcp_sockets("TCP: inuse 5 orphan 0\n"), None);
        assert_eq!(parse_tcp_sockets("UDP: inuse 5\n"), None);
    }
}
