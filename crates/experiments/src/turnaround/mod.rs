//! Question: when do threads finish a set of computations sooner than one after the other, all together and each by
//! itself?
//!
//! **Method.** As source 000: so many independent computations, of base × (n − i) ms (longest first, its worst case), are given
//! to one executor, ours (`threadgauge-exec`), once to be done one after the other and once at most 25 at a time, a thread for
//! each. CPU-bound ones do a fixed number of steps, calibrated in their worker to use their length of CPU time; I/O-bound
//! ones sleep for it. The clock runs from before the call to its return; a computation has finished when its finisher runs, as
//! in the source. Its turnaround is that time over its length.
//!
//! **Control.** Theory: what first come, first served and equal sharing of the CPUs give for the same lengths at no cost, in
//! every sample (`ideal`). With lengths 1 … n most of the source's famous gain is arithmetic; what is measured beyond theory
//! is the price of threads.
//!
//! **Other factors**, one at a time, at the shortest base: equal and random lengths; ascending and chance order; degrees;
//! threads made up front, a pool, helper processes; computing and sleeping by turns; reads past the page cache; a server on the loopback network; finishers that
//! take long; computations that need the one before; all CPUs.
//!
//! **Traps.** Steps are calibrated at the CPU's fastest, so work takes some per cent more than its length, serial and
//! concurrent alike. With 10 ms a computation is a few turns of the scheduler's clock, and sharing is only roughly equal:
//! turnaround stays above theory. Sleeping is late by the timer's slack (50 µs).
//!
//! **The source** used Windows NT 3.51 and 95 on a 486/33, an empty loop calibrated by the wall clock (up to 20 % off, it says),
//! threads created suspended up front. Its charts' figures are not in its text, so only what it states can be compared.

use threadgauge_machine::clock;
use threadgauge_results::Params;

use threadgauge_lab::experiment::{About, Answer, Experiment};
use threadgauge_lab::grid::Plan;
use threadgauge_lab::site::Site;
use threadgauge_lab::statistic::metric;
use threadgauge_lab::view::View;
use threadgauge_lab::worker::{CaseError, Worker};

use self::case::{Case, Kind};
use self::measure::Measured;

pub(crate) use self::work::IN_A_HELPER;

mod case;
mod cells;
mod claims;
mod conclusions;
mod disk;
mod drawing;
mod facts;
mod grid;
mod ideal;
mod measure;
mod server;
#[cfg(test)]
mod testing;
mod work;

/// Computations one after the other and all at once.
#[derive(Debug, Clone, Copy)]
pub struct Turnaround;

/// From the start to the last one's finish, ns.
const ELAPSED: &str = "elapsed_ns";
/// The mean over computations of finish / length.
const TURNAROUND: &str = "turnaround";
/// What theory says of the elapsed time, ns.
const IDEAL_ELAPSED: &str = "ideal_elapsed_ns";
/// What theory says of the mean turnaround.
const IDEAL_TURNAROUND: &str = "ideal_turnaround";
/// The mean time from a processor's end to its finisher's, ns.
const FINISH_WAIT: &str = "finish_wait_ns";
/// CPU time of the work over its length, less 1.
const BURNER_ERROR: &str = "burner_error";

/// What it asks and how it measures.
const ABOUT: About = About {
    id: "turnaround",
    question: "When do threads finish a set of computations sooner than one after the other, all together and each by itself?",
    sources: &["000"],
    primary: &[metric(ELAPSED, "ns"), metric(TURNAROUND, "ratio")],
    how: "So many independent computations are given to one executor (threadgauge-exec): one after the other \
                  (serial), or at most `degree` at a time (concurrent; carrier thread makes a thread for each when its turn \
                  comes, up-front all before any begins, pool as many as the degree, process as many helper processes; degree adaptive: as many, up to 25, as the \
                  executor finds worth it by its own throughput, with the ideal of 25). Lengths are base × 1 … base × count \
                  (steps), all the base (equal), or drawn (random); they \
                  come longest first, shortest first or by chance, drawn anew for each sample. Kind cpu does a fixed number \
                  of steps, calibrated in the worker to use its length of CPU time; io sleeps for it; mixN computes for N % \
                  and sleeps for the rest, in turns of 5 ms together; file reads as many blocks past the page cache as take \
                  its length when read alone; server asks a server on the loopback network that answers after it. \
                  `elapsed_ns` runs from before the call to its return, `turnaround` is the mean over computations of the \
                  time at which its finisher has run over its length, `turnaround_NN` each by itself, in the order given. \
                  Measured cold, once an invocation.",
    control: "Theory beside every figure (ideal_…): first come, first served, or equal sharing of the CPUs, simulated \
                      exactly for the same lengths in the same order at no cost. What is above it, and above serial's own, \
                      is the price of threads.",
    traps: &[
        "Steps are calibrated at the CPU's fastest; in the long run they take a few per cent more than their length \
                 (burner_error), serial and concurrent alike.",
        "10 ms are a few turns of a scheduler that lets each run for some milliseconds, so short computations share \
                 the CPU only roughly equally.",
        "A finisher waits for the CPU like everybody else: finish_wait_ns is what a result waits for it.",
        "Equal sharing is not the best there is for computations that also sleep: it keeps them in step. A scheduler that \
                 lets short bursts end does better than this theory.",
        "The file's blocks are found by calibration, alone; a device that serves many at once makes them faster than \
                 theory, one that serves one at a time makes them slower.",
        "Source 000 gives no figures for its charts: only what it states in words can be compared.",
    ],
    source: "Source 000: Windows NT 3.51 and 95 on a 486/33; an executor of degree 25 with threads made in advance and \
                     suspended; empty loops calibrated by the wall clock (up to 20 % off) and sleeps; 2 to 17 computations of \
                     10 to 2,430 ms. The rule for their lengths is that of the program's public copy. We make each thread when \
                     its turn comes (up-front is the source's way), do fixed work calibrated by the CPU's clock, pin to one CPU and shuffle the cases; all \
                     factors besides its matrix are ours.",
};

impl Experiment for Turnaround {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn plan(&self, site: &Site) -> Plan {
        grid::plan(site)
    }

    fn run(&self, case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
        let case = Case::from_params(case)?;
        // Below 2^53, so that it is exact where it is stored.
        let seed = clock::monotonic_ns() & ((1 << 53) - 1);
        let measured = measure::measure(case, seed, worker)?;
        write_down(case, &measured, worker);
        worker.noise("order_seed", seed as f64);
        Ok(())
    }

    fn read(&self, view: &View<'_>) -> Answer {
        Answer {
            answer: facts::answer(view),
            claims: claims::evidence(view),
            tests: Vec::new(),
            facts: facts::facts(view),
            comparisons: facts::comparisons(),
            rankings: Vec::new(),
            figures: drawing::figures(view),
            tables: drawing::tables(view),
        }
    }
}

/// Leaves the figures of a run.
fn write_down(case: Case, measured: &Measured, worker: &mut Worker) {
    let records = &measured.records;
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / records.len() as f64;
    let elapsed_ns = measured.lap.wall_ns as f64;
    let lengths = || records.iter().map(|r| r.length_ns);
    let turnarounds = || records.iter().map(|r| r.finished_ns / r.length_ns);
    let ideal_turnarounds = || {
        measured
            .ideal_ns
            .iter()
            .zip(lengths())
            .map(|(ideal, length)| ideal / length)
    };
    let computed_ns: f64 = records.iter().map(|r| r.cpu_ns).sum();
    let service_ns: f64 = records.iter().map(|r| r.ended_ns - r.started_ns).sum();

    worker.tag("cold");
    worker.metric(ELAPSED, "ns", elapsed_ns);
    worker.metric(TURNAROUND, "ratio", mean(&mut turnarounds()));
    worker.metric(
        IDEAL_ELAPSED,
        "ns",
        measured.ideal_ns.iter().copied().fold(0.0, f64::max),
    );
    worker.metric(IDEAL_TURNAROUND, "ratio", mean(&mut ideal_turnarounds()));
    worker.metric(
        "mean_completion_ns",
        "ns",
        mean(&mut records.iter().map(|r| r.finished_ns)),
    );
    worker.metric(
        FINISH_WAIT,
        "ns",
        mean(&mut records.iter().map(|r| r.finished_ns - r.ended_ns)),
    );
    worker.metric("cpu_ns", "ns", measured.cpu_ns);
    worker.metric("computed_ns", "ns", computed_ns);
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
    worker.metric("most_running", "units", measured.most_running as f64);
    if case.kind == Kind::Cpu {
        let errors = || records.iter().map(|r| r.cpu_ns / r.length_ns - 1.0);
        worker.metric(BURNER_ERROR, "ratio", computed_ns / lengths().sum::<f64>() - 1.0);
        worker.metric(
            "burner_error_worst",
            "ratio",
            errors().fold(0.0, |worst: f64, e| if e.abs() > worst.abs() { e } else { worst }),
        );
        worker.metric("ns_per_step", "ns", measured.ns_per_step);
    }
    for (i, turnaround) in turnarounds().enumerate() {
        worker.metric(&format!("turnaround_{:02}", i + 1), "ratio", turnaround);
    }
    worker.noise("mean_alive", service_ns / elapsed_ns);
}
