//! Takes readings, cheaply enough to stand around every sample.
//!
//! Owns the open files and what is known of the kernel's threads. What the readings mean is `noise.rs`.

use crate::cgroup::ThrottleFiles;
use crate::clock::{monotonic_ns, suspended_ns};
use crate::error::MachineError;
use crate::noise::Reading;
use crate::procstat::{parse_created, parse_pressure_some_us, parse_proc_stat};
use crate::source::{Source, read_whole};
use crate::usage::{usage_children, usage_self};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Takes [`Reading`]s.
///
/// ```
/// use threadgauge_machine::{Meter, noise_between};
/// let mut meter = Meter::new()?;
/// let before = meter.read()?;
/// // … the work …
/// let noise = noise_between(&before, &meter.read()?, None);
/// assert!(noise.foreign_cpus >= 0.0);
/// # Ok::<(), threadgauge_machine::MachineError>(())
/// ```
#[derive(Debug)]
pub struct Meter {
    stat: File,
    pressure: Option<File>,
    throttle: ThrottleFiles,
    machine: Source,
    kernel_threads: KernelThreads,
    buffer: Vec<u8>,
}

impl Meter {
    /// Opens what there is to read and looks for the kernel's threads, in a few milliseconds.
    ///
    /// # Errors
    ///
    /// [`MachineError::Read`] without `/proc/stat`. Pressure and throttling may be missing.
    pub fn new() -> Result<Meter, MachineError> {
        let stat = File::open("/proc/stat").map_err(|source| read_error("/proc/stat", source))?;
        let machine = Source::new(Path::new("/"));
        let mut meter = Meter {
            stat,
            pressure: File::open("/proc/pressure/cpu").ok(),
            throttle: ThrottleFiles::open(&machine),
            machine,
            kernel_threads: KernelThreads::default(),
            buffer: Vec::new(),
        };
        meter.kernel_threads.update(&meter.machine);
        Ok(meter)
    }

    /// Takes a reading: about 1 ms with a hundred kernel threads, less with fewer. Does not block.
    ///
    /// # Errors
    ///
    /// [`MachineError::Read`] or [`MachineError::Malformed`] if `/proc/stat` fails.
    pub fn read(&mut self) -> Result<Reading, MachineError> {
        // The dear part first, so that the counters that are compared stand close together.
        self.kernel_threads.update(&self.machine);
        let throttled = self.throttle.read(&mut self.buffer);
        let stat = read_whole(&self.stat, &mut self.buffer).map_err(|e| read_error("/proc/stat", e))?;
        let (cpus, created) = (parse_proc_stat(&stat), parse_created(&stat));
        if cpus.is_empty() {
            let what = "it has no line that starts with cpu0".to_owned();
            return Err(MachineError::Malformed {
                path: "/proc/stat".to_owned(),
                what,
            });
        }
        let at_ns = monotonic_ns();
        let pressure = self
            .pressure
            .as_ref()
            .and_then(|file| read_whole(file, &mut self.buffer).ok());
        Ok(Reading {
            at_ns,
            cpus,
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            created,
            own_cpu: usage_self().cpu() + usage_children().cpu(),
            kernel_threads: self.kernel_threads.total,
            pressure_cpu_some_us: pressure.as_deref().and_then(parse_pressure_some_us),
            throttled_ns: throttled.map(|(ns, _)| ns),
            throttled_periods: throttled.map(|(_, periods)| periods),
            suspended_ns: suspended_ns(),
        })
    }
}

/// One meter for [`Reading::take`], opened by its first caller.
pub(crate) fn read_shared() -> Result<Reading, MachineError> {
    static METER: Mutex<Option<Meter>> = Mutex::new(None);
    let mut guard = METER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match &mut *guard {
        Some(meter) => meter.read(),
        empty => empty.insert(Meter::new()?).read(),
    }
}

fn read_error(path: &str, source: std::io::Error) -> MachineError {
    MachineError::Read {
        path: path.to_owned(),
        source,
    }
}

/// The CPU time of the kernel's own threads, added up over threads that come and go.
#[derive(Debug, Default)]
struct KernelThreads {
    last: HashMap<i32, Duration>,
    programs: HashSet<i32>,
    total: Duration,
    started: bool,
}

impl KernelThreads {
    /// Adds what each thread used since the last update. A thread that appeared meanwhile counts whole; of one
    /// that ended, the last part is lost.
    fn update(&mut self, machine: &Source) {
        let Ok(entries) = std::fs::read_dir(machine.path("/proc")) else {
            return;
        };
        let pids: Vec<i32> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        let mut seen = HashMap::with_capacity(self.last.len() + 8);
        let mut programs = HashSet::with_capacity(self.programs.len());
        for pid in pids {
            if self.programs.contains(&pid) {
                programs.insert(pid);
                continue;
            }
            let before = self.last.get(&pid).copied();
            if before.is_none() && !is_kernel_thread(machine, pid) {
                programs.insert(pid);
                continue;
            }
            let Some(now) = cpu_of_kernel_thread(machine, pid) else {
                continue;
            };
            if self.started {
                self.total += now.saturating_sub(before.unwrap_or_default());
            }
            seen.insert(pid, now);
        }
        self.last = seen;
        self.programs = programs;
        self.started = true;
    }
}

fn is_kernel_thread(machine: &Source, pid: i32) -> bool {
    /// A kernel thread, in the flags of `/proc/…/stat`.
    const PF_KTHREAD: u64 = 0x0020_0000;
    stat_field(machine, pid, 6).is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// Nanoseconds from `schedstat` where the kernel has it, else ticks from `stat`.
fn cpu_of_kernel_thread(machine: &Source, pid: i32) -> Option<Duration> {
    if let Ok(text) = machine.text(&format!("/proc/{pid}/schedstat")) {
        return Some(Duration::from_nanos(
            text.split_ascii_whitespace().next()?.parse().ok()?,
        ));
    }
    let ticks = stat_field(machine, pid, 11)? + stat_field(machine, pid, 12)?;
    Some(Duration::from_secs_f64(
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

/// A field of `/proc/…/stat`, counted from the first after the name in parentheses.
fn stat_field(machine: &Source, pid: i32, index: usize) -> Option<u64> {
    let stat = machine.text(&format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(index)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_go_forward() {
        let mut meter = Meter::new().unwrap();
        let a = meter.read().unwrap();
        let b = meter.read().unwrap();
        assert!(b.at_ns > a.at_ns && b.own_cpu >= a.own_cpu && b.kernel_threads >= a.kernel_threads);
        assert!(a.ticks_per_second > 0 && a.cpus.len() == b.cpus.len());
    }

    #[test]
    fn this_process_is_no_kernel_thread() {
        assert!(!is_kernel_thread(
            &Source::new(Path::new("/")),
            std::process::id() as i32
        ));
    }

    #[test]
    fn own_time_is_that_of_this_process_and_of_its_children() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").args(["-c", script]).status();
        assert!(status.unwrap().success() && !usage_children().cpu().is_zero());
        let own = || usage_self().cpu() + usage_children().cpu();
        let before = own();
        let seen = Reading::take().unwrap();
        assert!(before <= seen.own_cpu && seen.own_cpu <= own(), "{seen:?}");
        assert!(seen.at_ns > 0);
    }

    /// A folder like `/proc`: each process with its flags, its ticks in user space and in the kernel, and the
    /// nanoseconds that `schedstat` tells, where there is one.
    fn proc(processes: &[(i32, u64, [u64; 2], Option<u64>)]) -> (tempfile::TempDir, Source) {
        let root = tempfile::tempdir().unwrap();
        for (pid, flags, [user, system], ns) in processes {
            let at = root.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&at).unwrap();
            let stat = format!("{pid} (a) name) S 2 0 0 0 -1 {flags} 0 0 0 0 {user} {system} 0 0 20 0 1\n");
            std::fs::write(at.join("stat"), stat).unwrap();
            if let Some(ns) = ns {
                std::fs::write(at.join("schedstat"), format!("{ns} 5 9\n")).unwrap();
            }
        }
        let source = Source::new(root.path());
        (root, source)
    }

    #[test]
    fn kernel_threads_count_from_the_first_look_on_and_programs_never() {
        const KERNEL: u64 = 0x0020_8040;
        const PROGRAM: u64 = 0x0040_0100;
        let second = rustix::param::clock_ticks_per_second();
        let mut threads = KernelThreads::default();
        let looks: [(&[_], u64); 4] = [
            // What they used before is of before.
            (
                &[(2, KERNEL, [0, 0], Some(700)), (9, PROGRAM, [0, 0], Some(100))],
                0,
            ),
            (
                &[(2, KERNEL, [0, 0], Some(730)), (9, PROGRAM, [0, 0], Some(200))],
                30,
            ),
            // One that appears counts whole; one that ended stays counted. Without `schedstat` there are ticks.
            (&[(3, KERNEL, [2 * second, 3 * second], None)], 5_000_000_030),
            (
                &[
                    (3, KERNEL, [2 * second, 4 * second], None),
                    (9, PROGRAM, [9, 9], None),
                ],
                6_000_000_030,
            ),
        ];
        for (processes, expected_ns) in looks {
            let (_root, source) = proc(processes);
            threads.update(&source);
            assert_eq!(threads.total, Duration::from_nanos(expected_ns));
        }
    }
}
