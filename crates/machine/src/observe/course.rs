//! Looks put together: where the time of threads went, by thread, by group of threads and in all, over the whole time
//! and from look to look.
//!
//! A thread runs, wants a CPU, or waits. The first two the kernel counts to the nanosecond (without `schedstat` the
//! second is told by how often it was seen ready); the rest of its time it has waited, and for what is told by the
//! states it was seen in. Pure arithmetic: looks come in order, from wherever.

use std::collections::BTreeMap;

use super::look::{Look, Seen, ThreadKey, ThreadLook};
use super::wait::WaitKind;
use crate::cgroup::QuotaCounts;
use crate::taskstat::IoCounts;
use crate::usage::Switches;

/// Intervals that are kept; of a longer course two neighbours are made one, as often as is needed.
const MOST_INTERVALS: usize = 3_600;
/// Groups that are told apart; the threads of others are one group.
const MOST_GROUPS: usize = 64;
/// Threads that are kept by themselves, ended ones too. The time of others is in their group's.
const MOST_THREADS: usize = 16_384;
/// A thread that was seen so often, and always ready to run, was so all the time.
const SURELY: u32 = 4;
/// Where there are too many groups.
const REST: &str = "(others)";

/// Where the time of threads went, in nanoseconds of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Amounts {
    /// How long they existed, added up.
    pub existed_ns: f64,
    /// On a CPU.
    pub ran_ns: f64,
    /// Ready to run, and without a CPU.
    pub wanted_ns: f64,
    /// Waiting, by [`WaitKind::index`].
    pub waits_ns: [f64; WaitKind::COUNT],
    /// How often they were given a CPU; nought where the kernel does not count it.
    pub slices: f64,
    /// Their switches by kind, up to when they were read last: not at each look. `None` where they were never read.
    pub switches: Option<Switches>,
}

impl Amounts {
    /// Adds those of others.
    pub fn add(&mut self, other: &Self) {
        self.existed_ns += other.existed_ns;
        self.ran_ns += other.ran_ns;
        self.wanted_ns += other.wanted_ns;
        for (sum, more) in self.waits_ns.iter_mut().zip(other.waits_ns) {
            *sum += more;
        }
        self.slices += other.slices;
        self.switches = match (self.switches, other.switches) {
            (Some(switches), Some(more)) => Some(switches + more),
            (one, other) => one.or(other),
        };
    }

    /// Waiting for anything but a CPU.
    #[must_use]
    pub fn waited_ns(&self) -> f64 {
        self.waits_ns.iter().sum()
    }

    /// Waiting for this.
    #[must_use]
    pub fn of(&self, kind: WaitKind) -> f64 {
        self.waits_ns[kind.index()]
    }

    /// A part of the time that they existed, from 0 to 1; 0 where they did not.
    #[must_use]
    pub fn share(&self, part_ns: f64) -> f64 {
        match self.existed_ns > 0.0 {
            true => part_ns / self.existed_ns,
            false => 0.0,
        }
    }

    /// What is waited for, with its time, the longest first, without what is not.
    #[must_use]
    pub fn longest_waits(&self) -> Vec<(WaitKind, f64)> {
        let all = WaitKind::ALL.into_iter().map(|kind| (kind, self.of(kind)));
        let mut all: Vec<(WaitKind, f64)> = all.filter(|(_, ns)| *ns > 0.0).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }
}

/// Between two looks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Interval {
    /// Its begin and its end, by `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// As above.
    pub to_ns: u64,
    /// CPU time of all, that of threads that ended in it too.
    pub cpu_ns: f64,
    /// Of the threads that were there at its end.
    pub amounts: Amounts,
    /// The same by group: its place in [`Course::groups`].
    pub by_group: Vec<(usize, Amounts)>,
    /// Processes at its end.
    pub processes: usize,
    /// Threads at its end.
    pub threads: usize,
    /// Resident memory at its end.
    pub rss_kib: u64,
    /// Proportional memory at its end.
    pub pss_kib: Option<u64>,
    /// What was read and written in it.
    pub io: Option<IoCounts>,
    /// CPU time of all programs of the machine.
    pub machine_ns: Option<u64>,
    /// Periods in it that a quota had used up, of the quota with the most of them.
    pub throttled_periods: u64,
    /// CPU time that observing took.
    pub own_cpu_ns: u64,
}

impl Interval {
    /// How long it was.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// How many CPUs the program kept busy.
    #[must_use]
    pub fn cpus(&self) -> f64 {
        self.cpu_ns / self.length_ns().max(1) as f64
    }

    /// Goes on with the interval that follows.
    fn extend(&mut self, next: Self) {
        self.cpu_ns += next.cpu_ns;
        self.amounts.add(&next.amounts);
        for (group, amounts) in next.by_group {
            match self.by_group.iter_mut().find(|(known, _)| *known == group) {
                Some((_, sum)) => sum.add(&amounts),
                None => self.by_group.push((group, amounts)),
            }
        }
        self.io = self.io.zip(next.io).map(|(a, b)| a.plus(b));
        self.machine_ns = self.machine_ns.zip(next.machine_ns).map(|(a, b)| a + b);
        self.throttled_periods += next.throttled_periods;
        self.own_cpu_ns += next.own_cpu_ns;
        self.to_ns = next.to_ns;
        self.processes = next.processes;
        self.threads = next.threads;
        self.rss_kib = next.rss_kib;
        self.pss_kib = next.pss_kib;
    }
}

/// Threads of one name, the digits at its end left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Such as `worker-*`; the whole name as long as all have the same.
    pub name: String,
    /// Threads at the last look.
    pub threads: usize,
    /// The most that there were at a look.
    pub most_threads: usize,
    /// The most that were given a CPU between two looks.
    pub most_used: usize,
    /// Where the time of all went.
    pub amounts: Amounts,
}

/// A thread, over the time for which it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracked {
    /// Its name at the last look.
    pub name: String,
    /// The place of its group in [`Course::groups`].
    pub group: usize,
    /// Where its time went.
    pub amounts: Amounts,
    /// Whether it had gone at the last look.
    pub has_ended: bool,
    /// The CPU that it was on last.
    pub cpu: Option<usize>,
    /// As they were when they were read last.
    switches: Option<Switches>,
    last: Counted,
    /// Of waits for a CPU what is told already, and the kernel will count once they are over.
    told_ns: f64,
    seen: Seen,
}

impl Tracked {
    /// Whether it was never given a CPU, as far as the kernel counts.
    #[must_use]
    pub fn never_ran(&self) -> bool {
        self.amounts.slices == 0.0 && self.amounts.ran_ns == 0.0
    }
}

/// What was counted of a thread at a look.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Counted {
    at_ns: u64,
    ran_ns: u64,
    waited_ns: Option<u64>,
    slices: Option<u64>,
}

/// What a quota did while it was observed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuotaSpan {
    /// The group's folder.
    pub group: String,
    /// How many CPUs' worth of time it grants.
    pub cpus: f64,
    /// Periods in which something of the group was there to run.
    pub periods: u64,
    /// Periods in which it was used up.
    pub throttled_periods: u64,
    /// For how long, added up over CPUs.
    pub throttled_ns: u64,
}

impl QuotaSpan {
    /// The share of its periods in which it was used up.
    #[must_use]
    pub fn throttled(&self) -> f64 {
        self.throttled_periods as f64 / self.periods.max(1) as f64
    }
}

/// A program from the first look to the last.
#[derive(Debug, Clone, Default)]
pub struct Course {
    first_ns: Option<u64>,
    last_ns: u64,
    looks: usize,
    threads: BTreeMap<ThreadKey, Tracked>,
    groups: Vec<Group>,
    by_name: BTreeMap<String, usize>,
    intervals: Vec<Interval>,
    quotas: BTreeMap<String, (QuotaCounts, QuotaCounts)>,
    last: Option<Look>,
    amounts: Amounts,
    has_slices: bool,
}

impl Course {
    /// Adds a look that comes after all that were added.
    pub fn add(&mut self, mut look: Look) {
        let threads = std::mem::take(&mut look.threads);
        let first_ns = *self.first_ns.get_or_insert(look.at_ns);
        let is_first = self.looks == 0;
        let mut interval = Interval {
            from_ns: self.last_ns,
            to_ns: look.at_ns,
            processes: look.processes,
            threads: threads.len(),
            rss_kib: look.rss_kib,
            pss_kib: look.pss_kib,
            ..Interval::default()
        };
        for tracked in self.threads.values_mut() {
            tracked.has_ended = true;
        }
        let mut now: BTreeMap<usize, Now> = BTreeMap::new();
        for thread in threads {
            let group = self.group(&thread.name);
            let amounts = self.take(thread, group, look.at_ns, first_ns);
            let of_group = now.entry(group).or_default();
            of_group.threads += 1;
            of_group.used += usize::from(amounts.slices > 0.0 || amounts.ran_ns > 0.0);
            of_group.amounts.add(&amounts);
        }
        if self.threads.len() > MOST_THREADS {
            self.threads.retain(|_, tracked| !tracked.has_ended);
        }
        for group in &mut self.groups {
            group.threads = 0;
        }
        for (place, of_group) in now {
            let group = &mut self.groups[place];
            group.threads = of_group.threads;
            group.most_threads = group.most_threads.max(of_group.threads);
            group.most_used = group.most_used.max(of_group.used);
            group.amounts.add(&of_group.amounts);
            interval.amounts.add(&of_group.amounts);
            interval.by_group.push((place, of_group.amounts));
        }
        let throttled = look.quotas.iter().map(|quota| self.quota(quota));
        interval.throttled_periods = throttled.max().unwrap_or(0);
        if let Some(before) = &self.last {
            let ticked = look.cpu_ns.saturating_sub(before.cpu_ns) as f64;
            interval.cpu_ns = known_cpu(interval.amounts.ran_ns, ticked, look.processes);
            interval.io = look.io.zip(before.io).map(|(now, before)| now.since(before));
            let machine = look.machine_ns.zip(before.machine_ns);
            interval.machine_ns = machine.map(|(now, before)| now.saturating_sub(before));
            interval.own_cpu_ns = look.own_cpu_ns.saturating_sub(before.own_cpu_ns);
        }
        self.amounts.add(&interval.amounts);
        if !is_first {
            self.keep(interval);
        }
        self.looks += 1;
        self.last_ns = look.at_ns;
        self.last = Some(look);
    }

    /// How many looks there were.
    #[must_use]
    pub fn looks(&self) -> usize {
        self.looks
    }

    /// From the first look to the last.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns.unwrap_or(self.last_ns))
    }

    /// From look to look, in order.
    #[must_use]
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The last look, without its threads.
    #[must_use]
    pub fn last(&self) -> Option<&Look> {
        self.last.as_ref()
    }

    /// Where the time of all threads went.
    #[must_use]
    pub fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    /// CPU time of the program, with that of threads and processes that came and went between two looks.
    #[must_use]
    pub fn cpu_ns(&self) -> f64 {
        let ticked = self.last.as_ref().map_or(0.0, |look| look.cpu_ns as f64);
        let processes = self.last.as_ref().map_or(0, |look| look.processes);
        known_cpu(self.amounts.ran_ns, ticked, processes)
    }

    /// How many CPUs it kept busy.
    #[must_use]
    pub fn cpus(&self) -> f64 {
        self.per_ns(self.cpu_ns())
    }

    /// How many CPUs all programs of the machine kept busy; `None` where that was not counted.
    #[must_use]
    pub fn machine_cpus(&self) -> Option<f64> {
        let all: Option<u64> = self.intervals.iter().map(|interval| interval.machine_ns).sum();
        all.filter(|_| !self.intervals.is_empty())
            .map(|ns| self.per_ns(ns as f64))
    }

    /// The share of a CPU that observing took, from the first look on.
    #[must_use]
    pub fn own_share(&self) -> f64 {
        let own: u64 = self.intervals.iter().map(|interval| interval.own_cpu_ns).sum();
        self.per_ns(own as f64)
    }

    /// An amount of time for each nanosecond that went by: so many threads or CPUs on average.
    #[must_use]
    pub fn per_ns(&self, amount_ns: f64) -> f64 {
        match self.elapsed_ns() {
            0 => 0.0,
            elapsed => amount_ns / elapsed as f64,
        }
    }

    /// The groups, in the order in which they were found.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The threads, those that have ended too, as far as they are kept.
    pub fn threads(&self) -> impl Iterator<Item = (&ThreadKey, &Tracked)> {
        self.threads.iter()
    }

    /// What each quota did.
    #[must_use]
    pub fn quotas(&self) -> Vec<QuotaSpan> {
        let all = self.quotas.values().map(|(first, last)| QuotaSpan {
            group: last.group.clone(),
            cpus: last.cpus,
            periods: last.periods.saturating_sub(first.periods),
            throttled_periods: last.throttled_periods.saturating_sub(first.throttled_periods),
            throttled_ns: last.throttled_ns.saturating_sub(first.throttled_ns),
        });
        all.collect()
    }

    /// What was read and written in all; `None` where it was not counted all the time.
    #[must_use]
    pub fn io(&self) -> Option<IoCounts> {
        let mut all = self.intervals.iter().map(|interval| interval.io);
        all.try_fold(IoCounts::default(), |sum, io| Some(sum.plus(io?)))
    }

    /// Whether the kernel counts how often threads are given a CPU.
    #[must_use]
    pub fn has_slices(&self) -> bool {
        self.has_slices
    }

    /// The place of the group that threads of this name belong to.
    fn group(&mut self, name: &str) -> usize {
        let folded = folded(name);
        if let Some(place) = self.by_name.get(&folded) {
            let known = &mut self.groups[*place].name;
            if known != name {
                *known = folded;
            }
            return *place;
        }
        let (folded, name) = match self.groups.len() < MOST_GROUPS {
            true => (folded, name),
            false => (REST.to_owned(), REST),
        };
        let place = *self.by_name.entry(folded).or_insert(self.groups.len());
        if place == self.groups.len() {
            self.groups.push(Group {
                name: name.to_owned(),
                ..Group::default()
            });
        }
        place
    }

    /// What a thread did since the look before, or since its start.
    fn take(&mut self, look: ThreadLook, group: usize, at_ns: u64, first_ns: u64) -> Amounts {
        let now = Counted {
            at_ns,
            ran_ns: look.ran_ns,
            waited_ns: look.waited_ns,
            slices: look.slices,
        };
        self.has_slices |= look.slices.is_some();
        let observed_ns = at_ns.saturating_sub(first_ns);
        // One that has begun since the first look is known from its begin, another one from now on.
        let begins = || {
            let is_new = look.age_ns < observed_ns;
            let begin = Counted {
                at_ns: at_ns - look.age_ns.min(at_ns),
                waited_ns: now.waited_ns.map(|_| 0),
                slices: now.slices.map(|_| 0),
                ran_ns: 0,
            };
            Tracked {
                name: String::new(),
                group,
                amounts: Amounts::default(),
                has_ended: false,
                cpu: None,
                switches: is_new.then(Switches::default),
                last: if is_new { begin } else { now },
                told_ns: 0.0,
                seen: Seen::default(),
            }
        };
        let tracked = self.threads.entry(look.key).or_insert_with(begins);
        let before = tracked.last;
        let since = |now: Option<u64>, before: Option<u64>| {
            now.zip(before)
                .map(|(now, before)| now.saturating_sub(before) as f64)
        };
        let wanted_ns = since(now.waited_ns, before.waited_ns);
        let mut amounts = split(
            now.at_ns.saturating_sub(before.at_ns) as f64,
            now.ran_ns.saturating_sub(before.ran_ns) as f64,
            wanted_ns.map(|ns| (ns - tracked.told_ns).max(0.0)),
            &look.seen,
            &tracked.seen,
        );
        tracked.told_ns = (tracked.told_ns + amounts.wanted_ns - wanted_ns.unwrap_or(0.0)).max(0.0);
        amounts.slices = since(now.slices, before.slices).unwrap_or(0.0);
        amounts.switches = look.switches.map(|now| now - tracked.switches.unwrap_or(now));
        tracked.amounts.add(&amounts);
        for (sum, more) in tracked.seen.waits.iter_mut().zip(look.seen.waits) {
            *sum = sum.saturating_add(more);
        }
        tracked.name = look.name;
        tracked.group = group;
        tracked.has_ended = false;
        tracked.cpu = look.cpu;
        tracked.switches = look.switches.or(tracked.switches);
        tracked.last = now;
        amounts
    }

    /// Periods that this quota had used up since the look before.
    fn quota(&mut self, now: &QuotaCounts) -> u64 {
        let begin = || (now.clone(), now.clone());
        let (_, last) = self.quotas.entry(now.group.clone()).or_insert_with(begin);
        let throttled = now.throttled_periods.saturating_sub(last.throttled_periods);
        *last = now.clone();
        throttled
    }

    fn keep(&mut self, interval: Interval) {
        self.intervals.push(interval);
        if self.intervals.len() > MOST_INTERVALS {
            let mut halved: Vec<Interval> = Vec::with_capacity(MOST_INTERVALS);
            for (i, interval) in std::mem::take(&mut self.intervals).into_iter().enumerate() {
                match halved.last_mut() {
                    Some(before) if i % 2 == 1 => before.extend(interval),
                    _ => halved.push(interval),
                }
            }
            self.intervals = halved;
        }
    }
}

/// A group at one look.
#[derive(Default)]
struct Now {
    threads: usize,
    used: usize,
    amounts: Amounts,
}

/// The name of a thread without the number at its end: `worker-12` and `worker-3` are `worker-*`.
#[must_use]
pub fn folded(name: &str) -> String {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match stem.len() < name.len() && !stem.is_empty() {
        true => format!("{stem}*"),
        false => name.to_owned(),
    }
}

/// CPU time by what threads counted and by what their processes did. The latter has the time of threads that ended
/// between two looks, but is exact to a tick a process: it counts where it is more than that above the former.
fn known_cpu(counted_ns: f64, ticked_ns: f64, processes: usize) -> f64 {
    const TICK_NS: f64 = 10e6;
    match ticked_ns - counted_ns > 2.0 * TICK_NS * processes.max(1) as f64 {
        true => ticked_ns,
        false => counted_ns,
    }
}

/// Where the time of a thread went that existed for so long, ran for so long, and wanted a CPU for so long as far as
/// that is counted; by the states in which it was seen meanwhile, or before where it was not seen waiting meanwhile.
fn split(existed_ns: f64, ran_ns: f64, wanted_ns: Option<f64>, seen: &Seen, before: &Seen) -> Amounts {
    let ran_ns = ran_ns.min(existed_ns);
    let rest_ns = existed_ns - ran_ns;
    let (runnable, waiting) = (f64::from(seen.runnable), f64::from(seen.waiting()));
    let stood_ready = waiting == 0.0 && (seen.runnable >= SURELY || (ran_ns == 0.0 && runnable > 0.0));
    let wanted_ns = match wanted_ns {
        // The kernel counts a wait for a CPU when it is over. This one goes on.
        Some(_) if stood_ready => rest_ns,
        Some(wanted_ns) => wanted_ns.min(rest_ns),
        None if runnable > 0.0 => (runnable / (runnable + waiting) * existed_ns - ran_ns).clamp(0.0, rest_ns),
        None => 0.0,
    };
    let asleep_ns = rest_ns - wanted_ns;
    let mut waits_ns = [0.0; WaitKind::COUNT];
    let by = if waiting > 0.0 { seen } else { before };
    match by.waiting() {
        0 => waits_ns[WaitKind::Unknown.index()] = asleep_ns,
        all => {
            for (ns, count) in waits_ns.iter_mut().zip(by.waits) {
                *ns = asleep_ns * f64::from(count) / f64::from(all);
            }
        }
    }
    Amounts {
        existed_ns,
        ran_ns,
        wanted_ns,
        waits_ns,
        slices: 0.0,
        switches: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SECOND_NS, look, seen, thread};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_at_the_end_of_a_name_are_folded() {
        let of = ["worker-12", "worker-3", "GC Thread#1", "main", "42", "a1b", ""].map(folded);
        assert_eq!(
            of,
            ["worker-*", "worker-*", "GC Thread#*", "main", "42", "a1b", ""]
        );
    }

    #[test]
    fn time_is_split_by_what_the_kernel_counts_and_what_was_seen() {
        let none = Seen::default();
        let split = |ran, wanted, seen: Seen, before: Seen| {
            let of = split(100.0, ran, wanted, &seen, &before);
            (of.ran_ns, of.wanted_ns, of.longest_waits())
        };
        let half_and_half = seen(2, &[(WaitKind::Futex, 3), (WaitKind::Read, 1)]);
        let waits = vec![(WaitKind::Futex, 45.0), (WaitKind::Read, 15.0)];
        assert_eq!(split(30.0, Some(10.0), half_and_half, none), (30.0, 10.0, waits));
        // Not seen waiting meanwhile: as before, and where it never was it is not known.
        let polls = seen(0, &[(WaitKind::Poll, 7)]);
        assert_eq!(
            split(90.0, Some(0.0), none, polls),
            (90.0, 0.0, vec![(WaitKind::Poll, 10.0)])
        );
        assert_eq!(
            split(90.0, Some(0.0), none, none),
            (90.0, 0.0, vec![(WaitKind::Unknown, 10.0)])
        );
        // It stood there ready all the time, which the kernel counts later.
        assert_eq!(
            split(0.0, Some(0.0), seen(3, &[]), polls),
            (0.0, 100.0, Vec::new())
        );
        assert_eq!(
            split(20.0, Some(5.0), seen(SURELY, &[]), polls),
            (20.0, 80.0, Vec::new())
        );
        // Seen so a few times it may have been chance.
        assert_eq!(
            split(20.0, Some(5.0), seen(SURELY - 1, &[]), polls),
            (20.0, 5.0, vec![(WaitKind::Poll, 75.0)])
        );
        // Later that is more than went by.
        assert_eq!(split(10.0, Some(500.0), none, none), (10.0, 90.0, Vec::new()));
        assert_eq!(split(130.0, Some(0.0), none, none), (100.0, 0.0, Vec::new()));
        // Where the kernel does not count it, it is told by what was seen.
        let ready = seen(3, &[(WaitKind::Futex, 1)]);
        assert_eq!(
            split(25.0, None, ready, none),
            (25.0, 50.0, vec![(WaitKind::Futex, 25.0)])
        );
    }

    #[test]
    fn a_course_is_told_by_thread_by_group_and_in_all() {
        let mut course = Course::default();
        let futex = seen(0, &[(WaitKind::Futex, 1)]);
        for at in 0..=4 {
            let busy = thread(1, "worker-1", at * 900_000_000, at * 100_000_000, at * 7);
            let mut idle = thread(2, "worker-2", 0, 0, 0);
            idle.seen = futex;
            let main = thread(3, "python3", at * 500_000_000, 0, at);
            course.add(look(at, vec![busy, idle, main]));
        }
        assert_eq!((course.looks(), course.elapsed_ns()), (5, 4 * SECOND_NS));
        assert!((course.cpus() - 1.4).abs() < 1e-9, "{}", course.cpus());
        let [workers, main] = course.groups() else {
            panic!("{:?}", course.groups())
        };
        assert_eq!(
            (&*workers.name, workers.threads, workers.most_used),
            ("worker-*", 2, 1)
        );
        assert_eq!((&*main.name, main.most_threads), ("python3", 1));
        let shares = |amounts: &Amounts| [amounts.ran_ns, amounts.wanted_ns].map(|ns| amounts.share(ns));
        let close = |a: [f64; 2], b: [f64; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close(shares(&workers.amounts), [0.45, 0.05]), "{workers:?}");
        assert!(close(shares(course.amounts()), [1.4 / 3.0, 0.1 / 3.0]));
        let never: Vec<&str> = course
            .threads()
            .filter(|(_, thread)| thread.never_ran())
            .map(|(_, thread)| &*thread.name)
            .collect();
        assert_eq!(never, ["worker-2"]);
        let idle = course.threads().find(|(key, _)| key.tid == 2).unwrap().1;
        assert_eq!(
            idle.amounts.longest_waits(),
            [(WaitKind::Futex, 4.0 * SECOND_NS as f64)]
        );
        assert_eq!(course.intervals().len(), 4);
        assert!((course.intervals()[0].cpus() - 1.4).abs() < 1e-9);
    }

    #[test]
    fn switches_are_told_by_kind_from_the_first_time_that_they_are_read() {
        let mut course = Course::default();
        for at in 0..=3 {
            let switching = |tid, name, switches| ThreadLook {
                switches,
                ..thread(tid, name, 0, 0, 0)
            };
            let by = |voluntary, involuntary| {
                Some(Switches {
                    voluntary,
                    involuntary,
                })
            };
            // What it did before is of before; of the second nothing is known at the first looks.
            let first = switching(1, "worker-1", by(100 + 5 * at, at));
            let second = switching(2, "worker-2", by(70 + at, 7).filter(|_| at >= 2));
            let mut new = switching(3, "new", by(4 * at, 1));
            new.age_ns = SECOND_NS / 2;
            let hidden = switching(4, "hidden", None);
            let there = [Some(first), Some(second), Some(hidden), (at == 3).then_some(new)];
            course.add(look(at, there.into_iter().flatten().collect()));
        }
        let by_kind = |amounts: &Amounts| amounts.switches.map(|of| (of.voluntary, of.involuntary));
        let groups: Vec<_> = course
            .groups()
            .iter()
            .map(|group| (&*group.name, by_kind(&group.amounts)))
            .collect();
        assert_eq!(
            groups,
            [
                ("worker-*", Some((16, 3))),
                ("hidden", None),
                ("new", Some((12, 1)))
            ]
        );
        assert_eq!(by_kind(course.amounts()), Some((28, 4)));
        let of = |tid: i32| course.threads().find(|(key, _)| key.tid == tid).unwrap().1;
        assert_eq!(
            [1, 2, 4].map(|tid| by_kind(&of(tid).amounts)),
            [Some((15, 3)), Some((1, 0)), None]
        );
    }

    #[test]
    fn a_wait_for_a_cpu_that_goes_on_is_told_and_not_again_once_it_is_counted() {
        let mut course = Course::default();
        let futex = seen(0, &[(WaitKind::Futex, 9)]);
        let second = |share: f64| share * SECOND_NS as f64;
        // It wants a CPU from 0.5 s on, is given one at 2.5 s, and waits for something else from 2.75 s on.
        for (at, ran, wanted, seen) in [
            (0, 0.0, 0.0, futex),
            (1, 0.5, 0.0, seen(SURELY, &[])),
            (2, 0.5, 0.0, seen(SURELY, &[])),
            (3, 0.75, 2.0, futex),
        ] {
            let mut thread = thread(1, "a", second(ran) as u64, second(wanted) as u64, at);
            thread.seen = seen;
            course.add(look(at, vec![thread]));
        }
        let by_interval: Vec<f64> = course.intervals().iter().map(|of| of.amounts.wanted_ns).collect();
        assert_eq!(by_interval, [second(0.5), second(1.0), second(0.5)]);
        assert_eq!(
            course.amounts().longest_waits(),
            [(WaitKind::Futex, second(0.25))]
        );
    }

    #[test]
    fn a_thread_that_comes_counts_from_its_begin_and_one_that_goes_stays() {
        let mut course = Course::default();
        course.add(look(0, vec![thread(1, "main", 5 * SECOND_NS, 0, 9)]));
        let mut new = thread(2, "new", 300_000_000, 0, 1);
        new.age_ns = 400_000_000;
        // One that was there before, but was not seen: of another process that became a part of the program.
        let mut old = thread(3, "old", 70 * SECOND_NS, 0, 1);
        old.age_ns = 100 * SECOND_NS;
        course.add(look(1, vec![thread(1, "main", 5 * SECOND_NS, 0, 9), new, old]));
        course.add(look(2, vec![thread(1, "main", 5 * SECOND_NS, 0, 9)]));
        let of = |tid: i32| course.threads().find(|(key, _)| key.tid == tid).unwrap().1;
        assert_eq!((of(2).amounts.existed_ns, of(2).amounts.ran_ns), (4e8, 3e8));
        assert!(of(2).has_ended && !of(1).has_ended);
        assert_eq!(of(3).amounts.ran_ns, 0.0);
        assert!(of(1).never_ran(), "what it did before is of before");
    }

    #[test]
    fn who_has_a_number_again_is_another_thread() {
        let mut course = Course::default();
        course.add(look(0, vec![thread(1, "a", SECOND_NS, 0, 1)]));
        let mut other = thread(1, "b", 100, 0, 1);
        other.key.start_ticks = 77;
        other.age_ns = 500;
        course.add(look(1, vec![other]));
        let all: Vec<(&str, bool)> = course
            .threads()
            .map(|(_, thread)| (&*thread.name, thread.has_ended))
            .collect();
        assert_eq!(all, [("a", true), ("b", false)]);
    }

    #[test]
    fn time_of_threads_that_came_and_went_between_two_looks_is_in_the_sum() {
        let mut course = Course::default();
        for at in 0..=1 {
            let mut look = look(at, vec![thread(1, "main", 0, 0, 0)]);
            look.cpu_ns = at * 800_000_000;
            course.add(look);
        }
        assert!((course.cpus() - 0.8).abs() < 1e-9);
        assert_eq!(course.amounts().ran_ns, 0.0);
        // Less than ticks can tell is none.
        assert_eq!(known_cpu(1e9, 1.01e9, 1), 1e9);
    }

    #[test]
    fn of_a_long_course_neighbours_are_put_together() {
        let mut course = Course::default();
        for at in 0..=(MOST_INTERVALS as u64 + 1) {
            let mut look = look(at, vec![thread(1, "main", at * 250_000_000, 0, at)]);
            look.own_cpu_ns = at;
            course.add(look);
        }
        let all = course.intervals();
        assert!(all.len() <= MOST_INTERVALS && all.len() >= MOST_INTERVALS / 2);
        assert!(all.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
        let length: u64 = all.iter().map(Interval::length_ns).sum();
        assert_eq!(length, course.elapsed_ns());
        assert!(all.iter().all(|interval| (interval.cpus() - 0.25).abs() < 1e-9));
        assert!(all.iter().all(|interval| interval.by_group.len() == 1));
    }

    #[test]
    fn a_quota_is_told_from_the_first_look_on() {
        let mut course = Course::default();
        for (at, throttled) in [(0, 5), (1, 9), (2, 10)] {
            let mut look = look(at, Vec::new());
            look.quotas = vec![QuotaCounts {
                group: "/a".to_owned(),
                cpus: 0.5,
                periods: 100 + 10 * at,
                throttled_periods: throttled,
                throttled_ns: throttled * 1_000,
            }];
            course.add(look);
        }
        let quotas = course.quotas();
        let [quota] = &quotas[..] else { panic!() };
        assert_eq!(
            (quota.periods, quota.throttled_periods, quota.throttled_ns),
            (20, 5, 5_000)
        );
        let by_interval: Vec<u64> = course.intervals().iter().map(|of| of.throttled_periods).collect();
        assert_eq!(by_interval, [4, 1]);
    }

    proptest! {
        #[test]
        fn nothing_of_the_time_is_lost_or_counted_twice(
            existed in 0.0..1e12_f64,
            ran in 0.0..1e12_f64,
            wanted in prop::option::of(0.0..1e12_f64),
            runnable in 0_u32..5,
            counts in prop::collection::vec(0_u32..5, WaitKind::COUNT),
            before in prop::collection::vec(0_u32..5, WaitKind::COUNT),
        ) {
            let seen = |runnable, counts: Vec<u32>| Seen {
                runnable,
                waits: std::array::from_fn(|i| counts[i]),
            };
            let of = split(existed, ran, wanted, &seen(runnable, counts), &seen(0, before));
            let sum = of.ran_ns + of.wanted_ns + of.waited_ns();
            prop_assert!((sum - existed).abs() <= 1e-9 * existed.max(1.0), "{of:?}");
            prop_assert!(of.ran_ns >= 0.0 && of.wanted_ns >= 0.0 && of.waits_ns.iter().all(|ns| *ns >= -1e-3));
        }

        #[test]
        fn looks_of_any_counts_make_a_course(
            looks in prop::collection::vec(
                prop::collection::vec((0_i32..4, "[a-z]{1,3}[0-9]{0,2}", any::<u64>(), any::<u64>(), any::<u64>()), 0..5),
                0..6,
            ),
        ) {
            let mut course = Course::default();
            for (at, threads) in looks.into_iter().enumerate() {
                let threads = threads.into_iter().map(|(tid, name, ran, waited, slices)| {
                    thread(tid, &name, ran, waited, slices)
                });
                course.add(look(at as u64, threads.collect()));
            }
            let all = course.amounts();
            prop_assert!(all.ran_ns <= all.existed_ns + 1.0);
            prop_assert!(course.cpus() >= 0.0);
        }
    }
}
