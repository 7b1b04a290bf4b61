//! What is read off runs made by hand.

use threadgauge_lab::testing;
use threadgauge_results::{Verdict, decide};

use super::super::EXPERIMENT;
use super::super::case::{Load, NETWORK, plan};
use super::*;

/// All cases of a profile on so many CPUs, each with seven rounds of the figures that `of` gives.
fn view(profile: Profile, cpus: usize, of: impl Fn(Case) -> Vec<(Metric, f64)>) -> View<'static> {
    let cases = plan(&testing::site(profile, cpus)).cases;
    let case = |params: Params| {
        let figures = of(Case::possible(&params).unwrap());
        testing::case(
            params,
            figures
                .into_iter()
                .map(|(metric, value)| (metric, vec![value; 7])),
        )
    };
    let cases = cases.into_iter().map(|planned| case(planned.params));
    testing::view(EXPERIMENT.id, profile, cases.collect())
}

/// The source's machine: one reactor uses one CPU, a pool as many as it has reactors or the server CPUs.
fn as_published(case: Case) -> Vec<(Metric, f64)> {
    let is_two = case.readers > 0 || case.design == SPLIT.design;
    let ns = match (is_two, case.server_cpus) {
        (true, 2) if case.readers == 0 => 1_000.0 / 1.1,
        (true, cpus) => 1_000.0 / cpus as f64,
        _ => 1_000.0,
    };
    let (least, most) = if case.readers == 0 { (0.0, 1.0) } else { (1.0, 1.0) };
    vec![
        (TIME, ns),
        (CPU, 1_000.0),
        (LEAST_CPU, least),
        (MOST_CPU, most),
        (PENDING, if is_two { 2.0 } else { 1.0 }),
    ]
}

fn verdicts(view: &View<'_>) -> Vec<(&'static str, Verdict)> {
    let claims = read(view).claims.into_iter();
    claims
        .map(|(id, test)| (id, testing::verdict(&test, id, view).unwrap()))
        .collect()
}

#[test]
fn on_the_sources_machine_all_its_claims_hold() {
    for (id, verdict) in verdicts(&view(Profile::Paper, 5, as_published)) {
        assert_eq!(verdict, Verdict::Holds, "{id}");
    }
}

#[test]
fn where_nothing_gains_they_do_not_hold() {
    let flat = |case: Case| {
        let mut figures = as_published(case);
        figures[0] = (TIME, 1_000.0);
        figures[2] = (LEAST_CPU, 0.8);
        figures[4] = (PENDING, 2.0);
        figures
    };
    let holds = |id: &str| {
        [
            "single-thread-gains-nothing-from-cpus",
            "pool-equal-on-one-cpu",
            "unoptimised-server-does-not-scale",
        ]
        .contains(&id)
    };
    for (id, verdict) in verdicts(&view(Profile::Paper, 5, flat)) {
        let expected = if holds(id) {
            Verdict::Holds
        } else {
            Verdict::DoesNotHold
        };
        assert_eq!(verdict, expected, "{id}");
    }
}

#[test]
fn with_two_cpus_none_is_decided_that_needs_others_for_the_clients() {
    let found = verdicts(&view(Profile::Standard, 2, as_published));
    let of = |id: &str| found.iter().find(|(of, _)| *of == id).unwrap().1;
    assert_eq!(of("pool-equal-on-one-cpu"), Verdict::Holds);
    assert_eq!(of("single-thread-gains-nothing-from-cpus"), Verdict::Holds);
    for id in [
        "unoptimised-server-does-not-scale",
        "split-reactors-gain-10pct-on-two-cpus",
        "pool-doubles-on-two-cpus",
        "pool-quadruples-on-four-cpus",
    ] {
        assert_eq!(of(id), Verdict::NotTestable, "{id}");
    }
    // The figure is quoted all the same.
    let answer = read(&view(Profile::Standard, 2, as_published));
    assert!(
        answer.tables[1]
            .rows
            .iter()
            .any(|row| row[1].starts_with("the server and its clients together"))
    );
}

#[test]
fn one_reactor_on_all_cpus_is_set_against_one_whose_clients_have_as_many() {
    // Nothing but the clients' CPUs makes a difference.
    let by_clients = |case: Case| {
        let clients = match (case.load, case.cpus - case.server_cpus) {
            (Load::TalkFromLast, _) => 1,
            (_, 0) => case.cpus,
            (_, others) => others,
        };
        vec![(TIME, 1_000.0 / clients as f64)]
    };
    for profile in Profile::ALL {
        for cpus in [2, 3, 4, 5, 8] {
            let found = verdicts(&view(profile, cpus, by_clients));
            let of = |id: &str| found.iter().find(|(of, _)| *of == id).unwrap().1;
            let says = format!("{} on {cpus}", profile.name());
            assert_eq!(
                of("single-thread-gains-nothing-from-cpus"),
                Verdict::Holds,
                "{says}"
            );
            let expected = match (cpus, profile) {
                (..5, _) => Verdict::NotTestable,
                (_, Profile::Quick) => Verdict::NotMeasured,
                _ => Verdict::Holds,
            };
            assert_eq!(of("unoptimised-server-does-not-scale"), expected, "{says}");
        }
    }
}

#[test]
fn where_the_clients_cpu_is_full_no_gain_is_judged() {
    for (used, expected) in [(0.8, Verdict::Holds), (0.95, Verdict::Inconclusive)] {
        let found = verdicts(&view(Profile::Quick, 2, |_| {
            vec![(TIME, 1_000.0), (CLIENTS, used)]
        }));
        let of = |id: &str| found.iter().find(|(of, _)| *of == id).unwrap().1;
        assert_eq!(of("single-thread-gains-nothing-from-cpus"), expected, "{used}");
    }
}

#[test]
fn what_was_pending_is_told_as_two_counts() {
    let of = |pending: [f64; 2]| {
        let figures = move |case: Case| vec![(PENDING, pending[usize::from(case.design == SPLIT.design)])];
        let view = view(Profile::Quick, 2, figures);
        let id = "one-reactor-allows-one-operation-per-connection";
        let claims = read(&view).claims.into_iter();
        let (_, test) = claims.into_iter().find(|(of, _)| *of == id).unwrap();
        let claim = claim(id).unwrap();
        decide(claim, &claim.unit, &test.evidence(&view, claim), testing::ALPHA)
    };
    for (pending, verdict) in [
        ([1.0, 2.0], Verdict::Holds),
        ([2.0, 2.0], Verdict::DoesNotHold),
        ([1.0, 1.0], Verdict::DoesNotHold),
        ([2.0, 1.0], Verdict::DoesNotHold),
    ] {
        assert_eq!(of(pending).verdict, Some(verdict), "{pending:?}");
    }
    let told = of([2.0, 2.0]);
    assert!(
        told.says.contains(": 2 [2, 2] here; the rule asks for 1."),
        "{}",
        told.says
    );
    let both = "2 pending with one reactor and 2 with two: 2 [2, 2]";
    assert_eq!(told.reason.as_deref(), Some(both));
}

#[test]
fn standard_has_all_loads_of_claims_about_them_and_one_load_refutes_and_does_not_confirm() {
    let id = "pool-doubles-on-two-cpus";
    let of = |view: &View<'_>| verdicts(view).into_iter().find(|(of, _)| *of == id).unwrap().1;
    let whole = || view(Profile::Standard, 5, as_published);
    for (id, verdict) in verdicts(&whole()) {
        assert_eq!(verdict, Verdict::Holds, "{id}");
    }
    let of_one_load = |view| {
        testing::changed(view, |cases| {
            cases.retain(|case| Case::possible(&case.params).unwrap().connections <= CLAIMED);
        })
    };
    assert_eq!(of(&of_one_load(whole())), Verdict::Inconclusive);
    let flat = |case| vec![(TIME, 1_000.0), (CPU, 1.0), (as_published(case)[2].0, 0.0)];
    let flat = view(Profile::Standard, 5, flat);
    assert_eq!(of(&of_one_load(flat)), Verdict::DoesNotHold);
}

#[test]
fn a_delivery_that_costs_another_time_with_half_the_connections_is_told() {
    let of = |half_ns: f64| -> Vec<String> {
        let ns = |case: Case| {
            if case.connections == HALF {
                half_ns
            } else {
                1_000.0
            }
        };
        let view = view(Profile::Standard, 2, |case| vec![(CPU, ns(case))]);
        let tables = read(&view).tables.into_iter();
        let rows = tables
            .filter(|table| table.id == "halved")
            .flat_map(|table| table.rows);
        rows.map(|row| row[2].clone()).collect()
    };
    assert_eq!(of(1_010.0), ["yes"; 8]);
    assert_eq!(of(1_100.0), ["no"; 8]);
}

#[test]
fn the_sources_curves_are_drawn_on_all_cpus_too_and_say_who_runs_where() {
    let figures = |case| [as_published(case), vec![(DELAY_P99, 1e6)]].concat();
    let found = read(&view(Profile::Standard, 2, figures)).figures;
    for id in ["throughput-2", "efficiency-2", "delay-2"] {
        let figure = found.iter().find(|figure| figure.id == id).unwrap();
        assert!(
            figure
                .title
                .ends_with("the server and its clients together on 2 CPUs"),
            "{}",
            figure.title
        );
        assert!(figure.note.contains("share these CPUs"), "{}", figure.note);
        let points = |name: &str| {
            let line = figure.series.iter().find(|series| series.name == name);
            line.unwrap().points.len()
        };
        let lines = ["one-handler-reactor", "reactor", "pool 1:1"];
        assert_eq!(lines.map(points), [2, 2, 2], "{id}");
    }
}

#[test]
fn each_cpu_is_drawn_with_who_has_it() {
    let figures = |_| vec![(USED[0], 0.9), (USED[1], 0.6)];
    let found = read(&view(Profile::Standard, 2, figures)).figures;
    let lines = |id: &str| -> Vec<(String, f64, usize)> {
        let figure = found.iter().find(|figure| figure.id == id).unwrap();
        let line = |of: &threadgauge_results::Series| (of.name.clone(), of.points[0].y, of.points.len());
        figure.series.iter().map(line).collect()
    };
    let line = |name: &str, share| (name.to_owned(), share, 8);
    assert_eq!(
        lines("cpus-1"),
        [line("CPU 1, the server's", 0.9), line("CPU 2, the clients'", 0.6)]
    );
    assert_eq!(
        lines("cpus-2"),
        [line("CPU 1, shared", 0.9), line("CPU 2, shared", 0.6)]
    );
    let says_of_how_many = |cpus| {
        let view = view(Profile::Quick, cpus, figures);
        let figure = read(&view)
            .figures
            .into_iter()
            .find(|figure| figure.id == "cpus-1");
        figure.unwrap().note.ends_with(" Of the first 8 CPUs.")
    };
    assert_eq!([8, 9].map(says_of_how_many), [false, true]);
}

#[test]
fn the_busiest_is_who_wanted_most() {
    let of = |reading, writing, client| {
        let figures = move |_| {
            vec![
                (TIME, 1e3),
                (CPU, 5e2),
                (READING_WANTS, reading),
                (WRITING_WANTS, writing),
                (CLIENT_WANTS, client),
            ]
        };
        let view = view(Profile::Quick, 2, figures);
        let table = &read(&view).tables[0];
        (table.rows[0][4].clone(), table.rows[0][11].clone())
    };
    let (rate, busiest) = of(0.4, 0.97, 0.9);
    assert!(
        rate.starts_with("1000") && busiest == "writing, 97 %",
        "{rate}, {busiest}"
    );
    assert_eq!(of(0.4, 0.5, 0.9).1, "a client, 90 %");
}

#[test]
fn claims_that_compare_with_the_sources_server_hang_on_its_design_and_on_clients_that_send_all_the_time() {
    // The pool gains as published over one that waits for both, and over one message at a time; over the source's
    // server nothing.
    let over_others = |case: Case| {
        let is_one_at_a_time = case.load != Load::Clogged && case.outstanding == Window::Messages(1);
        let is_original = case.design == ORIGINAL.design && !is_one_at_a_time;
        let mut figures = as_published(case);
        if is_original {
            figures[0] = (TIME, 1_000.0 / case.server_cpus as f64);
            figures[4] = (PENDING, 2.0);
        }
        figures
    };
    let found = verdicts(&view(Profile::Standard, 5, over_others));
    for id in [
        "one-reactor-allows-one-operation-per-connection",
        "split-reactors-gain-10pct-on-two-cpus",
        "pool-doubles-on-two-cpus",
        "pool-quadruples-on-four-cpus",
        "unoptimised-server-does-not-scale",
    ] {
        let (_, verdict) = found.iter().find(|(of, _)| *of == id).unwrap();
        assert_eq!(*verdict, Verdict::DoesNotHold, "{id}");
    }
}

#[test]
fn the_six_environments_have_a_table_and_three_charts() {
    let figures = |case: Case| {
        let cpus = case.server_cpus as f64;
        let white_box = [
            (READING, 0.5),
            (WRITING, cpus / 2.0),
            (CLIENTS, 0.7),
            (WINDOW, 4.0),
        ];
        [
            as_published(case),
            white_box.to_vec(),
            vec![(DELAY_P99, 1e6 * cpus)],
        ]
        .concat()
    };
    let found = read(&view(Profile::Standard, 5, figures));
    let names: Vec<String> = [1, 2, 4]
        .into_iter()
        .flat_map(|cpus| ['B', 'O'].map(|version| format!("CPU-{cpus}-JAWS-{version}")))
        .collect();
    for (id, last) in [("environment-throughput", 4_000.0), ("environment-delay", 4.0)] {
        let figure = found.figures.iter().find(|figure| figure.id == id).unwrap();
        let lines: Vec<&String> = figure.series.iter().map(|line| &line.name).collect();
        assert_eq!(lines, names.iter().collect::<Vec<_>>());
        assert!(figure.series.iter().all(|line| line.points.len() == 5), "{id}");
        let y = figure.series[5].points[4].y;
        assert!((y - last).abs() < 1e-6, "{id}: {y}");
    }
    let white_box = found
        .figures
        .iter()
        .find(|figure| figure.id == "environment-white-box");
    let lines = &white_box.unwrap().series;
    assert_eq!(
        lines.iter().map(|line| line.points.len()).collect::<Vec<_>>(),
        [6, 6, 6]
    );
    assert_eq!(lines[1].points[5].y, 2.0);
    let table = found
        .tables
        .iter()
        .find(|table| table.id == "environments")
        .unwrap();
    assert_eq!(table.rows.len(), 30);
    assert_eq!(
        table.rows[4][..3],
        ["CPU-4-JAWS-B", "one-handler-reactor", "1000"]
    );
    assert_eq!(table.rows[5][..4], ["CPU-4-JAWS-O", "pool 1:3", "1000", "4"]);
    // The pool of one and of two CPUs is the same, in another environment.
    assert_eq!(table.rows[1][1], table.rows[3][1]);

    let fewer = read(&view(Profile::Standard, 4, figures));
    let of_them = |id: &str| id.starts_with("environment");
    assert!(!fewer.figures.iter().any(|figure| of_them(&figure.id)));
    assert!(!fewer.tables.iter().any(|table| of_them(&table.id)));
}

#[test]
fn other_conditions_stand_beside_those_of_claims() {
    let found = read(&view(Profile::Standard, 2, |case: Case| {
        vec![
            (TIME, 1_000.0),
            (CPU, 900.0),
            (WINDOW, 4.0),
            (NETWORK, case.group as f64),
        ]
    }));
    let table = found
        .tables
        .iter()
        .find(|table| table.id == "variations")
        .unwrap();
    assert_eq!(table.rows.len(), 12);
    let says = [
        "the base: groups of ten that send all the time",
        "one message at a time",
        "groups of four: a read, three writes",
        "a link of 100 Mbit/s",
    ];
    for (rows, says) in table.rows.chunks(3).zip(says) {
        assert!(rows.iter().all(|row| row[0] == says), "{rows:?}");
        let designs: Vec<&str> = rows.iter().map(|row| &*row[1]).collect();
        assert_eq!(designs, ["one-handler-reactor", "reactor", "pool 1:1"]);
    }
    let says: Vec<&str> = found.facts.iter().map(|fact| &*fact.says).collect();
    assert!(
        says.iter()
            .any(|says| says.starts_with("4 ") && says.contains("saturate one-handler-reactor"))
    );
    assert!(
        says.iter()
            .any(|says| says.contains("waits until all have its message"))
    );
}

#[test]
fn runs_from_before_are_shown_under_their_own_names_and_decide_no_claim() {
    let today = view(Profile::Standard, 2, as_published);
    let before = testing::changed(today, |cases| {
        cases.retain(|case| {
            let case = Case::possible(&case.params).unwrap();
            let is_new = case.design == ORIGINAL.design || case.outstanding == Window::Saturating;
            !is_new && case.group == REACTOR.group && case.link == REACTOR.link
        });
        for case in cases {
            case.params = Case::possible(&case.params).unwrap().any(&["group", "link"]);
        }
    });
    let found = read(&before);
    assert!(found.figures.iter().any(|figure| figure.id == "throughput-1"));
    assert!(
        found.answer.contains("1.00 million deliveries a second"),
        "{}",
        found.answer
    );
    assert!(!found.comparisons.is_empty());
    for Pair { a, b } in &found.comparisons {
        assert!(
            [a, b]
                .iter()
                .all(|params| before.planned((*params).clone()).count() == 1)
        );
    }
    for (id, verdict) in verdicts(&before) {
        assert!(
            [Verdict::NotMeasured, Verdict::NotTestable].contains(&verdict),
            "{id}: {verdict:?}"
        );
    }
}

#[test]
fn the_answer_and_the_charts_have_what_there_is() {
    let whole = read(&view(Profile::Standard, 2, as_published));
    let says = "With the server on one CPU and its clients on another, one reactor makes 1.00 million deliveries a second to groups of \
                ten, nine of each message, for 1000 connections that send all the time, 1.00 million a second of its CPU time. \
                Of no other design do these rounds show that it makes more or fewer.";
    assert!(whole.answer.starts_with(says), "{}", whole.answer);
    assert!(whole.figures.iter().any(|figure| figure.id == "throughput-1"));
    assert!(
        whole
            .facts
            .iter()
            .any(|fact| fact.says.contains("A pool of 1:3 forwards"))
    );
    let nothing = read(&testing::view(EXPERIMENT.id, Profile::Quick, Vec::new()));
    assert!(nothing.figures.is_empty() && nothing.facts.is_empty() && nothing.rankings.is_empty());
    assert!(nothing.answer.is_empty());
}

#[test]
fn what_many_more_connections_change_is_said_where_they_were_measured() {
    let dearer_with_many = |case: Case| {
        let is_many = case.connections > MOST;
        let [cpu_ns, delay_ns, bytes] = if is_many {
            [3_000.0, 40_000.0, 2_048.0]
        } else {
            [1_000.0, 10_000.0, 1_024.0]
        };
        vec![(CPU, cpu_ns), (DELAY_P99, delay_ns), (MEMORY, bytes)]
    };
    let found = |profile| {
        let view = view(profile, 2, dearer_with_many);
        let facts = read(&view).facts.into_iter().map(|fact| fact.says);
        facts.filter(|says| says.contains("19000")).collect::<Vec<_>>()
    };
    assert_eq!(found(Profile::Quick), [""; 0]);
    assert_eq!(
        found(Profile::Standard),
        [
            "With 19000 connections reactor forwards 0.33 [0.33, 0.33] times as many messages a server CPU second as with 10000.",
            "With 19000 connections to reactor the delay's 99th percentile is 4.00 [4.00, 4.00] times that with 10000.",
            "Each of 19000 connections adds 2.00 [2.00, 2.00] KiB to the memory of reactor.",
        ]
    );
}

#[test]
fn what_to_take_is_what_forwards_more_beyond_chance_and_what_one_reactor_waits_for_is_said() {
    let says = |ours: f64, wants: f64| {
        let found = read(&view(Profile::Standard, 2, |case: Case| {
            let ns = if case.design == ORIGINAL.design {
                ours
            } else {
                1_000.0
            };
            vec![
                (TIME, ns),
                (CPU, 900.0),
                (READING_WANTS, wants),
                (CLIENT_WANTS, 0.5),
            ]
        }));
        [found.answer, found.advice].join(" ")
    };
    let alike = says(1_000.0, 0.95);
    let (none, limit) = (
        "it is the simplest, and these rounds show no design that makes more. What limits one reactor on one CPU: the \
         server's thread runs or waits for a CPU in 95.0 % of the time.",
        "What limits",
    );
    assert!(alike.ends_with(none), "{alike}");
    let more = says(500.0, 0.5);
    assert!(
        more.ends_with("Take one reactor for groups, the simplest, but where another makes more. With the server on one CPU and its clients on another take one-handler-reactor: it makes 2.00 times as many deliveries. With the server and its clients together on 2 CPUs take one-handler-reactor: it makes 2.00 times as many deliveries."),
        "{more}"
    );
    assert!(
        more.contains("these rounds show one to differ: one-handler-reactor makes 2.00 times as many."),
        "{more}"
    );
    assert!(!more.contains(limit), "{more}");
    let less = says(2_000.0, 0.5);
    assert!(
        less.contains("one-handler-reactor makes 0.50 times as many.") && less.contains("Take one reactor"),
        "{less}"
    );
    assert!(
        read(&testing::view(EXPERIMENT.id, Profile::Quick, Vec::new()))
            .advice
            .is_empty()
    );
}
