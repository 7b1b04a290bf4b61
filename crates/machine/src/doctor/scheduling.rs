//! Judges how this process is scheduled: none of it shows in a figure, and each can make one many times as large.

use super::{Advice, Severity, why_unknown};
use crate::fingerprint::Fingerprint;

/// What a timer is late by where nobody chose otherwise, in nanoseconds.
const DEFAULT_SLACK_NS: u64 = 50_000;
/// The weight of a group that nobody changed.
const DEFAULT_WEIGHT: f64 = 100.0;

const WITHOUT_CHRT: &str = "start it without `chrt`, or with `chrt -o 0`";
const WITHOUT_NICE: &str = "start it without `nice`";

pub(super) fn judge(machine: &Fingerprint) -> Vec<Advice> {
    let unusual = [
        policy,
        niceness,
        session,
        loaded_scheduler,
        weight,
        idle_group,
        timer_slack,
        isolated,
        tickless,
        addresses,
    ];
    let mut advice: Vec<Advice> = unusual.iter().filter_map(|rule| rule(machine)).collect();
    if advice.is_empty() {
        advice.push(Advice::fine(
            "scheduling",
            "policy, niceness and weight are those of any program",
        ));
    }
    advice
}

fn policy(machine: &Fingerprint) -> Option<Advice> {
    let subject = "scheduling policy";
    let Some(policy) = machine.scheduling.policy.as_deref() else {
        let says = format!("not known: {}", why_unknown(machine, "scheduling.policy"));
        return Some(Advice::new(subject, Severity::Note, says, None));
    };
    let (severity, what) = match policy {
        "other" => return None,
        "idle" => (
            Severity::Serious,
            "every other program that wants a CPU goes first, so a case may take many times as long",
        ),
        "batch" => (
            Severity::Warning,
            "a unit that wakes takes the CPU from nobody, so wake-ups look slower",
        ),
        "ext" => (Severity::Warning, "a loaded scheduler decides who runs"),
        _ => (
            Severity::Warning,
            "its units go before those of all ordinary programs, and share a CPU by other rules",
        ),
    };
    Some(Advice::new(
        subject,
        severity,
        format!("{policy}: {what}"),
        Some(WITHOUT_CHRT),
    ))
}

fn niceness(machine: &Fingerprint) -> Option<Advice> {
    let niceness = machine.scheduling.niceness.filter(|niceness| *niceness != 0)?;
    let whom = if machine.autogroup == Some(true) {
        "others of its session"
    } else {
        "others"
    };
    let what = if niceness > 0 { "less" } else { "more" };
    let says = format!("{niceness}: of a CPU that {whom} want too it gets {what} than its part");
    Some(Advice::new(
        "niceness",
        Severity::Warning,
        says,
        Some(WITHOUT_NICE),
    ))
}

/// Where the scheduler groups by session, the session has a niceness of its own.
fn session(machine: &Fingerprint) -> Option<Advice> {
    let niceness = machine.scheduling.autogroup_niceness.filter(|of| *of != 0);
    let niceness = niceness.filter(|_| machine.autogroup == Some(true))?;
    let what = if niceness > 0 { "less" } else { "more" };
    let says = format!(
        "its session has a niceness of {niceness}: beside other sessions it gets {what} than its part"
    );
    let fix = "write 0 to /proc/PID/autogroup of the shell it is started from";
    Some(Advice::new("autogroup", Severity::Warning, says, Some(fix)))
}

fn loaded_scheduler(machine: &Fingerprint) -> Option<Advice> {
    let name = machine.scheduling.sched_ext.as_ref()?;
    let says = format!(
        "{name} is loaded in place of the kernel's scheduler: figures of switches, wake-ups and turns are that one's"
    );
    let fix = "end the program that loaded it, if the kernel's own is meant";
    Some(Advice::new("sched_ext", Severity::Warning, says, Some(fix)))
}

fn weight(machine: &Fingerprint) -> Option<Advice> {
    let weights = machine.cgroup.weights.as_ref()?;
    let unusual = weights.iter().find(|weight| **weight != DEFAULT_WEIGHT)?;
    let what = if *unusual < DEFAULT_WEIGHT { "less" } else { "more" };
    let says = format!(
        "a control group that it is in has a CPU weight of {unusual} ({DEFAULT_WEIGHT} is the default): beside other groups it \
         gets {what} than its part"
    );
    let fix = "measure in a group of the default weight (cpu.weight, cpu.shares, CPUWeight=)";
    Some(Advice::new("group weight", Severity::Warning, says, Some(fix)))
}

fn idle_group(machine: &Fingerprint) -> Option<Advice> {
    let says = "a control group that it is in is idle (cpu.idle): every other program that wants a CPU goes first, so a case \
                may take many times as long";
    let fix = "measure in another group, or write 0 to its cpu.idle";
    (machine.cgroup.idle == Some(true))
        .then(|| Advice::new("idle group", Severity::Serious, says.to_owned(), Some(fix)))
}

fn timer_slack(machine: &Fingerprint) -> Option<Advice> {
    // Real-time units have none, whatever was chosen.
    let is_ordinary = matches!(
        machine.scheduling.policy.as_deref(),
        Some("other" | "batch" | "idle")
    );
    let slack_ns = machine.scheduling.timer_slack_ns.filter(|_| is_ordinary)?;
    let says = format!(
        "timers may go off {} µs late ({} µs is the default): sleeps and open-loop latencies are not those of other programs",
        slack_ns as f64 / 1e3,
        DEFAULT_SLACK_NS / 1_000,
    );
    let fix = "start it from a shell whose /proc/PID/timerslack_ns nobody changed";
    (slack_ns != DEFAULT_SLACK_NS).then(|| Advice::new("timer slack", Severity::Warning, says, Some(fix)))
}

fn isolated(machine: &Fingerprint) -> Option<Advice> {
    let isolated = machine.scheduling.isolated_cpus.as_ref()?;
    let here = isolated.intersection(machine.allowed_cpus.as_ref()?);
    let says = format!(
        "CPUs {here} are isolated (isolcpus): the scheduler moves nothing between them, so units that are not pinned pile up on \
         one"
    );
    let fix = "use CPUs that are not isolated: --cpus";
    (here.len() > 1).then(|| Advice::new("isolated CPUs", Severity::Warning, says, Some(fix)))
}

fn tickless(machine: &Fingerprint) -> Option<Advice> {
    let tickless = machine.scheduling.tickless_cpus.as_ref()?;
    let here = tickless.intersection(machine.allowed_cpus.as_ref()?);
    let says = format!(
        "CPUs {here} have no tick while they run one unit (nohz_full): each way into the kernel costs more there"
    );
    (!here.is_empty()).then(|| Advice::new("tickless CPUs", Severity::Note, says, None))
}

fn addresses(machine: &Fingerprint) -> Option<Advice> {
    let says = "addresses are the same in each process: the luck of one memory layout is in every round";
    let fix = "start it without `setarch -R` or a debugger";
    (machine.scheduling.random_addresses == Some(false))
        .then(|| Advice::new("addresses", Severity::Note, says.to_owned(), Some(fix)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Cgroup;
    use crate::cpulist::CpuList;
    use crate::scheduling::Scheduling;

    fn usual() -> Scheduling {
        Scheduling {
            policy: Some("other".to_owned()),
            niceness: Some(0),
            timer_slack_ns: Some(DEFAULT_SLACK_NS),
            ..Scheduling::default()
        }
    }

    /// Subjects and severities of what is said of a machine on which a process is scheduled so.
    fn said(scheduling: Scheduling, cgroup: Cgroup) -> Vec<(String, Severity)> {
        let machine = Fingerprint {
            scheduling,
            cgroup,
            autogroup: Some(true),
            allowed_cpus: Some(CpuList::new(0..4)),
            ..Fingerprint::default()
        };
        let advice = judge(&machine).into_iter();
        advice.map(|item| (item.subject, item.severity)).collect()
    }

    #[test]
    fn each_unusual_thing_is_named_and_what_is_usual_is_fine() {
        let group = Cgroup::default;
        let one = |subject: &str, severity| vec![(subject.to_owned(), severity)];
        assert_eq!(said(usual(), group()), one("scheduling", Severity::Fine));
        let idle = Scheduling {
            policy: Some("idle".to_owned()),
            ..usual()
        };
        assert_eq!(said(idle, group()), one("scheduling policy", Severity::Serious));
        let nice = Scheduling {
            niceness: Some(10),
            ..usual()
        };
        assert_eq!(said(nice, group()), one("niceness", Severity::Warning));
        let nice_session = Scheduling {
            autogroup_niceness: Some(5),
            ..usual()
        };
        assert_eq!(said(nice_session, group()), one("autogroup", Severity::Warning));
        let loaded = Scheduling {
            sched_ext: Some("simple".to_owned()),
            ..usual()
        };
        assert_eq!(said(loaded, group()), one("sched_ext", Severity::Warning));
        let slack = Scheduling {
            timer_slack_ns: Some(1),
            ..usual()
        };
        assert_eq!(said(slack, group()), one("timer slack", Severity::Warning));
        let isolated = Scheduling {
            isolated_cpus: Some(CpuList::new(2..4)),
            ..usual()
        };
        assert_eq!(said(isolated, group()), one("isolated CPUs", Severity::Warning));
        // On one CPU nothing piles up.
        let one_isolated = Scheduling {
            isolated_cpus: Some(CpuList::new(3..9)),
            ..usual()
        };
        assert_eq!(said(one_isolated, group()), one("scheduling", Severity::Fine));
        let light = Cgroup {
            weights: Some(vec![100.0, 20.0, 100.0]),
            ..group()
        };
        assert_eq!(said(usual(), light), one("group weight", Severity::Warning));
        let last = Cgroup {
            idle: Some(true),
            ..group()
        };
        assert_eq!(said(usual(), last), one("idle group", Severity::Serious));
    }
}
