//! Several runs side by side: a column a run, or a side of several; of each case who is first, and who is not told from
//! the first.
//!
//! A ranking holds every column against the best of the case. The best is chosen by the same figures, so all pairs of
//! columns share the 5 % (Bonferroni). The unit is a run (METHOD rule 17): of two columns of one run each it is not
//! known how far runs of their machines lie apart, so there is no interval and neither is told from the other. Their
//! rounds would have an interval, which is far too narrow: of unchanged runs it calls more than half of the cases
//! apart.
//!
//! Beside the cases that columns share are those on all CPUs of each, where these are not equally many. Such a row says
//! how many each has.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use threadgauge_stats::{compare_pairs_of_runs, ratio_of_runs};

use super::all_cpus::on_all_cpus;
use super::compared::{Repeated, RunData, SideError};
use super::emulated::emulated;
use super::setting::{called, of_runs, what_differs};
use super::several::{check_sides, figure};
use super::two::{ALPHA, BETTER};
use crate::ExperimentResult;
use crate::units::counted;

/// Several runs, or sides of several, beside one another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideBySide {
    /// In the order in which they were asked for.
    pub columns: Vec<Column>,
    /// What their machines differ in.
    pub differs: Vec<Fact>,
    /// What makes a figure or an order doubtful.
    pub warnings: Vec<String>,
    /// A case a row, where two columns or more have it.
    pub rows: Vec<CaseRow>,
}

/// A run, or a side of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// By what differs, or as the user calls it, or its folder.
    pub name: String,
    /// Its folder, or what its folders are called.
    pub of: String,
    /// How many.
    pub runs: usize,
}

/// A fact of the machine that is not the same in all columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Its name in the fingerprint.
    pub name: String,
    /// By column, of the first run of each.
    pub values: Vec<String>,
}

/// A case in all columns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseRow {
    /// The id of its experiment.
    pub experiment: String,
    /// Its own; `…,cpus=all` where it is the case on all CPUs of each column.
    pub case: String,
    /// The experiment's first primary metric.
    pub metric: String,
    /// Of the figures.
    pub unit: String,
    /// By column; null where it has none.
    pub figures: Vec<Option<Quantity>>,
    /// The columns that have a figure, the best first.
    pub ranking: Vec<Placed>,
    /// By column, how many CPUs its case has, where it is on all CPUs of each and these are not equally many; null
    /// where it has no such case. Empty where all columns have the same case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub all_cpus: Vec<Option<u64>>,
}

/// A figure with its interval: the median over rounds of one run; of several their geometric mean, with the interval of
/// the spread between them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantity {
    /// In the row's unit.
    pub value: f64,
    /// 95 %.
    pub ci95: Option<[f64; 2]>,
}

/// A column in the order of a case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Placed {
    /// Its place among the columns.
    pub column: usize,
    /// Over the best; 1 for the best itself.
    pub ratio: f64,
    /// Of the ratio, at its share of 5 %; null for the best, and where neither of the two has several runs.
    pub ci95: Option<[f64; 2]>,
    /// Whether it is told from the best.
    pub apart: bool,
}

impl CaseRow {
    /// The column that is ahead of all others; none where the next is not told from it.
    #[must_use]
    pub fn ahead(&self) -> Option<usize> {
        let (first, others) = self.ranking.split_first()?;
        (!others.is_empty() && others.iter().all(|other| other.apart)).then_some(first.column)
    }

    /// Whether its columns differ in the number of CPUs: then one may be ahead for that alone.
    #[must_use]
    pub const fn differs_in_cpus(&self) -> bool {
        !self.all_cpus.is_empty()
    }
}

/// Sets sides beside one another; `named` where their names are the user's own.
///
/// # Errors
///
/// A side without a run, runs of a side that do not repeat one another, or a run that is there twice.
pub fn side_by_side(sides: &[Repeated], named: bool) -> Result<SideBySide, SideError> {
    check_sides(sides)?;
    let names = column_names(sides, named);
    let machines = machines(sides);
    let columns: Vec<Column> = (sides.iter().zip(&names))
        .map(|(side, name)| Column {
            name: name.clone(),
            of: side.name.clone(),
            runs: side.runs.len(),
        })
        .collect();
    let differs = what_differs(&machines).into_iter().map(|(name, values)| Fact {
        name: name.to_owned(),
        values,
    });
    let (rows, left_out) = rows(sides);
    let mut warnings = settings(sides, &names);
    warnings.extend(emulated(names.iter().map(String::as_str).zip(sides)));
    warnings.extend(of_one_run(sides, &names));
    for (side, name) in sides.iter().zip(&names) {
        warnings.extend(of_runs(name, side));
    }
    warnings.extend(
        (left_out > 0).then(|| format!("{} in one column only, left out", counted(left_out, "case"))),
    );
    Ok(SideBySide {
        columns,
        differs: differs.collect(),
        warnings,
        rows,
    })
}

/// What each side is called beside the others: as the user calls it where it is `named`, else by what differs between
/// their machines where that tells all apart, else by its folder.
///
/// # Panics
///
/// Where a side has no run.
#[must_use]
pub fn column_names(sides: &[Repeated], named: bool) -> Vec<String> {
    let names = if named { None } else { called(&machines(sides)) };
    names.unwrap_or_else(|| sides.iter().map(|side| side.name.clone()).collect())
}

fn machines(sides: &[Repeated]) -> Vec<&serde_json::Value> {
    sides.iter().map(|side| &side.runs[0].results.machine).collect()
}

/// What differs between sides that nothing is compared of, as of claims beside one another, and what the runs of each
/// warn of: what makes it doubtful that they say the same of the same.
///
/// # Panics
///
/// Where a side has no run, or there are fewer names than sides.
#[must_use]
pub fn between_sides(sides: &[Repeated], names: &[String]) -> Vec<String> {
    let facts = what_differs(&machines(sides));
    let of_side = |(name, value): (&String, &String)| format!("{value} in {name}");
    let machines = facts.iter().map(|(fact, values)| {
        let values: Vec<String> = names.iter().zip(values).map(of_side).collect();
        format!("THE MACHINES DIFFER: {fact} is {}", values.join(", "))
    });
    let mut says: Vec<String> = machines.collect();
    says.extend(settings(sides, names));
    says.extend(emulated(names.iter().map(String::as_str).zip(sides)));
    let own = names
        .iter()
        .zip(sides)
        .flat_map(|(name, side)| of_runs(name, side));
    says.extend(own);
    says
}

/// Which columns have one run, where any has, and what that leaves open.
fn of_one_run(sides: &[Repeated], names: &[String]) -> Option<String> {
    let of_one = sides.iter().zip(names).filter(|(side, _)| side.runs.len() == 1);
    let single: Vec<&str> = of_one.map(|(_, name)| name.as_str()).collect();
    let which = match &single[..] {
        [] => return None,
        [one] => {
            return Some(format!(
                "{one} has one run: how far its runs lie apart is not known. It is held against where another run of the \
                 other columns could lie"
            ));
        }
        all if all.len() == sides.len() => "Every column has one run".to_owned(),
        some => format!("{} have one run each", some.join(", ")),
    };
    Some(format!(
        "{which}, which does not say how far runs of one machine lie apart: between two such columns it is not known who \
         is ahead. Name a folder of several runs for each, three at least"
    ))
}

/// Where versions, profiles or options differ, the first two that do.
fn settings(sides: &[Repeated], names: &[String]) -> Vec<String> {
    let first = &sides[0].runs[0].results.run;
    let mut says = Vec::new();
    for (what, of) in [
        (
            "version",
            (|run: &crate::Run| run.version.clone()) as fn(&crate::Run) -> String,
        ),
        ("profile", |run| run.profile.clone()),
        ("options", |run| run.options.join(" ")),
    ] {
        let mut others = sides.iter().zip(names).skip(1);
        let differs = others.find(|(side, _)| of(&side.runs[0].results.run) != of(first));
        says.extend(differs.map(|(side, name)| {
            let other = of(&side.runs[0].results.run);
            format!(
                "THE RUNS DIFFER: {what} is \"{}\" in {} and \"{other}\" in {name}",
                of(first),
                names[0]
            )
        }));
    }
    says
}

/// A case as the columns have it.
struct Shared<'a> {
    experiment: &'a str,
    /// What it is called in all of them.
    name: String,
    /// By column, the id of its own.
    ids: Vec<Option<&'a str>>,
    /// Whether it is the one on all CPUs of each column, however many these are.
    is_on_all_cpus: bool,
}

impl Shared<'_> {
    /// Whether several columns have it, and where it is on all CPUs, in numbers that differ: else one id says it.
    fn is_a_row(&self) -> bool {
        let mut ids = self.ids.iter().flatten();
        let first = ids.next();
        if self.is_on_all_cpus {
            ids.any(|id| Some(id) != first)
        } else {
            ids.next().is_some()
        }
    }
}

/// The cases that two columns or more have, in the order of the first that has them, of each experiment those on all
/// CPUs last; and how many are in no row.
fn rows(sides: &[Repeated]) -> (Vec<CaseRow>, usize) {
    let all: Vec<Option<u64>> = sides.iter().map(|side| side.runs[0].results.cpus()).collect();
    let mut experiments: Vec<&str> = Vec::new();
    let mut planned: Vec<Shared<'_>> = Vec::new();
    let mut places: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (column, side) in sides.iter().enumerate() {
        for experiment in &side.runs[0].results.experiments {
            let id = experiment.id.as_str();
            if !experiments.contains(&id) {
                experiments.push(id);
            }
            for case in &experiment.cases {
                let on_all = on_all_cpus(&case.params, all[column]).into_iter();
                let on_all = on_all.map(|params| (params.case_id(id), true));
                for (name, is_on_all_cpus) in std::iter::once((case.id.clone(), false)).chain(on_all) {
                    let place = *places.entry((id, name.clone())).or_insert_with(|| {
                        planned.push(Shared {
                            experiment: id,
                            name,
                            ids: vec![None; sides.len()],
                            is_on_all_cpus,
                        });
                        planned.len() - 1
                    });
                    planned[place].ids[column] = Some(&case.id);
                }
            }
        }
    }
    let (mut shared, alone): (Vec<_>, Vec<_>) = planned.into_iter().partition(Shared::is_a_row);
    let in_rows: BTreeSet<&str> = shared
        .iter()
        .flat_map(|of| of.ids.iter().copied().flatten())
        .collect();
    let is_left_out = |of: &&Shared<'_>| {
        let mut ids = of.ids.iter().flatten();
        !of.is_on_all_cpus && !ids.any(|id| in_rows.contains(id))
    };
    let left_out = alone.iter().filter(is_left_out).count();
    shared.sort_by_key(|of| {
        let place = experiments.iter().position(|id| *id == of.experiment);
        (place, of.is_on_all_cpus)
    });
    let rows = shared.iter().filter_map(|of| row(sides, &all, of)).collect();
    (rows, left_out)
}

/// A case that has figures in some column.
fn row(sides: &[Repeated], all: &[Option<u64>], shared: &Shared<'_>) -> Option<CaseRow> {
    let id = shared.experiment;
    let experiment = sides.iter().find_map(|side| of(&side.runs[0], id))?;
    let metric = experiment.primary_metrics.first()?;
    let columns = || sides.iter().zip(&shared.ids);
    let values: Vec<Vec<f64>> = columns()
        .map(|(side, case)| {
            let runs = side.runs.iter();
            runs.filter_map(|run| figure(run, id, (*case)?, metric)).collect()
        })
        .collect();
    let figures: Vec<Option<Quantity>> = columns()
        .zip(&values)
        .map(|((side, case), values)| quantity(side, values, (id, (*case)?, metric)))
        .collect();
    if figures.iter().all(Option::is_none) {
        return None;
    }
    let mut order: Vec<usize> = (0..sides.len())
        .filter(|column| figures[*column].is_some())
        .collect();
    let value = |column: usize| figures[column].map_or(f64::INFINITY, |figure| figure.value);
    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
    let pairs = order.len() * order.len().saturating_sub(1) / 2;
    let alpha = ALPHA / pairs.max(1) as f64;
    let placed = order.iter().map(|&column| {
        let best = order[0];
        let estimate = (column != best)
            .then(|| ratio_of_runs(&values[best], &values[column], alpha).ok())
            .flatten();
        let ci95 = estimate.and_then(|of| of.ci).map(|ci| [ci.low, ci.high]);
        Placed {
            column,
            ratio: estimate.map_or(value(column) / value(best), |of| of.estimate),
            ci95,
            apart: ci95.is_some_and(|[low, _]| low > 1.0),
        }
    });
    let ranking = placed.collect();
    let unit = columns().find_map(|(side, case)| {
        side.runs.iter().find_map(|run| {
            let mut cases = of(run, id)?.cases.iter();
            let case = cases.find(|of| Some(of.id.as_str()) == *case)?;
            Some(case.summaries.get(metric)?.unit.clone())
        })
    });
    let all_cpus = columns().zip(all).map(|((_, case), all)| case.and(*all));
    Some(CaseRow {
        experiment: id.to_owned(),
        case: shared.name.clone(),
        metric: metric.clone(),
        unit: unit.unwrap_or_default(),
        figures,
        ranking,
        all_cpus: all_cpus.filter(|_| shared.is_on_all_cpus).collect(),
    })
}

fn of<'a>(run: &'a RunData, id: &str) -> Option<&'a ExperimentResult> {
    run.results
        .experiments
        .iter()
        .find(|experiment| experiment.id == id)
}

/// The figure of a column: of one run as its document has it, of several their geometric mean.
fn quantity(side: &Repeated, values: &[f64], (id, case, metric): (&str, &str, &str)) -> Option<Quantity> {
    if let ([run], [value]) = (&side.runs[..], values) {
        let case = of(run, id)?.cases.iter().find(|of| of.id == case)?;
        return Some(Quantity {
            value: *value,
            ci95: case.summaries.get(metric).and_then(|summary| summary.ci95),
        });
    }
    let mean = compare_pairs_of_runs(values, BETTER).ok()?;
    Some(Quantity {
        value: mean.ratio,
        ci95: mean.ci95.map(|ci| [ci.low, ci.high]),
    })
}

#[cfg(test)]
mod tests {
    use super::super::made::{on_cpus, timed, twelve};
    use super::*;
    use crate::Params;

    fn run(name: &str, kernel: &str, factor: f64) -> RunData {
        let mut run = timed(name, &twelve(|n| if n == 3 { 1.0 } else { factor }), 1.0);
        run.results.run.id = name.to_owned();
        run.results.machine["kernel"] = kernel.into();
        // Their documents have no such case: its unit and interval are another's.
        run
    }

    fn three() -> Vec<Repeated> {
        vec![
            Repeated::once(run("a", "6.1", 1.3)),
            Repeated::once(run("b", "6.6", 1.0)),
            Repeated::once(run("c", "6.12", 1.001)),
        ]
    }

    /// Runs of this side, each with its level.
    fn several(name: &str, kernel: &str, levels: [f64; 3]) -> Repeated {
        let run = |(i, level): (usize, &f64)| run(&format!("{name}{i}"), kernel, *level);
        Repeated {
            name: name.to_owned(),
            runs: levels.iter().enumerate().map(run).collect(),
        }
    }

    #[test]
    fn columns_are_called_by_what_differs_and_each_case_has_its_order() {
        let of = side_by_side(&three(), false).unwrap();
        let names: Vec<&str> = of.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["kernel 6.1", "kernel 6.6", "kernel 6.12"]);
        assert_eq!(of.differs[0].name, "kernel");
        assert_eq!(of.differs[0].values, ["6.1", "6.6", "6.12"]);
        assert_eq!(of.rows.len(), 12);
        let row = &of.rows[0];
        let order: Vec<usize> = row.ranking.iter().map(|placed| placed.column).collect();
        assert_eq!(order, [1, 2, 0]);
        assert_eq!((row.ranking[0].ratio, row.ranking[0].apart), (1.0, false));
        assert!((row.ranking[2].ratio - 1.3).abs() < 0.01, "{row:?}");
        let called = side_by_side(&three(), true).unwrap();
        assert_eq!(called.columns[0].name, "a");
    }

    /// Medians of the seventeen cases of `runs/2026-11-28-gate`, of the runs 1a, 5b and 10a: one machine in one hour,
    /// nothing changed. The first is in µs, the others are over it.
    const UNCHANGED: [(f64, f64, f64); 17] = [
        (32.387, 0.846, 0.848),
        (25.636, 0.855, 0.832),
        (23.055, 0.868, 0.862),
        (3.040, 0.871, 0.900),
        (0.862, 0.962, 0.963),
        (4.932, 0.887, 0.862),
        (4.768, 0.975, 0.914),
        (0.025, 0.879, 0.848),
        (3.348, 1.143, 1.303),
        (1.128, 0.977, 0.995),
        (88_942.0, 0.997, 1.008),
        (89_625.0, 0.994, 1.008),
        (102.54, 0.995, 0.988),
        (30.31, 0.965, 1.000),
        (58_469.0, 0.965, 0.931),
        (131_630.0, 0.897, 0.888),
        (30_101.0, 0.961, 0.963),
    ];

    #[test]
    fn of_unchanged_runs_one_a_column_none_is_told_from_another() {
        let column = |name: &str, factor: fn(&(f64, f64, f64)) -> f64| {
            let cases = UNCHANGED.iter().zip(1..);
            let cases: Vec<(u64, f64)> = cases.map(|(of, n)| (n, 1e3 * of.0 * factor(of))).collect();
            let mut run = timed(name, &cases, 1.0);
            run.results.run.id = name.to_owned();
            Repeated::once(run)
        };
        let sides = [
            column("1a", |_| 1.0),
            column("5b", |of| of.1),
            column("10a", |of| of.2),
        ];
        let of = side_by_side(&sides, false).unwrap();
        assert_eq!(of.rows.len(), 17);
        for row in &of.rows {
            assert!(row.ranking.iter().all(|placed| !placed.apart), "{row:?}");
            assert!(row.ranking.iter().all(|placed| placed.ci95.is_none()), "{row:?}");
            assert_eq!(row.ahead(), None);
        }
        let says = "Every column has one run, which does not say how far runs of one machine lie apart";
        assert!(of.warnings[0].starts_with(says), "{:?}", of.warnings);
    }

    #[test]
    fn a_column_of_one_run_is_held_against_where_another_run_of_several_could_lie() {
        let one = Repeated::once(run("one", "6.12", 1.3));
        let sides = [several("a", "6.1", [0.99, 1.0, 1.01]), one];
        let of = side_by_side(&sides, false).unwrap();
        assert_eq!(of.rows[0].ahead(), Some(0), "{:?}", of.rows[0]);
        assert!(
            of.warnings[0].starts_with("kernel 6.12 has one run: how far its runs lie apart is not known"),
            "{:?}",
            of.warnings
        );
    }

    #[test]
    fn all_pairs_of_columns_share_the_error() {
        let level = |sides: &[Repeated]| {
            let [low, high] = side_by_side(sides, false).unwrap().rows[0].ranking[1]
                .ci95
                .unwrap();
            (high / low).ln()
        };
        let four = [
            several("a", "6.1", [0.99, 1.0, 1.01]),
            several("b", "6.6", [1.1, 1.11, 1.12]),
            several("c", "6.9", [1.5, 1.51, 1.52]),
            several("d", "6.12", [1.6, 1.61, 1.62]),
        ];
        // Student's quantile of about four degrees of freedom is 2.8 at 5 %, and 4.9 at a sixth of it.
        let wider = level(&four) / level(&four[..2]);
        assert!((1.6..2.1).contains(&wider), "{wider}");
    }

    #[test]
    fn what_differs_between_sides_is_said_of_machines_runs_and_the_runs_of_a_side() {
        let mut sides = [several("old", "6.1", [1.0; 3]), several("new", "6.6", [1.0; 3])];
        let names = ["old".to_owned(), "new".to_owned()];
        for run in &mut sides[1].runs {
            run.results.run.profile = "paper".to_owned();
        }
        sides[0].runs[2].results.machine["cpu_model"] = "another".into();
        let says = between_sides(&sides, &names);
        assert_eq!(says[0], "THE MACHINES DIFFER: kernel is 6.1 in old, 6.6 in new");
        assert!(says[1].starts_with("THE RUNS DIFFER: profile is "), "{says:?}");
        assert!(
            says[2].starts_with("THE RUNS OF old DIFFER: cpu_model is "),
            "{says:?}"
        );
        assert_eq!(says.len(), 3, "{says:?}");
    }

    /// A run on so many CPUs: two units on one of them, one on each, and eight on all.
    fn on(name: &str, cpus: u64) -> Repeated {
        let mut run = timed(name, &[(1, 100.0), (2, 300.0), (3, 400.0)], 1.0);
        run.results.run.id = name.to_owned();
        let of_cases = [(2, 1), (cpus, cpus), (8, cpus)];
        let of_cases = of_cases.map(|(units, cpus)| Params::new().with("units", units).with("cpus", cpus));
        Repeated::once(on_cpus(run, cpus, of_cases))
    }

    #[test]
    fn of_machines_of_unequal_size_those_on_all_cpus_of_each_are_a_row_that_says_how_many() {
        let of = side_by_side(&[on("a", 2), on("b", 4), on("c", 16)], false).unwrap();
        let names: Vec<&str> = of.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["2 CPUs", "4 CPUs", "16 CPUs"]);
        let rows: Vec<(&str, &[Option<u64>])> = of
            .rows
            .iter()
            .map(|row| (row.case.as_str(), &row.all_cpus[..]))
            .collect();
        let all = [Some(2), Some(4), Some(16)];
        assert_eq!(
            rows,
            [
                ("e/units=2,cpus=1", &[][..]),
                ("e/units=all,cpus=all", &all[..]),
                ("e/units=8,cpus=all", &all[..])
            ]
        );
        for (row, ns) in of.rows.iter().zip([100.0, 300.0, 400.0]) {
            let figures = row.figures.iter().flatten();
            let near: Vec<bool> = figures.map(|of| (of.value / ns - 1.0).abs() < 0.01).collect();
            assert_eq!(near, [true; 3], "{row:?}");
        }
        let is_left_out = |says: &String| says.contains("left out");
        assert!(!of.warnings.iter().any(is_left_out), "{:?}", of.warnings);
    }

    #[test]
    fn a_row_of_all_cpus_is_of_machines_that_have_the_case_and_differ_in_size() {
        let rows = |sides: [Repeated; 3]| {
            let of = side_by_side(&sides, true).unwrap();
            let differ = of.rows.iter().filter(|row| row.differs_in_cpus()).count();
            (of.rows.len(), differ)
        };
        assert_eq!(rows([on("a", 4), on("b", 4), on("c", 4)]), (3, 0));
        let other = || Repeated::once(run("c", "6.1", 1.0));
        assert_eq!(rows([on("a", 4), on("b", 4), other()]), (3, 0));
        assert_eq!(rows([on("a", 4), on("b", 16), other()]), (3, 2));
    }

    #[test]
    fn an_emulated_processor_is_said_of_the_columns_that_have_one() {
        let mut sides = three();
        sides[1].runs[0].results.machine["hypervisor"] = "qemu-tcg".into();
        let warnings = side_by_side(&sides, true).unwrap().warnings;
        assert!(
            warnings[0].starts_with("b was measured on an emulated processor"),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_column_of_several_runs_has_the_spread_between_them() {
        let near = [
            several("a", "6.1", [0.9, 1.0, 1.1]),
            several("b", "6.6", [1.0, 1.1, 1.2]),
        ];
        let of = side_by_side(&near, false).unwrap();
        assert!(!of.rows[0].ranking[1].apart, "{:?}", of.rows[0]);
        let ci = of.rows[0].figures[0].unwrap().ci95.unwrap();
        assert!(ci[0] < 85.0 && ci[1] > 115.0, "{ci:?}");
        assert!(of.warnings.is_empty(), "{:?}", of.warnings);
        let far = [
            several("a", "6.1", [0.99, 1.0, 1.01]),
            several("b", "6.6", [1.1, 1.11, 1.12]),
        ];
        assert_eq!(side_by_side(&far, false).unwrap().rows[0].ahead(), Some(0));
    }

    #[test]
    fn where_nothing_of_the_machine_differs_a_column_is_called_by_its_folder_and_what_differs_in_the_run_is_said()
     {
        let mut sides = vec![
            Repeated::once(run("a", "6.1", 1.0)),
            Repeated::once(run("b", "6.1", 1.1)),
            Repeated::once(run("c", "6.1", 1.2)),
        ];
        sides[2].runs[0].results.run.profile = "paper".to_owned();
        let extra = sides[1].runs[0].results.experiments[0].cases.pop();
        assert!(extra.is_some());
        let of = side_by_side(&sides, false).unwrap();
        let names: Vec<&str> = of.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(
            of.warnings[0].starts_with("THE RUNS DIFFER: profile is"),
            "{:?}",
            of.warnings
        );
        assert_eq!(of.rows.len(), 12, "two of three have it");
        sides[0].runs[0].results.experiments[0].cases.pop();
        let of = side_by_side(&sides, false).unwrap();
        assert!(
            of.warnings
                .contains(&"1 case in one column only, left out".to_owned()),
            "{:?}",
            of.warnings
        );
        let twice = [sides[0].clone(), sides[0].clone()];
        assert!(side_by_side(&twice, false).is_err());
    }
}
