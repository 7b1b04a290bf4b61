//! Looks at a program, its processes and threads, again and again.
//!
//! What costs, and what is done about it:
//!
//! - files are kept open ([`super::files`]);
//! - of a thread that has not been given a CPU since the look before, `schedstat` alone is read: nothing else of it can
//!   have changed;
//! - passes between looks see the states of those threads alone that did something before the last look. One that did
//!   nothing was in one state all the time, and that is known;
//! - threads are listed anew only where their number is another or one has ended; processes only where the machine has
//!   made new ones, and no more often than a part of the budget allows: each process is asked for its children, and
//!   more rarely all of `/proc` for their parents, since the kernel may leave out a child where another one ends
//!   meanwhile;
//! - proportional memory and the two kinds of switches are read now and then.
//!
//! It never attaches to, stops or changes what it looks at.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::files::{Descriptors, Kept, ProcessFiles, ThreadFiles, Waits};
use super::look::{Look, ObserveError, Seen, ThreadKey, ThreadLook};
use super::pace::Pace;
use super::wait::{Inside, Moment, WaitKind, moment, parse_syscall};
use crate::activity::pss_kib_of;
use crate::affinity::allowed_in_status;
use crate::cgroup::{Quotas, memory_limit_kib};
use crate::children::{below, parents_in};
use crate::clock::{monotonic_ns, since_boot_ns, thread_cpu_ns};
use crate::limits::descriptors_of;
use crate::procstat::parse_proc_stat;
use crate::source::{SMALL, Source, read_small, read_whole};
use crate::taskstat::{
    IoCounts, SchedStat, TaskStat, is_in_a_container, parse_io, parse_schedstat, parse_switches,
    parse_task_stat,
};
use crate::topology::online;
use crate::usage::Switches;

/// Descriptors that are left to the rest of the program.
const SPARED_DESCRIPTORS: u64 = 64;
/// A search for processes, and a reading of proportional memory, take at most one part in so many of a CPU each.
const PARTS: u64 = 1_000;
/// With more threads to ask for their children all of `/proc` is as quick.
const MOST_ASKED: usize = 64;
/// Proportional memory is read no more often than this.
const BETWEEN_PSS_NS: u64 = 5_000_000_000;
/// Where a program has more resident memory, proportional memory is not read: the kernel goes through all its pages.
const MOST_PSS_KIB: u64 = 8 << 20;
/// The two kinds of switches of a thread are read at each so many looks.
const SWITCHES_EACH: u64 = 10;

/// Looks at a process and all below it.
#[derive(Debug)]
pub struct Sampler {
    source: Source,
    root: i32,
    processes: BTreeMap<i32, Process>,
    descriptors: Descriptors,
    quotas: Quotas,
    /// `/proc/stat`.
    machine: Option<File>,
    /// `/proc/loadavg`, which ends with the newest process id.
    newest: Option<File>,
    newest_seen: Option<String>,
    next_search_ns: u64,
    next_children_ns: u64,
    next_pss_ns: u64,
    pss_kib: Option<u64>,
    /// When observing began, ticks since the machine was started.
    began_ticks: u64,
    tick_ns: u64,
    cpu_ns: u64,
    /// Of processes that have ended: what was counted of them and has not come to their parents yet.
    counted_ticks: u64,
    looks: u64,
    pace: Pace,
    own_cpu_ns: u64,
    allowed_cpus: Option<usize>,
    memory_limit_kib: Option<u64>,
    lacks: BTreeSet<String>,
    buffer: Box<[u8; SMALL]>,
    long_buffer: Vec<u8>,
}

#[derive(Debug)]
struct Process {
    files: ProcessFiles,
    start_ticks: u64,
    /// CPU time of its own, and of its children that were waited for, at the last look: ticks. Before the first, where
    /// what it did is of before, none.
    ticks: Option<[u64; 2]>,
    shows_calls: bool,
    threads: BTreeMap<i32, Thread>,
}

#[derive(Debug)]
struct Thread {
    files: ThreadFiles,
    stat: TaskStat,
    sched: Option<SchedStat>,
    switches: Option<Switches>,
    /// What it did when it was seen last.
    moment: Moment,
    /// It was given a CPU before the last look.
    is_active: bool,
    seen: Seen,
}

/// How a reading of a thread or a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// There is no such any more.
    Ended,
    /// It could not be read this once.
    Unread,
}

impl Sampler {
    /// Begins to observe a process and all below it. Opens files and takes no look yet.
    ///
    /// # Errors
    ///
    /// If there is no such process, or this user may not see it. What else cannot be read is in
    /// [`lacks`](Self::lacks).
    pub fn new(pid: i32) -> Result<Self, ObserveError> {
        let open = descriptors_of(None);
        let left = open.map_or(0, |(open, most)| {
            let most = most.value().unwrap_or(u64::MAX);
            most.saturating_sub(open).saturating_sub(SPARED_DESCRIPTORS)
        });
        Self::of(
            Source::new(Path::new("/")),
            pid,
            usize::try_from(left).unwrap_or(usize::MAX),
        )
    }

    /// In a folder like `/`, with so many descriptors.
    pub(super) fn of(source: Source, pid: i32, descriptors: usize) -> Result<Self, ObserveError> {
        let before = thread_cpu_ns();
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let open = |path: &str| File::open(source.path(path)).ok();
        let mut sampler = Self {
            root: pid,
            processes: BTreeMap::new(),
            descriptors: Descriptors::of(descriptors),
            quotas: Quotas::default(),
            machine: open("/proc/stat"),
            newest: open("/proc/loadavg"),
            newest_seen: None,
            next_search_ns: 0,
            next_children_ns: 0,
            next_pss_ns: 0,
            pss_kib: None,
            began_ticks: since_boot_ns() / tick_ns,
            tick_ns,
            cpu_ns: 0,
            counted_ticks: 0,
            looks: 0,
            pace: Pace::default(),
            own_cpu_ns: 0,
            allowed_cpus: None,
            memory_limit_kib: memory_limit_kib(&source, &pid.to_string()).ok(),
            lacks: BTreeSet::new(),
            buffer: Box::new([0; SMALL]),
            long_buffer: Vec::new(),
            source,
        };
        sampler
            .add(pid)
            .map_err(|error| why_not(pid, &error, sampler.source.is_live() && is_there(pid)))?;
        if sampler.has_ended() {
            return Err(ObserveError::Zombie(pid));
        }
        let status = sampler
            .source
            .text(&format!("/proc/{pid}/status"))
            .unwrap_or_default();
        // The kernel's list may name CPUs that the machine could have and has not.
        sampler.allowed_cpus = allowed_in_status(&status).map(|allowed| match online(&sampler.source) {
            Ok(online) => allowed.intersection(&online).len(),
            Err(_) => allowed.len(),
        });
        if is_in_a_container(&status) {
            let says =
                "it is in a container: process ids here are those of the machine, not those in the container";
            sampler.lacks.insert(says.to_owned());
        }
        sampler.own_cpu_ns = thread_cpu_ns() - before;
        Ok(sampler)
    }

    /// The process that is observed, with all below it.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.root
    }

    /// On how many CPUs the process may run, by the affinity of its first thread and its cpuset; `None` where that
    /// cannot be read.
    #[must_use]
    pub fn allowed_cpus(&self) -> Option<usize> {
        self.allowed_cpus
    }

    /// The least quota that holds back all of the program, in CPUs' worth of time. Those of single processes of it are
    /// in [`Look::quotas`] alone.
    #[must_use]
    pub fn quota_cpus(&self) -> Option<f64> {
        self.quotas.least_cpus()
    }

    /// The least limit on memory of the process's control group and those above it, KiB; `None` where there is none or
    /// they cannot be seen.
    #[must_use]
    pub fn memory_limit_kib(&self) -> Option<u64> {
        self.memory_limit_kib
    }

    /// What could not be read, and what follows from that, in words.
    pub fn lacks(&self) -> impl Iterator<Item = &str> {
        self.lacks.iter().map(String::as_str)
    }

    /// The least time between two looks at which observing stays below [`MOST_OWN_SHARE`](super::MOST_OWN_SHARE).
    #[must_use]
    pub fn least_interval(&self) -> Duration {
        self.pace.least_interval()
    }

    /// The time between two passes, where a look comes after each `interval`; as long as that where there is to be
    /// none.
    #[must_use]
    pub fn between_passes(&self, interval: Duration) -> Duration {
        self.pace.between_passes(interval)
    }

    /// Sees in which state those threads are that do something. Takes some microseconds for each.
    pub fn pass(&mut self) {
        let before = thread_cpu_ns();
        for process in self.processes.values_mut() {
            for thread in process.threads.values_mut().filter(|thread| thread.is_active) {
                // What has ended is found out at the next look.
                if let Ok(moment) = thread.look_at_state(&mut self.buffer) {
                    thread.moment = moment;
                    thread.seen.add(moment);
                }
            }
        }
        let took = thread_cpu_ns() - before;
        self.pace.passed(took);
        self.own_cpu_ns += took;
    }

    /// Looks at all. Takes some microseconds for each thread, and more at the first time.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Ended`] once the process has ended, also where some below it live on.
    pub fn look(&mut self) -> Result<Look, ObserveError> {
        self.look_with(self.looks.is_multiple_of(SWITCHES_EACH))
    }

    /// The last look, which reads the two kinds of switches of all threads.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look).
    pub fn last_look(&mut self) -> Result<Look, ObserveError> {
        self.look_with(true)
    }

    fn look_with(&mut self, reads_switches: bool) -> Result<Look, ObserveError> {
        let before = thread_cpu_ns();
        let own_before = self.own_cpu_ns;
        self.search(monotonic_ns());
        // The time of what is read next: a search may take some milliseconds.
        let at_ns = monotonic_ns();
        let now_ticks = since_boot_ns() / self.tick_ns;
        let mut look = Look {
            at_ns,
            ..Look::default()
        };
        let mut gone = Vec::new();
        let (mut ticks_own, mut ticks_children) = (0_u64, 0_u64);
        let mut io = Some(IoCounts::default());
        for (&pid, process) in &mut self.processes {
            let stat = match read_stat(&process.files.stat, &mut self.buffer) {
                // Where files are not kept open, one that has its number after it is found out by its start.
                Ok(stat) if stat.start_ticks == process.start_ticks => stat,
                Ok(_) | Err(Gone::Ended) => {
                    gone.push(pid);
                    continue;
                }
                Err(Gone::Unread) => continue,
            };
            let is_over = is_over(&stat);
            if is_over && pid == self.root {
                gone.push(pid);
                continue;
            }
            let now = [stat.own_ticks(), stat.children_ticks];
            let [own, children] = process.ticks.unwrap_or(now);
            ticks_own += now[0].saturating_sub(own);
            ticks_children += now[1].saturating_sub(children);
            process.ticks = Some(now);
            // Of one that has ended, too, until its parent has waited for it and has all that.
            io = io
                .zip(process.read_io(&mut self.buffer))
                .map(|(sum, io)| sum.plus(io));
            // It is kept until its parent has its time.
            if is_over {
                let threads = std::mem::take(&mut process.threads);
                let of_threads = threads.values().map(|thread| thread.files.descriptors());
                self.descriptors.give_back(of_threads.sum());
                continue;
            }
            look.processes += 1;
            look.rss_kib += stat.rss_pages * rustix::param::page_size() as u64 / 1_024;
            let found = process.look(
                &mut Reader {
                    source: &self.source,
                    descriptors: &mut self.descriptors,
                    buffer: &mut self.buffer,
                    reads_switches,
                },
                pid,
                stat.threads,
            );
            let age = |start: u64| now_ticks.saturating_sub(start).saturating_mul(self.tick_ns);
            look.threads.extend(
                found
                    .into_iter()
                    .map(|(key, thread)| thread.told(key, age(key.start_ticks), self.tick_ns)),
            );
        }
        let has_ended = gone.contains(&self.root) || !self.processes.contains_key(&self.root);
        // The time of one that has ended comes to its parent, if that waits for it, now or at the next look. What was
        // seen of it is not counted again.
        let known: u64 = gone
            .iter()
            .filter_map(|pid| self.processes.get(pid)?.ticks)
            .flatten()
            .sum();
        let counted = (self.counted_ticks + known).min(ticks_children);
        self.counted_ticks = (self.counted_ticks + known - counted).min(known);
        self.cpu_ns += (ticks_own + ticks_children - counted) * self.tick_ns;
        for pid in gone {
            self.forget(pid);
        }
        if has_ended {
            return Err(ObserveError::Ended(self.root));
        }
        look.cpu_ns = self.cpu_ns;
        look.io = io;
        look.pss_kib = self.pss(at_ns, look.rss_kib);
        look.quotas = self.quotas.read(&mut self.buffer);
        look.machine_ns = self.machine_ns();
        if look.threads.iter().any(|thread| thread.waited_ns.is_none()) {
            let says = "this kernel does not count how long threads wait for a CPU (no schedstat): that is told by \
                        how often they were seen ready to run, and CPU time is counted in ticks";
            self.lacks.insert(says.to_owned());
        }
        if self.descriptors.were_short {
            let says = "no more files may be open: those of some threads are opened for each look, which costs more \
                        (`ulimit -n` raises it)";
            self.lacks.insert(says.to_owned());
        }
        let took = thread_cpu_ns() - before;
        // The first opens all files, and comes once.
        if self.looks > 0 {
            self.pace
                .looked(took.saturating_sub(self.own_cpu_ns - own_before));
        }
        self.looks += 1;
        self.own_cpu_ns = own_before + took;
        look.own_cpu_ns = self.own_cpu_ns;
        Ok(look)
    }

    /// Whether the process that is observed has ended and waits for its parent.
    fn has_ended(&mut self) -> bool {
        let root = self.processes.get(&self.root);
        let stat = root.map(|root| read_stat(&root.files.stat, &mut self.buffer));
        matches!(stat, Some(Ok(stat)) if is_over(&stat))
    }

    /// Takes a process in.
    fn add(&mut self, pid: i32) -> io::Result<()> {
        let files = ProcessFiles::open(&self.source, pid, &mut self.descriptors)?;
        let text = files.stat.read(&mut self.buffer)?;
        let stat = parse_task_stat(&text).ok_or_else(|| io::Error::other("its stat is not understood"))?;
        drop(text);
        let shows_calls = shows_calls(&self.source, pid);
        let mut lacks = |says: &str| {
            self.lacks.insert(says.to_owned());
        };
        match shows_calls {
            Ok(true) => {}
            Ok(false) => lacks("a program of 32 bits: what it waits for is not told apart"),
            Err(true) => lacks(
                "its system calls may not be read by this user (root may, and whoever started it): what it waits \
                 for is known only where the kernel shows the place",
            ),
            Err(false) => lacks("this kernel does not tell system calls: what it waits for is known in part"),
        }
        if files
            .io
            .as_ref()
            .is_none_or(|io| io.read(&mut self.buffer).is_err())
        {
            self.lacks.insert(
                "what it reads and writes may not be read by this user, or is not counted".to_owned(),
            );
        }
        if let Err(why) = self.quotas.add(&self.source, pid)
            && pid == self.root
        {
            let says = format!("whether a quota or a limit on memory holds it back: {why}");
            self.lacks.insert(says);
        }
        // What a process did before observing began is of before.
        let is_new = stat.start_ticks >= self.began_ticks;
        let process = Process {
            files,
            start_ticks: stat.start_ticks,
            ticks: is_new.then_some([0, 0]),
            shows_calls: shows_calls == Ok(true),
            threads: BTreeMap::new(),
        };
        self.processes.insert(pid, process);
        Ok(())
    }

    fn forget(&mut self, pid: i32) {
        if let Some(process) = self.processes.remove(&pid) {
            let of_threads = process.threads.values().map(|thread| thread.files.descriptors());
            self.descriptors
                .give_back(process.files.descriptors() + of_threads.sum::<usize>());
        }
    }

    /// Finds processes that were started below those that are known.
    fn search(&mut self, at_ns: u64) {
        let newest = self.newest.as_ref().and_then(|file| {
            let text = read_small(file, &mut self.buffer).ok()?;
            let newest = text.trim().rsplit(' ').next()?;
            // Where `/proc` is not the kernel's own it may be none.
            (newest != "0").then(|| newest.to_owned())
        });
        let is_none_new = newest.is_some() && newest == self.newest_seen;
        if is_none_new {
            return;
        }
        let before = thread_cpu_ns();
        let is_whole = at_ns >= self.next_search_ns;
        let found = match is_whole {
            true => self.found_in_all(),
            false if at_ns >= self.next_children_ns => self.children(),
            false => return,
        };
        // Who observes is no part of what is observed.
        let itself = std::process::id().cast_signed();
        for pid in found {
            if pid != itself && !self.processes.contains_key(&pid) {
                // One that has ended meanwhile is in its parent's time.
                let _ = self.add(pid);
            }
        }
        let took = thread_cpu_ns() - before;
        if is_whole {
            self.newest_seen = newest;
            self.next_search_ns = at_ns + took * PARTS;
        } else {
            self.next_children_ns = at_ns + took * PARTS;
        }
        // A cost of its own, with a budget of its own: it does not count with looks.
        self.own_cpu_ns += took;
    }

    /// What is below those that are known, by the parents of all processes of the machine.
    fn found_in_all(&self) -> Vec<i32> {
        let mut parents = parents_in(&self.source.path("/proc"));
        // One whose parent has ended belongs to another one now, and stays a part of the program.
        for pid in self.processes.keys().filter(|pid| **pid != self.root) {
            parents.insert(*pid, self.root);
        }
        let itself = HashSet::from([std::process::id().cast_signed()]);
        below(self.root, &parents, &itself)
    }

    /// What is below those that are known, as far as these tell: nothing where the kernel does not tell children, or
    /// too many threads would have to be asked.
    fn children(&self) -> Vec<i32> {
        let mut all: Vec<i32> = self.processes.keys().copied().collect();
        let (mut next, mut asked) = (0, 0);
        while let Some(pid) = all.get(next).copied() {
            next += 1;
            let folder = format!("/proc/{pid}/task");
            for tid in self.source.names(&folder) {
                asked += 1;
                if asked > MOST_ASKED {
                    return all;
                }
                let children = self
                    .source
                    .text(&format!("{folder}/{tid}/children"))
                    .unwrap_or_default();
                let children = children
                    .split_ascii_whitespace()
                    .filter_map(|pid| pid.parse().ok());
                let new: Vec<i32> = children.filter(|pid| !all.contains(pid)).collect();
                all.extend(new);
            }
        }
        all
    }

    /// Proportional memory, read anew where it is time for that.
    fn pss(&mut self, at_ns: u64, rss_kib: u64) -> Option<u64> {
        if rss_kib > MOST_PSS_KIB {
            self.pss_kib = None;
            let says =
                "it has too much memory to ask what part of it is shared: resident memory alone is told";
            self.lacks.insert(says.to_owned());
        } else if self.source.is_live() && at_ns >= self.next_pss_ns {
            let before = thread_cpu_ns();
            // One without threads has ended, and has no memory any more.
            let live = self.processes.iter().filter(|(_, of)| !of.threads.is_empty());
            self.pss_kib = live.map(|(pid, _)| pss_kib_of(*pid)).sum::<Option<u64>>();
            let took = thread_cpu_ns() - before;
            self.next_pss_ns = at_ns + BETWEEN_PSS_NS.max(took * PARTS);
            self.own_cpu_ns += took;
        }
        self.pss_kib
    }

    fn machine_ns(&mut self) -> Option<u64> {
        let text = read_whole(self.machine.as_ref()?, &mut self.long_buffer).ok()?;
        let ticks: u64 = parse_proc_stat(&text).iter().map(|cpu| cpu.busy()).sum();
        Some(ticks.saturating_mul(self.tick_ns))
    }
}

/// Why a process could not be taken in: by the error of its files, and by whether the kernel knows such a process.
fn why_not(pid: i32, error: &io::Error, is_there: bool) -> ObserveError {
    match error.kind() {
        io::ErrorKind::NotFound if is_there => ObserveError::Hidden(pid),
        io::ErrorKind::PermissionDenied => ObserveError::Hidden(pid),
        io::ErrorKind::NotFound => ObserveError::NoSuchProcess(pid),
        _ if error.raw_os_error() == Some(libc::ESRCH) => ObserveError::NoSuchProcess(pid),
        _ => ObserveError::Unreadable(pid, error.to_string()),
    }
}

/// Whether the kernel knows such a process. No signal is sent: it is asked whether one could be.
fn is_there(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM)))
}

/// What reading threads needs.
struct Reader<'a> {
    source: &'a Source,
    descriptors: &'a mut Descriptors,
    buffer: &'a mut [u8; SMALL],
    reads_switches: bool,
}

impl Process {
    /// Reads all its threads, of which there are so many by its own count: those that were read.
    fn look(&mut self, reader: &mut Reader<'_>, pid: i32, count: u64) -> Vec<(ThreadKey, &mut Thread)> {
        let before = self.threads.len();
        let descriptors = &mut *reader.descriptors;
        self.threads.retain(|_, thread| match thread.look(reader.buffer) {
            Ok(()) | Err(Gone::Unread) => true,
            Err(Gone::Ended) => {
                descriptors.give_back(thread.files.descriptors());
                false
            }
        });
        if self.threads.len() != before || self.threads.len() as u64 != count {
            self.list(reader, pid);
        }
        if reader.reads_switches {
            for (tid, thread) in &mut self.threads {
                thread.read_switches(reader.source, pid, *tid);
            }
        }
        let all = self.threads.iter_mut().map(|(&tid, thread)| {
            let start_ticks = thread.stat.start_ticks;
            (
                ThreadKey {
                    pid,
                    tid,
                    start_ticks,
                },
                thread,
            )
        });
        all.collect()
    }

    /// Finds out which threads there are, opens new ones and forgets those that are gone.
    fn list(&mut self, reader: &mut Reader<'_>, pid: i32) {
        let names = reader.source.names(&format!("/proc/{pid}/task"));
        let tids: BTreeSet<i32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let descriptors = &mut *reader.descriptors;
        self.threads.retain(|tid, thread| {
            let is_there = tids.contains(tid);
            if !is_there {
                descriptors.give_back(thread.files.descriptors());
            }
            is_there
        });
        for tid in tids {
            if self.threads.contains_key(&tid) {
                continue;
            }
            let files = ThreadFiles::open(reader.source, pid, tid, self.shows_calls, reader.descriptors);
            // One that has ended meanwhile is in the time of its process.
            let Ok(files) = files else { continue };
            let mut thread = Thread {
                files,
                stat: TaskStat::default(),
                sched: None,
                switches: None,
                moment: Moment::Waits(WaitKind::Unknown),
                is_active: true,
                seen: Seen::default(),
            };
            match thread.look(reader.buffer) {
                Ok(()) => {
                    thread.read_switches(reader.source, pid, tid);
                    self.threads.insert(tid, thread);
                }
                Err(_) => reader.descriptors.give_back(thread.files.descriptors()),
            }
        }
    }

    /// What it read and wrote; `None` where that may not be read.
    fn read_io(&self, buffer: &mut [u8; SMALL]) -> Option<IoCounts> {
        match text_of(self.files.io.as_ref()?, buffer) {
            Ok(text) => parse_io(&text),
            // It has gone meanwhile, and what it did to its parent.
            Err(Gone::Ended) => Some(IoCounts::default()),
            Err(Gone::Unread) => None,
        }
    }
}

impl Thread {
    /// Reads what the kernel counts and, where it has been given a CPU, what it does now.
    fn look(&mut self, buffer: &mut [u8; SMALL]) -> Result<(), Gone> {
        let sched = match &self.files.sched {
            Some(file) => parse_schedstat(&text_of(file, buffer)?),
            None => None,
        };
        // One that is read for the first time, or whose counts are no counts, is read whole.
        let is_asleep = sched.is_some_and(|now| now.slices > 0 && self.sched == Some(now));
        // Where files are opened anew, its number may be another's by now.
        let is_sure = matches!(self.files.stat, Kept::Open(_));
        if is_asleep && is_sure {
            self.is_active = false;
            // Passes while it was thought to be active have seen the same.
            self.seen = Seen::only(self.moment);
            return Ok(());
        }
        let stat = read_stat(&self.files.stat, buffer)?;
        let is_another = self.stat.start_ticks != 0 && self.stat.start_ticks != stat.start_ticks;
        if is_another || matches!(stat.state, 'X' | 'x') {
            return Err(Gone::Ended);
        }
        // A kernel that does not count says nought, also of a thread that has run.
        self.sched = sched.filter(|now| *now != SchedStat::default() || stat.own_ticks() == 0);
        self.is_active = true;
        self.moment = self.state_by(stat.state, buffer)?;
        self.stat = stat;
        self.seen.add(self.moment);
        Ok(())
    }

    /// What it does now.
    fn look_at_state(&self, buffer: &mut [u8; SMALL]) -> Result<Moment, Gone> {
        // Who runs says so in one file.
        let inside = match &self.files.waits {
            Waits::Syscall(file) => parse_syscall(&text_of(file, buffer)?),
            Waits::Wchan(_) | Waits::Nothing => None,
        };
        if inside == Some(Inside::Runnable) {
            return Ok(Moment::Runnable);
        }
        let state = read_stat(&self.files.stat, buffer)?.state;
        match &self.files.waits {
            Waits::Syscall(_) => Ok(moment(state, inside, None)),
            Waits::Wchan(_) | Waits::Nothing => self.state_by(state, buffer),
        }
    }

    /// What it does in this state.
    fn state_by(&self, state: char, buffer: &mut [u8; SMALL]) -> Result<Moment, Gone> {
        if state == 'R' {
            return Ok(Moment::Runnable);
        }
        Ok(match &self.files.waits {
            Waits::Syscall(file) => match text_of(file, buffer) {
                Ok(text) => moment(state, parse_syscall(&text), None),
                Err(Gone::Ended) => return Err(Gone::Ended),
                // It has become a program that may not be looked at.
                Err(Gone::Unread) => moment(state, None, None),
            },
            Waits::Wchan(file) => moment(state, None, Some(&*text_of(file, buffer)?)),
            Waits::Nothing => moment(state, None, None),
        })
    }

    /// Its switches by kind, where it has been given a CPU since they were read.
    fn read_switches(&mut self, source: &Source, pid: i32, tid: i32) {
        let are_known = match (self.sched, self.switches) {
            (Some(sched), Some(switches)) => switches.total() >= sched.slices,
            _ => false,
        };
        if !are_known && let Ok(status) = source.text(&format!("/proc/{pid}/task/{tid}/status")) {
            self.switches = parse_switches(&status).or(self.switches);
        }
    }

    /// What is told of it; what was seen of it begins anew.
    fn told(&mut self, key: ThreadKey, age_ns: u64, tick_ns: u64) -> ThreadLook {
        ThreadLook {
            key,
            name: self.stat.name.clone(),
            ran_ns: self
                .sched
                .map_or(self.stat.own_ticks() * tick_ns, |sched| sched.ran_ns),
            waited_ns: self.sched.map(|sched| sched.waited_ns),
            slices: self.sched.map(|sched| sched.slices),
            ticks: [self.stat.user_ticks, self.stat.system_ticks],
            switches: self.switches,
            cpu: self.stat.cpu,
            age_ns,
            seen: std::mem::take(&mut self.seen),
        }
    }
}

fn read_stat(file: &Kept, buffer: &mut [u8; SMALL]) -> Result<TaskStat, Gone> {
    parse_task_stat(&text_of(file, buffer)?).ok_or(Gone::Unread)
}

fn text_of<'a>(file: &Kept, buffer: &'a mut [u8; SMALL]) -> Result<Cow<'a, str>, Gone> {
    file.read(buffer).map_err(|error| gone(&error))
}

fn gone(error: &io::Error) -> Gone {
    match error.raw_os_error() {
        Some(libc::ESRCH | libc::ENOENT) => Gone::Ended,
        _ => Gone::Unread,
    }
}

/// Whether a process has ended. The first thread of one that lives on with others is a zombie, too.
fn is_over(stat: &TaskStat) -> bool {
    matches!(stat.state, 'Z' | 'X' | 'x') && stat.threads <= 1
}

/// Whether system calls of a process are shown and can be told apart; as an error whether it is for lack of rights that
/// they are not.
fn shows_calls(source: &Source, pid: i32) -> Result<bool, bool> {
    use std::io::Read as _;
    std::fs::read(source.path(&format!("/proc/{pid}/syscall")))
        .map_err(|error| error.kind() == io::ErrorKind::PermissionDenied)?;
    // Numbers of a program of 32 bits are others. Of an ELF file the fifth byte says that.
    let mut begin = [0; 5];
    let program = File::open(source.path(&format!("/proc/{pid}/exe")));
    let is_read = program.is_ok_and(|mut program| program.read_exact(&mut begin).is_ok());
    Ok(!(is_read && begin.starts_with(b"\x7fELF") && begin[4] == 1))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use tempfile::TempDir;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);
    /// More than any test needs.
    const PLENTY: usize = 1_000;

    /// A folder like `/`, in which processes and threads are files.
    struct Made(TempDir);

    impl Made {
        /// Process 7 with its one thread.
        fn new() -> Self {
            let made = Self(tempfile::tempdir().unwrap());
            made.process(7, 1, [1, 0, 0], 100);
            made.thread(7, 7, "main", 'S', [100, 10, 1], "futex");
            made
        }

        fn write(&self, path: &str, text: &str) {
            self.write_in("proc", path, text);
        }

        fn write_in(&self, folder: &str, path: &str, text: &str) {
            let path = self.0.path().join(folder).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn remove(&self, path: &str) {
            std::fs::remove_dir_all(self.0.path().join("proc").join(path)).unwrap();
        }

        /// A process with so many threads; its parent, ticks of its own and of its children; and its start.
        fn process(&self, pid: i32, threads: u64, [parent, own, children]: [u64; 3], start: u64) {
            self.write(
                &format!("{pid}/stat"),
                &stat("main", 'S', parent, own, children, threads, start),
            );
        }

        fn thread(
            &self,
            pid: i32,
            tid: i32,
            name: &str,
            state: char,
            [ran, waited, slices]: [u64; 3],
            call: &str,
        ) {
            let folder = format!("{pid}/task/{tid}");
            self.write(&format!("{folder}/stat"), &stat(name, state, 1, 0, 0, 1, 100));
            self.write(
                &format!("{folder}/schedstat"),
                &format!("{ran} {waited} {slices}\n"),
            );
            let call = match call {
                "futex" => format!("{} 0x0", libc::SYS_futex),
                "read" => format!("{} 0x0", libc::SYS_read),
                other => other.to_owned(),
            };
            self.write(&format!("{folder}/syscall"), &call);
            // Calls of a process are those of its first thread.
            self.write(&format!("{pid}/syscall"), &call);
        }

        fn sampler(&self, descriptors: usize) -> Sampler {
            Sampler::of(Source::new(self.0.path()), 7, descriptors).unwrap()
        }
    }

    fn stat(
        name: &str,
        state: char,
        parent: u64,
        own: u64,
        children: u64,
        threads: u64,
        start: u64,
    ) -> String {
        format!(
            "7 ({name}) {state} {parent} 7 7 0 -1 0 0 0 0 0 {own} 0 {children} 0 20 0 {threads} 0 {start} 0 10 0 0 \
             0 0 0 0 0 0 0 0 0 0 0 17 1\n"
        )
    }

    fn names(look: &Look) -> Vec<&str> {
        look.threads.iter().map(|thread| &*thread.name).collect()
    }

    /// Looks until it is so.
    fn look_until(sampler: &mut Sampler, is_so: impl Fn(&Look) -> bool) -> Look {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let look = sampler.look().unwrap();
            if is_so(&look) {
                return look;
            }
            assert!(Instant::now() < deadline, "{look:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn kind(thread: &ThreadLook) -> Vec<WaitKind> {
        let kinds = WaitKind::ALL.into_iter();
        kinds.filter(|kind| thread.seen.waits[kind.index()] > 0).collect()
    }

    #[test]
    fn a_thread_is_told_with_what_is_counted_of_it_and_what_it_waits_for() {
        let made = Made::new();
        let mut sampler = made.sampler(PLENTY);
        let look = sampler.look().unwrap();
        let [thread] = &look.threads[..] else {
            panic!("{look:?}")
        };
        assert_eq!(
            (thread.ran_ns, thread.waited_ns, thread.slices),
            (100, Some(10), Some(1))
        );
        assert_eq!(
            (&*thread.name, thread.cpu, kind(thread)),
            ("main", Some(1), vec![WaitKind::Futex])
        );
        assert_eq!((look.processes, look.cpu_ns), (1, 0));
        assert_eq!(look.rss_kib, 10 * rustix::param::page_size() as u64 / 1_024);
    }

    #[test]
    fn one_that_was_not_given_a_cpu_is_as_it_was_and_passes_leave_it_out() {
        let made = Made::new();
        let mut sampler = made.sampler(PLENTY);
        sampler.look().unwrap();
        // Active until a look finds that it did nothing.
        sampler.pass();
        sampler.pass();
        let seen = sampler.look().unwrap().threads[0].seen;
        assert_eq!((seen.runnable, seen.waiting()), (0, 1));
        // It cannot be in another call without having run.
        made.thread(7, 7, "main", 'S', [100, 10, 1], "read");
        sampler.pass();
        assert_eq!(kind(&sampler.look().unwrap().threads[0]), [WaitKind::Futex]);
        made.thread(7, 7, "main", 'S', [150, 10, 2], "read");
        assert_eq!(kind(&sampler.look().unwrap().threads[0]), [WaitKind::Read]);
        made.thread(7, 7, "main", 'R', [160, 10, 2], "running");
        sampler.pass();
        sampler.pass();
        let seen = sampler.look().unwrap().threads[0].seen;
        assert_eq!((seen.runnable, seen.waiting()), (3, 0));
    }

    #[test]
    fn threads_and_processes_that_come_and_go_are_followed() {
        // Without descriptors, since a file that is open here outlives its folder.
        for descriptors in [PLENTY, 0] {
            let made = Made::new();
            let mut sampler = made.sampler(descriptors);
            assert_eq!(names(&sampler.look().unwrap()), ["main"]);
            made.thread(7, 8, "worker-1", 'S', [0, 0, 0], "futex");
            made.process(7, 2, [1, 0, 0], 100);
            assert_eq!(names(&sampler.look().unwrap()), ["main", "worker-1"]);
            made.process(9, 1, [7, 0, 0], 100);
            made.thread(9, 9, "child", 'S', [0, 0, 0], "read");
            let look = look_until(&mut sampler, |look| look.processes == 2);
            assert_eq!(names(&look), ["main", "worker-1", "child"]);
            made.remove("7/task/8");
            made.process(7, 1, [1, 0, 0], 100);
            assert_eq!(names(&sampler.look().unwrap()), ["main", "child"]);
            assert_eq!(sampler.descriptors.were_short, descriptors == 0);
        }
    }

    #[test]
    fn a_process_is_found_by_what_its_parent_says_before_all_are_looked_through() {
        let made = Made::new();
        let mut sampler = made.sampler(PLENTY);
        sampler.look().unwrap();
        for (pid, child) in [(7, 9), (9, 10)] {
            made.write(&format!("{pid}/task/{pid}/children"), &format!("{child} \n"));
            // Its parent by this is another: looking through all does not find it.
            made.process(child, 1, [1, 0, 0], 100);
            made.thread(child, child, "child", 'S', [0, 0, 0], "read");
        }
        let look = look_until(&mut sampler, |look| look.processes == 3);
        assert_eq!(names(&look), ["main", "child", "child"]);
    }

    #[test]
    fn the_time_of_a_child_is_counted_once_whether_it_lives_or_has_been_waited_for() {
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let made = Made::new();
        let mut sampler = made.sampler(0);
        // What it has done before is of before.
        made.process(7, 1, [1, 50, 30], 100);
        sampler.look().unwrap();
        made.process(7, 1, [1, 52, 30], 100);
        // One that begins while it is observed counts whole.
        made.process(9, 1, [7, 40, 0], u64::MAX / 4);
        made.thread(9, 9, "child", 'S', [0, 0, 0], "read");
        let look = look_until(&mut sampler, |look| look.processes == 2);
        assert_eq!(look.cpu_ns, 42 * tick_ns);
        made.remove("9");
        made.process(7, 1, [1, 52, 30 + 45], 100);
        let look = look_until(&mut sampler, |look| look.processes == 1);
        assert_eq!(look.cpu_ns, 47 * tick_ns, "5 more until its end");
        // Where its end is seen before its parent has waited for it, that comes at the next look.
        made.process(10, 1, [7, 20, 0], u64::MAX / 4);
        look_until(&mut sampler, |look| look.processes == 2);
        made.remove("10");
        assert_eq!(sampler.look().unwrap().cpu_ns, 67 * tick_ns);
        made.process(7, 1, [1, 52, 75 + 20], 100);
        assert_eq!(sampler.look().unwrap().cpu_ns, 67 * tick_ns);
    }

    #[test]
    fn one_that_has_ended_is_told_from_another_with_its_number() {
        let made = Made::new();
        let mut sampler = made.sampler(0);
        sampler.look().unwrap();
        made.process(7, 1, [1, 0, 0], 999);
        assert_eq!(sampler.look(), Err(ObserveError::Ended(7)));
        let mut sampler = made.sampler(0);
        made.remove("7");
        assert_eq!(sampler.look(), Err(ObserveError::Ended(7)));
        let of = Sampler::of(Source::new(made.0.path()), 7, 0);
        assert_eq!(of.unwrap_err(), ObserveError::NoSuchProcess(7));
    }

    #[test]
    fn a_zombie_is_none_but_where_threads_of_it_live_on() {
        let made = Made::new();
        let of = |threads| {
            made.write("7/stat", &stat("main", 'Z', 1, 0, 0, threads, 100));
            Sampler::of(Source::new(made.0.path()), 7, 0).map(|_| ())
        };
        assert_eq!(of(1), Err(ObserveError::Zombie(7)));
        assert_eq!(of(2), Ok(()));
    }

    #[test]
    fn without_schedstat_time_is_counted_in_ticks_and_that_is_said() {
        let made = Made::new();
        std::fs::remove_file(made.0.path().join("proc/7/task/7/schedstat")).unwrap();
        made.write("7/task/7/stat", &stat("main", 'S', 1, 3, 0, 1, 100));
        let mut sampler = made.sampler(PLENTY);
        let look = sampler.look().unwrap();
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(
            (look.threads[0].ran_ns, look.threads[0].waited_ns),
            (3 * tick_ns, None)
        );
        assert!(sampler.lacks().any(|lack| lack.contains("no schedstat")));
        // A kernel that says nought of everything does not count.
        made.write("7/task/7/schedstat", "0 0 0\n");
        let mut sampler = made.sampler(PLENTY);
        assert_eq!(sampler.look().unwrap().threads[0].waited_ns, None);
    }

    #[test]
    fn what_may_not_be_read_is_said_and_the_rest_is_told() {
        let made = Made::new();
        std::fs::remove_file(made.0.path().join("proc/7/syscall")).unwrap();
        made.write("7/task/7/wchan", "futex_wait_queue");
        let mut sampler = made.sampler(PLENTY);
        let look = sampler.look().unwrap();
        assert_eq!(kind(&look.threads[0]), [WaitKind::Futex]);
        assert_eq!(
            (look.io, sampler.allowed_cpus(), sampler.quota_cpus()),
            (None, None, None)
        );
        let lacks: Vec<&str> = sampler.lacks().collect();
        assert!(
            lacks
                .iter()
                .any(|lack| lack.contains("does not tell system calls")),
            "{lacks:?}"
        );
        assert!(
            lacks.iter().any(|lack| lack.contains("reads and writes")),
            "{lacks:?}"
        );
    }

    #[test]
    fn a_process_that_is_hidden_is_told_from_one_that_is_not_there() {
        let of = |error, is_there| why_not(7, &io::Error::from_raw_os_error(error), is_there);
        // With hidepid=invisible and hidepid=ptraceable the kernel says that it has no such file, with
        // hidepid=noaccess that the file may not be read.
        assert_eq!(of(libc::ENOENT, true), ObserveError::Hidden(7));
        assert_eq!(of(libc::EPERM, true), ObserveError::Hidden(7));
        // A security module may hide from signals, too.
        assert_eq!(of(libc::EACCES, false), ObserveError::Hidden(7));
        assert_eq!(of(libc::ENOENT, false), ObserveError::NoSuchProcess(7));
        // It has ended between opening and reading its file.
        assert_eq!(of(libc::ESRCH, false), ObserveError::NoSuchProcess(7));
        let other = of(libc::EMFILE, true);
        assert!(matches!(other, ObserveError::Unreadable(7, _)), "{other:?}");
        assert!(is_there(std::process::id().cast_signed()));
        // Process ids end below this.
        assert!(!is_there(1 << 30));
    }

    #[test]
    fn a_process_in_a_container_has_the_cpus_the_quota_and_the_memory_of_that() {
        let made = Made::new();
        made.write("7/status", "NSpid:\t7\t1\nCpus_allowed_list:\t1-63\n");
        made.write("7/cgroup", "0::/pod/job\n");
        made.write(
            "self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
        );
        for (path, text) in [
            ("fs/cgroup/pod/cpu.max", "150000 100000\n"),
            (
                "fs/cgroup/pod/cpu.stat",
                "nr_periods 9\nnr_throttled 3\nthrottled_usec 5\n",
            ),
            ("fs/cgroup/pod/job/memory.max", "1073741824\n"),
            ("fs/cgroup/pod/job/memory.current", "4096\n"),
            ("devices/system/cpu/online", "0-3\n"),
        ] {
            made.write_in("sys", path, text);
        }
        let of = |it: &Sampler| (it.allowed_cpus(), it.quota_cpus(), it.memory_limit_kib());
        let sampler = made.sampler(PLENTY);
        assert_eq!(of(&sampler), (Some(3), Some(1.5), Some(1 << 20)));
        let lacks: Vec<&str> = sampler.lacks().collect();
        assert!(
            lacks.iter().any(|lack| lack.contains("in a container")),
            "{lacks:?}"
        );
        assert!(!lacks.iter().any(|lack| lack.contains("quota")), "{lacks:?}");
        // Of one beside that of the observer nothing but its CPUs can be seen.
        made.write("7/cgroup", "0::/../other\n");
        let sampler = made.sampler(PLENTY);
        assert_eq!(of(&sampler), (Some(3), None, None));
        let lacks: Vec<&str> = sampler.lacks().collect();
        assert!(
            lacks
                .iter()
                .any(|lack| lack.contains("a quota or a limit on memory") && lack.contains("is not found")),
            "{lacks:?}"
        );
    }

    #[test]
    fn switches_are_read_now_and_then_and_at_the_end() {
        let made = Made::new();
        let status = |voluntary: u64| {
            let lines = format!("voluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t0\n");
            made.write("7/task/7/status", &lines);
        };
        status(1);
        let mut sampler = made.sampler(PLENTY);
        let voluntary = |look: Look| look.threads[0].switches.map(|switches| switches.voluntary);
        assert_eq!(voluntary(sampler.look().unwrap()), Some(1));
        status(5);
        made.thread(7, 7, "main", 'S', [900, 10, 5], "read");
        assert_eq!(voluntary(sampler.look().unwrap()), Some(1));
        assert_eq!(voluntary(sampler.last_look().unwrap()), Some(5));
    }

    #[test]
    fn a_program_of_32_bits_has_other_calls() {
        let made = Made::new();
        let source = Source::new(made.0.path());
        made.write("7/exe", "\x7fELF\x02");
        assert_eq!(shows_calls(&source, 7), Ok(true));
        made.write("7/exe", "\x7fELF\x01");
        assert_eq!(shows_calls(&source, 7), Ok(false));
        assert_eq!(shows_calls(&source, 8), Err(false));
    }

    #[test]
    fn a_thread_of_this_process_that_waits_for_another_is_seen_in_futex() {
        let (stop, stopped) = channel::<()>();
        let waits = std::thread::Builder::new().name("observed".to_owned());
        let waits = waits.spawn(move || stopped.recv()).unwrap();
        let mut sampler = Sampler::new(std::process::id().cast_signed()).unwrap();
        let is_hidden = sampler.lacks().any(|lack| lack.contains("system calls"));
        let seen_in = |look: &Look, wanted| {
            let of = look.threads.iter().find(|thread| thread.name == "observed");
            of.is_some_and(|thread| kind(thread) == [wanted])
        };
        let wanted =
            |look: &Look| seen_in(look, WaitKind::Futex) || (is_hidden && seen_in(look, WaitKind::Unknown));
        let look = look_until(&mut sampler, wanted);
        assert!(look.processes >= 1 && look.own_cpu_ns > 0 && look.machine_ns > Some(0));
        assert!(sampler.allowed_cpus() >= Some(1));
        drop(stop);
        let _ = waits.join().unwrap();
    }

    #[test]
    fn a_child_that_is_killed_has_ended_also_before_anybody_has_waited_for_it() {
        let mut child = Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id().cast_signed();
        let mut sampler = Sampler::new(pid).unwrap();
        assert_eq!(sampler.look().unwrap().processes, 1);
        child.kill().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while sampler.look() != Err(ObserveError::Ended(pid)) {
            assert!(Instant::now() < deadline, "it was killed");
        }
        assert_eq!(Sampler::new(pid).unwrap_err(), ObserveError::Zombie(pid));
        child.wait().unwrap();
        assert_eq!(Sampler::new(pid).unwrap_err(), ObserveError::NoSuchProcess(pid));
    }
}
