//! Question: do processes or threads finish first when each prints its lines, and from how many lines on?
//! (Source 003's fork.c and thread.c, P-04 to P-16.)
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `case` says what is run and what
//! the source measured. `program` runs it by a program in C; `line` is what is printed, `sink` where it goes and who
//! reads it. `read` reads the answer off the samples.

mod case;
mod guests;
mod line;
mod program;
mod read;
mod sink;

use threadgauge_lab::prelude::*;

pub(crate) use line::bytes_per_unit;

use crate::runtimes;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "print",
    question: "Do processes or threads finish first when each of them prints its lines, and from how many lines on?",
    first_run: true,
    sources: &["003"],
    primary: &[case::ELAPSED, case::WHOLE],
    how: "A small C program makes a number of units (processes by fork without another program, threads by pthread_create \
          with default attributes); each prints a line by printf so many times, its counter in brackets and the source's \
          text; the parent waits for all and prints a final word. `whole_program_ns` is from the start of the program to its \
          end, as `time` says and as the source measured; `elapsed_ns` from before the first unit is made until the last has \
          been waited for and everything has been read. Both kinds are the same program's, as small as the source's. A pipe and a \
          pseudo-terminal are read by a process that was forked before the clock ran and is pinned to the same CPUs; it \
          judges every line, and a sample in which a byte is missing, or a line torn where one write is one line, is a \
          failure. Buffering: line is one write a line, as stdio does on a terminal; block is 4,096 bytes a write, as stdio \
          does into a pipe, with one buffer a process, and one for all threads under a lock. Claims are decided on the \
          *matched console*, by the time of the whole program: a pseudo-terminal whose reader uses 38.5 µs of CPU time for a \
          line of 11 characters and 285 µs for one of 256, as the source's times say of its console. A reader at full speed, \
          a pipe, a file and /dev/null show what that decides.",
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
        "A file (or a log) without a name in the folder for temporary files: where that is in memory the sample is tagged \
         tmpfs.",
        "On the console the program may end before its last lines are shown: the kernel keeps some 700 short ones for a \
         reader that is behind. They are not in whole_program_ns, and in elapsed_ns they are.",
        "The console's reader computes, on the CPUs of the units: on one CPU it takes the time from them, on two it may \
         have the second.",
        "The lock and the formatting of stdio are in the figures, as in the source's. Runs of before formatted lines by hand.",
    ],
    source: "Source 003 printed with printf to a console and timed the whole program with time, five runs without the \
             largest and the smallest. What its console was it does not say, but how slow: 33 to 68 µs a line of 11 \
             characters on one CPU, 279 to 287 a line of 256, 42 to 46 on two CPUs from 100 lines on. Ours is as slow as \
             its times of 100 lines a unit, the mean of both kinds; no claim is about that level. We run in shuffled rounds and keep the default stack (the source's threads failed at 350 units \
             and were repeated with 1 MiB; whether the smaller groups were too is not said). The same setting, 255 \
             units of 1,000 lines, stands twice in the source and differs by 19 % and 32 %, more than the two kinds \
             differ.",
    calls: &[
        "threadgauge run print --profile paper --rounds 6 --only sink=console --out print-paper",
        "threadgauge run print --profile standard --only sink=console,sink=console-and-log --rounds 20",
    ],
    plan: |site| runtimes::beside(case::plan(site), site, guests::plan(site)),
    run: |params, worker| match params.get("runtime") {
        Some(_) => guests::run(params, worker),
        None => run(params, worker),
    },
    read: |view| {
        let mut answer = read::read(view);
        guests::read(view, &mut answer);
        answer
    },
};

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    program::measure(&case::Case::possible(case)?, worker)
}
