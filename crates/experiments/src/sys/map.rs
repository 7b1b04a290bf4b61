//! A file mapped into memory, to be read. An unsafe leaf.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// What reads past the page cache are aligned to, bytes: every device accepts it.
pub const PAGE: usize = 4096;

/// The first bytes of a file, mapped. The file must stay as long and as it is: what has no name nobody else changes.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is read only, nobody writes to the file, and it lives until the map is dropped; no thread owns
// it.
unsafe impl Send for Map {}
// SAFETY: as above; every access through it reads.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `bytes` of a file. Touches none of them; a fault brings one page and no others.
    ///
    /// # Errors
    ///
    /// When the file is shorter, or the kernel refuses.
    pub fn of(file: &File, bytes: usize) -> io::Result<Self> {
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe { mmap(null, bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("a file was mapped at 0"))?;
        let map = Self { base, bytes };
        // SAFETY: the advice is about the mapping just made, and changes none of its bytes.
        unsafe { madvise(map.base.as_ptr().cast(), bytes, Advice::Random) }?;
        Ok(map)
    }

    /// Copies what is at this place. Waits where it is not in memory.
    ///
    /// # Panics
    ///
    /// When some of it is beyond the map.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let end = at.checked_add(into.len());
        assert!(end.is_some_and(|end| end <= self.bytes), "beyond the map");
        // SAFETY: the source lies in the mapping by the assertion, the destination is ours alone and so elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr().add(at), into.as_mut_ptr(), into.len()) };
    }

    /// The share of its pages that are in memory.
    ///
    /// # Errors
    ///
    /// When the kernel does not say.
    pub fn resident(&self) -> io::Result<f64> {
        let mut pages = vec![0_u8; self.bytes.div_ceil(rustix::param::page_size())];
        // SAFETY: the kernel writes one byte for each page of the mapping, and there are as many.
        let said = unsafe { libc::mincore(self.base.as_ptr().cast(), self.bytes, pages.as_mut_ptr()) };
        if said != 0 {
            return Err(io::Error::last_os_error());
        }
        let resident = pages.iter().filter(|page| **page & 1 == 1).count();
        Ok(resident as f64 / pages.len() as f64)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it is ours, and no reference into it is left: `read` copies.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_in_the_file_is_read_and_no_more() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..2 * PAGE).map(|i| (i % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        assert!(Map::of(&file, bytes.len() + 1).is_err());
        let map = Map::of(&file, bytes.len()).unwrap();
        let mut block = [0; 100];
        map.read(PAGE + 7, &mut block);
        assert_eq!(block, bytes[PAGE + 7..][..100]);
        assert!(map.resident().unwrap() > 0.0);
        for at in [2 * PAGE - 99, usize::MAX] {
            let beyond = std::panic::catch_unwind(|| map.read(at, &mut [0; 100]));
            assert!(beyond.is_err(), "{at}");
        }
    }
}
