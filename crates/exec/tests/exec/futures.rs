//! What futures promise beyond the common part (which `carriers` runs on them), with two real runtimes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use threadgauge_exec::{Ended, OnError, StopToken, Task, Warning};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot};

use crate::waits::DEADLINE;
use crate::{adaptive, at_most, until_a_deadline_is_late_enough};

/// A runtime on which a test gives up at its deadline.
struct Patient(Runtime);

impl Patient {
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0
            .block_on(async { tokio::time::timeout(DEADLINE, future).await })
            .expect("it did not end")
    }
}

fn one_thread() -> Patient {
    Patient(Builder::new_current_thread().enable_time().build().unwrap())
}

fn two_threads() -> Patient {
    let mut builder = Builder::new_multi_thread();
    Patient(builder.worker_threads(2).enable_time().build().unwrap())
}

fn on_tokio(task: Task) {
    drop(tokio::spawn(task));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Counts who is alive.
struct Alive<'a>(&'a AtomicUsize);

impl<'a> Alive<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn at_most_k_futures_are_alive_and_all_k_are() {
    one_thread().block_on(async {
        let (alive, most) = (AtomicUsize::new(0), Cell::new(0));
        let report = at_most(5)
            .for_each_async(
                0..200_u64,
                async |i| {
                    let _one = Alive::new(&alive);
                    most.set(most.get().max(alive.load(SeqCst)));
                    tokio::time::sleep(Duration::from_micros(*i % 7 * 50)).await;
                },
                |_| (),
            )
            .await;
        assert_eq!((report.finished, report.most_running, most.get()), (200, 5, 5));
    });
}

/// Objects, state and results on one thread, none of them `Send`, all borrowed.
#[test]
fn nothing_needs_to_be_sendable_or_owned() {
    one_thread().block_on(async {
        let total = Rc::new(Cell::new(0));
        let mut objects: Vec<_> = (0..20).map(|n| (n, Rc::clone(&total))).collect();
        let texts = RefCell::new(Vec::new());
        let _ = at_most(3)
            .for_each_async(
                objects.iter_mut(),
                async |object| {
                    tokio::task::yield_now().await;
                    object.0 *= 2;
                    object.1.set(object.1.get() + object.0);
                    &texts
                },
                |done| done.result.borrow_mut().push(done.object.0),
            )
            .await;
        assert_eq!((total.get(), texts.borrow().len()), (380, 20));
        assert_eq!(objects[19].0, 38);
    });
}

#[test]
fn a_result_is_finished_while_others_wait() {
    one_thread().block_on(async {
        let finished = Notify::new();
        let mut order = Vec::new();
        let _ = at_most(2)
            .for_each_async(
                0..4,
                async |i| {
                    if *i == 0 {
                        finished.notified().await;
                    }
                },
                |done| {
                    order.push(done.index);
                    if done.index == 3 {
                        finished.notify_one();
                    }
                },
            )
            .await;
        assert_eq!(order, [1, 2, 3, 0]);
    });
}

/// One that always has something to do holds up neither its neighbours nor the other tasks of the thread.
#[test]
fn a_busy_future_starves_nobody() {
    one_thread().block_on(async {
        let (neighbour, outside) = (Cell::new(false), Cell::new(false));
        let busy = async {
            let _ = at_most(2)
                .for_each_async(
                    0..2,
                    async |i| {
                        if *i == 1 {
                            tokio::task::yield_now().await;
                            neighbour.set(true);
                            return;
                        }
                        while !(neighbour.get() && outside.get()) {
                            let mut polled = false;
                            poll_fn(|cx| {
                                cx.waker().wake_by_ref();
                                if std::mem::replace(&mut polled, true) {
                                    Poll::Ready(())
                                } else {
                                    Poll::Pending
                                }
                            })
                            .await;
                        }
                    },
                    |_| (),
                )
                .await;
        };
        let other = async {
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            outside.set(true);
        };
        tokio::join!(busy, other);
    });
}

#[test]
fn short_ones_without_end_give_way() {
    one_thread().block_on(async {
        let outside = Cell::new(false);
        let call = at_most(2);
        let endless = call.for_each_async(
            0..,
            async |i: &mut u64| *i,
            |_| {
                if outside.get() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        );
        let other = async {
            tokio::task::yield_now().await;
            outside.set(true);
        };
        let (report, ()) = tokio::join!(endless, other);
        assert_eq!(report.ended, Ended::Broken(()));
    });
}

/// It polls who was woken and nobody else, and is itself woken once for many.
#[test]
fn only_who_is_woken_is_polled() {
    let polls = RefCell::new(vec![0; 3]);
    let senders = RefCell::new(Vec::new());
    let call = at_most(3);
    let mut future = pin!(call.for_each_async(
        0..3_usize,
        async |i| {
            let (sender, mut receiver) = oneshot::channel::<()>();
            senders.borrow_mut().push(sender);
            let i = *i;
            poll_fn(|cx| {
                polls.borrow_mut()[i] += 1;
                std::pin::Pin::new(&mut receiver).poll(cx)
            })
            .await
            .unwrap();
        },
        |_| (),
    ));
    let counting = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&counting));
    let mut cx = Context::from_waker(&waker);
    assert!(future.as_mut().poll(&mut cx).is_pending());
    assert_eq!((&*polls.borrow(), counting.0.load(SeqCst)), (&vec![1, 1, 1], 0));
    let mut waiting = std::mem::take(&mut *senders.borrow_mut());
    waiting.remove(1).send(()).unwrap();
    assert_eq!(counting.0.load(SeqCst), 1);
    assert!(future.as_mut().poll(&mut cx).is_pending());
    assert_eq!(*polls.borrow(), [1, 2, 1]);
    for sender in waiting {
        sender.send(()).unwrap();
    }
    assert_eq!(counting.0.load(SeqCst), 2, "woken once for both");
    let Poll::Ready(report) = future.as_mut().poll(&mut cx) else {
        panic!("not finished")
    };
    assert_eq!(report.finished, 3);
}

#[test]
fn dropping_the_call_cancels() {
    let token = StopToken::new();
    let alive = AtomicUsize::new(0);
    {
        let call = at_most(4).announce_stop(&token);
        let mut future = pin!(call.for_each_async(
            0..,
            async |_: &mut i32| {
                let _one = Alive::new(&alive);
                std::future::pending::<()>().await;
            },
            |_| (),
        ));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut cx).is_pending());
        assert_eq!((alive.load(SeqCst), token.is_stopped()), (4, false));
    }
    assert_eq!((alive.load(SeqCst), token.is_stopped()), (0, true));
}

#[test]
fn a_finished_call_leaves_its_token_alone() {
    let token = StopToken::new();
    let report = one_thread().block_on(at_most(4).announce_stop(&token).for_each_async(
        0..9,
        async |i| *i,
        |_| (),
    ));
    assert_eq!((report.ended, token.is_stopped()), (Ended::All, false));
}

#[test]
fn after_the_deadline_nothing_starts_and_who_runs_is_named() {
    until_a_deadline_is_late_enough(|deadline| {
        let warned = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&warned);
        let (token, began) = (StopToken::new(), Cell::new(0));
        let report = one_thread().block_on(
            at_most(2)
                .announce_stop(&token)
                .deadline(deadline)
                .on_warning(move |warning| theirs.lock().unwrap().push(warning))
                .for_each_async(
                    0..,
                    async |_: &mut i32| {
                        began.set(began.get() + 1);
                        while !token.is_stopped() {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    },
                    |_| (),
                ),
        );
        assert_eq!((report.ended, report.finished), (Ended::Deadline, began.get()));
        let named = [0, 1].map(|index| Warning::Overrun { index });
        (began.get() == 2).then(|| assert_eq!(*warned.lock().unwrap(), named))
    });
}

#[test]
fn a_panic_waits_for_the_others() {
    let (go, finished) = (Notify::new(), Cell::new(0));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        one_thread().block_on(at_most(3).for_each_async(
            0..,
            async |i: &mut i32| match *i {
                0 | 1 => go.notified().await,
                _ => {
                    go.notify_waiters();
                    panic!("two")
                }
            },
            |_| finished.set(finished.get() + 1),
        ))
    }));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "two");
    assert_eq!(finished.get(), 2);
}

/// The future of a call may itself be sent to another thread if all in it may.
#[test]
fn a_call_can_be_spawned() {
    two_threads().block_on(async {
        let sum = tokio::spawn(async {
            let mut sum = 0;
            let _ = at_most(3)
                .for_each_spawned(
                    on_tokio,
                    0..50,
                    |i| async move { (i, i * 2) },
                    |done| sum += done.result,
                )
                .await;
            sum
        });
        assert_eq!(sum.await.unwrap(), 50 * 49);
    });
}

#[test]
fn spawned_futures_run_elsewhere_and_are_finished_here() {
    for runtime in [one_thread(), two_threads()] {
        let here = std::thread::current().id();
        let alive = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let mut seen = BTreeSet::new();
        let report = runtime.block_on(at_most(4).for_each_spawned(
            on_tokio,
            0..100_usize,
            |i| {
                let alive = Arc::clone(&alive);
                async move {
                    let _one = Alive::new(&alive.0);
                    alive.1.fetch_max(alive.0.load(SeqCst), SeqCst);
                    tokio::time::sleep(Duration::from_micros(100)).await;
                    (i, tokio::task::id().to_string())
                }
            },
            |done| {
                assert_eq!(std::thread::current().id(), here);
                assert_eq!(done.object, done.index);
                seen.insert(done.object);
            },
        ));
        assert_eq!((report.finished, seen.len()), (100, 100));
        assert!(alive.1.load(SeqCst) <= 4 && report.most_running <= 4);
    }
}

#[test]
fn a_panic_in_a_spawned_future_arrives_here() {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        two_threads().block_on(at_most(2).for_each_spawned(
            on_tokio,
            0..50,
            |i| async move {
                assert!(i != 7, "seven");
                (i, ())
            },
            |_| (),
        ))
    }));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "seven");
}

#[test]
fn a_spawner_that_drops_or_panics_does_not_hang_the_call() {
    let call = |spawn: fn(Task)| {
        catch_unwind(AssertUnwindSafe(|| {
            one_thread().block_on(at_most(2).for_each_spawned(
                spawn,
                0..5,
                |i| async move { (i, ()) },
                |_| (),
            ))
        }))
        .unwrap_err()
    };
    let message = *call(drop).downcast::<&str>().unwrap();
    assert!(message.contains("dropped before it had ended"));
    assert_eq!(*call(|_| panic!("no")).downcast::<&str>().unwrap(), "no");
}

#[test]
fn dropping_the_call_ends_what_was_spawned() {
    let runtime = two_threads();
    let alive = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let theirs = Arc::clone(&alive);
        let call = at_most(3);
        let mut future = Box::pin(call.for_each_spawned(
            on_tokio,
            0..,
            move |i: u64| {
                let theirs = Arc::clone(&theirs);
                async move {
                    let _one = Alive::new(&theirs);
                    std::future::pending::<()>().await;
                    (i, ())
                }
            },
            |_| (),
        ));
        while alive.load(SeqCst) < 3 {
            assert!(
                poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx)))
                    .await
                    .is_pending()
            );
            tokio::task::yield_now().await;
        }
        drop(future);
        while alive.load(SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn errors_are_collected_or_stop() {
    let try_it = |on_error| {
        one_thread().block_on(at_most(2).on_error(on_error).try_for_each_async(
            0..20,
            async |i| {
                tokio::task::yield_now().await;
                if *i % 5 == 3 { Err(*i) } else { Ok(()) }
            },
            |_| (),
        ))
    };
    let collected = try_it(OnError::Collect);
    assert_eq!(
        (collected.report.ended, collected.report.finished),
        (Ended::All, 16)
    );
    assert!(collected.failed.iter().map(|f| f.error).eq([3, 8, 13, 18]));
    let stopped = try_it(OnError::StopAtFirst);
    assert_eq!(
        (stopped.report.ended, stopped.failed[0].error),
        (Ended::Failed, 3)
    );
    assert_eq!(
        stopped.report.finished + stopped.failed.len() + stopped.report.rest.count(),
        20
    );
}

/// Waiting futures that cost nothing: two at once are better than one, and so on to the bound.
#[test]
fn an_adaptive_degree_grows_for_futures_that_wait() {
    let report = one_thread().block_on(adaptive(40).for_each_async(
        0..2000,
        async |_| tokio::time::sleep(Duration::from_millis(2)).await,
        |_| (),
    ));
    assert_eq!(report.finished, 2000);
    assert!(
        (5..=40).contains(&report.most_running),
        "{} at most",
        report.most_running
    );
    assert!((1..=40).contains(&report.last_degree));
}

#[test]
fn an_object_may_have_its_own_asynchronous_processor() {
    let add = |i: i32| {
        async move |object: &mut i32| {
            tokio::task::yield_now().await;
            *object + i
        }
    };
    let mut sum = 0;
    let _ = one_thread().block_on(at_most(3).for_each_async(
        (0..40).map(|i| (i, add(i))),
        async |(object, processor)| processor(object).await,
        |done| sum += done.result,
    ));
    assert_eq!(sum, 1_560);
}

/// The runtime drops a task elsewhere, and what the task held panics.
#[test]
fn a_task_whose_drop_panics_leaves_nobody_waiting() {
    struct Angry;
    impl Drop for Angry {
        fn drop(&mut self) {
            panic!("the future");
        }
    }
    let caught = catch_unwind(|| {
        one_thread().block_on(at_most(1).for_each_spawned(
            |task| drop(std::thread::spawn(|| drop(task))),
            [1],
            |n| {
                let angry = Angry;
                async move {
                    std::future::pending::<()>().await;
                    drop(angry);
                    (n, ())
                }
            },
            |_| (),
        ))
    });
    let message = *caught.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.starts_with("a spawned task was dropped"), "{message}");
}
