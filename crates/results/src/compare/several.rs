//! Two sides of several runs each: what differs between runs of a side is measured, and lies in the interval.
//!
//! The unit is a run (METHOD rule 17): of each case it has one figure, the median over its rounds. Where the runs of
//! the two sides took turns in pairs, each pair has a ratio. Where they alternated, the machine's level is one of the
//! things that differ between runs, so a ratio is of all that there is. Where all runs of one side came before those of
//! the other, what the machine did in between is as much the first side's as the second's, so cases are judged over the
//! level, as those of two runs are.

use std::collections::{BTreeMap, BTreeSet};

use threadgauge_stats::{
    Comparison, Estimate, Level, Outcome, between_runs, compare_pairs_of_runs, compare_runs, median,
    null_misleads, paired_ratio, run_levels,
};

use super::all_cpus::named_by_all_cpus;
use super::compared::{BetweenRuns, Compared, Order, Repeated, RunData, SideError};
use super::setting::{of_runs, of_sides};
use super::two::{ALPHA, BETTER, compare_as, left_out, lost, null_control, samples, took_turns};
use crate::units::counted;
use crate::{ByRound, ComparisonResult, ExperimentResult, Status, Take, by_round, paired};

/// Whether these can be sides of anything: each has runs that repeat one another, and no run is there twice.
///
/// # Errors
///
/// A side without a run, runs of a side that do not repeat one another, or two runs that hold the same samples.
pub fn check_sides<'a>(sides: impl IntoIterator<Item = &'a Repeated>) -> Result<(), SideError> {
    let sides: Vec<&Repeated> = sides.into_iter().collect();
    for side in &sides {
        side.check()?;
    }
    no_run_twice(sides.iter().flat_map(|side| &side.runs))
}

/// Whether each run is there once.
///
/// # Errors
///
/// Two that hold the same samples.
fn no_run_twice<'a>(runs: impl IntoIterator<Item = &'a RunData>) -> Result<(), SideError> {
    let mut seen: Vec<&RunData> = Vec::new();
    for run in runs {
        let is_same =
            |other: &&&RunData| other.results.run == run.results.run && other.samples == run.samples;
        if let Some(first) = seen.iter().find(is_same) {
            return Err(SideError::Twice {
                first: first.name.clone(),
                other: run.name.clone(),
            });
        }
        seen.push(run);
    }
    Ok(())
}

/// Compares side `b` with side `a`. Of one run each it is [`compare`](super::compare). Of states with CPUs of their
/// own, measured in turns, what has all CPUs of the one is compared with what has all of the other.
///
/// # Errors
///
/// A side without a run, runs of a side that do not repeat one another, or a run that is there twice.
pub fn compare_sides(a: &Repeated, b: &Repeated) -> Result<Compared, SideError> {
    check_sides([a, b])?;
    let named = have_own_cpus(a, b).then(|| [a, b].map(named_by_all_cpus));
    let [a, b] = match &named {
        Some(named) => named.each_ref(),
        None => [a, b],
    };
    Ok(match (&a.runs[..], &b.runs[..]) {
        ([of_a], [of_b]) => compare_as([&a.name, &b.name], of_a, of_b),
        _ => several(a, b),
    })
}

/// Whether the sides are states with CPUs of their own: their runs took turns, have unequally many CPUs, and did not
/// measure the same cases.
fn have_own_cpus(a: &Repeated, b: &Repeated) -> bool {
    let measured = |side: &Repeated| -> BTreeSet<String> {
        let cases = side.runs[0].results.experiments.iter().flat_map(|of| &of.cases);
        let measured = cases.filter(|case| case.status != Status::Skipped);
        measured.map(|case| case.id.clone()).collect()
    };
    let cpus = |side: &Repeated| side.runs[0].results.cpus();
    partners(&a.runs, &b.runs).is_some() && cpus(a) != cpus(b) && measured(a) != measured(b)
}

/// A case that every run planned, by run of either side: its figure, where the run has one.
struct Cell {
    case: String,
    metric: String,
    figures: [Vec<Option<f64>>; 2],
    /// Of runs in turns: the ratio of each pair that has one.
    pairs: Vec<f64>,
    misled: bool,
}

impl Cell {
    /// The figures that there are.
    fn sides(&self) -> [Vec<f64>; 2] {
        [0, 1].map(|side| self.figures[side].iter().copied().flatten().collect())
    }

    /// Of all runs of both sides, where each has one.
    fn row(&self) -> Option<Vec<f64>> {
        self.figures.iter().flatten().copied().collect()
    }
}

fn several(a: &Repeated, b: &Repeated) -> Compared {
    let pairs = partners(&a.runs, &b.runs);
    let order = order(a, b);
    let (cells, doubts) = cells(a, b, pairs.as_deref());
    let mut warnings = of_sides(a, b);
    for (one, other) in [(a, b), (b, a)] {
        if one.runs.len() == 1 {
            warnings.push(format!(
                "{} has one run: how far its runs lie apart is not known. It is held against where another of the {} could \
                 lie",
                one.name,
                counted(other.runs.len(), "other run")
            ));
        }
    }
    warnings.extend(pairs.as_deref().and_then(|pairs| without_partner(a, b, pairs)));
    warnings.extend(of_runs(&a.name, a));
    warnings.extend(of_runs(&b.name, b));
    warnings.extend(doubts);
    warnings.extend(left_out(&a.name, &a.runs[0], &b.runs[0]));
    warnings.extend(left_out(&b.name, &b.runs[0], &a.runs[0]));

    let levels = run_levels(&cells.iter().filter_map(Cell::row).collect::<Vec<_>>());
    let levels = levels.ok().flatten();
    let n = a.runs.len();
    let of_level = levels.as_ref().and_then(|levels| {
        let (of_a, of_b) = levels.split_at(n);
        compare_runs(of_a, of_b, BETTER).ok()
    });
    let level = match order {
        Order::InTurns => pair_levels(&cells),
        Order::Alternating | Order::Apart => of_level,
    };
    let compared: Vec<Option<Comparison>> = cells
        .iter()
        .map(|cell| match (order, &levels) {
            (Order::InTurns, _) => compare_pairs_of_runs(&cell.pairs, BETTER).ok(),
            (Order::Apart, Some(levels)) => {
                let (of_a, of_b) = levels.split_at(n);
                let over = |figures: &[Option<f64>], levels: &[f64]| -> Vec<f64> {
                    let both = figures.iter().zip(levels);
                    both.filter_map(|(figure, level)| Some((*figure)? / level))
                        .collect()
                };
                compare_runs(
                    &over(&cell.figures[0], of_a),
                    &over(&cell.figures[1], of_b),
                    BETTER,
                )
                .ok()
            }
            _ => {
                let [of_a, of_b] = cell.sides();
                compare_runs(&of_a, &of_b, BETTER).ok()
            }
        })
        .collect();
    let spread = spread(&cells, order, levels.as_deref(), n);
    let untold = order == Order::Apart && levels.is_none();
    let rows = cells.iter().zip(&compared).map(|(cell, compared)| {
        let row = row(cell, compared.as_ref());
        if cell.misled {
            row.misled()
        } else if untold {
            row.unknown("the runs did not alternate, and with so few cases a change is not told from the machine's level")
        } else {
            row
        }
    });
    Compared {
        a_name: a.name.clone(),
        b_name: b.name.clone(),
        warnings,
        paired: order == Order::InTurns,
        level: of_level.filter(|_| order == Order::Apart).map(|of| Level {
            ratio: of.ratio,
            spread: spread.unwrap_or(0.0),
            cases: cells.iter().filter(|cell| cell.row().is_some()).count(),
        }),
        between: Some(BetweenRuns {
            runs: match &pairs {
                Some(pairs) => [pairs.len(); 2],
                None => [a.runs.len(), b.runs.len()],
            },
            order,
            spread,
            level: level.map(|of| {
                let ci95 = of.ci95.filter(|_| order != Order::Apart);
                (of.ratio, ci95.map(|ci| [ci.low, ci.high]))
            }),
        }),
        lost: lost(&documents(a), &documents(b)),
        rows: rows.collect(),
    }
}

/// How the runs of two sides lie in time.
pub(super) fn order(a: &Repeated, b: &Repeated) -> Order {
    match partners(&a.runs, &b.runs) {
        Some(_) => Order::InTurns,
        None if alternate(&a.runs, &b.runs) => Order::Alternating,
        None => Order::Apart,
    }
}

fn documents(side: &Repeated) -> Vec<&crate::Results> {
    side.runs.iter().map(|run| &run.results).collect()
}

/// With fewer pairs there is no interval of them; runs that are not paired say more.
const FEWEST_PAIRS: usize = 2;

/// Each run of A that took turns with one of B, and that one; `None` where there are too few such pairs, unless all
/// runs of both are in them.
fn partners<'a>(a: &'a [RunData], b: &'a [RunData]) -> Option<Vec<(&'a RunData, &'a RunData)>> {
    let partner = |of: &'a RunData| {
        let other = b
            .iter()
            .find(|other| took_turns(&of.results.run, &other.results.run))?;
        Some((of, other))
    };
    let pairs: Vec<_> = a.iter().filter_map(partner).collect();
    let all = pairs.len() == a.len() && pairs.len() == b.len();
    (all || pairs.len() >= FEWEST_PAIRS).then_some(pairs)
}

/// Which runs are in none of the pairs, by name.
fn without_partner(a: &Repeated, b: &Repeated, pairs: &[(&RunData, &RunData)]) -> Option<String> {
    let is_paired = |run: &RunData| {
        let mut both = pairs.iter().flat_map(|(one, other)| [*one, *other]);
        both.any(|of| std::ptr::eq(of, run))
    };
    let alone = a.runs.iter().chain(&b.runs).filter(|run| !is_paired(run));
    let names: Vec<&str> = alone.map(|run| run.name.as_str()).collect();
    let (are, them) = match names.len() {
        0 => return None,
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    Some(format!(
        "{} {are} left out: no run of the other side took turns with {them}. The others are compared in pairs",
        names.join(", ")
    ))
}

/// Whether runs of both sides were begun by turns: the side changes as often as the smaller one has runs, and twice at
/// least.
pub(super) fn alternate(a: &[RunData], b: &[RunData]) -> bool {
    let started = |runs: &'_ [RunData], side: usize| -> Vec<(String, usize)> {
        let of = runs.iter().map(|run| (run.results.run.started.clone(), side));
        of.collect()
    };
    let mut all = started(a, 0);
    all.extend(started(b, 1));
    all.sort();
    let changes = all.windows(2).filter(|two| two[0].1 != two[1].1).count();
    changes >= a.len().min(b.len()).max(2)
}

fn cells(a: &Repeated, b: &Repeated, pairs: Option<&[(&RunData, &RunData)]>) -> (Vec<Cell>, Vec<String>) {
    let (mut cells, mut doubts) = (Vec::new(), Vec::new());
    let runs = || a.runs.iter().chain(&b.runs);
    for experiment in &a.runs[0].results.experiments {
        let id = &experiment.id;
        let (Some(metric), true) = (
            experiment.primary_metrics.first(),
            runs().all(|run| of(run, id).is_some()),
        ) else {
            continue;
        };
        let misled = misled(runs(), experiment, metric);
        if misled {
            doubts.push(format!(
                "{id}: the reference case differs from its own copy by more than 3 % over these runs, so nothing is said \
                 of its cases"
            ));
        }
        let planned =
            |run: &RunData, case: &str| of(run, id).is_some_and(|e| e.cases.iter().any(|c| c.id == case));
        let mut cases: BTreeMap<&str, bool> = BTreeMap::new();
        for case in runs().filter_map(|run| of(run, id)).flat_map(|e| &e.cases) {
            cases
                .entry(&case.id)
                .or_insert_with(|| runs().all(|run| planned(run, &case.id)));
        }
        let alone = cases.values().filter(|in_all| !**in_all).count();
        doubts.extend(
            (alone > 0).then(|| format!("{id}: {} not in all runs, left out", counted(alone, "case"))),
        );
        let shared = experiment
            .cases
            .iter()
            .filter(|case| cases.get(case.id.as_str()) == Some(&true));
        cells.extend(shared.map(|case| {
            let of_side = |side: &Repeated| {
                side.runs
                    .iter()
                    .map(|run| figure(run, id, &case.id, metric))
                    .collect()
            };
            let ratio = |(one, other): &(&RunData, &RunData)| {
                let (x, y) = paired(
                    &rounds(one, id, &case.id, metric),
                    &rounds(other, id, &case.id, metric),
                );
                Some(paired_ratio(&x, &y, ALPHA).ok()?.estimate)
            };
            Cell {
                case: case.id.clone(),
                metric: metric.clone(),
                figures: [of_side(a), of_side(b)],
                pairs: pairs.unwrap_or_default().iter().filter_map(ratio).collect(),
                misled,
            }
        }));
    }
    (cells, doubts)
}

fn of<'a>(run: &'a RunData, id: &str) -> Option<&'a ExperimentResult> {
    run.results
        .experiments
        .iter()
        .find(|experiment| experiment.id == id)
}

/// The figures of a case by round. Of an interrupted run the round that was not finished is no round.
pub(super) fn rounds(run: &RunData, id: &str, case: &str, metric: &str) -> BTreeMap<u32, f64> {
    let Some(experiment) = of(run, id) else {
        return BTreeMap::new();
    };
    let finished = samples(run, experiment)
        .iter()
        .filter(|s| s.round <= experiment.rounds);
    by_round(finished, case, 0, metric, Take::All)
}

/// The figure of a run: the median over its rounds. A ratio needs one above 0.
pub(super) fn figure(run: &RunData, id: &str, case: &str, metric: &str) -> Option<f64> {
    let values: Vec<f64> = rounds(run, id, case, metric).into_values().collect();
    median(&values).ok().filter(|figure| *figure > 0.0)
}

/// Whether the second copy of the reference case differs from the first, over all these runs.
fn misled<'a>(runs: impl Iterator<Item = &'a RunData>, experiment: &ExperimentResult, metric: &str) -> bool {
    let Some(reference) = &experiment.reference else {
        return false;
    };
    let null = |run| {
        Some(
            null_control(samples(run, experiment), reference, metric)
                .ok()?
                .estimate,
        )
    };
    let ratios: Vec<f64> = runs.filter_map(null).collect();
    compare_pairs_of_runs(&ratios, BETTER).is_ok_and(|of| {
        null_misleads(&Estimate {
            estimate: of.ratio,
            ci: of.ci95,
            n: of.n,
        })
    })
}

/// All cases together, of pairs of runs: the median over cases of each pair.
fn pair_levels(cells: &[Cell]) -> Option<Comparison> {
    let count = cells.iter().map(|cell| cell.pairs.len()).max()?;
    let whole: Vec<&Cell> = cells.iter().filter(|cell| cell.pairs.len() == count).collect();
    let level = |pair: usize| median(&whole.iter().map(|cell| cell.pairs[pair]).collect::<Vec<_>>()).ok();
    let levels: Vec<f64> = (0..count).map(level).collect::<Option<_>>()?;
    compare_pairs_of_runs(&levels, BETTER).ok()
}

/// The median over cases of how far runs of a side lie apart.
fn spread(cells: &[Cell], order: Order, levels: Option<&[f64]>, n: usize) -> Option<f64> {
    let of_case = |cell: &Cell| match (order, levels) {
        (Order::InTurns, _) => between_runs(&cell.pairs, &[1.0]).ok()?,
        (Order::Apart, Some(levels)) => {
            let over: Vec<f64> = cell
                .row()?
                .iter()
                .zip(levels)
                .map(|(v, level)| v / level)
                .collect();
            let (of_a, of_b) = over.split_at(n);
            between_runs(of_a, of_b).ok()?
        }
        _ => {
            let [of_a, of_b] = cell.sides();
            between_runs(&of_a, &of_b).ok()?
        }
    };
    median(&cells.iter().filter_map(of_case).collect::<Vec<_>>()).ok()
}

/// A case in words. More rounds would settle nothing here, more runs may.
fn row(cell: &Cell, compared: Option<&Comparison>) -> ComparisonResult {
    let by_round = compared.map(|comparison| ByRound {
        comparison: *comparison,
        disturbed: false,
        why: None,
    });
    let row = ComparisonResult::new(&cell.case, &cell.case, &cell.metric, by_round.as_ref());
    let why = match compared.map(|of| (of.ci95, of.outcome)) {
        None => "a side has no figures of it".to_owned(),
        Some((None, _)) => "too few runs for an interval".to_owned(),
        Some((
            Some(_),
            Outcome::Unknown {
                rounds_needed: Some(runs),
            },
        )) => {
            let runs = counted(runs as usize, "run");
            format!("runs of a side lie too far apart; {runs} in all may settle it")
        }
        Some((Some(_), Outcome::Unknown { .. })) => {
            "runs of a side lie too far apart, and more of them would not settle it here".to_owned()
        }
        Some(_) => return row,
    };
    row.unknown(&why)
}

#[cfg(test)]
mod tests {
    use super::super::made::{in_turns, on_cpus, timed, twelve};
    use super::super::two::compare;
    use super::*;
    use crate::{Params, false_alarms};

    /// A run begun in this minute, whose cases take so many times as long as their numbers say.
    fn run(minute: u32, factor: impl Fn(u64) -> f64) -> RunData {
        let mut run = timed(&format!("run{minute}"), &twelve(factor), 1.0);
        run.results.run.id = minute.to_string();
        run.results.run.started = format!("2026-11-27T10:{minute:02}:00Z");
        run
    }

    fn side(name: &str, runs: Vec<RunData>) -> Repeated {
        Repeated {
            name: name.to_owned(),
            runs,
        }
    }

    /// Runs at these minutes and levels; the third case departs by `changed`.
    fn at(name: &str, levels: &[(u32, f64)], changed: f64) -> Repeated {
        let run = |&(minute, level): &(u32, f64)| {
            run(minute, move |n| {
                // Each case has some luck in each run.
                let luck = 0.002 * f64::from((n as u32 * 7 + minute * 3) % 5);
                level * (1.0 + luck) * if n == 3 { changed } else { 1.0 }
            })
        };
        side(name, levels.iter().map(run).collect())
    }

    fn verdict(compared: &Compared, case: usize) -> &str {
        &compared.rows[case - 1].verdict
    }

    const EVEN: [(u32, f64); 3] = [(0, 1.0), (2, 1.004), (4, 0.998)];
    const ODD: [(u32, f64); 3] = [(1, 1.0), (3, 0.999), (5, 1.003)];

    #[test]
    fn a_change_of_all_cases_is_found_where_the_runs_alternate() {
        let slower = ODD.map(|(minute, level)| (minute, 1.2 * level));
        let compared = compare_sides(&at("a", &EVEN, 1.0), &at("b", &slower, 1.0)).unwrap();
        let between = compared.between.unwrap();
        assert_eq!((between.runs, between.order), ([3, 3], Order::Alternating));
        assert!(between.spread.unwrap() < 0.01, "{between:?}");
        let (level, ci) = between.level.unwrap();
        assert!((level - 1.2).abs() < 0.01 && ci.unwrap()[0] > 1.18, "{between:?}");
        assert_eq!(compared.level, None);
        assert!(
            compared.rows.iter().all(|row| row.verdict == "slower"),
            "{compared:#?}"
        );
        assert!((compared.rows[0].ratio.unwrap() - 1.2).abs() < 0.01);
        assert_eq!((compared.a_name.as_str(), compared.b_name.as_str()), ("a", "b"));
        assert!(compared.warnings.is_empty(), "{:?}", compared.warnings);
        assert!((false_alarms(&compared.rows) - 0.6).abs() < 1e-9);
        let equal = compare_sides(&at("a", &EVEN, 1.0), &at("b", &ODD, 1.0)).unwrap();
        assert!(equal.rows.iter().all(|row| row.verdict == "same"), "{equal:#?}");
        assert!(equal.nothing_differs());
    }

    #[test]
    fn the_spread_between_runs_is_in_the_interval() {
        let (even, odd) = ([(0, 0.9), (2, 1.1), (4, 1.0)], [(1, 1.2), (3, 1.0), (5, 1.1)]);
        let compared = compare_sides(&at("a", &even, 1.0), &at("b", &odd, 1.0)).unwrap();
        let row = &compared.rows[5];
        assert_eq!(row.verdict, "unknown");
        assert!(
            row.reason
                .as_ref()
                .unwrap()
                .contains("runs of a side lie too far apart"),
            "{row:?}"
        );
        assert_eq!(row.rounds_needed, None);
        assert!(compared.between.unwrap().spread.unwrap() > 0.08);
        // The rounds of one run each, compared as if they were alone, see no such thing.
        let rounds = compare(&at("a", &even, 1.0).runs[0], &at("b", &odd, 1.0).runs[0]);
        assert!(rounds.level_apart().is_some());
    }

    #[test]
    fn what_lies_apart_is_judged_over_the_level() {
        let later = ODD.map(|(minute, level)| (minute + 10, 1.2 * level));
        let compared = compare_sides(&at("a", &EVEN, 1.0), &at("b", &later, 1.3)).unwrap();
        let between = compared.between.unwrap();
        assert_eq!(between.order, Order::Apart);
        assert_eq!(between.level.unwrap().1, None);
        let level = compared.level_apart().unwrap();
        assert!((level.ratio - 1.2).abs() < 0.01 && level.cases == 12, "{level:?}");
        assert_eq!(verdict(&compared, 3), "slower");
        assert!((compared.rows[2].ratio.unwrap() - 1.3).abs() < 0.01);
        assert_eq!(verdict(&compared, 4), "same");
        assert!(!compared.nothing_differs());
    }

    #[test]
    fn runs_alternate_where_the_side_changes_as_often_as_the_smaller_has_runs() {
        let order = |minutes_of_a: &[u32], minutes_of_b: &[u32]| {
            let runs =
                |minutes: &[u32]| -> Vec<RunData> { minutes.iter().map(|m| run(*m, |_| 1.0)).collect() };
            alternate(&runs(minutes_of_a), &runs(minutes_of_b))
        };
        assert!(order(&[0, 2, 4], &[1, 3, 5]));
        assert!(order(&[0, 3, 4], &[1, 2, 5]), "A B B A A B");
        assert!(!order(&[0, 1, 2], &[3, 4, 5]));
        assert!(!order(&[0, 1, 5], &[2, 3, 4]), "A A B B B A");
        assert!(order(&[0, 1, 3, 4], &[2]), "one in the middle of the others");
        assert!(!order(&[0, 1, 2, 3], &[4]), "a new one after all others");
    }

    #[test]
    fn a_side_of_one_run_says_that_its_spread_is_not_known() {
        let many = at(
            "a",
            &[(0, 1.0), (1, 1.004), (3, 0.998), (4, 1.001), (5, 1.002)],
            1.0,
        );
        let one = at("b", &[(2, 1.1)], 1.0);
        let compared = compare_sides(&many, &one).unwrap();
        assert_eq!(compared.between.unwrap().order, Order::Alternating);
        assert_eq!(verdict(&compared, 6), "slower");
        assert!(
            compared.warnings[0].starts_with("b has one run: how far its runs lie apart is not known"),
            "{:?}",
            compared.warnings
        );
        // Of one run each it is a comparison of two runs.
        let two = compare_sides(&at("a", &EVEN[..1], 1.0), &at("b", &ODD[..1], 1.0)).unwrap();
        assert_eq!((two.between, two.a_name.as_str()), (None, "a"));
        assert!(two.level.is_some());
    }

    #[test]
    fn pairs_in_turns_have_a_ratio_each() {
        // The machine's level moves by half from pair to pair.
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (pair, level) in [1.0, 1.5, 0.7].into_iter().enumerate() {
            let minute = 10 * pair as u32;
            let (mut one, mut other) = (
                run(minute, |_| level),
                run(minute + 1, |n| {
                    level * 1.1 * (1.0 + 0.001 * ((n + pair as u64) % 3) as f64)
                }),
            );
            one.results.run.in_turns_with = Some(other.results.run.id.clone());
            other.results.run.in_turns_with = Some(one.results.run.id.clone());
            a.push(one);
            b.insert(0, other);
        }
        let compared = compare_sides(&side("a", a.clone()), &side("b", b.clone())).unwrap();
        let between = compared.between.unwrap();
        assert!(compared.paired && between.order == Order::InTurns, "{between:?}");
        assert!(
            compared.rows.iter().all(|row| row.verdict == "slower"),
            "{compared:#?}"
        );
        assert!((between.level.unwrap().0 - 1.1).abs() < 0.01 && between.spread.unwrap() < 0.01);
        assert!(compared.warnings.is_empty(), "{:?}", compared.warnings);
        // One that went on alone leaves the other pairs, and is named with its partner.
        b[0].results.run.in_turns_with = None;
        let two = compare_sides(&side("a", a.clone()), &side("b", b.clone())).unwrap();
        let between = two.between.unwrap();
        assert!(two.paired && between.runs == [2, 2], "{between:?}");
        assert_eq!(verdict(&two, 5), "slower");
        let says = "run20, run21 are left out: no run of the other side took turns with them";
        assert!(two.warnings[0].starts_with(says), "{:?}", two.warnings);
        let more = compare_sides(&side("a", a.clone()), &side("b", b[1..].to_vec())).unwrap();
        assert!(
            more.warnings[0].starts_with("run20 is left out"),
            "{:?}",
            more.warnings
        );
        // A pair has no interval: then they are runs, and no pairs.
        b[1].results.run.in_turns_with = None;
        let one = compare_sides(&side("a", a), &side("b", b)).unwrap();
        assert!(!one.paired && one.between.unwrap().order == Order::Alternating);
        assert_eq!(verdict(&one, 5), "unknown");
    }

    #[test]
    fn with_few_cases_that_lie_apart_nothing_is_told() {
        let few = |minutes: [u32; 3], factor: f64| -> Vec<RunData> {
            let run = |minute| {
                let mut run = timed(&format!("run{minute}"), &[(1, 100.0 * factor), (2, 200.0)], 1.0);
                run.results.run.started = format!("2026-11-27T10:{minute:02}:00Z");
                run.results.run.id = format!("{minute}");
                run
            };
            minutes.map(run).to_vec()
        };
        let of = |minutes| {
            let compared =
                compare_sides(&side("a", few([0, 2, 4], 1.0)), &side("b", few(minutes, 1.5))).unwrap();
            compared.rows[0].clone()
        };
        assert_eq!(of([1, 3, 5]).verdict, "slower");
        let apart = of([11, 13, 15]);
        assert_eq!(apart.verdict, "unknown");
        assert!(apart.reason.unwrap().contains("did not alternate"));
    }

    #[test]
    fn a_reference_that_differs_from_its_copy_over_all_runs_leaves_nothing_known() {
        let copied = |minute: u32, copy: f64| {
            let mut run = timed(&format!("run{minute}"), &twelve(|_| 1.0), copy);
            run.results.run.started = format!("2026-11-27T10:{minute:02}:00Z");
            run.results.run.id = minute.to_string();
            run
        };
        let of = |copies: [f64; 6]| {
            let of = |minutes: [usize; 3]| {
                minutes
                    .map(|minute| copied(minute as u32, copies[minute]))
                    .to_vec()
            };
            compare_sides(&side("a", of([0, 2, 4])), &side("b", of([1, 3, 5]))).unwrap()
        };
        let misled = of([1.1, 1.11, 1.09, 1.1, 1.12, 1.1]);
        assert!(misled.rows.iter().all(|row| row.verdict == "unknown"));
        assert!(misled.warnings[0].contains("differs from its own copy"));
        // In one of six runs it is that run's luck.
        let once = of([1.1, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert!(once.rows.iter().all(|row| row.verdict == "same"), "{once:#?}");
    }

    #[test]
    fn what_does_not_repeat_is_there_twice_or_is_none_is_no_side() {
        let mut a = at("a", &EVEN, 1.0);
        let b = at("b", &ODD, 1.0);
        a.runs[1].results.run.profile = "quick".to_owned();
        let says = compare_sides(&a, &b).unwrap_err().to_string();
        let profiles = "run0 and run2 do not repeat one another: profile is";
        assert!(says.starts_with(profiles), "{says}");
        let mut other = at("a", &EVEN, 1.0);
        other.runs[2].results.experiments.clear();
        assert!(matches!(
            compare_sides(&other, &b),
            Err(SideError::Differ {
                what: "experiments",
                ..
            })
        ));
        let twice = compare_sides(&b, &b).unwrap_err().to_string();
        assert!(twice.contains("run1 and run1 hold the same run"), "{twice}");
        let none = compare_sides(&side("none", Vec::new()), &b).unwrap_err();
        assert_eq!(none.to_string(), "none has no run");
        // Another profile on the other side is a warning.
        let mut paper = at("b", &ODD, 1.0);
        for run in &mut paper.runs {
            run.results.run.profile = "paper".to_owned();
        }
        let warned = compare_sides(&at("a", &EVEN, 1.0), &paper).unwrap().warnings;
        assert!(warned[0].starts_with("THE RUNS DIFFER: profile"), "{warned:?}");
    }

    #[test]
    fn machines_of_a_side_that_differ_are_named_and_its_warnings_counted() {
        let mut a = at("a", &EVEN, 1.0);
        a.runs[1].results.machine["kernel"] = "another".into();
        a.runs[2].results.machine["kernel"] = "a third".into();
        let mut b = at("b", &ODD, 1.0);
        b.runs[0].results.warnings = vec!["it was noisy".to_owned()];
        let warnings = compare_sides(&a, &b).unwrap().warnings;
        let of_a = warnings
            .iter()
            .filter(|of| of.starts_with("THE RUNS OF a DIFFER: kernel"));
        assert_eq!(of_a.count(), 1, "{warnings:?}");
        assert!(
            warnings.contains(&"run1: it was noisy".to_owned()),
            "{warnings:?}"
        );
        b.runs[2].results.warnings = vec!["it was noisy, too".to_owned()];
        let warnings = compare_sides(&a, &b).unwrap().warnings;
        let counted = "2 warnings in the runs of b. The first, in run1: it was noisy";
        assert!(warnings.contains(&counted.to_owned()), "{warnings:?}");
    }

    #[test]
    fn a_case_that_no_run_of_b_could_do_any_more_is_lost() {
        let (a, mut b) = (at("a", &EVEN, 1.0), at("b", &ODD, 1.0));
        let fail = |run: &mut RunData| run.results.experiments[0].cases[4].status = Status::Failed;
        fail(&mut b.runs[0]);
        assert_eq!(compare_sides(&a, &b).unwrap().lost, [""; 0]);
        b.runs.iter_mut().for_each(fail);
        assert_eq!(compare_sides(&a, &b).unwrap().lost, ["e/n=5"]);
    }

    /// A run on so many CPUs, with a case on each of these numbers of them; those without a time are skipped.
    fn on(name: &str, cpus: u64, cases: &[(u64, Option<f64>)]) -> RunData {
        let times: Vec<(u64, f64)> = cases.iter().map(|(n, ns)| (*n, ns.unwrap_or(1.0))).collect();
        let of_cases = cases.iter().map(|(n, _)| Params::new().with("cpus", *n));
        let mut run = on_cpus(timed(name, &times, 1.0), cpus, of_cases);
        for (case, (_, ns)) in run.results.experiments[0].cases.iter_mut().zip(cases) {
            if ns.is_none() {
                case.status = Status::Skipped;
                let samples = run.samples.get_mut("e").unwrap();
                samples.retain(|sample| sample.case != case.id);
            }
        }
        run
    }

    fn ratios(compared: &Compared) -> Vec<(&str, f64)> {
        let rows = compared.rows.iter();
        rows.map(|row| (row.b.as_str(), (row.ratio.unwrap() * 100.0).round()))
            .collect()
    }

    #[test]
    fn states_with_cpus_of_their_own_are_compared_by_all_cpus_of_each_and_lose_no_case() {
        // What `--switch cpus=one-a-core cpus=all` leaves of two cores with two threads each.
        let few = || on("a", 2, &[(1, Some(100.0)), (2, Some(80.0))]);
        let many = || on("b", 4, &[(1, Some(100.0)), (2, None), (4, Some(60.0))]);
        let (a, b) = in_turns(few(), many());
        let compared = compare_sides(&Repeated::once(a), &Repeated::once(b)).unwrap();
        assert!(compared.paired);
        assert_eq!(ratios(&compared), [("e/cpus=1", 100.0), ("e/cpus=all", 75.0)]);
        assert_eq!(compared.lost, [""; 0]);
        // The same of several pairs.
        let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
        for pair in 1..=3 {
            let (mut a, mut b) = in_turns(few(), many());
            for (run, other) in [(&mut a, "b"), (&mut b, "a")] {
                let own = run.name.clone();
                run.results.run.id = format!("{own}{pair}");
                run.results.run.in_turns_with = Some(format!("{other}{pair}"));
            }
            of_a.push(a);
            of_b.push(b);
        }
        let several = compare_sides(&side("a", of_a), &side("b", of_b)).unwrap();
        assert_eq!(ratios(&several), ratios(&compared));
        assert_eq!(several.lost, [""; 0]);
        // Of runs apart the cases have the names that they have, and so have those that were planned alike.
        let apart = compare_sides(&Repeated::once(few()), &Repeated::once(many())).unwrap();
        assert_eq!(apart.lost, ["e/cpus=2"]);
        let alike = |name, cpus| on(name, cpus, &[(1, Some(100.0)), (2, Some(80.0))]);
        let (a, b) = in_turns(alike("a", 2), alike("b", 4));
        let compared = compare_sides(&Repeated::once(a), &Repeated::once(b)).unwrap();
        assert_eq!(ratios(&compared), [("e/cpus=1", 100.0), ("e/cpus=2", 100.0)]);
    }
}
