//! Who writes down what groups say and hear: counts alone, times, or all of a record.

use std::time::Duration;

use crate::delivery_checker::{Heard, Times};
use crate::groups::Tally;
use crate::record::{Recorder, on_schedule_until};

/// Who writes down what is said and heard.
pub(super) trait Scribe {
    /// A message went out.
    fn speaks(&mut self, times: Times, bytes: usize, copies: u64);
    /// A delivery came, by a read that returned then.
    fn hears(&mut self, heard: Heard, at_ns: u64);
    /// So many bytes came, and no more deliveries in this turn.
    fn receives(&mut self, _bytes: u64) {}
    /// A message that was due then will not be sent.
    fn gives_up(&mut self, _intended_ns: u64, _now_ns: u64, _copies: u64) {}
    /// The loop waited since then, at most for the limit that it asked for, until now.
    fn waited(&mut self, _since_ns: u64, _now_ns: u64, _limit: Duration) {}
    /// Whether to go on, with so many deliveries on their way.
    fn goes_on(&mut self, _now_ns: u64, _on_the_way: u64) -> bool {
        true
    }
}

/// Of a closed loop: of a message only its last delivery is timed.
pub(super) struct Counting<'a>(pub &'a mut Tally);

impl Scribe for Counting<'_> {
    fn speaks(&mut self, _: Times, _: usize, _: u64) {
        self.0.messages += 1;
    }

    fn hears(&mut self, heard: Heard, at_ns: u64) {
        if heard.by_all {
            self.0.last.record(at_ns.saturating_sub(heard.times.intended_ns));
        }
    }
}

/// Counts and times.
pub(super) struct Timing<'a> {
    tally: &'a mut Tally,
    on_schedule_until_ns: u64,
    /// Deliveries that were to come, and those of messages that were sent on schedule.
    intended: u64,
    on_schedule: u64,
}

impl<'a> Timing<'a> {
    /// Of a load that holds from then on for so long.
    pub(super) fn new(tally: &'a mut Tally, start_ns: u64, span: Duration) -> Self {
        Self {
            tally,
            on_schedule_until_ns: on_schedule_until(start_ns + span.as_nanos() as u64, span),
            intended: 0,
            on_schedule: 0,
        }
    }

    /// The share of what was to come; `None` where nothing was.
    pub(super) fn pace(&self) -> Option<f64> {
        (self.intended > 0).then(|| self.on_schedule as f64 / self.intended as f64)
    }
}

impl Scribe for Timing<'_> {
    fn speaks(&mut self, times: Times, _: usize, copies: u64) {
        self.tally.messages += 1;
        self.tally.lateness.record(times.sent_ns - times.intended_ns);
        self.intended += copies;
        if times.sent_ns <= self.on_schedule_until_ns {
            self.on_schedule += copies;
        }
    }

    fn hears(&mut self, heard: Heard, at_ns: u64) {
        let took_ns = at_ns.saturating_sub(heard.times.intended_ns);
        self.tally.latency.record(took_ns);
        self.tally
            .service
            .record(at_ns.saturating_sub(heard.times.sent_ns));
        if heard.by_all {
            self.tally.last.record(took_ns);
        }
    }
}

/// Deliveries of messages that were sent together and came together: they took the same time.
#[derive(Clone, Copy)]
struct Alike {
    times: Times,
    at_ns: u64,
    count: u64,
}

/// Keeps all of it.
pub(super) struct Keeping<'r, 'w> {
    recorder: &'r mut Recorder<'w>,
    most: u64,
    /// Not entered yet: of many that are alike a histogram is looked at once.
    alike: Option<Alike>,
    /// Whether this turn of the loop has spoken, and heard: the first of each says how many were on their way before.
    spoke: bool,
    heard: bool,
}

impl<'r, 'w> Keeping<'r, 'w> {
    /// No more than so many messages are sent.
    pub(super) fn new(recorder: &'r mut Recorder<'w>, most: u64) -> Self {
        Self {
            recorder,
            most,
            alike: None,
            spoke: false,
            heard: false,
        }
    }

    /// What comes from now on is in no figure of time.
    pub(super) fn ends(&mut self) {
        self.recorder.ends();
    }

    fn enter(&mut self) {
        if let Some(Alike { times, at_ns, count }) = self.alike.take() {
            self.recorder
                .answers(times.intended_ns, times.sent_ns, at_ns, count);
        }
    }
}

impl Scribe for Keeping<'_, '_> {
    fn speaks(&mut self, times: Times, bytes: usize, copies: u64) {
        if !std::mem::replace(&mut self.spoke, true) {
            self.recorder.advance(times.sent_ns);
        }
        self.recorder.lags(times.intended_ns, times.sent_ns);
        self.recorder
            .sends([times.intended_ns, times.sent_ns], bytes, copies);
        self.recorder.record.bounded = self.recorder.record.sent >= self.most;
    }

    fn hears(&mut self, heard: Heard, at_ns: u64) {
        if !std::mem::replace(&mut self.heard, true) {
            self.recorder.advance(at_ns);
        }
        let times = heard.times;
        match &mut self.alike {
            Some(alike) if (alike.times, alike.at_ns) == (times, at_ns) => alike.count += 1,
            _ => {
                self.enter();
                let count = 1;
                self.alike = Some(Alike { times, at_ns, count });
            }
        }
        if let Some(last) = self.recorder.record.last.as_mut().filter(|_| heard.by_all) {
            last.record(at_ns.saturating_sub(times.intended_ns));
        }
    }

    fn receives(&mut self, bytes: u64) {
        self.enter();
        self.recorder.receives(bytes);
    }

    fn gives_up(&mut self, intended_ns: u64, now_ns: u64, copies: u64) {
        self.recorder.gives_up(intended_ns, None, now_ns, copies);
    }

    fn waited(&mut self, since_ns: u64, now_ns: u64, limit: Duration) {
        self.recorder.waited(since_ns, now_ns, limit);
    }

    fn goes_on(&mut self, now_ns: u64, on_the_way: u64) -> bool {
        self.recorder.turns(now_ns);
        (self.spoke, self.heard) = (false, false);
        // Those that were given up are not on their way any more.
        self.recorder.in_flight = on_the_way;
        let goes_on = self.recorder.goes_on();
        self.recorder.record.interrupted = !goes_on;
        goes_on
    }
}
