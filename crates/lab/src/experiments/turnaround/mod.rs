//! Question: when do threads finish a set of computations sooner than doing one after the other, in all and each by
//! itself?

use threadgauge_machine::clock;
use threadgauge_results::{Method, Params};

use crate::experiment::{Answer, Experiment, Plan, Site};
use crate::view::View;
use crate::worker::{CaseError, Worker};

use self::case::{Case, Kind};
use self::measure::Measured;

mod case;
mod grid;
mod ideal;
mod measure;

/// Computations one after the other and all at once.
#[derive(Debug, Clone, Copy)]
pub struct Turnaround;

/// From the start to the last one's finish, ns.
const ELAPSED: &str = "elapsed_ns";
/// The mean over computations of finish / length.
const TURNAROUND: &str = "turnaround";

impl Experiment for Turnaround {
    fn id(&self) -> &'static str {
        "turnaround"
    }

    fn question(&self) -> &'static str {
        "When do threads finish a set of computations sooner than one after the other, all together and each by itself?"
    }

    fn sources(&self) -> &'static [&'static str] {
        &["000"]
    }

    fn method(&self) -> Method {
        Method {
            how: String::new(),
            control: String::new(),
            traps: Vec::new(),
            source: String::new(),
        }
    }

    fn primary_metrics(&self) -> &'static [&'static str] {
        &[ELAPSED, TURNAROUND]
    }

    fn claims(&self) -> &'static [&'static str] {
        &[]
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

    fn read(&self, _view: &View<'_>) -> Answer {
        Answer::default()
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
        "ideal_elapsed_ns",
        "ns",
        measured.ideal_ns.iter().copied().fold(0.0, f64::max),
    );
    worker.metric("ideal_turnaround", "ratio", mean(&mut ideal_turnarounds()));
    worker.metric(
        "mean_completion_ns",
        "ns",
        mean(&mut records.iter().map(|r| r.finished_ns)),
    );
    worker.metric(
        "finish_wait_ns",
        "ns",
        mean(&mut records.iter().map(|r| r.finished_ns - r.ended_ns)),
    );
    worker.metric("cpu_ns", "ns", measured.lap.cpu_ns as f64);
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
        worker.metric(
            "burner_error",
            "ratio",
            computed_ns / lengths().sum::<f64>() - 1.0,
        );
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
