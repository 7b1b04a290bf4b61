//! What the persistent pool promises beyond the common part.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use threadgauge_exec::{Carrier, ConcurrentExecution, Mode, ThreadPool};

use crate::at_most;
use crate::waits::{Barrier, until};

fn pool_of(threads: usize) -> ThreadPool {
    ThreadPool::new(NonZeroUsize::new(threads).unwrap())
}

#[test]
fn threads_are_made_when_wanted_and_stay() {
    let pool = pool_of(4);
    assert_eq!(pool.made(), 0);
    let execution = at_most(4).carrier(&pool).mode(Mode::FreeCaller);
    let seen = Mutex::new(HashSet::new());
    for _ in 0..20 {
        let barrier = Barrier::new(4);
        let _ = execution.for_each(
            0..4,
            |_| {
                seen.lock().unwrap().insert(std::thread::current().id());
                barrier.wait();
            },
            |_| (),
        );
    }
    assert_eq!((seen.into_inner().unwrap().len(), pool.made()), (4, 4));
}

#[test]
fn a_dropped_pool_has_ended_its_threads() {
    /// Raises its counter at the end of its thread.
    struct AtEnd(&'static AtomicUsize);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static AT_END: AtEnd = const { AtEnd(&ENDED) });
    let pool = pool_of(3);
    let barrier = Barrier::new(3);
    let execution = at_most(3).carrier(&pool).mode(Mode::FreeCaller);
    let _ = execution.for_each(
        0..3,
        |_| {
            AT_END.with(|_| ());
            barrier.wait();
        },
        |_| (),
    );
    drop(pool);
    assert_eq!(ENDED.load(SeqCst), 0, "the settings are a handle too");
    drop(execution);
    assert_eq!(ENDED.load(SeqCst), 3);
}

#[test]
fn no_more_than_the_pools_threads_and_the_callers_are_at_work() {
    let pool = pool_of(2);
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let report = at_most(8).carrier(&pool).for_each(
                    0..200,
                    |_| {
                        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        running.fetch_sub(1, SeqCst);
                    },
                    |_| (),
                );
                assert_eq!(report.finished, 200);
            });
        }
    });
    assert!(most.load(SeqCst) <= 2 + 3, "{most:?}");
    assert!(pool.made() <= 2);
}

/// The only thread waits in the outer processor for the inner call, which therefore must do without.
#[test]
fn a_nested_call_on_a_pool_that_is_all_out_runs_on_its_caller() {
    let pool = pool_of(1);
    let deep = |execution: &ConcurrentExecution| {
        let mut sum = 0;
        let report = execution.for_each(
            0..3,
            |i| {
                let here = std::thread::current().id();
                let mut inner = 0;
                let _ = execution.for_each(
                    0..5,
                    |j| (*j, std::thread::current().id()),
                    |done| {
                        assert_eq!(done.result.1, here);
                        inner += done.result.0;
                    },
                );
                inner * *i
            },
            |done| sum += done.result,
        );
        assert_eq!(report.finished, 3);
        sum
    };
    let execution = at_most(2).carrier(&pool).mode(Mode::FreeCaller);
    assert_eq!(deep(&execution), 30);
}

/// A call that found no thread takes one when it has become free, and its caller is free again.
#[test]
fn a_thread_that_becomes_free_is_taken() {
    let pool = pool_of(1);
    let here_is_free = AtomicUsize::new(0);
    let execution = at_most(1).carrier(&pool).mode(Mode::FreeCaller);
    let started = Barrier::new(2);
    std::thread::scope(|s| {
        s.spawn(|| {
            let _ = execution.for_each(
                [()],
                |()| {
                    started.wait();
                    until(|| here_is_free.load(SeqCst) > 0);
                },
                |_| (),
            );
        });
        started.wait();
        let here = std::thread::current().id();
        // Without end until one runs elsewhere.
        let _ = execution.for_each(
            0..,
            |_: &mut u64| std::thread::current().id(),
            |done| {
                here_is_free.fetch_add(1, SeqCst);
                if done.result == here {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            },
        );
    });
}

#[test]
fn a_panic_leaves_the_pool_as_it_was() {
    let pool = pool_of(2);
    let execution = at_most(2).carrier(&pool);
    for _ in 0..10 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _ = execution.for_each(0..50, |i| assert!(*i != 7, "seven"), |_| ());
        }));
        assert!(caught.is_err());
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _ = execution.for_each(0..50, |_| (), |done| assert!(done.order != 7, "seventh"));
        }));
        assert!(caught.is_err());
    }
    let report = execution.for_each(0..50, |_| (), |_| ());
    assert_eq!(report.finished, 50);
    assert!(pool.made() <= 2);
}

/// Neither CPU time nor switches: they wait on a condition. Meanwhile this thread works.
#[test]
fn idle_threads_use_no_cpu() {
    let pool = pool_of(3);
    let ids = Mutex::new(Vec::new());
    let barrier = Barrier::new(3);
    let _ = at_most(3).carrier(&pool).mode(Mode::FreeCaller).for_each(
        0..3,
        |_| {
            let own = fs::read_link("/proc/thread-self").unwrap();
            ids.lock().unwrap().push(own.file_name().unwrap().to_owned());
            barrier.wait();
        },
        |_| (),
    );
    let ids = ids.into_inner().unwrap();
    let read = |file: &str| -> Vec<String> {
        ids.iter()
            .map(|id| {
                let path = std::path::Path::new("/proc/self/task").join(id).join(file);
                fs::read_to_string(path).unwrap()
            })
            .collect()
    };
    // Until all sleep, and have come to rest: they may sleep on the way there, too.
    until(|| {
        let before = read("schedstat");
        (0..100).for_each(|_| std::thread::yield_now());
        read("status").iter().all(|status| status.contains("State:\tS")) && read("schedstat") == before
    });
    // Time on a CPU in ns, time waiting for one, and how often it got one.
    let before = read("schedstat");
    let mut on_others = 0_u64;
    let _ = at_most(2).carrier(Carrier::Pool).for_each(
        0..20_000_u64,
        |i| (0..2_000).fold(*i, |a, b| a.rotate_left(5) ^ b),
        |done| on_others ^= done.result,
    );
    std::hint::black_box(on_others);
    assert_eq!(read("schedstat"), before);
}
