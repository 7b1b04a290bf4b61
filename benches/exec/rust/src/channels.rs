//! Scoped workers between two bounded channels, as people build it by hand.
//!
//! Never more than `window` objects are out, which bounds the memory. The caller hands out what the window allows,
//! sleeps for one result and takes what else is there.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::Call;
use crate::measure::Finisher;
use crate::work::Outcome;

/// A channel with both its ends.
trait Channel<T>: Send + Sync {
    fn bounded(room: usize) -> Self;
    fn send(&self, item: T);
    fn receive(&self) -> T;
    fn try_receive(&self) -> Option<T>;
}

struct Crossbeam<T>(crossbeam_channel::Sender<T>, crossbeam_channel::Receiver<T>);

impl<T: Send> Channel<T> for Crossbeam<T> {
    fn bounded(room: usize) -> Self {
        let (sender, receiver) = crossbeam_channel::bounded(room);
        Self(sender, receiver)
    }
    #[inline]
    fn send(&self, item: T) {
        self.0.send(item).expect("both ends are here");
    }
    #[inline]
    fn receive(&self) -> T {
        self.1.recv().expect("both ends are here")
    }
    #[inline]
    fn try_receive(&self) -> Option<T> {
        self.1.try_recv().ok()
    }
}

struct Kanal<T>(kanal::Sender<T>, kanal::Receiver<T>);

impl<T: Send> Channel<T> for Kanal<T> {
    fn bounded(room: usize) -> Self {
        let (sender, receiver) = kanal::bounded(room);
        Self(sender, receiver)
    }
    #[inline]
    fn send(&self, item: T) {
        self.0.send(item).expect("both ends are here");
    }
    #[inline]
    fn receive(&self) -> T {
        self.1.recv().expect("both ends are here")
    }
    #[inline]
    fn try_receive(&self) -> Option<T> {
        self.1.try_recv().ok().flatten()
    }
}

/// Its receiver is for one thread: the workers share it behind a lock, as the book on the language does.
struct Std<T>(SyncSender<T>, Mutex<Receiver<T>>);

impl<T: Send> Channel<T> for Std<T> {
    fn bounded(room: usize) -> Self {
        let (sender, receiver) = sync_channel(room);
        Self(sender, Mutex::new(receiver))
    }
    #[inline]
    fn send(&self, item: T) {
        self.0.send(item).ok().expect("both ends are here");
    }
    #[inline]
    fn receive(&self) -> T {
        self.1
            .lock()
            .expect("no panic here")
            .recv()
            .expect("both ends are here")
    }
    #[inline]
    fn try_receive(&self) -> Option<T> {
        self.1.lock().expect("no panic here").try_recv().ok()
    }
}

/// No object means: go home.
fn workers<Objects, Results>(call: Call, window: usize, finisher: &mut Finisher)
where
    Objects: Channel<Option<u64>>,
    Results: Channel<Outcome>,
{
    let objects = Objects::bounded(window.max(call.degree));
    let results = Results::bounded(window);
    std::thread::scope(|scope| {
        for _ in 0..call.degree {
            scope.spawn(|| {
                while let Some(object) = objects.receive() {
                    results.send(call.work.run(object));
                }
            });
        }
        let mut left = 0..call.objects;
        let mut out = 0;
        loop {
            for object in left.by_ref().take(window - out) {
                objects.send(Some(object));
                out += 1;
            }
            if out == 0 {
                break;
            }
            finisher.finish(results.receive());
            out -= 1;
            while let Some(outcome) = results.try_receive() {
                finisher.finish(outcome);
                out -= 1;
            }
        }
        (0..call.degree).for_each(|_| objects.send(None));
    });
}

/// crossbeam-channel.
pub fn crossbeam(call: Call, window: usize, finisher: &mut Finisher) {
    workers::<Crossbeam<_>, Crossbeam<_>>(call, window, finisher);
}

/// kanal.
pub fn kanal(call: Call, window: usize, finisher: &mut Finisher) {
    workers::<Kanal<_>, Kanal<_>>(call, window, finisher);
}

/// `std::sync::mpsc`.
pub fn std(call: Call, window: usize, finisher: &mut Finisher) {
    workers::<Std<_>, Std<_>>(call, window, finisher);
}
