//! When the generator itself stood still, for how long, and why.
//!
//! A generator that was stopped, or had no CPU, sends late and reads late, and its clock charges that to the server.
//! So each turn of a loop is held against what the loop wanted: what it took beyond the wait that was asked for and
//! the CPU time that the thread used is time in which it could not go on. What a turn costs is a comparison; the
//! kernel is asked only now and then, and after a turn that took long.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use threadgauge_machine::clock::thread_cpu_ns;
use threadgauge_machine::{CpuTimes, Reading};

/// What a turn, or a wait for a CPU, takes beyond what it should is standing still from here on. Below it is how soon a
/// kernel wakes a thread, which is in the lag of each request.
pub(crate) const LEAST_NS: u64 = 1_000_000;
/// Between two looks at what the kernel says, where nothing took long.
const LOOK_NS: u64 = 10_000_000;

/// For how long the generator stood still: it had something to do, and could not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standstill {
    /// In all, of all its threads.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
    /// Of `total`: ready to run, without a CPU.
    pub without_cpu: Duration,
    /// For how long meanwhile a quota on its control group, or on one above, stopped programs in it.
    pub throttled: Duration,
    /// Time that the hypervisor took meanwhile of the CPU of which it took most.
    pub stolen: Duration,
    /// For how long the machine was suspended. The clock of a run stands still with it, so it is not in `total`.
    pub suspended: Duration,
}

/// Why a generator stood still, by what explains half of it at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The machine was suspended.
    Suspended,
    /// The quota of its control group was used up.
    Throttled,
    /// The hypervisor took the CPU.
    Stolen,
    /// Other programs had its CPU.
    Starved,
    /// None of these: it was stopped, as by a signal, a debugger or a frozen container.
    Stopped,
}

impl Standstill {
    /// With the machine's own.
    pub fn whole(&self) -> Duration {
        self.total + self.suspended
    }

    /// What explains most of it; `None` where it never stood still.
    pub fn cause(&self) -> Option<Cause> {
        let half = self.total / 2;
        Some(match self.whole() {
            Duration::ZERO => return None,
            _ if self.suspended > self.total => Cause::Suspended,
            _ if self.throttled >= half => Cause::Throttled,
            _ if self.without_cpu >= half => Cause::Starved,
            _ if self.stolen >= half => Cause::Stolen,
            _ => Cause::Stopped,
        })
    }
}

/// What the kernel says of the calling thread, until now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub cpu_ns: u64,
    /// Ready, without a CPU.
    waited_ns: u64,
    /// How often it came to a CPU.
    runs: u64,
}

/// Who asks the kernel.
#[derive(Debug)]
pub(crate) struct Asker(Option<File>);

impl Asker {
    pub(crate) fn new() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Whoever asks it has used nothing but CPU time.
    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    pub(crate) fn ask(&self) -> Used {
        let mut text = [0; 96];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let words = std::str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
        // On a CPU, in ticks; waited; how often.
        let mut words = words
            .split_ascii_whitespace()
            .map(|word| word.parse().unwrap_or(0));
        words.next();
        Used {
            cpu_ns: thread_cpu_ns(),
            waited_ns: words.next().unwrap_or(0),
            runs: words.next().unwrap_or(0),
        }
    }
}

/// Feels whether a loop goes on.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// When this turn began.
    turn_ns: u64,
    /// What of it was a wait that was asked for.
    asked_ns: u64,
    /// When the kernel was asked last, and what it said.
    looked_ns: u64,
    used: Used,
    /// Since then: asked for, and beyond that in turns that took long.
    asked_since_ns: u64,
    long_ns: u64,
    stood: Standstill,
}

impl Pulse {
    pub(crate) fn new(now_ns: u64, used: Used) -> Self {
        Self {
            turn_ns: now_ns,
            asked_ns: 0,
            looked_ns: now_ns,
            used,
            asked_since_ns: 0,
            long_ns: 0,
            stood: Standstill::default(),
        }
    }

    /// It waited for so long, where it wanted to wait for `limit_ns` at most.
    pub(crate) fn waited(&mut self, took_ns: u64, limit_ns: u64) {
        self.asked_ns += took_ns.min(limit_ns);
    }

    /// Another turn begins.
    pub(crate) fn turns(&mut self, now_ns: u64, ask: impl FnOnce() -> Used) {
        let beyond_ns = now_ns.saturating_sub(self.turn_ns + self.asked_ns);
        self.asked_since_ns += self.asked_ns;
        (self.turn_ns, self.asked_ns) = (now_ns, 0);
        let is_long = beyond_ns >= LEAST_NS;
        if is_long {
            self.long_ns += beyond_ns;
        }
        if is_long || now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.look(now_ns, ask());
        }
    }

    /// Enters what happened since the last look.
    fn look(&mut self, now_ns: u64, used: Used) {
        let passed_ns = now_ns.saturating_sub(self.looked_ns);
        let computed_ns = used.cpu_ns.saturating_sub(self.used.cpu_ns);
        let waited_ns = used.waited_ns.saturating_sub(self.used.waited_ns).min(passed_ns);
        let runs = used.runs.saturating_sub(self.used.runs).max(1);
        // A long turn may have computed for most of it.
        let unexplained_ns = passed_ns.saturating_sub(self.asked_since_ns + computed_ns);
        let stood_ns = self.long_ns.min(unexplained_ns);
        // Where something came while it waited for nothing else, only the kernel knows how late it woke.
        let late_ns = if waited_ns / runs >= LEAST_NS {
            waited_ns
        } else {
            0
        };
        let still_ns = match stood_ns.max(late_ns) {
            0..LEAST_NS => 0,
            still_ns => still_ns,
        };
        let still = Duration::from_nanos(still_ns);
        self.stood.total += still;
        self.stood.longest = self.stood.longest.max(still);
        self.stood.without_cpu += still.min(Duration::from_nanos(waited_ns));
        (self.looked_ns, self.used) = (now_ns, used);
        (self.asked_since_ns, self.long_ns) = (0, 0);
    }

    pub(crate) fn stood(&self) -> Standstill {
        self.stood
    }
}

/// What may stand in the way of a program from outside, until now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outside {
    throttled: Duration,
    /// By CPU, those that are online.
    stolen: Vec<(usize, Duration)>,
    suspended: Duration,
}

impl Outside {
    /// Takes about a millisecond. What cannot be read is as if it never happened.
    pub(crate) fn look() -> Self {
        Reading::take().map_or_else(|_| Self::default(), |reading| Self::of(&reading))
    }

    fn of(reading: &Reading) -> Self {
        let ticks = reading.ticks_per_second.max(1) as f64;
        let stolen = |cpu: &CpuTimes| (cpu.cpu, Duration::from_secs_f64(cpu.steal as f64 / ticks));
        Self {
            throttled: Duration::from_nanos(reading.throttled_ns.unwrap_or(0)),
            stolen: reading.cpus.iter().map(stolen).collect(),
            suspended: Duration::from_nanos(reading.suspended_ns),
        }
    }

    /// Enters what happened since an earlier look.
    pub(crate) fn since(&self, before: &Self, stood: &mut Standstill) {
        stood.throttled = self.throttled.saturating_sub(before.throttled);
        let stolen = self.stolen.iter().filter_map(|(cpu, now)| {
            let (_, then) = before.stolen.iter().find(|(known, _)| known == cpu)?;
            Some(now.saturating_sub(*then))
        });
        stood.stolen = stolen.max().unwrap_or_default();
        // The two clocks are read one after the other.
        let suspended = self.suspended.saturating_sub(before.suspended);
        stood.suspended = if suspended.as_nanos() < u128::from(LOOK_NS) {
            Duration::ZERO
        } else {
            suspended
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A loop whose kernel and clock are ours.
    struct Loop {
        now_ns: u64,
        used: Used,
        pulse: Pulse,
    }

    impl Loop {
        fn new() -> Self {
            Self {
                now_ns: 0,
                used: Used::default(),
                pulse: Pulse::new(0, Used::default()),
            }
        }

        /// A turn that waited for `slept_ms`, where it had asked for `limit_ms` at most, woke when it had a CPU,
        /// computed, and was stopped.
        fn turn(&mut self, [slept_ms, limit_ms]: [u64; 2], [without_ms, computed_ms, stopped_ms]: [u64; 3]) {
            self.pulse.waited((slept_ms + without_ms) * MS, limit_ms * MS);
            self.used.cpu_ns += computed_ms * MS;
            self.used.waited_ns += without_ms * MS;
            self.used.runs += 1;
            self.now_ns += (slept_ms + without_ms + computed_ms + stopped_ms) * MS;
            let used = self.used;
            self.pulse.turns(self.now_ns, || used);
        }

        /// In all, the longest and without a CPU, in ms, once nothing is open.
        fn stood_ms(mut self) -> [u128; 3] {
            self.turn([20, 20], [0, 0, 0]);
            let stood = self.pulse.stood();
            [stood.total, stood.longest, stood.without_cpu].map(|time| time.as_millis())
        }
    }

    #[test]
    fn waiting_and_computing_are_no_standstill() {
        let mut own = Loop::new();
        for _ in 0..50 {
            own.turn([1, 1], [0, 0, 0]);
            own.turn([0, 100], [0, 300, 0]);
            own.turn([80, 100], [0, 2, 0]);
        }
        assert_eq!(own.stood_ms(), [0, 0, 0]);
    }

    #[test]
    fn what_was_stopped_stood_still_wherever_it_was_stopped() {
        // While it waited, longer than it had asked for, and while it computed.
        for (sleeps, stopped_ms) in [([1_201, 1], 0), ([1, 1], 1_200)] {
            let mut own = Loop::new();
            own.turn([1, 1], [0, 1, 0]);
            own.turn(sleeps, [0, 5, stopped_ms]);
            own.turn([1, 1], [0, 1, 0]);
            assert_eq!(own.stood_ms(), [1_200, 1_200, 0]);
        }
    }

    #[test]
    fn without_a_cpu_it_stood_still_also_where_nothing_was_due() {
        let mut own = Loop::new();
        // It woke late for something that was due.
        own.turn([1, 1], [3, 0, 0]);
        // And late for something that came, within the limit that it had asked for.
        for _ in 0..5 {
            own.turn([10, 100], [3, 0, 0]);
        }
        // And where it computed.
        own.turn([0, 0], [3, 2, 0]);
        assert_eq!(own.stood_ms(), [7 * 3, 3, 7 * 3]);
    }

    #[test]
    fn how_soon_a_kernel_wakes_a_thread_is_no_standstill() {
        let mut own = Loop::new();
        for _ in 0..10_000 {
            own.now_ns += MS + 200_000;
            own.used.waited_ns += 150_000;
            own.used.runs += 1;
            own.pulse.waited(MS + 200_000, MS);
            let used = own.used;
            own.pulse.turns(own.now_ns, || used);
        }
        assert_eq!(own.stood_ms(), [0, 0, 0]);
    }

    #[test]
    fn the_kernel_is_asked_now_and_then_and_after_what_took_long() {
        let mut pulse = Pulse::new(0, Used::default());
        let mut asked = 0;
        let mut turn = |now_ns: u64| {
            let before = asked;
            pulse.turns(now_ns, || {
                asked += 1;
                Used::default()
            });
            asked > before
        };
        assert!(!turn(MS / 2));
        assert!(turn(2 * MS), "it took long");
        let often: Vec<bool> = (0..40).map(|i| turn(2 * MS + (i + 1) * MS / 2)).collect();
        let asked: Vec<usize> = (0..40).filter(|&i| often[i]).collect();
        assert_eq!(asked, [19, 39]);
    }

    #[test]
    fn the_kernel_counts_what_a_thread_computes() {
        let asker = Asker::new();
        let before = asker.ask();
        let mut now = before;
        while now.cpu_ns < before.cpu_ns + MS {
            now = asker.ask();
        }
        assert!(now.runs >= before.runs && now.waited_ns >= before.waited_ns);
    }

    #[test]
    fn what_explains_half_of_a_standstill_is_its_cause_in_this_order() {
        let ms = Duration::from_millis;
        let cause = |total, suspended, throttled, without_cpu, stolen| {
            let stood = Standstill {
                total: ms(total),
                suspended: ms(suspended),
                throttled: ms(throttled),
                without_cpu: ms(without_cpu),
                stolen: ms(stolen),
                ..Standstill::default()
            };
            stood.cause()
        };
        for (found, expected) in [
            (cause(0, 0, 0, 0, 0), None),
            (cause(10, 11, 10, 10, 10), Some(Cause::Suspended)),
            (cause(10, 10, 5, 10, 10), Some(Cause::Throttled)),
            (cause(10, 0, 4, 5, 10), Some(Cause::Starved)),
            (cause(10, 0, 4, 4, 5), Some(Cause::Stolen)),
            (cause(10, 0, 4, 4, 4), Some(Cause::Stopped)),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_the_machine_says_is_in_one_unit() {
        let cpu = |cpu, steal| CpuTimes {
            cpu,
            steal,
            ..CpuTimes::default()
        };
        let outside = Outside::of(&Reading {
            cpus: vec![cpu(0, 0), cpu(2, 25)],
            ticks_per_second: 100,
            throttled_ns: Some(3 * MS),
            suspended_ns: 7 * MS,
            ..Reading::default()
        });
        let ms = Duration::from_millis;
        assert_eq!(outside.stolen, [(0, ms(0)), (2, ms(250))]);
        assert_eq!([outside.throttled, outside.suspended], [ms(3), ms(7)]);
        let unknown = Outside::of(&Reading::default());
        assert_eq!(unknown.throttled, Duration::ZERO, "no CPU controller");
    }

    #[test]
    fn what_came_from_outside_is_the_difference_of_two_looks() {
        let ms = Duration::from_millis;
        let look = |throttled: u64, stolen: u64, suspended: u64| Outside {
            throttled: ms(throttled),
            // Of one more it took less.
            stolen: vec![(3, ms(stolen)), (4, ms(stolen / 10))],
            suspended: ms(suspended),
        };
        let mut stood = Standstill::default();
        look(7, 30, 5_000).since(&look(2, 10, 1_000), &mut stood);
        assert_eq!(
            [stood.throttled, stood.stolen, stood.suspended],
            [ms(5), ms(20), ms(4_000)]
        );
        assert_eq!(
            (stood.cause(), stood.whole()),
            (Some(Cause::Suspended), stood.suspended)
        );
        look(7, 30, 1_001).since(&look(7, 30, 1_000), &mut stood);
        assert_eq!((stood.suspended, stood.cause()), (Duration::ZERO, None));
    }
}
