//! The rounds: which case runs when, which sample is repeated, and when to stop (METHOD rules 3, 7, 10).
//!
//! Each round takes a sample of every case, two of the reference case, all in the same number of tries. The tries of
//! all samples are shuffled together, from the run's seed: what disturbs this machine lasts for tenths of seconds, so
//! tries behind each other would all be hit by it. Each try is stored at once, and what has been stored is never run
//! again, so an interrupted run goes on where it stopped. What the tries of a sample make is not decided here, nor what
//! a look at the claims says: the caller hands in which cases must go on after it.

mod chosen;
mod history;
mod machine;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use threadgauge_machine::{CpuList, MachineError, Noise, Reading, noise_between};
use threadgauge_results::{Look, RunRecord, Sample, Status, Store, StoreError, StoredSample};
use threadgauge_stats::StoppingRule;

use crate::grid::PlannedCase;
use crate::site::Profile;
use crate::turns::{Taken, Turn, Turns};
use crate::worker::Order;
pub use chosen::Chosen;
use chosen::FEWEST_ROUNDS;
use history::History;
pub use machine::{Machine, ThisMachine};

/// Beyond these a sample is disturbed and repeated (rule 10).
pub(crate) const STEAL_LIMIT: f64 = 0.01;
pub(crate) const FOREIGN_LIMIT_CPUS: f64 = 0.05;
/// From this length on a sample is judged by its own span.
const LONG: Duration = Duration::from_secs(1);
/// `/proc/stat` counts in steps of 10 ms, and a short sample may lie anywhere in them: it is judged by the time of this
/// length that ends with it.
const WINDOW: Duration = Duration::from_secs(2);
/// How often a disturbed try is repeated.
pub(crate) const REPEATS: u32 = 2;
/// Where half of so many tries in a row were disturbed, the load is the machine's state, and repeating is no remedy.
const RECENT: usize = 20;

/// Which cases of an experiment go on after the looks that are stored; all, where there was none.
pub type GoingOn<'a> = &'a dyn Fn(&Store, &str) -> Result<Option<BTreeSet<String>>, StoreError>;

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine's own figures cannot be read.
    #[error("the machine's load cannot be read: {0}")]
    Machine(#[from] MachineError),
}

/// What happens, as it happens. Called between workers only, so that showing it disturbs no sample.
pub trait Observer {
    /// A worker is about to start.
    fn case_begins(&mut self, progress: &Progress<'_>);
    /// An experiment has ended; `store` holds what it measured.
    fn experiment_ends(&mut self, id: &str, because: &str, store: &Store);
    /// The run to take turns with went away before its end.
    fn left_alone(&mut self);
}

/// Where the run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The experiment.
    pub experiment: &'a str,
    /// The case about to run.
    pub case: &'a str,
    /// Counted from 1.
    pub round: u32,
    /// The most rounds it may take.
    pub rounds: u32,
    /// Workers of this experiment's round that are done.
    pub done: usize,
    /// All workers of this round: one for each try of each sample.
    pub total: usize,
    /// What is left of the whole run by the estimates, scaled by how they did so far.
    pub left: Duration,
    /// What share of the whole run is done, by the same estimate.
    pub share: f64,
}

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every experiment reached its stopping rule.
    Complete,
    /// The user stopped it; what was measured is stored.
    Interrupted,
}

/// When each experiment may stop.
#[must_use]
pub fn stopping_rule(profile: Profile, rounds: Option<u32>) -> StoppingRule {
    match (rounds, profile) {
        (Some(rounds), _) => StoppingRule::custom(rounds),
        (None, Profile::Quick) => StoppingRule::quick(),
        (None, Profile::Standard) => StoppingRule::standard(),
        (None, Profile::Paper) => StoppingRule::paper(),
    }
}

/// The rule by which a stored run stops. Of schema 1, quick took seven rounds and one look.
///
/// # Errors
///
/// When the store is damaged.
pub fn rule_of(store: &Store) -> Result<StoppingRule, StoreError> {
    let record = store.run()?;
    let profile = Profile::named(&record.profile).unwrap_or(Profile::Quick);
    let has_one_look = profile == Profile::Quick && !store.has_looks()?;
    let rounds = record.rounds.or(has_one_look.then_some(7));
    Ok(stopping_rule(profile, rounds))
}

/// The rounds an experiment is expected to take: the first look. What goes on after it depends on what it finds.
#[must_use]
pub fn expected_rounds(rule: &StoppingRule) -> u32 {
    rule.looks.first().copied().unwrap_or(1)
}

/// Measures everything that is not yet in the store, each try when it is its turn.
///
/// # Errors
///
/// When the store or the machine refuses; what was stored before is kept.
pub fn run(
    store: &mut Store,
    chosen: &[Chosen],
    going_on: GoingOn<'_>,
    machine: &mut dyn Machine,
    turns: &mut Turns,
    observer: &mut dyn Observer,
) -> Result<Ending, ScheduleError> {
    let record = store.run()?;
    let rule = rule_of(store)?;
    let rounds = f64::from(expected_rounds(&rule));
    let planned = |chosen: &Chosen| chosen.round_estimate().as_secs_f64() * rounds;
    let mut pace = Pace {
        whole: chosen.iter().map(planned).sum(),
        ..Pace::default()
    };
    // What the experiments so far have left of their time: the next may need it in a slow hour.
    let mut spare = Duration::ZERO;
    let mut surroundings = Surroundings::default();
    for (experiment, chosen) in chosen.iter().enumerate() {
        let id = chosen.experiment.id;
        pace.ceiling = pace.done + planned(chosen);
        let history = History::new(store.samples(id)?);
        let mut session = Session {
            experiment,
            chosen,
            budget: chosen.plan.budget + spare,
            spent: history.spent,
            record: &record,
            rule: &rule,
            cpus: CpuList::new(record.cpus.iter().copied()),
            history,
            going_on,
            estimates: chosen
                .able()
                .map(|case| (case.params.case_id(id), case.estimate))
                .collect(),
            looked: store.looks(id)?.last().map_or(0, |look| look.rounds),
            active: None,
            repeats: VecDeque::new(),
            surroundings: &mut surroundings,
            machine: &mut *machine,
            turns,
            store,
            observer,
            pace: &mut pace,
        };
        let Some(because) = session.rounds()? else {
            return Ok(Ending::Interrupted);
        };
        spare = session.budget.saturating_sub(session.spent);
        store.set_stopped(id, Some(because))?;
        pace.done = pace.ceiling;
        observer.experiment_ends(id, because, store);
    }
    turns.end(machine.interrupts());
    Ok(Ending::Complete)
}

/// How the estimates do, in seconds.
#[derive(Debug, Default)]
struct Pace {
    /// Of the whole run.
    whole: f64,
    /// Of the cases that are done, measured or not.
    done: f64,
    /// Where the experiment under way should end: more rounds than expected do not count beyond it.
    ceiling: f64,
    /// Of what this session has measured.
    measured: f64,
    /// What that really took.
    spent: f64,
}

impl Pace {
    fn advance(&mut self, estimate: Duration) {
        self.measured += estimate.as_secs_f64();
        self.skip(estimate);
    }

    /// What was measured before counts as done and says nothing about the pace.
    fn skip(&mut self, estimate: Duration) {
        self.done = (self.done + estimate.as_secs_f64()).min(self.ceiling);
    }

    fn share(&self) -> f64 {
        // 1 also where there is nothing to do: the lesser of 1 and no number is 1.
        (self.done / self.whole).min(1.0)
    }

    fn left(&self) -> Duration {
        let factor = if self.measured > 0.5 {
            self.spent / self.measured
        } else {
            1.0
        };
        Duration::try_from_secs_f64((self.whole - self.done).max(0.0) * factor).unwrap_or_default()
    }
}

/// What the run has seen of the machine of late.
#[derive(Debug, Default)]
struct Surroundings {
    /// Enough of them to look back over [`WINDOW`].
    readings: VecDeque<Reading>,
    /// Whether the last [`RECENT`] tries were disturbed.
    disturbed: VecDeque<bool>,
}

impl Surroundings {
    /// What others did beside a worker that ran from `before` to `after`.
    fn noise(&mut self, before: Reading, after: &Reading, cpus: &CpuList) -> Noise {
        let own = noise_between(&before, after, Some(cpus));
        self.readings.push_back(before);
        let reach = |earlier: &Reading| Duration::from_nanos(after.at_ns.saturating_sub(earlier.at_ns));
        while self.readings.len() > 1 && reach(&self.readings[1]) >= WINDOW {
            self.readings.pop_front();
        }
        if own.wall >= LONG {
            return own;
        }
        Noise {
            throttled: own.throttled,
            ..noise_between(&self.readings[0], after, Some(cpus))
        }
    }

    fn note(&mut self, disturbed: bool) {
        self.disturbed.push_back(disturbed);
        if self.disturbed.len() > RECENT {
            self.disturbed.pop_front();
        }
    }

    /// Whether the load is the machine's state.
    fn is_loaded(&self) -> bool {
        2 * self.disturbed.iter().filter(|disturbed| **disturbed).count() >= RECENT
    }
}

/// One experiment under way.
struct Session<'a> {
    /// Its place in the run.
    experiment: usize,
    chosen: &'a Chosen,
    /// How long its workers may take together.
    budget: Duration,
    /// How long they have taken.
    spent: Duration,
    record: &'a RunRecord,
    rule: &'a StoppingRule,
    /// The run's CPUs: what others do on the rest of the machine is not gated.
    cpus: CpuList,
    history: History,
    going_on: GoingOn<'a>,
    /// What one try of each case is expected to take.
    estimates: BTreeMap<String, Duration>,
    /// The rounds of the last look.
    looked: u32,
    /// The cases that go on, beside the reference; all before the first look.
    active: Option<BTreeSet<String>>,
    /// What is to be repeated, by when it may be.
    repeats: VecDeque<Repeat<'a>>,
    surroundings: &'a mut Surroundings,
    machine: &'a mut dyn Machine,
    turns: &'a mut Turns,
    store: &'a mut Store,
    observer: &'a mut dyn Observer,
    pace: &'a mut Pace,
}

/// A disturbed try that is to be taken again.
#[derive(Debug, Clone, Copy)]
struct Repeat<'a> {
    slot: Slot<'a>,
    turn: Turn,
    /// When the window that marked it is over: what falls into it again would be marked again.
    not_before: Duration,
}

/// A case, which of its copies, and which try of the sample.
#[derive(Debug, Clone, Copy)]
struct Slot<'a> {
    case: &'a PlannedCase,
    copy: u32,
    nth_try: u32,
}

impl<'a> Session<'a> {
    /// Runs rounds until a rule says stop; `None` when the user did.
    fn rounds(&mut self) -> Result<Option<&'static str>, ScheduleError> {
        self.active = (self.going_on)(self.store, self.chosen.experiment.id)?;
        let most = self.rule.rounds();
        let mut stopped = None;
        for round in 1..=most {
            if self.machine.interrupts().count() > 0 {
                return Ok(None);
            }
            // A round that is half done already is finished first: what was decided before it stays decided.
            if round > 1 && !self.history.has_begun(round) {
                if !self.look(round - 1)? {
                    return Ok(None);
                }
                // What was enough once stays so, though the other run may want more.
                stopped = stopped.or_else(|| self.enough(round - 1));
                let first = self.turn(round, 0, 0);
                let goes_on = self
                    .turns
                    .agree(first, stopped.is_none(), self.machine.interrupts());
                if !goes_on {
                    return Ok(stopped);
                }
            }
            if !self.round(round, most)? {
                return Ok(None);
            }
        }
        Ok(self.look(most)?.then_some(stopped.unwrap_or("rounds")))
    }

    /// Looks at the claims, where a look is due and was not taken before; false when the user stopped it.
    fn look(&mut self, rounds: u32) -> Result<bool, ScheduleError> {
        let id = self.chosen.experiment.id;
        if self.looked >= rounds || !self.rule.looks.contains(&rounds) {
            return Ok(true);
        }
        // What is still to be repeated belongs to these rounds.
        while let Some(next) = self.repeats.front().filter(|_| !self.surroundings.is_loaded()) {
            let not_before = next.not_before;
            self.machine.wait_until(not_before);
            if !self.take_due_repeats()? {
                return Ok(false);
            }
        }
        self.repeats.clear();
        let tries = u32::try_from(self.history.tries.len()).unwrap_or(u32::MAX);
        self.store.add_look(id, Look { rounds, tries })?;
        self.looked = rounds;
        self.active = (self.going_on)(self.store, id)?;
        Ok(true)
    }

    /// Why no round need follow these.
    fn enough(&self, rounds: u32) -> Option<&'static str> {
        if self.active.as_ref().is_some_and(BTreeSet::is_empty) {
            return Some(if self.rule.epsilon > 0.0 {
                "precision"
            } else {
                "decided"
            });
        }
        let next = self.chosen.able().filter(|case| self.goes_on(case));
        let next = next.map(|case| case.estimate).sum::<Duration>() * self.chosen.plan.tries();
        (rounds >= FEWEST_ROUNDS && !self.has_time(next)).then_some("time-budget")
    }

    /// What is expected to be missing of the rounds up to the first look, which come before any repeat.
    fn to_first_look(&self) -> Duration {
        let first = expected_rounds(self.rule);
        let whole = self.chosen.round_estimate().saturating_mul(first);
        whole.saturating_sub(self.estimated(|tried| tried.attempt == 0 && tried.round <= first))
    }

    /// What those of the stored tries were expected to take.
    fn estimated(&self, which: impl Fn(&StoredSample) -> bool) -> Duration {
        let tries = self.history.tries.iter().filter(|tried| which(tried));
        tries.filter_map(|tried| self.estimates.get(&tried.case)).sum()
    }

    /// Whether so much more, by the estimates, fits the time budget at the pace so far.
    fn has_time(&self, more: Duration) -> bool {
        let done = self.estimated(|_| true).as_secs_f64();
        let pace = if done > 0.0 {
            self.spent.as_secs_f64() / done
        } else {
            1.0
        };
        self.record.rounds.is_some() || self.spent + more.mul_f64(pace) <= self.budget
    }

    fn goes_on(&self, case: &PlannedCase) -> bool {
        let is_reference = self.chosen.reference().is_some_and(|of| of.params == case.params);
        let id = case.params.case_id(self.chosen.experiment.id);
        let is_active = self.active.as_ref().is_none_or(|active| active.contains(&id));
        (is_reference || is_active) && !self.history.gave_up(&id)
    }

    fn turn(&self, round: u32, attempt: u32, place: usize) -> Turn {
        Turn {
            experiment: self.experiment,
            round,
            attempt,
            place,
        }
    }

    /// Takes a sample of every case that goes on, and between them the repeats that are due; false when the user
    /// stopped it.
    fn round(&mut self, round: u32, most: u32) -> Result<bool, ScheduleError> {
        let order = shuffled(self.chosen, self.record.seed, round);
        for (place, slot) in order.iter().enumerate() {
            let id = slot.case.params.case_id(self.chosen.experiment.id);
            let last = self.history.last(round, &id, slot.copy, slot.nth_try);
            let was_taken = last.map(|last| (last.gated, last.attempt));
            if let Some((gated, attempt)) = was_taken {
                self.repeat_later(gated, *slot, self.turn(round, attempt, place), self.machine.now());
            }
            if was_taken.is_some() || !self.goes_on(slot.case) {
                self.pace.skip(slot.case.estimate);
                continue;
            }
            if !self.take_due_repeats()? {
                return Ok(false);
            }
            self.observer.case_begins(&Progress {
                experiment: self.chosen.experiment.id,
                case: &id,
                round,
                rounds: most,
                done: place,
                total: order.len(),
                left: self.pace.left(),
                share: self.pace.share(),
            });
            if !self.try_once(*slot, &id, self.turn(round, 0, place))? {
                return Ok(false);
            }
            self.pace.advance(slot.case.estimate);
        }
        Ok(true)
    }

    /// Takes the repeats whose time has come, unless the load is the machine's state, and drops those for which there
    /// is no time; false when the user stopped it.
    fn take_due_repeats(&mut self) -> Result<bool, ScheduleError> {
        while !self.surroundings.is_loaded() {
            let now = self.machine.now();
            let Some(Repeat { slot, turn, .. }) = self.repeats.pop_front_if(|next| next.not_before <= now)
            else {
                break;
            };
            let more = slot.case.estimate + self.to_first_look();
            let id = slot.case.params.case_id(self.chosen.experiment.id);
            if self.has_time(more) && !self.try_once(slot, &id, turn)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has a disturbed try repeated, unless that was its last attempt or a look has been at its round.
    fn repeat_later(&mut self, gated: bool, slot: Slot<'a>, turn: Turn, not_before: Duration) {
        if gated && turn.attempt < REPEATS && turn.round > self.looked {
            let turn = self.turn(turn.round, turn.attempt + 1, turn.place);
            self.repeats.push_back(Repeat {
                slot,
                turn,
                not_before,
            });
        }
    }

    /// Runs one worker and stores its try; false when the user stopped it.
    fn try_once(&mut self, slot: Slot<'a>, id: &str, turn: Turn) -> Result<bool, ScheduleError> {
        let asked = self.machine.now();
        if self.machine.interrupts().count() > 0 {
            return Ok(false);
        }
        let wanted = slot.case.params.int("cpus").unwrap_or(u64::MAX);
        let cpus = self.record.cpus.iter().copied();
        let order = Order {
            experiment: self.chosen.experiment.id.to_owned(),
            params: slot.case.params.clone(),
            cpus: cpus.take(usize::try_from(wanted).unwrap_or(usize::MAX)).collect(),
            handicap_percent: self.record.handicap_percent,
            launched_ns: 0,
        };
        match self.turns.take(turn, self.machine.interrupts()) {
            Taken::Mine => {}
            Taken::LeftAlone => self.observer.left_alone(),
            Taken::Interrupted => return Ok(false),
        }
        let began = self.machine.now();
        let started = jiff::Timestamp::now().to_string();
        let before = self.reading()?;
        let outcome = self.machine.run(&order, slot.case.deadline());
        let after = self.reading()?;
        self.pace.spent += self.machine.now().saturating_sub(asked).as_secs_f64();
        let Some(mut sample) = outcome.sample else {
            return Ok(false);
        };
        let noise = self.surroundings.noise(before, &after, &self.cpus);
        let gated = sample.status == Status::Ok && disturbed(&noise);
        note(&mut sample, &noise, gated);
        self.surroundings.note(gated);
        let tried = StoredSample {
            experiment: self.chosen.experiment.id.to_owned(),
            case: id.to_owned(),
            round: turn.round,
            copy: slot.copy,
            nth_try: slot.nth_try,
            attempt: turn.attempt,
            gated,
            started,
            wall_ns: u64::try_from(outcome.wall.as_nanos()).unwrap_or(u64::MAX),
            sample,
        };
        self.store.add(&tried)?;
        self.history.add(tried);
        let now = self.machine.now();
        self.spent += now.saturating_sub(began);
        self.repeat_later(gated, slot, turn, now + WINDOW);
        Ok(true)
    }

    /// The machine's counters; the run that this one takes turns with is no stranger.
    fn reading(&mut self) -> Result<Reading, MachineError> {
        let mut reading = self.machine.read()?;
        reading.own_cpu += self.turns.cpu_of_the_other();
        Ok(reading)
    }
}

/// This round's order: every case that can run, the reference twice, each as often as it is tried.
fn shuffled(chosen: &Chosen, seed: u64, round: u32) -> Vec<Slot<'_>> {
    let able = chosen.plan.cases.iter().filter(|c| c.skip.is_none());
    let copies = able
        .map(|case| (case, 0))
        .chain(chosen.reference().map(|case| (case, 1)));
    let tries = 0..chosen.plan.tries();
    let mut order: Vec<Slot<'_>> = copies
        .flat_map(|(case, copy)| tries.clone().map(move |nth_try| Slot { case, copy, nth_try }))
        .collect();
    let name = chosen.experiment.id.bytes().map(u64::from);
    let stream = name.fold(seed ^ (u64::from(round) << 32), |h, b| {
        (h ^ b).wrapping_mul(0x0100_0000_01b3)
    });
    fastrand::Rng::with_seed(stream).shuffle(&mut order);
    order
}

fn disturbed(noise: &Noise) -> bool {
    noise.steal_share > STEAL_LIMIT
        || noise.foreign_cpus > FOREIGN_LIMIT_CPUS
        || noise.throttled > Duration::ZERO
}

fn note(sample: &mut Sample, noise: &Noise, gated: bool) {
    sample.noise.insert("steal_share".to_owned(), noise.steal_share);
    sample.noise.insert("foreign_cpus".to_owned(), noise.foreign_cpus);
    if let Some(pressure) = noise.pressure_share {
        sample.noise.insert("pressure_share".to_owned(), pressure);
    }
    if gated {
        sample.tags.push("noisy".to_owned());
    }
}
