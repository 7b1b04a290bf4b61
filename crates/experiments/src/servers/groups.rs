//! Groups of clients that talk to a server, from threads of their own: what experiments about group messages share.
//!
//! Who says what and who must hear it is [`threadgauge_load`]'s business. Here is which thread has which groups, and
//! what all of them together came to.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;

use super::clients::{Driver, WARM_UP, part_of, places};
use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_load::{Arrivals, Codec, Groups, Latency, Load, Plan as Members, Tally};

/// Members of a group.
pub const GROUP: u64 = 10;
/// What does not come within this time is lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of arrivals and of who sends: every server has the same.
const SEED: u64 = 1;

/// Connections of the control of a saturated run: half of the 1,000 of most figures.
pub const HALF: u64 = 500;
/// Refuses a case whose connections do not fill their groups of [`GROUP`].
///
/// # Errors
///
/// That `connections` must be a multiple of it.
pub fn fills_groups(params: &Params, connections: u64) -> Result<(), CaseError> {
    fills_groups_of(GROUP, params, connections)
}

/// The same of groups with so many members.
///
/// # Errors
///
/// That `connections` must be a multiple of it.
pub fn fills_groups_of(group: u64, params: &Params, connections: u64) -> Result<(), CaseError> {
    if connections.is_multiple_of(group) {
        return Ok(());
    }
    let wanted = format!("a multiple of {group}, the members of a group");
    Err(refused(params, "connections", &wanted))
}

/// What a case takes whose connections are made, talk for a warm-up and a span, and end.
#[must_use]
pub fn takes(connections: u64, span_ms: u64) -> Duration {
    // In each of the two spans every member speaks once at least.
    WARM_UP + Duration::from_millis(100 + span_ms) + Duration::from_micros(connections * 100)
}

/// Who is there, and what they speak.
#[derive(Clone, Copy, Debug)]
pub struct GroupClients {
    /// Where the server listens.
    pub server: SocketAddr,
    /// Its protocol.
    pub codec: &'static dyn Codec,
    /// Members of a group.
    pub group: u64,
    /// In all groups; a multiple of `group`.
    pub connections: u64,
    /// Of a message, without what the protocol adds.
    pub payload_bytes: u64,
}

/// When members send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Each has so many messages on their way, and at least one.
    Outstanding(u64),
    /// All together cause so many deliveries a second, whatever becomes of those before.
    Rate(u64),
}

/// The clients, in [as many threads as have a CPU](places). Dropped, they leave.
#[derive(Debug)]
pub struct Drivers(Vec<Driver<Ask, Talk>>);

/// How to talk, and for how long.
type Ask = (Load, Duration);

/// What one thread of clients came to.
#[derive(Debug)]
struct Talk {
    tally: Tally,
    /// How long it was ready and had no CPU.
    waited: Duration,
}

/// What all of them came to.
#[derive(Debug)]
pub struct Talked {
    /// Messages that others received, each checked.
    pub deliveries: u64,
    /// Of the one that took longest.
    pub elapsed: Duration,
    /// Of all of them.
    pub cpu: Duration,
    /// Of deliveries, from the intended start of their message; empty without a fixed rate, which alone has one.
    pub latency: Latency,
    /// Of messages, until the last of their group has them.
    pub last: Latency,
    /// The share of its time in which the busiest ran or waited for a CPU.
    pub wants: f64,
}

impl Talked {
    /// The share of its time that a thread of clients was on a CPU, in the mean.
    #[must_use]
    pub fn cpu_share(&self, threads: usize) -> f64 {
        self.cpu.as_secs_f64() / self.elapsed.as_secs_f64() / threads.max(1) as f64
    }
}

impl Drivers {
    /// Connects all, and comes back when the server has answered every greeting. Blocks meanwhile.
    ///
    /// # Errors
    ///
    /// If a connection fails, or a greeting is not answered.
    pub fn connect(clients: GroupClients, cpus: &Cpus) -> Result<Self, CaseError> {
        let groups = count(clients.connections / clients.group);
        let places = places(cpus, groups);
        let threads = places.len();
        let mut drivers = Self(Vec::new());
        let mut first = 0;
        for (i, cpus) in places.into_iter().enumerate() {
            let own = part_of(groups, i, threads);
            let connect = move || clients.connect(first, own);
            drivers.0.push(Driver::start(cpus, connect, talk)?);
            first += own;
        }
        drivers.0.iter().try_for_each(Driver::connected)?;
        Ok(drivers)
    }

    /// How many threads they are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.0.len()
    }

    /// All of them talk for `span`, and until all is delivered. Each delivery is checked. Blocks meanwhile.
    ///
    /// # Errors
    ///
    /// If a connection fails, a delivery is not as it must be, or under a fixed rate not the server was measured.
    pub fn talk(&self, demand: Demand, span: Duration) -> Result<Talked, CaseError> {
        for (driver, seed) in self.0.iter().zip(SEED..) {
            let load = match demand {
                Demand::Outstanding(messages) => Load::Closed {
                    outstanding: NonZeroUsize::new(count(messages)).unwrap_or(NonZeroUsize::MIN),
                },
                Demand::Rate(deliveries) => Load::Open {
                    deliveries_per_second: deliveries as f64 / self.0.len() as f64,
                    arrivals: Arrivals::Poisson,
                    seed,
                },
            };
            driver.ask((load, span));
        }
        let mut all = Talked {
            deliveries: 0,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            latency: Latency::default(),
            last: Latency::default(),
            wants: 0.0,
        };
        for driver in &self.0 {
            let Talk { tally, waited } = driver.told()?;
            if let Some(reason) = tally.invalid() {
                return Err(CaseError::Failed(format!("the load is not valid: {reason}")));
            }
            all.deliveries += tally.deliveries;
            all.elapsed = all.elapsed.max(tally.elapsed);
            all.cpu += tally.cpu;
            all.latency.merge(&tally.latency);
            all.last.merge(&tally.last);
            let wants = (tally.cpu + waited).as_secs_f64() / tally.elapsed.as_secs_f64();
            all.wants = all.wants.max(wants.min(1.0));
        }
        Ok(all)
    }
}

impl GroupClients {
    /// Those of so many groups, beside others.
    fn connect(&self, first_group: usize, groups: usize) -> Result<Groups, CaseError> {
        let group_size = count(self.group);
        let members = Members {
            connections: groups * group_size,
            group_size,
            payload_bytes: count(self.payload_bytes).into(),
            patience: PATIENCE,
        };
        Groups::connect_beside(self.server, self.codec, members, first_group)
            .map_err(|error| CaseError::failed("connecting the clients", error))
    }
}

fn talk(groups: &mut Groups, (load, span): Ask) -> Result<Talk, CaseError> {
    let before = waited();
    let tally = groups
        .talk(load, span)
        .map_err(|error| CaseError::failed("groups that talk", error))?;
    Ok(Talk {
        tally,
        waited: waited().saturating_sub(before),
    })
}

/// A number of a case, all of which are small.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// How long the calling thread was ready and had no CPU until now; nothing where the kernel does not count it.
fn waited() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let field = text
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|ns| ns.parse().ok());
    Duration::from_nanos(field.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_a_thread_for_each_of_their_cpus_and_for_half_of_shared_ones() {
        let of = |server: &str, clients: &str, groups| -> Vec<String> {
            let cpus = Cpus {
                server: server.parse().unwrap(),
                clients: clients.parse().unwrap(),
            };
            places(&cpus, groups).iter().map(ToString::to_string).collect()
        };
        assert_eq!(of("0", "1", 100), ["1"]);
        assert_eq!(of("0", "1-3", 100), ["1", "2", "3"]);
        assert_eq!(of("0", "1-3", 2), ["1", "2"]);
        assert_eq!(of("0-1", "0-1", 100), ["0-1"]);
        assert_eq!(of("0-3", "0-3", 100), ["0-3", "0-3"]);
        assert_eq!(of("0", "0", 100), ["0"]);
    }
}
