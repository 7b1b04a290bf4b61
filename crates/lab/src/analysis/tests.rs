//! What a look decides, which cases continue after it, and what disturbed rounds say. All on stored runs of a toy
//! experiment.

use std::time::Duration;

use threadgauge_results::{Lack, Metric as Measured, Need, RunRecord, Sample, Separated, Table};

use super::*;
use crate::experiment::Experiment;
use crate::grid::Plan;
use crate::launch::parse_answer;
use crate::statistic::{Metric, metric};
use crate::testing;
use crate::worker::CaseError;

const TIME: Metric = metric("elapsed_ns", "ns");
/// Its rule: at least 1.05.
const AT_LEAST: &str = "small-jobs-threads-faster";
/// Its rule: from 0.9 to 1.11.
const BETWEEN: &str = "print-processes-and-threads-equally-fast";
/// Its rule: at most 1.05.
const AT_MOST: &str = "short-work-gains-nothing-from-threads";

fn case(n: u64) -> Params {
    Params::new()
        .with("n", n)
        .with("cpus", if n == 4 { 2 } else { 1 })
}

fn ratio(n: u64) -> Statistic {
    TIME.of(case(n)).over(TIME.of(case(0)))
}

const fn toy(read: fn(&View<'_>) -> Answer) -> Experiment {
    Experiment {
        id: "toy",
        question: "",
        first_run: true,
        sources: &[],
        primary: const { &[TIME] },
        how: "",
        control: "",
        traps: &[],
        source: "",
        calls: &[],
        plan: |_| Plan {
            cases: Vec::new(),
            reference: Params::new(),
            budget: Duration::ZERO,
        },
        run: |_, _| unreachable!("the run is stored"),
        read,
    }
}

static TOY: Experiment = toy(|view| Answer {
    claims: vec![
        (AT_LEAST, ratio(1).into()),
        (BETWEEN, ratio(2).into()),
        (AT_MOST, ratio(4).into()),
    ],
    comparisons: vec![Pair::of(&TIME.of(case(0)), &TIME.of(case(2)))],
    rankings: vec![("Least first".to_owned(), [0, 1, 2].map(case).to_vec())],
    costs: [0, 1, 3]
        .iter()
        .filter_map(|&n| view.cost(("make", "thread"), "by hand", &TIME.of(case(n)), "ns"))
        .collect(),
    ..Answer::default()
});
/// The same where nobody claims anything.
static WITHOUT_CLAIMS: Experiment = toy(|_| Answer::default());
const CATALOGUE: Catalogue = Catalogue {
    experiments: &[&TOY],
    tables: &[over_several],
};

/// A table of what a run has of its experiment, and of one that is no part of it.
fn over_several(run: &Whole<'_>) -> Option<Table> {
    let (toy, other) = (run.view("toy"), run.view("other"));
    let time = toy.value(&TIME.of(case(0)))?;
    let lack = other.rounds(&TIME.of(case(0))).unwrap_err();
    let on = format!("{} CPUs, {} cores", run.site.cpus.len(), run.site.cores);
    Some(crate::chart::table(
        "together",
        "Together",
        "",
        ["toy", "other", "on"],
        vec![vec![format!("{:.0}", time.round()), lack.says, on]],
    ))
}

/// What a case took in a round, and how many CPUs other programs used beside it, which disturbs it from 0.05 on.
type Took = fn(case: u64, round: u32) -> (f64, f64);

/// A stored run.
struct Run {
    store: Store,
    _dir: tempfile::TempDir,
}

impl Run {
    fn new(profile: Profile) -> Self {
        Self::started(profile, &[], 0)
    }

    /// Of a command with these options, and with so much extra work.
    fn started(profile: Profile, options: &[&str], handicap_percent: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let record = RunRecord {
            id: "toy".to_owned(),
            started: String::new(),
            profile: profile.name().to_owned(),
            seed: 1,
            version: "0".to_owned(),
            rounds: None,
            cpus: vec![0, 1],
            handicap_percent,
            options: options.iter().map(ToString::to_string).collect(),
            in_turns_with: None,
            each: None,
            runtimes: Vec::new(),
        };
        let cases = [0, 1, 2, 4].map(|n| StoredCase {
            id: case(n).case_id("toy"),
            params: case(n),
            estimate_ms: 1,
            skip: None,
        });
        let plan = StoredExperiment {
            id: "toy".to_owned(),
            reference: None,
            stopped_because: None,
            cases: cases.to_vec(),
        };
        let store = Store::create(dir.path(), &record, &serde_json::Value::Null, &[plan]).unwrap();
        Self { store, _dir: dir }
    }

    fn add(&mut self, n: u64, round: u32, sample: Sample, gated: bool) {
        let tried = StoredSample {
            experiment: "toy".to_owned(),
            case: case(n).case_id("toy"),
            round,
            copy: 0,
            nth_try: 0,
            attempt: 0,
            gated,
            started: String::new(),
            wall_ns: 1,
            sample,
        };
        self.store.add(&tried).unwrap();
    }

    /// Takes these rounds of these cases.
    fn measure(&mut self, rounds: std::ops::RangeInclusive<u32>, cases: &[u64], took: Took) {
        for (round, n) in rounds.flat_map(|round| cases.iter().map(move |n| (round, *n))) {
            let (value, foreign) = took(n, round);
            let sample = Sample {
                status: Status::Ok,
                reason: None,
                tags: Vec::new(),
                metrics: vec![Measured {
                    name: TIME.name.to_owned(),
                    unit: "ns".to_owned(),
                    value,
                }],
                noise: BTreeMap::from([("foreign_cpus".to_owned(), foreign)]),
            };
            self.add(n, round, sample, foreign > 0.05);
        }
    }

    /// Takes these rounds of these cases, then a look.
    fn take(&mut self, rounds: std::ops::RangeInclusive<u32>, cases: &[u64], took: Took) {
        let last = *rounds.end();
        self.measure(rounds, cases, took);
        let tries = u32::try_from(self.store.samples("toy").unwrap().len()).unwrap();
        self.store.add_look("toy", Look { rounds: last, tries }).unwrap();
    }

    fn result(&self) -> ExperimentResult {
        analyse(CATALOGUE, &self.store).unwrap().experiments.remove(0)
    }

    fn finding(&self, claim: &str) -> Finding {
        let mut findings = self.result().findings.into_iter();
        findings.find(|f| f.claim.as_deref() == Some(claim)).unwrap()
    }

    fn verdict(&self, claim: &str) -> Verdict {
        self.finding(claim).verdict.unwrap()
    }

    fn going_on(&self) -> Vec<u64> {
        let on = going_on(CATALOGUE, &self.store, "toy").unwrap();
        let n = |id: String| {
            [0, 1, 2, 4]
                .into_iter()
                .find(|n| case(*n).case_id("toy") == id)
                .unwrap()
        };
        let mut on: Vec<u64> = on.into_iter().map(n).collect();
        on.sort_unstable();
        on
    }
}

/// A little noise, so that no two rounds are the same.
fn noise(n: u64, round: u32) -> f64 {
    1.0 + 0.001 * f64::from((round * 7 + u32::try_from(n).unwrap() * 3) % 5)
}

/// Case 1 takes 1.5 times as long as case 0, case 2 as long, and case 4 scatters around the bound of its rule.
fn took(n: u64, round: u32) -> (f64, f64) {
    let of_case = match n {
        1 => 150.0,
        4 => [90.0, 120.0][round as usize % 2],
        _ => 100.0,
    };
    (of_case * noise(n, round), 0.0)
}

#[test]
fn what_a_look_decides_stays_decided_and_its_cells_do_not_go_on() {
    let mut run = Run::new(Profile::Quick);
    run.take(1..=7, &[0, 1, 2, 4], took);
    let [at_least, between] = [AT_LEAST, BETWEEN].map(|claim| run.finding(claim));
    assert_eq!(
        [&at_least, &between].map(|f| f.verdict),
        [Some(Verdict::Holds); 2]
    );
    assert_eq!(run.going_on(), [0, 4], "the cells of the claim that is open");
    // Rounds may follow all the same, e.g. because the other of two runs needs them. These alone would refute the
    // claim.
    run.take(8..=60, &[0, 1, 2, 4], |n, round| {
        if n == 1 { (5.0, 0.0) } else { took(n, round) }
    });
    let later = run.finding(AT_LEAST);
    assert_eq!(
        (later.verdict, later.measured, later.ci95),
        (at_least.verdict, at_least.measured, at_least.ci95)
    );
    assert!(
        later
            .says
            .contains(" Decided after 7 rounds: this figure is of those."),
        "{}",
        later.says
    );
    assert!(!at_least.says.contains("Decided after"), "{}", at_least.says);
}

#[test]
fn what_ended_without_a_look_is_judged_once_with_the_whole_error_probability() {
    let mut run = Run::new(Profile::Quick);
    run.measure(1..=6, &[0, 1, 2, 4], took);
    assert_eq!(run.verdict(AT_LEAST), Verdict::Inconclusive, "it may go on");
    run.store.set_stopped("toy", Some("time-budget")).unwrap();
    assert_eq!(run.verdict(AT_LEAST), Verdict::Holds);
    let level = |result: &ExperimentResult| result.cases[0].summaries[TIME.name].ci_level;
    let whole = level(&run.result()).unwrap();
    assert!((0.95..0.98).contains(&whole));
    // With a look it is judged as one of three.
    run.take(7..=7, &[0, 1, 2, 4], took);
    assert!(level(&run.result()).unwrap() >= 0.978);
}

#[test]
fn a_sample_that_comes_after_a_look_does_not_change_what_it_saw() {
    let mut run = Run::new(Profile::Quick);
    run.take(1..=7, &[0, 1, 2, 4], took);
    let samples = run.store.samples("toy").unwrap();
    let late = samples.iter().find(|s| s.case == case(1).case_id("toy")).unwrap();
    let mut late = StoredSample {
        attempt: 1,
        ..late.clone()
    };
    late.sample.metrics[0].value = 1.0;
    let before = run.finding(AT_LEAST);
    run.store.add(&late).unwrap();
    assert_eq!(run.finding(AT_LEAST), before);
}

#[test]
fn where_precision_is_wanted_cases_with_a_wide_interval_go_on_too() {
    let wide = |n: u64, round: u32| match n {
        1 => ([150.0, 170.0][round as usize % 2], 0.0),
        _ => (if n == 4 { 300.0 } else { 100.0 } * noise(n, round), 0.0),
    };
    for (profile, rounds, expected) in [(Profile::Quick, 7, vec![]), (Profile::Standard, 10, vec![1])] {
        let mut run = Run::new(profile);
        run.take(1..=rounds, &[0, 1, 2, 4], wide);
        assert_eq!(run.going_on(), expected, "{}", profile.name());
    }
    // Nothing is known of their precision before a look.
    const CATALOGUE: Catalogue = Catalogue {
        experiments: &[&WITHOUT_CLAIMS],
        tables: &[],
    };
    let on = |run: &Run| going_on(CATALOGUE, &run.store, "toy").unwrap().len();
    let (mut before, mut after) = (Run::new(Profile::Standard), Run::new(Profile::Standard));
    before.measure(1..=10, &[0, 1, 2, 4], wide);
    after.take(1..=10, &[0, 1, 2, 4], wide);
    assert_eq!([on(&before), on(&after)], [0, 1]);
}

#[test]
fn an_interval_just_as_wide_as_the_rule_allows_is_not_too_wide() {
    // Ten rounds, half of them lower and half of them higher by so much: the interval has both.
    let is_wide = |by: f64| {
        let rounds = (0..10).map(|round| [100.0 - by, 100.0 + by][round % 2]);
        let case = testing::case(case(1), [(TIME, rounds.collect())]);
        is_wide(&case, TIME.name, &StoppingRule::standard())
    };
    assert_eq!([1.9, 2.0, 2.1].map(is_wide), [false, false, true]);
}

#[test]
fn with_too_few_undisturbed_rounds_all_count_and_decide_less() {
    let mut run = Run::new(Profile::Quick);
    run.take(1..=7, &[0, 1, 2, 4], |n, round| {
        let (took, load) = took(if n == 4 { 0 } else { n }, round);
        (took, if round == 3 { 0.2 } else { load })
    });
    assert_eq!(run.verdict(AT_LEAST), Verdict::Holds, "one bound");
    assert_eq!(
        run.verdict(BETWEEN),
        Verdict::Inconclusive,
        "two bounds do not hold"
    );
    assert_eq!(run.verdict(AT_MOST), Verdict::Inconclusive, "one CPU against two");
    assert!(run.finding(AT_LEAST).says.contains("Disturbed"));
    assert_eq!(
        run.result().comparisons[0].verdict,
        "unknown",
        "nothing is the same"
    );
    assert_eq!(
        run.result().rankings[0].title,
        "Least first, disturbed rounds included"
    );
}

#[test]
fn disturbed_cells_decide_nothing_unless_they_were_disturbed_alike() {
    let mut run = Run::new(Profile::Quick);
    run.take(1..=7, &[0, 1, 2, 4], |n, round| {
        (took(n, round).0, if n == 1 { 0.2 } else { 0.16 })
    });
    assert_eq!(run.verdict(AT_LEAST), Verdict::Inconclusive);
    assert_eq!(run.result().rankings, [], "nor are they ranked");
    let mut run = Run::new(Profile::Quick);
    run.take(1..=7, &[0, 1, 2, 4], |n, round| {
        (took(n, round).0, if n == 1 { 0.2 } else { 0.18 })
    });
    assert_eq!(run.verdict(AT_LEAST), Verdict::Holds);
}

#[test]
fn a_ranking_of_too_few_rounds_has_no_letters_and_says_so() {
    let ranking = |rounds: u32| {
        let mut run = Run::new(Profile::Quick);
        run.take(1..=rounds, &[0, 1, 2, 4], |n, round| {
            (1000.0 * 40_f64.powi(n as i32) + f64::from(round % 3), 0.0)
        });
        run.result().rankings.remove(0)
    };
    let letters =
        |of: &Ranking| -> Vec<String> { of.entries.iter().map(|entry| entry.letters.clone()).collect() };
    let few = ranking(5);
    assert_eq!(
        (few.separated, letters(&few)),
        (Separated::Not, vec![String::new(); 3])
    );
    let enough = ranking(7);
    assert_eq!(
        (enough.separated, letters(&enough).concat()),
        (Separated::ByPairs, "abc".to_owned())
    );
}

#[test]
fn enough_undisturbed_rounds_count_alone() {
    let mut run = Run::new(Profile::Quick);
    let late = |n: u64, round: u32| {
        if round > 7 {
            (1000.0 / (n + 1) as f64, 0.2)
        } else {
            took(n, round)
        }
    };
    run.take(1..=10, &[0, 1, 2, 4], late);
    assert_eq!(run.verdict(BETWEEN), Verdict::Holds);
    assert!(!run.finding(BETWEEN).says.contains("Disturbed"));
    assert_eq!(run.result().rankings[0].title, "Least first");
}

/// A run in which case 1 was not measured: its first sample is this one.
fn without_case_1(sample: Sample) -> Run {
    let mut run = Run::new(Profile::Quick);
    run.add(1, 1, sample, false);
    run.take(1..=7, &[0, 2, 4], took);
    run
}

#[test]
fn what_a_case_finds_lacking_as_it_runs_decides_as_if_the_plan_had_known() {
    for (of, verdict) in [
        (Need::Cpus, Verdict::NotTestable),
        (Need::Program, Verdict::NotTestable),
        (Need::System, Verdict::NotTestable),
        (Need::Memory, Verdict::NotMeasured),
        (Need::Profile, Verdict::NotMeasured),
        (Need::Figures, Verdict::Inconclusive),
    ] {
        let skipped = Err(CaseError::Skipped(Lack::new(of, "it is not here")));
        let answer = testing::worker(&TOY, &case(1)).finish(skipped);
        // As the worker answers it.
        let answer = parse_answer(&serde_json::to_vec(&answer).unwrap()).unwrap();
        let run = without_case_1(answer);
        assert_eq!(run.verdict(AT_LEAST), verdict, "{of:?}");
        assert_eq!(
            run.verdict(BETWEEN),
            Verdict::Holds,
            "the other cases have figures"
        );
        // Where only figures lack, more rounds may bring them.
        assert_eq!(run.going_on().contains(&1), of == Need::Figures, "{of:?}");
        let of_case = &run.result().cases[1];
        assert_eq!(of_case.status, Status::Skipped);
        assert_eq!(of_case.reason.as_deref(), Some("it is not here"));
    }
}

#[test]
fn a_stored_sample_that_does_not_name_what_it_lacks_leaves_its_claim_open() {
    let skipped = Sample::without_figures(Status::Skipped, "needs the program x");
    for tags in [vec![], vec!["cold".to_owned()], vec!["lacks-patience".to_owned()]] {
        let of_then = Sample {
            tags,
            ..skipped.clone()
        };
        assert_eq!(without_case_1(of_then).verdict(AT_LEAST), Verdict::Inconclusive);
    }
}

/// Two cells whose ratio lies at the bound of a rule, of seven rounds. Each sample is disturbed by chance, by a load
/// that slows it down: how often a verdict is given, all of them wrong. `docs/method.md` has the table.
#[test]
fn disturbed_rounds_of_cells_disturbed_alike_err_at_an_edge_in_at_most_five_per_cent() {
    const RUNS: u32 = 2_000;
    let documented = include_str!("../../../../docs/method.md");
    for (rule, of, truth, loads) in [
        ("at least 1.05", AT_LEAST, 1.05, [0.15, 0.15]),
        ("at least 1.05", AT_LEAST, 1.05, [0.15, 0.18]),
        ("at least 1.05", AT_LEAST, 1.05, [0.18, 0.15]),
        ("at least 1.05", AT_LEAST, 1.05, [0.03, 0.06]),
        ("0.9 to 1.11, at its upper end", BETWEEN, 1.11, [0.15, 0.15]),
        ("0.9 to 1.11, at its upper end", BETWEEN, 1.11, [0.15, 0.18]),
        ("0.9 to 1.11, at its lower end", BETWEEN, 0.9, [0.15, 0.18]),
    ] {
        let mut rng = fastrand::Rng::with_seed(10);
        let range = claim(of).unwrap().range();
        assert!(truth == range.min || truth == range.max, "{rule}: {range:?}");
        let mut said = [0, 0];
        for _ in 0..RUNS {
            let mut cell = |n: u64, truth: f64, foreign_cpus: f64| {
                let ran_beside = RanBeside {
                    foreign_cpus,
                    ..RanBeside::default()
                };
                let mut view = ViewCase {
                    params: case(n),
                    ran_beside,
                    ..ViewCase::default()
                };
                let (mut all, mut undisturbed) = (BTreeMap::new(), BTreeMap::new());
                for round in 1..=7 {
                    let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
                    let is_disturbed = rng.bool();
                    // Load only ever adds time, so this noise has one side: by two thirds of the load in the mean.
                    let load = if is_disturbed {
                        -foreign_cpus / 1.5 * (1.0 - rng.f64()).ln()
                    } else {
                        0.0
                    };
                    let value = truth * (0.03 * normal + load).exp();
                    all.insert(round, value);
                    if !is_disturbed {
                        undisturbed.insert(round, value);
                    }
                }
                view.all.insert(TIME.name.to_owned(), all);
                view.values.insert(TIME.name.to_owned(), undisturbed);
                view
            };
            let n = if of == AT_LEAST { 1 } else { 2 };
            let cells = vec![cell(0, 100.0, loads[0]), cell(n, 100.0 * truth, loads[1])];
            let cases = Cases::from([("toy".to_owned(), cells)]);
            let view = View {
                experiment: "toy",
                profile: Profile::Quick,
                alpha: StoppingRule::quick().alpha_per_look(),
                fewest: 7,
                cases: &cases,
                planned: &[],
            };
            let finding = finding(&view, of, &ratio(n).into()).unwrap();
            said[0] += u32::from(finding.verdict == Some(Verdict::Holds));
            said[1] += u32::from(finding.verdict == Some(Verdict::DoesNotHold));
        }
        let [holds, fails] = said.map(|n| 100.0 * f64::from(n) / f64::from(RUNS));
        let [one, other] = loads;
        let row = format!("| {rule} | {other} over {one} | {holds:.1} % | {fails:.1} % |");
        assert!(holds + fails <= 5.0, "{row}");
        assert!(
            of != BETWEEN || holds == 0.0,
            "a rule with two ends cannot hold: {row}"
        );
        assert!(documented.contains(&row), "docs/method.md must have: {row}");
    }
}

#[test]
fn what_something_costs_is_its_estimate_where_it_was_measured() {
    let mut run = Run::new(Profile::Standard);
    run.measure(1..=7, &[0, 1, 2], |n, round| {
        (100.0 * (1.0 + n as f64) * noise(n, round), 0.0)
    });
    let costs = run.result().costs;
    // Case 3 is not in the plan.
    assert_eq!(costs.len(), 2);
    for (cost, ns) in costs.iter().zip([100.0, 200.0]) {
        assert_eq!((cost.what.as_str(), cost.kind.as_str()), ("make", "thread"));
        assert!((cost.value / ns - 1.0).abs() < 0.05, "{cost:?}");
        assert!(cost.ci95.is_some());
    }
}

#[test]
fn who_interrupted_a_load_cannot_go_on_with_it_and_who_interrupted_a_run_can() {
    let warned = |options: &[&str]| {
        let mut run = Run::started(Profile::Standard, options, 0);
        run.measure(1..=2, &[0, 1, 2, 4], |_, _| (100.0, 0.0));
        analyse(CATALOGUE, &run.store).unwrap().warnings.remove(0)
    };
    let load = "The load was interrupted; what is here is until then.";
    assert_eq!(warned(&["load nats://localhost"]), load);
    for options in [&["toy"][..], &[], &["toy", "load "]] {
        let says = warned(options);
        assert!(
            says.contains("`threadgauge run --resume DIR` goes on with it"),
            "{says}"
        );
    }
}

#[test]
fn the_last_full_round_is_the_last_in_which_all_that_go_on_were_tried() {
    let plan = |skipped: &[u64]| StoredExperiment {
        id: "toy".to_owned(),
        reference: None,
        stopped_because: None,
        cases: [0, 1, 2]
            .map(|n| StoredCase {
                id: case(n).case_id("toy"),
                params: case(n),
                estimate_ms: 1,
                skip: skipped
                    .contains(&n)
                    .then(|| Lack::new(Need::Profile, "another has it")),
            })
            .to_vec(),
    };
    let sample = |n: u64, round, status| StoredSample {
        experiment: "toy".to_owned(),
        case: case(n).case_id("toy"),
        round,
        copy: 0,
        nth_try: 0,
        attempt: 0,
        gated: false,
        started: String::new(),
        wall_ns: 1,
        sample: Sample::without_figures(status, ""),
    };
    let ok = |n, round| sample(n, round, Status::Ok);
    let failed = |n, round| sample(n, round, Status::Failed);
    let round = |round| [0, 1, 2].map(|n| ok(n, round)).to_vec();
    let last = |samples: &[Vec<StoredSample>]| last_full_round(&plan(&[]), &samples.concat());
    assert_eq!(last(&[]), 0);
    // Of the first round all that can run are wanted.
    assert_eq!(last(&[vec![ok(0, 1), ok(2, 1)]]), 0);
    assert_eq!(last(&[round(1)]), 1);
    let samples = [ok(0, 1), ok(2, 1)];
    assert_eq!(last_full_round(&plan(&[1]), &samples), 1);
    assert_eq!(last_full_round(&plan(&[1, 2]), &samples[..1]), 1);
    // Of a later one those of the round before.
    assert_eq!(last(&[round(1), round(2)]), 2);
    assert_eq!(last(&[round(1), vec![ok(0, 2), ok(1, 2)]]), 1);
    let fewer = [ok(0, 2), ok(1, 2)].to_vec();
    assert_eq!(last(&[round(1), fewer.clone(), vec![ok(0, 3), ok(1, 3)]]), 3);
    assert_eq!(last(&[round(1), fewer.clone(), vec![ok(0, 3), ok(2, 3)]]), 2);
    // One that failed does not go on; one that failed while it was disturbed does.
    assert_eq!(last(&[vec![ok(0, 1), ok(1, 1), failed(2, 1)], fewer.clone()]), 2);
    let disturbed = StoredSample {
        gated: true,
        ..failed(2, 1)
    };
    assert_eq!(last(&[vec![ok(0, 1), ok(1, 1), disturbed], fewer.clone()]), 1);
    // The second copy of the reference is no try of a case.
    let copy = StoredSample { copy: 1, ..ok(2, 2) };
    assert_eq!(last(&[round(1), fewer.clone(), vec![copy]]), 1);
    // What has ended has no other.
    let ended = StoredExperiment {
        stopped_because: Some("rounds".to_owned()),
        ..plan(&[])
    };
    assert_eq!(last_full_round(&ended, &[round(1), fewer].concat()), 2);
}

#[test]
fn a_handicap_is_warned_of_before_all_else_and_without_one_nothing_is() {
    let warnings = |handicap_percent| {
        let mut run = Run::started(Profile::Standard, &[], handicap_percent);
        run.measure(1..=2, &[0, 1, 2, 4], |_, _| (100.0, 0.0));
        let results = analyse(CATALOGUE, &run.store).unwrap();
        // Eight samples of a nanosecond.
        assert!((results.run.measured_s - 8e-9).abs() < 1e-15);
        results.warnings
    };
    let [none, some] = [0, 15].map(warnings);
    assert_eq!(
        some[0],
        "Every timed section does 15 % of extra work: a test of the harness, not a measurement."
    );
    assert_eq!(none, some[1..]);
}

/// A sample of case 1 with this tag.
fn tagged(round: u32, nth_try: u32, attempt: u32, tag: &str) -> StoredSample {
    StoredSample {
        experiment: "toy".to_owned(),
        case: case(1).case_id("toy"),
        round,
        copy: 0,
        nth_try,
        attempt,
        gated: false,
        started: String::new(),
        wall_ns: 1,
        sample: Sample {
            reason: None,
            tags: vec![tag.to_owned()],
            metrics: vec![Measured {
                name: TIME.name.to_owned(),
                unit: "ns".to_owned(),
                value: 1.0,
            }],
            ..Sample::without_figures(Status::Ok, "")
        },
    }
}

fn planned(skip: Option<Lack>) -> StoredCase {
    StoredCase {
        id: case(1).case_id("toy"),
        params: case(1),
        estimate_ms: 1,
        skip,
    }
}

/// What is said of case 1 with these samples.
fn said(skip: Option<Lack>, samples: &[StoredSample]) -> CaseResult {
    let case = planned(skip);
    let samples = super::Measured::samples_of(&case, samples);
    case_result(&case, &view_case(&case, &samples, 0.05), &samples)
}

#[test]
fn a_case_has_the_tags_of_half_of_the_attempts_that_were_not_repeated() {
    let tags = |samples: &[StoredSample]| said(None, samples).tags;
    let [cold, noisy] = ["cold", "noisy"];
    assert_eq!(
        tags(&[tagged(1, 0, 0, cold), tagged(2, 0, 0, noisy)]),
        [cold, noisy]
    );
    let one_of_three = [
        tagged(1, 0, 0, cold),
        tagged(2, 0, 0, noisy),
        tagged(3, 0, 0, noisy),
    ];
    assert_eq!(tags(&one_of_three), [noisy]);
    // Repeated, whatever another round or another try of the same round did.
    let repeated = [
        tagged(1, 0, 0, cold),
        tagged(1, 0, 1, noisy),
        tagged(2, 0, 1, noisy),
    ];
    assert_eq!(tags(&repeated), [noisy]);
    let of_another_round = [tagged(1, 0, 0, cold), tagged(2, 0, 1, noisy)];
    assert_eq!(tags(&of_another_round), [cold, noisy]);
    let of_another_try = [tagged(1, 0, 0, cold), tagged(1, 1, 1, noisy)];
    assert_eq!(tags(&of_another_try), [cold, noisy]);
}

#[test]
fn a_case_without_figures_was_skipped_or_has_failed_and_says_why() {
    let failed = |gated, copy| StoredSample {
        gated,
        copy,
        sample: Sample::without_figures(Status::Failed, "it broke"),
        ..tagged(1, 0, 0, "")
    };
    let skipped = StoredSample {
        sample: Sample::without_figures(Status::Skipped, "needs x"),
        ..failed(false, 0)
    };
    let status = |skip, samples: &[StoredSample]| {
        let of = said(skip, samples);
        (of.status, of.reason)
    };
    let says = |status, why: &str| (status, Some(why.to_owned()));
    let lack = Lack::new(Need::Profile, "another has it");
    assert_eq!(status(Some(lack), &[]), says(Status::Skipped, "another has it"));
    assert_eq!(status(None, &[skipped]), says(Status::Skipped, "needs x"));
    assert_eq!(
        status(None, &[failed(false, 0)]),
        says(Status::Failed, "it broke")
    );
    assert_eq!(
        status(None, &[]),
        says(Status::Failed, "the run ended before it was measured")
    );
    // With figures from some rounds it is told from one that failed nowhere.
    let ok = tagged(2, 0, 0, "cold");
    let some = said(None, &[failed(false, 0), ok.clone()]);
    assert_eq!(
        (some.status, some.reason.as_deref()),
        (Status::Ok, Some("it broke"))
    );
    assert!(some.tags.iter().any(|tag| tag == SOME_ROUNDS_FAILED));
    let all = said(None, std::slice::from_ref(&ok));
    assert_eq!(
        (all.status, all.reason, all.tags),
        (Status::Ok, None, vec!["cold".to_owned()])
    );
    // What failed while all was stopped was taken again.
    assert_eq!(status(None, &[failed(true, 0), ok.clone()]), (Status::Ok, None));
    assert_eq!(status(None, &[failed(true, 0)]), says(Status::Failed, "it broke"));
    // Of the second copy only a failure is the case's own.
    assert_eq!(
        status(None, &[failed(false, 1)]),
        says(Status::Failed, "it broke")
    );
    let copy = StoredSample {
        copy: 1,
        ..tagged(3, 0, 0, "noisy")
    };
    assert_eq!(said(None, &[ok, copy]).tags, ["cold"]);
}

#[test]
fn what_was_discarded_is_counted_and_an_end_by_the_time_budget_is_told() {
    let mut run = Run::new(Profile::Standard);
    run.measure(1..=7, &[0, 1, 2, 4], took);
    for attempt in 1..=2 {
        let again = StoredSample {
            attempt,
            ..tagged(7, 0, 0, "cold")
        };
        run.store.add(&again).unwrap();
    }
    let told = |run: &Run| run.result().diagnostics.iter().any(|d| d.name == "time-budget");
    run.store.set_stopped("toy", Some("rounds")).unwrap();
    assert_eq!(run.result().discarded, 2);
    assert!(!told(&run));
    run.store.set_stopped("toy", Some("time-budget")).unwrap();
    assert!(told(&run));
}

#[test]
fn a_table_over_several_experiments_is_read_off_the_whole_run() {
    let tables = |run: &Run| analyse(CATALOGUE, &run.store).unwrap().tables;
    let mut run = Run::new(Profile::Quick);
    assert_eq!(tables(&run), [], "it has no figure");
    run.measure(1..=7, &[0, 1, 2, 4], took);
    let [table] = &tables(&run)[..] else {
        panic!("{:?}", tables(&run));
    };
    assert_eq!(table.rows[0][0], "100");
    assert!(
        table.rows[0][1].starts_with("needs other/n=0"),
        "{:?}",
        table.rows
    );
    assert_eq!(table.rows[0][2], "2 CPUs, 2 cores");
}
