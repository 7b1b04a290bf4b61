//! Objects and results that are large lie on the heap while they are on their way.
//!
//! On its way from the iterator to the finisher an object passes through a dozen hands, and each takes it by value: a
//! copy on a stack, several of them at once on a worker's, which has 2 MiB. That is the cheapest way for what is
//! small. What is large is put into a box as it comes from the iterator, or from its processor, and taken out for the
//! finisher. Whether it is known at compile time, so who has small objects pays nothing.

use std::ops::ControlFlow;

use crate::outcome::{Done, Report, Rest};
use crate::ring::FEW_RESULTS;
use crate::work::{Raw, Work};

/// Where a few copies begin to cost more than a box does, and twenty are still far from filling a stack.
const LARGE: usize = 16 << 10;

/// Whether an object and its result are large together.
pub(crate) const fn is_large<O, R>() -> bool {
    size_of::<Raw<O, R>>() > LARGE
}

/// The objects of an iterator, each in a box.
pub(crate) struct Boxing<I>(pub(crate) I);

impl<I: Iterator> Iterator for Boxing<I> {
    type Item = Box<I::Item>;

    // Out of line, so that the copy made here is not in the frame of whoever goes on from here.
    #[inline(never)]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Box::new)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

/// Work on objects in boxes, whose results are in boxes.
pub(crate) struct Boxed<'w, W>(pub(crate) &'w W);

impl<O, W: Work<O>> Work<Box<O>> for Boxed<'_, W> {
    type Output = Box<W::Output>;
    const WAITING: usize = FEW_RESULTS;

    #[inline(never)]
    fn run(&self, object: &mut Box<O>) -> Box<W::Output> {
        Box::new(self.0.run(object))
    }

    fn halts(&self, output: &Box<W::Output>) -> bool {
        self.0.halts(output)
    }
}

/// A finisher of what is in boxes.
#[inline(never)]
pub(crate) fn finish<O, R, B>(
    finisher: &mut impl FnMut(Done<O, R>) -> ControlFlow<B>,
    done: Done<Box<O>, Box<R>>,
) -> ControlFlow<B> {
    finisher(unboxed(done))
}

#[inline]
fn unboxed<O, R>(done: Done<Box<O>, Box<R>>) -> Done<O, R> {
    Done {
        object: *done.object,
        result: *done.result,
        index: done.index,
        order: done.order,
        times: done.times,
    }
}

/// What became of a call, without the boxes.
pub(crate) fn report<I: Iterator, R, B>(boxed: Report<Boxing<I>, Box<R>, B>) -> Report<I, R, B> {
    Report {
        ended: boxed.ended,
        finished: boxed.finished,
        rest: boxed.rest.unboxed(),
        unfinished: boxed.unfinished.into_iter().map(unboxed).collect(),
        most_running: boxed.most_running,
        last_degree: boxed.last_degree,
        elapsed: boxed.elapsed,
        shortage: boxed.shortage,
    }
}

impl<I: Iterator> Rest<Boxing<I>> {
    fn unboxed(self) -> Rest<I> {
        let (taken, iterator) = self.into_parts();
        let taken = taken.map(|(index, object)| (index, *object)).collect();
        Rest::new(taken, iterator.map(|boxing| boxing.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_more_than_16_kib_with_its_result() {
        const { assert!(!is_large::<[u8; 8 << 10], [u8; 7 << 10]>()) };
        const { assert!(is_large::<[u8; 8 << 10], [u8; 8 << 10]>()) };
        const { assert!(is_large::<[u8; 17 << 10], ()>()) };
    }

    #[test]
    fn in_boxes_there_are_as_many() {
        let (three, endless) = (Boxing(0..3), Boxing(0_u64..));
        assert_eq!(three.size_hint(), (3, Some(3)));
        assert_eq!(endless.size_hint(), (0_u64..).size_hint());
        assert_eq!(three.map(|object| *object).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
