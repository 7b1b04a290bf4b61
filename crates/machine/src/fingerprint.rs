//! The fingerprint: what machine this is, in one record that goes into every results file.
//!
//! Gathers what the other modules read. Its serialised names are a contract. Nothing in it identifies a
//! person or a machine: no host name, serial number, user, path or command line.

use crate::affinity::{allowed_cpus, allowed_in_status};
use crate::cgroup::{self, Cgroup};
use crate::cpulist::CpuList;
use crate::kernel::{self, Config};
use crate::limits::Limits;
use crate::platform::{self, Availability};
use crate::scheduling::Scheduling;
use crate::source::{Fact, Source};
use crate::topology::{self, CpuInfo, Topology, parse_cpuinfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// What machine this is. Each `None` has its reason in [`unknown`](Fingerprint::unknown).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Fingerprint {
    /// Equal on machines whose figures may be compared: model, CPUs, kernel and hypervisor in words.
    pub machine_key: String,
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// Instruction set this program was built for.
    pub architecture: Option<String>,
    /// CPUs switched on.
    pub cpus: Option<usize>,
    /// CPUs that this process may run on.
    pub allowed_cpus: Option<CpuList>,
    /// CPUs' worth of time this process can get: the least of CPUs, affinity and quota.
    pub effective_cpus: Option<f64>,
    /// What makes `effective_cpus` smaller than `cpus`: `affinity` or `quota`.
    pub effective_cpus_bound: Option<String>,
    /// Does some core run more than one CPU?
    pub smt: Option<bool>,
    /// Cores, packages, caches, memory nodes.
    pub topology: Topology,
    /// Memory in KiB.
    pub memory_total_kib: Option<u64>,
    /// Swap space in KiB.
    pub swap_total_kib: Option<u64>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The kernel's build, as `uname -v` says it.
    pub kernel_version: Option<String>,
    /// `none`, `voluntary`, `full`, `lazy` or `real-time`, with `(dynamic…)` where it can be changed.
    pub preemption: Option<String>,
    /// Where `preemption` was read.
    pub preemption_source: Option<String>,
    /// `EEVDF` or `CFS`.
    pub scheduler: Option<String>,
    /// How long a unit may run before another one's turn, in nanoseconds.
    pub slice_ns: Option<u64>,
    /// Does the scheduler group processes by terminal session?
    pub autogroup: Option<bool>,
    /// The timer's ticks a second.
    pub tick_hz: Option<u32>,
    /// What the kernel does against each weakness of the processor.
    pub mitigations: Option<BTreeMap<String, String>>,
    /// The clock source of the kernel.
    pub clocksource: Option<String>,
    /// The frequency governor.
    pub governor: Option<String>,
    /// The first CPU's frequency when looked at, in MHz.
    pub frequency_mhz: Option<f64>,
    /// May the processor exceed its nominal frequency?
    pub turbo: Option<bool>,
    /// The hypervisor's name; `None` on bare metal, which `unknown` then says.
    pub hypervisor: Option<String>,
    /// Is this a virtual machine?
    pub virtual_machine: Option<bool>,
    /// How this process is scheduled.
    pub scheduling: Scheduling,
    /// The control group.
    pub cgroup: Cgroup,
    /// What a process may have.
    pub limits: Limits,
    /// The C library and its version.
    pub c_library: Option<String>,
    /// The thread library and its version.
    pub thread_library: Option<String>,
    /// Can io_uring be used?
    pub io_uring: Option<Availability>,
    /// Can hardware counters be used?
    pub perf_counters: Option<Availability>,
    /// Does the kernel tell how long units wait for a CPU (PSI)?
    pub pressure: Option<Availability>,
    /// Why a field is `None`, by its path, such as `limits.nproc`.
    pub unknown: BTreeMap<String, String>,
}

/// The fingerprint of this machine. Never fails; takes some 10 ms, most of it for unpacking the kernel's
/// configuration. Starts a child process for that (`zcat`, if present) and waits for it.
pub fn fingerprint() -> Fingerprint {
    Fingerprint::read(Path::new("/"))
}

impl Fingerprint {
    /// Reads the fingerprint from the files below `root`: `/`, or a copy of another machine's `/proc` and
    /// `/sys`. What only the running kernel can tell is unknown for any root but `/`.
    pub fn read(root: &Path) -> Fingerprint {
        let source = Source::new(root);
        let mut unknown = Unknown::default();
        let cpuinfo_text = source.text("/proc/cpuinfo");
        let cpuinfo = cpuinfo_text.as_deref().ok().map(parse_cpuinfo);
        let online = online(&source, cpuinfo.as_ref());
        let online_cpus = online.clone().unwrap_or_default();
        let topology = Topology::read(&source, &online_cpus, &mut |field, why| unknown.note(field, why));
        let cpus = unknown.keep("cpus", online.map(|cpus| cpus.len()));
        let allowed = unknown.keep("allowed_cpus", allowed(&source));
        let cgroup = cgroup::read(&source, &mut |field, why| unknown.note(field, why));
        let scheduling = Scheduling::read(&source, &mut |field, why| unknown.note(field, why));
        let limits = Limits::read(&source, cgroup::pids_max(&source), &mut |field, why| {
            unknown.note(field, why);
        });
        let [release, version] = kernel::release_and_version(&source);
        let kernel = unknown.keep("kernel", release);
        let kernel_version = unknown.keep("kernel_version", version);
        let config = Config::read(&source, kernel.as_deref());
        let preemption = kernel::preemption(&source, &config, kernel_version.as_deref());
        let preemption_source = unknown
            .keep("preemption_source", preemption.clone())
            .map(|(_, from)| from);
        let hypervisor = platform::hypervisor(&source, cpuinfo.as_ref());
        let virtual_machine = unknown
            .keep("virtual_machine", hypervisor.clone())
            .map(|name| name.is_some());
        let hypervisor = unknown.keep(
            "hypervisor",
            hypervisor.and_then(|name| name.ok_or_else(|| "none: this is no virtual machine".to_owned())),
        );
        let (effective_cpus, bound) = effective(cpus, allowed.as_ref(), &cgroup);
        let no_cpus = || "neither the CPUs nor the affinity could be read".to_owned();
        let effective_cpus = unknown.keep("effective_cpus", effective_cpus.ok_or_else(no_cpus));
        let effective_cpus_bound = unknown.keep(
            "effective_cpus_bound",
            bound.ok_or_else(|| "nothing bounds them".to_owned()),
        );
        let cpu_field = |find: fn(&CpuInfo) -> Option<String>| match (&cpuinfo_text, &cpuinfo) {
            (Err(reason), _) => Err(reason.clone()),
            (_, info) => info
                .as_ref()
                .and_then(find)
                .ok_or_else(|| "/proc/cpuinfo does not say it".to_owned()),
        };
        let cpu_model = cpu_field(|info| info.model.clone()).or_else(|why| {
            let asked = source.is_live().then(crate::sys::processor_name).flatten();
            asked.ok_or(why)
        });
        let cpu_model = unknown.keep("cpu_model", cpu_model);
        let frequency = cpu_field(|info| info.mhz.map(|mhz| mhz.to_string()));
        let frequency_mhz = unknown
            .keep("frequency_mhz", frequency)
            .and_then(|mhz| mhz.parse().ok());
        let scheduler = match &kernel {
            Some(release) => kernel::scheduler(release),
            None => Err("the kernel's release is not known".to_owned()),
        };
        let autogroup: Fact<u8> = source.value("/proc/sys/kernel/sched_autogroup_enabled");
        let smt = topology.smt().ok_or_else(|| "the cores are not known".to_owned());
        let below = match (virtual_machine, &hypervisor) {
            (_, Some(name)) => name,
            (Some(false), None) => "bare metal",
            _ => "?",
        };
        let machine_key = key(cpu_model.as_deref(), cpus, kernel.as_deref(), below);
        let live = source.is_live().then(|| std::env::consts::ARCH.to_owned());
        Fingerprint {
            machine_key,
            cpu_model,
            architecture: unknown.keep(
                "architecture",
                live.ok_or("can only be asked of the running machine".to_owned()),
            ),
            cpus,
            allowed_cpus: allowed,
            effective_cpus,
            effective_cpus_bound,
            smt: unknown.keep("smt", smt),
            topology,
            memory_total_kib: unknown.keep("memory_total_kib", platform::meminfo_kib(&source, "MemTotal")),
            swap_total_kib: unknown.keep("swap_total_kib", platform::meminfo_kib(&source, "SwapTotal")),
            transparent_huge_pages: unknown.keep("transparent_huge_pages", kernel::huge_pages(&source)),
            kernel,
            kernel_version,
            preemption: unknown.keep("preemption", preemption).map(|(mode, _)| mode),
            preemption_source,
            scheduler: unknown.keep("scheduler", scheduler),
            slice_ns: unknown.keep("slice_ns", kernel::slice_ns(&source)),
            autogroup: unknown.keep("autogroup", autogroup).map(|on| on != 0),
            tick_hz: unknown.keep("tick_hz", config.tick_hz()),
            mitigations: unknown.keep("mitigations", kernel::mitigations(&source)),
            clocksource: unknown.keep(
                "clocksource",
                source.word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            ),
            governor: unknown.keep("governor", platform::governor(&source)),
            frequency_mhz,
            turbo: unknown.keep("turbo", platform::turbo(&source)),
            hypervisor,
            virtual_machine,
            scheduling,
            cgroup,
            limits,
            c_library: unknown.keep("c_library", platform::c_library(&source)),
            thread_library: unknown.keep("thread_library", platform::thread_library(&source)),
            io_uring: unknown.keep("io_uring", platform::io_uring(&source)),
            perf_counters: unknown.keep("perf_counters", platform::perf_counters(&source)),
            pressure: Some(platform::pressure(&source)),
            unknown: unknown.0,
        }
    }
}

/// The reasons gathered on the way.
#[derive(Default)]
struct Unknown(BTreeMap<String, String>);

impl Unknown {
    fn note(&mut self, field: &str, reason: String) {
        self.0.insert(field.to_owned(), reason);
    }

    fn keep<T>(&mut self, field: &str, fact: Fact<T>) -> Option<T> {
        fact.map_err(|reason| self.note(field, reason)).ok()
    }
}

/// The CPUs switched on: from `/sys`, else as many as `/proc/cpuinfo` lists.
fn online(source: &Source, cpuinfo: Option<&CpuInfo>) -> Fact<CpuList> {
    topology::online(source).or_else(|reason| match cpuinfo {
        Some(info) if info.processors > 0 => Ok(CpuList::new(0..info.processors)),
        _ => Err(reason),
    })
}

fn allowed(source: &Source) -> Fact<CpuList> {
    if source.is_live() {
        return allowed_cpus().map_err(|error| format!("sched_getaffinity: {error}"));
    }
    let status = source.text("/proc/self/status")?;
    allowed_in_status(&status).ok_or_else(|| "/proc/self/status has no Cpus_allowed_list".to_owned())
}

/// CPUs' worth of time, and what bounds it. A cpuset is part of the affinity the kernel reports.
fn effective(
    cpus: Option<usize>,
    allowed: Option<&CpuList>,
    cgroup: &Cgroup,
) -> (Option<f64>, Option<String>) {
    let allowed = match (allowed, &cgroup.cpuset) {
        (Some(allowed), Some(cpuset)) => match allowed.intersection(cpuset).len() {
            // They cannot be disjoint; if they look so, one of them was misread.
            0 => Some(allowed.len()),
            both => Some(both),
        },
        (Some(list), None) | (None, Some(list)) => Some(list.len()),
        (None, None) => None,
    };
    let bounds = [
        (cpus.map(|n| n as f64), None),
        (allowed.map(|n| n as f64), Some("affinity")),
        (cgroup.quota_cpus, Some("quota")),
    ];
    let known = bounds
        .into_iter()
        .filter_map(|(value, name)| Some((value?, name)));
    // The first of equals: a bound that takes nothing away is none. A quota alone says nothing of CPUs.
    let least = known.reduce(|least, next| if next.0 < least.0 { next } else { least });
    match least {
        Some((value, name)) => (Some(value), name.map(str::to_owned)),
        None => (None, None),
    }
}

fn key(model: Option<&str>, cpus: Option<usize>, kernel: Option<&str>, hypervisor: &str) -> String {
    let cpus = cpus.map_or("? CPUs".to_owned(), |n| format!("{n} CPUs"));
    [model.unwrap_or("?"), &cpus, kernel.unwrap_or("?"), hypervisor].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_cpus_affinity_and_quota_is_effective() {
        let quota = |quota_cpus| Cgroup {
            quota_cpus,
            ..Cgroup::default()
        };
        let list = CpuList::new(0..4);
        assert_eq!(
            effective(Some(8), Some(&list), &quota(Some(1.5))),
            (Some(1.5), Some("quota".to_owned()))
        );
        assert_eq!(
            effective(Some(8), Some(&list), &quota(None)),
            (Some(4.0), Some("affinity".to_owned()))
        );
        assert_eq!(
            effective(Some(4), Some(&list), &quota(Some(9.0))),
            (Some(4.0), None)
        );
        assert_eq!(effective(None, None, &quota(None)), (None, None));
    }

    #[test]
    fn a_cpuset_narrows_the_affinity() {
        let cgroup = Cgroup {
            cpuset: Some(CpuList::new([1])),
            ..Cgroup::default()
        };
        assert_eq!(
            effective(Some(4), Some(&CpuList::new(0..4)), &cgroup).0,
            Some(1.0)
        );
        assert_eq!(effective(Some(4), Some(&CpuList::new([0])), &cgroup).0, Some(1.0));
    }
}
