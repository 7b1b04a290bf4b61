//! Groups of clients that talk to a server, from threads of their own: what experiments about group messages share.
//!
//! Who says what and who must hear it is [`threadgauge_load`]'s business. Here is which thread has which groups, and
//! what all of them together came to.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_load::{Arrivals, Codec, Groups, Latency, Load, Needs, Plan as Members, Tally, preflight};
use threadgauge_machine::{CpuList, Severity, pin_thread};
use threadgauge_results::Table;

/// Members of a group.
pub const GROUP: u64 = 10;
/// What does not come within this time is lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of arrivals and of who sends: every server has the same.
const SEED: u64 = 1;

/// Before what is measured: until the server's memory and the clients' turns are as they stay.
pub const WARM_UP: Duration = Duration::from_millis(100);

/// Connections of the control of a saturated run: half of the 1,000 of most figures.
pub const HALF: u64 = 500;
/// How far a delivery's CPU time may then differ.
const UNCHANGED: [f64; 2] = [0.97, 1.03];

/// Refuses a case whose connections do not fill their groups.
///
/// # Errors
///
/// That `connections` must be a multiple of [`GROUP`].
pub fn fills_groups(params: &Params, connections: u64) -> Result<(), CaseError> {
    if connections.is_multiple_of(GROUP) {
        return Ok(());
    }
    let wanted = format!("a multiple of {GROUP}, the members of a group");
    Err(refused(params, "connections", &wanted))
}

/// What a case takes whose connections are made, talk for a warm-up and a span, and end.
#[must_use]
pub fn takes(connections: u64, span_ms: u64) -> Duration {
    // In each of the two spans every member speaks once at least.
    WARM_UP + Duration::from_millis(100 + span_ms) + Duration::from_micros(connections * 100)
}

/// Whether the clients are a part of what is measured: of each of `what`, the server's CPU time of a delivery with
/// [`HALF`] the connections and with all. None where nothing was measured.
#[must_use]
pub fn halved(
    view: &View<'_>,
    what: &str,
    halves: impl IntoIterator<Item = (String, Statistic, Statistic)>,
) -> Option<Table> {
    let row = |(name, half, whole): (String, Statistic, Statistic)| {
        let ratio = half.over(whole);
        let [low, high] = view.estimate(&ratio)?.ci95?;
        let unchanged = match UNCHANGED {
            [least, most] if least <= low && high <= most => "yes",
            [least, most] if high < least || most < low => "no",
            _ => "open",
        };
        Some(vec![name, view.shown(&ratio, "ratio"), unchanged.to_owned()])
    };
    let rows: Vec<_> = halves.into_iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| {
        table(
            "halved",
            "Half the connections",
            "Where it changes, the figure depends on how many clients there are, and is to be quoted with their number.",
            [
                what,
                &format!("CPU time of a delivery: {HALF} connections over twice as many"),
                "within 3 %",
            ],
            rows,
        )
    })
}

/// Who is there, and what they speak.
#[derive(Clone, Copy, Debug)]
pub struct GroupClients {
    /// Where the server listens.
    pub server: SocketAddr,
    /// Its protocol.
    pub codec: &'static dyn Codec,
    /// In all groups; a multiple of [`GROUP`].
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

/// Whether this machine has room for so many connections.
///
/// # Errors
///
/// Skipped where it has not, with what lacks and how to have it.
pub fn has_room(connections: u64) -> Result<(), CaseError> {
    let needs = Needs {
        connections,
        is_local: true,
        server: None,
    };
    // Groups take as many loopback addresses as they need ports of.
    let serious = preflight(&needs)
        .into_iter()
        .find(|item| item.severity == Severity::Serious && item.subject != "local ports");
    match serious {
        None => Ok(()),
        Some(item) => {
            let fix = item
                .fix
                .map_or_else(String::new, |fix| format!("; to have them: {fix}"));
            let says = format!("{}{fix}", item.says);
            Err(CaseError::Skipped(Lack::new(Need::System, says)))
        }
    }
}

/// The clients: one thread for each of their CPUs, or for every other one that they share with the server. Dropped,
/// they leave.
#[derive(Debug)]
pub struct Drivers(Vec<Driver>);

/// A thread of clients, which does as it is told.
#[derive(Debug)]
struct Driver {
    /// Dropped, it ends the thread.
    asks: Option<Sender<Ask>>,
    told: Receiver<Result<Told, CaseError>>,
    thread: Option<JoinHandle<()>>,
}

/// How to talk, and for how long.
type Ask = (Load, Duration);

/// What one thread of clients came to: nothing, once it has connected.
type Told = Option<Talk>;

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
        let groups = count(clients.connections / GROUP);
        let places = places(cpus, groups);
        let threads = places.len();
        let mut drivers = Self(Vec::new());
        let mut first = 0;
        for (i, cpus) in places.into_iter().enumerate() {
            let own = groups / threads + usize::from(i < groups % threads);
            let clients = Clients {
                clients,
                cpus,
                first_group: first,
                groups: own,
            };
            drivers.0.push(Driver::start(clients)?);
            first += own;
        }
        drivers
            .0
            .iter()
            .try_for_each(|driver| driver.told().map(|_| ()))?;
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
            // One that is gone says so when it is asked what it did.
            let _ = driver.asks.as_ref().map(|asks| asks.send((load, span)));
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
            let Some(Talk { tally, waited }) = driver.told()? else {
                continue;
            };
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

impl Driver {
    fn start(clients: Clients) -> Result<Self, CaseError> {
        let (asks, asked) = channel();
        let (tell, told) = channel();
        let thread = thread::Builder::new()
            .name("clients".to_owned())
            .spawn(move || clients.serve(&asked, &tell))
            .map_err(|error| CaseError::failed("starting a thread of clients", error))?;
        Ok(Self {
            asks: Some(asks),
            told,
            thread: Some(thread),
        })
    }

    /// What it tells next. It gives up by itself what does not come.
    fn told(&self) -> Result<Told, CaseError> {
        let gone = |error| CaseError::failed("a thread of clients ended", error);
        self.told.recv().map_err(gone)?
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // It has told of what was wrong.
            let _ = thread.join();
        }
    }
}

/// What a thread of clients is to do.
struct Clients {
    clients: GroupClients,
    cpus: CpuList,
    first_group: usize,
    groups: usize,
}

impl Clients {
    /// Connects, then talks as it is asked to, until nobody asks any more.
    fn serve(self, asked: &Receiver<Ask>, tell: &Sender<Result<Told, CaseError>>) {
        let mut groups = match self.connect() {
            Ok(groups) => groups,
            Err(error) => {
                // Fails where nobody listens any more.
                let _ = tell.send(Err(error));
                return;
            }
        };
        let mut told = tell.send(Ok(None));
        while let (Ok(()), Ok((load, span))) = (&told, asked.recv()) {
            told = tell.send(talk(&mut groups, load, span).map(Some));
        }
    }

    fn connect(&self) -> Result<Groups, CaseError> {
        pin_thread(&self.cpus).map_err(|error| CaseError::failed("pinning clients", error))?;
        let group_size = count(GROUP);
        let members = Members {
            connections: self.groups * group_size,
            group_size,
            payload_bytes: count(self.clients.payload_bytes).into(),
            patience: PATIENCE,
        };
        Groups::connect_beside(self.clients.server, self.clients.codec, members, self.first_group)
            .map_err(|error| CaseError::failed("connecting the clients", error))
    }
}

fn talk(groups: &mut Groups, load: Load, span: Duration) -> Result<Talk, CaseError> {
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

/// Where each thread of clients runs; never more of them than groups.
fn places(cpus: &Cpus, groups: usize) -> Vec<CpuList> {
    let clients = &cpus.clients;
    if clients.iter().all(|cpu| !cpus.server.contains(cpu)) {
        let own = clients.iter().map(|cpu| CpuList::new([cpu]));
        return own.take(groups.max(1)).collect();
    }
    let count = (clients.len() / 2).clamp(1, groups.max(1));
    vec![clients.clone(); count]
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
