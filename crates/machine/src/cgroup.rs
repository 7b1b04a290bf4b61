//! What the control group grants: CPU quota, cpuset, processes, memory; cgroup v1, v2 or both at once.
//!
//! Only numbers leave this module. The group's path is not stored: it may hold names of users or services.

use crate::cpulist::CpuList;
use crate::meter::read_whole;
use crate::source::{Fact, Source};
use serde::{Deserialize, Serialize};
use std::fs::File;

/// The control group of this process, as far as it restricts CPUs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// `v1`, `v2` or `hybrid` (both mounted, controllers in v1); `None` without cgroups.
    pub version: Option<String>,
    /// How many CPUs' worth of time the quota grants, the least along the path; `None` without one.
    pub quota_cpus: Option<f64>,
    /// The CPUs of the cpuset; `None` where none is set.
    pub cpuset: Option<CpuList>,
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

/// A `cpu.stat` of either version: for how many nanoseconds and in how many periods the group was throttled.
pub fn parse_cpu_stat(text: &str) -> Option<(u64, u64)> {
    let ns =
        of_stat(text, "throttled_time").or_else(|| of_stat(text, "throttled_usec")?.checked_mul(1_000))?;
    Some((ns, of_stat(text, "nr_throttled")?))
}

/// The number behind a name in a file of such lines.
fn of_stat(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Where one controller of this process lives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    mount: String,
    group: String,
    is_v2: bool,
}

impl Place {
    /// The group's own folder and those above it, up to the mount.
    fn folders(&self) -> Vec<String> {
        let mut folders = Vec::new();
        let mut group = self.group.trim_matches('/');
        loop {
            if group.is_empty() {
                folders.push(self.mount.clone());
                return folders;
            }
            folders.push(format!("{}/{group}", self.mount.trim_end_matches('/')));
            group = group.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
}

/// Reads the control group; calls `unknown` with field and reason for each part that is `None`.
pub(crate) fn read(source: &Source, unknown: &mut dyn FnMut(&str, String)) -> Cgroup {
    let mut keep = |field: &str, reason: String| unknown(&format!("cgroup.{field}"), reason);
    let membership = match source.text("/proc/self/cgroup") {
        Ok(text) => text,
        Err(reason) => {
            for field in ["version", "quota_cpus", "cpuset"] {
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
    let places = |controller| place(source, &membership, controller);
    let quota_cpus = places("cpu").and_then(|place| quota(source, &place));
    let cpuset = places("cpuset").and_then(|place| cpuset(source, &place));
    Cgroup {
        version: version.map(str::to_owned),
        quota_cpus: quota_cpus.map_err(|reason| keep("quota_cpus", reason)).ok(),
        cpuset: cpuset.map_err(|reason| keep("cpuset", reason)).ok(),
    }
}

/// The most processes and threads in the control group, or why there is no such bound.
pub(crate) fn pids_max(source: &Source) -> Fact<u64> {
    let place = place(source, &source.text("/proc/self/cgroup")?, "pids")?;
    least(
        &place,
        "no control group bounds the number of processes",
        |folder| bound(source, folder, "pids.max"),
    )
}

/// The memory that this process's control group and those above it still grant, KiB: of each its limit less what is in
/// use, and the least of these. What files keep in memory and nobody uses counts as free, as it does on the machine.
/// `None` where no group has a limit.
pub(crate) fn memory_left_kib(source: &Source) -> Fact<Option<u64>> {
    let membership = source.text("/proc/self/cgroup");
    let Ok(place) = membership.and_then(|membership| place(source, &membership, "memory")) else {
        // Without the controller there is no limit.
        return Ok(None);
    };
    let [limit, in_use, unused] = if place.is_v2 {
        ["memory.max", "memory.current", "inactive_file"]
    } else {
        // The total: what is in use includes the groups below, too.
        [
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ]
    };
    lowest(&place, |folder| {
        let Some(limit) = bound(source, folder, limit)? else {
            return Ok(None);
        };
        let in_use: u64 = source.value(&format!("{folder}/{in_use}"))?;
        let stat = source.text(&format!("{folder}/memory.stat"));
        let unused = stat.ok().and_then(|stat| of_stat(&stat, unused)).unwrap_or(0);
        let needed = in_use.saturating_sub(unused);
        Ok(Some(limit.saturating_sub(needed) / 1024))
    })
}

/// A limit of one folder: `None` where it has none.
fn bound(source: &Source, folder: &str, file: &str) -> Fact<Option<u64>> {
    match source.word(&format!("{folder}/{file}")).as_deref() {
        // The top of the tree has no such file.
        Ok("max") | Err(_) => Ok(None),
        Ok(number) => number
            .parse()
            .map(Some)
            .map_err(|_| format!("{file} holds {number:?}")),
    }
}

fn place(source: &Source, membership: &str, controller: &str) -> Fact<Place> {
    let mounts = source.text("/proc/self/mountinfo")?;
    find(membership, &mounts, controller)
        .ok_or_else(|| format!("no control group hierarchy with the controller {controller} is mounted"))
}

/// The least of a bound along the group's path; `none` is the reason where no folder has one.
fn least<T: PartialOrd>(place: &Place, none: &str, of: impl Fn(&str) -> Fact<Option<T>>) -> Fact<T> {
    lowest(place, of)?.ok_or_else(|| none.to_owned())
}

/// The least of a bound along the group's path; `None` where no folder has one.
fn lowest<T: PartialOrd>(place: &Place, of: impl Fn(&str) -> Fact<Option<T>>) -> Fact<Option<T>> {
    let mut lowest = None;
    for folder in place.folders() {
        lowest = match (lowest, of(&folder)?) {
            (Some(a), Some(b)) if b < a => Some(b),
            (a, b) => a.or(b),
        };
    }
    Ok(lowest)
}

/// The folder of `controller`: a v1 hierarchy that has it, else the v2 one.
fn find(membership: &str, mounts: &str, controller: &str) -> Option<Place> {
    let mut unified = None;
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers.is_empty() {
            unified = Some(group);
        } else if controllers.split(',').any(|name| name == controller) {
            let (mount, root) = mount_of(mounts, Some(controller))?;
            return Some(Place {
                group: below_root(group, &root),
                mount,
                is_v2: false,
            });
        }
    }
    let (mount, root) = mount_of(mounts, None)?;
    Some(Place {
        group: below_root(unified?, &root),
        mount,
        is_v2: true,
    })
}

/// Mount point and root of the v1 hierarchy with `controller`, or of the v2 one. A line of mountinfo:
/// `36 32 0:33 ROOT MOUNT options … - cgroup source rw,cpu,cpuacct`.
fn mount_of(mounts: &str, controller: Option<&str>) -> Option<(String, String)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split_ascii_whitespace();
        let (kind, options) = (after.next()?, after.nth(1)?);
        let fits = match controller {
            None => kind == "cgroup2",
            Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
        };
        let mut fields = before.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        fits.then(|| (mount.to_owned(), root.to_owned()))
    })
}

/// In a container the mount shows only the part of the tree below `root`.
fn below_root(group: &str, root: &str) -> String {
    let root = root.trim_end_matches('/');
    match group.strip_prefix(root) {
        Some(rest) if (rest.is_empty() || rest.starts_with('/')) && !rest.contains("..") => rest.to_owned(),
        // Outside what is mounted (`/../x`): its folder cannot be seen, the mount's top is what binds.
        _ => String::new(),
    }
}

fn quota(source: &Source, place: &Place) -> Fact<f64> {
    least(place, "no quota is set", |folder| {
        let text = |name: &str| source.text(&format!("{folder}/{name}")).ok();
        // The top of the tree has no such file, and neither has a group without the controller.
        if place.is_v2 {
            return text("cpu.max").map_or(Ok(None), |text| parse_cpu_max(&text));
        }
        match (text("cpu.cfs_quota_us"), text("cpu.cfs_period_us")) {
            (Some(quota), Some(period)) => parse_cfs_quota(&quota, &period),
            _ => Ok(None),
        }
    })
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

/// The open `cpu.stat` of this process's group.
#[derive(Debug)]
pub(crate) struct ThrottleFile(File);

impl ThrottleFile {
    /// `None` where there is no CPU controller.
    pub(crate) fn open(source: &Source) -> Option<ThrottleFile> {
        let membership = source.text("/proc/self/cgroup").ok()?;
        let mounts = source.text("/proc/self/mountinfo").ok()?;
        let place = find(&membership, &mounts, "cpu")?;
        let path = source.path(&format!("{}/cpu.stat", place.folders().first()?));
        let file = ThrottleFile(File::open(path).ok()?);
        file.read(&mut Vec::new()).map(|_| file)
    }

    /// Nanoseconds and periods throttled so far.
    pub(crate) fn read(&self, buffer: &mut Vec<u8>) -> Option<(u64, u64)> {
        parse_cpu_stat(&read_whole(&self.0, buffer).ok()?)
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn throttling_is_nanoseconds_in_both_versions() {
        let v1 = "nr_periods 9\nnr_throttled 3\nthrottled_time 5000\n";
        let v2 = "usage_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec 5\n";
        assert_eq!(parse_cpu_stat(v1), Some((5_000, 3)));
        assert_eq!(parse_cpu_stat(v2), Some((5_000, 3)));
        assert_eq!(parse_cpu_stat("usage_usec 1\n"), None);
        assert_eq!(
            parse_cpu_stat("throttled_usec 18446744073709551615\nnr_throttled 1"),
            None
        );
    }

    const V1: &str =
        "36 32 0:33 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n";
    const V2: &str = "31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";

    #[test]
    fn a_container_sees_its_own_part_of_the_tree_as_the_top() {
        let place = find("4:cpu,cpuacct:/docker/abc/job\n", V1, "cpu").unwrap();
        assert_eq!(
            place.folders(),
            ["/sys/fs/cgroup/cpu,cpuacct/job", "/sys/fs/cgroup/cpu,cpuacct"]
        );
        assert!(!place.is_v2);
    }

    #[test]
    fn every_level_of_the_unified_tree_is_looked_at() {
        let place = find("0::/user.slice/job\n", V2, "cpu").unwrap();
        let folders = [
            "/sys/fs/cgroup/user.slice/job",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup",
        ];
        assert_eq!(place.folders(), folders);
        assert!(place.is_v2);
        assert_eq!(
            find("0::/../outside\n", V2, "cpu").unwrap().folders(),
            ["/sys/fs/cgroup"]
        );
    }

    #[test]
    fn a_v1_controller_is_preferred_where_both_are_mounted() {
        let both = format!("{V1}{V2}");
        assert!(
            !find("4:cpu,cpuacct:/docker/abc\n0::/\n", &both, "cpu")
                .unwrap()
                .is_v2
        );
        assert!(
            find("4:cpu,cpuacct:/docker/abc\n0::/\n", &both, "pids")
                .unwrap()
                .is_v2
        );
        assert_eq!(find("", &both, "cpu"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(a in "[0-9a-z:/ \\-\n,]{0,60}", b in "[0-9a-z:/ \\-\n,]{0,60}") {
            let _ = (parse_cpu_max(&a), parse_cfs_quota(&a, &b), parse_cpu_stat(&a), find(&a, &b, "cpu"));
        }
    }
}
