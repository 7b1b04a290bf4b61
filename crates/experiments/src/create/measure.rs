//! Runs one case: makes units, ends them, and times both.
//!
//! One lap goes round the whole loop. Inside it the clock is read between making and reaping (some 40 ns a
//! reading, three a unit), so that both can be told apart and the single creation has a median.

use std::io;

use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;
use threadgauge_machine::{clock, usage_children};

use crate::create::busy::Busy;
use crate::create::grid::{Case, Method, busy_limit};
use crate::create::latencies::Latencies;
use crate::create::units::{Units, units};
use crate::sys::memory::{HugePages, Touched};

/// Wall time of the whole loop, divided by the units made.
pub const PER_UNIT: Metric = metric("ns_per_unit", "ns");
/// CPU time of the whole loop, of this process and its children, divided by the units made.
pub const CPU_PER_UNIT: Metric = metric("cpu_ns_per_unit", "ns");
const CREATE_PER_UNIT: Metric = metric("create_ns_per_unit", "ns");
const REAP_PER_UNIT: Metric = metric("reap_ns_per_unit", "ns");
/// The median duration of a single creation.
pub const CREATION: Metric = metric("create_ns_median", "ns");
/// Units made and reaped.
pub const DONE: Metric = metric("units_done", "units");
/// Units that were refused.
pub const FAILED: Metric = metric("failed", "units");
/// Units made, where a signal handler reaps.
pub const CREATED: Metric = metric("created", "units");
/// Units reaped, where a signal handler does it.
pub const REAPED: Metric = metric("reaped", "units");
/// The most that were made and not yet reaped, where a signal handler reaps.
pub const MOST_UNREAPED: Metric = metric("most_unreaped", "units");
const PARENT_HUGE_MIB: Metric = metric("parent_huge_mib", "MiB");

/// At most this share of the count is made beforehand: the first thread's stack and the first page of code
/// are nobody's steady cost.
const WARM_UP_SHARE: u64 = 20;
/// And at most this many.
const WARM_UP_MOST: u64 = 50;

/// Runs the case with these parameters.
///
/// # Errors
///
/// When the parameters make no case, memory is not there, or a unit is refused or ends badly.
pub fn measure(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let _memory = parent_memory(&case, worker)?;
    warm_up(&case)?;
    let mut units = units(&case)?;
    let busy = Busy::start(case.unit, case.busy)
        .map_err(|e| CaseError::failed("starting the competing units", e))?;
    // CPU time that is not the lap's own: of the children, and of busy threads of this process.
    let others_ns = || [nanos(usage_children().cpu()), busy.own_cpu_ns()];
    let before_ns = others_ns();
    let stopwatch = worker.stopwatch();
    let work = work(&case, units.as_mut());
    let lap = stopwatch.stop();
    let [children_ns, busy_ns] = others_ns();
    let cpu_ns = (lap.cpu_ns + children_ns - before_ns[0]).saturating_sub(busy_ns - before_ns[1]);
    drop(busy);
    drop(units);
    report(&case, &work?, lap.wall_ns, cpu_ns, worker);
    Ok(())
}

/// What the parent holds while it makes units: written before the clock runs. Huge pages that were asked for may not be
/// there, so they are counted.
fn parent_memory(case: &Case, worker: &mut Worker) -> Result<Option<Touched>, CaseError> {
    if case.parent_mib == 0 {
        return Ok(None);
    }
    let pages = if case.huge_pages {
        HugePages::Yes
    } else {
        HugePages::No
    };
    let memory = usize::try_from(case.parent_mib)
        .map_err(io::Error::other)
        .and_then(|mib| Touched::new(mib, pages))
        .map_err(|e| CaseError::failed(format!("giving the parent {} MiB", case.parent_mib), e))?;
    let smaps = std::fs::read_to_string("/proc/self/smaps_rollup");
    let smaps = smaps.map_err(|e| CaseError::failed("reading /proc/self/smaps_rollup", e))?;
    let huge_mib = huge_kib(&smaps) as f64 / 1024.0;
    worker.record(PARENT_HUGE_MIB, huge_mib);
    if case.huge_pages && huge_mib < 0.9 * case.parent_mib as f64 {
        return Err(CaseError::Skipped(format!(
            "asked for {} MiB in huge pages and got {huge_mib:.0}: see /sys/kernel/mm/transparent_hugepage/enabled, \
             which must be madvise or always, and whether memory is fragmented",
            case.parent_mib
        )));
    }
    Ok(Some(memory))
}

/// Memory of a process in huge pages, KiB.
fn huge_kib(smaps: &str) -> u64 {
    let line = smaps.lines().find_map(|l| l.strip_prefix("AnonHugePages:"));
    line.and_then(|l| l.split_whitespace().next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// A few units of the same kind, one at a time, with nobody else busy.
fn warm_up(case: &Case) -> Result<(), CaseError> {
    let method = match case.method {
        // Its handler counts; a fork is a fork.
        Method::ForkSigchld => Method::Fork,
        method => method,
    };
    let few = Case::base(method, (case.count / WARM_UP_SHARE).min(WARM_UP_MOST));
    let mut units = units(&few)?;
    work(&few, units.as_mut()).map(drop)
}

/// What the loop did.
#[derive(Debug, Default)]
struct Work {
    created: u64,
    refused: u64,
    create_ns: u64,
    reap_ns: u64,
    latencies: Latencies,
    /// All lives together, from a unit's creation to its batch's end, ns.
    lives_ns: u64,
    /// The most that were made and not yet reaped.
    most_unreaped: u64,
}

fn work(case: &Case, units: &mut dyn Units) -> Result<Work, CaseError> {
    let (unit, method) = (case.unit.name(), case.method.name());
    let broken = |e| CaseError::failed(format!("{unit} by {method}"), e);
    let mut work = Work {
        latencies: Latencies::of(case.count),
        ..Work::default()
    };
    // A handler reaps while units are made, and is waited for once, at the end.
    let handler_reaps = case.method == Method::ForkSigchld;
    let batch = if handler_reaps { case.count } else { case.alive };
    let give_up_ns = if case.busy > 0 {
        nanos(busy_limit(case.count))
    } else {
        u64::MAX
    };
    let started_ns = clock::monotonic_ns();
    let mut now_ns = started_ns;
    let mut tried = 0;
    while tried < case.count && now_ns - started_ns < give_up_ns {
        let size = batch.min(case.count - tried);
        if case.alive > 1 {
            units.hold().map_err(broken)?;
        }
        let (mut made, mut births_ns) = (0, 0);
        // A single batch is ended by the limit as well.
        while made < size && (made == 0 || now_ns - started_ns < give_up_ns) {
            let before_ns = clock::monotonic_ns();
            let created = units.create();
            now_ns = clock::monotonic_ns();
            if let Err(error) = created {
                let number = work.created + units.unreaped() + 1;
                // While those that were made are there: the limit is looked for among what is in use.
                let refused = refused(format!("{unit} {number} by {method}"), &error);
                // And then they must go, whatever else is wrong with them.
                let _ = units.reap();
                return Err(refused);
            }
            work.latencies.push(now_ns - before_ns);
            work.create_ns += now_ns - before_ns;
            births_ns += before_ns - started_ns;
            made += 1;
            if handler_reaps {
                work.most_unreaped = work.most_unreaped.max(units.unreaped());
            }
        }
        let filled_ns = now_ns;
        units.reap().map_err(broken)?;
        now_ns = clock::monotonic_ns();
        work.reap_ns += now_ns - filled_ns;
        work.lives_ns += made * (now_ns - started_ns) - births_ns;
        tried += made;
        work.created = tried - units.refused();
    }
    work.refused = units.refused();
    Ok(work)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn report(case: &Case, work: &Work, wall_ns: u64, cpu_ns: u64, worker: &mut Worker) {
    let made = work.created.max(1) as f64;
    worker.record(PER_UNIT, wall_ns as f64 / made);
    worker.record(CPU_PER_UNIT, cpu_ns as f64 / made);
    worker.record(CREATE_PER_UNIT, work.create_ns as f64 / made);
    worker.record(REAP_PER_UNIT, work.reap_ns as f64 / made);
    if let Some(median) = work.latencies.median() {
        worker.record(CREATION, median);
    }
    worker.record(DONE, work.created as f64);
    worker.record(FAILED, work.refused as f64);
    if case.method == Method::ForkSigchld {
        worker.record(CREATED, work.created as f64);
        // The loop ends when every created child was reaped: a smaller count would have hung.
        worker.record(REAPED, work.created as f64);
        worker.record(MOST_UNREAPED, work.most_unreaped as f64);
    } else {
        worker.noise("mean_alive", work.lives_ns as f64 / wall_ns.max(1) as f64);
    }
    worker.tag("cold");
    if work.refused > 0 {
        worker.tag("refused");
    }
    if work.created + work.refused < case.count {
        worker.tag("time-limit");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::EXPERIMENT;
    use crate::sys::fork::fork;
    use crate::sys::reap::{Ending, reap};
    use threadgauge_lab::testing;
    use threadgauge_lab::worker::Order;
    use threadgauge_results::{Sample, Status};

    fn run(case: Case) -> Sample {
        testing::sample(&EXPERIMENT, &case.params())
    }

    fn value(sample: &Sample, metric: Metric) -> f64 {
        sample
            .value(metric.name)
            .unwrap_or_else(|| panic!("{metric:?}: {sample:?}"))
    }

    fn assert_done(case: Case, sample: &Sample) {
        assert_eq!(sample.status, Status::Ok, "{case:?}: {:?}", sample.reason);
        assert_eq!(value(sample, DONE), case.count as f64, "{case:?}");
        assert_eq!(value(sample, FAILED), 0.0, "{case:?}");
        for metric in [PER_UNIT, CPU_PER_UNIT, CREATE_PER_UNIT, CREATION] {
            assert!(value(sample, metric) > 0.0, "{case:?}: {metric:?}");
        }
        let parts = value(sample, CREATE_PER_UNIT) + value(sample, REAP_PER_UNIT);
        assert!(
            parts <= value(sample, PER_UNIT),
            "{case:?}: parts exceed the whole"
        );
    }

    #[test]
    fn every_method_makes_and_reaps_what_it_was_asked_for() {
        for method in Method::ALL.into_iter().filter(|m| *m != Method::ForkSigchld) {
            let case = Case::base(method, 30);
            assert_done(case, &run(case));
        }
    }

    #[test]
    fn many_are_alive_together() {
        for method in Method::ALL.into_iter().filter(|m| m.can_hold()) {
            let case = Case::base(method, 32).alive(16);
            let sample = run(case);
            assert_done(case, &sample);
            let alive = sample.noise["mean_alive"];
            // While they are reaped, all are there.
            let reaping = value(&sample, REAP_PER_UNIT) / value(&sample, PER_UNIT);
            assert!(
                (0.999 * 16.0 * reaping..=16.0).contains(&alive),
                "{} had {alive} alive, and reaped for {reaping} of the time",
                method.name()
            );
        }
    }

    #[test]
    fn others_are_busy_and_their_cpu_time_is_not_counted() {
        for method in [Method::Fork, Method::Pthread] {
            let sample = run(Case::base(method, 12).busy(3));
            assert_eq!(sample.status, Status::Ok, "{:?}", sample.reason);
            let done = value(&sample, DONE);
            assert!((1.0..=12.0).contains(&done));
            assert_eq!(done < 12.0, sample.tags.contains(&"time-limit".to_owned()));
        }
    }

    #[test]
    fn a_parent_of_some_size_has_it_in_the_pages_asked_for() {
        let case = Case::base(Method::Fork, 5);
        let small = case.parent((8, false));
        let sample = run(small);
        assert_done(small, &sample);
        assert_eq!(value(&sample, PARENT_HUGE_MIB), 0.0);
        let sample = run(case.parent((8, true)));
        match sample.status {
            Status::Ok => assert!(value(&sample, PARENT_HUGE_MIB) >= 7.2),
            // A machine without huge pages must say so.
            _ => assert!(sample.reason.unwrap().contains("transparent_hugepage")),
        }
    }

    /// In a process of its own: the handler would take the children of other tests.
    #[test]
    fn where_a_handler_reaps_created_failed_and_reaped_are_counted() {
        let child = fork(|| {
            let sample = run(Case::base(Method::ForkSigchld, 100));
            let counts = [CREATED, REAPED, FAILED, DONE].map(|metric| value(&sample, metric));
            let right = counts == [100.0, 100.0, 0.0, 100.0];
            u8::from(!(right && (1.0..=100.0).contains(&value(&sample, MOST_UNREAPED))))
        });
        assert_eq!(reap(child.unwrap()).unwrap(), Ending::Code(0));
    }

    #[test]
    fn what_cannot_be_is_a_failed_sample_with_its_reason() {
        let sample = run(Case::base(Method::Vfork, 100).alive(64));
        assert_eq!(sample.status, Status::Failed);
        assert!(sample.reason.unwrap().contains("alive is 64; it must be 1"));
    }

    #[test]
    fn a_handicap_reaches_the_primary_metric() {
        let order = Order {
            experiment: "create".to_owned(),
            params: Case::base(Method::Pool, 400).params(),
            cpus: vec![0],
            handicap_percent: 300,
            launched_ns: 0,
        };
        let mut worker = Worker::new(&order);
        measure(&order.params, &mut worker).unwrap();
        let sample = worker.finish(Ok(()));
        let parts = value(&sample, CREATE_PER_UNIT) + value(&sample, REAP_PER_UNIT);
        assert!(value(&sample, PER_UNIT) >= 3.0 * parts);
    }

    #[test]
    fn huge_pages_are_read_from_the_kernels_text() {
        assert_eq!(
            huge_kib("Rss: 12 kB\nAnonHugePages:    204800 kB\nShmem: 0 kB\n"),
            204_800
        );
        assert_eq!(huge_kib("Rss: 12 kB\n"), 0);
    }
}
