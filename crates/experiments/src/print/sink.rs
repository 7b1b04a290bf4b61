//! What is printed into, and the process that reads it.
//!
//! Owns opening a sink, its reader, and knowing when everything has arrived. The reader is a process forked before the
//! clock starts, pinned like the worker, and the same for both kinds of unit. Its work is part of the case, as a
//! console's is; its CPU time is reported separately. The reader of the matched console computes until it has used as
//! much CPU time as the source's console took for what it has read so far.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use rustix::pty::OpenptFlags;
use threadgauge_lab::worker::CaseError;
use threadgauge_machine::clock;
use threadgauge_results::{Lack, Need};

use super::case::{Case, Pace, Sink};
use super::line::{Checker, Received};
use crate::sys::disk::is_in_memory;
use crate::sys::fork::fork;
use crate::sys::reap::reap;

/// What the reader asks for at once: all that a pipe holds by default.
const READ_BYTES: usize = 65_536;

/// What the reader of the matched console asks for at once: a few short lines, or one long, as a console shows what it
/// gets.
const SLOW_READ_BYTES: usize = 256;

/// An open sink.
pub(super) struct Channel {
    write_end: OwnedFd,
    read_by: ReadBy,
    /// Beside the console.
    log: Option<OwnedFd>,
}

/// Who reads what is printed.
enum ReadBy {
    Nobody,
    /// A process, while units print.
    Process(Reader),
    /// This process, from the file, when the clock has stopped.
    Afterwards(Checker),
}

/// The process that reads a pipe or a pseudo-terminal.
struct Reader {
    pid: Pid,
    reports: File,
}

/// A sink that has taken everything.
pub(super) enum Drained {
    /// What it took cannot be read back.
    Unread,
    /// What the reading process received.
    Read(Pid, Received),
    /// A file that is still to be read.
    File(OwnedFd, Checker),
}

impl Channel {
    /// Opens the sink of a case and, where it has one, starts its reader and waits until it is ready.
    pub(super) fn open(case: &Case) -> Result<Self, CaseError> {
        let checker = |newline| Checker::new(case.payload_bytes as usize, case.prints, newline);
        let log = if case.sink == Sink::Logged {
            Some(temporary_file()?)
        } else {
            None
        };
        let (write_end, read_by) = match case.sink {
            Sink::Null => {
                let null = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
                let null = null.map_err(|e| CaseError::failed("cannot open /dev/null for writing", e))?;
                (null, ReadBy::Nobody)
            }
            Sink::File => (temporary_file()?, ReadBy::Afterwards(checker(b"\n"))),
            Sink::Pipe => {
                let ends = pipe_with(PipeFlags::CLOEXEC)
                    .map_err(|e| CaseError::failed("cannot make the pipe to print into", e))?;
                Reader::start(ends, checker(b"\n"), None)?
            }
            Sink::Pty | Sink::Console | Sink::Logged => {
                let ends = pseudo_terminal().map_err(no_terminal)?;
                // The terminal's own output processing stays on, as on a console: a newline becomes two bytes.
                Reader::start(ends, checker(b"\r\n"), case.sink.pace())?
            }
        };
        Ok(Self {
            write_end,
            read_by,
            log,
        })
    }

    /// Where units write.
    pub(super) fn write_end(&self) -> BorrowedFd<'_> {
        self.write_end.as_fd()
    }

    /// Whether the file system keeps the file that is written in memory, so that it never reaches a disk, unlike the
    /// source's log. Not so where no file is.
    pub(super) fn is_in_memory(&self) -> bool {
        match (&self.log, &self.read_by) {
            (Some(log), _) => is_in_memory(log),
            (None, ReadBy::Afterwards(_)) => is_in_memory(&self.write_end),
            _ => false,
        }
    }

    /// The log file beside the console.
    pub(super) fn log(&self) -> Option<BorrowedFd<'_>> {
        self.log.as_ref().map(AsFd::as_fd)
    }

    /// Closes the sink and waits until everything has been read. Units must have ended: a write end that
    /// is still open elsewhere keeps the reader waiting.
    pub(super) fn drain(self) -> Result<Drained, CaseError> {
        Ok(match self.read_by {
            ReadBy::Afterwards(checker) => Drained::File(self.write_end, checker),
            ReadBy::Nobody => Drained::Unread,
            ReadBy::Process(mut reader) => {
                drop(self.write_end);
                let received = reader.report()?;
                Drained::Read(reader.pid, received)
            }
        })
    }
}

impl Drained {
    /// Reaps the reader, reads a file back, and says what arrived; `None` where nobody can read. Not timed: call it
    /// after the clock has stopped and the children's usage is noted.
    pub(super) fn settle(self) -> Result<Option<Received>, CaseError> {
        match self {
            Self::Unread => Ok(None),
            Self::Read(reader, received) => {
                reap(reader).map_err(|e| CaseError::failed("cannot wait for the reader of the sink", e))?;
                Ok(Some(received))
            }
            Self::File(file, mut checker) => {
                let read = rustix::fs::seek(&file, SeekFrom::Start(0))
                    .and_then(|_| read_to_end(&file, &mut checker, &mut vec![0; READ_BYTES], None));
                read.map_err(|e| CaseError::failed("cannot read the file back", e))?;
                Ok(Some(checker.finish()))
            }
        }
    }
}

impl Reader {
    /// Forks a reader of the first end and waits until it is ready. Units write into the second end.
    fn start(
        ends: (OwnedFd, OwnedFd),
        mut checker: Checker,
        pace: Option<Pace>,
    ) -> Result<(OwnedFd, ReadBy), CaseError> {
        let (read_end, write_end) = ends;
        let (reports, report_to) = pipe_with(PipeFlags::CLOEXEC)
            .map(|(reports, report_to)| (File::from(reports), File::from(report_to)))
            .map_err(|e| CaseError::failed("cannot make the pipe for the reader's report", e))?;
        // Allocated and touched before the fork, so that the reader need not do it while the clock runs.
        let mut buffer = vec![
            1;
            if pace.is_some() {
                SLOW_READ_BYTES
            } else {
                READ_BYTES
            }
        ];
        // The child must drop its copy of the write end, or it would wait for itself.
        let mut write_end = Some(write_end);
        let pid = fork(|| {
            drop(write_end.take());
            u8::from(life(&read_end, &report_to, &mut checker, &mut buffer, pace).is_err())
        })
        .map_err(|e| CaseError::failed("cannot fork the reader of the sink", e))?;
        drop((read_end, report_to));
        let mut reports = reports;
        let ready = reports.read_exact(&mut [0]);
        ready.map_err(|e| CaseError::failed("the reader of the sink did not start", e))?;
        let write_end = write_end.expect("only the child takes it");
        Ok((write_end, ReadBy::Process(Self { pid, reports })))
    }

    /// Waits until everything has been read, and says what it was.
    fn report(&mut self) -> Result<Received, CaseError> {
        let mut words = [[0; size_of::<u64>()]; 7];
        self.reports
            .read_exact(words.as_flattened_mut())
            .map_err(|e| CaseError::failed("the reader of the sink ended without a report", e))?;
        let [bytes, lines, torn_lines, counters, final_words, cpu_ns, ended_ns] =
            words.map(u64::from_ne_bytes);
        Ok(Received {
            bytes,
            lines,
            torn_lines,
            counters,
            final_words,
            cpu_ns,
            ended_ns,
        })
    }
}

/// What the reader does: writes a byte when it is ready, and at the end what [`Reader::report`] reads.
fn life(
    read_end: &OwnedFd,
    mut report_to: &File,
    checker: &mut Checker,
    buffer: &mut [u8],
    pace: Option<Pace>,
) -> io::Result<()> {
    report_to.write_all(b"r")?;
    let began_cpu_ns = clock::process_cpu_ns();
    match read_to_end(read_end, checker, buffer, pace) {
        // The master side of a pseudo-terminal ends with an error when the last slave is closed.
        Ok(()) | Err(Errno::IO) => {}
        Err(error) => return Err(error.into()),
    }
    let ended_ns = clock::monotonic_ns();
    let seen = checker.finish();
    let cpu_ns = clock::process_cpu_ns() - began_cpu_ns;
    let words = [
        seen.bytes,
        seen.lines,
        seen.torn_lines,
        seen.counters,
        seen.final_words,
        cpu_ns,
        ended_ns,
    ];
    report_to.write_all(words.map(u64::to_ne_bytes).as_flattened())
}

fn read_to_end(
    from: impl AsFd,
    checker: &mut Checker,
    buffer: &mut [u8],
    pace: Option<Pace>,
) -> rustix::io::Result<()> {
    let began_cpu_ns = clock::process_cpu_ns();
    loop {
        match rustix::io::read(&from, &mut *buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                checker.take(&buffer[..count]);
                if let Some(pace) = pace {
                    take_its_time(pace, checker.so_far(), began_cpu_ns);
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Computes until this process has used what a console takes for what came so far. CPU time and not elapsed time, since
/// a console of that speed computes: on one CPU it takes it from those that print.
fn take_its_time(pace: Pace, so_far: Received, began_cpu_ns: u64) {
    let due_ns = pace.due_ns(so_far.newlines(), so_far.bytes) as u64;
    while clock::process_cpu_ns() - began_cpu_ns < due_ns {
        std::hint::spin_loop();
    }
}

/// A file without a name in the folder for temporary files. It is gone when the worker ends, however it ends. Opened
/// for appending, so that each write lands whole at the end.
fn temporary_file() -> Result<OwnedFd, CaseError> {
    let folder = std::env::temp_dir();
    open_nameless(&folder).map_err(|e| {
        let shown = folder.display();
        let says = format!("cannot make a file to print into in {shown} (set TMPDIR to another folder)");
        CaseError::failed(says, e)
    })
}

fn open_nameless(folder: &std::path::Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        // Not every file system can do that: there the file has a name for a moment.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let name = folder.join(format!(".threadgauge-print-{}", std::process::id()));
            let file = rustix::fs::open(&name, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
            rustix::fs::unlink(&name)?;
            Ok(file)
        }
        opened => opened,
    }
}

/// A system may have none: in a container without /dev/pts, or where all are taken.
fn no_terminal(error: Errno) -> CaseError {
    let says = format!("needs a pseudo-terminal, and cannot open one ({error}; is /dev/pts mounted?)");
    CaseError::Skipped(Lack::new(Need::System, says))
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
    use crate::print::case::Series;

    fn into(sink: Sink) -> Case {
        Case {
            sink,
            ..Series::Prints.at(100)
        }
    }

    #[test]
    fn every_readable_sink_tells_what_was_printed() {
        let _alone = one_at_a_time();
        for (sink, newline_bytes) in [
            (Sink::Pipe, 1),
            (Sink::File, 1),
            (Sink::Pty, 2),
            (Sink::Console, 2),
            (Sink::Logged, 2),
        ] {
            let channel = Channel::open(&into(sink)).unwrap();
            for line in [
                &b"[7]hello linux\n"[..],
                b"[7]he\n",
                b"[8]hello linux\n",
                b"[9]hello linux\n",
                b"[9]nux\n",
                FINAL_WORD,
            ] {
                rustix::io::write(channel.write_end(), line).unwrap();
            }
            let received = channel.drain().unwrap().settle().unwrap().unwrap();
            let expected = Received {
                bytes: 57 + 6 * newline_bytes,
                lines: 3,
                torn_lines: 2,
                counters: 24,
                final_words: 1,
                cpu_ns: received.cpu_ns,
                ended_ns: received.ended_ns,
            };
            assert_eq!(received, expected, "{}", sink.name());
            assert_eq!(
                received.cpu_ns > 0,
                sink != Sink::File,
                "only a reader's time is told"
            );
        }
    }

    #[test]
    fn the_reader_of_the_console_uses_what_the_sources_took_and_no_other_does() {
        let _alone = one_at_a_time();
        let pace = Pace::of_the_source();
        for sink in [Sink::Console, Sink::Logged, Sink::Pty] {
            let channel = Channel::open(&into(sink)).unwrap();
            for _ in 0..100 {
                rustix::io::write(channel.write_end(), b"[7]hello linux\n").unwrap();
            }
            let received = channel.drain().unwrap().settle().unwrap().unwrap();
            let due_ns = pace.due_ns(100, 1_600);
            assert_eq!(
                received.cpu_ns as f64 >= due_ns,
                sink != Sink::Pty,
                "{received:?}"
            );
        }
    }

    #[test]
    fn a_system_without_pseudo_terminals_lacks_them() {
        let CaseError::Skipped(lack) = no_terminal(Errno::NOENT) else {
            panic!("a failure");
        };
        assert_eq!(lack.of, Need::System);
        assert!(lack.says.starts_with("needs a pseudo-terminal"), "{}", lack.says);
    }

    #[test]
    fn nobody_reads_the_null_device() {
        let _alone = one_at_a_time();
        let channel = Channel::open(&into(Sink::Null)).unwrap();
        rustix::io::write(channel.write_end(), b"gone").unwrap();
        assert!(channel.drain().unwrap().settle().unwrap().is_none());
    }

    #[test]
    fn the_file_has_no_name() {
        let _alone = one_at_a_time();
        let before = leftovers();
        let channel = Channel::open(&into(Sink::File)).unwrap();
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
