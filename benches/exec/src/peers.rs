//! Who is compared: ours, the peers, and what both are measured against.

use super::programs::Program;
use super::workload::{Size, Workload};

/// What the slowest peers may add to the work of a run.
const LONGEST_NS: f64 = 60e6;

/// What a row of the tables is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This library.
    Ours,
    /// This library, of another build.
    Before,
    /// Others, under the same contract.
    Peer,
    /// Bare threads without a bound, a finisher's order or an end.
    Floor,
}

/// A way of bounded concurrent execution.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// In tables.
    pub name: &'static str,
    /// As its program knows it.
    pub asked_for: &'static str,
    /// Which program.
    pub program: Program,
    /// What it is.
    pub role: Role,
    /// About what an empty object takes, in ns: decides how many a run has.
    pub empty_ns: f64,
    /// Makes a thread for each object.
    pub threads: bool,
}

const fn peer(name: &'static str, program: Program, empty_ns: f64) -> Peer {
    Peer {
        name,
        asked_for: name,
        program,
        role: Role::Peer,
        empty_ns,
        threads: false,
    }
}

const fn ours(name: &'static str, empty_ns: f64) -> Peer {
    Peer {
        role: Role::Ours,
        ..peer(name, Program::Rust, empty_ns)
    }
}

/// The same of another build.
const fn before(name: &'static str, ours: Peer) -> Peer {
    Peer {
        name,
        program: Program::Before,
        role: Role::Before,
        ..ours
    }
}

/// The same burns on bare pinned threads with nothing between them. Runs beside every burn of the others.
pub const IDEAL: Peer = Peer {
    role: Role::Floor,
    ..peer("ideal", Program::Rust, 1.0)
};

/// In the order of the tables before they are sorted.
pub const PEERS: &[Peer] = &[
    ours("ours-prompt", 15.0),
    ours("ours-throughput", 15.0),
    ours("ours-free-caller", 100.0),
    Peer {
        threads: true,
        ..ours("ours-thread-per-object", 40e3)
    },
    before("before-prompt", ours("ours-prompt", 15.0)),
    before("before-throughput", ours("ours-throughput", 15.0)),
    before("before-free-caller", ours("ours-free-caller", 100.0)),
    Peer {
        threads: true,
        ..before("before-thread-per-object", ours("ours-thread-per-object", 40e3))
    },
    peer("crossbeam-k", Program::Rust, 200.0),
    peer("crossbeam-1024", Program::Rust, 60.0),
    peer("kanal-k", Program::Rust, 1_500.0),
    peer("kanal-1024", Program::Rust, 60.0),
    peer("std-k", Program::Rust, 20e3),
    peer("std-1024", Program::Rust, 150.0),
    peer("rayon-k", Program::Rust, 3e3),
    peer("rayon-1024", Program::Rust, 250.0),
    peer("threadpool-k", Program::Rust, 20e3),
    peer("threadpool-1024", Program::Rust, 200.0),
    peer("tokio-blocking-k", Program::Rust, 15e3),
    peer("tokio-blocking-1024", Program::Rust, 1_000.0),
    peer("tokio-tasks-k", Program::Rust, 15e3),
    peer("tokio-tasks-1024", Program::Rust, 500.0),
    peer("go-workers-k", Program::Go, 500.0),
    peer("go-workers-1024", Program::Go, 170.0),
    peer("go-goroutines", Program::Go, 500.0),
    peer("go-errgroup", Program::Go, 700.0),
    peer("java-queues-k", Program::Java, 20e3),
    peer("java-queues-1024", Program::Java, 150.0),
    peer("java-completion-1024", Program::Java, 500.0),
    peer("java-virtual", Program::Java, 15e3),
    peer("tbb-k", Program::Tbb, 2e3),
    peer("tbb-1024", Program::Tbb, 250.0),
    peer("taskflow-k", Program::Taskflow, 3e3),
    peer("taskflow-1024", Program::Taskflow, 500.0),
    peer("python-threads", Program::Python, 20e3),
    peer("python-processes", Program::Python, 100e3),
    Peer {
        threads: true,
        ..peer("std-thread-per-object", Program::Rust, 50e3)
    },
    Peer {
        role: Role::Floor,
        threads: true,
        ..peer("bare-pthread", Program::Rust, 40e3)
    },
    Peer {
        role: Role::Floor,
        ..peer("floor", Program::Rust, 4.0)
    },
];

impl Peer {
    /// Whether it takes part.
    pub fn runs(&self, workload: &Workload) -> bool {
        let makes_threads = workload.id == super::workload::THREADS.id;
        // What only ours can do at a price of its own.
        if workload.id == super::workload::EMPTY_1.id && self.role == Role::Peer {
            return false;
        }
        // The floor yields where others sleep.
        if self.role == Role::Floor && !self.threads {
            return workload.sleep_us == 0 && !makes_threads;
        }
        self.threads == makes_threads
    }

    /// How many objects a run has: a multiple of the degree, so that the last ones end together.
    pub fn objects(&self, workload: &Workload) -> u64 {
        let objects = match workload.size {
            Size::Objects(objects) => objects.min((LONGEST_NS / self.empty_ns) as u64),
            Size::Ns(ns) => ((ns / self.empty_ns) as u64).clamp(1_000, 4_000_000),
        };
        objects.next_multiple_of(workload.degree)
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::{ALL, BURN_10_US, EMPTY_2, THREADS};
    use super::*;

    #[test]
    fn every_peer_takes_part_in_something_and_names_are_one_peers() {
        for (i, peer) in PEERS.iter().enumerate() {
            assert!(ALL.iter().any(|workload| peer.runs(workload)), "{}", peer.name);
            assert!(
                PEERS[..i].iter().all(|other| other.name != peer.name),
                "{}",
                peer.name
            );
        }
    }

    #[test]
    fn a_fast_peer_gets_more_empty_objects_and_only_a_very_slow_one_fewer_burns() {
        let taking = |empty_ns| peer("a", Program::Rust, empty_ns);
        let (fast, slow, very_slow) = (taking(10.0), taking(2e3), taking(2e4));
        assert!(fast.objects(&EMPTY_2) > slow.objects(&EMPTY_2));
        assert_eq!(fast.objects(&BURN_10_US), slow.objects(&BURN_10_US));
        assert!(very_slow.objects(&BURN_10_US) < fast.objects(&BURN_10_US));
    }

    #[test]
    fn threads_for_objects_are_compared_with_each_other_only() {
        let on = |workload: &Workload| {
            PEERS
                .iter()
                .filter(|peer| peer.runs(workload))
                .map(|peer| peer.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            on(&THREADS),
            [
                "ours-thread-per-object",
                "before-thread-per-object",
                "std-thread-per-object",
                "bare-pthread"
            ]
        );
        assert!(!on(&EMPTY_2).contains(&"bare-pthread"));
    }
}
