//! Computing after arming a timer, until it expires: how much of that time the thread is on the CPU.

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use threadgauge_machine::{Burner, clock};

use threadgauge_lab::prelude::*;

/// CPU time over wall time until the timer expired.
pub(super) const ON_CPU: Metric = metric("on_cpu", "share");

const AFTER_NS: u64 = 20_000_000;
/// Steps between two checks of the timer, some 20 µs.
const STEPS: u64 = 10_000;

pub(super) fn armed(worker: &mut Worker) -> Result<f64, CaseError> {
    let failed = |e: Errno| CaseError::failed("arming a timer", e);
    let timer = timerfd_create(
        TimerfdClockId::Monotonic,
        TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
    )
    .map_err(failed)?;
    let once = Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: Timespec {
            tv_sec: 0,
            tv_nsec: AFTER_NS as i64,
        },
    };
    compute_until(worker, || {
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once).map_err(failed)?;
        Ok(|| rustix::io::read(&timer, &mut [0_u8; 8]) != Err(Errno::AGAIN))
    })
}

pub(super) fn unarmed(worker: &mut Worker) -> Result<f64, CaseError> {
    compute_until(worker, || {
        let end_ns = clock::monotonic_ns() + AFTER_NS;
        Ok(move || clock::monotonic_ns() >= end_ns)
    })
}

/// Computes until the function that `begin` returns says true.
fn compute_until<T: Fn() -> bool>(
    worker: &mut Worker,
    begin: impl FnOnce() -> Result<T, CaseError>,
) -> Result<f64, CaseError> {
    let watch = worker.stopwatch();
    let (begun_ns, used_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
    let is_time = begin()?;
    while !is_time() {
        Burner::burn_units(STEPS);
    }
    let (begun_ns, used_ns) = (clock::monotonic_ns() - begun_ns, clock::thread_cpu_ns() - used_ns);
    let lap = watch.stop();
    worker.record(ON_CPU, used_ns as f64 / begun_ns.max(1) as f64);
    Ok(lap.wall_ns as f64)
}
