//! What machine this is, and what on it can spoil a measurement.
//!
//! Everything that `threadgauge` must know about its surroundings lives here: the [`Fingerprint`] that
//! goes into every results file, the [`examine`] that judges it, the [`Meter`] that tells how much other
//! programs disturbed a sample, the [`Burner`] that computes for a stated time, what a live program does
//! ([`observe`]), and the few system calls a worker needs (affinity, limits, ending what is left below it).
//!
//! The crate looks and never touches: nothing here changes a setting of the machine. The one exception is
//! [`UnderQuota`], which makes a control group below the process's own and removes it; what a killed process left of
//! such, [`remove_left_groups`] removes. Otherwise only the calling process is changed, by [`pin_self`],
//! [`raise_to_hard`], [`set_limit`], [`free_at_once_from`], [`become_subreaper`], [`kill_descendants`] and
//! [`Stops`], a thread of its own by [`as_user`], and what is below it by [`lower_limit_of`].
//! What cannot be read is `None` with a reason, never a guess and never a panic.
//!
//! It leaves out: statistics, storage, and the decision whether a noisy sample is repeated.
//!
//! Linux only.

mod activity;
mod affinity;
mod burner;
mod cgroup;
mod children;
pub mod clock;
mod cpulist;
mod doctor;
mod error;
mod fingerprint;
mod interrupts;
mod kernel;
mod limits;
mod listener;
mod memory;
mod meter;
mod noise;
pub mod observe;
mod peer;
mod platform;
mod probe;
mod procstat;
mod refusal;
mod scheduling;
mod sockets;
mod source;
mod stops;
mod sys;
mod taskstat;
mod topology;
mod usage;
mod user;

pub use activity::{Activity, ActivityError, TcpSockets, ThreadActivity, Traffic};
pub use affinity::{allowed_cpus, current_cpu, pin_self, pin_thread};
pub use burner::Burner;
pub use cgroup::{
    Cgroup, QUOTA_PERIOD, QuotaError, UnderQuota, parse_cfs_quota, parse_cpu_max, parse_cpu_stat,
    remove_left_groups,
};
pub use children::{become_subreaper, descendants, end_with_this_thread, kill_descendants};
pub use cpulist::{CpuList, CpuListError};
pub use doctor::{Advice, Doctor, Severity, examine};
pub use error::MachineError;
pub use fingerprint::{Fingerprint, fingerprint};
pub use interrupts::{Interrupts, Waited};
pub use kernel::parse_preempt_choice;
pub use limits::{
    Bound, Limits, Resource, descriptors_of, lower_limit_of, parse_limits, raise_to_hard, set_limit,
};
pub use listener::{ListenerError, is_local, listener};
pub use memory::{available_memory_mib, available_memory_mib_below, free_at_once_from};
pub use meter::Meter;
pub use noise::{Noise, Reading, noise_between};
pub use peer::Peer;
pub use platform::Availability;
pub use probe::{NoiseProbe, noise_probe};
pub use procstat::{CpuTimes, parse_pressure_some_us, parse_proc_stat};
pub use refusal::{Level, shared_levels, why_refused};
pub use scheduling::Scheduling;
pub use sockets::SocketLimits;
pub use stops::{StopWatch, Stops};
pub use taskstat::{SchedStat, TaskStat, parse_io, parse_schedstat, parse_switches, parse_task_stat};
pub use topology::{Cache, CpuInfo, Topology, cores_first, parse_cpuinfo, smt_siblings};
pub use usage::{
    Switches, Usage, switches_children, switches_self, usage_children, usage_self, usage_thread,
};
pub use user::{as_user, run_as, tasks_of, unused_user};
