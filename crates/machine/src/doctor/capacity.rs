//! Judges what the machine and its limits let a measurement have: CPUs, units, files, memory, interfaces.

use super::{Advice, Severity, why_unknown};
use crate::fingerprint::Fingerprint;
use crate::limits::{Bound, Limits};
use crate::platform::Availability;

/// The largest experiments keep this many threads alive at once.
const MOST_THREADS: u64 = 8_192;
/// The largest servers are given this many connections, each with two ends here.
const MOST_FILES: u64 = 20_000;
/// What the kernel and the C library keep in memory for a thread that does nothing.
const IDLE_THREAD_KIB: u64 = 32;
/// The largest parent of a fork has 1 GiB touched.
const MOST_MEMORY_KIB: u64 = 2 * 1024 * 1024;

pub(super) fn judge(machine: &Fingerprint) -> Vec<Advice> {
    let mut advice = vec![cpus(machine), units(machine), files(machine)];
    advice.extend(memory(machine));
    let interfaces = [
        (
            "io_uring",
            &machine.io_uring,
            "designs with io_uring cannot be measured",
        ),
        (
            "perf counters",
            &machine.perf_counters,
            "cycles and cache misses cannot be shown; times are not affected",
        ),
        (
            "pressure",
            &machine.pressure,
            "foreign load is seen in /proc/stat alone",
        ),
    ];
    advice.extend(
        interfaces
            .iter()
            .filter_map(|(name, state, loss)| interface(name, state.as_ref()?, loss)),
    );
    advice
}

fn cpus(machine: &Fingerprint) -> Advice {
    let subject = "effective CPUs";
    let Some(effective) = machine.effective_cpus else {
        let says = format!("not known: {}", why_unknown(machine, "effective_cpus"));
        return Advice::new(subject, Severity::Note, says, None);
    };
    let all = machine
        .cpus
        .map_or("an unknown number of".to_owned(), |n| n.to_string());
    match machine.effective_cpus_bound.as_deref() {
        Some("quota") => {
            let says = format!(
                "a quota grants {effective} CPUs' worth of time on {all} CPUs: once it is used up, every unit stops \
                 until the next period, so elapsed times come in steps"
            );
            let fix = "raise the quota (cpu.max, docker --cpus, Kubernetes limits.cpu), or start fewer units";
            Advice::new(subject, Severity::Warning, says, Some(fix))
        }
        _ if effective < 2.0 => {
            let says = format!("{effective} of {all} CPUs: nothing can be said of two units truly at once");
            Advice::new(
                subject,
                Severity::Warning,
                says,
                Some("allow the process two CPUs or more"),
            )
        }
        Some(bound) => {
            let says = format!("{effective} of {all} CPUs, by {bound}");
            Advice::new(subject, Severity::Note, says, None)
        }
        None => Advice::fine(subject, format!("{effective}")),
    }
}

/// Every bound on the number of threads, and the least of them.
fn units(machine: &Fingerprint) -> Advice {
    let subject = "units";
    let limits = &machine.limits;
    // Of threads with a stack of the default size.
    let stacks = |bytes: Option<Bound>| Some(bytes?.value()? / stack_bytes(limits));
    let bounds = [
        (
            "address space (RLIMIT_AS)",
            stacks(limits.as_),
            "raise it: `ulimit -v unlimited`",
        ),
        (
            "data (RLIMIT_DATA)",
            stacks(limits.data),
            "raise it: `ulimit -d unlimited`",
        ),
        (
            "memory of the control group",
            machine.cgroup.memory_limit_kib.map(|kib| kib / IDLE_THREAD_KIB),
            "raise the group's memory.max",
        ),
        (
            "nproc",
            limits.nproc.and_then(Bound::value),
            "raise it: `ulimit -u` as root",
        ),
        (
            "threads-max",
            limits.threads_max,
            "as root: sysctl kernel.threads-max=200000",
        ),
        (
            "pid_max",
            limits.pid_max,
            "as root: sysctl kernel.pid_max=4194304",
        ),
        // A stack and its guard page.
        (
            "max_map_count",
            limits.max_map_count.map(|n| n / 2),
            "as root: sysctl vm.max_map_count=1000000",
        ),
        (
            "cgroup pids.max",
            limits.cgroup_pids_max.and_then(Bound::value),
            "raise the group's pids.max",
        ),
    ];
    let known = bounds
        .iter()
        .filter_map(|(name, most, fix)| Some((name, (*most)?, fix)));
    let Some((name, most, fix)) = known.min_by_key(|(_, most, _)| *most) else {
        return Advice::new(
            subject,
            Severity::Note,
            "no limit on threads could be read".to_owned(),
            None,
        );
    };
    // Others on the machine take a part of most of these.
    if most > MOST_THREADS + 1_024 {
        return Advice::fine(subject, format!("about {most} threads can be alive, by {name}"));
    }
    let says =
        format!("only {most} threads can be alive, by {name}: cases with up to {MOST_THREADS} will fail");
    Advice::new(subject, Severity::Warning, says, Some(fix))
}

/// The stack that the C library gives a thread by default.
fn stack_bytes(limits: &Limits) -> u64 {
    const WITHOUT_A_LIMIT: u64 = 2 << 20;
    let soft = limits.stack.and_then(Bound::value);
    soft.unwrap_or(WITHOUT_A_LIMIT).max(1)
}

fn files(machine: &Fingerprint) -> Advice {
    let subject = "open files";
    let limits = &machine.limits;
    match (limits.nofile, limits.nofile_hard) {
        // The soft limit is raised to the hard one where it is needed.
        (_, Some(hard)) if hard.allows(MOST_FILES) => {
            Advice::fine(subject, format!("{hard} files a process"))
        }
        (Some(soft), Some(hard)) => {
            let says = format!(
                "{soft} files a process, which may be raised to {hard}: servers with 10,000 connections cannot be \
                 measured"
            );
            Advice::new(
                subject,
                Severity::Note,
                says,
                Some("`ulimit -n 20000` as root, or in /etc/security/limits.conf"),
            )
        }
        _ => {
            let says = format!("not known: {}", why_unknown(machine, "limits.nofile"));
            Advice::new(subject, Severity::Note, says, None)
        }
    }
}

fn memory(machine: &Fingerprint) -> Option<Advice> {
    let subject = "memory";
    let total = machine.memory_total_kib?;
    let granted = machine.cgroup.memory_limit_kib.filter(|granted| *granted < total);
    let by = granted.map_or("", |_| ", by a limit of its control group or of one above it");
    let total = granted.unwrap_or(total);
    let mib = total / 1024;
    if total > MOST_MEMORY_KIB {
        return Some(Advice::fine(subject, format!("{mib} MiB{by}")));
    }
    let says = format!("{mib} MiB{by}: cases with a parent of 1 GiB will fail or swap");
    let fix = granted.map(|_| "raise the group's memory.max (docker --memory, Kubernetes limits.memory)");
    Some(Advice::new(subject, Severity::Warning, says, fix))
}

fn interface(name: &str, state: &Availability, loss: &str) -> Option<Advice> {
    if state.available {
        return Some(Advice::fine(name, "available"));
    }
    let why = state.why_not.as_deref().unwrap_or("no reason known");
    Some(Advice::new(
        name,
        Severity::Note,
        format!("not available: {why}. So {loss}"),
        None,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_bound_on_threads_is_named_with_its_own_mend() {
        let limits = Limits {
            nproc: Some(Bound::Unlimited),
            pid_max: Some(32_768),
            max_map_count: Some(10_000),
            ..Limits::default()
        };
        let units = |limits: &Limits| {
            units(&Fingerprint {
                limits: limits.clone(),
                ..Fingerprint::default()
            })
        };
        let advice = units(&limits);
        assert!(
            advice.says.contains("5000") && advice.says.contains("max_map_count"),
            "{advice:?}"
        );
        assert!(advice.fix.unwrap().contains("vm.max_map_count"));
        // `ulimit -v 60000`, with stacks of 8 MiB.
        let advice = units(&Limits {
            as_: Some(Bound::Of(60_000 << 10)),
            stack: Some(Bound::Of(8 << 20)),
            ..limits
        });
        assert!(
            advice
                .says
                .starts_with("only 7 threads can be alive, by address space (RLIMIT_AS)"),
            "{advice:?}"
        );
        let advice = units(&Limits {
            data: Some(Bound::Of(1 << 30)),
            ..limits
        });
        assert!(
            advice.says.contains("only 512 threads") && advice.says.contains("RLIMIT_DATA"),
            "{advice:?}"
        );
        // Some are others'.
        let severity = |pid_max| {
            let limits = Limits {
                pid_max: Some(pid_max),
                ..Limits::default()
            };
            units(&limits).severity
        };
        assert!(severity(9_216) > Severity::Fine && severity(9_217) == Severity::Fine);
    }

    #[test]
    fn a_groups_memory_is_what_a_container_has() {
        let machine = Fingerprint {
            memory_total_kib: Some(24 << 20),
            cgroup: crate::cgroup::Cgroup {
                memory_limit_kib: Some(256 << 10),
                ..Default::default()
            },
            ..Fingerprint::default()
        };
        let advice = memory(&machine).unwrap();
        assert_eq!(advice.severity, Severity::Warning);
        assert!(
            advice
                .says
                .starts_with("256 MiB, by a limit of its control group"),
            "{advice:?}"
        );
        let mut machine = machine;
        for beyond in [24 << 20, 64 << 20] {
            machine.cgroup.memory_limit_kib = Some(beyond);
            let advice = memory(&machine).unwrap();
            assert_eq!(
                (advice.severity, advice.says.as_str()),
                (Severity::Fine, "24576 MiB")
            );
        }
    }

    #[test]
    fn a_soft_limit_that_can_be_raised_is_fine() {
        let limits = Limits {
            nofile: Some(Bound::Of(1_024)),
            nofile_hard: Some(Bound::Of(524_288)),
            ..Limits::default()
        };
        assert_eq!(
            files(&Fingerprint {
                limits,
                ..Fingerprint::default()
            })
            .severity,
            Severity::Fine
        );
    }

    #[test]
    fn limits_on_files_that_are_too_low_are_both_named() {
        let files = |nofile, nofile_hard| {
            let limits = Limits {
                nofile,
                nofile_hard,
                ..Limits::default()
            };
            files(&Fingerprint {
                limits,
                ..Fingerprint::default()
            })
        };
        let low = files(Some(Bound::Of(1_024)), Some(Bound::Of(4_096)));
        assert_eq!(low.severity, Severity::Note);
        assert!(
            low.says
                .starts_with("1024 files a process, which may be raised to 4096"),
            "{low:?}"
        );
        assert!(files(None, None).says.starts_with("not known"));
    }
}
