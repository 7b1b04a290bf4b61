//! `create`: what making and ending a process or a thread costs, by each method of doing it.
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `grid` has the cases. `measure`
//! runs one, by a program in C (`guests/c/units.c`) or in this process. `read` reads the answer off the samples.
//! `guests` has the same of other runtimes.
//!
//! The claims of source 003 are decided from its own way, `fork-sigchld-wait`. The loop of its signal handler stored
//! the result of a comparison in place of the process id (notes N-09), which changes what it prints and not what it
//! does.

mod grid;
pub(crate) mod guests;
mod measure;
mod read;

use threadgauge_lab::prelude::*;

use crate::runtimes;

pub use self::grid::Unit;
pub(crate) use self::read::thread_of;
pub use self::read::{process_on_one, process_over_thread, thread_on};

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "create",
    question: "What does it cost to make and end a process or a thread, and what makes it dearer?",
    first_run: true,
    sources: &["003", "004", "000"],
    primary: &[measure::PER_UNIT, measure::CPU_PER_UNIT],
    how: "A small C program with the usual shared C library, as the sources' were, makes and reaps units, in batches of as many \
                  as are to be alive together, and divides the wall and CPU time of the whole loop (children included) by \
                  the units made. Creation and reaping are timed apart, and each creation once more by itself, for its \
                  median. Processes and threads that are compared are made by the same program.",
    control: "The same empty job handed to a thread that is there already (pool), and the ways that copy no page \
                      tables beside a large parent. Where others compute beside, as many units are made once more by the \
                      same process when they have ended.",
    traps: &[
        "Left to several CPUs, a new unit is often started on another one, and the wake-up of that CPU is measured with \
             it: one CPU and all are cases of their own.",
        "A fork copies its parent's page tables: the figure for an empty parent says nothing about a large one. The command \
             itself is such a parent; what it adds are cases of their own (program=threadgauge).",
        "With 16 computing on the same CPU, waiting for a unit is waiting for their time slices; such a case stops after \
             1.25 ms for each unit asked for and divides by the units it made (units_done). Beside processes compute \
             processes, beside threads threads of the same process.",
        "fork-sigchld is not one at a time: how many are made before the first is reaped is left to the scheduler \
             (most_unreaped).",
        "A sample is one cold run after a warm-up of 50 units. Cells that are compared make as many units.",
        "C libraries differ: the program uses that of the machine on which this laboratory was built and is run.",
    ],
    source: "Source 003 made 100,000 processes reaped in a SIGCHLD handler that waits until none is left, and ended \
                     without waiting, which is fork-sigchld-wait here, with the time of the whole program; and 100,000 threads \
                     joined one by one. Here fork waits for each child as the threads are waited for; fork-sigchld is the \
                     source's way put right. Source 004 measured pthread_create \
                     and join with lmbench under two thread libraries; its figures are missing. The old one is re-created from \
                     its published description (library=linuxthreads), and a verdict on it says so.",
    calls: &[
        "threadgauge run create --runtime all",
        "threadgauge run create --runtime java --only runtime=java --set count=1000,100000",
    ],
    plan,
    run,
    read,
};

fn plan(site: &Site) -> Plan {
    runtimes::beside(grid::plan(site), site, guests::plan(site))
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    match params.get("runtime") {
        Some(_) => guests::run(params, worker),
        None => measure::measure(params, worker),
    }
}

fn read(view: &View<'_>) -> Answer {
    let mut answer = read::answer(view);
    guests::read(view, &mut answer);
    answer
}
