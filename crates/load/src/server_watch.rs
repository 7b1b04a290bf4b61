//! The server's side of a run, by second and on the driver's clock: CPU time by thread, memory, context switches,
//! sockets, bytes, and what each CPU of the machine did.
//!
//! A thread of its own looks at `/proc` once a second, through the readers of `threadgauge-machine`. What it uses for
//! that is counted too ([`Watched::cost`]). A server that ends, or may not be looked at, ends nothing here: the seconds
//! go on without it, and a note says why.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, park_timeout};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use threadgauge_machine::clock::{monotonic_ns, thread_cpu_ns};
use threadgauge_machine::{Activity, CpuTimes, MachineError, Meter, Reading, Switches, TcpSockets, Traffic};

/// Looks at a server while a run goes on.
#[derive(Debug)]
pub struct ServerWatch {
    looker: Option<JoinHandle<Duration>>,
    shared: Arc<Shared>,
    pid: i32,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seconds: Vec<WatchedSecond>,
    notes: Vec<String>,
    ends: bool,
}

/// What was seen of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// Its process; all below it belong to it.
    pub pid: i32,
    /// By second, in their order. The last may be shorter.
    pub seconds: Vec<WatchedSecond>,
    /// What could not be read and why, each said once.
    pub notes: Vec<String>,
    /// CPU time that looking took.
    pub cost: Duration,
}

/// One second of the machine and of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedSecond {
    /// When it began: `CLOCK_MONOTONIC`, in nanoseconds, as all of a run.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// The server; `None` where it was gone or not to be looked at.
    pub server: Option<ServerSecond>,
    /// Each CPU of the machine.
    pub cpus: Vec<CpuSecond>,
}

/// What a server did in one second, and what it held at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSecond {
    /// How many CPUs it kept busy: 1.5 is one and a half.
    pub cpus_used: f64,
    /// Its threads, those that used most CPU time first. Empty where they are too many to look at.
    pub threads: Vec<ThreadSecond>,
    /// Context switches of those threads.
    pub switches: Switches,
    /// How many processes it has.
    pub processes: usize,
    /// How many threads it has.
    pub thread_count: u64,
    /// Resident memory, in KiB.
    pub rss_kib: u64,
    /// Proportional memory, in KiB.
    pub pss_kib: Option<u64>,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// TCP sockets of its network namespace, of all programs there.
    pub tcp: Option<TcpSockets>,
    /// Bytes over the interfaces of that namespace, of all programs there.
    pub network: Option<Traffic>,
}

/// What a thread did in one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadSecond {
    /// Its process.
    pub pid: i32,
    /// Itself.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// The share of the second that it was on a CPU: 0 to 1.
    pub cpu_share: f64,
    /// The share of the second that it was ready and had no CPU; `None` where the kernel does not count it.
    pub waited_share: Option<f64>,
    /// Its context switches.
    pub switches: Switches,
}

/// Where the time of a CPU went in one second, as shares that add up to 1; 0 where the kernel counted nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSecond {
    /// Its number.
    pub cpu: usize,
    /// Programs.
    pub user: f64,
    /// The kernel for programs.
    pub system: f64,
    /// Interrupts, with most of the work for the network.
    pub interrupts: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Nothing to do.
    pub idle: f64,
}

impl ServerWatch {
    /// Begins to look at this process and all below it, now and then every `every`; a second, but in tests.
    ///
    /// # Errors
    ///
    /// If the machine's own counters cannot be read. A process that is not there is a note, not an error.
    pub fn start(pid: i32, every: Duration) -> Result<Self, MachineError> {
        let shared = Arc::new(Shared::default());
        let mut meter = Meter::new()?;
        let before = Look::take(pid, &mut meter)?;
        let of_looker = Arc::clone(&shared);
        let looker = std::thread::Builder::new()
            .name("watches".to_owned())
            .spawn(move || of_looker.look(pid, every, &mut meter, before))
            .map_err(|source| MachineError::Read {
                path: "/proc: no thread could be started for it".to_owned(),
                source,
            })?;
        Ok(Self {
            looker: Some(looker),
            shared,
            pid,
        })
    }

    /// The last second that is over.
    pub fn latest(&self) -> Option<WatchedSecond> {
        self.shared.lock().seconds.last().cloned()
    }

    /// Looks once more and ends. Blocks for the milliseconds that a look takes.
    pub fn stop(mut self) -> Watched {
        let cost = self.end();
        let mut state = self.shared.lock();
        Watched {
            pid: self.pid,
            seconds: std::mem::take(&mut state.seconds),
            notes: std::mem::take(&mut state.notes),
            cost,
        }
    }

    fn end(&mut self) -> Duration {
        self.shared.lock().ends = true;
        let Some(looker) = self.looker.take() else {
            return Duration::ZERO;
        };
        looker.thread().unpark();
        looker.join().unwrap_or_default()
    }
}

impl Drop for ServerWatch {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until it is told to end: what that cost.
    fn look(&self, pid: i32, every: Duration, meter: &mut Meter, mut before: Look) -> Duration {
        let every_ns = every.as_nanos() as u64;
        let mut due_ns = before.machine.at_ns + every_ns;
        loop {
            let ends = self.wait_until(due_ns);
            match Look::take(pid, meter) {
                Ok(now) => {
                    let second = now.since(&before);
                    let mut state = self.lock();
                    state.seconds.push(second);
                    for note in now.notes() {
                        if !state.notes.contains(&note) {
                            state.notes.push(note);
                        }
                    }
                    before = now;
                }
                Err(error) => self.lock().notes.push(error.to_string()),
            }
            if ends {
                return Duration::from_nanos(thread_cpu_ns());
            }
            due_ns = next_ns(due_ns, every_ns, monotonic_ns());
        }
    }

    /// Whether it is to end, which does not wait.
    fn wait_until(&self, due_ns: u64) -> bool {
        loop {
            if self.lock().ends {
                return true;
            }
            let left_ns = due_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return false;
            }
            park_timeout(Duration::from_nanos(left_ns));
        }
    }
}

/// When the look after the one that was due then is. One that came so late that the next is over, too, is not made up
/// for by two at once.
const fn next_ns(due_ns: u64, every_ns: u64, now_ns: u64) -> u64 {
    let next_ns = due_ns + every_ns;
    if next_ns > now_ns {
        next_ns
    } else {
        now_ns + every_ns
    }
}

/// The counters of one moment.
#[derive(Debug)]
struct Look {
    machine: Reading,
    server: Result<Activity, String>,
}

impl Look {
    fn take(pid: i32, meter: &mut Meter) -> Result<Self, MachineError> {
        Ok(Self {
            server: Activity::of(pid).map_err(|error| error.to_string()),
            machine: meter.read()?,
        })
    }

    /// What could not be read.
    fn notes(&self) -> Vec<String> {
        match &self.server {
            Ok(server) => server.lacks.clone(),
            Err(why) => vec![why.clone()],
        }
    }

    /// What happened since an earlier look.
    fn since(&self, before: &Self) -> WatchedSecond {
        let server = self.server.as_ref().ok().zip(before.server.as_ref().ok());
        let cpus = self.machine.cpus.iter().filter_map(|now| {
            let then = before.machine.cpus.iter().find(|then| then.cpu == now.cpu)?;
            Some(CpuSecond::of(&now.since(then)))
        });
        WatchedSecond {
            from_ns: before.machine.at_ns,
            to_ns: self.machine.at_ns,
            server: server.map(|(now, then)| ServerSecond::between(then, now)),
            cpus: cpus.collect(),
        }
    }
}

impl CpuSecond {
    /// The share of the second in which it was not idle.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.interrupts + self.steal
    }

    fn of(part: &CpuTimes) -> Self {
        let total = part.total().max(1) as f64;
        let share = |ticks: u64| ticks as f64 / total;
        Self {
            cpu: part.cpu,
            user: share(part.user + part.nice),
            system: share(part.system),
            interrupts: share(part.irq + part.softirq),
            steal: share(part.steal),
            idle: share(part.idle + part.iowait),
        }
    }
}

impl ServerSecond {
    fn between(then: &Activity, now: &Activity) -> Self {
        let wall_s = (now.at_ns.saturating_sub(then.at_ns) as f64 / 1e9).max(1e-9);
        let mut threads: Vec<ThreadSecond> = now
            .threads
            .iter()
            .map(|thread| {
                // One that is new has done all it did since then.
                let earlier = then.threads.iter().find(|earlier| earlier.tid == thread.tid);
                let earlier = earlier.cloned().unwrap_or_default();
                let share = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / wall_s;
                ThreadSecond {
                    pid: thread.pid,
                    tid: thread.tid,
                    name: thread.name.clone(),
                    cpu_share: share(thread.cpu, earlier.cpu),
                    waited_share: thread
                        .waited
                        .map(|waited| share(waited, earlier.waited.unwrap_or_default())),
                    switches: thread.switches - earlier.switches,
                }
            })
            .collect();
        threads.sort_by(|a, b| b.cpu_share.total_cmp(&a.cpu_share));
        let network = now.network.zip(then.network).map(|(now, then)| Traffic {
            received_bytes: now.received_bytes.saturating_sub(then.received_bytes),
            sent_bytes: now.sent_bytes.saturating_sub(then.sent_bytes),
        });
        Self {
            cpus_used: now.cpu.saturating_sub(then.cpu).as_secs_f64() / wall_s,
            switches: threads
                .iter()
                .fold(Switches::default(), |sum, thread| sum + thread.switches),
            threads,
            processes: now.processes,
            thread_count: now.thread_count,
            rss_kib: now.rss_kib,
            pss_kib: now.pss_kib,
            descriptors: now.descriptors,
            tcp: now.tcp,
            network,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use threadgauge_machine::ThreadActivity;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);
    const OFTEN: Duration = Duration::from_millis(20);

    fn wait_for(watch: &ServerWatch, what: &str, is_so: impl Fn(&WatchedSecond) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !watch.latest().is_some_and(|second| is_so(&second)) {
            assert!(Instant::now() < deadline, "{what}: {:?}", watch.latest());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_late_look_is_followed_by_one_that_has_its_whole_time() {
        assert_eq!([10, 12, 19].map(|now_ns| next_ns(10, 10, now_ns)), [20; 3]);
        assert_eq!([20, 25, 47].map(|now_ns| next_ns(10, 10, now_ns)), [30, 35, 57]);
    }

    #[test]
    fn a_server_that_computes_is_seen_and_one_that_ends_is_said() {
        let mut server = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = server.id().cast_signed();
        let watch = ServerWatch::start(pid, OFTEN).unwrap();
        wait_for(&watch, "it computes", |second| {
            second.server.as_ref().is_some_and(|server| {
                server
                    .threads
                    .first()
                    .is_some_and(|thread| thread.cpu_share > 0.05)
            })
        });
        wait_for(&watch, "every CPU is there", |second| {
            let adds_up = |cpu: &CpuSecond| {
                let sum = cpu.user + cpu.system + cpu.interrupts + cpu.steal + cpu.idle;
                (sum - 1.0).abs() < 1e-9
            };
            !second.cpus.is_empty() && second.cpus.iter().any(adds_up)
        });
        server.kill().unwrap();
        server.wait().unwrap();
        wait_for(&watch, "it has ended", |second| second.server.is_none());
        let watched = watch.stop();
        // A look in the midst of which it ended may say what it lacked.
        let gone = format!("there is no process {pid} (any more)");
        assert_eq!(watched.notes.last(), Some(&gone), "{:?}", watched.notes);
        assert!(watched.cost > Duration::ZERO);
        let follows =
            |pair: &[WatchedSecond]| pair[0].to_ns == pair[1].from_ns && pair[1].from_ns < pair[1].to_ns;
        assert!(watched.seconds.windows(2).all(follows));
    }

    #[test]
    fn the_time_of_a_cpu_is_told_by_where_it_went() {
        let part = CpuTimes {
            cpu: 3,
            user: 1,
            nice: 2,
            system: 4,
            idle: 8,
            iowait: 16,
            irq: 32,
            softirq: 64,
            steal: 128,
        };
        let second = CpuSecond::of(&part);
        assert_eq!(second.cpu, 3);
        let shares = [
            second.user,
            second.system,
            second.interrupts,
            second.steal,
            second.idle,
        ];
        assert_eq!(
            shares.map(|share| (share * 255.0).round()),
            [3.0, 4.0, 96.0, 128.0, 24.0]
        );
        assert!((second.busy() - 231.0 / 255.0).abs() < 1e-9, "{}", second.busy());
        let nothing = CpuSecond::of(&CpuTimes::default());
        assert_eq!((nothing.busy(), nothing.idle), (0.0, 0.0));
    }

    #[test]
    fn a_server_that_was_never_there_leaves_the_machine_to_be_watched() {
        // No process has this id: it is above the most that there can be.
        let watched = ServerWatch::start(i32::MAX, Duration::from_secs(3_600))
            .unwrap()
            .stop();
        assert_eq!(watched.seconds.len(), 1, "one look when it ends");
        assert!(watched.seconds[0].server.is_none() && !watched.seconds[0].cpus.is_empty());
        assert_eq!(watched.notes.len(), 1);
    }

    #[test]
    fn what_is_between_two_looks_is_a_share_of_the_time_between_them() {
        let thread = |tid, cpu_ms, waited_ms, voluntary| ThreadActivity {
            pid: 7,
            tid,
            name: format!("t{tid}"),
            cpu: Duration::from_millis(cpu_ms),
            waited: Some(Duration::from_millis(waited_ms)),
            switches: Switches {
                voluntary,
                involuntary: 1,
            },
        };
        let traffic = |received_bytes, sent_bytes| {
            Some(Traffic {
                received_bytes,
                sent_bytes,
            })
        };
        let then = Activity {
            at_ns: 1_000_000_000,
            cpu: Duration::from_millis(100),
            threads: vec![thread(1, 50, 0, 5), thread(2, 50, 0, 5)],
            network: traffic(10, 100),
            ..Activity::default()
        };
        let now = Activity {
            at_ns: 3_000_000_000,
            cpu: Duration::from_millis(3_100),
            threads: vec![thread(1, 1_050, 500, 7), thread(3, 2_000, 0, 9)],
            network: traffic(15, 400),
            rss_kib: 9,
            ..Activity::default()
        };
        let second = ServerSecond::between(&then, &now);
        assert_eq!((second.cpus_used, second.rss_kib), (1.5, 9));
        let shares = second.threads.iter().map(|thread| (thread.tid, thread.cpu_share));
        assert_eq!(
            shares.collect::<Vec<_>>(),
            [(3, 1.0), (1, 0.5)],
            "the busiest first"
        );
        assert_eq!(second.threads[1].waited_share, Some(0.25));
        assert_eq!(second.switches.voluntary, 2 + 9);
        assert_eq!(second.network, traffic(5, 300));
    }
}
