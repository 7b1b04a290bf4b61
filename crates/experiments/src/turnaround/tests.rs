//! What theory, and machines that depart from it, decide; and what is drawn of them.

use threadgauge_lab::prelude::*;
use threadgauge_lab::testing;
use threadgauge_machine::Switches;
use threadgauge_results::{Evidence, Figure, Verdict, claim, decide};

use super::EXPERIMENT;
use super::case::{Carrier, Case, Kind, Mode};
use super::claims::{claims, held_on_one};
use super::grid::OTHER_CARRIERS;
use super::measure::{Measured, Record};
use super::reading::read;
use super::testing::{Made, as_in_theory, run, run_of, theory};
use super::write_down;

fn evidence(view: &View<'_>, id: &str) -> Evidence {
    let (_, test) = claims(view).into_iter().find(|(of, _)| *of == id).unwrap();
    test.evidence(view, claim(id).unwrap())
}

fn judged(view: &View<'_>, id: &str) -> (Verdict, Option<f64>, String) {
    let claim = claim(id).unwrap();
    let finding = decide(claim, &claim.unit, &evidence(view, id), 0.05);
    (
        finding.verdict.unwrap(),
        finding.measured,
        finding.reason.unwrap_or_default(),
    )
}

fn verdict(view: &View<'_>, id: &str) -> Verdict {
    judged(view, id).0
}

use Verdict::{DoesNotHold, Holds, Inconclusive, NotMeasured, NotTestable};

/// Threads cost 50 µs each.
fn paper() -> View<'static> {
    as_in_theory(Profile::Paper, 12, 2, 50_000.0)
}

#[test]
fn theory_decides_all_claims_of_the_paper_profile() {
    let view = paper();
    let expected = [
        ("cpu-concurrent-never-faster-on-one-cpu", Holds),
        ("short-cpu-concurrent-10pct-slower", DoesNotHold),
        ("long-cpu-elapsed-converges", Holds),
        ("long-cpu-turnaround-gain-up-to-50pct", Holds),
        ("short-cpu-serial-better-turnaround", DoesNotHold),
        ("equal-lengths-serial-better-turnaround", Holds),
        ("ascending-serial-beats-concurrent", Holds),
        ("descending-is-worst-serial-order", Holds),
        ("concurrent-turnaround-ignores-order", Holds),
        ("cpu-concurrent-faster-on-smp", Holds),
        ("io-overhead-fixed-and-small", Holds),
        ("long-io-serial-concurrent-difference-vanishes", DoesNotHold),
        ("short-break-even-at-ten-threads", DoesNotHold),
        ("short-work-gains-nothing-from-threads", DoesNotHold),
        ("short-work-has-large-create-overhead", DoesNotHold),
        ("one-background-thread-for-cpu-work", DoesNotHold),
        ("long-finalizer-delays-run", Holds),
        ("long-work-same-on-both-systems", NotTestable),
        ("short-concurrent-io-differs-between-systems", NotTestable),
    ];
    for (id, expected) in expected {
        let (verdict, measured, reason) = judged(&view, id);
        assert_eq!(verdict, expected, "{id}: {measured:?} {reason}");
    }
    // The largest gain is that of 17 computations, by arithmetic.
    let gain = judged(&view, "long-cpu-turnaround-gain-up-to-50pct").1.unwrap();
    assert!((gain - 0.518).abs() < 0.001, "{gain}");
}

#[test]
fn on_one_cpu_alone_dependencies_cost_nothing_and_on_two_they_do() {
    let (verdict, measured, reason) = judged(&paper(), "dependencies-hurt-only-concurrent");
    assert_eq!(verdict, DoesNotHold, "{measured:?} {reason}");
    assert!(
        (measured.unwrap() - 1.0).abs() < 0.01 && reason.contains("cpus=1"),
        "{reason}"
    );
    let evidence = evidence(&paper(), "dependencies-hurt-only-concurrent");
    let Evidence::With { main, .. } = evidence else {
        panic!("{evidence:?}")
    };
    let Evidence::Each { cells, .. } = *main else {
        panic!("{main:?}")
    };
    let on_two = cells.iter().find(|(name, _)| name.contains("cpus=2")).unwrap();
    // 360 ms of work, of which the two longest run together by theory: 185 ms.
    assert!((on_two.1.values()[0] - 1.944).abs() < 0.001, "{cells:?}");
}

#[test]
fn a_dear_thread_contradicts_what_theory_says() {
    // A fifth of each run: as dear as on the source's machine, and more.
    let view = run(Profile::Standard, 12, 2, |case| {
        let (elapsed_ns, turnaround) = theory(case);
        let price = if case.mode == Mode::Concurrent { 1.2 } else { 1.0 };
        Some(Made {
            elapsed_ns: elapsed_ns * price,
            turnaround: turnaround * price,
        })
    });
    assert_eq!(verdict(&view, "short-work-has-large-create-overhead"), Holds);
    assert_eq!(verdict(&view, "short-cpu-concurrent-10pct-slower"), DoesNotHold);
    // 1.2 × 1.75 / 2 is above 1 at two computations and falls with their number.
    let (verdict, smallest, _) = judged(&view, "short-break-even-at-ten-threads");
    assert_eq!((verdict, smallest), (DoesNotHold, Some(2.0)));
}

#[test]
fn claims_are_judged_on_the_sources_executor_whatever_others_cost() {
    let dear = |dear: Carrier| {
        run(Profile::Standard, 12, 2, |case| {
            let (elapsed_ns, turnaround) = theory(case);
            let price = if case.carrier == dear { 1.2 } else { 1.0 };
            Some(Made {
                elapsed_ns: elapsed_ns * price,
                turnaround: turnaround * price,
            })
        })
    };
    let id = "short-work-has-large-create-overhead";
    for carrier in OTHER_CARRIERS {
        assert_eq!(verdict(&dear(carrier), id), DoesNotHold, "{carrier:?}");
    }
    assert_eq!(verdict(&dear(Carrier::UpFront), id), Holds);
}

#[test]
fn quick_decides_what_its_cells_can_and_names_what_is_missing() {
    let view = as_in_theory(Profile::Quick, 7, 2, 50_000.0);
    for (id, expected) in [
        ("short-cpu-concurrent-10pct-slower", DoesNotHold),
        ("short-cpu-serial-better-turnaround", DoesNotHold),
        ("equal-lengths-serial-better-turnaround", Holds),
        ("ascending-serial-beats-concurrent", Holds),
        ("descending-is-worst-serial-order", Holds),
        ("concurrent-turnaround-ignores-order", Holds),
        ("short-work-gains-nothing-from-threads", DoesNotHold),
        ("short-break-even-at-ten-threads", DoesNotHold),
        ("long-finalizer-delays-run", Holds),
        ("one-background-thread-for-cpu-work", DoesNotHold),
    ] {
        let (verdict, measured, reason) = judged(&view, id);
        assert_eq!(verdict, expected, "{id}: {measured:?} {reason}");
    }
    for id in [
        "long-cpu-elapsed-converges",
        "long-cpu-turnaround-gain-up-to-50pct",
        "cpu-concurrent-faster-on-smp",
        "io-overhead-fixed-and-small",
        "long-io-serial-concurrent-difference-vanishes",
    ] {
        let (verdict, _, reason) = judged(&view, id);
        assert_eq!(verdict, NotMeasured, "{id}");
        let command = "`threadgauge run turnaround --profile paper --only base_ms=2430`";
        assert!(reason.contains(command), "{id}: {reason}");
    }
    for id in [
        "mixed-lengths-concurrent-better-turnaround",
        "one-cpu-conclusions-fail-on-smp",
    ] {
        let command = "`threadgauge run turnaround --profile standard`";
        assert!(judged(&view, id).2.contains(command), "{id}");
    }
}

#[test]
fn a_claim_about_all_cells_is_refuted_by_one_and_not_held_by_a_part() {
    let faster = run(Profile::Quick, 12, 1, |case| {
        let (elapsed_ns, turnaround) = theory(case);
        let odd = case == Case::serial(Kind::Cpu, 5, 10).concurrent();
        Some(Made {
            elapsed_ns: if odd { elapsed_ns / 2.0 } else { elapsed_ns },
            turnaround,
        })
    });
    assert_eq!(
        verdict(&faster, "cpu-concurrent-never-faster-on-one-cpu"),
        DoesNotHold
    );
    let (open, _, reason) = judged(
        &as_in_theory(Profile::Quick, 12, 1, 0.0),
        "cpu-concurrent-never-faster-on-one-cpu",
    );
    assert_eq!(open, Inconclusive);
    assert!(
        reason.contains("36 cells, of which this run measured 4; --profile paper"),
        "{reason}"
    );
}

#[test]
fn on_one_cpu_claims_about_several_are_not_testable() {
    let view = as_in_theory(Profile::Standard, 10, 1, 0.0);
    for id in [
        "cpu-concurrent-faster-on-smp",
        "one-cpu-conclusions-fail-on-smp",
        "one-background-thread-for-cpu-work",
    ] {
        let (verdict, _, reason) = judged(&view, id);
        assert_eq!(
            (verdict, reason.as_str()),
            (NotTestable, "needs 2 CPUs, this run has 1"),
            "{id}"
        );
    }
}

#[test]
fn with_too_few_rounds_nothing_is_decided() {
    let view = as_in_theory(Profile::Standard, 3, 2, 0.0);
    for (id, _) in claims(&view) {
        let verdict = verdict(&view, id);
        assert!(
            matches!(verdict, Inconclusive | NotMeasured | NotTestable),
            "{id}"
        );
    }
}

#[test]
fn conclusions_that_hold_on_one_cpu_are_counted_as_reversed_on_two() {
    let view = as_in_theory(Profile::Standard, 10, 2, 0.0);
    let held = held_on_one(&view, 2).unwrap();
    let on_two = |id| held.iter().find(|(of, _)| *of == id).map(|(_, verdict)| *verdict);
    // On two CPUs half the time is saved: 1 is never reached again, and the order still matters.
    assert_eq!(
        on_two("cpu-concurrent-never-faster-on-one-cpu"),
        Some(DoesNotHold)
    );
    assert_eq!(on_two("descending-is-worst-serial-order"), Some(Holds));
    // What does not hold on one CPU cannot be reversed.
    assert_eq!(on_two("short-cpu-concurrent-10pct-slower"), None);
    let Evidence::Estimate { value, ci95 } = evidence(&view, "one-cpu-conclusions-fail-on-smp") else {
        panic!();
    };
    let share = |of: fn(&Verdict) -> bool| {
        held.iter().filter(|(_, verdict)| of(verdict)).count() as f64 / held.len() as f64
    };
    let (reversed, not_held) = (share(|v| *v == DoesNotHold), share(|v| *v != Holds));
    assert_eq!((value, ci95), (reversed, Some([reversed, not_held])));
    assert!(reversed > 0.0 && not_held < 1.0, "{held:?}");
}

/// Claims across numbers of CPUs are never decided from disturbed rounds.
#[test]
fn conclusions_are_not_counted_as_reversed_where_any_is_from_disturbed_rounds() {
    let id = "one-cpu-conclusions-fail-on-smp";
    let disturbed = |cpus: u64| {
        let view = testing::changed(as_in_theory(Profile::Standard, 10, 2, 0.0), |cases| {
            let mut of_orders = cases.iter_mut().filter(|case| {
                let is = |name, value| case.params.get(name).is_some_and(|of| of.to_string() == value);
                is("order", "ascending") && is("count", "8") && case.params.int("cpus") == Some(cpus)
            });
            let case = of_orders.next().unwrap();
            case.values
                .values_mut()
                .for_each(|rounds| rounds.retain(|round, _| *round > 4));
        });
        View { fewest: 7, ..view }
    };
    for cpus in [1, 2] {
        let view = disturbed(cpus);
        let (verdict, measured, reason) = judged(&view, id);
        assert_eq!((verdict, measured), (Inconclusive, None), "{reason}");
        assert!(reason.contains("from disturbed rounds"), "{reason}");
        let facts = read(&view).facts;
        assert!(
            !facts
                .iter()
                .any(|fact| fact.says.contains("conclusions that hold on one CPU"))
        );
    }
}

/// A claim, the profile that measures it, how many runs are simulated, and the turnaround that makes it true.
type Truth<'a> = (&'a str, Profile, u32, &'a dyn Fn(Case) -> f64);

/// What folded noise into its statistic refuted itself, and so did what chose a count in each round.
#[test]
fn noise_alone_refutes_no_claim_about_equality() {
    let equal = |_| 5.0;
    // At once it is a little dearer below 8 computations, and from there on a little cheaper.
    let hardly_crossing = |case: Case| match (case.mode, case.count) {
        (Mode::Serial, _) => 5.0,
        (Mode::Concurrent, ..8) => 5.15,
        (Mode::Concurrent, _) => 4.85,
    };
    let truths: [Truth<'_>; 6] = [
        ("long-cpu-elapsed-converges", Profile::Paper, 60, &equal),
        (
            "concurrent-turnaround-ignores-order",
            Profile::Standard,
            100,
            &equal,
        ),
        (
            "short-work-gains-nothing-from-threads",
            Profile::Standard,
            100,
            &equal,
        ),
        ("descending-is-worst-serial-order", Profile::Standard, 100, &equal),
        ("short-break-even-at-ten-threads", Profile::Standard, 200, &equal),
        (
            "short-break-even-at-ten-threads",
            Profile::Standard,
            200,
            &hardly_crossing,
        ),
    ];
    for (id, profile, runs, turnaround) in truths {
        let view = run(profile, 1, 1, |case| {
            Some(Made {
                elapsed_ns: 1e8,
                turnaround: turnaround(case),
            })
        });
        let refuted = testing::times_said(DoesNotHold, &EXPERIMENT, id, &view, runs);
        assert!(
            refuted as f64 <= 0.055 * f64::from(runs),
            "{id}: {refuted} of {runs}"
        );
    }
}

fn charts_of(view: &View<'_>) -> Vec<Figure> {
    read(view).figures
}

fn chart(charts: &[Figure], id: &str) -> Figure {
    charts
        .iter()
        .find(|c| c.id == id)
        .unwrap_or_else(|| panic!("no chart {id}"))
        .clone()
}

#[test]
fn the_sources_eight_charts_and_ours_are_drawn_from_the_paper_profile() {
    let charts = charts_of(&as_in_theory(Profile::Paper, 7, 2, 0.0));
    for kind in ["cpu", "io"] {
        for base in [10, 2430] {
            for measure in ["elapsed", "turnaround"] {
                let chart = chart(&charts, &format!("{measure}-{kind}-{base}"));
                // At 10 ms also with threads made in their turn.
                assert_eq!(chart.series.len(), if base == 10 { 5 } else { 4 });
                assert!(chart.series.iter().all(|s| s.points.len() == 6));
            }
        }
    }
    let longest = &chart(&charts, "elapsed-cpu-2430").series[0].points[5];
    assert_eq!((longest.x, longest.y), (17.0, 153.0 * 2430.0));
    for id in ["over-ideal", "over-ideal-by-length", "mixes", "ways"] {
        chart(&charts, id);
    }
    for id in ["carriers-cpu", "carriers-io"] {
        assert_eq!(chart(&charts, id).series.len(), 4, "{id}");
    }
}

#[test]
fn a_sample_has_the_figures_of_its_computations() {
    let case = Case::serial(Kind::Io, 3, 10);
    let record = |length_ns: f64, ended_ns, finished_ns| Record {
        length_ns,
        started_ns: 0.0,
        ended_ns,
        finished_ns,
        cpu_ns: 1.0,
        ideal_ns: length_ns * 2.0,
    };
    let measured = Measured {
        elapsed_ns: 70.0,
        // They end in another order than they come.
        records: vec![
            record(30.0, 59.0, 60.0),
            record(20.0, 9.0, 10.0),
            record(10.0, 37.0, 40.0),
        ],
        cpu_ns: 5.0,
        switches: Switches::default(),
        most_running: 2,
    };
    let mut worker = testing::worker(&EXPERIMENT, &case.params());
    write_down(case, &measured, &mut worker);
    let sample = worker.finish(Ok(()));
    let figure = |name: &str| sample.value(name);
    for (name, value) in [
        ("elapsed_ns", 70.0),
        ("turnaround", (2.0 + 0.5 + 4.0) / 3.0),
        ("ideal_elapsed_ns", 60.0),
        ("ideal_turnaround", 2.0),
        ("mean_completion_ns", 110.0 / 3.0),
        ("finish_wait_ns", 5.0 / 3.0),
        ("cpu_ns", 5.0),
        ("computed_ns", 3.0),
        ("most_running", 2.0),
        ("turnaround_01", 2.0),
        ("turnaround_02", 0.5),
        ("turnaround_03", 4.0),
        ("finished_01", 10.0),
        ("finished_02", 40.0),
        ("finished_03", 60.0),
    ] {
        assert_eq!(figure(name), Some(value), "{name}");
    }
    assert_eq!((figure("finished_04"), figure("burner_error")), (None, None));
}

#[test]
fn each_sample_says_by_which_number_it_was_shuffled() {
    let case = Case::serial(Kind::Cpu, 2, 10).params();
    let said = testing::sample(&EXPERIMENT, &case).noise["order_seed"];
    assert_eq!(said, testing::SEED as f64);
}

#[test]
fn the_supermarket_shows_when_so_many_customers_have_left() {
    let charts = charts_of(&as_in_theory(Profile::Quick, 7, 2, 0.0));
    let chart = chart(&charts, "supermarket");
    assert_eq!(
        chart.title,
        "The supermarket: when 5 customers leave, by who is served first"
    );
    let line = |name: &str| -> Vec<(f64, f64)> {
        let line = chart.series.iter().find(|line| line.name == name).unwrap();
        line.points.iter().map(|point| (point.x, point.y)).collect()
    };
    let longest = [(1.0, 50.0), (2.0, 90.0), (3.0, 120.0), (4.0, 140.0), (5.0, 150.0)];
    let shortest = [(1.0, 10.0), (2.0, 30.0), (3.0, 60.0), (4.0, 100.0), (5.0, 150.0)];
    assert_eq!(line("one queue, the longest first"), longest);
    assert_eq!(line("one queue, the shortest first"), shortest);
    // All leave when they would, whoever comes first.
    assert_eq!(
        line("a counter for each, the longest first"),
        line("a counter for each, the shortest first")
    );
    assert_eq!(chart.series.len(), 6);
    let standard = charts_of(&as_in_theory(Profile::Standard, 7, 2, 0.0));
    assert!(
        self::chart(&standard, "supermarket")
            .title
            .contains("8 customers")
    );
}

#[test]
fn at_no_cost_nothing_is_over_theory() {
    let charts = charts_of(&as_in_theory(Profile::Standard, 7, 2, 0.0));
    let over = chart(&charts, "over-ideal");
    assert!(
        over.series
            .iter()
            .flat_map(|s| &s.points)
            .all(|p| p.y.abs() < 1e-9)
    );
    // Half of the computing computed at once on one CPU: the sleeping overlaps, theory says how much.
    let mixes = chart(&charts, "mixes");
    assert_eq!(mixes.series[0].points.len(), 7);
    assert_eq!(mixes.series[0].points[6].y, 1.0);
}

#[test]
fn what_was_not_measured_is_not_drawn() {
    let charts = charts_of(&as_in_theory(Profile::Quick, 7, 1, 0.0));
    assert!(
        charts.iter().all(|c| c.id != "mixes" && c.id != "ways"),
        "too few cells"
    );
    assert!(
        charts
            .iter()
            .all(|c| c.series.iter().all(|s| !s.points.is_empty()))
    );
    assert!(charts_of(&run(Profile::Quick, 7, 1, |_| None)).is_empty());
}

#[test]
fn the_table_is_the_sources_matrix() {
    let tables = read(&as_in_theory(Profile::Paper, 7, 1, 0.0)).tables;
    assert_eq!((tables.len(), tables[0].rows.len()), (2, 36));
    let last = tables[0].rows.last().unwrap();
    assert_eq!(last[..4], ["2430", "17", "372 s", "372 s"]);
    assert_eq!(last[4..], ["1.00", "27.0", "27.0", "13.0", "13.0"]);
}

/// Of values of the user's own, with threads that cost 50 µs each.
fn own(set: &str, rounds: usize) -> Answer {
    let view = run_of(set, "extra=none,cpus=1", rounds, |case| {
        let (elapsed_ns, turnaround) = theory(case);
        let cost_ns = if case.mode == Mode::Concurrent {
            50_000.0 * case.count as f64
        } else {
            0.0
        };
        Some(Made {
            elapsed_ns: elapsed_ns + cost_ns,
            turnaround: turnaround + cost_ns / 1e9,
        })
    });
    read(&view)
}

#[test]
fn what_a_user_has_set_is_answered_with_what_to_do() {
    let waiting = own("kind=io,count=3,9,base_ms=100,lengths=equal,order=descending", 8).answer;
    assert!(
        waiting.starts_with(
            "Run them at once: 9 I/O-bound computations of 100 ms each on one CPU, all at once, a thread each: elapsed time 8"
        ) && waiting.contains(" % less, mean turnaround ")
            && waiting.ends_with(" % less. The same is to be done with the other set."),
        "{waiting}"
    );
    let computing = own("kind=cpu,count=9,base_ms=100,lengths=equal,order=descending", 8).answer;
    assert!(
        computing.starts_with("Run them one after the other: "),
        "{computing}"
    );
    let alike = own(
        "kind=io,mix10,mix25,count=9,base_ms=100,lengths=equal,order=descending",
        8,
    )
    .answer;
    assert!(
        alike.ends_with(" % less. The same holds of 9 mixed (10 % CPU) and 9 mixed (25 % CPU) computations."),
        "{alike}"
    );
    assert_eq!(alike.matches("Run them").count(), 1, "{alike}");
    let differing = own("kind=cpu,count=9,base_ms=100,order=descending", 8).answer;
    assert!(
        differing.contains("if each result counts when it is there")
            && differing.ends_with(" The other set asks for something else: see the table of sets."),
        "{differing}"
    );
}

#[test]
fn what_a_user_has_set_has_a_table_and_charts_over_the_numbers_of_computations() {
    let answer = own(
        "kind=io,count=3,6,9,base_ms=100,lengths=equal,order=descending",
        8,
    );
    assert!(
        answer
            .answer
            .ends_with("The same is to be done with the 2 other sets."),
        "{}",
        answer.answer
    );
    let table = answer.tables.iter().find(|table| table.id == "own").unwrap();
    assert_eq!(table.rows.len(), 3);
    assert_eq!(
        table.rows[2][..5],
        ["io", "9", "of 100 ms each", "all at once, a thread each", "1"]
    );
    let figures: Vec<_> = answer
        .figures
        .iter()
        .filter(|figure| figure.id.starts_with("own-"))
        .collect();
    assert_eq!(
        figures.iter().map(|figure| &figure.id).collect::<Vec<_>>(),
        ["own-turnaround-1", "own-elapsed-1"]
    );
    let serial = &figures[1].series[0];
    assert_eq!(
        serial
            .points
            .iter()
            .map(|point| (point.x, point.y))
            .collect::<Vec<_>>(),
        [(3.0, 300.0), (6.0, 600.0), (9.0, 900.0)]
    );
    assert_eq!(figures[1].series.len(), 4);
    // What the profiles have is in the source's tables and charts already.
    let profiles = read(&as_in_theory(Profile::Quick, 8, 2, 50_000.0));
    assert!(profiles.tables.iter().all(|table| table.id != "own"));
}
