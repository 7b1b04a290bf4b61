//! Which CPUs the caller may use, uses, and shall use.
//!
//! Quotas are `cgroup.rs`: a process may be allowed sixteen CPUs and the time of one.

use crate::cpulist::CpuList;
use crate::error::MachineError;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::io;

/// The CPUs that the calling thread may use, by its affinity and its cpuset. Does not block.
///
/// # Errors
///
/// The kernel's answer where neither `sched_getaffinity` nor `/proc/self/status` says it.
pub fn allowed_cpus() -> io::Result<CpuList> {
    match sched_getaffinity(None) {
        Ok(set) => Ok(CpuList::new((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)))),
        // Kernels built for more CPUs than the fixed-size set holds answer EINVAL.
        Err(error) => {
            let status = std::fs::read_to_string("/proc/thread-self/status")?;
            allowed_in_status(&status).ok_or_else(|| error.into())
        }
    }
}

/// The `Cpus_allowed_list` line of a `/proc/…/status` text.
pub(crate) fn allowed_in_status(status: &str) -> Option<CpuList> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    line.trim().parse().ok()
}

/// Restricts the whole process to `cpus`: every thread it has now, and so those they start.
/// Meant for a worker's start, while it has one thread: a thread started during the call may be missed.
///
/// # Errors
///
/// [`MachineError::NoSuchCpu`] if a CPU may not be used here; then nothing was changed.
/// [`MachineError::Pin`] if the kernel refuses for another reason.
pub fn pin_self(cpus: &CpuList) -> Result<(), MachineError> {
    let set = apply_to_this_thread(cpus)?;
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Ok(());
    };
    let me = rustix::thread::gettid();
    let other_threads = tasks
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(Pid::from_raw)
        .filter(|&thread| thread != me);
    for thread in other_threads {
        match sched_setaffinity(Some(thread), &set) {
            // The thread ended meanwhile.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => {
                return Err(MachineError::Pin {
                    asked: cpus.clone(),
                    source: error.into(),
                });
            }
        }
    }
    Ok(())
}

/// Restricts the calling thread alone to `cpus`.
///
/// # Errors
///
/// As [`pin_self`].
pub fn pin_thread(cpus: &CpuList) -> Result<(), MachineError> {
    apply_to_this_thread(cpus).map(|_| ())
}

/// The CPU on which the caller ran at some moment during the call.
pub fn current_cpu() -> usize {
    sched_getcpu()
}

/// The kernel silently drops CPUs that may not be used as long as one is left: "2 CPUs" would become one. So
/// what it granted is read back, and taken back where it is not what was asked. (A process pinned before may
/// widen itself again up to its cpuset, which only the kernel knows: it has the last word.)
fn apply_to_this_thread(cpus: &CpuList) -> Result<CpuSet, MachineError> {
    let refused = || MachineError::NoSuchCpu {
        asked: cpus.clone(),
        allowed: allowed_cpus().unwrap_or_default(),
    };
    if cpus.is_empty() || cpus.iter().any(|cpu| cpu >= CpuSet::MAX_CPU) {
        return Err(refused());
    }
    let mut wanted = CpuSet::new();
    for cpu in cpus.iter() {
        wanted.set(cpu);
    }
    let pin_error = |error: Errno| match error {
        // What the kernel says if no CPU is left.
        Errno::INVAL => refused(),
        error => MachineError::Pin {
            asked: cpus.clone(),
            source: error.into(),
        },
    };
    let before = sched_getaffinity(None).map_err(pin_error)?;
    sched_setaffinity(None, &wanted).map_err(pin_error)?;
    if sched_getaffinity(None).map_err(pin_error)? != wanted {
        sched_setaffinity(None, &before).map_err(pin_error)?;
        return Err(refused());
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_with_those_that_do() {
        let allowed = allowed_cpus().unwrap();
        for asked in ["1023", "60000"] {
            let error = pin_thread(&asked.parse().unwrap()).unwrap_err().to_string();
            assert!(
                error.contains(asked) && error.contains(&allowed.to_string()),
                "{error}"
            );
        }
    }

    #[test]
    fn a_list_with_one_cpu_that_does_not_exist_is_not_quietly_cut_down() {
        let mixed = CpuList::new(allowed_cpus().unwrap().iter().chain([1023]));
        assert!(matches!(pin_thread(&mixed), Err(MachineError::NoSuchCpu { .. })));
    }

    #[test]
    fn a_pinned_thread_runs_where_it_was_put_and_its_children_inherit_it() {
        let last = CpuList::new(allowed_cpus().unwrap().iter().last());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin_thread(&last).unwrap();
                assert_eq!(CpuList::new([current_cpu()]), last);
                assert_eq!(
                    std::thread::spawn(|| allowed_cpus().unwrap()).join().unwrap(),
                    last
                );
            });
        });
    }

    #[test]
    fn the_status_line_is_found() {
        assert_eq!(
            allowed_in_status("Name:\tx\nCpus_allowed_list:\t0-1,4\n")
                .unwrap()
                .to_string(),
            "0-1,4"
        );
        assert_eq!(allowed_in_status("Cpus_allowed_list:\t\n"), None);
        assert_eq!(allowed_in_status(""), None);
    }
}
