//! What the caller does in one turn, and when it may sleep.

use std::cell::Cell;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// Threads that are not started; how often one was asked for.
struct NoThreads {
    any_free: bool,
    start: fn() -> io::Result<bool>,
    asked: Cell<usize>,
}

impl NoThreads {
    fn of(any_free: bool, start: fn() -> io::Result<bool>) -> Self {
        Self {
            any_free,
            start,
            asked: Cell::new(0),
        }
    }
}

impl<'scope> ThreadSource<'scope> for NoThreads {
    fn any_free(&self) -> bool {
        self.any_free
    }

    fn start(&self, _: impl FnOnce() + Send + 'scope) -> io::Result<bool> {
        self.asked.set(self.asked.get() + 1);
        (self.start)()
    }
}

fn there_is_one() -> io::Result<bool> {
    Ok(true)
}

fn none_is_free() -> io::Result<bool> {
    Ok(false)
}

fn there_can_be_none() -> io::Result<bool> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// Whether this step falls asleep: it wakes at once then, for news that only a sleeper takes.
fn sleeps(pool: &TestPool<'_>, step: impl FnOnce()) -> bool {
    pool.shared.wake_pending.raise();
    step();
    !pool.shared.wake_pending.take()
}

/// Somebody is at work, and asks the iterator; so many objects have come from it.
fn somebody_pulls(pool: &TestPool<'_>, so_far: usize) {
    pulled_by_another(&pool.shared, 0..so_far);
    pool.shared.source().running = 1;
}

#[test]
fn a_worker_has_a_slot_if_it_has_a_thread() {
    let (one, none) = (Some(true), Some(false));
    for (start, added, slots) in [
        (there_is_one as fn() -> _, one, 4),
        (none_is_free, none, 3),
        (there_can_be_none, None, 3),
    ] {
        Call::of(3, Mode::Prompt).run(|caller, pool| {
            assert_eq!(caller.add_worker(&NoThreads::of(true, start)).ok(), added);
            let those_of_the_pool = pool.slots.lock().unwrap().len();
            assert_eq!((caller.slots.len(), those_of_the_pool), (slots, slots));
        });
    }
}

#[test]
fn there_are_to_be_workers_for_the_degree_and_the_objects_and_to_relieve() {
    for (alone, at_most, relief, wanted) in [
        (false, 20, 0, 9),
        (false, 5, 0, 5),
        (false, 5, 2, 7),
        (true, 20, 2, 1),
    ] {
        Call::of(9, Mode::FreeCaller).run(|caller, _| {
            assert_eq!(caller.at_most, 8);
            (caller.alone, caller.at_most, caller.relief) = (alone, at_most, relief);
            assert_eq!(caller.wanted(), wanted, "{alone} {at_most} {relief}");
        });
    }
}

#[test]
fn a_worker_is_made_where_one_is_missing_and_a_thread_may_be_had() {
    // Of three workers.
    for (there, over, any_free, start, made, asked) in [
        (3, false, true, there_is_one as fn() -> _, false, 0),
        (2, true, true, there_is_one, false, 0),
        (2, false, false, there_is_one, false, 0),
        (2, false, true, none_is_free, false, 2),
        (2, false, true, there_can_be_none, false, 1),
        (0, true, true, there_can_be_none, false, 0),
        (0, false, true, there_can_be_none, false, 1),
        (0, false, true, there_is_one, true, 1),
        (2, false, true, there_is_one, true, 1),
    ] {
        Call::of(3, Mode::FreeCaller).run(|caller, pool| {
            caller.slots.truncate(there);
            pool.shared.source().exhausted = over;
            caller.listening = Some(Instant::now());
            let threads = NoThreads::of(any_free, start);
            let case = format!("{there} {over} {any_free}");
            assert_eq!(caller.add_missing(&threads), made, "{case}");
            if !made {
                assert!(!caller.add_missing(&threads), "{case}");
            }
            assert_eq!(threads.asked.get(), asked, "{case}");
            // Where there can be no more it asks for none, does not listen, and is the only carrier if there is no
            // worker at all.
            let none = asked == 1 && !made;
            assert_eq!(
                (caller.shortage.is_some(), caller.listening.is_none()),
                (none, none)
            );
            assert_eq!(caller.alone, none && there == 0, "{case}");
        });
    }
}

#[test]
fn a_caller_listens_to_all_its_workers_until_the_trial_is_over() {
    for (told, at_most, over, listens) in [
        (3, 8, false, true),
        (2, 8, false, true),
        (4, 8, false, false),
        (4, 3, false, true),
        (3, 8, true, false),
    ] {
        Call::of(3, Mode::Prompt).run(|caller, pool| {
            caller.listening = Some(Instant::now() + HOUR);
            (caller.told, caller.at_most) = (told, at_most);
            pool.shared.source().exhausted = over;
            let slept = sleeps(pool, || assert_eq!(caller.listens(), listens));
            assert_eq!(slept, listens, "{told} of {at_most}, over: {over}");
        });
    }
    Call::of(3, Mode::Prompt).run(|caller, pool| {
        caller.told = 3;
        caller.listening = Some(Instant::now() + HOUR);
        leave(caller, raw(0, 0, 1));
        assert!(!sleeps(pool, || assert!(caller.listens())), "there was a result");
        assert!(caller.listening.is_some());
        caller.listening = Instant::now().checked_sub(HOUR);
        assert!(!sleeps(pool, || assert!(caller.listens())), "that was long ago");
        assert!(caller.listening.is_none());
        assert!(!caller.listens());
    });
}

#[test]
fn a_caller_at_work_asks_the_iterator_only_alone_or_as_one_of_the_carriers() {
    for (mode, alone, told, held, helped) in [
        (Mode::Throughput, true, 1, false, false),
        (Mode::Throughput, false, 0, false, false),
        (Mode::Throughput, false, 1, true, false),
        (Mode::Prompt, false, 0, false, false),
        // The workers have nothing for it.
        (Mode::Prompt, false, 1, false, true),
    ] {
        Call::of(3, mode).run(|caller, _| {
            caller.policy.working = true;
            (caller.alone, caller.told) = (alone, told);
            caller.starving_ns = Some(5);
            let case = format!("{mode:?} {alone} {told}");
            assert!(caller.works(0), "{case}");
            assert!(caller.sink.finished > 0, "{case}");
            assert_eq!((caller.held, caller.helped), (held, helped), "{case}");
            let starves = (caller.alone || caller.told == 0).then_some(5);
            assert_eq!(caller.starving_ns, starves, "{case}");
        });
    }
}

#[test]
fn a_caller_at_work_that_finds_nothing_starves_or_sleeps() {
    // What the workers have just brought; whether it looks on, and whether it is left to starve.
    for (mode, working, drained, looks_on, starves) in [
        (Mode::Throughput, true, 0, false, false),
        (Mode::Prompt, true, 1, true, false),
        (Mode::Prompt, true, 0, true, true),
        (Mode::Prompt, false, 0, false, false),
    ] {
        Call::of(3, mode).run(|caller, pool| {
            somebody_pulls(pool, 0);
            (caller.policy.working, caller.told) = (working, 2);
            // For an hour, less what is too short to be seen.
            caller.starving_ns = Some(5);
            let case = format!("{mode:?} {working} {drained}");
            assert_eq!(caller.works(drained), looks_on, "{case}");
            assert_eq!(caller.starving_ns.is_none(), starves, "{case}");
            assert_eq!(caller.solo_until_ns > 0, starves, "{case}");
            assert_eq!(caller.sink.finished, 0, "{case}");
        });
    }
    // Nothing is left, or all permits are out.
    for (exhausted, running) in [(true, 0), (false, 3)] {
        Call::of(3, Mode::Throughput).run(|caller, pool| {
            {
                let mut source = pool.shared.source();
                (source.exhausted, source.running) = (exhausted, running);
            }
            caller.starving_ns = Some(5);
            assert!(!caller.works(0), "{exhausted} {running}");
            assert_eq!(caller.starving_ns, None);
        });
    }
}

#[test]
fn a_caller_that_is_fed_well_is_soon_content_again() {
    Call::of(3, Mode::Throughput).run(|caller, _| {
        (caller.fed, caller.solo_ns) = (62, 7);
        for (fed, solo_ns) in [(63, 7), (64, SOLO_NS)] {
            assert!(caller.works(0));
            assert_eq!((caller.fed, caller.solo_ns), (fed, solo_ns));
        }
    });
}

#[test]
fn without_a_thread_to_relieve_the_puller_the_caller_runs_what_lies_in_the_buffer() {
    // There is an object; with three workers.
    for (pulled, degree, relief, works) in [
        (1, 3, 1, true),
        (0, 3, 1, false),
        // There is one: the thread has been found.
        (1, 2, 1, false),
        // A missing worker is no reason.
        (1, 4, 0, false),
    ] {
        Call::of(degree, Mode::FreeCaller).run(|caller, pool| {
            somebody_pulls(pool, pulled);
            caller.look_after_the_puller();
            caller.look_after_the_puller();
            caller.relief = relief;
            assert_eq!(caller.works(0), works, "{pulled} {degree} {relief}");
            assert_eq!(caller.sink.finished, usize::from(works));
        });
    }
}

#[test]
fn all_have_ended_when_nothing_is_left_and_nobody_at_work() {
    for (over, running, pulling, ended) in [
        (false, 0, false, false),
        (true, 0, false, true),
        (true, 1, false, false),
        // Who was relieved of its permit.
        (true, 0, true, false),
    ] {
        Call::of(3, Mode::FreeCaller).run(|caller, pool| {
            {
                let mut source = pool.shared.source();
                (source.exhausted, source.running, source.pulling) = (over, running, pulling);
                source.parked = vec![1];
            }
            assert_eq!(caller.all_have_ended(), ended, "{over} {running} {pulling}");
            let called = if over { &[1][..] } else { &[] };
            assert_eq!(recalled(pool), called, "{over} {running} {pulling}");
            let threads = NoThreads::of(false, there_is_one);
            let slept = sleeps(pool, || assert_eq!(caller.turn(&threads), !ended));
            assert_eq!(slept, !ended, "{over} {running} {pulling}");
        });
    }
}

#[test]
fn a_caller_sleeps_where_a_turn_has_brought_nothing() {
    let threads = NoThreads::of(true, there_is_one);
    Call::of(3, Mode::FreeCaller).run(|caller, pool| {
        let turn = |caller: &mut TestCaller<'_, '_, '_, '_>| sleeps(pool, || assert!(caller.turn(&threads)));
        assert!(turn(caller));
        leave(caller, raw(0, 0, 1));
        assert!(!turn(caller), "a result");
        assert!(turn(caller));
        caller.slots.clear();
        assert!(!turn(caller), "a worker was made");
        assert_eq!(threads.asked.get(), 1);
    });
    // It works, too.
    Call::of(3, Mode::Throughput).run(|caller, pool| {
        for finished in [1, 2] {
            assert!(!sleeps(pool, || assert!(caller.turn(&threads))));
            assert_eq!(caller.sink.finished, finished);
        }
        caller.slots.clear();
        assert!(!sleeps(pool, || assert!(caller.turn(&threads))));
        assert_eq!(caller.sink.finished, 2, "all carriers first");
    });
    // It listens, and has done so for long.
    Call::of(3, Mode::Prompt).run(|caller, pool| {
        caller.listening = Instant::now().checked_sub(HOUR);
        assert!(!sleeps(pool, || assert!(caller.turn(&threads))));
        assert!(caller.listening.is_none());
    });
}

#[test]
fn a_sleeper_wakes_to_look_after_the_puller_or_at_the_deadline() {
    let hours = |n: u32| n * HOUR;
    let in_two_hours = hours(3);
    for (deadline, watched, warned, stall, wakes_in) in [
        (None, false, false, hours(1), None),
        (None, true, false, hours(1), Some(hours(1))),
        (Some(in_two_hours), false, false, hours(1), Some(hours(2))),
        (Some(in_two_hours), true, false, hours(1), Some(hours(1))),
        (Some(in_two_hours), true, false, hours(3), Some(hours(2))),
        (Some(in_two_hours), true, true, hours(3), Some(hours(3))),
        (Some(in_two_hours), false, true, hours(3), None),
    ] {
        let mut call = Call::of(1, Mode::FreeCaller);
        if let Some(deadline) = deadline {
            call.execution = call.execution.deadline(deadline);
        }
        call.run(|caller, pool| {
            if watched {
                caller.batch.want = 2;
                caller.claim(Who::Caller);
            }
            (caller.warned, caller.stall) = (warned, stall);
            let now = pool.shared.epoch + HOUR;
            assert_eq!(
                caller.wakes_at(now),
                wakes_in.map(|time| now + time),
                "{deadline:?} {watched} {warned} {stall:?}"
            );
        });
    }
}
