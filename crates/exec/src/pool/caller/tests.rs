//! The caller by hand: each step by itself, with slots of workers that have no thread.
//!
//! Times are real and only ever waited for; the call began an hour ago, so that a difference of two is never a sum.

mod turns;

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use super::*;
use crate::pool::tests::{Call, MILLISECOND, Numbers, Processor, TestPool, recalled, take_a_millisecond};
use crate::shared::tests::pulled_by_another;
use crate::work::ForAll;

type Finisher<'f> = &'f mut dyn FnMut(Done<usize, ()>) -> ControlFlow<()>;
type TestCaller<'p, 'c, 'd, 'f> = Caller<'p, 'c, 'd, Numbers, ForAll<Processor>, Finisher<'f>, ()>;

impl Call {
    fn run(self, look: impl FnOnce(&mut TestCaller<'_, '_, '_, '_>, &TestPool<'_>)) {
        self.finished_by(&mut |_| ControlFlow::Continue(()), look);
    }

    fn finished_by(
        self,
        finisher: Finisher<'_>,
        look: impl FnOnce(&mut TestCaller<'_, '_, '_, '_>, &TestPool<'_>),
    ) {
        self.in_pool(|settings, pool| {
            let in_order = settings.look_ahead.is_some();
            let mut sink = ResultSink::new(finisher, pool.shared.epoch, in_order, None);
            let governor = Governor::new(settings.degree, true);
            let mut caller = Caller::new(pool, settings, governor, &mut sink);
            caller.slots = pool.slots.lock().unwrap().clone();
            look(&mut caller, pool);
        });
    }
}

fn raw(index: usize, started_ns: u64, ended_ns: u64) -> Raw<usize, ()> {
    Raw {
        index,
        started_ns,
        ended_ns,
        object: index,
        result: (),
    }
}

/// As if a worker had left this result.
fn leave(caller: &TestCaller<'_, '_, '_, '_>, raw: Raw<usize, ()>) {
    // SAFETY: the slots have no workers.
    #[allow(unsafe_code)]
    let pushed = unsafe { caller.slots[1].ring.push(raw, 8) };
    assert!(pushed.is_ok());
}

#[test]
fn while_the_caller_works_or_listens_workers_leave_it_a_cpu() {
    let cpus = cpus();
    for degree in [1, 2, 9] {
        let on_cpus = degree.min(cpus);
        for (mode, working, solo_until_ns, listening, workers) in [
            (Mode::Prompt, true, 1, false, 0),
            (Mode::Prompt, true, 0, false, on_cpus - 1),
            (Mode::Prompt, false, 1, false, degree),
            (Mode::Prompt, false, 0, true, on_cpus.max(2) - 1),
            (Mode::Prompt, false, 0, false, degree),
            (Mode::Throughput, true, 1, false, degree - 1),
            (Mode::FreeCaller, false, 0, false, degree),
        ] {
            Call::of(degree, mode).run(|caller, _| {
                caller.policy.working = working;
                caller.solo_until_ns = solo_until_ns;
                caller.listening = listening.then(Instant::now);
                let case = format!("{mode:?} {working} {solo_until_ns} {listening}");
                assert_eq!(caller.workers(), workers, "{case}");
            });
        }
    }
}

#[test]
fn a_caller_that_works_no_longer_listens_and_its_time_alone_ends() {
    Call::of(3, Mode::Prompt).run(|caller, _| {
        for (until_ns, then_ns) in [(0, 0), (1, 0), (u64::MAX, u64::MAX)] {
            (caller.policy.working, caller.solo_until_ns) = (true, until_ns);
            caller.listening = Some(Instant::now());
            caller.tell();
            assert_eq!((caller.listening, caller.solo_until_ns), (None, then_ns));
        }
        // While it does not work, that time is nothing to it.
        (caller.policy.working, caller.solo_until_ns) = (false, 1);
        caller.tell();
        assert_eq!(caller.solo_until_ns, 1);
    });
}

#[test]
fn a_caller_that_stops_working_leaves_its_permit_and_its_objects() {
    for (mode, listens) in [(Mode::Prompt, true), (Mode::FreeCaller, false)] {
        for working in [false, true] {
            Call::of(3, mode).run(|caller, pool| {
                {
                    let mut source = pool.shared.source();
                    (source.running, source.ahead) = (1, 5);
                    source.parked = vec![2];
                }
                (caller.policy.working, caller.listening) = (working, None);
                (caller.held, caller.carried, caller.helped) = (true, true, true);
                caller.told = caller.workers();
                caller.tell();
                assert_eq!((caller.held, caller.helped), (working, working));
                assert_eq!(caller.listening.is_some(), !working && listens);
                let source = pool.shared.source();
                let left = if working { (1, 5) } else { (0, 0) };
                assert_eq!((source.running, source.ahead), left);
                drop(source);
                let next = if working { &[][..] } else { &[2] };
                assert_eq!(recalled(pool), next);
            });
        }
    }
}

#[test]
fn a_caller_that_stops_after_it_worked_alone_leaves_nobody_asleep() {
    for (degree, queued, parked, woken) in [
        (1, vec![], vec![0], &[0][..]),
        (1, vec![2], vec![0], &[2]),
        (2, vec![2], vec![0], &[0, 2]),
        (9, vec![], vec![0, 1, 2], &[0, 1, 2]),
    ] {
        Call::of(degree, Mode::Prompt)
            .taking_a_millisecond()
            .run(|caller, pool| {
                caller.policy.working = true;
                caller.tell();
                // Workers have widened, and found the permit or the iterator taken.
                pool.narrowed.store(false, Ordering::Relaxed);
                pool.shared.source().allowed = usize::MAX;
                assert!(caller.work_alone() && !caller.policy.working);
                {
                    let mut source = pool.shared.source();
                    (source.queued, source.parked) = (queued, parked);
                }
                caller.tell();
                assert_eq!(recalled(pool), woken, "of {degree}");
            });
    }
}

#[test]
fn workers_are_told_when_their_number_changes() {
    Call::of(3, Mode::Throughput).run(|caller, pool| {
        let park = || pool.shared.source().parked = vec![0, 2];
        let allowed = |instead| mem::replace(&mut pool.shared.source().allowed, instead);
        let is_narrowed = || pool.narrowed.load(Ordering::Relaxed);
        park();
        // Less than before.
        caller.tell();
        assert_eq!((caller.told, allowed(77), is_narrowed()), (2, 2, true));
        assert_eq!(recalled(pool), []);
        caller.tell();
        assert_eq!(allowed(77), 77, "they know");
        // A worker has widened: they are told again once there are enough short ones.
        for (streak, narrowed, then) in [(STREAK - 1, false, 77), (STREAK, true, 77), (STREAK, false, 2)] {
            caller.policy.streak = streak;
            pool.narrowed.store(narrowed, Ordering::Relaxed);
            caller.tell();
            assert_eq!(
                (allowed(77), recalled(pool)),
                (then, vec![]),
                "{streak} {narrowed}"
            );
        }
        // More than before, but not all.
        caller.told = 1;
        caller.tell();
        assert_eq!((caller.told, allowed(77), recalled(pool)), (2, 2, vec![0, 2]));
        // All.
        park();
        caller.policy.working = false;
        caller.tell();
        assert_eq!((caller.told, allowed(77), is_narrowed()), (3, usize::MAX, false));
        assert_eq!(recalled(pool), [0, 2]);
        caller.told = 1;
        caller.tell();
        assert_eq!(
            (caller.told, allowed(77)),
            (3, 77),
            "nobody was told to stand down"
        );
    });
}

#[test]
fn a_caller_that_is_the_only_carrier_works_until_it_no_longer_is() {
    Call::of(3, Mode::Prompt).run(|caller, _| {
        caller.stand_in(true);
        assert_eq!(
            (caller.policy.working, caller.policy.mode),
            (true, Mode::Throughput)
        );
        caller.policy.streak = 3;
        caller.stand_in(true);
        assert_eq!(caller.policy.streak, 3, "it is already");
        caller.stand_in(false);
        assert_eq!((caller.policy.working, caller.policy.mode), (false, Mode::Prompt));
    });
}

#[test]
fn a_caller_that_is_brought_nothing_works_alone_for_longer_each_time() {
    Call::of(3, Mode::Prompt).run(|caller, _| {
        caller.starve();
        assert!(caller.starving_ns.is_some(), "for the first time");
        assert_eq!(caller.solo_until_ns, 0);
        for solo_ns in [1, 2, 4, 8, 16, 32, 64, 64].map(|ms| ms * 1_000_000) {
            let before_ns = caller.clock.now_ns();
            // Half an hour ago.
            (caller.starving_ns, caller.fed) = (Some(before_ns / 2), 9);
            caller.starve();
            let ends_ns = before_ns + solo_ns..=caller.clock.now_ns() + solo_ns;
            assert!(ends_ns.contains(&caller.solo_until_ns));
            assert_eq!((caller.starving_ns, caller.fed), (None, 0));
        }
    });
}

#[test]
fn a_puller_that_is_held_up_is_relieved_and_else_looked_for_less_often() {
    Call::of(3, Mode::Prompt).run(|caller, pool| {
        for ms in [20, 40, 80, 100, 100] {
            caller.look_after_the_puller();
            assert_eq!(caller.stall, ms * MILLISECOND);
        }
        pulled_by_another(&pool.shared, 0..1);
        pool.shared.source().running = 1;
        caller.look_after_the_puller();
        assert_eq!(caller.relief, 0);
        caller.look_after_the_puller();
        assert_eq!(caller.relief, 1, "one more worker");
    });
    Call::of(3, Mode::Prompt).run(|caller, pool| {
        pulled_by_another(&pool.shared, 0..1);
        pool.shared.source().running = 1;
        pool.shared.source().parked = vec![1];
        caller.look_after_the_puller();
        caller.look_after_the_puller();
        assert_eq!((caller.relief, recalled(pool)), (0, vec![1]));
    });
}

#[test]
fn what_workers_have_left_is_finished_and_seen_by_the_policy() {
    let at_ns = 1_000_000_000;
    for (took_ns, streak) in [(10_000, 1), (1_000_000, 0)] {
        let mut order = Vec::new();
        let mut finisher = |done: Done<usize, ()>| {
            order.push(done.index);
            ControlFlow::Continue(())
        };
        Call::of(3, Mode::Prompt).finished_by(&mut finisher, |caller, pool| {
            pool.shared.source().degree = 99;
            assert_eq!(caller.drain(), 0);
            leave(caller, raw(4, at_ns, at_ns + took_ns));
            assert_eq!((caller.drain(), caller.policy.streak), (1, streak));
            for i in [0, 2] {
                leave(caller, raw(i, at_ns, at_ns + took_ns));
            }
            assert_eq!(caller.drain(), 2);
            assert_eq!(pool.shared.source().degree, 99, "a fixed degree is not set again");
        });
        assert_eq!(order, [4, 0, 2]);
    }
}

#[test]
fn what_is_finished_makes_room_for_objects_further_on() {
    let mut call = Call::of(3, Mode::Prompt);
    call.execution = call.execution.in_order(NonZeroUsize::new(5).unwrap());
    call.run(|caller, pool| {
        pool.shared.source().horizon = 1;
        pool.shared.source().parked = vec![2];
        caller.drain();
        assert_eq!(pool.shared.source().horizon, 1, "nothing is");
        leave(caller, raw(0, 0, 1));
        caller.drain();
        assert_eq!(pool.shared.source().horizon, 6);
        assert_eq!(recalled(pool), [2]);
    });
}

#[test]
fn a_finisher_that_breaks_off_ends_the_call() {
    let mut breaks = |_: Done<usize, ()>| ControlFlow::Break(());
    Call::of(3, Mode::Prompt).finished_by(&mut breaks, |caller, pool| {
        leave(caller, raw(0, 0, 1));
        caller.drain();
        assert_eq!(pool.shared.source().halt, Some(HaltReason::Broken));
        assert!(pool.shared.token.is_stopped());
    });
}

#[test]
fn only_many_very_short_objects_are_worth_a_time_alone() {
    for (count, took_ns, alone) in [
        (63, 0, false),
        (64, 64 * 30, false),
        (64, 64 * 30 - 1, true),
        (100, 100 * 30 - 1, true),
    ] {
        Call::of(3, Mode::Prompt).run(|caller, _| {
            let before_ns = caller.clock.now_ns();
            caller.go_alone_if_brief(count, took_ns);
            let until_ns = before_ns + 1_000_000..=caller.clock.now_ns() + 1_000_000;
            assert_eq!(until_ns.contains(&caller.solo_until_ns), alone);
            assert_eq!(caller.solo_until_ns > 0, alone, "{count} in {took_ns}");
        });
    }
}

#[test]
fn as_the_only_carrier_the_caller_looks_for_other_news_now_and_then() {
    Call::of(3, Mode::Throughput)
        .taking_a_millisecond()
        .run(|caller, pool| {
            const BEFORE: usize = 1 << 40;
            caller.policy.working = false;
            caller.starts = Starts::new();
            (0..300).for_each(|_| _ = caller.starts.next_is_read(false));
            assert!(caller.work_alone());
            assert_eq!(caller.sink.finished, 0, "it does not work");
            caller.policy.working = true;
            caller.sink.finished = BEFORE;
            assert!(caller.work_alone());
            assert_eq!(caller.sink.finished, BEFORE + 1, "that was long enough");
            assert_eq!(caller.solo_until_ns, 0, "one alone is not many");
            assert!(caller.starts.next_is_read(false), "nor brief");
            pool.shared.source().running = 1;
            assert!(!caller.work_alone());
            assert_eq!(caller.sink.finished, BEFORE + 1, "others are at work");
        });
    // On a busy machine one may take long.
    let runs_several = |_| {
        let mut several = false;
        Call::of(3, Mode::Prompt).run(|caller, _| {
            caller.policy.working = true;
            several = caller.work_alone() && caller.sink.finished > 1;
        });
        several
    };
    assert!((0..1_000).any(runs_several));
}

#[test]
fn an_objects_own_time_counts_for_the_policy() {
    Call::of(3, Mode::Prompt).taking_a_millisecond().run(|caller, _| {
        caller.policy.streak = 3;
        let started_ns = caller.clock.now_ns();
        assert!(caller.run(0, 0, started_ns, TestCaller::deliver) > started_ns);
        assert_eq!((caller.policy.streak, caller.sink.finished), (0, 1));
    });
    Call::of(3, Mode::Prompt).run(|caller, pool| {
        pool.shared.source().degree = 99;
        // On a busy machine one may take long.
        assert!((0..1_000).any(|i| {
            let started_ns = caller.clock.now_ns();
            caller.run(i, i, started_ns, TestCaller::deliver);
            caller.policy.streak > 0
        }));
        assert_eq!(pool.shared.source().degree, 99, "a fixed degree is not set again");
    });
}

thread_local! {
    /// What became of the objects on this thread: run, or finished.
    static EVENTS: RefCell<Vec<(&'static str, usize)>> = const { RefCell::new(Vec::new()) };
}

fn note(what: &'static str, object: usize) {
    EVENTS.with_borrow_mut(|events| events.push((what, object)));
}

/// What happens when the caller works on three objects, in batches of so long, and how many it claims at once then.
fn events(processor: Processor, batch_ns: u64) -> (Vec<(&'static str, usize)>, usize) {
    let mut then = 0;
    let mut finisher = |done: Done<usize, ()>| {
        note("finished", done.index);
        ControlFlow::Continue(())
    };
    let call = Call {
        processor,
        ..Call::of(3, Mode::Prompt)
    };
    call.finished_by(&mut finisher, |caller, _| {
        (caller.batch.ns, caller.batch.want) = (batch_ns, 8);
        caller.claimed.objects.extend((0..3).map(|i| (i, i)));
        caller.work();
        then = caller.batch.want;
    });
    (EVENTS.take(), then)
}

#[test]
fn results_are_finished_after_each_stretch_of_a_batchs_time() {
    let each = [0, 1, 2].map(|i| [("run", i), ("finished", i)]).concat();
    let all = ["run", "finished"]
        .map(|what| [0, 1, 2].map(|i| (what, i)))
        .concat();
    let short: Processor = |i| note("run", *i);
    let long: Processor = |i| {
        note("run", *i);
        take_a_millisecond(i);
    };
    assert_eq!(events(short, 0).0, each);
    assert_eq!(events(long, 1_000), (each, 1));
    // An hour and a half: longer than all has taken, and shorter than the sum of two times of this call.
    assert_eq!(events(short, 5_400_000_000_000), (all, 16));
}

#[test]
fn what_was_not_started_when_the_call_is_stopped_is_given_back() {
    Call::of(3, Mode::Prompt).run(|caller, pool| {
        caller.claimed.objects.extend((0..3).map(|i| (i, i)));
        pool.shared.token.stop();
        caller.work();
        assert_eq!(pool.shared.source().returned, [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(pool.shared.source().halt, Some(HaltReason::Stopped));
    });
}

#[test]
fn many_objects_that_take_their_time_are_no_reason_to_go_alone() {
    Call::of(3, Mode::Prompt).taking_a_millisecond().run(|caller, _| {
        caller.claimed.objects.extend((0..64).map(|i| (i, i)));
        caller.work();
        assert_eq!((caller.sink.finished, caller.solo_until_ns), (64, 0));
    });
}

#[test]
fn a_sleeping_caller_wakes_for_results_news_and_to_look_after_the_puller() {
    Call::of(1, Mode::Prompt).run(|caller, pool| {
        assert!(!caller.listen(Some(Instant::now())));
        pool.shared.wake_caller();
        assert!(!caller.sleep());
        // A pull of several is watched.
        caller.batch.want = 2;
        assert_eq!(caller.claim(Who::Caller), Claim::Got);
        assert!(pool.shared.wake_pending.take());
        assert!(caller.sleep(), "nothing has come");
        leave(caller, raw(0, 0, 1));
        assert!(!caller.sleep());
        assert!(caller.listen(None));
    });
}

#[test]
fn at_the_deadline_a_sleeping_caller_names_whoever_still_runs() {
    let hours = Duration::from_secs(7_200);
    for (deadline, late) in [(hours, false), (MILLISECOND, true)] {
        let told = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&told);
        let mut call = Call::of(1, Mode::Prompt);
        call.execution = call
            .execution
            .deadline(deadline)
            .on_warning(move |Warning::Overrun { index }| theirs.lock().unwrap().push(index));
        call.run(|caller, pool| {
            pool.set_current(&caller.slots[1], 5);
            if !late {
                // A pull of several is watched: it is not the deadline that wakes the caller.
                caller.batch.want = 2;
                caller.claim(Who::Caller);
                pool.shared.wake_pending.take();
            }
            assert_eq!((caller.sleep(), caller.warned), (!late, late));
            let why = late.then_some(HaltReason::Deadline);
            assert_eq!(pool.shared.source().halt, why);
        });
        let named = if late { &[5][..] } else { &[] };
        assert_eq!(*told.lock().unwrap(), named);
    }
}

#[test]
fn a_caller_remembers_that_it_was_helped() {
    Call::of(3, Mode::Prompt).run(|caller, _| {
        for (who, helped) in [(Who::Caller, false), (Who::Helping, true), (Who::Caller, true)] {
            caller.claim(who);
            assert_eq!(caller.helped, helped, "{who:?}");
        }
    });
}
