//! `create`: what making and ending a process or a thread costs, by each way of doing it.
//!
//! **Question.** What does it cost to make a unit and to end it, and what makes it dearer: how many are
//! there, who computes beside, what the parent holds, how many CPUs there are?
//!
//! **Method.** A worker makes `count` units in batches of `alive` and reaps each batch; one lap goes round
//! all of it, and the clock is read between making and reaping. With `alive=1` (the base, as in the
//! sources) each unit ends by itself and is reaped before the next is made; with more, all of a batch wait
//! at a gate until the last is there. Wall time and CPU time (own, and of the children) are divided by the
//! units made. One-shot and cold: a twentieth of the count, 50 at most, is made beforehand, so that the
//! first stack and the first page of code are nobody's.
//!
//! **Control.** `pool` hands the same empty job to a thread that is there already: what is left when
//! nothing is made. `pthread`, `vfork` and `posix_spawn` with a large parent show that memory costs those
//! who copy page tables, and nobody else.
//!
//! **Traps.** Placement: left to two CPUs, a new thread is woken on the other one, and the wake-up is
//! measured; so one CPU and all are cases of their own. A fork copies the page tables of its parent, also
//! those of a measuring program that keeps a long record: this one keeps a page of it. With others
//! computing on the same CPU every wait for a unit waits for their time slices, so such a case stops after
//! 1.25 ms a unit asked for, and divides by the units it made. A transparent huge page that was asked for
//! may not be there: the pages are counted, and a case that did not get them is skipped. A virtual machine
//! that hands free memory back to its host takes seconds to touch a large parent; that is before the clock
//! runs, and no part of a figure.
//!
//! **The source and where this differs.** Source 003 made 100,000 processes without waiting for any, reaped
//! them in a `SIGCHLD` handler, and joined 100,000 threads one by one, so its two figures do not compare the
//! same thing; the loop of its handler kept the result of a comparison in place of the process id, and its
//! program could end before all were reaped (notes N-09). `fork-sigchld` is that way with a loop that is
//! right and an end that waits; `fork` waits for each child as the threads are waited for, and the claims
//! are decided from it. A child by `vfork` runs on a stack of its own (`clone` with `CLONE_VFORK`, as
//! `posix_spawn` does it). Source 004's `lat_thread` is `pthread` here. Beside process units compute processes,
//! not threads: a program that forks is single-threaded when it does.

mod beside;
mod cells;
mod claims;
mod figures;
mod grid;
mod latencies;
mod measure;
mod program;
mod published;
mod read;
mod table;
mod units;
mod way;

use threadgauge_results::Params;

use threadgauge_lab::experiment::{About, Answer, Experiment};
use threadgauge_lab::grid::Plan;
use threadgauge_lab::site::Site;
use threadgauge_lab::statistic::metric;
use threadgauge_lab::view::View;
use threadgauge_lab::worker::{CaseError, Worker};

/// The experiment.
#[derive(Debug)]
pub struct Create;

/// What it asks and how it measures.
const ABOUT: About = About {
    id: "create",
    question: "What does it cost to make and end a process or a thread, and what makes it dearer?",
    sources: &["003", "004", "000"],
    primary: &[metric("ns_per_unit", "ns"), metric("cpu_ns_per_unit", "ns")],
    how: "A worker makes and reaps units, in batches of as many as are to be alive together, and divides the wall \
                  and CPU time of the whole loop (children included) by the units made. Creation and reaping are timed \
                  apart, and each creation once more by itself, for its median.",
    control: "The same empty job handed to a thread that is there already (pool), and the ways that copy no page \
                      tables beside a large parent.",
    traps: &[
        "Left to several CPUs, a new unit is often started on another one, and the wake-up of that CPU is measured with \
             it: one CPU and all are cases of their own.",
        "A fork copies its parent's page tables: the figure for an empty parent says nothing about a large one.",
        "With 16 computing on the same CPU, waiting for a unit is waiting for their time slices; such a case stops after \
             1.25 ms for each unit asked for and divides by the units it made (units_done). Beside processes compute \
             processes, beside threads threads of the same process.",
        "fork-sigchld is not one at a time: how many are made before the first is reaped is left to the scheduler \
             (most_unreaped).",
        "A sample is one cold run after a warm-up of a twentieth of its count, 50 units at most.",
    ],
    source: "Source 003 made 100,000 processes reaped in a SIGCHLD handler, whose loop was wrong and which could end \
                     before all were reaped, and 100,000 threads joined one by one. Here fork waits for each child as the \
                     threads are waited for; fork-sigchld is the source's way put right. Source 004 measured pthread_create \
                     and join with lmbench under two thread libraries, of which one is left; its figures are missing.",
};

impl Experiment for Create {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn plan(&self, site: &Site) -> Plan {
        grid::plan(site)
    }

    fn run(&self, case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
        measure::measure(case, worker)
    }

    fn read(&self, view: &View<'_>) -> Answer {
        read::answer(view)
    }
}
