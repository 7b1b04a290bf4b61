//! The cases of `chat`, and what each of them measures.

use threadgauge_lab::point::{Parameter, Value, refused};
use threadgauge_lab::prelude::*;

use crate::guests::{Guest, guest};
use crate::libraries::Library;
use crate::servers::Design;

/// `guests/c/servers/chat_threads.c`.
pub(crate) const CHAT_THREADS: Guest = guest!("chat_threads");

/// Wall time over messages sent and received.
pub(super) const TIME: Metric = metric("ns_per_message", "ns");
/// VolanoMark's score: messages sent and received a second.
pub(crate) const SCORE: Metric = metric("messages_per_s", "messages/s");
/// CPU time of all of the server's threads, over messages sent and received.
pub(super) const SERVER: Metric = metric("server_cpu_ns_per_message", "ns");
/// The same of the users.
pub(super) const USERS: Metric = metric("users_cpu_ns_per_message", "ns");
/// How busy the users kept their CPUs.
pub(super) const BUSY: Metric = metric("users_cpu_share", "share");
/// Resident memory of the server while all were connected, over the connections.
pub(super) const MEMORY: Metric = metric("server_bytes_per_connection", "B");

/// What serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServedBy {
    /// The C program, as the original's server was built.
    TwoThreads,
    /// A design of ours in which connections can reach each other.
    Ours(Design),
}

words! {
    /// Who the users are.
    pub(super) enum Clients {
        /// Two blocking threads each, as the original's.
        Threads = "threads",
        /// One thread for all of them, on an event loop.
        Loop = "loop",
    }
}

point! {
    /// A point of the grid.
    pub(super) struct Case {
        design: ServedBy,
        clients: Clients,
        /// Whether who has sent a message gives up the CPU once: each user, and the server of two threads.
        yields: bool,
        connections: u64 = 20..=10_000,
        /// Of each user.
        messages: u64 = 1..=100_000,
        server_cpus: u64 = 1..,
        cpus: u64 = 1..,
        /// What the server of two threads is built on, where that is another library than the machine's.
        library: Option<Library>,
    }
}

/// Members of a room.
pub(super) const ROOM: u64 = 20;
/// The original's test on one machine.
pub(super) const USERS_OF_TEN_ROOMS: u64 = 10 * ROOM;
pub(super) const MESSAGES: u64 = 100;
/// Of a message, without the line's end.
pub(super) const MESSAGE_BYTES: usize = 127;
/// Of the network variant, and how many messages each sends there.
pub(super) const MANY: [u64; 5] = [1_000, 2_500, 5_000, 7_500, 10_000];
pub(super) const MESSAGES_OF_MANY: u64 = 4;
/// Who serves many, beyond the paper profile, where all do.
pub(super) const SERVES_MANY: [ServedBy; 4] = [
    ServedBy::THREADS,
    ServedBy::REACTOR,
    ServedBy::Ours(Design::ReactorPerCore),
    ServedBy::Ours(Design::HalfSyncHalfAsync),
];
/// Of ours, one thread a connection has two descriptors for each, of which there are often 20,000.
pub(super) const MOST_OF_THREADS: u64 = MANY[3];
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Of their CPUs, the most that users who are one thread may use.
pub(super) const BUSIEST: f64 = 0.85;

impl ServedBy {
    pub(super) const REACTOR: Self = Self::Ours(Design::Reactor);
    pub(super) const THREADS: Self = Self::Ours(Design::ThreadPerConnection);

    pub(super) fn all() -> impl Iterator<Item = Self> + Clone {
        let ours = Design::ALL.into_iter().filter(|design| design.shares_memory());
        std::iter::once(Self::TwoThreads).chain(ours.map(Self::Ours))
    }

    /// All but those whose threads are made beforehand, 200 at most, and serve one user each.
    pub(super) fn serves_many(self) -> bool {
        !matches!(self, Self::Ours(design) if design.has_threads() && self != Self::THREADS)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TwoThreads => "two-threads",
            Self::Ours(design) => design.name(),
        }
    }
}

impl Parameter for ServedBy {
    fn value(&self) -> Value {
        Value::from(self.name())
    }

    fn read(value: &Value) -> Option<Self> {
        Self::all().find(|served| served.value() == *value)
    }

    fn wanted() -> String {
        let names: Vec<&str> = Self::all().map(Self::name).collect();
        format!("one of {}", names.join(", "))
    }
}

impl Case {
    /// The original's test on one machine, of so many CPUs.
    pub(super) const fn original(cpus: u64) -> Self {
        Self {
            design: ServedBy::REACTOR,
            clients: Clients::Threads,
            yields: false,
            connections: USERS_OF_TEN_ROOMS,
            messages: MESSAGES,
            server_cpus: cpus,
            cpus,
            library: None,
        }
    }

    /// The same with the server of two threads a connection, on another thread library.
    pub(super) const fn on_library(cpus: u64, library: Library) -> Self {
        Self {
            design: ServedBy::TwoThreads,
            library: Some(library),
            ..Self::original(cpus)
        }
    }

    pub(super) fn program(self) -> &'static Guest {
        self.library.map_or(&CHAT_THREADS, Library::chat_threads)
    }

    /// Its network variant: half of the CPUs are the server's.
    pub(super) const fn network(cpus: u64) -> Self {
        Self {
            clients: Clients::Loop,
            connections: MANY[0],
            messages: MESSAGES_OF_MANY,
            server_cpus: cpus.div_ceil(2),
            ..Self::original(cpus)
        }
    }

    /// Reads parameters, which `--set` may have changed.
    pub(super) fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        if !case.connections.is_multiple_of(ROOM) {
            return Err(refused(params, "connections", "a multiple of 20, a room's"));
        }
        if case.library.is_some() && case.design != ServedBy::TwoThreads {
            return Err(refused(
                params,
                "design",
                "two-threads, where a thread library is named",
            ));
        }
        if case.clients == Clients::Loop && case.yields {
            return Err(refused(
                params,
                "yields",
                "no, where clients is loop: nobody is left to yield to",
            ));
        }
        if case.clients == Clients::Threads && case.connections > 2_000 {
            return Err(refused(
                params,
                "connections",
                "at most 2000 where clients is threads",
            ));
        }
        Ok(case)
    }

    pub(super) fn time(self) -> Statistic {
        TIME.of(self)
    }

    pub(super) const fn sent(self) -> u64 {
        self.connections * self.messages
    }

    /// Sent and received.
    pub(super) const fn all(self) -> u64 {
        self.sent() * ROOM
    }

    /// On a virtual machine with two CPUs.
    pub(super) const fn takes(self) -> Duration {
        let has_threads = self.has_threads();
        let ns = match self.clients {
            Clients::Loop if matches!(self.design, ServedBy::TwoThreads) => 14_000,
            Clients::Loop if has_threads => 8_000,
            Clients::Loop => 700,
            Clients::Threads if self.yields && has_threads => 4_000,
            Clients::Threads if self.yields || has_threads => 1_000,
            Clients::Threads => 500,
        };
        // On one CPU there is a switch where on two there is a wake-up.
        let ns = if self.cpus == 1 { 2 * ns } else { ns };
        let ns = match self.library {
            Some(Library::LinuxThreads) => 3 * ns,
            _ => ns,
        };
        Duration::from_micros(20_000 + self.all() * ns / 1_000 + self.connections * 60)
    }

    /// Whether a connection has a thread of its own.
    pub(super) const fn has_threads(self) -> bool {
        match self.design {
            ServedBy::TwoThreads => true,
            ServedBy::Ours(design) => design.has_threads(),
        }
    }

    pub(super) fn planned(self) -> PlannedCase {
        PlannedCase {
            skip: self
                .program()
                .missing()
                .filter(|_| self.design == ServedBy::TwoThreads),
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, self.takes())
        }
    }
}

/// The number of CPUs of the run: of the most that a case has.
pub(super) fn all_cpus(view: &View<'_>) -> u64 {
    view.all_cpus().unwrap_or(1)
}

pub(super) fn score(case: Case) -> Statistic {
    SCORE.of(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                Case::original(1).connections(30),
                "connections is 30; it must be a multiple of 20",
            ),
            (
                Case::original(1).clients(Clients::Loop).yields(true),
                "yields is yes; it must be no, where clients is loop",
            ),
            (
                Case::original(1).connections(4_000),
                "connections is 4000; it must be at most 2000",
            ),
        ] {
            let error = Case::possible(&case.params()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_serves_is_read_back_by_its_name() {
        for served in ServedBy::all() {
            assert_eq!(ServedBy::read(&served.value()), Some(served));
        }
        let alone = Value::from(Design::PreforkedAccept.name());
        assert_eq!(
            ServedBy::read(&alone),
            None,
            "its connections cannot reach each other"
        );
    }
}
