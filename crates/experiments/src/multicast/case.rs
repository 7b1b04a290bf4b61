//! The grid of `multicast`: which design serves how many connections, and who has which CPUs.

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_load::{LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES};

use super::condition::{Network, Window};
use super::saturating::OneOfEach;
use crate::servers::Design;
use crate::servers::clients::WARM_UP;
use crate::servers::groups::{GROUP, HALF, fills_groups_of};

/// Wall time of a delivery: the span over all deliveries.
pub(super) const TIME: Metric = metric("ns_per_delivery", "ns");
/// CPU time of all threads of the server for a delivery.
pub(super) const CPU: Metric = metric("server_cpu_ns_per_delivery", "ns");
/// From sending until the last of the others of a group has the message.
pub(super) const DELAY: Metric = metric("delay_ns_p50", "ns");
pub(super) const DELAY_P99: Metric = metric("delay_ns_p99", "ns");
/// CPUs' worth of time of the server's threads that read, of those that only write, and of the clients.
pub(super) const READING: Metric = metric("reading_cpus", "CPUs");
pub(super) const WRITING: Metric = metric("writing_cpus", "CPUs");
pub(super) const CLIENTS: Metric = metric("client_cpus", "CPUs");
/// Of the one of these threads that wanted it most: the share of the time in which it ran or waited for a CPU.
pub(super) const READING_WANTS: Metric = metric("busiest_reading_share", "share");
pub(super) const WRITING_WANTS: Metric = metric("busiest_writing_share", "share");
pub(super) const CLIENT_WANTS: Metric = metric("busiest_client_share", "share");
/// Of the server's CPUs the one that did least, and the one that did most: the share of the time that it was not idle.
pub(super) const LEAST_CPU: Metric = metric("least_used_cpu_share", "share");
pub(super) const MOST_CPU: Metric = metric("most_used_cpu_share", "share");
/// Of each of the first eight CPUs, the server's before the clients': the share of the time that it was not idle.
pub(super) const USED: [Metric; 8] = [
    metric("cpu_1_used_share", "share"),
    metric("cpu_2_used_share", "share"),
    metric("cpu_3_used_share", "share"),
    metric("cpu_4_used_share", "share"),
    metric("cpu_5_used_share", "share"),
    metric("cpu_6_used_share", "share"),
    metric("cpu_7_used_share", "share"),
    metric("cpu_8_used_share", "share"),
];
/// What each connection adds to the server's resident memory; the kernel's part of a socket is not in it.
pub(super) const MEMORY: Metric = metric("server_bytes_per_connection", "B");
/// What goes over the interface for a delivery, headers and what was sent to the server included.
pub(super) const NETWORK: Metric = metric("network_bytes_per_delivery", "B");
/// Operations that were pending on one connection at once.
pub(super) const PENDING: Metric = metric("operations_pending", "count");
/// Messages that each member had on their way.
pub(super) const WINDOW: Metric = metric("window_messages", "count");

words! {
    /// What the clients do.
    pub(super) enum Load {
        /// All members of all groups send as fast as they can.
        Talk = "talk",
        /// The same, and the clients have the last CPU alone, whatever CPUs the server has.
        TalkFromLast = "talk-from-last-cpu",
        /// One takes nothing any more, and when the server has something waiting for it, says something.
        Clogged = "clogged",
    }
}

point! {
    /// A point of the grid.
    pub(super) struct Case {
        load: Load,
        design: Design,
        /// Of a pool: threads that read, and that write. 0: as the design has it.
        readers: u64 = 0..=256,
        writers: u64 = 0..=256,
        connections: u64 = 2..=60_000,
        /// Members of a group: a message is read once and written to all others.
        group: u64 = 2..=100,
        /// Messages that each member has on their way.
        outstanding: Window,
        link: Network,
        payload_bytes: u64 = LEAST_PAYLOAD_BYTES as u64..=MOST_PAYLOAD_BYTES as u64,
        span_ms: u64 = 1..=60_000,
        /// The first of the case's CPUs are the server's, the others the clients'. Where none is left both have all.
        server_cpus: u64 = 1..,
        cpus: u64 = 1..,
    }
}

/// The load of claims that name none.
pub(super) const CLAIMED: u64 = 1_000;
/// The source's loads.
pub(super) const LOADS: [u64; 5] = [CLAIMED, 2_500, 5_000, 7_500, 10_000];
pub(super) const MOST: u64 = LOADS[4];
/// Those that show a curve where no claim asks for all.
const FEW_LOADS: [u64; 2] = [CLAIMED, MOST];
/// Beyond the source's: about what one process may have descriptors of where `ulimit -Hn` is 20,000; and more than a
/// loopback address has ports.
pub(super) const LIMITS: [u64; 2] = [19_000, 50_000];

/// Members of a group where the source's example has three writes for a read.
pub(super) const FOUR: u64 = 4;

/// One reactor, on one CPU of two.
pub(super) const REACTOR: Case = Case {
    load: Load::Talk,
    design: Design::Reactor,
    readers: 0,
    writers: 0,
    connections: CLAIMED,
    group: GROUP,
    outstanding: Window::Saturating,
    link: Network::Loopback,
    payload_bytes: 128,
    span_ms: 250,
    server_cpus: 1,
    cpus: 2,
};
/// The source's server before its optimisations.
pub(super) const ORIGINAL: Case = REACTOR.design(Design::OneHandlerReactor);
/// One that reads and one that writes.
pub(super) const SPLIT: Case = REACTOR.design(Design::SplitReactor);

/// The designs beside pools, as charts and tables name them.
pub(super) const DESIGNS: [Design; 6] = [
    Design::OneHandlerReactor,
    Design::Reactor,
    Design::SplitReactor,
    Design::ReactorPerCore,
    Design::Proactor,
    Design::ThreadPerConnection,
];
/// Those that are taken to the limit; beyond the first in the largest profile alone.
pub(super) const AT_THE_LIMIT: [Design; 3] = [Design::Reactor, Design::ReactorPerCore, Design::Proactor];
/// Designs on which members of a group can reach each other, however many there are.
fn serving() -> impl Iterator<Item = Design> {
    let all = Design::ALL.into_iter();
    all.filter(|design| design.shares_memory() && design.at_once() == u64::MAX)
}

/// The source's rule: reactors that read and that write as 1 to 3, as many as the server has CPUs, and one of each at
/// least.
pub(super) fn sized(server_cpus: u64) -> (u64, u64) {
    let all = server_cpus.max(2);
    let readers = ((all + 2) / 4).clamp(1, all - 1);
    (readers, all - readers)
}

/// CPUs up to which there is every ratio of a pool that fits; beyond, as many.
const EVERY_RATIO: u64 = 16;
/// CPUs up to which every ratio is measured in every profile and under every load.
const EVERY_RATIO_ALWAYS: u64 = 4;

/// The ratios of a pool for so many CPUs: every one that fits up to sixteen CPUs, and beyond one at every sixteenth of
/// them; and on any number one of each, and the source's 1 to 3.
pub(super) fn ratios(server_cpus: u64) -> Vec<(u64, u64)> {
    let parts = server_cpus.min(EVERY_RATIO);
    let fitting = (1..parts).map(|part| server_cpus * part / parts);
    with_usual(server_cpus, fitting.chain(few_readers(server_cpus)))
}

/// Those of them that are measured under every load: beyond four CPUs some.
fn few_ratios(server_cpus: u64) -> Vec<(u64, u64)> {
    match server_cpus {
        ..=EVERY_RATIO_ALWAYS => ratios(server_cpus),
        _ => with_usual(server_cpus, few_readers(server_cpus)),
    }
}

/// As many readers as the source's rule has, half of the CPUs, and as many as it has writers.
fn few_readers(server_cpus: u64) -> Vec<u64> {
    let few = sized(server_cpus).0;
    match server_cpus {
        1 => Vec::new(),
        _ => vec![few, server_cpus / 2, server_cpus - few],
    }
}

fn with_usual(server_cpus: u64, readers: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut ratios = vec![(1, 1), (1, 3)];
    for of in readers
        .into_iter()
        .map(|readers| (readers, server_cpus - readers))
    {
        if !ratios.contains(&of) {
            ratios.push(of);
        }
    }
    ratios
}

impl Case {
    /// A pool of so many reactors.
    pub(super) const fn pool(self, (readers, writers): (u64, u64)) -> Self {
        self.design(Design::ReactorPool).readers(readers).writers(writers)
    }

    /// The source's pool for the CPUs that the server has.
    pub(super) fn sized_pool(self) -> Self {
        self.pool(sized(self.server_cpus))
    }

    /// The same designs, one of which has its pipe to a client clogged.
    pub(super) const fn clogged(self) -> Self {
        self.load(Load::Clogged)
            .connections(GROUP)
            .outstanding(Window::Messages(1))
    }

    /// The source's server before its optimisations, with the same CPUs.
    pub(super) const fn original(self) -> Self {
        self.design(ORIGINAL.design)
    }

    /// The same with so many CPUs for the server, and the clients beside it on as many as before.
    pub(super) const fn with_clients_kept(self, server_cpus: u64) -> Self {
        let clients = self.cpus.saturating_sub(self.server_cpus);
        self.server_cpus(server_cpus).cpus(server_cpus + clients)
    }

    /// The same, where each member waits until all have its message before it sends the next.
    pub(super) const fn one_at_a_time(self) -> Self {
        self.outstanding(Window::Messages(1))
    }

    /// The same on the source's network.
    pub(super) fn on_its_network(self) -> Self {
        self.link(Network::hundred_mbit())
    }

    /// The same with so many CPUs for the server and the last one for the clients, the server's too if it has all.
    pub(super) const fn with_clients_on_last(self, server_cpus: u64) -> Self {
        match (server_cpus, self.cpus) {
            // Where they are anyway.
            (1, 2) => self.server_cpus(1),
            _ => self.load(Load::TalkFromLast).server_cpus(server_cpus),
        }
    }

    /// As charts and tables name its design.
    pub(super) fn label(self) -> String {
        match self.design {
            Design::ReactorPool => format!("pool {}:{}", self.readers, self.writers),
            design => design.name().to_owned(),
        }
    }

    /// Its figures, however long its span was.
    pub(super) fn of(self, metric: Metric) -> Statistic {
        metric.of(self.any(&["span_ms"]))
    }

    /// What `threadgauge serve` is started with.
    pub(super) fn arguments(self) -> Vec<String> {
        let most = self.connections + GROUP;
        let mut arguments = vec![
            "groups".to_owned(),
            "--design".to_owned(),
            self.design.name().to_owned(),
            "--max-connections".to_owned(),
            most.to_string(),
        ];
        if self.design == Design::ReactorPool {
            for (option, count) in [("--readers", self.readers), ("--writers", self.writers)] {
                arguments.extend([option.to_owned(), count.to_string()]);
            }
        }
        arguments
    }

    /// Reads parameters, which `--set` may have changed.
    pub(super) fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        let wants = |name, wanted: &str| Err(refused(params, name, wanted));
        if !serving().any(|design| design == case.design) {
            let names: Vec<&str> = serving().map(Design::name).collect();
            let names = names.join(", ");
            return wants(
                "design",
                &format!("one whose connections reach each other: {names}"),
            );
        }
        let is_pool = case.design == Design::ReactorPool;
        for (name, count) in [("readers", case.readers), ("writers", case.writers)] {
            if is_pool != (count > 0) {
                let wanted = if is_pool {
                    "at least 1"
                } else {
                    "0, but in a reactor-pool"
                };
                return wants(name, wanted);
            }
        }
        fills_groups_of(case.group, params, case.connections)?;
        if case.load == Load::Clogged && case.link != Network::Loopback {
            return wants("link", "loopback, where load is clogged");
        }
        if case.server_cpus > case.cpus {
            return wants("server_cpus", &format!("at most {}, as cpus", case.cpus));
        }
        Ok(case)
    }

    /// On a virtual machine with two CPUs.
    fn takes(self) -> Duration {
        if self.load == Load::Clogged {
            return Duration::from_millis(300);
        }
        let is_threads = self.design == Design::ThreadPerConnection;
        // Made and ended; and in each of the two spans every member speaks once at least.
        let of_connection_us = if is_threads { 300 } else { 85 };
        let finding = match self.outstanding {
            Window::Saturating => self.one_of_each().takes(),
            Window::Messages(_) => Duration::ZERO,
        };
        let link = match self.link {
            Network::Loopback => Duration::ZERO,
            Network::Limited(_) => Duration::from_millis(150),
        };
        Duration::from_millis(100 + self.span_ms)
            + WARM_UP
            + Duration::from_micros(self.connections * of_connection_us)
            + finding
            + link
    }

    /// What one message of each client comes to.
    pub(super) const fn one_of_each(self) -> OneOfEach {
        OneOfEach {
            deliveries: self.connections * (self.group - 1),
            payload_bytes: self.payload_bytes,
        }
    }

    fn planned(self) -> PlannedCase {
        PlannedCase {
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, self.takes())
        }
    }
}

/// How many CPUs the server has in turn: one, two, four and all.
pub(super) fn places(cpus: u64) -> Vec<u64> {
    let mut places: Vec<u64> = [1, 2, 4].into_iter().filter(|&some| some < cpus).collect();
    places.push(cpus);
    places
}

/// Every design, and every ratio of a pool that fits, with so many CPUs for the server.
pub(super) fn all_designs(base: Case) -> Vec<Case> {
    let [original, joined, split, rest @ ..] = DESIGNS.map(|design| base.design(design));
    let pools = ratios(base.server_cpus).into_iter().map(|ratio| base.pool(ratio));
    [original, joined, split]
        .into_iter()
        .chain(pools)
        .chain(rest)
        .collect()
}

/// The CPUs that the source's servers had.
pub(super) const SOURCES_CPUS: [u64; 3] = [1, 2, 4];
/// Those of the largest.
const SOURCES_MOST: u64 = SOURCES_CPUS[2];

/// `base` with so many CPUs for the server, as claims about the source's servers are judged. Where the largest leaves
/// CPUs to the clients, they have the same in all; elsewhere those that this server leaves them.
pub(super) const fn as_the_source(base: Case, server_cpus: u64) -> Case {
    match base.cpus > SOURCES_MOST {
        true => base.server_cpus(SOURCES_MOST).with_clients_kept(server_cpus),
        false => base.server_cpus(server_cpus),
    }
}

/// The source's six environments: one, two and four CPUs for the server, before its optimisations and with the pool.
/// None where the largest leaves no CPU to the clients.
pub(super) fn environments(base: Case) -> Vec<Case> {
    if base.cpus <= SOURCES_MOST {
        return Vec::new();
    }
    let with = SOURCES_CPUS.map(|server_cpus| as_the_source(base, server_cpus));
    with.map(|case| [case.original(), case.sized_pool()]).concat()
}

/// What claims over all loads need: the source's server before and its pool on each number of CPUs that leaves one to
/// the clients, or on the one that there is; and on two CPUs split reactors.
fn of_claims(base: Case) -> Vec<Case> {
    let fits = |&server_cpus: &u64| server_cpus == 1 || server_cpus < base.cpus;
    let mut cases = Vec::new();
    for server_cpus in SOURCES_CPUS.into_iter().filter(fits) {
        for load in LOADS {
            let case = as_the_source(base, server_cpus).connections(load);
            cases.extend([case.original(), case.sized_pool()]);
            if server_cpus == 2 {
                cases.push(case.design(SPLIT.design));
            }
        }
    }
    cases
}

/// What stands beside the cells of claims: one message at a time, the source's example of three writes for a read, and
/// its network.
pub(super) fn variations(base: Case) -> Vec<Case> {
    let compared = |case: Case| [case.original(), case, case.sized_pool()];
    let mut cases = Vec::new();
    cases.extend(compared(base.one_at_a_time()));
    let most = base.one_at_a_time().connections(MOST);
    cases.extend([most.original(), most.sized_pool()]);
    cases.extend(compared(base.group(FOUR)));
    cases.extend(compared(base.on_its_network()));
    cases
}

pub(super) fn plan(site: &Site) -> Plan {
    let cpus = (site.cpus.len() as u64).max(1);
    let base = REACTOR.cpus(cpus).span_ms(site.profile.pick(110, 130, 1000));
    let with = |server_cpus| base.server_cpus(server_cpus);
    let mut cases = match site.profile {
        Profile::Quick => vec![base],
        Profile::Standard => standard(base),
        Profile::Paper => {
            let on = |server_cpus| LOADS.map(|load| all_designs(with(server_cpus).connections(load)));
            let mut cases: Vec<Case> = places(cpus).into_iter().flat_map(on).flatten().collect();
            cases.extend(all_designs(base.connections(HALF)));
            cases.extend(of_claims(base));
            cases
        }
    };
    if cpus > 1 {
        cases.extend([cpus, 1].map(|server_cpus| base.with_clients_on_last(server_cpus)));
    }
    if cpus > SOURCES_MOST {
        let four = with(SOURCES_MOST);
        cases.extend([four.design(SPLIT.design), four.sized_pool().group(FOUR)]);
    }
    if site.profile != Profile::Quick {
        cases.extend(variations(base));
    }
    // Cases for which this machine has too few descriptors are skipped when they run.
    let at_the_limit: (&[Design], &[u64]) = match site.profile {
        Profile::Quick => (&[], &[]),
        Profile::Standard if cpus > SOURCES_MOST => (&[], &[]),
        Profile::Standard => (&AT_THE_LIMIT[..1], &LIMITS[..1]),
        Profile::Paper => (&AT_THE_LIMIT, &LIMITS),
    };
    for &load in at_the_limit.1 {
        let designs = at_the_limit.0.iter();
        cases.extend(designs.map(|&design| base.design(design).connections(load)));
    }
    let clogged = site
        .profile
        .pick(&[ORIGINAL.design, SPLIT.design][..], &DESIGNS, &DESIGNS);
    cases.extend(clogged.iter().map(|&design| base.design(design).clogged()));
    let has_every_ratio = |case: &Case| site.profile == Profile::Paper && case.connections == CLAIMED;
    let is_of_few = |case: &Case| few_ratios(case.server_cpus).contains(&(case.readers, case.writers));
    cases.retain(|case| case.readers == 0 || has_every_ratio(case) || is_of_few(case));
    let mut once: Vec<Case> = Vec::new();
    for case in cases {
        if !once.contains(&case) {
            once.push(case);
        }
    }
    Plan {
        cases: once.into_iter().map(Case::planned).collect(),
        reference: base.params(),
        budget: Duration::from_secs(site.profile.pick(25, 425, 3600)),
    }
}

/// Each design with 1,000 connections on one CPU, and with half of them; what claims over all loads need; curves
/// of one reactor, the source's and its pool on all CPUs. Where the largest of the source's servers leaves CPUs
/// to the clients, its six environments take what time there is; elsewhere each design is on all CPUs, too, and
/// some with the most connections.
fn standard(base: Case) -> Vec<Case> {
    let on_all = base.server_cpus(base.cpus);
    let mut cases = [base, base.connections(HALF)].map(all_designs).concat();
    cases.extend(of_claims(base));
    for load in FEW_LOADS {
        cases.push(base.connections(load));
        let on_all = on_all.connections(load);
        cases.extend([on_all.original(), on_all, on_all.sized_pool()]);
    }
    if base.cpus <= SOURCES_MOST {
        cases.extend(all_designs(on_all));
        let many = [Design::SplitReactor, Design::ReactorPerCore, Design::Proactor];
        cases.extend(many.map(|design| base.design(design).connections(MOST)));
    }
    cases
}
