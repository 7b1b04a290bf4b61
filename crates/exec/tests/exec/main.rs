//! The conformance suite: a common part, run on every carrier in every mode, and a part for each capability.
//!
//! Failure classes covered: the bound, promptness, laziness, order, borrowing, early ends of each kind, panics at
//! each place, back-pressure, nesting. Nothing here waits for time: processors wait for what another part of the
//! test has done, so that a broken promise ends at a deadline or asserts.
#![cfg(not(loom))]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[cfg(feature = "async")]
mod futures;
mod shared_pool;
mod up_front;
mod waits;

use proptest::prelude::*;
use threadgauge_exec::{
    Carrier, ConcurrentExecution, Degree, Ended, Incomplete, Mode, OnError, StopToken, ThreadPool, Warning,
    longest_first, shortest_first, shuffled,
};
use waits::{Barrier, ends, until};

fn at_most(degree: usize) -> ConcurrentExecution {
    ConcurrentExecution::new(NonZeroUsize::new(degree).unwrap())
}

fn adaptive(most: usize) -> ConcurrentExecution {
    ConcurrentExecution::new(Degree::adaptive(..=NonZeroUsize::new(most).unwrap()))
}

/// Not without end: where the caller works, the object that is to stop the call may wait for the caller.
fn a_while_or_until_stopped(token: &StopToken) {
    let _ = (0..1_000).find(|_| {
        std::thread::yield_now();
        token.is_stopped()
    });
}

/// Calls with later and later deadlines, until there was time to start what was to be started before: on a busy machine
/// an early one passes first.
fn until_a_deadline_is_late_enough(call: impl FnMut(Duration) -> Option<()>) {
    let mut deadlines = (0..12).map(|times| Duration::from_millis(20 << times));
    assert!(deadlines.find_map(call).is_some(), "nothing was started in 40 s");
}

/// Runs tests on the carriers named: settings for a degree, in groups by what runs them. A test's body is compiled once
/// a group.
macro_rules! on_carriers {
    ([$($group:ident($on:expr) { $($module:ident: $settings:expr;)+ })+] $tests:tt) => {
        $(mod $group {
            use super::*;
            bodies!($on, $tests);
            $(mod $module {
                use super::*;
                tests!($settings, $tests);
            })+
        })+
    };
}

macro_rules! bodies {
    ($on:expr, { $($(#[$meta:meta])* fn $name:ident($with:ident, $on_it:ident) $body:block)+ }) => {
        $($(#[$meta])* fn $name($with: &(dyn Fn(usize) -> ConcurrentExecution + Sync)) {
            let $on_it = $on;
            $body
        })+
    };
}

macro_rules! tests {
    ($settings:expr, { $($(#[$meta:meta])* fn $name:ident($with:ident, $on_it:ident) $body:block)+ }) => {
        $(#[test] fn $name() {
            ends(|| {
                // Dropped at the end, so that a test waits for its pool's threads.
                let pools = Pools::default();
                let settings: fn(usize, &Pools) -> ConcurrentExecution = $settings;
                super::$name(&|k| settings(k, &pools));
            });
        })+
    };
}

/// The persistent pools of a test: with threads enough for all that runs here at once, and with one.
struct Pools {
    large: ThreadPool,
    one: ThreadPool,
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            large: ThreadPool::new(NonZeroUsize::new(64).unwrap()),
            one: ThreadPool::new(NonZeroUsize::MIN),
        }
    }
}

/// The settings run the call themselves.
fn as_it_is(execution: ConcurrentExecution) -> ConcurrentExecution {
    execution
}

/// Tests on every carrier of threads in every mode.
macro_rules! on_every_carrier {
    ($($tests:tt)+) => {
        on_carriers! { [
            as_they_are(as_it_is) {
                pool_prompt: |k, _: &Pools| at_most(k);
                pool_free_caller: |k, _: &Pools| at_most(k).mode(Mode::FreeCaller);
                pool_throughput: |k, _: &Pools| at_most(k).mode(Mode::Throughput);
                thread_per_object: |k, _: &Pools| at_most(k).carrier(Carrier::ThreadPerObject);
                pool_adaptive: |k, _: &Pools| adaptive(k);
                pool_adaptive_throughput: |k, _: &Pools| adaptive(k).mode(Mode::Throughput);
                thread_per_object_adaptive: |k, _: &Pools| adaptive(k).carrier(Carrier::ThreadPerObject);
                shared_adaptive: |k, pools: &Pools| adaptive(k).carrier(&pools.large);
                shared_prompt: |k, pools: &Pools| at_most(k).carrier(&pools.large);
                shared_free_caller: |k, pools: &Pools| at_most(k).carrier(&pools.large).mode(Mode::FreeCaller);
                shared_throughput: |k, pools: &Pools| at_most(k).carrier(&pools.large).mode(Mode::Throughput);
                shared_of_one: |k, pools: &Pools| at_most(k).carrier(&pools.one);
            }
            made_first(ConcurrentExecution::up_front) {
                all_up_front: |k, _: &Pools| at_most(k);
            }
        ] { $($tests)+ } }
    };
}

mod sources;
mod thread_locals;

on_every_carrier! {
    fn every_object_is_finished_once(with, on) {
        for (n, k) in [(0, 1), (1, 1), (1, 5), (7, 3), (300, 2), (500, 8)] {
            let mut seen = BTreeSet::new();
            let mut orders = Vec::new();
            let report = on(with(k)).for_each(0..n, |i| *i * 2, |done| {
                assert_eq!(done.result, done.object * 2);
                assert_eq!(done.index, done.object);
                assert!(done.times.completion() >= done.times.service());
                orders.push(done.order);
                assert!(seen.insert(done.index));
            });
            assert_eq!((seen.len(), report.finished), (n, n));
            assert!(orders.into_iter().eq(0..n));
            assert_eq!(report.ended, Ended::All);
            assert_eq!(report.rest.count(), 0);
            assert!(report.most_running <= k && (report.most_running > 0) == (n > 0));
        }
    }

    fn at_no_time_more_than_k_run(with, on) {
        for k in [1, 2, 3, 8] {
            let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let report = on(with(k)).for_each(
                0..400,
                |i| {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    for _ in 0..*i % 7 {
                        std::thread::yield_now();
                    }
                    running.fetch_sub(1, SeqCst);
                },
                |_| (),
            );
            assert!(most.load(SeqCst) <= k, "{most:?} of {k}");
            assert!(most.load(SeqCst) <= report.most_running && report.most_running <= k);
        }
    }

    fn the_finisher_stays_here_and_needs_no_send(with, on) {
        let here = std::thread::current().id();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let _ = on(with(3)).for_each(0..50, |i| *i, |done| {
            assert_eq!(std::thread::current().id(), here);
            seen.borrow_mut().push(done.result);
        });
        assert_eq!(seen.borrow().len(), 50);
    }

    fn everything_may_borrow(with, on) {
        let mut numbers = vec![1, 2, 3, 4];
        let texts = [String::from("a"), String::from("b")];
        let mut firsts: Vec<&str> = Vec::new();
        let _ = on(with(2)).for_each(numbers.iter_mut(), |n| { **n *= 10; &texts[0] }, |done| firsts.push(done.result));
        assert_eq!(numbers, [10, 20, 30, 40]);
        assert_eq!(firsts, ["a"; 4]);
    }

    fn results_that_wait_are_bounded(with, on) {
        // 64 KiB each: a ring holds four.
        let (pulled, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let objects = (0..500).map(|_| {
            let ahead = pulled.fetch_add(1, SeqCst) - finished.load(SeqCst);
            assert!(ahead <= 3 * 8 + 3, "{ahead} ahead of the finisher");
        });
        let report = on(with(3)).for_each(objects, |()| [7_u8; 64 << 10], |done| {
            std::thread::yield_now();
            assert_eq!(done.result[9], 7);
            finished.fetch_add(1, SeqCst);
        });
        assert_eq!(report.finished, 500);
    }

    fn in_order_within_the_look_ahead(with, on) {
        for look_ahead in [1, 2, 7] {
            let finished = AtomicUsize::new(0);
            let mut next = 0;
            let _ = on(with(3).in_order(NonZeroUsize::new(look_ahead).unwrap())).for_each(
                0..300,
                |i| assert!(*i < finished.load(SeqCst) + look_ahead),
                |done| {
                    assert_eq!(done.index, next);
                    next += 1;
                    finished.store(next, SeqCst);
                },
            );
            assert_eq!(next, 300);
        }
    }

    fn a_stop_token_ends_it_and_the_rest_comes_back(with, on) {
        let token = StopToken::new();
        let started = Mutex::new(BTreeSet::new());
        let report = on(with(3).stop(&token)).for_each(
            0..1000,
            |i| {
                started.lock().unwrap().insert(*i);
                if *i == 20 {
                    token.stop();
                } else if *i > 20 {
                    a_while_or_until_stopped(&token);
                }
            },
            |_| (),
        );
        assert_eq!(report.ended, Ended::Stopped);
        let started = started.into_inner().unwrap();
        assert_eq!(report.finished, started.len());
        let rest: Vec<_> = report.rest.collect();
        assert!(rest.iter().all(|i| !started.contains(i)), "started and handed back");
        assert_eq!(rest.len() + started.len(), 1000);
        assert!(rest.is_sorted());
    }

    fn a_token_set_before_starts_nothing(with, on) {
        let token = StopToken::new();
        token.stop();
        let report = on(with(2).stop(&token.child())).for_each(0..5, |_| panic!(), |_| ());
        assert_eq!((report.ended, report.finished, report.rest.count()), (Ended::Stopped, 0, 5));
    }

    fn a_call_that_ends_early_leaves_the_callers_token_alone(with, on) {
        let (program, call) = (StopToken::new(), StopToken::new());
        let failing = on(with(2).stop(&program).announce_stop(&call));
        let tried = failing.try_for_each(0..50, |i| if *i == 3 { Err(()) } else { Ok(()) }, |_| ());
        assert_eq!(tried.report.ended, Ended::Failed);
        assert!(call.is_stopped() && !program.is_stopped());
    }

    fn what_stopped_early_is_not_ok(with, on) {
        let token = StopToken::new();
        token.stop();
        let stopped = on(with(2).stop(&token)).try_for_each(0..5, |_| Ok::<_, ()>(()), |_| ());
        assert_eq!(stopped.ok().unwrap_err(), Incomplete::Early(Ended::Stopped));
        let late = on(with(2).deadline(Duration::ZERO)).try_for_each(0..5, |_| Ok::<_, ()>(()), |_| ());
        assert_eq!(late.ok().unwrap_err(), Incomplete::Early(Ended::Deadline));
        let broken = on(with(2)).try_for_each(0..50, |_| Ok::<_, ()>(()), |_| ControlFlow::Break("enough"));
        assert_eq!(broken.ok().unwrap_err(), Incomplete::Early(Ended::Broken("enough")));
    }

    fn a_deadline_names_those_who_still_run(with, on) {
        until_a_deadline_is_late_enough(|deadline| {
            let token = StopToken::new();
            let began = AtomicBool::new(false);
            let warned = Arc::new(Mutex::new(Vec::new()));
            let theirs = Arc::clone(&warned);
            let first = Warning::Overrun { index: 0 };
            let report = on(with(2)
                .deadline(deadline)
                .announce_stop(&token)
                .on_warning(move |w| theirs.lock().unwrap().push(w)))
                .for_each(
                    0..8,
                    |i| match *i {
                        0 => {
                            began.store(true, SeqCst);
                            until(|| warned.lock().unwrap().contains(&first));
                        }
                        _ => until(|| token.is_stopped()),
                    },
                    |_| (),
                );
            assert_eq!(report.ended, Ended::Deadline);
            began.load(SeqCst).then(|| assert!(report.finished >= 1))
        });
    }

    fn errors_are_collected(with, on) {
        let mut sum = 0;
        let tried = on(with(3).on_error(OnError::Collect)).try_for_each(
            0..100,
            |i| if *i % 10 == 3 { Err(*i) } else { Ok(*i) },
            |done| sum += done.result,
        );
        assert_eq!(sum, (0..100).filter(|i| i % 10 != 3).sum::<i32>());
        let mut failed: Vec<_> = tried.failed.iter().map(|f| f.error).collect();
        failed.sort_unstable();
        assert!(failed.into_iter().eq((3..100).step_by(10)));
        assert_eq!((tried.report.finished, tried.report.ended), (90, Ended::All));
        assert!(tried.ok().is_err());
    }

    fn the_first_error_stops(with, on) {
        let (token, begun) = (StopToken::new(), AtomicUsize::new(0));
        let tried = on(with(2).announce_stop(&token)).try_for_each(
            0..300,
            |i| {
                begun.fetch_add(1, SeqCst);
                if *i == 7 {
                    return Err("seven");
                }
                if *i > 7 {
                    a_while_or_until_stopped(&token);
                }
                Ok(*i)
            },
            |_| (),
        );
        assert_eq!(tried.report.ended, Ended::Failed);
        assert_eq!((tried.failed.len(), tried.failed[0].index), (1, 7));
        // What has begun is finished; what was taken and had not begun comes back.
        let finished = tried.report.finished;
        assert_eq!(finished + 1, begun.load(SeqCst));
        let rest: Vec<_> = tried.report.rest.collect();
        assert!(!rest.contains(&7));
        assert_eq!(finished + 1 + rest.len(), 300);
    }

    fn the_first_error_is_what_is_told(with, on) {
        let tried = on(with(2)).try_for_each(0..300, |i| (*i != 7).then_some(*i).ok_or("seven"), |_| ());
        assert_eq!(tried.ok().err(), Some(Incomplete::Failed("seven")));
    }

    fn a_panic_in_the_processor_arrives_here(with, on) {
        let (token, begun) = (StopToken::new(), AtomicUsize::new(0));
        let mut finished = 0;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _ = on(with(2).announce_stop(&token)).for_each(
                0..300,
                |i| {
                    begun.fetch_add(1, SeqCst);
                    assert!(*i != 5, "five");
                    if *i > 5 {
                        a_while_or_until_stopped(&token);
                    }
                },
                |_| finished += 1,
            );
        }));
        let message = *caught.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(message, "five");
        assert_eq!(finished + 1, begun.load(SeqCst));
    }

    fn a_panic_in_the_finisher_arrives_here(with, on) {
        let running = AtomicUsize::new(0);
        let token = StopToken::new();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _ = on(with(3).announce_stop(&token)).for_each(
                0..300,
                |i| {
                    running.fetch_add(1, SeqCst);
                    if *i == 1 || *i == 2 {
                        until(|| token.is_stopped() || running.load(SeqCst) < 3);
                    }
                    running.fetch_sub(1, SeqCst);
                },
                |done| assert!(done.order != 10, "tenth"),
            );
        }));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "tenth");
        assert_eq!(running.load(SeqCst), 0, "a thread stayed");
        assert!(token.is_stopped());
    }

    fn a_panic_in_the_iterator_arrives_here(with, on) {
        let mut finished = 0;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let objects = (0..300).inspect(|i| assert!(*i < 50, "fifty"));
            let _ = on(with(2)).for_each(objects, |_| (), |_| finished += 1);
        }));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "fifty");
        assert!(finished <= 50);
    }

    fn nothing_is_dropped_twice_or_lost(with, on) {
        let item = Arc::new(());
        let objects: Vec<_> = (0..200).map(|_| Arc::clone(&item)).collect();
        let report = on(with(3)).for_each(objects, |o| Arc::clone(o), |done| {
            if done.order == 60 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        drop(report);
        assert_eq!(Arc::strong_count(&item), 1);
    }

    fn a_call_within_a_processor_does_not_deadlock(with, on) {
        let mut sum = 0;
        let _ = on(with(2)).for_each(
            0..6,
            |i| {
                let mut inner = 0;
                let _ = on(with(2)).for_each(0..10, |j| *i * *j, |done| inner += done.result);
                inner
            },
            |done| sum += done.result,
        );
        assert_eq!(sum, 15 * 45);
    }

    fn a_call_within_the_finisher_does_not_deadlock(with, on) {
        let mut sum = 0;
        let _ = on(with(2)).for_each(0..6, |i| *i, |done| {
            let _ = on(with(2)).for_each(0..4, |j| *j, |inner| sum += inner.result * done.result);
        });
        assert_eq!(sum, 15 * 6);
    }

    fn one_setting_serves_many_calls_at_once(with, on) {
        let execution = on(with(2));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let mut n = 0;
                    let _ = execution.for_each(0..200, |_| (), |_| n += 1);
                    assert_eq!(n, 200);
                });
            }
        });
    }

    fn progress_is_told_here_for_each_object_and_at_the_end(with, on) {
        let here = std::thread::current().id();
        let told = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&told);
        let with = on(with(3).on_error(OnError::Collect).on_progress(Duration::ZERO, move |progress| {
            assert_eq!(std::thread::current().id(), here);
            theirs.lock().unwrap().push(progress);
        }));
        // Failed ones count, and a second call begins anew.
        for _ in 0..2 {
            told.lock().unwrap().clear();
            let _ = with.try_for_each(0..40, |i| if *i % 2 == 0 { Ok(()) } else { Err(()) }, |_| ());
            let told = told.lock().unwrap();
            assert!(told.iter().map(|p| p.finished).eq((1..=40).chain([40])));
            assert!(told.iter().all(|p| p.total == Some(40) && p.finished <= p.started && p.started <= 40));
        }
    }

    fn progress_is_told_no_more_often_than_wanted(with, on) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&told);
        let _ = on(with(2).on_progress(Duration::MAX, move |progress| theirs.lock().unwrap().push(progress.finished)))
            .for_each(0..50, |_| (), |_| ());
        assert_eq!(*told.lock().unwrap(), [1, 50]);
    }

    fn an_object_may_have_its_own_processor(with, on) {
        let mut got = Vec::new();
        let add = |i: i32| move |o: &mut i32| *o + i;
        let _ = on(with(3)).for_each((0..40).map(|i| (i, add(i))), |(o, p)| p(o), |done| got.push(done.result));
        got.sort_unstable();
        assert!(got.into_iter().eq((0..40).map(|i| i * 2)));
    }

    fn an_objects_own_processor_may_fail(with, on) {
        let mut sum = 0;
        let odd_fails = |i: i32| move |o: &mut i32| if i % 2 == 0 { Ok(*o) } else { Err(i) };
        let tried = on(with(3).on_error(OnError::Collect)).try_for_each(
            (0..40).map(|i| (i, odd_fails(i))),
            |(o, p)| p(o),
            |done| sum += done.result,
        );
        assert_eq!((sum, tried.failed.len()), (380, 20));
        assert!(tried.failed.iter().all(|failed| failed.object.0 == failed.error));
    }
}

on_carriers! { [
    endless(as_it_is) {
        on_a_pool: |k, _: &Pools| at_most(k);
        on_threads_per_object: |k, _: &Pools| at_most(k).carrier(Carrier::ThreadPerObject);
        on_a_shared_pool: |k, pools: &Pools| at_most(k).carrier(&pools.large);
        on_a_shared_pool_of_one: |k, pools: &Pools| at_most(k).carrier(&pools.one);
    }
] {
    fn an_endless_iterator_is_pulled_lazily(with, on) {
        let pulled = AtomicUsize::new(0);
        let endless = std::iter::from_fn(|| Some(pulled.fetch_add(1, SeqCst)));
        let mut seen = BTreeSet::new();
        let report = on(with(2)).for_each(endless, |i| *i, |done| {
            seen.insert(done.object);
            if done.order == 99 { ControlFlow::Break(done.object) } else { ControlFlow::Continue(()) }
        });
        let Ended::Broken(_) = report.ended else { panic!("{:?}", report.ended) };
        assert_eq!(report.finished, 100);
        seen.extend(report.unfinished.iter().map(|done| done.object));
        // Those that were not started come first, and nothing is lost between.
        let started = seen.len();
        seen.extend(report.rest.take(1000));
        assert!(seen.into_iter().eq(0..started + 1000));
    }
} }

/// Both carriers, with the caller free: a result is finished while others run, though slots are free.
#[test]
fn a_result_is_finished_while_others_run() {
    for with in [
        at_most(3),
        at_most(3).mode(Mode::FreeCaller),
        at_most(3).carrier(Carrier::ThreadPerObject),
    ] {
        let finished = AtomicUsize::new(0);
        let report = with.for_each(
            0..9,
            // Each but the first needs all before it to be finished.
            |i| until(|| finished.load(SeqCst) == *i),
            |done| assert_eq!(finished.fetch_add(1, SeqCst), done.index),
        );
        assert_eq!(report.finished, 9);
    }
}

#[test]
fn all_k_run_at_once() {
    for with in [
        at_most(6),
        at_most(6).mode(Mode::FreeCaller),
        at_most(6).mode(Mode::Throughput),
        at_most(6).carrier(Carrier::ThreadPerObject),
    ] {
        let barrier = Barrier::new(6);
        let report = with.for_each(0..6, |_| barrier.wait(), |_| ());
        assert_eq!((report.finished, report.most_running), (6, 6));
    }
}

#[test]
fn each_object_has_a_thread_of_its_own() {
    for k in [1, 3] {
        let mut threads = std::collections::HashSet::new();
        let report = at_most(k).carrier(Carrier::ThreadPerObject).for_each(
            0..60,
            |_| std::thread::current().id(),
            |done| assert!(threads.insert(done.result)),
        );
        assert_eq!(report.finished, 60);
    }
}

/// The share of it that is claimed at once is no more than what is left over twice the degree.
#[test]
fn a_degree_may_be_as_high_as_there_are_numbers() {
    let pool = ThreadPool::new(NonZeroUsize::new(2).unwrap());
    for mode in [Mode::Prompt, Mode::FreeCaller, Mode::Throughput] {
        let report = at_most(usize::MAX)
            .carrier(&pool)
            .mode(mode)
            .for_each(0..3000, |i| *i, |_| ());
        assert_eq!(report.finished, 3000);
    }
}

/// Objects that wait for each other ask for more and more; those that compute give it back. What it comes to is the
/// controller's, tested on simulated time.
#[test]
fn an_adaptive_degree_moves_within_its_bounds() {
    for with in [
        ConcurrentExecution::new(Degree::adaptive(..=NonZeroUsize::new(40).unwrap())),
        ConcurrentExecution::new(Degree::adaptive(..=NonZeroUsize::new(40).unwrap()))
            .carrier(Carrier::ThreadPerObject),
    ] {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let report = with.for_each(
            0..3000,
            |_| {
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::sleep(Duration::from_micros(500));
                running.fetch_sub(1, SeqCst);
            },
            |_| (),
        );
        assert_eq!((report.finished, report.ended), (3000, Ended::All));
        assert!(most.load(SeqCst) <= report.most_running && report.most_running <= 40);
        assert!((1..=40).contains(&report.last_degree));
    }
}

/// Short objects bring the caller to work and park workers; then all of them must come back.
#[test]
fn after_short_objects_all_k_run_at_once_with_the_caller_free() {
    let barrier = Barrier::new(4);
    let report = at_most(4).mode(Mode::FreeCaller).for_each(
        0..4004,
        |i| {
            if *i >= 4000 {
                barrier.wait();
            }
        },
        |_| (),
    );
    assert_eq!(report.finished, 4004);
}

/// A long object calls parked workers back, in the default mode as well: two at work, both long, and then the
/// rest of the long ones at once.
#[test]
fn short_and_long_ones_mixed_lose_nothing() {
    let report = at_most(4).for_each(
        0..3000_u32,
        |i| {
            if i.is_multiple_of(200) {
                std::thread::sleep(Duration::from_micros(300));
            }
        },
        |_| (),
    );
    assert_eq!(report.finished, 3000);
}

#[test]
fn a_finisher_that_blocks_holds_the_workers_up() {
    let (started, go) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(|| {
            // The workers fill what may wait, and no more; see `results_that_wait_are_bounded` for the bound.
            until(|| started.load(SeqCst) > 4);
            go.store(true, SeqCst);
        });
        let _ = at_most(2).mode(Mode::FreeCaller).for_each(
            0..3000,
            |_| started.fetch_add(1, SeqCst),
            |done| {
                if done.order == 0 {
                    until(|| go.load(SeqCst));
                }
            },
        );
    });
    assert_eq!(started.load(SeqCst), 3000);
}

#[test]
fn serial_is_the_same_one_by_one() {
    let log = RefCell::new(Vec::new());
    let local = Rc::new(2);
    let report = at_most(3).serial(
        0..5,
        |i| {
            log.borrow_mut().push(*i);
            *local * *i
        },
        |done| {
            log.borrow_mut().push(100 + done.result);
            if done.index == 2 {
                ControlFlow::Break("enough")
            } else {
                ControlFlow::Continue(())
            }
        },
    );
    assert_eq!(*log.borrow(), [0, 100, 1, 102, 2, 104]);
    assert_eq!(
        (report.ended, report.finished, report.most_running),
        (Ended::Broken("enough"), 3, 1)
    );
    assert!(report.rest.eq([3, 4]));
    let caught = catch_unwind(|| at_most(1).serial(0..5, |i| assert!(*i < 3, "three"), |_| ()));
    assert_eq!(*caught.err().unwrap().downcast::<&str>().unwrap(), "three");
}

#[test]
fn serial_stops_at_its_token_and_its_deadline() {
    let token = StopToken::new();
    let stopped = at_most(1).stop(&token).serial(
        0..,
        |i| {
            if *i == 3 {
                token.stop();
            }
        },
        |_| (),
    );
    assert_eq!((stopped.ended, stopped.finished), (Ended::Stopped, 4));
    assert_eq!(stopped.rest.take(2).collect::<Vec<_>>(), [4, 5]);

    let token = StopToken::new();
    let deadline = Duration::from_millis(1);
    let too_long = |_: &mut i32| {
        let begun = Instant::now();
        until(|| begun.elapsed() > deadline);
    };
    let late = at_most(1)
        .deadline(deadline)
        .announce_stop(&token)
        .on_warning(|_| panic!("nobody watches"))
        .serial(0.., too_long, |_| ());
    assert_eq!(late.ended, Ended::Deadline);
    assert!(late.finished <= 1 && token.is_stopped());
}

#[test]
fn try_serial_is_try_for_each_one_by_one() {
    let local = Cell::new(0);
    let work = |i: &mut i32| {
        local.set(local.get() + 1);
        if *i % 4 == 2 { Err(*i) } else { Ok(*i) }
    };
    let mut orders = Vec::new();
    let collected = at_most(3)
        .on_error(OnError::Collect)
        .try_serial(0..10, work, |done| orders.push((done.order, done.result)));
    assert_eq!(
        orders,
        [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5), (5, 7), (6, 8), (7, 9)]
    );
    assert_eq!(
        (collected.report.finished, collected.report.ended),
        (8, Ended::All)
    );
    assert!(collected.failed.iter().map(|f| f.index).eq([2, 6]));
    local.set(0);
    let stopped = at_most(3).try_serial(0..10, work, |_| ());
    assert_eq!(
        (stopped.report.ended, stopped.report.finished, local.get()),
        (Ended::Failed, 2, 3)
    );
    assert!(stopped.report.rest.eq(3..10));
}

/// A processor of many short ones in a row: batches, rings that wrap, the caller at work.
#[test]
fn many_short_ones() {
    let n = if cfg!(debug_assertions) { 30_000 } else { 300_000 };
    for k in [1, 2, 8] {
        for mode in [Mode::Prompt, Mode::FreeCaller, Mode::Throughput] {
            let mut sum = 0;
            let report = at_most(k)
                .mode(mode)
                .for_each(0..n, |i| *i, |done| sum += done.result);
            assert_eq!((sum, report.finished), (n * (n - 1) / 2, n));
            assert!(report.most_running <= k);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn in_order_gives_what_serial_gives(
        objects in proptest::collection::vec(0_u64..300, 0..60),
        degree in 1_usize..6,
        look_ahead in 1_usize..9,
        mode in prop_oneof![Just(Mode::Prompt), Just(Mode::FreeCaller), Just(Mode::Throughput)],
    ) {
        let work = |o: &mut u64| (0..*o).fold(*o, |a, b| a.wrapping_mul(31) ^ b);
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        let _ = at_most(1).serial(objects.iter().copied(), work, |done| expected.push(done.result));
        let _ = at_most(degree).mode(mode).in_order(NonZeroUsize::new(look_ahead).unwrap())
            .for_each(objects.iter().copied(), work, |done| got.push(done.result));
        prop_assert_eq!(expected, got);
    }

    #[test]
    fn started_and_handed_back_are_all(n in 0_usize..400, at in 0_usize..400, degree in 1_usize..6) {
        let mut finished = BTreeSet::new();
        let report = at_most(degree).for_each(0..n, |_| (), |done| {
            finished.insert(done.object);
            if done.order == at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        prop_assert_eq!(report.finished, n.min(at + 1));
        let all: Vec<_> = finished.iter().copied()
            .chain(report.unfinished.iter().map(|d| d.object)).chain(report.rest).collect();
        prop_assert_eq!(all.len(), n);
        prop_assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), n);
    }

    #[test]
    fn orders_are_permutations(objects in proptest::collection::vec(0_u8..9, 0..50), seed: u64) {
        let mut sorted = objects.clone();
        sorted.sort_unstable();
        prop_assert!(shortest_first(objects.clone(), |o| *o).eq(sorted.iter().copied()));
        prop_assert!(longest_first(objects.clone(), |o| *o).eq(sorted.iter().rev().copied()));
        let once: Vec<_> = shuffled(objects.clone(), seed).collect();
        prop_assert!(shuffled(objects, seed).eq(once.iter().copied()));
        let mut back = once;
        back.sort_unstable();
        prop_assert_eq!(back, sorted);
    }
}
