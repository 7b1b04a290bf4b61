//! Who asks next, and when: a schedule, or each after its answer and a thought.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter::Peekable;
use std::time::Duration;

use super::Pace;
use crate::arrivals::{Arrivals, Ramp, Schedule};

/// In a closed loop, until one whose connection failed tries again.
const PAUSE_NS: u64 = 10_000_000;

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
    /// Since when there is a connection for it, where it had to wait for one; else 0.
    pub free_ns: u64,
}

/// Who asks next, and when.
#[derive(Debug)]
pub(super) enum Source {
    Open {
        starts: Peekable<Starts>,
        /// Connections that may take one more request, one entry for each that they may.
        room: VecDeque<u32>,
        /// Since when there is room.
        free_ns: u64,
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

/// A schedule that began then.
#[derive(Debug)]
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
                room: each().collect(),
                free_ns: 0,
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
            Self::Open {
                starts,
                room,
                free_ns,
            } => {
                let &connection = room.front()?;
                let intended_ns = starts.next_if(|&at_ns| at_ns <= now_ns)?;
                room.pop_front();
                Some(Due {
                    connection,
                    intended_ns,
                    free_ns: *free_ns,
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
                    free_ns: 0,
                })
            }
        }
    }

    /// When the next is due that has a connection; `None` if that depends on an answer.
    pub fn due_ns(&mut self) -> Option<u64> {
        match self {
            Self::Open { starts, room, .. } if !room.is_empty() => starts.peek().copied(),
            Self::Open { .. } => None,
            Self::Closed { ready, thinking, .. } => {
                let ready_ns = ready.front().map(|&(due_ns, _)| due_ns);
                ready_ns.or_else(|| thinking.peek().map(|Reverse((due_ns, _))| *due_ns))
            }
        }
    }

    /// This connection may ask again.
    pub fn freed(&mut self, connection: u32, now_ns: u64, how: Freed) {
        match self {
            Self::Open { room, free_ns, .. } => {
                if room.is_empty() {
                    *free_ns = now_ns;
                }
                room.push_back(connection);
            }
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
            Self::Open { starts, .. } => {
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
