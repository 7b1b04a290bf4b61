//! How a unit's lines become writes: one a line, or blocks as stdio fills them.
//!
//! Owns the buffers; what they are written into is [`super::sink`]'s business. The C library's stdio
//! takes no part: its lock and its formatting would be measured with the units. What it does to the
//! *writes* is copied instead. On a terminal it writes after every line. Into anything else it fills a
//! block of 4,096 bytes to the last byte and writes that, lines cut where they may be; a process has
//! a buffer of its own, while all threads of a process fill the same one, under its lock.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

/// The block of stdio on Linux: `st_blksize` of a pipe, of `/dev/null` and of most files.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Where a unit's lines go.
pub(super) trait Output {
    /// Takes one line with its newline.
    fn line(&mut self, line: &[u8]) -> io::Result<()>;
}

/// One write a line.
pub(super) struct PerLine<'a>(pub BorrowedFd<'a>);

impl Output for PerLine<'_> {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        write_all(self.0, line)
    }
}

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

    /// Writes what is there. Not done on drop: an error must reach the unit.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let used = std::mem::take(&mut self.used);
        write_all(self.sink, &self.block[..used])
    }
}

impl Output for Blocks<'_> {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
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
}

/// The buffer that all threads of a process share.
pub(super) struct Shared<'a, 'b>(pub &'a Mutex<Blocks<'b>>);

impl Output for Shared<'_, '_> {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        // A thread that panicked has left a whole buffer: `used` moves after the bytes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).line(line)
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

    /// What 500 lines became: the size of each write (by the length of the file after each line) and all bytes.
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
    fn lines_are_written_one_by_one() {
        let bytes = written(|sink| {
            let mut output = PerLine(sink);
            output.line(LINE).unwrap();
            assert_eq!(rustix::fs::fstat(sink).unwrap().st_size, LINE.len() as i64);
            output.line(LINE).unwrap();
        });
        assert_eq!(bytes, LINE.repeat(2));
    }

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

    #[test]
    fn threads_that_share_a_buffer_lose_no_line() {
        let bytes = written(|sink| {
            let blocks = Mutex::new(Blocks::new(sink));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..500).for_each(|_| Shared(&blocks).line(LINE).unwrap()));
                }
            });
            blocks.into_inner().unwrap().flush().unwrap();
        });
        assert_eq!(bytes, LINE.repeat(2_000));
    }
}
