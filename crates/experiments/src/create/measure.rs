//! Runs one case: makes units, ends them, and times both.
//!
//! Units that decide claims are made by a program in C (`guests/c/units.c`), which has the loop and reads the clocks.
//! This command is larger, and its size would slow down one side of a comparison only. What its size adds is measured
//! by cases of its own.

use std::io;
use std::process::Stdio;

use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;
use threadgauge_machine::usage_children;

use crate::create::grid::{Case, Method, Program, Unit, WARM_UP, busy_limit};
use crate::guests::{EXIT, Found, figures};
use crate::sys::fork::fork;
use crate::sys::reap::{Ending, reap};

/// Wall time of the whole loop, divided by the units made.
pub const PER_UNIT: Metric = metric("ns_per_unit", "ns");
/// CPU time of the whole loop (of its process and that process's children), divided by the units made.
pub const CPU_PER_UNIT: Metric = metric("cpu_ns_per_unit", "ns");
const CREATE_PER_UNIT: Metric = metric("create_ns_per_unit", "ns");
const REAP_PER_UNIT: Metric = metric("reap_ns_per_unit", "ns");
/// The median duration of a single creation.
pub const CREATION: Metric = metric("create_ns_median", "ns");
/// Wall time per unit, of the units made after the busy threads have ended: as many as were made beside them.
pub const ALONE_PER_UNIT: Metric = metric("alone_ns_per_unit", "ns");
/// The median duration of a single creation among those.
pub const ALONE_CREATION: Metric = metric("alone_create_ns_median", "ns");
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

/// Runs the case with these parameters.
///
/// # Errors
///
/// When the parameters make no case, memory is lacking, or a unit is refused or ends badly.
pub fn measure(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    worker.tag("cold");
    match case.program {
        Program::C => in_c(&case, worker),
        Program::Threadgauge => in_command(&case, worker),
    }
}

figures! {
    /// What `guests/c/units.c` answers.
    struct Made {
        wall_ns,
        cpu_ns,
        create_ns,
        reap_ns,
        median_ns,
        made,
        refused,
        lives_ns,
        most_unreaped,
        reaped,
        huge_kib,
        alone_ns,
        alone_median_ns,
    }
}

/// By the program in C.
fn in_c(case: &Case, worker: &mut Worker) -> Result<(), CaseError> {
    let (method, unit) = (case.method.name(), case.unit.name());
    let program = case.method.runs_program().then(|| EXIT.load()).transpose()?;
    let input = program.map_or_else(Stdio::null, Stdio::from);
    let found: Found<Made> = case.program_in_c().ask(
        worker,
        input,
        &[
            &method,
            &case.count,
            &case.alive,
            &case.busy,
            &case.parent_mib,
            &u8::from(case.huge_pages),
            &busy_limit(case.count).as_nanos(),
            // The source's program makes none before.
            &if case.method == Method::ForkSigchldWait {
                0
            } else {
                WARM_UP
            },
        ],
        case.planned().deadline(),
        &format!("{unit} by {method}"),
    )?;
    let figures = found.figures;
    if case.parent_mib > 0 {
        let huge_mib = figures.huge_kib as f64 / 1024.0;
        worker.record(PARENT_HUGE_MIB, huge_mib);
        if case.huge_pages && huge_mib < 0.9 * case.parent_mib as f64 {
            let says = format!(
                "asked for {} MiB in huge pages and got {huge_mib:.0}: see /sys/kernel/mm/transparent_hugepage/enabled, \
                 which must be madvise or always, and whether memory is fragmented",
                case.parent_mib
            );
            return Err(CaseError::Skipped(Lack::new(Need::System, says)));
        }
    }
    let made = figures.made as f64;
    let per_unit = |ns: u64| ns as f64 / made.max(1.0);
    worker.record(PER_UNIT, per_unit(figures.wall_ns) * found.stretch);
    worker.record(CPU_PER_UNIT, per_unit(figures.cpu_ns) * found.stretch);
    worker.record(CREATE_PER_UNIT, per_unit(figures.create_ns));
    worker.record(REAP_PER_UNIT, per_unit(figures.reap_ns));
    worker.record(CREATION, figures.median_ns as f64);
    worker.record(DONE, made);
    worker.record(FAILED, figures.refused as f64);
    if case.busy > 0 {
        worker.record(ALONE_PER_UNIT, per_unit(figures.alone_ns));
        worker.record(ALONE_CREATION, figures.alone_median_ns as f64);
    }
    if matches!(case.method, Method::ForkSigchld | Method::ForkSigchldWait) {
        worker.record(CREATED, made);
        worker.record(REAPED, figures.reaped as f64);
        worker.record(MOST_UNREAPED, figures.most_unreaped as f64);
    } else {
        let mean_alive = figures.lives_ns as f64 / figures.wall_ns.max(1) as f64;
        worker.noise("mean_alive", mean_alive);
    }
    if figures.refused > 0 {
        worker.tag("refused");
    }
    if figures.made + figures.refused < case.count {
        worker.tag("time-limit");
    }
    Ok(())
}

/// By this process. No clock is read inside the loop; the program in C reads it there, which takes about 0.1 µs a unit.
fn in_command(case: &Case, worker: &mut Worker) -> Result<(), CaseError> {
    let unit: fn() -> io::Result<()> = match case.unit {
        Unit::Process => || match reap(fork(|| 0)?)? {
            Ending::Code(0) => Ok(()),
            other => Err(io::Error::other(format!("a child ended with {other:?}"))),
        },
        Unit::Thread => || {
            let thread = std::thread::Builder::new().spawn(|| {})?;
            thread.join().map_err(|_| io::Error::other("a thread panicked"))
        },
    };
    let make = |count| {
        (1..=count).try_for_each(|number| {
            let what = format_args!("{} {number} by {}", case.unit.name(), case.method.name());
            unit().map_err(|error| refused(what, &error))
        })
    };
    make(WARM_UP)?;
    let children = usage_children().cpu();
    let watch = worker.stopwatch();
    make(case.count)?;
    let lap = watch.stop();
    let children = usage_children().cpu().saturating_sub(children);
    let units = case.count as f64;
    worker.record(PER_UNIT, lap.wall_ns as f64 / units);
    let cpu_ns = lap.cpu_ns as f64 + children.as_nanos() as f64;
    worker.record(CPU_PER_UNIT, cpu_ns / units);
    worker.record(DONE, units);
    worker.record(FAILED, 0.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::EXPERIMENT;
    use crate::libraries::Library;
    use threadgauge_lab::testing;
    use threadgauge_lab::worker::Order;
    use threadgauge_machine::clock;
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
        for metric in [PER_UNIT, CPU_PER_UNIT] {
            assert!(value(sample, metric) > 0.0, "{case:?}: {metric:?}");
        }
    }

    #[test]
    fn every_method_makes_and_reaps_what_it_was_asked_for() {
        for method in Method::IN_C {
            let case = Case::base(method, 30);
            let sample = run(case);
            assert_done(case, &sample);
            assert!(value(&sample, CREATION) > 0.0);
            let parts = value(&sample, CREATE_PER_UNIT) + value(&sample, REAP_PER_UNIT);
            assert!(
                parts <= value(&sample, PER_UNIT),
                "{case:?}: parts exceed the whole"
            );
        }
    }

    #[test]
    fn so_do_the_programs_on_other_thread_libraries() {
        for library in Library::ALL {
            let case = Case::base(Method::Pthread, 30).library(Some(library));
            match case.program_in_c().missing() {
                None => assert_done(case, &run(case)),
                Some(lack) => assert_eq!(run(case).reason, Some(lack.says)),
            }
        }
        let forked = Case::base(Method::Fork, 30).library(Some(Library::Musl));
        let refused = run(forked).reason.unwrap();
        assert!(
            refused.contains("method is fork; it must be pthread"),
            "{refused}"
        );
    }

    #[test]
    fn so_does_the_command_itself() {
        // This process has the threads of other tests, too: what they use meanwhile is in both figures.
        let used_ns = || clock::process_cpu_ns() as f64 + usage_children().cpu().as_nanos() as f64;
        for method in Method::IN_COMMAND {
            let case = Case::base(method, 30).program(Program::Threadgauge);
            let before = used_ns();
            let sample = run(case);
            let used_ns = used_ns() - before;
            assert_done(case, &sample);
            let cpu_ns = value(&sample, CPU_PER_UNIT) * case.count as f64;
            assert!(
                cpu_ns <= 1.000_001 * used_ns,
                "of {used_ns} ns: {case:?}: {sample:?}"
            );
        }
    }

    #[test]
    fn many_are_alive_together() {
        for method in Method::IN_C.into_iter().filter(|m| m.can_hold()) {
            let case = Case::base(method, 32).alive(16);
            let sample = run(case);
            assert_done(case, &sample);
            let alive = sample.noise["mean_alive"];
            // When reaping begins, all of them exist.
            let reaping = value(&sample, REAP_PER_UNIT) / value(&sample, PER_UNIT);
            assert!(
                (0.999 * 16.0 * reaping..=16.0).contains(&alive),
                "{} had {alive} alive, and reaped for {reaping} of the time",
                method.name()
            );
        }
    }

    #[test]
    fn beside_others_as_many_are_made_as_alone_and_the_others_cpu_time_is_not_counted() {
        for method in Method::IN_C {
            let sample = run(Case::base(method, 12).busy(3));
            assert_eq!(
                sample.status,
                Status::Ok,
                "{}: {:?}",
                method.name(),
                sample.reason
            );
            let done = value(&sample, DONE);
            assert!((1.0..=12.0).contains(&done));
            assert_eq!(done < 12.0, sample.tags.contains(&"time-limit".to_owned()));
            assert!(value(&sample, ALONE_PER_UNIT) > 0.0 && value(&sample, ALONE_CREATION) > 0.0);
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

    #[test]
    fn where_a_handler_reaps_created_failed_and_reaped_are_counted() {
        let sample = run(Case::base(Method::ForkSigchld, 100));
        let counts = [CREATED, REAPED, FAILED, DONE].map(|metric| value(&sample, metric));
        assert_eq!(counts, [100.0, 100.0, 0.0, 100.0]);
        assert!((1.0..=100.0).contains(&value(&sample, MOST_UNREAPED)));
    }

    #[test]
    fn the_sources_program_waits_in_its_handler_and_for_nobody_at_its_end() {
        let sample = run(Case::base(Method::ForkSigchldWait, 100));
        let counts = [CREATED, FAILED, DONE].map(|metric| value(&sample, metric));
        assert_eq!(counts, [100.0, 0.0, 100.0]);
        // Those that end after it are nobody's.
        assert!((1.0..=100.0).contains(&value(&sample, REAPED)), "{sample:?}");
        // The whole program's time, which is not in the parts.
        let parts = value(&sample, CREATE_PER_UNIT) + value(&sample, REAP_PER_UNIT);
        assert!(value(&sample, PER_UNIT) > parts, "{sample:?}");
    }

    #[test]
    fn beside_others_a_handler_that_waits_for_all_children_would_wait_for_them() {
        let sample = run(Case::base(Method::ForkSigchldWait, 100).busy(16));
        assert!(sample.reason.unwrap().contains("busy is 16; it must be 0"));
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
            seed: 0,
            each: None,
            runtime: None,
        };
        let mut worker = Worker::new(&order);
        measure(&order.params, &mut worker).unwrap();
        let sample = worker.finish(Ok(()));
        let parts = value(&sample, CREATE_PER_UNIT) + value(&sample, REAP_PER_UNIT);
        assert!(value(&sample, PER_UNIT) >= 3.0 * parts);
    }
}
