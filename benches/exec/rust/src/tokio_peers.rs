//! Tokio: a stream of join handles through `buffer_unordered`, polled on the caller's thread.

use std::sync::OnceLock;

use futures_util::{StreamExt, stream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::Call;
use crate::measure::Finisher;
use crate::work::Outcome;

fn drive(
    runtime: &Runtime,
    call: Call,
    window: usize,
    finisher: &mut Finisher,
    spawn: impl Fn(u64) -> JoinHandle<Outcome>,
) {
    runtime.block_on(async {
        let mut results = stream::iter(0..call.objects).map(spawn).buffer_unordered(window);
        while let Some(outcome) = results.next().await {
            finisher.finish(outcome.expect("no panic here"));
        }
    });
}

/// `spawn_blocking` on at most k threads.
pub fn blocking(call: Call, window: usize, finisher: &mut Finisher) {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(call.degree)
            .build()
            .expect("a runtime")
    });
    drive(runtime, call, window, finisher, |object| {
        tokio::task::spawn_blocking(move || call.work.run(object))
    });
}

/// Tasks on k worker threads. Processors that block hold a worker up; that keeps the bound.
pub fn tasks(call: Call, window: usize, finisher: &mut Finisher) {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .enable_all()
            .worker_threads(call.degree)
            .build()
            .expect("a runtime")
    });
    drive(runtime, call, window, finisher, |object| {
        tokio::spawn(async move { call.work.run(object) })
    });
}
