//! One case: who reads what, from where, and how many at a time. Owns the names of parameters and metrics.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use threadgauge_lab::point::{Parameter, Value, refused};
use threadgauge_lab::prelude::*;

/// From the start to the last read's end.
pub(super) const ELAPSED: Metric = metric("elapsed_ns", "ns");
/// From the start to a read's end, the mean.
pub(super) const TURNAROUND: Metric = metric("turnaround_ns", "ns");
/// From asking for a read to its end, the mean.
pub(super) const READ: Metric = metric("read_ns", "ns");
/// CPU time of all threads over the reads.
pub(super) const CPU: Metric = metric("cpu_ns_per_read", "ns");
pub(super) const RATE: Metric = metric("reads_per_s", "reads/s");

words! {
    /// Who reads.
    pub(super) enum By {
        /// `k` threads, each by `pread`; with one, the caller reads one block after the other.
        Threads = "threads",
        /// One thread, with `k` reads in flight.
        IoUring = "io_uring",
        /// `k` threads, each out of a memory map.
        Map = "map",
    }
}
words! {
    /// Where the blocks are.
    pub(super) enum ReadFrom {
        /// On the device: past the page cache, and for a map not in it yet.
        Device = "device",
        /// In the page cache.
        Cache = "cache",
    }
}

/// The folder of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Folder(&'static str);

impl Folder {
    /// That for temporary files.
    pub(super) const TEMPORARY: Self = Self("temporary");

    pub(super) fn path(self) -> PathBuf {
        match self {
            Self::TEMPORARY => std::env::temp_dir(),
            Self(path) => path.into(),
        }
    }
}

impl Parameter for Folder {
    fn value(&self) -> Value {
        Value::Text(self.0.to_owned())
    }

    fn read(value: &Value) -> Option<Self> {
        /// Cases are copied: a path that one has is kept, once, to the end of the process.
        static PATHS: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
        match value {
            Value::Text(word) if *word == Self::TEMPORARY.0 => Some(Self::TEMPORARY),
            Value::Text(path) if path.starts_with('/') => {
                let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
                let kept = paths.get(path.as_str()).copied();
                let kept = kept.unwrap_or_else(|| String::leak(path.clone()));
                paths.insert(kept);
                Some(Self(kept))
            }
            Value::Text(_) | Value::Int(_) => None,
        }
    }

    fn wanted() -> String {
        "temporary or the path of a folder, from / on".to_owned()
    }
}

point! {
    /// A point of the grid.
    pub(super) struct Case {
        by: By,
        from: ReadFrom,
        /// Threads, or reads in flight.
        k: u64 = 1..=1024,
        block_kib: u64 = 4..=16_384,
        reads: u64 = 1..=10_000_000,
        file_mib: u64 = 1..=1 << 30,
        folder: Folder,
        cpus: u64 = 1..,
    }
}

/// The depths that the claim is about.
pub(super) const CLAIMED: [u64; 2] = [4, 16];
/// A block, and a large one.
pub(super) const BLOCKS_KIB: [u64; 2] = [4, 64];
/// For every large block to be read once.
const READS: u64 = 256;
/// All blocks that are in memory at a time: a typing error cannot use it up.
const MOST_BLOCKS_KIB: u64 = 1 << 20;
/// Enough to take some milliseconds: each block twice.
pub(super) const CACHED_READS: u64 = 8_192;

/// One read at a time past the page cache, on one CPU.
pub(super) const ONE: Case = Case {
    by: By::Threads,
    from: ReadFrom::Device,
    k: 1,
    block_kib: BLOCKS_KIB[0],
    reads: READS,
    file_mib: 16,
    folder: Folder::TEMPORARY,
    cpus: 1,
};

impl Case {
    /// Reads parameters, which `--set` may have changed.
    pub(super) fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        if !case.block_kib.is_multiple_of(4) {
            return Err(refused(params, "block_kib", "a multiple of 4"));
        }
        let blocks = case.blocks();
        if blocks == 0 {
            return Err(refused(
                params,
                "block_kib",
                "no more than the file has (file_mib)",
            ));
        }
        if case.k * case.block_kib > MOST_BLOCKS_KIB {
            let most = MOST_BLOCKS_KIB / case.block_kib;
            return Err(refused(
                params,
                "k",
                &format!("at most {most} with blocks of {} KiB", case.block_kib),
            ));
        }
        if case.by == By::Map && case.from == ReadFrom::Device && case.reads > blocks {
            let wanted = format!(
                "at most {blocks}, the blocks of the file (file_mib): what a map has read once is in the page cache"
            );
            return Err(refused(params, "reads", &wanted));
        }
        Ok(case)
    }

    /// How many reads a profile has from there.
    pub(super) const fn usual_reads(self) -> u64 {
        match self.from {
            ReadFrom::Device => READS,
            ReadFrom::Cache => CACHED_READS,
        }
    }

    /// How many blocks the file has.
    pub(super) const fn blocks(self) -> u64 {
        self.file_mib * 1024 / self.block_kib
    }

    pub(super) const fn block_bytes(self) -> usize {
        self.block_kib as usize * 1024
    }

    /// Where each read is, in order: every block once, shuffled alike in every sample, and again from the first.
    pub(super) fn places(self) -> Vec<u64> {
        let mut blocks: Vec<u64> = (0..self.blocks()).collect();
        fastrand::Rng::with_seed(self.blocks()).shuffle(&mut blocks);
        let places = blocks.into_iter().map(|block| block * self.block_kib * 1024);
        places.cycle().take(self.reads as usize).collect()
    }
}
