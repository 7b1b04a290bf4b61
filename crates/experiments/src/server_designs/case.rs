//! The grid: loads, programs, designs, and what of them a profile has.

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;

use crate::servers::{ANSWER_FLOOR, Design, STEVENS_CLIENT};

/// The server's CPU time for a request: what one life with all requests used more than one with a few.
pub(super) const CPU: Metric = metric("server_cpu_ns_per_request", "ns");
/// What an answer took: the middle, and what 99 of 100 are not above.
pub(super) const MEDIAN: Metric = metric("answer_ns_p50", "ns");
pub(super) const P99: Metric = metric("answer_ns_p99", "ns");
pub(super) const RATE: Metric = metric("requests_per_second", "requests/s");
/// Of the whole life with all requests, start and end included.
pub(super) const WHOLE: Metric = metric("server_cpu_ns", "ns");
/// Of the life with a few.
pub(super) const START: Metric = metric("start_and_end_cpu_ns", "ns");
pub(super) const SWITCHES: Metric = metric("waits_per_request", "switches");
pub(super) const CLIENTS: Metric = metric("client_cpu_ns_per_request", "ns");
pub(super) const MEMORY: Metric = metric("memory_bytes", "B");

words! {
    /// What the clients do.
    pub(super) enum Load {
        /// 4,000 bytes of `bytes`, each by a connection of its own.
        Short = "short",
        /// The same, a hundred by a connection.
        Long = "long",
        /// Connections that the server closes at once (`null`): nothing but accepting.
        Accept = "accept",
        /// Messages of 128 bytes that come back, on connections that are made beforehand.
        Echo = "echo",
    }
}

words! {
    /// Whose server.
    pub(super) enum Program { C = "c", Ours = "threadgauge" }
}

point! {
    /// A point of the grid.
    pub(super) struct Case {
        load: Load,
        program: Program,
        design: Design,
        clients: u64 = 1..=1024,
        requests: u64 = 1..=1_000_000,
        cpus: u64 = 1..,
    }
}

/// At once, as two machines with five processes each.
pub(super) const AT_ONCE: u64 = 10;
pub(super) const BYTES: u64 = 4000;
/// Connections of `echo`: where a thread for each is bearable, and many.
pub(super) const CROWDS: [u64; 2] = [64, 1000];

pub(super) const OF_STEVENS: [Design; 9] = [
    Design::Iterative,
    Design::ProcessPerConnection,
    Design::PreforkedAccept,
    Design::PreforkedFileLock,
    Design::PreforkedMutex,
    Design::PreforkedDescriptor,
    Design::ThreadPerConnection,
    Design::PrethreadedMutex,
    Design::PrethreadedAcceptor,
];
pub(super) const FORK: Design = Design::ProcessPerConnection;
pub(super) const THREAD: Design = Design::ThreadPerConnection;
pub(super) const PREFORKED: [Design; 4] = [
    Design::PreforkedAccept,
    Design::PreforkedFileLock,
    Design::PreforkedMutex,
    Design::PreforkedDescriptor,
];
pub(super) const PRETHREADED: [Design; 2] = [Design::PrethreadedMutex, Design::PrethreadedAcceptor];
/// Whose units compete for connections.
pub(super) const COMPETING: [Design; 6] = [
    Design::PreforkedAccept,
    Design::PreforkedFileLock,
    Design::PreforkedMutex,
    Design::PreforkedDescriptor,
    Design::PreforkedReuseport,
    Design::PrethreadedMutex,
];

/// Stevens' clients at the iterative C program.
pub(super) const BASE: Case = Case {
    load: Load::Short,
    program: Program::C,
    design: Design::Iterative,
    clients: AT_ONCE,
    requests: 100,
    cpus: 1,
};

pub(super) const fn short(program: Program, design: Design) -> Case {
    BASE.program(program).design(design)
}

pub(super) const fn accept(program: Program, design: Design) -> Case {
    short(program, design).load(Load::Accept).clients(1)
}

pub(super) const fn echo(program: Program, design: Design, clients: u64) -> Case {
    short(program, design).load(Load::Echo).clients(clients)
}

pub(super) fn in_c() -> impl Iterator<Item = Design> + Clone {
    Design::ALL.into_iter().filter(|design| design.in_c().is_some())
}

/// Those that serve a thousand connections at once.
pub(super) fn many() -> impl Iterator<Item = Design> {
    let most = CROWDS[CROWDS.len() - 1];
    Design::ALL
        .into_iter()
        .filter(move |design| design.at_once() >= most)
}

impl Case {
    pub(super) fn of(self, metric: Metric) -> Statistic {
        metric.of(self.any(&["requests"]))
    }

    /// Reads parameters, which `--set` may have changed.
    pub(super) fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        let wants = |name, wanted: &str| Err(refused(params, name, wanted));
        let design = case.design;
        match (case.load, case.program) {
            (Load::Short | Load::Long, Program::C) if design.in_c().is_none() => wants(
                "program",
                "threadgauge, since there is no C program of the design",
            ),
            (Load::Echo, Program::C) if design != Design::Reactor => {
                wants("design", "reactor, since the C program of echo is one loop")
            }
            (Load::Accept, Program::C) if design != Design::PreforkedAccept => wants(
                "design",
                "preforked-accept, since the C program of accept has children that wait",
            ),
            (Load::Echo, _) if case.clients > design.at_once() => {
                wants("clients", "no more than the design serves at once")
            }
            _ => Ok(case),
        }
    }

    pub(super) fn planned(self) -> PlannedCase {
        let server = match (self.program, self.load) {
            (Program::Ours, _) => None,
            (Program::C, Load::Echo) => ANSWER_FLOOR.missing(),
            (Program::C, _) => self.design.in_c().and_then(|program| program.missing()),
        };
        let clients = match self.load {
            Load::Echo => None,
            _ => STEVENS_CLIENT.missing(),
        };
        PlannedCase {
            skip: server.or(clients),
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, self.takes())
        }
    }

    /// On a virtual machine with two CPUs.
    fn takes(self) -> Duration {
        let lives_ms = match self.program {
            Program::C => 12,
            Program::Ours => 40,
        };
        let each_us = match (self.load, self.design) {
            (Load::Short, FORK) => 300,
            (Load::Short, THREAD) => 75,
            (Load::Short, _) => 55,
            (Load::Long | Load::Echo, _) => 15,
            (Load::Accept, _) => 90,
        };
        let connecting_us = if self.load == Load::Echo {
            self.clients * 100
        } else {
            0
        };
        Duration::from_millis(lives_ms) + Duration::from_micros(self.total() * each_us + connecting_us)
    }

    pub(super) const fn total(self) -> u64 {
        self.clients * self.requests
    }
}

pub(super) fn plan(site: &Site) -> Plan {
    let profile = site.profile;
    let requests = profile.pick(100, 150, 500);
    let sized = |case: Case| match case.load {
        Load::Short | Load::Long => case.requests(requests),
        Load::Accept => case.requests(profile.pick(500, 500, 2_000)),
        Load::Echo => case.requests(profile.pick(20_000, 30_000, 100_000) / case.clients),
    };
    let both = |of: fn(Program, Design) -> Case| {
        let c = in_c().map(move |design| of(Program::C, design));
        c.chain(Design::ALL.map(|design| of(Program::Ours, design)))
    };
    let herd = accept(Program::C, Design::PreforkedAccept);
    let echoed = |design| echo(Program::Ours, design, CROWDS[0]);
    let mut cases: Vec<Case> = match profile {
        Profile::Quick => {
            let mut cases = OF_STEVENS.map(|design| short(Program::C, design)).to_vec();
            cases.extend([accept(Program::Ours, Design::PreforkedAccept), herd]);
            cases.extend([Design::Reactor, THREAD].map(echoed));
            cases
        }
        Profile::Standard | Profile::Paper => {
            let mut cases: Vec<Case> = both(short).collect();
            cases.extend(both(|program, design| short(program, design).cpus(2)));
            cases.extend(both(|program, design| short(program, design).load(Load::Long)));
            cases.extend(COMPETING.map(|design| accept(Program::Ours, design)));
            cases.push(herd);
            for clients in CROWDS {
                cases.push(echo(Program::C, Design::Reactor, clients));
                cases.extend(many().map(|design| echo(Program::Ours, design, clients)));
            }
            cases
        }
    };
    cases = cases.into_iter().map(sized).collect();
    Plan {
        cases: cases.into_iter().map(Case::planned).collect(),
        reference: BASE.any(&["requests"]),
        budget: Duration::from_secs(profile.pick(25, 330, 3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                short(Program::C, Design::Proactor),
                "program is c; it must be threadgauge, since there is no C program of the design",
            ),
            (
                echo(Program::C, THREAD, 2),
                "design is thread-per-connection; it must be reactor",
            ),
            (
                accept(Program::C, FORK),
                "design is process-per-connection; it must be preforked-accept",
            ),
            (
                echo(Program::Ours, Design::PreforkedAccept, 16),
                "clients is 16; it must be no more than the design serves at once",
            ),
        ] {
            let error = Case::possible(&case.params()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
