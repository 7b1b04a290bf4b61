//! What a call's threads keep in thread-local variables has been dropped when the call returns.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use threadgauge_exec::{Carrier, ConcurrentExecution, Mode};

use crate::waits::ends;
use crate::{Pools, adaptive, as_it_is, at_most};

/// A sum that its thread brings to all others at its end.
struct Kept {
    sum: usize,
    into: Arc<AtomicUsize>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Enough for a caller that does not wait to be on its way.
        for _ in 0..20 {
            std::thread::yield_now();
        }
        self.into.fetch_add(self.sum, SeqCst);
    }
}

thread_local!(static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) });

on_carriers! { [
    made_for_the_call(as_it_is) {
        on_a_pool: |k, _: &Pools| at_most(k);
        on_a_pool_with_a_free_caller: |k, _: &Pools| at_most(k).mode(Mode::FreeCaller);
        on_a_pool_with_a_caller_at_work: |k, _: &Pools| at_most(k).mode(Mode::Throughput);
        on_an_adaptive_pool: |k, _: &Pools| adaptive(k).mode(Mode::FreeCaller);
        on_threads_per_object: |k, _: &Pools| at_most(k).carrier(Carrier::ThreadPerObject);
    }
    made_before_it(ConcurrentExecution::up_front) {
        on_threads_up_front: |k, _: &Pools| at_most(k);
    }
] {
    fn no_sum_of_a_thread_is_missing(with, on) {
        for call in 0..30 {
            let all = Arc::new(AtomicUsize::new(0));
            let report = on(with(4)).for_each(
                1..21,
                |n| KEPT.with_borrow_mut(|kept| {
                    kept.get_or_insert_with(|| Kept { sum: 0, into: Arc::clone(&all) }).sum += *n;
                }),
                |_| (),
            );
            // This thread does not end; it may have carried some.
            drop(KEPT.take());
            assert_eq!((report.finished, all.load(SeqCst)), (20, 210), "call {call}");
        }
    }

    fn nor_where_the_finisher_panics(with, on) {
        for call in 0..30 {
            let all = Arc::new(AtomicUsize::new(0));
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _ = on(with(3)).for_each(
                    0..9,
                    |_| KEPT.with_borrow_mut(|kept| {
                        kept.get_or_insert_with(|| Kept { sum: 1, into: Arc::clone(&all) });
                    }),
                    |done| assert!(done.order != 2, "third"),
                );
            }));
            assert!(caught.is_err());
            drop(KEPT.take());
            // Whoever has a share of it is a thread that is not gone.
            assert_eq!(Arc::strong_count(&all), 1, "call {call}");
        }
    }
} }
