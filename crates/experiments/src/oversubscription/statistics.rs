//! The groups of cases that differ in their number of units, and the statistics that claims, facts, charts and tables
//! share. The source's lines are the same functions, applied to its run times.

use std::collections::BTreeSet;

use threadgauge_lab::prelude::*;
use threadgauge_lab::view::{Cases, ViewCase};

use super::case::{Case, Decimal, Mode, Slice, Unit, Work};
use super::units::{CPU, ELAPSED, INVOLUNTARY_SWITCHES, PIECES, VOLUNTARY_SWITCHES};

/// The counts of the source's table.
pub(super) const COUNTS: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Those at which every profile has the group that never gives up the CPU, on one CPU.
pub(super) const CONTROLS: &[u64] = COUNTS.split_at(12).0;

/// The source's threads on one CPU, at its slice: the first of the group of cases that differ in their count.
pub(super) const ONE: Case = Case {
    unit: Unit::Thread,
    mode: Mode::Yield,
    count: 1,
    cpus: 1,
    slice_us: Slice::Matched,
    work_s: SHORT_WORK,
};
/// The same on two.
pub(super) const TWO: Case = ONE.cpus(2);

/// The work of the cells whose slice is about as long as a switch: at 8,192 units each has two.
pub(super) const SHORT_WORK: Work = Work::ms(26);

/// The fewest slices of a thread in a cell that a claim is judged on. From 1,024 threads on they are some twenty: as
/// many as the source's threads had where there were most of them.
const fn fewest_slices(threads: u64) -> f64 {
    match threads {
        1_024.. => 18.0,
        _ => 10.0,
    }
}

pub(super) const fn threads(mode: Mode, cpus: u64) -> Case {
    ONE.mode(mode).cpus(cpus)
}

/// The statistics of a group of cases: of its case with `count` units, whatever the amount of work.
impl Case {
    /// The group whose slice is about as long as a switch.
    pub(super) const fn short(self) -> Self {
        self.slice_us(Slice::SHORT)
    }

    /// The group of processes.
    pub(super) const fn processes(self) -> Self {
        self.unit(Unit::Process)
    }

    /// The group that never gives up the CPU.
    pub(super) const fn control(self) -> Self {
        self.mode(Mode::Neither)
    }

    /// Picks its case with so many units.
    pub(super) fn pattern(self, count: u64) -> Params {
        self.count(count).any(&["work_s"])
    }

    pub(super) fn of(self, metric: Metric, count: u64) -> Statistic {
        metric.of(self.pattern(count))
    }

    pub(super) fn time(self, count: u64) -> Statistic {
        self.of(ELAPSED, count)
    }

    /// Run time over the run time of as many units as CPUs.
    pub(super) fn slowdown(self, count: u64) -> Statistic {
        self.time(count).over(self.time(self.cpus))
    }

    pub(super) fn overhead(self, count: u64) -> Statistic {
        self.slowdown(count).less_one()
    }

    /// None for fewer units than CPUs, as in the source.
    pub(super) fn overhead_percent(self, count: u64) -> Option<Statistic> {
        (count >= self.cpus).then(|| self.overhead(count).times(100.0))
    }

    /// Run time over the run time of the same units that never give up the CPU.
    pub(super) fn over_control(self, count: u64) -> Statistic {
        self.time(count).over(self.control().time(count))
    }

    /// What giving up the CPU adds to a metric.
    pub(super) fn added(self, metric: Metric, count: u64) -> Statistic {
        self.of(metric, count).less(self.control().of(metric, count))
    }

    /// The same per additional switch.
    pub(super) fn per_switch(self, metric: Metric, count: u64) -> Statistic {
        let parts = [metric, VOLUNTARY_SWITCHES, INVOLUNTARY_SWITCHES];
        Statistic::function(parts.map(|part| self.added(part, count)), |added| {
            let switches = Some(added[1] + added[2]).filter(|more| *more >= 1.0);
            switches.map_or(f64::NAN, |more| added[0] / more)
        })
    }

    /// The overhead in CPU time of threads that sleep over that of those that yield, the base of both being as many
    /// yielding threads as CPUs.
    pub(super) fn sleep_over_yield(self, count: u64) -> Statistic {
        let base = threads(Mode::Yield, self.cpus).of(CPU, self.cpus);
        let over_work = |mode| threads(mode, self.cpus).of(CPU, count).over(base.clone());
        // No ratio of two times: either may be 0 or less.
        let over_yield = |over_work: &[f64]| (over_work[0] - 1.0) / (over_work[1] - 1.0);
        Statistic::function([Mode::Sleep, Mode::Yield].map(over_work), over_yield)
    }

    /// Time on one CPU over that on these.
    pub(super) fn speedup(self, count: u64) -> Statistic {
        self.cpus(1).time(count).over(self.time(count))
    }

    /// The gain from a second CPU: 1 for twice the speed.
    pub(super) fn gain(self, count: u64) -> Statistic {
        self.cpus(2).speedup(count).less_one()
    }

    /// The mean gain over these counts.
    pub(super) fn mean_gain(self, counts: &[u64]) -> Statistic {
        let gains = counts.iter().map(|&n| self.gain(n));
        Statistic::function(gains, |gains| gains.iter().sum::<f64>() / gains.len() as f64)
    }

    /// By how much the overhead rises from one count to another.
    pub(super) fn rise(self, from: u64, to: u64) -> Statistic {
        self.overhead(to).less(self.overhead(from))
    }

    /// Those of the source's counts that a run has of it.
    pub(super) fn counts(self, view: &View<'_>) -> Vec<u64> {
        let planned = |n: &u64| view.planned(self.pattern(*n)).next().is_some();
        COUNTS.into_iter().filter(planned).collect()
    }

    /// The same, where each thread has [enough slices](fewest_slices); also where it is not known yet.
    pub(super) fn judged(self, view: &View<'_>) -> Vec<u64> {
        let mut counts = self.counts(view);
        counts.retain(|&n| {
            let pieces = view.value(&self.of(PIECES, n));
            pieces.is_none_or(|pieces| pieces / n as f64 >= fewest_slices(n))
        });
        counts
    }
}

/// The slices of yielding threads that a run has: the matched one, and the others from the shortest on.
pub(super) fn slices(view: &View<'_>) -> Vec<Slice> {
    let cases = view.planned(Params::new()).filter_map(|p| Case::read(p).ok());
    let yielding = cases.filter(|case| case.unit == Unit::Thread && case.mode == Mode::Yield);
    let lengths: BTreeSet<Slice> = yielding.map(|case| case.slice_us).collect();
    lengths.into_iter().collect()
}

/// The slice that tables and the answer are about: the matched one where the run has it.
pub(super) fn main_slice(view: &View<'_>) -> Slice {
    let slices = slices(view);
    let of_profiles = [Slice::Matched, Slice::SHORT];
    let known = of_profiles.into_iter().find(|slice| slices.contains(slice));
    known.or(slices.first().copied()).unwrap_or(Slice::Matched)
}

/// The experiment's cases with the parameters of today, one of each that differ in the amount of work alone: that with
/// most. Runs from before slices had a length have `slices=16384` of 1.6 µs.
pub(super) fn of_today(view: &View<'_>) -> Cases {
    let mut cases: Vec<ViewCase> = Vec::new();
    for case in view.cases.get(view.experiment).into_iter().flatten() {
        let mut case = case.clone();
        if let Some(slices) = case.params.int("slices") {
            case.params = named_as_today(&case.params, slices);
        }
        let same_but_work = |other: &&mut ViewCase| {
            Case::read(&case.params).is_ok_and(|new| other.params.matches(&new.any(&["work_s"])))
        };
        let work = |case: &ViewCase| Case::read(&case.params).map_or(0, |case| case.work_s.steps());
        match cases.iter_mut().find(same_but_work) {
            Some(other) if work(other) < work(&case) => *other = case,
            Some(_) => {}
            None => cases.push(case),
        }
    }
    Cases::from([(view.experiment.to_owned(), cases)])
}

fn named_as_today(params: &Params, slices: u64) -> Params {
    let kept = params.iter().filter(|(name, _)| *name != "slices");
    let kept = kept.fold(Params::new(), |kept, (name, value)| {
        kept.with(name, value.clone())
    });
    let work = Decimal::tenths_of_millionths(slices.saturating_mul(16));
    kept.with("slice_us", point::Parameter::value(&Slice::SHORT))
        .with("work_s", point::Parameter::value(&work))
}

/// Whether the run is from before slices had a length.
pub(super) fn is_old(view: &View<'_>) -> bool {
    view.planned(Params::new())
        .any(|params| params.int("slices").is_some())
}

/// What picks a case in such a run.
pub(super) fn as_of_old(pattern: &mut Params) {
    let kept = pattern.iter().filter(|(name, _)| *name != "slice_us");
    *pattern = kept.fold(Params::new(), |kept, (name, value)| {
        kept.with(name, value.clone())
    });
}
