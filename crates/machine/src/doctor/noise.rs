//! Judges what the noise probe saw: the state of the machine now, which may be another one in a minute.

use super::{Advice, Severity};
use crate::probe::NoiseProbe;
use std::time::Duration;

pub(super) fn judge(probe: &NoiseProbe) -> Vec<Advice> {
    let mut advice = Vec::new();
    if !probe.unknown.is_empty() {
        let says = format!(
            "the noise probe could not look at everything: {}",
            probe.unknown.join("; ")
        );
        advice.push(Advice::new("noise probe", Severity::Warning, says, None));
    }
    if probe.cpus == 0 {
        return advice;
    }
    advice.extend([other_programs(probe), steal(probe), interruptions(probe)]);
    if !probe.throttled.is_zero() {
        let says = format!(
            "a quota of its control group, or of one above it, stopped the probe: {:.0} ms in {:.1} s, added up over groups and \
             CPUs. Elapsed times measure the quota",
            probe.throttled.as_secs_f64() * 1e3,
            probe.duration.as_secs_f64(),
        );
        let fix = "raise the quota (cpu.max, docker --cpus, Kubernetes limits.cpu) or use fewer CPUs";
        advice.push(Advice::new("throttling", Severity::Serious, says, Some(fix)));
    }
    advice
}

fn other_programs(probe: &NoiseProbe) -> Advice {
    let subject = "other programs";
    let percent = probe.foreign_cpus * 100.0;
    let severity = match probe.foreign_cpus {
        load if load > 0.5 => Severity::Serious,
        load if load > 0.05 => Severity::Warning,
        _ => return Advice::fine(subject, format!("other programs used {percent:.1} % of a CPU")),
    };
    let waits = match probe.pressure_share {
        Some(share) => format!(
            ", and something waited for a CPU {:.0} % of the time",
            share * 100.0
        ),
        None => String::new(),
    };
    let says = format!(
        "other programs used {percent:.0} % of a CPU while {} CPUs were kept busy{waits}: creating units can take \
         2 to 5 times as long, and samples with more than 5 % are repeated",
        probe.cpus,
    );
    Advice::new(
        subject,
        severity,
        says,
        Some("end what need not run (`top` names it), or wait"),
    )
}

fn steal(probe: &NoiseProbe) -> Advice {
    let percent = probe.steal_share * 100.0;
    let severity = match probe.steal_share {
        share if share > 0.05 => Severity::Serious,
        share if share > 0.01 => Severity::Warning,
        _ => {
            let says = format!("the hypervisor took {percent:.2} % (many take time without saying so)");
            return Advice::fine("steal", says);
        }
    };
    let says = format!(
        "the hypervisor gave {percent:.1} % of the CPU time to other machines, which nothing here changes; samples above \
         1 % are repeated"
    );
    Advice::new("steal", severity, says, None)
}

fn interruptions(probe: &NoiseProbe) -> Advice {
    let seconds = probe.duration.as_secs_f64() * probe.cpus as f64;
    let rate = if seconds > 0.0 {
        probe.interruptions as f64 / seconds
    } else {
        0.0
    };
    let longest = Duration::from_nanos(probe.longest_gap_ns).as_secs_f64() * 1e3;
    let says = format!(
        "a busy loop lost {:.2} % of its time: {rate:.0} interruptions above 10 µs a second on each CPU, {} of all \
         above 1 ms, the longest {longest:.2} ms",
        probe.lost_share * 100.0,
        probe.long_interruptions,
    );
    let severity = match probe.lost_share {
        share if share > 0.1 => Severity::Serious,
        share if share > 0.01 => Severity::Warning,
        share if share > 0.001 => Severity::Note,
        _ => return Advice::fine("interruptions", says),
    };
    // Other programs can be ended; what the kernel and the hypervisor do cannot be changed from here.
    let by_programs = probe.foreign_cpus / probe.cpus as f64;
    if by_programs < probe.lost_share / 2.0 {
        let says = format!(
            "{says}; other programs took {:.2} %, the rest is the kernel's and the hypervisor's, which nothing here changes",
            by_programs * 100.0
        );
        return Advice::new("interruptions", severity, says, None);
    }
    Advice::new(
        "interruptions",
        severity,
        says,
        Some("end what need not run (`top` names it)"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn severity(probe: &NoiseProbe, subject: &str) -> Severity {
        let advice = judge(&NoiseProbe {
            cpus: 2,
            duration: Duration::from_secs(5),
            ..probe.clone()
        });
        advice
            .iter()
            .find(|item| item.subject == subject)
            .unwrap()
            .severity
    }

    #[test]
    fn the_limits_are_those_by_which_samples_are_repeated() {
        let load = |foreign_cpus| NoiseProbe {
            foreign_cpus,
            ..NoiseProbe::default()
        };
        assert_eq!(severity(&load(0.05), "other programs"), Severity::Fine);
        assert_eq!(severity(&load(0.06), "other programs"), Severity::Warning);
        assert_eq!(severity(&load(0.6), "other programs"), Severity::Serious);
        let stolen = |steal_share| NoiseProbe {
            steal_share,
            ..NoiseProbe::default()
        };
        assert_eq!(severity(&stolen(0.01), "steal"), Severity::Fine);
        assert_eq!(severity(&stolen(0.011), "steal"), Severity::Warning);
        assert_eq!(severity(&stolen(0.05), "steal"), Severity::Warning);
        assert_eq!(severity(&stolen(0.051), "steal"), Severity::Serious);
        let lost = |lost_share| NoiseProbe {
            lost_share,
            ..NoiseProbe::default()
        };
        let of = |share| severity(&lost(share), "interruptions");
        assert_eq!([0.001, 0.002].map(of), [Severity::Fine, Severity::Note]);
        assert_eq!([0.01, 0.011].map(of), [Severity::Note, Severity::Warning]);
        assert_eq!([0.1, 0.11].map(of), [Severity::Warning, Severity::Serious]);
    }

    #[test]
    fn interruptions_are_said_a_second_and_a_cpu() {
        let advice = interruptions(&NoiseProbe {
            cpus: 2,
            duration: Duration::from_secs(5),
            interruptions: 300,
            long_interruptions: 7,
            longest_gap_ns: 1_500_000,
            foreign_cpus: 0.1,
            lost_share: 0.2,
            ..NoiseProbe::default()
        });
        assert_eq!(
            advice.says,
            "a busy loop lost 20.00 % of its time: 30 interruptions above 10 µs a second on each CPU, 7 of all above \
             1 ms, the longest 1.50 ms; other programs took 5.00 %, the rest is the kernel's and the hypervisor's, which \
             nothing here changes"
        );
    }

    #[test]
    fn what_to_do_is_said_only_where_the_user_can_do_something() {
        let fix = |probe: &NoiseProbe, subject: &str| {
            let advice = judge(&NoiseProbe {
                cpus: 2,
                ..probe.clone()
            });
            let of = advice.into_iter().find(|item| item.subject == subject);
            of.unwrap().fix
        };
        let stolen = NoiseProbe {
            steal_share: 0.2,
            lost_share: 0.2,
            ..NoiseProbe::default()
        };
        assert_eq!(fix(&stolen, "steal"), None);
        assert_eq!(fix(&stolen, "interruptions"), None);
        let busy = NoiseProbe {
            foreign_cpus: 0.5,
            lost_share: 0.2,
            ..NoiseProbe::default()
        };
        assert!(fix(&busy, "other programs").is_some());
        assert!(fix(&busy, "interruptions").is_some());
    }

    #[test]
    fn any_throttling_is_serious() {
        let throttled = NoiseProbe {
            throttled: Duration::from_millis(1),
            ..NoiseProbe::default()
        };
        assert_eq!(severity(&throttled, "throttling"), Severity::Serious);
    }
}
