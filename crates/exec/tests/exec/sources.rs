//! Sources that block: nothing else stops for them.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use threadgauge_exec::{Carrier, ConcurrentExecution, Ended, Mode, StopToken};

use crate::waits::{ends, until};
use crate::{Pools, adaptive, as_it_is, at_most};

/// On all but the throughput mode with more than one, whose caller asks the source itself.
mod fed {
    use super::*;

    on_carriers! { [
        as_they_are(as_it_is) {
            pool_prompt: |k, _: &Pools| at_most(k);
            pool_free_caller: |k, _: &Pools| at_most(k).mode(Mode::FreeCaller);
            pool_adaptive: |k, _: &Pools| adaptive(k);
            thread_per_object: |k, _: &Pools| at_most(k).carrier(Carrier::ThreadPerObject);
            shared_prompt: |k, pools: &Pools| at_most(k).carrier(&pools.large);
            shared_free_caller: |k, pools: &Pools| at_most(k).carrier(&pools.large).mode(Mode::FreeCaller);
            shared_of_one: |k, pools: &Pools| at_most(k).carrier(&pools.one);
            throughput_of_one: |_, _: &Pools| at_most(1).mode(Mode::Throughput);
        }
        made_first(ConcurrentExecution::up_front) {
            all_up_front: |k, _: &Pools| at_most(k);
        }
    ] {
        /// Each object comes only after all before it are finished; short ones, so that several would be pulled at
        /// once.
        fn a_source_may_wait_for_the_finisher(with, on) {
            for (k, n) in [(1, 20), (3, 20), (1, 300), (2, 300)] {
                let finished = AtomicUsize::new(0);
                let fed = (0..n).inspect(|i| until(|| finished.load(SeqCst) >= *i));
                let report = on(with(k)).for_each(fed, |i| *i, |done| {
                    assert_eq!(finished.fetch_add(1, SeqCst), done.index);
                });
                assert_eq!((report.finished, report.ended), (n, Ended::All));
            }
        }

        /// After many that come at once, the source waits for all of them.
        fn a_source_may_begin_to_wait_in_its_midst(with, on) {
            for k in [1, 2, 4] {
                let (n, finished) = (3000, AtomicUsize::new(0));
                let objects = (0..n).inspect(|i| {
                    if i % 1000 == 900 {
                        until(|| finished.load(SeqCst) == *i);
                    }
                });
                let report = on(with(k)).for_each(objects, |i| *i, |_| {
                    finished.fetch_add(1, SeqCst);
                });
                assert_eq!(report.finished, n);
            }
        }
    } }
}

on_every_carrier! {
    /// The source ends when the token is set, which is at the deadline.
    fn the_deadline_comes_while_the_source_blocks(with, on) {
        for k in [1, 3] {
            let token = StopToken::new();
            let objects = (0..3).inspect(|_| until(|| token.is_stopped()));
            let report = on(with(k).deadline(Duration::from_millis(20)).announce_stop(&token))
                .for_each(objects, |_| panic!("too late"), |_| ());
            assert_eq!((report.ended, report.finished), (Ended::Deadline, 0));
            assert!(report.rest.eq(0..3), "what came too late comes back");
        }
    }

    fn an_object_that_comes_after_the_stop_is_not_started(with, on) {
        let token = StopToken::new();
        let objects = (0..20).inspect(|i| {
            if *i == 5 {
                token.stop();
            }
        });
        let report = on(with(2).stop(&token)).for_each(objects, |i| assert!(*i < 5), |_| ());
        assert_eq!(report.ended, Ended::Stopped);
        let rest: Vec<_> = report.rest.collect();
        assert_eq!(report.finished + rest.len(), 20);
        assert!(rest.ends_with(&(5..20).collect::<Vec<_>>()), "{rest:?}");
    }

    fn a_drop_that_panics_after_its_processor_leaves_nobody_waiting(with, on) {
        struct Angry(usize);
        impl Drop for Angry {
            fn drop(&mut self) {
                assert!(self.0 != 3 || std::thread::panicking(), "the object");
            }
        }
        for k in [1, 3] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                on(with(k)).for_each((0..8).map(Angry), |object| assert!(object.0 != 3, "the processor"), |_| ())
            }));
            assert_eq!(*caught.err().unwrap().downcast::<&str>().unwrap(), "the processor");
        }
    }
}

/// A source that gives nothing for long: what is done by then has been finished, though nobody works.
#[test]
fn the_throughput_mode_finishes_what_is_done_while_a_worker_is_at_the_source() {
    ends(|| {
        let here = std::thread::current().id();
        let (finished, elsewhere) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut next = 0;
        let source = std::iter::from_fn(|| {
            next += 1;
            if std::thread::current().id() != here && !elsewhere.swap(true, SeqCst) {
                let before = next - 1;
                until(|| finished.load(SeqCst) == before);
            }
            Some(next)
        });
        let _ = at_most(2).mode(Mode::Throughput).for_each(
            source,
            |_| (),
            |done| {
                finished.fetch_add(1, SeqCst);
                if done.order > 50 && elsewhere.load(SeqCst) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        );
    });
}

/// A worker is held up in the source, with objects before it that the caller takes over as there is no other thread. It
/// comes back while the caller has the only permit, and sleeps; the rest is its, when the caller is done.
#[cfg(target_os = "linux")]
#[test]
fn a_caller_that_has_stood_in_leaves_the_permit_to_who_waits_for_it() {
    ends(|| {
        let pools = Pools::default();
        let (started, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Where the source waits for all before, which is never the first; and the worker, when it has waited.
        let (held_up, worker) = (AtomicUsize::new(0), OnceLock::new());
        let objects = (0..1000).inspect(|&i| {
            if held_up.load(SeqCst) == 0 && started.load(SeqCst) < i {
                held_up.store(i, SeqCst);
                until(|| finished.load(SeqCst) == i);
                worker.set(rustix::thread::gettid()).unwrap();
            }
        });
        let report = at_most(1).carrier(&pools.one).mode(Mode::FreeCaller).for_each(
            objects,
            |_| started.fetch_add(1, SeqCst),
            |done| {
                finished.fetch_add(1, SeqCst);
                if held_up.load(SeqCst) == done.index + 1 {
                    until(|| worker.get().is_some_and(|id| sleeps(*id)));
                }
            },
        );
        assert_eq!(report.finished, 1000);
        assert!(worker.get().is_some(), "it never pulled several");
    });
}

#[cfg(target_os = "linux")]
fn sleeps(thread: rustix::thread::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.as_raw_nonzero())).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('S')
}
