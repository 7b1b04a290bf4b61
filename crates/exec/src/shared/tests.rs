//! Claims, reliefs and ends of a call, by hand; where a test needs a puller, the iterator waits for the test.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use super::*;
use crate::ConcurrentExecution;

const WORKER: Who = Who::Worker(0);

type Numbers = Range<usize>;
type Change = fn(&Shared<'_, Numbers, ()>, &mut Source<Numbers>);

fn execution(degree: usize) -> ConcurrentExecution {
    ConcurrentExecution::new(NonZeroUsize::new(degree).unwrap())
}

fn settings(degree: usize) -> Settings {
    execution(degree).settings_of_a_call()
}

fn shared<I: Iterator>(objects: I, settings: &Settings) -> Shared<'_, I, ()> {
    Shared::new(objects, &(), settings, Instant::now())
}

/// What the lock guards, one figure or more at a time.
fn look<I: Iterator, T>(shared: &Shared<'_, I, ()>, at: impl FnOnce(&mut Source<I>) -> T) -> T {
    at(&mut shared.source())
}

/// What a claim brought: the objects by their indices, whether the carrier holds a permit then, and which worker it
/// woke.
#[derive(Debug, PartialEq)]
struct Brought {
    claim: Claim,
    objects: Vec<usize>,
    held: bool,
    woken: Option<usize>,
}

fn claim<I: Iterator>(shared: &Shared<'_, I, ()>, who: Who, want: usize, mut held: bool) -> Brought {
    let (mut claimed, mut woken) = (Claimed::default(), None);
    let claim = shared.claim(who, &mut held, want, &mut claimed, |number| woken = Some(number));
    let objects = claimed.objects.iter().map(|(index, _)| *index).collect();
    Brought {
        claim,
        objects,
        held,
        woken,
    }
}

fn nothing(claim: Claim) -> Brought {
    Brought {
        claim,
        objects: Vec::new(),
        held: false,
        woken: None,
    }
}

fn objects(objects: impl IntoIterator<Item = usize>) -> Brought {
    Brought {
        objects: objects.into_iter().collect(),
        held: true,
        ..nothing(Claim::Got)
    }
}

/// As if somebody had pulled these, and pulls on.
pub(crate) fn pulled_by_another<I: Iterator<Item = usize>, W>(shared: &Shared<'_, I, W>, numbers: Numbers) {
    let mut source = shared.source();
    shared.set_pulling(&mut source, true);
    source.next = numbers.end;
    let ring = Claimed::default().ring();
    for i in numbers {
        // SAFETY: nobody else has the ring yet.
        #[allow(unsafe_code)]
        let pushed = unsafe { ring.push_unawaited((i, i)) };
        assert!(pushed.is_ok());
    }
    source.pulled = Some(ring);
}

#[test]
fn how_many_there_may_be_is_what_the_iterator_says() {
    let settings = settings(1);
    assert_eq!(shared(0..8, &settings).at_most(), 8);
    assert_eq!(shared(0.., &settings).at_most(), usize::MAX);
}

#[test]
fn nothing_starts_once_the_token_is_set_or_the_deadline_has_come() {
    let second = Duration::from_secs(1);
    let epoch = Instant::now().checked_sub(second).unwrap();
    let settings_of = |execution: ConcurrentExecution| execution.settings_of_a_call();
    let plain = settings_of(execution(1));
    let shared = Shared::new(0..8, &(), &plain, epoch);
    assert!(shared.now_ns() >= 1_000_000_000);
    assert_eq!((shared.deadline(), shared.must_stop(u64::MAX - 1)), (None, false));
    assert!(!shared.stops());
    plain.token.stop();
    assert!(shared.must_stop(0));
    assert!(shared.stops());
    assert_eq!(shared.source().halt, Some(HaltReason::Stopped));

    let in_an_hour = settings_of(execution(1).deadline(3_600 * second));
    let shared = Shared::new(0..8, &(), &in_an_hour, epoch);
    assert_eq!(shared.deadline(), Some(epoch + 3_600 * second));
    assert!(!shared.must_stop(3_600_000_000_000 - 1) && shared.must_stop(3_600_000_000_000));
    assert!(!shared.stops());

    let past = settings_of(execution(1).deadline(second));
    let shared = Shared::new(0..8, &(), &past, epoch);
    assert!(shared.stops());
    assert_eq!(shared.source().halt, Some(HaltReason::Deadline));
}

/// What a worker's first claim does to a source of 40 objects.
#[derive(Default)]
struct First {
    want: usize,
    ahead: usize,
    there: usize,
    single: u32,
    room: Option<usize>,
    /// So many are pulled, in so many pulls; into a ring; and the caller is to look after the puller.
    pulled: usize,
    pulls: u64,
    ring: bool,
    watched: bool,
}

#[test]
#[rustfmt::skip]
fn a_claim_pulls_what_it_wants_up_to_its_share_and_what_the_caller_is_to_have() {
    let several = First { pulls: 1, ring: true, watched: true, ..First::default() };
    let one = First { pulls: 1, pulled: 1, ..First::default() };
    for first in [
        First { want: 8, pulled: 8, ..several },
        First { want: 1, ..one },
        First { want: 1, ahead: 1, pulled: 2, ..several },
        // A quarter of what is left for two carriers.
        First { want: 16, pulled: 10, ..several },
        First { want: 16, ahead: 3, pulled: 13, ..several },
        First { want: 16, room: Some(5), pulled: 5, ..several },
        // Less what is there.
        First { want: 3, there: 1, pulled: 2, ..several },
        First { want: 3, there: 3, ..First::default() },
        First { want: 3, there: 4, ..First::default() },
        First { want: 3, ahead: 2, there: 4, pulled: 1, ..several },
        First { want: 3, ahead: 2, there: 5, ..First::default() },
        // One after the other where the iterator has been seen to block; objects that are there may wait for it.
        First { want: 4, single: 2, ..one },
        First { want: 4, single: 2, there: 1, watched: true, ..one },
    ] {
        check_first(&first);
    }
}

fn check_first(first: &First) {
    const BEFORE: usize = 3;
    let settings = settings(2);
    let shared = shared(0..40, &settings);
    {
        let mut source = shared.source();
        (source.next, source.ahead, source.single) = (BEFORE, first.ahead, first.single);
        source.horizon = first.room.map_or(usize::MAX, |room| BEFORE + room);
        source
            .buffer
            .extend((BEFORE - first.there.min(BEFORE)..BEFORE).map(|i| (i, i)));
        let lacking = first.there - source.buffer.len();
        source.buffer.extend((0..lacking).map(|i| (i, i)));
    }
    let (mut held, mut claimed) = (false, Claimed::default());
    let brought = shared.claim(WORKER, &mut held, first.want, &mut claimed, |_| ());
    assert_eq!((brought, held), (Claim::Got, true));
    let source = shared.source();
    let pulled = source.next - BEFORE;
    let case = format!("{} of {} there, {} ahead", first.want, first.there, first.ahead);
    assert_eq!((pulled, source.pulls), (first.pulled, first.pulls), "{case}");
    assert_eq!(claimed.pulled.is_some(), first.ring, "{case}");
    assert_eq!(
        (shared.is_watched(), shared.wake_pending.take()),
        (first.watched, first.watched),
        "{case}"
    );
    assert_eq!(
        source.single,
        first.single.saturating_sub(u32::from(pulled > 0)),
        "{case}"
    );
    assert_eq!(
        (source.running, source.most_running, source.ahead),
        (1, 1, first.ahead),
        "{case}"
    );
    assert_eq!((source.pulling, source.exhausted), (false, false), "{case}");
    assert_eq!(
        claimed.objects.len() + source.there(),
        first.there + pulled,
        "{case}"
    );
}

#[test]
fn the_caller_is_woken_for_the_first_pull_of_several_alone() {
    let settings = settings(1);
    let shared = shared(0..40, &settings);
    assert_eq!(claim(&shared, WORKER, 2, false), objects(0..2));
    assert!(shared.wake_pending.take());
    assert_eq!(claim(&shared, WORKER, 2, true), objects(2..4));
    assert!(shared.is_watched() && !shared.wake_pending.take());
}

#[test]
fn the_listener_hears_of_each_object_taken() {
    let settings = execution(1)
        .on_progress(Duration::MAX, |_| ())
        .settings_of_a_call();
    let shared = shared(0..40, &settings);
    let started = &settings.listener.as_ref().unwrap().started;
    claim(&shared, WORKER, 3, false);
    assert_eq!(started.load(Ordering::Relaxed), 3);
    shared.sole_carrier(&mut true).unwrap().pull();
    assert_eq!(started.load(Ordering::Relaxed), 4);
}

#[test]
fn a_carrier_gives_its_permit_back_when_it_claims_again() {
    let settings = settings(1);
    let shared = shared(0..8, &settings);
    assert_eq!(claim(&shared, WORKER, 1, false), objects([0]));
    assert_eq!(claim(&shared, Who::Worker(1), 1, false), nothing(Claim::Wait));
    assert_eq!(shared.source().parked, [1]);
    assert_eq!(claim(&shared, WORKER, 1, true), objects([1]));
    assert_eq!(shared.source().running, 1);
    assert_eq!(shared.stand_down(true), [1]);
    assert_eq!(shared.source().running, 0);
    assert!(shared.is_claimable());
    // The last one of all, and the end.
    claim(&shared, WORKER, 6, false);
    assert_eq!(claim(&shared, WORKER, 8, true).claim, Claim::Got);
    while claim(&shared, WORKER, 8, true).claim == Claim::Got {}
    assert_eq!(claim(&shared, WORKER, 1, false), nothing(Claim::Over));
    assert!(!shared.is_claimable());
}

#[test]
fn who_stands_down_leaves_its_permit_to_who_waits_for_one() {
    let settings = settings(1);
    let shared = shared(0..8, &settings);
    assert_eq!(claim(&shared, Who::Worker(1), 1, false), objects([0]));
    assert_eq!(claim(&shared, WORKER, 1, false), nothing(Claim::Wait));
    look(&shared, |source| source.allowed = 1);
    let stands_down = claim(&shared, Who::Worker(1), 1, true);
    assert_eq!((stands_down.claim, stands_down.woken), (Claim::Wait, Some(0)));
    assert_eq!(
        look(&shared, |source| (source.running, source.parked.clone())),
        (0, vec![1])
    );
    // Nobody's turn: who waits may not claim.
    look(&shared, |source| source.allowed = 0);
    assert_eq!(claim(&shared, WORKER, 1, false), nothing(Claim::Wait));
}

#[test]
fn a_caller_that_helps_takes_what_is_there_and_asks_for_twice_as_much() {
    let settings = settings(2);
    let shared = shared(0..8, &settings);
    assert_eq!(claim(&shared, Who::Helping, 3, false), nothing(Claim::Busy));
    assert_eq!(look(&shared, |source| (source.ahead, source.pulls)), (6, 0));
    shared.source().buffer.extend((0..4).map(|i| (i, i)));
    assert_eq!(claim(&shared, Who::Helping, 3, false), objects(0..3));
    let source = shared.source();
    assert!(source.parked.is_empty() && source.queued.is_empty() && !source.awaited);
}

#[test]
fn who_finds_the_puller_at_work_takes_what_it_has_by_then() {
    let settings = settings(2);
    for busy in [false, true] {
        for who in [WORKER, Who::Caller, Who::Helping] {
            let shared = shared(0..8, &settings);
            pulled_by_another(&shared, 0..3);
            // `false`: it is looked for without the lock as if nobody pulled.
            shared.busy.0.store(busy, Ordering::Relaxed);
            assert_eq!(claim(&shared, who, 3, false), objects(0..3), "{who:?}");
            assert!(shared.source().pulled.is_some(), "it pulls on");
            assert!(!shared.called.load(Ordering::Relaxed), "{who:?}");
        }
    }
}

#[test]
fn who_finds_nothing_waits_for_the_puller_even_at_the_horizon() {
    let settings = settings(2);
    for (who, queued, awaited) in [
        (WORKER, &[0][..], false),
        (Who::Caller, &[], true),
        (Who::Helping, &[], false),
    ] {
        let shared = shared(0..8, &settings);
        pulled_by_another(&shared, 0..0);
        shared.source().horizon = 0;
        shared.called.store(who == Who::Helping, Ordering::Relaxed);
        assert_eq!(claim(&shared, who, 3, false), nothing(Claim::Busy));
        let source = shared.source();
        assert_eq!((&source.queued[..], source.awaited), (queued, awaited), "{who:?}");
        assert!(source.parked.is_empty());
        // A worker that has waited no longer calls; the caller, which does not, leaves that to whoever does.
        assert_eq!(shared.called.load(Ordering::Relaxed), who == Who::Helping);
    }
}

#[test]
fn who_does_not_look_for_the_puller_leaves_its_ring_and_the_call_of_others() {
    let settings = settings(1);
    let shared = shared(0..8, &settings);
    shared.called.store(true, Ordering::Relaxed);
    pulled_by_another(&shared, 0..3);
    shared.source().running = 1;
    assert_eq!(claim(&shared, Who::Caller, 3, false), nothing(Claim::Wait));
    let ring = shared.source().pulled.as_ref().map(|ring| ring.len());
    assert_eq!((ring, shared.source().buffer.len()), (Some(3), 0));
    assert!(shared.called.load(Ordering::Relaxed));
}

#[test]
fn who_waits_is_woken_when_something_is_left() {
    let settings = settings(3);
    for (who, pulling, awaited, woken) in [
        (WORKER, false, true, true),
        (WORKER, false, false, false),
        (WORKER, true, true, false),
        (Who::Caller, false, true, false),
    ] {
        let shared = shared(0..8, &settings);
        {
            let mut source = shared.source();
            shared.set_pulling(&mut source, pulling);
            source.buffer.extend((0..2).map(|i| (i, i)));
            (source.next, source.awaited, source.queued) = (2, awaited, vec![5, 7]);
        }
        let expected = Brought {
            woken: Some(7),
            ..objects([0])
        };
        assert_eq!(claim(&shared, who, 1, false), expected, "{who:?}");
        assert_eq!(shared.wake_pending.take(), woken, "{who:?} {pulling} {awaited}");
        assert_eq!(shared.source().awaited, awaited && pulling);
        assert_eq!(shared.source().queued, [5]);
    }
}

#[test]
fn what_is_pulled_when_the_call_is_stopped_or_the_iterator_panics_comes_back() {
    let (stopped, panics) = (settings(1), settings(1));
    for (settings, why) in [(&stopped, HaltReason::Stopped), (&panics, HaltReason::Panicked)] {
        let objects = (0..40).inspect(|&i| {
            if i == 2 {
                assert_eq!(why, HaltReason::Stopped, "this panics");
                settings.token.stop();
            }
        });
        let shared = shared(objects, settings);
        assert_eq!(claim(&shared, WORKER, 4, false), nothing(Claim::Over));
        let (source, mut iterator) = shared.into_parts();
        let returned = if why == HaltReason::Stopped { 4 } else { 2 };
        assert!(source.returned.iter().map(|(index, _)| *index).eq(0..returned));
        assert_eq!((source.halt, source.running), (Some(why), 0));
        assert_eq!(source.panic.is_some(), why == HaltReason::Panicked);
        assert_eq!(iterator.next(), Some(if returned == 4 { 4 } else { 3 }));
    }
}

#[test]
fn a_puller_seen_twice_with_objects_in_the_buffer_is_relieved_once() {
    let settings = settings(2);
    let shared = shared(0..8, &settings);
    let mut seen = None;
    pulled_by_another(&shared, 0..0);
    shared.watched.store(true, Ordering::Relaxed);
    {
        let mut source = shared.source();
        (source.pulls, source.running, source.queued) = (1, 2, vec![4]);
    }
    seen.replace(1);
    assert_eq!(
        (shared.relieve(&mut seen), seen),
        (None, None),
        "nothing waits for it"
    );
    shared.source().buffer.push_back((0, 0));
    assert_eq!((shared.relieve(&mut seen), seen), (None, Some(1)));
    assert_eq!(shared.relieve(&mut seen), Some(Some(4)));
    let now = |shared: &Shared<'_, _, _>| {
        let source = shared.source();
        (source.running, source.single, source.reliefs)
    };
    assert_eq!(now(&shared), (1, 256, 1));
    assert_eq!(shared.relieve(&mut seen), None, "it has been");
    assert!(shared.is_watched());
    // Another pull, and one more: each time so many as before are pulled one by one.
    for (pull, single) in [(2, 512), (3, 1_024)] {
        shared.relieved.store(false, Ordering::Relaxed);
        look(&shared, |source| (source.pulls, source.running) = (pull, 2));
        assert_eq!(shared.relieve(&mut seen), None);
        assert_eq!(shared.relieve(&mut seen), Some(None));
        assert_eq!(now(&shared), (1, single, pull as u32));
    }
    let mut source = shared.source();
    shared.set_pulling(&mut source, false);
    drop(source);
    assert_eq!((shared.relieve(&mut seen), seen), (None, None), "nobody pulls");
    assert!(!shared.is_watched());
}

#[test]
fn the_iterator_is_for_a_caller_alone_while_nobody_else_is_at_work() {
    let settings = settings(2);
    let is_given = |change: Change| {
        let shared = shared(0..8, &settings);
        change(&shared, &mut shared.source());
        shared.sole_carrier(&mut false).is_some()
    };
    assert!(is_given(|_, _| ()));
    assert!(!is_given(|shared, _| shared
        .called
        .store(true, Ordering::Relaxed)));
    assert!(!is_given(|_, source| source.halt = Some(HaltReason::Failed)));
    assert!(!is_given(|_, source| source.running = 1));
    assert!(!is_given(|_, source| source.buffer.push_back((0, 0))));
    assert!(!is_given(|shared, source| shared.set_pulling(source, true)));
    assert!(!is_given(|_, source| source.horizon = 0));
}

#[test]
fn a_caller_alone_takes_one_after_the_other_with_a_permit() {
    let settings = settings(1);
    let shared = shared(0..4, &settings);
    let mut held = true;
    shared.source().running = 1;
    drop(shared.sole_carrier(&mut held).unwrap());
    assert!(!held);
    assert_eq!(
        look(&shared, |source| (source.running, source.most_running)),
        (0, 0)
    );

    let mut alone = shared.sole_carrier(&mut held).unwrap();
    assert_eq!((alone.pull(), alone.pull()), (Some((0, 0)), Some((1, 1))));
    assert!(shared.source().pulling);
    assert_eq!(shared.source().running, 1);
    shared.called.store(true, Ordering::Relaxed);
    assert_eq!(alone.pull(), None, "a worker wants it");
    drop(alone);
    {
        let source = shared.source();
        assert_eq!((source.next, source.running, source.most_running), (2, 0, 1));
        assert!(!source.pulling && !source.exhausted);
    }
    shared.called.store(false, Ordering::Relaxed);
    let mut alone = shared.sole_carrier(&mut held).unwrap();
    assert!(std::iter::from_fn(|| alone.pull()).eq([(2, 2), (3, 3)]));
    drop(alone);
    assert!(shared.source().exhausted);
    assert!(shared.sole_carrier(&mut held).is_none());
}

#[test]
fn a_caller_alone_asks_no_more_after_the_end_or_a_panic() {
    let settings = settings(1);
    let mut asked = 0;
    let shared = shared(
        std::iter::from_fn(|| -> Option<usize> {
            asked += 1;
            panic!("of the iterator")
        }),
        &settings,
    );
    let mut alone = shared.sole_carrier(&mut false).unwrap();
    assert_eq!((alone.pull(), alone.pull()), (None, None));
    drop(alone);
    let (source, _) = shared.into_parts();
    assert_eq!(
        (source.halt, source.exhausted),
        (Some(HaltReason::Panicked), true)
    );
    assert!(source.panic.is_some());
    assert_eq!(asked, 1);
}

#[test]
fn what_was_claimed_and_not_started_is_given_back_with_the_reason() {
    let deadline = execution(1).deadline(Duration::from_nanos(100));
    for (now_ns, why) in [(99, HaltReason::Stopped), (100, HaltReason::Deadline)] {
        let settings = deadline.settings_of_a_call();
        let shared = shared(0..8, &settings);
        shared.give_back([(3, 3), (4, 4)].into_iter(), now_ns);
        assert_eq!(shared.source().halt, Some(why));
        assert!(settings.token.is_stopped());
        assert_eq!(shared.into_parts().0.returned, [(3, 3), (4, 4)]);
    }
    let settings = settings(1);
    let shared = shared(0..8, &settings);
    shared.halt(HaltReason::Broken);
    assert_eq!(shared.source().halt, Some(HaltReason::Broken));
}

pub(crate) fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain");
        thread::yield_now();
    }
}

/// After a relief pulls are of one object; what lies in the buffer may wait for such a pull as well.
#[test]
fn the_caller_looks_after_a_pull_of_one_if_objects_are_there() {
    let settings = settings(1);
    let (asked, may_go_on) = (AtomicUsize::new(0), AtomicUsize::new(3));
    let objects = (0..8).inspect(|&i| {
        asked.store(i, Ordering::SeqCst);
        until(|| i < may_go_on.load(Ordering::SeqCst));
    });
    let is_asked_for = |i| until(|| asked.load(Ordering::SeqCst) == i);
    let shared = shared(objects, &settings);
    let claim = |who, want, claimed: &mut Claimed<usize>, held: &mut bool| {
        shared.claim(who, held, want, claimed, |_| ())
    };
    thread::scope(|scope| {
        let (mut seen, mut held, mut claimed) = (None, false, Claimed::default());
        let worker = scope.spawn(|| {
            let (mut held, mut claimed) = (false, Claimed::default());
            let claim = claim(Who::Worker(0), 5, &mut claimed, &mut held);
            (claim, held, claimed)
        });
        is_asked_for(3);
        assert!(shared.is_watched());
        assert_eq!(shared.relieve(&mut seen), None);
        assert_eq!(shared.relieve(&mut seen), Some(None));
        assert_eq!(claim(Who::Helping, 1, &mut claimed, &mut held), Claim::Got);
        may_go_on.store(4, Ordering::SeqCst);
        let (got, mut their_held, mut theirs) = worker.join().unwrap();
        assert_eq!(got, Claim::Wait);
        // Nobody pulls: this puts the watch down, and the worker's turn has come.
        assert_eq!(shared.relieve(&mut seen), None);
        assert!(!shared.is_watched());
        assert_eq!(shared.stand_down(true), [0]);
        let worker = scope.spawn(move || claim(Who::Worker(0), 5, &mut theirs, &mut their_held));
        is_asked_for(4);
        assert!(
            shared.is_watched(),
            "three objects wait for the pull of the fourth"
        );
        may_go_on.store(usize::MAX, Ordering::SeqCst);
        assert_eq!(worker.join().unwrap(), Claim::Got);
    });
}

#[test]
fn who_may_pull_no_further_waits_to_be_recalled() {
    let settings = settings(1);
    let shared = shared(0..8, &settings);
    shared.source().horizon = 0;
    assert_eq!(claim(&shared, WORKER, 1, false), nothing(Claim::Wait));
    assert_eq!(shared.source().parked, [0]);
}

#[test]
fn a_caller_that_waits_for_the_puller_is_woken_when_it_has_pulled() {
    let settings = settings(2);
    let (asked, may_go_on) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let objects = (1..8).inspect(|&i| {
        asked.store(i, Ordering::SeqCst);
        until(|| i <= may_go_on.load(Ordering::SeqCst));
    });
    let shared = shared(objects, &settings);
    let claim = |who| claim(&shared, who, 1, false).claim;
    thread::scope(|scope| {
        let worker = scope.spawn(|| claim(Who::Worker(0)));
        until(|| asked.load(Ordering::SeqCst) == 1);
        let claimed = claim(Who::Caller);
        let (awaited, woken) = (shared.source().awaited, shared.wake_pending.take());
        may_go_on.store(usize::MAX, Ordering::SeqCst);
        assert_eq!((claimed, awaited, woken), (Claim::Busy, true, false));
        assert_eq!(worker.join().unwrap(), Claim::Got);
        assert!(shared.wake_pending.take());
    });
}
