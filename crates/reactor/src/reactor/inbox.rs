//! Tasks from other threads for one loop that sleeps in the kernel.
//!
//! Waking a loop is a system call, so it is made only when the loop may be asleep, and once for any number of tasks.
//! One atomic byte decides, and since all its changes are read-modify-writes they have one order that both sides
//! agree on:
//!
//! - the poster puts its tasks into the queue, *then* sets `TASKS`; if `ASLEEP` was set and `TASKS` was not, it wakes
//!   the loop;
//! - the loop sets `ASLEEP` before it waits, and does not wait if `TASKS` was set; after the wait it takes both bits
//!   back, and empties the queue if `TASKS` was among them.
//!
//! Of "set `TASKS`" and "set `ASLEEP`" one comes second, and who comes second sees the other: the poster wakes the
//! loop, or the loop does not sleep. Tasks of one poster stay in order, for the queue is one.

use crate::sync::{AtomicU8, Mutex, Ordering};

/// The loop waits, or is about to.
const ASLEEP: u8 = 1;
/// The queue has tasks that the loop has not been told of.
const TASKS: u8 = 2;

#[derive(Debug)]
pub(crate) struct Inbox<T> {
    queue: Mutex<Vec<T>>,
    state: AtomicU8,
}

impl<T> Inbox<T> {
    pub fn new() -> Self {
        Self {
            queue: Mutex::new(Vec::new()),
            state: AtomicU8::new(0),
        }
    }

    /// Puts tasks at the end. `true`: the loop must be woken.
    #[must_use]
    pub fn post(&self, tasks: impl IntoIterator<Item = T>) -> bool {
        self.queue.lock().expect("nobody panics here").extend(tasks);
        // AcqRel: pairs with the swaps of `before_wait` and `after_wait`, which see the tasks.
        self.state.fetch_or(TASKS, Ordering::AcqRel) == ASLEEP
    }

    /// Puts a task at the end that nobody is told of before the next [`post`](Self::post).
    pub fn post_without_wake(&self, task: T) {
        self.queue.lock().expect("nobody panics here").push(task);
    }

    /// Whether tasks have come since they were asked for last. Costs a load: it is asked for each receive.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        // Relaxed: see `after_wait`, which the loop calls next. Of a post that has come about before this, by whatever
        // way the loop has learned of it, an older value than its own is never read.
        self.state.load(Ordering::Relaxed) & TASKS != 0
    }

    /// The loop is about to wait. `false`: it must not, there are tasks. Either way
    /// [`after_wait`](Self::after_wait) comes next.
    pub fn before_wait(&self) -> bool {
        // AcqRel: pairs with `post`.
        self.state.fetch_or(ASLEEP, Ordering::AcqRel) & TASKS == 0
    }

    /// The loop has waited, or only looked, and does not sleep. Whether there are tasks to [`take`](Self::take).
    pub fn after_wait(&self) -> bool {
        // Nothing is lost if this sees an old value: the next `before_wait` sees the newest.
        if self.state.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // AcqRel: pairs with `post`.
        self.state.swap(0, Ordering::AcqRel) & TASKS != 0
    }

    /// Exchanges the queue for `tasks`, which is empty.
    pub fn take(&self, tasks: &mut Vec<T>) {
        debug_assert!(tasks.is_empty());
        std::mem::swap(&mut *self.queue.lock().expect("nobody panics here"), tasks);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_wakes_nobody_and_keeps_its_place() {
        let inbox = Inbox::new();
        assert!(inbox.before_wait());
        inbox.post_without_wake(1);
        assert!(!inbox.after_wait(), "nobody is told");
        assert!(inbox.before_wait(), "it may sleep");
        assert!(inbox.post([2]));
        assert!(inbox.after_wait());
        let mut tasks = Vec::new();
        inbox.take(&mut tasks);
        assert_eq!(tasks, [1, 2]);
    }

    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let inbox = Inbox::new();
        assert!(!inbox.post([1]), "awake");
        assert!(!inbox.before_wait(), "there is a task");
        assert!(inbox.after_wait());
        let mut tasks = Vec::new();
        inbox.take(&mut tasks);
        assert_eq!(tasks, [1]);
        assert!(inbox.before_wait());
        assert!(inbox.post([2, 3]), "asleep");
        assert!(!inbox.post([4]), "woken already");
        assert!(inbox.after_wait());
        tasks.clear();
        inbox.take(&mut tasks);
        assert_eq!(tasks, [2, 3, 4]);
        assert!(!inbox.after_wait());
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::{Arc, Condvar};
    use loom::thread;

    use super::*;

    /// The kernel's side: a count that wakes, as an eventfd in an epoll set.
    #[derive(Default)]
    struct WakeFd(Mutex<bool>, Condvar);

    impl WakeFd {
        fn notify(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_one();
        }

        fn wait(&self) {
            let mut notified = self.0.lock().unwrap();
            while !*notified {
                notified = self.1.wait(notified).unwrap();
            }
            *notified = false;
        }
    }

    /// All arrive, in each poster's order, and nobody sleeps for ever (loom fails on a deadlock).
    fn all_arrive(posters: u32, tasks_each: u32) {
        loom::model(move || {
            let shared = Arc::new((Inbox::new(), WakeFd::default()));
            let threads: Vec<_> = (0..posters)
                .map(|poster| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        for task in 0..tasks_each {
                            if shared.0.post([(poster, task)]) {
                                shared.1.notify();
                            }
                        }
                    })
                })
                .collect();
            let (mut next, mut tasks) = (vec![0; posters as usize], Vec::new());
            while next.iter().any(|&next| next < tasks_each) {
                if shared.0.before_wait() {
                    shared.1.wait();
                }
                let mut has_tasks = shared.0.after_wait();
                while has_tasks {
                    shared.0.take(&mut tasks);
                    for (poster, task) in tasks.drain(..) {
                        assert_eq!(task, next[poster as usize]);
                        next[poster as usize] += 1;
                    }
                    // As in the midst of a turn.
                    has_tasks = shared.0.has_tasks() && shared.0.after_wait();
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_one_posts_twice() {
        all_arrive(1, 2);
    }

    #[test]
    fn loom_two_post_at_once() {
        all_arrive(2, 1);
    }
}
