//! What threads made up front promise beyond the common part.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use threadgauge_exec::{Ended, StopToken};

use crate::at_most;

#[test]
fn objects_are_released_in_their_order() {
    let next = AtomicUsize::new(0);
    let _ = at_most(1)
        .up_front()
        .for_each(0..50, |i| assert_eq!(next.fetch_add(1, SeqCst), *i), |_| ());
    assert_eq!(next.load(SeqCst), 50);
}

#[test]
fn threads_that_are_not_released_end_with_the_call() {
    let token = StopToken::new();
    let report = at_most(1).stop(&token).up_front().for_each(
        0..60,
        |i| {
            if *i == 3 {
                token.stop();
            }
        },
        |_| (),
    );
    assert_eq!((report.ended, report.finished), (Ended::Stopped, 4));
    assert!(report.rest.eq(4..60));
    let report = at_most(1)
        .deadline(Duration::ZERO)
        .up_front()
        .for_each(0..60, |_| (), |_| ());
    assert_eq!((report.ended, report.rest.count()), (Ended::Deadline, 60));
}

/// A length that is too small or too large costs threads, never objects.
#[test]
fn an_iterator_that_lies_about_its_length_loses_nothing() {
    struct Lying(std::ops::Range<usize>, usize);
    impl Iterator for Lying {
        type Item = usize;
        fn next(&mut self) -> Option<usize> {
            self.0.next()
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (self.1, Some(self.1))
        }
    }
    impl ExactSizeIterator for Lying {}
    for said in [0, 3, 30] {
        let report = at_most(2).up_front().for_each(Lying(0..10, said), |_| (), |_| ());
        assert_eq!(report.finished, 10, "said {said}");
    }
}
