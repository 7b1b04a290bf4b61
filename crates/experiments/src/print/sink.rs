//! What is printed into, and the process that reads it.
//!
//! Owns opening a sink, its reader, and knowing when everything has arrived. The reader is a process
//! forked before the clock runs, pinned like the worker, the same for both kinds of unit: its work
//! is part of the case (a console works too), and its CPU time is told apart.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use rustix::pty::OpenptFlags;
use threadgauge_machine::clock;

use super::line::{Judge, Received};
use super::output::write_all;
use super::setting::{Setting, Sink};
use crate::sys::fork::fork;
use crate::sys::reap::reap;
use threadgauge_lab::worker::CaseError;

/// What the reader asks for at once: all that a pipe holds by default.
const READ_BYTES: usize = 65_536;

/// An open sink.
pub(super) struct Channel {
    sink: Sink,
    write_end: OwnedFd,
    reader: Option<Reader>,
    judge: Option<Judge>,
    tags: Vec<&'static str>,
}

/// The process that reads a pipe or a pseudo-terminal.
struct Reader {
    pid: Pid,
    reports: OwnedFd,
}

/// A sink that has taken everything.
pub(super) struct Drained {
    /// What the reader saw; its CPU time, ns. `None` where no process reads.
    read: Option<(Received, u64)>,
    reader: Option<Pid>,
    file: Option<(OwnedFd, Judge)>,
}

impl Channel {
    /// Opens the sink of a case and, where it has one, starts its reader and waits until it is ready.
    pub(super) fn open(setting: &Setting) -> Result<Self, CaseError> {
        let judge = |newline| Judge::new(setting.payload_bytes as usize, setting.prints, newline);
        let channel = match setting.sink {
            Sink::Null => {
                let null = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|e| CaseError::failed("cannot open /dev/null for writing", e))?;
                Self::without_reader(Sink::Null, null, None)
            }
            Sink::File => {
                let (file, tags) = temporary_file()?;
                let mut channel = Self::without_reader(Sink::File, file, Some(judge(b"\n")));
                channel.tags = tags;
                channel
            }
            Sink::Pipe => {
                let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)
                    .map_err(|e| CaseError::failed("cannot make the pipe to print into", e))?;
                Self::with_reader(Sink::Pipe, read_end, write_end, judge(b"\n"))?
            }
            Sink::Pty => {
                let (master, slave) = pseudo_terminal().map_err(|e| {
                    CaseError::failed("cannot open a pseudo-terminal (is /dev/pts mounted?)", e)
                })?;
                // The terminal's own output processing stays on, as on a console: a newline becomes two bytes.
                Self::with_reader(Sink::Pty, master, slave, judge(b"\r\n"))?
            }
        };
        Ok(channel)
    }

    fn without_reader(sink: Sink, write_end: OwnedFd, judge: Option<Judge>) -> Self {
        Self {
            sink,
            write_end,
            reader: None,
            judge,
            tags: Vec::new(),
        }
    }

    fn with_reader(
        sink: Sink,
        read_end: OwnedFd,
        write_end: OwnedFd,
        judge: Judge,
    ) -> Result<Self, CaseError> {
        let (reports, report_to) = pipe_with(PipeFlags::CLOEXEC)
            .map_err(|e| CaseError::failed("cannot make the pipe for the reader's report", e))?;
        // Allocated and touched before the fork, so that the reader need not while the clock runs.
        let mut buffer = vec![1; READ_BYTES];
        // The child must drop its copy of the write end, or it would wait for itself.
        let mut write_end = Some(write_end);
        let mut judge = Some(judge);
        let pid = fork(|| {
            drop(write_end.take());
            let judge = judge.take().expect("is there until the child takes its copy");
            match read_to_end(&read_end, report_to.as_fd(), judge, &mut buffer) {
                Ok(()) => 0,
                Err(_) => 1,
            }
        })
        .map_err(|e| CaseError::failed("cannot fork the reader of the sink", e))?;
        drop((read_end, report_to));
        let reader = Reader { pid, reports };
        reader.wait_until_ready()?;
        Ok(Self {
            sink,
            write_end: write_end.expect("only the child takes it"),
            reader: Some(reader),
            judge: None,
            tags: Vec::new(),
        })
    }

    /// Where units write.
    pub(super) fn write_end(&self) -> BorrowedFd<'_> {
        self.write_end.as_fd()
    }

    /// What to mark the sample with.
    pub(super) fn tags(&self) -> &[&'static str] {
        &self.tags
    }

    /// Closes the sink and waits until everything has been read. Units must have ended: a write end that
    /// is still open elsewhere keeps the reader waiting.
    pub(super) fn drain(self) -> Result<Drained, CaseError> {
        if self.sink == Sink::File {
            let file = self.judge.map(|judge| (self.write_end, judge));
            return Ok(Drained {
                read: None,
                reader: None,
                file,
            });
        }
        drop(self.write_end);
        let read = self.reader.as_ref().map(Reader::report).transpose()?;
        Ok(Drained {
            read,
            reader: self.reader.map(|r| r.pid),
            file: None,
        })
    }
}

impl Drained {
    /// Reaps the reader, reads a file back, and says what arrived and what CPU time reading took, ns. `None` where
    /// nobody can read. Not timed: call it after the clock has stopped and the children's usage is noted.
    pub(super) fn settle(self) -> Result<Option<(Received, u64)>, CaseError> {
        if let Some(pid) = self.reader {
            reap(pid).map_err(|e| CaseError::failed("cannot wait for the reader of the sink", e))?;
        }
        let Some((file, judge)) = self.file else {
            return Ok(self.read);
        };
        let seen = read_back(&file, judge).map_err(|e| CaseError::failed("cannot read the file back", e))?;
        Ok(Some((seen, 0)))
    }
}

impl Reader {
    fn wait_until_ready(&self) -> Result<(), CaseError> {
        let mut ready = [0; 1];
        read_exact(&self.reports, &mut ready)
            .map_err(|e| CaseError::failed("the reader of the sink did not start", e))
    }

    fn report(&self) -> Result<(Received, u64), CaseError> {
        let mut report = [0; REPORT_BYTES];
        read_exact(&self.reports, &mut report)
            .map_err(|e| CaseError::failed("the reader of the sink ended without a report", e))?;
        Ok(decode(&report))
    }
}

/// The reader's life.
fn read_to_end(
    read_end: &OwnedFd,
    report_to: BorrowedFd<'_>,
    mut judge: Judge,
    buffer: &mut [u8],
) -> io::Result<()> {
    write_all(report_to, b"r")?;
    let began_cpu_ns = clock::process_cpu_ns();
    loop {
        match rustix::io::read(read_end, &mut *buffer) {
            // The master side of a pseudo-terminal ends with an error when the last slave is closed.
            Ok(0) | Err(Errno::IO) => break,
            Ok(count) => judge.take(&buffer[..count]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let received = judge.finish();
    let cpu_ns = clock::process_cpu_ns() - began_cpu_ns;
    write_all(report_to, &encode(received, cpu_ns))
}

const REPORT_BYTES: usize = 6 * size_of::<u64>();

fn encode(received: Received, cpu_ns: u64) -> [u8; REPORT_BYTES] {
    let Received {
        bytes,
        lines,
        torn_lines,
        counters,
        final_words,
    } = received;
    let mut report = [0; REPORT_BYTES];
    let words = [bytes, lines, torn_lines, counters, final_words, cpu_ns];
    for (place, word) in report.chunks_exact_mut(size_of::<u64>()).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    report
}

fn decode(report: &[u8; REPORT_BYTES]) -> (Received, u64) {
    let mut words = report
        .as_chunks::<{ size_of::<u64>() }>()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word));
    let mut next = || words.next().unwrap_or_default();
    let received = Received {
        bytes: next(),
        lines: next(),
        torn_lines: next(),
        counters: next(),
        final_words: next(),
    };
    (received, next())
}

fn read_exact(from: &OwnedFd, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        match rustix::io::read(from, &mut *into) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => into = &mut into[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads the file from its start.
fn read_back(file: &OwnedFd, mut judge: Judge) -> io::Result<Received> {
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    loop {
        match rustix::io::pread(file, &mut buffer[..], at) {
            Ok(0) => return Ok(judge.finish()),
            Ok(count) => {
                judge.take(&buffer[..count]);
                at += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A file without a name in the folder for temporary files: gone with the worker, whatever happens to it.
///
/// Appending, so that each write stands whole at the end. Marked where the file system keeps its files
/// in memory: such a file never reaches a disk, which the source's log did.
fn temporary_file() -> Result<(OwnedFd, Vec<&'static str>), CaseError> {
    let folder = std::env::temp_dir();
    let file = open_nameless(&folder).map_err(|e| {
        CaseError::failed(
            format!(
                "cannot make a file to print into in {} (set TMPDIR to another folder)",
                folder.display()
            ),
            e,
        )
    })?;
    let in_memory = rustix::fs::fstatfs(&file).is_ok_and(|fs| [TMPFS, RAMFS].contains(&(fs.f_type as u64)));
    Ok((file, if in_memory { vec!["tmpfs"] } else { Vec::new() }))
}

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of the kernel.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

fn open_nameless(folder: &std::path::Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        // Not every file system can: there, a name that lives for a moment.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let name = folder.join(format!(
                ".threadgauge-print-{}",
                rustix::process::getpid().as_raw_nonzero()
            ));
            let file = rustix::fs::open(&name, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
            rustix::fs::unlink(&name)?;
            Ok(file)
        }
        opened => opened,
    }
}

/// Master and slave of a new pseudo-terminal, which becomes nobody's controlling terminal.
fn pseudo_terminal() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(
        name.as_c_str(),
        OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    Ok((master, slave))
}

/// Tests that open a channel take turns: a reader forked while another's write end is open would keep that
/// one from ending. (A worker opens one channel only.)
#[cfg(test)]
pub(super) fn one_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::line::FINAL_WORD;
    use super::*;
    use threadgauge_lab::compat::params;

    fn setting(sink: Sink) -> Setting {
        let case = format!(
            "unit=thread,units=1,prints=100,payload_bytes=11,sink={},buffering=line",
            sink.name()
        );
        Setting::read(&params(&case)).unwrap()
    }

    #[test]
    fn every_readable_sink_tells_what_was_printed() {
        let _alone = one_at_a_time();
        for (sink, newline_bytes) in [(Sink::Pipe, 1), (Sink::File, 1), (Sink::Pty, 2)] {
            let channel = Channel::open(&setting(sink)).unwrap();
            for line in [
                &b"hello linux[7]\n"[..],
                b"hello li\n",
                b"hello linux[8]\n",
                FINAL_WORD,
            ] {
                write_all(channel.write_end(), line).unwrap();
            }
            let (received, _) = channel.drain().unwrap().settle().unwrap().unwrap();
            let expected = Received {
                bytes: 44 + 4 * newline_bytes,
                lines: 2,
                torn_lines: 1,
                counters: 15,
                final_words: 1,
            };
            assert_eq!(received, expected, "{}", sink.name());
        }
    }

    #[test]
    fn nobody_reads_the_null_device() {
        let _alone = one_at_a_time();
        let channel = Channel::open(&setting(Sink::Null)).unwrap();
        write_all(channel.write_end(), b"gone").unwrap();
        assert!(channel.drain().unwrap().settle().unwrap().is_none());
    }

    #[test]
    fn a_report_survives_the_pipe() {
        let received = Received {
            bytes: 1,
            lines: u64::MAX,
            torn_lines: 3,
            counters: 4,
            final_words: 5,
        };
        assert_eq!(decode(&encode(received, 6)), (received, 6));
    }

    #[test]
    fn the_file_has_no_name() {
        let _alone = one_at_a_time();
        let before = leftovers();
        let channel = Channel::open(&setting(Sink::File)).unwrap();
        assert_eq!(rustix::fs::fstat(channel.write_end()).unwrap().st_nlink, 0);
        assert_eq!(leftovers(), before);
    }

    fn leftovers() -> usize {
        let entries = std::fs::read_dir(std::env::temp_dir()).unwrap();
        entries
            .filter(|e| {
                e.as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with(".threadgauge-print")
            })
            .count()
    }
}
