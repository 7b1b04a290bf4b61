//! The common part: run on every carrier.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use threadgauge_exec::{Ended, OnError, StopToken};

use crate::carrier::{ALL, Kind, at_most};
use crate::script::{Object, Step, object};
use crate::{Test, test, until};

/// A folder for the files by which processors wait for each other.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn numbered(n: usize, steps: impl Fn(usize) -> Vec<Step>) -> Vec<Object> {
    (0..n).map(|id| object(id, steps(id))).collect()
}

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

fn break_if(condition: bool) -> ControlFlow<()> {
    if condition { ControlFlow::Break(()) } else { GO_ON }
}

/// More than may wait anywhere.
const MANY: usize = 1500;

/// Objects that may have been started, with two carriers, beyond those that are finished.
fn ahead_of_the_finisher(kind: Kind) -> usize {
    match kind {
        // What a ring holds of short ones and what is claimed at once, for each.
        Kind::Pool(_) | Kind::Shared | Kind::SharedOfOne => 2 * (256 + 256),
        // One in hand, one that waits.
        _ => 2 + 2,
    }
}

/// What a carrier is to keep, and its name.
type Promise = (&'static str, fn(Kind));

pub fn tests() -> Vec<Test> {
    let each: &[Promise] = &[
        ("each_is_finished_once_and_here", each_is_finished_once_and_here),
        ("at_no_time_more_than_k_run", at_no_time_more_than_k_run),
        ("all_k_run_at_once", all_k_run_at_once),
        (
            "a_result_is_finished_while_others_run",
            a_result_is_finished_while_others_run,
        ),
        ("objects_are_pulled_when_wanted", objects_are_pulled_when_wanted),
        ("a_break_loses_nothing", a_break_loses_nothing),
        (
            "a_token_stops_and_the_rest_comes_back",
            a_token_stops_and_the_rest_comes_back,
        ),
        (
            "order_is_kept_within_the_look_ahead",
            order_is_kept_within_the_look_ahead,
        ),
        ("progress_is_told_here", progress_is_told_here),
        ("errors_are_results", errors_are_results),
        ("errors_are_collected_or_stop", errors_are_collected_or_stop),
        (
            "a_panic_of_the_processor_is_told",
            a_panic_of_the_processor_is_told,
        ),
        ("a_panic_of_the_finisher_arrives", a_panic_of_the_finisher_arrives),
        ("a_panic_of_the_iterator_arrives", a_panic_of_the_iterator_arrives),
        (
            "a_blocked_finisher_holds_the_rest_up",
            a_blocked_finisher_holds_the_rest_up,
        ),
    ];
    ALL.iter()
        .flat_map(|kind| {
            each.iter()
                .map(move |(name, run)| test(format!("{kind:?}::{name}"), move || run(*kind)))
        })
        .chain([test(
            "UpFront::every_thread_is_there_before_the_second_runs",
            every_thread_is_there,
        )])
        .collect()
}

/// Here, where no other test makes threads meanwhile. The first object waits for the threads of all: a new thread
/// gives itself its name a little later.
fn every_thread_is_there() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
        names
            .filter(|name| name.as_ref().is_ok_and(|name| name.trim_end() == "exec-object"))
            .count()
    };
    let report = at_most(1).up_front().for_each(
        0..60,
        |id| {
            if *id == 0 {
                until(|| threads() == 60);
            }
        },
        |_| (),
    );
    assert_eq!((report.finished, report.most_running), (60, 1));
    assert!(report.shortage.is_none());
}

fn each_is_finished_once_and_here(kind: Kind) {
    for (n, k) in [(0, 2), (1, 3), (40, 1), (40, 4)] {
        let here = std::thread::current().id();
        let (mut seen, mut orders) = (BTreeSet::new(), Vec::new());
        let outcome = kind.for_each(at_most(k), numbered(n, |_| vec![]), |done| {
            assert_eq!(std::thread::current().id(), here);
            assert_eq!(
                (done.index, done.object.id),
                (done.result.as_ref().unwrap().id, done.index)
            );
            assert!(done.times.completion() >= done.times.service());
            assert!(seen.insert(done.index));
            orders.push(done.order);
            GO_ON
        });
        assert_eq!((outcome.finished, seen.len(), outcome.ended), (n, n, Ended::All));
        assert!(orders.into_iter().eq(0..n));
        assert!(outcome.rest.is_empty() && outcome.unfinished.is_empty() && outcome.shortage.is_none());
        assert!(outcome.most_running <= k && (outcome.most_running > 0) == (n > 0));
    }
}

/// From what the processors themselves saw, on one clock.
fn at_no_time_more_than_k_run(kind: Kind) {
    for k in [1, 3] {
        let mut edges = Vec::new();
        let objects = numbered(60, |id| vec![Step::Burn(id as u32 % 5 * 20)]);
        let outcome = kind.for_each(at_most(k), objects, |done| {
            let output = done.result.unwrap();
            edges.extend([(output.began, 1), (output.ended, -1)]);
            GO_ON
        });
        // At one time, ends come first.
        edges.sort_unstable();
        let mut running = 0;
        let most = edges.iter().map(|(_, step)| {
            running += step;
            running
        });
        let most = most.max().unwrap();
        assert!(most <= k as i32 && outcome.most_running <= k, "{most} at once");
    }
}

fn all_k_run_at_once(kind: Kind) {
    if kind == Kind::SharedOfOne {
        return;
    }
    let folder = folder();
    let file = |id: usize| folder.path().join(id.to_string());
    let objects = numbered(4, |id| {
        let others = (0..4).map(|other| Step::WaitFor(file(other)));
        std::iter::once(Step::Touch(file(id))).chain(others).collect()
    });
    let outcome = kind.for_each(at_most(4), objects, |done| {
        done.result.unwrap();
        GO_ON
    });
    assert_eq!((outcome.finished, outcome.most_running), (4, 4));
}

/// Each waits for the finisher of the one before.
fn a_result_is_finished_while_others_run(kind: Kind) {
    if !kind.keeps_the_caller_free() {
        return;
    }
    let folder = folder();
    let file = |id: usize| folder.path().join(id.to_string());
    let objects = numbered(7, |id| match id {
        0 => vec![],
        _ => vec![Step::WaitFor(file(id - 1))],
    });
    let outcome = kind.for_each(at_most(3), objects, |done| {
        assert_eq!(done.order, done.index);
        std::fs::write(file(done.index), "").unwrap();
        GO_ON
    });
    assert_eq!(outcome.finished, 7);
}

fn objects_are_pulled_when_wanted(kind: Kind) {
    let pulled = Arc::new(AtomicUsize::new(0));
    let counted = {
        let pulled = Arc::clone(&pulled);
        (0..MANY).map(move |id| {
            pulled.fetch_add(1, SeqCst);
            object(id, [Step::Grow(64 << 10)])
        })
    };
    let mut pulled_by_then = 0;
    let outcome = kind.for_each(at_most(2), counted, |done| {
        pulled_by_then = pulled.load(SeqCst);
        break_if(done.order == 9)
    });
    let most = 10 + ahead_of_the_finisher(kind);
    assert!(pulled_by_then <= most, "{pulled_by_then} were pulled");
    assert_eq!((outcome.ended, outcome.finished), (Ended::Broken(()), 10));
    let started = outcome.finished + outcome.unfinished.len();
    assert_eq!(started + outcome.rest.len(), MANY);
    assert!(started <= most && outcome.rest.is_sorted());
}

fn a_break_loses_nothing(kind: Kind) {
    let mut finished = Vec::new();
    let outcome = kind.for_each(at_most(3), numbered(90, |_| vec![]), |done| {
        finished.push(done.object.id);
        break_if(done.order == 20)
    });
    assert_eq!((outcome.ended, finished.len()), (Ended::Broken(()), 21));
    let all: BTreeSet<usize> = [&finished, &outcome.unfinished, &outcome.rest]
        .into_iter()
        .flatten()
        .copied()
        .collect();
    assert_eq!(
        (
            all.len(),
            finished.len() + outcome.unfinished.len() + outcome.rest.len()
        ),
        (90, 90)
    );
}

fn a_token_stops_and_the_rest_comes_back(kind: Kind) {
    let token = StopToken::new();
    let outcome = kind.for_each(at_most(2).stop(&token), numbered(MANY, |_| vec![]), |done| {
        if done.order == 5 {
            token.stop();
        }
        GO_ON
    });
    assert_eq!(outcome.ended, Ended::Stopped);
    assert!(outcome.finished >= 6 && !outcome.rest.is_empty());
    assert_eq!(outcome.finished + outcome.rest.len(), MANY);
    assert!(outcome.rest.is_sorted());
    let token = StopToken::new();
    token.stop();
    let outcome = kind.for_each(
        at_most(2).stop(&token),
        numbered(5, |_| vec![Step::Panic]),
        |_| GO_ON,
    );
    assert_eq!(
        (outcome.ended, outcome.finished, outcome.rest.len()),
        (Ended::Stopped, 0, 5)
    );
}

fn order_is_kept_within_the_look_ahead(kind: Kind) {
    let look_ahead = 4;
    let finished = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&finished);
    let objects = (0..60_usize).map(move |id| {
        assert!(id < theirs.load(SeqCst) + look_ahead, "{id} is too far ahead");
        object(id, [Step::Burn(id as u32 % 4 * 20)])
    });
    let with = at_most(3).in_order(NonZeroUsize::new(look_ahead).unwrap());
    let outcome = kind.for_each(with, objects, |done| {
        assert_eq!(finished.fetch_add(1, SeqCst), done.index);
        GO_ON
    });
    assert_eq!(outcome.finished, 60);
}

fn progress_is_told_here(kind: Kind) {
    let here = std::thread::current().id();
    let told = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&told);
    let with = at_most(2).on_progress(Duration::ZERO, move |progress| {
        assert_eq!(std::thread::current().id(), here);
        assert_eq!(progress.total, Some(20));
        assert!(progress.finished <= progress.started && progress.started <= 20);
        theirs.lock().unwrap().push(progress.finished);
    });
    let outcome = kind.for_each(with, numbered(20, |_| vec![]), |_| GO_ON);
    assert_eq!(outcome.finished, 20);
    // After each, and at the end.
    assert!(told.lock().unwrap().iter().copied().eq((1..=20).chain([20])));
}

fn errors_are_results(kind: Kind) {
    let objects = numbered(30, |id| if id % 3 == 0 { vec![Step::Fail] } else { vec![] });
    let mut errors = Vec::new();
    kind.for_each(at_most(2), objects, |done| {
        errors.extend(done.result.err());
        GO_ON
    });
    errors.sort();
    assert_eq!((errors.len(), errors[0].as_str()), (10, "0 fails"));
}

fn errors_are_collected_or_stop(kind: Kind) {
    let objects = || {
        numbered(30, |id| {
            if id % 3 == 1 {
                vec![Step::Fail]
            } else {
                vec![Step::Burn(20)]
            }
        })
    };
    let mut orders = Vec::new();
    let collected = kind.try_for_each(at_most(2).on_error(OnError::Collect), objects(), |done| {
        orders.push(done.order);
        GO_ON
    });
    assert_eq!(
        (collected.ended, collected.finished, collected.failed.len()),
        (Ended::All, 20, 10)
    );
    assert!(orders.into_iter().eq(0..20));
    let stopped = kind.try_for_each(at_most(2), objects(), |_| GO_ON);
    assert_eq!(stopped.ended, Ended::Failed);
    assert!(stopped.failed.contains(&(1, "1 fails".to_owned())));
    assert_eq!(stopped.finished + stopped.failed.len() + stopped.rest.len(), 30);
}

fn a_panic_of_the_processor_is_told(kind: Kind) {
    let objects = || numbered(20, |id| if id == 7 { vec![Step::Panic] } else { vec![] });
    let mut finished = 0;
    let mut errors = Vec::new();
    let call = || {
        kind.for_each(at_most(2), objects(), |done| {
            finished += 1;
            errors.extend(done.result.err());
            GO_ON
        })
    };
    let caught = catch_unwind(AssertUnwindSafe(call));
    if kind == Kind::Processes {
        assert_eq!(caught.unwrap().finished, 20);
        assert_eq!(errors, ["the processor panicked: 7 panics"]);
    } else {
        assert_eq!(*caught.unwrap_err().downcast::<String>().unwrap(), "7 panics");
        assert!((1..20).contains(&finished) && errors.is_empty());
    }
}

fn a_panic_of_the_finisher_arrives(kind: Kind) {
    let token = StopToken::new();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        kind.for_each(
            at_most(3).announce_stop(&token),
            numbered(40, |_| vec![Step::Burn(50)]),
            |done| {
                assert!(done.order != 5, "sixth");
                GO_ON
            },
        )
    }));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "sixth");
    assert!(token.is_stopped());
}

fn a_panic_of_the_iterator_arrives(kind: Kind) {
    let mut finished = 0;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let objects = (0..40_usize).map(|id| {
            assert!(id != 9, "nine");
            object(id, [])
        });
        kind.for_each(at_most(2), objects, |_| {
            finished += 1;
            GO_ON
        })
    }));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "nine");
    // Those before it that were taken together with it may not have been started.
    assert!(finished <= 9);
}

/// While the finisher stands, no more is started than may wait for it.
fn a_blocked_finisher_holds_the_rest_up(kind: Kind) {
    let pulled = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&pulled);
    let objects = (0..MANY).map(move |id| {
        theirs.fetch_add(1, SeqCst);
        object(id, [Step::Grow(64 << 10)])
    });
    let mut finished = 0;
    let outcome = kind.for_each(at_most(2), objects, |done| {
        if done.order == 0 {
            // As long as the others take to come to a stand: until nothing has been pulled for a thousand turns.
            let (mut before, mut still) = (0, 0);
            while still < 1000 {
                std::thread::yield_now();
                let now = pulled.load(SeqCst);
                still = if now == before { still + 1 } else { 0 };
                before = now;
            }
        }
        finished += 1;
        let ahead = pulled.load(SeqCst) - finished;
        assert!(
            ahead <= ahead_of_the_finisher(kind),
            "{ahead} ahead of the finisher"
        );
        GO_ON
    });
    assert_eq!(outcome.finished, MANY);
}
