//! Fingerprints of copies of machines, and what the doctor says of them.

use crate::copies::{Copy, bare_metal, container_v1, container_v2, nonsense, small_virtual_machine};
use std::time::Duration;
use threadgauge_machine::{Bound, Fingerprint, NoiseProbe, examine};

/// Every null of the record has its reason, and every reason belongs to a null.
#[track_caller]
fn assert_reasons_match(machine: &Fingerprint) {
    fn nulls(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Null => found.push(path.to_owned()),
            serde_json::Value::Object(fields) => {
                for (name, field) in fields {
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    nulls(field, &path, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    nulls(&serde_json::to_value(machine).unwrap(), "", &mut found);
    // Inside an availability, null means that nothing stands in the way.
    found.retain(|path| !path.ends_with(".why_not"));
    found.sort();
    let reasons: Vec<String> = machine.unknown.keys().cloned().collect();
    assert_eq!(found, reasons);
    assert!(machine.unknown.values().all(|reason| !reason.is_empty()));
}

#[track_caller]
fn assert_survives_json(machine: &Fingerprint) {
    let text = serde_json::to_string(machine).unwrap();
    assert_eq!(&serde_json::from_str::<Fingerprint>(&text).unwrap(), machine);
}

#[test]
fn every_null_has_a_reason_on_every_kind_of_machine() {
    let copies = [
        small_virtual_machine(),
        bare_metal(),
        container_v1(),
        container_v2(),
        nonsense(),
        Copy::empty(),
    ];
    for machine in copies
        .iter()
        .map(Copy::read)
        .chain([threadgauge_machine::fingerprint()])
    {
        assert_reasons_match(&machine);
        assert_survives_json(&machine);
    }
}

#[test]
fn the_names_of_the_contract_are_there() {
    let json = serde_json::to_value(small_virtual_machine().read()).unwrap();
    assert_eq!(json["cpu_model"], "Example CPU");
    assert_eq!(json["cpus"], 2);
    assert_eq!(json["smt"], false);
    assert_eq!(json["kernel"], "6.18.44");
    assert_eq!(json["scheduler"], "EEVDF");
    assert_eq!(json["governor"], serde_json::Value::Null);
    assert_eq!(json["limits"]["nofile"], 20_000);
    assert_eq!(json["limits"]["nproc"], 96_365);
    assert_eq!(json["limits"]["as"], "unlimited");
    for name in ["preemption", "thread_library", "hypervisor"] {
        assert!(json.get(name).is_some(), "{name}");
    }
}

#[test]
fn a_small_virtual_machine() {
    let machine = small_virtual_machine().read();
    assert_eq!(
        machine.preemption.as_deref(),
        Some("none (dynamic, config default)")
    );
    assert_eq!(machine.preemption_source.as_deref(), Some("/boot/config-6.18.44"));
    assert_eq!(
        (machine.virtual_machine, machine.hypervisor.as_deref()),
        (Some(true), Some("unnamed"))
    );
    assert_eq!(machine.cgroup.version.as_deref(), Some("hybrid"));
    assert_eq!((machine.effective_cpus, machine.tick_hz), (Some(2.0), Some(250)));
    assert!(machine.unknown["governor"].contains("usual in a virtual machine"));
}

#[test]
fn bare_metal_with_smt_and_a_governor() {
    let machine = bare_metal().read();
    assert_eq!(
        (machine.smt, machine.topology.cores, machine.topology.packages),
        (Some(true), Some(4), Some(1))
    );
    assert_eq!(machine.governor.as_deref(), Some("powersave"));
    assert_eq!(
        (machine.virtual_machine, machine.hypervisor.clone()),
        (Some(false), None)
    );
    assert_eq!(machine.preemption.as_deref(), Some("voluntary (dynamic)"));
    assert_eq!(
        (machine.scheduler.as_deref(), machine.slice_ns),
        (Some("CFS"), Some(3_000_000))
    );
    assert_eq!(machine.limits.cgroup_pids_max, Some(Bound::Of(5_000)));
    assert_eq!(machine.machine_key, "Example CPU | 8 CPUs | 6.5.13 | bare metal");
    let caches = machine.topology.caches.clone().unwrap();
    assert_eq!(
        (caches[0].level, caches[0].count, caches[0].shared_by.to_string()),
        (1, 4, "0,4".to_owned())
    );
    assert_eq!(
        (caches[1].level, caches[1].count, caches[1].size_kib),
        (3, 1, 32_768)
    );
    let json = serde_json::to_string(&machine).unwrap();
    assert!(!json.contains("SECRET") && !json.contains("user-1000"), "{json}");
}

#[test]
fn a_quota_of_either_version_bounds_the_effective_cpus() {
    let v1 = container_v1().read();
    assert_eq!(
        (v1.cgroup.version.as_deref(), v1.effective_cpus),
        (Some("v1"), Some(1.5))
    );
    assert_eq!(v1.effective_cpus_bound.as_deref(), Some("quota"));
    let v2 = container_v2().read();
    assert_eq!(
        (v2.cgroup.version.as_deref(), v2.effective_cpus),
        (Some("v2"), Some(0.5))
    );
    assert_eq!(
        v2.cgroup.cpuset.map(|cpus| cpus.to_string()).as_deref(),
        Some("1-2")
    );
    assert_eq!(v2.limits.cgroup_pids_max, Some(Bound::Of(700)));
    assert_eq!(v2.preemption.as_deref(), Some("real-time"));
}

#[test]
fn what_decides_figures_beside_the_hardware_is_in_the_record() {
    let usual = bare_metal().read().scheduling;
    assert_eq!(
        (usual.policy.as_deref(), usual.niceness),
        (Some("other"), Some(0))
    );
    assert_eq!(
        (
            usual.autogroup_niceness,
            usual.timer_slack_ns,
            usual.random_addresses
        ),
        (Some(0), Some(50_000), Some(true))
    );
    assert_eq!(usual.isolated_cpus.map(|cpus| cpus.len()), Some(0));
    let idle = bare_metal()
        .scheduled(10, 5)
        .with("/proc/self/autogroup", "/autogroup-10 nice 5\n")
        .with("/sys/kernel/sched_ext/state", "enabled\n")
        .with("/sys/kernel/sched_ext/root/ops", "simple\n")
        .with("/sys/devices/system/cpu/isolated", "2-3\n")
        .with("/proc/self/personality", "00040000\n")
        .read()
        .scheduling;
    assert_eq!((idle.policy.as_deref(), idle.niceness), (Some("idle"), Some(10)));
    assert_eq!(
        (
            idle.autogroup_niceness,
            idle.sched_ext.as_deref(),
            idle.random_addresses
        ),
        (Some(5), Some("simple"), Some(false))
    );
    assert_eq!(idle.isolated_cpus.unwrap().to_string(), "2-3");
    // Cores, and who shares the cache of the last level.
    let topology = bare_metal().read().topology;
    let cores: Vec<String> = topology
        .smt_siblings
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(cores, ["0,4", "1,5", "2,6", "3,7"]);
    assert_eq!(topology.cache_siblings.unwrap()[0].to_string(), "0-7");
    let groups = [container_v1(), container_v2()].map(|copy| copy.read().cgroup);
    assert_eq!(groups[0].weights, Some(vec![200.0]));
    assert_eq!(groups[1].weights, Some(vec![100.0, 20.0]));
    assert_eq!(
        (groups[1].idle, groups[1].memory_limit_kib),
        (Some(false), Some(256 << 10))
    );
}

#[test]
fn a_malformed_quota_is_unknown_and_not_absent() {
    let machine = container_v2()
        .with("/sys/fs/cgroup/pod/cpu.max", "plenty\n")
        .read();
    assert_eq!(machine.cgroup.quota_cpus, None);
    assert!(
        machine.unknown["cgroup.quota_cpus"].contains("plenty"),
        "{:?}",
        machine.unknown
    );
}

#[test]
fn nothing_readable_is_no_reason_to_fail() {
    let machine = Copy::empty().read();
    assert_eq!((machine.cpus, machine.kernel, machine.smt), (None, None, None));
    assert_eq!(machine.machine_key, "? | ? CPUs | ? | ?");
    let cpus = |listed: &str| Copy::empty().with("/proc/cpuinfo", listed).read().cpus;
    assert_eq!(cpus("processor\t: 0\nflags\t: fpu\n\nprocessor\t: 1\n"), Some(2));
    assert_eq!(cpus("flags\t: fpu\n"), None);
}

fn quiet() -> NoiseProbe {
    NoiseProbe {
        duration: Duration::from_secs(5),
        cpus: 2,
        longest_gap_ns: 45_000,
        lost_share: 0.0004,
        interruptions: 310,
        foreign_cpus: 0.01,
        pressure_share: Some(0.0),
        ..NoiseProbe::default()
    }
}

fn noisy() -> NoiseProbe {
    NoiseProbe {
        longest_gap_ns: 20_052_982,
        lost_share: 0.67,
        interruptions: 1_800,
        long_interruptions: 850,
        steal_share: 0.021,
        foreign_cpus: 1.3,
        pressure_share: Some(0.98),
        throttled: Duration::from_millis(700),
        ..quiet()
    }
}

/// What a person reads, a judgement a paragraph.
fn said(machine: &Fingerprint, probe: &NoiseProbe) -> String {
    let paragraph = |item: &threadgauge_machine::Advice| {
        let fix = item
            .fix
            .as_ref()
            .map_or(String::new(), |fix| format!("\n    fix: {fix}"));
        format!("{:?}: {}\n    {}{fix}\n", item.severity, item.subject, item.says)
    };
    examine(machine, probe).iter().map(paragraph).collect()
}

#[test]
fn the_doctor_on_a_quiet_virtual_machine() {
    insta::assert_snapshot!(said(&small_virtual_machine().read(), &quiet()));
}

#[test]
fn the_doctor_on_bare_metal() {
    insta::assert_snapshot!(said(&bare_metal().read(), &quiet()));
}

#[test]
fn the_doctor_in_a_noisy_container() {
    insta::assert_snapshot!(said(&container_v2().read(), &noisy()));
}

#[test]
fn the_doctor_where_nothing_can_be_read() {
    insta::assert_snapshot!(said(&Copy::empty().read(), &quiet()));
}
