//! Permits to have a connection open, taken before it is accepted: so the bound is a bound.
//!
//! A permit is also the connection's slot, one for the whole server: every loop finds what it has of a connection
//! under the same number, wherever its halves are and move to.

use std::sync::Mutex;

#[derive(Debug)]
pub(crate) struct Slots {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Slots given back, used again before new ones.
    free: Vec<u32>,
    /// How often each slot was used.
    generations: Vec<u32>,
    open: usize,
    /// Who was refused, and waits for one to come back.
    refused: Vec<usize>,
    /// Who found no descriptor or memory, and waits for a connection to end.
    exhausted: Vec<usize>,
    stopped: bool,
}

/// Leave to have one connection open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    pub slot: u32,
    pub generation: u32,
}

/// What giving a permit back brought about.
#[derive(Debug, Default)]
pub(crate) struct Released {
    /// Who can go on accepting.
    pub waiting: Vec<usize>,
    /// The server has stopped, and this was the last.
    pub was_last: bool,
}

impl Slots {
    /// `most` at once.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics here")
    }

    /// A permit for loop `taker`. `None`: all are out (it hears from the next [`release`](Self::release)), or the
    /// server has stopped.
    pub fn take(&self, taker: usize) -> Option<Permit> {
        let state = &mut *self.state();
        if state.stopped {
            return None;
        }
        if state.open >= self.most {
            note(&mut state.refused, taker);
            return None;
        }
        state.open += 1;
        let slot = state.free.pop().unwrap_or_else(|| {
            state.generations.push(0);
            (state.generations.len() - 1) as u32
        });
        Some(Permit {
            slot,
            generation: state.generations[slot as usize],
        })
    }

    /// Whether permits are all out, rather than no more.
    pub fn are_out(&self) -> bool {
        let state = self.state();
        state.open >= self.most && !state.stopped
    }

    /// Has `taker` hear from the next [`release`](Self::release), which may free the descriptor that it lacks.
    pub fn wait(&self, taker: usize) {
        note(&mut self.state().exhausted, taker);
    }

    /// Gives a permit back unused. Nobody is told who waits for more than a permit.
    pub fn put_back(&self, permit: Permit) -> Released {
        self.state().give_back(permit.slot)
    }

    /// A connection is gone from all loops, and its socket closed.
    pub fn release(&self, slot: u32) -> Released {
        let state = &mut *self.state();
        let mut released = state.give_back(slot);
        released.waiting.append(&mut state.exhausted);
        released
    }

    /// No more permits. `true`: none is out.
    pub fn stop(&self) -> bool {
        let state = &mut *self.state();
        state.stopped = true;
        state.open == 0
    }
}

impl State {
    fn give_back(&mut self, slot: u32) -> Released {
        self.open -= 1;
        self.generations[slot as usize] += 1;
        self.free.push(slot);
        Released {
            waiting: std::mem::take(&mut self.refused),
            was_last: self.stopped && self.open == 0,
        }
    }
}

fn note(list: &mut Vec<usize>, taker: usize) {
    if !list.contains(&taker) {
        list.push(taker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_there_may_be() {
        let slots = Slots::new(2);
        let first = slots.take(0).expect("free");
        assert!(!slots.are_out());
        let second = slots.take(1).expect("free");
        assert!(slots.are_out());
        assert_ne!(first.slot, second.slot);
        assert_eq!((slots.take(1), slots.take(1), slots.take(2)), (None, None, None));
        let released = slots.release(first.slot);
        assert_eq!((released.waiting, released.was_last), (vec![1, 2], false));
        assert!(!slots.are_out());
        let third = slots.take(1).expect("came back");
        assert_eq!((third.slot, third.generation), (first.slot, first.generation + 1));
        assert!(slots.are_out() && !slots.stop());
        assert!(!slots.are_out(), "there are no more");
        assert!(slots.release(second.slot).waiting.is_empty());
        assert_eq!(slots.take(0), None, "stopped");
        assert!(slots.release(third.slot).was_last);
    }

    #[test]
    fn who_lacks_a_descriptor_hears_of_ends_alone() {
        let slots = Slots::new(2);
        let connection = slots.take(0).expect("free");
        let unused = slots.take(1).expect("free");
        slots.wait(1);
        assert!(
            slots.put_back(unused).waiting.is_empty(),
            "or two such would wake each other for ever"
        );
        assert_eq!(slots.release(connection.slot).waiting, [1]);
    }
}
