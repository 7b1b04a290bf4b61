//! Runs one case: makes units, ends them, and times both.
//!
//! One lap goes round the whole loop. Inside it the clock is read between making and reaping (some 40 ns a
//! reading, three a unit), so that both can be told apart and the single creation has a median.

use std::io;
use std::time::Duration;

use threadgauge_machine::{clock, usage_children};
use threadgauge_results::Params;

use crate::create::beside::Beside;
use crate::create::grid::busy_limit;
use crate::create::latencies::Latencies;
use crate::create::units::{Units, units};
use crate::create::way::{Case, Way};
use crate::sys::memory::{HugePages, Touched};
use threadgauge_lab::refusal::refused;
use threadgauge_lab::worker::{CaseError, Lap, Worker};

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
    let case = Case::read(params)?;
    let _memory = parent_memory(&case, worker)?;
    warm_up(&case)?;
    let mut units = units(&case)?;
    let beside =
        Beside::start(&case).map_err(|e| CaseError::failed("starting those who compute beside", e))?;
    let before = Spent::so_far(&beside);
    let stopwatch = worker.stopwatch();
    let work = work(&case, units.as_mut());
    let lap = stopwatch.stop();
    let spent = Spent::so_far(&beside).since(&before);
    drop(beside);
    drop(units);
    report(&case, &work?, lap, spent, worker);
    Ok(())
}

/// What the parent holds while it makes units.
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
    let huge_mib = huge_mib().map_err(|e| CaseError::failed("reading /proc/self/smaps_rollup", e))?;
    worker.metric("parent_huge_mib", "MiB", huge_mib);
    if case.huge_pages && huge_mib < 0.9 * case.parent_mib as f64 {
        return Err(CaseError::Skipped(format!(
            "asked for {} MiB in huge pages and got {huge_mib:.0}: see /sys/kernel/mm/transparent_hugepage/enabled, \
             which must be madvise or always, and whether memory is fragmented",
            case.parent_mib
        )));
    }
    Ok(Some(memory))
}

/// Memory of this process in huge pages, MiB.
fn huge_mib() -> io::Result<f64> {
    Ok(huge_kib(&std::fs::read_to_string("/proc/self/smaps_rollup")?) as f64 / 1024.0)
}

fn huge_kib(smaps: &str) -> u64 {
    let line = smaps.lines().find_map(|l| l.strip_prefix("AnonHugePages:"));
    line.and_then(|l| l.split_whitespace().next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// A few units of the same kind, one at a time, with nobody beside.
fn warm_up(case: &Case) -> Result<(), CaseError> {
    let way = match case.way {
        // Its handler counts; a fork is a fork.
        Way::ForkSigchld => Way::Fork,
        way => way,
    };
    let few = Case::base(way, (case.count / WARM_UP_SHARE).min(WARM_UP_MOST));
    let mut units = units(&few)?;
    work(&few, units.as_mut()).map(drop)
}

/// CPU time that is not the lap's own.
#[derive(Debug, Clone, Copy)]
struct Spent {
    children_ns: u64,
    beside_ns: u64,
}

impl Spent {
    fn so_far(beside: &Beside) -> Self {
        Self {
            children_ns: nanos(usage_children().cpu()),
            beside_ns: beside.own_cpu_ns(),
        }
    }

    const fn since(self, before: &Self) -> Self {
        Self {
            children_ns: self.children_ns - before.children_ns,
            beside_ns: self.beside_ns - before.beside_ns,
        }
    }
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
    let broken = |e| CaseError::failed(format!("{} by {}", case.way.unit(), case.way.name()), e);
    let mut work = Work {
        latencies: Latencies::of(case.count),
        ..Work::default()
    };
    // The source's way reaps while it makes, and waits once, at the end.
    let batch = if case.way == Way::ForkSigchld {
        case.count
    } else {
        case.alive
    };
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
        // The source's way is one batch, which the limit ends as well.
        while made < size && (made == 0 || now_ns - started_ns < give_up_ns) {
            let before_ns = clock::monotonic_ns();
            let created = units.create();
            now_ns = clock::monotonic_ns();
            if let Err(error) = created {
                let number = work.created + units.unreaped() + 1;
                let what = format!("{} {number} by {}", case.way.unit(), case.way.name());
                // While those that were made are there: the limit is looked for among what is in use.
                let refused = refused(what, &error);
                // And then they must go, whatever else is wrong with them.
                let _ = units.reap();
                return Err(refused);
            }
            work.latencies.push(now_ns - before_ns);
            work.create_ns += now_ns - before_ns;
            births_ns += before_ns - started_ns;
            made += 1;
            if case.way == Way::ForkSigchld {
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

fn report(case: &Case, work: &Work, lap: Lap, spent: Spent, worker: &mut Worker) {
    let made = work.created.max(1) as f64;
    let cpu_ns = (lap.cpu_ns + spent.children_ns).saturating_sub(spent.beside_ns);
    worker.metric("ns_per_unit", "ns", lap.wall_ns as f64 / made);
    worker.metric("cpu_ns_per_unit", "ns", cpu_ns as f64 / made);
    worker.metric("create_ns_per_unit", "ns", work.create_ns as f64 / made);
    worker.metric("reap_ns_per_unit", "ns", work.reap_ns as f64 / made);
    if let Some(median) = work.latencies.median() {
        worker.metric("create_ns_median", "ns", median);
    }
    worker.metric("units_done", "units", work.created as f64);
    worker.metric("failed", "units", work.refused as f64);
    if case.way == Way::ForkSigchld {
        worker.metric("created", "units", work.created as f64);
        // The loop ends when every created child was reaped: a smaller count would have hung.
        worker.metric("reaped", "units", work.created as f64);
        worker.metric("most_unreaped", "units", work.most_unreaped as f64);
    } else {
        worker.noise("mean_alive", work.lives_ns as f64 / lap.wall_ns.max(1) as f64);
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
    use crate::sys::fork::fork;
    use crate::sys::reap::{Ending, reap};
    use threadgauge_lab::worker::Order;
    use threadgauge_results::{Sample, Status};

    fn run(case: &Case) -> Sample {
        let order = Order {
            experiment: "create".to_owned(),
            params: case.params(1),
            cpus: vec![0],
            handicap_percent: 0,
            launched_ns: 0,
        };
        let mut worker = Worker::new(&order);
        let result = measure(&order.params, &mut worker);
        worker.finish(result)
    }

    fn assert_done(case: &Case, sample: &Sample) {
        assert_eq!(sample.status, Status::Ok, "{case:?}: {:?}", sample.reason);
        assert_eq!(sample.value("units_done"), Some(case.count as f64), "{case:?}");
        assert_eq!(sample.value("failed"), Some(0.0), "{case:?}");
        for name in [
            "ns_per_unit",
            "cpu_ns_per_unit",
            "create_ns_per_unit",
            "create_ns_median",
        ] {
            assert!(
                sample.value(name).is_some_and(|v| v > 0.0),
                "{case:?} has no {name}"
            );
        }
        let parts = sample.value("create_ns_per_unit").unwrap() + sample.value("reap_ns_per_unit").unwrap();
        assert!(
            parts <= sample.value("ns_per_unit").unwrap(),
            "{case:?}: parts exceed the whole"
        );
    }

    #[test]
    fn every_way_makes_and_reaps_what_it_was_asked_for() {
        for way in Way::ALL.into_iter().filter(|w| *w != Way::ForkSigchld) {
            let case = Case::base(way, 30);
            assert_done(&case, &run(&case));
        }
    }

    #[test]
    fn many_are_alive_together() {
        for way in Way::ALL.into_iter().filter(|w| w.can_hold()) {
            let case = Case {
                alive: 16,
                ..Case::base(way, 32)
            };
            let sample = run(&case);
            assert_done(&case, &sample);
            let alive = sample.noise["mean_alive"];
            // While they are reaped, all are there.
            let reaping = sample.value("reap_ns_per_unit").unwrap() / sample.value("ns_per_unit").unwrap();
            assert!(
                (0.999 * 16.0 * reaping..=16.0).contains(&alive),
                "{} had {alive} alive, and reaped for {reaping} of the time",
                way.name()
            );
        }
    }

    #[test]
    fn others_compute_beside_and_their_cpu_time_is_not_counted() {
        for way in [Way::Fork, Way::Pthread] {
            let case = Case {
                busy: 3,
                ..Case::base(way, 12)
            };
            let sample = run(&case);
            assert_eq!(sample.status, Status::Ok, "{:?}", sample.reason);
            let done = sample.value("units_done").unwrap();
            assert!((1.0..=12.0).contains(&done));
            assert_eq!(done < 12.0, sample.tags.contains(&"time-limit".to_owned()));
        }
    }

    #[test]
    fn a_parent_of_some_size_has_it_in_the_pages_asked_for() {
        let case = Case {
            parent_mib: 8,
            ..Case::base(Way::Fork, 5)
        };
        let sample = run(&case);
        assert_done(&case, &sample);
        assert_eq!(sample.value("parent_huge_mib"), Some(0.0));
        let sample = run(&Case {
            huge_pages: true,
            ..case
        });
        match sample.status {
            Status::Ok => assert!(sample.value("parent_huge_mib").unwrap() >= 7.2),
            // A machine without huge pages must say so.
            _ => assert!(sample.reason.unwrap().contains("transparent_hugepage")),
        }
    }

    /// In a process of its own: the handler would take the children of other tests.
    #[test]
    fn the_sources_way_counts_created_failed_and_reaped() {
        let child = fork(|| {
            let sample = run(&Case::base(Way::ForkSigchld, 100));
            let counts = ["created", "reaped", "failed", "units_done"].map(|name| sample.value(name));
            let most = sample.value("most_unreaped").unwrap_or_default();
            let right = counts == [Some(100.0), Some(100.0), Some(0.0), Some(100.0)];
            u8::from(!(right && (1.0..=100.0).contains(&most)))
        });
        assert_eq!(reap(child.unwrap()).unwrap(), Ending::Code(0));
    }

    #[test]
    fn what_cannot_be_is_a_failed_sample_with_its_reason() {
        let case = Case {
            alive: 64,
            ..Case::base(Way::Vfork, 100)
        };
        let sample = run(&case);
        assert_eq!(sample.status, Status::Failed);
        assert!(sample.reason.unwrap().contains("set alive=1"));
    }

    #[test]
    fn a_handicap_reaches_the_primary_metric() {
        let case = Case::base(Way::Pool, 400);
        let order = Order {
            experiment: "create".to_owned(),
            params: case.params(1),
            cpus: vec![0],
            handicap_percent: 300,
            launched_ns: 0,
        };
        let mut worker = Worker::new(&order);
        measure(&order.params, &mut worker).unwrap();
        let sample = worker.finish(Ok(()));
        let parts = sample.value("create_ns_per_unit").unwrap() + sample.value("reap_ns_per_unit").unwrap();
        assert!(sample.value("ns_per_unit").unwrap() >= 3.0 * parts);
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
