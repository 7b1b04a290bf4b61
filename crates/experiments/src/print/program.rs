//! The measured program: units are made, print and are waited for; a final word; all is read.
//!
//! Owns what lies between the two readings of the clock, and the proof that it was done. Each sample is one run from
//! cold. Units do not start from a barrier: the source's begin to print as soon as they are made, and that is what its
//! figures hold.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use threadgauge_lab::refusal::refused;
use threadgauge_lab::statistic::metric;
use threadgauge_lab::worker::{CaseError, Worker};
use threadgauge_machine::{Switches, clock, usage_children, usage_self};

use super::case::{Buffering, CPU, Case, ELAPSED, READER_CPU, Sink, TORN, Unit};
use super::line::{FINAL_WORD, Line, Received};
use super::output::{Blocks, write_all};
use super::sink::Channel;
use crate::sys::counters::SharedCounters;
use crate::sys::crew::crew;
use crate::sys::fork::fork;
use crate::sys::reap::{Ending, reap};

/// Runs a case once.
pub(super) fn measure(case: &Case, worker: &mut Worker) -> Result<(), CaseError> {
    let counters = Counters::new()?;
    let channel = Channel::open(case)?;
    if case.sink == Sink::File && channel.is_in_memory() {
        worker.tag("tmpfs");
    }
    let (cpu_before, switches_before) = spent();
    let stopwatch = worker.stopwatch();
    let outcome = print_all(case, channel.write_end(), &counters);
    let drained = channel.drain()?;
    let lap = stopwatch.stop();
    // The reader is not reaped yet, so the children's usage is the units' alone.
    let (cpu_after, switches_after) = spent();
    let arrived = drained.settle()?;
    outcome?;
    if let Some(received) = &arrived {
        check(case, received)?;
    }
    // What is told where nobody can read.
    let written = Received {
        bytes: counters.0[BYTES].load(Relaxed) + FINAL_WORD.len() as u64,
        lines: case.lines(),
        ..Received::default()
    };
    let (bytes, expected) = (written.bytes, case.bytes() + FINAL_WORD.len() as u64);
    if bytes != expected {
        let says = format!("the units say that they wrote {bytes} bytes of {expected}");
        return Err(CaseError::Failed(says));
    }
    let received = arrived.unwrap_or(written);
    let switches = switches_after - switches_before;
    // Of units between their first and their last instruction.
    let mean_alive = counters.0[ALIVE_NS].load(Relaxed) as f64 / lap.wall_ns.max(1) as f64;
    let switched = |name| metric(name, "switches");
    for (metric, value) in [
        (ELAPSED, lap.wall_ns as f64),
        (CPU, cpu_after.saturating_sub(cpu_before).as_nanos() as f64),
        (READER_CPU, received.cpu_ns as f64),
        (metric("bytes", "bytes"), received.bytes as f64),
        (metric("lines", "lines"), received.lines as f64),
        (TORN, received.torn_lines as f64),
        (switched("voluntary_switches"), switches.voluntary as f64),
        (switched("involuntary_switches"), switches.involuntary as f64),
        (metric("mean_alive", "units"), mean_alive),
    ] {
        worker.record(metric, value);
    }
    worker.tag("cold");
    Ok(())
}

/// Whether all that was to be printed has arrived, and lines are whole where they must be.
fn check(case: &Case, received: &Received) -> Result<(), CaseError> {
    let lines = case.lines();
    // A terminal makes two bytes of a newline.
    let returns = if case.sink == Sink::Pty { lines + 1 } else { 0 };
    let bytes = case.bytes() + FINAL_WORD.len() as u64 + returns;
    let counters = case.units * (case.prints * (case.prints - 1) / 2);
    let whole = received.torn_lines == 0 && received.lines == lines && received.counters == counters;
    let wrong = if received.bytes != bytes {
        format!("{} bytes of {bytes} arrived", received.bytes)
    } else if case.lines_stay_whole() && !whole {
        format!(
            "of {lines} lines {} arrived whole and {} torn (their counters add up to {}, not {counters})",
            received.lines, received.torn_lines, received.counters
        )
    } else if received.lines + received.torn_lines != lines {
        // Each newline ends a line, whole or torn.
        let newlines = received.lines + received.torn_lines;
        format!("{newlines} newlines of {lines} arrived")
    } else if received.final_words != 1 {
        format!("the final word came {} times", received.final_words)
    } else {
        return Ok(());
    };
    let sink = case.sink.name();
    Err(CaseError::Failed(format!("printing into {sink}: {wrong}")))
}

/// What units tell the parent, in memory they share with it.
struct Counters(SharedCounters<4>);

/// Bytes written.
const BYTES: usize = 0;
/// Time between first and last instruction, all units added up, ns.
const ALIVE_NS: usize = 1;
/// Units that failed.
const FAILED: usize = 2;
/// The error of the last of them.
const ERRNO: usize = 3;

impl Counters {
    fn new() -> Result<Self, CaseError> {
        let shared = SharedCounters::new().map(Self);
        shared.map_err(|e| CaseError::failed("cannot map memory to share with the units", e))
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
        let says = format!("{failed} units could not print");
        Err(CaseError::failed(says, error))
    }
}

/// All units and the final word. Whatever it returns, no unit is left.
fn print_all(case: &Case, sink: BorrowedFd<'_>, counters: &Counters) -> Result<(), CaseError> {
    match case.unit {
        Unit::Process => processes(case, sink, counters)?,
        Unit::Thread => threads(case, sink, counters)?,
    }
    counters.verdict()?;
    write_all(sink, FINAL_WORD).map_err(|e| CaseError::failed("cannot print the final word", e))
}

/// As the source's fork.c: fork all, then wait for all.
fn processes(case: &Case, sink: BorrowedFd<'_>, counters: &Counters) -> Result<(), CaseError> {
    let mut made = Vec::with_capacity(usize::try_from(case.units).unwrap_or_default());
    let mut trouble = Ok(());
    while (made.len() as u64) < case.units && trouble.is_ok() {
        match fork(|| u8::from(!counters.note(|| process(case, sink)))) {
            Ok(child) => made.push(child),
            Err(error) => trouble = Err(cannot_make(case, made.len(), &error)),
        }
    }
    // All are waited for, whatever happened to one.
    let endings: Vec<_> = made.iter().map(|child| reap(*child)).collect();
    trouble?;
    for ending in endings {
        let ended = match ending.map_err(|e| CaseError::failed("cannot wait for a printing process", e))? {
            // 1 is a unit that could not print, and has counted itself.
            Ending::Code(0 | 1) => continue,
            Ending::Code(code) => format!("ended with status {code}"),
            Ending::Signal(signal) => format!("was ended by signal {signal}"),
        };
        return Err(CaseError::Failed(format!("a printing process {ended}")));
    }
    Ok(())
}

/// A process has its own buffer.
fn process(case: &Case, sink: BorrowedFd<'_>) -> io::Result<u64> {
    match case.buffering {
        Buffering::Line => print(case, |line| write_all(sink, line)),
        Buffering::Block => {
            let mut blocks = Blocks::new(sink);
            let bytes = print(case, |line| blocks.line(line))?;
            blocks.flush()?;
            Ok(bytes)
        }
    }
}

/// As the source's thread.c: create all, then join all.
fn threads(case: &Case, sink: BorrowedFd<'_>, counters: &Counters) -> Result<(), CaseError> {
    let count = usize::try_from(case.units).unwrap_or(usize::MAX);
    let shared = Mutex::new(Blocks::new(sink));
    // A thread that panicked has left a whole buffer: `used` moves after the bytes.
    let block = |line: &[u8]| shared.lock().unwrap_or_else(PoisonError::into_inner).line(line);
    let unit = || {
        counters.note(|| match case.buffering {
            Buffering::Line => print(case, |line| write_all(sink, line)),
            Buffering::Block => print(case, block),
        });
    };
    crew(count, &unit, |made, error| cannot_make(case, made, &error))?;
    let mut shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    shared
        .flush()
        .map_err(|e| CaseError::failed("cannot print the last block", e))
}

/// A unit's work; the bytes it printed.
fn print(case: &Case, mut output: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut line = Line::new(case.payload_bytes as usize);
    let mut bytes = 0;
    for counter in 0..case.prints {
        let line = line.with_counter(counter);
        output(line)?;
        bytes += line.len() as u64;
    }
    Ok(bytes)
}

/// CPU time and switches of this process and of the children it has waited for.
fn spent() -> (Duration, Switches) {
    let (own, children) = (usage_self(), usage_children());
    (own.cpu() + children.cpu(), own.switches + children.switches)
}

/// Names the limit that refused a unit; called while those made are still there.
fn cannot_make(case: &Case, made: usize, error: &io::Error) -> CaseError {
    let what = format!("{} {} of {}", case.unit.name(), made + 1, case.units);
    refused(what, error)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use std::os::unix::net::UnixDatagram;

    use threadgauge_lab::point::Point as _;
    use threadgauge_lab::testing;
    use threadgauge_results::{Sample, Status};

    use super::*;
    use crate::print::EXPERIMENT;
    use crate::print::case::Series;
    use crate::print::sink::one_at_a_time;

    /// 11 characters, into a pipe.
    fn case(unit: Unit, units: u64, prints: u64, buffering: Buffering) -> Case {
        Case {
            unit,
            units,
            buffering,
            ..Series::Prints.at(prints)
        }
    }

    fn sample(case: Case) -> Sample {
        let sample = testing::sample(&EXPERIMENT, &case.params());
        assert_eq!(sample.status, Status::Ok, "{case:?}: {:?}", sample.reason);
        sample
    }

    #[test]
    fn every_sink_gets_every_line() {
        let _alone = one_at_a_time();
        for unit in Unit::ALL {
            for sink in Sink::ALL {
                for buffering in Buffering::ALL {
                    let case = Case {
                        sink,
                        ..case(unit, 6, 500, buffering)
                    };
                    let sample = sample(case);
                    let returns = if sink == Sink::Pty { 3_001 } else { 0 };
                    let bytes = (case.bytes() + 9 + returns) as f64;
                    assert_eq!(sample.value("bytes"), Some(bytes), "{case:?}");
                    if case.lines_stay_whole() {
                        assert_eq!(sample.value("lines"), Some(3_000.0), "{case:?}");
                    }
                    for metric in ["mean_alive", ELAPSED.name, CPU.name] {
                        assert!(sample.value(metric) > Some(0.0), "{metric} of {case:?}");
                    }
                    let reads = matches!(sink, Sink::Pipe | Sink::Pty);
                    assert_eq!(sample.value(READER_CPU.name) > Some(0.0), reads, "{case:?}");
                }
            }
        }
    }

    #[test]
    fn a_write_is_a_line_or_what_is_in_a_buffer_and_threads_share_theirs() {
        use Buffering::{Block, Line};
        for (unit, buffering, lines_of_each_write) in [
            (Unit::Process, Line, vec![1; 6]),
            (Unit::Thread, Line, vec![1; 6]),
            (Unit::Process, Block, vec![3, 3]),
            (Unit::Thread, Block, vec![6]),
        ] {
            let case = case(unit, 2, 3, buffering);
            // Each write is a datagram.
            let (sink, read_end) = UnixDatagram::pair().unwrap();
            print_all(&case, sink.as_fd(), &Counters::new().unwrap()).unwrap();
            read_end.set_nonblocking(true).unwrap();
            let mut writes = Vec::new();
            let mut bytes = [0; 8192];
            while let Ok(length) = read_end.recv(&mut bytes) {
                writes.push(bytes[..length].to_vec());
            }
            assert_eq!(writes.pop().unwrap(), FINAL_WORD);
            let lines = |write: &Vec<u8>| write.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(
                writes.iter().map(lines).collect::<Vec<_>>(),
                lines_of_each_write,
                "{case:?}"
            );
        }
    }

    #[test]
    fn blocks_of_two_processes_meet_in_the_middle_of_lines() {
        let _alone = one_at_a_time();
        // Some 800 KB each: many times what a pipe holds, so that all are under way together.
        let case = case(Unit::Process, 6, 50_000, Buffering::Block);
        let sample = sample(case);
        let [lines, torn] = ["lines", TORN.name].map(|metric| sample.value(metric).unwrap());
        assert!(torn > 0.0, "{sample:?}");
        assert_eq!(
            lines + torn,
            case.lines() as f64,
            "a newline each, wherever it stands"
        );
    }

    #[test]
    fn a_unit_that_cannot_print_fails_the_case() {
        for unit in Unit::ALL {
            let case = case(unit, 3, 2, Buffering::Line);
            // Opened for reading only.
            let unwritable = std::fs::File::open("/dev/null").unwrap();
            let outcome = print_all(&case, unwritable.as_fd(), &Counters::new().unwrap());
            let says = outcome.unwrap_err().to_string();
            assert!(
                says.contains("3 units could not print") && says.contains("os error 9"),
                "{says}"
            );
        }
    }

    #[test]
    fn what_arrived_must_be_what_was_printed() {
        let lines = case(Unit::Process, 2, 3, Buffering::Line);
        let all = Received {
            bytes: 6 * 15 + 9,
            lines: 6,
            torn_lines: 0,
            counters: 6,
            final_words: 1,
            cpu_ns: 0,
        };
        assert!(check(&lines, &all).is_ok());
        let blocks = Case {
            buffering: Buffering::Block,
            ..lines
        };
        let terminal = Case {
            sink: Sink::Pty,
            ..lines
        };
        for (case, wrong, says) in [
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
            let error = check(&case, &wrong).unwrap_err().to_string();
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
        let threads = Case {
            unit: Unit::Thread,
            ..blocks
        };
        assert!(check(&threads, &torn).is_err(), "a shared buffer tears none");
    }
}
