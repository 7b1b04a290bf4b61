//! A flag that a sleeper at a [`Notify`](crate::notify::Notify) waits for: raised before the sleeper is notified.
//!
//! No notification is lost as long as the news is published by a sequentially consistent exchange; this type is that
//! exchange. Who takes a flag down has seen all that was written before it was raised.

use crate::sync::{AtomicBool, Ordering, publish_flag};

#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    /// Raises it; notify the sleeper next.
    pub(crate) fn raise(&self) {
        publish_flag(&self.0, true);
    }

    /// Takes it down: whether it was up.
    pub(crate) fn take(&self) -> bool {
        // SeqCst: the sleeper's second look comes after its own flag (`Notify::wait`). Acquire, as part of it, pairs
        // with `raise`.
        self.0.swap(false, Ordering::SeqCst)
    }

    /// Whether it is up; it stays.
    pub(crate) fn is_up(&self) -> bool {
        // SeqCst: as in `take`.
        self.0.load(Ordering::SeqCst)
    }
}

/// How the pool uses its three flags. A lost wake-up is a deadlock, which loom reports.
#[cfg(all(test, loom))]
mod loom_models {
    use super::Flag;
    use crate::notify::Notify;
    use crate::ring::Ring;
    use loom::sync::{Arc, Mutex};

    /// `wake_pending`: a worker that ends wakes the caller, which sleeps for results or news; neither hides the other.
    #[test]
    fn loom_a_wake_up_beside_a_result_reaches_the_caller() {
        struct Side {
            ring: Ring<u32>,
            wake_pending: Flag,
            caller: Notify,
            running: Mutex<u32>,
        }
        let mut bounded = loom::model::Builder::new();
        bounded.preemption_bound = Some(3);
        bounded.check(|| {
            let shared = Arc::new(Side {
                ring: Ring::new(1),
                wake_pending: Flag::default(),
                caller: Notify::new(),
                running: Mutex::new(1),
            });
            shared.caller.attach();
            let theirs = Arc::clone(&shared);
            let worker = loom::thread::spawn(move || {
                // SAFETY: this thread alone pushes, once.
                #[allow(unsafe_code)]
                let pushed = unsafe { theirs.ring.push(7, 1) };
                assert!(pushed.is_ok());
                theirs.caller.notify();
                *theirs.running.lock().unwrap() -= 1;
                theirs.wake_pending.raise();
                theirs.caller.notify();
            });
            let mut results = 0;
            loop {
                // SAFETY: this thread alone drains.
                #[allow(unsafe_code)]
                let drained = unsafe { shared.ring.drain(usize::MAX, |result| assert_eq!(result, 7)) };
                results += drained;
                if drained > 0 {
                    continue;
                }
                if *shared.running.lock().unwrap() == 0 && shared.ring.len() == 0 {
                    break;
                }
                shared
                    .caller
                    .wait(|| shared.wake_pending.take() || shared.ring.len() > 0, None);
            }
            assert_eq!(results, 1);
            worker.join().unwrap();
        });
    }

    /// `recalled`: two workers that found nothing to claim, or somebody else at the iterator, put their names down
    /// under the lock and sleep; who changes what they may claim takes the names under the same lock, raises their
    /// flags and notifies them.
    #[test]
    fn loom_whoever_is_parked_is_recalled() {
        #[derive(Default)]
        struct Source {
            allowed: bool,
            parked: Vec<usize>,
        }
        struct Side {
            source: Mutex<Source>,
            slots: [(Flag, Notify); 2],
        }
        let mut bounded = loom::model::Builder::new();
        bounded.preemption_bound = Some(3);
        bounded.check(|| {
            let shared = Arc::new(Side {
                source: Mutex::new(Source::default()),
                slots: [(Flag::default(), Notify::new()), (Flag::default(), Notify::new())],
            });
            let workers = [0, 1].map(|number| {
                let theirs = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    let (recalled, worker) = &theirs.slots[number];
                    worker.attach();
                    loop {
                        {
                            let mut source = theirs.source.lock().unwrap();
                            if source.allowed {
                                return;
                            }
                            source.parked.push(number);
                        }
                        worker.wait(|| recalled.take(), None);
                    }
                })
            });
            let parked = {
                let mut source = shared.source.lock().unwrap();
                source.allowed = true;
                std::mem::take(&mut source.parked)
            };
            for number in parked {
                let (recalled, worker) = &shared.slots[number];
                recalled.raise();
                worker.notify();
            }
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }

    /// `abandoned`: the caller leaves without looking into a full ring again; one worker that waits for room and one
    /// that is parked both end.
    #[test]
    fn loom_a_caller_that_leaves_leaves_nobody_asleep() {
        struct Side {
            ring: Ring<u32>,
            abandoned: Flag,
            recalled: Flag,
            full: Notify,
            parked: Notify,
        }
        let mut bounded = loom::model::Builder::new();
        bounded.preemption_bound = Some(3);
        bounded.check(|| {
            let shared = Arc::new(Side {
                ring: Ring::new(1),
                abandoned: Flag::default(),
                recalled: Flag::default(),
                full: Notify::new(),
                parked: Notify::new(),
            });
            let theirs = Arc::clone(&shared);
            let full = loom::thread::spawn(move || {
                theirs.full.attach();
                for item in 0..2 {
                    // SAFETY: this thread alone pushes.
                    #[allow(unsafe_code)]
                    while unsafe { theirs.ring.push(item, 1) }.is_err() {
                        if theirs.abandoned.is_up() {
                            return;
                        }
                        theirs
                            .full
                            .wait(|| theirs.ring.len() == 0 || theirs.abandoned.is_up(), None);
                    }
                }
            });
            let theirs = Arc::clone(&shared);
            let parked = loom::thread::spawn(move || {
                theirs.parked.attach();
                theirs
                    .parked
                    .wait(|| theirs.recalled.take() || theirs.abandoned.is_up(), None);
            });
            shared.abandoned.raise();
            for worker in [&shared.full, &shared.parked] {
                worker.notify();
            }
            full.join().unwrap();
            parked.join().unwrap();
        });
    }
}
