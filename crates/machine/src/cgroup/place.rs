//! Where the groups of a process lie: the folder of a controller and those above it; cgroup v1, v2 or both at once.

use crate::source::{Fact, Source};

/// From here on a v1 limit is none: what it writes for "no limit" is the largest page count.
const UNLIMITED: u64 = 1 << 62;

/// Where one controller of a process lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    mount: String,
    group: String,
    pub(super) is_v2: bool,
    /// The group lies in what is mounted; else the mount's top stands in for it.
    is_seen: bool,
}

impl Place {
    fn new(group: &str, (mount, root): (String, String), is_v2: bool) -> Place {
        let group = below_root(group, &root);
        Place {
            mount,
            is_v2,
            is_seen: group.is_some(),
            group: group.unwrap_or_default(),
        }
    }

    /// The place of `controller` for the process of this name in `/proc`.
    pub(super) fn of(source: &Source, process: &str, controller: &str) -> Fact<Place> {
        let membership = source.text(&format!("/proc/{process}/cgroup"))?;
        let place = Place::in_membership(source, &membership, controller)?;
        // What is mounted holds this process. Another may be in another container, or at a path that is not known: what
        // was mounted outside of this namespace of groups has the root `/..`.
        if process != "self" && !place.is_seen {
            return Err("its control group is not found in what is mounted here".to_owned());
        }
        Ok(place)
    }

    /// The same for a process that is in these groups.
    pub(super) fn in_membership(source: &Source, membership: &str, controller: &str) -> Fact<Place> {
        let mounts = source.text("/proc/self/mountinfo")?;
        find(membership, &mounts, controller)
            .ok_or_else(|| format!("no control group hierarchy with the controller {controller} is mounted"))
    }

    /// The group's own folder.
    pub(super) fn own_folder(&self) -> String {
        // There is always one.
        self.folders().swap_remove(0)
    }

    /// The group's own folder and those above it, up to the mount.
    pub(super) fn folders(&self) -> Vec<String> {
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

    /// What each folder has of this, own first; nothing of one that has none.
    pub(super) fn each<T>(&self, of: impl Fn(&str) -> Fact<Option<T>>) -> Fact<Vec<T>> {
        let all: Fact<Vec<Option<T>>> = self.folders().iter().map(|folder| of(folder)).collect();
        Ok(all?.into_iter().flatten().collect())
    }

    /// The least of a bound along the group's path; `None` where no folder has one.
    pub(super) fn lowest<T: PartialOrd>(&self, of: impl Fn(&str) -> Fact<Option<T>>) -> Fact<Option<T>> {
        let bounds = self.each(of)?.into_iter();
        Ok(bounds.reduce(|least, next| if next < least { next } else { least }))
    }
}

/// A limit of one folder: `None` where it has none.
pub(super) fn bound(source: &Source, folder: &str, file: &str) -> Fact<Option<u64>> {
    match source.word(&format!("{folder}/{file}")).as_deref() {
        // The top of the tree has no such file.
        Ok("max") | Err(_) => Ok(None),
        Ok(number) => number
            .parse()
            .map(|limit| Some(limit).filter(|limit| *limit < UNLIMITED))
            .map_err(|_| format!("{file} holds {number:?}")),
    }
}

/// The number behind a name in a file of such lines.
pub(super) fn of_stat(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The folder of `controller`: a v1 hierarchy that has it, else the v2 one.
pub(super) fn find(membership: &str, mounts: &str, controller: &str) -> Option<Place> {
    let mut unified = None;
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers.is_empty() {
            unified = Some(group);
        } else if controllers.split(',').any(|name| name == controller) {
            return Some(Place::new(group, mount_of(mounts, Some(controller))?, false));
        }
    }
    Some(Place::new(unified?, mount_of(mounts, None)?, true))
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

/// In a container the mount shows only the part of the tree below `root`. `None` of a group outside that (`/../x`).
fn below_root(group: &str, root: &str) -> Option<String> {
    let rest = group.strip_prefix(root.trim_end_matches('/'))?;
    let is_below = (rest.is_empty() || rest.starts_with('/')) && !rest.contains("..");
    is_below.then(|| rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let other = find("4:cpu,cpuacct:/docker/def\n", V1, "cpu").unwrap();
        assert_eq!(other.folders(), ["/sys/fs/cgroup/cpu,cpuacct"]);
        assert!(place.is_seen && !other.is_seen);
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
}
