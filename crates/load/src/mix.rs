//! Mixed clients: classes with weights, each with its own behaviour, all at one server at once, and results by class.
//!
//! Uniform clients do not stand for those that a server has: fast, slow, patient, impatient and hostile ones (source
//! 003). Sections with weights are those of the load generator Mstone, on which source 002 built its clients.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::arrivals::{Arrivals, Ramp};
use crate::error::LoadError;
use crate::exchange::Exchange;
use crate::latency::Latency;
use crate::paced::{ClientKind, Paced};
use crate::record::{Failure, Record, Second, Watch};
use crate::requests::{Bound, Clients, Pace, Requests};
use crate::sizes::Sizes;

/// What clients of a class do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Behaviour {
    /// Ask, read at once, and think.
    Fast {
        /// The mean time from an answer to the next request.
        think: Duration,
    },
    /// As fast ones, with requests of these sizes.
    Large {
        /// Of a request.
        bytes: Sizes,
        /// The mean time from an answer to the next request.
        think: Duration,
    },
    /// As fast ones, and give up a request after so long: they reset the connection and try again.
    Impatient {
        /// How long they wait.
        patience: Duration,
        /// The mean time from an answer, or from giving up, to the next request.
        think: Duration,
    },
    /// As [`ClientKind::SlowReader`].
    SlowReader {
        /// How fast they read.
        bytes_per_second: f64,
        /// From an answer to the next request.
        think: Duration,
    },
    /// As [`ClientKind::Idle`].
    Idle,
    /// As [`ClientKind::SlowSender`].
    SlowLoris {
        /// Between two bytes.
        every: Duration,
    },
    /// As [`ClientKind::Garbage`].
    Garbage {
        /// How many bytes.
        bytes: usize,
        /// From one connection to the next.
        think: Duration,
    },
}

impl Behaviour {
    /// Whether these clients want answers. Of the others the figures say how the server bears them.
    pub fn wants_answers(&self) -> bool {
        matches!(
            self,
            Self::Fast { .. } | Self::Large { .. } | Self::Impatient { .. } | Self::SlowReader { .. }
        )
    }

    /// How many of the requests in this record failed, without those that the clients themselves did not wait for.
    pub fn failed(&self, record: &Record) -> u64 {
        match self {
            Self::Impatient { .. } => record.failed() - record.failures.of(Failure::Timeout),
            // Its last answers are not awaited when the load is over.
            Self::SlowReader { .. } => record.failures.total(),
            _ if self.wants_answers() => record.failed(),
            _ => 0,
        }
    }
}

/// Clients that behave alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Its name, for people.
    pub name: String,
    /// Its part of the connections, over the weights of all.
    pub weight: f64,
    /// What its clients do.
    #[serde(flatten)]
    pub behaviour: Behaviour,
}

/// What a class came to.
#[derive(Clone, Debug)]
pub struct ClassRecord {
    /// The class.
    pub class: Class,
    /// How many of the connections were its.
    pub connections: usize,
    /// What was measured of them.
    pub record: Record,
}

/// How many connections each class has: by weight, and every class with a weight at least one.
///
/// # Panics
///
/// If there are fewer connections than classes, or no weight is above 0.
pub fn shares(classes: &[Class], connections: usize) -> Vec<usize> {
    let whole: f64 = classes.iter().map(|class| class.weight).sum();
    assert!(whole > 0.0 && whole.is_finite(), "weights are above 0");
    assert!(connections >= classes.len(), "every class has a connection");
    let exact = |class: &Class| class.weight / whole * connections as f64;
    let mut shares: Vec<usize> = classes
        .iter()
        .map(|class| (exact(class) as usize).max(1))
        .collect();
    // What is over or lacks goes to and comes from where the share is farthest off.
    loop {
        let given: usize = shares.iter().sum();
        let off = |&i: &usize| exact(&classes[i]) - shares[i] as f64;
        let order = |a: &usize, b: &usize| off(a).total_cmp(&off(b));
        match given.cmp(&connections) {
            std::cmp::Ordering::Equal => return shares,
            std::cmp::Ordering::Less => {
                let most = (0..classes.len()).max_by(order).expect("there are classes");
                shares[most] += 1;
            }
            std::cmp::Ordering::Greater => {
                let least = (0..classes.len()).filter(|&i| shares[i] > 1).min_by(order);
                shares[least.expect("there are enough connections")] -= 1;
            }
        }
    }
}

/// Who looks on while classes run, each from its own thread.
pub trait Observer: Sync {
    /// A second of a class is over, with the latencies of what was answered in it, as in [`Watch::second`].
    fn second(&self, _class: &Class, _second: &Second, _latency: &Latency) {}

    /// Whether to go on.
    fn goes_on(&self) -> bool {
        true
    }
}

/// Nobody looks on.
impl Observer for () {}

impl Observer for AtomicBool {
    /// Until it is set.
    fn goes_on(&self) -> bool {
        !self.load(Ordering::Relaxed)
    }
}

/// Runs all classes at once, each in a thread of its own, for so long and until all together have sent `most` requests,
/// and gives back what each came to. `plan` has the connections of all together; `exchange` makes what a class says. A
/// connection that asks for nothing is one request. Blocks meanwhile.
///
/// # Errors
///
/// If those that ask cannot connect, the observer ends the run before they have ([`LoadError::Interrupted`]), or the
/// server does not speak the protocol at all. Then all end.
///
/// # Panics
///
/// As [`shares`].
pub fn run_mixed<E: Exchange>(
    classes: &[Class],
    plan: Clients,
    hold: Duration,
    most: u64,
    seed: u64,
    exchange: impl Fn(&Class) -> E + Sync,
    observer: &dyn Observer,
) -> Result<Vec<ClassRecord>, LoadError> {
    let shares = shares(classes, plan.connections.get());
    let (start, failed) = (Barrier::new(classes.len()), AtomicBool::new(false));
    let bound = Bound::new(most);
    let run = |place: usize, class: &Class, connections: usize| -> Result<ClassRecord, LoadError> {
        let plan = Clients {
            connections: NonZeroUsize::new(connections).expect("every class has a connection"),
            ..plan
        };
        let together = Together {
            class,
            start: &start,
            failed: &failed,
            bound: &bound,
            observer,
        };
        let seed = seed.wrapping_add(place as u64);
        let record = together.run(exchange(class), plan, hold, seed)?;
        Ok(ClassRecord {
            class: class.clone(),
            connections,
            record,
        })
    };
    let all_there = RwLock::new(false);
    thread::scope(|scope| {
        // They look at it when all are there; where one cannot be made the others end at once.
        let mut there = all_there.write().unwrap_or_else(PoisonError::into_inner);
        let made = |(place, (class, connections))| {
            let (run, all_there) = (&run, &all_there);
            let runs = move || {
                let is_there = *all_there.read().unwrap_or_else(PoisonError::into_inner);
                is_there.then(|| run(place, class, connections))
            };
            thread::Builder::new()
                .spawn_scoped(scope, runs)
                .map_err(LoadError::Thread)
        };
        let threads: Vec<_> = classes
            .iter()
            .zip(shares)
            .enumerate()
            .map(made)
            .collect::<Result<_, _>>()?;
        *there = true;
        drop(there);
        threads
            .into_iter()
            .filter_map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

/// A class among those that run with it.
struct Together<'a> {
    class: &'a Class,
    start: &'a Barrier,
    failed: &'a AtomicBool,
    bound: &'a Bound,
    observer: &'a dyn Observer,
}

impl Together<'_> {
    fn run<E: Exchange>(
        mut self,
        exchange: E,
        plan: Clients,
        hold: Duration,
        seed: u64,
    ) -> Result<Record, LoadError> {
        let (think, plan) = match self.class.behaviour {
            Behaviour::Fast { think } | Behaviour::Large { think, .. } => (think, plan),
            Behaviour::Impatient { patience, think } => {
                let timeout = patience;
                (think, Clients { timeout, ..plan })
            }
            Behaviour::SlowReader {
                bytes_per_second,
                think,
            } => {
                let kind = ClientKind::SlowReader {
                    bytes_per_second,
                    think,
                };
                return Ok(self.run_paced(exchange, kind, plan, hold, seed));
            }
            Behaviour::Idle => return Ok(self.run_paced(exchange, ClientKind::Idle, plan, hold, seed)),
            Behaviour::SlowLoris { every } => {
                return Ok(self.run_paced(exchange, ClientKind::SlowSender { every }, plan, hold, seed));
            }
            Behaviour::Garbage { bytes, think } => {
                return Ok(self.run_paced(exchange, ClientKind::Garbage { bytes, think }, plan, hold, seed));
            }
        };
        let (observer, bound) = (self.observer, self.bound);
        let connected = Requests::connect_while(exchange, plan, &mut || observer.goes_on());
        self.failed.fetch_or(connected.is_err(), Ordering::SeqCst);
        // Whoever failed has said so before anybody is let go.
        self.start.wait();
        let pace = Pace::Closed {
            think,
            arrivals: Arrivals::Poisson,
            seed,
        };
        let run =
            connected.and_then(|mut requests| requests.run_within(pace, Ramp::hold(hold), bound, &mut self));
        self.failed.fetch_or(run.is_err(), Ordering::SeqCst);
        run
    }

    fn run_paced<E: Exchange>(
        mut self,
        exchange: E,
        kind: ClientKind,
        plan: Clients,
        hold: Duration,
        seed: u64,
    ) -> Record {
        let mut paced = Paced::new(exchange, kind, plan, seed);
        self.start.wait();
        paced.run_within(Ramp::hold(hold), self.bound, &mut self)
    }
}

impl Watch for Together<'_> {
    fn second(&mut self, second: &Second, latency: &Latency) {
        self.observer.second(self.class, second, latency);
    }

    fn goes_on(&mut self) -> bool {
        !self.failed.load(Ordering::SeqCst) && self.observer.goes_on()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::SocketAddr;
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use crate::exchange::Bytes;
    use crate::testing::{PATIENCE, serve};

    const THINK: Duration = Duration::from_millis(1);

    fn class(name: &str, weight: f64, behaviour: Behaviour) -> Class {
        Class {
            name: name.to_owned(),
            weight,
            behaviour,
        }
    }

    fn all_kinds() -> Vec<Class> {
        vec![
            class("fast", 4.0, Behaviour::Fast { think: THINK }),
            class(
                "large",
                1.0,
                Behaviour::Large {
                    bytes: 9.into(),
                    think: THINK,
                },
            ),
            class(
                "impatient",
                1.0,
                Behaviour::Impatient {
                    patience: PATIENCE,
                    think: THINK,
                },
            ),
            class(
                "modem",
                2.0,
                Behaviour::SlowReader {
                    bytes_per_second: 1e5,
                    think: THINK,
                },
            ),
            class("idle", 1.0, Behaviour::Idle),
            class("loris", 1.0, Behaviour::SlowLoris { every: THINK }),
            class(
                "garbage",
                1.0,
                Behaviour::Garbage {
                    bytes: 40,
                    think: THINK,
                },
            ),
        ]
    }

    /// Answers lines as the protocol bytes does, after a wait where somebody asks for 7, and ends a connection that
    /// sends something else.
    fn server() -> SocketAddr {
        serve(|stream| {
            let mut input = BufReader::new(&stream);
            loop {
                let mut line = Vec::new();
                if !input.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                    return;
                }
                let asked = String::from_utf8_lossy(&line);
                let Some(bytes) = asked.split_whitespace().next().and_then(|word| word.parse().ok()) else {
                    return;
                };
                if bytes == 7 {
                    thread::sleep(Duration::from_millis(50));
                }
                let answer: Vec<u8> = (b'a'..=b'z').cycle().take(bytes).collect();
                if (&stream).write_all(&answer).is_err() {
                    return;
                }
            }
        })
    }

    fn plan(target: SocketAddr, connections: usize) -> Clients {
        Clients {
            target,
            connections: NonZeroUsize::new(connections).unwrap(),
            pipeline: NonZeroUsize::MIN,
            timeout: PATIENCE,
            go_on: false,
        }
    }

    /// Until so many answers have come, by what the seconds say.
    struct Enough {
        answered: AtomicU64,
        of: u64,
        deadline: Instant,
    }

    impl Observer for Enough {
        fn second(&self, _: &Class, second: &Second, _: &Latency) {
            self.answered.fetch_add(second.answered, Ordering::Relaxed);
        }

        fn goes_on(&self) -> bool {
            assert!(Instant::now() < self.deadline, "too few answers come");
            self.answered.load(Ordering::Relaxed) < self.of
        }
    }

    fn enough(of: u64) -> Enough {
        Enough {
            answered: AtomicU64::new(0),
            of,
            deadline: Instant::now() + PATIENCE,
        }
    }

    #[test]
    fn every_kind_runs_beside_the_others_and_has_its_own_figures() {
        let classes = all_kinds();
        let records = run_mixed(
            &classes,
            plan(server(), 22),
            PATIENCE,
            u64::MAX,
            1,
            |_| Bytes::kept(100),
            &enough(50),
        )
        .unwrap();
        assert_eq!(records.len(), classes.len());
        let connections: Vec<usize> = records.iter().map(|of| of.connections).collect();
        assert_eq!(connections, [8, 2, 2, 4, 2, 2, 2]);
        for of in &records {
            let record = &of.record;
            let name = &of.class.name;
            assert_eq!(of.class.behaviour.wants_answers(), record.answered > 0, "{name}");
            match of.class.behaviour.wants_answers() {
                true => assert_eq!(record.failures.total(), 0, "{name}: {:?}", record.failures),
                false => assert!(
                    record.connects as usize >= of.connections,
                    "{name}: {}",
                    record.connects
                ),
            }
        }
    }

    #[test]
    fn all_classes_together_send_no_more_than_they_may() {
        for most in [1, 200] {
            // The server may wait for the end of a line that garbage does not have.
            let plan = Clients {
                timeout: Duration::from_secs(1),
                ..plan(server(), 22)
            };
            let records =
                run_mixed(&all_kinds(), plan, PATIENCE, most, 1, |_| Bytes::kept(100), &()).unwrap();
            let sent: u64 = records.iter().map(|of| of.record.sent).sum();
            assert_eq!(sent, most);
            assert!(
                records
                    .iter()
                    .all(|of| of.record.bounded && !of.record.interrupted)
            );
            for of in records.iter().filter(|of| of.class.behaviour.wants_answers()) {
                assert_eq!(of.record.unfinished, 0, "{}", of.class.name);
                // On a machine that is busy.
                let mut reasons = of.record.invalid_because(None);
                reasons.retain(|reason| !reason.is_standstill());
                assert_eq!(reasons, [], "{}", of.class.name);
            }
        }
    }

    #[test]
    fn what_clients_themselves_do_not_wait_for_is_no_failure() {
        let mut record = Record {
            unfinished: 5,
            ..Record::default()
        };
        for kind in [Failure::Timeout, Failure::Timeout, Failure::Closed] {
            record.failures.count(kind);
        }
        let failed = all_kinds()
            .iter()
            .map(|class| class.behaviour.failed(&record))
            .collect::<Vec<_>>();
        // Fast, large, impatient, slow to read, and three that want no answers.
        assert_eq!(failed, [8, 8, 6, 3, 0, 0, 0]);
    }

    #[test]
    fn impatient_clients_give_up_and_try_again() {
        let patience = Duration::from_millis(2);
        let classes = [class(
            "impatient",
            1.0,
            Behaviour::Impatient {
                patience,
                think: THINK,
            },
        )];
        let stop = AtomicBool::new(false);
        let failed = AtomicU64::new(0);
        struct Look<'a>(&'a AtomicU64, &'a AtomicBool);
        impl Observer for Look<'_> {
            fn second(&self, _: &Class, second: &Second, _: &Latency) {
                self.0.fetch_add(second.failed, Ordering::Relaxed);
            }
            fn goes_on(&self) -> bool {
                self.0.load(Ordering::Relaxed) < 3 && self.1.goes_on()
            }
        }
        let look = Look(&failed, &stop);
        let records = run_mixed(
            &classes,
            plan(server(), 2),
            PATIENCE,
            u64::MAX,
            1,
            |_| Bytes::kept(7),
            &look,
        )
        .unwrap();
        let record = &records[0].record;
        assert!(record.failures.of(Failure::Timeout) >= 3, "{:?}", record.failures);
        assert!(record.connects > 2, "it tries again");
    }

    #[test]
    fn where_one_class_cannot_connect_all_end() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let failed = run_mixed(
            &all_kinds(),
            plan(nobody, 22),
            PATIENCE,
            u64::MAX,
            1,
            |_| Bytes::kept(10),
            &(),
        );
        assert!(matches!(failed, Err(LoadError::Connects { .. })), "{failed:?}");
    }

    #[test]
    fn who_is_told_to_end_while_it_connects_says_so() {
        let ended = run_mixed(
            &all_kinds(),
            plan(server(), 22),
            PATIENCE,
            u64::MAX,
            1,
            |_| Bytes::kept(10),
            &AtomicBool::new(true),
        );
        assert!(
            matches!(ended, Err(LoadError::Interrupted { made: 0, .. })),
            "{ended:?}"
        );
    }

    #[test]
    fn who_would_have_none_has_one_of_who_has_most() {
        let classes = [98.0, 1.0, 1.0].map(|weight| class("c", weight, Behaviour::Idle));
        assert_eq!(shares(&classes, 3), [1, 1, 1]);
        assert_eq!(shares(&classes, 10), [8, 1, 1]);
    }

    proptest! {
        #[test]
        fn shares_follow_the_weights_and_leave_nobody_out(
            weights in prop::collection::vec(0.01_f64..100.0, 1..8),
            more in 0_usize..5_000,
        ) {
            let classes: Vec<Class> = weights.iter().map(|&weight| class("c", weight, Behaviour::Idle)).collect();
            let connections = classes.len() + more;
            let shares = shares(&classes, connections);
            prop_assert_eq!(shares.iter().sum::<usize>(), connections);
            prop_assert!(shares.iter().all(|&share| share > 0));
            let whole: f64 = weights.iter().sum();
            for (share, weight) in shares.iter().zip(&weights) {
                let exact = weight / whole * connections as f64;
                prop_assert!((*share as f64) < exact + 1.0 + 1e-9 || *share == 1, "{share} for {exact}");
            }
        }
    }
}
