//! A case: what is tried, with which stacks and addresses, and what ends it; and the metrics of a sample.

use threadgauge_lab::prelude::*;

use crate::create::Unit;
use crate::footprint::IDLE;
use crate::guests::{Guest, guest};

/// Goes past the limits.
pub(crate) const LIMITS: Guest = guest!("limits");
/// The same program and that which makes the units, as programs of 32 bits.
pub(super) const LIMITS_32: Guest = guest!("limits_32");
pub(super) const IDLE_32: Guest = guest!("idle_32");
pub(super) const LIMITS_32_LEGACY: Guest = guest!("limits_32_legacy");
pub(super) const IDLE_32_LEGACY: Guest = guest!("idle_32_legacy");
/// The most units that were alive together.
pub(super) const ALIVE: Metric = metric("alive", "units");
/// Whether a guard ended it: then the system would have allowed more.
pub(super) const CENSORED: Metric = metric("censored", "count");
/// Calls of a function until the stack is used up.
pub(super) const DEPTH: Metric = metric("depth", "calls");
/// How often a thread was begun anew on a larger stack.
pub(super) const GROWN: Metric = metric("larger_stacks", "stacks");
/// Of the programs that do not look whether a thread was made, the shares that SIGSEGV ends, that another signal does,
/// that wait for ever, and that end well.
pub(super) const SEGFAULTS: Metric = metric("ended_by_sigsegv", "share");
pub(super) const SIGNALS: Metric = metric("ended_by_another_signal", "share");
pub(super) const HUNG: Metric = metric("waits_for_ever", "share");
pub(super) const LIVED: Metric = metric("ended_well", "share");
/// All ends, in the words of tables and charts.
pub(super) const ENDS: [(&str, Metric); 4] = [
    ("ended by SIGSEGV", SEGFAULTS),
    ("by another signal", SIGNALS),
    ("waits for ever", HUNG),
    ("ends well", LIVED),
];

/// The address space of a process of source 003, MiB, and a thread's stack there.
pub(super) const ADDRESS_003_MIB: u64 = 3 * 1024;
pub(super) const STACK_003_KIB: u64 = 8 * 1024;
/// The bound that the source computes: one through the other.
pub(super) const BOUND_003: u64 = ADDRESS_003_MIB * 1024 / STACK_003_KIB;
/// The stacks with which the source's 1,000 threads ran.
pub(super) const SMALL_003_KIB: u64 = 1024;
pub(super) const STACKS_KIB: [u64; 4] = [64, 256, SMALL_003_KIB, STACK_003_KIB];
/// The counts at which the source's program crashed. The first is below the bound.
pub(super) const CRASHED_003: [u64; 4] = [350, 500, 800, CLAIMED];
/// What the source's claims ask for.
pub(super) const CLAIMED: u64 = 1_000;
/// The guard area of a thread's stack that the C library makes, where pages have 4 KiB.
pub(super) const GUARD_KIB: u64 = 4;
/// The calls that a growing stack is to have room for: most of 8 MiB.
pub(super) const CALLS: u64 = 20_000;
/// The stack that it begins with.
pub(super) const FIRST_KIB: u64 = 64;
/// Local data of a call.
pub(super) const LOCAL_BYTES: u64 = 256;
/// How many programs go past a limit in a sample: one for each of the patterns of `guests/c/limits.c`.
pub(super) const TRIALS: u64 = 6;

words! {
    /// What is tried.
    pub(super) enum Trial {
        /// As many units as there can be, up to `count`.
        Most = "most",
        /// `count` threads by a program that does not look whether they were made.
        Unchecked = "unchecked",
        /// A thread that calls itself until its stack is used up.
        Recursion = "recursion",
        /// A thread that calls itself `count` times, and is begun anew on a larger stack whenever it reaches the guard
        /// area below its own.
        Growing = "growing",
    }
}

words! {
    /// How a thread comes by the size of its stack.
    pub(super) enum StackBy {
        /// `pthread_attr_setstacksize`.
        Attribute = "attribute",
        /// `ulimit -s`, before the program starts.
        Ulimit = "ulimit",
    }
}

words! {
    /// What the program is built for.
    pub(super) enum Build {
        Bits64 = "64-bit",
        /// As the source's, with 3 GiB of address space.
        Bits32 = "32-bit",
        /// That, with the addresses laid out as older kernels did: 2 of the 3 GiB are for stacks.
        Bits32Legacy = "32-bit-legacy",
    }
}

impl Build {
    /// The program that makes units, and that which goes past the limits.
    pub(super) const fn programs(self) -> (&'static Guest, &'static Guest) {
        match self {
            Self::Bits64 => (&IDLE, &LIMITS),
            Self::Bits32 => (&IDLE_32, &LIMITS_32),
            Self::Bits32Legacy => (&IDLE_32_LEGACY, &LIMITS_32_LEGACY),
        }
    }

    pub(super) const fn is_of_32_bits(self) -> bool {
        matches!(self, Self::Bits32 | Self::Bits32Legacy)
    }

    /// What is said of it behind other words.
    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Self::Bits64 => "",
            Self::Bits32 => ", 32 bits",
            Self::Bits32Legacy => ", 32 bits with the legacy layout",
        }
    }
}

words! {
    /// What ended the making of units: a guard, or a limit as the system calls it.
    pub(super) enum End {
        Count = "the number asked for",
        Others = "the guard for limits that others share",
        HalfOfMemory = "the guard for memory",
        AddressSpace = "address space (RLIMIT_AS)",
        Data = "data (RLIMIT_DATA)",
        Promised = "CommitLimit",
        GroupMemory = "memory.max of the control group",
        GroupMemoryV1 = "memory.limit_in_bytes of the control group",
        MaxMapCount = "max_map_count",
        Nproc = "nproc",
        ThreadsMax = "threads-max",
        PidMax = "pid_max",
        PidsMax = "pids.max of the control group",
        Memory = "memory",
        Bits32 = "the 3 GiB of 32 bits",
    }
}

impl End {
    /// The limit that was reached. Where none was, memory was short, or the addresses of 32 bits.
    pub(super) fn of(limit: Option<&str>, build: Build) -> Self {
        let named = |end: &Self| limit.is_some_and(|limit| limit.starts_with(end.name()));
        let otherwise = if build.is_of_32_bits() {
            Self::Bits32
        } else {
            Self::Memory
        };
        Self::ALL.into_iter().find(named).unwrap_or(otherwise)
    }

    /// Whether it was no limit of the system.
    pub(super) const fn is_guard(self) -> bool {
        matches!(self, Self::Count | Self::Others | Self::HalfOfMemory)
    }

    /// 1 where this ended it; otherwise there is none.
    pub(super) const fn metric(self) -> Metric {
        metric(self.name(), "ends")
    }
}

point! {
    pub(super) struct Case {
        trial: Trial,
        unit: Unit,
        stack_kib: u64 = 16..=1 << 20,
        /// 0 for no limit.
        address_mib: u64 = 0..=1 << 20,
        /// At most.
        count: u64 = 1..=1_000_000,
        cpus: u64 = 1..,
        stack_by: StackBy,
        guard_kib: u64 = 0..=1 << 20,
        build: Build,
    }
}

/// Threads with the stacks and in the address space of source 003.
pub(super) const THREADS: Case = Case {
    trial: Trial::Most,
    unit: Unit::Thread,
    stack_kib: STACK_003_KIB,
    address_mib: ADDRESS_003_MIB,
    count: CLAIMED,
    cpus: 1,
    stack_by: StackBy::Attribute,
    guard_kib: GUARD_KIB,
    build: Build::Bits64,
};
pub(super) const PROCESSES: Case = THREADS.unit(Unit::Process);
pub(super) const UNCHECKED: Case = THREADS.trial(Trial::Unchecked);
pub(super) const RECURSION: Case = THREADS.trial(Trial::Recursion).address_mib(0).count(1);
pub(super) const GROWING: Case = RECURSION.trial(Trial::Growing).count(CALLS).stack_kib(FIRST_KIB);

/// The source's program as far as it can be had: of 32 bits, with stacks by `ulimit -s`.
pub(super) const fn of_32_bits(case: Case) -> Case {
    case.build(Build::Bits32).address_mib(0).stack_by(StackBy::Ulimit)
}

/// The counts of the source's threads with stacks of 8 MiB: the first ran, the others crashed.
pub(super) const COUNTS_003: [u64; 5] = [255, 350, 500, 800, CLAIMED];

impl Case {
    /// How many of its threads the address space has room for.
    pub(super) const fn fitting(self) -> u64 {
        let most = match self.address_mib {
            _ if self.build.is_of_32_bits() => ADDRESS_003_MIB * 1024 / self.stack_kib,
            0 => u64::MAX,
            mib => mib * 1024 / self.stack_kib,
        };
        if most < self.count { most } else { self.count }
    }
}
