//! Question: when do threads finish a set of computations sooner than one after the other, all together and each by
//! itself?
//!
//! How it is measured is said in `EXPERIMENT`. `case` and `grid` say what is run. `measure` runs one case by our own
//! executor (`threadgauge-exec`). `work` is what a computation does, and `server` is what it may wait for.
//! Theory (`crate::ideal`) stands beside every measured time. `claims`, `reading` and, of what users set
//! themselves, `own` read the answer off the samples.

use threadgauge_lab::prelude::*;

use crate::runtimes;

use self::case::{Case, Kind};
use self::claims::{
    BURNER_ERROR, ELAPSED, FINISH_WAIT, FINISHED, IDEAL_ELAPSED, IDEAL_TURNAROUND, TURNAROUND,
};
use self::measure::{Measured, Record};

pub(crate) use self::work::IN_A_HELPER;

mod case;
mod claims;
mod grid;
mod guests;
mod measure;
mod own;
mod reading;
mod server;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod work;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "turnaround",
    question: "When do threads finish a set of computations sooner than one after the other, all together and each by itself?",
    first_run: true,
    sources: &["000"],
    primary: &[ELAPSED, TURNAROUND],
    how: "So many independent computations are given to one executor (threadgauge-exec): one after the other \
                  (serial), or at most `degree` at a time (concurrent; carrier up-front makes a thread for each before any \
                  begins and releases them in turn, thread makes each when its turn comes, pool as many as the degree, process as many helper processes; degree adaptive: as many, up to 25, as the \
                  executor finds worth it by its own throughput, with the ideal of 25). Lengths are base × 1 … base × count \
                  (steps), all the base (equal), drawn (random), or, set by you, as many as computations (10/20/500, ms); they \
                  come longest first, shortest first or by chance, drawn anew for each sample. Kind cpu does a fixed number \
                  of steps, calibrated in the worker to use its length of CPU time; io sleeps for it; mixN computes for N % \
                  and sleeps for the rest, in turns of 5 ms together; server asks a server on the loopback network that answers after it. \
                  `elapsed_ns` runs from before the call to its return, `turnaround` is the mean over computations of the \
                  time at which its finisher has run over its length, `turnaround_NN` each by itself, in the order given; `finished_NN` when so many had been finished. \
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
        "What becomes of eleven conclusions about one CPU on all is judged at 8 computations, where both have all cells; never from disturbed rounds.",
        "Source 000 gives no figures for its charts: only what it states in words can be compared.",
    ],
    source: "Source 000: Windows NT 3.51 and 95 on a 486/33; an executor of degree 25 with threads made in advance and \
                     suspended; empty loops calibrated by the wall clock (up to 20 % off) and sleeps; 2 to 17 computations of \
                     10 to 2,430 ms. The rule for their lengths is that of the program's public copy. We make \
                     the threads up front as it does (claims are judged on that; the other carriers are curves beside it), do \
                     fixed work calibrated by the CPU's clock, pin to one CPU and shuffle the cases; all factors besides its \
                     matrix are ours.",
    calls: &[
        "threadgauge run turnaround --set kind=io,base_ms=200,count=2,5,8,lengths=equal,order=descending --only extra=none,cpus=1",
        "threadgauge run turnaround --set kind=io,base_ms=120,count=500,lengths=equal,order=descending --only extra=none,cpus=1",
        "threadgauge run turnaround --set kind=io,count=3,lengths=10/20/500 --only extra=none,cpus=1,order=descending",
        "threadgauge run turnaround --set kind=mix50,base_ms=30,count=3,6,order=shuffled --only extra=none",
        crate::each::EACH.calls[0],
    ],
    plan: |site| runtimes::beside(grid::plan(site), site, guests::plan(site)),
    run: |params, worker| match params.get("runtime") {
        Some(_) => guests::run(params, worker),
        None => run(params, worker),
    },
    read: |view| {
        let mut answer = reading::read(view);
        guests::read(view, &mut answer);
        answer
    },
};

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::checked(case)?;
    let seed = worker.seed();
    let measured = measure::measure(case, seed, worker)?;
    write_down(case, &measured, worker);
    // Exact: it is below 2^53.
    worker.noise("order_seed", seed as f64);
    Ok(())
}

/// Records the figures of a run.
fn write_down(case: Case, measured: &Measured, worker: &mut Worker) {
    let (records, switches) = (&measured.records, measured.switches);
    let sum = |of: fn(&Record) -> f64| records.iter().map(of).sum::<f64>();
    let mean = |of| sum(of) / records.len() as f64;
    let computed_ns = sum(|r| r.cpu_ns);
    let ideal_elapsed_ns = records.iter().map(|r| r.ideal_ns).fold(0.0, f64::max);

    worker.tag("cold");
    let figures = [
        (ELAPSED, measured.elapsed_ns),
        (TURNAROUND, mean(|r| r.finished_ns / r.length_ns)),
        (IDEAL_ELAPSED, ideal_elapsed_ns),
        (IDEAL_TURNAROUND, mean(|r| r.ideal_ns / r.length_ns)),
        (metric("mean_completion_ns", "ns"), mean(|r| r.finished_ns)),
        (FINISH_WAIT, mean(|r| r.finished_ns - r.ended_ns)),
        (metric("cpu_ns", "ns"), measured.cpu_ns),
        (metric("computed_ns", "ns"), computed_ns),
        (
            metric("voluntary_switches", "switches"),
            switches.voluntary as f64,
        ),
        (
            metric("involuntary_switches", "switches"),
            switches.involuntary as f64,
        ),
        (metric("most_running", "units"), measured.most_running as f64),
    ];
    for (metric, value) in figures {
        worker.record(metric, value);
    }
    if case.kind == Kind::Cpu {
        let errors = records.iter().map(|r| r.cpu_ns / r.length_ns - 1.0);
        let worst = errors.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
        worker.record(BURNER_ERROR, computed_ns / sum(|r| r.length_ns) - 1.0);
        worker.metric("burner_error_worst", "ratio", worst);
        let ns_per_step = worker.burner().ns_per_iteration();
        worker.metric("ns_per_step", "ns", ns_per_step);
    }
    for (i, r) in records.iter().enumerate() {
        worker.metric(
            &format!("turnaround_{:02}", i + 1),
            "ratio",
            r.finished_ns / r.length_ns,
        );
    }
    let mut finished_ns: Vec<f64> = records.iter().map(|r| r.finished_ns).collect();
    finished_ns.sort_by(f64::total_cmp);
    for (metric, ns) in FINISHED.into_iter().zip(finished_ns) {
        worker.record(metric, ns);
    }
    worker.noise(
        "mean_alive",
        sum(|r| r.ended_ns - r.started_ns) / measured.elapsed_ns,
    );
}
