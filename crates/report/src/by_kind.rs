//! *Threads and processes on this machine*: what a unit costs by kind, as a table and a chart, and by runtime, and what
//! this run says of the source's comparison of the two kinds.
//!
//! The page and the Markdown show this; it decides what. Experiments declare the costs and the claims that are its
//! rows, so it knows none of them. What a run leaves out is named with the experiment that measures it.

use threadgauge_results::published::{ABOUT_ASPECTS, Aspect, aspects, dated};
use threadgauge_results::{
    Act, Axis, BY_RUNTIME, Claim, Cost, ExperimentResult, Figure, Finding, Origin, Point, Results, Scale,
    Series, Table,
};

use crate::costs::dimension;

/// What the section is called.
pub(crate) const TITLE: &str = "Threads and processes on this machine";
/// What the table of the source's aspects is called.
pub(crate) const ASPECTS: &str = "Process or thread: six aspects";

/// What stands above that table.
pub(crate) fn about_aspects() -> String {
    format!(
        "What one source ({}) says of processes and threads, and what this machine says of it. {ABOUT_ASPECTS}",
        dated("003")
    )
}

/// All of it.
pub(crate) struct ByKind<'a> {
    /// The kinds of unit: the columns.
    pub kinds: Vec<&'a str>,
    /// What is done with a unit, in the order of its life; costs that belong to nothing of it at the end.
    pub parts: Vec<Part<'a>>,
    /// The source's rows, in its order.
    pub aspects: Vec<Answered<'a>>,
    /// What a unit costs by runtime; none where no guest took part.
    pub by_runtime: Option<&'a Table>,
    /// The experiments that measure what this run left out.
    pub left_out: Vec<&'a str>,
}

/// The tables over several experiments that are no part of this.
pub(crate) fn tables_beside(results: &Results) -> Vec<&Table> {
    let is_here = ByKind::of(results).is_some();
    let tables = results.tables.iter();
    tables
        .filter(|table| !is_here || table.id != BY_RUNTIME)
        .collect()
}

/// The costs of one act.
pub(crate) struct Part<'a> {
    /// None for what no unit does.
    pub act: Option<Act>,
    /// What is paid for; empty where nothing has a figure.
    pub rows: Vec<Row<'a>>,
    /// Why there are no figures; none where there are.
    pub lacks: Option<Lacks<'a>>,
}

impl Part<'_> {
    /// The rows that are seen at once, and the others. Of an act those are seen that compare kinds or, where none does,
    /// the first.
    pub fn split(&self) -> (Vec<&Row<'_>>, Vec<&Row<'_>>) {
        let compares = self.rows.iter().any(Row::compares);
        let numbered = self.rows.iter().enumerate();
        let (seen, others): (Vec<_>, Vec<_>) =
            numbered.partition(|(i, row)| self.act.is_some() && (row.compares() || (!compares && *i == 0)));
        let rows = |of: Vec<(usize, _)>| of.into_iter().map(|(_, row)| row).collect();
        (rows(seen), rows(others))
    }
}

/// A row of the table.
pub(crate) struct Row<'a> {
    /// What is paid for.
    pub what: &'a str,
    /// Of each kind, in their order.
    pub costs: Vec<Option<&'a Cost>>,
    /// The experiment that the first of them is from.
    pub experiment: &'a str,
}

impl Row<'_> {
    /// Whether at least two kinds have a figure, so that they can be compared.
    pub fn compares(&self) -> bool {
        self.costs.iter().flatten().count() > 1
    }
}

/// Why there is no figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacks<'a> {
    /// This experiment measures it, and was run without result.
    Figures(&'a str),
    /// This experiment measures it, and was not run.
    Run(&'a str),
    /// No experiment of this version measures it.
    Experiment,
}

/// A row of the source's comparison, and what answers it.
pub(crate) struct Answered<'a> {
    /// What the source says.
    pub aspect: &'static Aspect,
    /// The claims that answer it, and what this run says of them.
    pub claims: Vec<(&'static Claim, Result<&'a Finding, Lacks<'a>>)>,
}

impl<'a> ByKind<'a> {
    /// Of a run; none where it has nothing to show.
    pub fn of(results: &'a Results) -> Option<Self> {
        let costs = || {
            results
                .experiments
                .iter()
                .flat_map(|e| e.costs.iter().map(move |cost| (e, cost)))
        };
        let kinds = distinct(costs().map(|(_, cost)| cost.kind.as_str()));
        let acts = Act::ALL.map(Some).into_iter().chain([None]);
        let parts: Vec<Part<'_>> = acts
            .map(|act| {
                let of_act: Vec<_> = costs().filter(|(_, cost)| cost.act() == act).collect();
                let rows = rows(&of_act, &kinds);
                let lacks = act.filter(|_| rows.is_empty());
                let lacks = lacks.map(|act| lacks_of(results, act.experiment()));
                Part { act, rows, lacks }
            })
            .collect();
        let aspects: Vec<_> = aspects().iter().map(|aspect| answered(results, aspect)).collect();
        let told = |of: &Answered<'_>| of.claims.iter().any(|(_, told)| told.is_ok());
        if kinds.is_empty() && !aspects.iter().any(told) {
            return None;
        }
        let of_parts = parts.iter().filter_map(|part| part.lacks);
        let of_claims = aspects.iter().flat_map(|of| &of.claims);
        let of_claims = of_claims.filter_map(|(_, told)| told.err());
        let not_run = of_parts.chain(of_claims).filter_map(|lacks| match lacks {
            Lacks::Run(experiment) => Some(experiment),
            Lacks::Figures(_) | Lacks::Experiment => None,
        });
        let not_run: Vec<&str> = not_run.collect();
        let in_order = results.catalogue.iter().map(String::as_str);
        Some(Self {
            by_runtime: results.tables.iter().find(|table| table.id == BY_RUNTIME),
            left_out: in_order.filter(|id| not_run.contains(id)).collect(),
            kinds,
            parts,
            aspects,
        })
    }

    /// The times that can be compared, as a chart: a line for each kind; none where there are none.
    pub fn chart(&self) -> Option<Figure> {
        let is_time = |cost: &&Cost| dimension(&cost.unit) == "time";
        let acts = self.parts.iter().filter(|part| part.act.is_some());
        let timed: Vec<&Row<'_>> = acts
            .flat_map(|part| &part.rows)
            .filter(|row| row.compares() && row.costs.iter().flatten().all(is_time))
            .collect();
        let kinds = || self.kinds.iter().enumerate();
        let here = kinds().map(|(kind, name)| line(&timed, kind, (*name).to_owned(), Origin::Measured));
        let elsewhere =
            kinds().map(|(kind, name)| line(&timed, kind, format!("{name} elsewhere"), Origin::Published));
        let series = here.chain(elsewhere);
        let series: Vec<Series> = series.filter(|s| !s.points.is_empty()).collect();
        let axis = |label: &str, scale| Axis {
            label: label.to_owned(),
            scale,
        };
        (!series.is_empty()).then(|| Figure {
            id: "units".to_owned(),
            title: "What threads and processes cost here".to_owned(),
            note: "Less is better. On one CPU where nothing else is said. The table has memory, and of what machine and date \
                   the published figures are.".to_owned(),
            x: axis("what is paid for", Scale::Category),
            y: axis("time, µs", Scale::Log),
            series,
        })
    }

    /// The command that measures what this run left out.
    pub fn command(&self) -> Option<String> {
        (!self.left_out.is_empty()).then(|| format!("threadgauge run {}", self.left_out.join(" ")))
    }
}

impl Lacks<'_> {
    /// In words, to go on after what has no figure.
    pub fn says(self) -> String {
        match self {
            Self::Figures(experiment) => format!("{experiment} has no figure for it in this run"),
            Self::Run(experiment) => {
                format!("not measured in this run; `threadgauge run {experiment}` measures it")
            }
            Self::Experiment => "not measured: no experiment of this version does".to_owned(),
        }
    }
}

/// A line of the chart: what a kind costs here, or what was published of it.
fn line(timed: &[&Row<'_>], kind: usize, name: String, origin: Origin) -> Series {
    // Stored times are ns, whatever they are printed in.
    let micros = |ns: f64| ns / 1e3;
    let point = |(x, row): (usize, &&Row<'_>)| {
        let cost = row.costs[kind]?;
        let (value, ci95) = match origin {
            Origin::Published => (cost.published_value?, None),
            Origin::Measured | Origin::Ideal => (cost.value, cost.ci95),
        };
        Some(Point {
            x: x as f64,
            label: Some(row.what.to_owned()),
            y: micros(value),
            ci95: ci95.map(|ends| ends.map(micros)),
        })
    };
    Series {
        name,
        origin,
        points: timed.iter().enumerate().filter_map(point).collect(),
    }
}

fn rows<'a>(costs: &[(&'a ExperimentResult, &'a Cost)], kinds: &[&str]) -> Vec<Row<'a>> {
    let of_kind = |what: &str, kind: &str| {
        let found = costs
            .iter()
            .find(|(_, cost)| cost.what == what && cost.kind == kind);
        found.map(|(_, cost)| *cost)
    };
    let whats = distinct(costs.iter().map(|(_, cost)| cost.what.as_str()));
    let row = |what: &'a str| {
        let (experiment, _) = costs.iter().find(|(_, cost)| cost.what == what)?;
        Some(Row {
            what,
            costs: kinds.iter().map(|kind| of_kind(what, kind)).collect(),
            experiment: &experiment.id,
        })
    };
    whats.into_iter().filter_map(row).collect()
}

fn answered<'a>(results: &'a Results, aspect: &'static Aspect) -> Answered<'a> {
    let findings = || results.experiments.iter().flat_map(|e| &e.findings);
    let told = |claim: &'static Claim| {
        let finding = findings().find(|finding| finding.claim.as_ref() == Some(&claim.id));
        (claim, finding.ok_or_else(|| lacks_of(results, &claim.decided_by)))
    };
    Answered {
        aspect,
        claims: aspect
            .claims()
            .filter_map(threadgauge_results::claim)
            .map(told)
            .collect(),
    }
}

/// Why a run has no figure that `experiment` measures.
fn lacks_of<'a>(results: &Results, experiment: &'a str) -> Lacks<'a> {
    if results.experiments.iter().any(|e| e.id == experiment) {
        Lacks::Figures(experiment)
    } else if results.catalogue.iter().any(|id| id == experiment) {
        Lacks::Run(experiment)
    } else {
        Lacks::Experiment
    }
}

/// Each once, in the order in which they first come.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}
