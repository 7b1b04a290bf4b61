//! The measured program: units are made, print and are waited for; a final word; all is read.
//!
//! Owns what lies between the two readings of the clock, and the proof that it was done.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, wait};
use threadgauge_machine::{Usage, clock, usage_children, usage_self};

use super::line::{FINAL_WORD, Line, Received};
use super::output::{Blocks, Output, PerLine, Shared, write_all};
use super::setting::{Buffering, Setting, Sink, Unit};
use super::sink::Channel;
use crate::sys::counters::SharedCounters;
use crate::sys::crew::{Refused, crew};
use crate::sys::fork::fork;
use crate::worker::{CaseError, Lap, Worker};

/// What a case measured.
#[derive(Debug)]
pub(super) struct Measured {
    /// From before the first unit is made until everything has been read.
    pub lap: Lap,
    /// CPU time of parent and units, ns.
    pub cpu_ns: u64,
    /// CPU time of the reader, ns; 0 where nobody reads.
    pub reader_cpu_ns: u64,
    /// Times a unit or the parent gave up the CPU to wait.
    pub voluntary_switches: u64,
    /// Times one was made to give it up.
    pub involuntary_switches: u64,
    /// Mean number of units between their first and their last instruction.
    pub alive: f64,
    /// What arrived; without a reader, what was written.
    pub received: Received,
    /// What to mark the sample with.
    pub tags: Vec<&'static str>,
}

/// Runs a case once.
pub(super) fn measure(setting: &Setting, worker: &Worker) -> Result<Measured, CaseError> {
    let board = Board::new()?;
    let channel = Channel::open(setting)?;
    let tags = channel.tags().to_vec();
    let before = spent();
    let stopwatch = worker.stopwatch();
    let outcome = print_all(setting, &channel, &board);
    let drained = channel.drain()?;
    let lap = stopwatch.stop();
    // The reader is not reaped yet, so the children's usage is the units' alone.
    let after = spent();
    let arrived = drained.settle()?;
    outcome?;
    let written = Received {
        bytes: board.0[BYTES].load(Relaxed) + FINAL_WORD.len() as u64,
        lines: setting.lines(),
        ..Received::default()
    };
    if let Some((received, _)) = arrived {
        check(setting, &received)?;
    }
    let expected = setting.bytes() + FINAL_WORD.len() as u64;
    if written.bytes != expected {
        return Err(CaseError::Failed(format!(
            "the units say that they wrote {} bytes of {expected}",
            written.bytes
        )));
    }
    let alive_ns = board.0[ALIVE_NS].load(Relaxed);
    let (received, reader_cpu_ns) = arrived.unwrap_or((written, 0));
    Ok(Measured {
        lap,
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
        reader_cpu_ns,
        voluntary_switches: after.voluntary - before.voluntary,
        involuntary_switches: after.involuntary - before.involuntary,
        alive: alive_ns as f64 / lap.wall_ns.max(1) as f64,
        received,
        tags,
    })
}

/// Whether all that was to be printed has arrived, and lines are whole where they must be.
pub(super) fn check(setting: &Setting, received: &Received) -> Result<(), CaseError> {
    let lines = setting.lines();
    // A terminal makes two bytes of a newline.
    let returns = if setting.sink == Sink::Pty { lines + 1 } else { 0 };
    let bytes = setting.bytes() + FINAL_WORD.len() as u64 + returns;
    let counters = setting.units * (setting.prints * (setting.prints - 1) / 2);
    let whole = received.torn_lines == 0 && received.lines == lines && received.counters == counters;
    let wrong = if received.bytes != bytes {
        format!("{} bytes of {bytes} arrived", received.bytes)
    } else if setting.lines_stay_whole() && !whole {
        format!(
            "of {lines} lines {} arrived whole and {} torn (their counters add up to {}, not {counters})",
            received.lines, received.torn_lines, received.counters
        )
    } else if received.final_words != 1 {
        format!("the final word came {} times", received.final_words)
    } else {
        return Ok(());
    };
    Err(CaseError::Failed(format!("printing into {}: {wrong}", setting.sink.name())))
}

/// What units tell the parent, in memory they share with it.
struct Board(SharedCounters<4>);

/// Bytes written.
const BYTES: usize = 0;
/// Time between first and last instruction, all units added up, ns.
const ALIVE_NS: usize = 1;
/// Units that failed.
const FAILED: usize = 2;
/// The error of the last of them.
const ERRNO: usize = 3;

impl Board {
    fn new() -> Result<Self, CaseError> {
        let counters = SharedCounters::new();
        counters.map(Self).map_err(|e| CaseError::failed("cannot map memory to share with the units", e))
    }

    /// Runs a unit's life and notes how it went. Relaxed: read after the unit was waited for.
    fn note(&self, life: impl FnOnce() -> io::Result<u64>) -> bool {
        let began_ns = clock::monotonic_ns();
        let ended = life();
        let alive_ns = clock::monotonic_ns() - began_ns;
        self.0[ALIVE_NS].fetch_add(alive_ns, Relaxed);
        match &ended {
            Ok(bytes) => self.0[BYTES].fetch_add(*bytes, Relaxed),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or_default();
                self.0[ERRNO].store(errno.unsigned_abs().into(), Relaxed);
                self.0[FAILED].fetch_add(1, Relaxed)
            }
        };
        ended.is_ok()
    }

    /// What the units that could not print say.
    fn verdict(&self) -> Result<(), CaseError> {
        let failed = self.0[FAILED].load(Relaxed);
        if failed == 0 {
            return Ok(());
        }
        let errno = i32::try_from(self.0[ERRNO].load(Relaxed)).unwrap_or_default();
        let error = io::Error::from_raw_os_error(errno);
        Err(CaseError::failed(format!("{failed} units could not print"), error))
    }
}

/// All units and the final word. Whatever it returns, no unit is left.
fn print_all(setting: &Setting, channel: &Channel, board: &Board) -> Result<(), CaseError> {
    let sink = channel.write_end();
    match setting.unit {
        Unit::Process => processes(setting, channel, board)?,
        Unit::Thread => threads(setting, sink, board)?,
    }
    board.verdict()?;
    write_all(sink, FINAL_WORD).map_err(|e| CaseError::failed("cannot print the final word", e))
}

/// As the source's fork.c: fork all, then wait for all.
fn processes(setting: &Setting, channel: &Channel, board: &Board) -> Result<(), CaseError> {
    let sink = channel.write_end();
    let mut made = 0;
    let mut refused = None;
    while made < setting.units && refused.is_none() {
        match fork(|| u8::from(!board.note(|| process(setting, sink)))) {
            Ok(_) => made += 1,
            Err(error) => refused = Some(error),
        }
    }
    wait_for(made, channel.reader())?;
    refused.map_or(Ok(()), |error| Err(cannot_make(Unit::Process, made, setting.units, &error)))
}

/// A process has its own buffer.
fn process(setting: &Setting, sink: BorrowedFd<'_>) -> io::Result<u64> {
    match setting.buffering {
        Buffering::Line => print(setting, &mut PerLine(sink)),
        Buffering::Block => {
            let mut blocks = Blocks::new(sink);
            let bytes = print(setting, &mut blocks)?;
            blocks.flush()?;
            Ok(bytes)
        }
    }
}

/// Waits for so many children beside the reader, in the order they end, as the source's parent does.
fn wait_for(units: u64, reader: Option<Pid>) -> Result<(), CaseError> {
    let mut ended = 0;
    let mut trouble = None;
    while ended < units {
        match wait(WaitOptions::empty()) {
            // The parent still holds a write end, so a reader that ends now has failed; units will see its end.
            Ok(Some((pid, _))) if Some(pid) == reader => {
                trouble = Some("the reader of the sink ended before the units".to_owned());
            }
            Ok(Some((pid, status))) => {
                ended += 1;
                // 1 is a unit that could not print, and has said why on the board.
                if status.exit_status().is_none_or(|code| code > 1) {
                    let how = status.terminating_signal().map_or_else(
                        || format!("with status {}", status.exit_status().unwrap_or(-1)),
                        |signal| format!("by signal {signal}"),
                    );
                    trouble = Some(format!("the printing process {pid} was ended {how}"));
                }
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(CaseError::failed("cannot wait for the printing processes", error)),
        }
    }
    trouble.map_or(Ok(()), |says| Err(CaseError::Failed(says)))
}

/// As the source's thread.c: create all, then join all.
fn threads(setting: &Setting, sink: BorrowedFd<'_>, board: &Board) -> Result<(), CaseError> {
    let count = usize::try_from(setting.units).unwrap_or(usize::MAX);
    let shared = Mutex::new(Blocks::new(sink));
    let made = crew(count, &|| {
        board.note(|| match setting.buffering {
            Buffering::Line => print(setting, &mut PerLine(sink)),
            Buffering::Block => print(setting, &mut Shared(&shared)),
        });
    });
    made.map_err(|Refused { created, error }| {
        cannot_make(Unit::Thread, created as u64, setting.units, &error)
    })?;
    let mut shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    shared.flush().map_err(|e| CaseError::failed("cannot print the last block", e))
}

/// A unit's work; the bytes it printed.
fn print(setting: &Setting, output: &mut impl Output) -> io::Result<u64> {
    let mut line = Line::new(setting.payload_bytes as usize);
    let mut bytes = 0;
    for counter in 0..setting.prints {
        let line = line.with_counter(counter);
        output.line(line)?;
        bytes += line.len() as u64;
    }
    Ok(bytes)
}

/// CPU time and switches so far.
struct Spent {
    cpu_ns: u64,
    voluntary: u64,
    involuntary: u64,
}

/// Of this process and of the children it has waited for.
fn spent() -> Spent {
    let (own, children): (Usage, Usage) = (usage_self(), usage_children());
    Spent {
        cpu_ns: own.cpu_ns + children.cpu_ns,
        voluntary: own.switches.voluntary + children.switches.voluntary,
        involuntary: own.switches.involuntary + children.switches.involuntary,
    }
}

/// Names the limit that refused a unit.
fn cannot_make(unit: Unit, made: u64, wanted: u64, error: &io::Error) -> CaseError {
    CaseError::Failed(format!("{} {} of {wanted} was refused: {error}", unit.name(), made + 1))
}
