//! What helper processes promise beyond the common part.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Deserializer, Serialize};
use threadgauge_exec::process::{Crash, Failure, Processor};
use threadgauge_exec::{ConcurrentExecution, Degree, Ended, OnError};

use crate::carrier::{PERFORM, at_most};
use crate::script::{Object, Step, object};
use crate::{Test, children, content_of, test};

pub static DOUBLE: Processor<Vec<u64>, Vec<u64>> = Processor::new("double", |mut numbers| {
    numbers.iter_mut().for_each(|n| *n *= 2);
    numbers
});

/// Runs helpers of its own.
pub static NESTED: Processor<u64, u64> = Processor::new("nested", |n| {
    let mut sum = 0;
    let _ = at_most(2)
        .processes()
        .for_each([vec![n], vec![n]], &DOUBLE, |done| sum += done.result.unwrap()[0]);
    sum
});

/// Is written but cannot be read again.
#[derive(Serialize)]
pub struct Unreadable;

impl<'de> Deserialize<'de> for Unreadable {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("unreadable"))
    }
}

pub static UNREADABLE: Processor<Unreadable, ()> = Processor::new("unreadable", |_| ());
static UNREGISTERED: Processor<u64, u64> = Processor::new("unregistered", |n| n);

pub fn tests() -> Vec<Test> {
    vec![
        test(
            "processes::each_crash_is_its_objects_error",
            each_crash_is_its_objects_error,
        ),
        test("processes::helpers_are_reused", helpers_are_reused),
        test(
            "processes::the_degree_may_be_adaptive",
            the_degree_may_be_adaptive,
        ),
        test(
            "processes::a_killed_child_is_its_objects_error",
            a_killed_child_is_its_objects_error,
        ),
        test(
            "processes::a_processor_that_hangs_is_ended_at_its_limit",
            hangs_until_its_limit,
        ),
        test(
            "processes::a_processor_that_hangs_is_ended_at_the_deadline",
            hangs_until_the_deadline,
        ),
        test(
            "processes::large_objects_and_results_arrive",
            large_objects_and_results_arrive,
        ),
        test("processes::too_large_is_an_error", too_large_is_an_error),
        test(
            "processes::what_cannot_be_read_is_an_error",
            what_cannot_be_read_is_an_error,
        ),
        test(
            "processes::printing_and_reading_leave_the_channel_alone",
            printing_and_reading,
        ),
        test(
            "processes::a_helper_that_cannot_be_started",
            a_helper_that_cannot_be_started,
        ),
        test(
            "processes::an_unregistered_processor_is_named",
            an_unregistered_processor_is_named,
        ),
        test("processes::two_of_a_name_are_refused", two_of_a_name_are_refused),
        test(
            "processes::a_crash_stops_or_is_collected",
            a_crash_stops_or_is_collected,
        ),
        test(
            "processes::a_panic_of_the_finisher_ends_who_hangs",
            a_panic_of_the_finisher_ends_who_hangs,
        ),
        test("processes::helpers_have_helpers", helpers_have_helpers),
    ]
}

fn alternating(step: &Step) -> Vec<Object> {
    (0..8)
        .map(|id| object(id, if id % 2 == 0 { vec![step.clone()] } else { vec![] }))
        .collect()
}

fn each_crash_is_its_objects_error() {
    for (step, crash) in [
        (Step::Exit(3), Crash::Exited(3)),
        (Step::Exit(0), Crash::Exited(0)),
        (Step::Abort, Crash::Signalled(6)),
        (Step::Signal(9), Crash::Signalled(9)),
        (Step::Signal(11), Crash::Signalled(11)),
    ] {
        let (mut pids, mut crashed) = (Vec::new(), 0);
        let report = at_most(2)
            .processes()
            .for_each(alternating(&step), &PERFORM, |done| match done.result {
                Ok(output) => pids.push(output.unwrap().pid),
                Err(why) => {
                    assert_eq!((why, done.object.id % 2), (crash.clone(), 0));
                    crashed += 1;
                }
            });
        assert_eq!((report.finished, crashed, report.ended), (8, 4, Ended::All));
        assert!(pids.iter().all(|pid| *pid != std::process::id()));
        assert!(report.shortage.is_none());
    }
    // Each that panicked was replaced.
    let steps: Vec<_> = (0..5).map(|id| object(id, [Step::Panic])).collect();
    let report = at_most(1).processes().for_each(steps, &PERFORM, |done| {
        assert_eq!(
            done.result.unwrap_err(),
            Crash::Panicked(format!("{} panics", done.object.id))
        );
    });
    assert_eq!(report.finished, 5);
}

fn the_degree_may_be_adaptive() {
    let mut sum = 0;
    let six = NonZeroUsize::new(6).unwrap();
    let report = ConcurrentExecution::new(Degree::adaptive(..=six))
        .processes()
        .for_each((0..300).map(|n| vec![n]), &DOUBLE, |done| {
            sum += done.result.unwrap()[0];
        });
    assert_eq!((report.finished, sum), (300, 299 * 300));
    assert!(report.most_running <= 6 && (1..=6).contains(&report.last_degree));
}

fn helpers_are_reused() {
    let mut by_pid = BTreeMap::<u32, usize>::new();
    let _ = at_most(3)
        .processes()
        .for_each((0..60).map(|id| object(id, [])), &PERFORM, |done| {
            *by_pid.entry(done.result.unwrap().unwrap().pid).or_default() += 1;
        });
    assert!(by_pid.len() <= 3, "{by_pid:?}");
}

fn a_killed_child_is_its_objects_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let objects = (0..4).map(|id| match id {
        0 => object(id, [Step::Touch(file.clone()), Step::Hang]),
        _ => object(id, []),
    });
    let mut crashes = Vec::new();
    let report = at_most(2).processes().for_each(objects, &PERFORM, |done| {
        if done.order == 0 {
            let pid = Pid::from_raw(content_of(&file).parse().unwrap()).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
        }
        crashes.extend(done.result.err().map(|crash| (done.object.id, crash)));
    });
    assert_eq!((report.finished, crashes), (4, vec![(0, Crash::Signalled(9))]));
}

fn hangs_until_its_limit() {
    let limit = Duration::from_millis(200);
    let objects = [
        object(0, [Step::Hang]),
        object(1, []),
        object(2, [Step::Hang]),
        object(3, []),
    ];
    let mut ended = BTreeSet::new();
    let report = at_most(2)
        .processes()
        .time_limit(limit)
        .for_each(objects, &PERFORM, |done| {
            if let Err(crash) = done.result {
                assert_eq!(crash, Crash::TimeLimit(limit));
                assert!(done.times.service() >= limit);
                ended.insert(done.object.id);
            }
        });
    assert_eq!((report.ended, report.finished), (Ended::All, 4));
    assert!(ended.contains(&0) && ended.contains(&2));
}

fn hangs_until_the_deadline() {
    let objects = (0..9).map(|id| object(id, [Step::Hang]));
    let deadline = Duration::from_millis(500);
    let mut ended = 0;
    let report = at_most(2)
        .deadline(deadline)
        .processes()
        .for_each(objects, &PERFORM, |done| {
            assert_eq!(done.result.unwrap_err(), Crash::Deadline);
            ended += 1;
        });
    assert_eq!(report.ended, Ended::Deadline);
    assert_eq!(ended + report.rest.count(), 9);
}

fn large_objects_and_results_arrive() {
    let numbers: Vec<u64> = (0..400_000).map(|n| n * 1_000_003).collect();
    let mut seen = 0;
    let _ = at_most(2)
        .processes()
        .for_each(vec![numbers; 5], &DOUBLE, |done| {
            let doubled = done.result.unwrap();
            assert!(
                doubled
                    .iter()
                    .zip(&done.object)
                    .all(|(twice, once)| *twice == once * 2)
            );
            assert_eq!(doubled.len(), 400_000);
            seen += 1;
        });
    assert_eq!(seen, 5);
}

fn too_large_is_an_error() {
    let largest = 10_000;
    let with = at_most(2)
        .processes()
        .largest_frame(NonZeroUsize::new(largest).unwrap());
    let objects = [
        object(0, [Step::Grow(9_000)]),
        object(1, [Step::Grow(20_000)]),
        Object {
            load: vec![u64::MAX; 2_000],
            ..object(2, [])
        },
        object(3, []),
    ];
    let mut crashes = BTreeMap::new();
    let report = with.for_each(objects, &PERFORM, |done| {
        crashes.insert(done.object.id, done.result.err());
    });
    assert_eq!(report.finished, 4);
    assert!(crashes[&0].is_none() && crashes[&3].is_none());
    assert!(
        matches!(crashes[&1], Some(Crash::ResultTooLarge { bytes, largest: l }) if bytes > 20_000 && l == largest)
    );
    assert!(matches!(crashes[&2], Some(Crash::ObjectTooLarge { bytes, .. }) if bytes > 20_000));
    assert!(
        crashes[&2]
            .as_ref()
            .unwrap()
            .to_string()
            .contains("more than the largest frame of 10000")
    );
    // Even where hardly anything fits, the reason does.
    let tiny = at_most(1)
        .processes()
        .largest_frame(NonZeroUsize::new(10).unwrap());
    let _ = tiny.for_each([vec![1_u64; 8]], &DOUBLE, |done| {
        assert!(
            matches!(done.result, Err(Crash::ResultTooLarge { largest: 10, .. })),
            "{:?}",
            done.result
        );
    });
}

fn what_cannot_be_read_is_an_error() {
    let report = at_most(1)
        .processes()
        .for_each([Unreadable, Unreadable], &UNREADABLE, |done| {
            assert!(matches!(done.result, Err(Crash::Object(_))), "{:?}", done.result);
        });
    assert_eq!(report.finished, 2);
}

fn printing_and_reading() {
    let steps = [Step::Print, Step::ReadInput, Step::Print];
    let report =
        at_most(2)
            .processes()
            .for_each((0..6).map(|id| object(id, steps.clone())), &PERFORM, |done| {
                assert_eq!(done.result.unwrap().unwrap().id, done.object.id);
            });
    assert_eq!(report.finished, 6);
}

fn a_helper_that_cannot_be_started() {
    let with = |program: &str| {
        let report = at_most(3)
            .processes()
            .program(program)
            .for_each(0..7_u64, &UNREGISTERED, |_| ());
        assert_eq!(
            (report.ended, report.finished, report.rest.count()),
            (Ended::NoCarrier, 0, 7)
        );
        report.shortage.unwrap()
    };
    assert_eq!(with("/nowhere/to/be/found").kind(), std::io::ErrorKind::NotFound);
    assert!(
        with("/bin/true")
            .to_string()
            .contains("does main call process::helper first?")
    );
}

fn an_unregistered_processor_is_named() {
    let report = at_most(2).processes().for_each(0..7, &UNREGISTERED, |_| ());
    assert_eq!((report.ended, report.rest.count()), (Ended::NoCarrier, 7));
    assert!(report.shortage.unwrap().to_string().contains("\"unregistered\""));
}

fn two_of_a_name_are_refused() {
    static AGAIN: Processor<u8, u8> = Processor::new("double", |n| n);
    let caught = catch_unwind(|| threadgauge_exec::process::helper(&[&DOUBLE, &NESTED, &AGAIN]));
    assert!(
        caught
            .unwrap_err()
            .downcast::<String>()
            .unwrap()
            .contains("\"double\"")
    );
}

fn a_crash_stops_or_is_collected() {
    let objects = || alternating(&Step::Exit(4));
    let tried = at_most(2)
        .on_error(OnError::Collect)
        .processes()
        .try_for_each(objects(), &PERFORM, |done| assert_eq!(done.result.id % 2, 1));
    assert_eq!((tried.report.finished, tried.failed.len()), (4, 4));
    assert!(
        tried
            .failed
            .iter()
            .all(|f| f.error == Failure::Crashed(Crash::Exited(4)))
    );
    let tried = at_most(1).processes().try_for_each(objects(), &PERFORM, |_| ());
    assert_eq!(
        (tried.report.ended, tried.report.rest.count()),
        (Ended::Failed, 7)
    );
    let tried = at_most(1)
        .processes()
        .try_for_each(alternating(&Step::Fail), &PERFORM, |_| ());
    assert_eq!(tried.failed[0].error, Failure::Returned("0 fails".to_owned()));
}

fn a_panic_of_the_finisher_ends_who_hangs() {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let objects = (0..4).map(|id| object(id, if id == 0 { vec![] } else { vec![Step::Hang] }));
        let _ = at_most(3)
            .processes()
            .for_each(objects, &PERFORM, |done| assert!(done.order > 0, "first"));
    }));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "first");
    assert_eq!(children(), Vec::<u32>::new());
}

fn helpers_have_helpers() {
    let mut sum = 0;
    let _ = at_most(2)
        .processes()
        .for_each(1..4, &NESTED, |done| sum += done.result.unwrap());
    assert_eq!(sum, 4 * (1 + 2 + 3));
}
