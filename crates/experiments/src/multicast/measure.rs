//! One sample of `multicast`: a server on its CPUs, groups that talk from the others, and what each thread did
//! meanwhile.

use std::fs;

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_load::Link;
use threadgauge_load::codec::Nats;
use threadgauge_machine::{Activity, CpuList, CpuTimes, ThreadActivity, parse_proc_stat};

use super::case::{
    CLIENT_WANTS, CLIENTS, CPU, Case, DELAY, DELAY_P99, LEAST_CPU, Load, MEMORY, MOST_CPU, NETWORK, READING,
    READING_WANTS, TIME, USED, WINDOW, WRITING, WRITING_WANTS,
};
use super::clogged;
use super::condition::{Network, Window};
use super::saturating::TRY;
use crate::servers::clients::{Addresses, WARM_UP, has_room};
use crate::servers::cpu_since;
use crate::servers::groups::{Demand, Drivers, GroupClients};

/// How a reactor that only writes calls its thread.
const WRITES: &str = "writes";

pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let mut cpus = Cpus::divided(usize::try_from(case.server_cpus).unwrap_or(usize::MAX))?;
    match case.load {
        Load::Talk => talk(case, &cpus, worker),
        Load::TalkFromLast => {
            cpus.clients = CpuList::new(cpus.clients.iter().last());
            talk(case, &cpus, worker)
        }
        Load::Clogged => clogged::run(case, &cpus, worker),
    }
}

fn talk(case: Case, cpus: &Cpus, worker: &mut Worker) -> Result<(), CaseError> {
    let (server, link) = start(case, cpus)?;
    let empty = server.activity()?;
    let clients = GroupClients {
        server: server.address(),
        codec: &Nats::ALIKE,
        group: case.group,
        connections: case.connections,
        payload_bytes: case.payload_bytes,
    };
    let drivers = Drivers::connect(clients, cpus)?;
    drivers.talk(Demand::Outstanding(1), WARM_UP)?;
    let window = match case.outstanding {
        Window::Messages(window) => window,
        Window::Saturating => case.one_of_each().saturating(|window| {
            let tried = drivers.talk(Demand::Outstanding(window), TRY)?;
            Ok(tried.deliveries as f64 / tried.elapsed.as_secs_f64())
        })?,
    };
    worker.record(WINDOW, window as f64);
    let demand = Demand::Outstanding(window);
    let before = (server.activity()?, cpu_times()?);
    let talked = drivers.talk(demand, Duration::from_millis(case.span_ms))?;
    let after = (cpu_times()?, server.activity()?);
    drop(drivers);
    server.end()?;
    drop(link);

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
        let sent = now.sent_bytes.saturating_sub(then.sent_bytes);
        let bytes = match case.link {
            // Each byte is received there, too.
            Network::Loopback => sent,
            Network::Limited(_) => sent + now.received_bytes.saturating_sub(then.received_bytes),
        };
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
    let shares = |cpus: &CpuList| busy_shares(&times_before, &times_after, cpus);
    let busy = shares(&cpus.server);
    // Where the clients are on them too, what they did says nothing of the server.
    let is_apart = case.server_cpus < case.cpus;
    if is_apart {
        worker.record(LEAST_CPU, smallest(&busy));
        worker.record(MOST_CPU, largest(&busy));
    }
    let of_clients = if is_apart {
        shares(&cpus.clients)
    } else {
        Vec::new()
    };
    for (metric, share) in USED.into_iter().zip(busy.into_iter().chain(of_clients)) {
        worker.record(metric, share);
    }
    Ok(())
}

/// A server that listens, and what is between it and this thread.
fn start(case: Case, cpus: &Cpus) -> Result<(Server, Option<Link>), CaseError> {
    let Network::Limited(rate) = case.link else {
        has_room(case.connections, Addresses::Many)?;
        return Ok((Server::ours(case.arguments(), cpus)?, None));
    };
    has_room(case.connections, Addresses::One)?;
    let lacks = |error| CaseError::Skipped(Lack::new(Need::System, format!("{error}")));
    let link = Link::new(rate).map_err(lacks)?;
    link.enter_server().map_err(lacks)?;
    let server = Server::ours_at(Link::SERVER, case.arguments(), cpus)?;
    // This process has one case: its threads are there from now on.
    link.enter().map_err(lacks)?;
    Ok((server, Some(link)))
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
            return Self {
                cpu_ns: cpu_since(before, after).as_nanos() as f64,
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
            cpu_ns: cpu_since(before, after).as_nanos() as f64,
            roles: Some(roles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
