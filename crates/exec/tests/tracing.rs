//! What a `tracing` subscriber sees.
#![cfg(all(feature = "tracing", not(loom)))]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use threadgauge_exec::ConcurrentExecution;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

#[derive(Default)]
struct Seen {
    spans: AtomicU64,
    entered: AtomicUsize,
    exited: AtomicUsize,
    indices: Mutex<Vec<u64>>,
}

#[derive(Clone, Default)]
struct Collector(Arc<Seen>);

struct Index<'s>(&'s Mutex<Vec<u64>>);

impl Visit for Index<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "index" {
            self.0.lock().unwrap().push(value);
        }
    }
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "threadgauge_exec"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.0.spans.fetch_add(1, SeqCst) + 1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Index(&self.0.indices));
    }
    fn enter(&self, _: &Id) {
        self.0.entered.fetch_add(1, SeqCst);
    }
    fn exit(&self, _: &Id) {
        self.0.exited.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_call_is_a_span_and_an_object_an_event() {
    let collector = Collector::default();
    let seen = Arc::clone(&collector.0);
    tracing::subscriber::with_default(collector, || {
        let _ = ConcurrentExecution::new(NonZeroUsize::new(2).unwrap()).for_each(0..20, |_| (), |_| ());
    });
    assert_eq!(seen.spans.load(SeqCst), 1);
    // The caller, and each processor on whatever thread.
    assert_eq!((seen.entered.load(SeqCst), seen.exited.load(SeqCst)), (21, 21));
    let mut indices = seen.indices.lock().unwrap().clone();
    indices.sort_unstable();
    assert!(indices.into_iter().eq(0..20));
}

#[cfg(all(feature = "process", unix))]
#[test]
fn a_call_on_helper_processes_is_a_span_too() {
    use threadgauge_exec::process::Processor;

    static NOTHING: Processor<u32, Result<(), ()>> = Processor::new("nothing", |_| Ok(()));
    let collector = Collector::default();
    let seen = Arc::clone(&collector.0);
    tracing::subscriber::with_default(collector, || {
        // Without a program there is no helper, and nothing to wait for.
        let processes = ConcurrentExecution::new(NonZeroUsize::MIN)
            .processes()
            .program("/nowhere");
        let _ = processes.for_each(0..3, &NOTHING, |_| ());
        let _ = processes.try_for_each(0..3, &NOTHING, |_| ());
    });
    assert_eq!(seen.spans.load(SeqCst), 2);
    assert_eq!((seen.entered.load(SeqCst), seen.exited.load(SeqCst)), (2, 2));
}
