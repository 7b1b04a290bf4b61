//! Two runs that take turns, try by try, so that both meet the same moments of the machine.
//!
//! A machine's speed changes within minutes, and the figures of a whole run with it. So of two runs one after the
//! other, one has the better minutes. In turns, each try of one run is next to the same try of the other, and `compare`
//! pairs the two by round (METHOD rule 5). For the same reason Bulej et al., *Duet benchmarking* (2020), run both at
//! the same moment. That needs CPUs for each, and here a case has all of them.
//!
//! Both runs have the same plan and seed, and so the same order. Each says which try it takes next. The run whose next
//! try is earlier goes first; for the same try they alternate. So a try that only one run needs delays the other by
//! that try alone. What a run says never goes back: a repeat of an earlier try is said as the place where it is taken.
//! Else the other run, having heard of a later try, would be measuring by then. When one run ends, the other goes on
//! alone.
//!
//! Two states of one machine may have other CPUs, and so other cases and another reference case. Of their plans both
//! measure what is [common](Common) to both.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use threadgauge_machine::{Peer, usage_children, usage_self};
use threadgauge_results::outside::clean;

use crate::launch::{Interrupts, Waited};

/// The most that one message may take, bytes. The plan of all experiments in the paper profile takes a tenth of it.
const MESSAGE_LIMIT: usize = 4 << 20;

/// A greeting must begin, and any message be complete, within this time: the other run writes it at once.
const WHOLE_WITHIN: Duration = Duration::from_secs(10);

/// How turns are taken; to be changed with what the runs say. 0, which is not said, let tries overlap after repeats.
pub const PROTOCOL: u32 = 1;

/// Why the two runs cannot take turns.
#[derive(Debug, thiserror::Error)]
pub enum TurnsError {
    /// The meeting point cannot be made or reached.
    #[error("--turns {}: {why}", at.display())]
    Meeting {
        /// Where.
        at: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// The path exists, and no run listens on it.
    #[error("--turns {} is there already and no run waits there; remove it, or give both runs another path", .0.display())]
    NobodyThere(PathBuf),
    /// The other run ended before both had met.
    #[error("--turns {}: the other run went away before both had met", .0.display())]
    WentAway(PathBuf),
    /// Whoever is there cannot be met.
    #[error("--turns {}: {who} is there and {why}", at.display())]
    Unfit {
        /// Where.
        at: PathBuf,
        /// Who it is.
        who: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What was received is no greeting.
    #[error("--turns {}: who answered there does not speak as this run does ({why})", at.display())]
    Stranger {
        /// Where.
        at: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The two would measure different things.
    #[error(
        "the run to take turns with {0}; give both the same experiments, profile, --rounds, --only, --set and --cpus"
    )]
    OtherPlan(String),
    /// Two states of a machine have no common plan.
    #[error("the two states {0}")]
    OtherStates(&'static str),
    /// The other is of a version that takes turns in another way.
    #[error(
        "the run to take turns with is of a version of threadgauge that takes turns in another way than this one; give both a version that takes them in the same way, or measure one after the other without --turns"
    )]
    OtherProtocol,
    /// Both were given a seed, and the seeds differ.
    #[error(
        "the run to take turns with has the seed {theirs} and this one was given --seed {ours}; give it to one of them, or the same to both"
    )]
    OtherSeed {
        /// The seed given here.
        ours: u64,
        /// The seed given there.
        theirs: u64,
    },
    /// The user stopped it.
    #[error("interrupted before the other run came; nothing was measured")]
    Interrupted,
}

/// A place in the common plan. The earlier one is the smaller value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Turn {
    /// The experiment, counted in the run's order.
    pub experiment: usize,
    /// The round.
    pub round: u32,
    /// The place in the round's order; beyond the last one while repeats are taken after the round.
    pub place: usize,
}

/// What two runs say when they meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// [`PROTOCOL`], of its version.
    #[serde(default)]
    pub protocol: u32,
    /// The run's id.
    pub id: String,
    /// The seed that the user gave, if any.
    pub seed: Option<u64>,
    /// The seed for both, where no user gave one.
    pub proposed: u64,
    /// `quick`, `standard` or `paper`, and the rounds asked for.
    pub profile: (String, Option<u32>),
    /// Every case that is measured and every reference case, in order, and how many tries a sample takes. Of a state
    /// the cases alone, each with the tries that it takes by itself.
    pub plan: Vec<(String, u32)>,
    /// Where it is one of two states of the machine: the reference cases.
    pub references: Option<BTreeSet<String>>,
}

/// What two states of the machine both have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// The cases, and how many tries a sample takes: as few as in either.
    pub cases: BTreeMap<String, u32>,
    /// Those that are the reference cases of both.
    pub references: BTreeSet<String>,
}

impl Greeting {
    /// The seed of both, and what both have where they are two states, if they agree.
    fn agree(&self, theirs: &Self, opened: bool) -> Result<(u64, Option<Common>), TurnsError> {
        if self.protocol != theirs.protocol {
            return Err(TurnsError::OtherProtocol);
        }
        if self.profile != theirs.profile {
            return Err(TurnsError::OtherPlan(
                "has another profile or other --rounds".to_owned(),
            ));
        }
        let common = match (&self.references, &theirs.references) {
            (Some(ours), Some(of_other)) => Some(Common {
                cases: self.common_cases(theirs)?,
                references: ours & of_other,
            }),
            _ => match self.difference(theirs) {
                Some(difference) => return Err(TurnsError::OtherPlan(difference)),
                None => None,
            },
        };
        let seed = match (self.seed, theirs.seed) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                return Err(TurnsError::OtherSeed { ours, theirs });
            }
            (Some(seed), _) | (_, Some(seed)) => seed,
            (None, None) if opened => self.proposed,
            (None, None) => theirs.proposed,
        };
        Ok((seed, common))
    }

    /// The cases of both, and of each as few tries as either has. They must come in the same order in both plans: else
    /// the same seed would not give both the same rounds.
    fn common_cases(&self, theirs: &Self) -> Result<BTreeMap<String, u32>, TurnsError> {
        let [ours, of_other] = [self, theirs].map(|of| of.plan.iter().cloned().collect::<BTreeMap<_, _>>());
        let in_order = |of: &Self, other: &BTreeMap<String, u32>| -> Vec<String> {
            let cases = of.plan.iter().map(|(case, _)| case);
            cases.filter(|case| other.contains_key(*case)).cloned().collect()
        };
        let common = in_order(self, &of_other);
        if common.is_empty() {
            return Err(TurnsError::OtherStates(
                "have no case in common; choose other experiments, or other cases by --only",
            ));
        }
        if common != in_order(theirs, &ours) {
            return Err(TurnsError::OtherStates(
                "have their common cases in different orders; choose fewer of them by --only",
            ));
        }
        let tries = common.into_iter().map(|case| {
            let fewest = ours[&case].min(of_other[&case]);
            (case, fewest)
        });
        Ok(tries.collect())
    }

    /// With the words that are shown to the user [cleaned](clean): they are somebody else's.
    fn cleaned(mut self) -> Self {
        self.id = clean(&self.id);
        for (case, _) in &mut self.plan {
            *case = clean(case);
        }
        self
    }

    /// How the other run's plan differs, if it does.
    fn difference(&self, theirs: &Self) -> Option<String> {
        if self.plan == theirs.plan {
            return None;
        }
        let tries = |plan: &[(String, u32)], case: &str| {
            let found = plan.iter().find(|(other, _)| other == case);
            found.map(|(_, tries)| *tries)
        };
        for (case, ours) in &self.plan {
            match tries(&theirs.plan, case) {
                None => return Some(format!("does not measure {case}")),
                Some(n) if n != *ours => {
                    return Some(format!("tries {case} {n} times, and this one {ours} times"));
                }
                Some(_) => {}
            }
        }
        let more = theirs
            .plan
            .iter()
            .find(|(case, _)| tries(&self.plan, case).is_none());
        Some(match more {
            Some((case, _)) => format!("measures {case}, which this one does not"),
            None => "has the same cases in another order, or another reference case".to_owned(),
        })
    }
}

/// What a run says between its tries.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Word {
    /// The try it takes next; `None` at its end.
    next: Option<Turn>,
    /// Before a round: whether the run would start it if it were alone.
    another_round: Option<bool>,
    /// The CPU time that it and its workers have used so far, ns. The other run must not count it as foreign load.
    cpu_ns: u64,
}

/// Whether a turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It has.
    Mine,
    /// It has, since the other run went away before its end. Reported once.
    LeftAlone,
    /// The user wants to stop.
    Interrupted,
}

/// The other run.
#[derive(Debug)]
struct Other {
    peer: Peer,
    /// Whether this run was there first.
    opened: bool,
    /// Its last message: the next try in it is the one it waits for or is taking.
    said: Word,
}

/// A run's side of taking turns, with another run or alone.
#[derive(Debug)]
pub struct Turns {
    other: Option<Other>,
    /// How long the other may take for one try.
    patience: Duration,
    /// Whether the other run went away and this has not been reported yet.
    was_left: bool,
}

/// Two runs have met.
#[derive(Debug)]
pub struct Met {
    /// To take turns with.
    pub turns: Turns,
    /// The id of the other run.
    pub id: String,
    /// The seed of both.
    pub seed: u64,
    /// What both measure, where they are two states of the machine.
    pub common: Option<Common>,
    /// Who the other is.
    pub who: String,
}

impl Turns {
    /// For a run by itself: it never waits for a turn.
    #[must_use]
    pub const fn alone() -> Self {
        Self {
            other: None,
            patience: Duration::ZERO,
            was_left: false,
        }
    }

    /// Waits at the path `at` for the other run, or meets the one that waits there. Later it waits for a try of the
    /// other's for so long as `patience` says, and then goes on alone.
    ///
    /// # Errors
    ///
    /// When the path cannot be used, the runs do not match, whoever is there is another user's or says nothing, or the
    /// user stops waiting.
    pub fn meet(
        at: &Path,
        greeting: &Greeting,
        patience: Duration,
        interrupts: &mut Interrupts,
    ) -> Result<Met, TurnsError> {
        Self::meet_within(WHOLE_WITHIN, at, greeting, patience, interrupts)
    }

    fn meet_within(
        within: Duration,
        at: &Path,
        greeting: &Greeting,
        patience: Duration,
        interrupts: &mut Interrupts,
    ) -> Result<Met, TurnsError> {
        let meeting = |why| TurnsError::Meeting {
            at: at.to_owned(),
            why,
        };
        let (peer, opened) = match UnixListener::bind(at) {
            Ok(listener) => {
                let came = accept(&listener, within, interrupts).map_err(meeting);
                // The path is no longer needed, and would be in the way of the next two runs.
                let _ = std::fs::remove_file(at);
                (came?.ok_or(TurnsError::Interrupted)?, true)
            }
            Err(e) if e.kind() == ErrorKind::AddrInUse => match Peer::at(at, MESSAGE_LIMIT, within) {
                Ok(peer) => (peer, false),
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    return Err(TurnsError::NobodyThere(at.to_owned()));
                }
                Err(e) => return Err(meeting(e)),
            },
            Err(e) => return Err(meeting(e)),
        };
        let who = clean(&peer.to_string());
        let unfit = |why| TurnsError::Unfit {
            at: at.to_owned(),
            who: who.clone(),
            why,
        };
        if !peer.is_of_this_user() {
            return Err(unfit("only runs of one user take turns"));
        }
        let mut other = Other {
            peer,
            opened,
            // Rounds are counted from 1: this is before all of them.
            said: Word {
                next: Some(Turn::default()),
                ..Word::default()
            },
        };
        let stranger = |why: io::Error| match why.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                TurnsError::WentAway(at.to_owned())
            }
            _ => TurnsError::Stranger {
                at: at.to_owned(),
                why: clean(&why.to_string()),
            },
        };
        // One after the other: two long plans sent at once could fill the socket from both ends.
        if opened {
            other.peer.say(greeting).map_err(stranger)?;
        }
        match interrupts.wait_for(&other.peer, within) {
            Waited::Ready => {}
            Waited::Late => return Err(unfit("says nothing; end it, or give both runs another path")),
            Waited::Interrupted => return Err(TurnsError::Interrupted),
        }
        let theirs = other.peer.hear::<Greeting>().map_err(stranger)?.cleaned();
        if !opened {
            other.peer.say(greeting).map_err(stranger)?;
        }
        let (seed, common) = greeting.agree(&theirs, opened)?;
        Ok(Met {
            seed,
            common,
            id: theirs.id,
            turns: Self {
                other: Some(other),
                patience,
                was_left: false,
            },
            who,
        })
    }

    /// Waits until the other run is not before `turn`, which is not before that of the last call. From then until the
    /// next call only this run measures.
    pub fn take(&mut self, turn: Turn, interrupts: &mut Interrupts) -> Taken {
        let first = |other: &Other| !other.is_before(Some(turn));
        if !self.say_and_hear(Some(turn), None, interrupts, first) {
            Taken::Interrupted
        } else if std::mem::take(&mut self.was_left) {
            Taken::LeftAlone
        } else {
            Taken::Mine
        }
    }

    /// Whether the round that begins with `turn` is taken. Where one of the runs wants it, both take it, since a round
    /// that only one has cannot be paired. Also true where the user wants to stop.
    pub fn agree(&mut self, turn: Turn, another_round: bool, interrupts: &mut Interrupts) -> bool {
        let answer = |other: &Other| other.said.another_round.filter(|_| other.said.next == Some(turn));
        // A run that has come to this turn without a word, or is beyond it, says nothing about it any more.
        let has_come = |other: &Other| other.said.next.is_none_or(|theirs| theirs >= turn);
        let heard = self.say_and_hear(Some(turn), Some(another_round), interrupts, has_come);
        another_round || self.other.as_ref().and_then(answer) == Some(true) || !heard
    }

    /// Waits until the other run has taken its last sample too: the work after measuring would disturb it.
    pub fn end(&mut self, interrupts: &mut Interrupts) {
        self.say_and_hear(None, None, interrupts, |other| !other.is_before(None));
        // If the other ended first, it waits for this connection to close.
        self.other = None;
    }

    /// The CPU time that the other run and its workers had used when it was last at work.
    #[must_use]
    pub fn cpu_of_the_other(&self) -> Duration {
        self.other
            .as_ref()
            .map_or(Duration::ZERO, |other| Duration::from_nanos(other.said.cpu_ns))
    }

    /// Says where this run is, then listens until `enough` is known of the other run or it is gone. False when the user
    /// wants to stop.
    fn say_and_hear(
        &mut self,
        next: Option<Turn>,
        another_round: Option<bool>,
        interrupts: &mut Interrupts,
        enough: impl Fn(&Other) -> bool,
    ) -> bool {
        let Some(other) = self.other.as_mut().filter(|other| other.said.next.is_some()) else {
            return true;
        };
        let cpu = usage_self().cpu() + usage_children().cpu();
        let word = Word {
            next,
            another_round,
            cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
        };
        let mut there = other.peer.say(&word);
        while there.is_ok() && other.said.next.is_some() && !enough(other) {
            let waited = match other.peer.has_said_more() {
                true => Waited::Ready,
                false => interrupts.wait_for(&other.peer, self.patience),
            };
            there = match waited {
                Waited::Ready => other.peer.hear().map(|word| other.said = word),
                Waited::Late => Err(ErrorKind::TimedOut.into()),
                Waited::Interrupted => return false,
            };
        }
        if there.is_err() {
            // Should it only have been silent, it sees that it is alone as well.
            other.peer.leave();
            // Its CPU time so far stays known, since earlier readings are compared with later ones.
            other.said.next = None;
            self.was_left = true;
        }
        true
    }
}

/// The next process of this user that comes; none if the user wants to stop. Whoever else comes is sent away.
fn accept(
    listener: &UnixListener,
    within: Duration,
    interrupts: &mut Interrupts,
) -> io::Result<Option<Peer>> {
    while interrupts.wait_for(listener, Duration::MAX) == Waited::Ready {
        let peer = Peer::of(listener.accept()?.0, MESSAGE_LIMIT, within)?;
        if peer.is_of_this_user() {
            return Ok(Some(peer));
        }
    }
    Ok(None)
}

impl Other {
    /// Whether the other run goes first. A run at its end never does.
    fn is_before(&self, mine: Option<Turn>) -> bool {
        match (self.said.next, mine) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(theirs), Some(mine)) => match theirs.cmp(&mine) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => {
                    let even = (mine.place + mine.round as usize).is_multiple_of(2);
                    even != self.opened
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::sync::Mutex;
    use std::thread;

    use proptest::prelude::*;

    use threadgauge_results::outside::steers;

    use super::*;

    /// Longer than any test.
    const PATIENCE: Duration = Duration::from_secs(600);

    /// A user who never asks to stop; the stream must stay open for that.
    fn nobody() -> (UnixStream, Interrupts) {
        let (write, read) = UnixStream::pair().unwrap();
        (write, Interrupts::new(read).unwrap())
    }

    fn greeting(id: &str, seed: Option<u64>) -> Greeting {
        Greeting {
            protocol: PROTOCOL,
            id: id.to_owned(),
            seed,
            proposed: u64::from(id.as_bytes()[0]),
            profile: ("quick".to_owned(), None),
            plan: vec![("e/a=1".to_owned(), 1), ("e/a=2".to_owned(), 3)],
            references: None,
        }
    }

    fn meet_both(a: &Greeting, b: &Greeting) -> [Result<Met, TurnsError>; 2] {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("turns");
        let meet = |greeting: &Greeting| {
            let (_user, mut interrupts) = nobody();
            Turns::meet(&at, greeting, PATIENCE, &mut interrupts)
        };
        let both = thread::scope(|scope| {
            let first = scope.spawn(|| meet(a));
            [meet(b), first.join().unwrap()]
        });
        assert!(!at.exists(), "the meeting point is taken away");
        let [b, a] = both;
        [a, b]
    }

    fn two() -> [Turns; 2] {
        meet_both(&greeting("a", None), &greeting("b", None)).map(|met| met.unwrap().turns)
    }

    fn at(round: u32, place: usize) -> Turn {
        Turn {
            experiment: 0,
            round,
            place,
        }
    }

    /// What the two took, in the order in which they took it. A turn is over when it has been written down.
    fn taken(of_a: &[Turn], of_b: &[Turn]) -> Vec<(Turn, char)> {
        let log = Mutex::new(Vec::new());
        let take_all = |mut turns: Turns, wanted: &[Turn], name| {
            let (_user, mut interrupts) = nobody();
            for &turn in wanted {
                assert_eq!(turns.take(turn, &mut interrupts), Taken::Mine);
                log.lock().unwrap().push((turn, name));
            }
            turns.end(&mut interrupts);
        };
        let [a, b] = two();
        thread::scope(|scope| {
            scope.spawn(|| take_all(a, of_a, 'a'));
            take_all(b, of_b, 'b');
        });
        log.into_inner().unwrap()
    }

    #[test]
    fn the_same_try_of_both_lies_side_by_side_and_each_is_the_first_in_its_turn() {
        let all: Vec<Turn> = (0..6).map(|place| at(1, place)).collect();
        let log = taken(&all, &all);
        for (place, pair) in log.chunks(2).enumerate() {
            assert_eq!([pair[0].0, pair[1].0], [at(1, place); 2]);
        }
        let first: Vec<char> = log.chunks(2).map(|pair| pair[0].1).collect();
        assert!(first.windows(2).all(|two| two[0] != two[1]), "{first:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn whatever_either_leaves_out_the_earlier_goes_first(
            a in prop::collection::btree_set((1..4_u32, 0..9_usize), 0..20),
            b in prop::collection::btree_set((1..4_u32, 0..9_usize), 0..20),
        ) {
            let turns = |of: &BTreeSet<(u32, usize)>| -> Vec<Turn> {
                of.iter().map(|&(round, place)| at(round, place)).collect()
            };
            let log = taken(&turns(&a), &turns(&b));
            prop_assert_eq!(log.len(), a.len() + b.len());
            prop_assert!(log.windows(2).all(|two| two[0].0 <= two[1].0), "{:?}", log);
        }
    }

    #[test]
    fn the_earlier_try_goes_first_and_of_the_same_one_each_run_in_its_turn() {
        let [mut turns, _other] = two();
        let other = turns.other.as_mut().unwrap();
        let mut is_before = |opened, theirs, mine| {
            (other.opened, other.said.next) = (opened, theirs);
            other.is_before(mine)
        };
        let (early, late) = (Some(at(1, 5)), Some(at(2, 0)));
        for opened in [true, false] {
            for (theirs, mine) in [(early, late), (early, None)] {
                assert!(is_before(opened, theirs, mine), "{theirs:?} {mine:?}");
                assert!(!is_before(opened, mine, theirs), "{mine:?} {theirs:?}");
            }
            assert!(!is_before(opened, None, None));
        }
        // The run that was there first begins where place and round together are even.
        for (round, place, begins) in [(1, 1, true), (1, 2, false), (2, 2, true), (2, 3, false)] {
            let same = Some(at(round, place));
            let waits = [true, false].map(|opened| is_before(opened, same, same));
            assert_eq!(waits, [!begins, begins], "{same:?}");
        }
    }

    #[test]
    fn a_round_that_one_of_them_wants_is_taken_by_both() {
        for (wants_a, wants_b) in [(true, false), (false, true), (true, true), (false, false)] {
            let agree = |mut turns: Turns, wants| {
                let (_user, mut interrupts) = nobody();
                let agreed = turns.agree(at(2, 0), wants, &mut interrupts);
                turns.end(&mut interrupts);
                agreed
            };
            let [a, b] = two();
            let agreed = thread::scope(|scope| {
                let of_a = scope.spawn(|| agree(a, wants_a));
                [agree(b, wants_b), of_a.join().unwrap()]
            });
            assert_eq!(agreed, [wants_a || wants_b; 2]);
        }
    }

    #[test]
    fn who_is_beyond_a_round_is_not_asked_for_it() {
        let [mut a, mut b] = two();
        thread::scope(|scope| {
            scope.spawn(move || {
                let (_user, mut interrupts) = nobody();
                a.take(at(3, 0), &mut interrupts);
                a.end(&mut interrupts);
            });
            let (_user, mut interrupts) = nobody();
            assert!(!b.agree(at(2, 0), false, &mut interrupts));
            assert!(b.agree(at(2, 0), true, &mut interrupts));
            b.end(&mut interrupts);
        });
    }

    #[test]
    fn who_has_come_to_a_round_without_asking_is_not_waited_for() {
        // One of these two rounds the run that asks begins, and the other one waits for that.
        for round in [2, 3] {
            let [mut a, mut b] = two();
            b.patience = Duration::from_secs(60);
            thread::scope(|scope| {
                scope.spawn(move || {
                    let (_user, mut interrupts) = nobody();
                    a.take(at(round, 0), &mut interrupts);
                    a.end(&mut interrupts);
                });
                let (_user, mut interrupts) = nobody();
                assert!(!b.agree(at(round, 0), false, &mut interrupts));
                assert_eq!(b.take(at(round, 1), &mut interrupts), Taken::Mine);
                b.end(&mut interrupts);
            });
        }
    }

    #[test]
    fn what_was_said_of_one_round_is_no_answer_for_another() {
        let [mut a, mut b] = two();
        thread::scope(|scope| {
            scope.spawn(move || {
                let (_user, mut interrupts) = nobody();
                assert!(a.agree(at(2, 0), true, &mut interrupts), "the other is beyond it");
                assert!(!a.agree(at(5, 0), false, &mut interrupts));
                a.end(&mut interrupts);
            });
            let (_user, mut interrupts) = nobody();
            b.take(at(3, 0), &mut interrupts);
            assert!(!b.agree(at(5, 0), false, &mut interrupts));
            b.end(&mut interrupts);
        });
    }

    #[test]
    fn who_is_left_goes_on_alone_and_is_told_once() {
        let [a, mut b] = two();
        drop(a);
        let (_user, mut interrupts) = nobody();
        assert!(b.agree(at(1, 0), true, &mut interrupts));
        let taken = [0, 1].map(|place| b.take(at(1, place), &mut interrupts));
        assert_eq!(taken, [Taken::LeftAlone, Taken::Mine]);
        assert!(!b.agree(at(2, 0), false, &mut interrupts));
    }

    #[test]
    fn who_says_nothing_is_waited_for_as_long_as_it_may_take_for_a_try_and_both_go_on_alone() {
        let [mut a, mut b] = two();
        b.patience = Duration::from_millis(200);
        let (_user, mut interrupts) = nobody();
        let taken = [0, 1].map(|place| b.take(at(1, place), &mut interrupts));
        assert_eq!(taken, [Taken::LeftAlone, Taken::Mine]);
        assert_eq!(a.take(at(1, 0), &mut interrupts), Taken::LeftAlone);
    }

    /// Whoever comes and whoever is there; each says nothing to the end of the test.
    #[test]
    fn who_is_there_and_says_nothing_is_named_and_not_waited_for() {
        const SOON: Duration = Duration::from_millis(100);
        let dir = tempfile::tempdir().unwrap();
        let meet = |path: &Path| {
            let (_user, mut interrupts) = nobody();
            Turns::meet_within(SOON, path, &greeting("a", None), PATIENCE, &mut interrupts).unwrap_err()
        };
        let (here, there) = (dir.path().join("here"), dir.path().join("there"));
        let listener = UnixListener::bind(&there).unwrap();
        let refused = thread::scope(|scope| {
            let comes = scope.spawn(|| meet(&here));
            let goes = scope.spawn(|| meet(&there));
            while !here.exists() {
                thread::yield_now();
            }
            let _silent = Peer::at(&here, 1, PATIENCE).unwrap();
            let refused = [comes, goes].map(|met| met.join().unwrap());
            drop(listener);
            refused
        });
        let own = format!("process {} (", std::process::id());
        for refused in refused {
            assert!(refused.to_string().contains("says nothing"), "{refused}");
            assert!(refused.to_string().contains(&own), "{refused}");
        }
    }

    #[test]
    fn no_word_of_the_other_steers_who_reads_it() {
        const WORDS: &str = "\u{1b}[8mx\n::error::y";
        let called = std::fs::read("/proc/self/comm").unwrap();
        std::fs::write("/proc/self/comm", WORDS).unwrap();
        let mut other = greeting(WORDS, None);
        let [met, _] = meet_both(&greeting("a", None), &other).map(Result::unwrap);
        std::fs::write("/proc/self/comm", called).unwrap();
        other.plan.push((WORDS.to_owned(), 1));
        let [refused, _] = meet_both(&greeting("a", None), &other).map(Result::unwrap_err);
        for said in [met.id, met.who, refused.to_string()] {
            assert!(said.contains("x ::err") && !said.contains(steers), "{said:?}");
        }
    }

    #[test]
    fn a_user_who_does_not_want_to_wait_does_not() {
        let [_a, mut b] = two();
        let (mut user, mut interrupts) = nobody();
        user.write_all(b"!").unwrap();
        assert_eq!(b.take(at(1, 0), &mut interrupts), Taken::Interrupted);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("turns");
        let met = Turns::meet(&path, &greeting("a", None), PATIENCE, &mut interrupts);
        assert!(matches!(met, Err(TurnsError::Interrupted)));
        assert!(!path.exists());
    }

    #[test]
    fn both_have_the_seed_that_one_of_them_wants() {
        let seeds =
            |a, b| meet_both(&greeting("a", a), &greeting("b", b)).map(|met| met.map(|met| met.seed).ok());
        assert_eq!(seeds(Some(7), None), [Some(7); 2]);
        assert_eq!(seeds(None, Some(7)), [Some(7); 2]);
        assert_eq!(seeds(Some(7), Some(7)), [Some(7); 2]);
        assert_eq!(seeds(Some(7), Some(8)), [None; 2]);
        let [a, b] = seeds(None, None);
        assert!(a == b && a.is_some());
    }

    #[test]
    fn a_plan_of_fifty_thousand_cases_is_heard() {
        let mut long = greeting("a", None);
        long.plan = (0..50_000).map(|i| (format!("e/a={i}"), 1)).collect();
        for met in meet_both(&long, &long) {
            met.unwrap();
        }
    }

    #[test]
    fn runs_that_measure_different_things_are_refused() {
        let says = |change: fn(&mut Vec<(String, u32)>)| {
            let mut other = greeting("b", None);
            change(&mut other.plan);
            let [a, b] = meet_both(&greeting("a", None), &other).map(|met| met.unwrap_err().to_string());
            assert!(b.contains("take turns with"), "{b}");
            a
        };
        assert!(says(|plan| plan[1].1 = 2).contains("tries e/a=2 2 times, and this one 3 times"));
        assert!(says(|plan| plan.truncate(1)).contains("does not measure e/a=2"));
        assert!(says(|plan| plan.push(("e/a=3".to_owned(), 1))).contains("measures e/a=3, which"));
        assert!(says(|plan| plan.reverse()).contains("in another order"));
    }

    #[test]
    fn of_two_states_what_both_have_is_measured() {
        let state = |id: &str, plan: &[(&str, u32)], references: &[&str]| Greeting {
            plan: plan
                .iter()
                .map(|(case, tries)| ((*case).to_owned(), *tries))
                .collect(),
            references: Some(references.iter().map(|case| (*case).to_owned()).collect()),
            ..greeting(id, None)
        };
        let a = state(
            "a",
            &[("e/a=1", 2), ("e/a=2", 1), ("e/a=all", 1), ("f/a=1", 1)],
            &["e/a=1", "f/a=1"],
        );
        let b = state(
            "b",
            &[("e/a=1", 2), ("e/a=all", 2), ("f/a=1", 1), ("f/a=all", 1)],
            &["e/a=1", "f/a=all"],
        );
        let both = Common {
            cases: [("e/a=1", 2), ("e/a=all", 1), ("f/a=1", 1)]
                .map(|(case, tries)| (case.to_owned(), tries))
                .into(),
            references: BTreeSet::from(["e/a=1".to_owned()]),
        };
        assert_eq!(
            meet_both(&a, &b).map(|met| met.unwrap().common),
            [Some(both.clone()), Some(both)]
        );
        let refused = |other: &Greeting| {
            let [refused, _] = meet_both(&a, other).map(|met| met.unwrap_err().to_string());
            refused
        };
        // Only where both are states of one machine.
        let says = refused(&Greeting {
            references: None,
            ..b
        });
        assert!(says.contains("does not measure e/a=2"), "{says}");
        let says = refused(&state("b", &[("g/a=1", 1)], &["g/a=1"]));
        assert!(says.contains("the two states have no case in common"), "{says}");
        let says = refused(&state("b", &[("e/a=all", 1), ("e/a=1", 1)], &["e/a=all"]));
        assert!(says.contains("in different orders"), "{says}");
    }

    #[test]
    fn each_knows_what_the_other_has_used() {
        let at_work = |mut turns: Turns| {
            let (_user, mut interrupts) = nobody();
            for place in 0..2 {
                turns.take(at(1, place), &mut interrupts);
            }
            let used = turns.cpu_of_the_other();
            turns.end(&mut interrupts);
            used
        };
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let child = std::process::Command::new("sh").args(["-c", script]).status();
        assert!(child.unwrap().success());
        let before = usage_self().cpu() + usage_children().cpu();
        let [a, b] = two();
        let used = thread::scope(|scope| {
            let by_b = scope.spawn(|| at_work(a));
            [at_work(b), by_b.join().unwrap()]
        });
        // Here both are one process and report its time.
        let whole = usage_self().cpu() + usage_children().cpu();
        assert!(
            used.iter().all(|used| (before..=whole).contains(used)),
            "{before:?} {used:?} {whole:?}"
        );
    }

    #[test]
    fn runs_of_other_lengths_are_refused() {
        let longer = Greeting {
            profile: ("quick".to_owned(), Some(10)),
            ..greeting("b", None)
        };
        for met in meet_both(&greeting("a", None), &longer) {
            assert!(met.unwrap_err().to_string().contains("other --rounds"));
        }
    }

    #[test]
    fn runs_that_take_turns_in_another_way_are_refused() {
        let mut old = serde_json::to_value(greeting("b", None)).unwrap();
        old.as_object_mut().unwrap().remove("protocol");
        let old = serde_json::from_value(old).unwrap();
        for met in meet_both(&greeting("a", None), &old) {
            assert!(matches!(met, Err(TurnsError::OtherProtocol)), "{met:?}");
        }
    }

    #[test]
    fn a_path_that_is_no_meeting_point_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let meet = |path: &Path| {
            let (_user, mut interrupts) = nobody();
            Turns::meet(path, &greeting("a", None), PATIENCE, &mut interrupts).unwrap_err()
        };
        let left_behind = dir.path().join("left-behind");
        drop(UnixListener::bind(&left_behind).unwrap());
        assert!(matches!(meet(&left_behind), TurnsError::NobodyThere(_)));
        let nowhere = dir.path().join("nowhere").join("turns");
        assert!(matches!(meet(&nowhere), TurnsError::Meeting { .. }));
        let too_long = dir.path().join("x".repeat(200));
        assert!(matches!(meet(&too_long), TurnsError::Meeting { .. }));
        // What the system says is that nothing can be made there, and not that nothing is there.
        let refused = meet(Path::new("/sys/turns")).to_string();
        assert!(!refused.contains("No such file"), "{refused}");
        let datagrams = dir.path().join("datagrams");
        let _bound = UnixDatagram::bind(&datagrams).unwrap();
        assert!(matches!(meet(&datagrams), TurnsError::Meeting { .. }));
        let gone = dir.path().join("gone");
        let listener = UnixListener::bind(&gone).unwrap();
        let leaves = thread::spawn(move || drop(listener.accept().unwrap()));
        assert!(matches!(meet(&gone), TurnsError::WentAway(_)));
        leaves.join().unwrap();
        let strange = dir.path().join("strange");
        let listener = UnixListener::bind(&strange).unwrap();
        let answer = thread::spawn(move || listener.accept().unwrap().0.write_all(b"HTTP/1.1 400\n"));
        assert!(matches!(meet(&strange), TurnsError::Stranger { .. }));
        answer.join().unwrap().unwrap();
    }
}
