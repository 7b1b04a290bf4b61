//! Throttling by a CPU quota, of this process's group or of any above it.
//!
//! A quota that is set on a group is counted in that group's `cpu.stat` alone, whoever of those below it used it up. So
//! the files of all groups up to the top are read.

use super::place::{Place, of_stat};
use crate::source::{Source, read_whole};
use std::fs::File;

/// A `cpu.stat` of either version, or a `cpu.stat.local`, which counts no periods: for how many nanoseconds and in how
/// many periods the group was throttled.
pub fn parse_cpu_stat(text: &str) -> Option<(u64, u64)> {
    let ns =
        of_stat(text, "throttled_time").or_else(|| of_stat(text, "throttled_usec")?.checked_mul(1_000))?;
    Some((ns, of_stat(text, "nr_throttled").unwrap_or(0)))
}

/// The open `cpu.stat` of this process's group and of each above it.
#[derive(Debug, Default)]
pub(crate) struct ThrottleFiles(Vec<File>);

impl ThrottleFiles {
    /// None where there is no CPU controller.
    pub(crate) fn open(source: &Source) -> ThrottleFiles {
        let Ok(place) = Place::of(source, "self", "cpu") else {
            return ThrottleFiles::default();
        };
        let folders = place.folders();
        let of_each = folders.iter().map(|folder| format!("{folder}/cpu.stat"));
        // What stopped this group, whichever group's quota it was: the only trace of one above the top that is seen
        // here.
        let own = folders.first().map(|own| format!("{own}/cpu.stat.local"));
        let files = of_each
            .chain(own)
            .filter_map(|path| File::open(source.path(&path)).ok());
        let counts = |file: &File| read(file, &mut Vec::new()).is_some();
        ThrottleFiles(files.filter(counts).collect())
    }

    /// Nanoseconds throttled so far, added up over groups and CPUs, and periods over groups; `None` where nothing
    /// counts them.
    pub(crate) fn read(&self, buffer: &mut Vec<u8>) -> Option<(u64, u64)> {
        let of_each = self.0.iter().filter_map(|file| read(file, buffer));
        of_each.reduce(|(ns, periods), (more_ns, more)| {
            (ns.saturating_add(more_ns), periods.saturating_add(more))
        })
    }
}

fn read(file: &File, buffer: &mut Vec<u8>) -> Option<(u64, u64)> {
    parse_cpu_stat(&read_whole(file, buffer).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A copy of a machine on which this process is in the group `pod/job`, each group with such a `cpu.stat`.
    struct Groups(tempfile::TempDir);

    impl Groups {
        fn new(membership: &str, mounts: &str) -> Groups {
            let groups = Groups(tempfile::tempdir().unwrap());
            groups.write("/proc/self/cgroup", membership);
            groups.write("/proc/self/mountinfo", mounts);
            groups
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn open(&self) -> ThrottleFiles {
            ThrottleFiles::open(&Source::new(self.0.path()))
        }
    }

    #[test]
    fn the_quota_of_a_group_above_is_counted_there_and_seen() {
        let v1 = Groups::new(
            "4:cpu,cpuacct:/pod/job\n",
            "36 32 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        let v2 = Groups::new(
            "0::/pod/job\n",
            "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup2 cgroup rw,nsdelegate\n",
        );
        for (groups, name, unit) in [(v1, "throttled_time", 1_000), (v2, "throttled_usec", 1)] {
            let stat = |group: &str, periods: u64, us: u64| {
                let text = format!("nr_periods 162\nnr_throttled {periods}\n{name} {}\n", us * unit);
                groups.write(&format!("/sys/fs/cgroup/cpu/{group}/cpu.stat"), &text);
            };
            stat("pod/job", 0, 0);
            stat("pod", 3, 50);
            let files = groups.open();
            let before = files.read(&mut Vec::new()).unwrap();
            stat("pod", 160, 9_050);
            let after = files.read(&mut Vec::new()).unwrap();
            assert_eq!(
                (after.0 - before.0, after.1 - before.1),
                (9_000_000, 157),
                "{name}"
            );
        }
    }

    #[test]
    fn what_a_group_that_cannot_be_seen_did_is_in_the_own_groups_local_file() {
        let container = Groups::new(
            "0::/\n",
            "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw,nsdelegate\n",
        );
        container.write(
            "/sys/fs/cgroup/cpu.stat",
            "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
        );
        container.write("/sys/fs/cgroup/cpu.stat.local", "throttled_usec 0\n");
        let files = container.open();
        assert_eq!(files.read(&mut Vec::new()), Some((0, 0)));
        container.write("/sys/fs/cgroup/cpu.stat.local", "throttled_usec 7\n");
        assert_eq!(files.read(&mut Vec::new()), Some((7_000, 0)));
        let none = Groups::new("0::/\n", "");
        assert_eq!(none.open().read(&mut Vec::new()), None);
    }
}
