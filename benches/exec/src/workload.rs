//! What the peers are compared on.

/// A kind of processor, and how many at once.
#[derive(Debug)]
pub struct Workload {
    /// In files.
    pub id: &'static str,
    /// In tables.
    pub name: &'static str,
    /// At most so many at work.
    pub degree: u64,
    /// What a processor burns, in ns of CPU time.
    pub burn_ns: f64,
    /// What it sleeps.
    pub sleep_us: u64,
    /// How many objects a run has; for empty processors, what a run is to take instead.
    pub size: Size,
    /// How often a round runs a cell, to keep the run that took least: what others do on the machine only adds.
    pub tries: usize,
}

/// How long a run is.
#[derive(Debug)]
pub enum Size {
    /// So many objects.
    Objects(u64),
    /// As many as the peer does in this time, in ns; so that a peer of 50 ns and one of 50 µs take as long.
    Ns(f64),
}

/// Empty processors, two at once.
pub const EMPTY_2: Workload = Workload {
    id: "empty-2",
    name: "empty, k = 2",
    degree: 2,
    burn_ns: 0.0,
    sleep_us: 0,
    size: Size::Ns(60e6),
    tries: 1,
};
/// Empty processors, one at a time: ours alone, beside the floor.
pub const EMPTY_1: Workload = Workload {
    id: "empty-1",
    name: "empty, k = 1",
    degree: 1,
    ..EMPTY_2
};
/// Empty processors, eight at once.
pub const EMPTY_8: Workload = Workload {
    id: "empty-8",
    name: "empty, k = 8",
    degree: 8,
    ..EMPTY_2
};
/// 10 µs each.
pub const BURN_10_US: Workload = Workload {
    id: "burn-10us",
    name: "10 µs, k = 2",
    burn_ns: 10e3,
    size: Size::Objects(8_000),
    tries: 2,
    ..EMPTY_2
};
/// 1 ms each.
pub const BURN_1_MS: Workload = Workload {
    id: "burn-1ms",
    name: "1 ms, k = 2",
    burn_ns: 1e6,
    size: Size::Objects(100),
    ..EMPTY_2
};
/// Processors that sleep: whoever uses CPU time here spins.
pub const SLEEP: Workload = Workload {
    id: "sleep-10ms",
    name: "sleep of 10 ms, k = 8",
    degree: 8,
    sleep_us: 10_000,
    size: Size::Objects(40),
    ..EMPTY_2
};
/// A thread for each object, one at a time.
pub const THREADS: Workload = Workload {
    id: "threads",
    name: "a thread an object, k = 1",
    degree: 1,
    size: Size::Objects(2_000),
    tries: 2,
    ..EMPTY_2
};

/// All of them.
pub const ALL: &[Workload] = &[EMPTY_1, EMPTY_2, EMPTY_8, BURN_10_US, BURN_1_MS, SLEEP, THREADS];
