//! Judges how the machine is set: what shifts or widens figures at any time.

use super::{Advice, Severity, why_unknown};
use crate::cpulist::CpuList;
use crate::fingerprint::Fingerprint;

pub(super) fn judge(machine: &Fingerprint) -> Vec<Advice> {
    let rules = [
        virtual_machine,
        governor,
        turbo,
        smt,
        nodes,
        preemption,
        clock_source,
        mitigations,
        huge_pages,
    ];
    rules.iter().filter_map(|rule| rule(machine)).collect()
}

fn note(subject: &str, says: String, fix: Option<&str>) -> Option<Advice> {
    Some(Advice::new(subject, Severity::Note, says, fix))
}

fn virtual_machine(machine: &Fingerprint) -> Option<Advice> {
    let subject = "hypervisor";
    match (machine.virtual_machine, &machine.hypervisor) {
        (Some(false), _) => Some(Advice::fine(subject, "none: this is bare metal")),
        (_, Some(name)) => note(
            subject,
            format!(
                "a virtual machine ({name}): waking a unit on an idle CPU can cost ten times a wake-up on the same \
                 CPU, and other guests are invisible. Compare figures only with the same kind of machine"
            ),
            Some("for figures of the hardware itself, measure on bare metal"),
        ),
        _ => note(
            subject,
            format!("not known: {}", why_unknown(machine, "hypervisor")),
            None,
        ),
    }
}

fn governor(machine: &Fingerprint) -> Option<Advice> {
    let subject = "CPU frequency";
    let Some(governor) = &machine.governor else {
        return note(
            subject,
            format!("governor not known: {}", why_unknown(machine, "governor")),
            None,
        );
    };
    if governor == "performance" {
        return Some(Advice::fine(subject, "the governor is performance"));
    }
    let says = format!(
        "the governor is {governor}: the frequency follows the load, so short or waiting work is measured slower \
         than it need be, by up to several times"
    );
    let fix = "as root, for the time of measuring: cpupower frequency-set -g performance";
    Some(Advice::new(subject, Severity::Warning, says, Some(fix)))
}

fn turbo(machine: &Fingerprint) -> Option<Advice> {
    match machine.turbo? {
        false => Some(Advice::fine("turbo", "off: one busy core runs as fast as all")),
        true => note(
            "turbo",
            "on: one busy core runs faster than all together, so speed-ups look smaller than they are"
                .to_owned(),
            Some(
                "as root, for the time of measuring: write 0 to /sys/devices/system/cpu/cpufreq/boost, or 1 to \
                 /sys/devices/system/cpu/intel_pstate/no_turbo",
            ),
        ),
    }
}

fn smt(machine: &Fingerprint) -> Option<Advice> {
    let subject = "SMT";
    let siblings = match (&machine.topology.smt_siblings, machine.smt) {
        (Some(siblings), Some(true)) => siblings,
        (_, Some(false)) => return Some(Advice::fine(subject, "each CPU is a core of its own")),
        _ => {
            return note(
                subject,
                format!("not known: {}", why_unknown(machine, "smt")),
                None,
            );
        }
    };
    let one_a_core = match &machine.allowed_cpus {
        Some(allowed) => {
            let is_first = |&cpu: &usize| {
                let core = siblings.iter().find(|core| core.contains(cpu));
                core.is_none_or(|core| core.intersection(allowed).iter().next() == Some(cpu))
            };
            CpuList::new(allowed.iter().filter(is_first))
        }
        None => CpuList::new(siblings.iter().filter_map(|core| core.iter().next())),
    };
    let says = format!(
        "CPUs share cores ({}): two busy CPUs of one core do far less than two cores",
        siblings
            .iter()
            .map(CpuList::to_string)
            .collect::<Vec<_>>()
            .join("; "),
    );
    note(
        subject,
        says,
        Some(&format!("one CPU a core: --cpus {one_a_core}")),
    )
}

fn nodes(machine: &Fingerprint) -> Option<Advice> {
    let nodes = machine
        .topology
        .numa_nodes
        .as_ref()
        .filter(|nodes| nodes.len() > 1)?;
    let lists: Vec<String> = nodes.iter().map(CpuList::to_string).collect();
    let says = format!(
        "{} memory nodes ({}): memory of another node is slower",
        nodes.len(),
        lists.join("; ")
    );
    let with_cpus = nodes.iter().find(|node| !node.is_empty());
    note(
        "memory nodes",
        says,
        with_cpus
            .map(|node| format!("one node: --cpus {node}"))
            .as_deref(),
    )
}

fn preemption(machine: &Fingerprint) -> Option<Advice> {
    let subject = "preemption";
    match (&machine.preemption, &machine.preemption_source) {
        (Some(mode), Some(source)) => note(
            subject,
            format!(
                "{mode}, by {source}: how soon a woken unit runs depends on it. Compare only with the same"
            ),
            None,
        ),
        _ => note(
            subject,
            format!("not known: {}", why_unknown(machine, "preemption")),
            None,
        ),
    }
}

fn clock_source(machine: &Fingerprint) -> Option<Advice> {
    let subject = "clock";
    let Some(clock) = &machine.clocksource else {
        return note(
            subject,
            format!("not known: {}", why_unknown(machine, "clocksource")),
            None,
        );
    };
    let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen"];
    if !slow.contains(&clock.as_str()) {
        return Some(Advice::fine(subject, clock.as_str()));
    }
    let says = format!(
        "the clock source is {clock}: each look at the clock is a system call of a microsecond or more"
    );
    let fix = "find out why the kernel gave up its better clock: `dmesg | grep -i clocksource`";
    Some(Advice::new(subject, Severity::Warning, says, Some(fix)))
}

fn mitigations(machine: &Fingerprint) -> Option<Advice> {
    let subject = "mitigations";
    let Some(all) = &machine.mitigations else {
        return note(
            subject,
            format!("not known: {}", why_unknown(machine, "mitigations")),
            None,
        );
    };
    let active: Vec<&str> = all
        .iter()
        .filter(|(_, state)| state.starts_with("Mitigation"))
        .map(|(name, _)| name.as_str())
        .collect();
    if active.is_empty() {
        return Some(Advice::fine(subject, "none is active"));
    }
    let says = format!(
        "active against {}: system calls and switches cost more than without. That is how such a machine is used, \
         so measure with them, and compare only with the same",
        active.join(", "),
    );
    note(subject, says, None)
}

fn huge_pages(machine: &Fingerprint) -> Option<Advice> {
    let subject = "huge pages";
    match machine.transparent_huge_pages.as_deref() {
        Some("always") => note(
            subject,
            "transparent huge pages are always on: forking a large process looks cheaper, and memory of an idle unit \
             larger, than with small pages"
                .to_owned(),
            None,
        ),
        Some(mode) => Some(Advice::fine(subject, format!("transparent huge pages: {mode}"))),
        None => note(subject, format!("not known: {}", why_unknown(machine, "transparent_huge_pages")), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    #[test]
    fn the_mend_for_smt_names_one_allowed_cpu_a_core() {
        let topology = Topology {
            smt_siblings: Some(vec![
                CpuList::new([0, 4]),
                CpuList::new([1, 5]),
                CpuList::new([2, 6]),
            ]),
            ..Topology::default()
        };
        let allowed_cpus = Some(CpuList::new([1, 4, 5, 6]));
        let machine = Fingerprint {
            smt: Some(true),
            topology,
            allowed_cpus,
            ..Fingerprint::default()
        };
        assert_eq!(
            smt(&machine).unwrap().fix.as_deref(),
            Some("one CPU a core: --cpus 1,4,6")
        );
    }

    #[test]
    fn several_memory_nodes_are_named_and_the_first_with_cpus_advised() {
        let of = |lists: &[&str]| {
            let lists = lists.iter().map(|list| list.parse().unwrap_or_default());
            nodes(&Fingerprint {
                topology: Topology {
                    numa_nodes: Some(lists.collect()),
                    ..Topology::default()
                },
                ..Fingerprint::default()
            })
        };
        // One of memory alone has no CPUs.
        let advice = of(&["", "0-3", "4-7"]).unwrap();
        assert!(advice.says.starts_with("3 memory nodes"), "{advice:?}");
        assert_eq!(advice.fix.as_deref(), Some("one node: --cpus 0-3"));
        assert!(of(&["0-7"]).is_none());
    }

    #[test]
    fn a_slow_clock_is_a_warning() {
        let of = |clock: &str| {
            let machine = Fingerprint {
                clocksource: Some(clock.to_owned()),
                ..Fingerprint::default()
            };
            clock_source(&machine).unwrap().severity
        };
        assert_eq!((of("tsc"), of("hpet")), (Severity::Fine, Severity::Warning));
    }
}
