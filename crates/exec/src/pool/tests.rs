//! The pool by hand, for the tests of both sides: three slots, whose workers have no thread as long as none is made.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use super::worker::{NO_OBJECT, WorkerSlot};
use super::*;
use crate::ConcurrentExecution;
use crate::notify::Notify;
use crate::ring::Ring;
use crate::settings::Mode;
use crate::work::ForAll;

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);

pub(super) type Numbers = Range<usize>;
pub(super) type Processor = fn(&mut usize);
pub(super) type TestPool<'c> = Pool<'c, Numbers, ForAll<Processor>>;

pub(super) fn take_a_millisecond(_: &mut usize) {
    let begun = Instant::now();
    while begun.elapsed() < MILLISECOND {
        std::hint::spin_loop();
    }
}

/// A call of eight objects, with three workers.
pub(super) struct Call {
    pub(super) execution: ConcurrentExecution,
    pub(super) processor: Processor,
}

impl Call {
    pub(super) fn of(degree: usize, mode: Mode) -> Self {
        Self {
            execution: ConcurrentExecution::new(NonZeroUsize::new(degree).unwrap()).mode(mode),
            processor: |_| (),
        }
    }

    pub(super) fn taking_a_millisecond(self) -> Self {
        Self {
            processor: take_a_millisecond,
            ..self
        }
    }

    /// It began an hour ago, so that a difference of two times is never a sum.
    pub(super) fn in_pool(self, look: impl FnOnce(&Settings, &TestPool<'_>)) {
        let settings = self.execution.settings_of_a_call();
        let epoch = Instant::now().checked_sub(Duration::from_secs(3_600)).unwrap();
        let work = ForAll(self.processor);
        let slots = [(); 3].map(|()| {
            Arc::new(WorkerSlot {
                ring: Ring::new(8),
                worker: Notify::new(),
                recalled: Flag::default(),
                current: AtomicUsize::new(NO_OBJECT),
            })
        });
        let pool = Pool {
            shared: Shared::new(0..8, &work, &settings, epoch),
            mode: settings.mode,
            slots: Mutex::new(slots.to_vec()),
            narrowed: AtomicBool::new(false),
            abandoned: Flag::default(),
        };
        look(&settings, &pool);
    }
}

/// The workers that have been recalled, by number.
pub(super) fn recalled(pool: &TestPool<'_>) -> Vec<usize> {
    let slots = pool.slots.lock().unwrap();
    (0..slots.len())
        .filter(|number| slots[*number].recalled.take())
        .collect()
}

#[test]
fn another_degree_recalls_as_many_as_have_a_permit_now() {
    for (allowed, degree, left) in [
        (usize::MAX, 1, &[0, 1, 2][..]),
        (usize::MAX, 2, &[0, 1, 2]),
        (usize::MAX, 4, &[0]),
        (usize::MAX, 9, &[]),
        // Whose turn it is is not known: any of them may have to stay.
        (1, 2, &[]),
    ] {
        Call::of(2, Mode::Prompt).in_pool(|_, pool| {
            pool.shared.source().parked = vec![0, 1, 2];
            pool.shared.source().allowed = allowed;
            pool.set_degree(degree);
            assert_eq!(pool.shared.source().parked, left);
            assert_eq!(pool.shared.source().degree, degree);
            let gone: Vec<_> = (0..3).filter(|number| !left.contains(number)).collect();
            assert_eq!(recalled(pool), gone);
        });
    }
}
