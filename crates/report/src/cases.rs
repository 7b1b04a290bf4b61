//! The cases of an experiment as a table: which columns there are and in which unit each is.
//!
//! The page, the Markdown, the terminal and the workbook lay this out; it decides what they show.
//! Parameters that are the same in every case are taken out of the table and said once.

use threadgauge_results::units::{self, Scale};
use threadgauge_results::{CaseResult, ExperimentResult, MetricSummary, Status};

use crate::words;

/// The columns of an experiment's table.
pub(crate) struct Cases<'a> {
    /// Parameters all cases share, said once.
    pub shared: Vec<(&'a str, String)>,
    /// Parameters that tell cases apart, in the experiment's order.
    pub params: Vec<&'a str>,
    /// Metrics: primary ones first.
    pub metrics: Vec<Metric<'a>>,
    /// How many of `metrics` are primary.
    pub primary: usize,
    /// Tags all measured cases share, said once.
    tags: Vec<&'a str>,
    experiment: &'a ExperimentResult,
}

/// A metric's column.
pub(crate) struct Metric<'a> {
    /// As stored.
    pub name: &'a str,
    /// As stored.
    pub unit: &'a str,
    /// What the column is printed in.
    pub scale: Scale<'a>,
}

impl Metric<'_> {
    /// The head of the column, with the unit: `time per unit, µs`.
    pub fn head(&self) -> String {
        let name = units::metric_name(self.name);
        if self.scale.name.is_empty() || name == self.scale.name {
            name
        } else {
            format!("{name}, {}", self.scale.name)
        }
    }

    /// The figures of a case, where it has them.
    pub fn of<'c>(&self, case: &'c CaseResult) -> Option<&'c MetricSummary> {
        case.summaries.get(self.name)
    }
}

impl<'a> Cases<'a> {
    /// The columns `experiment` needs.
    pub fn of(experiment: &'a ExperimentResult) -> Self {
        let cases = &experiment.cases;
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in cases.iter().flat_map(|c| c.params.iter()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let (params, shared): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| {
            let first = cases.first().and_then(|c| c.params.get(name));
            cases.len() == 1 || cases.iter().any(|c| c.params.get(name) != first)
        });
        let shared = shared.into_iter().filter_map(|name| {
            let value = cases.first()?.params.get(name)?;
            Some((name, value.to_string()))
        });
        let mut metrics: Vec<&str> = Vec::new();
        let measured = |name: &str| cases.iter().any(|c| c.summaries.contains_key(name));
        for name in experiment
            .primary_metrics
            .iter()
            .map(String::as_str)
            .filter(|n| measured(n))
        {
            if !metrics.contains(&name) {
                metrics.push(name);
            }
        }
        let primary = metrics.len();
        for name in cases.iter().flat_map(|c| c.summaries.keys()) {
            if !metrics.contains(&name.as_str()) {
                metrics.push(name);
            }
        }
        metrics[primary..].sort_unstable();
        let ok: Vec<&CaseResult> = cases.iter().filter(|c| c.status == Status::Ok).collect();
        let tags = ok
            .first()
            .into_iter()
            .flat_map(|c| c.tags.iter().map(String::as_str));
        let everywhere = |tag: &&str| ok.len() > 1 && ok.iter().all(|c| c.tags.iter().any(|t| t == tag));
        let tags = tags.filter(everywhere).collect();
        let metrics = metrics.into_iter().map(|name| {
            let summaries = || cases.iter().filter_map(|c| c.summaries.get(name));
            let unit = summaries().next().map_or("", |s| s.unit.as_str());
            Metric {
                name,
                unit,
                scale: Scale::of_column(unit, summaries().map(|s| s.median)),
            }
        });
        Self {
            shared: shared.collect(),
            params,
            metrics: metrics.collect(),
            primary,
            tags,
            experiment,
        }
    }

    /// The primary metrics; all where none is primary.
    pub fn main_metrics(&self) -> &[Metric<'a>] {
        if self.primary == 0 {
            &self.metrics
        } else {
            &self.metrics[..self.primary]
        }
    }

    /// At most so many metrics: the primary ones, then those that most cases have, in the order of all.
    pub fn commonest(&self, most: usize) -> Vec<&Metric<'a>> {
        let had = |metric: &Metric<'_>| {
            let cases = self.experiment.cases.iter();
            cases.filter(|case| metric.of(case).is_some()).count()
        };
        let mut others: Vec<usize> = (self.primary..self.metrics.len()).collect();
        others.sort_by_key(|&i| std::cmp::Reverse(had(&self.metrics[i])));
        let mut chosen: Vec<usize> = (0..self.primary).chain(others).take(most).collect();
        chosen.sort_unstable();
        chosen.into_iter().map(|i| &self.metrics[i]).collect()
    }

    /// What the cases share, in a sentence; empty where they share nothing.
    pub fn shared_line(&self) -> String {
        let params = self.shared.iter().map(|(n, v)| format!("{n}={v}"));
        let tags = self.tags.iter().map(|t| (*t).to_owned());
        let list: Vec<String> = params.chain(tags).collect();
        if list.is_empty() {
            String::new()
        } else {
            format!("In every case: {}.", list.join(", "))
        }
    }

    /// What the figures are, in a sentence; and where some samples were disturbed, that answers stand on other rounds.
    pub fn figures_line(&self) -> String {
        let bases = match self.experiment.disturbed.disturbed {
            0 => "",
            _ => {
                " All rounds count here, disturbed ones too; in answers, claims and charts the undisturbed ones alone, where \
                 there are enough of them."
            }
        };
        self.medians() + bases
    }

    fn medians(&self) -> String {
        let summaries = || self.experiment.cases.iter().flat_map(|c| c.summaries.values());
        let levels = summaries().filter_map(|s| s.ci_level);
        let (low, high) = levels.fold((f64::INFINITY, 0f64), |(low, high), l| (low.min(l), high.max(l)));
        let percent = |l: f64| format!("{:.1} %", l * 100.0);
        if high == 0.0 {
            return match self.experiment.rounds {
                1 => "Figures of one round; an interval needs at least 6.".to_owned(),
                rounds => format!("Medians over {rounds} rounds; an interval needs at least 6."),
            };
        }
        let level = if high - low < 0.0005 {
            percent(low)
        } else {
            format!("{} to {}", percent(low), percent(high))
        };
        let missing = summaries().any(|s| s.ci95.is_none());
        let without = if missing {
            " Below 6 values there is no interval."
        } else {
            ""
        };
        format!("Medians over the rounds, each with its exact interval (level {level}).{without}")
    }

    /// What the reader must know of a case: why it has no figures, fewer rounds, its tags.
    pub fn note(&self, case: &CaseResult) -> String {
        let mut parts = Vec::new();
        if case.status != Status::Ok {
            let reason = case.reason.as_deref().unwrap_or("no reason was stored");
            parts.push(format!("{}: {reason}", words::status(case.status)));
        }
        parts.extend(self.remarks(case));
        parts.join("; ")
    }

    /// The same without a failure's reason.
    pub fn remarks(&self, case: &CaseResult) -> Vec<String> {
        let mut parts = Vec::new();
        if self.experiment.reference.as_deref() == Some(case.id.as_str()) {
            parts.push("reference".to_owned());
        }
        let n = self.metrics.first().and_then(|m| m.of(case)).map(|s| s.n);
        let rounds = self.experiment.rounds as usize;
        if let Some(n) = n.filter(|n| *n < rounds) {
            parts.push(format!("{n} of {rounds} rounds"));
        }
        parts.extend(
            case.tags
                .iter()
                .filter(|t| !self.tags.contains(&t.as_str()))
                .cloned(),
        );
        parts
    }

    /// Whether any case has a note.
    pub fn has_notes(&self) -> bool {
        self.experiment.cases.iter().any(|c| !self.note(c).is_empty())
    }

    /// The value of a parameter in a case; empty where it has none.
    pub fn param(case: &CaseResult, name: &str) -> String {
        case.params.get(name).map(ToString::to_string).unwrap_or_default()
    }

    /// A case by what tells it from the others: `method=fork, cpus=1`.
    pub fn short_name(&self, case: &CaseResult) -> String {
        let parts = self
            .params
            .iter()
            .filter_map(|p| Some(format!("{p}={}", case.params.get(p)?)));
        let name = parts.collect::<Vec<_>>().join(", ");
        if name.is_empty() { case.id.clone() } else { name }
    }

    /// Short names for cases that are listed together, without what all of them share; and that.
    ///
    /// A case that is not in the experiment keeps its id.
    pub fn names(&self, ids: &[&str]) -> (Vec<String>, String) {
        let found: Vec<Option<&CaseResult>> = ids
            .iter()
            .map(|id| self.experiment.cases.iter().find(|c| c.id == *id))
            .collect();
        let known = || found.iter().flatten();
        let (same, differ): (Vec<&str>, Vec<&str>) = self.params.iter().copied().partition(|p| {
            let first = known().next().and_then(|c| c.params.get(p));
            found.len() > 1 && known().all(|c| c.params.get(p) == first)
        });
        let list = |case: &CaseResult, names: &[&str]| {
            let parts = names
                .iter()
                .filter_map(|p| Some(format!("{p}={}", case.params.get(p)?)));
            parts.collect::<Vec<_>>().join(", ")
        };
        let name = |(id, case): (&&str, &Option<&CaseResult>)| match case {
            Some(case) => Some(list(case, &differ))
                .filter(|n| !n.is_empty())
                .unwrap_or_else(|| case.id.clone()),
            None => (*id).to_owned(),
        };
        let names = ids.iter().zip(&found).map(name).collect();
        let shared = known().next().map_or_else(String::new, |case| list(case, &same));
        (names, shared)
    }

    /// The short name of a case by its id.
    pub fn short_id(&self, id: &str) -> String {
        match self.experiment.cases.iter().find(|c| c.id == id) {
            Some(case) => self.short_name(case),
            None => id.to_owned(),
        }
    }
}
