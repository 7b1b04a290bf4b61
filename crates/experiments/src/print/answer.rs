//! What the samples say: the answer, the evidence for each claim, facts, comparisons.

use threadgauge_results::{Evidence, Finding, Params};
use threadgauge_stats::bca;

use super::grid::{NEEDS_TWO_CPUS, Point, Series};
use super::reading::{Figured, Way, count, median_of, ratio_of};
use super::setting::{Buffering, Sink, Unit};
use super::statistics::{Shape, Statistic, Wanted, crossover, process_over_thread, shape_of};
use super::{CLAIMS, CPU, ELAPSED, READER_CPU, TORN, figures, tables};
use threadgauge_lab::compat::params;
use threadgauge_lab::experiment::{Answer, ClaimEvidence, Pair};
use threadgauge_lab::site::Profile;
use threadgauge_lab::view::View;

/// The sink that decides claims.
pub(super) const DECIDING: Way = Way::lines(Sink::Pipe);

/// Rounds from which a bootstrap may be used (METHOD rule 5).
const BOOTSTRAP_ROUNDS: usize = 20;
const RESAMPLES: usize = 10_000;
/// Any fixed number: the interval must be the same whenever a report is written again.
const BOOTSTRAP_SEED: u64 = 3;

pub(super) fn read(view: &View<'_>) -> Answer {
    let claims = CLAIMS.iter().map(|claim| {
        let (evidence, unit) = evidence_for(view, claim);
        ClaimEvidence {
            claim,
            unit,
            evidence,
        }
    });
    Answer {
        answer: answer(view),
        claims: claims.collect(),
        tests: Vec::new(),
        facts: facts(view),
        comparisons: comparisons(view),
        rankings: rankings(view),
        figures: figures::all(view),
        tables: tables::all(view),
    }
}

fn answer(view: &View<'_>) -> String {
    let ratio = |point: &Point| {
        let rounds = DECIDING.rounds(view, &process_over_thread(*point)).ok()?;
        ratio_of(&rounds)
    };
    let row: Vec<String> = DECIDING
        .row(view)
        .iter()
        .filter_map(|point| {
            let times = ratio(point)?.value;
            Some(format!(
                "{times:.2} times as long with {} lines each",
                count(point.prints)
            ))
        })
        .collect();
    let ends = match &row[..] {
        [] => None,
        [only] => Some(only.clone()),
        [first, .., last] => Some(format!("{first} and {last}")),
    };
    let Some(ends) = ends else {
        return "No count of lines has undisturbed figures for both processes and threads on one CPU into a pipe, so \
                there is no answer."
            .to_owned();
    };
    let level = lead(view, DECIDING).map_or_else(String::new, |lead| format!("; {}", lead.says));
    format!("Into a pipe on one CPU, 255 processes take {ends} as 255 threads{level}.")
}

fn evidence_for(view: &View<'_>, claim: &str) -> (Evidence, &'static str) {
    let Some((shape, unit)) = shape_of(claim) else {
        return (file_spread(view), "ratio");
    };
    let evidence = match &shape {
        Shape::Value(statistic) => decided_by(view, statistic, Evidence::Statistic),
        Shape::Ratio(statistic) => decided_by(view, statistic, Evidence::Ratio),
        Shape::Each(quote, cells) => {
            let rounds = cells.iter().map(|(name, statistic)| {
                let rounds = DECIDING.rounds(view, statistic);
                rounds.map(|rounds| (name.clone(), rounds))
            });
            match rounds.collect::<Result<Vec<_>, _>>() {
                Ok(cells) => Evidence::Cells { quote: *quote, cells },
                Err(error) => lacking(view, cells.iter().flat_map(|(_, s)| &s.cells), error),
            }
        }
    };
    (evidence, unit)
}

fn decided_by(view: &View<'_>, statistic: &Statistic, kind: fn(Vec<f64>) -> Evidence) -> Evidence {
    match DECIDING.rounds(view, statistic) {
        Ok(rounds) => kind(rounds),
        Err(error) => lacking(view, statistic.cells.iter(), error),
    }
}

/// Why a claim has no statistic: not testable where a CPU is missing, open otherwise.
fn lacking<'a>(view: &View<'_>, cells: impl Iterator<Item = &'a Wanted>, error: String) -> Evidence {
    let cells: Vec<&Wanted> = cells.collect();
    for wanted in &cells {
        let alone = view.by_round(&[DECIDING.cell(**wanted, ELAPSED)], |v| v[0]);
        if let Err(reason) = alone
            && reason.starts_with(NEEDS_TWO_CPUS)
        {
            return Evidence::NotTestable {
                reason,
                measured: None,
            };
        }
    }
    let longer = view.profile() == Profile::Quick && cells.iter().any(|(_, point)| point.prints > 1_000);
    Evidence::Missing(if longer {
        format!("{error}; its cells of 5,000 and 10,000 lines a unit are in --profile standard")
    } else {
        error
    })
}

/// The spread of the times into a file against that into the pipe, 255 units of 1,000 lines: the geometric mean
/// of both kinds' ratios.
fn file_spread(view: &View<'_>) -> Evidence {
    let point = Series::Prints.at(1_000);
    let ways = [Way::lines(Sink::File), DECIDING];
    let cells: Vec<_> = Unit::ALL
        .iter()
        .flat_map(|unit| ways.map(|way| way.cell((*unit, point), ELAPSED)))
        .collect();
    // By cell and then by round, with rounds that have all four.
    let columns: Result<Vec<Vec<f64>>, String> = (0..cells.len())
        .map(|column| view.by_round(&cells, |values| values[column]))
        .collect();
    let columns = match columns {
        Ok(columns) => columns,
        Err(error) => {
            return Evidence::Missing(format!(
                "{error}; its file, and the {BOOTSTRAP_ROUNDS} rounds that a ratio of two spreads needs, are in \
                 --profile standard"
            ));
        }
    };
    let n = columns.iter().map(Vec::len).min().unwrap_or_default();
    if n < BOOTSTRAP_ROUNDS {
        return Evidence::Missing(format!(
            "a ratio of two spreads needs {BOOTSTRAP_ROUNDS} rounds, this run has {n} (--rounds {BOOTSTRAP_ROUNDS})"
        ));
    }
    // The bootstrap draws rounds, not values: all four times of a round stay together.
    let rounds: Vec<f64> = (0..n).map(|round| round as f64).collect();
    let statistic = |drawn: &[f64]| {
        let spread = |column: &Vec<f64>| {
            let values: Vec<f64> = drawn.iter().map(|round| column[*round as usize]).collect();
            coefficient_of_variation(&values)
        };
        spread_ratio(&columns.iter().map(spread).collect::<Vec<_>>())
    };
    match bca(&rounds, statistic, 0.05, RESAMPLES, BOOTSTRAP_SEED) {
        Ok(estimate) => Evidence::Estimate {
            value: estimate.estimate,
            ci95: estimate.ci.map(|ci| [ci.low, ci.high]),
        },
        Err(error) => Evidence::Missing(format!("the ratio of two spreads cannot be estimated: {error}")),
    }
}

/// Of spreads in the order file, pipe, file, pipe.
fn spread_ratio(spreads: &[f64]) -> f64 {
    let logs: f64 = spreads.chunks_exact(2).map(|pair| (pair[0] / pair[1]).ln()).sum();
    (logs / (spreads.len() / 2) as f64).exp()
}

fn coefficient_of_variation(values: &[f64]) -> f64 {
    let summary = threadgauge_stats::summarise(values, 0.05);
    summary.ok().and_then(|s| s.cv).unwrap_or(f64::NAN)
}

/// Who finishes first, over the counts measured.
struct Lead {
    says: String,
    prints: Option<Figured>,
}

fn lead(view: &View<'_>, way: Way) -> Option<Lead> {
    let prints: Vec<u64> = way.row(view).iter().map(Point::x).collect();
    let (&[first, .., last], rounds) = (&prints[..], way.rounds(view, &crossover(&prints)).ok()?) else {
        return None;
    };
    let at = median_of(&rounds)?;
    let measured = format!("measured, {} to {} lines", count(first), count(last));
    Some(if at.value >= last as f64 {
        Lead {
            says: format!("threads finish first up to the largest count {measured}"),
            prints: None,
        }
    } else if at.value <= first as f64 {
        Lead {
            says: format!("processes finish first at every count {measured}"),
            prints: None,
        }
    } else {
        Lead {
            says: format!(
                "processes lead from about {} lines on",
                count(at.value.round() as u64)
            ),
            prints: Some(at),
        }
    })
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let lines = [Sink::Pipe, Sink::Null, Sink::Pty, Sink::File].map(Way::lines);
    let blocks = [Way::blocks(Sink::Pipe)];
    let ratios = lines[1..]
        .iter()
        .chain(&blocks)
        .filter_map(|way| ratios_of(view, *way));
    let leads = lines.iter().filter_map(|way| crossover_of(view, *way));
    let torn = Unit::ALL.iter().filter_map(|unit| torn(view, *unit));
    let blocks = Unit::ALL.iter().filter_map(|unit| saved_by_blocks(view, *unit));
    let reader = Unit::ALL.iter().filter_map(|unit| readers_share(view, *unit));
    leads
        .chain(ratios)
        .chain(torn)
        .chain(blocks)
        .chain(reader)
        .collect()
}

fn fact(says: String, figured: Option<Figured>, unit: &str) -> Finding {
    Finding::fact(says, figured.map(|f| f.value), figured.and_then(|f| f.ci95), unit)
}

fn crossover_of(view: &View<'_>, way: Way) -> Option<Finding> {
    let lead = lead(view, way)?;
    let says = format!(
        "255 units printing into {} on one CPU: {}.",
        way.says(),
        lead.says
    );
    Some(fact(says, lead.prints, "prints per unit"))
}

/// On sinks that decide nothing: process/thread at the fewest and the most lines.
fn ratios_of(view: &View<'_>, way: Way) -> Option<Finding> {
    let row = way.row(view);
    let ratio = |point: &Point| ratio_of(&way.rounds(view, &process_over_thread(*point)).ok()?);
    let last = row.last()?;
    let most = ratio(last)?;
    let fewest = row.first().filter(|first| *first != last).and_then(|first| {
        let fewest = ratio(first)?;
        Some(format!(
            "{:.2} with {} lines a unit and ",
            fewest.value,
            count(first.prints)
        ))
    });
    let says = format!(
        "Printing into {}, the ratio of 255 processes' time to 255 threads' is {}{:.2} with {} lines a unit.",
        way.says(),
        fewest.unwrap_or_default(),
        most.value,
        count(last.prints)
    );
    Some(fact(says, Some(most), "ratio"))
}

/// Torn lines where there are most: the largest count in blocks.
fn torn(view: &View<'_>, unit: Unit) -> Option<Finding> {
    let way = Way::blocks(Sink::Pipe);
    let point = *way.row(view).last()?;
    let summary = view.summary(&way.cell((unit, point), TORN))?;
    let figured = Figured {
        value: summary.median,
        ci95: summary.ci95,
    };
    let kind = kinds(unit);
    let lines = count(point.units * point.prints);
    let says = if summary.max > 0.0 {
        format!(
            "Of {lines} lines that 255 {kind} print into a pipe in blocks, {:.0} are torn.",
            summary.median
        )
    } else {
        format!("Of {lines} lines that 255 {kind} print into a pipe in blocks, none is torn.")
    };
    Some(fact(says, Some(figured), "lines"))
}

fn saved_by_blocks(view: &View<'_>, unit: Unit) -> Option<Finding> {
    let blocks = Way::blocks(Sink::Pipe);
    let point = *blocks.row(view).last()?;
    let cells = [DECIDING, blocks].map(|way| way.cell((unit, point), ELAPSED));
    let rounds = view.by_round(&cells, |t| t[0] / t[1]).ok()?;
    let ratio = ratio_of(&rounds)?;
    let says = format!(
        "A write a line takes 255 {} {:.2} times as long as blocks of 4,096 bytes into a pipe, {} lines each.",
        kinds(unit),
        ratio.value,
        count(point.prints)
    );
    Some(fact(says, Some(ratio), "ratio"))
}

fn readers_share(view: &View<'_>, unit: Unit) -> Option<Finding> {
    let point = *DECIDING.row(view).last()?;
    let cells = [READER_CPU, CPU].map(|metric| DECIDING.cell((unit, point), metric));
    let rounds = view.by_round(&cells, |cpu| cpu[0] / (cpu[0] + cpu[1])).ok()?;
    let share = median_of(&rounds)?;
    let says = format!(
        "Of the CPU time that 255 {} and their reader use for {} lines each, the reader of the pipe uses {:.0} %.",
        kinds(unit),
        count(point.prints),
        100.0 * share.value
    );
    Some(fact(says, Some(share), "share"))
}

const fn kinds(unit: Unit) -> &'static str {
    match unit {
        Unit::Process => "processes",
        Unit::Thread => "threads",
    }
}

/// Threads against processes in every cell; blocks against lines.
fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let all: Vec<&Params> = view.cases(&Params::new()).collect();
    let pair = |key: &str, from: &str, to: &str| {
        let cases = all.iter().filter(|case| case.text(key) == Some(from));
        let pairs = cases.filter_map(|case| {
            let b = Params::clone(case).with(key, to);
            all.contains(&&b).then(|| Pair {
                a: Params::clone(case),
                b,
            })
        });
        pairs.collect::<Vec<_>>()
    };
    let kinds = pair("unit", Unit::Process.name(), Unit::Thread.name());
    let writes = pair("buffering", Buffering::Line.name(), Buffering::Block.name());
    [kinds, writes].concat()
}

fn rankings(view: &View<'_>) -> Vec<(String, Vec<Params>)> {
    let same_work = params("units=255,prints=1000,payload_bytes=11,cpus=1");
    let cases: Vec<Params> = view.cases(&same_work).cloned().collect();
    if cases.len() < 2 {
        return Vec::new();
    }
    vec![(
        "255 units of 1,000 lines on one CPU, by sink and buffering".to_owned(),
        cases,
    )]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use threadgauge_lab::analysis::metric_summary;
    use threadgauge_machine::CpuList;
    use threadgauge_results::{MetricSummary, Quote, Verdict, claim, decide};
    use threadgauge_stats::summarise;

    use super::super::grid;
    use super::*;
    use threadgauge_lab::site::Site;
    use threadgauge_lab::view::ViewCase;

    /// Elapsed ns of a case, without noise.
    type Model = fn(&Params) -> f64;

    fn summary(unit: &str, rounds: &[f64]) -> MetricSummary {
        metric_summary(unit, summarise(rounds, 0.05).unwrap())
    }

    /// What a run would give if each case took what `model` says, with the same slight drift for all.
    fn view(profile: Profile, cpus: usize, rounds: u32, model: Model) -> View<'static> {
        let plan = grid::plan(&Site {
            profile,
            cpus: CpuList::new(0..cpus),
            free_memory_mib: 1_000,
        });
        let cases = plan.cases.into_iter().map(|case| {
            let mut values = BTreeMap::new();
            let mut summaries = BTreeMap::new();
            let blocks = case.params.text("buffering") == Some("block");
            let processes = case.params.text("unit") == Some("process");
            let torn = if blocks && processes { 51.0 } else { 0.0 };
            let metrics = [
                (ELAPSED, "ns", model(&case.params)),
                (TORN, "lines", torn),
                (CPU, "ns", 3.0),
                (READER_CPU, "ns", 1.0),
            ];
            if case.skip.is_none() {
                for (name, unit, value) in metrics {
                    let drift = |round: u32| 1.0 + 0.001 * f64::from(round);
                    let column: BTreeMap<u32, f64> = (0..rounds).map(|r| (r, value * drift(r))).collect();
                    let flat: Vec<f64> = column.values().copied().collect();
                    summaries.insert(name.to_owned(), summary(unit, &flat));
                    values.insert(name.to_owned(), column);
                }
            }
            ViewCase {
                params: case.params,
                lack: case.skip,
                values,
                summaries,
            }
        });
        threadgauge_lab::testing::view("print", profile, cases.collect())
    }

    /// A process costs 100 µs and 200 ns a line, a thread 30 µs and 300 ns: they meet at 700 lines.
    fn meeting_at_700(case: &Params) -> f64 {
        let (unit, line) = if case.text("unit") == Some("process") {
            (100_000.0, 200.0)
        } else {
            (30_000.0, 300.0)
        };
        let speed = if case.int("cpus") == Some(2) { 0.9 } else { 1.0 };
        let [units, prints] = ["units", "prints"].map(|key| case.int(key).unwrap() as f64);
        units * (unit + prints * line) * speed
    }

    fn verdict(answer: &Answer, id: &str) -> (Option<Verdict>, String) {
        let found = answer.claims.iter().find(|c| c.claim == id).unwrap();
        let finding = decide(claim(id).unwrap(), found.unit, &found.evidence, 0.05);
        (finding.verdict, finding.reason.unwrap_or_default())
    }

    #[test]
    fn a_machine_where_they_meet_at_700_lines_gets_the_verdicts_that_follow() {
        let answer = read(&view(Profile::Standard, 2, 20, meeting_at_700));
        for (id, expected) in [
            ("threads-10-to-100-times-faster", Verdict::DoesNotHold),
            ("small-jobs-threads-faster", Verdict::Holds),
            ("large-jobs-processes-faster", Verdict::Holds),
            ("print-crossover-near-600", Verdict::Holds),
            ("print-processes-and-threads-equally-fast", Verdict::DoesNotHold),
            ("thread-share-falls-with-unit-count", Verdict::DoesNotHold),
            ("run-time-linear-to-1000-units", Verdict::Holds),
            ("efficiency-collapses-past-600-units", Verdict::DoesNotHold),
            ("dual-core-doubles-small-jobs", Verdict::DoesNotHold),
            ("dual-core-no-gain-large-jobs", Verdict::Holds),
            ("file-logging-disturbs-timing", Verdict::DoesNotHold),
        ] {
            assert_eq!(
                verdict(&answer, id).0,
                Some(expected),
                "{id}: {}",
                verdict(&answer, id).1
            );
        }
        assert_eq!(
            answer.answer,
            "Into a pipe on one CPU, 255 processes take 3.21 times as long with 5 lines each and 0.69 times as long \
             with 10,000 lines each as 255 threads; processes lead from about 719 lines on."
        );
    }

    #[test]
    fn quick_leaves_open_what_it_has_no_cells_for_and_says_who_has() {
        let answer = read(&view(Profile::Quick, 2, 7, meeting_at_700));
        for id in [
            "threads-10-to-100-times-faster",
            "large-jobs-processes-faster",
            "print-crossover-near-600",
            "print-processes-and-threads-equally-fast",
            "linux-threads-not-faster-than-processes",
            "dual-core-no-gain-large-jobs",
        ] {
            let (verdict, reason) = verdict(&answer, id);
            assert_eq!(verdict, Some(Verdict::Inconclusive), "{id}");
            assert!(reason.contains("--profile standard"), "{id}: {reason}");
        }
        let (spread, reason) = verdict(&answer, "file-logging-disturbs-timing");
        assert_eq!(spread, Some(Verdict::Inconclusive));
        assert!(
            reason.contains("the 20 rounds that a ratio of two spreads needs"),
            "{reason}"
        );
        assert_eq!(
            verdict(&answer, "small-jobs-threads-faster").0,
            Some(Verdict::Holds)
        );
        assert_eq!(
            verdict(&answer, "run-time-linear-to-1000-units").0,
            Some(Verdict::Holds)
        );
    }

    #[test]
    fn one_cpu_cannot_test_what_needs_two() {
        let answer = read(&view(Profile::Standard, 1, 7, meeting_at_700));
        for id in ["dual-core-doubles-small-jobs", "dual-core-no-gain-large-jobs"] {
            let (verdict, reason) = verdict(&answer, id);
            assert_eq!(verdict, Some(Verdict::NotTestable), "{id}");
            assert_eq!(reason, "needs 2 CPUs, this run has 1");
        }
    }

    #[test]
    fn every_claim_is_answered_and_nothing_panics_with_next_to_nothing_measured() {
        let view = threadgauge_lab::testing::changed(view(Profile::Quick, 2, 2, meeting_at_700), |cases| {
            cases.retain(|c| c.params.int("prints") == Some(100) && c.params.text("unit") == Some("thread"));
        });
        let answer = read(&view);
        let ids: Vec<&str> = answer.claims.iter().map(|c| c.claim).collect();
        assert_eq!(ids, CLAIMS);
        assert!(
            answer
                .claims
                .iter()
                .all(|c| matches!(c.evidence, Evidence::Missing(_)))
        );
        assert!(answer.answer.contains("there is no answer"));
        assert!(
            answer
                .comparisons
                .iter()
                .all(|pair| pair.a.text("buffering") == Some("line"))
        );
        let view = threadgauge_lab::testing::changed(view, Vec::clear);
        assert!(read(&view).facts.is_empty());
    }

    #[test]
    fn comparisons_name_cases_that_exist_and_differ_in_one_parameter() {
        let view = view(Profile::Standard, 2, 7, meeting_at_700);
        let pairs = read(&view).comparisons;
        assert!(!pairs.is_empty());
        for pair in &pairs {
            for side in [&pair.a, &pair.b] {
                assert_eq!(view.cases(side).count(), 1, "{side}");
            }
            let differ = pair
                .a
                .iter()
                .filter(|(key, value)| pair.b.get(key) != Some(*value))
                .count();
            assert_eq!(differ, 1, "{} and {}", pair.a, pair.b);
        }
    }

    #[test]
    fn facts_tell_torn_lines_and_where_each_sink_crosses() {
        let says: Vec<String> = read(&view(Profile::Quick, 2, 7, meeting_at_700))
            .facts
            .into_iter()
            .map(|f| f.says)
            .collect();
        for expected in [
            "255 units printing into a pipe on one CPU: processes lead from about 719 lines on.",
            "Of 255,000 lines that 255 processes print into a pipe in blocks, 51 are torn.",
            "Of 255,000 lines that 255 threads print into a pipe in blocks, none is torn.",
            "A write a line takes 255 threads 1.00 times as long as blocks of 4,096 bytes into a pipe, 1,000 lines each.",
            "Of the CPU time that 255 processes and their reader use for 1,000 lines each, the reader of the pipe uses 25 %.",
            "Printing into /dev/null, the ratio of 255 processes' time to 255 threads' is 3.21 with 5 lines a unit and 0.91 \
             with 1,000 lines a unit.",
        ] {
            assert!(
                says.iter().any(|s| s == expected),
                "{expected}\nis not in\n{}",
                says.join("\n")
            );
        }
    }

    #[test]
    fn a_quick_run_draws_our_curves_beside_the_published_ones() {
        let answer = read(&view(Profile::Quick, 2, 7, meeting_at_700));
        let figures: BTreeMap<&str, Vec<(&str, usize)>> = answer
            .figures
            .iter()
            .map(|f| {
                (
                    f.id.as_str(),
                    f.series
                        .iter()
                        .map(|s| (s.name.as_str(), s.points.len()))
                        .collect(),
                )
            })
            .collect();
        assert_eq!(
            figures["ratio-by-prints"],
            [
                ("into a pipe", 6),
                ("into /dev/null", 6),
                ("source 003, on a console", 8)
            ]
        );
        assert_eq!(
            figures["time-by-units"]
                .iter()
                .map(|(_, n)| *n)
                .collect::<Vec<_>>(),
            [6; 5]
        );
        assert_eq!(
            figures["two-cpus"].iter().map(|(_, n)| *n).collect::<Vec<_>>(),
            [3, 3, 4, 4]
        );
        assert_eq!(figures["torn-lines"], [("into a pipe in blocks", 4)]);
        let torn = answer.figures.iter().find(|f| f.id == "torn-lines").unwrap();
        let dot = &torn.series[0].points[2];
        assert_eq!(dot.label.as_deref(), Some("process, 1,000 lines"));
        assert!((dot.y - 0.2).abs() < 0.01);
    }

    #[test]
    fn tables_keep_the_sources_rows_and_put_ours_beside() {
        let tables = read(&view(Profile::Quick, 2, 7, meeting_at_700)).tables;
        let rows: Vec<usize> = tables.iter().map(|t| t.rows.len()).collect();
        assert_eq!(rows, [16, 12, 6, 8]);
        for table in &tables {
            assert!(
                table.rows.iter().all(|row| row.len() == table.columns.len()),
                "{}",
                table.id
            );
        }
        // 5 prints, processes: published 0.070 s; ours 255 × 101 µs.
        let first = &tables[0].rows[0];
        assert_eq!(first[..2], ["5", "process"]);
        assert_eq!(first[7..10], ["0.070", "0.070", "25.8"]);
        assert_eq!(first[12], "1.435");
        assert_eq!(first[13], "3.206");
        // 10,000 prints are not in quick.
        assert_eq!(tables[0].rows[14][7..10], ["134.137", "134.127", ""]);
    }

    #[test]
    fn a_wider_spread_into_the_file_is_found_at_twenty_rounds() {
        let file = params("sink=file,prints=1000,units=255");
        let view =
            threadgauge_lab::testing::changed(view(Profile::Standard, 2, 20, meeting_at_700), |cases| {
                for case in cases.iter_mut().filter(|c| c.params.matches(&file)) {
                    for (round, value) in case.values.get_mut(ELAPSED).unwrap() {
                        // The same drift, four times as steep.
                        let drift = 0.001 * f64::from(*round);
                        *value = *value / (1.0 + drift) * (1.0 + 4.0 * drift);
                    }
                }
            });
        let answer = read(&view);
        assert_eq!(
            verdict(&answer, "file-logging-disturbs-timing").0,
            Some(Verdict::Holds)
        );
    }

    #[test]
    fn the_spread_ratio_is_the_geometric_mean_over_both_kinds() {
        assert!((spread_ratio(&[0.04, 0.01, 0.01, 0.01]) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn each_claim_quotes_a_cell_of_its_own_rule() {
        let answer = read(&view(Profile::Standard, 2, 7, meeting_at_700));
        let small = answer
            .claims
            .iter()
            .find(|c| c.claim == "small-jobs-threads-faster")
            .unwrap();
        let Evidence::Cells { quote, cells } = &small.evidence else {
            panic!("compares each count");
        };
        assert_eq!((*quote, cells.len()), (Quote::Smallest, 5));
        assert_eq!(cells[4].0, "500 prints");
    }
}
