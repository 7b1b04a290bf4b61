//! When connections move between loops by themselves: from how much CPU time each loop uses and waits for.
//!
//! Nobody waits for the time to look: a loop that has something to do looks at the end of a turn, if the last look of
//! anybody is long enough ago. So a server that is idle stays idle.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::manager::{ReactorManager, Role};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// A loop this much busier than another (in CPUs) gives connections to it.
const UNEVEN: f64 = 0.2;
/// Loops that read (or write) are short of CPU when all of them together are busier than this,
const SHORT: f64 = 0.7;
/// and have one to spare when the others could do its work and be no busier than this.
const SPARE: f64 = 0.6;

/// What one loop is to move away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    /// Connections.
    pub count: usize,
    pub reads: bool,
    pub writes: bool,
    pub to: usize,
}

/// Says how busy the loops are.
pub(crate) trait Gauge: Send {
    /// In CPUs, each loop since the last time that this was asked, `passed` ago; nothing the first time. `threads` are
    /// those of the loops, once they run.
    fn busy(&mut self, threads: &[AtomicI32], passed: Duration) -> Option<Vec<f64>>;
}

/// By the CPU time of their threads.
#[derive(Debug, Default)]
struct CpuTime {
    /// What each had used or waited for until the last time.
    used: Vec<Duration>,
}

impl Gauge for CpuTime {
    fn busy(&mut self, threads: &[AtomicI32], passed: Duration) -> Option<Vec<f64>> {
        let used = threads
            .iter()
            .map(|thread| cpu_time(thread.load(Relaxed)))
            .collect();
        let before = std::mem::replace(&mut self.used, used);
        let since = self
            .used
            .iter()
            .zip(&before)
            .map(|(now, before)| now.saturating_sub(*before).as_secs_f64() / passed.as_secs_f64());
        (!before.is_empty()).then(|| since.collect())
    }
}

/// Watches the threads of the loops.
pub(crate) struct Watch {
    /// Each loop's thread, once it runs.
    threads: Vec<AtomicI32>,
    interval: Duration,
    last: Mutex<Last>,
}

struct Last {
    at: Instant,
    gauge: Box<dyn Gauge>,
}

impl Watch {
    /// By the CPU time of the loops, now and then.
    pub fn new(loops: usize) -> Self {
        Self::by(Box::<CpuTime>::default(), INTERVAL, loops)
    }

    /// By this gauge, each time that so much has passed.
    pub fn by(gauge: Box<dyn Gauge>, interval: Duration, loops: usize) -> Self {
        Self {
            threads: (0..loops).map(|_| AtomicI32::new(0)).collect(),
            interval,
            last: Mutex::new(Last {
                at: Instant::now(),
                gauge,
            }),
        }
    }

    /// The calling thread runs this loop.
    pub fn is_loop(&self, index: usize) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.threads[index].store(thread, Relaxed);
    }

    /// What each loop is to move, if it is time to look.
    pub fn look(&self, now: Instant, manager: &ReactorManager) -> Vec<(usize, Migration)> {
        let Ok(mut last) = self.last.try_lock() else {
            return Vec::new();
        };
        let passed = now.saturating_duration_since(last.at);
        if passed < self.interval {
            return Vec::new();
        }
        last.at = now;
        let Some(busy) = last.gauge.busy(&self.threads, passed) else {
            return Vec::new();
        };
        let (roles, migrations) = decide(&manager.roles(), &busy, &manager.loads());
        manager.set_roles(&roles);
        migrations
    }
}

/// The CPU time that a thread of this process has used, and that it has waited for while others had the CPU: on a
/// crowded machine a loop that is short of time does not use much of it.
fn cpu_time(thread: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
    let nanos = stat
        .split_whitespace()
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok());
    Duration::from_nanos(nanos.sum())
}

/// From what each loop is for, how busy it is (in CPUs) and how many halves it has: what it shall be for, and what
/// moves.
fn decide(roles: &[Role], busy: &[f64], loads: &[usize]) -> (Vec<Role>, Vec<(usize, Migration)>) {
    let mut roles = roles.to_vec();
    let mut migrations = Vec::new();
    if let Some(changed) = change_role(&roles, busy) {
        // A loop changes: its halves go to the others of its former kind, and it takes some of its new kind.
        let former = roles[changed];
        roles[changed] = former.opposite();
        let heirs: Vec<_> = (0..roles.len()).filter(|&index| roles[index] == former).collect();
        for (nth, &to) in heirs.iter().enumerate() {
            let count = (loads[changed] + nth) / heirs.len();
            migrations.push((changed, migration(former, count, to)));
        }
        let new = roles[changed];
        let givers: Vec<_> = (0..roles.len())
            .filter(|&index| roles[index] == new && index != changed)
            .collect();
        for &from in &givers {
            let count = loads[from] / (givers.len() + 1);
            migrations.push((from, migration(new, count, changed)));
        }
    } else {
        for role in [Role::Both, Role::Reads, Role::Writes] {
            migrations.extend(even_out(role, &roles, busy, loads));
        }
    }
    migrations.retain(|(_, migration)| migration.count > 0);
    (roles, migrations)
}

fn migration(role: Role, count: usize, to: usize) -> Migration {
    Migration {
        count,
        reads: role != Role::Writes,
        writes: role != Role::Reads,
        to,
    }
}

/// A loop of the kind that has one to spare while the other kind is short.
fn change_role(roles: &[Role], busy: &[f64]) -> Option<usize> {
    let of = |role| (0..roles.len()).filter(move |&index| roles[index] == role);
    let sum = |role| of(role).map(|index| busy[index]).sum::<f64>();
    for (needy, spare) in [(Role::Reads, Role::Writes), (Role::Writes, Role::Reads)] {
        let (short_of, others) = (of(needy).count(), of(spare).count());
        if short_of == 0 || others < 2 {
            continue;
        }
        if sum(needy) / short_of as f64 > SHORT && sum(spare) / (others - 1) as f64 <= SPARE {
            return of(spare).min_by(|&a, &b| busy[a].total_cmp(&busy[b]));
        }
    }
    None
}

/// From the busiest of a kind to the idlest, so much that both are as busy afterwards.
fn even_out(role: Role, roles: &[Role], busy: &[f64], loads: &[usize]) -> Option<(usize, Migration)> {
    let of = || (0..roles.len()).filter(|&index| roles[index] == role);
    let busiest = of().max_by(|&a, &b| busy[a].total_cmp(&busy[b]))?;
    let idlest = of().min_by(|&a, &b| busy[a].total_cmp(&busy[b]))?;
    let gap = busy[busiest] - busy[idlest];
    if gap < UNEVEN {
        return None;
    }
    let connections = match role {
        Role::Both => loads[busiest] / 2,
        _ => loads[busiest],
    };
    let share = gap / 2.0 / busy[busiest];
    // One connection alone would only make the other loop as busy as this one was.
    let count = ((connections as f64 * share) as usize).min(connections.saturating_sub(1));
    Some((busiest, migration(role, count, idlest)))
}

#[cfg(test)]
mod tests {
    use super::Role::{Both, Reads, Writes};
    use super::*;

    #[test]
    fn the_busiest_gives_to_the_idlest() {
        let (roles, migrations) = decide(&[Both, Both], &[0.9, 0.1], &[20, 20]);
        assert_eq!(roles, [Both, Both]);
        assert_eq!(migrations, [(0, migration(Both, 4, 1))]);
    }

    #[test]
    fn nothing_moves_where_it_is_even_or_cannot_help() {
        assert!(decide(&[Both, Both], &[0.5, 0.4], &[20, 20]).1.is_empty());
        assert!(
            decide(&[Both, Both], &[0.9, 0.0], &[2, 0]).1.is_empty(),
            "one busy connection"
        );
        assert!(
            decide(&[Reads, Writes], &[0.9, 0.1], &[9, 9]).1.is_empty(),
            "nobody to change"
        );
        assert!(
            decide(&[Reads, Writes, Writes], &[0.9, 0.8, 0.9], &[9, 9, 9])
                .1
                .is_empty()
        );
    }

    #[test]
    fn a_loop_to_spare_changes_its_kind() {
        let (roles, migrations) = decide(
            &[Reads, Writes, Writes, Writes],
            &[0.95, 0.2, 0.1, 0.2],
            &[60, 20, 20, 20],
        );
        assert_eq!(roles, [Reads, Writes, Reads, Writes]);
        assert_eq!(
            migrations,
            [
                (2, migration(Writes, 10, 1)),
                (2, migration(Writes, 10, 3)),
                (0, migration(Reads, 30, 2)),
            ]
        );
    }

    #[test]
    fn none_changes_its_kind_if_those_that_stay_cannot_do_its_work() {
        let roles = [Reads, Writes, Writes, Writes];
        let changed = |writers: f64| change_role(&roles, &[SHORT + 0.01, writers, writers, writers]);
        // Three are so busy each, and two would be half as much again.
        assert_eq!(changed(SPARE / 1.5 - 0.01), Some(1));
        assert_eq!(changed(SPARE / 1.5 + 0.01), None);
    }

    #[test]
    fn an_idle_loop_is_not_divided_by_nothing() {
        assert!(decide(&[Both, Both], &[0.0, 0.0], &[0, 0]).1.is_empty());
    }
}
