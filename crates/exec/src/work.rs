//! What is done with an object, and what becomes of it on its way to the caller.

use crate::ring::ring_capacity;

/// How an object is processed. One for all, or its own, with errors or without: all look the same from here.
pub(crate) trait Work<O>: Sync {
    type Output: Send;
    /// So many results, with their objects, may wait at a carrier for the finisher.
    const WAITING: usize = ring_capacity::<Raw<O, Self::Output>>();
    fn run(&self, object: &mut O) -> Self::Output;
    /// Whether this output ends the call.
    fn halts(&self, output: &Self::Output) -> bool;
}

/// One processor for all.
pub(crate) struct ForAll<P>(pub(crate) P);

impl<O, R: Send, P: Fn(&mut O) -> R + Sync> Work<O> for ForAll<P> {
    type Output = R;
    #[inline]
    fn run(&self, object: &mut O) -> R {
        (self.0)(object)
    }
    #[inline]
    fn halts(&self, _: &R) -> bool {
        false
    }
}

/// An object on its way from its carrier to the caller.
pub(crate) struct Raw<O, R> {
    pub(crate) index: usize,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) object: O,
    pub(crate) result: R,
}
