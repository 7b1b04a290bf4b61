//! Question: what does it cost when many threads or processes share the CPUs and keep giving them up, and what does
//! a second CPU bring?
//!
//! **Method.** A fixed amount of work, 16,384 slices of about 1.6 µs, is shared equally by 1 to 8,192 units. After
//! each slice but its last a unit yields (its end gives the CPU up anyway). The clock runs from the moment at which
//! all units stand ready to run to the last one's finish; what starting and ending them takes is measured apart
//! (`crowd`). Slices are a fixed number of steps, not a time, so every case and every round does the same work.
//!
//! **Control.** The same units with the same shares that do not yield, at every count: only the difference is the
//! price of switching. Switches are counted (`getrusage`), since a scheduler is free to ignore a yield; one that
//! switches is counted as *involuntary*.
//!
//! **Which time the claims use.** The source gives "run time" and no program. Ours is the time without starting and
//! ending the units: the claims are about switching, and at 8,192 units starting and ending takes ten times as long as
//! this much work does (its total takes ten seconds, ours 27 ms of CPU time). The time with both is a figure of its
//! own (`total_ns`).
//!
//! **Traps.** The base decides: as in the source it is one unit on one CPU and two units on two, both *yielding*, so
//! the price of a yield that switches nothing is in the base. Two units on two CPUs never switch at all, four do.
//! What a unit costs once (its first touch of cold memory, its wait at the end) weighs the more the less work there
//! is; the neither-curve shows it.
//!
//! **Sleeping units** do the same work in fewer, longer pieces: 256, or one a unit where there are more units. At 1 ms
//! a sleep, 16,384 pieces would sleep for 17 s where there is one unit; so they sleep for at most 0.28 s one after
//! the other. They are compared by CPU time.
//!
//! **Source 001** used Windows, `Sleep(0)` and a work load it does not state, five machines, one run each as far as it
//! says. Absolute times cannot be compared, so overheads and gains are. Stacks are 64 KiB: the C library's default
//! follows `ulimit -s`, and figures would follow it (with 8 MiB, starting and ending take a fifth longer, and so does
//! switching among a thousand). They are mapped and given back together, so that starting and ending a thread does not
//! include what the C library pays for stacks beyond the 40 MiB that it keeps (`crate::sys::threads`).

use threadgauge_results::Params;

use threadgauge_lab::experiment::{About, Answer, Experiment};
use threadgauge_lab::grid::Plan;
use threadgauge_lab::site::Site;
use threadgauge_lab::statistic::metric;
use threadgauge_lab::view::View;
use threadgauge_lab::worker::{CaseError, Worker};

use self::grid::{Case, Mode};

mod claims;
mod crowd;
mod drawing;
mod facts;
mod figures;
mod grid;
mod statistic;
#[cfg(test)]
mod testing;

/// The experiment.
#[derive(Debug)]
pub struct Oversubscription;

/// What it asks and how it measures.
const ABOUT: About = About {
    id: "oversubscription",
    question: "What does it cost when up to 8,192 threads or processes share the CPUs and keep giving them up, and what does a \
         second CPU bring?",
    sources: &["001"],
    primary: &[metric("elapsed_ns", "ns")],
    how: "A fixed amount of work (`slices` slices of 1,250 dependent integer steps, about 1.6 µs each) is shared \
                  equally by `count` threads or processes; after each slice a unit yields (mode yield), goes on (neither) \
                  or sleeps for 1 ms (sleep: the same work in 256 longer pieces, or one a unit, so that sleeping one after \
                  the other stays under 0.5 s). `elapsed_ns` runs from the moment at which all units stand ready to run \
                  to the last one's finish; `start_ns` and `end_ns` are creating and ending them, `total_ns` is all of it. \
                  Claims use `elapsed_ns`, since they are about switching. Measured cold, once an invocation.",
    control: "Mode neither at every count: the same units and shares without giving up the CPU. The price of a \
                      switch is the paired difference over the switches that really happened (getrusage).",
    traps: &[
        "The base is one yielding unit on one CPU and two on two CPUs, as in the source: a yield that finds nobody \
                 else (a third of a slice here) is in the base and not in the overhead.",
        "A scheduler may ignore a yield: see switches_per_slice. Two units on two CPUs never switch; their yields \
                 return at once.",
        "What each unit costs once weighs more the less work is shared: at 8,192 units each has two slices. Compare \
                 runs with the same `slices` only.",
        "With other programs running, units that should have two CPUs share one for a while: see the tag \
                 low-overlap.",
        "Stacks are 64 KiB. With the usual 8 MiB, starting and ending take a fifth longer, and switching among a \
                 thousand threads too: each stack then needs page tables of its own. All stacks are one mapping, so that \
                 start_ns and end_ns hold little of mapping them.",
    ],
    source: "Source 001: N threads on Windows NT 4, 2000, XP and 98 call Sleep(0); program, work per run, repeats and \
                     what its times include are not given (N-28), and a run took about ten seconds. It measured threads \
                     that yield; the controls, processes, sleeping units and counted switches are ours. We compare overheads \
                     and gains, not milliseconds.",
};

impl Experiment for Oversubscription {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn plan(&self, site: &Site) -> Plan {
        grid::plan(site)
    }

    fn run(&self, case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
        let case = Case::from_params(case)?;
        let slice_ns = crowd::slice_ns();
        let measured = crowd::measure(case, worker)?;
        let pieces = case.pieces_per_unit() * case.count;
        let switches = (measured.voluntary + measured.involuntary) as f64;
        worker.tag("cold");
        worker.metric("elapsed_ns", "ns", measured.elapsed_ns);
        worker.metric("total_ns", "ns", measured.total_ns);
        worker.metric("start_ns", "ns", measured.start_ns);
        worker.metric("end_ns", "ns", measured.end_ns);
        worker.metric("cpu_ns", "ns", measured.cpu_ns);
        worker.metric("voluntary_switches", "count", measured.voluntary as f64);
        worker.metric("involuntary_switches", "count", measured.involuntary as f64);
        worker.metric("pieces", "count", pieces as f64);
        worker.metric("switches_per_slice", "ratio", switches / pieces as f64);
        worker.metric("slice_ns", "ns", slice_ns);
        if case.count <= case.cpus && case.mode != Mode::Sleep {
            let overlap = (measured.cpu_ns / (measured.elapsed_ns * case.count as f64)).min(1.0);
            worker.noise("overlap", overlap);
            if overlap < 0.95 {
                worker.tag("low-overlap");
            }
        } else {
            worker.noise("mean_alive", measured.alive);
        }
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
