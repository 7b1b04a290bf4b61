//! Two result folders: what changed, by how much, how sure.
//!
//! Runs that took turns are compared as cases of one run are ([`compare_by_round`]). The rounds of two other runs
//! cannot be paired, so their cases are compared, disturbed samples included, by the Hodges–Lehmann shift of their
//! logarithms with the Mann–Whitney interval, and a case is judged by its departure from the median of all (METHOD
//! rules 5, 6).

use std::collections::BTreeMap;

use threadgauge_stats::{
    Better, Comparison, Estimate, Level, Outcome, StatsError, StoppingRule, compare_unpaired, null_misleads,
    paired_ratio,
};

use super::compared::{Compared, RunData};
use super::setting::guard;
use crate::{
    ByRound, ComparisonResult, ExperimentResult, RanBeside, Results, Run, Side, Status, StoredSample, Take,
    by_round, compare_by_round, paired,
};

/// The error of one comparison, which is one look.
pub const ALPHA: f64 = 0.05;

/// Of two runs in turns: with fewer undisturbed pairs of rounds all pairs count. An interval needs so many.
const FEWEST_PAIRS: usize = 6;

/// A case that both have, before its word is known.
struct Cell {
    case: String,
    metric: String,
    compared: Option<ByRound>,
    /// A null control of its experiment lies beyond the band.
    misled: bool,
}

/// The experiments of one run, which is called so, that the other has not.
pub(super) fn left_out(name: &str, of: &RunData, other: &RunData) -> Option<String> {
    let others: Vec<&String> = other.results.experiments.iter().map(|e| &e.id).collect();
    let ids = of.results.experiments.iter().map(|e| &e.id);
    let alone: Vec<&str> = ids
        .filter(|id| !others.contains(id))
        .map(String::as_str)
        .collect();
    let are = if alone.len() == 1 { "it is" } else { "they are" };
    (!alone.is_empty()).then(|| format!("{name} alone has {}; {are} left out", alone.join(", ")))
}

/// Compares run `b` with run `a`.
#[must_use]
pub fn compare(a: &RunData, b: &RunData) -> Compared {
    compare_as([&a.name, &b.name], a, b)
}

/// The same of runs that are called so.
pub(super) fn compare_as(names: [&str; 2], a: &RunData, b: &RunData) -> Compared {
    let [a_name, b_name] = names;
    let mut warnings = guard(names, &a.results, &b.results);
    let paired = took_turns(&a.results.run, &b.results.run);
    let mut cells = Vec::new();
    for of_a in &a.results.experiments {
        let Some(of_b) = b.results.experiments.iter().find(|e| e.id == of_a.id) else {
            continue;
        };
        let (cells_of, doubts) = of_experiment(names, (a, of_a), (b, of_b), paired);
        cells.extend(cells_of);
        warnings.extend(doubts);
    }
    warnings.extend(
        [(a_name, a, b), (b_name, b, a)]
            .into_iter()
            .filter_map(|(name, of, other)| left_out(name, of, other)),
    );
    let level = if paired {
        None
    } else {
        let comparisons = cells.iter().filter_map(|cell| Some(cell.compared?.comparison));
        Level::of(&comparisons.collect::<Vec<_>>())
    };
    let row = |cell: &Cell| {
        let departure = |c: Comparison| level.map_or(c, |level| level.departure(&c, BETTER));
        let compared = cell.compared.map(|of| ByRound {
            comparison: departure(of.comparison),
            ..of
        });
        let row = ComparisonResult::new(&cell.case, &cell.case, &cell.metric, compared.as_ref());
        if cell.misled {
            row.misled()
        } else if !paired && level.is_none() {
            row.unknown("without turns, and with so few cases, a change is not told from the machine's level")
        } else {
            row
        }
    };
    Compared {
        a_name: a_name.to_owned(),
        b_name: b_name.to_owned(),
        warnings,
        paired,
        level,
        between: None,
        lost: lost(&[&a.results], &[&b.results]),
        rows: cells.iter().map(row).collect(),
    }
}

/// The cases that have figures in a run of A and in none of B, which planned them: what cannot run any more is no
/// success.
pub(super) fn lost(a: &[&Results], b: &[&Results]) -> Vec<String> {
    let statuses = |of: &[&Results]| -> BTreeMap<String, bool> {
        let mut measured = BTreeMap::new();
        let experiments = of.iter().flat_map(|results| &results.experiments);
        for case in experiments.flat_map(|experiment| &experiment.cases) {
            *measured.entry(case.id.clone()).or_default() |= case.status == Status::Ok;
        }
        measured
    };
    let of_b = statuses(b);
    let is_lost = |(id, measured): (String, bool)| (measured && of_b.get(&id) == Some(&false)).then_some(id);
    statuses(a).into_iter().filter_map(is_lost).collect()
}

/// Of all first primary metrics: they are times.
pub(super) const BETTER: Better = Better::Lower;

/// Whether each is the other's partner: not so where one of them went on alone later.
pub(super) fn took_turns(a: &Run, b: &Run) -> bool {
    a.in_turns_with.as_ref() == Some(&b.id) && b.in_turns_with.as_ref() == Some(&a.id)
}

fn of_experiment(
    [a_name, b_name]: [&str; 2],
    (a, of_a): (&RunData, &ExperimentResult),
    (b, of_b): (&RunData, &ExperimentResult),
    took_turns: bool,
) -> (Vec<Cell>, Vec<String>) {
    let Some(metric) = of_a.primary_metrics.first() else {
        return (Vec::new(), Vec::new());
    };
    let (samples_a, samples_b) = (samples(a, of_a), samples(b, of_b));
    let misleads = |(name, run, of): &(&str, &RunData, &ExperimentResult)| {
        let null = null_control(samples(run, of), of.reference.as_ref()?, metric).ok()?;
        null_misleads(&null).then(|| {
            format!(
                "{}: in {name} the reference case differs from its own copy by more than 3 %, so nothing is said of its \
                 cases",
                of.id
            )
        })
    };
    let sides = [(a_name, a, of_a), (b_name, b, of_b)];
    let mut doubts: Vec<String> = sides.iter().filter_map(misleads).collect();
    let misled = !doubts.is_empty();
    let shared = of_a
        .cases
        .iter()
        .filter(|case| of_b.cases.iter().any(|other| other.id == case.id));
    let cells: Vec<Cell> = shared
        .map(|case| {
            let values = |samples: &[StoredSample], rounds: u32, take| {
                // Of an interrupted run the round that was not finished is no round.
                let finished = samples.iter().filter(|s| s.round <= rounds);
                by_round(finished, &case.id, 0, metric, take)
            };
            let both = |take| {
                (
                    values(samples_a, of_a.rounds, take),
                    values(samples_b, of_b.rounds, take),
                )
            };
            let all = both(Take::All);
            let compared = if took_turns {
                let undisturbed = both(Take::Undisturbed);
                let beside = |samples: &[StoredSample]| {
                    let own = samples.iter().filter(|s| s.case == case.id && s.copy == 0);
                    RanBeside::of(&case.params, own)
                };
                let side = |undisturbed, all, ran_beside| Side {
                    undisturbed,
                    all,
                    ran_beside,
                };
                let side_a = side(&undisturbed.0, &all.0, beside(samples_a));
                let side_b = side(&undisturbed.1, &all.1, beside(samples_b));
                compare_by_round(side_a, side_b, FEWEST_PAIRS)
            } else {
                let values = |rounds: &BTreeMap<u32, f64>| rounds.values().copied().collect::<Vec<_>>();
                let unpaired = compare_unpaired(&values(&all.0), &values(&all.1), BETTER);
                unpaired.map(|comparison| ByRound {
                    comparison,
                    disturbed: false,
                    why: None,
                })
            };
            Cell {
                case: case.id.clone(),
                metric: metric.clone(),
                compared: compared.ok(),
                misled,
            }
        })
        .collect();
    let alone = of_a.cases.len() + of_b.cases.len() - 2 * cells.len();
    doubts.extend((alone > 0).then(|| {
        format!(
            "{}: {} in one of the two runs only, left out",
            of_a.id,
            crate::units::counted(alone, "case")
        )
    }));
    (cells, doubts)
}

pub(super) fn samples<'a>(run: &'a RunData, experiment: &ExperimentResult) -> &'a [StoredSample] {
    run.samples.get(&experiment.id).map_or(&[], Vec::as_slice)
}

/// The reference case's second copy against its first: what two equal cases differ by here.
///
/// # Errors
///
/// When no round has both.
pub fn null_control<'a>(
    samples: impl IntoIterator<Item = &'a StoredSample> + Clone,
    reference: &str,
    metric: &str,
) -> Result<Estimate, StatsError> {
    let first = by_round(samples.clone(), reference, 0, metric, Take::Undisturbed);
    let second = by_round(samples, reference, 1, metric, Take::Undisturbed);
    let (a, b) = paired(&first, &second);
    paired_ratio(&a, &b, ALPHA)
}

impl ComparisonResult {
    /// What a comparison of `b` with `a` says; where none could be made, nothing is known.
    #[must_use]
    pub fn new(a: &str, b: &str, metric: &str, compared: Option<&ByRound>) -> Self {
        let of = compared.map(|compared| compared.comparison);
        let outcome = of.map_or(Outcome::Unknown { rounds_needed: None }, |of| of.outcome);
        let rounds_needed = match outcome {
            Outcome::Unknown { rounds_needed } => rounds_needed,
            _ => None,
        };
        let is_unknown = matches!(outcome, Outcome::Unknown { .. });
        Self {
            a: a.to_owned(),
            b: b.to_owned(),
            metric: metric.to_owned(),
            ratio: of.map(|of| of.ratio),
            ci95: of.and_then(|of| of.ci95).map(|ci| [ci.low, ci.high]),
            verdict: outcome.to_string(),
            rounds_needed,
            reason: is_unknown.then(|| why_unknown(compared, rounds_needed)),
            disturbed: compared.is_some_and(|compared| compared.disturbed),
        }
    }

    /// The same where its figures say nothing of the cases, however many rounds there are, and why not.
    #[must_use]
    pub(super) fn unknown(self, why: &str) -> Self {
        Self {
            verdict: Outcome::Unknown { rounds_needed: None }.to_string(),
            rounds_needed: None,
            reason: Some(why.to_owned()),
            ..self
        }
    }

    /// The same beside a null control that lies beyond the band: then its figures say nothing.
    #[must_use]
    pub fn misled(self) -> Self {
        self.unknown("the reference case differs from its own copy by more than 3 %")
    }
}

/// Why a comparison settles nothing, in a few words.
fn why_unknown(compared: Option<&ByRound>, rounds_needed: Option<u64>) -> String {
    let Some(ByRound { comparison, why, .. }) = compared else {
        return "no round has figures of both".to_owned();
    };
    match (why, rounds_needed) {
        (Some(why), _) => (*why).to_owned(),
        (None, Some(rounds)) => {
            let rounds = crate::units::counted(rounds as usize, "round");
            format!("the interval is too wide; {rounds} would settle it")
        }
        (None, None) if comparison.ci95.is_none() => "too few rounds for an interval".to_owned(),
        (None, None) => {
            let most = StoppingRule::paper().rounds();
            format!(
                "the interval is too wide, and cannot be settled here: it would take more than {most} rounds"
            )
        }
    }
}

/// Of comparisons with an interval, at most so many would be called faster or slower where nothing differs by more than
/// 3 %.
///
/// ```
/// # use threadgauge_results::false_alarms;
/// assert_eq!(false_alarms(&[]), 0.0);
/// ```
#[must_use]
pub fn false_alarms(rows: &[ComparisonResult]) -> f64 {
    rows.iter().filter(|row| row.ci95.is_some()).count() as f64 * ALPHA
}

#[cfg(test)]
mod tests {
    use threadgauge_stats::BAND;

    use super::super::made::{in_turns, timed, twelve};
    use super::*;

    #[test]
    fn experiments_that_one_run_alone_has_are_named_in_one_line() {
        let text = include_str!("../../../../runs/golden/computing/results.json");
        let results: Results = serde_json::from_str(text).unwrap();
        let run = |name: &str, experiments: std::ops::Range<usize>| RunData {
            name: name.to_owned(),
            results: Results {
                experiments: results.experiments[experiments].to_vec(),
                ..results.clone()
            },
            samples: BTreeMap::new(),
        };
        let says = |of, other| left_out("a", &run("a", of), &run("b", other));
        let line = "a alone has compute, placement; they are left out";
        assert_eq!(says(0..2, 0..0).as_deref(), Some(line));
        assert_eq!(
            says(0..2, 0..1).as_deref(),
            Some("a alone has placement; it is left out")
        );
        assert_eq!(says(0..1, 0..2), None);
        let warnings = compare(&run("a", 0..2), &run("b", 0..0)).warnings;
        assert_eq!(warnings.last().map(String::as_str), Some(line));
    }

    fn verdicts(compared: &Compared) -> Vec<&str> {
        compared.rows.iter().map(|row| row.verdict.as_str()).collect()
    }

    #[test]
    fn runs_apart_are_compared_over_their_level_and_nothing_differs_only_where_that_is_one() {
        let a = timed("a", &twelve(|_| 1.0), 1.0);
        let equal = compare(&a, &timed("b", &twelve(|_| 1.0), 1.0));
        assert!(!equal.paired && equal.nothing_differs(), "{equal:?}");
        assert_eq!(equal.rows.len(), 12);
        assert_eq!(equal.level_apart(), None);
        assert!(equal.warnings.is_empty(), "{:?}", equal.warnings);
        for level in [1.5, 0.5] {
            let moved = compare(&a, &timed("b", &twelve(|_| level), 1.0));
            assert!((moved.level_apart().unwrap().ratio - level).abs() < 1e-9);
            assert!(verdicts(&moved).iter().all(|says| *says == "same"));
            assert!((moved.median_ratio().unwrap() - 1.0).abs() < 1e-9);
            assert!(!moved.nothing_differs());
        }
        let one = compare(&a, &timed("b", &twelve(|n| if n == 5 { 1.5 } else { 1.0 }), 1.0));
        assert_eq!(verdicts(&one)[4], "slower");
        assert!(!one.nothing_differs());
        // Three per cent is the edge of what counts as one level.
        let edge = Level {
            ratio: 1.0 - BAND,
            spread: 0.0,
            cases: 12,
        };
        let at = |level| Compared {
            level: Some(level),
            ..equal.clone()
        };
        let within = Level {
            ratio: 1.0 + 0.9 * BAND,
            ..edge
        };
        assert_eq!(at(within).level_apart(), None);
        assert!(
            at(Level {
                ratio: 1.0 + 1.1 * BAND,
                ..edge
            })
            .level_apart()
            .is_some()
        );
    }

    #[test]
    fn with_too_few_cases_a_change_is_not_told_from_the_level_unless_the_runs_took_turns() {
        let few = |name, factor: f64| timed(name, &[(1, 100.0 * factor), (2, 200.0)], 1.0);
        let apart = compare(&few("a", 1.0), &few("b", 1.5));
        assert_eq!(apart.level, None);
        let row = &apart.rows[0];
        assert_eq!((row.verdict.as_str(), row.rounds_needed), ("unknown", None));
        assert!(
            row.reason
                .as_ref()
                .unwrap()
                .contains("not told from the machine's level")
        );
        let (a, b) = in_turns(few("a", 1.0), few("b", 1.5));
        let turns = compare(&a, &b);
        assert!(turns.paired && turns.level.is_none());
        assert_eq!(verdicts(&turns), ["slower", "same"]);
        // Where one of them went on alone they are no pairs.
        let mut alone = b;
        alone.results.run.in_turns_with = Some("3".to_owned());
        assert!(!compare(&a, &alone).paired && !compare(&alone, &a).paired);
        assert!(turns.median_ratio().unwrap() > 1.2);
    }

    #[test]
    fn disturbed_rounds_of_runs_in_turns_say_something_only_beside_equal_load() {
        let beside = |load_of_b: f64| {
            let of = |name, factor: f64, load: f64| {
                let mut run = timed(name, &[(1, 100.0 * factor), (2, 200.0)], 1.0);
                for stored in run.samples.get_mut("e").unwrap() {
                    // Neither another case nor the reference's copy has this load.
                    let own = stored.case == "e/n=1" && stored.copy == 0;
                    stored.gated = true;
                    let load = if own { load } else { 0.9 * factor };
                    stored.sample.noise = BTreeMap::from([("foreign_cpus".to_owned(), load)]);
                }
                run
            };
            let (a, b) = in_turns(of("a", 1.0, 0.4), of("b", 1.5, load_of_b));
            let row = compare(&a, &b).rows[0].clone();
            (row.verdict, row.disturbed)
        };
        assert_eq!(beside(0.41), ("slower".to_owned(), true));
        assert_eq!(beside(0.5), ("unknown".to_owned(), true));
    }

    #[test]
    fn nothing_is_said_of_cases_whose_reference_differs_from_its_copy() {
        let a = timed("a", &twelve(|_| 1.0), 1.0);
        let compared = compare(&a, &timed("b", &twelve(|_| 1.0), 1.2));
        assert_eq!(compared.warnings.len(), 1, "{:?}", compared.warnings);
        assert!(compared.warnings[0].starts_with("e: in b the reference case differs from its own copy"));
        assert!(verdicts(&compared).iter().all(|says| *says == "unknown"));
        let says = "the reference case differs from its own copy by more than 3 %";
        assert_eq!(compared.rows[3].reason.as_deref(), Some(says));
        assert!(!compared.nothing_differs());
    }

    #[test]
    fn cases_that_one_run_alone_has_are_counted_and_left_out() {
        let (mut of_a, of_b) = (twelve(|_| 1.0), twelve(|_| 1.0));
        of_a.push((20, 5.0));
        of_a.push((21, 5.0));
        let b = timed("b", &of_b[..11], 1.0);
        let compared = compare(&timed("a", &of_a, 1.0), &b);
        assert_eq!(compared.rows.len(), 11);
        assert_eq!(
            compared.warnings,
            ["e: 3 cases in one of the two runs only, left out"]
        );
    }

    #[test]
    fn what_settles_nothing_says_why() {
        let few = |name, factor: f64| {
            let mut run = timed(name, &[(1, 100.0 * factor), (2, 200.0)], 1.0);
            run.results.experiments[0].rounds = 3;
            run
        };
        let (a, b) = in_turns(few("a", 1.0), few("b", 1.5));
        let row = &compare(&a, &b).rows[0];
        assert_eq!((row.verdict.as_str(), row.ci95), ("unknown", None));
        let by_round = |ci95: Option<[f64; 2]>| ByRound {
            comparison: Comparison {
                ci95: ci95.map(|[low, high]| threadgauge_stats::Interval {
                    low,
                    high,
                    level: 0.95,
                }),
                ..compare_unpaired(&[1.0, 1.1, 0.9], &[1.0, 1.2, 0.8], BETTER).unwrap()
            },
            disturbed: false,
            why: None,
        };
        // More rounds would not help where the figures say nothing of the cases.
        let wanting = ComparisonResult {
            rounds_needed: Some(40),
            ..row.clone()
        };
        assert_eq!(wanting.misled().rounds_needed, None);
        assert_eq!(why_unknown(None, None), "no round has figures of both");
        assert_eq!(
            why_unknown(Some(&by_round(None)), None),
            "too few rounds for an interval"
        );
        assert!(why_unknown(Some(&by_round(Some([0.5, 2.0]))), None).contains("cannot be settled here"));
        assert_eq!(
            why_unknown(Some(&by_round(Some([0.5, 2.0]))), Some(40)),
            "the interval is too wide; 40 rounds would settle it"
        );
    }

    #[test]
    fn one_comparison_in_twenty_with_an_interval_may_be_a_false_alarm() {
        let rows = compare(
            &timed("a", &twelve(|_| 1.0), 1.0),
            &timed("b", &twelve(|_| 1.0), 1.0),
        )
        .rows;
        assert!((false_alarms(&rows) - 0.6).abs() < 1e-12);
        let without = ComparisonResult {
            ci95: None,
            ..rows[0].clone()
        };
        assert_eq!(false_alarms(&[without]), 0.0);
    }
}
