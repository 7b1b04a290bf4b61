//! The rounds: which case runs when, which sample is repeated, and when to stop (METHOD rules 3, 7, 10).
//!
//! Each round takes a sample of every case, two of the reference case, all in the same number of tries. The tries of all
//! samples are shuffled together, from the run's seed: what disturbs this machine lasts for tenths of seconds, so tries
//! behind each other would all be hit by it. Each try is stored at once, and what has been stored is never run again, so
//! an interrupted run goes on where it stopped. What the tries of a sample make is not decided here.

mod chosen;
mod history;
mod machine;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use threadgauge_machine::{CpuList, MachineError, Noise, Reading, noise_between};
use threadgauge_results::{RunRecord, Sample, Status, Store, StoreError, StoredSample, Take, by_round};
use threadgauge_stats::{Reason, Step, StoppingRule, Summary, summarise};

use crate::grid::PlannedCase;
use crate::site::Profile;
use crate::statistic::Metric;
use crate::turns::{Taken, Turn, Turns};
use crate::worker::Order;
pub use chosen::Chosen;
use chosen::FEWEST_ROUNDS;
use history::History;
pub use machine::{Machine, ThisMachine};

/// Beyond these a sample is disturbed and repeated (rule 10).
const STEAL_LIMIT: f64 = 0.01;
const FOREIGN_LIMIT_CPUS: f64 = 0.05;
/// `/proc/stat` counts in steps of 10 ms, and a short sample may lie anywhere in them: foreign load is judged over at
/// least this.
const FOREIGN_WINDOW: Duration = Duration::from_secs(2);
/// How often a disturbed sample is repeated.
const REPEATS: u32 = 2;

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
    /// An experiment has ended.
    fn experiment_ends(&mut self, id: &str, because: &str);
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

/// The rounds an experiment is expected to take: the first look, since precision usually stops it there
/// or the time budget soon after.
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
    profile: Profile,
    machine: &mut dyn Machine,
    turns: &mut Turns,
    observer: &mut dyn Observer,
) -> Result<Ending, ScheduleError> {
    let record = store.run()?;
    let rule = stopping_rule(profile, record.rounds);
    let rounds = f64::from(expected_rounds(&rule));
    let planned = |chosen: &Chosen| chosen.round_estimate().as_secs_f64() * rounds;
    let mut pace = Pace {
        whole: chosen.iter().map(planned).sum(),
        ..Pace::default()
    };
    // What the experiments so far have left of their time: the next may need it in a slow hour.
    let mut spare = Duration::ZERO;
    for (experiment, chosen) in chosen.iter().enumerate() {
        let id = chosen.experiment.id;
        pace.ceiling = pace.done + planned(chosen);
        let mut session = Session {
            experiment,
            chosen,
            budget: chosen.plan.budget + spare,
            record: &record,
            rule: &rule,
            cpus: CpuList::new(record.cpus.iter().copied()),
            history: History::new(store.samples(id)?),
            readings: VecDeque::new(),
            machine: &mut *machine,
            turns,
            store,
            observer,
            pace: &mut pace,
        };
        let Some(because) = session.rounds()? else {
            return Ok(Ending::Interrupted);
        };
        spare = session.budget.saturating_sub(session.history.spent);
        store.set_stopped(id, Some(because))?;
        pace.done = pace.ceiling;
        observer.experiment_ends(id, because);
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

/// One experiment under way.
struct Session<'a> {
    /// Its place in the run.
    experiment: usize,
    chosen: &'a Chosen,
    /// How long its samples may take together.
    budget: Duration,
    record: &'a RunRecord,
    rule: &'a StoppingRule,
    /// The run's CPUs: what others do on the rest of the machine is not gated.
    cpus: CpuList,
    history: History,
    readings: VecDeque<Reading>,
    machine: &'a mut dyn Machine,
    turns: &'a mut Turns,
    store: &'a mut Store,
    observer: &'a mut dyn Observer,
    pace: &'a mut Pace,
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
        let most = self.rule.looks.last().copied().unwrap_or(1);
        let mut stopped = None;
        for round in 1..=most {
            if self.machine.interrupts().count() > 0 {
                return Ok(None);
            }
            // A round that is half done already is finished first: what was decided before it stays decided.
            if round > 1 && !self.history.has_begun(round) {
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
        Ok(stopped.or(Some("rounds")))
    }

    /// Why no round need follow these.
    fn enough(&self, rounds: u32) -> Option<&'static str> {
        match self.rule.decide(rounds, &self.half_widths()) {
            Step::Stop(Reason::Precision) => return Some("precision"),
            Step::Stop(Reason::Rounds) => return Some("rounds"),
            Step::Continue => {}
        }
        let per_round = self.history.spent / rounds;
        let has_interval = rounds >= FEWEST_ROUNDS && self.record.rounds.is_none();
        let too_long = self.history.spent + per_round > self.budget;
        (has_interval && too_long).then_some("time-budget")
    }

    fn turn(&self, round: u32, attempt: u32, place: usize) -> Turn {
        Turn {
            experiment: self.experiment,
            round,
            attempt,
            place,
        }
    }

    /// Takes a sample of every case, then the repeats of what was disturbed; false when the user stopped it.
    fn round(&mut self, round: u32, most: u32) -> Result<bool, ScheduleError> {
        let order = shuffled(self.chosen, self.record.seed, round);
        for (place, slot) in order.iter().enumerate() {
            let id = slot.case.params.case_id(self.chosen.experiment.id);
            if self.history.last(round, &id, *slot).is_some() || self.history.gave_up(&id) {
                self.pace.skip(slot.case.estimate);
                continue;
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
        for attempt in 1..=REPEATS {
            for (place, slot) in order.iter().enumerate() {
                let id = slot.case.params.case_id(self.chosen.experiment.id);
                let last = self.history.last(round, &id, *slot);
                let wanted = last.is_some_and(|last| last.attempt == attempt - 1 && last.gated);
                if wanted && !self.try_once(*slot, &id, self.turn(round, attempt, place))? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Runs one worker and stores its try; false when the user stopped it.
    fn try_once(&mut self, slot: Slot<'_>, id: &str, turn: Turn) -> Result<bool, ScheduleError> {
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
        let started = jiff::Timestamp::now().to_string();
        let before = self.reading()?;
        let outcome = self.machine.run(&order, slot.case.deadline());
        let after = self.reading()?;
        self.pace.spent += self.machine.now().saturating_sub(asked).as_secs_f64();
        let Some(mut sample) = outcome.sample else {
            return Ok(false);
        };
        let throttled = noise_between(&before, &after, Some(&self.cpus)).throttled;
        let noise = Noise {
            throttled,
            ..self.noise(before, &after)
        };
        let gated = sample.status == Status::Ok && disturbed(&noise);
        note(&mut sample, &noise, gated);
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
        Ok(true)
    }

    /// The machine's counters; the run that this one takes turns with is no stranger.
    fn reading(&mut self) -> Result<Reading, MachineError> {
        let mut reading = self.machine.read()?;
        reading.own_cpu += self.turns.cpu_of_the_other();
        Ok(reading)
    }

    /// The disturbance over the sample, but over at least [`FOREIGN_WINDOW`] where readings reach back so far.
    fn noise(&mut self, before: Reading, after: &Reading) -> Noise {
        self.readings.push_back(before);
        let reach = |earlier: &Reading| Duration::from_nanos(after.at_ns.saturating_sub(earlier.at_ns));
        while self.readings.len() > 1 && reach(&self.readings[1]) >= FOREIGN_WINDOW {
            self.readings.pop_front();
        }
        noise_between(&self.readings[0], after, Some(&self.cpus))
    }

    /// The relative half-widths of the primary metrics' intervals, case by case.
    fn half_widths(&self) -> Vec<Option<f64>> {
        let alpha = self.rule.alpha_per_look();
        let primary = self.chosen.experiment.primary;
        let of_metric = |case: &PlannedCase, metric: &Metric| {
            let id = case.params.case_id(self.chosen.experiment.id);
            let rounds = by_round(&self.history.tries, &id, 0, metric.name, Take::Undisturbed);
            let values: Vec<f64> = rounds.into_values().collect();
            let width = |summary: Summary| summary.ci?.relative_half_width(summary.median);
            (!values.is_empty()).then(|| summarise(&values, alpha).ok().and_then(width))
        };
        let pairs = self
            .chosen
            .able()
            .flat_map(|case| primary.iter().map(move |metric| (case, metric)));
        pairs
            .filter_map(|(case, metric)| of_metric(case, metric))
            .collect()
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
