//! Reads of a file by io_uring, several at a time. An unsafe leaf.
//!
//! The kernel writes to a block from the moment its read is submitted to its completion. So the blocks belong to the
//! ring that reads into them, one for each read in flight, are lent only after the completion, and are freed only when
//! nothing is in flight: [`Uring`] waits for that when it is dropped.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};

use super::map::PAGE;

/// What happens to a read, by its number.
#[derive(Debug)]
pub enum Event<'a> {
    /// It is about to be submitted.
    Asked(usize),
    /// Its block is there.
    Done(usize, &'a [u8]),
}

/// A ring with as many blocks as reads may be in flight.
pub struct Uring<'f> {
    ring: IoUring,
    file: &'f File,
    /// Leaked where what is in flight cannot be waited for.
    room: ManuallyDrop<Vec<u8>>,
    /// The first block, aligned for direct reads. Made once from `room`, which is not touched otherwise.
    base: *mut u8,
    block_bytes: usize,
    depth: usize,
    /// Submitted or about to be, and not completed.
    in_flight: usize,
}

impl<'f> Uring<'f> {
    /// For at most `depth` reads of `block_bytes` at a time.
    ///
    /// # Errors
    ///
    /// When the kernel refuses io_uring.
    pub fn new(file: &'f File, depth: u32, block_bytes: usize) -> io::Result<Self> {
        let ring = IoUring::new(depth)?;
        let depth = depth as usize;
        // Not zeros, which would be made as the reads come.
        let mut room = ManuallyDrop::new(vec![1; depth * block_bytes + PAGE]);
        let start = room.as_ptr().align_offset(PAGE);
        let base = room[start..].as_mut_ptr();
        Ok(Self {
            ring,
            file,
            room,
            base,
            block_bytes,
            depth,
            in_flight: 0,
        })
    }

    /// Reads a block at each of these places, at most `depth` at a time, in this order as far as that goes. Blocks.
    ///
    /// # Errors
    ///
    /// When a read fails or is short, or `told` fails.
    pub fn read(
        &mut self,
        places: &[u64],
        mut told: impl FnMut(Event<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut free: Vec<usize> = (0..self.depth).collect();
        let mut next = 0;
        while next < places.len() || self.in_flight > 0 {
            while next < places.len()
                && let Some(slot) = free.pop()
            {
                told(Event::Asked(next))?;
                self.push(slot, next, places[next])?;
                next += 1;
            }
            self.wait()?;
            while let Some(entry) = self.ring.completion().next() {
                self.in_flight -= 1;
                let (slot, number) = (
                    (entry.user_data() >> 32) as usize,
                    entry.user_data() as u32 as usize,
                );
                let read = usize::try_from(entry.result())
                    .map_err(|_| io::Error::from_raw_os_error(-entry.result()))?;
                if read < self.block_bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                // SAFETY: the block of this slot, whose read has completed: the kernel no longer writes to it, and the
                // slot has no other read until it is in `free` again.
                let block = unsafe {
                    std::slice::from_raw_parts(self.base.add(slot * self.block_bytes), self.block_bytes)
                };
                told(Event::Done(number, block))?;
                free.push(slot);
            }
        }
        Ok(())
    }

    /// Has a read ready to be submitted.
    fn push(&mut self, slot: usize, number: usize, at: u64) -> io::Result<()> {
        let bytes = u32::try_from(self.block_bytes).map_err(io::Error::other)?;
        // Within the room: slots are below `depth`.
        let block = self.base.wrapping_add(slot * self.block_bytes);
        let entry = opcode::Read::new(types::Fd(self.file.as_raw_fd()), block, bytes)
            .offset(at)
            .build()
            .user_data((slot as u64) << 32 | number as u64);
        // SAFETY: the block stays until `drop` has seen every completion, no other read has its slot, and the file is
        // borrowed for as long.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Submits what is ready and waits for a completion.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Uring<'_> {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.wait().is_err() {
                return;
            }
            self.in_flight -= self.ring.completion().count();
        }
        // SAFETY: nothing is in flight, so nobody writes to the room any more; it is dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.room) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A file of eight pages, each full of its number; `None` where io_uring is refused.
    fn ring(file: &mut File, depth: u32) -> Option<Uring<'_>> {
        for page in 0..8 {
            file.write_all(&[page; PAGE]).unwrap();
        }
        Uring::new(file, depth, PAGE).ok()
    }

    #[test]
    fn each_read_brings_its_block_and_no_more_are_in_flight_than_may_be() {
        for depth in [1, 3, 16] {
            let mut file = tempfile::tempfile().unwrap();
            let Some(mut ring) = ring(&mut file, depth) else {
                return;
            };
            let places = [5, 0, 7, 7, 2, 1].map(|page| page * PAGE as u64);
            let (mut open, mut most, mut found) = (0, 0, [u8::MAX; 6]);
            let told = |event: Event<'_>| {
                match event {
                    Event::Asked(_) => open += 1,
                    Event::Done(number, block) => {
                        open -= 1;
                        assert!(block.iter().all(|byte| *byte == block[0]));
                        found[number] = block[0];
                    }
                }
                most = most.max(open);
                Ok(())
            };
            ring.read(&places, told).unwrap();
            assert_eq!((found, open), ([5, 0, 7, 7, 2, 1], 0));
            assert_eq!(most, depth.min(6));
        }
    }

    #[test]
    fn what_fails_is_told_and_the_rest_waited_for() {
        let mut file = tempfile::tempfile().unwrap();
        let Some(mut ring) = ring(&mut file, 4) else {
            return;
        };
        // The third is beyond the file.
        let places = [0, 1, 8, 3, 4].map(|page| page * PAGE as u64);
        let short = ring.read(&places, |_| Ok(())).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        drop(ring);
        let mut again = Uring::new(&file, 4, PAGE).unwrap();
        let refused = again.read(&places[..2], |_| Err(io::ErrorKind::InvalidData.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
