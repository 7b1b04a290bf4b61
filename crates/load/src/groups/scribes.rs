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
    /// So many deliveries of a message had not come when they were given up.
    fn loses(&mut self, _times: Times, _now_ns: u64, _count: u64) {}
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

    fn loses(&mut self, times: Times, now_ns: u64, count: u64) {
        self.enter();
        self.recorder
            .gives_up(times.intended_ns, Some(times.sent_ns), now_ns, count);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Ramp;
    use crate::latency::Latency;
    use crate::record::{Record, Watch};
    use crate::standstill::Used;

    const SECOND: Duration = Duration::from_secs(1);

    fn times(intended_ns: u64, sent_ns: u64) -> Times {
        Times { intended_ns, sent_ns }
    }

    fn heard(times: Times, by_all: bool) -> Heard {
        Heard {
            sender: 0,
            times,
            by_all,
        }
    }

    /// How many, their mean and the longest, in nanoseconds.
    fn of(latency: &Latency) -> (u64, f64, u64) {
        let (mean_ns, most_ns) = (latency.mean_ns(), latency.most_ns());
        (latency.count(), mean_ns.unwrap_or(0.0), most_ns.unwrap_or(0))
    }

    #[test]
    fn in_a_closed_loop_messages_are_counted_and_their_last_deliveries_timed() {
        let mut tally = Tally::default();
        let mut counting = Counting(&mut tally);
        counting.speaks(times(5, 8), 10, 2);
        counting.speaks(times(6, 8), 10, 2);
        counting.hears(heard(times(5, 8), false), 20);
        counting.hears(heard(times(5, 8), true), 35);
        assert!(counting.goes_on(40, 2));
        assert_eq!((tally.messages, of(&tally.last)), (2, (1, 30.0, 30)));
    }

    #[test]
    fn under_a_rate_deliveries_are_timed_from_the_schedule_and_from_when_their_message_was_sent() {
        let mut tally = Tally::default();
        let mut timing = Timing::new(&mut tally, 1_000, SECOND);
        assert_eq!(timing.pace(), None);
        // A hundredth of the span later is still on schedule.
        let on_schedule_until_ns = 1_000 + 1_010_000_000;
        let (soon, late) = (
            times(1_005, 1_008),
            times(on_schedule_until_ns - 500, on_schedule_until_ns),
        );
        let too_late = times(on_schedule_until_ns - 200, on_schedule_until_ns + 1);
        for times in [soon, late, too_late] {
            timing.speaks(times, 10, 2);
        }
        for (times, after_ns) in [(soon, 20), (late, 30), (too_late, 40)] {
            timing.hears(heard(times, false), times.sent_ns + after_ns);
        }
        timing.hears(heard(soon, true), soon.sent_ns + 50);
        // What was sent on schedule counts with all its deliveries, also with one that does not come.
        assert_eq!(timing.pace(), Some(4.0 / 6.0));
        assert_eq!(tally.messages, 3);
        assert_eq!(of(&tally.lateness), (3, (3 + 500 + 201) as f64 / 3.0, 500));
        assert_eq!(of(&tally.service), (4, (20 + 30 + 40 + 50) as f64 / 4.0, 50));
        assert_eq!(of(&tally.latency), (4, (23 + 530 + 241 + 53) as f64 / 4.0, 530));
        assert_eq!(of(&tally.last), (1, 53.0, 53));
    }

    /// A recorder with a clock of the test's, that begins at 0.
    fn kept(watch: &mut dyn Watch, tell: impl FnOnce(&mut Keeping<'_, '_>)) -> Record {
        let mut recorder = Recorder::new(0, Used::default(), Ramp::hold(SECOND), None, watch);
        recorder.record.last = Some(Latency::default());
        tell(&mut Keeping::new(&mut recorder, 2));
        recorder.end(1_000, 0)
    }

    #[test]
    fn what_never_comes_is_in_the_percentiles_with_the_time_until_it_was_given_up() {
        let mut watch = ();
        let said = times(100, 110);
        let record = kept(&mut watch, |keeping| {
            keeping.speaks(said, 10, 2);
            keeping.hears(heard(said, false), 400);
            keeping.loses(said, 900, 1);
        });
        assert_eq!((record.answered, record.unfinished), (1, 1));
        assert_eq!(of(&record.good), (1, 300.0, 300));
        assert_eq!(of(&record.response), (2, (300 + 800) as f64 / 2.0, 800));
    }

    #[test]
    fn a_record_has_what_went_out_and_came_and_how_much_was_on_its_way_meanwhile() {
        let mut watch = ();
        let (first, second) = (times(100, 110), times(40, 110));
        let record = kept(&mut watch, |keeping| {
            assert!(keeping.goes_on(90, 0));
            keeping.speaks(first, 10, 2);
            assert!(!keeping.recorder.record.bounded);
            keeping.speaks(second, 11, 2);
            assert!(keeping.goes_on(300, 4));
            keeping.hears(heard(first, false), 400);
            keeping.hears(heard(second, false), 400);
            keeping.hears(heard(second, true), 400);
            let alike = keeping.alike.map(|alike| (alike.times, alike.count));
            assert_eq!(alike, Some((second, 2)), "they are entered together");
            keeping.receives(64);
            assert!(keeping.goes_on(500, 1));
            keeping.speaks(times(600, 600), 12, 2);
            keeping.gives_up(450, 700, 2);
            keeping.hears(heard(first, true), 800);
            keeping.receives(0);
        });
        assert!(record.bounded && !record.interrupted);
        assert_eq!((record.sent, record.answered, record.unfinished), (3, 4, 2));
        assert_eq!((record.bytes_out, record.bytes_in), (33, 64));
        assert_eq!((record.held.intended, record.held.answered), (8, 4));
        assert_eq!(of(&record.lag), (3, 80.0 / 3.0, 70));
        assert_eq!(of(&record.service), (4, (3 * 290 + 690) as f64 / 4.0, 690));
        assert_eq!(of(&record.good), (4, (300 + 2 * 360 + 700) as f64 / 4.0, 700));
        assert_eq!(
            record.last.as_ref().map(of),
            Some((2, (360 + 700) as f64 / 2.0, 700))
        );
        // Four from 110 to 400, then one, three from 600 to 800, and two that never come.
        let sum_ns = 4 * 290 + 200 + 3 * 200 + 2 * 200;
        assert_eq!(record.in_flight, sum_ns as f64 / 1_000.0);
        assert_eq!(record.in_flight_by_law, (3 * 290 + 690) as f64 / 1_000.0);
    }

    #[test]
    fn who_looks_on_ends_it() {
        struct Ends;
        impl Watch for Ends {
            fn goes_on(&mut self) -> bool {
                false
            }
        }
        let record = kept(&mut Ends, |keeping| assert!(!keeping.goes_on(10, 0)));
        assert!(record.interrupted && !record.bounded);
    }
}
