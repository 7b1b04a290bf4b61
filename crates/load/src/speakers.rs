//! Who speaks next in a closed loop of groups, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Duration;

use crate::arrivals::{Arrivals, Ramp};

/// How long a member of a closed loop waits, from when all have its message to its next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Think {
    /// On average; zero: not at all.
    pub mean: Duration,
    /// Whether all waits are equally long.
    pub arrivals: Arrivals,
    /// Of the waits.
    pub seed: u64,
}

impl Think {
    pub(crate) const NONE: Self = Self {
        mean: Duration::ZERO,
        arrivals: Arrivals::Uniform,
        seed: 0,
    };
}

/// When a closed loop sends no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Members come one after the other while it rises and go in that order while it falls; no limit where `None`.
    pub ramp: Option<Ramp>,
    /// After so many messages of all together.
    pub most: u64,
    /// A member, after so many of its own.
    pub of_each: u64,
}

/// Members of a closed loop. Each has so many messages on their way, or thinks of the next.
#[derive(Debug)]
pub(crate) struct Speakers {
    /// Those who speak at once.
    ready: Vec<usize>,
    /// Those who think, by when they speak.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    think: Think,
    dice: fastrand::Rng,
    /// By member, when it speaks for the last time.
    until_ns: Vec<u64>,
    left: u64,
    left_of: Vec<u64>,
}

impl Speakers {
    /// All of them, each as often as it has messages on their way. It begins now.
    pub(crate) fn new(
        members: Range<usize>,
        outstanding: NonZeroUsize,
        think: Think,
        bounds: Bounds,
        now_ns: u64,
    ) -> Self {
        let many = members.len();
        let mut speakers = Self {
            ready: Vec::new(),
            thinking: BinaryHeap::new(),
            think,
            dice: fastrand::Rng::with_seed(think.seed),
            until_ns: vec![u64::MAX; many],
            left: bounds.most,
            left_of: vec![bounds.of_each; many],
        };
        let ramp = bounds.ramp.unwrap_or(Ramp::hold(Duration::ZERO));
        for member in members {
            if bounds.ramp.is_some() {
                speakers.until_ns[member] = now_ns + ramp.leaves(member, many).as_nanos() as u64;
            }
            let begin_ns = now_ns + ramp.joins(member, many).as_nanos() as u64;
            for _ in 0..outstanding.get() {
                // Not all think equally long before they speak first.
                let think_ns = think.mean.as_nanos() as f64 * speakers.dice.f64();
                match begin_ns + think_ns as u64 {
                    at_ns if at_ns == now_ns => speakers.ready.push(member),
                    at_ns => speakers.thinking.push(Reverse((at_ns, member))),
                }
            }
        }
        speakers
    }

    /// Tells of each who speaks now, and of when that was to be.
    pub(crate) fn speak(&mut self, now_ns: u64, mut speaks: impl FnMut(usize, u64)) {
        let mut ready = std::mem::take(&mut self.ready);
        for member in ready.drain(..) {
            if self.may_speak(member) {
                speaks(member, now_ns);
            }
        }
        // Its room is kept.
        self.ready = ready;
        while let Some(&Reverse((at_ns, member))) = self.thinking.peek()
            && at_ns <= now_ns
        {
            self.thinking.pop();
            if self.may_speak(member) {
                speaks(member, at_ns);
            }
        }
    }

    fn may_speak(&mut self, member: usize) -> bool {
        let may = self.left > 0 && self.left_of[member] > 0;
        if may {
            self.left -= 1;
            self.left_of[member] -= 1;
        }
        may
    }

    /// Nobody waits for a message of this member any more.
    pub(crate) fn freed(&mut self, member: usize, now_ns: u64) {
        let think_ns = match self.think.mean.is_zero() {
            true => 0,
            false => {
                let mean_ns = self.think.mean.as_nanos() as f64;
                self.think.arrivals.distance(mean_ns, &mut self.dice) as u64
            }
        };
        if now_ns + think_ns >= self.until_ns[member] {
            return;
        }
        match think_ns {
            0 => self.ready.push(member),
            _ => self.thinking.push(Reverse((now_ns + think_ns, member))),
        }
    }

    /// How long until one who thinks speaks; `None` where nobody does.
    pub(crate) fn pause(&self, now_ns: u64) -> Option<Duration> {
        let &Reverse((at_ns, _)) = self.thinking.peek()?;
        Some(Duration::from_nanos(at_ns.saturating_sub(now_ns)))
    }

    /// Whether nobody will speak who is not freed.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 || (self.ready.is_empty() && self.thinking.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: u64 = 1_000;
    const SECOND_NS: u64 = 1_000_000_000;

    fn speakers(outstanding: usize, think: Think, bounds: Bounds) -> Speakers {
        Speakers::new(
            0..4,
            NonZeroUsize::new(outstanding).unwrap(),
            think,
            bounds,
            NOW_NS,
        )
    }

    fn spoken(speakers: &mut Speakers, now_ns: u64) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        speakers.speak(now_ns, |member, at_ns| all.push((member, at_ns)));
        all
    }

    fn held(seconds: u64) -> Bounds {
        Bounds {
            ramp: Some(Ramp::hold(Duration::from_secs(seconds))),
            most: u64::MAX,
            of_each: u64::MAX,
        }
    }

    #[test]
    fn without_a_thought_who_is_freed_speaks_at_once_until_the_end() {
        let mut speakers = speakers(2, Think::NONE, held(1));
        assert_eq!(spoken(&mut speakers, NOW_NS).len(), 8);
        assert!(speakers.is_done(), "until somebody is freed");
        speakers.freed(3, 2 * NOW_NS);
        assert_eq!((speakers.is_done(), speakers.pause(2 * NOW_NS)), (false, None));
        assert_eq!(spoken(&mut speakers, 2 * NOW_NS), [(3, 2 * NOW_NS)]);
        speakers.freed(3, NOW_NS + SECOND_NS);
        assert!(speakers.is_done());
    }

    #[test]
    fn each_speaks_once_however_short_the_span() {
        let mut speakers = speakers(1, Think::NONE, held(0));
        assert_eq!(spoken(&mut speakers, NOW_NS).len(), 4);
    }

    #[test]
    fn who_thinks_speaks_when_it_has_thought_and_not_before() {
        let think = Think {
            mean: Duration::from_secs(1),
            arrivals: Arrivals::Uniform,
            seed: 7,
        };
        let mut speakers = speakers(1, think, held(10));
        assert!(spoken(&mut speakers, NOW_NS).is_empty());
        let first = speakers.pause(NOW_NS).unwrap();
        assert!(first > Duration::ZERO && first < Duration::from_secs(1));
        let first_ns = NOW_NS + first.as_nanos() as u64;
        let [(member, at_ns)] = spoken(&mut speakers, first_ns)[..] else {
            panic!("one is the first");
        };
        assert_eq!(at_ns, first_ns);
        spoken(&mut speakers, NOW_NS + SECOND_NS);
        speakers.freed(member, NOW_NS + SECOND_NS);
        assert_eq!(speakers.pause(NOW_NS + SECOND_NS), Some(Duration::from_secs(1)));
        assert!(!speakers.is_done());
        assert_eq!(
            spoken(&mut speakers, NOW_NS + 3 * SECOND_NS),
            [(member, NOW_NS + 2 * SECOND_NS)],
            "when it was to be"
        );
        speakers.freed(member, NOW_NS + 9 * SECOND_NS + 1);
        assert!(speakers.is_done(), "the next would be after the end");
    }

    #[test]
    fn members_come_and_go_with_the_ramp() {
        let second = Duration::from_secs(1);
        let ramp = Ramp {
            up: 4 * second,
            hold: second,
            down: 4 * second,
        };
        let bounds = Bounds {
            ramp: Some(ramp),
            ..held(0)
        };
        let mut speakers = speakers(1, Think::NONE, bounds);
        for member in 0..4 {
            let at_ns = NOW_NS + member as u64 * SECOND_NS;
            assert_eq!(spoken(&mut speakers, at_ns), [(member, at_ns)]);
        }
        let half_ns = NOW_NS + 13 * SECOND_NS / 2;
        (0..4).for_each(|member| speakers.freed(member, half_ns));
        let left: Vec<usize> = spoken(&mut speakers, half_ns)
            .iter()
            .map(|spoken| spoken.0)
            .collect();
        assert_eq!(left, [0, 1, 2], "who came last goes first");
    }

    #[test]
    fn bounds_end_it() {
        let bounds = Bounds {
            ramp: None,
            most: 6,
            of_each: 2,
        };
        let mut speakers = speakers(1, Think::NONE, bounds);
        assert_eq!(spoken(&mut speakers, NOW_NS).len(), 4);
        for _ in 0..2 {
            speakers.freed(0, NOW_NS);
        }
        assert_eq!(spoken(&mut speakers, NOW_NS).len(), 1, "its second");
        (1..4).for_each(|member| speakers.freed(member, NOW_NS));
        assert_eq!(spoken(&mut speakers, NOW_NS).len(), 1, "the sixth of all");
        speakers.freed(1, NOW_NS);
        assert!(speakers.is_done());
    }
}
