//! What of a file's file system matters to a measurement.

use std::os::fd::AsFd;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of the kernel.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether the file system of an open file keeps it in memory, so that it never reaches a disk.
pub fn is_in_memory(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| IN_MEMORY.contains(&(system.f_type as u64)))
}
