//! A control group with a CPU quota, below this process's own: made, entered, left and removed; version 1 or 2.
//!
//! Nothing else of this program changes a control group. The group's name says who made it, so that one which a killed
//! process left behind is found and removed by [`remove_left_groups`], and that of a process which lives is let be.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

use super::place::Place;
use super::quota;
use super::quotas::{QuotaCounts, counts_of};
use crate::source::{SMALL, Source, read_small};
use crate::taskstat::parse_task_stat;

/// The period of every quota: the kernel's default, and that of containers.
pub const QUOTA_PERIOD: Duration = Duration::from_millis(100);

/// What the name of every group begins with; then come the number and the beginning of the process that made it.
const NAME: &str = "threadgauge-quota";
/// Ends the name of a group for which the controller was switched on, in version 2: it is switched off with it.
const SWITCHED_ON: &str = "cpu-on";
/// Says which controllers the groups below have, in version 2.
const CONTROLLERS: &str = "cgroup.subtree_control";
/// Whoever writes a process to it moves that.
const MEMBERS: &str = "cgroup.procs";
/// A process that has ended leaves its group a moment later.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// Why this process cannot have a group with a quota.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// There is no place for one.
    #[error("{0}")]
    NoPlace(String),
    /// A group above grants less than was asked for.
    #[error("the control group above grants {granted} CPUs, and a quota of {asked} was asked for")]
    Less {
        /// CPUs' worth of time.
        asked: f64,
        /// The same.
        granted: f64,
    },
    /// The system refused a step.
    #[error("{what}: {why}")]
    Refused {
        /// Which step, such as `making a control group`.
        what: String,
        /// The system's answer.
        why: io::Error,
    },
}

fn refused(what: impl Into<String>) -> impl FnOnce(io::Error) -> QuotaError {
    let what = what.into();
    move |why| QuotaError::Refused { what, why }
}

/// This process in a control group of its own that has a CPU quota. Dropped, it is where it was and the group is gone.
///
/// All threads of the process are moved, and what it starts is in the group, too. What is still in it when it is
/// dropped keeps the group alive.
#[derive(Debug)]
pub struct UnderQuota {
    source: Source,
    /// Where this process came from.
    above: String,
    group: Group,
    cpus: f64,
    stat: Option<File>,
    has_left: bool,
}

impl UnderQuota {
    /// Makes a group that grants `cpus` CPUs' worth of time in each [`QUOTA_PERIOD`], and moves this process there.
    ///
    /// # Errors
    ///
    /// [`QuotaError`]; nothing is left of it then.
    pub fn enter(cpus: f64) -> Result<Self, QuotaError> {
        Self::enter_in(Source::new(Path::new("/")), cpus)
    }

    fn enter_in(source: Source, cpus: f64) -> Result<Self, QuotaError> {
        let place = Place::of(&source, "self", "cpu").map_err(QuotaError::NoPlace)?;
        if let Some(granted) = quota(&source, &place).ok().filter(|granted| *granted < cpus) {
            return Err(QuotaError::Less { asked: cpus, granted });
        }
        let above = place.own_folder();
        let switches_on = place.is_v2 && !has_cpu(&source, &above)?;
        let name = Name::own(&source, switches_on).map_err(QuotaError::NoPlace)?;
        let group = Group::make(&source, &above, &name)?;
        // From here on what was made is undone by whatever ends this.
        let mut under = Self {
            source,
            above,
            group,
            cpus,
            stat: None,
            has_left: false,
        };
        under.set(&place)?;
        under.write(&under.group.folder, MEMBERS, "0")?;
        let stat = format!("{}/cpu.stat", under.group.folder);
        under.stat = File::open(under.source.path(&stat)).ok();
        Ok(under)
    }

    /// Gives the group its quota.
    fn set(&self, place: &Place) -> Result<(), QuotaError> {
        let period_us = QUOTA_PERIOD.as_micros();
        let quota_us = (self.cpus * period_us as f64).round();
        let folder = &self.group.folder;
        if !place.is_v2 {
            self.write(folder, "cpu.cfs_period_us", &period_us.to_string())?;
            return self.write(folder, "cpu.cfs_quota_us", &quota_us.to_string());
        }
        if self.group.switched_on {
            self.write(&self.above, CONTROLLERS, "+cpu")?;
        }
        // Beside processes of the group above only a threaded one may have them.
        let kind = self.source.word(&format!("{folder}/cgroup.type"));
        if kind.is_ok_and(|kind| kind == "domain invalid") {
            self.write(folder, "cgroup.type", "threaded")?;
        }
        self.write(folder, "cpu.max", &format!("{quota_us} {period_us}"))
    }

    fn write(&self, folder: &str, file: &str, says: &str) -> Result<(), QuotaError> {
        let path = self.source.path(&format!("{folder}/{file}"));
        std::fs::write(path, says).map_err(refused(format!("writing {says} to {file} of a control group")))
    }

    /// What the quota did until now; `None` where the kernel does not count it.
    #[must_use]
    pub fn counts(&self) -> Option<QuotaCounts> {
        let mut buffer = [0; SMALL];
        let text = read_small(self.stat.as_ref()?, &mut buffer).ok()?;
        counts_of(&text, &self.group.folder, self.cpus)
    }

    /// Goes back and removes the group.
    ///
    /// # Errors
    ///
    /// When the system refuses either. A group that is left is removed by [`remove_left_groups`].
    pub fn leave(mut self) -> Result<(), QuotaError> {
        self.go()
    }

    fn go(&mut self) -> Result<(), QuotaError> {
        if std::mem::replace(&mut self.has_left, true) {
            return Ok(());
        }
        self.write(&self.above, MEMBERS, "0")?;
        let removed = self.group.remove(&self.source, &self.above);
        removed.map_err(refused("removing a control group"))
    }
}

impl Drop for UnderQuota {
    fn drop(&mut self) {
        // What it leaves, the next start removes.
        let _ = self.go();
    }
}

/// Removes the groups of processes that ended without doing so, below this process's own group: how many.
///
/// It does nothing where there are none, and nothing to a group that somebody is in.
pub fn remove_left_groups() -> usize {
    remove_left_in(&Source::new(Path::new("/")))
}

fn remove_left_in(source: &Source) -> usize {
    let Ok(place) = Place::of(source, "self", "cpu") else {
        return 0;
    };
    let above = place.own_folder();
    let names = source.names(&above).into_iter();
    let left = names.filter_map(|name| Name::read(&name).filter(|name| !name.lives(source)));
    let groups = left.map(|name| Group::named(&above, &name));
    groups
        .filter(|group| group.remove(source, &above).is_ok())
        .count()
}

/// Whether groups below this one have the controller, in version 2.
fn has_cpu(source: &Source, folder: &str) -> Result<bool, QuotaError> {
    let names = |file: &str| {
        let text = source.text(&format!("{folder}/{file}"));
        text.is_ok_and(|text| text.split_ascii_whitespace().any(|name| name == "cpu"))
    };
    if !names("cgroup.controllers") {
        let says = "this process's control group may not divide its CPU time: it has no controller cpu";
        return Err(QuotaError::NoPlace(says.to_owned()));
    }
    Ok(names(CONTROLLERS))
}

/// A group that was made here.
#[derive(Debug)]
struct Group {
    folder: String,
    switched_on: bool,
}

impl Group {
    fn named(above: &str, name: &Name) -> Self {
        Self {
            folder: format!("{}/{}", above.trim_end_matches('/'), name.text()),
            switched_on: name.switched_on,
        }
    }

    fn make(source: &Source, above: &str, name: &Name) -> Result<Self, QuotaError> {
        let group = Self::named(above, name);
        std::fs::create_dir(source.path(&group.folder)).map_err(refused("making a control group"))?;
        Ok(group)
    }

    /// Removes it, as soon as what has ended in it is gone, and what was switched on for it.
    fn remove(&self, source: &Source, above: &str) -> io::Result<()> {
        let deadline = Instant::now() + LEAVES_WITHIN;
        loop {
            match std::fs::remove_dir(source.path(&self.folder)) {
                Err(why) if why.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(why),
                _ => break,
            }
        }
        // Somebody else's groups may have come to need it.
        let is_alone = || {
            let names = source.names(above);
            !(names.iter()).any(|name| source.path(&format!("{above}/{name}")).is_dir())
        };
        if self.switched_on && is_alone() {
            std::fs::write(source.path(&format!("{above}/{CONTROLLERS}")), "-cpu")?;
        }
        Ok(())
    }
}

/// The name of a group: who made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    pid: i32,
    /// With the number it is one process and no other.
    start_ticks: u64,
    switched_on: bool,
}

impl Name {
    /// Of a group that this process makes.
    fn own(source: &Source, switched_on: bool) -> Result<Self, String> {
        let text = source.text("/proc/self/stat")?;
        let pid = text
            .split_ascii_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok());
        let stat = parse_task_stat(&text);
        let (pid, stat) = pid.zip(stat).ok_or("/proc/self/stat is not what it should be")?;
        Ok(Self {
            pid,
            start_ticks: stat.start_ticks,
            switched_on,
        })
    }

    fn text(self) -> String {
        let Self {
            pid,
            start_ticks,
            switched_on,
        } = self;
        let end = if switched_on {
            format!("-{SWITCHED_ON}")
        } else {
            String::new()
        };
        format!("{NAME}-{pid}-{start_ticks}{end}")
    }

    /// `None` of any other name.
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(NAME)?.strip_prefix('-')?.splitn(3, '-');
        let name = Self {
            pid: parts.next()?.parse().ok()?,
            start_ticks: parts.next()?.parse().ok()?,
            switched_on: parts.next().is_some(),
        };
        (name.text() == text).then_some(name)
    }

    /// Whether who made it is still there.
    fn lives(self, source: &Source) -> bool {
        let text = source.text(&format!("/proc/{}/stat", self.pid)).ok();
        let stat = text.and_then(|text| parse_task_stat(&text));
        stat.is_some_and(|stat| stat.start_ticks == self.start_ticks && !matches!(stat.state, 'Z' | 'X'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str =
        "7 (a) S 1 7 7 0 -1 0 0 0 0 0 11 5 3 1 20 0 4 0 900 0 25 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0";

    /// A copy of a machine on which this process is number 7 and in the group `job`.
    struct Copy(tempfile::TempDir);

    impl Copy {
        fn new(membership: &str, mounts: &str) -> Self {
            let copy = Self(tempfile::tempdir().unwrap());
            copy.write("/proc/self/cgroup", membership);
            copy.write("/proc/self/mountinfo", mounts);
            copy.write("/proc/self/stat", STAT);
            copy
        }

        fn v1() -> Self {
            let mounts = "36 32 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
            let copy = Self::new("4:cpu,cpuacct:/job\n", mounts);
            copy.write("/sys/fs/cgroup/cpu/job/cgroup.procs", "");
            copy
        }

        fn v2(on: &str) -> Self {
            let copy = Self::new(
                "0::/job\n",
                "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup2 cgroup rw\n",
            );
            copy.write("/sys/fs/cgroup/cpu/job/cgroup.controllers", "cpuset cpu io\n");
            copy.write(&format!("/sys/fs/cgroup/cpu/job/{CONTROLLERS}"), on);
            copy
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.source().path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn source(&self) -> Source {
            Source::new(self.0.path())
        }

        fn enter(&self, cpus: f64) -> Result<UnderQuota, QuotaError> {
            UnderQuota::enter_in(self.source(), cpus)
        }

        /// What a file of the group above says, or one of a group below it.
        fn says(&self, file: &str) -> Option<String> {
            self.source().text(&format!("/sys/fs/cgroup/cpu/job/{file}")).ok()
        }

        /// The kernel removes a group's files with it; here somebody must.
        fn empty(&self, name: &str) {
            let folder = self.source().path(&format!("/sys/fs/cgroup/cpu/job/{name}"));
            for file in std::fs::read_dir(folder).unwrap() {
                std::fs::remove_file(file.unwrap().path()).unwrap();
            }
        }

        fn groups(&self) -> Vec<String> {
            let names = self.source().names("/sys/fs/cgroup/cpu/job");
            names.into_iter().filter(|name| name.starts_with(NAME)).collect()
        }
    }

    #[test]
    fn in_version_1_a_group_has_period_and_quota_and_who_leaves_goes_back() {
        let copy = Copy::v1();
        let under = copy.enter(1.5).unwrap();
        let name = "threadgauge-quota-7-900";
        assert_eq!(copy.groups(), [name]);
        let says = |file: &str| copy.says(&format!("{name}/{file}")).unwrap();
        assert_eq!(
            [
                says("cpu.cfs_period_us"),
                says("cpu.cfs_quota_us"),
                says("cgroup.procs")
            ],
            ["100000", "150000", "0"]
        );
        assert!(under.counts().is_none(), "nothing counts here");
        copy.empty(name);
        under.leave().unwrap();
        assert_eq!(copy.says("cgroup.procs").unwrap(), "0");
        assert!(copy.groups().is_empty());
    }

    #[test]
    fn in_version_2_the_controller_is_on_while_the_group_is_there() {
        for (on, name, then) in [
            ("cpuset\n", "threadgauge-quota-7-900-cpu-on", "-cpu"),
            ("cpu\n", "threadgauge-quota-7-900", "cpu\n"),
        ] {
            let copy = Copy::v2(on);
            let under = copy.enter(0.25).unwrap();
            assert_eq!(copy.groups(), [name]);
            assert_eq!(copy.says(&format!("{name}/cpu.max")).unwrap(), "25000 100000");
            let while_there = copy.says(CONTROLLERS).unwrap();
            assert_eq!(while_there == "+cpu", on == "cpuset\n", "{while_there}");
            copy.empty(name);
            under.leave().unwrap();
            assert!(copy.groups().is_empty());
            assert_eq!(copy.says(CONTROLLERS).unwrap(), then);
        }
    }

    #[test]
    fn a_controller_that_others_have_come_to_need_stays_on() {
        let copy = Copy::v2("");
        let under = copy.enter(1.0).unwrap();
        copy.write("/sys/fs/cgroup/cpu/job/other/cpu.max", "max 100000\n");
        copy.empty("threadgauge-quota-7-900-cpu-on");
        under.leave().unwrap();
        assert_eq!(copy.says(CONTROLLERS).unwrap(), "+cpu");
    }

    #[test]
    fn what_cannot_be_says_why_and_leaves_nothing() {
        let none = Copy::new("", "");
        let says = none.enter(1.0).unwrap_err().to_string();
        assert!(says.contains("no control group hierarchy"), "{says}");

        let copy = Copy::v2("");
        copy.write("/sys/fs/cgroup/cpu/job/cgroup.controllers", "memory pids\n");
        let says = copy.enter(1.0).unwrap_err().to_string();
        assert!(says.contains("no controller cpu"), "{says}");

        let copy = Copy::v2("cpu");
        copy.write("/sys/fs/cgroup/cpu/cpu.max", "150000 100000\n");
        let says = copy.enter(2.0).unwrap_err().to_string();
        assert!(
            says.contains("grants 1.5 CPUs") && says.contains("a quota of 2"),
            "{says}"
        );
        assert!(copy.groups().is_empty());
        assert!(copy.enter(1.5).is_ok());
    }

    #[test]
    fn a_step_that_is_refused_undoes_those_before_it() {
        let copy = Copy::v2("cpuset");
        // A folder in the place of the file to write.
        std::fs::remove_file(
            copy.source()
                .path(&format!("/sys/fs/cgroup/cpu/job/{CONTROLLERS}")),
        )
        .unwrap();
        copy.write(&format!("/sys/fs/cgroup/cpu/job/{CONTROLLERS}/x"), "");
        let says = copy.enter(1.0).unwrap_err().to_string();
        assert!(
            says.starts_with("writing +cpu to cgroup.subtree_control"),
            "{says}"
        );
        assert!(copy.groups().is_empty());
    }

    #[test]
    fn only_what_nobody_who_lives_has_made_is_removed() {
        let copy = Copy::v1();
        for (pid, start) in [(8, 900), (9, 901)] {
            let stat = STAT.replacen('7', &pid.to_string(), 1);
            let stat = stat.replacen("900", &start.to_string(), 1);
            copy.write(&format!("/proc/{pid}/stat"), &stat);
        }
        // Gone; alive; its number used again; somebody else's; a name that is none.
        let [gone, alive, again] =
            [(6, 900), (8, 900), (9, 900)].map(|(pid, start)| format!("{NAME}-{pid}-{start}"));
        for name in [&*gone, &alive, &again, "other", "threadgauge-quota-x"] {
            std::fs::create_dir(copy.source().path(&format!("/sys/fs/cgroup/cpu/job/{name}"))).unwrap();
        }
        assert_eq!(remove_left_in(&copy.source()), 2);
        assert_eq!(copy.groups(), [&*alive, "threadgauge-quota-x"]);
        assert_eq!(remove_left_in(&copy.source()), 0);
    }

    #[test]
    fn a_group_of_one_that_was_killed_takes_the_controller_with_it() {
        let copy = Copy::v2("cpu");
        let name = "/sys/fs/cgroup/cpu/job/threadgauge-quota-6-900-cpu-on";
        std::fs::create_dir(copy.source().path(name)).unwrap();
        assert_eq!(remove_left_in(&copy.source()), 1);
        assert_eq!(copy.says(CONTROLLERS).unwrap(), "-cpu");
    }

    proptest! {
        #[test]
        fn a_name_is_read_as_it_was_written(pid in 1.., start_ticks: u64, switched_on: bool) {
            let name = Name { pid, start_ticks, switched_on };
            prop_assert_eq!(Name::read(&name.text()), Some(name));
        }

        #[test]
        fn no_other_name_is_one(text in "[a-z0-9-]{0,40}") {
            let text = format!("{NAME}-{text}");
            let read = Name::read(&text);
            prop_assert!(read.is_none_or(|name| name.text() == text));
        }
    }
}
