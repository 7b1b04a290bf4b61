//! How a unit's lines become writes: one a line, or blocks as stdio fills them.
//!
//! Owns the buffers; what they are written into is [`super::sink`]'s business. The C library's stdio takes no part: its
//! lock (20 ns while nobody else wants it) and its formatting would be measured with the units. What it does to the
//! *writes* is copied instead. On a terminal it writes after every line. Into anything else it fills a block of 4,096
//! bytes to the last byte and writes that, lines cut where they may be; a process has a buffer of its own, while all
//! threads of a process fill the same one, under its lock.

use std::io;
use std::os::fd::BorrowedFd;

/// The block of stdio on Linux: `st_blksize` of a pipe, of `/dev/null` and of most files.
const BLOCK_BYTES: usize = 4096;

/// One write a full block.
pub(super) struct Blocks<'a> {
    sink: BorrowedFd<'a>,
    block: [u8; BLOCK_BYTES],
    used: usize,
}

impl<'a> Blocks<'a> {
    /// An empty block.
    pub(super) const fn new(sink: BorrowedFd<'a>) -> Self {
        Self {
            sink,
            block: [0; BLOCK_BYTES],
            used: 0,
        }
    }

    /// Takes one line with its newline.
    pub(super) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let mut rest = line;
        loop {
            let room = BLOCK_BYTES - self.used;
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.block[self.used..self.used + now.len()].copy_from_slice(now);
            self.used += now.len();
            if later.is_empty() {
                return Ok(());
            }
            self.flush()?;
            rest = later;
        }
    }

    /// Writes what is there. Not done on drop: an error must reach the unit.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let used = std::mem::take(&mut self.used);
        write_all(self.sink, &self.block[..used])
    }
}

/// Writes all of it; a signal that interrupts is no error.
pub(super) fn write_all(sink: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(sink, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::fd::AsFd;

    use super::*;

    /// All bytes that were written.
    fn written(print: impl FnOnce(BorrowedFd<'_>)) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        print(file.as_fd());
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    const LINE: &[u8] = b"hello linux[17]\n";

    #[test]
    fn blocks_are_full_to_the_last_byte_and_the_rest_comes_at_the_end() {
        // 15 bytes do not divide 4,096: the line at the border is cut.
        let line = &LINE[1..];
        let bytes = written(|sink| {
            let mut output = Blocks::new(sink);
            let mut sizes = Vec::new();
            for _ in 0..600 {
                output.line(line).unwrap();
                sizes.push(rustix::fs::fstat(sink).unwrap().st_size);
            }
            sizes.dedup();
            assert_eq!(sizes, [0, 4096, 8192]);
            output.flush().unwrap();
        });
        assert_eq!(bytes, line.repeat(600));
    }
}
