//! The samples of a run, by case and round: what statistics are evaluated on.
//!
//! Owns finding cells and pairing rounds, and whether disturbed rounds count: they do where too few others are left
//! (METHOD rule 10). A round in which any of the wanted cells is missing is always left out. Where there are no
//! figures, a [`Lack`] says why.

use std::collections::{BTreeMap, BTreeSet};

use threadgauge_results::{
    Cost, Curve, KeyNumber, Lack, MetricSummary, Need, Params, RanBeside, Rounds, Take, disturbed_alike,
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
    /// The tags that at least half of its samples have.
    pub tags: BTreeSet<String>,
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

    /// The parameters of every planned case that has the optional parameter `name`, in plan order.
    pub fn beside(&self, name: &str) -> impl Iterator<Item = &'a Params> {
        let params = self.own().iter().map(|c| &c.params);
        params.filter(move |p| p.get(name).is_some())
    }

    /// The tags of the case with these parameters: those that at least half of its samples have.
    pub fn tags(&self, params: impl Into<Params>) -> impl Iterator<Item = &'a str> {
        let params = params.into();
        let case = self.own().iter().find(|c| c.params == params);
        case.into_iter().flat_map(|c| &c.tags).map(String::as_str)
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

    /// The number that stands for an answer, where it was measured. `of` says of what it is, of a ratio what is divided
    /// by what: `a process ÷ a thread: made and ended, one CPU`.
    #[must_use]
    pub fn number(&self, of: impl Into<String>, statistic: &Statistic, unit: &str) -> Option<KeyNumber> {
        let Estimate { value, ci95 } = self.estimate(statistic)?;
        Some(KeyNumber {
            of: of.into(),
            value,
            ci95,
            unit: unit.to_owned(),
        })
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

    /// The command that measures all cells of a statistic, as short as there is one: its experiment and the least
    /// profile. None where no profile has them on the CPUs of this run.
    #[must_use]
    pub fn command(&self, statistic: &Statistic) -> Option<String> {
        let least = statistic.cells().into_iter().map(|cell| self.least(cell));
        let least: Vec<Profile> = least.collect::<Option<_>>()?;
        let of_all = Profile::ALL
            .into_iter()
            .rfind(|profile| least.contains(profile))?;
        Some(format!(
            "threadgauge run {} --profile {}",
            self.experiment,
            of_all.name()
        ))
    }

    /// The least profile that has a cell.
    fn least(&self, cell: &Cell) -> Option<Profile> {
        let experiment = cell.experiment.unwrap_or(self.experiment);
        let has_it = |(of, _, params): &&Planned| *of == experiment && params.matches(&cell.pattern);
        self.planned.iter().find(has_it).map(|(_, profile, _)| *profile)
    }

    fn find(&self, cell: &Cell) -> Result<&ViewCase, Lack> {
        let experiment = cell.experiment.unwrap_or(self.experiment);
        let cases = self.cases.get(experiment).map_or(&[][..], Vec::as_slice);
        let mut found = cases.iter().filter(|c| c.params.matches(&cell.pattern));
        let case = found.next().ok_or_else(|| {
            let command = self.least(cell).map_or_else(String::new, |profile| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistic::{Metric, metric};
    use crate::testing;

    const TIME: Metric = metric("elapsed_ns", "ns");

    fn params(n: u64, cpus: u64) -> Params {
        Params::new().with("n", n).with("cpus", cpus)
    }

    fn of(n: u64) -> Statistic {
        TIME.of(Params::new().with("n", n))
    }

    /// Three cases of ten rounds, the second twice and the third three times as long as the first.
    fn cases() -> Vec<ViewCase> {
        let rounds = |factor: f64| (0..10).map(|i| factor * (100.0 + f64::from(i % 3))).collect();
        [1, 2, 3]
            .map(|n| testing::case(params(n, n), [(TIME, rounds(n as f64))]))
            .to_vec()
    }

    fn view(cases: Vec<ViewCase>, fewest: usize) -> View<'static> {
        View {
            fewest,
            ..testing::view("e", Profile::Quick, cases)
        }
    }

    /// The cases, of which so many rounds of the first were undisturbed, each beside so much load.
    fn disturbed(undisturbed: u32, loads: [f64; 3]) -> Vec<ViewCase> {
        let mut cases = cases();
        for (case, load) in cases.iter_mut().zip(loads) {
            case.ran_beside = RanBeside {
                foreign_cpus: load,
                ..RanBeside::default()
            };
        }
        let values = cases[0].values.get_mut(TIME.name).unwrap();
        values.retain(|round, _| *round <= undisturbed);
        cases
    }

    #[test]
    fn undisturbed_rounds_count_where_there_are_as_many_as_the_first_look_needs_and_else_all() {
        let ratio = of(2).over(of(1));
        let seen = |undisturbed, loads| {
            let view = view(disturbed(undisturbed, loads), 6);
            (view.rounds(&ratio).unwrap().len(), view.disturbance(&ratio))
        };
        assert_eq!(seen(10, [0.0; 3]), (10, None));
        assert_eq!(seen(6, [0.0, 0.9, 0.0]), (6, None));
        // The third case has no part in it.
        assert_eq!(seen(5, [0.40, 0.41, 0.0]), (10, Some(true)));
        assert_eq!(seen(5, [0.40, 0.50, 0.40]), (10, Some(false)));
        // Few rounds that were all undisturbed are not disturbed.
        let few = view(disturbed(10, [0.0; 3]), 20);
        assert_eq!(
            (few.rounds(&ratio).unwrap().len(), few.disturbance(&ratio)),
            (10, None)
        );
        // A crossing is as its ratios are: alike where all of them are.
        let crossing = |second: f64| {
            let view = view(disturbed(5, [0.40, 0.41, second]), 6);
            let ratios = [(1.0, of(2).over(of(1))), (2.0, of(3).over(of(1)))];
            view.disturbance(&Statistic::crossing(ratios, Between::Interpolated))
        };
        assert_eq!([0.40, 0.90].map(crossing), [Some(true), Some(false)]);
        let by_round = few.by_round(&ratio).unwrap();
        assert_eq!(
            by_round.keys().copied().collect::<Vec<_>>(),
            (1..=10).collect::<Vec<u32>>()
        );
        assert!(by_round.values().all(|ratio| (ratio - 2.0).abs() < 1e-12));
    }

    #[test]
    fn cases_with_an_optional_parameter_stand_beside_the_others() {
        let go = params(1, 1).with("runtime", "go");
        let mut all = cases();
        let rounds = vec![7.0; 10];
        all.push(testing::case(go.clone(), [(TIME, rounds)]));
        let view = view(all, 6);
        assert_eq!(view.planned(Params::new()).count(), 3);
        assert_eq!(view.beside("runtime").collect::<Vec<_>>(), [&go]);
        assert_eq!(view.beside("library").count(), 0);
        // Whoever does not name it finds the one case that there was before.
        assert!((view.value(&of(1)).unwrap() - 101.0).abs() < 1e-9);
        assert_eq!(view.value(&TIME.of(go)), Some(7.0));
    }

    #[test]
    fn a_round_that_one_cell_lacks_is_left_out_and_without_any_nothing_is_said() {
        let mut some = cases();
        let rounds = |case: &mut ViewCase, keep: fn(u32) -> bool| {
            for of in [&mut case.values, &mut case.all] {
                of.get_mut(TIME.name).unwrap().retain(|round, _| keep(*round));
            }
        };
        rounds(&mut some[0], |round| round > 4);
        rounds(&mut some[1], |round| round < 8);
        let ratio = of(2).over(of(1));
        let seen: Vec<u32> = view(some.clone(), 1)
            .by_round(&ratio)
            .unwrap()
            .into_keys()
            .collect();
        assert_eq!(seen, [5, 6, 7]);
        rounds(&mut some[1], |round| round < 5);
        let lack = view(some, 1).by_round(&ratio).unwrap_err();
        assert_eq!(
            (lack.of, lack.says.as_str()),
            (Need::Figures, "no round has figures for all the cells this needs")
        );
    }

    #[test]
    fn a_figure_has_its_estimate_and_a_difference_is_resolved_where_its_interval_leaves_0_out() {
        let view = view(cases(), 1);
        assert!((view.value(&of(2)).unwrap() - 202.0).abs() < 2.0);
        assert!(view.estimate(&of(2)).unwrap().ci95.is_some());
        assert!(view.shown(&of(2), "ns").contains("20"));
        assert!(view.cost(("make", "thread"), "by hand", &of(2), "ns").is_some());
        let number = view.number("two ÷ one", &of(2).over(of(1)), "ratio").unwrap();
        assert_eq!((number.of.as_str(), number.unit.as_str()), ("two ÷ one", "ratio"));
        assert!((number.value - 2.0).abs() < 1e-12 && number.ci95.is_some());
        assert_eq!(
            (view.value(&of(9)), view.shown(&of(9), "ns")),
            (None, String::new())
        );
        assert!(view.resolved(&of(2).less(of(1))) && view.resolved(&of(1).less(of(2))));
        assert!(!view.resolved(&of(1).less(of(1))) && !view.resolved(&of(9)));
        assert!(view.measured(&of(2).over(of(1))) && !view.measured(&of(2).over(of(9))));
    }

    #[test]
    fn a_pattern_picks_planned_cases_in_the_order_of_the_plan() {
        let mut all = cases();
        all.push(testing::case(params(1, 7), [(TIME, vec![1.0])]));
        let view = view(all, 1);
        let picked = |pattern: Params| view.planned(pattern).cloned().collect::<Vec<_>>();
        let ones = [params(1, 1), params(1, 7)];
        assert_eq!(picked(Params::new().with("n", 1)), ones);
        assert_eq!(picked(Params::new()).len(), 4);
        assert!(picked(Params::new().with("n", 9)).is_empty());
    }

    #[test]
    fn a_cell_is_one_case_of_its_experiment() {
        let mut all = cases();
        all.push(testing::case(params(1, 7), [(TIME, vec![1.0])]));
        let view = view(all, 1);
        let says = |statistic: &Statistic| view.rounds(statistic).unwrap_err().says;
        assert!(says(&of(1)).ends_with("picks several cases of this run"));
        assert!(says(&of(9)).starts_with("needs e/n=9, which this run did not plan"));
        let cell = |statistic: &Statistic| view.case(statistic.cells()[0]).cloned();
        assert_eq!(cell(&of(2)), Some(params(2, 2)));
        assert_eq!(cell(&of(9)), None);
        assert_eq!(cell(&of(2).in_experiment("e")), Some(params(2, 2)));
        let mut two = view.cases.clone();
        two.insert("other".to_owned(), cases());
        let both = View { cases: &two, ..view };
        assert_eq!(
            both.case(of(2).in_experiment("other").cells()[0]),
            None,
            "not its own"
        );
        let planned = [
            ("other", Profile::Quick, Params::new().with("n", 9)),
            ("e", Profile::Standard, Params::new().with("n", 8)),
            ("e", Profile::Paper, Params::new().with("n", 9)),
        ];
        let planned = View {
            planned: &planned,
            ..view
        };
        let says = planned.rounds(&of(9)).unwrap_err().says;
        assert!(
            says.ends_with("; `threadgauge run e --profile paper` has it"),
            "{says}"
        );
    }

    #[test]
    fn a_statistic_has_the_command_of_the_least_profile_that_has_all_its_cells() {
        let n = |n: u64| Params::new().with("n", n);
        let planned = [
            ("e", Profile::Standard, n(1)),
            ("other", Profile::Standard, n(2)),
            ("e", Profile::Paper, n(1)),
            ("e", Profile::Paper, n(2)),
        ];
        let view = View {
            planned: &planned,
            ..view(Vec::new(), 1)
        };
        let command = |statistic: Statistic| view.command(&statistic);
        assert_eq!(
            command(of(1)).as_deref(),
            Some("threadgauge run e --profile standard")
        );
        let both = command(of(2).over(of(1)));
        assert_eq!(both.as_deref(), Some("threadgauge run e --profile paper"));
        assert_eq!(command(of(9).over(of(1))), None);
    }

    #[test]
    fn what_a_machine_lacks_is_said_once_and_anything_else_for_each_cell() {
        let lacking = |need| {
            let lack = Lack::new(need, "it is not here");
            let mut all = cases();
            all[0] = testing::lacking(params(1, 1), lack);
            view(all, 1).rounds(&of(1)).unwrap_err().says
        };
        assert_eq!(lacking(Need::Cpus), "it is not here");
        assert_eq!(lacking(Need::Figures), "needs e/n=1,cpus=1: it is not here");
    }

    #[test]
    fn the_most_cpus_are_those_of_any_case_and_more_than_one() {
        assert_eq!(view(cases(), 1).all_cpus(), Some(3));
        assert_eq!(view(cases()[..2].to_vec(), 1).all_cpus(), Some(2));
        assert_eq!(view(cases()[..1].to_vec(), 1).all_cpus(), None);
        let lack = |need| testing::lacking(params(4, 2), Lack::new(need, "there is one CPU"));
        let lacks = |cases: &[ViewCase], cpus| view(cases.to_vec(), 1).lacks_cpus(cpus).cloned();
        let two = [lack(Need::Cpus), lack(Need::Cpus), cases()[2].clone()];
        assert_eq!(lacks(&two, 2), Some(Lack::new(Need::Cpus, "there is one CPU")));
        assert_eq!(lacks(&two, 3), None);
        assert_eq!(lacks(&[lack(Need::Cpus), cases()[1].clone()], 2), None);
        assert_eq!(lacks(&[lack(Need::Memory)], 2), None);
        assert_eq!(lacks(&[], 2), None);
    }
}
