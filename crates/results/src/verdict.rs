//! From evidence to a verdict: METHOD rule 6 for claims, in one place for all experiments.

use std::collections::BTreeMap;

use threadgauge_stats::{Estimate, StatsError, holm, jointly_beyond};

use crate::units::{Scale, capitalised, counted, with_unit};
use crate::{Claim, Condition, Evidence, Finding, Quote, Range, Rounds, Rule, Verdict};

/// What a finding from disturbed rounds says besides.
const DISTURBED: &str = " Disturbed: too few rounds were free of other load, so all count.";

/// What a finding on a re-creation says besides, before what that cannot show.
const RECREATED: &str = " Re-created on this kernel, which cannot show ";

/// The finding on `claim`. `unit` is the unit of its statistic; every interval's level is 1 − `alpha` or better,
/// `alpha` being what the stopping rule leaves for one look. A claim that is true is said not to hold with an error of
/// `alpha` at most, whatever its cells and conditions.
#[must_use]
pub fn decide(claim: &Claim, unit: &str, evidence: &Evidence, alpha: f64) -> Finding {
    let Judgement {
        verdict,
        measured,
        ci95,
        reason,
    } = judge(evidence, unit, claim.range(), Error::of_a_look(alpha));
    // Without a figure nothing was decided on it.
    let recreated = evidence.recreated().filter(|_| measured.is_some());
    Finding {
        claim: Some(claim.id.clone()),
        verdict: Some(verdict),
        says: [
            says(claim, evidence, measured, ci95, unit).as_str(),
            if evidence.is_disturbed() { DISTURBED } else { "" },
            &recreated.map_or_else(String::new, |limits| format!("{RECREATED}{limits}.")),
        ]
        .concat(),
        published: published(claim),
        published_text: (!claim.published_value.is_empty()).then(|| claim.published_value.clone()),
        measured,
        ci95,
        unit: unit.to_owned(),
        reason,
        disturbed: evidence.is_disturbed(),
        recreated: recreated.map(str::to_owned),
    }
}

/// The statistic, what it is here, and what the rule asks of it.
fn says(
    claim: &Claim,
    evidence: &Evidence,
    measured: Option<f64>,
    ci95: Option<[f64; 2]>,
    unit: &str,
) -> String {
    let here = measured.map_or_else(|| "no figure".to_owned(), |m| with_unit(m, ci95, unit));
    format!(
        "{}: {here} here; the rule asks for {}.",
        capitalised(&claim.measures()),
        match evidence {
            Evidence::Outside { range, .. } => asks_for_outside(*range, unit),
            _ => asks(claim.range(), unit),
        }
    )
}

/// What a claim's rule asks for, with units: `at least 10`, `0 to 180 µs`.
#[must_use]
pub fn rule(claim: &Claim) -> String {
    asks(claim.range(), &claim.unit)
}

fn asks(Range { min, max }: Range, unit: &str) -> String {
    let bounds = |bounds: &[f64]| Scale::bounds(unit, bounds);
    match (min.is_finite(), max.is_finite()) {
        (true, true) if min == max => bounds(&[min]),
        (true, true) => bounds(&[min, max]),
        (true, false) => format!("at least {}", bounds(&[min])),
        (false, true) => format!("at most {}", bounds(&[max])),
        (false, false) => "any value".to_owned(),
    }
}

fn asks_for_outside(Range { min, max }: Range, unit: &str) -> String {
    let bound = |bound| Scale::bounds(unit, &[bound]);
    format!("at most {} or at least {}", bound(min), bound(max))
}

/// One number for what was published: the statistic, where it is one value; the middle of its range else.
fn published(claim: &Claim) -> Option<f64> {
    let (low, high) = (claim.published_statistic_low?, claim.published_statistic_high?);
    Some(f64::midpoint(low, high))
}

#[derive(Debug, Clone, PartialEq)]
struct Judgement {
    verdict: Verdict,
    measured: Option<f64>,
    ci95: Option<[f64; 2]>,
    reason: Option<String>,
}

/// What a verdict may err by.
#[derive(Debug, Clone, Copy)]
struct Error {
    /// 1 less the level of the intervals. To hold, each of several must lie inside, which needs no correction.
    interval: f64,
    /// Of "does not hold": what is left of it for one of several that can each refute the claim.
    refuting: f64,
}

impl Error {
    const fn of_a_look(alpha: f64) -> Self {
        Self {
            interval: alpha,
            refuting: alpha,
        }
    }

    fn shared_by(self, judged: usize) -> Self {
        Self {
            refuting: self.refuting / judged as f64,
            ..self
        }
    }
}

fn judge(evidence: &Evidence, unit: &str, range: Range, error: Error) -> Judgement {
    match evidence {
        Evidence::Rounds(rounds) => of_one(|alpha| rounds.estimate(alpha), range, error),
        Evidence::Curve(curve) => of_one(|alpha| curve.estimate(alpha), range, error),
        Evidence::Each { quote, cells } => of_cells(*quote, cells, unit, range, error),
        Evidence::Estimate { value, ci95 } => Judgement {
            measured: Some(*value),
            ..ci95.map_or_else(
                || inconclusive("too few rounds for an interval".to_owned()),
                |ci| place(ci, range),
            )
        },
        Evidence::With { main, also } => {
            let error = error.shared_by(1 + also.len());
            of_conditions(judge(main, unit, range, error), also, error)
        }
        Evidence::Outside { of, range } => {
            let inside = judge(of, unit, *range, error);
            Judgement {
                verdict: match inside.verdict {
                    Verdict::Holds => Verdict::DoesNotHold,
                    Verdict::DoesNotHold => Verdict::Holds,
                    open => open,
                },
                ..inside
            }
        }
        Evidence::Recreated { of, .. } => judge(of, unit, range, error),
        Evidence::Disturbed { evidence, alike } => {
            of_disturbed(judge(evidence, unit, range, error), *alike, unit, range)
        }
        Evidence::Lacking { lack, measured } => Judgement {
            verdict: lack.of.verdict(),
            measured: *measured,
            ci95: None,
            reason: Some(lack.says.clone()),
        },
    }
}

/// What disturbed rounds can decide (METHOD rule 10): other load adds noise, which may hide a difference and make none
/// between cells that it disturbs alike.
fn of_disturbed(judged: Judgement, alike: bool, unit: &str, range: Range) -> Judgement {
    // No ratio is below 0.
    let least = if unit == "ratio" && range.min == 0.0 {
        f64::NEG_INFINITY
    } else {
        range.min
    };
    let has_two_bounds = least.is_finite() && range.max.is_finite();
    let reason = match judged.verdict {
        Verdict::Holds if has_two_bounds => "disturbed rounds do not confirm a rule with two bounds",
        Verdict::Holds | Verdict::DoesNotHold if !alike => {
            "in disturbed rounds, its cells were not disturbed alike (the same number of CPUs, foreign load within 3 % of a CPU)"
        }
        _ => return judged,
    };
    Judgement {
        verdict: Verdict::Inconclusive,
        reason: Some(reason.to_owned()),
        ..judged
    }
}

fn inconclusive(reason: String) -> Judgement {
    Judgement {
        verdict: Verdict::Inconclusive,
        measured: None,
        ci95: None,
        reason: Some(reason),
    }
}

/// One estimate over rounds, as its interval has it at the level of what is left to err.
fn of_one(estimate: impl Fn(f64) -> Result<Estimate, StatsError>, range: Range, error: Error) -> Judgement {
    let both = estimate(error.interval).and_then(|shown| Ok((shown, estimate(error.refuting)?.ci)));
    let (
        Estimate {
            estimate: measured,
            ci,
            n,
        },
        refuting,
    ) = match both {
        Ok(both) => both,
        Err(e) => return inconclusive(format!("it cannot be estimated: {e}")),
    };
    let [shown, refuting] = [ci, refuting].map(|ci| ci.map(|ci| [ci.low, ci.high]));
    let Some(shown) = shown else {
        return Judgement {
            measured: Some(measured),
            ..inconclusive(format!(
                "{} rounds are needed for an interval, and there {}",
                rounds_for(1, error.interval),
                are(n)
            ))
        };
    };
    let mut judgement = place(shown, range);
    if judgement.verdict == Verdict::DoesNotHold && !refuting.is_some_and(|ci| outside(ci, range)) {
        judgement.verdict = Verdict::Inconclusive;
        let says = "it lies outside by itself, but with the conditions judged beside it so few rounds cannot exclude chance";
        judgement.reason = Some(says.to_owned());
    }
    Judgement {
        measured: Some(measured),
        ..judgement
    }
}

fn are(rounds: usize) -> String {
    if rounds == 1 {
        "is 1".to_owned()
    } else {
        format!("are {rounds}")
    }
}

/// Whole interval inside: holds; none of it: does not hold; else open.
fn place(ci: [f64; 2], range: Range) -> Judgement {
    let [low, high] = ci;
    let (verdict, reason) = if low >= range.min && high <= range.max {
        (Verdict::Holds, None)
    } else if outside(ci, range) {
        (Verdict::DoesNotHold, None)
    } else {
        let says = "the interval lies across the edge of the rule; more rounds would narrow it";
        (Verdict::Inconclusive, Some(says.to_owned()))
    };
    Judgement {
        verdict,
        measured: None,
        ci95: Some(ci),
        reason,
    }
}

fn outside([low, high]: [f64; 2], range: Range) -> bool {
    high < range.min || low > range.max
}

/// Every cell's interval inside: holds. The cells together beyond an edge: does not hold.
fn of_cells(quote: Quote, cells: &[(String, Rounds)], unit: &str, range: Range, error: Error) -> Judgement {
    let estimates: Vec<_> = cells
        .iter()
        .filter_map(|(_, rounds)| rounds.estimate(error.interval).ok())
        .collect();
    if estimates.is_empty() || estimates.len() < cells.len() {
        return inconclusive("a cell has no figures".to_owned());
    }
    let medians: Vec<f64> = estimates.iter().map(|e| e.estimate).collect();
    let intervals: Vec<Option<[f64; 2]>> = estimates
        .iter()
        .map(|e| e.ci.map(|ci| [ci.low, ci.high]))
        .collect();
    let quoted = quoted(quote, &medians);
    let about = |i: usize| format!("{}: {}", cells[i].0, with_unit(medians[i], intervals[i], unit));
    let judgement = |verdict, shown: usize, reason| Judgement {
        verdict,
        measured: Some(medians[shown]),
        ci95: intervals[shown],
        reason,
    };
    let Some(intervals_of_all) = intervals.iter().copied().collect::<Option<Vec<_>>>() else {
        return judgement(
            Verdict::Inconclusive,
            quoted,
            Some(format!(
                "a cell has fewer than {} rounds and so no interval",
                rounds_for(1, error.interval)
            )),
        );
    };
    if intervals_of_all.iter().all(|&ci| inside(ci, range)) {
        return judgement(Verdict::Holds, quoted, None);
    }
    let edges = [Edge::Upper(range.max), Edge::Lower(range.min)];
    if let Some(clearest) = edges.iter().find_map(|edge| edge.left_by(cells, &medians, error)) {
        let says = format!("{}{}", about(clearest), tally(cells, &intervals_of_all, range));
        return judgement(Verdict::DoesNotHold, clearest, Some(says));
    }
    let outside = (0..cells.len()).find(|&i| outside(intervals_of_all[i], range));
    let reason = outside.map_or_else(
        || {
            let open = (0..cells.len())
                .find(|&i| !inside(intervals_of_all[i], range))
                .unwrap_or(quoted);
            format!("{} lies across the edge of the rule", about(open))
        },
        |i| {
            let (rounds, enough) = (cells[i].1.by_round.len(), rounds_for(cells.len(), error.refuting));
            let why = if rounds < enough as usize {
                format!(
                    "{} cannot exclude chance; {enough} would suffice in any noise",
                    counted(rounds, "round")
                )
            } else {
                format!("its {rounds} rounds do not agree enough to exclude chance")
            };
            let at_once = format!("with {} judged at once", counted(cells.len(), "cell"));
            format!("{} lies outside by itself, but {at_once} {why}", about(i))
        },
    );
    let says = reason + &tally(cells, &intervals_of_all, range);
    judgement(Verdict::Inconclusive, quoted, Some(says))
}

/// Where cells do not agree: how many confirm the rule, and which lie outside of it, up to three by name.
fn tally(cells: &[(String, Rounds)], intervals: &[[f64; 2]], range: Range) -> String {
    const NAMED: usize = 3;
    let confirm = intervals.iter().filter(|&&ci| inside(ci, range)).count();
    if confirm == 0 || cells.len() == 1 {
        return String::new();
    }
    let against: Vec<&str> = cells
        .iter()
        .zip(intervals)
        .filter_map(|((name, _), &ci)| outside(ci, range).then_some(name.as_str()))
        .collect();
    let others = match against.len() {
        0 => ", and the others are open".to_owned(),
        count if count <= NAMED => format!("; outside of it: {}", against.join("; ")),
        count => format!(
            "; outside of it: {}; and {} more",
            against[..NAMED].join("; "),
            count - NAMED
        ),
    };
    format!(
        "; {confirm} of {} satisfy the rule{others}",
        counted(cells.len(), "case")
    )
}

/// One end of a rule.
#[derive(Debug, Clone, Copy)]
enum Edge {
    Upper(f64),
    Lower(f64),
}

impl Edge {
    /// How far a value lies beyond, in its own unit.
    fn beyond(self, value: f64) -> f64 {
        match self {
            Self::Upper(edge) => value - edge,
            Self::Lower(edge) => edge - value,
        }
    }

    const fn at(self) -> f64 {
        match self {
            Self::Upper(edge) | Self::Lower(edge) => edge,
        }
    }

    /// The cell that shows most clearly that the cells together have left the rule here; none where they have not. Each
    /// edge has half of the error, as each end of an interval has.
    fn left_by(self, cells: &[(String, Rounds)], medians: &[f64], error: Error) -> Option<usize> {
        let p = |(i, (_, rounds)): (usize, &(String, Rounds))| {
            if self.beyond(medians[i]) > 0.0 {
                rounds.estimator.p_value(&rounds.values(), self.at())
            } else {
                1.0
            }
        };
        let p: Vec<f64> = cells.iter().enumerate().map(p).collect();
        let distances: Option<Vec<_>> = cells.iter().map(|(_, rounds)| self.distances(rounds)).collect();
        let is_left = distances.and_then(|cells| jointly_beyond(&cells)).map_or_else(
            || holm(&p).iter().any(|p| *p <= error.refuting),
            |p| p <= error.refuting / 2.0,
        );
        let clearer = |a: &usize, b: &usize| {
            let distance = |i: &usize| self.beyond(medians[*i]);
            p[*b].total_cmp(&p[*a]).then(distance(a).total_cmp(&distance(b)))
        };
        (0..cells.len()).filter(|_| is_left).max_by(clearer)
    }

    /// How far each round lies beyond, on a scale on which its noise is about symmetric; none where there is no such
    /// scale.
    fn distances(self, rounds: &Rounds) -> Option<BTreeMap<u32, f64>> {
        let scale = |value| rounds.estimator.symmetric(value);
        let edge = scale(self.at())?;
        let distance = |(round, value): (&u32, &f64)| {
            let value = scale(*value)?;
            let side = if matches!(self, Self::Upper(_)) { 1.0 } else { -1.0 };
            Some((*round, side * (value - edge)))
        };
        rounds.by_round.iter().map(distance).collect()
    }
}

fn inside([low, high]: [f64; 2], range: Range) -> bool {
    low >= range.min && high <= range.max
}

fn quoted(quote: Quote, medians: &[f64]) -> usize {
    let by_median = |a: &usize, b: &usize| medians[*a].total_cmp(&medians[*b]);
    let mut indices = 0..medians.len();
    let found = match quote {
        Quote::Largest => indices.max_by(by_median),
        Quote::Smallest => indices.by_ref().min_by(by_median),
    };
    found.unwrap_or(0)
}

/// The fewest rounds at which a sign test of `cells` cells can reach `alpha` after Holm's adjustment.
fn rounds_for(cells: usize, alpha: f64) -> u32 {
    let cells = u32::try_from(cells).unwrap_or(u32::MAX);
    (6..64)
        .find(|&n| f64::from(cells) * 2.0 * 0.5_f64.powf(f64::from(n)) <= alpha)
        .unwrap_or(64)
}

/// The main rule's verdict, unless a condition overturns or weakens it.
fn of_conditions(main: Judgement, also: &[Condition], error: Error) -> Judgement {
    also.iter().fold(main, |so_far, condition| {
        let Rule { range, unit } = condition.rule;
        let besides = judge(&condition.evidence, unit, range, error);
        let shown = besides.measured.map_or_else(String::new, |m| {
            format!(" ({})", with_unit(m, besides.ci95, unit))
        });
        let why = besides.reason.filter(|why| so_far.reason.as_ref() != Some(why));
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let open = format!("open whether {}{shown}{why}", condition.says);
        match (so_far.verdict, besides.verdict) {
            (_, Verdict::Holds) | (Verdict::DoesNotHold | Verdict::NotMeasured | Verdict::NotTestable, _) => {
                so_far
            }
            // What the claim itself lacks is the first thing to know.
            (Verdict::Inconclusive, Verdict::DoesNotHold) if so_far.measured.is_none() => so_far,
            (_, Verdict::DoesNotHold) => Judgement {
                verdict: Verdict::DoesNotHold,
                reason: Some(format!("it is not so that {}{shown}", condition.says)),
                ..so_far
            },
            _ => Judgement {
                verdict: Verdict::Inconclusive,
                reason: Some(match &so_far.reason {
                    Some(reason) => format!("{reason}; {open}"),
                    None => open,
                }),
                ..so_far
            },
        }
    })
}

#[cfg(test)]
mod tests {
    use threadgauge_stats::Estimator;

    use super::*;
    use crate::{Lack, Need};

    const ALPHA: Error = Error::of_a_look(0.05);
    /// What three looks leave for each.
    const OF_THREE: Error = Error::of_a_look(0.022);
    const AT_MOST_60_PERCENT: Range = Range { min: -0.05, max: 0.6 };

    fn around(value: f64, n: usize) -> Rounds {
        rounds(
            (0..n).map(|i| value * (1.0 + 0.001 * i as f64)),
            Estimator::Median,
        )
    }

    fn rounds(values: impl IntoIterator<Item = f64>, estimator: Estimator) -> Rounds {
        Rounds {
            by_round: (1..).zip(values).collect(),
            estimator,
        }
    }

    fn ratio(values: Vec<f64>) -> Evidence {
        Evidence::Rounds(rounds(values, Estimator::RATIO))
    }

    #[test]
    fn an_interval_inside_holds_outside_does_not_and_across_is_open() {
        let verdict = |value| {
            judge(
                &Evidence::Rounds(around(value, 7)),
                "ratio",
                AT_MOST_60_PERCENT,
                ALPHA,
            )
            .verdict
        };
        assert_eq!(verdict(0.3), Verdict::Holds);
        assert_eq!(verdict(0.7), Verdict::DoesNotHold);
        assert_eq!(verdict(0.599), Verdict::Inconclusive);
    }

    #[test]
    fn a_rule_with_a_gap_holds_on_either_side_of_it() {
        let claim = crate::claim("second-cpu-gain-differs-elsewhere").unwrap();
        let finding = |value: f64| {
            let of = rounds((0..7).map(|i| value + 0.001 * f64::from(i)), Estimator::Median);
            let evidence = Evidence::Outside {
                of: Box::new(Evidence::Rounds(of)),
                range: Range {
                    min: -0.05,
                    max: 0.05,
                },
            };
            decide(claim, &claim.unit, &evidence, 0.05)
        };
        for (value, expected) in [
            (-0.3, Verdict::Holds),
            (0.3, Verdict::Holds),
            (0.0, Verdict::DoesNotHold),
            (0.048, Verdict::Inconclusive),
            (-0.052, Verdict::Inconclusive),
        ] {
            assert_eq!(finding(value).verdict, Some(expected), "{value}");
        }
        let says = finding(-0.3).says;
        assert!(
            says.contains("at most −5 %") && says.contains("or at least 5 %"),
            "{says}"
        );
    }

    #[test]
    fn a_finding_says_the_statistic_the_figure_and_the_rule() {
        let claim = crate::claim("process-create-destroy-over-10x-thread").unwrap();
        let finding = decide(
            claim,
            "ratio",
            &ratio(vec![7.0, 7.1, 7.2, 7.3, 7.4, 7.5, 7.6]),
            0.05,
        );
        assert_eq!(
            finding.says,
            "Time to make and end a process / a thread, of 100,000 each: 7.30 [7.10, 7.50] here; the rule asks for at least 10."
        );
        assert_eq!(finding.verdict, Some(Verdict::DoesNotHold));
    }

    #[test]
    fn too_few_rounds_give_a_figure_no_verdict_and_the_number_that_the_level_needs() {
        // One look, three and four.
        for (alpha, needed) in [(0.05, 6), (0.0221, 7), (0.0182, 7)] {
            for rounds in [needed - 1, needed] {
                let error = Error::of_a_look(alpha);
                let one = Evidence::Rounds(around(0.3, rounds));
                let cells = Evidence::Each {
                    quote: Quote::Largest,
                    cells: vec![("a cell".to_owned(), around(0.3, rounds))],
                };
                let says = [
                    format!("{needed} rounds are needed for an interval, and there are {rounds}"),
                    format!("a cell has fewer than {needed} rounds and so no interval"),
                ];
                for (evidence, says) in [one, cells].into_iter().zip(says) {
                    let judgement = judge(&evidence, "ratio", AT_MOST_60_PERCENT, error);
                    assert!(judgement.measured.is_some());
                    let lacks = judgement.reason.as_ref() == Some(&says);
                    assert_eq!(lacks, rounds < needed, "{alpha}, {rounds}: {judgement:?}");
                    assert_eq!(judgement.verdict == Verdict::Inconclusive, lacks);
                }
            }
        }
    }

    #[test]
    fn a_ratio_is_judged_by_its_signed_rank_interval() {
        let range = Range {
            min: 10.0,
            max: f64::INFINITY,
        };
        let judgement = judge(&ratio(around(12.0, 7).values()), "ratio", range, ALPHA);
        assert_eq!(judgement.verdict, Verdict::Holds);
        assert!((judgement.measured.unwrap() - 12.036).abs() < 0.01);
    }

    /// Overheads of 0.1, the last of `last`.
    fn overheads(cells: usize, last: f64, n: usize, estimator: Estimator) -> Evidence {
        let cell = |i: usize| {
            let value = if i + 1 == cells { last } else { 0.1 };
            (format!("N={i}"), rounds(around(value, n).values(), estimator))
        };
        Evidence::Each {
            quote: Quote::Largest,
            cells: (0..cells).map(cell).collect(),
        }
    }

    const OVERHEAD: Estimator = Estimator::Ratio {
        scale: 1.0,
        shift: -1.0,
    };

    #[test]
    fn one_cell_outside_overturns_all_at_seven_rounds_and_the_third_of_three_looks() {
        let judgement = judge(
            &overheads(25, 4.0, 7, OVERHEAD),
            "ratio",
            AT_MOST_60_PERCENT,
            OF_THREE,
        );
        assert_eq!(judgement.verdict, Verdict::DoesNotHold);
        assert!(judgement.reason.unwrap().starts_with("N=24"));
        assert!(judgement.measured.unwrap() > 3.9);
        let below = judge(
            &overheads(25, -0.5, 7, OVERHEAD),
            "ratio",
            AT_MOST_60_PERCENT,
            OF_THREE,
        );
        assert_eq!(below.verdict, Verdict::DoesNotHold);
    }

    #[test]
    fn what_has_no_symmetric_scale_needs_the_rounds_that_holm_does() {
        let cells = |n| overheads(25, 4.0, n, Estimator::Median);
        let few = judge(&cells(7), "ratio", AT_MOST_60_PERCENT, ALPHA);
        assert_eq!(few.verdict, Verdict::Inconclusive);
        assert!(few.reason.unwrap().contains("10 would suffice"));
        let enough = judge(&cells(10), "ratio", AT_MOST_60_PERCENT, ALPHA);
        assert_eq!(enough.verdict, Verdict::DoesNotHold);
        assert!(enough.reason.unwrap().starts_with("N=24"));
    }

    #[test]
    fn the_rounds_that_would_suffice_are_more_than_there_are() {
        // Twelve rounds of one cell that lies outside by itself, and not in every round; another is inside.
        let values = [0.9, 1.1, 0.95, 1.05, 1.0, 0.97, 1.2, 1.03, 1.02, 0.99, 0.55, 1.1];
        let cells = vec![
            ("N=0".to_owned(), around(0.1, 12)),
            ("N=1".to_owned(), rounds(values, Estimator::Median)),
        ];
        let quote = Quote::Largest;
        // What is left for one of so many conditions.
        let error = OF_THREE.shared_by(4);
        let judged = judge(
            &Evidence::Each { quote, cells },
            "ratio",
            AT_MOST_60_PERCENT,
            error,
        );
        assert_eq!(judged.verdict, Verdict::Inconclusive);
        let reason = judged.reason.unwrap();
        assert!(
            reason.starts_with("N=1") && reason.contains("lies outside by itself"),
            "{reason}"
        );
        assert!(!reason.contains("would suffice"), "{reason}");
        assert!(
            reason.contains("its 12 rounds do not agree enough to exclude chance"),
            "{reason}"
        );
    }

    #[test]
    fn cells_inside_do_not_lend_their_certainty_to_one_outside() {
        for estimator in [Estimator::Median, OVERHEAD] {
            let Evidence::Each { quote, mut cells } = overheads(25, 4.0, 10, estimator) else {
                panic!();
            };
            cells[24].1.by_round.extend((1..=4).map(|round| (round, 0.1)));
            let evidence = Evidence::Each { quote, cells };
            assert_eq!(
                judge(&evidence, "ratio", AT_MOST_60_PERCENT, OF_THREE).verdict,
                Verdict::Inconclusive
            );
        }
    }

    #[test]
    fn every_cell_inside_holds_and_quotes_the_extreme() {
        let evidence = Evidence::Each {
            quote: Quote::Smallest,
            cells: vec![("a".to_owned(), around(0.2, 7)), ("b".to_owned(), around(0.1, 7))],
        };
        let judgement = judge(&evidence, "ratio", AT_MOST_60_PERCENT, ALPHA);
        assert_eq!(judgement.verdict, Verdict::Holds);
        assert!(judgement.measured.unwrap() < 0.11);
    }

    #[test]
    fn a_condition_that_fails_overturns_and_an_open_one_weakens() {
        let with = |condition: f64| Evidence::With {
            main: Box::new(Evidence::Rounds(around(0.3, 7))),
            also: vec![Condition {
                says: "the step is the largest".to_owned(),
                rule: Range::at_least(1.0).of("ratio"),
                evidence: Evidence::Rounds(around(condition, 7)),
            }],
        };
        let verdict = |condition| judge(&with(condition), "ratio", AT_MOST_60_PERCENT, ALPHA).verdict;
        assert_eq!(verdict(1.5), Verdict::Holds);
        assert_eq!(verdict(0.5), Verdict::DoesNotHold);
        assert_eq!(verdict(0.998), Verdict::Inconclusive);
    }

    /// Two tests that can each refute a claim would refute a true one nearly twice as often.
    #[test]
    fn a_claim_and_its_condition_share_the_error() {
        let outside = Evidence::Rounds(around(0.7, 7));
        assert_eq!(
            judge(&outside, "ratio", AT_MOST_60_PERCENT, OF_THREE).verdict,
            Verdict::DoesNotHold
        );
        let with = |main, also| {
            let also = vec![Condition {
                says: "the step is the largest".to_owned(),
                rule: Range::at_least(1.0).of("ratio"),
                evidence: Evidence::Rounds(also),
            }];
            let main = Box::new(Evidence::Rounds(main));
            judge(
                &Evidence::With { main, also },
                "ratio",
                AT_MOST_60_PERCENT,
                OF_THREE,
            )
            .verdict
        };
        assert_eq!(with(around(0.7, 7), around(1.5, 7)), Verdict::Inconclusive);
        assert_eq!(with(around(0.3, 7), around(0.5, 7)), Verdict::Inconclusive);
        assert_eq!(with(around(0.3, 7), around(1.5, 7)), Verdict::Holds);
        assert_eq!(with(around(0.7, 10), around(1.5, 10)), Verdict::DoesNotHold);
    }

    #[test]
    fn disturbed_rounds_decide_less() {
        const AT_LEAST_2: Range = Range::at_least(2.0);
        for (value, range, alike, expected) in [
            (0.3, AT_MOST_60_PERCENT, true, Verdict::Inconclusive),
            (0.3, Range { min: 0.0, max: 0.6 }, true, Verdict::Holds),
            (0.7, AT_MOST_60_PERCENT, true, Verdict::DoesNotHold),
            (0.7, AT_MOST_60_PERCENT, false, Verdict::Inconclusive),
            (3.0, AT_LEAST_2, true, Verdict::Holds),
            (3.0, AT_LEAST_2, false, Verdict::Inconclusive),
            (1.0, AT_LEAST_2, true, Verdict::DoesNotHold),
        ] {
            let evidence = Evidence::Disturbed {
                evidence: Box::new(Evidence::Rounds(around(value, 7))),
                alike,
            };
            let judged = judge(&evidence, "ratio", range, Error::of_a_look(0.05));
            assert_eq!(judged.verdict, expected, "{value} {range:?} alike {alike}");
        }
    }

    #[test]
    fn missing_cells_and_missing_preconditions_say_why() {
        for (of, expected) in [
            (Need::Profile, Verdict::NotMeasured),
            (Need::Memory, Verdict::NotMeasured),
            (Need::Figures, Verdict::Inconclusive),
            (Need::Cpus, Verdict::NotTestable),
            (Need::Program, Verdict::NotTestable),
            (Need::System, Verdict::NotTestable),
        ] {
            let evidence = Lack::new(of, "needs 5000").into();
            let judgement = judge(&evidence, "ratio", AT_MOST_60_PERCENT, ALPHA);
            let (verdict, reason) = (judgement.verdict, judgement.reason);
            assert_eq!((verdict, reason.as_deref()), (expected, Some("needs 5000")));
        }
    }

    #[test]
    fn a_condition_without_cells_leaves_the_claim_open_and_says_who_has_them() {
        let lack = || Lack::new(Need::Profile, "`threadgauge run create --profile paper` has it");
        let with = |main: Evidence, besides: Evidence| Evidence::With {
            main: Box::new(main),
            also: vec![Condition {
                says: "the step is the largest".to_owned(),
                rule: Range::at_least(1.0).of("ratio"),
                evidence: besides,
            }],
        };
        let judged = |evidence| judge(&evidence, "ratio", AT_MOST_60_PERCENT, ALPHA);
        let rounds = || Evidence::Rounds(around(0.3, 7));
        let open = judged(with(rounds(), lack().into()));
        assert_eq!(open.verdict, Verdict::Inconclusive);
        let reason = "open whether the step is the largest: `threadgauge run create --profile paper` has it";
        assert_eq!(open.reason.as_deref(), Some(reason));
        assert_eq!(
            judged(with(lack().into(), rounds())).verdict,
            Verdict::NotMeasured
        );
    }
    #[test]
    fn a_conditions_figure_is_in_its_unit_with_why_it_is_open() {
        let with = |value: f64, n: usize| {
            let evidence = Evidence::With {
                main: Box::new(Evidence::Rounds(around(0.3, 7))),
                also: vec![Condition {
                    says: "both kinds of work break even".to_owned(),
                    rule: Range { min: 8.0, max: 11.0 }.of("computations"),
                    evidence: Evidence::Rounds(around(value, n)),
                }],
            };
            judge(&evidence, "ratio", AT_MOST_60_PERCENT, ALPHA)
                .reason
                .unwrap()
        };
        assert_eq!(
            with(14.0, 7),
            "it is not so that both kinds of work break even (14.0 [14.0, 14.1] computations)"
        );
        assert_eq!(
            with(9.0, 3),
            "open whether both kinds of work break even (9.01 computations): 6 rounds are needed for an interval, and \
             there are 3"
        );
    }

    #[test]
    fn a_claim_and_its_condition_that_are_both_open_both_say_why() {
        let evidence = Evidence::With {
            main: Box::new(Evidence::Rounds(around(0.599, 7))),
            also: vec![Condition {
                says: "the step is the largest".to_owned(),
                rule: Range::at_least(1.0).of("ratio"),
                evidence: Lack::new(Need::Figures, "no round of it was measured").into(),
            }],
        };
        let judged = judge(&evidence, "ratio", AT_MOST_60_PERCENT, ALPHA);
        assert_eq!(judged.verdict, Verdict::Inconclusive);
        assert_eq!(
            judged.reason.as_deref(),
            Some(
                "the interval lies across the edge of the rule; more rounds would narrow it; open whether the step is the \
                 largest: no round of it was measured"
            )
        );
    }

    #[test]
    fn a_finding_has_what_was_published_in_words_and_as_one_number() {
        let evidence = ratio(vec![7.0, 7.1, 7.2, 7.3, 7.4, 7.5, 7.6]);
        let mut claim = crate::claim("process-create-destroy-over-10x-thread")
            .unwrap()
            .clone();
        let published = |claim: &Claim| {
            let finding = decide(claim, "ratio", &evidence, 0.05);
            (finding.published_text, finding.published)
        };
        assert_eq!(
            published(&claim),
            (Some("8.684 s / 0.661 s".to_owned()), Some(13.14))
        );
        claim.published_statistic_low = Some(12.14);
        assert_eq!(published(&claim).1, Some(12.64));
        claim.published_value.clear();
        claim.published_statistic_high = None;
        assert_eq!(published(&claim), (None, None));
    }

    #[test]
    fn what_a_rule_asks_for_is_said_with_its_unit() {
        let mut claim = crate::claim("process-create-destroy-over-10x-thread")
            .unwrap()
            .clone();
        assert_eq!(rule(&claim), "at least 10");
        claim.holds_max = Some(20.0);
        let both = rule(&claim);
        assert!(both.contains("10") && both.contains("20"), "{both}");
        claim.holds_max = Some(10.0);
        assert_eq!(rule(&claim), "10");
        claim.holds_min = None;
        assert_eq!(rule(&claim), "at most 10");
        claim.holds_max = None;
        assert_eq!(rule(&claim), "any value");
    }

    #[test]
    fn an_interval_that_ends_at_the_edge_is_open_where_nothing_else_is_inside() {
        let range = Range { min: 1.0, max: 2.0 };
        for (ci, expected) in [
            ([0.5, 0.9], Verdict::DoesNotHold),
            ([0.5, 1.0], Verdict::Inconclusive),
            ([1.0, 2.0], Verdict::Holds),
            ([2.0, 2.5], Verdict::Inconclusive),
            ([2.1, 2.5], Verdict::DoesNotHold),
        ] {
            assert_eq!(place(ci, range).verdict, expected, "{ci:?}");
        }
    }

    #[test]
    fn an_estimate_of_a_run_is_judged_by_the_interval_that_it_has() {
        let judged = |ci95| {
            let evidence = Evidence::Estimate { value: 0.31, ci95 };
            judge(&evidence, "ratio", AT_MOST_60_PERCENT, ALPHA)
        };
        let ci95 = Some([0.3, 0.4]);
        let (holds, open) = (judged(ci95), judged(None));
        assert_eq!(
            (holds.verdict, holds.measured, holds.ci95, holds.reason),
            (Verdict::Holds, Some(0.31), ci95, None)
        );
        assert_eq!(
            (open.verdict, open.measured, open.ci95),
            (Verdict::Inconclusive, Some(0.31), None)
        );
        assert_eq!(open.reason.as_deref(), Some("too few rounds for an interval"));
    }

    #[test]
    fn what_disturbed_rounds_leave_open_says_why() {
        let evidence = Evidence::Disturbed {
            evidence: Box::new(Evidence::Rounds(around(0.3, 7))),
            alike: true,
        };
        let judged = judge(&evidence, "ratio", AT_MOST_60_PERCENT, ALPHA);
        let says = "disturbed rounds do not confirm a rule with two bounds";
        assert_eq!(judged.reason.as_deref(), Some(says));
    }

    /// These cells of a rule that asks for at most 0.6, each with its rounds.
    fn of_these(cells: Vec<Rounds>, range: Range, error: Error) -> Judgement {
        let named = cells.into_iter().enumerate();
        let cells: Vec<_> = named.map(|(i, cell)| (format!("N={i}"), cell)).collect();
        let quote = Quote::Largest;
        judge(&Evidence::Each { quote, cells }, "ratio", range, error)
    }

    #[test]
    fn cells_are_open_where_one_has_no_figures_and_where_one_lies_across() {
        let says = |cells| {
            let judged = of_these(cells, AT_MOST_60_PERCENT, ALPHA);
            assert_eq!(judged.verdict, Verdict::Inconclusive);
            judged.reason.unwrap()
        };
        let none = || rounds([], Estimator::Median);
        assert_eq!(says(vec![around(0.3, 7), none()]), "a cell has no figures");
        assert_eq!(says(vec![]), "a cell has no figures");
        let across = says(vec![around(0.3, 7), around(0.599, 7), around(0.2, 7)]);
        assert!(
            across.starts_with("N=1: ")
                && across.ends_with(
                    " lies across the edge of the rule; 2 of 3 cases satisfy the rule, and the others are open"
                ),
            "{across}"
        );
    }

    #[test]
    fn as_many_rounds_as_would_suffice_do_not_where_they_disagree() {
        // The level of two cells, one of which lies inside, wants seven rounds.
        let error = Error {
            interval: 0.05,
            refuting: 2.0 * 2.0 * 0.5_f64.powi(7),
        };
        assert_eq!(rounds_for(2, error.refuting), 7);
        let values = [0.55, 0.9, 1.1, 0.95, 1.05, 1.0, 0.97];
        let error_of_intervals = Error {
            interval: 0.2,
            ..error
        };
        let outside = rounds(values, Estimator::Median);
        let judged = of_these(
            vec![around(0.1, 7), outside],
            AT_MOST_60_PERCENT,
            error_of_intervals,
        );
        assert_eq!(
            judged.reason.unwrap().split_once(" judged at once ").unwrap().1,
            "its 7 rounds do not agree enough to exclude chance; 1 of 2 cases satisfy the rule; outside of it: N=1"
        );
    }

    #[test]
    fn where_cells_do_not_agree_it_is_said_which_contradict_the_claim() {
        let reason = |values: &[f64]| {
            let cells = values.iter().map(|&value| around(value, 14)).collect();
            let judged = of_these(cells, AT_MOST_60_PERCENT, ALPHA);
            assert_eq!(judged.verdict, Verdict::DoesNotHold, "{values:?}");
            judged.reason.unwrap()
        };
        let one = reason(&[0.1, 0.9, 0.2]);
        assert!(
            one.starts_with("N=1: 0.91 [")
                && one.ends_with("; 2 of 3 cases satisfy the rule; outside of it: N=1"),
            "{one}"
        );
        let many = reason(&[0.9, 0.1, 0.8, 0.95, 0.85]);
        let says = "; 1 of 5 cases satisfy the rule; outside of it: N=0; N=2; N=3; and 1 more";
        assert!(many.ends_with(says), "{many}");
        // Where all do, the clearest one says it.
        let all = reason(&[0.9, 0.8]);
        assert!(!all.contains("confirmed"), "{all}");
        assert!(!reason(&[0.9]).contains("confirmed"));
    }

    #[test]
    fn each_edge_of_a_rule_has_half_of_the_error() {
        // Of seven rounds that are all beyond it, chance has a 128th.
        let verdict = |refuting| {
            let error = Error {
                interval: 0.05,
                refuting,
            };
            of_these(
                vec![rounds(around(0.8, 7).values(), OVERHEAD)],
                AT_MOST_60_PERCENT,
                error,
            )
            .verdict
        };
        assert_eq!(verdict(1.9 / 128.0), Verdict::Inconclusive);
        assert_eq!(verdict(2.1 / 128.0), Verdict::DoesNotHold);
    }

    #[test]
    fn a_round_lies_beyond_an_edge_by_the_distance_on_a_symmetric_scale() {
        let values = rounds([2.0, 8.0], Estimator::RATIO);
        let upper = Edge::Upper(4.0).distances(&values).unwrap();
        let lower = Edge::Lower(4.0).distances(&values).unwrap();
        for (round, distance) in [(1, -2.0_f64.ln()), (2, 2.0_f64.ln())] {
            assert!((upper[&round] - distance).abs() < 1e-12, "{upper:?}");
            assert!((lower[&round] + distance).abs() < 1e-12, "{lower:?}");
        }
        assert_eq!(Edge::Upper(4.0).beyond(5.5), 1.5);
        assert_eq!(Edge::Lower(4.0).beyond(5.5), -1.5);
    }

    #[test]
    fn a_condition_that_fails_refutes_what_is_open_unless_the_claim_itself_has_no_figures() {
        let with = |main: Evidence| Evidence::With {
            main: Box::new(main),
            also: vec![Condition {
                says: "the step is the largest".to_owned(),
                rule: Range::at_least(1.0).of("ratio"),
                evidence: Evidence::Rounds(around(0.5, 10)),
            }],
        };
        let judged = |main| judge(&with(main), "ratio", AT_MOST_60_PERCENT, ALPHA);
        let open = judged(Evidence::Rounds(around(0.599, 10)));
        assert_eq!(open.verdict, Verdict::DoesNotHold);
        let lacking = judged(Lack::new(Need::Figures, "no round of it was measured").into());
        assert_eq!(lacking.verdict, Verdict::Inconclusive);
        assert_eq!(lacking.reason.as_deref(), Some("no round of it was measured"));
    }
}
