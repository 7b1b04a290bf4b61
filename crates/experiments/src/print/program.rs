//! The measured program: units are made, print and are waited for; a final word; all is read.
//!
//! Owns what lies between the two readings of the clock, and the proof that it was done.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use threadgauge_machine::{Switches, clock, usage_children, usage_self};

use super::line::{FINAL_WORD, Line, Received};
use super::output::{Blocks, Output, PerLine, Shared, write_all};
use super::setting::{Buffering, Setting, Sink, Unit};
use super::sink::Channel;
use crate::sys::counters::SharedCounters;
use crate::sys::crew::crew;
use crate::sys::fork::fork;
use crate::sys::reap::{Ending, reap};
use threadgauge_lab::refusal::refused;
use threadgauge_lab::worker::{CaseError, Lap, Worker};

/// What a case measured.
#[derive(Debug)]
pub(super) struct Measured {
    /// From before the first unit is made until everything has been read.
    pub lap: Lap,
    /// CPU time of parent and units.
    pub cpu: Duration,
    /// CPU time of the reader, ns; 0 where nobody reads.
    pub reader_cpu_ns: u64,
    /// Context switches of parent and units.
    pub switches: Switches,
    /// Mean number of units between their first and their last instruction.
    pub mean_alive: f64,
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
    let (cpu_before, switches_before) = spent();
    let stopwatch = worker.stopwatch();
    let outcome = print_all(setting, &channel, &board);
    let drained = channel.drain()?;
    let lap = stopwatch.stop();
    // The reader is not reaped yet, so the children's usage is the units' alone.
    let (cpu_after, switches_after) = spent();
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
        cpu: cpu_after.saturating_sub(cpu_before),
        reader_cpu_ns,
        switches: switches_after - switches_before,
        mean_alive: alive_ns as f64 / lap.wall_ns.max(1) as f64,
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
    } else if received.lines + received.torn_lines != lines {
        // Each newline ends a line, whole or torn.
        format!(
            "{} newlines of {lines} arrived",
            received.lines + received.torn_lines
        )
    } else if received.final_words != 1 {
        format!("the final word came {} times", received.final_words)
    } else {
        return Ok(());
    };
    Err(CaseError::Failed(format!(
        "printing into {}: {wrong}",
        setting.sink.name()
    )))
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
        counters
            .map(Self)
            .map_err(|e| CaseError::failed("cannot map memory to share with the units", e))
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
        Err(CaseError::failed(
            format!("{failed} units could not print"),
            error,
        ))
    }
}

/// All units and the final word. Whatever it returns, no unit is left.
fn print_all(setting: &Setting, channel: &Channel, board: &Board) -> Result<(), CaseError> {
    let sink = channel.write_end();
    match setting.unit {
        Unit::Process => processes(setting, sink, board)?,
        Unit::Thread => threads(setting, sink, board)?,
    }
    board.verdict()?;
    write_all(sink, FINAL_WORD).map_err(|e| CaseError::failed("cannot print the final word", e))
}

/// As the source's fork.c: fork all, then wait for all.
fn processes(setting: &Setting, sink: BorrowedFd<'_>, board: &Board) -> Result<(), CaseError> {
    let mut made = Vec::with_capacity(usize::try_from(setting.units).unwrap_or_default());
    let mut trouble = Ok(());
    while (made.len() as u64) < setting.units && trouble.is_ok() {
        match fork(|| u8::from(!board.note(|| process(setting, sink)))) {
            Ok(child) => made.push(child),
            Err(error) => trouble = Err(cannot_make(setting, made.len(), &error)),
        }
    }
    // All are waited for, whatever happened to one.
    let endings: Vec<_> = made.iter().map(|child| reap(*child)).collect();
    trouble?;
    for ending in endings {
        match ending.map_err(|e| CaseError::failed("cannot wait for a printing process", e))? {
            // 1 is a unit that could not print, and has said why on the board.
            Ending::Code(0 | 1) => {}
            Ending::Code(code) => {
                return Err(CaseError::Failed(format!(
                    "a printing process ended with status {code}"
                )));
            }
            Ending::Signal(signal) => {
                return Err(CaseError::Failed(format!(
                    "a printing process was ended by signal {signal}"
                )));
            }
        }
    }
    Ok(())
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

/// As the source's thread.c: create all, then join all.
fn threads(setting: &Setting, sink: BorrowedFd<'_>, board: &Board) -> Result<(), CaseError> {
    let count = usize::try_from(setting.units).unwrap_or(usize::MAX);
    let shared = Mutex::new(Blocks::new(sink));
    let unit = || {
        board.note(|| match setting.buffering {
            Buffering::Line => print(setting, &mut PerLine(sink)),
            Buffering::Block => print(setting, &mut Shared(&shared)),
        });
    };
    crew(count, &unit, |made, error| cannot_make(setting, made, &error))?;
    let mut shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    shared
        .flush()
        .map_err(|e| CaseError::failed("cannot print the last block", e))
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

/// CPU time and switches of this process and of the children it has waited for.
fn spent() -> (Duration, Switches) {
    let (own, children) = (usage_self(), usage_children());
    let switches = Switches {
        voluntary: own.switches.voluntary + children.switches.voluntary,
        involuntary: own.switches.involuntary + children.switches.involuntary,
    };
    (own.cpu() + children.cpu(), switches)
}

/// Names the limit that refused a unit; called while those made are still there.
fn cannot_make(setting: &Setting, made: usize, error: &io::Error) -> CaseError {
    let what = format!("{} {} of {}", setting.unit.name(), made + 1, setting.units);
    refused(what, error)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::sink::one_at_a_time;
    use super::*;
    use threadgauge_lab::compat::params;
    use threadgauge_lab::worker::Order;

    fn setting(case: &str) -> Setting {
        Setting::read(&params(case)).unwrap()
    }

    fn worker() -> Worker {
        Worker::new(&Order {
            experiment: "print".to_owned(),
            params: params(""),
            cpus: vec![0],
            handicap_percent: 0,
            launched_ns: 0,
        })
    }

    #[test]
    fn every_way_to_print_brings_every_line() {
        let _alone = one_at_a_time();
        for unit in Unit::ALL {
            for sink in Sink::ALL {
                for buffering in Buffering::ALL {
                    let setting = Setting {
                        unit: *unit,
                        units: 6,
                        prints: 500,
                        payload_bytes: 11,
                        sink: *sink,
                        buffering: *buffering,
                    };
                    let measured = measure(&setting, &worker()).unwrap();
                    let Received { bytes, lines, .. } = measured.received;
                    let returns = if *sink == Sink::Pty { 3_001 } else { 0 };
                    assert_eq!(bytes, setting.bytes() + 9 + returns, "{setting:?}");
                    if setting.lines_stay_whole() {
                        assert_eq!(lines, 3_000, "{setting:?}");
                    }
                    assert!(measured.mean_alive > 0.0, "{setting:?}");
                    assert!(measured.lap.wall_ns > 0);
                }
            }
        }
    }

    #[test]
    fn blocks_of_two_processes_meet_in_the_middle_of_lines() {
        let _alone = one_at_a_time();
        // Some 800 KB each: many times what a pipe holds, so that all are under way together.
        let case = "unit=process,units=6,prints=50000,payload_bytes=11,sink=pipe,buffering=block";
        let setting = setting(case);
        let measured = measure(&setting, &worker()).unwrap();
        let seen = measured.received;
        assert!(seen.torn_lines > 0, "{seen:?}");
        assert_eq!(
            seen.lines + seen.torn_lines,
            setting.lines(),
            "a newline each, wherever it stands"
        );
    }

    #[test]
    fn a_unit_that_cannot_print_fails_the_case() {
        let _alone = one_at_a_time();
        for unit in ["process", "thread"] {
            let setting = setting(&format!(
                "unit={unit},units=3,prints=2,payload_bytes=11,sink=null,buffering=line"
            ));
            let board = Board::new().unwrap();
            // Opened for reading only.
            let unwritable = std::fs::File::open("/dev/null").unwrap();
            let outcome = match setting.unit {
                Unit::Process => processes(&setting, unwritable.as_fd(), &board),
                Unit::Thread => threads(&setting, unwritable.as_fd(), &board),
            };
            outcome.unwrap();
            let says = board.verdict().unwrap_err().to_string();
            assert!(
                says.contains("3 units could not print") && says.contains("os error 9"),
                "{says}"
            );
        }
    }

    #[test]
    fn what_arrived_must_be_what_was_printed() {
        let lines = setting("unit=process,units=2,prints=3,payload_bytes=11,sink=pipe,buffering=line");
        let all = Received {
            bytes: 6 * 15 + 9,
            lines: 6,
            torn_lines: 0,
            counters: 6,
            final_words: 1,
        };
        assert!(check(&lines, &all).is_ok());
        let blocks = Setting {
            buffering: Buffering::Block,
            ..lines
        };
        let terminal = Setting {
            sink: Sink::Pty,
            ..lines
        };
        for (setting, wrong, says) in [
            (lines, Received { bytes: 98, ..all }, "98 bytes of 99 arrived"),
            (terminal, all, "99 bytes of 106 arrived"),
            (
                lines,
                Received {
                    torn_lines: 1,
                    lines: 5,
                    ..all
                },
                "of 6 lines 5 arrived whole and 1 torn",
            ),
            (lines, Received { counters: 7, ..all }, "add up to 7, not 6"),
            (
                lines,
                Received {
                    final_words: 0,
                    ..all
                },
                "the final word came 0 times",
            ),
            (blocks, Received { bytes: 98, ..all }, "98 bytes of 99 arrived"),
            (blocks, Received { lines: 5, ..all }, "5 newlines of 6 arrived"),
        ] {
            let error = check(&setting, &wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let torn = Received {
            torn_lines: 2,
            lines: 4,
            counters: 4,
            ..all
        };
        assert!(
            check(&blocks, &torn).is_ok(),
            "blocks of processes may tear lines"
        );
        let threads = Setting {
            unit: Unit::Thread,
            ..blocks
        };
        assert!(check(&threads, &torn).is_err(), "a shared buffer tears none");
    }
}
