//! Thread pools that keep their threads: made once for the process, not for the call. Results come by the standard
//! library's channel, with a window as in [`crate::channels`].

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};

use crate::Call;
use crate::measure::Finisher;
use crate::work::Outcome;

/// Keeps `window` objects out until all are finished.
fn drive(
    call: Call,
    window: usize,
    finisher: &mut Finisher,
    results: &Receiver<Outcome>,
    mut submit: impl FnMut(u64),
) {
    let mut left = 0..call.objects;
    let mut out = 0;
    loop {
        for object in left.by_ref().take(window - out) {
            submit(object);
            out += 1;
        }
        if out == 0 {
            return;
        }
        finisher.finish(results.recv().expect("a sender is here"));
        out -= 1;
        for outcome in results.try_iter() {
            finisher.finish(outcome);
            out -= 1;
        }
    }
}

/// `rayon`: `in_place_scope`, which leaves the caller where it is.
pub fn rayon(call: Call, window: usize, finisher: &mut Finisher) {
    static POOL: OnceLock<rayon::ThreadPool> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(call.degree)
            .build()
            .expect("threads can be made")
    });
    let (sender, results) = channel();
    pool.in_place_scope(|scope| {
        drive(call, window, finisher, &results, |object| {
            let sender = sender.clone();
            scope.spawn(move |_| sender.send(call.work.run(object)).expect("the caller waits"));
        });
    });
}

/// `threadpool`.
pub fn threadpool(call: Call, window: usize, finisher: &mut Finisher) {
    static POOL: OnceLock<threadpool::ThreadPool> = OnceLock::new();
    let pool = POOL
        .get_or_init(|| threadpool::ThreadPool::new(call.degree))
        .clone();
    let (sender, results) = channel();
    drive(call, window, finisher, &results, |object| {
        let sender = sender.clone();
        pool.execute(move || sender.send(call.work.run(object)).expect("the caller waits"));
    });
}
