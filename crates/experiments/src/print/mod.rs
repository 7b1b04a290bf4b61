//! `print`: do processes or threads finish first when each prints its lines?
//!
//! **Question.** A number of units is made, each prints a short line many times, the parent waits for all
//! and prints a final word: is the whole faster with processes or with threads, and from how many lines on?
//! (Source 003's fork.c and thread.c, P-04 to P-16.)
//!
//! **Method.** Processes are forked without another program; threads are made by `pthread_create` with
//! default attributes (the stack as large as the soft limit, as in the source). The clock runs from before
//! the first unit is made until the last is waited for, the final word is written, the sink is closed *and
//! everything in it has been read*: the source's `time`, less the start of the program itself. A reader is a
//! process forked before the clock runs, pinned like everything else, the same for both kinds; its CPU time is
//! told apart (`reader_cpu_ns`). It counts bytes, judges every line and adds up the counters, so that a sample
//! is only kept when all that was to be printed has arrived, and whole where it must be.
//!
//! **Which sink decides.** The source printed to a console: something that reads every byte. All claims are
//! decided on one sink in every profile, a pipe with a reader and a write a line, so that verdicts can be
//! compared; `/dev/null` (nobody reads), a file in the page cache and a pseudo-terminal are told beside it as
//! facts. A pseudo-terminal is nearer to a console, yet ten times dearer a line: quick could not have it.
//!
//! **Buffering.** The line is formatted by hand into the unit's stack: stdio takes no part, and both kinds
//! format alike. `line` is one `write` a line by each unit itself, as stdio does on a terminal, without its lock
//! (20 ns while nobody else wants it). `block` fills 4,096 bytes and cuts lines at the end of the block, as stdio
//! does into a pipe: a process has a buffer of its own, so lines of several are torn where blocks meet; threads
//! share one buffer under its lock, so their lines stay whole and the lock is what they queue for.
//!
//! **Control.** The same cells on `/dev/null`, where only making units and writing is left; with few lines
//! nearly all is the making of units. The thread case with 100 lines runs twice a round.
//!
//! **Where this departs from the protocol.** Units do not start from a barrier: the source's begin to print as
//! soon as they are made, and that is what its figures hold. How many were alive on average is stored
//! (`mean_alive`). Each sample is one run from cold, without warm-up.
//!
//! **Traps.** On one CPU a unit with few lines has ended before the next one is made, so "255 units" are one or
//! two at a time (see `mean_alive`). A pipe holds 64 KiB: beyond that writers wait for the reader, so it is a
//! load of reader and writers together. The source's own series disagree more than its kinds do (N-05).
//!
//! **What the source did.** `gcc`, `printf` to a console, `time` of the whole program, five runs, the largest and
//! smallest dropped; one core of a Xeon of its day. Its threads at 350 units failed with 8 MiB stacks on a
//! 32-bit system and were run with 1 MiB (N-11, N-16). Ours keep the default.

mod answer;
mod figures;
mod grid;
mod line;
mod output;
mod program;
mod published;
mod reading;
mod setting;
mod sink;
mod statistics;
mod tables;

use threadgauge_results::Params;

use threadgauge_lab::experiment::{About, Answer, Experiment};
use threadgauge_lab::grid::Plan;
use threadgauge_lab::site::Site;
use threadgauge_lab::statistic::metric;
use threadgauge_lab::view::View;
use threadgauge_lab::worker::{CaseError, Worker};

use setting::Setting;

/// Processes and threads that print.
#[derive(Debug, Clone, Copy)]
pub struct Print;

/// The metric that everything is read off.
const ELAPSED: &str = "elapsed_ns";
/// Lines that did not arrive whole.
const TORN: &str = "torn_lines";
/// CPU time of parent and units.
const CPU: &str = "cpu_ns";
/// CPU time of the reader.
const READER_CPU: &str = "reader_cpu_ns";

/// The claims that these cases decide.
const CLAIMS: &[&str] = &[
    "threads-10-to-100-times-faster",
    "small-jobs-threads-faster",
    "large-jobs-processes-faster",
    "print-crossover-near-600",
    "print-processes-and-threads-equally-fast",
    "thread-share-falls-with-unit-count",
    "run-time-linear-to-1000-units",
    "efficiency-collapses-past-600-units",
    "payload-256-no-thread-advantage",
    "linux-threads-not-faster-than-processes",
    "file-logging-disturbs-timing",
    "dual-core-doubles-small-jobs",
    "dual-core-no-gain-large-jobs",
];

/// What it asks and how it measures.
const ABOUT: About = About {
    id: "print",
    question: "Do processes or threads finish first when each of them prints its lines, and from how many lines on?",
    sources: &["003"],
    primary: &[metric(ELAPSED, "ns")],
    how: "A number of units is made (processes by fork without another program, threads by pthread_create \
                  with default attributes); each prints a line with its counter in brackets so many times; the parent \
                  waits for all and prints a final word. Timed from before the first unit is made until the last has \
                  been waited for and everything has been read. A pipe and a pseudo-terminal are read by a process \
                  that was forked before the clock ran and is pinned to the same CPUs; it judges every line, and a \
                  sample in which a byte is missing, or a line torn where one write is one line, is a failure. \
                  Buffering: line is one write a line, as stdio does on a terminal; block is 4,096 bytes a write, as \
                  stdio does into a pipe, with one buffer a process, and one for all threads under a lock. Claims are \
                  decided on the pipe with a write a line.",
    control: "The same lines into /dev/null, where only making units and writing them is left; and a thread \
                      case that runs twice a round.",
    traps: &[
        "With few lines on one CPU a unit has ended before the next is made: what is compared is the making of \
                 units. The metric mean_alive tells how many there were on average.",
        "The reader shares the CPUs. Its work is in the elapsed time, as a console's would be; its CPU time \
                 (reader_cpu_ns) is not in cpu_ns.",
        "A pipe holds 64 KiB. Beyond that writers wait, and who is woken first is the kernel's choice.",
        "Blocks of several processes meet in the middle of lines: torn_lines counts them. Threads share a \
                 buffer and tear none.",
        "A file without a name in the folder for temporary files: where that is in memory the sample is \
                 tagged tmpfs.",
        "The lines are formatted by hand, not by printf: the lock and the formatting of stdio are in none of \
                 the figures.",
    ],
    source: "Source 003 printed with printf to a console and timed the whole program with time, five runs \
                     without the largest and the smallest. We leave out the start of the program, print into a pipe \
                     with a reader instead of a console, run in shuffled rounds and keep the default stack (the \
                     source's threads failed at 350 units and were repeated with 1 MiB; whether the smaller groups were \
                     too is not said). The same setting, 255 units of 1,000 lines, stands twice in the source and \
                     differs by 19 % and 32 %, more than the two kinds differ.",
};

impl Experiment for Print {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn plan(&self, site: &Site) -> Plan {
        grid::plan(site)
    }

    fn run(&self, case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
        let setting = Setting::read(case)?;
        let measured = program::measure(&setting, worker)?;
        worker.metric(ELAPSED, "ns", measured.lap.wall_ns as f64);
        worker.metric(CPU, "ns", measured.cpu.as_nanos() as f64);
        worker.metric(READER_CPU, "ns", measured.reader_cpu_ns as f64);
        worker.metric("bytes", "bytes", measured.received.bytes as f64);
        worker.metric("lines", "lines", measured.received.lines as f64);
        worker.metric(TORN, "lines", measured.received.torn_lines as f64);
        worker.metric(
            "voluntary_switches",
            "switches",
            measured.switches.voluntary as f64,
        );
        worker.metric(
            "involuntary_switches",
            "switches",
            measured.switches.involuntary as f64,
        );
        worker.metric("mean_alive", "units", measured.mean_alive);
        worker.tag("cold");
        for tag in measured.tags {
            worker.tag(tag);
        }
        Ok(())
    }

    fn read(&self, view: &View<'_>) -> Answer {
        answer::read(view)
    }
}
