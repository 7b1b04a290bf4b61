//! What several runs have, in one: a chart with a line a run, a table with a column a run.
//!
//! It is the same chart or table where its experiment, its id and its title are the same: titles say what was measured
//! where. What is on all CPUs of each run is the same, too, however many these are.

use std::collections::{BTreeMap, BTreeSet};

use threadgauge_results::units::counted;
use threadgauge_results::{Axis, ExperimentResult, Figure, Origin, Point, Results, Scale, Series, Table};

/// How the tables are read.
pub(crate) const ABOUT_TABLES: &str = "The tables of each experiment with a column for each of these, as a source has one for each \
    machine that it measured; what is the same in all, as what was published, stands there once. Of several runs in a \
    column it is the first.";

/// A chart or a table of an experiment.
trait Part: Sized + 'static {
    fn all(of: &ExperimentResult) -> &[Self];
    fn id(&self) -> &str;
    fn title(&self) -> &str;
}

impl Part for Figure {
    fn all(of: &ExperimentResult) -> &[Self] {
        &of.figures
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn title(&self) -> &str {
        &self.title
    }
}

impl Part for Table {
    fn all(of: &ExperimentResult) -> &[Self] {
        &of.tables
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn title(&self) -> &str {
        &self.title
    }
}

/// What runs have under one title.
struct Shared<'a, T> {
    experiment: &'a str,
    title: String,
    /// By run.
    of: Vec<Option<&'a T>>,
    /// Whether the title is that of what is on all CPUs of each run.
    is_on_all_cpus: bool,
}

impl<T: Part> Shared<'_, T> {
    /// Whether several runs have it, and where it is on all CPUs, in numbers that differ: else one title says it.
    fn is_of_several(&self) -> bool {
        let mut titles = self.of.iter().flatten().map(|of| of.title());
        let first = titles.next();
        if self.is_on_all_cpus {
            titles.any(|title| Some(title) != first)
        } else {
            titles.next().is_some()
        }
    }
}

/// What two runs or more have, in the order of the first that has it.
fn shared<'a, T: Part>(runs: &[&'a Results]) -> Vec<Shared<'a, T>> {
    let mut all: Vec<Shared<'a, T>> = Vec::new();
    let mut places: BTreeMap<(&str, &str, String, bool), usize> = BTreeMap::new();
    for (n, &run) in runs.iter().enumerate() {
        for experiment in &run.experiments {
            for part in T::all(experiment) {
                let written = (part.title().to_owned(), false);
                let on_all = on_all_cpus(part.title(), run.cpus()).map(|title| (title, true));
                for (title, is_on_all_cpus) in std::iter::once(written).chain(on_all) {
                    let key = (experiment.id.as_str(), part.id(), title.clone(), is_on_all_cpus);
                    let place = *places.entry(key).or_insert_with(|| {
                        all.push(Shared {
                            experiment: &experiment.id,
                            title,
                            of: vec![None; runs.len()],
                            is_on_all_cpus,
                        });
                        all.len() - 1
                    });
                    let own = &mut all[place].of[n];
                    *own = own.or(Some(part));
                }
            }
        }
    }
    all.retain(Shared::is_of_several);
    all
}

/// A title in which the number of all CPUs of its run is said so; none where it does not say that number.
fn on_all_cpus(title: &str, all: Option<u64>) -> Option<String> {
    let (before, after) = title.split_once(&counted(all? as usize, "CPU"))?;
    let is_all_of_it = !before.ends_with(|c: char| c.is_ascii_digit());
    is_all_of_it.then(|| format!("{before}all CPUs{after}"))
}

/// The charts that two runs or more have, each with its experiment: measured lines of each run, and what was published
/// or is true of all of them once.
pub(crate) fn charts<'a>(names: &[&str], runs: &[&'a Results]) -> Vec<(&'a str, Figure)> {
    let of_shared = |shared: Shared<'a, Figure>| {
        let title = format!("{}: {}", shared.experiment, shared.title);
        let charts = together(names, &shared.of, &title).into_iter();
        charts.map(move |figure| (shared.experiment, figure))
    };
    shared::<Figure>(runs).into_iter().flat_map(of_shared).collect()
}

/// A chart of several lines becomes one for each of them, with a line a run in it.
fn together(names: &[&str], all: &[Option<&Figure>], title: &str) -> Vec<Figure> {
    let measured = |of: &Figure| -> Vec<String> {
        let own = of.series.iter().filter(|s| s.origin == Origin::Measured);
        own.map(|s| s.name.clone()).collect()
    };
    if all.iter().flatten().all(|of| measured(of).len() == 1) {
        return of_lines(names, all, title, |_| true).into_iter().collect();
    }
    let mut lines: Vec<String> = Vec::new();
    for name in all.iter().flatten().flat_map(|of| measured(of)) {
        if !lines.contains(&name) {
            lines.push(name);
        }
    }
    let of_line = |line: &String| {
        let title = format!("{title}: {line}");
        of_lines(names, all, &title, |series| series.name == *line)
    };
    lines.iter().filter_map(of_line).collect()
}

/// The measured lines that are chosen, called by their runs, and what is not of a run; none of no chart. A run without
/// such a line has an empty one: so each has its colour in all charts.
fn of_lines(
    names: &[&str],
    all: &[Option<&Figure>],
    title: &str,
    chosen: impl Fn(&Series) -> bool,
) -> Option<Figure> {
    let first = all.iter().find_map(|of| *of)?;
    let mut places: Vec<String> = Vec::new();
    let mut at = |series: &Series| -> Vec<Point> {
        let points = series.points.iter();
        points.map(|point| placed(point, &first.x, &mut places)).collect()
    };
    let mut series: Vec<Series> = Vec::new();
    for (name, of) in names.iter().zip(all) {
        let own = of.iter().flat_map(|of| &of.series);
        let mut own = own.filter(|s| s.origin == Origin::Measured && chosen(s));
        series.push(Series {
            name: (*name).to_owned(),
            origin: Origin::Measured,
            points: own.next().map(&mut at).unwrap_or_default(),
        });
    }
    let others = first.series.iter().filter(|s| s.origin != Origin::Measured);
    for other in others.filter(|s| is_of_all(s, all)) {
        series.push(Series {
            points: at(other),
            ..other.clone()
        });
    }
    Some(Figure {
        title: title.to_owned(),
        series,
        // It is of the one run.
        note: String::new(),
        ..first.clone()
    })
}

/// Whether no run says otherwise: a law that is fitted to one run, or theory of so many CPUs, is not of all.
fn is_of_all(series: &Series, all: &[Option<&Figure>]) -> bool {
    let others = all.iter().flatten().flat_map(|of| &of.series);
    let mut others = others.filter(|s| s.origin == series.origin && s.name == series.name);
    others.all(|other| {
        let is_there = |a: &Point, b: &Point| match &a.label {
            Some(label) => b.label.as_ref() == Some(label),
            None => a.x == b.x,
        };
        let agrees = |a: &Point| other.points.iter().all(|b| !is_there(a, b) || a.y == b.y);
        series.points.iter().all(agrees)
    })
}

/// On an axis of names a place is that of its name: runs of other cases have others.
fn placed(point: &Point, axis: &Axis, places: &mut Vec<String>) -> Point {
    let (Scale::Category, Some(label)) = (axis.scale, &point.label) else {
        return point.clone();
    };
    let x = places.iter().position(|place| place == label).unwrap_or_else(|| {
        places.push(label.clone());
        places.len() - 1
    });
    Point {
        x: x as f64,
        ..point.clone()
    }
}

/// The tables that two runs or more have, each with its experiment. What says which row it is, and what is the same in
/// all of them, as what was published, stands there once. Each other column is a table, with a column a run.
pub(crate) fn tables<'a>(names: &[&str], runs: &[&'a Results]) -> Vec<(&'a str, Table)> {
    let of_shared = |shared: Shared<'a, Table>| {
        let tables = beside(names, &shared.of, &shared.title).into_iter();
        tables.map(move |table| (shared.experiment, table))
    };
    shared::<Table>(runs).into_iter().flat_map(of_shared).collect()
}

fn beside(names: &[&str], all: &[Option<&Table>], title: &str) -> Vec<Table> {
    let Some(of) = Rows::of(all) else {
        return Vec::new();
    };
    let heads = &of.first.columns;
    let own: Vec<usize> = (of.keys..heads.len())
        .filter(|column| of.is_own(*column))
        .collect();
    let table = |&own_column: &usize| {
        let is_shown =
            |column: &usize| *column == own_column || !(own.contains(column) || of.is_empty(*column));
        let columns: Vec<usize> = (0..heads.len()).filter(is_shown).collect();
        let head = |&column: &usize| -> Vec<String> {
            if column == own_column {
                names.iter().map(|name| (*name).to_owned()).collect()
            } else {
                vec![heads[column].clone()]
            }
        };
        let line = |row: &Vec<Option<&[String]>>| -> Vec<String> {
            let cells = |&column: &usize| -> Vec<String> {
                if column == own_column {
                    row.iter().map(|of| cell(*of, column)).map(or_dash).collect()
                } else {
                    vec![of_any(row, column)]
                }
            };
            columns.iter().flat_map(cells).collect()
        };
        Table {
            id: format!("{}-{own_column}", of.first.id),
            title: format!("{title}: {}", whole_head(heads, own_column)),
            // At the first of them.
            note: if own_column == own[0] {
                of.note.clone()
            } else {
                String::new()
            },
            columns: columns.iter().flat_map(head).collect(),
            rows: of.rows.iter().map(line).collect(),
        }
    };
    own.iter().map(table).collect()
}

/// The rows of a table that several runs have.
struct Rows<'a> {
    first: &'a Table,
    /// By how many of the first columns they are told apart.
    keys: usize,
    /// By row and run.
    rows: Vec<Vec<Option<&'a [String]>>>,
    note: String,
}

impl<'a> Rows<'a> {
    fn of(all: &[Option<&'a Table>]) -> Option<Self> {
        let first = all.iter().find_map(|of| *of)?;
        // Another version may have had other columns.
        let is_alike = |of: &&Table| of.columns == first.columns;
        let all: Vec<Option<&'a Table>> = all.iter().map(|of| of.filter(is_alike)).collect();
        let keys = keys(&all, first.columns.len())?;
        let mut seen = BTreeSet::new();
        let mut rows: Vec<Vec<Option<&'a [String]>>> = Vec::new();
        for row in all.iter().flatten().flat_map(|of| &of.rows) {
            let key = row.get(..keys);
            if seen.insert(key) {
                let by_run = all.iter().map(|of| {
                    let same = (*of)?.rows.iter().find(|row| row.get(..keys) == key);
                    same.map(Vec::as_slice)
                });
                rows.push(by_run.collect());
            }
        }
        let in_all = rows.len();
        rows.retain(|row| row.iter().flatten().count() > 1);
        let mut note = String::new();
        if all.iter().flatten().all(|of| of.note == first.note) {
            note.clone_from(&first.note);
        }
        if rows.len() < in_all {
            let alone = counted(in_all - rows.len(), "row");
            note = format!("{note} {alone} of one run alone, left out.");
        }
        Some(Self {
            first,
            keys,
            rows,
            note: note.trim().to_owned(),
        })
    }

    /// Whether a column is another in each run: a row of it is not the same in all that have it.
    fn is_own(&self, column: usize) -> bool {
        self.rows.iter().any(|row| {
            let mut cells = row.iter().flatten().map(|row| row.get(column));
            let first = cells.next();
            cells.any(|cell| Some(cell) != first)
        })
    }

    fn is_empty(&self, column: usize) -> bool {
        self.rows.iter().all(|row| of_any(row, column).is_empty())
    }
}

/// A cell that is the same in all runs that have the row.
fn of_any(row: &[Option<&[String]>], column: usize) -> String {
    cell(row.iter().find_map(|of| *of), column)
}

fn or_dash(cell: String) -> String {
    if cell.is_empty() { "–".to_owned() } else { cell }
}

/// By how many of the first columns each row is told from all others of its table; none where it takes all columns.
fn keys(all: &[Option<&Table>], columns: usize) -> Option<usize> {
    let tell = |keys: usize, of: &Table| {
        let mut seen = BTreeSet::new();
        of.rows.iter().all(|row| seen.insert(row.get(..keys)))
    };
    (1..columns).find(|keys| all.iter().flatten().all(|of| tell(*keys, of)))
}

/// A cell; nothing where a run has not the row.
fn cell(row: Option<&[String]>, column: usize) -> String {
    row.and_then(|row| row.get(column)).cloned().unwrap_or_default()
}

/// The head of a column; where others have it, too, behind the nearest before it that none has.
fn whole_head(columns: &[String], column: usize) -> String {
    let is_alone = |head: &&String| columns.iter().filter(|other| other == head).count() == 1;
    let own = &columns[column];
    let before = columns[..column].iter().rev().find(is_alone);
    match before {
        Some(before) if !is_alone(&own) => format!("{before}: {own}"),
        _ => own.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure_of(points: &[(&str, f64)], series: &[(&str, Origin)]) -> Figure {
        let point = |(i, (label, y)): (usize, &(&str, f64))| Point {
            x: i as f64,
            label: Some((*label).to_owned()),
            y: *y,
            ci95: None,
        };
        let series = series.iter().map(|(name, origin)| Series {
            name: (*name).to_owned(),
            origin: *origin,
            points: points.iter().enumerate().map(point).collect(),
        });
        let axis = |scale| Axis {
            label: "l".to_owned(),
            scale,
        };
        Figure {
            id: "f".to_owned(),
            title: "t".to_owned(),
            note: "of this run".to_owned(),
            x: axis(Scale::Category),
            y: axis(Scale::Linear),
            series: series.collect(),
        }
    }

    fn names(of: &Figure) -> Vec<&str> {
        of.series.iter().map(|s| s.name.as_str()).collect()
    }

    #[test]
    fn a_chart_has_a_line_a_run_and_what_was_published_once() {
        let own = ("this machine", Origin::Measured);
        let theirs = ("source", Origin::Published);
        let a = figure_of(&[("x", 1.0), ("y", 3.0)], &[own, theirs]);
        let b = figure_of(&[("y", 3.0), ("z", 4.0)], &[own, theirs]);
        let charts = together(&["A", "B"], &[Some(&a), Some(&b)], "e: t");
        let [both] = &charts[..] else { panic!("{charts:?}") };
        assert_eq!(names(both), ["A", "B", "source"]);
        let places: Vec<f64> = both.series[1].points.iter().map(|point| point.x).collect();
        assert_eq!(places, [1.0, 2.0], "a name has one place");
        assert_eq!((both.note.as_str(), both.title.as_str()), ("", "e: t"));
        let two = figure_of(&[("x", 1.0)], &[("p", Origin::Measured), ("q", Origin::Measured)]);
        let charts = together(&["A", "B"], &[Some(&two), Some(&two)], "e: t");
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(titles, ["e: t: p", "e: t: q"]);
        assert_eq!(names(&charts[1]), ["A", "B"]);
    }

    #[test]
    fn a_run_without_the_line_keeps_its_place_and_a_law_of_one_run_is_not_of_all() {
        let law = ("law", Origin::Ideal);
        let a = figure_of(&[("x", 1.0)], &[("p", Origin::Measured), law]);
        let b = figure_of(
            &[("x", 2.0)],
            &[("q", Origin::Measured), ("p", Origin::Measured), law],
        );
        let charts = together(&["A", "B"], &[Some(&a), Some(&b)], "t");
        let empty: Vec<Vec<bool>> = (charts.iter())
            .map(|chart| chart.series.iter().map(|s| s.points.is_empty()).collect())
            .collect();
        assert_eq!(empty, [[false, false], [true, false]]);
        assert_eq!(names(&charts[0]), ["A", "B"]);
        let same = together(&["A", "B"], &[Some(&a), Some(&a)], "t");
        assert_eq!(names(&same[0]), ["A", "B", "law"]);
    }

    /// A run on so many CPUs with a chart and a table, which say so in their titles.
    fn run(cpus: u64, rows: &[[&str; 5]]) -> Results {
        let text = include_str!("../../../runs/golden/computing/results.json");
        let mut results: Results = serde_json::from_str(text).unwrap();
        results.machine["cpus"] = cpus.into();
        results.machine["allowed_cpus"] = format!("0-{}", cpus - 1).into();
        results.experiments.truncate(1);
        let of = &mut results.experiments[0];
        of.id = "servers".to_owned();
        of.figures = vec![Figure {
            title: format!("On {cpus} CPUs"),
            ..figure_of(&[("x", 1.0)], &[("p", Origin::Measured)])
        }];
        let words = |row: &[&str]| row.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        of.tables = vec![Table {
            id: "designs".to_owned(),
            title: "Designs".to_owned(),
            note: "As he has it.".to_owned(),
            columns: words(&["row", "time", "%", "Solaris", "%"]),
            rows: rows.iter().map(|row| words(row)).collect(),
        }];
        results
    }

    #[test]
    fn a_table_has_a_column_a_run_in_place_of_each_of_its_own_and_what_was_published_once() {
        let a = run(2, &[["0", "1 µs", "", "9", "3"], ["1", "2 µs", "5", "8", "4"]]);
        let b = run(2, &[["1", "3 µs", "6", "8", "4"], ["0", "4 µs", "", "9", "3"]]);
        let c = run(2, &[["1", "7 µs", "6", "8", "4"], ["2", "5 µs", "7", "6", "5"]]);
        let tables = tables(&["A", "B", "C"], &[&a, &b, &c]);
        let titles: Vec<(&str, &str)> = tables.iter().map(|(e, of)| (*e, of.title.as_str())).collect();
        assert_eq!(
            titles,
            [("servers", "Designs: time"), ("servers", "Designs: time: %")]
        );
        let times = &tables[0].1;
        assert_eq!(times.columns, ["row", "A", "B", "C", "Solaris", "%"]);
        assert_eq!(
            times.rows,
            [
                ["0", "1 µs", "4 µs", "–", "9", "3"],
                ["1", "2 µs", "3 µs", "7 µs", "8", "4"]
            ]
        );
        assert_eq!(times.note, "As he has it. 1 row of one run alone, left out.");
        assert_eq!(tables[1].1.rows[0], ["0", "–", "–", "–", "9", "3"]);
    }

    #[test]
    fn a_column_that_is_the_same_in_all_runs_stands_there_once_whoever_measured_it() {
        let a = run(2, &[["0", "1 µs", "50", "9", "3"], ["1", "2 µs", "50", "8", "4"]]);
        let b = run(2, &[["0", "3 µs", "50", "9", "3"], ["1", "4 µs", "50", "8", "4"]]);
        let tables = tables(&["A", "B"], &[&a, &b]);
        let [(_, times)] = &tables[..] else {
            panic!("{tables:?}")
        };
        assert_eq!(times.title, "Designs: time");
        assert_eq!(times.columns, ["row", "A", "B", "%", "Solaris", "%"]);
        assert_eq!(times.rows[1], ["1", "2 µs", "4 µs", "50", "8", "4"]);
    }

    fn titles(runs: &[&Results]) -> Vec<String> {
        let charts = charts(&["A", "B"], runs).into_iter();
        charts.map(|(_, figure)| figure.title).collect()
    }

    #[test]
    fn what_is_on_all_cpus_of_each_run_is_one_chart_and_so_is_what_has_one_title() {
        let (two, sixteen) = (run(2, &[]), run(16, &[]));
        assert_eq!(titles(&[&two, &sixteen]), ["servers: On all CPUs"]);
        assert_eq!(titles(&[&two, &two]), ["servers: On 2 CPUs"]);
        // Two CPUs of 16 are not all, and the title is the same.
        let mut other = run(16, &[]);
        other.experiments[0].figures[0].title = "On 2 CPUs".to_owned();
        assert_eq!(titles(&[&two, &other]), ["servers: On 2 CPUs"]);
        other.experiments[0]
            .figures
            .extend(sixteen.experiments[0].figures.clone());
        let both = ["servers: On 2 CPUs", "servers: On all CPUs"];
        assert_eq!(titles(&[&two, &other]), both);
        assert_eq!(on_all_cpus("On 12 CPUs", Some(2)), None);
    }

    #[test]
    fn all_cpus_are_those_of_the_run_and_not_of_its_machine() {
        // One thread of each core, and all.
        let (mut one_a_core, all) = (run(2, &[]), run(4, &[]));
        one_a_core.machine["cpus"] = 4.into();
        assert_eq!(titles(&[&one_a_core, &all]), ["servers: On all CPUs"]);
        // Two of 16 CPUs beside a machine of two.
        let (mut given, two) = (run(2, &[]), run(2, &[]));
        given.machine["cpus"] = 16.into();
        given.machine["allowed_cpus"] = "0-15".into();
        given.run.options.push("--cpus 0-1".to_owned());
        assert_eq!(titles(&[&given, &two]), ["servers: On 2 CPUs"]);
        assert_eq!(titles(&[&given, &all]), ["servers: On all CPUs"]);
    }
}
