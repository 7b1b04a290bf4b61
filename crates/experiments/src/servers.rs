//! What experiments about servers share: the designs as they are compared, ours and plain C programs of the same, and
//! Stevens' client.
//!
//! A program of `guests/c/servers` is compiled by `build.rs`, carried inside the laboratory and run from memory, as all
//! guests are. Starting, watching and ending a server is [`threadgauge_lab::server`]'s business.

pub mod clients;
pub mod contenders;
pub mod groups;
pub mod nginx;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_machine::Activity;

use crate::guests::{Found, Guest, command, figures, guest};

/// `guests/c/servers/processes.c`: the designs that serve with processes, iterative among them.
pub const PROCESSES: Guest = guest!("processes");
/// `guests/c/servers/threads.c`: the designs that serve with threads.
pub const THREADS: Guest = guest!("threads");
/// `guests/c/servers/reactors.c`: the designs on event loops.
pub const REACTORS: Guest = guest!("reactors");
/// `guests/c/servers/answer_floor.c`: the least that a server of `echo` or `http` on epoll can do.
pub const ANSWER_FLOOR: Guest = guest!("answer_floor");
/// `guests/c/servers/event_loops.c`: `echo` by one loop that waits by epoll, by poll or by select.
pub const EVENT_LOOPS: Guest = guest!("event_loops");
/// `guests/c/servers/groups_floor.c`: the least that a server of group messages can do.
pub const GROUPS_FLOOR: Guest = guest!("groups_floor");
/// `guests/c/servers/accept_floor.c`: the least that accepting can cost.
pub const ACCEPT_FLOOR: Guest = guest!("accept_floor");
/// `guests/c/servers/stevens_client.c`.
pub const STEVENS_CLIENT: Guest = guest!("stevens_client");

impl Guest {
    /// Starts it as a server with these arguments on the server's CPUs, and comes back when it listens.
    ///
    /// # Errors
    ///
    /// As [`Guest::load`] and [`Server::start`].
    pub fn serve(&self, arguments: &[&dyn ToString], cpus: &Cpus) -> Result<Server, CaseError> {
        let program = self.load()?;
        let mut command = command(&program);
        command.args(arguments.iter().map(|argument| argument.to_string()));
        Server::start(command, cpus)
    }
}

words! {
    /// A design, as `threadgauge serve --design` and its C program call it. In the order of Stevens' table, then of
    /// complexity.
    pub enum Design {
        /// One connection after the other: the baseline of process control.
        Iterative = "iterative",
        /// A process for each connection.
        ProcessPerConnection = "process-per-connection",
        /// Children made beforehand, all of which accept.
        PreforkedAccept = "preforked-accept",
        /// … a lock on a file decides who accepts.
        PreforkedFileLock = "preforked-file-lock",
        /// … a mutex in shared memory decides.
        PreforkedMutex = "preforked-mutex",
        /// … the parent accepts and passes descriptors.
        PreforkedDescriptor = "preforked-descriptor",
        /// … each has a listening socket of its own.
        PreforkedReuseport = "preforked-reuseport",
        /// A thread for each connection.
        ThreadPerConnection = "thread-per-connection",
        /// Threads made beforehand; a mutex decides who accepts.
        PrethreadedMutex = "prethreaded-mutex",
        /// … the main thread accepts and hands over.
        PrethreadedAcceptor = "prethreaded-acceptor",
        /// One event loop.
        Reactor = "reactor",
        /// The same, where a connection waits to be read or to be written; it has no C program.
        OneHandlerReactor = "one-handler-reactor",
        /// One that reads and one that writes.
        SplitReactor = "split-reactor",
        /// Several that read and several that write.
        ReactorPool = "reactor-pool",
        /// One for each CPU.
        ReactorPerCore = "reactor-per-core",
        /// The same over io_uring; it has no C program.
        Proactor = "proactor",
        /// Threads that take turns in waiting for an event.
        LeaderFollowers = "leader-followers",
        /// One thread receives, others compute.
        HalfSyncHalfAsync = "half-sync-half-async",
    }
}

/// How many processes or threads are made beforehand, as in Stevens' measurement.
pub const WORKERS: u64 = 15;
/// Of a pool of reactors: those that read and those that write, in the ratio of source 002.
const READERS: u64 = 1;
const WRITERS: u64 = 3;

/// What says how many units a design has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    /// Nothing: one, or as many as there are clients or CPUs.
    Unset,
    Workers,
    ReadersAndWriters,
}

impl Design {
    const fn units(self) -> Units {
        match self {
            Self::PreforkedAccept
            | Self::PreforkedFileLock
            | Self::PreforkedMutex
            | Self::PreforkedDescriptor
            | Self::PreforkedReuseport
            | Self::PrethreadedMutex
            | Self::PrethreadedAcceptor
            | Self::LeaderFollowers
            | Self::HalfSyncHalfAsync => Units::Workers,
            Self::ReactorPool => Units::ReadersAndWriters,
            Self::Iterative
            | Self::ProcessPerConnection
            | Self::ThreadPerConnection
            | Self::Reactor
            | Self::OneHandlerReactor
            | Self::SplitReactor
            | Self::ReactorPerCore
            | Self::Proactor => Units::Unset,
        }
    }

    /// Its row of Stevens' table.
    #[must_use]
    pub const fn row(self) -> Option<u64> {
        Some(match self {
            Self::Iterative => 0,
            Self::ProcessPerConnection => 1,
            Self::PreforkedAccept => 2,
            Self::PreforkedFileLock => 3,
            Self::PreforkedMutex => 4,
            Self::PreforkedDescriptor => 5,
            Self::ThreadPerConnection => 6,
            Self::PrethreadedMutex => 7,
            Self::PrethreadedAcceptor => 8,
            _ => return None,
        })
    }

    /// Whether it serves with processes, the iterative one among them.
    const fn is_of_processes(self) -> bool {
        matches!(
            self,
            Self::Iterative
                | Self::ProcessPerConnection
                | Self::PreforkedAccept
                | Self::PreforkedFileLock
                | Self::PreforkedMutex
                | Self::PreforkedDescriptor
                | Self::PreforkedReuseport
        )
    }

    /// Whether connections live beside each other in one process, so that they can reach each other.
    #[must_use]
    pub const fn shares_memory(self) -> bool {
        !self.is_of_processes()
    }

    /// Whether each connection has a thread of its own, made for it or beforehand.
    #[must_use]
    pub const fn has_threads(self) -> bool {
        matches!(
            self,
            Self::ThreadPerConnection | Self::PrethreadedMutex | Self::PrethreadedAcceptor
        )
    }

    /// The C program that has it.
    #[must_use]
    pub const fn in_c(self) -> Option<&'static Guest> {
        match self {
            _ if self.is_of_processes() => Some(&PROCESSES),
            _ if self.has_threads() => Some(&THREADS),
            Self::OneHandlerReactor | Self::Proactor => None,
            _ => Some(&REACTORS),
        }
    }

    /// How many connections it surely serves at the same time.
    #[must_use]
    pub const fn at_once(self) -> u64 {
        match self {
            // Of several, two may fall to the same child, where one waits for the other.
            Self::Iterative | Self::PreforkedReuseport => 1,
            Self::PreforkedAccept
            | Self::PreforkedFileLock
            | Self::PreforkedMutex
            | Self::PreforkedDescriptor
            | Self::PrethreadedMutex
            | Self::PrethreadedAcceptor => WORKERS,
            _ => u64::MAX,
        }
    }

    /// Starts `threadgauge serve PROTOCOL` of this design.
    ///
    /// # Errors
    ///
    /// As [`Server::ours`].
    pub fn serve(self, protocol: &str, cpus: &Cpus) -> Result<Server, CaseError> {
        Server::ours(self.arguments(protocol), cpus)
    }

    /// As [`serve`](Self::serve), and where each thread made beforehand serves one connection there are as many as
    /// connections.
    ///
    /// # Errors
    ///
    /// As [`Server::ours`].
    pub fn serve_all(self, protocol: &str, connections: u64, cpus: &Cpus) -> Result<Server, CaseError> {
        Server::ours(self.arguments_for(protocol, connections), cpus)
    }

    /// As [`serve`](Self::serve), run by this user where one is named.
    ///
    /// # Errors
    ///
    /// As [`Server::ours_as`].
    pub fn serve_as(self, user: Option<u32>, protocol: &str, cpus: &Cpus) -> Result<Server, CaseError> {
        let arguments = self.arguments(protocol);
        match user {
            Some(user) => Server::ours_as(user, arguments, cpus),
            None => Server::ours(arguments, cpus),
        }
    }

    fn arguments_for(self, protocol: &str, connections: u64) -> Vec<String> {
        let mut arguments = self.arguments(protocol);
        if self.has_threads()
            && self.units() == Units::Workers
            && let Some(workers) = arguments.last_mut()
        {
            *workers = connections.to_string();
        }
        arguments
    }

    fn arguments(self, protocol: &str) -> Vec<String> {
        let mut arguments = [protocol, "--design", self.name()].map(str::to_owned).to_vec();
        let mut set = |option: &str, value: u64| arguments.extend([option.to_owned(), value.to_string()]);
        match self.units() {
            Units::Unset => {}
            Units::Workers => set("--workers", WORKERS),
            Units::ReadersAndWriters => {
                set("--readers", READERS);
                set("--writers", WRITERS);
            }
        }
        arguments
    }

    /// Starts its C program, which speaks `bytes` alone.
    ///
    /// # Errors
    ///
    /// If its program is not there, or cannot be started; skipped where there is none.
    pub fn serve_in_c(self, cpus: &Cpus) -> Result<Server, CaseError> {
        let Some(program) = self.in_c() else {
            let says = format!(
                "needs a C program of the design {}, which there is not",
                self.name()
            );
            return Err(CaseError::Skipped(Lack::new(Need::Program, says)));
        };
        let design = self.name();
        match self.units() {
            Units::Unset => program.serve(&[&design, &0], cpus),
            Units::Workers => program.serve(&[&design, &0, &WORKERS], cpus),
            Units::ReadersAndWriters => program.serve(&[&design, &0, &READERS, &WRITERS], cpus),
        }
    }
}

/// Where somebody else's program is: on the path, or where Debian has servers and only root's path leads.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// What a machine without this program lacks.
#[must_use]
pub fn without_program(name: &str) -> Option<Lack> {
    let says = || format!("needs the program {name}, which is not here");
    program(name).is_none().then(|| Lack::new(Need::Program, says()))
}

/// What somebody else's program says of its version, as `nginx/1.22.1`: the word behind `before`.
#[must_use]
pub fn version_of(name: &str, argument: &str, before: &str) -> Option<String> {
    let said = Command::new(program(name)?).arg(argument).output().ok()?;
    let said = [said.stdout, said.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let version = said.split_once(before)?.1.split_whitespace().next()?;
    Some(format!("{name}/{version}"))
}

/// A file in memory with these bytes, which a server reads by its [path](path_of).
///
/// # Errors
///
/// If there is no memory or descriptor for it.
pub fn file_in_memory(bytes: &[u8]) -> Result<File, CaseError> {
    let made = memfd_create("for-a-server", MemfdFlags::CLOEXEC).map_err(std::io::Error::from);
    let written = made.and_then(|file| {
        let file = File::from(file);
        (&file).write_all(bytes).map(|()| file)
    });
    written.map_err(|error| CaseError::failed("a file in memory", error))
}

/// Where other processes of this user find a file that this one has open.
#[must_use]
pub fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// Pairs of planned cases to compare: the base and what is compared with it, whatever their parameters `any` are.
#[must_use]
pub fn pairs<P: Point>(view: &View<'_>, any: &[&str], wanted: impl IntoIterator<Item = (P, P)>) -> Vec<Pair> {
    let planned = |case: P| view.planned(case.any(any)).next().cloned();
    let pair = |(a, b)| {
        Some(Pair {
            a: planned(a)?,
            b: planned(b)?,
        })
    };
    wanted.into_iter().filter_map(pair).collect()
}

/// How many times others ours is, for the end of a sentence: nothing where no other has a figure.
#[must_use]
pub fn times_others<'a>(view: &View<'_>, others: impl IntoIterator<Item = (Statistic, &'a str)>) -> String {
    let times = |(gain, name): (Statistic, &str)| {
        let times = view.estimate(&gain)?.plain("ratio");
        Some(format!("{times} times {name}"))
    };
    let others: Vec<String> = others.into_iter().filter_map(times).collect();
    match others.is_empty() {
        true => String::new(),
        false => format!(": {}", others.join(", ")),
    }
}

/// CPU time of a server between two looks at it: by thread, or in ticks of 10 ms where it has over 256 threads.
#[must_use]
pub fn cpu_since(before: &Activity, after: &Activity) -> Duration {
    let threads = |activity: &Activity| activity.threads.iter().map(|thread| thread.cpu).sum::<Duration>();
    match before.threads.is_empty() || after.threads.is_empty() {
        true => after.cpu.saturating_sub(before.cpu),
        false => threads(after).saturating_sub(threads(before)),
    }
}

/// Stevens' clients: processes that ask at once, each connection after connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stevens {
    /// How many ask at once.
    pub clients: u64,
    /// Requests of each.
    pub requests: u64,
    /// Requests of a connection. After the last of several the client closes it; of one, the server does.
    pub kept: u64,
    /// Asked for; 0: nothing is asked, and the client waits until the server closes.
    pub bytes: u64,
}

figures! {
    /// What `guests/c/servers/stevens_client.c` answers.
    pub struct Answered {
        /// From the first request to the last answer.
        wall_ns,
        /// The clients' CPU time, with their start and end.
        cpu_ns,
        /// The median time of an answer.
        p50_ns,
        /// What 99 of 100 answers took at most.
        p99_ns,
        /// The longest.
        max_ns,
    }
}

impl Stevens {
    /// Asks the server at this port of the loopback address, from the CPUs of the calling thread. Blocks until all is
    /// answered, at most until the deadline.
    ///
    /// # Errors
    ///
    /// If the client fails, or an answer is not what was asked for.
    pub fn ask(self, worker: &Worker, port: u16, deadline: Duration) -> Result<Found<Answered>, CaseError> {
        let Self {
            clients,
            requests,
            kept,
            bytes,
        } = self;
        let arguments: [&dyn ToString; 5] = [&port, &clients, &requests, &kept, &bytes];
        let input = std::process::Stdio::null();
        STEVENS_CLIENT.ask(worker, input, &arguments, deadline, "client by fork")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;

    fn asked(stevens: Stevens, port: u16) -> Result<Answered, CaseError> {
        let worker = testing::worker(&crate::probes::EXPERIMENT, &Params::new());
        let found = stevens.ask(&worker, port, Duration::from_secs(60))?;
        Ok(found.figures)
    }

    #[test]
    fn every_design_in_c_serves_stevens_clients_and_ends() {
        let cpus = Cpus::divided(1).unwrap();
        let short = Stevens {
            clients: 3,
            requests: 4,
            kept: 1,
            bytes: 4000,
        };
        let long = Stevens { kept: 2, ..short };
        for design in Design::ALL {
            if design.in_c().is_none() {
                let error = design.serve_in_c(&cpus).unwrap_err();
                assert!(matches!(error, CaseError::Skipped(_)), "{error}");
                continue;
            }
            let server = design.serve_in_c(&cpus).unwrap();
            for stevens in [short, long] {
                let Answered {
                    wall_ns,
                    p50_ns,
                    p99_ns,
                    max_ns,
                    ..
                } = asked(stevens, server.port()).unwrap();
                assert!(
                    0 < p50_ns && p50_ns <= p99_ns && p99_ns <= max_ns && max_ns <= wall_ns,
                    "{design:?}"
                );
            }
            server.end().unwrap();
        }
    }

    #[test]
    fn a_server_that_gives_something_else_is_found() {
        let cpus = Cpus::divided(1).unwrap();
        let server = ANSWER_FLOOR.serve(&[&0], &cpus).unwrap();
        let stevens = Stevens {
            clients: 1,
            requests: 1,
            kept: 2,
            bytes: 4,
        };
        // Seven bytes come back, `4 keep` and the end of the line.
        let error = asked(stevens, server.port()).unwrap_err().to_string();
        assert!(error.contains("7 bytes instead of 4"), "{error}");
    }

    #[test]
    fn ours_are_told_how_many_units_they_have() {
        let of = |design: Design| design.arguments("bytes").join(" ");
        assert_eq!(of(Design::Reactor), "bytes --design reactor");
        assert_eq!(
            of(Design::PreforkedMutex),
            "bytes --design preforked-mutex --workers 15"
        );
        assert_eq!(
            of(Design::ReactorPool),
            "bytes --design reactor-pool --readers 1 --writers 3"
        );
        let for_all = |design: Design| design.arguments_for("chat", 200).join(" ");
        assert_eq!(
            for_all(Design::PrethreadedMutex),
            "chat --design prethreaded-mutex --workers 200"
        );
        assert!(for_all(Design::LeaderFollowers).ends_with("--workers 15"));
        // It makes its threads as connections come.
        let thread_each = Design::ThreadPerConnection;
        assert_eq!(for_all(thread_each), "chat --design thread-per-connection");
    }

    #[test]
    fn a_server_of_many_threads_is_read_in_ticks_and_one_of_few_by_thread() {
        let ticks = |ms| Activity {
            cpu: Duration::from_millis(ms),
            ..Activity::default()
        };
        assert_eq!(cpu_since(&ticks(20), &ticks(50)), Duration::from_millis(30));
        let thread = |us| threadgauge_machine::ThreadActivity {
            cpu: Duration::from_micros(us),
            ..Default::default()
        };
        let threads = |cpu: [u64; 2]| Activity {
            threads: cpu.map(thread).to_vec(),
            ..ticks(20)
        };
        assert_eq!(
            cpu_since(&threads([5, 7]), &threads([6, 9])),
            Duration::from_micros(3)
        );
    }

    #[test]
    fn each_row_of_stevens_table_is_one_design() {
        let rows: Vec<u64> = Design::ALL.into_iter().filter_map(Design::row).collect();
        assert_eq!(rows, (0..=8).collect::<Vec<_>>());
    }
}
