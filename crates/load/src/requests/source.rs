//! Who asks next, and when: a schedule, or each after its answer and a thought.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter::Peekable;
use std::time::Duration;

use super::Pace;
use crate::arrivals::{Arrivals, Ramp, Schedule};

/// In a closed loop, until one whose connection failed tries again.
const PAUSE_NS: u64 = 10_000_000;

/// Between two looks at what is due and has no connection: nothing can be done for it but to count it.
const LOOK_NS: u64 = 100_000;

/// What became of a request, for who asks next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    Answered,
    Failed,
}

/// A request that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub connection: u32,
    pub intended_ns: u64,
    /// Whether this is seen for the first time: no connection was awaited for it.
    pub is_new: bool,
}

/// Who asks next, and when.
#[derive(Debug)]
pub(super) enum Source {
    Open {
        starts: Peekable<Starts>,
        /// Goes ahead of `starts` where no connection is free, so that each is seen in time.
        scout: Option<Scout>,
        /// Connections that may take one more request, one entry for each that they may.
        room: VecDeque<u32>,
    },
    Closed {
        /// Due now, in order.
        ready: VecDeque<(u64, u32)>,
        thinking: BinaryHeap<Reverse<(u64, u32)>>,
        think_ns: f64,
        arrivals: Arrivals,
        dice: fastrand::Rng,
        /// By connection, when it asks for the last time.
        until_ns: Vec<u64>,
    },
}

/// What of a schedule was seen ahead.
#[derive(Debug)]
pub(super) struct Scout {
    starts: Peekable<Starts>,
    /// How many starts were seen that have no connection yet.
    seen: u64,
}

/// A schedule that began then.
#[derive(Clone, Debug)]
pub(super) struct Starts {
    start_ns: u64,
    schedule: Schedule,
}

impl Iterator for Starts {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.schedule.next().map(|at_ns| self.start_ns + at_ns)
    }
}

impl Source {
    pub fn new(pace: Pace, ramp: Ramp, start_ns: u64, members: &[u32], pipeline: usize) -> Self {
        let each = || (0..pipeline).flat_map(|_| members.iter().copied());
        match pace {
            Pace::Open {
                per_second,
                arrivals,
                seed,
            } => Self::Open {
                starts: Starts {
                    start_ns,
                    schedule: Schedule::ramped(arrivals, per_second, ramp, seed),
                }
                .peekable(),
                scout: None,
                room: each().collect(),
            },
            Pace::Closed {
                think,
                arrivals,
                seed,
            } => {
                let many = members.len();
                let places = members.iter().last().map_or(0, |&last| last as usize + 1);
                let (mut begin_ns, mut until_ns) = (vec![0; places], vec![0; places]);
                for (i, &member) in members.iter().enumerate() {
                    begin_ns[member as usize] = start_ns + ramp.joins(i, many).as_nanos() as u64;
                    until_ns[member as usize] = start_ns + ramp.leaves(i, many).as_nanos() as u64;
                }
                let mut dice = fastrand::Rng::with_seed(seed);
                let think_ns = think.as_nanos() as f64;
                let thinking = each()
                    .map(|member| {
                        let first_ns = (think_ns * dice.f64()) as u64;
                        Reverse((begin_ns[member as usize] + first_ns, member))
                    })
                    .collect();
                Self::Closed {
                    ready: VecDeque::new(),
                    thinking,
                    think_ns,
                    arrivals,
                    dice,
                    until_ns,
                }
            }
        }
    }

    /// The next request that is due by now and has a connection.
    pub fn next(&mut self, now_ns: u64) -> Option<Due> {
        match self {
            Self::Open { starts, scout, room } => {
                let &connection = room.front()?;
                let intended_ns = starts.next_if(|&at_ns| at_ns <= now_ns)?;
                room.pop_front();
                let is_new = match scout {
                    None => true,
                    Some(Scout { seen: 0, .. }) => {
                        *scout = None;
                        true
                    }
                    Some(scout) => {
                        scout.seen -= 1;
                        false
                    }
                };
                Some(Due {
                    connection,
                    intended_ns,
                    is_new,
                })
            }
            Self::Closed { ready, thinking, .. } => {
                let (intended_ns, connection) = match ready.pop_front() {
                    Some(due) => due,
                    None => {
                        thinking.peek().filter(|Reverse((due_ns, _))| *due_ns <= now_ns)?;
                        thinking.pop()?.0
                    }
                };
                Some(Due {
                    connection,
                    intended_ns,
                    is_new: true,
                })
            }
        }
    }

    /// Tells of each that is due by now, has no connection, and was not told of before.
    pub fn none_free(&mut self, now_ns: u64, mut tell: impl FnMut(u64)) {
        if let Self::Open { starts, scout, room } = self
            && room.is_empty()
            && starts.peek().is_some_and(|&at_ns| at_ns <= now_ns)
        {
            let scout = scout.get_or_insert_with(|| Scout {
                starts: starts.clone(),
                seen: 0,
            });
            while let Some(intended_ns) = scout.starts.next_if(|&at_ns| at_ns <= now_ns) {
                scout.seen += 1;
                tell(intended_ns);
            }
        }
    }

    /// When to go on if nothing comes: when the next is due, also where no connection is free for it, so that this is
    /// seen in time. `None` if that depends on an answer.
    pub fn due_ns(&mut self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Open { starts, scout, room } => match scout {
                Some(scout) if room.is_empty() => {
                    let due_ns = scout.starts.peek()?;
                    Some((*due_ns).max(now_ns + LOOK_NS))
                }
                _ => starts.peek().copied(),
            },
            Self::Closed { ready, thinking, .. } => {
                let ready_ns = ready.front().map(|&(due_ns, _)| due_ns);
                ready_ns.or_else(|| thinking.peek().map(|Reverse((due_ns, _))| *due_ns))
            }
        }
    }

    /// This connection may ask again.
    pub fn freed(&mut self, connection: u32, now_ns: u64, how: Freed) {
        match self {
            Self::Open { room, .. } => room.push_back(connection),
            Self::Closed {
                ready,
                thinking,
                think_ns,
                arrivals,
                dice,
                until_ns,
            } => {
                let mut wait_ns = match *think_ns > 0.0 {
                    true => arrivals.distance(*think_ns, dice) as u64,
                    false => 0,
                };
                if how == Freed::Failed {
                    wait_ns = wait_ns.max(PAUSE_NS);
                }
                let due_ns = now_ns + wait_ns;
                if due_ns >= until_ns.get(connection as usize).copied().unwrap_or(0) {
                    return;
                }
                match wait_ns {
                    0 => ready.push_back((due_ns, connection)),
                    _ => thinking.push(Reverse((due_ns, connection))),
                }
            }
        }
    }

    /// Whether nothing more will be due, whatever is answered. In a closed loop: as long as nobody is freed.
    pub fn is_done(&mut self) -> bool {
        match self {
            Self::Open { starts, .. } => starts.peek().is_none(),
            Self::Closed { ready, thinking, .. } => ready.is_empty() && thinking.is_empty(),
        }
    }

    /// Nothing more is due.
    pub fn stop(&mut self) {
        match self {
            Self::Open { starts, scout, .. } => {
                *scout = None;
                let ended = Schedule::ramped(Arrivals::Uniform, 1.0, Ramp::hold(Duration::ZERO), 0);
                *starts = Starts {
                    start_ns: 0,
                    schedule: ended,
                }
                .peekable();
            }
            Self::Closed {
                ready,
                thinking,
                until_ns,
                ..
            } => {
                ready.clear();
                thinking.clear();
                until_ns.clear();
            }
        }
    }

    /// Tells of each that was to start before now and was not sent.
    pub fn never_sent(&mut self, now_ns: u64, mut tell: impl FnMut(u64)) {
        if let Self::Open { starts, .. } = self {
            while let Some(intended_ns) = starts.next_if(|&at_ns| at_ns <= now_ns) {
                tell(intended_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A start each millisecond, for ten.
    fn open(members: &[u32]) -> Source {
        let pace = Pace::Open {
            per_second: 1_000.0,
            arrivals: Arrivals::Uniform,
            seed: 1,
        };
        Source::new(pace, Ramp::hold(Duration::from_millis(10)), 0, members, 1)
    }

    const MS: u64 = 1_000_000;

    fn none_free(source: &mut Source, now_ms: u64) -> Vec<u64> {
        let mut told = Vec::new();
        source.none_free(now_ms * MS, |intended_ns| told.push(intended_ns / MS));
        told
    }

    /// When it was to start, and whether it was seen for the first time.
    fn next(source: &mut Source, now_ms: u64) -> Option<(u64, bool)> {
        let due = source.next(now_ms * MS)?;
        Some((due.intended_ns / MS, due.is_new))
    }

    #[test]
    fn each_start_is_seen_once_as_soon_as_it_is_due_whether_a_connection_is_free_or_not() {
        let mut source = open(&[7, 8]);
        assert_eq!((next(&mut source, 0), none_free(&mut source, 0)), (None, vec![]));
        assert_eq!(next(&mut source, 2), Some((1, true)));
        assert!(none_free(&mut source, 2).is_empty(), "one is free");
        assert_eq!(next(&mut source, 2), Some((2, true)));
        assert_eq!((next(&mut source, 2), none_free(&mut source, 2)), (None, vec![]));
        // Both are taken.
        assert_eq!(
            (next(&mut source, 3), source.due_ns(2 * MS)),
            (None, Some(3 * MS))
        );
        assert_eq!(none_free(&mut source, 3), [3]);
        assert_eq!(source.due_ns(3 * MS), Some(4 * MS), "it is seen in time");
        assert_eq!(source.due_ns(5 * MS), Some(5 * MS + LOOK_NS), "and not too often");
        assert!(none_free(&mut source, 3).is_empty());
        assert_eq!(none_free(&mut source, 5), [4, 5]);
        source.freed(7, 5 * MS, Freed::Answered);
        assert_eq!(next(&mut source, 5), Some((3, false)));
        assert_eq!(none_free(&mut source, 6), [6]);
        for _ in 0..4 {
            source.freed(8, 7 * MS, Freed::Answered);
        }
        assert_eq!(source.due_ns(7 * MS), Some(4 * MS), "at once");
        let all: Vec<_> = std::iter::from_fn(|| next(&mut source, 8)).collect();
        assert_eq!(all, [(4, false), (5, false), (6, false), (7, true)]);
        assert_eq!(none_free(&mut source, 9), [8, 9]);
        let mut left = Vec::new();
        source.never_sent(20 * MS, |intended_ns| left.push(intended_ns / MS));
        assert_eq!((left, source.is_done()), (vec![8, 9], true));
    }

    #[test]
    fn what_was_stopped_has_nothing_due() {
        let mut source = open(&[7]);
        assert_eq!(next(&mut source, 3), Some((1, true)));
        assert_eq!(none_free(&mut source, 3), [2, 3]);
        source.stop();
        source.freed(7, 3 * MS, Freed::Answered);
        assert!(source.is_done());
        assert_eq!((next(&mut source, 9), none_free(&mut source, 9)), (None, vec![]));
    }
}
