//! The CPU quotas that hold a process back: of its own control group and of each above it, with what each has
//! throttled.
//!
//! Unlike [`ThrottleFiles`](super::ThrottleFiles), which add up, each group is told by itself, and the process may be
//! any. The time that version 1 and version 2 count is added up over CPUs, so that it may exceed the time that went
//! by.

use super::place::{Place, of_stat};
use super::{parse_cpu_stat, quota_of};
use crate::source::{Fact, SMALL, Source, read_small};
use serde::{Deserialize, Serialize};
use std::fs::File;

/// What a group's quota did until now.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct QuotaCounts {
    /// The group's folder.
    pub group: String,
    /// How many CPUs' worth of time it grants.
    pub cpus: f64,
    /// Periods in which something of the group was there to run.
    pub periods: u64,
    /// Periods in which the quota was used up.
    pub throttled_periods: u64,
    /// For how long, added up over CPUs.
    pub throttled_ns: u64,
}

/// The open `cpu.stat` of every group with a quota that processes of a program are in.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    groups: Vec<Group>,
    has_any: bool,
}

#[derive(Debug)]
struct Group {
    folder: String,
    cpus: f64,
    /// The first process that was taken in is in it, and so is all of the program, or was when it was started.
    holds_all: bool,
    stat: File,
}

impl Quotas {
    /// Takes the groups of a process in, those that are not known yet; or says why they cannot be seen.
    pub(crate) fn add(&mut self, source: &Source, pid: i32) -> Fact<()> {
        let is_first = !std::mem::replace(&mut self.has_any, true);
        let place = Place::of(source, &pid.to_string(), "cpu")?;
        for folder in place.folders() {
            if self.groups.iter().any(|group| group.folder == folder) {
                continue;
            }
            let Ok(Some(cpus)) = quota_of(source, &place, &folder) else {
                continue;
            };
            if let Ok(stat) = File::open(source.path(&format!("{folder}/cpu.stat"))) {
                self.groups.push(Group {
                    folder,
                    cpus,
                    holds_all: is_first,
                    stat,
                });
            }
        }
        Ok(())
    }

    /// The least of those that hold back the first process that was taken in, and with it all; `None` without any.
    pub(crate) fn least_cpus(&self) -> Option<f64> {
        let of_all = self.groups.iter().filter(|group| group.holds_all);
        of_all.map(|group| group.cpus).reduce(f64::min)
    }

    /// What each has done until now; one that cannot be read any more is left out.
    pub(crate) fn read(&self, buffer: &mut [u8; SMALL]) -> Vec<QuotaCounts> {
        let mut counts = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let Ok(text) = read_small(&group.stat, buffer) else {
                continue;
            };
            counts.extend(counts_of(&text, &group.folder, group.cpus));
        }
        counts
    }
}

/// What a `cpu.stat` says of a group; `None` where it counts no throttling.
pub(super) fn counts_of(text: &str, folder: &str, cpus: f64) -> Option<QuotaCounts> {
    let (throttled_ns, throttled_periods) = parse_cpu_stat(text)?;
    Some(QuotaCounts {
        group: folder.to_owned(),
        cpus,
        periods: of_stat(text, "nr_periods").unwrap_or(0),
        throttled_periods,
        throttled_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Source) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let source = Source::new(root.path());
        (root, source)
    }

    #[test]
    fn each_group_with_a_quota_on_the_way_up_is_told_by_itself_in_both_versions() {
        let v1 = machine(&[
            ("proc/7/cgroup", "4:cpu,cpuacct:/pod/job\n"),
            (
                "proc/self/mountinfo",
                "36 32 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
            ),
            ("sys/fs/cgroup/cpu/pod/job/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/pod/job/cpu.cfs_period_us", "100000\n"),
            (
                "sys/fs/cgroup/cpu/pod/job/cpu.stat",
                "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
            ),
            ("sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu/pod/cpu.cfs_period_us", "100000\n"),
            (
                "sys/fs/cgroup/cpu/pod/cpu.stat",
                "nr_periods 9\nnr_throttled 3\nthrottled_time 5000\n",
            ),
        ]);
        let v2 = machine(&[
            ("proc/7/cgroup", "0::/pod/job\n"),
            (
                "proc/self/mountinfo",
                "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup2 cgroup rw\n",
            ),
            ("sys/fs/cgroup/cpu/pod/job/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/cpu/pod/cpu.max", "150000 100000\n"),
            (
                "sys/fs/cgroup/cpu/pod/cpu.stat",
                "usage_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec 5\n",
            ),
        ]);
        for (_root, source) in [&v1, &v2] {
            let mut quotas = Quotas::default();
            quotas.add(source, 7).unwrap();
            quotas.add(source, 7).unwrap();
            let expected = QuotaCounts {
                group: "/sys/fs/cgroup/cpu/pod".to_owned(),
                cpus: 1.5,
                periods: 9,
                throttled_periods: 3,
                throttled_ns: 5_000,
            };
            assert_eq!(quotas.read(&mut [0; SMALL]), [expected]);
            assert_eq!(quotas.least_cpus(), Some(1.5));
        }
    }

    #[test]
    fn a_quota_of_a_single_process_is_told_and_holds_back_that_one_alone() {
        let (_root, source) = machine(&[
            ("proc/7/cgroup", "0::/\n"),
            ("proc/8/cgroup", "0::/job\n"),
            (
                "proc/self/mountinfo",
                "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup2 cgroup rw\n",
            ),
            ("sys/fs/cgroup/cpu/job/cpu.max", "50000 100000\n"),
            (
                "sys/fs/cgroup/cpu/job/cpu.stat",
                "nr_periods 9\nnr_throttled 3\nthrottled_usec 5\n",
            ),
        ]);
        let mut quotas = Quotas::default();
        quotas.add(&source, 7).unwrap();
        quotas.add(&source, 8).unwrap();
        assert_eq!(
            (quotas.read(&mut [0; SMALL]).len(), quotas.least_cpus()),
            (1, None)
        );
    }

    #[test]
    fn without_control_groups_there_is_no_quota() {
        let (_root, source) = machine(&[]);
        let mut quotas = Quotas::default();
        assert!(quotas.add(&source, 7).is_err());
        assert_eq!(
            (quotas.read(&mut [0; SMALL]), quotas.least_cpus()),
            (Vec::new(), None)
        );
    }

    #[test]
    fn the_quota_of_the_own_container_is_none_of_a_process_in_another() {
        // By the namespace of groups, and by what of them is mounted. Where that begins above the namespace, which
        // group of it this one is cannot be told.
        for (group, root) in [("/../def", "/"), ("/docker/def", "/docker/abc"), ("/", "/../..")] {
            let mount = format!("31 23 0:28 {root} /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
            let (_root, source) = machine(&[
                ("proc/7/cgroup", &format!("0::{group}\n")),
                ("proc/self/mountinfo", &mount),
                ("sys/fs/cgroup/cpu.max", "50000 100000\n"),
                (
                    "sys/fs/cgroup/cpu.stat",
                    "nr_periods 9\nnr_throttled 3\nthrottled_usec 5\n",
                ),
            ]);
            let mut quotas = Quotas::default();
            let why = quotas.add(&source, 7).unwrap_err();
            assert!(why.contains("is not found in what is mounted here"), "{why}");
            assert_eq!(
                (quotas.read(&mut [0; SMALL]), quotas.least_cpus()),
                (Vec::new(), None)
            );
        }
    }
}
