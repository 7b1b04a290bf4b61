//! What the control group grants: CPU quota and weight, cpuset, memory; cgroup v1, v2 or both at once.
//!
//! A limit binds on whichever level it is set, so every group up to the top is looked at. The record has numbers alone.
//! A group's path is not in it: it may hold names of users or services.

mod bounds;
mod place;
mod quota_group;
mod quotas;
mod throttle;

use crate::cpulist::CpuList;
use crate::source::{Fact, Source};
pub(crate) use bounds::{
    GroupBound, group_memory_bounds, group_pids_bounds, memory_left_kib, memory_limit_kib, pids_max,
};
use place::{Place, bound};
pub use quota_group::{QUOTA_PERIOD, QuotaError, UnderQuota, remove_left_groups};
pub use quotas::QuotaCounts;
pub(crate) use quotas::Quotas;
use serde::{Deserialize, Serialize};
pub(crate) use throttle::ThrottleFiles;
pub use throttle::parse_cpu_stat;

/// The weight of a group that nobody changed, in version 2 and in version 1.
const DEFAULT_WEIGHT: f64 = 100.0;
const DEFAULT_SHARES: f64 = 1024.0;

/// The control group of this process, as far as it decides figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// `v1`, `v2` or `hybrid` (both mounted, controllers in v1); `None` without cgroups.
    pub version: Option<String>,
    /// How many CPUs' worth of time the quota grants, the least along the path; `None` without one.
    pub quota_cpus: Option<f64>,
    /// The CPUs of the cpuset; `None` where none is set.
    pub cpuset: Option<CpuList>,
    /// The CPU weight of the group and of each above it, own first: its share where groups beside it compute. 100 is
    /// the default.
    pub weights: Option<Vec<f64>>,
    /// Does some group on the way get a CPU only when nobody else wants it (`cpu.idle`)?
    pub idle: Option<bool>,
    /// KiB of memory, the least along the path; `None` without a limit.
    pub memory_limit_kib: Option<u64>,
}

/// A v2 `cpu.max` as CPUs' worth of time: `"150000 100000"` is 1.5, `"max 100000"` is `Ok(None)`, no bound.
///
/// # Errors
///
/// What is wrong with the text.
pub fn parse_cpu_max(text: &str) -> Result<Option<f64>, String> {
    let mut words = text.split_ascii_whitespace();
    match words.next() {
        Some("max") => Ok(None),
        // The kernel always writes the period; this is its default.
        Some(quota) => cpus_worth(quota, words.next().unwrap_or("100000")),
        None => Err("cpu.max is empty".to_owned()),
    }
}

/// A v1 `cpu.cfs_quota_us` and `cpu.cfs_period_us` as CPUs' worth of time; a quota of -1 is `Ok(None)`, no bound.
///
/// # Errors
///
/// What is wrong with the texts.
pub fn parse_cfs_quota(quota_us: &str, period_us: &str) -> Result<Option<f64>, String> {
    if quota_us.trim() == "-1" {
        Ok(None)
    } else {
        cpus_worth(quota_us, period_us)
    }
}

fn cpus_worth(quota_us: &str, period_us: &str) -> Result<Option<f64>, String> {
    match (quota_us.trim().parse::<u64>(), period_us.trim().parse::<u64>()) {
        (Ok(quota), Ok(period)) if quota > 0 && period > 0 => Ok(Some(quota as f64 / period as f64)),
        _ => Err(format!(
            "a quota of {quota_us:?} in a period of {period_us:?} makes no sense"
        )),
    }
}

/// Reads the control group; calls `unknown` with field and reason for each part that is `None`.
pub(crate) fn read(source: &Source, unknown: &mut dyn FnMut(&str, String)) -> Cgroup {
    let mut keep = |field: &str, reason: String| unknown(&format!("cgroup.{field}"), reason);
    let membership = match source.text("/proc/self/cgroup") {
        Ok(text) => text,
        Err(reason) => {
            for field in [
                "version",
                "quota_cpus",
                "cpuset",
                "weights",
                "idle",
                "memory_limit_kib",
            ] {
                keep(field, reason.clone());
            }
            return Cgroup::default();
        }
    };
    let has_v1 = membership.lines().any(|line| !line.starts_with("0::"));
    let has_v2 = membership.lines().any(|line| line.starts_with("0::"));
    let version = match (has_v1, has_v2) {
        (true, true) => Some("hybrid"),
        (true, false) => Some("v1"),
        (false, true) => Some("v2"),
        (false, false) => None,
    };
    if version.is_none() {
        keep("version", "this process is in no control group".to_owned());
    }
    let place = |controller| Place::in_membership(source, &membership, controller);
    let quota_cpus = place("cpu").and_then(|place| quota(source, &place));
    let cpuset = place("cpuset").and_then(|place| cpuset(source, &place));
    let weights = place("cpu").and_then(|place| weights(source, &place));
    let idle = place("cpu").and_then(|place| idle(source, &place));
    Cgroup {
        version: version.map(str::to_owned),
        quota_cpus: quota_cpus.map_err(|reason| keep("quota_cpus", reason)).ok(),
        cpuset: cpuset.map_err(|reason| keep("cpuset", reason)).ok(),
        weights: weights.map_err(|reason| keep("weights", reason)).ok(),
        idle: idle.map_err(|reason| keep("idle", reason)).ok(),
        memory_limit_kib: memory_limit_kib(source, "self")
            .map_err(|reason| keep("memory_limit_kib", reason))
            .ok(),
    }
}

fn quota(source: &Source, place: &Place) -> Fact<f64> {
    let least = place.lowest(|folder| quota_of(source, place, folder))?;
    least.ok_or_else(|| "no quota is set".to_owned())
}

/// The quota of one folder of a place; `None` where it has none.
fn quota_of(source: &Source, place: &Place, folder: &str) -> Fact<Option<f64>> {
    let text = |name: &str| source.text(&format!("{folder}/{name}")).ok();
    // The top of the tree has no such file, and neither has a group without the controller.
    if place.is_v2 {
        return text("cpu.max").map_or(Ok(None), |text| parse_cpu_max(&text));
    }
    match (text("cpu.cfs_quota_us"), text("cpu.cfs_period_us")) {
        (Some(quota), Some(period)) => parse_cfs_quota(&quota, &period),
        _ => Ok(None),
    }
}

fn weights(source: &Source, place: &Place) -> Fact<Vec<f64>> {
    let (file, default) = if place.is_v2 {
        ("cpu.weight", DEFAULT_WEIGHT)
    } else {
        ("cpu.shares", DEFAULT_SHARES)
    };
    let weights = place.each(|folder| {
        let weight = bound(source, folder, file)?;
        Ok(weight.map(|weight| weight as f64 / default * DEFAULT_WEIGHT))
    })?;
    if weights.is_empty() {
        return Err(format!("no control group on the way has a {file}"));
    }
    Ok(weights)
}

fn idle(source: &Source, place: &Place) -> Fact<bool> {
    let on = place.each(|folder| bound(source, folder, "cpu.idle"))?;
    if on.is_empty() {
        return Err("no control group on the way has a cpu.idle".to_owned());
    }
    Ok(on.iter().any(|on| *on != 0))
}

fn cpuset(source: &Source, place: &Place) -> Fact<CpuList> {
    let names = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
    for folder in place.folders() {
        for name in names {
            if let Ok(text) = source.word(&format!("{folder}/{name}")) {
                return text.parse().map_err(|error| format!("{name}: {error}"));
            }
        }
    }
    Err("no cpuset is set".to_owned())
}

#[cfg(test)]
mod tests {
    use super::place::find;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotas_are_cpus() {
        assert_eq!(parse_cpu_max("150000 100000\n"), Ok(Some(1.5)));
        assert_eq!(parse_cpu_max("50000"), Ok(Some(0.5)));
        assert_eq!(parse_cpu_max("max 100000"), Ok(None));
        assert_eq!(parse_cfs_quota("-1\n", "100000\n"), Ok(None));
        assert_eq!(parse_cfs_quota("200000\n", "100000\n"), Ok(Some(2.0)));
    }

    #[test]
    fn nonsense_is_an_error_and_not_the_absence_of_a_quota() {
        assert!(parse_cfs_quota("200000", "0").is_err());
        for text in ["", "lots 100000", "-5 100000", "0 100000"] {
            assert!(parse_cpu_max(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(a in "[0-9a-z:/ \\-\n,]{0,60}", b in "[0-9a-z:/ \\-\n,]{0,60}") {
            let _ = (parse_cpu_max(&a), parse_cfs_quota(&a, &b), parse_cpu_stat(&a), find(&a, &b, "cpu"));
        }
    }
}
