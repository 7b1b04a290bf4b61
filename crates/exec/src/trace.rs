//! What `tracing` gets to know of a call, with the feature of that name; without it all of this is nothing.
//!
//! A span `call` for each call, entered on the caller's thread and on every thread that runs a processor, and in it an
//! event `finished` for each object, on the caller's thread. Helper processes know nothing of it.

#[cfg(feature = "tracing")]
pub(crate) use on::{Traced, finished, overrun};

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{Traced, finished, overrun};

#[cfg(feature = "tracing")]
mod on {
    use tracing::Span;
    use tracing::span::EnteredSpan;

    use crate::degree::Degree;
    use crate::outcome::Times;
    use crate::work::Work;

    /// Processors within the span of their call.
    pub(crate) struct Traced<'w, W> {
        work: &'w W,
        span: Span,
    }

    impl<'w, W> Traced<'w, W> {
        pub(crate) fn new(work: &'w W, degree: Degree) -> Self {
            let degree = tracing::field::debug(degree);
            let span = tracing::debug_span!(target: "threadgauge_exec", "call", degree);
            Self { work, span }
        }

        /// The caller is in the span until this is dropped.
        pub(crate) fn enter(&self) -> EnteredSpan {
            self.span.clone().entered()
        }
    }

    impl<O, W: Work<O>> Work<O> for Traced<'_, W> {
        type Output = W::Output;
        const WAITING: usize = W::WAITING;
        fn run(&self, object: &mut O) -> Self::Output {
            self.span.in_scope(|| self.work.run(object))
        }
        fn halts(&self, output: &Self::Output) -> bool {
            self.work.halts(output)
        }
    }

    pub(crate) fn finished(index: usize, order: usize, times: &Times) {
        tracing::trace!(
            target: "threadgauge_exec",
            index,
            order,
            queue_wait_us = times.queue_wait().as_micros() as u64,
            service_us = times.service().as_micros() as u64,
            "finished"
        );
    }

    pub(crate) fn overrun(index: usize) {
        tracing::warn!(target: "threadgauge_exec", index, "still running after the deadline");
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use crate::degree::Degree;
    use crate::outcome::Times;
    use crate::work::Work;

    pub(crate) struct Traced<'w, W>(&'w W);

    pub(crate) struct Within;

    impl<'w, W> Traced<'w, W> {
        pub(crate) fn new(work: &'w W, _: Degree) -> Self {
            Self(work)
        }

        #[allow(clippy::unused_self)]
        pub(crate) fn enter(&self) -> Within {
            Within
        }
    }

    impl<O, W: Work<O>> Work<O> for Traced<'_, W> {
        type Output = W::Output;
        const WAITING: usize = W::WAITING;
        #[inline]
        fn run(&self, object: &mut O) -> Self::Output {
            self.0.run(object)
        }
        #[inline]
        fn halts(&self, output: &Self::Output) -> bool {
            self.0.halts(output)
        }
    }

    #[inline]
    pub(crate) fn finished(_: usize, _: usize, _: &Times) {}

    pub(crate) fn overrun(_: usize) {}
}
