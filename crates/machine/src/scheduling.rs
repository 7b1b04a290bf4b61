//! How this process is scheduled: what the user who started it chose, and how the kernel was told to place units.
//!
//! None of it shows in a figure, and each can make one many times as large. What the control group adds is `cgroup.rs`.

use crate::cpulist::CpuList;
use crate::source::{Fact, Source};
use serde::{Deserialize, Serialize};

/// How this process is scheduled. `None` where it could not be read or there is no such thing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduling {
    /// `other` is what programs have; else `batch`, `idle`, `fifo`, `rr`, `deadline` or `ext`.
    pub policy: Option<String>,
    /// Of `fifo` and `rr`: 1 to 99.
    pub realtime_priority: Option<u32>,
    /// −20 to 19; above 0 others have more of a CPU that is wanted by several.
    pub niceness: Option<i32>,
    /// Niceness of the session where the scheduler groups by session: there it counts among sessions, in place of the
    /// process's own.
    pub autogroup_niceness: Option<i32>,
    /// The scheduler that somebody loaded in place of the kernel's (sched_ext).
    pub sched_ext: Option<String>,
    /// How much later than asked for a timer of this process may go off, in nanoseconds; 50,000 is the default.
    pub timer_slack_ns: Option<u64>,
    /// CPUs that the scheduler puts nothing on by itself (`isolcpus`).
    pub isolated_cpus: Option<CpuList>,
    /// CPUs without a tick while they run one unit (`nohz_full`).
    pub tickless_cpus: Option<CpuList>,
    /// Are addresses chosen at random in each process?
    pub random_addresses: Option<bool>,
}

/// What `/proc/…/stat` says of how a process is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OfProcess {
    niceness: i32,
    realtime_priority: u32,
    policy: u32,
}

impl Scheduling {
    /// Reads all of it; calls `unknown` with field and reason for each part that is `None`.
    pub(crate) fn read(source: &Source, unknown: &mut dyn FnMut(&str, String)) -> Scheduling {
        let mut keep = |field: &str, reason: String| unknown(&format!("scheduling.{field}"), reason);
        let stat = source.text("/proc/self/stat");
        let process = stat.and_then(|stat| {
            parse_stat(&stat).ok_or_else(|| "/proc/self/stat has no scheduling policy".to_owned())
        });
        let policy = process.clone().and_then(|of| policy(of.policy));
        let priority = process.clone().and_then(|of| match of.realtime_priority {
            0 => Err("only fifo and rr have one".to_owned()),
            priority => Ok(priority),
        });
        Scheduling {
            policy: policy.map_err(|reason| keep("policy", reason)).ok(),
            realtime_priority: priority.map_err(|reason| keep("realtime_priority", reason)).ok(),
            niceness: process
                .map(|of| of.niceness)
                .map_err(|reason| keep("niceness", reason))
                .ok(),
            autogroup_niceness: autogroup_niceness(source)
                .map_err(|reason| keep("autogroup_niceness", reason))
                .ok(),
            sched_ext: sched_ext(source).map_err(|reason| keep("sched_ext", reason)).ok(),
            timer_slack_ns: source
                .value("/proc/self/timerslack_ns")
                .map_err(|reason| keep("timer_slack_ns", reason))
                .ok(),
            isolated_cpus: cpus(source, "isolated")
                .map_err(|reason| keep("isolated_cpus", reason))
                .ok(),
            tickless_cpus: cpus(source, "nohz_full")
                .map_err(|reason| keep("tickless_cpus", reason))
                .ok(),
            random_addresses: random_addresses(source)
                .map_err(|reason| keep("random_addresses", reason))
                .ok(),
        }
    }
}

/// Of a `/proc/…/stat` text, whose second field is a name that may hold anything.
fn parse_stat(text: &str) -> Option<OfProcess> {
    /// Places after the name, from 0.
    const NICE: usize = 16;
    const RT_PRIORITY: usize = 37;
    const POLICY: usize = 38;
    let (_, after_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    Some(OfProcess {
        niceness: fields.get(NICE)?.parse().ok()?,
        realtime_priority: fields.get(RT_PRIORITY)?.parse().ok()?,
        policy: fields.get(POLICY)?.parse().ok()?,
    })
}

/// The name of `SCHED_…`.
fn policy(number: u32) -> Fact<String> {
    const NAMES: [(u32, &str); 7] = [
        (0, "other"),
        (1, "fifo"),
        (2, "rr"),
        (3, "batch"),
        (5, "idle"),
        (6, "deadline"),
        (7, "ext"),
    ];
    let named = NAMES.iter().find(|(of, _)| *of == number);
    named
        .map(|(_, name)| (*name).to_owned())
        .ok_or_else(|| format!("the kernel's scheduling policy {number} has no name here"))
}

/// Of a line such as `/autogroup-10 nice 0`.
fn autogroup_niceness(source: &Source) -> Fact<i32> {
    let path = "/proc/self/autogroup";
    let line = source.word(path)?;
    let niceness = line.rsplit_once(" nice ").and_then(|(_, nice)| nice.parse().ok());
    niceness.ok_or_else(|| format!("{path} holds {line:?}"))
}

fn sched_ext(source: &Source) -> Fact<String> {
    const FOLDER: &str = "/sys/kernel/sched_ext";
    match source.word(&format!("{FOLDER}/state"))?.as_str() {
        "disabled" => Err("none is loaded".to_owned()),
        state => Ok(source
            .word(&format!("{FOLDER}/root/ops"))
            .unwrap_or_else(|_| state.to_owned())),
    }
}

/// A list of `/sys/devices/system/cpu`, which may be empty.
fn cpus(source: &Source, name: &str) -> Fact<CpuList> {
    let path = format!("/sys/devices/system/cpu/{name}");
    match source.text(&path)?.trim() {
        // Older kernels write this for an empty one.
        "" | "(null)" => Ok(CpuList::default()),
        list => list.parse().map_err(|error| format!("{path}: {error}")),
    }
}

fn random_addresses(source: &Source) -> Fact<bool> {
    /// `ADDR_NO_RANDOMIZE`, of `setarch -R` and of debuggers.
    const FIXED: u32 = 0x0004_0000;
    let by_kernel: u8 = source.value("/proc/sys/kernel/randomize_va_space")?;
    let personality = source.word("/proc/self/personality")?;
    let personality = u32::from_str_radix(&personality, 16)
        .map_err(|_| format!("/proc/self/personality holds {personality:?}"))?;
    Ok(by_kernel != 0 && personality & FIXED == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of a process with this niceness, real-time priority and policy.
    fn stat(niceness: i32, priority: u32, policy: u32) -> String {
        let before: String = (0..16).map(|i| format!("{i} ")).collect();
        let between: String = (17..37).map(|i| format!("{i} ")).collect();
        format!("7 (a ) name) {before}{niceness} {between}{priority} {policy} 0 0 0\n")
    }

    #[test]
    fn policy_and_niceness_stand_behind_a_name_that_may_hold_anything() {
        let of = parse_stat(&stat(-5, 50, 1)).unwrap();
        assert_eq!((of.niceness, of.realtime_priority, of.policy), (-5, 50, 1));
        assert_eq!(parse_stat("7 (x) S 1 2 3"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_policy_that_nobody_knows_yet_is_unknown() {
        assert_eq!(policy(5).as_deref(), Ok("idle"));
        assert!(policy(4).unwrap_err().contains("policy 4"));
    }

    #[test]
    fn this_process_has_a_policy_and_a_niceness() {
        let mut unknown = Vec::new();
        let source = Source::new(std::path::Path::new("/"));
        let own = Scheduling::read(&source, &mut |field, _| unknown.push(field.to_owned()));
        assert!(
            own.policy.is_some() && own.niceness.is_some(),
            "{own:?} {unknown:?}"
        );
    }
}
