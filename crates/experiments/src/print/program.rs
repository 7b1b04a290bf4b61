//! The measured program: units are made, print, and are waited for; then a final word is printed, and all is read.
//!
//! It is a program in C, as the source's was (`guests/c/print.c`), the same for processes and threads. Owned here: the
//! time between its first reading of the clock and the reader's last one, and the check that the work was done. Each
//! run is from cold. Units do not wait at a barrier: the source's units begin to print as soon as they are made, and
//! its figures include that.

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::process::Stdio;

use threadgauge_lab::statistic::{Metric, metric};
use threadgauge_lab::worker::{CaseError, Worker};

use super::case::{CPU, Case, ELAPSED, READER_CPU, TORN, WHOLE};
use super::line::{FINAL_WORD, Received};
use super::sink::Channel;
use crate::guests::{Found, figures};

/// Runs a case as often as it is repeated; the figures are of one run on average.
pub(super) fn measure(case: &Case, worker: &mut Worker) -> Result<(), CaseError> {
    let repetitions = case.repetitions();
    let mut sums = [0.0; FIGURES.len()];
    for _ in 0..repetitions {
        let figures = run(case, worker)?;
        sums.iter_mut()
            .zip(figures)
            .for_each(|(sum, figure)| *sum += figure);
    }
    let means = sums.map(|sum| sum / repetitions as f64);
    for (metric, mean) in FIGURES.into_iter().zip(means) {
        worker.record(metric, mean);
    }
    let [elapsed_ns, .., alive_ns] = means;
    // The mean number of units between their first and their last instruction.
    worker.record(metric("mean_alive", "units"), alive_ns / elapsed_ns.max(1.0));
    worker.record(metric("repetitions", "runs"), repetitions as f64);
    worker.tag("cold");
    Ok(())
}

/// The figures of a run, in the order in which [`run`] gives them.
const FIGURES: [Metric; 10] = [
    ELAPSED,
    WHOLE,
    CPU,
    READER_CPU,
    metric("bytes", "bytes"),
    metric("lines", "lines"),
    TORN,
    metric("voluntary_switches", "switches"),
    metric("involuntary_switches", "switches"),
    metric("all_alive_ns", "ns"),
];

/// Opens the sink of a case, has all printed into it and its log, and checks that all of it arrived. What arrived is
/// known where somebody can read it.
///
/// # Errors
///
/// Those of `print`; failed where the sink cannot be opened, or does not get what was to be printed.
pub(super) fn printed<T>(
    case: &Case,
    worker: &mut Worker,
    print: impl FnOnce(&Worker, Stdio, &str) -> Result<T, CaseError>,
) -> Result<(T, Option<Received>), CaseError> {
    let channel = Channel::open(case)?;
    if channel.is_in_memory() {
        worker.tag("tmpfs");
    }
    let sink = channel.write_end().try_clone_to_owned();
    let sink = sink.map_err(|e| CaseError::failed("cannot give the sink to the program", e))?;
    let told = print(worker, sink.into(), &path(channel.log()));
    let logged = channel.log().map(rustix::fs::fstat).transpose();
    let arrived = channel.drain()?.settle()?;
    let told = told?;
    let logged = logged.map_err(|e| CaseError::failed("cannot look at the log file", e))?;
    let missing = logged.filter(|log| log.st_size.unsigned_abs() != case.bytes());
    if let Some(log) = missing {
        let says = format!("the log file has {} bytes of {}", log.st_size, case.bytes());
        return Err(CaseError::Failed(says));
    }
    if let Some(received) = &arrived {
        check(case, received)?;
    }
    Ok((told, arrived))
}

/// Where a program finds the log, which has no name: it opens it through this process's descriptor.
fn path(log: Option<BorrowedFd<'_>>) -> String {
    let path = |log: BorrowedFd<'_>| format!("/proc/{}/fd/{}", std::process::id(), log.as_raw_fd());
    log.map_or_else(|| "-".to_owned(), path)
}

/// Runs a case once, from cold.
fn run(case: &Case, worker: &mut Worker) -> Result<[f64; FIGURES.len()], CaseError> {
    let print = |worker: &Worker, sink: Stdio, log: &str| print_all(case, worker, sink, log);
    let (printed, arrived) = printed(case, worker, print)?;
    let Found {
        figures: printed,
        ran_ns,
        stretch,
    } = printed;
    // What is reported where nobody can read.
    let written = Received {
        bytes: printed.bytes + FINAL_WORD.len() as u64,
        lines: case.lines(),
        ..Received::default()
    };
    let (bytes, expected) = (written.bytes, case.bytes() + FINAL_WORD.len() as u64);
    if bytes != expected {
        let says = format!("the units say that they wrote {bytes} bytes of {expected}");
        return Err(CaseError::Failed(says));
    }
    let whole_ns = ran_ns as f64 * stretch;
    let received = arrived.unwrap_or(written);
    // Who reads meanwhile sees the end after a handicapped worker's extra work, so that the time has it already.
    let stretch = if received.ended_ns > 0 { 1.0 } else { stretch };
    let ended_ns = received.ended_ns.max(printed.ended_ns);
    Ok([
        ended_ns.saturating_sub(printed.begun_ns) as f64 * stretch,
        whole_ns,
        printed.cpu_ns as f64,
        received.cpu_ns as f64,
        received.bytes as f64,
        received.lines as f64,
        received.torn_lines as f64,
        printed.voluntary as f64,
        printed.involuntary as f64,
        printed.alive_ns as f64,
    ])
}

figures! {
    /// What `guests/c/print.c` answers.
    struct Printed {
        begun_ns,
        ended_ns,
        cpu_ns,
        voluntary,
        involuntary,
        bytes,
        alive_ns,
    }
}

/// All units and the final word, by the program in C; the lines also into `log`.
fn print_all(case: &Case, worker: &Worker, sink: Stdio, log: &str) -> Result<Found<Printed>, CaseError> {
    let (unit, buffering) = (case.unit.name(), case.buffering.name());
    case.program().ask(
        worker,
        sink,
        &[
            &unit,
            &case.units,
            &case.prints,
            &case.payload_bytes,
            &buffering,
            &log,
        ],
        case.planned().deadline(),
        unit,
    )
}

/// Checks that everything has arrived, and that lines are whole where they must be.
fn check(case: &Case, received: &Received) -> Result<(), CaseError> {
    let lines = case.lines();
    // A terminal makes two bytes of a newline.
    let returns = if case.sink.is_terminal() { lines + 1 } else { 0 };
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixDatagram;

    use threadgauge_lab::point::Point as _;
    use threadgauge_lab::testing;
    use threadgauge_lab::worker::Order;
    use threadgauge_machine::clock;
    use threadgauge_results::Sample;

    use super::*;
    use crate::print::EXPERIMENT;
    use crate::print::case::{Buffering, Series, Sink, Unit};
    use crate::print::sink::one_at_a_time;

    /// 11 characters, into a pipe.
    fn case(unit: Unit, units: u64, prints: u64, buffering: Buffering) -> Case {
        Case {
            unit,
            units,
            buffering,
            sink: Sink::Pipe,
            ..Series::Prints.at(prints)
        }
    }

    fn worker(case: &Case) -> Worker {
        testing::worker(&EXPERIMENT, &case.params())
    }

    fn sample(case: Case) -> Sample {
        testing::measured(&EXPERIMENT, &case.params())
    }

    #[test]
    fn a_handicap_is_in_the_elapsed_time_once() {
        let _alone = one_at_a_time();
        for sink in Sink::ALL {
            let case = Case {
                sink,
                ..case(Unit::Thread, 6, 500, Buffering::Line)
            };
            let mut worker = Worker::new(&Order {
                experiment: EXPERIMENT.id.to_owned(),
                params: case.params(),
                cpus: vec![0],
                handicap_percent: 900,
                launched_ns: 0,
                seed: 0,
                each: None,
                runtime: None,
            });
            let begun_ns = clock::monotonic_ns();
            measure(&case, &mut worker).unwrap();
            let took_ns = clock::monotonic_ns() - begun_ns;
            let sample = worker.finish(Ok(()));
            let value = |name| sample.value(name).unwrap();
            // Counted twice, it would be longer than all of it took.
            let longest_ns = value(ELAPSED.name).max(value(WHOLE.name));
            assert!(longest_ns <= took_ns as f64, "{case:?}");
            // Not counted, more than one unit would be alive; each is so for less than a tenth of the time.
            let alive = value("mean_alive");
            assert!(alive < 6.0 / 9.0, "{case:?}: {alive} alive");
        }
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
                    let returns = if sink.is_terminal() { 3_001 } else { 0 };
                    let bytes = (case.bytes() + 5 + returns) as f64;
                    assert_eq!(sample.value("bytes"), Some(bytes), "{case:?}");
                    if case.lines_stay_whole() {
                        assert_eq!(sample.value("lines"), Some(3_000.0), "{case:?}");
                    }
                    for metric in ["mean_alive", ELAPSED.name, WHOLE.name, CPU.name] {
                        assert!(sample.value(metric) > Some(0.0), "{metric} of {case:?}");
                    }
                    let reads = sink == Sink::Pipe || sink.is_terminal();
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
            let sink = std::os::fd::OwnedFd::from(sink);
            print_all(&case, &worker(&case), sink.into(), "-").unwrap();
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
    fn the_lines_are_the_sources() {
        for unit in Unit::ALL {
            let case = case(unit, 1, 11, Buffering::Line);
            let mut file = tempfile::tempfile().unwrap();
            let mut log = tempfile::tempfile().unwrap();
            let sink = file.try_clone().unwrap().into();
            print_all(&case, &worker(&case), sink, &path(Some(log.as_fd()))).unwrap();
            let read = |file: &mut std::fs::File| {
                let mut printed = String::new();
                file.rewind().unwrap();
                file.read_to_string(&mut printed).unwrap();
                printed
            };
            let (printed, logged) = (read(&mut file), read(&mut log));
            let lines: String = (0..11)
                .map(|counter| format!("[{counter}]hello linux\n"))
                .collect();
            assert_eq!(logged, lines);
            assert_eq!(printed, lines + "Okay\n");
        }
    }

    #[test]
    fn a_unit_that_cannot_print_fails_the_case() {
        for unit in Unit::ALL {
            let case = case(unit, 3, 2, Buffering::Line);
            let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
            let outcome = print_all(&case, &worker(&case), full.into(), "-");
            let says = outcome.unwrap_err().to_string();
            assert_eq!(says, "3 units could not print: No space left on device");
            let unwritable = std::fs::File::open("/dev/null").unwrap();
            let outcome = print_all(&case, &worker(&case), unwritable.into(), "-");
            let says = outcome.unwrap_err().to_string();
            assert_eq!(says, "opening what is printed into: Invalid argument");
            let [sink, full] = ["/dev/null", "/dev/full"]
                .map(|path| std::fs::File::options().write(true).open(path).unwrap());
            let outcome = print_all(&case, &worker(&case), sink.into(), &path(Some(full.as_fd())));
            let says = outcome.unwrap_err().to_string();
            assert!(says.ends_with(": No space left on device"), "{says}");
        }
    }

    #[test]
    fn what_arrived_must_be_what_was_printed() {
        let lines = case(Unit::Process, 2, 3, Buffering::Line);
        let all = Received {
            bytes: 6 * 15 + 5,
            lines: 6,
            torn_lines: 0,
            counters: 6,
            final_words: 1,
            ..Received::default()
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
            (lines, Received { bytes: 94, ..all }, "94 bytes of 95 arrived"),
            (terminal, all, "95 bytes of 102 arrived"),
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
            (blocks, Received { bytes: 94, ..all }, "94 bytes of 95 arrived"),
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
