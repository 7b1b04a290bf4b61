//! Where results come in: the finisher is called, in completion order or in the order of the objects.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Instant;

use crate::outcome::{Done, Times};
use crate::progress::Reporter;
use crate::trace;
use crate::work::Raw;

pub(crate) struct ResultSink<O, R, F, B> {
    finisher: F,
    epoch: Instant,
    /// Objects finished so far.
    pub(crate) finished: usize,
    /// In the order of the objects: the results that wait for an earlier one; the first belongs to `next`.
    waiting: Option<VecDeque<Option<Raw<O, R>>>>,
    pub(crate) next: usize,
    pub(crate) broken: Option<B>,
    pub(crate) unfinished: Vec<Done<O, R>>,
    reporter: Option<Reporter>,
}

impl<O, R, F, B> ResultSink<O, R, F, B>
where
    F: FnMut(Done<O, R>) -> ControlFlow<B>,
{
    pub(crate) fn new(finisher: F, epoch: Instant, in_order: bool, reporter: Option<Reporter>) -> Self {
        Self {
            finisher,
            epoch,
            finished: 0,
            waiting: in_order.then(VecDeque::new),
            next: 0,
            broken: None,
            unfinished: Vec::new(),
            reporter,
        }
    }

    /// Whether results wait for their turn.
    pub(crate) fn in_order(&self) -> bool {
        self.waiting.is_some()
    }

    /// Takes a result; calls the finisher for it, or for all whose turn has come with it.
    #[inline]
    pub(crate) fn deliver(&mut self, raw: Raw<O, R>) {
        if self.waiting.is_none() {
            self.finish(raw);
        } else {
            self.sort_in(raw);
        }
    }

    fn sort_in(&mut self, raw: Raw<O, R>) {
        let Some(waiting) = &mut self.waiting else { return };
        let place = raw.index - self.next;
        while waiting.len() <= place {
            waiting.push_back(None);
        }
        waiting[place] = Some(raw);
        while let Some(raw) = self
            .waiting
            .as_mut()
            .and_then(|w| w.pop_front_if(|first| first.is_some()))
            .flatten()
        {
            self.next += 1;
            self.finish(raw);
        }
    }

    /// The end: what still waits for an object that will not come goes out in order, and the
    /// listener hears of it.
    pub(crate) fn flush(&mut self) {
        for raw in self.waiting.take().into_iter().flatten().flatten() {
            self.finish(raw);
        }
        if let Some(reporter) = &self.reporter {
            reporter.tell(self.finished);
        }
    }

    fn finish(&mut self, raw: Raw<O, R>) {
        let done = Done {
            object: raw.object,
            result: raw.result,
            index: raw.index,
            order: self.finished,
            times: Times {
                epoch: self.epoch,
                started_ns: raw.started_ns,
                ended_ns: raw.ended_ns,
            },
        };
        if self.broken.is_some() {
            self.unfinished.push(done);
            return;
        }
        trace::finished(done.index, done.order, &done.times);
        self.finished += 1;
        let ended_ns = done.times.ended_ns;
        if let ControlFlow::Break(with) = (self.finisher)(done) {
            self.broken = Some(with);
        }
        if let Some(reporter) = &mut self.reporter {
            reporter.finished(self.finished, ended_ns);
        }
    }
}
