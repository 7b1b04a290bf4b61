//! Why a program is as fast as it is, in words with their figures, by rules that are all here.
//!
//! Several may hold. Each rule is a comparison with a constant whose reason stands beside it. What `/proc` cannot
//! tell is said with the verdict it bears on ([`Verdict::doubt`]) and not guessed: above all, a thread that has
//! nothing to do and one that is held up wait in the same system calls.

use serde::{Deserialize, Serialize};

use super::course::{Amounts, Course, Group, Interval, QuotaSpan, Tracked};
use super::look::ThreadKey;
use super::wait::WaitKind;

/// Below this nothing is judged: states are seen some ten times a second.
const LEAST_NS: u64 = 500_000_000;
/// A thread that ran for this share of the time is one that works.
const WORKS: f64 = 0.01;
/// A thread that is given a CPU so often a second is one that goes on, however short it runs each time.
const GOES_ON_PER_S: f64 = 1.0;
/// A program that uses this share of the CPUs that it may use is bound by them; a little is always lost between two
/// computations.
const USED_UP: f64 = 0.8;
/// Threads that work are bound by the CPU where they run, or want to, for this share of their time.
const MOSTLY: f64 = 0.8;
/// Threads that go on wait for others where they do so for this share of their time.
const MOSTLY_WAITING: f64 = 0.7;
/// CPUs are too few where threads want so many times as many: a quarter more is what shuffling them costs anyway.
const TOO_MANY: f64 = 1.25;
/// And where they wait for a CPU for at least this part of the time that they run.
const WAIT_TO_RUN: f64 = 0.25;
/// Others have its CPUs where it gets less than this share of what it may use, and wants more.
const ITS_CPUS: f64 = 0.7;
/// A quota matters where it was used up in this share of its periods.
const THROTTLED: f64 = 0.05;
/// And in so many of them: one may be chance.
const THROTTLED_PERIODS: u64 = 2;
/// A thread is a bottleneck where it runs, or wants to, for this share of the time.
const HOT: f64 = 0.8;
/// And where all others use no more than this share of the other CPUs.
const COLD: f64 = 0.25;
/// Threads behind a lock wait for it for this share of their time at least: of two that change places each does so for
/// half of it.
const BEHIND_A_LOCK: f64 = 0.4;
/// One at a time: so many of them, on average, are not waiting for it.
const ONE_AT_A_TIME: [f64; 2] = [0.7, 1.4];
/// With those that were woken and wait for a CPU it is so many times as many, at most.
const WOKEN: f64 = 1.25;
/// And it is so in this share of the intervals, within twice these bounds: a pool with little to do is not even.
const EVENLY: f64 = 0.8;
/// A lock that matters changes hands so often a second.
const HANDOVERS_PER_S: f64 = 5.0;
/// Fewer threads are no pool.
const POOL: usize = 4;
/// A pool is larger than was needed where this share of it was never given a CPU.
const UNUSED: f64 = 0.25;
/// And where that was so for this long, at least.
const UNUSED_NS: u64 = 3_000_000_000;
/// A program that keeps less of a CPU busy does next to nothing.
const IDLE_CPUS: f64 = 0.01;

/// Which rule holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// It was seen for too short a time.
    TooShort,
    /// A quota stops it.
    Throttled,
    /// More threads want to run than there are CPUs for.
    Oversubscribed,
    /// Others use the CPUs that it wants.
    CpusTaken,
    /// It computes.
    CpuBound,
    /// One thread does nearly all of the work.
    OneThread,
    /// Threads go one at a time.
    LockBound,
    /// Threads were never needed.
    PoolTooLarge,
    /// It waits for others.
    Waiting,
    /// It does next to nothing.
    Idle,
}

impl VerdictKind {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 10] = [
        Self::TooShort,
        Self::Throttled,
        Self::Oversubscribed,
        Self::CpusTaken,
        Self::CpuBound,
        Self::OneThread,
        Self::LockBound,
        Self::PoolTooLarge,
        Self::Waiting,
        Self::Idle,
    ];

    /// Its name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::Throttled => "throttled",
            Self::Oversubscribed => "oversubscribed",
            Self::CpusTaken => "cpus_taken",
            Self::CpuBound => "cpu_bound",
            Self::OneThread => "one_thread",
            Self::LockBound => "lock_bound",
            Self::PoolTooLarge => "pool_too_large",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
        }
    }

    /// In a few words, for a person.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::TooShort => "too short to judge",
            Self::Throttled => "throttled by a quota",
            Self::Oversubscribed => "oversubscribed",
            Self::CpusTaken => "others have the CPUs",
            Self::CpuBound => "CPU-bound",
            Self::OneThread => "one thread is the bottleneck",
            Self::LockBound => "lock-bound",
            Self::PoolTooLarge => "pool larger than ever used",
            Self::Waiting => "waiting for others",
            Self::Idle => "idle",
        }
    }
}

/// A verdict with its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which.
    pub kind: VerdictKind,
    /// A sentence with the figures that it follows from.
    pub says: String,
    /// What cannot be told, where that bears on it.
    pub doubt: Option<String>,
}

/// What the program may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// CPUs on which it may run.
    pub allowed: f64,
    /// The least quota on it, in CPUs' worth of time.
    pub quota: Option<f64>,
}

impl Capacity {
    /// How many CPUs' worth of time there is for it.
    #[must_use]
    pub fn cpus(self) -> f64 {
        self.quota.map_or(self.allowed, |quota| quota.min(self.allowed))
    }
}

/// Judges what was seen: all that hold, in the order of [`VerdictKind::ALL`].
#[must_use]
pub fn judge(course: &Course, capacity: Capacity) -> Vec<Verdict> {
    let elapsed_ns = course.elapsed_ns();
    if elapsed_ns < LEAST_NS {
        let says = format!(
            "It was seen for {:.2} s; below {} s nothing is judged.",
            elapsed_ns as f64 / 1e9,
            LEAST_NS as f64 / 1e9
        );
        return vec![verdict(VerdictKind::TooShort, says, None)];
    }
    let facts = Facts::of(course, capacity);
    let throttled = throttled(&course.quotas(), &facts);
    let is_throttled = throttled.is_some();
    let lock = lock_bound(&facts);
    let mut all: Vec<Verdict> = throttled.into_iter().collect();
    all.extend(oversubscribed(&facts).filter(|_| !is_throttled));
    all.extend(cpus_taken(&facts).filter(|_| !is_throttled));
    all.extend(cpu_bound(&facts));
    all.extend(one_thread(&facts));
    all.extend(lock);
    all.extend(pool_too_large(&facts));
    all.extend(waiting(&facts));
    all.extend(idle(&facts));
    all
}

fn verdict(kind: VerdictKind, says: String, doubt: Option<&str>) -> Verdict {
    Verdict {
        kind,
        says,
        doubt: doubt.map(str::to_owned),
    }
}

/// What the rules look at.
struct Facts<'a> {
    course: &'a Course,
    elapsed_s: f64,
    /// CPUs' worth of time that it may use.
    capacity: f64,
    quota: Option<f64>,
    /// CPUs that it kept busy.
    cpus: f64,
    /// Threads that wanted a CPU, on average.
    wanted: f64,
    threads: Vec<(&'a ThreadKey, &'a Tracked)>,
}

impl<'a> Facts<'a> {
    fn of(course: &'a Course, capacity: Capacity) -> Self {
        Self {
            course,
            elapsed_s: course.elapsed_ns() as f64 / 1e9,
            capacity: capacity.cpus(),
            quota: capacity.quota,
            cpus: course.cpus(),
            wanted: course.per_ns(course.amounts().wanted_ns),
            threads: course.threads().collect(),
        }
    }

    /// Whether a thread works, or goes on however little it runs.
    fn goes_on(&self, thread: &Tracked) -> bool {
        let amounts = &thread.amounts;
        amounts.share(amounts.ran_ns + amounts.wanted_ns) >= WORKS
            || amounts.slices / self.elapsed_s >= GOES_ON_PER_S
    }

    /// Where the time of those threads went that are picked, and how many they are.
    fn sum(&self, picked: impl Fn(&Tracked) -> bool) -> (Amounts, usize) {
        let mut sum = Amounts::default();
        let mut count = 0;
        for (_, thread) in self.threads.iter().filter(|(_, thread)| picked(thread)) {
            sum.add(&thread.amounts);
            count += 1;
        }
        (sum, count)
    }

    fn is_cpu_bound(&self) -> bool {
        let (of_workers, _) = self.sum(|thread| {
            let amounts = &thread.amounts;
            amounts.share(amounts.ran_ns + amounts.wanted_ns) >= WORKS
        });
        let wanted_ns = of_workers.ran_ns + of_workers.wanted_ns;
        let they_compute = of_workers.share(wanted_ns) >= MOSTLY && self.course.per_ns(wanted_ns) >= 0.5;
        self.cpus >= USED_UP * self.capacity || they_compute
    }
}

fn throttled(quotas: &[QuotaSpan], facts: &Facts<'_>) -> Option<Verdict> {
    let holds =
        |quota: &&QuotaSpan| quota.throttled_periods >= THROTTLED_PERIODS && quota.throttled() >= THROTTLED;
    let held_back = quotas.iter().filter(holds);
    let most = held_back.max_by(|a, b| a.throttled().total_cmp(&b.throttled()))?;
    let says = format!(
        "The quota of {} CPUs of {} was used up in {} of {} periods ({}), which stopped threads for {:.2} s, added \
         up over CPUs. It used {:.2} CPUs.",
        number(most.cpus),
        most.group,
        most.throttled_periods,
        most.periods,
        percent(most.throttled()),
        most.throttled_ns as f64 / 1e9,
        facts.cpus
    );
    let doubt = "The time that threads wait for a CPU includes that for which the quota stopped them: which of the \
                 two it was is not told by thread. Others in the same control group use the quota, too.";
    Some(verdict(VerdictKind::Throttled, says, Some(doubt)))
}

fn oversubscribed(facts: &Facts<'_>) -> Option<Verdict> {
    let demand = facts.cpus + facts.wanted;
    let holds = demand >= TOO_MANY * facts.capacity && facts.wanted >= WAIT_TO_RUN * facts.cpus;
    holds.then(|| {
        let says = format!(
            "On average {demand:.1} threads wanted to run at once, and there is time of {} CPUs: {:.2} ran and \
             {:.2} waited for a CPU, {:.1} s of waiting for each second of running.",
            number(facts.capacity),
            facts.cpus,
            facts.wanted,
            facts.wanted / facts.cpus.max(1e-9)
        );
        let doubt = (facts.cpus < ITS_CPUS * facts.capacity)
            .then_some("Others used CPUs, too: alone it would have waited less.");
        verdict(VerdictKind::Oversubscribed, says, doubt)
    })
}

fn cpus_taken(facts: &Facts<'_>) -> Option<Verdict> {
    let wants_more = facts.wanted >= WAIT_TO_RUN * facts.cpus && facts.wanted >= 0.1;
    // With few threads that want to run it cannot use more.
    let could = (facts.cpus + facts.wanted).min(facts.capacity);
    let holds = wants_more && facts.cpus < ITS_CPUS * could;
    holds.then(|| {
        let others = facts.course.machine_cpus().map(|all| (all - facts.cpus).max(0.0));
        let by = others.map_or_else(String::new, |others| {
            format!(" All other programs together kept {others:.2} CPUs busy.")
        });
        let says = format!(
            "It got {:.2} CPUs and could have used {could:.2}: {:.2} threads waited for a CPU on average.{by}",
            facts.cpus, facts.wanted
        );
        let doubt = "Threads that are pinned to the same CPU, and a hypervisor that gives its CPUs to others, look \
                     alike.";
        verdict(VerdictKind::CpusTaken, says, Some(doubt))
    })
}

fn cpu_bound(facts: &Facts<'_>) -> Option<Verdict> {
    facts.is_cpu_bound().then(|| {
        let of = facts.quota.map_or_else(String::new, |quota| {
            format!(" (a quota grants {})", number(quota))
        });
        let how = match facts.cpus >= USED_UP * facts.capacity {
            true => String::new(),
            false => " The threads of it that work never wait for anything but a CPU, or nearly so.".to_owned(),
        };
        let says = format!(
            "It kept {:.2} CPUs busy, of {} that it may use{of}.{how} Faster CPUs or less computing would make it \
             faster.",
            facts.cpus,
            number(facts.capacity)
        );
        verdict(VerdictKind::CpuBound, says, None)
    })
}

fn one_thread(facts: &Facts<'_>) -> Option<Verdict> {
    // With one CPU no other thread could have helped.
    if facts.capacity < 1.5 {
        return None;
    }
    let busy = |thread: &Tracked| {
        facts
            .course
            .per_ns(thread.amounts.ran_ns + thread.amounts.wanted_ns)
    };
    let hottest = facts
        .threads
        .iter()
        .max_by(|a, b| busy(a.1).total_cmp(&busy(b.1)))?;
    let (key, thread) = *hottest;
    let others = facts.cpus - facts.course.per_ns(thread.amounts.ran_ns);
    if busy(thread) < HOT || others > COLD * (facts.capacity - 1.0) {
        return None;
    }
    let which = match facts.threads.len() {
        1 => format!("Its only thread, `{}` ({}),", thread.name, key.tid),
        _ => format!("Thread `{}` ({})", thread.name, key.tid),
    };
    let says = format!(
        "{which} ran for {} of the time and waited for a CPU for {}; all others together used {:.2} CPUs, of {} \
         that it may use. More CPUs or more threads do not help while this one does the work.",
        percent(facts.course.per_ns(thread.amounts.ran_ns)),
        percent(facts.course.per_ns(thread.amounts.wanted_ns)),
        others.max(0.0),
        number(facts.capacity)
    );
    Some(verdict(VerdictKind::OneThread, says, None))
}

/// The group with the most time behind a lock, or all threads together.
fn lock_bound(facts: &Facts<'_>) -> Option<Verdict> {
    let groups = facts.course.groups();
    let each = (0..groups.len()).map(|place| (Some(place), behind_a_lock(facts, Some(place))));
    let found = each.filter_map(|(place, found)| Some((place, found?)));
    let most = found.max_by(|a, b| a.1.futex.total_cmp(&b.1.futex));
    let (place, lock) = most.or_else(|| Some((None, behind_a_lock(facts, None)?)))?;
    let whose = place.map_or_else(
        || "all threads".to_owned(),
        |place| format!("the threads `{}`", groups[place].name),
    );
    let says = format!(
        "Of {whose} ({} that go on) {:.1} waited in futex on average and {:.1} did not, evenly over the time; they \
         changed places {:.0} times a second. So it is where one at a time may go on, as behind a lock.",
        lock.threads, lock.futex, lock.not, lock.changes_per_s
    );
    let doubt = "Threads that hand work on to each other one at a time look alike, and which lock it is /proc does \
                 not tell: perf lock, a debugger or the profiler of the language does.";
    Some(verdict(VerdictKind::LockBound, says, Some(doubt)))
}

/// Threads that go one at a time.
struct Lock {
    threads: usize,
    /// How many waited in futex, on average.
    futex: f64,
    /// How many did not.
    not: f64,
    changes_per_s: f64,
}

fn behind_a_lock(facts: &Facts<'_>, group: Option<usize>) -> Option<Lock> {
    let picked = |thread: &Tracked| {
        group.is_none_or(|group| thread.group == group)
            && thread.amounts.slices / facts.elapsed_s >= GOES_ON_PER_S
    };
    let (sum, threads) = facts.sum(picked);
    let futex_ns = sum.of(WaitKind::Futex);
    let not_ns = sum.existed_ns - futex_ns;
    // Whoever has it may wait for a CPU, and so may one that is woken and finds it taken.
    let (not, least) = (
        facts.course.per_ns(not_ns),
        facts.course.per_ns(not_ns - sum.wanted_ns),
    );
    let [low, high] = ONE_AT_A_TIME;
    let changes_per_s = sum.slices / facts.elapsed_s;
    let holds = threads >= 2
        && sum.share(futex_ns) >= BEHIND_A_LOCK
        && (low..=high * WOKEN).contains(&not)
        && least <= high
        && changes_per_s >= HANDOVERS_PER_S
        && is_even(facts, group);
    holds.then(|| Lock {
        threads,
        futex: facts.course.per_ns(futex_ns),
        not,
        changes_per_s,
    })
}

/// Whether about one at a time was not waiting in futex in nearly all intervals.
fn is_even(facts: &Facts<'_>, group: Option<usize>) -> bool {
    let [low, high] = ONE_AT_A_TIME;
    let intervals = facts.course.intervals();
    let is_one = |interval: &&Interval| {
        let amounts = match group {
            Some(group) => interval.by_group.iter().find(|(place, _)| *place == group),
            None => None,
        };
        let amounts = amounts.map_or(&interval.amounts, |(_, amounts)| amounts);
        let length_ns = interval.length_ns().max(1) as f64;
        let not_ns = amounts.existed_ns - amounts.of(WaitKind::Futex);
        // Of all threads some wait for something else all the time.
        let most = group.map_or(f64::INFINITY, |_| high * 2.0);
        not_ns / length_ns >= low / 2.0 && (not_ns - amounts.wanted_ns) / length_ns <= most
    };
    intervals.iter().filter(is_one).count() as f64 >= EVENLY * intervals.len() as f64
}

/// The group with the most threads that were never given a CPU.
fn pool_too_large(facts: &Facts<'_>) -> Option<Verdict> {
    if facts.course.elapsed_ns() < UNUSED_NS || !facts.course.has_slices() {
        return None;
    }
    let observed_ns = facts.course.elapsed_ns() as f64;
    // One that came later may be needed yet.
    let unused = |place: usize| {
        let of_group = facts.threads.iter().filter(|(_, thread)| thread.group == place);
        let unused = of_group.filter(|(_, thread)| {
            thread.never_ran() && !thread.has_ended && thread.amounts.existed_ns >= 0.9 * observed_ns
        });
        unused.count()
    };
    let groups = facts.course.groups().iter().enumerate();
    let pools = groups.filter(|(_, group)| group.threads >= POOL);
    let with_unused = pools.map(|(place, group)| (group, unused(place)));
    let (group, unused): (&Group, usize) = with_unused.max_by_key(|(_, unused)| *unused)?;
    if (unused as f64) < UNUSED * group.threads as f64 {
        return None;
    }
    let says = match group.most_used {
        0 => format!(
            "None of {} threads `{}` was given a CPU in {:.0} s.",
            group.threads, group.name, facts.elapsed_s
        ),
        most_used => format!(
            "Of {} threads `{}`, {unused} were never given a CPU in {:.0} s, and no more than {most_used} were between \
             any two looks.",
            group.threads, group.name, facts.elapsed_s
        ),
    };
    let doubt = "What was not needed meanwhile may be needed at another time, and a thread that another one holds \
                 up all the time is not given a CPU either.";
    Some(verdict(VerdictKind::PoolTooLarge, says, Some(doubt)))
}

fn waiting(facts: &Facts<'_>) -> Option<Verdict> {
    if facts.is_cpu_bound() {
        return None;
    }
    let (mut sum, mut count) = facts.sum(|thread| facts.goes_on(thread));
    if count == 0 {
        (sum, count) = facts.sum(|_| true);
    }
    if sum.share(sum.waited_ns()) < MOSTLY_WAITING {
        return None;
    }
    let waits = sum.longest_waits();
    let named: Vec<String> = waits
        .iter()
        .filter(|(_, ns)| sum.share(*ns) >= 0.05)
        .take(3)
        .map(|(kind, ns)| format!("{} {}", percent(sum.share(*ns)), kind.in_words()))
        .collect();
    let whose = match facts.goes_on_count() {
        0 => "Its threads".to_owned(),
        _ => format!(
            "Those of its threads that do something ({count} of {})",
            facts.threads.len()
        ),
    };
    let says = format!(
        "{whose} waited for {} of their time: {}. It kept {:.2} of {} CPUs busy.",
        percent(sum.share(sum.waited_ns())),
        named.join(", "),
        facts.cpus,
        number(facts.capacity)
    );
    let may_be_idle = waits.first().is_some_and(|(kind, _)| kind.may_be_idle());
    let doubt = "Whether they have nothing to do or are held up /proc cannot tell: an idle server waits in the same \
                 calls as one whose database is slow.";
    Some(verdict(VerdictKind::Waiting, says, may_be_idle.then_some(doubt)))
}

impl Facts<'_> {
    fn goes_on_count(&self) -> usize {
        self.sum(|thread| self.goes_on(thread)).1
    }
}

fn idle(facts: &Facts<'_>) -> Option<Verdict> {
    (facts.cpus + facts.wanted < IDLE_CPUS).then(|| {
        let says = format!("It kept {} of a CPU busy: next to nothing.", percent(facts.cpus));
        let doubt =
            "Whether there was nothing to do, or all of it is held up by something, /proc cannot tell.";
        verdict(VerdictKind::Idle, says, Some(doubt))
    })
}

fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value == 0.0 {
        "0 %".to_owned()
    } else if value < 9.95 {
        format!("{value:.1} %")
    } else {
        format!("{value:.0} %")
    }
}

/// Without decimals where it has none.
fn number(value: f64) -> String {
    match value.fract() == 0.0 {
        true => format!("{value:.0}"),
        false => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::ThreadLook;
    use super::super::testing::{SECOND_NS, look, seen, thread};
    use super::*;
    use crate::cgroup::QuotaCounts;

    const TWO_CPUS: Capacity = Capacity {
        allowed: 2.0,
        quota: None,
    };

    /// Six looks, a second apart, at threads that are told by the time.
    fn course(threads: impl Fn(u64) -> Vec<ThreadLook>) -> Course {
        let mut course = Course::default();
        for at in 0..=5 {
            course.add(look(at, threads(at)));
        }
        course
    }

    /// A thread that runs and wants a CPU for so many milliseconds of each second, is given a CPU so often, and waits
    /// like that otherwise.
    fn busy(
        tid: i32,
        name: &str,
        at: u64,
        [ran_ms, wanted_ms, slices]: [u64; 3],
        kind: WaitKind,
    ) -> ThreadLook {
        let mut thread = thread(
            tid,
            name,
            at * ran_ms * 1_000_000,
            at * wanted_ms * 1_000_000,
            at * slices,
        );
        thread.seen = seen(0, &[(kind, 1)]);
        thread
    }

    fn kinds(course: &Course, capacity: Capacity) -> Vec<VerdictKind> {
        judge(course, capacity)
            .iter()
            .map(|verdict| verdict.kind)
            .collect()
    }

    #[test]
    fn each_kind_has_a_name_and_all_are_in_one_order() {
        assert!(VerdictKind::ALL.is_sorted());
        for kind in VerdictKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn a_burner_is_bound_by_the_cpu_and_by_its_one_thread() {
        let course = course(|at| vec![busy(1, "burn", at, [990, 5, 20], WaitKind::Other)]);
        assert_eq!(
            kinds(&course, TWO_CPUS),
            [VerdictKind::CpuBound, VerdictKind::OneThread]
        );
        let one = Capacity {
            allowed: 1.0,
            quota: None,
        };
        assert_eq!(kinds(&course, one), [VerdictKind::CpuBound]);
        let says = &judge(&course, TWO_CPUS)[1].says;
        assert!(
            says.starts_with("Its only thread, `burn` (1), ran for 99 % of the time"),
            "{says}"
        );
    }

    #[test]
    fn sleepers_wait_and_do_nothing() {
        let course = course(|at| {
            (1..=3)
                .map(|tid| busy(tid, "sleeper", at, [0, 0, 2], WaitKind::Sleep))
                .collect()
        });
        assert_eq!(
            kinds(&course, TWO_CPUS),
            [VerdictKind::Waiting, VerdictKind::Idle]
        );
        let waiting = &judge(&course, TWO_CPUS)[0];
        assert!(waiting.says.contains("100 % nanosleep"), "{waiting:?}");
    }

    #[test]
    fn threads_that_change_places_behind_a_lock_are_told_from_a_pool_with_little_to_do() {
        let fight = |ran_ms| {
            course(move |at| {
                let all = (1..=4).map(|tid| {
                    busy(
                        tid,
                        &format!("fight-{tid}"),
                        at,
                        [ran_ms, 5, 300],
                        WaitKind::Futex,
                    )
                });
                all.collect()
            })
        };
        assert_eq!(
            kinds(&fight(245), TWO_CPUS),
            [VerdictKind::LockBound, VerdictKind::Waiting]
        );
        assert_eq!(kinds(&fight(50), TWO_CPUS), [VerdictKind::Waiting]);
        // Work that comes in bursts is none of a lock, though the mean is the same.
        let bursts = course(|at| {
            let seconds = [0, 4, 4, 4, 4, 8][at as usize];
            let all = (1..=4).map(|tid| {
                let mut thread = busy(tid, "pool-1", at, [0, 0, 300], WaitKind::Futex);
                thread.ran_ns = seconds * 122_500_000;
                thread
            });
            all.collect()
        });
        assert!(!kinds(&bursts, TWO_CPUS).contains(&VerdictKind::LockBound));
    }

    #[test]
    fn a_pool_of_which_some_never_ran_is_larger_than_needed() {
        let pool = |used: i32| {
            course(move |at| {
                let each = (1..=8).map(|tid| {
                    let slices = if tid <= used { 10 } else { 0 };
                    busy(
                        tid,
                        &format!("worker-{tid}"),
                        at,
                        [slices, 0, slices],
                        WaitKind::Futex,
                    )
                });
                each.collect()
            })
        };
        let some = judge(&pool(3), TWO_CPUS);
        let found = some
            .iter()
            .find(|of| of.kind == VerdictKind::PoolTooLarge)
            .unwrap();
        let says = "Of 8 threads `worker-*`, 5 were never given a CPU in 5 s, and no more than 3 were between any two \
                    looks.";
        assert_eq!(found.says, says);
        assert!(found.doubt.is_some());
        assert!(!kinds(&pool(7), TWO_CPUS).contains(&VerdictKind::PoolTooLarge));
        assert!(kinds(&pool(0), TWO_CPUS).contains(&VerdictKind::Idle));
    }

    #[test]
    fn more_threads_than_cpus_are_too_many_where_they_wait_for_them() {
        let pool = |ran_ms, wanted_ms| {
            course(move |at| {
                let each =
                    (1..=8).map(|tid| busy(tid, "burn-1", at, [ran_ms, wanted_ms, 100], WaitKind::Futex));
                each.collect()
            })
        };
        let of = kinds(&pool(250, 750), TWO_CPUS);
        assert_eq!(of, [VerdictKind::Oversubscribed, VerdictKind::CpuBound]);
        // As many as there are CPUs for.
        assert_eq!(kinds(&pool(240, 10), TWO_CPUS), [VerdictKind::CpuBound]);
        // Others have the CPUs.
        let of = kinds(&pool(50, 200), TWO_CPUS);
        assert!(of.contains(&VerdictKind::CpusTaken), "{of:?}");
        assert!(
            !of.contains(&VerdictKind::Oversubscribed) && !of.contains(&VerdictKind::LockBound),
            "{of:?}"
        );
    }

    #[test]
    fn a_quota_that_is_used_up_is_named_and_is_not_taken_for_too_many_threads() {
        let mut course = Course::default();
        for at in 0..=5 {
            let threads = (1..=2).map(|tid| busy(tid, "burn-1", at, [250, 740, 20], WaitKind::Futex));
            let mut look = look(at, threads.collect());
            look.quotas = vec![QuotaCounts {
                group: "/sys/fs/cgroup/cpu/pod".to_owned(),
                cpus: 0.5,
                periods: 10 * at,
                throttled_periods: 10 * at,
                throttled_ns: at * SECOND_NS,
            }];
            course.add(look);
        }
        let capacity = Capacity {
            allowed: 2.0,
            quota: Some(0.5),
        };
        assert_eq!(
            kinds(&course, capacity),
            [VerdictKind::Throttled, VerdictKind::CpuBound]
        );
        let says = &judge(&course, capacity)[0].says;
        assert!(
            says.contains("0.50 CPUs of /sys/fs/cgroup/cpu/pod was used up in 50 of 50 periods (100 %)"),
            "{says}"
        );
    }

    #[test]
    fn one_hot_thread_among_two_hundred_is_named() {
        let course = course(|at| {
            let idle = (2..=200).map(|tid| busy(tid, &format!("idle-{tid}"), at, [0, 0, 0], WaitKind::Futex));
            let hot = busy(1, "hot", at, [970, 20, 30], WaitKind::Futex);
            [hot].into_iter().chain(idle).collect()
        });
        let all = judge(&course, TWO_CPUS);
        let hot = all.iter().find(|of| of.kind == VerdictKind::OneThread).unwrap();
        assert!(
            hot.says.starts_with("Thread `hot` (1) ran for 97 % of the time"),
            "{hot:?}"
        );
        let kinds: Vec<_> = all.iter().map(|of| of.kind).collect();
        let expected = [
            VerdictKind::CpuBound,
            VerdictKind::OneThread,
            VerdictKind::PoolTooLarge,
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_server_with_some_load_waits_in_poll_and_what_cannot_be_told_is_said() {
        let course = course(|at| vec![busy(1, "server", at, [100, 1, 500], WaitKind::Poll)]);
        let all = judge(&course, TWO_CPUS);
        let [waiting] = &all[..] else { panic!("{all:?}") };
        assert_eq!(waiting.kind, VerdictKind::Waiting);
        assert!(waiting.says.contains("90 % epoll, poll or select"), "{waiting:?}");
        assert!(waiting.doubt.as_ref().unwrap().contains("/proc cannot tell"));
    }

    #[test]
    fn what_cannot_be_idleness_leaves_no_doubt() {
        let course = course(|at| vec![busy(1, "reader", at, [100, 1, 500], WaitKind::Disk)]);
        let all = judge(&course, TWO_CPUS);
        assert_eq!(
            (all.len(), all[0].kind, &all[0].doubt),
            (1, VerdictKind::Waiting, &None)
        );
    }

    #[test]
    fn too_short_a_time_is_not_judged() {
        let mut course = Course::default();
        course.add(look(0, Vec::new()));
        assert_eq!(kinds(&course, TWO_CPUS), [VerdictKind::TooShort]);
        assert_eq!(kinds(&Course::default(), TWO_CPUS), [VerdictKind::TooShort]);
    }
}
