//! A file that is read past the page cache, so that every read waits for the device.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use threadgauge_machine::clock;

use crate::sys::disk::is_in_memory;
use threadgauge_lab::prelude::{CaseError, Lack, Need};

/// The size of a read, and the alignment of offsets and memory: a page, which every device accepts.
const BLOCK: usize = 4096;
/// The file, blocks: 8 MiB.
const BLOCKS: u64 = 2048;
/// Reads whose mean is the time of one read alone.
const CALIBRATING: u64 = 100;

/// The file.
#[derive(Debug)]
pub(super) struct Disk {
    file: File,
    /// What a read takes when nobody else reads, ns.
    read_ns: f64,
}

impl Disk {
    /// Makes a file without a name in the folder for temporary files, fills it and finds how long a read takes.
    pub(super) fn open() -> Result<Self, CaseError> {
        let folder = std::env::temp_dir();
        let skipped = |what: &str, e: &dyn std::fmt::Display| {
            let folder = folder.display();
            let says = format!(
                "the folder for temporary files, {folder}, {what} ({e}); set TMPDIR to a folder on a disk"
            );
            CaseError::Skipped(Lack::new(Need::System, says))
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE | OFlags::DIRECT;
        let file: File = rustix::fs::open(&folder, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| skipped("cannot be read past the cache", &e))?
            .into();
        if is_in_memory(&file) {
            return Err(skipped("is in memory", &"tmpfs"));
        }
        let filled = with_block(|block| {
            block.fill(7);
            (0..BLOCKS).try_for_each(|i| file.write_all_at(block, i * BLOCK as u64))
        });
        filled
            .and_then(|()| file.sync_all())
            .map_err(|e| skipped("cannot be filled", &e))?;
        let mut disk = Self { file, read_ns: 1.0 };
        let begun_ns = clock::monotonic_ns();
        disk.read(CALIBRATING).map_err(CaseError::Failed)?;
        disk.read_ns = (clock::monotonic_ns() - begun_ns) as f64 / CALIBRATING as f64;
        Ok(disk)
    }

    /// How many blocks take this long, at least one.
    pub(super) fn blocks_in(&self, length: Duration) -> u64 {
        ((length.as_nanos() as f64 / self.read_ns).round() as u64).max(1)
    }

    /// Reads this many blocks, one after the other, at places that are far apart.
    pub(super) fn read(&self, blocks: u64) -> Result<(), String> {
        // Steps of a prime, so that every block is read once before one is read twice.
        let places = (0..blocks).map(|i| (i * 769) % BLOCKS * BLOCK as u64);
        let read = with_block(|block| {
            places
                .into_iter()
                .try_for_each(|at| self.file.read_exact_at(block, at))
        });
        read.map_err(|e| format!("reading the file past the cache: {e}"))
    }
}

/// Lends this thread's block, aligned as direct reads need it.
fn with_block<T>(f: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; 2 * BLOCK]);
    }
    ROOM.with_borrow_mut(|room| {
        let start = room.as_ptr().align_offset(BLOCK);
        f(&mut room[start..start + BLOCK])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_come_from_the_file_or_it_says_why_not() {
        let begun_ns = clock::monotonic_ns();
        match Disk::open() {
            Ok(disk) => {
                let all_ns = (clock::monotonic_ns() - begun_ns) as f64;
                assert!(disk.read_ns > 0.0 && disk.read_ns * CALIBRATING as f64 <= all_ns);
                assert_eq!(disk.blocks_in(Duration::ZERO), 1);
                let ten = Duration::from_nanos((10.0 * disk.read_ns) as u64);
                assert_eq!(disk.blocks_in(ten), 10);
                disk.read(BLOCKS + 1).unwrap();
            }
            Err(CaseError::Skipped(lack)) => assert!(lack.says.contains("set TMPDIR"), "{lack}"),
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn the_block_is_aligned_in_every_thread() {
        let aligned =
            || with_block(|block| block.len() == BLOCK && block.as_ptr().addr().is_multiple_of(BLOCK));
        assert!(aligned() && std::thread::spawn(aligned).join().unwrap());
    }
}
