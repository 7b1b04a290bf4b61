//! One sample of `multicast`: a server on its CPUs, groups that talk from the others, and what each thread did
//! meanwhile.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_load::codec::Nats;
use threadgauge_load::{Groups, Latency, Load as Closed, Needs, Plan, Tally, preflight};
use threadgauge_machine::{
    Activity, CpuList, CpuTimes, Severity, ThreadActivity, parse_proc_stat, pin_thread,
};

use super::case::{
    CLIENT_WANTS, CLIENTS, CPU, Case, DELAY, DELAY_P99, GROUP, LEAST_CPU, Load, MEMORY, MOST_CPU, NETWORK,
    READING, READING_WANTS, TIME, WARM_UP, WRITING, WRITING_WANTS,
};
use super::clogged;

/// What does not come within this time is lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// How a reactor that only writes calls its thread.
const WRITES: &str = "writes";

pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let cpus = Cpus::divided(count(case.server_cpus))?;
    match case.load {
        Load::Talk => talk(case, &cpus, worker),
        Load::Clogged => clogged::run(case, &cpus, worker),
    }
}

fn talk(case: Case, cpus: &Cpus, worker: &mut Worker) -> Result<(), CaseError> {
    has_room(case.connections)?;
    let server = Server::ours(case.arguments(), cpus)?;
    let empty = server.activity()?;
    let drivers = Drivers::connect(&server, case, cpus)?;
    drivers.talk(WARM_UP)?;
    let before = (server.activity()?, cpu_times()?);
    let talked = drivers.talk(Duration::from_millis(case.span_ms))?;
    let after = (cpu_times()?, server.activity()?);
    drop(drivers);
    server.end()?;

    let span_ns = talked.elapsed.as_nanos() as f64;
    let deliveries = talked.deliveries as f64;
    worker.record(TIME, span_ns / deliveries);
    for (metric, q) in [(DELAY, 0.5), (DELAY_P99, 0.99)] {
        // Fewer than a thousand messages have no 99th percentile.
        if let Some(ns) = talked.last.ns(q) {
            worker.record(metric, ns as f64);
        }
    }
    worker.record(CLIENTS, talked.cpu.as_nanos() as f64 / span_ns);
    worker.record(CLIENT_WANTS, talked.wants);

    let (before, times_before) = before;
    let (times_after, after) = after;
    let grown_kib = after.rss_kib.saturating_sub(empty.rss_kib);
    worker.record(MEMORY, grown_kib as f64 * 1024.0 / case.connections as f64);
    if let (Some(then), Some(now)) = (before.network, after.network) {
        let bytes = now.sent_bytes.saturating_sub(then.sent_bytes);
        worker.record(NETWORK, bytes as f64 / deliveries);
    }
    let used = Used::between(&before, &after);
    worker.record(CPU, used.cpu_ns / deliveries);
    if let Some([reading, writing]) = used.roles {
        worker.record(READING, reading.cpu_ns / span_ns);
        worker.record(READING_WANTS, (reading.wants_ns / span_ns).min(1.0));
        worker.record(WRITING, writing.cpu_ns / span_ns);
        worker.record(WRITING_WANTS, (writing.wants_ns / span_ns).min(1.0));
        let most = reading.wants_ns.max(writing.wants_ns) / span_ns;
        if talked.wants > most {
            worker.tag("clients-were-busiest");
        }
    }
    // Where the clients are on them too, what they did says nothing of the server.
    if case.server_cpus < case.cpus {
        let busy = busy_shares(&times_before, &times_after, &cpus.server);
        worker.record(LEAST_CPU, smallest(&busy));
        worker.record(MOST_CPU, largest(&busy));
    }
    Ok(())
}

/// Skips what cannot be on this machine.
fn has_room(connections: u64) -> Result<(), CaseError> {
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
            let mend = item
                .mend
                .map_or_else(String::new, |mend| format!("; to have them: {mend}"));
            Err(CaseError::Skipped(format!("{}{mend}", item.says)))
        }
    }
}

/// The clients: one thread for each of their CPUs, or for every other one that they share with the server. Dropped,
/// they leave.
struct Drivers(Vec<Driver>);

/// A thread of clients, which does as it is told.
struct Driver {
    /// Dropped, it ends the thread.
    spans: Option<Sender<Duration>>,
    told: Receiver<Result<Told, CaseError>>,
    thread: Option<JoinHandle<()>>,
}

/// What one thread of clients came to: nothing, once it has connected.
type Told = Option<Talk>;

struct Talk {
    tally: Tally,
    /// How long it was ready and had no CPU.
    waited: Duration,
}

/// What all of them came to.
struct Talked {
    deliveries: u64,
    /// Of the one that took longest.
    elapsed: Duration,
    cpu: Duration,
    last: Latency,
    /// The share of its time in which the busiest ran or waited for a CPU.
    wants: f64,
}

impl Drivers {
    fn connect(server: &Server, case: Case, cpus: &Cpus) -> Result<Self, CaseError> {
        let groups = count(case.connections / GROUP);
        let places = places(cpus, case.server_cpus < case.cpus, groups);
        let threads = places.len();
        let mut drivers = Self(Vec::new());
        let mut first = 0;
        for (i, cpus) in places.into_iter().enumerate() {
            let own = groups / threads + usize::from(i < groups % threads);
            let clients = Clients {
                server: server.address(),
                cpus,
                first_group: first,
                groups: own,
                payload_bytes: count(case.payload_bytes),
                outstanding: NonZeroUsize::new(count(case.outstanding)).unwrap_or(NonZeroUsize::MIN),
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

    /// All of them talk for `span`, and until all is delivered. Each delivery is checked.
    fn talk(&self, span: Duration) -> Result<Talked, CaseError> {
        for driver in &self.0 {
            let told = driver.spans.as_ref().map(|spans| spans.send(span));
            debug_assert!(told.is_some(), "they are told until they are dropped");
        }
        let mut all = Talked {
            deliveries: 0,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            last: Latency::default(),
            wants: 0.0,
        };
        for driver in &self.0 {
            let Some(Talk { tally, waited }) = driver.told()? else {
                continue;
            };
            all.deliveries += tally.deliveries;
            all.elapsed = all.elapsed.max(tally.elapsed);
            all.cpu += tally.cpu;
            all.last.merge(&tally.last);
            let wants = (tally.cpu + waited).as_secs_f64() / tally.elapsed.as_secs_f64();
            all.wants = all.wants.max(wants.min(1.0));
        }
        Ok(all)
    }
}

impl Driver {
    fn start(clients: Clients) -> Result<Self, CaseError> {
        let (spans, wanted) = channel();
        let (tell, told) = channel();
        let thread = thread::Builder::new()
            .name("clients".to_owned())
            .spawn(move || clients.serve(&wanted, &tell))
            .map_err(|error| CaseError::failed("starting a thread of clients", error))?;
        Ok(Self {
            spans: Some(spans),
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
        self.spans = None;
        if let Some(thread) = self.thread.take() {
            // It has told of what was wrong.
            let _ = thread.join();
        }
    }
}

/// What a thread of clients is to do.
struct Clients {
    server: SocketAddr,
    cpus: CpuList,
    first_group: usize,
    groups: usize,
    payload_bytes: usize,
    outstanding: NonZeroUsize,
}

impl Clients {
    /// Connects, then talks for each span that is wanted, until nobody wants any more.
    fn serve(self, wanted: &Receiver<Duration>, tell: &Sender<Result<Told, CaseError>>) {
        let mut groups = match self.connect() {
            Ok(groups) => groups,
            Err(error) => {
                // Fails where nobody listens any more.
                let _ = tell.send(Err(error));
                return;
            }
        };
        let mut told = tell.send(Ok(None));
        while let (Ok(()), Ok(span)) = (&told, wanted.recv()) {
            told = tell.send(self.talk(&mut groups, span).map(Some));
        }
    }

    fn connect(&self) -> Result<Groups, CaseError> {
        pin_thread(&self.cpus).map_err(|error| CaseError::failed("pinning clients", error))?;
        let group_size = count(GROUP);
        let plan = Plan {
            connections: self.groups * group_size,
            group_size,
            payload_bytes: self.payload_bytes,
            patience: PATIENCE,
        };
        Groups::connect_beside(self.server, &Nats::ALIKE, plan, self.first_group)
            .map_err(|error| CaseError::failed("connecting the clients", error))
    }

    fn talk(&self, groups: &mut Groups, span: Duration) -> Result<Talk, CaseError> {
        let before = waited();
        let load = Closed::Closed {
            outstanding: self.outstanding,
        };
        let tally = groups
            .talk(load, span)
            .map_err(|error| CaseError::failed("groups that talk", error))?;
        Ok(Talk {
            tally,
            waited: waited().saturating_sub(before),
        })
    }
}

/// A number of a case, all of which are small.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Where each thread of clients runs; never more of them than groups.
fn places(cpus: &Cpus, are_apart: bool, groups: usize) -> Vec<CpuList> {
    let clients = &cpus.clients;
    if are_apart {
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

fn cpu_times() -> Result<Vec<CpuTimes>, CaseError> {
    let text = fs::read_to_string("/proc/stat").map_err(|error| CaseError::failed("/proc/stat", error))?;
    Ok(parse_proc_stat(&text))
}

/// The share of the time that each of these CPUs was not idle.
fn busy_shares(before: &[CpuTimes], after: &[CpuTimes], of: &CpuList) -> Vec<f64> {
    let of_them = after.iter().filter(|now| of.contains(now.cpu));
    let share = |now: &CpuTimes| {
        let then = before.iter().find(|then| then.cpu == now.cpu)?;
        let part = now.since(then);
        let idle = part.idle + part.iowait;
        Some(1.0 - idle as f64 / part.total().max(1) as f64)
    };
    of_them.filter_map(share).collect()
}

/// What a server used between two looks.
struct Used {
    cpu_ns: f64,
    /// Of threads that read, or do both; and of those that only write. `None` where there are too many to look at.
    roles: Option<[Role; 2]>,
}

/// What threads that do the same used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Role {
    cpu_ns: f64,
    /// Of the one that wanted most, with the time that it waited for a CPU.
    wants_ns: f64,
}

impl Used {
    fn between(before: &Activity, after: &Activity) -> Self {
        if after.threads.is_empty() || before.threads.is_empty() {
            let cpu = after.cpu.saturating_sub(before.cpu);
            return Self {
                cpu_ns: cpu.as_nanos() as f64,
                roles: None,
            };
        }
        let mut roles = [Role::default(); 2];
        for now in &after.threads {
            let then = before.threads.iter().find(|then| then.tid == now.tid);
            let since = |of: fn(&ThreadActivity) -> Duration| {
                let earlier = then.map_or(Duration::ZERO, of);
                of(now).saturating_sub(earlier).as_nanos() as f64
            };
            let cpu_ns = since(|thread| thread.cpu);
            let waited_ns = since(|thread| thread.waited.unwrap_or_default());
            let role = &mut roles[usize::from(now.name.starts_with(WRITES))];
            role.cpu_ns += cpu_ns;
            role.wants_ns = role.wants_ns.max(cpu_ns + waited_ns);
        }
        Self {
            cpu_ns: roles.iter().map(|role| role.cpu_ns).sum(),
            roles: Some(roles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(server: &str, clients: &str) -> Cpus {
        Cpus {
            server: server.parse().unwrap(),
            clients: clients.parse().unwrap(),
        }
    }

    #[test]
    fn clients_have_a_thread_for_each_of_their_cpus_and_for_half_of_shared_ones() {
        let of = |cpus: Cpus, are_apart, groups| -> Vec<String> {
            let places = places(&cpus, are_apart, groups);
            places.iter().map(ToString::to_string).collect()
        };
        assert_eq!(of(cpus("0", "1"), true, 100), ["1"]);
        assert_eq!(of(cpus("0", "1-3"), true, 100), ["1", "2", "3"]);
        assert_eq!(of(cpus("0", "1-3"), true, 2), ["1", "2"]);
        assert_eq!(of(cpus("0-1", "0-1"), false, 100), ["0-1"]);
        assert_eq!(of(cpus("0-3", "0-3"), false, 100), ["0-3", "0-3"]);
        assert_eq!(of(cpus("0", "0"), false, 100), ["0"]);
    }

    fn thread(tid: i32, name: &str, cpu_ms: u64, waited_ms: u64) -> ThreadActivity {
        ThreadActivity {
            tid,
            name: name.to_owned(),
            cpu: Duration::from_millis(cpu_ms),
            waited: Some(Duration::from_millis(waited_ms)),
            ..ThreadActivity::default()
        }
    }

    #[test]
    fn threads_that_write_are_told_from_those_that_read() {
        let activity = |threads: Vec<ThreadActivity>| Activity {
            threads,
            ..Activity::default()
        };
        let before = activity(vec![
            thread(1, "threadgauge", 10, 1),
            thread(2, "writes-1", 20, 0),
        ]);
        let after = activity(vec![
            thread(1, "threadgauge", 110, 11),
            thread(2, "writes-1", 70, 0),
            thread(3, "writes-2", 20, 45),
        ]);
        let used = Used::between(&before, &after);
        let role = |cpu_ms: f64, wants_ms: f64| Role {
            cpu_ns: cpu_ms * 1e6,
            wants_ns: wants_ms * 1e6,
        };
        assert_eq!(used.roles, Some([role(100.0, 110.0), role(70.0, 65.0)]));
        assert_eq!(used.cpu_ns, 170e6);

        let mut many = activity(Vec::new());
        many.cpu = Duration::from_millis(30);
        let used = Used::between(&before, &many);
        assert_eq!((used.cpu_ns, used.roles), (30e6, None));
    }

    #[test]
    fn a_cpu_is_busy_but_where_it_is_idle() {
        let times = |cpu, user, softirq, idle| CpuTimes {
            cpu,
            user,
            softirq,
            idle,
            ..CpuTimes::default()
        };
        let before = [times(0, 5, 5, 5), times(1, 0, 0, 0), times(2, 0, 0, 0)];
        let after = [times(0, 10, 10, 15), times(1, 30, 0, 10), times(2, 9, 0, 0)];
        let busy = busy_shares(&before, &after, &"0-1".parse().unwrap());
        assert_eq!(busy, [0.5, 0.75]);
    }
}
