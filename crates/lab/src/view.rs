//! The samples of a run, by case and round: what statistics are evaluated on.
//!
//! Owns finding cells and pairing rounds, and whether disturbed rounds count: they do where too few others are left
//! (METHOD rule 10). A round in which any of the wanted cells is missing is always left out. Where there are no
//! figures, a [`Lack`] says why.

use std::collections::BTreeMap;

use threadgauge_results::{
    Cost, Curve, Lack, MetricSummary, Need, Params, RanBeside, Rounds, Take, disturbed_alike,
};
use threadgauge_stats::{Between, unpaired_ratio};

use crate::site::Profile;
use crate::statistic::{Cell, Estimate, Form, Statistic};

/// One case's figures.
#[derive(Debug, Clone, Default)]
pub struct ViewCase {
    /// Its point in the grid.
    pub params: Params,
    /// Why it has no figures, or lacks some.
    pub lack: Option<Lack>,
    /// Metric name → undisturbed round → value.
    pub values: BTreeMap<String, BTreeMap<u32, f64>>,
    /// Metric name → round, disturbed or not → value.
    pub all: BTreeMap<String, BTreeMap<u32, f64>>,
    /// Metric name → summary of all rounds.
    pub summaries: BTreeMap<String, MetricSummary>,
    /// What it ran on and beside.
    pub ran_beside: RanBeside,
}

/// A case that an experiment has in a profile.
pub type Planned = (&'static str, Profile, Params);

/// The cases of a run, by experiment, each in plan order.
pub type Cases = BTreeMap<String, Vec<ViewCase>>;

/// What an experiment sees of a run: its own cases, and by name those of others.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The experiment that asks.
    pub experiment: &'a str,
    /// The profile of the run.
    pub profile: Profile,
    /// Every interval has the level 1 − this: the error that the profile's number of looks leaves for one look.
    pub alpha: f64,
    /// The rounds that the first look needs: with fewer undisturbed ones, all count.
    pub fewest: usize,
    /// All cases of the run.
    pub cases: &'a Cases,
    /// What every profile has, the shortest first: for a cell that this run lacks.
    pub planned: &'a [Planned],
}

impl<'a> View<'a> {
    pub(crate) fn own(&self) -> &'a [ViewCase] {
        self.cases.get(self.experiment).map_or(&[], Vec::as_slice)
    }

    /// The parameters of every planned case that `pattern` picks, in plan order.
    pub fn planned(&self, pattern: impl Into<Params>) -> impl Iterator<Item = &Params> {
        let pattern = pattern.into();
        self.own()
            .iter()
            .map(|c| &c.params)
            .filter(move |p| p.matches(&pattern))
    }

    /// The most CPUs of any planned case, where that is more than one.
    #[must_use]
    pub fn all_cpus(&self) -> Option<u64> {
        let most = self.own().iter().filter_map(|c| c.params.int("cpus")).max()?;
        (most > 1).then_some(most)
    }

    /// What the cases on so many CPUs lack, where every one of them was skipped for lack of CPUs.
    #[must_use]
    pub fn lacks_cpus(&self, cpus: u64) -> Option<&Lack> {
        let of_them = self.own().iter().filter(|c| c.params.int("cpus") == Some(cpus));
        let lack = |c: &'a ViewCase| c.lack.as_ref().filter(|lack| lack.of == Need::Cpus);
        let lacks: Option<Vec<&Lack>> = of_them.map(lack).collect();
        lacks?.first().copied()
    }

    /// Round → value, where there are figures for all cells: of the undisturbed rounds, where there are as many as the
    /// first look needs, else of all. One rule for claims and for all that is shown.
    ///
    /// # Errors
    ///
    /// What is missing, and why.
    pub fn by_round(&self, statistic: &Statistic) -> Result<BTreeMap<u32, f64>, Lack> {
        let undisturbed = self.of_rounds(statistic, Take::Undisturbed)?;
        if undisturbed.len() >= self.fewest {
            return Ok(undisturbed);
        }
        let all = self.of_rounds(statistic, Take::All)?;
        if all.is_empty() {
            let says = "no round has figures for all the cells this needs";
            return Err(Lack::new(Need::Figures, says));
        }
        Ok(all)
    }

    /// The values of [`by_round`](Self::by_round), in order.
    ///
    /// # Errors
    ///
    /// What is missing, and why.
    pub fn rounds(&self, statistic: &Statistic) -> Result<Vec<f64>, Lack> {
        Ok(self.by_round(statistic)?.into_values().collect())
    }

    /// The values of [`by_round`](Self::by_round), and how they are estimated.
    pub(crate) fn evidence(&self, statistic: &Statistic) -> Result<Rounds, Lack> {
        Ok(Rounds {
            by_round: self.by_round(statistic)?,
            estimator: statistic.estimator(),
        })
    }

    pub(crate) fn curve(&self, points: &[(f64, Statistic)], between: Between) -> Result<Curve, Lack> {
        let point = |(x, ratio): &(f64, Statistic)| Ok((*x, self.evidence(ratio)?));
        let points = points.iter().map(point).collect::<Result<_, Lack>>()?;
        Ok(Curve { points, between })
    }

    /// Whether its cells were disturbed alike, where disturbed rounds count in [`by_round`](Self::by_round).
    #[must_use]
    pub fn disturbance(&self, statistic: &Statistic) -> Option<bool> {
        if let Form::Unpaired { over, under } = &statistic.form {
            let parts = [over, under].map(|part| self.disturbance(part));
            // Of different experiments, measured at different times.
            return parts.iter().any(Option::is_some).then_some(false);
        }
        if let Form::Crossing { points, .. } = &statistic.form {
            let parts = points.iter().filter_map(|(_, ratio)| self.disturbance(ratio));
            return parts.reduce(|all, alike| all && alike);
        }
        let count = |take| self.of_rounds(statistic, take).map_or(0, |rounds| rounds.len());
        let undisturbed = count(Take::Undisturbed);
        let cases = statistic
            .cells()
            .into_iter()
            .filter_map(|cell| self.find(cell).ok());
        let cases: Vec<RanBeside> = cases.map(|case| case.ran_beside).collect();
        (undisturbed < self.fewest && undisturbed < count(Take::All)).then(|| disturbed_alike(&cases))
    }

    fn of_rounds(&self, statistic: &Statistic, take: Take) -> Result<BTreeMap<u32, f64>, Lack> {
        let Form::ByRound { cells, formula, .. } = &statistic.form else {
            let says = "it has no value in a round: a crossing, or figures of different experiments";
            return Err(Lack::new(Need::Figures, says));
        };
        let columns: Vec<_> = cells
            .iter()
            .map(|c| self.column(c, take))
            .collect::<Result<_, _>>()?;
        let Some(first) = columns.first() else {
            return Ok(BTreeMap::new());
        };
        let of_round = |round: &u32| {
            let values: Option<Vec<f64>> = columns.iter().map(|c| c.get(round).copied()).collect();
            Some((*round, values.map(|v| formula(&v)).filter(|v| v.is_finite())?))
        };
        Ok(first.keys().filter_map(of_round).collect())
    }

    /// The estimate with its interval, at the level that `alpha` gives.
    ///
    /// # Errors
    ///
    /// What is missing, and why.
    pub fn estimated(&self, statistic: &Statistic) -> Result<Estimate, Lack> {
        let estimate = match &statistic.form {
            Form::ByRound { .. } => self.evidence(statistic)?.estimate(self.alpha),
            Form::Crossing { points, between } => self.curve(points, *between)?.estimate(self.alpha),
            Form::Unpaired { over, under } => {
                unpaired_ratio(&self.rounds(under)?, &self.rounds(over)?, self.alpha)
            }
        };
        let estimate =
            estimate.map_err(|e| Lack::new(Need::Figures, format!("it cannot be estimated: {e}")))?;
        Ok(Estimate {
            value: estimate.estimate,
            ci95: estimate.ci.map(|ci| [ci.low, ci.high]),
        })
    }

    /// [`estimated`](Self::estimated), where nothing is missing.
    #[must_use]
    pub fn estimate(&self, statistic: &Statistic) -> Option<Estimate> {
        self.estimated(statistic).ok()
    }

    /// The estimate without its interval.
    #[must_use]
    pub fn value(&self, statistic: &Statistic) -> Option<f64> {
        Some(self.estimate(statistic)?.value)
    }

    /// The figure with its interval as text, for a table; empty where there is none.
    #[must_use]
    pub fn shown(&self, statistic: &Statistic, unit: &str) -> String {
        self.estimate(statistic)
            .map_or_else(String::new, |e| e.show(unit))
    }

    /// What is paid for a kind of unit, where it was measured: a row of the table of threads and processes, and with a
    /// [name](Cost::named) one of *what things cost here*. `how` says how it was measured.
    #[must_use]
    pub fn cost(&self, paid_for: (&str, &str), how: &str, statistic: &Statistic, unit: &str) -> Option<Cost> {
        let Estimate { value, ci95 } = self.estimate(statistic)?;
        Some(Cost::new(paid_for, how, (value, ci95), unit))
    }

    /// Whether every cell of a statistic was measured, disturbed or not.
    #[must_use]
    pub fn measured(&self, statistic: &Statistic) -> bool {
        statistic.cells().iter().all(|cell| self.summary(cell).is_some())
    }

    /// Whether a difference can be told from 0, by an interval of 95 % (METHOD rule 11).
    #[must_use]
    pub fn resolved(&self, difference: &Statistic) -> bool {
        let interval = self.estimate(difference).and_then(|d| d.ci95);
        interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
    }

    /// The summary of a cell over all rounds, where it has figures.
    #[must_use]
    pub fn summary(&self, cell: &Cell) -> Option<&MetricSummary> {
        self.find(cell).ok()?.summaries.get(&cell.metric)
    }

    /// Which of the experiment's own cases a cell is.
    pub(crate) fn case(&self, cell: &Cell) -> Option<&Params> {
        let is_own = cell.experiment.is_none_or(|id| id == self.experiment);
        self.find(cell).ok().filter(|_| is_own).map(|case| &case.params)
    }

    fn find(&self, cell: &Cell) -> Result<&ViewCase, Lack> {
        let experiment = cell.experiment.unwrap_or(self.experiment);
        let cases = self.cases.get(experiment).map_or(&[][..], Vec::as_slice);
        let mut found = cases.iter().filter(|c| c.params.matches(&cell.pattern));
        let case = found.next().ok_or_else(|| {
            let has_it = |(of, _, params): &&Planned| *of == experiment && params.matches(&cell.pattern);
            let least = self.planned.iter().find(has_it);
            let command = least.map_or_else(String::new, |(_, profile, _)| {
                let profile = profile.name();
                format!("; `threadgauge run {experiment} --profile {profile}` has it")
            });
            let pattern = &cell.pattern;
            let says = format!("needs {experiment}/{pattern}, which this run did not plan{command}");
            Lack::new(Need::Profile, says)
        })?;
        if found.next().is_some() {
            let says = format!("{experiment}/{} picks several cases of this run", cell.pattern);
            return Err(Lack::new(Need::Figures, says));
        }
        Ok(case)
    }

    fn column(&self, cell: &Cell, take: Take) -> Result<&BTreeMap<u32, f64>, Lack> {
        let case = self.find(cell)?;
        let rounds = match take {
            Take::Undisturbed => &case.values,
            Take::All => &case.all,
        };
        rounds.get(&cell.metric).ok_or_else(|| self.without(cell, case))
    }

    /// Why a case has no figures for a metric.
    fn without(&self, cell: &Cell, case: &ViewCase) -> Lack {
        match &case.lack {
            // A machine's lack is said once, not for each cell.
            Some(lack) if lack.of.is_beyond_this_machine() => lack.clone(),
            lack => {
                let experiment = cell.experiment.unwrap_or(self.experiment);
                let why = lack.as_ref().map_or("it has no figures", |l| l.says.as_str());
                let of = lack.as_ref().map_or(Need::Figures, |l| l.of);
                Lack::new(of, format!("needs {experiment}/{}: {why}", case.params))
            }
        }
    }
}
