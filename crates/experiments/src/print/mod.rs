//! Question: do processes or threads finish first when each prints its lines, and from how many lines on?
//! (Source 003's fork.c and thread.c, P-04 to P-16.)
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `case` says what is run and what
//! the source measured. `program` runs it by a program in C; `line` is what is printed, `sink` where it goes and who
//! reads it. `read` reads the answer off the samples.

mod case;
mod line;
mod program;
mod read;
mod sink;

use threadgauge_lab::prelude::*;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "print",
    question: "Do processes or threads finish first when each of them prints its lines, and from how many lines on?",
    first_run: true,
    sources: &["003"],
    primary: &[case::ELAPSED],
    how: "A small C program makes a number of units (processes by fork without another program, threads by pthread_create \
          with default attributes); each prints a line by printf so many times, its counter in brackets and the source's \
          text; the parent waits for all and prints a final word. Timed from before the first unit is made until the last has been waited for and \
          everything has been read. Both kinds are the same program's, as small as the source's. A pipe and a \
          pseudo-terminal are read by a process that was forked before the clock ran and is pinned to the same CPUs; it \
          judges every line, and a sample in which a byte is missing, or a line torn where one write is one line, is a \
          failure. Buffering: line is one write a line, as stdio does on a terminal; block is 4,096 bytes a write, as stdio \
          does into a pipe, with one buffer a process, and one for all threads under a lock. Claims are decided on the pipe \
          with a write a line.",
    control: "The same lines into /dev/null, where only making units and writing them is left; and a thread case that \
              runs twice a round.",
    traps: &[
        "With few lines on one CPU a unit has ended before the next is made: what is compared is the making of units. \
         The metric mean_alive tells how many there were on average.",
        "The reader shares the CPUs. Its work is in the elapsed time, as a console's would be; its CPU time \
         (reader_cpu_ns) is not in cpu_ns.",
        "A pipe holds 64 KiB. Beyond that writers wait, and who is woken first is the kernel's choice.",
        "Blocks of several processes meet in the middle of lines: torn_lines counts them. Threads share a buffer and \
         tear none.",
        "A file without a name in the folder for temporary files: where that is in memory the sample is tagged tmpfs.",
        "The lock and the formatting of stdio are in the figures, as in the source's. Runs of before formatted lines by hand.",
    ],
    source: "Source 003 printed with printf to a console and timed the whole program with time, five runs without the \
             largest and the smallest. We leave out the start of the program, print into a pipe with a reader instead \
             of a console, run in shuffled rounds and keep the default stack (the source's threads failed at 350 units \
             and were repeated with 1 MiB; whether the smaller groups were too is not said). The same setting, 255 \
             units of 1,000 lines, stands twice in the source and differs by 19 % and 32 %, more than the two kinds \
             differ.",
    calls: &[],
    plan: case::plan,
    run,
    read: read::read,
};

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    program::measure(&case::Case::read(case)?, worker)
}
