//! The rounds: which case runs when, which sample is repeated, and when to stop (METHOD rules 3, 7, 10).
//!
//! Each round takes one sample of every case and two of the reference case. Every sample takes the same number of
//! tries. All tries of a round are shuffled together, with the run's seed. A disturbance lasts for tenths of a second:
//! tries of one sample that ran back to back would all be hit by it. Each try is stored as soon as it ends, and never
//! runs again, so an interrupted run resumes where it stopped.
//!
//! Two things are decided elsewhere: how the tries of a sample become one figure, and which cases continue after a look
//! at the claims. The caller hands in a function for the latter.

mod before_try;
mod chosen;
mod forecast;
mod history;
mod machine;
mod surroundings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use threadgauge_machine::{CpuList, MachineError, Noise, Reading};
use threadgauge_results::{
    LARGEST_SEED, Look, Params, RunRecord, Runtime, STOPPED_S, Sample, Status, Store, StoreError,
    StoredSample, THROTTLED_S,
};
use threadgauge_stats::StoppingRule;

use crate::grid::PlannedCase;
use crate::site::Profile;
use crate::turns::{Taken, Turn, Turns};
use crate::worker::Order;
pub use before_try::{BeforeTry, BeforeTryError};
pub use chosen::Chosen;
use chosen::{FEWEST_ROUNDS, times};
pub use forecast::Forecast;
use forecast::seconds;
use history::History;
pub use machine::{Machine, ThisMachine};
use surroundings::{Surroundings, WINDOW};

/// A try is disturbed, and repeated, if the hypervisor took more than this share of its CPU time (rule 10).
pub(crate) const STEAL_LIMIT: f64 = 0.01;
/// A try is disturbed, and repeated, if other programs used more than this many CPUs beside it (rule 10).
pub(crate) const FOREIGN_LIMIT_CPUS: f64 = 0.05;
/// How many times a disturbed try is repeated.
pub(crate) const REPEATS: u32 = 2;

/// Given the store and an experiment's id, the cases that continue after its latest look; without a look those that any
/// claim needs.
pub type GoingOn<'a> = &'a dyn Fn(&Store, &str) -> Result<BTreeSet<String>, StoreError>;

/// Why a run cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine's load cannot be read.
    #[error("the machine's load cannot be read: {0}")]
    Machine(#[from] MachineError),
    /// The machine may not be in the state that is to be measured.
    #[error(transparent)]
    BeforeTry(#[from] BeforeTryError),
}

/// Is told how the run goes. Called only while no worker runs, so that showing it disturbs no sample.
pub trait Observer {
    /// A worker is about to start.
    fn case_begins(&mut self, progress: &Progress<'_>);
    /// An experiment has ended; `store` holds what it measured.
    fn experiment_ends(&mut self, id: &str, because: &str, store: &Store);
    /// The run that this one takes turns with ended early; this one continues alone.
    fn left_alone(&mut self);
}

/// How far the run is.
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
    /// Workers of this round that are done.
    pub done: usize,
    /// All workers of this round: one for each try of each sample.
    pub total: usize,
    /// Estimated time until the whole run ends.
    pub left: Duration,
    /// The same with what this session has measured so far.
    pub whole: Duration,
}

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every experiment ended by its stopping rule.
    Complete,
    /// The user stopped it; what was measured is stored.
    Interrupted,
}

/// The stopping rule of a profile, or for a number of rounds that the user chose.
#[must_use]
pub fn stopping_rule(profile: Profile, rounds: Option<u32>) -> StoppingRule {
    match (rounds, profile) {
        (Some(rounds), _) => StoppingRule::custom(rounds),
        (None, Profile::Quick) => StoppingRule::quick(),
        (None, Profile::Standard) => StoppingRule::standard(),
        (None, Profile::Paper) => StoppingRule::paper(),
    }
}

/// The stopping rule of a stored run. In stores of schema 1 the quick profile took seven rounds and one look.
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

/// The rounds an experiment is expected to take: those before the first look. Whether more follow depends on that look.
#[must_use]
pub fn expected_rounds(rule: &StoppingRule) -> u32 {
    rule.looks.first().copied().unwrap_or(1)
}

/// Measures everything that is not yet in the store, and learns meanwhile how long the rest takes. Beside another run
/// it waits for its turn before each try. Blocks until everything is measured or the user stops it.
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
    forecast: &mut Forecast,
    observer: &mut dyn Observer,
) -> Result<Ending, ScheduleError> {
    let record = store.run()?;
    let rule = rule_of(store)?;
    let profile = Profile::named(&record.profile).unwrap_or(Profile::Paper);
    let times = times(chosen, expected_rounds(&rule), profile);
    // The time of the experiments so far, and what they used. Unused time passes to later ones, which may need it if
    // the machine slows down; an overrun is taken from them.
    let (mut time, mut used) = (Duration::ZERO, Duration::ZERO);
    let mut surroundings = Surroundings::default();
    let all = chosen;
    for (experiment, (chosen, of_it)) in all.iter().zip(times).enumerate() {
        let id = chosen.experiment.id;
        time = time.saturating_add(of_it);
        let history = History::new(store.samples(id)?);
        let estimates = chosen.able().map(|case| (case.params.case_id(id), case.estimate));
        let mut session = Session {
            chosen,
            later: &all[experiment + 1..],
            budget: time.saturating_sub(used),
            limit: time.saturating_mul(2).saturating_sub(used),
            used,
            spent: history.spent,
            record: &record,
            rule: &rule,
            cpus: CpuList::new(record.cpus.iter().copied()),
            history,
            going_on,
            estimates: estimates.collect(),
            looked: store.looks(id)?.last().map_or(0, |look| look.rounds),
            looks_once: false,
            active: None,
            repeats: VecDeque::new(),
            turn: Turn {
                experiment,
                ..Turn::default()
            },
            surroundings: &mut surroundings,
            machine: &mut *machine,
            turns,
            store,
            observer,
            forecast: &mut *forecast,
        };
        let Some(because) = session.rounds()? else {
            return Ok(Ending::Interrupted);
        };
        used += session.spent;
        store.set_stopped(id, Some(because))?;
        observer.experiment_ends(id, because, store);
    }
    turns.end(machine.interrupts());
    Ok(Ending::Complete)
}

/// An experiment while it is measured.
struct Session<'a> {
    chosen: &'a Chosen,
    /// The experiments after it.
    later: &'a [Chosen],
    /// How long its workers may take in all. The fewest rounds that give an interval may exceed it.
    budget: Duration,
    /// What even these may not exceed, so that all experiments together end within twice their time.
    limit: Duration,
    /// How long those of the experiments before took.
    used: Duration,
    /// How long they have taken so far.
    spent: Duration,
    record: &'a RunRecord,
    rule: &'a StoppingRule,
    /// The run's CPUs. Load on other CPUs disturbs no try.
    cpus: CpuList,
    history: History,
    going_on: GoingOn<'a>,
    /// The estimate for one try of each case, by the case's id.
    estimates: BTreeMap<String, Duration>,
    /// After how many rounds the last look was taken, 0 before the first.
    looked: u32,
    /// Whether the claims are looked at once, at the end: the time does not reach a second look.
    looks_once: bool,
    /// The cases that continue, besides the reference case; `None`, for all of them, in the first rounds.
    active: Option<BTreeSet<String>>,
    /// The repeats to come, in the order in which they are due.
    repeats: VecDeque<Repeat<'a>>,
    /// How far this run is, as the other one is told.
    turn: Turn,
    surroundings: &'a mut Surroundings,
    machine: &'a mut dyn Machine,
    turns: &'a mut Turns,
    store: &'a mut Store,
    observer: &'a mut dyn Observer,
    forecast: &'a mut Forecast,
}

/// A disturbed try that is to be repeated.
#[derive(Debug, Clone, Copy)]
struct Repeat<'a> {
    slot: Slot<'a>,
    round: u32,
    attempt: u32,
    /// When it is due: before, the same load would still lie within [`WINDOW`] and mark the repeat too.
    not_before: Duration,
}

/// What one worker measures: a case, which of the two copies where it is the reference case, and which try of the
/// sample.
#[derive(Debug, Clone, Copy)]
struct Slot<'a> {
    case: &'a PlannedCase,
    copy: u32,
    nth_try: u32,
}

impl<'a> Session<'a> {
    /// Runs rounds until the stopping rule ends the experiment, and gives the reason. `None` if the user stops it.
    fn rounds(&mut self) -> Result<Option<&'static str>, ScheduleError> {
        let first = expected_rounds(self.rule);
        self.looks_once = self.looked == 0 && self.history.has_begun(first + 1);
        if self.looked > 0 || self.looks_once {
            self.active = Some((self.going_on)(self.store, self.chosen.experiment.id)?);
        }
        let most = self.rule.rounds();
        let mut stopped = None;
        for round in 1..=most {
            if self.machine.interrupts().count() > 0 {
                return Ok(None);
            }
            // A round that an earlier session began is finished: it was decided then that there would be one.
            if round > 1 && !self.history.has_begun(round) {
                if !self.look(round - 1)? {
                    return Ok(None);
                }
                // Once this run has a reason to stop it keeps that reason, even if the other run needs more rounds.
                stopped = stopped.or_else(|| self.enough(round - 1));
                (self.turn.round, self.turn.place) = (round, 0);
                let interrupts = self.machine.interrupts();
                if !self.turns.agree(self.turn, stopped.is_none(), interrupts) {
                    self.turn.place = 1;
                    return Ok((!self.looks_once || self.settle()?).then_some(stopped).flatten());
                }
            }
            if !self.round(round, most)? {
                return Ok(None);
            }
        }
        let done = self.look(most)? && (!self.looks_once || self.settle()?);
        Ok(done.then_some(stopped.unwrap_or("rounds")))
    }

    /// Takes a look at the claims if one is due after so many rounds. False if the user stops it.
    fn look(&mut self, rounds: u32) -> Result<bool, ScheduleError> {
        let id = self.chosen.experiment.id;
        let is_due = self.looked < rounds && self.rule.looks.contains(&rounds);
        if self.looks_once || !is_due || self.looked == 0 && !self.reaches_second_look()? {
            return Ok(true);
        }
        if !self.settle()? {
            return Ok(false);
        }
        let tries = u32::try_from(self.history.tries.len()).unwrap_or(u32::MAX);
        self.store.add_look(id, Look { rounds, tries })?;
        self.looked = rounds;
        self.active = Some((self.going_on)(self.store, id)?);
        Ok(true)
    }

    /// Whether there is time until the second look for half of the cases that claims need. If not, looks would only
    /// cost confidence: there is one, at the end, and until then those cases go on. No figure decides this.
    fn reaches_second_look(&mut self) -> Result<bool, ScheduleError> {
        let [first, second, ..] = self.rule.looks[..] else {
            return Ok(true);
        };
        let needed = (self.going_on)(self.store, self.chosen.experiment.id)?;
        let until = self.round_of(Some(&needed)) * (second - first) / 2;
        self.looks_once = !self.has_time(until, self.budget);
        if self.looks_once {
            self.active = Some(needed);
        }
        Ok(!self.looks_once)
    }

    /// Takes the pending repeats. False if the user stops it.
    fn settle(&mut self) -> Result<bool, ScheduleError> {
        while let Some(next) = self.repeats.front().filter(|_| !self.surroundings.is_loaded()) {
            let not_before = next.not_before;
            self.spent += not_before.saturating_sub(self.machine.now());
            self.machine.wait_until(not_before);
            if self.machine.interrupts().count() > 0 || !self.take_due_repeats()? {
                return Ok(false);
            }
        }
        self.repeats.clear();
        Ok(true)
    }

    /// The reason to stop after so many rounds, if there is one.
    fn enough(&self, rounds: u32) -> Option<&'static str> {
        let precise = self.rule.epsilon > 0.0;
        if self.active.as_ref().is_some_and(BTreeSet::is_empty) {
            return Some(if precise { "precision" } else { "decided" });
        }
        let next = self.round_of(self.active.as_ref());
        let within = match rounds {
            ..FEWEST_ROUNDS => self.limit,
            _ => self.budget,
        };
        (!self.has_time(next, within)).then_some("time-budget")
    }

    /// The estimated time for what is missing of the rounds before the first look. They have priority over repeats.
    fn to_first_look(&self) -> Duration {
        let first = expected_rounds(self.rule);
        let whole = self.chosen.round_estimate().saturating_mul(first);
        whole.saturating_sub(self.estimated(|tried| tried.attempt == 0 && tried.round <= first))
    }

    /// The sum of the estimates of those stored tries.
    fn estimated(&self, which: impl Fn(&StoredSample) -> bool) -> Duration {
        let tries = self.history.tries.iter().filter(|tried| which(tried));
        tries.filter_map(|tried| self.estimates.get(&tried.case)).sum()
    }

    /// Whether what is estimated at `more` still fits `within` a time, at the pace so far. A number of rounds that the
    /// user chose has no limit.
    fn has_time(&self, more: Duration, within: Duration) -> bool {
        let done = self.estimated(|_| true).as_secs_f64();
        let pace = (done > 0.0).then(|| self.spent.as_secs_f64() / done);
        self.record.rounds.is_some() || self.spent + more.mul_f64(pace.unwrap_or(1.0)) <= within
    }

    /// The estimate for a round in which these cases go on, or all.
    fn round_of(&self, active: Option<&BTreeSet<String>>) -> Duration {
        let next = self.chosen.able().filter(|case| self.goes_on(case, active));
        next.map(|case| case.estimate).sum::<Duration>() * self.chosen.plan.tries()
    }

    fn goes_on(&self, case: &PlannedCase, active: Option<&BTreeSet<String>>) -> bool {
        let is_reference = self.chosen.reference().is_some_and(|of| of.params == case.params);
        let id = case.params.case_id(self.chosen.experiment.id);
        let is_active = active.is_none_or(|active| active.contains(&id));
        (is_reference || is_active) && !self.history.gave_up(&id)
    }

    /// How long the run still takes, in this round of at most so many, of which a share is done.
    fn left(&self, [round, most]: [u32; 2], share: f64) -> Duration {
        let first = expected_rounds(self.rule);
        let goes_on = |case: &PlannedCase| self.goes_on(case, self.active.as_ref());
        let of_round = self.forecast.round_s(self.chosen, goes_on);
        let until = |last: u32| of_round * (f64::from(last.saturating_sub(round)) + 1.0 - share);
        let spent = self.spent.as_secs_f64();
        let own = if round <= first {
            until(first).max(self.forecast.experiment_s(self.chosen) - spent)
        } else {
            until(round).max(until(most).min(self.budget.as_secs_f64() - spent))
        };
        seconds(own) + self.forecast.of(self.later)
    }

    /// Takes a sample of every case that continues, and in between the repeats that are due. False if the user stops
    /// it.
    fn round(&mut self, round: u32, most: u32) -> Result<bool, ScheduleError> {
        let order = shuffled(self.chosen, self.record.seed, round);
        for (place, slot) in order.iter().enumerate() {
            (self.turn.round, self.turn.place) = (round, place);
            let id = slot.case.params.case_id(self.chosen.experiment.id);
            let last = self.history.last(round, &id, slot.copy, slot.nth_try);
            let was_taken = last.map(|last| (last.gated, last.attempt));
            if let Some((gated, attempt)) = was_taken {
                self.repeat_later(gated, *slot, [round, attempt], self.machine.now());
            }
            if was_taken.is_some() || !self.goes_on(slot.case, self.active.as_ref()) {
                continue;
            }
            if !self.take_due_repeats()? {
                return Ok(false);
            }
            let left = self.left([round, most], place as f64 / order.len() as f64);
            self.observer.case_begins(&Progress {
                experiment: self.chosen.experiment.id,
                case: &id,
                round,
                rounds: most,
                done: place,
                total: order.len(),
                left,
                whole: left + self.used + self.spent,
            });
            if !self.try_once(*slot, &id, [round, 0])? {
                return Ok(false);
            }
        }
        self.turn.place = order.len();
        Ok(true)
    }

    /// Takes the repeats that are due, unless the machine is loaded throughout. Drops those that no longer fit the time
    /// budget. False if the user stops it.
    fn take_due_repeats(&mut self) -> Result<bool, ScheduleError> {
        while !self.surroundings.is_loaded() {
            let now = self.machine.now();
            let Some(next) = self.repeats.pop_front_if(|next| next.not_before <= now) else {
                break;
            };
            let slot = next.slot;
            let more = slot.case.estimate + self.to_first_look();
            let id = slot.case.params.case_id(self.chosen.experiment.id);
            if self.has_time(more, self.budget) && !self.try_once(slot, &id, [next.round, next.attempt])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Notes a repeat of a disturbed try, unless that was its last attempt or a look has already used its round.
    fn repeat_later(
        &mut self,
        gated: bool,
        slot: Slot<'a>,
        [round, attempt]: [u32; 2],
        not_before: Duration,
    ) {
        if gated && attempt < REPEATS && round > self.looked {
            self.repeats.push_back(Repeat {
                slot,
                round,
                attempt: attempt + 1,
                not_before,
            });
        }
    }

    /// Runs one worker and stores its try of this round and attempt. False if the user stops it.
    fn try_once(
        &mut self,
        slot: Slot<'a>,
        id: &str,
        [round, attempt]: [u32; 2],
    ) -> Result<bool, ScheduleError> {
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
            seed: draws(self.record.seed, round, slot.nth_try),
            each: self.record.each.clone(),
            runtime: named(&self.record.runtimes, &slot.case.params),
        };
        match self.turns.take(self.turn, self.machine.interrupts()) {
            Taken::Mine => {}
            Taken::LeftAlone => self.observer.left_alone(),
            Taken::Interrupted => return Ok(false),
        }
        if let Err(error) = self.machine.prepare() {
            // The user's request to stop has reached it, too.
            return match self.machine.interrupts().count() {
                0 => Err(error.into()),
                _ => Ok(false),
            };
        }
        let began = self.machine.now();
        let started = jiff::Timestamp::now().to_string();
        let before = self.reading()?;
        let outcome = self.machine.run(&order, slot.case.deadline());
        let after = self.reading()?;
        // Nobody measured while all was stopped: the time budget does not count that.
        let measuring = |since: Duration, until: Duration| until.saturating_sub(since + outcome.stopped);
        let took = measuring(asked, self.machine.now());
        self.forecast.add(id, slot.case.estimate, took);
        let Some(mut sample) = outcome.sample else {
            return Ok(false);
        };
        let noise = self.surroundings.noise(before, &after, &self.cpus);
        // A quota stops too, and is a cause of its own.
        let stopped = outcome.stopped.saturating_sub(noise.throttled) + noise.suspended;
        let gated = match sample.status {
            Status::Ok => disturbed(&noise) || !stopped.is_zero(),
            // It may have failed for that, by a deadline of its own.
            Status::Failed => !stopped.is_zero(),
            Status::Skipped => false,
        };
        note(&mut sample, &noise, stopped, gated);
        self.surroundings.note(gated);
        let tried = StoredSample {
            experiment: self.chosen.experiment.id.to_owned(),
            case: id.to_owned(),
            round,
            copy: slot.copy,
            nth_try: slot.nth_try,
            attempt,
            gated,
            started,
            wall_ns: u64::try_from(outcome.wall.as_nanos()).unwrap_or(u64::MAX),
            sample,
        };
        self.store.add(&tried)?;
        self.history.add(tried);
        let now = self.machine.now();
        self.spent += measuring(began, now);
        self.repeat_later(gated, slot, [round, attempt], now + WINDOW);
        Ok(true)
    }

    /// The machine's counters. CPU time of the run that this one takes turns with counts as our own.
    fn reading(&mut self) -> Result<Reading, MachineError> {
        let mut reading = self.machine.read()?;
        reading.own_cpu += self.turns.cpu_of_the_other();
        Ok(reading)
    }
}

/// The tries of a round in shuffled order: of every case that can run, and of the reference case twice.
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
    fastrand::Rng::with_seed(mixed(seed, round, name)).shuffle(&mut order);
    order
}

/// The seed for what cases draw in a try of a round.
fn draws(seed: u64, round: u32, nth_try: u32) -> u64 {
    fastrand::Rng::with_seed(mixed(seed, round, [u64::from(nth_try)])).u64(..=LARGEST_SEED)
}

/// A seed of its own for a round, and for what is counted or named by `what`.
fn mixed(seed: u64, round: u32, what: impl IntoIterator<Item = u64>) -> u64 {
    what.into_iter().fold(seed ^ (u64::from(round) << 32), |h, b| {
        (h ^ b).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The runtime of this name, where a case names one.
fn named(runtimes: &[Runtime], case: &Params) -> Option<Runtime> {
    let name = case.text("runtime")?;
    runtimes.iter().find(|runtime| runtime.name == name).cloned()
}

fn disturbed(noise: &Noise) -> bool {
    noise.steal_share > STEAL_LIMIT
        || noise.foreign_cpus > FOREIGN_LIMIT_CPUS
        || noise.throttled > Duration::ZERO
}

fn note(sample: &mut Sample, noise: &Noise, stopped: Duration, gated: bool) {
    sample.noise.insert("steal_share".to_owned(), noise.steal_share);
    sample.noise.insert("foreign_cpus".to_owned(), noise.foreign_cpus);
    if let Some(pressure) = noise.pressure_share {
        sample.noise.insert("pressure_share".to_owned(), pressure);
    }
    for (name, time) in [(THROTTLED_S, noise.throttled), (STOPPED_S, stopped)] {
        if !time.is_zero() {
            sample.noise.insert(name.to_owned(), time.as_secs_f64());
        }
    }
    if gated {
        sample.tags.push("noisy".to_owned());
    }
}
